/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: building. Vectors and maps use the graph's allocator; names, attributes and nodes' arrays its arena.
 */
#include "graph/graph.h"

#include <string.h>

#include "base/compiler.h"
#include "graph/internal.h"

wf_status_t wf_graph_create(wf_allocator_t allocator, wf_graph_t **out_graph)
{
    wf_graph_t *graph = NULL;
    *out_graph = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *graph, &graph));
    wf_arena_init(&graph->arena, allocator);
    wf_map_init(&graph->value_names, allocator);
    wf_map_init(&graph->name_suffixes, allocator);
    graph->name = "";
    *out_graph = graph;
    return WF_OK;
}

void wf_graph_destroy(wf_graph_t *graph)
{
    if (graph == NULL) {
        return;
    }
    wf_allocator_t allocator = graph->arena.allocator;
    wf_map_deinit(&graph->value_names);
    wf_map_deinit(&graph->name_suffixes);
    wf_vec_deinit(allocator, &graph->values);
    wf_vec_deinit(allocator, &graph->nodes);
    wf_vec_deinit(allocator, &graph->order);
    wf_vec_deinit(allocator, &graph->inputs);
    wf_vec_deinit(allocator, &graph->outputs);
    wf_arena_deinit(&graph->arena);
    wf_free(allocator, graph, 1, sizeof *graph);
}

/* ---- Values ---- */

/* Length of the name without a "~digits" at its end: "a~2" and "a" count their copies together. */
static size_t stem_bytes(const char *name, size_t length)
{
    size_t end = length;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') {
        end--;
    }
    return end < length && end > 1 && name[end - 1] == '~' ? end - 1 : length;
}

static wf_status_t fresh_name(wf_graph_t *graph, const char *wanted, const char **out_name)
{
    if (wanted == NULL || wanted[0] == '\0') {
        wanted = "v";
    }
    size_t length = strlen(wanted);
    uint64_t taken;
    if (!wf_map_get(&graph->value_names, wanted, length, &taken)) {
        return wf_arena_text(&graph->arena, wanted, length, out_name);
    }
    const char *stem = NULL;
    uint64_t suffix = 1;
    size_t stem_length = stem_bytes(wanted, length);
    WF_TRY(wf_arena_text(&graph->arena, wanted, stem_length, &stem));
    (void)wf_map_get(&graph->name_suffixes, stem, stem_length, &suffix);
    do {
        suffix++;
        WF_TRY(wf_arena_format(&graph->arena, out_name, "%s~%llu", stem, (unsigned long long)suffix));
    } while (wf_map_get(&graph->value_names, *out_name, strlen(*out_name), &taken));
    return wf_map_set(&graph->name_suffixes, stem, stem_length, suffix);
}

wf_status_t wf_graph_add_value(wf_graph_t *graph, const char *name, const wf_type_t *type,
                               wf_value_id *out_value)
{
    const char *unique = NULL;
    wf_value_t *value = NULL;
    wf_value_id id = (wf_value_id)graph->values.count;
    if (graph->values.count >= WF_NO_VALUE) {
        return WF_ERROR(MODEL_LIMIT, "graph has more than %u values", WF_NO_VALUE);
    }
    WF_TRY(fresh_name(graph, name, &unique));
    WF_TRY(wf_vec_grow(graph->arena.allocator, &graph->values, sizeof *value, &value));
    wf_status_t status = wf_map_set(&graph->value_names, unique, strlen(unique), id);
    if (status != WF_OK) {
        graph->values.count--;
        return status;
    }
    value->name = unique;
    value->producer = WF_NO_NODE;
    if (type != NULL) {
        value->type = *type;
        value->type_known = true;
    }
    *out_value = id;
    return WF_OK;
}

wf_status_t wf_graph_add_constant(wf_graph_t *graph, const char *name, const wf_type_t *type,
                                  const void *data, wf_value_id *out_value)
{
    static const char empty[16];
    WF_TRY(wf_graph_add_value(graph, name, type, out_value));
    assert(data != NULL || wf_type_bytes(type) == 0);
    wf_graph_value(graph, *out_value)->constant = data != NULL ? data : empty;
    return WF_OK;
}

wf_status_t wf_graph_add_input(wf_graph_t *graph, wf_value_id id)
{
    wf_value_t *value = wf_graph_value(graph, id);
    if (value->is_input || value->producer != WF_NO_NODE || value->constant != NULL) {
        return WF_ERROR(MODEL_INVALID, "graph input %s is already something else", value->name);
    }
    WF_TRY(wf_vec_push(graph->arena.allocator, &graph->inputs, &id));
    value->is_input = true;
    return WF_OK;
}

