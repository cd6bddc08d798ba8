/* SPDX-License-Identifier: Apache-2.0 */
#include "archive.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX_BYTES ((size_t)1 << 40)

/* ---- writing ---- */

static bool has_problem(const wf_engine_t *engine, const char *problem)
{
    for (size_t spec = 0; spec < wf_engine_spec_count(engine); spec++) {
        for (size_t i = 0; i < wf_engine_step_count(engine, spec); i++) {
            if (strcmp(wf_engine_step(engine, spec, i).problem, problem) == 0)
                return true;
        }
    }
    return false;
}

/* Keeps the lines of an export that are of the engine's problems, in place; returns their bytes. */
static size_t keep_lines(const wf_engine_t *engine, char *text, size_t bytes)
{
    size_t kept = 0;
    for (char *line = text, *stop; line < text + bytes; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(text + bytes - line));
        if (stop == NULL)
            break;
        json_t *row = json_loadb(line, (size_t)(stop - line), 0, NULL);
        const char *problem = json_string_value(json_object_get(row, "problem"));
        if (problem != NULL && has_problem(engine, problem)) {
            memmove(text + kept, line, (size_t)(stop - line) + 1);
            kept += (size_t)(stop - line) + 1;
        }
        json_decref(row);
    }
    return kept;
}

