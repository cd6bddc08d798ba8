/* SPDX-License-Identifier: Apache-2.0 */
/* Stage "settings": what cannot be changed on a route, because tactics, graph or memory depend on it.
 * Threads, when the user left them open, and knobs of the graph and the space that the user gave several
 * values. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "route/knob_values.h"
#include "tune/lock.h"
#include "tune/tuner_internal.h"

#define SETTINGS_SHARE 0.15
#define VARIANTS_MAX 15u
#define CHOICES_MAX 16u
/* Fewer threads can only win where regions are short: 1.1 us each, and waiting for the slowest. */
#define SHORT_NS 5e6
#define FIRST_BLOCKS 12u
#define ALPHA 0.05
#define WINSOR_LIMIT 3.0
#define CHUNK_BLOCKS 12u

typedef struct variant {
    wf_setting_t settings[CHOICES_MAX]; /* beside the user's single ones */
    size_t setting_count;
    uint32_t thread_count;
    wf_job_t *job;
    wf_candidate_t candidate;
} variant_t;

typedef struct settings {
    wf_tuner_t *tuner;
    wf_knob_values_t open[CHOICES_MAX]; /* that have several values */
    size_t open_count;
    variant_t variants[VARIANTS_MAX];
    size_t variant_count;
} settings_t;

/* ---- What there is to try ---- */

static bool needs_job(const wf_knob_values_t *values)
{
    if (values->knob == WF_KNOB_THREADS)
        return true;
    wf_knob_scope_t scope = wf_knob_facts(values->knob).scope;
    return scope == WF_KNOB_GRAPH || scope == WF_KNOB_SPACE;
}

static uint32_t present_value(const wf_job_t *job, const wf_knob_values_t *values)
{
    return values->knob == WF_KNOB_THREADS ? job->cpu.thread_count : wf_knob_get(&job->knobs, values->knob);
}

static void list_open(settings_t *s)
{
    const wf_build_options_t *build = &s->tuner->options->build;
    bool threads_given = build->thread_count != 0;
    for (size_t i = 0; i < build->setting_count && s->open_count < CHOICES_MAX; i++) {
        wf_knob_values_t values;
        wf_status_t status = wf_knob_values_parse(build->settings[i].name, build->settings[i].value, &values);
        if (status == WF_OK && values.knob == WF_KNOB_THREADS)
            threads_given = true;
        if (status == WF_OK && values.count > 1 && needs_job(&values))
            s->open[s->open_count++] = values;
        wf_status_ignore(status);
    }
    uint32_t threads = s->tuner->home->cpu.thread_count;
    wf_knob_values_t fewer = {.knob = WF_KNOB_THREADS};
    fewer.values[fewer.count++] = threads;
    if (threads >= 4)
        fewer.values[fewer.count++] = threads / 2;
    if (threads >= 2 && s->tuner->default_ns < SHORT_NS)
        fewer.values[fewer.count++] = 1;
    if (!threads_given && fewer.count > 1 && s->open_count < CHOICES_MAX)
        s->open[s->open_count++] = fewer;
}

/* One variant with value `index` of every open setting. */
static wf_status_t add_variant(settings_t *s, const size_t *index)
{
    variant_t *v = &s->variants[s->variant_count];
    const wf_job_t *home = s->tuner->home;
    bool differs = false;
    *v = (variant_t){.thread_count = home->cpu.thread_count};
    wf_text_t name;
    wf_text_init(&name, s->tuner->allocator, 4096);
    for (size_t o = 0; o < s->open_count; o++) {
        const wf_knob_values_t *values = &s->open[o];
        uint32_t value = values->values[index[o]];
        bool threads = values->knob == WF_KNOB_THREADS;
        const char *knob = threads ? WF_KNOB_THREADS_NAME : wf_knob_facts(values->knob).name;
        differs |= value != present_value(home, values);
        if (threads)
            v->thread_count = value;
        else
            v->settings[v->setting_count++] = (wf_setting_t){knob, value != 0 ? "on" : "off"};
        if (threads)
            wf_text_printf(&name, "%s%s=%u", name.length > 0 ? " " : "", knob, value);
        else
            wf_text_printf(&name, "%s%s=%s", name.length > 0 ? " " : "", knob, value != 0 ? "on" : "off");
    }
    const char *kept = NULL;
    wf_status_t status = wf_text_take_status(&name);
    if (status == WF_OK)
        status = wf_arena_text(&s->tuner->arena, wf_text_cstr(&name), name.length, &kept);
    wf_text_deinit(&name);
    WF_TRY(status);
    wf_candidate_init(&v->candidate, kept, s->tuner->allocator);
    s->variant_count += differs;
    return WF_OK;
}

