/* SPDX-License-Identifier: Apache-2.0 */
/* JSON files: read with a place for every mistake, written whole or not at all. */
#ifndef WF_TUNE_JSON_FILE_H
#define WF_TUNE_JSON_FILE_H

#include <jansson.h>

#include "base/mem.h"

/* Appends `json` (taken over) as text with these flags of jansson and a line's end. NULL is out of memory; a
 * failure of *out stays in it. */
wf_status_t wf_json_put(json_t *json, size_t flags, wf_text_t *out) WF_MUST_USE;
/* Indented text of `json` in *out, an initialised text. json NULL is out of memory. */
wf_status_t wf_json_text(const json_t *json, wf_text_t *out) WF_MUST_USE;
/* The same to a file, atomically, mode 0644. Statuses of wf_file_write. */
wf_status_t wf_json_write(const json_t *json, const char *path, wf_allocator_t allocator) WF_MUST_USE;
/* Statuses of wf_file_read. What is no JSON is no failure: *out_json is NULL and `what` says where and why.
 */
wf_status_t wf_json_read(const char *path, size_t limit_bytes, wf_allocator_t allocator, json_t **out_json,
                         char *what, size_t what_bytes) WF_MUST_USE;

#endif
