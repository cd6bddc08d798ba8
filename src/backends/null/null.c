/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/null/null.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/file.h"

#define SCRIPT_MAX_BYTES ((size_t)1 << 20)

typedef enum fault {
    FAULT_NONE,
    FAULT_CRASH,
    FAULT_HANG,
    FAULT_ALLOC,
    FAULT_OVERRUN,
    FAULT_NOISE,
    FAULT_ERROR,
    FAULT_WRONG,
    FAULT_PREPARE
} fault_t;

static const struct {
    const char *name;
    fault_t fault;
} fault_names[] = {
    {"crash", FAULT_CRASH}, {"hang", FAULT_HANG},   {"alloc", FAULT_ALLOC}, {"overrun", FAULT_OVERRUN},
    {"noise", FAULT_NOISE}, {"error", FAULT_ERROR}, {"wrong", FAULT_WRONG}, {"prepare", FAULT_PREPARE},
};

/* One line of the script; texts point into it. */
typedef struct line {
    const char *pattern;
    const char *tactic; /* NULL: a decline */
    const char *family, *reason;
    const char *layouts;
    double cost_ns;
    uint64_t slow_ns;
    wf_tactic_needs_t needs;
    fault_t fault;
    bool nondeterministic, inexact;
} line_t;

typedef struct script {
    char *text;
    size_t text_bytes;
    WF_VEC(line_t) lines;
} script_t;

typedef struct null_source {
    wf_allocator_t allocator;
    bool scripted;
    script_t script;
} null_source_t;

/* ---- The script ---- */

static void script_free(wf_allocator_t allocator, script_t *script)
{
    wf_vec_deinit(allocator, &script->lines);
    wf_free(allocator, script->text, script->text_bytes, 1);
    *script = (script_t){0};
}

/* Cuts the next field off *cursor (zero-terminated in place); NULL at the end of the line. */
static char *next_field(char **cursor)
{
    char *at = *cursor + strspn(*cursor, " \t");
    if (*at == 0) {
        *cursor = at;
        return NULL;
    }
    bool quoted = *at == '"';
    char *field = at + quoted;
    char *end = quoted ? strchr(field, '"') : field + strcspn(field, " \t");
    if (end == NULL) {
        end = field + strlen(field);
    }
    *cursor = *end == 0 ? end : end + 1;
    *end = 0;
    return field;
}

static bool parse_u64(const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    return end != text && *end == 0 && text[0] != '-';
}

/* The number after "name="; false when the option is another one or the number cannot be read. */
static bool option_number(const char *option, const char *name, uint64_t *out)
{
    size_t length = strlen(name);
    return strncmp(option, name, length) == 0 && option[length] == '=' && parse_u64(option + length + 1, out);
}

static bool parse_option(line_t *line, const char *option)
{
    uint64_t number;
    if (option_number(option, "workspace", &number)) {
        line->needs.workspace_bytes = (size_t)number;
    } else if (option_number(option, "packed", &number)) {
        line->needs.packed_bytes = (size_t)number;
    } else if (option_number(option, "slow", &number)) {
        line->slow_ns = number;
    } else if (option_number(option, "alias", &number) && number <= INT32_MAX) {
        line->needs.may_alias = (int32_t)number;
    } else if (option_number(option, "must_alias", &number) && number <= INT32_MAX) {
        line->needs.must_alias = (int32_t)number;
    } else if (strcmp(option, "nondeterministic") == 0) {
        line->nondeterministic = true;
    } else if (strcmp(option, "inexact") == 0) {
        line->inexact = true;
    } else if (strncmp(option, "fault=", 6) == 0) {
        for (size_t i = 0; i < WF_COUNT_OF(fault_names); i++) {
            if (strcmp(option + 6, fault_names[i].name) == 0) {
                line->fault = fault_names[i].fault;
            }
        }
        return line->fault != FAULT_NONE;
    } else {
        return false;
    }
    return true;
}

static bool parse_cost(const char *text, double *out_cost_ns)
{
    char *end;
    *out_cost_ns = strtod(text, &end);
    return end != text && *end == 0 && *out_cost_ns > 0 && !isinf(*out_cost_ns);
}

