/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/linear.h"

#include <math.h>

#include "base/compiler.h"
#include "graph/match.h"

/* Shared weights may be kept twice up to this size. */
#define SHARED_WEIGHT_BYTES ((int64_t)16 << 20)

/* ---- Matching ---- */

static bool is_arithmetic_type(wf_dtype_t dtype)
{
    return dtype == WF_DTYPE_F32 || dtype == WF_DTYPE_F64;
}

static bool match_weight(const wf_graph_t *graph, const wf_node_t *node, wf_linear_t *linear)
{
    wf_tensor_t weight;
    if (!wf_graph_constant(graph, wf_node_input(node, 1), &weight) || weight.type.rank < 2 ||
        wf_graph_value(graph, node->inputs[0])->constant != NULL) {
        return false;
    }
    linear->x = node->inputs[0];
    linear->weight = node->inputs[1];
    linear->bias = wf_node_input(node, 2);
    uint32_t x_rank = wf_value_type(graph, linear->x)->rank;
    bool plain = wf_attrs_float(&node->attrs, "alpha", 1.0f) == 1.0f &&
                 wf_attrs_float(&node->attrs, "beta", 1.0f) == 1.0f &&
                 wf_attrs_int(&node->attrs, "transA", 0) == 0;
    switch (node->op) {
    case WF_OP_CONV:
    case WF_OP_CONV_TRANSPOSE:
        linear->in_axis = linear->out_axis = 1;
        return true;
    case WF_OP_GEMM:
        linear->in_axis = linear->out_axis = 1;
        return plain;
    case WF_OP_MATMUL:
        linear->in_axis = linear->out_axis = x_rank - 1;
        return weight.type.rank == 2 && x_rank >= 2;
    default:
        return false;
    }
}

bool wf_match_linear(const wf_graph_t *graph, wf_node_id id, bool for_arithmetic, wf_linear_t *out_linear)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    const wf_node_t *product = node;
    wf_tensor_t bias;
    if (node->op == WF_OP_ADD && wf_graph_constant(graph, node->inputs[1], &bias)) {
        product = wf_match_inner(graph, node->inputs[0], WF_OP_MATMUL);
    }
    if (product == NULL) {
        return false;
    }
    wf_linear_t linear = {
        .node = id, .op = product->op, .attrs = product->attrs, .onnx_names = node->onnx_names};
    linear.type = *wf_value_type(graph, node->outputs[0]);
    if ((for_arithmetic && !is_arithmetic_type(linear.type.dtype)) ||
        wf_match_tolerance(linear.type.dtype) == 0.0 || !match_weight(graph, product, &linear)) {
        return false;
    }
    linear.in_channels = wf_value_type(graph, linear.x)->dims[linear.in_axis];
    linear.out_channels = linear.type.dims[linear.out_axis];
    if (product != node) { /* the Add: a bias per column, nothing enlarged */
        if (bias.type.rank != 1 || bias.type.dims[0] != linear.out_channels ||
            !wf_type_equal(&linear.type, wf_value_type(graph, node->inputs[0]))) {
            return false;
        }
        linear.bias = node->inputs[1];
    }
    /* Gemm allows other biases than one per column. */
    if (linear.bias != WF_NO_VALUE && (!wf_graph_constant(graph, linear.bias, &bias) || bias.type.rank != 1 ||
                                       bias.type.dims[0] != linear.out_channels)) {
        return false;
    }
    *out_linear = linear;
    return true;
}

bool wf_match_inner_linear(const wf_graph_t *graph, wf_value_id value, bool for_arithmetic,
                           wf_linear_t *out_linear)
{
    return wf_match_interior(graph, value) && wf_graph_value(graph, value)->producer != WF_NO_NODE &&
           wf_match_linear(graph, wf_graph_value(graph, value)->producer, for_arithmetic, out_linear);
}

/* ---- Weights as [d0][d1][rest] ---- */

typedef struct weight_walk {
    int64_t d0, d1, rest;
    int64_t groups;
    bool out_first; /* output channels along d0, else along d1 */
} weight_walk_t;

static weight_walk_t walk_weight(const wf_linear_t *linear, const wf_type_t *type)
{
    weight_walk_t walk = {.d0 = type->dims[0], .d1 = type->dims[1], .rest = 1, .groups = 1};
    for (uint32_t i = 2; i < type->rank; i++) {
        walk.rest *= type->dims[i];
    }
    bool conv = linear->op == WF_OP_CONV || linear->op == WF_OP_CONV_TRANSPOSE;
    walk.groups = conv ? wf_attrs_int(&linear->attrs, "group", 1) : 1;
    walk.out_first = linear->op == WF_OP_CONV ||
                     (linear->op == WF_OP_GEMM && wf_attrs_int(&linear->attrs, "transB", 0) != 0);
    return walk;
}

