/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/graph share and others do not need. */
#ifndef WF_GRAPH_INTERNAL_H
#define WF_GRAPH_INTERNAL_H

#include "graph/graph.h"

/* Puts input `slot` of a node on the use list of its value, or takes it off. Absent inputs are allowed. */
void wf_use_link(wf_graph_t *graph, wf_node_t *node, wf_node_id id, uint32_t slot);
void wf_use_unlink(wf_graph_t *graph, wf_node_t *node, uint32_t slot);

/* Copies a spec into the arena: counts checked, attributes completed. Neither linked nor inferred. */
wf_status_t wf_node_make(wf_graph_t *graph, const wf_node_spec_t *spec, wf_node_t *out_node) WF_MUST_USE;
/* Infers the node's output types and hands each wanted one to `found`; calls nothing when they cannot be
 * known. */
typedef wf_status_t wf_inferred_fn(void *arg, wf_value_id output, const wf_type_t *type);
wf_status_t wf_node_infer(const wf_graph_t *graph, const wf_node_t *node, wf_inferred_fn *found,
                          void *arg) WF_MUST_USE;
/* The value's producer makes it no more, so that another node may. Returns the producer. */
wf_node_id wf_graph_detach(wf_graph_t *graph, wf_value_id value);
/* A value that is made by a node becomes a constant over `data` (rules of wf_graph_add_constant); its
 * producer makes it no more. A graph output stays what it is and becomes a copy of a new constant: outputs
 * always have a producer. */
wf_status_t wf_graph_make_constant(wf_graph_t *graph, wf_value_id value, const void *data) WF_MUST_USE;
/* The name people know the node by: its first output's. Borrowed. */
const char *wf_node_label(const wf_graph_t *graph, const wf_node_t *node);
/* True for names that are printed without quotes. */
bool wf_text_is_plain(const char *text);

#endif
