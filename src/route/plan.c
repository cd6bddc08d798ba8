/* SPDX-License-Identifier: Apache-2.0 */
/* Plan text: a route with stable names, and back. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "route/space_internal.h"

#define PLAN_VERSION "1"
#define FIELD_MAX_BYTES ((size_t)1 << 16)

/* ---- Names: quoted as in graph text; the words that start lines are quoted too ---- */

static bool plain_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr("_.:/~-", c) != NULL);
}

static bool needs_quotes(const char *name)
{
    if (name[0] == 0 || strcmp(name, "version") == 0 || strcmp(name, "convert") == 0) {
        return true;
    }
    for (const char *c = name; *c != 0; c++) {
        if (!plain_char(*c)) {
            return true;
        }
    }
    return false;
}

static void print_name(wf_text_t *text, const char *name)
{
    if (!needs_quotes(name)) {
        wf_text_puts(text, name);
        return;
    }
    wf_text_puts(text, "\"");
    for (const char *c = name; *c != 0; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\') {
            wf_text_printf(text, "\\%c", byte);
        } else if (byte < 0x20 || byte == 0x7f) {
            wf_text_printf(text, "\\x%02x", byte);
        } else {
            wf_text_append(text, c, 1);
        }
    }
    wf_text_puts(text, "\"");
}

/* ---- Printing ---- */

static void print_hash(wf_text_t *text, const wf_problem_t *problem)
{
    char digits[33];
    wf_hash_text((wf_hash_t){.low = problem->hash[0], .high = problem->hash[1]}, digits);
    wf_text_puts(text, digits);
}

typedef struct plan_line {
    const char *name;
    size_t index; /* of the item, or of the conversion */
} plan_line_t;

static int compare_lines(const void *a, const void *b)
{
    const plan_line_t *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : x->index < y->index ? -1 : x->index > y->index;
}

static void print_item(const wf_space_t *space, const wf_route_item_t *item, wf_text_t *text)
{
    const wf_group_t *group = &space->groups.items[item->group];
    const wf_space_problem_t *entry = &space->problems.items[group->problem];
    print_name(text, wf_node_name(space->graph, wf_group_last(group)));
    wf_text_puts(text, " ");
    print_hash(text, entry->problem);
    wf_text_printf(text, " %s", entry->choices.items[item->choice].tactic_id);
    for (uint32_t n = 0; n + 1 < group->node_count; n++) {
        wf_text_puts(text, n == 0 ? " covers=" : ",");
        print_name(text, wf_node_name(space->graph, group->nodes[n]));
    }
    wf_text_puts(text, "\n");
}

static void print_conversion(const wf_space_t *space, const wf_route_conversion_t *conversion,
                             wf_text_t *text)
{
    const wf_space_problem_t *entry = &space->problems.items[conversion->problem];
    uint32_t choice = wf_space_best_choice(space, conversion->problem);
    wf_text_puts(text, "convert ");
    print_name(text, wf_graph_value(space->graph, conversion->value)->name);
    wf_text_printf(text, " %s %s ", wf_layout_name(conversion->from), wf_layout_name(conversion->to));
    print_hash(text, entry->problem);
    wf_text_printf(text, " %s\n", choice == WF_NO_CHOICE ? "none" : entry->choices.items[choice].tactic_id);
}

