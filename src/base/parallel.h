/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a run: one pool per context, items handed out from a shared counter.
 *
 * Two back ends behind one call. libgomp when a source needs OpenMP: two spinning pools in one process cost 8
 * ms a region (research: alternating libgomp and a second pool on 2 cores). Our own pool otherwise: 0.4 us a
 * region against 1.1 us.
 */
#ifndef WF_BASE_PARALLEL_H
#define WF_BASE_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "wayfinder/backend.h"

typedef struct wf_pool wf_pool_t;

/* Makes a pool of thread_count threads, the caller being thread 0. thread_count 1 starts none and runs
 * inline. `openmp` true runs regions on libgomp (ignored in builds without it and under ThreadSanitizer,
 * which does not know libgomp). Every thread of a region runs in the floating-point state of the calling
 * thread, so that a result does not depend on the thread that computed it: call wf_fpu_fast before a region
 * to have it everywhere. On failure *out is NULL: USAGE for more than 1024 threads, OUT_OF_MEMORY, also when
 * the system allows no more threads. */
wf_status_t wf_pool_create(uint32_t thread_count, bool openmp, wf_allocator_t allocator,
                           wf_pool_t **out_pool) WF_MUST_USE;
/* Joins the workers and frees. NULL is allowed. Not while a region runs. */
void wf_pool_destroy(wf_pool_t *pool);
/* The pool as the wf_parallel_t that launches take. Valid as long as the pool. One region at a time. */
wf_parallel_t wf_pool_parallel(wf_pool_t *pool);
/* A wf_parallel_t of one thread that runs items inline. */
wf_parallel_t wf_parallel_inline(void);
/* Between a begin and an end, idle workers spin instead of sleeping (a context begins before its first step),
 * and the threads of libgomp are in the floating-point state of the caller of begin, also in regions that a
 * library opens.
 */
void wf_pool_begin(wf_pool_t *pool);
void wf_pool_end(wf_pool_t *pool);

/* Ends the threads that libgomp keeps spinning for the calling thread (5 ms after a region); they are made
 * anew by the next region, in about 50 us. For a caller that is about to time something on another pool.
 * Nothing to do, and free, for our own pool. */
void wf_pool_rest(wf_pool_t *pool);
/* False in builds without libgomp and under ThreadSanitizer. */
bool wf_pool_has_openmp(void);
/* The address of GOMP_parallel that regions call, to see whether a library below has the same pool; NULL
 * without. */
void *wf_pool_openmp_entry(void);

/* From now on items are dealt out in as many equal runs as there are threads, instead of one by one from a
 * shared counter: neighbours in memory stay on one thread, a slow thread is not helped. Not while a region
 * runs. */
void wf_pool_deal_equally(wf_pool_t *pool, bool equally);

/* Ties worker i to the i-th CPU that the process may use, or unties all. Never done unless asked: a busy
 * process on one core then holds up every region. The calling thread is left alone. False when the system or
 * the back end cannot. */
bool wf_pool_pin(wf_pool_t *pool, bool pin);

/* Sets flush-to-zero and denormals-are-zero in this thread and returns the old state; restore puts it back.
 * No-ops where the CPU has no such control. Denormal operands cost 60x (16 K floats: 50 us against 0.8 us).
 */
uint32_t wf_fpu_fast(void);
/* The opposite: denormals count. Returns the old state. */
uint32_t wf_fpu_exact(void);
/* The state of this thread, for wf_fpu_restore. */
uint32_t wf_fpu_state(void);
void wf_fpu_restore(uint32_t old_state);

#endif
