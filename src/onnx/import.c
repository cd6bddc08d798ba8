/* SPDX-License-Identifier: Apache-2.0 */
/* From the decoded model to a graph: one walk over the nodes in order. Functions are inlined; small constants
 * are computed on the way, so that shapes that are computed from shapes are known. */
#include "base/compiler.h"
#include "onnx/bind.h"
#include "onnx/import.h"
#include "onnx/tensor.h"

enum { SCRATCH_KEPT_BYTES = 65536 }; /* between nodes; more is given back */

static wf_status_t import_nodes(wf_importer_t *self, wf_scope_t *scope, const wf_pb_node_t *nodes,
                                size_t count);

/* ---- Values ---- */

wf_status_t wf_scope_set(wf_scope_t *scope, wf_span_t name, wf_value_id value)
{
    return wf_map_set(&scope->values, (const char *)name.data, name.bytes, value);
}

wf_status_t wf_import_constant(wf_importer_t *self, const wf_pb_tensor_t *tensor, const char *prefix,
                               wf_arena_t *scratch, wf_value_id *out_value)
{
    wf_type_t type;
    const void *data;
    const char *name;
    wf_status_t status = wf_onnx_tensor_type(tensor, &type);
    if (status == WF_OK) {
        status =
            wf_onnx_tensor_data(tensor, &type, self->model->file.data != NULL, &self->graph->arena, &data);
    }
    WF_TRY(wf_status_annotated(status, "initializer %.*s", WF_SPAN_ARGS(tensor->name)));
    WF_TRY(wf_arena_format(scratch, &name, "%s%.*s", prefix,
                           (int)WF_MIN(tensor->name.bytes, (size_t)INT32_MAX),
                           (const char *)tensor->name.data));
    return wf_graph_add_constant(self->graph, name, &type, data, out_value);
}

/* The value of a name. Initializers become constants when they are first asked for. */
wf_status_t wf_scope_find(wf_importer_t *self, wf_scope_t *scope, wf_span_t name, wf_value_id *out_value)
{
    uint64_t found;
    *out_value = WF_NO_VALUE;
    if (name.bytes == 0) {
        return WF_OK;
    }
    for (wf_scope_t *at = scope; at != NULL; at = at->outer) {
        if (wf_map_get(&at->values, (const char *)name.data, name.bytes, &found)) {
            *out_value = (wf_value_id)found;
            return WF_OK;
        }
        if (at->depth == 0 &&
            wf_map_get(&self->model->initializers, (const char *)name.data, name.bytes, &found)) {
            const wf_pb_tensor_t *tensor = &self->model->proto.graph->initializer.items[found];
            WF_TRY(wf_import_constant(self, tensor, "", &scope->scratch, out_value));
            return wf_scope_set(at, tensor->name, *out_value);
        }
    }
    return WF_ERROR(MODEL_INVALID, "value %.*s is made by nothing", WF_SPAN_ARGS(name));
}

static wf_status_t full_name(wf_scope_t *scope, wf_span_t name, const char **out_name)
{
    for (size_t i = 0; i < scope->result_count; i++) {
        if (scope->result_names != NULL && scope->result_names[i] != NULL &&
            wf_span_same(scope->results[i], name)) {
            *out_name = scope->result_names[i];
            return WF_OK;
        }
    }
    if (scope->prefix[0] == '\0') {
        return wf_arena_text(&scope->scratch, (const char *)name.data, name.bytes, out_name);
    }
    return wf_arena_format(&scope->scratch, out_name, "%s%.*s", scope->prefix,
                           (int)WF_MIN(name.bytes, (size_t)INT32_MAX), (const char *)name.data);
}

/* ---- Attributes ---- */

