/* SPDX-License-Identifier: Apache-2.0 */
/* The baseline beside the engine that was written: what was measured of it, raw. */
#include <math.h>
#include <string.h>

#include "tune/baseline.h"
#include "tune/tuner_internal.h"

wf_status_t wf_tuner_sample(wf_tuner_t *tuner, const wf_measure_result_t *result, bool same)
{
    for (size_t b = 0; b < result->block_count; b++) {
        for (size_t i = 0; i < 2; i++) {
            double ns = result->times_ns[2 * b + i];
            if (isfinite(ns) && ns > 0)
                WF_TRY(wf_vec_push(tuner->allocator, &tuner->samples_ns[same ? 0 : i], &ns));
        }
        if (result->canary_ns[b] > 0)
            WF_TRY(wf_vec_push(tuner->allocator, &tuner->sample_canary_ns, &result->canary_ns[b]));
    }
    return WF_OK;
}

static wf_status_t copy_times(wf_baseline_t *baseline, const wf_times_t *from, wf_times_t *to)
{
    for (size_t i = 0; i < from->count; i++)
        WF_TRY(wf_vec_push(baseline->allocator, to, &from->items[i]));
    return WF_OK;
}

static wf_status_t fill(wf_tuner_t *tuner, wf_baseline_t *baseline)
{
    const wf_comparison_t *c = &tuner->comparison;
    const char *libraries = tuner->device != NULL ? tuner->device + strlen(tuner->job->fingerprint) : "";
    WF_TRY(wf_baseline_stamp(baseline, libraries[0] == ' ' ? libraries + 1 : libraries));
    if (isfinite(c->candidate_ns) && c->candidate_ns > 0) {
        baseline->median_ns = c->candidate_ns;
        baseline->low_ns = isfinite(c->candidate_low_ns) ? c->candidate_low_ns : 0;
        baseline->high_ns = isfinite(c->candidate_high_ns) ? c->candidate_high_ns : 0;
    }
    WF_TRY(copy_times(baseline, &tuner->samples_ns[tuner->adopted ? 1 : 0], &baseline->samples_ns));
    return copy_times(baseline, &tuner->sample_canary_ns, &baseline->canary_ns);
}

/* Samples of exactly this engine that are there already are worth more than none. */
static bool keeps_what_is_there(const wf_tuner_t *tuner, const wf_baseline_t *baseline, const char *path)
{
    wf_baseline_t there;
    wf_status_t status = wf_baseline_read(path, tuner->allocator, &there);
    bool same = status == WF_OK && strcmp(there.engine_hash, baseline->engine_hash) == 0;
    bool keeps = same && baseline->samples_ns.count == 0 && there.samples_ns.count > 0;
    wf_status_free(status);
    wf_baseline_deinit(&there);
    return keeps;
}

static wf_status_t write_baseline(wf_tuner_t *tuner)
{
    wf_baseline_t baseline;
    char path[4200];
    WF_TRY(wf_baseline_path(tuner->options->output_path, path, sizeof path));
    wf_status_t status = wf_baseline_identify(tuner->options->output_path, tuner->allocator, &baseline);
    if (status == WF_OK)
        status = fill(tuner, &baseline);
    if (status == WF_OK && !keeps_what_is_there(tuner, &baseline, path))
        status = wf_baseline_write(&baseline, path, tuner->options->force);
    wf_baseline_deinit(&baseline);
    return status;
}

/* A tuning whose baseline cannot be written is a tuning all the same; it says so. */
void wf_tuner_baseline(wf_tuner_t *tuner)
{
    if (!tuner->default_written && !tuner->recalled)
        return;
    wf_status_t status = write_baseline(tuner);
    if (status != WF_OK)
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "no baseline is written: %.400s",
                      wf_status_message(status));
    wf_status_free(status);
}
