/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/check.h"

#include "base/compiler.h"
#include "onnx/node.h"
#include "onnx/tensor.h"

#define NONE UINT32_MAX

/* A list of nodes with its surroundings: the main graph or the body of a function. */
typedef struct body {
    wf_onnx_model_t *model;
    wf_onnx_opsets_t opsets;
    const char *prefix; /* before names in messages: "" or "function f: " */
    wf_pb_node_t *nodes;
    uint32_t node_count;
    wf_map_t values;         /* name: value */
    WF_VEC(uint32_t) makers; /* per value: node, or NONE for inputs and initializers */
    WF_VEC(uint32_t) reads;  /* values that nodes read, node after node */
    uint32_t *first_read;    /* per node, and one more */
    uint32_t *order;         /* nodes, topological */
    uint8_t *used;           /* per value */
    bool is_sorted;
} body_t;

/* ---- Problems ---- */

static wf_status_t node_problem(body_t *self, const wf_pb_node_t *node, size_t index, int64_t opset,
                                wf_status_t reason)
{
    wf_arena_t *arena = &self->model->arena;
    const char *name = "", *op = "", *label = "";
    if (reason == WF_OK) {
        return WF_OK;
    }
    if (self->model->problems.count < WF_ONNX_MAX_PROBLEMS) {
        wf_status_t status = wf_onnx_node_text(node, index, arena, &name);
        if (status == WF_OK) {
            status = wf_arena_format(arena, &label, "%s%s", self->prefix, name);
        }
        if (status == WF_OK) {
            status = wf_onnx_op_text(node, arena, &op);
        }
        if (status != WF_OK) {
            return wf_status_join(status, reason);
        }
    }
    return wf_onnx_problem_add(self->model, label, op, opset, reason);
}

/* A problem of the file as a whole or of one of its values. */
static wf_status_t file_problem(wf_onnx_model_t *model, wf_span_t name, wf_status_t reason)
{
    const char *text = "";
    if (reason == WF_OK) {
        return WF_OK;
    }
    if (name.bytes > 0 && model->problems.count < WF_ONNX_MAX_PROBLEMS) {
        wf_status_t status = wf_arena_text(&model->arena, (const char *)name.data, name.bytes, &text);
        if (status != WF_OK) {
            return wf_status_join(status, reason);
        }
    }
    return wf_onnx_problem_add(model, text, "", 0, reason);
}

static const wf_span_t no_name;

/* ---- Values ---- */

static bool find_value(const body_t *self, wf_span_t name, uint32_t *out_value)
{
    uint64_t found;
    if (!wf_map_get(&self->values, (const char *)name.data, name.bytes, &found)) {
        return false;
    }
    *out_value = (uint32_t)found;
    return true;
}

static wf_status_t add_value(body_t *self, wf_span_t name, uint32_t maker)
{
    WF_TRY(wf_map_set(&self->values, (const char *)name.data, name.bytes, self->makers.count));
    return wf_vec_push(self->model->allocator, &self->makers, &maker);
}

/* Names that a body begins with. */
static wf_status_t add_given(body_t *self, wf_span_t name, const char *what)
{
    uint32_t ignored;
    wf_status_t status = wf_onnx_name_check(name, what);
    if (status == WF_OK && find_value(self, name, &ignored)) {
        status = WF_ERROR(MODEL_INVALID, "%s%s %.*s is there twice", self->prefix, what, WF_SPAN_ARGS(name));
    }
    if (status == WF_OK) {
        return add_value(self, name, NONE);
    }
    return file_problem(self->model, name, status);
}

static wf_status_t add_outputs(body_t *self)
{
    for (uint32_t i = 0; i < self->node_count; i++) {
        const wf_pb_node_t *node = &self->nodes[i];
        for (size_t k = 0; k < node->output.count; k++) {
            wf_span_t name = node->output.items[k];
            uint32_t ignored;
            if (name.bytes == 0) {
                continue;
            }
            wf_status_t status = wf_onnx_name_check(name, "an output");
            if (status == WF_OK && find_value(self, name, &ignored)) {
                status = WF_ERROR(MODEL_INVALID, "value %.*s is made twice", WF_SPAN_ARGS(name));
            }
            WF_TRY(status == WF_OK ? add_value(self, name, i) : node_problem(self, node, i, 0, status));
        }
    }
    return WF_OK;
}

/* ---- What nodes read ---- */

