/* SPDX-License-Identifier: Apache-2.0 */
/* fold_batch_norm: at inference BatchNormalization is a * x + b with a = scale / sqrt(var + epsilon) and b =
 * B - a * mean.
 *   - after a convolution or product with constant weights that nobody else reads: into its weights and bias;
 *   - after a Concat of such: into each of them;
 *   - elsewhere: a Mul and an Add per channel, which other passes may place.
 * a and b are computed in doubles. f16 and bf16 keep the node: their products would be rounded twice. */
#include <math.h>

#include "base/compiler.h"
#include "graph/linear.h"
#include "graph/match.h"
#include "graph/pass.h"

typedef struct affine {
    int64_t channels;
    double *scale, *shift;
} affine_t;

static void affine_deinit(const wf_graph_t *graph, affine_t *self)
{
    wf_free(graph->arena.allocator, self->scale, (size_t)self->channels, sizeof *self->scale);
    wf_free(graph->arena.allocator, self->shift, (size_t)self->channels, sizeof *self->shift);
}

static bool match(const wf_graph_t *graph, const wf_node_t *node)
{
    const wf_type_t *type = wf_value_type(graph, node->inputs[0]);
    if (node->op != WF_OP_BATCH_NORMALIZATION || wf_attrs_int(&node->attrs, "training_mode", 0) != 0 ||
        (type->dtype != WF_DTYPE_F32 && type->dtype != WF_DTYPE_F64) || type->rank < 2) {
        return false;
    }
    for (uint32_t i = 1; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE) {
            return false;
        }
    }
    for (uint32_t i = 1; i < 5; i++) {
        wf_tensor_t tensor;
        if (!wf_graph_constant(graph, node->inputs[i], &tensor) ||
            wf_type_elems(&tensor.type) != type->dims[1]) {
            return false;
        }
    }
    return true;
}

static wf_status_t affine_init(affine_t *self, const wf_graph_t *graph, const wf_node_t *node)
{
    enum { SCALE, BIAS, MEAN, VARIANCE, PARAMETERS };
    wf_tensor_t tensors[PARAMETERS];
    double epsilon = (double)wf_attrs_float(&node->attrs, "epsilon", 1e-5f);
    *self = (affine_t){.channels = wf_value_type(graph, node->inputs[0])->dims[1]};
    for (int i = 0; i < PARAMETERS; i++) {
        (void)wf_graph_constant(graph, node->inputs[1 + i], &tensors[i]);
    }
    WF_TRY(wf_alloc(graph->arena.allocator, (size_t)self->channels, sizeof *self->scale, &self->scale));
    wf_status_t status =
        wf_alloc(graph->arena.allocator, (size_t)self->channels, sizeof *self->shift, &self->shift);
    if (status != WF_OK) {
        affine_deinit(graph, self);
        return status;
    }
    for (int64_t c = 0; c < self->channels; c++) {
        double parameter[PARAMETERS] = {0};
        for (int i = 0; i < PARAMETERS; i++) {
            (void)wf_constant_get(&tensors[i], c, &parameter[i]);
        }
        self->scale[c] = parameter[SCALE] / sqrt(parameter[VARIANCE] + epsilon);
        self->shift[c] = parameter[BIAS] - parameter[MEAN] * self->scale[c];
    }
    return WF_OK;
}

static bool is_finite(const affine_t *self)
{
    for (int64_t c = 0; c < self->channels; c++) {
        if (!(fabs(self->scale[c]) <= 0x1p120) || !(fabs(self->shift[c]) <= 0x1p120)) {
            return false;
        }
    }
    return true;
}

/* The linear operator that makes `value`, scaled by channels from `first` on, as a new value. */
static wf_status_t fold_branch(wf_graph_t *graph, const affine_t *affine, int64_t first, wf_value_id value,
                               const char *onnx_names, wf_value_id *out_value, bool *out_done)
{
    wf_linear_t linear;
    *out_done = wf_match_inner_linear(graph, value, true, &linear) && linear.out_axis == 1;
    if (*out_done) {
        WF_TRY(
            wf_linear_scale_output(graph, &linear, affine->scale + first, affine->shift + first, out_done));
    }
    if (!*out_done) {
        return WF_OK;
    }
    /* An Identity that becomes the operator: wf_linear_put changes a node that is there. */
    wf_node_spec_t spec = {
        .op = WF_OP_IDENTITY, .inputs = &value, .input_count = 1, .onnx_names = onnx_names};
    WF_TRY(wf_emit(graph, &spec, wf_graph_value(graph, value)->name, out_value));
    return wf_linear_put(graph, wf_graph_value(graph, *out_value)->producer, &linear);
}

