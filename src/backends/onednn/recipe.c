/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/onednn/recipe.h"

#include <string.h>

#include "base/compiler.h"

#define FORM(form_name, in_layout, out_layout, alg, describer, is_reduced)                                  \
    {                                                                                                       \
        .name = (form_name), .in = WF_LAYOUT_##in_layout, .out = WF_LAYOUT_##out_layout, .conv_alg = (alg), \
        .describe = (describer), .reduced = (is_reduced)                                                    \
    }
const wf_dnnl_form_t wf_dnnl_forms[] = {
    FORM("last", LAST, LAST, WF_DNNL_CONV_DIRECT, wf_dnnl_describe_conv, false),
    FORM("b8", B8, B8, WF_DNNL_CONV_DIRECT, wf_dnnl_describe_conv, false),
    FORM("b16", B16, B16, WF_DNNL_CONV_DIRECT, wf_dnnl_describe_conv, false),
    FORM("row_b8", ROW, B8, WF_DNNL_CONV_DIRECT, wf_dnnl_describe_conv, false),
    FORM("row_b16", ROW, B16, WF_DNNL_CONV_DIRECT, wf_dnnl_describe_conv, false),
    FORM("winograd_b16", B16, B16, WF_DNNL_CONV_WINOGRAD, wf_dnnl_describe_conv, true),
    FORM("pool_last", LAST, LAST, 0, wf_dnnl_describe_pool, false),
    FORM("pool_b8", B8, B8, 0, wf_dnnl_describe_pool, false),
    FORM("pool_b16", B16, B16, 0, wf_dnnl_describe_pool, false),
    FORM("matmul", ROW, ROW, 0, wf_dnnl_describe_matmul, false),
    FORM("inner", ROW, ROW, 0, wf_dnnl_describe_inner, false),
    FORM("pixels", ROW, ROW, WF_DNNL_CONV_DIRECT, wf_dnnl_describe_pixels, false),
};
const size_t wf_dnnl_form_count = WF_COUNT_OF(wf_dnnl_forms);

bool wf_dnnl_refuse(wf_dnnl_recipe_t *recipe, wf_decline_t reason, const char *text)
{
    if (recipe->refusal == NULL) {
        recipe->refusal = text;
        recipe->refusal_reason = reason;
    }
    return false;
}

wf_dnnl_slot_t *wf_dnnl_slot_add(wf_dnnl_recipe_t *recipe, int id, int32_t operand)
{
    if (recipe->slot_count == WF_DNNL_ARGS_MAX) {
        (void)wf_dnnl_refuse(recipe, WF_DECLINE_OPERATOR, "more stages than are fused");
        return NULL;
    }
    wf_dnnl_slot_t *slot = &recipe->slots[recipe->slot_count++];
    *slot = (wf_dnnl_slot_t){.id = id, .operand = operand};
    return slot;
}

/* ---- Descriptions ---- */

bool wf_dnnl_describe_strides(const wf_dnnl_recipe_t *recipe, uint32_t rank, const int64_t *dims,
                              const int64_t *strides, wf_dnnl_desc_t *out_desc)
{
    return recipe->library->dnnl_memory_desc_init_by_strides(out_desc, (int)rank, dims, WF_DNNL_F32,
                                                             strides) == WF_DNNL_SUCCESS;
}

bool wf_dnnl_describe_any(const wf_dnnl_recipe_t *recipe, uint32_t rank, const int64_t *dims,
                          wf_dnnl_desc_t *out_desc)
{
    return recipe->library->dnnl_memory_desc_init_by_tag(out_desc, (int)rank, dims, WF_DNNL_F32,
                                                         WF_DNNL_TAG_ANY) == WF_DNNL_SUCCESS;
}

/* Channel-blocked tags by rank, from 3. */
static const int b8_tags[] = {60, 93, 133}, b16_tags[] = {47, 69, 112};

