/* SPDX-License-Identifier: Apache-2.0 */
/* dead_code: nodes none of whose outputs is read disappear, last first, so that one sweep takes whole chains.
 * Last outputs that nobody reads go too. */
#include "base/compiler.h"
#include "graph/graph.h"
#include "graph/pass.h"

static bool is_unused(const wf_graph_t *graph, wf_value_id value)
{
    return value == WF_NO_VALUE || wf_graph_value(graph, value)->use_count == 0;
}

/* Unused outputs are dropped from the end. In between they keep their value: the first output names the node,
 * and kernels have a place to write. */
static uint32_t drop_outputs(wf_graph_t *graph, wf_node_t *node)
{
    uint32_t dropped = 0, minimum = (uint32_t)WF_MAX(wf_op_info(node->op)->output_min, 1);
    /* Split counts its parts by its outputs. */
    while (node->op != WF_OP_SPLIT && node->output_count > minimum &&
           is_unused(graph, node->outputs[node->output_count - 1])) {
        wf_value_id last = node->outputs[--node->output_count];
        if (last != WF_NO_VALUE) {
            wf_graph_value(graph, last)->producer = WF_NO_NODE;
        }
        dropped++;
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
