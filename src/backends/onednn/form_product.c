/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul and Gemm: as the library's matrix product, as an inner product, and as a 1x1 convolution whose
 * pixels are the rows. The latter two want constant weights, which they pack; without AVX-512 the library's
 * product packs nothing. */
#include <string.h>

#include "backends/onednn/recipe.h"
#include "base/compiler.h"

enum { A, B, C }; /* operands */

#define SIZE_MAX_ELEMS (INT32_MAX / 4)

/* Dims and strides of A [batch, M, K], B [batch, K, N] and the result, of one rank. */
typedef struct product {
    uint32_t rank;
    int64_t a[WF_DNNL_RANK_MAX], b[WF_DNNL_RANK_MAX], out[WF_DNNL_RANK_MAX];
    int64_t a_strides[WF_DNNL_RANK_MAX], b_strides[WF_DNNL_RANK_MAX];
    int64_t m, n, k; /* when rank is 2 */
    bool has_bias;
} product_t;

static void dense_strides(uint32_t rank, const int64_t *dims, int64_t *out_strides)
{
    int64_t step = 1;
    for (uint32_t d = rank; d-- > 0;) {
        out_strides[d] = step;
        step *= dims[d];
    }
}

static void set_plain(product_t *p, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b)
{
    *p = (product_t){.rank = 2, .m = m, .n = n, .k = k};
    p->a[0] = m, p->a[1] = k;
    p->b[0] = k, p->b[1] = n;
    p->out[0] = m, p->out[1] = n;
    p->a_strides[trans_a ? 1 : 0] = trans_a ? m : k;
    p->a_strides[trans_a ? 0 : 1] = 1;
    p->b_strides[trans_b ? 1 : 0] = trans_b ? k : n;
    p->b_strides[trans_b ? 0 : 1] = 1;
}

static void padded_dims(const wf_type_t *type, uint32_t rank, int64_t *out_dims)
{
    for (uint32_t d = 0; d < rank; d++)
        out_dims[d] = d + type->rank < rank ? 1 : type->dims[d + type->rank - rank];
}

static bool resolve_matmul(const wf_problem_t *problem, product_t *p)
{
    const wf_type_t *a = &problem->operands[A].type, *b = &problem->operands[B].type,
                    *out = &problem->stages[0].out;
    if (a->rank < 2 || b->rank < 2)
        return false;
    int64_t k = a->dims[a->rank - 1], n = b->dims[b->rank - 1];
    if (wf_type_elems(b) == k * n && out->rank == a->rank) { /* one B: the batch is more rows */
        set_plain(p, wf_type_elems(a) / k, n, k, false, false);
        return true;
    }
    *p = (product_t){.rank = out->rank};
    padded_dims(a, p->rank, p->a);
    padded_dims(b, p->rank, p->b);
    padded_dims(out, p->rank, p->out);
    dense_strides(p->rank, p->a, p->a_strides);
    dense_strides(p->rank, p->b, p->b_strides);
    return true;
}

static bool resolve_gemm(wf_dnnl_recipe_t *recipe, product_t *p)
{
    const wf_problem_t *problem = recipe->problem;
    const wf_problem_stage_t *root = &problem->stages[0];
    const wf_attrs_t *attrs = &root->attrs;
    const wf_type_t *a = &problem->operands[A].type, *b = &problem->operands[B].type;
    bool trans_a = wf_attrs_int(attrs, "transA", 0) != 0, trans_b = wf_attrs_int(attrs, "transB", 0) != 0;
    set_plain(p, a->dims[trans_a ? 1 : 0], b->dims[trans_b ? 0 : 1], a->dims[trans_a ? 0 : 1], trans_a,
              trans_b);
    if (wf_attrs_float(attrs, "alpha", 1) != 1)
        return wf_dnnl_refuse(recipe, WF_DECLINE_ATTRIBUTE, "alpha other than 1");
    p->has_bias = root->operand_count > C && problem->operands[C].type.dtype != WF_DTYPE_NONE;
    if (!p->has_bias)
        return true;
    const wf_problem_operand_t *c = &problem->operands[C];
    bool column = c->is_const && c->type.rank > 0 && c->type.dims[c->type.rank - 1] == p->n &&
                  wf_type_elems(&c->type) == p->n;
    if (wf_attrs_float(attrs, "beta", 1) != 1 || !column)
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "the added matrix is not one constant per column");
    return true;
}

static bool resolve(wf_dnnl_recipe_t *recipe, product_t *p)
{
    const wf_problem_t *problem = recipe->problem;
    wf_op_t op = problem->stages[0].op;
    if (op != WF_OP_MATMUL && op != WF_OP_GEMM)
        return false;
    recipe->describes = true;
    if (op == WF_OP_GEMM)
        return resolve_gemm(recipe, p);
    return resolve_matmul(problem, p) ||
           wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "a vector takes part in the product");
}

static wf_dnnl_slot_t *add(wf_dnnl_recipe_t *recipe, int id, int32_t operand, uint32_t rank,
                           const int64_t *dims, const int64_t *strides)
{
    wf_dnnl_slot_t *slot = wf_dnnl_slot_add(recipe, id, operand);
    if (slot == NULL)
        return NULL;
    bool ok = strides != NULL ? wf_dnnl_describe_strides(recipe, rank, dims, strides, &slot->desc)
                              : wf_dnnl_describe_dense(recipe, rank, dims, WF_LAYOUT_ROW, &slot->desc);
    return ok ? slot : NULL;
}

