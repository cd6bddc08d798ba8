/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of reductions, normalisations and what works along an axis. */
#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

static void give_first(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    wf_shape_give(call, 0, input->dtype, input->rank, input->dims);
}

/* ---- Reductions ---- */

wf_status_t wf_reduce_resolve(wf_shape_call_t *call, uint32_t *out_mask)
{
    int64_t axes[2 * WF_MAX_RANK];
    uint32_t normal[2 * WF_MAX_RANK];
    int32_t count;
    *out_mask = 0;
    WF_TRY(wf_shape_param_ints(call, "axes", 1, axes, &count));
    if (count == -2) {
        return WF_OK;
    }
    uint32_t rank = call->inputs[0].rank;
    if (count > 0) {
        return wf_shape_axes(axes, count, rank, normal, out_mask);
    }
    *out_mask = wf_attrs_int(call->attrs, "noop_with_empty_axes", 0) != 0 ? 0 : (UINT32_C(1) << rank) - 1;
    return WF_OK;
}

/* Reduced axes become 1 or go. */
static void give_reduced(wf_shape_call_t *call, wf_dtype_t dtype, uint32_t mask)
{
    const wf_type_t *input = &call->inputs[0];
    bool keep = wf_attrs_int(call->attrs, "keepdims", 1) != 0;
    int64_t dims[WF_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < input->rank; i++) {
        bool reduced = (mask >> i & 1) != 0;
        if (!reduced || keep) {
            dims[rank++] = reduced ? 1 : input->dims[i];
        }
    }
    wf_shape_give(call, 0, dtype, rank, dims);
}

wf_status_t wf_shape_reduce(wf_shape_call_t *call)
{
    uint32_t mask;
    WF_TRY(wf_reduce_resolve(call, &mask));
    if (call->needs_value_of < 0) {
        give_reduced(call, call->inputs[0].dtype, mask);
    }
    return WF_OK;
}

wf_status_t wf_shape_arg_reduce(wf_shape_call_t *call)
{
    uint32_t axis;
    WF_TRY(wf_shape_attr_axis(call, "axis", 0, call->inputs[0].rank, &axis));
    if (call->inputs[0].dims[axis] == 0) {
        return WF_ERROR(MODEL_INVALID, "axis %u is empty", axis);
    }
    give_reduced(call, WF_DTYPE_I64, UINT32_C(1) << axis);
    return WF_OK;
}

wf_status_t wf_shape_top_k(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    uint32_t axis;
    int64_t k[2 * WF_MAX_RANK];
    int32_t count;
    WF_TRY(wf_shape_attr_axis(call, "axis", -1, input->rank, &axis));
    WF_TRY(wf_shape_param_ints(call, "k", 1, k, &count));
    if (count == -2) {
        return WF_OK;
    }
    if (count != 1 || k[0] < 0 || k[0] > input->dims[axis]) {
        return WF_ERROR(MODEL_INVALID, "k is %lld for an axis of %lld", count == 1 ? (long long)k[0] : -1LL,
                        (long long)input->dims[axis]);
    }
    int64_t dims[WF_MAX_RANK];
    memcpy(dims, input->dims, sizeof dims);
    dims[axis] = k[0];
    wf_shape_give(call, 0, input->dtype, input->rank, dims);
    wf_shape_give(call, 1, WF_DTYPE_I64, input->rank, dims);
    return WF_OK;
}

/* ---- Along an axis ---- */

wf_status_t wf_shape_axis_kept(wf_shape_call_t *call)
{
    uint32_t axis;
    /* A scalar is allowed its one axis that is none: softmax of a scalar is 1. */
    WF_TRY(wf_shape_attr_axis(call, "axis", -1, WF_MAX(call->inputs[0].rank, 1u), &axis));
    give_first(call);
    return WF_OK;
}

wf_status_t wf_shape_cum_sum(wf_shape_call_t *call)
{
    int64_t axis[2 * WF_MAX_RANK];
    int32_t count;
    WF_TRY(wf_shape_param_ints(call, "axis", 1, axis, &count));
    /* The value does not matter for the shape. */
    call->needs_value_of = -1;
    if (count >= 0) {
        uint32_t normal;
        if (count != 1) {
            return WF_ERROR(MODEL_INVALID, "axis has %d values", count);
        }
        WF_TRY(wf_shape_axis(axis[0], call->inputs[0].rank, &normal));
    }
    give_first(call);
    return WF_OK;
}

wf_status_t wf_shape_trilu(wf_shape_call_t *call)
{
    WF_TRY(wf_shape_need_rank(call, 0, 2, WF_MAX_RANK));
    WF_TRY(wf_shape_need_dtype(call, 1, WF_DTYPE_I64));
    WF_TRY(wf_shape_need_one(call, 1));
    give_first(call);
    return WF_OK;
}

wf_status_t wf_shape_reverse_sequence(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    uint32_t batch;
    uint32_t time;
    WF_TRY(wf_shape_need_rank(call, 0, 2, WF_MAX_RANK));
    WF_TRY(wf_shape_attr_axis(call, "batch_axis", 1, input->rank, &batch));
    WF_TRY(wf_shape_attr_axis(call, "time_axis", 0, input->rank, &time));
    if (batch == time) {
        return WF_ERROR(MODEL_INVALID, "batch_axis and time_axis are both %u", batch);
    }
    WF_TRY(wf_shape_need_index(call, 1));
    WF_TRY(wf_shape_need_dims(call, 1, 1, &input->dims[batch]));
    give_first(call);
    return WF_OK;
}

