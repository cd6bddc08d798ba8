/* SPDX-License-Identifier: Apache-2.0 */
/* dead_code: nodes none of whose outputs is read disappear, last first, so that one sweep takes whole chains.
 * Outputs that nobody reads become "not wanted". */
#include "base/compiler.h"
#include "graph/graph.h"
#include "graph/pass.h"

static bool is_unused(const wf_graph_t *graph, wf_value_id value)
{
    return value == WF_NO_VALUE || wf_graph_value(graph, value)->use_count == 0;
}

/* Unused outputs are dropped: from the end altogether, in between by a blank. */
static uint32_t drop_outputs(wf_graph_t *graph, wf_node_t *node)
{
    uint32_t dropped = 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE && is_unused(graph, node->outputs[i])) {
            wf_graph_value(graph, node->outputs[i])->producer = WF_NO_NODE;
            node->outputs[i] = WF_NO_VALUE;
            dropped++;
        }
    }
    uint32_t minimum = (uint32_t)wf_op_info(node->op)->output_min;
    /* Split counts its parts by its outputs. */
    while (node->op != WF_OP_SPLIT && node->output_count > minimum &&
           node->outputs[node->output_count - 1] == WF_NO_VALUE) {
        node->output_count--;
    }
    return dropped;
}

WF_PASS(dead_code)
{
    (void)parallel;
    *out_changes = 0;
    for (size_t i = graph->order.count; i > 0; i--) {
        wf_node_id id = graph->order.items[i - 1];
        wf_node_t *node = wf_graph_node(graph, id);
        bool unused = !node->removed;
        for (uint32_t j = 0; unused && j < node->output_count; j++) {
            unused = is_unused(graph, node->outputs[j]);
        }
        if (unused) {
            wf_graph_remove_node(graph, id);
            (*out_changes)++;
        } else if (!node->removed) {
            *out_changes += drop_outputs(graph, node);
        }
    }
    return *out_changes > 0 ? wf_graph_sort(graph) : WF_OK;
}
