/* SPDX-License-Identifier: Apache-2.0 */
/* sink_reshapes: an elementwise operator on a Reshape becomes the operator on what the Reshape read, and the
 * Reshape of the result. So activations and biases meet the products they belong to, and Reshapes meet and
 * cancel. Every operand must come from a Reshape of the same dims for this alone, be a single element, or be
 * a constant that can be given the other dims without growing much. */
#include <string.h>

#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

enum { MAX_INPUTS = 8 };
/* A constant that is repeated for the other dims may take this much, or its own size a few times (masks of
 * windows, for each image of a batch). A scale per channel must not become one per pixel. */
#define REPEATED_BYTES ((int64_t)64 << 10)
enum { MAX_REPEATS = 8 };

/* ---- Dims that belong together ---- */

/* The dims of a Reshape fall into groups of equal products: a[first_a .. end_a) and b[first_b .. end_b). */
typedef struct groups {
    uint32_t count;
    uint32_t end_a[WF_MAX_RANK + 1], end_b[WF_MAX_RANK + 1];
} groups_t;

static bool match_groups(const wf_type_t *a, const wf_type_t *b, groups_t *out)
{
    uint32_t i = 0;
    uint32_t j = 0;
    out->count = 0;
    while (i < a->rank || j < b->rank) {
        int64_t product_a = i < a->rank ? a->dims[i++] : 1;
        int64_t product_b = j < b->rank ? b->dims[j++] : 1;
        while (product_a != product_b) {
            if (product_a < product_b && i < a->rank) {
                product_a *= a->dims[i++];
            } else if (product_b < product_a && j < b->rank) {
                product_b *= b->dims[j++];
            } else {
                return false;
            }
        }
        if (product_a == 0) {
            return false;
        }
        out->end_a[out->count] = i;
        out->end_b[out->count++] = j;
    }
    return true;
}

/* Types of the constant on the way: given ones in front, repeated where it varies within a group, and with
 * dims of a. */
static void constant_types(const wf_type_t *constant, const wf_type_t *a, const wf_type_t *b,
                           const groups_t *groups, wf_type_t *out_repeated, wf_type_t *out_result)
{
    *out_repeated = (wf_type_t){.dtype = constant->dtype, .rank = b->rank};
    *out_result = (wf_type_t){.dtype = constant->dtype, .rank = a->rank};
    uint32_t missing = b->rank - constant->rank;
    uint32_t first_a = 0;
    uint32_t first_b = 0;
    for (uint32_t g = 0; g < groups->count; g++) {
        bool varies = false;
        for (uint32_t j = first_b; j < groups->end_b[g]; j++) {
            varies = varies || (j >= missing && constant->dims[j - missing] != 1);
        }
        for (uint32_t j = first_b; j < groups->end_b[g]; j++) {
            out_repeated->dims[j] = varies ? b->dims[j] : 1;
        }
        for (uint32_t i = first_a; i < groups->end_a[g]; i++) {
            out_result->dims[i] = varies ? a->dims[i] : 1;
        }
        first_a = groups->end_a[g];
        first_b = groups->end_b[g];
    }
}

/* ---- Operands ---- */

typedef struct sinking {
    wf_type_t from, to; /* dims before and after the Reshapes; the types of elements do not matter */
    groups_t groups;
} sinking_t;

static bool same_dims(const wf_type_t *a, const wf_type_t *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

static const wf_node_t *match_reshape(const wf_graph_t *graph, wf_value_id value)
{
    const wf_node_t *reshape = wf_match_inner(graph, value, WF_OP_RESHAPE);
    return reshape != NULL && wf_node_input(reshape, 1) == WF_NO_VALUE ? reshape : NULL;
}

static bool is_movable_constant(const wf_graph_t *graph, wf_value_id value, const sinking_t *sinking)
{
    wf_tensor_t tensor;
    wf_type_t repeated, result;
    if (!wf_graph_constant(graph, value, &tensor) || tensor.type.rank > sinking->to.rank ||
        wf_dtype_bits(tensor.type.dtype) % 8 != 0 || wf_dtype_bits(tensor.type.dtype) == 0) {
        return false;
    }
    constant_types(&tensor.type, &sinking->from, &sinking->to, &sinking->groups, &repeated, &result);
    int64_t bytes = wf_type_bytes(&repeated);
    return bytes >= 0 && (bytes <= REPEATED_BYTES || bytes / MAX_REPEATS <= wf_type_bytes(&tensor.type));
}

static bool match(const wf_graph_t *graph, const wf_node_t *node, sinking_t *sinking)
{
    bool found = false;
    if (!(wf_op_info(node->op)->flags & WF_OP_FLAG_EW) || node->output_count != 1 ||
        node->input_count > MAX_INPUTS) {
        return false;
    }
    sinking->to = *wf_value_type(graph, node->outputs[0]);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const wf_node_t *reshape =
            node->inputs[i] != WF_NO_VALUE ? match_reshape(graph, node->inputs[i]) : NULL;
        if (reshape == NULL) {
            continue;
        }
        const wf_type_t *from = wf_value_type(graph, reshape->inputs[0]);
        if (!same_dims(wf_value_type(graph, node->inputs[i]), &sinking->to) ||
            (found && !same_dims(from, &sinking->from))) {
            return false;
        }
        sinking->from = *from;
        found = true;
    }
    if (!found || !match_groups(&sinking->from, &sinking->to, &sinking->groups)) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        wf_value_id input = node->inputs[i];
        bool movable = input == WF_NO_VALUE || match_reshape(graph, input) != NULL ||
                       (wf_type_elems(wf_value_type(graph, input)) == 1 &&
                        wf_value_type(graph, input)->rank <= sinking->from.rank) ||
                       is_movable_constant(graph, input, sinking);
        if (!movable) {
            return false;
        }
    }
    return true;
}

