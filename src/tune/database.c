/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/database.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/file.h"

/* How long a writer waits for others; eight tuners write a few rows a second each. */
#define BUSY_MS 30000

/* Schema 1 is the base; later schemas are what was added to it, so that old files take the same way. */
static const char schema_sql[] =
    "CREATE TABLE device(id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);"
    "CREATE TABLE problem(hash TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE timing(problem TEXT NOT NULL, tactic TEXT NOT NULL, threads INTEGER NOT NULL,"
    " device INTEGER NOT NULL, protocol INTEGER NOT NULL, context TEXT NOT NULL, anchor TEXT NOT NULL,"
    " count INTEGER NOT NULL, mean REAL NOT NULL, m2 REAL NOT NULL, anchor_ns REAL NOT NULL,"
    " min_ns REAL NOT NULL, canary_ns REAL NOT NULL, clean INTEGER NOT NULL, quarantine TEXT NOT NULL,"
    " PRIMARY KEY(problem, tactic, threads, device, protocol, context)) WITHOUT ROWID;"
    "CREATE TABLE outcome(base TEXT NOT NULL, device INTEGER NOT NULL, protocol INTEGER NOT NULL,"
    " lock TEXT NOT NULL, ratio REAL NOT NULL, ratio_low REAL NOT NULL, ratio_high REAL NOT NULL,"
    " default_ns REAL NOT NULL, default_low_ns REAL NOT NULL, default_high_ns REAL NOT NULL,"
    " final_ns REAL NOT NULL, final_low_ns REAL NOT NULL, final_high_ns REAL NOT NULL,"
    " budget_s REAL NOT NULL, adopted INTEGER NOT NULL, converged INTEGER NOT NULL,"
    " PRIMARY KEY(base, device, protocol)) WITHOUT ROWID;";

/* mark: what people decided. kind "ban" (problem "": everywhere) or "pin" (tactic ""). */
static const char schema_2_sql[] =
    "ALTER TABLE timing ADD COLUMN day INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE mark(kind TEXT NOT NULL, problem TEXT NOT NULL, tactic TEXT NOT NULL,"
    " PRIMARY KEY(kind, problem, tactic)) WITHOUT ROWID;";

/* ---- Statuses ---- */

static wf_status_t from_sqlite(const wf_database_t *database, int code)
{
    const char *message = database->db != NULL ? sqlite3_errmsg(database->db) : sqlite3_errstr(code);
    const char *path = database->path[0] != '\0' ? database->path : "in memory";
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return WF_OK;
    case SQLITE_NOMEM:
        return wf_status_out_of_memory();
    case SQLITE_FULL:
        return WF_ERROR(DISK_FULL, "timing database %s: %s", path, message);
    default:
        return wf_status_hinted(WF_ERROR(CACHE_INVALID, "timing database %s: %s", path, message),
                                "remove the file, or give another one with --timing-cache");
    }
}

wf_status_t wf_database_run(wf_database_t *database, const char *sql)
{
    return from_sqlite(database, sqlite3_exec(database->db, sql, NULL, NULL, NULL));
}

wf_status_t wf_database_prepare(wf_database_t *database, const char *sql, sqlite3_stmt **out_statement)
{
    return from_sqlite(database, sqlite3_prepare_v2(database->db, sql, -1, out_statement, NULL));
}

bool wf_database_step(wf_database_t *database, sqlite3_stmt *statement, wf_status_t *out_status)
{
    int code = sqlite3_step(statement);
    *out_status = from_sqlite(database, code);
    return code == SQLITE_ROW;
}

/* Runs a bound statement that gives no rows, and ends it. */
static wf_status_t finish(wf_database_t *database, sqlite3_stmt *statement)
{
    wf_status_t status;
    while (wf_database_step(database, statement, &status)) {
    }
    sqlite3_finalize(statement);
    return status;
}

static void bind_text(sqlite3_stmt *statement, int index, const char *text)
{
    sqlite3_bind_text(statement, index, text, -1, SQLITE_TRANSIENT);
}

/* ---- Opening ---- */

bool wf_database_default_path(char *out_path, size_t capacity)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (cache != NULL && cache[0] == '/')
        length = snprintf(out_path, capacity, "%s/wayfinder/timings.db", cache);
    else if (home != NULL && home[0] == '/')
        length = snprintf(out_path, capacity, "%s/.cache/wayfinder/timings.db", home);
    return length > 0 && (size_t)length < capacity;
}

int64_t wf_database_today(void)
{
    return (int64_t)time(NULL) / 86400;
}

