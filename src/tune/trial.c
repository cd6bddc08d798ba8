/* SPDX-License-Identifier: Apache-2.0 */
/* Trials: routes measured as whole engines without building them.
 *
 * The worker has the constants once and keeps prepared kernels. The engine of a trial is steps and bindings;
 * it is lowered here, linked there and run beside others within milliseconds.
 */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "runtime/image.h"
#include "tune/tuner_internal.h"

/* Slots of finalists come before. */
#define BASE_SLOT 16u
#define FIRST_SLOT 17u
/* Arenas of trials that are loaded together; constants, and packed constants that are kept: shares of what is
 * free. */
#define ARENAS_SHARE 0.2
#define STORE_SHARE 0.15
#define KERNELS_SHARE 0.25
#define ENGINE_ALIGNMENT 64u
#define PER_TRIAL_S 2e-3
/* Runs longer than this are not repeated thrice in a trial. */
#define LONG_RUN_NS 4e6

_Static_assert(FIRST_SLOT + WF_SEARCH_BLOCK_MAX <= WF_WORKER_SLOTS, "a block has a slot for each trial");
_Static_assert(WF_TUNE_FINALISTS_MAX <= BASE_SLOT, "finalists and trials have slots of their own");

static void copy_store(const void *arg, uint8_t *target)
{
    wf_constant_store_copy(arg, target);
}

/* The worker that runs has the constants; else they are sent. */
static wf_status_t send_store(wf_tuner_t *tuner)
{
    wf_trials_t *trials = &tuner->trials;
    wf_fault_t fault;
    WF_TRY(wf_worker_start(tuner->worker));
    if (trials->generation == wf_worker_generation(tuner->worker))
        return WF_OK;
    trials->base_linked = false;
    double free_bytes = wf_tuner_free_bytes();
    trials->refused = (double)trials->store.bytes > STORE_SHARE * free_bytes;
    if (trials->refused)
        return WF_OK;
    size_t limit_bytes = (size_t)(KERNELS_SHARE * free_bytes);
    WF_TRY(wf_worker_store(tuner->worker, (size_t)trials->store.bytes, limit_bytes, copy_store,
                           &trials->store, &fault));
    trials->refused = fault.kind != WF_FAULT_NONE;
    trials->generation = wf_worker_generation(tuner->worker);
    return WF_OK;
}

/* Lowers a route and links it. *out_linked false: it cannot be, or it took the worker with it. */
static wf_status_t link_route(wf_tuner_t *tuner, uint32_t slot, const wf_route_t *routes,
                              const wf_knobs_t *knobs, bool *out_linked)
{
    uint8_t *engine = NULL;
    size_t bytes = 0;
    wf_fault_t fault;
    *out_linked = false;
    WF_TRY(wf_job_link(tuner->job, routes, knobs, &tuner->trials.store, &engine, &bytes));
    if (slot == BASE_SLOT) {
        wf_image_t image;
        static const uint8_t nothing[64];
        wf_status_t opened =
            wf_image_open_linked(engine, bytes, nothing, (size_t)tuner->trials.store.bytes, &image);
        tuner->trials.arena_bytes = 0;
        for (size_t i = 0; opened == WF_OK && i < image.spec_count; i++)
            tuner->trials.arena_bytes += image.specs[i].arena_bytes;
        wf_status_free(opened);
    }
    wf_status_t status =
        wf_worker_link(tuner->worker, slot, engine, bytes, tuner->options->seed,
                       4 * ((size_t)tuner->trials.store.bytes + (size_t)tuner->trials.arena_bytes), &fault);
    wf_free_aligned(tuner->allocator, engine, bytes, 1, ENGINE_ALIGNMENT);
    wf_code_t code = wf_status_code(status);
    if (code == WF_CODE_INTERRUPTED || code == WF_CODE_TIME_OUT)
        return status;
    if (status != WF_OK || fault.kind != WF_FAULT_NONE) {
        wf_tuner_route_fault(tuner, "trial", status != WF_OK ? wf_status_message(status) : fault.text);
        wf_status_free(status);
        return WF_OK;
    }
    *out_linked = true;
    return WF_OK;
}

