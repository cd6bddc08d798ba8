/* SPDX-License-Identifier: Apache-2.0 */
/* Tuner: model to the fastest engine found in a budget, never slower than the default and checked like it. */
#ifndef WAYFINDER_TUNER_H
#define WAYFINDER_TUNER_H

#include "wayfinder/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What happens during a tuning, for live views and logs. Borrowed for the call. */
typedef enum wf_tune_event_kind {
    WF_TUNE_STAGE,     /* a stage begins: text names it */
    WF_TUNE_DEFAULT,   /* the default engine is written: value_ns is its time */
    WF_TUNE_TIMING,    /* a tactic was measured or found in the database */
    WF_TUNE_TRIAL,     /* a route was measured */
    WF_TUNE_INCUMBENT, /* the best route changed */
    WF_TUNE_FAULT,     /* a tactic crashed, hung or was refused: text says why */
    WF_TUNE_NOTE,
    WF_TUNE_TICK /* nothing new: a sign of life and a chance to stop, several times a second */
} wf_tune_event_kind_t;
typedef struct wf_tune_event {
    wf_tune_event_kind_t kind;
    const char *text;
    double elapsed_s, budget_s;
    double value_ns;      /* 0: none */
    uint64_t done, total; /* of the stage; total 0: not known */
} wf_tune_event_t;
/* Returning true asks to stop: what is best so far is verified and written, the status is INTERRUPTED. */
typedef bool wf_tune_event_fn(void *self, const wf_tune_event_t *event);

typedef struct wf_tune_options {
    uint32_t struct_bytes;    /* sizeof(wf_tune_options_t) */
    wf_build_options_t build; /* its progress is not used */
    const char *output_path;  /* where the engine is written (twice: the default, then the winner) */
    bool force;
    double budget_s;          /* 0: 120 */
    const char *timing_cache; /* path of the timing database; NULL: the user's */
    const char *record;  /* path of the journal; NULL: the user's, named by model, shapes, device, settings */
    bool fresh;          /* do not resume an unfinished journal */
    bool require_cached; /* CACHE_MISS instead of measuring */
    uint64_t seed;
    const char *strategy; /* "joint" (NULL), "fast", "full", "mixed", "greedy", "random" */
    uint64_t trial_limit; /* routes tried whole, beside finalists; 0: as many as the budget gives */
    const char *target;   /* "p99<=4ms and throughput>=900/s and memory<=2GiB"; NULL: none */
    const char
        *objective; /* "latency" (NULL), "throughput", "memory", or weights: "latency=0.7,memory=0.3" */
    bool dry_run;   /* nothing is measured or written: the report says what would be */
    const char *worker_path; /* NULL: found beside the program or where it was installed */
    void *event_self;
    wf_tune_event_fn *event;
} wf_tune_options_t;

typedef struct wf_tune_result {
    wf_allocator_t allocator;
    char *report_json;                    /* the data of `tune --json` */
    double default_ns, final_ns;          /* medians of the last paired comparison */
    double ratio, ratio_lo95, ratio_hi95; /* final / default */
    uint64_t timings_measured, timings_reused;
    bool adopted; /* a route other than the default was written */
} wf_tune_result_t;

/* Tunes and writes `output_path`. From the moment the default engine is written there is always a valid
 * engine at that path. Statuses as wf_build, and INTERRUPTED (best so far written), CACHE_INVALID,
 * CACHE_MISS, RECORD_MISMATCH, TIME_OUT, TARGET_NOT_MET (the best is written). *out_result is filled as far
 * as the tuning came, also on failure; free it with wf_tune_result_free. */
WF_API wf_status_t wf_tune(const wf_model_t *model, const wf_tune_options_t *options,
                           wf_tune_result_t *out_result) WF_MUST_USE;
WF_API void wf_tune_result_free(wf_tune_result_t *result);

/* ---- Comparing engines ---- */
typedef struct wf_bench_engine {
    double p50_ns, p90_ns, p99_ns, mean_ns, min_ns;
    uint64_t runs;
} wf_bench_engine_t;
typedef struct wf_bench_pair {
    size_t a, b;
    double ratio, lo95, hi95; /* of b / a: median of paired log ratios, bootstrap over blocks */
    uint64_t blocks;
} wf_bench_pair_t;
typedef struct wf_bench_options {
    uint32_t struct_bytes;
    double duration_s; /* per engine; 0: 4 */
    uint64_t seed;
    void *progress_self;
    wf_progress_fn *progress;
} wf_bench_options_t;
/* Runs engines interleaved in this process on seeded inputs (specialisation `specs[i]` of engine i), and
 * compares every later engine with the first and each other: pair_count = n (n-1) / 2 entries in out_pairs,
 * ordered (0,1) (0,2) .. (1,2) .. */
WF_API wf_status_t wf_bench(const wf_engine_t *const *engines, const size_t *specs, size_t engine_count,
                            const wf_bench_options_t *options, wf_bench_engine_t *out_engines,
                            wf_bench_pair_t *out_pairs) WF_MUST_USE;

/* ---- Timing database ---- */
/* Verbs of `cache`: "ls", "show", "export", "import", "merge", "pin", "unpin", "ban", "unban", "verify",
 * "gc", "du". Output is text (or JSON) in *out_text, freed with the allocator's resize to 0 of
 * *out_text_bytes + 1 bytes. */
WF_API wf_status_t wf_cache_command(const char *database_path, const char *verb, const char *argument,
                                    bool json, wf_allocator_t allocator, char **out_text,
                                    size_t *out_text_bytes) WF_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
