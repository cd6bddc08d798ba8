/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WF_BASE_LOG_H
#define WF_BASE_LOG_H

#include "wayfinder/log.h"

/* Formats one line (at most 1000 bytes, cut beyond) to the sink when its level allows. */
void wf_log_line(const wf_log_t *log, wf_log_level_t level, const char *format, ...) WF_PRINTF(3, 4);

#endif
