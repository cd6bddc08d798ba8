/* SPDX-License-Identifier: Apache-2.0 */
/* What recorded tunings say of a model, and what a noise floor allows to see. */
#include "tune/likeness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/temp_folder.h"
#include "tune/noise.h"

#define HASH " 0123456789abcdef0123456789abcdef "
#define LOCK(model, plan, evidence) \
    "wayfinder-lock 1\nmodel " model "\nthreads 2\n[part 0]\n[plan]\n" plan "[evidence]\n" evidence

static const char convs[] =
    LOCK("aaaa", "a" HASH "native/conv.igemm.avx2.mb1@1\nb" HASH "native/gemm.avx2@1\n",
         "a 900 - 0 0 measured 6\nb 100 - 0 0 measured 6\n");
static const char gemms[] =
    LOCK("bbbb", "a" HASH "native/conv.igemm.avx2.mb1@1\nb" HASH "native/gemm.avx2@1\n",
         "a 100 - 0 0 measured 6\nb 900 - 0 0 measured 6\n");
static const char other[] =
    LOCK("cccc", "c" HASH "onednn/conv@2 covers=x\n\"q z\"" HASH "native/pool.avx2@1\n", "");

static void assert_near(double a, double b, double within)
{
    if (!(fabs(a - b) <= within))
        fail_msg("%.12g is not within %g of %.12g", a, within, b);
}

static void mixes_of_work_are_compared(void **state)
{
    (void)state;
    wf_likeness_t a = wf_likeness_of_lock(convs), b = wf_likeness_of_lock(gemms),
                  c = wf_likeness_of_lock(other);
    assert_int_equal(a.count, 2);
    assert_int_equal(c.count, 2);
    assert_near(wf_likeness_compare(&a, &a), 1, 1e-12);
    /* cos of (0.9, 0.1) and (0.1, 0.9) */
    assert_near(wf_likeness_compare(&a, &b), 0.18 / 0.82, 1e-9);
    assert_near(wf_likeness_compare(&a, &c), 0.9 / sqrt(0.82) / sqrt(2), 1e-9);
    wf_likeness_t none = wf_likeness_of_lock("");
    assert_int_equal(none.count, 0);
    assert_near(wf_likeness_compare(&a, &none), 0, 0);
}

static void put(wf_database_t *database, const char *base, const char *lock, double ratio, bool converged)
{
    wf_outcome_t outcome = {.lock = lock,
                            .ratio = ratio,
                            .ratio_low = ratio * 0.98,
                            .ratio_high = ratio * 1.02,
                            .default_ns = 1000,
                            .default_low_ns = 990,
                            .default_high_ns = 1010,
                            .final_ns = 1000 * ratio,
                            .final_low_ns = 1,
                            .final_high_ns = 1000,
                            .budget_s = 30,
                            .converged = converged};
    (void)snprintf(outcome.base, sizeof outcome.base, "%s", base);
    wf_assert_ok(wf_database_put_outcome(database, &outcome));
}

static void like_tunings_are_expected_again(void **state)
{
    (void)state;
    static const wf_database_scope_t scope = {"cpu here", 2, 1, "cold"};
    char folder[3000], path[3100];
    wf_database_t *database;
    wf_expectation_t e;
    wf_temp_folder_make(folder, sizeof folder);
    (void)snprintf(path, sizeof path, "%s/t.db", folder);
    wf_assert_ok(wf_database_open(path, &scope, wf_allocator_system(), &database));
    wf_assert_ok(wf_likeness_expect(database, convs, "cpu here", &e));
    assert_int_equal(e.records, 0);
    assert_int_equal(e.like, 0);
    put(database, "1", gemms, 0.5, false); /* recorded, but not like it */
    wf_assert_ok(wf_likeness_expect(database, convs, "cpu here", &e));
    assert_int_equal(e.records, 1);
    assert_int_equal(e.like, 0);
    put(database, "2", other, 0.8, true);
    wf_assert_ok(wf_likeness_expect(database, convs, "cpu here", &e));
    assert_int_equal(e.like, 1);
    assert_false(e.same_model);
    assert_near(e.ratio, 0.8, 1e-9);
    assert_true(e.low < 0.8 && e.high > 0.8 && e.high <= 1);
    assert_near(e.budget_s, 30, 0);
    put(database, "3", convs, 0.9, false);
    wf_assert_ok(wf_likeness_expect(database, convs, "cpu here", &e));
    assert_true(e.same_model);
    assert_int_equal(e.like, 1);
    assert_near(e.ratio, 0.9, 1e-9);
    assert_near(e.low, 0.9 * 0.98, 1e-9);
    assert_near(e.budget_s, 0, 0); /* it did not converge */
    /* The same model elsewhere is a like model here. */
    wf_assert_ok(wf_likeness_expect(database, convs, "cpu there", &e));
    assert_false(e.same_model);
    wf_database_close(database);
    wf_temp_folder_remove(folder);
}

static void more_time_shows_smaller_effects(void **state)
{
    (void)state;
    wf_noise_t noise = {.pairs = 1000, .pair_s = 0.001, .sd = 0.01, .inflation = 1};
    /* 10 s are 10000 pairs: 3.971 * 1.2533 * 0.01 / 100 */
    assert_near(wf_noise_detectable(&noise, 10), 0.000498, 0.000001);
    assert_near(wf_noise_detectable(&noise, 1000) * 10, wf_noise_detectable(&noise, 10), 1e-6);
    noise.inflation = 3;
    assert_near(wf_noise_detectable(&noise, 10), 0.001494, 0.000002);
    noise.pairs = 0;
    assert_true(isinf(wf_noise_detectable(&noise, 10)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mixes_of_work_are_compared),
                                       cmocka_unit_test(like_tunings_are_expected_again),
                                       cmocka_unit_test(more_time_shows_smaller_effects)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
