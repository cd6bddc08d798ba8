/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive.h"
#include "cli.h"
#include "manifest.h"
#include "output_path.h"

/* Budgets of --effort 0 to 5, in seconds. */
static const double effort_s[] = {10, 30, 60, 120, 300, 900};

typedef struct live {
    const cli_options_t *options;
    FILE *events; /* NULL: none */
    bool terminal, open;
    double last_line_s;
    char stage[120];
    double best_ns;
} live_t;

static const char *const kind_names[] = {"stage",     "default", "timing", "trial",
                                         "incumbent", "fault",   "note",   "tick"};

static void write_event(live_t *live, const wf_tune_event_t *e)
{
    if (live->events == NULL)
        return;
    json_t *row =
        json_pack("{s:s s:s s:f s:f s:f s:I s:I}", "event", kind_names[e->kind], "text",
                  e->text != NULL ? e->text : "", "elapsed_s", e->elapsed_s, "budget_s", e->budget_s,
                  "value_ns", e->value_ns, "done", (json_int_t)e->done, "total", (json_int_t)e->total);
    if (row != NULL)
        (void)json_dumpf(row, live->events, JSON_COMPACT);
    (void)fputc('\n', live->events);
    (void)fflush(live->events);
    json_decref(row);
}

static void clear_line(live_t *live)
{
    if (live->open)
        (void)fprintf(stderr, "\r\033[K");
    live->open = false;
}

