/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators of a problem as a program for wf_ep_run_f32. */
#include <math.h>
#include <string.h>

#include "backends/native/native.h"
#include "base/compiler.h"

/* Operators that a stage can do: function, function when the running value is the second input, and the
 * attributes that become a and b. */
typedef struct ep_row {
    wf_op_t op;
    wf_ep_fn fn, swapped_fn;
    const char *a, *b;
} ep_row_t;

#define NOT_SWAPPED WF_EP_COUNT
#define UNARY(op, fn, a, b)                           \
    {                                                 \
        WF_OP_##op, WF_EP_##fn, NOT_SWAPPED, (a), (b) \
    }
#define BINARY(op, fn, swapped)                       \
    {                                                 \
        WF_OP_##op, WF_EP_##fn, (swapped), NULL, NULL \
    }
static const ep_row_t ep_rows[] = {
    UNARY(RELU, RELU, NULL, NULL),
    UNARY(CLIP, CLIP, "min", "max"),
    UNARY(LEAKY_RELU, LEAKY_RELU, "alpha", NULL),
    UNARY(ELU, ELU, "alpha", NULL),
    UNARY(SELU, SELU, "alpha", "gamma"),
    UNARY(CELU, CELU, "alpha", NULL),
    UNARY(THRESHOLDED_RELU, THRESHOLDED_RELU, "alpha", NULL),
    UNARY(SIGMOID, SIGMOID, NULL, NULL),
    UNARY(HARD_SIGMOID, HARD_SIGMOID, "alpha", "beta"),
    UNARY(HARD_SWISH, HARD_SWISH, NULL, NULL),
    UNARY(SWISH, SWISH, "alpha", NULL),
    UNARY(MISH, MISH, NULL, NULL),
    UNARY(TANH, TANH, NULL, NULL),
    UNARY(GELU, GELU_ERF, NULL, NULL),
    UNARY(ERF, ERF, NULL, NULL),
    UNARY(EXP, EXP, NULL, NULL),
    UNARY(LOG, LOG, NULL, NULL),
    UNARY(SQRT, SQRT, NULL, NULL),
    UNARY(RECIPROCAL, RECIPROCAL, NULL, NULL),
    UNARY(ABS, ABS, NULL, NULL),
    UNARY(NEG, NEG, NULL, NULL),
    UNARY(SOFTPLUS, SOFTPLUS, NULL, NULL),
    UNARY(SOFTSIGN, SOFTSIGN, NULL, NULL),
    UNARY(FLOOR, FLOOR, NULL, NULL),
    UNARY(CEIL, CEIL, NULL, NULL),
    UNARY(ROUND, ROUND, NULL, NULL),
    BINARY(ADD, ADD, WF_EP_ADD),
    BINARY(SUB, SUB, WF_EP_RSUB),
    BINARY(MUL, MUL, WF_EP_MUL),
    BINARY(DIV, DIV, WF_EP_RDIV),
    BINARY(MAX, MAX, WF_EP_MAX),
    BINARY(MIN, MIN, WF_EP_MIN),
    BINARY(PRELU, PRELU, NOT_SWAPPED),
    BINARY(POW, POW, NOT_SWAPPED),
};

static const ep_row_t *find_row(wf_op_t op)
{
    for (size_t i = 0; i < WF_COUNT_OF(ep_rows); i++) {
        if (ep_rows[i].op == op)
            return &ep_rows[i];
    }
    return NULL;
}

bool wf_native_ep_fn(const wf_problem_stage_t *stage, bool swapped, wf_ep_stage *out_stage)
{
    const ep_row_t *row = find_row(stage->op);
    if (row == NULL || (swapped && row->swapped_fn == NOT_SWAPPED))
        return false;
    bool is_clip = stage->op == WF_OP_CLIP;
    *out_stage = (wf_ep_stage){.fn = (uint8_t)(swapped ? row->swapped_fn : row->fn), .operand = WF_EP_NONE};
    if (row->a != NULL)
        out_stage->a = wf_attrs_float(&stage->attrs, row->a, is_clip ? -INFINITY : 0);
    if (row->b != NULL)
        out_stage->b = wf_attrs_float(&stage->attrs, row->b, is_clip ? INFINITY : 0);
    if (stage->op == WF_OP_GELU &&
        strcmp(wf_attrs_string(&stage->attrs, "approximate", "none"), "tanh") == 0) {
        out_stage->fn = WF_EP_GELU_TANH;
    }
    return true;
}

static bool is_binary(wf_op_t op)
{
    return op == WF_OP_PRELU || op == WF_OP_POW ||
           (find_row(op) != NULL && find_row(op)->swapped_fn != NOT_SWAPPED);
}

/* How an operand lies against the output, both in the order of the layout. */
static bool classify(const wf_type_t *operand, const wf_type_t *out, wf_layout_t layout,
                     wf_ep_operand *out_kind)
{
    if (operand->rank > out->rank)
        return false;
    wf_type_t padded = {.dtype = operand->dtype, .rank = out->rank};
    uint32_t missing = out->rank - operand->rank;
    for (uint32_t d = 0; d < out->rank; d++)
        padded.dims[d] = d < missing ? 1 : operand->dims[d - missing];
    int64_t have[WF_MAX_RANK], want[WF_MAX_RANK];
    wf_native_layout_dims(&padded, layout, have);
    wf_native_layout_dims(out, layout, want);
    bool rows_full = true, rows_one = true;
    uint32_t last = out->rank > 0 ? out->rank - 1 : 0;
    for (uint32_t d = 0; d < last; d++) {
        rows_full &= have[d] == want[d];
        rows_one &= have[d] == 1;
    }
    bool col_full = out->rank == 0 || have[last] == want[last], col_one = out->rank == 0 || have[last] == 1;
    if (rows_one && col_one)
        *out_kind = WF_EP_SCALAR;
    else if (rows_full && col_full)
        *out_kind = WF_EP_FULL;
    else if (rows_one && col_full)
        *out_kind = WF_EP_COL;
    else if (rows_full && col_one)
        *out_kind = WF_EP_ROW;
    else
        return false;
    return true;
}