/* The attribute that is meant: itself, or the function's argument; NULL when that is not given. */
static const wf_pb_attribute_t *meant_attribute(const wf_scope_t *scope, const wf_pb_attribute_t *attribute)
{
    if (attribute->ref_attr_name.bytes == 0) {
        return attribute;
    }
    for (size_t i = 0; i < scope->argument_count; i++) {
        if (wf_span_same(scope->arguments[i].name, attribute->ref_attr_name)) {
            return scope->arguments[i].attribute;
        }
    }
    return NULL;
}

static const wf_pb_attribute_t *find_attribute(const wf_pb_attribute_t *items, size_t count, wf_span_t name)
{
    for (size_t i = 0; i < count; i++) {
        if (wf_span_same(items[i].name, name)) {
            return &items[i];
        }
    }
    return NULL;
}

const wf_pb_attribute_t *wf_scope_attribute(const wf_scope_t *scope, const wf_pb_node_t *node,
                                            const char *name)
{
    wf_span_t text = {(const uint8_t *)name, strlen(name)};
    const wf_pb_attribute_t *own = find_attribute(node->attribute.items, node->attribute.count, text);
    return own != NULL ? meant_attribute(scope, own) : NULL;
}

/* Arguments of a call: what the node gives, else the function's default. */
static wf_status_t make_arguments(wf_scope_t *caller, const wf_pb_node_t *call,
                                  const wf_pb_function_t *function, const wf_argument_t **out_arguments,
                                  size_t *out_count)
{
    wf_argument_t *arguments;
    size_t required = function->attribute.count;
    size_t count = required + function->attribute_proto.count;
    WF_TRY(wf_arena_alloc(&caller->scratch, count, sizeof *arguments, &arguments));
    for (size_t i = 0; i < count; i++) {
        const wf_pb_attribute_t *fallback =
            i < required ? NULL : &function->attribute_proto.items[i - required];
        wf_span_t name = i < required ? function->attribute.items[i] : fallback->name;
        const wf_pb_attribute_t *given = find_attribute(call->attribute.items, call->attribute.count, name);
        const wf_pb_attribute_t *meant = given != NULL ? meant_attribute(caller, given) : NULL;
        arguments[i] = (wf_argument_t){name, meant != NULL ? meant : fallback};
    }
    *out_arguments = arguments;
    *out_count = count;
    return WF_OK;
}

static wf_status_t read_attributes(wf_importer_t *self, wf_scope_t *scope, const wf_pb_node_t *node,
                                   int64_t opset, wf_upgrade_t *upgrade)
{
    enum { ADDED_BY_RULES = 4 };
    upgrade->attr_capacity = node->attribute.count + ADDED_BY_RULES;
    WF_TRY(wf_arena_alloc(&scope->scratch, upgrade->attr_capacity, sizeof *upgrade->attrs, &upgrade->attrs));
    for (size_t i = 0; i < node->attribute.count; i++) {
        const wf_pb_attribute_t *own = &node->attribute.items[i];
        const wf_pb_attribute_t *meant = meant_attribute(scope, own);
        if (meant == NULL || wf_onnx_attr_is_obsolete(own->name, opset)) {
            continue;
        }
        /* Nodes keep views of their tensors, so those live with the graph. */
        wf_arena_t *arena = meant->t != NULL ? &self->graph->arena : &scope->scratch;
        WF_TRY(wf_onnx_attr_read(meant, own->name, arena, &upgrade->attrs[upgrade->attr_count++]));
    }
    return WF_OK;
}

/* ---- Nodes ---- */

wf_status_t wf_import_count(wf_importer_t *self)
{
    self->node_count++;
    return self->node_count <= WF_ONNX_MAX_INLINED_NODES
               ? WF_OK
               : WF_ERROR(MODEL_LIMIT, "more than %d nodes, functions and bodies inlined",
                          WF_ONNX_MAX_INLINED_NODES);
}

