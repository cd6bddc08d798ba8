/* SPDX-License-Identifier: Apache-2.0 */
/* Timing database: what was measured, kept for the next tuning. SQLite, one file, private to the user.
 *
 * A row is a tactic of a problem on a device with a number of threads under a protocol: the log ratio of its
 * time to that of the problem's anchor tactic in the same blocks, and the anchor's own time. Rows of other
 * devices, versions or protocols lie in the same file and are not seen. The file is untrusted: a row that
 * cannot be is skipped, a file that is damaged is set aside (".corrupt-1") and a new one begun, a database
 * that is not ours or of a newer schema is left alone (CACHE_INVALID).
 * Any number of processes may use it at once. Where it cannot be written, a copy in memory is used and
 * wf_database_note says so. One thread uses a handle at a time.
 */
#ifndef WF_TUNE_DATABASE_H
#define WF_TUNE_DATABASE_H

#include "base/hash.h"
#include "base/mem.h"
#include "tune/stats.h"
#include "wayfinder/backend.h"

struct sqlite3;
struct sqlite3_stmt;

#define WF_DATABASE_SCHEMA 2 /* schema 1 had no days and no marks; it is brought up when opened */
#define WF_DATABASE_APPLICATION 0x57464442 /* "WFDB" */

/* Whose rows a handle sees and writes. */
typedef struct wf_database_scope {
    const char *device; /* fingerprint with versions of libraries, one line */
    uint32_t threads, protocol;
    const char *context; /* "cold" */
} wf_database_scope_t;

typedef struct wf_database {
    wf_allocator_t allocator;
    struct sqlite3 *db;
    char path[4096]; /* "" when it lives in memory only */
    char note[512];  /* "" or what to tell the user */
    bool read_only;  /* what is recorded is gone with the handle */
    int64_t device_id;
    wf_database_scope_t scope; /* texts borrowed */
    uint64_t skipped;          /* rows that could not be */
} wf_database_t;

/* path NULL: XDG_CACHE_HOME/wayfinder/timings.db, HOME/.cache/... ; makes file and folder (0600, 0700). scope
 * NULL: a handle for whole-file work (cache verbs). CACHE_INVALID, OUT_OF_MEMORY, DISK_FULL. On failure *out
 * is NULL. */
wf_status_t wf_database_open(const char *path, const wf_database_scope_t *scope, wf_allocator_t allocator,
                             wf_database_t **out_database) WF_MUST_USE;
/* A copy in memory of the file at `path`, which is left as it is. CACHE_INVALID when it is damaged or
 * foreign. */
wf_status_t wf_database_open_copy(const char *path, wf_allocator_t allocator,
                                  wf_database_t **out_database) WF_MUST_USE;
void wf_database_close(wf_database_t *database);
/* The path that NULL stands for; false when the user has no home. */
bool wf_database_default_path(char *out_path, size_t capacity);

typedef struct wf_timing {
    char tactic[WF_TACTIC_ID_MAX], anchor[WF_TACTIC_ID_MAX];
    wf_welford_t log_ratio; /* log(time / anchor's time), one value per block; count 0: only quarantined */
    double anchor_ns;       /* of one launch, a low quantile over blocks; the least of all sessions */
    double min_ns;          /* of this tactic */
    double canary_ns;
    int64_t day;          /* of the last measurement, since 1970-01-01; 0: not known. record: 0 is today */
    bool clean;           /* the canary and the system saw nobody else */
    char quarantine[256]; /* "" or why it must not be used */
} wf_timing_t;

/* A row is trusted for this long; then it is used, but measured again when that is worth something. Frequency
 * governors, firmware and kernels change under a fingerprint that stays the same. */
#define WF_TIMING_DAYS_MAX 180
/* Today, in days since 1970-01-01 (UTC). */
int64_t wf_database_today(void);

/* Adds rows of one problem in one transaction. A row that is there: the same anchor and the same quality
 * merge; a clean row replaces one that is not, and is kept when the new one is not; another anchor replaces.
 * A quarantine stays. imported: rows may be the same measurements as those that are there; the longer record
 * is kept. CACHE_INVALID, DISK_FULL. */