/* NULL, or what is wrong. */
static const char *parse_line(char *text, line_t *line)
{
    *line = (line_t){.needs = {.may_alias = -1, .must_alias = -1}};
    line->pattern = next_field(&text);
    char *what = next_field(&text);
    if (what == NULL) {
        return "has no tactic";
    }
    if (strcmp(what, "decline") == 0) {
        line->family = next_field(&text);
        line->reason = text + strspn(text, " \t");
        return line->family == NULL ? "declines no family" : NULL;
    }
    line->tactic = what;
    line->layouts = next_field(&text);
    const char *cost = next_field(&text);
    if (strncmp(what, "null/", 5) != 0 || strlen(what) >= WF_TACTIC_ID_MAX) {
        return "has a tactic that is not null/...";
    }
    if (line->layouts == NULL || cost == NULL || !parse_cost(cost, &line->cost_ns)) {
        return "has no layouts and cost";
    }
    for (char *option; (option = next_field(&text)) != NULL;) {
        if (!parse_option(line, option)) {
            return "has an unknown option";
        }
    }
    return NULL;
}

static wf_status_t script_parse(wf_allocator_t allocator, script_t *script)
{
    size_t number = 0;
    for (char *at = script->text, *end; *at != 0; at = end) {
        end = at + strcspn(at, "\n");
        if (*end == '\n') {
            *end++ = 0;
        }
        number++;
        if (at[strspn(at, " \t")] == 0 || at[0] == '#') {
            continue;
        }
        line_t line;
        const char *fault = parse_line(at, &line);
        if (fault != NULL) {
            return WF_ERROR(USAGE, "line %zu of the null script %s", number, fault);
        }
        WF_TRY(wf_vec_push(allocator, &script->lines, &line));
    }
    return WF_OK;
}

wf_status_t wf_null_script(void *self, const char *text, size_t text_bytes)
{
    null_source_t *null = self;
    script_t script = {0};
    size_t bytes;
    if (!wf_size_add(text_bytes, 1, &bytes)) {
        return wf_status_out_of_memory();
    }
    WF_TRY(wf_alloc(null->allocator, bytes, 1, &script.text));
    script.text_bytes = bytes;
    memcpy(script.text, text, text_bytes);
    wf_status_t status = script_parse(null->allocator, &script);
    if (status != WF_OK) {
        script_free(null->allocator, &script);
        return status;
    }
    script_free(null->allocator, &null->script);
    null->script = script;
    null->scripted = true;
    return WF_OK;
}

/* ---- Matching ---- */

