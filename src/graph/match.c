/* SPDX-License-Identifier: Apache-2.0 */
/* Looking backwards from values. */
#include "graph/match.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"

wf_node_t *wf_match(const wf_graph_t *graph, wf_value_id value, wf_op_t op)
{
    if (value == WF_NO_VALUE) {
        return NULL;
    }
    wf_node_id producer = wf_graph_value(graph, value)->producer;
    if (producer == WF_NO_NODE) {
        return NULL;
    }
    wf_node_t *node = wf_graph_node(graph, producer);
    return node->op == op ? node : NULL;
}

bool wf_match_interior(const wf_graph_t *graph, wf_value_id value)
{
    return value != WF_NO_VALUE && wf_graph_value(graph, value)->use_count == 1 &&
           !wf_graph_value(graph, value)->is_output;
}

wf_node_t *wf_match_inner(const wf_graph_t *graph, wf_value_id value, wf_op_t op)
{
    return wf_match_interior(graph, value) ? wf_match(graph, value, op) : NULL;
}

wf_node_id wf_match_user(const wf_graph_t *graph, wf_value_id value)
{
    const wf_value_t *looked = wf_graph_value(graph, value);
    if (looked->is_output || looked->uses == NULL) {
        return WF_NO_NODE;
    }
    for (const wf_use_t *use = looked->uses->next; use != NULL; use = use->next) {
        if (use->node != looked->uses->node) {
            return WF_NO_NODE;
        }
    }
    return looked->uses->node;
}

wf_value_id wf_node_input(const wf_node_t *node, uint32_t index)
{
    return index < node->input_count ? node->inputs[index] : WF_NO_VALUE;
}

const wf_type_t *wf_value_type(const wf_graph_t *graph, wf_value_id value)
{
    return &wf_graph_value(graph, value)->type;
}

/* ---- Scalars ---- */

double wf_match_tolerance(wf_dtype_t dtype)
{
    switch (dtype) {
    case WF_DTYPE_F64:
        return 1e-10;
    case WF_DTYPE_F32:
        return 1e-5;
    case WF_DTYPE_F16:
        return 0x1p-10;
    case WF_DTYPE_BF16:
        return 0x1p-7;
    default:
        return 0.0;
    }
}

bool wf_match_near(wf_dtype_t dtype, double actual, double wanted)
{
    return fabs(actual - wanted) <= wf_match_tolerance(dtype) * fabs(wanted);
}

bool wf_match_scalar(const wf_graph_t *graph, wf_value_id value, double wanted)
{
    double actual;
    return wf_graph_scalar(graph, value, &actual) &&
           wf_match_near(wf_value_type(graph, value)->dtype, actual, wanted);
}

bool wf_match_attr_holds(wf_dtype_t dtype, double value)
{
    return dtype != WF_DTYPE_F64 || (double)(float)value == value;
}

bool wf_match_with_scalar(const wf_graph_t *graph, const wf_node_t *node, wf_value_id *out_x,
                          double *out_scalar)
{
    if (node->input_count != 2 || node->inputs[0] == WF_NO_VALUE) {
        return false;
    }
    if (wf_graph_scalar(graph, node->inputs[1], out_scalar)) {
        *out_x = node->inputs[0];
        return true;
    }
    if ((wf_op_info(node->op)->flags & WF_OP_FLAG_COMM) &&
        wf_graph_scalar(graph, node->inputs[0], out_scalar)) {
        *out_x = node->inputs[1];
        return true;
    }
    return false;
}

bool wf_match_other(const wf_node_t *node, wf_value_id value, wf_value_id *out_other)
{
    if (node->input_count != 2 || (node->inputs[0] != value && node->inputs[1] != value)) {
        return false;
    }
    *out_other = node->inputs[node->inputs[0] == value ? 1 : 0];
    return true;
}

/* ---- Products ---- */

enum { PRODUCT_NODES = 8 };

