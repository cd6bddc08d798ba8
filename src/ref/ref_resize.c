/* SPDX-License-Identifier: Apache-2.0 */
/* Resize. Interpolation is separable: for every axis a table says which inputs an output index meets and with
 * what weight; an output element is the weighted sum over the product of its axes' entries. */
#include <math.h>
#include <string.h>

#include "op/shape.h"
#include "ref/kernel.h"

typedef enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } resize_mode_t;

/* Entries of one axis: output o has counts[o] of them from o * limit on. Count -1: outside, the extrapolation
 * value. */
typedef struct taps {
    int64_t limit;
    int64_t *counts, *index;
    double *weights;
} taps_t;

typedef struct resize_job {
    const wf_ref_call_t *call;
    const wf_tensor_t *in, *out;
    resize_mode_t mode;
    bool antialias, exclude_outside;
    double cubic_a, extrapolation;
    taps_t taps[WF_MAX_RANK];
    int64_t strides[WF_MAX_RANK];
} resize_job_t;

static resize_mode_t mode_of(const wf_ref_call_t *call)
{
    return wf_ref_attr_is(call, "mode", "linear")  ? RESIZE_LINEAR
           : wf_ref_attr_is(call, "mode", "cubic") ? RESIZE_CUBIC
                                                   : RESIZE_NEAREST;
}

/* ---- Coordinates
 * ------------------------------------------------------------------------------------------------- */

typedef struct axis_map {
    int64_t in, out;
    double scale, width; /* width: the target length before it is cut to an integer */
    double start, end;   /* of the region of interest */
} axis_map_t;

static double coordinate(const wf_ref_call_t *call, const axis_map_t *map, int64_t o)
{
    const char *mode = wf_attrs_string(call->attrs, "coordinate_transformation_mode", "half_pixel");
    double x = (double)o, in = (double)map->in, out = (double)map->out;
    if (strcmp(mode, "align_corners") == 0) {
        /* The operator's tests divide by the fractional length. */
        return map->width == 1.0 || map->out == 1 ? 0.0 : x * (in - 1) / (map->width - 1);
    }
    if (strcmp(mode, "asymmetric") == 0) {
        return x / map->scale;
    }
    if (strcmp(mode, "tf_crop_and_resize") == 0) {
        return map->out > 1 ? map->start * (in - 1) + x * (map->end - map->start) * (in - 1) / (out - 1)
                            : 0.5 * (map->start + map->end) * (in - 1);
    }
    double center = (x + 0.5) / map->scale - 0.5;
    if (strcmp(mode, "pytorch_half_pixel") == 0) {
        return map->out > 1 ? center : 0.0;
    }
    if (strcmp(mode, "half_pixel_symmetric") == 0) {
        /* center + in / 2 * (1 - out / (in * scale)), in a form that does not lose whole numbers to rounding.
         */
        return (x + 0.5 - out / 2) / map->scale + in / 2 - 0.5;
    }
    return center;
}

static double nearest(const wf_ref_call_t *call, double x)
{
    double low = floor(x), rest = x - low;
    bool up = wf_ref_attr_is(call, "nearest_mode", "round_prefer_floor")  ? rest > 0.5
              : wf_ref_attr_is(call, "nearest_mode", "round_prefer_ceil") ? rest >= 0.5
              : wf_ref_attr_is(call, "nearest_mode", "ceil")              ? rest > 0
                                                                          : false;
    return low + (up ? 1 : 0);
}

static double kernel_weight(const resize_job_t *job, double distance)
{
    double t = fabs(distance), a = job->cubic_a;
    if (job->mode == RESIZE_LINEAR) {
        return t < 1 ? 1 - t : 0;
    }
    return t < 1   ? ((a + 2) * t - (a + 3)) * t * t + 1
           : t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
                   : 0;
}

/* Half the width of the filter in inputs: it is stretched when antialias meets a scale below 1. */
static double filter_reach(resize_mode_t mode, bool antialias, double scale)
{
    double reach = mode == RESIZE_CUBIC ? 2 : 1;
    return antialias && scale < 1 ? reach / scale : reach;
}

