/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_hard_swish: HardSwish(x) = x * clip(x / 6 + 1/2, 0, 1) from the product of x with HardSigmoid(1/6,
 * 1/2) or with clip(x + 3, 0, 6) / 6, the division standing anywhere in the product. */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

/* gate * coefficient = clip(x / 6 + 1/2, 0, 1) */
static bool is_gate(const wf_graph_t *graph, wf_value_id gate, double coefficient, wf_value_id x)
{
    wf_poly_t line;
    double low, high;
    wf_dtype_t dtype = wf_value_type(graph, x)->dtype;
    const wf_node_t *hard_sigmoid = wf_match_inner(graph, gate, WF_OP_HARD_SIGMOID);
    if (hard_sigmoid != NULL) {
        double alpha = (double)wf_attrs_float(&hard_sigmoid->attrs, "alpha", 0.2f);
        double beta = (double)wf_attrs_float(&hard_sigmoid->attrs, "beta", 0.5f);
        return hard_sigmoid->inputs[0] == x && wf_match_near(dtype, coefficient, 1.0) &&
               wf_match_near(dtype, alpha, 1.0 / 6.0) && wf_match_near(dtype, beta, 0.5);
    }
    const wf_node_t *clip = wf_match_inner(graph, gate, WF_OP_CLIP);
    return clip != NULL && wf_match_limits(graph, clip, &low, &high) && low == 0.0 &&
           wf_match_near(dtype, high * coefficient, 1.0) && wf_match_interior(graph, clip->inputs[0]) &&
           wf_match_poly(graph, clip->inputs[0], x, &line) && line.c[2] == 0.0 &&
           wf_match_near(dtype, line.c[0] * coefficient, 0.5) &&
           wf_match_near(dtype, line.c[1] * coefficient, 1.0 / 6.0);
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    wf_product_t product;
    const wf_node_t *root = wf_graph_node(graph, id);
    (void)arg;
    if (!wf_match_product(graph, root, &product) || product.count != 2) {
        return WF_OK;
    }
    for (uint32_t i = 0; i < 2; i++) {
        wf_value_id x = product.factors[i];
        if (!is_gate(graph, product.factors[1 - i], product.coefficient, x) ||
            !wf_type_equal(wf_value_type(graph, x), wf_value_type(graph, root->outputs[0]))) {
            continue;
        }
        wf_node_spec_t spec = {.op = WF_OP_HARD_SWISH, .inputs = &x, .input_count = 1};
        WF_TRY(wf_join_names(graph, id, &x, 1, &spec.onnx_names));
        (*changes)++;
        return wf_graph_change_node(graph, id, &spec);
    }
    return WF_OK;
}

WF_PASS(fuse_hard_swish)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
