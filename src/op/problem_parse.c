/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/compiler.h"
#include "op/literal.h"
#include "op/problem_text.h"
#include "op/shape.h"

/* The longest operator name, attribute name or dtype. */
#define WORD_MAX 64

typedef struct parser {
    const char *text;
    const char *at;
    const char *end;
    wf_arena_t *arena;
    wf_problem_operand_t *operands; /* of all parts; room for WF_PROBLEM_MAX_OPERANDS */
    size_t operand_count;
} parser_t;

/* ---- Characters ---- */

static wf_status_t fail(const parser_t *self, const char *expected)
{
    return WF_ERROR(MODEL_INVALID, "problem text, position %zu: expected %s", (size_t)(self->at - self->text),
                    expected);
}

static bool at_char(const parser_t *self, char c)
{
    return self->at != self->end && *self->at == c;
}

static bool take(parser_t *self, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(self->end - self->at) < length || memcmp(self->at, word, length) != 0) {
        return false;
    }
    self->at += length;
    return true;
}

static wf_status_t need(parser_t *self, const char *word)
{
    return take(self, word) ? WF_OK : fail(self, word);
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* A name, copied to out with its zero. */
static wf_status_t take_word(parser_t *self, const char *what, char out[WORD_MAX])
{
    size_t length = 0;
    while (self->at + length != self->end && is_word_char(self->at[length])) {
        length++;
    }
    if (length == 0 || length >= WORD_MAX) {
        return fail(self, what);
    }
    memcpy(out, self->at, length);
    out[length] = '\0';
    self->at += length;
    return WF_OK;
}

static wf_status_t take_int(parser_t *self, int64_t *out)
{
    size_t length = at_char(self, '-') ? 1 : 0;
    while (self->at + length != self->end && self->at[length] >= '0' && self->at[length] <= '9') {
        length++;
    }
    if (!wf_literal_int(self->at, length, out)) {
        return fail(self, "an integer");
    }
    self->at += length;
    return WF_OK;
}

static wf_status_t take_float(parser_t *self, float *out)
{
    size_t length = 0;
    while (self->at + length != self->end && strchr(", }", self->at[length]) == NULL) {
        length++;
    }
    if (!wf_literal_float(self->at, length, out)) {
        return fail(self, "a float");
    }
    self->at += length;
    return WF_OK;
}

/* ---- Types ---- */

static wf_status_t take_type(parser_t *self, wf_type_t *out_type)
{
    char word[WORD_MAX];
    const char *begin = self->at;
    WF_TRY(take_word(self, "an element type", word));
    *out_type = (wf_type_t){.dtype = wf_dtype_from_name(word)};
    if (out_type->dtype == WF_DTYPE_NONE) {
        self->at = begin;
        return fail(self, "an element type");
    }
    WF_TRY(need(self, "["));
    for (bool more = !at_char(self, ']'); more; more = take(self, ",")) {
        if (out_type->rank == WF_MAX_RANK) {
            return fail(self, "] (tensors of more than 8 axes are not supported)");
        }
        int64_t dim;
        begin = self->at;
        WF_TRY(take_int(self, &dim));
        if (dim < 0) {
            self->at = begin;
            return fail(self, "a dimension");
        }
        out_type->dims[out_type->rank++] = dim;
    }
    return need(self, "]");
}

/* "_" that is not the beginning of a label. */
static bool take_absent(parser_t *self)
{
    if (at_char(self, '_') &&
        (self->at + 1 == self->end || !(is_word_char(self->at[1]) || self->at[1] == ':'))) {
        self->at++;
        return true;
    }
    return false;
}

static wf_status_t take_operand(parser_t *self)
{
    if (self->operand_count == WF_PROBLEM_MAX_OPERANDS) {
        return fail(self, "no more operands");
    }
    wf_problem_operand_t *operand = &self->operands[self->operand_count++];
    if (take_absent(self)) {
        return WF_OK;
    }
    char label[WORD_MAX];
    WF_TRY(take_word(self, "an operand", label));
    WF_TRY(need(self, ":"));
    WF_TRY(take_type(self, &operand->type));
    operand->is_const = take(self, "const");
    return WF_OK;
}

static wf_status_t take_operands(parser_t *self, wf_problem_part_t *part)
{
    part->operands = self->operands + self->operand_count;
    size_t first = self->operand_count;
    if (!take(self, "(")) {
        return WF_OK;
    }
    while (!take(self, ")")) {
        if (self->operand_count > first) {
            WF_TRY(need(self, ","));
        }
        WF_TRY(take_operand(self));
    }
    part->operand_count = self->operand_count - first;
    return WF_OK;
}

/* ---- Attributes ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Two hexadecimal digits. */
static wf_status_t take_byte(parser_t *self, unsigned char *out)
{
    int high = self->end - self->at >= 2 ? hex_digit(self->at[0]) : -1;
    int low = high >= 0 ? hex_digit(self->at[1]) : -1;
    if (low < 0) {
        return fail(self, "two hexadecimal digits");
    }
    *out = (unsigned char)(high * 16 + low);
    self->at += 2;
    return WF_OK;
}

static wf_status_t take_string(parser_t *self, const char **out, size_t *out_length)
{
    const char *begin = self->at;
    if (!take(self, "'")) {
        while (self->at != self->end && is_word_char(*self->at)) {
            self->at++;
        }
        *out_length = (size_t)(self->at - begin);
        return *out_length > 0 ? wf_arena_text(self->arena, begin, *out_length, out) : fail(self, "a string");
    }
    const char *close = memchr(self->at, '\'', (size_t)(self->end - self->at));
    if (close == NULL) {
        return fail(self, "a closing quote");
    }
    char *copy;
    size_t length = 0;
    WF_TRY(wf_arena_alloc(self->arena, (size_t)(close - self->at) + 1, 1, &copy));
    while (self->at != close) {
        unsigned char c = (unsigned char)*self->at++;
        if (c == '\\') {
            WF_TRY(take_byte(self, &c));
            if (self->at > close) {
                return fail(self, "a closing quote");
            }
        }
        copy[length++] = (char)c;
    }
    self->at++;
    *out = copy;
    *out_length = length;
    return WF_OK;
}

static wf_status_t take_tensor(parser_t *self, wf_attr_t *attr)
{
    wf_tensor_t *tensor;
    WF_TRY(wf_arena_alloc(self->arena, 1, sizeof *tensor, &tensor));
    WF_TRY(take_type(self, &tensor->type));
    WF_TRY(need(self, ":"));
    int64_t bytes = wf_type_bytes(&tensor->type);
    if (bytes < 0 || bytes > (self->end - self->at) / 2) {
        return fail(self, "the bytes of the tensor");
    }
    unsigned char *data;
    WF_TRY(wf_arena_alloc(self->arena, (size_t)bytes, 1, &data));
    for (int64_t i = 0; i < bytes; i++) {
        WF_TRY(take_byte(self, &data[i]));
    }
    tensor->data = data;
    attr->v.tensor = tensor;
    return WF_OK;
}

/* Elements of a list are as wide as their kind; the list may be empty. */
static wf_status_t take_list(parser_t *self, wf_attr_t *attr)
{
    size_t elem_bytes = attr->kind == WF_ATTR_INTS     ? sizeof(int64_t)
                        : attr->kind == WF_ATTR_FLOATS ? sizeof(float)
                                                       : sizeof(const char *);
    WF_VEC(char) items = {0};
    wf_status_t status = WF_OK;
    bool more = self->at != self->end && !at_char(self, ' ') && !at_char(self, '}');
    while (status == WF_OK && more) {
        void *item;
        status = wf_vec_grow(self->arena->allocator, &items, elem_bytes, &item);
        if (status != WF_OK) {
            break;
        }
        size_t length = 0;
        if (attr->kind == WF_ATTR_INTS) {
            status = take_int(self, item);
        } else if (attr->kind == WF_ATTR_FLOATS) {
            status = take_float(self, item);
        } else {
            status = take_string(self, item, &length);
        }
        more = take(self, ",");
    }
    void *copy = NULL;
    if (status == WF_OK) {
        status = wf_arena_alloc(self->arena, items.count, elem_bytes, &copy);
    }
    if (status == WF_OK && items.count > 0) {
        memcpy(copy, items.items, items.count * elem_bytes);
    }
    attr->count = items.count;
    attr->v.ints = copy;
    wf_vec_free(self->arena->allocator, &items, elem_bytes);
    return status;
}

static wf_status_t take_value(parser_t *self, wf_attr_t *attr)
{
    switch (attr->kind) {
    case WF_ATTR_INT:
        return take_int(self, &attr->v.i);
    case WF_ATTR_FLOAT:
        return take_float(self, &attr->v.f);
    case WF_ATTR_STRING:
        return take_string(self, &attr->v.s, &attr->count);
    case WF_ATTR_TENSOR:
        return take_tensor(self, attr);
    default:
        return take_list(self, attr);
    }
}

static const wf_attr_spec_t *find_spec(const wf_attr_specs_t *specs, const char *name)
{
    for (size_t i = 0; i < specs->count; i++) {
        if (strcmp(specs->items[i].name, name) == 0) {
            return &specs->items[i];
        }
    }
    return NULL;
}

static wf_status_t take_attrs(parser_t *self, wf_problem_part_t *part)
{
    if (!take(self, "{")) {
        return WF_OK;
    }
    wf_attr_specs_t specs;
    wf_op_attr_specs(part->op, &specs);
    wf_attr_t *items;
    size_t count = 0;
    WF_TRY(wf_arena_alloc(self->arena, specs.count, sizeof *items, &items));
    do {
        char key[WORD_MAX];
        const char *begin = self->at;
        WF_TRY(take_word(self, "an attribute", key));
        const wf_attr_spec_t *spec = find_spec(&specs, wf_problem_name_of(key));
        if (spec == NULL || count == specs.count) {
            self->at = begin;
            return fail(self, "an attribute of the operator");
        }
        wf_attr_t *item = &items[count++];
        item->kind = spec->kind;
        WF_TRY(wf_arena_text(self->arena, spec->name, strlen(spec->name), &item->name));
        WF_TRY(need(self, "="));
        WF_TRY(take_value(self, item));
    } while (take(self, " "));
    part->attrs = (wf_attrs_t){.items = items, .count = count};
    return need(self, "}");
}

/* ---- Stages ---- */

static wf_status_t take_chain(parser_t *self, uint32_t *out_mask)
{
    *out_mask = 1;
    if (!take(self, "@")) {
        return WF_OK;
    }
    *out_mask = 0;
    do {
        int64_t input;
        WF_TRY(take_int(self, &input));
        if (input < 0 || input > 31 || (*out_mask >> input) != 0) {
            return fail(self, "ascending input numbers below 32");
        }
        *out_mask |= UINT32_C(1) << input;
    } while (take(self, "&"));
    return WF_OK;
}

static wf_status_t take_part(parser_t *self, bool is_root, wf_problem_part_t *part)
{
    char name[WORD_MAX];
    const char *begin = self->at;
    WF_TRY(take_word(self, "an operator", name));
    *part = (wf_problem_part_t){0};
    if (!wf_op_from_problem_name(name, &part->op)) {
        self->at = begin;
        return fail(self, "an operator");
    }
    if (!is_root) {
        WF_TRY(take_chain(self, &part->chain_mask));
    } else if (!at_char(self, '(')) {
        return fail(self, "(");
    }
    WF_TRY(take_operands(self, part));
    return take_attrs(self, part);
}

/* The outputs up to the end of the text. Each takes two characters at least. */
static wf_status_t take_outputs(parser_t *self, wf_type_t **out_outputs, size_t *out_count)
{
    size_t room = WF_MIN((size_t)(self->end - self->at) / 2 + 1, (size_t)WF_PROBLEM_MAX_OPERANDS);
    wf_type_t *outputs;
    size_t count = 0;
    WF_TRY(wf_arena_alloc(self->arena, room, sizeof *outputs, &outputs));
    do {
        if (count == room) {
            return fail(self, "no more outputs");
        }
        wf_type_t *output = &outputs[count++];
        if (!take_absent(self)) {
            WF_TRY(take_type(self, output));
        }
    } while (take(self, ","));
    *out_outputs = outputs;
    *out_count = count;
    return self->at == self->end ? WF_OK : fail(self, "the end");
}

/* Commas are a bound for the operands of all stages. */
static size_t count_operands(const char *text, size_t bytes)
{
    size_t count = 1;
    for (size_t i = 0; i < bytes; i++) {
        count += text[i] == ',' || text[i] == '(' ? 1 : 0;
    }
    return WF_MIN(count, (size_t)WF_PROBLEM_MAX_OPERANDS);
}

static wf_status_t parse(const char *text, size_t text_bytes, wf_arena_t *arena,
                         const wf_problem_t **out_problem)
{
    parser_t self = {.text = text, .at = text, .end = text + text_bytes, .arena = arena};
    if (text_bytes > WF_PROBLEM_MAX_TEXT_BYTES) {
        return WF_ERROR(MODEL_INVALID, "problem text of %zu bytes is too long", text_bytes);
    }
    WF_TRY(wf_arena_alloc(arena, count_operands(text, text_bytes), sizeof *self.operands, &self.operands));
    wf_problem_part_t parts[WF_PROBLEM_MAX_STAGES];
    size_t part_count = 0;
    WF_TRY(need(&self, "v1 "));
    do {
        if (part_count == WF_PROBLEM_MAX_STAGES) {
            return fail(&self, "no more stages");
        }
        WF_TRY(take_part(&self, part_count == 0, &parts[part_count]));
        part_count++;
    } while (take(&self, "+"));
    WF_TRY(need(&self, "->"));
    wf_type_t *outputs = NULL;
    size_t output_count = 0;
    WF_TRY(take_outputs(&self, &outputs, &output_count));
    return wf_problem_build(parts, part_count, outputs, output_count, arena, out_problem);
}

wf_status_t wf_problem_parse(const char *text, size_t text_bytes, wf_arena_t *arena,
                             const wf_problem_t **out_problem)
{
    wf_status_t status = parse(text, text_bytes, arena, out_problem);
    wf_code_t code = wf_status_code(status);
    if (code != WF_CODE_MODEL_UNSUPPORTED && code != WF_CODE_MODEL_LIMIT) {
        return status;
    }
    /* One code for text that is no problem, whatever is wrong with it. */
    wf_status_t invalid = WF_ERROR(MODEL_INVALID, "%s", wf_status_message(status));
    wf_status_free(status);
    return invalid;
}