/* Fills entry o of an axis; false when there are more inputs than the scratch was sized for. */
static bool fill_taps(const resize_job_t *job, const axis_map_t *map, int64_t o, taps_t *taps)
{
    const wf_ref_call_t *call = job->call;
    int64_t *index = taps->index + o * taps->limit, count = 0;
    double *weights = taps->weights + o * taps->limit, sum = 0;
    double x = coordinate(call, map, o), last = (double)(map->in - 1);
    taps->counts[o] = -1;
    index[0] = 0;
    if (wf_ref_attr_is(call, "coordinate_transformation_mode", "tf_crop_and_resize") &&
        !(x >= 0 && x <= last)) {
        return true;
    }
    x = fmax(-1e15, fmin(x, 1e15)); /* indices are clamped: beyond the edge all places are alike */
    if (job->mode == RESIZE_NEAREST) {
        index[0] = (int64_t)fmax(0, fmin(nearest(call, x), last));
        weights[0] = 1;
        taps->counts[o] = 1;
        return true;
    }
    double reach = filter_reach(job->mode, job->antialias, map->scale);
    double stretch = job->antialias && map->scale < 1 ? map->scale : 1;
    for (int64_t at = (int64_t)floor(x - reach) + 1; (double)at < x + reach; at++) {
        bool outside = at < 0 || at >= map->in;
        double weight = kernel_weight(job, ((double)at - x) * stretch);
        if (job->exclude_outside && outside) {
            continue;
        }
        if (count == taps->limit) {
            return false;
        }
        index[count] = WF_MAX(0, WF_MIN(at, map->in - 1));
        weights[count++] = weight;
        sum += weight;
    }
    for (int64_t k = 0; (job->antialias || job->exclude_outside) && sum != 0 && k < count; k++) {
        weights[k] /= sum;
    }
    taps->counts[o] = count;
    return true;
}

/* ---- Sums
 * -------------------------------------------------------------------------------------------------------- */

static double weighted_sum(const resize_job_t *job, uint32_t d, const int64_t *o, int64_t base)
{
    /* Axes with one entry of weight 1 need no loop. */
    while (d < job->in->type.rank && job->taps[d].counts[o[d]] == 1) {
        base += job->taps[d].index[o[d] * job->taps[d].limit] * job->strides[d];
        d++;
    }
    if (d == job->in->type.rank) {
        return wf_lane_load_f64(job->in->type.dtype, job->in->data, base);
    }
    const taps_t *taps = &job->taps[d];
    double sum = 0;
    for (int64_t k = o[d] * taps->limit; k < o[d] * taps->limit + taps->counts[o[d]]; k++) {
        sum += taps->weights[k] * weighted_sum(job, d + 1, o, base + taps->index[k] * job->strides[d]);
    }
    return sum;
}

static void resize_chunk(void *arg, int64_t first, int64_t count)
{
    const resize_job_t *job = arg;
    wf_dtype_t dtype = job->out->type.dtype;
    wf_lane_class_t lane_class = wf_lane_class(dtype);
    int64_t o[WF_MAX_RANK], min = 0, max = 0;
    if (lane_class != WF_LANE_F) {
        wf_dtype_limits(dtype, &min, &max);
    }
    for (int64_t e = first; e < first + count; e++) {
        bool outside = false;
        int64_t from = 0;
        wf_unravel(e, job->out->type.rank, job->out->type.dims, o);
        for (uint32_t d = 0; d < job->in->type.rank; d++) {
            outside = outside || job->taps[d].counts[o[d]] < 0;
            from += job->taps[d].index[o[d] * job->taps[d].limit] * job->strides[d];
        }
        if (!outside && job->mode == RESIZE_NEAREST) {
            wf_elems_copy(dtype, job->out->data, e, job->in->data, from, 1);
            continue;
        }
        wf_lane_t value = {.f = outside ? job->extrapolation : weighted_sum(job, 0, o, 0)};
        if (lane_class != WF_LANE_F) {
            value.i = WF_MAX(min, WF_MIN(max, wf_f64_to_i64(rint(value.f))));
        }
        wf_lane_store(dtype, job->out->data, e, value);
    }
}

/* ---- The operator
 * ------------------------------------------------------------------------------------------------ */

/* Most inputs an output can meet. The scale is about out / in; the length it was computed from may have lost
 * up to half an element (or, for floor, nearly one) against it. */
static size_t taps_limit(const wf_ref_call_t *call, uint32_t d)
{
    resize_mode_t mode = mode_of(call);
    if (mode == RESIZE_NEAREST) {
        return 1;
    }
    double in = (double)call->inputs[0].type.dims[d], out = (double)call->outputs[0].type.dims[d];
    double scale = in > 0 ? 0.5 * out / in : 1;
    bool antialias = wf_attrs_int(call->attrs, "antialias", 0) != 0;
    return (size_t)ceil(2 * filter_reach(mode, antialias, scale)) + 2;
}

size_t wf_ref_resize_scratch_bytes(const wf_ref_call_t *call)
{
    size_t bytes = 0;
    for (uint32_t d = 0; d < call->outputs[0].type.rank; d++) {
        size_t entries = wf_scratch_mul((size_t)call->outputs[0].type.dims[d], 2 * taps_limit(call, d) + 1);
        bytes = wf_scratch_add(bytes, wf_scratch_mul(entries, 8));
    }
    return bytes;
}

