/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/tuner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "device/neighbours.h"
#include "route/knob_values.h"
#include "tune/tuner_internal.h"
#include "wayfinder/version.h"

#define DEFAULT_BUDGET_S 120.0
#define TICK_S 0.1
/* Without a launch ended for this long, and twenty times what was expected, a tactic hangs. */
#define HANG_S 2.0

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
    return 0.1 + 1.5 * seconds +
           (tuner->target_reached || tuner->target_spent ? 0 : wf_tuner_target_s(tuner));
}

uint64_t wf_tuner_deadline_ns(const wf_tuner_t *tuner, double seconds)
{
    double left = fmin(seconds, wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner));
    return wf_clock_ns() + (uint64_t)(1e9 * fmax(left, 0));
}

/* ---- Memory ---- */

double wf_tuner_free_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[256];
    unsigned long long kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    }
    if (file != NULL)
        (void)fclose(file);
    return kib > 0 ? 1024.0 * (double)kib : 4e9;
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
    if (kind == WF_TUNE_NOTE)
        (void)json_array_append_new(tuner->notes, json_string(text));
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

/* ---- What a tuning works with ---- */

/* Rows are worth nothing on other versions of the libraries below the sources. */
static wf_status_t name_device(wf_tuner_t *tuner)
{
    wf_text_t text;
    wf_text_init(&text, tuner->allocator, 65536);
    wf_text_puts(&text, tuner->job->fingerprint);
    for (size_t i = 0; i < wf_backends_count(tuner->job->backends); i++) {
        void *self;
        const wf_source_t *source = wf_backends_source(tuner->job->backends, i, &self);
        const char *version = source->version != NULL ? source->version(self) : "";
        if (version != NULL && version[0] != '\0')
            wf_text_printf(&text, " %s=%s", source->name, version);
    }
    wf_status_t status = wf_text_take_status(&text);
    if (status == WF_OK)
        status = wf_arena_text(&tuner->arena, wf_text_cstr(&text), text.length, &tuner->device);
    wf_text_deinit(&text);
    return status;
}

void wf_tuner_print_search(const wf_tuner_t *tuner, wf_text_t *out)
{
    const wf_tune_options_t *options = tuner->options;
    if (options->strategy != NULL && strcmp(options->strategy, "joint") != 0)
        wf_text_printf(out, "strategy %s\n", options->strategy);
    if (options->target != NULL)
        wf_text_printf(out, "target %s\n", options->target);
    if (options->objective != NULL && strcmp(options->objective, "latency") != 0)
        wf_text_printf(out, "objective %s\n", options->objective);
    if (options->trial_limit != 0)
        wf_text_printf(out, "trials %llu\n", (unsigned long long)options->trial_limit);
}

static wf_status_t open_database(wf_tuner_t *tuner)
{
    wf_database_scope_t scope = {tuner->device, tuner->job->cpu.thread_count, WF_MEASURE_PROTOCOL,
                                 WF_MEASURE_CONTEXT};
    WF_TRY(wf_database_open(tuner->options->timing_cache, &scope, tuner->allocator, &tuner->database));
    (void)snprintf(tuner->database_path, sizeof tuner->database_path, "%s", tuner->database->path);
    if (tuner->database->note[0] != '\0')
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "%s", tuner->database->note);
    return WF_OK;
}

/* The default's lock without its plan, and what else decides what is measured. Not the budget. */
static wf_status_t record_key(wf_tuner_t *tuner, char out_key[33])
{
    wf_text_t text;
    bool plan = false;
    wf_text_init(&text, tuner->allocator, UINT32_MAX);
    for (const char *line = wf_text_cstr(&tuner->fallback.lock); *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (line[0] == '[')
            plan = strncmp(line, "[plan]", 6) == 0;
        if (!plan)
            wf_text_append(&text, line, length + (line[length] == '\n'));
        line += length + (line[length] == '\n');
    }
    wf_text_printf(&text, "device %s\nprotocol %u %s\n", tuner->device, WF_MEASURE_PROTOCOL,
                   WF_MEASURE_CONTEXT);
    wf_tuner_print_search(tuner, &text);
    wf_status_t status = wf_text_take_status(&text);
    if (status == WF_OK)
        wf_hash_text(wf_hash_bytes(text.data, text.length), out_key);
    wf_text_deinit(&text);
    return status;
}

