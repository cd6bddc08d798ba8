/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define SCHEMA_VERSION 1
#define RECORD_MAX_BYTES ((size_t)256 << 20)

/* ---- Where ---- */

static bool default_path(const char *key, char *out, size_t capacity)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (state != NULL && state[0] == '/')
        length = snprintf(out, capacity, "%s/wayfinder/records/%s.jsonl", state, key);
    else if (home != NULL && home[0] == '/')
        length = snprintf(out, capacity, "%s/.local/state/wayfinder/records/%s.jsonl", home, key);
    return length > 0 && (size_t)length < capacity;
}

static void make_folder_of(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    wf_status_ignore(wf_folder_make(folder));
}

/* Opened for appending and locked for us alone. -1 with *out_error; EAGAIN: somebody else's. */
static int open_locked(const char *path, int *out_error)
{
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat facts;
    *out_error = fd < 0 ? errno : 0;
    if (fd >= 0 && (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)))
        *out_error = EINVAL;
    else if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) != 0)
        *out_error = errno == EACCES ? EAGAIN : errno;
    if (*out_error != 0 && fd >= 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* ---- Reading what is there ---- */

typedef struct record {
    json_t *header;    /* NULL: none */
    json_t *lines;     /* after the header */
    size_t good_bytes; /* up to the end of the last whole line */
    bool empty, finished, broken;
} record_t;

static bool line_is(const json_t *line, const char *type)
{
    const char *text = json_string_value(json_object_get(line, "type"));
    return text != NULL && strcmp(text, type) == 0;
}

/* One line into the record; false when it is no line of a record. */
static bool take_line(record_t *record, const char *text, size_t bytes)
{
    json_t *line = json_loadb(text, bytes, 0, NULL);
    if (!json_is_object(line)) {
        json_decref(line);
        return false;
    }
    if (record->header == NULL) {
        if (!line_is(line, "header")) {
            json_decref(line);
            return false;
        }
        record->header = line;
        return true;
    }
    record->finished = line_is(line, "end");
    return json_array_append_new(record->lines, line) == 0;
}

static void parse_record(record_t *record, const char *text, size_t bytes)
{
    record->empty = bytes == 0;
    if (bytes == 0)
        return;
    for (size_t at = 0; at < bytes;) {
        const char *stop = memchr(text + at, '\n', bytes - at);
        if (stop == NULL)
            break; /* torn */
        size_t length = (size_t)(stop - (text + at));
        if (!take_line(record, text + at, length)) {
            /* A torn block may lie before lines that were appended later only when something else wrote. */
            record->broken = at + length + 1 < bytes || record->header == NULL;
            break;
        }
        at += length + 1;
        record->good_bytes = at;
    }
    /* Torn in its very first line. */
    static const char start[] = "{\"type\":\"header\"";
    if (memchr(text, '\n', bytes) == NULL &&
        memcmp(text, start, bytes < sizeof start ? bytes : sizeof start - 1) == 0)
        record->empty = true;
    if (!record->empty && record->header == NULL)
        record->broken = true;
}

static wf_status_t read_record(int fd, wf_allocator_t allocator, record_t *out_record)
{
    struct stat facts;
    char *text = NULL;
    *out_record = (record_t){.lines = json_array()};
    if (out_record->lines == NULL)
        return wf_status_out_of_memory();
    if (fstat(fd, &facts) != 0 || (uint64_t)facts.st_size > RECORD_MAX_BYTES) {
        out_record->broken = true;
        return WF_OK;
    }
    size_t bytes = (size_t)facts.st_size, at = 0;
    WF_TRY(wf_alloc(allocator, bytes, 1, &text));
    while (at < bytes) {
        ssize_t got = pread(fd, text + at, bytes - at, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        at += (size_t)got;
    }
    parse_record(out_record, text, at);
    wf_free(allocator, text, bytes, 1);
    return WF_OK;
}

static void record_free(record_t *record)
{
    json_decref(record->header);
    json_decref(record->lines);
    *record = (record_t){0};
}

/* NULL: it is a record of this key; else what it is. */
static const char *mismatch(const record_t *record, const char *key)
{
    if (record->empty)
        return NULL;
    if (record->header == NULL || record->broken)
        return "is no tuning record";
    if (json_integer_value(json_object_get(record->header, "schema_version")) != SCHEMA_VERSION)
        return "is a tuning record of another version";
    const char *own = json_string_value(json_object_get(record->header, "key"));
    if (own == NULL || strcmp(own, key) != 0)
        return "is the record of another tuning: model, shapes, device or settings differ";
    return NULL;
}

/* ---- Opening ---- */

static wf_status_t begin(wf_journal_t *journal, const wf_journal_options_t *options)
{
    json_t *line =
        json_pack("{s:s s:i s:s}", "type", "header", "schema_version", SCHEMA_VERSION, "key", options->key);
    if (line != NULL && options->header != NULL && json_object_update_missing(line, options->header) != 0) {
        json_decref(line);
        line = NULL;
    }
    return wf_journal_add(journal, line);
}

/* Puts an old record aside and opens an empty one, locked. */
static int start_anew(wf_journal_t *journal, int *out_error)
{
    char previous[4200];
    (void)snprintf(previous, sizeof previous, "%s.previous", journal->path);
    if (rename(journal->path, previous) != 0) {
        *out_error = errno;
        return -1;
    }
    (void)close(journal->fd); /* its lock went with the old file */
    return open_locked(journal->path, out_error);
}

static wf_status_t resume_or_begin(wf_journal_t *journal, const wf_journal_options_t *options,
                                   record_t *record)
{
    int error = 0;
    if (!record->empty && (record->finished || options->fresh)) {
        journal->fd = start_anew(journal, &error);
        if (journal->fd < 0)
            return wf_status_from_errno(error, WF_CODE_FILE_UNWRITABLE, "begin", journal->path);
    } else if (!record->empty) {
        if (ftruncate(journal->fd, (off_t)record->good_bytes) != 0)
            return wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "write", journal->path);
        journal->resumed = true;
        journal->line_count = 1 + json_array_size(record->lines);
        journal->earlier = json_incref(record->lines);
        return WF_OK;
    }
    if (ftruncate(journal->fd, 0) != 0)
        return wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "write", journal->path);
    return begin(journal, options);
}

