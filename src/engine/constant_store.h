/* SPDX-License-Identifier: Apache-2.0 */
/* Constant store: the constants of a job's graphs laid out once, for engines that are linked against it.
 *
 * The engine of a trial lives for some runs. Written without its constants it takes microseconds per step
 * instead of a copy and a hash of all weights.
 */
#ifndef WF_ENGINE_CONSTANT_STORE_H
#define WF_ENGINE_CONSTANT_STORE_H

#include "graph/graph.h"

typedef struct wf_stored_constant {
    const void *data; /* borrowed */
    uint64_t offset, bytes;
} wf_stored_constant_t;
typedef struct wf_constant_store {
    wf_allocator_t allocator;
    wf_arena_t arena;
    wf_map_t places; /* address and bytes -> offset */
    WF_VEC(wf_stored_constant_t) items;
    uint64_t bytes; /* of all, each 64-byte aligned */
} wf_constant_store_t;

/* Empty. Deinit frees. Not thread-safe. */
void wf_constant_store_init(wf_constant_store_t *store, wf_allocator_t allocator);
void wf_constant_store_deinit(wf_constant_store_t *store);
/* Adds a constant, once per address and size. The data stays where it is while the store is used. */
wf_status_t wf_constant_store_add(wf_constant_store_t *store, const void *data, uint64_t bytes) WF_MUST_USE;
/* Adds every constant of the graph that something uses. */
wf_status_t wf_constant_store_add_graph(wf_constant_store_t *store, const wf_graph_t *graph) WF_MUST_USE;
/* Where a constant lies; false when it was never added. */
bool wf_constant_store_find(const wf_constant_store_t *store, const void *data, uint64_t bytes,
                            uint64_t *out_offset);
/* Writes store->bytes bytes. */
void wf_constant_store_copy(const wf_constant_store_t *store, uint8_t *target);

#endif