static wf_status_t add_read(body_t *self, uint32_t node, uint32_t value)
{
    uint32_t maker = self->makers.items[value];
    self->is_sorted = self->is_sorted && (maker == NONE || maker < node);
    return wf_vec_push(self->model->allocator, &self->reads, &value);
}

/* Names that graphs inside a node define; they hide those of the body. */
typedef struct inner {
    const struct inner *outer;
    wf_map_t names;
} inner_t;

static bool is_inner(const inner_t *inner, wf_span_t name)
{
    uint64_t ignored;
    for (; inner != NULL; inner = inner->outer) {
        if (wf_map_get(&inner->names, (const char *)name.data, name.bytes, &ignored)) {
            return true;
        }
    }
    return false;
}

static wf_status_t define(inner_t *inner, wf_span_t name)
{
    return name.bytes > 0 ? wf_map_set(&inner->names, (const char *)name.data, name.bytes, 0) : WF_OK;
}

static wf_status_t define_all(inner_t *inner, const wf_pb_graph_t *graph)
{
    for (size_t i = 0; i < graph->input.count; i++) {
        WF_TRY(define(inner, graph->input.items[i].name));
    }
    for (size_t i = 0; i < graph->initializer.count; i++) {
        WF_TRY(define(inner, graph->initializer.items[i].name));
    }
    for (size_t i = 0; i < graph->node.count; i++) {
        for (size_t k = 0; k < graph->node.items[i].output.count; k++) {
            WF_TRY(define(inner, graph->node.items[i].output.items[k]));
        }
    }
    return WF_OK;
}

static wf_status_t add_capture(body_t *self, uint32_t node, const inner_t *inner, wf_span_t name)
{
    uint32_t value;
    bool outside = name.bytes > 0 && !is_inner(inner, name) && find_value(self, name, &value);
    return outside ? add_read(self, node, value) : WF_OK;
}

static wf_status_t add_captures(body_t *self, uint32_t node, const inner_t *outer,
                                const wf_pb_graph_t *graph);

static wf_status_t walk_inner(body_t *self, uint32_t node, inner_t *inner, const wf_pb_graph_t *graph)
{
    WF_TRY(define_all(inner, graph));
    for (size_t i = 0; i < graph->output.count; i++) {
        WF_TRY(add_capture(self, node, inner, graph->output.items[i].name));
    }
    for (size_t i = 0; i < graph->node.count; i++) {
        const wf_pb_node_t *step = &graph->node.items[i];
        for (size_t k = 0; k < step->input.count; k++) {
            WF_TRY(add_capture(self, node, inner, step->input.items[k]));
        }
        for (size_t k = 0; k < step->attribute.count; k++) {
            if (step->attribute.items[k].g != NULL) {
                WF_TRY(add_captures(self, node, inner, step->attribute.items[k].g));
            }
        }
    }
    return WF_OK;
}

/* Names of this body that a graph inside a node reads. */
static wf_status_t add_captures(body_t *self, uint32_t node, const inner_t *outer, const wf_pb_graph_t *graph)
{
    inner_t inner = {.outer = outer};
    wf_map_init(&inner.names, self->model->allocator);
    wf_status_t status = walk_inner(self, node, &inner, graph);
    wf_map_deinit(&inner.names);
    return status;
}

static wf_status_t add_reads(body_t *self)
{
    self->is_sorted = true;
    WF_TRY(wf_alloc(self->model->allocator, (size_t)self->node_count + 1, sizeof *self->first_read,
                    &self->first_read));
    for (uint32_t i = 0; i < self->node_count; i++) {
        const wf_pb_node_t *node = &self->nodes[i];
        self->first_read[i] = (uint32_t)self->reads.count;
        for (size_t k = 0; k < node->input.count; k++) {
            wf_span_t name = node->input.items[k];
            uint32_t value;
            if (name.bytes == 0) {
                continue;
            }
            if (find_value(self, name, &value)) {
                WF_TRY(add_read(self, i, value));
            } else {
                WF_TRY(node_problem(
                    self, node, i, 0,
                    WF_ERROR(MODEL_INVALID, "input %zu, %.*s, is made by nothing", k, WF_SPAN_ARGS(name))));
            }
        }
        for (size_t k = 0; k < node->attribute.count; k++) {
            if (node->attribute.items[k].g != NULL) {
                WF_TRY(add_captures(self, i, NULL, node->attribute.items[k].g));
            }
        }
    }
    self->first_read[self->node_count] = (uint32_t)self->reads.count;
    return self->reads.count <= UINT32_MAX ? WF_OK : WF_ERROR(MODEL_LIMIT, "nodes have too many inputs");
}

