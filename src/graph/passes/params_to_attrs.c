/* SPDX-License-Identifier: Apache-2.0 */
/* params_to_attrs: a constant input that the operator's row marks "@n" becomes the attribute of that name, so
 * that problems carry the value and not only its type. */
#include <string.h>

#include "base/compiler.h"
#include "graph/constant.h"
#include "graph/match.h"
#include "graph/pass.h"

enum { MAX_VALUES = 2 * WF_MAX_RANK };

/* The attribute from the tensor; false when its type or length is none that an attribute takes. */
static bool attr_from_tensor(const wf_attr_spec_t *spec, const wf_tensor_t *tensor, int64_t *ints,
                             float *floats, wf_attr_t *out_attr)
{
    int64_t count = wf_type_elems(&tensor->type);
    bool is_float = spec->kind == WF_ATTR_FLOAT || spec->kind == WF_ATTR_FLOATS;
    bool is_list = spec->kind == WF_ATTR_INTS || spec->kind == WF_ATTR_FLOATS;
    if (count < 0 || count > MAX_VALUES || tensor->type.rank > 1 || (!is_list && count != 1)) {
        return false;
    }
    if (is_float && tensor->type.dtype != WF_DTYPE_F32) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        double value = 0.0;
        if (is_float ? !wf_constant_get(tensor, i, &value) : !wf_constant_get_int(tensor, i, &ints[i])) {
            return false;
        }
        floats[i] = (float)value;
    }
    *out_attr = (wf_attr_t){.name = spec->name, .kind = spec->kind, .count = is_list ? (size_t)count : 0};
    switch (spec->kind) {
    case WF_ATTR_INT:
        out_attr->v.i = ints[0];
        return true;
    case WF_ATTR_INTS:
        out_attr->v.ints = ints;
        return true;
    case WF_ATTR_FLOAT:
        out_attr->v.f = floats[0];
        return true;
    case WF_ATTR_FLOATS:
        out_attr->v.floats = floats;
        return true;
    default:
        return false;
    }
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    wf_attr_specs_t specs;
    wf_attr_t attrs[WF_OP_MAX_ATTRS];
    int64_t ints[WF_OP_MAX_ATTRS][MAX_VALUES];
    float floats[WF_OP_MAX_ATTRS][MAX_VALUES];
    wf_value_id inputs[8];
    const wf_node_t *node = wf_graph_node(graph, id);
    (void)arg;
    if (strchr(wf_op_info(node->op)->attrs_text, '@') == NULL || node->input_count > WF_COUNT_OF(inputs)) {
        return WF_OK;
    }
    wf_op_attr_specs(node->op, &specs);
    size_t count = node->attrs.count;
    for (uint32_t i = 0; i < node->input_count; i++) {
        inputs[i] = node->inputs[i];
    }
    for (size_t i = 0; i < count; i++) {
        attrs[i] = node->attrs.items[i];
    }
    bool moved = false;
    for (size_t i = 0; i < specs.count; i++) {
        const wf_attr_spec_t *spec = &specs.items[i];
        wf_tensor_t tensor;
        if (spec->from_input < 0 || wf_attrs_find(&node->attrs, spec->name) != NULL ||
            !wf_graph_constant(graph, wf_node_input(node, (uint32_t)spec->from_input), &tensor)) {
            continue;
        }
        bool nothing = node->op == WF_OP_RESIZE && wf_type_elems(&tensor.type) == 0; /* "not given" there */
        if (nothing || attr_from_tensor(spec, &tensor, ints[i], floats[i], &attrs[count])) {
            count += !nothing;
            inputs[spec->from_input] = WF_NO_VALUE;
            moved = true;
        }
    }
    if (!moved) {
        return WF_OK;
    }
    (*changes)++;
    wf_node_spec_t changed = {.op = node->op,
                              .attrs = attrs,
                              .attr_count = count,
                              .inputs = inputs,
                              .input_count = node->input_count};
    return wf_graph_change_node(graph, id, &changed);
}

WF_PASS(params_to_attrs)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
