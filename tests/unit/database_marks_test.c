/* SPDX-License-Identifier: Apache-2.0 */
/* What people decide about the timing database, where its rows come from, and why one is missing. */
#include "tune/database_marks.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "op/problem.h"
#include "support/cmocka_all.h"
#include "support/temp_folder.h"
#include "tune/database_verbs.h"
#include "tune/measure.h"

#define MACHINE "cpu vendor=test quota_milli=none"

static const wf_database_scope_t scope = {MACHINE " lib=1", 2, WF_MEASURE_PROTOCOL, "cold"};

typedef struct fixture {
    char folder[3000], path[3100], other[3100];
    wf_arena_t arena;
    const wf_problem_t *a, *b;
    wf_database_t *database;
} fixture_t;

static const wf_problem_t *parse(wf_arena_t *arena, const char *text)
{
    const wf_problem_t *problem;
    wf_assert_ok(wf_problem_parse(text, strlen(text), arena, &problem));
    return problem;
}

static wf_database_t *open_at(const char *path, const wf_database_scope_t *whose)
{
    wf_database_t *database;
    wf_assert_ok(wf_database_open(path, whose, wf_allocator_system(), &database));
    return database;
}

static int set_up(void **state)
{
    fixture_t *f = calloc(1, sizeof *f);
    wf_temp_folder_make(f->folder, sizeof f->folder);
    (void)snprintf(f->path, sizeof f->path, "%s/timings.db", f->folder);
    (void)snprintf(f->other, sizeof f->other, "%s/other.db", f->folder);
    wf_arena_init(&f->arena, wf_allocator_system());
    f->a = parse(&f->arena, "v1 relu(x:f32[1,8])->f32[1,8]");
    f->b = parse(&f->arena, "v1 relu(x:f32[1,16])->f32[1,16]");
    f->database = open_at(f->path, &scope);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_t *f = *state;
    wf_database_close(f->database);
    wf_arena_deinit(&f->arena);
    wf_temp_folder_remove(f->folder);
    free(f);
    return 0;
}

static wf_timing_t timing(const char *tactic)
{
    wf_timing_t t = {.log_ratio = {.count = 6, .mean = 0.1, .m2 = 0.01},
                     .anchor_ns = 1000,
                     .min_ns = 900,
                     .canary_ns = 30000,
                     .clean = true};
    (void)snprintf(t.tactic, sizeof t.tactic, "%s", tactic);
    (void)snprintf(t.anchor, sizeof t.anchor, "test/anchor@1");
    return t;
}

static void record(wf_database_t *database, const wf_problem_t *problem, const char *tactic)
{
    wf_timing_t row = timing(tactic);
    wf_assert_ok(wf_database_record(database, problem, &row, 1, false));
}

static size_t find(wf_database_t *database, const wf_problem_t *problem, wf_timing_t rows[8])
{
    size_t count;
    wf_assert_ok(wf_database_find(database, problem, rows, 8, &count));
    return count;
}

static char *verb(wf_database_t *database, const char *name, const char *argument, bool json)
{
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), SIZE_MAX / 2);
    wf_assert_ok(wf_database_verb(database, name, argument, json, &text));
    char *copy = strdup(wf_text_cstr(&text));
    wf_text_deinit(&text);
    return copy;
}

static void expect_usage(wf_database_t *database, const char *name, const char *argument)
{
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), 1 << 20);
    wf_assert_fails(wf_database_verb(database, name, argument, false, &text), USAGE);
    wf_text_deinit(&text);
}

