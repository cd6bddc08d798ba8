/* SPDX-License-Identifier: Apache-2.0 */
/* Stage "screen": choices that measuring alone cannot decide are compared inside the model, all at once.
 *
 * Every trial is a route in which half of the open choices are the other way. Each trial tells of all of
 * them, so N choices cost little more than one (search notes 6.3: eight times fewer runs than one at a time
 * for 15, thirty times for 63). What a choice takes in context corrects its cost, and the solver is asked
 * again.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "tune/tuner_internal.h"

/* Of the time that profiling leaves; the race and the confirmation get the rest. */
#define SCREEN_SHARE 0.45
/* Open: a change that should cost at most this share of the route, and a tactic that is alone at most this
 * much slower. Context moves tactics by some 5 % (CONTEXT_SD of the race). */
#define GAP_SHARE 0.02
#define GAP_REL 0.15
/* Fewer pairs than this tell nothing beside the race. */
#define LEAST_PAIRS 8u
/* Pairs beyond these bring the error of an effect below 0.1 % at a spread of 0.7 %. */
#define MOST_PAIRS 192u
#define POLISH_BLOCKS 5u
#define OTHER_ROUTES 12u
#define ROUNDS_MAX 3u
/* Blocks that compare the best route by times alone with the default, and what counts. */
#define START_BLOCKS 5u
#define START_MARGIN 0.01
#define KNOB_GAP 0.002 /* as if flips of knobs cost this share: they come after likely gains */

typedef struct round {
    wf_base_route_t base;
    wf_arena_t arena;
    wf_factors_t factors;
    double base_ns;
} round_t;

/* ---- Which choices are open ---- */

