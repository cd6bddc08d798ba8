/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/tuner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "tune/tuner_internal.h"

#define DEFAULT_BUDGET_S 120.0
#define TICK_S 0.1

/* ---- Time ---- */

double wf_tuner_elapsed_s(const wf_tuner_t *tuner)
{
    return (double)(wf_clock_ns() - tuner->start_ns) * 1e-9;
}

double wf_tuner_left_s(const wf_tuner_t *tuner)
{
    return tuner->budget_s - wf_tuner_elapsed_s(tuner);
}

double wf_tuner_reserve_s(const wf_tuner_t *tuner)
{
    /* Made once, checked on every input; half as much again for a machine that is busy by then. */
    double seconds = tuner->make_s + tuner->check_s * (double)tuner->check_count;
    return 0.1 + 1.5 * seconds;
}

uint64_t wf_tuner_deadline_ns(const wf_tuner_t *tuner, double seconds)
{
    double left = fmin(seconds, wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner));
    return wf_clock_ns() + (uint64_t)(1e9 * fmax(left, 0));
}

/* ---- Events ---- */

void wf_tuner_tell(wf_tuner_t *tuner, wf_tune_event_kind_t kind, double value_ns, uint64_t done,
                   uint64_t total, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tuner->last_tick_s = wf_tuner_elapsed_s(tuner);
    if (tuner->options->event == NULL)
        return;
    wf_tune_event_t event = {.kind = kind,
                             .text = text,
                             .elapsed_s = tuner->last_tick_s,
                             .budget_s = tuner->budget_s,
                             .value_ns = value_ns,
                             .done = done,
                             .total = total};
    if (tuner->options->event(tuner->options->event_self, &event))
        tuner->stop_asked = true;
}

bool wf_tuner_tick(void *self)
{
    wf_tuner_t *tuner = self;
    if (!tuner->stop_asked && wf_tuner_elapsed_s(tuner) - tuner->last_tick_s >= TICK_S)
        wf_tuner_tell(tuner, WF_TUNE_TICK, 0, 0, 0, "%s", tuner->stage);
    return tuner->stop_asked;
}

/* The reference tells how far it is. */
static bool reference_progress(void *self, const char *what, double fraction)
{
    wf_tuner_t *tuner = self;
    if (!tuner->stop_asked && wf_tuner_elapsed_s(tuner) - tuner->last_tick_s >= TICK_S) {
        wf_tuner_tell(tuner, WF_TUNE_TICK, 0, (uint64_t)(1000 * fmax(fraction, 0)), fraction >= 0 ? 1000 : 0,
                      "%s", what);
    }
    return tuner->stop_asked;
}

void wf_tuner_stage(wf_tuner_t *tuner, const char *name)
{
    double now_s = wf_tuner_elapsed_s(tuner);
    if (tuner->stage[0] != '\0') {
        (void)json_array_append_new(tuner->stages, json_pack("{s:s s:f}", "name", tuner->stage, "seconds",
                                                             now_s - tuner->stage_start_s));
    }
    tuner->stage = name;
    tuner->stage_start_s = now_s;
    if (name[0] != '\0')
        wf_tuner_tell(tuner, WF_TUNE_STAGE, 0, 0, 0, "%s", name);
}

/* ---- The run ---- */

static wf_status_t run(wf_tuner_t *tuner)
{
    WF_TRY(wf_stage_default(tuner));
    wf_tuner_tell(tuner, WF_TUNE_DEFAULT, 0, 0, 0, "%s", tuner->options->output_path);
    wf_tuner_stage(tuner, "");
    return WF_OK;
}

static void init(wf_tuner_t *tuner, wf_job_t *job, const wf_tune_options_t *options, uint64_t start_ns,
                 wf_tune_result_t *result)
{
    *tuner = (wf_tuner_t){.job = job,
                          .options = options,
                          .result = result,
                          .allocator = job->allocator,
                          .start_ns = start_ns,
                          .budget_s = options->budget_s > 0 ? options->budget_s : DEFAULT_BUDGET_S,
                          .stage = "",
                          .verdict = "failed",
                          .stages = json_array(),
                          .quarantined = json_array(),
                          .accuracy = json_array()};
    wf_arena_init(&tuner->arena, job->allocator);
    wf_candidate_init(&tuner->fallback, "default", job->allocator);
}

static void deinit(wf_tuner_t *tuner)
{
    wf_candidate_deinit(&tuner->fallback, tuner->job);
    json_decref(tuner->stages);
    json_decref(tuner->quarantined);
    json_decref(tuner->accuracy);
    wf_arena_deinit(&tuner->arena);
}

wf_status_t wf_tuner_run(wf_job_t *job, const wf_tune_options_t *options, uint64_t start_ns,
                         wf_tune_result_t *out_result)
{
    wf_tuner_t tuner;
    *out_result = (wf_tune_result_t){.allocator = job->allocator};
    init(&tuner, job, options, start_ns, out_result);
    wf_progress_fn *progress = job->progress;
    void *progress_self = job->progress_self;
    job->progress = reference_progress;
    job->progress_self = &tuner;
    wf_status_t status = run(&tuner);
    status = wf_status_join(status, wf_tuner_report(&tuner));
    job->progress = progress;
    job->progress_self = progress_self;
    deinit(&tuner);
    return status;
}