/* ---- Order ---- */

/* Depth-first from each node in file order, so that nodes only move when they have to. `place` and `stack`
 * hold one number per node; *out_cycle is a node of a cycle, or NONE. */
static void sort_nodes(body_t *self, uint32_t *next_read, uint32_t *stack, uint8_t *state,
                       uint32_t *out_cycle)
{
    enum { NEW, OPEN, DONE };
    uint32_t done = 0;
    *out_cycle = NONE;
    for (uint32_t root = 0; root < self->node_count; root++) {
        uint32_t depth = 0;
        if (state[root] != NEW) {
            continue;
        }
        stack[depth++] = root;
        state[root] = OPEN;
        next_read[root] = self->first_read[root];
        while (depth > 0) {
            uint32_t node = stack[depth - 1];
            if (next_read[node] == self->first_read[node + 1]) {
                state[node] = DONE;
                self->order[done++] = node;
                depth--;
                continue;
            }
            uint32_t maker = self->makers.items[self->reads.items[next_read[node]++]];
            if (maker == NONE || state[maker] == DONE) {
                continue;
            }
            if (state[maker] == OPEN) {
                *out_cycle = maker;
                return;
            }
            stack[depth++] = maker;
            state[maker] = OPEN;
            next_read[maker] = self->first_read[maker];
        }
    }
}

static wf_status_t order_nodes(body_t *self, bool *out_ok)
{
    wf_allocator_t allocator = self->model->allocator;
    uint32_t *next_read = NULL, *stack = NULL;
    uint8_t *state = NULL;
    uint32_t cycle = NONE;
    WF_TRY(wf_alloc(allocator, self->node_count, sizeof *self->order, &self->order));
    for (uint32_t i = 0; i < self->node_count; i++) {
        self->order[i] = i;
    }
    *out_ok = true;
    if (self->is_sorted) {
        return WF_OK;
    }
    wf_status_t status = wf_alloc(allocator, self->node_count, sizeof *next_read, &next_read);
    if (status == WF_OK) {
        status = wf_alloc(allocator, self->node_count, sizeof *stack, &stack);
    }
    if (status == WF_OK) {
        status = wf_alloc(allocator, self->node_count, sizeof *state, &state);
    }
    if (status == WF_OK) {
        sort_nodes(self, next_read, stack, state, &cycle);
    }
    wf_free(allocator, next_read, self->node_count, sizeof *next_read);
    wf_free(allocator, stack, self->node_count, sizeof *stack);
    wf_free(allocator, state, self->node_count, sizeof *state);
    if (status == WF_OK && cycle != NONE) {
        *out_ok = false;
        return node_problem(self, &self->nodes[cycle], cycle, 0,
                            WF_ERROR(MODEL_INVALID, "its inputs depend on its own output (a cycle)"));
    }
    return status;
}

/* Moves nodes to where the order wants them; uses the order up. */
static void permute_nodes(body_t *self)
{
    for (uint32_t start = 0; start < self->node_count; start++) {
        if (self->order[start] == start) {
            continue;
        }
        wf_pb_node_t first = self->nodes[start];
        uint32_t to = start;
        while (self->order[to] != start) {
            uint32_t from = self->order[to];
            self->nodes[to] = self->nodes[from];
            self->order[to] = to;
            to = from;
        }
        self->nodes[to] = first;
        self->order[to] = to;
    }
}

/* ---- Who matters ---- */

/* From the outputs back: marks outputs of nodes that nothing reads. `used` holds the body's outputs already.
 */
static void mark_unused(body_t *self)
{
    for (uint32_t i = self->node_count; i-- > 0;) {
        uint32_t index = self->order[i];
        wf_pb_node_t *node = &self->nodes[index];
        bool live = false;
        for (size_t k = 0; k < node->output.count; k++) {
            uint32_t value;
            wf_span_t name = node->output.items[k];
            bool read = name.bytes > 0 && find_value(self, name, &value) && self->used[value];
            live = live || read;
            if (!read && k < 64) {
                node->unused |= 1ull << k;
            }
        }
        for (uint32_t k = self->first_read[index]; live && k < self->first_read[index + 1]; k++) {
            self->used[self->reads.items[k]] = 1;
        }
    }
}

