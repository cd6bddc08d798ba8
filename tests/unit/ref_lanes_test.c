/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores of every element type. The oracle for small floats is their definition: a code's value by
 * ldexp, a value's code as the nearest one. */
#include <math.h>
#include <string.h>

#include "ref/kernel.h"
#include "support/cmocka_all.h"
#include "support/random.h"

static const struct format {
    wf_dtype_t dtype;
    int exponent_bits, mantissa_bits, bias;
    uint32_t max_code;
    bool infinite; /* beyond the largest value is infinity, else that value */
} formats[] = {
    {WF_DTYPE_F16, 5, 10, 15, 0x7bff, true},   {WF_DTYPE_BF16, 8, 7, 127, 0x7f7f, true},
    {WF_DTYPE_F8E4M3FN, 4, 3, 7, 0x7e, false}, {WF_DTYPE_F8E4M3FNUZ, 4, 3, 8, 0x7f, false},
    {WF_DTYPE_F8E5M2, 5, 2, 15, 0x7b, false},  {WF_DTYPE_F8E5M2FNUZ, 5, 2, 16, 0x7f, false},
    {WF_DTYPE_F4E2M1, 2, 1, 1, 0x7, false},
};

static double value_of(const struct format *f, uint32_t code)
{
    uint32_t exponent = code >> f->mantissa_bits & ((1u << f->exponent_bits) - 1u);
    double mantissa = (double)(code & ((1u << f->mantissa_bits) - 1u));
    double value = exponent == 0 ? ldexp(mantissa, 1 - f->bias - f->mantissa_bits)
                                 : ldexp(ldexp(1, f->mantissa_bits) + mantissa,
                                         (int)exponent - f->bias - f->mantissa_bits);
    return code >> (f->exponent_bits + f->mantissa_bits) & 1 ? -value : value;
}

static uint32_t store(wf_dtype_t dtype, double value)
{
    uint32_t code = 0;
    wf_lane_store(dtype, &code, 0, (wf_lane_t){.f = value});
    return code;
}

static void finite_codes_are_their_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const struct format *f = &formats[i];
        uint32_t sign = 1u << (f->exponent_bits + f->mantissa_bits);
        for (uint32_t code = 0; code <= f->max_code; code++) {
            for (uint32_t minus = 0; minus < 2; minus++) {
                uint32_t signed_code = code | (minus != 0 ? sign : 0);
                if (minus != 0 && code == 0 &&
                    (f->dtype == WF_DTYPE_F8E4M3FNUZ || f->dtype == WF_DTYPE_F8E5M2FNUZ)) {
                    assert_true(isnan(wf_lane_load(f->dtype, &signed_code, 0).f));
                    continue;
                }
                double value = wf_lane_load(f->dtype, &signed_code, 0).f;
                assert_true(value == value_of(f, signed_code));
                assert_int_equal(store(f->dtype, value), signed_code);
            }
        }
    }
}

static void stores_take_the_nearest_code(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("stores_take_the_nearest_code", 20261130);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const struct format *f = &formats[i];
        for (int k = 0; k < 20000; k++) {
            uint32_t code = (uint32_t)wf_random_below(&random, f->max_code);
            double low = value_of(f, code), high = value_of(f, code + 1);
            double part = k % 4 == 0 ? 0.5 : (double)wf_random_below(&random, 1u << 20) / (double)(1u << 20);
            double x = low + (high - low) * part; /* exact: few bits */
            uint32_t want = part < 0.5 ? code : part > 0.5 ? code + 1 : code + (code & 1);
            assert_int_equal(store(f->dtype, x), want);
        }
        double top = value_of(f, f->max_code), step = top - value_of(f, f->max_code - 1);
        assert_int_equal(store(f->dtype, top + step * 0.49), f->max_code);
        assert_int_equal(store(f->dtype, top + step), f->max_code + (f->infinite ? 1 : 0));
        assert_int_equal(store(f->dtype, INFINITY), f->max_code + (f->infinite ? 1 : 0));
        assert_int_equal(store(f->dtype, ldexp(1, -1060)), 0);
    }
}

static void nan_stays_nan(void **state)
{
    (void)state;
    static const wf_dtype_t dtypes[] = {WF_DTYPE_F16,        WF_DTYPE_BF16,   WF_DTYPE_F8E4M3FN,
                                        WF_DTYPE_F8E4M3FNUZ, WF_DTYPE_F8E5M2, WF_DTYPE_F8E5M2FNUZ,
                                        WF_DTYPE_F8E8M0,     WF_DTYPE_F32,    WF_DTYPE_F64};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        uint64_t code = 0;
        wf_lane_store(dtypes[i], &code, 0, (wf_lane_t){.f = NAN});
        assert_true(isnan(wf_lane_load(dtypes[i], &code, 0).f));
    }
    assert_int_equal(store(WF_DTYPE_F4E2M1, NAN), 8); /* has no NaN: -0 */
}

