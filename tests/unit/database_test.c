/* SPDX-License-Identifier: Apache-2.0 */
/* The timing database: rows, damage, other people's files, several processes. Writers in the test of
 * concurrency are this program itself. */
#include "tune/database.h"

#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "op/problem.h"
#include "support/cmocka_all.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "tune/database_verbs.h"
#include "tune/measure.h"

#define PROBLEM_A "v1 relu(x:f32[1,8])->f32[1,8]"
#define PROBLEM_B "v1 relu(x:f32[1,16])->f32[1,16]"

static const wf_database_scope_t scope = {"cpu test avx2", 2, WF_MEASURE_PROTOCOL, "cold"};

typedef struct fixture {
    char folder[3000], path[3100];
    wf_arena_t arena;
    const wf_problem_t *a, *b;
} fixture_t;

static const wf_problem_t *parse(wf_arena_t *arena, const char *text)
{
    const wf_problem_t *problem;
    wf_assert_ok(wf_problem_parse(text, strlen(text), arena, &problem));
    return problem;
}

static int set_up(void **state)
{
    fixture_t *f = calloc(1, sizeof *f);
    wf_temp_folder_make(f->folder, sizeof f->folder);
    (void)snprintf(f->path, sizeof f->path, "%s/cache/timings.db", f->folder);
    wf_arena_init(&f->arena, wf_allocator_system());
    f->a = parse(&f->arena, PROBLEM_A);
    f->b = parse(&f->arena, PROBLEM_B);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_t *f = *state;
    wf_arena_deinit(&f->arena);
    wf_temp_folder_remove(f->folder);
    free(f);
    return 0;
}

static wf_database_t *open_database(const fixture_t *f)
{
    wf_database_t *database;
    wf_assert_ok(wf_database_open(f->path, &scope, wf_allocator_system(), &database));
    return database;
}

static wf_timing_t timing(const char *tactic, double ratio, uint64_t count)
{
    wf_timing_t t = {.log_ratio = {.count = count, .mean = log(ratio), .m2 = 0.01},
                     .anchor_ns = 1000,
                     .min_ns = 1000 * ratio * 0.9,
                     .canary_ns = 30000,
                     .clean = true};
    (void)snprintf(t.tactic, sizeof t.tactic, "%s", tactic);
    (void)snprintf(t.anchor, sizeof t.anchor, "test/anchor@1");
    return t;
}

static size_t find(wf_database_t *database, const wf_problem_t *problem, wf_timing_t *rows)
{
    size_t count;
    wf_assert_ok(wf_database_find(database, problem, rows, 64, &count));
    return count;
}

