/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/gate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "device/device.h"

/* Both runs of the rule at their longest are 280 rounds; most gates need some twenty. */
#define ROUNDS_PLANNED 160.0
#define BLOCKS_MIN 3.0
#define BLOCKS_MAX 12.0
/* Engines are loaded anew every round when that takes no longer than measuring. */
#define LOAD_SHARE 1.0
/* The first run of the rule leaves the rest to the confirmation, unless it is nearer to passing. */
#define FIRST_SHARE 0.6
#define PASSING_SHARE 0.75
/* Seconds of the attribution of a regression, as a share of the budget. */
#define DIFF_SHARE 0.1
#define DIFF_S_MAX 6.0

static const char *const verdict_names[] = {"passed", "improved", "regressed", "inconclusive", "first"};
static const int verdict_exits[] = {0, 0, 5, 6, 0};

double wf_gate_now_s(void)
{
    return 1e-9 * (double)wf_clock_ns();
}

static bool tick(void *self)
{
    wf_gate_progress_t *p = self;
    if (p->options->progress == NULL)
        return false;
    double done = (wf_gate_now_s() - p->start_s) / p->budget_s;
    return p->options->progress(p->options->progress_self, p->what, fmin(done, 1));
}

wf_pair_options_t wf_gate_pair_options(const wf_gate_options_t *options, wf_gate_progress_t *progress)
{
    progress->options = options;
    progress->start_s = wf_gate_now_s();
    progress->budget_s = options->budget_s;
    return (wf_pair_options_t){.thread_count = options->thread_count,
                               .isa = options->isa,
                               .seed = options->seed,
                               .allocator = options->allocator,
                               .log = options->log,
                               .tick_self = progress,
                               .tick = tick};
}

wf_status_t wf_gate_report(wf_gate_result_t *result, json_t *report)
{
    size_t length = report != NULL ? json_dumpb(report, NULL, 0, JSON_COMPACT) : 0;
    char *text = NULL;
    wf_status_t status =
        length > 0 ? wf_alloc(result->allocator, length + 1, 1, &text) : wf_status_out_of_memory();
    if (status == WF_OK) {
        (void)json_dumpb(report, text, length, JSON_COMPACT);
        result->report_json = text;
    }
    json_decref(report);
    return status;
}

/* ---- What is compared ---- */

typedef struct gate {
    const wf_gate_options_t *options;
    wf_allocator_t allocator;
    const char *engine_path;
    wf_baseline_t engine, baseline;
    char baseline_path[4096], baseline_engine[4096], folder[4096];
    wf_rule_t rule;
    double seconds, waited_s, round_s;
    size_t blocks, blocks_void, rounds_void;
    double p50_ns[2];
    wf_gate_verdict_t verdict;
    json_t *steps, *notes;
} gate_t;

static wf_status_t check_model(const gate_t *gate)
{
    const wf_baseline_t *e = &gate->engine, *b = &gate->baseline;
    if (!gate->options->any_model && strcmp(e->model_hash, b->model_hash) != 0) {
        return wf_status_hinted(
            WF_ERROR(BASELINE_MISMATCH,
                     "%s is of another model: the baseline %s is of model %s, the engine of %s",
                     gate->engine_path, gate->baseline_path, b->model_hash, e->model_hash),
            "give the baseline of this model; --any-model compares versions of a model with the same inputs");
    }
    return WF_OK;
}

static wf_status_t check_machine(const gate_t *gate)
{
    wf_device_t device;
    wf_text_t here;
    WF_TRY(wf_device_detect(gate->options->isa, &device));
    wf_text_init(&here, gate->allocator, 65536);
    wf_device_fingerprint(&device, &here);
    wf_status_t status = wf_text_take_status(&here);
    if (status == WF_OK && !gate->options->any_machine &&
        strcmp(wf_text_cstr(&here), gate->baseline.device) != 0) {
        status = wf_status_hinted(
            WF_ERROR(BASELINE_MISMATCH, "the baseline %s is of another machine (%s); this one is %s",
                     gate->baseline_path, gate->baseline.device, wf_text_cstr(&here)),
            "promote a baseline on this machine; --any-machine compares the two engines "
            "here all the same");
    }
    wf_text_deinit(&here);
    return status;
}

