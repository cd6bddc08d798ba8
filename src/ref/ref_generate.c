/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that make values from shapes and attributes: Shape, Size, ConstantOfShape, Constant, Range,
 * EyeLike; and Dropout, which at inference passes its input on. */
#include <string.h>

#include "ref/kernel.h"

wf_status_t wf_ref_shape(const wf_ref_call_t *call)
{
    const wf_type_t *in = &call->inputs[0].type;
    const wf_tensor_t *out = &call->outputs[0];
    int64_t start = wf_axis_wrap(wf_attrs_int(call->attrs, "start", 0), in->rank);
    start = WF_MAX(0, WF_MIN(start, (int64_t)in->rank));
    for (int64_t k = 0; k < out->type.dims[0]; k++) {
        wf_lane_store(out->type.dtype, out->data, k, (wf_lane_t){.i = in->dims[start + k]});
    }
    return WF_OK;
}

wf_status_t wf_ref_size(const wf_ref_call_t *call)
{
    wf_lane_t size = {.i = wf_type_elems(&call->inputs[0].type)};
    wf_lane_store(call->outputs[0].type.dtype, call->outputs[0].data, 0, size);
    return WF_OK;
}

static void fill(const wf_tensor_t *out, const void *value)
{
    for (int64_t e = 0; e < wf_type_elems(&out->type); e++) {
        wf_elems_copy(out->type.dtype, out->data, e, value, 0, 1);
    }
}

wf_status_t wf_ref_constant_of_shape(const wf_ref_call_t *call)
{
    static const uint64_t zero[2];
    const wf_attr_t *value = wf_attrs_find(call->attrs, "value");
    fill(&call->outputs[0], value != NULL ? value->v.tensor->data : zero);
    return WF_OK;
}

wf_status_t wf_ref_constant(const wf_ref_call_t *call)
{
    const wf_tensor_t *out = &call->outputs[0];
    int64_t elems = wf_type_elems(&out->type);
    for (size_t a = 0; a < call->attrs->count; a++) {
        const wf_attr_t *attr = &call->attrs->items[a];
        const void *from = attr->kind == WF_ATTR_TENSOR   ? attr->v.tensor->data
                           : attr->kind == WF_ATTR_INT    ? (const void *)&attr->v.i
                           : attr->kind == WF_ATTR_INTS   ? (const void *)attr->v.ints
                           : attr->kind == WF_ATTR_FLOAT  ? (const void *)&attr->v.f
                           : attr->kind == WF_ATTR_FLOATS ? (const void *)attr->v.floats
                                                          : NULL;
        if (from != NULL || elems == 0) {
            wf_elems_copy(out->type.dtype, out->data, 0, from, 0, elems);
            return WF_OK;
        }
    }
    return WF_ERROR(MODEL_UNSUPPORTED, "constants of strings are not handled");
}

/* start + index * delta: each element rounded once. */
wf_status_t wf_ref_range(const wf_ref_call_t *call)
{
    const wf_tensor_t *start = &call->inputs[0], *delta = &call->inputs[2], *out = &call->outputs[0];
    wf_dtype_t dtype = out->type.dtype;
    wf_lane_t first = wf_lane_load(dtype, start->data, 0), step = wf_lane_load(dtype, delta->data, 0);
    for (int64_t k = 0; k < out->type.dims[0]; k++) {
        wf_lane_t value = {.u = first.u + (uint64_t)k * step.u};
        if (wf_lane_class(dtype) == WF_LANE_F) {
            value.f = first.f + (double)k * step.f;
        }
        wf_lane_store(dtype, out->data, k, value);
    }
    return WF_OK;
}

wf_status_t wf_ref_eye_like(const wf_ref_call_t *call)
{
    const wf_tensor_t *out = &call->outputs[0];
    int64_t k = wf_attrs_int(call->attrs, "k", 0), cols = out->type.dims[1];
    for (int64_t e = 0; e < wf_type_elems(&out->type); e++) {
        bool one = e % cols - e / cols == k;
        wf_lane_t value = {.u = one};
        if (wf_lane_class(out->type.dtype) == WF_LANE_F) {
            value.f = one ? 1.0 : 0.0;
        }
        wf_lane_store(out->type.dtype, out->data, e, value);
    }
    return WF_OK;
}

/* Inference: the input, and a mask of ones. Training drops at random, which a reference cannot repeat. */
wf_status_t wf_ref_dropout(const wf_ref_call_t *call)
{
    const wf_tensor_t *ratio = &call->inputs[1], *training = &call->inputs[2];
    bool drops = wf_ref_has(call, 2) && wf_lane_load(training->type.dtype, training->data, 0).u != 0;
    double share = wf_ref_has(call, 1) ? wf_lane_load_f64(ratio->type.dtype, ratio->data, 0) : 0.5;
    if (drops && share != 0.0) {
        return WF_ERROR(MODEL_UNSUPPORTED, "dropout in training mode with ratio %g has random results",
                        share);
    }
    if (wf_ref_wants(call, 1)) {
        static const uint8_t one = 1;
        fill(&call->outputs[1], &one);
    }
    return wf_ref_wants(call, 0) ? wf_ref_view(call) : WF_OK;
}
