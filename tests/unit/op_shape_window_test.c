/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of convolutions and pooling, written by hand from the ONNX operator texts. */
#include "base/compiler.h"
#include "support/cmocka_all.h"
#include "support/op_case.h"

static void test_conv(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Conv", "f32[1,3,224,224] f32[64,3,7,7]", "pads=3,3,3,3 strides=2,2", "f32[1,64,112,112]"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3]", "", "f32[1,1,3,3]"},
        {"Conv", "f32[2,4,10] f32[8,2,3] f32[8]", "group=2", "f32[2,8,8]"},
        {"Conv", "f32[1,8,4,5,6] f32[8,1,3,3,3]", "group=8 pads=1,1,1,1,1,1", "f32[1,8,4,5,6]"},
        {"Conv", "f32[1,1,7,7] f32[1,1,3,3]", "dilations=2,2", "f32[1,1,3,3]"},
        {"Conv", "f32[1,1,7,7] f32[1,1,3,3]", "dilations=2,3 strides=2,1 pads=0,1,2,3", "f32[1,1,3,5]"},
        {"Conv", "f32[0,1,5,5] f32[2,1,3,3]", "", "f32[0,2,3,3]"},
        {"Conv", "f32[1,0,5,5] f32[2,0,3,3]", "", "f32[1,2,3,3]"},
        {"Conv", "f32[1,1,5,5] f32[0,1,3,3]", "", "f32[1,0,3,3]"},
        {"Conv", "f32[1,1,0,5] f32[2,1,3,3]", "", "f32[1,2,0,3]"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3]", "kernel_shape=3,3", "f32[1,1,3,3]"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3]", "kernel_shape=2,3", "!kernel_shape says 2, the weight has 3"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3]", "kernel_shape=3", "!kernel_shape has 1 values"},
        {"Conv", "f32[1,3,5,5] f32[1,1,3,3]", "", "!3 channels"},
        {"Conv", "f32[1,4,5,5] f32[3,2,3,3]", "group=2", "!3 output channels do not divide into 2 groups"},
        {"Conv", "f32[1,4,5,5] f32[4,2,3,3]", "group=0", "!group is 0"},
        {"Conv", "f32[1,4,5,5] f32[4,2,3,3]", "group=-2", "!group is -2"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3] f32[2]", "", "!input 2 is f32[2], expected f32[1]"},
        {"Conv", "f32[1,1,5,5] f64[1,1,3,3]", "", "!input 1 is of type f64"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3]", "", "!the weight has rank 3"},
        {"Conv", "f32[1,1] f32[1,1]", "", "!expected a rank of at least 3"},
        {"Conv", "f32[1,1,2,5] f32[1,1,3,3]", "",
         "!the kernel spans 3 in spatial axis 0, the padded input only 2"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,0]", "", "!empty kernel"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3]", "strides=0,1", "!strides holds 0"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3]", "dilations=1,-1", "!dilations holds -1"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3]", "pads=-1,0,0,0", "!pads holds -1"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3]", "pads=1,1", "!pads has 2 values, expected 4"},
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3]", "dilations=2305843009213693951,1", "!the kernel spans"},
        {"Conv", "f32[1,1,5,5] f32[1,1,99,3]", "dilations=2305843009213693951,1", "#63 bits"},
        {"Conv", "f32[1,1,9223372036854775807,1] f32[1,1,1,1]", "pads=1,0,1,0", "#63 bits"},
        {"Conv", "f32[1,1,9223372036854775807,1] f32[1,1,1,1]", "", "#too large"},
        {"Conv", "f32[1,1,2,2] f32[1,1,1,1]", "auto_pad=SAME", "!attribute auto_pad is \"SAME\""},
        {"Conv", "f32[1,1,5,5]", "", "!input 1 is missing"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_conv_auto_pad(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Conv", "f32[1,1,5,5] f32[1,1,3,3]", "auto_pad=SAME_UPPER", "f32[1,1,5,5]"},
        {"Conv", "f32[1,1,5,6] f32[1,1,3,3]", "auto_pad=SAME_UPPER strides=2,2", "f32[1,1,3,3]"},
        {"Conv", "f32[1,1,5,6] f32[1,1,2,2]", "auto_pad=SAME_LOWER strides=3,3", "f32[1,1,2,2]"},
        {"Conv", "f32[1,1,8,8] f32[1,1,3,3]", "auto_pad=SAME_LOWER dilations=2,3", "f32[1,1,8,8]"},
        {"Conv", "f32[1,1,8,8] f32[1,1,3,3]", "auto_pad=SAME_UPPER dilations=2,2 strides=3,2",
         "f32[1,1,3,4]"},
        {"Conv", "f32[1,1,2,2] f32[1,1,5,5]", "auto_pad=SAME_UPPER", "f32[1,1,2,2]"},
        {"Conv", "f32[1,1,7,7] f32[1,1,3,3]", "auto_pad=VALID strides=2,2", "f32[1,1,3,3]"},
        {"Conv", "f32[1,1,7,7] f32[1,1,3,3]", "auto_pad=VALID pads=1,1,1,1", "f32[1,1,5,5]"},
        {"Conv", "f32[1,1,0,7] f32[1,1,3,3]", "auto_pad=SAME_UPPER", "f32[1,1,0,7]"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_conv_quantized(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"ConvInteger", "u8[1,1,3,3] u8[1,1,2,2] u8[]", "", "i32[1,1,2,2]"},
        {"ConvInteger", "u8[1,1,3,3] i8[4,1,2,2] _ i8[4]", "pads=1,1,1,1", "i32[1,4,4,4]"},
        {"ConvInteger", "u8[1,1,3,3] i8[4,1,2,2] _ i8[3]", "", "!input 3 is i8[3], expected i8[4]"},
        {"ConvInteger", "i16[1,1,3,3] i8[4,1,2,2]", "", "!input 0 is of type i16"},
        {"ConvInteger", "u8[1,1,3,3] u8[1,1,2,2] i8[]", "", "!input 2 is of type i8"},
        {"QLinearConv", "u8[1,1,7,7] f32[] u8[] u8[1,1,1,1] f32[1] u8[1] f32[] u8[]", "", "u8[1,1,7,7]"},
        {"QLinearConv", "u8[1,2,7,7] f32[] u8[] i8[3,2,3,3] f32[3] i8[3] f32[] i8[] i32[3]", "",
         "i8[1,3,5,5]"},
        {"QLinearConv", "u8[1,2,7,7] f32[] u8[] i8[3,2,3,3] f32[2] i8[3] f32[] i8[] i32[3]", "",
         "!input 4 is f32[2]"},
        {"QLinearConv", "u8[1,2,7,7] f32[] u8[] i8[3,2,3,3] f32[3] i8[3] f32[] i8[] f32[3]", "",
         "!input 8 is of type"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_conv_transpose(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "", "f32[1,2,5,5]"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "strides=3,2", "f32[1,2,9,7]"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "strides=3,2 output_padding=1,1", "f32[1,2,10,8]"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "strides=3,2 output_shape=10,8", "f32[1,2,10,8]"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "strides=3,2 pads=1,2,1,2", "f32[1,2,7,3]"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,1,2,2]", "dilations=2,2", "f32[1,1,5,5]"},
        {"ConvTranspose", "f32[1,2,6,5] f32[2,3,2,3]",
         "dilations=3,2 output_padding=1,2 pads=1,0,2,3 strides=2,3", "f32[1,3,12,16]"},
        {"ConvTranspose", "f32[1,4,3] f32[4,2,3] f32[4]", "group=2", "f32[1,4,5]"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "auto_pad=SAME_UPPER strides=2,2", "f32[1,2,6,6]"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "auto_pad=SAME_LOWER strides=2,2 output_padding=1,1",
         "f32[1,2,6,6]"},
        {"ConvTranspose", "f32[1,1,2,2] f32[1,2,3,3]", "auto_pad=SAME_UPPER", "f32[1,2,2,2]"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,1,1]", "auto_pad=SAME_UPPER strides=4,4", "f32[1,2,12,12]"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "auto_pad=VALID", "f32[1,2,5,5]"},
        /* 1 * (0 - 1) + 3 places, which get the bias only. */
        {"ConvTranspose", "f32[1,1,0,3] f32[1,2,3,3]", "", "f32[1,2,2,5]"},
        {"ConvTranspose", "f32[1,1,0,3] f32[1,2,3,3]", "strides=9,1", "f32[1,2,0,5]"},
        {"ConvTranspose", "f32[0,1,3,3] f32[1,2,3,3]", "", "f32[0,2,5,5]"},
        {"ConvTranspose", "f32[1,3,3,3] f32[1,2,3,3]", "", "!the input has 3 channels, the weight 1"},
        {"ConvTranspose", "f32[1,3,3,3] f32[3,2,3,3]", "group=2", "!in 2 groups"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "pads=5,0,5,0", "!leave nothing"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "output_padding=-1,0", "!output_padding holds -1"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "output_shape=-1,8", "!output_shape holds -1"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,9223372036854775807,3,3]", "group=1", "#too large"},
        {"ConvTranspose", "f32[1,2,3,3] f32[2,9223372036854775807,3,3]", "group=2", "#63 bits"},
        {"ConvTranspose", "f32[1,1,3,3] f32[1,2,3,3]", "strides=2305843009213693951,1", "#63 bits"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_pool(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"MaxPool", "f32[1,3,32,32]", "kernel_shape=2,2", "f32[1,3,31,31]"},
        {"MaxPool", "f32[1,3,32,32]", "kernel_shape=5,5 strides=3,3", "f32[1,3,10,10]"},
        {"MaxPool", "f32[1,3,28,28]", "kernel_shape=3,3 pads=2,2,2,2", "f32[1,3,30,30] i64[1,3,30,30]"},
        {"MaxPool", "u8[1,1,5,5]", "kernel_shape=5,5 pads=2,2,2,2", "u8[1,1,5,5]"},
        {"MaxPool", "f32[1,1,4,4]", "kernel_shape=3,3 strides=2,2 ceil_mode=1", "f32[1,1,2,2]"},
        {"MaxPool", "f32[1,1,4,4]", "kernel_shape=3,3 strides=2,2", "f32[1,1,1,1]"},
        {"MaxPool", "f32[1,1,4,4]", "kernel_shape=2,2 dilations=2,2", "f32[1,1,2,2]"},
        /* The second window would start at 2, behind the input. */
        {"MaxPool", "f32[1,1,2,2]", "kernel_shape=1,1 strides=2,2 ceil_mode=1", "f32[1,1,1,1]"},
        {"AveragePool", "f32[1,1,4,4]", "kernel_shape=2,2 strides=3,3 pads=1,1,1,1 ceil_mode=1",
         "f32[1,1,2,2]"},
        {"AveragePool", "f32[1,1,4,4]", "kernel_shape=2,2 strides=3,3 pads=1,1,1,1", "f32[1,1,2,2]"},
        {"AveragePool", "f32[1,1,3,3]", "kernel_shape=1,1 strides=1,1 pads=0,0,2,2 ceil_mode=1",
         "f32[1,1,4,4]"},
        {"AveragePool", "f32[1,1,3,3]", "kernel_shape=1,1 strides=1,1 pads=0,0,2,2", "f32[1,1,5,5]"},
        {"AveragePool", "f32[1,3,32,32]", "kernel_shape=2,2 auto_pad=SAME_LOWER", "f32[1,3,32,32]"},
        {"AveragePool", "f32[1,1,5,5]", "kernel_shape=3,3 auto_pad=SAME_UPPER strides=2,2", "f32[1,1,3,3]"},
        /* ceil((8 - 3 + 1) / 2) = 3: VALID does not round up like explicit pads do. */
        {"AveragePool", "f32[1,1,8,8]", "kernel_shape=3,3 auto_pad=VALID strides=2,2 ceil_mode=1",
         "f32[1,1,3,3]"},
        {"AveragePool", "f32[1,1,8,8]", "kernel_shape=3,3 strides=2,2 ceil_mode=1", "f32[1,1,4,4]"},
        {"AveragePool", "f32[1,1,8]", "kernel_shape=3", "f32[1,1,6]"},
        {"AveragePool", "f32[1,1,8]", "", "!attribute kernel_shape is missing"},
        {"AveragePool", "f32[1,1,8]", "kernel_shape=", "!kernel_shape"},
        {"AveragePool", "f32[1,1,8]", "kernel_shape=0", "!kernel_shape holds 0"},
        {"AveragePool", "f32[1,1,8]", "kernel_shape=9", "!the kernel spans 9"},
        {"AveragePool", "f32[1,1,8,8]", "kernel_shape=3", "!kernel_shape has 1 values, expected 2"},
        {"LpPool", "f32[1,3,32]", "kernel_shape=2 p=3", "f32[1,3,31]"},
        {"LpPool", "f32[1,3,32]", "kernel_shape=2 p=0", "!attribute p is 0"},
        {"GlobalAveragePool", "f32[2,3,7,8]", "", "f32[2,3,1,1]"},
        {"GlobalMaxPool", "f32[2,3,7,8,9]", "", "f32[2,3,1,1,1]"},
        {"GlobalLpPool", "f32[2,3,7]", "p=1", "f32[2,3,1]"},
        {"GlobalAveragePool", "f32[2]", "", "!expected a rank from 2"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),           cmocka_unit_test(test_conv_auto_pad),
        cmocka_unit_test(test_conv_quantized), cmocka_unit_test(test_conv_transpose),
        cmocka_unit_test(test_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
