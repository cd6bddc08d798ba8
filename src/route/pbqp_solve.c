/* SPDX-License-Identifier: Apache-2.0 */
/* Solving a PBQP: the exact run, or RN with a local search, and min-marginals.
 *
 * The nodes that RN fixed form a cutset: with their labels given, the rest is solved exactly. The local
 * search walks over labels of the cutset, one node at a time, and so searches a neighbourhood that is
 * exponential in the other nodes.
 */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "route/pbqp_internal.h"

/* Sums that the local search may spend: 0.35 s at 2.3 ns (pbqp_eliminate.c). */
#define SEARCH_MAX_SUMS ((uint64_t)150000000)

/* ---- Heuristic problems ---- */

static double finite_max(const double *costs, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isinf(costs[i])) {
            most = fmax(most, fabs(costs[i]));
        }
    }
    return most;
}

static void replace_infinity(const double *costs, size_t count, double penalty, double *out_costs)
{
    for (size_t i = 0; i < count; i++) {
        out_costs[i] = isinf(costs[i]) ? penalty : costs[i];
    }
}

/* A copy in which each infinity costs more than any finite solution, so that RN and the search see how many
 * are left. */
static wf_status_t penalised_copy(const wf_pbqp_t *pbqp, wf_pbqp_t *copy, double *out_penalty)
{
    double penalty = 1;
    size_t entries_max = 0;
    for (size_t n = 0; n < pbqp->nodes.count; n++) {
        const wf_pbqp_node_t *node = &pbqp->nodes.items[n];
        penalty += 2 * finite_max(node->costs, node->label_count);
        entries_max = WF_MAX(entries_max, node->label_count);
    }
    for (size_t e = 0; e < pbqp->edges.count; e++) {
        const wf_pbqp_edge_t *edge = &pbqp->edges.items[e];
        size_t entries =
            (size_t)pbqp->nodes.items[edge->u].label_count * pbqp->nodes.items[edge->v].label_count;
        penalty += 2 * finite_max(edge->costs, entries);
        entries_max = WF_MAX(entries_max, entries);
    }
    *out_penalty = penalty;
    double *costs;
    WF_TRY(wf_alloc(pbqp->allocator, entries_max, sizeof *costs, &costs));
    wf_status_t status = WF_OK;
    for (size_t n = 0; status == WF_OK && n < pbqp->nodes.count; n++) {
        const wf_pbqp_node_t *node = &pbqp->nodes.items[n];
        uint32_t id;
        replace_infinity(node->costs, node->label_count, penalty, costs);
        status = wf_pbqp_add_node(copy, costs, node->label_count, &id);
    }
    for (size_t e = 0; status == WF_OK && e < pbqp->edges.count; e++) {
        const wf_pbqp_edge_t *edge = &pbqp->edges.items[e];
        size_t entries =
            (size_t)pbqp->nodes.items[edge->u].label_count * pbqp->nodes.items[edge->v].label_count;
        replace_infinity(edge->costs, entries, penalty, costs);
        status = wf_pbqp_add_edge(copy, edge->u, edge->v, costs);
    }
    wf_free(pbqp->allocator, costs, entries_max, sizeof *costs);
    return status;
}

/* Improves the labels of the cutset from its node `first` on, one at a time, everything else being solved for
 * each; *out_complete when every label of every such node was tried without a further RN since the last
 * improvement. */
static wf_status_t search_cutset(const wf_pbqp_t *copy, wf_pbqp_cutset_t *cutset, size_t first, double *cost,
                                 bool *out_complete)
{
    uint64_t sums = 0;
    size_t unchanged = 0, free_count = cutset->count - first;
    *out_complete = true;
    for (size_t turn = 0; unchanged < free_count; turn = (turn + 1) % free_count) {
        size_t c = first + turn;
        uint32_t best = cutset->labels[c], start = best;
        for (uint32_t label = 0; label < copy->nodes.items[cutset->nodes[c]].label_count; label++) {
            if (label == start) {
                continue;
            }
            if (sums > SEARCH_MAX_SUMS) {
                cutset->labels[c] = best;
                *out_complete = false;
                return WF_OK;
            }
            cutset->labels[c] = label;
            wf_pbqp_run_t run = {.given = cutset, .keep = WF_PBQP_NONE, .may_fix = true};
            WF_TRY(wf_pbqp_run(copy, &run));
            sums += run.sums;
            *out_complete = *out_complete && run.fixed_count == 0;
            if (run.cost < *cost) {
                *cost = run.cost;
                best = label;
            }
        }
        cutset->labels[c] = best;
        unchanged = best == start ? unchanged + 1 : 1;
    }
    return WF_OK;
}