/* ---- Rewriting ---- */

/* Element of the constant that stands at index `at` of the repeated type. */
static int64_t source_index(const wf_type_t *constant, const wf_type_t *repeated, int64_t at)
{
    int64_t index = 0;
    int64_t stride = 1;
    for (uint32_t i = 0; i < constant->rank; i++) {
        int64_t dim = repeated->dims[repeated->rank - 1 - i];
        int64_t own = constant->dims[constant->rank - 1 - i];
        index += own == 1 ? 0 : at % dim * stride;
        stride *= own;
        at /= dim;
    }
    return index;
}

static wf_status_t move_constant(wf_graph_t *graph, wf_value_id value, const sinking_t *sinking,
                                 wf_value_id *out_value)
{
    wf_tensor_t from, to;
    wf_type_t repeated, result;
    (void)wf_graph_constant(graph, value, &from);
    constant_types(&from.type, &sinking->from, &sinking->to, &sinking->groups, &repeated, &result);
    uint32_t ones = 0;
    while (ones < result.rank && result.dims[ones] == 1) { /* leading ones say nothing */
        ones++;
    }
    for (uint32_t i = ones; i < result.rank; i++) {
        result.dims[i - ones] = result.dims[i];
    }
    result.rank -= ones;
    if (wf_type_elems(&from.type) == wf_type_elems(&repeated)) {
        return wf_emit_reshaped_constant(graph, value, &result, out_value);
    }
    WF_TRY(wf_emit_constant(graph, wf_graph_value(graph, value)->name, &result, &to, out_value));
    size_t elem_bytes = wf_dtype_bits(from.type.dtype) / 8;
    int64_t elems = wf_type_elems(&repeated);
    for (int64_t i = 0; i < elems; i++) {
        memcpy((char *)to.data + (size_t)i * elem_bytes,
               (const char *)from.data + (size_t)source_index(&from.type, &repeated, i) * elem_bytes,
               elem_bytes);
    }
    return WF_OK;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    sinking_t sinking;
    wf_value_id inputs[MAX_INPUTS];
    (void)arg;
    if (!match(graph, wf_graph_node(graph, id), &sinking)) {
        return WF_OK;
    }
    uint32_t input_count = wf_graph_node(graph, id)->input_count;
    for (uint32_t i = 0; i < input_count; i++) {
        inputs[i] = wf_graph_node(graph, id)->inputs[i];
        if (inputs[i] == WF_NO_VALUE) {
            continue;
        }
        const wf_node_t *reshape = match_reshape(graph, inputs[i]);
        if (reshape != NULL) {
            inputs[i] = reshape->inputs[0];
        } else if (wf_graph_value(graph, inputs[i])->constant != NULL &&
                   wf_dtype_bits(wf_value_type(graph, inputs[i])->dtype) % 8 == 0) {
            WF_TRY(move_constant(graph, inputs[i], &sinking, &inputs[i]));
        }
    }
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_node_spec_t spec = {.op = node->op,
                           .attrs = node->attrs.items,
                           .attr_count = node->attrs.count,
                           .inputs = inputs,
                           .input_count = input_count,
                           .onnx_names = node->onnx_names};
    wf_value_id result;
    WF_TRY(wf_emit(graph, &spec, wf_graph_value(graph, node->outputs[0])->name, &result));
    (*changes)++;
    return wf_change_to_reshape(graph, id, result);
}

WF_PASS(sink_reshapes)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
