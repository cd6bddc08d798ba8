/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/interpret.h"

#include <string.h>

#include "base/compiler.h"
#include "ref/ref.h"

enum { DATA_ALIGNMENT_BYTES = 64 };

typedef struct interpreter {
    const wf_graph_t *graph;
    wf_allocator_t allocator;
    const wf_interpret_options_t *options;
    void **data;         /* per value: its bytes, owned when the value has a producer */
    uint32_t *uses_left; /* per value; an output counts as one use and so is never freed here */
    void *scratch;
    size_t scratch_bytes;
    wf_tensor_t *tensors; /* inputs, then outputs of the node being run */
    size_t tensor_capacity;
} interpreter_t;

static size_t data_bytes(const wf_type_t *type)
{
    int64_t bytes = wf_type_bytes(type);
    return bytes > 0 ? (size_t)bytes : 1; /* one byte, so that an empty tensor still has a place */
}

static wf_status_t allocate(interpreter_t *self, wf_value_id id)
{
    const wf_value_t *value = wf_graph_value(self->graph, id);
    return wf_alloc_aligned(self->allocator, data_bytes(&value->type), 1, DATA_ALIGNMENT_BYTES,
                            &self->data[id]);
}

static void release(interpreter_t *self, wf_value_id id)
{
    const wf_value_t *value = wf_graph_value(self->graph, id);
    if (value->producer != WF_NO_NODE) {
        wf_free_aligned(self->allocator, self->data[id], data_bytes(&value->type), 1, DATA_ALIGNMENT_BYTES);
        self->data[id] = NULL;
    }
}

static const char *label(const wf_graph_t *graph, const wf_node_t *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE) {
            return wf_graph_value(graph, node->outputs[i])->name;
        }
    }
    return "(no output)";
}

/* Types of outputs that the graph does not want are not stored: inference gives them. */
static wf_status_t infer_outputs(const wf_node_t *node, wf_allocator_t allocator, const wf_tensor_t *inputs,
                                 wf_tensor_t *outputs)
{
    wf_type_t *types = NULL;
    const wf_tensor_t **values = NULL;
    size_t count = (size_t)node->input_count + node->output_count;
    WF_TRY(wf_alloc(allocator, count, sizeof *types, &types));
    wf_status_t status = wf_alloc(allocator, node->input_count, sizeof *values, &values);
    for (uint32_t i = 0; status == WF_OK && i < node->input_count; i++) {
        types[i] = inputs[i].type;
        values[i] = inputs[i].data != NULL ? &inputs[i] : NULL;
    }
    if (status == WF_OK) {
        wf_shape_call_t call = {.op = node->op,
                                .attrs = &node->attrs,
                                .input_count = node->input_count,
                                .inputs = types,
                                .values = values,
                                .output_count = node->output_count,
                                .outputs = types + node->input_count,
                                .needs_value_of = -1};
        status = wf_op_infer(&call);
    }
    for (uint32_t i = 0; status == WF_OK && i < node->output_count; i++) {
        if (node->outputs[i] == WF_NO_VALUE) {
            outputs[i].type = types[node->input_count + i];
        }
    }
    wf_free(allocator, types, count, sizeof *types);
    wf_free(allocator, values, node->input_count, sizeof *values);
    return status;
}

static wf_status_t grow_scratch(interpreter_t *self, size_t bytes)
{
    if (bytes <= self->scratch_bytes) {
        return WF_OK;
    }
    wf_free_aligned(self->allocator, self->scratch, self->scratch_bytes, 1, DATA_ALIGNMENT_BYTES);
    self->scratch_bytes = 0;
    WF_TRY(wf_alloc_aligned(self->allocator, bytes, 1, DATA_ALIGNMENT_BYTES, &self->scratch));
    self->scratch_bytes = bytes;
    return WF_OK;
}

