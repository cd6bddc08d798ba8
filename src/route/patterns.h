/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: the shapes of groups that one kernel may cover, one row each (patterns.c).
 *
 * All patterns of today are chains: a root followed by elementwise nodes, each the only user of the node
 * before it. Inner values of such a group are seen by nobody else, so a chain is convex: another operand that
 * depended on an inner node would be a second user of it. For the same reason no two groups of a route can
 * wait for each other.
 */
#ifndef WF_ROUTE_PATTERNS_H
#define WF_ROUTE_PATTERNS_H

#include "graph/graph.h"

/* A conv with residual, scale, bias and activation has five; decomposed activations need a few more. */
#define WF_PATTERN_MAX_NODES 8u

typedef struct wf_pattern {
    const char *name;
    size_t knob; /* offset of the bool in wf_knobs_t that closes it; SIZE_MAX: none does */
    uint32_t nodes_min, nodes_max;
    bool (*is_root)(const wf_graph_t *graph, const wf_node_t *node);
} wf_pattern_t;

/* Every pattern, in the order in which groups are proposed. Static. */
const wf_pattern_t *wf_patterns(size_t *out_count);

/* The longest chain that the pattern may cover from `root`, in out_nodes; returns its length, 0 when root
 * does not fit. Every prefix of at least nodes_min nodes is a group as well. */
uint32_t wf_pattern_chain(const wf_pattern_t *pattern, const wf_graph_t *graph, const wf_uses_t *uses,
                          wf_node_id root, wf_node_id out_nodes[WF_PATTERN_MAX_NODES]);

/* The node's inputs without absent ones at the end. */
uint32_t wf_node_given_inputs(const wf_node_t *node);
/* The node's outputs up to the last one that is used; at least 1. */
uint32_t wf_node_wanted_outputs(const wf_graph_t *graph, const wf_node_t *node);
/* True when output `index` exists and somebody uses it, or it is the first. */
bool wf_node_output_wanted(const wf_graph_t *graph, const wf_node_t *node, uint32_t index);

#endif