bool wf_dnnl_describe_dense(const wf_dnnl_recipe_t *recipe, uint32_t rank, const int64_t *dims,
                            wf_layout_t layout, wf_dnnl_desc_t *out_desc)
{
    if (layout == WF_LAYOUT_B8 || layout == WF_LAYOUT_B16) {
        if (rank < 3 || rank > 5)
            return false;
        int tag = (layout == WF_LAYOUT_B8 ? b8_tags : b16_tags)[rank - 3];
        return recipe->library->dnnl_memory_desc_init_by_tag(out_desc, (int)rank, dims, WF_DNNL_F32, tag) ==
               WF_DNNL_SUCCESS;
    }
    int64_t strides[WF_DNNL_RANK_MAX], step = 1;
    bool last = layout == WF_LAYOUT_LAST && rank >= 3;
    if (last) {
        strides[1] = 1;
        step = dims[1];
    }
    for (uint32_t d = rank; d-- > 0;) {
        if (last && d == 1)
            continue;
        strides[d] = step;
        step *= dims[d];
    }
    return wf_dnnl_describe_strides(recipe, rank, dims, strides, out_desc);
}

/* ---- Recipes ---- */

static bool all_f32(const wf_problem_t *problem)
{
    for (size_t i = 0; i < problem->operand_count; i++) {
        wf_dtype_t dtype = problem->operands[i].type.dtype;
        if (dtype != WF_DTYPE_F32 && dtype != WF_DTYPE_NONE)
            return false;
    }
    return problem->output_count == 1 && problem->outputs[0].dtype == WF_DTYPE_F32;
}

static bool has_elements(const wf_problem_t *problem)
{
    for (size_t i = 0; i < problem->operand_count; i++) {
        const wf_type_t *type = &problem->operands[i].type;
        if (type->dtype != WF_DTYPE_NONE && (type->rank > WF_DNNL_RANK_MAX || wf_type_elems(type) <= 0))
            return false;
    }
    return wf_type_elems(&problem->outputs[0]) > 0;
}

static bool describe(wf_dnnl_recipe_t *recipe)
{
    const wf_dnnl_library_t *library = recipe->library;
    if (!all_f32(recipe->problem))
        return wf_dnnl_refuse(recipe, WF_DECLINE_TYPE, "element types other than f32, or several outputs");
    if (!has_elements(recipe->problem))
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "an empty tensor");
    if (library->dnnl_primitive_attr_create(&recipe->attr) != WF_DNNL_SUCCESS ||
        library->dnnl_post_ops_create(&recipe->post_ops) != WF_DNNL_SUCCESS ||
        library->dnnl_primitive_attr_set_scratchpad_mode(recipe->attr, WF_DNNL_SCRATCHPAD_USER) !=
            WF_DNNL_SUCCESS)
        return wf_dnnl_refuse(recipe, WF_DECLINE_LIBRARY, "oneDNN is out of memory");
    if (!recipe->form->describe(recipe))
        return wf_dnnl_refuse(recipe, WF_DECLINE_SHAPE, "oneDNN does not describe it");
    if (library->dnnl_primitive_attr_set_post_ops(recipe->attr, recipe->post_ops) != WF_DNNL_SUCCESS)
        return wf_dnnl_refuse(recipe, WF_DECLINE_OPERATOR, "oneDNN does not fuse the epilogue");
    return wf_dnnl_slot_add(recipe, WF_DNNL_ARG_SCRATCHPAD, WF_DNNL_OPERAND_SCRATCHPAD) != NULL;
}

bool wf_dnnl_recipe_init(const wf_dnnl_library_t *library, const wf_problem_t *problem,
                         const wf_dnnl_form_t *form, wf_layout_t *layouts, wf_dnnl_recipe_t *out_recipe)
{
    out_recipe->library = library;
    out_recipe->problem = problem;
    out_recipe->form = form;
    out_recipe->attr = out_recipe->post_ops = NULL;
    out_recipe->slot_count = 0;
    out_recipe->result_layout = form->out;
    out_recipe->operand_layouts = layouts;
    out_recipe->refusal = NULL;
    out_recipe->describes = false;
    memset(layouts, 0, (problem->operand_count + problem->output_count) * sizeof *layouts);
    layouts[problem->operand_count] = form->out;
    return describe(out_recipe);
}

void wf_dnnl_recipe_deinit(wf_dnnl_recipe_t *recipe)
{
    if (recipe->post_ops != NULL)
        (void)recipe->library->dnnl_post_ops_destroy(recipe->post_ops);
    if (recipe->attr != NULL)
        (void)recipe->library->dnnl_primitive_attr_destroy(recipe->attr);
    recipe->post_ops = recipe->attr = NULL;
}
