/* SPDX-License-Identifier: Apache-2.0 */
/* Target: what an engine must reach, and whether it does.
 *
 *   p99<=4ms and throughput>=900/s and memory<=2GiB
 *
 * Percentiles are judged without assuming a distribution, by binomial bounds: of n runs, those over the
 * limit. "Not met" for lack of runs is a verdict of its own: 0 of 298 runs over the limit say nothing of p99
 * at 95 %.
 */
#ifndef WF_TUNE_TARGET_H
#define WF_TUNE_TARGET_H

#include "base/mem.h"

#define WF_TARGET_TERMS_MAX 16u

typedef enum wf_metric { WF_METRIC_LATENCY, WF_METRIC_THROUGHPUT, WF_METRIC_MEMORY } wf_metric_t;

typedef struct wf_target_term {
    wf_metric_t metric;
    double quantile; /* of latency: 0.5 for p50 and "latency"; -1: the mean */
    double limit;    /* ns, per second, bytes */
    char text[64];   /* as written, for people */
} wf_target_term_t;
typedef struct wf_target {
    wf_target_term_t terms[WF_TARGET_TERMS_MAX];
    size_t count;
} wf_target_t;

/* Parses. Metrics: p50 .. p99.9, latency (p50), mean, throughput, memory; operators <= and < (>= and > for
 * throughput); units ns us ms s, /s, B KiB MiB GiB KB MB GB; terms joined by "and" or a comma. USAGE for
 * anything else (nearest metric), for a direction that makes no sense, and for terms that no engine can meet
 * together: a percentile that must be below a lower one's bound is fine, a throughput that needs runs shorter
 * than nothing is not. */
wf_status_t wf_target_parse(const char *text, wf_target_t *out_target) WF_MUST_USE;

typedef enum wf_verdict {
    WF_VERDICT_MET,          /* with confidence */
    WF_VERDICT_NOT_MET,      /* seen, not only not proven */
    WF_VERDICT_UNREACHABLE,  /* less than the work takes at the machine's peak */
    WF_VERDICT_TOO_FEW_RUNS, /* undecided */
    WF_VERDICT_COUNT
} wf_verdict_t;
const char *wf_verdict_name(wf_verdict_t verdict);

/* What was seen of an engine. */
typedef struct wf_target_facts {
    const double *run_ns; /* one per run, in any order */
    size_t run_count;
    double batch; /* items of a run, for throughput */
    double memory_bytes;
    double bound_ns; /* no run can be faster; 0: not known */
} wf_target_facts_t;
/* One term. */
wf_verdict_t wf_target_judge_term(const wf_target_term_t *term, const wf_target_facts_t *facts,
                                  double confidence);
/* All terms: UNREACHABLE before NOT_MET before TOO_FEW_RUNS before MET. out_terms may be NULL. */
wf_verdict_t wf_target_judge(const wf_target_t *target, const wf_target_facts_t *facts, double confidence,
                             wf_verdict_t *out_terms);
/* Runs without one over the limit that it takes to prove the target; 0: there is no percentile in it. */
size_t wf_target_runs_needed(const wf_target_t *target, double confidence);
/* P(X <= k) for X binomial with n trials and probability p. */
double wf_binomial_cdf(size_t k, size_t n, double p);

/* ---- Objectives: what is made small ---- */
typedef struct wf_objective {
    double latency, throughput, memory; /* weights that add up to 1 */
} wf_objective_t;
/* "latency", "throughput", "memory", or "latency=0.7,memory=0.3". USAGE for others. */
wf_status_t wf_objective_parse(const char *text, wf_objective_t *out_objective) WF_MUST_USE;
/* Log of how much worse (above 0) or better a candidate is than the default. Throughput with one instance is
 * the inverse of time. */
double wf_objective_log(const wf_objective_t *objective, double log_time_ratio, double log_memory_ratio);

#endif
