/* SPDX-License-Identifier: Apache-2.0 */
#include "route/patterns.h"

#include "base/compiler.h"
#include "route/space.h"

/* ---- Roots ---- */

/* Operators whose kernels may run elementwise operators at their store. */
static const wf_op_t epilogue_roots[] = {
    WF_OP_CONV,
    WF_OP_CONV_TRANSPOSE,
    WF_OP_MATMUL,
    WF_OP_GEMM,
    WF_OP_BATCH_NORMALIZATION,
    WF_OP_LAYER_NORMALIZATION,
    WF_OP_INSTANCE_NORMALIZATION,
    WF_OP_GROUP_NORMALIZATION,
    WF_OP_RMS_NORMALIZATION,
    WF_OP_LP_NORMALIZATION,
    WF_OP_MEAN_VARIANCE_NORMALIZATION,
    WF_OP_LRN,
    WF_OP_SOFTMAX,
    WF_OP_LOG_SOFTMAX,
    WF_OP_AVERAGE_POOL,
    WF_OP_MAX_POOL,
    WF_OP_LP_POOL,
    WF_OP_GLOBAL_AVERAGE_POOL,
    WF_OP_GLOBAL_MAX_POOL,
    WF_OP_GLOBAL_LP_POOL,
};

static bool is_any(const wf_graph_t *graph, const wf_node_t *node)
{
    (void)graph;
    (void)node;
    return true;
}

static bool is_epilogue_root(const wf_graph_t *graph, const wf_node_t *node)
{
    (void)graph;
    if (wf_op_info(node->op)->domain == WF_OP_DOMAIN_W) {
        return true;
    }
    for (size_t i = 0; i < WF_COUNT_OF(epilogue_roots); i++) {
        if (epilogue_roots[i] == node->op) {
            return true;
        }
    }
    return false;
}

static bool is_elementwise(const wf_graph_t *graph, const wf_node_t *node)
{
    (void)graph;
    return (wf_op_info(node->op)->flags & WF_OP_FLAG_EW) != 0;
}

/* ---- The table ---- */

#define KNOB(field) offsetof(wf_knobs_t, field)
static const wf_pattern_t patterns[] = {
    {"single", SIZE_MAX, 1, 1, is_any},
    {"epilogue", KNOB(fuse_epilogue), 2, WF_PATTERN_MAX_NODES, is_epilogue_root},
    {"elementwise", KNOB(fuse_elementwise), 2, WF_PATTERN_MAX_NODES, is_elementwise},
};

const wf_pattern_t *wf_patterns(size_t *out_count)
{
    *out_count = WF_COUNT_OF(patterns);
    return patterns;
}

/* ---- Chains ---- */

uint32_t wf_node_given_inputs(const wf_node_t *node)
{
    uint32_t count = node->input_count;
    while (count > 0 && node->inputs[count - 1] == WF_NO_VALUE) {
        count--;
    }
    return count;
}

bool wf_node_output_wanted(const wf_graph_t *graph, const wf_node_t *node, uint32_t index)
{
    return index == 0 || (node->outputs[index] != WF_NO_VALUE &&
                          wf_graph_value(graph, node->outputs[index])->use_count > 0);
}

uint32_t wf_node_wanted_outputs(const wf_graph_t *graph, const wf_node_t *node)
{
    uint32_t count = node->output_count;
    while (count > 1 && !wf_node_output_wanted(graph, node, count - 1)) {
        count--;
    }
    return count;
}

static bool same_dims(const wf_type_t *a, const wf_type_t *b)
{
    wf_type_t typed = *a;
    typed.dtype = b->dtype;
    return wf_type_equal(&typed, b);
}

/* The node that continues the chain after `node`, or WF_NO_NODE. The running value keeps its dims. */
static wf_node_id chain_next(const wf_graph_t *graph, const wf_uses_t *uses, const wf_node_t *node)
{
    if (node->output_count == 0 || node->outputs[0] == WF_NO_VALUE ||
        wf_node_wanted_outputs(graph, node) != 1) {
        return WF_NO_NODE;
    }
    wf_node_id next = wf_uses_single(graph, uses, node->outputs[0]);
    if (next == WF_NO_NODE) {
        return WF_NO_NODE;
    }
    const wf_node_t *user = wf_graph_node(graph, next);
    bool fits = is_elementwise(graph, user) && user->region_count == 0 && user->output_count == 1 &&
                user->input_count <= 32 && user->outputs[0] != WF_NO_VALUE &&
                same_dims(&wf_graph_value(graph, node->outputs[0])->type,
                          &wf_graph_value(graph, user->outputs[0])->type);
    return fits ? next : WF_NO_NODE;
}

uint32_t wf_pattern_chain(const wf_pattern_t *pattern, const wf_graph_t *graph, const wf_uses_t *uses,
                          wf_node_id root, wf_node_id out_nodes[WF_PATTERN_MAX_NODES])
{
    const wf_node_t *node = wf_graph_node(graph, root);
    if (!pattern->is_root(graph, node)) {
        return 0;
    }
    assert(pattern->nodes_max <= WF_PATTERN_MAX_NODES);
    uint32_t count = 0;
    for (wf_node_id next = root; next != WF_NO_NODE;) {
        out_nodes[count++] = next;
        next = count < pattern->nodes_max ? chain_next(graph, uses, wf_graph_node(graph, next)) : WF_NO_NODE;
    }
    return count >= pattern->nodes_min ? count : 0;
}
