/* SPDX-License-Identifier: Apache-2.0 */
/* Stages "solve", "race" and "confirm": routes become engines, the finalists run against each other, and the
 * winner against the default on fresh blocks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "tune/tuner_internal.h"

/* Of the time that is left: building and checking finalists, racing; the rest confirms. */
#define BUILD_SHARE 0.2
/* Tactics alone, cold, take this much more or less than in a model (search notes: 1 to 60 %, mostly a few).
 */
#define CONTEXT_SD 0.05
#define DRAWS_MAX 24u
#define NEXT_BEST 3u
/* A route that should be this much slower than the best does not race. */
#define HOPELESS_FACTOR 1.1
#define RACE_SHARE 0.6
/* Kim and Nelson's first stage; fewer blocks say too little about their spread. */
#define FIRST_BLOCKS 12u
#define DELTA 0.003
#define ALPHA 0.05
#define WINSOR_LIMIT 3.0
/* Memory that loaded engines may take together, as a share of what is free; each takes about thrice its file.
 */
#define MEMORY_SHARE 0.25
#define MEMORY_PER_ENGINE 3.0
#define CHUNK_S 1.0
#define RESAMPLES 2000u
#define AA_SLOT 1u

/* ---- Samples ---- */

/* At least a millisecond and three runs: a fast engine runs often, a slow one is long enough by itself. */
wf_race_message_t wf_tuner_race_message(wf_tuner_t *tuner, double until_s)
{
    return (wf_race_message_t){.runs_min = tuner->default_ns > 20e6 ? 1 : 3,
                               .least_ns = 1e6,
                               .seed = tuner->options->seed + tuner->request_count++,
                               .deadline_ns =
                                   wf_tuner_deadline_ns(tuner, until_s - wf_tuner_elapsed_s(tuner))};
}

/* Seconds of one arm's sample. */
double wf_tuner_sample_s(const wf_tuner_t *tuner)
{
    double runs = tuner->default_ns > 20e6 ? 1 : 3;
    return 1e-9 * (tuner->default_ns + fmax(runs * tuner->default_ns, 1e6)) + 1e-4;
}

void wf_tuner_route_fault(wf_tuner_t *tuner, const char *route, const char *text)
{
    (void)json_array_append_new(tuner->quarantined, json_pack("{s:s s:s}", "route", route, "reason", text));
    wf_tuner_tell(tuner, WF_TUNE_FAULT, 0, 0, 0, "the engine of route '%s' is out: %.250s", route, text);
}

/* ---- A/A: the default against itself ---- */

static wf_status_t aa_blocks(wf_tuner_t *tuner, double until_s, wf_measure_result_t *out_result,
                             wf_fault_t *fault)
{
    const wf_candidate_t *fallback = &tuner->fallback;
    wf_race_message_t message = wf_tuner_race_message(tuner, until_s);
    message.slot_count = 2;
    message.slots[1] = AA_SLOT;
    message.block_count = 16;
    for (uint32_t slot = 0; slot < 2; slot++) {
        WF_TRY(wf_worker_load(tuner->worker, slot, fallback->engine, fallback->engine_bytes,
                              tuner->options->seed, fault));
        if (fault->kind != WF_FAULT_NONE)
            return WF_OK;
    }
    return wf_worker_race(tuner->worker, &message, out_result, fault);
}

