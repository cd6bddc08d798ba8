/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of f32 over the middle axis of a dense view x[outer][axis][inner] to y[outer][inner].
 *
 * Formulas are those of the ONNX Reduce operators; log-sum-exp subtracts the maximum first. A NaN on the way
 * makes the result NaN, the maximum and the minimum too. An empty axis gives the neutral element: 0, 1 for
 * the product, -infinity for maximum, log-sum and log-sum-exp, +infinity for the minimum, NaN for the mean.
 * Long sums move on in double precision every few thousand terms. Within a tier results do not depend on how
 * the work is cut.
 */
#ifndef WF_NATIVE_REDUCE_H
#define WF_NATIVE_REDUCE_H

#include <stdint.h>

#include "backends/native/kernels/tiers.h"

typedef enum wf_reduce_op {
    WF_REDUCE_SUM,
    WF_REDUCE_MEAN,
    WF_REDUCE_MAX,
    WF_REDUCE_MIN,
    WF_REDUCE_PROD,
    WF_REDUCE_L1,
    WF_REDUCE_L2,
    WF_REDUCE_SUM_SQUARE,
    WF_REDUCE_LOG_SUM,
    WF_REDUCE_LOG_SUM_EXP,
    WF_REDUCE_OP_COUNT
} wf_reduce_op;

/* Neighbouring inner indices that are one row of work when inner > 1. */
#define WF_REDUCE_INNER 64

typedef struct wf_reduce_args {
    wf_reduce_op op;
    const float *x;
    float *y; /* must not overlap x */
    int64_t outer, axis, inner;
} wf_reduce_args;

/* Rows of work: one result each when inner = 1, WF_REDUCE_INNER neighbouring results otherwise. */
static inline int64_t wf_reduce_rows(const wf_reduce_args *a)
{
    return a->inner == 1 ? a->outer : a->outer * ((a->inner + WF_REDUCE_INNER - 1) / WF_REDUCE_INNER);
}

/* Computes rows [begin, end) of the wf_reduce_rows(a). axis >= 0, outer and inner >= 1 (asserted).
 * Thread-safe. */
typedef void wf_reduce_f32_fn(const wf_reduce_args *a, int64_t begin, int64_t end);

#define WF_X(tier) wf_reduce_f32_fn wf_reduce_f32_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
