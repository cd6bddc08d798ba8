/* SPDX-License-Identifier: Apache-2.0 */
/* Stages after the root as oneDNN's fused operators. */
#include <math.h>
#include <string.h>

#include "backends/onednn/recipe.h"
#include "base/compiler.h"

/* A number of a fused operator: an attribute of the stage, or a constant where `name` is NULL. */
typedef struct number_row {
    const char *name;
    float value; /* or the attribute's default */
} number_row_t;

typedef struct eltwise_row {
    wf_op_t op;
    const char *approximate; /* for this value of the attribute only; NULL: any */
    int alg;
    number_row_t alpha, beta;
} eltwise_row_t;

/* Left out: hard sigmoid, reciprocal, softplus, soft sign and erf, which version 2.6 does not have or has
 * with another formula, and exp, which makes infinity of not-a-number. Relu and clip give a number for
 * not-a-number. */
static const eltwise_row_t eltwise_rows[] = {
    {WF_OP_RELU, NULL, WF_DNNL_ELTWISE_RELU, {0}, {0}},
    {WF_OP_LEAKY_RELU, NULL, WF_DNNL_ELTWISE_RELU, {"alpha", 0.01f}, {0}},
    {WF_OP_CLIP, NULL, WF_DNNL_ELTWISE_CLIP, {"min", -INFINITY}, {"max", INFINITY}},
    {WF_OP_SIGMOID, NULL, WF_DNNL_ELTWISE_SIGMOID, {0}, {0}},
    {WF_OP_SWISH, NULL, WF_DNNL_ELTWISE_SWISH, {"alpha", 1}, {0}},
    {WF_OP_HARD_SWISH, NULL, WF_DNNL_ELTWISE_HARD_SWISH, {0}, {0}},
    {WF_OP_GELU, "none", WF_DNNL_ELTWISE_GELU_ERF, {0}, {0}},
    {WF_OP_GELU, "tanh", WF_DNNL_ELTWISE_GELU_TANH, {0}, {0}},
    {WF_OP_ELU, NULL, WF_DNNL_ELTWISE_ELU, {"alpha", 1}, {0}},
    {WF_OP_TANH, NULL, WF_DNNL_ELTWISE_TANH, {0}, {0}},
    {WF_OP_MISH, NULL, WF_DNNL_ELTWISE_MISH, {0}, {0}},
    {WF_OP_ABS, NULL, WF_DNNL_ELTWISE_ABS, {0}, {0}},
    {WF_OP_SQRT, NULL, WF_DNNL_ELTWISE_SQRT, {0}, {0}},
    {WF_OP_NEG, NULL, WF_DNNL_ELTWISE_LINEAR, {NULL, -1}, {0}},
};

typedef struct binary_row {
    wf_op_t op;
    int alg;
    bool commutes;
} binary_row_t;
static const binary_row_t binary_rows[] = {
    {WF_OP_ADD, WF_DNNL_BINARY_ADD, true},  {WF_OP_MUL, WF_DNNL_BINARY_MUL, true},
    {WF_OP_MAX, WF_DNNL_BINARY_MAX, true},  {WF_OP_MIN, WF_DNNL_BINARY_MIN, true},
    {WF_OP_SUB, WF_DNNL_BINARY_SUB, false}, {WF_OP_DIV, WF_DNNL_BINARY_DIV, false},
};

static float number(const wf_attrs_t *attrs, const number_row_t *row)
{
    return row->name != NULL ? wf_attrs_float(attrs, row->name, row->value) : row->value;
}

static bool append_eltwise(wf_dnnl_recipe_t *recipe, const wf_problem_stage_t *stage)
{
    for (size_t i = 0; i < WF_COUNT_OF(eltwise_rows); i++) {
        const eltwise_row_t *row = &eltwise_rows[i];
        if (row->op != stage->op)
            continue;
        if (row->approximate != NULL &&
            strcmp(row->approximate, wf_attrs_string(&stage->attrs, "approximate", "none")) != 0)
            continue;
        return recipe->library->dnnl_post_ops_append_eltwise(
                   recipe->post_ops, 1, row->alg, number(&stage->attrs, &row->alpha),
                   number(&stage->attrs, &row->beta)) == WF_DNNL_SUCCESS;
    }
    return false;
}

