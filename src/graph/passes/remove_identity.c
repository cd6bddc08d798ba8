/* SPDX-License-Identifier: Apache-2.0 */
/* remove_identity: a node that gives back its input, bit for bit, disappears.
 *
 * x + 0 is not among them for floats: it turns -0 into +0. x + (-0), x * 1 and x / 1 are exact. */
#include <math.h>

#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

/* True when the constant's elements are all `wanted`, the sign of zero included. */
static bool is_filled(const wf_graph_t *graph, wf_value_id value, double wanted)
{
    wf_tensor_t tensor;
    if (!wf_graph_constant(graph, value, &tensor)) {
        return false;
    }
    int64_t elems = wf_type_elems(&tensor.type);
    for (int64_t i = 0; i < elems; i++) {
        double actual;
        if (!wf_constant_get(&tensor, i, &actual) || actual != wanted || signbit(actual) != signbit(wanted)) {
            return false;
        }
    }
    return true;
}

static bool is_float(const wf_graph_t *graph, wf_value_id value)
{
    return wf_match_tolerance(wf_value_type(graph, value)->dtype) > 0.0;
}

/* ---- When is a node with output type == first input's type an identity? ---- */

static bool always(const wf_graph_t *graph, const wf_node_t *node)
{
    (void)graph;
    (void)node;
    return true;
}

static bool dropout(const wf_graph_t *graph, const wf_node_t *node)
{
    double training = 0.0;
    bool mask_used = node->output_count > 1 && node->outputs[1] != WF_NO_VALUE &&
                     wf_graph_value(graph, node->outputs[1])->use_count > 0;
    wf_value_id mode = wf_node_input(node, 2);
    return !mask_used &&
           (mode == WF_NO_VALUE || (wf_graph_scalar(graph, mode, &training) && training == 0.0));
}

/* The neutral element of the second operand (or either, when commutative) by element class. */
static bool neutral(const wf_graph_t *graph, const wf_node_t *node)
{
    double wanted = node->op == WF_OP_MUL || node->op == WF_OP_DIV || node->op == WF_OP_POW ? 1.0 : 0.0;
    if (node->op == WF_OP_ADD && is_float(graph, node->inputs[0])) {
        wanted = -0.0;
    }
    return is_filled(graph, node->inputs[1], wanted);
}

static bool transpose(const wf_graph_t *graph, const wf_node_t *node)
{
    int64_t perm[WF_MAX_RANK];
    uint32_t rank = wf_value_type(graph, node->inputs[0])->rank;
    wf_match_perm(node, rank, perm);
    for (uint32_t i = 0; i < rank; i++) {
        if (perm[i] != (int64_t)i) {
            return false;
        }
    }
    return true;
}

/* Same dims and steps forward: nothing was cut. */
static bool slice(const wf_graph_t *graph, const wf_node_t *node)
{
    size_t count;
    const int64_t *steps = wf_attrs_ints(&node->attrs, "steps", &count);
    (void)graph;
    if (wf_node_input(node, 4) != WF_NO_VALUE) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (steps[i] <= 0) {
            return false;
        }
    }
    return true;
}

static bool pad(const wf_graph_t *graph, const wf_node_t *node)
{
    size_t count;
    const int64_t *pads = wf_attrs_ints(&node->attrs, "pads", &count);
    (void)graph;
    for (size_t i = 0; i < count; i++) {
        if (pads[i] != 0) {
            return false;
        }
    }
    return wf_attrs_find(&node->attrs, "pads") != NULL;
}

static bool single_input(const wf_graph_t *graph, const wf_node_t *node)
{
    (void)graph;
    return node->input_count == 1;
}

static bool single_output(const wf_graph_t *graph, const wf_node_t *node)
{
    (void)graph;
    return node->output_count == 1;
}

static bool clip(const wf_graph_t *graph, const wf_node_t *node)
{
    (void)graph;
    return node->attrs.count == 0 && wf_node_input(node, 1) == WF_NO_VALUE &&
           wf_node_input(node, 2) == WF_NO_VALUE;
}

/* A window of one element, moved by one, without padding. */
static bool pool(const wf_graph_t *graph, const wf_node_t *node)
{
    wf_window_t window;
    bool indices = node->output_count > 1 && node->outputs[1] != WF_NO_VALUE;
    wf_status_t status =
        wf_window_resolve(node->op, &node->attrs, wf_value_type(graph, node->inputs[0]), NULL, &window);
    bool resolved = status == WF_OK;
    wf_status_free(status);
    for (uint32_t i = 0; resolved && i < window.spatial_rank; i++) {
        resolved = window.kernel[i] == 1 && window.stride[i] == 1 && window.pad_begin[i] == 0 &&
                   window.pad_end[i] == 0;
    }
    return resolved && !indices;
}

