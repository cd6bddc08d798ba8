/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <string.h>
#include <xxhash.h>

#include "base/compiler.h"

wf_hash_t wf_hash_bytes(const void *bytes, size_t length)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, length);
    return (wf_hash_t){hash.low64, hash.high64};
}

bool wf_hash_equal(wf_hash_t a, wf_hash_t b)
{
    return a.low == b.low && a.high == b.high;
}

static const char wf_hex_digits[] = "0123456789abcdef";

void wf_hash_text(wf_hash_t hash, char out[33])
{
    for (unsigned i = 0; i < 32; i++) {
        uint64_t word = i < 16 ? hash.high : hash.low;
        out[i] = wf_hex_digits[(word >> (60 - 4 * (i % 16))) & 15];
    }
    out[32] = 0;
}

bool wf_hash_parse(const char *text, wf_hash_t *out_hash)
{
    uint64_t words[2] = {0, 0};
    for (unsigned i = 0; i < 32; i++) {
        char c = text[i];
        unsigned digit;
        if (c >= '0' && c <= '9') {
            digit = (unsigned)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (unsigned)(c - 'a') + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = (unsigned)(c - 'A') + 10;
        } else {
            return false; /* the end of a short text too */
        }
        words[i / 16] = words[i / 16] << 4 | digit;
    }
    if (text[32] != 0) {
        return false;
    }
    *out_hash = (wf_hash_t){.low = words[1], .high = words[0]};
    return true;
}

/* ---- Map ---- */

void wf_map_init(wf_map_t *map, wf_allocator_t allocator)
{
    *map = (wf_map_t){.allocator = allocator};
}

void wf_map_deinit(wf_map_t *map)
{
    wf_free(map->allocator, map->entries, map->capacity, sizeof *map->entries);
    *map = (wf_map_t){.allocator = map->allocator};
}

/* The entry of the key, or the free place where it belongs (key NULL). The map has a free place. */
static wf_map_entry_t *wf_map_place(wf_map_entry_t *entries, size_t capacity, uint64_t hash, const char *key,
                                    size_t key_bytes)
{
    for (size_t i = (size_t)hash & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
        wf_map_entry_t *entry = &entries[i];
        bool same = entry->key != NULL && entry->hash == hash && entry->key_bytes == key_bytes &&
                    memcmp(entry->key, key, key_bytes) == 0;
        if (entry->key == NULL || same) {
            return entry;
        }
    }
}

static wf_status_t wf_map_rehash(wf_map_t *map)
{
    size_t capacity;
    if (!wf_size_mul(WF_MAX(map->capacity, (size_t)8), 2, &capacity)) {
        return wf_status_out_of_memory();
    }
    wf_map_entry_t *entries;
    WF_TRY(wf_alloc(map->allocator, capacity, sizeof *entries, &entries));
    for (size_t i = 0; i < map->capacity; i++) {
        const wf_map_entry_t *old = &map->entries[i];
        if (old->key != NULL) {
            *wf_map_place(entries, capacity, old->hash, old->key, old->key_bytes) = *old;
        }
    }
    wf_free(map->allocator, map->entries, map->capacity, sizeof *entries);
    map->entries = entries;
    map->capacity = capacity;
    return WF_OK;
}

wf_status_t wf_map_set(wf_map_t *map, const char *key, size_t key_bytes, uint64_t value)
{
    if (4 * (map->count + 1) > 3 * map->capacity) {
        WF_TRY(wf_map_rehash(map));
    }
    if (key == NULL) {
        key = ""; /* NULL marks a free place */
    }
    uint64_t hash = XXH3_64bits(key, key_bytes);
    wf_map_entry_t *entry = wf_map_place(map->entries, map->capacity, hash, key, key_bytes);
    if (entry->key == NULL) {
        *entry = (wf_map_entry_t){key, key_bytes, hash, 0};
        map->count++;
    }
    entry->value = value;
    return WF_OK;
}

bool wf_map_get(const wf_map_t *map, const char *key, size_t key_bytes, uint64_t *out_value)
{
    if (map->count == 0) {
        return false;
    }
    if (key == NULL) {
        key = "";
    }
    uint64_t hash = XXH3_64bits(key, key_bytes);
    const wf_map_entry_t *entry = wf_map_place(map->entries, map->capacity, hash, key, key_bytes);
    if (entry->key == NULL) {
        return false;
    }
    *out_value = entry->value;
    return true;
}