/* RN, then the search. `cutset` (room for every node) holds labels that are given, and gets those that RN
 * fixed. */
static wf_status_t solve_heuristic(const wf_pbqp_t *copy, wf_pbqp_cutset_t *cutset, uint32_t *out_labels,
                                   bool *out_exact)
{
    const wf_pbqp_cutset_t given = *cutset;
    wf_pbqp_run_t first = {.given = &given, .keep = WF_PBQP_NONE, .chosen = cutset, .may_fix = true};
    WF_TRY(wf_pbqp_run(copy, &first));
    double cost = first.cost;
    bool complete;
    WF_TRY(search_cutset(copy, cutset, given.count, &cost, &complete));
    *out_exact = complete && cutset->count - given.count <= 1;
    wf_pbqp_run_t last = {.given = cutset, .keep = WF_PBQP_NONE, .may_fix = true, .labels = out_labels};
    return wf_pbqp_run(copy, &last);
}

/* The penalised copy with its cutset solved; the caller frees both with heuristic_free, on failure too. */
typedef struct heuristic {
    wf_pbqp_t *copy;
    wf_pbqp_cutset_t cutset;
    double penalty;
    bool exact;
} heuristic_t;

static void heuristic_free(const wf_pbqp_t *pbqp, heuristic_t *heuristic)
{
    wf_pbqp_destroy(heuristic->copy);
    wf_free(pbqp->allocator, heuristic->cutset.nodes, pbqp->nodes.count, sizeof *heuristic->cutset.nodes);
    wf_free(pbqp->allocator, heuristic->cutset.labels, pbqp->nodes.count, sizeof *heuristic->cutset.labels);
}

static wf_status_t heuristic_make(const wf_pbqp_t *pbqp, const wf_pbqp_cutset_t *given,
                                  heuristic_t *heuristic, uint32_t *out_labels)
{
    size_t count = pbqp->nodes.count;
    WF_TRY(wf_pbqp_create(pbqp->allocator, &heuristic->copy));
    WF_TRY(penalised_copy(pbqp, heuristic->copy, &heuristic->penalty));
    WF_TRY(wf_alloc(pbqp->allocator, count, sizeof *heuristic->cutset.nodes, &heuristic->cutset.nodes));
    WF_TRY(wf_alloc(pbqp->allocator, count, sizeof *heuristic->cutset.labels, &heuristic->cutset.labels));
    if (given != NULL) {
        memcpy(heuristic->cutset.nodes, given->nodes, given->count * sizeof *given->nodes);
        memcpy(heuristic->cutset.labels, given->labels, given->count * sizeof *given->labels);
        heuristic->cutset.count = given->count;
    }
    return solve_heuristic(heuristic->copy, &heuristic->cutset, out_labels, &heuristic->exact);
}

static wf_status_t solve_given(const wf_pbqp_t *pbqp, const wf_pbqp_cutset_t *given, uint32_t *out_labels,
                               wf_pbqp_solution_t *out_solution)
{
    *out_solution = (wf_pbqp_solution_t){.exact = true};
    wf_pbqp_run_t run = {.given = given, .keep = WF_PBQP_NONE, .labels = out_labels};
    WF_TRY(wf_pbqp_run(pbqp, &run));
    if (run.stopped) {
        heuristic_t heuristic = {0};
        wf_status_t status = heuristic_make(pbqp, given, &heuristic, out_labels);
        out_solution->exact = heuristic.exact;
        out_solution->heuristic_nodes =
            (uint32_t)(heuristic.cutset.count - (given != NULL ? given->count : 0));
        heuristic_free(pbqp, &heuristic);
        WF_TRY(status);
    }
    out_solution->cost = wf_pbqp_cost(pbqp, out_labels);
    return WF_OK;
}