/* Glob with "*" and "?"; linear in practice, no recursion. */
static bool glob(const char *pattern, const char *text)
{
    const char *star = NULL, *retry = NULL;
    while (*text != 0) {
        if (*pattern == '*') {
            star = pattern++;
            retry = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == 0;
}

#define STAGES_TEXT_BYTES 1024
static void stages_text(const wf_problem_t *problem, char out[STAGES_TEXT_BYTES])
{
    size_t length = 0;
    out[0] = 0;
    for (size_t s = 0; s < problem->stage_count && length < STAGES_TEXT_BYTES; s++) {
        int written = snprintf(out + length, STAGES_TEXT_BYTES - length, "%s%s", s > 0 ? "+" : "",
                               wf_op_problem_name(problem->stages[s].op));
        length += written > 0 ? (size_t)written : 0;
    }
}

static bool fits(const line_t *line, const wf_problem_t *problem)
{
    if (strncmp(line->pattern, "v1", 2) == 0) {
        return glob(line->pattern, problem->text);
    }
    char stages[STAGES_TEXT_BYTES];
    stages_text(problem, stages);
    return glob(line->pattern, stages);
}

/* What "null/any" is without a script. */
static line_t default_line(const wf_problem_t *problem)
{
    /* one core at 32 operations and 16 bytes a nanosecond, 200 ns to start */
    double work_ns = fmax(wf_problem_flops(problem) / 32, wf_problem_bytes(problem) / 16);
    return (line_t){.pattern = "*",
                    .tactic = "null/any",
                    .layouts = "-",
                    .cost_ns = 200 + work_ns,
                    .needs = {.may_alias = -1, .must_alias = -1}};
}

static wf_status_t find_line(const null_source_t *null, const wf_problem_t *problem, const char *tactic_id,
                             line_t *out_line)
{
    if (!null->scripted) {
        *out_line = default_line(problem);
        if (strcmp(tactic_id, out_line->tactic) == 0) {
            return WF_OK;
        }
    }
    for (size_t i = 0; i < null->script.lines.count; i++) {
        const line_t *line = &null->script.lines.items[i];
        if (line->tactic != NULL && strcmp(line->tactic, tactic_id) == 0 && fits(line, problem)) {
            *out_line = *line;
            return WF_OK;
        }
    }
    return WF_ERROR(TACTIC_MISSING, "the null source has no tactic %s for %s", tactic_id, problem->text);
}

/* ---- Layouts ---- */

/* Item `index` of a list with commas, the last one for all further; ROW when the type lacks the layout. */
static wf_layout_t list_layout(const char *list, size_t list_bytes, size_t index, const wf_type_t *type)
{
    const char *at = list, *end = list + list_bytes;
    for (const char *comma; index > 0 && (comma = memchr(at, ',', (size_t)(end - at))) != NULL; index--) {
        at = comma + 1;
    }
    const char *stop = memchr(at, ',', (size_t)(end - at));
    char name[16] = "";
    size_t length = WF_MIN((size_t)((stop != NULL ? stop : end) - at), sizeof name - 1);
    memcpy(name, at, length);
    wf_layout_t layout;
    return wf_layout_from_name(name, &layout) && wf_layout_exists(type, layout) ? layout : WF_LAYOUT_ROW;
}

static void line_layouts(const line_t *line, const wf_problem_t *problem, wf_layout_t *operands,
                         wf_layout_t *outputs)
{
    wf_layout_t from = WF_LAYOUT_ROW, to = WF_LAYOUT_ROW;
    bool dash = strcmp(line->layouts, "-") == 0;
    if (dash && strcmp(wf_op_problem_name(problem->stages[0].op), "wf.convert") == 0) {
        const wf_attrs_t *attrs = &problem->stages[0].attrs;
        if (!wf_layout_from_name(wf_attrs_string(attrs, "from", "row"), &from) ||
            !wf_layout_from_name(wf_attrs_string(attrs, "to", "row"), &to)) {
            from = to = WF_LAYOUT_ROW;
        }
    }
    const char *arrow = strchr(line->layouts, '>');
    size_t left_bytes = arrow != NULL ? (size_t)(arrow - line->layouts) : strlen(line->layouts);
    const char *right = arrow != NULL ? arrow + 1 : line->layouts;
    for (size_t i = 0; operands != NULL && i < problem->operand_count; i++) {
        operands[i] = dash ? from : list_layout(line->layouts, left_bytes, i, &problem->operands[i].type);
    }
    for (size_t i = 0; outputs != NULL && i < problem->output_count; i++) {
        outputs[i] = dash ? to : list_layout(right, strlen(right), i, &problem->outputs[i]);
    }
}

/* ---- The calls ---- */

static wf_status_t script_from_environment(null_source_t *null)
{
    const char *path = getenv("WAYFINDER_NULL_SCRIPT");
    char *text;
    size_t bytes;
    if (path == NULL) {
        return WF_OK;
    }
    WF_TRY(wf_file_read(path, SCRIPT_MAX_BYTES, null->allocator, &text, &bytes));
    wf_status_t status = wf_null_script(null, text, bytes);
    wf_free(null->allocator, text, bytes + 1, 1);
    return status;
}

static wf_status_t null_open(const wf_cpu_t *cpu, wf_allocator_t allocator, wf_log_t log, void **out_self)
{
    (void)cpu;
    (void)log;
    null_source_t *null;
    *out_self = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *null, &null));
    null->allocator = allocator;
    wf_status_t status = script_from_environment(null);
    if (status == WF_OK)
        *out_self = null;
    else
        wf_free(allocator, null, 1, sizeof *null);
    return status;
}

