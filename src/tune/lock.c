/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/lock.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

static size_t line_length(const char *line)
{
    return strcspn(line, "\n");
}

static const char *next_line(const char *line)
{
    line += line_length(line);
    return *line == '\n' ? line + 1 : line;
}

wf_status_t wf_lock_check_title(const char *lock)
{
    size_t length = line_length(lock);
    if (length == strlen(WF_LOCK_TITLE) && memcmp(lock, WF_LOCK_TITLE, length) == 0)
        return WF_OK;
    return wf_status_hinted(WF_ERROR(LOCK_MISMATCH,
                                     "not a lock that this version reads: it starts with '%.*s', not '%s'",
                                     (int)WF_MIN(length, 40u), lock, WF_LOCK_TITLE),
                            "make a lock with 'wayfinder tune MODEL --lock FILE'");
}

wf_lock_piece_t wf_lock_next_field(const char *lock, const char *key, wf_lock_piece_t last)
{
    size_t key_bytes = strlen(key);
    const char *line = last.data != NULL ? next_line(last.data) : lock;
    for (; *line != '\0' && *line != '['; line = next_line(line)) {
        size_t length = line_length(line);
        if (length > key_bytes && memcmp(line, key, key_bytes) == 0 && line[key_bytes] == ' ') {
            return (wf_lock_piece_t){line + key_bytes + 1, length - key_bytes - 1};
        }
    }
    return (wf_lock_piece_t){NULL, 0};
}

wf_lock_piece_t wf_lock_field(const char *lock, const char *key)
{
    return wf_lock_next_field(lock, key, (wf_lock_piece_t){NULL, 0});
}

wf_status_t wf_lock_check_field(const char *lock, const char *key, const char *here)
{
    wf_lock_piece_t field = wf_lock_field(lock, key);
    if (field.data != NULL && field.length == strlen(here) && memcmp(field.data, here, field.length) == 0)
        return WF_OK;
    return wf_status_hinted(WF_ERROR(LOCK_MISMATCH, "the lock has %s %.*s, here it is %s", key,
                                     (int)field.length, field.data != NULL ? field.data : "", here),
                            "tune again with --lock to make a lock for this %s", key);
}

wf_status_t wf_lock_threads(const char *lock, uint32_t *out_threads)
{
    wf_lock_piece_t field = wf_lock_field(lock, "threads");
    unsigned long threads = field.data != NULL ? strtoul(field.data, NULL, 10) : 0;
    if (threads == 0 || threads > 1024)
        return WF_ERROR(LOCK_MISMATCH, "the lock does not say how many threads it is for");
    *out_threads = (uint32_t)threads;
    return WF_OK;
}

static const char *find_line(const char *text, const char *line)
{
    size_t length = strlen(line);
    for (; *text != '\0'; text = next_line(text)) {
        if (line_length(text) == length && memcmp(text, line, length) == 0)
            return text;
    }
    return NULL;
}

wf_lock_piece_t wf_lock_part(const char *lock, size_t index)
{
    char title[40] = "[part ";
    size_t at = strlen(title);
    char digits[24];
    size_t digit_count = 0;
    do {
        digits[digit_count++] = (char)('0' + index % 10);
        index /= 10;
    } while (index > 0);
    while (digit_count > 0)
        title[at++] = digits[--digit_count];
    title[at] = ']';
    const char *start = find_line(lock, title);
    if (start == NULL)
        return (wf_lock_piece_t){NULL, 0};
    start = next_line(start);
    const char *end = start;
    while (*end != '\0' && strncmp(end, "[part ", 6) != 0 && strncmp(end, "[evidence]", 10) != 0)
        end = next_line(end);
    return (wf_lock_piece_t){start, (size_t)(end - start)};
}

wf_lock_piece_t wf_lock_evidence(const char *lock)
{
    const char *start = find_line(lock, "[evidence]");
    return (wf_lock_piece_t){start, start != NULL ? strlen(start) : 0};
}
