/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores and casts of every element type with a class, one table row each. */
#include <math.h>
#include <string.h>

#include "ref/kernel.h"

/* ---- Small floats
 * ------------------------------------------------------------------------------------------------ */

typedef enum float_kind {
    FLOAT_IEEE,     /* infinity and NaN in the last exponent */
    FLOAT_NAN_ONLY, /* no infinity, NaN is all ones */
    FLOAT_FNUZ,     /* no infinity, no -0: its code is NaN */
    FLOAT_FINITE,   /* neither infinity nor NaN */
    FLOAT_EXPONENT  /* f8e8m0: a power of two, 0xff is NaN */
} float_kind_t;

typedef struct float_format {
    uint8_t exponent_bits, mantissa_bits;
    int16_t bias;
    uint16_t max_code; /* largest finite value */
    float_kind_t kind;
} float_format_t;

enum { F16, BF16, E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E2M1, E8M0 };
static const float_format_t formats[] = {
    [F16] = {5, 10, 15, 0x7bff, FLOAT_IEEE},    [BF16] = {8, 7, 127, 0x7f7f, FLOAT_IEEE},
    [E4M3FN] = {4, 3, 7, 0x7e, FLOAT_NAN_ONLY}, [E4M3FNUZ] = {4, 3, 8, 0x7f, FLOAT_FNUZ},
    [E5M2] = {5, 2, 15, 0x7b, FLOAT_IEEE},      [E5M2FNUZ] = {5, 2, 16, 0x7f, FLOAT_FNUZ},
    [E2M1] = {2, 1, 1, 0x7, FLOAT_FINITE},      [E8M0] = {8, 0, 127, 0xfe, FLOAT_EXPONENT},
};

static double f64_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t bits_from_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

WF_ALWAYS_INLINE double float_decode(const float_format_t *format, uint32_t code)
{
    uint32_t m = format->mantissa_bits;
    uint32_t exponent_max = (1u << format->exponent_bits) - 1u;
    if (format->kind == FLOAT_EXPONENT) {
        return code == 0xffu ? NAN : ldexp(1.0, (int)code - 127);
    }
    uint64_t sign = (uint64_t)(code >> (format->exponent_bits + m)) << 63;
    uint32_t exponent = (code >> m) & exponent_max, mantissa = code & ((1u << m) - 1u);
    bool special = format->kind == FLOAT_IEEE ? exponent == exponent_max
                   : format->kind == FLOAT_NAN_ONLY
                       ? exponent == exponent_max && mantissa == (1u << m) - 1u
                       : format->kind == FLOAT_FNUZ && sign != 0 && exponent == 0 && mantissa == 0;
    if (special) {
        bool infinite = format->kind == FLOAT_IEEE && mantissa == 0;
        return f64_from_bits(sign | (infinite ? UINT64_C(0x7ff) << 52 : UINT64_C(0x7ff8) << 48));
    }
    if (exponent == 0) {
        double x = (double)mantissa * f64_from_bits((uint64_t)(1023 + 1 - format->bias - (int)m) << 52);
        return sign != 0 ? -x : x;
    }
    return f64_from_bits(sign | (uint64_t)(exponent + 1023u - (uint32_t)format->bias) << 52 |
                         (uint64_t)mantissa << (52u - m));
}

/* f8e8m0 has no sign and no zero: the code of |x|; zero and what is too small become the smallest power of
 * two. */
static uint32_t exponent_encode(double x, wf_cast_mode_t mode)
{
    if (isnan(x)) {
        return 0xffu;
    }
    int exponent = 0;
    double fraction = isinf(x) || x == 0.0 ? 0.5 : frexp(fabs(x), &exponent); /* in [0.5, 1) */
    int64_t code = isinf(x) ? 0xff : x == 0.0 ? -1 : (int64_t)exponent - 1 + 127;
    if (isfinite(x) && x != 0.0) {
        code += mode.round == WF_CAST_UP ? fraction > 0.5 : mode.round == WF_CAST_NEAREST && fraction >= 0.75;
    }
    if (code >= 0 && code <= 0xfe) {
        return (uint32_t)code;
    }
    return !mode.saturate ? 0xffu : code < 0 ? 0u : 0xfeu;
}