static wf_status_t link_base(wf_tuner_t *tuner, bool *out_ready)
{
    wf_trials_t *trials = &tuner->trials;
    WF_TRY(send_store(tuner));
    if (!trials->refused && !trials->base_linked)
        WF_TRY(link_route(tuner, BASE_SLOT, trials->base.routes, trials->base.knobs, &trials->base_linked));
    *out_ready = !trials->refused && trials->base_linked;
    return WF_OK;
}

wf_status_t wf_trials_begin(wf_tuner_t *tuner, const wf_base_route_t *base, bool *out_ready)
{
    wf_trials_t *trials = &tuner->trials;
    trials->base = *base;
    trials->base_linked = false;
    *out_ready = false;
    if (!trials->store_made)
        WF_TRY(wf_job_store(tuner->job, &trials->store));
    trials->store_made = true;
    wf_worker_allow_s(tuner->worker, fmax(tuner->hang_s, 50e-9 * tuner->default_ns));
    WF_TRY(link_base(tuner, out_ready));
    if (!*out_ready)
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "routes are not tried inside the model: %s",
                      trials->refused ? "there is no memory for a second copy of its constants"
                                      : "the engine cannot be linked");
    return WF_OK;
}

void wf_trials_end(wf_tuner_t *tuner)
{
    for (uint32_t s = BASE_SLOT; tuner->worker != NULL && s < FIRST_SLOT + WF_SEARCH_BLOCK_MAX; s++)
        wf_status_ignore(wf_worker_unload(tuner->worker, s));
    tuner->trials.base_linked = false;
}

double wf_trials_each_s(const wf_tuner_t *tuner)
{
    const wf_trials_t *trials = &tuner->trials;
    if (trials->linked >= 8)
        return trials->seconds / (double)trials->linked;
    return wf_tuner_sample_s(tuner) + PER_TRIAL_S;
}

/* How many are loaded at a time: even, so that pairs stay together. */
static size_t loaded_together(const wf_tuner_t *tuner)
{
    double room = ARENAS_SHARE * wf_tuner_free_bytes();
    double count = room / (double)WF_MAX(tuner->trials.arena_bytes, (uint64_t)1) - 1;
    size_t even = (size_t)fmin(fmax(count, 2), WF_SEARCH_BLOCK_MAX) / 2 * 2;
    return WF_MAX(even, (size_t)2);
}

static wf_status_t race_linked(wf_tuner_t *tuner, wf_race_message_t *message, double *out_ns, bool *out_over)
{
    wf_measure_result_t result;
    wf_fault_t fault;
    for (size_t i = 0; i < message->slot_count; i++)
        out_ns[i] = NAN;
    wf_status_t status = wf_worker_race(tuner->worker, message, &result, &fault);
    if (wf_status_code(status) == WF_CODE_TIME_OUT) {
        wf_status_free(status);
        *out_over = true;
        return WF_OK;
    }
    WF_TRY(status);
    if (fault.kind != WF_FAULT_NONE) {
        wf_tuner_route_fault(tuner, "trial", fault.text);
        return WF_OK;
    }
    *out_over = *out_over || result.block_count == 0;
    for (size_t i = 0; result.block_count > 0 && i < message->slot_count; i++)
        out_ns[i] = result.times_ns[i];
    wf_measure_result_deinit(&result);
    return WF_OK;
}

/* Up to WF_SEARCH_BLOCK_MAX routes, loaded together. */
static wf_status_t run_block(wf_tuner_t *tuner, wf_route_t *const *routes, const wf_knobs_t *knobs,
                             size_t count, double until_s, double *out_ns, double *out_base_ns,
                             bool *out_over)
{
    bool ready, linked[WF_SEARCH_BLOCK_MAX] = {false};
    double ns[WF_SEARCH_BLOCK_MAX + 1];
    size_t linked_count = 0;
    WF_TRY(link_base(tuner, &ready));
    *out_over = *out_over || !ready;
    uint64_t generation = wf_worker_generation(tuner->worker);
    for (size_t i = 0; ready && i < count; i++) {
        if (routes[i] != NULL)
            WF_TRY(link_route(tuner, FIRST_SLOT + (uint32_t)i, routes[i], &knobs[i], &linked[i]));
        if (wf_worker_generation(tuner->worker) != generation || tuner->stop_asked)
            return WF_OK; /* it took the others with it: nothing of this block is measured */
    }
    wf_race_message_t message = wf_tuner_race_message(tuner, until_s);
    message.block_count = 1;
    /* Many trials tell more than long ones: what they have in common is averaged over all of them. */
    if (tuner->default_ns > LONG_RUN_NS)
        message.runs_min = WF_MIN(message.runs_min, (size_t)2);
    for (uint32_t i = 0; i < count; i++) {
        if (linked[i])
            message.slots[message.slot_count++] = FIRST_SLOT + i;
    }
    linked_count = message.slot_count;
    if (!ready || linked_count == 0)
        return WF_OK;
    if (out_base_ns != NULL)
        message.slots[message.slot_count++] = BASE_SLOT;
    WF_TRY(race_linked(tuner, &message, ns, out_over));
    for (size_t i = 0, at = 0; i < count; i++) {
        if (linked[i])
            out_ns[i] = ns[at++];
    }
    if (out_base_ns != NULL)
        *out_base_ns = ns[linked_count];
    tuner->trials.linked += linked_count;
    return WF_OK;
}