/* Channel of the grouped dim: d0 lies in group d0 / (D0 / groups), d1 counts within the group. */
static int64_t grouped_channel(const weight_walk_t *walk, int64_t i0, int64_t i1)
{
    return i0 / (walk->d0 / walk->groups) * walk->d1 + i1;
}

static int64_t out_channel(const weight_walk_t *walk, int64_t i0, int64_t i1)
{
    return walk->out_first ? i0 : grouped_channel(walk, i0, i1);
}

static int64_t in_channel(const weight_walk_t *walk, int64_t i0, int64_t i1)
{
    return walk->out_first ? grouped_channel(walk, i0, i1) : i0;
}

static bool may_copy(const wf_graph_t *graph, const wf_linear_t *linear)
{
    const wf_value_t *weight = wf_graph_value(graph, linear->weight);
    return weight->use_count == 1 || wf_type_bytes(&weight->type) <= SHARED_WEIGHT_BYTES;
}

/* The largest finite value of the type. */
static double type_max(wf_dtype_t dtype)
{
    return dtype == WF_DTYPE_F32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
}

typedef int64_t channel_fn(const weight_walk_t *walk, int64_t i0, int64_t i1);

/* A new weight, each element times the scale of its channel; *out_done false when one is not finite. */
static wf_status_t scale_weight(wf_graph_t *graph, wf_linear_t *linear, const double *scale,
                                channel_fn *channel, bool *out_done)
{
    wf_tensor_t from, to;
    wf_value_id scaled;
    (void)wf_graph_constant(graph, linear->weight, &from);
    weight_walk_t walk = walk_weight(linear, &from.type);
    double limit = type_max(from.type.dtype);
    *out_done = true;
    WF_TRY(wf_emit_constant(graph, wf_graph_value(graph, linear->weight)->name, &from.type, &to, &scaled));
    for (int64_t i0 = 0; i0 < walk.d0; i0++) {
        for (int64_t i1 = 0; i1 < walk.d1; i1++) {
            double factor = scale[channel(&walk, i0, i1)];
            int64_t first = (i0 * walk.d1 + i1) * walk.rest;
            for (int64_t i = first; i < first + walk.rest; i++) {
                double value = 0.0;
                (void)wf_constant_get(&from, i, &value);
                double product = value * factor;
                *out_done = *out_done && fabs(product) <= limit;
                (void)wf_constant_set(&to, i, product);
            }
        }
    }
    if (*out_done) {
        linear->weight = scaled;
    }
    return WF_OK;
}

/* Bias as doubles (zeros when there is none); freed with wf_free. */
static wf_status_t load_bias(const wf_graph_t *graph, const wf_linear_t *linear, double **out_bias)
{
    wf_tensor_t tensor;
    WF_TRY(wf_alloc(graph->arena.allocator, (size_t)linear->out_channels, sizeof **out_bias, out_bias));
    if (wf_graph_constant(graph, linear->bias, &tensor)) {
        for (int64_t i = 0; i < linear->out_channels; i++) {
            (void)wf_constant_get(&tensor, i, &(*out_bias)[i]);
        }
    }
    return WF_OK;
}

static wf_status_t store_bias(wf_graph_t *graph, wf_linear_t *linear, const double *bias)
{
    wf_type_t type = {.dtype = linear->type.dtype, .rank = 1, .dims = {linear->out_channels}};
    const char *name =
        wf_graph_value(graph, linear->bias != WF_NO_VALUE ? linear->bias : linear->weight)->name;
    return wf_emit_doubles(graph, name, &type, bias, &linear->bias);
}

static bool all_finite(const double *values, int64_t count, double limit)
{
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs(values[i]) <= limit)) {
            return false;
        }
    }
    return true;
}

wf_status_t wf_linear_scale_output(wf_graph_t *graph, wf_linear_t *linear, const double *scale,
                                   const double *shift, bool *out_done)
{
    double *bias = NULL;
    wf_linear_t result = *linear;
    *out_done = false;
    if (scale != NULL && !may_copy(graph, linear)) {
        return WF_OK;
    }
    WF_TRY(load_bias(graph, linear, &bias));
    for (int64_t i = 0; i < linear->out_channels; i++) {
        bias[i] = bias[i] * (scale != NULL ? scale[i] : 1.0) + (shift != NULL ? shift[i] : 0.0);
    }
    bool finite = all_finite(bias, linear->out_channels, type_max(linear->type.dtype));
    wf_status_t status = WF_OK;
    if (finite && scale != NULL) {
        status = scale_weight(graph, &result, scale, out_channel, &finite);
    }
    if (status == WF_OK && finite && (linear->bias != WF_NO_VALUE || shift != NULL)) {
        status = store_bias(graph, &result, bias);
    }
    wf_free(graph->arena.allocator, bias, (size_t)linear->out_channels, sizeof *bias);
    if (status == WF_OK && finite) {
        *linear = result;
        *out_done = true;
    }
    return status;
}

