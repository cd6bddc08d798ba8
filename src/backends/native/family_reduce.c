/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, f32: neighbouring axes of row-major tensors, spatial axes of channels-last ones
 * (kernels/reduce.h). */
#include "backends/native/rows_run.h"
#include "base/compiler.h"

static const struct {
    wf_op_t op;
    wf_reduce_op reduce;
} reduce_rows[] = {
    {WF_OP_REDUCE_SUM, WF_REDUCE_SUM},
    {WF_OP_REDUCE_MEAN, WF_REDUCE_MEAN},
    {WF_OP_REDUCE_MAX, WF_REDUCE_MAX},
    {WF_OP_REDUCE_MIN, WF_REDUCE_MIN},
    {WF_OP_REDUCE_PROD, WF_REDUCE_PROD},
    {WF_OP_REDUCE_L1, WF_REDUCE_L1},
    {WF_OP_REDUCE_L2, WF_REDUCE_L2},
    {WF_OP_REDUCE_SUM_SQUARE, WF_REDUCE_SUM_SQUARE},
    {WF_OP_REDUCE_LOG_SUM, WF_REDUCE_LOG_SUM},
    {WF_OP_REDUCE_LOG_SUM_EXP, WF_REDUCE_LOG_SUM_EXP},
    {WF_OP_GLOBAL_AVERAGE_POOL, WF_REDUCE_MEAN},
    {WF_OP_GLOBAL_MAX_POOL, WF_REDUCE_MAX},
};

static bool find_op(wf_op_t op, wf_reduce_op *out_reduce)
{
    for (size_t i = 0; i < WF_COUNT_OF(reduce_rows); i++) {
        if (reduce_rows[i].op != op)
            continue;
        *out_reduce = reduce_rows[i].reduce;
        return true;
    }
    return false;
}

/* The reduced axes as one run of the layout's dims; false when they are apart or there are none. */
static bool resolve(const wf_problem_t *problem, wf_layout_t layout, wf_reduce_args *out_args)
{
    const wf_problem_stage_t *root = &problem->stages[0];
    const wf_type_t *x = &problem->operands[0].type;
    bool is_pool = root->op == WF_OP_GLOBAL_AVERAGE_POOL || root->op == WF_OP_GLOBAL_MAX_POOL;
    bool reduced[WF_MAX_RANK] = {false};
    *out_args = (wf_reduce_args){.outer = 1, .axis = 1, .inner = 1};
    if (!find_op(root->op, &out_args->op))
        return false;
    if (is_pool) {
        for (uint32_t d = 2; d < x->rank; d++)
            reduced[d] = true;
    } else {
        size_t count;
        const int64_t *axes = wf_attrs_ints(&root->attrs, "axes", &count);
        bool nothing = count == 0 && wf_attrs_int(&root->attrs, "noop_with_empty_axes", 0) != 0;
        if (nothing || (problem->operand_count > 1 && problem->operands[1].type.dtype != WF_DTYPE_NONE))
            return false;
        for (uint32_t d = 0; d < x->rank; d++)
            reduced[d] = count == 0;
        for (size_t i = 0; i < count; i++) {
            int64_t axis = axes[i] < 0 ? axes[i] + x->rank : axes[i];
            if (axis < 0 || axis >= x->rank)
                return false;
            reduced[axis] = true;
        }
    }
    if (layout == WF_LAYOUT_LAST) {
        /* Channels stay innermost, also in the result, which has to keep its rank. */
        if (x->rank < 3 || reduced[0] || reduced[1] || root->out.rank != x->rank)
            return false;
    }
    wf_type_t flags = {.rank = x->rank};
    int64_t dims[WF_MAX_RANK], in_axis[WF_MAX_RANK];
    for (uint32_t d = 0; d < x->rank; d++)
        flags.dims[d] = reduced[d];
    wf_native_layout_dims(x, layout, dims);
    wf_native_layout_dims(&flags, layout, in_axis);
    int part = 0; /* 0 before, 1 in, 2 after the run */
    for (uint32_t d = 0; d < x->rank; d++) {
        if (dims[d] != 1) {
            if (in_axis[d] && part == 2)
                return false;
            if (in_axis[d])
                part = 1;
            else if (part == 1)
                part = 2;
        }
        int64_t *side = part == 0 ? &out_args->outer : part == 1 ? &out_args->axis : &out_args->inner;
        *side *= dims[d];
    }
    return wf_type_elems(&root->out) > 0;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    wf_reduce_op op;
    if (!find_op(problem->stages[0].op, &op))
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, "no epilogue");
    if (problem->operands[0].type.dtype != WF_DTYPE_F32 || problem->operands[0].is_const) {
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    }
    return WF_NATIVE_FITS;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    (void)native;
    (void)problem;
    (void)capacity;
    out_variants[0].layout = WF_LAYOUT_ROW;
    out_variants[1].layout = WF_LAYOUT_LAST;
    return 2;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    wf_reduce_args args;
    if (variant->layout > WF_LAYOUT_LAST || !resolve(problem, variant->layout, &args)) {
        return WF_NATIVE_NO(SHAPE, "the axes do not lie side by side in this layout");
    }
    plan->operand_layouts[0] = plan->output_layouts[0] = variant->layout;
    double elems = (double)wf_type_elems(&problem->operands[0].type);
    plan->estimate_ns = wf_native_estimate_ns(native, variant->tier, elems, args.inner == 1 ? 0.15 : 0.2,
                                              wf_problem_bytes(problem), 1);
    return WF_NATIVE_FITS;
}

typedef struct reduce_run {
    wf_reduce_args args;
    wf_reduce_f32_fn *fn;
} reduce_run_t;

static void run_rows(void *self, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const reduce_run_t *run = self;
    run->fn(&run->args, begin, end);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    (void)workspace;
    reduce_run_t run = {.fn = kernel->tier->reduce};
    if (!resolve(kernel->problem, kernel->variant->layout, &run.args))
        return WF_ERROR(INTERNAL, "reduction refused after planning");
    run.args.x = operands[0].data;
    run.args.y = outputs[0].data;
    int64_t rows = wf_reduce_rows(&run.args),
            row_cost = WF_MAX(run.args.outer * run.args.axis * run.args.inner / rows, (int64_t)1);
    wf_native_rows_run(parallel, rows, 1 + 8192 / row_cost, run_rows, &run, NULL, 0);
    return WF_OK;
}

const wf_native_family_t wf_native_family_reduce = {
    .name = "reduce",
    .revision = 1,
    .has_layout = true,
    .has_tier = true,
    .match = match,
    .variants = variants,
    .plan = plan,
    .launch = launch,
};
