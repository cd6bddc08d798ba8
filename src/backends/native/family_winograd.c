/* SPDX-License-Identifier: Apache-2.0 */
/* 3x3 convolution with stride 1 by Winograd's minimal filtering, f32, channels last, constant weights that
 * are transformed once: F(2x2) and F(4x4), every plan of the kernel a variant. All arithmetic is f32; the
 * errors of the transforms are those that winograd.h states.
 */
#include <math.h>
#include <string.h>

#include "backends/native/gemm_common.h"
#include "backends/native/window2d.h"
#include "base/compiler.h"

enum { X, W, BIAS }; /* operands */

typedef struct wino_state {
    wf_winograd_shape shape;
    wf_winograd_plan plan;
    const float *packed;
    const float *bias; /* NULL: none */
    wf_native_ep_t ep;
    size_t shared_bytes, thread_bytes;
} wino_state_t;

/* Geometry of the problem; false when it is not a 3x3 convolution with stride 1. */
static bool resolve(const wf_problem_t *problem, wf_winograd_shape *out_shape)
{
    wf_window2d_t w;
    if (!wf_native_window2d(problem, &problem->operands[W].type, &w))
        return false;
    if (w.kernel_h != 3 || w.kernel_w != 3 || w.stride_h != 1 || w.stride_w != 1 || w.dilation_h != 1 ||
        w.dilation_w != 1) {
        return false;
    }
    *out_shape = (wf_winograd_shape){.images = w.images,
                                     .in_h = w.in_h,
                                     .in_w = w.in_w,
                                     .out_h = w.out_h,
                                     .out_w = w.out_w,
                                     .channels = w.channels,
                                     .filters = (int32_t)problem->stages[0].out.dims[1],
                                     .pad_top = w.pad_top,
                                     .pad_left = w.pad_left,
                                     .image_stride = (int64_t)w.in_h * w.in_w * w.channels,
                                     .row_stride = (int64_t)w.in_w * w.channels,
                                     .pixel_stride = w.channels,
                                     .ldc = problem->stages[0].out.dims[1]};
    return true;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    wf_winograd_shape shape;
    const wf_problem_stage_t *root = &problem->stages[0];
    if (root->op != WF_OP_CONV || wf_attrs_int(&root->attrs, "group", 1) != 1)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (!wf_native_all_f32(problem))
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    wf_native_verdict_t constants = wf_native_const_weights(problem, W, BIAS);
    if (!constants.fits)
        return constants;
    if (!resolve(problem, &shape))
        return WF_NATIVE_NO(SHAPE, "not 3x3 with stride 1 and dilation 1");
    return WF_NATIVE_FITS;
}

/* ---- Plans as tactic parameters ---- */

static const wf_winograd_kernels *kernels_of(const wf_native_t *native)
{
    return wf_native_tiers[native->kernel_tier].winograd;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    wf_winograd_shape shape;
    wf_gemm_caches caches;
    wf_winograd_plan plans[WF_WINOGRAD_PLANS_MAX];
    if (!resolve(problem, &shape))
        return 0;
    wf_native_gemm_caches(native, &caches);
    size_t count = kernels_of(native)->plan_list(&shape, &caches, (int)native->cpu.thread_count, plans,
                                                 WF_WINOGRAD_PLANS_MAX);
    count = WF_MIN(WF_MIN(count, capacity), (size_t)WF_WINOGRAD_PLANS_MAX);
    for (size_t i = 0; i < count; i++) {
        const wf_winograd_plan *p = &plans[i];
        const int32_t params[] = {
            p->tile,         p->tile_block,  p->phased,      p->gemm.m_block,       p->gemm.n_block,
            p->gemm.k_block, p->gemm.m_band, p->gemm.pack_a, p->gemm.panel_vectors, p->gemm.prefetch};
        memcpy(out_variants[i].params, params, sizeof params);
    }
    return count;
}