static void execute(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* ---- Rows ---- */

static void rows_come_back(void **state)
{
    fixture_t *f = *state;
    wf_timing_t rows[64], in[2] = {timing("test/b@1", 0.5, 7), timing("test/a@1", 1, 9)};
    wf_database_t *database = open_database(f);
    assert_string_equal(database->note, "");
    wf_assert_ok(wf_database_record(database, f->a, in, 2, false));
    wf_database_close(database);
    database = open_database(f);
    assert_int_equal(find(database, f->a, rows), 2);
    assert_string_equal(rows[0].tactic, "test/a@1");
    assert_memory_equal(&rows[1].log_ratio, &in[0].log_ratio, sizeof in[0].log_ratio);
    assert_true(rows[1].anchor_ns == 1000 && rows[1].min_ns == in[0].min_ns && rows[1].clean);
    assert_int_equal(find(database, f->b, rows), 0);
    wf_database_close(database);
}

static void files_are_private(void **state)
{
    fixture_t *f = *state;
    wf_database_close(open_database(f));
    struct stat facts;
    assert_int_equal(stat(f->path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    char folder[3100];
    (void)snprintf(folder, sizeof folder, "%s/cache", f->folder);
    assert_int_equal(stat(folder, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
}

static void other_scopes_are_not_seen(void **state)
{
    fixture_t *f = *state;
    const wf_database_scope_t others[] = {{"cpu other", 2, WF_MEASURE_PROTOCOL, "cold"},
                                          {"cpu test avx2", 1, WF_MEASURE_PROTOCOL, "cold"},
                                          {"cpu test avx2", 2, WF_MEASURE_PROTOCOL + 1, "cold"},
                                          {"cpu test avx2", 2, WF_MEASURE_PROTOCOL, "warm"}};
    wf_timing_t rows[64], in = timing("test/a@1", 1, 9);
    wf_database_t *database = open_database(f);
    wf_assert_ok(wf_database_record(database, f->a, &in, 1, false));
    wf_database_close(database);
    for (size_t i = 0; i < 4; i++) {
        wf_assert_ok(wf_database_open(f->path, &others[i], wf_allocator_system(), &database));
        assert_int_equal(find(database, f->a, rows), 0);
        wf_database_close(database);
    }
}

static void sessions_merge(void **state)
{
    fixture_t *f = *state;
    wf_database_t *database = open_database(f);
    wf_timing_t rows[64], first = timing("test/a@1", 2, 4), second = timing("test/a@1", 1, 12);
    wf_welford_t wanted = first.log_ratio;
    wf_welford_merge(&wanted, &second.log_ratio);
    second.anchor_ns = 800;
    wf_assert_ok(wf_database_record(database, f->a, &first, 1, false));
    wf_assert_ok(wf_database_record(database, f->a, &second, 1, false));
    assert_int_equal(find(database, f->a, rows), 1);
    assert_memory_equal(&rows[0].log_ratio, &wanted, sizeof wanted);
    assert_true(rows[0].anchor_ns == 800);

    wf_timing_t noisy = timing("test/a@1", 5, 100);
    noisy.clean = false;
    wf_assert_ok(wf_database_record(database, f->a, &noisy, 1, false)); /* a busy machine does not count */
    assert_int_equal(find(database, f->a, rows), 1);
    assert_memory_equal(&rows[0].log_ratio, &wanted, sizeof wanted);

    wf_assert_ok(wf_database_record(database, f->b, &noisy, 1, false)); /* but is better than nothing */
    wf_assert_ok(wf_database_record(database, f->b, &first, 1, false)); /* until a clean one comes */
    assert_int_equal(find(database, f->b, rows), 1);
    assert_true(rows[0].clean);
    assert_int_equal(rows[0].log_ratio.count, 4);

    (void)snprintf(second.anchor, sizeof second.anchor, "test/other@2");
    wf_assert_ok(
        wf_database_record(database, f->b, &second, 1, false)); /* ratios to another anchor do not mix */
    assert_int_equal(find(database, f->b, rows), 1);
    assert_int_equal(rows[0].log_ratio.count, 12);
    assert_string_equal(rows[0].anchor, "test/other@2");
    wf_database_close(database);
}

static void quarantine_stays(void **state)
{
    fixture_t *f = *state;
    wf_database_t *database = open_database(f);
    wf_timing_t rows[64], bad = {.clean = true}, good = timing("test/a@1", 1, 5);
    (void)snprintf(bad.tactic, sizeof bad.tactic, "test/a@1");
    (void)snprintf(bad.quarantine, sizeof bad.quarantine, "crashed: signal SIGSEGV");
    wf_assert_ok(wf_database_record(database, f->a, &bad, 1, false));
    wf_assert_ok(wf_database_record(database, f->a, &good, 1, false));
    assert_int_equal(find(database, f->a, rows), 1);
    assert_string_equal(rows[0].quarantine, "crashed: signal SIGSEGV");
    wf_database_close(database);
}

static void importing_twice_changes_nothing(void **state)
{
    fixture_t *f = *state;
    wf_database_t *database = open_database(f);
    wf_timing_t rows[64], in = timing("test/a@1", 2, 4), shorter = timing("test/a@1", 9, 3);
    wf_assert_ok(wf_database_record(database, f->a, &in, 1, true));
    wf_assert_ok(wf_database_record(database, f->a, &in, 1, true));
    wf_assert_ok(wf_database_record(database, f->a, &shorter, 1, true));
    assert_int_equal(find(database, f->a, rows), 1);
    assert_memory_equal(&rows[0].log_ratio, &in.log_ratio, sizeof in.log_ratio);
    wf_database_close(database);
}

static void impossible_rows_are_skipped(void **state)
{
    fixture_t *f = *state;
    wf_database_t *database = open_database(f);
    wf_timing_t rows[64],
        in[5] = {timing("test/a@1", 2, 4), timing("test/b@1", 2, 4), timing("test/c@1", 2, 4),
                 timing("test/d@1", 2, 4), timing("test/e@1", 2, 4)};
    wf_assert_ok(wf_database_record(database, f->a, in, 5, false));
    wf_database_close(database);
    execute(f->path, "UPDATE timing SET mean=1e300 WHERE tactic='test/a@1';"
                     "UPDATE timing SET anchor_ns=-5 WHERE tactic='test/b@1';"
                     "UPDATE timing SET count=-1 WHERE tactic='test/c@1';"
                     "UPDATE timing SET m2='text' WHERE tactic='test/d@1';"
                     "UPDATE timing SET canary_ns=0 WHERE tactic='test/d@1'");
    database = open_database(f);
    assert_int_equal(find(database, f->a, rows), 1);
    assert_string_equal(rows[0].tactic, "test/e@1");
    assert_int_equal(database->skipped, 4);
    wf_database_close(database);
}

/* ---- Outcomes ---- */

static void outcomes_come_back(void **state)
{
    fixture_t *f = *state;
    wf_database_t *database = open_database(f);
    wf_outcome_t out, in = {.base = "0123456789abcdef0123456789abcdef",
                            .lock = "wayfinder-lock 1\nsome text\n",
                            .ratio = 0.9,
                            .ratio_low = 0.88,
                            .ratio_high = 0.92,
                            .default_ns = 1000,
                            .default_low_ns = 990,
                            .default_high_ns = 1010,
                            .final_ns = 900,
                            .final_low_ns = 890,
                            .final_high_ns = 910,
                            .budget_s = 30,
                            .adopted = true};
    bool found;
    wf_assert_ok(wf_database_find_outcome(database, in.base, &out, &found));
    assert_false(found);
    wf_assert_ok(wf_database_put_outcome(database, &in));
    in.budget_s = 60;
    wf_assert_ok(wf_database_put_outcome(database, &in));
    wf_assert_ok(wf_database_find_outcome(database, in.base, &out, &found));
    assert_true(found && out.adopted && !out.converged && out.budget_s == 60 && out.ratio_high == 0.92);
    assert_string_equal(out.lock, in.lock);
    wf_outcome_deinit(&out, wf_allocator_system());
    in.ratio = -1;
    wf_assert_ok(wf_database_put_outcome(database, &in));
    wf_assert_ok(wf_database_find_outcome(database, in.base, &out, &found));
    assert_false(found);
    wf_database_close(database);
}

/* ---- Damage, other files ---- */

static void write_bytes(const char *path, size_t offset, const void *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, (off_t)offset), (ssize_t)count);
    close(fd);
}

static void damaged_files_are_set_aside(void **state)
{
    fixture_t *f = *state;
    wf_timing_t rows[64], in = timing("test/a@1", 1, 9);
    for (int n = 1; n <= 2; n++) {
        char aside[3200];
        (void)snprintf(aside, sizeof aside, "%s.corrupt-%d", f->path, n);
        wf_database_t *database = open_database(f);
        wf_assert_ok(wf_database_record(database, f->a, &in, 1, false));
        wf_database_close(database);
        if (n == 1)
            write_bytes(f->path, 0, "this is no database at all, is it?", 34);
        else {
            char junk[8000];
            memset(junk, 0xa5, sizeof junk);
            write_bytes(f->path, 4096, junk, sizeof junk); /* the header is sound, the pages are not */
        }
        database = open_database(f);
        assert_non_null(strstr(database->note, "damaged"));
        assert_int_equal(access(aside, F_OK), 0);
        assert_int_equal(find(database, f->a, rows), 0);
        wf_assert_ok(wf_database_record(database, f->a, &in, 1, false));
        wf_database_close(database);
    }
}

/* Random bytes anywhere: a usable database or a fresh one, never a crash. */
static void random_damage_never_breaks(void **state)
{
    fixture_t *f = *state;
    wf_random_t random = wf_random_start("damage", 11);
    wf_timing_t rows[64], in[8];
    for (int i = 0; i < 8; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "test/t%d@1", i);
        in[i] = timing(id, 1 + i, 9);
    }
    for (int round = 0; round < 60; round++) {
        wf_database_t *database = NULL;
        wf_status_t status = wf_database_open(f->path, &scope, wf_allocator_system(), &database);
        if (status != WF_OK) { /* the damage made it another schema */
            assert_int_equal(wf_status_code(status), WF_CODE_CACHE_INVALID);
            wf_status_free(status);
            assert_int_equal(unlink(f->path), 0);
            continue;
        }
        size_t count;
        wf_status_ignore(wf_database_record(database, f->a, in, 8, false));
        wf_status_ignore(wf_database_find(database, f->a, rows, 64, &count));
        wf_database_close(database);
        struct stat facts;
        assert_int_equal(stat(f->path, &facts), 0);
        for (int i = 0; i < 20; i++) {
            uint8_t byte = (uint8_t)wf_random_u64(&random);
            write_bytes(f->path, (size_t)wf_random_below(&random, (uint64_t)facts.st_size), &byte, 1);
        }
    }
}

static void foreign_databases_are_left_alone(void **state)
{
    fixture_t *f = *state;
    wf_database_t *database;
    wf_database_close(open_database(f));
    execute(f->path, "PRAGMA user_version=99");
    wf_assert_fails(wf_database_open(f->path, &scope, wf_allocator_system(), &database), CACHE_INVALID);
    assert_int_equal(unlink(f->path), 0);
    execute(f->path, "CREATE TABLE recipes(name TEXT); INSERT INTO recipes VALUES('soup')");
    wf_assert_fails(wf_database_open(f->path, &scope, wf_allocator_system(), &database), CACHE_INVALID);
    execute(f->path, "SELECT name FROM recipes");
}

static void empty_files_become_databases(void **state)
{
    fixture_t *f = *state;
    wf_temp_file_write(f->folder, "cache/timings.db", "");
    wf_database_t *database = open_database(f);
    assert_string_equal(database->note, "");
    wf_database_close(database);
}

/* ---- Places that cannot be written ---- */

static void read_only_databases_are_used_in_memory(void **state)
{
    fixture_t *f = *state;
    wf_timing_t rows[64], in = timing("test/a@1", 1, 9), other = timing("test/b@1", 1, 9);
    char folder[3100];
    (void)snprintf(folder, sizeof folder, "%s/cache", f->folder);
    wf_database_t *database = open_database(f);
    wf_assert_ok(wf_database_record(database, f->a, &in, 1, false));
    wf_database_close(database);
    assert_int_equal(chmod(f->path, 0444), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    assert_int_equal(chmod(f->folder, 0755), 0);
    bool root = geteuid() == 0;
    if (root && seteuid(65534) != 0)
        skip();
    if (access(f->folder, X_OK) == 0 || root) {
        wf_status_t status = wf_database_open(f->path, &scope, wf_allocator_system(), &database);
        if (root)
            assert_int_equal(seteuid(0), 0);
        wf_assert_ok(status);
        assert_true(database->read_only);
        assert_non_null(strstr(database->note, "cannot be written"));
        assert_int_equal(find(database, f->a, rows), 1);
        wf_assert_ok(wf_database_record(database, f->a, &other, 1, false));
        assert_int_equal(find(database, f->a, rows), 2);
        wf_database_close(database);
        database = NULL;
    }
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(f->path, 0644), 0);
    database = open_database(f);
    assert_int_equal(find(database, f->a, rows), 1);
    wf_database_close(database);
}

static void a_place_that_cannot_be_is_memory(void **state)
{
    fixture_t *f = *state;
    wf_database_t *database;
    wf_timing_t rows[64], in = timing("test/a@1", 1, 9);
    wf_assert_ok(wf_database_open("/proc/self/nowhere/timings.db", &scope, wf_allocator_system(), &database));
    assert_true(database->read_only);
    wf_assert_ok(wf_database_record(database, f->a, &in, 1, false));
    assert_int_equal(find(database, f->a, rows), 1);
    wf_database_close(database);
}

/* ---- Several processes ---- */

enum { WRITERS = 8, ROWS_EACH = 40 };

static int child_write(const char *path, const char *number)
{
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    const wf_problem_t *problem = NULL;
    wf_database_t *database = NULL;
    int failures = 0;
    wf_status_t status = wf_problem_parse(PROBLEM_A, strlen(PROBLEM_A), &arena, &problem);
    if (status == WF_OK)
        status = wf_database_open(path, &scope, wf_allocator_system(), &database);
    for (int i = 0; status == WF_OK && i < ROWS_EACH; i++) {
        char id[64];
        (void)snprintf(id, sizeof id, "test/w%s.%d@1", number, i);
        wf_timing_t rows[2] = {timing(id, 1, 3), timing("test/shared@1", 1, 1)};
        status = wf_database_record(database, problem, rows, 2, false);
    }
    if (status != WF_OK) {
        print_error("writer %s: %s\n", number, wf_status_message(status));
        wf_status_free(status);
        failures = 1;
    }
    wf_database_close(database);
    wf_arena_deinit(&arena);
    return failures;
}

static void eight_writers_lose_nothing(void **state)
{
    fixture_t *f = *state;
    wf_process_t processes[WRITERS];
    /* Not even when the file does not exist yet, or is damaged and all find it so. */
    char folder[3100];
    (void)snprintf(folder, sizeof folder, "%s/cache", f->folder);
    wf_assert_ok(wf_folder_make(folder));
    wf_temp_file_write(f->folder, "cache/timings.db", "not a database, but long enough to be looked at");
    for (int i = 0; i < WRITERS; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", i);
        char *argv[] = {"database_test", "write", f->path, number, NULL};
        wf_assert_ok(wf_process_start("/proc/self/exe", argv, &processes[i]));
    }
    for (int i = 0; i < WRITERS; i++) {
        int how;
        while (!wf_process_ended(&processes[i], &how))
            usleep(2000);
        wf_process_kill(&processes[i]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    static wf_timing_t rows[WRITERS * ROWS_EACH + 8];
    size_t count;
    wf_database_t *database = open_database(f);
    wf_assert_ok(wf_database_find(database, f->a, rows, WRITERS * ROWS_EACH + 8, &count));
    assert_int_equal(count, WRITERS * ROWS_EACH + 1);
    uint64_t shared = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].tactic, "test/shared@1") == 0)
            shared = rows[i].log_ratio.count;
    }
    assert_int_equal(shared, WRITERS * ROWS_EACH);
    wf_database_close(database);
    char aside[3200];
    (void)snprintf(aside, sizeof aside, "%s.corrupt-2", f->path);
    assert_int_not_equal(access(aside, F_OK), 0); /* set aside once, not by each */
}

