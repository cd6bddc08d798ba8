/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/norm.h"

#include <math.h>

#include "base/compiler.h"
#include "graph/match.h"

/* ---- Matching ---- */

static bool axes_from_mask(uint32_t mask, uint32_t rank, wf_norm_axes_t *out_axes)
{
    uint32_t axis = 0;
    if (rank == 0 || mask == 0) {
        return false;
    }
    while (!(mask & (1u << axis))) {
        axis++;
    }
    uint32_t trailing = ((1u << rank) - 1) & ~((1u << axis) - 1);
    *out_axes = (wf_norm_axes_t){.channels = rank >= 3 && mask == 2, .axis = axis};
    return mask == trailing || out_axes->channels;
}

bool wf_match_mean(const wf_graph_t *graph, wf_value_id value, wf_value_id *out_of, wf_norm_axes_t *out_axes)
{
    uint32_t mask;
    const wf_node_t *mean = wf_match(graph, value, WF_OP_REDUCE_MEAN);
    if (mean == NULL || wf_attrs_int(&mean->attrs, "keepdims", 1) == 0 ||
        !wf_match_reduce_axes(graph, mean, &mask) ||
        !axes_from_mask(mask, wf_value_type(graph, mean->inputs[0])->rank, out_axes)) {
        return false;
    }
    *out_of = mean->inputs[0];
    return true;
}

/* value = variance + epsilon */
static bool match_stabilised(const wf_graph_t *graph, wf_value_id value, wf_value_id *out_variance,
                             double *out_epsilon)
{
    const wf_node_t *sum = wf_match_inner(graph, value, WF_OP_ADD);
    return sum != NULL && wf_match_with_scalar(graph, sum, out_variance, out_epsilon) && *out_epsilon > 0.0 &&
           wf_match_interior(graph, *out_variance) &&
           wf_match_attr_holds(wf_value_type(graph, value)->dtype, *out_epsilon);
}

static bool match_power(const wf_graph_t *graph, wf_value_id value, double exponent, wf_value_id *out_base)
{
    double actual;
    const wf_node_t *power = wf_match_inner(graph, value, WF_OP_POW);
    if (power == NULL || !wf_graph_scalar(graph, power->inputs[1], &actual) || actual != exponent) {
        return false;
    }
    *out_base = power->inputs[0];
    return true;
}

/* value = sqrt(variance + epsilon) */
static bool match_deviation(const wf_graph_t *graph, wf_value_id value, wf_value_id *out_variance,
                            double *out_epsilon)
{
    wf_value_id stabilised;
    const wf_node_t *root = wf_match_inner(graph, value, WF_OP_SQRT);
    if (root != NULL) {
        stabilised = root->inputs[0];
    } else if (!match_power(graph, value, 0.5, &stabilised)) {
        return false;
    }
    return match_stabilised(graph, stabilised, out_variance, out_epsilon);
}

/* The same for a value that need not be interior itself. */
static bool inverse(const wf_graph_t *graph, wf_value_id value, wf_value_id *out_variance,
                    double *out_epsilon)
{
    const wf_node_t *reciprocal = wf_match(graph, value, WF_OP_RECIPROCAL);
    if (reciprocal != NULL) {
        return match_deviation(graph, reciprocal->inputs[0], out_variance, out_epsilon);
    }
    double one;
    const wf_node_t *division = wf_match(graph, value, WF_OP_DIV);
    if (division != NULL && wf_graph_scalar(graph, division->inputs[0], &one)) {
        return one == 1.0 && match_deviation(graph, division->inputs[1], out_variance, out_epsilon);
    }
    wf_value_id base;
    return match_power(graph, value, -0.5, &base) && match_stabilised(graph, base, out_variance, out_epsilon);
}

bool wf_match_inverse_deviation(const wf_graph_t *graph, wf_value_id value, wf_value_id *out_variance,
                                double *out_epsilon)
{
    return wf_match_interior(graph, value) && inverse(graph, value, out_variance, out_epsilon);
}

bool wf_match_normalized(const wf_graph_t *graph, const wf_node_t *node, wf_value_id *out_numerator,
                         wf_value_id *out_variance, double *out_epsilon)
{
    if (node->op == WF_OP_DIV) {
        *out_numerator = node->inputs[0];
        return match_deviation(graph, node->inputs[1], out_variance, out_epsilon);
    }
    for (uint32_t i = 0; node->op == WF_OP_MUL && i < 2; i++) {
        if (wf_match_inverse_deviation(graph, node->inputs[1 - i], out_variance, out_epsilon)) {
            *out_numerator = node->inputs[i];
            return true;
        }
    }
    return false;
}

