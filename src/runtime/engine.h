/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a loaded engine. */
#ifndef WF_RUNTIME_ENGINE_H
#define WF_RUNTIME_ENGINE_H

#include "backend/registry.h"
#include "base/file.h"
#include "base/hash.h"
#include "runtime/image.h"
#include "wayfinder/context.h"
#include "runtime/kernel_cache.h"
#include "wayfinder/engine.h"

#define WF_THREADS_MAX 1024u

/* One step with its prepared kernel; kernel NULL: a copy. */
typedef struct wf_prepared {
    const wf_engine_step_t *step;
    const wf_problem_t *problem;
    const wf_source_t *source;
    void *self;
    wf_kernel_t *kernel;
    wf_tactic_needs_t needs;
    wf_cached_kernel_t *cached; /* of a linked engine: owns the kernel */
} wf_prepared_t;

struct wf_engine {
    wf_allocator_t allocator;
    wf_arena_t arena;
    wf_mapping_t mapping; /* data NULL: the bytes are the caller's */
    wf_image_t image;
    wf_kernel_cache_t *cache; /* of a linked engine, borrowed; it owns backends then */
    wf_backends_t *backends;
    wf_prepared_t *prepared; /* one per step of the image */
    bool *constant_kept;     /* per constant: read at run time */
    uint64_t packed_bytes;
    uint32_t thread_count;
    bool openmp; /* a step's source needs libgomp to be the only pool */
};

/* Ends idle threads that would disturb a measurement on another pool (wf_pool_rest). */
void wf_context_rest(wf_context_t *context);

/* Opens an engine that was written against the store of constants that the cache holds. Kernels come from the
 * cache: those that an earlier engine prepared are not prepared again. Bytes and cache outlive the engine.
 * Statuses of wf_engine_open_bytes. Engines of one cache are opened, run and closed by one thread at a time.
 */
wf_status_t wf_engine_open_linked(const void *bytes, size_t length, const wf_engine_options_t *options,
                                  wf_kernel_cache_t *cache, wf_engine_t **out_engine) WF_MUST_USE;

#endif
