/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/database_verbs.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/file.h"
#include "op/problem.h"
#include "tune/database_marks.h"
#include "tune/json_file.h"
#include "tune/measure.h"

#define IMPORT_MAX_BYTES ((size_t)1 << 30)

/* ---- Rows in context ---- */

typedef struct row {
    wf_timing_t timing;
    const char *problem, *text, *device, *context; /* valid until the next step */
    int64_t threads, protocol;
} row_t;

static const char row_sql[] =
    "SELECT " WF_DATABASE_TIMING_COLUMNS
    ", timing.problem, text, fingerprint, context, threads, protocol FROM timing"
    " JOIN problem ON problem.hash=timing.problem JOIN device ON device.id=timing.device"
    " WHERE timing.problem LIKE ?1 || '%' ORDER BY fingerprint, threads, timing.problem, protocol, context, "
    "tactic";

static const char *text_column(sqlite3_stmt *statement, int index)
{
    const char *text = (const char *)sqlite3_column_text(statement, index);
    return text != NULL ? text : "";
}

static row_t read_row(sqlite3_stmt *statement)
{
    return (row_t){.timing = wf_timing_read(statement),
                   .problem = text_column(statement, 11),
                   .text = text_column(statement, 12),
                   .device = text_column(statement, 13),
                   .context = text_column(statement, 14),
                   .threads = sqlite3_column_int64(statement, 15),
                   .protocol = sqlite3_column_int64(statement, 16)};
}

typedef wf_status_t row_fn(void *self, const row_t *row);

/* Calls `each` for the rows of problems whose hash begins with `prefix`; impossible rows are counted and left
 * out. */
static wf_status_t each_row(wf_database_t *database, const char *prefix, row_fn *each, void *self)
{
    sqlite3_stmt *statement = NULL;
    WF_TRY(wf_database_prepare(database, row_sql, &statement));
    sqlite3_bind_text(statement, 1, prefix, -1, SQLITE_TRANSIENT);
    wf_status_t status;
    while (wf_database_step(database, statement, &status)) {
        row_t row = read_row(statement);
        if (!wf_timing_possible(&row.timing)) {
            database->skipped++;
            continue;
        }
        status = each(self, &row);
        if (status != WF_OK)
            break;
    }
    sqlite3_finalize(statement);
    return status;
}

static double time_ns(const wf_timing_t *timing)
{
    return timing->log_ratio.count > 0 ? timing->anchor_ns * exp(timing->log_ratio.mean) : NAN;
}

/* Reals with all their digits: an import gives the same bits. */
static wf_status_t add_json(wf_text_t *out, json_t *value, size_t flags)
{
    return wf_json_put(value, flags | JSON_REAL_PRECISION(17), out);
}

/* ---- ls and show ---- */

typedef struct listing {
    wf_text_t *out;
    json_t *rows; /* NULL: text */
    char problem[33], *text;
    int64_t threads;
    size_t tactics;
    double best_ns;
    char best[WF_TACTIC_ID_MAX];
    wf_allocator_t allocator;
} listing_t;

static wf_status_t end_problem(listing_t *listing)
{
    if (listing->tactics == 0)
        return WF_OK;
    if (listing->rows != NULL) {
        json_t *row =
            json_pack("{s:s s:s s:I s:I s:s s:f}", "hash", listing->problem, "problem", listing->text,
                      "threads", (json_int_t)listing->threads, "tactics", (json_int_t)listing->tactics,
                      "best", listing->best, "best_ns", listing->best_ns);
        if (row == NULL || json_array_append_new(listing->rows, row) != 0)
            return wf_status_out_of_memory();
    } else {
        wf_text_printf(listing->out, "%.12s %2lld %3zu %14.0f  %-44s %s\n", listing->problem,
                       (long long)listing->threads, listing->tactics, listing->best_ns, listing->best,
                       listing->text);
    }
    wf_free(listing->allocator, listing->text, strlen(listing->text) + 1, 1);
    listing->text = NULL;
    listing->tactics = 0;
    return WF_OK;
}

