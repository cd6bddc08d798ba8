/* SPDX-License-Identifier: Apache-2.0 */
/* Which differences between machines each fit forgives. */
#include "device/fit.h"

#include <string.h>

#include "support/cmocka_all.h"

#define MACHINE(model, stepping, tiers, l3, cpus)                                         \
    "cpu vendor=V family=6 model=" model " stepping=" stepping " name=\"N\" tiers=" tiers \
    " l1d=1 l2=2 l3=" l3 " cpus=" cpus " cores=2 quota_milli=none"

static bool same(wf_fit_t fit, const char *a, const char *b)
{
    wf_hash_t x = wf_fit_hash(fit, a, strlen(a)), y = wf_fit_hash(fit, b, strlen(b));
    return x.low == y.low && x.high == y.high;
}

static void fits_forgive_what_they_say(void **state)
{
    (void)state;
    static const char here[] = MACHINE("1", "1", "scalar,avx2", "32", "2");
    static const struct {
        const char *there;
        bool exact, family;
    } cases[] = {{MACHINE("1", "1", "scalar,avx2", "32", "2"), true, true},
                 {MACHINE("1", "1", "scalar", "32", "2"), true, true}, /* a tier that was not allowed */
                 {MACHINE("1", "2", "scalar,avx2", "32", "2"), false, true},
                 {MACHINE("1", "1", "scalar,avx2", "16", "2"), false, true},
                 {MACHINE("1", "1", "scalar,avx2", "32", "8"), false, true},
                 {MACHINE("2", "1", "scalar,avx2", "32", "2"), false, false},
                 {"", false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(same(WF_FIT_EXACT, here, cases[i].there), cases[i].exact);
        assert_int_equal(same(WF_FIT_FAMILY, here, cases[i].there), cases[i].family);
        assert_true(same(WF_FIT_PORTABLE, here, cases[i].there));
    }
}

static void names_are_inverse(void **state)
{
    (void)state;
    wf_fit_t fit;
    for (int i = 0; i < WF_FIT_COUNT; i++) {
        const char *name = wf_fit_name((wf_fit_t)i);
        assert_true(wf_fit_from_name(name, strlen(name), &fit));
        assert_int_equal(fit, i);
    }
    assert_false(wf_fit_from_name("exac", 4, &fit));
    assert_false(wf_fit_from_name("", 0, &fit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fits_forgive_what_they_say),
                                       cmocka_unit_test(names_are_inverse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
