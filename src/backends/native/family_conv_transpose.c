/* SPDX-License-Identifier: Apache-2.0 */
/* Transposed convolution, f32, channels last, one group: one matrix product gives what every input pixel adds
 * to every tap (rows are pixels, columns tap by output channel), then every output pixel gathers its taps,
 * adds the bias and runs the epilogue. */
#include <string.h>

#include "backends/native/gemm_common.h"
#include "base/compiler.h"

enum { X, W, BIAS }; /* operands */

typedef struct transpose_case {
    wf_gemm_shape shape; /* n = taps * out channels */
    int64_t images, in_h, in_w, out_h, out_w, out_channels, kernel_h, kernel_w;
    int64_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
} transpose_case_t;

typedef struct transpose_state {
    transpose_case_t c;
    wf_native_gemm_t gemm; /* its own epilogue is empty */
    wf_native_ep_t ep;
    const float *bias;
    size_t columns_bytes;
} transpose_state_t;

static bool resolve(const wf_problem_t *problem, transpose_case_t *c)
{
    const wf_problem_stage_t *root = &problem->stages[0];
    const wf_type_t *x = &problem->operands[X].type, *w = &problem->operands[W].type, *y = &root->out;
    wf_window_t window;
    if (x->rank != 4 || wf_attrs_int(&root->attrs, "group", 1) != 1 || wf_type_elems(y) <= 0 ||
        wf_type_elems(x) <= 0)
        return false;
    wf_status_t status = wf_window_resolve_transpose(&root->attrs, x, w, &window);
    if (status != WF_OK) {
        wf_status_free(status);
        return false;
    }
    *c = (transpose_case_t){.images = x->dims[0],
                            .in_h = x->dims[2],
                            .in_w = x->dims[3],
                            .out_h = y->dims[2],
                            .out_w = y->dims[3],
                            .out_channels = y->dims[1],
                            .kernel_h = w->dims[2],
                            .kernel_w = w->dims[3],
                            .stride_h = window.stride[0],
                            .stride_w = window.stride[1],
                            .dilation_h = window.dilation[0],
                            .dilation_w = window.dilation[1],
                            .pad_top = window.pad_begin[0],
                            .pad_left = window.pad_begin[1]};
    int64_t pixels, columns;
    if (!wf_i64_mul(c->images, c->in_h * c->in_w, &pixels) ||
        !wf_i64_mul(c->kernel_h * c->kernel_w, c->out_channels, &columns))
        return false;
    if (columns > INT32_MAX / 4 || pixels > INT32_MAX / 4)
        return false;
    c->shape = (wf_gemm_shape){.a_kind = WF_GEMM_A_ROWS,
                               .b_kind = WF_GEMM_B_PACKED,
                               .m = pixels,
                               .n = columns,
                               .k = x->dims[1],
                               .lda = x->dims[1],
                               .ldc = columns,
                               .batch = {1, 1}};
    return true;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    transpose_case_t c;
    const wf_problem_stage_t *root = &problem->stages[0];
    if (root->op != WF_OP_CONV_TRANSPOSE)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (!wf_native_all_f32(problem))
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    bool has_bias = root->operand_count > BIAS && problem->operands[BIAS].type.dtype != WF_DTYPE_NONE;
    if (!problem->operands[W].is_const || problem->operands[X].is_const ||
        (has_bias && !problem->operands[BIAS].is_const)) {
        return WF_NATIVE_NO(SHAPE, "weights or bias are computed at run time");
    }
    if (!resolve(problem, &c))
        return WF_NATIVE_NO(SHAPE, "not 2-D, groups, empty or very large");
    return WF_NATIVE_FITS;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    transpose_case_t c;
    return resolve(problem, &c) ? wf_native_gemm_variants(native, &c.shape, out_variants, capacity) : 0;
}

