/* SPDX-License-Identifier: Apache-2.0 */
/* Making statuses: the inside of include/wayfinder/status.h. */
#ifndef WF_BASE_STATUS_H
#define WF_BASE_STATUS_H

#include "wayfinder/status.h"

/* Makes a status with message `format...` (what, where, why; no trailing dot or newline). Never returns
 * WF_OK: when there is no memory for the payload the static out-of-memory status comes back. */
wf_status_t wf_status_make(wf_code_t code, const char *file, int line, const char *format, ...)
    WF_PRINTF(4, 5) WF_MUST_USE;
/* Adds what to do about it ("pass --shape x=1x3x224x224"), replacing an earlier hint. Returns `status`. */
wf_status_t wf_status_hinted(wf_status_t status, const char *format, ...) WF_PRINTF(2, 3) WF_MUST_USE;
/* Puts "format...: " before the message. WF_OK stays WF_OK. Returns `status`. */
wf_status_t wf_status_annotated(wf_status_t status, const char *format, ...) WF_PRINTF(2, 3) WF_MUST_USE;
/* The static out-of-memory status. */
wf_status_t wf_status_out_of_memory(void) WF_MUST_USE;
/* Translates errno after an operation on `path`: ENOENT FILE_MISSING, ENOSPC/EDQUOT/EFBIG DISK_FULL, ENOMEM
 * OUT_OF_MEMORY, otherwise `fallback` (WF_CODE_FILE_UNREADABLE or WF_CODE_FILE_UNWRITABLE), with a hint. */
wf_status_t wf_status_from_errno(int error_number, wf_code_t fallback, const char *what,
                                 const char *path) WF_MUST_USE;
/* Keeps the first of two failures and frees the second. */
wf_status_t wf_status_join(wf_status_t first, wf_status_t second) WF_MUST_USE;
/* Drops a status on purpose. */
void wf_status_ignore(wf_status_t status);

/* WF_ERROR(MODEL_INVALID, "node %s: ...", name) */
#define WF_ERROR(code_name, ...) wf_status_make(WF_CODE_##code_name, __FILE__, __LINE__, __VA_ARGS__)
/* Returns from the function when the expression is not WF_OK. */
#define WF_TRY(expression)                  \
    do {                                    \
        wf_status_t wf_try_ = (expression); \
        if (wf_try_ != WF_OK)               \
            return wf_try_;                 \
    } while (0)

#endif
