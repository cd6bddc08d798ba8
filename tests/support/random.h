/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded random numbers for property tests: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). The same on every
 * machine. */
#ifndef WF_TESTS_RANDOM_H
#define WF_TESTS_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct wf_random {
    uint64_t state;
} wf_random_t;

/* Seeded by WF_TEST_SEED of the environment, else by `fallback`; prints the seed, so that a failure can be
 * run again. */
static inline wf_random_t wf_random_start(const char *test, uint64_t fallback)
{
    const char *text = getenv("WF_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : fallback;
    printf("%s: WF_TEST_SEED=%llu\n", test, (unsigned long long)seed);
    return (wf_random_t){seed};
}

static inline uint64_t wf_random_u64(wf_random_t *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In [0, limit); limit > 0. The bias of the modulus does not matter to tests. */
static inline uint64_t wf_random_below(wf_random_t *random, uint64_t limit)
{
    return wf_random_u64(random) % limit;
}

/* In [-1, 1), 24 bits. */
static inline float wf_random_float(wf_random_t *random)
{
    return (float)(int32_t)(wf_random_u64(random) >> 40) / (float)(1 << 23) - 1.0f;
}

#endif
