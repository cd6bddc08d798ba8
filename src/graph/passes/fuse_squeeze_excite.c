/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_squeeze_excite: wf.SqueezeExcite from x * act2(w2 act1(w1 mean(x) + b1) + b2), the mean over space,
 * the products being convolutions of 1x1 or Gemm with Reshapes around them. Everything but x is read here
 * only. */
#include "base/compiler.h"
#include "graph/linear.h"
#include "graph/match.h"
#include "graph/pass.h"

/* Activations that the operator knows, with their parameters in order. */
static const struct gate_activation {
    wf_op_t op;
    const char *parameters[2];
    float defaults[2];
} activations[] = {
    {WF_OP_RELU, {NULL, NULL}, {0}},
    {WF_OP_SIGMOID, {NULL, NULL}, {0}},
    {WF_OP_HARD_SIGMOID, {"alpha", "beta"}, {0.2f, 0.5f}},
    {WF_OP_SWISH, {"alpha", NULL}, {1.0f, 0}},
    {WF_OP_HARD_SWISH, {NULL, NULL}, {0}},
    {WF_OP_TANH, {NULL, NULL}, {0}},
    {WF_OP_LEAKY_RELU, {"alpha", NULL}, {0.01f, 0}},
};

typedef struct layer {
    wf_linear_t linear;
    wf_op_t activation;
    float parameters[2];
} layer_t;

typedef struct gate {
    wf_value_id x;
    layer_t layers[2];
} gate_t;

/* Past Reshapes between [N,C] and [N,C,1,1]. */
static wf_value_id skip_reshapes(const wf_graph_t *graph, wf_value_id value)
{
    for (;;) {
        const wf_node_t *reshape = wf_match_inner(graph, value, WF_OP_RESHAPE);
        if (reshape == NULL) {
            return value;
        }
        const wf_type_t *from = wf_value_type(graph, reshape->inputs[0]);
        const wf_type_t *to = wf_value_type(graph, value);
        if (from->rank < 2 || to->rank < 2 || from->dims[0] != to->dims[0] || from->dims[1] != to->dims[1] ||
            wf_type_elems(from) != from->dims[0] * from->dims[1]) {
            return value;
        }
        value = reshape->inputs[0];
    }
}

static bool is_pointwise(const wf_graph_t *graph, const wf_linear_t *linear)
{
    const wf_type_t *weight = wf_value_type(graph, linear->weight);
    if (linear->op == WF_OP_GEMM) {
        return wf_attrs_int(&linear->attrs, "transB", 0) == 0;
    }
    if (linear->op != WF_OP_CONV || wf_attrs_int(&linear->attrs, "group", 1) != 1) {
        return false;
    }
    for (uint32_t i = 2; i < weight->rank;
         i++) { /* on one pixel; equal dims of in and output mean no padding */
        if (weight->dims[i] != 1 || linear->type.dims[i] != 1 ||
            wf_value_type(graph, linear->x)->dims[i] != 1) {
            return false;
        }
    }
    return true;
}

/* value = activation(linear(..)); *out_input is what the linear operator reads. */
static bool match_layer(const wf_graph_t *graph, wf_value_id value, layer_t *layer, wf_value_id *out_input)
{
    value = skip_reshapes(graph, value);
    wf_node_id producer = wf_graph_value(graph, value)->producer;
    if (producer == WF_NO_NODE || !wf_match_interior(graph, value)) {
        return false;
    }
    const wf_node_t *node = wf_graph_node(graph, producer);
    const struct gate_activation *found = NULL;
    for (size_t i = 0; i < WF_COUNT_OF(activations); i++) {
        found = activations[i].op == node->op ? &activations[i] : found;
    }
    if (found == NULL) {
        return false;
    }
    layer->activation = node->op;
    for (int i = 0; i < 2; i++) {
        layer->parameters[i] = found->parameters[i] != NULL
                                   ? wf_attrs_float(&node->attrs, found->parameters[i], found->defaults[i])
                                   : 0.0f;
    }
    if (!wf_match_inner_linear(graph, skip_reshapes(graph, node->inputs[0]), false, &layer->linear) ||
        !is_pointwise(graph, &layer->linear)) {
        return false;
    }
    *out_input = skip_reshapes(graph, layer->linear.x);
    return true;
}

