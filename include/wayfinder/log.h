/* SPDX-License-Identifier: Apache-2.0 */
/* Log: where a library call tells what it does. The library itself never prints. */
#ifndef WAYFINDER_LOG_H
#define WAYFINDER_LOG_H

#include "wayfinder/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wf_log_level { WF_LOG_ERROR, WF_LOG_WARN, WF_LOG_INFO, WF_LOG_DEBUG } wf_log_level_t;

/* Receives one line without newline. May be called from several threads, one call at a time per object. */
typedef void wf_log_fn(void *self, wf_log_level_t level, const char *line);

/* A sink; write NULL means silence. Lines above `max_level` are not formatted. */
typedef struct wf_log {
    void *self;
    wf_log_fn *write;
    wf_log_level_t max_level;
} wf_log_t;

#ifdef __cplusplus
}
#endif
#endif