typedef enum verdict { VERDICT_GOOD, VERDICT_DAMAGED, VERDICT_FOREIGN, VERDICT_FAILED } verdict_t;

static int64_t pragma_number(sqlite3 *db, const char *sql, int *out_code)
{
    sqlite3_stmt *statement = NULL;
    int64_t value = 0;
    *out_code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (*out_code == SQLITE_OK) {
        *out_code = sqlite3_step(statement);
        if (*out_code == SQLITE_ROW)
            value = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return value;
}

static bool is_sound(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    bool sound = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &statement, NULL) == SQLITE_OK &&
                 sqlite3_step(statement) == SQLITE_ROW &&
                 strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    sqlite3_finalize(statement);
    return sound;
}

/* What is in an open file. *out_empty: nothing yet. */
static verdict_t judge(sqlite3 *db, bool *out_empty)
{
    int code;
    *out_empty = false;
    int64_t tables = pragma_number(db, "SELECT count(*) FROM sqlite_master", &code);
    if ((code & 0xff) == SQLITE_NOTADB || (code & 0xff) == SQLITE_CORRUPT)
        return VERDICT_DAMAGED;
    if (code != SQLITE_ROW)
        return VERDICT_FAILED;
    int64_t application = pragma_number(db, "PRAGMA application_id", &code);
    int64_t schema = pragma_number(db, "PRAGMA user_version", &code);
    if (tables == 0 && application == 0 && schema == 0) {
        *out_empty = true;
        return VERDICT_GOOD;
    }
    if (application != WF_DATABASE_APPLICATION || schema < 1 || schema > WF_DATABASE_SCHEMA)
        return VERDICT_FOREIGN;
    return is_sound(db) ? VERDICT_GOOD : VERDICT_DAMAGED;
}

