/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_layer_norm: LayerNormalization from its parts. With m = mean(x), d = x - m, v = mean(d * d), r = 1 /
 * sqrt(v + epsilon): d / sqrt(v + epsilon), d * r                            and then scale and bias as Mul
 * and Add x * g + (bias - m * g) with g = r * scale               as TensorFlow writes it Statistics over the
 * last dims, or over the channels of an image (then between two Transposes, which layouts make free). Parts
 * that something else reads too stay, and then so does the whole. A Mul or Add that follows a
 * LayerNormalization goes into its scale and bias. */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/norm.h"
#include "graph/pass.h"

typedef struct layer_norm {
    wf_value_id x, mean;
    wf_norm_axes_t axes;
    double epsilon;
} layer_norm_t;

/* variance = mean(d * d) with d = x - mean(x) over the same axes; gives d. */
static bool match_variance(const wf_graph_t *graph, wf_value_id variance, layer_norm_t *norm,
                           wf_value_id *out_difference)
{
    wf_value_id square, of;
    wf_norm_axes_t axes;
    if (!wf_match_mean(graph, variance, &square, &axes)) {
        return false;
    }
    const wf_node_t *product = wf_match_inner(graph, square, WF_OP_MUL);
    if (product == NULL || product->inputs[0] != product->inputs[1]) {
        return false;
    }
    const wf_node_t *difference = wf_match(graph, product->inputs[0], WF_OP_SUB);
    if (difference == NULL || !wf_match_mean(graph, difference->inputs[1], &of, &norm->axes) ||
        of != difference->inputs[0] || norm->axes.axis != axes.axis || norm->axes.channels != axes.channels) {
        return false;
    }
    norm->x = of;
    norm->mean = difference->inputs[1];
    *out_difference = product->inputs[0];
    return true;
}

static bool has_uses(const wf_graph_t *graph, wf_value_id value, uint32_t count)
{
    return wf_graph_value(graph, value)->use_count == count && !wf_graph_value(graph, value)->is_output;
}

/* d / sqrt(v + epsilon) and its like. */
static bool match_plain(const wf_graph_t *graph, const wf_node_t *root, layer_norm_t *norm)
{
    wf_value_id numerator, variance, difference;
    return wf_match_normalized(graph, root, &numerator, &variance, &norm->epsilon) &&
           match_variance(graph, variance, norm, &difference) && difference == numerator &&
           has_uses(graph, difference, 3) && has_uses(graph, norm->mean, 1);
}

/* x * g + (bias - m * g). Gives the constants scale and bias. */
static bool match_folded(const wf_graph_t *graph, const wf_node_t *root, layer_norm_t *norm,
                         wf_value_id *out_scale, wf_value_id *out_bias)
{
    for (uint32_t i = 0; root->op == WF_OP_ADD && i < 2; i++) {
        wf_value_id variance, difference, gain, inverse;
        const wf_node_t *scaled = wf_match_inner(graph, root->inputs[i], WF_OP_MUL);
        const wf_node_t *rest = wf_match_inner(graph, root->inputs[1 - i], WF_OP_SUB);
        const wf_node_t *offset = rest != NULL ? wf_match_inner(graph, rest->inputs[1], WF_OP_MUL) : NULL;
        if (scaled == NULL || offset == NULL || wf_graph_value(graph, rest->inputs[0])->constant == NULL) {
            continue;
        }
        for (uint32_t j = 0; j < 2; j++) {
            gain = scaled->inputs[j];
            const wf_node_t *product = wf_match(graph, gain, WF_OP_MUL);
            if (product == NULL || !has_uses(graph, gain, 2) ||
                wf_graph_value(graph, product->inputs[1])->constant == NULL) {
                continue;
            }
            inverse = product->inputs[0];
            wf_value_id mean;
            if (wf_match_inverse_deviation(graph, inverse, &variance, &norm->epsilon) &&
                match_variance(graph, variance, norm, &difference) && scaled->inputs[1 - j] == norm->x &&
                wf_match_other(offset, gain, &mean) && mean == norm->mean && has_uses(graph, difference, 2) &&
                has_uses(graph, norm->mean, 2)) {
                *out_scale = product->inputs[1];
                *out_bias = rest->inputs[0];
                return true;
            }
        }
    }
    return false;
}

