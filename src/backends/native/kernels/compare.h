/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons of integers over runs of elements, the result as bytes or floats.
 *
 *   out[i] = x[i * x_step] R y[i * y_step],  R one of =, <, <=;  > and >= by swapping x and y
 */
#ifndef WF_NATIVE_COMPARE_H
#define WF_NATIVE_COMPARE_H

#include <stdint.h>

#include "backends/native/kernels/tiers.h"

typedef enum wf_compare_relation {
    WF_COMPARE_EQUAL,
    WF_COMPARE_LESS,
    WF_COMPARE_LESS_EQUAL
} wf_compare_relation;

typedef struct wf_compare_args {
    wf_compare_relation relation;
    int32_t elem_bytes;     /* of x and y: 4 (int32_t) or 8 (int64_t) */
    int32_t to_f32;         /* 1: 1.0f and 0.0f; 0: bytes 1 and 0 */
    int32_t x_step, y_step; /* 1, or 0: one value for the run */
} wf_compare_args;

/* Compares count >= 0 elements. out overlaps neither x nor y. Thread-safe. */
typedef void wf_compare_fn(const wf_compare_args *a, const void *x, const void *y, void *out, int64_t count);

#define WF_X(tier) wf_compare_fn wf_compare_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