static wf_status_t make_operator(wf_importer_t *self, wf_scope_t *scope, wf_call_t *call)
{
    const wf_pb_node_t *node = call->node;
    const wf_rule_t *rule = call->meaning.rule;
    wf_upgrade_t upgrade = {.graph = self->graph,
                            .scratch = &scope->scratch,
                            .rule = rule,
                            .opset = call->meaning.opset,
                            .op = call->meaning.op,
                            .inputs = call->inputs,
                            .input_count = node->input.count,
                            .output_count = node->output.count,
                            .output_names = call->output_names,
                            .results = call->results,
                            .label = call->label,
                            .onnx_names = call->onnx_names};
    for (size_t i = 0; i < node->output.count && i < 64; i++) {
        upgrade.listed_outputs |= (uint64_t)(node->output.items[i].bytes > 0) << i;
    }
    WF_TRY(read_attributes(self, scope, node, call->meaning.opset, &upgrade));
    return rule != NULL ? rule->fn(&upgrade) : wf_up_same(&upgrade);
}

void wf_scope_deinit(wf_scope_t *scope)
{
    wf_map_deinit(&scope->values);
    wf_arena_deinit(&scope->scratch);
}

wf_status_t wf_scope_init(wf_importer_t *self, wf_scope_t *scope, wf_scope_t *caller, const char *label)
{
    wf_allocator_t allocator = self->graph->arena.allocator;
    *scope = (wf_scope_t){.prefix = ""};
    wf_map_init(&scope->values, allocator);
    wf_arena_init(&scope->scratch, allocator);
    if (caller == NULL) {
        return WF_OK;
    }
    scope->depth = caller->depth + 1;
    if (scope->depth > WF_ONNX_MAX_CALL_DEPTH) {
        return WF_ERROR(MODEL_LIMIT, "functions and bodies are nested more than %d deep",
                        WF_ONNX_MAX_CALL_DEPTH);
    }
    return wf_arena_format(&caller->scratch, &scope->prefix, "%s/", label);
}

wf_status_t wf_import_body(wf_importer_t *self, wf_scope_t *scope, const wf_pb_node_t *nodes,
                           size_t node_count, wf_value_id *out_results)
{
    WF_TRY(import_nodes(self, scope, nodes, node_count));
    for (size_t i = 0; i < scope->result_count; i++) {
        if (scope->result_names != NULL && scope->result_names[i] == NULL) {
            continue;
        }
        WF_TRY(wf_scope_find(self, scope, scope->results[i], &out_results[i]));
        if (out_results[i] == WF_NO_VALUE) { /* no name, or an input that the call leaves out */
            return WF_ERROR(MODEL_INVALID, "its output %zu is made by nothing", i);
        }
    }
    return WF_OK;
}

static wf_status_t fill_function(wf_importer_t *self, wf_scope_t *caller, wf_scope_t *scope,
                                 const wf_call_t *call)
{
    const wf_pb_function_t *function = &self->model->proto.functions.items[call->meaning.function];
    const wf_pb_node_t *node = call->node;
    if (node->input.count > function->input.count || node->output.count > function->output.count) {
        return WF_ERROR(MODEL_INVALID, "%zu inputs and %zu outputs, the function has %zu and %zu",
                        node->input.count, node->output.count, function->input.count, function->output.count);
    }
    WF_TRY(make_arguments(caller, node, function, &scope->arguments, &scope->argument_count));
    scope->results = function->output.items;
    scope->result_names = call->output_names;
    scope->result_count = node->output.count;
    scope->opsets = (wf_onnx_opsets_t){function->opset_import.items, function->opset_import.count,
                                       self->model->proto.ir_version};
    for (size_t i = 0; i < function->input.count; i++) {
        wf_value_id value = i < node->input.count ? call->inputs[i] : WF_NO_VALUE;
        WF_TRY(wf_scope_set(scope, function->input.items[i], value));
    }
    return wf_import_body(self, scope, function->node.items, function->node.count, call->results);
}

static wf_status_t make_function(wf_importer_t *self, wf_scope_t *caller, const wf_call_t *call)
{
    wf_scope_t scope;
    wf_status_t status = wf_scope_init(self, &scope, caller, call->label);
    if (status == WF_OK) {
        status = fill_function(self, caller, &scope, call);
    }
    wf_scope_deinit(&scope);
    return status;
}

