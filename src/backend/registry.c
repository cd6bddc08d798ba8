/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define X(name, test_only) extern const wf_source_t wf_source_##name;
#include "backend/sources.def"
#undef X

typedef struct wf_source_row {
    const wf_source_t *source;
    bool test_only;
} wf_source_row_t;

static const wf_source_row_t source_rows[] = {
#define X(name, test_only) {&wf_source_##name, (test_only) != 0},
#include "backend/sources.def"
#undef X
};

typedef struct wf_open_source {
    const wf_source_t *source;
    void *self;
} wf_open_source_t;

struct wf_backends {
    wf_allocator_t allocator;
    wf_cpu_t cpu;
    wf_open_source_t sources[WF_COUNT_OF(source_rows)];
    size_t count;
};

static bool is_wanted(const wf_source_row_t *row, const char *const *only)
{
    /* Tests of whole programs put the null source, with this script, beside whatever else is opened. */
    if (row->test_only && getenv("WAYFINDER_NULL_SCRIPT") != NULL)
        return true;
    if (only == NULL)
        return !row->test_only;
    for (; *only != NULL; only++) {
        if (strcmp(*only, row->source->name) == 0)
            return true;
    }
    return false;
}

void wf_backends_close(wf_backends_t *backends)
{
    if (backends == NULL)
        return;
    while (backends->count > 0) {
        wf_open_source_t *open = &backends->sources[--backends->count];
        open->source->close(open->self);
    }
    wf_free(backends->allocator, backends, 1, sizeof *backends);
}

wf_status_t wf_backends_open(const wf_cpu_t *cpu, const wf_backends_options_t *options,
                             wf_allocator_t allocator, wf_log_t log, wf_backends_t **out_backends)
{
    *out_backends = NULL;
    wf_backends_t *backends = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *backends, &backends));
    backends->allocator = allocator;
    backends->cpu = *cpu;
    const char *const *only = options != NULL ? options->only : NULL;
    for (size_t i = 0; i < WF_COUNT_OF(source_rows); i++) {
        if (!is_wanted(&source_rows[i], only))
            continue;
        const wf_source_t *source = source_rows[i].source;
        void *self = NULL;
        wf_status_t status =
            source->api_version == WF_BACKEND_API_VERSION
                ? source->open(cpu, allocator, log, &self)
                : WF_ERROR(INTERNAL, "tactic source %s has contract version %u, this build has %u",
                           source->name, source->api_version, WF_BACKEND_API_VERSION);
        if (status != WF_OK) {
            wf_backends_close(backends);
            return wf_status_annotated(status, "opening tactic source %s", source->name);
        }
        backends->sources[backends->count++] = (wf_open_source_t){source, self};
    }
    *out_backends = backends;
    return WF_OK;
}

size_t wf_backends_count(const wf_backends_t *backends)
{
    return backends->count;
}

const wf_source_t *wf_backends_source(const wf_backends_t *backends, size_t index, void **out_self)
{
    assert(index < backends->count);
    *out_self = backends->sources[index].self;
    return backends->sources[index].source;
}

wf_status_t wf_backends_find(const wf_backends_t *backends, const char *tactic_id,
                             const wf_source_t **out_source, void **out_self)
{
    const char *slash = strchr(tactic_id, '/');
    size_t name_bytes = slash != NULL ? (size_t)(slash - tactic_id) : strlen(tactic_id);
    for (size_t i = 0; i < backends->count; i++) {
        const wf_source_t *source = backends->sources[i].source;
        if (strlen(source->name) == name_bytes && memcmp(source->name, tactic_id, name_bytes) == 0) {
            *out_source = source;
            *out_self = backends->sources[i].self;
            return WF_OK;
        }
    }
    return wf_status_hinted(WF_ERROR(TACTIC_MISSING, "tactic %s: this build has no tactic source '%.*s'",
                                     tactic_id, (int)WF_MIN(name_bytes, 64u), tactic_id),
                            "rebuild the engine on this machine");
}

wf_status_t wf_backends_list(const wf_backends_t *backends, const wf_problem_t *problem,
                             const wf_tactic_sink_t *sink)
{
    for (size_t i = 0; i < backends->count; i++) {
        const wf_open_source_t *open = &backends->sources[i];
        wf_status_t status = open->source->list(open->self, problem, sink);
        if (status != WF_OK) {
            return wf_status_annotated(status, "listing tactics of %s for %s", open->source->name,
                                       problem->text);
        }
    }
    return WF_OK;
}

const wf_cpu_t *wf_backends_cpu(const wf_backends_t *backends)
{
    return &backends->cpu;
}