/* ---- Verbs ---- */

static char *verb(wf_database_t *database, const char *name, const char *argument, bool json)
{
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), SIZE_MAX / 2);
    wf_assert_ok(wf_database_verb(database, name, argument, json, &text));
    char *copy = strdup(wf_text_cstr(&text));
    wf_text_deinit(&text);
    return copy;
}

static void export_and_import_are_inverse(void **state)
{
    fixture_t *f = *state;
    wf_database_t *database = open_database(f), *second;
    wf_timing_t in[3] = {timing("test/a@1", 1.25, 9), timing("test/b@1", 0.7, 12), {.clean = true}};
    (void)snprintf(in[2].tactic, sizeof in[2].tactic, "test/c@1");
    (void)snprintf(in[2].quarantine, sizeof in[2].quarantine, "hangs: a \"launch\"");
    wf_assert_ok(wf_database_record(database, f->a, in, 3, false));
    wf_assert_ok(wf_database_record(database, f->b, in, 1, false));
    char *first = verb(database, "export", NULL, false), file[3100], other[3100];
    wf_temp_file_write(f->folder, "rows.jsonl", first);
    (void)snprintf(file, sizeof file, "%s/rows.jsonl", f->folder);
    (void)snprintf(other, sizeof other, "%s/second.db", f->folder);
    wf_assert_ok(wf_database_open(other, NULL, wf_allocator_system(), &second));
    free(verb(second, "import", file, false));
    char *said = verb(second, "import", file, true);
    assert_non_null(strstr(said, "\"taken\":4"));
    char *again = verb(second, "export", NULL, false);
    assert_string_equal(first, again);
    assert_true(strlen(first) > 400);
    free(first);
    free(again);
    free(said);
    wf_database_close(second);
    wf_database_close(database);
}

