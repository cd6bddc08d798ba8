/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over any set of axes. Per output the elements are taken in row-major order, so that the result
 * does not depend on threads. */
#include <math.h>

#include "ref/kernel.h"

/* REDUCE(operator, finish, first value f64 i64 u64, next value from s and x: f64, i64, u64). The row of
 * LOG_SUM_EXP sees x less the largest element. Integer sums wrap. */
#define REDUCE_ROWS(REDUCE)                                                                                 \
    REDUCE(L1, FINISH_NONE, 0, 0, 0, s + fabs(x), WRAP(s, +, x < 0 ? 0 - (uint64_t)x : (uint64_t)x), s + x) \
    REDUCE(L2, FINISH_SQRT, 0, 0, 0, s + x * x, s, s)                                                       \
    REDUCE(LOG_SUM, FINISH_LOG, 0, 0, 0, s + x, s, s)                                                       \
    REDUCE(LOG_SUM_EXP, FINISH_LOG_SHIFTED, 0, 0, 0, s + exp(x), s, s)                                      \
    REDUCE(MAX, FINISH_NONE, -INFINITY, INT64_MIN, 0, s >= x || isnan(s) ? s : x, s > x ? s : x,            \
           s > x ? s : x)                                                                                   \
    REDUCE(MEAN, FINISH_MEAN, 0, 0, 0, s + x, WRAP(s, +, x), s + x)                                         \
    REDUCE(MIN, FINISH_NONE, INFINITY, INT64_MAX, UINT64_MAX, s <= x || isnan(s) ? s : x, s < x ? s : x,    \
           s < x ? s : x)                                                                                   \
    REDUCE(PROD, FINISH_NONE, 1, 1, 1, s *x, WRAP(s, *, x), s *x)                                           \
    REDUCE(SUM, FINISH_NONE, 0, 0, 0, s + x, WRAP(s, +, x), s + x)                                          \
    REDUCE(SUM_SQUARE, FINISH_NONE, 0, 0, 0, s + x * x, WRAP(s, +, (uint64_t)x * (uint64_t)x), s + x * x)
#define WRAP(a, operation, b) ((int64_t)((uint64_t)(a)operation(uint64_t)(b)))

typedef enum finish { FINISH_NONE, FINISH_SQRT, FINISH_LOG, FINISH_LOG_SHIFTED, FINISH_MEAN } finish_t;

/* tile: sums[k] takes lanes[k]; fold: sums[0] takes all lanes in order. */
typedef void step_fn(wf_lane_t *sums, const wf_lane_t *lanes, size_t count, bool fold);

#define STEP(op, member, ctype, next)                                                           \
    static void op##_##member(wf_lane_t *sums, const wf_lane_t *lanes, size_t count, bool fold) \
    {                                                                                           \
        if (fold) {                                                                             \
            ctype s = sums->member;                                                             \
            for (size_t k = 0; k < count; k++) {                                                \
                ctype x = lanes[k].member;                                                      \
                (void)x;                                                                        \
                s = next;                                                                       \
            }                                                                                   \
            sums->member = s;                                                                   \
            return;                                                                             \
        }                                                                                       \
        for (size_t k = 0; k < count; k++) {                                                    \
            ctype s = sums[k].member, x = lanes[k].member;                                      \
            (void)x;                                                                            \
            sums[k].member = next;                                                              \
        }                                                                                       \
    }
#define REDUCE(op, finish, f0, i0, u0, f_next, i_next, u_next) \
    STEP(op, f, double, f_next) STEP(op, i, int64_t, i_next) STEP(op, u, uint64_t, u_next)
REDUCE_ROWS(REDUCE)
#undef REDUCE

typedef struct row {
    finish_t finish;
    wf_lane_t first[WF_LANE_CLASSES];
    step_fn *step[WF_LANE_CLASSES];
} row_t;

