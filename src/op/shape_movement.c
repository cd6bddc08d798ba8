/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of operators that reorder, cut, join and repeat elements. */
#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

/* ---- Same elements, other dims ---- */

wf_status_t wf_reshape_resolve(const wf_type_t *from, const int64_t *shape, int32_t count, bool allow_zero,
                               wf_type_t *out_type)
{
    if (count > WF_MAX_RANK) {
        return wf_shape_rank_error((size_t)count);
    }
    wf_type_t result = {.dtype = from->dtype, .rank = (uint32_t)count};
    int32_t inferred = -1;
    for (int32_t i = 0; i < count; i++) {
        result.dims[i] = shape[i];
        if (shape[i] == -1) {
            if (inferred >= 0) {
                return WF_ERROR(MODEL_INVALID, "the shape has -1 in places %d and %d", inferred, i);
            }
            inferred = i;
            result.dims[i] = 1;
        } else if (shape[i] < 0) {
            return WF_ERROR(MODEL_INVALID, "the shape has %lld in place %d", (long long)shape[i], i);
        } else if (shape[i] == 0 && !allow_zero) {
            if ((uint32_t)i >= from->rank) {
                return WF_ERROR(MODEL_INVALID,
                                "the shape has 0 in place %d, where the input has no axis to copy", i);
            }
            result.dims[i] = from->dims[i];
        }
    }
    int64_t from_elems = wf_type_elems(from);
    int64_t rest = wf_type_elems(&result);
    if (rest < 0) {
        return wf_shape_overflow();
    }
    if (inferred >= 0) {
        if (rest == 0 || from_elems % rest != 0) {
            return WF_ERROR(MODEL_INVALID,
                            "-1 of the shape cannot be inferred: %lld elements, the other dims make %lld",
                            (long long)from_elems, (long long)rest);
        }
        result.dims[inferred] = from_elems / rest;
    } else if (rest != from_elems) {
        char from_text[WF_TYPE_TEXT_MAX];
        char to_text[WF_TYPE_TEXT_MAX];
        return WF_ERROR(MODEL_INVALID, "%s and %s have different numbers of elements",
                        wf_type_text(from, from_text), wf_type_text(&result, to_text));
    }
    *out_type = result;
    return WF_OK;
}

wf_status_t wf_shape_reshape(wf_shape_call_t *call)
{
    int64_t shape[2 * WF_MAX_RANK];
    int32_t count;
    WF_TRY(wf_shape_param_ints(call, "shape", 1, shape, &count));
    if (count == -2) {
        return WF_OK;
    }
    wf_type_t result;
    WF_TRY(wf_reshape_resolve(&call->inputs[0], shape, count, wf_attrs_int(call->attrs, "allowzero", 0) != 0,
                              &result));
    wf_shape_give(call, 0, result.dtype, result.rank, result.dims);
    return WF_OK;
}

wf_status_t wf_shape_flatten(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    uint32_t axis;
    int64_t given = wf_attrs_int(call->attrs, "axis", 1);
    if (given == (int64_t)input->rank) {
        axis = input->rank;
    } else {
        WF_TRY(wf_shape_axis(given, input->rank, &axis));
    }
    wf_type_t outer = {.rank = axis};
    wf_type_t inner = {.rank = input->rank - axis};
    memcpy(outer.dims, input->dims, outer.rank * sizeof *outer.dims);
    memcpy(inner.dims, input->dims + axis, inner.rank * sizeof *inner.dims);
    int64_t dims[2] = {wf_type_elems(&outer), wf_type_elems(&inner)};
    if (dims[0] < 0 || dims[1] < 0) {
        return wf_shape_overflow();
    }
    wf_shape_give(call, 0, input->dtype, 2, dims);
    return WF_OK;
}