/* True when the file is an engine of this hash. */
static bool is_engine(const gate_t *gate, const char *path, const char *hash)
{
    wf_baseline_t there;
    if (access(path, R_OK) != 0)
        return false;
    wf_status_t status = wf_baseline_identify(path, gate->allocator, &there);
    bool found = status == WF_OK && strcmp(there.engine_hash, hash) == 0;
    wf_status_free(status);
    wf_baseline_deinit(&there);
    return found;
}

/* By hash: the file that the baseline names, beside it; then the store; then the engine under test itself,
 * which is an engine against itself. */
static wf_status_t find_engine(gate_t *gate)
{
    const char *hash = gate->baseline.engine_hash, *slash = strrchr(gate->baseline_path, '/');
    int folder = slash != NULL ? (int)(slash - gate->baseline_path) + 1 : 0;
    size_t room = sizeof gate->baseline_engine;
    if ((size_t)snprintf(gate->baseline_engine, room, "%.*s%s", folder, gate->baseline_path,
                         gate->baseline.engine_file) < room &&
        is_engine(gate, gate->baseline_engine, hash))
        return WF_OK;
    if ((size_t)snprintf(gate->baseline_engine, room, "%.*sengines/%s.wfe", folder, gate->baseline_path,
                         hash) < room &&
        is_engine(gate, gate->baseline_engine, hash))
        return WF_OK;
    if (gate->folder[0] != '\0' &&
        (size_t)snprintf(gate->baseline_engine, room, "%s/engines/%s.wfe", gate->folder, hash) < room &&
        is_engine(gate, gate->baseline_engine, hash))
        return WF_OK;
    (void)snprintf(gate->baseline_engine, room, "%s", gate->engine_path);
    if (strcmp(gate->engine.engine_hash, hash) == 0)
        return WF_OK;
    return wf_status_hinted(
        WF_ERROR(BASELINE_MISMATCH,
                 "the engine %s of the baseline %s is found neither beside it (%s) nor in %s", hash,
                 gate->baseline_path, gate->baseline.engine_file,
                 gate->options->store != NULL ? gate->options->store : "a store (none was given)"),
        "keep the engine beside its baseline, or promote engines into a store with 'wayfinder baseline "
        "promote "
        "ENGINE --store DIR' and give --store DIR here");
}

/* ---- Measuring ---- */

/* Seconds until which the run of the rule that is on may begin rounds. */
static double time_limit_s(const gate_t *gate)
{
    const wf_rule_run_t *first = &gate->rule.first;
    if (gate->rule.confirming)
        return gate->options->budget_s;
    double centre = wf_rule_interval(first->rounds, first->round_count, 0.5).centre;
    return (centre < PASSING_SHARE * gate->rule.effect ? 1 : FIRST_SHARE) * gate->options->budget_s;
}

static wf_gate_verdict_t verdict_of(wf_rule_verdict_t verdict)
{
    return verdict == WF_RULE_PASSED      ? WF_GATE_PASSED
           : verdict == WF_RULE_IMPROVED  ? WF_GATE_IMPROVED
           : verdict == WF_RULE_REGRESSED ? WF_GATE_REGRESSED
                                          : WF_GATE_INCONCLUSIVE;
}

static wf_status_t measure(gate_t *gate, wf_pair_t *pair, wf_gate_progress_t *progress)
{
    double budget_s = gate->options->budget_s, block_s = wf_pair_block_s(pair);
    size_t blocks = (size_t)fmax(fmin(budget_s / ROUNDS_PLANNED / block_s, BLOCKS_MAX), BLOCKS_MIN);
    bool whole = wf_pair_load_s(pair) <= LOAD_SHARE * (double)blocks * block_s;
    wf_rule_verdict_t verdict = WF_RULE_OPEN;
    while (verdict == WF_RULE_OPEN) {
        wf_pair_round_t round;
        double spent_s = wf_gate_now_s() - progress->start_s - wf_pair_waited_s(pair);
        if (spent_s + gate->round_s > time_limit_s(gate)) {
            verdict = wf_rule_finish(&gate->rule);
            break;
        }
        double start_s = wf_gate_now_s(), waited_s = wf_pair_waited_s(pair);
        WF_TRY(wf_pair_run_round(pair, blocks, whole, &round));
        gate->round_s = wf_gate_now_s() - start_s - (wf_pair_waited_s(pair) - waited_s);
        gate->blocks += round.block_count;
        gate->blocks_void += round.void_count;
        if (isfinite(round.log_ratio))
            verdict = wf_rule_add(&gate->rule, round.log_ratio);
        else
            gate->rounds_void++;
        progress->what = gate->rule.confirming ? "confirming a slow-down" : "gate";
    }
    gate->verdict = verdict_of(verdict);
    return WF_OK;
}