wf_status_t wf_graph_add_output(wf_graph_t *graph, wf_value_id id)
{
    wf_value_t *value = wf_graph_value(graph, id);
    if (value->is_output) {
        return WF_ERROR(MODEL_INVALID, "value %s is a graph output twice", value->name);
    }
    WF_TRY(wf_vec_push(graph->arena.allocator, &graph->outputs, &id));
    value->is_output = true;
    value->use_count++;
    return WF_OK;
}

/* ---- Uses ---- */

void wf_use_link(wf_graph_t *graph, wf_node_t *node, wf_node_id id, uint32_t slot)
{
    if (node->inputs[slot] == WF_NO_VALUE) {
        return;
    }
    wf_value_t *value = wf_graph_value(graph, node->inputs[slot]);
    wf_use_t *use = &node->uses[slot];
    *use = (wf_use_t){.previous = NULL, .next = value->uses, .node = id, .slot = slot};
    if (value->uses != NULL) {
        value->uses->previous = use;
    }
    value->uses = use;
    value->use_count++;
}

void wf_use_unlink(wf_graph_t *graph, wf_node_t *node, uint32_t slot)
{
    if (node->inputs[slot] == WF_NO_VALUE) {
        return;
    }
    wf_value_t *value = wf_graph_value(graph, node->inputs[slot]);
    wf_use_t *use = &node->uses[slot];
    if (use->previous != NULL) {
        use->previous->next = use->next;
    } else {
        value->uses = use->next;
    }
    if (use->next != NULL) {
        use->next->previous = use->previous;
    }
    value->use_count--;
}

/* ---- Types ---- */

/* What an inference needs of a node, without allocation for nodes of usual size. */
enum { FEW_INPUTS = 8, FEW_OUTPUTS = 4 };
typedef struct inference {
    wf_type_t few_types[FEW_INPUTS + FEW_OUTPUTS];
    wf_tensor_t few_tensors[FEW_INPUTS];
    const wf_tensor_t *few_values[FEW_INPUTS];
    wf_type_t *types; /* inputs, then outputs */
    wf_tensor_t *tensors;
    const wf_tensor_t **values;
    size_t input_count, output_count;
    wf_allocator_t allocator;
} inference_t;

static void inference_deinit(inference_t *self)
{
    if (self->types != self->few_types) {
        wf_free(self->allocator, self->types, self->input_count + self->output_count, sizeof *self->types);
        wf_free(self->allocator, self->tensors, self->input_count, sizeof *self->tensors);
        wf_free(self->allocator, self->values, self->input_count, sizeof *self->values);
    }
}

static wf_status_t inference_init(inference_t *self, const wf_graph_t *graph, const wf_node_t *node)
{
    self->input_count = node->input_count;
    self->output_count = node->output_count;
    self->allocator = graph->arena.allocator;
    self->types = self->few_types;
    self->tensors = self->few_tensors;
    self->values = self->few_values;
    if (node->input_count <= FEW_INPUTS && node->output_count <= FEW_OUTPUTS) {
        return WF_OK;
    }
    self->types = NULL;
    self->tensors = NULL;
    self->values = NULL;
    wf_status_t status =
        wf_alloc(self->allocator, self->input_count + self->output_count, sizeof *self->types, &self->types);
    if (status == WF_OK) {
        status = wf_alloc(self->allocator, self->input_count, sizeof *self->tensors, &self->tensors);
    }
    if (status == WF_OK) {
        status = wf_alloc(self->allocator, self->input_count, sizeof *self->values, &self->values);
    }
    if (status != WF_OK) {
        inference_deinit(self);
    }
    return status;
}

const char *wf_node_label(const wf_graph_t *graph, const wf_node_t *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE) {
            return wf_graph_value(graph, node->outputs[i])->name;
        }
    }
    return "(no output)";
}