wf_status_t wf_shape_squeeze(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    int64_t axes[2 * WF_MAX_RANK];
    uint32_t normal[2 * WF_MAX_RANK];
    int32_t count;
    uint32_t mask = 0;
    WF_TRY(wf_shape_param_ints(call, "axes", 1, axes, &count));
    if (count == -2) {
        return WF_OK;
    }
    WF_TRY(wf_shape_axes(axes, count, input->rank, normal, &mask));
    int64_t dims[WF_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < input->rank; i++) {
        bool squeezed = count < 0 ? input->dims[i] == 1 : (mask >> i & 1) != 0;
        if (squeezed && input->dims[i] != 1) {
            return WF_ERROR(MODEL_INVALID, "axis %u to squeeze is %lld, not 1", i, (long long)input->dims[i]);
        }
        if (!squeezed) {
            dims[rank++] = input->dims[i];
        }
    }
    wf_shape_give(call, 0, input->dtype, rank, dims);
    return WF_OK;
}

wf_status_t wf_shape_unsqueeze(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    int64_t axes[2 * WF_MAX_RANK];
    uint32_t normal[2 * WF_MAX_RANK];
    int32_t count;
    uint32_t mask;
    WF_TRY(wf_shape_param_ints(call, "axes", 1, axes, &count));
    if (count == -2) {
        return WF_OK;
    }
    uint32_t rank = input->rank + (uint32_t)WF_MAX(count, 0);
    WF_TRY(wf_shape_axes(axes, count, rank, normal, &mask));
    if (rank > WF_MAX_RANK) {
        return wf_shape_rank_error(rank);
    }
    int64_t dims[WF_MAX_RANK];
    uint32_t from = 0;
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = (mask >> i & 1) != 0 ? 1 : input->dims[from++];
    }
    wf_shape_give(call, 0, input->dtype, rank, dims);
    return WF_OK;
}

wf_status_t wf_shape_transpose(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    int64_t perm[2 * WF_MAX_RANK];
    uint32_t normal[2 * WF_MAX_RANK];
    int32_t count;
    uint32_t mask;
    WF_TRY(wf_shape_param_ints(call, "perm", -1, perm, &count));
    if (count >= 0 && (uint32_t)count != input->rank) {
        return WF_ERROR(MODEL_INVALID, "attribute perm has %d values for rank %u", count, input->rank);
    }
    WF_TRY(wf_status_annotated(wf_shape_axes(perm, count, input->rank, normal, &mask), "perm"));
    int64_t dims[WF_MAX_RANK];
    for (uint32_t i = 0; i < input->rank; i++) {
        dims[i] = input->dims[count < 0 ? input->rank - 1 - i : normal[i]];
    }
    wf_shape_give(call, 0, input->dtype, input->rank, dims);
    return WF_OK;
}

/* Depth and space trade a factor of blocksize^2. */
static wf_status_t infer_blocks(wf_shape_call_t *call, bool to_space)
{
    const wf_type_t *input = &call->inputs[0];
    WF_TRY(wf_shape_need_rank(call, 0, 4, 4));
    int64_t block = wf_attrs_int(call->attrs, "blocksize", 0);
    int64_t square;
    if (block < 1 || !wf_i64_mul(block, block, &square)) {
        return WF_ERROR(MODEL_INVALID, "attribute blocksize is %lld", (long long)block);
    }
    const int64_t *from = input->dims;
    int64_t dims[4] = {from[0]};
    bool divides = to_space ? from[1] % square == 0 : from[2] % block == 0 && from[3] % block == 0;
    if (!divides) {
        char text[WF_TYPE_TEXT_MAX];
        return WF_ERROR(MODEL_INVALID, "%s does not divide into blocks of %lld", wf_type_text(input, text),
                        (long long)block);
    }
    bool fits = true;
    if (to_space) {
        dims[1] = from[1] / square;
        fits = wf_i64_mul(from[2], block, &dims[2]) && wf_i64_mul(from[3], block, &dims[3]);
    } else {
        fits = wf_i64_mul(from[1], square, &dims[1]);
        dims[2] = from[2] / block;
        dims[3] = from[3] / block;
    }
    if (!fits) {
        return wf_shape_overflow();
    }
    wf_shape_give(call, 0, input->dtype, 4, dims);
    return WF_OK;
}

