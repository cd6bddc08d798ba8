/* SPDX-License-Identifier: Apache-2.0 */
/* fold_dequantize: DequantizeLinear of constants becomes a float constant, the same values that the node
 * would compute at every run. Disable it where integer routes want the quantised weights.
 *
 * A constant grows four times (eight for 4-bit types); beyond the limit it stays quantised. */
#include "base/compiler.h"
#include "graph/fold.h"
#include "graph/match.h"
#include "graph/pass.h"

#define DEQUANTIZED_BYTES ((int64_t)256 << 20)

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    const wf_parallel_t *const *parallel = arg;
    int64_t input_bytes;
    int64_t output_bytes;
    bool folded = false;
    const wf_node_t *node = wf_graph_node(graph, id);
    if (node->op == WF_OP_DEQUANTIZE_LINEAR && wf_fold_possible(graph, node, &input_bytes, &output_bytes) &&
        output_bytes <= DEQUANTIZED_BYTES) {
        WF_TRY(wf_fold_node(graph, id, *parallel, &folded));
        *changes += folded;
    }
    return WF_OK;
}

WF_PASS(fold_dequantize)
{
    return wf_visit_nodes(graph, visit, &parallel, out_changes);
}
