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

#endif
