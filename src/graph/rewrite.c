/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: changing what is there. Costs are those of the uses touched. */
#include <string.h>

#include "base/compiler.h"
#include "graph/internal.h"

wf_status_t wf_graph_set_input(wf_graph_t *graph, wf_node_id id, uint32_t index, wf_value_id value)
{
    wf_node_t *node = wf_graph_node(graph, id);
    assert(!node->removed && index < node->input_count);
    wf_use_unlink(graph, node, index);
    node->inputs[index] = value;
    wf_use_link(graph, node, id, index);
    return WF_OK;
}

wf_status_t wf_graph_set_attrs(wf_graph_t *graph, wf_node_id id, const wf_attr_t *attrs, size_t count)
{
    wf_node_t *node = wf_graph_node(graph, id);
    wf_attrs_t complete;
    wf_status_t status = wf_op_complete_attrs(node->op, attrs, count, &graph->arena, &complete);
    WF_TRY(wf_status_annotated(status, "node %s (%s)", wf_node_label(graph, node),
                               wf_op_info(node->op)->onnx_name));
    node->attrs = complete;
    return WF_OK;
}

wf_status_t wf_graph_change_node(wf_graph_t *graph, wf_node_id id, const wf_node_spec_t *spec)
{
    wf_node_t *old = wf_graph_node(graph, id);
    wf_node_t node;
    wf_node_spec_t full = *spec;
    assert(!old->removed);
    full.outputs = old->outputs;
    if (full.output_count == 0 || full.output_count > old->output_count) {
        full.output_count = old->output_count;
    }
    for (size_t i = full.output_count; i < old->output_count; i++) {
        assert(old->outputs[i] == WF_NO_VALUE || wf_graph_value(graph, old->outputs[i])->use_count == 0);
    }
    if (full.onnx_names == NULL) {
        full.onnx_names = old->onnx_names;
    }
    WF_TRY(wf_node_make(graph, &full, &node));
    for (uint32_t i = 0; i < old->input_count; i++) {
        wf_use_unlink(graph, old, i);
    }
    for (size_t i = full.output_count; i < old->output_count; i++) {
        if (old->outputs[i] != WF_NO_VALUE) {
            wf_graph_value(graph, old->outputs[i])->producer = WF_NO_NODE;
        }
    }
    *old = node;
    for (uint32_t i = 0; i < old->input_count; i++) {
        wf_use_link(graph, old, id, i);
    }
    return wf_graph_infer_node(graph, id);
}

void wf_graph_remove_node(wf_graph_t *graph, wf_node_id id)
{
    wf_node_t *node = wf_graph_node(graph, id);
    assert(!node->removed);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE) {
            assert(wf_graph_value(graph, node->outputs[i])->use_count == 0);
            wf_graph_value(graph, node->outputs[i])->producer = WF_NO_NODE;
        }
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        wf_use_unlink(graph, node, i);
    }
    node->removed = true;
}

wf_node_id wf_graph_detach(wf_graph_t *graph, wf_value_id id)
{
    wf_value_t *value = wf_graph_value(graph, id);
    wf_node_id producer = value->producer;
    wf_node_t *node = wf_graph_node(graph, producer);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == id) {
            node->outputs[i] = WF_NO_VALUE;
        }
    }
    value->producer = WF_NO_NODE;
    return producer;
}

wf_status_t wf_graph_make_constant(wf_graph_t *graph, wf_value_id id, const void *data)
{
    static const char empty[16];
    assert(wf_graph_value(graph, id)->producer != WF_NO_NODE);
    if (!wf_graph_value(graph, id)->is_output) {
        (void)wf_graph_detach(graph, id);
        wf_graph_value(graph, id)->constant = data != NULL ? data : empty;
        return WF_OK;
    }
    wf_value_id constant;
    wf_type_t type = wf_graph_value(graph, id)->type;
    WF_TRY(wf_graph_add_constant(graph, wf_graph_value(graph, id)->name, &type, data, &constant));
    wf_node_spec_t spec = {.op = WF_OP_IDENTITY,
                           .inputs = &constant,
                           .input_count = 1,
                           .outputs = &id,
                           .output_count = 1,
                           .onnx_names = wf_graph_node(graph, wf_graph_detach(graph, id))->onnx_names};
    return wf_graph_add_node(graph, &spec, NULL);
}

static wf_status_t swap_names(wf_graph_t *graph, wf_value_id first, wf_value_id second)
{
    wf_value_t *a = wf_graph_value(graph, first);
    wf_value_t *b = wf_graph_value(graph, second);
    WF_TRY(wf_map_set(&graph->value_names, a->name, strlen(a->name), second));
    WF_TRY(wf_map_set(&graph->value_names, b->name, strlen(b->name), first));
    const char *name = a->name;
    a->name = b->name;
    b->name = name;
    return WF_OK;
}

/* The graph output `from` keeps its name and becomes a copy of `to`; what made it makes a fresh, unused
 * value. */
static wf_status_t output_becomes_copy(wf_graph_t *graph, wf_value_id from, wf_value_id to)
{
    wf_node_id producer = wf_graph_value(graph, from)->producer;
    if (producer == WF_NO_NODE) { /* an input or a constant that is also an output: nothing makes it */
        return WF_ERROR(INTERNAL, "graph output %s has no producer to replace",
                        wf_graph_value(graph, from)->name);
    }
    const char *names = wf_graph_node(graph, producer)->onnx_names;
    wf_type_t type = wf_graph_value(graph, from)->type;
    bool type_known = wf_graph_value(graph, from)->type_known;
    wf_value_id fresh;
    WF_TRY(wf_graph_add_value(graph, wf_graph_value(graph, from)->name, type_known ? &type : NULL, &fresh));
    wf_node_t *node = wf_graph_node(graph, producer);
    uint32_t slot = 0;
    while (node->outputs[slot] != from) {
        slot++;
    }
    node->outputs[slot] = fresh;
    wf_graph_value(graph, fresh)->producer = producer;
    wf_graph_value(graph, from)->producer = WF_NO_NODE;
    wf_node_spec_t spec = {.op = WF_OP_IDENTITY,
                           .inputs = &to,
                           .input_count = 1,
                           .outputs = &from,
                           .output_count = 1,
                           .onnx_names = names};
    return wf_graph_add_node(graph, &spec, NULL);
}

wf_status_t wf_graph_replace_uses(wf_graph_t *graph, wf_value_id from, wf_value_id to)
{
    if (from == to) {
        return WF_OK;
    }
    while (wf_graph_value(graph, from)->uses != NULL) {
        const wf_use_t *use = wf_graph_value(graph, from)->uses;
        WF_TRY(wf_graph_set_input(graph, use->node, use->slot, to));
    }
    wf_value_t *old = wf_graph_value(graph, from);
    wf_value_t *new = wf_graph_value(graph, to);
    if (!old->is_output) {
        return WF_OK;
    }
    if (new->is_input || new->is_output || new->constant != NULL || old->is_input) {
        return output_becomes_copy(graph, from, to);
    }
    WF_TRY(swap_names(graph, from, to));
    for (size_t i = 0; i < graph->outputs.count; i++) {
        if (graph->outputs.items[i] == from) {
            graph->outputs.items[i] = to;
        }
    }
    old->is_output = false;
    old->use_count--;
    new->is_output = true;
    new->use_count++;
    return WF_OK;
}
