/* SPDX-License-Identifier: Apache-2.0 */
/* The native tactic source: our CPU kernels, ordered in families.
 *
 * A family is one way to do a kind of problem (implicit GEMM, depthwise, a reduction, ...) with variants:
 * layout, CPU tier and a few numbers. To add a family: one file and one row in families.def. To add a kernel
 * to a family: the kernel's source and the family's variants.
 */
#ifndef WF_NATIVE_NATIVE_H
#define WF_NATIVE_NATIVE_H

#include "backend/registry.h"
#include "backends/native/kernels/epilogue.h"
#include "backends/native/tier_table.h"
#include "base/mem.h"
#include "op/op.h"

typedef struct wf_native {
    wf_allocator_t allocator;
    wf_log_t log;
    wf_cpu_t cpu;
    uint32_t kernel_tier; /* highest tier with kernel objects that may run: index into wf_native_tiers */
} wf_native_t;

typedef struct wf_native_family wf_native_family_t;

#define WF_NATIVE_PARAMS_MAX 10
/* What a tactic id says: "native/<family>[.<layout>][.<tier>][.<key><number>...]@<revision>". */
typedef struct wf_native_variant {
    const wf_native_family_t *family;
    wf_layout_t layout;
    uint32_t tier;
    int32_t params[WF_NATIVE_PARAMS_MAX]; /* in the order of the family's keys */
} wf_native_variant_t;

/* What a variant means for a problem. */
typedef struct wf_native_plan {
    wf_layout_t *operand_layouts; /* operand_count entries, filled by the family; ROW to begin with */
    wf_layout_t *output_layouts;
    wf_tactic_needs_t needs; /* no alias and all else zero to begin with */
    double estimate_ns;
    bool not_deterministic, not_exact;
} wf_native_plan_t;

/* A family says no by returning a decline from plan: reason and sentence. `broken` is neither yes nor no:
 * memory is out, and the caller passes the status on. */
typedef struct wf_native_verdict {
    bool fits;
    wf_decline_t reason;
    const char *text;
    wf_status_t broken;
} wf_native_verdict_t;
#define WF_NATIVE_FITS ((wf_native_verdict_t){true, 0, NULL, WF_OK})
#define WF_NATIVE_NO(why, sentence) ((wf_native_verdict_t){false, WF_DECLINE_##why, (sentence), WF_OK})
#define WF_NATIVE_BROKEN(status) ((wf_native_verdict_t){false, 0, NULL, (status)})

struct wf_kernel {
    const wf_native_variant_t *variant;
    const wf_problem_t *problem; /* outlives the kernel (contract) */
    const wf_native_t *native;
    const wf_native_tier_t *tier;
    wf_tactic_needs_t needs;
    wf_arena_t memory; /* packed constants and the family's state */
    void *state;
    bool keeps_constants;
    const wf_tensor_t *constants; /* copies of the views; data valid only when keeps_constants */
    wf_native_variant_t variant_copy;
};

struct wf_native_family {
    const char *name; /* "conv.igemm" */
    uint32_t revision;
    bool has_layout, has_tier;                  /* written in the id */
    const char *keys[WF_NATIVE_PARAMS_MAX + 1]; /* of params, NULL-terminated */

    /* Quick look: is this kind of problem the family's at all? NULL text of a no is not reported. */
    wf_native_verdict_t (*match)(const wf_native_t *native, const wf_problem_t *problem);
    /* Variants worth offering, at most `capacity`; tier and family are filled by the caller. NULL: one, all
     * zero, for each layout of `layouts`. */
    size_t (*variants)(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity);
    /* Layouts, needs, estimate. Must hold for any params: ids come from engines. */
    wf_native_verdict_t (*plan)(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan);
    /* Packs; kernel->state is the family's. NULL: nothing to do. */
    wf_status_t (*prepare)(wf_kernel_t *kernel, const wf_tensor_t *constants);
    wf_status_t (*launch)(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel);
};

/* The families, in the order of families.def. */
extern const wf_native_family_t *const wf_native_families[];
extern const size_t wf_native_family_count;
#define X(symbol) extern const wf_native_family_t wf_native_family_##symbol;
#include "backends/native/families.def"
#undef X

/* ---- Ids (variant.c) ---- */
void wf_native_id_print(const wf_native_variant_t *variant, char out_id[WF_TACTIC_ID_MAX]);
/* False when no family of this build has such an id (another revision included). */
bool wf_native_id_parse(const char *id, wf_native_variant_t *out_variant);

/* ---- Estimates: a roofline with what launch and threads cost (estimate.c) ---- */
/* flops at `efficiency` of the tier's peak, bytes from L3, `regions` parallel regions, divided over the
 * threads. */
double wf_native_estimate_ns(const wf_native_t *native, uint32_t tier, double flops, double efficiency,
                             double bytes, uint32_t regions);

/* ---- Problems as rows and columns (rows.c) ---- */
/* Dims of a tensor in the order of a layout (LAST: N, spatial, C), with the rank. */
void wf_native_layout_dims(const wf_type_t *type, wf_layout_t layout, int64_t out_dims[WF_MAX_RANK]);
/* The layout's innermost dim and the product of the others; rows 1 and cols 1 for a scalar. */
void wf_native_rows_cols(const wf_type_t *type, wf_layout_t layout, int64_t *out_rows, int64_t *out_cols);

/* ---- Stages after the root as an epilogue program (epilogue_plan.c) ---- */
#define WF_NATIVE_EP_MAX 16
typedef struct wf_native_ep {
    wf_ep_stage stages[WF_NATIVE_EP_MAX];
    int32_t operands[WF_NATIVE_EP_MAX]; /* problem operand whose data the stage reads; -1: none */
    size_t count;
} wf_native_ep_t;
/* Translates stages [first_stage, stage_count) for an output of `out` in `layout`. Constant scalars become
 * parameters; other operands are bound at launch. Sets operand_layouts of the operands it covers. constants
 * may be NULL (planning: values of scalars are then left open). */
wf_native_verdict_t wf_native_ep_plan(const wf_problem_t *problem, size_t first_stage, const wf_type_t *out,
                                      wf_layout_t layout, const wf_tensor_t *constants,
                                      wf_layout_t *operand_layouts, wf_native_ep_t *out_ep);
/* Copies constant vectors of the program into the kernel's memory, so that nothing refers to the caller's. */
wf_status_t wf_native_ep_keep(wf_kernel_t *kernel, wf_native_ep_t *ep,
                              const wf_tensor_t *constants) WF_MUST_USE;
/* The program with this launch's operands; `out_stages` has room for WF_NATIVE_EP_MAX. */
void wf_native_ep_bind(const wf_native_ep_t *ep, const wf_view_t *operands, wf_ep_stage *out_stages);
/* The epilogue function of an operator with its parameters; false when there is none. `swapped`: the running
 * value is the second input. */
bool wf_native_ep_fn(const wf_problem_stage_t *stage, bool swapped, wf_ep_stage *out_stage);

/* Fits when the operand `weights` and, where it is there, `bias` are constants. */
wf_native_verdict_t wf_native_const_weights(const wf_problem_t *problem, uint32_t weights, uint32_t bias);
/* All operands and outputs are f32. */
bool wf_native_all_f32(const wf_problem_t *problem);

/* Splits `count` units into at most `parts_max` items of equal size: units per item, at least 1. */
int64_t wf_native_units_per_item(int64_t count, int64_t min_units, uint32_t thread_count,
                                 uint32_t items_per_thread);

#endif
