/* SPDX-License-Identifier: Apache-2.0 */
/* Writes small ONNX files for tests. Independent of src/onnx: field numbers are written out here, and files
 * that it makes are read by the onnx package too (tests/fuzz/corpus/onnx_fuzz holds some). Ends the program
 * when memory is out. */
#ifndef WF_TESTS_ONNX_WRITER_H
#define WF_TESTS_ONNX_WRITER_H

#include <stddef.h>
#include <stdint.h>

/* ---- Wire format ---- */

typedef struct onnx_bytes {
    uint8_t *data;
    size_t bytes, capacity;
} onnx_bytes_t;

void onnx_bytes_free(onnx_bytes_t *bytes);
void onnx_put_raw(onnx_bytes_t *to, const void *data, size_t bytes);
void onnx_put_varint(onnx_bytes_t *to, uint64_t value);
void onnx_put_int(onnx_bytes_t *to, uint32_t field, int64_t value);
void onnx_put_float(onnx_bytes_t *to, uint32_t field, float value);
void onnx_put_double(onnx_bytes_t *to, uint32_t field, double value);
void onnx_put_blob(onnx_bytes_t *to, uint32_t field, const void *data, size_t bytes);
void onnx_put_text(onnx_bytes_t *to, uint32_t field, const char *text);
/* Frees the child. */
void onnx_put_message(onnx_bytes_t *to, uint32_t field, onnx_bytes_t *child);

/* ---- Parts of a model ---- */

/* Element types of TensorProto. */
enum {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_STRING = 8,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_BFLOAT16 = 16
};

/* Field numbers of GraphProto that parts go into. */
enum { ONNX_GRAPH_NODE = 1, ONNX_GRAPH_INITIALIZER = 5, ONNX_GRAPH_INPUT = 11, ONNX_GRAPH_OUTPUT = 12 };

/* ValueInfoProto. Dims: "2,3", "n,3" (a symbol), "?,3" (nothing said), "" (a scalar), NULL (no shape). */
onnx_bytes_t onnx_value(const char *name, int type, const char *dims);
/* TensorProto without data. */
onnx_bytes_t onnx_tensor(const char *name, int type, const char *dims);
/* The same with raw_data. */
onnx_bytes_t onnx_raw_tensor(const char *name, int type, const char *dims, const void *data, size_t bytes);
/* NodeProto. op "Relu" or "com.microsoft:Gelu"; names separated by commas, empty ones absent; attributes
 * separated by blanks: "axis:i=1 alpha:f=0.5 mode:s=linear pads:is=1,2 scales:fs=1,2
 * activations:ss=Tanh,Relu", and "axis:r=outer" for an integer that is the function's attribute `outer`. */
onnx_bytes_t onnx_node(const char *op, const char *inputs, const char *outputs, const char *attrs);
/* Adds a graph or tensor attribute to a node. Frees the child. */
void onnx_node_add_graph(onnx_bytes_t *node, const char *name, onnx_bytes_t *graph);
void onnx_node_add_tensor(onnx_bytes_t *node, const char *name, onnx_bytes_t *tensor);

/* ---- A model ---- */

typedef struct onnx_writer {
    onnx_bytes_t graph; /* GraphProto so far */
    onnx_bytes_t rest;  /* ModelProto without its graph */
    onnx_bytes_t file;  /* after finish */
} onnx_writer_t;

void onnx_writer_init(onnx_writer_t *writer, int ir_version, int opset);
void onnx_writer_import(onnx_writer_t *writer, const char *domain, int version);
void onnx_writer_input(onnx_writer_t *writer, const char *name, int type, const char *dims);
void onnx_writer_output(onnx_writer_t *writer, const char *name, int type, const char *dims);
void onnx_writer_node(onnx_writer_t *writer, const char *op, const char *inputs, const char *outputs,
                      const char *attrs);
void onnx_writer_floats(onnx_writer_t *writer, const char *name, const char *dims, const float *values,
                        size_t count);
void onnx_writer_ints(onnx_writer_t *writer, const char *name, const char *dims, const int64_t *values,
                      size_t count);
/* The whole file, owned by the writer. */
const onnx_bytes_t *onnx_writer_finish(onnx_writer_t *writer);
void onnx_writer_deinit(onnx_writer_t *writer);

#endif
