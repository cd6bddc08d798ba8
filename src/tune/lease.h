/* SPDX-License-Identifier: Apache-2.0 */
/* Lease: tuners of one user take turns on the CPU, one measuring request each, so that none measures the
 * other.
 *
 * A file private to the user with two locked bytes: the turn, and a place in the queue. Who wants the turn
 * first takes the place, so that a tuner that gives its turn back does not take it again at once. Locks end
 * with the process that holds them.
 */
#ifndef WF_TUNE_LEASE_H
#define WF_TUNE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct wf_lease {
    int fd; /* -1: no lease is needed, or none can be had */
} wf_lease_t;

/* Opens the lease at `path`; NULL: in XDG_RUNTIME_DIR, else in a folder of the user among temporary files.
 * Never fails: without a private place there is none, and measuring goes on unprotected (fd -1). */
wf_lease_t wf_lease_open(const char *path);
void wf_lease_close(wf_lease_t *lease);

/* Called several times a second while waiting; true gives up. */
typedef bool wf_lease_tick_fn(void *self);
/* Takes the turn. *out_waited: another process had it. INTERRUPTED when tick says so, TIME_OUT at deadline_ns
 * (of wf_clock_ns; 0: none). */
wf_status_t wf_lease_take(const wf_lease_t *lease, uint64_t deadline_ns, wf_lease_tick_fn *tick, void *self,
                          bool *out_waited) WF_MUST_USE;
void wf_lease_give(const wf_lease_t *lease);

#endif
