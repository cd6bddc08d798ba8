/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/compiler.h"
#include "op/literal.h"
#include "op/problem_text.h"

static const struct short_key {
    const char *name;
    const char *key;
} short_keys[] = {
    {"dilations", "dil"},
    {"kernel_shape", "kernel"},
    {"strides", "str"},
};

const char *wf_problem_key_of(const char *attr_name)
{
    for (size_t i = 0; i < WF_COUNT_OF(short_keys); i++) {
        if (strcmp(short_keys[i].name, attr_name) == 0) {
            return short_keys[i].key;
        }
    }
    return attr_name;
}

const char *wf_problem_name_of(const char *key)
{
    for (size_t i = 0; i < WF_COUNT_OF(short_keys); i++) {
        if (strcmp(short_keys[i].key, key) == 0) {
            return short_keys[i].name;
        }
    }
    return key;
}

static void print_dims(wf_text_t *text, const wf_type_t *type)
{
    wf_text_printf(text, "%s[", wf_dtype_name(type->dtype));
    for (uint32_t i = 0; i < type->rank; i++) {
        wf_text_printf(text, i == 0 ? "%lld" : ",%lld", (long long)type->dims[i]);
    }
    wf_text_puts(text, "]");
}

static void print_label(wf_text_t *text, size_t index)
{
    static const char letters[] = "xyzabcdefghijklmnopqrstuvw";
    wf_text_append(text, &letters[index % 26], 1);
    if (index >= 26) {
        wf_text_printf(text, "%zu", index / 26);
    }
}

static void print_operands(wf_text_t *text, const wf_problem_operand_t *operands, size_t count)
{
    wf_text_puts(text, "(");
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            wf_text_puts(text, ",");
        }
        if (operands[i].type.dtype == WF_DTYPE_NONE) {
            wf_text_puts(text, "_");
            continue;
        }
        print_label(text, i);
        wf_text_puts(text, ":");
        print_dims(text, &operands[i].type);
        wf_text_puts(text, operands[i].is_const ? "const" : "");
    }
    wf_text_puts(text, ")");
}

/* ---- Attributes ---- */

static bool is_word(const char *string, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char c = string[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                     c == '.';
        if (!plain) {
            return false;
        }
    }
    return length > 0;
}

static void print_string(wf_text_t *text, const char *string, size_t length)
{
    if (is_word(string, length)) {
        wf_text_append(text, string, length);
        return;
    }
    wf_text_puts(text, "'");
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)string[i];
        if (c < 0x20 || c > 0x7e || c == '\'' || c == '\\') {
            wf_text_printf(text, "\\%02x", c);
        } else {
            wf_text_append(text, &string[i], 1);
        }
    }
    wf_text_puts(text, "'");
}

static void print_float(wf_text_t *text, float value)
{
    char digits[WF_LITERAL_FLOAT_MAX];
    wf_literal_print_float(value, digits);
    wf_text_puts(text, digits);
}

static void print_tensor(wf_text_t *text, const wf_tensor_t *tensor)
{
    print_dims(text, &tensor->type);
    wf_text_puts(text, ":");
    const unsigned char *bytes = tensor->data;
    for (int64_t i = 0; i < wf_type_bytes(&tensor->type) && text->status == WF_OK; i++) {
        wf_text_printf(text, "%02x", bytes[i]);
    }
}

static void print_value(wf_text_t *text, const wf_attr_t *attr)
{
    switch (attr->kind) {
    case WF_ATTR_INT:
        wf_text_printf(text, "%lld", (long long)attr->v.i);
        break;
    case WF_ATTR_FLOAT:
        print_float(text, attr->v.f);
        break;
    case WF_ATTR_STRING:
        print_string(text, attr->v.s, attr->count);
        break;
    case WF_ATTR_TENSOR:
        print_tensor(text, attr->v.tensor);
        break;
    default:
        for (size_t i = 0; i < attr->count && text->status == WF_OK; i++) {
            wf_text_puts(text, i > 0 ? "," : "");
            if (attr->kind == WF_ATTR_INTS) {
                wf_text_printf(text, "%lld", (long long)attr->v.ints[i]);
            } else if (attr->kind == WF_ATTR_FLOATS) {
                print_float(text, attr->v.floats[i]);
            } else {
                print_string(text, attr->v.strings[i], strlen(attr->v.strings[i]));
            }
        }
    }
}

static void print_attrs(wf_text_t *text, const wf_attrs_t *attrs)
{
    for (size_t i = 0; i < attrs->count; i++) {
        wf_text_printf(text, "%s%s=", i == 0 ? "{" : " ", wf_problem_key_of(attrs->items[i].name));
        print_value(text, &attrs->items[i]);
    }
    wf_text_puts(text, attrs->count > 0 ? "}" : "");
}

/* ---- Stages ---- */

static void print_chain(wf_text_t *text, uint32_t mask)
{
    const char *before = "@";
    for (uint32_t i = 0; mask != 1 && i < 32; i++) {
        if ((mask >> i & 1) != 0) {
            wf_text_printf(text, "%s%u", before, i);
            before = "&";
        }
    }
}

static void print_stage(wf_text_t *text, const wf_problem_t *problem, size_t index)
{
    const wf_problem_stage_t *stage = &problem->stages[index];
    wf_text_puts(text, index > 0 ? "+" : "");
    wf_text_puts(text, wf_op_problem_name(stage->op));
    if (index > 0) {
        print_chain(text, stage->chain_mask);
    }
    if (index == 0 || stage->operand_count > 0) {
        print_operands(text, problem->operands + stage->first_operand, stage->operand_count);
    }
    print_attrs(text, &stage->attrs);
}

wf_status_t wf_problem_print(const wf_problem_t *problem, wf_arena_t *arena, const char **out_text)
{
    wf_text_t text;
    wf_text_init(&text, arena->allocator, WF_PROBLEM_MAX_TEXT_BYTES);
    wf_text_puts(&text, "v1 ");
    for (size_t i = 0; i < problem->stage_count; i++) {
        print_stage(&text, problem, i);
    }
    for (size_t i = 0; i < problem->output_count; i++) {
        wf_text_puts(&text, i == 0 ? "->" : ",");
        if (problem->outputs[i].dtype == WF_DTYPE_NONE) {
            wf_text_puts(&text, "_");
        } else {
            print_dims(&text, &problem->outputs[i]);
        }
    }
    wf_status_t status = wf_text_take_status(&text);
    if (status == WF_OK) {
        status = wf_arena_text(arena, text.data, text.length, out_text);
    }
    wf_text_deinit(&text);
    return status;
}
