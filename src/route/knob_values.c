/* SPDX-License-Identifier: Apache-2.0 */
#include "route/knob_values.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* Knobs of TensorRT 11's tuner that have a counterpart. */
static const struct {
    const char *theirs, *ours;
} spellings[] = {
    {"match_ragged_mha", "fuse.attention"},
    {"copy_ppg", "memory.concat_inplace"},
    {"slice_fusion", "memory.concat_inplace"},
    {"cask_fusion", "fuse.epilogue"},
    {"kgen", "fuse.elementwise"},
};

/* What must hold beside the values, for the catalogue. */
static const struct {
    const char *name, *text;
} constraints[] = {
    {"cpu.pin", "acts where no step needs libgomp, and with two threads or more"},
    {"cpu.static", "acts with two threads or more"},
    {"cpu.threads", "1 to the CPUs of the process when the tuner chooses"},
    {"source.native", "source.native and source.onednn cannot both be off"},
    {"source.onednn", "source.native and source.onednn cannot both be off; needs the library"},
    {"layout.last", "stays in use where nothing else does a node"},
    {"layout.blocked", "stays in use where nothing else does a node"},
};

static size_t find_knob(const char *name)
{
    for (size_t k = 0; k < wf_knob_count(); k++) {
        if (strcmp(wf_knob_facts(k).name, name) == 0)
            return k;
    }
    return strcmp(name, WF_KNOB_THREADS_NAME) == 0 ? WF_KNOB_THREADS : SIZE_MAX - 1;
}

static wf_status_t resolve(const char *name, size_t *out_knob)
{
    name += strspn(name, "-");
    for (size_t i = 0; i < WF_COUNT_OF(spellings); i++) {
        if (strcmp(spellings[i].theirs, name) == 0)
            name = spellings[i].ours;
    }
    *out_knob = find_knob(name);
    if (*out_knob != SIZE_MAX - 1)
        return WF_OK;
    bool threads = strstr(name, "thread") != NULL;
    return wf_status_hinted(WF_ERROR(USAGE, "there is no knob '%s'", name), "did you mean %s?",
                            threads ? WF_KNOB_THREADS_NAME : wf_knob_nearest(name));
}

/* ---- Values ---- */

static wf_status_t bad_value(const char *name, const char *text, const char *why)
{
    return wf_status_hinted(WF_ERROR(USAGE, "knob %s has no value '%s': %s", name, text, why),
                            strcmp(name, WF_KNOB_THREADS_NAME) == 0
                                ? "write %s=2, %s=1,2 or %s=1..4"
                                : "use %s=on or %s=off, or both: %s=on,off",
                            name, name, name);
}

static wf_status_t add_value(wf_knob_values_t *values, const char *name, const char *text, uint32_t value)
{
    for (size_t i = 0; i < values->count; i++) {
        if (values->values[i] == value)
            return bad_value(name, text, "it is listed twice");
    }
    if (values->count == WF_KNOB_VALUES_MAX)
        return bad_value(name, text, "a list has at most 64 values");
    values->values[values->count++] = value;
    return WF_OK;
}

static bool read_whole(const char **text, uint32_t *out_value)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    unsigned long value = strtoul(*text, &end, 10);
    *text = end;
    *out_value = (uint32_t)WF_MIN(value, (unsigned long)UINT32_MAX);
    return value <= WF_KNOB_THREADS_MAX;
}

/* A number, or a range a..b or a..b:step. */
static wf_status_t add_numbers(wf_knob_values_t *values, const char *name, const char *word)
{
    const char *at = word;
    uint32_t first, last, step = 1;
    if (!read_whole(&at, &first) || first == 0)
        return bad_value(name, word, "a whole number from 1 to 1024 is wanted");
    last = first;
    if (strncmp(at, "..", 2) == 0) {
        at += 2;
        if (*at == '\0')
            return bad_value(name, word, "the range has no end");
        if (!read_whole(&at, &last))
            return bad_value(name, word, "the range has no end that is a number");
        if (*at == ':') {
            at++;
            if (!read_whole(&at, &step) || step == 0)
                return bad_value(name, word, "the step is no number");
        }
    }
    if (*at != '\0' || last < first)
        return bad_value(name, word, last < first ? "the range ends before it begins" : "it is no number");
    for (uint32_t value = first; value <= last; value += step)
        WF_TRY(add_value(values, name, word, value));
    return WF_OK;
}

static wf_status_t add_switch(wf_knob_values_t *values, const char *name, const char *word)
{
    wf_knobs_t knobs;
    if (strcmp(word, "0..1") == 0) {
        WF_TRY(add_value(values, name, word, 0));
        return add_value(values, name, word, 1);
    }
    wf_status_t status = wf_knobs_set(&knobs, name, word);
    if (status != WF_OK)
        return status;
    return add_value(values, name, word, wf_knob_get(&knobs, values->knob) ? 1 : 0);
}