static void null_close(void *self)
{
    null_source_t *null = self;
    wf_allocator_t allocator = null->allocator;
    script_free(allocator, &null->script);
    wf_free(allocator, null, 1, sizeof *null);
}

static wf_status_t offer_line(const null_source_t *null, const wf_problem_t *problem, const line_t *line,
                              const wf_tactic_sink_t *sink)
{
    wf_layout_t *layouts;
    size_t count = problem->operand_count + problem->output_count;
    WF_TRY(wf_alloc(null->allocator, count, sizeof *layouts, &layouts));
    line_layouts(line, problem, layouts, layouts + problem->operand_count);
    wf_tactic_t tactic = {.operand_layouts = layouts,
                          .output_layouts = layouts + problem->operand_count,
                          .estimate_ns = line->cost_ns,
                          .deterministic = !line->nondeterministic,
                          .exact = !line->inexact};
    snprintf(tactic.id, sizeof tactic.id, "%s", line->tactic);
    wf_status_t status = sink->offer(sink->self, &tactic);
    wf_free(null->allocator, layouts, count, sizeof *layouts);
    return status;
}

static wf_status_t null_list(void *self, const wf_problem_t *problem, const wf_tactic_sink_t *sink)
{
    const null_source_t *null = self;
    if (!null->scripted) {
        line_t line = default_line(problem);
        return offer_line(null, problem, &line, sink);
    }
    bool spoke = false;
    for (size_t i = 0; i < null->script.lines.count; i++) {
        const line_t *line = &null->script.lines.items[i];
        if (!fits(line, problem)) {
            continue;
        }
        spoke = true;
        if (line->tactic == NULL) {
            sink->decline(sink->self, line->family, WF_DECLINE_SCRIPTED, line->reason);
        } else {
            WF_TRY(offer_line(null, problem, line, sink));
        }
    }
    if (!spoke) {
        sink->decline(sink->self, "null", WF_DECLINE_SCRIPTED, "no line of the script fits");
    }
    return WF_OK;
}

static wf_status_t null_query(void *self, const wf_problem_t *problem, const char *tactic_id,
                              wf_layout_t *out_operand_layouts, wf_layout_t *out_output_layouts,
                              wf_tactic_needs_t *out_needs)
{
    line_t line;
    WF_TRY(find_line(self, problem, tactic_id, &line));
    line_layouts(&line, problem, out_operand_layouts, out_output_layouts);
    *out_needs = line.needs;
    return WF_OK;
}

struct wf_kernel {
    wf_allocator_t allocator;
    fault_t fault;
    uint64_t slow_ns;
    bool copies; /* operand 0 to output 0 */
    size_t output_count;
    size_t output_bytes[]; /* one per output */
};

static size_t kernel_bytes(size_t output_count)
{
    return sizeof(wf_kernel_t) + output_count * sizeof(size_t);
}

/* 0 for what has no fixed size. */
static size_t bytes_in_layout(const wf_type_t *type, wf_layout_t layout)
{
    int64_t elems = wf_layout_elems(type, layout), bits = 0;
    if (elems < 0 || !wf_i64_mul(elems, wf_dtype_bits(type->dtype), &bits)) {
        return 0;
    }
    return (size_t)(bits / 8 + (bits % 8 != 0));
}

