/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/nearest.h"

#include <string.h>

#include "base/compiler.h"

enum { WORD_MAX = 64 };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Levenshtein distance by one row of the table at a time. */
static size_t edit_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t row[WORD_MAX + 1];
    for (size_t j = 0; j <= b_bytes; j++) {
        row[j] = j;
    }
    for (size_t i = 0; i < a_bytes; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b_bytes; j++) {
            size_t replaced = diagonal + (lower(a[i]) != lower(b[j]));
            diagonal = row[j + 1];
            row[j + 1] = WF_MIN(replaced, WF_MIN(row[j], row[j + 1]) + 1);
        }
    }
    return row[b_bytes];
}

void wf_nearest_offer(wf_nearest_t *nearest, const char *word, size_t word_bytes, const char *candidate)
{
    size_t a_bytes = WF_MIN(word_bytes, (size_t)WORD_MAX);
    size_t b_bytes = WF_MIN(strlen(candidate), (size_t)WORD_MAX);
    size_t distance = edit_distance(word, a_bytes, candidate, b_bytes);
    if (distance < a_bytes / 3 + 1 && (nearest->name == NULL || distance < nearest->distance)) {
        nearest->name = candidate;
        nearest->distance = distance;
    }
}