/* The record at journal->path, or why it cannot be ours. */
static wf_status_t open_path(wf_journal_t *journal, const wf_journal_options_t *options)
{
    int error;
    make_folder_of(journal->path);
    journal->fd = open_locked(journal->path, &error);
    if (journal->fd < 0 && error == EAGAIN) {
        return WF_ERROR(RECORD_MISMATCH, "another tuning is writing the record %s", journal->path);
    }
    if (journal->fd < 0 && error == EINVAL)
        return WF_ERROR(RECORD_MISMATCH, "%s is no file that can be a tuning record", journal->path);
    if (journal->fd < 0)
        return wf_status_from_errno(error, WF_CODE_FILE_UNWRITABLE, "write", journal->path);
    record_t record;
    wf_status_t status = read_record(journal->fd, journal->allocator, &record);
    const char *why = status == WF_OK ? mismatch(&record, options->key) : NULL;
    if (why != NULL) {
        status = wf_status_hinted(WF_ERROR(RECORD_MISMATCH, "%s %s", journal->path, why),
                                  "name another file with --record, or remove this one");
    }
    if (status == WF_OK)
        status = resume_or_begin(journal, options, &record);
    record_free(&record);
    return status;
}

wf_status_t wf_journal_open(const wf_journal_options_t *options, wf_allocator_t allocator,
                            wf_journal_t **out_journal)
{
    *out_journal = NULL;
    wf_journal_t *journal = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *journal, &journal));
    journal->allocator = allocator;
    journal->fd = -1;
    wf_status_t status = WF_OK;
    if (options->path != NULL) {
        if ((size_t)snprintf(journal->path, sizeof journal->path, "%s", options->path) >=
            sizeof journal->path)
            status = WF_ERROR(USAGE, "the path of the record is too long");
        else
            status = open_path(journal, options);
    } else if (default_path(options->key, journal->path, sizeof journal->path)) {
        /* A record that nobody asked for is no reason to stop. */
        status = open_path(journal, options);
        if (status != WF_OK && wf_status_code(status) != WF_CODE_OUT_OF_MEMORY) {
            (void)snprintf(journal->note, sizeof journal->note, "no record is kept: %.400s",
                           wf_status_message(status));
            wf_status_free(status);
            status = WF_OK;
            if (journal->fd >= 0)
                (void)close(journal->fd);
            journal->fd = -1;
            journal->path[0] = '\0';
        }
    }
    if (status == WF_OK)
        *out_journal = journal;
    else
        wf_journal_close(journal);
    return status;
}

void wf_journal_close(wf_journal_t *journal)
{
    if (journal == NULL)
        return;
    if (journal->fd >= 0)
        (void)close(journal->fd);
    json_decref(journal->earlier);
    wf_free(journal->allocator, journal, 1, sizeof *journal);
}

/* ---- Writing ---- */

/* One write call, so that a line is whole or torn at the end of the file, then onto the disk. */
static wf_status_t write_line(const wf_journal_t *journal, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t written = write(journal->fd, text + at, bytes - at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "write", journal->path);
        at += (size_t)written;
    }
    if (fdatasync(journal->fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        return wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "sync", journal->path);
    return WF_OK;
}

wf_status_t wf_journal_add(wf_journal_t *journal, json_t *line)
{
    if (line == NULL)
        return wf_status_out_of_memory();
    if (journal->fd < 0) {
        json_decref(line);
        return WF_OK;
    }
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(17);
    size_t length = json_dumpb(line, NULL, 0, flags);
    char *text = NULL;
    wf_status_t status =
        length > 0 ? wf_alloc(journal->allocator, length + 1, 1, &text) : wf_status_out_of_memory();
    if (status == WF_OK) {
        (void)json_dumpb(line, text, length, flags);
        text[length] = '\n';
        status = write_line(journal, text, length + 1);
        wf_free(journal->allocator, text, length + 1, 1);
        if (status != WF_OK) {
            (void)close(journal->fd);
            journal->fd = -1;
        } else {
            journal->line_count++;
        }
    }
    json_decref(line);
    return status;
}
