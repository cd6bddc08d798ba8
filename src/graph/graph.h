/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: our IR of a model. SSA values and nodes in one arena; every pass can be printed and read back.
 *
 * Identity for people and plans is the name of a node's first output. A constant is a view of bytes that
 * somebody else keeps (the mapped model file, the arena), never a copy. Nodes are kept in a topological order
 * at all times.
 */
#ifndef WF_GRAPH_GRAPH_H
#define WF_GRAPH_GRAPH_H

#include "base/hash.h"
#include "base/mem.h"
#include "op/op.h"
#include "op/problem.h"
#include "wayfinder/tensor.h"

typedef uint32_t wf_value_id; /* index into graph->values */
typedef uint32_t wf_node_id;  /* index into graph->nodes */
#define WF_NO_VALUE UINT32_MAX
#define WF_NO_NODE UINT32_MAX

/* A dim as the model states it: an integer, or a name (equal names are equal sizes), or anonymous. */
typedef struct wf_dim {
    int64_t size;       /* >= 0 when known, else -1 */
    const char *symbol; /* NULL: known or anonymous */
} wf_dim_t;

/* A model input or output as declared, before shapes are given. */
typedef struct wf_port {
    const char *name;
    wf_dtype_t dtype;
    uint32_t rank;
    bool rank_known;
    wf_dim_t dims[WF_MAX_RANK];
} wf_port_t;

/* One use of a value: input `slot` of a live node. Uses of a value are a doubly linked list, so that a
 * rewrite costs what it touches and not the size of the graph. Their order means nothing. */
typedef struct wf_use {
    struct wf_use *previous, *next;
    wf_node_id node;
    uint32_t slot;
} wf_use_t;

typedef struct wf_value {
    const char *name; /* unique in the graph, never empty */
    wf_type_t type;   /* valid when type_known */
    bool type_known;
    wf_node_id producer;  /* WF_NO_NODE: graph input or constant */
    const void *constant; /* data of a constant, row-major; NULL: not a constant. Zero-size constants have a
                             non-NULL pointer */
    bool is_input;
    bool is_output;
    uint32_t use_count; /* uses by live nodes plus one when it is an output */
    wf_use_t *uses;     /* by live nodes; kept up to date by the calls below */
} wf_value_t;

typedef struct wf_region wf_region_t; /* body of If, Loop, Scan: room kept, not built yet */

typedef struct wf_node {
    wf_op_t op;
    bool removed;
    wf_attrs_t attrs; /* complete */
    uint32_t input_count, output_count;
    wf_value_id
        *inputs; /* WF_NO_VALUE: absent; changed only through wf_graph_set_input and wf_graph_change_node */
    wf_use_t *uses;         /* one per input, linked when the input is present */
    wf_value_id *outputs;   /* WF_NO_VALUE: not wanted */
    const char *onnx_names; /* names of the ONNX nodes it came from, joined by ", ": for explain */
    wf_region_t *const *regions;
    uint32_t region_count;
} wf_node_t;

typedef struct wf_graph {
    wf_arena_t arena;
    const char *name;
    WF_VEC(wf_value_t) values;
    WF_VEC(wf_node_t) nodes;  /* storage; ids are stable */
    WF_VEC(wf_node_id) order; /* topological; removed nodes stay in it until wf_graph_sort */
    WF_VEC(wf_value_id) inputs;
    WF_VEC(wf_value_id) outputs;
    wf_map_t value_names;
    wf_map_t name_suffixes; /* of a name that was wanted twice: the last "~n" given out */
} wf_graph_t;

/* ---- Building. The graph is made by create and owned by the caller; everything in it lives in its arena.
 * ---- */
wf_status_t wf_graph_create(wf_allocator_t allocator, wf_graph_t **out_graph) WF_MUST_USE;
void wf_graph_destroy(wf_graph_t *graph);

/* Adds a value. name NULL or taken: a fresh name is made from it ("name~2"). type NULL: not known yet. */
wf_status_t wf_graph_add_value(wf_graph_t *graph, const char *name, const wf_type_t *type,
                               wf_value_id *out_value) WF_MUST_USE;
/* A constant over `data`, which must outlive the graph (or live in its arena). */
wf_status_t wf_graph_add_constant(wf_graph_t *graph, const char *name, const wf_type_t *type,
                                  const void *data, wf_value_id *out_value) WF_MUST_USE;
wf_status_t wf_graph_add_input(wf_graph_t *graph, wf_value_id value) WF_MUST_USE;
wf_status_t wf_graph_add_output(wf_graph_t *graph, wf_value_id value) WF_MUST_USE;

/* A node to add. Attributes are completed against the table; types of its outputs are inferred when all input
 * types are known (and left as they are when the shape needs a value that is not known). Absent inputs at the
 * end are dropped down to the operator's minimum, so that a node has one spelling. Everything is copied. On
 * failure the graph is unchanged. */
typedef struct wf_node_spec {
    wf_op_t op;
    const wf_attr_t *attrs;
    size_t attr_count;
    const wf_value_id *inputs;
    size_t input_count;
    const wf_value_id *outputs; /* values without producer */
    size_t output_count;
    const char *onnx_names;
} wf_node_spec_t;
/* Appends at the end of the order. */
wf_status_t wf_graph_add_node(wf_graph_t *graph, const wf_node_spec_t *spec,
                              wf_node_id *out_node) WF_MUST_USE;
