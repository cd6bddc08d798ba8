/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning record: what a tuning did, one JSON object a line, synced line by line.
 *
 * The first line says whose record it is: a hash of model, shapes, device and settings (not the budget). A
 * record without a last line of type "end" is unfinished, and the same command goes on with it. A torn last
 * line, from a power failure or kill -9, is dropped. While a tuning runs its record is locked. Lines of
 * trials have the fields that TensorRT's tuner writes (iter, build_route, crash, error_message,
 * accuracy_loss, gpu_time in ms) and more.
 */
#ifndef WF_TUNE_JOURNAL_H
#define WF_TUNE_JOURNAL_H

#include <jansson.h>

#include "base/mem.h"

typedef struct wf_journal {
    wf_allocator_t allocator;
    char path[4096];
    int fd; /* -1: kept nowhere; lines are dropped */
    bool resumed;
    size_t line_count;
    json_t *earlier; /* array: the lines of the run that is resumed, without the header */
    char note[512];  /* "" or what to tell the user */
} wf_journal_t;

typedef struct wf_journal_options {
    const char *path; /* NULL: the user's state folder, named by the key */
    const char *key;  /* 32 hex digits: model, shapes, device, settings */
    json_t *header;   /* further fields of the first line; borrowed */
    bool fresh;       /* begin anew where an unfinished record is */
} wf_journal_options_t;

/* Begins or resumes. A finished record (or, with fresh, an unfinished one) is renamed to PATH.previous.
 * RECORD_MISMATCH when `path` was named and holds something else: a record of another key, another schema, no
 * record at all, or a record that another tuning is writing. A record that cannot be written (read-only
 * folder, full disk) is no failure unless it was named (FILE_UNWRITABLE): see note. On failure *out_journal
 * is NULL. */
wf_status_t wf_journal_open(const wf_journal_options_t *options, wf_allocator_t allocator,
                            wf_journal_t **out_journal) WF_MUST_USE;
/* Closes; a record without "end" can be resumed. NULL is allowed. */
void wf_journal_close(wf_journal_t *journal);
/* Appends a line and syncs it. Takes `line` over; NULL (no memory) is OUT_OF_MEMORY. DISK_FULL,
 * FILE_UNWRITABLE: the journal is then closed for good, later lines are dropped. */
wf_status_t wf_journal_add(wf_journal_t *journal, json_t *line) WF_MUST_USE;

#endif
