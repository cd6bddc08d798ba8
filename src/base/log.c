/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

#define WF_LOG_LINE_MAX_BYTES 1000

void wf_log_line(const wf_log_t *log, wf_log_level_t level, const char *format, ...)
{
    if (log == NULL || log->write == NULL || level > log->max_level) {
        return;
    }
    char line[WF_LOG_LINE_MAX_BYTES + 1];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length >= 0) {
        wf_utf8_sanitise(line); /* lines quote names of untrusted models */
        log->write(log->self, level, line);
    }
}
