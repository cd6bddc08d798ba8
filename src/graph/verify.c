/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: checks of everything that graph.h promises. */
#include <string.h>

#include "base/compiler.h"
#include "graph/internal.h"

typedef struct verifier {
    const wf_graph_t *graph;
    uint8_t *placed;     /* per node: met in the order */
    uint32_t *use_count; /* per value: recounted */
} verifier_t;

static wf_status_t check_use(const verifier_t *self, const wf_node_t *node, wf_node_id id, uint32_t slot)
{
    const wf_graph_t *graph = self->graph;
    wf_value_id input = node->inputs[slot];
    if (input >= graph->values.count) {
        return WF_ERROR(INTERNAL, "node %s: input %u is not a value", wf_node_label(graph, node), slot);
    }
    const wf_value_t *value = wf_graph_value(graph, input);
    const wf_use_t *use = &node->uses[slot];
    bool linked = use->previous != NULL ? use->previous->next == use : value->uses == use;
    if (use->node != id || use->slot != slot || !linked ||
        (use->next != NULL && use->next->previous != use)) {
        return WF_ERROR(INTERNAL, "node %s: input %u is not on the use list of %s",
                        wf_node_label(graph, node), slot, value->name);
    }
    bool ready = value->producer == WF_NO_NODE ? value->is_input || value->constant != NULL
                                               : self->placed[value->producer] != 0;
    if (!ready) {
        return WF_ERROR(INTERNAL, "node %s: input %s is not made before it", wf_node_label(graph, node),
                        value->name);
    }
    self->use_count[input]++;
    return WF_OK;
}

static wf_status_t check_type(void *arg, wf_value_id output, const wf_type_t *type)
{
    const wf_value_t *value = wf_graph_value(arg, output);
    if (!value->type_known || !wf_type_equal(&value->type, type)) {
        return WF_ERROR(INTERNAL, "value %s: type is not the inferred one", value->name);
    }
    return WF_OK;
}

static wf_status_t check_node(const verifier_t *self, wf_node_id id)
{
    const wf_graph_t *graph = self->graph;
    if (id >= graph->nodes.count) {
        return WF_ERROR(INTERNAL, "order names node %u, which is not there", id);
    }
    wf_node_t *node = wf_graph_node(graph, id);
    const char *label = wf_node_label(graph, node);
    if (node->removed || self->placed[id]) {
        return WF_ERROR(INTERNAL, "node %s is %s the order", label,
                        node->removed ? "removed and in" : "twice in");
    }
    if (node->op >= WF_OP_COUNT) {
        return WF_ERROR(INTERNAL, "node %s: operator %u is not in the table", label, node->op);
    }
    if (node->region_count != 0) {
        return WF_ERROR(INTERNAL, "node %s has regions", label);
    }
    for (size_t i = 1; i < node->attrs.count; i++) {
        if (strcmp(node->attrs.items[i - 1].name, node->attrs.items[i].name) >= 0) {
            return WF_ERROR(INTERNAL, "node %s: attributes are not sorted", label);
        }
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] != WF_NO_VALUE) {
            WF_TRY(check_use(self, node, id, i));
        }
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == WF_NO_VALUE) {
            continue;
        }
        if (node->outputs[i] >= graph->values.count ||
            wf_graph_value(graph, node->outputs[i])->producer != id) {
            return WF_ERROR(INTERNAL, "node %s: output %u has another producer", label, i);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (node->outputs[j] == node->outputs[i]) {
                return WF_ERROR(INTERNAL, "node %s makes a value twice", label);
            }
        }
    }
    self->placed[id] = 1;
    return wf_node_infer(graph, node, check_type, (void *)(uintptr_t)graph);
}