/* ---- Input side ---- */

/* A shifted input is shifted in its padding too only when there is none. */
static bool has_padding(const wf_graph_t *graph, const wf_linear_t *linear)
{
    wf_window_t window;
    if (linear->op == WF_OP_GEMM || linear->op == WF_OP_MATMUL) {
        return false;
    }
    if (linear->op != WF_OP_CONV) { /* the border of a transposed convolution sees fewer inputs */
        return true;
    }
    wf_status_t status = wf_window_resolve(linear->op, &linear->attrs, wf_value_type(graph, linear->x),
                                           wf_value_type(graph, linear->weight), &window);
    bool padded = status != WF_OK;
    wf_status_free(status);
    for (uint32_t i = 0; !padded && i < window.spatial_rank; i++) {
        padded = window.pad_begin[i] != 0 || window.pad_end[i] != 0;
    }
    return padded;
}

/* bias += weight * shift */
static void shift_bias(const wf_graph_t *graph, const wf_linear_t *linear, const double *shift, double *bias)
{
    wf_tensor_t weight;
    (void)wf_graph_constant(graph, linear->weight, &weight);
    weight_walk_t walk = walk_weight(linear, &weight.type);
    for (int64_t i0 = 0; i0 < walk.d0; i0++) {
        for (int64_t i1 = 0; i1 < walk.d1; i1++) {
            double sum = 0.0;
            int64_t first = (i0 * walk.d1 + i1) * walk.rest;
            for (int64_t i = first; i < first + walk.rest; i++) {
                double value = 0.0;
                (void)wf_constant_get(&weight, i, &value);
                sum += value;
            }
            bias[out_channel(&walk, i0, i1)] += sum * shift[in_channel(&walk, i0, i1)];
        }
    }
}

wf_status_t wf_linear_scale_input(wf_graph_t *graph, wf_linear_t *linear, const double *scale,
                                  const double *shift, bool *out_done)
{
    wf_linear_t result = *linear;
    bool finite = true;
    *out_done = false;
    if ((scale != NULL && !may_copy(graph, linear)) || (shift != NULL && has_padding(graph, linear))) {
        return WF_OK;
    }
    if (shift != NULL) { /* by the weights before they are scaled */
        double *bias = NULL;
        WF_TRY(load_bias(graph, linear, &bias));
        shift_bias(graph, linear, shift, bias);
        finite = all_finite(bias, linear->out_channels, type_max(linear->type.dtype));
        wf_status_t status = finite ? store_bias(graph, &result, bias) : WF_OK;
        wf_free(graph->arena.allocator, bias, (size_t)linear->out_channels, sizeof *bias);
        WF_TRY(status);
    }
    if (finite && scale != NULL) {
        WF_TRY(scale_weight(graph, &result, scale, in_channel, &finite));
    }
    if (finite) {
        *linear = result;
        *out_done = true;
    }
    return WF_OK;
}

/* ---- Putting ---- */

wf_status_t wf_linear_put(wf_graph_t *graph, wf_node_id at, const wf_linear_t *linear)
{
    wf_value_id inputs[3] = {linear->x, linear->weight, linear->bias};
    wf_node_spec_t spec = {.op = linear->op,
                           .attrs = linear->attrs.items,
                           .attr_count = linear->attrs.count,
                           .inputs = inputs,
                           .input_count = linear->bias != WF_NO_VALUE ? 3 : 2,
                           .output_count = 1,
                           .onnx_names = linear->onnx_names};
    if (linear->op == WF_OP_MATMUL && linear->bias != WF_NO_VALUE) {
        wf_value_id product;
        spec.input_count = 2;
        const char *name = wf_graph_value(graph, wf_graph_node(graph, at)->outputs[0])->name;
        WF_TRY(wf_emit(graph, &spec, name, &product));
        inputs[0] = product;
        inputs[1] = linear->bias;
        spec = (wf_node_spec_t){
            .op = WF_OP_ADD, .inputs = inputs, .input_count = 2, .onnx_names = linear->onnx_names};
    }
    return wf_graph_change_node(graph, at, &spec);
}