static wf_status_t list_row(void *self, const row_t *row)
{
    listing_t *listing = self;
    if (listing->tactics > 0 &&
        (strcmp(listing->problem, row->problem) != 0 || listing->threads != row->threads))
        WF_TRY(end_problem(listing));
    if (listing->tactics == 0) {
        size_t bytes = strlen(row->text) + 1;
        WF_TRY(wf_alloc(listing->allocator, bytes, 1, &listing->text));
        memcpy(listing->text, row->text, bytes);
        (void)snprintf(listing->problem, sizeof listing->problem, "%s", row->problem);
        listing->threads = row->threads;
        listing->best_ns = 0;
        listing->best[0] = '\0';
    }
    double ns = time_ns(&row->timing);
    if (row->timing.quarantine[0] == '\0' && (listing->best[0] == '\0' || ns < listing->best_ns)) {
        listing->best_ns = ns;
        (void)snprintf(listing->best, sizeof listing->best, "%s", row->timing.tactic);
    }
    listing->tactics++;
    return WF_OK;
}

static wf_status_t verb_ls(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    listing_t listing = {.out = out, .rows = json ? json_array() : NULL, .allocator = database->allocator};
    if (!json)
        wf_text_printf(out, "%-12s %2s %3s %14s  %-44s %s\n", "problem", "th", "n", "best ns", "best tactic",
                       "");
    wf_status_t status = each_row(database, argument != NULL ? argument : "", list_row, &listing);
    if (status == WF_OK)
        status = end_problem(&listing);
    if (listing.text != NULL)
        wf_free(listing.allocator, listing.text, strlen(listing.text) + 1, 1);
    if (status == WF_OK && json) {
        return add_json(
            out,
            json_pack("{s:i s:s s:o}", "schema_version", 1, "path", database->path, "problems", listing.rows),
            JSON_COMPACT);
    }
    json_decref(listing.rows);
    return status;
}

static json_t *row_json(const row_t *row)
{
    const wf_timing_t *t = &row->timing;
    return json_pack("{s:i s:s s:s s:I s:s s:I s:s s:s s:I s:f s:f s:f s:f s:f s:b s:s s:I}",
                     "schema_version", 1, "problem", row->text, "device", row->device, "threads",
                     (json_int_t)row->threads, "tactic", t->tactic, "protocol", (json_int_t)row->protocol,
                     "context", row->context, "anchor", t->anchor, "count", (json_int_t)t->log_ratio.count,
                     "mean", t->log_ratio.mean, "m2", t->log_ratio.m2, "anchor_ns", t->anchor_ns, "min_ns",
                     t->min_ns, "canary_ns", t->canary_ns, "clean", t->clean, "quarantine", t->quarantine,
                     "day", (json_int_t)t->day);
}

static wf_status_t show_row(void *self, const row_t *row)
{
    listing_t *listing = self;
    listing->tactics++;
    if (listing->rows != NULL) {
        json_t *json = row_json(row);
        return json != NULL && json_array_append_new(listing->rows, json) == 0 ? WF_OK
                                                                               : wf_status_out_of_memory();
    }
    if (strcmp(listing->problem, row->problem) != 0 || listing->threads != row->threads) {
        (void)snprintf(listing->problem, sizeof listing->problem, "%s", row->problem);
        listing->threads = row->threads;
        wf_text_printf(listing->out, "%s\n%s\nthreads %lld, %s\n", row->problem, row->text,
                       (long long)row->threads, row->device);
    }
    const wf_timing_t *t = &row->timing;
    wf_text_printf(listing->out, "  %14.0f ns  +-%5.2f%%  %4llu blocks%s  %s%s%s\n", time_ns(t),
                   t->log_ratio.count > 1 ? 100 * wf_welford_se(&t->log_ratio) : 0,
                   (unsigned long long)t->log_ratio.count, t->clean ? "" : " (busy machine)", t->tactic,
                   t->quarantine[0] != '\0' ? "  put aside: " : "", t->quarantine);
    return WF_OK;
}