/* Inserts before `before` in the order (WF_NO_NODE: at the end). O(1) amortised is not promised; passes that
 * insert many nodes append and call wf_graph_sort once. */
wf_status_t wf_graph_insert_node(wf_graph_t *graph, const wf_node_spec_t *spec, wf_node_id before,
                                 wf_node_id *out_node) WF_MUST_USE;

/* ---- Rewriting ---- */
/* Every use of `from` (nodes and graph outputs) becomes `to`. A graph output keeps its name: when `from` is
 * an output, the name moves to `to` if `to` is neither input, constant nor output, else an Identity node is
 * added. */
wf_status_t wf_graph_replace_uses(wf_graph_t *graph, wf_value_id from, wf_value_id to) WF_MUST_USE;
/* Changes one input. Types are not inferred again. */
wf_status_t wf_graph_set_input(wf_graph_t *graph, wf_node_id node, uint32_t index,
                               wf_value_id value) WF_MUST_USE;
/* Replaces attributes (completed). */
wf_status_t wf_graph_set_attrs(wf_graph_t *graph, wf_node_id node, const wf_attr_t *attrs,
                               size_t count) WF_MUST_USE;
/* The node becomes another one that makes the same values: spec's operator, attributes, inputs and onnx_names
 * (NULL keeps the old ones); spec's outputs are ignored, except that output_count may be smaller than before
 * when the dropped outputs are unused. Output types are inferred again. Its place in the order is kept: new
 * inputs that come later need wf_graph_sort. */
wf_status_t wf_graph_change_node(wf_graph_t *graph, wf_node_id node, const wf_node_spec_t *spec) WF_MUST_USE;
/* Marks the node removed; its outputs must have no uses. Dead inputs are left to the dead-code pass. */
void wf_graph_remove_node(wf_graph_t *graph, wf_node_id node);
/* Drops removed nodes from the order, sorts topologically (stable), recounts uses. MODEL_INVALID naming a
 * node of a cycle. */
wf_status_t wf_graph_sort(wf_graph_t *graph) WF_MUST_USE;
/* Infers types of a node's outputs again. */
wf_status_t wf_graph_infer_node(wf_graph_t *graph, wf_node_id node) WF_MUST_USE;

/* ---- Looking ---- */
static inline wf_value_t *wf_graph_value(const wf_graph_t *graph, wf_value_id id)
{
    return &graph->values.items[id];
}
static inline wf_node_t *wf_graph_node(const wf_graph_t *graph, wf_node_id id)
{
    return &graph->nodes.items[id];
}
/* Users of every value as one table: users of v are items[first[v] .. first[v+1]), in order. Valid until the
 * graph changes. Allocated with `allocator`. */
typedef struct wf_uses {
    wf_allocator_t allocator;
    uint32_t *first; /* value count + 1 */
    wf_node_id *items;
    size_t value_count, item_count;
} wf_uses_t;
wf_status_t wf_uses_build(const wf_graph_t *graph, wf_allocator_t allocator, wf_uses_t *out_uses) WF_MUST_USE;
void wf_uses_deinit(wf_uses_t *uses);
/* The value's only user, or WF_NO_NODE when it has none, several, or is a graph output. A node that uses it
 * twice is one user. */
wf_node_id wf_uses_single(const wf_graph_t *graph, const wf_uses_t *uses, wf_value_id value);
/* The constant as a tensor; false when the value is absent or not a constant. */
bool wf_graph_constant(const wf_graph_t *graph, wf_value_id value, wf_tensor_t *out_tensor);
/* The single element of a constant of any numeric type as double; false otherwise. */
bool wf_graph_scalar(const wf_graph_t *graph, wf_value_id value, double *out_scalar);

/* Checks everything this header promises: SSA, order, types against inference, names, use counts. INTERNAL
 * with the first fault. Run before and after each pass in debug builds and tests. */
wf_status_t wf_graph_verify(const wf_graph_t *graph) WF_MUST_USE;

/* ---- Text ----
 * graph "name" {
 *   input %x: f32[1,3,8,8]
 *   const %w: f32[2] = {1, 2.5}            values for at most 64 elements, else = #<hash>; reading wants
 * values %y = Relu(%x) %a, _ = Dropout(%y, _) {seed=1} output %a
 * }
 * Names are quoted ("...", with \" \\ \xHH) unless [A-Za-z0-9_.:/~-]+. Internal operators are written
 * wf.Name. Types of node outputs are printed as a comment after ';' and not read. */
wf_status_t wf_graph_print(const wf_graph_t *graph, wf_text_t *text) WF_MUST_USE;
/* MODEL_INVALID with line and column. Bounded like every parser. */
wf_status_t wf_graph_parse(const char *text, size_t text_bytes, wf_allocator_t allocator,
                           wf_graph_t **out_graph) WF_MUST_USE;

/* Content hash of a graph: structure, names, attributes, types and constants' bytes. */
wf_status_t wf_graph_hash(const wf_graph_t *graph, wf_hash_t *out_hash) WF_MUST_USE;

#endif
