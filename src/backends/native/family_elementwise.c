/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of elementwise operators with broadcasting, f32, in one pass over memory.
 *
 * The dims of the output are merged where every tensor runs on evenly; what remains is a loop over blocks of
 * rows and columns, each a few thousand elements: the running value is copied or spread into the output block
 * and the program of stages (epilogue.h) runs on it in L1.
 */
#include <string.h>

#include "backends/native/native.h"
#include "base/compiler.h"

/* Elements of a block that stages run over one after another: 8 KiB leave room for operands in a 32 KiB L1.
 */
#define BLOCK_ELEMS 2048
/* Elements worth a second thread: an add of 8192 floats takes about 2 us, a region 0.5 us. */
#define ITEM_MIN_ELEMS 8192

/* A tensor of the chain: the initial value, or the operand of a stage. */
typedef struct ew_operand {
    int32_t operand;       /* of the problem; -1: none (a unary stage or a parameter) */
    const float *constant; /* NULL: from the launch */
} ew_operand_t;

typedef struct ew_state {
    wf_layout_t layout;
    ew_operand_t first; /* the initial value */
    wf_ep_stage stages[WF_NATIVE_EP_MAX];
    ew_operand_t operands[WF_NATIVE_EP_MAX];
    size_t count;
} ew_state_t;

/* ---- planning ---- */

static bool is_absent(const wf_problem_t *problem, uint32_t index)
{
    return problem->operands[index].type.dtype == WF_DTYPE_NONE;
}

static bool is_full(const wf_problem_t *problem, uint32_t index)
{
    const wf_type_t *out = &problem->outputs[0];
    return wf_type_elems(&problem->operands[index].type) == wf_type_elems(out);
}

/* Fills the program; constants may be NULL while planning. */
static wf_native_verdict_t make_program(const wf_problem_t *problem, const wf_tensor_t *constants,
                                        ew_state_t *state)
{
    const wf_problem_stage_t *root = &problem->stages[0];
    uint32_t inputs[2] = {0}, input_count = 0;
    for (uint32_t i = 0; i < root->operand_count; i++) {
        if (is_absent(problem, root->first_operand + i))
            continue;
        if (input_count == 2)
            return WF_NATIVE_NO(OPERATOR, "more than two inputs");
        inputs[input_count++] = root->first_operand + i;
    }
    if (input_count == 0)
        return WF_NATIVE_NO(OPERATOR, "no inputs");
    state->count = 0;
    for (size_t s = 0; s < problem->stage_count; s++) {
        const wf_problem_stage_t *stage = &problem->stages[s];
        if (state->count == WF_NATIVE_EP_MAX)
            return WF_NATIVE_NO(OPERATOR, "more stages than a program holds");
        if (!wf_type_equal(&stage->out, &problem->outputs[0]))
            return WF_NATIVE_NO(SHAPE, "a stage changes the shape");
        wf_ep_stage *ep = &state->stages[state->count];
        ew_operand_t *other = &state->operands[state->count];
        *other = (ew_operand_t){.operand = -1};
        bool swapped = stage->chain_mask == 2, twice = stage->op == WF_OP_MUL && stage->chain_mask == 3;
        int32_t operand = -1;
        if (s == 0) {
            /* Start from the input that has the output's size, so that nothing is spread needlessly. */
            swapped = input_count == 2 && !is_full(problem, inputs[0]) && is_full(problem, inputs[1]) &&
                      wf_native_ep_fn(stage, true, ep);
            state->first.operand = (int32_t)inputs[swapped ? 1 : 0];
            if (input_count == 2)
                operand = (int32_t)inputs[swapped ? 0 : 1];
        } else if (!twice && (stage->chain_mask & (stage->chain_mask - 1)) != 0) {
            return WF_NATIVE_NO(OPERATOR, "a stage uses the running value twice");
        } else {
            for (uint32_t i = 0; i < stage->operand_count; i++) {
                if (is_absent(problem, stage->first_operand + i))
                    continue;
                if (operand >= 0)
                    return WF_NATIVE_NO(OPERATOR, "a stage has run-time parameters");
                operand = (int32_t)(stage->first_operand + i);
            }
        }
        if (twice)
            *ep = (wf_ep_stage){.fn = WF_EP_SQUARE};
        else if (stage->op == WF_OP_IDENTITY)
            continue;
        else if (!wf_native_ep_fn(stage, swapped, ep))
            return WF_NATIVE_NO(OPERATOR, "an operator has no vector kernel");
        bool wants_operand = ep->fn >= WF_EP_ADD;
        if (!twice && wants_operand != (operand >= 0))
            return WF_NATIVE_NO(OPERATOR, "a stage has run-time parameters");
        other->operand = operand;
        if (operand >= 0 && problem->operands[operand].is_const && constants != NULL) {
            other->constant = constants[operand].data;
            if (ep->fn == WF_EP_POW && wf_type_elems(&constants[operand].type) == 1 &&
                *other->constant == 2) {
                *ep = (wf_ep_stage){.fn = WF_EP_SQUARE};
                *other = (ew_operand_t){.operand = -1};
            }
        }
        state->count++;
    }
    if (constants != NULL && problem->operands[state->first.operand].is_const) {
        state->first.constant = constants[state->first.operand].data;
    }
    return WF_NATIVE_FITS;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    if ((wf_op_info(problem->stages[0].op)->flags & WF_OP_FLAG_EW) == 0 || problem->output_count != 1) {
        return WF_NATIVE_NO(OPERATOR, NULL);
    }
    if (!wf_native_all_f32(problem))
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    ew_state_t state;
    return make_program(problem, NULL, &state);
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    (void)native;
    size_t count = 0;
    for (int layout = 0; layout < WF_LAYOUT_COUNT && count < capacity; layout++) {
        if (!wf_layout_exists(&problem->outputs[0], (wf_layout_t)layout))
            continue;
        out_variants[count++].layout = (wf_layout_t)layout;
    }
    return count;
}

