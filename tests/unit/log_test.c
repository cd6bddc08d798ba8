/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"

typedef struct lines {
    int count;
    wf_log_level_t level;
    char last[2000];
} lines_t;

static void keep_line(void *self, wf_log_level_t level, const char *line)
{
    lines_t *lines = self;
    lines->count++;
    lines->level = level;
    snprintf(lines->last, sizeof lines->last, "%s", line);
}

static void levels_and_silence(void **state)
{
    (void)state;
    lines_t lines = {0};
    wf_log_t log = {&lines, keep_line, WF_LOG_INFO};
    wf_log_line(&log, WF_LOG_DEBUG, "no");
    assert_int_equal(lines.count, 0);
    wf_log_line(&log, WF_LOG_WARN, "%s is %d", "x", 3);
    assert_int_equal(lines.count, 1);
    assert_int_equal(lines.level, WF_LOG_WARN);
    assert_string_equal(lines.last, "x is 3");
    wf_log_line(&log, WF_LOG_INFO, "two\nlines");
    assert_string_equal(lines.last, "two?lines");
    log.write = NULL;
    wf_log_line(&log, WF_LOG_ERROR, "silent");
    wf_log_line(NULL, WF_LOG_ERROR, "silent");
    assert_int_equal(lines.count, 2);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    static char text[5000];
    memset(text, 'a', sizeof text - 1);
    lines_t lines = {0};
    wf_log_t log = {&lines, keep_line, WF_LOG_DEBUG};
    wf_log_line(&log, WF_LOG_DEBUG, "%s", text);
    assert_int_equal(strlen(lines.last), 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_silence),
        cmocka_unit_test(long_lines_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
