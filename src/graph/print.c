/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: text form. Attributes at their default are left out; reading writes them back. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "graph/constant.h"
#include "graph/internal.h"
#include "ref/kernel.h"

enum { MAX_PRINTED_ELEMS = 64 };

bool wf_text_is_plain(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        if (!letter && !(*p >= '0' && *p <= '9') && strchr("_.:/~-", *p) == NULL) {
            return false;
        }
    }
    return text[0] != '\0' && text[strlen(text) - 1] != ':';
}

/* A name or string, quoted when it must be. */
static void print_name(wf_text_t *text, const char *name)
{
    if (wf_text_is_plain(name)) {
        wf_text_puts(text, name);
        return;
    }
    wf_text_puts(text, "\"");
    for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            wf_text_printf(text, "\\%c", *p);
        } else if (*p < 0x20 || *p == 0x7f) {
            wf_text_printf(text, "\\x%02x", *p);
        } else {
            wf_text_append(text, (const char *)p, 1);
        }
    }
    wf_text_puts(text, "\"");
}

static void print_value_name(wf_text_t *text, const wf_graph_t *graph, wf_value_id id)
{
    if (id == WF_NO_VALUE) {
        wf_text_puts(text, "_");
        return;
    }
    wf_text_puts(text, "%");
    print_name(text, wf_graph_value(graph, id)->name);
}

static void print_type(wf_text_t *text, const wf_type_t *type)
{
    wf_text_printf(text, "%s[", wf_dtype_name(type->dtype));
    for (uint32_t i = 0; i < type->rank; i++) {
        wf_text_printf(text, "%s%" PRId64, i > 0 ? "," : "", type->dims[i]);
    }
    wf_text_puts(text, "]");
}

/* A whole number as one, else the shortest decimal that reads back as the same number. */
static void print_double(wf_text_t *text, double value, bool single)
{
    char digits[40];
    if (isnan(value)) {
        wf_text_puts(text, "nan");
        return;
    }
    if (value == floor(value) && fabs(value) < 1e7 && !(value == 0.0 && signbit(value))) {
        wf_text_printf(text, "%.0f", value);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        int length = snprintf(digits, sizeof digits, "%.*g", precision, value);
        double back = strtod(digits, NULL);
        if (length > 0 && (single ? (double)(float)back == value : back == value)) {
            break;
        }
    }
    for (char *p = digits; *p != '\0'; p++) { /* the locale's decimal point */
        *p = *p == ',' ? '.' : *p;
    }
    wf_text_puts(text, digits);
}

static bool print_elem(wf_text_t *text, const wf_tensor_t *tensor, int64_t index)
{
    double value = 0.0;
    wf_dtype_t dtype = tensor->type.dtype;
    if (dtype == WF_DTYPE_I64 || dtype == WF_DTYPE_U64) {
        uint64_t bits;
        memcpy(&bits, (const char *)tensor->data + index * 8, sizeof bits);
        if (dtype == WF_DTYPE_I64) {
            wf_text_printf(text, "%" PRId64, (int64_t)bits);
        } else {
            wf_text_printf(text, "%" PRIu64, bits);
        }
        return true;
    }
    if (!wf_constant_get(tensor, index, &value)) {
        return false;
    }
    if (wf_lane_class(dtype) == WF_LANE_F) {
        print_double(text, value, dtype != WF_DTYPE_F64);
    } else {
        wf_text_printf(text, "%.0f", value);
    }
    return true;
}

static void print_tensor(wf_text_t *text, const wf_tensor_t *tensor)
{
    int64_t elems = wf_type_elems(&tensor->type);
    int64_t bytes = wf_type_bytes(&tensor->type);
    double probe = 0.0;
    if (elems > MAX_PRINTED_ELEMS || (elems > 0 && !wf_constant_get(tensor, 0, &probe))) {
        char hash[33];
        wf_hash_text(wf_hash_bytes(tensor->data, bytes > 0 ? (size_t)bytes : 0), hash);
        wf_text_printf(text, "#%s", hash);
        return;
    }
    wf_text_puts(text, "{");
    for (int64_t i = 0; i < elems; i++) {
        wf_text_puts(text, i > 0 ? ", " : "");
        (void)print_elem(text, tensor, i);
    }
    wf_text_puts(text, "}");
}

/* ---- Attributes ---- */

static size_t attr_list_count(const wf_attr_t *attr)
{
    bool list = attr->kind == WF_ATTR_INTS || attr->kind == WF_ATTR_FLOATS || attr->kind == WF_ATTR_STRINGS;
    return list ? attr->count : 1;
}

static void print_attr_item(wf_text_t *text, const wf_attr_t *attr, size_t i)
{
    switch (attr->kind) {
    case WF_ATTR_INT:
        wf_text_printf(text, "%" PRId64, attr->v.i);
        break;
    case WF_ATTR_INTS:
        wf_text_printf(text, "%" PRId64, attr->v.ints[i]);
        break;
    case WF_ATTR_FLOAT:
        print_double(text, (double)attr->v.f, true);
        break;
    case WF_ATTR_FLOATS:
        print_double(text, (double)attr->v.floats[i], true);
        break;
    case WF_ATTR_STRING:
        print_name(text, attr->v.s);
        break;
    case WF_ATTR_STRINGS:
        print_name(text, attr->v.strings[i]);
        break;
    case WF_ATTR_TENSOR:
        print_type(text, &attr->v.tensor->type);
        print_tensor(text, attr->v.tensor);
        break;
    }
}