/* A file is data, not a program: its triggers and views must not act. */
static void harden(sqlite3 *db)
{
    sqlite3_busy_timeout(db, BUSY_MS);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    (void)sqlite3_exec(db, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0", NULL, NULL, NULL);
}

/* A new or older database becomes one of this schema, in one transaction. Two processes may come to it at
 * once: what is there is looked at again inside. */
static wf_status_t make_schema(wf_database_t *database)
{
    int code;
    int64_t schema = pragma_number(database->db, "PRAGMA user_version", &code);
    if (schema == WF_DATABASE_SCHEMA)
        return WF_OK;
    WF_TRY(wf_database_run(database, "BEGIN IMMEDIATE"));
    schema = pragma_number(database->db, "PRAGMA user_version", &code);
    char numbers[120];
    (void)snprintf(numbers, sizeof numbers, "PRAGMA application_id=%d; PRAGMA user_version=%d",
                   WF_DATABASE_APPLICATION, WF_DATABASE_SCHEMA);
    const char *const steps[] = {schema < 1 ? schema_sql : "", schema < 2 ? schema_2_sql : "", numbers};
    wf_status_t status = WF_OK;
    for (size_t i = 0; status == WF_OK && i < WF_COUNT_OF(steps); i++)
        status = wf_database_run(database, steps[i]);
    return wf_database_end(database, status);
}

static wf_status_t open_memory(wf_database_t *database)
{
    database->read_only = true;
    int code = sqlite3_open_v2(":memory:", &database->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    WF_TRY(from_sqlite(database, code));
    harden(database->db);
    return WF_OK;
}

/* The shared-memory file that write-ahead logging needs does not work across machines. */
static bool is_network_folder(const char *folder)
{
    static const uint32_t magics[] = {
        0x6969u /* NFS */,      0x517bu /* SMB */,        0xff534d42u /* CIFS */,
        0xfe534d42u /* SMB2 */, 0x73757245u /* Coda */,   0x5346414fu /* AFS */,
        0x01021997u /* 9P */,   0x0bd00bd0u /* Lustre */, 0x47504653u /* GPFS */};
    struct statfs facts;
    if (statfs(folder, &facts) != 0)
        return false;
    for (size_t i = 0; i < WF_COUNT_OF(magics); i++) {
        if ((uint32_t)facts.f_type == magics[i])
            return true;
    }
    return false;
}

static void folder_of(const char *path, char *out, size_t capacity)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : WF_MAX((size_t)(slash - path), (size_t)1);
    (void)snprintf(out, capacity, "%.*s", slash != NULL ? (int)length : 1, slash != NULL ? path : ".");
}

static verdict_t open_file(wf_database_t *database, bool *out_empty)
{
    *out_empty = false;
    int code =
        sqlite3_open_v2(database->path, &database->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (code != SQLITE_OK)
        return VERDICT_FAILED;
    harden(database->db);
    return judge(database->db, out_empty);
}

static void close_file(wf_database_t *database)
{
    (void)sqlite3_close(database->db);
    database->db = NULL;
}

/* PATH -> PATH.corrupt-N with the files that SQLite keeps beside it. */
static wf_status_t set_aside(wf_database_t *database)
{
    enum { NUMBERS_MAX = 1000 };
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    char from[4200], to[4200], aside[4200];
    for (int n = 1; n <= NUMBERS_MAX; n++) {
        (void)snprintf(aside, sizeof aside, "%s.corrupt-%d", database->path, n);
        if (access(aside, F_OK) != 0)
            break;
    }
    for (size_t i = 0; i < WF_COUNT_OF(endings); i++) {
        (void)snprintf(from, sizeof from, "%s%s", database->path, endings[i]);
        (void)snprintf(to, sizeof to, "%s%s", aside, endings[i]);
        if (rename(from, to) != 0 && i == 0)
            return wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "set aside", database->path);
    }
    (void)snprintf(database->note, sizeof database->note,
                   "the timing database was damaged; it is kept as %.300s and a new one was begun", aside);
    return WF_OK;
}

static wf_status_t foreign(const wf_database_t *database)
{
    int code;
    int64_t application = pragma_number(database->db, "PRAGMA application_id", &code);
    int64_t schema = pragma_number(database->db, "PRAGMA user_version", &code);
    if (application != WF_DATABASE_APPLICATION) {
        return wf_status_hinted(
            WF_ERROR(CACHE_INVALID, "%s is a database, but not one of timings", database->path),
            "give another file with --timing-cache");
    }
    return wf_status_hinted(WF_ERROR(CACHE_INVALID,
                                     "timing database %s has schema %lld, this version reads %d",
                                     database->path, (long long)schema, WF_DATABASE_SCHEMA),
                            "use the newer version, or another file with --timing-cache");
}

static wf_status_t open_writable(wf_database_t *database, const char *folder)
{
    bool empty;
    verdict_t verdict = open_file(database, &empty);
    if (verdict == VERDICT_DAMAGED) {
        close_file(database);
        WF_TRY(set_aside(database));
        verdict = open_file(database, &empty);
    }
    if (verdict == VERDICT_FOREIGN)
        return foreign(database);
    if (verdict != VERDICT_GOOD)
        return from_sqlite(database, database->db != NULL ? sqlite3_errcode(database->db) : SQLITE_CANTOPEN);
    if (is_network_folder(folder)) {
        if (database->note[0] == '\0') {
            (void)snprintf(
                database->note, sizeof database->note,
                "the timing database is on a network file system: rows are written one after the other");
        }
        WF_TRY(wf_database_run(database, "PRAGMA journal_mode=DELETE"));
    } else {
        WF_TRY(wf_database_run(database, "PRAGMA journal_mode=WAL"));
        /* A row that a power failure takes is measured again; the file stays sound. */
        WF_TRY(wf_database_run(database, "PRAGMA synchronous=NORMAL"));
    }
    return make_schema(database);
}

/* The file as it is, copied into memory. immutable: ignores a log that cannot be read without writing. */
static verdict_t copy_file(wf_database_t *database, const char *options)
{
    char uri[3 * sizeof database->path + 64] = "file:";
    size_t at = strlen(uri);
    for (const char *c = database->path; *c != '\0' && at + 64 < sizeof uri; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                     strchr("/._-", *c) != NULL;
        at += (size_t)snprintf(uri + at, sizeof uri - at, plain ? "%c" : "%%%02x", (unsigned char)*c);
    }
    (void)snprintf(uri + at, sizeof uri - at, "?%s", options);
    sqlite3 *file = NULL;
    bool empty;
    verdict_t verdict = VERDICT_FAILED;
    if (sqlite3_open_v2(uri, &file, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) == SQLITE_OK) {
        harden(file);
        verdict = judge(file, &empty);
        sqlite3_backup *backup =
            verdict == VERDICT_GOOD ? sqlite3_backup_init(database->db, "main", file, "main") : NULL;
        if (backup != NULL) {
            (void)sqlite3_backup_step(backup, -1);
            if (sqlite3_backup_finish(backup) != SQLITE_OK)
                verdict = VERDICT_FAILED;
        }
    }
    (void)sqlite3_close(file);
    return verdict;
}

static wf_status_t open_read_only(wf_database_t *database, bool exists)
{
    WF_TRY(open_memory(database));
    (void)snprintf(database->note, sizeof database->note,
                   "the timing database %.300s cannot be written: what is measured now is not kept",
                   database->path);
    if (exists) {
        verdict_t verdict = copy_file(database, "mode=ro");
        if (verdict == VERDICT_FAILED)
            verdict = copy_file(database, "immutable=1");
        if (verdict == VERDICT_FOREIGN) {
            return WF_ERROR(CACHE_INVALID, "%s is not a timing database that this version reads",
                            database->path);
        }
        if (verdict != VERDICT_GOOD) {
            (void)snprintf(database->note, sizeof database->note,
                           "the timing database %.300s is damaged and cannot be replaced: nothing is kept",
                           database->path);
        }
    }
    return make_schema(database);
}

static bool can_write(const char *path)
{
    return faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0;
}

/* Opening, setting aside and the first schema are one process's at a time. Released by closing. -1: none. */
static int lock_opening(const char *path)
{
    char name[4200];
    (void)snprintf(name, sizeof name, "%s.lock", path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    while (fd >= 0 && fcntl(fd, F_OFD_SETLKW, &lock) != 0 && errno == EINTR) {
    }
    return fd;
}

/* needed: without its file the handle is worth nothing. Else a full disk is no reason to give up. */
static wf_status_t open_path(wf_database_t *database, bool needed)
{
    char folder[4096];
    folder_of(database->path, folder, sizeof folder);
    wf_status_ignore(wf_folder_make(folder));
    bool exists = access(database->path, F_OK) == 0;
    if (!can_write(folder) || (exists && !can_write(database->path)))
        return open_read_only(database, exists);
    int lock = lock_opening(database->path);
    /* SQLite gives its other files the mode of this one. */
    int fd = open(database->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    wf_status_t status = fd < 0 && errno == ENOSPC
                             ? wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "make", database->path)
                             : WF_OK;
    if (fd >= 0)
        (void)close(fd);
    if (status == WF_OK)
        status = fd >= 0 ? open_writable(database, folder) : open_read_only(database, exists);
    if (!needed && wf_status_code(status) == WF_CODE_DISK_FULL) {
        wf_status_free(status);
        close_file(database);
        status = open_read_only(database, exists);
    }
    if (lock >= 0)
        (void)close(lock);
    return status;
}

static wf_status_t open_any(wf_database_t *database, const char *path, const wf_database_scope_t *scope)
{
    if (path == NULL && !wf_database_default_path(database->path, sizeof database->path)) {
        database->path[0] = '\0';
        (void)snprintf(database->note, sizeof database->note,
                       "there is no home folder for the timing database: nothing is kept");
        WF_TRY(open_memory(database));
        WF_TRY(make_schema(database));
    } else {
        if (path != NULL &&
            (size_t)snprintf(database->path, sizeof database->path, "%s", path) >= sizeof database->path) {
            return WF_ERROR(USAGE, "the path of the timing database is too long");
        }
        WF_TRY(open_path(database, scope == NULL));
    }
    if (scope == NULL)
        return WF_OK;
    database->scope = *scope;
    return wf_database_device(database, scope->device, &database->device_id);
}

wf_status_t wf_database_open(const char *path, const wf_database_scope_t *scope, wf_allocator_t allocator,
                             wf_database_t **out_database)
{
    *out_database = NULL;
    wf_database_t *database = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *database, &database));
    database->allocator = allocator;
    wf_status_t status = open_any(database, path, scope);
    if (status == WF_OK)
        *out_database = database;
    else
        wf_database_close(database);
    return status;
}

