/* SPDX-License-Identifier: Apache-2.0 */
/* Products, convolutions and their quantised forms in the reference: small enough to be worked out by hand.
 */
#include "base/compiler.h"
#include "support/cmocka_all.h"
#include "support/ref_case.h"

static void products(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"MatMul", "f32[2,3]=1.. f32[3,2]=1..", "", "f32[2,2]=22,28,49,64"},
        {"MatMul", "f32[3]=1.. f32[3,2]=1..", "", "f32[2]=22,28"},
        {"MatMul", "f32[2,3]=1.. f32[3]=1..", "", "f32[2]=14,32"},
        {"MatMul", "f32[3]=1.. f32[3]=1..", "", "f32[]=14"},
        {"MatMul", "f32[2,1,1,2]=1.. f32[2,2,1]=1..", "", "f32[2,2,1,1]=5,11,11,25"},
        {"MatMul", "f32[2,0] f32[0,2]", "", "f32[2,2]=0"},
        {"MatMul", "f32[0,3] f32[3,2]=1", "", "f32[0,2]="},
        {"MatMul", "i32[1,2]=2147483647,1 i32[2,1]=2,3", "", "i32[1,1]=1"},
        {"MatMul", "u64[1,2]=18446744073709551615,1 u64[2,1]=1,2", "", "u64[1,1]=1"},
        {"MatMul", "i64[1,2]=4611686018427387904,7 i64[2,1]=2,1", "", "i64[1,1]=-9223372036854775801"},
        {"MatMul", "f16[1,2]=2048,1 f16[2,1]=1,1", "", "f16[1,1]=2048"}, /* 2049 is a tie */
        {"MatMul", "bf16[1,2]=256,3 bf16[2,1]=1,1", "", "bf16[1,1]=260"},
        {"MatMul", "f32[1,3]=1e8,1,-1e8 f32[3,1]=1", "", "f32[1,1]=1"}, /* f32 sums would lose the 1 */
        {"Gemm", "f32[2,3]=1.. f32[3,2]=1.. f32[2]=10,20", "alpha=2 beta=0.5", "f32[2,2]=49,66,103,138"},
        {"Gemm", "f32[3,2]=1,4,2,5,3,6 f32[2,3]=1,3,5,2,4,6", "transA=1 transB=1", "f32[2,2]=22,28,49,64"},
        {"Gemm", "f32[1,1]=2 f32[1,2]=3,4 f32[1,1]=1", "", "f32[1,2]=7,9"},
        {"Gemm", "f32[2,0] f32[0,2] f32[2,1]=5,6", "", "f32[2,2]=5,5,6,6"},
        {"Gemm", "i32[1,2]=3,4 i32[2,1]=5,6 i32[1]=1", "", "i32[1,1]=40"},
        {"Gemm", "i32[1,2]=3,4 i32[2,1]=5,6 i32[1]=3", "alpha=0.5 beta=2", "i32[1,1]=25"},
        {"Einsum", "f32[2,3]=1.. f32[3,2]=1..", "equation=ij,jk->ik", "f32[2,2]=22,28,49,64"},
        {"Einsum", "f32[2,2]=1..", "equation=ii", "f32[]=5"},
        {"Einsum", "f32[2,2]=1..", "equation=ii->i", "f32[2]=1,4"},
        {"Einsum", "f32[2,3]=1..", "equation=ij->ji", "f32[3,2]=1,4,2,5,3,6"},
        {"Einsum", "f32[2,1,2]=1.. f32[2,3]=1..", "equation=...ij,jk->...ik", "f32[2,1,3]=9,12,15,19,26,33"},
        {"Einsum", "f32[2]=1,2 f32[2]=3,4 f32[2]=5,6", "equation=i,j,i->j", "f32[2]=51,68"},
        {"Einsum", "i64[2]=1,2 i64[3]=1,2,3", "equation=i,j->ij", "i64[2,3]=1,2,3,2,4,6"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

static void convolutions(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        /* the operator's example: sums of 3x3 windows of 0..24 */
        {"Conv", "f32[1,1,5,5]=0.. f32[1,1,3,3]=1", "pads=1,1,1,1",
         "f32[1,1,5,5]=12,21,27,33,24,33,54,63,72,51,63,99,108,117,81,93,144,153,162,111,72,111,117,123,84"},
        {"Conv", "f32[1,1,5,5]=0.. f32[1,1,3,3]=1", "", "f32[1,1,3,3]=54,63,72,99,108,117,144,153,162"},
        {"Conv", "f32[1,1,5,5]=0.. f32[1,1,3,3]=1", "strides=2,2 auto_pad=SAME_LOWER",
         "f32[1,1,3,3]=12,27,24,63,108,81,72,117,84"},
        {"Conv", "f32[1,1,4]=1.. f32[1,1,2]=1,10 f32[1]=100", "", "f32[1,1,3]=121,132,143"},
        {"Conv", "f32[1,1,4]=1.. f32[1,1,2]=1,10", "auto_pad=SAME_UPPER", "f32[1,1,4]=21,32,43,4"},
        {"Conv", "f32[1,1,4]=1.. f32[1,1,2]=1,10", "dilations=2 pads=1,0", "f32[1,1,3]=20,31,42"},
        {"Conv", "f32[1,2,2]=1.. f32[2,1,1]=10,100 f32[2]=1,2", "group=2", "f32[1,2,2]=11,21,302,402"},
        {"Conv", "f32[1,4,1]=1.. f32[2,2,1]=1,10,100,1000", "group=2", "f32[1,2,1]=21,4300"},
        {"Conv", "f32[2,1,1,1,2]=1.. f32[1,1,1,1,1]=3", "", "f32[2,1,1,1,2]=3,6,9,12"},
        {"Conv", "f16[1,1,2]=1,2 f16[1,1,2]=0.5,0.25", "", "f16[1,1,1]=1"},
        {"Conv", "f32[0,1,3] f32[1,1,1]=1", "", "f32[0,1,3]="},
        {"ConvTranspose", "f32[1,1,3]=1,2,3 f32[1,1,2]=1,10", "", "f32[1,1,4]=1,12,23,30"},
        {"ConvTranspose", "f32[1,1,3]=1,2,3 f32[1,1,2]=1,10", "strides=2", "f32[1,1,6]=1,10,2,20,3,30"},
        {"ConvTranspose", "f32[1,1,3]=1,2,3 f32[1,1,2]=1,10", "strides=3 output_padding=1",
         "f32[1,1,9]=1,10,0,2,20,0,3,30,0"},
        {"ConvTranspose", "f32[1,1,3]=1,2,3 f32[1,1,2]=1,10", "dilations=2 pads=1,1", "f32[1,1,3]=2,13,20"},
        {"ConvTranspose", "f32[1,2,1]=1,2 f32[2,1,2]=1,2,3,4 f32[2]=10,20", "group=2",
         "f32[1,2,2]=11,12,26,28"},
        {"ConvTranspose", "f32[1,2,1]=1,2 f32[2,1,2]=1,2,3,4", "", "f32[1,1,2]=7,10"},
        {"ConvTranspose", "f32[1,1,2,2]=1.. f32[1,1,2,2]=1", "strides=1,2",
         "f32[1,1,3,4]=1,1,2,2,4,4,6,6,3,3,4,4"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

static void quantised(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"MatMulInteger", "u8[1,2]=255,255 i8[2,1]=127,127", "", "i32[1,1]=64770"},
        {"MatMulInteger", "u8[2,2]=1,2,3,4 u8[2,2]=1 u8[2]=1,2 u8[2]=0,1", "", "i32[2,2]=1,0,3,0"},
        {"MatMulInteger", "i8[2,1,1]=1,2 i8[1,1]=-3 i8[2,1,1]=1,3", "", "i32[2,1,1]=0,3"},
        {"ConvInteger", "u8[1,1,3]=2,3,4 u8[1,1,2]=1 u8[]=1", "pads=1,0", "i32[1,1,3]=1,3,5"},
        {"ConvInteger", "u8[1,1,2]=5,6 i8[2,1,1]=3,3 u8[]=1 i8[2]=1,2", "", "i32[1,2,2]=8,10,4,5"},
        /* (2*3 + 1) * 0.5 = 3.5 and (2*3 + 3) * 0.5 = 4.5: both to 4, plus 10 */
        {"QLinearMatMul", "u8[2,2]=2,1,2,3 f32[]=0.5 u8[]=0 u8[2,1]=3,1 f32[]=1 u8[]=0 f32[]=1 u8[]=10", "",
         "u8[2,1]=14,14"},
        {"QLinearMatMul", "u8[1,1]=255 f32[]=1 u8[]=0 i8[1,1]=-128 f32[]=1 i8[]=0 f32[]=1 i8[]=5", "",
         "i8[1,1]=-128"},
        {"QLinearMatMul",
         "u8[2,1]=4,4 f32[2]=1,2 u8[2]=0,2 u8[1,2]=3,3 f32[2]=1,0.5 u8[2]=0,1 f32[]=1 u8[]=0", "",
         "u8[2,2]=12,4,12,4"},
        {"QLinearConv",
         "u8[1,1,2]=3,5 f32[]=0.5 u8[]=1 i8[2,1,1]=2,-4 f32[2]=1,2 i8[2]=0,0 f32[]=1 u8[]=10 i32[2]=1,-2", "",
         "u8[1,2,2]=12,14,0,0"},
        {"QLinearConv", "u8[1,1,1]=3 f32[]=1 u8[]=1 u8[1,1,3]=1 f32[]=1 u8[]=0 f32[]=1 u8[]=7", "pads=1,1",
         "u8[1,1,1]=9"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

static void ours(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        /* equal scores: the mean of the values */
        {"w:Attention", "f32[1,1,2,2]=0 f32[1,1,3,2]=1.. f32[1,1,3,1]=3,6,9", "scale=1", "f32[1,1,2,1]=6,6"},
        /* a mask leaves one key, then two with weights 1 and 3 (log 3) */
        {"w:Attention", "f32[2,2]=0 f32[2,2]=1.. f32[2,1]=4,8 f32[2,2]=-inf,0,0,1.0986123", "scale=1",
         "f32[2,1]=8,7"},
        {"w:Attention", "f32[2,2]=0 f32[2,2]=1.. f32[2,1]=4,8 bool[1,2]=1,0", "scale=1", "f32[2,1]=4,4"},
        /* scores 0 and log 3 by way of q, k and scale */
        {"w:Attention", "f32[1,1]=2 f32[2,1]=0,2.1972246 f32[2,2]=4,0,8,4", "scale=0.25", "f32[1,2]=7,3"},
        /* memory [B,S,H,d] */
        {"w:Attention", "f32[1,1,2,1]=0 f32[1,2,2,1]=1.. f32[1,2,2,1]=1,10,3,30",
         "scale=1 q_perm=0,2,1,3 k_perm=0,2,1,3 v_perm=0,2,1,3 out_perm=0,2,1,3", "f32[1,1,2,1]=2,20"},
        /* k in memory as [.., d, T] */
        {"w:Attention", "f32[1,1,1,2]=1,0 f32[1,1,2,2]=0,1.0986123,5,7 f32[1,1,2,1]=4,8",
         "scale=1 k_perm=0,1,3,2", "f32[1,1,1,1]=7"},
        {"w:AddLayerNormalization", "f32[1,2]=1,2 f32[1,2]=0,1 f32[2]=1,2 f32[2]=10,20", "epsilon=0",
         "f32[1,2]=9,22 f32[1,2]=1,3"},
        {"w:AddLayerNormalization", "f32[2,2]=1,3,5,9 f32[2]=1,1 f32[2]=1,1", "epsilon=0",
         "f32[2,2]=-1,1,-1,1 _"},
        /* means 2 and 6; relu(1 * 2 + 0 * 6 - 1) = 1; gates sigmoid(0 * 1 + 0) and sigmoid(0 * 1 + log 3) */
        {"w:SqueezeExcite", "f32[1,2,2]=1,3,4,8 f32[1,2]=1,0 f32[1]=-1 f32[2,1]=0,0 f32[2]=0,1.0986123", "",
         "f32[1,2,2]=0.5,1.5,3,6"},
        {"w:SqueezeExcite", "f32[1,1,1]=2 f32[1,1,1]=1 f32[1]=0 f32[1,1,1]=1 f32[1]=0",
         "act2=hardsigmoid act2_a=0.25 act2_b=0", "f32[1,1,1]=1"},
        {"w:Convert", "f32[2]=1,2", "from=row to=last", "f32[2]=1,2"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(quantised),
        cmocka_unit_test(ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