static wf_status_t check_value(const verifier_t *self, wf_value_id id)
{
    const wf_graph_t *graph = self->graph;
    const wf_value_t *value = wf_graph_value(graph, id);
    uint64_t found;
    if (value->name == NULL || value->name[0] == '\0' ||
        !wf_map_get(&graph->value_names, value->name, strlen(value->name), &found) || found != id) {
        return WF_ERROR(INTERNAL, "value %u: name \"%s\" does not lead to it", id,
                        value->name == NULL ? "" : value->name);
    }
    if (value->producer != WF_NO_NODE) {
        if (value->producer >= graph->nodes.count || !self->placed[value->producer]) {
            return WF_ERROR(INTERNAL, "value %s: its producer is not in the order", value->name);
        }
        const wf_node_t *node = wf_graph_node(graph, value->producer);
        uint32_t slot = 0;
        while (slot < node->output_count && node->outputs[slot] != id) {
            slot++;
        }
        if (slot == node->output_count) {
            return WF_ERROR(INTERNAL, "value %s is not an output of its producer", value->name);
        }
    }
    int sources = (value->producer != WF_NO_NODE) + (value->constant != NULL) + value->is_input;
    if (sources > 1) {
        return WF_ERROR(INTERNAL, "value %s has several sources", value->name);
    }
    if (value->constant != NULL && !value->type_known) {
        return WF_ERROR(INTERNAL, "constant %s has no type", value->name);
    }
    if (value->use_count != self->use_count[id]) {
        return WF_ERROR(INTERNAL, "value %s: %u uses counted as %u", value->name, self->use_count[id],
                        value->use_count);
    }
    return WF_OK;
}

static wf_status_t check_ports(const verifier_t *self)
{
    const wf_graph_t *graph = self->graph;
    size_t inputs = 0;
    size_t outputs = 0;
    for (size_t i = 0; i < graph->values.count; i++) {
        inputs += graph->values.items[i].is_input;
        outputs += graph->values.items[i].is_output;
    }
    for (size_t i = 0; i < graph->inputs.count; i++) {
        wf_value_id id = graph->inputs.items[i];
        if (id >= graph->values.count || !wf_graph_value(graph, id)->is_input) {
            return WF_ERROR(INTERNAL, "graph input %zu is not marked as one", i);
        }
    }
    for (size_t i = 0; i < graph->outputs.count; i++) {
        wf_value_id id = graph->outputs.items[i];
        if (id >= graph->values.count || !wf_graph_value(graph, id)->is_output) {
            return WF_ERROR(INTERNAL, "graph output %zu is not marked as one", i);
        }
        const wf_value_t *value = wf_graph_value(graph, id);
        if (value->producer == WF_NO_NODE && !value->is_input && value->constant == NULL) {
            return WF_ERROR(INTERNAL, "graph output %s is made by nothing", value->name);
        }
        self->use_count[id]++;
    }
    if (inputs != graph->inputs.count || outputs != graph->outputs.count) {
        return WF_ERROR(INTERNAL, "lists of inputs and outputs do not fit the values' marks");
    }
    return WF_OK;
}

static wf_status_t verify(const verifier_t *self)
{
    const wf_graph_t *graph = self->graph;
    size_t live = 0;
    WF_TRY(check_ports(self));
    for (size_t i = 0; i < graph->order.count; i++) {
        WF_TRY(check_node(self, graph->order.items[i]));
    }
    for (size_t i = 0; i < graph->nodes.count; i++) {
        live += !graph->nodes.items[i].removed;
    }
    if (live != graph->order.count) {
        return WF_ERROR(INTERNAL, "%zu live nodes, %zu in the order", live, graph->order.count);
    }
    for (size_t i = 0; i < graph->values.count; i++) {
        WF_TRY(check_value(self, (wf_value_id)i));
    }
    return WF_OK;
}

wf_status_t wf_graph_verify(const wf_graph_t *graph)
{
    wf_allocator_t allocator = graph->arena.allocator;
    verifier_t self = {.graph = graph};
    WF_TRY(wf_alloc(allocator, graph->nodes.count, sizeof *self.placed, &self.placed));
    wf_status_t status = wf_alloc(allocator, graph->values.count, sizeof *self.use_count, &self.use_count);
    if (status == WF_OK) {
        status = verify(&self);
    }
    wf_free(allocator, self.placed, graph->nodes.count, sizeof *self.placed);
    wf_free(allocator, self.use_count, graph->values.count, sizeof *self.use_count);
    return status;
}
