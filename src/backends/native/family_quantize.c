/* SPDX-License-Identifier: Apache-2.0 */
/* QuantizeLinear and DequantizeLinear between f32 and 8-bit integers, one scale for the tensor
 * (kernels/quantize.h). */
#include <string.h>

#include "backends/native/rows_run.h"
#include "base/compiler.h"

static bool is_byte(wf_dtype_t dtype)
{
    return dtype == WF_DTYPE_U8 || dtype == WF_DTYPE_I8;
}

static bool has_zero(const wf_problem_t *problem)
{
    return problem->operand_count > 2 && problem->operands[2].type.dtype != WF_DTYPE_NONE;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    const wf_problem_stage_t *root = &problem->stages[0];
    bool forward = root->op == WF_OP_QUANTIZE_LINEAR;
    if (!forward && root->op != WF_OP_DEQUANTIZE_LINEAR)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, "no epilogue");
    wf_dtype_t x = problem->operands[0].type.dtype, y = problem->outputs[0].dtype;
    if ((forward ? x : y) != WF_DTYPE_F32 || !is_byte(forward ? y : x) ||
        problem->operands[1].type.dtype != WF_DTYPE_F32 || problem->operands[0].is_const)
        return WF_NATIVE_NO(TYPE, "between f32 and 8-bit integers only");
    int64_t precision = wf_attrs_int(&root->attrs, "precision", 0);
    if (precision != 0 && wf_dtype_from_onnx(precision) != WF_DTYPE_F32)
        return WF_NATIVE_NO(TYPE, "the division is not in f32");
    if (wf_type_elems(&problem->operands[1].type) != 1)
        return WF_NATIVE_NO(SHAPE, "more than one scale");
    if (wf_type_elems(&problem->outputs[0]) <= 0)
        return WF_NATIVE_NO(SHAPE, "empty");
    return WF_NATIVE_FITS;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    (void)native;
    (void)capacity;
    out_variants[0].layout = WF_LAYOUT_ROW;
    out_variants[1].layout = WF_LAYOUT_LAST;
    return problem->outputs[0].rank >= 3 ? 2 : 1;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    if (variant->layout != WF_LAYOUT_ROW &&
        (variant->layout != WF_LAYOUT_LAST || problem->outputs[0].rank < 3))
        return WF_NATIVE_NO(SHAPE, "no kernel for this layout");
    plan->operand_layouts[0] = plan->output_layouts[0] = variant->layout;
    double elems = (double)wf_type_elems(&problem->outputs[0]);
    plan->estimate_ns =
        wf_native_estimate_ns(native, variant->tier, 8 * elems, 0.5, wf_problem_bytes(problem), 1);
    return WF_NATIVE_FITS;
}

/* Scale and zero point, when the engine is built with them. */
typedef struct quantize_state {
    const float *scale;
    const uint8_t *zero;
} quantize_state_t;

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    const wf_problem_t *problem = kernel->problem;
    quantize_state_t *state = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *state, &state));
    *state = (quantize_state_t){0};
    kernel->state = state;
    if (problem->operands[1].is_const) {
        float *scale;
        WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *scale, &scale));
        memcpy(scale, constants[1].data, sizeof *scale);
        state->scale = scale;
    }
    if (has_zero(problem) && problem->operands[2].is_const) {
        uint8_t *zero;
        WF_TRY(wf_arena_alloc(&kernel->memory, 1, 1, &zero));
        memcpy(zero, constants[2].data, 1);
        state->zero = zero;
    }
    return WF_OK;
}

typedef struct quantize_run {
    wf_quantize_args args;
    wf_quantize_fn *fn;
} quantize_run_t;

static void run_elems(void *self, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const quantize_run_t *run = self;
    run->fn(&run->args, begin, end);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    (void)workspace;
    enum { LEAST_ELEMS = 8192 }; /* of an item: about a microsecond */
    const wf_problem_t *problem = kernel->problem;
    const quantize_state_t *state = kernel->state;
    bool forward = problem->stages[0].op == WF_OP_QUANTIZE_LINEAR;
    wf_dtype_t byte = forward ? problem->outputs[0].dtype : problem->operands[0].type.dtype;
    quantize_run_t run = {{.x = operands[0].data,
                           .y = outputs[0].data,
                           .count = wf_type_elems(&problem->outputs[0]),
                           .scale = *(state->scale != NULL ? state->scale : (const float *)operands[1].data),
                           .is_i8 = byte == WF_DTYPE_I8,
                           .forward = forward},
                          kernel->tier->quantize};
    if (has_zero(problem)) {
        const uint8_t *zero = state->zero != NULL ? state->zero : (const uint8_t *)operands[2].data;
        run.args.zero = run.args.is_i8 ? (int32_t)(int8_t)*zero : *zero;
    }
    wf_native_rows_run(parallel, run.args.count, LEAST_ELEMS, run_elems, &run, NULL, 0);
    return WF_OK;
}

const wf_native_family_t wf_native_family_quantize = {
    .name = "quantize",
    .revision = 1,
    .has_layout = true,
    .has_tier = true,
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
