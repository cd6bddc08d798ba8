/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/softmax.h"

#include <assert.h>
#include <math.h>

#include "backends/native/kernels/lanes.h"

static float softmax_max(const float *x, int64_t n)
{
    wf_vf m[4];
    WF_UNROLL(4)
    for (int v = 0; v < 4; v++) {
        m[v] = wf_v_set(-INFINITY);
    }
    int64_t i = 0;
    for (; i + 4 * WF_VLEN <= n; i += 4 * WF_VLEN) {
        WF_UNROLL(4)
        for (int v = 0; v < 4; v++) {
            m[v] = wf_v_max(wf_v_load(x + i + v * WF_VLEN), m[v]); /* a NaN may get lost: exp finds it */
        }
    }
    for (; i + WF_VLEN <= n; i += WF_VLEN) {
        m[0] = wf_v_max(wf_v_load(x + i), m[0]);
    }
    if (i < n) {
        m[1] = wf_v_max(wf_v_first(wf_v_load_part(x + i, (size_t)(n - i)), (size_t)(n - i), -INFINITY), m[1]);
    }
    return wf_v_max_lanes(wf_v_max(wf_v_max(m[0], m[1]), wf_v_max(m[2], m[3])));
}

/* Sum of exp(x - max); stores the terms too unless y is NULL. Two chains hide the latency of the polynomial.
 */
static float softmax_exp(const float *x, float *y, int64_t n, float max)
{
    const wf_vf m = wf_v_set(max);
    wf_vf sum[2] = {wf_v_set(0.0f), wf_v_set(0.0f)};
    int64_t i = 0;
    for (; i + 2 * WF_VLEN <= n; i += 2 * WF_VLEN) {
        WF_UNROLL(2)
        for (int v = 0; v < 2; v++) {
            const wf_vf e = wf_v_exp_ftz(wf_v_load(x + i + v * WF_VLEN) - m);
            if (y) {
                wf_v_store(y + i + v * WF_VLEN, e);
            }
            sum[v] += e;
        }
    }
    for (; i < n; i += WF_VLEN) {
        const size_t count = n - i < WF_VLEN ? (size_t)(n - i) : WF_VLEN;
        const wf_vf e = wf_v_first(wf_v_exp_ftz(wf_v_load_part(x + i, count) - m), count, 0.0f);
        if (y) {
            wf_v_store_part(y + i, e, count);
        }
        sum[0] += e;
    }
    return wf_v_sum_lanes(sum[0] + sum[1]);
}

static void softmax_line(const float *x, float *y, int64_t n, int log)
{
    const float max = softmax_max(x, n);
    const float sum = softmax_exp(x, log ? NULL : y, n, max);
    if (log) {
        const wf_vf m = wf_v_set(max), l = wf_v_log(wf_v_set(sum));
        int64_t i = 0;
        for (; i + WF_VLEN <= n; i += WF_VLEN) {
            wf_v_store(y + i, wf_v_load(x + i) - m - l);
        }
        wf_v_store_part(y + i, wf_v_load_part(x + i, (size_t)(n - i)) - m - l, (size_t)(n - i));
    } else {
        const wf_vf scale = wf_v_set(1.0f / sum);
        int64_t i = 0;
        for (; i + WF_VLEN <= n; i += WF_VLEN) {
            wf_v_store(y + i, wf_v_load(y + i) * scale);
        }
        wf_v_store_part(y + i, wf_v_load_part(y + i, (size_t)(n - i)) * scale, (size_t)(n - i));
    }
}

/* `count` <= WF_VLEN neighbouring lines, a lane each. */
WF_INLINE void softmax_lanes(const float *x, float *y, int64_t n, int64_t stride, size_t count, int log)
{
    wf_vf max = wf_v_set(-INFINITY);
    for (int64_t i = 0; i < n; i++) {
        max = wf_v_max(wf_v_load_n(x + i * stride, count), max);
    }
    wf_vf sum = wf_v_set(0.0f);
    for (int64_t i = 0; i < n; i++) {
        const wf_vf e = wf_v_exp_ftz(wf_v_load_n(x + i * stride, count) - max);
        if (!log) {
            wf_v_store_n(y + i * stride, e, count);
        }
        sum += e;
    }
    const wf_vf l = wf_v_log(sum), scale = 1.0f / sum;
    for (int64_t i = 0; i < n; i++) {
        const wf_vf v =
            log ? wf_v_load_n(x + i * stride, count) - max - l : wf_v_load_n(y + i * stride, count) * scale;
        wf_v_store_n(y + i * stride, v, count);
    }
}

void WF_KERNEL(wf_softmax_f32)(const wf_softmax_args *a, int64_t begin, int64_t end)
{
    assert(a->outer >= 1 && a->axis >= 1 && a->inner >= 1);
    assert(begin >= 0 && begin <= end && end <= wf_softmax_rows(a));
    if (a->inner == 1) {
        for (int64_t row = begin; row < end; row++) {
            softmax_line(a->x + row * a->axis, a->y + row * a->axis, a->axis, a->log);
        }
        return;
    }
    const int64_t chunks = (a->inner + WF_SOFTMAX_INNER - 1) / WF_SOFTMAX_INNER;
    for (int64_t row = begin; row < end; row++) {
        const int64_t i0 = row % chunks * WF_SOFTMAX_INNER;
        const int64_t i1 = i0 + WF_SOFTMAX_INNER < a->inner ? i0 + WF_SOFTMAX_INNER : a->inner;
        const int64_t base = row / chunks * a->axis * a->inner;
        for (int64_t i = i0; i < i1; i += WF_VLEN) {
            if (i + WF_VLEN <= i1) {
                softmax_lanes(a->x + base + i, a->y + base + i, a->axis, a->inner, WF_VLEN, a->log);
            } else {
                softmax_lanes(a->x + base + i, a->y + base + i, a->axis, a->inner, (size_t)(i1 - i), a->log);
            }
        }
    }
}
