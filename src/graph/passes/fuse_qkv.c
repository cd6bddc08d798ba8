/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_qkv: products of one x with several constant matrices become one product with the matrices side by
 * side, and a Slice of the result for each.
 *
 * Decided by shape: with few rows a product is bound by reading its weights and by the cost of a call, and
 * the slices move next to nothing; with many rows each product fills the machine by itself and the slices
 * would only be copies. */
#include <string.h>

#include "base/compiler.h"
#include "graph/linear.h"
#include "graph/match.h"
#include "graph/pass.h"

/* Rows from which on products stay apart. Reasoned, not measured: at 16 rows a weight is used 16 times for
 * each time it is read, which is where f32 products stop waiting for memory (about 8 flops a byte). */
enum { MAX_ROWS = 16 };
/* More readers of one value than this are not looked at: attention has three. */
enum { MAX_MEMBERS = 4 };

typedef struct group {
    wf_linear_t members[MAX_MEMBERS];
    uint32_t count;
    int64_t columns; /* of all */
} group_t;

/* The product that reads x at this use, with its bias. */
static bool match_member(const wf_graph_t *graph, const wf_use_t *use, wf_linear_t *out_linear)
{
    const wf_node_t *node = wf_graph_node(graph, use->node);
    if (use->slot != 0 || (node->op != WF_OP_MATMUL && node->op != WF_OP_GEMM)) {
        return false;
    }
    wf_node_id user = node->op == WF_OP_MATMUL ? wf_match_user(graph, node->outputs[0]) : WF_NO_NODE;
    bool with_bias = user != WF_NO_NODE && wf_match_linear(graph, user, false, out_linear) &&
                     out_linear->op == WF_OP_MATMUL && out_linear->x == node->inputs[0];
    return (with_bias || wf_match_linear(graph, use->node, false, out_linear)) &&
           wf_attrs_int(&out_linear->attrs, "transB", 0) == 0;
}

/* All products that read x, in order of their nodes. */
static bool collect(const wf_graph_t *graph, wf_value_id x, group_t *out_group)
{
    const wf_value_t *value = wf_graph_value(graph, x);
    *out_group = (group_t){.count = 0};
    if (value->use_count < 2 || value->use_count > MAX_MEMBERS + 1 || value->type.rank < 2) {
        return false;
    }
    for (const wf_use_t *use = value->uses; use != NULL; use = use->next) {
        wf_linear_t linear;
        if (out_group->count == MAX_MEMBERS || !match_member(graph, use, &linear)) {
            continue;
        }
        uint32_t place = out_group->count++;
        while (place > 0 && out_group->members[place - 1].node > linear.node) {
            out_group->members[place] = out_group->members[place - 1];
            place--;
        }
        out_group->members[place] = linear;
        out_group->columns += linear.out_channels;
    }
    int64_t rows = value->type.dims[value->type.rank - 1] > 0
                       ? wf_type_elems(&value->type) / value->type.dims[value->type.rank - 1]
                       : 0;
    bool alike = out_group->count >= 2 && rows > 0 && rows <= MAX_ROWS;
    for (uint32_t i = 0; alike && i < out_group->count; i++) {
        const wf_linear_t *member = &out_group->members[i];
        alike =
            member->op == out_group->members[0].op && wf_graph_value(graph, member->weight)->use_count == 1;
    }
    return alike;
}

/* Copies rows of `columns` elements into place; a missing source leaves zeros. */
static void place_columns(const wf_graph_t *graph, const wf_tensor_t *to, int64_t first_column,
                          wf_value_id from, int64_t rows, int64_t columns)
{
    wf_tensor_t tensor;
    if (!wf_graph_constant(graph, from, &tensor)) {
        return;
    }
    size_t elem_bytes = wf_dtype_bits(to->type.dtype) / 8;
    int64_t pitch = to->type.dims[to->type.rank - 1];
    for (int64_t i = 0; i < rows; i++) {
        memcpy((char *)to->data + (size_t)(i * pitch + first_column) * elem_bytes,
               (const char *)tensor.data + (size_t)(i * columns) * elem_bytes, (size_t)columns * elem_bytes);
    }
}

