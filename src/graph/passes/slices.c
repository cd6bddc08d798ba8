/* SPDX-License-Identifier: Apache-2.0 */
/* slices: what takes a rectangle out of a tensor is a Slice. Split becomes one Slice for each output that is
 * read; Gather with one constant index, or with consecutive ones, a Slice (and a Reshape when the index was a
 * scalar); a Slice of a Slice that nobody else reads becomes one. Steps forward only. */
#include "base/compiler.h"
#include "graph/internal.h"
#include "graph/match.h"
#include "graph/pass.h"

typedef struct cut {
    int64_t start[WF_MAX_RANK], end[WF_MAX_RANK], step[WF_MAX_RANK];
} cut_t;

static cut_t whole(const wf_type_t *type)
{
    cut_t cut;
    for (uint32_t i = 0; i < WF_MAX_RANK; i++) {
        cut.start[i] = 0;
        cut.end[i] = i < type->rank ? type->dims[i] : 1;
        cut.step[i] = 1;
    }
    return cut;
}

/* Attributes of the cut of a tensor of the type; storage for the lists is the caller's. */
typedef struct cut_attrs {
    int64_t lists[4][WF_MAX_RANK];
    wf_attr_t attrs[4];
} cut_attrs_t;

static void make_attrs(const cut_t *cut, const wf_type_t *type, cut_attrs_t *out)
{
    size_t count = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (cut->start[i] != 0 || cut->end[i] != type->dims[i] || cut->step[i] != 1) {
            out->lists[0][count] = i;
            out->lists[1][count] = cut->end[i];
            out->lists[2][count] = cut->start[i];
            out->lists[3][count++] = cut->step[i];
        }
    }
    static const char *const names[4] = {"axes", "ends", "starts", "steps"};
    for (int i = 0; i < 4; i++) {
        out->attrs[i] = wf_attr_ints(names[i], out->lists[i], count);
    }
}

static const wf_value_id no_values[2] = {WF_NO_VALUE, WF_NO_VALUE};

/* A Slice of x; inputs that are attributes are absent. */
static wf_node_spec_t slice_spec(const cut_attrs_t *attrs, wf_value_id inputs[3], wf_value_id x)
{
    inputs[0] = x;
    inputs[1] = no_values[0];
    inputs[2] = no_values[1];
    return (wf_node_spec_t){
        .op = WF_OP_SLICE, .attrs = attrs->attrs, .attr_count = 4, .inputs = inputs, .input_count = 3};
}

/* ---- Split ---- */

static wf_status_t split(wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    uint32_t axis;
    wf_value_id x = wf_graph_node(graph, id)->inputs[0];
    const wf_type_t type = *wf_value_type(graph, x);
    const char *onnx_names = wf_graph_node(graph, id)->onnx_names;
    wf_type_t parts[64];
    uint32_t part_count = wf_graph_node(graph, id)->output_count;
    size_t size_count;
    const int64_t *sizes = wf_attrs_ints(&wf_graph_node(graph, id)->attrs, "split", &size_count);
    if (part_count > WF_COUNT_OF(parts) || wf_node_input(wf_graph_node(graph, id), 1) != WF_NO_VALUE ||
        !wf_match_axis(wf_attrs_int(&wf_graph_node(graph, id)->attrs, "axis", 0), type.rank, &axis)) {
        return WF_OK;
    }
    int64_t chunk =
        (type.dims[axis] + part_count - 1) / part_count; /* equal parts, the last one may be smaller */
    int64_t start = 0;
    (*changes)++;
    for (uint32_t i = 0; i < part_count; i++) {
        wf_value_id output = wf_graph_node(graph, id)->outputs[i];
        int64_t size = sizes != NULL && i < size_count ? sizes[i] : WF_MIN(chunk, type.dims[axis] - start);
        if (output != WF_NO_VALUE && wf_graph_value(graph, output)->use_count > 0) {
            cut_t cut = whole(&type);
            cut_attrs_t attrs;
            wf_value_id inputs[3];
            cut.start[axis] = start;
            cut.end[axis] = start + size;
            make_attrs(&cut, &type, &attrs);
            (void)wf_graph_detach(graph, output);
            wf_node_spec_t spec = slice_spec(&attrs, inputs, x);
            spec.outputs = &output;
            spec.output_count = 1;
            spec.onnx_names = onnx_names;
            WF_TRY(wf_graph_add_node(graph, &spec, NULL));
        }
        start += size;
    }
    wf_graph_remove_node(graph, id);
    return WF_OK;
}

/* ---- Gather ---- */

