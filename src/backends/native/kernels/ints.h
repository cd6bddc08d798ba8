/* SPDX-License-Identifier: Apache-2.0 */
/* Integer helpers of the blocking code. Arguments are >= 0, divisors > 0. */
#ifndef WF_NATIVE_INTS_H
#define WF_NATIVE_INTS_H

#include <stdint.h>

static inline int64_t wf_i_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t wf_i_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t wf_i_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t wf_i_round_up(int64_t a, int64_t step)
{
    return wf_i_ceil_div(a, step) * step;
}

#endif
