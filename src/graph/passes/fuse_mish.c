/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_mish: Mish = x * tanh(softplus(x)) from the product; softplus may be written log(1 + exp(x)). */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

static bool is_softplus(const wf_graph_t *graph, wf_value_id value, wf_value_id x)
{
    const wf_node_t *softplus = wf_match_inner(graph, value, WF_OP_SOFTPLUS);
    if (softplus != NULL) {
        return softplus->inputs[0] == x;
    }
    double one;
    wf_value_id power;
    const wf_node_t *log = wf_match_inner(graph, value, WF_OP_LOG);
    const wf_node_t *sum = log != NULL ? wf_match_inner(graph, log->inputs[0], WF_OP_ADD) : NULL;
    if (sum == NULL || !wf_match_with_scalar(graph, sum, &power, &one) || one != 1.0) {
        return false;
    }
    const wf_node_t *exp = wf_match_inner(graph, power, WF_OP_EXP);
    return exp != NULL && exp->inputs[0] == x;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    wf_product_t product;
    const wf_node_t *root = wf_graph_node(graph, id);
    (void)arg;
    if (!wf_match_product(graph, root, &product) || product.count != 2 || product.coefficient != 1.0) {
        return WF_OK;
    }
    for (uint32_t i = 0; i < 2; i++) {
        wf_value_id x = product.factors[i];
        const wf_node_t *tanh = wf_match_inner(graph, product.factors[1 - i], WF_OP_TANH);
        if (tanh == NULL || !is_softplus(graph, tanh->inputs[0], x) ||
            !wf_type_equal(wf_value_type(graph, x), wf_value_type(graph, root->outputs[0]))) {
            continue;
        }
        wf_node_spec_t spec = {.op = WF_OP_MISH, .inputs = &x, .input_count = 1};
        WF_TRY(wf_join_names(graph, id, &x, 1, &spec.onnx_names));
        (*changes)++;
        return wf_graph_change_node(graph, id, &spec);
    }
    return WF_OK;
}

WF_PASS(fuse_mish)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
