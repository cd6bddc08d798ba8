/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "support/cmocka_all.h"
#include "wayfinder/version.h"

static void version_text_matches_the_numbers(void **state)
{
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", WF_VERSION_MAJOR, WF_VERSION_MINOR, WF_VERSION_PATCH);
    assert_string_equal(wf_version(), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(version_text_matches_the_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
