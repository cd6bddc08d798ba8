/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow that is decided while importing: the taken branch of an If, the steps of a Loop or a Scan one
 * after the other. What depends on run-time values is refused, except small branches of an If: both are
 * computed and the condition picks, value by value. */
#include <math.h>

#include "base/compiler.h"
#include "graph/match.h"
#include "onnx/import.h"

#define FIX_HINT \
    "fix the value of the input that decides it (--value NAME=NUMBER), or export the part that is wanted"

/* ---- Bodies ---- */

/* One run of a body. */
typedef struct run {
    const wf_pb_graph_t *graph;
    const wf_value_id *inputs; /* one per input of the graph */
    size_t input_count;
    size_t output_count; /* that the body has to have */
    const char *label;
    const char *const *result_names; /* as in wf_scope_t */
    wf_value_id *results;
} run_t;

static wf_status_t fill_body(wf_importer_t *self, wf_scope_t *caller, wf_scope_t *scope, const run_t *run)
{
    const wf_pb_graph_t *graph = run->graph;
    wf_span_t *results;
    scope->outer = caller;
    scope->opsets = caller->opsets;
    scope->arguments = caller->arguments;
    scope->argument_count = caller->argument_count;
    if (graph->output.count != run->output_count || graph->input.count != run->input_count ||
        graph->sparse_initializer.count != 0) {
        return WF_ERROR(MODEL_INVALID, "its body has %zu inputs and %zu outputs", graph->input.count,
                        graph->output.count);
    }
    for (size_t i = 0; i < graph->initializer.count; i++) {
        const wf_pb_tensor_t *tensor = &graph->initializer.items[i];
        wf_value_id value;
        WF_TRY(wf_onnx_name_check(tensor->name, "an initializer"));
        WF_TRY(wf_import_constant(self, tensor, scope->prefix, &scope->scratch, &value));
        WF_TRY(wf_scope_set(scope, tensor->name, value));
    }
    for (size_t i = 0; i < run->input_count; i++) {
        WF_TRY(wf_onnx_name_check(graph->input.items[i].name, "an input"));
        WF_TRY(wf_scope_set(scope, graph->input.items[i].name, run->inputs[i]));
    }
    WF_TRY(wf_arena_alloc(&caller->scratch, graph->output.count, sizeof *results, &results));
    for (size_t i = 0; i < graph->output.count; i++) {
        results[i] = graph->output.items[i].name;
    }
    scope->results = results;
    scope->result_names = run->result_names;
    scope->result_count = graph->output.count;
    return wf_import_body(self, scope, graph->node.items, graph->node.count, run->results);
}

static wf_status_t run_body(wf_importer_t *self, wf_scope_t *caller, const run_t *run)
{
    wf_scope_t scope;
    wf_status_t status = wf_scope_init(self, &scope, caller, run->label);
    if (status == WF_OK) {
        status = fill_body(self, caller, &scope, run);
    }
    wf_scope_deinit(&scope);
    return status;
}

static wf_status_t find_body(const wf_scope_t *scope, const wf_pb_node_t *node, const char *name,
                             const wf_pb_graph_t **out_graph)
{
    const wf_pb_attribute_t *attribute = wf_scope_attribute(scope, node, name);
    if (attribute == NULL || attribute->g == NULL) {
        return WF_ERROR(MODEL_INVALID, "attribute %s is missing", name);
    }
    *out_graph = attribute->g;
    return WF_OK;
}

/* ---- If ---- */

static wf_status_t run_branch(wf_importer_t *self, wf_scope_t *scope, const wf_call_t *call,
                              const char *branch, const char *label, const char *const *names,
                              wf_value_id *results)
{
    run_t run = {
        .output_count = call->node->output.count, .label = label, .result_names = names, .results = results};
    WF_TRY(find_body(scope, call->node, branch, &run.graph));
    return run_body(self, scope, &run);
}

