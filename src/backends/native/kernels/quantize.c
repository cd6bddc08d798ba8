/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/quantize.h"

#include "backends/native/kernels/lanes.h"

typedef struct quantize_constants {
    wf_vf scale, zero, low, high; /* limits of x / scale, so that adding zero cannot leave the type */
} quantize_constants;

static quantize_constants quantize_prepare(const wf_quantize_args *a)
{
    const float min = a->is_i8 ? -128.0f : 0.0f, max = a->is_i8 ? 127.0f : 255.0f, zero = (float)a->zero;
    return (quantize_constants){wf_v_set(a->scale), wf_v_set(zero), wf_v_set(min - zero),
                                wf_v_set(max - zero)};
}

/* At most 383 in size after the limits: adding 1.5 * 2^23 leaves no room for a fraction, and the machine
 * rounds to even. */
WF_INLINE wf_vi quantize_vector(const quantize_constants *c, wf_vf x)
{
    const wf_vf magic = wf_v_set(12582912.0f);
    wf_vf v = x / c->scale;
    v = wf_v_select(v == v, v, wf_v_set(0.0f));
    v = wf_v_min(wf_v_max(v, c->low), c->high);
    v = (v + magic) - magic;
    return __builtin_convertvector(v + c->zero, wf_vi);
}

/* Bytes to floats and back: the generic conversion goes through one element at a time. */
WF_INLINE wf_vf quantize_widen(const uint8_t bytes[WF_VLEN], const int is_i8)
{
#if WF_VLEN == 8 && defined(__AVX2__)
    const __m128i q = _mm_loadl_epi64((const __m128i *)(const void *)bytes);
    return (wf_vf)_mm256_cvtepi32_ps(is_i8 ? _mm256_cvtepi8_epi32(q) : _mm256_cvtepu8_epi32(q));
#elif WF_VLEN == 16 && defined(__AVX512F__)
    const __m128i q = _mm_loadu_si128((const __m128i *)(const void *)bytes);
    return (wf_vf)_mm512_cvtepi32_ps(is_i8 ? _mm512_cvtepi8_epi32(q) : _mm512_cvtepu8_epi32(q));
#else
    wf_vf v;
    for (int i = 0; i < WF_VLEN; i++) {
        v[i] = is_i8 ? (float)(int8_t)bytes[i] : (float)bytes[i];
    }
    return v;
#endif
}

/* The low byte of each is the value, for signed and unsigned integers alike. */
WF_INLINE void quantize_narrow(uint8_t bytes[WF_VLEN], wf_vi q)
{
#if WF_VLEN == 8 && defined(__AVX2__)
    const __m256i low = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8,
                                         12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i lanes = _mm256_shuffle_epi8((__m256i)q, low);
    const __m128i packed =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    _mm_storel_epi64((__m128i *)(void *)bytes, packed);
#elif WF_VLEN == 16 && defined(__AVX512F__)
    _mm_storeu_si128((__m128i *)(void *)bytes, _mm512_cvtepi32_epi8((__m512i)q));
#else
    for (int i = 0; i < WF_VLEN; i++) {
        bytes[i] = (uint8_t)q[i];
    }
#endif
}

static void quantize_forward(const wf_quantize_args *a, int64_t begin, int64_t end)
{
    const quantize_constants c = quantize_prepare(a);
    const float *x = a->x;
    uint8_t *y = a->y, rest[WF_VLEN];
    int64_t i = begin;
    for (; i + WF_VLEN <= end; i += WF_VLEN) {
        quantize_narrow(y + i, quantize_vector(&c, wf_v_load(x + i)));
    }
    quantize_narrow(rest, quantize_vector(&c, wf_v_load_part(x + i, (size_t)(end - i))));
    memcpy(y + i, rest, (size_t)(end - i));
}

WF_INLINE void quantize_backward(const wf_quantize_args *a, int64_t begin, int64_t end, const int is_i8)
{
    const wf_vf scale = wf_v_set(a->scale), zero = wf_v_set((float)a->zero);
    const uint8_t *x = a->x;
    uint8_t rest[WF_VLEN] = {0};
    float *y = a->y;
    int64_t i = begin;
    for (; i + WF_VLEN <= end; i += WF_VLEN) {
        wf_v_store(y + i, (quantize_widen(x + i, is_i8) - zero) * scale);
    }
    memcpy(rest, x + i, (size_t)(end - i));
    wf_v_store_part(y + i, (quantize_widen(rest, is_i8) - zero) * scale, (size_t)(end - i));
}

void WF_KERNEL(wf_quantize)(const wf_quantize_args *a, int64_t begin, int64_t end)
{
    if (a->forward) {
        quantize_forward(a, begin, end);
    } else if (a->is_i8) {
        quantize_backward(a, begin, end, 1);
    } else {
        quantize_backward(a, begin, end, 0);
    }
}
