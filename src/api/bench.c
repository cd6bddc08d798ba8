/* SPDX-License-Identifier: Apache-2.0 */
/* wf_bench: engines of this process compared in interleaved blocks. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "tune/arm.h"
#include "tune/stats.h"
#include "wayfinder/tuner.h"

#define ENGINES_MAX 64u
#define DEFAULT_SECONDS 4.0
/* A sample stands well above the clock (25 to 50 ns a call). */
#define SAMPLE_NS 2e6
/* Percentiles and intervals need some blocks, however slow the engine. */
#define BLOCKS_MIN 9u
#define RESAMPLES 2000u

typedef struct bench {
    wf_allocator_t allocator;
    wf_bench_options_t options;
    size_t count;
    wf_arm_t **arms;
    wf_times_t *times;  /* every run of each engine */
    wf_times_t *blocks; /* log of each engine's sample in each block */
    double *spent_ns;   /* timed runs of each engine */
} bench_t;

static wf_status_t bench_alloc(bench_t *bench)
{
    WF_TRY(wf_alloc(bench->allocator, bench->count, sizeof(wf_arm_t *), &bench->arms));
    WF_TRY(wf_alloc(bench->allocator, bench->count, sizeof *bench->times, &bench->times));
    WF_TRY(wf_alloc(bench->allocator, bench->count, sizeof *bench->blocks, &bench->blocks));
    return wf_alloc(bench->allocator, bench->count, sizeof *bench->spent_ns, &bench->spent_ns);
}

static void bench_free(bench_t *bench)
{
    for (size_t i = 0; i < bench->count; i++) {
        if (bench->arms != NULL)
            wf_arm_destroy(bench->arms[i]);
        if (bench->times != NULL)
            wf_vec_deinit(bench->allocator, &bench->times[i]);
        if (bench->blocks != NULL)
            wf_vec_deinit(bench->allocator, &bench->blocks[i]);
    }
    wf_free(bench->allocator, (void *)bench->arms, bench->count, sizeof(wf_arm_t *));
    wf_free(bench->allocator, bench->times, bench->count, sizeof *bench->times);
    wf_free(bench->allocator, bench->blocks, bench->count, sizeof *bench->blocks);
    wf_free(bench->allocator, bench->spent_ns, bench->count, sizeof *bench->spent_ns);
}

/* One block; an engine alone needs no run that brings it back into the caches. */
static wf_status_t run_block(bench_t *bench, wf_rng_t *rng)
{
    uint32_t order[ENGINES_MAX];
    wf_rng_shuffle(rng, order, bench->count);
    for (size_t i = 0; i < bench->count; i++) {
        uint32_t a = order[i];
        size_t first = bench->times[a].count;
        double ns;
        WF_TRY(wf_arm_sample(bench->arms[a], bench->count > 1, 1, SAMPLE_NS, &bench->times[a], &ns));
        for (size_t t = first; t < bench->times[a].count; t++)
            bench->spent_ns[a] += bench->times[a].items[t];
        double log_ns = log(ns);
        WF_TRY(wf_vec_push(bench->allocator, &bench->blocks[a], &log_ns));
    }
    return WF_OK;
}

static double least_done(const bench_t *bench, double duration_ns)
{
    double least = 1;
    for (size_t i = 0; i < bench->count; i++)
        least = fmin(least, bench->spent_ns[i] / duration_ns);
    return least;
}

static wf_status_t run_blocks(bench_t *bench)
{
    double duration_ns = 1e9 * (bench->options.duration_s > 0 ? bench->options.duration_s : DEFAULT_SECONDS);
    wf_rng_t rng = {bench->options.seed};
    for (size_t i = 0; i < bench->count; i++) {
        WF_TRY(wf_arm_warm(bench->arms[i]));
        WF_TRY(wf_arm_warm(bench->arms[i]));
    }
    double done = 0;
    while (done < 1 || bench->blocks[0].count < BLOCKS_MIN) {
        WF_TRY(run_block(bench, &rng));
        done = least_done(bench, duration_ns);
        if (bench->options.progress != NULL &&
            bench->options.progress(bench->options.progress_self, "bench", done)) {
            return WF_ERROR(INTERRUPTED, "the benchmark was stopped after %zu blocks",
                            bench->blocks[0].count);
        }
    }
    return WF_OK;
}

static void summarise(wf_times_t *times, wf_bench_engine_t *out)
{
    double sum = 0;
    for (size_t i = 0; i < times->count; i++)
        sum += times->items[i];
    *out = (wf_bench_engine_t){.p50_ns = wf_stats_quantile(times->items, times->count, 0.5),
                               .p90_ns = wf_stats_quantile(times->items, times->count, 0.9),
                               .p99_ns = wf_stats_quantile(times->items, times->count, 0.99),
                               .mean_ns = sum / (double)times->count,
                               .min_ns = wf_stats_quantile(times->items, times->count, 0),
                               .runs = times->count};
}

static wf_status_t compare(const bench_t *bench, size_t a, size_t b, wf_bench_pair_t *out_pair)
{
    size_t blocks = bench->blocks[0].count;
    double *ratios = NULL;
    wf_interval_t interval;
    WF_TRY(wf_alloc(bench->allocator, blocks, sizeof *ratios, &ratios));
    for (size_t i = 0; i < blocks; i++)
        ratios[i] = bench->blocks[b].items[i] - bench->blocks[a].items[i];
    wf_status_t status = wf_stats_bootstrap_median(ratios, blocks, RESAMPLES, 0.95, bench->options.seed,
                                                   bench->allocator, &interval);
    wf_free(bench->allocator, ratios, blocks, sizeof *ratios);
    if (status == WF_OK) {
        *out_pair =
            (wf_bench_pair_t){a, b, exp(interval.centre), exp(interval.low), exp(interval.high), blocks};
    }
    return status;
}

static wf_status_t bench_run(bench_t *bench, const wf_engine_t *const *engines, const size_t *specs,
                             wf_bench_engine_t *out_engines, wf_bench_pair_t *out_pairs)
{
    WF_TRY(bench_alloc(bench));
    for (size_t i = 0; i < bench->count; i++) {
        WF_TRY(
            wf_arm_create(engines[i], &specs[i], 1, bench->options.seed, bench->allocator, &bench->arms[i]));
    }
    WF_TRY(run_blocks(bench));
    for (size_t a = 0; a < bench->count; a++) {
        summarise(&bench->times[a], &out_engines[a]);
        for (size_t b = a + 1; b < bench->count; b++)
            WF_TRY(compare(bench, a, b, out_pairs++));
    }
    return WF_OK;
}

wf_status_t wf_bench(const wf_engine_t *const *engines, const size_t *specs, size_t engine_count,
                     const wf_bench_options_t *options, wf_bench_engine_t *out_engines,
                     wf_bench_pair_t *out_pairs)
{
    bench_t bench = {.allocator = wf_allocator_system(), .count = engine_count};
    if (engine_count == 0 || engine_count > ENGINES_MAX)
        return WF_ERROR(USAGE, "%zu engines to compare: 1 to %u can be", engine_count, ENGINES_MAX);
    if (options != NULL) {
        if (options->struct_bytes == 0 || options->struct_bytes > sizeof bench.options) {
            return WF_ERROR(USAGE, "wf_bench_options_t.struct_bytes is %u, this library knows %zu",
                            options->struct_bytes, sizeof bench.options);
        }
        memcpy(&bench.options, options, options->struct_bytes);
    }
    wf_status_t status = bench_run(&bench, engines, specs, out_engines, out_pairs);
    bench_free(&bench);
    return status;
}
