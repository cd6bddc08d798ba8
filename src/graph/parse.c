/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: reading the text form. One token of look-ahead, no recursion. Every size is bounded by the text's,
 * except constants made from a seed ("= ~7": uniform in [-1, 1), for texts that stand for a model without its
 * weights), which have a limit. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "graph/constant.h"
#include "graph/internal.h"

enum { MAX_TEXT_BYTES = 256 << 20, MAX_WORD_BYTES = 64 << 10, MAX_SEEDED_ELEMS = 1 << 26 };

typedef enum token_kind {
    TOKEN_END,
    TOKEN_WORD,   /* plain characters */
    TOKEN_QUOTED, /* "..." */
    TOKEN_PUNCT   /* one character */
} token_kind_t;

typedef struct parser {
    wf_graph_t *graph;
    const char *at, *end, *line_start;
    uint32_t line;
    /* the token looked at */
    token_kind_t kind;
    const char *token_start;
    uint32_t token_line, token_column;
    wf_text_t word; /* decoded */
    char punct;
    /* lists of the line being read */
    WF_VEC(wf_value_id) inputs;
    WF_VEC(const char *) output_names;
    WF_VEC(wf_value_id) outputs;
    WF_VEC(wf_attr_t) attrs;
} parser_t;

#define FAIL(self, ...)                                                                                 \
    wf_status_annotated(WF_ERROR(MODEL_INVALID, __VA_ARGS__), "line %u, column %u", (self)->token_line, \
                        (self)->token_column)

/* ---- Tokens ---- */

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_.:/~+-", c) != NULL);
}

