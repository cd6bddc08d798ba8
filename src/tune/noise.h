/* SPDX-License-Identifier: Apache-2.0 */
/* Noise floor: how far two samples of the same work lie apart on this machine, and what that allows to see.
 */
#ifndef WF_TUNE_NOISE_H
#define WF_TUNE_NOISE_H

#include "base/mem.h"
#include "wayfinder/backend.h"
#include "wayfinder/builder.h"

typedef struct wf_noise {
    size_t pairs;
    double pair_s;     /* time that a pair takes */
    double sd;         /* of the log ratio within a pair, robust */
    double inflation;  /* >= 1: how much more means of 16 pairs scatter than independent pairs would */
    double canary_ns;  /* least time of the canary */
    double busy_share; /* pairs whose canary took over 1.1 times the least */
} wf_noise_t;

/* Times the canary on all threads of `parallel` in pairs for `seconds`. progress may be NULL. OUT_OF_MEMORY.
 */
wf_status_t wf_noise_measure(const wf_parallel_t *parallel, double seconds, wf_allocator_t allocator,
                             wf_progress_fn *progress, void *progress_self,
                             wf_noise_t *out_noise) WF_MUST_USE;
/* The smallest relative difference that paired measuring for `seconds` finds with power 95 % at one-sided
 * level 1 %: (z(0.99) + z(0.95)) standard errors of a median of pairs. 0 pairs: infinity. */
double wf_noise_detectable(const wf_noise_t *noise, double seconds);

#endif
