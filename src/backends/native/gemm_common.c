/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/gemm_common.h"

#include <string.h>

#include "base/compiler.h"

#define BLOCK_MAX (1 << 24)
/* Fewer multiply-adds than this run on the calling thread: 64 K take about 3 us on one AVX2 core. */
#define PARALLEL_MIN_MACS 65536.0

void wf_native_gemm_caches(const wf_native_t *native, wf_gemm_caches *out_caches)
{
    out_caches->l1_bytes = (int64_t)native->cpu.l1d_bytes;
    out_caches->l2_bytes = (int64_t)native->cpu.l2_bytes;
    out_caches->l3_bytes = (int64_t)(native->cpu.l3_bytes / WF_MAX(native->cpu.thread_count, 1u));
}

void wf_native_gemm_params(const wf_gemm_plan *plan, int32_t *out_params)
{
    const int32_t params[] = {plan->m_block, plan->n_block, plan->k_block,  plan->panel_vectors, plan->m_band,
                              plan->pack_a,  plan->pack_b,  plan->merge_kw, plan->prefetch};
    memcpy(out_params, params, sizeof params);
}

static bool is_block(int32_t value)
{
    return value > 0 && value <= BLOCK_MAX;
}

bool wf_native_gemm_plan_from(const int32_t *params, const wf_gemm_shape *shape, wf_gemm_plan *out_plan)
{
    if (!is_block(params[0]) || !is_block(params[1]) || !is_block(params[2]))
        return false;
    if (params[3] < 1 || params[3] > 3 || params[8] > 2)
        return false;
    if (params[4] > INT16_MAX)
        return false;
    for (int i = 5; i < 8; i++) {
        if (params[i] > 1)
            return false;
    }
    bool can_merge = shape->a_kind == WF_GEMM_A_CONV && shape->conv.dilation_w == 1 &&
                     shape->conv.pixel_stride == shape->conv.channels;
    if (params[7] != 0 && !can_merge)
        return false;
    *out_plan = (wf_gemm_plan){.m_block = params[0],
                               .n_block = params[1],
                               .k_block = params[2],
                               .panel_vectors = (int16_t)params[3],
                               .m_band = (int16_t)params[4],
                               .pack_a = (int16_t)params[5],
                               .pack_b = (int16_t)params[6],
                               .merge_kw = (int16_t)params[7],
                               .prefetch = (int16_t)params[8]};
    return true;
}

size_t wf_native_gemm_variants(const wf_native_t *native, const wf_gemm_shape *shape,
                               wf_native_variant_t *out_variants, size_t capacity)
{
    wf_gemm_caches caches;
    wf_gemm_plan plans[WF_GEMM_PLANS_MAX];
    wf_native_gemm_caches(native, &caches);
    const wf_gemm_kernels *gemm = wf_native_tiers[native->kernel_tier].gemm;
    size_t count = gemm->plan_list(shape, &caches, (int)native->cpu.thread_count, plans, WF_GEMM_PLANS_MAX);
    count = WF_MIN(WF_MIN(count, capacity), (size_t)WF_GEMM_PLANS_MAX);
    for (size_t i = 0; i < count; i++)
        wf_native_gemm_params(&plans[i], out_variants[i].params);
    return count;
}

void wf_native_gemm_needs(const wf_native_t *native, uint32_t tier, const wf_gemm_shape *shape,
                          const wf_gemm_plan *gemm_plan, double flops, double bytes, wf_native_plan_t *plan)
{
    const wf_gemm_kernels *gemm = wf_native_tiers[tier].gemm;
    plan->needs.workspace_bytes =
        gemm->workspace_bytes(shape, gemm_plan) * WF_MAX(native->cpu.thread_count, 1u);
    if (shape->b_kind == WF_GEMM_B_PACKED)
        plan->needs.packed_bytes = gemm->packed_elems(shape, gemm_plan) * sizeof(float);
    /* Short depths spend their time in the store: 0.85 of peak at K = 256 and above, about half at K = 32. */
    double depth = (double)shape->k *
                   (shape->a_kind == WF_GEMM_A_CONV ? shape->conv.kernel_h * shape->conv.kernel_w : 1);
    double efficiency = 0.88 * depth / (depth + 24);
    plan->estimate_ns =
        wf_native_estimate_ns(native, tier, flops, efficiency, bytes, flops / 2 > PARALLEL_MIN_MACS ? 1 : 0);
}

wf_status_t wf_native_keep_floats(wf_kernel_t *kernel, const float *from, int64_t count, const float **out)
{
    float *copy = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)count, sizeof *copy, &copy));
    if (count > 0)
        memcpy(copy, from, (size_t)count * sizeof *copy);
    *out = copy;
    return WF_OK;
}

