/* SPDX-License-Identifier: Apache-2.0 */
/* Stage "profile": tactics are measured, the next ones where a unit of time promises most end to end. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "tune/tuner_internal.h"
#include "verify/numeric.h"

/* Of the time between the default and the end; what is not needed goes to the race. */
#define PROFILE_SHARE 0.55
/* Measuring stops when the next request is not expected to save this share of the route. */
#define WORTH_SHARE 0.0005
/* Successive halving: all candidates take part in the first round, those that may still win in the next. */
static const size_t round_blocks[] = {6, 10, 16, 24};
#define TACTICS_PER_REQUEST 8u
#define BATCH_NS 100e3
/* Sets of one request; less where memory is short. */
#define MEMORY_BYTES ((size_t)128 << 20)
#define MEMORY_SHARE (1.0 / 32)
/* Starting a request, making and filling memory. */
#define REQUEST_NS 4e6
/* Constants that the worker gets as they are; larger floating-point ones it makes up. */
#define SMALL_CONSTANT_BYTES 4096
/* A solve with marginals may take this share of measuring time. */
#define APPRAISE_SHARE 0.2
#define IDLE_DEATHS_MAX 3u
#define STRIKES_MAX 2u

typedef struct plan {
    size_t topic;
    size_t choices[TACTICS_PER_REQUEST + 1];
    size_t count, blocks;
    double worth_ns, seconds;
} plan_t;

/* ---- What to measure next ---- */

static bool wants(const wf_topic_t *topic, size_t c)
{
    const wf_topic_choice_t *choice = &topic->choices[c];
    return choice->worth_ns > 0 && (!choice->stored || choice->again) && choice->quarantine == NULL;
}

/* The anchor and the choices of a topic that are worth most. */
static plan_t plan_topic(const wf_topic_t *topic, size_t index)
{
    plan_t plan = {.topic = index, .choices = {topic->anchor}, .count = 1};
    if (topic->dead || topic->anchor >= topic->choice_count || topic->rounds >= WF_COUNT_OF(round_blocks))
        return plan;
    plan.blocks = round_blocks[topic->rounds];
    if (wants(topic, topic->anchor))
        plan.worth_ns += topic->choices[topic->anchor].worth_ns;
    while (plan.count <= TACTICS_PER_REQUEST) {
        size_t best = topic->choice_count;
        for (size_t c = 0; c < topic->choice_count; c++) {
            bool taken = false;
            for (size_t i = 0; i < plan.count; i++)
                taken |= plan.choices[i] == c;
            if (!taken && wants(topic, c) &&
                (best == topic->choice_count || topic->choices[c].worth_ns > topic->choices[best].worth_ns))
                best = c;
        }
        if (best == topic->choice_count || topic->choices[best].worth_ns < 0.02 * plan.worth_ns)
            break;
        plan.worth_ns += topic->choices[best].worth_ns;
        plan.choices[plan.count++] = best;
    }
    double ns = REQUEST_NS;
    for (size_t i = 0; i < plan.count; i++) {
        double cost_ns = topic->choices[plan.choices[i]].cost_ns;
        ns += 3 * cost_ns + (double)plan.blocks * fmax(cost_ns, BATCH_NS);
    }
    plan.seconds = ns * 1e-9;
    return plan;
}

/* The request with most worth a second; false when none is worth it. */
static bool plan_next(const wf_profile_t *profile, plan_t *out_plan)
{
    bool found = false;
    for (size_t t = 0; t < profile->topics.count; t++) {
        plan_t plan = plan_topic(&profile->topics.items[t], t);
        if (plan.worth_ns < WORTH_SHARE * profile->route_ns)
            continue;
        if (!found || plan.worth_ns / plan.seconds > out_plan->worth_ns / out_plan->seconds)
            *out_plan = plan;
        found = true;
    }
    return found;
}

/* ---- One request ---- */

/* Values of constants that decide what a kernel does: indices, sizes, exponents. From the first group with
 * the problem. */
