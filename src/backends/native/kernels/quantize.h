/* SPDX-License-Identifier: Apache-2.0 */
/* QuantizeLinear and DequantizeLinear between f32 and 8-bit integers, over runs of elements that share a
 * scale.
 *
 *   y = saturate(round_half_even(x / scale) + zero), NaN gives zero;      y = (x - zero) * scale
 *
 * The same bits as the reference: one correctly rounded division or multiplication each.
 */
#ifndef WF_NATIVE_QUANTIZE_H
#define WF_NATIVE_QUANTIZE_H

#include <stdint.h>

#include "backends/native/kernels/tiers.h"

typedef struct wf_quantize_args {
    const void *x;
    void *y;         /* no overlap */
    int64_t count;   /* elements in all, any */
    float scale;     /* of all */
    int32_t zero;    /* a value of the integer type */
    int32_t is_i8;   /* the integers are signed */
    int32_t forward; /* 1: f32 to integer, 0: back */
} wf_quantize_args;

/* Computes elements [begin, end). Thread-safe. */
typedef void wf_quantize_fn(const wf_quantize_args *a, int64_t begin, int64_t end);

#define WF_X(tier) wf_quantize_fn wf_quantize_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
