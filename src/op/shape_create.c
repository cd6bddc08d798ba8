/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of operators that make tensors from shapes and numbers, and of Resize. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

wf_status_t wf_shape_shape(wf_shape_call_t *call)
{
    int64_t rank = call->inputs[0].rank;
    int64_t ends[2] = {wf_attrs_int(call->attrs, "start", 0), wf_attrs_int(call->attrs, "end", rank)};
    for (size_t i = 0; i < 2; i++) {
        ends[i] += ends[i] < 0 ? rank : 0;
        ends[i] = WF_MIN(WF_MAX(ends[i], 0), rank);
    }
    int64_t count = WF_MAX(ends[1] - ends[0], 0);
    wf_shape_give(call, 0, WF_DTYPE_I64, 1, &count);
    return WF_OK;
}

wf_status_t wf_shape_size(wf_shape_call_t *call)
{
    wf_shape_give(call, 0, WF_DTYPE_I64, 0, NULL);
    return WF_OK;
}

wf_status_t wf_shape_constant_of_shape(wf_shape_call_t *call)
{
    const wf_attr_t *value = wf_attrs_find(call->attrs, "value");
    wf_dtype_t dtype = WF_DTYPE_F32;
    if (value != NULL && value->kind == WF_ATTR_TENSOR) {
        dtype = value->v.tensor->type.dtype;
        if (wf_type_elems(&value->v.tensor->type) != 1 || dtype == WF_DTYPE_NONE) {
            return WF_ERROR(MODEL_INVALID, "attribute value has not one element");
        }
    }
    int64_t shape[2 * WF_MAX_RANK];
    int32_t count;
    WF_TRY(wf_shape_param_ints(call, "shape", 0, shape, &count));
    if (count == -2) {
        return WF_OK;
    }
    for (int32_t i = 0; i < count; i++) {
        if (shape[i] < 0) {
            return WF_ERROR(MODEL_INVALID, "the shape has %lld in place %d", (long long)shape[i], i);
        }
    }
    return wf_shape_give_checked(call, 0, dtype, (size_t)WF_MAX(count, 0), shape);
}

wf_status_t wf_shape_constant(wf_shape_call_t *call)
{
    if (call->attrs->count != 1) {
        return WF_ERROR(MODEL_INVALID, "%zu attributes give a value, expected one", call->attrs->count);
    }
    static const wf_dtype_t dtypes[] = {
        [WF_ATTR_INT] = WF_DTYPE_I64,    [WF_ATTR_INTS] = WF_DTYPE_I64,   [WF_ATTR_FLOAT] = WF_DTYPE_F32,
        [WF_ATTR_FLOATS] = WF_DTYPE_F32, [WF_ATTR_STRING] = WF_DTYPE_STR, [WF_ATTR_STRINGS] = WF_DTYPE_STR,
    };
    const wf_attr_t *attr = &call->attrs->items[0];
    int64_t count = (int64_t)attr->count;
    switch (attr->kind) {
    case WF_ATTR_TENSOR:
        wf_shape_give(call, 0, attr->v.tensor->type.dtype, attr->v.tensor->type.rank,
                      attr->v.tensor->type.dims);
        return WF_OK;
    case WF_ATTR_INTS:
    case WF_ATTR_FLOATS:
    case WF_ATTR_STRINGS:
        wf_shape_give(call, 0, dtypes[attr->kind], 1, &count);
        return WF_OK;
    default:
        wf_shape_give(call, 0, dtypes[attr->kind], 0, NULL);
        return WF_OK;
    }
}

/* ---- Range ---- */

static wf_status_t range_count_int(const wf_tensor_t *const values[3], int64_t *out_count)
{
    int64_t v[3];
    for (size_t i = 0; i < 3; i++) {
        if (!wf_tensor_get_i64(values[i], 0, &v[i])) {
            return WF_ERROR(MODEL_INVALID, "input %zu is not a number", i);
        }
    }
    if (v[2] == 0) {
        return WF_ERROR(MODEL_INVALID, "delta is 0");
    }
    /* Distances of 64-bit numbers need 64 unsigned bits. */
    bool up = v[2] > 0;
    bool any = up ? v[1] > v[0] : v[1] < v[0];
    uint64_t distance = up ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1];
    uint64_t step = up ? (uint64_t)v[2] : 0 - (uint64_t)v[2];
    uint64_t count = any ? (distance - 1) / step + 1 : 0;
    if (count > INT64_MAX) {
        return wf_shape_overflow();
    }
    *out_count = (int64_t)count;
    return WF_OK;
}