/* Names of outputs, NULL for those that nothing reads; *out_live is false when that is all of them. */
static wf_status_t name_outputs(wf_scope_t *scope, const wf_pb_node_t *node, const char ***out_names,
                                bool *out_live)
{
    const char **names;
    *out_live = false;
    WF_TRY(wf_arena_alloc(&scope->scratch, node->output.count, sizeof *names, &names));
    for (size_t i = 0; i < node->output.count; i++) {
        bool unused = i < 64 && (node->unused >> i & 1u) != 0;
        if (node->output.items[i].bytes > 0 && !unused) {
            WF_TRY(wf_onnx_name_check(node->output.items[i], "an output"));
            WF_TRY(full_name(scope, node->output.items[i], &names[i]));
            *out_live = true;
        }
    }
    *out_names = names;
    return WF_OK;
}

static wf_status_t make_node(wf_importer_t *self, wf_scope_t *scope, wf_call_t *call)
{
    const wf_pb_node_t *node = call->node;
    WF_TRY(wf_onnx_node_meaning(self->model, &scope->opsets, node, &call->meaning));
    if (scope->outer != NULL) { /* a branch: not checked before */
        WF_TRY(wf_onnx_node_check(node, &call->meaning));
    }
    for (size_t i = 0; i < node->input.count; i++) {
        WF_TRY(wf_scope_find(self, scope, node->input.items[i], &call->inputs[i]));
    }
    switch (call->meaning.kind) {
    case WF_ONNX_FUNCTION:
        return make_function(self, scope, call);
    case WF_ONNX_FLOW:
        return wf_import_flow(self, scope, call);
    default:
        return make_operator(self, scope, call);
    }
}

/* "node x (Conv, operator set 17): ...", unless the graph's builder has said so already. */
static wf_status_t annotate(wf_status_t status, const wf_call_t *call)
{
    const char *domain = call->node->domain.bytes > 0 ? "." : "";
    if (status == WF_OK || strncmp(wf_status_message(status), "node ", 5) == 0) {
        return status;
    }
    return wf_status_annotated(status, "node %s (%.*s%s%.*s, operator set %lld)", call->onnx_names,
                               WF_SPAN_ARGS(call->node->domain), domain, WF_SPAN_ARGS(call->node->op_type),
                               (long long)call->meaning.opset);
}

static wf_status_t import_node(wf_importer_t *self, wf_scope_t *scope, const wf_pb_node_t *node)
{
    wf_call_t call = {.node = node};
    bool live;
    WF_TRY(name_outputs(scope, node, &call.output_names, &live));
    if (!live) {
        return WF_OK;
    }
    WF_TRY(wf_import_count(self));
    for (size_t i = 0; call.label == NULL; i++) {
        call.label = call.output_names[i];
    }
    WF_TRY(wf_arena_alloc(&scope->scratch, node->input.count, sizeof *call.inputs, &call.inputs));
    WF_TRY(wf_arena_alloc(&scope->scratch, node->output.count, sizeof *call.results, &call.results));
    for (size_t i = 0; i < node->output.count; i++) {
        call.results[i] = WF_NO_VALUE;
    }
    if (node->name.bytes > 0) {
        WF_TRY(wf_arena_format(&scope->scratch, &call.onnx_names, "%s%.*s", scope->prefix,
                               WF_SPAN_ARGS(node->name)));
    } else {
        call.onnx_names = call.label;
    }
    WF_TRY(annotate(make_node(self, scope, &call), &call));
    for (size_t i = 0; i < node->output.count; i++) {
        if (call.output_names[i] == NULL) {
            continue;
        }
        if (call.results[i] == WF_NO_VALUE) {
            return annotate(WF_ERROR(MODEL_UNSUPPORTED, "output %zu is not supported", i), &call);
        }
        WF_TRY(wf_scope_set(scope, node->output.items[i], call.results[i]));
    }
    return WF_OK;
}

