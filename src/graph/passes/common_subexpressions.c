/* SPDX-License-Identifier: Apache-2.0 */
/* common_subexpressions: a node with the operator, attributes, inputs and output types of an earlier one
 * gives its uses to it; constants of at most LARGEST_CONSTANT_BYTES with the same type and the same bits
 * become one. Bits, not values: NaNs with different payloads and zeros of different sign stay apart. Nodes
 * that draw random numbers are never merged. */
#include <string.h>

#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

/* Weights are shared by exporters already, and hashing all of them would read the whole model file. */
enum { LARGEST_CONSTANT_BYTES = 64 << 10 };

typedef struct merger {
    wf_graph_t *graph;
    uint8_t *visited; /* per node that was there at the start */
    size_t node_count;
    wf_arena_t keys; /* bytes of the keys in the map */
    wf_map_t seen;   /* key to node id or value id */
    wf_text_t key;
} merger_t;

static void put(merger_t *self, const void *bytes, size_t length)
{
    wf_text_append(&self->key, bytes, length);
}

static void put_u64(merger_t *self, uint64_t value)
{
    put(self, &value, sizeof value);
}

static void put_text(merger_t *self, const char *text)
{
    put_u64(self, strlen(text));
    wf_text_puts(&self->key, text);
}

static void put_type(merger_t *self, const wf_type_t *type)
{
    put_u64(self, type->dtype);
    put_u64(self, type->rank);
    put(self, type->dims, type->rank * sizeof type->dims[0]);
}

static void put_attr(merger_t *self, const wf_attr_t *attr)
{
    put_text(self, attr->name);
    put_u64(self, attr->kind);
    put_u64(self, attr->count);
    switch (attr->kind) {
    case WF_ATTR_INT:
        put_u64(self, (uint64_t)attr->v.i);
        break;
    case WF_ATTR_FLOAT:
        put(self, &attr->v.f, sizeof attr->v.f);
        break;
    case WF_ATTR_STRING:
        put_text(self, attr->v.s);
        break;
    case WF_ATTR_INTS:
        put(self, attr->v.ints, attr->count * sizeof *attr->v.ints);
        break;
    case WF_ATTR_FLOATS:
        put(self, attr->v.floats, attr->count * sizeof *attr->v.floats);
        break;
    case WF_ATTR_STRINGS:
        for (size_t i = 0; i < attr->count; i++) {
            put_text(self, attr->v.strings[i]);
        }
        break;
    case WF_ATTR_TENSOR: /* by place: equal tensors elsewhere are rare, and constants by the time passes run
                          */
        put_u64(self, (uint64_t)(uintptr_t)attr->v.tensor);
        break;
    }
}

static void put_node(merger_t *self, const wf_node_t *node)
{
    uint32_t first = 0;
    bool swap = (wf_op_info(node->op)->flags & WF_OP_FLAG_COMM) && node->input_count == 2 &&
                node->inputs[0] > node->inputs[1];
    put_u64(self, node->op);
    put_u64(self, node->attrs.count);
    for (size_t i = 0; i < node->attrs.count; i++) {
        put_attr(self, &node->attrs.items[i]);
    }
    put_u64(self, node->input_count);
    if (swap) {
        put_u64(self, node->inputs[1]);
        put_u64(self, node->inputs[0]);
        first = 2;
    }
    for (uint32_t i = first; i < node->input_count; i++) {
        put_u64(self, node->inputs[i]);
    }
    put_u64(self, node->output_count);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == WF_NO_VALUE) {
            put_u64(self, UINT64_MAX);
        } else {
            put_type(self, wf_value_type(self->graph, node->outputs[i]));
        }
    }
}

/* Looks the key up; when it is new, keeps it with `value`. */
static wf_status_t find_or_keep(merger_t *self, uint64_t value, bool *out_found, uint64_t *out_first)
{
    const char *kept = NULL;
    WF_TRY(wf_text_take_status(&self->key));
    *out_found = wf_map_get(&self->seen, self->key.data, self->key.length, out_first);
    if (*out_found) {
        return WF_OK;
    }
    WF_TRY(wf_arena_text(&self->keys, self->key.data, self->key.length, &kept));
    return wf_map_set(&self->seen, kept, self->key.length, value);
}

