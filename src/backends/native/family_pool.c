/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum and mean pools, f32, channels last; global pools of channels-last images (kernels/pool.h). */
#include "backends/native/native.h"
#include "backends/native/window2d.h"
#include "base/compiler.h"

static bool is_global(wf_op_t op)
{
    return op == WF_OP_GLOBAL_AVERAGE_POOL || op == WF_OP_GLOBAL_MAX_POOL;
}

static bool resolve(const wf_problem_t *problem, wf_pool_args *a)
{
    const wf_problem_stage_t *root = &problem->stages[0];
    const wf_type_t *x = &problem->operands[0].type;
    wf_window2d_t w;
    *a = (wf_pool_args){0};
    if (is_global(root->op)) {
        int64_t pixels = 1;
        for (uint32_t d = 2; d < x->rank; d++)
            pixels *= x->dims[d];
        if (x->rank < 3 || wf_type_elems(x) <= 0 || pixels > INT32_MAX / 4 || x->dims[0] > INT32_MAX / 4 ||
            x->dims[1] > INT32_MAX / 4) {
            return false;
        }
        w = (wf_window2d_t){.images = (int32_t)x->dims[0],
                            .channels = (int32_t)x->dims[1],
                            .in_h = 1,
                            .in_w = (int32_t)pixels,
                            .out_h = 1,
                            .out_w = 1,
                            .kernel_h = 1,
                            .kernel_w = (int32_t)pixels,
                            .stride_h = 1,
                            .stride_w = 1,
                            .dilation_h = 1,
                            .dilation_w = 1};
        a->kind = root->op == WF_OP_GLOBAL_MAX_POOL ? WF_POOL_MAX : WF_POOL_MEAN;
    } else {
        if (!wf_native_window2d(problem, NULL, &w))
            return false;
        bool padded = wf_attrs_int(&root->attrs, "count_include_pad", 0) != 0;
        a->kind = root->op == WF_OP_MAX_POOL ? WF_POOL_MAX : padded ? WF_POOL_MEAN_PADDED : WF_POOL_MEAN;
    }
    a->images = w.images;
    a->channels = w.channels;
    a->in_h = w.in_h, a->in_w = w.in_w, a->out_h = w.out_h, a->out_w = w.out_w;
    a->kernel_h = w.kernel_h, a->kernel_w = w.kernel_w, a->stride_h = w.stride_h, a->stride_w = w.stride_w;
    a->dilation_h = w.dilation_h, a->dilation_w = w.dilation_w;
    a->pad_top = w.pad_top, a->pad_left = w.pad_left, a->pad_bottom = w.pad_bottom,
    a->pad_right = w.pad_right;
    return true;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    wf_op_t op = problem->stages[0].op;
    wf_pool_args args;
    if (op != WF_OP_MAX_POOL && op != WF_OP_AVERAGE_POOL && !is_global(op))
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, "no epilogue");
    if (problem->output_count != 1)
        return WF_NATIVE_NO(OPERATOR, "indices are wanted");
    if (!wf_native_all_f32(problem))
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    if (!resolve(problem, &args))
        return WF_NATIVE_NO(SHAPE, "3-D, empty or very large window");
    return WF_NATIVE_FITS;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    wf_pool_args a;
    if (!resolve(problem, &a))
        return WF_NATIVE_NO(SHAPE, "3-D, empty or very large window");
    plan->operand_layouts[0] = plan->output_layouts[0] = WF_LAYOUT_LAST;
    plan->needs.reads_strided = plan->needs.writes_strided = true;
    double reads = (double)wf_type_elems(&problem->outputs[0]) * a.kernel_h * a.kernel_w;
    plan->estimate_ns =
        wf_native_estimate_ns(native, variant->tier, reads, 0.2, wf_problem_bytes(problem), 1);
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    (void)constants;
    wf_pool_args *a = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *a, &a));
    if (!resolve(kernel->problem, a))
        return WF_ERROR(INTERNAL, "pool refused after planning");
    int64_t threads = WF_MAX(kernel->native->cpu.thread_count, 1u);
    a->band_rows = (int32_t)wf_native_units_per_item((int64_t)a->images * a->out_h, 1, (uint32_t)threads, 4);
    a->band_rows = WF_MIN(a->band_rows, a->out_h);
    int64_t bands = (int64_t)a->images * ((a->out_h + a->band_rows - 1) / a->band_rows);
    int64_t blocks = bands >= 2 * threads ? 1 : (2 * threads + bands - 1) / bands;
    a->block_channels = WF_MAX((int32_t)(a->channels / blocks / 16 * 16), 16);
    kernel->state = a;
    return WF_OK;
}

typedef struct pool_run {
    wf_pool_args args;
    wf_pool_f32_fn *fn;
} pool_run_t;

static void run_item(void *arg, size_t item, uint32_t thread)
{
    (void)thread;
    const pool_run_t *run = arg;
    run->fn(&run->args, (int64_t)item);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    (void)workspace;
    pool_run_t run = {*(const wf_pool_args *)kernel->state, kernel->tier->pool};
    wf_pool_args *a = &run.args;
    a->x = operands[0].data;
    a->y = outputs[0].data;
    a->x_pixel_stride = operands[0].row_stride_elems != 0 ? operands[0].row_stride_elems : a->channels;
    a->y_pixel_stride = outputs[0].row_stride_elems != 0 ? outputs[0].row_stride_elems : a->channels;
    a->x_row_stride = a->in_w * a->x_pixel_stride;
    a->y_row_stride = a->out_w * a->y_pixel_stride;
    a->x_image_stride = a->in_h * a->x_row_stride;
    a->y_image_stride = a->out_h * a->y_row_stride;
    parallel->run(parallel->self, (size_t)wf_pool_items(a), run_item, &run);
    return WF_OK;
}

const wf_native_family_t wf_native_family_pool = {
    .name = "pool",
    .revision = 1,
    .has_tier = true,
    .match = match,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