/* Leading ones up to the rank of the result; its own layout where its rank is that of the result. A result
 * that was folded (rank and dims other than the stage's) takes operands of full size and of one row only. */
static bool describe_operand(wf_dnnl_recipe_t *recipe, uint32_t index, const wf_type_t *out, uint32_t rank,
                             const int64_t *dims, wf_dnnl_desc_t *out_desc)
{
    const wf_problem_operand_t *operand = &recipe->problem->operands[index];
    const wf_type_t *type = &operand->type;
    int64_t elems = wf_type_elems(type), padded[WF_DNNL_RANK_MAX];
    if (type->rank > out->rank)
        return false;
    bool folded = out->rank != rank || memcmp(out->dims, dims, rank * sizeof *dims) != 0;
    if (folded) {
        bool column = type->rank > 0 && elems == dims[1] && type->dims[type->rank - 1] == elems && rank >= 2;
        bool full = elems == wf_type_elems(out);
        if (!column && !full && elems != 1)
            return false;
        for (uint32_t d = 0; d < rank; d++)
            padded[d] = full && !(elems == 1) ? dims[d] : 1;
        if (column && !full)
            padded[1] = elems;
        return wf_dnnl_describe_dense(recipe, rank, padded, full ? recipe->result_layout : WF_LAYOUT_ROW,
                                      out_desc);
    }
    for (uint32_t d = 0; d < rank; d++)
        padded[d] = d + type->rank < rank ? 1 : type->dims[d + type->rank - rank];
    wf_layout_t layout = WF_LAYOUT_ROW;
    if (!operand->is_const && type->rank == rank && wf_layout_exists(type, recipe->form->out))
        layout = recipe->operand_layouts[index] = recipe->form->out;
    bool blocked = layout == WF_LAYOUT_B8 || layout == WF_LAYOUT_B16;
    if (blocked && (padded[1] != dims[1] || elems != wf_type_elems(out))) {
        int64_t block = layout == WF_LAYOUT_B8 ? 8 : 16;
        if (padded[1] % block != 0)
            return false; /* the bytes of a padded block are not those of a plain tensor */
    }
    return wf_dnnl_describe_dense(recipe, rank, padded, layout, out_desc);
}

static bool append_binary(wf_dnnl_recipe_t *recipe, const wf_problem_stage_t *stage, int position,
                          uint32_t index, uint32_t rank, const int64_t *dims)
{
    bool swapped = stage->chain_mask == 2;
    for (size_t i = 0; i < WF_COUNT_OF(binary_rows); i++) {
        const binary_row_t *row = &binary_rows[i];
        if (row->op != stage->op || (swapped && !row->commutes))
            continue;
        wf_dnnl_slot_t *slot = wf_dnnl_slot_add(
            recipe, (WF_DNNL_ARG_POST_OP * (position + 1)) | WF_DNNL_ARG_SRC_1, (int32_t)index);
        return slot != NULL && describe_operand(recipe, index, &stage->out, rank, dims, &slot->desc) &&
               recipe->library->dnnl_post_ops_append_binary(recipe->post_ops, row->alg, &slot->desc) ==
                   WF_DNNL_SUCCESS;
    }
    return false;
}

bool wf_dnnl_epilogue(wf_dnnl_recipe_t *recipe, uint32_t rank, const int64_t *dims)
{
    const wf_problem_t *problem = recipe->problem;
    int position = 0;
    for (size_t s = 1; s < problem->stage_count; s++) {
        const wf_problem_stage_t *stage = &problem->stages[s];
        if (!wf_type_equal(&stage->out, &problem->stages[0].out))
            return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "a stage of the epilogue changes the shape");
        if (stage->op == WF_OP_IDENTITY)
            continue;
        if ((stage->chain_mask & (stage->chain_mask - 1)) != 0)
            return wf_dnnl_refuse(recipe, WF_DECLINE_OPERATOR, "a stage uses the running value twice");
        uint32_t index, present = wf_problem_stage_present(problem, stage, &index);
        bool done = present == 0   ? append_eltwise(recipe, stage)
                    : present == 1 ? append_binary(recipe, stage, position, index, rank, dims)
                                   : false;
        if (!done)
            return wf_dnnl_refuse(recipe, WF_DECLINE_OPERATOR, "a stage has no fused operator");
        position++;
    }
    return true;
}
