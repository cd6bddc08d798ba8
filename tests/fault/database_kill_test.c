/* SPDX-License-Identifier: Apache-2.0 */
/* Writers of one timing database are killed at random moments. The file stays sound, and every row whose
 * recording had returned is there. Writers are this program itself; each tells in a file of its own how far
 * it came. WF_TEST_KILLS: how many are killed (default 24). */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "op/problem.h"
#include "support/cmocka_all.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "tune/database_verbs.h"
#include "tune/measure.h"

#define PROBLEM "v1 relu(x:f32[1,8])->f32[1,8]"
enum { WRITERS = 8 };

static const wf_database_scope_t scope = {"cpu test", 2, WF_MEASURE_PROTOCOL, "cold"};

/* Records rows "test/wN.I@1" until it is killed; one byte of the progress file per row that was recorded. */
static int child_write(const char *path, const char *number, const char *progress)
{
    wf_arena_t arena;
    const wf_problem_t *problem;
    wf_database_t *database = NULL;
    wf_arena_init(&arena, wf_allocator_system());
    int fd = open(progress, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    wf_status_t status = wf_problem_parse(PROBLEM, strlen(PROBLEM), &arena, &problem);
    if (status == WF_OK)
        status = wf_database_open(path, &scope, wf_allocator_system(), &database);
    struct stat facts = {0};
    for (long i = fstat(fd, &facts) == 0 ? (long)facts.st_size : 0; status == WF_OK; i++) {
        wf_timing_t row = {.log_ratio = {.count = 3, .mean = 0.1},
                           .anchor_ns = 1,
                           .min_ns = 1,
                           .canary_ns = 1,
                           .clean = true,
                           .anchor = "test/anchor@1"};
        (void)snprintf(row.tactic, sizeof row.tactic, "test/w%s.%ld@1", number, i);
        status = wf_database_record(database, problem, &row, 1, false);
        if (status == WF_OK && write(fd, "x", 1) != 1)
            break;
    }
    if (status != WF_OK)
        print_error("writer %s: %s\n", number, wf_status_message(status));
    wf_status_free(status);
    return 1;
}

typedef struct fixture {
    char folder[3000], path[3100], progress[WRITERS][3100];
    wf_process_t processes[WRITERS];
} fixture_t;

static void start(fixture_t *f, int i)
{
    char number[8];
    (void)snprintf(number, sizeof number, "%d", i);
    char *argv[] = {"database_kill_test", "write", f->path, number, f->progress[i], NULL};
    wf_assert_ok(wf_process_start("/proc/self/exe", argv, &f->processes[i]));
}

static long rows_there(const char *path, int writer)
{
    char sql[120];
    sqlite3 *db;
    sqlite3_stmt *statement;
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM timing WHERE tactic LIKE 'test/w%d.%%'", writer);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    long count = (long)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return count;
}

static void killed_writers_lose_nothing(void **state)
{
    (void)state;
    fixture_t *f = calloc(1, sizeof *f);
    const char *wanted = getenv("WF_TEST_KILLS");
    long kills = wanted != NULL ? strtol(wanted, NULL, 10) : 24;
    wf_random_t random = wf_random_start("database_kill", 20261201);
    wf_temp_folder_make(f->folder, sizeof f->folder);
    (void)snprintf(f->path, sizeof f->path, "%s/timings.db", f->folder);
    for (int i = 0; i < WRITERS; i++) {
        (void)snprintf(f->progress[i], sizeof f->progress[i], "%s/progress.%d", f->folder, i);
        start(f, i);
    }
    for (long k = 0; k < kills; k++) {
        int i = (int)(wf_random_u64(&random) % WRITERS), how;
        usleep((useconds_t)(wf_random_u64(&random) % 40000));
        assert_false(wf_process_ended(&f->processes[i], &how)); /* none gave up */
        wf_process_kill(&f->processes[i]);
        start(f, i);
    }
    usleep(100000);
    for (int i = 0; i < WRITERS; i++)
        wf_process_kill(&f->processes[i]);
    long total = 0;
    for (int i = 0; i < WRITERS; i++) {
        struct stat facts = {0};
        if (stat(f->progress[i], &facts) != 0)
            continue;
        /* The one that was recorded when the writer died may not have been told. */
        long told = (long)facts.st_size, there = rows_there(f->path, i);
        assert_true(there >= told && there <= told + 1);
        total += told;
    }
    print_message("%ld kills, %ld rows told\n", kills, total);
    assert_true(total > 0);
    wf_database_t *database;
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), 1 << 20);
    wf_assert_ok(wf_database_open(f->path, NULL, wf_allocator_system(), &database));
    wf_assert_ok(wf_database_verb(database, "verify", NULL, false, &text));
    wf_text_deinit(&text);
    wf_database_close(database);
    char aside[3200];
    (void)snprintf(aside, sizeof aside, "%s.corrupt-1", f->path);
    assert_int_not_equal(access(aside, F_OK), 0);
    wf_temp_folder_remove(f->folder);
    free(f);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "write") == 0)
        return child_write(argv[2], argv[3], argv[4]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_writers_lose_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
