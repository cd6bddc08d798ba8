/* SPDX-License-Identifier: Apache-2.0 */
/* Stage "write": the engine that was chosen, with its evidence, through the gate and onto the disk. */
#include <string.h>
#include <unistd.h>

#include "tune/tuner_internal.h"

wf_status_t wf_tuner_write(wf_tuner_t *tuner, wf_candidate_t *candidate, const char *evidence)
{
    WF_TRY(wf_candidate_make(candidate, tuner->job, evidence));
    (void)json_array_clear(tuner->accuracy);
    for (size_t i = 0; i < tuner->check_count; i++) {
        WF_TRY(wf_job_check(tuner->home, candidate->engine, candidate->engine_bytes,
                            tuner->options->build.check_seed + i, tuner->accuracy));
    }
    return wf_engine_save(candidate->engine, candidate->engine_bytes, tuner->options->output_path,
                          tuner->options->force);
}

/* The lock as the engine has it, so that a later recall writes the same bytes. */
static wf_status_t keep_lock(wf_tuner_t *tuner, const wf_candidate_t *candidate, const wf_text_t *evidence)
{
    size_t length = candidate->lock.length + evidence->length;
    char *text = NULL;
    WF_TRY(wf_arena_alloc(&tuner->arena, length + 1, 1, &text));
    memcpy(text, candidate->lock.data, candidate->lock.length);
    memcpy(text + candidate->lock.length, evidence->data, evidence->length);
    tuner->written_lock = text;
    return WF_OK;
}

static wf_status_t write_with_evidence(wf_tuner_t *tuner, wf_candidate_t *candidate)
{
    wf_text_t evidence;
    wf_text_init(&evidence, tuner->allocator, UINT32_MAX);
    wf_status_t status = wf_tuner_evidence(tuner, candidate, &evidence);
    if (status == WF_OK)
        status = wf_tuner_write(tuner, candidate, wf_text_cstr(&evidence));
    if (status == WF_OK)
        status = keep_lock(tuner, candidate, &evidence);
    wf_text_deinit(&evidence);
    return status;
}

static wf_status_t write_default(wf_tuner_t *tuner)
{
    wf_status_t status = write_with_evidence(tuner, &tuner->fallback);
    if (wf_status_code(status) == WF_CODE_ACCURACY) {
        /* It passed on one input and was written; it does not pass on all. */
        (void)unlink(tuner->options->output_path);
        tuner->default_written = false;
        tuner->verdict = "failed";
    }
    return status;
}

static wf_status_t write_winner(wf_tuner_t *tuner, bool *out_written)
{
    wf_candidate_t *winner = &tuner->finalists[tuner->winner];
    wf_status_t status = write_with_evidence(tuner, winner);
    *out_written = status == WF_OK;
    if (wf_status_code(status) != WF_CODE_ACCURACY)
        return status;
    wf_tuner_route_fault(tuner, winner->name, wf_status_message(status));
    wf_status_free(status);
    return WF_OK;
}

/* The numbers of a default that stays. */
static void keep_default(wf_tuner_t *tuner)
{
    wf_comparison_t *c = &tuner->comparison;
    tuner->adopted = false;
    c->ratio = c->low = c->high = 1;
    c->candidate_ns = c->default_ns;
    c->candidate_low_ns = c->default_low_ns;
    c->candidate_high_ns = c->default_high_ns;
}

wf_status_t wf_stage_write(wf_tuner_t *tuner)
{
    bool written = false;
    wf_tuner_stage(tuner, "write");
    if (tuner->adopted)
        WF_TRY(write_winner(tuner, &written));
    if (written) {
        /* A baseline of the engine would be taken here, and where the default is written below. */
        tuner->verdict = "adopted";
        return WF_OK;
    }
    keep_default(tuner);
    tuner->verdict = "default kept";
    /* What is on the disk was checked on one input; late, that must do. */
    if (wf_tuner_left_s(tuner) < 0) {
        tuner->verdict = "default kept, no time left";
        return WF_OK;
    }
    return write_default(tuner);
}