/* Fills self's output types; *out_known is false when they cannot be known. */
static wf_status_t infer_types(inference_t *self, const wf_graph_t *graph, const wf_node_t *node,
                               bool *out_known)
{
    *out_known = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        self->types[i] = (wf_type_t){.dtype = WF_DTYPE_NONE};
        self->values[i] = NULL;
        if (node->inputs[i] == WF_NO_VALUE) {
            continue;
        }
        const wf_value_t *value = wf_graph_value(graph, node->inputs[i]);
        if (!value->type_known) {
            return WF_OK;
        }
        self->types[i] = value->type;
        if (wf_graph_constant(graph, node->inputs[i], &self->tensors[i])) {
            self->values[i] = &self->tensors[i];
        }
    }
    wf_type_t *outputs = self->types + node->input_count;
    for (uint32_t i = 0; i < node->output_count; i++) {
        outputs[i] = (wf_type_t){.dtype = WF_DTYPE_NONE};
    }
    wf_shape_call_t call = {.op = node->op,
                            .attrs = &node->attrs,
                            .input_count = node->input_count,
                            .inputs = self->types,
                            .values = self->values,
                            .output_count = node->output_count,
                            .outputs = outputs,
                            .needs_value_of = -1};
    wf_status_t status = wf_op_infer(&call);
    if (status != WF_OK) {
        return wf_status_annotated(status, "node %s (%s)", wf_node_label(graph, node),
                                   wf_op_info(node->op)->onnx_name);
    }
    *out_known = call.needs_value_of < 0;
    return WF_OK;
}

wf_status_t wf_node_infer(const wf_graph_t *graph, const wf_node_t *node, wf_inferred_fn *found, void *arg)
{
    inference_t self;
    bool known;
    WF_TRY(inference_init(&self, graph, node));
    wf_status_t status = infer_types(&self, graph, node, &known);
    for (uint32_t i = 0; status == WF_OK && known && i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE) {
            status = found(arg, node->outputs[i], &self.types[node->input_count + i]);
        }
    }
    inference_deinit(&self);
    return status;
}

static wf_status_t store_type(void *arg, wf_value_id id, const wf_type_t *type)
{
    wf_value_t *value = wf_graph_value(arg, id);
    value->type = *type;
    value->type_known = true;
    return WF_OK;
}

wf_status_t wf_graph_infer_node(wf_graph_t *graph, wf_node_id node)
{
    return wf_node_infer(graph, wf_graph_node(graph, node), store_type, graph);
}

/* ---- Nodes ---- */

static bool is_producible(const wf_graph_t *graph, wf_value_id id)
{
    const wf_value_t *value = wf_graph_value(graph, id);
    return value->producer == WF_NO_NODE && !value->is_input && value->constant == NULL;
}

static wf_status_t check_counts(const wf_graph_t *graph, const wf_node_t *node)
{
    const wf_op_info_t *info = wf_op_info(node->op);
    bool inputs_fit = node->input_count >= (uint32_t)info->input_min &&
                      (info->input_max < 0 || node->input_count <= (uint32_t)info->input_max);
    bool outputs_fit = node->output_count >= (uint32_t)info->output_min &&
                       (info->output_max < 0 || node->output_count <= (uint32_t)info->output_max);
    if (inputs_fit && outputs_fit) {
        return WF_OK;
    }
    return WF_ERROR(MODEL_INVALID, "node %s (%s): %s count %u is not possible", wf_node_label(graph, node),
                    info->onnx_name, inputs_fit ? "output" : "input",
                    inputs_fit ? node->output_count : node->input_count);
}

wf_status_t wf_node_make(wf_graph_t *graph, const wf_node_spec_t *spec, wf_node_t *out_node)
{
    const wf_op_info_t *info = wf_op_info(spec->op);
    size_t input_count = spec->input_count;
    while (input_count > (size_t)info->input_min && spec->inputs[input_count - 1] == WF_NO_VALUE) {
        input_count--;
    }
    if (input_count >= UINT32_MAX || spec->output_count >= UINT32_MAX) {
        return WF_ERROR(MODEL_LIMIT, "node of %s has too many inputs or outputs", info->onnx_name);
    }
    wf_node_t node = {
        .op = spec->op, .input_count = (uint32_t)input_count, .output_count = (uint32_t)spec->output_count};
    WF_TRY(wf_arena_alloc(&graph->arena, input_count, sizeof *node.inputs, &node.inputs));
    WF_TRY(wf_arena_alloc(&graph->arena, input_count, sizeof *node.uses, &node.uses));
    WF_TRY(wf_arena_alloc(&graph->arena, spec->output_count, sizeof *node.outputs, &node.outputs));
    for (size_t i = 0; i < input_count; i++) {
        assert(spec->inputs[i] == WF_NO_VALUE || spec->inputs[i] < graph->values.count);
        node.inputs[i] = spec->inputs[i];
    }
    for (size_t i = 0; i < spec->output_count; i++) {
        assert(spec->outputs[i] == WF_NO_VALUE || spec->outputs[i] < graph->values.count);
        node.outputs[i] = spec->outputs[i];
    }
    WF_TRY(check_counts(graph, &node));
    wf_status_t status =
        wf_op_complete_attrs(spec->op, spec->attrs, spec->attr_count, &graph->arena, &node.attrs);
    WF_TRY(wf_status_annotated(status, "node %s (%s)", wf_node_label(graph, &node), info->onnx_name));
    const char *names = spec->onnx_names != NULL ? spec->onnx_names : "";
    WF_TRY(wf_arena_text(&graph->arena, names, strlen(names), &node.onnx_names));
    *out_node = node;
    return WF_OK;
}

