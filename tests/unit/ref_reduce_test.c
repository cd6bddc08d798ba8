/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, lines along an axis, normalisations and pools of the reference, worked out by hand from the
 * operator texts. */
#include <stdlib.h>

#include "base/compiler.h"
#include "support/cmocka_all.h"
#include "support/ref_case.h"

static void reductions(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"ReduceSum", "f32[2,3]=1.. i64[1]=1", "", "f32[2,1]=6,15"},
        {"ReduceSum", "f32[2,3]=1.. i64[1]=0", "keepdims=0", "f32[3]=5,7,9"},
        {"ReduceSum", "f32[2,2,2]=1..", "axes=0,2 keepdims=0", "f32[2]=14,22"},
        {"ReduceSum", "f32[2,2,2]=1..", "axes=-2 keepdims=0", "f32[2,2]=4,6,12,14"},
        {"ReduceSum", "f32[2,3]=1..", "keepdims=0", "f32[]=21"},
        {"ReduceSum", "f32[2]=1.. i64[0]=", "noop_with_empty_axes=1", "f32[2]=1,2"},
        {"ReduceSum", "f32[2]=1.. i64[0]=", "", "f32[1]=3"},
        {"ReduceSum", "f32[3]=1e8,1,-1e8", "", "f32[1]=1"},
        {"ReduceSum", "f16[2]=2048,1", "", "f16[1]=2048"},
        {"ReduceSum", "i32[2]=2147483647,1", "", "i32[1]=-2147483648"},
        {"ReduceSum", "f32[2,0]=", "axes=1", "f32[2,1]=0"},
        {"ReduceProd", "f32[2,0]=", "axes=1", "f32[2,1]=1"},
        {"ReduceMax", "f32[2,0]=", "axes=1", "f32[2,1]=-inf"},
        {"ReduceMin", "f32[0]=", "", "f32[1]=inf"},
        {"ReduceMax", "i8[2,0]=", "axes=1", "i8[2,1]=-128"},
        {"ReduceMin", "i64[0]=", "", "i64[1]=9223372036854775807"},
        {"ReduceMin", "u8[0]=", "", "u8[1]=255"},
        {"ReduceLogSumExp", "f32[0]=", "", "f32[1]=-inf"},
        {"ReduceMax", "f32[3]=1,nan,2", "", "f32[1]=nan"},
        {"ReduceMin", "f32[2,2]=nan,1,2,3", "axes=1", "f32[2,1]=nan,2"},
        {"ReduceMax", "bool[2,2]=0,0,1,0", "axes=1", "bool[2,1]=0,1"},
        {"ReduceMin", "u64[2]=18446744073709551615,18446744073709551614", "", "u64[1]=18446744073709551614"},
        {"ReduceProd", "f32[4]=1..", "", "f32[1]=24"},
        {"ReduceMean", "f32[4]=1..", "", "f32[1]=2.5"},
        {"ReduceMean", "i32[4]=-1,-2,-3,-4", "", "i32[1]=-2"},
        {"ReduceL1", "f32[3]=-1,2,-3", "", "f32[1]=6"},
        {"ReduceL1", "i32[2]=-1,5", "", "i32[1]=6"},
        {"ReduceL2", "f32[2]=3,-4", "", "f32[1]=5"},
        {"ReduceL2", "i32[2]=3,4", "", "i32[1]=5"},
        {"ReduceSumSquare", "f32[2]=3,4", "", "f32[1]=25"},
        {"ReduceSumSquare", "f32[2]=3,4 i64[0]=", "noop_with_empty_axes=1", "f32[2]=9,16"},
        {"ReduceLogSum", "f32[2]=1,1.7182818", "", "f32[1]=1"},
        {"ReduceLogSumExp", "f32[2]=1000,1000", "", "f32[1]=1000.6931"},
        {"ReduceLogSumExp", "f32[2]=-inf,-inf", "", "f32[1]=-inf"},
        {"ReduceLogSumExp", "f32[2]=inf,1", "", "f32[1]=inf"},
        {"ReduceSum", "f32[]=7", "", "f32[]=7"},
        {"ArgMax", "f32[2,3]=1,3,3,5,4,5", "axis=1 keepdims=0", "i64[2]=1,0"},
        {"ArgMax", "f32[2,3]=1,3,3,5,4,5", "axis=1 keepdims=0 select_last_index=1", "i64[2]=2,2"},
        {"ArgMin", "i32[2,2]=1,0,0,1", "axis=0", "i64[1,2]=1,0"},
        {"ArgMax", "u64[2]=1,18446744073709551615", "", "i64[1]=1"},
        {"ArgMin", "f32[3]=1,nan,0", "", "i64[1]=1"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

static void along_an_axis(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"TopK", "f32[4]=2,3,3,1 i64[1]=3", "", "f32[3]=3,3,2 i64[3]=1,2,0"},
        {"TopK", "f32[4]=2,1,1,3 i64[1]=3", "largest=0", "f32[3]=1,1,2 i64[3]=1,2,0"},
        {"TopK", "f32[3]=1,nan,2", "k=2", "f32[2]=nan,2 i64[2]=1,2"},
        {"TopK", "f32[3]=1,nan,2", "k=3 largest=0", "f32[3]=1,2,nan i64[3]=0,2,1"},
        {"TopK", "i64[2,2]=1,4,3,2", "k=1 axis=0", "i64[1,2]=3,4 i64[1,2]=1,0"},
        {"TopK", "u8[2]=7,7", "k=0", "u8[0]= i64[0]="},
        {"CumSum", "f32[3]=1,2,3 i64[]=0", "", "f32[3]=1,3,6"},
        {"CumSum", "f32[3]=1,2,3", "axis=0 exclusive=1", "f32[3]=0,1,3"},
        {"CumSum", "f32[3]=1,2,3", "axis=-1 reverse=1", "f32[3]=6,5,3"},
        {"CumSum", "i32[2,2]=1..", "axis=0 reverse=1 exclusive=1", "i32[2,2]=3,4,0,0"},
        {"Softmax", "f32[1,3]=0,0.6931472,0", "", "f32[1,3]=0.25,0.5,0.25"},
        {"Softmax", "f32[2,2]=0,1e30,0,1e30", "axis=0", "f32[2,2]=0.5,0.5,0.5,0.5"},
        {"Softmax", "f32[2]=-inf,0", "", "f32[2]=0,1"},
        {"LogSoftmax", "f32[2]=1000,0", "", "f32[2]=0,-1000"},
        {"Hardmax", "f32[2,3]=1,3,3,2,1,0", "", "f32[2,3]=0,1,0,1,0,0"},
        {"LpNormalization", "f32[2,2]=3,4,0,0", "", "f32[2,2]=0.6,0.8,0,0"},
        {"LpNormalization", "f32[2,2]=1,4,-3,4", "axis=0 p=1", "f32[2,2]=0.25,0.5,-0.75,0.5"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

/* Softmax of equal values of a 16-bit type is 1 over the sum, which itself is a value of that type. */
static uint16_t softmax_of_zeros(wf_dtype_t dtype, int64_t count)
{
    wf_arena_t arena;
    wf_tensor_t x = {.type = {.dtype = dtype, .rank = 1, .dims = {count}}}, y = {.data = &arena};
    wf_arena_init(&arena, wf_allocator_system());
    wf_attrs_t attrs = wf_ref_case_attrs(WF_OP_SOFTMAX, "", &arena);
    x.data = calloc((size_t)count, sizeof(uint16_t));
    assert_non_null(x.data);
    wf_assert_ok(wf_ref_case_call(WF_OP_SOFTMAX, &attrs, 1, &x, 1, &y, WF_REF_PLAIN));
    uint16_t first = ((const uint16_t *)y.data)[0];
    for (int64_t i = 1; i < count; i++) {
        assert_int_equal(((const uint16_t *)y.data)[i], first);
    }
    free(x.data);
    wf_ref_case_free(1, &y);
    wf_arena_deinit(&arena);
    return first;
}

static void softmax_rounds_as_its_function_body(void **state)
{
    (void)state;
    assert_int_equal(softmax_of_zeros(WF_DTYPE_BF16, 257), 0x3b80);   /* the sum 257 becomes 256 */
    assert_int_equal(softmax_of_zeros(WF_DTYPE_F16, 2051), 0x0ffc);   /* 2051 becomes 2052 */
    assert_int_equal(softmax_of_zeros(WF_DTYPE_F16, 131072), 0x0080); /* a sum beyond f16 is not infinite */
}

static void normalisations(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"LayerNormalization", "f32[2,2]=1,3,5,9 f32[2]=1,2 f32[2]=0,1", "epsilon=0",
         "f32[2,2]=-1,3,-1,3 f32[2,1]=2,7 f32[2,1]=1,0.5"},
        {"LayerNormalization", "f32[2,2]=1,3,5,7 f32[2,2]=1", "axis=0 epsilon=4",
         "f32[2,2]=-1,-0.33333333,0.33333333,1"},
        {"LayerNormalization", "f32[1,2]=1e8,1.00000016e8 f32[2]=1", "epsilon=0", "f32[1,2]=-1,1"},
        {"LayerNormalization", "f16[1,2]=60000,60064 f16[2]=1", "epsilon=0",
         "f16[1,2]=-1,1 f32[1,1]=60032 _"},
        {"RMSNormalization", "f32[1,2]=3,4 f32[2]=1,2", "epsilon=0", "f32[1,2]=0.84852814,2.2627417"},
        {"InstanceNormalization", "f32[1,2,2]=1,3,5,9 f32[2]=1,2 f32[2]=0,1", "epsilon=0",
         "f32[1,2,2]=-1,1,-1,3"},
        {"GroupNormalization", "f32[1,2,2]=1,1,3,3 f32[2]=1,2 f32[2]=0,1", "num_groups=1 epsilon=0",
         "f32[1,2,2]=-1,-1,3,3"},
        {"BatchNormalization", "f32[1,2,2]=1,2,3,4 f32[2]=1,2 f32[2]=0,1 f32[2]=1,3 f32[2]=4,1", "epsilon=0",
         "f32[1,2,2]=0,0.5,1,3"},
        {"BatchNormalization", "f32[2,1,1]=1,3 f32[1]=1 f32[1]=0 f32[1]=0 f32[1]=0",
         "epsilon=0 training_mode=1 momentum=0.75", "f32[2,1,1]=-1,1 f32[1]=0.5 f32[1]=0.25"},
        {"MeanVarianceNormalization", "f32[1,2,1,2]=1,3,5,9", "", "f32[1,2,1,2]=-1,1,-1,1"},
        {"LRN", "f32[1,3,1]=1,2,3", "size=3 alpha=3 beta=1 bias=0", "f32[1,3,1]=0.2,0.14285714,0.23076923"},
        {"LRN", "f32[1,3,1]=1,2,3", "size=2 alpha=2 beta=1 bias=0", "f32[1,3,1]=0.2,0.15384615,0.33333333"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

static void pools(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"MaxPool", "f32[1,1,4]=1,5,3,4", "kernel_shape=2", "f32[1,1,3]=5,5,4 i64[1,1,3]=1,1,3"},
        {"MaxPool", "f32[1,1,3]=-3,-1,-2", "kernel_shape=2 pads=1,1 strides=2",
         "f32[1,1,2]=-3,-1 i64[1,1,2]=0,1"},
        {"MaxPool", "f32[1,1,4]=1..", "kernel_shape=3 strides=2 ceil_mode=1", "f32[1,1,2]=3,4 _"},
        {"MaxPool", "f32[1,1,4]=1..", "kernel_shape=1 strides=2 pads=0,1 ceil_mode=1", "f32[1,1,2]=1,3 _"},
        {"MaxPool", "f32[1,1,5]=1,2,9,4,5", "kernel_shape=2 dilations=2", "f32[1,1,3]=9,4,9 _"},
        {"MaxPool", "f32[1,1,2,3]=1,2,6,4,5,3", "kernel_shape=2,2", "f32[1,1,1,2]=5,6 i64[1,1,1,2]=4,2"},
        {"MaxPool", "f32[1,1,2,3]=1,2,6,4,5,3", "kernel_shape=2,2 storage_order=1",
         "f32[1,1,1,2]=5,6 i64[1,1,1,2]=3,4"},
        {"MaxPool", "f32[1,2,2]=1,2,4,3", "kernel_shape=2", "f32[1,2,1]=2,4 i64[1,2,1]=1,2"},
        {"MaxPool", "u8[1,1,3]=7,200,9", "kernel_shape=2", "u8[1,1,2]=200,200 _"},
        {"MaxPool", "f32[1,1,3]=1,nan,2", "kernel_shape=2", "f32[1,1,2]=nan,nan _"},
        {"AveragePool", "f32[1,1,4]=1..", "kernel_shape=2", "f32[1,1,3]=1.5,2.5,3.5"},
        {"AveragePool", "f32[1,1,3]=3,6,9", "kernel_shape=3 pads=1,1", "f32[1,1,3]=4.5,6,7.5"},
        {"AveragePool", "f32[1,1,3]=3,6,9", "kernel_shape=3 pads=1,1 count_include_pad=1",
         "f32[1,1,3]=3,6,5"},
        /* the last window hangs over the padded border: what is beyond is not counted */
        {"AveragePool", "f32[1,1,4]=2,4,6,8", "kernel_shape=3 strides=2 ceil_mode=1 count_include_pad=1",
         "f32[1,1,2]=4,7"},
        {"AveragePool", "f32[1,1,4]=2,4,6,8", "kernel_shape=3 strides=2 pads=0,1 count_include_pad=1",
         "f32[1,1,2]=4,4.6666667"},
        {"AveragePool", "f32[1,1,3]=3,6,9", "kernel_shape=2 auto_pad=SAME_UPPER", "f32[1,1,3]=4.5,7.5,9"},
        {"LpPool", "f32[1,1,3]=3,-4,0", "kernel_shape=2", "f32[1,1,2]=5,4"},
        {"LpPool", "f32[1,1,2]=3,-4", "kernel_shape=2 p=1", "f32[1,1,1]=7"},
        {"LpPool", "f32[1,1,2]=3,-4", "kernel_shape=2 p=3", "f32[1,1,1]=4.4979414"},
        {"GlobalAveragePool", "f32[1,2,1,2]=1,3,5,6", "", "f32[1,2,1,1]=2,5.5"},
        {"GlobalMaxPool", "f32[1,2,2]=1,3,6,5", "", "f32[1,2,1]=3,6"},
        {"GlobalLpPool", "f32[1,2,2]=3,4,5,12", "", "f32[1,2,1]=5,13"},
        {"GlobalAveragePool", "f32[1,2]=1,3", "", "f32[1,2]=1,3"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(along_an_axis),
        cmocka_unit_test(softmax_rounds_as_its_function_body),
        cmocka_unit_test(normalisations),
        cmocka_unit_test(pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
