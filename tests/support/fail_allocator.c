/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fail_allocator.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

/* Before and after each block. */
#define WF_GUARD_BYTES 64u
#define WF_GUARD_LIVE 0xa5
#define WF_GUARD_FREED 0x5a

typedef struct wf_fail_header {
    size_t bytes;
    size_t alignment_bytes;
    uint8_t mark; /* LIVE or FREED */
} wf_fail_header_t;

static size_t wf_fail_front(size_t alignment_bytes)
{
    return alignment_bytes > WF_GUARD_BYTES ? alignment_bytes : WF_GUARD_BYTES;
}

static wf_fail_header_t *wf_fail_header_of(void *ptr)
{
    return (wf_fail_header_t *)((char *)ptr - WF_GUARD_BYTES);
}

static void *wf_fail_new(size_t bytes, size_t alignment_bytes)
{
    size_t front_bytes = wf_fail_front(alignment_bytes);
    size_t total_bytes = front_bytes + bytes + WF_GUARD_BYTES;
    total_bytes = (total_bytes + front_bytes - 1) / front_bytes * front_bytes;
    char *block = aligned_alloc(front_bytes, total_bytes);
    if (block == NULL) {
        return NULL;
    }
    memset(block, WF_GUARD_LIVE, total_bytes); /* also: memory that is not initialised is not zero */
    char *ptr = block + front_bytes;
    *wf_fail_header_of(ptr) = (wf_fail_header_t){bytes, alignment_bytes, WF_GUARD_LIVE};
    return ptr;
}

static void wf_fail_check(void *ptr, size_t bytes, size_t alignment_bytes)
{
    const wf_fail_header_t *header = wf_fail_header_of(ptr);
    if (header->mark != WF_GUARD_LIVE) {
        fail_msg("a block is freed twice, or was not allocated here");
    }
    if (header->bytes != bytes || header->alignment_bytes != alignment_bytes) {
        fail_msg("a block of %zu bytes (alignment %zu) is given back as %zu bytes (alignment %zu)",
                 header->bytes, header->alignment_bytes, bytes, alignment_bytes);
    }
    const uint8_t *guard = (const uint8_t *)ptr + bytes;
    for (size_t i = 0; i < WF_GUARD_BYTES; i++) {
        if (guard[i] != WF_GUARD_LIVE) {
            fail_msg("a block of %zu bytes was written %zu bytes past its end", bytes, i);
        }
    }
}

static void wf_fail_free(void *ptr)
{
    wf_fail_header_t *header = wf_fail_header_of(ptr);
    size_t front_bytes = wf_fail_front(header->alignment_bytes);
    header->mark = WF_GUARD_FREED;
    free((char *)ptr - front_bytes);
}

/* Counts the call; true when it fails. */
static bool wf_fail_count(wf_fail_allocator_t *fail)
{
    uint64_t call = fail->call_count++;
    return call == fail->fail_at || (fail->keep_failing && call > fail->fail_at);
}

static void *wf_fail_resize_locked(wf_fail_allocator_t *fail, void *ptr, size_t old_bytes, size_t new_bytes,
                                   size_t alignment_bytes)
{
    if (alignment_bytes == 0 || (alignment_bytes & (alignment_bytes - 1)) != 0) {
        fail_msg("alignment %zu is no power of two", alignment_bytes);
    }
    if ((ptr == NULL) != (old_bytes == 0)) {
        fail_msg("pointer %p does not go with %zu old bytes", ptr, old_bytes);
    }
    if (ptr != NULL) {
        wf_fail_check(ptr, old_bytes, alignment_bytes);
    }
    void *fresh = NULL;
    if (new_bytes > 0) {
        fresh = wf_fail_count(fail) ? NULL : wf_fail_new(new_bytes, alignment_bytes);
        if (fresh == NULL) {
            return NULL;
        }
        fail->live_count++;
        fail->live_bytes += new_bytes;
    }
    if (ptr != NULL) {
        if (fresh != NULL) {
            memcpy(fresh, ptr, old_bytes < new_bytes ? old_bytes : new_bytes);
        }
        wf_fail_free(ptr);
        fail->live_count--;
        fail->live_bytes -= old_bytes;
    }
    fail->peak_bytes = fail->live_bytes > fail->peak_bytes ? fail->live_bytes : fail->peak_bytes;
    return fresh;
}

static void *wf_fail_resize(void *self, void *ptr, size_t old_bytes, size_t new_bytes, size_t alignment_bytes)
{
    wf_fail_allocator_t *fail = self;
    pthread_mutex_lock(&fail->lock);
    void *fresh = wf_fail_resize_locked(fail, ptr, old_bytes, new_bytes, alignment_bytes);
    pthread_mutex_unlock(&fail->lock);
    return fresh;
}

void wf_fail_allocator_init(wf_fail_allocator_t *fail, uint64_t fail_at, bool keep_failing)
{
    *fail = (wf_fail_allocator_t){.fail_at = fail_at, .keep_failing = keep_failing};
    pthread_mutex_init(&fail->lock, NULL);
}

wf_allocator_t wf_fail_allocator(wf_fail_allocator_t *fail)
{
    return (wf_allocator_t){fail, wf_fail_resize};
}

bool wf_fail_allocator_failed(const wf_fail_allocator_t *fail)
{
    return fail->call_count > fail->fail_at;
}

void wf_fail_allocator_finish(wf_fail_allocator_t *fail)
{
    uint64_t live_count = fail->live_count;
    uint64_t live_bytes = fail->live_bytes;
    pthread_mutex_destroy(&fail->lock);
    if (live_count != 0) {
        fail_msg("%llu blocks (%llu bytes) leak when allocation %lld fails", (unsigned long long)live_count,
                 (unsigned long long)live_bytes, (long long)fail->fail_at);
    }
}

uint64_t wf_fail_each_allocation(wf_fail_scenario_fn *scenario, void *arg)
{
    for (uint64_t fail_at = 0;; fail_at++) {
        wf_fail_allocator_t fail;
        wf_fail_allocator_init(&fail, fail_at, false);
        wf_status_t status = scenario(wf_fail_allocator(&fail), arg);
        bool failed = wf_fail_allocator_failed(&fail);
        wf_code_t code = wf_status_code(status);
        if (failed && code != WF_CODE_OUT_OF_MEMORY) {
            fail_msg("allocation %llu failed, and the status is %d: %s", (unsigned long long)fail_at,
                     (int)code, wf_status_message(status));
        }
        if (!failed && code != WF_CODE_OK) {
            fail_msg("no allocation failed, and the status is %d: %s", (int)code, wf_status_message(status));
        }
        wf_status_free(status);
        wf_fail_allocator_finish(&fail);
        if (!failed) {
            return fail_at;
        }
    }
}
