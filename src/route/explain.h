/* SPDX-License-Identifier: Apache-2.0 */
/* Explain: why a route is what it is, as data and as text. */
#ifndef WF_ROUTE_EXPLAIN_H
#define WF_ROUTE_EXPLAIN_H

#include "route/space.h"

typedef struct wf_explain_step {
    wf_route_item_t item;
    /* The runner-up: how the group's first node is done in the cheapest route that does it otherwise (another
     * group, other layouts, or another tactic), and what that route costs more. Negative when the route at
     * hand is not the cheapest. */
    bool has_runner_up;
    wf_route_item_t runner_up;
    double margin_ns;
} wf_explain_step_t;

typedef struct wf_explain {
    wf_allocator_t allocator;
    wf_explain_step_t *steps; /* one per item of the route, in its order */
    size_t step_count;
    wf_route_conversion_t *conversions; /* in the order in which they run */
    size_t conversion_count;
    double cost_ns;
    bool exact;
    bool tactics_only; /* the graph is too large for margins of whole routes: runner-ups differ in the tactic
                          alone */
} wf_explain_t;

/* Explains a route of this space under the present costs. The space may gain conversions. On failure
 * *out_explain is empty; on success it is the caller's to deinit. */
wf_status_t wf_explain_make(wf_space_t *space, const wf_route_t *route, wf_allocator_t allocator,
                            wf_explain_t *out_explain) WF_MUST_USE;
void wf_explain_deinit(wf_explain_t *explain);

/* For people: a head line, then each step with nodes, problem, tactic, layouts, cost, runner-up and what was
 * declined, and each conversion before the step that needs it. */
wf_status_t wf_explain_print(const wf_space_t *space, const wf_explain_t *explain,
                             wf_text_t *text) WF_MUST_USE;

/* "last,row>last": layouts of the operands that have one, then of the outputs; one name when all on a side
 * are equal. */
void wf_choice_layouts_print(const wf_problem_t *problem, const wf_choice_t *choice, wf_text_t *text);
/* "conv+add+relu": operators of the problem's stages. */
void wf_problem_stages_print(const wf_problem_t *problem, wf_text_t *text);
/* "12.3 us": three digits and a unit. */
void wf_duration_print(double ns, wf_text_t *text);

#endif