static bool is_live(const wf_pb_node_t *node)
{
    if (node->output.count >= 64) {
        return true;
    }
    return node->output.count > 0 && node->unused != (1ull << node->output.count) - 1;
}

/* ---- Versions ---- */

/* What an operator set changes that nobody has looked at may change the meaning of any node. */
static wf_status_t check_opsets(body_t *self)
{
    for (size_t i = 0; i < self->opsets.count; i++) {
        const wf_pb_opset_t *opset = &self->opsets.items[i];
        bool standard = opset->domain.bytes == 0 || wf_span_equal(opset->domain, "ai.onnx");
        if (standard && opset->version > WF_ONNX_NEWEST_OPSET) {
            wf_status_t status = WF_ERROR(MODEL_UNSUPPORTED,
                                          "%soperator set %lld is newer than %d, the newest that was tested",
                                          self->prefix, (long long)opset->version, WF_ONNX_NEWEST_OPSET);
            WF_TRY(file_problem(self->model, no_name,
                                wf_status_hinted(status, "export the model with operator set %d or older",
                                                 WF_ONNX_NEWEST_OPSET)));
        }
    }
    return WF_OK;
}

/* ---- Functions ---- */

/* How large each function is when it is inlined; 0: not looked at, NONE: being looked at. */
typedef struct sizes {
    uint32_t *items;
} sizes_t;

static wf_status_t check_function(wf_onnx_model_t *model, sizes_t *sizes, size_t index, unsigned depth,
                                  uint32_t *out_size);

/* Operators, attributes and called functions of all nodes that matter. *out_size counts nodes after inlining.
 */
static wf_status_t check_nodes(body_t *self, sizes_t *sizes, unsigned depth, uint32_t *out_size)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < self->node_count; i++) {
        const wf_pb_node_t *node = &self->nodes[i];
        wf_onnx_meaning_t meaning;
        uint32_t called = 1;
        if (!is_live(node)) {
            continue;
        }
        wf_status_t status = wf_onnx_node_meaning(self->model, &self->opsets, node, &meaning);
        if (status == WF_OK) {
            status = wf_onnx_node_check(node, &meaning);
        }
        bool calls = status == WF_OK && meaning.kind == WF_ONNX_FUNCTION;
        if (calls && depth == WF_ONNX_MAX_CALL_DEPTH) {
            status =
                WF_ERROR(MODEL_LIMIT, "functions call each other more than %d deep", WF_ONNX_MAX_CALL_DEPTH);
        } else if (calls && sizes->items[meaning.function] == NONE) {
            status = WF_ERROR(MODEL_INVALID, "the function calls itself");
        } else if (calls) {
            WF_TRY(check_function(self->model, sizes, meaning.function, depth + 1, &called));
        }
        WF_TRY(node_problem(self, node, i, meaning.opset, status));
        size += called;
    }
    if (size > WF_ONNX_MAX_INLINED_NODES) {
        size = WF_ONNX_MAX_INLINED_NODES + 1; /* still too many, but neither NONE nor a sum that wraps */
        if (depth == 0) {
            WF_TRY(file_problem(
                self->model, no_name,
                WF_ERROR(MODEL_LIMIT, "more than %d nodes, functions inlined", WF_ONNX_MAX_INLINED_NODES)));
        }
    }
    *out_size = (uint32_t)WF_MAX(size, 1u);
    return WF_OK;
}

/* ---- Bodies ---- */

static void body_deinit(body_t *self)
{
    wf_allocator_t allocator = self->model->allocator;
    wf_map_deinit(&self->values);
    wf_free(allocator, self->first_read, (size_t)self->node_count + 1, sizeof *self->first_read);
    wf_free(allocator, self->order, self->node_count, sizeof *self->order);
    wf_free(allocator, self->used, self->makers.count, sizeof *self->used);
    wf_vec_deinit(allocator, &self->makers);
    wf_vec_deinit(allocator, &self->reads);
}

static wf_status_t use_output(body_t *self, wf_span_t name, const char *what)
{
    uint32_t value;
    wf_status_t status = WF_OK;
    if (name.bytes == 0) {
        status = WF_ERROR(MODEL_INVALID, "%s%s has no name", self->prefix, what);
    } else if (!find_value(self, name, &value)) {
        status =
            WF_ERROR(MODEL_INVALID, "%s%s %.*s is made by nothing", self->prefix, what, WF_SPAN_ARGS(name));
    } else if (self->used[value]) {
        status = WF_ERROR(MODEL_INVALID, "%s%s %.*s is listed twice", self->prefix, what, WF_SPAN_ARGS(name));
    } else {
        self->used[value] = 1;
    }
    return file_problem(self->model, name, status);
}

