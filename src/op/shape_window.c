/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of convolutions and pooling. */
#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

/* Where a convolution finds its operands. */
typedef struct conv_inputs {
    size_t weight;
    size_t bias; /* SIZE_MAX: none */
} conv_inputs_t;

static void give_window(wf_shape_call_t *call, wf_dtype_t dtype, int64_t channels, const wf_window_t *window)
{
    int64_t dims[WF_MAX_RANK] = {call->inputs[0].dims[0], channels};
    memcpy(dims + 2, window->out, window->spatial_rank * sizeof *dims);
    wf_shape_give(call, 0, dtype, 2 + window->spatial_rank, dims);
}

/* Groups divide the input channels (`inner`: of one group) and the output channels. */
static wf_status_t check_groups(int64_t group, int64_t channels, int64_t inner, int64_t outer)
{
    int64_t all;
    if (group < 1) {
        return WF_ERROR(MODEL_INVALID, "attribute group is %lld", (long long)group);
    }
    if (!wf_i64_mul(group, inner, &all) || all != channels) {
        return WF_ERROR(MODEL_INVALID, "the input has %lld channels, the weight asks for %lld groups of %lld",
                        (long long)channels, (long long)group, (long long)inner);
    }
    if (outer % group != 0) {
        return WF_ERROR(MODEL_INVALID, "%lld output channels do not divide into %lld groups",
                        (long long)outer, (long long)group);
    }
    return WF_OK;
}

static wf_status_t infer_conv(wf_shape_call_t *call, conv_inputs_t at, wf_dtype_t out_dtype)
{
    const wf_type_t *input = &call->inputs[0];
    const wf_type_t *weight = &call->inputs[at.weight];
    wf_window_t window;
    WF_TRY(wf_window_resolve(call->op, call->attrs, input, weight, &window));
    int64_t channels = weight->dims[0];
    WF_TRY(check_groups(wf_attrs_int(call->attrs, "group", 1), input->dims[1], weight->dims[1], channels));
    WF_TRY(wf_shape_need_dims(call, at.bias, 1, &channels));
    give_window(call, out_dtype, channels, &window);
    return WF_OK;
}

wf_status_t wf_shape_conv(wf_shape_call_t *call)
{
    wf_dtype_t dtype = call->inputs[0].dtype;
    WF_TRY(wf_shape_need_dtype(call, 1, dtype));
    WF_TRY(wf_shape_need_dtype(call, 2, dtype));
    return infer_conv(call, (conv_inputs_t){.weight = 1, .bias = 2}, dtype);
}

/* MODEL_INVALID unless the input is an 8-bit integer. */
static wf_status_t need_byte(const wf_shape_call_t *call, size_t index)
{
    wf_dtype_t dtype = call->inputs[index].dtype;
    if (dtype != WF_DTYPE_I8 && dtype != WF_DTYPE_U8) {
        return WF_ERROR(MODEL_INVALID, "input %zu is of type %s, expected i8 or u8", index,
                        wf_dtype_name(dtype));
    }
    return WF_OK;
}

/* A scale or zero point of a weight: one, or one per output channel. */
static wf_status_t need_per_channel(const wf_shape_call_t *call, size_t index, int64_t channels)
{
    const wf_type_t *input = wf_shape_input(call, index);
    if (input == NULL || (wf_type_elems(input) == 1 && input->rank <= 1)) {
        return WF_OK;
    }
    return wf_shape_need_dims(call, index, 1, &channels);
}

wf_status_t wf_shape_conv_integer(wf_shape_call_t *call)
{
    for (size_t i = 0; i < 2; i++) {
        WF_TRY(need_byte(call, i));
        WF_TRY(wf_shape_need_dtype(call, 2 + i, call->inputs[i].dtype));
    }
    WF_TRY(wf_shape_need_one(call, 2));
    WF_TRY(infer_conv(call, (conv_inputs_t){.weight = 1, .bias = SIZE_MAX}, WF_DTYPE_I32));
    return need_per_channel(call, 3, call->inputs[1].dims[0]);
}

