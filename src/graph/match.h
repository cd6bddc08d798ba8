/* SPDX-License-Identifier: Apache-2.0 */
/* What passes are written with: looking backwards from a value, and making nodes and constants.
 *
 * Passes visit the nodes that were there when they began, in order, and rewrite a pattern at its last node:
 * that node is changed in place (wf_graph_change_node), so values keep their names and no use has to move.
 * New nodes are appended; a pass that changed anything ends with wf_graph_sort. Node pointers are valid until
 * a node is added, value pointers until a value is. */
#ifndef WF_GRAPH_MATCH_H
#define WF_GRAPH_MATCH_H

#include "graph/constant.h"
#include "graph/graph.h"

/* ---- Looking ---- */

/* The node that makes the value, when its operator is `op`; NULL otherwise (and for WF_NO_VALUE). */
wf_node_t *wf_match(const wf_graph_t *graph, wf_value_id value, wf_op_t op);
/* True when exactly one input of one live node reads the value and it is no graph output: a rewrite may
 * swallow it. */
bool wf_match_interior(const wf_graph_t *graph, wf_value_id value);
/* wf_match of an interior value. */
wf_node_t *wf_match_inner(const wf_graph_t *graph, wf_value_id value, wf_op_t op);
/* The only node that reads the value (however often); WF_NO_NODE when there are several or it is a graph
 * output. */
wf_node_id wf_match_user(const wf_graph_t *graph, wf_value_id value);
/* Input `index`, WF_NO_VALUE when the node has fewer. */
wf_value_id wf_node_input(const wf_node_t *node, uint32_t index);
/* First output's type. Known: passes run on inferred graphs. */
const wf_type_t *wf_value_type(const wf_graph_t *graph, wf_value_id value);

/* How exact a constant of a pattern must be: what its element type can hold, with room for exporters that
 * write few digits (1.41421 for the root of 2 differs by 2.5e-6). */
double wf_match_tolerance(wf_dtype_t dtype);
/* |actual - wanted| <= tolerance * |wanted|, by the element type of `dtype`. */
bool wf_match_near(wf_dtype_t dtype, double actual, double wanted);
/* The value is a one-element constant near `wanted`. */
bool wf_match_scalar(const wf_graph_t *graph, wf_value_id value, double wanted);
/* True when a float attribute can stand for the number in arithmetic of this type: always below f64, else
 * exactly. */
bool wf_match_attr_holds(wf_dtype_t dtype, double value);

/* A node op(x, scalar constant): for commutative operators in either order, else the constant second. */
bool wf_match_with_scalar(const wf_graph_t *graph, const wf_node_t *node, wf_value_id *out_x,
                          double *out_scalar);
/* For a node with two inputs, one of them `value`: the other one. */
bool wf_match_other(const wf_node_t *node, wf_value_id value, wf_value_id *out_other);

/* coefficient * factor * factor ..., flattened over Mul, Div by a scalar and Neg whose results are interior.
 */
enum { WF_PRODUCT_MAX = 4 };
typedef struct wf_product {
    double coefficient;
    wf_value_id factors[WF_PRODUCT_MAX];
    uint32_t count;
} wf_product_t;
/* False when the node is none of these, a divisor is not a scalar constant or there are too many factors. */
bool wf_match_product(const wf_graph_t *graph, const wf_node_t *root, wf_product_t *out_product);

/* The value as a polynomial in `leaf` (c[i] of leaf^i), over Add, Sub, Mul, Neg, Div by scalars, Pow by small
 * integers. */
enum { WF_POLY_TERMS = 5 };
typedef struct wf_poly {
    double c[WF_POLY_TERMS];
} wf_poly_t;
bool wf_match_poly(const wf_graph_t *graph, wf_value_id value, wf_value_id leaf, wf_poly_t *out_poly);

/* Limits of a Clip or Relu, from attributes or constants (infinite where there is none); false when they are
 * computed. */
bool wf_match_limits(const wf_graph_t *graph, const wf_node_t *node, double *out_low, double *out_high);

