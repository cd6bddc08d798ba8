/* SPDX-License-Identifier: Apache-2.0 */
/* reshape_chains: everything that only gives other dims to the same bytes becomes a Reshape with its dims
 * written out, and one that follows another reads what that one read. A Reshape to the dims that were there
 * disappears. Reads of the value in between stay: a Reshape costs nothing. */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

static bool is_dims_only(const wf_node_t *node)
{
    return node->op != WF_OP_IDENTITY && (wf_op_info(node->op)->flags & WF_OP_FLAG_VIEW) != 0;
}

/* Already a Reshape whose attribute is the output's dims, of something that is none. */
static bool is_canonical(const wf_graph_t *graph, const wf_node_t *node)
{
    size_t count;
    const wf_type_t *type = wf_value_type(graph, node->outputs[0]);
    const int64_t *dims = wf_attrs_ints(&node->attrs, "shape", &count);
    bool same = node->op == WF_OP_RESHAPE && wf_node_input(node, 1) == WF_NO_VALUE && count == type->rank;
    for (uint32_t i = 0; same && i < type->rank; i++) {
        same = dims[i] == type->dims[i];
    }
    return same;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    (void)arg;
    if (!is_dims_only(node) || !wf_graph_value(graph, node->outputs[0])->type_known) {
        return WF_OK;
    }
    wf_value_id source = node->inputs[0];
    const wf_node_t *before = wf_match(graph, source, WF_OP_RESHAPE); /* canonical: it was visited */
    if (before != NULL) {
        source = before->inputs[0];
    }
    if (source == node->inputs[0] && is_canonical(graph, node)) {
        return WF_OK;
    }
    (*changes)++;
    wf_value_id output = node->outputs[0];
    if (wf_type_equal(wf_value_type(graph, source), wf_value_type(graph, output)) &&
        !wf_graph_value(graph, output)->is_output) {
        WF_TRY(wf_graph_replace_uses(graph, output, source));
        wf_graph_remove_node(graph, id);
        return WF_OK;
    }
    return wf_change_to_reshape(graph, id, source);
}

WF_PASS(reshape_chains)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
