/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies and screening on landscapes whose best point is known. */
#include "tune/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/random.h"

#define FACTORS_MAX 63

/* log time = sum of effects + interactions of pairs; noise and drift on top. */
typedef struct landscape {
    size_t factor_count;
    uint32_t value_counts[FACTORS_MAX];
    double effects[FACTORS_MAX][4]; /* of value 1.. */
    double pairs[FACTORS_MAX][FACTORS_MAX];
    double noise_sd, drift;
    uint64_t calls, measured;
    uint64_t limit; /* of measurements, the default's too; 0: none */
    int fails;      /* a factor whose value 1 does not run; -1: none */
    wf_random_t random;
} landscape_t;

static double normal(wf_random_t *random)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += 0.5 * ((double)wf_random_float(random) + 1);
    return sum - 6;
}

static double truth(const landscape_t *l, const uint8_t *assignment)
{
    double value = 0;
    for (size_t i = 0; i < l->factor_count; i++) {
        if (assignment[i] == 0)
            continue;
        value += l->effects[i][assignment[i]];
        for (size_t j = 0; j < i; j++)
            value += assignment[j] != 0 ? l->pairs[i][j] : 0;
    }
    return value;
}

static wf_status_t measure(void *self, const uint8_t *const *assignments, size_t count, bool with_default,
                           double *out_logs, bool *out_over)
{
    landscape_t *l = self;
    double block = l->drift * normal(&l->random);
    double base = with_default ? block + l->noise_sd * normal(&l->random) : 0;
    l->calls++;
    l->measured += count + with_default;
    assert_true(count >= 1 && count <= WF_SEARCH_BLOCK_MAX);
    for (size_t i = 0; i < count; i++) {
        for (size_t f = 0; f < l->factor_count; f++)
            assert_true(assignments[i][f] < l->value_counts[f]);
        out_logs[i] = truth(l, assignments[i]) + block + l->noise_sd * normal(&l->random) - base;
        if (l->fails >= 0 && assignments[i][l->fails] != 0)
            out_logs[i] = NAN;
    }
    *out_over = l->limit != 0 && l->measured >= l->limit;
    return WF_OK;
}

static void expect_near(double value, double wanted)
{
    assert_true(fabs(value - wanted) < 1e-9);
}

static landscape_t make(size_t factor_count, uint32_t values)
{
    landscape_t l = {.factor_count = factor_count, .fails = -1, .random = {1}};
    for (size_t i = 0; i < factor_count; i++)
        l.value_counts[i] = values;
    return l;
}

static void start(wf_search_t *search, landscape_t *l)
{
    wf_assert_ok(
        wf_search_init(search, l->factor_count, l->value_counts, measure, l, 7, wf_allocator_system()));
}

static void expect_best(wf_search_t *search, const landscape_t *l, const uint8_t *best)
{
    assert_memory_equal(search->best, best, l->factor_count);
    expect_near(search->best_log, truth(l, best));
    wf_search_deinit(search);
}

/* ---- Enumerations ---- */

static void fast_takes_the_best_single_change(void **state)
{
    (void)state;
    landscape_t l = make(5, 3);
    l.effects[1][2] = -0.02;
    l.effects[3][1] = -0.03;
    l.effects[4][1] = 0.01;
    wf_search_t search;
    start(&search, &l);
    wf_assert_ok(wf_search_fast(&search));
    assert_int_equal(search.trial_count, wf_search_fast_trials(5, l.value_counts));
    assert_int_equal(search.trial_count, 10);
    expect_best(&search, &l, (const uint8_t[]){0, 0, 0, 1, 0});
}

static void full_sees_every_combination(void **state)
{
    (void)state;
    landscape_t l = make(4, 3);
    l.effects[0][1] = 0.01;
    l.effects[2][2] = 0.01;
    l.pairs[2][0] = -0.05; /* good together only */
    wf_search_t search;
    start(&search, &l);
    wf_assert_ok(wf_search_full(&search));
    assert_int_equal(search.trial_count, wf_search_full_trials(4, l.value_counts));
    assert_int_equal(search.trial_count, 80);
    expect_near(search.best_log, -0.05);
    assert_true(search.best[0] == 2 && search.best[2] == 1);
    wf_search_deinit(&search);
    uint32_t many[FACTORS_MAX];
    for (size_t i = 0; i < FACTORS_MAX; i++)
        many[i] = 4;
    assert_true(wf_search_full_trials(FACTORS_MAX, many) == SIZE_MAX);
}

