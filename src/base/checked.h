/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that cannot wrap: every allocation size and file offset goes through these. */
#ifndef WF_BASE_CHECKED_H
#define WF_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out = a + b and friends; false (and *out unchanged) when it does not fit. */
static inline bool wf_size_add(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

static inline bool wf_size_mul(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

/* Rounds up to a power of two. */
static inline bool wf_size_align(size_t bytes, size_t alignment_bytes, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(bytes, alignment_bytes - 1, &sum))
        return false;
    *out = sum & ~(alignment_bytes - 1);
    return true;
}

static inline bool wf_i64_add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool wf_i64_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

#endif
