/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs around baselines: gate, baseline and diff. */
#include <errno.h>
#include <string.h>

#include "cli.h"
#include "gate_report.h"

static wf_gate_options_t gate_options(const cli_options_t *options)
{
    return (wf_gate_options_t){.struct_bytes = sizeof(wf_gate_options_t),
                               .baseline_path = options->baseline,
                               .store = options->store,
                               .min_effect = options->min_effect,
                               .alpha = options->alpha,
                               .budget_s = options->budget_s,
                               .seed = options->seed.value,
                               .thread_count = (uint32_t)options->threads.value,
                               .isa = options->isa,
                               .any_machine = options->any_machine,
                               .any_model = options->any_model,
                               .allocator = wf_allocator_system(),
                               .log = cli_log(options),
                               .progress_self = (void *)(uintptr_t)options,
                               .progress = cli_progress};
}

typedef void print_fn(FILE *to, const json_t *report, const char *engine);

static int write_file(const cli_options_t *options, const char *path, const char *mode, print_fn *print,
                      const json_t *report)
{
    FILE *file = fopen(path, mode);
    if (file != NULL)
        print(file, report, options->arguments[0]);
    bool ok = file != NULL && ferror(file) == 0;
    if (file != NULL)
        ok = fclose(file) == 0 && ok;
    return ok ? 0
              : cli_fail_with(options, WF_CODE_FILE_UNWRITABLE, "give a file that can be written",
                              "cannot write %s: %s", path, strerror(errno));
}

static int tell(const cli_options_t *options, json_t *report)
{
    int code = (int)json_integer_value(json_object_get(report, "exit")), failed = 0;
    if (options->junit != NULL)
        failed = write_file(options, options->junit, "we", cli_gate_print_junit, report);
    if (failed == 0 && options->markdown != NULL)
        failed = write_file(options, options->markdown, "ae", cli_gate_print_markdown, report);
    if (failed != 0)
        return failed;
    if (options->json)
        return cli_print_json(json_incref(report), code);
    cli_gate_print_text(report);
    if (options->annotations)
        cli_gate_print_annotation(report, options->arguments[0]);
    return code;
}

/* Hands the report on, or tells the failure; `print` gives the exit code. */
static int finish(const cli_options_t *options, wf_status_t status, wf_gate_result_t *result,
                  int (*print)(const cli_options_t *options, json_t *report))
{
    cli_progress_done();
    int code = cli_fail(options, status);
    json_t *report = result->report_json != NULL ? json_loads(result->report_json, 0, NULL) : NULL;
    if (code == 0 && report == NULL)
        code = cli_fail_with(options, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    else if (code == 0)
        code = print(options, report);
    json_decref(report);
    wf_gate_result_free(result);
    return code;
}

/* The exit code is that of the verdict when a gate asks, and 0 when somebody looks. */
static int print_history(const cli_options_t *options, json_t *report)
{
    int code = options->verb == VERB_GATE ? (int)json_integer_value(json_object_get(report, "exit")) : 0;
    const json_t *points = json_object_get(report, "points"), *row;
    size_t index;
    if (options->json)
        return cli_print_json(json_incref(report), code);
    json_array_foreach(json_object_get(report, "changes"), index, row)
    {
        size_t at = (size_t)json_integer_value(json_object_get(row, "at"));
        (void)printf("gate %zu, engine %s: %+.2f %%\n", at + 1,
                     json_string_value(json_object_get(row, "engine")),
                     100 * (json_number_value(json_object_get(row, "ratio")) - 1));
    }
    (void)printf(
        "%s: %zu gates, %+.2f %% from the first level to the last (a slow-down of %.3g %% matters)\n",
        json_string_value(json_object_get(report, "verdict")), json_array_size(points),
        100 * (json_number_value(json_object_get(report, "ratio")) - 1),
        100 * json_number_value(json_object_get(report, "min_effect")));
    return code;
}

static int history(const cli_options_t *options, const char *engine)
{
    wf_gate_options_t gate = gate_options(options);
    wf_gate_result_t result = {0};
    return finish(options, wf_baseline_history(engine, &gate, &result), &result, print_history);
}

int cli_verb_gate(const cli_options_t *options)
{
    if (options->argument_count != 1)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder gate ENGINE --baseline FILE",
                             "gate takes one engine");
    if (options->history)
        return history(options, options->arguments[0]);
    wf_gate_options_t gate = gate_options(options);
    wf_gate_result_t result = {0};
    cli_catch_signals();
    return finish(options, wf_gate(options->arguments[0], &gate, &result), &result, tell);
}