wf_status_t wf_shape_depth_to_space(wf_shape_call_t *call)
{
    return infer_blocks(call, true);
}

wf_status_t wf_shape_space_to_depth(wf_shape_call_t *call)
{
    return infer_blocks(call, false);
}

/* ---- Joining, cutting ---- */

wf_status_t wf_shape_concat(wf_shape_call_t *call)
{
    const wf_type_t *first = &call->inputs[0];
    uint32_t axis;
    WF_TRY(wf_shape_attr_axis(call, "axis", 0, first->rank, &axis));
    int64_t dims[WF_MAX_RANK];
    memcpy(dims, first->dims, sizeof dims);
    for (size_t i = 1; i < call->input_count; i++) {
        WF_TRY(wf_shape_need_dtype(call, i, first->dtype));
        int64_t want[WF_MAX_RANK];
        memcpy(want, first->dims, sizeof want);
        want[axis] = call->inputs[i].rank == first->rank ? call->inputs[i].dims[axis] : want[axis];
        WF_TRY(wf_shape_need_dims(call, i, first->rank, want));
        if (!wf_i64_add(dims[axis], want[axis], &dims[axis])) {
            return wf_shape_overflow();
        }
    }
    wf_shape_give(call, 0, first->dtype, first->rank, dims);
    return WF_OK;
}

/* Sizes of the parts; `index` < output_count. Equal parts are rounded up, the last one is what remains. */
static int64_t part_size(const wf_shape_list_t *sizes, int64_t dim, int64_t parts, int64_t index)
{
    if (sizes->count >= 0) {
        return wf_shape_list_int(sizes, index);
    }
    int64_t size = dim / parts + (dim % parts != 0 ? 1 : 0);
    return index < parts - 1 ? size : dim - size * (parts - 1);
}

wf_status_t wf_shape_split(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    uint32_t axis;
    wf_shape_list_t sizes;
    WF_TRY(wf_shape_attr_axis(call, "axis", 0, input->rank, &axis));
    WF_TRY(wf_shape_param_list(call, "split", 1, false, &sizes));
    if (sizes.count == -2) {
        return WF_OK;
    }
    int64_t dim = input->dims[axis];
    const wf_attr_t *num_outputs = wf_attrs_find(call->attrs, "num_outputs");
    int64_t parts = (int64_t)call->output_count;
    if (num_outputs != NULL && sizes.count >= 0) {
        return WF_ERROR(MODEL_INVALID, "both split and num_outputs are given");
    }
    int64_t asked = sizes.count >= 0 ? sizes.count : wf_attrs_int(call->attrs, "num_outputs", parts);
    if (asked != parts) {
        return WF_ERROR(MODEL_INVALID, "%lld parts are asked for, the node has %lld outputs",
                        (long long)asked, (long long)parts);
    }
    int64_t rest = dim;
    int64_t dims[WF_MAX_RANK];
    memcpy(dims, input->dims, sizeof dims);
    for (int64_t i = 0; i < parts; i++) {
        dims[axis] = part_size(&sizes, dim, parts, i);
        if (dims[axis] < 0 || dims[axis] > rest) {
            return WF_ERROR(MODEL_INVALID, "part %lld of an axis of %lld would be %lld", (long long)i,
                            (long long)dim, (long long)dims[axis]);
        }
        rest -= dims[axis];
        wf_shape_give(call, (size_t)i, input->dtype, input->rank, dims);
    }
    if (rest != 0) {
        return WF_ERROR(MODEL_INVALID, "the parts leave %lld of an axis of %lld over", (long long)rest,
                        (long long)dim);
    }
    return WF_OK;
}

