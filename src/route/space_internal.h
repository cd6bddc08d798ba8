/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of src/route: what its files need of each other. */
#ifndef WF_ROUTE_SPACE_INTERNAL_H
#define WF_ROUTE_SPACE_INTERNAL_H

#include "route/space.h"

/* Finds the problem with this text, or adds it and asks every source for tactics. `problem` lives in the
 * space's arena. may_reopen: knobs do not close the last choice (a node that nothing else does). */
wf_status_t wf_space_problem_add(wf_space_t *space, const wf_problem_t *problem, bool may_reopen,
                                 uint32_t *out_index) WF_MUST_USE;

/* The first layout with the same bytes as `layout` for this type: layouts compare by it. */
wf_layout_t wf_layout_canonical(const wf_type_t *type, wf_layout_t layout);

/* The canonical layout in which a choice takes the value in the group: bit i for layout i; 0 when node
 * `member` of the group does not take it as an operand (it is the running value). */
uint32_t wf_group_needs(const wf_space_t *space, const wf_group_t *group, const wf_choice_t *choice,
                        uint32_t member, wf_value_id value);
/* The index of a node in its group. */
uint32_t wf_group_member(const wf_group_t *group, wf_node_id node);
/* The canonical layout in which a choice makes the value; WF_LAYOUT_COUNT when the value stays inside the
 * group. */
wf_layout_t wf_group_makes(const wf_space_t *space, const wf_group_t *group, const wf_choice_t *choice,
                           wf_value_id value);

/* Cost of the cheapest conversion between canonical layouts; 0 for none, INFINITY when no source converts so.
 */
wf_status_t wf_space_convert_cost(wf_space_t *space, wf_value_id value, wf_layout_t from, wf_layout_t to,
                                  double *out_cost_ns) WF_MUST_USE;

static inline bool wf_choice_usable(const wf_choice_t *choice)
{
    return !choice->banned && (!choice->dominated || choice->measured);
}

static inline wf_node_id wf_group_last(const wf_group_t *group)
{
    return group->nodes[group->node_count - 1];
}

/* The name of the node's first output, by which people and plans know it. */
static inline const char *wf_node_name(const wf_graph_t *graph, wf_node_id node)
{
    const wf_node_t *n = wf_graph_node(graph, node);
    for (uint32_t i = 0; i < n->output_count; i++) {
        if (n->outputs[i] != WF_NO_VALUE) {
            return wf_graph_value(graph, n->outputs[i])->name;
        }
    }
    return "";
}

#endif
