/* SPDX-License-Identifier: Apache-2.0 */
/* External data: bytes of tensors in other files of the model's folder. Nothing outside the folder is opened.
 */
#include <string.h>

#include "base/compiler.h"
#include "onnx/model.h"
#include "onnx/tensor.h"

typedef wf_status_t tensor_fn(void *arg, wf_pb_tensor_t *tensor);
static wf_status_t walk_graph(wf_pb_graph_t *graph, tensor_fn *fn, void *arg);

static wf_status_t walk_attributes(wf_pb_attribute_t *attributes, size_t count, tensor_fn *fn, void *arg)
{
    for (size_t i = 0; i < count; i++) {
        if (attributes[i].t != NULL) {
            WF_TRY(fn(arg, attributes[i].t));
        }
        if (attributes[i].g != NULL) {
            WF_TRY(walk_graph(attributes[i].g, fn, arg));
        }
    }
    return WF_OK;
}

static wf_status_t walk_nodes(wf_pb_node_t *nodes, size_t count, tensor_fn *fn, void *arg)
{
    for (size_t i = 0; i < count; i++) {
        WF_TRY(walk_attributes(nodes[i].attribute.items, nodes[i].attribute.count, fn, arg));
    }
    return WF_OK;
}

/* The decoder has bounded how deep graphs are nested. */
static wf_status_t walk_graph(wf_pb_graph_t *graph, tensor_fn *fn, void *arg)
{
    for (size_t i = 0; i < graph->initializer.count; i++) {
        WF_TRY(fn(arg, &graph->initializer.items[i]));
    }
    return walk_nodes(graph->node.items, graph->node.count, fn, arg);
}

/* All of the text as an unsigned decimal number. */
static bool read_decimal(wf_span_t text, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        uint8_t digit = (uint8_t)(text.data[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value)) {
            return false;
        }
    }
    *out = value;
    return text.bytes > 0;
}

static const wf_span_t *entry(const wf_pb_tensor_t *tensor, const char *key)
{
    for (size_t i = 0; i < tensor->external_data.count; i++) {
        if (wf_span_equal(tensor->external_data.items[i].key, key)) {
            return &tensor->external_data.items[i].value;
        }
    }
    return NULL;
}

static wf_status_t open_file(wf_onnx_model_t *model, wf_span_t name, const wf_mapping_t **out_mapping)
{
    for (size_t i = 0; i < model->data_files.count; i++) {
        if (wf_span_equal(name, model->data_files.items[i].name)) {
            *out_mapping = &model->data_files.items[i].mapping;
            return WF_OK;
        }
    }
    if (model->folder == NULL) {
        return WF_ERROR(EXTERNAL_DATA, "external data in %.*s: a model in memory has none",
                        WF_SPAN_ARGS(name));
    }
    if (name.bytes == 0 || memchr(name.data, 0, name.bytes) != NULL) {
        return WF_ERROR(EXTERNAL_DATA, "external data in \"%.*s\": not a file name", WF_SPAN_ARGS(name));
    }
    if (model->data_files.count >= WF_ONNX_MAX_DATA_FILES) {
        return WF_ERROR(MODEL_LIMIT, "external data in %.*s: more than %d files", WF_SPAN_ARGS(name),
                        WF_ONNX_MAX_DATA_FILES);
    }
    wf_onnx_data_file_t *file;
    wf_mapping_t mapping;
    const char *text;
    WF_TRY(wf_arena_text(&model->arena, (const char *)name.data, name.bytes, &text));
    WF_TRY(wf_status_annotated(wf_mapping_open_inside(model->folder, text, &mapping), "external data in %s",
                               text));
    wf_status_t status = wf_vec_grow(model->allocator, &model->data_files, sizeof *file, &file);
    if (status != WF_OK) {
        wf_mapping_close(&mapping);
        return status;
    }
    *file = (wf_onnx_data_file_t){text, mapping};
    *out_mapping = &file->mapping;
    return WF_OK;
}

static wf_status_t open_tensor(wf_onnx_model_t *model, wf_pb_tensor_t *tensor)
{
    const wf_span_t *location = entry(tensor, "location");
    const wf_span_t *offset_text = entry(tensor, "offset");
    const wf_span_t *length_text = entry(tensor, "length");
    const wf_mapping_t *mapping = NULL;
    wf_type_t type;
    uint64_t offset = 0;
    if (location == NULL) {
        return WF_ERROR(EXTERNAL_DATA, "external data without a location");
    }
    WF_TRY(wf_onnx_tensor_type(tensor, &type));
    uint64_t bytes = (uint64_t)wf_type_bytes(&type);
    uint64_t length = bytes;
    if ((offset_text != NULL && !read_decimal(*offset_text, &offset)) ||
        (length_text != NULL && !read_decimal(*length_text, &length))) {
        return WF_ERROR(EXTERNAL_DATA, "external data in %.*s: offset or length is not a number",
                        WF_SPAN_ARGS(*location));
    }
    WF_TRY(open_file(model, *location, &mapping));
    if (offset > mapping->bytes || length > mapping->bytes - offset) {
        return WF_ERROR(
            EXTERNAL_DATA, "external data in %.*s: %llu bytes at offset %llu lie outside its %zu bytes",
            WF_SPAN_ARGS(*location), (unsigned long long)length, (unsigned long long)offset, mapping->bytes);
    }
    if (length != bytes) {
        return WF_ERROR(MODEL_INVALID, "external data in %.*s has %llu bytes, its type and dims need %llu",
                        WF_SPAN_ARGS(*location), (unsigned long long)length, (unsigned long long)bytes);
    }
    if (bytes > 0) {
        tensor->external = mapping->data + offset;
    }
    return WF_OK;
}

/* TensorProto.DataLocation.EXTERNAL */
enum { LOCATION_EXTERNAL = 1 };

static wf_status_t visit(void *arg, wf_pb_tensor_t *tensor)
{
    wf_onnx_model_t *model = arg;
    if (tensor->data_location != LOCATION_EXTERNAL) {
        return WF_OK;
    }
    wf_status_t status = open_tensor(model, tensor);
    if (status == WF_OK) {
        return WF_OK;
    }
    const char *name;
    wf_status_t copied =
        wf_arena_text(&model->arena, (const char *)tensor->name.data, tensor->name.bytes, &name);
    if (copied != WF_OK) {
        return wf_status_join(copied, status);
    }
    return wf_onnx_problem_add(model, name, "", 0, wf_status_annotated(status, "tensor %s", name));
}

wf_status_t wf_onnx_external_open(wf_onnx_model_t *model)
{
    for (size_t i = 0; i < model->proto.functions.count; i++) {
        wf_pb_function_t *function = &model->proto.functions.items[i];
        WF_TRY(walk_nodes(function->node.items, function->node.count, visit, model));
        WF_TRY(
            walk_attributes(function->attribute_proto.items, function->attribute_proto.count, visit, model));
    }
    return walk_graph(model->proto.graph, visit, model);
}
