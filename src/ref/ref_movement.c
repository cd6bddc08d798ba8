/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move whole elements by position: views, Transpose, Concat, Split, Slice, Pad, Expand, Tile,
 * DepthToSpace and its reverse, ReverseSequence, Trilu. Most are copies between strided regions. */
#include <string.h>

#include "op/shape.h"
#include "ref/kernel.h"

static wf_region_t dense_region(const wf_type_t *type)
{
    wf_region_t region = {0};
    wf_strides_dense(type->rank, type->dims, region.strides);
    return region;
}

/* Identity, Reshape and all else that keeps the bytes. */
wf_status_t wf_ref_view(const wf_ref_call_t *call)
{
    const wf_tensor_t *in = &call->inputs[0], *out = &call->outputs[0];
    if (wf_type_elems(&in->type) != wf_type_elems(&out->type)) {
        return wf_ref_shape_error(&out->type, "the new shape");
    }
    int64_t bytes = wf_type_bytes(&in->type);
    if (bytes > 0 && in->data != out->data) {
        memmove(out->data, in->data, (size_t)bytes);
    }
    return WF_OK;
}

wf_status_t wf_ref_transpose(const wf_ref_call_t *call)
{
    const wf_tensor_t *in = &call->inputs[0], *out = &call->outputs[0];
    size_t count;
    const int64_t *perm = wf_attrs_ints(call->attrs, "perm", &count);
    wf_region_t to = dense_region(&out->type), in_region = dense_region(&in->type), from = {0};
    for (uint32_t d = 0; d < in->type.rank; d++) {
        int64_t axis = count > 0 ? wf_axis_wrap(perm[d], in->type.rank) : (int64_t)in->type.rank - 1 - d;
        from.strides[d] = in_region.strides[axis];
    }
    wf_region_copy(call, in->type.dtype, out->type.rank, out->type.dims, out->data, &to, in->data, &from);
    return WF_OK;
}

/* Concat and Split are the same copies in the two directions. */
wf_status_t wf_ref_concat(const wf_ref_call_t *call)
{
    const wf_tensor_t *out = &call->outputs[0];
    int64_t axis = wf_axis_wrap(wf_attrs_int(call->attrs, "axis", 0), out->type.rank);
    wf_region_t to = dense_region(&out->type);
    for (size_t k = 0; k < call->input_count; k++) {
        const wf_tensor_t *in = &call->inputs[k];
        wf_region_t from = dense_region(&in->type);
        wf_region_copy(call, out->type.dtype, in->type.rank, in->type.dims, out->data, &to, in->data, &from);
        to.base += in->type.dims[axis] * to.strides[axis];
    }
    return WF_OK;
}

wf_status_t wf_ref_split(const wf_ref_call_t *call)
{
    const wf_tensor_t *in = &call->inputs[0];
    int64_t axis = wf_axis_wrap(wf_attrs_int(call->attrs, "axis", 0), in->type.rank);
    int64_t total = 0;
    for (size_t k = 0; k < call->output_count; k++) {
        total += call->outputs[k].type.dims[axis];
    }
    if (total != in->type.dims[axis]) {
        return wf_ref_shape_error(&call->outputs[0].type, "split");
    }
    wf_region_t from = dense_region(&in->type);
    for (size_t k = 0; k < call->output_count; k++) {
        const wf_tensor_t *out = &call->outputs[k];
        wf_region_t to = dense_region(&out->type);
        if (out->data != NULL) {
            wf_region_copy(call, in->type.dtype, out->type.rank, out->type.dims, out->data, &to, in->data,
                           &from);
        }
        from.base += out->type.dims[axis] * from.strides[axis];
    }
    return WF_OK;
}