wf_status_t wf_trials_block(wf_tuner_t *tuner, wf_route_t *const *routes, const wf_knobs_t *knobs,
                            size_t count, double until_s, double *out_ns, double *out_base_ns, bool *out_over)
{
    double start_s = wf_tuner_elapsed_s(tuner);
    assert(count <= WF_SEARCH_BLOCK_MAX);
    for (size_t i = 0; i < count; i++)
        out_ns[i] = NAN;
    if (out_base_ns != NULL)
        *out_base_ns = NAN;
    wf_status_t status = run_block(tuner, routes, knobs, count, until_s, out_ns, out_base_ns, out_over);
    double end_s = wf_tuner_elapsed_s(tuner);
    tuner->trials.seconds += end_s - start_s;
    double room_s = fmin(until_s, tuner->budget_s - wf_tuner_reserve_s(tuner)) - end_s;
    *out_over = *out_over || tuner->stop_asked || room_s < end_s - start_s;
    return status;
}

/* ---- Factors ---- */

static wf_status_t add_factor(wf_tuner_t *tuner, wf_factors_t *factors, uint32_t first, uint32_t end)
{
    uint32_t values = end - first + 1;
    WF_TRY(wf_vec_push(tuner->allocator, &factors->first, &first));
    return wf_vec_push(tuner->allocator, &factors->value_counts, &values);
}

/* Moves of one factor stand beside each other in the order in which they were listed. */
wf_status_t wf_factors_make(wf_tuner_t *tuner, const wf_base_route_t *base, wf_moves_t *moves, bool one,
                            size_t most, wf_factors_t *out_factors)
{
    *out_factors = (wf_factors_t){.base = *base};
    wf_status_t status = WF_OK;
    for (size_t m = 0; status == WF_OK && m < moves->count; m++) {
        bool known = false;
        for (size_t k = 0; k < out_factors->moves.count; k++)
            known |= strcmp(out_factors->moves.items[k].factor, moves->items[m].factor) == 0;
        if (known || out_factors->value_counts.count >= most)
            continue;
        uint32_t first = (uint32_t)out_factors->moves.count;
        for (size_t k = m; status == WF_OK && k < moves->count; k++) {
            if (strcmp(moves->items[k].factor, moves->items[m].factor) == 0 && (k == m || !one))
                status = wf_vec_push(tuner->allocator, &out_factors->moves, &moves->items[k]);
        }
        if (status == WF_OK)
            status = add_factor(tuner, out_factors, first, (uint32_t)out_factors->moves.count);
    }
    wf_vec_deinit(tuner->allocator, moves);
    *moves = (wf_moves_t){0};
    return status;
}

void wf_factors_deinit(wf_tuner_t *tuner, wf_factors_t *factors)
{
    wf_vec_deinit(tuner->allocator, &factors->moves);
    wf_vec_deinit(tuner->allocator, &factors->first);
    wf_vec_deinit(tuner->allocator, &factors->value_counts);
}

