/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul and Gemm, f32, row-major: constant weights are packed once; two run-time operands are packed on the
 * fly. */
#include "backends/native/gemm_common.h"
#include "base/compiler.h"

enum { A, B, C }; /* operands */

typedef struct product {
    wf_gemm_shape shape;
    int64_t a_batch_stride[2], b_batch_stride[2], c_batch_stride[2];
    wf_gemm_b_strides weights; /* strides of B in memory */
    float alpha, beta;
    bool has_c;
} product_t;

/* Folds the leading dims of A and B into at most two batch dims with constant strides. */
static bool fold_batch(const wf_type_t *a, const wf_type_t *b, const wf_type_t *out, product_t *p)
{
    int64_t dims[WF_MAX_RANK], a_strides[WF_MAX_RANK], b_strides[WF_MAX_RANK];
    uint32_t count = 0, batch_rank = out->rank >= 2 ? out->rank - 2 : 0;
    int64_t a_step = p->shape.m * p->shape.k, b_step = p->shape.k * p->shape.n;
    for (uint32_t i = batch_rank; i-- > 0;) { /* innermost first */
        uint32_t back = batch_rank - 1 - i;
        int64_t a_dim = a->rank > back + 2 ? a->dims[a->rank - 3 - back] : 1;
        int64_t b_dim = b->rank > back + 2 ? b->dims[b->rank - 3 - back] : 1;
        int64_t a_stride = a_dim == 1 ? 0 : a_step, b_stride = b_dim == 1 ? 0 : b_step;
        a_step *= a_dim;
        b_step *= b_dim;
        if (out->dims[i] == 1)
            continue;
        bool even = count > 0 && a_stride == a_strides[count - 1] * dims[count - 1] &&
                    b_stride == b_strides[count - 1] * dims[count - 1];
        if (even) {
            dims[count - 1] *= out->dims[i];
        } else {
            dims[count] = out->dims[i];
            a_strides[count] = a_stride;
            b_strides[count++] = b_stride;
        }
    }
    /* Rows of A that run on through the batch with one B are rows of one product. */
    if (count > 0 && b_strides[0] == 0 && a_strides[0] == p->shape.m * p->shape.k) {
        p->shape.m *= dims[0];
        for (uint32_t i = 1; i < count; i++) {
            dims[i - 1] = dims[i];
            a_strides[i - 1] = a_strides[i];
            b_strides[i - 1] = b_strides[i];
        }
        count--;
    }
    if (count > 2)
        return false;
    int64_t c_stride = p->shape.m * p->shape.n;
    for (uint32_t i = 0; i < 2; i++) { /* inner batch is [1] */
        p->shape.batch[1 - i] = i < count ? dims[i] : 1;
        p->a_batch_stride[1 - i] = i < count ? a_strides[i] : 0;
        p->b_batch_stride[1 - i] = i < count ? b_strides[i] : 0;
        p->c_batch_stride[1 - i] = c_stride;
        c_stride *= p->shape.batch[1 - i];
    }
    return true;
}

static bool resolve_matmul(const wf_problem_t *problem, product_t *p)
{
    const wf_type_t *a = &problem->operands[A].type, *b = &problem->operands[B].type,
                    *out = &problem->stages[0].out;
    bool row = a->rank == 1, column = b->rank == 1;
    if (a->rank == 0 || b->rank == 0)
        return false;
    p->shape.m = row ? 1 : a->dims[a->rank - 2];
    p->shape.k = a->dims[a->rank - 1];
    p->shape.n = column ? 1 : b->dims[b->rank - 1];
    p->weights = (wf_gemm_b_strides){.n = 1, .k = p->shape.n};
    p->shape.lda = p->shape.k;
    if (!row && !column)
        return fold_batch(a, b, out, p);
    /* A vector takes part without its dim; only unbatched ones are worth a kernel. */
    p->c_batch_stride[0] = p->c_batch_stride[1] = 0;
    return a->rank <= 2 && b->rank <= 2;
}

