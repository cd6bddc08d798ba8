/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering: a route becomes a list of steps over tensors that have a place in memory.
 *
 * Conversions between layouts become steps of their own, made once per value and layout. Tactics that are
 * views cost no step. Outputs take the place of operands that die (in place), producers write straight into
 * the result of a concatenation where both sides allow it, and what is left is placed in one arena by
 * lifetimes.
 */
#ifndef WF_ENGINE_LOWER_H
#define WF_ENGINE_LOWER_H

#include "engine/engine_write.h"
#include "engine/format.h"

typedef struct wf_lowered_bind {
    wf_bind_kind_t kind;
    uint32_t index;    /* port of INPUT and OUTPUT */
    wf_value_id value; /* CONSTANT: the constant */
    uint64_t offset, bytes;
    int64_t row_stride_elems;
} wf_lowered_bind_t;

typedef struct wf_lowered_step {
    uint32_t kind;               /* WF_STEP_LAUNCH or WF_STEP_COPY */
    const wf_problem_t *problem; /* NULL for a copy */
    const char *tactic_id;
    const char *nodes;
    uint32_t group;                 /* of the route; UINT32_MAX for conversions and copies */
    const wf_lowered_bind_t *binds; /* operands, then outputs */
    uint32_t operand_count, output_count;
    uint64_t workspace_offset, workspace_bytes;
} wf_lowered_step_t;

typedef struct wf_lowered {
    wf_lowered_step_t *steps;
    uint32_t step_count;
    uint64_t arena_bytes;
} wf_lowered_t;

/* Everything in *out_lowered lives in `arena`. */
wf_status_t wf_lower(const wf_engine_part_t *part, bool memory_reuse, bool concat_inplace, wf_arena_t *arena,
                     wf_lowered_t *out_lowered) WF_MUST_USE;

#endif
