/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/numeric.h"

#include <math.h>
#include <string.h>

/* X(dtype, C type, is integer) for the types that C has. */
#define PLAIN_TYPES(X)     \
    X(F32, float, false)   \
    X(F64, double, false)  \
    X(I8, int8_t, true)    \
    X(I16, int16_t, true)  \
    X(I32, int32_t, true)  \
    X(I64, int64_t, true)  \
    X(U8, uint8_t, true)   \
    X(U16, uint16_t, true) \
    X(U32, uint32_t, true) \
    X(U64, uint64_t, true) \
    X(BOOL, uint8_t, true)

static float bits_to_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t f32_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double half_get(uint16_t half)
{
    uint32_t exponent = (half >> 10) & 31u, fraction = half & 1023u;
    double sign = (half & 0x8000u) != 0 ? -1 : 1;
    if (exponent == 31)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp((double)fraction, -24);
    return sign * ldexp((double)(1024 + fraction), (int)exponent - 25);
}

static uint16_t half_set(double value)
{
    uint16_t sign = signbit(value) ? 0x8000u : 0;
    double magnitude = fabs(value);
    if (isnan(value))
        return 0x7e00u;
    if (magnitude >= 65520)
        return (uint16_t)(sign | 0x7c00u);
    int exponent = 0;
    frexp(magnitude, &exponent);
    if (exponent < -13)
        exponent = -13; /* subnormal: one fixed step */
    double steps = nearbyint(ldexp(magnitude, 11 - exponent));
    if (steps == 0)
        return sign;
    uint32_t scaled = (uint32_t)steps, biased = (uint32_t)(exponent + 14);
    if (scaled < 1024)
        return (uint16_t)(sign | scaled);
    return (uint16_t)(sign | ((biased << 10) + (scaled - 1024)));
}

bool wf_numeric_is_integer(wf_dtype_t dtype)
{
    switch (dtype) {
#define X(name, type, integer) \
    case WF_DTYPE_##name:      \
        return integer;
        PLAIN_TYPES(X)
#undef X
    default:
        return false;
    }
}

bool wf_numeric_supports(wf_dtype_t dtype)
{
    return wf_numeric_is_integer(dtype) || dtype == WF_DTYPE_F32 || dtype == WF_DTYPE_F64 ||
           dtype == WF_DTYPE_F16 || dtype == WF_DTYPE_BF16;
}

double wf_numeric_get(const wf_tensor_t *tensor, int64_t index)
{
    switch (tensor->type.dtype) {
#define X(name, type, integer) \
    case WF_DTYPE_##name:      \
        return (double)((const type *)tensor->data)[index];
        PLAIN_TYPES(X)
#undef X
    case WF_DTYPE_F16:
        return half_get(((const uint16_t *)tensor->data)[index]);
    case WF_DTYPE_BF16:
        return (double)bits_to_f32((uint32_t)((const uint16_t *)tensor->data)[index] << 16);
    default:
        return (double)NAN;
    }
}

void wf_numeric_set(wf_tensor_t *tensor, int64_t index, double value)
{
    switch (tensor->type.dtype) {
#define X(name, type, integer)                       \
    case WF_DTYPE_##name:                            \
        ((type *)tensor->data)[index] = (type)value; \
        return;
        PLAIN_TYPES(X)
#undef X
    case WF_DTYPE_F16:
        ((uint16_t *)tensor->data)[index] = half_set(value);
        return;
    case WF_DTYPE_BF16: {
        uint32_t bits = f32_to_bits((float)value);
        ((uint16_t *)tensor->data)[index] = (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
        return;
    }
    default:
        return;
    }
}

bool wf_numeric_same_bits(const wf_tensor_t *a, const wf_tensor_t *b, int64_t index)
{
    size_t bytes = wf_dtype_bits(a->type.dtype) / 8;
    const char *pa = (const char *)a->data + (size_t)index * bytes,
               *pb = (const char *)b->data + (size_t)index * bytes;
    return memcmp(pa, pb, bytes) == 0;
}