/* ---- Making ---- */

static wf_status_t emit_ones(wf_graph_t *graph, const wf_type_t *type, wf_value_id *out_value)
{
    wf_tensor_t tensor;
    WF_TRY(wf_emit_constant(graph, "ones", type, &tensor, out_value));
    int64_t elems = wf_type_elems(type);
    for (int64_t i = 0; i < elems; i++) {
        (void)wf_constant_set(&tensor, i, 1.0);
    }
    return WF_OK;
}

enum { ONNX_FLOAT = 1, ONNX_DOUBLE = 11 }; /* TensorProto.DataType, for stash_type */

static wf_status_t norm_at(wf_graph_t *graph, wf_node_id node, wf_op_t op, wf_value_id x, uint32_t axis,
                           double epsilon, const char *onnx_names)
{
    const wf_type_t *from = wf_value_type(graph, x);
    wf_type_t scale = {.dtype = from->dtype, .rank = from->rank - axis};
    for (uint32_t i = axis; i < from->rank; i++) {
        scale.dims[i - axis] = from->dims[i];
    }
    wf_value_id inputs[2] = {x, WF_NO_VALUE};
    WF_TRY(emit_ones(graph, &scale, &inputs[1]));
    wf_attr_t attrs[3] = {wf_attr_int("axis", axis), wf_attr_float("epsilon", epsilon),
                          wf_attr_int("stash_type", scale.dtype == WF_DTYPE_F64 ? ONNX_DOUBLE : ONNX_FLOAT)};
    wf_node_spec_t spec = {.op = op,
                           .attrs = attrs,
                           .attr_count = 3,
                           .inputs = inputs,
                           .input_count = 2,
                           .onnx_names = onnx_names};
    return wf_graph_change_node(graph, node, &spec);
}

wf_status_t wf_put_norm(wf_graph_t *graph, wf_node_id node, wf_op_t op, wf_value_id x, wf_norm_axes_t axes,
                        double epsilon, const char *onnx_names)
{
    uint32_t rank = wf_value_type(graph, x)->rank;
    if (!axes.channels || axes.axis == rank - 1) {
        return norm_at(graph, node, op, x, axes.axis, epsilon, onnx_names);
    }
    int64_t to_last[WF_MAX_RANK] = {0};
    int64_t back[WF_MAX_RANK] = {0, (int64_t)rank - 1};
    for (uint32_t i = 1; i < rank; i++) {
        to_last[i] = i + 1 < rank ? (int64_t)i + 1 : 1;
        back[i] = i == 1 ? (int64_t)rank - 1 : (int64_t)i - 1;
    }
    wf_value_id turned, normalised;
    const char *name = wf_graph_value(graph, wf_graph_node(graph, node)->outputs[0])->name;
    WF_TRY(wf_emit_transpose(graph, x, rank, to_last, onnx_names, name, &turned));
    WF_TRY(wf_emit_transpose(graph, turned, rank, back, onnx_names, name, &normalised));
    WF_TRY(norm_at(graph, wf_graph_value(graph, normalised)->producer, op, turned, rank - 1, epsilon,
                   onnx_names));
    wf_attr_t attr = wf_attr_ints("perm", back, rank);
    wf_node_spec_t spec = {.op = WF_OP_TRANSPOSE,
                           .attrs = &attr,
                           .attr_count = 1,
                           .inputs = &normalised,
                           .input_count = 1,
                           .onnx_names = onnx_names};
    return wf_graph_change_node(graph, node, &spec);
}

/* ---- Scale and bias ---- */

/* a * b + c by elements of the scale's type; a, b or c NULL for 1, 1, 0. */
static wf_status_t combine(wf_graph_t *graph, const wf_type_t *type, const wf_tensor_t *a,
                           const wf_tensor_t *b, const wf_tensor_t *c, const char *name,
                           wf_value_id *out_value)
{
    wf_tensor_t result;
    int64_t elems = wf_type_elems(type);
    WF_TRY(wf_emit_constant(graph, name, type, &result, out_value));
    for (int64_t i = 0; i < elems; i++) {
        double x = 1.0, y = 1.0, z = 0.0;
        (void)(a != NULL && wf_constant_get(a, wf_type_elems(&a->type) == 1 ? 0 : i, &x));
        (void)(b != NULL && wf_constant_get(b, wf_type_elems(&b->type) == 1 ? 0 : i, &y));
        (void)(c != NULL && wf_constant_get(c, wf_type_elems(&c->type) == 1 ? 0 : i, &z));
        (void)wf_constant_set(&result, i, (a != NULL ? x * y : 0.0) + z);
    }
    return WF_OK;
}