static int compare_moves(const void *a, const void *b)
{
    const wf_move_t *x = a, *y = b;
    if (x->predicted_ns != y->predicted_ns)
        return x->predicted_ns < y->predicted_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool was_screened(const wf_tuner_t *tuner, const wf_move_t *move)
{
    for (size_t i = 0; i < tuner->screened.count; i++) {
        if (strcmp(tuner->screened.items[i].name, move->name) == 0)
            return true;
    }
    return false;
}

/* Routes with other layouts or other fusion, as one move each. */
static wf_status_t add_other_routes(wf_tuner_t *tuner, round_t *round, double route_ns, wf_moves_t *moves)
{
    wf_job_t *job = tuner->job;
    wf_route_t routes[OTHER_ROUTES];
    size_t count;
    if (job->part_count != 1)
        return WF_OK;
    WF_TRY(wf_space_solve_k(job->parts[0].space, OTHER_ROUTES, routes, &count));
    wf_status_t status = WF_OK;
    for (size_t r = 0; r < count; r++) {
        wf_move_t *move = NULL;
        const char *name;
        if (status == WF_OK && routes[r].cost_ns - round->base.routes[0].cost_ns < GAP_SHARE * route_ns) {
            status = wf_arena_format(&round->arena, &name, "layouts or fusion, change %zu", r);
            if (status == WF_OK)
                status = wf_move_between(&round->base, &routes[r], name, job, &round->arena, &move);
            if (status == WF_OK && move != NULL)
                status = wf_vec_push(tuner->allocator, moves, move);
        }
        wf_route_deinit(&routes[r]);
    }
    return status;
}

/* The moves that go together, those first that should cost least. */
static void keep_compatible(wf_moves_t *moves, size_t most)
{
    size_t kept = 0;
    for (size_t m = 0; m < moves->count && kept < most; m++) {
        bool fits = true;
        for (size_t k = 0; k < kept; k++)
            fits = fits && wf_moves_compatible(&moves->items[k], &moves->items[m]);
        if (fits)
            moves->items[kept++] = moves->items[m];
    }
    moves->count = kept;
}

static wf_status_t list_moves(wf_tuner_t *tuner, round_t *round, wf_moves_t *out_moves)
{
    double route_ns = 0;
    for (size_t p = 0; p < tuner->job->part_count; p++)
        route_ns += round->base.routes[p].cost_ns;
    wf_move_limits_t limits = {.gap_share = GAP_SHARE,
                               .gap_rel = GAP_REL,
                               .per_problem = 3,
                               .knobs = true,
                               .fixed_knobs = tuner->fixed_knobs};
    WF_TRY(wf_moves_list(&round->base, tuner->job, &limits, &round->arena, tuner->allocator, out_moves));
    WF_TRY(add_other_routes(tuner, round, route_ns, out_moves));
    size_t kept = 0;
    for (size_t m = 0; m < out_moves->count; m++) {
        wf_move_t *move = &out_moves->items[m];
        if (move->knob != SIZE_MAX)
            move->predicted_ns = KNOB_GAP * route_ns;
        if (!was_screened(tuner, move))
            out_moves->items[kept++] = *move;
    }
    out_moves->count = kept;
    if (kept > 1)
        wf_sort(out_moves->items, kept, sizeof *out_moves->items, compare_moves);
    return WF_OK;
}

/* ---- What was seen ---- */

/* The costs of tactics as they are inside the model, for the solver. */
static void correct_costs(wf_tuner_t *tuner, const round_t *round, const wf_screen_result_t *result)
{
    for (size_t f = 0; f < round->factors.value_counts.count; f++) {
        const wf_move_t *move = &round->factors.moves.items[round->factors.first.items[f]];
        double seen_ns = result->effects[f].shrunk * round->base_ns;
        if (move->problem == NULL || result->failed[f] || move->added_count == 0)
            continue;
        const wf_move_item_t *added = &move->added[0];
        const wf_space_t *space = tuner->job->parts[added->part].space;
        const wf_group_t *group = &space->groups.items[added->item.group];
        const wf_topic_t *topic = wf_profile_topic(&tuner->profile, space, group->problem);
        size_t c = topic != NULL ? wf_topic_find(topic, move->tactic) : 0;
        if (topic == NULL || c == topic->choice_count)
            continue;
        double off_ns = (seen_ns - move->predicted_ns) / (double)move->added_count;
        wf_profile_correct(&tuner->profile, move->problem, move->tactic,
                           topic->choices[c].context_ns + off_ns);
    }
    wf_profile_apply(&tuner->profile, tuner->job, false);
}

static wf_status_t keep_effects(wf_tuner_t *tuner, const round_t *round, const wf_screen_result_t *result)
{
    json_t *list = json_array();
    for (size_t f = 0; f < round->factors.value_counts.count; f++) {
        const wf_move_t *move = &round->factors.moves.items[round->factors.first.items[f]];
        wf_screened_t row = {.predicted_ns = move->predicted_ns,
                             .effect = result->effects[f],
                             .kept = result->on[f],
                             .failed = result->failed[f],
                             .pair_count = result->pair_count,
                             .problem = move->problem,
                             .tactic = move->tactic};
        WF_TRY(wf_arena_text(&tuner->arena, move->name, strlen(move->name), &row.name));
        WF_TRY(wf_vec_push(tuner->allocator, &tuner->screened, &row));
        (void)json_array_append_new(list, json_pack("{s:s s:f s:f s:f s:b}", "change", row.name, "effect",
                                                    row.effect.log_ratio, "se", row.effect.se, "shrunk",
                                                    row.effect.shrunk, "kept", row.kept));
    }
    wf_tuner_record(tuner, json_pack("{s:s s:o s:f s:I}", "type", "screen", "effects", list, "r2", result->r2,
                                     "pairs", (json_int_t)result->pair_count));
    return WF_OK;
}

/* The accepted set is what the next round starts from, and a finalist. */
static wf_status_t accept(wf_tuner_t *tuner, const round_t *round, const wf_search_t *search)
{
    wf_route_t *routes;
    wf_knobs_t knobs;
    WF_TRY(wf_factors_apply(tuner, &round->factors, search->best, &routes, &knobs));
    if (!isfinite(routes[0].cost_ns)) {
        wf_job_routes_free(tuner->job, routes);
        return WF_OK;
    }
    return wf_candidate_set(&tuner->found, tuner->job, routes, &knobs);
}

static size_t accepted_count(const wf_search_t *search)
{
    size_t count = 0;
    for (size_t f = 0; f < search->factor_count; f++)
        count += search->best[f] != 0;
    return count;
}

/* ---- One round ---- */

static wf_status_t run_search(wf_tuner_t *tuner, round_t *round, size_t pairs, bool *out_changed)
{
    wf_search_t search;
    wf_screen_result_t result;
    size_t n = round->factors.value_counts.count;
    WF_TRY(wf_search_init(&search, n, round->factors.value_counts.items, wf_factors_measure, tuner,
                          tuner->options->seed + tuner->request_count++, tuner->allocator));
    search.noise_sd = tuner->aa_sd;
    if (tuner->options->trial_limit != 0)
        search.trial_limit = (size_t)(tuner->options->trial_limit -
                                      WF_MIN(tuner->trials.linked, tuner->options->trial_limit - 1));
    tuner->factors = &round->factors;
    wf_status_t status = wf_search_screen(&search, pairs, POLISH_BLOCKS, &result);
    tuner->factors = NULL;
    if (status == WF_OK)
        status = keep_effects(tuner, round, &result);
    if (status == WF_OK && result.pair_count >= LEAST_PAIRS)
        correct_costs(tuner, round, &result);
    *out_changed = status == WF_OK && accepted_count(&search) > 0;
    if (*out_changed)
        status = accept(tuner, round, &search);
    if (status == WF_OK) {
        wf_tuner_tell(tuner, WF_TUNE_TRIAL, 0, tuner->trials.linked, 0,
                      "%zu open choices in %zu pairs of routes: %zu kept, %+.2f %% together", n,
                      result.pair_count, accepted_count(&search), 100 * (exp(search.best_log) - 1));
    }
    wf_search_deinit(&search);
    return status;
}

/* *out_again: something was accepted, and there may be more. */
static wf_status_t run_round(wf_tuner_t *tuner, round_t *round, double until_s, bool *out_again)
{
    wf_moves_t moves;
    bool ready;
    *out_again = false;
    WF_TRY(wf_trials_begin(tuner, &round->base, &ready));
    wf_status_t status = list_moves(tuner, round, &moves);
    double trials = (until_s - wf_tuner_elapsed_s(tuner)) / wf_trials_each_s(tuner) - POLISH_BLOCKS;
    if (tuner->options->trial_limit != 0)
        trials =
            fmin(trials, (double)tuner->options->trial_limit - (double)tuner->trials.linked - POLISH_BLOCKS);
    size_t pairs = trials > 0 ? (size_t)(trials / 2) : 0;
    size_t most = WF_SCREEN_FACTORS_MAX;
    while (most > 0 && wf_screen_rows(most) > pairs)
        most /= 2;
    if (status == WF_OK)
        keep_compatible(&moves, most);
    if (!ready || moves.count == 0 || pairs < LEAST_PAIRS || status != WF_OK) {
        wf_vec_deinit(tuner->allocator, &moves);
        return status;
    }
    size_t rows = wf_screen_rows(moves.count);
    WF_TRY(wf_factors_make(tuner, &round->base, &moves, true, most, &round->factors));
    round->factors.until_s = until_s;
    round->base_ns = tuner->default_ns;
    status = run_search(tuner, round, WF_MAX(WF_MIN(pairs, (size_t)MOST_PAIRS), rows), out_again);
    wf_factors_deinit(tuner, &round->factors);
    return status;
}

/* The best route by times alone may be slow as a whole: one step of a source that needs libgomp moves every
 * step to its threads, which no sum of steps knows. The default is then the better place to start from. */
static wf_status_t is_better_start(wf_tuner_t *tuner, const wf_route_t *routes, double until_s,
                                   bool *out_better)
{
    wf_candidate_t *start = wf_tuner_start(tuner);
    wf_base_route_t base = {routes, &tuner->job->knobs};
    wf_route_t *alone[1] = {start->routes};
    double logs[START_BLOCKS];
    size_t count = 0;
    bool ready, over = false;
    *out_better = false;
    WF_TRY(wf_trials_begin(tuner, &base, &ready));
    while (ready && !over && count < START_BLOCKS) {
        double ns, base_ns;
        WF_TRY(wf_trials_block(tuner, alone, &start->knobs, 1, until_s, &ns, &base_ns, &over));
        if (!isfinite(ns) || !isfinite(base_ns))
            break;
        logs[count++] = log(ns / base_ns);
    }
    wf_trials_end(tuner);
    *out_better = count > 0 && wf_stats_median(logs, count) < -START_MARGIN;
    return WF_OK;
}

wf_status_t wf_stage_screen(wf_tuner_t *tuner)
{
    double room_s = wf_tuner_left_s(tuner) - wf_tuner_reserve_s(tuner);
    double until_s = wf_tuner_elapsed_s(tuner) + SCREEN_SHARE * room_s;
    wf_route_t *routes = NULL;
    if (tuner->stop_asked || SCREEN_SHARE * room_s < 2 * LEAST_PAIRS * wf_trials_each_s(tuner))
        return WF_OK;
    wf_tuner_stage(tuner, "screen");
    WF_TRY(wf_job_solve(tuner->job, &routes));
    bool again = true, start_better = false;
    wf_status_t status = is_better_start(tuner, routes, until_s, &start_better);
    const wf_route_t *first = start_better ? wf_tuner_start(tuner)->routes : routes;
    for (size_t r = 0; status == WF_OK && again && r < ROUNDS_MAX && !tuner->stop_asked; r++) {
        wf_candidate_t before = tuner->found;
        round_t round = {.base = {before.routes != NULL ? before.routes : first,
                                  before.routes != NULL ? &before.knobs : &tuner->job->knobs}};
        wf_candidate_init(&tuner->found, "screened", tuner->allocator);
        wf_arena_init(&round.arena, tuner->allocator);
        status = run_round(tuner, &round, until_s, &again);
        wf_trials_end(tuner);
        wf_arena_deinit(&round.arena);
        if (tuner->found.routes != NULL) {
            wf_candidate_deinit(&before, tuner->job);
        } else {
            wf_candidate_deinit(&tuner->found, tuner->job);
            tuner->found = before;
        }
    }
    wf_job_routes_free(tuner->job, routes);
    return status;
}