static bool is_norm_type(const wf_graph_t *graph, const wf_node_t *root, const layer_norm_t *norm)
{
    const wf_type_t *type = wf_value_type(graph, norm->x);
    return wf_type_equal(type, wf_value_type(graph, root->outputs[0])) &&
           wf_match_tolerance(type->dtype) > 0.0;
}

/* Constants with exactly the normalised dims, leading dims of 1 apart, as a scale must have them. */
static bool is_parameter(const wf_graph_t *graph, wf_value_id value, const wf_type_t *type, uint32_t axis)
{
    const wf_type_t *have = wf_value_type(graph, value);
    int64_t elems = 1;
    for (uint32_t i = axis; i < type->rank; i++) {
        uint32_t from_end = type->rank - i;
        if (have->rank < from_end || have->dims[have->rank - from_end] != type->dims[i]) {
            return false;
        }
        elems *= type->dims[i];
    }
    return wf_type_elems(have) == elems;
}

static wf_status_t put_folded(wf_graph_t *graph, wf_node_id id, const layer_norm_t *norm, wf_value_id scale,
                              wf_value_id bias, const char *onnx_names)
{
    const wf_type_t type = *wf_value_type(graph, norm->x);
    wf_type_t parameter = {.dtype = type.dtype, .rank = type.rank - norm->axes.axis};
    for (uint32_t i = 0; i < parameter.rank; i++) {
        parameter.dims[i] = type.dims[norm->axes.axis + i];
    }
    wf_value_id inputs[3] = {norm->x, WF_NO_VALUE, WF_NO_VALUE};
    WF_TRY(wf_emit_reshaped_constant(graph, scale, &parameter, &inputs[1]));
    WF_TRY(wf_emit_reshaped_constant(graph, bias, &parameter, &inputs[2]));
    WF_TRY(wf_put_norm(graph, id, WF_OP_LAYER_NORMALIZATION, norm->x, norm->axes, norm->epsilon, onnx_names));
    wf_attrs_t attrs = wf_graph_node(graph, id)->attrs;
    wf_node_spec_t spec = {.op = WF_OP_LAYER_NORMALIZATION,
                           .attrs = attrs.items,
                           .attr_count = attrs.count,
                           .inputs = inputs,
                           .input_count = 3};
    return wf_graph_change_node(graph, id, &spec);
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    layer_norm_t norm;
    bool absorbed;
    wf_value_id scale, bias;
    const char *onnx_names = NULL;
    (void)arg;
    WF_TRY(wf_norm_absorb(graph, id, WF_OP_LAYER_NORMALIZATION, &absorbed));
    if (absorbed) {
        (*changes)++;
        return WF_OK;
    }
    const wf_node_t *root = wf_graph_node(graph, id);
    if (match_plain(graph, root, &norm) && is_norm_type(graph, root, &norm)) {
        WF_TRY(wf_join_names(graph, id, &norm.x, 1, &onnx_names));
        (*changes)++;
        return wf_put_norm(graph, id, WF_OP_LAYER_NORMALIZATION, norm.x, norm.axes, norm.epsilon, onnx_names);
    }
    if (match_folded(graph, root, &norm, &scale, &bias) && is_norm_type(graph, root, &norm)) {
        const wf_type_t *type = wf_value_type(graph, norm.x);
        bool last = !norm.axes.channels || norm.axes.axis == type->rank - 1;
        if (last && is_parameter(graph, scale, type, norm.axes.axis) &&
            is_parameter(graph, bias, type, norm.axes.axis)) {
            WF_TRY(wf_join_names(graph, id, &norm.x, 1, &onnx_names));
            (*changes)++;
            return put_folded(graph, id, &norm, scale, bias, onnx_names);
        }
    }
    return WF_OK;
}

WF_PASS(fuse_layer_norm)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
