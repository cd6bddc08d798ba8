/* SPDX-License-Identifier: Apache-2.0 */
/* The last resort: any problem, stage by stage, by the reference, row-major. */
#include <string.h>

#include "backends/native/native.h"
#include "base/compiler.h"
#include "ref/ref.h"

#define OPERANDS_MAX 4096u
/* Elements a microsecond of the reference on lanes; measured 0.1-0.4 per ns on simple operators, one core
 * (AMD EPYC Zen 3, 2026-11-30). */
#define REF_ELEMS_PER_NS 0.15
#define REF_FLOPS_PER_NS 1.0

/* Inputs of one stage as the operator wants them, with `chain` in the places of the running value. */
static uint32_t stage_inputs(const wf_problem_t *problem, const wf_problem_stage_t *stage,
                             wf_tensor_t *tensors, const wf_view_t *operands, const wf_tensor_t *constants,
                             void *chain, const wf_type_t *chain_type)
{
    uint32_t count = 0, taken = 0;
    while (taken < stage->operand_count || (stage->chain_mask >> count) != 0) {
        if ((stage->chain_mask >> count & 1u) != 0) {
            tensors[count++] = (wf_tensor_t){*chain_type, chain};
            continue;
        }
        uint32_t index = stage->first_operand + taken++;
        tensors[count] = (wf_tensor_t){problem->operands[index].type, NULL};
        if (problem->operands[index].is_const && constants != NULL)
            tensors[count].data = constants[index].data;
        else if (operands != NULL && tensors[count].type.dtype != WF_DTYPE_NONE)
            tensors[count].data = operands[index].data;
        count++;
    }
    return count;
}

static uint32_t most_inputs(const wf_problem_t *problem)
{
    uint32_t most = 0;
    for (size_t s = 0; s < problem->stage_count; s++)
        most = WF_MAX(most, problem->stages[s].operand_count + 8);
    return most;
}

/* Workspace: [chain buffer 0][chain buffer 1][scratch][tensor records]. */
typedef struct workspace_plan {
    size_t chain_bytes, scratch_bytes, records_bytes, total_bytes;
} workspace_plan_t;