/* The product when it is small, else one setting at a time. */
static wf_status_t list_variants(settings_t *s)
{
    size_t product = 1, index[CHOICES_MAX] = {0}, standard[CHOICES_MAX] = {0};
    for (size_t o = 0; o < s->open_count; o++) {
        product *= product <= VARIANTS_MAX ? s->open[o].count : 1;
        for (size_t i = 0; i < s->open[o].count; i++) {
            if (s->open[o].values[i] == present_value(s->tuner->home, &s->open[o]))
                standard[o] = i;
        }
    }
    if (product <= VARIANTS_MAX + 1) {
        for (size_t n = 0; n < product && s->variant_count < VARIANTS_MAX; n++) {
            size_t rest = n;
            for (size_t o = s->open_count; o-- > 0; rest /= s->open[o].count)
                index[o] = rest % s->open[o].count;
            WF_TRY(add_variant(s, index));
        }
        return WF_OK;
    }
    for (size_t o = 0; o < s->open_count; o++) {
        memcpy(index, standard, sizeof index);
        for (index[o] = 0; index[o] < s->open[o].count && s->variant_count < VARIANTS_MAX; index[o]++) {
            if (index[o] != standard[o])
                WF_TRY(add_variant(s, index));
        }
    }
    return WF_OK;
}

/* ---- Making one ---- */

/* The user's settings with one value, and the variant's. */
static wf_status_t make_job(settings_t *s, variant_t *v)
{
    const wf_build_options_t *build = &s->tuner->options->build;
    wf_build_options_t options = *build;
    wf_setting_t *all = NULL;
    size_t count = 0, capacity = build->setting_count + v->setting_count;
    WF_TRY(wf_arena_alloc(&s->tuner->arena, capacity, sizeof *all, &all));
    for (size_t i = 0; i < build->setting_count; i++) {
        wf_knob_values_t values;
        WF_TRY(wf_knob_values_parse(build->settings[i].name, build->settings[i].value, &values));
        if (values.knob != WF_KNOB_THREADS && (values.count == 1 || !needs_job(&values)))
            all[count++] = build->settings[i];
    }
    for (size_t i = 0; i < v->setting_count; i++)
        all[count++] = v->settings[i];
    options.settings = all;
    options.setting_count = count;
    options.thread_count = v->thread_count;
    return s->tuner->home->maker->make(s->tuner->home->maker->self, &options, &v->job);
}

/* Its default engine, without tactics that were put aside, checked and loaded. */
static wf_status_t prepare_variant(settings_t *s, variant_t *v, uint32_t slot, bool *out_ready)
{
    wf_tuner_t *tuner = s->tuner;
    wf_profile_t profile;
    wf_route_t *routes = NULL;
    wf_fault_t fault = {0};
    *out_ready = false;
    WF_TRY(make_job(s, v));
    wf_profile_init(&profile, tuner->allocator);
    wf_status_t status = wf_profile_sync(&profile, v->job, tuner->database);
    if (status == WF_OK)
        wf_profile_apply(&profile, v->job, true);
    wf_profile_deinit(&profile);
    if (status == WF_OK)
        status = wf_job_solve(v->job, &routes);
    if (status == WF_OK)
        status = wf_candidate_set(&v->candidate, v->job, routes, NULL);
    if (status == WF_OK)
        status = wf_candidate_make(&v->candidate, v->job, "");
    if (status == WF_OK) {
        status = wf_job_check(tuner->home, v->candidate.engine, v->candidate.engine_bytes,
                              tuner->options->build.check_seed, NULL);
    }
    if (status == WF_OK) {
        status = wf_worker_load(tuner->worker, slot, v->candidate.engine, v->candidate.engine_bytes,
                                tuner->options->seed, &fault);
    }
    *out_ready = status == WF_OK && fault.kind == WF_FAULT_NONE;
    return status;
}

