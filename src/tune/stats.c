/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* Makes the MAD of normal values their standard deviation: 1 / Phi^-1(3/4). */
#define MAD_TO_SD 1.4826

/* ---- Random numbers ---- */

uint64_t wf_rng_next(wf_rng_t *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

size_t wf_rng_below(wf_rng_t *rng, size_t limit)
{
    return (size_t)(wf_rng_next(rng) % limit);
}

void wf_rng_shuffle(wf_rng_t *rng, uint32_t *out_order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t j = wf_rng_below(rng, i + 1);
        out_order[i] = out_order[j];
        out_order[j] = (uint32_t)i;
    }
}

/* ---- Summaries ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double wf_stats_quantile(double *values, size_t count, double q)
{
    assert(count > 0);
    wf_sort(values, count, sizeof *values, compare_doubles);
    double position = q * (double)(count - 1);
    size_t below = (size_t)position;
    if (below + 1 >= count)
        return values[count - 1];
    return values[below] + (position - (double)below) * (values[below + 1] - values[below]);
}

double wf_stats_median(double *values, size_t count)
{
    return wf_stats_quantile(values, count, 0.5);
}

double wf_stats_mad(double *values, size_t count)
{
    double median = wf_stats_median(values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = fabs(values[i] - median);
    return MAD_TO_SD * wf_stats_median(values, count);
}

void wf_stats_winsorise(double *values, size_t count, double limit, double *scratch)
{
    if (count == 0)
        return;
    memcpy(scratch, values, count * sizeof *values);
    double median = wf_stats_median(scratch, count);
    double reach = limit * wf_stats_mad(scratch, count);
    if (!(reach > 0))
        return;
    for (size_t i = 0; i < count; i++)
        values[i] = fmin(fmax(values[i], median - reach), median + reach);
}

/* ---- Mean and variance ---- */

void wf_welford_add(wf_welford_t *w, double value)
{
    w->count++;
    double distance = value - w->mean;
    w->mean += distance / (double)w->count;
    w->m2 += distance * (value - w->mean);
}

void wf_welford_merge(wf_welford_t *into, const wf_welford_t *other)
{
    if (other->count == 0)
        return;
    if (into->count == 0) {
        *into = *other;
        return;
    }
    double a = (double)into->count, b = (double)other->count;
    double distance = other->mean - into->mean;
    into->mean += distance * b / (a + b);
    into->m2 += other->m2 + distance * distance * a * b / (a + b);
    into->count += other->count;
}

double wf_welford_sd(const wf_welford_t *w)
{
    return w->count < 2 ? 0 : sqrt(w->m2 / (double)(w->count - 1));
}

double wf_welford_se(const wf_welford_t *w)
{
    return w->count < 2 ? (double)INFINITY : wf_welford_sd(w) / sqrt((double)w->count);
}

/* ---- Distributions ---- */

double wf_stats_normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

double wf_stats_normal_density(double x)
{
    return exp(-0.5 * x * x) / sqrt(2 * acos(-1.0));
}

double wf_stats_expected_excess(double mean, double sd)
{
    if (!(sd > 0))
        return fmax(mean, 0);
    double z = mean / sd;
    return fmax(mean * wf_stats_normal_cdf(z) + sd * wf_stats_normal_density(z), 0);
}

/* Regularised incomplete beta function by its continued fraction (DLMF 8.17.22), evaluated from the front by
 * Lentz's method; converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    enum { TERMS_MAX = 300 };
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m <= TERMS_MAX; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double before = value;
        for (int part = 0; part < 2; part++) {
            double term = part == 0 ? even : odd;
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            value *= c * d;
        }
        if (fabs(value - before) < 1e-15 * fabs(value))
            break;
    }
    return value;
}

static double incomplete_beta(double a, double b, double x)
{
    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    int sign;
    double front =
        exp(lgamma_r(a + b, &sign) - lgamma_r(a, &sign) - lgamma_r(b, &sign) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

static double t_cdf(double t, double degrees)
{
    double tail = 0.5 * incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
    return t > 0 ? 1 - tail : tail;
}

double wf_stats_t_quantile(double p, double degrees)
{
    if (p < 0.5)
        return -wf_stats_t_quantile(1 - p, degrees);
    double low = 0, high = 1;
    while (t_cdf(high, degrees) < p && high < 1e12)
        high *= 2;
    for (int i = 0; i < 100 && high - low > 1e-12 * high; i++) {
        double middle = 0.5 * (low + high);
        if (t_cdf(middle, degrees) < p)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

/* ---- Intervals ---- */

wf_interval_t wf_stats_paired_t(const double *differences, size_t count, double confidence)
{
    wf_welford_t w = {0};
    for (size_t i = 0; i < count; i++)
        wf_welford_add(&w, differences[i]);
    if (count < 2)
        return (wf_interval_t){w.mean, -(double)INFINITY, (double)INFINITY};
    double reach = wf_stats_t_quantile(0.5 + confidence / 2, (double)(count - 1)) * wf_welford_se(&w);
    return (wf_interval_t){w.mean, w.mean - reach, w.mean + reach};
}

