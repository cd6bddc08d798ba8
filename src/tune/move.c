/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/move.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"

/* ---- Tactics ---- */

static wf_space_problem_t *item_problem(wf_job_t *job, uint32_t part, const wf_route_item_t *item)
{
    wf_space_t *space = job->parts[part].space;
    return &space->problems.items[space->groups.items[item->group].problem];
}

static bool is_usable(const wf_choice_t *choice)
{
    return !choice->banned && (!choice->dominated || choice->measured);
}

static const char *item_name(const wf_job_t *job, uint32_t part, const wf_route_item_t *item)
{
    const wf_space_t *space = job->parts[part].space;
    const wf_group_t *group = &space->groups.items[item->group];
    const wf_node_t *node = wf_graph_node(space->graph, group->nodes[group->node_count - 1]);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE)
            return wf_graph_value(space->graph, node->outputs[i])->name;
    }
    return "";
}

/* Items of all parts whose problem has this text and whose choice is this tactic. */
static wf_status_t collect_uses(const wf_base_route_t *base, wf_job_t *job, const char *text,
                                const char *tactic, wf_arena_t *arena, wf_move_item_t **out_items,
                                size_t *out_count)
{
    for (int pass = 0; pass < 2; pass++) {
        size_t count = 0;
        for (uint32_t p = 0; p < job->part_count; p++) {
            for (size_t i = 0; i < base->routes[p].count; i++) {
                const wf_route_item_t *item = &base->routes[p].items[i];
                const wf_space_problem_t *entry = item_problem(job, p, item);
                if (strcmp(entry->problem->text, text) != 0 ||
                    strcmp(entry->choices.items[item->choice].tactic_id, tactic) != 0)
                    continue;
                if (pass == 1)
                    (*out_items)[count] = (wf_move_item_t){p, *item};
                count++;
            }
        }
        *out_count = count;
        if (pass == 0)
            WF_TRY(wf_arena_alloc(arena, count, sizeof **out_items, out_items));
    }
    return WF_OK;
}

/* The same items with another tactic; false in *out_fits when a part does not offer it in the same layouts.
 */
static wf_status_t swap_items(wf_job_t *job, const wf_move_t *move, wf_arena_t *arena,
                              wf_move_item_t **out_added, bool *out_fits)
{
    *out_fits = true;
    WF_TRY(wf_arena_alloc(arena, move->removed_count, sizeof **out_added, out_added));
    for (size_t i = 0; i < move->removed_count; i++) {
        const wf_move_item_t *from = &move->removed[i];
        const wf_space_problem_t *entry = item_problem(job, from->part, &from->item);
        uint32_t signature = entry->choices.items[from->item.choice].signature;
        bool found = false;
        for (uint32_t c = 0; c < entry->choices.count && !found; c++) {
            const wf_choice_t *choice = &entry->choices.items[c];
            found = choice->signature == signature && is_usable(choice) &&
                    strcmp(choice->tactic_id, move->tactic) == 0;
            if (found)
                (*out_added)[i] = (wf_move_item_t){from->part, {from->item.group, c}};
        }
        *out_fits = *out_fits && found;
    }
    return WF_OK;
}

typedef struct listing {
    const wf_base_route_t *base;
    wf_job_t *job;
    const wf_move_limits_t *limits;
    wf_arena_t *arena;
    wf_allocator_t allocator;
    wf_moves_t *moves;
    double route_ns;
} listing_t;

/* The usable choice with the present one's layouts that costs least above `after` (ties by index). */
static uint32_t next_choice(const wf_space_problem_t *entry, uint32_t present, double after_ns,
                            uint32_t after_index)
{
    uint32_t best = WF_NO_CHOICE;
    for (uint32_t c = 0; c < entry->choices.count; c++) {
        const wf_choice_t *choice = &entry->choices.items[c];
        if (c == present || choice->signature != entry->choices.items[present].signature ||
            !is_usable(choice))
            continue;
        bool later = choice->cost_ns > after_ns ||
                     (choice->cost_ns == after_ns && after_index != WF_NO_CHOICE && c > after_index);
        if (later && (best == WF_NO_CHOICE || choice->cost_ns < entry->choices.items[best].cost_ns))
            best = c;
    }
    return best;
}

