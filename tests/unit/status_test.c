/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/status.h"
#include "base/utf8.h"
#include "support/cmocka_all.h"

static void ok_says_nothing(void **state)
{
    (void)state;
    assert_int_equal(wf_status_code(WF_OK), WF_CODE_OK);
    assert_string_equal(wf_status_message(WF_OK), "");
    assert_string_equal(wf_status_hint(WF_OK), "");
    assert_int_equal(wf_status_exit_code(WF_OK), 0);
    assert_string_equal(wf_code_title(WF_CODE_OK), "ok");
    wf_status_free(WF_OK);
    assert_null(wf_status_annotated(WF_OK, "prefix"));
    assert_null(wf_status_hinted(WF_OK, "hint"));
}

static void message_hint_and_prefix_are_kept(void **state)
{
    (void)state;
    wf_status_t status = WF_ERROR(MODEL_INVALID, "node %s has %d inputs", "conv1", 7);
    assert_string_equal(wf_status_message(status), "node conv1 has 7 inputs");
    assert_string_equal(wf_status_hint(status), "");
    status = wf_status_hinted(status, "export it with opset %d", 13);
    status = wf_status_hinted(status, "export it with opset %d", 17);
    assert_string_equal(wf_status_hint(status), "export it with opset 17");
    status = wf_status_annotated(status, "model %s", "a.onnx");
    assert_string_equal(wf_status_message(status), "model a.onnx: node conv1 has 7 inputs");
    assert_int_equal(wf_status_code(status), WF_CODE_MODEL_INVALID);
    assert_int_equal(wf_status_exit_code(status), 8);
    wf_status_free(status);
}

static void an_internal_error_names_its_place(void **state)
{
    (void)state;
    wf_status_t status = WF_ERROR(INTERNAL, "broken");
    assert_non_null(strstr(wf_status_hint(status), "status_test.c:"));
    wf_status_free(status);
}

/* Every row: the number is the exit code times 100 plus a position, but for interruption. */
static void numbers_follow_the_exit_codes(void **state)
{
    (void)state;
    static const struct {
        wf_code_t code;
        int exit_code;
        const char *title;
    } rows[] = {
#define X(name, number, exit_code, title) {WF_CODE_##name, exit_code, title},
#include "wayfinder/errors.def"
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_status_t status = wf_status_make(rows[i].code, __FILE__, __LINE__, "x");
        assert_int_equal(wf_status_exit_code(status), rows[i].exit_code);
        assert_string_equal(wf_code_title(rows[i].code), rows[i].title);
        assert_int_equal((int)rows[i].code / 100,
                         rows[i].code == WF_CODE_INTERRUPTED ? 99 : rows[i].exit_code);
        wf_status_free(status);
    }
    assert_string_equal(wf_code_title((wf_code_t)1234), "unknown");
}

static void out_of_memory_is_static(void **state)
{
    (void)state;
    wf_status_t status = wf_status_out_of_memory();
    assert_ptr_equal(status, wf_status_out_of_memory());
    assert_int_equal(wf_status_exit_code(status), 10);
    assert_string_equal(wf_status_message(status), "out of memory");
    assert_ptr_equal(wf_status_annotated(status, "x"), status);
    assert_ptr_equal(wf_status_hinted(status, "x"), status);
    assert_string_equal(wf_status_message(status), "out of memory");
    wf_status_free(status);
    wf_status_free(status);
}

static void errno_is_translated(void **state)
{
    (void)state;
    static const struct {
        int error_number;
        wf_code_t code;
    } rows[] = {
        {ENOENT, WF_CODE_FILE_MISSING},    {ENOTDIR, WF_CODE_FILE_MISSING},  {ENOSPC, WF_CODE_DISK_FULL},
        {EDQUOT, WF_CODE_DISK_FULL},       {EFBIG, WF_CODE_DISK_FULL},       {ENOMEM, WF_CODE_OUT_OF_MEMORY},
        {EACCES, WF_CODE_FILE_UNWRITABLE}, {EROFS, WF_CODE_FILE_UNWRITABLE}, {EIO, WF_CODE_FILE_UNWRITABLE},
        {99999, WF_CODE_FILE_UNWRITABLE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_assert_fails_at(
            wf_status_from_errno(rows[i].error_number, WF_CODE_FILE_UNWRITABLE, "write", "a/b"), rows[i].code,
            "errno", __FILE__, __LINE__);
    }
    wf_status_t status = wf_status_from_errno(EACCES, WF_CODE_FILE_UNREADABLE, "read", "a/b");
    assert_string_equal(wf_status_message(status), "cannot read a/b: Permission denied");
    assert_string_not_equal(wf_status_hint(status), "");
    wf_status_free(status);
}

static void join_keeps_the_first(void **state)
{
    (void)state;
    assert_null(wf_status_join(WF_OK, WF_OK));
    wf_assert_fails(wf_status_join(WF_OK, WF_ERROR(USAGE, "b")), USAGE);
    wf_assert_fails(wf_status_join(WF_ERROR(TIME_OUT, "a"), WF_OK), TIME_OUT);
    wf_assert_fails(wf_status_join(WF_ERROR(TIME_OUT, "a"), WF_ERROR(USAGE, "b")), TIME_OUT);
    wf_status_ignore(WF_ERROR(USAGE, "dropped"));
}

static wf_status_t try_twice(wf_status_t first, int *reached)
{
    WF_TRY(first);
    *reached = 1;
    return WF_OK;
}

static void try_returns_failures_only(void **state)
{
    (void)state;
    int reached = 0;
    wf_assert_fails(try_twice(WF_ERROR(USAGE, "a"), &reached), USAGE);
    assert_int_equal(reached, 0);
    wf_assert_ok(try_twice(WF_OK, &reached));
    assert_int_equal(reached, 1);
}

/* Names of models reach terminals and JSON. */
static void messages_are_one_line_of_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"plain", "plain"},
        {"a\nb\tc\x1b[31m", "a?b?c?[31m"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"cut \xe2\x82", "cut ??"},
        {"overlong \xc0\xaf", "overlong ??"},
        {"overlong \xe0\x80\xaf", "overlong ???"},
        {"surrogate \xed\xa0\x80", "surrogate ???"},
        {"too large \xf4\x90\x80\x80", "too large ????"},
        {"stray \x80 \xff", "stray ? ?"},
        {"del \x7f", "del ?"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_status_t status = WF_ERROR(USAGE, "%s", rows[i].in);
        assert_string_equal(wf_status_message(status), rows[i].out);
        wf_status_free(status);
    }
    assert_int_equal(wf_utf8_char_bytes("\xe2\x82\xac", 3), 3);
    assert_int_equal(wf_utf8_char_bytes("\xe2\x82\xac", 2), 0);
    assert_int_equal(wf_utf8_char_bytes("", 1), 1);
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    static char name[100001];
    memset(name, 'n', sizeof name - 1);
    wf_status_t status = WF_ERROR(USAGE, "%s", name);
    size_t length = strlen(wf_status_message(status));
    assert_in_range(length, 1000, 10000);
    wf_status_free(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ok_says_nothing),
        cmocka_unit_test(message_hint_and_prefix_are_kept),
        cmocka_unit_test(an_internal_error_names_its_place),
        cmocka_unit_test(numbers_follow_the_exit_codes),
        cmocka_unit_test(out_of_memory_is_static),
        cmocka_unit_test(errno_is_translated),
        cmocka_unit_test(join_keeps_the_first),
        cmocka_unit_test(try_returns_failures_only),
        cmocka_unit_test(messages_are_one_line_of_utf8),
        cmocka_unit_test(long_messages_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