static bool match_pool(const wf_graph_t *graph, wf_value_id value, wf_value_id *out_x)
{
    uint32_t mask;
    const wf_node_t *pool = wf_match_inner(graph, value, WF_OP_GLOBAL_AVERAGE_POOL);
    if (pool != NULL) {
        *out_x = pool->inputs[0];
        return true;
    }
    const wf_node_t *mean = wf_match_inner(graph, value, WF_OP_REDUCE_MEAN);
    if (mean == NULL || !wf_match_reduce_axes(graph, mean, &mask)) {
        return false;
    }
    uint32_t rank = wf_value_type(graph, mean->inputs[0])->rank;
    *out_x = mean->inputs[0];
    return rank >= 3 && mask == (((1u << rank) - 1) & ~3u);
}

/* The gate has one number for each channel of x. */
static bool is_gate_type(const wf_type_t *gate, const wf_type_t *x)
{
    if (gate->rank != x->rank || gate->dims[0] != x->dims[0] || gate->dims[1] != x->dims[1]) {
        return false;
    }
    for (uint32_t i = 2; i < gate->rank; i++) {
        if (gate->dims[i] != 1) {
            return false;
        }
    }
    return true;
}

static bool match(const wf_graph_t *graph, const wf_node_t *root, gate_t *out_gate)
{
    for (uint32_t i = 0; root->op == WF_OP_MUL && i < 2; i++) {
        wf_value_id value = root->inputs[1 - i];
        gate_t gate = {.x = root->inputs[i]};
        wf_value_id x;
        if (value == gate.x || wf_value_type(graph, gate.x)->rank < 3 ||
            !is_gate_type(wf_value_type(graph, value), wf_value_type(graph, gate.x))) {
            continue;
        }
        if (match_layer(graph, value, &gate.layers[1], &value) &&
            match_layer(graph, value, &gate.layers[0], &value) && match_pool(graph, value, &x) &&
            x == gate.x) {
            *out_gate = gate;
            return true;
        }
    }
    return false;
}

/* Weight as [out, in] and bias, zeros when there is none. */
static wf_status_t emit_parameters(wf_graph_t *graph, const wf_linear_t *linear,
                                   const wf_parallel_t *parallel, wf_value_id *out_weight,
                                   wf_value_id *out_bias)
{
    static const int64_t turned[2] = {1, 0};
    wf_type_t matrix = {
        .dtype = linear->type.dtype, .rank = 2, .dims = {linear->out_channels, linear->in_channels}};
    wf_type_t vector = {.dtype = linear->type.dtype, .rank = 1, .dims = {linear->out_channels}};
    if (linear->op == WF_OP_GEMM) {
        WF_TRY(wf_emit_permuted_constant(graph, linear->weight, turned, parallel, out_weight));
    } else {
        WF_TRY(wf_emit_reshaped_constant(graph, linear->weight, &matrix, out_weight));
    }
    *out_bias = linear->bias;
    if (linear->bias == WF_NO_VALUE) {
        wf_tensor_t zeros;
        WF_TRY(
            wf_emit_constant(graph, wf_graph_value(graph, linear->weight)->name, &vector, &zeros, out_bias));
    }
    return WF_OK;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    static const char *const names[2][3] = {{"act1", "act1_a", "act1_b"}, {"act2", "act2_a", "act2_b"}};
    const wf_parallel_t *const *parallel = arg;
    gate_t gate;
    wf_attr_t attrs[6];
    if (!match(graph, wf_graph_node(graph, id), &gate)) {
        return WF_OK;
    }
    wf_value_id inputs[5] = {gate.x};
    wf_node_spec_t spec = {.op = WF_OP_W_SQUEEZE_EXCITE,
                           .attrs = attrs,
                           .attr_count = WF_COUNT_OF(attrs),
                           .inputs = inputs,
                           .input_count = WF_COUNT_OF(inputs)};
    for (int i = 0; i < 2; i++) {
        const layer_t *layer = &gate.layers[i];
        WF_TRY(emit_parameters(graph, &layer->linear, *parallel, &inputs[1 + 2 * i], &inputs[2 + 2 * i]));
        attrs[3 * i] = wf_attr_string(names[i][0], wf_op_problem_name(layer->activation));
        attrs[3 * i + 1] = wf_attr_float(names[i][1], (double)layer->parameters[0]);
        attrs[3 * i + 2] = wf_attr_float(names[i][2], (double)layer->parameters[1]);
    }
    WF_TRY(wf_join_names(graph, id, inputs, 1, &spec.onnx_names));
    (*changes)++;
    return wf_graph_change_node(graph, id, &spec);
}

WF_PASS(fuse_squeeze_excite)
{
    return wf_visit_nodes(graph, visit, &parallel, out_changes);
}
