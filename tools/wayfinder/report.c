/* SPDX-License-Identifier: Apache-2.0 */
/* What people and machines read: errors, JSON, progress, numbers with units. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* ---- errors ---- */

static int exit_code_of(wf_code_t code)
{
    return code == WF_CODE_INTERRUPTED ? 130 : (int)code / 100;
}

static int tell(const cli_options_t *options, wf_code_t code, const char *message, const char *hint)
{
    int exit_code = exit_code_of(code);
    char name[16];
    (void)snprintf(name, sizeof name, "WF-%04d", (int)code);
    cli_progress_done();
    if (options->json) {
        json_t *error = json_pack("{s:s s:s s:s s:s s:i}", "code", name, "title", wf_code_title(code),
                                  "message", message, "hint", hint != NULL ? hint : "", "exit", exit_code);
        json_t *document = json_pack("{s:o}", "error", error);
        return cli_print_json(document, exit_code);
    }
    (void)fprintf(stderr, "error %s: %s\n", name, message);
    if (hint != NULL && hint[0] != '\0')
        (void)fprintf(stderr, "  hint: %s\n", hint);
    return exit_code;
}

int cli_fail(const cli_options_t *options, wf_status_t status)
{
    if (wf_status_code(status) == WF_CODE_OK)
        return 0;
    int code = tell(options, wf_status_code(status), wf_status_message(status), wf_status_hint(status));
    wf_status_free(status);
    return code;
}

int cli_fail_with(const cli_options_t *options, wf_code_t code, const char *hint, const char *format, ...)
{
    char message[1500];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return tell(options, code, message, hint);
}

bool cli_error_set(cli_error_t *error, wf_code_t code, const char *hint, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(error->message, sizeof error->message, format, list);
    va_end(list);
    error->code = code;
    error->hint = hint;
    return false;
}

int cli_print_json(json_t *document, int exit_code)
{
    if (document == NULL || (json_object_get(document, "schema_version") == NULL &&
                             json_object_set_new(document, "schema_version", json_integer(1)) != 0)) {
        json_decref(document);
        (void)fprintf(stderr, "error WF-1001: out of memory\n");
        return 10;
    }
    int failed = json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    (void)fputc('\n', stdout);
    json_decref(document);
    return failed != 0 ? 10 : exit_code;
}

/* ---- log ---- */

static void write_log(void *self, wf_log_level_t level, const char *line)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    (void)self;
    cli_progress_done();
    (void)fprintf(stderr, "%s: %s\n", names[level], line);
}

int cli_print_report(const cli_options_t *options, char *report, void (*print)(const json_t *document))
{
    json_t *document = json_loads(report, 0, NULL);
    free(report);
    if (options->json)
        return cli_print_json(document, 0);
    print(document);
    json_decref(document);
    return 0;
}

wf_log_t cli_log(const cli_options_t *options)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    wf_log_level_t level = options->quiet ? WF_LOG_ERROR : options->verbose ? WF_LOG_INFO : WF_LOG_WARN;
    const char *wanted = getenv("WAYFINDER_LOG");
    for (int i = 0; wanted != NULL && i < 4; i++) {
        if (strcmp(wanted, names[i]) == 0)
            level = (wf_log_level_t)i;
    }
    return (wf_log_t){.write = write_log, .max_level = level};
}

/* ---- texts ---- */

const char *cli_shape_text(const wf_type_t *type, char *out, size_t out_bytes)
{
    size_t at = 0;
    (void)snprintf(out, out_bytes, "scalar");
    for (uint32_t d = 0; d < type->rank && at < out_bytes; d++) {
        int n = snprintf(out + at, out_bytes - at, "%s%lld", d > 0 ? "x" : "", (long long)type->dims[d]);
        at += n > 0 ? (size_t)n : 0;
    }
    return out;
}

const char *cli_time_text(double ns, char *out, size_t out_bytes)
{
    static const struct {
        double ns;
        const char *unit;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    size_t i = 0;
    while (i < 3 && ns < units[i].ns)
        i++;
    (void)snprintf(out, out_bytes, "%.4g %s", ns / units[i].ns, units[i].unit);
    return out;
}

const char *cli_bytes_text(double bytes, char *out, size_t out_bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t i = 0;
    for (; i < 4 && bytes >= 1024; i++)
        bytes /= 1024;
    (void)snprintf(out, out_bytes, i == 0 ? "%.0f %s" : "%.1f %s", bytes, units[i]);
    return out;
}

/* Levenshtein's distance, for words of at most 40 letters. */
static size_t distance(const char *a, const char *b)
{
    enum { LETTERS = 40 };
    size_t row[LETTERS + 1], length = strlen(b);
    if (length > LETTERS || strlen(a) > LETTERS)
        return LETTERS;
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[length];
}

const char *cli_nearest(const char *word, const char *const *words, size_t count)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 2;
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(word, words[i]);
        if (d >= best_distance)
            continue;
        best_distance = d;
        best = words[i];
    }
    return best;
}

/* ---- progress ---- */

static bool line_open;

bool cli_progress(void *self, const char *what, double fraction)
{
    static double last_s;
    const cli_options_t *options = self;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    double now_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    bool terminal = isatty(STDERR_FILENO) == 1;
    if (last_s == 0)
        last_s = now_s; /* nothing in the first moments: fast work stays silent */
    if (options->quiet || now_s - last_s < (terminal ? 0.2 : 2.0))
        return cli_stop_asked();
    last_s = now_s;
    char percent[16] = "";
    if (fraction >= 0)
        (void)snprintf(percent, sizeof percent, " %3.0f %%", 100 * fraction);
    (void)fprintf(stderr, terminal ? "\r\033[K%s%s" : "%s%s\n", what, percent);
    line_open = terminal;
    return cli_stop_asked();
}

void cli_progress_done(void)
{
    if (line_open)
        (void)fprintf(stderr, "\r\033[K");
    line_open = false;
}