static wf_status_t open_copy(wf_database_t *database, const char *path)
{
    if ((size_t)snprintf(database->path, sizeof database->path, "%s", path) >= sizeof database->path)
        return WF_ERROR(USAGE, "the path of the timing database is too long");
    WF_TRY(open_memory(database));
    verdict_t verdict = copy_file(database, "mode=ro");
    if (verdict == VERDICT_FAILED)
        verdict = copy_file(database, "immutable=1");
    if (verdict != VERDICT_GOOD) {
        return WF_ERROR(CACHE_INVALID, "%s %s", path,
                        verdict == VERDICT_FOREIGN ? "is not a timing database that this version reads"
                                                   : "is damaged or no database");
    }
    return make_schema(database);
}

wf_status_t wf_database_open_copy(const char *path, wf_allocator_t allocator, wf_database_t **out_database)
{
    *out_database = NULL;
    wf_database_t *database = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *database, &database));
    database->allocator = allocator;
    wf_status_t status = open_copy(database, path);
    if (status == WF_OK)
        *out_database = database;
    else
        wf_database_close(database);
    return status;
}

void wf_database_close(wf_database_t *database)
{
    if (database == NULL)
        return;
    (void)sqlite3_close(database->db);
    wf_free(database->allocator, database, 1, sizeof *database);
}