static void import_skips_what_it_cannot_take(void **state)
{
    fixture_t *f = *state;
    wf_database_t *database = open_database(f);
    char file[3100];
    (void)snprintf(file, sizeof file, "%s/rows.jsonl", f->folder);
    wf_temp_file_write(f->folder, "rows.jsonl",
                       "nonsense\n{\"schema_version\":2}\n\n"
                       "{\"anchor\":\"a\",\"anchor_ns\":1.0,\"canary_ns\":1.0,\"clean\":true,\"context\":"
                       "\"cold\",\"count\":1,"
                       "\"device\":\"d\",\"m2\":0.0,\"mean\":0.0,\"min_ns\":1.0,\"problem\":\"v1 "
                       "nosuchop()\",\"protocol\":1,"
                       "\"quarantine\":\"\",\"schema_version\":1,\"tactic\":\"t\",\"threads\":1}\n"
                       "{\"anchor\":\"a\",\"anchor_ns\":-1.0,\"canary_ns\":1.0,\"clean\":true,\"context\":"
                       "\"cold\",\"count\":1,"
                       "\"device\":\"d\",\"m2\":0.0,\"mean\":0.0,\"min_ns\":1.0,\"problem\":\"" PROBLEM_A
                       "\",\"protocol\":1,"
                       "\"quarantine\":\"\",\"schema_version\":1,\"tactic\":\"t\",\"threads\":1}\n"
                       "{\"anchor\":\"a\",\"anchor_ns\":1.0,\"canary_ns\":1.0,\"clean\":true,\"context\":"
                       "\"cold\",\"count\":1,"
                       "\"device\":\"d\",\"m2\":0.0,\"mean\":0.0,\"min_ns\":1.0,\"problem\":\"" PROBLEM_A
                       "\",\"protocol\":1,"
                       "\"quarantine\":\"\",\"schema_version\":1,\"tactic\":\"t\",\"threads\":1}");
    char *said = verb(database, "import", file, true);
    assert_non_null(strstr(said, "\"taken\":1,\"skipped\":4"));
    assert_non_null(strstr(said, "line 1"));
    free(said);
    wf_database_close(database);
}

