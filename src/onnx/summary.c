/* SPDX-License-Identifier: Apache-2.0 */
/* What a model is, for people: ports, counts, versions. Weights are not touched. */
#include <stdlib.h>

#include "base/compiler.h"
#include "base/utf8.h"
#include "onnx/model.h"
#include "onnx/tensor.h"

/* ---- Ports ---- */

/* A name is text: no zero byte, valid UTF-8, not empty. */
wf_status_t wf_onnx_name_check(wf_span_t name, const char *what)
{
    if (name.bytes == 0) {
        return WF_ERROR(MODEL_INVALID, "%s has no name", what);
    }
    for (size_t at = 0; at < name.bytes;) {
        size_t bytes = wf_utf8_char_bytes((const char *)name.data + at, name.bytes - at);
        if (bytes == 0 || name.data[at] == 0) {
            return WF_ERROR(MODEL_INVALID, "the name of %s is not text: \"%.*s\"", what, WF_SPAN_ARGS(name));
        }
        at += bytes;
    }
    return WF_OK;
}

/* Names of dims that say nothing. Zero and negative sizes are written by some exporters for "any". */
static bool is_anonymous(wf_span_t symbol)
{
    return symbol.bytes == 0 || wf_span_equal(symbol, "?") || memchr(symbol.data, 0, symbol.bytes) != NULL;
}

static wf_status_t read_dims(const wf_pb_shape_t *shape, wf_arena_t *arena, wf_port_t *port)
{
    port->rank_known = true;
    port->rank = (uint32_t)shape->dim.count;
    for (uint32_t i = 0; i < port->rank; i++) {
        const wf_pb_dim_t *dim = &shape->dim.items[i];
        bool is_size = dim->head.last == 1; /* dim_value; 2 is dim_param */
        port->dims[i].size = is_size && dim->dim_value > 0 ? dim->dim_value : -1;
        if (!is_size && !is_anonymous(dim->dim_param)) {
            char *symbol;
            WF_TRY(wf_arena_alloc(arena, dim->dim_param.bytes + 1, 1, &symbol));
            memcpy(symbol, dim->dim_param.data, dim->dim_param.bytes);
            wf_utf8_sanitise(symbol);
            port->dims[i].symbol = symbol;
        }
    }
    return WF_OK;
}

wf_status_t wf_onnx_port_read(const wf_pb_value_info_t *info, const char *what, wf_arena_t *arena,
                              wf_port_t *out_port, wf_status_t *out_refusal)
{
    char *name;
    *out_port = (wf_port_t){.dtype = WF_DTYPE_NONE};
    *out_refusal = WF_OK;
    WF_TRY(wf_arena_alloc(arena, info->name.bytes + 1, 1, &name));
    if (info->name.bytes > 0) {
        memcpy(name, info->name.data, info->name.bytes);
    }
    wf_utf8_sanitise(name);
    out_port->name = name;
    const wf_pb_type_t *type = info->type;
    if (type == NULL || (type->head.seen == 0)) {
        *out_refusal = WF_ERROR(MODEL_INVALID, "%s %s has no type", what, name);
        return WF_OK;
    }
    if (type->head.last != 1) { /* tensor_type */
        *out_refusal = WF_ERROR(MODEL_UNSUPPORTED,
                                "%s %s is a sequence, map, optional or sparse tensor; only dense "
                                "tensors are supported",
                                what, name);
        return WF_OK;
    }
    out_port->dtype = wf_dtype_from_onnx(type->tensor_type->elem_type);
    if (out_port->dtype == WF_DTYPE_NONE) {
        *out_refusal = WF_ERROR(MODEL_UNSUPPORTED, "%s %s has element type %lld, which is not known", what,
                                name, (long long)type->tensor_type->elem_type);
        return WF_OK;
    }
    if (out_port->dtype == WF_DTYPE_STR) {
        *out_refusal =
            WF_ERROR(MODEL_UNSUPPORTED, "%s %s is a tensor of strings, which are not supported", what, name);
    }
    const wf_pb_shape_t *shape = type->tensor_type->shape;
    if (shape != NULL && shape->dim.count > WF_MAX_RANK) {
        *out_refusal = wf_status_join(*out_refusal, WF_ERROR(MODEL_UNSUPPORTED,
                                                             "%s %s has rank %zu, at most %d is supported",
                                                             what, name, shape->dim.count, WF_MAX_RANK));
        return WF_OK;
    }
    return shape != NULL ? read_dims(shape, arena, out_port) : WF_OK;
}

