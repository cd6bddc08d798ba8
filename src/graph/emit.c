/* SPDX-License-Identifier: Apache-2.0 */
/* Making nodes and constants for passes. */
#include <string.h>

#include "base/compiler.h"
#include "graph/match.h"
#include "ref/ref.h"

wf_attr_t wf_attr_int(const char *name, int64_t value)
{
    return (wf_attr_t){.name = name, .kind = WF_ATTR_INT, .v.i = value};
}

wf_attr_t wf_attr_float(const char *name, double value)
{
    return (wf_attr_t){.name = name, .kind = WF_ATTR_FLOAT, .v.f = (float)value};
}

wf_attr_t wf_attr_string(const char *name, const char *value)
{
    return (wf_attr_t){.name = name, .kind = WF_ATTR_STRING, .count = strlen(value), .v.s = value};
}

wf_attr_t wf_attr_ints(const char *name, const int64_t *values, size_t count)
{
    return (wf_attr_t){.name = name, .kind = WF_ATTR_INTS, .count = count, .v.ints = values};
}

wf_status_t wf_emit(wf_graph_t *graph, const wf_node_spec_t *spec, const char *name, wf_value_id *out_value)
{
    wf_node_spec_t full = *spec;
    wf_value_id value;
    WF_TRY(wf_graph_add_value(graph, name, NULL, &value));
    full.outputs = &value;
    full.output_count = 1;
    WF_TRY(wf_graph_add_node(graph, &full, NULL));
    *out_value = value;
    return WF_OK;
}

wf_status_t wf_emit_binary(wf_graph_t *graph, wf_op_t op, wf_value_id a, wf_value_id b,
                           const char *onnx_names, const char *name, wf_value_id *out_value)
{
    wf_value_id inputs[2] = {a, b};
    wf_node_spec_t spec = {.op = op, .inputs = inputs, .input_count = 2, .onnx_names = onnx_names};
    return wf_emit(graph, &spec, name, out_value);
}

wf_status_t wf_emit_transpose(wf_graph_t *graph, wf_value_id x, uint32_t rank, const int64_t *perm,
                              const char *onnx_names, const char *name, wf_value_id *out_value)
{
    wf_attr_t attr = wf_attr_ints("perm", perm, rank);
    wf_node_spec_t spec = {.op = WF_OP_TRANSPOSE,
                           .attrs = &attr,
                           .attr_count = 1,
                           .inputs = &x,
                           .input_count = 1,
                           .onnx_names = onnx_names};
    return wf_emit(graph, &spec, name, out_value);
}

wf_status_t wf_change_to_reshape(wf_graph_t *graph, wf_node_id node, wf_value_id x)
{
    const wf_type_t type = *wf_value_type(graph, wf_graph_node(graph, node)->outputs[0]);
    wf_value_id inputs[2] = {x, WF_NO_VALUE};
    wf_attr_t attrs[2] = {wf_attr_int("allowzero", 0), wf_attr_ints("shape", type.dims, type.rank)};
    for (uint32_t i = 0; i < type.rank; i++) {
        if (type.dims[i] == 0) { /* 0 would mean "as in the input" */
            attrs[0].v.i = 1;
        }
    }
    wf_node_spec_t spec = {
        .op = WF_OP_RESHAPE, .attrs = attrs, .attr_count = 2, .inputs = inputs, .input_count = 2};
    return wf_graph_change_node(graph, node, &spec);
}

/* ---- Constants ---- */

wf_status_t wf_emit_constant(wf_graph_t *graph, const char *name, const wf_type_t *type,
                             wf_tensor_t *out_tensor, wf_value_id *out_value)
{
    int64_t bytes = wf_type_bytes(type);
    if (bytes < 0) {
        return WF_ERROR(MODEL_LIMIT, "constant %s is too large", name);
    }
    *out_tensor = (wf_tensor_t){.type = *type};
    WF_TRY(wf_arena_alloc(&graph->arena, (size_t)bytes, 1, &out_tensor->data));
    return wf_graph_add_constant(graph, name, type, out_tensor->data, out_value);
}

wf_status_t wf_emit_doubles(wf_graph_t *graph, const char *name, const wf_type_t *type, const double *values,
                            wf_value_id *out_value)
{
    wf_tensor_t tensor;
    int64_t elems = wf_type_elems(type);
    WF_TRY(wf_emit_constant(graph, name, type, &tensor, out_value));
    for (int64_t i = 0; i < elems; i++) {
        if (!wf_constant_set(&tensor, i, values[i])) {
            return WF_ERROR(INTERNAL, "constant %s: value does not fit %s", name, wf_dtype_name(type->dtype));
        }
    }
    return WF_OK;
}

wf_status_t wf_emit_reshaped_constant(wf_graph_t *graph, wf_value_id constant, const wf_type_t *type,
                                      wf_value_id *out_value)
{
    const wf_value_t *value = wf_graph_value(graph, constant);
    assert(value->constant != NULL && wf_type_elems(&value->type) == wf_type_elems(type));
    if (wf_type_equal(&value->type, type)) {
        *out_value = constant;
        return WF_OK;
    }
    return wf_graph_add_constant(graph, value->name, type, value->constant, out_value);
}

