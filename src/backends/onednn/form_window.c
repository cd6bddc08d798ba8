/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and pools. */
#include <string.h>

#include "backends/onednn/recipe.h"
#include "base/compiler.h"
#include "op/shape.h"

enum { X, W, BIAS }; /* operands */

#define SIZE_MAX_ELEMS (INT32_MAX / 4)

/* Geometry as the library wants it. */
typedef struct window {
    uint32_t rank;                                                          /* spatial */
    int64_t kernel[WF_MAX_RANK], stride[WF_MAX_RANK], dilates[WF_MAX_RANK]; /* dilates: dilation - 1 */
    int64_t pad_begin[WF_MAX_RANK], pad_end[WF_MAX_RANK];
    bool overhangs;   /* a window reaches beyond the padding behind */
    bool all_padding; /* a window may lie in the padding */
} window_t;

static bool resolve(const wf_problem_t *problem, const wf_type_t *kernel_from, window_t *out)
{
    const wf_problem_stage_t *root = &problem->stages[0];
    wf_window_t w;
    wf_status_t status =
        wf_window_resolve(root->op, &root->attrs, &problem->operands[X].type, kernel_from, &w);
    if (status != WF_OK) {
        wf_status_free(status);
        return false;
    }
    *out = (window_t){.rank = w.spatial_rank};
    if (w.spatial_rank < 1 || w.spatial_rank > 3 || !wf_window_within(&w, SIZE_MAX_ELEMS))
        return false;
    for (uint32_t d = 0; d < w.spatial_rank; d++) {
        int64_t extent;
        if (!wf_i64_mul(w.kernel[d] - 1, w.dilation[d], &extent) || extent > SIZE_MAX_ELEMS)
            return false;
        int64_t needed = (w.out[d] - 1) * w.stride[d] + extent + 1 - w.in[d] - w.pad_begin[d];
        out->overhangs |= needed > w.pad_end[d];
        out->kernel[d] = w.kernel[d];
        out->stride[d] = w.stride[d];
        out->dilates[d] = w.dilation[d] - 1;
        out->pad_begin[d] = w.pad_begin[d];
        out->pad_end[d] = WF_MAX(needed, w.pad_end[d]);
        if (out->pad_begin[d] > extent || w.pad_end[d] > extent)
            out->all_padding = true;
    }
    return true;
}

/* Blocks are whole: a padded block would have to be zeroed at every launch. */
static bool blocks_fit(wf_layout_t layout, int64_t channels)
{
    return (layout != WF_LAYOUT_B8 || channels % 8 == 0) && (layout != WF_LAYOUT_B16 || channels % 16 == 0);
}

static bool add_tensor(wf_dnnl_recipe_t *recipe, int id, int32_t operand, const wf_type_t *type,
                       wf_layout_t layout, wf_dnnl_slot_t **out_slot)
{
    *out_slot = wf_dnnl_slot_add(recipe, id, operand);
    return *out_slot != NULL &&
           wf_dnnl_describe_dense(recipe, type->rank, type->dims, layout, &(*out_slot)->desc);
}

static bool add_weights(wf_dnnl_recipe_t *recipe, int64_t groups, wf_dnnl_desc_t *out_any)
{
    const wf_type_t *type = &recipe->problem->operands[W].type;
    int64_t dims[WF_MAX_RANK + 1];
    uint32_t at = 0;
    if (groups > 1) {
        dims[at++] = groups;
        dims[at++] = type->dims[0] / groups;
    } else {
        dims[at++] = type->dims[0];
    }
    for (uint32_t d = 1; d < type->rank; d++)
        dims[at++] = type->dims[d];
    wf_dnnl_slot_t *slot = wf_dnnl_slot_add(recipe, WF_DNNL_ARG_WEIGHTS, W);
    if (slot == NULL)
        return false;
    slot->packed = true;
    return wf_dnnl_describe_dense(recipe, at, dims, WF_LAYOUT_ROW, &slot->desc) &&
           wf_dnnl_describe_any(recipe, at, dims, out_any);
}

