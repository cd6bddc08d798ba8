/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter: the reference over a whole graph, node by node. Values live from their node to their last use,
 * so memory peaks where the graph is widest, not at its sum. */
#ifndef WF_VERIFY_INTERPRET_H
#define WF_VERIFY_INTERPRET_H

#include <stdatomic.h>

#include "graph/graph.h"

typedef struct wf_interpret_options {
    const wf_parallel_t *parallel; /* NULL: plain loops */
    /* Called before each node with its position and the number of nodes; may be NULL. */
    void (*progress)(void *self, size_t node, size_t node_count);
    void *progress_self;
    const atomic_bool *cancel; /* INTERRUPTED soon after it becomes true; may be NULL */
} wf_interpret_options_t;

/* Runs the graph. `inputs`: one dense tensor per graph input, in order, with the input's type (INPUT_MISMATCH
 * otherwise). `outputs`: graph->outputs.count tensors, filled with types and data; the data are allocated
 * with `allocator` and freed by wf_interpret_free. On failure no output is left allocated. `options` may be
 * NULL. MODEL_UNSUPPORTED naming the node whose type is unknown or that has no reference kernel, RUNTIME_DATA
 * naming the node whose values are not possible. The graph is only read: several threads may run it at once.
 */
wf_status_t wf_interpret(const wf_graph_t *graph, const wf_tensor_t *inputs, wf_allocator_t allocator,
                         const wf_interpret_options_t *options, wf_tensor_t *outputs) WF_MUST_USE;
/* Frees the data of `count` tensors that wf_interpret made. */
void wf_interpret_free(wf_allocator_t allocator, wf_tensor_t *tensors, size_t count);

/* Bytes of values that are alive at once at most: what wf_interpret will allocate, scratch apart. */
wf_status_t wf_interpret_peak_bytes(const wf_graph_t *graph, wf_allocator_t allocator,
                                    size_t *out_bytes) WF_MUST_USE;

#endif