static wf_status_t list_problem(listing_t *l, uint32_t part, const wf_route_item_t *item)
{
    const wf_space_problem_t *entry = item_problem(l->job, part, item);
    const wf_choice_t *present = &entry->choices.items[item->choice];
    wf_move_t move = {.knob = SIZE_MAX, .problem = entry->problem};
    WF_TRY(wf_arena_format(l->arena, &move.factor, "%s %s", entry->problem->text, present->tactic_id));
    WF_TRY(collect_uses(l->base, l->job, entry->problem->text, present->tactic_id, l->arena, &move.removed,
                        &move.removed_count));
    double after_ns = -1;
    uint32_t after = WF_NO_CHOICE;
    for (size_t n = 0; n < l->limits->per_problem; n++) {
        uint32_t c = next_choice(entry, item->choice, after_ns, after);
        bool fits;
        if (c == WF_NO_CHOICE)
            return WF_OK;
        const wf_choice_t *choice = &entry->choices.items[c];
        after_ns = choice->cost_ns;
        after = c;
        double gap_ns = choice->cost_ns - present->cost_ns;
        if (gap_ns * (double)move.removed_count > l->limits->gap_share * l->route_ns ||
            gap_ns > l->limits->gap_rel * present->cost_ns)
            return WF_OK;
        move.tactic = choice->tactic_id;
        move.predicted_ns = gap_ns * (double)move.removed_count;
        WF_TRY(swap_items(l->job, &move, l->arena, &move.added, &fits));
        move.added_count = move.removed_count;
        WF_TRY(wf_arena_format(l->arena, &move.name, "%s: %s for %s", item_name(l->job, part, item),
                               choice->tactic_id, present->tactic_id));
        if (fits)
            WF_TRY(wf_vec_push(l->allocator, l->moves, &move));
    }
    return WF_OK;
}

/* True when an earlier item has the same problem and tactic. */
static bool was_listed(const listing_t *l, uint32_t part, size_t index)
{
    const wf_route_item_t *item = &l->base->routes[part].items[index];
    const wf_space_problem_t *entry = item_problem(l->job, part, item);
    for (uint32_t p = 0; p <= part; p++) {
        size_t end = p < part ? l->base->routes[p].count : index;
        for (size_t i = 0; i < end; i++) {
            const wf_route_item_t *other = &l->base->routes[p].items[i];
            const wf_space_problem_t *their = item_problem(l->job, p, other);
            if (strcmp(their->problem->text, entry->problem->text) == 0 &&
                strcmp(their->choices.items[other->choice].tactic_id,
                       entry->choices.items[item->choice].tactic_id) == 0)
                return true;
        }
    }
    return false;
}

/* True when a step of the base route runs on libgomp's threads, and so the whole engine does. */
static bool uses_openmp(const listing_t *l)
{
    for (uint32_t p = 0; p < l->job->part_count; p++) {
        for (size_t i = 0; i < l->base->routes[p].count; i++) {
            const wf_route_item_t *item = &l->base->routes[p].items[i];
            const wf_choice_t *choice = &item_problem(l->job, p, item)->choices.items[item->choice];
            const wf_source_t *source;
            void *self;
            wf_status_t status = wf_backends_find(l->job->backends, choice->tactic_id, &source, &self);
            if (status == WF_OK && source->needs_openmp != NULL && source->needs_openmp(self))
                return true;
            wf_status_free(status);
        }
    }
    return false;
}

/* Threads of libgomp cannot be tied, and one thread has nothing to share. */
static bool knob_acts(const listing_t *l, const char *name)
{
    if (strncmp(name, "cpu.", 4) != 0)
        return true;
    return l->job->cpu.thread_count > 1 && !(strcmp(name, "cpu.pin") == 0 && uses_openmp(l));
}

static wf_status_t list_knobs(listing_t *l)
{
    for (size_t k = 0; k < wf_knob_count(); k++) {
        wf_knob_facts_t facts = wf_knob_facts(k);
        if ((facts.scope != WF_KNOB_ENGINE && facts.scope != WF_KNOB_RUN) || !knob_acts(l, facts.name) ||
            (l->limits->fixed_knobs != NULL && l->limits->fixed_knobs[k]))
            continue;
        bool value = !wf_knob_get(l->base->knobs, k);
        wf_move_t move = {.knob = k, .knob_value = value, .factor = facts.name};
        WF_TRY(wf_arena_format(l->arena, &move.name, "%s=%s", facts.name, value ? "on" : "off"));
        WF_TRY(wf_vec_push(l->allocator, l->moves, &move));
    }
    return WF_OK;
}

wf_status_t wf_moves_list(const wf_base_route_t *base, wf_job_t *job, const wf_move_limits_t *limits,
                          wf_arena_t *arena, wf_allocator_t allocator, wf_moves_t *out_moves)
{
    *out_moves = (wf_moves_t){0};
    listing_t l = {base, job, limits, arena, allocator, out_moves, 0};
    for (size_t p = 0; p < job->part_count; p++)
        l.route_ns += base->routes[p].cost_ns;
    for (uint32_t p = 0; p < job->part_count; p++) {
        for (size_t i = 0; i < base->routes[p].count; i++) {
            if (!was_listed(&l, p, i))
                WF_TRY(list_problem(&l, p, &base->routes[p].items[i]));
        }
    }
    return limits->knobs ? list_knobs(&l) : WF_OK;
}

/* ---- Layouts and fusion ---- */

static bool has_item(const wf_route_t *route, const wf_route_item_t *item)
{
    for (size_t i = 0; i < route->count; i++) {
        if (route->items[i].group == item->group && route->items[i].choice == item->choice)
            return true;
    }
    return false;
}

