/* SPDX-License-Identifier: Apache-2.0 */
/* Likeness: which recorded tunings are of models like this one, and what they say about it. */
#ifndef WF_TUNE_LIKENESS_H
#define WF_TUNE_LIKENESS_H

#include "tune/database.h"

#define WF_PROFILE_KINDS_MAX 64u

/* Shares of kernel families ("conv.igemm", "gemm", "pool") in a route, by what its steps cost where a lock
 * has evidence, else by their number. */
typedef struct wf_likeness {
    char names[WF_PROFILE_KINDS_MAX][32];
    double shares[WF_PROFILE_KINDS_MAX];
    size_t count;
} wf_likeness_t;

wf_likeness_t wf_likeness_of_lock(const char *lock);
/* Cosine of two shares: 1 for the same mix of work, 0 for nothing in common. */
double wf_likeness_compare(const wf_likeness_t *a, const wf_likeness_t *b);

/* What like tunings came to. */
typedef struct wf_expectation {
    size_t records, like;    /* tunings in the database, and those that count here */
    bool same_model;         /* one is of this very model on this device; then it alone counts */
    double ratio, low, high; /* expected final / default, 90 % prediction interval; like > 0 */
    double budget_s;         /* at which most like tunings had nothing left to find; 0: not known */
    double same_default_ns;  /* measured time of the default, when same_model */
    char converged_text[160];
} wf_expectation_t;

/* `device` is a fingerprint; tunings of other devices count half. */
wf_status_t wf_likeness_expect(wf_database_t *database, const char *lock, const char *device,
                               wf_expectation_t *out_expectation) WF_MUST_USE;

#endif
