/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies beside joint: the same tactics and knobs around the default route, tried by the same trials and
 * decided by the same race, so that they can be compared inside one tool. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "tune/tuner_internal.h"

#define STRATEGY_SHARE 0.8

typedef struct strategy_row {
    const char *name;
    wf_status_t (*run)(wf_search_t *search); /* NULL: no search over factors */
    size_t (*trials)(size_t factor_count, const uint32_t *value_counts);
} strategy_row_t;

static const strategy_row_t rows[] = {
    {"joint", NULL, NULL},
    {"fast", wf_search_fast, wf_search_fast_trials},
    {"full", wf_search_full, wf_search_full_trials},
    {"mixed", wf_search_mixed, wf_search_fast_trials},
    {"greedy", NULL, NULL},
    {"random", wf_search_random, NULL},
};

static const strategy_row_t *find_row(const char *name)
{
    for (size_t i = 0; i < WF_COUNT_OF(rows); i++) {
        if (strcmp(rows[i].name, name != NULL ? name : "joint") == 0)
            return &rows[i];
    }
    return NULL;
}

wf_status_t wf_strategy_check(const char *name)
{
    if (find_row(name) != NULL)
        return WF_OK;
    return wf_status_hinted(WF_ERROR(USAGE, "there is no strategy '%s'", name),
                            "use joint, fast, full, mixed, greedy or random");
}

/* ---- The space that all of them search ---- */

static wf_status_t make_factors(wf_tuner_t *tuner, wf_arena_t *arena, wf_factors_t *out_factors)
{
    const wf_candidate_t *start = wf_tuner_start(tuner);
    wf_base_route_t base = {start->routes, &start->knobs};
    wf_move_limits_t limits = {.gap_share = (double)INFINITY,
                               .gap_rel = (double)INFINITY,
                               .per_problem = 254,
                               .knobs = true,
                               .fixed_knobs = tuner->fixed_knobs};
    wf_moves_t moves;
    *out_factors = (wf_factors_t){0};
    wf_status_t status = wf_moves_list(&base, tuner->job, &limits, arena, tuner->allocator, &moves);
    if (status != WF_OK) {
        wf_vec_deinit(tuner->allocator, &moves);
        return status;
    }
    return wf_factors_make(tuner, &base, &moves, false, SIZE_MAX, out_factors);
}

size_t wf_strategy_trials(wf_tuner_t *tuner, size_t *out_factor_count)
{
    const strategy_row_t *row = find_row(tuner->options->strategy);
    wf_arena_t arena;
    wf_factors_t factors;
    wf_arena_init(&arena, tuner->allocator);
    wf_status_t status = make_factors(tuner, &arena, &factors);
    *out_factor_count = factors.value_counts.count;
    size_t trials = SIZE_MAX;
    if (status == WF_OK && row->trials != NULL)
        trials = row->trials(factors.value_counts.count, factors.value_counts.items);
    wf_status_ignore(status);
    wf_factors_deinit(tuner, &factors);
    wf_arena_deinit(&arena);
    return trials;
}

/* Tactics that the profile may measure for the spaces as they are. */
static size_t count_tactics(const wf_tuner_t *tuner)
{
    size_t count = 0;
    for (size_t t = 0; t < tuner->profile.topics.count; t++) {
        const wf_topic_t *topic = &tuner->profile.topics.items[t];
        for (size_t c = 0; c < topic->choice_count; c++) {
            const wf_topic_choice_t *choice = &topic->choices[c];
            count += !choice->view && !choice->dominated && !choice->stored && choice->quarantine == NULL;
        }
    }
    return count;
}

wf_status_t wf_stage_dry_run(wf_tuner_t *tuner)
{
    const char *name = tuner->options->strategy != NULL ? tuner->options->strategy : "joint";
    bool profiles = strcmp(name, "joint") == 0 || strcmp(name, "greedy") == 0;
    size_t factor_count, trials = wf_strategy_trials(tuner, &factor_count);
    /* Estimates of the default: an engine is linked, warmed up and runs thrice, the default beside each
     * block. */
    tuner->default_ns = tuner->fallback.predicted_ns;
    double each_s = wf_tuner_sample_s(tuner) * (1 + 1.0 / WF_SEARCH_BLOCK_MAX) + 2e-3;
    double room_s = 0.8 * tuner->budget_s;
    size_t affordable = (size_t)(room_s / each_s);
    if (tuner->options->trial_limit != 0)
        trials = WF_MIN(trials, (size_t)tuner->options->trial_limit);
    bool bounded = trials != SIZE_MAX;
    json_t *plan = json_pack(
        "{s:s s:I s:o s:o s:f s:I s:I s:f}", "strategy", name, "factors", (json_int_t)factor_count, "trials",
        bounded && !profiles ? json_integer((json_int_t)WF_MIN(trials, (size_t)INT32_MAX)) : json_null(),
        "seconds", bounded && !profiles ? json_real((double)trials * each_s) : json_null(), "trial_s", each_s,
        "trials_in_budget", (json_int_t)WF_MIN(affordable, trials), "tactics_to_measure",
        (json_int_t)(profiles ? count_tactics(tuner) : 0), "default_estimate_ns",
        tuner->fallback.predicted_ns);
    if (plan == NULL)
        return wf_status_out_of_memory();
    tuner->dry_run = plan;
    tuner->verdict = "dry run";
    return WF_OK;
}

