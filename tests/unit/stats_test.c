/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics against tables, identities and simulated measurements whose truth is known. */
#include "tune/stats.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/random.h"

#define NEAR(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static double uniform(wf_random_t *random)
{
    return ((double)(wf_random_u64(random) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(wf_random_t *random)
{
    double radius = sqrt(-2 * log(uniform(random)));
    return radius * cos(2 * acos(-1.0) * uniform(random));
}

/* ---- Summaries ---- */

static void quantiles_are_those_of_a_sorted_list(void **state)
{
    (void)state;
    double values[] = {5, 1, 4, 2, 3};
    NEAR(wf_stats_quantile(values, 5, 0), 1, 0);
    NEAR(wf_stats_quantile(values, 5, 1), 5, 0);
    NEAR(wf_stats_quantile(values, 5, 0.5), 3, 0);
    NEAR(wf_stats_quantile(values, 5, 0.125), 1.5, 1e-12);
    double pair[] = {7, 3};
    NEAR(wf_stats_median(pair, 2), 5, 0);
    double one[] = {4};
    NEAR(wf_stats_quantile(one, 1, 0.9), 4, 0);
}

static void mad_estimates_the_sd_and_ignores_outliers(void **state)
{
    (void)state;
    enum { COUNT = 20001 };
    static double values[COUNT];
    wf_random_t random = wf_random_start("mad", 1);
    for (int i = 0; i < COUNT; i++)
        values[i] = i % 10 == 0 ? 1e6 : 3 + 2 * normal(&random);
    double mad = wf_stats_mad(values, COUNT);
    assert_true(mad > 1.9 && mad < 2.5); /* a tenth of outliers widens it by about 15 % */
    double same[] = {2, 2, 2};
    NEAR(wf_stats_mad(same, 3), 0, 0);
}

static void winsorising_moves_only_the_far(void **state)
{
    (void)state;
    double values[] = {1, 2, 3, 4, 100, 2.5, 3.5, -90}, scratch[8];
    wf_stats_winsorise(values, 8, 3, scratch);
    NEAR(values[0], 1, 0);
    NEAR(values[3], 4, 0);
    assert_true(values[4] < 12 && values[4] > 4);
    assert_true(values[7] > -8 && values[7] < 1);
    double same[] = {1, 1, 1, 9};
    wf_stats_winsorise(same, 4, 3, scratch);
    NEAR(same[3], 9, 0); /* no scale to judge by */
}

static void welford_merges_like_one_pass(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("welford", 2);
    for (int round = 0; round < 200; round++) {
        wf_welford_t all = {0}, parts[3] = {{0}}, merged = {0};
        double sum = 0, squares = 0;
        int count = 2 + (int)wf_random_below(&random, 50);
        double values[64];
        for (int i = 0; i < count; i++) {
            values[i] = 1000 + normal(&random);
            sum += values[i];
            wf_welford_add(&all, values[i]);
            wf_welford_add(&parts[wf_random_below(&random, 3)], values[i]);
        }
        for (int i = 0; i < count; i++)
            squares += (values[i] - sum / count) * (values[i] - sum / count);
        for (int p = 0; p < 3; p++)
            wf_welford_merge(&merged, &parts[p]);
        assert_int_equal(merged.count, count);
        NEAR(all.mean, sum / count, 1e-9);
        NEAR(merged.mean, all.mean, 1e-9);
        NEAR(all.m2, squares, 1e-6);
        NEAR(merged.m2, squares, 1e-6);
        NEAR(wf_welford_sd(&merged), sqrt(squares / (count - 1)), 1e-6);
    }
    wf_welford_t empty = {0}, one = {0};
    wf_welford_add(&one, 3);
    assert_true(isinf(wf_welford_se(&empty)) && isinf(wf_welford_se(&one)));
}

/* ---- Distributions ---- */

/* Values of printed tables (Abramowitz and Stegun, tables 26.1 and 26.10). */
static void quantiles_match_printed_tables(void **state)
{
    (void)state;
    static const struct {
        double p, degrees, t;
    } rows[] = {{0.975, 1, 12.706}, {0.95, 2, 2.920},    {0.975, 5, 2.571},  {0.995, 10, 3.169},
                {0.95, 30, 1.697},  {0.975, 120, 1.980}, {0.9995, 8, 5.041}, {0.75, 3, 0.765}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        NEAR(wf_stats_t_quantile(rows[i].p, rows[i].degrees), rows[i].t, 6e-4);
        NEAR(wf_stats_t_quantile(1 - rows[i].p, rows[i].degrees), -rows[i].t, 6e-4);
    }
    NEAR(wf_stats_t_quantile(0.975, 1e6), 1.95996, 1e-4);
    NEAR(wf_stats_normal_cdf(1.959964), 0.975, 1e-6);
    NEAR(wf_stats_normal_cdf(0), 0.5, 1e-15);
    NEAR(wf_stats_normal_density(0), 0.398942, 1e-6);
}

/* E[max(X, 0)] by the trapezoid rule. */
static void expected_excess_is_the_integral(void **state)
{
    (void)state;
    for (double mean = -3; mean <= 3; mean += 0.5) {
        for (double sd = 0.25; sd <= 2; sd *= 2) {
            double sum = 0, step = sd / 500;
            for (double x = 0; x < mean + 12 * sd; x += step)
                sum += step * x * wf_stats_normal_density((x - mean) / sd) / sd;
            NEAR(wf_stats_expected_excess(mean, sd), sum, 2e-3);
        }
    }
    NEAR(wf_stats_expected_excess(2, 0), 2, 0);
    NEAR(wf_stats_expected_excess(-2, 0), 0, 0);
}

/* ---- Intervals ---- */

static void intervals_cover_the_truth(void **state)
{
    (void)state;
    enum { ROUNDS = 4000, COUNT = 30 };
    wf_random_t random = wf_random_start("coverage", 3);
    int t_covers = 0, bootstrap_covers = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double values[COUNT];
        for (int i = 0; i < COUNT; i++)
            values[i] = 0.01 + 0.02 * normal(&random);
        wf_interval_t t = wf_stats_paired_t(values, COUNT, 0.95);
        t_covers += t.low <= 0.01 && 0.01 <= t.high;
        if (round % 8 == 0) {
            wf_interval_t b;
            wf_assert_ok(wf_stats_bootstrap_median(values, COUNT, 400, 0.95, (uint64_t)round,
                                                   wf_allocator_system(), &b));
            assert_true(b.low <= b.centre && b.centre <= b.high);
            bootstrap_covers += b.low <= 0.01 && 0.01 <= b.high;
        }
    }
    /* 4 standard errors: 0.014 of 4000, 0.04 of 500. The bootstrap of a median is a little conservative. */
    NEAR(t_covers / (double)ROUNDS, 0.95, 0.014);
    NEAR(bootstrap_covers / (double)(ROUNDS / 8), 0.95, 0.045);
    wf_interval_t none;
    wf_assert_ok(wf_stats_bootstrap_median(NULL, 0, 10, 0.95, 1, wf_allocator_system(), &none));
    assert_true(isinf(none.high) && isinf(wf_stats_paired_t((double[]){1}, 1, 0.95).high));
}

static void bootstrap_repeats_with_its_seed(void **state)
{
    (void)state;
    double values[] = {0.1, 0.4, 0.2, 0.9, 0.3, 0.7, 0.5};
    wf_interval_t a, b;
    wf_assert_ok(wf_stats_bootstrap_median(values, 7, 500, 0.95, 42, wf_allocator_system(), &a));
    wf_assert_ok(wf_stats_bootstrap_median(values, 7, 500, 0.95, 42, wf_allocator_system(), &b));
    assert_memory_equal(&a, &b, sizeof a);
}

/* ---- Simulated machines: slow drift that all arms share, noise of each, outliers of 2x ---- */

typedef struct machine {
    wf_random_t random;
    double drift, noise, outlier_share;
} machine_t;

static void machine_block(machine_t *machine, const double *truth, size_t arms, double *out_logs)
{
    machine->drift = 0.95 * machine->drift + 0.01 * normal(&machine->random);
    for (size_t a = 0; a < arms; a++) {
        bool outlier = uniform(&machine->random) < machine->outlier_share;
        out_logs[a] = truth[a] + machine->drift + machine->noise * normal(&machine->random) +
                      (outlier ? 0.7 * uniform(&machine->random) : 0);
    }
}

static const wf_race_options_t race_options = {
    .delta = 0.003, .alpha = 0.05, .first_blocks = 12, .winsor_limit = 3};

/* Runs a race of at most `blocks_max` blocks; returns the winner. */
static size_t run_race(machine_t *machine, const double *truth, size_t arms, size_t blocks_max,
                       size_t *out_runs)
{
    wf_race_t race;
    wf_race_init(&race, wf_allocator_system(), &race_options, arms);
    *out_runs = 0;
    while (!wf_race_decided(&race) && race.block_count < blocks_max) {
        double logs[WF_RACE_ARMS_MAX];
        machine_block(machine, truth, arms, logs);
        for (size_t a = 0; a < arms; a++) {
            *out_runs += race.alive[a];
            if (!race.alive[a])
                logs[a] = NAN;
        }
        wf_assert_ok(wf_race_add(&race, logs));
    }
    size_t best;
    wf_assert_ok(wf_race_best(&race, &best));
    wf_race_deinit(&race);
    return best;
}

static void race_keeps_what_is_within_delta(void **state)
{
    (void)state;
    enum { ROUNDS = 300, ARMS = 8 };
    machine_t machine = {.random = wf_random_start("race", 4), .noise = 0.005, .outlier_share = 0.03};
    int right = 0;
    size_t all_runs = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double truth[ARMS], least = 1;
        for (int a = 0; a < ARMS; a++) {
            truth[a] = 0.02 * uniform(&machine.random);
            least = fmin(least, truth[a]);
        }
        size_t runs, best = run_race(&machine, truth, ARMS, 2000, &runs);
        all_runs += runs;
        right += truth[best] <= least + race_options.delta;
    }
    print_message("race: within delta %d of %d, %zu runs each\n", right, ROUNDS, all_runs / ROUNDS);
    assert_true(right >= ROUNDS * 0.93);
}

static void race_ends_fast_when_arms_differ(void **state)
{
    (void)state;
    machine_t machine = {.random = wf_random_start("race fast", 5), .noise = 0.005};
    double truth[4] = {0.3, 0, 0.5, 0.4};
    size_t runs, best = run_race(&machine, truth, 4, 1000, &runs);
    assert_int_equal(best, 1);
    assert_int_equal(runs, 4 * 12); /* decided at the first look */
}

static void race_survives_arms_that_fail(void **state)
{
    (void)state;
    wf_race_t race;
    wf_race_init(&race, wf_allocator_system(), &race_options, 3);
    size_t best;
    wf_assert_ok(wf_race_best(&race, &best));
    assert_int_equal(best, 0);
    wf_assert_ok(wf_race_add(&race, (double[]){1, NAN, 0.5}));
    assert_false(race.alive[1]);
    wf_race_drop(&race, 2);
    wf_race_drop(&race, 2);
    assert_true(wf_race_decided(&race));
    wf_assert_ok(wf_race_best(&race, &best));
    assert_int_equal(best, 0);
    wf_race_drop(&race, 0);
    wf_assert_ok(wf_race_best(&race, &best));
    assert_int_equal(best, 3);
    wf_race_deinit(&race);
}

/* The tuner's verdict: adopt only when the whole interval of fresh pairs is below zero. */
static void equal_engines_are_seldom_adopted(void **state)
{
    (void)state;
    enum { ROUNDS = 3000, BLOCKS = 40 };
    machine_t machine = {.random = wf_random_start("A/A", 6), .noise = 0.01, .outlier_share = 0.05};
    int adopted = 0, found = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int better = 0; better < 2; better++) {
            double truth[2] = {0, better ? -0.02 : 0}, differences[BLOCKS], scratch[BLOCKS], logs[2];
            for (int b = 0; b < BLOCKS; b++) {
                machine_block(&machine, truth, 2, logs);
                differences[b] = logs[1] - logs[0];
            }
            wf_stats_winsorise(differences, BLOCKS, 3, scratch);
            bool below = wf_stats_paired_t(differences, BLOCKS, 0.95).high < 0;
            adopted += !better && below;
            found += better && below;
        }
    }
    print_message("A/A adopted %d of %d; 2 %% faster found %d\n", adopted, ROUNDS, found);
    assert_true(adopted <= ROUNDS * 0.05); /* one side of a 95 % interval: 2.5 % and 4 standard errors */
    assert_true(found >= ROUNDS * 0.9);
}