static wf_native_verdict_t plan_operand(const wf_problem_t *problem, uint32_t index, const wf_type_t *out,
                                        wf_layout_t layout, const wf_tensor_t *constants,
                                        wf_layout_t *operand_layouts, wf_ep_stage *stage)
{
    const wf_problem_operand_t *operand = &problem->operands[index];
    wf_ep_operand kind;
    if (operand->type.dtype != WF_DTYPE_F32)
        return WF_NATIVE_NO(TYPE, "an operand of the epilogue is not f32");
    if (!classify(&operand->type, out, layout, &kind))
        return WF_NATIVE_NO(SHAPE, "an operand of the epilogue is broadcast in another way");
    if (kind == WF_EP_FULL && operand->is_const && !wf_layout_same(&operand->type, WF_LAYOUT_ROW, layout)) {
        return WF_NATIVE_NO(SHAPE, "a constant operand of the epilogue has full size");
    }
    stage->operand = (uint8_t)kind;
    if (!operand->is_const)
        operand_layouts[index] = layout;
    if (kind == WF_EP_FULL) {
        int64_t rows;
        wf_native_rows_cols(out, layout, &rows, &stage->row_stride_elems);
    }
    if (operand->is_const && kind == WF_EP_SCALAR && constants != NULL) {
        stage->a = *(const float *)constants[index].data;
        if (stage->fn == WF_EP_POW && stage->a == 2)
            *stage = (wf_ep_stage){.fn = WF_EP_SQUARE, .operand = WF_EP_NONE};
    }
    return WF_NATIVE_FITS;
}

wf_native_verdict_t wf_native_ep_plan(const wf_problem_t *problem, size_t first_stage, const wf_type_t *out,
                                      wf_layout_t layout, const wf_tensor_t *constants,
                                      wf_layout_t *operand_layouts, wf_native_ep_t *out_ep)
{
    out_ep->count = 0;
    for (size_t s = first_stage; s < problem->stage_count; s++) {
        const wf_problem_stage_t *stage = &problem->stages[s];
        if (out_ep->count == WF_NATIVE_EP_MAX)
            return WF_NATIVE_NO(OPERATOR, "more stages than an epilogue holds");
        if (!wf_type_equal(&stage->out, out))
            return WF_NATIVE_NO(SHAPE, "a stage of the epilogue changes the shape");
        if (stage->op == WF_OP_IDENTITY)
            continue;
        wf_ep_stage *ep = &out_ep->stages[out_ep->count];
        int32_t *operand = &out_ep->operands[out_ep->count++];
        *operand = -1;
        if (stage->op == WF_OP_MUL && stage->chain_mask == 3) {
            *ep = (wf_ep_stage){.fn = WF_EP_SQUARE, .operand = WF_EP_NONE};
            continue;
        }
        if ((stage->chain_mask & (stage->chain_mask - 1)) != 0)
            return WF_NATIVE_NO(OPERATOR, "a stage uses the running value twice");
        if (!wf_native_ep_fn(stage, stage->chain_mask == 2, ep))
            return WF_NATIVE_NO(OPERATOR, "a stage has no epilogue function");
        uint32_t index, present = wf_problem_stage_present(problem, stage, &index);
        if (present != (is_binary(stage->op) ? 1u : 0u))
            return WF_NATIVE_NO(OPERATOR, "a stage has run-time parameters");
        if (present == 0)
            continue;
        wf_native_verdict_t verdict =
            plan_operand(problem, index, out, layout, constants, operand_layouts, ep);
        if (!verdict.fits)
            return verdict;
        bool known = problem->operands[index].is_const && ep->operand == WF_EP_SCALAR && constants != NULL;
        if (ep->operand != WF_EP_NONE && !known)
            *operand = (int32_t)index;
    }
    return WF_NATIVE_FITS;
}

wf_status_t wf_native_ep_keep(wf_kernel_t *kernel, wf_native_ep_t *ep, const wf_tensor_t *constants)
{
    for (size_t i = 0; i < ep->count; i++) {
        if (ep->operands[i] < 0 || !kernel->problem->operands[ep->operands[i]].is_const)
            continue;
        const wf_tensor_t *constant = &constants[ep->operands[i]];
        int64_t elems = wf_type_elems(&constant->type);
        float *copy = NULL;
        WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)elems, sizeof *copy, &copy));
        memcpy(copy, constant->data, (size_t)elems * sizeof *copy);
        ep->stages[i].data = copy;
        ep->operands[i] = -1;
    }
    return WF_OK;
}

void wf_native_ep_bind(const wf_native_ep_t *ep, const wf_view_t *operands, wf_ep_stage *out_stages)
{
    for (size_t i = 0; i < ep->count; i++) {
        out_stages[i] = ep->stages[i];
        if (ep->operands[i] < 0)
            continue;
        const wf_view_t *view = &operands[ep->operands[i]];
        out_stages[i].data = view->data;
        if (view->row_stride_elems != 0)
            out_stages[i].row_stride_elems = view->row_stride_elems;
        if (out_stages[i].operand == WF_EP_SCALAR)
            out_stages[i].a = *(const float *)view->data;
    }
}
