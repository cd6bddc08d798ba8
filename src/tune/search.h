/* SPDX-License-Identifier: Apache-2.0 */
/* Search: strategies over a space of factors and one function that measures. They know nothing of routes, so
 * the same code tunes models and is put to the test on simulated landscapes.
 *
 * A factor has values, 0 being the default's. An assignment gives every factor a value. Measuring a block of
 * assignments gives, for each, the log of its time beside the default's in the same block.
 */
#ifndef WF_TUNE_SEARCH_H
#define WF_TUNE_SEARCH_H

#include "base/mem.h"
#include "tune/stats.h"

/* Assignments of a block, the default not counted. */
#define WF_SEARCH_BLOCK_MAX 8u
/* Factors of one screening. */
#define WF_SCREEN_FACTORS_MAX 63u

/* Measures a block. out_logs[i]: log of the time of assignment i over the default's; NaN: it failed, it must
 * not be used. with_default false: relative to anything that is the same for the whole block. Sets *out_over
 * when there is no time for another block; what was not measured is NaN then. */
typedef wf_status_t wf_search_measure_fn(void *self, const uint8_t *const *assignments, size_t count,
                                         bool with_default, double *out_logs, bool *out_over);

typedef struct wf_search {
    wf_allocator_t allocator;
    size_t factor_count;
    const uint32_t *value_counts;
    void *self;
    wf_search_measure_fn *measure;
    wf_rng_t rng;
    double noise_sd;    /* of a log ratio in one block; 0: not known */
    size_t trial_limit; /* 0: none */
    size_t trial_count; /* measured so far */
    bool over;          /* no more time or trials */
    uint8_t *best;      /* all 0: the default */
    double best_log;    /* as measured when it was chosen: too good by selection */
} wf_search_t;

/* value_counts is borrowed; each is 1 to 255. Deinit frees. */
wf_status_t wf_search_init(wf_search_t *search, size_t factor_count, const uint32_t *value_counts,
                           wf_search_measure_fn *measure, void *self, uint64_t seed,
                           wf_allocator_t allocator) WF_MUST_USE;
void wf_search_deinit(wf_search_t *search);

/* ---- Strategies with the meaning that users know. Each sets best and best_log. ---- */
/* One change at a time; the best single change wins. */
wf_status_t wf_search_fast(wf_search_t *search) WF_MUST_USE;
/* The product of all values, the last factor running fastest, until the time is over. */
wf_status_t wf_search_full(wf_search_t *search) WF_MUST_USE;
/* fast, then the product over the factors with a value that was faster than the default (no test, as known).
 */
wf_status_t wf_search_mixed(wf_search_t *search) WF_MUST_USE;
/* Random assignments until the time is over (without a trial limit and a small space: each at most once). */
wf_status_t wf_search_random(wf_search_t *search) WF_MUST_USE;
/* Trials of fast; of full (SIZE_MAX when that is more than fits). */
size_t wf_search_fast_trials(size_t factor_count, const uint32_t *value_counts);
size_t wf_search_full_trials(size_t factor_count, const uint32_t *value_counts);

/* ---- Screening: all two-valued factors at once ---- */
/* Rows of the design: the least power of two above the number of factors. */
size_t wf_screen_rows(size_t factor_count);
/* Whether the factor is on in the row; the other half of the fold-over has the complement. Rows are those of
 * a Sylvester-Hadamard matrix (Plackett-Burman designs: Biometrika 33, 1946). */
bool wf_screen_on(size_t row, size_t factor);

typedef struct wf_effect {
    double log_ratio; /* least squares: time with over time without, mean over the others' settings */
    double se;
    double shrunk; /* towards 0 by what all effects together look like (empirical Bayes) */
} wf_effect_t;
/* Effects from pairs of a row and its complement: differences[p] is log time with the row rows[p] minus with
 * its complement, in one block. What is common to a block, drift and interactions of two factors cancel in
 * it. Outliers weigh less (Huber, 1.5 MAD). prior_sd: of a difference, from comparing the default with
 * itself; 0: not known. */
wf_status_t wf_screen_effects(size_t factor_count, const size_t *rows, const double *differences,
                              size_t pair_count, double prior_sd, wf_allocator_t allocator,
                              wf_effect_t *out_effects) WF_MUST_USE;

typedef struct wf_screen_result {
    wf_effect_t effects[WF_SCREEN_FACTORS_MAX];
    bool on[WF_SCREEN_FACTORS_MAX];
    bool failed[WF_SCREEN_FACTORS_MAX]; /* assignments with it did not run */
    size_t pair_count;
    double r2;         /* share of the variance between pairs that the effects explain */
    double polish_log; /* measured: what is on against nothing; 0 when not compared */
} wf_screen_result_t;
/* Measures the design, every row once and again while pairs are fewer than `pairs_wanted`, accepts what is
 * faster, compares the accepted set with the default (polish_blocks blocks) and halves it, the surest effects
 * staying, while it is not faster, three times at most. Value counts must all be 2. Sets best and best_log.
 */
wf_status_t wf_search_screen(wf_search_t *search, size_t pairs_wanted, size_t polish_blocks,
                             wf_screen_result_t *out_result) WF_MUST_USE;

#endif
