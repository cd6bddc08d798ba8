/* SPDX-License-Identifier: Apache-2.0 */
/* Bound: what no engine of a job can be faster than, and what one at the machine's nominal peak would take.
 */
#ifndef WF_TUNE_BOUND_H
#define WF_TUNE_BOUND_H

#include "tune/job.h"

typedef struct wf_bound {
    /* Proof: arithmetic of the route's problems at a clock twice the nominal one, on every thread, with the
     * fewest multiplications that a known algorithm needs (Winograd F(6x6, 3x3): 5.06 times fewer; larger
     * windows by transforms: 16 times). Geometric mean over parts, as times of engines are. */
    double least_ns;
    /* Roofline: arithmetic as counted, at the nominal clock, or the bytes of constants and tensors that do
     * not fit the caches at 20 GB/s a thread, whichever is longer, step by step. Not a proof. */
    double roofline_ns;
} wf_bound_t;

/* For these routes, one per part; 0 where nothing is known. */
wf_bound_t wf_job_bound(const wf_job_t *job, const wf_route_t *routes);

#endif
