/* SPDX-License-Identifier: Apache-2.0 */
/* Space: the best route, and the next best ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "route/selection.h"

static wf_status_t route_make(const wf_selection_t *selection, const uint32_t *labels,
                              const wf_pbqp_solution_t *solution, wf_route_t *out_route)
{
    const wf_graph_t *graph = selection->graph;
    *out_route = (wf_route_t){.allocator = selection->space->allocator};
    if (isinf(solution->cost)) {
        return WF_ERROR(INTERNAL, "no route has a finite cost: some layouts cannot be converted");
    }
    size_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        count = 0;
        for (size_t i = 0; i < graph->order.count; i++) {
            uint32_t option = selection->labels[selection->label_first[i] + labels[i]];
            if (wf_group_last(wf_option_group(selection, option)) != graph->order.items[i]) {
                continue;
            }
            if (pass == 1) {
                const wf_option_t *o = &selection->options.items[option];
                out_route->items[count] = (wf_route_item_t){.group = o->group, .choice = o->choice};
            }
            count++;
        }
        if (pass == 0) {
            WF_TRY(wf_alloc(out_route->allocator, count, sizeof *out_route->items, &out_route->items));
        }
    }
    out_route->count = count;
    out_route->cost_ns = solution->cost;
    out_route->exact = solution->exact && !selection->capped;
    return WF_OK;
}

wf_status_t wf_space_solve(wf_space_t *space, wf_route_t *out_route)
{
    *out_route = (wf_route_t){.allocator = space->allocator};
    wf_selection_t selection;
    wf_status_t status = wf_selection_init(&selection, space);
    uint32_t *labels = NULL;
    if (status == WF_OK) {
        status =
            wf_arena_alloc(&selection.arena, wf_pbqp_node_count(selection.pbqp), sizeof *labels, &labels);
    }
    wf_pbqp_solution_t solution;
    if (status == WF_OK) {
        status = wf_pbqp_solve(selection.pbqp, labels, &solution);
    }
    if (status == WF_OK) {
        status = route_make(&selection, labels, &solution, out_route);
    }
    wf_selection_deinit(&selection);
    return status;
}

/* ---- The next best ---- */

/* A label that is not part of the best route, at the root of its group, with the least cost of a route that
 * has it. */
typedef struct candidate {
    double cost_ns;
    uint32_t node, label;
} candidate_t;

static int compare_candidates(const void *a, const void *b)
{
    const candidate_t *x = a, *y = b;
    if (x->cost_ns != y->cost_ns) {
        return x->cost_ns < y->cost_ns ? -1 : 1;
    }
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    return x->label < y->label ? -1 : x->label > y->label;
}

/* The candidates, cheapest first, in an array of as many as there are labels. */
static wf_status_t list_candidates(wf_selection_t *selection, const uint32_t *labels, candidate_t **out_items,
                                   size_t *out_count)
{
    const wf_graph_t *graph = selection->graph;
    size_t nodes = graph->order.count, label_count = selection->label_first[nodes];
    double *marginals;
    WF_TRY(wf_arena_alloc(&selection->arena, wf_pbqp_label_count(selection->pbqp), sizeof *marginals,
                          &marginals));
    WF_TRY(wf_arena_alloc(&selection->arena, label_count, sizeof **out_items, out_items));
    WF_TRY(wf_pbqp_all_min_marginals(selection->pbqp, marginals));
    *out_count = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        for (uint32_t l = selection->label_first[i]; l < selection->label_first[i + 1]; l++) {
            bool root = wf_option_group(selection, selection->labels[l])->nodes[0] == graph->order.items[i];
            uint32_t label = l - selection->label_first[i];
            if (root && label != labels[i] && !isinf(marginals[l])) {
                (*out_items)[(*out_count)++] =
                    (candidate_t){.cost_ns = marginals[l], .node = i, .label = label};
            }
        }
    }
    if (*out_count > 1) {
        wf_sort(*out_items, *out_count, sizeof **out_items, compare_candidates);
    }
    return WF_OK;
}

static bool same_route(const wf_route_t *a, const wf_route_t *b)
{
    return a->count == b->count && memcmp(a->items, b->items, a->count * sizeof *a->items) == 0;
}

/* Solves with the candidate's label given and keeps the route when it is a new one. */
static wf_status_t try_candidate(wf_selection_t *selection, const candidate_t *candidate, uint32_t *labels,
                                 wf_route_t *routes, size_t *count)
{
    wf_pbqp_solution_t solution;
    WF_TRY(wf_pbqp_solve_with(selection->pbqp, candidate->node, candidate->label, labels, &solution));
    if (isinf(solution.cost)) {
        return WF_OK;
    }
    wf_route_t *route = &routes[*count];
    WF_TRY(route_make(selection, labels, &solution, route));
    for (size_t r = 0; r < *count; r++) {
        if (same_route(route, &routes[r])) {
            wf_route_deinit(route);
            return WF_OK;
        }
    }
    ++*count;
    return WF_OK;
}

static wf_status_t solve_k(wf_selection_t *selection, size_t count, wf_route_t *routes, size_t *out_count)
{
    uint32_t *labels;
    WF_TRY(wf_arena_alloc(&selection->arena, wf_pbqp_node_count(selection->pbqp), sizeof *labels, &labels));
    wf_pbqp_solution_t solution;
    WF_TRY(wf_pbqp_solve(selection->pbqp, labels, &solution));
    WF_TRY(route_make(selection, labels, &solution, &routes[0]));
    *out_count = 1;
    candidate_t *candidates;
    size_t candidate_count;
    WF_TRY(list_candidates(selection, labels, &candidates, &candidate_count));
    for (size_t c = 0; c < candidate_count && *out_count < count; c++) {
        WF_TRY(try_candidate(selection, &candidates[c], labels, routes, out_count));
    }
    return WF_OK;
}

wf_status_t wf_space_solve_k(wf_space_t *space, size_t count, wf_route_t *out_routes, size_t *out_count)
{
    *out_count = 0;
    for (size_t r = 0; r < count; r++) {
        out_routes[r] = (wf_route_t){.allocator = space->allocator};
    }
    if (count == 0) {
        return WF_OK;
    }
    wf_selection_t selection;
    wf_status_t status = wf_selection_init(&selection, space);
    if (status == WF_OK) {
        status = solve_k(&selection, count, out_routes, out_count);
    }
    wf_selection_deinit(&selection);
    if (status != WF_OK) {
        for (size_t r = 0; r < count; r++) {
            wf_route_deinit(&out_routes[r]);
        }
        *out_count = 0;
    }
    return status;
}
