/* SPDX-License-Identifier: Apache-2.0 */
#include "support/onnx_writer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Wire format ---- */

void onnx_bytes_free(onnx_bytes_t *bytes)
{
    free(bytes->data);
    *bytes = (onnx_bytes_t){NULL, 0, 0};
}

void onnx_put_raw(onnx_bytes_t *to, const void *data, size_t bytes)
{
    if (to->bytes + bytes > to->capacity) {
        to->capacity = 2 * to->capacity + bytes + 64;
        to->data = realloc(to->data, to->capacity);
        if (to->data == NULL) {
            fprintf(stderr, "out of memory\n");
            exit(1);
        }
    }
    if (bytes > 0) {
        memcpy(to->data + to->bytes, data, bytes);
    }
    to->bytes += bytes;
}

void onnx_put_varint(onnx_bytes_t *to, uint64_t value)
{
    uint8_t bytes[10];
    size_t count = 0;
    do {
        bytes[count++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
    onnx_put_raw(to, bytes, count);
}

static void put_tag(onnx_bytes_t *to, uint32_t field, uint32_t wire_type)
{
    onnx_put_varint(to, (uint64_t)field << 3 | wire_type);
}

void onnx_put_int(onnx_bytes_t *to, uint32_t field, int64_t value)
{
    put_tag(to, field, 0);
    onnx_put_varint(to, (uint64_t)value);
}

void onnx_put_float(onnx_bytes_t *to, uint32_t field, float value)
{
    put_tag(to, field, 5);
    onnx_put_raw(to, &value, sizeof value);
}

void onnx_put_double(onnx_bytes_t *to, uint32_t field, double value)
{
    put_tag(to, field, 1);
    onnx_put_raw(to, &value, sizeof value);
}

void onnx_put_blob(onnx_bytes_t *to, uint32_t field, const void *data, size_t bytes)
{
    put_tag(to, field, 2);
    onnx_put_varint(to, bytes);
    onnx_put_raw(to, data, bytes);
}

void onnx_put_text(onnx_bytes_t *to, uint32_t field, const char *text)
{
    onnx_put_blob(to, field, text, strlen(text));
}

void onnx_put_message(onnx_bytes_t *to, uint32_t field, onnx_bytes_t *child)
{
    onnx_put_blob(to, field, child->data, child->bytes);
    onnx_bytes_free(child);
}

/* ---- Parts of a model ---- */

/* The next item of a list; false at its end. "" has no items. */
static bool next_item(const char **at, char separator, char *item, size_t item_bytes)
{
    if (*at == NULL || **at == '\0') {
        return false;
    }
    const char *end = strchr(*at, separator);
    size_t length = end != NULL ? (size_t)(end - *at) : strlen(*at);
    if (length >= item_bytes) {
        fprintf(stderr, "onnx_writer: \"%s\" is too long\n", *at);
        exit(1);
    }
    memcpy(item, *at, length);
    item[length] = '\0';
    *at = end != NULL ? end + 1 : NULL;
    return true;
}

onnx_bytes_t onnx_value(const char *name, int type, const char *dims)
{
    onnx_bytes_t shape = {0}, tensor_type = {0}, type_proto = {0}, value = {0};
    char item[64];
    onnx_put_int(&tensor_type, 1, type);
    if (dims != NULL) {
        while (next_item(&dims, ',', item, sizeof item)) {
            onnx_bytes_t dim = {0};
            if ((item[0] >= '0' && item[0] <= '9') || item[0] == '-') {
                onnx_put_int(&dim, 1, strtoll(item, NULL, 10));
            } else if (item[0] != '?') {
                onnx_put_text(&dim, 2, item);
            }
            onnx_put_message(&shape, 1, &dim);
        }
        onnx_put_message(&tensor_type, 2, &shape);
    }
    onnx_put_message(&type_proto, 1, &tensor_type);
    onnx_put_text(&value, 1, name);
    onnx_put_message(&value, 2, &type_proto);
    return value;
}

onnx_bytes_t onnx_tensor(const char *name, int type, const char *dims)
{
    onnx_bytes_t tensor = {0};
    char item[64];
    while (next_item(&dims, ',', item, sizeof item)) {
        onnx_put_int(&tensor, 1, strtoll(item, NULL, 10));
    }
    onnx_put_int(&tensor, 2, type);
    onnx_put_text(&tensor, 8, name);
    return tensor;
}

onnx_bytes_t onnx_raw_tensor(const char *name, int type, const char *dims, const void *data, size_t bytes)
{
    onnx_bytes_t tensor = onnx_tensor(name, type, dims);
    onnx_put_blob(&tensor, 9, data, bytes);
    return tensor;
}

/* "name:kind=value" */
static onnx_bytes_t attribute(const char *text)
{
    onnx_bytes_t attr = {0};
    char name[64], kind[8], item[256];
    const char *at = text;
    bool ok = next_item(&at, ':', name, sizeof name) && next_item(&at, '=', kind, sizeof kind);
    const char *value = ok && at != NULL ? at : "";
    onnx_put_text(&attr, 1, name);
    if (strcmp(kind, "i") == 0) {
        onnx_put_int(&attr, 3, strtoll(value, NULL, 10));
        onnx_put_int(&attr, 20, 2);
    } else if (strcmp(kind, "f") == 0) {
        onnx_put_float(&attr, 2, strtof(value, NULL));
        onnx_put_int(&attr, 20, 1);
    } else if (strcmp(kind, "s") == 0) {
        onnx_put_text(&attr, 4, value);
        onnx_put_int(&attr, 20, 3);
    } else if (strcmp(kind, "r") == 0) {
        onnx_put_text(&attr, 21, value);
        onnx_put_int(&attr, 20, 2);
    } else if (strcmp(kind, "is") == 0) {
        while (next_item(&value, ',', item, sizeof item)) {
            onnx_put_int(&attr, 8, strtoll(item, NULL, 10));
        }
        onnx_put_int(&attr, 20, 7);
    } else if (strcmp(kind, "fs") == 0) {
        while (next_item(&value, ',', item, sizeof item)) {
            onnx_put_float(&attr, 7, strtof(item, NULL));
        }
        onnx_put_int(&attr, 20, 6);
    } else if (strcmp(kind, "ss") == 0) {
        while (next_item(&value, ',', item, sizeof item)) {
            onnx_put_text(&attr, 9, item);
        }
        onnx_put_int(&attr, 20, 8);
    } else {
        fprintf(stderr, "onnx_writer: attribute \"%s\"\n", text);
        exit(1);
    }
    return attr;
}

onnx_bytes_t onnx_node(const char *op, const char *inputs, const char *outputs, const char *attrs)
{
    onnx_bytes_t node = {0};
    char item[256];
    const char *colon = strchr(op, ':');
    while (next_item(&inputs, ',', item, sizeof item)) {
        onnx_put_text(&node, 1, item);
    }
    while (next_item(&outputs, ',', item, sizeof item)) {
        onnx_put_text(&node, 2, item);
    }
    onnx_put_text(&node, 4, colon != NULL ? colon + 1 : op);
    while (next_item(&attrs, ' ', item, sizeof item)) {
        onnx_bytes_t attr = attribute(item);
        onnx_put_message(&node, 5, &attr);
    }
    if (colon != NULL) {
        onnx_put_blob(&node, 7, op, (size_t)(colon - op));
    }
    return node;
}

void onnx_node_add_graph(onnx_bytes_t *node, const char *name, onnx_bytes_t *graph)
{
    onnx_bytes_t attr = {0};
    onnx_put_text(&attr, 1, name);
    onnx_put_message(&attr, 6, graph);
    onnx_put_int(&attr, 20, 5);
    onnx_put_message(node, 5, &attr);
}

void onnx_node_add_tensor(onnx_bytes_t *node, const char *name, onnx_bytes_t *tensor)
{
    onnx_bytes_t attr = {0};
    onnx_put_text(&attr, 1, name);
    onnx_put_message(&attr, 5, tensor);
    onnx_put_int(&attr, 20, 4);
    onnx_put_message(node, 5, &attr);
}

/* ---- A model ---- */

void onnx_writer_import(onnx_writer_t *writer, const char *domain, int version)
{
    onnx_bytes_t opset = {0};
    onnx_put_text(&opset, 1, domain);
    onnx_put_int(&opset, 2, version);
    onnx_put_message(&writer->rest, 8, &opset);
}

void onnx_writer_init(onnx_writer_t *writer, int ir_version, int opset)
{
    *writer = (onnx_writer_t){.graph = {0}};
    onnx_put_int(&writer->rest, 1, ir_version);
    onnx_put_text(&writer->graph, 2, "g");
    if (opset > 0) {
        onnx_writer_import(writer, "", opset);
    }
}

void onnx_writer_input(onnx_writer_t *writer, const char *name, int type, const char *dims)
{
    onnx_bytes_t value = onnx_value(name, type, dims);
    onnx_put_message(&writer->graph, ONNX_GRAPH_INPUT, &value);
}

void onnx_writer_output(onnx_writer_t *writer, const char *name, int type, const char *dims)
{
    onnx_bytes_t value = onnx_value(name, type, dims);
    onnx_put_message(&writer->graph, ONNX_GRAPH_OUTPUT, &value);
}

void onnx_writer_node(onnx_writer_t *writer, const char *op, const char *inputs, const char *outputs,
                      const char *attrs)
{
    onnx_bytes_t node = onnx_node(op, inputs, outputs, attrs);
    onnx_put_message(&writer->graph, ONNX_GRAPH_NODE, &node);
}

void onnx_writer_floats(onnx_writer_t *writer, const char *name, const char *dims, const float *values,
                        size_t count)
{
    onnx_bytes_t tensor = onnx_raw_tensor(name, ONNX_FLOAT, dims, values, count * sizeof *values);
    onnx_put_message(&writer->graph, ONNX_GRAPH_INITIALIZER, &tensor);
}

void onnx_writer_ints(onnx_writer_t *writer, const char *name, const char *dims, const int64_t *values,
                      size_t count)
{
    onnx_bytes_t tensor = onnx_raw_tensor(name, ONNX_INT64, dims, values, count * sizeof *values);
    onnx_put_message(&writer->graph, ONNX_GRAPH_INITIALIZER, &tensor);
}

const onnx_bytes_t *onnx_writer_finish(onnx_writer_t *writer)
{
    onnx_bytes_free(&writer->file);
    onnx_put_raw(&writer->file, writer->rest.data, writer->rest.bytes);
    onnx_put_blob(&writer->file, 7, writer->graph.data, writer->graph.bytes);
    return &writer->file;
}

void onnx_writer_deinit(onnx_writer_t *writer)
{
    onnx_bytes_free(&writer->graph);
    onnx_bytes_free(&writer->rest);
    onnx_bytes_free(&writer->file);
}