wf_status_t wf_shape_qlinear_conv(wf_shape_call_t *call)
{
    enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };
    static const size_t scales[] = {X_SCALE, W_SCALE, Y_SCALE};
    static const size_t single[] = {X_SCALE, X_ZERO, Y_SCALE, Y_ZERO};
    static const size_t bytes[] = {X, W, Y_ZERO};
    for (size_t i = 0; i < WF_COUNT_OF(scales); i++) {
        WF_TRY(wf_shape_need_dtype(call, scales[i], WF_DTYPE_F32));
        WF_TRY(need_byte(call, bytes[i]));
    }
    for (size_t i = 0; i < WF_COUNT_OF(single); i++) {
        WF_TRY(wf_shape_need_one(call, single[i]));
    }
    WF_TRY(wf_shape_need_dtype(call, X_ZERO, call->inputs[X].dtype));
    WF_TRY(wf_shape_need_dtype(call, W_ZERO, call->inputs[W].dtype));
    WF_TRY(wf_shape_need_dtype(call, BIAS, WF_DTYPE_I32));
    WF_TRY(infer_conv(call, (conv_inputs_t){.weight = W, .bias = BIAS}, call->inputs[Y_ZERO].dtype));
    WF_TRY(need_per_channel(call, W_SCALE, call->inputs[W].dims[0]));
    return need_per_channel(call, W_ZERO, call->inputs[W].dims[0]);
}

wf_status_t wf_shape_conv_transpose(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    const wf_type_t *weight = &call->inputs[1];
    WF_TRY(wf_shape_need_dtype(call, 1, input->dtype));
    WF_TRY(wf_shape_need_dtype(call, 2, input->dtype));
    wf_window_t window;
    WF_TRY(wf_window_resolve_transpose(call->attrs, input, weight, &window));
    int64_t group = wf_attrs_int(call->attrs, "group", 1);
    if (group < 1 || input->dims[1] != weight->dims[0] || input->dims[1] % group != 0) {
        return WF_ERROR(MODEL_INVALID, "the input has %lld channels, the weight %lld, in %lld groups",
                        (long long)input->dims[1], (long long)weight->dims[0], (long long)group);
    }
    int64_t channels;
    if (!wf_i64_mul(weight->dims[1], group, &channels)) {
        return wf_shape_overflow();
    }
    WF_TRY(wf_shape_need_dims(call, 2, 1, &channels));
    give_window(call, input->dtype, channels, &window);
    return WF_OK;
}

wf_status_t wf_shape_pool(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    wf_window_t window;
    WF_TRY(wf_window_resolve(call->op, call->attrs, input, NULL, &window));
    if (wf_attrs_int(call->attrs, "p", 1) < 1) {
        return WF_ERROR(MODEL_INVALID, "attribute p is %lld", (long long)wf_attrs_int(call->attrs, "p", 1));
    }
    give_window(call, input->dtype, input->dims[1], &window);
    if (call->output_count > 1) {
        call->outputs[1] = call->outputs[0];
        call->outputs[1].dtype = WF_DTYPE_I64;
    }
    return WF_OK;
}

wf_status_t wf_shape_global_pool(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    WF_TRY(wf_shape_need_rank(call, 0, 2, WF_MAX_RANK));
    if (wf_attrs_int(call->attrs, "p", 1) < 1) {
        return WF_ERROR(MODEL_INVALID, "attribute p is %lld", (long long)wf_attrs_int(call->attrs, "p", 1));
    }
    int64_t dims[WF_MAX_RANK] = {input->dims[0], input->dims[1]};
    for (uint32_t i = 2; i < input->rank; i++) {
        dims[i] = 1;
    }
    wf_shape_give(call, 0, input->dtype, input->rank, dims);
    return WF_OK;
}
