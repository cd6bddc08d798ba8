/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support/cmocka_all.h"
#include "support/random.h"
#include "support/temp_folder.h"

#define KEY "0123456789abcdef0123456789abcdef"
#define OTHER_KEY "ffffffffffffffffffffffffffffffff"

typedef struct fixture {
    char folder[3000], path[3100];
} fixture_t;

static int set_up(void **state)
{
    fixture_t *f = calloc(1, sizeof *f);
    wf_temp_folder_make(f->folder, sizeof f->folder);
    (void)snprintf(f->path, sizeof f->path, "%s/record.jsonl", f->folder);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_t *f = *state;
    wf_temp_folder_remove(f->folder);
    free(f);
    return 0;
}

static wf_status_t try_open(const fixture_t *f, const char *key, bool fresh, wf_journal_t **out)
{
    json_t *header = json_pack("{s:s s:s}", "model", "m", "key", "not this");
    wf_journal_options_t options = {.path = f->path, .key = key, .header = header, .fresh = fresh};
    wf_status_t status = wf_journal_open(&options, wf_allocator_system(), out);
    json_decref(header);
    return status;
}

static wf_journal_t *open_journal(const fixture_t *f, bool fresh)
{
    wf_journal_t *journal;
    wf_assert_ok(try_open(f, KEY, fresh, &journal));
    return journal;
}

static void add(wf_journal_t *journal, const char *type, int number)
{
    wf_assert_ok(wf_journal_add(journal, json_pack("{s:s s:i}", "type", type, "n", number)));
}

static char *content(const char *path)
{
    char *text;
    size_t bytes;
    wf_assert_ok(wf_file_read(path, 1 << 20, wf_allocator_system(), &text, &bytes));
    return text;
}

static void lines_are_json_and_private(void **state)
{
    fixture_t *f = *state;
    wf_journal_t *journal = open_journal(f, false);
    assert_false(journal->resumed);
    add(journal, "trial", 1);
    wf_journal_close(journal);
    char *text = content(f->path), *second = strchr(text, '\n') + 1;
    json_t *header = json_loadb(text, (size_t)(second - text), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(header, "key")), KEY);
    assert_string_equal(json_string_value(json_object_get(header, "model")), "m");
    assert_string_equal(second, "{\"type\":\"trial\",\"n\":1}\n");
    json_decref(header);
    free(text);
    struct stat facts;
    assert_int_equal(stat(f->path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
}

static void the_unfinished_is_resumed(void **state)
{
    fixture_t *f = *state;
    wf_journal_t *journal = open_journal(f, false);
    add(journal, "timing", 1);
    add(journal, "trial", 2);
    wf_journal_close(journal);
    journal = open_journal(f, false);
    assert_true(journal->resumed);
    assert_int_equal(json_array_size(journal->earlier), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(journal->earlier, 1), "n")), 2);
    add(journal, "trial", 3);
    assert_int_equal(journal->line_count, 4);
    wf_journal_close(journal);
    journal = open_journal(f, false);
    assert_int_equal(json_array_size(journal->earlier), 3);
    wf_journal_close(journal);
}

static void the_finished_is_put_aside(void **state)
{
    fixture_t *f = *state;
    wf_journal_t *journal = open_journal(f, false);
    add(journal, "end", 1);
    wf_journal_close(journal);
    char *before = content(f->path);
    journal = open_journal(f, false);
    assert_false(journal->resumed);
    wf_journal_close(journal);
    char previous[3200];
    (void)snprintf(previous, sizeof previous, "%s.previous", f->path);
    char *kept = content(previous);
    assert_string_equal(kept, before);
    free(before);
    free(kept);
}

static void fresh_does_not_resume(void **state)
{
    fixture_t *f = *state;
    wf_journal_t *journal = open_journal(f, false);
    add(journal, "trial", 1);
    wf_journal_close(journal);
    journal = open_journal(f, true);
    assert_false(journal->resumed);
    assert_int_equal(journal->line_count, 1);
    wf_journal_close(journal);
}

