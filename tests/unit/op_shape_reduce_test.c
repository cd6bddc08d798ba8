/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of reductions, normalisations, recurrences, quantisation and our own operators, written by hand from
 * the ONNX operator texts and ops.def. */
#include "base/compiler.h"
#include "support/cmocka_all.h"
#include "support/op_case.h"

static void test_reduce(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"ReduceSum", "f32[3,2,2] i64[1]=1", "", "f32[3,1,2]"},
        {"ReduceSum", "f32[3,2,2]", "axes=1", "f32[3,1,2]"},
        {"ReduceSum", "f32[3,2,2] i64[1]=1", "keepdims=0", "f32[3,2]"},
        {"ReduceSum", "f32[3,2,2]", "axes=-1,0 keepdims=0", "f32[2]"},
        {"ReduceSum", "f32[3,2,2]", "", "f32[1,1,1]"},
        {"ReduceSum", "f32[3,2,2]", "keepdims=0", "f32[]"},
        {"ReduceSum", "f32[3,2,2] i64[0]=", "", "f32[1,1,1]"},
        {"ReduceSum", "f32[3,2,2] i64[0]=", "noop_with_empty_axes=1", "f32[3,2,2]"},
        {"ReduceSum", "f32[3,2,2]", "noop_with_empty_axes=1 keepdims=0", "f32[3,2,2]"},
        {"ReduceSum", "f32[3,2,2] i64[1]", "", "needs 1"},
        {"ReduceSum", "f32[]", "", "f32[]"},
        {"ReduceSum", "f32[2,0,4]", "axes=1", "f32[2,1,4]"},
        {"ReduceMax", "bool[2,3]", "axes=0", "bool[1,3]"},
        {"ReduceSum", "bool[2,3]", "axes=0", "?element type bool"},
        {"ReduceSum", "f32[2,3]", "axes=2", "!axis 2 is out of range"},
        {"ReduceSum", "f32[2,3]", "axes=1,-1", "!given twice"},
        {"ReduceSum", "f32[2,3] f32[1]=0", "", "!expected a list of i64 or i32"},
        {"ArgMax", "f32[2,3]", "", "i64[1,3]"},
        {"ArgMax", "f32[2,3]", "axis=-1 keepdims=0", "i64[2]"},
        {"ArgMin", "f32[2,3]", "axis=2", "!axis 2 is out of range"},
        {"ArgMin", "f32[2,0]", "axis=1", "!axis 1 is empty"},
        {"TopK", "f32[3,4] i64[1]=3", "", "f32[3,3] i64[3,3]"},
        {"TopK", "f32[3,4]", "k=2 axis=0", "f32[2,4] i64[2,4]"},
        {"TopK", "f32[3,4] i64[1]", "", "needs 1"},
        {"TopK", "f32[3,4] i64[1]=5", "", "!k is 5 for an axis of 4"},
        {"TopK", "f32[3,4] i64[1]=-1", "", "!k is -1"},
        {"TopK", "f32[3,4] i64[2]=1,1", "", "!k is -1"},
        {"CumSum", "f32[3,4] i32[]", "", "f32[3,4]"},
        {"CumSum", "f32[3,4]", "axis=-1", "f32[3,4]"},
        {"CumSum", "f32[3,4] i64[]=2", "", "!axis 2 is out of range"},
        {"Trilu", "f32[3,4] i64[]", "upper=0", "f32[3,4]"},
        {"Trilu", "f32[3]", "", "!expected a rank from 2"},
        {"Softmax", "f32[3,4]", "axis=-2", "f32[3,4]"},
        {"Softmax", "f32[]", "", "f32[]"},
        {"Softmax", "f32[3,4]", "axis=2", "!axis 2 is out of range"},
        {"ReverseSequence", "f32[4,5,6] i64[5]", "", "f32[4,5,6]"},
        {"ReverseSequence", "f32[4,5,6] i64[4]", "batch_axis=0 time_axis=1", "f32[4,5,6]"},
        {"ReverseSequence", "f32[4,5,6] i64[4]", "", "!input 1 is i64[4], expected i64[5]"},
        {"ReverseSequence", "f32[4,5] i64[5]", "time_axis=1", "!batch_axis and time_axis are both 1"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_normalisations(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"BatchNormalization", "f32[2,3,4] f32[3] f32[3] f32[3] f32[3]", "", "f32[2,3,4]"},
        {"BatchNormalization", "f16[2,3] f32[3] f32[3] f32[3] f32[3]", "", "f16[2,3]"},
        {"BatchNormalization", "f32[7] f32[1] f32[1] f32[1] f32[1]", "", "f32[7]"},
        {"BatchNormalization", "f32[2,3] f32[3] f32[3] f32[3] f32[3]", "training_mode=1",
         "f32[2,3] f32[3] f32[3]"},
        {"BatchNormalization", "f32[2,3,4] f32[3] f32[3] f32[3] f32[4]", "",
         "!input 4 is f32[4], expected f32[3]"},
        {"BatchNormalization", "f32[2,3,4] f32[3] i32[3] f32[3] f32[3]", "", "!input 2 is of type i32"},
        {"LayerNormalization", "f32[2,3,4] f32[4] f32[4]", "", "f32[2,3,4] f32[2,3,1] f32[2,3,1]"},
        {"LayerNormalization", "f16[2,3,4] f16[3,4]", "axis=1", "f16[2,3,4] f32[2,1,1]"},
        {"LayerNormalization", "f32[2,3,4] f32[4] f32[3]", "", "!input 2"},
        {"LayerNormalization", "f32[2,3,4] f32[4]", "axis=3", "!axis 3 is out of range"},
        {"LayerNormalization", "f32[2,3,4] f32[4]", "stash_type=7", "!stash_type is 7"},
        {"InstanceNormalization", "f32[2,3,4] f32[3] f32[3]", "", "f32[2,3,4]"},
        {"InstanceNormalization", "f32[2,3] f32[3] f32[3]", "", "!expected a rank from 3"},
        {"GroupNormalization", "f32[2,6,4] f32[6] f32[6]", "num_groups=3", "f32[2,6,4]"},
        {"GroupNormalization", "f32[2,6,4] f32[6] f32[6]", "num_groups=4",
         "!6 channels do not divide into 4"},
        {"GroupNormalization", "f32[2,6,4] f32[6] f32[6]", "num_groups=0", "!into 0 groups"},
        {"GroupNormalization", "f32[2,6,4] f32[6] f32[6]", "", "!num_groups is missing"},
        {"RMSNormalization", "f16[2,3,4] f32[4]", "", "f32[2,3,4]"},
        {"RMSNormalization", "f32[2,3,4] f32[5]", "", "!input 1: f32[5] does not broadcast"},
        {"LpNormalization", "f32[2,3]", "p=1 axis=0", "f32[2,3]"},
        {"LpNormalization", "f32[2,3]", "p=3", "!p is 3, allowed are 1|2"},
        {"MeanVarianceNormalization", "f32[2,3,4,5]", "", "f32[2,3,4,5]"},
        {"MeanVarianceNormalization", "f32[2,3]", "", "!axis 2 is out of range"},
        {"LRN", "f32[2,3,4,4]", "size=3", "f32[2,3,4,4]"},
        {"LRN", "f32[2,3,4,4]", "size=0", "!size is 0"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_recurrent(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"LSTM", "f32[5,2,3] f32[1,16,3] f32[1,16,4]", "hidden_size=4", "f32[5,1,2,4] f32[1,2,4] f32[1,2,4]"},
        {"LSTM", "f32[5,2,3] f32[2,16,3] f32[2,16,4] f32[2,32] i32[2] f32[2,2,4] f32[2,2,4] f32[2,12]",
         "direction=bidirectional", "f32[5,2,2,4] f32[2,2,4] f32[2,2,4]"},
        {"LSTM", "f32[2,5,3] f32[1,16,3] f32[1,16,4]", "layout=1", "f32[2,5,1,4] f32[2,1,4] f32[2,1,4]"},
        {"LSTM", "f32[0,2,3] f32[1,16,3] f32[1,16,4]", "", "f32[0,1,2,4]"},
        {"GRU", "f32[5,2,3] f32[1,12,3] f32[1,12,4] f32[1,24]", "linear_before_reset=1",
         "f32[5,1,2,4] f32[1,2,4]"},
        {"RNN", "f32[5,2,3] f32[1,4,3] f32[1,4,4]", "activations=Relu direction=reverse",
         "f32[5,1,2,4] f32[1,2,4]"},
        {"RNN", "f32[5,2,3] f32[1,4,3] f32[1,4,4]", "", "f32[5,1,2,4]"},
        {"LSTM", "f32[5,2,3] f32[1,16,3] f32[1,16,4]", "hidden_size=5", "!hidden_size is 5, input 2 has 4"},
        {"LSTM", "f32[5,2,3] f32[1,12,3] f32[1,16,4]", "", "!input 1 is f32[1,12,3], expected f32[1,16,3]"},
        {"LSTM", "f32[5,2,3] f32[1,16,3] f32[1,16,4]", "direction=bidirectional", "!input 1"},
        {"LSTM", "f32[5,2,3] f32[1,16,3] f32[1,16,4] _ i64[2]", "", "!input 4 is of type i64, expected i32"},
        {"LSTM", "f32[5,2,3] f32[1,16,3] f32[1,16,4] _ i32[5]", "", "!input 4 is i32[5], expected i32[2]"},
        {"LSTM", "f32[5,2,3] f32[1,16,3] f32[1,16,4] _ _ f32[1,3,4]", "", "!input 5"},
        {"LSTM", "f32[5,2,3] f32[1,16,3] f32[1,16,4]", "activations=Sigmoid,Tanh",
         "!activations has 2 names, expected 3"},
        {"LSTM", "f32[5,2,3] f32[1,16,3] f32[1,16,4]", "activations=Sigmoid,Tanh,Cosh",
         "!activation \"Cosh\""},
        {"LSTM", "f32[5,2,3] f32[1,16,3] f32[1,16,4]", "direction=both", "!direction is \"both\""},
        {"LSTM", "f32[5,2] f32[1,16,3] f32[1,16,4]", "", "!input 0 is f32[5,2], expected rank 3"},
        {"GRU", "f32[5,2,3] f32[1,12,3] f32[1,12,9223372036854775807]", "", "#63 bits"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_quantize(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"QuantizeLinear", "f32[6] f32[] u8[]", "", "u8[6]"},
        {"QuantizeLinear", "f32[6] f32[]", "", "u8[6]"},
        {"QuantizeLinear", "f32[6] f32[]", "output_dtype=3", "i8[6]"},
        {"QuantizeLinear", "f32[1,3,2] f32[3] i8[3]", "", "i8[1,3,2]"},
        {"QuantizeLinear", "f32[1,3,2] f32[2] i8[2]", "axis=-1", "i8[1,3,2]"},
        {"QuantizeLinear", "f32[2,5] f32[2,3] i8[2,3]", "block_size=2", "i8[2,5]"},
        {"QuantizeLinear", "f32[6] f32[] f8e4m3fn[1]", "", "f8e4m3fn[6]"},
        {"QuantizeLinear", "f32[6] f32[] i4[]", "", "i4[6]"},
        {"QuantizeLinear", "f32[6] f32[] u8[]", "output_dtype=3", "!input 2 is of type u8, expected i8"},
        {"QuantizeLinear", "f32[6] f32[]", "output_dtype=1", "!the result would be of type f32"},
        {"QuantizeLinear", "f32[6] f32[]", "output_dtype=99", "?output_dtype is 99"},
        {"QuantizeLinear", "f32[1,3,2] f32[2] i8[2]", "", "!input 1 is f32[2], expected f32[3]"},
        {"QuantizeLinear", "f32[1,3,2] f32[3] i8[2]", "", "!input 2 is i8[2], expected i8[3]"},
        {"QuantizeLinear", "f32[2,5] f32[2,3] i8[2,3]", "block_size=3",
         "!input 1 is f32[2,3], expected f32[2,2]"},
        {"QuantizeLinear", "f32[2,5] f32[2,3] i8[2,3]", "block_size=-1", "!block_size is -1"},
        {"QuantizeLinear", "f32[6] f32[6]", "axis=1", "!axis 1 is out of range"},
        {"DequantizeLinear", "u8[4] f32[] u8[]", "", "f32[4]"},
        {"DequantizeLinear", "i8[1,3,2] f16[3]", "", "f16[1,3,2]"},
        {"DequantizeLinear", "i32[4] f32[]", "", "f32[4]"},
        {"DequantizeLinear", "u8[4] f16[] u8[]", "output_dtype=1", "f32[4]"},
        {"DequantizeLinear", "f4e2m1[4] f8e8m0[] ", "output_dtype=1", "f32[4]"},
        {"DequantizeLinear", "f4e2m1[4] f8e8m0[] ", "", "!the result would be of type f8e8m0"},
        {"DequantizeLinear", "u8[4] f32[] i8[]", "", "!input 2 is of type i8"},
        {"DequantizeLinear", "i64[4] f32[]", "", "!input 0 is of type i64"},
        {"DynamicQuantizeLinear", "f32[6,2]", "", "u8[6,2] f32[] u8[]"},
        {"DynamicQuantizeLinear", "f64[6,2]", "", "!input 0 is of type f64, expected f32"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_internal(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"w:Attention", "f32[1,12,64,32] f32[1,12,77,32] f32[1,12,77,16]", "scale=0.125", "f32[1,12,64,16]"},
        {"w:Attention", "f32[1,64,12,32] f32[1,77,12,32] f32[1,77,12,16] f32[1,1,64,77]",
         "scale=1 q_perm=0,2,1,3 k_perm=0,2,1,3 v_perm=0,2,1,3 out_perm=0,2,1,3", "f32[1,64,12,16]"},
        {"w:Attention", "f32[2,3,64,32] f32[2,3,32,77] f32[2,3,77,16]", "scale=1 k_perm=0,1,3,2",
         "f32[2,3,64,16]"},
        {"w:Attention", "f32[64,32] f32[77,32] f32[77,16] bool[64,77]", "scale=1", "f32[64,16]"},
        {"w:Attention", "f32[64,32] f32[77,31] f32[77,16]", "scale=1", "!queries and keys"},
        {"w:Attention", "f32[64,32] f32[77,32] f32[76,16]", "scale=1", "!scores and values"},
        {"w:Attention", "f32[64,32] f32[77,32] f32[77,16] f32[63,77]", "scale=1", "!mask"},
        {"w:Attention", "f32[64,32] f32[77,32] f32[77,16] i32[64,77]", "scale=1", "!the mask is of type i32"},
        {"w:Attention", "f32[64,32] f32[77,32] f32[77,16]", "", "!attribute scale is missing"},
        {"w:Attention", "f32[64,32] f32[77,32] f32[77,16]", "scale=1 q_perm=0,1,2", "!q_perm has 3 values"},
        {"w:Attention", "f32[32] f32[32] f32[32]", "scale=1", "!expected rank 2"},
        {"w:AddLayerNormalization", "f32[1,8,16] f32[1,8,16] f32[16] f32[16]", "", "f32[1,8,16] f32[1,8,16]"},
        {"w:AddLayerNormalization", "f32[1,8,16] f32[1,8,16] f32[8]", "", "!input 2"},
        {"w:SqueezeExcite", "f32[1,32,7,7] f32[8,32,1,1] f32[8] f32[32,8,1,1] f32[32]", "", "f32[1,32,7,7]"},
        {"w:SqueezeExcite", "f32[1,32,7,7] f32[8,32] f32[8] f32[32,8] f32[32]", "", "f32[1,32,7,7]"},
        {"w:SqueezeExcite", "f32[1,32,7,7] f32[8,31] f32[8] f32[32,8] f32[32]", "", "!input 1 is f32[8,31]"},
        {"w:SqueezeExcite", "f32[1,32,7,7] f32[8,32] f32[8] f32[32,8] f32[8]", "", "!input 4"},
        {"w:Convert", "f32[1,8,2,2]", "from=row to=b8", "f32[1,8,2,2]"},
        {"w:Convert", "f32[1,8,2,2]", "from=row to=b7", "!to is \"b7\""},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce),    cmocka_unit_test(test_normalisations),
        cmocka_unit_test(test_recurrent), cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_internal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