/* Scales of all axes from scales or sizes. */
static wf_status_t read_maps(const wf_ref_call_t *call, axis_map_t *maps)
{
    const wf_type_t *in = &call->inputs[0].type, *out = &call->outputs[0].type;
    uint32_t axes[WF_MAX_RANK], axis_count;
    double scales[WF_MAX_RANK], roi[2 * WF_MAX_RANK], common = 0;
    int64_t sizes[WF_MAX_RANK];
    int32_t scale_count, size_count, roi_count;
    WF_TRY(wf_resize_axes(call->attrs, in->rank, axes, &axis_count));
    WF_TRY(wf_ref_floats(call, "scales", 2, WF_MAX_RANK, scales, &scale_count));
    WF_TRY(wf_ref_ints(call, "sizes", 3, WF_MAX_RANK, sizes, &size_count));
    WF_TRY(wf_ref_floats(call, "roi", 1, WF_COUNT_OF(roi), roi, &roi_count));
    bool by_sizes = size_count > 0;
    if ((uint32_t)(by_sizes ? size_count : scale_count) != axis_count) {
        return WF_ERROR(RUNTIME_DATA, "%d scales or sizes for %u axes",
                        (int)(by_sizes ? size_count : scale_count), axis_count);
    }
    for (uint32_t d = 0; d < in->rank; d++) {
        maps[d] = (axis_map_t){in->dims[d], out->dims[d], 1, (double)in->dims[d], 0, 1};
    }
    bool larger = wf_ref_attr_is(call, "keep_aspect_ratio_policy", "not_smaller");
    bool keeps = larger || wf_ref_attr_is(call, "keep_aspect_ratio_policy", "not_larger");
    for (uint32_t k = 0; by_sizes && k < axis_count; k++) {
        double scale = (double)sizes[k] / (double)in->dims[axes[k]];
        common = k == 0 || (larger ? scale > common : scale < common) ? scale : common;
    }
    for (uint32_t k = 0; k < axis_count; k++) {
        axis_map_t *map = &maps[axes[k]];
        map->scale = !by_sizes ? scales[k] : keeps ? common : (double)map->out / (double)map->in;
        map->width = map->scale * (double)map->in;
        if (roi_count == 2 * (int32_t)axis_count) {
            map->start = roi[k];
            map->end = roi[axis_count + k];
        }
        if (!(map->scale > 0) || !isfinite(map->start) || !isfinite(map->end)) {
            return WF_ERROR(RUNTIME_DATA, "axis %u cannot be resized by %g", axes[k], map->scale);
        }
    }
    return WF_OK;
}

wf_status_t wf_ref_resize(const wf_ref_call_t *call)
{
    resize_job_t job = {
        .call = call, .in = &call->inputs[0], .out = &call->outputs[0], .mode = mode_of(call)};
    job.antialias = wf_attrs_int(call->attrs, "antialias", 0) != 0;
    job.exclude_outside = wf_attrs_int(call->attrs, "exclude_outside", 0) != 0;
    job.cubic_a = (double)wf_attrs_float(call->attrs, "cubic_coeff_a", -0.75F);
    job.extrapolation = (double)wf_attrs_float(call->attrs, "extrapolation_value", 0.0F);
    int64_t elems = wf_type_elems(&job.out->type);
    if (elems == 0 || job.in->type.rank == 0) {
        return elems == 0 ? WF_OK : wf_ref_view(call);
    }
    if (wf_type_elems(&job.in->type) == 0) {
        return WF_ERROR(RUNTIME_DATA, "there is no element to resize from");
    }
    axis_map_t maps[WF_MAX_RANK];
    WF_TRY(read_maps(call, maps));
    wf_strides_dense(job.in->type.rank, job.in->type.dims, job.strides);
    int64_t *scratch = call->scratch;
    for (uint32_t d = 0; d < job.in->type.rank; d++) {
        taps_t *taps = &job.taps[d];
        int64_t out = job.out->type.dims[d];
        taps->limit = (int64_t)taps_limit(call, d);
        taps->counts = scratch;
        taps->index = taps->counts + out;
        taps->weights = (double *)(void *)(taps->index + out * taps->limit);
        scratch = taps->index + 2 * out * taps->limit;
        bool same = maps[d].scale == 1 && maps[d].in == out && maps[d].start == 0 && maps[d].end == 1;
        for (int64_t o = 0; o < out; o++) {
            if (same) {
                taps->counts[o] = 1;
                taps->index[o * taps->limit] = o;
            } else if (!fill_taps(&job, &maps[d], o, taps)) {
                return wf_ref_shape_error(&job.out->type, "scales");
            }
        }
    }
    wf_ref_chunks(call, elems, WF_REF_CHUNK, resize_chunk, &job);
    return WF_OK;
}