/* Names, order and use of a body whose given names are in. `output` hands out the body's outputs. */
typedef struct outputs {
    const wf_pb_value_info_t *infos; /* of a graph */
    const wf_span_t *names;          /* of a function */
    size_t count;
} outputs_t;

static wf_status_t check_names(body_t *self, const outputs_t *outputs, bool *out_ok)
{
    WF_TRY(add_outputs(self));
    WF_TRY(add_reads(self));
    WF_TRY(order_nodes(self, out_ok));
    WF_TRY(wf_alloc(self->model->allocator, self->makers.count, sizeof *self->used, &self->used));
    for (size_t i = 0; i < outputs->count; i++) {
        wf_span_t name = outputs->infos != NULL ? outputs->infos[i].name : outputs->names[i];
        WF_TRY(use_output(self, name, outputs->infos != NULL ? "graph output" : "output"));
    }
    mark_unused(self);
    if (*out_ok) {
        permute_nodes(self);
    }
    return WF_OK;
}

static wf_status_t check_function_body(body_t *self, const wf_pb_function_t *function, sizes_t *sizes,
                                       unsigned depth, uint32_t *out_size)
{
    bool ok;
    WF_TRY(check_opsets(self));
    for (size_t i = 0; i < function->input.count; i++) {
        WF_TRY(add_given(self, function->input.items[i], "input"));
    }
    outputs_t outputs = {NULL, function->output.items, function->output.count};
    WF_TRY(check_names(self, &outputs, &ok));
    return check_nodes(self, sizes, depth, out_size);
}

static wf_status_t check_function(wf_onnx_model_t *model, sizes_t *sizes, size_t index, unsigned depth,
                                  uint32_t *out_size)
{
    wf_pb_function_t *function = &model->proto.functions.items[index];
    if (sizes->items[index] != 0) {
        *out_size = sizes->items[index];
        return WF_OK;
    }
    body_t body = {
        .model = model,
        .opsets = {function->opset_import.items, function->opset_import.count, model->proto.ir_version},
        .nodes = function->node.items,
        .node_count = (uint32_t)function->node.count};
    WF_TRY(wf_arena_format(&model->arena, &body.prefix, "function %.*s: ", WF_SPAN_ARGS(function->name)));
    wf_map_init(&body.values, model->allocator);
    sizes->items[index] = NONE;
    wf_status_t status = check_function_body(&body, function, sizes, depth, out_size);
    sizes->items[index] = status == WF_OK ? *out_size : 1;
    body_deinit(&body);
    return status;
}

static wf_status_t list_functions(wf_onnx_model_t *model)
{
    for (size_t i = 0; i < model->proto.functions.count; i++) {
        const wf_pb_function_t *function = &model->proto.functions.items[i];
        char key[WF_ONNX_FUNCTION_KEY_MAX];
        size_t key_bytes;
        uint64_t ignored;
        const char *copy;
        wf_status_t status = WF_OK;
        if (!wf_onnx_function_key(function->domain, function->name, function->overload, key, &key_bytes)) {
            status = WF_ERROR(MODEL_LIMIT, "the names of function %.*s are too long",
                              WF_SPAN_ARGS(function->name));
        } else if (wf_map_get(&model->functions, key, key_bytes, &ignored)) {
            status = WF_ERROR(MODEL_INVALID, "function %.*s is defined twice", WF_SPAN_ARGS(function->name));
        } else {
            WF_TRY(wf_arena_text(&model->arena, key, key_bytes, &copy));
            WF_TRY(wf_map_set(&model->functions, copy, key_bytes, i));
        }
        WF_TRY(file_problem(model, function->name, status));
    }
    return WF_OK;
}

/* ---- The main graph ---- */

static wf_status_t check_ir_version(wf_onnx_model_t *model)
{
    int64_t version = model->proto.ir_version;
    if (version > 0 && version <= WF_ONNX_NEWEST_IR) {
        return WF_OK;
    }
    wf_status_t status =
        WF_ERROR(MODEL_UNSUPPORTED, "file version %lld (ir_version) is not known", (long long)version);
    return file_problem(model, no_name,
                        wf_status_hinted(status, "versions 1 to %d were tested", WF_ONNX_NEWEST_IR));
}