static bool is_blocked(wf_layout_t layout)
{
    return layout == WF_LAYOUT_B8 || layout == WF_LAYOUT_B16;
}

/* An operand of lower rank stays row-major; its channels must then lie side by side or be one. */
static bool has_close_channels(const wf_type_t *operand, const wf_type_t *out)
{
    if (operand->rank == out->rank || out->rank < 3 || operand->rank + 1 < out->rank)
        return true;
    int64_t after = 1;
    for (uint32_t d = 1; d < operand->rank; d++)
        after *= operand->dims[d];
    return operand->dims[0] == 1 || after == 1;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    const wf_type_t *out = &problem->outputs[0];
    wf_layout_t layout = variant->layout;
    double bytes = (double)wf_type_bytes(out);
    if (is_blocked(layout) && wf_layout_elems(out, layout) != wf_type_elems(out)) {
        return WF_NATIVE_NO(SHAPE, "channels are not whole blocks");
    }
    plan->output_layouts[0] = layout;
    for (uint32_t i = 0; i < problem->operand_count; i++) {
        const wf_problem_operand_t *operand = &problem->operands[i];
        if (is_absent(problem, i))
            continue;
        bool full = wf_type_equal(&operand->type, out), scalar = wf_type_elems(&operand->type) == 1;
        if (operand->is_const && !wf_layout_same(&operand->type, WF_LAYOUT_ROW, layout)) {
            return WF_NATIVE_NO(SHAPE, "a constant would have to be converted");
        }
        if (!full && !scalar && is_blocked(layout))
            return WF_NATIVE_NO(SHAPE, "broadcasting in a blocked layout");
        if (layout == WF_LAYOUT_LAST && !has_close_channels(&operand->type, out)) {
            return WF_NATIVE_NO(SHAPE, "an operand of lower rank has its channels apart");
        }
        bytes += (double)wf_type_bytes(&operand->type);
        if (operand->is_const)
            continue;
        bool same_rank = operand->type.rank == out->rank && wf_layout_exists(&operand->type, layout);
        plan->operand_layouts[i] = same_rank ? layout : WF_LAYOUT_ROW;
    }
    /* The initial value is copied to the output before other operands are read: only its own place may be
     * overwritten. */
    ew_state_t state;
    wf_native_verdict_t verdict = make_program(problem, NULL, &state);
    if (!verdict.fits)
        return verdict;
    const wf_problem_operand_t *first = &problem->operands[state.first.operand];
    if (!first->is_const && wf_type_equal(&first->type, out))
        plan->needs.may_alias = state.first.operand;
    plan->needs.reads_strided = plan->needs.writes_strided = layout == WF_LAYOUT_LAST;
    double elems = (double)wf_type_elems(out);
    /* A stage costs one operation, a transcendental one about ten; the mean of real chains is near three. */
    plan->estimate_ns =
        wf_native_estimate_ns(native, native->kernel_tier, elems * (1 + 3 * (double)problem->stage_count),
                              0.25, bytes, elems > 2 * ITEM_MIN_ELEMS ? 1 : 0);
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    ew_state_t *state = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *state, &state));
    state->layout = kernel->variant->layout;
    wf_native_verdict_t verdict = make_program(kernel->problem, constants, state);
    if (!verdict.fits)
        return WF_ERROR(INTERNAL, "elementwise chain refused after planning: %s", verdict.text);
    /* Constants of a chain are small or read as they lie; they are copied so that their pages may go. */
    for (size_t i = 0; i <= state->count; i++) {
        ew_operand_t *operand = i < state->count ? &state->operands[i] : &state->first;
        if (operand->constant == NULL)
            continue;
        int64_t elems = wf_type_elems(&constants[operand->operand].type);
        float *copy = NULL;
        WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)elems, sizeof *copy, &copy));
        memcpy(copy, operand->constant, (size_t)elems * sizeof *copy);
        operand->constant = copy;
    }
    kernel->state = state;
    return WF_OK;
}

