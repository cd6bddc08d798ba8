/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: content hash. The description is hashed in blocks, each together with the hash of those before it.
 */
#include <string.h>

#include "base/compiler.h"
#include "graph/internal.h"

enum { BLOCK_BYTES = 64 << 10 };

typedef struct hasher {
    uint8_t *block; /* BLOCK_BYTES; the first 16 hold the hash so far */
    size_t used;
} hasher_t;

static void close_block(hasher_t *self)
{
    wf_hash_t hash = wf_hash_bytes(self->block, self->used);
    memcpy(self->block, &hash, sizeof hash);
    self->used = sizeof hash;
}

static void put(hasher_t *self, const void *bytes, size_t length)
{
    if (length > BLOCK_BYTES / 2) { /* large: its own hash stands for it */
        wf_hash_t hash = wf_hash_bytes(bytes, length);
        put(self, &hash, sizeof hash);
        return;
    }
    if (length > BLOCK_BYTES - self->used) {
        close_block(self);
    }
    if (length > 0) {
        memcpy(self->block + self->used, bytes, length);
        self->used += length;
    }
}

static void put_u64(hasher_t *self, uint64_t value)
{
    put(self, &value, sizeof value);
}

static void put_text(hasher_t *self, const char *text)
{
    size_t length = strlen(text);
    put_u64(self, length);
    put(self, text, length);
}

static void put_type(hasher_t *self, const wf_type_t *type)
{
    put_u64(self, type->dtype);
    put_u64(self, type->rank);
    put(self, type->dims, type->rank * sizeof type->dims[0]);
}

static void put_tensor(hasher_t *self, const wf_tensor_t *tensor)
{
    int64_t bytes = wf_type_bytes(&tensor->type);
    put_type(self, &tensor->type);
    put(self, tensor->data, bytes > 0 ? (size_t)bytes : 0);
}

static void put_attr(hasher_t *self, const wf_attr_t *attr)
{
    put_text(self, attr->name);
    put_u64(self, attr->kind);
    switch (attr->kind) {
    case WF_ATTR_INT:
        put(self, &attr->v.i, sizeof attr->v.i);
        break;
    case WF_ATTR_FLOAT:
        put(self, &attr->v.f, sizeof attr->v.f);
        break;
    case WF_ATTR_STRING:
        put_text(self, attr->v.s);
        break;
    case WF_ATTR_INTS:
        put_u64(self, attr->count);
        put(self, attr->v.ints, attr->count * sizeof *attr->v.ints);
        break;
    case WF_ATTR_FLOATS:
        put_u64(self, attr->count);
        put(self, attr->v.floats, attr->count * sizeof *attr->v.floats);
        break;
    case WF_ATTR_STRINGS:
        put_u64(self, attr->count);
        for (size_t i = 0; i < attr->count; i++) {
            put_text(self, attr->v.strings[i]);
        }
        break;
    case WF_ATTR_TENSOR:
        put_tensor(self, attr->v.tensor);
        break;
    }
}

/* Values are named, not numbered: ids differ between graphs that were built in different ways. */
static void put_value(hasher_t *self, const wf_graph_t *graph, wf_value_id id)
{
    put_text(self, id == WF_NO_VALUE ? "" : wf_graph_value(graph, id)->name);
}

static void put_typed_value(hasher_t *self, const wf_graph_t *graph, wf_value_id id)
{
    put_value(self, graph, id);
    if (id != WF_NO_VALUE && wf_graph_value(graph, id)->type_known) {
        put_type(self, &wf_graph_value(graph, id)->type);
    }
}

static void put_node(hasher_t *self, const wf_graph_t *graph, const wf_node_t *node)
{
    const wf_op_info_t *info = wf_op_info(node->op);
    put_u64(self, info->domain);
    put_text(self, info->onnx_name);
    put_u64(self, node->attrs.count);
    for (size_t i = 0; i < node->attrs.count; i++) {
        put_attr(self, &node->attrs.items[i]);
    }
    put_u64(self, node->input_count);
    for (uint32_t i = 0; i < node->input_count; i++) {
        wf_tensor_t constant;
        put_value(self, graph, node->inputs[i]);
        if (wf_graph_constant(graph, node->inputs[i], &constant)) {
            put_type(self, &constant.type); /* its bytes are put once, below */
        }
    }
    put_u64(self, node->output_count);
    for (uint32_t i = 0; i < node->output_count; i++) {
        put_typed_value(self, graph, node->outputs[i]);
    }
}

/* Order-free sum over the constants in use: their storage order is no part of the content. */
static wf_hash_t hash_constants(const wf_graph_t *graph)
{
    wf_hash_t sum = {0, 0};
    for (size_t i = 0; i < graph->values.count; i++) {
        wf_tensor_t tensor;
        const wf_value_t *value = &graph->values.items[i];
        if (value->use_count == 0 || !wf_graph_constant(graph, (wf_value_id)i, &tensor)) {
            continue;
        }
        int64_t bytes = wf_type_bytes(&tensor.type);
        wf_hash_t parts[2] = {wf_hash_bytes(value->name, strlen(value->name)),
                              wf_hash_bytes(tensor.data, bytes > 0 ? (size_t)bytes : 0)};
        wf_hash_t one = wf_hash_bytes(parts, sizeof parts);
        sum.low += one.low;
        sum.high += one.high;
    }
    return sum;
}

wf_status_t wf_graph_hash(const wf_graph_t *graph, wf_hash_t *out_hash)
{
    hasher_t self = {.used = sizeof(wf_hash_t)};
    wf_hash_t constants = hash_constants(graph);
    WF_TRY(wf_alloc(graph->arena.allocator, BLOCK_BYTES, 1, &self.block));
    put_text(&self, graph->name);
    put(&self, &constants, sizeof constants);
    put_u64(&self, graph->inputs.count);
    for (size_t i = 0; i < graph->inputs.count; i++) {
        put_typed_value(&self, graph, graph->inputs.items[i]);
    }
    put_u64(&self, graph->order.count);
    for (size_t i = 0; i < graph->order.count; i++) {
        put_node(&self, graph, wf_graph_node(graph, graph->order.items[i]));
    }
    put_u64(&self, graph->outputs.count);
    for (size_t i = 0; i < graph->outputs.count; i++) {
        put_typed_value(&self, graph, graph->outputs.items[i]);
    }
    close_block(&self);
    memcpy(out_hash, self.block, sizeof *out_hash);
    wf_free(graph->arena.allocator, self.block, BLOCK_BYTES, 1);
    return WF_OK;
}