/* ---- Racing ---- */

static wf_status_t race_variants(settings_t *s, double until_s, size_t *out_best)
{
    wf_tuner_t *tuner = s->tuner;
    wf_race_options_t options = {wf_tuner_delta(tuner), ALPHA, FIRST_BLOCKS, WINSOR_LIMIT};
    wf_race_t race;
    wf_status_t status = WF_OK;
    bool over = false;
    wf_race_init(&race, tuner->allocator, &options, s->variant_count + 1);
    while (status == WF_OK && !over && !wf_race_decided(&race) && !tuner->stop_asked &&
           wf_tuner_elapsed_s(tuner) < until_s) {
        wf_race_message_t message = wf_tuner_race_message(tuner, until_s);
        wf_measure_result_t result;
        wf_fault_t fault;
        for (uint32_t a = 0; a < race.arm_count; a++) {
            if (race.alive[a])
                message.slots[message.slot_count++] = a;
        }
        message.block_count = CHUNK_BLOCKS;
        status = wf_worker_race(tuner->worker, &message, &result, &fault);
        if (status != WF_OK || fault.kind != WF_FAULT_NONE)
            break; /* the default stays */
        over = result.block_count < message.block_count;
        for (size_t b = 0; status == WF_OK && b < result.block_count && !wf_race_decided(&race); b++) {
            double logs[WF_RACE_ARMS_MAX];
            for (size_t a = 0; a < race.arm_count; a++)
                logs[a] = NAN;
            for (size_t i = 0; i < message.slot_count; i++)
                logs[message.slots[i]] = log(result.times_ns[b * message.slot_count + i]);
            status = wf_race_add(&race, logs);
        }
        wf_measure_result_deinit(&result);
    }
    if (wf_status_code(status) == WF_CODE_TIME_OUT) {
        wf_status_free(status);
        status = WF_OK;
    }
    *out_best = 0;
    if (status == WF_OK && race.block_count >= FIRST_BLOCKS)
        status = wf_race_best(&race, out_best);
    if (*out_best >= race.arm_count)
        *out_best = 0;
    wf_race_deinit(&race);
    return status;
}

/* What is searched from now on. */
static wf_status_t take_variant(wf_tuner_t *tuner, variant_t *v)
{
    const char *name = v->candidate.name;
    wf_candidate_drop_engine(&v->candidate);
    tuner->variant = v->job;
    tuner->job = v->job;
    tuner->start = v->candidate;
    v->job = NULL;
    wf_candidate_init(&v->candidate, "", tuner->allocator);
    wf_tuner_tell(tuner, WF_TUNE_TRIAL, 0, 0, 0, "settings: %s", name);
    wf_tuner_record(tuner, json_pack("{s:s s:s}", "type", "settings", "chosen", name));
    return wf_tuner_reopen(tuner);
}