static wf_status_t import_nodes(wf_importer_t *self, wf_scope_t *scope, const wf_pb_node_t *nodes,
                                size_t count)
{
    for (size_t i = 0; i < count; i++) {
        WF_TRY(import_node(self, scope, &nodes[i]));
        if (scope->scratch.total_bytes > SCRATCH_KEPT_BYTES) {
            wf_arena_deinit(&scope->scratch);
            wf_arena_init(&scope->scratch, self->graph->arena.allocator);
        }
    }
    return WF_OK;
}

/* ---- Inputs and outputs ---- */

/* A fixed input stays an input; what reads it reads a constant. */
static wf_status_t add_fixed(wf_importer_t *self, const wf_port_t *port, const wf_tensor_t *value,
                             wf_value_id *out_value)
{
    wf_tensor_t copy;
    size_t bytes = (size_t)WF_MAX(wf_type_bytes(&value->type), 0);
    WF_TRY(wf_emit_constant(self->graph, port->name, &value->type, &copy, out_value));
    if (bytes > 0) {
        memcpy(copy.data, value->data, bytes);
    }
    return WF_OK;
}

static wf_status_t add_inputs(wf_importer_t *self, wf_scope_t *scope, const wf_onnx_binding_t *bindings,
                              const wf_type_t *types, const size_t *bound)
{
    const wf_onnx_summary_t *summary = &self->model->summary;
    for (size_t i = 0; i < summary->input_count; i++) {
        const wf_port_t *port = &summary->inputs[i];
        wf_value_id value;
        WF_TRY(wf_graph_add_value(self->graph, port->name, &types[i], &value));
        WF_TRY(wf_graph_add_input(self->graph, value));
        if (bound[i] != SIZE_MAX && bindings[bound[i]].value != NULL) {
            WF_TRY(add_fixed(self, port, bindings[bound[i]].value, &value));
        }
        WF_TRY(wf_map_set(&scope->values, port->name, strlen(port->name), value));
    }
    return WF_OK;
}

/* Gives `value` the name, which belongs to `owner` until now. */
static wf_status_t move_name(wf_graph_t *graph, wf_value_id owner, wf_value_id value)
{
    wf_value_t *a = wf_graph_value(graph, owner);
    wf_value_t *b = wf_graph_value(graph, value);
    const char *name = a->name;
    a->name = b->name;
    b->name = name;
    WF_TRY(wf_map_set(&graph->value_names, a->name, strlen(a->name), owner));
    return wf_map_set(&graph->value_names, b->name, strlen(b->name), value);
}

/* An output that is a constant, or the same value as another one, is a copy: outputs are made by nodes, each
 * by its own. */
static wf_status_t add_output(wf_importer_t *self, wf_scope_t *scope, wf_span_t port_name)
{
    const char *name;
    wf_value_id value, copy;
    uint64_t named;
    wf_graph_t *graph = self->graph;
    WF_TRY(wf_scope_find(self, scope, port_name, &value));
    WF_TRY(wf_arena_text(&scope->scratch, (const char *)port_name.data, port_name.bytes, &name));
    if (wf_map_get(&graph->value_names, name, strlen(name), &named) &&
        wf_graph_value(graph, (wf_value_id)named)->is_input) {
        return wf_graph_add_output(graph, (wf_value_id)named); /* both have to have this name */
    }
    const wf_value_t *source = wf_graph_value(graph, value);
    if (strcmp(source->name, name) == 0 && source->producer != WF_NO_NODE) {
        return wf_graph_add_output(graph, value);
    }
    WF_TRY(wf_graph_add_value(graph, name, NULL, &copy));
    if (strcmp(wf_graph_value(graph, copy)->name, name) != 0 &&
        wf_map_get(&graph->value_names, name, strlen(name), &named)) {
        WF_TRY(move_name(graph, (wf_value_id)named, copy));
    }
    wf_node_spec_t spec = {.op = WF_OP_IDENTITY,
                           .inputs = &value,
                           .input_count = 1,
                           .outputs = &copy,
                           .output_count = 1,
                           .onnx_names = name};
    WF_TRY(wf_graph_add_node(graph, &spec, NULL));
    return wf_graph_add_output(graph, copy);
}