/* ---- Searching ---- */

static wf_status_t search_factors(wf_tuner_t *tuner, const strategy_row_t *row, wf_factors_t *factors)
{
    wf_search_t search;
    wf_base_route_t base = factors->base;
    bool ready;
    if (factors->value_counts.count == 0)
        return WF_OK;
    WF_TRY(wf_trials_begin(tuner, &base, &ready));
    if (!ready)
        return WF_OK;
    WF_TRY(wf_search_init(&search, factors->value_counts.count, factors->value_counts.items,
                          wf_factors_measure, tuner, tuner->options->seed + tuner->request_count++,
                          tuner->allocator));
    search.noise_sd = tuner->aa_sd;
    search.trial_limit = (size_t)tuner->options->trial_limit;
    tuner->factors = factors;
    wf_status_t status = row->run(&search);
    tuner->factors = NULL;
    if (status == WF_OK) {
        wf_tuner_tell(tuner, WF_TUNE_TRIAL, 0, search.trial_count, search.trial_count,
                      "%s: %zu routes tried, the best looked %+.2f %% beside the default", row->name,
                      search.trial_count, 100 * (exp(search.best_log) - 1));
    }
    if (status == WF_OK && search.best_log < 0) {
        wf_route_t *routes;
        wf_knobs_t knobs;
        status = wf_factors_apply(tuner, factors, search.best, &routes, &knobs);
        if (status == WF_OK)
            status = wf_candidate_set(&tuner->found, tuner->job, routes, &knobs);
    }
    wf_search_deinit(&search);
    wf_trials_end(tuner);
    return status;
}

/* The tactic of least time alone for every problem of the default route, whatever its neighbours want. */
static wf_status_t pick_alone(wf_tuner_t *tuner)
{
    wf_job_t *job = tuner->job;
    wf_route_t *routes = NULL;
    wf_status_t status = wf_alloc(job->allocator, job->part_count, sizeof *routes, &routes);
    for (size_t p = 0; status == WF_OK && p < job->part_count; p++) {
        wf_space_t *space = job->parts[p].space;
        const wf_route_t *from = &wf_tuner_start(tuner)->routes[p];
        status = wf_route_replace(space, from, NULL, 0, NULL, 0, &routes[p]);
        for (size_t i = 0; status == WF_OK && i < routes[p].count; i++) {
            uint32_t problem = space->groups.items[routes[p].items[i].group].problem;
            const wf_space_problem_t *entry = &space->problems.items[problem];
            for (uint32_t c = 0; c < entry->choices.count; c++) {
                const wf_choice_t *choice = &entry->choices.items[c];
                bool usable = !choice->banned && (!choice->dominated || choice->measured);
                if (usable && choice->cost_ns < entry->choices.items[routes[p].items[i].choice].cost_ns)
                    routes[p].items[i].choice = c;
            }
        }
        if (status == WF_OK)
            status = wf_route_cost(space, &routes[p], &routes[p].cost_ns);
        if (status == WF_OK && !isfinite(routes[p].cost_ns)) {
            wf_tuner_tell(tuner, WF_TUNE_NOTE, 0, 0, 0,
                          "greedy: the layouts that were chosen cannot be converted");
            wf_job_routes_free(job, routes);
            return WF_OK;
        }
    }
    if (status == WF_OK)
        return wf_candidate_set(&tuner->found, job, routes, NULL);
    wf_job_routes_free(job, routes);
    return status;
}

wf_status_t wf_stage_strategy(wf_tuner_t *tuner)
{
    const strategy_row_t *row = find_row(tuner->options->strategy);
    if (row->run == NULL) { /* greedy */
        WF_TRY(wf_stage_profile(tuner));
        return pick_alone(tuner);
    }
    double room_s = wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner);
    wf_arena_t arena;
    wf_factors_t factors;
    wf_tuner_stage(tuner, row->name);
    wf_arena_init(&arena, tuner->allocator);
    wf_status_t status = make_factors(tuner, &arena, &factors);
    factors.until_s = wf_tuner_elapsed_s(tuner) + STRATEGY_SHARE * room_s;
    if (status == WF_OK)
        status = search_factors(tuner, row, &factors);
    wf_factors_deinit(tuner, &factors);
    wf_arena_deinit(&arena);
    return status;
}