static bool resolve_gemm(const wf_problem_t *problem, product_t *p)
{
    const wf_attrs_t *attrs = &problem->stages[0].attrs;
    const wf_type_t *a = &problem->operands[A].type, *b = &problem->operands[B].type;
    bool trans_a = wf_attrs_int(attrs, "transA", 0) != 0, trans_b = wf_attrs_int(attrs, "transB", 0) != 0;
    p->alpha = wf_attrs_float(attrs, "alpha", 1);
    p->beta = wf_attrs_float(attrs, "beta", 1);
    p->has_c = problem->stages[0].operand_count > C && problem->operands[C].type.dtype != WF_DTYPE_NONE;
    p->shape.m = a->dims[trans_a ? 1 : 0];
    p->shape.k = a->dims[trans_a ? 0 : 1];
    p->shape.n = b->dims[trans_b ? 0 : 1];
    p->shape.lda = a->dims[1];
    if (trans_a)
        p->shape.a_kind = WF_GEMM_A_COLUMNS;
    p->weights =
        trans_b ? (wf_gemm_b_strides){.n = p->shape.k, .k = 1} : (wf_gemm_b_strides){.n = 1, .k = p->shape.n};
    if (trans_b)
        p->shape.b_kind = WF_GEMM_B_COLUMNS;
    return true;
}

static bool resolve(const wf_problem_t *problem, product_t *p)
{
    *p = (product_t){.alpha = 1, .beta = 1};
    p->shape.batch[0] = p->shape.batch[1] = 1;
    p->shape.a_kind = WF_GEMM_A_ROWS;
    p->shape.b_kind = WF_GEMM_B_ROWS;
    bool ok = problem->stages[0].op == WF_OP_GEMM ? resolve_gemm(problem, p) : resolve_matmul(problem, p);
    if (!ok)
        return false;
    const wf_gemm_shape *s = &p->shape;
    if (s->m <= 0 || s->n <= 0 || s->k <= 0 || s->batch[0] <= 0 || s->batch[1] <= 0)
        return false;
    bool shared_b = p->b_batch_stride[0] == 0 && p->b_batch_stride[1] == 0;
    p->shape.ldb = p->shape.b_kind == WF_GEMM_B_COLUMNS ? p->shape.k : p->shape.n;
    p->shape.ldc = p->shape.n;
    if (problem->operands[B].is_const && shared_b)
        p->shape.b_kind = WF_GEMM_B_PACKED;
    return true;
}

static bool c_is_simple(const wf_problem_t *problem, const product_t *p)
{
    if (!p->has_c)
        return true;
    const wf_problem_operand_t *c = &problem->operands[C];
    int64_t elems = wf_type_elems(&c->type);
    bool column = elems == p->shape.n && c->type.rank > 0 && c->type.dims[c->type.rank - 1] == p->shape.n;
    return c->is_const && (column || elems == 1);
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    wf_op_t op = problem->stages[0].op;
    product_t p;
    if (op != WF_OP_MATMUL && op != WF_OP_GEMM)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (!wf_native_all_f32(problem))
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    if (!resolve(problem, &p))
        return WF_NATIVE_NO(SHAPE, "empty, or batch dims that do not fold into two");
    if (!c_is_simple(problem, &p))
        return WF_NATIVE_NO(SHAPE, "the added matrix is not one constant per column");
    if (p.alpha != 1 && p.shape.b_kind != WF_GEMM_B_PACKED)
        return WF_NATIVE_NO(ATTRIBUTE, "alpha with run-time operands");
    return WF_NATIVE_FITS;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    product_t p;
    return resolve(problem, &p) ? wf_native_gemm_variants(native, &p.shape, out_variants, capacity) : 0;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    product_t p;
    wf_gemm_plan gemm_plan;
    wf_native_ep_t ep;
    const wf_type_t *out = &problem->stages[0].out;
    if (!resolve(problem, &p) || !wf_native_gemm_plan_from(variant->params, &p.shape, &gemm_plan)) {
        return WF_NATIVE_NO(SHAPE, "the plan does not fit the product");
    }
    wf_native_verdict_t verdict =
        wf_native_ep_plan(problem, 1, out, WF_LAYOUT_ROW, NULL, plan->operand_layouts, &ep);
    if (!verdict.fits)
        return verdict;
    int64_t rows, cols;
    wf_native_rows_cols(out, WF_LAYOUT_ROW, &rows, &cols);
    if (cols != p.shape.n && ep.count > 0)
        return WF_NATIVE_NO(SHAPE, "an epilogue on a result without columns");
    wf_native_gemm_needs(native, variant->tier, &p.shape, &gemm_plan, wf_problem_flops(problem),
                         wf_problem_bytes(problem), plan);
    return WF_NATIVE_FITS;
}

