/* SPDX-License-Identifier: Apache-2.0 */
/* fold_constants: nodes over constants become constants, Shape and Size of known types become values.
 *
 * One sweep in order also infers what could not be inferred before: when a computed shape becomes a constant,
 * the type of the node that takes it becomes known, and with it the shapes read from that node.
 *
 * Size rule: a result may be twice its inputs (a transposed weight, a cast); small results may be larger than
 * that (masks and position tables from Range, Expand, Where), up to a total for the graph. Dequantised
 * weights are left alone: what they are is decided by precision (fold_dequantize). */
#include "base/compiler.h"
#include "graph/constant.h"
#include "graph/fold.h"
#include "graph/internal.h"
#include "graph/match.h"
#include "graph/pass.h"

#define GROWN_RESULT_BYTES ((int64_t)16 << 20)
#define GROWN_TOTAL_BYTES ((int64_t)64 << 20)

typedef struct folder {
    const wf_parallel_t *parallel;
    int64_t grown_bytes;
} folder_t;

static bool is_foldable_op(const wf_graph_t *graph, const wf_node_t *node)
{
    if (wf_op_info(node->op)->flags & WF_OP_FLAG_NONDET) {
        return false;
    }
    switch (node->op) {
    case WF_OP_DEQUANTIZE_LINEAR:
    case WF_OP_W_CONVERT:
        return false;
    case WF_OP_IDENTITY: /* a graph output that is a constant keeps its Identity */
        return !wf_graph_value(graph, node->outputs[0])->is_output;
    default:
        return true;
    }
}

static bool is_small_enough(folder_t *self, int64_t input_bytes, int64_t output_bytes)
{
    if (output_bytes / 2 <= input_bytes) {
        return true;
    }
    int64_t growth_bytes = output_bytes - input_bytes;
    if (output_bytes > GROWN_RESULT_BYTES || self->grown_bytes + growth_bytes > GROWN_TOTAL_BYTES) {
        return false;
    }
    self->grown_bytes += growth_bytes;
    return true;
}

static bool has_known_outputs(const wf_graph_t *graph, const wf_node_t *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE && !wf_graph_value(graph, node->outputs[i])->type_known) {
            return false;
        }
    }
    return true;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    folder_t *self = arg;
    int64_t input_bytes;
    int64_t output_bytes;
    bool folded = false;
    if (!has_known_outputs(graph, wf_graph_node(graph, id))) {
        WF_TRY(wf_graph_infer_node(graph, id));
    }
    const wf_node_t *node = wf_graph_node(graph, id);
    if (node->output_count == 0 || node->outputs[0] == WF_NO_VALUE || !is_foldable_op(graph, node)) {
        return WF_OK;
    }
    WF_TRY(wf_fold_type_query(graph, id, &folded));
    if (folded) {
        (*changes)++;
        return WF_OK;
    }
    if (!wf_fold_possible(graph, node, &input_bytes, &output_bytes) ||
        !is_small_enough(self, input_bytes, output_bytes)) {
        return WF_OK;
    }
    WF_TRY(wf_fold_node(graph, id, self->parallel, &folded));
    *changes += folded;
    return WF_OK;
}

WF_PASS(fold_constants)
{
    folder_t self = {.parallel = parallel};
    return wf_visit_nodes(graph, visit, &self, out_changes);
}
