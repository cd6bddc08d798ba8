/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rewrites, and what they are written with. */
#include "onnx/upgrade.h"

#include <string.h>

#include "base/compiler.h"
#include "graph/fold.h"
#include "onnx/wire.h"

/* ---- Table ---- */

#define RULE(domain, name, since, until, op, attrs, rewrite) wf_upgrade_fn wf_upgrade_##rewrite;
#define REFUSE(name, why)
#include "onnx/upgrade.def"

static const wf_rule_t rules[] = {
#define RULE(domain, name, since, until, op, attrs, rewrite) \
    {domain, name, since, until, WF_OP_##op, attrs, wf_upgrade_##rewrite, NULL},
#define REFUSE(name, why) {"", name, 1, INT64_MAX, WF_OP_COUNT, "", NULL, why},
#include "onnx/upgrade.def"
};

const wf_rule_t *wf_rules(size_t *out_count)
{
    *out_count = WF_COUNT_OF(rules);
    return rules;
}

/* ---- Inputs and outputs ---- */

bool wf_up_has(const wf_upgrade_t *self, size_t input)
{
    return input < self->input_count && self->inputs[input] != WF_NO_VALUE;
}

wf_status_t wf_up_need_inputs(const wf_upgrade_t *self, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!wf_up_has(self, i)) {
            return WF_ERROR(MODEL_INVALID, "input %zu is missing", i);
        }
    }
    return WF_OK;
}

wf_status_t wf_up_type_of(const wf_upgrade_t *self, wf_value_id value, wf_type_t *out_type)
{
    const wf_value_t *source = wf_graph_value(self->graph, value);
    if (!source->type_known) {
        return WF_ERROR(MODEL_UNSUPPORTED, "the shape of %s depends on run-time values", source->name);
    }
    *out_type = source->type;
    return WF_OK;
}

wf_status_t wf_up_type(const wf_upgrade_t *self, size_t input, wf_type_t *out_type)
{
    if (!wf_up_has(self, input)) {
        return WF_ERROR(MODEL_INVALID, "input %zu is missing", input);
    }
    return wf_up_type_of(self, self->inputs[input], out_type);
}

wf_status_t wf_up_output(wf_upgrade_t *self, size_t index, wf_value_id *out_value)
{
    *out_value = WF_NO_VALUE;
    if (index >= self->output_count || self->output_names[index] == NULL) {
        return WF_OK;
    }
    if (self->results[index] == WF_NO_VALUE) {
        WF_TRY(wf_graph_add_value(self->graph, self->output_names[index], NULL, &self->results[index]));
    }
    *out_value = self->results[index];
    return WF_OK;
}

void wf_up_bind(wf_upgrade_t *self, size_t index, wf_value_id value)
{
    if (index < self->output_count && self->output_names[index] != NULL) {
        self->results[index] = value;
    }
}

wf_status_t wf_up_refuse_outputs(const wf_upgrade_t *self, size_t index, const char *why)
{
    for (size_t i = index; i < self->output_count; i++) {
        if (self->output_names[i] != NULL) {
            return WF_ERROR(MODEL_UNSUPPORTED, "output %zu is used: %s", i, why);
        }
    }
    return WF_OK;
}

/* ---- Attributes ---- */

const wf_attr_t *wf_up_attr(const wf_upgrade_t *self, const char *name)
{
    for (size_t i = 0; i < self->attr_count; i++) {
        if (strcmp(self->attrs[i].name, name) == 0) {
            return &self->attrs[i];
        }
    }
    return NULL;
}

int64_t wf_up_int(const wf_upgrade_t *self, const char *name, int64_t fallback)
{
    const wf_attr_t *attr = wf_up_attr(self, name);
    return attr != NULL && attr->kind == WF_ATTR_INT ? attr->v.i : fallback;
}

float wf_up_float(const wf_upgrade_t *self, const char *name, float fallback)
{
    const wf_attr_t *attr = wf_up_attr(self, name);
    return attr != NULL && attr->kind == WF_ATTR_FLOAT ? attr->v.f : fallback;
}

const char *wf_up_string(const wf_upgrade_t *self, const char *name, const char *fallback)
{
    const wf_attr_t *attr = wf_up_attr(self, name);
    return attr != NULL && attr->kind == WF_ATTR_STRING ? attr->v.s : fallback;
}