wf_status_t wf_ref_slice(const wf_ref_call_t *call)
{
    const wf_tensor_t *in = &call->inputs[0], *out = &call->outputs[0];
    int64_t starts[WF_MAX_RANK], ends[WF_MAX_RANK], axes[WF_MAX_RANK], steps[WF_MAX_RANK];
    int32_t start_count, end_count, axis_count, step_count;
    WF_TRY(wf_ref_ints(call, "starts", 1, WF_MAX_RANK, starts, &start_count));
    WF_TRY(wf_ref_ints(call, "ends", 2, WF_MAX_RANK, ends, &end_count));
    WF_TRY(wf_ref_ints(call, "axes", 3, WF_MAX_RANK, axes, &axis_count));
    WF_TRY(wf_ref_ints(call, "steps", 4, WF_MAX_RANK, steps, &step_count));
    if (start_count != end_count || (axis_count >= 0 && axis_count != start_count) ||
        (step_count >= 0 && step_count != start_count)) {
        return WF_ERROR(RUNTIME_DATA, "slice has %d starts, %d ends, %d axes and %d steps", (int)start_count,
                        (int)end_count, (int)axis_count, (int)step_count);
    }
    wf_region_t to = dense_region(&out->type), from = dense_region(&in->type);
    int64_t dims[WF_MAX_RANK];
    memcpy(dims, in->type.dims, sizeof dims);
    for (int32_t k = 0; k < start_count; k++) {
        int64_t axis = axis_count >= 0 ? wf_axis_wrap(axes[k], in->type.rank) : k;
        int64_t step = step_count >= 0 ? steps[k] : 1, first = starts[k], end = ends[k];
        if (axis < 0 || axis >= in->type.rank || step == 0) {
            return WF_ERROR(RUNTIME_DATA, "slice of axis %lld by step %lld in a tensor of rank %u",
                            (long long)axis, (long long)step, in->type.rank);
        }
        int64_t count = wf_slice_resolve(in->type.dims[axis], &first, &end, step);
        from.base += count > 0 ? first * from.strides[axis] : 0;
        from.strides[axis] =
            count > 1 ? from.strides[axis] * step : 0; /* a step beyond the dim may not fit */
        dims[axis] = count;
    }
    if (in->type.rank != out->type.rank || memcmp(dims, out->type.dims, in->type.rank * sizeof *dims) != 0) {
        return wf_ref_shape_error(&out->type, "starts, ends or steps");
    }
    wf_region_copy(call, in->type.dtype, out->type.rank, dims, out->data, &to, in->data, &from);
    return WF_OK;
}

/* ---- Pad
 * ---------------------------------------------------------------------------------------------------------
 */

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode_t;

/* Place of a padded position in a dim of n > 0 elements; -1: the constant. */
static int64_t pad_source(pad_mode_t mode, int64_t at, int64_t n)
{
    if (at >= 0 && at < n) {
        return at;
    }
    int64_t period = mode == PAD_REFLECT ? 2 * (n - 1) : n;
    int64_t rest = period > 0 ? ((at % period) + period) % period : 0;
    switch (mode) {
    case PAD_CONSTANT:
        return -1;
    case PAD_EDGE:
        return at < 0 ? 0 : n - 1;
    case PAD_REFLECT:
        return rest < n ? rest : period - rest;
    case PAD_WRAP:
        return rest;
    }
    return -1;
}

typedef struct pad_job {
    const wf_tensor_t *in, *out, *value;
    pad_mode_t mode;
    int64_t begin[WF_MAX_RANK], in_strides[WF_MAX_RANK];
} pad_job_t;

static void pad_chunk(void *arg, int64_t first, int64_t count)
{
    const pad_job_t *job = arg;
    static const uint64_t zeros[2];
    const wf_type_t *in = &job->in->type, *out = &job->out->type;
    int64_t index[WF_MAX_RANK];
    for (int64_t e = first; e < first + count; e++) {
        int64_t from = 0;
        wf_unravel(e, out->rank, out->dims, index);
        for (uint32_t d = 0; d < out->rank && from >= 0; d++) {
            int64_t source = pad_source(job->mode, index[d] - job->begin[d], in->dims[d]);
            from = source < 0 ? -1 : from + source * job->in_strides[d];
        }
        const void *data = from >= 0            ? job->in->data
                           : job->value != NULL ? job->value->data
                                                : (const void *)zeros;
        wf_elems_copy(in->dtype, job->out->data, e, data, WF_MAX(from, 0), 1);
    }
}