static wf_status_t verb_show(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    char hex[33];
    if (argument == NULL) {
        return wf_status_hinted(WF_ERROR(USAGE, "cache show takes a problem"),
                                "give the text of a problem, or the beginning of its hash from 'cache ls'");
    }
    if (strncmp(argument, "v1 ", 3) == 0) {
        wf_hash_text(wf_hash_bytes(argument, strlen(argument)), hex);
    } else {
        (void)snprintf(hex, sizeof hex, "%s", argument);
    }
    if (hex[strspn(hex, "0123456789abcdef")] != '\0')
        return WF_ERROR(USAGE, "'%s' is neither the text of a problem nor the beginning of a hash", argument);
    listing_t listing = {.out = out, .rows = json ? json_array() : NULL, .allocator = database->allocator};
    wf_status_t status = each_row(database, hex, show_row, &listing);
    if (status == WF_OK && listing.tactics == 0)
        status = WF_ERROR(CACHE_MISS, "the timing database has nothing of problem %s", argument);
    if (status == WF_OK && json) {
        return add_json(out, json_pack("{s:i s:o}", "schema_version", 1, "timings", listing.rows),
                        JSON_COMPACT);
    }
    json_decref(listing.rows);
    return status;
}

/* ---- export and import: one JSON object a line, keys sorted ---- */

static wf_status_t export_row(void *self, const row_t *row)
{
    return add_json(self, row_json(row), JSON_COMPACT | JSON_SORT_KEYS);
}

static wf_status_t verb_export(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    (void)json;
    return each_row(database, argument != NULL ? argument : "", export_row, out);
}

typedef struct import {
    uint64_t taken, skipped;
    char reason[160]; /* why the first one was skipped */
} import_t;

static void skip(import_t *import, size_t line, const char *reason)
{
    if (import->skipped++ == 0)
        (void)snprintf(import->reason, sizeof import->reason, "line %zu: %s", line, reason);
}

/* NULL, or why the line is no row. Texts of *out_row live in the JSON. */
static const char *parse_row(const json_t *json, row_t *out_row)
{
    wf_timing_t *t = &out_row->timing;
    const char *tactic, *anchor, *quarantine;
    json_int_t schema, threads, protocol, count, day = 0;
    int clean;
    if (json_unpack((json_t *)(uintptr_t)json,
                    "{s:I s:s s:s s:I s:s s:I s:s s:s s:I s:F s:F s:F s:F s:F s:b s:s s?I}", "schema_version",
                    &schema, "problem", &out_row->text, "device", &out_row->device, "threads", &threads,
                    "tactic", &tactic, "protocol", &protocol, "context", &out_row->context, "anchor", &anchor,
                    "count", &count, "mean", &t->log_ratio.mean, "m2", &t->log_ratio.m2, "anchor_ns",
                    &t->anchor_ns, "min_ns", &t->min_ns, "canary_ns", &t->canary_ns, "clean", &clean,
                    "quarantine", &quarantine, "day", &day) != 0) {
        return "is no row of timings";
    }
    if (schema != 1)
        return "has another schema version";
    if (strlen(tactic) >= sizeof t->tactic || strlen(anchor) >= sizeof t->anchor || count < 0 ||
        threads < 1 || threads > 1024 || protocol < 0 || protocol > INT32_MAX || day < 0 || day > INT32_MAX) {
        return "has values that cannot be";
    }
    (void)snprintf(t->tactic, sizeof t->tactic, "%s", tactic);
    (void)snprintf(t->anchor, sizeof t->anchor, "%s", anchor);
    (void)snprintf(t->quarantine, sizeof t->quarantine, "%s", quarantine);
    t->log_ratio.count = (uint64_t)count;
    t->clean = clean != 0;
    t->day = day;
    out_row->threads = threads;
    out_row->protocol = protocol;
    return wf_timing_possible(t) ? NULL : "has values that cannot be";
}

/* The canonical problem, or NULL. */
static const wf_problem_t *canonical_problem(const char *text, wf_arena_t *arena)
{
    const wf_problem_t *problem = NULL;
    wf_status_t status = wf_problem_parse(text, strlen(text), arena, &problem);
    bool good = status == WF_OK && strcmp(problem->text, text) == 0;
    wf_status_free(status);
    return good ? problem : NULL;
}