static wf_status_t gather(wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    uint32_t axis;
    wf_tensor_t indices;
    int64_t first = 0;
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_value_id x = node->inputs[0];
    const wf_type_t type = *wf_value_type(graph, x);
    if (!wf_graph_constant(graph, node->inputs[1], &indices) || indices.type.rank > 1 ||
        wf_type_elems(&indices.type) < 1 ||
        !wf_match_axis(wf_attrs_int(&node->attrs, "axis", 0), type.rank, &axis)) {
        return WF_OK;
    }
    int64_t count = wf_type_elems(&indices.type);
    for (int64_t i = 0; i < count; i++) {
        int64_t index;
        if (!wf_constant_get_int(&indices, i, &index)) {
            return WF_OK;
        }
        index = index < 0 ? index + type.dims[axis] : index;
        first = i == 0 ? index : first;
        if (index != first + i || index < 0 || index >= type.dims[axis]) {
            return WF_OK;
        }
    }
    cut_t cut = whole(&type);
    cut_attrs_t attrs;
    wf_value_id inputs[3], part;
    cut.start[axis] = first;
    cut.end[axis] = first + count;
    make_attrs(&cut, &type, &attrs);
    wf_node_spec_t spec = slice_spec(&attrs, inputs, x);
    (*changes)++;
    if (indices.type.rank == 1) {
        return wf_graph_change_node(graph, id, &spec);
    }
    spec.onnx_names = node->onnx_names;
    WF_TRY(wf_emit(graph, &spec, wf_graph_value(graph, node->outputs[0])->name, &part));
    return wf_change_to_reshape(graph, id, part);
}

/* ---- Slice of Slice ---- */

/* The cut of a Slice whose parameters are attributes in canonical form. */
static bool read_cut(const wf_graph_t *graph, const wf_node_t *node, cut_t *out_cut)
{
    const wf_type_t *type = wf_value_type(graph, node->inputs[0]);
    size_t counts[4];
    static const char *const names[4] = {"axes", "ends", "starts", "steps"};
    const int64_t *lists[4];
    for (int i = 0; i < 4; i++) {
        lists[i] = wf_attrs_ints(&node->attrs, names[i], &counts[i]);
        if (lists[i] == NULL || counts[i] != counts[0]) {
            return false;
        }
    }
    *out_cut = whole(type);
    for (size_t i = 0; i < counts[0]; i++) {
        uint32_t axis;
        if (!wf_match_axis(lists[0][i], type->rank, &axis) || lists[3][i] < 1 || lists[2][i] < 0 ||
            lists[1][i] < lists[2][i] || lists[1][i] > type->dims[axis]) {
            return false;
        }
        out_cut->start[axis] = lists[2][i];
        out_cut->end[axis] = lists[1][i];
        out_cut->step[axis] = lists[3][i];
    }
    return true;
}

static wf_status_t slice(wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    cut_t outer, inner;
    cut_attrs_t attrs;
    wf_value_id inputs[3];
    const wf_node_t *node = wf_graph_node(graph, id);
    const wf_node_t *before = wf_match_inner(graph, node->inputs[0], WF_OP_SLICE);
    if (before == NULL || !read_cut(graph, node, &outer) || !read_cut(graph, before, &inner)) {
        return WF_OK;
    }
    const wf_type_t type = *wf_value_type(graph, before->inputs[0]);
    const wf_type_t *result = wf_value_type(graph, node->outputs[0]);
    if (wf_type_elems(result) <= 0) {
        return WF_OK;
    }
    for (uint32_t i = 0; i < type.rank; i++) {
        int64_t step = inner.step[i] * outer.step[i];
        inner.start[i] += outer.start[i] * inner.step[i];
        inner.end[i] = inner.start[i] + (result->dims[i] - 1) * step + 1;
        inner.step[i] = result->dims[i] == 1 ? 1 : step;
    }
    make_attrs(&inner, &type, &attrs);
    wf_node_spec_t spec = slice_spec(&attrs, inputs, before->inputs[0]);
    WF_TRY(wf_join_names(graph, id, inputs, 1, &spec.onnx_names));
    (*changes)++;
    return wf_graph_change_node(graph, id, &spec);
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    (void)arg;
    switch (wf_graph_node(graph, id)->op) {
    case WF_OP_SPLIT:
        return split(graph, id, changes);
    case WF_OP_GATHER:
        return gather(graph, id, changes);
    case WF_OP_SLICE:
        return slice(graph, id, changes);
    default:
        return WF_OK;
    }
}

WF_PASS(slices)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