/* A branch under names of its own, for a condition that is not known. */
static wf_status_t run_either(wf_importer_t *self, wf_scope_t *scope, const wf_call_t *call,
                              const char *branch, wf_value_id **out_results)
{
    size_t count = call->node->output.count;
    uint64_t before = self->node_count;
    const char **names, *label;
    wf_value_id *results;
    WF_TRY(wf_arena_alloc(&scope->scratch, count, sizeof *names, &names));
    WF_TRY(wf_arena_alloc(&scope->scratch, count, sizeof *results, &results));
    WF_TRY(wf_arena_format(&scope->scratch, &label, "%s/%s", call->label, branch));
    for (size_t i = 0; i < count; i++) {
        results[i] = WF_NO_VALUE;
        if (call->output_names[i] != NULL) {
            WF_TRY(wf_arena_format(&scope->scratch, &names[i], "%s/%s", call->output_names[i], branch));
        }
    }
    WF_TRY(wf_status_hinted(
        run_branch(self, scope, call, branch, label, names, results),
        "the condition depends on run-time values, so both branches are compiled: " FIX_HINT));
    if (self->node_count - before > WF_ONNX_MAX_BRANCH_NODES) {
        return wf_status_hinted(
            WF_ERROR(MODEL_UNSUPPORTED,
                     "its condition depends on run-time values, and %s has more than %d nodes", branch,
                     WF_ONNX_MAX_BRANCH_NODES),
            FIX_HINT);
    }
    *out_results = results;
    return WF_OK;
}

static wf_status_t select_result(wf_importer_t *self, const wf_call_t *call, size_t index,
                                 wf_value_id condition, wf_value_id then_value, wf_value_id else_value)
{
    wf_graph_t *graph = self->graph;
    const wf_value_t *a = wf_graph_value(graph, then_value);
    const wf_value_t *b = wf_graph_value(graph, else_value);
    if (then_value == else_value) {
        call->results[index] = then_value;
        return WF_OK;
    }
    if (!a->type_known || !b->type_known || !wf_type_equal(&a->type, &b->type)) {
        return wf_status_hinted(WF_ERROR(MODEL_UNSUPPORTED,
                                         "its condition depends on run-time values, and its "
                                         "branches give different shapes"),
                                FIX_HINT);
    }
    wf_value_id inputs[3] = {condition, then_value, else_value};
    wf_node_spec_t spec = {
        .op = WF_OP_WHERE, .inputs = inputs, .input_count = 3, .onnx_names = call->onnx_names};
    return wf_emit(graph, &spec, call->output_names[index], &call->results[index]);
}

/* The value without its dims of 1. */
static wf_status_t as_scalar(wf_importer_t *self, wf_scope_t *scope, const wf_call_t *call,
                             wf_value_id *value)
{
    wf_attr_t shape = wf_attr_ints("shape", NULL, 0);
    wf_value_id inputs[2] = {*value, WF_NO_VALUE};
    const char *name;
    wf_node_spec_t spec = {.op = WF_OP_RESHAPE,
                           .attrs = &shape,
                           .attr_count = 1,
                           .inputs = inputs,
                           .input_count = 2,
                           .onnx_names = call->onnx_names};
    if (wf_graph_value(self->graph, *value)->type.rank == 0) {
        return WF_OK;
    }
    WF_TRY(wf_arena_format(&scope->scratch, &name, "%s/condition", call->label));
    return wf_emit(self->graph, &spec, name, value);
}

/* Right as long as both branches give the same shapes; what would fail in the branch that is not taken fails
 * all the same. */
static wf_status_t make_select(wf_importer_t *self, wf_scope_t *scope, const wf_call_t *call)
{
    wf_value_id condition = call->inputs[0];
    wf_value_id *then_results, *else_results;
    WF_TRY(run_either(self, scope, call, "then_branch", &then_results));
    WF_TRY(run_either(self, scope, call, "else_branch", &else_results));
    WF_TRY(as_scalar(self, scope, call, &condition));
    for (size_t i = 0; i < call->node->output.count; i++) {
        if (call->output_names[i] != NULL) {
            WF_TRY(select_result(self, call, i, condition, then_results[i], else_results[i]));
        }
    }
    return WF_OK;
}

