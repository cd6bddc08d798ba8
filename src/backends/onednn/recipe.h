/* SPDX-License-Identifier: Apache-2.0 */
/* A problem as one oneDNN operation: its description, its fused operators and its arguments.
 *
 * A form is one way to say a problem to the library: which operation, and which layouts. The implementations
 * that the library offers for a form are this source's tactics.
 */
#ifndef WF_ONEDNN_RECIPE_H
#define WF_ONEDNN_RECIPE_H

#include "backend/registry.h"
#include "backends/onednn/library.h"
#include "op/op.h"

#define WF_DNNL_ARGS_MAX 20
#define WF_DNNL_OPERAND_OUTPUT (-1)
#define WF_DNNL_OPERAND_SCRATCHPAD (-2)

/* An argument: where its data is, and how it lies there. */
typedef struct wf_dnnl_slot {
    int id;
    int32_t operand; /* of the problem, or one of the two above */
    bool packed;     /* a constant that the library may reorder: `desc` is how it is given */
    wf_dnnl_desc_t desc;
} wf_dnnl_slot_t;

typedef struct wf_dnnl_form wf_dnnl_form_t;

typedef struct wf_dnnl_recipe {
    const wf_dnnl_library_t *library;
    const wf_problem_t *problem;
    const wf_dnnl_form_t *form;
    wf_dnnl_op_desc_t op_desc;
    void *attr, *post_ops; /* of the library; freed by wf_dnnl_recipe_deinit */
    wf_dnnl_slot_t slots[WF_DNNL_ARGS_MAX];
    size_t slot_count;
    bool describes;               /* the problem is of the form's kind */
    wf_layout_t result_layout;    /* in the library's terms: the tensor may be folded */
    wf_layout_t *operand_layouts; /* operand_count entries, then one for the output; of the caller */
    /* First sentence that said no; NULL when all fits. */
    const char *refusal;
    wf_decline_t refusal_reason;
} wf_dnnl_recipe_t;

struct wf_dnnl_form {
    const char *name; /* last word of the tactic's id */
    wf_layout_t in, out;
    int conv_alg; /* of convolutions */
    /* Fills the recipe. False when the form does not do the problem: refusal says why; `describes` is set
     * first where the problem is of the form's kind. */
    bool (*describe)(wf_dnnl_recipe_t *recipe);
    bool reduced; /* sums in another way than f32 arithmetic: a class of accuracy of its own */
};

extern const wf_dnnl_form_t wf_dnnl_forms[];
extern const size_t wf_dnnl_form_count;

bool wf_dnnl_describe_conv(wf_dnnl_recipe_t *recipe);
bool wf_dnnl_describe_pool(wf_dnnl_recipe_t *recipe);
bool wf_dnnl_describe_matmul(wf_dnnl_recipe_t *recipe);
bool wf_dnnl_describe_inner(wf_dnnl_recipe_t *recipe);
bool wf_dnnl_describe_pixels(wf_dnnl_recipe_t *recipe);

/* Describes the problem in this form. False when it does not fit (refusal). In both cases the recipe is given
 * back with deinit. layouts: operand_count + output_count entries. */
bool wf_dnnl_recipe_init(const wf_dnnl_library_t *library, const wf_problem_t *problem,
                         const wf_dnnl_form_t *form, wf_layout_t *layouts, wf_dnnl_recipe_t *out_recipe);
void wf_dnnl_recipe_deinit(wf_dnnl_recipe_t *recipe);

/* ---- For the forms ---- */
/* Always false. */
bool wf_dnnl_refuse(wf_dnnl_recipe_t *recipe, wf_decline_t reason, const char *text);
/* The description of a dense tensor of these dims in a layout; false when the library refuses. */
bool wf_dnnl_describe_dense(const wf_dnnl_recipe_t *recipe, uint32_t rank, const int64_t *dims,
                            wf_layout_t layout, wf_dnnl_desc_t *out_desc);
bool wf_dnnl_describe_strides(const wf_dnnl_recipe_t *recipe, uint32_t rank, const int64_t *dims,
                              const int64_t *strides, wf_dnnl_desc_t *out_desc);
/* The description that leaves the layout to the library. */
bool wf_dnnl_describe_any(const wf_dnnl_recipe_t *recipe, uint32_t rank, const int64_t *dims,
                          wf_dnnl_desc_t *out_desc);
/* A new slot; NULL (with refusal) when there are too many. */
wf_dnnl_slot_t *wf_dnnl_slot_add(wf_dnnl_recipe_t *recipe, int id, int32_t operand);

/* ---- Epilogue (epilogue.c) ---- */
/* Appends the stages after the root as fused operators on a result of these dims in the form's layout. */
bool wf_dnnl_epilogue(wf_dnnl_recipe_t *recipe, uint32_t rank, const int64_t *dims);

#endif
