/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define WF_ALLOC_ALIGNMENT_BYTES 16u

/* ---- The system allocator ---- */

static void *wf_system_resize(void *self, void *ptr, size_t old_bytes, size_t new_bytes,
                              size_t alignment_bytes)
{
    (void)self;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    if (alignment_bytes <= _Alignof(max_align_t)) {
        return realloc(ptr, new_bytes);
    }
    /* realloc keeps no alignment above max_align_t, and aligned_alloc wants a multiple of it. */
    size_t padded_bytes;
    if (!wf_size_align(new_bytes, alignment_bytes, &padded_bytes)) {
        return NULL;
    }
    void *fresh = aligned_alloc(alignment_bytes, padded_bytes);
    if (fresh != NULL && ptr != NULL) {
        memcpy(fresh, ptr, WF_MIN(old_bytes, new_bytes));
        free(ptr);
    }
    return fresh;
}

wf_allocator_t wf_allocator_system(void)
{
    return (wf_allocator_t){NULL, wf_system_resize};
}

/* ---- Typed helpers ---- */

wf_status_t wf_alloc(wf_allocator_t allocator, size_t count, size_t elem_bytes, void *out)
{
    return wf_alloc_aligned(allocator, count, elem_bytes, WF_ALLOC_ALIGNMENT_BYTES, out);
}

wf_status_t wf_alloc_aligned(wf_allocator_t allocator, size_t count, size_t elem_bytes,
                             size_t alignment_bytes, void *out)
{
    void *ptr = NULL;
    memcpy(out, &ptr, sizeof ptr); /* `out` is a T **: writing it as a void ** would break aliasing rules */
    size_t bytes;
    if (!wf_size_mul(count, elem_bytes, &bytes) || bytes > PTRDIFF_MAX) {
        return wf_status_out_of_memory();
    }
    if (bytes == 0) {
        return WF_OK;
    }
    ptr = allocator.resize(allocator.self, NULL, 0, bytes, alignment_bytes);
    if (ptr == NULL) {
        return wf_status_out_of_memory();
    }
    memset(ptr, 0, bytes);
    memcpy(out, &ptr, sizeof ptr);
    return WF_OK;
}

void wf_free(wf_allocator_t allocator, void *ptr, size_t count, size_t elem_bytes)
{
    wf_free_aligned(allocator, ptr, count, elem_bytes, WF_ALLOC_ALIGNMENT_BYTES);
}

void wf_free_aligned(wf_allocator_t allocator, void *ptr, size_t count, size_t elem_bytes,
                     size_t alignment_bytes)
{
    if (ptr != NULL) {
        allocator.resize(allocator.self, ptr, count * elem_bytes, 0, alignment_bytes);
    }
}

/* ---- Arena ---- */

#define WF_ARENA_BLOCK_ALIGNMENT_BYTES 64u
#define WF_ARENA_FIRST_BLOCK_BYTES 4096u
#define WF_ARENA_LARGEST_BLOCK_BYTES (1024u * 1024u)
#define WF_ARENA_WIDE_BYTES 4096u /* allocations from here on are aligned for vectors */

struct wf_arena_block {
    struct wf_arena_block *next; /* older */
    size_t bytes;                /* of the whole block, this header included */
};
#define WF_ARENA_HEADER_BYTES 64u
static_assert(sizeof(struct wf_arena_block) <= WF_ARENA_HEADER_BYTES,
              "the header keeps the block's alignment");

void wf_arena_init(wf_arena_t *arena, wf_allocator_t allocator)
{
    *arena = (wf_arena_t){.allocator = allocator};
}

void wf_arena_deinit(wf_arena_t *arena)
{
    wf_arena_block_t *block = arena->blocks;
    while (block != NULL) {
        wf_arena_block_t *older = block->next;
        wf_free_aligned(arena->allocator, block, block->bytes, 1, WF_ARENA_BLOCK_ALIGNMENT_BYTES);
        block = older;
    }
    arena->blocks = NULL;
    arena->used_bytes = 0;
    arena->total_bytes = 0;
}

static wf_arena_block_t *wf_arena_block_new(wf_arena_t *arena, size_t bytes)
{
    wf_arena_block_t *block =
        arena->allocator.resize(arena->allocator.self, NULL, 0, bytes, WF_ARENA_BLOCK_ALIGNMENT_BYTES);
    if (block != NULL) {
        block->next = NULL;
        block->bytes = bytes;
    }
    return block;
}

/* Offset in `block` of the first address >= block + used that has the alignment. */
static size_t wf_arena_offset(const wf_arena_block_t *block, size_t used_bytes, size_t alignment_bytes)
{
    uintptr_t address = (uintptr_t)block + used_bytes;
    return used_bytes + (size_t)(-address & (alignment_bytes - 1));
}