static wf_status_t learn_noise(wf_tuner_t *tuner, const wf_measure_result_t *result)
{
    size_t blocks = result->block_count;
    double *times = NULL;
    if (blocks == 0)
        return WF_OK;
    WF_TRY(wf_alloc(tuner->allocator, 2 * blocks, sizeof *times, &times));
    double *ratios = times + blocks;
    for (size_t b = 0; b < blocks; b++) {
        times[b] = result->times_ns[2 * b];
        ratios[b] = log(result->times_ns[2 * b + 1] / result->times_ns[2 * b]);
        if (tuner->best_canary_ns == 0 || result->canary_ns[b] < tuner->best_canary_ns)
            tuner->best_canary_ns = result->canary_ns[b];
    }
    wf_interval_t interval;
    wf_status_t status = wf_stats_bootstrap_median(times, blocks, RESAMPLES, 0.95, tuner->options->seed,
                                                   tuner->allocator, &interval);
    tuner->default_ns = interval.centre;
    tuner->comparison.default_ns = tuner->comparison.candidate_ns = interval.centre;
    tuner->comparison.default_low_ns = tuner->comparison.candidate_low_ns = interval.low;
    tuner->comparison.default_high_ns = tuner->comparison.candidate_high_ns = interval.high;
    tuner->aa_ratio = exp(wf_stats_median(ratios, blocks));
    tuner->aa_sd = wf_stats_mad(ratios, blocks);
    wf_free(tuner->allocator, times, 2 * blocks, sizeof *times);
    return status;
}

wf_status_t wf_stage_noise(wf_tuner_t *tuner)
{
    wf_tuner_stage(tuner, "noise");
    double room_s = wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner);
    double until_s = wf_tuner_elapsed_s(tuner) + fmax(0.05 * room_s, fmin(0.5, 0.3 * room_s));
    wf_measure_result_t result = {0};
    wf_fault_t fault = {0};
    tuner->default_ns = 1e9 * tuner->check_s; /* an upper bound: it counts the loading */
    wf_worker_allow_s(tuner->worker, fmax(tuner->hang_s, 20 * tuner->check_s));
    wf_status_t status = aa_blocks(tuner, until_s, &result, &fault);
    if (wf_status_code(status) == WF_CODE_TIME_OUT) {
        wf_status_free(status);
        return WF_OK;
    }
    if (status != WF_OK)
        return status;
    if (fault.kind != WF_FAULT_NONE) {
        wf_tuner_tell(tuner, WF_TUNE_FAULT, 0, 0, 0, "the default engine %.300s in the measuring worker",
                      fault.text);
        return WF_OK;
    }
    if (result.block_count > 0)
        status = learn_noise(tuner, &result);
    if (status == WF_OK)
        status = wf_tuner_sample(tuner, &result, true);
    wf_measure_result_deinit(&result);
    WF_TRY(status);
    if (tuner->aa_sd > 0.02) {
        wf_tuner_tell(
            tuner, WF_TUNE_NOTE, 0, 0, 0,
            "the machine is noisy: an engine differs from itself by %.1f %%; differences below %.1f %% are "
            "not looked for",
            100 * tuner->aa_sd, 100 * wf_tuner_delta(tuner));
    }
    WF_TRY(wf_worker_unload(tuner->worker, AA_SLOT));
    return WF_OK;
}

/* The difference that counts: 0.3 %, or what the noise lets be seen in some hundred blocks. */
double wf_tuner_delta(const wf_tuner_t *tuner)
{
    return fmax(DELTA, 0.3 * (tuner->aa_sd - 0.01));
}

/* ---- Finalists ---- */

/* How many engines can be built, kept and raced in what time and memory there is. */
static size_t finalists_allowed(const wf_tuner_t *tuner)
{
    double room_s = wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner);
    double each_s = tuner->make_s + 3 * tuner->check_s;
    double by_build = 1 + BUILD_SHARE * room_s / (each_s + 1e-3);
    /* Blocks that tell 1 % apart at the noise seen (90 % power, 5 %). */
    double blocks = fmax(FIRST_BLOCKS, 10.5 * pow(tuner->aa_sd / 0.01, 2));
    double by_race = fmax(RACE_SHARE * room_s / (blocks * wf_tuner_sample_s(tuner)),
                          RACE_SHARE * room_s >= FIRST_BLOCKS * 2 * wf_tuner_sample_s(tuner) ? 2 : 0);
    double by_memory = MEMORY_SHARE * wf_tuner_free_bytes() /
                       (MEMORY_PER_ENGINE * (double)tuner->fallback.engine_bytes + 1e6);
    double allowed = fmin(fmin(by_build, by_race), fmin(by_memory, WF_TUNE_FINALISTS_MAX));
    return allowed < 2 ? 0 : (size_t)allowed;
}