static wf_status_t open_journal(wf_tuner_t *tuner)
{
    char key[33];
    WF_TRY(record_key(tuner, key));
    json_t *header =
        json_pack("{s:s s:s s:s s:s s:i s:I}", "version", WF_VERSION_TEXT, "tuner_version", WF_VERSION_TEXT,
                  "model", tuner->job->model_hash, "device", tuner->device, "threads",
                  (int)tuner->job->cpu.thread_count, "specialisations", (json_int_t)tuner->job->part_count);
    if (header == NULL)
        return wf_status_out_of_memory();
    (void)json_object_set_new(
        header, "searching_algorithm",
        json_string(tuner->options->strategy != NULL ? tuner->options->strategy : "joint"));
    (void)json_object_set_new(header, "default_build_route",
                              json_string(wf_text_cstr(&tuner->fallback.lock)));
    wf_journal_options_t options = {tuner->options->record, key, header, tuner->options->fresh};
    wf_status_t status = wf_journal_open(&options, tuner->allocator, &tuner->journal);
    json_decref(header);
    if (status != WF_OK)
        return status;
    (void)snprintf(tuner->record_path, sizeof tuner->record_path, "%s", tuner->journal->path);
    if (tuner->journal->note[0] != '\0')
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "%s", tuner->journal->note);
    return WF_OK;
}

/* One row of a record's timing line; false when it cannot be. */
static bool read_row(const json_t *json, wf_timing_t *out_row)
{
    const char *tactic, *anchor, *reason;
    json_int_t count;
    int clean;
    wf_welford_t *ratio = &out_row->log_ratio;
    *out_row = (wf_timing_t){0};
    if (json_unpack((json_t *)(uintptr_t)json, "{s:s s:s s:I s:F s:F s:F s:F s:F s:b s:s}", "tactic", &tactic,
                    "anchor", &anchor, "count", &count, "mean", &ratio->mean, "m2", &ratio->m2, "anchor_ns",
                    &out_row->anchor_ns, "min_ns", &out_row->min_ns, "canary_ns", &out_row->canary_ns,
                    "clean", &clean, "quarantine", &reason) != 0 ||
        count < 0) {
        return false;
    }
    ratio->count = (uint64_t)count;
    out_row->clean = clean != 0;
    (void)snprintf(out_row->tactic, sizeof out_row->tactic, "%s", tactic);
    (void)snprintf(out_row->anchor, sizeof out_row->anchor, "%s", anchor);
    (void)snprintf(out_row->quarantine, sizeof out_row->quarantine, "%s", reason);
    return wf_timing_possible(out_row);
}

/* The record has what the database may not have: it was another one, or could not be written. */
static wf_status_t import_line(wf_tuner_t *tuner, const json_t *line)
{
    const char *text = json_string_value(json_object_get(line, "problem"));
    const json_t *rows = json_object_get(line, "rows"), *row;
    wf_arena_t arena;
    const wf_problem_t *problem;
    size_t index;
    const json_t *threads = json_object_get(line, "threads");
    if (text == NULL || tuner->database == NULL ||
        (threads != NULL && json_integer_value(threads) != (json_int_t)tuner->job->cpu.thread_count))
        return WF_OK;
    wf_arena_init(&arena, tuner->allocator);
    wf_status_t status = wf_problem_parse(text, strlen(text), &arena, &problem);
    if (status != WF_OK) {
        wf_status_free(status);
        status = WF_OK;
    } else {
        json_array_foreach(rows, index, row)
        {
            wf_timing_t timing;
            if (status == WF_OK && read_row(row, &timing))
                status = wf_database_record(tuner->database, problem, &timing, 1, true);
        }
    }
    wf_arena_deinit(&arena);
    return status;
}

static wf_status_t resume(wf_tuner_t *tuner)
{
    size_t index;
    const json_t *line;
    if (!tuner->journal->resumed)
        return WF_OK;
    wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "going on with the unfinished record %s (%zu lines)",
                  tuner->journal->path, tuner->journal->line_count);
    json_array_foreach(tuner->journal->earlier, index, line)
    {
        const char *type = json_string_value(json_object_get(line, "type"));
        if (type != NULL && strcmp(type, "timing") == 0)
            WF_TRY(import_line(tuner, line));
    }
    /* What was just learned may ban tactics of the default. */
    wf_profile_deinit(&tuner->profile);
    wf_profile_init(&tuner->profile, tuner->allocator);
    return wf_stage_plan(tuner);
}

