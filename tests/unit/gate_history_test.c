/* SPDX-License-Identifier: Apache-2.0 */
/* Change points in series with known steps, ramps and none. */
#include "gate/history.h"

#include <math.h>

#include "support/cmocka_all.h"
#include "support/random.h"

enum { POINTS = 60 };

static double normal(wf_random_t *random)
{
    double u = ((double)(wf_random_u64(random) >> 11) + 1) * 0x1p-53,
           v = (double)wf_random_u64(random) * 0x1p-64;
    return sqrt(-2 * log(u)) * cos(2 * acos(-1.0) * v);
}

static wf_changes_t find(const double *levels, size_t count)
{
    wf_changes_t changes;
    wf_assert_ok(wf_history_changes(levels, count, wf_allocator_system(), &changes));
    return changes;
}

static void steady_series_have_no_changes(void **unused)
{
    wf_random_t random = wf_random_start("steady", 21);
    int found = 0;
    (void)unused;
    for (int i = 0; i < 500; i++) {
        double levels[POINTS];
        for (int p = 0; p < POINTS; p++)
            levels[p] = 0.005 * normal(&random);
        wf_changes_t changes = find(levels, POINTS);
        found += changes.count > 0;
        wf_vec_deinit(wf_allocator_system(), &changes);
    }
    print_message("%d of 500 steady series have a change\n", found);
    assert_true(found <= 5);
}

static void steps_are_found_where_they_are(void **unused)
{
    wf_random_t random = wf_random_start("step", 22);
    int right = 0, twos = 0;
    (void)unused;
    for (int i = 0; i < 200; i++) {
        double levels[POINTS];
        for (int p = 0; p < POINTS; p++)
            levels[p] = 0.004 * normal(&random) + (p >= 25 ? 0.015 : 0) + (p >= 45 ? 0.015 : 0);
        wf_changes_t changes = find(levels, POINTS);
        twos += changes.count == 2;
        right += changes.count == 2 && changes.items[0].at >= 23 && changes.items[0].at <= 27 &&
                 changes.items[1].at >= 43 && changes.items[1].at <= 47 &&
                 fabs(changes.items[0].step - 0.015) < 0.006 && fabs(changes.items[1].step - 0.015) < 0.006;
        wf_vec_deinit(wf_allocator_system(), &changes);
    }
    print_message("%d of 200 have two changes, %d in place\n", twos, right);
    assert_true(right >= 190);
}

/* 0.1 % a point: no gate sees it, the sum is 6 %. */
static void creep_adds_up(void **unused)
{
    wf_random_t random = wf_random_start("creep", 23);
    (void)unused;
    for (int i = 0; i < 100; i++) {
        double levels[POINTS], total = 0;
        for (int p = 0; p < POINTS; p++)
            levels[p] = 0.004 * normal(&random) + 0.001 * p;
        wf_changes_t changes = find(levels, POINTS);
        for (size_t c = 0; c < changes.count; c++)
            total += changes.items[c].step;
        assert_true(total > 0.02 && total < 0.07);
        wf_vec_deinit(wf_allocator_system(), &changes);
    }
}

static void short_and_flat_series(void **unused)
{
    double flat[8] = {0}, step[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    (void)unused;
    for (size_t n = 0; n <= 8; n++)
        assert_int_equal(find(flat, n).count, 0);
    assert_int_equal(find(step, 5).count, 0);
    wf_changes_t changes = find(step, 8);
    assert_int_equal(changes.count, 1);
    assert_int_equal(changes.items[0].at, 4);
    assert_true(changes.items[0].step == 1);
    wf_vec_deinit(wf_allocator_system(), &changes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_series_have_no_changes),
        cmocka_unit_test(steps_are_found_where_they_are),
        cmocka_unit_test(creep_adds_up),
        cmocka_unit_test(short_and_flat_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
