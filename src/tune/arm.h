/* SPDX-License-Identifier: Apache-2.0 */
/* Arm: a loaded engine made ready to be timed. Contexts and seeded inputs of some of its specialisations.
 *
 * Engines are compared in blocks: every arm once, in random order. A sample of an arm begins with runs that
 * are not timed, so that the arm before it has left the caches, and then takes enough runs to stand above the
 * clock. One thread uses an arm at a time.
 */
#ifndef WF_TUNE_ARM_H
#define WF_TUNE_ARM_H

#include <stdatomic.h>

#include "base/mem.h"
#include "wayfinder/engine.h"

typedef struct wf_arm wf_arm_t;

/* Makes contexts and inputs for `spec_count` specialisations (specs NULL: all of the engine). The engine
 * outlives the arm. Statuses of wf_context_create. On failure *out_arm is NULL. */
wf_status_t wf_arm_create(const wf_engine_t *engine, const size_t *specs, size_t spec_count, uint64_t seed,
                          wf_allocator_t allocator, wf_arm_t **out_arm) WF_MUST_USE;
/* A counter that grows with every run from now on, for somebody who watches. */
void wf_arm_beat(wf_arm_t *arm, _Atomic uint64_t *beats);
/* NULL is allowed. */
void wf_arm_destroy(wf_arm_t *arm);

/* One run of each specialisation, not timed. */
wf_status_t wf_arm_warm(wf_arm_t *arm) WF_MUST_USE;
/* One timed run of each specialisation: the geometric mean of their times. */
wf_status_t wf_arm_run(wf_arm_t *arm, double *out_ns) WF_MUST_USE;

/* One timed run of specialisation `side` (an index into the arm's): the time of every step, in order. */
wf_status_t wf_arm_run_steps(wf_arm_t *arm, size_t side, uint64_t *out_step_ns) WF_MUST_USE;

typedef WF_VEC(double) wf_times_t;
/* A sample: wf_arm_warm `warm_runs` times, then timed runs, at least `runs_min` and until they took
 * `least_ns`. *out_ns is their median, `times` (may be NULL) receives every one. */
wf_status_t wf_arm_sample(wf_arm_t *arm, size_t warm_runs, size_t runs_min, double least_ns,
                          wf_times_t *times, double *out_ns) WF_MUST_USE;

#endif