static wf_status_t store_row(wf_database_t *database, const row_t *row, import_t *import, size_t line)
{
    wf_arena_t arena;
    wf_arena_init(&arena, database->allocator);
    const wf_problem_t *problem = canonical_problem(row->text, &arena);
    wf_status_t status = WF_OK;
    if (problem == NULL) {
        skip(import, line, "has a problem that this version does not read");
    } else {
        char hex[33];
        int64_t device_id;
        wf_hash_text((wf_hash_t){.low = problem->hash[0], .high = problem->hash[1]}, hex);
        wf_database_scope_t scope = {row->device, (uint32_t)row->threads, (uint32_t)row->protocol,
                                     row->context};
        status = wf_database_device(database, row->device, &device_id);
        if (status == WF_OK)
            status = wf_database_add_problem(database, hex, problem->text);
        if (status == WF_OK)
            status = wf_database_merge(database, hex, device_id, &scope, &row->timing, true);
        import->taken += status == WF_OK;
    }
    wf_arena_deinit(&arena);
    return status;
}

static wf_status_t import_lines(wf_database_t *database, const char *text, size_t bytes, import_t *import)
{
    const char *end = text + bytes;
    size_t line = 0;
    for (const char *at = text, *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        line++;
        if (stop == at)
            continue;
        json_t *json = json_loadb(at, (size_t)(stop - at), 0, NULL);
        row_t row = {0};
        const char *reason = json != NULL ? parse_row(json, &row) : "is not JSON";
        wf_status_t status = WF_OK;
        if (reason != NULL)
            skip(import, line, reason);
        else
            status = store_row(database, &row, import, line);
        json_decref(json);
        if (status != WF_OK)
            return status;
    }
    return WF_OK;
}

/* What was taken and skipped, for people and machines. */
static wf_status_t tell_import(const import_t *import, bool json, wf_text_t *out)
{
    if (json) {
        return add_json(out,
                        json_pack("{s:i s:I s:I s:s}", "schema_version", 1, "taken",
                                  (json_int_t)import->taken, "skipped", (json_int_t)import->skipped, "reason",
                                  import->reason),
                        JSON_COMPACT);
    }
    wf_text_printf(out, "%llu timings taken, %llu skipped%s%s\n", (unsigned long long)import->taken,
                   (unsigned long long)import->skipped, import->skipped > 0 ? "; " : "", import->reason);
    return WF_OK;
}

static wf_status_t verb_import(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    char *text;
    size_t bytes;
    import_t import = {0};
    if (argument == NULL)
        return WF_ERROR(USAGE, "cache import takes the file that 'cache export' made");
    if (database->read_only)
        return WF_ERROR(CACHE_INVALID, "%s", database->note);
    WF_TRY(wf_file_read(argument, IMPORT_MAX_BYTES, database->allocator, &text, &bytes));
    wf_status_t status = wf_database_run(database, "BEGIN IMMEDIATE");
    if (status == WF_OK)
        status = wf_database_end(database, import_lines(database, text, bytes, &import));
    wf_free(database->allocator, text, bytes + 1, 1);
    if (status != WF_OK)
        return status;
    return tell_import(&import, json, out);
}

/* ---- merge: another database's rows, marks and outcomes ---- */

typedef struct merge {
    wf_database_t *into;
    import_t import;
    size_t row;
} merge_t;

static wf_status_t merge_row(void *self, const row_t *row)
{
    merge_t *merge = self;
    merge->row++;
    return store_row(merge->into, row, &merge->import, merge->row);
}

/* Copies rows of `from` by a query of the other file and an insertion here, column by column. Column 0 may be
 * a device's fingerprint: then it becomes the id of that device here. */
static wf_status_t copy_rows(wf_database_t *from, const char *select, wf_database_t *into, const char *insert,
                             bool device_first)
{
    sqlite3_stmt *source = NULL, *target = NULL;
    wf_status_t status = wf_database_prepare(from, select, &source);
    if (status == WF_OK)
        status = wf_database_prepare(into, insert, &target);
    while (status == WF_OK && wf_database_step(from, source, &status)) {
        int64_t device = 0;
        if (device_first)
            status = wf_database_device(into, text_column(source, 0), &device);
        if (status != WF_OK)
            break;
        sqlite3_reset(target);
        for (int i = 0; i < sqlite3_column_count(source); i++)
            sqlite3_bind_value(target, i + 1, sqlite3_column_value(source, i));
        if (device_first)
            sqlite3_bind_int64(target, 1, device);
        (void)wf_database_step(into, target, &status);
    }
    sqlite3_finalize(target);
    sqlite3_finalize(source);
    return status;
}

