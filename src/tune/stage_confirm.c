/* SPDX-License-Identifier: Apache-2.0 */
/* Stage "confirm": the winner of the race against the default, on blocks that chose nothing. */
#include <math.h>

#include "base/compiler.h"
#include "tune/tuner_internal.h"

/* Enough for 0.3 % at a spread of 0.7 % (90 % power); more when the machine is noisier, up to six times that.
 */
#define CONFIRM_BLOCKS 58.0
#define CONFIRM_BLOCKS_MAX 348.0
#define CONFIRM_HALF_WIDTH 0.0015
#define CONFIRM_BLOCKS_MIN 12u
/* Engines are loaded anew this often: where their memory lies is part of the noise. */
#define CONFIRM_LOADS 3u
#define WINSOR_LIMIT 3.0
#define RESAMPLES 2000u

typedef struct pairs {
    wf_times_t logs[2]; /* of the default, of the winner; one per block */
} pairs_t;

static wf_status_t load_pair(wf_tuner_t *tuner, size_t load, wf_fault_t *fault)
{
    for (size_t i = 0; i < 2; i++)
        WF_TRY(wf_worker_unload(tuner->worker, (uint32_t)i));
    for (size_t i = 0; i < 2; i++) {
        size_t slot = (i + load) % 2; /* in turn, so that neither always comes first in memory */
        const wf_candidate_t *candidate = &tuner->finalists[slot == 0 ? 0 : tuner->winner];
        WF_TRY(wf_worker_load(tuner->worker, (uint32_t)slot, candidate->engine, candidate->engine_bytes,
                              tuner->options->seed + load, fault));
        if (fault->kind != WF_FAULT_NONE)
            return WF_OK;
    }
    return WF_OK;
}

/* Where memory counts: the logs of times are divided by the weight of time, so that the ratio stays one of
 * times as far as it can, and memory is added. 0 for latency and throughput. */
static double memory_term(const wf_tuner_t *tuner)
{
    double weight = tuner->objective.latency + tuner->objective.throughput;
    if (tuner->objective.memory == 0)
        return 0;
    double base = wf_candidate_memory_bytes(&tuner->fallback);
    double mine = wf_candidate_memory_bytes(&tuner->finalists[tuner->winner]);
    return tuner->objective.memory / fmax(weight, 0.01) * log(fmax(mine, 1) / fmax(base, 1));
}

static wf_status_t pair_blocks(wf_tuner_t *tuner, size_t blocks, double until_s, pairs_t *pairs,
                               bool *out_over, wf_fault_t *fault)
{
    wf_race_message_t message = wf_tuner_race_message(tuner, until_s);
    wf_measure_result_t result;
    message.slot_count = 2;
    message.slots[1] = 1;
    message.block_count = blocks;
    WF_TRY(wf_worker_race(tuner->worker, &message, &result, fault));
    if (fault->kind != WF_FAULT_NONE)
        return WF_OK;
    wf_status_t status = WF_OK;
    double extra = memory_term(tuner);
    for (size_t b = 0; status == WF_OK && b < result.block_count; b++) {
        for (size_t i = 0; status == WF_OK && i < 2; i++) {
            double log_ns = log(result.times_ns[2 * b + i]);
            if (i == 1)
                log_ns += extra;
            if (isfinite(result.times_ns[2 * b]) && isfinite(result.times_ns[2 * b + 1]))
                status = wf_vec_push(tuner->allocator, &pairs->logs[i], &log_ns);
        }
    }
    if (status == WF_OK)
        status = wf_tuner_sample(tuner, &result, false);
    *out_over = result.block_count < blocks;
    wf_measure_result_deinit(&result);
    return status;
}

static wf_status_t median_interval(const wf_tuner_t *tuner, const wf_times_t *logs, double *out_ns,
                                   double *out_low_ns, double *out_high_ns)
{
    wf_interval_t interval;
    WF_TRY(wf_stats_bootstrap_median(logs->items, logs->count, RESAMPLES, 0.95, tuner->options->seed,
                                     tuner->allocator, &interval));
    *out_ns = exp(interval.centre);
    *out_low_ns = exp(interval.low);
    *out_high_ns = exp(interval.high);
    return WF_OK;
}

