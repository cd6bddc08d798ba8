/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes against the table: the row's text as data, and lists made complete. */
#include <string.h>

#include "base/compiler.h"
#include "op/literal.h"
#include "op/op.h"

static const struct kind_word {
    const char *word;
    const char *name;
    size_t elem_bytes; /* of lists */
} kind_words[] = {
    [WF_ATTR_INT] = {"i", "an integer", 0},
    [WF_ATTR_FLOAT] = {"f", "a float", 0},
    [WF_ATTR_STRING] = {"s", "a string", 0},
    [WF_ATTR_INTS] = {"is", "a list of integers", sizeof(int64_t)},
    [WF_ATTR_FLOATS] = {"fs", "a list of floats", sizeof(float)},
    [WF_ATTR_STRINGS] = {"ss", "a list of strings", sizeof(const char *)},
    [WF_ATTR_TENSOR] = {"t", "a tensor", 0},
};

static const char *kind_name(wf_attr_kind_t kind)
{
    return (size_t)kind < WF_COUNT_OF(kind_words) ? kind_words[kind].name : "of an unknown kind";
}

/* ---- Rows ---- */

/* One "name:kind(choices)=default@n"; `text` is cut up in place. The table is ours, so that its form is an
 * invariant, tested for every row. */
static void parse_spec(char *text, wf_attr_spec_t *out_spec)
{
    *out_spec = (wf_attr_spec_t){.name = text, .from_input = -1};
    char *kind = strchr(text, ':');
    assert(kind != NULL);
    *kind++ = '\0';
    char *rest = kind + strcspn(kind, "(=!@");
    char mark = *rest;
    *rest = '\0';
    for (size_t i = 0; i < WF_COUNT_OF(kind_words); i++) {
        if (strcmp(kind_words[i].word, kind) == 0) {
            out_spec->kind = (wf_attr_kind_t)i;
        }
    }
    if (mark == '(') {
        out_spec->choices = rest + 1;
        rest += 1 + strcspn(rest + 1, ")");
        *rest++ = '\0';
        mark = *rest;
    }
    out_spec->required = mark == '!';
    out_spec->has_default = mark == '=';
    out_spec->default_text = mark == '=' ? rest + 1 : NULL;
    if (mark == '@') {
        out_spec->from_input = rest[1] - '0';
    }
}

void wf_op_attr_specs(wf_op_t op, wf_attr_specs_t *out_specs)
{
    const char *text = wf_op_info(op)->attrs_text;
    size_t length = strlen(text);
    assert(length < sizeof out_specs->buffer);
    memcpy(out_specs->buffer, text, length + 1);
    out_specs->count = 0;
    char *at = out_specs->buffer;
    while (*at != '\0') {
        char *end = at + strcspn(at, " ");
        char *next = *end == '\0' ? end : end + 1;
        *end = '\0';
        if (end != at) {
            assert(out_specs->count < WF_OP_MAX_ATTRS);
            wf_attr_spec_t spec;
            parse_spec(at, &spec);
            size_t place = out_specs->count++;
            for (; place > 0 && strcmp(out_specs->items[place - 1].name, spec.name) > 0; place--) {
                out_specs->items[place] = out_specs->items[place - 1];
            }
            out_specs->items[place] = spec;
        }
        at = next;
    }
}

/* ---- Complete lists ---- */

/* Copies the arrays and strings of an attribute into the arena. Tensors stay borrowed: they may be whole
 * weights. */
static wf_status_t copy_value(const wf_attr_t *from, wf_arena_t *arena, wf_attr_t *to)
{
    switch (from->kind) {
    case WF_ATTR_STRING:
        return wf_arena_text(arena, from->v.s, from->count, &to->v.s);
    case WF_ATTR_INTS:
    case WF_ATTR_FLOATS: {
        void *copy;
        WF_TRY(wf_arena_alloc(arena, from->count, kind_words[from->kind].elem_bytes, &copy));
        if (from->count > 0) {
            memcpy(copy, from->v.ints, from->count * kind_words[from->kind].elem_bytes);
        }
        to->v.ints = copy;
        return WF_OK;
    }
    case WF_ATTR_STRINGS: {
        const char **copy;
        WF_TRY(wf_arena_alloc(arena, from->count, sizeof *copy, &copy));
        for (size_t i = 0; i < from->count; i++) {
            WF_TRY(wf_arena_text(arena, from->v.strings[i], strlen(from->v.strings[i]), &copy[i]));
        }
        to->v.strings = copy;
        return WF_OK;
    }
    case WF_ATTR_TENSOR: {
        wf_tensor_t *copy;
        WF_TRY(wf_arena_alloc(arena, 1, sizeof *copy, &copy));
        *copy = *from->v.tensor;
        to->v.tensor = copy;
        return WF_OK;
    }
    default:
        return WF_OK;
    }
}

/* Writes element `index` of a list, or the one value, from its text in the table. */
static void set_default(wf_attr_kind_t kind, const char *word, size_t length, void *out)
{
    bool ok = true;
    if (kind == WF_ATTR_INT || kind == WF_ATTR_INTS) {
        ok = wf_literal_int(word, length, out);
    } else if (kind == WF_ATTR_FLOAT || kind == WF_ATTR_FLOATS) {
        ok = wf_literal_float(word, length, out);
    }
    assert(ok);
    (void)ok;
}

