/* SPDX-License-Identifier: Apache-2.0 */
/* Engine writer: lowers routes to steps, bindings, constants and a memory plan, and makes the file's bytes.
 */
#ifndef WF_ENGINE_ENGINE_WRITE_H
#define WF_ENGINE_ENGINE_WRITE_H

#include "device/fit.h"
#include "engine/constant_store.h"
#include "route/space.h"

/* One specialisation: a graph, its space and the chosen route. Input ports keep the model's order. */
typedef struct wf_engine_part {
    wf_space_t *space; /* conversions may be added to it */
    const wf_route_t *route;
    /* Inputs with a fixed value (see wf_onnx_binding_t): one tensor per graph input, data NULL when free; or
     * NULL. */
    const wf_tensor_t *fixed_inputs;
} wf_engine_part_t;

typedef struct wf_engine_source {
    const wf_engine_part_t *parts; /* at least one; the first is the default */
    size_t part_count;
    uint32_t thread_count;
    uint32_t run_flags; /* WF_RUN_ of engine/format.h */
    bool memory_reuse, concat_inplace;
    const char *fingerprint; /* text */
    wf_fit_t fit;
    const char *lock; /* text, verbatim */
    /* Constants stay outside: the engine opens only with wf_engine_open_linked over this store. NULL: inside.
     */
    const wf_constant_store_t *store;
} wf_engine_source_t;

/* Makes the bytes of the engine (64-byte aligned block from `allocator`, freed with wf_free_aligned(..,
 * bytes, 1, 64)). The same source gives the same bytes. Same constants of several parts are stored once. */
wf_status_t wf_engine_write(const wf_engine_source_t *source, wf_allocator_t allocator, uint8_t **out_bytes,
                            size_t *out_length) WF_MUST_USE;

#endif