static wf_status_t run(settings_t *s)
{
    wf_tuner_t *tuner = s->tuner;
    double room_s = wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner);
    double start_s = wf_tuner_elapsed_s(tuner), until_s = start_s + SETTINGS_SHARE * room_s;
    double each_s = 2 * tuner->make_s + 4 * tuner->check_s + 0.02;
    size_t ready_count = 0, best;
    wf_fault_t fault;
    list_open(s);
    if (s->open_count == 0)
        return WF_OK;
    WF_TRY(list_variants(s));
    double race_s = FIRST_BLOCKS * 2 * wf_tuner_sample_s(tuner);
    if (s->variant_count == 0 || start_s + each_s + race_s > until_s)
        return WF_OK;
    wf_tuner_stage(tuner, "settings");
    WF_TRY(wf_worker_load(tuner->worker, 0, tuner->fallback.engine, tuner->fallback.engine_bytes,
                          tuner->options->seed, &fault));
    for (size_t v = 0; fault.kind == WF_FAULT_NONE && v < s->variant_count; v++) {
        bool ready;
        if (tuner->stop_asked || wf_tuner_elapsed_s(tuner) + each_s + race_s > until_s)
            break;
        wf_status_t status = prepare_variant(s, &s->variants[v], (uint32_t)v + 1, &ready);
        if (wf_status_code(status) == WF_CODE_OUT_OF_MEMORY || wf_status_code(status) == WF_CODE_INTERRUPTED)
            return status;
        if (!ready) {
            wf_tuner_route_fault(tuner, s->variants[v].candidate.name,
                                 status != WF_OK ? wf_status_message(status) : "it does not run");
            wf_status_free(status);
            break;
        }
        ready_count++;
    }
    for (size_t v = ready_count; v < s->variant_count; v++) {
        wf_job_destroy(s->variants[v].job);
        s->variants[v].job = NULL;
    }
    size_t all = s->variant_count;
    s->variant_count = ready_count;
    wf_status_t status = ready_count > 0 ? race_variants(s, until_s, &best) : WF_OK;
    s->variant_count = all;
    for (uint32_t slot = 0; slot <= ready_count; slot++)
        wf_status_ignore(wf_worker_unload(tuner->worker, slot));
    if (status == WF_OK && ready_count > 0 && best > 0)
        status = take_variant(tuner, &s->variants[best - 1]);
    return status;
}

wf_status_t wf_stage_settings(wf_tuner_t *tuner)
{
    settings_t *s = NULL;
    if (tuner->home->maker == NULL || tuner->stop_asked)
        return WF_OK;
    WF_TRY(wf_arena_alloc(&tuner->arena, 1, sizeof *s, &s));
    s->tuner = tuner;
    wf_status_t status = run(s);
    for (size_t v = 0; v < VARIANTS_MAX; v++) {
        variant_t *variant = &s->variants[v];
        if (variant->candidate.name == NULL)
            continue;
        wf_candidate_deinit(&variant->candidate, tuner->home);
        wf_job_destroy(variant->job);
    }
    return status;
}

/* ---- Locks of other settings ---- */

wf_status_t wf_tuner_job_for_lock(wf_tuner_t *tuner, const char *lock, wf_job_t **out_job)
{
    wf_job_t *home = tuner->home;
    wf_knobs_t knobs = home->knobs;
    uint32_t threads;
    *out_job = home;
    WF_TRY(wf_lock_threads(lock, &threads));
    WF_TRY(wf_job_lock_knobs(lock, &knobs));
    bool same = threads == home->cpu.thread_count;
    for (size_t k = 0; k < wf_knob_count(); k++) {
        wf_knob_values_t values = {.knob = k};
        same = same && (!needs_job(&values) || wf_knob_get(&knobs, k) == wf_knob_get(&home->knobs, k));
    }
    if (same)
        return WF_OK;
    if (home->maker == NULL)
        return WF_ERROR(LOCK_MISMATCH, "the lock is for other settings");
    wf_build_options_t options = tuner->options->build;
    options.settings = NULL;
    options.setting_count = 0;
    options.lock = lock;
    options.thread_count = threads;
    wf_job_destroy(tuner->variant);
    tuner->variant = NULL;
    WF_TRY(home->maker->make(home->maker->self, &options, &tuner->variant));
    *out_job = tuner->variant;
    return WF_OK;
}