static wf_status_t check_initializers(body_t *self, const wf_pb_graph_t *graph)
{
    wf_onnx_model_t *model = self->model;
    for (size_t i = 0; i < graph->initializer.count; i++) {
        const wf_pb_tensor_t *tensor = &graph->initializer.items[i];
        wf_type_t type;
        bool is_lost = tensor->data_location != 0 && tensor->external == NULL; /* already a problem */
        wf_status_t status = wf_onnx_tensor_type(tensor, &type);
        if (status == WF_OK && !is_lost) {
            status = wf_onnx_tensor_check(tensor, &type);
        }
        WF_TRY(file_problem(model, tensor->name,
                            wf_status_annotated(status, "initializer %.*s", WF_SPAN_ARGS(tensor->name))));
        size_t before = self->makers.count;
        WF_TRY(add_given(self, tensor->name, "initializer"));
        if (self->makers.count > before) {
            WF_TRY(wf_map_set(&model->initializers, (const char *)tensor->name.data, tensor->name.bytes, i));
        }
    }
    if (graph->sparse_initializer.count > 0) {
        const wf_pb_tensor_t *values = graph->sparse_initializer.items[0].values;
        WF_TRY(file_problem(model, values != NULL ? values->name : no_name,
                            WF_ERROR(MODEL_UNSUPPORTED, "sparse initializers are not supported")));
    }
    return WF_OK;
}

static wf_status_t check_ports(body_t *self, const wf_pb_graph_t *graph)
{
    wf_onnx_model_t *model = self->model;
    wf_port_t port;
    wf_status_t refusal;
    for (size_t i = 0; i < graph->input.count; i++) {
        const wf_pb_value_info_t *info = &graph->input.items[i];
        uint64_t ignored;
        /* Files of the first three versions list initializers as inputs too, later ones those that callers
         * may replace. We take the file's value in both cases. */
        if (info->name.bytes > 0 &&
            wf_map_get(&model->initializers, (const char *)info->name.data, info->name.bytes, &ignored)) {
            continue;
        }
        WF_TRY(add_given(self, info->name, "graph input"));
        WF_TRY(wf_onnx_port_read(info, "input", &model->arena, &port, &refusal));
        WF_TRY(file_problem(model, info->name, refusal));
    }
    for (size_t i = 0; i < graph->output.count; i++) {
        const wf_pb_value_info_t *info = &graph->output.items[i];
        const wf_pb_type_t *type = info->type;
        bool says_nothing = type == NULL || type->head.seen == 0 ||
                            (type->head.last == 1 && type->tensor_type->elem_type == 0);
        if (!says_nothing) { /* else it is what the nodes make it */
            WF_TRY(wf_onnx_port_read(info, "output", &model->arena, &port, &refusal));
            WF_TRY(file_problem(model, info->name, refusal));
        }
    }
    if (graph->output.count == 0) {
        WF_TRY(file_problem(model, no_name, WF_ERROR(MODEL_INVALID, "the graph has no outputs")));
    }
    return WF_OK;
}

static wf_status_t check_main(body_t *self, sizes_t *sizes)
{
    const wf_pb_graph_t *graph = self->model->proto.graph;
    uint32_t size;
    bool ok;
    WF_TRY(check_ir_version(self->model));
    WF_TRY(check_opsets(self));
    WF_TRY(list_functions(self->model));
    WF_TRY(check_initializers(self, graph));
    WF_TRY(check_ports(self, graph));
    outputs_t outputs = {graph->output.items, NULL, graph->output.count};
    WF_TRY(check_names(self, &outputs, &ok));
    return check_nodes(self, sizes, 0, &size);
}

wf_status_t wf_onnx_check(wf_onnx_model_t *model)
{
    wf_pb_graph_t *graph = model->proto.graph;
    const wf_pb_model_t *proto = &model->proto;
    sizes_t sizes = {.items = NULL};
    body_t body = {.model = model,
                   .opsets = {proto->opset_import.items, proto->opset_import.count, proto->ir_version},
                   .prefix = "",
                   .nodes = graph->node.items,
                   .node_count = (uint32_t)graph->node.count};
    WF_TRY(wf_alloc(model->allocator, proto->functions.count, sizeof *sizes.items, &sizes.items));
    wf_map_init(&body.values, model->allocator);
    wf_status_t status = check_main(&body, &sizes);
    body_deinit(&body);
    wf_free(model->allocator, sizes.items, proto->functions.count, sizeof *sizes.items);
    return status;
}
