/* SPDX-License-Identifier: Apache-2.0 */
/* Pools, global ones being windows as large as the input. Cells of padding are not seen; AveragePool may
 * count them, up to the padded border, when it divides. */
#include <math.h>

#include "ref/kernel.h"

typedef enum pool_kind { POOL_MAX, POOL_AVERAGE, POOL_LP } pool_kind_t;

typedef struct pool_job {
    const wf_tensor_t *in, *out, *indices; /* indices NULL: not wanted */
    pool_kind_t kind;
    wf_window_t window;
    int64_t in_elems, out_elems; /* of a plane */
    bool count_pad, column_major;
    double p;
    int64_t index_strides[WF_MAX_RANK];
} pool_job_t;

typedef struct pool_state {
    wf_lane_t best;
    bool any;
    int64_t best_at; /* spatial index in the plane, in the order that was asked for */
    double sum;
} pool_state_t;

static bool is_larger(wf_lane_class_t lane_class, wf_lane_t a, wf_lane_t b)
{
    return lane_class == WF_LANE_F   ? a.f > b.f || (isnan(a.f) && !isnan(b.f))
           : lane_class == WF_LANE_I ? a.i > b.i
                                     : a.u > b.u;
}

/* Takes `count` lanes; the first one has index `at` and the next ones are `at_step` on. */
static void take(const pool_job_t *job, size_t count, const wf_lane_t *lanes, int64_t at, int64_t at_step,
                 pool_state_t *state)
{
    wf_lane_class_t lane_class = wf_lane_class(job->in->type.dtype);
    for (size_t k = 0; k < count; k++) {
        switch (job->kind) {
        case POOL_MAX:
            if (!state->any || is_larger(lane_class, lanes[k], state->best)) {
                state->best = lanes[k];
                state->best_at = at + (int64_t)k * at_step;
                state->any = true;
            }
            break;
        case POOL_AVERAGE:
            state->sum += lanes[k].f;
            break;
        case POOL_LP:
            state->sum += job->p == 1.0   ? fabs(lanes[k].f)
                          : job->p == 2.0 ? lanes[k].f * lanes[k].f
                                          : pow(fabs(lanes[k].f), job->p);
            break;
        }
    }
}

/* Kernel places [*out_low, *out_high) of a dim that fall on [from, to) when the window starts at `start`. */
static void places_inside(int64_t start, int64_t kernel, int64_t dilation, int64_t from, int64_t to,
                          int64_t *out_low, int64_t *out_high)
{
    int64_t low = start < from ? (from - start + dilation - 1) / dilation : 0;
    int64_t high = to > start ? (to - start + dilation - 1) / dilation : 0;
    *out_low = WF_MIN(low, kernel);
    *out_high = WF_MAX(*out_low, WF_MIN(high, kernel));
}

static wf_lane_t pool_window(const pool_job_t *job, int64_t plane, const int64_t *o, int64_t *out_at)
{
    const wf_window_t *w = &job->window;
    uint32_t last = w->spatial_rank - 1;
    int64_t start[WF_MAX_RANK], low[WF_MAX_RANK], high[WF_MAX_RANK], size[WF_MAX_RANK], index[WF_MAX_RANK];
    int64_t seen = 1, counted = 1, rows = 1;
    for (uint32_t d = 0; d <= last; d++) {
        int64_t with_low, with_high;
        start[d] = o[d] * w->stride[d] - w->pad_begin[d];
        places_inside(start[d], w->kernel[d], w->dilation[d], 0, w->in[d], &low[d], &high[d]);
        places_inside(start[d], w->kernel[d], w->dilation[d], -w->pad_begin[d], w->in[d] + w->pad_end[d],
                      &with_low, &with_high);
        size[d] = high[d] - low[d];
        seen *= size[d];
        counted *= with_high - with_low;
        rows *= d < last ? size[d] : 1;
    }
    pool_state_t state = {.best = {.u = 0}};
    for (int64_t row = 0; seen > 0 && row < rows; row++) {
        int64_t at = plane, number = 0;
        wf_unravel(row, last, size, index);
        for (uint32_t d = 0; d < last; d++) {
            int64_t i = start[d] + (low[d] + index[d]) * w->dilation[d];
            at = at * w->in[d] + i;
            number += i * job->index_strides[d];
        }
        int64_t first = start[last] + low[last] * w->dilation[last];
        for (int64_t k = 0; k < size[last]; k += WF_LANE_BLOCK) {
            wf_lane_t lanes[WF_LANE_BLOCK];
            int64_t i = first + k * w->dilation[last];
            size_t count = (size_t)WF_MIN(size[last] - k, WF_LANE_BLOCK);
            wf_lanes_load(job->in->type.dtype, job->in->data, at * w->in[last] + i, w->dilation[last], count,
                          lanes);
            take(job, count, lanes, number + i * job->index_strides[last],
                 w->dilation[last] * job->index_strides[last], &state);
        }
    }
    *out_at = state.best_at;
    if (job->kind == POOL_MAX) {
        int64_t min = 0, max;
        if (!state.any && wf_lane_class(job->in->type.dtype) == WF_LANE_F) {
            return (wf_lane_t){.f = -INFINITY};
        }
        if (!state.any) {
            wf_dtype_limits(job->in->type.dtype, &min, &max);
        }
        return state.any ? state.best : (wf_lane_t){.i = min};
    }
    double divisor = (double)WF_MAX(job->count_pad ? counted : seen, 1);
    return (wf_lane_t){.f = job->kind == POOL_AVERAGE ? state.sum / divisor
                            : job->p == 1.0           ? state.sum
                            : job->p == 2.0           ? sqrt(state.sum)
                                                      : pow(state.sum, 1.0 / job->p)};
}

