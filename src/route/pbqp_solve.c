/* SPDX-License-Identifier: Apache-2.0 */
/* Solving a PBQP by elimination.
 *
 * Eliminating a node replaces it and its factors by one factor over its neighbours: for each of their labels
 * the least cost of the node. The label that reaches it is kept (the policy), so that labels are read back in
 * reverse order once everything is eliminated. With one or two neighbours these are the rules R1 and R2;
 * three and four need tables of that many dimensions and are used while those are small. A node beyond that
 * is fixed to its most promising label (RN).
 *
 * The nodes that RN fixed form a cutset: with their labels given, the rest is solved exactly. The local
 * search walks over labels of the cutset, one node at a time, and so searches a neighbourhood that is
 * exponential in the other nodes.
 */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "route/pbqp_internal.h"

#define ARITY_MAX 4u
/* Result tables of three and four dimensions: at most 2^18 entries (2 MiB, the L2 cache of a core), and 2^24
 * sums. */
#define TABLE_MAX_ENTRIES ((size_t)1 << 18)
#define TABLE_MAX_SUMS ((size_t)1 << 24)
/* Once a run has spent this many sums (about 1.5 s), such tables are no longer made. */
#define EXACT_MAX_SUMS ((uint64_t)1 << 30)
/* Sums that the local search may spend: about 0.2 s (1.3 ns a sum on Zen 3, 2026-11-30). */
#define SEARCH_MAX_SUMS ((uint64_t)150000000)
/* What eliminating a node costs beside its sums, in sums. */
#define NODE_SUMS 128u
/* Lists longer than this are not scanned to the end: hubs with 10^5 neighbours must not make a solve
 * quadratic. */
#define SCAN_MAX 64u
/* A node with more factor slots than this has its degree counted only when they become fewer. */
#define DEGREE_SLOTS_MAX 24u

enum { BUCKET_MANY = ARITY_MAX + 1, BUCKET_COUNT, BUCKET_NONE };

typedef uint32_t link_t; /* factor * ARITY_MAX + slot */

typedef struct factor {
    const double *table; /* row-major over vars */
    double *owned;       /* the same, when it was made here */
    size_t entries;
    uint32_t arity;
    uint32_t vars[ARITY_MAX]; /* ascending */
    link_t next[ARITY_MAX], prev[ARITY_MAX];
} factor_t;

typedef struct var {
    double *costs;
    uint32_t label_count;
    link_t first;
    uint32_t slots; /* neighbours counted once per factor */
    uint32_t bucket, bucket_next, bucket_prev;
} var_t;

/* How an eliminated node picks its label from those of its neighbours. */
typedef struct record {
    uint32_t node;
    uint32_t rank; /* neighbours; a fixed node has none */
    uint32_t neighbours[ARITY_MAX];
    const uint16_t *policy;
} record_t;

typedef struct solver {
    const wf_pbqp_t *pbqp;
    wf_arena_t arena;
    var_t *vars;
    WF_VEC(factor_t) factors;
    uint32_t free_factor;
    uint32_t buckets[BUCKET_COUNT];
    record_t *records;
    size_t record_count;
    double constant;
    uint64_t sums; /* work done */
    double *sum_row, *least_row;
    size_t row_capacity;
} solver_t;

/* ---- Lists ---- */

static void bucket_remove(solver_t *solver, uint32_t node)
{
    var_t *var = &solver->vars[node];
    if (var->bucket == BUCKET_NONE) {
        return;
    }
    if (var->bucket_prev != WF_PBQP_NONE) {
        solver->vars[var->bucket_prev].bucket_next = var->bucket_next;
    } else {
        solver->buckets[var->bucket] = var->bucket_next;
    }
    if (var->bucket_next != WF_PBQP_NONE) {
        solver->vars[var->bucket_next].bucket_prev = var->bucket_prev;
    }
    var->bucket = BUCKET_NONE;
}