static void print_attr(wf_text_t *text, const wf_attr_t *attr)
{
    bool list = attr->kind == WF_ATTR_INTS || attr->kind == WF_ATTR_FLOATS || attr->kind == WF_ATTR_STRINGS;
    wf_text_printf(text, "%s=%s", attr->name, list ? "[" : "");
    for (size_t i = 0; i < attr_list_count(attr); i++) {
        wf_text_puts(text, i > 0 ? "," : "");
        print_attr_item(text, attr, i);
    }
    wf_text_puts(text, list ? "]" : "");
}

/* Every number of a default text, compared with the attribute's. */
static bool is_default(const wf_attr_t *attr, const char *default_text)
{
    const char *rest = default_text;
    if (attr->kind == WF_ATTR_STRING) {
        return strcmp(attr->v.s, default_text) == 0;
    }
    for (size_t i = 0; i < attr_list_count(attr); i++) {
        char *end = NULL;
        bool same = false;
        switch (attr->kind) {
        case WF_ATTR_INT:
            same = strtoll(rest, &end, 10) == attr->v.i;
            break;
        case WF_ATTR_INTS:
            same = strtoll(rest, &end, 10) == attr->v.ints[i];
            break;
        case WF_ATTR_FLOAT:
            same = strtof(rest, &end) == attr->v.f;
            break;
        case WF_ATTR_FLOATS:
            same = strtof(rest, &end) == attr->v.floats[i];
            break;
        default:
            return false;
        }
        if (!same || end == rest) {
            return false;
        }
        rest = *end == ',' ? end + 1 : end;
    }
    return *rest == '\0';
}

static void print_attrs(wf_text_t *text, const wf_node_t *node)
{
    wf_attr_specs_t specs;
    bool any = false;
    if (node->attrs.count == 0) {
        return;
    }
    wf_op_attr_specs(node->op, &specs);
    for (size_t i = 0; i < node->attrs.count; i++) {
        const wf_attr_t *attr = &node->attrs.items[i];
        const wf_attr_spec_t *spec = NULL;
        for (size_t j = 0; j < specs.count; j++) {
            spec = strcmp(specs.items[j].name, attr->name) == 0 ? &specs.items[j] : spec;
        }
        if (spec != NULL && spec->has_default && is_default(attr, spec->default_text)) {
            continue;
        }
        wf_text_puts(text, any ? " " : " {");
        print_attr(text, attr);
        any = true;
    }
    wf_text_puts(text, any ? "}" : "");
}

/* ---- Lines ---- */

static void print_node(wf_text_t *text, const wf_graph_t *graph, const wf_node_t *node)
{
    const wf_op_info_t *info = wf_op_info(node->op);
    wf_text_puts(text, "  ");
    for (uint32_t i = 0; i < node->output_count; i++) {
        wf_text_puts(text, i > 0 ? ", " : "");
        print_value_name(text, graph, node->outputs[i]);
    }
    wf_text_printf(text, " = %s%s(", info->domain == WF_OP_DOMAIN_W ? "wf." : "", info->onnx_name);
    for (uint32_t i = 0; i < node->input_count; i++) {
        wf_text_puts(text, i > 0 ? ", " : "");
        print_value_name(text, graph, node->inputs[i]);
    }
    wf_text_puts(text, ")");
    print_attrs(text, node);
    const char *separator = " ; ";
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE && wf_graph_value(graph, node->outputs[i])->type_known) {
            wf_text_puts(text, separator);
            print_type(text, &wf_graph_value(graph, node->outputs[i])->type);
            separator = ", ";
        }
    }
    wf_text_puts(text, "\n");
}

static void print_constants(wf_text_t *text, const wf_graph_t *graph)
{
    for (size_t i = 0; i < graph->values.count; i++) {
        wf_tensor_t tensor;
        if (graph->values.items[i].use_count > 0 && wf_graph_constant(graph, (wf_value_id)i, &tensor)) {
            wf_text_puts(text, "  const ");
            print_value_name(text, graph, (wf_value_id)i);
            wf_text_puts(text, ": ");
            print_type(text, &tensor.type);
            wf_text_puts(text, " = ");
            print_tensor(text, &tensor);
            wf_text_puts(text, "\n");
        }
    }
}

wf_status_t wf_graph_print(const wf_graph_t *graph, wf_text_t *text)
{
    wf_text_puts(text, "graph ");
    if (wf_text_is_plain(graph->name)) {
        wf_text_printf(text, "\"%s\"", graph->name);
    } else {
        print_name(text, graph->name);
    }
    wf_text_puts(text, " {\n");
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const wf_value_t *value = wf_graph_value(graph, graph->inputs.items[i]);
        wf_text_puts(text, "  input ");
        print_value_name(text, graph, graph->inputs.items[i]);
        wf_text_puts(text, ": ");
        if (value->type_known) {
            print_type(text, &value->type);
        } else {
            wf_text_puts(text, "none[]");
        }
        wf_text_puts(text, "\n");
    }
    print_constants(text, graph);
    for (size_t i = 0; i < graph->order.count; i++) {
        const wf_node_t *node = wf_graph_node(graph, graph->order.items[i]);
        if (!node->removed) {
            print_node(text, graph, node);
        }
    }
    for (size_t i = 0; i < graph->outputs.count; i++) {
        wf_text_puts(text, "  output ");
        print_value_name(text, graph, graph->outputs.items[i]);
        wf_text_puts(text, "\n");
    }
    wf_text_puts(text, "}\n");
    return wf_text_take_status(text);
}