static void pool_chunk(void *arg, int64_t first, int64_t count)
{
    const pool_job_t *job = arg;
    int64_t o[WF_MAX_RANK];
    for (int64_t e = first; e < first + count; e++) {
        int64_t plane = e / job->out_elems, at;
        wf_unravel(e % job->out_elems, job->window.spatial_rank, job->window.out, o);
        wf_lane_t value = pool_window(job, plane, o, &at);
        if (job->out->data != NULL) {
            wf_lane_store(job->out->type.dtype, job->out->data, e, value);
        }
        if (job->indices != NULL) {
            wf_lane_store(job->indices->type.dtype, job->indices->data, e,
                          (wf_lane_t){.i = plane * job->in_elems + at});
        }
    }
}

wf_status_t wf_ref_pool(const wf_ref_call_t *call)
{
    static const struct {
        wf_op_t op;
        pool_kind_t kind;
        bool global;
    } kinds[] = {
        {WF_OP_MAX_POOL, POOL_MAX, false},
        {WF_OP_AVERAGE_POOL, POOL_AVERAGE, false},
        {WF_OP_LP_POOL, POOL_LP, false},
        {WF_OP_GLOBAL_MAX_POOL, POOL_MAX, true},
        {WF_OP_GLOBAL_AVERAGE_POOL, POOL_AVERAGE, true},
        {WF_OP_GLOBAL_LP_POOL, POOL_LP, true},
    };
    size_t k = 0;
    while (kinds[k].op != call->op) {
        k++;
    }
    pool_job_t job = {.in = &call->inputs[0], .out = &call->outputs[0], .kind = kinds[k].kind};
    const wf_type_t *in = &job.in->type;
    wf_window_t *w = &job.window;
    if (kinds[k].global) {
        w->spatial_rank = in->rank - 2;
        for (uint32_t d = 0; d < w->spatial_rank; d++) {
            w->in[d] = w->kernel[d] = in->dims[2 + d];
            w->out[d] = w->stride[d] = w->dilation[d] = 1;
        }
        if (w->spatial_rank == 0) { /* a plane of one element */
            w->spatial_rank = 1;
            w->in[0] = w->kernel[0] = w->out[0] = w->stride[0] = w->dilation[0] = 1;
        }
    } else {
        WF_TRY(wf_window_resolve(call->op, call->attrs, in, NULL, w));
    }
    job.indices = wf_ref_wants(call, 1) ? &call->outputs[1] : NULL;
    job.count_pad = wf_attrs_int(call->attrs, "count_include_pad", 0) != 0;
    job.column_major = wf_attrs_int(call->attrs, "storage_order", 0) != 0;
    job.p = (double)wf_attrs_int(call->attrs, "p", 2);
    job.in_elems = job.out_elems = 1;
    for (uint32_t d = 0; d < w->spatial_rank; d++) {
        job.in_elems *= w->in[d];
        job.out_elems *= w->out[d];
    }
    wf_strides_dense(w->spatial_rank, w->in, job.index_strides);
    for (uint32_t d = 0; job.column_major && d < w->spatial_rank; d++) {
        job.index_strides[d] = d == 0 ? 1 : job.index_strides[d - 1] * w->in[d - 1];
    }
    int64_t window_elems = 1;
    for (uint32_t d = 0; d < w->spatial_rank; d++) {
        window_elems *= WF_MAX(1, WF_MIN(w->kernel[d], w->in[d]));
    }
    wf_ref_chunks(call, wf_type_elems(&call->outputs[0].type), WF_MAX(1, WF_REF_CHUNK / window_elems),
                  pool_chunk, &job);
    return WF_OK;
}
