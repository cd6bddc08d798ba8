/* SPDX-License-Identifier: Apache-2.0 */
/* Worker: the tuner's side of the measuring process.
 *
 * Calls start the process when there is none. A tactic or an engine that crashes, hangs, eats memory or
 * answers nonsense is no failure of the call: the whole process group is killed, the fault names what ran,
 * and the next call starts another process. Engines that were loaded are gone then (wf_worker_generation
 * changes). While a call measures, the worker holds the lease of the CPU. One thread uses a worker at a time;
 * the process ends when that thread ends.
 */
#ifndef WF_TUNE_WORKER_H
#define WF_TUNE_WORKER_H

#include "tune/lease.h"
#include "tune/worker_protocol.h"

/* Asked several times a second; true: stop, the call ends with INTERRUPTED. */
typedef bool wf_worker_tick_fn(void *self);

typedef struct wf_worker_options {
    const char *path; /* of the program; see wf_worker_find */
    uint32_t thread_count;
    const char *isa;            /* NULL: all tiers */
    const char *const *sources; /* as wf_backends_options_t.only */
    const char *lease_path;     /* NULL: the user's */
    double hang_s;              /* without a launch ended: it hangs; 0: 5 */
    size_t memory_growth_bytes; /* beyond what a request says it needs; 0: 1 GiB */
    wf_allocator_t allocator;
    wf_log_t log;
    wf_worker_tick_fn *tick; /* may be NULL */
    void *tick_self;
} wf_worker_options_t;

typedef enum wf_fault_kind {
    WF_FAULT_NONE,
    WF_FAULT_CRASH,
    WF_FAULT_HANG,
    WF_FAULT_MEMORY,
    WF_FAULT_NONSENSE
} wf_fault_kind_t;
typedef struct wf_fault {
    wf_fault_kind_t kind;
    size_t item; /* tactic or arm of the request that ran; SIZE_MAX: none did */
    char text[256];
} wf_fault_t;

typedef struct wf_worker wf_worker_t;

/* Where the program is: `option`, else WAYFINDER_WORKER of the environment, else beside this program, else
 * beside or near the library, else where it was installed. FILE_MISSING says where was looked. */
wf_status_t wf_worker_find(const char *option, char *out_path, size_t capacity) WF_MUST_USE;

/* Nothing is started yet. Options are copied, texts borrowed. */
wf_status_t wf_worker_create(const wf_worker_options_t *options, wf_worker_t **out_worker) WF_MUST_USE;
/* Kills the process. NULL is allowed. */
void wf_worker_destroy(wf_worker_t *worker);
/* Grows when a process was started: what was loaded before is gone. */
uint64_t wf_worker_generation(const wf_worker_t *worker);
/* How long calls waited for other tuners so far. */
double wf_worker_waited_s(const wf_worker_t *worker);
/* How long a single launch may take until it counts as hanging, for what follows; see hang_s. */
void wf_worker_allow_s(wf_worker_t *worker, double hang_s);
/* Process id, 0 when there is none: for tests. */
int64_t wf_worker_pid(const wf_worker_t *worker);

/* Starts the process if there is none. FILE_MISSING, INTERNAL when it cannot be greeted. */
wf_status_t wf_worker_start(wf_worker_t *worker) WF_MUST_USE;
/* wf_measure in the worker. Constants with data are sent. With a fault *out_result is empty. TIME_OUT when
 * other tuners had the CPU until the deadline. */
wf_status_t wf_worker_measure(wf_worker_t *worker, const wf_measure_request_t *request,
                              wf_measure_result_t *out_result, wf_fault_t *out_fault) WF_MUST_USE;
/* Loads an engine (all specialisations) into a slot and runs it once; the bytes are not needed afterwards. An
 * engine that cannot be opened gives its status. */
wf_status_t wf_worker_load(wf_worker_t *worker, uint32_t slot, const void *engine, size_t engine_bytes,
                           uint64_t seed, wf_fault_t *out_fault) WF_MUST_USE;
/* Gives the worker the constants that wf_worker_link links against: `copy` writes `constant_bytes` bytes.
 * Kernels of linked engines are kept prepared, those that no slot uses as long as their packed constants fit
 * into limit_bytes. Gone with the process. */
typedef void wf_worker_copy_fn(const void *arg, uint8_t *target);
wf_status_t wf_worker_store(wf_worker_t *worker, size_t constant_bytes, size_t limit_bytes,
                            wf_worker_copy_fn *copy, const void *arg, wf_fault_t *out_fault) WF_MUST_USE;
/* wf_worker_load for an engine that was written against the store. INTERNAL without one. */
wf_status_t wf_worker_link(wf_worker_t *worker, uint32_t slot, const void *engine, size_t engine_bytes,
                           uint64_t seed, size_t memory_bytes, wf_fault_t *out_fault) WF_MUST_USE;
wf_status_t wf_worker_unload(wf_worker_t *worker, uint32_t slot) WF_MUST_USE;
/* Blocks of loaded engines, interleaved; times as in wf_measure_result_t, one column per slot of the race. */
wf_status_t wf_worker_race(wf_worker_t *worker, const wf_race_message_t *race,
                           wf_measure_result_t *out_result, wf_fault_t *out_fault) WF_MUST_USE;

#endif