/* True when every input of the Concat is made by a linear operator for it alone. */
static bool is_foldable_concat(const wf_graph_t *graph, const wf_node_t *concat)
{
    wf_linear_t linear;
    uint32_t axis;
    bool channels = concat != NULL && concat->input_count <= 64 &&
                    wf_match_axis(wf_attrs_int(&concat->attrs, "axis", 0),
                                  wf_value_type(graph, concat->outputs[0])->rank, &axis) &&
                    axis == 1;
    for (uint32_t i = 0; channels && i < concat->input_count; i++) {
        channels = wf_match_inner_linear(graph, concat->inputs[i], true, &linear) && linear.out_axis == 1;
    }
    return channels;
}

static wf_status_t fold_concat(wf_graph_t *graph, wf_node_id id, const affine_t *affine, bool *out_done)
{
    wf_value_id branches[64];
    const wf_node_t *concat = wf_match(graph, wf_graph_node(graph, id)->inputs[0], WF_OP_CONCAT);
    const char *onnx_names = wf_graph_node(graph, id)->onnx_names;
    wf_node_spec_t spec = {.op = WF_OP_CONCAT,
                           .attrs = concat->attrs.items,
                           .attr_count = concat->attrs.count,
                           .inputs = branches,
                           .input_count = concat->input_count,
                           .output_count = 1};
    int64_t first = 0;
    *out_done = true;
    for (uint32_t i = 0; *out_done && i < spec.input_count; i++) {
        wf_value_id input = wf_match(graph, wf_graph_node(graph, id)->inputs[0], WF_OP_CONCAT)->inputs[i];
        int64_t channels = wf_value_type(graph, input)->dims[1];
        WF_TRY(fold_branch(graph, affine, first, input, onnx_names, &branches[i], out_done));
        first += channels;
    }
    return *out_done ? wf_graph_change_node(graph, id, &spec) : WF_OK;
}

/* Mul and Add per channel. */
static wf_status_t unfold(wf_graph_t *graph, wf_node_id id, const affine_t *affine)
{
    wf_value_id scale, shift, product;
    const wf_type_t type = *wf_value_type(graph, wf_graph_node(graph, id)->inputs[0]);
    wf_type_t parameter = {.dtype = type.dtype, .rank = type.rank - 1, .dims = {affine->channels}};
    for (uint32_t i = 1; i < parameter.rank; i++) {
        parameter.dims[i] = 1;
    }
    const wf_node_t *node = wf_graph_node(graph, id);
    WF_TRY(wf_emit_doubles(graph, wf_graph_value(graph, node->inputs[1])->name, &parameter, affine->scale,
                           &scale));
    WF_TRY(wf_emit_doubles(graph, wf_graph_value(graph, node->inputs[2])->name, &parameter, affine->shift,
                           &shift));
    WF_TRY(wf_emit_binary(graph, WF_OP_MUL, node->inputs[0], scale, node->onnx_names,
                          wf_graph_value(graph, node->outputs[0])->name, &product));
    wf_value_id inputs[2] = {product, shift};
    wf_node_spec_t spec = {.op = WF_OP_ADD, .inputs = inputs, .input_count = 2, .output_count = 1};
    return wf_graph_change_node(graph, id, &spec);
}

static wf_status_t fold(wf_graph_t *graph, wf_node_id id, const affine_t *affine)
{
    wf_linear_t linear;
    bool done = false;
    wf_value_id x = wf_graph_node(graph, id)->inputs[0];
    if (wf_match_inner_linear(graph, x, true, &linear) && linear.out_axis == 1) {
        WF_TRY(wf_linear_scale_output(graph, &linear, affine->scale, affine->shift, &done));
        if (done) {
            WF_TRY(wf_join_names(graph, id, &linear.x, 1, &linear.onnx_names));
            return wf_linear_put(graph, id, &linear);
        }
    }
    if (is_foldable_concat(graph, wf_match_inner(graph, x, WF_OP_CONCAT))) {
        WF_TRY(fold_concat(graph, id, affine, &done));
    }
    return done ? WF_OK : unfold(graph, id, affine);
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    affine_t affine;
    (void)arg;
    if (!match(graph, wf_graph_node(graph, id))) {
        return WF_OK;
    }
    WF_TRY(affine_init(&affine, graph, wf_graph_node(graph, id)));
    wf_status_t status = WF_OK;
    if (is_finite(&affine)) {
        status = fold(graph, id, &affine);
        (*changes)++;
    }
    affine_deinit(graph, &affine);
    return status;
}

WF_PASS(fold_batch_norm)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
