/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and its logarithm, f32, over the middle axis of a dense view x[outer][axis][inner].
 *
 *   y = exp(x - m) / sum exp(x - m)      or      y = (x - m) - log(sum exp(x - m)),      m = max x over the
 * axis
 *
 * Special values follow the formulas, as in the reference: a line with a NaN or +infinity is all NaN, and so
 * is a line of only -infinity (a fully masked row); other elements of -infinity give 0 or -infinity. exp(x -
 * m) below about 1e-38 counts as 0. Within a tier results do not depend on how the work is cut.
 */
#ifndef WF_NATIVE_SOFTMAX_H
#define WF_NATIVE_SOFTMAX_H

#include <stdint.h>

#include "backends/native/kernels/tiers.h"

/* Neighbouring inner indices that are one row of work when inner > 1: a cache line or two. */
#define WF_SOFTMAX_INNER 32

typedef struct wf_softmax_args {
    const float *x;
    float *y; /* x itself, or no overlap */
    int64_t outer, axis, inner;
    int32_t log; /* 1: the logarithm */
} wf_softmax_args;

/* Rows of work: a line of the axis each when inner = 1, WF_SOFTMAX_INNER neighbouring lines otherwise. */
static inline int64_t wf_softmax_rows(const wf_softmax_args *a)
{
    return a->inner == 1 ? a->outer : a->outer * ((a->inner + WF_SOFTMAX_INNER - 1) / WF_SOFTMAX_INNER);
}

/* Computes rows [begin, end) of the wf_softmax_rows(a). Sizes are >= 1 (asserted). Thread-safe. */
typedef void wf_softmax_f32_fn(const wf_softmax_args *a, int64_t begin, int64_t end);

#define WF_X(tier) wf_softmax_f32_fn wf_softmax_f32_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
