/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/fold.h"

#include <string.h>

#include "base/compiler.h"
#include "graph/internal.h"
#include "ref/ref.h"

enum { SCRATCH_ALIGNMENT_BYTES = 64 };

bool wf_fold_possible(const wf_graph_t *graph, const wf_node_t *node, int64_t *out_input_bytes,
                      int64_t *out_output_bytes)
{
    *out_input_bytes = 0;
    *out_output_bytes = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        wf_tensor_t tensor;
        if (node->inputs[i] == WF_NO_VALUE) {
            continue;
        }
        if (!wf_graph_constant(graph, node->inputs[i], &tensor)) {
            return false;
        }
        *out_input_bytes += WF_MAX(wf_type_bytes(&tensor.type), 0);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == WF_NO_VALUE) {
            continue;
        }
        const wf_value_t *value = wf_graph_value(graph, node->outputs[i]);
        if (!value->type_known || wf_type_bytes(&value->type) < 0) {
            return false;
        }
        *out_output_bytes += wf_type_bytes(&value->type);
    }
    return true;
}

/* Runs the node; `tensors` has room for its inputs and outputs. Output data are made in the arena. */
static wf_status_t compute(wf_graph_t *graph, const wf_node_t *node, const wf_parallel_t *parallel,
                           wf_tensor_t *tensors)
{
    wf_allocator_t allocator = graph->arena.allocator;
    wf_tensor_t *outputs = tensors + node->input_count;
    for (uint32_t i = 0; i < node->input_count; i++) {
        tensors[i] = (wf_tensor_t){.type.dtype = WF_DTYPE_NONE};
        (void)wf_graph_constant(graph, node->inputs[i], &tensors[i]);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        outputs[i] = (wf_tensor_t){.type.dtype = WF_DTYPE_NONE};
        if (node->outputs[i] != WF_NO_VALUE) {
            outputs[i].type = wf_graph_value(graph, node->outputs[i])->type;
            size_t bytes = (size_t)WF_MAX(wf_type_bytes(&outputs[i].type), 1);
            WF_TRY(wf_arena_alloc(&graph->arena, bytes, 1, &outputs[i].data));
        }
    }
    wf_ref_call_t call = {.op = node->op,
                          .attrs = &node->attrs,
                          .input_count = node->input_count,
                          .inputs = tensors,
                          .output_count = node->output_count,
                          .outputs = outputs,
                          .parallel = parallel};
    size_t scratch_bytes;
    WF_TRY(wf_ref_scratch_bytes(&call, &scratch_bytes));
    WF_TRY(wf_alloc_aligned(allocator, scratch_bytes, 1, SCRATCH_ALIGNMENT_BYTES, &call.scratch));
    wf_status_t status = wf_ref_run(&call);
    wf_free_aligned(allocator, call.scratch, scratch_bytes, 1, SCRATCH_ALIGNMENT_BYTES);
    return status;
}

static wf_status_t replace_outputs(wf_graph_t *graph, wf_node_id id, const wf_tensor_t *outputs)
{
    for (uint32_t i = 0; i < wf_graph_node(graph, id)->output_count; i++) {
        wf_value_id output = wf_graph_node(graph, id)->outputs[i];
        if (output != WF_NO_VALUE) {
            WF_TRY(wf_graph_make_constant(graph, output, outputs[i].data));
        }
    }
    wf_graph_remove_node(graph, id);
    return WF_OK;
}

/* The value of a node that needs no kernel: the same bytes with other dims, or an attribute. */
static const void *existing_bytes(const wf_graph_t *graph, const wf_node_t *node)
{
    wf_tensor_t tensor;
    const wf_attr_t *attr = wf_attrs_find(&node->attrs, "value");
    if (node->op == WF_OP_CONSTANT && attr != NULL && attr->kind == WF_ATTR_TENSOR) {
        return attr->v.tensor->data;
    }
    bool view = (wf_op_info(node->op)->flags & WF_OP_FLAG_VIEW) != 0;
    return view && wf_graph_constant(graph, node->inputs[0], &tensor) ? tensor.data : NULL;
}

wf_status_t wf_fold_node(wf_graph_t *graph, wf_node_id id, const wf_parallel_t *parallel, bool *out_folded)
{
    wf_allocator_t allocator = graph->arena.allocator;
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_tensor_t existing = {.data = NULL};
    *out_folded = false;
    const void *bytes = existing_bytes(graph, node);
    if (bytes != NULL) {
        memcpy(&existing.data, &bytes, sizeof bytes); /* read only, whatever the tensor's type says */
        *out_folded = true;
        return replace_outputs(graph, id, &existing);
    }
    wf_dtype_t first = node->input_count > 0 && node->inputs[0] != WF_NO_VALUE
                           ? wf_graph_value(graph, node->inputs[0])->type.dtype
                           : WF_DTYPE_NONE;
    for (uint32_t i = 0; i < node->output_count; i++) {
        /* A kernel may want the type of an output that nobody reads; such nodes are seldom constant. */
        if (node->outputs[i] == WF_NO_VALUE) {
            return WF_OK;
        }
    }
    if (!wf_ref_supports(node->op, first)) {
        return WF_OK;
    }
    size_t count = (size_t)node->input_count + node->output_count;
    uint32_t input_count = node->input_count;
    wf_tensor_t *tensors = NULL;
    WF_TRY(wf_alloc(allocator, count, sizeof *tensors, &tensors));
    wf_status_t status = compute(graph, node, parallel, tensors);
    wf_code_t code = wf_status_code(status);
    if (status == WF_OK) {
        *out_folded = true;
        status = replace_outputs(graph, id, tensors + input_count);
    } else if (code == WF_CODE_RUNTIME_DATA || code == WF_CODE_MODEL_UNSUPPORTED) {
        wf_status_free(status);
        status = WF_OK;
    }
    wf_free(allocator, tensors, count, sizeof *tensors);
    return status;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

wf_status_t wf_fold_type_query(wf_graph_t *graph, wf_node_id id, bool *out_folded)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    *out_folded = false;
    if ((node->op != WF_OP_SHAPE && node->op != WF_OP_SIZE) || node->outputs[0] == WF_NO_VALUE ||
        !wf_graph_value(graph, node->inputs[0])->type_known) {
        return WF_OK;
    }
    wf_type_t type = wf_graph_value(graph, node->inputs[0])->type;
    int64_t *values = NULL;
    WF_TRY(wf_arena_alloc(&graph->arena, WF_MAX_RANK, sizeof *values, &values));
    if (node->op == WF_OP_SIZE) {
        values[0] = wf_type_elems(&type);
    } else {
        int64_t rank = type.rank;
        int64_t start = wf_attrs_int(&node->attrs, "start", 0);
        int64_t end = wf_attrs_int(&node->attrs, "end", rank);
        start = clamp(start < 0 ? start + rank : start, 0, rank);
        end = clamp(end < 0 ? end + rank : end, 0, rank);
        for (int64_t i = start; i < end; i++) {
            values[i - start] = type.dims[i];
        }
    }
    WF_TRY(wf_graph_make_constant(graph, node->outputs[0], values));
    wf_graph_remove_node(graph, id);
    *out_folded = true;
    return WF_OK;
}
