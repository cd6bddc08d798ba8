/* SPDX-License-Identifier: Apache-2.0 */
/* Solving a PBQP by elimination.
 *
 * Eliminating a node replaces it and its factors by one factor over its neighbours: for each of their labels
 * the least cost of the node. The label that reaches it is kept (the policy), so that labels are read back in
 * reverse order once everything is eliminated. With one or two neighbours these are the rules R1 and R2;
 * three and four need tables of that many dimensions and are used while those are small. A node beyond that
 * is fixed to its most promising label (RN).
 */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "route/pbqp_internal.h"

#define ARITY_MAX WF_PBQP_ARITY_MAX
/* A sum takes about 2.3 ns (AMD Zen 3, gcc 12 -O2, 2026-11-30: 64 labels, one to four neighbours). Result
 * tables of three and four dimensions: at most 2^18 entries (2 MiB) and 2^22 sums (10 ms). */
#define TABLE_MAX_ENTRIES ((size_t)1 << 18)
#define TABLE_MAX_SUMS ((size_t)1 << 22)
/* Once a run has spent this many sums (0.6 s), such tables are no longer made. */
#define EXACT_MAX_SUMS ((uint64_t)1 << 28)
/* Tables that min-marginals of every node may keep: 256 MiB. */
#define JOINT_MAX_ENTRIES ((size_t)1 << 25)
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

