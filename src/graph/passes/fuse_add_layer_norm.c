/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_add_layer_norm: wf.AddLayerNormalization from LayerNormalization(x + r) over the last dim, where x and
 * r have one shape. The sum is the second output when something else reads it too. */
#include "base/compiler.h"
#include "graph/internal.h"
#include "graph/match.h"
#include "graph/pass.h"

static bool match(const wf_graph_t *graph, const wf_node_t *norm, const wf_node_t **out_sum)
{
    uint32_t axis;
    if (norm->op != WF_OP_LAYER_NORMALIZATION || norm->output_count > 1) {
        return false;
    }
    const wf_type_t *type = wf_value_type(graph, norm->inputs[0]);
    const wf_node_t *sum = wf_match(graph, norm->inputs[0], WF_OP_ADD);
    if (sum == NULL || !wf_match_axis(wf_attrs_int(&norm->attrs, "axis", -1), type->rank, &axis) ||
        axis != type->rank - 1) {
        return false;
    }
    for (uint32_t i = 1; i < norm->input_count; i++) { /* scale and bias are vectors */
        const wf_type_t *parameter = wf_value_type(graph, norm->inputs[i]);
        if (parameter->rank != 1 || parameter->dims[0] != type->dims[axis]) {
            return false;
        }
    }
    *out_sum = sum;
    return wf_type_equal(wf_value_type(graph, sum->inputs[0]), type) &&
           wf_type_equal(wf_value_type(graph, sum->inputs[1]), type) &&
           wf_graph_value(graph, sum->inputs[1])->constant == NULL;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    const wf_node_t *sum = NULL;
    const wf_node_t *norm = wf_graph_node(graph, id);
    (void)arg;
    if (!match(graph, norm, &sum)) {
        return WF_OK;
    }
    wf_value_id outputs[2] = {norm->outputs[0], norm->inputs[0]};
    wf_value_id inputs[4] = {sum->inputs[0], sum->inputs[1], norm->inputs[1], wf_node_input(norm, 2)};
    wf_attr_t epsilon = wf_attr_float("epsilon", (double)wf_attrs_float(&norm->attrs, "epsilon", 1e-5f));
    wf_node_spec_t spec = {.op = WF_OP_W_ADD_LAYER_NORM,
                           .attrs = &epsilon,
                           .attr_count = 1,
                           .inputs = inputs,
                           .input_count = 4,
                           .outputs = outputs,
                           .output_count = 2};
    WF_TRY(wf_join_names(graph, id, inputs, 2, &spec.onnx_names));
    (*changes)++;
    if (wf_match_interior(graph, outputs[1])) {
        spec.output_count = 1;
        return wf_graph_change_node(graph, id, &spec);
    }
    /* The sum keeps its readers and gets a new producer. */
    (void)wf_graph_detach(graph, outputs[0]);
    wf_node_id adder = wf_graph_detach(graph, outputs[1]);
    WF_TRY(wf_graph_add_node(graph, &spec, NULL));
    wf_graph_remove_node(graph, id);
    wf_graph_remove_node(graph, adder);
    return WF_OK;
}

WF_PASS(fuse_add_layer_norm)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