/* ---- Normalisations ---- */

/* Inputs [first, last] are vectors of one value per channel, which is axis 1 (one channel when there is
 * none). */
static wf_status_t need_channel_vectors(const wf_shape_call_t *call, size_t first, size_t last,
                                        bool same_type)
{
    const wf_type_t *input = &call->inputs[0];
    int64_t channels = input->rank >= 2 ? input->dims[1] : 1;
    for (size_t i = first; i <= last; i++) {
        if (same_type) {
            WF_TRY(wf_shape_need_dtype(call, i, input->dtype));
        } else if (!wf_dtype_is_float(call->inputs[i].dtype)) {
            return WF_ERROR(MODEL_INVALID, "input %zu is of type %s, expected a float", i,
                            wf_dtype_name(call->inputs[i].dtype));
        }
        WF_TRY(wf_shape_need_dims(call, i, 1, &channels));
    }
    return WF_OK;
}

wf_status_t wf_shape_batch_normalization(wf_shape_call_t *call)
{
    WF_TRY(wf_shape_need_rank(call, 0, 1, WF_MAX_RANK));
    WF_TRY(need_channel_vectors(call, 1, 4, false));
    if (call->output_count > 1 && wf_attrs_int(call->attrs, "training_mode", 0) == 0) {
        return WF_ERROR(MODEL_INVALID, "running statistics are outputs of training only");
    }
    give_first(call);
    for (size_t i = 0; i < 2; i++) {
        wf_shape_give(call, 1 + i, call->inputs[3].dtype, 1, call->inputs[3].dims);
    }
    return WF_OK;
}

wf_status_t wf_shape_instance_normalization(wf_shape_call_t *call)
{
    WF_TRY(wf_shape_need_rank(call, 0, 3, WF_MAX_RANK));
    WF_TRY(need_channel_vectors(call, 1, 2, true));
    give_first(call);
    return WF_OK;
}

wf_status_t wf_shape_group_normalization(wf_shape_call_t *call)
{
    WF_TRY(wf_shape_need_rank(call, 0, 2, WF_MAX_RANK));
    WF_TRY(need_channel_vectors(call, 1, 2, true));
    int64_t groups = wf_attrs_int(call->attrs, "num_groups", 0);
    if (groups < 1 || call->inputs[0].dims[1] % groups != 0) {
        return WF_ERROR(MODEL_INVALID, "%lld channels do not divide into %lld groups",
                        (long long)call->inputs[0].dims[1], (long long)groups);
    }
    give_first(call);
    return WF_OK;
}

/* Inputs from `first` on broadcast to the input, and have its element type when same_type. */
static wf_status_t need_scales(const wf_shape_call_t *call, size_t first, bool same_type)
{
    for (size_t i = first; i < call->input_count; i++) {
        if (wf_shape_input(call, i) == NULL) {
            continue;
        }
        if (same_type) {
            WF_TRY(wf_shape_need_dtype(call, i, call->inputs[0].dtype));
        }
        WF_TRY(wf_status_annotated(wf_shape_need_fits(&call->inputs[i], &call->inputs[0]), "input %zu", i));
    }
    return WF_OK;
}

wf_status_t wf_shape_layer_normalization(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    uint32_t axis;
    WF_TRY(wf_shape_attr_axis(call, "axis", -1, input->rank, &axis));
    WF_TRY(need_scales(call, 1, true));
    int64_t stash = wf_attrs_int(call->attrs, "stash_type", 1);
    wf_dtype_t statistics = wf_dtype_from_onnx(stash);
    if (statistics != WF_DTYPE_F32 && statistics != WF_DTYPE_BF16) {
        return WF_ERROR(MODEL_INVALID, "attribute stash_type is %lld", (long long)stash);
    }
    give_first(call);
    int64_t dims[WF_MAX_RANK];
    for (uint32_t i = 0; i < input->rank; i++) {
        dims[i] = i < axis ? input->dims[i] : 1;
    }
    wf_shape_give(call, 1, statistics, input->rank, dims);
    wf_shape_give(call, 2, statistics, input->rank, dims);
    return WF_OK;
}

wf_status_t wf_shape_rms_normalization(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    uint32_t axis;
    WF_TRY(wf_shape_attr_axis(call, "axis", -1, input->rank, &axis));
    WF_TRY(need_scales(call, 1, false));
    if (!wf_dtype_is_float(call->inputs[1].dtype)) {
        return WF_ERROR(MODEL_INVALID, "the scale is of type %s", wf_dtype_name(call->inputs[1].dtype));
    }
    wf_shape_give(call, 0, call->inputs[1].dtype, input->rank, input->dims);
    return WF_OK;
}

wf_status_t wf_shape_mean_variance_normalization(wf_shape_call_t *call)
{
    int64_t axes[2 * WF_MAX_RANK];
    uint32_t normal[2 * WF_MAX_RANK];
    uint32_t mask;
    int32_t count;
    WF_TRY(wf_shape_param_ints(call, "axes", -1, axes, &count));
    WF_TRY(wf_shape_axes(axes, count, call->inputs[0].rank, normal, &mask));
    give_first(call);
    return WF_OK;
}

wf_status_t wf_shape_lrn(wf_shape_call_t *call)
{
    WF_TRY(wf_shape_need_rank(call, 0, 2, WF_MAX_RANK));
    int64_t size = wf_attrs_int(call->attrs, "size", 0);
    if (size < 1) {
        return WF_ERROR(MODEL_INVALID, "attribute size is %lld", (long long)size);
    }
    give_first(call);
    return WF_OK;
}
