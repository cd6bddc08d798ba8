/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of quantisation. */
#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

/* Scale and zero point: one for the tensor, one per index of `axis`, or one per block along it. */
static wf_status_t check_granularity(const wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    const wf_type_t *scale = &call->inputs[1];
    const wf_type_t *zero = wf_shape_input(call, 2);
    /* A scalar scale goes with a zero point of [1], and the other way round. */
    if (zero != NULL && !(wf_type_elems(zero) == 1 && wf_type_elems(scale) == 1)) {
        WF_TRY(wf_shape_need_dims(call, 2, scale->rank, scale->dims));
    }
    int64_t block = wf_attrs_int(call->attrs, "block_size", 0);
    if (block < 0) {
        return WF_ERROR(MODEL_INVALID, "attribute block_size is %lld", (long long)block);
    }
    if (scale->rank == 0 || (scale->rank == 1 && scale->dims[0] == 1 && block == 0)) {
        return WF_OK;
    }
    uint32_t axis;
    WF_TRY(wf_shape_attr_axis(call, "axis", 1, input->rank, &axis));
    if (block == 0) {
        return wf_shape_need_dims(call, 1, 1, &input->dims[axis]);
    }
    int64_t dims[WF_MAX_RANK];
    memcpy(dims, input->dims, sizeof dims);
    dims[axis] = input->dims[axis] / block + (input->dims[axis] % block != 0 ? 1 : 0);
    return wf_shape_need_dims(call, 1, input->rank, dims);
}

/* The element type that attribute output_dtype names; the fallback when it is 0. */
static wf_status_t read_output_dtype(const wf_shape_call_t *call, wf_dtype_t fallback, wf_dtype_t *out_dtype)
{
    int64_t given = wf_attrs_int(call->attrs, "output_dtype", 0);
    *out_dtype = given == 0 ? fallback : wf_dtype_from_onnx(given);
    if (*out_dtype == WF_DTYPE_NONE) {
        return WF_ERROR(MODEL_UNSUPPORTED, "attribute output_dtype is %lld, which is no element type here",
                        (long long)given);
    }
    return WF_OK;
}

static bool is_quantized(wf_dtype_t dtype)
{
    switch (dtype) {
    case WF_DTYPE_I8:
    case WF_DTYPE_U8:
    case WF_DTYPE_I16:
    case WF_DTYPE_U16:
    case WF_DTYPE_I4:
    case WF_DTYPE_U4:
    case WF_DTYPE_I2:
    case WF_DTYPE_U2:
        return true;
    default:
        return wf_dtype_is_small_float(dtype) && dtype != WF_DTYPE_F8E8M0;
    }
}

wf_status_t wf_shape_quantize_linear(wf_shape_call_t *call)
{
    const wf_type_t *zero = wf_shape_input(call, 2);
    wf_dtype_t dtype;
    WF_TRY(read_output_dtype(call, zero != NULL ? zero->dtype : WF_DTYPE_U8, &dtype));
    WF_TRY(wf_shape_need_dtype(call, 2, dtype));
    if (!is_quantized(dtype)) {
        return WF_ERROR(MODEL_INVALID, "the result would be of type %s", wf_dtype_name(dtype));
    }
    WF_TRY(check_granularity(call));
    wf_shape_give(call, 0, dtype, call->inputs[0].rank, call->inputs[0].dims);
    return WF_OK;
}

wf_status_t wf_shape_dequantize_linear(wf_shape_call_t *call)
{
    wf_dtype_t dtype;
    WF_TRY(read_output_dtype(call, call->inputs[1].dtype, &dtype));
    WF_TRY(wf_shape_need_dtype(call, 2, call->inputs[0].dtype));
    if (!wf_dtype_is_float(dtype)) {
        return WF_ERROR(MODEL_INVALID, "the result would be of type %s", wf_dtype_name(dtype));
    }
    if (!is_quantized(call->inputs[0].dtype) && call->inputs[0].dtype != WF_DTYPE_I32) {
        return WF_ERROR(MODEL_INVALID, "input 0 is of type %s", wf_dtype_name(call->inputs[0].dtype));
    }
    WF_TRY(check_granularity(call));
    wf_shape_give(call, 0, dtype, call->inputs[0].rank, call->inputs[0].dims);
    return WF_OK;
}

wf_status_t wf_shape_dynamic_quantize_linear(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    WF_TRY(wf_shape_need_dtype(call, 0, WF_DTYPE_F32));
    wf_shape_give(call, 0, WF_DTYPE_U8, input->rank, input->dims);
    wf_shape_give(call, 1, WF_DTYPE_F32, 0, NULL);
    wf_shape_give(call, 2, WF_DTYPE_U8, 0, NULL);
    return WF_OK;
}