/* The one line that is refreshed on a terminal. */
static void refresh(live_t *live, const wf_tune_event_t *e)
{
    enum { CELLS = 24 };
    char bar[CELLS + 1], best[40] = "", part[60] = "";
    int filled = e->budget_s > 0 ? (int)(CELLS * e->elapsed_s / e->budget_s) : 0;
    for (int i = 0; i < CELLS; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[CELLS] = '\0';
    if (live->best_ns > 0)
        (void)cli_time_text(live->best_ns, best, sizeof best);
    if (e->total > 0)
        (void)snprintf(part, sizeof part, " %llu/%llu", (unsigned long long)e->done,
                       (unsigned long long)e->total);
    (void)fprintf(stderr, "\r\033[K[%s] %3.0f/%.0f s  %s%s%s%s", bar, e->elapsed_s, e->budget_s, live->stage,
                  part, best[0] != '\0' ? "  best " : "", best);
    live->open = true;
}

static bool on_event(void *self, const wf_tune_event_t *e)
{
    live_t *live = self;
    char time[40];
    write_event(live, e);
    if (e->kind == WF_TUNE_STAGE)
        (void)snprintf(live->stage, sizeof live->stage, "%s", e->text);
    if (e->kind == WF_TUNE_DEFAULT || e->kind == WF_TUNE_INCUMBENT)
        live->best_ns = e->value_ns;
    if (live->options->quiet)
        return cli_stop_asked();
    double left = e->budget_s - e->elapsed_s;
    bool line = true;
    switch (e->kind) {
    case WF_TUNE_STAGE:
        clear_line(live);
        (void)fprintf(stderr, "%6.1f s  %s\n", e->elapsed_s, e->text);
        break;
    case WF_TUNE_DEFAULT:
        clear_line(live);
        (void)fprintf(stderr, "%6.1f s  default engine ready in %.0f s%s%s; %.0f s of tuning to go\n",
                      e->elapsed_s, e->elapsed_s, e->value_ns > 0 ? ", " : "",
                      e->value_ns > 0 ? cli_time_text(e->value_ns, time, sizeof time) : "",
                      left > 0 ? left : 0);
        break;
    case WF_TUNE_INCUMBENT:
        clear_line(live);
        (void)fprintf(stderr, "%6.1f s  best so far %s%s%s\n", e->elapsed_s,
                      cli_time_text(e->value_ns, time, sizeof time),
                      e->text != NULL && e->text[0] != '\0' ? ": " : "", e->text != NULL ? e->text : "");
        break;
    case WF_TUNE_FAULT:
    case WF_TUNE_NOTE:
        clear_line(live);
        (void)fprintf(stderr, "%6.1f s  %s\n", e->elapsed_s, e->text);
        break;
    default:
        line = false;
    }
    /* Logs of a build server get a sign of life every ten seconds, terminals a moving line. */
    if (live->terminal)
        refresh(live, e);
    else if (!line && e->elapsed_s - live->last_line_s >= 10) {
        (void)fprintf(stderr, "%6.1f s  %s: %llu of %llu; %.0f s left\n", e->elapsed_s, live->stage,
                      (unsigned long long)e->done, (unsigned long long)e->total, left);
        live->last_line_s = e->elapsed_s;
    }
    if (line)
        live->last_line_s = e->elapsed_s;
    return cli_stop_asked();
}

static double number(const json_t *report, const char *object, const char *key)
{
    return json_number_value(json_object_get(object != NULL ? json_object_get(report, object) : report, key));
}

/* What was tried whole, and whether it is worth going on. */
static void print_search(const json_t *report)
{
    const json_t *search = json_object_get(report, "search"), *row;
    size_t index, kept = 0, screened = json_array_size(json_object_get(search, "in_context"));
    json_array_foreach(json_object_get(search, "in_context"), index, row)
    {
        kept += json_is_true(json_object_get(row, "kept"));
    }
    if (number(search, NULL, "trials") > 0)
        (void)printf("  routes   %.0f tried whole\n", number(search, NULL, "trials"));
    if (screened > 0)
        (void)printf("  choices  %zu compared inside the model, %zu changed\n", screened, kept);
    double share = number(report, "headroom", "share");
    char roofline[40];
    if (number(report, "final", "median_ns") > 0 && number(report, "headroom", "roofline_ns") > 0)
        (void)printf("  headroom %.0f %% above the roofline of %s\n",
                     100 * share / (share < 1 ? 1 - share : 1),
                     cli_time_text(number(report, "headroom", "roofline_ns"), roofline, sizeof roofline));
    const json_t *next = json_object_get(json_object_get(report, "gain"), "next_minute");
    if (json_is_real(next))
        (void)printf("  gain     another minute of measuring tactics is expected to bring %.2f %%\n",
                     100 * json_real_value(next));
}

static void print_summary(const char *path, const json_t *report)
{
    char before[40], after[40];
    double ratio = number(report, NULL, "ratio");
    const char *verdict = json_string_value(json_object_get(report, "verdict"));
    (void)printf("%s: %s\n", path, verdict != NULL ? verdict : "written");
    (void)printf("  default  %s\n",
                 cli_time_text(number(report, "default", "median_ns"), before, sizeof before));
    (void)printf("  written  %s", cli_time_text(number(report, "final", "median_ns"), after, sizeof after));
    if (ratio > 0)
        (void)printf("  (%.3f of the default, 95 %% between %.3f and %.3f)", ratio,
                     number(report, NULL, "ratio_lo95"), number(report, NULL, "ratio_hi95"));
    (void)printf("\n  timings  %.0f measured, %.0f reused from the database\n  time     %.1f s of %.0f s\n",
                 number(report, "timings", "measured"), number(report, "timings", "reused"),
                 number(report, NULL, "elapsed_s"), number(report, NULL, "budget_s"));
    const char *reason;
    json_t *count;
    const char *separator = "  misses   ";
    json_object_foreach(json_object_get(json_object_get(report, "timings"), "misses"), reason, count)
    {
        (void)printf("%s%lld %s", separator, (long long)json_integer_value(count), reason);
        separator = ", ";
    }
    if (separator[0] == ',')
        (void)printf(" (looked up in the database)\n");
    const json_t *target = json_object_get(report, "target");
    if (target != NULL) {
        (void)printf("  target   %s: %s\n", json_string_value(json_object_get(target, "text")),
                     json_string_value(json_object_get(target, "verdict")));
    }
    print_search(report);
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(report, "quarantined"), index, row)
    {
        char *text = json_dumps(row, JSON_COMPACT | JSON_ENCODE_ANY);
        (void)printf("  put aside %s\n", text != NULL ? text : "?");
        free(text);
    }
}

static void print_dry_run(const json_t *plan)
{
    char each[40], total[40];
    const json_t *trials = json_object_get(plan, "trials");
    (void)printf("strategy  %s\n", json_string_value(json_object_get(plan, "strategy")));
    (void)printf("factors   %.0f tactic and knob choices around the default route\n",
                 number(plan, NULL, "factors"));
    if (json_is_integer(trials)) {
        (void)printf("trials    %.0f, about %s in all\n", json_number_value(trials),
                     cli_time_text(1e9 * number(plan, NULL, "seconds"), total, sizeof total));
    } else {
        (void)printf("trials    as many as the budget gives: about %.0f\n",
                     number(plan, NULL, "trials_in_budget"));
    }
    (void)printf("a trial   about %s\n",
                 cli_time_text(1e9 * number(plan, NULL, "trial_s"), each, sizeof each));
    if (number(plan, NULL, "tactics_to_measure") > 0)
        (void)printf("tactics   up to %.0f to measure alone\n", number(plan, NULL, "tactics_to_measure"));
}