static void bucket_insert(solver_t *solver, uint32_t node, uint32_t bucket)
{
    var_t *var = &solver->vars[node];
    var->bucket = bucket;
    var->bucket_prev = WF_PBQP_NONE;
    var->bucket_next = solver->buckets[bucket];
    if (var->bucket_next != WF_PBQP_NONE) {
        solver->vars[var->bucket_next].bucket_prev = node;
    }
    solver->buckets[bucket] = node;
}

/* The node's distinct neighbours, ascending; their number, or ARITY_MAX + 1 when there are more. */
static uint32_t neighbours_of(const solver_t *solver, uint32_t node, uint32_t out_neighbours[ARITY_MAX])
{
    uint32_t count = 0;
    for (link_t link = solver->vars[node].first; link != WF_PBQP_NONE;) {
        const factor_t *factor = &solver->factors.items[link / ARITY_MAX];
        for (uint32_t s = 0; s < factor->arity; s++) {
            uint32_t other = factor->vars[s], at = 0;
            if (other == node) {
                continue;
            }
            while (at < count && out_neighbours[at] < other) {
                at++;
            }
            if (at < count && out_neighbours[at] == other) {
                continue;
            }
            if (count == ARITY_MAX) {
                return ARITY_MAX + 1;
            }
            memmove(&out_neighbours[at + 1], &out_neighbours[at], (count - at) * sizeof *out_neighbours);
            out_neighbours[at] = other;
            count++;
        }
        link = factor->next[link % ARITY_MAX];
    }
    return count;
}

static void bucket_update(solver_t *solver, uint32_t node)
{
    var_t *var = &solver->vars[node];
    if (var->bucket == BUCKET_NONE) {
        return; /* kept, or gone */
    }
    uint32_t neighbours[ARITY_MAX];
    uint32_t bucket = var->slots > DEGREE_SLOTS_MAX ? BUCKET_MANY : neighbours_of(solver, node, neighbours);
    if (bucket != var->bucket) {
        bucket_remove(solver, node);
        bucket_insert(solver, node, bucket);
    }
}

/* ---- Factors ---- */

static wf_status_t factor_new(solver_t *solver, const uint32_t *vars, uint32_t arity, size_t entries,
                              factor_t **out_factor)
{
    uint32_t index = solver->free_factor;
    factor_t *factor;
    if (index != WF_PBQP_NONE) {
        factor = &solver->factors.items[index];
        solver->free_factor = factor->next[0];
    } else {
        if (solver->factors.count >= WF_PBQP_NONE / ARITY_MAX) {
            return WF_ERROR(MODEL_LIMIT, "a PBQP has more than %u edges", WF_PBQP_NONE / ARITY_MAX);
        }
        index = (uint32_t)solver->factors.count;
        WF_TRY(wf_vec_grow(solver->pbqp->allocator, &solver->factors, sizeof *factor, &factor));
    }
    *factor = (factor_t){.arity = arity, .entries = entries};
    for (uint32_t s = 0; s < arity; s++) {
        var_t *var = &solver->vars[vars[s]];
        link_t link = index * ARITY_MAX + s;
        factor->vars[s] = vars[s];
        factor->prev[s] = WF_PBQP_NONE;
        factor->next[s] = var->first;
        if (var->first != WF_PBQP_NONE) {
            solver->factors.items[var->first / ARITY_MAX].prev[var->first % ARITY_MAX] = link;
        }
        var->first = link;
        var->slots += arity - 1;
    }
    *out_factor = factor;
    return WF_OK;
}