static bool plan_workspace(const wf_native_t *native, const wf_problem_t *problem, wf_tensor_t *inputs,
                           wf_tensor_t *outputs, workspace_plan_t *out)
{
    *out = (workspace_plan_t){0};
    /* Only the number of threads is looked at: each has scratch of its own. */
    wf_parallel_t parallel = {.thread_count = WF_MAX(native->cpu.thread_count, 1u)};
    for (size_t s = 0; s < problem->stage_count; s++) {
        const wf_problem_stage_t *stage = &problem->stages[s];
        const wf_type_t *chain = s > 0 ? &problem->stages[s - 1].out : &stage->out;
        uint32_t count = stage_inputs(problem, stage, inputs, NULL, NULL, NULL, chain);
        bool alone = problem->stage_count == 1;
        size_t output_count = alone ? problem->output_count : 1, scratch = 0, chain_bytes = 0;
        for (size_t i = 0; i < output_count; i++)
            outputs[i] = (wf_tensor_t){alone ? problem->outputs[i] : stage->out, NULL};
        wf_ref_call_t call = {.op = stage->op,
                              .attrs = &stage->attrs,
                              .input_count = count,
                              .inputs = inputs,
                              .output_count = output_count,
                              .outputs = outputs,
                              .parallel = &parallel};
        wf_status_t status = wf_ref_scratch_bytes(&call, &scratch);
        if (status != WF_OK) {
            wf_status_free(status);
            return false;
        }
        int64_t bytes = wf_type_bytes(&stage->out);
        if (bytes < 0 || !wf_size_align((size_t)bytes, 64, &chain_bytes) ||
            !wf_size_align(scratch, 64, &scratch))
            return false;
        if (s + 1 < problem->stage_count)
            out->chain_bytes = WF_MAX(out->chain_bytes, chain_bytes);
        out->scratch_bytes = WF_MAX(out->scratch_bytes, scratch);
    }
    size_t records = 0, chains = 0;
    if (!wf_size_mul(most_inputs(problem) + problem->output_count, sizeof(wf_tensor_t), &records) ||
        !wf_size_align(records, 64, &out->records_bytes) || !wf_size_mul(out->chain_bytes, 2, &chains) ||
        !wf_size_add(chains, out->scratch_bytes, &out->total_bytes) ||
        !wf_size_add(out->total_bytes, out->records_bytes, &out->total_bytes)) {
        return false;
    }
    return true;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    if (problem->operand_count > OPERANDS_MAX)
        return WF_NATIVE_NO(SHAPE, "too many operands");
    if (problem->stages[0].op == WF_OP_W_CONVERT)
        return WF_NATIVE_NO(OPERATOR, NULL);
    for (size_t s = 0; s < problem->stage_count; s++) {
        const wf_problem_stage_t *stage = &problem->stages[s];
        wf_dtype_t dtype = (stage->chain_mask & 1u) != 0 ? problem->stages[s - 1].out.dtype
                           : stage->operand_count > 0    ? problem->operands[stage->first_operand].type.dtype
                                                         : WF_DTYPE_F32;
        if (!wf_ref_supports(stage->op, dtype))
            return WF_NATIVE_NO(OPERATOR, "the reference has no such operator for the type");
    }
    return WF_NATIVE_FITS;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    (void)variant;
    size_t record_count = most_inputs(problem) + problem->output_count;
    wf_tensor_t *records = NULL;
    workspace_plan_t workspace;
    wf_status_t status = wf_alloc(native->allocator, record_count, sizeof *records, &records);
    if (status != WF_OK)
        return WF_NATIVE_BROKEN(status);
    bool fits = plan_workspace(native, problem, records, records + most_inputs(problem), &workspace);
    wf_free(native->allocator, records, record_count, sizeof *records);
    if (!fits)
        return WF_NATIVE_NO(SHAPE, "the workspace cannot be addressed");
    plan->needs.workspace_bytes = workspace.total_bytes;
    double elems = 0;
    for (size_t i = 0; i < problem->output_count; i++)
        elems += (double)wf_type_elems(&problem->outputs[i]);
    plan->estimate_ns = 2000 + elems * (double)problem->stage_count / REF_ELEMS_PER_NS +
                        wf_problem_flops(problem) / REF_FLOPS_PER_NS;
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    workspace_plan_t *workspace = NULL;
    wf_tensor_t *records = NULL;
    uint32_t input_max = most_inputs(kernel->problem);
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *workspace, &workspace));
    WF_TRY(wf_arena_alloc(&kernel->memory, input_max + kernel->problem->output_count, sizeof *records,
                          &records));
    if (!plan_workspace(kernel->native, kernel->problem, records, records + input_max, workspace))
        return wf_status_out_of_memory();
    for (size_t i = 0; i < kernel->problem->operand_count; i++)
        kernel->keeps_constants |= constants[i].data != NULL;
    kernel->state = workspace;
    return WF_OK;
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    const wf_problem_t *problem = kernel->problem;
    const workspace_plan_t *plan = kernel->state;
    uint8_t *base = workspace;
    void *chains[2] = {base, base + plan->chain_bytes}, *scratch = base + 2 * plan->chain_bytes,
         *chain = NULL;
    wf_tensor_t *inputs = (void *)(base + 2 * plan->chain_bytes + plan->scratch_bytes);
    wf_tensor_t *results = inputs + most_inputs(problem);
    for (size_t s = 0; s < problem->stage_count; s++) {
        const wf_problem_stage_t *stage = &problem->stages[s];
        bool last = s + 1 == problem->stage_count, alone = problem->stage_count == 1;
        const wf_type_t *chain_type = s > 0 ? &problem->stages[s - 1].out : &stage->out;
        uint32_t count = stage_inputs(problem, stage, inputs, operands, kernel->constants, chain, chain_type);
        size_t output_count = alone ? problem->output_count : 1;
        for (size_t i = 0; i < output_count; i++) {
            results[i].type = alone ? problem->outputs[i] : stage->out;
            results[i].data = last ? outputs[i].data : chains[s % 2];
        }
        wf_ref_call_t call = {.op = stage->op,
                              .attrs = &stage->attrs,
                              .input_count = count,
                              .inputs = inputs,
                              .output_count = output_count,
                              .outputs = results,
                              .parallel = parallel,
                              .scratch = scratch};
        WF_TRY(wf_ref_run(&call));
        chain = chains[s % 2];
    }
    return WF_OK;
}

const wf_native_family_t wf_native_family_ref = {
    .name = "ref",
    .revision = 1,
    .match = match,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