wf_status_t wf_database_device(wf_database_t *database, const char *fingerprint, int64_t *out_id)
{
    sqlite3_stmt *statement = NULL;
    WF_TRY(wf_database_prepare(database, "INSERT OR IGNORE INTO device(fingerprint) VALUES(?1)", &statement));
    bind_text(statement, 1, fingerprint);
    WF_TRY(finish(database, statement));
    WF_TRY(wf_database_prepare(database, "SELECT id FROM device WHERE fingerprint=?1", &statement));
    bind_text(statement, 1, fingerprint);
    wf_status_t status;
    *out_id = 0;
    if (wf_database_step(database, statement, &status))
        *out_id = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

/* ---- Rows ---- */

#define TIMING_COLUMNS WF_DATABASE_TIMING_COLUMNS
#define TIMING_KEY "problem=?1 AND threads=?2 AND device=?3 AND protocol=?4 AND context=?5"

static void column_text(sqlite3_stmt *statement, int index, char *out, size_t capacity)
{
    const char *text = (const char *)sqlite3_column_text(statement, index);
    (void)snprintf(out, capacity, "%s", text != NULL ? text : "");
}

wf_timing_t wf_timing_read(sqlite3_stmt *statement)
{
    wf_timing_t timing = {.log_ratio = {.count = (uint64_t)sqlite3_column_int64(statement, 2),
                                        .mean = sqlite3_column_double(statement, 3),
                                        .m2 = sqlite3_column_double(statement, 4)},
                          .anchor_ns = sqlite3_column_double(statement, 5),
                          .min_ns = sqlite3_column_double(statement, 6),
                          .canary_ns = sqlite3_column_double(statement, 7),
                          .clean = sqlite3_column_int(statement, 8) != 0};
    column_text(statement, 0, timing.tactic, sizeof timing.tactic);
    column_text(statement, 1, timing.anchor, sizeof timing.anchor);
    column_text(statement, 9, timing.quarantine, sizeof timing.quarantine);
    timing.day = sqlite3_column_int64(statement, 10);
    return timing;
}

bool wf_timing_possible(const wf_timing_t *timing)
{
    const wf_welford_t *ratio = &timing->log_ratio;
    if (timing->tactic[0] == '\0' || ratio->count > INT64_MAX)
        return false;
    if (ratio->count == 0)
        return timing->quarantine[0] != '\0';
    return timing->anchor[0] != '\0' && isfinite(ratio->mean) && fabs(ratio->mean) < 50 &&
           isfinite(ratio->m2) && ratio->m2 >= 0 && timing->anchor_ns > 0 && timing->anchor_ns < 1e15 &&
           timing->min_ns > 0 && timing->min_ns < 1e15 && timing->canary_ns > 0 && timing->canary_ns < 1e15;
}

static void bind_key(sqlite3_stmt *statement, const char *problem, int64_t device_id,
                     const wf_database_scope_t *scope)
{
    bind_text(statement, 1, problem);
    sqlite3_bind_int64(statement, 2, scope->threads);
    sqlite3_bind_int64(statement, 3, device_id);
    sqlite3_bind_int64(statement, 4, scope->protocol);
    bind_text(statement, 5, scope->context);
}

static void problem_hex(const wf_problem_t *problem, char out[33])
{
    wf_hash_text((wf_hash_t){.low = problem->hash[0], .high = problem->hash[1]}, out);
}

/* Bans of a problem, or of all, onto its rows. */
static wf_status_t add_bans(wf_database_t *database, const char *hex, wf_timing_t *rows, size_t capacity,
                            size_t *count)
{
    static const char why[] = "is banned in the timing database ('wayfinder cache unban' takes it back)";
    sqlite3_stmt *statement = NULL;
    WF_TRY(wf_database_prepare(
        database, "SELECT DISTINCT tactic FROM mark WHERE kind='ban' AND problem IN ('', ?1)", &statement));
    bind_text(statement, 1, hex);
    wf_status_t status;
    while (wf_database_step(database, statement, &status)) {
        wf_timing_t ban = {.clean = true};
        size_t at = 0;
        column_text(statement, 0, ban.tactic, sizeof ban.tactic);
        while (at < *count && strcmp(rows[at].tactic, ban.tactic) != 0)
            at++;
        if (at == *count && *count < capacity)
            rows[(*count)++] = ban;
        if (at < *count)
            (void)snprintf(rows[at].quarantine, sizeof rows[at].quarantine, "%s", why);
    }
    sqlite3_finalize(statement);
    return status;
}

wf_status_t wf_database_find(wf_database_t *database, const wf_problem_t *problem, wf_timing_t *out_rows,
                             size_t capacity, size_t *out_count)
{
    sqlite3_stmt *statement = NULL;
    char hex[33];
    *out_count = 0;
    problem_hex(problem, hex);
    WF_TRY(wf_database_prepare(
        database, "SELECT " TIMING_COLUMNS " FROM timing WHERE " TIMING_KEY " ORDER BY tactic", &statement));
    bind_key(statement, hex, database->device_id, &database->scope);
    wf_status_t status = WF_OK;
    while (*out_count < capacity && wf_database_step(database, statement, &status)) {
        out_rows[*out_count] = wf_timing_read(statement);
        if (wf_timing_possible(&out_rows[*out_count]))
            ++*out_count;
        else
            database->skipped++;
    }
    sqlite3_finalize(statement);
    return status == WF_OK ? add_bans(database, hex, out_rows, capacity, out_count) : status;
}

/* ---- Misses ---- */

static const struct {
    const char *name, *text;
} misses[] = {
    {"", ""},
#define X(symbol, name, text) {name, text},
#include "tune/misses.def"
#undef X
};

const char *wf_miss_name(wf_miss_t miss)
{
    return misses[miss].name;
}

const char *wf_miss_text(wf_miss_t miss)
{
    return misses[miss].text;
}

/* The part of a fingerprint before the versions of libraries. */
static size_t machine_bytes(const char *fingerprint)
{
    const char *last = strstr(fingerprint, " quota_milli=");
    return last != NULL ? (size_t)(last - fingerprint) + 1 + strcspn(last + 1, " ") : strlen(fingerprint);
}

static wf_miss_t miss_of(const wf_database_t *database, sqlite3_stmt *statement)
{
    const wf_database_scope_t *scope = &database->scope;
    const char *device = (const char *)sqlite3_column_text(statement, 1);
    if (device == NULL)
        return WF_MISS_OTHER_DEVICE;
    if (strcmp(device, scope->device) != 0) {
        size_t bytes = machine_bytes(device);
        bool same = bytes == machine_bytes(scope->device) && memcmp(device, scope->device, bytes) == 0;
        return same ? WF_MISS_OTHER_LIBRARY : WF_MISS_OTHER_DEVICE;
    }
    if (sqlite3_column_int64(statement, 3) != scope->protocol)
        return WF_MISS_OTHER_PROTOCOL;
    return sqlite3_column_int64(statement, 2) != scope->threads ? WF_MISS_OTHER_THREADS : WF_MISS_IMPOSSIBLE;
}

wf_status_t wf_database_why(wf_database_t *database, const wf_problem_t *problem, const char *const *tactics,
                            size_t count, wf_miss_t *out_misses)
{
    sqlite3_stmt *statement = NULL;
    char hex[33];
    bool any = false;
    problem_hex(problem, hex);
    for (size_t i = 0; i < count; i++)
        out_misses[i] = WF_MISS_NEW_TACTIC;
    WF_TRY(wf_database_prepare(database,
                               "SELECT tactic, fingerprint, threads, protocol FROM timing JOIN device ON"
                               " device.id=timing.device WHERE problem=?1",
                               &statement));
    bind_text(statement, 1, hex);
    wf_status_t status;
    while (wf_database_step(database, statement, &status)) {
        const char *tactic = (const char *)sqlite3_column_text(statement, 0);
        any = true;
        for (size_t i = 0; tactic != NULL && i < count; i++) {
            if (strcmp(tactics[i], tactic) == 0)
                out_misses[i] = WF_MAX(out_misses[i], miss_of(database, statement));
        }
    }
    sqlite3_finalize(statement);
    for (size_t i = 0; !any && i < count; i++)
        out_misses[i] = WF_MISS_NEW_PROBLEM;
    return status;
}

/* ---- Merging ---- */

/* What becomes of a row that is there when another one comes. */
static wf_timing_t merged(const wf_timing_t *old, const wf_timing_t *new)
{
    wf_timing_t out = *old;
    bool replaces =
        old->log_ratio.count == 0 || strcmp(old->anchor, new->anchor) != 0 || (new->clean && !old->clean);
    if (new->log_ratio.count > 0 && replaces) {
        out = *new;
    } else if (new->log_ratio.count > 0 && new->clean == old->clean) {
        wf_welford_merge(&out.log_ratio, &new->log_ratio);
        out.anchor_ns = fmin(old->anchor_ns, new->anchor_ns);
        out.min_ns = fmin(old->min_ns, new->min_ns);
        out.canary_ns = fmin(old->canary_ns, new->canary_ns);
    }
    out.day = new->log_ratio.count > 0 && (replaces || new->clean == old->clean) ? new->day : old->day;
    const char *reason = new->quarantine[0] != '\0' ? new->quarantine : old->quarantine;
    (void)snprintf(out.quarantine, sizeof out.quarantine, "%s", reason);
    return out;
}

static wf_status_t find_one(wf_database_t *database, const char *problem, int64_t device_id,
                            const wf_database_scope_t *scope, const char *tactic, wf_timing_t *out_timing,
                            bool *out_found)
{
    sqlite3_stmt *statement = NULL;
    WF_TRY(wf_database_prepare(
        database, "SELECT " TIMING_COLUMNS " FROM timing WHERE " TIMING_KEY " AND tactic=?6", &statement));
    bind_key(statement, problem, device_id, scope);
    bind_text(statement, 6, tactic);
    wf_status_t status;
    *out_found = wf_database_step(database, statement, &status);
    if (*out_found) {
        *out_timing = wf_timing_read(statement);
        *out_found = wf_timing_possible(out_timing);
    }
    sqlite3_finalize(statement);
    return status;
}

/* Of two records of the same measurements the longer one; so importing twice changes nothing. */
static wf_timing_t longer(const wf_timing_t *old, const wf_timing_t *new)
{
    wf_timing_t out = new->log_ratio.count > old->log_ratio.count ? *new : *old;
    const char *reason = new->quarantine[0] != '\0' ? new->quarantine : old->quarantine;
    (void)snprintf(out.quarantine, sizeof out.quarantine, "%s", reason);
    return out;
}

wf_status_t wf_database_merge(wf_database_t *database, const char *problem, int64_t device_id,
                              const wf_database_scope_t *scope, const wf_timing_t *timing, bool imported)
{
    wf_timing_t old, row = *timing;
    bool found;
    if (row.day == 0 && !imported)
        row.day = wf_database_today();
    WF_TRY(find_one(database, problem, device_id, scope, timing->tactic, &old, &found));
    if (found)
        row = imported ? longer(&old, &row) : merged(&old, &row);
    sqlite3_stmt *statement = NULL;
    WF_TRY(wf_database_prepare(
        database,
        "INSERT OR REPLACE INTO timing(problem,threads,device,protocol,context," TIMING_COLUMNS
        ") VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16)",
        &statement));
    bind_key(statement, problem, device_id, scope);
    bind_text(statement, 6, row.tactic);
    bind_text(statement, 7, row.anchor);
    sqlite3_bind_int64(statement, 8, (int64_t)row.log_ratio.count);
    sqlite3_bind_double(statement, 9, row.log_ratio.mean);
    sqlite3_bind_double(statement, 10, row.log_ratio.m2);
    sqlite3_bind_double(statement, 11, row.anchor_ns);
    sqlite3_bind_double(statement, 12, row.min_ns);
    sqlite3_bind_double(statement, 13, row.canary_ns);
    sqlite3_bind_int(statement, 14, row.clean);
    bind_text(statement, 15, row.quarantine);
    sqlite3_bind_int64(statement, 16, row.day);
    return finish(database, statement);
}

wf_status_t wf_database_add_problem(wf_database_t *database, const char *hex, const char *text)
{
    sqlite3_stmt *statement = NULL;
    WF_TRY(
        wf_database_prepare(database, "INSERT OR IGNORE INTO problem(hash,text) VALUES(?1,?2)", &statement));
    bind_text(statement, 1, hex);
    bind_text(statement, 2, text);
    return finish(database, statement);
}

wf_status_t wf_database_end(wf_database_t *database, wf_status_t status)
{
    if (status == WF_OK)
        status = wf_database_run(database, "COMMIT");
    if (status != WF_OK)
        wf_status_ignore(wf_database_run(database, "ROLLBACK"));
    return status;
}

wf_status_t wf_database_record(wf_database_t *database, const wf_problem_t *problem, const wf_timing_t *rows,
                               size_t count, bool imported)
{
    char hex[33];
    problem_hex(problem, hex);
    WF_TRY(wf_database_run(database, "BEGIN IMMEDIATE"));
    wf_status_t status = wf_database_add_problem(database, hex, problem->text);
    for (size_t i = 0; status == WF_OK && i < count; i++) {
        assert(wf_timing_possible(&rows[i]));
        status = wf_database_merge(database, hex, database->device_id, &database->scope, &rows[i], imported);
    }
    return wf_database_end(database, status);
}

/* ---- Outcomes ---- */

wf_status_t wf_database_put_outcome(wf_database_t *database, const wf_outcome_t *outcome)
{
    sqlite3_stmt *statement = NULL;
    WF_TRY(wf_database_prepare(
        database,
        "INSERT OR REPLACE INTO outcome(base,device,protocol,lock,ratio,ratio_low,ratio_high,default_ns,"
        "default_low_ns,default_high_ns,final_ns,final_low_ns,final_high_ns,budget_s,adopted,converged)"
        " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16)",
        &statement));
    const double numbers[] = {outcome->ratio,      outcome->ratio_low,      outcome->ratio_high,
                              outcome->default_ns, outcome->default_low_ns, outcome->default_high_ns,
                              outcome->final_ns,   outcome->final_low_ns,   outcome->final_high_ns,
                              outcome->budget_s};
    bind_text(statement, 1, outcome->base);
    sqlite3_bind_int64(statement, 2, database->device_id);
    sqlite3_bind_int64(statement, 3, database->scope.protocol);
    bind_text(statement, 4, outcome->lock);
    for (size_t i = 0; i < WF_COUNT_OF(numbers); i++)
        sqlite3_bind_double(statement, 5 + (int)i, numbers[i]);
    sqlite3_bind_int(statement, 15, outcome->adopted);
    sqlite3_bind_int(statement, 16, outcome->converged);
    return finish(database, statement);
}

static wf_status_t read_outcome(wf_database_t *database, sqlite3_stmt *statement, wf_outcome_t *outcome)
{
    double *const numbers[] = {&outcome->ratio,      &outcome->ratio_low,      &outcome->ratio_high,
                               &outcome->default_ns, &outcome->default_low_ns, &outcome->default_high_ns,
                               &outcome->final_ns,   &outcome->final_low_ns,   &outcome->final_high_ns,
                               &outcome->budget_s};
    for (size_t i = 0; i < WF_COUNT_OF(numbers); i++)
        *numbers[i] = sqlite3_column_double(statement, 1 + (int)i);
    outcome->adopted = sqlite3_column_int(statement, 11) != 0;
    outcome->converged = sqlite3_column_int(statement, 12) != 0;
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    size_t bytes = text != NULL ? strlen(text) + 1 : 1;
    char *copy;
    WF_TRY(wf_alloc(database->allocator, bytes, 1, &copy));
    memcpy(copy, text != NULL ? text : "", bytes);
    outcome->lock = copy;
    return WF_OK;
}

static bool outcome_possible(const wf_outcome_t *outcome)
{
    return outcome->ratio > 0 && outcome->ratio < 100 && outcome->ratio_low > 0 &&
           outcome->ratio_low <= outcome->ratio_high && isfinite(outcome->ratio_high) &&
           outcome->default_ns > 0 && isfinite(outcome->default_ns) && outcome->final_ns > 0 &&
           isfinite(outcome->final_ns) && outcome->budget_s >= 0 && outcome->lock[0] != '\0';
}

wf_status_t wf_database_find_outcome(wf_database_t *database, const char base[33], wf_outcome_t *out_outcome,
                                     bool *out_found)
{
    sqlite3_stmt *statement = NULL;
    *out_outcome = (wf_outcome_t){0};
    *out_found = false;
    WF_TRY(wf_database_prepare(
        database,
        "SELECT "
        "lock,ratio,ratio_low,ratio_high,default_ns,default_low_ns,default_high_ns,final_ns,final_low_ns,"
        "final_high_ns,budget_s,adopted,converged FROM outcome WHERE base=?1 AND device=?2 AND protocol=?3",
        &statement));
    bind_text(statement, 1, base);
    sqlite3_bind_int64(statement, 2, database->device_id);
    sqlite3_bind_int64(statement, 3, database->scope.protocol);
    wf_status_t status;
    if (wf_database_step(database, statement, &status)) {
        (void)snprintf(out_outcome->base, sizeof out_outcome->base, "%s", base);
        status = read_outcome(database, statement, out_outcome);
        *out_found = status == WF_OK && outcome_possible(out_outcome);
        if (status == WF_OK && !*out_found) {
            database->skipped++;
            wf_outcome_deinit(out_outcome, database->allocator);
        }
    }
    sqlite3_finalize(statement);
    return status;
}

void wf_outcome_deinit(wf_outcome_t *outcome, wf_allocator_t allocator)
{
    if (outcome->lock != NULL)
        wf_free(allocator, (void *)(uintptr_t)outcome->lock, strlen(outcome->lock) + 1, 1);
    *outcome = (wf_outcome_t){0};
}
