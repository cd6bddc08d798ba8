/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/canary.h"

#include "base/clock.h"
#include "base/compiler.h"

/* 16 chains of multiply-adds, so that it is the units that are busy and not their latency. 1500 rounds take
 * about 4 us (AMD EPYC, Zen 3, 2026-11-30). */
#define CHAINS 16
#define ROUNDS 1500
/* Handed out dynamically: the time is that of all cores together. */
#define ITEMS_PER_THREAD 8u

typedef struct canary {
    float sink[64 * ITEMS_PER_THREAD]; /* what is computed must be stored somewhere */
} canary_t;

static void canary_item(void *arg, size_t item, uint32_t thread)
{
    canary_t *canary = arg;
    float chains[CHAINS];
    (void)thread;
    for (int c = 0; c < CHAINS; c++)
        chains[c] = (float)(c + 1);
    for (int r = 0; r < ROUNDS; r++) {
        for (int c = 0; c < CHAINS; c++)
            chains[c] = chains[c] * 0.999f + 0.001f;
    }
    float sum = 0;
    for (int c = 0; c < CHAINS; c++)
        sum += chains[c];
    canary->sink[item % WF_COUNT_OF(canary->sink)] = sum;
}

double wf_canary_run(const wf_parallel_t *parallel)
{
    canary_t canary;
    uint64_t before = wf_clock_ns();
    parallel->run(parallel->self, (size_t)parallel->thread_count * ITEMS_PER_THREAD, canary_item, &canary);
    return (double)(wf_clock_ns() - before);
}