void wf_up_drop(wf_upgrade_t *self, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < self->attr_count; i++) {
        if (strcmp(self->attrs[i].name, name) != 0) {
            self->attrs[kept++] = self->attrs[i];
        }
    }
    self->attr_count = kept;
}

void wf_up_set(wf_upgrade_t *self, wf_attr_t attr)
{
    wf_up_drop(self, attr.name);
    assert(self->attr_count < self->attr_capacity);
    self->attrs[self->attr_count++] = attr;
}

/* ---- Making nodes ---- */

/* Shape arithmetic needs none of these, and their cost is not bounded by the size of their operands. */
static bool is_heavy(wf_op_t op)
{
    switch (op) {
    case WF_OP_CONV:
    case WF_OP_CONV_TRANSPOSE:
    case WF_OP_CONV_INTEGER:
    case WF_OP_QLINEAR_CONV:
    case WF_OP_EINSUM:
    case WF_OP_LSTM:
    case WF_OP_GRU:
    case WF_OP_RNN:
        return true;
    default:
        return false;
    }
}

wf_status_t wf_up_fold_last(wf_graph_t *graph)
{
    wf_node_id id = (wf_node_id)(graph->nodes.count - 1);
    const wf_node_t *node = wf_graph_node(graph, id);
    int64_t input_bytes, output_bytes;
    bool folded;
    WF_TRY(wf_fold_type_query(graph, id, &folded));
    if (folded || is_heavy(node->op) || (wf_op_info(node->op)->flags & WF_OP_FLAG_NONDET) != 0 ||
        !wf_fold_possible(graph, node, &input_bytes, &output_bytes)) {
        return WF_OK;
    }
    bool view = (wf_op_info(node->op)->flags & WF_OP_FLAG_VIEW) != 0; /* costs nothing, whatever the size */
    if (!view && (input_bytes > WF_ONNX_MAX_FOLD_BYTES || output_bytes > WF_ONNX_MAX_FOLD_BYTES)) {
        return WF_OK;
    }
    return wf_fold_node(graph, id, NULL, &folded);
}

static wf_node_spec_t node_spec(const wf_upgrade_t *self, const wf_up_spec_t *spec)
{
    return (wf_node_spec_t){.op = spec->op,
                            .attrs = spec->attrs,
                            .attr_count = spec->attr_count,
                            .inputs = spec->inputs,
                            .input_count = spec->input_count,
                            .onnx_names = self->onnx_names};
}

wf_status_t wf_up_make(wf_upgrade_t *self, const wf_up_spec_t *spec, wf_value_id *out_value)
{
    const char *name;
    wf_node_spec_t node = node_spec(self, spec);
    WF_TRY(wf_arena_format(self->scratch, &name, "%s/%s", self->label, wf_op_info(spec->op)->problem_name));
    WF_TRY(wf_emit(self->graph, &node, name, out_value));
    return wf_up_fold_last(self->graph);
}

wf_status_t wf_up_finish(wf_upgrade_t *self, const wf_up_spec_t *spec)
{
    wf_value_id output;
    wf_node_spec_t node = node_spec(self, spec);
    WF_TRY(wf_up_output(self, 0, &output));
    if (output == WF_NO_VALUE) {
        return WF_OK;
    }
    node.outputs = &output;
    node.output_count = 1;
    WF_TRY(wf_graph_add_node(self->graph, &node, NULL));
    return wf_up_fold_last(self->graph);
}

wf_status_t wf_up_same(wf_upgrade_t *self)
{
    const wf_op_info_t *info = wf_op_info(self->op);
    wf_value_id *inputs, *outputs;
    size_t input_count = WF_MAX(self->input_count, (size_t)info->input_min);
    size_t output_count = self->output_count;
    while (output_count > (size_t)info->output_min && self->output_names[output_count - 1] == NULL) {
        output_count--;
    }
    WF_TRY(wf_arena_alloc(self->scratch, input_count, sizeof *inputs, &inputs));
    WF_TRY(wf_arena_alloc(self->scratch, output_count, sizeof *outputs, &outputs));
    for (size_t i = 0; i < input_count; i++) {
        inputs[i] = i < self->input_count ? self->inputs[i] : WF_NO_VALUE;
    }
    bool is_constant = true;
    for (size_t i = 0; i < input_count; i++) {
        wf_tensor_t tensor;
        is_constant =
            is_constant && (inputs[i] == WF_NO_VALUE || wf_graph_constant(self->graph, inputs[i], &tensor));
    }
    for (size_t i = 0; i < output_count; i++) {
        WF_TRY(wf_up_output(self, i, &outputs[i]));
        if (is_constant && outputs[i] == WF_NO_VALUE) { /* only complete nodes are computed */
            const char *name;
            WF_TRY(wf_arena_format(self->scratch, &name, "%s/unused", self->label));
            WF_TRY(wf_graph_add_value(self->graph, name, NULL, &outputs[i]));
        }
    }
    wf_node_spec_t node = {.op = self->op,
                           .attrs = self->attrs,
                           .attr_count = self->attr_count,
                           .inputs = inputs,
                           .input_count = input_count,
                           .outputs = outputs,
                           .output_count = output_count,
                           .onnx_names = self->onnx_names};
    WF_TRY(wf_graph_add_node(self->graph, &node, NULL));
    return wf_up_fold_last(self->graph);
}

