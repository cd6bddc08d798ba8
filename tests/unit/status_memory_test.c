/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses when there is no memory for them: a copy of status.c whose malloc fails on demand. */
#include <stdlib.h>

static int calls_until_failure;

static void *failing_malloc(size_t bytes)
{
    return calls_until_failure-- > 0 ? malloc(bytes) : NULL;
}

#define malloc failing_malloc
#include "base/status.c"
#undef malloc

#include "support/cmocka_all.h"

static void making_falls_back_to_out_of_memory(void **state)
{
    (void)state;
    for (int calls = 0; calls < 2; calls++) {
        calls_until_failure = calls;
        wf_status_t status = WF_ERROR(USAGE, "text %d", 1);
        assert_ptr_equal(status, wf_status_out_of_memory());
        wf_status_free(status);
    }
    calls_until_failure = 2;
    wf_status_t status = WF_ERROR(USAGE, "text %d", 1);
    assert_string_equal(wf_status_message(status), "text 1");
    wf_status_free(status);
}

static void adding_keeps_what_was_there(void **state)
{
    (void)state;
    calls_until_failure = 3;
    wf_status_t status = wf_status_hinted(WF_ERROR(USAGE, "text"), "hint");
    for (int calls = 0; calls < 2; calls++) {
        calls_until_failure = calls;
        status = wf_status_annotated(status, "prefix");
        assert_string_equal(wf_status_message(status), "text");
    }
    calls_until_failure = 0;
    status = wf_status_hinted(status, "other");
    assert_string_equal(wf_status_hint(status), "hint");
    assert_int_equal(wf_status_code(status), WF_CODE_USAGE);
    wf_status_free(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(making_falls_back_to_out_of_memory),
        cmocka_unit_test(adding_keeps_what_was_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
