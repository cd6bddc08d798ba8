/* SPDX-License-Identifier: Apache-2.0 */
/* Gate: is an engine slower than its baseline? Baselines, their store, and where a difference comes from. */
#ifndef WAYFINDER_GATE_H
#define WAYFINDER_GATE_H

#include "wayfinder/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wf_gate_verdict {
    WF_GATE_PASSED,
    WF_GATE_IMPROVED,
    WF_GATE_REGRESSED,
    WF_GATE_INCONCLUSIVE,
    WF_GATE_FIRST /* there is no baseline yet: passes with a notice */
} wf_gate_verdict_t;

typedef struct wf_gate_options {
    uint32_t struct_bytes;     /* sizeof(wf_gate_options_t) */
    const char *baseline_path; /* NULL: the promoted one of the store */
    const char *store;         /* folder of a baseline store, or NULL */
    double min_effect;         /* a slow-down of this share matters; 0: 0.02 */
    double alpha;              /* error of each verdict; 0: 0.01 */
    double budget_s;           /* of measuring, waiting for others not counted; 0: 60 */
    uint64_t seed;
    uint32_t thread_count;    /* 0: as the engines were built */
    const char *isa;          /* highest CPU tier; NULL: all */
    bool any_machine;         /* compare although the baseline was made on another machine */
    bool any_model;           /* compare although the baseline is of another model */
    wf_allocator_t allocator; /* resize NULL: the system's */
    wf_log_t log;
    void *progress_self;
    wf_progress_fn *progress;
} wf_gate_options_t;

typedef struct wf_gate_result {
    wf_allocator_t allocator;
    wf_gate_verdict_t verdict;
    double ratio, lo95, hi95; /* engine / baseline; 0: not measured */
    char *report_json;        /* the data of `gate --json` */
} wf_gate_result_t;

/* Measures the engine at `engine_path` against the baseline's engine, interleaved in this process. A verdict
 * is no error: the status is WF_OK for each of them. BASELINE_MISMATCH when the baseline is damaged, of
 * another model or machine, or its engine is not found; statuses of wf_engine_open; INTERRUPTED. *out_result
 * is freed with wf_gate_result_free, also on failure. */
WF_API wf_status_t wf_gate(const char *engine_path, const wf_gate_options_t *options,
                           wf_gate_result_t *out_result) WF_MUST_USE;
WF_API void wf_gate_result_free(wf_gate_result_t *result);

/* Where the difference between two engines of one model comes from: the time of every step of both, measured
 * interleaved in whole runs, matched by the nodes they do. Uses thread_count, isa, seed, budget_s (0: 10),
 * allocator, log and progress. The report (data of `diff --json`) is in out_result->report_json. */
WF_API wf_status_t wf_diff(const char *path_a, const char *path_b, const wf_gate_options_t *options,
                           wf_gate_result_t *out_result) WF_MUST_USE;

/* Makes the engine the baseline of its model, device and shapes in options->store: copies it there by its
 * hash, then replaces the pointer to it atomically. */
WF_API wf_status_t wf_baseline_promote(const char *engine_path, const wf_gate_options_t *options,
                                       wf_gate_result_t *out_result) WF_MUST_USE;
/* The gates of the engine's model, device and shapes in options->store, with change points: creep that no
 * single gate sees. The verdict is REGRESSED when the last level is above the first by more than min_effect,
 * else PASSED. FILE_MISSING when there is no history yet. */
WF_API wf_status_t wf_baseline_history(const char *engine_path, const wf_gate_options_t *options,
                                       wf_gate_result_t *out_result) WF_MUST_USE;
/* What a baseline says: of which engine, model and machine, how fast it was, with how many samples. `path` is
 * a baseline file (.json) or an engine; then it is the promoted one of options->store, or without a store
 * ENGINE.baseline.json. FILE_MISSING, BASELINE_MISMATCH when it is damaged, statuses of opening an engine. */
WF_API wf_status_t wf_baseline_show(const char *path, const wf_gate_options_t *options,
                                    wf_gate_result_t *out_result) WF_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
