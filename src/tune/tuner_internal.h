/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the tuner: what its stages share. */
#ifndef WF_TUNE_TUNER_INTERNAL_H
#define WF_TUNE_TUNER_INTERNAL_H

#include "tune/arm.h"
#include "tune/journal.h"
#include "tune/move.h"
#include "tune/profile.h"
#include "tune/bound.h"
#include "tune/search.h"
#include "tune/target.h"
#include "tune/tuner.h"
#include "tune/worker.h"

/* Inputs on which the engine that is written is checked; fewer when the reference is slow. */
#define WF_TUNE_CHECKS_MAX 3u

/* A complete way to build the engine. */
typedef struct wf_candidate {
    const char *name;   /* "default", "best", "route 2": for people */
    wf_route_t *routes; /* per part; NULL: none yet */
    wf_job_t *job;      /* whose spaces they are routes of; NULL: none yet */
    wf_knobs_t knobs;   /* of scope ENGINE and RUN; the others are the job's */
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

#define WF_TUNE_FINALISTS_MAX 8u

/* Routes that are measured without being built: see trial.c. */
typedef struct wf_trials {
    wf_constant_store_t store;
    bool store_made, base_linked;
    bool refused; /* the worker has no room for the constants */
    uint64_t generation;
    wf_base_route_t base;
    uint64_t arena_bytes; /* of the base: what each takes */
    uint64_t linked;      /* trials so far */
    double seconds;
} wf_trials_t;

typedef struct wf_gain_point {
    double at_s, route_ns;
} wf_gain_point_t;
typedef struct wf_factors wf_factors_t;

/* A choice that was compared inside the model, for the report. */
typedef struct wf_screened {
    const char *name;
    double predicted_ns;
    wf_effect_t effect;
    bool kept, failed;
    size_t pair_count;
    const wf_problem_t *problem; /* of a change of tactic; else NULL */
    const char *tactic;          /* that it puts in */
} wf_screened_t;

typedef struct wf_tuner {
    wf_job_t *job;        /* whose spaces are searched */
    wf_job_t *home;       /* the caller's: the default's, and the one with references */
    wf_job_t *variant;    /* another one that was made here; NULL: none */
    wf_candidate_t start; /* the default route of `variant` */
    const wf_tune_options_t *options;
    wf_tune_result_t *result;
    wf_allocator_t allocator;
    wf_arena_t arena;
    uint64_t start_ns;
    double budget_s;
    bool stop_asked;
    double last_tick_s;

    /* Stages, and what the report says of them. */
    const char *stage;
    double stage_start_s;
    json_t *stages, *quarantined, *accuracy, *notes;
    json_t *dry_run; /* NULL: this is none */

    /* Memory of other tunings, and the process that measures. NULL: not there (any more). */
    const char *device; /* fingerprint with versions of libraries */
    wf_database_t *database;
    char database_path[4096], record_path[4096];
    wf_journal_t *journal;
    wf_worker_t *worker;
    char worker_path[4096];
    double hang_s;
    uint32_t idle_deaths;
    wf_map_t strikes; /* tactic -> processes that it took with it */
    uint64_t request_count;
    double best_canary_ns; /* of the session */

    /* The default. */
    wf_candidate_t fallback;
    char base[33]; /* hash of its lock */
    bool default_written;
    double reference_s;     /* one input through the reference */
    double make_s, check_s; /* an engine made, and checked on one input without the reference */
    size_t check_count;     /* inputs that the engine must pass */
    double default_ns, aa_ratio, aa_sd;

    wf_profile_t profile;
    bool converged; /* nothing more was worth measuring */

    wf_target_t target; /* count 0: none */
    wf_objective_t objective;
    wf_times_t target_runs;
    wf_verdict_t target_verdict, target_terms[WF_TARGET_TERMS_MAX];
    bool target_judged, target_reached, target_spent; /* reached: by the default, early */
    wf_bound_t bound;

    WF_VEC(wf_gain_point_t) gains; /* what was known of the best route, over time */
    double next_gain;              /* share that another minute of profiling should save; NaN: not known */

    wf_trials_t trials;
    WF_VEC(wf_screened_t) screened;
    bool fixed_knobs[64];  /* the user said what they are */
    wf_candidate_t found;  /* what stage 4 or a strategy came to; no routes: nothing */
    wf_factors_t *factors; /* of the search that runs */

    /* Finalists; the first is a copy of `fallback`, which owns what it points to. */
    wf_candidate_t finalists[WF_TUNE_FINALISTS_MAX];
    size_t finalist_count, winner;
    bool loaded[WF_TUNE_FINALISTS_MAX];
    uint64_t loaded_generation;

    /* Samples of the default and of the winner, whole engines, and the canaries beside them: for the
     * baseline. */
    wf_times_t samples_ns[2], sample_canary_ns;

    bool adopted, recalled;
    const char *written_lock; /* of the engine on the disk, with evidence; NULL: not known */
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
/* Memory that the machine could give now. */
double wf_tuner_free_bytes(void);
/* Tells the caller; notes when it asks to stop. `text` is formatted. */
void wf_tuner_tell(wf_tuner_t *tuner, wf_tune_event_kind_t kind, double value_ns, uint64_t done,
                   uint64_t total, const char *format, ...) WF_PRINTF(6, 7);
/* A sign of life, at most ten a second; true when the caller asked to stop. For workers and the reference. */
bool wf_tuner_tick(void *tuner);
/* A line for the record; taken over. A record that cannot be written is noted once and given up. */
void wf_tuner_record(wf_tuner_t *tuner, json_t *line);
/* How it is searched, where that is not the usual way: nothing for joint without a limit. */
void wf_tuner_print_search(const wf_tuner_t *tuner, wf_text_t *out);
/* Ends the stage that runs and begins the next ("" ends only). */
void wf_tuner_stage(wf_tuner_t *tuner, const char *name);

/* ---- Candidates (candidate.c) ---- */
void wf_candidate_init(wf_candidate_t *candidate, const char *name, wf_allocator_t allocator);
void wf_candidate_deinit(wf_candidate_t *candidate, wf_job_t *job);
/* Takes the routes over (also on failure) and writes their lock. */
/* knobs NULL: the job's. */
wf_status_t wf_candidate_set(wf_candidate_t *candidate, wf_job_t *job, wf_route_t *routes,
                             const wf_knobs_t *knobs) WF_MUST_USE;
/* Engine bytes of the candidate, from its own job (`job` when it has none), with evidence ("" for none) in
 * its lock. */
wf_status_t wf_candidate_make(wf_candidate_t *candidate, wf_job_t *job, const char *evidence) WF_MUST_USE;
/* Frees the engine bytes. */
void wf_candidate_drop_engine(wf_candidate_t *candidate);

/* ---- Stages, in their order. Each does nothing when the ones before leave it nothing to do. ---- */
/* The default route, by estimates. */
wf_status_t wf_stage_plan(wf_tuner_t *tuner) WF_MUST_USE; /* stage_default.c */
/* The engine that an earlier tuning from the same default came to, when the database has one that will do:
 * then tuner->recalled is set and the engine is written. */
wf_status_t wf_stage_recall(wf_tuner_t *tuner) WF_MUST_USE;
/* The default engine, checked and written. */
wf_status_t wf_stage_default(wf_tuner_t *tuner) WF_MUST_USE;
/* The default against itself. */
wf_status_t wf_stage_noise(wf_tuner_t *tuner) WF_MUST_USE; /* stage_race.c */
/* Settings that need another graph, space or number of threads: a default engine for each, raced. The best is
 * what is searched from then on. */
wf_status_t wf_stage_settings(wf_tuner_t *tuner) WF_MUST_USE; /* stage_settings.c */
/* Makes tuner->variant from a lock that needs another job than the caller's; nothing when it does not.
 * LOCK_MISMATCH when there is no way. */
wf_status_t wf_tuner_job_for_lock(wf_tuner_t *tuner, const char *lock, wf_job_t **out_job) WF_MUST_USE;
/* The candidate whose routes are those of tuner->job. */
wf_candidate_t *wf_tuner_start(wf_tuner_t *tuner);
/* Profile, database and worker for tuner->job, which has another number of threads. */
wf_status_t wf_tuner_reopen(wf_tuner_t *tuner) WF_MUST_USE;
wf_status_t wf_stage_profile(wf_tuner_t *tuner) WF_MUST_USE; /* stage_profile.c */
/* Nothing may be measured: CACHE_MISS naming what would be first. */
wf_status_t wf_stage_cached(wf_tuner_t *tuner) WF_MUST_USE;
/* All choices that measuring alone left open, at once and inside the model. */
wf_status_t wf_stage_screen(wf_tuner_t *tuner) WF_MUST_USE; /* stage_screen.c */
/* Another strategy than joint, in the place of profile and screen. */
wf_status_t wf_stage_strategy(wf_tuner_t *tuner) WF_MUST_USE; /* stage_strategy.c */
/* USAGE for a name that is no strategy; NULL is joint. */
wf_status_t wf_strategy_check(const char *name) WF_MUST_USE;
/* Instead of tuning: what would be tried and how long it would take, for the report. */
wf_status_t wf_stage_dry_run(wf_tuner_t *tuner) WF_MUST_USE;
/* Trials of the strategy and factors of its space; SIZE_MAX: as many as there is time for. */
size_t wf_strategy_trials(wf_tuner_t *tuner, size_t *out_factor_count);
wf_status_t wf_stage_solve(wf_tuner_t *tuner) WF_MUST_USE; /* stage_race.c */
wf_status_t wf_stage_race(wf_tuner_t *tuner) WF_MUST_USE;
wf_status_t wf_stage_confirm(wf_tuner_t *tuner) WF_MUST_USE; /* stage_confirm.c */
/* The default, or what is about to be written, against the target (stage_target.c). */
wf_status_t wf_stage_target_default(wf_tuner_t *tuner) WF_MUST_USE;
wf_status_t wf_stage_target(wf_tuner_t *tuner) WF_MUST_USE;
/* What judging the result is kept back for. */
double wf_tuner_target_s(const wf_tuner_t *tuner);
/* Engine and the arena of one context; 0 without an engine. */
double wf_candidate_memory_bytes(const wf_candidate_t *candidate);
/* The winner, or the default, with its evidence: checked on every input and written. */
wf_status_t wf_stage_write(wf_tuner_t *tuner) WF_MUST_USE; /* stage_write.c */

/* The smallest difference that counts, as a log ratio. */
double wf_tuner_delta(const wf_tuner_t *tuner);
/* A race message without arms and blocks, and the seconds that one arm's sample of it takes. */
wf_race_message_t wf_tuner_race_message(wf_tuner_t *tuner, double until_s);
double wf_tuner_sample_s(const wf_tuner_t *tuner);
/* An engine crashed, hung or was wrong. */
void wf_tuner_route_fault(wf_tuner_t *tuner, const char *route, const char *text);

/* Makes the engine of a candidate with evidence, checks it on tuner->check_count inputs (metrics go to
 * tuner->accuracy, which is emptied first) and writes it. */
wf_status_t wf_tuner_write(wf_tuner_t *tuner, wf_candidate_t *candidate, const char *evidence) WF_MUST_USE;
/* [evidence] of a candidate's routes: one line per step. */
wf_status_t wf_tuner_evidence(wf_tuner_t *tuner, const wf_candidate_t *candidate,
                              wf_text_t *out) WF_MUST_USE; /* evidence.c */

/* ---- Trials (trial.c) ---- */
/* Makes ready to measure routes beside `base` (borrowed until the end). *out_ready false: there is no room or
 * it does not run; told. */
wf_status_t wf_trials_begin(wf_tuner_t *tuner, const wf_base_route_t *base, bool *out_ready) WF_MUST_USE;
void wf_trials_end(wf_tuner_t *tuner);
/* One block, in random order: out_ns[i] of route i (NaN: it did not run), *out_base_ns of the base (NULL: not
 * wanted). routes[i] NULL: it cannot be, NaN. *out_over: there is no time for another. */
wf_status_t wf_trials_block(wf_tuner_t *tuner, wf_route_t *const *routes, const wf_knobs_t *knobs,
                            size_t count, double until_s, double *out_ns, double *out_base_ns,
                            bool *out_over) WF_MUST_USE;
/* Seconds of one trial: linking, warming up, sampling. */
double wf_trials_each_s(const wf_tuner_t *tuner);

/* Factors whose values are moves from a base. */
struct wf_factors {
    wf_base_route_t base;
    wf_moves_t moves;
    WF_VEC(uint32_t) first; /* of each factor's moves, and one more at the end */
    WF_VEC(uint32_t) value_counts;
    double until_s;
    size_t shown; /* trials told so far */
};
/* Groups moves (taken over) by factor; `one` keeps only the first move of each, and at most `most` factors,
 * those first in the list. */
wf_status_t wf_factors_make(wf_tuner_t *tuner, const wf_base_route_t *base, wf_moves_t *moves, bool one,
                            size_t most, wf_factors_t *out_factors) WF_MUST_USE;
void wf_factors_deinit(wf_tuner_t *tuner, wf_factors_t *factors);
/* A wf_search_measure_fn; self is the tuner, whose `factors` is set. */
wf_status_t wf_factors_measure(void *self, const uint8_t *const *assignments, size_t count, bool with_default,
                               double *out_logs, bool *out_over) WF_MUST_USE;
/* Routes and knobs of an assignment. */
wf_status_t wf_factors_apply(wf_tuner_t *tuner, const wf_factors_t *factors, const uint8_t *assignment,
                             wf_route_t **out_routes, wf_knobs_t *out_knobs) WF_MUST_USE;

/* ---- Baseline (stage_baseline.c) ---- */
/* Keeps the times of two arms: the default and the winner, or twice the default (same). */
wf_status_t wf_tuner_sample(wf_tuner_t *tuner, const wf_measure_result_t *result, bool same) WF_MUST_USE;
/* Writes ENGINE.baseline.json for the engine on the disk. */
void wf_tuner_baseline(wf_tuner_t *tuner);

/* ---- Report (report.c): result->report_json from what is known. ---- */
wf_status_t wf_tuner_report(wf_tuner_t *tuner) WF_MUST_USE;

#endif
