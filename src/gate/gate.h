/* SPDX-License-Identifier: Apache-2.0 */
/* The gate: finds the engine of a baseline, measures it against the one under test, decides. */
#ifndef WF_GATE_GATE_H
#define WF_GATE_GATE_H

#include <jansson.h>

#include "gate/pair.h"
#include "gate/rule.h"
#include "tune/baseline.h"
#include "wayfinder/gate.h"

/* Options with defaults filled in; as in wf_gate_options_t. */
wf_status_t wf_gate_run(const char *engine_path, const wf_gate_options_t *options,
                        wf_gate_result_t *out_result) WF_MUST_USE;
/* Compact JSON (taken over) as the report. */
wf_status_t wf_gate_report(wf_gate_result_t *result, json_t *report) WF_MUST_USE;
/* Options of a pair that ask the caller's progress. `progress` lives as long as the pair. */
typedef struct wf_gate_progress {
    const wf_gate_options_t *options;
    const char *what;
    double start_s, budget_s;
} wf_gate_progress_t;
wf_pair_options_t wf_gate_pair_options(const wf_gate_options_t *options, wf_gate_progress_t *progress);
double wf_gate_now_s(void);

/* ---- Store (store.c): FOLDER/<model>/<device>/<shapes>/{baseline.json, history.jsonl, engines/<hash>.wfe}
 */
/* Folder of the key of a baseline inside `store`. USAGE when the path is too long. */
wf_status_t wf_store_folder(const char *store, const wf_baseline_t *key, char *out_path,
                            size_t capacity) WF_MUST_USE;
/* A line for the history of the key's folder; json is taken over. */
wf_status_t wf_store_append(const char *folder, json_t *line) WF_MUST_USE;
/* Report of the baseline of an engine (beside it, or promoted in options->store) or of a baseline file. */
wf_status_t wf_store_show(const char *path, const wf_gate_options_t *options,
                          wf_gate_result_t *out_result) WF_MUST_USE;
wf_status_t wf_store_promote(const char *engine_path, const wf_gate_options_t *options,
                             wf_gate_result_t *out_result) WF_MUST_USE;

/* ---- Difference by steps (diff.c) ---- */
/* Runs of both engines of a loaded pair, interleaved, until `seconds` are over; *out_json is the report. */
wf_status_t wf_diff_pair(wf_pair_t *pair, double seconds, wf_allocator_t allocator,
                         json_t **out_json) WF_MUST_USE;
wf_status_t wf_diff_run(const char *path_a, const char *path_b, const wf_gate_options_t *options,
                        wf_gate_result_t *out_result) WF_MUST_USE;
#endif
