/* SPDX-License-Identifier: Apache-2.0 */
/* Tuner: a job to the fastest engine that a budget finds, never slower than the default.
 *
 * Stages, all inside the budget:
 *   default   the default engine, checked on one input and written: there is an answer from now on; then the
 *             same engine against itself, to know the noise
 *   profile   tactics measured in the worker, the next unit of time where it promises most end to end
 *   solve     the best routes for what was measured
 *   race      the finalists as whole engines, the default among them
 *   confirm   the winner against the default on fresh blocks; adopted only when faster beyond doubt
 *   write     the accuracy gate on several inputs, then the file
 */
#ifndef WF_TUNE_TUNER_H
#define WF_TUNE_TUNER_H

#include "tune/job.h"
#include "wayfinder/tuner.h"

/* Tunes. The budget runs from start_ns (wf_clock_ns), so that what came before (reading, passes) is counted.
 * Writes options->output_path at least once, unless the default engine itself cannot be made. job->progress
 * is replaced for the time of the call. Statuses of wf_tune; *out_result is filled as far as the tuning came,
 * also on failure. Not for two threads with one job. */
wf_status_t wf_tuner_run(wf_job_t *job, const wf_tune_options_t *options, uint64_t start_ns,
                         wf_tune_result_t *out_result) WF_MUST_USE;

#endif
