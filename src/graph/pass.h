/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: one rewrite per file under passes/, one visible pipeline (pass.c). */
#ifndef WF_GRAPH_PASS_H
#define WF_GRAPH_PASS_H

#include "graph/graph.h"
#include "wayfinder/log.h"

/* Rewrites the graph; *out_changes counts rewrites. The graph is verified before and after in debug builds.
 */
typedef wf_status_t wf_pass_fn(wf_graph_t *graph, const wf_parallel_t *parallel, uint32_t *out_changes);

typedef struct wf_pass {
    const char *name; /* "fold_constants" */
    wf_pass_fn *run;
    const char *what; /* one sentence */
} wf_pass_t;

/* The pipeline, in order. */
const wf_pass_t *wf_passes(size_t *out_count);
const wf_pass_t *wf_pass_find(const char *name);

typedef struct wf_pass_options {
    const char *dump_after; /* name of a pass, or NULL: print the graph to dump_text after it */
    wf_text_t *dump_text;
    wf_log_t log;
    const wf_parallel_t *parallel; /* for folding heavy constants; may be NULL */
    const bool *disabled;          /* one per pass, or NULL */
} wf_pass_options_t;
/* Runs the whole pipeline. Needs all input types known. After it every value's type is known, else
 * MODEL_UNSUPPORTED naming the node whose shape depends on run-time values. */
wf_status_t wf_passes_run(wf_graph_t *graph, const wf_pass_options_t *options) WF_MUST_USE;

/* Head of the function that pass.c lists: declared and begun at once. */
#define WF_PASS(name)          \
    wf_pass_fn wf_pass_##name; \
    wf_status_t wf_pass_##name(wf_graph_t *graph, const wf_parallel_t *parallel, uint32_t *out_changes)

#endif