wf_status_t wf_knob_values_parse(const char *name, const char *text, wf_knob_values_t *out_values)
{
    *out_values = (wf_knob_values_t){0};
    WF_TRY(resolve(name, &out_values->knob));
    bool threads = out_values->knob == WF_KNOB_THREADS;
    const char *ours = threads ? WF_KNOB_THREADS_NAME : wf_knob_facts(out_values->knob).name;
    size_t length = strlen(text);
    bool bracket = length > 0 && text[0] == '[';
    if (bracket && (length < 2 || text[length - 1] != ']'))
        return bad_value(ours, text, "the bracket does not close");
    const char *at = text + bracket, *end = text + length - bracket;
    for (;;) {
        size_t bytes = WF_MIN(strcspn(at, ",/|"), (size_t)(end - at));
        char word[40];
        if (bytes == 0)
            return bad_value(ours, text, "a value is missing");
        if (bytes >= sizeof word)
            return bad_value(ours, text, "it is too long");
        memcpy(word, at, bytes);
        word[bytes] = '\0';
        WF_TRY(threads ? add_numbers(out_values, ours, word) : add_switch(out_values, ours, word));
        at += bytes;
        if (at >= end)
            return WF_OK;
        at++;
    }
}

uint32_t wf_knob_values_single(const wf_knob_values_t *values)
{
    if (values->knob == WF_KNOB_THREADS) {
        uint32_t most = 0;
        for (size_t i = 0; i < values->count; i++)
            most = WF_MAX(most, values->values[i]);
        return most;
    }
    bool standard = wf_knob_facts(values->knob).default_value;
    for (size_t i = 0; i < values->count; i++) {
        if ((values->values[i] != 0) == standard)
            return values->values[i];
    }
    return values->values[0];
}

/* ---- The catalogue ---- */

typedef struct page {
    const char *name, *help, *scope, *standard, *values, *constraint;
} page_t;

static page_t page_of(size_t knob)
{
    page_t page = {WF_KNOB_THREADS_NAME, WF_KNOB_THREADS_HELP, "run", "CPUs of the process", "1..1024", ""};
    if (knob != WF_KNOB_THREADS) {
        wf_knob_facts_t facts = wf_knob_facts(knob);
        page = (page_t){
            facts.name, facts.help, wf_knob_scope_name(facts.scope), facts.default_value ? "on" : "off",
            "on, off",  ""};
    }
    for (size_t i = 0; i < WF_COUNT_OF(constraints); i++) {
        if (strcmp(constraints[i].name, page.name) == 0)
            page.constraint = constraints[i].text;
    }
    return page;
}

static void print_spellings(const char *name, wf_text_t *out)
{
    for (size_t i = 0; i < WF_COUNT_OF(spellings); i++) {
        if (strcmp(spellings[i].ours, name) == 0)
            wf_text_printf(out, "  also      %s\n", spellings[i].theirs);
    }
}

static void print_page(const page_t *page, bool whole, bool json, bool first, wf_text_t *out)
{
    if (json) { /* the texts are ours: nothing in them needs an escape */
        wf_text_printf(
            out,
            "%s{\"name\":\"%s\",\"scope\":\"%s\",\"values\":\"%s\",\"default\":\"%s\",\"help\":\"%s\","
            "\"constraint\":\"%s\"}",
            first ? "" : ",", page->name, page->scope, page->values, page->standard, page->help,
            page->constraint);
    } else if (!whole) {
        wf_text_printf(out, "%-22s %-4s %-7s %s\n", page->name,
                       strcmp(page->scope, "run") == 0 && page->values[0] == '1' ? "auto" : page->standard,
                       page->scope, page->help);
    } else {
        wf_text_printf(out, "%s\n  help      %s\n  values    %s\n  default   %s\n  scope     %s\n",
                       page->name, page->help, page->values, page->standard, page->scope);
        if (page->constraint[0] != '\0')
            wf_text_printf(out, "  note      %s\n", page->constraint);
        print_spellings(page->name, out);
    }
}

wf_status_t wf_knobs_describe(const char *verb, const char *argument, bool json, wf_text_t *out)
{
    size_t wanted = SIZE_MAX - 1;
    bool show = strcmp(verb, "show") == 0, search = strcmp(verb, "search") == 0, first = true;
    if (!show && !search && strcmp(verb, "list") != 0)
        return wf_status_hinted(WF_ERROR(USAGE, "knobs has no verb '%s'", verb), "use list, show or search");
    if ((show || search) && argument == NULL)
        return wf_status_hinted(WF_ERROR(USAGE, "knobs %s needs a %s", verb, show ? "knob" : "word"),
                                show ? "wayfinder knobs show fuse.attention" : "wayfinder knobs search fuse");
    if (show)
        WF_TRY(resolve(argument, &wanted));
    if (json)
        wf_text_puts(out, "{\"schema_version\":1,\"knobs\":[");
    for (size_t k = 0; k <= wf_knob_count(); k++) {
        size_t knob = k < wf_knob_count() ? k : WF_KNOB_THREADS;
        page_t page = page_of(knob);
        bool matches = !search || strstr(page.name, argument) != NULL || strstr(page.help, argument) != NULL;
        if (show ? knob != wanted : !matches)
            continue;
        print_page(&page, show, json, first, out);
        first = false;
    }
    if (json)
        wf_text_puts(out, "]}");
    else if (first)
        wf_text_puts(out, "no knob speaks of it\n");
    return wf_text_take_status(out);
}