wf_status_t wf_native_gemm_pack(wf_kernel_t *kernel, wf_native_gemm_t *gemm, const float *weights,
                                int64_t weights_group_elems, const wf_gemm_b_strides *strides, float alpha)
{
    const wf_gemm_kernels *kernels = kernel->tier->gemm;
    size_t elems = kernels->packed_elems(&gemm->shape, &gemm->plan), total;
    float *packed = NULL;
    if (!wf_size_mul(elems, (size_t)gemm->groups, &total))
        return wf_status_out_of_memory();
    WF_TRY(wf_arena_alloc(&kernel->memory, total, sizeof *packed, &packed));
    for (int64_t g = 0; g < gemm->groups; g++) {
        kernels->pack_b(&gemm->shape, &gemm->plan, weights + g * weights_group_elems, strides,
                        packed + (size_t)g * elems);
    }
    for (size_t i = 0; alpha != 1 && i < total; i++)
        packed[i] *= alpha;
    gemm->b_constant = packed;
    gemm->b_group_stride = (int64_t)elems;
    return WF_OK;
}

/* ---- launch ---- */

typedef struct gemm_run {
    const wf_gemm_kernels *kernels;
    const wf_native_gemm_t *gemm;
    const wf_gemm_shape *shape;
    wf_gemm_args args;
    wf_ep_stage stages[WF_NATIVE_EP_MAX + 1];
    uint8_t *workspace;
    int64_t items_per_group;
} gemm_run_t;

/* The arguments of group `group`: columns of the epilogue's operands move with it. */
static void bind_group(const gemm_run_t *run, int64_t group, wf_gemm_args *args, wf_ep_stage *stages)
{
    const wf_native_gemm_t *gemm = run->gemm;
    *args = run->args;
    args->a += group * gemm->a_group_stride;
    args->b += group * gemm->b_group_stride;
    args->c += group * gemm->c_group_stride;
    memcpy(stages, run->stages, args->stage_count * sizeof *stages);
    for (size_t s = 0; s < args->stage_count; s++) {
        bool by_column = stages[s].operand == WF_EP_COL || stages[s].operand == WF_EP_FULL;
        if (by_column)
            stages[s].data += group * gemm->c_group_stride;
    }
    args->stages = stages;
}

static void run_item(void *arg, size_t item, uint32_t thread)
{
    const gemm_run_t *run = arg;
    void *workspace = run->workspace + (size_t)thread * run->gemm->thread_workspace_bytes;
    if (run->gemm->groups == 1) {
        run->kernels->item(run->shape, &run->gemm->plan, &run->args, workspace, (int64_t)item);
        return;
    }
    wf_gemm_args args;
    wf_ep_stage stages[WF_NATIVE_EP_MAX + 1];
    bind_group(run, (int64_t)item / run->items_per_group, &args, stages);
    run->kernels->item(run->shape, &run->gemm->plan, &args, workspace, (int64_t)item % run->items_per_group);
}

void wf_native_gemm_run(const wf_kernel_t *kernel, const wf_native_gemm_t *gemm, const wf_gemm_shape *shape,
                        const wf_view_t *operands, float *c, void *workspace, const wf_parallel_t *parallel)
{
    gemm_run_t run = {.kernels = kernel->tier->gemm, .gemm = gemm, .shape = shape, .workspace = workspace};
    run.args.a = gemm->a_constant != NULL ? gemm->a_constant : operands[gemm->a_operand].data;
    run.args.b = gemm->b_constant != NULL ? gemm->b_constant : operands[gemm->b_operand].data;
    run.args.c = c;
    memcpy(run.args.a_batch_stride, gemm->a_batch_stride, sizeof run.args.a_batch_stride);
    memcpy(run.args.b_batch_stride, gemm->b_batch_stride, sizeof run.args.b_batch_stride);
    memcpy(run.args.c_batch_stride, gemm->c_batch_stride, sizeof run.args.c_batch_stride);
    size_t count = 0;
    if (gemm->bias != NULL)
        run.stages[count++] = (wf_ep_stage){.fn = WF_EP_ADD, .operand = WF_EP_COL, .data = gemm->bias};
    wf_native_ep_bind(&gemm->ep, operands, &run.stages[count]);
    run.args.stages = run.stages;
    run.args.stage_count = count + gemm->ep.count;
    run.items_per_group = run.kernels->item_count(shape, &gemm->plan);
    int64_t items = run.items_per_group * gemm->groups;
    double macs = (double)shape->m * (double)shape->n * (double)shape->k *
                  (double)(shape->batch[0] * shape->batch[1]) * (double)gemm->groups *
                  (shape->a_kind == WF_GEMM_A_CONV ? shape->conv.kernel_h * shape->conv.kernel_w : 1);
    if (macs < PARALLEL_MIN_MACS) {
        for (int64_t i = 0; i < items; i++)
            run_item(&run, (size_t)i, 0);
    } else {
        parallel->run(parallel->self, (size_t)items, run_item, &run);
    }
}