/* Opens a place in the order before a node, or at the end. */
static wf_status_t order_insert(wf_graph_t *graph, wf_node_id id, wf_node_id before)
{
    WF_TRY(wf_vec_push(graph->arena.allocator, &graph->order, &id));
    if (before == WF_NO_NODE) {
        return WF_OK;
    }
    wf_node_id *items = graph->order.items;
    size_t place = graph->order.count - 1;
    while (place > 0 && items[place] != before) {
        place--;
    }
    assert(items[place] == before);
    memmove(items + place + 1, items + place, (graph->order.count - 1 - place) * sizeof *items);
    items[place] = id;
    return WF_OK;
}

/* Outputs that nobody wants but that stand before a wanted one get a value without uses, so that the first
 * output always names the node and kernels always have a place to write. */
static wf_status_t fill_output_gaps(wf_graph_t *graph, wf_node_t *node)
{
    uint32_t needed = 1;
    const char *name = "unused";
    for (uint32_t i = node->output_count; i-- > 0;) {
        if (node->outputs[i] == WF_NO_VALUE) {
            continue;
        }
        needed = WF_MAX(needed, i + 1);
        name = wf_graph_value(graph, node->outputs[i])->name;
    }
    for (uint32_t i = 0; i < WF_MIN(needed, node->output_count); i++) {
        if (node->outputs[i] == WF_NO_VALUE) {
            WF_TRY(wf_graph_add_value(graph, name, NULL, &node->outputs[i]));
        }
    }
    return WF_OK;
}

wf_status_t wf_graph_insert_node(wf_graph_t *graph, const wf_node_spec_t *spec, wf_node_id before,
                                 wf_node_id *out_node)
{
    wf_node_t node;
    wf_node_t *place = NULL;
    wf_node_id id = (wf_node_id)graph->nodes.count;
    if (graph->nodes.count >= WF_NO_NODE) {
        return WF_ERROR(MODEL_LIMIT, "graph has more than %u nodes", WF_NO_NODE);
    }
    WF_TRY(wf_node_make(graph, spec, &node));
    WF_TRY(fill_output_gaps(graph, &node));
    for (uint32_t i = 0; i < node.output_count; i++) {
        bool repeated = false;
        for (uint32_t j = 0; j < i; j++) {
            repeated = repeated || (node.outputs[i] != WF_NO_VALUE && node.outputs[j] == node.outputs[i]);
        }
        if (node.outputs[i] != WF_NO_VALUE && (repeated || !is_producible(graph, node.outputs[i]))) {
            return WF_ERROR(MODEL_INVALID, "value %s is made twice",
                            wf_graph_value(graph, node.outputs[i])->name);
        }
    }
    /* Room first: after the inference has stored types nothing may fail. */
    WF_TRY(wf_vec_grow(graph->arena.allocator, &graph->nodes, sizeof node, &place));
    graph->nodes.count--;
    WF_TRY(wf_node_infer(graph, &node, store_type, graph));
    WF_TRY(order_insert(graph, id, before));
    graph->nodes.count++;
    *place = node;
    for (uint32_t i = 0; i < node.input_count; i++) {
        wf_use_link(graph, place, id, i);
    }
    for (uint32_t i = 0; i < node.output_count; i++) {
        if (node.outputs[i] != WF_NO_VALUE) {
            wf_graph_value(graph, node.outputs[i])->producer = id;
        }
    }
    if (out_node != NULL) {
        *out_node = id;
    }
    return WF_OK;
}

wf_status_t wf_graph_add_node(wf_graph_t *graph, const wf_node_spec_t *spec, wf_node_id *out_node)
{
    return wf_graph_insert_node(graph, spec, WF_NO_NODE, out_node);
}
