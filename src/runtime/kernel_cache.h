/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel cache: prepared kernels shared by engines that are linked against one store of constants.
 *
 * Routes that a tuner tries differ in a few steps. Preparing a kernel packs its weights and may compile code:
 * milliseconds each; an engine whose kernels are here opens in microseconds per step. One thread at a time.
 */
#ifndef WF_RUNTIME_KERNEL_CACHE_H
#define WF_RUNTIME_KERNEL_CACHE_H

#include "backend/registry.h"

typedef struct wf_cached_kernel {
    const wf_problem_t *problem;
    const wf_source_t *source;
    void *self;
    const char *tactic;
    wf_layout_t *layouts; /* of operands, then outputs */
    wf_tactic_needs_t needs;
    wf_kernel_t *kernel; /* NULL: not prepared, or given up for lack of room */
    uint32_t users;      /* steps of open engines */
    uint64_t last_use;
} wf_cached_kernel_t;

typedef struct wf_kernel_cache wf_kernel_cache_t;

/* `constants` is borrowed and outlives the cache. Kernels that no engine uses are released, those used
 * longest ago first, when packed constants take more than limit_bytes. */
wf_status_t wf_kernel_cache_create(const uint8_t *constants, size_t constant_bytes, size_t limit_bytes,
                                   wf_allocator_t allocator, wf_log_t log,
                                   wf_kernel_cache_t **out_cache) WF_MUST_USE;
/* After the last engine is closed. NULL is allowed. */
void wf_kernel_cache_destroy(wf_kernel_cache_t *cache);
const uint8_t *wf_kernel_cache_constants(const wf_kernel_cache_t *cache);
size_t wf_kernel_cache_constant_bytes(const wf_kernel_cache_t *cache);
/* How many kernels were prepared so far. */
uint64_t wf_kernel_cache_prepared(const wf_kernel_cache_t *cache);

/* The sources for this many threads; opened when first asked for, owned by the cache. */
wf_status_t wf_kernel_cache_backends(wf_kernel_cache_t *cache, const wf_cpu_t *cpu,
                                     wf_backends_t **out_backends) WF_MUST_USE;
/* The kernel for a problem, a tactic and constants at these places (UINT64_MAX: not constant); described, not
 * necessarily prepared. Statuses of wf_problem_parse, wf_backends_find and of the source's query. */
wf_status_t wf_kernel_cache_find(wf_kernel_cache_t *cache, wf_backends_t *backends, const char *problem,
                                 const char *tactic, const uint64_t *places, size_t place_count,
                                 wf_cached_kernel_t **out_cached) WF_MUST_USE;
/* Prepares it if it is not, and counts one more user. */
wf_status_t wf_kernel_cache_prepare(wf_kernel_cache_t *cache, wf_cached_kernel_t *cached,
                                    const wf_tensor_t *constants) WF_MUST_USE;
void wf_kernel_cache_leave(wf_cached_kernel_t *cached);

#endif