/* ---- The whole graph ---- */

static wf_status_t import_main(wf_importer_t *self, wf_scope_t *scope, const wf_onnx_binding_t *bindings,
                               const wf_type_t *types, const size_t *bound)
{
    const wf_pb_model_t *proto = &self->model->proto;
    const wf_pb_graph_t *graph = proto->graph;
    scope->opsets =
        (wf_onnx_opsets_t){proto->opset_import.items, proto->opset_import.count, proto->ir_version};
    WF_TRY(wf_arena_text(&self->graph->arena, (const char *)graph->name.data, graph->name.bytes,
                         &self->graph->name));
    WF_TRY(add_inputs(self, scope, bindings, types, bound));
    WF_TRY(import_nodes(self, scope, graph->node.items, graph->node.count));
    for (size_t i = 0; i < graph->output.count; i++) {
        WF_TRY(add_output(self, scope, graph->output.items[i].name));
    }
    return wf_graph_sort(self->graph);
}

static wf_status_t import_bound(wf_importer_t *self, const wf_onnx_binding_t *bindings, size_t binding_count)
{
    const wf_onnx_summary_t *summary = &self->model->summary;
    wf_allocator_t allocator = self->graph->arena.allocator;
    wf_scope_t scope;
    wf_type_t *types = NULL;
    size_t *bound = NULL;
    wf_status_t status = wf_alloc(allocator, summary->input_count, sizeof *types, &types);
    if (status == WF_OK) {
        status = wf_alloc(allocator, summary->input_count, sizeof *bound, &bound);
    }
    if (status == WF_OK) {
        status = wf_onnx_bind(summary, bindings, binding_count, allocator, types, bound);
    }
    if (status == WF_OK) {
        status = wf_scope_init(self, &scope, NULL, "");
        if (status == WF_OK) {
            status = import_main(self, &scope, bindings, types, bound);
        }
        wf_scope_deinit(&scope);
    }
    wf_free(allocator, types, summary->input_count, sizeof *types);
    wf_free(allocator, bound, summary->input_count, sizeof *bound);
    return status;
}

/* The first problem as a failure, with the number of the others. */
static wf_status_t refuse(const wf_onnx_model_t *model)
{
    const wf_onnx_problem_t *problem = &model->problems.items[0];
    wf_status_t status = wf_status_make(problem->code, __FILE__, __LINE__, "%s", problem->reason);
    if (problem->op[0] != '\0') {
        status = problem->opset > 0
                     ? wf_status_annotated(status, "node %s (%s, operator set %lld)", problem->node,
                                           problem->op, (long long)problem->opset)
                     : wf_status_annotated(status, "node %s (%s)", problem->node, problem->op);
    }
    if (model->problem_count > 1) {
        status = wf_status_annotated(status, "%zu problems, the first is", model->problem_count);
    }
    return problem->hint[0] != '\0' ? wf_status_hinted(status, "%s", problem->hint) : status;
}

wf_status_t wf_onnx_to_graph(const wf_onnx_model_t *model, const wf_onnx_binding_t *bindings,
                             size_t binding_count, wf_allocator_t allocator, wf_graph_t **out_graph)
{
    wf_importer_t self = {.model = model};
    *out_graph = NULL;
    if (model->problem_count > 0) {
        return refuse(model);
    }
    WF_TRY(wf_graph_create(allocator, &self.graph));
    wf_status_t status = import_bound(&self, bindings, binding_count);
    if (status != WF_OK) {
        wf_graph_destroy(self.graph);
        return status;
    }
    *out_graph = self.graph;
    return WF_OK;
}
