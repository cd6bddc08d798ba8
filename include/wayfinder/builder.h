/* SPDX-License-Identifier: Apache-2.0 */
/* Builder: model to engine on the default route (estimated costs, nothing measured), checked against the
 * reference. */
#ifndef WAYFINDER_BUILDER_H
#define WAYFINDER_BUILDER_H

#include "wayfinder/engine.h"
#include "wayfinder/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The dims of one input in one specialisation. */
typedef struct wf_shape {
    const char *input;
    const int64_t *dims;
    size_t rank;
    const wf_tensor_t
        *value; /* NULL, or the only value this input may have (it decides shapes inside the model) */
} wf_shape_t;

/* A setting of the route space: "fuse.attention" = "off"; "cpu.threads" = "2". Several values ("on,off",
 * "[1/2/4]", "1..4") are tried by wf_tune; wf_build takes the default among them, else the first. */
typedef struct wf_setting {
    const char *name, *value;
} wf_setting_t;

/* Called while something slow runs; `fraction` is in [0, 1] or negative when not known. Returning true asks
 * to stop: the call then ends with INTERRUPTED (or with the best so far, where it says so). */
typedef bool wf_progress_fn(void *self, const char *what, double fraction);

typedef struct wf_build_options {
    uint32_t struct_bytes; /* sizeof(wf_build_options_t) */
    uint32_t thread_count; /* 0: the machine's default */
    const char *isa;       /* highest CPU tier; NULL: all */
    /* Specialisations: spec_count lists of shapes, spec i has shape_counts[i] of them at shapes[i]. 0: the
     * model's own. */
    const wf_shape_t *const *shapes;
    const size_t *shape_counts;
    size_t spec_count;
    const wf_setting_t *settings;
    size_t setting_count;
    const char *lock; /* text of a lock to rebuild from; NULL: choose. Settings, threads and fit are the
                       * lock's, shapes too where spec_count is 0 */
    bool skip_check;  /* do not compare with the reference (the caller does) */
    uint64_t check_seed;
    wf_allocator_t allocator; /* resize NULL: the system's */
    wf_log_t log;
    void *progress_self;
    wf_progress_fn *progress; /* NULL: none */
    /* Which machines may load the engine: "exact" (the same CPU, caches, cores and quota), "family" (the same
     * CPU model) or "portable" (every machine that has its tactics). NULL: portable, or what the lock says.
     */
    const char *fit;
    /* The lock is followed as far as its tactics exist here, and the engine gets a lock of its own: for
     * machines other than the lock's. report_json says decisions_kept and lists decisions_anew, which should
     * be measured. */
    bool lock_guides;
} wf_build_options_t;

/* The bytes of an engine and what was found while making it. Free with wf_build_result_free. */
typedef struct wf_build_result {
    wf_allocator_t allocator;
    uint8_t *engine;
    size_t engine_bytes;
    char *report_json; /* route, costs, accuracy per output: the data of `build --json` */
} wf_build_result_t;

/* Builds. SHAPE_NEEDED, MODEL_INVALID, MODEL_UNSUPPORTED, USAGE (settings), LOCK_MISMATCH, ACCURACY (with the
 * output that disagrees), OUT_OF_MEMORY, INTERRUPTED. On failure *out_result is empty. */
WF_API wf_status_t wf_build(const wf_model_t *model, const wf_build_options_t *options,
                            wf_build_result_t *out_result) WF_MUST_USE;
WF_API void wf_build_result_free(wf_build_result_t *result);
/* Writes an engine: temporary file in the same folder, sync, rename. FILE_EXISTS when `path` holds something
 * that is not an engine and `force` is false. */
WF_API wf_status_t wf_engine_save(const void *engine, size_t engine_bytes, const char *path,
                                  bool force) WF_MUST_USE;

/* Verbs of `knobs`: "list", "show" NAME, "search" WORD. Output is text or JSON in *out_text, freed with the
 * allocator's resize to 0 of *out_text_bytes + 1 bytes. USAGE for what is not known, with the nearest. */
WF_API wf_status_t wf_knobs_command(const char *verb, const char *argument, bool json,
                                    wf_allocator_t allocator, char **out_text,
                                    size_t *out_text_bytes) WF_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
