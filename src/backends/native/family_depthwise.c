/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution, f32, channels last (kernels/depthwise.h). */
#include "backends/native/native.h"
#include "backends/native/window2d.h"
#include "base/compiler.h"

enum { X, W, BIAS };                                  /* operands */
enum { VARIANT, TILE_W, BAND_ROWS, BLOCK, PREFETCH }; /* params */

typedef struct dw_state {
    wf_dw_args args;
    wf_native_ep_t ep;
    size_t thread_scratch_bytes;
} dw_state_t;

static bool resolve(const wf_problem_t *problem, wf_dw_shape *out_shape)
{
    wf_window2d_t w;
    if (!wf_native_window2d(problem, &problem->operands[W].type, &w))
        return false;
    int64_t groups = wf_attrs_int(&problem->stages[0].attrs, "group", 1),
            out_channels = problem->stages[0].out.dims[1];
    if (groups != w.channels || out_channels % w.channels != 0 || groups == 1)
        return false;
    *out_shape = (wf_dw_shape){.images = w.images,
                               .in_h = w.in_h,
                               .in_w = w.in_w,
                               .out_h = w.out_h,
                               .out_w = w.out_w,
                               .channels = w.channels,
                               .multiplier = (int32_t)(out_channels / w.channels),
                               .kernel_h = w.kernel_h,
                               .kernel_w = w.kernel_w,
                               .stride_h = w.stride_h,
                               .stride_w = w.stride_w,
                               .dilation_h = w.dilation_h,
                               .dilation_w = w.dilation_w,
                               .pad_top = w.pad_top,
                               .pad_left = w.pad_left};
    return true;
}

static bool plan_from(const int32_t *params, const wf_dw_shape *shape, wf_dw_plan *out_plan)
{
    *out_plan = (wf_dw_plan){.variant = (wf_dw_variant)params[VARIANT],
                             .tile_w = params[TILE_W],
                             .band_rows = params[BAND_ROWS],
                             .block_channels = params[BLOCK],
                             .prefetch = params[PREFETCH]};
    return params[VARIANT] < WF_DW_VARIANT_COUNT && (params[TILE_W] == 7 || params[TILE_W] == 4) &&
           params[BAND_ROWS] >= 1 && params[BAND_ROWS] <= WF_MAX(shape->out_h, 1) && params[BLOCK] >= 16 &&
           params[BLOCK] % 16 == 0 && params[PREFETCH] <= 1;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    wf_dw_shape shape;
    const wf_problem_stage_t *root = &problem->stages[0];
    if (root->op != WF_OP_CONV || wf_attrs_int(&root->attrs, "group", 1) == 1)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (!wf_native_all_f32(problem))
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    wf_native_verdict_t constants = wf_native_const_weights(problem, W, BIAS);
    if (!constants.fits)
        return constants;
    if (!resolve(problem, &shape))
        return WF_NATIVE_NO(SHAPE, "not depthwise, 3-D, empty or very large");
    return WF_NATIVE_FITS;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    wf_dw_shape shape;
    size_t count = 0;
    if (!resolve(problem, &shape))
        return 0;
    int32_t channels = shape.channels * shape.multiplier;
    /* Enough items for every thread: bands of rows on large images, blocks of channels on small ones. */
    int64_t threads = WF_MAX(native->cpu.thread_count, 1u);
    int32_t band = (int32_t)WF_MAX((int64_t)shape.images * shape.out_h / (4 * threads), (int64_t)1);
    int32_t bands[3] = {WF_MIN(WF_MAX(band, 1), shape.out_h), WF_MIN(WF_MAX(band / 2, 1), shape.out_h),
                        shape.out_h};
    int32_t blocks[2] = {WF_MAX(channels / 16 * 16, 16),
                         WF_MAX((int32_t)(channels / (2 * threads) / 16 * 16), 16)};
    for (int32_t v = 0; v < WF_DW_VARIANT_COUNT; v++) {
        for (size_t b = 0; b < WF_COUNT_OF(bands); b++) {
            if ((b == 1 && bands[1] == bands[0]) || (b == 2 && bands[2] == bands[0]))
                continue;
            for (size_t c = 0; c < WF_COUNT_OF(blocks); c++) {
                if (c == 1 && blocks[1] == blocks[0])
                    continue;
                for (int32_t tile = 7; tile >= 4; tile -= 3) {
                    if (count == capacity)
                        return count;
                    const int32_t params[] = {v, tile, bands[b], blocks[c], 0};
                    for (size_t p = 0; p < WF_COUNT_OF(params); p++)
                        out_variants[count].params[p] = params[p];
                    count++;
                }
            }
        }
    }
    return count;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    wf_dw_args args = {0};
    wf_native_ep_t ep;
    if (!resolve(problem, &args.shape) || !plan_from(variant->params, &args.shape, &args.plan)) {
        return WF_NATIVE_NO(SHAPE, "the plan does not fit the convolution");
    }
    wf_native_verdict_t verdict = wf_native_ep_plan(problem, 1, &problem->stages[0].out, WF_LAYOUT_LAST, NULL,
                                                    plan->operand_layouts, &ep);
    if (!verdict.fits)
        return verdict;
    plan->operand_layouts[X] = plan->output_layouts[0] = WF_LAYOUT_LAST;
    int64_t scratch = wf_dw_scratch_bytes(&args);
    plan->needs.workspace_bytes = (size_t)(scratch + 63) / 64 * 64 * WF_MAX(native->cpu.thread_count, 1u);
    plan->needs.packed_bytes = (size_t)wf_dw_packed_elems(&args.shape) * sizeof(float);
    plan->needs.reads_strided = plan->needs.writes_strided = true;
    /* 0.3 of peak on 3x3 and more on larger windows (oneDNN and own kernels alike, cpu notes 3.3); blocks of
     * channels keep their window in L1 where a row of the image does not fit. */
    double taps = (double)args.shape.kernel_h * args.shape.kernel_w;
    double efficiency = 0.55 * taps / (taps + 8);
    bool wide = (double)args.shape.channels * args.shape.in_w * args.shape.kernel_h * 4 >
                (double)native->cpu.l1d_bytes * 8;
    if (args.plan.variant == WF_DW_ROWS && wide)
        efficiency *= 0.9;
    if (args.plan.variant == WF_DW_BAND)
        efficiency *= 0.95;
    int64_t items = wf_dw_items(&args), threads = WF_MAX(native->cpu.thread_count, 1u);
    int64_t rounds = (items + threads - 1) / threads;
    efficiency *= (double)items / (double)(rounds * threads);
    plan->estimate_ns = wf_native_estimate_ns(native, variant->tier, wf_problem_flops(problem), efficiency,
                                              wf_problem_bytes(problem), 1) +
                        20.0 * (double)items + (args.plan.tile_w == 4 ? 1 : 0);
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    const wf_problem_t *problem = kernel->problem;
    dw_state_t *state = NULL;
    float *packed = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *state, &state));
    kernel->state = state;
    wf_dw_args *a = &state->args;
    if (!resolve(problem, &a->shape) || !plan_from(kernel->variant->params, &a->shape, &a->plan)) {
        return WF_ERROR(INTERNAL, "depthwise convolution refused after planning");
    }
    WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)wf_dw_packed_elems(&a->shape), sizeof *packed, &packed));
    const float *bias = problem->stages[0].operand_count > BIAS ? constants[BIAS].data : NULL;
    wf_dw_pack(&a->shape, constants[W].data, bias, packed);
    a->packed = packed;
    state->thread_scratch_bytes = (size_t)(wf_dw_scratch_bytes(a) + 63) / 64 * 64;
    wf_layout_t *layouts = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, problem->operand_count, sizeof *layouts, &layouts));
    (void)wf_native_ep_plan(problem, 1, &problem->stages[0].out, WF_LAYOUT_LAST, constants, layouts,
                            &state->ep);
    return wf_native_ep_keep(kernel, &state->ep, constants);
}

