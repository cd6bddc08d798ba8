/* SPDX-License-Identifier: Apache-2.0 */
/* residual_after_bias: (y + r) + b becomes (y + b) + r, where y is made by a linear operator for this sum
 * alone and b is a constant per output channel: then b can go into the operator's bias and the epilogue is
 * bias, residual, activation. f32 and f64: the sum is taken in another order. */
#include "base/compiler.h"
#include "graph/linear.h"
#include "graph/match.h"
#include "graph/pass.h"

/* b varies along the output channels of the operator at most. */
static bool is_channel_bias(const wf_graph_t *graph, wf_value_id bias, const wf_linear_t *linear)
{
    wf_tensor_t tensor;
    if (!wf_graph_constant(graph, bias, &tensor) || tensor.type.rank > linear->type.rank) {
        return false;
    }
    uint32_t shift = linear->type.rank - tensor.type.rank;
    for (uint32_t i = 0; i < tensor.type.rank; i++) {
        if (tensor.type.dims[i] != 1 && i + shift != linear->out_axis) {
            return false;
        }
    }
    return true;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    const wf_node_t *outer = wf_graph_node(graph, id);
    (void)arg;
    if (outer->op != WF_OP_ADD) {
        return WF_OK;
    }
    wf_value_id bias = outer->inputs[1];
    const wf_node_t *inner = wf_match_inner(graph, outer->inputs[0], WF_OP_ADD);
    if (inner == NULL || wf_graph_value(graph, bias)->constant == NULL) {
        return WF_OK;
    }
    for (uint32_t i = 0; i < 2; i++) {
        wf_linear_t linear;
        wf_value_id y = inner->inputs[i];
        wf_value_id residual = inner->inputs[1 - i];
        if (!wf_match_inner_linear(graph, y, true, &linear) || !is_channel_bias(graph, bias, &linear) ||
            !wf_type_equal(&linear.type, wf_value_type(graph, outer->outputs[0])) ||
            wf_graph_value(graph, residual)->constant != NULL) {
            continue;
        }
        wf_value_id biased;
        WF_TRY(wf_emit_binary(graph, WF_OP_ADD, y, bias, outer->onnx_names, wf_graph_value(graph, y)->name,
                              &biased));
        wf_value_id inputs[2] = {biased, residual};
        wf_node_spec_t spec = {.op = WF_OP_ADD, .inputs = inputs, .input_count = 2};
        (*changes)++;
        WF_TRY(wf_join_names(graph, id, inputs, 2, &spec.onnx_names));
        return wf_graph_change_node(graph, id, &spec);
    }
    return WF_OK;
}

WF_PASS(residual_after_bias)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