static void skip_blanks(parser_t *self)
{
    while (self->at < self->end) {
        if (*self->at == ';') {
            while (self->at < self->end && *self->at != '\n') {
                self->at++;
            }
        } else if (*self->at == '\n') {
            self->line++;
            self->line_start = ++self->at;
        } else if (*self->at == ' ' || *self->at == '\t' || *self->at == '\r') {
            self->at++;
        } else {
            return;
        }
    }
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *found = c != '\0' ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

static wf_status_t read_quoted(parser_t *self)
{
    self->at++;
    while (self->at < self->end && *self->at != '"' && *self->at != '\n') {
        char c = *self->at++;
        if (c == '\\') {
            char kind = self->at < self->end ? *self->at++ : '\0';
            c = kind;
            if (kind == 'x') {
                int high = self->end - self->at >= 2 ? hex_digit(self->at[0]) : -1;
                int low = high >= 0 ? hex_digit(self->at[1]) : -1;
                if (low < 0 || (high == 0 && low == 0)) {
                    return FAIL(self, "\\x needs two hexadecimal digits, not 00");
                }
                c = (char)(high * 16 + low);
                self->at += 2;
            } else if (kind != '"' && kind != '\\') {
                return FAIL(self, "unknown escape in a quoted name");
            }
        }
        if (c == '\0') {
            return FAIL(self, "zero byte in a quoted name");
        }
        wf_text_append(&self->word, &c, 1);
    }
    if (self->at == self->end || *self->at != '"') {
        return FAIL(self, "quoted name without end");
    }
    self->at++;
    return WF_OK;
}

static wf_status_t advance(parser_t *self)
{
    skip_blanks(self);
    self->token_start = self->at;
    self->token_line = self->line;
    self->token_column = (uint32_t)(self->at - self->line_start) + 1;
    self->word.length = 0;
    if (self->at == self->end) {
        self->kind = TOKEN_END;
    } else if (*self->at == '"') {
        self->kind = TOKEN_QUOTED;
        WF_TRY(read_quoted(self));
    } else if (is_word_char(*self->at)) {
        self->kind = TOKEN_WORD;
        while (self->at < self->end && is_word_char(*self->at)) {
            self->at++;
        }
        /* "%x: f32[2]": a colon at the end is no part of the name (print.c quotes names that end with one).
         */
        self->at -= self->at - self->token_start > 1 && self->at[-1] == ':';
        wf_text_append(&self->word, self->token_start, (size_t)(self->at - self->token_start));
    } else {
        self->kind = TOKEN_PUNCT;
        self->punct = *self->at++;
    }
    if (self->word.length > MAX_WORD_BYTES) {
        return FAIL(self, "name longer than %d bytes", MAX_WORD_BYTES);
    }
    return wf_text_take_status(&self->word);
}

static bool is_punct(const parser_t *self, char c)
{
    return self->kind == TOKEN_PUNCT && self->punct == c;
}

static bool is_word(const parser_t *self, const char *word)
{
    return self->kind == TOKEN_WORD && strcmp(wf_text_cstr(&self->word), word) == 0;
}

/* Steps over the character; *out tells whether it was there. */
static wf_status_t accept(parser_t *self, char c, bool *out)
{
    *out = is_punct(self, c);
    return *out ? advance(self) : WF_OK;
}

static wf_status_t expect(parser_t *self, char c)
{
    return is_punct(self, c) ? advance(self) : FAIL(self, "'%c' expected", c);
}

/* A word or a quoted string, copied into the arena. */
static wf_status_t take_string(parser_t *self, const char **out)
{
    if (self->kind != TOKEN_WORD && self->kind != TOKEN_QUOTED) {
        return FAIL(self, "name expected");
    }
    WF_TRY(wf_arena_text(&self->graph->arena, wf_text_cstr(&self->word), self->word.length, out));
    return advance(self);
}

static wf_status_t take_int(parser_t *self, int64_t *out)
{
    const char *word = wf_text_cstr(&self->word);
    char *end = NULL;
    errno = 0;
    *out = strtoll(word, &end, 10);
    if (self->kind != TOKEN_WORD || end == word || *end != '\0' || errno != 0) {
        return FAIL(self, "integer expected");
    }
    return advance(self);
}

static wf_status_t take_unsigned(parser_t *self, uint64_t *out)
{
    const char *word = wf_text_cstr(&self->word);
    char *end = NULL;
    errno = 0;
    *out = strtoull(word, &end, 10);
    if (self->kind != TOKEN_WORD || end == word || *end != '\0' || errno != 0 || word[0] == '-') {
        return FAIL(self, "unsigned integer expected");
    }
    return advance(self);
}

static wf_status_t take_double(parser_t *self, double *out)
{
    const char *word = wf_text_cstr(&self->word);
    char *end = NULL;
    *out = strtod(word, &end);
    if (self->kind != TOKEN_WORD || end == word || *end != '\0') {
        return FAIL(self, "number expected");
    }
    return advance(self);
}

/* ---- Types and constants ---- */

static wf_status_t take_type(parser_t *self, wf_type_t *out_type)
{
    bool more = false;
    *out_type = (wf_type_t){.dtype = WF_DTYPE_NONE};
    if (self->kind == TOKEN_WORD) {
        out_type->dtype = wf_dtype_from_name(wf_text_cstr(&self->word));
    }
    if (out_type->dtype == WF_DTYPE_NONE || wf_dtype_bits(out_type->dtype) == 0) {
        return FAIL(self, "element type expected");
    }
    WF_TRY(advance(self));
    WF_TRY(expect(self, '['));
    while (!is_punct(self, ']')) {
        if (out_type->rank == WF_MAX_RANK) {
            return FAIL(self, "more than %d dims", WF_MAX_RANK);
        }
        int64_t *dim = &out_type->dims[out_type->rank++];
        WF_TRY(take_int(self, dim));
        if (*dim < 0) {
            return FAIL(self, "negative dim");
        }
        WF_TRY(accept(self, ',', &more));
        if (!more) {
            break;
        }
    }
    WF_TRY(expect(self, ']'));
    return wf_type_bytes(out_type) >= 0 ? WF_OK : FAIL(self, "type is too large");
}

static wf_status_t take_elem(parser_t *self, const wf_tensor_t *tensor, int64_t index)
{
    double value = 0.0;
    if (tensor->type.dtype == WF_DTYPE_I64) {
        int64_t exact = 0;
        WF_TRY(take_int(self, &exact));
        memcpy((char *)tensor->data + index * 8, &exact, sizeof exact);
        return WF_OK;
    }
    if (tensor->type.dtype == WF_DTYPE_U64) {
        uint64_t exact = 0;
        WF_TRY(take_unsigned(self, &exact));
        memcpy((char *)tensor->data + index * 8, &exact, sizeof exact);
        return WF_OK;
    }
    WF_TRY(take_double(self, &value));
    return wf_constant_set(tensor, index, value) ? WF_OK
                                                 : FAIL(self, "value is not possible for the element type");
}

/* splitmix64 (Steele, Lea, Flood 2014): one multiply-shift chain a value, any seed. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static wf_status_t fill_seeded(parser_t *self, const wf_tensor_t *tensor, int64_t elems)
{
    char *end = NULL;
    const char *word = wf_text_cstr(&self->word);
    uint64_t state = strtoull(word + 1, &end, 10);
    if (end == word + 1 || *end != '\0') {
        return FAIL(self, "seed expected after '~'");
    }
    for (int64_t i = 0; i < elems; i++) {
        double value = (double)(next_random(&state) >> 11) * 0x1p-52 - 1.0;
        if (!wf_constant_set(tensor, i, value)) {
            return FAIL(self, "element type cannot be made from a seed");
        }
    }
    return advance(self);
}

/* What follows a constant's type: {1, 2} or ~seed. */
static wf_status_t take_values(parser_t *self, const wf_type_t *type, wf_tensor_t *out_tensor)
{
    int64_t elems = wf_type_elems(type);
    bool seeded = self->kind == TOKEN_WORD && wf_text_cstr(&self->word)[0] == '~';
    bool more = false;
    if (is_punct(self, '#')) {
        return FAIL(self, "constant has no values here, only their hash");
    }
    if (!seeded && !is_punct(self, '{')) {
        return FAIL(self, "values expected");
    }
    /* Each element takes a byte of text at least, so a type larger than what is left is refused before memory
     * is taken. */
    if (elems < 0 || elems > (seeded ? MAX_SEEDED_ELEMS : self->end - self->token_start)) {
        return FAIL(self, "%lld values are not given here", (long long)elems);
    }
    *out_tensor = (wf_tensor_t){.type = *type};
    WF_TRY(
        wf_arena_alloc(&self->graph->arena, (size_t)WF_MAX(wf_type_bytes(type), 16), 1, &out_tensor->data));
    if (seeded) {
        return fill_seeded(self, out_tensor, elems);
    }
    WF_TRY(advance(self));
    for (int64_t i = 0; i < elems; i++) {
        if (i > 0) {
            WF_TRY(expect(self, ','));
        }
        WF_TRY(take_elem(self, out_tensor, i));
    }
    WF_TRY(accept(self, ',', &more));
    return more ? FAIL(self, "more values than the type has") : expect(self, '}');
}

/* ---- Names of values ---- */

/* "%name", or "_" when absent is allowed (then *out_name is NULL). */
static wf_status_t take_value_name(parser_t *self, bool absent_allowed, const char **out_name)
{
    if (absent_allowed && is_word(self, "_")) {
        *out_name = NULL;
        return advance(self);
    }
    WF_TRY(expect(self, '%'));
    WF_TRY(take_string(self, out_name));
    return (*out_name)[0] != '\0' ? WF_OK : FAIL(self, "empty name");
}

static wf_status_t find_value(parser_t *self, const char *name, wf_value_id *out_value)
{
    uint64_t found;
    if (!wf_map_get(&self->graph->value_names, name, strlen(name), &found)) {
        return FAIL(self, "value %s is not defined before", name);
    }
    *out_value = (wf_value_id)found;
    return WF_OK;
}

static wf_status_t check_new_name(parser_t *self, const char *name)
{
    uint64_t found;
    bool taken = wf_map_get(&self->graph->value_names, name, strlen(name), &found);
    return taken ? FAIL(self, "value %s is defined twice", name) : WF_OK;
}

/* ---- Lines ---- */

static wf_status_t parse_input(parser_t *self)
{
    const char *name = NULL;
    wf_type_t type;
    wf_value_id value;
    WF_TRY(take_value_name(self, false, &name));
    WF_TRY(check_new_name(self, name));
    if (is_word(self, ":")) {
        WF_TRY(advance(self));
    } else {
        return FAIL(self, "':' expected");
    }
    WF_TRY(take_type(self, &type));
    WF_TRY(wf_graph_add_value(self->graph, name, &type, &value));
    return wf_graph_add_input(self->graph, value);
}

static wf_status_t parse_const(parser_t *self)
{
    const char *name = NULL;
    wf_type_t type;
    wf_tensor_t tensor;
    wf_value_id value;
    WF_TRY(take_value_name(self, false, &name));
    WF_TRY(check_new_name(self, name));
    if (is_word(self, ":")) {
        WF_TRY(advance(self));
    } else {
        return FAIL(self, "':' expected");
    }
    WF_TRY(take_type(self, &type));
    WF_TRY(expect(self, '='));
    WF_TRY(take_values(self, &type, &tensor));
    return wf_graph_add_constant(self->graph, name, &type, tensor.data, &value);
}

static wf_status_t parse_output(parser_t *self)
{
    const char *name = NULL;
    wf_value_id value;
    WF_TRY(take_value_name(self, false, &name));
    WF_TRY(find_value(self, name, &value));
    wf_status_t status = wf_graph_add_output(self->graph, value);
    return wf_status_annotated(status, "line %u", self->token_line);
}

/* Items of a list attribute, "[a,b]", collected as 8-byte slots in the arena. */
static wf_status_t take_list(parser_t *self, wf_attr_t *attr)
{
    wf_allocator_t allocator = self->graph->arena.allocator;
    WF_VEC(int64_t) ints = {0};
    WF_VEC(float) floats = {0};
    WF_VEC(const char *) strings = {0};
    bool more = true;
    wf_status_t status = expect(self, '[');
    while (status == WF_OK && more && !is_punct(self, ']')) {
        int64_t i = 0;
        double d = 0.0;
        const char *s = NULL;
        if (attr->kind == WF_ATTR_INTS) {
            status = take_int(self, &i);
            status = status == WF_OK ? wf_vec_push(allocator, &ints, &i) : status;
        } else if (attr->kind == WF_ATTR_FLOATS) {
            status = take_double(self, &d);
            float f = (float)d;
            status = status == WF_OK ? wf_vec_push(allocator, &floats, &f) : status;
        } else {
            status = take_string(self, &s);
            status = status == WF_OK ? wf_vec_push(allocator, &strings, &s) : status;
        }
        status = status == WF_OK ? accept(self, ',', &more) : status;
    }
    status = status == WF_OK ? expect(self, ']') : status;
    /* One of the three has items; all are copied the same way. */
    size_t count = ints.count + floats.count + strings.count;
    size_t elem_bytes = attr->kind == WF_ATTR_INTS     ? sizeof *ints.items
                        : attr->kind == WF_ATTR_FLOATS ? sizeof *floats.items
                                                       : sizeof *strings.items;
    const void *items = attr->kind == WF_ATTR_INTS     ? (const void *)ints.items
                        : attr->kind == WF_ATTR_FLOATS ? (const void *)floats.items
                                                       : (const void *)strings.items;
    void *copy = NULL;
    status = status == WF_OK ? wf_arena_alloc(&self->graph->arena, count, elem_bytes, &copy) : status;
    if (status == WF_OK && count > 0) {
        memcpy(copy, items, count * elem_bytes);
    }
    attr->count = count;
    attr->v.ints = copy;
    if (attr->kind == WF_ATTR_FLOATS) {
        attr->v.floats = copy;
    } else if (attr->kind == WF_ATTR_STRINGS) {
        attr->v.strings = copy;
    }
    wf_vec_deinit(allocator, &ints);
    wf_vec_deinit(allocator, &floats);
    wf_vec_deinit(allocator, &strings);
    return status;
}

static wf_status_t take_attr_tensor(parser_t *self, wf_attr_t *attr)
{
    wf_type_t type;
    wf_tensor_t *tensor = NULL;
    WF_TRY(take_type(self, &type));
    WF_TRY(wf_arena_alloc(&self->graph->arena, 1, sizeof *tensor, &tensor));
    attr->v.tensor = tensor;
    return take_values(self, &type, tensor);
}

static wf_status_t take_attr(parser_t *self, const wf_attr_specs_t *specs, wf_attr_t *out_attr)
{
    const wf_attr_spec_t *spec = NULL;
    double d = 0.0;
    for (size_t i = 0; i < specs->count; i++) {
        spec = is_word(self, specs->items[i].name) ? &specs->items[i] : spec;
    }
    if (spec == NULL) {
        return FAIL(self, "attribute is not one of the operator's");
    }
    *out_attr = (wf_attr_t){.kind = spec->kind};
    WF_TRY(take_string(self, &out_attr->name));
    WF_TRY(expect(self, '='));
    switch (spec->kind) {
    case WF_ATTR_INT:
        return take_int(self, &out_attr->v.i);
    case WF_ATTR_FLOAT:
        WF_TRY(take_double(self, &d));
        out_attr->v.f = (float)d;
        return WF_OK;
    case WF_ATTR_STRING:
        WF_TRY(take_string(self, &out_attr->v.s));
        out_attr->count = strlen(out_attr->v.s);
        return WF_OK;
    case WF_ATTR_TENSOR:
        return take_attr_tensor(self, out_attr);
    default:
        return take_list(self, out_attr);
    }
}

static wf_status_t take_op(parser_t *self, wf_op_t *out_op)
{
    const char *word = wf_text_cstr(&self->word);
    size_t length = self->word.length;
    bool internal = length > 3 && strncmp(word, "wf.", 3) == 0;
    bool found =
        self->kind == TOKEN_WORD && (internal ? wf_op_from_internal_name(word + 3, length - 3, out_op)
                                              : wf_op_from_onnx_name(word, length, out_op));
    return found ? advance(self) : FAIL(self, "operator expected");
}

/* "%a, _ = Op(%x, _) {k=v}", from the first name on. */
static wf_status_t parse_node(parser_t *self)
{
    wf_allocator_t allocator = self->graph->arena.allocator;
    wf_attr_specs_t specs;
    wf_op_t op = 0;
    bool more = true;
    self->inputs.count = self->outputs.count = self->output_names.count = self->attrs.count = 0;
    while (more) {
        const char *name = NULL;
        WF_TRY(take_value_name(self, true, &name));
        if (name != NULL) {
            WF_TRY(check_new_name(self, name));
        }
        WF_TRY(wf_vec_push(allocator, &self->output_names, &name));
        WF_TRY(accept(self, ',', &more));
    }
    WF_TRY(expect(self, '='));
    WF_TRY(take_op(self, &op));
    WF_TRY(expect(self, '('));
    more = true;
    while (more && !is_punct(self, ')')) {
        const char *name = NULL;
        wf_value_id value = WF_NO_VALUE;
        WF_TRY(take_value_name(self, true, &name));
        if (name != NULL) {
            WF_TRY(find_value(self, name, &value));
        }
        WF_TRY(wf_vec_push(allocator, &self->inputs, &value));
        WF_TRY(accept(self, ',', &more));
    }
    WF_TRY(expect(self, ')'));
    WF_TRY(accept(self, '{', &more));
    if (more) {
        wf_op_attr_specs(op, &specs);
        while (!is_punct(self, '}')) {
            wf_attr_t attr;
            WF_TRY(take_attr(self, &specs, &attr));
            WF_TRY(wf_vec_push(allocator, &self->attrs, &attr));
        }
        WF_TRY(advance(self));
    }
    for (size_t i = 0; i < self->output_names.count; i++) {
        wf_value_id value = WF_NO_VALUE;
        const char *name = self->output_names.items[i];
        if (name != NULL) {
            WF_TRY(check_new_name(self, name)); /* the same name twice on one line */
            WF_TRY(wf_graph_add_value(self->graph, name, NULL, &value));
        }
        WF_TRY(wf_vec_push(allocator, &self->outputs, &value));
    }
    wf_node_spec_t spec = {.op = op,
                           .attrs = self->attrs.items,
                           .attr_count = self->attrs.count,
                           .inputs = self->inputs.items,
                           .input_count = self->inputs.count,
                           .outputs = self->outputs.items,
                           .output_count = self->outputs.count};
    return wf_status_annotated(wf_graph_add_node(self->graph, &spec, NULL), "line %u", self->token_line);
}

static wf_status_t parse_graph(parser_t *self)
{
    WF_TRY(advance(self));
    if (!is_word(self, "graph")) {
        return FAIL(self, "'graph' expected");
    }
    WF_TRY(advance(self));
    WF_TRY(take_string(self, &self->graph->name));
    WF_TRY(expect(self, '{'));
    while (!is_punct(self, '}')) {
        static const struct {
            const char *word;
            wf_status_t (*parse)(parser_t *self);
        } lines[] = {{"input", parse_input}, {"const", parse_const}, {"output", parse_output}};
        size_t i = 0;
        while (i < WF_COUNT_OF(lines) && !is_word(self, lines[i].word)) {
            i++;
        }
        if (i < WF_COUNT_OF(lines)) {
            WF_TRY(advance(self));
            WF_TRY(lines[i].parse(self));
        } else {
            WF_TRY(parse_node(self));
        }
    }
    WF_TRY(advance(self));
    return self->kind == TOKEN_END ? WF_OK : FAIL(self, "text after the graph");
}

wf_status_t wf_graph_parse(const char *text, size_t text_bytes, wf_allocator_t allocator,
                           wf_graph_t **out_graph)
{
    parser_t self = {.at = text, .end = text + text_bytes, .line_start = text, .line = 1};
    *out_graph = NULL;
    if (text_bytes > MAX_TEXT_BYTES) {
        return WF_ERROR(MODEL_LIMIT, "graph text is larger than %d bytes", MAX_TEXT_BYTES);
    }
    WF_TRY(wf_graph_create(allocator, &self.graph));
    wf_text_init(&self.word, allocator, MAX_TEXT_BYTES);
    wf_status_t status = parse_graph(&self);
    wf_text_deinit(&self.word);
    wf_vec_deinit(allocator, &self.inputs);
    wf_vec_deinit(allocator, &self.output_names);
    wf_vec_deinit(allocator, &self.outputs);
    wf_vec_deinit(allocator, &self.attrs);
    if (status != WF_OK) {
        wf_graph_destroy(self.graph);
        return status;
    }
    *out_graph = self.graph;
    return WF_OK;
}
