/* SPDX-License-Identifier: Apache-2.0 */
/* Knobs: names, values, and what they turn off outside the space. */
#include <string.h>

#include "base/compiler.h"
#include "graph/pass.h"
#include "route/space.h"

typedef struct knob_row {
    const char *name;
    size_t offset;
    bool default_value;
    wf_knob_scope_t scope;
    const char *help;
} knob_row_t;

static const knob_row_t knob_rows[] = {
#define X(field, name, default_value, scope, help) \
    {name, offsetof(wf_knobs_t, field), default_value, WF_KNOB_##scope, help},
#include "route/knobs.def"
#undef X
};

static const struct {
    const char *text;
    bool value;
} value_rows[] = {
    {"on", true},  {"off", false}, {"true", true}, {"false", false},
    {"yes", true}, {"no", false},  {"1", true},    {"0", false},
};

/* Passes that do nothing when a knob is closed. What the remaining knobs close is in the space itself
 * (patterns.c, space_choices.c) or in the engine (memory.*). */
static const struct {
    size_t knob;
    const char *pass;
} pass_rows[] = {
    {offsetof(wf_knobs_t, fuse_attention), "fuse_attention"},
    {offsetof(wf_knobs_t, fuse_norm), "fuse_add_layer_norm"},
    {offsetof(wf_knobs_t, fuse_squeeze_excite), "fuse_squeeze_excite"},
};

static bool *knob_at(wf_knobs_t *knobs, size_t offset)
{
    return (bool *)((char *)knobs + offset);
}

static bool knob_value(const wf_knobs_t *knobs, size_t offset)
{
    return *(const bool *)((const char *)knobs + offset);
}

void wf_knobs_default(wf_knobs_t *out_knobs)
{
    for (size_t i = 0; i < WF_COUNT_OF(knob_rows); i++) {
        *knob_at(out_knobs, knob_rows[i].offset) = knob_rows[i].default_value;
    }
}

size_t wf_knob_count(void)
{
    return WF_COUNT_OF(knob_rows);
}

wf_knob_facts_t wf_knob_facts(size_t knob)
{
    const knob_row_t *row = &knob_rows[knob];
    return (wf_knob_facts_t){row->name, row->help, row->scope, row->default_value};
}

const char *wf_knob_scope_name(wf_knob_scope_t scope)
{
    static const char *const names[WF_KNOB_SCOPE_COUNT] = {"graph", "space", "engine", "run"};
    return names[scope];
}

bool wf_knob_get(const wf_knobs_t *knobs, size_t knob)
{
    return knob_value(knobs, knob_rows[knob].offset);
}

void wf_knob_put(wf_knobs_t *knobs, size_t knob, bool value)
{
    *knob_at(knobs, knob_rows[knob].offset) = value;
}

/* Edit distance (Levenshtein) of two texts, capped: names are short. */
static size_t distance(const char *a, const char *b)
{
    enum { MOST = 48 };
    size_t a_length = WF_MIN(strlen(a), (size_t)MOST), b_length = WF_MIN(strlen(b), (size_t)MOST);
    size_t row[MOST + 1];
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = WF_MIN(change, WF_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

const char *wf_knob_nearest(const char *name)
{
    const char *best = knob_rows[0].name;
    for (size_t i = 1; i < WF_COUNT_OF(knob_rows); i++) {
        if (distance(name, knob_rows[i].name) < distance(name, best)) {
            best = knob_rows[i].name;
        }
    }
    return best;
}

wf_status_t wf_knobs_set(wf_knobs_t *knobs, const char *name, const char *value)
{
    for (size_t i = 0; i < WF_COUNT_OF(knob_rows); i++) {
        if (strcmp(knob_rows[i].name, name) != 0) {
            continue;
        }
        for (size_t v = 0; v < WF_COUNT_OF(value_rows); v++) {
            if (strcmp(value_rows[v].text, value) == 0) {
                *knob_at(knobs, knob_rows[i].offset) = value_rows[v].value;
                return WF_OK;
            }
        }
        return wf_status_hinted(WF_ERROR(USAGE, "knob %s has no value '%s'", name, value),
                                "use %s=on or %s=off", name, name);
    }
    return wf_status_hinted(WF_ERROR(USAGE, "there is no knob '%s'", name), "did you mean %s?",
                            wf_knob_nearest(name));
}

void wf_knobs_print(const wf_knobs_t *knobs, const char *prefix, wf_text_t *text)
{
    const char *last = "";
    for (size_t printed = 0; printed < WF_COUNT_OF(knob_rows);
         printed++) { /* the least name above the last one */
        const knob_row_t *next = NULL;
        for (size_t i = 0; i < WF_COUNT_OF(knob_rows); i++) {
            if (strcmp(knob_rows[i].name, last) > 0 &&
                (next == NULL || strcmp(knob_rows[i].name, next->name) < 0)) {
                next = &knob_rows[i];
            }
        }
        wf_text_printf(text, "%s%s %s\n", prefix, next->name, knob_value(knobs, next->offset) ? "on" : "off");
        last = next->name;
    }
}

void wf_knobs_disabled_passes(const wf_knobs_t *knobs, bool *out_disabled)
{
    size_t count;
    const wf_pass_t *passes = wf_passes(&count);
    for (size_t p = 0; p < count; p++) {
        out_disabled[p] = false;
        for (size_t i = 0; i < WF_COUNT_OF(pass_rows); i++) {
            if (strcmp(passes[p].name, pass_rows[i].pass) == 0 && !knob_value(knobs, pass_rows[i].knob)) {
                out_disabled[p] = true;
            }
        }
    }
}
