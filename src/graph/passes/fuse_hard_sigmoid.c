/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_hard_sigmoid: HardSigmoid(alpha, beta) = clip(alpha x + beta, 0, 1) from
 *   clip(x + b, 0, c) / c       alpha 1/c, beta b/c   (b 3, c 6: the one of MobileNetV3)
 *   clip(a x + b, 0, 1)         alpha a, beta b
 * with x + b in any spelling. Not when a or b are 0, which would be another function. */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

/* The root as scale * clip(argument, 0, 1 / scale): *out_argument and *out_scale. */
static bool match_clip(const wf_graph_t *graph, const wf_node_t *root, wf_value_id *out_argument,
                       double *out_scale)
{
    const wf_node_t *clip = root;
    wf_product_t product;
    double scale = 1.0;
    if (root->op != WF_OP_CLIP) {
        if (!wf_match_product(graph, root, &product) || product.count != 1 || !(product.coefficient > 0.0)) {
            return false;
        }
        scale = product.coefficient;
        clip = wf_match_inner(graph, product.factors[0], WF_OP_CLIP);
    }
    double low, high;
    if (clip == NULL || !wf_match_limits(graph, clip, &low, &high) || low != 0.0 ||
        !wf_match_near(wf_value_type(graph, clip->inputs[0])->dtype, high * scale, 1.0)) {
        return false;
    }
    *out_argument = clip->inputs[0];
    *out_scale = scale;
    return true;
}

/* argument = a * x + b with x the first operand that is no constant, past one Mul or Div by a scalar. */
static bool match_line(const wf_graph_t *graph, wf_value_id argument, wf_value_id *out_x, double *out_a,
                       double *out_b)
{
    double scalar;
    wf_value_id inner;
    wf_poly_t line;
    const wf_node_t *sum = wf_match_inner(graph, argument, WF_OP_ADD);
    if (sum == NULL || !wf_match_with_scalar(graph, sum, out_x, &scalar)) {
        return false;
    }
    const wf_node_t *scaled = wf_match_inner(graph, *out_x, WF_OP_MUL);
    scaled = scaled != NULL ? scaled : wf_match_inner(graph, *out_x, WF_OP_DIV);
    if (scaled != NULL && wf_match_with_scalar(graph, scaled, &inner, &scalar)) {
        *out_x = inner;
    }
    if (!wf_match_poly(graph, argument, *out_x, &line) || line.c[1] == 0.0 || line.c[0] == 0.0) {
        return false;
    }
    *out_a = line.c[1];
    *out_b = line.c[0];
    return true;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    wf_value_id argument, x;
    double scale, a, b;
    const wf_node_t *root = wf_graph_node(graph, id);
    (void)arg;
    if (!match_clip(graph, root, &argument, &scale) || !match_line(graph, argument, &x, &a, &b)) {
        return WF_OK;
    }
    const wf_type_t *type = wf_value_type(graph, root->outputs[0]);
    if (!wf_type_equal(wf_value_type(graph, x), type) || !wf_match_attr_holds(type->dtype, a * scale) ||
        !wf_match_attr_holds(type->dtype, b * scale)) {
        return WF_OK;
    }
    wf_attr_t attrs[2] = {wf_attr_float("alpha", a * scale), wf_attr_float("beta", b * scale)};
    wf_node_spec_t spec = {
        .op = WF_OP_HARD_SIGMOID, .attrs = attrs, .attr_count = 2, .inputs = &x, .input_count = 1};
    WF_TRY(wf_join_names(graph, id, &x, 1, &spec.onnx_names));
    (*changes)++;
    return wf_graph_change_node(graph, id, &spec);
}

WF_PASS(fuse_hard_sigmoid)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