void wf_tuner_record(wf_tuner_t *tuner, json_t *line)
{
    if (tuner->journal == NULL) {
        json_decref(line);
        return;
    }
    wf_status_t status = wf_journal_add(tuner->journal, line);
    if (status != WF_OK) {
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "the record is not kept any more: %s",
                      wf_status_message(status));
        wf_status_free(status);
        wf_journal_close(tuner->journal);
        tuner->journal = NULL;
    }
}

static wf_status_t make_worker(wf_tuner_t *tuner)
{
    wf_worker_options_t options = {.path = tuner->worker_path,
                                   .thread_count = tuner->job->cpu.thread_count,
                                   .isa = tuner->job->isa,
                                   .hang_s = tuner->hang_s,
                                   .allocator = tuner->allocator,
                                   .log = tuner->job->log,
                                   .tick = wf_tuner_tick,
                                   .tick_self = tuner};
    return wf_worker_create(&options, &tuner->worker);
}

/* ---- The run ---- */

/* Everything that measures, in the order of design. */
static wf_status_t search(wf_tuner_t *tuner)
{
    typedef wf_status_t stage_fn(wf_tuner_t *);
    static stage_fn *const joint[] = {wf_stage_noise, wf_stage_settings, wf_stage_profile, wf_stage_screen,
                                      wf_stage_solve, wf_stage_race,     wf_stage_confirm, NULL};
    static stage_fn *const other[] = {wf_stage_noise,
                                      wf_stage_settings,
                                      wf_stage_strategy,
                                      wf_stage_solve,
                                      wf_stage_race,
                                      wf_stage_confirm,
                                      NULL};
    const char *name = tuner->options->strategy;
    stage_fn *const *stages = name == NULL || strcmp(name, "joint") == 0 ? joint : other;
    for (size_t i = 0; stages[i] != NULL && !tuner->target_reached; i++) {
        if (tuner->stop_asked || wf_tuner_left_s(tuner) <= wf_tuner_reserve_s(tuner))
            break;
        WF_TRY(stages[i](tuner));
        if (i == 0)
            WF_TRY(wf_stage_target_default(tuner));
        if (i == 0) {
            wf_tuner_tell(tuner, WF_TUNE_DEFAULT, tuner->comparison.default_ns, 0, 0, "%s",
                          tuner->options->output_path);
        }
    }
    return WF_OK;
}

static wf_status_t put_outcome(wf_tuner_t *tuner)
{
    const wf_comparison_t *c = &tuner->comparison;
    const wf_candidate_t *final = tuner->adopted ? &tuner->finalists[tuner->winner] : &tuner->fallback;
    const char *lock = tuner->written_lock != NULL ? tuner->written_lock : wf_text_cstr(&final->lock);
    wf_outcome_t outcome = {.lock = lock,
                            .ratio = c->ratio,
                            .ratio_low = c->low,
                            .ratio_high = c->high,
                            .default_ns = c->default_ns,
                            .default_low_ns = c->default_low_ns,
                            .default_high_ns = c->default_high_ns,
                            .final_ns = c->candidate_ns,
                            .final_low_ns = c->candidate_low_ns,
                            .final_high_ns = c->candidate_high_ns,
                            .budget_s = tuner->budget_s,
                            .adopted = tuner->adopted,
                            .converged = tuner->converged};
    memcpy(outcome.base, tuner->base, sizeof outcome.base);
    return tuner->database != NULL && c->default_ns > 0 ? wf_database_put_outcome(tuner->database, &outcome)
                                                        : WF_OK;
}