/* ---- running ---- */

/* Strides of a tensor along the output's dims in layout order; 0 where it is broadcast. */
typedef struct ew_strides {
    const float *data;
    int64_t stride[WF_MAX_RANK];
} ew_strides_t;

static void strides_of(const wf_type_t *type, const wf_type_t *out, wf_layout_t layout, const void *data,
                       int64_t row_stride_elems, ew_strides_t *out_strides)
{
    int64_t own[WF_MAX_RANK] = {0}, dense = 1;
    uint32_t missing = out->rank - type->rank;
    out_strides->data = data;
    /* Dense strides of the tensor in its own memory order, by ONNX dim. */
    bool last = layout == WF_LAYOUT_LAST && type->rank == out->rank && type->rank >= 3;
    if (last) {
        own[1] = 1;
        dense = row_stride_elems != 0 ? row_stride_elems : type->dims[1];
        for (uint32_t d = type->rank; d-- > 0;) {
            if (d == 1)
                continue;
            own[d] = dense;
            dense *= type->dims[d];
        }
    } else {
        for (uint32_t d = type->rank; d-- > 0;) {
            own[d] = dense;
            dense *= type->dims[d];
        }
    }
    wf_type_t by_dim = {.rank = out->rank};
    for (uint32_t d = 0; d < out->rank; d++) {
        bool broadcast = d < missing || (type->dims[d - missing] == 1 && out->dims[d] != 1);
        by_dim.dims[d] = broadcast ? 0 : own[d - missing];
    }
    wf_native_layout_dims(&by_dim, layout, out_strides->stride);
}

#define TENSORS_MAX (WF_NATIVE_EP_MAX + 2)
enum { OUT = 0, FIRST = 1, STAGE = 2 }; /* of tensors[] */

typedef struct ew_run {
    const wf_kernel_t *kernel;
    const ew_state_t *state;
    ew_strides_t tensors[TENSORS_MAX];
    uint32_t rank; /* after merging, outermost first */
    int64_t dims[WF_MAX_RANK];
    uint32_t inner_rank; /* dims inside a block: rows and columns, columns, or none */
    int64_t rows, cols, outer;
    int64_t row_block, col_block, row_blocks, col_blocks;
} ew_run_t;

static size_t tensor_count(const ew_run_t *run)
{
    return STAGE + run->state->count;
}

