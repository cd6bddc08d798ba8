/* SPDX-License-Identifier: Apache-2.0 */
#include "device/fit.h"

#include <string.h>

static const char *const names[WF_FIT_COUNT] = {"portable", "family", "exact"};

const char *wf_fit_name(wf_fit_t fit)
{
    return names[fit];
}

bool wf_fit_from_name(const char *name, size_t length, wf_fit_t *out_fit)
{
    for (int i = 0; i < WF_FIT_COUNT; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            *out_fit = (wf_fit_t)i;
            return true;
        }
    }
    return false;
}

/* Where `word` begins in the text, or its end. */
static size_t find(const char *text, size_t length, const char *word)
{
    size_t word_bytes = strlen(word);
    for (size_t i = 0; i + word_bytes <= length; i++) {
        if (memcmp(text + i, word, word_bytes) == 0)
            return i;
    }
    return length;
}

wf_hash_t wf_fit_hash(wf_fit_t fit, const char *fingerprint, size_t length)
{
    if (fit == WF_FIT_PORTABLE)
        return (wf_hash_t){0};
    if (fit == WF_FIT_FAMILY)
        return wf_hash_bytes(fingerprint, find(fingerprint, length, " stepping="));
    size_t head = find(fingerprint, length, " tiers="), tail = find(fingerprint, length, " l1d=");
    wf_hash_t parts[2] = {wf_hash_bytes(fingerprint, head), wf_hash_bytes(fingerprint + tail, length - tail)};
    return wf_hash_bytes(parts, sizeof parts);
}