int cli_archive_write(const cli_options_t *options, const char *engine_path, const json_t *report)
{
    enum { ENGINE, LOCK, TIMINGS, BASELINE, REPORT, PARTS };
    wf_archive_part_t parts[PARTS] = {{.name = WF_ARCHIVE_ENGINE},
                                      {.name = WF_ARCHIVE_LOCK},
                                      {.name = WF_ARCHIVE_TIMINGS},
                                      {.name = WF_ARCHIVE_BASELINE},
                                      {.name = WF_ARCHIVE_REPORT}};
    char *bytes = NULL, *baseline = NULL, *timings = NULL, *report_text = NULL, name[4200];
    size_t length = 0, timing_bytes = 0;
    cli_error_t error = {0};
    wf_engine_t *engine = NULL;
    if (!cli_read_file(engine_path, FILE_MAX_BYTES, &bytes, &length, &error))
        return cli_fail_with(options, error.code, error.hint, "%s", error.message);
    wf_engine_options_t any = {.struct_bytes = sizeof any, .ignore_fingerprint = true};
    wf_status_t status = wf_engine_open(engine_path, &any, &engine);
    if (wf_status_code(status) == WF_CODE_OK) {
        const char *lock = wf_engine_facts(engine).lock;
        parts[ENGINE].data = bytes;
        parts[ENGINE].bytes = length;
        parts[LOCK].data = lock;
        parts[LOCK].bytes = strlen(lock);
        wf_status_t exported = wf_cache_command(options->timing_cache, "export", NULL, false,
                                                wf_allocator_system(), &timings, &timing_bytes);
        if (wf_status_code(exported) == WF_CODE_OK) {
            parts[TIMINGS].data = timings;
            parts[TIMINGS].bytes = keep_lines(engine, timings, timing_bytes);
        }
        wf_status_free(exported);
        (void)snprintf(name, sizeof name, "%s.baseline.json", engine_path);
        if (access(name, R_OK) == 0 &&
            cli_read_file(name, FILE_MAX_BYTES, &baseline, &parts[BASELINE].bytes, &error))
            parts[BASELINE].data = baseline;
        report_text = json_dumps(report, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
        parts[REPORT].data = report_text;
        parts[REPORT].bytes = report_text != NULL ? strlen(report_text) : 0;
        status = wf_archive_save(parts, PARTS, options->archive, options->force, wf_allocator_system());
    }
    wf_engine_close(engine);
    free(report_text);
    free(baseline);
    free(timings);
    free(bytes);
    return cli_fail(options, status);
}

/* ---- building ---- */

static int print_result(const cli_options_t *options, const char *path, bool identical, const json_t *report)
{
    const json_t *anew = json_object_get(report, "decisions_anew");
    if (options->json) {
        json_t *document = report != NULL ? json_deep_copy(report) : json_object();
        (void)json_object_set_new(document, "engine", json_string(path));
        (void)json_object_set_new(document, "identical", json_boolean(identical));
        return cli_print_json(document, 0);
    }
    if (identical) {
        (void)printf("%s: the engine of the archive, byte for byte\n", path);
        return 0;
    }
    (void)printf(
        "%s: rebuilt for this machine; %lld decisions of the archive hold, %zu must be measured anew\n", path,
        (long long)json_integer_value(json_object_get(report, "decisions_kept")), json_array_size(anew));
    size_t index;
    json_t *row;
    json_array_foreach((json_t *)(uintptr_t)anew, index, row)
    {
        const char *chosen = json_string_value(json_object_get(row, "chosen"));
        (void)printf("  %s: %s here, %s there\n", json_string_value(json_object_get(row, "problem")),
                     chosen != NULL && chosen[0] != '\0' ? chosen : "done otherwise",
                     json_string_value(json_object_get(row, "tactic")));
    }
    if (json_array_size(anew) > 0)
        (void)printf("'wayfinder tune' measures them\n");
    return 0;
}

/* The engine as it is, checked like any other before it is written. */
static int extract(const cli_options_t *options, const wf_archive_part_t *engine_part, const char *lock,
                   const char *path)
{
    wf_engine_options_t engine_options = {.struct_bytes = sizeof engine_options, .log = cli_log(options)};
    wf_engine_t *engine = NULL;
    wf_status_t status =
        wf_engine_open_bytes(engine_part->data, engine_part->bytes, &engine_options, &engine);
    if (wf_status_exit_code(status) == 7) {
        int code =
            cli_fail_with(options, wf_status_code(status),
                          "name the model: 'wayfinder build MODEL --archive FILE' rebuilds for this machine",
                          "%s", wf_status_message(status));
        wf_status_free(status);
        return code;
    }
    if (wf_status_code(status) != WF_CODE_OK)
        return cli_fail(options, status);
    bool same = strcmp(wf_engine_facts(engine).lock, lock) == 0;
    wf_engine_close(engine);
    if (!same) {
        return cli_fail_with(options, WF_CODE_ARCHIVE_INVALID, NULL,
                             "the lock in the archive is not the one in its engine");
    }
    int code = cli_fail(options, wf_engine_save(engine_part->data, engine_part->bytes, path, options->force));
    return code != 0 ? code : print_result(options, path, true, NULL);
}

static int rebuild(const cli_options_t *options, cli_build_t *build, const wf_archive_part_t *engine_part,
                   const char *lock, const char *path)
{
    wf_model_t *model = NULL;
    wf_build_result_t result = {0};
    wf_status_t status = wf_model_open(options->arguments[0], wf_allocator_system(), &model);
    build->options.lock = lock;
    if (wf_status_code(status) == WF_CODE_OK)
        status = wf_build(model, &build->options, &result);
    if (wf_status_code(status) == WF_CODE_LOCK_MISMATCH) {
        /* A plan of another machine is followed as far as it goes; another model's stays a mismatch. */
        wf_status_free(status);
        build->options.lock_guides = true;
        status = wf_build(model, &build->options, &result);
    }
    wf_model_close(model);
    cli_progress_done();
    if (wf_status_code(status) == WF_CODE_OK)
        status = wf_engine_save(result.engine, result.engine_bytes, path, options->force);
    int code = cli_fail(options, status);
    if (code == 0) {
        bool identical = engine_part->bytes == result.engine_bytes &&
                         memcmp(engine_part->data, result.engine, result.engine_bytes) == 0;
        json_t *report = json_loads(result.report_json, 0, NULL);
        code = print_result(options, path, identical, report);
        json_decref(report);
    }
    wf_build_result_free(&result);
    return code;
}

int cli_archive_build(const cli_options_t *options, cli_build_t *build, const char *path)
{
    wf_archive_t *archive = NULL;
    int code = cli_fail(options, wf_archive_open(options->archive, wf_allocator_system(), &archive));
    if (code != 0)
        return code;
    wf_archive_part_t engine = wf_archive_find(archive, WF_ARCHIVE_ENGINE),
                      lock_part = wf_archive_find(archive, WF_ARCHIVE_LOCK);
    char *lock = lock_part.data != NULL ? strndup(lock_part.data, lock_part.bytes) : NULL;
    if (engine.data == NULL || lock == NULL) {
        code = cli_fail_with(options, WF_CODE_ARCHIVE_INVALID, NULL, "%s has no engine or no lock",
                             options->archive);
    } else if (options->argument_count == 0) {
        code = extract(options, &engine, lock, path);
    } else {
        code = rebuild(options, build, &engine, lock, path);
    }
    free(lock);
    wf_archive_close(archive);
    return code;
}
