/* SPDX-License-Identifier: Apache-2.0 */
/* fold_scale_bias: constant Mul, Div, Add, Sub and Neg per channel go into the weights of the linear operator
 * before them, or, when there is none, after them. f32 and f64 only; computed in doubles and rounded once. A
 * bias before a convolution stays when the convolution pads: zeros of the padding would have to be shifted
 * with it. */
#include <math.h>

#include "base/compiler.h"
#include "graph/linear.h"
#include "graph/match.h"
#include "graph/pass.h"

/* Steps before an operator that are taken in one visit. */
enum { MAX_CHAIN = 8 };

/* y = scale * x + shift per channel; NULL for 1 and 0. */
typedef struct affine {
    wf_value_id x;
    double *scale, *shift;
    double *values[2]; /* owned */
    int64_t channels;
} affine_t;

static void affine_deinit(const wf_graph_t *graph, affine_t *self)
{
    for (int i = 0; i < 2; i++) {
        wf_free(graph->arena.allocator, self->values[i], (size_t)self->channels, sizeof(double));
    }
}

static wf_status_t affine_init(affine_t *self, const wf_graph_t *graph, int64_t channels)
{
    *self = (affine_t){.x = WF_NO_VALUE, .channels = channels};
    for (int i = 0; i < 2; i++) {
        wf_status_t status =
            wf_alloc(graph->arena.allocator, (size_t)channels, sizeof(double), &self->values[i]);
        if (status != WF_OK) {
            affine_deinit(graph, self);
            return status;
        }
    }
    return WF_OK;
}

static bool is_affine_op(wf_op_t op)
{
    return op == WF_OP_MUL || op == WF_OP_DIV || op == WF_OP_ADD || op == WF_OP_SUB || op == WF_OP_NEG;
}

/* The operand that is not constant; WF_NO_VALUE when the node is none of these. */
static wf_value_id affine_operand(const wf_graph_t *graph, const wf_node_t *node)
{
    if (!is_affine_op(node->op)) {
        return WF_NO_VALUE;
    }
    if (node->op == WF_OP_NEG) {
        return node->inputs[0];
    }
    bool first = wf_graph_value(graph, node->inputs[0])->constant != NULL;
    bool second = wf_graph_value(graph, node->inputs[1])->constant != NULL;
    if (first == second || (first && node->op == WF_OP_DIV)) {
        return WF_NO_VALUE;
    }
    wf_value_id x = node->inputs[first ? 1 : 0];
    return wf_type_equal(wf_value_type(graph, x), wf_value_type(graph, node->outputs[0])) ? x : WF_NO_VALUE;
}

/* Reads the node as scale and shift along dim `axis`. */
static bool match_affine(affine_t *self, const wf_graph_t *graph, const wf_node_t *node, uint32_t axis)
{
    self->x = affine_operand(graph, node);
    if (self->x == WF_NO_VALUE) {
        return false;
    }
    const wf_type_t *type = wf_value_type(graph, self->x);
    double *values = self->values[0];
    if (node->op == WF_OP_NEG) {
        for (int64_t i = 0; i < self->channels; i++) {
            values[i] = -1.0;
        }
        self->scale = values;
        return true;
    }
    bool first = node->inputs[0] != self->x;
    if (type->dims[axis] != self->channels ||
        !wf_match_channels(graph, node->inputs[first ? 0 : 1], type, axis, values)) {
        return false;
    }
    for (int64_t i = 0; i < self->channels; i++) {
        if (node->op == WF_OP_DIV) {
            values[i] = 1.0 / values[i];
        } else if (node->op == WF_OP_SUB && !first) {
            values[i] = -values[i];
        }
        if (!isfinite(values[i])) {
            return false;
        }
    }
    if (node->op == WF_OP_MUL || node->op == WF_OP_DIV) {
        self->scale = values;
        return true;
    }
    self->shift = values;
    if (node->op == WF_OP_SUB && first) { /* c - x */
        for (int64_t i = 0; i < self->channels; i++) {
            self->values[1][i] = -1.0;
        }
        self->scale = self->values[1];
    }
    return true;
}

/* A bias after a MatMul is where it belongs already. */
static bool is_in_place(const affine_t *affine, const wf_linear_t *linear)
{
    return linear->op == WF_OP_MATMUL && linear->bias == WF_NO_VALUE && affine->scale == NULL;
}

/* The node's operand is made by a linear operator for it alone. */
static wf_status_t fold_after(wf_graph_t *graph, wf_node_id id, bool *out_done)
{
    wf_linear_t linear;
    affine_t affine;
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_value_id x = affine_operand(graph, node);
    *out_done = false;
    if (x == WF_NO_VALUE || !wf_match_inner_linear(graph, x, true, &linear)) {
        return WF_OK;
    }
    WF_TRY(affine_init(&affine, graph, linear.out_channels));
    wf_status_t status = WF_OK;
    if (match_affine(&affine, graph, node, linear.out_axis) && !is_in_place(&affine, &linear)) {
        status = wf_linear_scale_output(graph, &linear, affine.scale, affine.shift, out_done);
    }
    if (status == WF_OK && *out_done) {
        status = wf_join_names(graph, id, &linear.x, 1, &linear.onnx_names);
    }
    if (status == WF_OK && *out_done) {
        status = wf_linear_put(graph, id, &linear);
    }
    affine_deinit(graph, &affine);
    return status;
}

/* A linear operator whose operand is made by such a node for it alone. */
static wf_status_t fold_before(wf_graph_t *graph, wf_node_id id, bool *out_done)
{
    wf_linear_t linear;
    affine_t affine;
    *out_done = false;
    if (!wf_match_linear(graph, id, true, &linear) || !wf_match_interior(graph, linear.x) ||
        wf_graph_value(graph, linear.x)->producer == WF_NO_NODE) {
        return WF_OK;
    }
    wf_node_id before = wf_graph_value(graph, linear.x)->producer;
    if (affine_operand(graph, wf_graph_node(graph, before)) == WF_NO_VALUE) {
        return WF_OK;
    }
    WF_TRY(affine_init(&affine, graph, linear.in_channels));
    wf_status_t status = WF_OK;
    if (match_affine(&affine, graph, wf_graph_node(graph, before), linear.in_axis) &&
        !(linear.op == WF_OP_MATMUL && affine.shift != NULL && linear.bias == WF_NO_VALUE)) {
        status = wf_linear_scale_input(graph, &linear, affine.scale, affine.shift, out_done);
    }
    if (status == WF_OK && *out_done) {
        linear.x = affine.x;
        status = wf_join_names(graph, id, &linear.x, 1, &linear.onnx_names);
    }
    if (status == WF_OK && *out_done) {
        status = wf_linear_put(graph, id, &linear);
    }
    /* Out of the way at once: what stands before it may be next. */
    if (status == WF_OK && *out_done &&
        wf_graph_value(graph, wf_graph_node(graph, before)->outputs[0])->use_count == 0) {
        wf_graph_remove_node(graph, before);
    }
    affine_deinit(graph, &affine);
    return status;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    bool done;
    (void)arg;
    WF_TRY(fold_after(graph, id, &done));
    *changes += done;
    for (int i = 0; i < MAX_CHAIN; i++) {
        WF_TRY(fold_before(graph, id, &done));
        *changes += done;
        if (!done) {
            break;
        }
    }
    return WF_OK;
}

WF_PASS(fold_scale_bias)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
