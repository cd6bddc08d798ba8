/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct listing {
    const cli_options_t *options;
    json_t *cases; /* NULL: text */
} listing_t;

static void tell_case(void *self, const char *name, const char *verdict, const char *why)
{
    listing_t *listing = self;
    if (listing->cases != NULL) {
        (void)json_array_append_new(listing->cases,
                                    json_pack("{s:s s:s s:s}", "name", name, "verdict", verdict, "why", why));
        return;
    }
    cli_progress_done();
    bool failed = strcmp(verdict, "failed") == 0, skipped = strcmp(verdict, "skipped") == 0;
    if (failed || (listing->options->verbose && skipped))
        (void)printf("%s %s: %s\n", verdict, name, why);
    else if (listing->options->verbose)
        (void)printf("%s %s\n", verdict, name);
}

/* Recorded data: one model, or a folder of them. */
static int verify_recorded(const cli_options_t *options)
{
    cli_build_t build;
    wf_test_counts_t counts = {0};
    listing_t listing = {options, options->json ? json_array() : NULL};
    cli_catch_signals();
    int code = cli_build_make(options, &build);
    if (code == 0) {
        wf_status_t status =
            options->conformance != NULL
                ? wf_verify_conformance(options->conformance, &build.options, &listing, tell_case, &counts)
                : wf_verify_recorded(options->arguments[0], options->test_data, &build.options, &listing,
                                     tell_case, &counts);
        cli_progress_done();
        code = cli_fail(options, status);
    }
    cli_build_free(&build);
    int verdict = counts.failed > 0 ? 4 : 0;
    if (code != 0) {
        json_decref(listing.cases);
        return code;
    }
    if (options->json) {
        return cli_print_json(json_pack("{s:I s:I s:I s:o}", "passed", (json_int_t)counts.passed, "failed",
                                        (json_int_t)counts.failed, "skipped", (json_int_t)counts.skipped,
                                        "cases", listing.cases),
                              verdict);
    }
    (void)printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)counts.passed,
                 (unsigned long long)counts.failed, (unsigned long long)counts.skipped);
    return verdict;
}

static int print_engine_report(const cli_options_t *options, const char *text, int code)
{
    json_t *report = json_loads(text, 0, NULL);
    if (options->json)
        return cli_print_json(report, code);
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(report, "outputs"), index, row)
    {
        (void)printf(
            "%s  seed %lld  output %s: %.2g of its scale, cosine %.7f, SQNR %.0f dB, top-1 agreement %.4g\n",
            json_is_true(json_object_get(row, "passed")) ? "pass" : "FAIL",
            (long long)json_integer_value(json_object_get(row, "seed")),
            json_string_value(json_object_get(row, "output")),
            json_number_value(json_object_get(row, "max_abs_of_scale")),
            json_number_value(json_object_get(row, "cosine")),
            json_number_value(json_object_get(row, "sqnr_db")),
            json_number_value(json_object_get(row, "top1_agreement")));
    }
    json_decref(report);
    return code;
}

static int verify_engine(const cli_options_t *options)
{
    cli_engine_t opened = {0};
    wf_model_t *model = NULL;
    char *report = NULL;
    cli_catch_signals();
    int code = cli_engine_open(options, options->arguments[0], NULL, &opened);
    if (code == 0)
        code = cli_fail(options, wf_model_open(options->model, wf_allocator_system(), &model));
    if (code == 0) {
        wf_verify_options_t verify = {.struct_bytes = sizeof verify,
                                      .seed = options->seed.value,
                                      .allocator = wf_allocator_system(),
                                      .progress = cli_progress,
                                      .progress_self = (void *)(uintptr_t)options};
        wf_status_t status = wf_verify_engine(opened.engine, model, &verify, &report);
        cli_progress_done();
        if (report != NULL && wf_status_code(status) == WF_CODE_ACCURACY) {
            code = print_engine_report(options, report, 4);
            if (!options->json)
                (void)cli_fail(options, status);
            else
                wf_status_free(status);
        } else {
            code = cli_fail(options, status);
            if (code == 0)
                code = print_engine_report(options, report, 0);
        }
    }
    free(report);
    wf_model_close(model);
    cli_engine_close(&opened);
    return code;
}

int cli_verb_verify(const cli_options_t *options)
{
    if (options->conformance != NULL && options->argument_count == 0)
        return verify_recorded(options);
    if (options->argument_count != 1) {
        return cli_fail_with(
            options, WF_CODE_USAGE,
            "verify ENGINE --model MODEL, verify MODEL --test-data DIR, or verify --conformance ROOT",
            "verify takes one engine or model");
    }
    if (options->test_data != NULL)
        return verify_recorded(options);
    if (options->model == NULL) {
        return cli_fail_with(options, WF_CODE_USAGE,
                             "add --model MODEL (an engine against its reference) or --test-data DIR (a "
                             "model against recorded data)",
                             "verify needs something to compare with");
    }
    if (!cli_is_engine(options->arguments[0])) {
        return cli_fail_with(options, WF_CODE_USAGE, "build one with 'wayfinder build'",
                             "%s is not an engine", options->arguments[0]);
    }
    return verify_engine(options);
}
