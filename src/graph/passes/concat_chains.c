/* SPDX-License-Identifier: Apache-2.0 */
/* concat_chains: a Concat whose input is made by a Concat along the same axis for it alone takes that one's
 * inputs; inputs without elements along the axis disappear. */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

/* Longer lists are left in pieces: a long chain of Concats must not cost its square. */
enum { MAX_INPUTS = 256 };

static bool axis_of(const wf_graph_t *graph, const wf_node_t *node, uint32_t *out_axis)
{
    return wf_match_axis(wf_attrs_int(&node->attrs, "axis", 0), wf_value_type(graph, node->outputs[0])->rank,
                         out_axis);
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    wf_value_id inputs[MAX_INPUTS];
    const wf_node_t *node = wf_graph_node(graph, id);
    uint32_t axis, inner_axis;
    size_t count = 0;
    bool flattened = false;
    (void)arg;
    if (node->op != WF_OP_CONCAT || node->input_count > MAX_INPUTS || !axis_of(graph, node, &axis)) {
        return WF_OK;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        wf_value_id input = node->inputs[i];
        size_t left = MAX_INPUTS - count - (node->input_count - i - 1);
        const wf_node_t *inner = wf_match_inner(graph, input, WF_OP_CONCAT);
        if (wf_value_type(graph, input)->dims[axis] == 0) {
            flattened = true;
        } else if (inner != NULL && inner->input_count <= left && axis_of(graph, inner, &inner_axis) &&
                   inner_axis == axis) {
            for (uint32_t j = 0; j < inner->input_count; j++) {
                inputs[count++] = inner->inputs[j];
            }
            flattened = true;
        } else {
            inputs[count++] = input;
        }
    }
    if (!flattened || count == 0) {
        return WF_OK;
    }
    wf_node_spec_t spec = {.op = WF_OP_CONCAT,
                           .attrs = node->attrs.items,
                           .attr_count = node->attrs.count,
                           .inputs = inputs,
                           .input_count = count};
    WF_TRY(wf_join_names(graph, id, inputs, count, &spec.onnx_names));
    (*changes)++;
    return wf_graph_change_node(graph, id, &spec);
}

WF_PASS(concat_chains)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