static void factor_remove(solver_t *solver, uint32_t index)
{
    factor_t *factor = &solver->factors.items[index];
    for (uint32_t s = 0; s < factor->arity; s++) {
        var_t *var = &solver->vars[factor->vars[s]];
        link_t next = factor->next[s], prev = factor->prev[s];
        if (prev != WF_PBQP_NONE) {
            solver->factors.items[prev / ARITY_MAX].next[prev % ARITY_MAX] = next;
        } else {
            var->first = next;
        }
        if (next != WF_PBQP_NONE) {
            solver->factors.items[next / ARITY_MAX].prev[next % ARITY_MAX] = prev;
        }
        var->slots -= factor->arity - 1;
    }
    wf_free(solver->pbqp->allocator, factor->owned, factor->entries, sizeof *factor->owned);
    factor->owned = NULL;
    factor->arity = 0;
    factor->next[0] = solver->free_factor;
    solver->free_factor = index;
}

/* The factor over exactly these nodes, or NULL; looks at the newest ones only. */
static factor_t *factor_find(const solver_t *solver, const uint32_t *vars, uint32_t arity)
{
    const var_t *shortest = &solver->vars[vars[0]];
    for (uint32_t s = 1; s < arity; s++) {
        const var_t *var = &solver->vars[vars[s]];
        shortest = var->slots < shortest->slots ? var : shortest;
    }
    link_t link = shortest->first;
    for (uint32_t seen = 0; link != WF_PBQP_NONE && seen < SCAN_MAX; seen++) {
        factor_t *factor = &solver->factors.items[link / ARITY_MAX];
        if (factor->arity == arity && memcmp(factor->vars, vars, arity * sizeof *vars) == 0) {
            return factor;
        }
        link = factor->next[link % ARITY_MAX];
    }
    return NULL;
}

/* Adds costs over `vars` (ascending, row-major) to the problem. */
static wf_status_t factor_add(solver_t *solver, const uint32_t *vars, uint32_t arity, const double *costs,
                              size_t entries)
{
    if (arity == 0) {
        solver->constant += costs[0];
        return WF_OK;
    }
    if (arity == 1) {
        double *var_costs = solver->vars[vars[0]].costs;
        for (size_t i = 0; i < entries; i++) {
            var_costs[i] += costs[i];
        }
        return WF_OK;
    }
    factor_t *factor = factor_find(solver, vars, arity);
    if (factor == NULL) {
        WF_TRY(factor_new(solver, vars, arity, entries, &factor));
        WF_TRY(wf_alloc(solver->pbqp->allocator, entries, sizeof *costs, &factor->owned));
        factor->table = factor->owned;
        memcpy(factor->owned, costs, entries * sizeof *costs);
        return WF_OK;
    }
    if (factor->owned == NULL) {
        WF_TRY(wf_alloc(solver->pbqp->allocator, entries, sizeof *costs, &factor->owned));
        memcpy(factor->owned, factor->table, entries * sizeof *costs);
        factor->table = factor->owned;
    }
    for (size_t i = 0; i < entries; i++) {
        factor->owned[i] += costs[i];
    }
    return WF_OK;
}

/* ---- Elimination ---- */

static wf_status_t rows_reserve(solver_t *solver, size_t entries)
{
    if (entries <= solver->row_capacity) {
        return WF_OK;
    }
    wf_allocator_t allocator = solver->pbqp->allocator;
    wf_free(allocator, solver->sum_row, solver->row_capacity, sizeof(double));
    wf_free(allocator, solver->least_row, solver->row_capacity, sizeof(double));
    solver->sum_row = solver->least_row = NULL;
    solver->row_capacity = 0;
    wf_status_t status = wf_alloc(allocator, entries, sizeof(double), &solver->sum_row);
    if (status == WF_OK) {
        status = wf_alloc(allocator, entries, sizeof(double), &solver->least_row);
    }
    if (status != WF_OK) {
        wf_free(allocator, solver->sum_row, entries, sizeof(double));
        solver->sum_row = NULL;
        return status;
    }
    solver->row_capacity = entries;
    return WF_OK;
}

