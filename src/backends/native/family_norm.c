/* SPDX-License-Identifier: Apache-2.0 */
/* Layer, RMS, residual + layer, instance and group normalisation, f32 (kernels/norm.h). */
#include "backends/native/gemm_common.h"
#include "backends/native/rows_run.h"
#include "base/compiler.h"

typedef struct norm_state {
    const float *scale, *bias;
} norm_state_t;

/* Operand numbers of each operator; -1: it has none. */
typedef struct norm_row {
    wf_op_t op;
    int32_t residual, scale, bias;
    bool rms, grouped;
} norm_row_t;

static const norm_row_t norm_rows[] = {
    {WF_OP_LAYER_NORMALIZATION, -1, 1, 2, false, false},
    {WF_OP_RMS_NORMALIZATION, -1, 1, -1, true, false},
    {WF_OP_W_ADD_LAYER_NORM, 1, 2, 3, false, false},
    {WF_OP_INSTANCE_NORMALIZATION, -1, 1, 2, false, true},
    {WF_OP_GROUP_NORMALIZATION, -1, 1, 2, false, true},
};

static const norm_row_t *find_row(const wf_problem_t *problem)
{
    for (size_t i = 0; i < WF_COUNT_OF(norm_rows); i++) {
        if (norm_rows[i].op == problem->stages[0].op)
            return &norm_rows[i];
    }
    return NULL;
}

static bool has_operand(const wf_problem_t *problem, int32_t index)
{
    return index >= 0 && (size_t)index < problem->operand_count &&
           problem->operands[index].type.dtype != WF_DTYPE_NONE;
}

/* Elements of one normalised row. */
static int64_t row_elems(const wf_problem_t *problem)
{
    const wf_problem_stage_t *root = &problem->stages[0];
    const wf_type_t *x = &problem->operands[0].type;
    int64_t axis = root->op == WF_OP_W_ADD_LAYER_NORM ? -1 : wf_attrs_int(&root->attrs, "axis", -1),
            elems = 1;
    if (axis < 0)
        axis += x->rank;
    for (uint32_t d = (uint32_t)axis; d < x->rank; d++)
        elems *= x->dims[d];
    return elems;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    const norm_row_t *row = find_row(problem);
    if (row == NULL)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, "no epilogue");
    if (!wf_native_all_f32(problem) || problem->operands[0].is_const)
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    const wf_type_t *x = &problem->operands[0].type;
    if (wf_type_elems(x) <= 0)
        return WF_NATIVE_NO(SHAPE, "empty");
    if (row->grouped && x->rank < 3)
        return WF_NATIVE_NO(SHAPE, "no pixels");
    if (row->op == WF_OP_W_ADD_LAYER_NORM && !wf_type_equal(x, &problem->operands[1].type)) {
        return WF_NATIVE_NO(SHAPE, "the residual is broadcast");
    }
    if (row->op == WF_OP_LAYER_NORMALIZATION && problem->output_count > 1)
        return WF_NATIVE_NO(OPERATOR, "statistics are wanted");
    int64_t wanted = row->grouped ? x->dims[1] : row_elems(problem);
    for (int32_t i = 0; i < 2; i++) {
        int32_t operand = i == 0 ? row->scale : row->bias;
        if (!has_operand(problem, operand))
            continue;
        if (!problem->operands[operand].is_const)
            return WF_NATIVE_NO(SHAPE, "scale or bias are computed at run time");
        if (wf_type_elems(&problem->operands[operand].type) != wanted)
            return WF_NATIVE_NO(SHAPE, "scale or bias are broadcast");
    }
    return WF_NATIVE_FITS;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    (void)native;
    (void)capacity;
    out_variants[0].layout = WF_LAYOUT_ROW;
    out_variants[1].layout = WF_LAYOUT_LAST;
    return find_row(problem)->grouped ? 2 : 1;
}

