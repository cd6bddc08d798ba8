/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a tuning: the data of `tune --json`. */
#include <math.h>
#include <string.h>

#include "tune/tuner_internal.h"

/* JSON has no NaN and no infinity: what was not measured is null. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *times_json(double median_ns, double low_ns, double high_ns)
{
    return json_pack("{s:o s:o s:o}", "median_ns", number(median_ns), "lo95_ns", number(low_ns), "hi95_ns",
                     number(high_ns));
}

static wf_status_t take_text(wf_tuner_t *tuner, const json_t *report)
{
    size_t length = json_dumpb(report, NULL, 0, JSON_COMPACT);
    char *text = NULL;
    if (length == 0)
        return wf_status_out_of_memory();
    WF_TRY(wf_alloc(tuner->allocator, length + 1, 1, &text));
    (void)json_dumpb(report, text, length, JSON_COMPACT);
    tuner->result->report_json = text;
    return WF_OK;
}

/* Lookups that missed, by reason, and rows that could not be. */
static wf_status_t add_misses(wf_tuner_t *tuner, json_t *report)
{
    uint64_t counts[WF_MISS_COUNT];
    json_t *timings = json_object_get(report, "timings"), *misses = json_object();
    wf_profile_misses(&tuner->profile, counts);
    int failed = misses == NULL;
    for (int i = 1; failed == 0 && i < WF_MISS_COUNT; i++) {
        if (counts[i] > 0)
            failed |=
                json_object_set_new(misses, wf_miss_name((wf_miss_t)i), json_integer((json_int_t)counts[i]));
    }
    failed |= json_object_set_new(timings, "misses", misses);
    uint64_t skipped = tuner->database != NULL ? tuner->database->skipped : 0;
    failed |= json_object_set_new(timings, "skipped", json_integer((json_int_t)skipped));
    return failed == 0 ? WF_OK : wf_status_out_of_memory();
}

/* How routes were searched, and what was seen of choices inside the model. */
static void add_search(const wf_tuner_t *tuner, json_t *rest)
{
    const wf_trials_t *trials = &tuner->trials;
    json_t *screened = json_array();
    for (size_t i = 0; i < tuner->screened.count; i++) {
        const wf_screened_t *row = &tuner->screened.items[i];
        double effect = row->effect.log_ratio, half = 1.96 * row->effect.se;
        (void)json_array_append_new(
            screened, json_pack("{s:s s:o s:o s:o s:f s:o s:I s:b}", "change", row->name, "effect",
                                number(exp(effect) - 1), "lo95", number(exp(effect - half) - 1), "hi95",
                                number(exp(effect + half) - 1), "alone_ns", row->predicted_ns, "shrunk",
                                number(exp(row->effect.shrunk) - 1), "pairs", (json_int_t)row->pair_count,
                                "kept", row->kept));
    }
    (void)json_object_set_new(
        rest, "search",
        json_pack("{s:s s:I s:o s:o}", "strategy",
                  tuner->options->strategy != NULL ? tuner->options->strategy : "joint", "trials",
                  (json_int_t)trials->linked, "trials_per_minute",
                  number(trials->seconds > 0 ? 60 * (double)trials->linked / trials->seconds : (double)NAN),
                  "in_context", screened));
}

/* What the last minute brought, and what another should. Profiling only: what races and screens decide is
 * small. */
static json_t *gain_json(const wf_tuner_t *tuner)
{
    double last = (double)NAN;
    if (tuner->gains.count > 1) {
        const wf_gain_point_t *end = &tuner->gains.items[tuner->gains.count - 1],
                              *from = &tuner->gains.items[0];
        for (size_t i = 0; i < tuner->gains.count; i++) {
            if (tuner->gains.items[i].at_s <= end->at_s - 60)
                from = &tuner->gains.items[i];
        }
        /* Where measuring made estimates dearer, nothing can be said. */
        last = end->route_ns > 0 && from->route_ns >= end->route_ns ? from->route_ns / end->route_ns - 1
                                                                    : (double)NAN;
    }
    return json_pack("{s:o s:o}", "last_minute", number(last), "next_minute", number(tuner->next_gain));
}