int64_t wf_slice_resolve(int64_t dim, int64_t *start, int64_t *end, int64_t step)
{
    int64_t low = step < 0 ? -1 : 0;
    int64_t high = step < 0 ? dim - 1 : dim;
    *start += *start < 0 ? dim : 0;
    *end += *end < 0 ? dim : 0;
    /* A start before the first element is the first element, also backward (unlike numpy). */
    *start = WF_MIN(WF_MAX(*start, 0), high);
    *end = WF_MIN(WF_MAX(*end, low), high);
    if (step > 0) {
        return *end > *start ? (*end - *start - 1) / step + 1 : 0;
    }
    /* -(step + 1) is the magnitude less one, which fits also for INT64_MIN. */
    uint64_t magnitude = (uint64_t) - (step + 1) + 1;
    return *start > *end ? (int64_t)((uint64_t)(*start - *end - 1) / magnitude) + 1 : 0;
}

wf_status_t wf_shape_slice(wf_shape_call_t *call)
{
    enum { STARTS, ENDS, AXES, STEPS, LISTS };
    static const char *const names[LISTS] = {"starts", "ends", "axes", "steps"};
    const wf_type_t *input = &call->inputs[0];
    int64_t values[LISTS][2 * WF_MAX_RANK];
    int32_t counts[LISTS];
    for (int32_t i = 0; i < LISTS; i++) {
        WF_TRY(wf_shape_param_ints(call, names[i], 1 + i, values[i], &counts[i]));
        if (counts[i] == -2) {
            return WF_OK;
        }
        if (i <= ENDS && counts[i] < 0) {
            return WF_ERROR(MODEL_INVALID, "%s is missing", names[i]);
        }
        if (counts[i] >= 0 && counts[i] != counts[STARTS]) {
            return WF_ERROR(MODEL_INVALID, "%s has %d values, starts has %d", names[i], counts[i],
                            counts[STARTS]);
        }
    }
    if ((uint32_t)counts[STARTS] > input->rank) {
        return WF_ERROR(MODEL_INVALID, "starts has %d values for rank %u", counts[STARTS], input->rank);
    }
    for (int32_t i = 0; i < counts[STARTS]; i++) {
        values[AXES][i] = counts[AXES] < 0 ? i : values[AXES][i];
        values[STEPS][i] = counts[STEPS] < 0 ? 1 : values[STEPS][i];
    }
    uint32_t axes[2 * WF_MAX_RANK];
    uint32_t mask;
    WF_TRY(wf_shape_axes(values[AXES], counts[STARTS], input->rank, axes, &mask));
    int64_t dims[WF_MAX_RANK];
    memcpy(dims, input->dims, sizeof dims);
    for (int32_t i = 0; i < counts[STARTS]; i++) {
        if (values[STEPS][i] == 0) {
            return WF_ERROR(MODEL_INVALID, "the step for axis %u is 0", axes[i]);
        }
        dims[axes[i]] =
            wf_slice_resolve(input->dims[axes[i]], &values[STARTS][i], &values[ENDS][i], values[STEPS][i]);
    }
    wf_shape_give(call, 0, input->dtype, input->rank, dims);
    return WF_OK;
}