static wf_status_t make_default_list(const wf_attr_spec_t *spec, wf_arena_t *arena, wf_attr_t *out_attr)
{
    size_t elem_bytes = kind_words[spec->kind].elem_bytes;
    size_t count = 1;
    for (const char *at = spec->default_text; *at != '\0'; at++) {
        count += *at == ',' ? 1 : 0;
    }
    char *items;
    WF_TRY(wf_arena_alloc(arena, count, elem_bytes, &items));
    const char *at = spec->default_text;
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(at, ",");
        if (spec->kind == WF_ATTR_STRINGS) {
            const char *word;
            WF_TRY(wf_arena_text(arena, at, length, &word));
            memcpy(items + i * elem_bytes, &word, sizeof word);
        } else {
            set_default(spec->kind, at, length, items + i * elem_bytes);
        }
        at += length + (at[length] == ',' ? 1 : 0);
    }
    out_attr->count = count;
    out_attr->v.ints = (const void *)items;
    return WF_OK;
}

static wf_status_t make_default(const wf_attr_spec_t *spec, wf_arena_t *arena, wf_attr_t *out_attr)
{
    size_t length = strlen(spec->default_text);
    switch (spec->kind) {
    case WF_ATTR_INT:
        set_default(spec->kind, spec->default_text, length, &out_attr->v.i);
        return WF_OK;
    case WF_ATTR_FLOAT:
        set_default(spec->kind, spec->default_text, length, &out_attr->v.f);
        return WF_OK;
    case WF_ATTR_STRING:
        out_attr->count = length;
        return wf_arena_text(arena, spec->default_text, length, &out_attr->v.s);
    default:
        return make_default_list(spec, arena, out_attr);
    }
}

static bool choice_matches(const wf_attr_t *attr, const char *word, size_t length)
{
    int64_t value;
    if (attr->kind == WF_ATTR_INT) {
        return wf_literal_int(word, length, &value) && value == attr->v.i;
    }
    return attr->count == length && memcmp(attr->v.s, word, length) == 0;
}

static wf_status_t check_choice(const wf_attr_spec_t *spec, const wf_attr_t *attr)
{
    if (spec->choices == NULL) {
        return WF_OK;
    }
    for (const char *at = spec->choices; *at != '\0';) {
        size_t length = strcspn(at, "|");
        if (choice_matches(attr, at, length)) {
            return WF_OK;
        }
        at += length + (at[length] == '|' ? 1 : 0);
    }
    if (attr->kind == WF_ATTR_INT) {
        return WF_ERROR(MODEL_INVALID, "attribute %s is %lld, allowed are %s", spec->name,
                        (long long)attr->v.i, spec->choices);
    }
    return WF_ERROR(MODEL_INVALID, "attribute %s is \"%.40s\", allowed are %s", spec->name, attr->v.s,
                    spec->choices);
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

static wf_status_t check_given(const wf_attr_specs_t *specs, const wf_attr_t *given, size_t given_count)
{
    uint32_t seen = 0;
    for (size_t i = 0; i < given_count; i++) {
        const wf_attr_spec_t *spec = find_spec(specs, given[i].name);
        if (spec == NULL) {
            return WF_ERROR(MODEL_INVALID, "attribute %.80s is not known", given[i].name);
        }
        uint32_t bit = UINT32_C(1) << (spec - specs->items);
        if ((seen & bit) != 0) {
            return WF_ERROR(MODEL_INVALID, "attribute %s is given twice", spec->name);
        }
        seen |= bit;
        if (given[i].kind != spec->kind) {
            return WF_ERROR(MODEL_INVALID, "attribute %s is %s, expected %s", spec->name,
                            kind_name(given[i].kind), kind_name(spec->kind));
        }
        WF_TRY(check_choice(spec, &given[i]));
    }
    return WF_OK;
}

wf_status_t wf_op_complete_attrs(wf_op_t op, const wf_attr_t *given, size_t given_count, wf_arena_t *arena,
                                 wf_attrs_t *out_attrs)
{
    *out_attrs = (wf_attrs_t){0};
    wf_attr_specs_t specs;
    wf_op_attr_specs(op, &specs);
    WF_TRY(check_given(&specs, given, given_count));
    wf_attr_t *items;
    WF_TRY(wf_arena_alloc(arena, specs.count, sizeof *items, &items));
    size_t count = 0;
    for (size_t i = 0; i < specs.count; i++) {
        const wf_attr_spec_t *spec = &specs.items[i];
        const wf_attr_t *found = NULL;
        for (size_t g = 0; g < given_count && found == NULL; g++) {
            found = strcmp(given[g].name, spec->name) == 0 ? &given[g] : NULL;
        }
        if (found == NULL && spec->required) {
            return WF_ERROR(MODEL_INVALID, "attribute %s is missing", spec->name);
        }
        if (found == NULL && !spec->has_default) {
            continue;
        }
        wf_attr_t *item = &items[count++];
        *item = found != NULL ? *found : (wf_attr_t){.kind = spec->kind};
        WF_TRY(wf_arena_text(arena, spec->name, strlen(spec->name), &item->name));
        WF_TRY(found != NULL ? copy_value(found, arena, item) : make_default(spec, arena, item));
    }
    *out_attrs = (wf_attrs_t){.items = items, .count = count};
    return WF_OK;
}
