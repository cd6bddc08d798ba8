/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tests share: the tiers to test, memory that ends at a forbidden page, and comparisons.
 *
 * A test includes the kernel sources once more as the tier `wide`: 16 generic lanes, which is the AVX-512
 * logic on a machine without it. Guarded memory starts as NaN, so reads and writes outside of the operands
 * fail.
 */
#ifndef WF_TESTS_KERNEL_SUPPORT_H
#define WF_TESTS_KERNEL_SUPPORT_H

#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/random.h"

#include "backends/native/kernels/tiers.h"

#define WF_TIER wide
#define WF_VLEN 16

#define KERNEL_TEST_TIERS(X) X(wide) WF_KERNEL_TIERS(X)

/* Whether this machine runs the objects of a tier. */
static inline int kernel_tier_runs(const char *tier)
{
#ifdef __x86_64__
    if (strcmp(tier, "avx2") == 0) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }
    if (strcmp(tier, "avx512") == 0) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    }
#endif
    return 1;
}

/* In [low, high]. */
static inline int kernel_range(wf_random_t *random, int low, int high)
{
    return low + (int)wf_random_below(random, (uint64_t)(high - low + 1));
}

/* ---- guarded memory ---- */

typedef struct fence {
    char *map;
    size_t map_bytes;
    void *data; /* the bytes before the forbidden page; floats aligned to 4 bytes only */
    size_t bytes;
} fence;

static inline fence fence_new(int64_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    fence f = {.bytes = (size_t)bytes};
    f.map_bytes = (f.bytes + page - 1) / page * page + page;
    f.map = mmap(NULL, f.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f.map != MAP_FAILED);
    assert_int_equal(mprotect(f.map + f.map_bytes - page, page, PROT_NONE), 0);
    memset(f.map, 0xff, f.map_bytes - page);
    f.data = f.map + f.map_bytes - page - f.bytes;
    return f;
}

static inline void fence_free(fence *f)
{
    if (f->map) {
        munmap(f->map, f->map_bytes);
    }
    *f = (fence){0};
}

/* Scratch memory: 64-byte aligned, so up to 63 bytes short of the forbidden page. */
static inline fence fence_scratch(int64_t bytes)
{
    fence f = fence_new((bytes + 63) / 64 * 64);
    assert_int_equal((uintptr_t)f.data % 64, 0);
    return f;
}

/* Random floats in [-1, 1). */
static inline fence fence_floats(wf_random_t *random, int64_t count)
{
    fence f = fence_new(count * 4);
    float *p = f.data;
    for (int64_t i = 0; i < count; i++) {
        p[i] = wf_random_float(random);
    }
    return f;
}

/* ---- comparisons ---- */

/* got is within `bound` of want; not-a-number and infinities have to be the same. */
static inline int kernel_close(double got, double want, double bound)
{
    if (isnan(want)) {
        return isnan(got);
    }
    if (isinf(want)) {
        return got == want;
    }
    return fabs(got - want) <= bound;
}

#define kernel_assert_close(got, want, bound, ...)                                                     \
    do {                                                                                               \
        const double kernel_got = (double)(got), kernel_want = (double)(want),                         \
                     kernel_bound = (double)(bound);                                                   \
        if (!kernel_close(kernel_got, kernel_want, kernel_bound)) {                                    \
            print_error(__VA_ARGS__);                                                                  \
            print_error(": got %.9g, want %.9g, bound %.3g\n", kernel_got, kernel_want, kernel_bound); \
            fail();                                                                                    \
        }                                                                                              \
    } while (0)

/* The four bytes at p still hold the mark of unused guarded memory. */
static inline int kernel_is_untouched(const void *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word == 0xffffffffu;
}

#endif