static wf_status_t merge_constants(merger_t *self, uint32_t *changes)
{
    wf_graph_t *graph = self->graph;
    for (wf_value_id id = 0; id < graph->values.count; id++) {
        wf_tensor_t tensor;
        bool found;
        uint64_t first;
        if (!wf_graph_constant(graph, id, &tensor) || wf_graph_value(graph, id)->use_count == 0 ||
            wf_graph_value(graph, id)->is_output || wf_type_bytes(&tensor.type) > LARGEST_CONSTANT_BYTES ||
            wf_type_bytes(&tensor.type) < 0) {
            continue;
        }
        self->key.length = 0;
        put_u64(self, WF_OP_COUNT); /* no operator has this number */
        put_type(self, &tensor.type);
        put(self, tensor.data, (size_t)wf_type_bytes(&tensor.type));
        WF_TRY(find_or_keep(self, id, &found, &first));
        if (found) {
            WF_TRY(wf_graph_replace_uses(graph, id, (wf_value_id)first));
            (*changes)++;
        }
    }
    return WF_OK;
}

/* A merge must not leave a new Identity behind for a graph output. */
static bool can_replace(const wf_graph_t *graph, wf_value_id from, wf_value_id to)
{
    return from == WF_NO_VALUE || !wf_graph_value(graph, from)->is_output ||
           !wf_graph_value(graph, to)->is_output;
}

/* Equal nodes share their inputs, so a node with an input that only it reads has no equal. Most nodes end
 * here. */
static bool may_have_equal(const wf_graph_t *graph, const wf_node_t *node)
{
    if ((wf_op_info(node->op)->flags & WF_OP_FLAG_NONDET) || node->region_count > 0 ||
        node->output_count == 0) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] != WF_NO_VALUE && wf_graph_value(graph, node->inputs[i])->use_count == 1) {
            return false;
        }
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE && !wf_graph_value(graph, node->outputs[i])->type_known) {
            return false;
        }
    }
    return true;
}

/* Finds the node's equal among those before it, or keeps it for those after it. */
static wf_status_t find_equal(merger_t *self, wf_node_id id, bool *out_found, uint64_t *out_first)
{
    const wf_node_t *node = wf_graph_node(self->graph, id);
    *out_found = false;
    if (!may_have_equal(self->graph, node)) {
        return WF_OK;
    }
    self->key.length = 0;
    put_node(self, node);
    return find_or_keep(self, id, out_found, out_first);
}

/* `from` gives its uses to `to`. A node that was the only reader of `to` was passed over; now it may have an
 * equal. */
static wf_status_t give_uses(merger_t *self, wf_value_id from, wf_value_id to)
{
    const wf_use_t *only = wf_graph_value(self->graph, to)->uses;
    bool found;
    uint64_t first;
    only = only != NULL && only->next == NULL ? only : NULL;
    wf_node_id reader = only != NULL ? only->node : WF_NO_NODE;
    WF_TRY(wf_graph_replace_uses(self->graph, from, to));
    if (reader < self->node_count && self->visited[reader]) {
        return find_equal(self, reader, &found, &first);
    }
    return WF_OK;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    merger_t *self = arg;
    bool found;
    uint64_t first;
    self->visited[id] = 1;
    WF_TRY(find_equal(self, id, &found, &first));
    if (!found || first == id) {
        return WF_OK;
    }
    const wf_node_t *node = wf_graph_node(graph, id);
    const wf_node_t *kept = wf_graph_node(graph, (wf_node_id)first);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!can_replace(graph, node->outputs[i], kept->outputs[i])) {
            return WF_OK;
        }
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE) {
            WF_TRY(give_uses(self, node->outputs[i], kept->outputs[i]));
        }
    }
    wf_graph_remove_node(graph, id);
    (*changes)++;
    return WF_OK;
}

WF_PASS(common_subexpressions)
{
    wf_allocator_t allocator = graph->arena.allocator;
    merger_t self = {.graph = graph, .node_count = graph->nodes.count};
    uint32_t merged_constants = 0;
    (void)parallel;
    wf_arena_init(&self.keys, allocator);
    wf_map_init(&self.seen, allocator);
    wf_text_init(&self.key, allocator, SIZE_MAX / 2);
    wf_status_t status = wf_alloc(allocator, self.node_count, sizeof *self.visited, &self.visited);
    if (status == WF_OK) {
        status = merge_constants(&self, &merged_constants);
    }
    if (status == WF_OK) {
        status = wf_visit_nodes(graph, visit, &self, out_changes);
        *out_changes += merged_constants;
    }
    wf_free(allocator, self.visited, self.node_count, sizeof *self.visited);
    wf_text_deinit(&self.key);
    wf_map_deinit(&self.seen);
    wf_arena_deinit(&self.keys);
    return status;
}