/* A tuning that came to an end, for the record and for the next one. */
static wf_status_t finish(wf_tuner_t *tuner)
{
    const wf_comparison_t *c = &tuner->comparison;
    wf_tuner_record(
        tuner, json_pack("{s:s s:s s:b s:f s:f s:f s:I s:I s:f}", "type", "end", "verdict", tuner->verdict,
                         "adopted", tuner->adopted, "ratio", c->ratio, "ratio_lo95", c->low, "ratio_hi95",
                         c->high, "measured", (json_int_t)tuner->result->timings_measured, "reused",
                         (json_int_t)tuner->result->timings_reused, "elapsed_s", wf_tuner_elapsed_s(tuner)));
    wf_status_t status = tuner->recalled ? WF_OK : put_outcome(tuner);
    if (status != WF_OK && wf_status_code(status) != WF_CODE_OUT_OF_MEMORY) {
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "the result is not kept: %s", wf_status_message(status));
        wf_status_free(status);
        status = WF_OK;
    }
    return status;
}

static wf_status_t prepare(wf_tuner_t *tuner)
{
    if (!tuner->options->require_cached && !tuner->options->dry_run) {
        WF_TRY(wf_worker_find(tuner->options->worker_path, tuner->worker_path, sizeof tuner->worker_path));
        WF_TRY(make_worker(tuner));
    }
    WF_TRY(name_device(tuner));
    WF_TRY(open_database(tuner));
    WF_TRY(wf_stage_plan(tuner));
    if (tuner->options->dry_run)
        return WF_OK;
    WF_TRY(open_journal(tuner));
    return resume(tuner);
}

static wf_status_t run(wf_tuner_t *tuner)
{
    WF_TRY(prepare(tuner));
    if (tuner->options->dry_run)
        return wf_stage_dry_run(tuner);
    WF_TRY(wf_stage_recall(tuner));
    if (tuner->recalled) {
        wf_tuner_tell(tuner, WF_TUNE_INCUMBENT, tuner->comparison.candidate_ns, 0, 0,
                      "the result of an earlier tuning");
        return finish(tuner);
    }
    if (tuner->options->require_cached)
        return wf_stage_cached(tuner);
    WF_TRY(wf_stage_default(tuner));
    if (wf_tuner_left_s(tuner) <= wf_tuner_reserve_s(tuner)) {
        wf_tuner_tell(tuner, WF_TUNE_DEFAULT, 0, 0, 0, "%s", tuner->options->output_path);
        wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0, "the budget went into the default engine and its check");
        tuner->verdict = "default kept, no time left";
        return finish(tuner);
    }
    wf_status_t searched = search(tuner);
    if (wf_status_code(searched) == WF_CODE_INTERRUPTED) {
        wf_status_free(searched);
        searched = WF_OK;
        tuner->stop_asked = true;
    }
    /* Whatever went wrong, the best there is is written; the failure is told afterwards. */
    if (searched == WF_OK)
        searched = wf_stage_target(tuner);
    wf_status_t written = wf_stage_write(tuner);
    WF_TRY(wf_status_join(searched, written));
    if (tuner->stop_asked)
        return WF_ERROR(INTERRUPTED, "stopped on request; the best so far is written");
    WF_TRY(finish(tuner));
    if (tuner->target.count > 0 && !(tuner->target_judged && tuner->target_verdict == WF_VERDICT_MET)) {
        return wf_status_hinted(WF_ERROR(TARGET_NOT_MET, "%s: %s; the best engine is written",
                                         tuner->options->target,
                                         tuner->target_judged ? wf_verdict_name(tuner->target_verdict)
                                                              : wf_verdict_name(WF_VERDICT_TOO_FEW_RUNS)),
                                "a larger --budget, or a target that this machine can reach");
    }
    return WF_OK;
}

static void init(wf_tuner_t *tuner, wf_job_t *job, const wf_tune_options_t *options, uint64_t start_ns,
                 wf_tune_result_t *result)
{
    *tuner = (wf_tuner_t){.job = job,
                          .home = job,
                          .options = options,
                          .result = result,
                          .allocator = job->allocator,
                          .start_ns = start_ns,
                          .budget_s = options->budget_s > 0 ? options->budget_s : DEFAULT_BUDGET_S,
                          .stage = "",
                          .hang_s = HANG_S,
                          .check_count = 1,
                          .next_gain = (double)NAN,
                          .verdict = "failed",
                          .stages = json_array(),
                          .quarantined = json_array(),
                          .accuracy = json_array(),
                          .notes = json_array()};
    wf_arena_init(&tuner->arena, job->allocator);
    wf_profile_init(&tuner->profile, job->allocator);
    wf_map_init(&tuner->strikes, job->allocator);
    wf_candidate_init(&tuner->fallback, "default", job->allocator);
    wf_candidate_init(&tuner->start, "other settings", job->allocator);
    const char *strategy = options->strategy != NULL ? options->strategy : "joint";
    wf_candidate_init(&tuner->found, strcmp(strategy, "joint") == 0 ? "screened" : strategy, job->allocator);
    for (size_t i = 0; i < options->build.setting_count; i++) {
        const wf_setting_t *setting = &options->build.settings[i];
        wf_knob_values_t values;
        wf_status_t status = wf_knob_values_parse(setting->name, setting->value, &values);
        if (status == WF_OK && values.count == 1 && values.knob < WF_COUNT_OF(tuner->fixed_knobs))
            tuner->fixed_knobs[values.knob] = true;
        wf_status_ignore(status); /* the job was made with it */
    }
}

