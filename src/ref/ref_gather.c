/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move elements by indices that are data: Gather, GatherElements, GatherND, ScatterElements,
 * ScatterND, OneHot. Every index is checked. */
#include <math.h>
#include <string.h>

#include "ref/kernel.h"

static wf_status_t index_error(const wf_tensor_t *indices, int64_t position, int64_t axis, int64_t dim)
{
    return WF_ERROR(RUNTIME_DATA, "index %lld at position %lld is outside [%lld, %lld] of axis %lld",
                    (long long)wf_lane_load(indices->type.dtype, indices->data, position).i,
                    (long long)position, (long long)-dim, (long long)dim - 1, (long long)axis);
}

/* The index at a position, wrapped; -1 when it is out of range. */
static int64_t read_index(const wf_tensor_t *indices, int64_t position, int64_t dim)
{
    int64_t index = wf_lane_load(indices->type.dtype, indices->data, position).i;
    index = index < 0 ? index + dim : index;
    return index >= 0 && index < dim ? index : -1;
}

/* ---- Gather
 * ------------------------------------------------------------------------------------------------------ */

typedef struct gather_job {
    const wf_tensor_t *data, *indices, *out;
    wf_split_t split;
    int64_t index_count;
} gather_job_t;

static void gather_chunk(void *arg, int64_t first, int64_t count)
{
    const gather_job_t *job = arg;
    for (int64_t r = first; r < first + count; r++) {
        int64_t outer = r / job->index_count, position = r % job->index_count;
        int64_t index = read_index(job->indices, position, job->split.axis);
        wf_elems_copy(job->data->type.dtype, job->out->data, r * job->split.inner, job->data->data,
                      (outer * job->split.axis + index) * job->split.inner, job->split.inner);
    }
}

wf_status_t wf_ref_gather(const wf_ref_call_t *call)
{
    gather_job_t job = {.data = &call->inputs[0], .indices = &call->inputs[1], .out = &call->outputs[0]};
    int64_t axis = wf_axis_wrap(wf_attrs_int(call->attrs, "axis", 0), job.data->type.rank);
    job.split = wf_split_at(&job.data->type, axis, axis + 1);
    job.index_count = wf_type_elems(&job.indices->type);
    for (int64_t p = 0; p < job.index_count; p++) {
        if (read_index(job.indices, p, job.split.axis) < 0) {
            return index_error(job.indices, p, axis, job.split.axis);
        }
    }
    int64_t rows = job.split.outer * job.index_count;
    wf_ref_chunks(call, rows, WF_MAX(1, WF_REF_CHUNK / WF_MAX(job.split.inner, 1)), gather_chunk, &job);
    return WF_OK;
}

/* ---- GatherElements and ScatterElements
 * -------------------------------------------------------------------------- */

/* Where element `e` of the indices points in `data`: its own index with the axis replaced. -1: out of range.
 */
static int64_t element_target(const wf_tensor_t *indices, int64_t e, const wf_type_t *data,
                              const int64_t *strides, int64_t axis)
{
    int64_t index[WF_MAX_RANK], target = 0;
    wf_unravel(e, indices->type.rank, indices->type.dims, index);
    index[axis] = read_index(indices, e, data->dims[axis]);
    for (uint32_t d = 0; d < data->rank; d++) {
        target += index[d] * strides[d];
    }
    return index[axis] < 0 ? -1 : target;
}

wf_status_t wf_ref_gather_elements(const wf_ref_call_t *call)
{
    const wf_tensor_t *data = &call->inputs[0], *indices = &call->inputs[1], *out = &call->outputs[0];
    int64_t axis = wf_axis_wrap(wf_attrs_int(call->attrs, "axis", 0), data->type.rank), strides[WF_MAX_RANK];
    wf_strides_dense(data->type.rank, data->type.dims, strides);
    for (int64_t e = 0; e < wf_type_elems(&indices->type); e++) {
        int64_t from = element_target(indices, e, &data->type, strides, axis);
        if (from < 0) {
            return index_error(indices, e, axis, data->type.dims[axis]);
        }
        wf_elems_copy(data->type.dtype, out->data, e, data->data, from, 1);
    }
    return WF_OK;
}

