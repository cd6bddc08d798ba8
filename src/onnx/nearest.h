/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the nearest of some names. */
#ifndef WF_ONNX_NEAREST_H
#define WF_ONNX_NEAREST_H

#include <stddef.h>

/* The best name so far; start with zeros. */
typedef struct wf_nearest {
    const char *name; /* borrowed from the candidates; NULL: none is near enough */
    size_t distance;
} wf_nearest_t;

/* Offers a candidate: it is kept when its edit distance (insertions, deletions, replacements; letters of
 * either case are equal, the first 64 bytes count) is smaller than the best so far and than a third of the
 * word's length plus one. */
void wf_nearest_offer(wf_nearest_t *nearest, const char *word, size_t word_bytes, const char *candidate);

#endif