/* ---- Counts ---- */

typedef struct counter {
    wf_onnx_model_t *model;
    wf_map_t index; /* operator to place in items */
    WF_VEC(wf_span_t) names;
    WF_VEC(size_t) counts;
    size_t nodes;
    size_t initializers;
    uint64_t initializer_bytes;
} counter_t;

static wf_status_t count_node(counter_t *self, const wf_pb_node_t *node)
{
    wf_span_t name = {node->op_type.bytes > 0 ? node->op_type.data : (const uint8_t *)"",
                      node->op_type.bytes};
    self->nodes++;
    if (node->domain.bytes > 0 && !wf_span_equal(node->domain, "ai.onnx")) {
        const char *text;
        WF_TRY(wf_arena_format(&self->model->arena, &text, "%.*s.%.*s", WF_SPAN_ARGS(node->domain),
                               WF_SPAN_ARGS(node->op_type)));
        name = (wf_span_t){(const uint8_t *)text, strlen(text)};
    }
    uint64_t place;
    if (wf_map_get(&self->index, (const char *)name.data, name.bytes, &place)) {
        self->counts.items[place]++;
        return WF_OK;
    }
    size_t one = 1;
    WF_TRY(wf_map_set(&self->index, (const char *)name.data, name.bytes, self->names.count));
    WF_TRY(wf_vec_push(self->model->allocator, &self->names, &name));
    return wf_vec_push(self->model->allocator, &self->counts, &one);
}

static wf_status_t count_graph(counter_t *self, const wf_pb_graph_t *graph);

static wf_status_t count_nodes(counter_t *self, const wf_pb_node_t *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        WF_TRY(count_node(self, &nodes[i]));
        for (size_t k = 0; k < nodes[i].attribute.count; k++) {
            if (nodes[i].attribute.items[k].g != NULL) {
                WF_TRY(count_graph(self, nodes[i].attribute.items[k].g));
            }
        }
    }
    return WF_OK;
}

static wf_status_t count_graph(counter_t *self, const wf_pb_graph_t *graph)
{
    for (size_t i = 0; i < graph->initializer.count; i++) {
        wf_type_t type;
        wf_status_t status = wf_onnx_tensor_type(&graph->initializer.items[i], &type);
        if (status == WF_OK) {
            self->initializer_bytes += (uint64_t)wf_type_bytes(&type);
        }
        wf_status_ignore(status); /* it is in the list of problems */
        self->initializers++;
    }
    return count_nodes(self, graph->node.items, graph->node.count);
}

/* ---- Summary ---- */

typedef struct op_count {
    const char *name;
    size_t count;
} op_count_t;

static int compare_counts(const void *left, const void *right)
{
    const op_count_t *a = left, *b = right;
    return a->count != b->count ? (a->count < b->count ? 1 : -1) : strcmp(a->name, b->name);
}

static wf_status_t list_ops(counter_t *self, wf_onnx_summary_t *summary)
{
    wf_arena_t *arena = &self->model->arena;
    size_t count = self->names.count;
    op_count_t *ops;
    const char **names;
    size_t *counts;
    WF_TRY(wf_arena_alloc(arena, count, sizeof *ops, &ops));
    WF_TRY(wf_arena_alloc(arena, count, sizeof *names, &names));
    WF_TRY(wf_arena_alloc(arena, count, sizeof *counts, &counts));
    for (size_t i = 0; i < count; i++) {
        char *text;
        wf_span_t name = self->names.items[i];
        WF_TRY(wf_arena_alloc(arena, name.bytes + 1, 1, &text));
        memcpy(text, name.data, name.bytes);
        wf_utf8_sanitise(text);
        ops[i] = (op_count_t){text, self->counts.items[i]};
    }
    if (count > 1) {
        wf_sort(ops, count, sizeof *ops, compare_counts);
    }
    for (size_t i = 0; i < count; i++) {
        names[i] = ops[i].name;
        counts[i] = ops[i].count;
    }
    summary->op_names = names;
    summary->op_counts = counts;
    summary->op_kind_count = count;
    return WF_OK;
}