static wf_status_t find_constants(wf_tuner_t *tuner, const wf_topic_t *topic, wf_tensor_t **out_constants)
{
    const wf_topic_ref_t *ref = &topic->refs.items[0];
    const wf_space_t *space = tuner->job->parts[ref->part].space;
    const wf_problem_t *problem = topic->problem;
    *out_constants = NULL;
    for (size_t g = 0; g < space->groups.count; g++) {
        const wf_group_t *group = &space->groups.items[g];
        if (group->problem != ref->problem)
            continue;
        WF_TRY(wf_alloc(tuner->allocator, problem->operand_count, sizeof **out_constants, out_constants));
        for (size_t i = 0; i < problem->operand_count; i++) {
            const wf_type_t *type = &problem->operands[i].type;
            (*out_constants)[i].type = *type;
            if (!problem->operands[i].is_const || group->operands[i] == WF_NO_VALUE)
                continue;
            bool decides = wf_numeric_is_integer(type->dtype) && wf_dtype_bits(type->dtype) >= 32;
            if (decides || wf_type_bytes(type) <= SMALL_CONSTANT_BYTES) {
                const void *data = wf_graph_value(space->graph, group->operands[i])->constant;
                (*out_constants)[i].data = (void *)(uintptr_t)data;
            }
        }
        return WF_OK;
    }
    return WF_OK;
}

static json_t *row_json(const wf_timing_t *row)
{
    return json_pack("{s:s s:s s:I s:f s:f s:f s:f s:f s:b s:s}", "tactic", row->tactic, "anchor",
                     row->anchor, "count", (json_int_t)row->log_ratio.count, "mean", row->log_ratio.mean,
                     "m2", row->log_ratio.m2, "anchor_ns", row->anchor_ns, "min_ns", row->min_ns, "canary_ns",
                     row->canary_ns, "clean", row->clean, "quarantine", row->quarantine);
}

/* Into the database and the record. Neither can stop a tuning. */
static void keep_rows(wf_tuner_t *tuner, const wf_problem_t *problem, const wf_timing_t *rows, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, row_json(&rows[i]));
    wf_tuner_record(tuner, json_pack("{s:s s:s s:i s:o}", "type", "timing", "problem", problem->text,
                                     "threads", (int)tuner->job->cpu.thread_count, "rows", list));
    if (tuner->database == NULL || count == 0)
        return;
    wf_status_t status = wf_database_record(tuner->database, problem, rows, count, false);
    if (status != WF_OK) {
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "timings are not kept: %s", wf_status_message(status));
        wf_status_free(status);
        wf_database_close(tuner->database);
        tuner->database = NULL;
    }
}

/* Bans a choice, unless nothing else does its work. */
static wf_status_t ban(wf_tuner_t *tuner, size_t topic_index, size_t c, const char *reason)
{
    wf_topic_t *topic = &tuner->profile.topics.items[topic_index];
    const char *tactic = topic->choices[c].tactic;
    WF_TRY(wf_profile_quarantine(&tuner->profile, topic, c, reason));
    wf_profile_apply(&tuner->profile, tuner->job, false);
    wf_route_t *routes = NULL;
    wf_status_t status = wf_job_solve(tuner->job, &routes);
    wf_job_routes_free(tuner->job, routes);
    if (wf_status_code(status) != WF_CODE_INTERNAL)
        return status;
    wf_status_free(status);
    wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "%s stays in use: nothing else does its work", tactic);
    WF_TRY(wf_profile_keep(&tuner->profile, topic, c));
    wf_profile_apply(&tuner->profile, tuner->job, false);
    return WF_OK;
}

