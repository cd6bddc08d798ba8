/* SPDX-License-Identifier: Apache-2.0 */
/* Status: the one result type of every function that can fail.
 *
 * A status is one word. WF_OK is NULL; anything else owns a payload that the receiver must hand on or free
 * with wf_status_free. Out of memory has a static payload, so making a status never fails. Statuses may be
 * passed between threads, one owner at a time.
 */
#ifndef WAYFINDER_STATUS_H
#define WAYFINDER_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define WF_MUST_USE __attribute__((warn_unused_result))
#define WF_PRINTF(format_index, first_arg) __attribute__((format(printf, format_index, first_arg)))
#define WF_API __attribute__((visibility("default")))
#else
#define WF_MUST_USE
#define WF_PRINTF(format_index, first_arg)
#define WF_API
#endif

/* What went wrong. One row each in errors.def, with the exit code of the command line and a page in
 * docs/errors. */
typedef enum wf_code {
    WF_CODE_OK = 0,
#define X(name, number, exit_code, title) WF_CODE_##name = number,
#include "wayfinder/errors.def"
#undef X
} wf_code_t;

typedef struct wf_status_payload *wf_status_t;
#define WF_OK ((wf_status_t)0)

/* The code; WF_CODE_OK for WF_OK. */
WF_API wf_code_t wf_status_code(wf_status_t status);
/* What happened, where and why, one line of UTF-8. Borrowed, valid until the status is freed. "" for WF_OK.
 */
WF_API const char *wf_status_message(wf_status_t status);
/* What to do about it. Borrowed; "" when there is nothing to say. */
WF_API const char *wf_status_hint(wf_status_t status);
/* The exit code that the command line gives for it: 0, 1-10 or 130. */
WF_API int wf_status_exit_code(wf_status_t status);
/* The title of a code ("file not found"); "ok" for WF_CODE_OK, "unknown" for a number that is not in
 * errors.def. */
WF_API const char *wf_code_title(wf_code_t code);
/* Frees a status. WF_OK is allowed. */
WF_API void wf_status_free(wf_status_t status);

#ifdef __cplusplus
}
#endif
#endif