static wf_status_t call_reference(interpreter_t *self, const wf_node_t *node)
{
    const wf_graph_t *graph = self->graph;
    wf_tensor_t *inputs = self->tensors;
    wf_tensor_t *outputs = self->tensors + node->input_count;
    bool unwanted = false;
    size_t scratch_bytes;
    for (uint32_t i = 0; i < node->input_count; i++) {
        inputs[i] = (wf_tensor_t){.type.dtype = WF_DTYPE_NONE};
        if (node->inputs[i] != WF_NO_VALUE) {
            inputs[i] =
                (wf_tensor_t){wf_graph_value(graph, node->inputs[i])->type, self->data[node->inputs[i]]};
        }
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        outputs[i] = (wf_tensor_t){.type.dtype = WF_DTYPE_NONE};
        unwanted = unwanted || node->outputs[i] == WF_NO_VALUE;
        if (node->outputs[i] != WF_NO_VALUE) {
            if (!wf_graph_value(graph, node->outputs[i])->type_known) {
                return WF_ERROR(MODEL_UNSUPPORTED, "its shape depends on values known at run time only");
            }
            WF_TRY(allocate(self, node->outputs[i]));
            outputs[i] =
                (wf_tensor_t){wf_graph_value(graph, node->outputs[i])->type, self->data[node->outputs[i]]};
        }
    }
    if (unwanted) {
        WF_TRY(infer_outputs(node, self->allocator, inputs, outputs));
    }
    if (!wf_ref_supports(node->op, node->input_count > 0 ? inputs[0].type.dtype : WF_DTYPE_NONE)) {
        return WF_ERROR(MODEL_UNSUPPORTED, "no reference kernel for %s", wf_dtype_name(inputs[0].type.dtype));
    }
    wf_ref_call_t call = {.op = node->op,
                          .attrs = &node->attrs,
                          .input_count = node->input_count,
                          .inputs = inputs,
                          .output_count = node->output_count,
                          .outputs = outputs,
                          .parallel = self->options->parallel};
    WF_TRY(wf_ref_scratch_bytes(&call, &scratch_bytes));
    WF_TRY(grow_scratch(self, scratch_bytes));
    call.scratch = self->scratch;
    return wf_ref_run(&call);
}

static wf_status_t run_node(interpreter_t *self, const wf_node_t *node)
{
    const wf_graph_t *graph = self->graph;
    wf_status_t status = call_reference(self, node);
    WF_TRY(wf_status_annotated(status, "node %s (%s)", label(graph, node), wf_op_info(node->op)->onnx_name));
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] != WF_NO_VALUE && --self->uses_left[node->inputs[i]] == 0) {
            release(self, node->inputs[i]);
        }
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE && self->uses_left[node->outputs[i]] == 0) {
            release(self, node->outputs[i]);
        }
    }
    return WF_OK;
}

static wf_status_t run_nodes(interpreter_t *self)
{
    const wf_graph_t *graph = self->graph;
    const wf_interpret_options_t *options = self->options;
    for (size_t i = 0; i < graph->order.count; i++) {
        if (options->cancel != NULL && atomic_load_explicit(options->cancel, memory_order_relaxed)) {
            return WF_ERROR(INTERRUPTED, "reference run was cancelled");
        }
        if (options->progress != NULL) {
            options->progress(options->progress_self, i, graph->order.count);
        }
        WF_TRY(run_node(self, wf_graph_node(graph, graph->order.items[i])));
    }
    return WF_OK;
}

/* Outputs that nothing makes (an input or a constant handed through) are copied; the others change owner. */
static wf_status_t take_outputs(interpreter_t *self, wf_tensor_t *outputs)
{
    const wf_graph_t *graph = self->graph;
    for (size_t i = 0; i < graph->outputs.count; i++) {
        wf_value_id id = graph->outputs.items[i];
        const wf_value_t *value = wf_graph_value(graph, id);
        if (value->producer == WF_NO_NODE) {
            const void *source = self->data[id];
            WF_TRY(allocate(self, id));
            memcpy(self->data[id], source, (size_t)wf_type_bytes(&value->type));
        }
        outputs[i] = (wf_tensor_t){value->type, self->data[id]};
        self->data[id] = NULL;
    }
    return WF_OK;
}

