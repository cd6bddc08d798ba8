/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of measuring: robust summaries, paired comparison, bootstrap, races. Pure functions of their
 * arguments; random numbers come from a seeded generator, so equal calls give equal results.
 *
 * Times are compared as log ratios inside a block, a short stretch in which every candidate ran once:
 * drift and contention hit all of them and cancel. Absolute times of different blocks are not compared.
 */
#ifndef WF_TUNE_STATS_H
#define WF_TUNE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

/* ---- Random numbers: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) ---- */
typedef struct wf_rng {
    uint64_t state;
} wf_rng_t;
uint64_t wf_rng_next(wf_rng_t *rng);
/* In [0, limit), limit > 0; the bias of the modulus is below 2^-32 for limits below 2^32. */
size_t wf_rng_below(wf_rng_t *rng, size_t limit);
/* A random order of 0 .. count-1 (Fisher-Yates). */
void wf_rng_shuffle(wf_rng_t *rng, uint32_t *out_order, size_t count);

/* ---- Summaries. `values` are reordered by those that say so; count >= 1 ---- */
/* The quantile q in [0, 1], linear between order statistics; reorders. */
double wf_stats_quantile(double *values, size_t count, double q);
double wf_stats_median(double *values, size_t count);
/* 1.4826 times the median of distances to the median: an estimate of the standard deviation that outliers do
 * not move; reorders and changes `values`. */
double wf_stats_mad(double *values, size_t count);
/* Moves values further than `limit` MADs from the median to that distance; keeps the order of `values`.
 * `scratch` has count entries. When the MAD is 0 nothing moves. */
void wf_stats_winsorise(double *values, size_t count, double limit, double *scratch);

/* ---- Mean and variance that can be merged (Welford 1962; Chan, Golub, LeVeque 1983) ---- */
typedef struct wf_welford {
    uint64_t count;
    double mean, m2; /* m2: sum of squared distances from the mean */
} wf_welford_t;
void wf_welford_add(wf_welford_t *w, double value);
void wf_welford_merge(wf_welford_t *into, const wf_welford_t *other);
/* Standard deviation of one value; 0 below two values. */
double wf_welford_sd(const wf_welford_t *w);
/* Standard error of the mean; INFINITY below two values. */
double wf_welford_se(const wf_welford_t *w);

/* ---- Intervals ---- */
typedef struct wf_interval {
    double centre, low, high;
} wf_interval_t;
/* The quantile of Student's t for probability p in (0, 1) and degrees of freedom >= 1. */
double wf_stats_t_quantile(double p, double degrees);
/* Distribution function of the standard normal, and its density. */
double wf_stats_normal_cdf(double x);
double wf_stats_normal_density(double x);
/* Expected excess of a N(mean, sd) variable over 0: what a decision gains at most by knowing it. */
double wf_stats_expected_excess(double mean, double sd);
/* Two-sided t interval of the mean of paired differences. count < 2 gives an infinite one. */
wf_interval_t wf_stats_paired_t(const double *differences, size_t count, double confidence);
/* Percentile bootstrap (Efron 1979) of the median; centre is the median of `values`. Reporting only. */
wf_status_t wf_stats_bootstrap_median(const double *values, size_t count, size_t resamples, double confidence,
                                      uint64_t seed, wf_allocator_t allocator,
                                      wf_interval_t *out_interval) WF_MUST_USE;

/* ---- Race: Kim and Nelson's procedure (ACM TOMACS 11(3), 2001) for the smallest mean ----
 * With probability 1 - alpha the arm that is kept is within `delta` of the best, for normal differences.
 * Values are logarithms of times, one per live arm and block. */
#define WF_RACE_ARMS_MAX 32u
typedef struct wf_race_options {
    double delta;        /* indifference, as a log ratio: 0.003 */
    double alpha;        /* 0.05 */
    size_t first_blocks; /* before the first elimination, from which variances are taken: 12 */
    double winsor_limit; /* MADs, of pairwise differences: 3 */
} wf_race_options_t;
typedef struct wf_race {
    wf_allocator_t allocator;
    wf_race_options_t options;
    size_t arm_count;
    bool alive[WF_RACE_ARMS_MAX];
    size_t alive_count;
    size_t block_count;
    WF_VEC(double) values; /* block-major, arm_count per block; NaN for arms that did not run */
} wf_race_t;
/* 1 to WF_RACE_ARMS_MAX arms, all alive. Deinit frees. */
void wf_race_init(wf_race_t *race, wf_allocator_t allocator, const wf_race_options_t *options,
                  size_t arm_count);
void wf_race_deinit(wf_race_t *race);
/* Adds one block: arm_count values, NaN for arms that are out. An arm whose value is not finite is out from
 * now on. Then drops arms that are worse beyond doubt. */
wf_status_t wf_race_add(wf_race_t *race, const double *log_values) WF_MUST_USE;
/* Takes an arm out: it failed. */
void wf_race_drop(wf_race_t *race, size_t arm);
/* True when one arm is left, or the procedure's last block was reached. */
bool wf_race_decided(const wf_race_t *race);
/* The best of what is known: of the live arms the one with the smallest winsorised mean difference to the
 * others. The lowest live arm without blocks; *out_arm is arm_count when none is alive. */
wf_status_t wf_race_best(const wf_race_t *race, size_t *out_arm) WF_MUST_USE;

#endif