wf_status_t wf_up_unary(wf_upgrade_t *self, wf_op_t op, wf_value_id x, wf_value_id *out_value)
{
    return wf_up_make(self, &(wf_up_spec_t){.op = op, .inputs = &x, .input_count = 1}, out_value);
}

wf_status_t wf_up_binary(wf_upgrade_t *self, wf_op_t op, wf_value_id a, wf_value_id b, wf_value_id *out_value)
{
    wf_value_id inputs[2] = {a, b};
    return wf_up_make(self, &(wf_up_spec_t){.op = op, .inputs = inputs, .input_count = 2}, out_value);
}

wf_status_t wf_up_reshape(wf_upgrade_t *self, wf_value_id x, const int64_t *dims, size_t rank,
                          wf_value_id *out_value)
{
    /* allowzero: a dim of 0 is a size here, not a copy. */
    wf_attr_t attrs[2] = {wf_attr_int("allowzero", 1), wf_attr_ints("shape", dims, rank)};
    wf_value_id inputs[2] = {x, WF_NO_VALUE};
    return wf_up_make(self, &(wf_up_spec_t){WF_OP_RESHAPE, attrs, 2, inputs, 2}, out_value);
}

wf_status_t wf_up_scalar(wf_upgrade_t *self, wf_dtype_t dtype, double value, wf_value_id *out_value)
{
    const char *name;
    wf_tensor_t tensor;
    WF_TRY(wf_arena_format(self->scratch, &name, "%s/constant", self->label));
    WF_TRY(wf_emit_constant(self->graph, name, &(wf_type_t){.dtype = dtype}, &tensor, out_value));
    return wf_constant_set(&tensor, 0, value)
               ? WF_OK
               : WF_ERROR(MODEL_UNSUPPORTED, "element type %s is not supported: it has no %g",
                          wf_dtype_name(dtype), value);
}

wf_status_t wf_up_transpose(wf_upgrade_t *self, wf_value_id x, const int64_t *perm, size_t rank,
                            wf_value_id *out_value)
{
    wf_attr_t attr = wf_attr_ints("perm", perm, rank);
    return wf_up_make(self, &(wf_up_spec_t){WF_OP_TRANSPOSE, &attr, 1, &x, 1}, out_value);
}

int64_t wf_dtype_to_onnx(wf_dtype_t dtype)
{
    switch (dtype) {
#define X(name, text, bits, onnx, numpy) \
    case WF_DTYPE_##name:                \
        return onnx;
#include "wayfinder/dtypes.def"
#undef X
    default:
        return 0;
    }
}

wf_status_t wf_up_cast(wf_upgrade_t *self, wf_value_id x, wf_dtype_t dtype, wf_value_id *out_value)
{
    wf_type_t type;
    WF_TRY(wf_up_type_of(self, x, &type));
    if (type.dtype == dtype) {
        *out_value = x;
        return WF_OK;
    }
    wf_attr_t to = wf_attr_int("to", wf_dtype_to_onnx(dtype));
    return wf_up_make(self, &(wf_up_spec_t){WF_OP_CAST, &to, 1, &x, 1}, out_value);
}

wf_status_t wf_up_where(wf_upgrade_t *self, wf_value_id condition, wf_value_id yes, wf_value_id no,
                        wf_value_id *out_value)
{
    wf_value_id inputs[3] = {condition, yes, no};
    return wf_up_make(self, &(wf_up_spec_t){.op = WF_OP_WHERE, .inputs = inputs, .input_count = 3},
                      out_value);
}
