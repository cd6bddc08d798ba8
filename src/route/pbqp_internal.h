/* SPDX-License-Identifier: Apache-2.0 */
/* What a PBQP is made of; shared by pbqp.c (building) and pbqp_solve.c. */
#ifndef WF_ROUTE_PBQP_INTERNAL_H
#define WF_ROUTE_PBQP_INTERNAL_H

#include "base/hash.h"
#include "route/pbqp.h"

#define WF_PBQP_NONE UINT32_MAX

typedef struct wf_pbqp_node {
    const double *costs;
    uint32_t label_count;
} wf_pbqp_node_t;

typedef struct wf_pbqp_edge {
    uint32_t u, v; /* u < v */
    const double *costs;
} wf_pbqp_edge_t;

/* Equal tables are stored once: a chain of a million equal nodes has a handful of different tables. */
struct wf_pbqp {
    wf_allocator_t allocator;
    wf_arena_t arena;
    wf_map_t tables; /* content -> address of the stored copy */
    WF_VEC(wf_pbqp_node_t) nodes;
    WF_VEC(wf_pbqp_edge_t) edges;
    double *transposed; /* scratch of add_edge */
    size_t transposed_capacity;
};

#define WF_PBQP_ARITY_MAX 4u

/* How an eliminated node picks its label from those of its neighbours. */
typedef struct wf_pbqp_record {
    uint32_t node;
    uint32_t rank;                          /* neighbours; a fixed node has none */
    uint32_t neighbours[WF_PBQP_ARITY_MAX]; /* ascending */
    const uint16_t *policy;                 /* label, row-major over the neighbours' labels */
    double
        *joint; /* cost[label, neighbours' labels] of the node with what was folded into it; NULL: not kept */
    bool fixed;
    uint32_t label; /* when fixed */
} wf_pbqp_record_t;

/* Labels that are given or that RN fixed. */
typedef struct wf_pbqp_cutset {
    uint32_t *nodes, *labels;
    size_t count;
} wf_pbqp_cutset_t;

/* One elimination of the whole problem. */
typedef struct wf_pbqp_run {
    const wf_pbqp_cutset_t *given; /* labels that are fixed from the start, or NULL */
    uint32_t keep;                 /* a node that is left to the end, or WF_PBQP_NONE */
    wf_pbqp_cutset_t *chosen;      /* gets what RN fixed (room for every node); NULL: not wanted */
    bool may_fix;                  /* false: stop where RN would be needed */
    /* results */
    bool stopped;
    uint32_t fixed_count; /* by RN */
    uint64_t sums;
    double cost;        /* when nothing is kept */
    double *kept_costs; /* one per label of `keep` */
    uint32_t *labels;   /* when nothing is kept; NULL: not wanted */
    double *marginals;  /* when nothing is kept, of every node in turn; NULL: not wanted */
} wf_pbqp_run_t;

/* OUT_OF_MEMORY; MODEL_LIMIT when marginals need too much memory. */
wf_status_t wf_pbqp_run(const wf_pbqp_t *pbqp, wf_pbqp_run_t *run) WF_MUST_USE;

/* Min-marginals of all nodes from the records of a run that kept joint tables (which are used up); a fixed
 * node gets the total at its label and INFINITY elsewhere. out_costs: label costs, node after node. */
wf_status_t wf_pbqp_marginals_read(const wf_pbqp_t *pbqp, wf_pbqp_record_t *records, size_t record_count,
                                   double total, wf_arena_t *arena, double *out_costs) WF_MUST_USE;

#endif