static void integers_keep_their_low_bits(void **state)
{
    (void)state;
    static const struct {
        wf_dtype_t dtype;
        int64_t value, stored;
    } rows[] = {
        {WF_DTYPE_I8, 200, -56},
        {WF_DTYPE_U8, -1, 255},
        {WF_DTYPE_I16, 40000, -25536},
        {WF_DTYPE_U16, -2, 65534},
        {WF_DTYPE_I32, INT64_C(1) << 31, INT32_MIN},
        {WF_DTYPE_I4, 9, -7},
        {WF_DTYPE_U4, 18, 2},
        {WF_DTYPE_I2, 2, -2},
        {WF_DTYPE_U2, 7, 3},
        {WF_DTYPE_BOOL, 256, 1},
        {WF_DTYPE_I64, INT64_MIN, INT64_MIN},
        {WF_DTYPE_U32, -1, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t memory = 0;
        wf_lane_store(rows[i].dtype, &memory, 0, (wf_lane_t){.i = rows[i].value});
        assert_true(wf_lane_load(rows[i].dtype, &memory, 0).i == rows[i].stored);
    }
}

static void casts_of_small_floats(void **state)
{
    (void)state;
    static const struct {
        wf_dtype_t dtype;
        bool saturate;
        wf_cast_round_t round;
        double value;
        uint8_t code;
    } rows[] = {
        {WF_DTYPE_F8E5M2, false, WF_CAST_UP, 1e6, 0x7c},
        {WF_DTYPE_F8E5M2, true, WF_CAST_UP, 1e6, 0x7b},
        {WF_DTYPE_F8E5M2, false, WF_CAST_UP, -INFINITY, 0xfc},
        {WF_DTYPE_F8E4M3FN, false, WF_CAST_UP, 1e6, 0x7f},
        {WF_DTYPE_F8E4M3FN, true, WF_CAST_UP, 1e6, 0x7e},
        {WF_DTYPE_F8E4M3FNUZ, false, WF_CAST_UP, 1e6, 0x80},
        {WF_DTYPE_F8E4M3FNUZ, true, WF_CAST_UP, -0.0, 0},
        {WF_DTYPE_F8E8M0, true, WF_CAST_UP, 3, 129},
        {WF_DTYPE_F8E8M0, true, WF_CAST_DOWN, 3, 128},
        {WF_DTYPE_F8E8M0, true, WF_CAST_NEAREST, 3, 129},
        {WF_DTYPE_F8E8M0, true, WF_CAST_NEAREST, 2.9, 128},
        {WF_DTYPE_F8E8M0, true, WF_CAST_UP, 4, 129},
        {WF_DTYPE_F8E8M0, true, WF_CAST_UP, 0, 0},
        {WF_DTYPE_F8E8M0, false, WF_CAST_NEAREST, 0, 0xff},
        {WF_DTYPE_F8E8M0, true, WF_CAST_UP, INFINITY, 0xfe},
        {WF_DTYPE_F8E8M0, false, WF_CAST_UP, NAN, 0xff},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t code = 0;
        wf_lane_t lane = {.f = rows[i].value};
        wf_lanes_store_cast(WF_LANE_F, rows[i].dtype, (wf_cast_mode_t){rows[i].saturate, rows[i].round},
                            &code, 0, 1, &lane);
        assert_int_equal(code, rows[i].code);
    }
}

/* Packed elements: low bits first, neighbours untouched, any stride, any address for the others. */
static void places_in_memory(void **state)
{
    (void)state;
    uint8_t bytes[3] = {0, 0, 0};
    wf_lane_t lanes[4] = {{.u = 1}, {.u = 2}, {.u = 3}, {.u = 15}};
    wf_lanes_store(WF_DTYPE_U4, bytes, 1, 1, 4, lanes);
    assert_memory_equal(bytes, ((const uint8_t[]){0x10, 0x32, 0x0f}), 3);
    wf_lanes_load(WF_DTYPE_U4, bytes, 2, 2, 2, lanes);
    assert_int_equal(lanes[0].u, 2);
    assert_int_equal(lanes[1].u, 15);
    uint8_t odd[1 + 4 * 3];
    for (size_t k = 0; k < 3; k++) {
        float value = (float)k + 0.5F;
        memcpy(odd + 1 + 4 * k, &value, sizeof value);
    }
    wf_lanes_load(WF_DTYPE_F32, odd + 1, 2, -1, 3, lanes);
    assert_true(lanes[0].f == 2.5 && lanes[1].f == 1.5 && lanes[2].f == 0.5);
}

static void classes(void **state)
{
    (void)state;
    for (unsigned d = 0; d < WF_DTYPE_COUNT; d++) {
        wf_lane_class_t lane_class = wf_lane_class((wf_dtype_t)d);
        char letter = wf_dtype_name((wf_dtype_t)d)[0];
        wf_lane_class_t want = letter == 'f'                    ? WF_LANE_F
                               : letter == 'i'                  ? WF_LANE_I
                               : letter == 'u' || letter == 'b' ? WF_LANE_U
                                                                : WF_LANE_NONE;
        assert_int_equal(lane_class, d == WF_DTYPE_BF16 ? WF_LANE_F : want);
    }
    assert_int_equal(wf_lane_class((wf_dtype_t)1000), WF_LANE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finite_codes_are_their_values),
        cmocka_unit_test(stores_take_the_nearest_code),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(integers_keep_their_low_bits),
        cmocka_unit_test(casts_of_small_floats),
        cmocka_unit_test(places_in_memory),
        cmocka_unit_test(classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