/* sums[n0,n1,..] += table[n0 * strides[0] + n1 * strides[1] + ..] */
static void slice_add(double *sums, const size_t *dims, const size_t *strides, uint32_t rank,
                      const double *table)
{
    if (rank == 0) {
        sums[0] += table[0];
        return;
    }
    size_t inner = dims[rank - 1], step = strides[rank - 1], outer = 1;
    for (uint32_t d = 0; d + 1 < rank; d++) {
        outer *= dims[d];
    }
    size_t index[ARITY_MAX] = {0};
    for (size_t o = 0; o < outer; o++, sums += inner) {
        if (step == 0) {
            for (size_t i = 0; i < inner; i++) {
                sums[i] += table[0];
            }
        } else if (step == 1) {
            for (size_t i = 0; i < inner; i++) {
                sums[i] += table[i];
            }
        } else {
            for (size_t i = 0; i < inner; i++) {
                sums[i] += table[i * step];
            }
        }
        for (uint32_t d = rank - 1; d-- > 0;) {
            table += strides[d];
            if (++index[d] < dims[d]) {
                break;
            }
            table -= strides[d] * dims[d];
            index[d] = 0;
        }
    }
}

/* Strides of `factor` along `vars` (0 where it lacks the node) and along `node`. */
static void factor_strides(const solver_t *solver, const factor_t *factor, uint32_t node,
                           const uint32_t *vars, uint32_t rank, size_t *out_strides, size_t *out_node_stride)
{
    size_t stride = 1;
    memset(out_strides, 0, ARITY_MAX * sizeof *out_strides);
    for (uint32_t s = factor->arity; s-- > 0;) {
        if (factor->vars[s] == node) {
            *out_node_stride = stride;
        }
        for (uint32_t d = 0; d < rank; d++) {
            if (factor->vars[s] == vars[d]) {
                out_strides[d] = stride;
            }
        }
        stride *= solver->vars[factor->vars[s]].label_count;
    }
}

static size_t table_entries(const solver_t *solver, const uint32_t *vars, uint32_t rank)
{
    size_t entries = 1;
    for (uint32_t d = 0; d < rank; d++) {
        if (!wf_size_mul(entries, solver->vars[vars[d]].label_count, &entries)) {
            return SIZE_MAX;
        }
    }
    return entries;
}

static void factors_of_remove(solver_t *solver, uint32_t node)
{
    while (solver->vars[node].first != WF_PBQP_NONE) {
        factor_remove(solver, solver->vars[node].first / ARITY_MAX);
    }
}

/* Minimises the node out; it has at most ARITY_MAX neighbours. */
static wf_status_t node_eliminate(solver_t *solver, uint32_t node)
{
    var_t *var = &solver->vars[node];
    bucket_remove(solver, node);
    record_t *record = &solver->records[solver->record_count++];
    record->node = node;
    record->rank = neighbours_of(solver, node, record->neighbours);
    assert(record->rank <= ARITY_MAX);
    size_t dims[ARITY_MAX] = {0}, entries = table_entries(solver, record->neighbours, record->rank);
    for (uint32_t d = 0; d < record->rank; d++) {
        dims[d] = solver->vars[record->neighbours[d]].label_count;
    }
    WF_TRY(rows_reserve(solver, entries));
    uint16_t *policy;
    WF_TRY(wf_arena_alloc(&solver->arena, entries, sizeof *policy, &policy));
    record->policy = policy;
    double *sums = solver->sum_row, *least = solver->least_row;
    for (size_t i = 0; i < entries; i++) {
        least[i] = INFINITY;
    }
    for (uint32_t label = 0; label < var->label_count; label++) {
        if (isinf(var->costs[label])) {
            continue;
        }
        for (size_t i = 0; i < entries; i++) {
            sums[i] = var->costs[label];
        }
        for (link_t link = var->first; link != WF_PBQP_NONE;) {
            const factor_t *factor = &solver->factors.items[link / ARITY_MAX];
            size_t strides[ARITY_MAX], node_stride = 0;
            factor_strides(solver, factor, node, record->neighbours, record->rank, strides, &node_stride);
            slice_add(sums, dims, strides, record->rank, factor->table + node_stride * label);
            link = factor->next[link % ARITY_MAX];
        }
        for (size_t i = 0; i < entries; i++) {
            if (sums[i] < least[i]) {
                least[i] = sums[i];
                policy[i] = (uint16_t)label;
            }
        }
        solver->sums += entries;
    }
    solver->sums += NODE_SUMS;
    factors_of_remove(solver, node);
    WF_TRY(factor_add(solver, record->neighbours, record->rank, least, entries));
    for (uint32_t d = 0; d < record->rank; d++) {
        bucket_update(solver, record->neighbours[d]);
    }
    return WF_OK;
}