bool wf_dnnl_describe_matmul(wf_dnnl_recipe_t *recipe)
{
    product_t p;
    if (!resolve(recipe, &p))
        return false;
    int64_t bias_dims[WF_DNNL_RANK_MAX] = {1, p.n};
    wf_dnnl_slot_t *src = add(recipe, WF_DNNL_ARG_SRC, A, p.rank, p.a, p.a_strides);
    wf_dnnl_slot_t *weights = add(recipe, WF_DNNL_ARG_WEIGHTS, B, p.rank, p.b, p.b_strides);
    wf_dnnl_slot_t *dst = add(recipe, WF_DNNL_ARG_DST, WF_DNNL_OPERAND_OUTPUT, p.rank, p.out, NULL);
    wf_dnnl_slot_t *bias = p.has_bias ? add(recipe, WF_DNNL_ARG_BIAS, C, 2, bias_dims, NULL) : NULL;
    if (src == NULL || weights == NULL || dst == NULL || (p.has_bias && bias == NULL))
        return false;
    wf_dnnl_desc_t any;
    weights->packed = recipe->problem->operands[B].is_const;
    if (weights->packed && !wf_dnnl_describe_any(recipe, p.rank, p.b, &any))
        return false;
    return recipe->library->dnnl_matmul_desc_init(
               &recipe->op_desc, &src->desc, weights->packed ? &any : &weights->desc,
               bias != NULL ? &bias->desc : NULL, &dst->desc) == WF_DNNL_SUCCESS &&
           wf_dnnl_epilogue(recipe, p.rank, p.out);
}

/* One product with constant weights. */
static bool resolve_constant(wf_dnnl_recipe_t *recipe, product_t *p)
{
    if (!resolve(recipe, p))
        return false;
    if (p->rank != 2 || !recipe->problem->operands[B].is_const || recipe->problem->operands[A].is_const)
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "no constant weights");
    if (p->a_strides[1] != 1)
        return wf_dnnl_refuse(recipe, WF_DECLINE_ATTRIBUTE, "the first matrix is transposed");
    if (p->m > SIZE_MAX_ELEMS || p->n > SIZE_MAX_ELEMS || p->k > SIZE_MAX_ELEMS)
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "a very large matrix");
    return true;
}

bool wf_dnnl_describe_inner(wf_dnnl_recipe_t *recipe)
{
    product_t p;
    if (!resolve_constant(recipe, &p))
        return false;
    const int64_t dims[] = {p.n, p.k}, strides[] = {p.b_strides[1], p.b_strides[0]};
    wf_dnnl_slot_t *src = add(recipe, WF_DNNL_ARG_SRC, A, 2, p.a, p.a_strides);
    wf_dnnl_slot_t *weights = add(recipe, WF_DNNL_ARG_WEIGHTS, B, 2, dims, strides);
    wf_dnnl_slot_t *dst = add(recipe, WF_DNNL_ARG_DST, WF_DNNL_OPERAND_OUTPUT, 2, p.out, NULL);
    wf_dnnl_slot_t *bias = p.has_bias ? add(recipe, WF_DNNL_ARG_BIAS, C, 1, &p.n, NULL) : NULL;
    wf_dnnl_desc_t any;
    if (src == NULL || weights == NULL || dst == NULL || (p.has_bias && bias == NULL) ||
        !wf_dnnl_describe_any(recipe, 2, dims, &any))
        return false;
    weights->packed = true;
    return recipe->library->dnnl_inner_product_forward_desc_init(
               &recipe->op_desc, WF_DNNL_FORWARD_INFERENCE, &src->desc, &any,
               bias != NULL ? &bias->desc : NULL, &dst->desc) == WF_DNNL_SUCCESS &&
           wf_dnnl_epilogue(recipe, 2, p.out);
}

bool wf_dnnl_describe_pixels(wf_dnnl_recipe_t *recipe)
{
    product_t p;
    if (!resolve_constant(recipe, &p))
        return false;
    const int64_t a_dims[] = {1, p.k, p.m, 1}, out_dims[] = {1, p.n, p.m, 1}, b_dims[] = {p.n, p.k, 1, 1};
    const int64_t a_strides[] = {p.m * p.k, 1, p.k, p.k}, out_strides[] = {p.m * p.n, 1, p.n, p.n};
    const int64_t b_strides[] = {p.b_strides[1], p.b_strides[0], 1, 1};
    static const int64_t ones[] = {1, 1}, zeros[] = {0, 0};
    wf_dnnl_slot_t *src = add(recipe, WF_DNNL_ARG_SRC, A, 4, a_dims, a_strides);
    wf_dnnl_slot_t *weights = add(recipe, WF_DNNL_ARG_WEIGHTS, B, 4, b_dims, b_strides);
    wf_dnnl_slot_t *dst = add(recipe, WF_DNNL_ARG_DST, WF_DNNL_OPERAND_OUTPUT, 4, out_dims, out_strides);
    wf_dnnl_slot_t *bias = p.has_bias ? add(recipe, WF_DNNL_ARG_BIAS, C, 1, &p.n, NULL) : NULL;
    wf_dnnl_desc_t any;
    if (src == NULL || weights == NULL || dst == NULL || (p.has_bias && bias == NULL) ||
        !wf_dnnl_describe_any(recipe, 4, b_dims, &any))
        return false;
    weights->packed = true;
    recipe->result_layout = WF_LAYOUT_LAST;
    return recipe->library->dnnl_dilated_convolution_forward_desc_init(
               &recipe->op_desc, WF_DNNL_FORWARD_INFERENCE, WF_DNNL_CONV_DIRECT, &src->desc, &any,
               bias != NULL ? &bias->desc : NULL, &dst->desc, ones, zeros, zeros, zeros) == WF_DNNL_SUCCESS &&
           wf_dnnl_epilogue(recipe, 4, out_dims);
}
