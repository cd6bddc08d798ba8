/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of our own operators, which graph passes make. */
#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

/* The type after an optional Transpose by attribute `name`. */
static wf_status_t permute(const wf_shape_call_t *call, const char *name, const wf_type_t *from,
                           wf_type_t *out_type)
{
    size_t count;
    const int64_t *perm = wf_attrs_ints(call->attrs, name, &count);
    *out_type = *from;
    if (perm == NULL) {
        return WF_OK;
    }
    if (count != from->rank) {
        return WF_ERROR(MODEL_INVALID, "attribute %s has %zu values for rank %u", name, count, from->rank);
    }
    uint32_t axes[WF_MAX_RANK];
    uint32_t mask;
    WF_TRY(wf_status_annotated(wf_shape_axes(perm, (int32_t)count, from->rank, axes, &mask), "%s", name));
    for (uint32_t i = 0; i < from->rank; i++) {
        out_type->dims[i] = from->dims[axes[i]];
    }
    return WF_OK;
}

wf_status_t wf_shape_w_attention(wf_shape_call_t *call)
{
    static const char *const perms[3] = {"q_perm", "k_perm", "v_perm"};
    wf_dtype_t dtype = call->inputs[0].dtype;
    uint32_t rank = call->inputs[0].rank;
    wf_type_t sides[3];
    for (size_t i = 0; i < 3; i++) {
        WF_TRY(wf_shape_need_dtype(call, i, dtype));
        WF_TRY(wf_shape_need_rank(call, i, WF_MAX(rank, 2u), WF_MAX(rank, 2u)));
        WF_TRY(permute(call, perms[i], &call->inputs[i], &sides[i]));
    }
    /* K is read as [.., d, T] for the first product. */
    wf_type_t keys = sides[1];
    keys.dims[rank - 1] = sides[1].dims[rank - 2];
    keys.dims[rank - 2] = sides[1].dims[rank - 1];
    wf_type_t scores = {.dtype = dtype};
    wf_type_t result = {.dtype = dtype};
    WF_TRY(wf_status_annotated(wf_shape_matmul_dims(&sides[0], &keys, &scores), "queries and keys"));
    WF_TRY(wf_status_annotated(wf_shape_matmul_dims(&scores, &sides[2], &result), "scores and values"));
    const wf_type_t *mask = wf_shape_input(call, 3);
    if (mask != NULL) {
        if (mask->dtype != WF_DTYPE_BOOL && mask->dtype != dtype) {
            return WF_ERROR(MODEL_INVALID, "the mask is of type %s", wf_dtype_name(mask->dtype));
        }
        WF_TRY(wf_status_annotated(wf_shape_need_fits(mask, &scores), "mask"));
    }
    wf_type_t out;
    WF_TRY(permute(call, "out_perm", &result, &out));
    wf_shape_give(call, 0, dtype, out.rank, out.dims);
    return WF_OK;
}

wf_status_t wf_shape_w_add_layer_norm(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    WF_TRY(wf_shape_need_rank(call, 0, 1, WF_MAX_RANK));
    for (size_t i = 1; i < call->input_count; i++) {
        WF_TRY(wf_shape_need_dtype(call, i, input->dtype));
        if (wf_shape_input(call, i) != NULL) {
            WF_TRY(wf_status_annotated(wf_shape_need_fits(&call->inputs[i], input), "input %zu", i));
        }
    }
    for (size_t i = 2; i < call->input_count; i++) {
        WF_TRY(wf_shape_need_dims(call, i, 1, &input->dims[input->rank - 1]));
    }
    wf_shape_give(call, 0, input->dtype, input->rank, input->dims);
    wf_shape_give(call, 1, input->dtype, input->rank, input->dims);
    return WF_OK;
}

wf_status_t wf_shape_w_squeeze_excite(wf_shape_call_t *call)
{
    enum { X, W1, B1, W2, B2 };
    const wf_type_t *input = &call->inputs[X];
    WF_TRY(wf_shape_need_rank(call, X, 3, WF_MAX_RANK));
    for (size_t i = 1; i < call->input_count; i++) {
        WF_TRY(wf_shape_need_dtype(call, i, input->dtype));
    }
    WF_TRY(wf_shape_need_rank(call, W1, 2, WF_MAX_RANK));
    int64_t channels = input->dims[1];
    int64_t squeezed = call->inputs[W1].dims[0];
    /* Weights of 1x1 convolutions keep their spatial axes. */
    int64_t first[WF_MAX_RANK] = {squeezed, channels};
    int64_t second[WF_MAX_RANK] = {channels, squeezed};
    for (uint32_t i = 2; i < WF_MAX_RANK; i++) {
        first[i] = second[i] = 1;
    }
    WF_TRY(wf_shape_need_dims(call, W1, call->inputs[W1].rank, first));
    WF_TRY(wf_shape_need_rank(call, W2, 2, WF_MAX_RANK));
    WF_TRY(wf_shape_need_dims(call, W2, call->inputs[W2].rank, second));
    WF_TRY(wf_shape_need_dims(call, B1, 1, &squeezed));
    WF_TRY(wf_shape_need_dims(call, B2, 1, &channels));
    wf_shape_give(call, 0, input->dtype, input->rank, input->dims);
    return WF_OK;
}