static wf_status_t count_all(counter_t *self, wf_onnx_summary_t *summary)
{
    const wf_pb_model_t *proto = &self->model->proto;
    WF_TRY(count_graph(self, proto->graph));
    for (size_t i = 0; i < proto->functions.count; i++) {
        WF_TRY(count_nodes(self, proto->functions.items[i].node.items, proto->functions.items[i].node.count));
    }
    summary->node_count = self->nodes;
    summary->initializer_count = self->initializers;
    summary->initializer_bytes = self->initializer_bytes;
    return list_ops(self, summary);
}

static wf_status_t list_opsets(wf_onnx_model_t *model, const char **out_text)
{
    wf_text_t text;
    wf_text_init(&text, model->allocator, 65536);
    for (size_t i = 0; i < model->proto.opset_import.count; i++) {
        const wf_pb_opset_t *opset = &model->proto.opset_import.items[i];
        wf_text_printf(&text, "%s%.*s %lld", i > 0 ? ", " : "",
                       opset->domain.bytes > 0 ? (int)WF_MIN(opset->domain.bytes, 200u) : 7,
                       opset->domain.bytes > 0 ? (const char *)opset->domain.data : "ai.onnx",
                       (long long)opset->version);
    }
    wf_status_t status = wf_text_take_status(&text);
    char *copy;
    if (status == WF_OK) {
        status = wf_arena_alloc(&model->arena, text.length + 1, 1, &copy);
    }
    if (status == WF_OK) {
        memcpy(copy, wf_text_cstr(&text), text.length);
        wf_utf8_sanitise(copy);
        *out_text = copy;
    }
    wf_text_deinit(&text);
    return status;
}

static wf_status_t read_ports(wf_onnx_model_t *model, const wf_pb_value_info_t *infos, size_t info_count,
                              bool skip_initializers, const wf_port_t **out_ports, size_t *out_count)
{
    wf_port_t *ports;
    size_t count = 0;
    WF_TRY(wf_arena_alloc(&model->arena, info_count, sizeof *ports, &ports));
    for (size_t i = 0; i < info_count; i++) {
        uint64_t index;
        wf_status_t refusal;
        if (skip_initializers && infos[i].name.bytes > 0 &&
            wf_map_get(&model->initializers, (const char *)infos[i].name.data, infos[i].name.bytes, &index)) {
            continue;
        }
        WF_TRY(wf_onnx_port_read(&infos[i], "", &model->arena, &ports[count], &refusal));
        wf_status_ignore(refusal); /* it is in the list of problems */
        count++;
    }
    *out_ports = ports;
    *out_count = count;
    return WF_OK;
}

wf_status_t wf_onnx_summarise(wf_onnx_model_t *model)
{
    const wf_pb_model_t *proto = &model->proto;
    wf_onnx_summary_t *summary = &model->summary;
    counter_t counter = {.model = model};
    char *producer;
    summary->ir_version = proto->ir_version;
    WF_TRY(wf_arena_format(&model->arena, &summary->producer, "%.*s%s%.*s",
                           WF_SPAN_ARGS(proto->producer_name),
                           proto->producer_name.bytes > 0 && proto->producer_version.bytes > 0 ? " " : "",
                           WF_SPAN_ARGS(proto->producer_version)));
    memcpy(&producer, &summary->producer, sizeof producer);
    wf_utf8_sanitise(producer);
    WF_TRY(list_opsets(model, &summary->opsets));
    WF_TRY(read_ports(model, proto->graph->input.items, proto->graph->input.count, true, &summary->inputs,
                      &summary->input_count));
    WF_TRY(read_ports(model, proto->graph->output.items, proto->graph->output.count, false, &summary->outputs,
                      &summary->output_count));
    wf_map_init(&counter.index, model->allocator);
    wf_status_t status = count_all(&counter, summary);
    wf_map_deinit(&counter.index);
    wf_vec_deinit(model->allocator, &counter.names);
    wf_vec_deinit(model->allocator, &counter.counts);
    return status;
}