static void deinit(wf_tuner_t *tuner)
{
    for (size_t i = 1; i < tuner->finalist_count; i++)
        wf_candidate_deinit(&tuner->finalists[i], tuner->job);
    wf_candidate_deinit(&tuner->fallback, tuner->job);
    wf_candidate_deinit(&tuner->found, tuner->job);
    wf_candidate_deinit(&tuner->start, tuner->job);
    if (tuner->trials.store_made)
        wf_constant_store_deinit(&tuner->trials.store);
    wf_vec_deinit(tuner->allocator, &tuner->screened);
    wf_vec_deinit(tuner->allocator, &tuner->target_runs);
    wf_vec_deinit(tuner->allocator, &tuner->gains);
    wf_worker_destroy(tuner->worker);
    wf_journal_close(tuner->journal);
    wf_database_close(tuner->database);
    wf_profile_deinit(&tuner->profile);
    wf_map_deinit(&tuner->strikes);
    for (size_t i = 0; i < 2; i++)
        wf_vec_deinit(tuner->allocator, &tuner->samples_ns[i]);
    wf_vec_deinit(tuner->allocator, &tuner->sample_canary_ns);
    json_decref(tuner->stages);
    json_decref(tuner->quarantined);
    json_decref(tuner->accuracy);
    json_decref(tuner->notes);
    json_decref(tuner->dry_run);
    wf_arena_deinit(&tuner->arena);
    wf_job_destroy(tuner->variant);
}

wf_candidate_t *wf_tuner_start(wf_tuner_t *tuner)
{
    return tuner->job == tuner->home ? &tuner->fallback : &tuner->start;
}

wf_status_t wf_tuner_reopen(wf_tuner_t *tuner)
{
    wf_profile_deinit(&tuner->profile);
    wf_profile_init(&tuner->profile, tuner->allocator);
    tuner->profile.quiet = wf_machine_quiet("");
    wf_database_close(tuner->database);
    tuner->database = NULL;
    wf_worker_destroy(tuner->worker);
    tuner->worker = NULL;
    WF_TRY(open_database(tuner));
    WF_TRY(make_worker(tuner));
    WF_TRY(wf_profile_sync(&tuner->profile, tuner->job, tuner->database));
    wf_profile_apply(&tuner->profile, tuner->job, true);
    return WF_OK;
}

wf_status_t wf_tuner_run(wf_job_t *job, const wf_tune_options_t *options, uint64_t start_ns,
                         wf_tune_result_t *out_result)
{
    wf_tuner_t tuner;
    *out_result = (wf_tune_result_t){.allocator = job->allocator};
    wf_target_t target = {0};
    wf_objective_t objective = {1, 0, 0};
    WF_TRY(wf_strategy_check(options->strategy));
    if (options->target != NULL)
        WF_TRY(wf_target_parse(options->target, &target));
    if (options->objective != NULL)
        WF_TRY(wf_objective_parse(options->objective, &objective));
    init(&tuner, job, options, start_ns, out_result);
    tuner.target = target;
    tuner.objective = objective;
    wf_progress_fn *progress = job->progress;
    void *progress_self = job->progress_self;
    job->progress = reference_progress;
    job->progress_self = &tuner;
    wf_status_t status = run(&tuner);
    wf_tuner_baseline(&tuner);
    wf_tuner_stage(&tuner, "");
    status = wf_status_join(status, wf_tuner_report(&tuner));
    job->progress = progress;
    job->progress_self = progress_self;
    deinit(&tuner);
    return status;
}
