/* SPDX-License-Identifier: Apache-2.0 */
/* Baseline: how fast an engine was, with the raw samples and under what circumstances; the file
 * ENGINE.baseline.json that a tuning leaves beside its engine.
 *
 * It names the engine by hash. Nothing compares with its absolute times: a gate measures the engine it names
 * again. The file is untrusted.
 */
#ifndef WF_TUNE_BASELINE_H
#define WF_TUNE_BASELINE_H

#include <jansson.h>

#include "tune/arm.h"

#define WF_BASELINE_SUFFIX ".baseline.json"
#define WF_BASELINE_SCHEMA "wayfinder-baseline"
#define WF_BASELINE_VERSION 1

/* Texts live in `arena`; deinit frees all. */
typedef struct wf_baseline {
    wf_allocator_t allocator;
    wf_arena_t arena;
    char engine_hash[33], model_hash[33];
    const char *engine_file; /* name of the engine, without folders; it lies beside the baseline */
    uint64_t engine_bytes;
    const char *device; /* fingerprint of the machine of the samples */
    const char *shapes; /* of every specialisation, canonical */
    uint32_t thread_count;
    double median_ns, low_ns, high_ns; /* 0: not measured */
    wf_times_t samples_ns, canary_ns;  /* one canary per block of samples; may be empty */
    const char *environment;           /* versions of libraries, kernel */
    int64_t created_s;                 /* since 1970; 0: not known */
} wf_baseline_t;

void wf_baseline_init(wf_baseline_t *baseline, wf_allocator_t allocator);
void wf_baseline_deinit(wf_baseline_t *baseline);

/* What an engine file says of itself: hash, model, shapes, threads, name, size. Nothing is prepared. Statuses
 * of wf_mapping_open and wf_image_open. *out is initialised, also on failure empty but valid. */
wf_status_t wf_baseline_identify(const char *engine_path, wf_allocator_t allocator,
                                 wf_baseline_t *out) WF_MUST_USE;
/* Copies a text in. */
wf_status_t wf_baseline_text(wf_baseline_t *baseline, const char *text, const char **out) WF_MUST_USE;
/* Sets `environment` (kernel release and what `more` says) and the time. */
wf_status_t wf_baseline_stamp(wf_baseline_t *baseline, const char *more) WF_MUST_USE;

/* Replaces a baseline atomically. FILE_EXISTS when something else is there and force is false. */
wf_status_t wf_baseline_write(const wf_baseline_t *baseline, const char *path, bool force) WF_MUST_USE;
/* FILE_MISSING, FILE_UNREADABLE; BASELINE_MISMATCH for what is no baseline, a damaged one, or a newer schema,
 * naming line or key. On failure *out is empty but valid. */
wf_status_t wf_baseline_read(const char *path, wf_allocator_t allocator, wf_baseline_t *out) WF_MUST_USE;

/* ENGINE_PATH.baseline.json; USAGE when it is too long. */
wf_status_t wf_baseline_path(const char *engine_path, char *out_path, size_t capacity) WF_MUST_USE;

#endif