wf_status_t wf_database_record(wf_database_t *database, const wf_problem_t *problem, const wf_timing_t *rows,
                               size_t count, bool imported) WF_MUST_USE;
/* All rows of a problem, by tactic; at most capacity. Tactics that are banned for it come with that as their
 * quarantine, also those without a row (count 0). */
wf_status_t wf_database_find(wf_database_t *database, const wf_problem_t *problem, wf_timing_t *out_rows,
                             size_t capacity, size_t *out_count) WF_MUST_USE;

/* Why find had no row of a tactic that this device, thread count and protocol can use. */
typedef enum wf_miss {
    WF_MISS_NONE,
#define X(symbol, name, text) WF_MISS_##symbol,
#include "tune/misses.def"
#undef X
    WF_MISS_COUNT
} wf_miss_t;
/* "other_device", and what a person reads: "measured on another device". "" for NONE. */
const char *wf_miss_name(wf_miss_t miss);
const char *wf_miss_text(wf_miss_t miss);
/* The most telling reason for each tactic of a problem that find did not give; NEW_PROBLEM or NEW_TACTIC when
 * nobody ever measured it. */
wf_status_t wf_database_why(wf_database_t *database, const wf_problem_t *problem, const char *const *tactics,
                            size_t count, wf_miss_t *out_misses) WF_MUST_USE;

/* What a whole tuning came to, by the default plan that it started from. */
typedef struct wf_outcome {
    char base[33];    /* XXH3-128 of the default's lock: model, shapes, settings, threads, device, plan */
    const char *lock; /* of the engine that was written; from find: freed with wf_outcome_deinit */
    double ratio, ratio_low, ratio_high;
    double default_ns, default_low_ns, default_high_ns;
    double final_ns, final_low_ns, final_high_ns;
    double budget_s;
    bool adopted, converged; /* converged: more time would have found nothing more */
} wf_outcome_t;
wf_status_t wf_database_put_outcome(wf_database_t *database, const wf_outcome_t *outcome) WF_MUST_USE;
wf_status_t wf_database_find_outcome(wf_database_t *database, const char base[33], wf_outcome_t *out_outcome,
                                     bool *out_found) WF_MUST_USE;
void wf_outcome_deinit(wf_outcome_t *outcome, wf_allocator_t allocator);

/* ---- For cache verbs (database_verbs.c) ---- */
wf_status_t wf_database_prepare(wf_database_t *database, const char *sql,
                                struct sqlite3_stmt **out_statement) WF_MUST_USE;
/* True while there is a row; false at the end (*out_status WF_OK) or on failure. */
bool wf_database_step(wf_database_t *database, struct sqlite3_stmt *statement, wf_status_t *out_status);
wf_status_t wf_database_run(wf_database_t *database, const char *sql) WF_MUST_USE;
/* The row of a device, made when it is not there. */
wf_status_t wf_database_device(wf_database_t *database, const char *fingerprint, int64_t *out_id) WF_MUST_USE;
/* Checks what a row of the file says; false: it cannot be. */
bool wf_timing_possible(const wf_timing_t *timing);
/* Columns of the table that make a wf_timing_t, and a row of them, from column 0. */
#define WF_DATABASE_TIMING_COLUMNS \
    "tactic,anchor,count,mean,m2,anchor_ns,min_ns,canary_ns,clean,quarantine,day"
wf_timing_t wf_timing_read(struct sqlite3_stmt *statement);
/* One row merged into the table, inside a transaction of the caller. `problem` is the hash in hex. */
wf_status_t wf_database_merge(wf_database_t *database, const char *problem, int64_t device_id,
                              const wf_database_scope_t *scope, const wf_timing_t *timing,
                              bool imported) WF_MUST_USE;
wf_status_t wf_database_add_problem(wf_database_t *database, const char *hex, const char *text) WF_MUST_USE;
/* Ends a transaction: what was done is kept only when all of it went well. */
wf_status_t wf_database_end(wf_database_t *database, wf_status_t status) WF_MUST_USE;

#endif