static bool same_plan(const wf_candidate_t *a, const wf_candidate_t *b)
{
    return a->lock.length == b->lock.length && memcmp(a->lock.data, b->lock.data, a->lock.length) == 0;
}

/* Makes and checks the engine; false (and the candidate is empty again) when it must not race. */
static wf_status_t admit(wf_tuner_t *tuner, wf_candidate_t *candidate, bool *out_admitted)
{
    *out_admitted = false;
    WF_TRY(wf_candidate_make(candidate, tuner->job, ""));
    wf_status_t status = wf_job_check(tuner->home, candidate->engine, candidate->engine_bytes,
                                      tuner->options->build.check_seed, NULL);
    if (wf_status_code(status) == WF_CODE_ACCURACY || wf_status_code(status) == WF_CODE_RUNTIME_DATA) {
        wf_tuner_route_fault(tuner, candidate->name, wf_status_message(status));
        wf_status_free(status);
        return WF_OK;
    }
    *out_admitted = status == WF_OK;
    return status;
}

static wf_status_t predict(wf_candidate_t *candidate)
{
    wf_job_t *job = candidate->job;
    candidate->predicted_ns = 0;
    for (size_t p = 0; p < job->part_count; p++) {
        double cost_ns;
        WF_TRY(wf_route_cost(job->parts[p].space, &candidate->routes[p], &cost_ns));
        candidate->predicted_ns += cost_ns;
    }
    return WF_OK;
}

/* Takes the routes over. A plan that is there already, or is much slower than the best, adds nothing. */
static wf_status_t add_candidate(wf_tuner_t *tuner, const char *name, wf_route_t *routes,
                                 const wf_knobs_t *knobs)
{
    wf_candidate_t *candidate = &tuner->finalists[tuner->finalist_count];
    bool admitted = false;
    wf_candidate_init(candidate, name, tuner->allocator);
    wf_status_t status = wf_candidate_set(candidate, tuner->job, routes, knobs);
    if (status == WF_OK)
        status = predict(candidate);
    bool wanted = tuner->finalist_count < 2 ||
                  candidate->predicted_ns <= HOPELESS_FACTOR * tuner->finalists[1].predicted_ns;
    for (size_t i = 0; status == WF_OK && i < tuner->finalist_count; i++)
        wanted = wanted && !same_plan(candidate, &tuner->finalists[i]);
    if (status == WF_OK && wanted)
        status = admit(tuner, candidate, &admitted);
    if (status == WF_OK && admitted)
        tuner->finalist_count++;
    else
        wf_candidate_deinit(candidate, tuner->job);
    return status;
}

/* The best route, and the next best by layouts and fusion. */
static wf_status_t add_best(wf_tuner_t *tuner, size_t allowed)
{
    wf_job_t *job = tuner->job;
    wf_route_t *routes[NEXT_BEST] = {NULL};
    wf_status_t status = WF_OK;
    size_t count = NEXT_BEST;
    for (size_t r = 0; status == WF_OK && r < NEXT_BEST; r++)
        status = wf_alloc(job->allocator, job->part_count, sizeof *routes[r], &routes[r]);
    for (size_t p = 0; status == WF_OK && p < job->part_count; p++) {
        wf_route_t found[NEXT_BEST];
        size_t found_count;
        status = wf_space_solve_k(job->parts[p].space, NEXT_BEST, found, &found_count);
        for (size_t r = 0; status == WF_OK && r < found_count; r++)
            routes[r][p] = found[r];
        count = WF_MIN(count, status == WF_OK ? found_count : 0);
    }
    static const char *const names[NEXT_BEST] = {"best", "second best", "third best"};
    for (size_t r = 0; r < NEXT_BEST; r++) {
        if (status == WF_OK && r < count && tuner->finalist_count < allowed) {
            status = add_candidate(tuner, names[r], routes[r], NULL);
            routes[r] = NULL;
        }
        wf_job_routes_free(job, routes[r]);
    }
    return status;
}