typedef bool identity_fn(const wf_graph_t *graph, const wf_node_t *node);
static const struct {
    wf_op_t op;
    identity_fn *is_identity;
} rules[] = {
    {WF_OP_IDENTITY, always},
    {WF_OP_CAST, always},
    {WF_OP_CAST_LIKE, always},
    {WF_OP_RESHAPE, always},
    {WF_OP_FLATTEN, always},
    {WF_OP_SQUEEZE, always},
    {WF_OP_UNSQUEEZE, always},
    {WF_OP_EXPAND, always},
    {WF_OP_TILE, always},
    {WF_OP_GLOBAL_MAX_POOL, always},
    {WF_OP_GLOBAL_AVERAGE_POOL, always},
    {WF_OP_DROPOUT, dropout},
    {WF_OP_TRANSPOSE, transpose},
    {WF_OP_SLICE, slice},
    {WF_OP_PAD, pad},
    {WF_OP_CONCAT, single_input},
    {WF_OP_SUM, single_input},
    {WF_OP_MEAN, single_input},
    {WF_OP_MAX, single_input},
    {WF_OP_MIN, single_input},
    {WF_OP_SPLIT, single_output},
    {WF_OP_CLIP, clip},
    {WF_OP_AVERAGE_POOL, pool},
    {WF_OP_MAX_POOL, pool},
    {WF_OP_ADD, neutral},
    {WF_OP_SUB, neutral},
    {WF_OP_MUL, neutral},
    {WF_OP_DIV, neutral},
    {WF_OP_POW, neutral},
};

static bool is_identity(const wf_graph_t *graph, const wf_node_t *node)
{
    for (size_t i = 0; i < WF_COUNT_OF(rules); i++) {
        if (rules[i].op == node->op) {
            return rules[i].is_identity(graph, node);
        }
    }
    return false;
}

/* A graph output that cannot take its input's place: the Identity is what makes it. */
static bool must_stay(const wf_graph_t *graph, const wf_node_t *node)
{
    const wf_value_t *from = wf_graph_value(graph, node->inputs[0]);
    bool taken = from->is_input || from->is_output || from->constant != NULL;
    return wf_graph_value(graph, node->outputs[0])->is_output && taken;
}

/* A Transpose that moves only dims of 1 leaves the bytes where they are. */
static bool is_reshape(const wf_graph_t *graph, const wf_node_t *node)
{
    int64_t perm[WF_MAX_RANK];
    const wf_type_t *type = wf_value_type(graph, node->inputs[0]);
    int64_t last = -1;
    wf_match_perm(node, type->rank, perm);
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->dims[perm[i]] != 1) {
            if (perm[i] < last) {
                return false;
            }
            last = perm[i];
        }
    }
    return true;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    (void)arg;
    if (node->input_count == 0 || node->inputs[0] == WF_NO_VALUE || node->output_count == 0 ||
        node->outputs[0] == WF_NO_VALUE || !wf_graph_value(graph, node->outputs[0])->type_known ||
        !wf_graph_value(graph, node->inputs[0])->type_known) {
        return WF_OK;
    }
    const wf_type_t *from = wf_value_type(graph, node->inputs[0]);
    bool identity = wf_type_equal(from, wf_value_type(graph, node->outputs[0])) && is_identity(graph, node);
    if (!identity) {
        if (node->op == WF_OP_TRANSPOSE && is_reshape(graph, node)) {
            (*changes)++;
            return wf_change_to_reshape(graph, id, node->inputs[0]);
        }
        return WF_OK;
    }
    if (must_stay(graph, node)) {
        if (node->op == WF_OP_IDENTITY) {
            return WF_OK;
        }
        (*changes)++;
        wf_value_id input = node->inputs[0];
        wf_node_spec_t spec = {.op = WF_OP_IDENTITY, .inputs = &input, .input_count = 1, .output_count = 1};
        return wf_graph_change_node(graph, id, &spec);
    }
    (*changes)++;
    WF_TRY(wf_graph_replace_uses(graph, node->outputs[0], node->inputs[0]));
    wf_graph_remove_node(graph, id);
    return WF_OK;
}

WF_PASS(remove_identity)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