bool wf_dnnl_describe_conv(wf_dnnl_recipe_t *recipe)
{
    const wf_problem_t *problem = recipe->problem;
    const wf_problem_stage_t *root = &problem->stages[0];
    const wf_dnnl_form_t *form = recipe->form;
    if (root->op != WF_OP_CONV)
        return false;
    recipe->describes = true;
    const wf_type_t *x = &problem->operands[X].type, *out = &root->out;
    bool has_bias = root->operand_count > BIAS && problem->operands[BIAS].type.dtype != WF_DTYPE_NONE;
    if (problem->operands[X].is_const || !problem->operands[W].is_const ||
        (has_bias && !problem->operands[BIAS].is_const))
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "weights or bias are computed at run time");
    window_t w;
    if (!resolve(problem, &problem->operands[W].type, &w))
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE,
                              "a very large window, or one of more than 3 dimensions");
    int64_t groups = wf_attrs_int(&root->attrs, "group", 1), in_channels = x->dims[1],
            channels = out->dims[1];
    bool depthwise = groups == in_channels && groups == channels;
    bool whole = blocks_fit(form->in, in_channels) && blocks_fit(form->out, channels) &&
                 (groups == 1 || depthwise ||
                  (blocks_fit(form->in, in_channels / groups) && blocks_fit(form->out, channels / groups)));
    if (!whole || (form->conv_alg == WF_DNNL_CONV_WINOGRAD && groups > 1))
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "channels do not fill the blocks of the layout");
    wf_dnnl_slot_t *src, *dst, *bias = NULL;
    wf_dnnl_desc_t weights;
    recipe->operand_layouts[X] = form->in;
    if (!add_tensor(recipe, WF_DNNL_ARG_SRC, X, x, form->in, &src) ||
        !add_weights(recipe, groups, &weights) ||
        !add_tensor(recipe, WF_DNNL_ARG_DST, WF_DNNL_OPERAND_OUTPUT, out, form->out, &dst))
        return false;
    if (has_bias &&
        !add_tensor(recipe, WF_DNNL_ARG_BIAS, BIAS, &problem->operands[BIAS].type, WF_LAYOUT_ROW, &bias))
        return false;
    return recipe->library->dnnl_dilated_convolution_forward_desc_init(
               &recipe->op_desc, WF_DNNL_FORWARD_INFERENCE, form->conv_alg, &src->desc, &weights,
               bias != NULL ? &bias->desc : NULL, &dst->desc, w.stride, w.dilates, w.pad_begin,
               w.pad_end) == WF_DNNL_SUCCESS &&
           wf_dnnl_epilogue(recipe, out->rank, out->dims);
}

static bool pool_alg(const wf_problem_stage_t *root, bool *out_global, int *out_alg)
{
    *out_global = root->op == WF_OP_GLOBAL_AVERAGE_POOL || root->op == WF_OP_GLOBAL_MAX_POOL;
    if (root->op == WF_OP_MAX_POOL || root->op == WF_OP_GLOBAL_MAX_POOL)
        *out_alg = WF_DNNL_POOL_MAX;
    else if (root->op == WF_OP_AVERAGE_POOL && wf_attrs_int(&root->attrs, "count_include_pad", 0) != 0)
        *out_alg = WF_DNNL_POOL_MEAN_PADDED;
    else if (root->op == WF_OP_AVERAGE_POOL || root->op == WF_OP_GLOBAL_AVERAGE_POOL)
        *out_alg = WF_DNNL_POOL_MEAN;
    else
        return false;
    return true;
}

bool wf_dnnl_describe_pool(wf_dnnl_recipe_t *recipe)
{
    const wf_problem_t *problem = recipe->problem;
    const wf_problem_stage_t *root = &problem->stages[0];
    const wf_dnnl_form_t *form = recipe->form;
    const wf_type_t *x = &problem->operands[X].type, *out = &root->out;
    bool global;
    int alg;
    window_t w = {0};
    if (!pool_alg(root, &global, &alg))
        return false;
    recipe->describes = true;
    if (global) {
        w.rank = x->rank >= 3 ? x->rank - 2 : 0;
        for (uint32_t d = 0; d < w.rank; d++) {
            w.kernel[d] = x->dims[2 + d];
            w.stride[d] = 1;
        }
    }
    if (global ? w.rank < 1 || w.rank > 3 : !resolve(problem, NULL, &w))
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE,
                              "a very large window, or one of more than 3 dimensions");
    /* The library divides by the places of a window that reaches beyond the padding, the operator does not.
     */
    if (w.all_padding || (w.overhangs && alg == WF_DNNL_POOL_MEAN_PADDED))
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "a window reaches beyond the padding");
    if (!blocks_fit(form->in, x->dims[1]))
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "channels do not fill the blocks of the layout");
    wf_dnnl_slot_t *src, *dst;
    recipe->operand_layouts[X] = form->in;
    return add_tensor(recipe, WF_DNNL_ARG_SRC, X, x, form->in, &src) &&
           add_tensor(recipe, WF_DNNL_ARG_DST, WF_DNNL_OPERAND_OUTPUT, out, form->out, &dst) &&
           recipe->library->dnnl_pooling_v2_forward_desc_init(
               &recipe->op_desc, WF_DNNL_FORWARD_INFERENCE, alg, &src->desc, &dst->desc, w.stride, w.kernel,
               w.dilates, w.pad_begin, w.pad_end) == WF_DNNL_SUCCESS &&
           wf_dnnl_epilogue(recipe, out->rank, out->dims);
}