/* A boolean that is known while importing; *out_known is false when it is not. MODEL_INVALID when it is none.
 */
static wf_status_t read_condition(const wf_importer_t *self, wf_value_id id, bool *out_known, bool *out_value)
{
    wf_tensor_t tensor;
    const wf_value_t *value = wf_graph_value(self->graph, id);
    *out_known = false;
    if (value->type_known && (value->type.dtype != WF_DTYPE_BOOL || wf_type_elems(&value->type) != 1)) {
        return WF_ERROR(MODEL_INVALID, "its condition is not one boolean");
    }
    if (wf_graph_constant(self->graph, id, &tensor)) {
        *out_known = true;
        *out_value = *(const uint8_t *)tensor.data != 0;
    }
    return WF_OK;
}

static wf_status_t make_if(wf_importer_t *self, wf_scope_t *scope, const wf_call_t *call)
{
    bool known, taken;
    if (call->node->input.count != 1 || call->inputs[0] == WF_NO_VALUE) {
        return WF_ERROR(MODEL_INVALID, "it needs one input, the condition");
    }
    WF_TRY(read_condition(self, call->inputs[0], &known, &taken));
    if (known) {
        return run_branch(self, scope, call, taken ? "then_branch" : "else_branch", call->label,
                          call->output_names, call->results);
    }
    return wf_graph_value(self->graph, call->inputs[0])->type_known
               ? make_select(self, scope, call)
               : WF_ERROR(MODEL_UNSUPPORTED, "the shape of its condition depends on run-time values");
}

/* ---- Loop and Scan ---- */

/* Steps one after the other: `state` goes from one to the next, `stacked` values are collected. */
typedef struct unrolling {
    wf_importer_t *importer;
    wf_scope_t *scope;
    const wf_call_t *call;
    const wf_pb_graph_t *body;
    size_t state_count, stacked_count;
    size_t first_state;          /* among the body's inputs */
    size_t first_result;         /* of the body that is a state */
    wf_value_id *inputs;         /* of the body */
    wf_value_id *results;        /* of the body */
    WF_VEC(wf_value_id) stacked; /* step by step */
    uint64_t nodes_before;
} unrolling_t;

static wf_status_t unrolling_init(unrolling_t *self, size_t body_inputs, size_t body_outputs)
{
    wf_arena_t *scratch = &self->scope->scratch;
    if (self->body->input.count != body_inputs || self->body->output.count != body_outputs) {
        return WF_ERROR(MODEL_INVALID, "its body has %zu inputs and %zu outputs, not %zu and %zu",
                        self->body->input.count, self->body->output.count, body_inputs, body_outputs);
    }
    self->nodes_before = self->importer->node_count;
    WF_TRY(wf_arena_alloc(scratch, body_inputs, sizeof *self->inputs, &self->inputs));
    return wf_arena_alloc(scratch, body_outputs, sizeof *self->results, &self->results);
}

static wf_status_t run_step(unrolling_t *self, int64_t step)
{
    wf_importer_t *importer = self->importer;
    run_t run = {.graph = self->body,
                 .inputs = self->inputs,
                 .input_count = self->body->input.count,
                 .output_count = self->body->output.count,
                 .results = self->results};
    WF_TRY(wf_arena_format(&self->scope->scratch, &run.label, "%s/%lld", self->call->label, (long long)step));
    WF_TRY(wf_import_count(importer));
    if (importer->node_count - self->nodes_before > WF_ONNX_MAX_UNROLLED_NODES) {
        return WF_ERROR(MODEL_LIMIT, "it has more than %d nodes when it is unrolled",
                        WF_ONNX_MAX_UNROLLED_NODES);
    }
    WF_TRY(run_body(importer, self->scope, &run));
    for (size_t i = 0; i < self->state_count; i++) {
        self->inputs[self->first_state + i] = self->results[self->first_result + i];
    }
    for (size_t i = 0; i < self->stacked_count; i++) {
        wf_value_id value = self->results[self->first_result + self->state_count + i];
        WF_TRY(wf_vec_push(importer->graph->arena.allocator, &self->stacked, &value));
    }
    return WF_OK;
}