static wf_status_t null_prepare(void *self, const wf_problem_t *problem, const char *tactic_id,
                                const wf_tensor_t *constants, wf_allocator_t allocator,
                                wf_kernel_t **out_kernel)
{
    (void)constants;
    *out_kernel = NULL;
    line_t line;
    WF_TRY(find_line(self, problem, tactic_id, &line));
    if (line.fault == FAULT_PREPARE) {
        return WF_ERROR(INTERNAL, "tactic %s was told to fail", tactic_id);
    }
    wf_layout_t *layouts;
    size_t count = problem->operand_count + problem->output_count;
    WF_TRY(wf_alloc(allocator, count, sizeof *layouts, &layouts));
    wf_layout_t *outputs = layouts + problem->operand_count;
    line_layouts(&line, problem, layouts, outputs);
    wf_kernel_t *kernel;
    wf_status_t status = wf_alloc(allocator, kernel_bytes(problem->output_count), 1, &kernel);
    if (status == WF_OK) {
        kernel->allocator = allocator;
        kernel->fault = line.fault;
        kernel->slow_ns = line.slow_ns;
        kernel->output_count = problem->output_count;
        for (size_t i = 0; i < problem->output_count; i++) {
            kernel->output_bytes[i] = bytes_in_layout(&problem->outputs[i], outputs[i]);
        }
        kernel->copies = problem->operand_count > 0 && !problem->operands[0].is_const &&
                         problem->operands[0].type.dtype != WF_DTYPE_NONE &&
                         bytes_in_layout(&problem->operands[0].type, layouts[0]) == kernel->output_bytes[0];
        *out_kernel = kernel;
    }
    wf_free(allocator, layouts, count, sizeof *layouts);
    return status;
}

static void null_release(void *self, wf_kernel_t *kernel)
{
    (void)self;
    wf_free(kernel->allocator, kernel, kernel_bytes(kernel->output_count), 1);
}

/* Takes memory and touches it until there is none; what was taken is never given back. */
static wf_status_t allocate_without_end(const wf_kernel_t *kernel)
{
    enum { CHUNK_BYTES = 1 << 24 };
    for (;;) {
        uint8_t *chunk;
        WF_TRY(wf_alloc(kernel->allocator, CHUNK_BYTES, 1, &chunk));
        memset(chunk, 1, CHUNK_BYTES);
    }
}

static wf_status_t commit_fault(const wf_kernel_t *kernel, const wf_view_t *outputs)
{
    switch (kernel->fault) {
    case FAULT_CRASH:
        raise(SIGSEGV);
        break;
    case FAULT_HANG:
        for (volatile bool hang = true; hang;) {
        }
        break;
    case FAULT_ALLOC:
        return allocate_without_end(kernel);
    case FAULT_OVERRUN:
        memset((char *)outputs[0].data + kernel->output_bytes[0], 0xa5, WF_CACHE_LINE_BYTES);
        break;
    case FAULT_NOISE:
        puts("null: noise on standard output");
        fflush(stdout);
        break;
    case FAULT_ERROR:
        return WF_ERROR(RUNTIME_DATA, "the null source was told to fail");
    case FAULT_WRONG:
        for (size_t i = 0; i < kernel->output_count; i++) {
            memset(outputs[i].data, 0xff, kernel->output_bytes[i]); /* a NaN in every float type */
        }
        break;
    case FAULT_NONE:
    case FAULT_PREPARE:
        break;
    }
    return WF_OK;
}

static wf_status_t null_launch(void *self, const wf_kernel_t *kernel, const wf_view_t *operands,
                               const wf_view_t *outputs, void *workspace, const wf_parallel_t *parallel)
{
    (void)self;
    (void)workspace;
    (void)parallel;
    uint64_t start_ns = wf_clock_ns();
    for (size_t i = 0; i < kernel->output_count; i++) {
        if (outputs[i].data == NULL || kernel->output_bytes[i] == 0) {
            continue;
        }
        if (i == 0 && kernel->copies && operands[0].data != NULL) {
            memmove(outputs[i].data, operands[0].data, kernel->output_bytes[i]);
        } else {
            memset(outputs[i].data, 0, kernel->output_bytes[i]);
        }
    }
    WF_TRY(commit_fault(kernel, outputs));
    while (kernel->slow_ns > 0 && wf_clock_ns() - start_ns < kernel->slow_ns) {
    }
    return WF_OK;
}

const wf_source_t wf_source_null = {
    .api_version = WF_BACKEND_API_VERSION,
    .name = "null",
    .open = null_open,
    .close = null_close,
    .list = null_list,
    .query = null_query,
    .prepare = null_prepare,
    .release = null_release,
    .launch = null_launch,
};
