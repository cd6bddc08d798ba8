/* SPDX-License-Identifier: Apache-2.0 */
/* Files: mapped reading, atomic writing, paths that stay inside a folder. */
#ifndef WF_BASE_FILE_H
#define WF_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

/* A whole file, mapped read-only and private. An empty file has data NULL and bytes 0. */
typedef struct wf_mapping {
    const uint8_t *data;
    size_t bytes;
} wf_mapping_t;

/* Maps a regular file. FILE_MISSING, FILE_UNREADABLE (a folder, a device, no permission). */
wf_status_t wf_mapping_open(const char *path, wf_mapping_t *out_mapping) WF_MUST_USE;
/* Maps `name` inside the folder `folder`: relative, no "..", no absolute path, no symbolic link on any
 * component (openat2 RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS where the kernel has it, else component by component
 * with O_NOFOLLOW). EXTERNAL_DATA when the name is not such a path or a link is met; FILE_MISSING,
 * FILE_UNREADABLE otherwise. */
wf_status_t wf_mapping_open_inside(const char *folder, const char *name,
                                   wf_mapping_t *out_mapping) WF_MUST_USE;
void wf_mapping_close(wf_mapping_t *mapping);
/* Tells the system that pages of [data, data+bytes) are not needed any more (MADV_DONTNEED, whole pages
 * inside). */
void wf_mapping_drop(const void *data, size_t bytes);

/* A file being written beside `path` under a temporary name; nothing is seen at `path` before commit. */
typedef struct wf_atomic_file wf_atomic_file_t;
/* FILE_UNWRITABLE, DISK_FULL. mode: 0644 or 0600 (before umask). */
wf_status_t wf_atomic_file_begin(const char *path, uint32_t mode, wf_allocator_t allocator,
                                 wf_atomic_file_t **out_file) WF_MUST_USE;
wf_status_t wf_atomic_file_write(wf_atomic_file_t *file, const void *bytes, size_t length) WF_MUST_USE;
/* Syncs, renames over `path`, frees. On failure the temporary file is removed and `path` is as before; freed
 * too. */
wf_status_t wf_atomic_file_commit(wf_atomic_file_t *file) WF_MUST_USE;
/* Removes the temporary file and frees. NULL is allowed. */
void wf_atomic_file_abort(wf_atomic_file_t *file);
/* begin + write + commit. */
wf_status_t wf_file_write(const char *path, uint32_t mode, const void *bytes, size_t length) WF_MUST_USE;
/* Reads at most limit_bytes; more is FILE_UNREADABLE. *out is zero-terminated, *out_bytes + 1 allocated. */
wf_status_t wf_file_read(const char *path, size_t limit_bytes, wf_allocator_t allocator, char **out,
                         size_t *out_bytes) WF_MUST_USE;
/* True when there is nothing at `path`, or a file that is empty or begins with `magic`: one of ours. */
bool wf_file_may_replace(const char *path, const char *magic, size_t magic_bytes);
/* Makes a folder and its parents with mode 0700. */
wf_status_t wf_folder_make(const char *path) WF_MUST_USE;

#endif