/* The command that goes on where this one stopped, as it was typed. */
static void print_resume(const cli_options_t *options)
{
    (void)fprintf(stderr, "interrupted; the best so far is written. This goes on where it stopped:\n ");
    for (int i = 0; i < options->argc; i++) {
        const char *word = options->argv[i];
        bool plain =
            word[0] != '\0' && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                 "0123456789._-+=/:,@%")] == '\0';
        if (plain) {
            (void)fprintf(stderr, " %s", word);
            continue;
        }
        (void)fprintf(stderr, " '");
        for (; *word != '\0'; word++)
            (void)fprintf(stderr, *word == '\'' ? "'\\%c'" : "%c", *word);
        (void)fprintf(stderr, "'");
    }
    (void)fprintf(stderr, "\n");
}

/* The lock is what the engine carries. */
static int write_lock(const cli_options_t *options, const char *engine_path)
{
    wf_engine_t *engine = NULL;
    cli_error_t error = {0};
    int code = cli_fail(options, wf_engine_open(engine_path, NULL, &engine));
    if (code != 0)
        return code;
    const char *lock = wf_engine_facts(engine).lock;
    bool ok = cli_write_file(options->lock, lock, strlen(lock), "", 0, &error);
    wf_engine_close(engine);
    return ok ? 0 : cli_fail_with(options, error.code, error.hint, "%s", error.message);
}

static int tune_model(const cli_options_t *options, cli_build_t *build, const char *path, live_t *live)
{
    wf_model_t *model = NULL;
    wf_tune_result_t result = {0};
    wf_tune_options_t tune = {.struct_bytes = sizeof tune,
                              .build = build->options,
                              .output_path = path,
                              .force = options->force,
                              .budget_s = options->budget_s,
                              .timing_cache = options->timing_cache,
                              .record = options->record,
                              .fresh = options->fresh,
                              .require_cached = options->require_cached,
                              .seed = options->seed.value,
                              .strategy = options->strategy,
                              .trial_limit = options->trials.value,
                              .target = options->target,
                              .objective = options->objective,
                              .dry_run = options->dry_run,
                              .event = on_event,
                              .event_self = live};
    if (tune.budget_s == 0 && options->effort.given)
        tune.budget_s = effort_s[options->effort.value];
    wf_status_t status = wf_model_open(options->arguments[0], wf_allocator_system(), &model);
    int code = wf_status_code(status) == WF_CODE_OK ? cli_build_fix_values(options, model, build) : 0;
    tune.build = build->options;
    tune.build.progress = NULL;
    if (wf_status_code(status) == WF_CODE_OK && code == 0)
        status = wf_tune(model, &tune, &result);
    wf_model_close(model);
    clear_line(live);
    if (code != 0)
        return code;
    code = wf_status_exit_code(status);
    json_t *report = result.report_json != NULL ? json_loads(result.report_json, 0, NULL) : NULL;
    bool written = code == 0 || code == 3 || code == 130;
    if (written && report != NULL && options->lock != NULL && !options->dry_run && access(path, F_OK) == 0) {
        int lock_code = write_lock(options, path);
        if (lock_code != 0 && code == 0)
            code = lock_code;
    }
    if (written && report != NULL && options->archive != NULL && access(path, F_OK) == 0) {
        int archive_code = cli_archive_write(options, path, report);
        if (archive_code != 0 && code == 0)
            code = archive_code;
    }
    if (report != NULL && written) {
        if (options->json) {
            (void)json_object_set_new(report, "interrupted", json_boolean(code == 130));
            code = cli_print_json(json_incref(report), code);
            wf_status_free(status);
        } else if (options->dry_run) {
            print_dry_run(json_object_get(report, "dry_run"));
            wf_status_free(status);
        } else {
            print_summary(path, report);
            if (code == 130)
                print_resume(options);
            wf_status_free(status);
        }
    } else {
        code = cli_fail(options, status);
    }
    json_decref(report);
    wf_tune_result_free(&result);
    return code;
}

