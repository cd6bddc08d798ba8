/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/utf8.h"

/* A message quotes names of untrusted models: cut it before it floods a terminal or a log. */
#define WF_STATUS_TEXT_MAX_BYTES 8000

/* Payload and texts come from malloc, not from an allocator that was passed in: a status outlives the object
 * whose allocator failed, and is made at places that have none. */
struct wf_status_payload {
    wf_code_t code;
    char *message;
    char *hint; /* NULL: none */
};

static char wf_out_of_memory_message[] = "out of memory";
static char wf_out_of_memory_hint[] = "use fewer threads, a smaller batch, or a machine with more memory";
static const struct wf_status_payload wf_out_of_memory_payload = {
    WF_CODE_OUT_OF_MEMORY,
    wf_out_of_memory_message,
    wf_out_of_memory_hint,
};

static const struct wf_code_row {
    wf_code_t code;
    int exit_code;
    const char *title;
} wf_code_rows[] = {
#define X(name, number, exit_code, title) {WF_CODE_##name, exit_code, title},
#include "wayfinder/errors.def"
#undef X
};

static const struct wf_code_row *wf_code_row_find(wf_code_t code)
{
    for (size_t i = 0; i < WF_COUNT_OF(wf_code_rows); i++) {
        if (wf_code_rows[i].code == code) {
            return &wf_code_rows[i];
        }
    }
    return NULL;
}

wf_status_t wf_status_out_of_memory(void)
{
    return (wf_status_t)(uintptr_t)&wf_out_of_memory_payload; /* never written through, never freed */
}

static bool wf_status_is_static(wf_status_t status)
{
    return status == (wf_status_t)(uintptr_t)&wf_out_of_memory_payload;
}

/* Formats into new memory, one line of valid UTF-8; NULL when there is no memory. */
static char *wf_status_format(const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int needed = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (needed < 0) {
        return NULL;
    }
    size_t capacity = WF_MIN((size_t)needed, (size_t)WF_STATUS_TEXT_MAX_BYTES) + 1;
    char *text = malloc(capacity);
    if (text == NULL) {
        return NULL;
    }
    vsnprintf(text, capacity, format, args);
    wf_utf8_sanitise(text);
    return text;
}

wf_status_t wf_status_make(wf_code_t code, const char *file, int line, const char *format, ...)
{
    struct wf_status_payload *payload = malloc(sizeof *payload);
    if (payload == NULL) {
        return wf_status_out_of_memory();
    }
    va_list args;
    va_start(args, format);
    *payload = (struct wf_status_payload){code, wf_status_format(format, args), NULL};
    va_end(args);
    if (payload->message == NULL) {
        free(payload);
        return wf_status_out_of_memory();
    }
    /* An internal error is a bug report: say where. The others speak of the user's things. */
    return code == WF_CODE_INTERNAL
               ? wf_status_hinted(payload, "report this as a bug, it was found at %s:%d", file, line)
               : payload;
}

wf_status_t wf_status_hinted(wf_status_t status, const char *format, ...)
{
    if (status == WF_OK || wf_status_is_static(status)) {
        return status;
    }
    va_list args;
    va_start(args, format);
    char *hint = wf_status_format(format, args);
    va_end(args);
    if (hint != NULL) {
        free(status->hint);
        status->hint = hint;
    }
    return status;
}

wf_status_t wf_status_annotated(wf_status_t status, const char *format, ...)
{
    if (status == WF_OK || wf_status_is_static(status)) {
        return status;
    }
    va_list args;
    va_start(args, format);
    char *prefix = wf_status_format(format, args);
    va_end(args);
    if (prefix == NULL) {
        return status;
    }
    size_t prefix_bytes = strlen(prefix);
    size_t message_bytes = strlen(status->message);
    char *joined = malloc(prefix_bytes + 2 + message_bytes + 1);
    if (joined != NULL) {
        memcpy(joined, prefix, prefix_bytes);
        memcpy(joined + prefix_bytes, ": ", 2);
        memcpy(joined + prefix_bytes + 2, status->message, message_bytes + 1);
        free(status->message);
        status->message = joined;
    }
    free(prefix);
    return status;
}

wf_status_t wf_status_from_errno(int error_number, wf_code_t fallback, const char *what, const char *path)
{
    static const struct {
        int error_number;
        wf_code_t code; /* WF_CODE_OK: the fallback */
        const char *hint;
    } rows[] = {
        {ENOENT, WF_CODE_FILE_MISSING, "check the path"},
        {ENOTDIR, WF_CODE_FILE_MISSING, "a part of the path is not a folder"},
        {ENOSPC, WF_CODE_DISK_FULL, "free space on that file system or write elsewhere"},
        {EDQUOT, WF_CODE_DISK_FULL, "the disk quota is used up: free space or write elsewhere"},
        {EFBIG, WF_CODE_DISK_FULL, "the file system or a limit (ulimit -f) allows no file of this size"},
        {EACCES, WF_CODE_OK, "check the permissions of the file and of its folder"},
        {EPERM, WF_CODE_OK, "check the permissions of the file and of its folder"},
        {EROFS, WF_CODE_OK, "the file system is read-only: write elsewhere"},
        {EISDIR, WF_CODE_OK, "this is a folder: name a file"},
        {EMFILE, WF_CODE_OK, "too many open files: raise the limit (ulimit -n)"},
        {ENAMETOOLONG, WF_CODE_OK, "the path is too long"},
        {ELOOP, WF_CODE_OK, "the path has too many symbolic links"},
    };
    if (error_number == ENOMEM) {
        return wf_status_out_of_memory();
    }
    wf_code_t code = fallback;
    const char *hint = NULL;
    for (size_t i = 0; i < WF_COUNT_OF(rows); i++) {
        if (rows[i].error_number == error_number) {
            code = rows[i].code == WF_CODE_OK ? fallback : rows[i].code;
            hint = rows[i].hint;
        }
    }
    const char *reason = strerrordesc_np(error_number); /* strerror is not thread-safe and translates */
    if (reason == NULL) {
        reason = "unknown error";
    }
    wf_status_t status = wf_status_make(code, __FILE__, __LINE__, "cannot %s %s: %s", what, path, reason);
    return hint != NULL ? wf_status_hinted(status, "%s", hint) : status;
}

wf_status_t wf_status_join(wf_status_t first, wf_status_t second)
{
    if (first == WF_OK) {
        return second;
    }
    wf_status_free(second);
    return first;
}

void wf_status_ignore(wf_status_t status)
{
    wf_status_free(status);
}

wf_code_t wf_status_code(wf_status_t status)
{
    return status == WF_OK ? WF_CODE_OK : status->code;
}

const char *wf_status_message(wf_status_t status)
{
    return status == WF_OK ? "" : status->message;
}

const char *wf_status_hint(wf_status_t status)
{
    return status == WF_OK || status->hint == NULL ? "" : status->hint;
}

int wf_status_exit_code(wf_status_t status)
{
    if (status == WF_OK) {
        return 0;
    }
    const struct wf_code_row *row = wf_code_row_find(status->code);
    return row != NULL ? row->exit_code : 1;
}

const char *wf_code_title(wf_code_t code)
{
    if (code == WF_CODE_OK) {
        return "ok";
    }
    const struct wf_code_row *row = wf_code_row_find(code);
    return row != NULL ? row->title : "unknown";
}

void wf_status_free(wf_status_t status)
{
    if (status == WF_OK || wf_status_is_static(status)) {
        return;
    }
    free(status->message);
    free(status->hint);
    free(status);
}
