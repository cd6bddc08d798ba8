/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "archive.h"
#include "cli.h"
#include "output_path.h"

static void print_summary(const cli_options_t *options, const char *path, const wf_build_result_t *result)
{
    json_t *report = json_loads(result->report_json, 0, NULL);
    if (options->json) {
        (void)json_object_set_new(report, "engine", json_string(path));
        (void)cli_print_json(report, 0);
        return;
    }
    char bytes[40], time[40];
    (void)printf(
        "%s: %s, %lld route items, estimated %s\n", path,
        cli_bytes_text((double)result->engine_bytes, bytes, sizeof bytes),
        (long long)json_integer_value(json_object_get(report, "route_items")),
        cli_time_text(json_number_value(json_object_get(report, "estimated_ns")), time, sizeof time));
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(report, "accuracy"), index, row)
    {
        (void)printf("  output %s agrees with the reference: %.2g of its scale, SQNR %.0f dB\n",
                     json_string_value(json_object_get(row, "output")),
                     json_number_value(json_object_get(row, "max_abs_of_scale")),
                     json_number_value(json_object_get(row, "sqnr_db")));
    }
    json_decref(report);
}

static int build_model(const cli_options_t *options, cli_build_t *build, const char *path)
{
    wf_model_t *model = NULL;
    wf_build_result_t result;
    char *lock = NULL;
    size_t lock_bytes = 0;
    cli_error_t error = {0};
    if (options->lock != NULL && !cli_read_file(options->lock, (size_t)1 << 30, &lock, &lock_bytes, &error)) {
        return cli_fail_with(options, error.code, error.hint, "%s", error.message);
    }
    build->options.lock = lock;
    wf_status_t status = wf_model_open(options->arguments[0], wf_allocator_system(), &model);
    int code = wf_status_code(status) == WF_CODE_OK ? cli_build_fix_values(options, model, build) : 0;
    if (wf_status_code(status) == WF_CODE_OK && code == 0)
        status = wf_build(model, &build->options, &result);
    wf_model_close(model);
    free(lock);
    if (code != 0)
        return code;
    cli_progress_done();
    if (wf_status_code(status) != WF_CODE_OK)
        return cli_fail(options, status);
    status = wf_engine_save(result.engine, result.engine_bytes, path, options->force);
    if (wf_status_code(status) == WF_CODE_OK)
        print_summary(options, path, &result);
    wf_build_result_free(&result);
    return cli_fail(options, status);
}

int cli_verb_build(const cli_options_t *options)
{
    bool extracts = options->archive != NULL && options->argument_count == 0;
    if (options->argument_count != 1 && !extracts)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder build MODEL -o FILE",
                             "build takes one model");
    if (options->archive != NULL && options->lock != NULL)
        return cli_fail_with(options, WF_CODE_USAGE, "an archive has its own lock", "--archive and --lock");
    if (extracts && options->output == NULL)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder build --archive FILE -o ENGINE",
                             "without a model -o says where the engine goes");
    cli_build_t build;
    char path[4096];
    cli_catch_signals();
    int code = 0;
    if (extracts)
        (void)snprintf(path, sizeof path, "%s", options->output);
    else
        code = cli_output_path(options, path, sizeof path);
    if (code != 0)
        return code;
    code = cli_build_make(options, &build);
    if (code == 0)
        code = options->archive != NULL ? cli_archive_build(options, &build, path)
                                        : build_model(options, &build, path);
    cli_build_free(&build);
    return code;
}