/* Puts the operands of a node of the product on the stack; false when it is no such node. */
static bool product_expand(const wf_graph_t *graph, const wf_node_t *node, wf_product_t *product,
                           wf_value_id *stack, uint32_t *depth)
{
    double divisor;
    switch (node->op) {
    case WF_OP_MUL:
        stack[(*depth)++] = node->inputs[1];
        stack[(*depth)++] = node->inputs[0];
        return true;
    case WF_OP_DIV:
        if (!wf_graph_scalar(graph, node->inputs[1], &divisor) || divisor == 0.0) {
            return false;
        }
        product->coefficient /= divisor;
        stack[(*depth)++] = node->inputs[0];
        return true;
    case WF_OP_NEG:
        product->coefficient = -product->coefficient;
        stack[(*depth)++] = node->inputs[0];
        return true;
    default:
        return false;
    }
}

bool wf_match_product(const wf_graph_t *graph, const wf_node_t *root, wf_product_t *out_product)
{
    wf_product_t product = {.coefficient = 1.0};
    wf_value_id stack[2 * PRODUCT_NODES];
    uint32_t depth = 0;
    uint32_t nodes = 1;
    if (!product_expand(graph, root, &product, stack, &depth)) {
        return false;
    }
    while (depth > 0) {
        wf_value_id value = stack[--depth];
        double scalar;
        if (wf_graph_scalar(graph, value, &scalar)) {
            product.coefficient *= scalar;
            continue;
        }
        wf_node_id producer = wf_graph_value(graph, value)->producer;
        if (producer != WF_NO_NODE && nodes < PRODUCT_NODES && wf_match_interior(graph, value) &&
            product_expand(graph, wf_graph_node(graph, producer), &product, stack, &depth)) {
            nodes++;
            continue;
        }
        if (product.count == WF_PRODUCT_MAX) {
            return false;
        }
        product.factors[product.count++] = value;
    }
    *out_product = product;
    return true;
}

/* ---- Polynomials ---- */

enum { POLY_DEPTH = 8, POLY_NODES = 24 };

static bool poly_multiply(const wf_poly_t *a, const wf_poly_t *b, wf_poly_t *out)
{
    wf_poly_t result = {{0}};
    for (int i = 0; i < WF_POLY_TERMS; i++) {
        for (int j = 0; j < WF_POLY_TERMS; j++) {
            double term = a->c[i] * b->c[j];
            if (i + j < WF_POLY_TERMS) {
                result.c[i + j] += term;
            } else if (term != 0.0) {
                return false;
            }
        }
    }
    *out = result;
    return true;
}

static bool poly_power(const wf_poly_t *base, double exponent, wf_poly_t *out)
{
    wf_poly_t result = {{1.0}};
    if (!(exponent >= 1.0 && exponent < WF_POLY_TERMS) || exponent != floor(exponent)) {
        return false;
    }
    for (int i = 0; i < (int)exponent; i++) {
        if (!poly_multiply(&result, base, &result)) {
            return false;
        }
    }
    *out = result;
    return true;
}

/* Recursion is bounded by POLY_DEPTH, work by the budget of nodes. */
static bool poly(const wf_graph_t *graph, wf_value_id value, wf_value_id leaf, int depth, int *budget,
                 wf_poly_t *out)
{
    double scalar;
    *out = (wf_poly_t){{0}};
    if (value == leaf) {
        out->c[1] = 1.0;
        return true;
    }
    if (value == WF_NO_VALUE) {
        return false;
    }
    if (wf_graph_scalar(graph, value, &scalar)) {
        out->c[0] = scalar;
        return true;
    }
    wf_node_id producer = wf_graph_value(graph, value)->producer;
    if (producer == WF_NO_NODE || depth == POLY_DEPTH || --*budget < 0) {
        return false;
    }
    const wf_node_t *node = wf_graph_node(graph, producer);
    wf_poly_t a, b;
    bool two = node->op == WF_OP_ADD || node->op == WF_OP_SUB || node->op == WF_OP_MUL;
    if (two) {
        if (!poly(graph, node->inputs[0], leaf, depth + 1, budget, &a) ||
            !poly(graph, node->inputs[1], leaf, depth + 1, budget, &b)) {
            return false;
        }
        if (node->op == WF_OP_MUL) {
            return poly_multiply(&a, &b, out);
        }
        for (int i = 0; i < WF_POLY_TERMS; i++) {
            out->c[i] = node->op == WF_OP_ADD ? a.c[i] + b.c[i] : a.c[i] - b.c[i];
        }
        return true;
    }
    double factor;
    if (node->op == WF_OP_NEG) {
        factor = -1.0;
    } else if ((node->op == WF_OP_DIV || node->op == WF_OP_POW) &&
               wf_graph_scalar(graph, node->inputs[1], &scalar) && scalar != 0.0) {
        factor = 1.0 / scalar;
    } else {
        return false;
    }
    if (!poly(graph, node->inputs[0], leaf, depth + 1, budget, &a)) {
        return false;
    }
    if (node->op == WF_OP_POW) {
        return poly_power(&a, scalar, out);
    }
    for (int i = 0; i < WF_POLY_TERMS; i++) {
        out->c[i] = a.c[i] * factor;
    }
    return true;
}

