/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring tactics of one problem: the protocol behind every row of the timing database.
 *
 * Candidates run interleaved: a block is one batch of each, in random order, within milliseconds, and is
 * judged by the ratio to the batch of the anchor in the same block. Memory is cold as in a model: every
 * launch takes the next of several sets of operands, outputs and packed constants, together larger than the
 * caches. A canary runs beside each block. Change WF_MEASURE_PROTOCOL when numbers mean something else than
 * before.
 */
#ifndef WF_TUNE_MEASURE_H
#define WF_TUNE_MEASURE_H

#include <stdatomic.h>

#include "backend/registry.h"

#define WF_MEASURE_PROTOCOL 1u
#define WF_MEASURE_CONTEXT "cold"
#define WF_MEASURE_TACTICS_MAX 64u

/* What a measurement is doing, for somebody who watches from another process. */
typedef struct wf_watch {
    _Atomic uint32_t item;  /* tactic of the request, arm of a race */
    _Atomic uint32_t phase; /* wf_watch_phase_t */
    _Atomic uint64_t beats; /* grows with every launch */
} wf_watch_t;
typedef enum wf_watch_phase { WF_WATCH_IDLE, WF_WATCH_PREPARE, WF_WATCH_LAUNCH } wf_watch_phase_t;

/* Sources and threads to measure with. One thread at a time. */
typedef struct wf_meter wf_meter_t;
/* `sources` as in wf_backends_options_t.only (NULL: all that are not for tests). watch may be NULL; it
 * outlives the meter. */
wf_status_t wf_meter_create(const wf_cpu_t *cpu, const char *const *sources, wf_watch_t *watch,
                            wf_allocator_t allocator, wf_log_t log, wf_meter_t **out_meter) WF_MUST_USE;
void wf_meter_destroy(wf_meter_t *meter);
/* The threads, floating-point state set as in a run. */
const wf_parallel_t *wf_meter_parallel(const wf_meter_t *meter);

typedef struct wf_measure_request {
    const wf_problem_t *problem;
    const char *const *tactics; /* 1 to WF_MEASURE_TACTICS_MAX; the first is the anchor */
    size_t tactic_count;
    /* One per operand; data NULL: seeded floats in [-1, 1), or zeros when integers. NULL: all so. */
    const wf_tensor_t *constants;
    size_t block_count;
    double batch_ns;     /* a batch takes at least this long */
    size_t memory_bytes; /* of all sets together */
    uint64_t seed;
    uint64_t deadline_ns; /* of wf_clock_ns: nothing is started after it; 0: none */
} wf_measure_request_t;

typedef struct wf_measure_result {
    wf_allocator_t allocator;
    size_t tactic_count, block_count, block_capacity; /* blocks that were finished */
    double *times_ns;      /* [block][tactic], per launch; NaN: not run in this block */
    double *canary_ns;     /* [block]: the slower of those before and after it */
    uint32_t *preemptions; /* [block]: how often a thread of this process was taken off its core */
    char (*faults)[256];   /* [tactic]: "" or why it cannot be used (prepare or launch failed) */
} wf_measure_result_t;

/* Measures. A tactic that fails is no failure of the call: see faults. OUT_OF_MEMORY; on failure *out_result
 * is empty. Deinit frees. */
wf_status_t wf_measure(wf_meter_t *meter, const wf_measure_request_t *request,
                       wf_measure_result_t *out_result) WF_MUST_USE;
/* Room for results, all NaN. */
wf_status_t wf_measure_result_init(wf_measure_result_t *result, size_t tactic_count, size_t block_capacity,
                                   wf_allocator_t allocator) WF_MUST_USE;
void wf_measure_result_deinit(wf_measure_result_t *result);

#endif
