/* SPDX-License-Identifier: Apache-2.0 */
/* Stage "default": the default engine is made, checked and written. */
#include "tune/tuner_internal.h"

/* Reference outputs of further inputs may take this share of what is left. */
#define REFERENCE_SHARE 0.15

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

/* Reference outputs for the checks at the end, while nothing is measured. */
static wf_status_t compute_references(wf_tuner_t *tuner)
{
    double affordable = REFERENCE_SHARE * wf_tuner_left_s(tuner) / (tuner->reference_s + 1e-6);
    tuner->check_count = 1;
    while (tuner->check_count < WF_TUNE_CHECKS_MAX && affordable >= (double)tuner->check_count) {
        WF_TRY(wf_job_reference(tuner->job, tuner->options->build.check_seed + tuner->check_count));
        tuner->check_count++;
    }
    return WF_OK;
}

wf_status_t wf_stage_default(wf_tuner_t *tuner)
{
    wf_candidate_t *fallback = &tuner->fallback;
    wf_route_t *routes = NULL;
    wf_tuner_stage(tuner, "default");
    WF_TRY(wf_job_solve(tuner->job, &routes));
    WF_TRY(wf_candidate_set(fallback, tuner->job, routes));
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