wf_status_t wf_plan_print(wf_space_t *space, const wf_route_t *route, wf_text_t *text)
{
    wf_route_conversion_t *conversions;
    size_t conversion_count;
    WF_TRY(wf_route_conversions(space, route, space->allocator, &conversions, &conversion_count));
    plan_line_t *lines;
    size_t line_count = WF_MAX(route->count, conversion_count);
    wf_status_t status = wf_alloc(space->allocator, line_count, sizeof *lines, &lines);
    if (status == WF_OK) {
        wf_text_puts(text, "[plan]\nversion " PLAN_VERSION "\n");
        for (size_t i = 0; i < route->count; i++) {
            const wf_group_t *group = &space->groups.items[route->items[i].group];
            lines[i] = (plan_line_t){wf_node_name(space->graph, wf_group_last(group)), i};
        }
        if (route->count > 1) {
            wf_sort(lines, route->count, sizeof *lines, compare_lines);
        }
        for (size_t i = 0; i < route->count; i++) {
            print_item(space, &route->items[lines[i].index], text);
        }
        for (size_t i = 0; i < conversion_count; i++) {
            lines[i] = (plan_line_t){wf_graph_value(space->graph, conversions[i].value)->name, i};
        }
        if (conversion_count > 1) {
            wf_sort(lines, conversion_count, sizeof *lines, compare_lines);
        }
        for (size_t i = 0; i < conversion_count; i++) {
            print_conversion(space, &conversions[lines[i].index], text);
        }
        status = wf_text_take_status(text);
    }
    wf_free(space->allocator, lines, line_count, sizeof *lines);
    wf_free(space->allocator, conversions, conversion_count, sizeof *conversions);
    return status;
}

/* ---- Parsing ---- */

/* How a conversion is done; takes effect when the whole plan fits. */
typedef struct pin {
    uint32_t problem, choice;
} pin_t;

typedef struct reader {
    wf_space_t *space;
    const char *at, *end; /* rest of the line at hand */
    const char *line;     /* its start */
    size_t line_bytes, number;
    wf_text_t field; /* the last field, unquoted */
    WF_VEC(wf_route_item_t) items;
    uint32_t *item_of; /* per node id: item that ends there + 1 */
    WF_VEC(pin_t) pins;
} reader_t;

