/* SPDX-License-Identifier: Apache-2.0 */
/* Archive: what a tuning came to, in one file: engine, lock, timings, baseline, report. */
#ifndef WAYFINDER_ARCHIVE_H
#define WAYFINDER_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "wayfinder/allocator.h"
#include "wayfinder/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names of parts that this version knows; others are kept and passed over. */
#define WF_ARCHIVE_ENGINE "engine"
#define WF_ARCHIVE_LOCK "lock"         /* text */
#define WF_ARCHIVE_TIMINGS "timings"   /* JSON lines of `cache export` */
#define WF_ARCHIVE_BASELINE "baseline" /* JSON */
#define WF_ARCHIVE_REPORT "report"     /* JSON of `tune --json` */

typedef struct wf_archive wf_archive_t;
typedef struct wf_archive_part {
    const char *name; /* 1 to 15 of a-z, 0-9, '-' */
    const void *data; /* NULL: no such part */
    size_t bytes;
} wf_archive_part_t;

/* Writes an archive: temporary file in the same folder, sync, rename. Parts whose data is NULL are left out.
 * USAGE for a name that cannot be or is there twice; FILE_EXISTS when `path` holds something that is no
 * archive and `force` is false; FILE_UNWRITABLE, DISK_FULL, OUT_OF_MEMORY. */
WF_API wf_status_t wf_archive_save(const wf_archive_part_t *parts, size_t part_count, const char *path,
                                   bool force, wf_allocator_t allocator) WF_MUST_USE;
/* Reads and checks a whole archive. FILE_MISSING, FILE_UNREADABLE, ARCHIVE_INVALID. On failure *out_archive
 * is NULL. */
WF_API wf_status_t wf_archive_open(const char *path, wf_allocator_t allocator,
                                   wf_archive_t **out_archive) WF_MUST_USE;
/* The part of that name; borrowed from the archive, 64-byte aligned. What is inside is as untrusted as the
 * file. */
WF_API wf_archive_part_t wf_archive_find(const wf_archive_t *archive, const char *name);
/* NULL is allowed. */
WF_API void wf_archive_close(wf_archive_t *archive);

#ifdef __cplusplus
}
#endif
#endif