/* Routes that are best if costs are a little off, as those of tactics alone are. */
static wf_status_t add_plausible(wf_tuner_t *tuner, size_t draw, wf_rng_t *rng)
{
    wf_route_t *routes = NULL;
    const char *name;
    WF_TRY(wf_arena_format(&tuner->arena, &name, "plausible %zu", draw));
    wf_profile_perturb(&tuner->profile, tuner->job, CONTEXT_SD, rng);
    wf_status_t status = wf_job_solve(tuner->job, &routes);
    wf_profile_apply(&tuner->profile, tuner->job, false);
    return status == WF_OK ? add_candidate(tuner, name, routes, NULL) : status;
}

/* Takes over the routes of a candidate that a stage before this one left; without any it left none. */
static wf_status_t add_left(wf_tuner_t *tuner, wf_candidate_t *left)
{
    wf_route_t *routes = left->routes;
    if (routes == NULL)
        return WF_OK;
    left->routes = NULL;
    return add_candidate(tuner, left->name, routes, &left->knobs);
}

static bool is_joint(const wf_tuner_t *tuner)
{
    return tuner->options->strategy == NULL || strcmp(tuner->options->strategy, "joint") == 0;
}

static wf_status_t collect(wf_tuner_t *tuner, size_t allowed)
{
    double room_s = wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner);
    double until_s = wf_tuner_elapsed_s(tuner) + BUILD_SHARE * room_s;
    wf_rng_t rng = {tuner->options->seed};
    WF_TRY(predict(&tuner->finalists[0]));
    WF_TRY(add_left(tuner, &tuner->found));
    WF_TRY(add_left(tuner, &tuner->start));
    if (!is_joint(tuner))
        return WF_OK;
    WF_TRY(add_best(tuner, allowed));
    for (size_t draw = 0; draw < DRAWS_MAX && tuner->finalist_count < allowed; draw++) {
        if (wf_tuner_tick(tuner) || wf_tuner_elapsed_s(tuner) > until_s)
            break;
        WF_TRY(add_plausible(tuner, draw + 1, &rng));
    }
    return WF_OK;
}

static bool is_banned(const wf_tuner_t *tuner)
{
    const wf_job_t *job = tuner->fallback.job;
    for (size_t p = 0; p < job->part_count; p++) {
        const wf_space_t *space = job->parts[p].space;
        const wf_route_t *route = &tuner->fallback.routes[p];
        for (size_t i = 0; i < route->count; i++) {
            const wf_group_t *group = &space->groups.items[route->items[i].group];
            if (space->problems.items[group->problem].choices.items[route->items[i].choice].banned)
                return true;
        }
    }
    return false;
}

/* A default with a tactic that was put aside is none: the best route without it takes its place. */
static wf_status_t replace_default(wf_tuner_t *tuner)
{
    wf_route_t *routes = NULL;
    wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0,
                  "the default used a tactic that is put aside: another one is made");
    wf_job_t *job = tuner->fallback.job;
    WF_TRY(wf_job_solve(job, &routes));
    WF_TRY(wf_candidate_set(&tuner->fallback, job, routes, NULL));
    return wf_tuner_write(tuner, &tuner->fallback, "");
}

wf_status_t wf_stage_solve(wf_tuner_t *tuner)
{
    wf_tuner_stage(tuner, "solve");
    if (is_banned(tuner))
        WF_TRY(replace_default(tuner));
    size_t allowed = finalists_allowed(tuner);
    if (allowed < 2) {
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "there is no time to race routes: the default stays");
        return WF_OK;
    }
    tuner->finalists[0] = tuner->fallback;
    tuner->finalist_count = 1;
    return collect(tuner, allowed);
}

/* ---- Race ---- */

