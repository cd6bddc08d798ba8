/* SPDX-License-Identifier: Apache-2.0 */
/* PBQP: partitioned boolean quadratic problems.
 *
 * Pick one label per node so that the sum of node costs and edge costs is least; infinity forbids. Degree 0,
 * 1 and 2 nodes are eliminated exactly (R0, R1, R2: Scholz & Eckstein 2002, Hames & Scholz 2006), degree 3
 * and 4 exactly when the tables stay below a limit, beyond that by the RN heuristic followed by local search.
 */
#ifndef WF_ROUTE_PBQP_H
#define WF_ROUTE_PBQP_H

#include "base/mem.h"

typedef struct wf_pbqp wf_pbqp_t;

#define WF_PBQP_MAX_LABELS 65535u

/* An empty problem; the caller's to destroy. OUT_OF_MEMORY. */
wf_status_t wf_pbqp_create(wf_allocator_t allocator, wf_pbqp_t **out_pbqp) WF_MUST_USE;
/* NULL is allowed. */
void wf_pbqp_destroy(wf_pbqp_t *pbqp);
/* Adds a node with 1 to WF_PBQP_MAX_LABELS costs, copied (INFINITY allowed; NaN and -INFINITY are INTERNAL);
 * ids are 0, 1, 2, ... Equal tables are stored once. */
wf_status_t wf_pbqp_add_node(wf_pbqp_t *pbqp, const double *costs, uint32_t label_count,
                             uint32_t *out_node) WF_MUST_USE;
/* Adds costs[u_label * v_label_count + v_label] to the edge between u and v (u != v), copied; several calls
 * add up. */
wf_status_t wf_pbqp_add_edge(wf_pbqp_t *pbqp, uint32_t u, uint32_t v, const double *costs) WF_MUST_USE;

typedef struct wf_pbqp_solution {
    double cost;              /* of the labels; INFINITY when no finite one was found */
    bool exact;               /* proven optimal */
    uint32_t heuristic_nodes; /* nodes decided by RN */
} wf_pbqp_solution_t;
size_t wf_pbqp_node_count(const wf_pbqp_t *pbqp);
/* Of all nodes together. */
size_t wf_pbqp_label_count(const wf_pbqp_t *pbqp);
/* Solves; out_labels has one entry per node. The problem stays as it was. Deterministic: equal problems built
 * in the same order get equal labels, and of equally good labels of a node the lowest number is taken. No
 * recursion; a chain of 10^5 nodes takes tens of milliseconds. */
wf_status_t wf_pbqp_solve(const wf_pbqp_t *pbqp, uint32_t *out_labels,
                          wf_pbqp_solution_t *out_solution) WF_MUST_USE;
/* The same with one node's label given. */
wf_status_t wf_pbqp_solve_with(const wf_pbqp_t *pbqp, uint32_t node, uint32_t label, uint32_t *out_labels,
                               wf_pbqp_solution_t *out_solution) WF_MUST_USE;
/* The cost of given labels, one per node. */
double wf_pbqp_cost(const wf_pbqp_t *pbqp, const uint32_t *labels);
/* Min-marginals: out_costs[label] is the least cost of a solution in which `node` has that label (as exact as
 * solve is). */
wf_status_t wf_pbqp_min_marginals(const wf_pbqp_t *pbqp, uint32_t node, double *out_costs) WF_MUST_USE;
/* The same for every node at once, in two to three times the time of one solve: out_costs holds the labels'
 * costs node after node. Where RN had to fix nodes they are least costs given the labels of those nodes.
 * Rounding differs from solve's in the last digits. MODEL_LIMIT when the tables would take more than 256 MiB.
 */
wf_status_t wf_pbqp_all_min_marginals(const wf_pbqp_t *pbqp, double *out_costs) WF_MUST_USE;

#endif