static wf_status_t median_of(const gate_t *gate, const wf_times_t *times, double *out_ns)
{
    double *copy = NULL;
    *out_ns = 0;
    if (times->count == 0)
        return WF_OK;
    WF_TRY(wf_alloc(gate->allocator, times->count, sizeof *copy, &copy));
    memcpy(copy, times->items, times->count * sizeof *copy);
    *out_ns = wf_stats_median(copy, times->count);
    wf_free(gate->allocator, copy, times->count, sizeof *copy);
    return WF_OK;
}

static wf_status_t compare(gate_t *gate)
{
    wf_gate_progress_t progress = {.what = "gate"};
    wf_pair_options_t options = wf_gate_pair_options(gate->options, &progress);
    wf_pair_t *pair;
    options.paths[0] = gate->baseline_engine;
    options.paths[1] = gate->engine_path;
    options.hashes[0] = gate->baseline.engine_hash;
    options.hashes[1] = gate->engine.engine_hash;
    wf_rule_init(&gate->rule, gate->options->min_effect, gate->options->alpha);
    WF_TRY(wf_pair_open(&options, &pair));
    wf_status_t status = measure(gate, pair, &progress);
    for (size_t i = 0; status == WF_OK && i < 2; i++)
        status = median_of(gate, wf_pair_samples(pair, i), &gate->p50_ns[i]);
    gate->seconds = wf_gate_now_s() - progress.start_s;
    gate->waited_s = wf_pair_waited_s(pair);
    if (status == WF_OK && gate->verdict == WF_GATE_REGRESSED) {
        progress.what = "looking for the steps";
        status = wf_diff_pair(pair, fmin(DIFF_SHARE * gate->options->budget_s, DIFF_S_MAX), gate->allocator,
                              &gate->steps);
    }
    wf_pair_close(pair);
    return status;
}

/* ---- Report ---- */

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *run_json(const wf_rule_run_t *run)
{
    return json_pack("{s:I s:I s:o s:o s:o}", "rounds", (json_int_t)run->round_count, "looks",
                     (json_int_t)run->look_count, "ratio", number(exp(run->bounds.centre)), "bound_low",
                     number(exp(run->bounds.low)), "bound_high", number(exp(run->bounds.high)));
}

static json_t *side_json(const char *path, const wf_baseline_t *facts, double p50_ns)
{
    return json_pack("{s:s s:s s:s s:I s:f}", "path", path, "hash", facts->engine_hash, "model",
                     facts->model_hash, "threads", (json_int_t)facts->thread_count, "p50_ns", p50_ns);
}

/* 95 % over all rounds, for people; the verdict rests on the bounds of its looks. */
static void summarise(const gate_t *gate, wf_gate_result_t *result)
{
    double rounds[2 * WF_RULE_ROUNDS_MAX];
    const wf_rule_run_t *a = &gate->rule.first, *b = &gate->rule.confirmation;
    memcpy(rounds, a->rounds, a->round_count * sizeof *rounds);
    memcpy(rounds + a->round_count, b->rounds, b->round_count * sizeof *rounds);
    wf_interval_t interval = wf_rule_interval(rounds, a->round_count + b->round_count, 0.95);
    result->ratio = exp(interval.centre);
    result->lo95 = exp(interval.low);
    result->hi95 = exp(interval.high);
}

static json_t *report_json(const gate_t *gate, const wf_gate_result_t *r)
{
    json_t *report = json_pack(
        "{s:i s:s s:i s:o s:o s:o s:f s:f s:b s:s}", "schema_version", 1, "verdict",
        verdict_names[gate->verdict], "exit", verdict_exits[gate->verdict], "ratio", number(r->ratio), "lo95",
        number(r->lo95), "hi95", number(r->hi95), "min_effect", gate->options->min_effect, "alpha",
        gate->options->alpha, "same_engine",
        strcmp(gate->engine.engine_hash, gate->baseline.engine_hash) == 0, "device", gate->baseline.device);
    json_t *rest =
        json_pack("{s:o s:o s:o s:o s:I s:I s:I s:f s:f s:O s:O?}", "first", run_json(&gate->rule.first),
                  "confirmation", gate->rule.confirming ? run_json(&gate->rule.confirmation) : json_null(),
                  "engine", side_json(gate->engine_path, &gate->engine, gate->p50_ns[1]), "baseline",
                  side_json(gate->baseline_engine, &gate->baseline, gate->p50_ns[0]), "blocks",
                  (json_int_t)gate->blocks, "blocks_void", (json_int_t)gate->blocks_void, "rounds_void",
                  (json_int_t)gate->rounds_void, "seconds", gate->seconds, "waited_s", gate->waited_s,
                  "notes", gate->notes, "steps", gate->steps);
    if (report == NULL || rest == NULL || json_object_update(report, rest) != 0) {
        json_decref(report);
        report = NULL;
    }
    json_decref(rest);
    return report;
}