static void execute(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void hash_of(const wf_problem_t *problem, char out[33])
{
    wf_hash_text((wf_hash_t){.low = problem->hash[0], .high = problem->hash[1]}, out);
}

static void banned_tactics_come_as_quarantined(void **state)
{
    fixture_t *f = *state;
    wf_timing_t rows[8];
    char hash[33], argument[120];
    record(f->database, f->a, "test/a@1");
    record(f->database, f->b, "test/a@1");
    free(verb(f->database, "ban", "test/never@1", false));
    hash_of(f->a, hash);
    (void)snprintf(argument, sizeof argument, "test/a@1@%.12s", hash);
    free(verb(f->database, "ban", argument, false));
    /* Of problem a both, of problem b the one that is banned everywhere. */
    assert_int_equal(find(f->database, f->a, rows), 2);
    assert_string_not_equal(rows[0].quarantine, "");
    assert_string_not_equal(rows[1].quarantine, "");
    assert_int_equal(find(f->database, f->b, rows), 2);
    assert_string_equal(rows[0].tactic, "test/a@1");
    assert_string_equal(rows[0].quarantine, "");
    assert_string_equal(rows[1].tactic, "test/never@1");
    char *said = verb(f->database, "ban", NULL, true);
    assert_non_null(strstr(said, "test/never@1"));
    free(said);
    /* The timings themselves are as they were. */
    free(verb(f->database, "unban", argument, false));
    free(verb(f->database, "unban", "test/never@1", true));
    assert_int_equal(find(f->database, f->a, rows), 1);
    assert_string_equal(rows[0].quarantine, "");
    assert_int_equal(rows[0].log_ratio.count, 6);
    expect_usage(f->database, "unban", "test/never@1");
    expect_usage(f->database, "ban", "test/a@1@ffffffffffff");
}

static void pinned_problems_survive_gc(void **state)
{
    fixture_t *f = *state;
    wf_timing_t rows[8];
    char hash[33];
    record(f->database, f->a, "test/a@1");
    record(f->database, f->b, "test/a@1");
    record(f->database, f->b, "test/bad@1");
    hash_of(f->b, hash);
    free(verb(f->database, "pin", hash, false));
    execute(f->path, "UPDATE timing SET day=1; UPDATE timing SET min_ns=-1 WHERE tactic='test/bad@1'");
    char *said = verb(f->database, "gc", "30d", true);
    assert_non_null(strstr(said, "\"removed\":2,\"left\":1"));
    free(said);
    assert_int_equal(find(f->database, f->b, rows), 1);
    assert_int_equal(rows[0].day, 1);
    free(verb(f->database, "unpin", hash, false));
    said = verb(f->database, "gc", "30d", true);
    assert_non_null(strstr(said, "\"removed\":1,\"left\":0"));
    free(said);
    expect_usage(f->database, "gc", "30");
    expect_usage(f->database, "pin", "zz");
    expect_usage(f->database, "pin", "0123456789");
}

static void merging_takes_rows_marks_and_outcomes(void **state)
{
    fixture_t *f = *state;
    wf_timing_t rows[8];
    wf_outcome_t found;
    bool there;
    wf_database_t *other = open_at(f->other, &scope);
    record(f->database, f->a, "test/a@1");
    record(other, f->a, "test/b@1");
    record(other, f->b, "test/c@1");
    free(verb(other, "ban", "test/banned@1", false));
    wf_outcome_t outcome = {.base = "0123456789abcdef0123456789abcdef",
                            .lock = "a lock",
                            .ratio = 0.5,
                            .ratio_low = 0.4,
                            .ratio_high = 0.6,
                            .default_ns = 10,
                            .final_ns = 5};
    wf_assert_ok(wf_database_put_outcome(other, &outcome));
    wf_database_close(other);
    for (int time = 0; time < 2; time++) { /* twice changes nothing */
        char *said = verb(f->database, "merge", f->other, true);
        assert_non_null(strstr(said, "\"taken\":2,\"skipped\":0"));
        free(said);
        assert_int_equal(find(f->database, f->a, rows), 3);
        assert_int_equal(rows[0].log_ratio.count, 6);
        assert_int_equal(rows[1].log_ratio.count, 6);
        assert_string_not_equal(rows[2].quarantine, "");
    }
    wf_assert_ok(wf_database_find_outcome(f->database, outcome.base, &found, &there));
    assert_true(there);
    assert_string_equal(found.lock, "a lock");
    wf_outcome_deinit(&found, wf_allocator_system());
    wf_temp_file_write(f->folder, "text.db", "this is no database, however long one looks at it");
    (void)snprintf(f->other, sizeof f->other, "%s/text.db", f->folder);
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), 1 << 20);
    wf_assert_fails(wf_database_verb(f->database, "merge", f->other, false, &text), CACHE_INVALID);
    wf_assert_fails(wf_database_verb(f->database, "merge", "/nowhere/t.db", false, &text), FILE_MISSING);
    wf_text_deinit(&text);
    assert_int_equal(find(f->database, f->a, rows), 3);
}

