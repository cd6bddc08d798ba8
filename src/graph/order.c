/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: topological order. Depth-first over producers in the order that was, with an explicit stack: nodes
 * that are already well placed keep their relative order, a node that was appended moves to just before its
 * first user. O(nodes + uses). */
#include "base/compiler.h"
#include "graph/internal.h"

typedef struct frame {
    wf_node_id node;
    uint32_t next_input;
} frame_t;

enum { UNSEEN, OPEN, DONE };

typedef struct sorter {
    wf_graph_t *graph;
    WF_VEC(wf_node_id) sorted;
    WF_VEC(frame_t) stack;
    uint8_t *state; /* per node */
} sorter_t;

static wf_status_t enter(sorter_t *self, wf_node_id node)
{
    frame_t frame = {node, 0};
    if (self->state[node] == OPEN) {
        return WF_ERROR(MODEL_INVALID, "node %s is part of a cycle",
                        wf_node_label(self->graph, wf_graph_node(self->graph, node)));
    }
    self->state[node] = OPEN;
    return wf_vec_push(self->graph->arena.allocator, &self->stack, &frame);
}

static wf_status_t visit(sorter_t *self, wf_node_id root)
{
    const wf_graph_t *graph = self->graph;
    WF_TRY(enter(self, root));
    while (self->stack.count > 0) {
        frame_t *top = &self->stack.items[self->stack.count - 1];
        const wf_node_t *node = wf_graph_node(graph, top->node);
        wf_node_id needed = WF_NO_NODE;
        while (needed == WF_NO_NODE && top->next_input < node->input_count) {
            wf_value_id input = node->inputs[top->next_input++];
            wf_node_id producer = input == WF_NO_VALUE ? WF_NO_NODE : wf_graph_value(graph, input)->producer;
            if (producer != WF_NO_NODE && self->state[producer] != DONE) {
                needed = producer;
            }
        }
        if (needed != WF_NO_NODE) {
            WF_TRY(enter(self, needed));
            continue;
        }
        self->state[top->node] = DONE;
        WF_TRY(wf_vec_push(graph->arena.allocator, &self->sorted, &top->node));
        self->stack.count--;
    }
    return WF_OK;
}

static wf_status_t sort(sorter_t *self)
{
    const wf_graph_t *graph = self->graph;
    for (size_t i = 0; i < graph->order.count; i++) {
        wf_node_id id = graph->order.items[i];
        if (!wf_graph_node(graph, id)->removed && self->state[id] == UNSEEN) {
            WF_TRY(visit(self, id));
        }
    }
    return WF_OK;
}

static void recount_uses(wf_graph_t *graph)
{
    for (size_t i = 0; i < graph->values.count; i++) {
        wf_value_t *value = &graph->values.items[i];
        value->use_count = value->is_output;
        value->uses = NULL;
    }
    for (size_t i = 0; i < graph->order.count; i++) {
        wf_node_t *node = wf_graph_node(graph, graph->order.items[i]);
        for (uint32_t slot = 0; slot < node->input_count; slot++) {
            wf_use_link(graph, node, graph->order.items[i], slot);
        }
    }
}

wf_status_t wf_graph_sort(wf_graph_t *graph)
{
    wf_allocator_t allocator = graph->arena.allocator;
    sorter_t self = {.graph = graph};
    WF_TRY(wf_alloc(allocator, graph->nodes.count, sizeof *self.state, &self.state));
    wf_status_t status = sort(&self);
    if (status == WF_OK) { /* never longer than the old order: the same array serves */
        for (size_t i = 0; i < self.sorted.count; i++) {
            graph->order.items[i] = self.sorted.items[i];
        }
        graph->order.count = self.sorted.count;
        recount_uses(graph);
    }
    wf_free(allocator, self.state, graph->nodes.count, sizeof *self.state);
    wf_vec_deinit(allocator, &self.sorted);
    wf_vec_deinit(allocator, &self.stack);
    return status;
}
