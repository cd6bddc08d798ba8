/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of matrix products. */
#include <string.h>

#include "base/compiler.h"
#include "op/einsum.h"
#include "op/shape.h"

wf_status_t wf_shape_matmul_dims(const wf_type_t *a, const wf_type_t *b, wf_type_t *out_type)
{
    if (a->rank == 0 || b->rank == 0) {
        return WF_ERROR(MODEL_INVALID, "a scalar has no matrix product");
    }
    int64_t a_inner = a->dims[a->rank - 1];
    int64_t b_inner = b->rank == 1 ? b->dims[0] : b->dims[b->rank - 2];
    if (a_inner != b_inner) {
        char a_text[WF_TYPE_TEXT_MAX];
        char b_text[WF_TYPE_TEXT_MAX];
        return WF_ERROR(MODEL_INVALID, "the inner dims of %s and %s differ", wf_type_text(a, a_text),
                        wf_type_text(b, b_text));
    }
    /* The batch dims broadcast; a vector has none, and its own axis is not in the result. */
    wf_type_t a_batch = {.rank = a->rank < 2 ? 0 : a->rank - 2};
    wf_type_t b_batch = {.rank = b->rank < 2 ? 0 : b->rank - 2};
    memcpy(a_batch.dims, a->dims, a_batch.rank * sizeof *a->dims);
    memcpy(b_batch.dims, b->dims, b_batch.rank * sizeof *b->dims);
    const wf_type_t *batches[2] = {&a_batch, &b_batch};
    wf_type_t result;
    WF_TRY(wf_status_annotated(wf_shape_broadcast(batches, 2, &result), "batch dims"));
    if (a->rank > 1) {
        result.dims[result.rank++] = a->dims[a->rank - 2];
    }
    if (b->rank > 1) {
        result.dims[result.rank++] = b->dims[b->rank - 1];
    }
    out_type->rank = result.rank;
    memcpy(out_type->dims, result.dims, sizeof result.dims);
    return WF_OK;
}

static wf_status_t give_product(wf_shape_call_t *call, size_t a, size_t b, wf_dtype_t dtype)
{
    wf_type_t result;
    WF_TRY(wf_shape_matmul_dims(&call->inputs[a], &call->inputs[b], &result));
    wf_shape_give(call, 0, dtype, result.rank, result.dims);
    return WF_OK;
}

wf_status_t wf_shape_matmul(wf_shape_call_t *call)
{
    WF_TRY(wf_shape_need_dtype(call, 1, call->inputs[0].dtype));
    return give_product(call, 0, 1, call->inputs[0].dtype);
}

wf_status_t wf_shape_gemm(wf_shape_call_t *call)
{
    wf_dtype_t dtype = call->inputs[0].dtype;
    wf_type_t sides[2];
    static const char *const transposed[2] = {"transA", "transB"};
    for (size_t i = 0; i < 2; i++) {
        WF_TRY(wf_shape_need_dtype(call, i, dtype));
        WF_TRY(wf_shape_need_rank(call, i, 2, 2));
        sides[i] = call->inputs[i];
        if (wf_attrs_int(call->attrs, transposed[i], 0) != 0) {
            sides[i].dims[0] = call->inputs[i].dims[1];
            sides[i].dims[1] = call->inputs[i].dims[0];
        }
    }
    wf_type_t result = {.dtype = dtype};
    WF_TRY(wf_shape_matmul_dims(&sides[0], &sides[1], &result));
    WF_TRY(wf_shape_need_dtype(call, 2, dtype));
    if (wf_shape_input(call, 2) != NULL) {
        WF_TRY(wf_status_annotated(wf_shape_need_fits(&call->inputs[2], &result), "input 2"));
    }
    wf_shape_give(call, 0, dtype, 2, result.dims);
    return WF_OK;
}

/* A scale or zero point of one side of a product: one; one per row (per column) as a vector or, for stacks of
 * matrices, with the matrix's dims and 1 for the other axis. `kept` is the axis from the end that is not
 * reduced: 2 for rows, 1 for columns. */
static wf_status_t need_granularity(const wf_shape_call_t *call, size_t index, size_t matrix, uint32_t kept)
{
    const wf_type_t *input = wf_shape_input(call, index);
    const wf_type_t *type = &call->inputs[matrix];
    if (input == NULL || wf_type_elems(input) == 1) {
        return WF_OK;
    }
    int64_t length = type->rank >= kept ? type->dims[type->rank - kept] : 1;
    if (input->rank <= 1) {
        return wf_shape_need_dims(call, index, 1, &length);
    }
    wf_type_t want = *type;
    if (want.rank >= 2) {
        want.dims[want.rank - (3 - kept)] = 1;
    }
    return wf_shape_need_dims(call, index, want.rank, want.dims);
}

wf_status_t wf_shape_matmul_integer(wf_shape_call_t *call)
{
    for (size_t i = 0; i < 2; i++) {
        wf_dtype_t dtype = call->inputs[i].dtype;
        if (dtype != WF_DTYPE_I8 && dtype != WF_DTYPE_U8) {
            return WF_ERROR(MODEL_INVALID, "input %zu is of type %s, expected i8 or u8", i,
                            wf_dtype_name(dtype));
        }
        WF_TRY(wf_shape_need_dtype(call, 2 + i, dtype));
        WF_TRY(need_granularity(call, 2 + i, i, i == 0 ? 2 : 1));
    }
    return give_product(call, 0, 1, WF_DTYPE_I32);
}

wf_status_t wf_shape_qlinear_matmul(wf_shape_call_t *call)
{
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO };
    static const size_t scales[] = {A_SCALE, B_SCALE, Y_SCALE};
    for (size_t i = 0; i < WF_COUNT_OF(scales); i++) {
        if (!wf_dtype_is_float(call->inputs[scales[i]].dtype)) {
            return WF_ERROR(MODEL_INVALID, "input %zu is of type %s, expected a float", scales[i],
                            wf_dtype_name(call->inputs[scales[i]].dtype));
        }
    }
    WF_TRY(wf_shape_need_dtype(call, A_ZERO, call->inputs[A].dtype));
    WF_TRY(wf_shape_need_dtype(call, B_ZERO, call->inputs[B].dtype));
    WF_TRY(need_granularity(call, A_SCALE, A, 2));
    WF_TRY(need_granularity(call, A_ZERO, A, 2));
    WF_TRY(need_granularity(call, B_SCALE, B, 1));
    WF_TRY(need_granularity(call, B_ZERO, B, 1));
    return give_product(call, A, B, call->inputs[Y_ZERO].dtype);
}

wf_status_t wf_shape_einsum(wf_shape_call_t *call)
{
    const wf_attr_t *equation = wf_attrs_find(call->attrs, "equation");
    if (equation == NULL || equation->kind != WF_ATTR_STRING) {
        return WF_ERROR(MODEL_INVALID, "attribute equation is missing");
    }
    for (size_t i = 1; i < call->input_count; i++) {
        WF_TRY(wf_shape_need_dtype(call, i, call->inputs[0].dtype));
    }
    wf_einsum_t einsum;
    WF_TRY(wf_einsum_parse(equation->v.s, equation->count, call->inputs, call->input_count, &einsum));
    int64_t dims[WF_MAX_RANK];
    for (uint32_t i = 0; i < einsum.output_rank; i++) {
        dims[i] = einsum.label_dims[einsum.output_labels[i]];
    }
    wf_shape_give(call, 0, call->inputs[0].dtype, einsum.output_rank, dims);
    return WF_OK;
}
