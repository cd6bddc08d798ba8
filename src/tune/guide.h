/* SPDX-License-Identifier: Apache-2.0 */
/* Guide: a lock followed as far as its tactics exist here, for a machine other than the one that made it. */
#ifndef WF_TUNE_GUIDE_H
#define WF_TUNE_GUIDE_H

#include "tune/job.h"

/* The route nearest to the lock's plan: its decisions where this machine has them, estimates elsewhere.
 * Appends to `anew` (a JSON array) an object {"problem", "tactic", "chosen"} for each decision that must be
 * measured anew, and counts the others. LOCK_MISMATCH when the lock is of another version, model or shapes.
 * Routes are freed by wf_job_routes_free. */
wf_status_t wf_job_guided(wf_job_t *job, const char *lock, json_t *anew, size_t *out_kept,
                          wf_route_t **out_routes) WF_MUST_USE;

#endif
