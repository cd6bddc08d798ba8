/* SPDX-License-Identifier: Apache-2.0 */
/* What the recognisers of layer and root-mean-square normalisation share. */
#ifndef WF_GRAPH_NORM_H
#define WF_GRAPH_NORM_H

#include "graph/graph.h"

/* Where statistics are taken: over the last dims from `axis` on, or over the channels (dim 1) of an image. */
typedef struct wf_norm_axes {
    bool channels;
    uint32_t axis;
} wf_norm_axes_t;

/* value = mean of `out_of` with kept dims over such axes. */
bool wf_match_mean(const wf_graph_t *graph, wf_value_id value, wf_value_id *out_of, wf_norm_axes_t *out_axes);
/* `node` = numerator / sqrt(variance + epsilon) by division, or by a product with a reciprocal, 1 / sqrt or a
 * power of -1/2. All between are interior. */
bool wf_match_normalized(const wf_graph_t *graph, const wf_node_t *node, wf_value_id *out_numerator,
                         wf_value_id *out_variance, double *out_epsilon);
/* value = 1 / sqrt(variance + epsilon). */
bool wf_match_inverse_deviation(const wf_graph_t *graph, wf_value_id value, wf_value_id *out_variance,
                                double *out_epsilon);

/* The node becomes `op` (LayerNormalization, RMSNormalization) of x with a scale of ones: between two
 * Transposes when the statistics are those of channels. */
wf_status_t wf_put_norm(wf_graph_t *graph, wf_node_id node, wf_op_t op, wf_value_id x, wf_norm_axes_t axes,
                        double epsilon, const char *onnx_names) WF_MUST_USE;
/* Mul or (LayerNormalization) Add of a constant with the normalised dims after an inner `op` goes into its
 * scale or bias. */
wf_status_t wf_norm_absorb(wf_graph_t *graph, wf_node_id node, wf_op_t op, bool *out_done) WF_MUST_USE;

#endif
