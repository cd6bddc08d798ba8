/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of elementwise operators, written by hand from the ONNX operator texts. */
#include "base/compiler.h"
#include "support/cmocka_all.h"
#include "support/op_case.h"

static void test_one_input(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Relu", "f32[1,2,3]", "", "f32[1,2,3]"},
        {"Relu", "f32[]", "", "f32[]"},
        {"Relu", "f32[0,5]", "", "f32[0,5]"},
        {"Relu", "i32[2]", "", "i32[2]"},
        {"Relu", "bool[2]", "", "?element type bool"},
        {"Relu", "f32[1,2,3,4,5,6,7,8]", "", "f32[1,2,3,4,5,6,7,8]"},
        {"Relu", "", "", "!input 0 is missing"},
        {"Relu", "_", "", "!input 0 is missing"},
        {"Relu", "f32[2] f32[2]", "", "!2 inputs are given"},
        {"Sigmoid", "f64[7]", "", "f64[7]"},
        {"Sigmoid", "bf16[7]", "", "bf16[7]"},
        {"Sigmoid", "i32[7]", "", "?element type i32"},
        {"LeakyRelu", "f16[3]", "alpha=0.2", "f16[3]"},
        {"LeakyRelu", "f16[3]", "beta=1", "!attribute beta is not known"},
        {"LeakyRelu", "f16[3]", "alpha=0.2 alpha=0.3", "!alpha is given twice"},
        {"Gelu", "f32[3]", "approximate=tanh", "f32[3]"},
        {"Gelu", "f32[3]", "approximate=erf", "!attribute approximate is \"erf\", allowed are none|tanh"},
        {"Not", "bool[4]", "", "bool[4]"},
        {"Not", "u8[4]", "", "?element type u8"},
        {"IsNaN", "f32[2,2]", "", "bool[2,2]"},
        {"IsInf", "f8e5m2[2,2]", "detect_negative=0", "bool[2,2]"},
        {"IsInf", "f32[2]", "detect_negative=2", "!detect_negative is 2, allowed are 0|1"},
        {"Clip", "f32[2,3] f32[] f32[]", "", "f32[2,3]"},
        {"Clip", "f32[2,3] _ f32[]", "", "f32[2,3]"},
        {"Clip", "f32[2,3]", "min=0 max=6", "f32[2,3]"},
        {"Clip", "f32[2,3] f32[]", "min=0", "!input 1 is given although"},
        {"Clip", "f32[2,3] i32[]", "", "!input 1 is of type i32, expected f32"},
        {"Clip", "f32[2,3] f32[2]", "", "!expected one element"},
        {"Clip", "i64[2] i64[1]", "", "i64[2]"},
        {"Identity", "str[3]", "", "str[3]"},
        {"Identity", "c64[3]", "", "c64[3]"},
        {"Dropout", "f32[2,3]", "", "f32[2,3] bool[2,3]"},
        {"Dropout", "f32[2,3] f32[] bool[]", "seed=7", "f32[2,3]"},
        {"Dropout", "f32[2,3] f32[] f32[]", "", "!input 2 is of type f32"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_cast(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Cast", "f32[2,3]", "to=7", "i64[2,3]"},
        {"Cast", "f32[2,3]", "to=9", "bool[2,3]"},
        {"Cast", "u4[3]", "to=1", "f32[3]"},
        {"Cast", "f32[3]", "to=17 saturate=0", "f8e4m3fn[3]"},
        {"Cast", "f32[3]", "to=0", "?attribute to is 0"},
        {"Cast", "f32[3]", "to=9999", "?attribute to is 9999"},
        {"Cast", "f32[3]", "to=14", "!attribute to is c64"},
        {"Cast", "f32[3]", "", "!attribute to is missing"},
        {"CastLike", "f32[3] i8[7,7]", "", "i8[3]"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_broadcasting(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Add", "f32[2,3] f32[2,3]", "", "f32[2,3]"},
        {"Add", "f32[2,3] f32[]", "", "f32[2,3]"},
        {"Add", "f32[] f32[2,3]", "", "f32[2,3]"},
        {"Add", "f32[2,3,4,5] f32[5]", "", "f32[2,3,4,5]"},
        {"Add", "f32[4,5] f32[2,3,1,1]", "", "f32[2,3,4,5]"},
        {"Add", "f32[1,4,5] f32[2,3,1,1]", "", "f32[2,3,4,5]"},
        {"Add", "f32[3,1] f32[1,4]", "", "f32[3,4]"},
        {"Add", "f32[0,3] f32[1,3]", "", "f32[0,3]"},
        {"Add", "f32[0] f32[1]", "", "f32[0]"},
        {"Add", "f32[0] f32[3]", "", "!does not broadcast"},
        {"Add", "f32[2,3] f32[2]", "", "!input 1, f32[2], does not broadcast with f32[2,3]"},
        {"Add", "f32[2,3] f64[2,3]", "", "!input 1 is of type f64, expected f32"},
        {"Add", "f32[2,3]", "", "!input 1 is missing"},
        {"Add", "f32[2,3] _", "", "!input 1 is missing"},
        {"Add", "bool[2] bool[2]", "", "?element type bool"},
        {"And", "bool[2,1] bool[3]", "", "bool[2,3]"},
        {"BitShift", "u8[2,1] u8[3]", "direction=LEFT", "u8[2,3]"},
        {"BitShift", "u8[2] u8[2]", "direction=left", "!attribute direction"},
        {"Less", "f32[2,1] f32[1,3]", "", "bool[2,3]"},
        {"Equal", "bool[2] bool[2]", "", "bool[2]"},
        {"Pow", "f32[2,1] i64[3]", "", "f32[2,3]"},
        {"Pow", "f32[2] bool[2]", "", "!exponent is of type bool"},
        {"Mod", "i8[4] i8[1]", "fmod=0", "i8[4]"},
        {"Max", "f32[3]", "", "f32[3]"},
        {"Max", "f32[3,1] f32[1,4] f32[2,1,1]", "", "f32[2,3,4]"},
        {"Sum", "f32[3] f32[3] f32[3] f32[4]", "", "!input 3, f32[4], does not broadcast"},
        {"Max", "f32[3] _ f32[3]", "", "!input 1 is missing"},
        {"Mean", "f32[3] f16[3]", "", "!input 1 is of type f16"},
        {"Where", "bool[2,1] f32[3] f32[1]", "", "f32[2,3]"},
        {"Where", "bool[2,3] i64[] i64[]", "", "i64[2,3]"},
        {"Where", "bool[] str[3] str[]", "", "str[3]"},
        {"Where", "f32[2] f32[2] f32[2]", "", "?element type f32"},
        {"Where", "bool[2] f32[2] i32[2]", "", "!input 2 is of type i32"},
        {"PRelu", "f32[2,3,4,4] f32[3,1,1]", "", "f32[2,3,4,4]"},
        {"PRelu", "f32[2,3] f32[5,2,3]", "", "!slope"},
        {"PRelu", "f32[1,3] f32[2,3]", "", "!slope: f32[2,3] does not broadcast to f32[1,3]"},
        {"Mul", "f32[4611686018427387904,1] f32[1,4]", "", "#too large"},
        {"Mul", "f32[4611686018427387904,1] f32[1,0]", "", "f32[4611686018427387904,0]"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_input),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_broadcasting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
