/* SPDX-License-Identifier: Apache-2.0 */
/* One source, one object per CPU tier.
 *
 * Every kernel source is compiled once per tier with WF_TIER (the suffix of its symbols) and WF_VLEN (floats
 * in a vector) set by the build. The types are the compilers' generic vectors, so a 16-lane kernel can be
 * checked on a machine without AVX-512: the compiler splits it, the arithmetic is the same. Files that
 * include this header may not include anything that queries the CPU, allocates or starts threads.
 */
#ifndef WF_NATIVE_SIMD_H
#define WF_NATIVE_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#ifndef WF_TIER
#error "compile kernels through the build: WF_TIER and WF_VLEN are set per tier"
#endif
#if WF_VLEN != 4 && WF_VLEN != 8 && WF_VLEN != 16
#error "WF_VLEN is 4, 8 or 16"
#endif

#define WF_CAT2(a, b) a##_##b
#define WF_CAT(a, b) WF_CAT2(a, b)
/* The symbol of a kernel in this tier: WF_KERNEL(wf_gemm_f32) is wf_gemm_f32_avx2 in the avx2 object. */
#define WF_KERNEL(name) WF_CAT(name, WF_TIER)

#define WF_INLINE static inline __attribute__((always_inline, unused))
#define WF_RESTRICT __restrict

/* Before a loop of a constant number of rounds, at most n, over an array that has to become registers. clang
 * says nothing about gcc's pragma and ignores it. */
#define WF_PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define WF_UNROLL(n) WF_PRAGMA(clang loop unroll(full))
#else
#define WF_UNROLL(n) WF_PRAGMA(GCC unroll n)
#endif

typedef float wf_vf __attribute__((vector_size(WF_VLEN * 4)));
typedef int32_t wf_vi __attribute__((vector_size(WF_VLEN * 4)));

WF_INLINE wf_vf wf_v_load(const float *p)
{
    wf_vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

WF_INLINE void wf_v_store(float *p, wf_vf v)
{
    memcpy(p, &v, sizeof v);
}

WF_INLINE wf_vf wf_v_set(float x)
{
    return x - (wf_vf){0}; /* broadcast; x - 0 keeps -0.0 and NaN, and folds away */
}

/* c += a * b. gcc 12 turns the plain expression into forms of FMA that overwrite a factor, and pays with a
 * register copy or a spill for one FMA in six: 0.88 of peak for the 6x16 tile, 0.96 with the form spelled
 * out; clang 14 does better on its own, 0.97 (Zen 3, K = 256, 2026-11-30). */
WF_INLINE void wf_v_fma(wf_vf *c, wf_vf a, wf_vf b)
{
#if defined(__FMA__) && !defined(__clang__) && (WF_VLEN == 8 || (WF_VLEN == 16 && defined(__AVX512F__)))
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(*c) : "v"(a), "v"(b));
#else
    *c += a * b;
#endif
}

/* Where the generic form costs several instructions and the machine has one, the machine's is used; same
 * results. */
#if WF_VLEN == 8 && defined(__AVX2__)
/* All ones in the lanes below count. */
WF_INLINE __m256i wf_v_part_mask(size_t count)
{
    static const int32_t ones[2 * 8] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - count));
}
#endif

/* The first `count` lanes from memory, zero in the others; count in [0, WF_VLEN]. Never reads past p + count.
 */
WF_INLINE wf_vf wf_v_load_part(const float *p, size_t count)
{
#if WF_VLEN == 16 && defined(__AVX512F__)
    return (wf_vf)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1u), p);
#elif WF_VLEN == 8 && defined(__AVX2__)
    return (wf_vf)_mm256_maskload_ps(p, wf_v_part_mask(count));
#else
    wf_vf v = {0};
    memcpy(&v, p, count * sizeof(float));
    return v;
#endif
}

WF_INLINE void wf_v_store_part(float *p, wf_vf v, size_t count)
{
#if WF_VLEN == 16 && defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1u), (__m512)v);
#elif WF_VLEN == 8 && defined(__AVX2__)
    _mm256_maskstore_ps(p, wf_v_part_mask(count), (__m256)v);
#else
    memcpy(p, &v, count * sizeof(float));
#endif
}

/* a where mask is all ones, else b. */
WF_INLINE wf_vf wf_v_select(wf_vi mask, wf_vf a, wf_vf b)
{
#if WF_VLEN == 8 && defined(__AVX__)
    return (wf_vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
#else
    return (wf_vf)(((wf_vi)a & mask) | ((wf_vi)b & ~mask));
#endif
}

/* Like ONNX Relu / Clip in the reference: a NaN in x stays NaN. MAXPS and MINPS return their second operand
 * when either is NaN, and when the operands are equal (two zeros of different sign). */
WF_INLINE wf_vf wf_v_max(wf_vf x, wf_vf lo)
{
#if WF_VLEN == 16 && defined(__AVX512F__)
    return (wf_vf)_mm512_max_ps((__m512)lo, (__m512)x);
#elif WF_VLEN == 8 && defined(__AVX__)
    return (wf_vf)_mm256_max_ps((__m256)lo, (__m256)x);
#elif WF_VLEN == 4 && defined(__SSE__)
    return (wf_vf)_mm_max_ps((__m128)lo, (__m128)x);
#else
    return wf_v_select(x < lo, lo, x);
#endif
}

WF_INLINE wf_vf wf_v_min(wf_vf x, wf_vf hi)
{
#if WF_VLEN == 16 && defined(__AVX512F__)
    return (wf_vf)_mm512_min_ps((__m512)hi, (__m512)x);
#elif WF_VLEN == 8 && defined(__AVX__)
    return (wf_vf)_mm256_min_ps((__m256)hi, (__m256)x);
#elif WF_VLEN == 4 && defined(__SSE__)
    return (wf_vf)_mm_min_ps((__m128)hi, (__m128)x);
#else
    return wf_v_select(x > hi, hi, x);
#endif
}

#endif
