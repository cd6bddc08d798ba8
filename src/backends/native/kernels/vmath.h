/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions on vectors of float.
 *
 * All are branch-free, total (every input has a defined result), pass NaN through, and need no floating-point
 * state: they are right with and without flush-to-zero. The errors stated are maxima over a sweep of the
 * floats of the domain (every 97th bit pattern, both signs) against double precision, the worse of the builds
 * with and without FMA (2026-11-30); a unit in the last place (ULP) is that of the exact result. Coefficients
 * are weighted minimax fits (Lawson's iteration in extended precision) made for these intervals, rounded to
 * float.
 */
#ifndef WF_NATIVE_VMATH_H
#define WF_NATIVE_VMATH_H

#include <math.h>

#include "backends/native/kernels/simd.h"

typedef uint32_t wf_vu __attribute__((vector_size(WF_VLEN * 4)));

WF_INLINE wf_vi wf_v_seti(int32_t x)
{
    return x - (wf_vi){0};
}

WF_INLINE wf_vf wf_v_abs(wf_vf x)
{
    return (wf_vf)((wf_vi)x & 0x7fffffff);
}

/* The magnitude of `x` with the sign of `sign`. */
WF_INLINE wf_vf wf_v_copysign(wf_vf x, wf_vf sign)
{
    return (wf_vf)(((wf_vi)x & 0x7fffffff) | ((wf_vi)sign & INT32_MIN));
}

/* Correctly rounded square root. */
WF_INLINE wf_vf wf_v_sqrt(wf_vf x)
{
#if WF_VLEN == 16 && defined(__AVX512F__)
    return (wf_vf)_mm512_sqrt_ps((__m512)x);
#elif WF_VLEN == 8 && defined(__AVX__)
    return (wf_vf)_mm256_sqrt_ps((__m256)x);
#elif WF_VLEN == 4 && defined(__SSE__)
    return (wf_vf)_mm_sqrt_ps((__m128)x);
#else
    WF_UNROLL(16)
    for (int i = 0; i < WF_VLEN; i++)
        x[i] = sqrtf(x[i]);
    return x;
#endif
}

/* Nearest integer, ties to even; the sign of zero is kept. */
WF_INLINE wf_vf wf_v_round(wf_vf x)
{
#if WF_VLEN == 16 && defined(__AVX512F__)
    return (wf_vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif WF_VLEN == 8 && defined(__AVX__)
    return (wf_vf)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    /* Below 2^23 an addition of 2^23 leaves no room for a fraction; above it every float is an integer. */
    const wf_vf a = wf_v_abs(x);
    const wf_vf r = (a + 0x1p23f) - 0x1p23f;
    return wf_v_select(a < wf_v_set(0x1p23f), wf_v_copysign(r, x), x);
#endif
}

WF_INLINE wf_vf wf_v_floor(wf_vf x)
{
    const wf_vf r = wf_v_round(x);
    return wf_v_copysign(r - (wf_vf)((wf_vi)wf_v_set(1.0f) & (r > x)), x);
}

WF_INLINE wf_vf wf_v_ceil(wf_vf x)
{
    const wf_vf r = wf_v_round(x);
    return wf_v_copysign(r + (wf_vf)((wf_vi)wf_v_set(1.0f) & (r < x)), x);
}

/* x = n ln 2 + r with n an integer and |r| <= 0.3466, for |x| < 2^21. *out_shifted holds n in its low
 * mantissa bits (a float of 1.5 * 2^23 + n). Cody-Waite: the high part of ln 2 has 11 bits, so n * high is
 * exact without FMA. */
WF_INLINE wf_vf wf_v_exp_reduce(wf_vf x, wf_vf *out_n, wf_vf *out_shifted)
{
    const wf_vf shifted = x * 0x1.715476p+0f + 0x1.8p23f;
    const wf_vf n = shifted - 0x1.8p23f;
    const wf_vf r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
    *out_n = n;
    *out_shifted = shifted;
    return r;
}

/* e^r - 1 for |r| <= 0.3468; fit error 3e-9. */
WF_INLINE wf_vf wf_v_exp_tail(wf_vf r)
{
    const wf_vf q = (((0x1.6a2388p-10f * r + 0x1.123a36p-7f) * r + 0x1.5558f4p-5f) * r + 0x1.55549p-3f) * r +
                    0x1.fffffcp-2f;
    return r * r * q + r;
}

/* e^x: 0 below -104, infinity above 88.73. Subnormal results are right unless the FPU flushes them. 1.0 / 1.1
 * ULP. */
WF_INLINE wf_vf wf_v_exp(wf_vf x)
{
    wf_vf n, shifted;
    x = wf_v_min(wf_v_max(x, wf_v_set(-104.0f)), wf_v_set(89.0f));
    const wf_vf p = wf_v_exp_tail(wf_v_exp_reduce(x, &n, &shifted)) + 1.0f;
#if WF_VLEN == 16 && defined(__AVX512F__)
    return (wf_vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    /* Two factors, as one power of two does not reach the ends of the range. */
    const wf_vi k = (wf_vi)shifted - 0x4b400000;
    const wf_vi half = k >> 1;
    const wf_vf s0 = (wf_vf)((wf_vu)(half + 127) << 23);
    const wf_vf s1 = (wf_vf)((wf_vu)(k - half + 127) << 23);
    return p * s0 * s1;
#endif
}

/* e^x for softmax, sigmoid and the like: as wf_v_exp for x in [-87.3, 88.3]; from about 88.37 on it is
 * infinity, and below about -87.7 exactly 0. About a third cheaper. 1.0 ULP. */
WF_INLINE wf_vf wf_v_exp_ftz(wf_vf x)
{
    wf_vf n, shifted;
    x = wf_v_min(wf_v_max(x, wf_v_set(-88.2f)), wf_v_set(89.0f));
    const wf_vf p = wf_v_exp_tail(wf_v_exp_reduce(x, &n, &shifted)) + 1.0f;
    /* n = -127 gives the bits of 0 and n = 128 those of infinity. */
    return p * (wf_vf)(((wf_vu)shifted << 23) + 0x3f800000u);
}

/* e^x - 1 for x <= 0 (undefined lanes for x > 0, never a trap). 0.94 ULP. */
WF_INLINE wf_vf wf_v_expm1_nonpos(wf_vf x)
{
    wf_vf n, shifted;
    const wf_vf y = wf_v_max(x, wf_v_set(-18.0f));
    const wf_vf t = wf_v_exp_tail(wf_v_exp_reduce(y, &n, &shifted));
    const wf_vf s = (wf_vf)(((wf_vu)shifted << 23) + 0x3f800000u);
    return s * t + (s - 1.0f);
}

/* 1 / (1 + e^-x); below -88.3 the result (subnormal) is 0. 2.4 ULP. */
WF_INLINE wf_vf wf_v_sigmoid(wf_vf x)
{
    return 1.0f / (1.0f + wf_v_exp_ftz(-x));
}

/* 2.5 ULP. */
WF_INLINE wf_vf wf_v_tanh(wf_vf x)
{
    const wf_vf u = wf_v_expm1_nonpos(-2.0f * wf_v_abs(x));
    return wf_v_copysign(u / (u + 2.0f), x);
}

/* Natural logarithm: -infinity for zeros (subnormals too when the FPU reads them as zero), NaN for x < 0.
 * 1.4 ULP. */
WF_INLINE wf_vf wf_v_log(wf_vf x)
{
    const wf_vi tiny = x < wf_v_set(0x1p-126f);
    const wf_vf y = wf_v_select(tiny, x * 0x1p23f, x);
    /* Mantissa in [sqrt(1/2), sqrt(2)). */
    const wf_vi k = (wf_vi)((wf_vu)y - 0x3f3504f3u) >> 23;
    const wf_vf m = (wf_vf)((wf_vu)y - ((wf_vu)k << 23));
    const wf_vf e = __builtin_convertvector(k - (tiny & 23), wf_vf);
    const wf_vf f = m - 1.0f;
    const wf_vf q =
        ((((((-0x1.38b67p-4f * f + 0x1.055c1p-3f) * f + -0x1.0d8564p-3f) * f + 0x1.22da0ap-3f) * f +
           -0x1.54724p-3f) *
              f +
          0x1.99a008p-3f) *
             f +
         -0x1.000228p-2f) *
            f +
        0x1.555544p-2f;
    const wf_vf f2 = f * f;
    wf_vf r = e * 0x1.0bfbe8p-15f + f2 * f * q;
    r = r - 0.5f * f2;
    r = e * 0x1.62ep-1f + (f + r);
    const wf_vf inf = wf_v_set(INFINITY);
    r = wf_v_select(x == inf, inf, r);
    r = wf_v_select(x == wf_v_set(0.0f), -inf, r);
    return wf_v_select(x < wf_v_set(0.0f), wf_v_set(NAN), wf_v_select(x == x, r, x));
}

/* log(1 + u) for u >= 0 (negative u loses digits near -1). 1.8 ULP. */
WF_INLINE wf_vf wf_v_log1p(wf_vf u)
{
    const wf_vf w = 1.0f + u;
    const wf_vf lost = u - (w - 1.0f); /* what the sum rounded away, exact for u <= 1 */
    const wf_vf r = wf_v_log(w) + lost / w;
    return wf_v_select(u > wf_v_set(0x1p24f), wf_v_log(u), r);
}

/* x P(x^2) / Q(x^2) up to |x| = 3.92, where erf rounds to 1; fit error 2e-8. 6.1 ULP (3.7e-7 absolute). */
WF_INLINE wf_vf wf_v_erf(wf_vf x)
{
    const wf_vf a = wf_v_min(wf_v_max(x, wf_v_set(-3.92f)), wf_v_set(3.92f));
    const wf_vf y = a * a;
    const wf_vf p =
        ((((0x1.13286p-19f * y + 0x1.2ab8eep-12f) * y + 0x1.ed9264p-9f) * y + 0x1.b01e56p-5f) * y +
         0x1.85f442p-3f) *
            y +
        0x1.20dd74p+0f;
    const wf_vf q =
        ((((0x1.3f8968p-15f * y + 0x1.30c116p-10f) * y + 0x1.ea8384p-7f) * y + 0x1.d36470p-4f) * y +
         0x1.011036p-1f) *
            y +
        1.0f;
    return wf_v_min(wf_v_max(a * p / q, wf_v_set(-1.0f)), wf_v_set(1.0f));
}

/* Compositions used as activations. Swish 2.3 ULP, mish 4.2 ULP; gelu and gelu_tanh: absolute error below
 * 4e-7 * max(1, |x|), relative error grows where the function nears 0 from below. */

WF_INLINE wf_vf wf_v_swish(wf_vf x, float alpha) /* x * sigmoid(alpha x) */
{
    return x / (1.0f + wf_v_exp_ftz(x * -alpha));
}

WF_INLINE wf_vf wf_v_gelu_erf(wf_vf x)
{
    const wf_vf h = 0.5f * x;
    return h * wf_v_erf(x * 0x1.6a09e6p-1f) + h;
}

/* (1 + tanh z) / 2 = sigmoid(2 z), which has no cancellation. */
WF_INLINE wf_vf wf_v_gelu_tanh(wf_vf x)
{
    const wf_vf z2 = x * (x * x * (-2.0f * 0.044715f * 0x1.988454p-1f) + (-2.0f * 0x1.988454p-1f));
    return x / (1.0f + wf_v_exp_ftz(z2));
}

WF_INLINE wf_vf wf_v_hard_swish(wf_vf x)
{
    const wf_vf g = x * (1.0f / 6.0f) + 0.5f;
    return x * wf_v_min(wf_v_max(g, wf_v_set(0.0f)), wf_v_set(1.0f));
}

WF_INLINE wf_vf wf_v_softplus(wf_vf x)
{
    const wf_vf l = wf_v_log1p(wf_v_exp_ftz(-wf_v_abs(x)));
    return wf_v_max(x, wf_v_set(0.0f)) + l;
}

/* tanh(softplus x) = w / (w + 2) with w = e^x (e^x + 2); above 20 it rounds to 1. */
WF_INLINE wf_vf wf_v_mish(wf_vf x)
{
    const wf_vf e = wf_v_exp_ftz(wf_v_min(x, wf_v_set(20.0f)));
    const wf_vf w = e * (e + 2.0f);
    return x * (w / (w + 2.0f));
}

/* Reductions over the lanes, as a binary tree: the same value for a given vector length everywhere. */

WF_INLINE float wf_v_sum_lanes(wf_vf v)
{
    float t[WF_VLEN];
    wf_v_store(t, v);
    WF_UNROLL(4)
    for (int half = WF_VLEN / 2; half > 0; half /= 2) {
        WF_UNROLL(8)
        for (int i = 0; i < half; i++)
            t[i] += t[i + half];
    }
    return t[0];
}

WF_INLINE float wf_v_max_lanes(wf_vf v) /* a NaN in any lane gives NaN */
{
    float t[WF_VLEN];
    wf_v_store(t, v);
    WF_UNROLL(4)
    for (int half = WF_VLEN / 2; half > 0; half /= 2) {
        WF_UNROLL(8)
        for (int i = 0; i < half; i++)
            t[i] = t[i] < t[i + half] || t[i + half] != t[i + half] ? t[i + half] : t[i];
    }
    return t[0];
}

#endif
