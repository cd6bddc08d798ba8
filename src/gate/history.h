/* SPDX-License-Identifier: Apache-2.0 */
/* History: slow creep that no single gate sees, by change points over a series of levels (in the manner of
 * Hunter: Fleming et al., ICPE 2023; the split with the largest t statistic, its parts again). */
#ifndef WF_GATE_HISTORY_H
#define WF_GATE_HISTORY_H

#include "gate/gate.h"

#define WF_HISTORY_POINTS_MAX 10000u
/* A change needs this many points on each side, this error over all splits of a stretch, and this size. */
#define WF_HISTORY_SIDE_MIN 3u
#define WF_HISTORY_ERROR 0.001
#define WF_HISTORY_CHANGE_MIN 0.005

typedef struct wf_change {
    size_t at;   /* the first point of the new level */
    double step; /* mean after minus mean before, up to the neighbouring changes */
} wf_change_t;
typedef WF_VEC(wf_change_t) wf_changes_t;

/* Change points of levels (log times), in order. */
wf_status_t wf_history_changes(const double *levels, size_t count, wf_allocator_t allocator,
                               wf_changes_t *out_changes) WF_MUST_USE;

/* Reads the gates of the store for the engine's model, machine and shapes; the report has levels and changes,
 * out_result->verdict is REGRESSED when the last level is above the first by more than min_effect. A line
 * that is no JSON (torn) is skipped and counted. FILE_MISSING when the store has no history. */
wf_status_t wf_history_run(const char *engine_path, const wf_gate_options_t *options,
                           wf_gate_result_t *out_result) WF_MUST_USE;

#endif