wf_status_t wf_pbqp_solve(const wf_pbqp_t *pbqp, uint32_t *out_labels, wf_pbqp_solution_t *out_solution)
{
    return solve_given(pbqp, NULL, out_labels, out_solution);
}

wf_status_t wf_pbqp_solve_with(const wf_pbqp_t *pbqp, uint32_t node, uint32_t label, uint32_t *out_labels,
                               wf_pbqp_solution_t *out_solution)
{
    assert(node < pbqp->nodes.count && label < pbqp->nodes.items[node].label_count);
    const wf_pbqp_cutset_t given = {.nodes = &node, .labels = &label, .count = 1};
    return solve_given(pbqp, &given, out_labels, out_solution);
}

/* With the cutset of a solved problem given, its labels apart from the node's own. */
static wf_status_t marginals_heuristic(const wf_pbqp_t *pbqp, uint32_t node, double *out_costs)
{
    uint32_t *labels;
    WF_TRY(wf_alloc(pbqp->allocator, pbqp->nodes.count, sizeof *labels, &labels));
    heuristic_t heuristic = {0};
    wf_status_t status = heuristic_make(pbqp, NULL, &heuristic, labels);
    if (status == WF_OK) {
        wf_pbqp_run_t run = {
            .given = &heuristic.cutset, .keep = node, .may_fix = true, .kept_costs = out_costs};
        status = wf_pbqp_run(heuristic.copy, &run);
    }
    for (uint32_t label = 0; status == WF_OK && label < pbqp->nodes.items[node].label_count; label++) {
        if (out_costs[label] >= heuristic.penalty / 2) {
            out_costs[label] = INFINITY; /* finite solutions cost less than half a penalty */
        }
    }
    heuristic_free(pbqp, &heuristic);
    wf_free(pbqp->allocator, labels, pbqp->nodes.count, sizeof *labels);
    return status;
}

wf_status_t wf_pbqp_min_marginals(const wf_pbqp_t *pbqp, uint32_t node, double *out_costs)
{
    assert(node < pbqp->nodes.count);
    wf_pbqp_run_t run = {.keep = node, .kept_costs = out_costs};
    WF_TRY(wf_pbqp_run(pbqp, &run));
    return run.stopped ? marginals_heuristic(pbqp, node, out_costs) : WF_OK;
}

/* The cutset's own labels are asked one node at a time, the others at once. */
static wf_status_t all_marginals_heuristic(const wf_pbqp_t *pbqp, double *out_costs)
{
    size_t count = pbqp->nodes.count, total = 0;
    uint32_t *labels;
    WF_TRY(wf_alloc(pbqp->allocator, count, sizeof *labels, &labels));
    heuristic_t heuristic = {0};
    wf_status_t status = heuristic_make(pbqp, NULL, &heuristic, labels);
    if (status == WF_OK) {
        wf_pbqp_run_t run = {
            .given = &heuristic.cutset, .keep = WF_PBQP_NONE, .may_fix = true, .marginals = out_costs};
        status = wf_pbqp_run(heuristic.copy, &run);
    }
    for (size_t n = 0; n < count; n++) {
        for (size_t c = 0; status == WF_OK && c < heuristic.cutset.count; c++) {
            if (heuristic.cutset.nodes[c] == n) {
                wf_pbqp_run_t run = {.given = &heuristic.cutset,
                                     .keep = (uint32_t)n,
                                     .may_fix = true,
                                     .kept_costs = out_costs + total};
                status = wf_pbqp_run(heuristic.copy, &run);
            }
        }
        total += pbqp->nodes.items[n].label_count;
    }
    for (size_t i = 0; status == WF_OK && i < total; i++) {
        if (out_costs[i] >= heuristic.penalty / 2) {
            out_costs[i] = INFINITY;
        }
    }
    heuristic_free(pbqp, &heuristic);
    wf_free(pbqp->allocator, labels, count, sizeof *labels);
    return status;
}

wf_status_t wf_pbqp_all_min_marginals(const wf_pbqp_t *pbqp, double *out_costs)
{
    wf_pbqp_run_t run = {.keep = WF_PBQP_NONE, .marginals = out_costs};
    WF_TRY(wf_pbqp_run(pbqp, &run));
    return run.stopped ? all_marginals_heuristic(pbqp, out_costs) : WF_OK;
}
