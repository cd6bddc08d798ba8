/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX importer: a bounded reader of the wire format over the mapped file, and the graph made from it. */
#ifndef WF_ONNX_ONNX_H
#define WF_ONNX_ONNX_H

#include "base/file.h"
#include "graph/graph.h"

/* One reason why a model cannot be compiled. All are collected in one pass. Strings live as long as the
 * model. */
typedef struct wf_onnx_problem {
    wf_code_t code;
    const char *node; /* its name, else its first output, else "#17" */
    const char *op;   /* "com.microsoft.FusedConv" or "NonZero"; "" when it is not about a node */
    int64_t opset;    /* of the operator's domain; 0 when unknown */
    const char *reason;
    const char *hint;
} wf_onnx_problem_t;

/* A model that has been read but not yet given shapes. Immutable. Keeps the mappings of the file and its
 * external data. */
typedef struct wf_onnx_model wf_onnx_model_t;

/* Maps and reads `path`. Fails only when the file is not an ONNX model at all (MODEL_INVALID, with byte
 * offset and field), breaks a limit (MODEL_LIMIT) or cannot be read; everything else is in the problem list.
 * Weights are not touched. */
wf_status_t wf_onnx_open(const char *path, wf_allocator_t allocator, wf_onnx_model_t **out_model) WF_MUST_USE;
/* The same over bytes that the caller keeps; external data is refused. For tests and fuzzing. */
wf_status_t wf_onnx_open_bytes(const void *bytes, size_t length, wf_allocator_t allocator,
                               wf_onnx_model_t **out_model) WF_MUST_USE;
void wf_onnx_close(wf_onnx_model_t *model);

size_t wf_onnx_problem_count(const wf_onnx_model_t *model);
const wf_onnx_problem_t *wf_onnx_problem(const wf_onnx_model_t *model, size_t index);

typedef struct wf_onnx_summary {
    int64_t ir_version;
    const char *producer; /* name and version */
    const char *opsets;   /* "ai.onnx 17, com.microsoft 1" */
    size_t node_count;    /* all regions */
    size_t initializer_count;
    uint64_t initializer_bytes;
    const wf_port_t *inputs, *outputs; /* without initializers that are also listed as inputs */
    size_t input_count, output_count;
    const char *const *op_names; /* operators by falling count */
    const size_t *op_counts;
    size_t op_kind_count;
} wf_onnx_summary_t;
const wf_onnx_summary_t *wf_onnx_summary(const wf_onnx_model_t *model);

/* Shape of one input for a specialisation: name and dims. `value` not NULL: the input is fixed to this tensor
 * (its value decides shapes); it stays an input and is checked at run time. */
typedef struct wf_onnx_binding {
    const char *name;
    const int64_t *dims;
    size_t rank;
    const wf_tensor_t *value;
} wf_onnx_binding_t;

/* Builds a graph for concrete shapes. Free dims without a binding are 1-to-1 errors: SHAPE_NEEDED, hint with
 * the --shape line to add. Symbols are unified: equal names must get equal sizes (INPUT_MISMATCH). Unknown
 * binding names: USAGE with the nearest name. MODEL_UNSUPPORTED/INVALID with the first problem and the count
 * of the others when the problem list is not empty. Old opsets are rewritten to the newest semantics on the
 * way. Constants point into the mappings. Types of node outputs are inferred; constant shape arithmetic is
 * folded on the way (small tensors), so that shapes that are computed from shapes are known. A fixed input
 * becomes a constant value inside. */
wf_status_t wf_onnx_to_graph(const wf_onnx_model_t *model, const wf_onnx_binding_t *bindings,
                             size_t binding_count, wf_allocator_t allocator,
                             wf_graph_t **out_graph) WF_MUST_USE;

/* XXH3-128 of the whole model file (and its external data files). Computed on first use, cached. */
wf_status_t wf_onnx_hash(const wf_onnx_model_t *model, wf_hash_t *out_hash) WF_MUST_USE;

/* Reads a TensorProto file (test_data_set_*): type and data; strings and sequences are refused by name. Data
 * is copied with the allocator; *out_name borrowed from nothing (allocated, may be ""). */
wf_status_t wf_onnx_read_tensor_file(const char *path, wf_arena_t *arena, wf_tensor_t *out_tensor,
                                     const char **out_name) WF_MUST_USE;

#endif
