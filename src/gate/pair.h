/* SPDX-License-Identifier: Apache-2.0 */
/* Pair: two engine files measured against each other in this process, each on threads of its own as in use.
 *
 * A round loads both (in random order), warms them and takes blocks: one sample of each in random order, a
 * canary before and after. Loading anew moves the memory of both engines, so that a lucky place does not stay
 * for a whole comparison; engines whose loading takes longer than a round get new contexts only. A block in
 * which the canary moved says nothing and is void. Rounds wait for other measurements of this user
 * (tune/lease.h).
 */
#ifndef WF_GATE_PAIR_H
#define WF_GATE_PAIR_H

#include "tune/arm.h"
#include "tune/lease.h"
#include "tune/stats.h"
#include "wayfinder/log.h"

typedef struct wf_pair_options {
    const char *paths[2];  /* baseline, under test; may be the same file */
    const char *hashes[2]; /* content hashes; a file that changes while it is measured is noticed */
    uint32_t thread_count; /* 0: each as it was built */
    const char *isa;
    uint64_t seed;
    wf_allocator_t allocator;
    wf_log_t log;
    void *tick_self; /* called between blocks and while waiting; true stops */
    wf_lease_tick_fn *tick;
} wf_pair_options_t;

typedef struct wf_pair wf_pair_t;

/* Loads both once and times a block. BASELINE_MISMATCH when their inputs differ (every specialisation of the
 * first must be in the second), statuses of wf_engine_open, INTERRUPTED. On failure *out_pair is NULL. */
wf_status_t wf_pair_open(const wf_pair_options_t *options, wf_pair_t **out_pair) WF_MUST_USE;
void wf_pair_close(wf_pair_t *pair);

/* Seconds of a block, and of loading both, as measured when it was opened. */
double wf_pair_block_s(const wf_pair_t *pair);
double wf_pair_load_s(const wf_pair_t *pair);
/* Waiting for others so far: it is not the pair's time. */
double wf_pair_waited_s(const wf_pair_t *pair);

typedef struct wf_pair_round {
    double log_ratio; /* median over valid blocks of log(under test / baseline); NaN: too few were valid */
    size_t block_count, void_count;
} wf_pair_round_t;
/* One round. With `whole` the engines are loaded anew, else only their contexts. */
wf_status_t wf_pair_run_round(wf_pair_t *pair, size_t block_count, bool whole,
                              wf_pair_round_t *out_round) WF_MUST_USE;

/* Every sample so far (medians of a sample's runs), valid blocks only; canaries of all blocks. */
const wf_times_t *wf_pair_samples(const wf_pair_t *pair, size_t side);
const wf_times_t *wf_pair_canaries(const wf_pair_t *pair);

/* The engines and arms as they are loaded now, for who looks inside. */
const wf_engine_t *wf_pair_engine(const wf_pair_t *pair, size_t side);
wf_arm_t *wf_pair_arm(const wf_pair_t *pair, size_t side);

#endif
