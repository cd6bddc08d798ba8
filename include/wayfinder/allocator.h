/* SPDX-License-Identifier: Apache-2.0 */
/* Allocator: a two-word value, passed in and kept by the object that was made with it. */
#ifndef WAYFINDER_ALLOCATOR_H
#define WAYFINDER_ALLOCATOR_H

#include <stddef.h>

#include "wayfinder/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One function does all: `old_bytes` 0 (ptr NULL) allocates, `new_bytes` 0 frees and returns NULL, else the
 * block is resized and its first min(old, new) bytes are kept. `alignment_bytes` is a power of two, the same
 * for the whole life of a block. New memory is not initialised. Returns NULL when there is no memory; the old
 * block is then untouched. Must be thread-safe when objects made with it are used from several threads. */
typedef void *wf_resize_fn(void *self, void *ptr, size_t old_bytes, size_t new_bytes, size_t alignment_bytes);

typedef struct wf_allocator {
    void *self;
    wf_resize_fn *resize;
} wf_allocator_t;

/* The allocator of the C library. Thread-safe. */
WF_API wf_allocator_t wf_allocator_system(void);

#ifdef __cplusplus
}
#endif
#endif