static void mixed_combines_what_won(void **state)
{
    (void)state;
    landscape_t l = make(10, 2);
    l.effects[2][1] = -0.02;
    l.effects[5][1] = -0.01;
    l.effects[7][1] = -0.015;
    l.pairs[7][5] = 0.03;
    for (size_t i = 0; i < 10; i++)
        l.effects[i][1] = l.effects[i][1] < 0 ? l.effects[i][1] : 0.01;
    wf_search_t search;
    start(&search, &l);
    wf_assert_ok(wf_search_mixed(&search));
    assert_int_equal(search.trial_count, 10 + 7);
    expect_best(&search, &l, (const uint8_t[]){0, 0, 1, 0, 0, 0, 0, 1, 0, 0});
}

static void random_finds_a_small_space_and_ends(void **state)
{
    (void)state;
    landscape_t l = make(3, 3);
    l.effects[0][1] = -0.02;
    l.effects[2][2] = -0.02;
    wf_search_t search;
    start(&search, &l);
    wf_assert_ok(wf_search_random(&search));
    assert_true(search.trial_count < 27 * 8);
    expect_near(search.best_log, -0.04);
    wf_search_deinit(&search);
}

static void limits_hold_for_all(void **state)
{
    (void)state;
    wf_status_t (*const strategies[])(wf_search_t *) = {wf_search_fast, wf_search_full, wf_search_mixed,
                                                        wf_search_random};
    for (size_t s = 0; s < 4; s++) {
        for (size_t limit = 1; limit < 30; limit += 4) {
            landscape_t l = make(20, 2);
            wf_search_t search;
            start(&search, &l);
            search.trial_limit = limit;
            wf_assert_ok(strategies[s](&search));
            assert_true(search.trial_count <= limit);
            assert_true(search.trial_count > 0);
            wf_search_deinit(&search);

            l = make(20, 2);
            l.limit = limit;
            start(&search, &l);
            wf_assert_ok(strategies[s](&search));
            assert_true(l.measured < limit + WF_SEARCH_BLOCK_MAX + 1);
            wf_search_deinit(&search);
        }
    }
}

static void what_does_not_run_is_not_chosen(void **state)
{
    (void)state;
    wf_status_t (*const strategies[])(wf_search_t *) = {wf_search_fast, wf_search_full, wf_search_mixed,
                                                        wf_search_random};
    for (size_t s = 0; s < 4; s++) {
        landscape_t l = make(4, 2);
        l.effects[0][1] = l.effects[3][1] = 0.001;
        l.effects[1][1] = -0.5;
        l.effects[2][1] = -0.01;
        l.fails = 1;
        wf_search_t search;
        start(&search, &l);
        wf_assert_ok(strategies[s](&search));
        expect_best(&search, &l, (const uint8_t[]){0, 0, 1, 0});
    }
}

/* ---- Screening ---- */

/* Columns of the design are orthogonal and balanced. */
static void designs_are_orthogonal(void **state)
{
    (void)state;
    for (size_t n = 1; n <= WF_SCREEN_FACTORS_MAX; n++) {
        size_t rows = wf_screen_rows(n);
        assert_true(rows > n && (rows & (rows - 1)) == 0 && (rows / 2 <= n || rows == 2));
        for (size_t a = 0; a < n; a++) {
            int on = 0;
            for (size_t r = 0; r < rows; r++)
                on += wf_screen_on(r, a);
            assert_int_equal(on, rows / 2);
            for (size_t b = 0; b < a; b++) {
                int product = 0;
                for (size_t r = 0; r < rows; r++)
                    product += wf_screen_on(r, a) == wf_screen_on(r, b) ? 1 : -1;
                assert_int_equal(product, 0);
            }
        }
    }
}

/* Without noise the effects come back exactly, whatever pairs of factors do together. */
static void effects_are_exact_without_noise(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("screen", 11);
    for (size_t n = 1; n <= WF_SCREEN_FACTORS_MAX; n += 7) {
        landscape_t l = make(n, 2);
        double wanted[FACTORS_MAX];
        for (size_t i = 0; i < n; i++) {
            l.effects[i][1] = wanted[i] = 0.01 * (double)wf_random_float(&random);
            for (size_t j = 0; j < i; j++)
                l.pairs[i][j] = j + 1 == i ? 0.01 * (double)wf_random_float(&random) : 0;
        }
        /* The effect of a factor, the others being on half of the time. */
        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < n; j++)
                wanted[i] += 0.5 * (l.pairs[i][j] + l.pairs[j][i]);
        }
        l.drift = 0.1;
        wf_search_t search;
        wf_screen_result_t result;
        start(&search, &l);
        wf_assert_ok(wf_search_screen(&search, 0, 0, &result));
        assert_int_equal(result.pair_count, wf_screen_rows(n));
        for (size_t i = 0; i < n; i++)
            expect_near(result.effects[i].log_ratio, wanted[i]);
        wf_search_deinit(&search);
    }
}