/* The engine that the lock gives is what is at `path`; a file that is not there is no difference. */
static int compare_engine(const cli_options_t *options, const char *path, const wf_build_result_t *built)
{
    char *bytes = NULL;
    size_t length = 0;
    cli_error_t error = {0};
    if (access(path, F_OK) != 0)
        return 0;
    if (!cli_read_file(path, SIZE_MAX / 2, &bytes, &length, &error))
        return cli_fail_with(options, error.code, error.hint, "%s", error.message);
    bool same = length == built->engine_bytes && memcmp(bytes, built->engine, length) == 0;
    free(bytes);
    return same ? 0
                : cli_fail_with(options, WF_CODE_LOCK_MISMATCH,
                                "'wayfinder build MODEL --lock FILE' writes the engine of the lock",
                                "%s is not the engine that the lock %s gives", path, options->locked);
}

/* --locked: nothing is measured and nothing written. */
static int check_locked(const cli_options_t *options, cli_build_t *build, const char *path)
{
    wf_model_t *model = NULL;
    wf_build_result_t result = {0};
    char *lock = NULL;
    size_t lock_bytes = 0;
    cli_error_t error = {0};
    if (!cli_read_file(options->locked, (size_t)1 << 30, &lock, &lock_bytes, &error))
        return cli_fail_with(options, error.code, error.hint, "%s", error.message);
    build->options.lock = lock;
    wf_status_t status = wf_model_open(options->arguments[0], wf_allocator_system(), &model);
    if (wf_status_code(status) == WF_CODE_OK)
        status = wf_build(model, &build->options, &result);
    wf_model_close(model);
    free(lock);
    cli_progress_done();
    int code = cli_fail(options, status);
    if (code == 0 && options->output != NULL)
        code = compare_engine(options, path, &result);
    if (code == 0 && options->json) {
        json_t *report = json_loads(result.report_json, 0, NULL);
        (void)json_object_set_new(report, "lock", json_string(options->locked));
        (void)json_object_set_new(report, "holds", json_true());
        code = cli_print_json(report, 0);
    } else if (code == 0) {
        (void)printf("%s holds: the model, its shapes and every tactic are as it says\n", options->locked);
    }
    wf_build_result_free(&result);
    return code;
}

static void catch_signals(void)
{
    cli_catch_signals();
    (void)signal(SIGPIPE, SIG_IGN); /* whoever watched is gone; the engine is still wanted */
}

int cli_verb_tune(const cli_options_t *options)
{
    if (options->manifest != NULL && options->argument_count == 0) {
        catch_signals();
        return cli_manifest_tune(options);
    }
    if (options->argument_count != 1 || options->manifest != NULL)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder tune MODEL -o FILE --budget 90s",
                             "tune takes one model, or --manifest FILE");
    if (options->effort.given && options->effort.value >= sizeof effort_s / sizeof effort_s[0]) {
        return cli_fail_with(options, WF_CODE_USAGE, "give 0 to 5", "--effort %llu", options->effort.value);
    }
    if (options->lock != NULL && access(options->lock, F_OK) == 0 && !options->force) {
        return cli_fail_with(options, WF_CODE_FILE_EXISTS, "give --force to replace it, or another name",
                             "the lock %s exists", options->lock);
    }
    if (options->lock != NULL && options->locked != NULL) {
        return cli_fail_with(options, WF_CODE_USAGE, "--lock writes a lock, --locked checks one",
                             "--lock and --locked together");
    }
    cli_build_t build;
    char path[4096];
    live_t live = {.options = options, .terminal = isatty(STDERR_FILENO) == 1 && getenv("NO_COLOR") == NULL};
    catch_signals();
    int code = cli_output_path(options, path, sizeof path);
    if (code != 0)
        return code;
    if (options->events != NULL && (live.events = fopen(options->events, "we")) == NULL) {
        return cli_fail_with(options, WF_CODE_FILE_UNWRITABLE, "give a file that can be written",
                             "cannot write %s: %s", options->events, strerror(errno));
    }
    code = cli_build_make(options, &build);
    if (code == 0)
        code = options->locked != NULL ? check_locked(options, &build, path)
                                       : tune_model(options, &build, path, &live);
    cli_build_free(&build);
    if (live.events != NULL && fclose(live.events) != 0 && code == 0)
        code = 10;
    return code;
}