wf_status_t wf_shape_pad(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    WF_TRY(wf_shape_need_dtype(call, 2, input->dtype));
    WF_TRY(wf_shape_need_one(call, 2));
    int64_t pads[2 * WF_MAX_RANK];
    int64_t axes[2 * WF_MAX_RANK];
    uint32_t normal[2 * WF_MAX_RANK];
    uint32_t mask;
    int32_t pad_count;
    int32_t axis_count;
    WF_TRY(wf_shape_param_ints(call, "axes", 3, axes, &axis_count));
    WF_TRY(wf_shape_param_ints(call, "pads", 1, pads, &pad_count));
    if (call->needs_value_of >= 0) {
        return WF_OK;
    }
    int32_t count = axis_count < 0 ? (int32_t)input->rank : axis_count;
    for (int32_t i = 0; axis_count < 0 && i < count; i++) {
        axes[i] = i;
    }
    if (pad_count != 2 * count) {
        return WF_ERROR(MODEL_INVALID, "pads has %d values for %d axes", pad_count, count);
    }
    WF_TRY(wf_shape_axes(axes, count, input->rank, normal, &mask));
    const char *mode = wf_attrs_string(call->attrs, "mode", "constant");
    int64_t dims[WF_MAX_RANK];
    memcpy(dims, input->dims, sizeof dims);
    for (int32_t i = 0; i < count; i++) {
        int64_t *dim = &dims[normal[i]];
        int64_t before = pads[i];
        int64_t after = pads[count + i];
        if (!wf_i64_add(*dim, before, dim) || !wf_i64_add(*dim, after, dim)) {
            return wf_shape_overflow();
        }
        if (*dim < 0) {
            return WF_ERROR(MODEL_INVALID, "pads of %lld and %lld take more than axis %u has",
                            (long long)before, (long long)after, normal[i]);
        }
        if (*dim > 0 && input->dims[normal[i]] == 0 && strcmp(mode, "constant") != 0) {
            return WF_ERROR(MODEL_INVALID, "axis %u is empty: mode %s has nothing to pad with", normal[i],
                            mode);
        }
    }
    wf_shape_give(call, 0, input->dtype, input->rank, dims);
    return WF_OK;
}

/* ---- Repeating ---- */

wf_status_t wf_shape_expand(wf_shape_call_t *call)
{
    int64_t shape[2 * WF_MAX_RANK];
    int32_t count;
    WF_TRY(wf_shape_param_ints(call, "shape", 1, shape, &count));
    if (count == -2) {
        return WF_OK;
    }
    if (count > WF_MAX_RANK) {
        return wf_shape_rank_error((size_t)count);
    }
    wf_type_t want = {.dtype = call->inputs[0].dtype, .rank = (uint32_t)WF_MAX(count, 0)};
    for (int32_t i = 0; i < count; i++) {
        if (shape[i] < 0) {
            return WF_ERROR(MODEL_INVALID, "the shape has %lld in place %d", (long long)shape[i], i);
        }
        want.dims[i] = shape[i];
    }
    const wf_type_t *pair[2] = {&call->inputs[0], &want};
    wf_type_t result;
    wf_status_t status = wf_shape_broadcast(pair, 2, &result);
    if (status != WF_OK) {
        char from_text[WF_TYPE_TEXT_MAX];
        char to_text[WF_TYPE_TEXT_MAX];
        wf_status_ignore(status);
        return WF_ERROR(MODEL_INVALID, "%s does not broadcast with %s",
                        wf_type_text(&call->inputs[0], from_text), wf_type_text(&want, to_text));
    }
    wf_shape_give(call, 0, result.dtype, result.rank, result.dims);
    return WF_OK;
}

wf_status_t wf_shape_tile(wf_shape_call_t *call)
{
    const wf_type_t *input = &call->inputs[0];
    int64_t repeats[2 * WF_MAX_RANK];
    int32_t count;
    WF_TRY(wf_shape_param_ints(call, "repeats", 1, repeats, &count));
    if (count == -2) {
        return WF_OK;
    }
    if (count < 0 || (uint32_t)count != input->rank) {
        return WF_ERROR(MODEL_INVALID, "repeats has %d values for rank %u", count, input->rank);
    }
    int64_t dims[WF_MAX_RANK];
    for (int32_t i = 0; i < count; i++) {
        if (repeats[i] < 0) {
            return WF_ERROR(MODEL_INVALID, "repeats has %lld in place %d", (long long)repeats[i], i);
        }
        if (!wf_i64_mul(input->dims[i], repeats[i], &dims[i])) {
            return wf_shape_overflow();
        }
    }
    wf_shape_give(call, 0, input->dtype, input->rank, dims);
    return WF_OK;
}
