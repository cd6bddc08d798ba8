/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_rms_norm: RMSNormalization from x / sqrt(mean(x * x) + epsilon), by division or by a product with a
 * reciprocal, 1 / sqrt or a power of -1/2; a Mul that follows goes into its scale. Runs after
 * fuse_layer_norm, whose differences would look like x here. */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/norm.h"
#include "graph/pass.h"

static bool match(const wf_graph_t *graph, const wf_node_t *root, wf_value_id *out_x,
                  wf_norm_axes_t *out_axes, double *out_epsilon)
{
    wf_value_id variance, square;
    if (!wf_match_normalized(graph, root, out_x, &variance, out_epsilon) ||
        !wf_match_mean(graph, variance, &square, out_axes)) {
        return false;
    }
    const wf_node_t *product = wf_match_inner(graph, square, WF_OP_MUL);
    const wf_type_t *type = wf_value_type(graph, *out_x);
    return product != NULL && product->inputs[0] == *out_x && product->inputs[1] == *out_x &&
           wf_type_equal(type, wf_value_type(graph, root->outputs[0])) &&
           wf_match_tolerance(type->dtype) > 0.0;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    wf_value_id x;
    wf_norm_axes_t axes;
    double epsilon;
    bool absorbed;
    const char *onnx_names = NULL;
    (void)arg;
    WF_TRY(wf_norm_absorb(graph, id, WF_OP_RMS_NORMALIZATION, &absorbed));
    if (absorbed) {
        (*changes)++;
        return WF_OK;
    }
    if (!match(graph, wf_graph_node(graph, id), &x, &axes, &epsilon)) {
        return WF_OK;
    }
    WF_TRY(wf_join_names(graph, id, &x, 1, &onnx_names));
    (*changes)++;
    return wf_put_norm(graph, id, WF_OP_RMS_NORMALIZATION, x, axes, epsilon, onnx_names);
}

WF_PASS(fuse_rms_norm)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
