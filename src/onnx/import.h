/* SPDX-License-Identifier: Apache-2.0 */
/* What the importer's files share: names and scopes (import.c), control flow (import_flow.c). */
#ifndef WF_ONNX_IMPORT_H
#define WF_ONNX_IMPORT_H

#include "onnx/model.h"
#include "onnx/node.h"

/* An argument of the function that is being inlined. */
typedef struct wf_argument {
    wf_span_t name;
    const wf_pb_attribute_t *attribute; /* NULL: not given */
} wf_argument_t;

/* Where names mean something: the main graph, a function that is called, a body that is run. */
typedef struct wf_scope {
    struct wf_scope *outer; /* whose names a body may read; NULL otherwise */
    wf_map_t values;        /* name: wf_value_id */
    wf_onnx_opsets_t opsets;
    const char *prefix; /* before names of values in the graph */
    /* Outputs of a function or body take the names that the calling node gives them. */
    const wf_span_t *results;
    const char *const *result_names; /* NULL: they have none; an element NULL: not used */
    size_t result_count;
    const wf_argument_t *arguments;
    size_t argument_count;
    wf_arena_t scratch; /* of the node that is being made */
    unsigned depth;
} wf_scope_t;

typedef struct wf_importer {
    const wf_onnx_model_t *model;
    wf_graph_t *graph;
    uint64_t node_count; /* nodes of the file that were made, and steps of loops */
} wf_importer_t;

/* A node on its way, before its kind is looked at. */
typedef struct wf_call {
    const wf_pb_node_t *node;
    wf_onnx_meaning_t meaning;
    wf_value_id *inputs;
    const char **output_names; /* NULL: not used */
    wf_value_id *results;
    const char *label, *onnx_names;
} wf_call_t;

/* Makes a scope inside `caller` (NULL: the main graph) whose values are called "label/...". Always followed
 * by deinit. */
wf_status_t wf_scope_init(wf_importer_t *self, wf_scope_t *scope, wf_scope_t *caller,
                          const char *label) WF_MUST_USE;
void wf_scope_deinit(wf_scope_t *scope);

/* Gives a name to a value (WF_NO_VALUE: an input that is left out). */
wf_status_t wf_scope_set(wf_scope_t *scope, wf_span_t name, wf_value_id value) WF_MUST_USE;
/* The value of a name in this scope or one around it; WF_NO_VALUE for "". Initializers of the main graph
 * become constants when they are first asked for. */
wf_status_t wf_scope_find(wf_importer_t *self, wf_scope_t *scope, wf_span_t name,
                          wf_value_id *out_value) WF_MUST_USE;
/* A constant for an initializer. */
wf_status_t wf_import_constant(wf_importer_t *self, const wf_pb_tensor_t *tensor, const char *prefix,
                               wf_arena_t *scratch, wf_value_id *out_value) WF_MUST_USE;
/* The attribute of that name, or NULL; one that refers to an argument of the function is looked up. */
const wf_pb_attribute_t *wf_scope_attribute(const wf_scope_t *scope, const wf_pb_node_t *node,
                                            const char *name);
/* Counts a node or a step; MODEL_LIMIT. */
wf_status_t wf_import_count(wf_importer_t *self) WF_MUST_USE;
/* Makes the nodes, and takes the values of scope->results: out_results[i] where result_names[i] is wanted. */
wf_status_t wf_import_body(wf_importer_t *self, wf_scope_t *scope, const wf_pb_node_t *nodes,
                           size_t node_count, wf_value_id *out_results) WF_MUST_USE;

/* If, Loop and Scan. */
wf_status_t wf_import_flow(wf_importer_t *self, wf_scope_t *scope, const wf_call_t *call) WF_MUST_USE;

#endif