static int print_diff(const cli_options_t *options, json_t *report)
{
    char a[40], b[40];
    if (options->json)
        return cli_print_json(json_incref(report), 0);
    (void)printf("%s: %s\n%s: %s\n", options->arguments[0],
                 cli_time_text(json_number_value(json_object_get(report, "a_ns")), a, sizeof a),
                 options->arguments[1],
                 cli_time_text(json_number_value(json_object_get(report, "b_ns")), b, sizeof b));
    cli_diff_print(stdout, report, options->verbose ? SIZE_MAX : 20, false);
    return 0;
}

int cli_verb_diff(const cli_options_t *options)
{
    if (options->argument_count != 2)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder diff A.wfe B.wfe", "diff takes two engines");
    wf_gate_options_t gate = gate_options(options);
    wf_gate_result_t result = {0};
    cli_catch_signals();
    return finish(options, wf_diff(options->arguments[0], options->arguments[1], &gate, &result), &result,
                  print_diff);
}

static int print_promoted(const cli_options_t *options, json_t *report)
{
    if (options->json)
        return cli_print_json(json_incref(report), 0);
    (void)printf("%s is the baseline of model %s\n  in %s\n", options->arguments[1],
                 json_string_value(json_object_get(report, "model")),
                 json_string_value(json_object_get(report, "folder")));
    return 0;
}

static int print_baseline(const cli_options_t *options, json_t *report)
{
    static const char *const texts[] = {"baseline", "engine", "engine_file", "model",
                                        "device",   "shapes", "environment"};
    char median[40], low[40], high[40];
    if (options->json)
        return cli_print_json(json_incref(report), 0);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        (void)printf("%-12s %s\n", texts[i], json_string_value(json_object_get(report, texts[i])));
    (void)printf("%-12s %lld\n", "threads",
                 (long long)json_integer_value(json_object_get(report, "threads")));
    long long samples = json_integer_value(json_object_get(report, "samples"));
    if (samples == 0) {
        (void)printf("%-12s not measured\n", "time");
        return 0;
    }
    (void)printf(
        "%-12s %s, 95 %% between %s and %s, %lld samples\n", "time",
        cli_time_text(json_number_value(json_object_get(report, "median_ns")), median, sizeof median),
        cli_time_text(json_number_value(json_object_get(report, "lo95_ns")), low, sizeof low),
        cli_time_text(json_number_value(json_object_get(report, "hi95_ns")), high, sizeof high), samples);
    return 0;
}

int cli_verb_baseline(const cli_options_t *options)
{
    const char *verb = options->argument_count == 2 ? options->arguments[0] : "";
    if (strcmp(verb, "history") == 0)
        return history(options, options->arguments[1]);
    wf_gate_options_t gate = gate_options(options);
    wf_gate_result_t result = {0};
    if (strcmp(verb, "show") == 0)
        return finish(options, wf_baseline_show(options->arguments[1], &gate, &result), &result,
                      print_baseline);
    if (strcmp(verb, "promote") != 0)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder baseline promote ENGINE --store DIR",
                             "baseline takes a verb and an engine: promote, history or show");
    return finish(options, wf_baseline_promote(options->arguments[1], &gate, &result), &result,
                  print_promoted);
}