/* Gives the node a label: its factors lose one dimension. */
static wf_status_t node_fix(solver_t *solver, uint32_t node, uint32_t label)
{
    var_t *var = &solver->vars[node];
    bucket_remove(solver, node);
    uint16_t *policy;
    WF_TRY(wf_arena_alloc(&solver->arena, 1, sizeof *policy, &policy));
    policy[0] = (uint16_t)label;
    solver->records[solver->record_count++] = (record_t){.node = node, .policy = policy};
    solver->constant += var->costs[label];
    while (var->first != WF_PBQP_NONE) {
        uint32_t index = var->first / ARITY_MAX;
        const factor_t *factor = &solver->factors.items[index];
        uint32_t others[ARITY_MAX], rank = 0;
        for (uint32_t s = 0; s < factor->arity; s++) {
            if (factor->vars[s] != node) {
                others[rank++] = factor->vars[s];
            }
        }
        size_t dims[ARITY_MAX] = {0}, strides[ARITY_MAX], node_stride = 0;
        for (uint32_t d = 0; d < rank; d++) {
            dims[d] = solver->vars[others[d]].label_count;
        }
        size_t entries = table_entries(solver, others, rank);
        factor_strides(solver, factor, node, others, rank, strides, &node_stride);
        WF_TRY(rows_reserve(solver, entries));
        memset(solver->sum_row, 0, entries * sizeof *solver->sum_row);
        slice_add(solver->sum_row, dims, strides, rank, factor->table + node_stride * label);
        solver->sums += entries;
        factor_remove(solver, index);
        WF_TRY(factor_add(solver, others, rank, solver->sum_row, entries));
        for (uint32_t d = 0; d < rank; d++) {
            bucket_update(solver, others[d]);
        }
    }
    return WF_OK;
}

/* ---- Choosing what to do next ---- */

/* Of the nodes with three or four neighbours, one whose elimination makes the smallest table below the
 * limits. */
static uint32_t pick_exact(const solver_t *solver)
{
    uint32_t best = WF_PBQP_NONE;
    size_t best_entries = SIZE_MAX;
    if (solver->sums > EXACT_MAX_SUMS) {
        return WF_PBQP_NONE;
    }
    for (uint32_t bucket = 3; bucket <= ARITY_MAX; bucket++) {
        uint32_t node = solver->buckets[bucket];
        for (uint32_t seen = 0; node != WF_PBQP_NONE && seen < SCAN_MAX; seen++) {
            uint32_t neighbours[ARITY_MAX];
            uint32_t rank = neighbours_of(solver, node, neighbours);
            size_t entries = table_entries(solver, neighbours, rank);
            if (entries <= TABLE_MAX_ENTRIES && entries < best_entries &&
                entries * solver->vars[node].label_count <= TABLE_MAX_SUMS) {
                best = node;
                best_entries = entries;
            }
            node = solver->vars[node].bucket_next;
        }
    }
    return best;
}