typedef struct dw_run {
    wf_dw_args args;
    wf_dw_f32_fn *fn;
    uint8_t *scratch;
    size_t thread_scratch_bytes;
} dw_run_t;

static void run_item(void *arg, size_t item, uint32_t thread)
{
    const dw_run_t *run = arg;
    run->fn(&run->args, (int64_t)item, run->scratch + thread * run->thread_scratch_bytes);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    const dw_state_t *state = kernel->state;
    dw_run_t run = {.args = state->args,
                    .fn = kernel->tier->depthwise,
                    .scratch = workspace,
                    .thread_scratch_bytes = state->thread_scratch_bytes};
    wf_dw_args *a = &run.args;
    wf_ep_stage stages[WF_NATIVE_EP_MAX];
    wf_native_ep_bind(&state->ep, operands, stages);
    a->stages = stages;
    a->stage_count = state->ep.count;
    a->x = operands[X].data;
    a->y = outputs[0].data;
    int64_t out_channels = (int64_t)a->shape.channels * a->shape.multiplier;
    a->x_pixel_stride = operands[X].row_stride_elems != 0 ? operands[X].row_stride_elems : a->shape.channels;
    a->y_pixel_stride = outputs[0].row_stride_elems != 0 ? outputs[0].row_stride_elems : out_channels;
    a->x_row_stride = a->shape.in_w * a->x_pixel_stride;
    a->y_row_stride = a->shape.out_w * a->y_pixel_stride;
    a->x_image_stride = a->shape.in_h * a->x_row_stride;
    a->y_image_stride = a->shape.out_h * a->y_row_stride;
    parallel->run(parallel->self, (size_t)wf_dw_items(a), run_item, &run);
    return WF_OK;
}

const wf_native_family_t wf_native_family_depthwise = {
    .name = "conv.dw",
    .revision = 1,
    .has_tier = true,
    .keys = {"v", "tw", "br", "bc", "pf", NULL},
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
