/* SPDX-License-Identifier: Apache-2.0 */
/* fold_pad: a Pad with zeros on spatial dims goes into the window of what follows:
 *   - Conv (whose padding is zeros);
 *   - AveragePool, when its own padding counts as zeros or it has none;
 *   - MaxPool, whose padding never wins, when the padded value is -infinity, or zeros pad what is never
 * negative and no window lies in the padding alone. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

typedef struct padding {
    wf_value_id x;
    double value;
    uint32_t spatial_rank;
    int64_t begin[WF_MAX_RANK], end[WF_MAX_RANK];
} padding_t;

static bool match_pad(const wf_graph_t *graph, wf_value_id value, padding_t *out_padding)
{
    size_t count, axis_count;
    const wf_node_t *node = wf_match(graph, value, WF_OP_PAD);
    if (node == NULL || strcmp(wf_attrs_string(&node->attrs, "mode", "constant"), "constant") != 0 ||
        wf_node_input(node, 3) != WF_NO_VALUE) {
        return false;
    }
    uint32_t rank = wf_value_type(graph, value)->rank;
    const int64_t *pads = wf_attrs_ints(&node->attrs, "pads", &count);
    const int64_t *axes = wf_attrs_ints(&node->attrs, "axes", &axis_count);
    size_t padded = axes != NULL ? axis_count : rank;
    padding_t padding = {.x = node->inputs[0], .spatial_rank = rank - 2};
    wf_value_id fill = wf_node_input(node, 2);
    if (rank < 3 || count != 2 * padded ||
        (fill != WF_NO_VALUE && !wf_graph_scalar(graph, fill, &padding.value))) {
        return false;
    }
    for (size_t i = 0; i < padded; i++) {
        uint32_t axis;
        if (!wf_match_axis(axes != NULL ? axes[i] : (int64_t)i, rank, &axis) || pads[i] < 0 ||
            pads[padded + i] < 0 || (axis < 2 && (pads[i] != 0 || pads[padded + i] != 0))) {
            return false;
        }
        if (axis >= 2) {
            padding.begin[axis - 2] = pads[i];
            padding.end[axis - 2] = pads[padded + i];
        }
    }
    *out_padding = padding;
    return true;
}

/* Made by something whose results are not negative. NaN is none of them: it wins with and without padding. */
static bool is_never_negative(const wf_graph_t *graph, wf_value_id value)
{
    double low, high;
    wf_node_id producer = wf_graph_value(graph, value)->producer;
    if (producer == WF_NO_NODE) {
        return false;
    }
    const wf_node_t *node = wf_graph_node(graph, producer);
    switch (node->op) {
    case WF_OP_RELU:
    case WF_OP_SIGMOID:
    case WF_OP_HARD_SIGMOID:
    case WF_OP_SOFTMAX:
    case WF_OP_SOFTPLUS:
    case WF_OP_EXP:
    case WF_OP_ABS:
        return true;
    case WF_OP_CLIP:
        return wf_match_limits(graph, node, &low, &high) && low >= 0.0 && high >= low;
    default:
        return false;
    }
}

static bool may_fold(const wf_graph_t *graph, const wf_node_t *node, const padding_t *padding,
                     const wf_window_t *window)
{
    bool own_padding = false;
    bool window_fits = true;
    for (uint32_t i = 0; i < padding->spatial_rank; i++) {
        own_padding = own_padding || window->pad_begin[i] != 0 || window->pad_end[i] != 0;
        int64_t reach = (window->kernel[i] - 1) * window->dilation[i] + 1;
        window_fits = window_fits && window->pad_begin[i] + padding->begin[i] < reach &&
                      window->pad_end[i] + padding->end[i] < reach && window->dilation[i] == 1;
    }
    bool floor_mode = wf_attrs_int(&node->attrs, "ceil_mode", 0) == 0;
    switch (node->op) {
    case WF_OP_CONV:
        return padding->value == 0.0;
    case WF_OP_AVERAGE_POOL:
        return padding->value == 0.0 && floor_mode && window_fits &&
               (!own_padding || wf_attrs_int(&node->attrs, "count_include_pad", 0) != 0);
    case WF_OP_MAX_POOL:
        return node->output_count == 1 && floor_mode && window_fits &&
               (padding->value == -(double)INFINITY ||
                (padding->value == 0.0 && is_never_negative(graph, padding->x)));
    default:
        return false;
    }
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    padding_t padding;
    wf_window_t window;
    wf_attr_t attrs[WF_OP_MAX_ATTRS];
    int64_t pads[2 * WF_MAX_RANK];
    wf_value_id inputs[3];
    const wf_node_t *node = wf_graph_node(graph, id);
    (void)arg;
    if ((node->op != WF_OP_CONV && node->op != WF_OP_AVERAGE_POOL && node->op != WF_OP_MAX_POOL) ||
        !match_pad(graph, node->inputs[0], &padding)) {
        return WF_OK;
    }
    WF_TRY(wf_window_resolve(node->op, &node->attrs, wf_value_type(graph, node->inputs[0]),
                             node->op == WF_OP_CONV ? wf_value_type(graph, node->inputs[1]) : NULL, &window));
    if (!may_fold(graph, node, &padding, &window)) {
        return WF_OK;
    }
    size_t count = 0;
    for (size_t i = 0; i < node->attrs.count; i++) {
        const char *name = node->attrs.items[i].name;
        if (strcmp(name, "pads") != 0 && strcmp(name, "auto_pad") != 0 &&
            strcmp(name, "count_include_pad") != 0) {
            attrs[count++] = node->attrs.items[i];
        }
    }
    for (uint32_t i = 0; i < padding.spatial_rank; i++) {
        pads[i] = window.pad_begin[i] + padding.begin[i];
        pads[padding.spatial_rank + i] = window.pad_end[i] + padding.end[i];
    }
    attrs[count++] = wf_attr_ints("pads", pads, 2 * (size_t)padding.spatial_rank);
    if (node->op == WF_OP_AVERAGE_POOL) {
        attrs[count++] = wf_attr_int("count_include_pad", 1);
    }
    inputs[0] = padding.x;
    for (uint32_t i = 1; i < node->input_count; i++) {
        inputs[i] = node->inputs[i];
    }
    wf_node_spec_t spec = {.op = node->op,
                           .attrs = attrs,
                           .attr_count = count,
                           .inputs = inputs,
                           .input_count = node->input_count};
    WF_TRY(wf_join_names(graph, id, &padding.x, 1, &spec.onnx_names));
    (*changes)++;
    return wf_graph_change_node(graph, id, &spec);
}

WF_PASS(fold_pad)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