/* Loads the arms that are alive and not yet there. An engine that cannot be loaded is out. */
static wf_status_t load_arms(wf_tuner_t *tuner, wf_race_t *race)
{
    if (tuner->loaded_generation != wf_worker_generation(tuner->worker))
        memset(tuner->loaded, 0, sizeof tuner->loaded);
    for (uint32_t a = 0; a < race->arm_count; a++) {
        const wf_candidate_t *candidate = &tuner->finalists[a];
        wf_fault_t fault;
        if (!race->alive[a] || tuner->loaded[a])
            continue;
        wf_status_t status = wf_worker_load(tuner->worker, a, candidate->engine, candidate->engine_bytes,
                                            tuner->options->seed, &fault);
        if (wf_status_code(status) == WF_CODE_INTERRUPTED || wf_status_code(status) == WF_CODE_OUT_OF_MEMORY)
            return status;
        if (status != WF_OK || fault.kind != WF_FAULT_NONE) {
            wf_tuner_route_fault(tuner, candidate->name,
                                 status != WF_OK ? wf_status_message(status) : fault.text);
            wf_race_drop(race, a);
            if (fault.kind != WF_FAULT_NONE)
                memset(tuner->loaded, 0, sizeof tuner->loaded);
            a = UINT32_MAX; /* from the beginning: a fault took the others with it */
        } else {
            tuner->loaded[a] = true;
            tuner->loaded_generation = wf_worker_generation(tuner->worker);
        }
        wf_status_free(status);
    }
    return WF_OK;
}

/* What is made small: the log of the time, and of the memory beside the default's where the user wants it. */
static double score_log(const wf_tuner_t *tuner, size_t arm, double ns)
{
    if (tuner->objective.memory == 0)
        return log(ns);
    double base = wf_candidate_memory_bytes(&tuner->finalists[0]);
    double log_memory = log(fmax(wf_candidate_memory_bytes(&tuner->finalists[arm]), 1) / fmax(base, 1));
    return log(tuner->default_ns) +
           wf_objective_log(&tuner->objective, log(ns / tuner->default_ns), log_memory);
}

static wf_status_t add_blocks(wf_tuner_t *tuner, wf_race_t *race, const wf_race_message_t *message,
                              const wf_measure_result_t *result)
{
    double logs[WF_RACE_ARMS_MAX];
    for (size_t b = 0; b < result->block_count && !wf_race_decided(race); b++) {
        for (size_t a = 0; a < race->arm_count; a++)
            logs[a] = NAN;
        for (size_t i = 0; i < message->slot_count; i++) {
            size_t arm = message->slots[i];
            if (race->alive[arm])
                logs[arm] = score_log(tuner, arm, result->times_ns[b * message->slot_count + i]);
        }
        WF_TRY(wf_race_add(race, logs));
    }
    for (size_t i = 0; i < message->slot_count; i++) {
        if (result->faults[i][0] != '\0')
            wf_tuner_route_fault(tuner, tuner->finalists[message->slots[i]].name, result->faults[i]);
    }
    return WF_OK;
}

/* Some blocks of the arms that are alive. *out_over: the time is. */
static wf_status_t race_chunk(wf_tuner_t *tuner, wf_race_t *race, double until_s, bool *out_over)
{
    WF_TRY(load_arms(tuner, race));
    wf_race_message_t message = wf_tuner_race_message(tuner, until_s);
    for (uint32_t a = 0; a < race->arm_count; a++) {
        if (race->alive[a])
            message.slots[message.slot_count++] = a;
    }
    if (message.slot_count < 2)
        return WF_OK;
    double block_s = (double)message.slot_count * wf_tuner_sample_s(tuner);
    message.block_count = (size_t)fmax(fmin(CHUNK_S / block_s, 50), 1);
    wf_measure_result_t result;
    wf_fault_t fault;
    wf_status_t status = wf_worker_race(tuner->worker, &message, &result, &fault);
    if (wf_status_code(status) == WF_CODE_TIME_OUT) {
        wf_status_free(status);
        *out_over = true;
        return WF_OK;
    }
    WF_TRY(status);
    if (fault.kind != WF_FAULT_NONE) {
        size_t arm = fault.item < message.slot_count ? message.slots[fault.item] : 0;
        wf_tuner_route_fault(tuner, tuner->finalists[arm].name, fault.text);
        wf_race_drop(race, arm);
        memset(tuner->loaded, 0, sizeof tuner->loaded);
        return WF_OK;
    }
    *out_over = result.block_count < message.block_count;
    status = add_blocks(tuner, race, &message, &result);
    wf_measure_result_deinit(&result);
    return status;
}

