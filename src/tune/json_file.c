/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/json_file.h"

#include <stdio.h>

#include "base/file.h"

static int append(const char *bytes, size_t length, void *text)
{
    wf_text_append(text, bytes, length);
    return 0; /* a failure stays in the text */
}

wf_status_t wf_json_put(json_t *json, size_t flags, wf_text_t *out)
{
    int failed = json == NULL ? -1 : json_dump_callback(json, append, out, flags);
    json_decref(json);
    if (failed != 0)
        return wf_status_out_of_memory();
    wf_text_puts(out, "\n");
    return WF_OK;
}

wf_status_t wf_json_text(const json_t *json, wf_text_t *out)
{
    if (json == NULL || json_dump_callback(json, append, out, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) != 0)
        return wf_status_out_of_memory();
    wf_text_puts(out, "\n");
    return wf_text_take_status(out);
}

wf_status_t wf_json_write(const json_t *json, const char *path, wf_allocator_t allocator)
{
    wf_text_t text;
    wf_text_init(&text, allocator, UINT32_MAX);
    wf_status_t status = wf_json_text(json, &text);
    if (status == WF_OK)
        status = wf_file_write(path, 0644, text.data, text.length);
    wf_text_deinit(&text);
    return status;
}

wf_status_t wf_json_read(const char *path, size_t limit_bytes, wf_allocator_t allocator, json_t **out_json,
                         char *what, size_t what_bytes)
{
    char *text;
    size_t bytes;
    json_error_t error;
    *out_json = NULL;
    what[0] = '\0';
    WF_TRY(wf_file_read(path, limit_bytes, allocator, &text, &bytes));
    *out_json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    wf_free(allocator, text, bytes + 1, 1);
    if (*out_json == NULL)
        (void)snprintf(what, what_bytes, "line %d, column %d: %s", error.line, error.column, error.text);
    return WF_OK;
}