static wf_status_t merge_all(wf_database_t *other, merge_t *merge)
{
    WF_TRY(each_row(other, "", merge_row, merge));
    merge->import.skipped += other->skipped;
    WF_TRY(copy_rows(other, "SELECT kind, problem, tactic FROM mark", merge->into,
                     "INSERT OR IGNORE INTO mark(kind,problem,tactic) VALUES(?1,?2,?3)", false));
    return copy_rows(
        other,
        "SELECT fingerprint,base,protocol,lock,ratio,ratio_low,ratio_high,default_ns,default_low_ns,"
        "default_high_ns,final_ns,final_low_ns,final_high_ns,budget_s,adopted,converged FROM outcome"
        " JOIN device ON device.id=outcome.device",
        merge->into,
        "INSERT OR IGNORE INTO outcome(device,base,protocol,lock,ratio,ratio_low,ratio_high,"
        "default_ns,default_low_ns,default_high_ns,final_ns,final_low_ns,final_high_ns,budget_s,"
        "adopted,converged) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16)",
        true);
}

static wf_status_t verb_merge(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    wf_database_t *other;
    merge_t merge = {.into = database};
    if (argument == NULL)
        return WF_ERROR(USAGE, "cache merge takes another timing database");
    if (database->read_only)
        return WF_ERROR(CACHE_INVALID, "%s", database->note);
    if (access(argument, R_OK) != 0)
        return wf_status_from_errno(errno, WF_CODE_FILE_UNREADABLE, "read", argument);
    WF_TRY(wf_database_open_copy(argument, database->allocator, &other));
    wf_status_t status = wf_database_run(database, "BEGIN IMMEDIATE");
    if (status == WF_OK)
        status = wf_database_end(database, merge_all(other, &merge));
    wf_database_close(other);
    return status == WF_OK ? tell_import(&merge.import, json, out) : status;
}

/* ---- pin, ban and back ---- */

static wf_status_t verb_pin(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    return wf_database_mark(database, "pin", argument, json, out);
}

static wf_status_t verb_unpin(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    return wf_database_mark(database, "unpin", argument, json, out);
}

static wf_status_t verb_ban(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    return wf_database_mark(database, "ban", argument, json, out);
}

static wf_status_t verb_unban(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    return wf_database_mark(database, "unban", argument, json, out);
}

/* ---- verify, gc, du ---- */

static wf_status_t number(wf_database_t *database, const char *sql, int64_t *out_number)
{
    sqlite3_stmt *statement = NULL;
    wf_status_t status;
    WF_TRY(wf_database_prepare(database, sql, &statement));
    *out_number = wf_database_step(database, statement, &status) ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    return status;
}

/* Problems whose text does not have the hash that it lies under, with their rows; removed when asked. */
static wf_status_t bad_problems(wf_database_t *database, bool removes, int64_t *out_count)
{
    sqlite3_stmt *statement = NULL, *removal = NULL;
    wf_status_t status;
    *out_count = 0;
    WF_TRY(wf_database_prepare(database, "SELECT hash, text FROM problem", &statement));
    status = wf_database_prepare(database, "DELETE FROM problem WHERE hash=?1", &removal);
    while (status == WF_OK && wf_database_step(database, statement, &status)) {
        char hex[33];
        const char *text = text_column(statement, 1);
        wf_hash_text(wf_hash_bytes(text, strlen(text)), hex);
        if (strcmp(hex, text_column(statement, 0)) == 0)
            continue;
        ++*out_count;
        if (removes) {
            sqlite3_reset(removal);
            sqlite3_bind_text(removal, 1, text_column(statement, 0), -1, SQLITE_TRANSIENT);
            (void)wf_database_step(database, removal, &status);
        }
    }
    sqlite3_finalize(removal);
    sqlite3_finalize(statement);
    return status;
}