static const row_t rows[WF_OP_COUNT] = {
#define REDUCE(op, finish, f0, i0, u0, ...)                                                             \
    [WF_OP_REDUCE_##op] = {finish,                                                                      \
                           {[WF_LANE_F] = {.f = f0}, [WF_LANE_I] = {.i = i0}, [WF_LANE_U] = {.u = u0}}, \
                           {[WF_LANE_F] = op##_f, [WF_LANE_I] = op##_i, [WF_LANE_U] = op##_u}},
    REDUCE_ROWS(REDUCE)
#undef REDUCE
};

typedef struct job {
    const wf_tensor_t *in, *out;
    const row_t *row;
    wf_lane_class_t lane_class; /* of the sums */
    bool by_f64;                /* integers are reduced as f64 */
    wf_walk_t kept, reduced;
    int64_t count; /* elements of one reduction */
    bool tiled;    /* the innermost dim is kept: outputs side by side read elements side by side */
} job_t;

static void to_f64(const job_t *job, size_t count, wf_lane_t *lanes)
{
    bool is_signed = wf_lane_class(job->in->type.dtype) == WF_LANE_I;
    for (size_t k = 0; job->by_f64 && k < count; k++) {
        lanes[k].f = is_signed ? (double)lanes[k].i : (double)lanes[k].u;
    }
}

/* Runs `step` over the elements of `size` outputs from element `base` on; `shift` (one per output, or NULL)
 * is taken off first. */
static void accumulate(const job_t *job, step_fn *step, int64_t base, size_t size, const wf_lane_t *shift,
                       wf_lane_t *sums)
{
    wf_lane_t lanes[WF_LANE_BLOCK];
    wf_dtype_t dtype = job->in->type.dtype;
    int64_t block = job->tiled ? 1 : WF_LANE_BLOCK, index[WF_MAX_RANK];
    for (int64_t at = 0; at < job->count; at += block) {
        size_t count = job->tiled ? size : (size_t)WF_MIN(job->count - at, block);
        if (job->tiled) {
            int64_t offset = base;
            wf_unravel(at, job->reduced.rank, job->reduced.dims, index);
            for (uint32_t d = 0; d < job->reduced.rank; d++) {
                offset += index[d] * job->reduced.strides[d];
            }
            wf_lanes_load(dtype, job->in->data, offset, 1, count, lanes);
        } else {
            wf_walk_t walk = job->reduced;
            walk.base = base;
            wf_walk_load(&walk, dtype, job->in->data, at, count, lanes);
        }
        to_f64(job, count, lanes);
        for (size_t k = 0; shift != NULL && k < count; k++) {
            lanes[k].f -= shift[job->tiled ? k : 0].f;
        }
        step(sums, lanes, count, !job->tiled);
    }
}

static void finish(const job_t *job, size_t count, const wf_lane_t *shift, wf_lane_t *sums)
{
    for (size_t k = 0; k < count; k++) {
        switch (job->row->finish) {
        case FINISH_NONE:
            break;
        case FINISH_SQRT:
            sums[k].f = sqrt(sums[k].f);
            break;
        case FINISH_LOG:
            sums[k].f = log(sums[k].f);
            break;
        case FINISH_LOG_SHIFTED:
            sums[k].f = log(sums[k].f) + shift[k].f;
            break;
        case FINISH_MEAN:
            if (job->lane_class == WF_LANE_F) {
                sums[k].f /= (double)job->count;
            } else if (job->count > 0 && job->lane_class == WF_LANE_I) {
                sums[k].i /= job->count;
            } else if (job->count > 0) {
                sums[k].u /= (uint64_t)job->count;
            }
            break;
        }
        if (job->by_f64) {
            sums[k].i = wf_f64_to_i64(sums[k].f);
        }
    }
}

static void reduce_chunk(void *arg, int64_t first, int64_t count)
{
    const job_t *job = arg;
    int64_t index[WF_MAX_RANK];
    uint32_t rank = job->kept.rank;
    for (int64_t at = first; at < first + count;) {
        int64_t base = 0, size = 1;
        wf_unravel(at, rank, job->kept.dims, index);
        for (uint32_t d = 0; d < rank; d++) {
            base += index[d] * job->kept.strides[d];
        }
        if (job->tiled) {
            size =
                WF_MIN(WF_MIN(job->kept.dims[rank - 1] - index[rank - 1], first + count - at), WF_LANE_BLOCK);
        }
        wf_lane_t sums[WF_LANE_BLOCK], shift[WF_LANE_BLOCK];
        bool shifted = job->row->finish == FINISH_LOG_SHIFTED;
        for (int64_t k = 0; k < size; k++) {
            sums[k] = job->row->first[job->lane_class];
            shift[k].f = -INFINITY;
        }
        if (shifted) {
            accumulate(job, MAX_f, base, (size_t)size, NULL, shift);
            for (int64_t k = 0; k < size; k++) {
                shift[k].f =
                    isfinite(shift[k].f) ? shift[k].f : 0.0; /* exp gives 0, infinity or NaN by itself */
            }
        }
        accumulate(job, job->row->step[job->lane_class], base, (size_t)size, shifted ? shift : NULL, sums);
        finish(job, (size_t)size, shift, sums);
        wf_lanes_store(job->out->type.dtype, job->out->data, at, 1, (size_t)size, sums);
        at += size;
    }
}

/* The smallest value of the type for a maximum of nothing, the largest for a minimum; unsigned ones come by
 * themselves. */
static void limit_of_nothing(const job_t *job, wf_op_t op)
{
    int64_t min, max;
    wf_dtype_limits(job->out->type.dtype, &min, &max);
    for (int64_t e = 0; e < wf_type_elems(&job->out->type); e++) {
        wf_lane_store(job->out->type.dtype, job->out->data, e,
                      (wf_lane_t){.i = op == WF_OP_REDUCE_MAX ? min : max});
    }
}

wf_status_t wf_ref_reduce(const wf_ref_call_t *call)
{
    const wf_type_t *in = &call->inputs[0].type, *out = &call->outputs[0].type;
    job_t job = {.in = &call->inputs[0], .out = &call->outputs[0], .row = &rows[call->op], .count = 1};
    int64_t axes[WF_MAX_RANK], strides[WF_MAX_RANK];
    int32_t axis_count;
    WF_TRY(wf_ref_ints(call, "axes", 1, WF_MAX_RANK, axes, &axis_count));
    bool all = axis_count <= 0 && wf_attrs_int(call->attrs, "noop_with_empty_axes", 0) == 0;
    bool reduced[WF_MAX_RANK] = {false};
    for (int32_t k = 0; k < axis_count; k++) {
        int64_t axis = wf_axis_wrap(axes[k], in->rank);
        if (axis < 0 || axis >= in->rank) {
            return WF_ERROR(RUNTIME_DATA, "axis %lld of a tensor of rank %u", (long long)axes[k], in->rank);
        }
        reduced[axis] = true;
    }
    wf_strides_dense(in->rank, in->dims, strides);
    int64_t kept_elems = 1;
    for (uint32_t d = 0; d < in->rank; d++) {
        wf_walk_t *walk = all || reduced[d] ? &job.reduced : &job.kept;
        walk->dims[walk->rank] = in->dims[d];
        walk->strides[walk->rank] = strides[d];
        walk->rank++;
        *(all || reduced[d] ? &job.count : &kept_elems) *= in->dims[d];
    }
    if (kept_elems != wf_type_elems(out)) {
        return wf_ref_shape_error(out, "axes");
    }
    wf_walk_merge(&job.kept);
    wf_walk_merge(&job.reduced);
    job.lane_class = wf_lane_class(in->dtype);
    job.by_f64 =
        job.lane_class != WF_LANE_F && (job.row->finish != FINISH_NONE && job.row->finish != FINISH_MEAN);
    if (job.count == 0 && job.lane_class == WF_LANE_I &&
        (call->op == WF_OP_REDUCE_MAX || call->op == WF_OP_REDUCE_MIN)) {
        limit_of_nothing(&job, call->op);
        return WF_OK;
    }
    job.lane_class = job.by_f64 ? WF_LANE_F : job.lane_class;
    job.tiled = job.kept.rank > 0 && job.kept.strides[job.kept.rank - 1] == 1;
    int64_t chunk = WF_MAX(WF_REF_CHUNK / WF_MAX(job.count, 1), job.tiled ? WF_LANE_BLOCK : 1);
    wf_ref_chunks(call, kept_elems, chunk, reduce_chunk, &job);
    return WF_OK;
}