static wf_status_t prepare(interpreter_t *self, const wf_tensor_t *inputs)
{
    const wf_graph_t *graph = self->graph;
    WF_TRY(wf_alloc(self->allocator, graph->values.count, sizeof *self->data, &self->data));
    WF_TRY(wf_alloc(self->allocator, graph->values.count, sizeof *self->uses_left, &self->uses_left));
    for (size_t i = 0; i < graph->values.count; i++) {
        wf_tensor_t constant;
        self->uses_left[i] = graph->values.items[i].use_count;
        if (wf_graph_constant(graph, (wf_value_id)i, &constant)) {
            self->data[i] = constant.data;
        }
    }
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const wf_value_t *input = wf_graph_value(graph, graph->inputs.items[i]);
        if (!input->type_known || !wf_type_equal(&input->type, &inputs[i].type)) {
            return WF_ERROR(INPUT_MISMATCH, "input %s has another type than the graph's", input->name);
        }
        self->data[graph->inputs.items[i]] = inputs[i].data;
    }
    for (size_t i = 0; i < graph->order.count; i++) {
        const wf_node_t *node = wf_graph_node(graph, graph->order.items[i]);
        self->tensor_capacity = WF_MAX(self->tensor_capacity, (size_t)node->input_count + node->output_count);
    }
    return wf_alloc(self->allocator, self->tensor_capacity, sizeof *self->tensors, &self->tensors);
}

wf_status_t wf_interpret(const wf_graph_t *graph, const wf_tensor_t *inputs, wf_allocator_t allocator,
                         const wf_interpret_options_t *options, wf_tensor_t *outputs)
{
    static const wf_interpret_options_t none = {0};
    interpreter_t self = {
        .graph = graph, .allocator = allocator, .options = options != NULL ? options : &none};
    for (size_t i = 0; i < graph->outputs.count; i++) {
        outputs[i] = (wf_tensor_t){.type.dtype = WF_DTYPE_NONE};
    }
    wf_status_t status = prepare(&self, inputs);
    if (status == WF_OK) {
        status = run_nodes(&self);
    }
    if (status == WF_OK) {
        status = take_outputs(&self, outputs);
    }
    if (status != WF_OK) {
        wf_interpret_free(allocator, outputs, graph->outputs.count);
    }
    for (size_t i = 0; self.data != NULL && i < graph->values.count; i++) {
        release(&self, (wf_value_id)i);
    }
    wf_free(allocator, self.data, graph->values.count, sizeof *self.data);
    wf_free(allocator, self.uses_left, graph->values.count, sizeof *self.uses_left);
    wf_free(allocator, self.tensors, self.tensor_capacity, sizeof *self.tensors);
    wf_free_aligned(allocator, self.scratch, self.scratch_bytes, 1, DATA_ALIGNMENT_BYTES);
    return status;
}

void wf_interpret_free(wf_allocator_t allocator, wf_tensor_t *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].data != NULL) {
            wf_free_aligned(allocator, tensors[i].data, data_bytes(&tensors[i].type), 1,
                            DATA_ALIGNMENT_BYTES);
        }
        tensors[i] = (wf_tensor_t){.type.dtype = WF_DTYPE_NONE};
    }
}

wf_status_t wf_interpret_peak_bytes(const wf_graph_t *graph, wf_allocator_t allocator, size_t *out_bytes)
{
    uint32_t *uses_left = NULL;
    size_t live_bytes = 0;
    size_t peak_bytes = 0;
    WF_TRY(wf_alloc(allocator, graph->values.count, sizeof *uses_left, &uses_left));
    for (size_t i = 0; i < graph->values.count; i++) {
        uses_left[i] = graph->values.items[i].use_count;
    }
    for (size_t i = 0; i < graph->order.count; i++) {
        const wf_node_t *node = wf_graph_node(graph, graph->order.items[i]);
        for (uint32_t j = 0; j < node->output_count; j++) {
            if (node->outputs[j] != WF_NO_VALUE) {
                live_bytes += data_bytes(&wf_graph_value(graph, node->outputs[j])->type);
            }
        }
        peak_bytes = WF_MAX(peak_bytes, live_bytes);
        for (uint32_t j = 0; j < node->input_count; j++) {
            wf_value_id input = node->inputs[j];
            if (input != WF_NO_VALUE && --uses_left[input] == 0 &&
                wf_graph_value(graph, input)->producer != WF_NO_NODE) {
                live_bytes -= data_bytes(&wf_graph_value(graph, input)->type);
            }
        }
        for (uint32_t j = 0; j < node->output_count; j++) {
            if (node->outputs[j] != WF_NO_VALUE && uses_left[node->outputs[j]] == 0) {
                live_bytes -= data_bytes(&wf_graph_value(graph, node->outputs[j])->type);
            }
        }
    }
    wf_free(allocator, uses_left, graph->values.count, sizeof *uses_left);
    *out_bytes = peak_bytes;
    return WF_OK;
}
