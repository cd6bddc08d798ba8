/* SPDX-License-Identifier: Apache-2.0 */
/* Min-marginals of every node from one elimination.
 *
 * The joint table of a node covers itself and its neighbours N at the time of its elimination, and holds the
 * cost of everything that had been folded into it. Going back from the last node eliminated to the first, the
 * cost of everything else, given labels of N, is added: it is known from the neighbour that was eliminated
 * next, whose own table covers all of N and is complete by then. What the node itself contributed there is
 * its minimum over its label. (Messages up and down a tree of cliques: Dechter, "Bucket elimination", 1999.)
 * Twice to three times the work of one solve.
 */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "route/pbqp_internal.h"

#define DIMS_MAX (WF_PBQP_ARITY_MAX + 1)

/* A table over several nodes, walked in row-major order together with the index into a table over some of
 * them. */
typedef struct walk {
    uint32_t rank;
    size_t dims[DIMS_MAX], strides[DIMS_MAX], index[DIMS_MAX];
    size_t entries;
} walk_t;

static size_t labels_of(const wf_pbqp_t *pbqp, uint32_t node)
{
    return pbqp->nodes.items[node].label_count;
}

static size_t neighbour_entries(const wf_pbqp_t *pbqp, const wf_pbqp_record_t *record)
{
    size_t entries = 1;
    for (uint32_t d = 0; d < record->rank; d++) {
        entries *= labels_of(pbqp, record->neighbours[d]);
    }
    return entries;
}

/* Walks the joint table of `outer` (its node first) with the index into a table over the neighbours of
 * `inner`. */
static walk_t walk_start(const wf_pbqp_t *pbqp, const wf_pbqp_record_t *outer, const wf_pbqp_record_t *inner)
{
    walk_t walk = {.rank = outer->rank + 1, .entries = 1};
    for (uint32_t d = 0; d < walk.rank; d++) {
        uint32_t node = d == 0 ? outer->node : outer->neighbours[d - 1];
        size_t stride = 1;
        walk.dims[d] = labels_of(pbqp, node);
        walk.entries *= walk.dims[d];
        for (uint32_t k = inner->rank; k-- > 0;) {
            if (inner->neighbours[k] == node) {
                walk.strides[d] = stride;
            }
            stride *= labels_of(pbqp, inner->neighbours[k]);
        }
    }
    return walk;
}

static void walk_next(walk_t *walk, size_t *offset)
{
    for (uint32_t d = walk->rank; d-- > 0;) {
        *offset += walk->strides[d];
        if (++walk->index[d] < walk->dims[d]) {
            return;
        }
        *offset -= walk->strides[d] * walk->dims[d];
        walk->index[d] = 0;
    }
}

/* rest[labels of N] for `record`, from its minimum over its own label (in `least`) and the complete table of
 * `parent`. */
static void rest_from_parent(const wf_pbqp_t *pbqp, const wf_pbqp_record_t *record,
                             const wf_pbqp_record_t *parent, const double *least, double *rest)
{
    walk_t walk = walk_start(pbqp, parent, record);
    size_t offset = 0;
    for (size_t i = 0; i < walk.entries; i++, walk_next(&walk, &offset)) {
        if (!isinf(parent->joint[i])) {
            rest[offset] = fmin(rest[offset], parent->joint[i] - least[offset]);
        }
    }
}

/* Completes the record's table. `rows` has room for two rows of its neighbours. */
static void record_complete(const wf_pbqp_t *pbqp, wf_pbqp_record_t *record, const wf_pbqp_record_t *parent,
                            double total, double *rows)
{
    size_t labels = labels_of(pbqp, record->node), entries = neighbour_entries(pbqp, record);
    double *least = rows, *rest = rows + entries;
    for (size_t i = 0; i < entries; i++) {
        least[i] = rest[i] = INFINITY;
        for (size_t label = 0; label < labels; label++) {
            least[i] = fmin(least[i], record->joint[label * entries + i]);
        }
    }
    if (parent != NULL) {
        rest_from_parent(pbqp, record, parent, least, rest);
    } else {
        rest[0] = isinf(total) ? (double)INFINITY : total - least[0];
    }
    for (size_t label = 0; label < labels; label++) {
        for (size_t i = 0; i < entries; i++) {
            record->joint[label * entries + i] += rest[i];
        }
    }
}

static void record_read(const wf_pbqp_t *pbqp, const wf_pbqp_record_t *record, double total,
                        double *out_costs)
{
    size_t labels = labels_of(pbqp, record->node), entries = neighbour_entries(pbqp, record);
    for (size_t label = 0; label < labels; label++) {
        out_costs[label] = INFINITY;
        for (size_t i = 0; !record->fixed && i < entries; i++) {
            out_costs[label] = fmin(out_costs[label], record->joint[label * entries + i]);
        }
    }
    if (record->fixed) {
        out_costs[record->label] = total;
    }
}

wf_status_t wf_pbqp_marginals_read(const wf_pbqp_t *pbqp, wf_pbqp_record_t *records, size_t record_count,
                                   double total, wf_arena_t *arena, double *out_costs)
{
    uint32_t *record_of; /* per node */
    size_t *first, entries_max = 1;
    WF_TRY(wf_arena_alloc(arena, pbqp->nodes.count, sizeof *record_of, &record_of));
    WF_TRY(wf_arena_alloc(arena, pbqp->nodes.count + 1, sizeof *first, &first));
    for (size_t n = 0; n < pbqp->nodes.count; n++) {
        first[n + 1] = first[n] + pbqp->nodes.items[n].label_count;
    }
    for (size_t r = 0; r < record_count; r++) {
        record_of[records[r].node] = (uint32_t)r;
        entries_max = WF_MAX(entries_max, neighbour_entries(pbqp, &records[r]));
    }
    double *rows;
    WF_TRY(wf_arena_alloc(arena, 2 * entries_max, sizeof *rows, &rows));
    for (size_t r = record_count; r-- > 0;) {
        wf_pbqp_record_t *record = &records[r];
        const wf_pbqp_record_t *parent = NULL;
        for (uint32_t d = 0; d < record->rank; d++) {
            const wf_pbqp_record_t *other = &records[record_of[record->neighbours[d]]];
            parent = parent == NULL || other < parent ? other : parent;
        }
        if (!record->fixed) {
            record_complete(pbqp, record, parent, total, rows);
        }
        record_read(pbqp, record, total, out_costs + first[record->node]);
    }
    return WF_OK;
}