typedef enum scatter_kind { SCATTER_NONE, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN } scatter_kind_t;

static wf_lane_t combine(scatter_kind_t kind, wf_lane_class_t lane_class, wf_lane_t old, wf_lane_t update)
{
#define LARGER(member, nan) ((old.member >= update.member || (nan)) ? old : update)
#define SMALLER(member, nan) ((old.member <= update.member || (nan)) ? old : update)
#define BY_CLASS(f_of, i_of, u_of) \
    (lane_class == WF_LANE_F ? (f_of) : lane_class == WF_LANE_I ? (i_of) : (u_of))
    switch (kind) {
    case SCATTER_ADD:
        return lane_class == WF_LANE_F ? (wf_lane_t){.f = old.f + update.f}
                                       : (wf_lane_t){.u = old.u + update.u};
    case SCATTER_MUL:
        return lane_class == WF_LANE_F ? (wf_lane_t){.f = old.f * update.f}
                                       : (wf_lane_t){.u = old.u * update.u};
    case SCATTER_MAX:
        return BY_CLASS(LARGER(f, isnan(old.f)), LARGER(i, false), LARGER(u, false));
    case SCATTER_MIN:
        return BY_CLASS(SMALLER(f, isnan(old.f)), SMALLER(i, false), SMALLER(u, false));
    case SCATTER_NONE:
        break;
    }
    return update;
}

static scatter_kind_t scatter_kind(const wf_ref_call_t *call)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    scatter_kind_t kind = SCATTER_NONE;
    for (uint32_t k = 0; k < WF_COUNT_OF(names); k++) {
        if (wf_ref_attr_is(call, "reduction", names[k])) {
            kind = (scatter_kind_t)k;
        }
    }
    return kind;
}

/* Writes `count` updates from `from` on to the elements from `to` on. */
static void scatter(const wf_ref_call_t *call, scatter_kind_t kind, int64_t to, int64_t from, int64_t count)
{
    const wf_tensor_t *updates = &call->inputs[2], *out = &call->outputs[0];
    wf_dtype_t dtype = out->type.dtype;
    if (kind == SCATTER_NONE) {
        wf_elems_copy(dtype, out->data, to, updates->data, from, count);
        return;
    }
    for (int64_t k = 0; k < count; k++) {
        wf_lane_t old = wf_lane_load(dtype, out->data, to + k),
                  update = wf_lane_load(dtype, updates->data, from + k);
        wf_lane_store(dtype, out->data, to + k, combine(kind, wf_lane_class(dtype), old, update));
    }
}

wf_status_t wf_ref_scatter_elements(const wf_ref_call_t *call)
{
    const wf_tensor_t *indices = &call->inputs[1];
    const wf_type_t *data = &call->inputs[0].type;
    int64_t axis = wf_axis_wrap(wf_attrs_int(call->attrs, "axis", 0), data->rank), strides[WF_MAX_RANK];
    wf_strides_dense(data->rank, data->dims, strides);
    WF_TRY(wf_ref_view(call));
    for (int64_t e = 0; e < wf_type_elems(&indices->type); e++) {
        int64_t to = element_target(indices, e, data, strides, axis);
        if (to < 0) {
            return index_error(indices, e, axis, data->dims[axis]);
        }
        scatter(call, scatter_kind(call), to, e, 1);
    }
    return WF_OK;
}

/* ---- GatherND and ScatterND
 * -------------------------------------------------------------------------------------- */

/* Tuples of indices in the last dim of `indices` name slices of `data` behind `batch_dims` common dims. */
typedef struct tuples {
    const wf_tensor_t *indices;
    const wf_type_t *data;
    int64_t batch_dims, tuple, count; /* indices in a tuple, tuples */
    int64_t per_batch;                /* tuples of one batch */
    int64_t slice_elems;
    int64_t strides[WF_MAX_RANK];
} tuples_t;