/* One node of the given operator with an axis, named "label/..." or as given. */
static wf_status_t emit(unrolling_t *self, const wf_node_spec_t *spec, const char *name,
                        wf_value_id *out_value)
{
    wf_node_spec_t full = *spec;
    const char *inner;
    full.onnx_names = self->call->onnx_names;
    WF_TRY(wf_arena_format(&self->scope->scratch, &inner, "%s/%s", self->call->label,
                           wf_op_info(spec->op)->problem_name));
    WF_TRY(wf_emit(self->importer->graph, &full, name != NULL ? name : inner, out_value));
    return wf_up_fold_last(self->importer->graph);
}

/* Values of all steps side by side along a new axis. */
static wf_status_t stack(unrolling_t *self, size_t index, int64_t axis, bool reversed)
{
    const wf_call_t *call = self->call;
    size_t output = self->state_count + index;
    size_t steps = self->stacked_count > 0 ? self->stacked.count / self->stacked_count : 0;
    wf_value_id *parts;
    if (output >= call->node->output.count || call->output_names[output] == NULL) {
        return WF_OK;
    }
    if (steps == 0) {
        return WF_ERROR(MODEL_UNSUPPORTED, "it has no steps, so the shape of output %zu is not known",
                        output);
    }
    WF_TRY(wf_arena_alloc(&self->scope->scratch, steps, sizeof *parts, &parts));
    const wf_value_t *first = wf_graph_value(self->importer->graph, self->stacked.items[index]);
    if (!first->type_known) {
        return WF_ERROR(MODEL_UNSUPPORTED, "the shape of output %zu depends on run-time values", output);
    }
    axis += axis < 0 ? (int64_t)first->type.rank + 1 : 0;
    wf_attr_t axes = wf_attr_ints("axes", &axis, 1), along = wf_attr_int("axis", axis);
    for (size_t i = 0; i < steps; i++) {
        size_t step = reversed ? steps - 1 - i : i;
        wf_value_id inputs[2] = {self->stacked.items[step * self->stacked_count + index], WF_NO_VALUE};
        WF_TRY(emit(
            self,
            &(wf_node_spec_t){
                .op = WF_OP_UNSQUEEZE, .attrs = &axes, .attr_count = 1, .inputs = inputs, .input_count = 2},
            NULL, &parts[i]));
    }
    return emit(
        self,
        &(wf_node_spec_t){
            .op = WF_OP_CONCAT, .attrs = &along, .attr_count = 1, .inputs = parts, .input_count = steps},
        call->output_names[output], &call->results[output]);
}

static void take_state(const unrolling_t *self)
{
    for (size_t i = 0; i < self->state_count && i < self->call->node->output.count; i++) {
        self->call->results[i] = self->inputs[self->first_state + i];
    }
}

static wf_status_t emit_int(unrolling_t *self, int64_t value, wf_value_id *out_value)
{
    wf_tensor_t tensor;
    const char *name;
    WF_TRY(wf_arena_format(&self->scope->scratch, &name, "%s/step", self->call->label));
    WF_TRY(wf_emit_constant(self->importer->graph, name, &(wf_type_t){.dtype = WF_DTYPE_I64}, &tensor,
                            out_value));
    memcpy(tensor.data, &value, sizeof value);
    return WF_OK;
}

/* Inputs: number of steps, condition, states. Body: step, condition, states to condition, states, values to
 * stack. */