/* For good: the database keeps it. */
static wf_status_t quarantine(wf_tuner_t *tuner, size_t topic_index, size_t c, const char *reason)
{
    wf_topic_t *topic = &tuner->profile.topics.items[topic_index];
    const char *tactic = topic->choices[c].tactic;
    wf_timing_t row = {.clean = true};
    (void)snprintf(row.tactic, sizeof row.tactic, "%s", tactic);
    (void)snprintf(row.quarantine, sizeof row.quarantine, "%s", reason);
    wf_tuner_tell(tuner, WF_TUNE_FAULT, 0, 0, 0, "%s is put aside: it %.200s", tactic, reason);
    json_t *entry =
        json_pack("{s:s s:s s:s}", "tactic", tactic, "reason", reason, "problem", topic->problem->text);
    if (json_array_append_new(tuner->quarantined, entry) != 0)
        return wf_status_out_of_memory();
    WF_TRY(ban(tuner, topic_index, c, row.quarantine));
    if (topic->choices[c].quarantine != NULL)
        keep_rows(tuner, topic->problem, &row, 1);
    return WF_OK;
}

/* Tactics that failed while others did not. When all did, the made-up data is to blame. */
static wf_status_t take_failures(wf_tuner_t *tuner, const plan_t *plan, const wf_measure_result_t *result,
                                 bool *out_anchor_failed)
{
    size_t failed = 0;
    *out_anchor_failed = result->faults[0][0] != '\0';
    for (size_t i = 0; i < plan->count; i++)
        failed += result->faults[i][0] != '\0';
    if (failed == plan->count) {
        tuner->profile.topics.items[plan->topic].dead = true;
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "not measured: %.300s (%.120s)",
                      tuner->profile.topics.items[plan->topic].problem->text, result->faults[0]);
        return WF_OK;
    }
    for (size_t i = 0; i < plan->count; i++) {
        char reason[300];
        if (result->faults[i][0] == '\0')
            continue;
        (void)snprintf(reason, sizeof reason, "fails: %s", result->faults[i]);
        WF_TRY(quarantine(tuner, plan->topic, plan->choices[i], reason));
    }
    return WF_OK;
}

static wf_status_t take_result(wf_tuner_t *tuner, const plan_t *plan, const wf_measure_result_t *result)
{
    wf_timing_t rows[TACTICS_PER_REQUEST + 1];
    bool anchor_failed;
    WF_TRY(take_failures(tuner, plan, result, &anchor_failed));
    wf_topic_t *topic = &tuner->profile.topics.items[plan->topic];
    if (anchor_failed || result->block_count == 0)
        return WF_OK;
    WF_TRY(wf_profile_learn(&tuner->profile, topic, plan->choices, result, &tuner->best_canary_ns, rows));
    size_t kept = 0;
    for (size_t i = 0; i < plan->count; i++) {
        if (rows[i].log_ratio.count == 0)
            continue;
        const wf_topic_choice_t *choice = &topic->choices[plan->choices[i]];
        wf_tuner_tell(tuner, WF_TUNE_TIMING, choice->cost_ns, tuner->profile.measured + tuner->profile.reused,
                      0, "%s %.200s", choice->tactic, topic->problem->text);
        rows[kept++] = rows[i];
    }
    keep_rows(tuner, topic->problem, rows, kept);
    return WF_OK;
}

/* How often a tactic took a process with it in this session, this time included. */
static wf_status_t count_strike(wf_tuner_t *tuner, const char *tactic, uint64_t *out_strikes)
{
    *out_strikes = 0;
    (void)wf_map_get(&tuner->strikes, tactic, strlen(tactic), out_strikes);
    ++*out_strikes;
    return wf_map_set(&tuner->strikes, tactic, strlen(tactic), *out_strikes);
}

/* A tactic that took several processes with it is not tried on further problems; each try may cost seconds.
 * For this session only: on those problems nothing was seen. */
static wf_status_t distrust(wf_tuner_t *tuner, const char *tactic)
{
    wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "%s is not tried on other problems in this tuning", tactic);
    for (size_t t = 0; t < tuner->profile.topics.count; t++) {
        wf_topic_t *topic = &tuner->profile.topics.items[t];
        size_t c = wf_topic_find(topic, tactic);
        if (c < topic->choice_count && !wf_topic_knows(topic, &topic->choices[c]) &&
            topic->choices[c].quarantine == NULL)
            WF_TRY(ban(tuner, t, c, "it misbehaved on other problems"));
    }
    return WF_OK;
}