typedef struct solver {
    const wf_pbqp_t *pbqp;
    wf_arena_t arena;
    var_t *vars;
    WF_VEC(factor_t) factors;
    uint32_t free_factor;
    uint32_t buckets[BUCKET_COUNT];
    wf_pbqp_record_t *records;
    size_t record_count;
    double constant;
    uint64_t sums;   /* work done */
    bool keep_joint; /* records keep their tables */
    size_t joint_entries;
    double *table, *row; /* scratch */
    size_t table_capacity, row_capacity;
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

/* Makes a scratch array at least `entries` long; its content is lost. */
static wf_status_t scratch_reserve(solver_t *solver, double **array, size_t *capacity, size_t entries)
{
    if (entries <= *capacity) {
        return WF_OK;
    }
    wf_allocator_t allocator = solver->pbqp->allocator;
    wf_free(allocator, *array, *capacity, sizeof **array);
    *array = NULL;
    *capacity = 0;
    WF_TRY(wf_alloc(allocator, entries, sizeof **array, array));
    *capacity = entries;
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

/* Room for the record's table; labels that cost infinity are not visited and stay at infinity. */
static wf_status_t joint_start(solver_t *solver, wf_pbqp_record_t *record, size_t entries)
{
    if (!solver->keep_joint) {
        return WF_OK;
    }
    size_t labels = solver->vars[record->node].label_count, count;
    if (!wf_size_mul(labels, entries, &count) ||
        !wf_size_add(solver->joint_entries, count, &solver->joint_entries) ||
        solver->joint_entries > JOINT_MAX_ENTRIES) {
        return WF_ERROR(MODEL_LIMIT, "the min-marginals of this PBQP need more than %zu table entries",
                        JOINT_MAX_ENTRIES);
    }
    WF_TRY(wf_arena_alloc(&solver->arena, count, sizeof *record->joint, &record->joint));
    for (size_t i = 0; i < count; i++) {
        record->joint[i] = INFINITY;
    }
    return WF_OK;
}

/* A factor of the node that is eliminated, seen from a row of the result: the last neighbour's labels. */
typedef struct term {
    const double *table; /* at the row, and label 0 of the node */
    size_t node_stride, strides[ARITY_MAX];
} term_t;

/* Takes base + row[j * step] where it is less than what was least so far. */
static void row_take(double base, const double *row, size_t step, size_t count, double label, double *least,
                     double *best)
{
    for (size_t j = 0; j < count; j++) {
        double sum = base + row[j * step];
        bool less = sum < least[j]; /* selects, not branches: which label wins is not predictable */
        best[j] = less ? label : best[j];
        least[j] = less ? sum : least[j];
    }
}

/* One row of the result: the node's labels one after the other. `rows` holds three rows: sums, least, best.
 */
static void row_eliminate(const var_t *var, const term_t *terms, uint32_t term_count, uint32_t inner_count,
                          size_t inner_dim, size_t count, double *rows, double *joint, size_t joint_stride)
{
    double *sums = rows, *least = rows + count, *best = rows + 2 * count;
    for (size_t j = 0; j < count; j++) {
        least[j] = INFINITY;
        best[j] = 0;
    }
    for (uint32_t label = 0; label < var->label_count; label++) {
        double base = var->costs[label];
        for (uint32_t t = inner_count; t < term_count; t++) { /* the same for the whole row */
            base += terms[t].table[terms[t].node_stride * label];
        }
        if (isinf(base)) {
            continue;
        }
        static const double zero;
        const double *row = &zero;
        size_t step = 0;
        if (inner_count > 0) {
            row = terms[0].table + terms[0].node_stride * label;
            step = terms[0].strides[inner_dim];
        }
        if (inner_count > 1) {
            for (size_t j = 0; j < count; j++) {
                sums[j] = row[j * step];
            }
            for (uint32_t t = 1; t < inner_count; t++) {
                const double *other = terms[t].table + terms[t].node_stride * label;
                for (size_t j = 0; j < count; j++) {
                    sums[j] += other[j * terms[t].strides[inner_dim]];
                }
            }
            row = sums;
            step = 1;
        }
        row_take(base, row, step, count, label, least, best);
        for (size_t j = 0; joint != NULL && j < count; j++) {
            joint[label * joint_stride + j] = base + row[j * step];
        }
    }
}

/* The node's factors as terms, those that depend on the last neighbour first; returns how many do. */
static uint32_t terms_make(const solver_t *solver, const wf_pbqp_record_t *record,
                           term_t terms[DEGREE_SLOTS_MAX], uint32_t *out_count)
{
    uint32_t inner_count = 0, count = 0;
    for (link_t link = solver->vars[record->node].first; link != WF_PBQP_NONE; count++) {
        const factor_t *factor = &solver->factors.items[link / ARITY_MAX];
        assert(count < DEGREE_SLOTS_MAX);
        term_t *term = &terms[count];
        term->table = factor->table;
        factor_strides(solver, factor, record->node, record->neighbours, record->rank, term->strides,
                       &term->node_stride);
        if (term->strides[record->rank - 1] != 0) {
            term_t swap = terms[inner_count];
            terms[inner_count++] = *term;
            if (inner_count <= count) {
                terms[count] = swap;
            }
        }
        link = factor->next[link % ARITY_MAX];
    }
    *out_count = count;
    return inner_count;
}

/* Fills least and policy of every combination of the neighbours' labels. */
static void table_eliminate(solver_t *solver, const wf_pbqp_record_t *record, double *least, uint16_t *policy,
                            size_t entries)
{
    const var_t *var = &solver->vars[record->node];
    term_t terms[DEGREE_SLOTS_MAX];
    uint32_t term_count = 0, inner_count = 0, outer_rank = record->rank > 0 ? record->rank - 1 : 0;
    if (record->rank > 0) {
        inner_count = terms_make(solver, record, terms, &term_count);
    }
    size_t count = record->rank > 0 ? solver->vars[record->neighbours[outer_rank]].label_count : 1;
    size_t index[ARITY_MAX] = {0};
    double *best = solver->row + 2 * count;
    for (size_t at = 0; at < entries; at += count) {
        row_eliminate(var, terms, term_count, inner_count, outer_rank, count, solver->row,
                      record->joint != NULL ? record->joint + at : NULL, entries);
        memcpy(least + at, solver->row + count, count * sizeof *least);
        for (size_t j = 0; j < count; j++) {
            policy[at + j] = (uint16_t)best[j];
        }
        for (uint32_t d = outer_rank; d-- > 0;) { /* on to the next row */
            size_t dim = solver->vars[record->neighbours[d]].label_count;
            bool wraps = ++index[d] == dim;
            for (uint32_t t = 0; t < term_count; t++) {
                terms[t].table += terms[t].strides[d];
                terms[t].table -= wraps ? terms[t].strides[d] * dim : 0;
            }
            if (!wraps) {
                break;
            }
            index[d] = 0;
        }
    }
    solver->sums += entries * var->label_count + NODE_SUMS;
}

/* Minimises the node out; it has at most ARITY_MAX neighbours. */
static wf_status_t node_eliminate(solver_t *solver, uint32_t node)
{
    bucket_remove(solver, node);
    wf_pbqp_record_t *record = &solver->records[solver->record_count++];
    record->node = node;
    record->rank = neighbours_of(solver, node, record->neighbours);
    assert(record->rank <= ARITY_MAX);
    size_t entries = table_entries(solver, record->neighbours, record->rank);
    size_t row = record->rank > 0 ? solver->vars[record->neighbours[record->rank - 1]].label_count : 1;
    WF_TRY(scratch_reserve(solver, &solver->table, &solver->table_capacity, entries));
    WF_TRY(scratch_reserve(solver, &solver->row, &solver->row_capacity, 3 * row));
    uint16_t *policy;
    WF_TRY(wf_arena_alloc(&solver->arena, entries, sizeof *policy, &policy));
    record->policy = policy;
    WF_TRY(joint_start(solver, record, entries));
    table_eliminate(solver, record, solver->table, policy, entries);
    factors_of_remove(solver, node);
    WF_TRY(factor_add(solver, record->neighbours, record->rank, solver->table, entries));
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
    solver->records[solver->record_count++] =
        (wf_pbqp_record_t){.node = node, .policy = policy, .fixed = true, .label = label};
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
        WF_TRY(scratch_reserve(solver, &solver->table, &solver->table_capacity, entries));
        memset(solver->table, 0, entries * sizeof *solver->table);
        slice_add(solver->table, dims, strides, rank, factor->table + node_stride * label);
        solver->sums += entries;
        factor_remove(solver, index);
        WF_TRY(factor_add(solver, others, rank, solver->table, entries));
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
    WF_TRY(scratch_reserve(solver, &solver->row, &solver->row_capacity, var->label_count));
    double *scores = solver->row;
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
    wf_free(allocator, solver->table, solver->table_capacity, sizeof *solver->table);
    wf_free(allocator, solver->row, solver->row_capacity, sizeof *solver->row);
    wf_arena_deinit(&solver->arena);
}

static wf_status_t run_eliminate(solver_t *solver, wf_pbqp_run_t *run)
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

static wf_status_t run_read(solver_t *solver, wf_pbqp_run_t *run)
{
    run->sums = solver->sums;
    if (run->stopped) {
        return WF_OK;
    }
    if (run->keep != WF_PBQP_NONE) {
        const var_t *kept = &solver->vars[run->keep];
        for (uint32_t label = 0; label < kept->label_count; label++) {
            run->kept_costs[label] = kept->costs[label] + solver->constant;
        }
        return WF_OK;
    }
    run->cost = solver->constant;
    if (run->marginals != NULL) {
        WF_TRY(wf_pbqp_marginals_read(solver->pbqp, solver->records, solver->record_count, solver->constant,
                                      &solver->arena, run->marginals));
    }
    for (size_t r = solver->record_count; run->labels != NULL && r-- > 0;) {
        const wf_pbqp_record_t *record = &solver->records[r];
        size_t index = 0;
        for (uint32_t d = 0; d < record->rank; d++) {
            uint32_t other = record->neighbours[d];
            index = index * solver->vars[other].label_count + run->labels[other];
        }
        run->labels[record->node] = record->policy[index];
    }
    return WF_OK;
}

wf_status_t wf_pbqp_run(const wf_pbqp_t *pbqp, wf_pbqp_run_t *run)
{
    solver_t solver;
    wf_status_t status = solver_init(&solver, pbqp, run->keep);
    solver.keep_joint = run->marginals != NULL;
    if (status == WF_OK) {
        status = run_eliminate(&solver, run);
    }
    if (status == WF_OK) {
        status = run_read(&solver, run);
    }
    solver_deinit(&solver);
    return status;
}
