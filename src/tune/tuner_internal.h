/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the tuner: what its stages share. */
#ifndef WF_TUNE_TUNER_INTERNAL_H
#define WF_TUNE_TUNER_INTERNAL_H

#include "tune/tuner.h"
#include "tune/worker.h"

/* Inputs on which the engine that is written is checked; fewer when the reference is slow. */
#define WF_TUNE_CHECKS_MAX 3u

/* A complete way to build the engine. */
typedef struct wf_candidate {
    const char *name;   /* "default", "best", "route 2": for people */
    wf_route_t *routes; /* per part; NULL: none yet */
    wf_text_t lock;     /* without evidence; the plan's identity */
    uint8_t *engine;
    size_t engine_bytes;
    double predicted_ns; /* the solver's cost, all parts */
} wf_candidate_t;

/* The result of a paired comparison with the default. */
typedef struct wf_comparison {
    bool done;
    double ratio, low, high; /* candidate / default, 95 % */
    double default_ns, default_low_ns, default_high_ns;
    double candidate_ns, candidate_low_ns, candidate_high_ns;
    size_t block_count;
} wf_comparison_t;

typedef struct wf_tuner {
    wf_job_t *job;
    const wf_tune_options_t *options;
    wf_tune_result_t *result;
    wf_allocator_t allocator;
    wf_arena_t arena;
    uint64_t start_ns;
    double budget_s;
    bool stop_asked;
    double last_tick_s;

    /* stages */
    const char *stage;
    double stage_start_s;
    json_t *stages, *quarantined, *accuracy;

    wf_candidate_t fallback; /* the default */
    bool default_written;
    double reference_s;     /* one input through the reference */
    double make_s, check_s; /* an engine made, and checked on one input without the reference */
    size_t check_count;     /* inputs that the engine must pass */
    const char *verdict;
    wf_comparison_t comparison;
} wf_tuner_t;

/* ---- Time and events (tuner.c) ---- */
double wf_tuner_elapsed_s(const wf_tuner_t *tuner);
/* Until the budget is over; negative when it is. */
double wf_tuner_left_s(const wf_tuner_t *tuner);
/* What checking and writing the engine at the end will take. */
double wf_tuner_reserve_s(const wf_tuner_t *tuner);
/* wf_clock_ns at which measuring must end: now + seconds, but never into the reserve. */
uint64_t wf_tuner_deadline_ns(const wf_tuner_t *tuner, double seconds);
/* Tells the caller; notes when it asks to stop. `text` is formatted. */
void wf_tuner_tell(wf_tuner_t *tuner, wf_tune_event_kind_t kind, double value_ns, uint64_t done,
                   uint64_t total, const char *format, ...) WF_PRINTF(6, 7);
/* A sign of life, at most ten a second; true when the caller asked to stop. For workers and the reference. */
bool wf_tuner_tick(void *tuner);
/* Ends the stage that runs and begins the next ("" ends only). */
void wf_tuner_stage(wf_tuner_t *tuner, const char *name);

/* ---- Candidates (candidate.c) ---- */
void wf_candidate_init(wf_candidate_t *candidate, const char *name, wf_allocator_t allocator);
void wf_candidate_deinit(wf_candidate_t *candidate, wf_job_t *job);
/* Takes the routes over (also on failure) and writes their lock. */
wf_status_t wf_candidate_set(wf_candidate_t *candidate, wf_job_t *job, wf_route_t *routes) WF_MUST_USE;
/* Engine bytes of the candidate, with evidence ("" for none) in its lock. */
wf_status_t wf_candidate_make(wf_candidate_t *candidate, wf_job_t *job, const char *evidence) WF_MUST_USE;
/* Frees the engine bytes. */
void wf_candidate_drop_engine(wf_candidate_t *candidate);

/* ---- Stages ---- */
wf_status_t wf_stage_default(wf_tuner_t *tuner) WF_MUST_USE; /* stage_default.c */

/* ---- Report (report.c): result->report_json from what is known. ---- */
wf_status_t wf_tuner_report(wf_tuner_t *tuner) WF_MUST_USE;

#endif
