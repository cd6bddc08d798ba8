/* SPDX-License-Identifier: Apache-2.0 */
/* Hash: XXH3-128 (xxHash), and a map from text to a number. */
#ifndef WF_BASE_HASH_H
#define WF_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

typedef struct wf_hash {
    uint64_t low, high;
} wf_hash_t;

wf_hash_t wf_hash_bytes(const void *bytes, size_t length);
bool wf_hash_equal(wf_hash_t a, wf_hash_t b);
/* 32 hex digits and a zero, high word first. */
void wf_hash_text(wf_hash_t hash, char out[33]);
/* From 32 hex digits; false for anything else. */
bool wf_hash_parse(const char *text, wf_hash_t *out_hash);

/* Open addressing, keys borrowed (length given, may hold zeros). Not thread-safe. */
typedef struct wf_map_entry {
    const char *key;
    size_t key_bytes;
    uint64_t hash;
    uint64_t value;
} wf_map_entry_t;
typedef struct wf_map {
    wf_allocator_t allocator;
    wf_map_entry_t *entries;
    size_t capacity; /* power of two or 0 */
    size_t count;
} wf_map_t;

void wf_map_init(wf_map_t *map, wf_allocator_t allocator);
void wf_map_deinit(wf_map_t *map);
/* Sets key to value, replacing. */
wf_status_t wf_map_set(wf_map_t *map, const char *key, size_t key_bytes, uint64_t value) WF_MUST_USE;
bool wf_map_get(const wf_map_t *map, const char *key, size_t key_bytes, uint64_t *out_value);

#endif