static wf_status_t loop(unrolling_t *self)
{
    const wf_call_t *call = self->call;
    size_t inputs = call->node->input.count;
    double limit = INFINITY;
    bool known = true, goes_on = true;
    self->state_count = inputs - 2;
    self->first_state = 2;
    self->first_result = 1;
    self->stacked_count =
        self->body->output.count - 1 - WF_MIN(self->state_count, self->body->output.count - 1);
    WF_TRY(unrolling_init(self, inputs, 1 + self->state_count + self->stacked_count));
    if (call->inputs[0] != WF_NO_VALUE && !wf_graph_scalar(self->importer->graph, call->inputs[0], &limit)) {
        return wf_status_hinted(WF_ERROR(MODEL_UNSUPPORTED, "its number of steps depends on run-time values"),
                                FIX_HINT);
    }
    self->inputs[1] = call->inputs[1];
    memcpy(self->inputs + 2, call->inputs + 2, self->state_count * sizeof *self->inputs);
    if (self->inputs[1] != WF_NO_VALUE) {
        WF_TRY(read_condition(self->importer, self->inputs[1], &known, &goes_on));
    }
    for (int64_t step = 0; known && goes_on && (double)step < limit; step++) {
        WF_TRY(emit_int(self, step, &self->inputs[0]));
        if (self->inputs[1] == WF_NO_VALUE) { /* no condition means true */
            wf_tensor_t tensor;
            const char *name;
            WF_TRY(wf_arena_format(&self->scope->scratch, &name, "%s/condition", call->label));
            WF_TRY(wf_emit_constant(self->importer->graph, name, &(wf_type_t){.dtype = WF_DTYPE_BOOL},
                                    &tensor, &self->inputs[1]));
            *(uint8_t *)tensor.data = 1;
        }
        WF_TRY(run_step(self, step));
        self->inputs[1] = self->results[0];
        WF_TRY(read_condition(self->importer, self->inputs[1], &known, &goes_on));
    }
    if (!known) {
        return wf_status_hinted(WF_ERROR(MODEL_UNSUPPORTED, "its condition depends on run-time values"),
                                FIX_HINT);
    }
    for (size_t i = 0; i < self->stacked_count; i++) {
        WF_TRY(stack(self, i, 0, false));
    }
    take_state(self);
    return WF_OK;
}

/* An attribute with one number per scanned value; zeros when it is not there. */
static wf_status_t read_list(const unrolling_t *self, const char *name, size_t count,
                             const int64_t **out_values)
{
    const wf_pb_attribute_t *attribute = wf_scope_attribute(self->scope, self->call->node, name);
    wf_attr_t attr;
    if (attribute == NULL) {
        int64_t *zeros;
        WF_TRY(wf_arena_alloc(&self->scope->scratch, count, sizeof *zeros, &zeros));
        *out_values = zeros;
        return WF_OK;
    }
    WF_TRY(wf_onnx_attr_read(attribute, attribute->name, &self->scope->scratch, &attr));
    if (attr.kind != WF_ATTR_INTS || attr.count != count) {
        return WF_ERROR(MODEL_INVALID, "attribute %s has not %zu integers", name, count);
    }
    *out_values = attr.v.ints;
    return WF_OK;
}

