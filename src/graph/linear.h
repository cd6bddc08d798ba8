/* SPDX-License-Identifier: Apache-2.0 */
/* Operators whose output channels are weighted sums of input channels plus a bias, with constant weights:
 * Conv, ConvTranspose, Gemm, MatMul by a matrix, and such a MatMul followed by the Add of a bias per column.
 * Scales and shifts per channel go into their weights. */
#ifndef WF_GRAPH_LINEAR_H
#define WF_GRAPH_LINEAR_H

#include "graph/graph.h"

typedef struct wf_linear {
    wf_node_id node; /* makes the output: the Add when a MatMul has a bias */
    wf_op_t op;      /* Conv, ConvTranspose, Gemm, MatMul */
    wf_attrs_t attrs;
    wf_value_id x, weight, bias; /* bias WF_NO_VALUE: none */
    wf_type_t type;              /* of the output */
    uint32_t in_axis, out_axis;  /* channel dims of x and of the output */
    int64_t in_channels, out_channels;
    const char *onnx_names;
} wf_linear_t;

/* True when `node` is one with constant weights and constant bias (or none). Only f32 and f64 when
 * `for_arithmetic`: the weights of shorter types would be rounded once more. */
bool wf_match_linear(const wf_graph_t *graph, wf_node_id node, bool for_arithmetic, wf_linear_t *out_linear);
/* The same for the node that makes an interior value. */
bool wf_match_inner_linear(const wf_graph_t *graph, wf_value_id value, bool for_arithmetic,
                           wf_linear_t *out_linear);

/* linear := scale * linear + shift per output channel (out_channels doubles each; NULL: 1 and 0), in doubles,
 * rounded once. Makes new constants. *out_done is false, and nothing made, when a result is not finite or the
 * weights are too large to keep twice and are used elsewhere. */
wf_status_t wf_linear_scale_output(wf_graph_t *graph, wf_linear_t *linear, const double *scale,
                                   const double *shift, bool *out_done) WF_MUST_USE;
/* linear(x) := linear(scale * x + shift) per input channel. The shift is refused (*out_done false) where
 * padding would not be shifted with it. */
wf_status_t wf_linear_scale_input(wf_graph_t *graph, wf_linear_t *linear, const double *scale,
                                  const double *shift, bool *out_done) WF_MUST_USE;
/* The node `at`, which made the value that `linear` stands for, becomes it. A MatMul with a bias becomes two
 * nodes. */
wf_status_t wf_linear_put(wf_graph_t *graph, wf_node_id at, const wf_linear_t *linear) WF_MUST_USE;

#endif
