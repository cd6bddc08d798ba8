/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled dot product attention of one head, f32, without the matrix of scores in memory.
 *
 *   s[i][j] = scale * (q[i] . k[j]) + mask[i][j]         0 <= i < queries, 0 <= j < keys
 *   y[i]    = sum over j of softmax(s[i])[j] * v[j]
 *
 * Keys are taken in blocks; a later block rescales what the earlier ones gave (online softmax: Milakov and
 * Gimelshein, "Online normalizer calculation for softmax", 2018). causal: key j counts for query i when j <=
 * i + causal_offset, the others have a score of -infinity. A row of only -infinity gives NaN, like the
 * operators one by one. Values (v) are finite: a masked infinity may give NaN.
 *
 * On one tier a row has the same bits whichever rows a call computes and whatever query_block is, so results
 * do not depend on the number of threads. Within rounding they do depend on key_block, on whether there are
 * more than WF_ATTENTION_FEW queries, and on the tier.
 */
#ifndef WF_NATIVE_ATTENTION_H
#define WF_NATIVE_ATTENTION_H

#include <stdint.h>

#include "backends/native/kernels/tiers.h"

/* Up to this many queries (decoding) keys and values are read in place, once, instead of being packed. */
#define WF_ATTENTION_FEW 2

typedef struct wf_attention_args {
    int64_t queries, keys, depth, value_depth;
    const float *q, *k, *v;
    float *y;                                       /* no overlap with any input */
    int64_t q_stride, k_stride, v_stride, y_stride; /* elements between rows; rows are contiguous */
    const float *mask;                              /* NULL: none */
    int64_t mask_query_stride, mask_key_stride;     /* elements; 0: the same for all; key stride 1 is fast */
    float scale;
    int32_t causal;
    int64_t causal_offset; /* 0: query 0 sees key 0; keys - queries: the last query sees all keys */
    /* Blocking. Rows of queries whose scores are in cache together (24 to 64), and keys that are packed
     * together (a multiple of 32; all keys up to 256 or so are best in one block). */
    int32_t query_block, key_block;
} wf_attention_args;

/* Bytes of scratch, 64-byte aligned, for calls of up to `rows` queries. */
static inline int64_t wf_attention_scratch_bytes(const wf_attention_args *a, int64_t rows)
{
    const int64_t panel = 2 * WF_VLEN_MAX;
    int64_t keys = a->keys < a->key_block ? a->keys : a->key_block;
    int64_t block = rows < a->query_block ? rows : a->query_block;
    keys = (keys + panel - 1) / panel * panel;
    const int64_t value_depth = (a->value_depth + panel - 1) / panel * panel;
    const int64_t floats = keys * a->depth + keys * value_depth /* packed keys and values */
                           + block * keys                       /* scores */
                           + rows * (value_depth + 2)           /* results, maxima, sums */
                           + panel * 8;                         /* room to align the parts */
    return floats * (int64_t)sizeof(float);
}

/* Computes queries [begin, end). Packs all keys and values that they see, so few rows a call cost more: at
 * least 32 to 64 rows, all of them when there are heads enough for the threads. Sizes >= 1, key_block a
 * multiple of 32 (asserted). Thread-safe; scratch belongs to the calling thread. */
typedef void wf_attention_f32_fn(const wf_attention_args *a, int64_t begin, int64_t end, void *scratch);

#define WF_X(tier) wf_attention_f32_fn wf_attention_f32_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
