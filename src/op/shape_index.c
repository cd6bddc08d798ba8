/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of operators that read or write at indices. */
#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

wf_status_t wf_shape_gather(wf_shape_call_t *call)
{
    const wf_type_t *data = &call->inputs[0];
    const wf_type_t *indices = &call->inputs[1];
    uint32_t axis;
    WF_TRY(wf_shape_need_index(call, 1));
    WF_TRY(wf_shape_attr_axis(call, "axis", 0, data->rank, &axis));
    int64_t dims[2 * WF_MAX_RANK];
    uint32_t rank = axis;
    memcpy(dims, data->dims, axis * sizeof *dims);
    memcpy(dims + rank, indices->dims, indices->rank * sizeof *dims);
    rank += indices->rank;
    memcpy(dims + rank, data->dims + axis + 1, (data->rank - axis - 1) * sizeof *dims);
    rank += data->rank - axis - 1;
    return wf_shape_give_checked(call, 0, data->dtype, rank, dims);
}

/* Indices for every element along `axis`: as many axes as the data, and outside `axis` not longer, since
 * their place is the place in the data. */
static wf_status_t check_element_indices(const wf_shape_call_t *call)
{
    const wf_type_t *data = &call->inputs[0];
    const wf_type_t *indices = &call->inputs[1];
    uint32_t axis;
    WF_TRY(wf_shape_need_index(call, 1));
    WF_TRY(wf_shape_attr_axis(call, "axis", 0, data->rank, &axis));
    bool fits = indices->rank == data->rank;
    for (uint32_t i = 0; fits && i < data->rank; i++) {
        fits = i == axis || indices->dims[i] <= data->dims[i];
    }
    if (!fits) {
        char data_text[WF_TYPE_TEXT_MAX];
        char indices_text[WF_TYPE_TEXT_MAX];
        return WF_ERROR(MODEL_INVALID, "the indices %s do not lie within the data %s outside axis %u",
                        wf_type_text(indices, indices_text), wf_type_text(data, data_text), axis);
    }
    return WF_OK;
}

wf_status_t wf_shape_gather_elements(wf_shape_call_t *call)
{
    WF_TRY(check_element_indices(call));
    wf_shape_give(call, 0, call->inputs[0].dtype, call->inputs[1].rank, call->inputs[1].dims);
    return WF_OK;
}

wf_status_t wf_shape_scatter_elements(wf_shape_call_t *call)
{
    const wf_type_t *data = &call->inputs[0];
    WF_TRY(check_element_indices(call));
    WF_TRY(wf_shape_need_dtype(call, 2, data->dtype));
    WF_TRY(wf_shape_need_dims(call, 2, call->inputs[1].rank, call->inputs[1].dims));
    wf_shape_give(call, 0, data->dtype, data->rank, data->dims);
    return WF_OK;
}

/* The last axis of the indices holds tuples over the axes of the data behind the batch axes. */
static wf_status_t check_tuples(const wf_shape_call_t *call, uint32_t batch_rank, uint32_t *out_tuple)
{
    const wf_type_t *data = &call->inputs[0];
    const wf_type_t *indices = &call->inputs[1];
    WF_TRY(wf_shape_need_index(call, 1));
    WF_TRY(wf_shape_need_rank(call, 0, 1, WF_MAX_RANK));
    WF_TRY(wf_shape_need_rank(call, 1, 1, WF_MAX_RANK));
    int64_t tuple = indices->dims[indices->rank - 1];
    if (tuple < 1 || tuple > (int64_t)(data->rank - batch_rank)) {
        return WF_ERROR(MODEL_INVALID, "the last axis of the indices is %lld, the data has %u axes for it",
                        (long long)tuple, data->rank - batch_rank);
    }
    *out_tuple = (uint32_t)tuple;
    return WF_OK;
}