/* The wider of the bootstrap of the median and the t interval of winsorised differences. */
static wf_status_t compare_pairs(wf_tuner_t *tuner, const pairs_t *pairs, wf_comparison_t *out)
{
    size_t count = pairs->logs[0].count;
    double *differences = NULL;
    wf_interval_t median;
    *out = (wf_comparison_t){.block_count = count};
    WF_TRY(wf_alloc(tuner->allocator, 2 * count, sizeof *differences, &differences));
    for (size_t b = 0; b < count; b++)
        differences[b] = pairs->logs[1].items[b] - pairs->logs[0].items[b];
    wf_status_t status = wf_stats_bootstrap_median(differences, count, RESAMPLES, 0.95, tuner->options->seed,
                                                   tuner->allocator, &median);
    wf_stats_winsorise(differences, count, WINSOR_LIMIT, differences + count);
    wf_interval_t mean = wf_stats_paired_t(differences, count, 0.95);
    wf_free(tuner->allocator, differences, 2 * count, sizeof *differences);
    WF_TRY(status);
    out->done = true;
    out->ratio = exp(median.centre);
    out->low = exp(fmin(median.low, mean.low));
    out->high = exp(fmax(median.high, mean.high));
    WF_TRY(median_interval(tuner, &pairs->logs[0], &out->default_ns, &out->default_low_ns,
                           &out->default_high_ns));
    return median_interval(tuner, &pairs->logs[1], &out->candidate_ns, &out->candidate_low_ns,
                           &out->candidate_high_ns);
}

/* How many pairs the answer takes: an interval of CONFIRM_HALF_WIDTH at the noise seen, if there is time. */
static size_t blocks_wanted(const wf_tuner_t *tuner, double room_s)
{
    double needed = pow(1.96 * 1.25 * tuner->aa_sd / CONFIRM_HALF_WIDTH, 2);
    double affordable = room_s / (2 * wf_tuner_sample_s(tuner));
    return (size_t)fmax(fmin(fmin(fmax(needed, CONFIRM_BLOCKS), CONFIRM_BLOCKS_MAX), affordable), 1);
}

/* The number of blocks is fixed before the first: looking again and again until it fits would find a
 * difference in the end. Only what is slower beyond doubt ends early, which adopts nothing. */
static wf_status_t run_confirmation(wf_tuner_t *tuner, pairs_t *pairs, wf_fault_t *fault)
{
    double room_s = wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner);
    double until_s = wf_tuner_elapsed_s(tuner) + room_s, load_s = 3 * tuner->check_s + 0.01;
    size_t loads = CONFIRM_LOADS, blocks = blocks_wanted(tuner, 0.9 * room_s - CONFIRM_LOADS * load_s);
    if (blocks < CONFIRM_BLOCKS_MIN) {
        loads = 1;
        blocks = blocks_wanted(tuner, 0.9 * room_s - load_s);
    }
    size_t each = (blocks + loads - 1) / loads;
    bool over = false;
    wf_comparison_t *c = &tuner->comparison;
    for (size_t load = 0; load < loads && !over && !tuner->stop_asked; load++) {
        WF_TRY(load_pair(tuner, load, fault));
        if (fault->kind == WF_FAULT_NONE)
            WF_TRY(pair_blocks(tuner, each, until_s, pairs, &over, fault));
        if (fault->kind != WF_FAULT_NONE)
            return WF_OK;
        wf_tuner_tell(tuner, WF_TUNE_TICK, 0, load + 1, loads, "confirm");
        WF_TRY(compare_pairs(tuner, pairs, c));
        if (c->low > 1)
            break;
    }
    return WF_OK;
}

wf_status_t wf_stage_confirm(wf_tuner_t *tuner)
{
    if (tuner->winner == 0 || tuner->stop_asked)
        return WF_OK;
    wf_tuner_stage(tuner, "confirm");
    pairs_t pairs = {0};
    wf_fault_t fault = {0};
    wf_comparison_t before = tuner->comparison;
    wf_status_t status = run_confirmation(tuner, &pairs, &fault);
    for (size_t i = 0; i < 2; i++)
        wf_vec_deinit(tuner->allocator, &pairs.logs[i]);
    if (wf_status_code(status) == WF_CODE_TIME_OUT) {
        wf_status_free(status);
        status = WF_OK;
    }
    if (status == WF_OK && fault.kind != WF_FAULT_NONE) {
        wf_tuner_route_fault(tuner, tuner->finalists[tuner->winner].name, fault.text);
        tuner->comparison = before;
        return WF_OK;
    }
    if (status != WF_OK) {
        tuner->comparison = before;
        return status;
    }
    const wf_comparison_t *c = &tuner->comparison;
    tuner->adopted = c->done && c->block_count >= CONFIRM_BLOCKS_MIN && c->high < 1;
    if (tuner->adopted) {
        wf_tuner_tell(tuner, WF_TUNE_INCUMBENT, c->candidate_ns, 0, 0, "%s, %.4f of the default [%.4f, %.4f]",
                      tuner->finalists[tuner->winner].name, c->ratio, c->low, c->high);
    } else {
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0,
                      "%s is %.4f of the default [%.4f, %.4f] on %zu fresh blocks: not faster beyond doubt",
                      tuner->finalists[tuner->winner].name, c->ratio, c->low, c->high, c->block_count);
    }
    return WF_OK;
}