wf_status_t wf_ref_pad(const wf_ref_call_t *call)
{
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    const wf_tensor_t *in = &call->inputs[0], *out = &call->outputs[0];
    pad_job_t job = {.in = in, .out = out, .value = wf_ref_has(call, 2) ? &call->inputs[2] : NULL};
    int64_t pads[2 * WF_MAX_RANK], axes[WF_MAX_RANK], end[WF_MAX_RANK] = {0};
    int32_t pad_count, axis_count;
    WF_TRY(wf_ref_ints(call, "pads", 1, WF_COUNT_OF(pads), pads, &pad_count));
    WF_TRY(wf_ref_ints(call, "axes", 3, WF_MAX_RANK, axes, &axis_count));
    int32_t padded = axis_count >= 0 ? axis_count : (int32_t)in->type.rank;
    if (pad_count != 2 * padded) {
        return WF_ERROR(RUNTIME_DATA, "%d pads for %d axes", (int)pad_count, (int)padded);
    }
    for (int32_t k = 0; k < padded; k++) {
        int64_t axis = axis_count >= 0 ? wf_axis_wrap(axes[k], in->type.rank) : k;
        if (axis < 0 || axis >= in->type.rank) {
            return WF_ERROR(RUNTIME_DATA, "pad of axis %lld in a tensor of rank %u", (long long)axis,
                            in->type.rank);
        }
        job.begin[axis] = pads[k];
        end[axis] = pads[k + padded];
    }
    for (uint32_t m = 0; m < WF_COUNT_OF(modes); m++) {
        if (wf_ref_attr_is(call, "mode", modes[m])) {
            job.mode = (pad_mode_t)m;
        }
    }
    int64_t elems = wf_type_elems(&out->type);
    for (uint32_t d = 0; d < in->type.rank; d++) {
        int64_t dim = in->type.dims[d];
        bool far =
            job.begin[d] > INT64_MAX / 4 || job.begin[d] < -INT64_MAX / 4; /* positions less it must fit */
        if (far || !wf_i64_add(dim, job.begin[d], &dim) || !wf_i64_add(dim, end[d], &dim) ||
            dim != out->type.dims[d]) {
            return wf_ref_shape_error(&out->type, "pads");
        }
        if (in->type.dims[d] == 0 && job.mode != PAD_CONSTANT && elems > 0) {
            return WF_ERROR(RUNTIME_DATA, "axis %u has no element to pad with", d);
        }
    }
    wf_strides_dense(in->type.rank, in->type.dims, job.in_strides);
    wf_ref_chunks(call, elems, WF_REF_CHUNK, pad_chunk, &job);
    return WF_OK;
}

/* ---- Repeating and rearranging
 * ----------------------------------------------------------------------------------- */

wf_status_t wf_ref_expand(const wf_ref_call_t *call)
{
    const wf_tensor_t *in = &call->inputs[0], *out = &call->outputs[0];
    int64_t shape[WF_MAX_RANK];
    int32_t count;
    WF_TRY(wf_ref_ints(call, "shape", 1, WF_MAX_RANK, shape, &count));
    wf_region_t to = dense_region(&out->type), in_region = dense_region(&in->type), from = {0};
    int64_t in_missing = (int64_t)out->type.rank - in->type.rank,
            shape_missing = (int64_t)out->type.rank - count;
    if (in_missing < 0 || shape_missing < 0) {
        return wf_ref_shape_error(&out->type, "shape");
    }
    for (uint32_t d = 0; d < out->type.rank; d++) {
        int64_t dim = d >= in_missing ? in->type.dims[d - in_missing] : 1;
        int64_t wanted = d >= shape_missing ? shape[d - shape_missing] : 1;
        if ((dim == 1 ? wanted : dim) != out->type.dims[d] || (wanted != 1 && dim != 1 && wanted != dim)) {
            return wf_ref_shape_error(&out->type, "shape");
        }
        from.strides[d] = dim == 1 ? 0 : in_region.strides[d - in_missing];
    }
    wf_region_copy(call, in->type.dtype, out->type.rank, out->type.dims, out->data, &to, in->data, &from);
    return WF_OK;
}

wf_status_t wf_ref_tile(const wf_ref_call_t *call)
{
    const wf_tensor_t *in = &call->inputs[0], *out = &call->outputs[0];
    int64_t repeats[WF_MAX_RANK], dims[WF_REGION_RANK];
    int32_t count;
    WF_TRY(wf_ref_ints(call, "repeats", 1, WF_MAX_RANK, repeats, &count));
    wf_region_t to_dense = dense_region(&out->type), from_dense = dense_region(&in->type), to = {0},
                from = {0};
    for (uint32_t d = 0; d < in->type.rank; d++) {
        int64_t dim = in->type.dims[d], product;
        if (count != (int32_t)in->type.rank || !wf_i64_mul(dim, repeats[d], &product) ||
            product != out->type.dims[d]) {
            return wf_ref_shape_error(&out->type, "repeats");
        }
        dims[2 * d] = repeats[d];
        dims[2 * d + 1] = dim;
        to.strides[2 * d] =
            repeats[d] > 1 ? to_dense.strides[d] * dim : 0; /* 0 repeats of a dim may not fit */
        to.strides[2 * d + 1] = to_dense.strides[d];
        from.strides[2 * d + 1] = from_dense.strides[d];
    }
    if (wf_type_elems(&out->type) > 0) {
        wf_region_copy(call, in->type.dtype, 2 * in->type.rank, dims, out->data, &to, in->data, &from);
    }
    return WF_OK;
}