/* Rounds to nearest even. */
WF_ALWAYS_INLINE uint32_t float_encode(const float_format_t *format, double x, wf_cast_mode_t mode)
{
    if (format->kind == FLOAT_EXPONENT) {
        return exponent_encode(x, mode);
    }
    uint32_t m = format->mantissa_bits, e = format->exponent_bits;
    uint64_t bits = bits_from_f64(x);
    uint32_t sign = (uint32_t)(bits >> 63) << (e + m);
    uint32_t exponent_ones = ((1u << e) - 1u) << m;
    uint32_t infinity = format->kind == FLOAT_IEEE ? sign | exponent_ones : 0;
    uint32_t nan = format->kind == FLOAT_IEEE ? sign | exponent_ones | 1u << (m - 1u)
                   : format->kind == FLOAT_NAN_ONLY
                       ? sign | exponent_ones | ((1u << m) - 1u)
                       : 1u << (e + m); /* FNUZ; and -0 in FINITE, as ml_dtypes */
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 1024 && mantissa != 0) {
        return nan;
    }
    uint64_t code = 0;
    if (exponent == 1024) {
        code = (uint64_t)format->max_code + 1;
    } else if (exponent > -1023) { /* an f64 denormal is zero in every smaller format */
        int low = 1 - format->bias;
        int shift = 52 - (int)m + (exponent < low ? low - exponent : 0);
        if (shift <= 54) {
            uint64_t whole = mantissa | UINT64_C(1) << 52;
            uint64_t rest = whole & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
            code = whole >> shift;
            code += rest > half || (rest == half && (code & 1));
            /* The implicit one adds the last 1 to the exponent; so does a carry out of the mantissa. */
            code += exponent < low ? 0 : (uint64_t)(exponent - low) << m;
        }
    }
    if (code > format->max_code) {
        bool saturate = format->kind == FLOAT_FINITE || (mode.saturate && m <= 3 && e <= 5);
        return saturate ? sign | format->max_code : format->kind == FLOAT_IEEE ? infinity : nan;
    }
    return code == 0 && format->kind == FLOAT_FNUZ ? 0 : sign | (uint32_t)code;
}

/* ---- One loader and one storer per type
 * -------------------------------------------------------------------------- */

/* X(type, element in memory, lane member, lane from e, element from v) */
#define WHOLE_TYPES(X)                                             \
    X(F32, float, f, (double)e, (float)v)                          \
    X(F64, double, f, e, v)                                        \
    X(I8, int8_t, i, e, (int8_t)v)                                 \
    X(I16, int16_t, i, e, (int16_t)v)                              \
    X(I32, int32_t, i, e, (int32_t)v)                              \
    X(I64, int64_t, i, e, v)                                       \
    X(U8, uint8_t, u, e, (uint8_t)v)                               \
    X(U16, uint16_t, u, e, (uint16_t)v)                            \
    X(U32, uint32_t, u, e, (uint32_t)v)                            \
    X(U64, uint64_t, u, e, v)                                      \
    X(BOOL, uint8_t, u, e != 0, v != 0)                            \
    X(F16, uint16_t, f, float_decode(&formats[F16], e),            \
      (uint16_t)float_encode(&formats[F16], v, saturating))        \
    X(BF16, uint16_t, f, float_decode(&formats[BF16], e),          \
      (uint16_t)float_encode(&formats[BF16], v, saturating))       \
    X(F8E4M3FN, uint8_t, f, float_decode(&formats[E4M3FN], e),     \
      (uint8_t)float_encode(&formats[E4M3FN], v, saturating))      \
    X(F8E4M3FNUZ, uint8_t, f, float_decode(&formats[E4M3FNUZ], e), \
      (uint8_t)float_encode(&formats[E4M3FNUZ], v, saturating))    \
    X(F8E5M2, uint8_t, f, float_decode(&formats[E5M2], e),         \
      (uint8_t)float_encode(&formats[E5M2], v, saturating))        \
    X(F8E5M2FNUZ, uint8_t, f, float_decode(&formats[E5M2FNUZ], e), \
      (uint8_t)float_encode(&formats[E5M2FNUZ], v, saturating))    \
    X(F8E8M0, uint8_t, f, float_decode(&formats[E8M0], e),         \
      (uint8_t)float_encode(&formats[E8M0], v, saturating))

/* X(type, bits, lane member, lane from code c, code from v) */
#define PACKED_TYPES(X)                             \
    X(U4, 4, u, c, (uint32_t)v)                     \
    X(I4, 4, i, (int64_t)(c ^ 8u) - 8, (uint32_t)v) \
    X(U2, 2, u, c, (uint32_t)v)                     \
    X(I2, 2, i, (int64_t)(c ^ 2u) - 2, (uint32_t)v) \
    X(F4E2M1, 4, f, float_decode(&formats[E2M1], c), float_encode(&formats[E2M1], v, saturating))

#define LANE_f double
#define LANE_i int64_t
#define LANE_u uint64_t

static const wf_cast_mode_t saturating = {true, WF_CAST_UP};