static wf_status_t keep_bias(wf_kernel_t *kernel, wf_native_gemm_t *gemm, const product_t *p,
                             const wf_tensor_t *c)
{
    float *bias = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)p->shape.n, sizeof *bias, &bias));
    bool one = wf_type_elems(&c->type) == 1;
    for (int64_t i = 0; i < p->shape.n; i++)
        bias[i] = p->beta * ((const float *)c->data)[one ? 0 : i];
    gemm->bias = bias;
    return WF_OK;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    const wf_problem_t *problem = kernel->problem;
    wf_native_gemm_t *gemm = NULL;
    product_t p;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *gemm, &gemm));
    kernel->state = gemm;
    if (!resolve(problem, &p) || !wf_native_gemm_plan_from(kernel->variant->params, &p.shape, &gemm->plan)) {
        return WF_ERROR(INTERNAL, "product refused after planning");
    }
    gemm->shape = p.shape;
    gemm->groups = 1;
    gemm->a_operand = A;
    gemm->b_operand = B;
    for (int i = 0; i < 2; i++) {
        gemm->a_batch_stride[i] = p.a_batch_stride[i];
        gemm->b_batch_stride[i] = p.b_batch_stride[i];
        gemm->c_batch_stride[i] = p.c_batch_stride[i];
    }
    gemm->thread_workspace_bytes = kernel->tier->gemm->workspace_bytes(&gemm->shape, &gemm->plan);
    if (p.shape.b_kind == WF_GEMM_B_PACKED) {
        WF_TRY(wf_native_gemm_pack(kernel, gemm, constants[B].data, 0, &p.weights, p.alpha));
    } else if (problem->operands[B].is_const) {
        WF_TRY(wf_native_keep_floats(kernel, constants[B].data, wf_type_elems(&constants[B].type),
                                     &gemm->b_constant));
    }
    if (problem->operands[A].is_const) {
        WF_TRY(wf_native_keep_floats(kernel, constants[A].data, wf_type_elems(&constants[A].type),
                                     &gemm->a_constant));
    }
    if (p.has_c)
        WF_TRY(keep_bias(kernel, gemm, &p, &constants[C]));
    wf_layout_t *layouts = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, problem->operand_count, sizeof *layouts, &layouts));
    (void)wf_native_ep_plan(problem, 1, &problem->stages[0].out, WF_LAYOUT_ROW, constants, layouts,
                            &gemm->ep);
    return wf_native_ep_keep(kernel, &gemm->ep, constants);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    const wf_native_gemm_t *gemm = kernel->state;
    wf_native_gemm_run(kernel, gemm, &gemm->shape, operands, outputs[0].data, workspace, parallel);
    return WF_OK;
}

const wf_native_family_t wf_native_family_gemm = {
    .name = "gemm",
    .revision = 1,
    .has_tier = true,
    .keys = WF_NATIVE_GEMM_KEYS,
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
