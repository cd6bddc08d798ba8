/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static json_t *engine_json(const char *path, const wf_bench_engine_t *e)
{
    return json_pack("{s:s s:f s:f s:f s:f s:f s:I}", "path", path, "p50_ns", e->p50_ns, "p90_ns", e->p90_ns,
                     "p99_ns", e->p99_ns, "mean_ns", e->mean_ns, "min_ns", e->min_ns, "runs",
                     (json_int_t)e->runs);
}

static int report(const cli_options_t *options, const wf_bench_engine_t *engines,
                  const wf_bench_pair_t *pairs, size_t count)
{
    size_t pair_count = count * (count - 1) / 2;
    if (options->json) {
        json_t *list = json_array(), *pair_list = json_array();
        for (size_t i = 0; i < count; i++)
            (void)json_array_append_new(list, engine_json(options->arguments[i], &engines[i]));
        for (size_t i = 0; i < pair_count; i++) {
            (void)json_array_append_new(
                pair_list, json_pack("{s:I s:I s:f s:f s:f s:I}", "a", (json_int_t)pairs[i].a, "b",
                                     (json_int_t)pairs[i].b, "ratio", pairs[i].ratio, "lo95", pairs[i].lo95,
                                     "hi95", pairs[i].hi95, "n", (json_int_t)pairs[i].blocks));
        }
        return cli_print_json(json_pack("{s:o s:o}", "engines", list, "pairs", pair_list), 0);
    }
    (void)printf("%-3s %12s %12s %12s %12s %8s  %s\n", "", "p50", "p90", "p99", "min", "runs", "engine");
    for (size_t i = 0; i < count; i++) {
        char t[4][40];
        (void)printf("%-3zu %12s %12s %12s %12s %8llu  %s\n", i,
                     cli_time_text(engines[i].p50_ns, t[0], sizeof t[0]),
                     cli_time_text(engines[i].p90_ns, t[1], sizeof t[1]),
                     cli_time_text(engines[i].p99_ns, t[2], sizeof t[2]),
                     cli_time_text(engines[i].min_ns, t[3], sizeof t[3]), (unsigned long long)engines[i].runs,
                     options->arguments[i]);
    }
    for (size_t i = 0; i < pair_count; i++) {
        const char *verdict = pairs[i].hi95 < 1 ? "faster" : pairs[i].lo95 > 1 ? "slower" : "not told apart";
        (void)printf("%zu against %zu: %.4f of its time [%.4f, %.4f], %s\n", pairs[i].b, pairs[i].a,
                     pairs[i].ratio, pairs[i].lo95, pairs[i].hi95, verdict);
    }
    return 0;
}

int cli_verb_bench(const cli_options_t *options)
{
    size_t count = options->argument_count;
    if (count == 0)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder bench ENGINE...",
                             "bench takes one or more engines or models");
    cli_build_t build;
    cli_engine_t *opened = calloc(count, sizeof *opened);
    const wf_engine_t **engines = calloc(count, sizeof *engines);
    size_t *specs = calloc(count, sizeof *specs);
    wf_bench_engine_t *results = calloc(count, sizeof *results);
    wf_bench_pair_t *pairs = calloc(count * count, sizeof *pairs);
    if (opened == NULL || engines == NULL || specs == NULL || results == NULL || pairs == NULL)
        abort();
    cli_catch_signals();
    int code = cli_build_make(options, &build);
    for (size_t i = 0; code == 0 && i < count; i++) {
        code = cli_engine_open(options, options->arguments[i], &build.options, &opened[i]);
        engines[i] = opened[i].engine;
    }
    wf_bench_options_t bench = {.struct_bytes = sizeof bench,
                                .duration_s = options->duration_s,
                                .seed = options->seed.value,
                                .progress = cli_progress,
                                .progress_self = (void *)(uintptr_t)options};
    if (code == 0)
        code = cli_fail(options, wf_bench(engines, specs, count, &bench, results, pairs));
    cli_progress_done();
    if (code == 0)
        code = report(options, results, pairs, count);
    for (size_t i = 0; i < count; i++)
        cli_engine_close(&opened[i]);
    cli_build_free(&build);
    free(pairs);
    free(results);
    free(specs);
    free((void *)engines);
    free(opened);
    return code;
}
