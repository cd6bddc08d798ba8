/* SPDX-License-Identifier: Apache-2.0 */
/* Memory plan: offsets of blocks in one arena from their lifetimes. A pure function. */
#ifndef WF_ENGINE_MEMORY_PLAN_H
#define WF_ENGINE_MEMORY_PLAN_H

#include "base/mem.h"

typedef struct wf_block {
    uint64_t bytes;
    uint32_t first_step, last_step; /* inclusive */
    uint64_t offset;                /* out; a multiple of 64 */
} wf_block_t;

/* Places blocks, largest first, at the lowest offset that does not meet a block alive at the same time;
 * deterministic. reuse false: blocks never share. *out_arena_bytes is the end of the highest. */
wf_status_t wf_memory_plan(wf_block_t *blocks, size_t count, bool reuse, wf_allocator_t allocator,
                           uint64_t *out_arena_bytes) WF_MUST_USE;

#endif