static wf_group_norm_args group_args(const wf_problem_t *problem, wf_layout_t layout)
{
    const wf_problem_stage_t *root = &problem->stages[0];
    const wf_type_t *x = &problem->operands[0].type;
    wf_group_norm_args a = {.layout = layout == WF_LAYOUT_LAST ? WF_GROUP_NORM_CHANNELS_LAST
                                                               : WF_GROUP_NORM_CHANNELS_FIRST,
                            .images = x->dims[0],
                            .channels = x->dims[1],
                            .pixels = 1,
                            .eps = wf_attrs_float(&root->attrs, "epsilon", 1e-5f)};
    for (uint32_t d = 2; d < x->rank; d++)
        a.pixels *= x->dims[d];
    a.groups =
        root->op == WF_OP_GROUP_NORMALIZATION ? wf_attrs_int(&root->attrs, "num_groups", 1) : a.channels;
    int64_t channels_per_group = WF_MAX(a.channels / WF_MAX(a.groups, (int64_t)1), (int64_t)1);
    a.groups_per_item = (int32_t)WF_MIN(WF_MAX(16 / channels_per_group, (int64_t)1), a.groups);
    return a;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    const norm_row_t *row = find_row(problem);
    if (row->grouped) {
        if (variant->layout > WF_LAYOUT_LAST)
            return WF_NATIVE_NO(SHAPE, "no kernel for this layout");
        plan->operand_layouts[0] = plan->output_layouts[0] = variant->layout;
        wf_group_norm_args a = group_args(problem, variant->layout);
        if (a.groups < 1 || a.channels % a.groups != 0)
            return WF_NATIVE_NO(ATTRIBUTE, "groups do not divide the channels");
        plan->needs.workspace_bytes =
            (size_t)(wf_group_norm_scratch_bytes(&a) + 63) / 64 * 64 * WF_MAX(native->cpu.thread_count, 1u);
    } else if (variant->layout != WF_LAYOUT_ROW) {
        return WF_NATIVE_NO(SHAPE, "rows are row-major");
    } else if (problem->output_count == 1) {
        plan->needs.may_alias = 0;
    }
    double elems = (double)wf_type_elems(&problem->outputs[0]);
    plan->estimate_ns =
        wf_native_estimate_ns(native, variant->tier, 8 * elems, 0.4, wf_problem_bytes(problem), 1);
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    const norm_row_t *row = find_row(kernel->problem);
    norm_state_t *state = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *state, &state));
    kernel->state = state;
    if (has_operand(kernel->problem, row->scale)) {
        WF_TRY(wf_native_keep_floats(kernel, constants[row->scale].data,
                                     wf_type_elems(&constants[row->scale].type), &state->scale));
    }
    if (has_operand(kernel->problem, row->bias)) {
        WF_TRY(wf_native_keep_floats(kernel, constants[row->bias].data,
                                     wf_type_elems(&constants[row->bias].type), &state->bias));
    }
    return WF_OK;
}

typedef struct norm_run {
    wf_norm_args rows;
    wf_group_norm_args groups;
    const wf_native_tier_t *tier;
} norm_run_t;

static void run_rows(void *self, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const norm_run_t *run = self;
    run->tier->norm(&run->rows, begin, end);
}

static void run_groups(void *self, int64_t begin, int64_t end, void *scratch)
{
    const norm_run_t *run = self;
    for (int64_t i = begin; i < end; i++)
        run->tier->group_norm(&run->groups, i, scratch);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    const wf_problem_t *problem = kernel->problem;
    const norm_row_t *row = find_row(problem);
    const norm_state_t *state = kernel->state;
    norm_run_t run = {.tier = kernel->tier};
    if (row->grouped) {
        run.groups = group_args(problem, kernel->variant->layout);
        run.groups.x = operands[0].data;
        run.groups.y = outputs[0].data;
        run.groups.scale = state->scale;
        run.groups.bias = state->bias;
        size_t scratch = (size_t)(wf_group_norm_scratch_bytes(&run.groups) + 63) / 64 * 64;
        wf_native_rows_run(parallel, wf_group_norm_items(&run.groups), 1, run_groups, &run, workspace,
                           scratch);
        return WF_OK;
    }
    int64_t cols = row_elems(problem), rows = wf_type_elems(&problem->operands[0].type) / cols;
    run.rows = (wf_norm_args){.x = operands[0].data,
                              .x_row_stride = cols,
                              .y = outputs[0].data,
                              .y_row_stride = cols,
                              .scale = state->scale,
                              .bias = state->bias,
                              .rows = rows,
                              .cols = cols,
                              .rms = row->rms,
                              .eps = wf_attrs_float(&problem->stages[0].attrs, "epsilon", 1e-5f)};
    if (row->residual >= 0) {
        run.rows.residual = operands[row->residual].data;
        run.rows.residual_row_stride = cols;
    }
    if (problem->output_count > 1) {
        run.rows.sum = outputs[1].data;
        run.rows.sum_row_stride = cols;
    }
    wf_native_rows_run(parallel, rows, 1 + 4096 / cols, run_rows, &run, NULL, 0);
    return WF_OK;
}

const wf_native_family_t wf_native_family_norm = {
    .name = "norm",
    .revision = 1,
    .has_layout = true,
    .has_tier = true,
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
