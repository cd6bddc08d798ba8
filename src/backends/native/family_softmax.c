/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and LogSoftmax, f32, row-major (kernels/softmax.h). */
#include "backends/native/rows_run.h"
#include "base/compiler.h"

static wf_softmax_args args_of(const wf_problem_t *problem)
{
    const wf_problem_stage_t *root = &problem->stages[0];
    wf_axis_view_t view = wf_native_axis_view(&root->out, wf_attrs_int(&root->attrs, "axis", -1));
    return (wf_softmax_args){
        .outer = view.outer, .axis = view.axis, .inner = view.inner, .log = root->op == WF_OP_LOG_SOFTMAX};
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    wf_op_t op = problem->stages[0].op;
    if (op != WF_OP_SOFTMAX && op != WF_OP_LOG_SOFTMAX)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, "no epilogue");
    if (!wf_native_all_f32(problem) || problem->operands[0].is_const)
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    if (wf_type_elems(&problem->outputs[0]) <= 0)
        return WF_NATIVE_NO(SHAPE, "empty");
    return WF_NATIVE_FITS;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    plan->needs.may_alias = 0;
    double elems = (double)wf_type_elems(&problem->outputs[0]);
    /* About 40 operations an element, most of them the exponential. */
    plan->estimate_ns =
        wf_native_estimate_ns(native, variant->tier, 40 * elems, 0.7, wf_problem_bytes(problem), 1);
    return WF_NATIVE_FITS;
}

typedef struct softmax_run {
    wf_softmax_args args;
    wf_softmax_f32_fn *fn;
} softmax_run_t;

static void run_rows(void *self, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const softmax_run_t *run = self;
    run->fn(&run->args, begin, end);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    (void)workspace;
    softmax_run_t run = {args_of(kernel->problem), kernel->tier->softmax};
    run.args.x = operands[0].data;
    run.args.y = outputs[0].data;
    wf_native_rows_run(parallel, wf_softmax_rows(&run.args), 1 + 4096 / WF_MAX(run.args.axis, (int64_t)1),
                       run_rows, &run, NULL, 0);
    return WF_OK;
}

const wf_native_family_t wf_native_family_softmax = {
    .name = "softmax",
    .revision = 1,
    .has_tier = true,
    .match = match,
    .plan = plan,
    .launch = launch,
};
