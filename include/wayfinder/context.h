/* SPDX-License-Identifier: Apache-2.0 */
/* Context: one thread's use of an engine: an arena, a pool of threads, bound tensors. */
#ifndef WAYFINDER_CONTEXT_H
#define WAYFINDER_CONTEXT_H

#include "wayfinder/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wf_context wf_context_t;

/* Makes a context for one specialisation. All memory of later runs is taken here. Contexts of one engine may
 * run at the same time in different threads; one context is used by one thread at a time. */
WF_API wf_status_t wf_context_create(const wf_engine_t *engine, size_t spec,
                                     wf_context_t **out_context) WF_MUST_USE;
WF_API void wf_context_destroy(wf_context_t *context);

/* Runs. inputs, outputs: one dense row-major buffer per port, in the engine's order, 64-byte alignment
 * recommended, any alignment to the element accepted; they may not overlap. Types are those of the
 * specialisation. Allocates nothing in our code. INPUT_MISMATCH when a fixed input has another value;
 * RUNTIME_DATA naming the step when values are not possible. */
WF_API wf_status_t wf_context_run(wf_context_t *context, const void *const *inputs,
                                  void *const *outputs) WF_MUST_USE;

/* Runs once and writes the time of every step to out_step_ns[step_count] (clock calls between steps are
 * included). */
WF_API wf_status_t wf_context_run_timed(wf_context_t *context, const void *const *inputs,
                                        void *const *outputs, uint64_t *out_step_ns) WF_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