/* The node to fix when nothing can be eliminated: the one with most factors falls apart best. */
static uint32_t pick_heuristic(const solver_t *solver)
{
    uint32_t best = WF_PBQP_NONE;
    for (uint32_t bucket = BUCKET_COUNT; bucket-- > 0;) {
        uint32_t node = solver->buckets[bucket];
        for (uint32_t seen = 0; node != WF_PBQP_NONE && seen < 8 * SCAN_MAX; seen++) {
            const var_t *var = &solver->vars[node];
            if (best == WF_PBQP_NONE || var->slots > solver->vars[best].slots ||
                (var->slots == solver->vars[best].slots && node < best)) {
                best = node;
            }
            node = var->bucket_next;
        }
        if (best != WF_PBQP_NONE && bucket == BUCKET_MANY) {
            break;
        }
    }
    return best;
}

/* Adds to scores[label of node] the least of the factor plus the other nodes' own costs. */
static void factor_score(const solver_t *solver, const factor_t *factor, uint32_t node, double *scores)
{
    size_t strides[ARITY_MAX] = {0}, index[ARITY_MAX] = {0}, stride = 1;
    for (uint32_t s = factor->arity; s-- > 0;) {
        strides[s] = stride;
        stride *= solver->vars[factor->vars[s]].label_count;
    }
    uint32_t node_slot = 0;
    while (factor->vars[node_slot] != node) {
        node_slot++;
    }
    for (size_t label = 0; label < solver->vars[node].label_count; label++) {
        double least = INFINITY;
        memset(index, 0, sizeof index);
        for (;;) {
            double cost = 0;
            size_t offset = 0;
            for (uint32_t s = 0; s < factor->arity; s++) {
                if (s != node_slot) {
                    cost += solver->vars[factor->vars[s]].costs[index[s]];
                    offset += index[s] * strides[s];
                }
            }
            cost += factor->table[offset + label * strides[node_slot]];
            least = cost < least ? cost : least;
            uint32_t s = factor->arity;
            while (s-- > 0) {
                if (s == node_slot) {
                    continue;
                }
                if (++index[s] < solver->vars[factor->vars[s]].label_count) {
                    break;
                }
                index[s] = 0;
            }
            if (s == UINT32_MAX) {
                break;
            }
        }
        scores[label] += least;
    }
}

static wf_status_t best_label(solver_t *solver, uint32_t node, uint32_t *out_label)
{
    const var_t *var = &solver->vars[node];
    WF_TRY(rows_reserve(solver, var->label_count));
    double *scores = solver->sum_row;
    memcpy(scores, var->costs, var->label_count * sizeof *scores);
    for (link_t link = var->first; link != WF_PBQP_NONE;) {
        const factor_t *factor = &solver->factors.items[link / ARITY_MAX];
        factor_score(solver, factor, node, scores);
        solver->sums += factor->entries;
        link = factor->next[link % ARITY_MAX];
    }
    *out_label = 0;
    for (uint32_t label = 1; label < var->label_count; label++) {
        if (scores[label] < scores[*out_label]) {
            *out_label = label;
        }
    }
    return WF_OK;
}

/* ---- One run ---- */

