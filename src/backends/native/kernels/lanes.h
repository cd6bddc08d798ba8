/* SPDX-License-Identifier: Apache-2.0 */
/* Small vector helpers that several kernels share. */
#ifndef WF_NATIVE_LANES_H
#define WF_NATIVE_LANES_H

#include "backends/native/kernels/simd.h"
#include "backends/native/kernels/vmath.h"

/* wf_v_load_part and wf_v_store_part for counts that are nearly always WF_VLEN: a masked store costs ten
 * plain ones on Zen. */
WF_INLINE wf_vf wf_v_load_n(const float *p, size_t count)
{
    return count == WF_VLEN ? wf_v_load(p) : wf_v_load_part(p, count);
}

WF_INLINE void wf_v_store_n(float *p, wf_vf v, size_t count)
{
    if (count == WF_VLEN) {
        wf_v_store(p, v);
    } else {
        wf_v_store_part(p, v, count);
    }
}

/* The larger of the two; NaN when either is. */
WF_INLINE wf_vf wf_v_max_nan(wf_vf a, wf_vf x)
{
    return wf_v_select(x != x, x, wf_v_max(a, x));
}

/* The smaller of the two; NaN when either is. */
WF_INLINE wf_vf wf_v_min_nan(wf_vf a, wf_vf x)
{
    return wf_v_select(x != x, x, wf_v_min(a, x));
}

/* v in the first `count` lanes, `rest` in the others. */
WF_INLINE wf_vf wf_v_first(wf_vf v, size_t count, float rest)
{
    wf_vi index;
    WF_UNROLL(16)
    for (int i = 0; i < WF_VLEN; i++) {
        index[i] = i;
    }
    return wf_v_select(index < wf_v_seti((int32_t)count), v, wf_v_set(rest));
}

#endif
