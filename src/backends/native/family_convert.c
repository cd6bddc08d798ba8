/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of layout, any element size: one strided copy (kernels/layout.h). */
#include "backends/native/native.h"
#include "base/compiler.h"

static bool layouts_of(const wf_problem_t *problem, wf_layout_t *out_from, wf_layout_t *out_to)
{
    const wf_attrs_t *attrs = &problem->stages[0].attrs;
    return wf_layout_from_name(wf_attrs_string(attrs, "from", ""), out_from) &&
           wf_layout_from_name(wf_attrs_string(attrs, "to", ""), out_to);
}

static int64_t block_of(wf_layout_t layout)
{
    return layout == WF_LAYOUT_B8 ? 8 : layout == WF_LAYOUT_B16 ? 16 : 1;
}

/* Strides of the view [N, channel blocks, channel in block, pixels...] of a tensor in a layout, with `block`
 * channels a block. Blocked layouts have that block themselves. */
static void view_strides(const wf_type_t *type, wf_layout_t layout, int64_t block, int64_t *out_strides)
{
    int64_t pixels = 1, channels = type->dims[1], own_block = block_of(layout);
    for (uint32_t d = 2; d < type->rank; d++)
        pixels *= type->dims[d];
    int64_t channel_stride = layout == WF_LAYOUT_ROW ? pixels : 1;
    int64_t pixel_stride = layout == WF_LAYOUT_ROW ? 1 : layout == WF_LAYOUT_LAST ? channels : own_block;
    int64_t padded = own_block > 1 ? (channels + own_block - 1) / own_block * own_block : channels;
    out_strides[0] = padded * pixels;
    out_strides[1] = own_block > 1 ? pixels * own_block : channel_stride * block;
    out_strides[2] = channel_stride;
    out_strides[3] = pixel_stride;
}

/* Channels are whole blocks (match has looked). */
static int make_copy(const wf_problem_t *problem, wf_copy_plan_fn *plan_copy, wf_layout_t from,
                     wf_layout_t to, wf_copy_plan *out_copy)
{
    const wf_type_t *type = &problem->operands[0].type;
    int64_t block = WF_MAX(block_of(from), block_of(to)), channels = type->dims[1], pixels = 1;
    for (uint32_t d = 2; d < type->rank; d++)
        pixels *= type->dims[d];
    int64_t dims[4] = {type->dims[0], channels / block, block, pixels}, source[4], target[4];
    view_strides(type, from, block, source);
    view_strides(type, to, block, target);
    /* Dims in the target's order, so that writes run on. */
    static const uint8_t order_row[4] = {0, 1, 2, 3}, order_last[4] = {0, 3, 1, 2},
                         order_blocked[4] = {0, 1, 3, 2};
    const uint8_t *order = to == WF_LAYOUT_ROW    ? order_row
                           : to == WF_LAYOUT_LAST ? order_last
                                                  : order_blocked;
    int64_t d[4], s[4], t[4];
    for (int i = 0; i < 4; i++) {
        d[i] = dims[order[i]];
        s[i] = source[order[i]];
        t[i] = target[order[i]];
    }
    return plan_copy((int32_t)(wf_dtype_bits(type->dtype) / 8), 4, d, s, t, out_copy);
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    wf_layout_t from, to;
    if (problem->stages[0].op != WF_OP_W_CONVERT || problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, NULL);
    const wf_type_t *type = &problem->operands[0].type;
    uint32_t bits = wf_dtype_bits(type->dtype);
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        return WF_NATIVE_NO(TYPE, "elements of another width");
    if (!layouts_of(problem, &from, &to) || !wf_layout_exists(type, from) || !wf_layout_exists(type, to)) {
        return WF_NATIVE_NO(SHAPE, "a layout that the tensor cannot have");
    }
    if (type->dims[1] % WF_MAX(block_of(from), block_of(to)) != 0 ||
        (block_of(from) > 1 && block_of(to) > 1 && from != to)) {
        return WF_NATIVE_NO(SHAPE, "channels are not whole blocks");
    }
    return WF_NATIVE_FITS;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    (void)variant;
    layouts_of(problem, &plan->operand_layouts[0], &plan->output_layouts[0]);
    double bytes = 2 * (double)wf_type_bytes(&problem->outputs[0]);
    /* A transpose of planes runs at about half of copy speed (57-91 GB/s in L2, cpu notes 3.5). */
    plan->estimate_ns =
        wf_native_estimate_ns(native, native->kernel_tier, 0, 1, 1.5 * bytes, bytes > 65536 ? 1 : 0);
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    (void)constants;
    wf_copy_plan *copy = NULL;
    wf_layout_t from, to;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *copy, &copy));
    kernel->state = copy;
    (void)layouts_of(kernel->problem, &from, &to);
    if (make_copy(kernel->problem, kernel->tier->copy_plan, from, to, copy) == 0)
        return WF_OK;
    return WF_ERROR(INTERNAL, "no copy for %s", kernel->problem->text);
}

typedef struct convert_run {
    const wf_copy_plan *copy;
    wf_copy_fn *fn;
    const void *from;
    void *to;
} convert_run_t;

static void run_item(void *arg, size_t item, uint32_t thread)
{
    (void)thread;
    const convert_run_t *run = arg;
    run->fn(run->copy, run->from, run->to, (int64_t)item);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    (void)workspace;
    const wf_copy_plan *copy = kernel->state;
    convert_run_t run = {copy, kernel->tier->copy, operands[0].data, outputs[0].data};
    parallel->run(parallel->self, (size_t)copy->items, run_item, &run);
    return WF_OK;
}

const wf_native_family_t wf_native_family_convert = {
    .name = "convert",
    .revision = 1,
    .has_tier = true,
    .match = match,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
