/* SPDX-License-Identifier: Apache-2.0 */
/* Engine: a compiled model, loaded and prepared for this machine. Immutable, shared by any number of
 * contexts. */
#ifndef WAYFINDER_ENGINE_H
#define WAYFINDER_ENGINE_H

#include "wayfinder/allocator.h"
#include "wayfinder/log.h"
#include "wayfinder/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wf_engine wf_engine_t;

typedef struct wf_engine_options {
    uint32_t struct_bytes;    /* sizeof(wf_engine_options_t): the version of this struct */
    uint32_t thread_count;    /* 0: as the engine was built */
    const char *isa;          /* highest CPU tier allowed ("avx2"); NULL: all */
    bool ignore_fingerprint;  /* load an engine made for another machine when its tactics exist here */
    wf_allocator_t allocator; /* resize NULL: the system's */
    wf_log_t log;
} wf_engine_options_t;

/* One input or output of a specialisation. */
typedef struct wf_port_info {
    const char *name; /* borrowed from the engine */
    wf_type_t type;
} wf_port_info_t;

/* Maps, validates and prepares an engine file. options NULL: defaults. The file may be replaced or removed
 * afterwards. FILE_MISSING, FILE_UNREADABLE, ENGINE_INVALID, ENGINE_VERSION, MACHINE_MISMATCH,
 * LIBRARY_MISSING, TACTIC_MISSING, OUT_OF_MEMORY. On failure *out_engine is NULL. */
WF_API wf_status_t wf_engine_open(const char *path, const wf_engine_options_t *options,
                                  wf_engine_t **out_engine) WF_MUST_USE;
/* The same over bytes, which the caller keeps until the engine is closed. */
WF_API wf_status_t wf_engine_open_bytes(const void *bytes, size_t length, const wf_engine_options_t *options,
                                        wf_engine_t **out_engine) WF_MUST_USE;
/* After the last context is gone. NULL is allowed. */
WF_API void wf_engine_close(wf_engine_t *engine);

/* Specialisations: shapes the engine was built for; at least one. */
WF_API size_t wf_engine_spec_count(const wf_engine_t *engine);
WF_API size_t wf_engine_input_count(const wf_engine_t *engine);
WF_API size_t wf_engine_output_count(const wf_engine_t *engine);
WF_API wf_port_info_t wf_engine_input(const wf_engine_t *engine, size_t spec, size_t index);
WF_API wf_port_info_t wf_engine_output(const wf_engine_t *engine, size_t spec, size_t index);
/* True when the input may have only one value (it decides shapes inside the model); *out_value then views it.
 */
WF_API bool wf_engine_fixed_input(const wf_engine_t *engine, size_t spec, size_t index,
                                  wf_tensor_t *out_value);
/* The specialisation whose input types are these (one type per input, in order); INPUT_MISMATCH lists what
 * there is. */
WF_API wf_status_t wf_engine_find_spec(const wf_engine_t *engine, const wf_type_t *types, size_t count,
                                       size_t *out_spec) WF_MUST_USE;

/* Facts for people and tools. Borrowed texts. */
typedef struct wf_engine_facts {
    uint32_t thread_count;
    size_t step_count;    /* of specialisation 0 */
    uint64_t arena_bytes; /* per context, largest specialisation */
    uint64_t constant_bytes;
    uint64_t packed_bytes; /* what packing at load took */
    uint64_t file_bytes;
    const char *fingerprint;
    const char *lock;
    const char *fit; /* "exact", "family" or "portable": which machines may load it */
    char content_hash[33];
} wf_engine_facts_t;
WF_API wf_engine_facts_t wf_engine_facts(const wf_engine_t *engine);

/* One step of a specialisation, for explain. */
typedef struct wf_step_info {
    const char *nodes;   /* ONNX nodes */
    const char *problem; /* canonical text */
    const char *tactic;  /* id */
    uint64_t workspace_bytes;
    bool allocates;        /* the library below allocates when it runs */
    char problem_hash[33]; /* of the problem's text, as in plans and the timing database; empty for copies */
} wf_step_info_t;
WF_API size_t wf_engine_step_count(const wf_engine_t *engine, size_t spec);
WF_API wf_step_info_t wf_engine_step(const wf_engine_t *engine, size_t spec, size_t index);

#ifdef __cplusplus
}
#endif
#endif
