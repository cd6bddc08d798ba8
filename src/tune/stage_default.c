/* SPDX-License-Identifier: Apache-2.0 */
/* The default: its route, what an earlier tuning made of it, its engine. */
#include <stdio.h>
#include <string.h>

#include "device/neighbours.h"
#include "tune/tuner_internal.h"

/* Reference outputs of further inputs may take this share of what is left. */
#define REFERENCE_SHARE 0.15

/* A result is used again for budgets up to this much larger than its own; beyond that more may be found. */
#define RECALL_BUDGET_FACTOR 1.5

/* ---- The route ---- */

/* What results are kept by: the default and how it was searched from. */
static wf_status_t name_base(wf_tuner_t *tuner)
{
    wf_text_t text;
    wf_text_init(&text, tuner->allocator, UINT32_MAX);
    wf_text_append(&text, tuner->fallback.lock.data, tuner->fallback.lock.length);
    wf_tuner_print_search(tuner, &text);
    wf_status_t status = wf_text_take_status(&text);
    if (status == WF_OK)
        wf_hash_text(wf_hash_bytes(text.data, text.length), tuner->base);
    wf_text_deinit(&text);
    return status;
}

wf_status_t wf_stage_plan(wf_tuner_t *tuner)
{
    wf_route_t *routes = NULL;
    wf_tuner_stage(tuner, "plan");
    tuner->profile.quiet = wf_machine_quiet("");
    WF_TRY(wf_profile_sync(&tuner->profile, tuner->job, tuner->database));
    wf_profile_apply(&tuner->profile, tuner->job, true);
    wf_status_t solved = wf_job_solve(tuner->job, &routes);
    if (wf_status_code(solved) == WF_CODE_INTERNAL && tuner->database != NULL) {
        wf_status_free(solved);
        solved =
            wf_status_hinted(WF_ERROR(CACHE_INVALID, "without the tactics that are banned in the timing "
                                                     "database nothing is left that does the model's work"),
                             "'wayfinder cache unban' takes a ban back, 'cache gc quarantine' forgets "
                             "tactics that were put aside");
    }
    WF_TRY(solved);
    WF_TRY(wf_candidate_set(&tuner->fallback, tuner->job, routes, NULL));
    tuner->bound = wf_job_bound(tuner->job, tuner->fallback.routes);
    return name_base(tuner);
}

/* ---- What an earlier tuning came to ---- */

static wf_status_t write_recalled(wf_tuner_t *tuner, const wf_outcome_t *outcome)
{
    wf_candidate_t candidate;
    wf_candidate_init(&candidate, "recalled", tuner->allocator);
    wf_text_puts(&candidate.lock, outcome->lock);
    wf_status_t status = wf_text_take_status(&candidate.lock);
    if (status == WF_OK)
        status = wf_tuner_job_for_lock(tuner, outcome->lock, &candidate.job);
    tuner->check_count = 1;
    if (status == WF_OK)
        status = wf_tuner_write(tuner, &candidate, "");
    wf_candidate_deinit(&candidate, tuner->job);
    return status;
}

static void recall_numbers(wf_tuner_t *tuner, const wf_outcome_t *outcome)
{
    tuner->comparison = (wf_comparison_t){.done = true,
                                          .ratio = outcome->ratio,
                                          .low = outcome->ratio_low,
                                          .high = outcome->ratio_high,
                                          .default_ns = outcome->default_ns,
                                          .default_low_ns = outcome->default_low_ns,
                                          .default_high_ns = outcome->default_high_ns,
                                          .candidate_ns = outcome->final_ns,
                                          .candidate_low_ns = outcome->final_low_ns,
                                          .candidate_high_ns = outcome->final_high_ns};
    tuner->adopted = outcome->adopted;
    tuner->converged = outcome->converged;
    tuner->verdict = outcome->adopted ? "adopted" : "default kept";
    tuner->recalled = true;
    tuner->result->timings_reused = tuner->profile.reused;
}

wf_status_t wf_stage_recall(wf_tuner_t *tuner)
{
    wf_outcome_t outcome;
    bool found;
    /* A target is judged on runs of today. */
    if (tuner->database == NULL || tuner->target.count > 0)
        return WF_OK;
    WF_TRY(wf_database_find_outcome(tuner->database, tuner->base, &outcome, &found));
    if (!found)
        return WF_OK;
    wf_status_t status = WF_OK;
    bool enough = outcome.converged || tuner->budget_s <= RECALL_BUDGET_FACTOR * outcome.budget_s;
    if (enough || tuner->options->require_cached) {
        wf_tuner_stage(tuner, "recall");
        status = write_recalled(tuner, &outcome);
        wf_code_t code = wf_status_code(status);
        if (status == WF_OK) {
            recall_numbers(tuner, &outcome);
        } else if (code == WF_CODE_LOCK_MISMATCH || code == WF_CODE_ACCURACY) {
            wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0,
                          "the result of an earlier tuning does not hold any more: %.300s",
                          wf_status_message(status));
            wf_status_free(status);
            status = WF_OK;
        }
    }
    wf_outcome_deinit(&outcome, tuner->allocator);
    return status;
}

/* ---- The engine ---- */

/* The reference is paid first; without one input compared nothing is written. */
static wf_status_t check_default(wf_tuner_t *tuner)
{
    wf_job_t *job = tuner->job;
    double start_s = wf_tuner_elapsed_s(tuner);
    WF_TRY(wf_job_reference(job, tuner->options->build.check_seed));
    tuner->reference_s = wf_tuner_elapsed_s(tuner) - start_s;
    start_s = wf_tuner_elapsed_s(tuner);
    WF_TRY(wf_job_check(job, tuner->fallback.engine, tuner->fallback.engine_bytes,
                        tuner->options->build.check_seed, NULL));
    tuner->check_s = wf_tuner_elapsed_s(tuner) - start_s;
    return WF_OK;
}

/* Reference outputs for the checks at the end, while nothing is measured. Asked to stop: those there are. */
static wf_status_t compute_references(wf_tuner_t *tuner)
{
    double affordable = REFERENCE_SHARE * wf_tuner_left_s(tuner) / (tuner->reference_s + 1e-6);
    tuner->check_count = 1;
    while (tuner->check_count < WF_TUNE_CHECKS_MAX && affordable >= (double)tuner->check_count) {
        wf_status_t status =
            wf_job_reference(tuner->job, tuner->options->build.check_seed + tuner->check_count);
        if (wf_status_code(status) == WF_CODE_INTERRUPTED) {
            wf_status_free(status);
            return WF_OK;
        }
        WF_TRY(status);
        tuner->check_count++;
    }
    return WF_OK;
}

wf_status_t wf_stage_default(wf_tuner_t *tuner)
{
    wf_candidate_t *fallback = &tuner->fallback;
    wf_tuner_stage(tuner, "default");
    double start_s = wf_tuner_elapsed_s(tuner);
    WF_TRY(wf_candidate_make(fallback, tuner->job, ""));
    tuner->make_s = wf_tuner_elapsed_s(tuner) - start_s;
    WF_TRY(check_default(tuner));
    start_s = wf_tuner_elapsed_s(tuner);
    WF_TRY(wf_engine_save(fallback->engine, fallback->engine_bytes, tuner->options->output_path,
                          tuner->options->force));
    tuner->make_s += wf_tuner_elapsed_s(tuner) - start_s;
    tuner->default_written = true;
    tuner->verdict = "default kept";
    return compute_references(tuner);
}
