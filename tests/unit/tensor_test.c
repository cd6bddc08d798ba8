/* SPDX-License-Identifier: Apache-2.0 */
#include "wayfinder/tensor.h"

#include <string.h>

#include "support/cmocka_all.h"

static void names_and_numbers_go_both_ways(void **state)
{
    (void)state;
    for (unsigned i = 1; i < WF_DTYPE_COUNT; i++) {
        wf_dtype_t dtype = (wf_dtype_t)i;
        assert_int_equal(wf_dtype_from_name(wf_dtype_name(dtype)), dtype);
    }
    assert_string_equal(wf_dtype_name(WF_DTYPE_NONE), "none");
    assert_string_equal(wf_dtype_name((wf_dtype_t)1000), "none");
    assert_int_equal(wf_dtype_from_name("none"), WF_DTYPE_NONE);
    assert_int_equal(wf_dtype_from_name("f33"), WF_DTYPE_NONE);
}

/* Numbers of onnx.proto's TensorProto.DataType, written down here a second time. */
static void onnx_numbers_are_those_of_onnx(void **state)
{
    (void)state;
    static const struct {
        int64_t onnx;
        const char *name;
        uint32_t bits;
        const char *numpy;
    } rows[] = {
        {1, "f32", 32, "<f4"},  {2, "u8", 8, "|u1"},    {3, "i8", 8, "|i1"},     {4, "u16", 16, "<u2"},
        {5, "i16", 16, "<i2"},  {6, "i32", 32, "<i4"},  {7, "i64", 64, "<i8"},   {8, "str", 0, ""},
        {9, "bool", 8, "|b1"},  {10, "f16", 16, "<f2"}, {11, "f64", 64, "<f8"},  {12, "u32", 32, "<u4"},
        {13, "u64", 64, "<u8"}, {16, "bf16", 16, ""},   {17, "f8e4m3fn", 8, ""}, {21, "u4", 4, ""},
        {22, "i4", 4, ""},      {23, "f4e2m1", 4, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_dtype_t dtype = wf_dtype_from_onnx(rows[i].onnx);
        assert_string_equal(wf_dtype_name(dtype), rows[i].name);
        assert_int_equal(wf_dtype_bits(dtype), rows[i].bits);
        assert_string_equal(wf_dtype_numpy(dtype), rows[i].numpy);
    }
    assert_int_equal(wf_dtype_from_onnx(0), WF_DTYPE_NONE);
    assert_int_equal(wf_dtype_from_onnx(-1), WF_DTYPE_NONE);
    assert_int_equal(wf_dtype_from_onnx(INT64_MAX), WF_DTYPE_NONE);
    assert_int_equal(wf_dtype_bits(WF_DTYPE_NONE), 0);
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        wf_type_t type;
        int64_t elems, bytes;
    } rows[] = {
        {{WF_DTYPE_F32, 0, {0}}, 1, 4},
        {{WF_DTYPE_F32, 4, {1, 3, 224, 224}}, 150528, 602112},
        {{WF_DTYPE_I4, 1, {3}}, 3, 2},
        {{WF_DTYPE_I2, 1, {5}}, 5, 2},
        {{WF_DTYPE_U4, 1, {0}}, 0, 0},
        {{WF_DTYPE_C128, 1, {2}}, 2, 32},
        {{WF_DTYPE_STR, 1, {7}}, 7, 0},
        {{WF_DTYPE_U8, 2, {INT64_MAX, 2}}, -1, -1},
        {{WF_DTYPE_F64, 1, {INT64_MAX}}, INT64_MAX, -1},
        /* No elements, wherever the zero stands. */
        {{WF_DTYPE_F32, 3, {INT64_MAX, INT64_MAX, 0}}, 0, 0},
        {{WF_DTYPE_F32, 3, {0, INT64_MAX, INT64_MAX}}, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(wf_type_elems(&rows[i].type) == rows[i].elems);
        assert_true(wf_type_bytes(&rows[i].type) == rows[i].bytes);
    }
}

static void equality_looks_at_used_dims_only(void **state)
{
    (void)state;
    wf_type_t a = {WF_DTYPE_F32, 2, {3, 4, 9}};
    wf_type_t b = {WF_DTYPE_F32, 2, {3, 4, 8}};
    assert_true(wf_type_equal(&a, &b));
    b.rank = 3;
    assert_false(wf_type_equal(&a, &b));
    b = a;
    b.dtype = WF_DTYPE_I32;
    assert_false(wf_type_equal(&a, &b));
    b = a;
    b.dims[1] = 5;
    assert_false(wf_type_equal(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers_go_both_ways),
        cmocka_unit_test(onnx_numbers_are_those_of_onnx),
        cmocka_unit_test(sizes),
        cmocka_unit_test(equality_looks_at_used_dims_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