/* Uninitialised memory; NULL when there is none or the limit is met. bytes > 0. */
static void *wf_arena_take(wf_arena_t *arena, size_t bytes, size_t alignment_bytes)
{
    size_t total_bytes;
    if (!wf_size_add(arena->total_bytes, bytes, &total_bytes) || bytes > PTRDIFF_MAX / 2) {
        return NULL;
    }
    if (arena->limit_bytes != 0 && total_bytes > arena->limit_bytes) {
        return NULL;
    }
    wf_arena_block_t *newest = arena->blocks;
    if (newest != NULL) {
        size_t offset = wf_arena_offset(newest, arena->used_bytes, alignment_bytes);
        if (offset <= newest->bytes && newest->bytes - offset >= bytes) {
            arena->used_bytes = offset + bytes;
            arena->total_bytes = total_bytes;
            return (char *)newest + offset;
        }
    }
    size_t slack_bytes = alignment_bytes > WF_ARENA_BLOCK_ALIGNMENT_BYTES ? alignment_bytes : 0;
    size_t needed_bytes = WF_ARENA_HEADER_BYTES + bytes + slack_bytes;
    size_t next_bytes = newest == NULL ? WF_ARENA_FIRST_BLOCK_BYTES
                                       : WF_MIN(2 * newest->bytes, (size_t)WF_ARENA_LARGEST_BLOCK_BYTES);
    bool alone = newest != NULL && needed_bytes > next_bytes / 2; /* large: keep filling the newest block */
    wf_arena_block_t *block =
        wf_arena_block_new(arena, alone ? needed_bytes : WF_MAX(needed_bytes, next_bytes));
    if (block == NULL) {
        return NULL;
    }
    size_t offset = wf_arena_offset(block, WF_ARENA_HEADER_BYTES, alignment_bytes);
    if (alone) {
        block->next = newest->next;
        newest->next = block;
    } else {
        block->next = newest;
        arena->blocks = block;
        arena->used_bytes = offset + bytes;
    }
    arena->total_bytes = total_bytes;
    return (char *)block + offset;
}

wf_status_t wf_arena_alloc(wf_arena_t *arena, size_t count, size_t elem_bytes, void *out)
{
    void *ptr = NULL;
    memcpy(out, &ptr, sizeof ptr);
    size_t bytes;
    if (!wf_size_mul(count, elem_bytes, &bytes)) {
        return wf_status_out_of_memory();
    }
    if (bytes == 0) {
        return WF_OK;
    }
    size_t alignment_bytes =
        bytes >= WF_ARENA_WIDE_BYTES ? WF_ARENA_BLOCK_ALIGNMENT_BYTES : WF_ALLOC_ALIGNMENT_BYTES;
    ptr = wf_arena_take(arena, bytes, alignment_bytes);
    if (ptr == NULL) {
        return wf_status_out_of_memory();
    }
    memset(ptr, 0, bytes);
    memcpy(out, &ptr, sizeof ptr);
    return WF_OK;
}

wf_status_t wf_arena_text(wf_arena_t *arena, const char *text, size_t length, const char **out)
{
    *out = NULL;
    size_t bytes;
    char *copy = wf_size_add(length, 1, &bytes) ? wf_arena_take(arena, bytes, 1) : NULL;
    if (copy == NULL) {
        return wf_status_out_of_memory();
    }
    if (length > 0) {
        memcpy(copy, text, length);
    }
    copy[length] = 0;
    *out = copy;
    return WF_OK;
}

wf_status_t wf_arena_format(wf_arena_t *arena, const char **out, const char *format, ...)
{
    *out = NULL;
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length >= 0 ? wf_arena_take(arena, (size_t)length + 1, 1) : NULL;
    if (text != NULL) {
        vsnprintf(text, (size_t)length + 1, format, args);
    }
    va_end(args);
    *out = text;
    return text != NULL ? WF_OK : wf_status_out_of_memory();
}

static void *wf_arena_resize(void *self, void *ptr, size_t old_bytes, size_t new_bytes,
                             size_t alignment_bytes)
{
    wf_arena_t *arena = self;
    if (new_bytes == 0) {
        return NULL;
    }
    if (ptr != NULL && new_bytes <= old_bytes) {
        return ptr;
    }
    void *fresh = wf_arena_take(arena, new_bytes, alignment_bytes);
    if (fresh != NULL && ptr != NULL) {
        memcpy(fresh, ptr, old_bytes);
    }
    return fresh;
}

wf_allocator_t wf_arena_allocator(wf_arena_t *arena)
{
    return (wf_allocator_t){arena, wf_arena_resize};
}

/* ---- Growing array ---- */

