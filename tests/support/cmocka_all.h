/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers that it needs before it, and checks for statuses. */
#ifndef WF_TESTS_CMOCKA_ALL_H
#define WF_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wayfinder/status.h"

/* The status is WF_OK; prints its message when it is not. */
#define wf_assert_ok(expression) wf_assert_ok_at((expression), #expression, __FILE__, __LINE__)
/* The status has the code WF_CODE_<code_name>; frees it. */
#define wf_assert_fails(expression, code_name) \
    wf_assert_fails_at((expression), WF_CODE_##code_name, #expression, __FILE__, __LINE__)

static inline void wf_assert_ok_at(wf_status_t status, const char *what, const char *file, int line)
{
    if (status != WF_OK) {
        print_error("%s: WF-%04d %s\n", what, (int)wf_status_code(status), wf_status_message(status));
        wf_status_free(status);
        _fail(file, line);
    }
}

static inline void wf_assert_fails_at(wf_status_t status, wf_code_t code, const char *what, const char *file,
                                      int line)
{
    if (wf_status_code(status) != code) {
        print_error("%s: WF-%04d expected, got WF-%04d %s\n", what, (int)code, (int)wf_status_code(status),
                    wf_status_message(status));
        wf_status_free(status);
        _fail(file, line);
    }
    wf_status_free(status);
}

#endif