static void misses_have_the_reason_that_is_nearest_to_a_hit(void **state)
{
    fixture_t *f = *state;
    static const struct {
        const char *tactic;
        wf_database_scope_t scope;
        wf_miss_t miss;
    } cases[] = {
        {"test/none@1", {NULL, 0, 0, NULL}, WF_MISS_NEW_TACTIC},
        {"test/device@1",
         {"cpu vendor=else quota_milli=none", 2, WF_MEASURE_PROTOCOL, "cold"},
         WF_MISS_OTHER_DEVICE},
        {"test/library@1", {MACHINE " lib=2", 2, WF_MEASURE_PROTOCOL, "cold"}, WF_MISS_OTHER_LIBRARY},
        {"test/threads@1", {MACHINE " lib=1", 1, WF_MEASURE_PROTOCOL, "cold"}, WF_MISS_OTHER_THREADS},
        {"test/protocol@1", {MACHINE " lib=1", 2, WF_MEASURE_PROTOCOL + 1, "cold"}, WF_MISS_OTHER_PROTOCOL},
    };
    const char *tactics[WF_COUNT_OF(cases)];
    wf_miss_t misses[WF_COUNT_OF(cases)];
    for (size_t i = 0; i < WF_COUNT_OF(cases); i++)
        tactics[i] = cases[i].tactic;
    wf_assert_ok(wf_database_why(f->database, f->a, tactics, WF_COUNT_OF(cases), misses));
    for (size_t i = 0; i < WF_COUNT_OF(cases); i++)
        assert_int_equal(misses[i], WF_MISS_NEW_PROBLEM);
    for (size_t i = 1; i < WF_COUNT_OF(cases); i++) {
        wf_database_t *database = open_at(f->path, &cases[i].scope);
        record(database, f->a, cases[i].tactic);
        wf_database_close(database);
    }
    /* A library's other version beats another device for the same tactic. */
    wf_database_t *database = open_at(f->path, &cases[1].scope);
    record(database, f->a, "test/library@1");
    wf_database_close(database);
    wf_assert_ok(wf_database_why(f->database, f->a, tactics, WF_COUNT_OF(cases), misses));
    for (size_t i = 0; i < WF_COUNT_OF(cases); i++) {
        assert_int_equal(misses[i], cases[i].miss);
        assert_true(strlen(wf_miss_name(misses[i])) > 0 && strlen(wf_miss_text(misses[i])) > 0);
    }
}

static void rows_know_their_day(void **state)
{
    fixture_t *f = *state;
    wf_timing_t rows[8];
    record(f->database, f->a, "test/a@1");
    assert_int_equal(find(f->database, f->a, rows), 1);
    assert_true(rows[0].day > 20000 && rows[0].day <= wf_database_today());
}

/* A file of the first schema, as the version before days and marks wrote it. */
static void first_schema_is_brought_up(void **state)
{
    fixture_t *f = *state;
    wf_timing_t rows[8];
    record(f->database, f->a, "test/a@1");
    wf_database_close(f->database);
    execute(f->path, "ALTER TABLE timing DROP COLUMN day; DROP TABLE mark; PRAGMA user_version=1");
    wf_assert_ok(wf_database_open_copy(f->path, wf_allocator_system(), &f->database));
    free(verb(f->database, "verify", NULL, false));
    wf_database_close(f->database);
    f->database = open_at(f->path, &scope);
    assert_int_equal(find(f->database, f->a, rows), 1);
    assert_int_equal(rows[0].day, 0);
    free(verb(f->database, "ban", "test/a@1", false));
    assert_int_equal(find(f->database, f->a, rows), 1);
    assert_string_not_equal(rows[0].quarantine, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(banned_tactics_come_as_quarantined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pinned_problems_survive_gc, set_up, tear_down),
        cmocka_unit_test_setup_teardown(merging_takes_rows_marks_and_outcomes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(misses_have_the_reason_that_is_nearest_to_a_hit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_know_their_day, set_up, tear_down),
        cmocka_unit_test_setup_teardown(first_schema_is_brought_up, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
