/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_swish: Swish(alpha) = x * sigmoid(alpha x) from the product; alpha 1 is SiLU, 1.702 the quick form of
 * Gelu. */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

static bool match_gate(const wf_graph_t *graph, wf_value_id gate, wf_value_id x, double *out_alpha)
{
    wf_poly_t line;
    const wf_node_t *sigmoid = wf_match_inner(graph, gate, WF_OP_SIGMOID);
    if (sigmoid == NULL || !wf_match_poly(graph, sigmoid->inputs[0], x, &line) || line.c[0] != 0.0 ||
        line.c[1] == 0.0) {
        return false;
    }
    for (int i = 2; i < WF_POLY_TERMS; i++) {
        if (line.c[i] != 0.0) {
            return false;
        }
    }
    *out_alpha = line.c[1];
    return wf_match_attr_holds(wf_value_type(graph, x)->dtype, line.c[1]);
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
        double alpha;
        wf_value_id x = product.factors[i];
        if (!match_gate(graph, product.factors[1 - i], x, &alpha) ||
            !wf_type_equal(wf_value_type(graph, x), wf_value_type(graph, root->outputs[0]))) {
            continue;
        }
        wf_attr_t attr = wf_attr_float("alpha", alpha);
        wf_node_spec_t spec = {
            .op = WF_OP_SWISH, .attrs = &attr, .attr_count = 1, .inputs = &x, .input_count = 1};
        WF_TRY(wf_join_names(graph, id, &x, 1, &spec.onnx_names));
        (*changes)++;
        return wf_graph_change_node(graph, id, &spec);
    }
    return WF_OK;
}

WF_PASS(fuse_swish)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