static void verbs_say_what_is_there(void **state)
{
    fixture_t *f = *state;
    wf_database_t *database = open_database(f);
    wf_timing_t in[2] = {timing("test/slow@1", 1.25, 9), timing("test/fast@1", 0.5, 12)};
    wf_assert_ok(wf_database_record(database, f->a, in, 2, false));
    char *text = verb(database, "ls", NULL, false);
    assert_non_null(strstr(text, "test/fast@1"));
    assert_non_null(strstr(text, PROBLEM_A));
    free(text);
    text = verb(database, "show", PROBLEM_A, false);
    assert_non_null(strstr(text, "500 ns"));
    assert_non_null(strstr(text, "1250 ns"));
    free(text);
    text = verb(database, "ls", NULL, true);
    assert_non_null(strstr(text, "\"best\":\"test/fast@1\""));
    free(text);
    text = verb(database, "du", NULL, true);
    assert_non_null(strstr(text, "\"timings\":2"));
    free(text);
    free(verb(database, "verify", NULL, false));
    wf_text_t out;
    wf_text_init(&out, wf_allocator_system(), 1 << 20);
    wf_assert_fails(wf_database_verb(database, "show", "ffffffff", false, &out), CACHE_MISS);
    wf_assert_fails(wf_database_verb(database, "show", NULL, false, &out), USAGE);
    wf_assert_fails(wf_database_verb(database, "show", "%", false, &out), USAGE);
    wf_assert_fails(wf_database_verb(database, "dance", NULL, false, &out), USAGE);
    wf_text_deinit(&out);
    wf_database_close(database);
}