static bool is_used(const ew_run_t *run, size_t tensor)
{
    return tensor < STAGE || run->state->operands[tensor - STAGE].operand >= 0;
}

/* Merges dim d + 1 into d wherever all tensors run on evenly, and drops dims of 1. */
static void merge_dims(ew_run_t *run)
{
    uint32_t kept = 0;
    for (uint32_t d = 0; d < run->rank; d++) {
        if (run->dims[d] == 1)
            continue;
        bool even = kept > 0;
        for (size_t t = 0; even && t < tensor_count(run); t++) {
            if (!is_used(run, t))
                continue;
            const int64_t *stride = run->tensors[t].stride;
            even = stride[kept - 1] == stride[d] * run->dims[d];
        }
        uint32_t to = even ? kept - 1 : kept++;
        run->dims[to] = even ? run->dims[to] * run->dims[d] : run->dims[d];
        for (size_t t = 0; t < tensor_count(run); t++)
            run->tensors[t].stride[to] = run->tensors[t].stride[d];
    }
    run->rank = kept;
}

/* Rows are the dim before the last when every tensor can be read in rows: contiguous, constant, or one value
 * a row. */
static void split_rows(ew_run_t *run)
{
    run->cols = run->rank > 0 ? run->dims[run->rank - 1] : 1;
    run->rows = 1;
    bool rows = run->rank >= 2;
    for (size_t t = 0; rows && t < tensor_count(run); t++) {
        if (!is_used(run, t))
            continue;
        int64_t row = run->tensors[t].stride[run->rank - 2], col = run->tensors[t].stride[run->rank - 1];
        rows = col == 1 || row <= 1;
    }
    if (rows)
        run->rows = run->dims[run->rank - 2];
    run->inner_rank = WF_MIN(run->rank, rows ? 2u : 1u);
    run->outer = 1;
    for (uint32_t d = 0; d + run->inner_rank < run->rank; d++)
        run->outer *= run->dims[d];
}

/* The stages of one outer index, and the output and initial value there. */
static void bind_outer(const ew_run_t *run, int64_t outer, wf_ep_stage *stages, ew_strides_t *out,
                       ew_strides_t *first)
{
    int64_t offsets[TENSORS_MAX] = {0};
    for (uint32_t d = run->rank - run->inner_rank; d-- > 0;) {
        int64_t index = outer % run->dims[d];
        outer /= run->dims[d];
        for (size_t t = 0; t < tensor_count(run); t++)
            offsets[t] += index * run->tensors[t].stride[d];
    }
    *out = run->tensors[OUT];
    *first = run->tensors[FIRST];
    out->data += offsets[OUT];
    first->data += offsets[FIRST];
    for (size_t s = 0; s < run->state->count; s++) {
        stages[s] = run->state->stages[s];
        if (!is_used(run, STAGE + s))
            continue;
        const ew_strides_t *tensor = &run->tensors[STAGE + s];
        int64_t col = run->rank >= 1 ? tensor->stride[run->rank - 1] : 0;
        int64_t row = run->inner_rank == 2 ? tensor->stride[run->rank - 2] : 0;
        const float *data = tensor->data + offsets[STAGE + s];
        stages[s].data = data;
        stages[s].row_stride_elems = row;
        stages[s].operand =
            (uint8_t)(col != 0 ? (row != 0 ? WF_EP_FULL : WF_EP_COL) : (row != 0 ? WF_EP_ROW : WF_EP_SCALAR));
        if (stages[s].operand == WF_EP_SCALAR)
            stages[s].a = *data;
    }
}

static void spread(float *y, const float *x, int64_t row_stride, int64_t col_stride, int64_t cols,
                   int64_t row)
{
    const float *from = x + row * row_stride;
    if (col_stride == 1) {
        if (from != y)
            memcpy(y, from, (size_t)cols * sizeof *y);
        return;
    }
    for (int64_t c = 0; c < cols; c++)
        y[c] = *from;
}