/* The worker is gone: the tactic that ran is to blame, if one did. */
static wf_status_t take_fault(wf_tuner_t *tuner, const plan_t *plan, const wf_fault_t *fault)
{
    if (fault->item < plan->count) {
        const char *tactic =
            tuner->profile.topics.items[plan->topic].choices[plan->choices[fault->item]].tactic;
        uint64_t strikes;
        tuner->idle_deaths = 0;
        WF_TRY(quarantine(tuner, plan->topic, plan->choices[fault->item], fault->text));
        WF_TRY(count_strike(tuner, tactic, &strikes));
        return strikes == STRIKES_MAX ? distrust(tuner, tactic) : WF_OK;
    }
    wf_tuner_tell(tuner, WF_TUNE_FAULT, 0, 0, 0, "the measuring worker %s", fault->text);
    if (++tuner->idle_deaths >= IDLE_DEATHS_MAX)
        return WF_ERROR(INTERNAL, "the measuring worker dies without work: it %s", fault->text);
    return WF_OK;
}

static wf_status_t measure(wf_tuner_t *tuner, const plan_t *plan, double until_s, bool *out_time_over)
{
    const wf_topic_t *topic = &tuner->profile.topics.items[plan->topic];
    const char *tactics[TACTICS_PER_REQUEST + 1];
    double slowest_ns = 0;
    wf_tensor_t *constants = NULL;
    for (size_t i = 0; i < plan->count; i++) {
        tactics[i] = topic->choices[plan->choices[i]].tactic;
        slowest_ns = fmax(slowest_ns, topic->choices[plan->choices[i]].estimate_ns);
    }
    WF_TRY(find_constants(tuner, topic, &constants));
    wf_measure_request_t request = {
        .problem = topic->problem,
        .tactics = tactics,
        .tactic_count = plan->count,
        .constants = constants,
        .block_count = plan->blocks,
        .batch_ns = BATCH_NS,
        .memory_bytes = (size_t)fmin(MEMORY_BYTES, MEMORY_SHARE * wf_tuner_free_bytes()),
        .seed = tuner->options->seed + tuner->request_count++,
        .deadline_ns = wf_tuner_deadline_ns(tuner, until_s - wf_tuner_elapsed_s(tuner))};
    wf_measure_result_t result;
    wf_fault_t fault;
    wf_worker_allow_s(tuner->worker, fmax(tuner->hang_s, 30e-9 * slowest_ns));
    wf_status_t status = wf_worker_measure(tuner->worker, &request, &result, &fault);
    wf_free(tuner->allocator, constants, topic->problem->operand_count, sizeof *constants);
    if (wf_status_code(status) == WF_CODE_TIME_OUT) {
        wf_status_free(status);
        *out_time_over = true;
        return WF_OK;
    }
    if (status != WF_OK)
        return status;
    if (fault.kind != WF_FAULT_NONE)
        return take_fault(tuner, plan, &fault);
    bool failed = false;
    for (size_t i = 0; i < plan->count; i++)
        failed |= result.faults[i][0] != '\0';
    *out_time_over = result.block_count == 0 && !failed;
    status = take_result(tuner, plan, &result);
    wf_measure_result_deinit(&result);
    return status;
}

/* ---- The loop ---- */

static wf_status_t appraise(wf_tuner_t *tuner, double *out_seconds)
{
    double start_s = wf_tuner_elapsed_s(tuner);
    WF_TRY(wf_profile_appraise(&tuner->profile, tuner->job));
    WF_TRY(wf_profile_sync(&tuner->profile, tuner->job, tuner->database));
    *out_seconds = wf_tuner_elapsed_s(tuner) - start_s;
    wf_gain_point_t point = {wf_tuner_elapsed_s(tuner), tuner->profile.route_ns};
    return wf_vec_push(tuner->allocator, &tuner->gains, &point);
}

/* What another minute is expected to save, as a share of the route: the requests with most worth a second
 * that fit. */