/* The members side by side, without a place yet. */
static wf_status_t merge(wf_graph_t *graph, const group_t *group, wf_linear_t *out_merged)
{
    wf_linear_t merged = group->members[0];
    wf_tensor_t weight, bias;
    bool biased = false;
    wf_type_t matrix = {.dtype = merged.type.dtype, .rank = 2, .dims = {merged.in_channels, group->columns}};
    wf_type_t vector = {.dtype = merged.type.dtype, .rank = 1, .dims = {group->columns}};
    for (uint32_t i = 0; i < group->count; i++) {
        biased = biased || group->members[i].bias != WF_NO_VALUE;
    }
    const char *name = wf_graph_value(graph, merged.weight)->name;
    WF_TRY(wf_emit_constant(graph, name, &matrix, &weight, &merged.weight));
    merged.bias = WF_NO_VALUE;
    if (biased) {
        WF_TRY(wf_emit_constant(graph, name, &vector, &bias, &merged.bias));
    }
    int64_t column = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const wf_linear_t *member = &group->members[i];
        place_columns(graph, &weight, column, member->weight, member->in_channels, member->out_channels);
        if (biased) {
            place_columns(graph, &bias, column, member->bias, 1, member->out_channels);
        }
        column += member->out_channels;
    }
    merged.type.dims[merged.out_axis] = group->columns;
    merged.out_channels = group->columns;
    *out_merged = merged;
    return WF_OK;
}

static wf_status_t join_member_names(wf_graph_t *graph, const group_t *group, const char **out_names)
{
    wf_text_t text;
    wf_text_init(&text, graph->arena.allocator, SIZE_MAX / 2);
    for (uint32_t i = 0; i < group->count; i++) {
        const char *names = group->members[i].onnx_names;
        wf_text_puts(&text, text.length > 0 && names[0] != '\0' ? ", " : "");
        wf_text_puts(&text, names);
    }
    wf_status_t status = wf_text_take_status(&text);
    if (status == WF_OK) {
        status = wf_arena_text(&graph->arena, wf_text_cstr(&text), text.length, out_names);
    }
    wf_text_deinit(&text);
    return status;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    group_t group;
    wf_linear_t merged;
    wf_value_id product;
    const wf_node_t *node = wf_graph_node(graph, id);
    (void)arg;
    if ((node->op != WF_OP_MATMUL && node->op != WF_OP_GEMM) || !collect(graph, node->inputs[0], &group)) {
        return WF_OK;
    }
    (*changes)++;
    WF_TRY(merge(graph, &group, &merged));
    WF_TRY(join_member_names(graph, &group, &merged.onnx_names));
    wf_node_spec_t place = {.op = WF_OP_IDENTITY, .inputs = &merged.x, .input_count = 1};
    const char *name = wf_graph_value(graph, wf_graph_node(graph, group.members[0].node)->outputs[0])->name;
    WF_TRY(wf_emit(graph, &place, name, &product));
    WF_TRY(wf_linear_put(graph, wf_graph_value(graph, product)->producer, &merged));
    int64_t step = 1;
    int64_t start = 0;
    for (uint32_t i = 0; i < group.count; i++) {
        int64_t axis = merged.out_axis;
        int64_t end = start + group.members[i].out_channels;
        wf_value_id inputs[3] = {product, WF_NO_VALUE, WF_NO_VALUE};
        wf_attr_t attrs[4] = {wf_attr_ints("axes", &axis, 1), wf_attr_ints("ends", &end, 1),
                              wf_attr_ints("starts", &start, 1), wf_attr_ints("steps", &step, 1)};
        wf_node_spec_t spec = {
            .op = WF_OP_SLICE, .attrs = attrs, .attr_count = 4, .inputs = inputs, .input_count = 3};
        /* The MatMul before an Add is read by nobody then. */
        wf_node_id old = group.members[i].node;
        wf_value_id before = wf_graph_node(graph, old)->inputs[0];
        bool had_add = wf_graph_node(graph, old)->op == WF_OP_ADD;
        WF_TRY(wf_graph_change_node(graph, old, &spec));
        if (had_add) {
            wf_graph_remove_node(graph, wf_graph_value(graph, before)->producer);
        }
        start = end;
    }
    return WF_OK;
}

WF_PASS(fuse_qkv)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