static wf_status_t solver_init(solver_t *solver, const wf_pbqp_t *pbqp, uint32_t keep)
{
    *solver = (solver_t){.pbqp = pbqp, .free_factor = WF_PBQP_NONE};
    wf_arena_init(&solver->arena, pbqp->allocator);
    size_t node_count = pbqp->nodes.count, label_count = 0;
    for (size_t n = 0; n < node_count; n++) {
        label_count += pbqp->nodes.items[n].label_count;
    }
    double *costs;
    WF_TRY(wf_arena_alloc(&solver->arena, node_count, sizeof *solver->vars, &solver->vars));
    WF_TRY(wf_arena_alloc(&solver->arena, node_count, sizeof *solver->records, &solver->records));
    WF_TRY(wf_arena_alloc(&solver->arena, label_count, sizeof *costs, &costs));
    for (size_t n = 0; n < node_count; n++) {
        const wf_pbqp_node_t *node = &pbqp->nodes.items[n];
        solver->vars[n] = (var_t){
            .costs = costs, .label_count = node->label_count, .first = WF_PBQP_NONE, .bucket = BUCKET_NONE};
        memcpy(costs, node->costs, node->label_count * sizeof *costs);
        costs += node->label_count;
    }
    for (size_t e = 0; e < pbqp->edges.count; e++) {
        const wf_pbqp_edge_t *edge = &pbqp->edges.items[e];
        uint32_t ends[2] = {edge->u, edge->v};
        factor_t *factor;
        WF_TRY(factor_new(solver, ends, 2, table_entries(solver, ends, 2), &factor));
        factor->table = edge->costs;
    }
    for (uint32_t b = 0; b < BUCKET_COUNT; b++) {
        solver->buckets[b] = WF_PBQP_NONE;
    }
    for (size_t n = node_count; n-- > 0;) {
        if (n != keep) {
            bucket_insert(solver, (uint32_t)n, BUCKET_MANY);
            bucket_update(solver, (uint32_t)n);
        }
    }
    return WF_OK;
}

static void solver_deinit(solver_t *solver)
{
    wf_allocator_t allocator = solver->pbqp->allocator;
    for (size_t f = 0; f < solver->factors.count; f++) {
        factor_t *factor = &solver->factors.items[f];
        if (factor->arity != 0) {
            wf_free(allocator, factor->owned, factor->entries, sizeof *factor->owned);
        }
    }
    wf_vec_deinit(allocator, &solver->factors);
    wf_free(allocator, solver->sum_row, solver->row_capacity, sizeof(double));
    wf_free(allocator, solver->least_row, solver->row_capacity, sizeof(double));
    wf_arena_deinit(&solver->arena);
}

typedef struct cutset {
    uint32_t *nodes, *labels;
    size_t count;
} cutset_t;

/* One elimination of the whole problem. */
typedef struct run {
    const cutset_t *given; /* labels that are fixed from the start, or NULL */
    uint32_t keep;         /* a node that is left to the end, or WF_PBQP_NONE */
    cutset_t *chosen;      /* gets what RN fixed (room for every node); NULL: not wanted */
    bool may_fix;          /* false: stop where RN would be needed */
    /* results */
    bool stopped;
    uint32_t fixed_count; /* by RN */
    uint64_t sums;
    double cost;        /* when nothing is kept */
    double *kept_costs; /* one per label of `keep` */
    uint32_t *labels;   /* when nothing is kept; NULL: not wanted */
} run_t;

static wf_status_t run_eliminate(solver_t *solver, run_t *run)
{
    for (size_t c = 0; run->given != NULL && c < run->given->count; c++) {
        if (run->given->nodes[c] != run->keep) {
            WF_TRY(node_fix(solver, run->given->nodes[c], run->given->labels[c]));
        }
    }
    for (;;) {
        uint32_t node = WF_PBQP_NONE;
        for (uint32_t bucket = 0; bucket <= 2 && node == WF_PBQP_NONE; bucket++) {
            node = solver->buckets[bucket];
        }
        if (node == WF_PBQP_NONE) {
            node = pick_exact(solver);
        }
        if (node != WF_PBQP_NONE) {
            WF_TRY(node_eliminate(solver, node));
            continue;
        }
        node = pick_heuristic(solver);
        if (node == WF_PBQP_NONE) {
            return WF_OK;
        }
        if (!run->may_fix) {
            run->stopped = true;
            return WF_OK;
        }
        uint32_t label;
        WF_TRY(best_label(solver, node, &label));
        if (run->chosen != NULL) {
            run->chosen->nodes[run->chosen->count] = node;
            run->chosen->labels[run->chosen->count] = label;
            run->chosen->count++;
        }
        run->fixed_count++;
        WF_TRY(node_fix(solver, node, label));
    }
}