static wf_status_t count_row(void *self, const row_t *row)
{
    (void)row;
    ++*(int64_t *)self;
    return WF_OK;
}

static wf_status_t verb_verify(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    (void)argument;
    sqlite3_stmt *statement = NULL;
    int64_t rows = 0, bad_hashes;
    wf_status_t status;
    WF_TRY(wf_database_prepare(database, "PRAGMA integrity_check(1)", &statement));
    bool sound =
        wf_database_step(database, statement, &status) && strcmp(text_column(statement, 0), "ok") == 0;
    sqlite3_finalize(statement);
    WF_TRY(status);
    WF_TRY(each_row(database, "", count_row, &rows));
    WF_TRY(bad_problems(database, false, &bad_hashes));
    if (!sound || database->skipped > 0 || bad_hashes > 0) {
        return wf_status_hinted(
            WF_ERROR(CACHE_INVALID, "timing database %s: pages %s, %llu rows and %lld problems cannot be",
                     database->path, sound ? "sound" : "damaged", (unsigned long long)database->skipped,
                     (long long)bad_hashes),
            "'wayfinder cache gc' removes them");
    }
    if (json) {
        return add_json(
            out, json_pack("{s:i s:b s:I}", "schema_version", 1, "sound", 1, "timings", (json_int_t)rows),
            JSON_COMPACT);
    }
    wf_text_printf(out, "sound, %lld timings\n", (long long)rows);
    return WF_OK;
}

static const char impossible_sql[] =
    "DELETE FROM timing WHERE tactic='' OR count<0 OR (count=0 AND quarantine='') OR (count>0 AND NOT"
    " (anchor<>'' AND abs(mean)<50 AND m2>=0 AND m2<1e300 AND anchor_ns>0 AND anchor_ns<1e15 AND min_ns>0 AND"
    " min_ns<1e15 AND canary_ns>0 AND canary_ns<1e15))";

/* "90d" -> 90. */
static bool parse_days(const char *text, long *out_days)
{
    char *end;
    errno = 0;
    if (text[0] < '0' || text[0] > '9')
        return false;
    *out_days = strtol(text, &end, 10);
    return errno == 0 && *out_days < 100000 && strcmp(end, "d") == 0;
}

#define NOT_PINNED " AND problem NOT IN (SELECT problem FROM mark WHERE kind='pin')"

/* Rows that this version never reads, and what only they needed. Pinned problems keep what can be. */
static wf_status_t verb_gc(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    bool quarantine = argument != NULL && strcmp(argument, "quarantine") == 0;
    long days = 0;
    if (argument != NULL && !quarantine && !parse_days(argument, &days)) {
        return wf_status_hinted(
            WF_ERROR(USAGE, "cache gc '%s'", argument),
            "'cache gc quarantine' also forgets tactics that were put aside, 'cache gc 90d' "
            "what was not measured for so long");
    }
    if (database->read_only)
        return WF_ERROR(CACHE_INVALID, "%s", database->note);
    char protocol_sql[300], age_sql[300] = "";
    (void)snprintf(protocol_sql, sizeof protocol_sql,
                   "DELETE FROM timing WHERE protocol<>%u" NOT_PINNED
                   "; DELETE FROM outcome WHERE protocol<>%u",
                   WF_MEASURE_PROTOCOL, WF_MEASURE_PROTOCOL);
    if (days > 0) {
        (void)snprintf(age_sql, sizeof age_sql, "DELETE FROM timing WHERE day<%lld" NOT_PINNED,
                       (long long)wf_database_today() - days);
    }
    const char *const steps[] = {
        protocol_sql,
        impossible_sql,
        age_sql,
        quarantine ? "DELETE FROM timing WHERE quarantine<>''" : "",
        "DELETE FROM timing WHERE problem NOT IN (SELECT hash FROM problem)",
        "DELETE FROM problem WHERE hash NOT IN (SELECT problem FROM timing UNION SELECT problem FROM mark)",
        "DELETE FROM device WHERE id NOT IN (SELECT device FROM timing UNION SELECT device FROM outcome)"};
    int64_t before, after, bad;
    WF_TRY(number(database, "SELECT count(*) FROM timing", &before));
    WF_TRY(wf_database_run(database, "BEGIN IMMEDIATE"));
    wf_status_t status = bad_problems(database, true, &bad);
    for (size_t i = 0; status == WF_OK && i < WF_COUNT_OF(steps); i++)
        status = wf_database_run(database, steps[i]);
    WF_TRY(wf_database_end(database, status));
    WF_TRY(wf_database_run(database, "VACUUM"));
    WF_TRY(number(database, "SELECT count(*) FROM timing", &after));
    if (json) {
        return add_json(out,
                        json_pack("{s:i s:I s:I}", "schema_version", 1, "removed",
                                  (json_int_t)(before - after), "left", (json_int_t)after),
                        JSON_COMPACT);
    }
    wf_text_printf(out, "%lld timings removed, %lld left\n", (long long)(before - after), (long long)after);
    return WF_OK;
}