/* Operands of a constant along one dim: writes type->dims[axis] doubles, value[i] for index i of dim `axis`,
 * when the constant broadcasts to `type` without enlarging it and does not vary along any other dim; false
 * otherwise. */
bool wf_match_channels(const wf_graph_t *graph, wf_value_id value, const wf_type_t *type, uint32_t axis,
                       double *out_values);

/* Axis attribute brought to [0, rank); false when it is out of range. */
bool wf_match_axis(int64_t axis, uint32_t rank, uint32_t *out_axis);
/* Axes of a reduction as a bit mask; false when they are given by an input. Empty axes are what the operator
 * says. */
bool wf_match_reduce_axes(const wf_graph_t *graph, const wf_node_t *node, uint32_t *out_mask);
/* A permutation attribute (absent: reversed) of rank `rank`. */
void wf_match_perm(const wf_node_t *node, uint32_t rank, int64_t out_perm[WF_MAX_RANK]);

/* ---- Making ---- */

wf_attr_t wf_attr_int(const char *name, int64_t value);
wf_attr_t wf_attr_float(const char *name, double value);
wf_attr_t wf_attr_string(const char *name, const char *value);
/* Borrows the array until the node is made. */
wf_attr_t wf_attr_ints(const char *name, const int64_t *values, size_t count);

/* Appends a node with one new output value, named after `name`. spec->outputs is ignored. */
wf_status_t wf_emit(wf_graph_t *graph, const wf_node_spec_t *spec, const char *name,
                    wf_value_id *out_value) WF_MUST_USE;
/* The same for a node with two inputs and no attributes. */
wf_status_t wf_emit_binary(wf_graph_t *graph, wf_op_t op, wf_value_id a, wf_value_id b,
                           const char *onnx_names, const char *name, wf_value_id *out_value) WF_MUST_USE;
/* A Transpose with the permutation. */
wf_status_t wf_emit_transpose(wf_graph_t *graph, wf_value_id x, uint32_t rank, const int64_t *perm,
                              const char *onnx_names, const char *name, wf_value_id *out_value) WF_MUST_USE;
/* Changes a node to a Reshape of x to the type of the node's first output. */
wf_status_t wf_change_to_reshape(wf_graph_t *graph, wf_node_id node, wf_value_id x) WF_MUST_USE;

/* A new constant, zeroed, in the arena. The tensor may be written until the graph is used. */
wf_status_t wf_emit_constant(wf_graph_t *graph, const char *name, const wf_type_t *type,
                             wf_tensor_t *out_tensor, wf_value_id *out_value) WF_MUST_USE;
/* A new constant of the type from doubles, rounded once. */
wf_status_t wf_emit_doubles(wf_graph_t *graph, const char *name, const wf_type_t *type, const double *values,
                            wf_value_id *out_value) WF_MUST_USE;
/* The same bytes with other dims. The value itself when it has them already. */
wf_status_t wf_emit_reshaped_constant(wf_graph_t *graph, wf_value_id constant, const wf_type_t *type,
                                      wf_value_id *out_value) WF_MUST_USE;
/* The constant with dims permuted. */
wf_status_t wf_emit_permuted_constant(wf_graph_t *graph, wf_value_id constant, const int64_t *perm,
                                      const wf_parallel_t *parallel, wf_value_id *out_value) WF_MUST_USE;

/* onnx_names of the nodes from `root` back to the boundary values (not past constants), oldest first, without
 * repeats, in the arena. Looks at most at 64 nodes. */
wf_status_t wf_join_names(wf_graph_t *graph, wf_node_id root, const wf_value_id *boundary,
                          size_t boundary_count, const char **out_names) WF_MUST_USE;

/* ---- Visiting ---- */

/* Calls fn for every live node of the order as it is now; nodes made meanwhile are not visited. Sorts when fn
 * counted changes. `self` is the pass's own. */
typedef wf_status_t wf_visit_fn(void *self, wf_graph_t *graph, wf_node_id node, uint32_t *changes);
wf_status_t wf_visit_nodes(wf_graph_t *graph, wf_visit_fn *fn, void *self, uint32_t *out_changes) WF_MUST_USE;

#endif
