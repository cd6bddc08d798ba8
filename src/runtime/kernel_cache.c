/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel_cache.h"

#include <string.h>

#include "base/mem.h"

typedef struct opened {
    uint32_t thread_count;
    wf_backends_t *backends;
} opened_t;

struct wf_kernel_cache {
    wf_allocator_t allocator;
    wf_arena_t arena;
    wf_log_t log;
    const uint8_t *constants;
    size_t constant_bytes, limit_bytes;
    WF_VEC(opened_t) opened;
    wf_map_t index; /* threads, problem, tactic, places -> item */
    WF_VEC(wf_cached_kernel_t *) items;
    uint64_t packed_bytes, clock, prepared;
};

wf_status_t wf_kernel_cache_create(const uint8_t *constants, size_t constant_bytes, size_t limit_bytes,
                                   wf_allocator_t allocator, wf_log_t log, wf_kernel_cache_t **out_cache)
{
    *out_cache = NULL;
    wf_kernel_cache_t *cache = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *cache, &cache));
    cache->allocator = allocator;
    cache->log = log;
    cache->constants = constants;
    cache->constant_bytes = constant_bytes;
    cache->limit_bytes = limit_bytes;
    wf_arena_init(&cache->arena, allocator);
    wf_map_init(&cache->index, allocator);
    *out_cache = cache;
    return WF_OK;
}

static void release(wf_kernel_cache_t *cache, wf_cached_kernel_t *cached)
{
    if (cached->kernel == NULL)
        return;
    cached->source->release(cached->self, cached->kernel);
    cached->kernel = NULL;
    cache->packed_bytes -= cached->needs.packed_bytes;
}

void wf_kernel_cache_destroy(wf_kernel_cache_t *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < cache->items.count; i++)
        release(cache, cache->items.items[i]);
    for (size_t i = 0; i < cache->opened.count; i++)
        wf_backends_close(cache->opened.items[i].backends);
    wf_vec_deinit(cache->allocator, &cache->items);
    wf_vec_deinit(cache->allocator, &cache->opened);
    wf_map_deinit(&cache->index);
    wf_arena_deinit(&cache->arena);
    wf_free(cache->allocator, cache, 1, sizeof *cache);
}

const uint8_t *wf_kernel_cache_constants(const wf_kernel_cache_t *cache)
{
    return cache->constants;
}

size_t wf_kernel_cache_constant_bytes(const wf_kernel_cache_t *cache)
{
    return cache->constant_bytes;
}

uint64_t wf_kernel_cache_prepared(const wf_kernel_cache_t *cache)
{
    return cache->prepared;
}

wf_status_t wf_kernel_cache_backends(wf_kernel_cache_t *cache, const wf_cpu_t *cpu,
                                     wf_backends_t **out_backends)
{
    for (size_t i = 0; i < cache->opened.count; i++) {
        if (cache->opened.items[i].thread_count == cpu->thread_count) {
            *out_backends = cache->opened.items[i].backends;
            return WF_OK;
        }
    }
    opened_t opened = {.thread_count = cpu->thread_count};
    WF_TRY(wf_backends_open(cpu, NULL, cache->allocator, cache->log, &opened.backends));
    wf_status_t status = wf_vec_push(cache->allocator, &cache->opened, &opened);
    if (status != WF_OK)
        wf_backends_close(opened.backends);
    else
        *out_backends = opened.backends;
    return status;
}

static wf_status_t describe(wf_kernel_cache_t *cache, wf_backends_t *backends, const char *problem,
                            const char *tactic, wf_cached_kernel_t *cached)
{
    WF_TRY(wf_problem_parse(problem, strlen(problem), &cache->arena, &cached->problem));
    WF_TRY(wf_arena_text(&cache->arena, tactic, strlen(tactic), &cached->tactic));
    WF_TRY(wf_backends_find(backends, tactic, &cached->source, &cached->self));
    size_t operand_count = cached->problem->operand_count;
    WF_TRY(wf_arena_alloc(&cache->arena, operand_count + cached->problem->output_count,
                          sizeof *cached->layouts, &cached->layouts));
    return cached->source->query(cached->self, cached->problem, cached->tactic, cached->layouts,
                                 cached->layouts + operand_count, &cached->needs);
}

static wf_status_t add(wf_kernel_cache_t *cache, wf_backends_t *backends, const char *problem,
                       const char *tactic, const wf_text_t *key, wf_cached_kernel_t **out_cached)
{
    wf_cached_kernel_t *cached = NULL;
    const char *kept;
    WF_TRY(wf_arena_alloc(&cache->arena, 1, sizeof *cached, &cached));
    WF_TRY(describe(cache, backends, problem, tactic, cached));
    WF_TRY(wf_arena_text(&cache->arena, key->data, key->length, &kept));
    WF_TRY(wf_vec_push(cache->allocator, &cache->items, &cached));
    WF_TRY(wf_map_set(&cache->index, kept, key->length, cache->items.count - 1));
    *out_cached = cached;
    return WF_OK;
}

wf_status_t wf_kernel_cache_find(wf_kernel_cache_t *cache, wf_backends_t *backends, const char *problem,
                                 const char *tactic, const uint64_t *places, size_t place_count,
                                 wf_cached_kernel_t **out_cached)
{
    wf_text_t key;
    uint64_t found;
    wf_text_init(&key, cache->allocator, UINT32_MAX);
    wf_text_printf(&key, "%u\n%s\n%s", wf_backends_cpu(backends)->thread_count, tactic, problem);
    wf_text_append(&key, (const char *)places, place_count * sizeof *places);
    wf_status_t status = wf_text_take_status(&key);
    if (status == WF_OK) {
        if (wf_map_get(&cache->index, key.data, key.length, &found))
            *out_cached = cache->items.items[found];
        else
            status = add(cache, backends, problem, tactic, &key, out_cached);
    }
    wf_text_deinit(&key);
    return status;
}

/* Makes room for one more. */
static void evict(wf_kernel_cache_t *cache, uint64_t bytes)
{
    while (cache->packed_bytes + bytes > cache->limit_bytes) {
        wf_cached_kernel_t *oldest = NULL;
        for (size_t i = 0; i < cache->items.count; i++) {
            wf_cached_kernel_t *item = cache->items.items[i];
            bool idle = item->kernel != NULL && item->users == 0 && item->needs.packed_bytes > 0;
            if (idle && (oldest == NULL || item->last_use < oldest->last_use))
                oldest = item;
        }
        if (oldest == NULL)
            return;
        release(cache, oldest);
    }
}

wf_status_t wf_kernel_cache_prepare(wf_kernel_cache_t *cache, wf_cached_kernel_t *cached,
                                    const wf_tensor_t *constants)
{
    cached->last_use = ++cache->clock;
    if (cached->kernel == NULL) {
        evict(cache, cached->needs.packed_bytes);
        WF_TRY(cached->source->prepare(cached->self, cached->problem, cached->tactic, constants,
                                       cache->allocator, &cached->kernel));
        cache->packed_bytes += cached->needs.packed_bytes;
        cache->prepared++;
    }
    cached->users++;
    return WF_OK;
}

void wf_kernel_cache_leave(wf_cached_kernel_t *cached)
{
    cached->users--;
}