static double expect_gain(const wf_profile_t *profile)
{
    double seconds = 0, worth_ns = 0, best_rate = (double)INFINITY;
    while (seconds < 60) {
        plan_t best = {0};
        double rate = 0;
        for (size_t t = 0; t < profile->topics.count; t++) {
            plan_t plan = plan_topic(&profile->topics.items[t], t);
            double its = plan.seconds > 0 ? plan.worth_ns / plan.seconds : 0;
            if (its < best_rate && its > rate && plan.worth_ns >= WORTH_SHARE * profile->route_ns) {
                rate = its;
                best = plan;
            }
        }
        if (rate == 0)
            break;
        best_rate = rate;
        seconds += best.seconds;
        double most_ns = 0; /* of the tactics of a problem one is used: their gains do not add up */
        for (size_t i = 0; i < best.count; i++)
            most_ns = fmax(most_ns, profile->topics.items[best.topic].choices[best.choices[i]].worth_ns);
        worth_ns += most_ns;
    }
    return profile->route_ns > 0 ? fmin(worth_ns / profile->route_ns, 1) : 0;
}

/* What is measured is not worth measuring again until the next appraisal. */
static void forget_worth(wf_tuner_t *tuner, const plan_t *plan)
{
    wf_topic_t *topic = &tuner->profile.topics.items[plan->topic];
    for (size_t i = 0; i < plan->count; i++)
        topic->choices[plan->choices[i]].worth_ns = 0;
}

wf_status_t wf_stage_profile(wf_tuner_t *tuner)
{
    wf_tuner_stage(tuner, "profile");
    double appraise_s, measured_s = 0;
    WF_TRY(appraise(tuner, &appraise_s));
    WF_TRY(appraise(tuner, &appraise_s)); /* conversions are known now */
    double room_s = wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner);
    double until_s = wf_tuner_elapsed_s(tuner) + PROFILE_SHARE * room_s;
    bool fresh = true, time_over = false;
    while (!tuner->stop_asked && !time_over && wf_tuner_elapsed_s(tuner) < until_s) {
        plan_t plan;
        bool found = plan_next(&tuner->profile, &plan);
        if (!found && fresh) {
            tuner->converged = true;
            break;
        }
        if (!found || APPRAISE_SHARE * measured_s > appraise_s) {
            WF_TRY(appraise(tuner, &appraise_s));
            measured_s = 0;
            fresh = true;
            continue;
        }
        double start_s = wf_tuner_elapsed_s(tuner);
        WF_TRY(measure(tuner, &plan, until_s, &time_over));
        forget_worth(tuner, &plan);
        measured_s += wf_tuner_elapsed_s(tuner) - start_s;
        fresh = false;
    }
    tuner->next_gain = tuner->converged ? 0 : expect_gain(&tuner->profile);
    wf_profile_apply(&tuner->profile, tuner->job, false);
    tuner->result->timings_measured = tuner->profile.measured;
    tuner->result->timings_reused = tuner->profile.reused;
    return WF_OK;
}

wf_status_t wf_stage_cached(wf_tuner_t *tuner)
{
    double unused;
    plan_t plan;
    wf_tuner_stage(tuner, "profile");
    WF_TRY(appraise(tuner, &unused));
    WF_TRY(appraise(tuner, &unused));
    static const char hint[] = "tune without --require-cached, or give the database of this machine";
    if (!plan_next(&tuner->profile, &plan)) {
        return wf_status_hinted(WF_ERROR(CACHE_MISS,
                                         "every time is in the timing database, but no comparison of whole "
                                         "engines from the default plan %s",
                                         tuner->base),
                                "%s", hint);
    }
    const wf_topic_t *topic = &tuner->profile.topics.items[plan.topic];
    size_t c = plan.choices[plan.count > 1 ? 1 : 0];
    const wf_topic_choice_t *choice = &topic->choices[c];
    return wf_status_hinted(WF_ERROR(CACHE_MISS, "the timing database has no time of %s for %s%s%s",
                                     choice->tactic, topic->problem->text,
                                     choice->miss != WF_MISS_NONE ? ": " : "", wf_miss_text(choice->miss)),
                            "%s", hint);
}