static wf_status_t misfit(const reader_t *reader, const char *what)
{
    return WF_ERROR(LOCK_MISMATCH, "line %zu of the plan does not fit this model and build: %s: %.*s",
                    reader->number, what, (int)WF_MIN(reader->line_bytes, (size_t)160), reader->line);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads a name or word into reader->field; false when the text is not one. *out_quoted may be NULL. */
static bool read_word(reader_t *reader, const char *stops, bool *out_quoted)
{
    reader->field.length = 0;
    bool quoted = reader->at < reader->end && *reader->at == '"';
    if (out_quoted != NULL) {
        *out_quoted = quoted;
    }
    if (!quoted) {
        const char *start = reader->at;
        while (reader->at < reader->end && *reader->at != ' ' && strchr(stops, *reader->at) == NULL) {
            reader->at++;
        }
        size_t length = (size_t)(reader->at - start);
        if (length == 0 || length > FIELD_MAX_BYTES || memchr(start, 0, length) != NULL) {
            return false;
        }
        wf_text_append(&reader->field, start, length);
        return true;
    }
    for (reader->at++; reader->at < reader->end && *reader->at != '"'; reader->at++) {
        char c = *reader->at;
        if (c == 0 || reader->field.length == FIELD_MAX_BYTES) {
            return false;
        }
        if (c == '\\') {
            if (reader->end - reader->at < 2) {
                return false;
            }
            c = *++reader->at;
            if (c == 'x') {
                int high = reader->end - reader->at > 2 ? hex_digit(reader->at[1]) : -1;
                int low = high >= 0 ? hex_digit(reader->at[2]) : -1;
                if (low < 0 || high * 16 + low == 0) {
                    return false;
                }
                c = (char)(high * 16 + low);
                reader->at += 2;
            } else if (c != '"' && c != '\\') {
                return false;
            }
        }
        wf_text_append(&reader->field, &c, 1);
    }
    if (reader->at == reader->end) {
        return false;
    }
    reader->at++;
    return true;
}

static bool skip_char(reader_t *reader, char c)
{
    bool there = reader->at < reader->end && *reader->at == c;
    reader->at += there;
    return there;
}

static bool skip_text(reader_t *reader, const char *text)
{
    size_t length = strlen(text);
    bool there = (size_t)(reader->end - reader->at) >= length && memcmp(reader->at, text, length) == 0;
    reader->at += there ? length : 0;
    return there;
}

static bool field_is(const reader_t *reader, const char *text)
{
    return strcmp(wf_text_cstr(&reader->field), text) == 0;
}

/* The value whose name is in the field. */
static bool field_value(const reader_t *reader, wf_value_id *out_value)
{
    uint64_t value;
    const wf_graph_t *graph = reader->space->graph;
    if (!wf_map_get(&graph->value_names, wf_text_cstr(&reader->field), reader->field.length, &value) ||
        value >= graph->values.count) {
        return false;
    }
    *out_value = (wf_value_id)value;
    return true;
}

/* The node whose name is in the field, and that a route can end at. */
static bool field_node(const reader_t *reader, wf_node_id *out_node)
{
    wf_value_id value;
    if (!field_value(reader, &value)) {
        return false;
    }
    *out_node = wf_graph_value(reader->space->graph, value)->producer;
    return *out_node != WF_NO_NODE && !wf_graph_node(reader->space->graph, *out_node)->removed &&
           field_is(reader, wf_node_name(reader->space->graph, *out_node));
}

static bool field_problem(const reader_t *reader, const wf_problem_t *problem)
{
    wf_hash_t hash;
    return wf_hash_parse(wf_text_cstr(&reader->field), &hash) && hash.low == problem->hash[0] &&
           hash.high == problem->hash[1];
}

static uint32_t field_choice(const reader_t *reader, uint32_t problem)
{
    const wf_space_problem_t *entry = &reader->space->problems.items[problem];
    for (uint32_t i = 0; i < entry->choices.count; i++) {
        if (field_is(reader, entry->choices.items[i].tactic_id) && !entry->choices.items[i].banned) {
            return i;
        }
    }
    return WF_NO_CHOICE;
}

/* Why the tactic in the field does not do the problem here: its source, its revision, or a ban. */
static wf_status_t missing_tactic(const reader_t *reader, uint32_t problem)
{
    const wf_space_problem_t *entry = &reader->space->problems.items[problem];
    const char *tactic = wf_text_cstr(&reader->field);
    size_t source_bytes = strcspn(tactic, "/"), kernel_bytes = strcspn(tactic, "@");
    bool source_there = false;
    char what[2 * WF_TACTIC_ID_MAX + 100];
    for (size_t i = 0; i < wf_backends_count(reader->space->backends); i++) {
        void *self;
        const char *name = wf_backends_source(reader->space->backends, i, &self)->name;
        source_there |= strlen(name) == source_bytes && memcmp(name, tactic, source_bytes) == 0;
    }
    (void)snprintf(what, sizeof what, "the tactic %.*s is not available", WF_TACTIC_ID_MAX, tactic);
    if (!source_there) {
        (void)snprintf(what, sizeof what,
                       "the source '%.*s' is not available (its library is missing, or it is switched off)",
                       (int)WF_MIN(source_bytes, (size_t)60), tactic);
    }
    for (size_t i = 0; i < entry->choices.count; i++) {
        const wf_choice_t *choice = &entry->choices.items[i];
        if (strcmp(choice->tactic_id, tactic) == 0) {
            (void)snprintf(what, sizeof what, "the tactic %s is banned", choice->tactic_id);
        } else if (strcspn(choice->tactic_id, "@") == kernel_bytes &&
                   memcmp(choice->tactic_id, tactic, kernel_bytes) == 0) {
            (void)snprintf(what, sizeof what, "the tactic has another revision here, %s", choice->tactic_id);
        }
    }
    return misfit(reader, what);
}

static uint32_t find_group(const wf_space_t *space, const wf_node_id *nodes, uint32_t count)
{
    wf_node_id last = nodes[count - 1];
    for (uint32_t i = space->group_first[last]; i < space->group_first[last + 1]; i++) {
        const wf_group_t *group = &space->groups.items[space->group_items[i]];
        if (group->node_count == count && memcmp(group->nodes, nodes, count * sizeof *nodes) == 0) {
            return space->group_items[i];
        }
    }
    return UINT32_MAX;
}

/* <name> <hash> <tactic> [covers=<name>,..]; the name is in the field. */
static wf_status_t read_item(reader_t *reader)
{
    enum { NODES_MAX = 64 };
    wf_node_id nodes[NODES_MAX], last;
    char hash_text[33], tactic[WF_TACTIC_ID_MAX];
    if (!field_node(reader, &last)) {
        return misfit(reader, "there is no such node");
    }
    if (!skip_char(reader, ' ') || !read_word(reader, "", NULL) || reader->field.length != 32) {
        return misfit(reader, "a problem's hash is expected after the name");
    }
    memcpy(hash_text, wf_text_cstr(&reader->field), sizeof hash_text);
    if (!skip_char(reader, ' ') || !read_word(reader, "", NULL) || reader->field.length >= sizeof tactic) {
        return misfit(reader, "a tactic is expected after the hash");
    }
    memcpy(tactic, wf_text_cstr(&reader->field), reader->field.length + 1);
    uint32_t count = 0;
    if (skip_text(reader, " covers=")) {
        do {
            if (count == NODES_MAX - 1 || !read_word(reader, ",", NULL) ||
                !field_node(reader, &nodes[count])) {
                return misfit(reader, "it covers a node that is not there");
            }
            count++;
        } while (skip_char(reader, ','));
    }
    nodes[count++] = last;
    if (reader->at != reader->end) {
        return misfit(reader, "something follows");
    }
    uint32_t group = find_group(reader->space, nodes, count);
    if (group == UINT32_MAX) {
        return misfit(reader, "these nodes are no group");
    }
    uint32_t problem = reader->space->groups.items[group].problem;
    reader->field.length = 0;
    wf_text_puts(&reader->field, hash_text);
    if (!field_problem(reader, reader->space->problems.items[problem].problem)) {
        return misfit(reader, "the node does other work");
    }
    reader->field.length = 0;
    wf_text_puts(&reader->field, tactic);
    wf_route_item_t item = {.group = group, .choice = field_choice(reader, problem)};
    if (item.choice == WF_NO_CHOICE) {
        return missing_tactic(reader, problem);
    }
    if (reader->item_of[last] != 0) {
        return misfit(reader, "the node is there twice");
    }
    WF_TRY(wf_vec_push(reader->space->allocator, &reader->items, &item));
    reader->item_of[last] = (uint32_t)reader->items.count;
    return WF_OK;
}

/* convert <value> <from> <to> <hash> <tactic> */
static wf_status_t read_conversion(reader_t *reader)
{
    wf_value_id value;
    wf_layout_t from, to;
    if (!skip_char(reader, ' ') || !read_word(reader, "", NULL) || !field_value(reader, &value) ||
        !wf_graph_value(reader->space->graph, value)->type_known) {
        return misfit(reader, "there is no such value");
    }
    const wf_type_t *type = &wf_graph_value(reader->space->graph, value)->type;
    if (!skip_char(reader, ' ') || !read_word(reader, "", NULL) ||
        !wf_layout_from_name(wf_text_cstr(&reader->field), &from) || !skip_char(reader, ' ') ||
        !read_word(reader, "", NULL) || !wf_layout_from_name(wf_text_cstr(&reader->field), &to) ||
        !wf_layout_exists(type, from) || !wf_layout_exists(type, to) || wf_layout_same(type, from, to)) {
        return misfit(reader, "the value has no such layouts");
    }
    uint32_t problem;
    WF_TRY(wf_space_convert(reader->space, value, from, to, &problem));
    if (!skip_char(reader, ' ') || !read_word(reader, "", NULL) ||
        !field_problem(reader, reader->space->problems.items[problem].problem)) {
        return misfit(reader, "the conversion does other work");
    }
    if (!skip_char(reader, ' ') || !read_word(reader, "", NULL)) {
        return misfit(reader, "a tactic is expected after the hash");
    }
    uint32_t choice = field_choice(reader, problem);
    if (choice == WF_NO_CHOICE) {
        return missing_tactic(reader, problem);
    }
    if (reader->at != reader->end) {
        return misfit(reader, "something follows");
    }
    pin_t pin = {.problem = problem, .choice = choice};
    return wf_vec_push(reader->space->allocator, &reader->pins, &pin);
}

static wf_status_t read_line(reader_t *reader)
{
    bool quoted;
    if (!read_word(reader, "", &quoted)) {
        return misfit(reader, "it does not start with a name");
    }
    if (!quoted && field_is(reader, "version")) {
        bool known = skip_char(reader, ' ') && read_word(reader, "", NULL) && field_is(reader, PLAN_VERSION);
        return known && reader->at == reader->end ? WF_OK : misfit(reader, "another version of plans");
    }
    return !quoted && field_is(reader, "convert") ? read_conversion(reader) : read_item(reader);
}

/* Lines of the section [plan]; other sections are somebody else's. */
static wf_status_t read_lines(reader_t *reader, const char *text, size_t text_bytes)
{
    const char *end = text + text_bytes;
    bool inside = false, seen = false;
    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        reader->number++;
        reader->line = reader->at = at;
        reader->end = stop;
        reader->line_bytes = (size_t)(stop - at);
        at = stop + (stop < end);
        if (reader->line_bytes == 0 || reader->line[0] == '#') {
            continue;
        }
        if (reader->line[0] == '[') {
            inside = reader->line_bytes == 6 && memcmp(reader->line, "[plan]", 6) == 0;
            seen = seen || inside;
            continue;
        }
        if (inside) {
            wf_status_t status = read_line(reader);
            wf_status_t memory = wf_text_take_status(&reader->field); /* a name that was cut is no misfit */
            if (memory != WF_OK) {
                wf_status_free(status);
                return memory;
            }
            WF_TRY(status);
        }
    }
    return seen ? WF_OK : WF_ERROR(LOCK_MISMATCH, "the text has no section [plan]");
}