static wf_status_t range_count_float(const wf_tensor_t *const values[3], wf_dtype_t dtype, int64_t *out_count)
{
    double v[3];
    for (size_t i = 0; i < 3; i++) {
        if (!wf_tensor_get_f64(values[i], 0, &v[i])) {
            return WF_ERROR(MODEL_INVALID, "input %zu is not a number", i);
        }
    }
    /* The distance is taken in the element type, the quotient in double, as ONNX's own inference does. */
    double distance = dtype == WF_DTYPE_F64 ? v[1] - v[0] : (double)((float)v[1] - (float)v[0]);
    double count = ceil(distance / v[2]);
    if (v[2] == 0 || isnan(count)) {
        return WF_ERROR(MODEL_INVALID, "delta is 0 or a limit is not a number");
    }
    if (count >= 0x1p62) {
        return wf_shape_overflow();
    }
    *out_count = count > 0 ? (int64_t)count : 0;
    return WF_OK;
}

wf_status_t wf_shape_range(wf_shape_call_t *call)
{
    wf_dtype_t dtype = call->inputs[0].dtype;
    const wf_tensor_t *values[3];
    for (size_t i = 0; i < 3; i++) {
        WF_TRY(wf_shape_need_dtype(call, i, dtype));
        WF_TRY(wf_shape_need_one(call, i));
    }
    for (size_t i = 0; i < 3; i++) {
        values[i] = wf_shape_value(call, i);
        if (values[i] == NULL) {
            return WF_OK;
        }
    }
    int64_t count;
    WF_TRY(wf_dtype_is_float(dtype) ? range_count_float(values, dtype, &count)
                                    : range_count_int(values, &count));
    wf_shape_give(call, 0, dtype, 1, &count);
    return WF_OK;
}

wf_status_t wf_shape_eye_like(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    WF_TRY(wf_shape_need_rank(call, 0, 2, 2));
    wf_dtype_t dtype = input->dtype;
    if (wf_attrs_find(call->attrs, "dtype") != NULL) {
        dtype = wf_dtype_from_onnx(wf_attrs_int(call->attrs, "dtype", 0));
    }
    if (dtype == WF_DTYPE_NONE || dtype == WF_DTYPE_STR || dtype == WF_DTYPE_C64 || dtype == WF_DTYPE_C128) {
        return WF_ERROR(MODEL_INVALID, "attribute dtype is %lld",
                        (long long)wf_attrs_int(call->attrs, "dtype", 0));
    }
    wf_shape_give(call, 0, dtype, 2, input->dims);
    return WF_OK;
}

/* ---- Resize ---- */

wf_status_t wf_resize_axes(const wf_attrs_t *attrs, uint32_t rank, uint32_t out_axes[WF_MAX_RANK],
                           uint32_t *out_count)
{
    size_t given;
    const int64_t *axes = wf_attrs_ints(attrs, "axes", &given);
    if (axes == NULL) {
        for (uint32_t i = 0; i < rank; i++) {
            out_axes[i] = i;
        }
        *out_count = rank;
        return WF_OK;
    }
    if (given > rank) {
        return WF_ERROR(MODEL_INVALID, "attribute axes has %zu values for rank %u", given, rank);
    }
    uint32_t mask;
    WF_TRY(wf_shape_axes(axes, (int32_t)given, rank, out_axes, &mask));
    *out_count = (uint32_t)given;
    return WF_OK;
}

/* One scale for all axes, the smallest (largest) that keeps to the sizes. */
static wf_status_t keep_aspect(const wf_type_t *input, const uint32_t *axes, uint32_t count, bool not_larger,
                               const int64_t *sizes, int64_t *dims)
{
    double scale = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t dim = input->dims[axes[i]];
        if (dim == 0) {
            return WF_ERROR(MODEL_INVALID, "axis %u is empty: its aspect ratio cannot be kept", axes[i]);
        }
        double ratio = (double)sizes[i] / (double)dim;
        scale = i == 0 ? ratio : not_larger ? fmin(scale, ratio) : fmax(scale, ratio);
    }
    for (uint32_t i = 0; i < count; i++) {
        double size = floor(scale * (double)input->dims[axes[i]] + 0.5);
        if (!(size < 0x1p62)) {
            return wf_shape_overflow();
        }
        dims[axes[i]] = (int64_t)size;
    }
    return WF_OK;
}

