/* SPDX-License-Identifier: Apache-2.0 */
/* Stage "target": does an engine reach what the user asked for? Runs of their own, judged with a stated
 * confidence; the default first, because then there may be nothing to search for. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "runtime/image.h"
#include "tune/tuner_internal.h"

#define CONFIDENCE 0.95
/* A percentile is decided with some runs over the limit too. */
#define RUNS_FACTOR 2.0
#define RUNS_LEAST 60.0
#define RUNS_MOST 20000.0
#define CHUNK_RUNS 200.0
#define TARGET_SHARE 0.25
#define SLOT 0u
/* Canaries and counters around each run. */
#define OVERHEAD_S 2e-4

double wf_tuner_target_s(const wf_tuner_t *tuner)
{
    if (tuner->target.count == 0)
        return 0;
    double runs = RUNS_FACTOR * (double)wf_target_runs_needed(&tuner->target, CONFIDENCE);
    double each_s = 2e-9 * tuner->default_ns + OVERHEAD_S;
    double seconds = each_s * fmin(fmax(runs, RUNS_LEAST), RUNS_MOST) + tuner->check_s + 0.05;
    return fmin(seconds, TARGET_SHARE * tuner->budget_s);
}

double wf_candidate_memory_bytes(const wf_candidate_t *candidate)
{
    wf_image_t image;
    double arena_bytes = 0;
    if (candidate->engine == NULL ||
        wf_image_open(candidate->engine, candidate->engine_bytes, false, &image) != WF_OK)
        return 0;
    for (size_t i = 0; i < image.spec_count; i++)
        arena_bytes = fmax(arena_bytes, (double)image.specs[i].arena_bytes);
    return (double)candidate->engine_bytes + arena_bytes;
}

static double batch_of(const wf_tuner_t *tuner)
{
    const wf_graph_t *graph = tuner->home->parts[0].graph;
    const wf_value_t *input = graph->inputs.count > 0 ? wf_graph_value(graph, graph->inputs.items[0]) : NULL;
    return input != NULL && input->type.rank > 1 ? fmax((double)input->type.dims[0], 1) : 1;
}

static void judge(wf_tuner_t *tuner, const wf_candidate_t *candidate)
{
    wf_target_facts_t facts = {.run_ns = tuner->target_runs.items,
                               .run_count = tuner->target_runs.count,
                               .batch = batch_of(tuner),
                               .memory_bytes = wf_candidate_memory_bytes(candidate),
                               .bound_ns = tuner->bound.least_ns};
    tuner->target_verdict = wf_target_judge(&tuner->target, &facts, CONFIDENCE, tuner->target_terms);
    tuner->target_judged = true;
}

/* Some runs, each with one before it that is not timed. */
static wf_status_t add_runs(wf_tuner_t *tuner, size_t count, double until_s, bool *out_over)
{
    wf_race_message_t message = wf_tuner_race_message(tuner, until_s);
    wf_measure_result_t result;
    wf_fault_t fault;
    message.slot_count = 1;
    message.slots[0] = SLOT;
    message.block_count = count;
    message.runs_min = 1;
    message.least_ns = 0;
    wf_status_t status = wf_worker_race(tuner->worker, &message, &result, &fault);
    *out_over = true;
    if (wf_status_code(status) == WF_CODE_TIME_OUT) {
        wf_status_free(status);
        return WF_OK;
    }
    WF_TRY(status);
    if (fault.kind != WF_FAULT_NONE)
        return WF_OK;
    *out_over = result.block_count < count;
    for (size_t b = 0; status == WF_OK && b < result.block_count; b++) {
        if (isfinite(result.times_ns[b]))
            status = wf_vec_push(tuner->allocator, &tuner->target_runs, &result.times_ns[b]);
    }
    wf_measure_result_deinit(&result);
    return status;
}

/* Judges a candidate on fresh runs, as few as the verdict takes. */
static wf_status_t try_target(wf_tuner_t *tuner, const wf_candidate_t *candidate, double until_s)
{
    wf_fault_t fault;
    bool over = false;
    double most = fmin(
        fmax(RUNS_FACTOR * (double)wf_target_runs_needed(&tuner->target, CONFIDENCE), RUNS_LEAST), RUNS_MOST);
    tuner->target_runs.count = 0;
    WF_TRY(wf_worker_load(tuner->worker, SLOT, candidate->engine, candidate->engine_bytes,
                          tuner->options->seed, &fault));
    while (fault.kind == WF_FAULT_NONE && !over && !tuner->stop_asked &&
           (double)tuner->target_runs.count < most) {
        double chunk = fmin(fmin(CHUNK_RUNS, 0.3e9 / (2 * fmax(tuner->default_ns, 1e3)) + 1),
                            most - (double)tuner->target_runs.count);
        WF_TRY(add_runs(tuner, (size_t)fmax(chunk, 1), until_s, &over));
        wf_tuner_tell(tuner, WF_TUNE_TICK, 0, tuner->target_runs.count, (uint64_t)most, "target");
    }
    judge(tuner, candidate);
    wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "target: %s: %s (%zu runs)", candidate->name,
                  wf_verdict_name(tuner->target_verdict), tuner->target_runs.count);
    return wf_worker_unload(tuner->worker, SLOT);
}

wf_status_t wf_stage_target_default(wf_tuner_t *tuner)
{
    if (tuner->target.count == 0 || tuner->stop_asked)
        return WF_OK;
    wf_tuner_stage(tuner, "target");
    double room_s = wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner);
    WF_TRY(try_target(tuner, &tuner->fallback, wf_tuner_elapsed_s(tuner) + TARGET_SHARE * room_s));
    tuner->target_reached = tuner->target_verdict == WF_VERDICT_MET;
    return WF_OK;
}

wf_status_t wf_stage_target(wf_tuner_t *tuner)
{
    if (tuner->target.count == 0 || tuner->target_reached || tuner->worker == NULL)
        return WF_OK;
    const wf_candidate_t *final = tuner->adopted ? &tuner->finalists[tuner->winner] : &tuner->fallback;
    if (final->engine == NULL || tuner->stop_asked)
        return WF_OK;
    wf_tuner_stage(tuner, "target");
    /* What was kept back for it. */
    double until_s = wf_tuner_elapsed_s(tuner) + wf_tuner_target_s(tuner);
    tuner->target_spent = true;
    return try_target(tuner, final, until_s);
}
