/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/temp_folder.h"

static char folder[4000];

static int make_folder(void **state)
{
    (void)state;
    wf_temp_folder_make(folder, sizeof folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    wf_temp_folder_remove(folder);
    return 0;
}

/* The path of a name in the folder; one of 4 buffers. */
static const char *at(const char *name)
{
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void expect_text(const char *name, const char *expected)
{
    char *text;
    size_t bytes;
    wf_assert_ok(wf_file_read(at(name), 1000000, wf_allocator_system(), &text, &bytes));
    assert_int_equal(bytes, strlen(expected));
    assert_string_equal(text, expected);
    wf_free(wf_allocator_system(), text, bytes + 1, 1);
}

static void mapping_shows_the_file(void **state)
{
    (void)state;
    wf_temp_file_write(folder, "a", "hello");
    wf_mapping_t mapping;
    wf_assert_ok(wf_mapping_open(at("a"), &mapping));
    assert_int_equal(mapping.bytes, 5);
    assert_memory_equal(mapping.data, "hello", 5);
    wf_mapping_drop(mapping.data, mapping.bytes); /* no whole page: nothing happens */
    wf_mapping_close(&mapping);
    assert_null(mapping.data);
    wf_mapping_close(&mapping);

    wf_temp_file_write(folder, "empty", "");
    wf_assert_ok(wf_mapping_open(at("empty"), &mapping));
    assert_null(mapping.data);
    assert_int_equal(mapping.bytes, 0);
    wf_mapping_close(&mapping);
}

static void dropped_pages_come_back_from_the_file(void **state)
{
    (void)state;
    static char text[100001];
    memset(text, 'x', sizeof text - 1);
    wf_temp_file_write(folder, "large", text);
    wf_mapping_t mapping;
    wf_assert_ok(wf_mapping_open(at("large"), &mapping));
    wf_mapping_drop(mapping.data + 1, mapping.bytes - 1);
    assert_memory_equal(mapping.data, text, mapping.bytes);
    wf_mapping_close(&mapping);
}

static void what_cannot_be_mapped_is_refused(void **state)
{
    (void)state;
    wf_mapping_t mapping;
    wf_assert_fails(wf_mapping_open(at("none"), &mapping), FILE_MISSING);
    wf_assert_fails(wf_mapping_open(at("a/b"), &mapping), FILE_MISSING);
    wf_assert_fails(wf_mapping_open(folder, &mapping), FILE_UNREADABLE);
    wf_assert_fails(wf_mapping_open("/dev/zero", &mapping), FILE_UNREADABLE);
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    wf_assert_fails(wf_mapping_open(at("pipe"), &mapping), FILE_UNREADABLE); /* and does not hang */
    assert_null(mapping.data);
}

static void inside_stays_inside(void **state)
{
    (void)state;
    wf_temp_file_write(folder, "model/data/w.bin", "weights");
    wf_temp_file_write(folder, "secret", "secret");
    wf_temp_file_write(folder, "model/..data", "dots");
    assert_int_equal(symlink("../secret", at("model/link")), 0);
    assert_int_equal(symlink("data", at("model/linked")), 0);
    assert_int_equal(symlink("w.bin", at("model/data/link")), 0);
    char model[4096];
    snprintf(model, sizeof model, "%s/model", folder);
    static const struct {
        const char *name;
        wf_code_t code;
    } rows[] = {
        {"data/w.bin", WF_CODE_OK},
        {"./data//w.bin", WF_CODE_OK},
        {"..data", WF_CODE_OK},
        {"", WF_CODE_EXTERNAL_DATA},
        {"..", WF_CODE_EXTERNAL_DATA},
        {"../secret", WF_CODE_EXTERNAL_DATA},
        {"data/../../secret", WF_CODE_EXTERNAL_DATA},
        {"data/..", WF_CODE_EXTERNAL_DATA},
        {"/etc/passwd", WF_CODE_EXTERNAL_DATA},
        {"link", WF_CODE_EXTERNAL_DATA},
        {"linked/w.bin", WF_CODE_EXTERNAL_DATA},
        {"data/link", WF_CODE_EXTERNAL_DATA},
        {"none", WF_CODE_FILE_MISSING},
        {"data/none", WF_CODE_FILE_MISSING},
        {"..data/none", WF_CODE_FILE_MISSING},
        {"data", WF_CODE_FILE_UNREADABLE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_mapping_t mapping;
        wf_status_t status = wf_mapping_open_inside(model, rows[i].name, &mapping);
        if (wf_status_code(status) != rows[i].code) {
            fail_msg("\"%s\": WF-%04d expected, got WF-%04d %s", rows[i].name, (int)rows[i].code,
                     (int)wf_status_code(status), wf_status_message(status));
        }
        assert_true((mapping.data != NULL) == (status == WF_OK));
        wf_mapping_close(&mapping);
        wf_status_free(status);
    }
    wf_mapping_t mapping;
    wf_assert_fails(wf_mapping_open_inside(at("nowhere"), "x", &mapping), FILE_MISSING);
}

static void atomic_files_appear_when_committed(void **state)
{
    (void)state;
    wf_temp_file_write(folder, "out/x", "old");
    wf_atomic_file_t *file;
    wf_assert_ok(wf_atomic_file_begin(at("out/x"), 0644, wf_allocator_system(), &file));
    wf_assert_ok(wf_atomic_file_write(file, "new ", 4));
    wf_assert_ok(wf_atomic_file_write(file, "text", 4));
    expect_text("out/x", "old");
    wf_assert_ok(wf_atomic_file_commit(file));
    expect_text("out/x", "new text");
    wf_assert_ok(wf_atomic_file_begin(at("out/x"), 0644, wf_allocator_system(), &file));
    wf_assert_ok(wf_atomic_file_write(file, "lost", 4));
    wf_atomic_file_abort(file);
    wf_atomic_file_abort(NULL);
    expect_text("out/x", "new text");
    assert_int_equal(wf_temp_folder_count(at("out")), 1); /* no temporary file is left */
    struct stat info;
    wf_assert_ok(wf_file_write(at("out/private"), 0600, "s", 1));
    assert_int_equal(stat(at("out/private"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

/* Pieces of all sizes around the buffer of 64 KiB arrive in order. */
static void large_and_small_writes_keep_their_order(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 65535, 1, 65536, 3, 65537, 0, 200000, 7, 65530, 6, 1};
    static char expected[600000];
    size_t length = 0;
    wf_atomic_file_t *file;
    wf_assert_ok(wf_atomic_file_begin(at("pieces"), 0644, wf_allocator_system(), &file));
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        for (size_t k = 0; k < pieces[i]; k++) {
            expected[length + k] = (char)('a' + (i + k) % 26);
        }
        wf_assert_ok(wf_atomic_file_write(file, expected + length, pieces[i]));
        length += pieces[i];
    }
    wf_assert_ok(wf_atomic_file_commit(file));
    expected[length] = 0;
    expect_text("pieces", expected);
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    wf_atomic_file_t *file;
    wf_assert_fails(wf_atomic_file_begin(folder, 0644, wf_allocator_system(), &file), FILE_UNWRITABLE);
    wf_assert_fails(wf_atomic_file_begin("/dev/null", 0644, wf_allocator_system(), &file), FILE_UNWRITABLE);
    wf_assert_fails(wf_atomic_file_begin(at("none/x"), 0644, wf_allocator_system(), &file), FILE_MISSING);
    wf_assert_fails(wf_file_write("/proc/x", 0644, "x", 1), FILE_MISSING);
    assert_null(file);
}

static void a_failed_commit_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(mkdir(at("late"), 0700), 0);
    wf_atomic_file_t *file;
    wf_assert_ok(wf_atomic_file_begin(at("late/x"), 0644, wf_allocator_system(), &file));
    wf_assert_ok(wf_atomic_file_write(file, "text", 4));
    assert_int_equal(mkdir(at("late/x"), 0700), 0);
    wf_assert_fails(wf_atomic_file_commit(file), FILE_UNWRITABLE);
    assert_int_equal(wf_temp_folder_count(at("late")), 1);
}

/* RLIMIT_FSIZE makes write fail with EFBIG, like a full disk in the middle of a file. */
static void a_file_that_does_not_fit_leaves_nothing(void **state)
{
    (void)state;
    static char large[300000];
    assert_int_equal(mkdir(at("full"), 0700), 0);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {100000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    wf_status_t status = wf_file_write(at("full/x"), 0644, large, sizeof large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    wf_assert_fails(status, DISK_FULL);
    assert_int_equal(wf_temp_folder_count(at("full")), 0);
}

static void reading_keeps_its_limit(void **state)
{
    (void)state;
    wf_temp_file_write(folder, "ten", "0123456789");
    char *text;
    size_t bytes;
    wf_assert_ok(wf_file_read(at("ten"), 10, wf_allocator_system(), &text, &bytes));
    assert_string_equal(text, "0123456789");
    wf_free(wf_allocator_system(), text, bytes + 1, 1);
    wf_assert_fails(wf_file_read(at("ten"), 9, wf_allocator_system(), &text, &bytes), FILE_UNREADABLE);
    assert_null(text);
    wf_assert_fails(wf_file_read(at("ten"), 0, wf_allocator_system(), &text, &bytes), FILE_UNREADABLE);
    wf_assert_fails(wf_file_read(at("none"), 10, wf_allocator_system(), &text, &bytes), FILE_MISSING);
    wf_assert_fails(wf_file_read(folder, 10, wf_allocator_system(), &text, &bytes), FILE_UNREADABLE);
    wf_assert_fails(wf_file_read("/dev/zero", 100000, wf_allocator_system(), &text, &bytes), FILE_UNREADABLE);
    /* Files of /proc say that they have no bytes. */
    wf_assert_ok(wf_file_read("/proc/self/maps", 10000000, wf_allocator_system(), &text, &bytes));
    assert_true(bytes > 500 && strlen(text) == bytes);
    wf_free(wf_allocator_system(), text, bytes + 1, 1);
}

static void folders_are_made_with_parents(void **state)
{
    (void)state;
    struct stat info;
    wf_assert_ok(wf_folder_make(at("p/q//r/")));
    assert_int_equal(stat(at("p/q/r"), &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_int_equal(info.st_mode & 0777, 0700);
    wf_assert_ok(wf_folder_make(at("p/q/r")));
    wf_temp_file_write(folder, "p/file", "");
    wf_assert_fails(wf_folder_make(at("p/file")), FILE_UNWRITABLE);
    wf_assert_fails(wf_folder_make(at("p/file/x")), FILE_UNWRITABLE);
    wf_assert_fails(wf_folder_make(""), FILE_UNWRITABLE);
    wf_assert_ok(wf_folder_make("/"));
}

static wf_status_t write_and_read(wf_allocator_t allocator, void *arg)
{
    (void)arg;
    wf_atomic_file_t *file;
    WF_TRY(wf_atomic_file_begin(at("faulty/x"), 0644, allocator, &file));
    wf_status_t status = wf_atomic_file_write(file, "text", 4);
    if (status != WF_OK) {
        wf_atomic_file_abort(file);
        return status;
    }
    WF_TRY(wf_atomic_file_commit(file));
    char *text;
    size_t bytes;
    WF_TRY(wf_file_read(at("faulty/x"), 100, allocator, &text, &bytes));
    wf_free(allocator, text, bytes + 1, 1);
    return WF_OK;
}

static void failed_allocations_leave_no_file(void **state)
{
    (void)state;
    assert_int_equal(mkdir(at("faulty"), 0700), 0);
    assert_in_range(wf_fail_each_allocation(write_and_read, NULL), 5, 10);
    assert_int_equal(wf_temp_folder_count(at("faulty")), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapping_shows_the_file),
        cmocka_unit_test(dropped_pages_come_back_from_the_file),
        cmocka_unit_test(what_cannot_be_mapped_is_refused),
        cmocka_unit_test(inside_stays_inside),
        cmocka_unit_test(atomic_files_appear_when_committed),
        cmocka_unit_test(large_and_small_writes_keep_their_order),
        cmocka_unit_test(what_cannot_be_written_is_refused),
        cmocka_unit_test(a_failed_commit_leaves_nothing),
        cmocka_unit_test(a_file_that_does_not_fit_leaves_nothing),
        cmocka_unit_test(reading_keeps_its_limit),
        cmocka_unit_test(folders_are_made_with_parents),
        cmocka_unit_test(failed_allocations_leave_no_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
