/* SPDX-License-Identifier: Apache-2.0 */
/* Selection in a space as a PBQP.
 *
 * A label of a node is an option: a group that covers the node and the cheapest choice of one combination of
 * layouts. The group's root carries the time. Between a producer and its only consumer an edge says: the same
 * option (the value stays inside the group), or a conversion between the layouts of both, or infinity where
 * one of them claims the other. A value with several consumers gets a node of its own, whose labels are sets
 * of layouts in which the value is there. Its edge to the producer carries the conversions, its edges to
 * consumers only forbid, so that a conversion which several consumers share is paid once. Graph inputs and
 * outputs are row-major.
 */
#ifndef WF_ROUTE_SELECTION_H
#define WF_ROUTE_SELECTION_H

#include "route/pbqp.h"
#include "route/space_internal.h"

typedef struct wf_option {
    uint32_t group, choice;
    double cost_ns;
} wf_option_t;

typedef struct wf_selection {
    wf_space_t *space;
    const wf_graph_t *graph;
    wf_arena_t arena;
    WF_VEC(wf_option_t) options;
    uint32_t *option_first; /* per group, and the end */
    bool *dropped;          /* per option */
    bool capped;            /* some were: an optimum of what is left is not proven to be one */
    uint32_t *label_first;  /* per position, and the end */
    uint32_t *labels;       /* options */
    double *costs;          /* one per label */
    wf_pbqp_t *pbqp;        /* node i stands for graph->order[i]; nodes after those for shared values */
    WF_VEC(double) table;   /* scratch */
} wf_selection_t;

static inline const wf_group_t *wf_option_group(const wf_selection_t *selection, uint32_t option)
{
    return &selection->space->groups.items[selection->options.items[option].group];
}

static inline const wf_choice_t *wf_option_choice(const wf_selection_t *selection, uint32_t option)
{
    const wf_space_problem_t *entry =
        &selection->space->problems.items[wf_option_group(selection, option)->problem];
    return &entry->choices.items[selection->options.items[option].choice];
}

/* Makes the PBQP of the space at its present costs; conversions are added to the space. Call deinit on
 * failure too. */
wf_status_t wf_selection_init(wf_selection_t *selection, wf_space_t *space) WF_MUST_USE;
void wf_selection_deinit(wf_selection_t *selection);

#endif