wf_status_t wf_shape_gather_nd(wf_shape_call_t *call)
{
    const wf_type_t *data = &call->inputs[0];
    const wf_type_t *indices = &call->inputs[1];
    int64_t batch = wf_attrs_int(call->attrs, "batch_dims", 0);
    if (batch < 0 || batch >= (int64_t)data->rank || batch >= (int64_t)indices->rank) {
        return WF_ERROR(MODEL_INVALID, "batch_dims is %lld for ranks %u and %u", (long long)batch, data->rank,
                        indices->rank);
    }
    uint32_t tuple = 0;
    WF_TRY(check_tuples(call, (uint32_t)batch, &tuple));
    for (int64_t i = 0; i < batch; i++) {
        if (data->dims[i] != indices->dims[i]) {
            return WF_ERROR(MODEL_INVALID, "batch axis %lld is %lld in the data, %lld in the indices",
                            (long long)i, (long long)data->dims[i], (long long)indices->dims[i]);
        }
    }
    int64_t dims[2 * WF_MAX_RANK];
    uint32_t rank = indices->rank - 1;
    uint32_t first = (uint32_t)batch + tuple;
    memcpy(dims, indices->dims, rank * sizeof *dims);
    memcpy(dims + rank, data->dims + first, (data->rank - first) * sizeof *dims);
    return wf_shape_give_checked(call, 0, data->dtype, rank + data->rank - first, dims);
}

wf_status_t wf_shape_scatter_nd(wf_shape_call_t *call)
{
    const wf_type_t *data = &call->inputs[0];
    const wf_type_t *indices = &call->inputs[1];
    uint32_t tuple = 0;
    WF_TRY(check_tuples(call, 0, &tuple));
    int64_t dims[2 * WF_MAX_RANK];
    uint32_t rank = indices->rank - 1;
    memcpy(dims, indices->dims, rank * sizeof *dims);
    memcpy(dims + rank, data->dims + tuple, (data->rank - tuple) * sizeof *dims);
    rank += data->rank - tuple;
    if (rank > WF_MAX_RANK) {
        return wf_shape_rank_error(rank);
    }
    WF_TRY(wf_shape_need_dtype(call, 2, data->dtype));
    WF_TRY(wf_shape_need_dims(call, 2, rank, dims));
    wf_shape_give(call, 0, data->dtype, data->rank, data->dims);
    return WF_OK;
}

wf_status_t wf_shape_one_hot(wf_shape_call_t *call)
{
    const wf_type_t *indices = &call->inputs[0];
    int64_t two = 2;
    WF_TRY(wf_shape_need_dims(call, 2, 1, &two));
    uint32_t axis;
    WF_TRY(wf_shape_attr_axis(call, "axis", -1, indices->rank + 1, &axis));
    int64_t depth = wf_attrs_int(call->attrs, "depth", -1);
    /* Any number type is allowed for the input. */
    if (wf_shape_input(call, 1) != NULL) {
        WF_TRY(wf_shape_need_one(call, 1));
        const wf_tensor_t *value = wf_shape_value(call, 1);
        if (value == NULL) {
            return WF_OK;
        }
        double number;
        if (!wf_tensor_get_i64(value, 0, &depth)) {
            bool known = wf_tensor_get_f64(value, 0, &number) && number >= 0 && number < 0x1p62;
            depth = known ? (int64_t)number : -1;
        }
    }
    if (depth < 0) {
        return WF_ERROR(MODEL_INVALID, "the depth is not a number that can be a size");
    }
    if (indices->rank + 1 > WF_MAX_RANK) {
        return wf_shape_rank_error(indices->rank + 1);
    }
    int64_t dims[WF_MAX_RANK];
    memcpy(dims, indices->dims, axis * sizeof *dims);
    dims[axis] = depth;
    memcpy(dims + axis + 1, indices->dims + axis, (indices->rank - axis) * sizeof *dims);
    wf_shape_give(call, 0, call->inputs[2].dtype, indices->rank + 1, dims);
    return WF_OK;
}