/* A WF_VEC of any type, read and written by memcpy: its `items` has another pointer type. */
typedef WF_VEC(void) wf_vec_raw_t;

static wf_vec_raw_t wf_vec_get(const void *vec)
{
    wf_vec_raw_t raw;
    memcpy(&raw, vec, sizeof raw);
    return raw;
}

static void wf_vec_put(void *vec, wf_vec_raw_t raw)
{
    memcpy(vec, &raw, sizeof raw);
}

wf_status_t wf_vec_grow(wf_allocator_t allocator, void *vec, size_t elem_bytes, void *out)
{
    wf_vec_raw_t raw = wf_vec_get(vec);
    if (raw.count == raw.capacity) {
        size_t capacity = raw.capacity == 0 ? 8 : raw.capacity;
        size_t bytes;
        if ((raw.capacity != 0 && !wf_size_mul(raw.capacity, 2, &capacity)) ||
            !wf_size_mul(capacity, elem_bytes, &bytes) || bytes > PTRDIFF_MAX) {
            return wf_status_out_of_memory();
        }
        void *items = allocator.resize(allocator.self, raw.items, raw.capacity * elem_bytes, bytes,
                                       WF_ALLOC_ALIGNMENT_BYTES);
        if (items == NULL) {
            return wf_status_out_of_memory();
        }
        raw.items = items;
        raw.capacity = capacity;
    }
    void *place = (char *)raw.items + raw.count * elem_bytes;
    memset(place, 0, elem_bytes);
    raw.count++;
    wf_vec_put(vec, raw);
    memcpy(out, &place, sizeof place);
    return WF_OK;
}

wf_status_t wf_vec_push_bytes(wf_allocator_t allocator, void *vec, size_t elem_bytes, const void *item)
{
    void *place;
    WF_TRY(wf_vec_grow(allocator, vec, elem_bytes, &place));
    memcpy(place, item, elem_bytes);
    return WF_OK;
}

void wf_vec_free(wf_allocator_t allocator, void *vec, size_t elem_bytes)
{
    wf_vec_raw_t raw = wf_vec_get(vec);
    wf_free(allocator, raw.items, raw.capacity, elem_bytes);
    wf_vec_put(vec, (wf_vec_raw_t){NULL, 0, 0});
}

/* ---- String builder ---- */

void wf_text_init(wf_text_t *text, wf_allocator_t allocator, size_t limit_bytes)
{
    *text = (wf_text_t){.allocator = allocator, .limit_bytes = limit_bytes};
}

/* Room for `length` more bytes and the zero; false (and the status set) when there is none. */
static bool wf_text_reserve(wf_text_t *text, size_t length)
{
    if (text->status != WF_OK) {
        return false;
    }
    size_t needed_bytes;
    if (!wf_size_add(text->length, length, &needed_bytes) || needed_bytes > text->limit_bytes ||
        !wf_size_add(needed_bytes, 1, &needed_bytes)) {
        text->status = wf_status_out_of_memory();
        return false;
    }
    if (needed_bytes <= text->capacity) {
        return true;
    }
    size_t capacity;
    if (!wf_size_mul(text->capacity, 2, &capacity)) {
        capacity = needed_bytes;
    }
    capacity = WF_MAX(WF_MAX(capacity, needed_bytes), (size_t)64);
    char *data = text->allocator.resize(text->allocator.self, text->data, text->capacity, capacity,
                                        WF_ALLOC_ALIGNMENT_BYTES);
    if (data == NULL) {
        text->status = wf_status_out_of_memory();
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void wf_text_append(wf_text_t *text, const char *bytes, size_t length)
{
    if (length == 0 || !wf_text_reserve(text, length)) {
        return;
    }
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = 0;
}

void wf_text_puts(wf_text_t *text, const char *string)
{
    wf_text_append(text, string, strlen(string));
}

void wf_text_printf(wf_text_t *text, const char *format, ...)
{
    if (text->status != WF_OK) {
        return;
    }
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) {
        text->status = WF_ERROR(INTERNAL, "a text cannot be formatted");
    } else if (length > 0 && wf_text_reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
        text->length += (size_t)length;
    }
    va_end(args);
}

wf_status_t wf_text_take_status(wf_text_t *text)
{
    wf_status_t status = text->status;
    text->status = WF_OK;
    return status;
}

const char *wf_text_cstr(const wf_text_t *text)
{
    return text->length > 0 ? text->data : "";
}

void wf_text_deinit(wf_text_t *text)
{
    wf_status_free(text->status);
    wf_free(text->allocator, text->data, text->capacity, 1);
    *text = (wf_text_t){.allocator = text->allocator, .limit_bytes = text->limit_bytes};
}