/* DepthToSpace and SpaceToDepth are a transposition of six dims: the channels split in blocks (by, bx, c) or,
 * for CRD, (c, by, bx); the space as (h, by, w, bx). */
wf_status_t wf_ref_depth_space(const wf_ref_call_t *call)
{
    const wf_tensor_t *in = &call->inputs[0], *out = &call->outputs[0];
    bool to_space = call->op == WF_OP_DEPTH_TO_SPACE;
    bool crd = wf_ref_attr_is(call, "mode", "CRD");
    int64_t block = wf_attrs_int(call->attrs, "blocksize", 1);
    const wf_type_t *deep = to_space ? &in->type : &out->type, *wide = to_space ? &out->type : &in->type;
    int64_t channels = wide->dims[1], height = deep->dims[2], width = deep->dims[3];
    const int64_t dims[6] = {deep->dims[0], channels, height, block, width, block}; /* n c h by w bx */
    int64_t plane = height * width, row = width * block;
    int64_t c_step = crd ? block * block : 1, y_step = crd ? block : channels * block,
            x_step = crd ? 1 : channels;
    wf_region_t in_deep = {
        0, {channels * block * block * plane, c_step * plane, width, y_step * plane, 1, x_step * plane}};
    wf_region_t in_wide = {
        0, {channels * height * block * row, height * block * row, block * row, row, block, 1}};
    wf_region_copy(call, in->type.dtype, 6, dims, out->data, to_space ? &in_wide : &in_deep, in->data,
                   to_space ? &in_deep : &in_wide);
    return WF_OK;
}

wf_status_t wf_ref_reverse_sequence(const wf_ref_call_t *call)
{
    const wf_tensor_t *in = &call->inputs[0], *lengths = &call->inputs[1], *out = &call->outputs[0];
    int64_t batch_axis = wf_axis_wrap(wf_attrs_int(call->attrs, "batch_axis", 1), in->type.rank);
    int64_t time_axis = wf_axis_wrap(wf_attrs_int(call->attrs, "time_axis", 0), in->type.rank);
    int64_t index[WF_MAX_RANK], strides[WF_MAX_RANK], steps = in->type.dims[time_axis];
    for (int64_t b = 0; b < in->type.dims[batch_axis]; b++) {
        int64_t length = wf_lane_load(lengths->type.dtype, lengths->data, b).i;
        if (length < 0 || length > steps) {
            return WF_ERROR(RUNTIME_DATA, "sequence length %lld of row %lld is not in [0, %lld]",
                            (long long)length, (long long)b, (long long)steps);
        }
    }
    wf_strides_dense(in->type.rank, in->type.dims, strides);
    for (int64_t e = 0; e < wf_type_elems(&in->type); e++) {
        wf_unravel(e, in->type.rank, in->type.dims, index);
        int64_t length = wf_lane_load(lengths->type.dtype, lengths->data, index[batch_axis]).i,
                t = index[time_axis];
        int64_t from = t < length ? e + (length - 1 - 2 * t) * strides[time_axis] : e;
        wf_elems_copy(in->type.dtype, out->data, e, in->data, from, 1);
    }
    return WF_OK;
}

wf_status_t wf_ref_trilu(const wf_ref_call_t *call)
{
    const wf_tensor_t *in = &call->inputs[0], *out = &call->outputs[0];
    bool upper = wf_attrs_int(call->attrs, "upper", 1) != 0;
    static const uint64_t zero[2];
    int64_t k;
    WF_TRY(wf_ref_int(call, "k", 1, 0, &k));
    int64_t rows = in->type.dims[in->type.rank - 2], cols = in->type.dims[in->type.rank - 1];
    k = WF_MAX(-rows - 1, WF_MIN(k, cols + 1)); /* beyond the matrix all diagonals are alike */
    for (int64_t e = 0; e < wf_type_elems(&in->type); e++) {
        int64_t row = e / cols % rows, col = e % cols;
        bool kept = upper ? col >= row + k : col <= row + k;
        wf_elems_copy(in->type.dtype, out->data, e, kept ? in->data : zero, kept ? e : 0, 1);
    }
    return WF_OK;
}