/* Cut at every byte, as a power failure may: every whole line is kept, nothing else, and writing goes on. */
static void torn_lines_are_dropped(void **state)
{
    fixture_t *f = *state;
    wf_journal_t *journal = open_journal(f, false);
    add(journal, "trial", 1);
    add(journal, "trial", 22);
    wf_journal_close(journal);
    char *text = content(f->path);
    size_t header_bytes = (size_t)(strchr(text, '\n') - text) + 1, bytes = strlen(text);
    for (size_t cut = 0; cut < header_bytes; cut++) { /* nothing was recorded yet */
        wf_assert_ok(wf_file_write(f->path, 0600, text, cut));
        journal = open_journal(f, false);
        assert_false(journal->resumed);
        wf_journal_close(journal);
        char *again = content(f->path);
        assert_memory_equal(again, text, header_bytes);
        assert_int_equal(strlen(again), header_bytes);
        free(again);
    }
    for (size_t cut = header_bytes; cut <= bytes; cut++) {
        wf_assert_ok(wf_file_write(f->path, 0600, text, cut));
        size_t whole = 0;
        for (size_t i = header_bytes; i < cut; i++)
            whole += text[i] == '\n';
        journal = open_journal(f, false);
        assert_true(journal->resumed);
        assert_int_equal(json_array_size(journal->earlier), whole);
        add(journal, "trial", 333);
        wf_journal_close(journal);
        journal = open_journal(f, false);
        assert_int_equal(json_array_size(journal->earlier), whole + 1);
        wf_journal_close(journal);
    }
    /* A file system may also give zeros or garbage with an end of line for the last block. */
    char garbage[2000];
    int length = snprintf(garbage, sizeof garbage, "%.*s\x01\x02{{{\n", (int)bytes, text);
    wf_assert_ok(wf_file_write(f->path, 0600, garbage, (size_t)length));
    journal = open_journal(f, false);
    assert_int_equal(json_array_size(journal->earlier), 2);
    wf_journal_close(journal);
    free(text);
}

static void other_records_are_refused(void **state)
{
    fixture_t *f = *state;
    wf_journal_t *journal = open_journal(f, false);
    wf_journal_close(journal);
    wf_assert_fails(try_open(f, OTHER_KEY, false, &journal), RECORD_MISMATCH);
    wf_assert_fails(try_open(f, OTHER_KEY, true, &journal), RECORD_MISMATCH);
    static const char *const others[] = {"dear diary\n", "no end of line", "{\"type\":\"trial\"}\n", "[1]\n",
                                         "{\"type\":\"header\",\"schema_version\":7,\"key\":\"" KEY "\"}\n"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        wf_temp_file_write(f->folder, "record.jsonl", others[i]);
        wf_assert_fails(try_open(f, KEY, false, &journal), RECORD_MISMATCH);
        char *text = content(f->path);
        assert_string_equal(text, others[i]); /* and not touched */
        free(text);
    }
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(mkdir(f->path, 0700), 0);
    wf_status_t status = try_open(f, KEY, false, &journal);
    assert_non_null(status);
    wf_status_free(status);
}

static void two_tunings_do_not_share_a_record(void **state)
{
    fixture_t *f = *state;
    wf_journal_t *journal = open_journal(f, false), *second;
    wf_assert_fails(try_open(f, KEY, false, &second), RECORD_MISMATCH);
    wf_journal_close(journal);
    wf_journal_close(open_journal(f, false));
}

static void the_default_place_never_stops_a_tuning(void **state)
{
    fixture_t *f = *state;
    wf_journal_options_t options = {.key = KEY};
    wf_journal_t *journal, *second;
    assert_int_equal(setenv("XDG_STATE_HOME", f->folder, 1), 0);
    wf_assert_ok(wf_journal_open(&options, wf_allocator_system(), &journal));
    assert_non_null(strstr(journal->path, "/wayfinder/records/" KEY ".jsonl"));
    wf_assert_ok(wf_journal_open(&options, wf_allocator_system(), &second)); /* locked: runs without */
    assert_int_equal(second->fd, -1);
    assert_non_null(strstr(second->note, "no record"));
    add(second, "trial", 1);
    wf_journal_close(second);
    wf_journal_close(journal);
    assert_int_equal(setenv("XDG_STATE_HOME", "/proc/self/nowhere", 1), 0);
    wf_assert_ok(wf_journal_open(&options, wf_allocator_system(), &journal));
    assert_int_equal(journal->fd, -1);
    wf_journal_close(journal);
    unsetenv("XDG_STATE_HOME");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_json_and_private, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_unfinished_is_resumed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_finished_is_put_aside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fresh_does_not_resume, set_up, tear_down),
        cmocka_unit_test_setup_teardown(torn_lines_are_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_records_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_tunings_do_not_share_a_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_default_place_never_stops_a_tuning, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