static void good_sets_are_found_and_polished(void **state)
{
    (void)state;
    landscape_t l = make(15, 2);
    for (size_t i = 0; i < 15; i++)
        l.effects[i][1] = i % 3 == 0 ? -0.01 : 0.01;
    l.noise_sd = 0.002;
    l.drift = 0.05;
    wf_search_t search;
    wf_screen_result_t result;
    start(&search, &l);
    search.noise_sd = 0.003;
    wf_assert_ok(wf_search_screen(&search, 32, 5, &result));
    for (size_t i = 0; i < 15; i++)
        assert_int_equal(search.best[i], i % 3 == 0);
    assert_true(result.r2 > 0.8 && result.polish_log < -0.03);
    wf_search_deinit(&search);
}

/* Alone each is good, together they are bad: the comparison with the default notices. */
static void bad_sets_are_halved(void **state)
{
    (void)state;
    landscape_t l = make(8, 2);
    for (size_t i = 0; i < 8; i++) {
        l.effects[i][1] = -0.02;
        for (size_t j = 0; j < i; j++)
            l.pairs[i][j] = 0.0045;
    }
    l.effects[0][1] = -0.05;
    wf_search_t search;
    wf_screen_result_t result;
    start(&search, &l);
    wf_assert_ok(wf_search_screen(&search, 16, 5, &result));
    assert_true(truth(&l, search.best) < 0);
    assert_int_equal(search.best[0], 1);
    wf_search_deinit(&search);
}

static void a_flat_landscape_gives_little(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("flat", 5);
    double worst_se = 0, sum = 0;
    size_t count = 0;
    for (int run = 0; run < 50; run++) {
        landscape_t l = make(15, 2);
        l.noise_sd = 0.005;
        l.random = wf_random_start("flat landscape", wf_random_u64(&random));
        wf_search_t search;
        wf_screen_result_t result;
        start(&search, &l);
        search.noise_sd = 0.005;
        wf_assert_ok(wf_search_screen(&search, 32, 0, &result));
        for (size_t i = 0; i < 15; i++) {
            double z = result.effects[i].log_ratio / result.effects[i].se;
            sum += z * z;
            count++;
            worst_se = fmax(worst_se, result.effects[i].se);
            assert_true(fabs(result.effects[i].shrunk) <= fabs(result.effects[i].log_ratio));
        }
        wf_search_deinit(&search);
    }
    /* 4 sigma^2 / 2L with 64 runs: 0.125 %. Squared z have mean 1 and standard deviation 1.4. */
    assert_true(worst_se < 0.002);
    assert_true(fabs(sum / (double)count - 1) < 4 * 1.5 / sqrt((double)count));
}

/* Few pairs: no numbers that are not numbers. */
static void too_few_pairs_do_no_harm(void **state)
{
    (void)state;
    for (uint64_t limit = 0; limit < 40; limit += 3) {
        landscape_t l = make(15, 2);
        l.effects[3][1] = -0.02;
        l.noise_sd = 0.001;
        l.limit = limit + 1;
        wf_search_t search;
        wf_screen_result_t result;
        start(&search, &l);
        search.noise_sd = 0.001;
        wf_assert_ok(wf_search_screen(&search, 16, 3, &result));
        for (size_t i = 0; i < 15; i++)
            assert_true(isfinite(result.effects[i].log_ratio) && isfinite(result.effects[i].shrunk));
        wf_search_deinit(&search);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_takes_the_best_single_change),
        cmocka_unit_test(full_sees_every_combination),
        cmocka_unit_test(mixed_combines_what_won),
        cmocka_unit_test(random_finds_a_small_space_and_ends),
        cmocka_unit_test(limits_hold_for_all),
        cmocka_unit_test(what_does_not_run_is_not_chosen),
        cmocka_unit_test(designs_are_orthogonal),
        cmocka_unit_test(effects_are_exact_without_noise),
        cmocka_unit_test(good_sets_are_found_and_polished),
        cmocka_unit_test(bad_sets_are_halved),
        cmocka_unit_test(a_flat_landscape_gives_little),
        cmocka_unit_test(too_few_pairs_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
