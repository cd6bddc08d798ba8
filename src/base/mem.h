/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: typed helpers over wf_allocator_t, an arena, a growing array, a string builder. */
#ifndef WF_BASE_MEM_H
#define WF_BASE_MEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/status.h"
#include "wayfinder/allocator.h"

/* Allocates count * elem_bytes, zeroed, aligned to 16 (or to alignment_bytes). count 0 gives *out NULL and
 * WF_OK. OUT_OF_MEMORY when it does not fit or there is none. */
wf_status_t wf_alloc(wf_allocator_t allocator, size_t count, size_t elem_bytes, void *out) WF_MUST_USE;
wf_status_t wf_alloc_aligned(wf_allocator_t allocator, size_t count, size_t elem_bytes,
                             size_t alignment_bytes, void *out) WF_MUST_USE;
/* Frees what the calls above gave; count, elem_bytes and alignment must be the same. NULL is allowed. */
void wf_free(wf_allocator_t allocator, void *ptr, size_t count, size_t elem_bytes);
void wf_free_aligned(wf_allocator_t allocator, void *ptr, size_t count, size_t elem_bytes,
                     size_t alignment_bytes);

/* ---- Arena: allocate often, free once. Not thread-safe. ---- */
typedef struct wf_arena_block wf_arena_block_t;
typedef struct wf_arena {
    wf_allocator_t allocator;
    wf_arena_block_t *blocks;
    size_t used_bytes; /* in the newest block */
    size_t total_bytes;
    size_t limit_bytes; /* 0: none; OUT_OF_MEMORY beyond */
} wf_arena_t;

void wf_arena_init(wf_arena_t *arena, wf_allocator_t allocator);
void wf_arena_deinit(wf_arena_t *arena);
/* Zeroed, 16-byte aligned (64 when bytes >= 4096); lives until wf_arena_deinit. count 0 gives NULL and WF_OK.
 */
wf_status_t wf_arena_alloc(wf_arena_t *arena, size_t count, size_t elem_bytes, void *out) WF_MUST_USE;
/* A zero-terminated copy of text[0, length). */
wf_status_t wf_arena_text(wf_arena_t *arena, const char *text, size_t length, const char **out) WF_MUST_USE;
wf_status_t wf_arena_format(wf_arena_t *arena, const char **out, const char *format, ...)
    WF_PRINTF(3, 4) WF_MUST_USE;
/* The arena as an allocator: frees do nothing. For building, not for running. */
wf_allocator_t wf_arena_allocator(wf_arena_t *arena);

/* ---- Growing array ----
 * typedef WF_VEC(int) wf_ints_t;  wf_vec_push(allocator, &v, &item) */
#define WF_VEC(type)     \
    struct {             \
        type *items;     \
        size_t count;    \
        size_t capacity; \
    }
/* Makes room for one more item of elem_bytes and returns its (zeroed) place in *out; `vec` points to a
 * WF_VEC. */
wf_status_t wf_vec_grow(wf_allocator_t allocator, void *vec, size_t elem_bytes, void *out) WF_MUST_USE;
void wf_vec_free(wf_allocator_t allocator, void *vec, size_t elem_bytes);
#define wf_vec_push(allocator, vec, item_ptr) \
    wf_vec_push_bytes((allocator), (vec), sizeof *(vec)->items, (item_ptr))
#define wf_vec_deinit(allocator, vec) wf_vec_free((allocator), (vec), sizeof *(vec)->items)
wf_status_t wf_vec_push_bytes(wf_allocator_t allocator, void *vec, size_t elem_bytes,
                              const void *item) WF_MUST_USE;

/* ---- String builder: keeps the first failure, so that a chain of appends is checked once at the end. ----
 */
typedef struct wf_text {
    wf_allocator_t allocator;
    char *data; /* zero-terminated when length > 0 */
    size_t length;
    size_t capacity;
    size_t limit_bytes; /* ceiling; appending beyond is OUT_OF_MEMORY */
    wf_status_t status;
} wf_text_t;

void wf_text_init(wf_text_t *text, wf_allocator_t allocator, size_t limit_bytes);
void wf_text_append(wf_text_t *text, const char *bytes, size_t length);
void wf_text_puts(wf_text_t *text, const char *string);
void wf_text_printf(wf_text_t *text, const char *format, ...) WF_PRINTF(2, 3);
/* The status so far; the caller takes it over (it is WF_OK afterwards). */
wf_status_t wf_text_take_status(wf_text_t *text) WF_MUST_USE;
/* "" when empty. Borrowed. */
const char *wf_text_cstr(const wf_text_t *text);
void wf_text_deinit(wf_text_t *text);

/* qsort that may be given no items at all (NULL): its pointer must not be null, whatever the count. */
static inline void wf_sort(void *items, size_t count, size_t item_bytes,
                           int (*compare)(const void *, const void *))
{
    if (count > 1) {
        qsort(items, count, item_bytes, compare);
    }
}

#endif