wf_status_t wf_stats_bootstrap_median(const double *values, size_t count, size_t resamples, double confidence,
                                      uint64_t seed, wf_allocator_t allocator, wf_interval_t *out_interval)
{
    *out_interval = (wf_interval_t){NAN, -(double)INFINITY, (double)INFINITY};
    if (count == 0)
        return WF_OK;
    double *draw = NULL, *medians = NULL;
    wf_status_t status = wf_alloc(allocator, count, sizeof *draw, &draw);
    if (status == WF_OK)
        status = wf_alloc(allocator, resamples, sizeof *medians, &medians);
    if (status == WF_OK) {
        wf_rng_t rng = {seed};
        memcpy(draw, values, count * sizeof *draw);
        out_interval->centre = wf_stats_median(draw, count);
        for (size_t r = 0; r < resamples; r++) {
            for (size_t i = 0; i < count; i++)
                draw[i] = values[wf_rng_below(&rng, count)];
            medians[r] = wf_stats_median(draw, count);
        }
        out_interval->low = wf_stats_quantile(medians, resamples, 0.5 - confidence / 2);
        out_interval->high = wf_stats_quantile(medians, resamples, 0.5 + confidence / 2);
    }
    wf_free(allocator, medians, resamples, sizeof *medians);
    wf_free(allocator, draw, count, sizeof *draw);
    return status;
}

/* ---- Race ---- */

void wf_race_init(wf_race_t *race, wf_allocator_t allocator, const wf_race_options_t *options,
                  size_t arm_count)
{
    assert(arm_count >= 1 && arm_count <= WF_RACE_ARMS_MAX && options->first_blocks >= 2);
    *race = (wf_race_t){
        .allocator = allocator, .options = *options, .arm_count = arm_count, .alive_count = arm_count};
    for (size_t i = 0; i < arm_count; i++)
        race->alive[i] = true;
}

void wf_race_deinit(wf_race_t *race)
{
    wf_vec_deinit(race->allocator, &race->values);
}

void wf_race_drop(wf_race_t *race, size_t arm)
{
    if (!race->alive[arm])
        return;
    race->alive[arm] = false;
    race->alive_count--;
}

/* h^2 of the procedure for the arms it started with (Kim and Nelson's 2 c eta (n0 - 1) with c = 1). */
static double kn_h2(const wf_race_t *race)
{
    double degrees = (double)race->options.first_blocks - 1;
    double arms = (double)WF_MAX(race->arm_count, (size_t)2);
    return degrees * (pow(2 * race->options.alpha / (arms - 1), -2 / degrees) - 1);
}

/* Mean of the winsorised differences a - b over all blocks, and their variance in the first ones. Both arms
 * are alive, so every block has both. */
static void compare_arms(const wf_race_t *race, size_t a, size_t b, double *differences, double *scratch,
                         double *out_mean, double *out_variance)
{
    for (size_t n = 0; n < race->block_count; n++) {
        const double *block = &race->values.items[n * race->arm_count];
        differences[n] = block[a] - block[b];
    }
    wf_stats_winsorise(differences, race->block_count, race->options.winsor_limit, scratch);
    wf_welford_t all = {0}, first = {0};
    for (size_t n = 0; n < race->block_count; n++) {
        wf_welford_add(&all, differences[n]);
        if (n < race->options.first_blocks)
            wf_welford_add(&first, differences[n]);
    }
    double sd = wf_welford_sd(&first);
    *out_mean = all.mean;
    *out_variance = sd * sd;
}

static wf_status_t eliminate(wf_race_t *race)
{
    double *differences = NULL;
    size_t blocks = race->block_count;
    WF_TRY(wf_alloc(race->allocator, 2 * blocks, sizeof *differences, &differences));
    double h2 = kn_h2(race), delta = race->options.delta, r = (double)blocks;
    bool worse[WF_RACE_ARMS_MAX] = {false};
    for (size_t a = 0; a < race->arm_count; a++) {
        for (size_t b = 0; race->alive[a] && b < race->arm_count && !worse[a]; b++) {
            if (a == b || !race->alive[b])
                continue;
            double mean, variance;
            compare_arms(race, a, b, differences, differences + blocks, &mean, &variance);
            double slack = delta / (2 * r) * (h2 * variance / (delta * delta) - r);
            worse[a] = mean > fmax(slack, 0);
        }
    }
    for (size_t a = 0; a < race->arm_count; a++) {
        if (worse[a])
            wf_race_drop(race, a);
    }
    wf_free(race->allocator, differences, 2 * blocks, sizeof *differences);
    return WF_OK;
}

wf_status_t wf_race_add(wf_race_t *race, const double *log_values)
{
    for (size_t i = 0; i < race->arm_count; i++) {
        WF_TRY(wf_vec_push(race->allocator, &race->values, &log_values[i]));
        if (!isfinite(log_values[i]))
            wf_race_drop(race, i);
    }
    race->block_count++;
    return race->block_count >= race->options.first_blocks && race->alive_count > 1 ? eliminate(race) : WF_OK;
}

bool wf_race_decided(const wf_race_t *race)
{
    return race->alive_count <= 1;
}

wf_status_t wf_race_best(const wf_race_t *race, size_t *out_arm)
{
    double *differences = NULL, least = 0;
    size_t blocks = race->block_count, best = race->arm_count, first = race->arm_count;
    WF_TRY(wf_alloc(race->allocator, 2 * blocks, sizeof *differences, &differences));
    for (size_t a = 0; a < race->arm_count; a++) {
        if (!race->alive[a])
            continue;
        double mean = 0, variance;
        if (first == race->arm_count)
            first = a;
        else
            compare_arms(race, a, first, differences, differences + blocks, &mean, &variance);
        if (best == race->arm_count || mean < least) {
            best = a;
            least = mean;
        }
    }
    wf_free(race->allocator, differences, 2 * blocks, sizeof *differences);
    *out_arm = best;
    return WF_OK;
}