static int64_t file_bytes(const char *path, const char *ending)
{
    char name[4200];
    struct stat facts;
    (void)snprintf(name, sizeof name, "%s%s", path, ending);
    return stat(name, &facts) == 0 ? (int64_t)facts.st_size : 0;
}

static wf_status_t verb_du(wf_database_t *database, const char *argument, bool json, wf_text_t *out)
{
    (void)argument;
    static const struct {
        const char *name, *sql;
    } counts[] = {{"timings", "SELECT count(*) FROM timing"},
                  {"problems", "SELECT count(*) FROM problem"},
                  {"devices", "SELECT count(*) FROM device"},
                  {"quarantined", "SELECT count(*) FROM timing WHERE quarantine<>''"},
                  {"contended", "SELECT count(*) FROM timing WHERE clean=0"},
                  {"pinned", "SELECT count(*) FROM mark WHERE kind='pin'"},
                  {"banned", "SELECT count(*) FROM mark WHERE kind='ban'"},
                  {"outcomes", "SELECT count(*) FROM outcome"}};
    json_t *report =
        json_pack("{s:i s:s s:I}", "schema_version", 1, "path", database->path, "bytes",
                  (json_int_t)(file_bytes(database->path, "") + file_bytes(database->path, "-wal")));
    wf_status_t status = report != NULL ? WF_OK : wf_status_out_of_memory();
    for (size_t i = 0; status == WF_OK && i < WF_COUNT_OF(counts); i++) {
        int64_t count;
        status = number(database, counts[i].sql, &count);
        if (status == WF_OK && json_object_set_new(report, counts[i].name, json_integer(count)) != 0)
            status = wf_status_out_of_memory();
    }
    if (status == WF_OK && json)
        return add_json(out, report, JSON_COMPACT);
    if (status == WF_OK) {
        const char *key;
        json_t *value;
        wf_text_printf(out, "%s\n", database->path);
        json_object_foreach(report, key, value)
        {
            if (json_is_integer(value) && strcmp(key, "schema_version") != 0)
                wf_text_printf(out, "%12lld %s\n", (long long)json_integer_value(value), key);
        }
    }
    json_decref(report);
    return status;
}

/* ---- The table ---- */

typedef wf_status_t verb_fn(wf_database_t *database, const char *argument, bool json, wf_text_t *out);
static const struct {
    const char *name;
    verb_fn *run;
} verbs[] = {{"ls", verb_ls},       {"show", verb_show},     {"export", verb_export}, {"import", verb_import},
             {"merge", verb_merge}, {"pin", verb_pin},       {"unpin", verb_unpin},   {"ban", verb_ban},
             {"unban", verb_unban}, {"verify", verb_verify}, {"gc", verb_gc},         {"du", verb_du}};

wf_status_t wf_database_verb(wf_database_t *database, const char *verb, const char *argument, bool json,
                             wf_text_t *out)
{
    for (size_t i = 0; i < WF_COUNT_OF(verbs); i++) {
        if (strcmp(verbs[i].name, verb) == 0) {
            WF_TRY(verbs[i].run(database, argument, json, out));
            return wf_text_take_status(out);
        }
    }
    return wf_status_hinted(WF_ERROR(USAGE, "cache has no verb '%s'", verb),
                            "ls, show, export, import, merge, pin, unpin, ban, unban, verify, gc or du");
}