static void run_item(void *arg, size_t item, uint32_t thread)
{
    (void)thread;
    const ew_run_t *run = arg;
    int64_t col_index = (int64_t)item % run->col_blocks, rest = (int64_t)item / run->col_blocks;
    int64_t row_begin = rest % run->row_blocks * run->row_block, col_begin = col_index * run->col_block;
    int64_t row_end = WF_MIN(row_begin + run->row_block, run->rows),
            col_end = WF_MIN(col_begin + run->col_block, run->cols);
    wf_ep_stage stages[WF_NATIVE_EP_MAX];
    ew_strides_t out, first;
    bind_outer(run, rest / run->row_blocks, stages, &out, &first);
    int64_t out_row = run->inner_rank == 2 ? out.stride[run->rank - 2] : 0;
    int64_t first_row = run->inner_rank == 2 ? first.stride[run->rank - 2] : 0;
    int64_t first_col = run->rank > 0 ? first.stride[run->rank - 1] : 0;
    float *y_base = (float *)(uintptr_t)out.data;
    int64_t cols_step = WF_MIN(col_end - col_begin, (int64_t)BLOCK_ELEMS);
    int64_t rows_step = WF_MAX((int64_t)BLOCK_ELEMS / WF_MAX(cols_step, (int64_t)1), (int64_t)1);
    for (int64_t r = row_begin; r < row_end; r += rows_step) {
        int64_t rows = WF_MIN(rows_step, row_end - r);
        for (int64_t c = col_begin; c < col_end; c += cols_step) {
            int64_t cols = WF_MIN(cols_step, col_end - c);
            for (int64_t i = 0; i < rows; i++) {
                spread(y_base + (r + i) * out_row + c, first.data + c * first_col, first_row, first_col, cols,
                       r + i);
            }
            run->kernel->tier->ep_run(stages, run->state->count, y_base + r * out_row + c, out_row, r, rows,
                                      c, cols);
        }
    }
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    (void)workspace;
    const wf_problem_t *problem = kernel->problem;
    const ew_state_t *state = kernel->state;
    const wf_type_t *out = &problem->outputs[0];
    ew_run_t run = {.kernel = kernel, .state = state, .rank = out->rank};
    int64_t elems = wf_type_elems(out);
    if (elems == 0)
        return WF_OK;
    bool blocked = is_blocked(state->layout);
    wf_layout_t layout =
        blocked ? WF_LAYOUT_ROW
                : state->layout; /* whole blocks and no broadcasting: order is the same for all */
    wf_native_layout_dims(out, layout, run.dims);
    strides_of(out, out, layout, outputs[0].data, outputs[0].row_stride_elems, &run.tensors[OUT]);
    for (size_t t = FIRST; t < STAGE + state->count; t++) {
        const ew_operand_t *operand = t == FIRST ? &state->first : &state->operands[t - STAGE];
        if (operand->operand < 0)
            continue;
        const wf_view_t *view = &operands[operand->operand];
        bool constant = operand->constant != NULL;
        strides_of(&problem->operands[operand->operand].type, out, layout,
                   constant ? operand->constant : view->data, constant ? 0 : view->row_stride_elems,
                   &run.tensors[t]);
    }
    merge_dims(&run);
    split_rows(&run);
    int64_t item_elems = wf_native_units_per_item(elems, ITEM_MIN_ELEMS, parallel->thread_count, 4);
    run.col_block = WF_MIN(run.cols, WF_MAX(item_elems / 16 * 16, (int64_t)16));
    run.row_block = WF_MAX(item_elems / run.col_block, (int64_t)1);
    run.row_blocks = (run.rows + run.row_block - 1) / run.row_block;
    run.col_blocks = (run.cols + run.col_block - 1) / run.col_block;
    int64_t items = run.outer * run.row_blocks * run.col_blocks;
    if (elems < 2 * ITEM_MIN_ELEMS) {
        for (int64_t i = 0; i < items; i++)
            run_item(&run, (size_t)i, 0);
    } else {
        parallel->run(parallel->self, (size_t)items, run_item, &run);
    }
    return WF_OK;
}

const wf_native_family_t wf_native_family_elementwise = {
    .name = "ew",
    .revision = 1,
    .has_layout = true,
    .has_tier = true,
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
