/* SPDX-License-Identifier: Apache-2.0 */
/* Registry: the tactic sources of this build (sources.def), opened together for one device and thread count.
 */
#ifndef WF_BACKEND_REGISTRY_H
#define WF_BACKEND_REGISTRY_H

#include "op/problem.h"
#include "wayfinder/backend.h"

typedef struct wf_backends wf_backends_t;

typedef struct wf_backends_options {
    const char *const *only; /* names of sources to open, NULL-terminated; NULL: every source but those that
                              * are marked test-only (null) */
    bool validate;           /* check every call against the contract (debug builds, tests) */
} wf_backends_options_t;

/* Opens the sources. One source that fails to open fails all. */
wf_status_t wf_backends_open(const wf_cpu_t *cpu, const wf_backends_options_t *options,
                             wf_allocator_t allocator, wf_log_t log,
                             wf_backends_t **out_backends) WF_MUST_USE;
void wf_backends_close(wf_backends_t *backends);

size_t wf_backends_count(const wf_backends_t *backends);
const wf_source_t *wf_backends_source(const wf_backends_t *backends, size_t index, void **out_self);
/* The source of "name/..."; TACTIC_MISSING naming the known sources when there is none. */
wf_status_t wf_backends_find(const wf_backends_t *backends, const char *tactic_id,
                             const wf_source_t **out_source, void **out_self) WF_MUST_USE;
/* list over all sources, in registry order. */
wf_status_t wf_backends_list(const wf_backends_t *backends, const wf_problem_t *problem,
                             const wf_tactic_sink_t *sink) WF_MUST_USE;
const wf_cpu_t *wf_backends_cpu(const wf_backends_t *backends);

/* ---- Layouts as bytes ---- */
/* Elements that a tensor takes in a layout (blocked layouts round channels up); -1 when it does not fit. */
int64_t wf_layout_elems(const wf_type_t *type, wf_layout_t layout);
/* True when a tensor of this type has the same bytes in both (no channel axis, one channel, one pixel, ...).
 */
bool wf_layout_same(const wf_type_t *type, wf_layout_t a, wf_layout_t b);
/* True when the layout exists for the type: ROW always; the others for rank 3 to 5. */
bool wf_layout_exists(const wf_type_t *type, wf_layout_t layout);
/* The problem of converting a tensor: wf.convert with {from to}. */
wf_status_t wf_convert_problem(const wf_type_t *type, wf_layout_t from, wf_layout_t to, wf_arena_t *arena,
                               const wf_problem_t **out_problem) WF_MUST_USE;

#endif