bool wf_match_poly(const wf_graph_t *graph, wf_value_id value, wf_value_id leaf, wf_poly_t *out_poly)
{
    int budget = POLY_NODES;
    return poly(graph, value, leaf, 0, &budget, out_poly);
}

/* ---- Limits ---- */

static bool limit(const wf_graph_t *graph, const wf_node_t *node, const char *name, uint32_t input,
                  double *value)
{
    const wf_attr_t *attr = wf_attrs_find(&node->attrs, name);
    if (attr != NULL) {
        *value = (double)attr->v.f;
        return true;
    }
    return wf_node_input(node, input) == WF_NO_VALUE || wf_graph_scalar(graph, node->inputs[input], value);
}

bool wf_match_limits(const wf_graph_t *graph, const wf_node_t *node, double *out_low, double *out_high)
{
    *out_low = node->op == WF_OP_RELU ? 0.0 : -(double)INFINITY;
    *out_high = (double)INFINITY;
    return node->op == WF_OP_RELU ||
           (limit(graph, node, "min", 1, out_low) && limit(graph, node, "max", 2, out_high));
}

/* ---- Channels, axes ---- */

bool wf_match_channels(const wf_graph_t *graph, wf_value_id value, const wf_type_t *type, uint32_t axis,
                       double *out_values)
{
    wf_tensor_t tensor;
    if (!wf_graph_constant(graph, value, &tensor) || tensor.type.rank > type->rank || axis >= type->rank) {
        return false;
    }
    int64_t channels = type->dims[axis];
    uint32_t shift = type->rank - tensor.type.rank;
    bool varies = false;
    for (uint32_t i = 0; i < tensor.type.rank; i++) {
        int64_t dim = tensor.type.dims[i];
        if (dim == 1) {
            continue;
        }
        if (i + shift != axis || dim != channels) {
            return false;
        }
        varies = true;
    }
    for (int64_t i = 0; i < channels; i++) {
        if (!wf_constant_get(&tensor, varies ? i : 0, &out_values[i])) {
            return false;
        }
    }
    return true;
}

bool wf_match_axis(int64_t axis, uint32_t rank, uint32_t *out_axis)
{
    int64_t wrapped = axis < 0 ? axis + (int64_t)rank : axis;
    if (wrapped < 0 || wrapped >= (int64_t)rank) {
        return false;
    }
    *out_axis = (uint32_t)wrapped;
    return true;
}

bool wf_match_reduce_axes(const wf_graph_t *graph, const wf_node_t *node, uint32_t *out_mask)
{
    uint32_t rank = wf_value_type(graph, node->inputs[0])->rank;
    size_t count;
    const int64_t *axes = wf_attrs_ints(&node->attrs, "axes", &count);
    if (wf_node_input(node, 1) != WF_NO_VALUE) {
        return false;
    }
    *out_mask = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t axis;
        if (!wf_match_axis(axes[i], rank, &axis)) {
            return false;
        }
        *out_mask |= 1u << axis;
    }
    if (count == 0 && wf_attrs_int(&node->attrs, "noop_with_empty_axes", 0) == 0) {
        *out_mask = (1u << rank) - 1;
    }
    return true;
}

void wf_match_perm(const wf_node_t *node, uint32_t rank, int64_t out_perm[WF_MAX_RANK])
{
    size_t count;
    const int64_t *perm = wf_attrs_ints(&node->attrs, "perm", &count);
    for (uint32_t i = 0; i < rank; i++) {
        out_perm[i] = count == rank ? perm[i] : (int64_t)(rank - 1 - i);
    }
}