/* False for numbers that the kernels do not take. */
static bool plan_from(const int32_t *params, wf_winograd_plan *out_plan)
{
    const wf_gemm_shape product = {.a_kind = WF_GEMM_A_ROWS, .b_kind = WF_GEMM_B_PACKED};
    const int32_t gemm[] = {params[3], params[4], params[5], params[8], params[6],
                            params[7], 0,         0,         params[9]};
    if ((params[0] != 2 && params[0] != 4) || params[1] < 1 || params[2] < 0 || params[2] > 1)
        return false;
    *out_plan = (wf_winograd_plan){.tile = params[0], .tile_block = params[1], .phased = params[2]};
    return wf_native_gemm_plan_from(gemm, &product, &out_plan->gemm);
}

/* Fitted to fifteen layers from 16 to 512 channels at 7x7 to 104x104 with cold weights, one thread of an AVX2
 * core with 103 GFLOP/s (Zen 3, 2026-12-01), by hand; how far single layers lie off was not computed for
 * these values. Shared phases cost their transforms the way through L3. */
#define PRODUCT_EFFICIENCY 0.85
#define TRANSFORM_NS 0.26        /* a transformed element, in and out */
#define SHARED_TRANSFORM_NS 0.50 /* through memory that all threads share */
#define TILE_NS 300.0            /* finding a tile's pixels, borders */
/* Weights beyond this part of L3 do not survive the rest of a network; memory gives them at 0.4 of L3's rate.
 */
#define L3_PART 0.3
#define MEMORY_RATE 0.4
/* Without measurements only a clear win is taken. */
#define MARGIN 1.12

/* Products, the transformed weights once an item, and the transforms. */
static double estimate_ns(const wf_native_t *native, uint32_t tier, const wf_winograd_shape *s,
                          const wf_winograd_plan *plan)
{
    double channels = s->channels, filters = s->filters, threads = WF_MAX(native->cpu.thread_count, 1u);
    double points = (plan->tile + 2) * (plan->tile + 2);
    double tiles =
        (double)s->images * ceil((double)s->out_h / plan->tile) * ceil((double)s->out_w / plan->tile);
    double items = ceil(tiles / plan->tile_block);
    /* Threads without an item in the last round; the shared products have many small items. */
    double idle = plan->phased ? 1 : ceil(items / threads) * threads / items;
    double weight_bytes = points * channels * filters * sizeof(float);
    double first_rate = weight_bytes > L3_PART * (double)native->cpu.l3_bytes ? MEMORY_RATE : 1;
    double readings = 1 / first_rate + (plan->phased ? 0 : items - 1);
    double memory_ns = weight_bytes * readings / (native->cpu.l3_bytes_per_ns * threads);
    double element_ns = plan->phased ? SHARED_TRANSFORM_NS : TRANSFORM_NS;
    double transform_ns = (points * (channels + filters) * element_ns + TILE_NS) * tiles / threads;
    double product_ns =
        wf_native_estimate_ns(native, tier, 2 * points * tiles * channels * filters,
                              PRODUCT_EFFICIENCY * channels / (channels + 4), 0, plan->phased ? 3 : 1);
    return (product_ns + memory_ns + transform_ns) * idle * MARGIN;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    wf_winograd_shape shape;
    wf_winograd_plan wino;
    wf_native_ep_t ep;
    if (!resolve(problem, &shape) || !plan_from(variant->params, &wino))
        return WF_NATIVE_NO(SHAPE, "the plan does not fit the convolution");
    wf_native_verdict_t verdict = wf_native_ep_plan(problem, 1, &problem->stages[0].out, WF_LAYOUT_LAST, NULL,
                                                    plan->operand_layouts, &ep);
    if (!verdict.fits)
        return verdict;
    const wf_winograd_kernels *kernels = wf_native_tiers[variant->tier].winograd;
    plan->operand_layouts[X] = plan->output_layouts[0] = WF_LAYOUT_LAST;
    plan->needs.workspace_bytes = kernels->shared_bytes(&shape, &wino) +
                                  kernels->thread_bytes(&shape, &wino) * WF_MAX(native->cpu.thread_count, 1u);
    plan->needs.packed_bytes = kernels->packed_elems(&shape, &wino) * sizeof(float);
    plan->needs.reads_strided = plan->needs.writes_strided = true;
    plan->estimate_ns = estimate_ns(native, variant->tier, &shape, &wino);
    return WF_NATIVE_FITS;
}

