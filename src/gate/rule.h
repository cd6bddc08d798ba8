/* SPDX-License-Identifier: Apache-2.0 */
/* The decision of the gate, as a pure function of what was measured.
 *
 * A round is a short stretch for which both engines were loaded anew: blocks of one sample of each, in random
 * order. Its value is the median of the blocks' log ratios, engine under test / baseline. Blocks of one round
 * share where the memory of the engines lies and what the machine was doing, so the unit of the statistics is
 * the round: a t interval of the trimmed mean over rounds (Yuen 1974) holds for both kinds of luck.
 *
 * The rule looks at the rounds a fixed number of times, at counts that are fixed beforehand, and shares the
 * error alpha evenly among the looks (Bonferroni), so that looking often does not find what is not there.
 * With d = log(1 + min_effect), at each look, in this order: lower bound > d / 2   regressed, to be confirmed
 *   upper bound < -d / 2  improved
 *   upper bound < d       passed
 * A regression counts when a second run of the rule, on fresh rounds alone, comes to the same; when that
 * comes to anything else the gate is inconclusive. An engine that is equal is called regressed with a
 * probability below alpha squared, one that is slower by min_effect passes with a probability below alpha.
 */
#ifndef WF_GATE_RULE_H
#define WF_GATE_RULE_H

#include "tune/stats.h"

typedef enum wf_rule_verdict {
    WF_RULE_OPEN, /* more rounds are needed */
    WF_RULE_PASSED,
    WF_RULE_IMPROVED,
    WF_RULE_REGRESSED,
    WF_RULE_INCONCLUSIVE
} wf_rule_verdict_t;
/* "open", "passed", ... */
const char *wf_rule_verdict_name(wf_rule_verdict_t verdict);

/* Looks of one run of the rule, and the rounds it takes at most. */
#define WF_RULE_LOOKS 9u
#define WF_RULE_ROUNDS_MAX 140u
/* Fewer rounds say nothing about their spread. */
#define WF_RULE_ROUNDS_MIN 6u

typedef struct wf_rule_run {
    double rounds[WF_RULE_ROUNDS_MAX];
    size_t round_count, look_count;
    wf_interval_t bounds; /* of the last look, as log ratios */
} wf_rule_run_t;

typedef struct wf_rule {
    double effect; /* d */
    double alpha;
    bool confirming;
    wf_rule_run_t first, confirmation;
    wf_rule_verdict_t verdict;
} wf_rule_t;

/* min_effect as a share (0.02), alpha in (0, 0.5). */
void wf_rule_init(wf_rule_t *rule, double min_effect, double alpha);
/* Adds a round to the run that is on; the verdict, which stays when it is not open. */
wf_rule_verdict_t wf_rule_add(wf_rule_t *rule, double log_ratio);
/* The time is over: a last look at what there is, if it was not looked at; never open. */
wf_rule_verdict_t wf_rule_finish(wf_rule_t *rule);

/* Trimmed mean of `values` with its two-sided t interval (Yuen); a tenth is trimmed at each end, at least one
 * from eight values on. Infinite below two values. values keep their order; at most WF_RULE_ROUNDS_MAX * 2.
 */
wf_interval_t wf_rule_interval(const double *values, size_t count, double confidence);

#endif
