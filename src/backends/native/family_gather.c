/* SPDX-License-Identifier: Apache-2.0 */
/* Gather of whole rows: embeddings, any element type (kernels/layout.h). */
#include <stdatomic.h>

#include "backends/native/rows_run.h"
#include "base/compiler.h"

enum { DATA, INDICES };

static wf_gather_args args_of(const wf_problem_t *problem)
{
    const wf_problem_stage_t *root = &problem->stages[0];
    const wf_type_t *data = &problem->operands[DATA].type, *indices = &problem->operands[INDICES].type;
    wf_axis_view_t view = wf_native_axis_view(data, wf_attrs_int(&root->attrs, "axis", 0));
    return (wf_gather_args){.index_bytes = (int32_t)(wf_dtype_bits(indices->dtype) / 8),
                            .outer = view.outer,
                            .entries = view.axis,
                            .index_count = wf_type_elems(indices),
                            .row_bytes = view.inner * (int64_t)(wf_dtype_bits(data->dtype) / 8)};
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    if (problem->stages[0].op != WF_OP_GATHER)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, "no epilogue");
    if (wf_dtype_bits(problem->operands[DATA].type.dtype) < 8)
        return WF_NATIVE_NO(TYPE, "elements below a byte");
    if (wf_type_elems(&problem->outputs[0]) <= 0)
        return WF_NATIVE_NO(SHAPE, "empty");
    return WF_NATIVE_FITS;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    double bytes = 2 * (double)wf_type_bytes(&problem->outputs[0]);
    wf_gather_args args = args_of(problem);
    /* Rows come from anywhere: 100 ns each when they miss every cache. */
    plan->estimate_ns = wf_native_estimate_ns(native, variant->tier, 0, 1, bytes, bytes > 65536 ? 1 : 0) +
                        10.0 * (double)(args.outer * args.index_count);
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    kernel->keeps_constants = constants[DATA].data != NULL || constants[INDICES].data != NULL;
    return WF_OK;
}

typedef struct gather_run {
    wf_gather_args args;
    wf_gather_rows_fn *fn;
    _Atomic int64_t bad_row; /* -1: none */
} gather_run_t;

static void run_rows(void *self, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    gather_run_t *run = self;
    int64_t bad = run->fn(&run->args, begin, end);
    if (bad >= 0)
        atomic_store_explicit(&run->bad_row, bad, memory_order_relaxed);
}

static const void *data_of(const wf_kernel_t *kernel, const wf_view_t *operands, size_t index)
{
    return kernel->problem->operands[index].is_const ? kernel->constants[index].data : operands[index].data;
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    (void)workspace;
    gather_run_t run = {.args = args_of(kernel->problem), .fn = kernel->tier->gather_rows, .bad_row = -1};
    run.args.src = data_of(kernel, operands, DATA);
    run.args.indices = data_of(kernel, operands, INDICES);
    run.args.dst = outputs[0].data;
    int64_t rows = run.args.outer * run.args.index_count;
    wf_native_rows_run(parallel, rows, 1 + 32768 / WF_MAX(run.args.row_bytes, (int64_t)1), run_rows, &run,
                       NULL, 0);
    int64_t bad = atomic_load(&run.bad_row);
    if (bad < 0)
        return WF_OK;
    int64_t at = bad % run.args.index_count;
    int64_t index = run.args.index_bytes == 4 ? ((const int32_t *)run.args.indices)[at]
                                              : ((const int64_t *)run.args.indices)[at];
    return WF_ERROR(RUNTIME_DATA, "gather index %lld at position %lld is outside [-%lld, %lld)",
                    (long long)index, (long long)at, (long long)run.args.entries,
                    (long long)run.args.entries);
}

const wf_native_family_t wf_native_family_gather = {
    .name = "gather",
    .revision = 1,
    .has_tier = true,
    .match = match,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