/* Items of `from` that `to` does not have. */
static wf_status_t difference(const wf_route_t *from, const wf_route_t *to, size_t part_count,
                              wf_arena_t *arena, wf_move_item_t **out_items, size_t *out_count)
{
    size_t most = 0;
    for (size_t p = 0; p < part_count; p++)
        most += from[p].count;
    *out_count = 0;
    WF_TRY(wf_arena_alloc(arena, most, sizeof **out_items, out_items));
    for (uint32_t p = 0; p < part_count; p++) {
        for (size_t i = 0; i < from[p].count; i++) {
            if (!has_item(&to[p], &from[p].items[i]))
                (*out_items)[(*out_count)++] = (wf_move_item_t){p, from[p].items[i]};
        }
    }
    return WF_OK;
}

wf_status_t wf_move_between(const wf_base_route_t *base, const wf_route_t *routes, const char *name,
                            wf_job_t *job, wf_arena_t *arena, wf_move_t **out_move)
{
    wf_move_t *move = NULL;
    *out_move = NULL;
    WF_TRY(wf_arena_alloc(arena, 1, sizeof *move, &move));
    *move = (wf_move_t){.name = name, .factor = name, .knob = SIZE_MAX};
    WF_TRY(difference(base->routes, routes, job->part_count, arena, &move->removed, &move->removed_count));
    WF_TRY(difference(routes, base->routes, job->part_count, arena, &move->added, &move->added_count));
    for (size_t p = 0; p < job->part_count; p++)
        move->predicted_ns += routes[p].cost_ns - base->routes[p].cost_ns;
    if (move->removed_count > 0)
        *out_move = move;
    return WF_OK;
}

/* ---- Sets of moves ---- */

bool wf_moves_compatible(const wf_move_t *a, const wf_move_t *b)
{
    if (strcmp(a->factor, b->factor) == 0)
        return false;
    for (size_t i = 0; i < a->removed_count; i++) {
        for (size_t j = 0; j < b->removed_count; j++) {
            if (a->removed[i].part == b->removed[j].part &&
                a->removed[i].item.group == b->removed[j].item.group)
                return false;
        }
    }
    return true;
}

/* Items of the moves that are on, of one part. */
static wf_status_t gather(const wf_move_t *const *moves, const bool *on, size_t move_count, uint32_t part,
                          bool added, wf_arena_t *arena, wf_route_item_t **out_items, size_t *out_count)
{
    for (int pass = 0; pass < 2; pass++) {
        size_t count = 0;
        for (size_t m = 0; m < move_count; m++) {
            size_t item_count = added ? moves[m]->added_count : moves[m]->removed_count;
            const wf_move_item_t *items = added ? moves[m]->added : moves[m]->removed;
            for (size_t i = 0; on[m] && i < item_count; i++) {
                if (items[i].part != part)
                    continue;
                if (pass == 1)
                    (*out_items)[count] = items[i].item;
                count++;
            }
        }
        *out_count = count;
        if (pass == 0)
            WF_TRY(wf_arena_alloc(arena, count, sizeof **out_items, out_items));
    }
    return WF_OK;
}

static wf_status_t apply_part(const wf_base_route_t *base, wf_job_t *job, const wf_move_t *const *moves,
                              const bool *on, size_t move_count, uint32_t part, wf_route_t *out_route)
{
    wf_arena_t arena;
    wf_route_item_t *removed = NULL, *added = NULL;
    size_t removed_count = 0, added_count = 0;
    wf_arena_init(&arena, job->allocator);
    wf_status_t status = gather(moves, on, move_count, part, false, &arena, &removed, &removed_count);
    if (status == WF_OK)
        status = gather(moves, on, move_count, part, true, &arena, &added, &added_count);
    if (status == WF_OK) {
        status = wf_route_replace(job->parts[part].space, &base->routes[part], removed, removed_count, added,
                                  added_count, out_route);
    }
    wf_arena_deinit(&arena);
    return status;
}

wf_status_t wf_moves_apply(const wf_base_route_t *base, wf_job_t *job, const wf_move_t *const *moves,
                           const bool *on, size_t move_count, wf_route_t **out_routes, wf_knobs_t *out_knobs)
{
    wf_route_t *routes = NULL;
    *out_routes = NULL;
    *out_knobs = *base->knobs;
    WF_TRY(wf_alloc(job->allocator, job->part_count, sizeof *routes, &routes));
    wf_status_t status = WF_OK;
    for (uint32_t p = 0; status == WF_OK && p < job->part_count; p++)
        status = apply_part(base, job, moves, on, move_count, p, &routes[p]);
    for (size_t m = 0; m < move_count; m++) {
        if (on[m] && moves[m]->knob != SIZE_MAX)
            wf_knob_put(out_knobs, moves[m]->knob, moves[m]->knob_value);
    }
    if (status == WF_OK)
        *out_routes = routes;
    else
        wf_job_routes_free(job, routes);
    return status;
}
