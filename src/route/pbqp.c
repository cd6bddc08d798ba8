/* SPDX-License-Identifier: Apache-2.0 */
/* Building a PBQP, and the cost of given labels. */
#include "route/pbqp.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "route/pbqp_internal.h"

wf_status_t wf_pbqp_create(wf_allocator_t allocator, wf_pbqp_t **out_pbqp)
{
    WF_TRY(wf_alloc(allocator, 1, sizeof **out_pbqp, out_pbqp));
    wf_pbqp_t *pbqp = *out_pbqp;
    pbqp->allocator = allocator;
    wf_arena_init(&pbqp->arena, allocator);
    wf_map_init(&pbqp->tables, allocator);
    return WF_OK;
}

void wf_pbqp_destroy(wf_pbqp_t *pbqp)
{
    if (pbqp == NULL) {
        return;
    }
    wf_allocator_t allocator = pbqp->allocator;
    wf_free(allocator, pbqp->transposed, pbqp->transposed_capacity, sizeof *pbqp->transposed);
    wf_vec_deinit(allocator, &pbqp->edges);
    wf_vec_deinit(allocator, &pbqp->nodes);
    wf_map_deinit(&pbqp->tables);
    wf_arena_deinit(&pbqp->arena);
    wf_free(allocator, pbqp, 1, sizeof *pbqp);
}

/* The stored copy of a table. */
static wf_status_t table_keep(wf_pbqp_t *pbqp, const double *costs, size_t count, const double **out_table)
{
    size_t bytes = count * sizeof *costs;
    uint64_t address;
    if (wf_map_get(&pbqp->tables, (const char *)costs, bytes, &address)) {
        *out_table = (const double *)(uintptr_t)address;
        return WF_OK;
    }
    for (size_t i = 0; i < count; i++) {
        if (isnan(costs[i]) || costs[i] == -INFINITY) {
            return WF_ERROR(INTERNAL, "a PBQP cost is %g", costs[i]);
        }
    }
    double *copy;
    WF_TRY(wf_arena_alloc(&pbqp->arena, count, sizeof *copy, &copy));
    memcpy(copy, costs, bytes);
    *out_table = copy;
    return wf_map_set(&pbqp->tables, (const char *)copy, bytes, (uintptr_t)copy);
}

wf_status_t wf_pbqp_add_node(wf_pbqp_t *pbqp, const double *costs, uint32_t label_count, uint32_t *out_node)
{
    if (label_count == 0 || label_count > WF_PBQP_MAX_LABELS || pbqp->nodes.count >= WF_PBQP_NONE) {
        return WF_ERROR(INTERNAL, "a PBQP node has %u labels", label_count);
    }
    wf_pbqp_node_t node = {.label_count = label_count};
    WF_TRY(table_keep(pbqp, costs, label_count, &node.costs));
    *out_node = (uint32_t)pbqp->nodes.count;
    return wf_vec_push(pbqp->allocator, &pbqp->nodes, &node);
}

static wf_status_t table_transposed(wf_pbqp_t *pbqp, const double *costs, size_t rows, size_t columns,
                                    const double **out_costs)
{
    if (pbqp->transposed_capacity < rows * columns) {
        wf_free(pbqp->allocator, pbqp->transposed, pbqp->transposed_capacity, sizeof *pbqp->transposed);
        pbqp->transposed_capacity = 0;
        WF_TRY(wf_alloc(pbqp->allocator, rows * columns, sizeof *pbqp->transposed, &pbqp->transposed));
        pbqp->transposed_capacity = rows * columns;
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            pbqp->transposed[c * rows + r] = costs[r * columns + c];
        }
    }
    *out_costs = pbqp->transposed;
    return WF_OK;
}

wf_status_t wf_pbqp_add_edge(wf_pbqp_t *pbqp, uint32_t u, uint32_t v, const double *costs)
{
    assert(u < pbqp->nodes.count && v < pbqp->nodes.count && u != v);
    size_t u_labels = pbqp->nodes.items[u].label_count, v_labels = pbqp->nodes.items[v].label_count;
    wf_pbqp_edge_t edge = {.u = WF_MIN(u, v), .v = WF_MAX(u, v)};
    if (u > v) {
        WF_TRY(table_transposed(pbqp, costs, u_labels, v_labels, &costs));
    }
    WF_TRY(table_keep(pbqp, costs, u_labels * v_labels, &edge.costs));
    return wf_vec_push(pbqp->allocator, &pbqp->edges, &edge);
}

size_t wf_pbqp_node_count(const wf_pbqp_t *pbqp)
{
    return pbqp->nodes.count;
}

size_t wf_pbqp_label_count(const wf_pbqp_t *pbqp)
{
    size_t count = 0;
    for (size_t n = 0; n < pbqp->nodes.count; n++) {
        count += pbqp->nodes.items[n].label_count;
    }
    return count;
}

double wf_pbqp_cost(const wf_pbqp_t *pbqp, const uint32_t *labels)
{
    double cost = 0;
    for (size_t n = 0; n < pbqp->nodes.count; n++) {
        cost += pbqp->nodes.items[n].costs[labels[n]];
    }
    for (size_t e = 0; e < pbqp->edges.count; e++) {
        const wf_pbqp_edge_t *edge = &pbqp->edges.items[e];
        size_t v_labels = pbqp->nodes.items[edge->v].label_count;
        cost += edge->costs[labels[edge->u] * v_labels + labels[edge->v]];
    }
    return cost;
}