static void run_read(const solver_t *solver, run_t *run)
{
    run->sums = solver->sums;
    if (run->stopped) {
        return;
    }
    if (run->keep != WF_PBQP_NONE) {
        const var_t *kept = &solver->vars[run->keep];
        for (uint32_t label = 0; label < kept->label_count; label++) {
            run->kept_costs[label] = kept->costs[label] + solver->constant;
        }
        return;
    }
    run->cost = solver->constant;
    for (size_t r = solver->record_count; run->labels != NULL && r-- > 0;) {
        const record_t *record = &solver->records[r];
        size_t index = 0;
        for (uint32_t d = 0; d < record->rank; d++) {
            uint32_t other = record->neighbours[d];
            index = index * solver->vars[other].label_count + run->labels[other];
        }
        run->labels[record->node] = record->policy[index];
    }
}

static wf_status_t run_once(const wf_pbqp_t *pbqp, run_t *run)
{
    solver_t solver;
    wf_status_t status = solver_init(&solver, pbqp, run->keep);
    if (status == WF_OK) {
        status = run_eliminate(&solver, run);
    }
    if (status == WF_OK) {
        run_read(&solver, run);
    }
    solver_deinit(&solver);
    return status;
}

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
static wf_status_t search_cutset(const wf_pbqp_t *copy, cutset_t *cutset, size_t first, double *cost,
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
            run_t run = {.given = cutset, .keep = WF_PBQP_NONE, .may_fix = true};
            WF_TRY(run_once(copy, &run));
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
static wf_status_t solve_heuristic(const wf_pbqp_t *copy, cutset_t *cutset, uint32_t *out_labels,
                                   bool *out_exact)
{
    const cutset_t given = *cutset;
    run_t first = {.given = &given, .keep = WF_PBQP_NONE, .chosen = cutset, .may_fix = true};
    WF_TRY(run_once(copy, &first));
    double cost = first.cost;
    bool complete;
    WF_TRY(search_cutset(copy, cutset, given.count, &cost, &complete));
    *out_exact = complete && cutset->count - given.count <= 1;
    run_t last = {.given = cutset, .keep = WF_PBQP_NONE, .may_fix = true, .labels = out_labels};
    return run_once(copy, &last);
}

/* The penalised copy with its cutset solved; the caller frees both with heuristic_free, on failure too. */
typedef struct heuristic {
    wf_pbqp_t *copy;
    cutset_t cutset;
    double penalty;
    bool exact;
} heuristic_t;

static void heuristic_free(const wf_pbqp_t *pbqp, heuristic_t *heuristic)
{
    wf_pbqp_destroy(heuristic->copy);
    wf_free(pbqp->allocator, heuristic->cutset.nodes, pbqp->nodes.count, sizeof *heuristic->cutset.nodes);
    wf_free(pbqp->allocator, heuristic->cutset.labels, pbqp->nodes.count, sizeof *heuristic->cutset.labels);
}

static wf_status_t heuristic_make(const wf_pbqp_t *pbqp, const cutset_t *given, heuristic_t *heuristic,
                                  uint32_t *out_labels)
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

static wf_status_t solve_given(const wf_pbqp_t *pbqp, const cutset_t *given, uint32_t *out_labels,
                               wf_pbqp_solution_t *out_solution)
{
    *out_solution = (wf_pbqp_solution_t){.exact = true};
    run_t run = {.given = given, .keep = WF_PBQP_NONE, .labels = out_labels};
    WF_TRY(run_once(pbqp, &run));
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
    const cutset_t given = {.nodes = &node, .labels = &label, .count = 1};
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
        run_t run = {.given = &heuristic.cutset, .keep = node, .may_fix = true, .kept_costs = out_costs};
        status = run_once(heuristic.copy, &run);
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
    run_t run = {.keep = node, .kept_costs = out_costs};
    WF_TRY(run_once(pbqp, &run));
    return run.stopped ? marginals_heuristic(pbqp, node, out_costs) : WF_OK;
}
