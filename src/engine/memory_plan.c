/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/memory_plan.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "base/checked.h"

#define ARENA_ALIGN_BYTES 64u
/* Above this many blocks the quadratic placement gives way to one sweep over time (a million-node chain has
 * as many). */
#define PLACE_BY_SIZE_MAX_BLOCKS 8192u

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Largest first; ties by birth, then by address in the array, so that the order is total. */
static int by_size(const void *pa, const void *pb)
{
    const wf_block_t *a = *(wf_block_t *const *)pa, *b = *(wf_block_t *const *)pb;
    int order = compare_u64(b->bytes, a->bytes);
    if (order == 0)
        order = compare_u64(a->first_step, b->first_step);
    return order != 0 ? order : compare_u64((uintptr_t)a, (uintptr_t)b);
}

static int by_birth(const void *pa, const void *pb)
{
    const wf_block_t *a = *(wf_block_t *const *)pa, *b = *(wf_block_t *const *)pb;
    int order = compare_u64(a->first_step, b->first_step);
    return order != 0 ? order : compare_u64((uintptr_t)a, (uintptr_t)b);
}

static bool meets_in_time(const wf_block_t *a, const wf_block_t *b)
{
    return a->first_step <= b->last_step && b->first_step <= a->last_step;
}

static wf_status_t arena_too_large(void)
{
    return WF_ERROR(OUT_OF_MEMORY, "the tensors of the model need more memory than can be addressed");
}

static bool aligned_end(const wf_block_t *block, uint64_t *out_end)
{
    size_t end;
    if (!wf_size_add(block->offset, block->bytes, &end) || !wf_size_align(end, ARENA_ALIGN_BYTES, &end))
        return false;
    *out_end = end;
    return true;
}

/* Puts `block` at the lowest gap between those of placed[0..count), which are sorted by offset, and inserts
 * it. */
static bool place_lowest(wf_block_t **placed, size_t count, wf_block_t *block)
{
    uint64_t offset = 0, end;
    for (size_t i = 0; i < count; i++) {
        if (!meets_in_time(placed[i], block))
            continue;
        if (placed[i]->offset >= offset && placed[i]->offset - offset >= block->bytes)
            break;
        if (!aligned_end(placed[i], &end))
            return false;
        offset = WF_MAX(offset, end);
    }
    block->offset = offset;
    size_t at = count;
    while (at > 0 && placed[at - 1]->offset > offset) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = block;
    return true;
}

static bool place_all_by_size(wf_block_t **order, size_t count, wf_block_t **placed)
{
    wf_sort(order, count, sizeof *order, by_size);
    for (size_t i = 0; i < count; i++) {
        if (!place_lowest(placed, i, order[i]))
            return false;
    }
    return true;
}

/* One sweep in order of birth over a short list of slots: a block takes the first slot that is free and large
 * enough, else a new slot at the end. `slots` holds the newest block of each slot, slot_bytes its size. */
static bool place_all_by_time(wf_block_t **order, size_t count, wf_block_t **slots, uint64_t *slot_bytes)
{
    enum { SLOTS_SEARCHED = 256 };
    wf_sort(order, count, sizeof *order, by_birth);
    size_t slot_count = 0;
    uint64_t arena_end = 0;
    for (size_t i = 0; i < count; i++) {
        wf_block_t *block = order[i];
        size_t from = slot_count > SLOTS_SEARCHED ? slot_count - SLOTS_SEARCHED : 0, slot = from;
        while (slot < slot_count &&
               !(slot_bytes[slot] >= block->bytes && slots[slot]->last_step < block->first_step)) {
            slot++;
        }
        if (slot == slot_count) {
            block->offset = arena_end;
            if (!aligned_end(block, &arena_end))
                return false;
            slot_bytes[slot_count++] = block->bytes;
        } else {
            block->offset = slots[slot]->offset;
        }
        slots[slot] = block;
    }
    return true;
}

static bool place_all_apart(wf_block_t *blocks, size_t count)
{
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        blocks[i].offset = end;
        if (!aligned_end(&blocks[i], &end))
            return false;
    }
    return true;
}

wf_status_t wf_memory_plan(wf_block_t *blocks, size_t count, bool reuse, wf_allocator_t allocator,
                           uint64_t *out_arena_bytes)
{
    *out_arena_bytes = 0;
    wf_block_t **pointers = NULL;
    uint64_t *slot_bytes = NULL;
    size_t pointer_count;
    if (!wf_size_mul(count, 2, &pointer_count))
        return wf_status_out_of_memory();
    WF_TRY(wf_alloc(allocator, pointer_count, sizeof *pointers, &pointers));
    wf_status_t status = wf_alloc(allocator, count, sizeof *slot_bytes, &slot_bytes);
    if (status == WF_OK) {
        wf_block_t **order = pointers, **placed = count > 0 ? pointers + count : NULL;
        for (size_t i = 0; i < count; i++)
            order[i] = &blocks[i];
        bool fits = !reuse                              ? place_all_apart(blocks, count)
                    : count <= PLACE_BY_SIZE_MAX_BLOCKS ? place_all_by_size(order, count, placed)
                                                        : place_all_by_time(order, count, placed, slot_bytes);
        uint64_t arena_bytes = 0, end = 0;
        for (size_t i = 0; fits && i < count; i++) {
            fits = aligned_end(&blocks[i], &end);
            arena_bytes = WF_MAX(arena_bytes, end);
        }
        if (fits)
            *out_arena_bytes = arena_bytes;
        else
            status = arena_too_large();
    }
    wf_free(allocator, slot_bytes, count, sizeof *slot_bytes);
    wf_free(allocator, pointers, pointer_count, sizeof *pointers);
    return status;
}
