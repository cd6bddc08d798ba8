/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/database_marks.h"

#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "tune/json_file.h"

static const char *column(sqlite3_stmt *statement, int index)
{
    const char *text = (const char *)sqlite3_column_text(statement, index);
    return text != NULL ? text : "";
}

static wf_status_t list_marks(wf_database_t *database, const char *kind, bool json, wf_text_t *out)
{
    sqlite3_stmt *statement = NULL;
    json_t *rows = json_array();
    wf_status_t status =
        wf_database_prepare(database,
                            "SELECT mark.problem, mark.tactic, coalesce(problem.text, '') FROM mark LEFT JOIN"
                            " problem ON problem.hash=mark.problem WHERE kind=?1 ORDER BY 1, 2",
                            &statement);
    if (status == WF_OK)
        sqlite3_bind_text(statement, 1, kind, -1, SQLITE_TRANSIENT);
    while (status == WF_OK && wf_database_step(database, statement, &status)) {
        const char *hash = column(statement, 0), *tactic = column(statement, 1), *text = column(statement, 2);
        if (json) {
            json_t *row = json_pack("{s:s s:s s:s}", "hash", hash, "tactic", tactic, "problem", text);
            if (row == NULL || json_array_append_new(rows, row) != 0)
                status = wf_status_out_of_memory();
        } else {
            wf_text_printf(out, "%s %s %.12s %s\n", kind, tactic[0] != '\0' ? tactic : "every tactic",
                           hash[0] != '\0' ? hash : "everywhere", text);
        }
    }
    sqlite3_finalize(statement);
    if (status == WF_OK && json)
        return wf_json_put(json_pack("{s:i s:o}", "schema_version", 1, "marks", rows), JSON_COMPACT, out);
    json_decref(rows);
    return status;
}

/* The one problem whose hash begins so. */
static wf_status_t find_problem(wf_database_t *database, const char *prefix, char out_hash[33])
{
    sqlite3_stmt *statement = NULL;
    wf_status_t status;
    size_t count = 0;
    if (prefix[0] == '\0' || strspn(prefix, "0123456789abcdef") != strlen(prefix))
        return WF_ERROR(USAGE, "'%.60s' is no beginning of a problem's hash", prefix);
    WF_TRY(wf_database_prepare(database, "SELECT hash FROM problem WHERE hash LIKE ?1 || '%' LIMIT 2",
                               &statement));
    sqlite3_bind_text(statement, 1, prefix, -1, SQLITE_TRANSIENT);
    while (wf_database_step(database, statement, &status)) {
        (void)snprintf(out_hash, 33, "%s", column(statement, 0));
        count++;
    }
    sqlite3_finalize(statement);
    if (status == WF_OK && count != 1) {
        status = wf_status_hinted(
            WF_ERROR(USAGE, "%s problem of the timing database has a hash that begins with %.40s",
                     count == 0 ? "no" : "more than one", prefix),
            "'wayfinder cache ls' shows the hashes");
    }
    return status;
}

static wf_status_t change(wf_database_t *database, const char *sql, const char *kind, const char *hash,
                          const char *tactic, int *out_changes)
{
    sqlite3_stmt *statement = NULL;
    wf_status_t status;
    WF_TRY(wf_database_prepare(database, sql, &statement));
    sqlite3_bind_text(statement, 1, kind, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, 2, hash, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, 3, tactic, -1, SQLITE_TRANSIENT);
    while (wf_database_step(database, statement, &status)) {
    }
    sqlite3_finalize(statement);
    *out_changes = sqlite3_changes(database->db);
    return status;
}

wf_status_t wf_database_mark(wf_database_t *database, const char *verb, const char *argument, bool json,
                             wf_text_t *out)
{
    bool takes_back = strncmp(verb, "un", 2) == 0;
    const char *kind = takes_back ? verb + 2 : verb;
    char hash[33] = "", tactic[WF_TACTIC_ID_MAX] = "";
    int changes;
    if (argument == NULL)
        return list_marks(database, kind, json, out);
    if (database->read_only)
        return WF_ERROR(CACHE_INVALID, "%s", database->note);
    if (strcmp(kind, "pin") == 0) {
        WF_TRY(find_problem(database, argument, hash));
    } else {
        const char *at = strrchr(argument, '@');
        /* A tactic's revision also comes after an '@'; a hash has at least six digits. */
        bool one = at != NULL && strlen(at + 1) >= 6 && strspn(at + 1, "0123456789abcdef") == strlen(at + 1);
        int length = one ? (int)(at - argument) : (int)strlen(argument);
        if (length == 0 || (size_t)length >= sizeof tactic)
            return WF_ERROR(USAGE, "cache %s takes TACTIC or TACTIC@HASH", verb);
        (void)snprintf(tactic, sizeof tactic, "%.*s", length, argument);
        if (one)
            WF_TRY(find_problem(database, at + 1, hash));
    }
    const char *sql = takes_back ? "DELETE FROM mark WHERE kind=?1 AND problem=?2 AND tactic=?3"
                                 : "INSERT OR IGNORE INTO mark(kind,problem,tactic) VALUES(?1,?2,?3)";
    WF_TRY(change(database, sql, kind, hash, tactic, &changes));
    if (takes_back && changes == 0)
        return WF_ERROR(USAGE, "there is no %s of %s to take back", kind, argument);
    if (json)
        return wf_json_put(json_pack("{s:i s:s s:s s:s s:i}", "schema_version", 1, "verb", verb, "hash", hash,
                                     "tactic", tactic, "changed", changes),
                           JSON_COMPACT, out);
    wf_text_printf(out, "%s %s%s%s%s\n", verb, tactic, tactic[0] != '\0' && hash[0] != '\0' ? "@" : "", hash,
                   changes == 0 ? " (it was so already)" : "");
    return WF_OK;
}