/* The cheapest choice of the topic beside the chosen one; choice_count: none. */
static size_t second_best(const wf_topic_t *topic, size_t chosen)
{
    size_t best = topic->choice_count;
    for (size_t c = 0; c < topic->choice_count; c++) {
        const wf_topic_choice_t *choice = &topic->choices[c];
        bool usable = c != chosen && choice->quarantine == NULL &&
                      (!choice->dominated || wf_topic_knows(topic, choice));
        if (usable && (best == topic->choice_count || choice->cost_ns < topic->choices[best].cost_ns))
            best = c;
    }
    return best;
}

/* A step of the route that is written: what it beat, by how much, how surely, alone and inside the model. */
static json_t *choice_json(const wf_tuner_t *tuner, const wf_topic_t *topic, size_t chosen)
{
    const wf_topic_choice_t *choice = &topic->choices[chosen];
    size_t other = second_best(topic, chosen), blocks = 0;
    bool known = wf_topic_knows(topic, choice);
    if (known)
        blocks =
            choice->log_ratios.count > 0 ? choice->log_ratios.count : (size_t)choice->row.log_ratio.count;
    json_t *json =
        json_pack("{s:s s:s s:f s:b s:I}", "problem", topic->problem->text, "tactic", choice->tactic,
                  "alone_ns", choice->cost_ns, "measured", known, "measurements", (json_int_t)blocks);
    if (json != NULL && other < topic->choice_count) {
        const wf_topic_choice_t *second = &topic->choices[other];
        double gap = log(second->cost_ns / choice->cost_ns);
        double sd = hypot(choice->sd_rel, second->sd_rel);
        (void)json_object_update_new(
            json, json_pack("{s:s s:f s:o s:o}", "runner_up", second->tactic, "runner_up_ns", second->cost_ns,
                            "margin", number(exp(gap) - 1), "confidence",
                            number(sd > 0 ? wf_stats_normal_cdf(gap / sd) : (double)NAN)));
    }
    for (size_t i = 0; json != NULL && i < tuner->screened.count; i++) {
        const wf_screened_t *row = &tuner->screened.items[i];
        if (row->problem == NULL || row->pair_count == 0 ||
            strcmp(row->problem->text, topic->problem->text) != 0)
            continue;
        double effect = row->effect.log_ratio, half = 1.96 * row->effect.se;
        (void)json_object_set_new(json, "in_context",
                                  json_pack("{s:s s:o s:o s:o s:b}", "tactic", row->tactic, "effect",
                                            number(exp(effect) - 1), "lo95", number(exp(effect - half) - 1),
                                            "hi95", number(exp(effect + half) - 1), "kept", row->kept));
    }
    return json;
}

static json_t *choices_json(const wf_tuner_t *tuner)
{
    const wf_candidate_t *final = tuner->adopted ? &tuner->finalists[tuner->winner] : &tuner->fallback;
    json_t *list = json_array();
    for (size_t p = 0; final->routes != NULL && p < final->job->part_count; p++) {
        const wf_space_t *space = final->job->parts[p].space;
        for (size_t i = 0; i < final->routes[p].count; i++) {
            const wf_route_item_t *item = &final->routes[p].items[i];
            uint32_t problem = space->groups.items[item->group].problem;
            const wf_topic_t *topic = wf_profile_topic(&tuner->profile, space, problem);
            const char *tactic = space->problems.items[problem].choices.items[item->choice].tactic_id;
            size_t chosen = topic != NULL ? wf_topic_find(topic, tactic) : 0;
            if (topic != NULL && chosen < topic->choice_count)
                (void)json_array_append_new(list, choice_json(tuner, topic, chosen));
        }
    }
    return list;
}