static void gc_removes_what_verify_finds(void **state)
{
    fixture_t *f = *state;
    wf_timing_t rows[64], in[3] = {timing("test/a@1", 1.25, 9), timing("test/b@1", 0.5, 12), {.clean = true}};
    (void)snprintf(in[2].tactic, sizeof in[2].tactic, "test/c@1");
    (void)snprintf(in[2].quarantine, sizeof in[2].quarantine, "crashed");
    wf_database_t *database = open_database(f);
    wf_assert_ok(wf_database_record(database, f->a, in, 3, false));
    wf_assert_ok(wf_database_record(database, f->b, in, 1, false));
    wf_database_close(database);
    execute(f->path, "UPDATE timing SET min_ns=-1 WHERE tactic='test/b@1';"
                     "UPDATE problem SET text='v1 other' WHERE text='" PROBLEM_B "'");
    database = open_database(f);
    wf_text_t out;
    wf_text_init(&out, wf_allocator_system(), 1 << 20);
    wf_assert_fails(wf_database_verb(database, "verify", NULL, false, &out), CACHE_INVALID);
    wf_assert_fails(wf_database_verb(database, "gc", "everything", false, &out), USAGE);
    wf_text_deinit(&out);
    wf_database_close(database);
    database = open_database(f);
    char *said = verb(database, "gc", NULL, true);
    assert_non_null(strstr(said, "\"removed\":2,\"left\":2"));
    free(said);
    free(verb(database, "verify", NULL, true));
    assert_int_equal(find(database, f->a, rows), 2);
    said = verb(database, "gc", "quarantine", true);
    assert_non_null(strstr(said, "\"removed\":1,\"left\":1"));
    free(said);
    wf_database_close(database);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "write") == 0)
        return child_write(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_are_private, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_scopes_are_not_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sessions_merge, set_up, tear_down),
        cmocka_unit_test_setup_teardown(quarantine_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(importing_twice_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_rows_are_skipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outcomes_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_files_are_set_aside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_damage_never_breaks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(foreign_databases_are_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(empty_files_become_databases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(read_only_databases_are_used_in_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_place_that_cannot_be_is_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(eight_writers_lose_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(export_and_import_are_inverse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(import_skips_what_it_cannot_take, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verbs_say_what_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gc_removes_what_verify_finds, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
