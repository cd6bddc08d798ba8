/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: users of values as a table, and looking at constants. */
#include <string.h>

#include "base/compiler.h"
#include "graph/constant.h"
#include "graph/internal.h"

wf_status_t wf_uses_build(const wf_graph_t *graph, wf_allocator_t allocator, wf_uses_t *out_uses)
{
    wf_uses_t uses = {.allocator = allocator, .value_count = graph->values.count};
    *out_uses = (wf_uses_t){.allocator = allocator};
    for (size_t i = 0; i < graph->values.count; i++) {
        uses.item_count += graph->values.items[i].use_count - graph->values.items[i].is_output;
    }
    if (uses.item_count > UINT32_MAX) {
        return WF_ERROR(MODEL_LIMIT, "graph has more than %u uses", UINT32_MAX);
    }
    WF_TRY(wf_alloc(allocator, uses.value_count + 1, sizeof *uses.first, &uses.first));
    wf_status_t status = wf_alloc(allocator, uses.item_count, sizeof *uses.items, &uses.items);
    if (status != WF_OK) {
        wf_uses_deinit(&uses);
        return status;
    }
    uint32_t next = 0;
    for (size_t i = 0; i < uses.value_count; i++) {
        uses.first[i] = next;
        next += graph->values.items[i].use_count - graph->values.items[i].is_output;
    }
    for (size_t i = 0; i < graph->order.count; i++) {
        const wf_node_t *node = wf_graph_node(graph, graph->order.items[i]);
        for (uint32_t slot = 0; !node->removed && slot < node->input_count; slot++) {
            if (node->inputs[slot] != WF_NO_VALUE) {
                uses.items[uses.first[node->inputs[slot]]++] = graph->order.items[i];
            }
        }
    }
    for (size_t i = uses.value_count; i > 0; i--) { /* each first now stands at the next one's start */
        uses.first[i] = uses.first[i - 1];
    }
    uses.first[0] = 0;
    *out_uses = uses;
    return WF_OK;
}

void wf_uses_deinit(wf_uses_t *uses)
{
    wf_free(uses->allocator, uses->first, uses->value_count + 1, sizeof *uses->first);
    wf_free(uses->allocator, uses->items, uses->item_count, sizeof *uses->items);
    *uses = (wf_uses_t){.allocator = uses->allocator};
}

wf_node_id wf_uses_single(const wf_graph_t *graph, const wf_uses_t *uses, wf_value_id value)
{
    if (wf_graph_value(graph, value)->is_output || uses->first[value] == uses->first[value + 1]) {
        return WF_NO_NODE;
    }
    wf_node_id user = uses->items[uses->first[value]];
    for (uint32_t i = uses->first[value] + 1; i < uses->first[value + 1]; i++) {
        if (uses->items[i] != user) {
            return WF_NO_NODE;
        }
    }
    return user;
}

bool wf_graph_constant(const wf_graph_t *graph, wf_value_id id, wf_tensor_t *out_tensor)
{
    if (id == WF_NO_VALUE) {
        return false;
    }
    const wf_value_t *value = wf_graph_value(graph, id);
    if (value->constant == NULL || !value->type_known) {
        return false;
    }
    /* A tensor is a view that may be written through; a constant never is. The copy drops the qualifier and
     * nothing else. */
    *out_tensor = (wf_tensor_t){.type = value->type};
    memcpy(&out_tensor->data, &value->constant, sizeof out_tensor->data);
    return true;
}

bool wf_graph_scalar(const wf_graph_t *graph, wf_value_id id, double *out_scalar)
{
    wf_tensor_t tensor;
    return wf_graph_constant(graph, id, &tensor) && wf_type_elems(&tensor.type) == 1 &&
           wf_constant_get(&tensor, 0, out_scalar);
}
