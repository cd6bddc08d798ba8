/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution as an implicit matrix product, f32, channels last: any kernel, stride, dilation, padding and
 * group count of 1-D and 2-D convolutions with constant weights. A 1x1 convolution without stride is a plain
 * product.
 */
#include "backends/native/gemm_common.h"
#include "backends/native/window2d.h"

enum { X, W, BIAS }; /* operands */

/* Geometry of the problem; false when the kernels do not take it. */
static bool resolve(const wf_problem_t *problem, wf_gemm_shape *out_shape, int64_t *out_groups)
{
    wf_window2d_t w;
    if (!wf_native_window2d(problem, &problem->operands[W].type, &w))
        return false;
    int64_t groups = wf_attrs_int(&problem->stages[0].attrs, "group", 1),
            out_channels = problem->stages[0].out.dims[1];
    wf_gemm_conv conv = {.images = w.images,
                         .in_h = w.in_h,
                         .in_w = w.in_w,
                         .out_h = w.out_h,
                         .out_w = w.out_w,
                         .channels = (int32_t)(w.channels / groups),
                         .kernel_h = w.kernel_h,
                         .kernel_w = w.kernel_w,
                         .stride_h = w.stride_h,
                         .stride_w = w.stride_w,
                         .dilation_h = w.dilation_h,
                         .dilation_w = w.dilation_w,
                         .pad_top = w.pad_top,
                         .pad_left = w.pad_left,
                         .pixel_stride = w.channels};
    conv.row_stride = conv.in_w * conv.pixel_stride;
    conv.image_stride = conv.in_h * conv.row_stride;
    bool plain = w.kernel_h == 1 && w.kernel_w == 1 && w.stride_h == 1 && w.stride_w == 1 && w.pad_top == 0 &&
                 w.pad_left == 0 && w.out_h == w.in_h && w.out_w == w.in_w;
    *out_shape = (wf_gemm_shape){.a_kind = plain ? WF_GEMM_A_ROWS : WF_GEMM_A_CONV,
                                 .b_kind = WF_GEMM_B_PACKED,
                                 .m = (int64_t)w.images * w.out_h * w.out_w,
                                 .n = out_channels / groups,
                                 .k = conv.channels,
                                 .lda = w.channels,
                                 .ldc = out_channels,
                                 .conv = conv,
                                 .batch = {1, 1}};
    *out_groups = groups;
    return true;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    wf_gemm_shape shape;
    int64_t groups;
    if (problem->stages[0].op != WF_OP_CONV)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (!wf_native_all_f32(problem))
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    wf_native_verdict_t constants = wf_native_const_weights(problem, W, BIAS);
    if (!constants.fits)
        return constants;
    if (!resolve(problem, &shape, &groups))
        return WF_NATIVE_NO(SHAPE, "3-D, empty or very large convolution");
    /* One multiply-add a weight and pixel: a product would be all overhead. The depthwise family does these.
     */
    if (groups > 1 && shape.k == 1 && shape.n == 1)
        return WF_NATIVE_NO(SHAPE, "depthwise");
    return WF_NATIVE_FITS;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    wf_gemm_shape shape;
    int64_t groups;
    if (!resolve(problem, &shape, &groups))
        return 0;
    return wf_native_gemm_variants(native, &shape, out_variants, capacity);
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    wf_gemm_shape shape;
    wf_gemm_plan gemm_plan;
    wf_native_ep_t ep;
    int64_t groups;
    if (!resolve(problem, &shape, &groups) ||
        !wf_native_gemm_plan_from(variant->params, &shape, &gemm_plan)) {
        return WF_NATIVE_NO(SHAPE, "the plan does not fit the convolution");
    }
    wf_native_verdict_t verdict = wf_native_ep_plan(problem, 1, &problem->stages[0].out, WF_LAYOUT_LAST, NULL,
                                                    plan->operand_layouts, &ep);
    if (!verdict.fits)
        return verdict;
    plan->operand_layouts[X] = plan->output_layouts[0] = WF_LAYOUT_LAST;
    wf_native_gemm_needs(native, variant->tier, &shape, &gemm_plan, wf_problem_flops(problem),
                         wf_problem_bytes(problem), plan);
    plan->needs.packed_bytes *= (size_t)groups;
    /* Merged taps read the pixels of a row as one run. */
    plan->needs.reads_strided = gemm_plan.merge_kw == 0;
    plan->needs.writes_strided = true;
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    const wf_problem_t *problem = kernel->problem;
    wf_native_gemm_t *gemm = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *gemm, &gemm));
    kernel->state = gemm;
    if (!resolve(problem, &gemm->shape, &gemm->groups) ||
        !wf_native_gemm_plan_from(kernel->variant->params, &gemm->shape, &gemm->plan)) {
        return WF_ERROR(INTERNAL, "convolution refused after planning");
    }
    gemm->a_operand = X;
    gemm->a_group_stride = gemm->shape.k;
    gemm->c_group_stride = gemm->shape.n;
    gemm->thread_workspace_bytes = kernel->tier->gemm->workspace_bytes(&gemm->shape, &gemm->plan);
    const wf_gemm_conv *conv = &gemm->shape.conv;
    int64_t taps = (int64_t)conv->kernel_h * conv->kernel_w;
    wf_gemm_b_strides strides = {.n = gemm->shape.k * taps, .k = taps, .kh = conv->kernel_w, .kw = 1};
    WF_TRY(wf_native_gemm_pack(kernel, gemm, constants[W].data, gemm->shape.n * gemm->shape.k * taps,
                               &strides, 1));
    if (problem->stages[0].operand_count > BIAS && constants[BIAS].data != NULL) {
        WF_TRY(
            wf_native_keep_floats(kernel, constants[BIAS].data, gemm->shape.n * gemm->groups, &gemm->bias));
    }
    wf_layout_t *layouts = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, problem->operand_count, sizeof *layouts, &layouts));
    (void)wf_native_ep_plan(problem, 1, &problem->stages[0].out, WF_LAYOUT_LAST, constants, layouts,
                            &gemm->ep);
    return wf_native_ep_keep(kernel, &gemm->ep, constants);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    const wf_native_gemm_t *gemm = kernel->state;
    wf_gemm_shape shape = gemm->shape;
    int64_t pixel_stride = operands[X].row_stride_elems;
    if (pixel_stride != 0) {
        shape.lda = shape.conv.pixel_stride = pixel_stride;
        shape.conv.row_stride = shape.conv.in_w * pixel_stride;
        shape.conv.image_stride = shape.conv.in_h * shape.conv.row_stride;
    }
    if (outputs[0].row_stride_elems != 0)
        shape.ldc = outputs[0].row_stride_elems;
    wf_native_gemm_run(kernel, gemm, &shape, operands, outputs[0].data, workspace, parallel);
    return WF_OK;
}

const wf_native_family_t wf_native_family_conv = {
    .name = "conv.igemm",
    .revision = 1,
    .has_tier = true,
    .keys = WF_NATIVE_GEMM_KEYS,
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