/* The items in the order of their last nodes. */
static wf_status_t route_order(reader_t *reader, wf_route_t *out_route)
{
    const wf_graph_t *graph = reader->space->graph;
    WF_TRY(wf_alloc(out_route->allocator, reader->items.count, sizeof *out_route->items, &out_route->items));
    for (size_t i = 0; i < graph->order.count; i++) {
        uint32_t item = reader->item_of[graph->order.items[i]];
        if (item != 0) {
            out_route->items[out_route->count++] = reader->items.items[item - 1];
        }
    }
    wf_status_t status = wf_route_check(reader->space, out_route);
    if (wf_status_code(status) == WF_CODE_INTERNAL) { /* the text is at fault, not we */
        wf_status_t mismatch =
            WF_ERROR(LOCK_MISMATCH, "the plan does not fit this model: %s", wf_status_message(status));
        wf_status_free(status);
        return mismatch;
    }
    return status;
}

wf_status_t wf_plan_parse(wf_space_t *space, const char *text, size_t text_bytes, wf_route_t *out_route)
{
    *out_route = (wf_route_t){.allocator = space->allocator};
    reader_t reader = {.space = space};
    size_t nodes = space->graph->nodes.count;
    wf_text_init(&reader.field, space->allocator, FIELD_MAX_BYTES);
    wf_status_t status = wf_alloc(space->allocator, nodes, sizeof *reader.item_of, &reader.item_of);
    if (status == WF_OK) {
        status = read_lines(&reader, text, text_bytes);
    }
    if (status == WF_OK) {
        status = route_order(&reader, out_route);
    }
    if (status == WF_OK) {
        wf_space_unpin(space);
        for (size_t i = 0; i < reader.pins.count; i++) {
            space->problems.items[reader.pins.items[i].problem].pinned_choice = reader.pins.items[i].choice;
        }
        status = wf_route_cost(space, out_route, &out_route->cost_ns);
    }
    if (status != WF_OK) {
        wf_route_deinit(out_route);
    }
    wf_vec_deinit(space->allocator, &reader.pins);
    wf_vec_deinit(space->allocator, &reader.items);
    wf_free(space->allocator, reader.item_of, nodes, sizeof *reader.item_of);
    wf_text_deinit(&reader.field);
    return status;
}