static bool is_ones(const wf_tensor_t *tensor)
{
    int64_t elems = wf_type_elems(&tensor->type);
    for (int64_t i = 0; i < elems; i++) {
        double value;
        if (!wf_constant_get(tensor, i, &value) || value != 1.0) {
            return false;
        }
    }
    return true;
}

/* The constant is a scalar or has exactly the normalised dims, leading dims of 1 apart. */
static bool has_norm_dims(const wf_type_t *constant, const wf_type_t *scale)
{
    if (wf_type_elems(constant) == 1) {
        return constant->rank <= scale->rank;
    }
    uint32_t extra = constant->rank > scale->rank ? constant->rank - scale->rank : 0;
    for (uint32_t i = 0; i < extra; i++) {
        if (constant->dims[i] != 1) {
            return false;
        }
    }
    for (uint32_t i = 0; i < scale->rank; i++) {
        if (constant->rank < scale->rank || constant->dims[i + extra] != scale->dims[i]) {
            return false;
        }
    }
    return true;
}

wf_status_t wf_norm_absorb(wf_graph_t *graph, wf_node_id id, wf_op_t op, bool *out_done)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_tensor_t scale, bias, constant;
    *out_done = false;
    if (node->op != WF_OP_MUL && (node->op != WF_OP_ADD || op != WF_OP_LAYER_NORMALIZATION)) {
        return WF_OK;
    }
    const wf_node_t *norm = wf_match_inner(graph, node->inputs[0], op);
    if (norm == NULL || norm->output_count > 1 || !wf_graph_constant(graph, node->inputs[1], &constant) ||
        !wf_graph_constant(graph, norm->inputs[1], &scale) ||
        !wf_type_equal(wf_value_type(graph, node->inputs[0]), wf_value_type(graph, node->outputs[0])) ||
        !has_norm_dims(&constant.type, &scale.type)) {
        return WF_OK;
    }
    wf_value_id old_bias = wf_node_input(norm, 2);
    bool biased = old_bias != WF_NO_VALUE;
    if (biased && (!wf_graph_constant(graph, old_bias, &bias) || !wf_type_equal(&bias.type, &scale.type))) {
        return WF_OK;
    }
    /* Scales and biases of short types would be rounded twice; one that is the first of its kind is exact. */
    bool exact = node->op == WF_OP_MUL ? is_ones(&scale) && !biased : !biased;
    if (!exact && scale.type.dtype != WF_DTYPE_F32 && scale.type.dtype != WF_DTYPE_F64) {
        return WF_OK;
    }
    wf_value_id inputs[3] = {norm->inputs[0], norm->inputs[1], old_bias};
    const wf_attrs_t attrs = norm->attrs;
    const char *name = wf_graph_value(graph, node->inputs[1])->name;
    bool whole = exact && wf_type_elems(&constant.type) == wf_type_elems(&scale.type);
    bool is_mul = node->op == WF_OP_MUL;
    if (whole) { /* the constant itself, with the dims of the scale */
        WF_TRY(wf_emit_reshaped_constant(graph, node->inputs[1], &scale.type, &inputs[is_mul ? 1 : 2]));
    } else if (is_mul) {
        WF_TRY(combine(graph, &scale.type, &scale, &constant, NULL, name, &inputs[1]));
        if (biased) {
            WF_TRY(combine(graph, &scale.type, &bias, &constant, NULL, name, &inputs[2]));
        }
    } else {
        WF_TRY(combine(graph, &scale.type, biased ? &bias : NULL, NULL, &constant, name, &inputs[2]));
    }
    wf_node_spec_t spec = {.op = op,
                           .attrs = attrs.items,
                           .attr_count = attrs.count,
                           .inputs = inputs,
                           .input_count = op == WF_OP_LAYER_NORMALIZATION ? 3 : 2};
    WF_TRY(wf_join_names(graph, id, &inputs[0], 1, &spec.onnx_names));
    *out_done = true;
    return wf_graph_change_node(graph, id, &spec);
}
