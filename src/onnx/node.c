/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/node.h"

#include <string.h>

#include "base/compiler.h"
#include "onnx/nearest.h"
#include "onnx/tensor.h"

/* ---- Operators ---- */

wf_status_t wf_onnx_rules_init(wf_map_t *rules)
{
    size_t count;
    const wf_rule_t *rows = wf_rules(&count);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(rows[i].name, rows[i - 1].name) != 0) {
            WF_TRY(wf_map_set(rules, rows[i].name, strlen(rows[i].name), i));
        }
    }
    return WF_OK;
}

static bool is_default_domain(wf_span_t domain)
{
    return domain.bytes == 0 || wf_span_equal(domain, "ai.onnx");
}

static int64_t opset_of(const wf_onnx_opsets_t *opsets, wf_span_t domain)
{
    for (size_t i = 0; i < opsets->count; i++) {
        const wf_pb_opset_t *opset = &opsets->items[i];
        if (wf_span_same(opset->domain, domain) ||
            (is_default_domain(opset->domain) && is_default_domain(domain))) {
            return opset->version;
        }
    }
    /* Files of the first two versions list no operator sets and mean the first. */
    return opsets->ir_version < 3 && is_default_domain(domain) ? 1 : 0;
}

bool wf_onnx_function_key(wf_span_t domain, wf_span_t name, wf_span_t overload,
                          char out_key[WF_ONNX_FUNCTION_KEY_MAX], size_t *out_bytes)
{
    wf_span_t parts[3] = {is_default_domain(domain) ? (wf_span_t){NULL, 0} : domain, name, overload};
    size_t at = 0;
    for (size_t i = 0; i < WF_COUNT_OF(parts); i++) {
        if (parts[i].bytes >= WF_ONNX_FUNCTION_KEY_MAX - at) {
            return false;
        }
        if (parts[i].bytes > 0) {
            memcpy(out_key + at, parts[i].data, parts[i].bytes);
        }
        at += parts[i].bytes;
        out_key[at++] = '\0';
    }
    *out_bytes = at;
    return true;
}