static size_t columns_bytes(const transpose_case_t *c)
{
    return ((size_t)c->shape.m * (size_t)c->shape.n * sizeof(float) + 63) / 64 * 64;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    transpose_case_t c;
    wf_gemm_plan gemm_plan;
    wf_native_ep_t ep;
    if (!resolve(problem, &c) || !wf_native_gemm_plan_from(variant->params, &c.shape, &gemm_plan)) {
        return WF_NATIVE_NO(SHAPE, "the plan does not fit the product");
    }
    wf_native_verdict_t verdict = wf_native_ep_plan(problem, 1, &problem->stages[0].out, WF_LAYOUT_LAST, NULL,
                                                    plan->operand_layouts, &ep);
    if (!verdict.fits)
        return verdict;
    plan->operand_layouts[X] = plan->output_layouts[0] = WF_LAYOUT_LAST;
    double flops = 2.0 * (double)c.shape.m * (double)c.shape.n * (double)c.shape.k;
    wf_native_gemm_needs(native, variant->tier, &c.shape, &gemm_plan, flops,
                         wf_problem_bytes(problem) + 2 * (double)columns_bytes(&c), plan);
    plan->needs.workspace_bytes += columns_bytes(&c);
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    const wf_problem_t *problem = kernel->problem;
    transpose_state_t *s = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *s, &s));
    kernel->state = s;
    if (!resolve(problem, &s->c) ||
        !wf_native_gemm_plan_from(kernel->variant->params, &s->c.shape, &s->gemm.plan)) {
        return WF_ERROR(INTERNAL, "transposed convolution refused after planning");
    }
    s->gemm.shape = s->c.shape;
    s->gemm.groups = 1;
    s->gemm.a_operand = X;
    s->gemm.thread_workspace_bytes = kernel->tier->gemm->workspace_bytes(&s->c.shape, &s->gemm.plan);
    s->columns_bytes = columns_bytes(&s->c);
    /* W[in][out][kh][kw] to columns [tap][out]. */
    int64_t taps = s->c.kernel_h * s->c.kernel_w, out = s->c.out_channels, in = s->c.shape.k;
    const float *w = constants[W].data;
    float *turned = NULL;
    size_t elems = (size_t)(in * out * taps);
    WF_TRY(wf_alloc(kernel->native->allocator, elems, sizeof *turned, &turned));
    for (int64_t i = 0; i < in; i++) {
        for (int64_t o = 0; o < out; o++) {
            for (int64_t t = 0; t < taps; t++)
                turned[(i * taps + t) * out + o] = w[(i * out + o) * taps + t];
        }
    }
    wf_gemm_b_strides strides = {.n = 1, .k = taps * out};
    wf_status_t status = wf_native_gemm_pack(kernel, &s->gemm, turned, 0, &strides, 1);
    wf_free(kernel->native->allocator, turned, elems, sizeof *turned);
    if (status != WF_OK)
        return status;
    if (problem->stages[0].operand_count > BIAS && constants[BIAS].data != NULL) {
        WF_TRY(wf_native_keep_floats(kernel, constants[BIAS].data, out, &s->bias));
    }
    wf_layout_t *layouts = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, problem->operand_count, sizeof *layouts, &layouts));
    (void)wf_native_ep_plan(problem, 1, &problem->stages[0].out, WF_LAYOUT_LAST, constants, layouts, &s->ep);
    return wf_native_ep_keep(kernel, &s->ep, constants);
}

typedef struct gather_run {
    const transpose_case_t *c;
    const float *columns, *bias;
    float *y;
    wf_ep_stage stages[WF_NATIVE_EP_MAX];
    size_t stage_count;
    wf_ep_run_f32_fn *ep_run;
} gather_run_t;

/* The input position that reaches output position `o` over kernel position `k`, or -1. */
static int64_t source(int64_t o, int64_t pad, int64_t k, int64_t dilation, int64_t stride, int64_t in)
{
    int64_t at = o + pad - k * dilation;
    return at >= 0 && at % stride == 0 && at / stride < in ? at / stride : -1;
}

/* One output row. */
static void gather_row(void *arg, size_t item, uint32_t thread)
{
    (void)thread;
    const gather_run_t *run = arg;
    const transpose_case_t *c = run->c;
    int64_t image = (int64_t)item / c->out_h, oy = (int64_t)item % c->out_h, out = c->out_channels;
    float *row = run->y + (int64_t)item * c->out_w * out;
    for (int64_t ox = 0; ox < c->out_w; ox++) {
        float *y = row + ox * out;
        if (run->bias != NULL)
            memcpy(y, run->bias, (size_t)out * sizeof *y);
        else
            memset(y, 0, (size_t)out * sizeof *y);
        for (int64_t ky = 0; ky < c->kernel_h; ky++) {
            int64_t iy = source(oy, c->pad_top, ky, c->dilation_h, c->stride_h, c->in_h);
            for (int64_t kx = 0; iy >= 0 && kx < c->kernel_w; kx++) {
                int64_t ix = source(ox, c->pad_left, kx, c->dilation_w, c->stride_w, c->in_w);
                if (ix < 0)
                    continue;
                const float *from = run->columns + ((image * c->in_h + iy) * c->in_w + ix) * c->shape.n +
                                    (ky * c->kernel_w + kx) * out;
                for (int64_t o = 0; o < out; o++)
                    y[o] += from[o];
            }
        }
    }
    if (run->stage_count > 0)
        run->ep_run(run->stages, run->stage_count, row, out, (int64_t)item * c->out_w, c->out_w, 0, out);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    const transpose_state_t *s = kernel->state;
    float *columns = workspace;
    wf_native_gemm_run(kernel, &s->gemm, &s->gemm.shape, operands, columns,
                       (uint8_t *)workspace + s->columns_bytes, parallel);
    gather_run_t run = {.c = &s->c,
                        .columns = columns,
                        .bias = s->bias,
                        .y = outputs[0].data,
                        .stage_count = s->ep.count,
                        .ep_run = kernel->tier->ep_run};
    wf_native_ep_bind(&s->ep, operands, run.stages);
    parallel->run(parallel->self, (size_t)(s->c.images * s->c.out_h), gather_row, &run);
    return WF_OK;
}

const wf_native_family_t wf_native_family_conv_transpose = {
    .name = "conv_transpose.columns",
    .revision = 1,
    .has_tier = true,
    .keys = WF_NATIVE_GEMM_KEYS,
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
