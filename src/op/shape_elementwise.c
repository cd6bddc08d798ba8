/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of elementwise operators. */
#include "base/compiler.h"
#include "op/shape.h"

/* The first input's dims, with another element type. */
static void give_like(wf_shape_call_t *call, size_t output, const wf_type_t *like, wf_dtype_t dtype)
{
    wf_shape_give(call, output, dtype, like->rank, like->dims);
}

wf_status_t wf_shape_same(wf_shape_call_t *call)
{
    give_like(call, 0, &call->inputs[0], call->inputs[0].dtype);
    return WF_OK;
}

wf_status_t wf_shape_to_bool(wf_shape_call_t *call)
{
    give_like(call, 0, &call->inputs[0], WF_DTYPE_BOOL);
    return WF_OK;
}

wf_status_t wf_shape_clip(wf_shape_call_t *call)
{
    for (size_t i = 1; i < 3; i++) {
        WF_TRY(wf_shape_need_dtype(call, i, call->inputs[0].dtype));
        WF_TRY(wf_shape_need_one(call, i));
    }
    return wf_shape_same(call);
}

wf_status_t wf_shape_cast(wf_shape_call_t *call)
{
    int64_t to = wf_attrs_int(call->attrs, "to", 0);
    wf_dtype_t dtype = wf_dtype_from_onnx(to);
    if (dtype == WF_DTYPE_NONE) {
        return WF_ERROR(MODEL_UNSUPPORTED, "attribute to is %lld, which is no element type here",
                        (long long)to);
    }
    if (dtype == WF_DTYPE_C64 || dtype == WF_DTYPE_C128) {
        return WF_ERROR(MODEL_INVALID, "attribute to is %s", wf_dtype_name(dtype));
    }
    give_like(call, 0, &call->inputs[0], dtype);
    return WF_OK;
}

wf_status_t wf_shape_cast_like(wf_shape_call_t *call)
{
    give_like(call, 0, &call->inputs[0], call->inputs[1].dtype);
    return WF_OK;
}

/* ---- Broadcasting ---- */

/* Broadcasts the inputs from `first` on, which must have one element type, to output 0 of type `dtype`. */
static wf_status_t give_broadcast(wf_shape_call_t *call, size_t first, wf_dtype_t dtype, bool same_types)
{
    for (size_t i = first + 1; same_types && i < call->input_count; i++) {
        WF_TRY(wf_shape_need_dtype(call, i, call->inputs[first].dtype));
    }
    wf_type_t result = call->inputs[0];
    for (size_t i = 1; i < call->input_count; i++) {
        const wf_type_t *pair[2] = {&result, &call->inputs[i]};
        wf_type_t joined;
        wf_status_t status = wf_shape_broadcast(pair, 2, &joined);
        if (status != WF_OK) {
            char left[WF_TYPE_TEXT_MAX];
            char right[WF_TYPE_TEXT_MAX];
            wf_status_ignore(status);
            return WF_ERROR(MODEL_INVALID, "input %zu, %s, does not broadcast with %s", i,
                            wf_type_text(&call->inputs[i], right), wf_type_text(&result, left));
        }
        result = joined;
    }
    give_like(call, 0, &result, dtype);
    return WF_OK;
}

wf_status_t wf_shape_variadic(wf_shape_call_t *call)
{
    return give_broadcast(call, 0, call->inputs[0].dtype, true);
}

wf_status_t wf_shape_binary(wf_shape_call_t *call)
{
    return wf_shape_variadic(call);
}

wf_status_t wf_shape_compare(wf_shape_call_t *call)
{
    return give_broadcast(call, 0, WF_DTYPE_BOOL, true);
}

wf_status_t wf_shape_pow(wf_shape_call_t *call)
{
    wf_dtype_t power = call->inputs[1].dtype;
    if (power == WF_DTYPE_BOOL || power == WF_DTYPE_STR || power == WF_DTYPE_C64 || power == WF_DTYPE_C128) {
        return WF_ERROR(MODEL_INVALID, "the exponent is of type %s", wf_dtype_name(power));
    }
    return give_broadcast(call, 0, call->inputs[0].dtype, false);
}

wf_status_t wf_shape_where(wf_shape_call_t *call)
{
    return give_broadcast(call, 1, call->inputs[1].dtype, true);
}

wf_status_t wf_shape_prelu(wf_shape_call_t *call)
{
    WF_TRY(wf_shape_need_dtype(call, 1, call->inputs[0].dtype));
    WF_TRY(wf_status_annotated(wf_shape_need_fits(&call->inputs[1], &call->inputs[0]), "slope"));
    return wf_shape_same(call);
}

wf_status_t wf_shape_dropout(wf_shape_call_t *call)
{
    WF_TRY(wf_shape_need_one(call, 1));
    WF_TRY(wf_shape_need_one(call, 2));
    WF_TRY(wf_shape_need_dtype(call, 2, WF_DTYPE_BOOL));
    give_like(call, 0, &call->inputs[0], call->inputs[0].dtype);
    give_like(call, 1, &call->inputs[0], WF_DTYPE_BOOL);
    return WF_OK;
}