/* Every finalist's median ratio to the default, for the record. */
static wf_status_t record_trials(wf_tuner_t *tuner, const wf_race_t *race)
{
    double *ratios = NULL, *times = NULL;
    size_t blocks = race->block_count;
    WF_TRY(wf_alloc(tuner->allocator, 2 * blocks, sizeof *ratios, &ratios));
    times = ratios + blocks;
    for (size_t a = 0; a < race->arm_count; a++) {
        const wf_candidate_t *candidate = &tuner->finalists[a];
        size_t count = 0;
        for (size_t b = 0; b < blocks; b++) {
            const double *block = &race->values.items[b * race->arm_count];
            if (!isfinite(block[a]) || !isfinite(block[0]))
                continue;
            ratios[count] = block[a] - block[0];
            times[count++] = exp(block[a]);
        }
        double ratio = count > 0 ? exp(wf_stats_median(ratios, count)) : 0;
        double median_ns = count > 0 ? wf_stats_median(times, count) : 0;
        if (count > 0) {
            wf_tuner_tell(tuner, WF_TUNE_TRIAL, median_ns, a + 1, race->arm_count, "%s: %.4f of the default",
                          candidate->name, ratio);
        }
        wf_tuner_record(tuner,
                        json_pack("{s:s s:I s:s s:b s:s s:n s:f s:f s:I s:f s:s}", "type", "trial", "iter",
                                  (json_int_t)a, "build_route", candidate->name, "crash", count == 0,
                                  "error_message", "", "accuracy_loss", "gpu_time", median_ns * 1e-6, "ratio",
                                  ratio, "blocks", (json_int_t)count, "predicted_ns", candidate->predicted_ns,
                                  "lock", wf_text_cstr(&candidate->lock)));
    }
    wf_free(tuner->allocator, ratios, 2 * blocks, sizeof *ratios);
    return WF_OK;
}

static wf_status_t run_race(wf_tuner_t *tuner, wf_race_t *race)
{
    double room_s = wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner);
    double until_s = wf_tuner_elapsed_s(tuner) + RACE_SHARE * room_s;
    bool over = false;
    while (!tuner->stop_asked && !over && race->alive_count > 1 && wf_tuner_elapsed_s(tuner) < until_s) {
        WF_TRY(race_chunk(tuner, race, until_s, &over));
        wf_tuner_tell(tuner, WF_TUNE_TICK, 0, race->arm_count - race->alive_count, race->arm_count - 1,
                      "race");
    }
    WF_TRY(wf_race_best(race, &tuner->winner));
    if (tuner->winner >= race->arm_count)
        tuner->winner = 0;
    WF_TRY(record_trials(tuner, race));
    if (race->block_count < FIRST_BLOCKS) {
        if (tuner->winner != 0)
            wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "the race ended after %zu blocks", race->block_count);
    }
    return WF_OK;
}

wf_status_t wf_stage_race(wf_tuner_t *tuner)
{
    tuner->winner = 0;
    if (tuner->finalist_count < 2 || tuner->stop_asked)
        return WF_OK;
    if (tuner->finalist_count == 2) { /* nothing to choose: the comparison that decides is the next stage */
        tuner->winner = 1;
        return WF_OK;
    }
    wf_tuner_stage(tuner, "race");
    wf_race_options_t options = {wf_tuner_delta(tuner), ALPHA, FIRST_BLOCKS, WINSOR_LIMIT};
    wf_race_t race;
    memset(tuner->loaded, 0, sizeof tuner->loaded);
    wf_worker_allow_s(tuner->worker, fmax(tuner->hang_s, 20e-9 * tuner->default_ns));
    wf_race_init(&race, tuner->allocator, &options, tuner->finalist_count);
    wf_status_t status = run_race(tuner, &race);
    wf_race_deinit(&race);
    return status;
}