static wf_status_t resize_to_sizes(wf_shape_call_t *call, const uint32_t *axes, uint32_t count,
                                   const int64_t *sizes, int64_t *dims)
{
    for (uint32_t i = 0; i < count; i++) {
        if (sizes[i] < 0) {
            return WF_ERROR(MODEL_INVALID, "sizes has %lld in place %u", (long long)sizes[i], i);
        }
        dims[axes[i]] = sizes[i];
    }
    const char *policy = wf_attrs_string(call->attrs, "keep_aspect_ratio_policy", "stretch");
    if (strcmp(policy, "stretch") != 0) {
        return keep_aspect(&call->inputs[0], axes, count, strcmp(policy, "not_larger") == 0, sizes, dims);
    }
    return WF_OK;
}

/* Products are rounded to float before they are cut to integers: 0.6f * 10 is meant to be 6. */
static wf_status_t resize_by_scales(wf_shape_call_t *call, const uint32_t *axes, uint32_t count,
                                    const double *scales, const double *roi, int64_t *dims)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!(scales[i] > 0)) {
            return WF_ERROR(MODEL_INVALID, "scales has %g in place %u", scales[i], i);
        }
        double part = roi != NULL ? roi[count + i] - roi[i] : 1;
        double size = floor((double)(float)((double)call->inputs[0].dims[axes[i]] * part * scales[i]));
        if (!(size >= 0 && size < 0x1p62)) {
            return WF_ERROR(MODEL_INVALID, "axis %u would get the size %g", axes[i], size);
        }
        dims[axes[i]] = (int64_t)size;
    }
    return WF_OK;
}

wf_status_t wf_shape_resize(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    uint32_t axes[2 * WF_MAX_RANK];
    uint32_t count = 0;
    WF_TRY(wf_resize_axes(call->attrs, input->rank, axes, &count));
    bool crop =
        strcmp(wf_attrs_string(call->attrs, "coordinate_transformation_mode", ""), "tf_crop_and_resize") == 0;
    double roi[2 * WF_MAX_RANK];
    double scales[2 * WF_MAX_RANK];
    int64_t sizes[2 * WF_MAX_RANK];
    int32_t roi_count = 0;
    int32_t scale_count;
    int32_t size_count;
    if (crop) {
        WF_TRY(wf_shape_param_floats(call, "roi", 1, roi, &roi_count));
    }
    WF_TRY(wf_shape_param_floats(call, "scales", 2, scales, &scale_count));
    WF_TRY(wf_shape_param_ints(call, "sizes", 3, sizes, &size_count));
    /* An empty list stands for an absent one: models of opset 11 had no other way to leave scales out. */
    scale_count = scale_count == 0 ? -1 : scale_count;
    size_count = size_count == 0 ? -1 : size_count;
    if (call->needs_value_of >= 0 && !(size_count >= 0 && call->needs_value_of == 1)) {
        return WF_OK;
    }
    call->needs_value_of = -1;
    if ((scale_count < 0) == (size_count < 0)) {
        /* A scalar has no sizes to give. */
        if (count == 0) {
            wf_shape_give(call, 0, input->dtype, input->rank, input->dims);
            return WF_OK;
        }
        return WF_ERROR(MODEL_INVALID, "one of scales and sizes must be given");
    }
    if ((uint32_t)WF_MAX(scale_count, size_count) != count ||
        (crop && roi_count != -2 && roi_count != 2 * (int32_t)count)) {
        return WF_ERROR(MODEL_INVALID, "%d scales or sizes and %d values of roi are given for %u axes",
                        WF_MAX(scale_count, size_count), roi_count, count);
    }
    int64_t dims[WF_MAX_RANK];
    memcpy(dims, input->dims, sizeof dims);
    WF_TRY(size_count >= 0 ? resize_to_sizes(call, axes, count, sizes, dims)
                           : resize_by_scales(call, axes, count, scales, crop ? roi : NULL, dims));
    wf_shape_give(call, 0, input->dtype, input->rank, dims);
    return WF_OK;
}