/* ---- Memory ---- */

static wf_status_t allocate(wf_allocator_t allocator, void *arg)
{
    (void)arg;
    double values[16] = {3, 1, 2};
    wf_interval_t interval;
    WF_TRY(wf_stats_bootstrap_median(values, 16, 20, 0.9, 1, allocator, &interval));
    wf_race_t race;
    wf_race_init(&race, allocator, &race_options, 2);
    wf_status_t status = WF_OK;
    for (int b = 0; status == WF_OK && b < 14; b++)
        status = wf_race_add(&race, (double[]){1 + b % 2, 1 + b % 3});
    size_t best;
    if (status == WF_OK)
        status = wf_race_best(&race, &best);
    wf_race_deinit(&race);
    return status;
}

static void failed_allocations_are_reported(void **state)
{
    (void)state;
    assert_true(wf_fail_each_allocation(allocate, NULL) > 4);
}

static void shuffles_are_fair(void **state)
{
    (void)state;
    enum { ROUNDS = 24000 };
    wf_rng_t rng = {7};
    int seen[4][4] = {{0}};
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t order[4];
        wf_rng_shuffle(&rng, order, 4);
        uint32_t mask = 0;
        for (int i = 0; i < 4; i++) {
            seen[i][order[i]]++;
            mask |= 1u << order[i];
        }
        assert_int_equal(mask, 15);
    }
    for (int i = 0; i < 4; i++) {
        for (int v = 0; v < 4; v++)
            assert_true(abs(seen[i][v] - ROUNDS / 4) < 5 * 68); /* sd 67 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_a_sorted_list),
        cmocka_unit_test(mad_estimates_the_sd_and_ignores_outliers),
        cmocka_unit_test(winsorising_moves_only_the_far),
        cmocka_unit_test(welford_merges_like_one_pass),
        cmocka_unit_test(quantiles_match_printed_tables),
        cmocka_unit_test(expected_excess_is_the_integral),
        cmocka_unit_test(intervals_cover_the_truth),
        cmocka_unit_test(bootstrap_repeats_with_its_seed),
        cmocka_unit_test(race_keeps_what_is_within_delta),
        cmocka_unit_test(race_ends_fast_when_arms_differ),
        cmocka_unit_test(race_survives_arms_that_fail),
        cmocka_unit_test(equal_engines_are_seldom_adopted),
        cmocka_unit_test(failed_allocations_are_reported),
        cmocka_unit_test(shuffles_are_fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