static tuples_t tuples_of(const wf_tensor_t *indices, const wf_type_t *data, int64_t batch_dims)
{
    tuples_t t = {.indices = indices, .data = data, .batch_dims = batch_dims};
    t.tuple = indices->type.dims[indices->type.rank - 1];
    t.count = t.per_batch = t.slice_elems = 1;
    for (uint32_t d = 0; d + 1 < indices->type.rank; d++) {
        t.count *= indices->type.dims[d];
        t.per_batch *= d >= batch_dims ? indices->type.dims[d] : 1;
    }
    for (int64_t d = batch_dims + t.tuple; d < data->rank; d++) {
        t.slice_elems *= data->dims[d];
    }
    wf_strides_dense(data->rank, data->dims, t.strides);
    return t;
}

/* First element of the slice of tuple number `at`. */
static wf_status_t tuple_target(const tuples_t *t, int64_t at, int64_t *out_first)
{
    int64_t first = 0, batch = at / t->per_batch;
    for (int64_t d = t->batch_dims; d-- > 0; batch /= t->data->dims[d]) {
        first += batch % t->data->dims[d] * t->strides[d];
    }
    for (int64_t k = 0; k < t->tuple; k++) {
        int64_t axis = t->batch_dims + k,
                index = read_index(t->indices, at * t->tuple + k, t->data->dims[axis]);
        if (index < 0) {
            return index_error(t->indices, at * t->tuple + k, axis, t->data->dims[axis]);
        }
        first += index * t->strides[axis];
    }
    *out_first = first;
    return WF_OK;
}

wf_status_t wf_ref_gather_nd(const wf_ref_call_t *call)
{
    const wf_tensor_t *data = &call->inputs[0];
    tuples_t t = tuples_of(&call->inputs[1], &data->type, wf_attrs_int(call->attrs, "batch_dims", 0));
    for (int64_t at = 0; at < t.count; at++) {
        int64_t first;
        WF_TRY(tuple_target(&t, at, &first));
        wf_elems_copy(data->type.dtype, call->outputs[0].data, at * t.slice_elems, data->data, first,
                      t.slice_elems);
    }
    return WF_OK;
}

wf_status_t wf_ref_scatter_nd(const wf_ref_call_t *call)
{
    tuples_t t = tuples_of(&call->inputs[1], &call->inputs[0].type, 0);
    scatter_kind_t kind = scatter_kind(call);
    WF_TRY(wf_ref_view(call));
    for (int64_t at = 0; at < t.count; at++) {
        int64_t first;
        WF_TRY(tuple_target(&t, at, &first));
        scatter(call, kind, first, at * t.slice_elems, t.slice_elems);
    }
    return WF_OK;
}

/* ---- OneHot
 * ------------------------------------------------------------------------------------------------------ */

/* An index outside [-depth, depth - 1] gives a row of "off" values. */
wf_status_t wf_ref_one_hot(const wf_ref_call_t *call)
{
    const wf_tensor_t *indices = &call->inputs[0], *values = &call->inputs[2], *out = &call->outputs[0];
    int64_t axis = wf_axis_wrap(wf_attrs_int(call->attrs, "axis", -1), out->type.rank);
    wf_split_t split = wf_split_at(&out->type, axis, axis + 1);
    for (int64_t e = 0; e < wf_type_elems(&out->type); e++) {
        int64_t inner = e % split.inner, hot = e / split.inner % split.axis,
                outer = e / split.inner / split.axis;
        double index = wf_lane_load_f64(indices->type.dtype, indices->data, outer * split.inner + inner);
        index = index < 0 ? index + (double)split.axis : index;
        wf_elems_copy(out->type.dtype, out->data, e, values->data, index == (double)hot, 1);
    }
    return WF_OK;
}