static json_t *target_json(const wf_tuner_t *tuner)
{
    json_t *terms = json_array();
    for (size_t i = 0; i < tuner->target.count; i++) {
        wf_verdict_t verdict = tuner->target_judged ? tuner->target_terms[i] : WF_VERDICT_TOO_FEW_RUNS;
        (void)json_array_append_new(terms, json_pack("{s:s s:s}", "term", tuner->target.terms[i].text,
                                                     "verdict", wf_verdict_name(verdict)));
    }
    wf_verdict_t verdict = tuner->target_judged ? tuner->target_verdict : WF_VERDICT_TOO_FEW_RUNS;
    return json_pack("{s:s s:b s:s s:I s:o}", "text", tuner->options->target, "met",
                     verdict == WF_VERDICT_MET, "verdict", wf_verdict_name(verdict), "runs",
                     (json_int_t)tuner->target_runs.count, "terms", terms);
}

wf_status_t wf_tuner_report(wf_tuner_t *tuner)
{
    const wf_comparison_t *c = &tuner->comparison;
    wf_tune_result_t *result = tuner->result;
    result->default_ns = c->default_ns;
    result->final_ns = c->candidate_ns;
    result->ratio = c->ratio;
    result->ratio_lo95 = c->low;
    result->ratio_hi95 = c->high;
    result->adopted = tuner->adopted;
    json_t *report = json_pack(
        "{s:i s:s? s:b s:b s:{s:I s:I} s:o s:o s:o s:o s:o s:I s:f s:f}", "schema_version", 1, "verdict",
        tuner->verdict, "recalled", tuner->recalled, "converged", tuner->converged, "timings", "measured",
        (json_int_t)result->timings_measured, "reused", (json_int_t)result->timings_reused, "default",
        times_json(c->default_ns, c->default_low_ns, c->default_high_ns), "final",
        times_json(c->candidate_ns, c->candidate_low_ns, c->candidate_high_ns), "ratio", number(c->ratio),
        "ratio_lo95", number(c->low), "ratio_hi95", number(c->high), "blocks", (json_int_t)c->block_count,
        "budget_s", tuner->budget_s, "elapsed_s", wf_tuner_elapsed_s(tuner));
    wf_status_t status = add_misses(tuner, report);
    json_t *rest = json_pack(
        "{s:O? s:O? s:O? s:O? s:{s:o s:o} s:f s:s? s:s? s:s?}", "stages", tuner->stages, "quarantined",
        tuner->quarantined, "accuracy", tuner->accuracy, "notes", tuner->notes, "noise", "ratio",
        number(tuner->aa_ratio), "sd", number(tuner->aa_sd), "waited_s",
        tuner->worker != NULL ? wf_worker_waited_s(tuner->worker) : 0.0, "engine",
        tuner->options->output_path, "record", tuner->record_path, "timing_cache", tuner->database_path);
    if (rest != NULL)
        (void)json_object_set_new(rest, "gain", gain_json(tuner));
    if (rest != NULL && !tuner->recalled)
        (void)json_object_set_new(rest, "choices", choices_json(tuner));
    if (rest != NULL && tuner->target.count > 0)
        (void)json_object_set_new(rest, "target", target_json(tuner));
    if (rest != NULL)
        (void)json_object_set_new(
            rest, "headroom",
            json_pack("{s:o s:o s:o}", "roofline_ns", number(tuner->bound.roofline_ns), "least_ns",
                      number(tuner->bound.least_ns), "share",
                      number(c->candidate_ns > 0 ? fmax(1 - tuner->bound.roofline_ns / c->candidate_ns, 0)
                                                 : (double)NAN)));
    if (tuner->dry_run != NULL && rest != NULL)
        (void)json_object_set(rest, "dry_run", tuner->dry_run);
    if (rest != NULL)
        add_search(tuner, rest);
    if (status == WF_OK) {
        status = report != NULL && rest != NULL && json_object_update(report, rest) == 0
                     ? take_text(tuner, report)
                     : wf_status_out_of_memory();
    }
    json_decref(rest);
    json_decref(report);
    return status;
}