static wf_status_t remember(gate_t *gate, const wf_gate_result_t *r)
{
    if (gate->options->store == NULL)
        return WF_OK;
    return wf_store_append(gate->folder,
                           json_pack("{s:s s:s s:s s:s s:f s:f s:f s:I}", "type", "gate", "verdict",
                                     verdict_names[gate->verdict], "baseline", gate->baseline.engine_hash,
                                     "engine", gate->engine.engine_hash, "ratio", r->ratio, "lo95", r->lo95,
                                     "hi95", r->hi95, "time_s", (json_int_t)time(NULL)));
}

/* ---- The run ---- */

static wf_status_t first_run(gate_t *gate, wf_gate_result_t *result)
{
    char note[4400];
    result->verdict = WF_GATE_FIRST;
    (void)snprintf(note, sizeof note, "there is no baseline %s yet: nothing to compare with",
                   gate->baseline_path);
    return wf_gate_report(result,
                          json_pack("{s:i s:s s:i s:n s:n s:n s:f s:f s:[s] s:s}", "schema_version", 1,
                                    "verdict", "first", "exit", 0, "ratio", "lo95", "hi95", "min_effect",
                                    gate->options->min_effect, "alpha", gate->options->alpha, "notes", note,
                                    "baseline_path", gate->baseline_path));
}

static wf_status_t run(gate_t *gate, wf_gate_result_t *result)
{
    const wf_gate_options_t *o = gate->options;
    size_t room = sizeof gate->baseline_path;
    if (o->store != NULL)
        WF_TRY(wf_store_folder(o->store, &gate->engine, gate->folder, sizeof gate->folder));
    if (o->baseline_path == NULL && o->store == NULL) {
        return wf_status_hinted(WF_ERROR(USAGE, "the gate has no baseline to compare with"),
                                "give --baseline FILE, or --store DIR");
    }
    int length = o->baseline_path != NULL
                     ? snprintf(gate->baseline_path, room, "%s", o->baseline_path)
                     : snprintf(gate->baseline_path, room, "%s/baseline.json", gate->folder);
    if (length < 0 || (size_t)length >= room)
        return WF_ERROR(USAGE, "the path of the baseline is too long");
    if (access(gate->baseline_path, F_OK) != 0)
        return first_run(gate, result);
    WF_TRY(wf_baseline_read(gate->baseline_path, gate->allocator, &gate->baseline));
    WF_TRY(check_model(gate));
    WF_TRY(check_machine(gate));
    WF_TRY(find_engine(gate));
    WF_TRY(compare(gate));
    summarise(gate, result);
    result->verdict = gate->verdict;
    if (gate->rounds_void > gate->rule.first.round_count + gate->rule.confirmation.round_count) {
        (void)json_array_append_new(gate->notes,
                                    json_string("most of the time something else used the cores"));
    }
    WF_TRY(remember(gate, result));
    return wf_gate_report(result, report_json(gate, result));
}

wf_status_t wf_gate_run(const char *engine_path, const wf_gate_options_t *options,
                        wf_gate_result_t *out_result)
{
    gate_t gate = {.options = options,
                   .allocator = options->allocator,
                   .engine_path = engine_path,
                   .notes = json_array()};
    wf_baseline_init(&gate.baseline, options->allocator);
    wf_status_t status = wf_baseline_identify(engine_path, options->allocator, &gate.engine);
    if (status == WF_OK)
        status = run(&gate, out_result);
    wf_baseline_deinit(&gate.engine);
    wf_baseline_deinit(&gate.baseline);
    json_decref(gate.steps);
    json_decref(gate.notes);
    return status;
}
