/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of matrix products and Einsum, written by hand from the ONNX operator texts. */
#include <string.h>

#include "base/compiler.h"
#include "op/einsum.h"
#include "support/cmocka_all.h"
#include "support/op_case.h"

static void test_matmul(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"MatMul", "f32[3,4] f32[4,5]", "", "f32[3,5]"},
        {"MatMul", "f32[2,3,4] f32[2,4,5]", "", "f32[2,3,5]"},
        {"MatMul", "f32[2,1,3,4] f32[7,4,5]", "", "f32[2,7,3,5]"},
        {"MatMul", "f32[4] f32[4,5]", "", "f32[5]"},
        {"MatMul", "f32[3,4] f32[4]", "", "f32[3]"},
        {"MatMul", "f32[4] f32[4]", "", "f32[]"},
        {"MatMul", "f32[4] f32[6,4,5]", "", "f32[6,5]"},
        {"MatMul", "f32[6,3,4] f32[4]", "", "f32[6,3]"},
        {"MatMul", "f32[2,0] f32[0,3]", "", "f32[2,3]"},
        {"MatMul", "f32[0,2] f32[2,3]", "", "f32[0,3]"},
        {"MatMul", "i64[2,2] i64[2,3]", "", "i64[2,3]"},
        {"MatMul", "f32[1,2,3,4,5,6,7,8] f32[8,9]", "", "f32[1,2,3,4,5,6,7,9]"},
        {"MatMul", "f32[] f32[2,3]", "", "!a scalar has no matrix product"},
        {"MatMul", "f32[2,3] f32[2,3]", "", "!the inner dims of f32[2,3] and f32[2,3] differ"},
        {"MatMul", "f32[2,3,4] f32[3,4,5]", "", "!batch dims"},
        {"MatMul", "f32[2,3] f64[3,4]", "", "!input 1 is of type f64"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_gemm(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Gemm", "f32[3,4] f32[4,5]", "", "f32[3,5]"},
        {"Gemm", "f32[4,3] f32[4,5]", "transA=1", "f32[3,5]"},
        {"Gemm", "f32[4,3] f32[5,4]", "transA=1 transB=1", "f32[3,5]"},
        {"Gemm", "f32[3,4] f32[4,5] f32[5]", "beta=0.5", "f32[3,5]"},
        {"Gemm", "f32[3,4] f32[4,5] f32[3,1]", "", "f32[3,5]"},
        {"Gemm", "f32[3,4] f32[4,5] f32[]", "", "f32[3,5]"},
        {"Gemm", "f32[0,4] f32[4,5] f32[5]", "", "f32[0,5]"},
        {"Gemm", "f32[3,4] f32[4,5] f32[3]", "", "!input 2: f32[3] does not broadcast to f32[3,5]"},
        {"Gemm", "f32[3,4] f32[4,5] f32[1,3,5]", "", "!input 2"},
        {"Gemm", "f32[3,4] f32[5,4]", "", "!inner dims"},
        {"Gemm", "f32[1,3,4] f32[4,5]", "", "!input 0 is f32[1,3,4], expected rank 2"},
        {"Gemm", "f32[3,4] f32[4,5]", "transA=2", "!transA is 2, allowed are 0|1"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_quantized(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"MatMulInteger", "u8[4,3] u8[3,2] u8[] u8[]", "", "i32[4,2]"},
        {"MatMulInteger", "u8[4,3] i8[3,2] u8[4] i8[2]", "", "i32[4,2]"},
        {"MatMulInteger", "u8[2,4,3] i8[2,3,5] u8[2,4,1] i8[2,1,5]", "", "i32[2,4,5]"},
        {"MatMulInteger", "u8[2,4,3] i8[2,3,5] u8[2,1,3]", "", "!input 2 is u8[2,1,3], expected u8[2,4,1]"},
        {"MatMulInteger", "u8[4,3] i8[3,2] _ i8[3]", "", "!input 3 is i8[3], expected i8[2]"},
        {"MatMulInteger", "i32[4,3] i8[3,2]", "", "!input 0 is of type i32"},
        {"QLinearMatMul", "u8[2,4] f32[] u8[] i8[4,3] f32[] i8[] f32[] i8[]", "", "i8[2,3]"},
        {"QLinearMatMul", "i8[5,2,4] f32[5,2,1] i8[5,2,1] i8[5,4,3] f32[5,1,3] i8[5,1,3] f32[] u8[]", "",
         "u8[5,2,3]"},
        {"QLinearMatMul", "u8[2,4] f16[1] u8[1] u8[4,3] f16[1] u8[1] f16[1] u8[1]", "", "u8[2,3]"},
        {"QLinearMatMul", "u8[2,4] f32[3] u8[] u8[4,3] f32[] u8[] f32[] u8[]", "", "!input 1 is f32[3]"},
        {"QLinearMatMul", "u8[2,4] i32[] u8[] u8[4,3] f32[] u8[] f32[] u8[]", "", "!input 1 is of type i32"},
        {"QLinearMatMul", "u8[2,4] f32[] u8[] u8[4,3] f32[] u8[] f32[]", "", "!input 7 is missing"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

/* Blanks of an equation would end the attribute in the notation of cases: they are tested below. */
static void test_einsum(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Einsum", "f32[3,4] f32[4,5]", "equation=ij,jk->ik", "f32[3,5]"},
        {"Einsum", "f32[3,4] f32[4,5]", "equation=ij,jk", "f32[3,5]"},
        {"Einsum", "f32[3,4]", "equation=ij->ji", "f32[4,3]"},
        {"Einsum", "f32[3,4]", "equation=ba", "f32[4,3]"},
        {"Einsum", "f32[3,4]", "equation=ij->", "f32[]"},
        {"Einsum", "f32[3,3]", "equation=ii", "f32[]"},
        {"Einsum", "f32[3,3]", "equation=ii->i", "f32[3]"},
        {"Einsum", "f32[2,3,3]", "equation=...ii->...i", "f32[2,3]"},
        {"Einsum", "f32[5,2,3] f32[5,3,4]", "equation=bij,bjk->bik", "f32[5,2,4]"},
        {"Einsum", "f32[2,3] f32[4] f32[5]", "equation=ij,k,l->ijkl", "f32[2,3,4,5]"},
        {"Einsum", "f32[2,1,5,3] f32[3,4,5,2]", "equation=a...k,k...b->...ab", "f32[4,5,2,2]"},
        {"Einsum", "f32[2,3,4]", "equation=...i", "f32[2,3,4]"},
        {"Einsum", "f32[2,3,4]", "equation=i...->...", "f32[3,4]"},
        /* Upper case before lower case: B=3, a=2. */
        {"Einsum", "f32[2,3]", "equation=aB", "f32[3,2]"},
        {"Einsum", "f32[] f32[2]", "equation=,i->i", "f32[2]"},
        {"Einsum", "f32[0,3] f32[3,2]", "equation=ij,jk->ik", "f32[0,2]"},
        {"Einsum", "f32[1,3] f32[4,3]", "equation=ij,ij->ij", "f32[4,3]"},
        {"Einsum", "f32[] f32[2,3]", "equation=...,...->...",
         "!ellipsis stands for 0 axes in one operand and for 2"},
        {"Einsum", "f32[3,4] f32[5,6]", "equation=ij,jk->ik",
         "!axis 0 of input 1 is 5 where another operand has 4"},
        {"Einsum", "f32[3,4]", "equation=ijk->i", "!3 letters, it has rank 2"},
        {"Einsum", "f32[3,4]", "equation=i->i", "!1 letters, it has rank 2"},
        {"Einsum", "f32[3,4]", "equation=ij->ik", "!letter k"},
        {"Einsum", "f32[3,4]", "equation=ij->ii", "!twice on the right side"},
        {"Einsum", "f32[3,4] f32[4]", "equation=ij->i", "!fewer terms than the 2 inputs"},
        {"Einsum", "f32[3,4]", "equation=ij,j->i", "!not understood from character 2"},
        {"Einsum", "f32[3,4]", "equation=i1->i", "!rank 2"},
        {"Einsum", "f32[3,4]", "equation=ij->i?", "!not understood"},
        {"Einsum", "f32[3,4]", "equation=......->i", "!not understood"},
        {"Einsum", "f32[3]", "equation=abcdefghi->i", "!more letters than a tensor has axes"},
        {"Einsum", "f32[1,1,1,1,1] f32[1,1,1,1]", "equation=abcde,fghi->abcdefghi", "!more letters"},
        {"Einsum", "f32[1,1,1,1,1] f32[1,1,1,1]", "equation=abcde,fghi", "?rank 9"},
        {"Einsum", "f32[2] i32[2]", "equation=i,i->i", "!input 1 is of type i32"},
        {"Einsum",
         "f32[] f32[] f32[] f32[] f32[] f32[] f32[] f32[] f32[] f32[] f32[] f32[] f32[] f32[] f32[] f32[] "
         "f32[]",
         "equation=,,,,,,,,,,,,,,,,", "?17 operands"},
        {"Einsum", "f32[2]", "", "!attribute equation is missing"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void check_canonical(const char *equation, const wf_type_t *inputs, size_t count, const char *want)
{
    wf_einsum_t einsum;
    char text[WF_EINSUM_TEXT_MAX];
    wf_assert_ok(wf_einsum_parse(equation, strlen(equation), inputs, count, &einsum));
    assert_true(wf_einsum_text(&einsum, inputs, text));
    assert_string_equal(text, want);
}

static void test_einsum_canonical(void **state)
{
    (void)state;
    const wf_type_t matrices[2] = {{.dtype = WF_DTYPE_F32, .rank = 2, .dims = {2, 2}},
                                   {.dtype = WF_DTYPE_F32, .rank = 2, .dims = {2, 2}}};
    const wf_type_t stack = {.dtype = WF_DTYPE_F32, .rank = 4, .dims = {2, 3, 4, 4}};
    check_canonical(" b n , n k -> b k ", matrices, 2, "ab,bc->ac");
    check_canonical("ij,jk", matrices, 2, "ab,bc->ac");
    check_canonical("Zy,yX", matrices, 2, "ab,bc->ca");
    check_canonical("...ii->...i", &stack, 1, "abcc->abc");
    check_canonical("...ii", &stack, 1, "abcc->ab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),           cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_quantized),        cmocka_unit_test(test_einsum),
        cmocka_unit_test(test_einsum_canonical),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