wf_status_t wf_factors_apply(wf_tuner_t *tuner, const wf_factors_t *factors, const uint8_t *assignment,
                             wf_route_t **out_routes, wf_knobs_t *out_knobs)
{
    const wf_move_t **moves = NULL;
    bool *on = NULL;
    size_t count = 0, factor_count = factors->value_counts.count;
    WF_TRY(wf_alloc(tuner->allocator, factor_count, sizeof *moves, &moves));
    wf_status_t status = wf_alloc(tuner->allocator, factor_count, sizeof *on, &on);
    for (size_t f = 0; status == WF_OK && f < factor_count; f++) {
        if (assignment[f] == 0)
            continue;
        on[count] = true;
        moves[count++] = &factors->moves.items[factors->first.items[f] + assignment[f] - 1];
    }
    if (status == WF_OK)
        status = wf_moves_apply(&factors->base, tuner->job, moves, on, count, out_routes, out_knobs);
    wf_free(tuner->allocator, on, factor_count, sizeof *on);
    wf_free(tuner->allocator, (void *)moves, factor_count, sizeof *moves);
    return status;
}

/* What a strategy varies, once; then a line per block with an assignment as a text of digits (z: above 34).
 */
static void record_factors(wf_tuner_t *tuner)
{
    const wf_factors_t *factors = tuner->factors;
    json_t *list = json_array();
    for (size_t f = 0; f < factors->value_counts.count; f++) {
        json_t *values = json_array();
        for (uint32_t v = 1; v < factors->value_counts.items[f]; v++)
            (void)json_array_append_new(
                values, json_string(factors->moves.items[factors->first.items[f] + v - 1].name));
        (void)json_array_append_new(list, values);
    }
    wf_tuner_record(tuner,
                    json_pack("{s:s s:s s:o}", "type", "factors", "stage", tuner->stage, "values", list));
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static void record_block(wf_tuner_t *tuner, const uint8_t *const *assignments, size_t count, const double *ns,
                         const double *logs, bool with_default)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    wf_factors_t *factors = tuner->factors;
    json_t *trials = json_array();
    for (size_t i = 0; i < count; i++) {
        char text[256];
        size_t length = WF_MIN(factors->value_counts.count, sizeof text - 1);
        for (size_t f = 0; f < length; f++)
            text[f] = digits[WF_MIN((size_t)assignments[i][f], sizeof digits - 2)];
        text[length] = '\0';
        (void)json_array_append_new(
            trials, json_pack("{s:I s:s s:b s:o s:o}", "iter", (json_int_t)factors->shown++, "build_route",
                              text, "crash", !isfinite(ns[i]), "gpu_time", number(1e-6 * ns[i]), "ratio",
                              number(with_default ? exp(logs[i]) : (double)NAN)));
    }
    wf_tuner_record(tuner, json_pack("{s:s s:o}", "type", "trials", "trials", trials));
}

wf_status_t wf_factors_measure(void *self, const uint8_t *const *assignments, size_t count, bool with_default,
                               double *out_logs, bool *out_over)
{
    wf_tuner_t *tuner = self;
    wf_route_t *routes[WF_SEARCH_BLOCK_MAX] = {NULL};
    wf_knobs_t knobs[WF_SEARCH_BLOCK_MAX];
    double ns[WF_SEARCH_BLOCK_MAX];
    size_t together = loaded_together(tuner);
    wf_status_t status = WF_OK;
    for (size_t at = 0; status == WF_OK && at < count && !*out_over; at += together) {
        size_t some = WF_MIN(together, count - at);
        double base_ns = 1;
        for (size_t i = 0; status == WF_OK && i < some; i++) {
            status = wf_factors_apply(tuner, tuner->factors, assignments[at + i], &routes[i], &knobs[i]);
            if (status == WF_OK && !isfinite(routes[i][0].cost_ns)) {
                wf_job_routes_free(tuner->job, routes[i]);
                routes[i] = NULL;
            }
        }
        if (status == WF_OK)
            status = wf_trials_block(tuner, routes, knobs, some, tuner->factors->until_s, ns,
                                     with_default ? &base_ns : NULL, out_over);
        for (size_t i = 0; i < some && status == WF_OK; i++)
            out_logs[at + i] = log(ns[i] / base_ns);
        if (status == WF_OK && tuner->factors->shown == 0)
            record_factors(tuner);
        if (status == WF_OK)
            record_block(tuner, assignments + at, some, ns, out_logs + at, with_default);
        for (size_t i = 0; i < some; i++) {
            wf_job_routes_free(tuner->job, routes[i]);
            routes[i] = NULL;
        }
    }
    wf_tuner_tell(tuner, WF_TUNE_TICK, 0, tuner->trials.linked, 0, "%s", tuner->stage);
    return status;
}
