/* SPDX-License-Identifier: Apache-2.0 */
/* Computing a node whose inputs are constants. */
#ifndef WF_GRAPH_FOLD_H
#define WF_GRAPH_FOLD_H

#include "graph/graph.h"

/* True when every present input is a constant and every wanted output has a known type; gives the sizes. */
bool wf_fold_possible(const wf_graph_t *graph, const wf_node_t *node, int64_t *out_input_bytes,
                      int64_t *out_output_bytes);
/* Computes the node with the reference; its outputs become constants in the graph's arena and the node is
 * removed. *out_folded is false (and WF_OK returned) when the reference has no kernel or the values are not
 * possible: then the node stays, to fail at run time as it should. */
wf_status_t wf_fold_node(wf_graph_t *graph, wf_node_id node, const wf_parallel_t *parallel,
                         bool *out_folded) WF_MUST_USE;
/* Shape and Size read the type of their input, not its value: when it is known the node becomes a constant as
 * above. */
wf_status_t wf_fold_type_query(wf_graph_t *graph, wf_node_id node, bool *out_folded) WF_MUST_USE;

#endif