wf_status_t wf_emit_permuted_constant(wf_graph_t *graph, wf_value_id constant, const int64_t *perm,
                                      const wf_parallel_t *parallel, wf_value_id *out_value)
{
    wf_tensor_t from, to;
    if (!wf_graph_constant(graph, constant, &from)) {
        return WF_ERROR(INTERNAL, "value to permute is not a constant");
    }
    wf_type_t type = from.type;
    for (uint32_t i = 0; i < type.rank; i++) {
        type.dims[i] = from.type.dims[perm[i]];
    }
    const char *name = wf_graph_value(graph, constant)->name;
    WF_TRY(wf_emit_constant(graph, name, &type, &to, out_value));
    wf_attr_t attr = wf_attr_ints("perm", perm, type.rank);
    wf_attrs_t attrs = {&attr, 1};
    wf_ref_call_t call = {.op = WF_OP_TRANSPOSE,
                          .attrs = &attrs,
                          .input_count = 1,
                          .inputs = &from,
                          .output_count = 1,
                          .outputs = &to,
                          .parallel = parallel};
    return wf_type_elems(&type) > 0 ? wf_ref_run(&call) : WF_OK;
}

/* ---- Names ---- */

enum { JOINED_NODES = 64 };

static bool is_member(const wf_node_id *nodes, size_t count, wf_node_id node)
{
    for (size_t i = 0; i < count; i++) {
        if (nodes[i] == node) {
            return true;
        }
    }
    return false;
}

/* Nodes of the cone in depth-first order, producers first. */
static size_t collect_cone(const wf_graph_t *graph, wf_node_id root, const wf_value_id *boundary,
                           size_t boundary_count, wf_node_id *out_nodes)
{
    wf_node_id found[JOINED_NODES] = {root};
    size_t found_count = 1;
    for (size_t next = 0; next < found_count; next++) {
        const wf_node_t *node = wf_graph_node(graph, found[next]);
        for (uint32_t i = 0; i < node->input_count; i++) {
            wf_value_id input = node->inputs[i];
            bool stops = input == WF_NO_VALUE || wf_graph_value(graph, input)->producer == WF_NO_NODE;
            for (size_t j = 0; !stops && j < boundary_count; j++) {
                stops = boundary[j] == input;
            }
            wf_node_id producer = stops ? WF_NO_NODE : wf_graph_value(graph, input)->producer;
            if (producer != WF_NO_NODE && found_count < JOINED_NODES &&
                !is_member(found, found_count, producer)) {
                found[found_count++] = producer;
            }
        }
    }
    for (size_t i = 0; i < found_count;
         i++) { /* breadth-first from the root, so reversed it is oldest first */
        out_nodes[i] = found[found_count - 1 - i];
    }
    return found_count;
}

wf_status_t wf_join_names(wf_graph_t *graph, wf_node_id root, const wf_value_id *boundary,
                          size_t boundary_count, const char **out_names)
{
    wf_node_id nodes[JOINED_NODES];
    size_t count = collect_cone(graph, root, boundary, boundary_count, nodes);
    wf_text_t text;
    wf_text_init(&text, graph->arena.allocator, SIZE_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *names = wf_graph_node(graph, nodes[i])->onnx_names;
        bool repeated = names == NULL || names[0] == '\0';
        for (size_t j = 0; !repeated && j < i; j++) {
            repeated = strcmp(names, wf_graph_node(graph, nodes[j])->onnx_names) == 0;
        }
        if (!repeated) {
            wf_text_puts(&text, text.length > 0 ? ", " : "");
            wf_text_puts(&text, names);
        }
    }
    wf_status_t status = wf_text_take_status(&text);
    if (status == WF_OK) {
        status = wf_arena_text(&graph->arena, wf_text_cstr(&text), text.length, out_names);
    }
    wf_text_deinit(&text);
    return status;
}

/* ---- Visiting ---- */

typedef WF_VEC(wf_value_id) values_t;

static bool is_unread(const wf_graph_t *graph, wf_value_id id)
{
    if (id == WF_NO_VALUE || wf_graph_value(graph, id)->use_count > 0 ||
        wf_graph_value(graph, id)->producer == WF_NO_NODE) {
        return false;
    }
    const wf_node_t *node = wf_graph_node(graph, wf_graph_value(graph, id)->producer);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE && wf_graph_value(graph, node->outputs[i])->use_count > 0) {
            return false;
        }
    }
    return true;
}

/* Removes the producers of unread values, and what only they read. Empties the list. */
static wf_status_t sweep(wf_graph_t *graph, values_t *values)
{
    while (values->count > 0) {
        wf_value_id id = values->items[--values->count];
        if (!is_unread(graph, id)) {
            continue;
        }
        wf_node_id producer = wf_graph_value(graph, id)->producer;
        const wf_node_t *node = wf_graph_node(graph, producer);
        for (uint32_t i = 0; i < node->input_count; i++) {
            WF_TRY(wf_vec_push(graph->arena.allocator, values, &node->inputs[i]));
        }
        wf_graph_remove_node(graph, producer);
    }
    return WF_OK;
}

static wf_status_t visit_nodes(wf_graph_t *graph, wf_visit_fn *fn, void *self, values_t *read,
                               uint32_t *changes)
{
    size_t count = graph->order.count;
    for (size_t i = 0; i < count; i++) {
        wf_node_id id = graph->order.items[i];
        const wf_node_t *node = wf_graph_node(graph, id);
        uint32_t before = *changes;
        if (node->removed) {
            continue;
        }
        read->count = 0;
        for (uint32_t j = 0; j < node->input_count; j++) {
            WF_TRY(wf_vec_push(graph->arena.allocator, read, &node->inputs[j]));
        }
        WF_TRY(fn(self, graph, id, changes));
        if (*changes != before) {
            WF_TRY(sweep(graph, read));
        }
    }
    return *changes > 0 ? wf_graph_sort(graph) : WF_OK;
}

wf_status_t wf_visit_nodes(wf_graph_t *graph, wf_visit_fn *fn, void *self, uint32_t *out_changes)
{
    values_t read = {0};
    *out_changes = 0;
    wf_status_t status = visit_nodes(graph, fn, self, &read, out_changes);
    wf_vec_deinit(graph->arena.allocator, &read);
    return status;
}