#define X(name, ctype, member, widened, narrowed)                                                           \
    WF_TARGET_CLONES static void load_##name(const void *data, int64_t first, int64_t stride, size_t count, \
                                             wf_lane_t *out)                                                \
    {                                                                                                       \
        typedef WF_UNALIGNED(ctype) any_t;                                                                  \
        const any_t *from = (const any_t *)data + first;                                                    \
        if (stride == 1) {                                                                                  \
            for (size_t k = 0; k < count; k++) {                                                            \
                ctype e = from[k];                                                                          \
                out[k].member = widened;                                                                    \
            }                                                                                               \
            return;                                                                                         \
        }                                                                                                   \
        for (size_t k = 0; k < count; k++) {                                                                \
            ctype e = from[(int64_t)k * stride];                                                            \
            out[k].member = widened;                                                                        \
        }                                                                                                   \
    }                                                                                                       \
    WF_TARGET_CLONES static void store_##name(void *data, int64_t first, int64_t stride, size_t count,      \
                                              const wf_lane_t *lanes)                                       \
    {                                                                                                       \
        typedef WF_UNALIGNED(ctype) any_t;                                                                  \
        any_t *to = (any_t *)data + first;                                                                  \
        for (size_t k = 0; k < count; k++) {                                                                \
            LANE_##member v = lanes[k].member;                                                              \
            to[(int64_t)k * stride] = narrowed;                                                             \
        }                                                                                                   \
    }
WHOLE_TYPES(X)
#undef X

/* Packed types lie low bits first. */
#define X(name, bits, member, widened, narrowed)                                                           \
    static void load_##name(const void *data, int64_t first, int64_t stride, size_t count, wf_lane_t *out) \
    {                                                                                                      \
        for (size_t k = 0; k < count; k++) {                                                               \
            uint64_t bit = (uint64_t)(first + (int64_t)k * stride) * bits;                                 \
            uint32_t c = (uint32_t)(((const uint8_t *)data)[bit / 8] >> bit % 8) & ((1u << bits) - 1u);    \
            out[k].member = widened;                                                                       \
        }                                                                                                  \
    }                                                                                                      \
    static void store_##name(void *data, int64_t first, int64_t stride, size_t count,                      \
                             const wf_lane_t *lanes)                                                       \
    {                                                                                                      \
        for (size_t k = 0; k < count; k++) {                                                               \
            uint64_t bit = (uint64_t)(first + (int64_t)k * stride) * bits;                                 \
            uint8_t *byte = (uint8_t *)data + bit / 8;                                                     \
            LANE_##member v = lanes[k].member;                                                             \
            uint32_t mask = (1u << bits) - 1u, code = (narrowed)&mask;                                     \
            *byte = (uint8_t)((*byte & ~(mask << bit % 8)) | code << bit % 8);                             \
        }                                                                                                  \
    }
PACKED_TYPES(X)
#undef X

typedef struct type_row {
    wf_lane_class_t lane_class;
    void (*load)(const void *data, int64_t first, int64_t stride, size_t count, wf_lane_t *out);
    void (*store)(void *data, int64_t first, int64_t stride, size_t count, const wf_lane_t *lanes);
} type_row_t;

#define CLASS_f WF_LANE_F
#define CLASS_i WF_LANE_I
#define CLASS_u WF_LANE_U
static const type_row_t types[WF_DTYPE_COUNT] = {
#define X(name, ctype, member, ...) [WF_DTYPE_##name] = {CLASS_##member, load_##name, store_##name},
    [WF_DTYPE_NONE] = {WF_LANE_NONE, NULL, NULL},
    [WF_DTYPE_STR] = {WF_LANE_NONE, NULL, NULL},
    [WF_DTYPE_C64] = {WF_LANE_NONE, NULL, NULL},
    [WF_DTYPE_C128] = {WF_LANE_NONE, NULL, NULL},
    WHOLE_TYPES(X) PACKED_TYPES(X)
#undef X
};

wf_lane_class_t wf_lane_class(wf_dtype_t dtype)
{
    return (unsigned)dtype < WF_DTYPE_COUNT ? types[dtype].lane_class : WF_LANE_NONE;
}

void wf_lanes_load(wf_dtype_t dtype, const void *data, int64_t first, int64_t stride, size_t count,
                   wf_lane_t *out)
{
    types[dtype].load(data, first, stride, count, out);
}

void wf_lanes_store(wf_dtype_t dtype, void *data, int64_t first, int64_t stride, size_t count,
                    const wf_lane_t *lanes)
{
    types[dtype].store(data, first, stride, count, lanes);
}

