/* SPDX-License-Identifier: Apache-2.0 */
/* Job: one model being compiled. Graphs of its specialisations, the space of routes, engines made from
 * routes, and the check of an engine against the reference. Shared by build, tune and verify.
 */
#ifndef WF_TUNE_JOB_H
#define WF_TUNE_JOB_H

#include <jansson.h>

#include "backend/registry.h"
#include "device/device.h"
#include "device/fit.h"
#include "engine/constant_store.h"
#include "graph/graph.h"
#include "route/space.h"
#include "wayfinder/builder.h"
#include "wayfinder/verify.h"

/* Seeded inputs and the reference's outputs for them. */
typedef struct wf_job_case {
    uint64_t seed;
    wf_tensor_t *inputs, *outputs; /* NULL: not computed */
} wf_job_case_t;
#define WF_JOB_CASES_KEPT 4u

/* One specialisation. `reference` is the graph as imported; `graph` is rewritten by passes. */
typedef struct wf_job_part {
    wf_graph_t *reference;
    wf_graph_t *graph;
    wf_tensor_t *fixed; /* one per input, data NULL when free; NULL when none is fixed */
    wf_space_t *space;
    wf_job_case_t cases[WF_JOB_CASES_KEPT]; /* kept for the checks to come, the oldest is replaced */
    size_t next_case;
} wf_job_part_t;

typedef struct wf_job wf_job_t;
/* Makes another job from the same model. */
typedef struct wf_job_maker {
    void *self;
    wf_status_t (*make)(void *self, const wf_build_options_t *options, wf_job_t **out_job);
} wf_job_maker_t;

struct wf_job {
    const wf_job_maker_t *maker; /* NULL: there is no way; set by who has the model, outlives the job's use */
    wf_allocator_t allocator;
    wf_arena_t arena;
    wf_log_t log;
    wf_device_t device;
    wf_cpu_t cpu;
    wf_knobs_t knobs;
    const char *isa; /* highest CPU tier, or NULL */
    wf_backends_t *backends;
    wf_job_part_t *parts;
    size_t part_count;
    char model_hash[33];
    const char *fingerprint;
    wf_fit_t fit; /* which machines may load the engine */
    void *progress_self;
    wf_progress_fn *progress;
};

/* What a job is made from; graphs are taken over, also on failure. */
typedef struct wf_job_source {
    wf_graph_t **references, **graphs;
    wf_tensor_t *const *fixed; /* per part, or NULL; copied, but data lives as long as the job */
    size_t part_count;
    const char *model_hash;
} wf_job_source_t;

/* Detects the device, applies settings, runs the passes, opens the tactic sources, enumerates the spaces.
 * USAGE for a setting that does not exist; MODEL_UNSUPPORTED naming nodes that cannot be compiled. On failure
 * *out_job is NULL. */
wf_status_t wf_job_create(const wf_job_source_t *source, const wf_build_options_t *options,
                          wf_job_t **out_job) WF_MUST_USE;
void wf_job_destroy(wf_job_t *job);

/* One route per part; freed by wf_job_routes_free. */
wf_status_t wf_job_solve(wf_job_t *job, wf_route_t **out_routes) WF_MUST_USE;
void wf_job_routes_free(wf_job_t *job, wf_route_t *routes);

/* The lock of routes: everything needed to build the same bytes again. knobs NULL: the job's; others may
 * differ from the job's in scope ENGINE and RUN. `evidence` is a further section, verbatim, or "". */
wf_status_t wf_job_lock(const wf_job_t *job, const wf_knobs_t *knobs, const wf_route_t *routes,
                        const char *evidence, wf_text_t *out_lock) WF_MUST_USE;
/* Sets knobs from the settings of a lock; LOCK_MISMATCH for what this version does not know. */
wf_status_t wf_job_lock_knobs(const char *lock, wf_knobs_t *knobs) WF_MUST_USE;
/* Routes from a lock. LOCK_MISMATCH naming what differs: model, shapes, threads, plan lines, tactics. */
wf_status_t wf_job_routes_from_lock(wf_job_t *job, const char *lock, wf_route_t **out_routes) WF_MUST_USE;

/* Engine bytes (64-byte aligned, freed with wf_free_aligned(.., bytes, 1, 64)). The bytes follow from routes
 * and lock. */
wf_status_t wf_job_engine(wf_job_t *job, const wf_route_t *routes, const char *lock, uint8_t **out_bytes,
                          size_t *out_length) WF_MUST_USE;

/* Constants of all parts, for wf_job_link. Initialises *out_store, which is the caller's to deinit, also on
 * failure. */
wf_status_t wf_job_store(const wf_job_t *job, wf_constant_store_t *out_store) WF_MUST_USE;
/* An engine for trials, without constants and lock: it opens only in a worker that has the store. Freed as
 * wf_job_engine's. */
wf_status_t wf_job_link(wf_job_t *job, const wf_route_t *routes, const wf_knobs_t *knobs,
                        const wf_constant_store_t *store, uint8_t **out_bytes,
                        size_t *out_length) WF_MUST_USE;

/* Computes inputs and reference outputs of a seed, every part, for checks to come. Slow: job->progress is
 * called. INTERRUPTED when it asks to stop. */
wf_status_t wf_job_reference(wf_job_t *job, uint64_t seed) WF_MUST_USE;
/* Compares an engine with the reference on seeded inputs, every part. Fails closed. ACCURACY naming the worst
 * output; `report` (a JSON array, may be NULL) receives the metrics of each output. */
wf_status_t wf_job_check(wf_job_t *job, const void *engine, size_t engine_bytes, uint64_t seed,
                         json_t *report) WF_MUST_USE;

/* The bound of the gate for exact FP32 work. */
bool wf_accuracy_gate(const wf_accuracy_t *accuracy, wf_dtype_t dtype);

#endif