/* Inputs: states, values to scan. Body: states, elements to states, values to stack. */
static wf_status_t scan(unrolling_t *self)
{
    const wf_call_t *call = self->call;
    wf_graph_t *graph = self->importer->graph;
    const wf_pb_attribute_t *attribute = wf_scope_attribute(self->scope, call->node, "num_scan_inputs");
    size_t inputs = call->node->input.count;
    const int64_t *axes, *directions, *out_axes, *out_directions;
    if (call->meaning.opset < 9) {
        return WF_ERROR(MODEL_UNSUPPORTED, "Scan of operator set 8 is not supported");
    }
    if (attribute == NULL || attribute->i <= 0 || (uint64_t)attribute->i > inputs) {
        return WF_ERROR(MODEL_INVALID, "attribute num_scan_inputs is missing or not possible");
    }
    size_t scanned = (size_t)attribute->i;
    self->state_count = inputs - scanned;
    self->stacked_count = self->body->output.count - WF_MIN(self->state_count, self->body->output.count);
    WF_TRY(unrolling_init(self, inputs, self->state_count + self->stacked_count));
    WF_TRY(read_list(self, "scan_input_axes", scanned, &axes));
    WF_TRY(read_list(self, "scan_input_directions", scanned, &directions));
    WF_TRY(read_list(self, "scan_output_axes", self->stacked_count, &out_axes));
    WF_TRY(read_list(self, "scan_output_directions", self->stacked_count, &out_directions));
    int64_t *axis_of, steps = -1;
    WF_TRY(wf_arena_alloc(&self->scope->scratch, scanned, sizeof *axis_of, &axis_of));
    for (size_t i = 0; i < scanned; i++) {
        wf_value_id id = call->inputs[self->state_count + i];
        const wf_value_t *value = id != WF_NO_VALUE ? wf_graph_value(graph, id) : NULL;
        if (value == NULL || !value->type_known) {
            return WF_ERROR(MODEL_UNSUPPORTED, "the shape of scanned input %zu depends on run-time values",
                            i);
        }
        axis_of[i] = axes[i] + (axes[i] < 0 ? (int64_t)value->type.rank : 0);
        if (axis_of[i] < 0 || axis_of[i] >= value->type.rank ||
            (steps >= 0 && value->type.dims[axis_of[i]] != steps)) {
            return WF_ERROR(MODEL_INVALID, "scanned input %zu has another length or no axis %lld", i,
                            (long long)axes[i]);
        }
        steps = value->type.dims[axis_of[i]];
    }
    memcpy(self->inputs, call->inputs, self->state_count * sizeof *self->inputs);
    for (int64_t step = 0; step < steps; step++) {
        for (size_t i = 0; i < scanned; i++) {
            wf_attr_t axis = wf_attr_int("axis", axis_of[i]);
            wf_value_id operands[2] = {call->inputs[self->state_count + i], WF_NO_VALUE};
            WF_TRY(emit_int(self, directions[i] != 0 ? steps - 1 - step : step, &operands[1]));
            WF_TRY(emit(self,
                        &(wf_node_spec_t){.op = WF_OP_GATHER,
                                          .attrs = &axis,
                                          .attr_count = 1,
                                          .inputs = operands,
                                          .input_count = 2},
                        NULL, &self->inputs[self->state_count + i]));
        }
        WF_TRY(run_step(self, step));
    }
    for (size_t i = 0; i < self->stacked_count; i++) {
        WF_TRY(stack(self, i, out_axes[i], out_directions[i] != 0));
    }
    take_state(self);
    return WF_OK;
}

static wf_status_t make_steps(wf_importer_t *importer, wf_scope_t *scope, const wf_call_t *call, bool is_loop)
{
    unrolling_t self = {.importer = importer, .scope = scope, .call = call};
    WF_TRY(find_body(scope, call->node, "body", &self.body));
    if ((is_loop && call->node->input.count < 2) || self.body->output.count < (is_loop ? 1 : 0)) {
        return WF_ERROR(MODEL_INVALID, "inputs or outputs are missing");
    }
    wf_status_t status = is_loop ? loop(&self) : scan(&self);
    wf_vec_deinit(importer->graph->arena.allocator, &self.stacked);
    return status;
}

wf_status_t wf_import_flow(wf_importer_t *self, wf_scope_t *scope, const wf_call_t *call)
{
    wf_span_t name = call->node->op_type;
    return wf_span_equal(name, "If") ? make_if(self, scope, call)
                                     : make_steps(self, scope, call, wf_span_equal(name, "Loop"));
}