/* "Did you mean" over operators and rules of the node's domain. */
static wf_status_t unknown_operator(const wf_pb_node_t *node, const wf_onnx_meaning_t *meaning)
{
    wf_nearest_t nearest = {0};
    size_t count;
    bool standard = is_default_domain(node->domain);
    const wf_rule_t *rows = wf_rules(&count);
    const char *word = node->op_type.bytes > 0 ? (const char *)node->op_type.data : "";
    for (wf_op_t op = 0; standard && op < WF_OP_COUNT; op++) {
        if (wf_op_info(op)->domain == WF_OP_DOMAIN_ONNX) {
            wf_nearest_offer(&nearest, word, node->op_type.bytes, wf_op_info(op)->onnx_name);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (standard ? rows[i].domain[0] == '\0' : wf_span_equal(node->domain, rows[i].domain)) {
            wf_nearest_offer(&nearest, word, node->op_type.bytes, rows[i].name);
        }
    }
    wf_status_t status =
        standard ? WF_ERROR(MODEL_UNSUPPORTED, "operator %.*s is not known", WF_SPAN_ARGS(node->op_type))
                 : WF_ERROR(MODEL_UNSUPPORTED, "operator %.*s of domain %.*s is not known",
                            WF_SPAN_ARGS(node->op_type), WF_SPAN_ARGS(node->domain));
    if (nearest.name != NULL) {
        return wf_status_hinted(status, "the nearest known name is %s", nearest.name);
    }
    if (standard && meaning->opset > WF_ONNX_NEWEST_OPSET) {
        return wf_status_hinted(status, "operator set %lld is newer than %d, the newest that was tested",
                                (long long)meaning->opset, WF_ONNX_NEWEST_OPSET);
    }
    return wf_status_hinted(status, "%s",
                            standard ? "check the name, or define it as a function of the model"
                                     : "export with standard operators, or with the operator as a "
                                       "function of the model");
}

wf_status_t wf_onnx_node_meaning(const wf_onnx_model_t *model, const wf_onnx_opsets_t *opsets,
                                 const wf_pb_node_t *node, wf_onnx_meaning_t *out_meaning)
{
    const char *name = node->op_type.bytes > 0 ? (const char *)node->op_type.data : "";
    bool standard = is_default_domain(node->domain);
    *out_meaning = (wf_onnx_meaning_t){.opset = opset_of(opsets, node->domain), .op = WF_OP_COUNT};
    uint64_t found;
    if (model->functions.count > 0) {
        char key[WF_ONNX_FUNCTION_KEY_MAX];
        size_t key_bytes;
        if (wf_onnx_function_key(node->domain, node->op_type, node->overload, key, &key_bytes) &&
            wf_map_get(&model->functions, key, key_bytes, &found)) {
            out_meaning->kind = WF_ONNX_FUNCTION;
            out_meaning->function = (size_t)found;
            return WF_OK;
        }
    }
    if (out_meaning->opset <= 0) {
        return wf_status_hinted(
            WF_ERROR(MODEL_INVALID, "domain \"%.*s\" is not imported", WF_SPAN_ARGS(node->domain)),
            "the model has to list its version in opset_import");
    }
    if (standard && (wf_span_equal(node->op_type, "If") || wf_span_equal(node->op_type, "Loop") ||
                     wf_span_equal(node->op_type, "Scan"))) {
        out_meaning->kind = WF_ONNX_FLOW;
        return WF_OK;
    }
    size_t count;
    const wf_rule_t *rows = wf_rules(&count);
    if (wf_map_get(&model->rules, name, node->op_type.bytes, &found)) {
        for (size_t i = (size_t)found; i < count && wf_span_equal(node->op_type, rows[i].name); i++) {
            const wf_rule_t *rule = &rows[i];
            if (out_meaning->opset < rule->since || out_meaning->opset > rule->until ||
                !(standard ? rule->domain[0] == '\0' : wf_span_equal(node->domain, rule->domain))) {
                continue;
            }
            if (rule->fn == NULL) {
                return WF_ERROR(MODEL_UNSUPPORTED, "%s", rule->refusal);
            }
            out_meaning->kind = WF_ONNX_RULE;
            out_meaning->rule = rule;
            out_meaning->op = rule->op;
            return WF_OK;
        }
    }
    if (standard && wf_op_from_onnx_name(name, node->op_type.bytes, &out_meaning->op)) {
        out_meaning->kind = WF_ONNX_OPERATOR;
        return WF_OK;
    }
    return unknown_operator(node, out_meaning);
}

/* ---- Attributes ---- */

/* AttributeProto.AttributeType: how the numbers are called, and what they are here. */
static const struct attr_type {
    const char *what;
    bool known;
    wf_attr_kind_t kind;
} attr_types[] = {
    [1] = {"a float", true, WF_ATTR_FLOAT},
    [2] = {"an integer", true, WF_ATTR_INT},
    [3] = {"a string", true, WF_ATTR_STRING},
    [4] = {"a tensor", true, WF_ATTR_TENSOR},
    [5] = {"a graph", false, 0},
    [6] = {"a list of floats", true, WF_ATTR_FLOATS},
    [7] = {"a list of integers", true, WF_ATTR_INTS},
    [8] = {"a list of strings", true, WF_ATTR_STRINGS},
    [9] = {"a list of tensors", false, 0},
    [10] = {"a list of graphs", false, 0},
    [11] = {"a sparse tensor", false, 0},
    [12] = {"a list of sparse tensors", false, 0},
    [13] = {"a type", false, 0},
    [14] = {"a list of types", false, 0},
};

/* Files of the first version do not say the type: it is that of the field that is there. */
static int64_t attr_type_of(const wf_pb_attribute_t *attribute)
{
    static const struct {
        uint32_t place;
        int64_t type;
    } fields[] = {
        {WF_AT_attribute_f, 1},    {WF_AT_attribute_i, 2},       {WF_AT_attribute_s, 3},
        {WF_AT_attribute_t, 4},    {WF_AT_attribute_g, 5},       {WF_AT_attribute_floats, 6},
        {WF_AT_attribute_ints, 7}, {WF_AT_attribute_strings, 8},
    };
    if (attribute->type != 0) {
        return attribute->type;
    }
    for (size_t i = 0; i < WF_COUNT_OF(fields); i++) {
        if ((attribute->head.seen >> fields[i].place & 1u) != 0) {
            return fields[i].type;
        }
    }
    return 0;
}

static const struct attr_type *attr_type_row(const wf_pb_attribute_t *attribute)
{
    int64_t type = attr_type_of(attribute);
    bool listed = type > 0 && (uint64_t)type < WF_COUNT_OF(attr_types) && attr_types[type].what != NULL;
    return listed ? &attr_types[type] : NULL;
}

static wf_status_t attr_kind(const wf_pb_attribute_t *attribute, wf_attr_kind_t *out_kind)
{
    const struct attr_type *row = attr_type_row(attribute);
    if (row == NULL) {
        return WF_ERROR(MODEL_INVALID, "attribute %.*s has no known type", WF_SPAN_ARGS(attribute->name));
    }
    if (!row->known) {
        return WF_ERROR(MODEL_UNSUPPORTED, "attribute %.*s is %s, which is not supported",
                        WF_SPAN_ARGS(attribute->name), row->what);
    }
    *out_kind = row->kind;
    return WF_OK;
}

static wf_status_t count_numbers(const wf_pb_attribute_t *attribute, uint32_t number, wf_wire_type_t type,
                                 uint64_t *out_count)
{
    WF_TRY(wf_numbers_count(attribute->self, number, type, WF_ONNX_MAX_ATTR_NUMBERS, out_count));
    if (*out_count > WF_ONNX_MAX_ATTR_NUMBERS) {
        return WF_ERROR(MODEL_LIMIT, "attribute %.*s has more than %d numbers", WF_SPAN_ARGS(attribute->name),
                        WF_ONNX_MAX_ATTR_NUMBERS);
    }
    return WF_OK;
}

enum { FIELD_FLOATS = 7, FIELD_INTS = 8 }; /* of AttributeProto */

static wf_status_t read_ints(const wf_pb_attribute_t *attribute, wf_arena_t *arena, wf_attr_t *out_attr)
{
    wf_numbers_t numbers;
    uint64_t count, bits;
    int64_t *items;
    bool more;
    WF_TRY(count_numbers(attribute, FIELD_INTS, WF_WIRE_VARINT, &count));
    WF_TRY(wf_arena_alloc(arena, (size_t)count, sizeof *items, &items));
    wf_numbers_init(&numbers, attribute->self, FIELD_INTS, WF_WIRE_VARINT);
    for (uint64_t i = 0; i < count; i++) {
        WF_TRY(wf_numbers_next(&numbers, &bits, &more));
        items[i] = (int64_t)bits;
    }
    out_attr->count = (size_t)count;
    out_attr->v.ints = items;
    return WF_OK;
}

static wf_status_t read_floats(const wf_pb_attribute_t *attribute, wf_arena_t *arena, wf_attr_t *out_attr)
{
    wf_numbers_t numbers;
    uint64_t count, bits;
    float *items;
    bool more;
    WF_TRY(count_numbers(attribute, FIELD_FLOATS, WF_WIRE_FIXED32, &count));
    WF_TRY(wf_arena_alloc(arena, (size_t)count, sizeof *items, &items));
    wf_numbers_init(&numbers, attribute->self, FIELD_FLOATS, WF_WIRE_FIXED32);
    for (uint64_t i = 0; i < count; i++) {
        WF_TRY(wf_numbers_next(&numbers, &bits, &more));
        uint32_t word = (uint32_t)bits;
        memcpy(&items[i], &word, sizeof word);
    }
    out_attr->count = (size_t)count;
    out_attr->v.floats = items;
    return WF_OK;
}

static wf_status_t read_tensor(const wf_pb_attribute_t *attribute, wf_arena_t *arena, wf_attr_t *out_attr)
{
    static const wf_pb_tensor_t absent;
    const wf_pb_tensor_t *source = attribute->t != NULL ? attribute->t : &absent;
    wf_tensor_t *tensor;
    const void *data;
    WF_TRY(wf_arena_alloc(arena, 1, sizeof *tensor, &tensor));
    WF_TRY(wf_onnx_tensor_type(source, &tensor->type));
    WF_TRY(wf_onnx_tensor_data(source, &tensor->type, false, arena, &data));
    memcpy(&tensor->data, &data, sizeof data); /* only read: a wf_tensor_t has no constant form */
    out_attr->v.tensor = tensor;
    return WF_OK;
}

static wf_status_t read_value(const wf_pb_attribute_t *attribute, wf_arena_t *arena, wf_attr_t *out_attr)
{
    const char **strings;
    switch (out_attr->kind) {
    case WF_ATTR_INT:
        out_attr->v.i = attribute->i;
        return WF_OK;
    case WF_ATTR_FLOAT:
        out_attr->v.f = attribute->f;
        return WF_OK;
    case WF_ATTR_STRING:
        out_attr->count = attribute->s.bytes;
        return wf_arena_text(arena, (const char *)attribute->s.data, attribute->s.bytes, &out_attr->v.s);
    case WF_ATTR_INTS:
        return read_ints(attribute, arena, out_attr);
    case WF_ATTR_FLOATS:
        return read_floats(attribute, arena, out_attr);
    case WF_ATTR_STRINGS:
        WF_TRY(wf_arena_alloc(arena, attribute->strings.count, sizeof *strings, &strings));
        for (size_t i = 0; i < attribute->strings.count; i++) {
            wf_span_t text = attribute->strings.items[i];
            WF_TRY(wf_arena_text(arena, (const char *)text.data, text.bytes, &strings[i]));
        }
        out_attr->count = attribute->strings.count;
        out_attr->v.strings = strings;
        return WF_OK;
    case WF_ATTR_TENSOR:
        return read_tensor(attribute, arena, out_attr);
    }
    return WF_OK;
}

wf_status_t wf_onnx_attr_read(const wf_pb_attribute_t *attribute, wf_span_t name, wf_arena_t *arena,
                              wf_attr_t *out_attr)
{
    *out_attr = (wf_attr_t){.count = 0};
    WF_TRY(attr_kind(attribute, &out_attr->kind));
    WF_TRY(wf_arena_text(arena, (const char *)name.data, name.bytes, &out_attr->name));
    return wf_status_annotated(read_value(attribute, arena, out_attr), "attribute %s", out_attr->name);
}

/* ---- Attributes against the tables ---- */

/* One "name:kind..." of a table's text. */
typedef struct spec {
    const char *name, *kind;
    size_t name_bytes, kind_bytes;
    bool required;
    int32_t from_input; /* -1: none */
} spec_t;

/* Reads the spec at *at and moves on; false at the end of the text. */
static bool next_spec(const char **at, spec_t *out_spec)
{
    *at += strspn(*at, " ");
    if (**at == '\0') {
        return false;
    }
    const char *end = *at + strcspn(*at, " ");
    out_spec->name = *at;
    out_spec->name_bytes = strcspn(*at, ":");
    out_spec->kind = *at + out_spec->name_bytes + 1;
    out_spec->kind_bytes = strcspn(out_spec->kind, "(=!@ ");
    out_spec->required = end[-1] == '!';
    out_spec->from_input = end[-2] == '@' ? end[-1] - '0' : -1;
    *at = end;
    return true;
}

static bool find_spec(const char *text, wf_span_t name, spec_t *out_spec)
{
    while (next_spec(&text, out_spec)) {
        if (out_spec->name_bytes == name.bytes && memcmp(out_spec->name, name.data, name.bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* Kinds as the tables write them, by wf_attr_kind_t. */
static const struct {
    const char *word, *what;
} kinds[] = {
    [WF_ATTR_INT] = {"i", "an integer"},           [WF_ATTR_FLOAT] = {"f", "a float"},
    [WF_ATTR_STRING] = {"s", "a string"},          [WF_ATTR_INTS] = {"is", "a list of integers"},
    [WF_ATTR_FLOATS] = {"fs", "a list of floats"}, [WF_ATTR_STRINGS] = {"ss", "a list of strings"},
    [WF_ATTR_TENSOR] = {"t", "a tensor"},
};

static const char *kind_what(const spec_t *spec)
{
    for (size_t i = 0; i < WF_COUNT_OF(kinds); i++) {
        if (strlen(kinds[i].word) == spec->kind_bytes &&
            memcmp(kinds[i].word, spec->kind, spec->kind_bytes) == 0) {
            return kinds[i].what;
        }
    }
    return "";
}

static const char *op_attrs(wf_op_t op)
{
    return op < WF_OP_COUNT ? wf_op_info(op)->attrs_text : "";
}

bool wf_onnx_attr_is_obsolete(wf_span_t name, int64_t opset)
{
    return opset < 6 && wf_span_equal(name, "consumed_inputs");
}

static wf_status_t check_one(const wf_pb_attribute_t *attribute, const wf_onnx_meaning_t *meaning)
{
    const char *extra = meaning->rule != NULL ? meaning->rule->attrs : "";
    spec_t spec;
    wf_attr_kind_t kind;
    uint64_t count;
    if (!find_spec(extra, attribute->name, &spec) &&
        !find_spec(op_attrs(meaning->op), attribute->name, &spec)) {
        return WF_ERROR(MODEL_UNSUPPORTED, "attribute %.*s is not known in operator set %lld",
                        WF_SPAN_ARGS(attribute->name), (long long)meaning->opset);
    }
    WF_TRY(attr_kind(attribute, &kind));
    if (strlen(kinds[kind].word) != spec.kind_bytes ||
        memcmp(kinds[kind].word, spec.kind, spec.kind_bytes) != 0) {
        return WF_ERROR(MODEL_INVALID, "attribute %.*s is %s, not %s", WF_SPAN_ARGS(attribute->name),
                        kinds[kind].what, kind_what(&spec));
    }
    if (attribute->ref_attr_name.bytes > 0) {
        return WF_OK;
    }
    if (kind == WF_ATTR_INTS || kind == WF_ATTR_FLOATS) {
        bool ints = kind == WF_ATTR_INTS;
        return count_numbers(attribute, ints ? FIELD_INTS : FIELD_FLOATS,
                             ints ? WF_WIRE_VARINT : WF_WIRE_FIXED32, &count);
    }
    if (kind == WF_ATTR_TENSOR) {
        static const wf_pb_tensor_t absent;
        wf_type_t type;
        const wf_pb_tensor_t *tensor = attribute->t != NULL ? attribute->t : &absent;
        wf_status_t status = wf_onnx_tensor_type(tensor, &type);
        if (status == WF_OK) {
            status = wf_onnx_tensor_check(tensor, &type);
        }
        return wf_status_annotated(status, "attribute %.*s", WF_SPAN_ARGS(attribute->name));
    }
    return WF_OK;
}

static bool has_attribute(const wf_pb_node_t *node, const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < node->attribute.count; i++) {
        wf_span_t own = node->attribute.items[i].name;
        if (own.bytes == name_bytes && memcmp(own.data, name, name_bytes) == 0) {
            return true;
        }
    }
    return false;
}

static wf_status_t check_required(const wf_pb_node_t *node, const char *text)
{
    spec_t spec;
    while (next_spec(&text, &spec)) {
        if (spec.required && !has_attribute(node, spec.name, spec.name_bytes)) {
            return WF_ERROR(MODEL_INVALID, "attribute %.*s is missing", (int)spec.name_bytes, spec.name);
        }
    }
    return WF_OK;
}

static wf_status_t check_names(const wf_pb_node_t *node)
{
    for (size_t i = 0; i < node->attribute.count; i++) {
        wf_span_t name = node->attribute.items[i].name;
        for (size_t k = 0; k < i; k++) {
            if (wf_span_same(name, node->attribute.items[k].name)) {
                return WF_ERROR(MODEL_INVALID, "attribute %.*s is given twice", WF_SPAN_ARGS(name));
            }
        }
    }
    return WF_OK;
}

/* Inputs that have to be there, and not more than there may be. */
static wf_status_t check_counts(const wf_pb_node_t *node, wf_op_t op)
{
    const wf_op_info_t *info = wf_op_info(op);
    if (info->input_max >= 0 && node->input.count > (size_t)info->input_max) {
        return WF_ERROR(MODEL_INVALID, "%zu inputs, at most %d are possible", node->input.count,
                        info->input_max);
    }
    if (node->output.count < (size_t)info->output_min ||
        (info->output_max >= 0 && node->output.count > (size_t)info->output_max)) {
        return WF_ERROR(MODEL_INVALID, "%zu outputs are not possible", node->output.count);
    }
    for (size_t i = 0; i < (size_t)info->input_min; i++) {
        bool present = i < node->input.count && node->input.items[i].bytes > 0;
        const char *text = info->attrs_text;
        spec_t spec;
        while (!present && next_spec(&text, &spec)) {
            present = spec.from_input == (int32_t)i && has_attribute(node, spec.name, spec.name_bytes);
        }
        if (!present) {
            return WF_ERROR(MODEL_INVALID, "input %zu is missing", i);
        }
    }
    return WF_OK;
}

wf_status_t wf_onnx_node_check(const wf_pb_node_t *node, const wf_onnx_meaning_t *meaning)
{
    WF_TRY(check_names(node));
    if (meaning->kind == WF_ONNX_FUNCTION || meaning->kind == WF_ONNX_FLOW) {
        return WF_OK;
    }
    for (size_t i = 0; i < node->attribute.count; i++) {
        if (!wf_onnx_attr_is_obsolete(node->attribute.items[i].name, meaning->opset)) {
            WF_TRY(check_one(&node->attribute.items[i], meaning));
        }
    }
    if (meaning->kind == WF_ONNX_OPERATOR) {
        WF_TRY(check_counts(node, meaning->op));
        return check_required(node, op_attrs(meaning->op));
    }
    return check_required(node, meaning->rule->attrs);
}

/* ---- Texts ---- */

wf_status_t wf_onnx_op_text(const wf_pb_node_t *node, wf_arena_t *arena, const char **out_text)
{
    if (is_default_domain(node->domain)) {
        return wf_arena_text(arena, (const char *)node->op_type.data, node->op_type.bytes, out_text);
    }
    return wf_arena_format(arena, out_text, "%.*s.%.*s", WF_SPAN_ARGS(node->domain),
                           WF_SPAN_ARGS(node->op_type));
}

wf_status_t wf_onnx_node_text(const wf_pb_node_t *node, size_t index, wf_arena_t *arena,
                              const char **out_text)
{
    wf_span_t name = node->name;
    for (size_t i = 0; name.bytes == 0 && i < node->output.count; i++) {
        name = node->output.items[i];
    }
    return name.bytes > 0 ? wf_arena_text(arena, (const char *)name.data, name.bytes, out_text)
                          : wf_arena_format(arena, out_text, "#%zu", index);
}