wf_lane_t wf_lane_load(wf_dtype_t dtype, const void *data, int64_t index)
{
    wf_lane_t lane;
    types[dtype].load(data, index, 1, 1, &lane);
    return lane;
}

void wf_lane_store(wf_dtype_t dtype, void *data, int64_t index, wf_lane_t lane)
{
    types[dtype].store(data, index, 1, 1, &lane);
}

static double lane_to_f64(wf_lane_class_t lane_class, wf_lane_t lane)
{
    return lane_class == WF_LANE_F ? lane.f : lane_class == WF_LANE_I ? (double)lane.i : (double)lane.u;
}

double wf_lane_load_f64(wf_dtype_t dtype, const void *data, int64_t index)
{
    return lane_to_f64(types[dtype].lane_class, wf_lane_load(dtype, data, index));
}

/* ---- Cast
 * -------------------------------------------------------------------------------------------------------- */

int64_t wf_f64_to_i64(double x)
{
    if (isnan(x)) {
        return 0;
    }
    return x >= 9223372036854775808.0 ? INT64_MAX : x < -9223372036854775808.0 ? INT64_MIN : (int64_t)x;
}

void wf_dtype_limits(wf_dtype_t dtype, int64_t *out_min, int64_t *out_max)
{
    uint32_t bits = dtype == WF_DTYPE_BOOL ? 1 : wf_dtype_bits(dtype);
    if (types[dtype].lane_class == WF_LANE_I) {
        *out_max = INT64_MAX >> (64u - bits);
        *out_min = -*out_max - 1;
    } else {
        *out_min = 0;
        *out_max = bits >= 64 ? INT64_MAX : (INT64_C(1) << bits) - 1;
    }
}

/* Widens to the class of an integer or bool type. A float is cut to a whole number, of which the low bits are
 * stored; i32 saturates, and so does what is beyond 64 bits. */
static wf_lane_t cast_to_integer(wf_lane_class_t from, wf_dtype_t to, wf_lane_t lane)
{
    if (to == WF_DTYPE_BOOL) {
        bool set = from == WF_LANE_F ? lane.f != 0.0 : lane.u != 0;
        return (wf_lane_t){.u = set};
    }
    if (from != WF_LANE_F) {
        return lane; /* the low bits are what is stored */
    }
    if (to == WF_DTYPE_U64 && lane.f >= 9223372036854775808.0) {
        return (wf_lane_t){.u = lane.f >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)lane.f};
    }
    int64_t whole = wf_f64_to_i64(lane.f);
    if (to == WF_DTYPE_I32) {
        whole = whole < INT32_MIN ? INT32_MIN : whole > INT32_MAX ? INT32_MAX : whole;
    }
    return (wf_lane_t){.i = whole};
}

void wf_lanes_store_cast(wf_lane_class_t from, wf_dtype_t to, wf_cast_mode_t mode, void *data, int64_t first,
                         size_t count, wf_lane_t *lanes)
{
    static const struct small_row {
        wf_dtype_t dtype, code_dtype;
        uint8_t format;
    } small[] = {
        {WF_DTYPE_F8E4M3FN, WF_DTYPE_U8, E4M3FN}, {WF_DTYPE_F8E4M3FNUZ, WF_DTYPE_U8, E4M3FNUZ},
        {WF_DTYPE_F8E5M2, WF_DTYPE_U8, E5M2},     {WF_DTYPE_F8E5M2FNUZ, WF_DTYPE_U8, E5M2FNUZ},
        {WF_DTYPE_F8E8M0, WF_DTYPE_U8, E8M0},
    };
    if (types[to].lane_class != WF_LANE_F) {
        for (size_t k = 0; k < count; k++) {
            lanes[k] = cast_to_integer(from, to, lanes[k]);
        }
        wf_lanes_store(to, data, first, 1, count, lanes);
        return;
    }
    for (size_t k = 0; k < count; k++) {
        /* An integer beyond 2^53 goes to f32 in one rounding. */
        double x = lane_to_f64(from, lanes[k]);
        if (to == WF_DTYPE_F32 && from != WF_LANE_F) {
            x = from == WF_LANE_I ? (double)(float)lanes[k].i : (double)(float)lanes[k].u;
        }
        lanes[k].f = x;
    }
    for (size_t s = 0; s < WF_COUNT_OF(small); s++) {
        if (small[s].dtype == to) {
            for (size_t k = 0; k < count; k++) {
                lanes[k].u = float_encode(&formats[small[s].format], lanes[k].f, mode);
            }
            to = small[s].code_dtype;
        }
    }
    wf_lanes_store(to, data, first, 1, count, lanes);
}