/* ---- Kernel ---- */

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    const wf_problem_t *problem = kernel->problem;
    const wf_winograd_kernels *kernels = kernel->tier->winograd;
    wino_state_t *state = NULL;
    float *packed = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *state, &state));
    kernel->state = state;
    if (!resolve(problem, &state->shape) || !plan_from(kernel->variant->params, &state->plan))
        return WF_ERROR(INTERNAL, "Winograd convolution refused after planning");
    const wf_winograd_shape *s = &state->shape;
    state->shared_bytes = kernels->shared_bytes(s, &state->plan);
    state->thread_bytes = kernels->thread_bytes(s, &state->plan);
    WF_TRY(wf_arena_alloc(&kernel->memory, kernels->packed_elems(s, &state->plan), sizeof *packed, &packed));
    const wf_gemm_b_strides strides = {.n = (int64_t)s->channels * 9, .k = 9, .kh = 3, .kw = 1};
    kernels->pack(s, &state->plan, constants[W].data, &strides, packed);
    state->packed = packed;
    if (problem->stages[0].operand_count > BIAS && constants[BIAS].data != NULL)
        WF_TRY(wf_native_keep_floats(kernel, constants[BIAS].data, s->filters, &state->bias));
    wf_layout_t *layouts = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, problem->operand_count, sizeof *layouts, &layouts));
    (void)wf_native_ep_plan(problem, 1, &problem->stages[0].out, WF_LAYOUT_LAST, constants, layouts,
                            &state->ep);
    return wf_native_ep_keep(kernel, &state->ep, constants);
}

typedef struct wino_run {
    const wf_winograd_kernels *kernels;
    const wino_state_t *state;
    wf_winograd_shape shape; /* with the strides of this launch */
    wf_winograd_args args;
    uint8_t *shared, *threads;
    int phase;
} wino_run_t;

static void run_item(void *arg, size_t item, uint32_t thread)
{
    const wino_run_t *run = arg;
    run->kernels->item(&run->shape, &run->state->plan, &run->args, run->shared,
                       run->threads + (size_t)thread * run->state->thread_bytes, run->phase, (int64_t)item);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    const wino_state_t *state = kernel->state;
    wino_run_t run = {.kernels = kernel->tier->winograd,
                      .state = state,
                      .shape = state->shape,
                      .shared = workspace,
                      .threads = (uint8_t *)workspace + state->shared_bytes};
    wf_winograd_shape *s = &run.shape;
    if (operands[X].row_stride_elems != 0) {
        s->pixel_stride = operands[X].row_stride_elems;
        s->row_stride = s->in_w * s->pixel_stride;
        s->image_stride = s->in_h * s->row_stride;
    }
    if (outputs[0].row_stride_elems != 0)
        s->ldc = outputs[0].row_stride_elems;
    wf_ep_stage stages[WF_NATIVE_EP_MAX + 1];
    size_t count = 0;
    if (state->bias != NULL)
        stages[count++] = (wf_ep_stage){.fn = WF_EP_ADD, .operand = WF_EP_COL, .data = state->bias};
    wf_native_ep_bind(&state->ep, operands, &stages[count]);
    run.args = (wf_winograd_args){.x = operands[X].data,
                                  .packed = state->packed,
                                  .y = outputs[0].data,
                                  .stages = stages,
                                  .stage_count = count + state->ep.count};
    for (; run.phase < run.kernels->phase_count(&state->plan); run.phase++) {
        int64_t items = run.kernels->item_count(s, &state->plan, run.phase);
        parallel->run(parallel->self, (size_t)items, run_item, &run);
    }
    return WF_OK;
}

const wf_native_family_t wf_native_family_winograd = {
    .name = "conv.winograd",
    .revision = 1,
    .has_tier = true,
    .keys = {"tl", "tb", "ph", "mb", "nb", "kb", "bd", "pa", "pv", "pf", NULL},
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
