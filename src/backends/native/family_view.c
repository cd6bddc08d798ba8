/* SPDX-License-Identifier: Apache-2.0 */
/* Work that needs no work: the result is the operand's bytes, read with another type. */
#include "backends/native/native.h"

static bool is_view_op(wf_op_t op)
{
    return (wf_op_info(op)->flags & WF_OP_FLAG_VIEW) != 0;
}

/* Layouts of operand and output between which a transpose moves nothing: its permutation is the one between
 * row-major and channels-last. */
static bool is_transpose_view(const wf_problem_t *problem, wf_layout_t *out_in, wf_layout_t *out_out)
{
    const wf_type_t *in = &problem->operands[0].type;
    size_t count;
    const int64_t *perm = wf_attrs_ints(&problem->stages[0].attrs, "perm", &count);
    if (problem->stages[0].op != WF_OP_TRANSPOSE || perm == NULL || count != in->rank || count < 3 ||
        count > 5)
        return false;
    bool to_last = perm[0] == 0 && perm[count - 1] == 1,
         from_last = perm[0] == 0 && perm[1] == (int64_t)count - 1;
    for (size_t d = 1; d + 1 < count; d++) {
        to_last = to_last && perm[d] == (int64_t)d + 1;
        from_last = from_last && perm[d + 1] == (int64_t)d;
    }
    /* NCHW -> NHWC read from channels-last memory; NHWC -> NCHW leaves channels-last memory. */
    *out_in = to_last ? WF_LAYOUT_LAST : WF_LAYOUT_ROW;
    *out_out = to_last ? WF_LAYOUT_ROW : WF_LAYOUT_LAST;
    return to_last || from_last;
}

/* Reshapes that keep batch and channels and merge or split the pixels are views in channels-last too. */
static bool keeps_channels(const wf_type_t *in, const wf_type_t *out)
{
    if (in->rank < 3 || out->rank < 3 || in->rank > 5 || out->rank > 5)
        return false;
    return in->dims[0] == out->dims[0] && in->dims[1] == out->dims[1];
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    wf_layout_t in, out;
    wf_op_t op = problem->stages[0].op;
    if (problem->stage_count != 1 || problem->output_count != 1 || problem->operand_count == 0)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->operands[0].is_const)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (is_view_op(op) || is_transpose_view(problem, &in, &out))
        return WF_NATIVE_FITS;
    return WF_NATIVE_NO(OPERATOR, NULL);
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    (void)native;
    (void)capacity;
    out_variants[0].layout = WF_LAYOUT_ROW;
    out_variants[1].layout = WF_LAYOUT_LAST;
    return is_view_op(problem->stages[0].op) &&
                   keeps_channels(&problem->operands[0].type, &problem->outputs[0])
               ? 2
               : 1;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    (void)native;
    if (is_view_op(problem->stages[0].op)) {
        if (variant->layout > WF_LAYOUT_LAST)
            return WF_NATIVE_NO(SHAPE, "no view in this layout");
        if (variant->layout == WF_LAYOUT_LAST &&
            !keeps_channels(&problem->operands[0].type, &problem->outputs[0])) {
            return WF_NATIVE_NO(SHAPE, "batch or channels change");
        }
        plan->operand_layouts[0] = plan->output_layouts[0] = variant->layout;
    } else if (!is_transpose_view(problem, &plan->operand_layouts[0], &plan->output_layouts[0])) {
        return WF_NATIVE_NO(SHAPE, "the permutation moves elements");
    }
    plan->needs.is_view = true;
    plan->needs.must_alias = 0;
    plan->estimate_ns = 1e-3; /* nothing, but above zero as the contract asks */
    return WF_NATIVE_FITS;
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    (void)kernel;
    (void)operands;
    (void)outputs;
    (void)workspace;
    (void)parallel;
    return WF_OK;
}

const wf_native_family_t wf_native_family_view = {
    .name = "view",
    .revision = 1,
    .has_layout = true,
    .match = match,
    .variants = variants,
    .plan = plan,
    .launch = launch,
};
