/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator for fault tests: counts, fails where asked, and checks its callers.
 *
 * Fails the test at once (fail_msg) when a block is resized or freed with another size or alignment than it
 * has, is freed twice, or was written past its end. Thread-safe.
 */
#ifndef WF_TESTS_FAIL_ALLOCATOR_H
#define WF_TESTS_FAIL_ALLOCATOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "wayfinder/allocator.h"

#define WF_FAIL_NEVER UINT64_MAX

typedef struct wf_fail_allocator {
    pthread_mutex_t lock;
    uint64_t call_count; /* allocations and growths so far */
    uint64_t fail_at;    /* the call (from 0) that fails; WF_FAIL_NEVER */
    bool keep_failing;   /* and all calls after it */
    uint64_t live_count; /* blocks not freed */
    uint64_t live_bytes;
    uint64_t peak_bytes;
} wf_fail_allocator_t;

/* Starts counting from 0. fail_at WF_FAIL_NEVER only counts and checks. */
void wf_fail_allocator_init(wf_fail_allocator_t *fail, uint64_t fail_at, bool keep_failing);
/* The allocator; valid as long as *fail. */
wf_allocator_t wf_fail_allocator(wf_fail_allocator_t *fail);
/* True when the call fail_at was reached. */
bool wf_fail_allocator_failed(const wf_fail_allocator_t *fail);
/* Fails the test when blocks are live. Frees the lock. */
void wf_fail_allocator_finish(wf_fail_allocator_t *fail);

/* Runs scenario(allocator, arg) with the allocation 0, 1, 2, ... failing until one run is not reached by its
 * failure; checks that a run whose allocation failed says OUT_OF_MEMORY, that the last one says OK, and that
 * none leaks. Returns the number of allocations. The scenario frees all that it makes. */
typedef wf_status_t wf_fail_scenario_fn(wf_allocator_t allocator, void *arg);
uint64_t wf_fail_each_allocation(wf_fail_scenario_fn *scenario, void *arg);

#endif
