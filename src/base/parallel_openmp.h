/* SPDX-License-Identifier: Apache-2.0 */
/* The libgomp back end of wf_pool_t. */
#ifndef WF_BASE_PARALLEL_OPENMP_H
#define WF_BASE_PARALLEL_OPENMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wayfinder/backend.h"

/* False in builds without libgomp and under ThreadSanitizer. */
bool wf_openmp_available(void);
/* Runs fn for every item on at most thread_count threads of libgomp's pool, in the caller's floating-point
 * state. */
void wf_openmp_run(uint32_t thread_count, size_t item_count, wf_item_fn *fn, void *arg);
/* Puts the caller's floating-point state into every thread of the team, for regions that a library runs on
 * it; `states` (thread_count entries) keeps what they had. The second call gives that back. */
void wf_openmp_state_set(uint32_t thread_count, uint32_t *states);
void wf_openmp_state_restore(uint32_t thread_count, uint32_t *states);
/* Ends the team's idle threads. */
void wf_openmp_rest(void);

#endif
