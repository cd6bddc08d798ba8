/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/constant_store.h"

#include <string.h>

#include "base/checked.h"
#include "engine/format.h"

typedef struct place_key {
    uint64_t address, bytes;
} place_key_t;

void wf_constant_store_init(wf_constant_store_t *store, wf_allocator_t allocator)
{
    *store = (wf_constant_store_t){.allocator = allocator};
    wf_arena_init(&store->arena, allocator);
    wf_map_init(&store->places, allocator);
}

void wf_constant_store_deinit(wf_constant_store_t *store)
{
    wf_map_deinit(&store->places);
    wf_vec_deinit(store->allocator, &store->items);
    wf_arena_deinit(&store->arena);
}

bool wf_constant_store_find(const wf_constant_store_t *store, const void *data, uint64_t bytes,
                            uint64_t *out_offset)
{
    place_key_t key = {(uintptr_t)data, bytes};
    *out_offset = 0;
    return bytes == 0 || wf_map_get(&store->places, (const char *)&key, sizeof key, out_offset);
}

wf_status_t wf_constant_store_add(wf_constant_store_t *store, const void *data, uint64_t bytes)
{
    uint64_t offset;
    size_t end;
    if (wf_constant_store_find(store, data, bytes, &offset))
        return WF_OK;
    wf_stored_constant_t item = {data, store->bytes, bytes};
    if (!wf_size_add(store->bytes, bytes, &end) || !wf_size_align(end, WF_ENGINE_ALIGN, &end))
        return wf_status_out_of_memory();
    place_key_t *key = NULL;
    WF_TRY(wf_arena_alloc(&store->arena, 1, sizeof *key, &key));
    *key = (place_key_t){(uintptr_t)data, bytes};
    WF_TRY(wf_vec_push(store->allocator, &store->items, &item));
    WF_TRY(wf_map_set(&store->places, (const char *)key, sizeof *key, item.offset));
    store->bytes = end;
    return WF_OK;
}

wf_status_t wf_constant_store_add_graph(wf_constant_store_t *store, const wf_graph_t *graph)
{
    for (size_t i = 0; i < graph->values.count; i++) {
        const wf_value_t *value = wf_graph_value(graph, (wf_value_id)i);
        if (value->constant != NULL && value->use_count > 0)
            WF_TRY(wf_constant_store_add(store, value->constant, (uint64_t)wf_type_bytes(&value->type)));
    }
    return WF_OK;
}

void wf_constant_store_copy(const wf_constant_store_t *store, uint8_t *target)
{
    for (size_t i = 0; i < store->items.count; i++) {
        const wf_stored_constant_t *item = &store->items.items[i];
        memcpy(target + item->offset, item->data, item->bytes);
    }
}
