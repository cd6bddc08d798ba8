/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parallel_openmp.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/compiler.h"
#include "base/parallel.h"

/* ThreadSanitizer does not see the barriers of an uninstrumented libgomp and would report every region. */
#if defined(__SANITIZE_THREAD__)
#define WF_OPENMP_UNSEEN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WF_OPENMP_UNSEEN 1
#endif
#endif

#if defined(WF_HAVE_LIBGOMP) && !defined(WF_OPENMP_UNSEEN)

/* The entry that gcc emits for `omp parallel` (libgomp's ABI, GOMP_4.0). Called by name instead of through
 * the pragma because clang's -fopenmp would bring LLVM's runtime: a second pool beside the libgomp below
 * oneDNN, which is what this back end exists to avoid. */
extern void GOMP_parallel(void (*fn)(void *), void *data, unsigned thread_count, unsigned flags);
extern int omp_get_thread_num(void);
extern int omp_pause_resource_all(int kind);
#define WF_OMP_PAUSE_SOFT 1 /* omp_pause_soft, OpenMP 5.0 */

typedef struct wf_openmp_region {
    _Alignas(WF_CACHE_LINE_BYTES) atomic_size_t next;
    _Alignas(WF_CACHE_LINE_BYTES) size_t item_count;
    wf_item_fn *fn;
    void *arg;
    uint32_t fpu_state;
} wf_openmp_region_t;

static void wf_openmp_member(void *data)
{
    wf_openmp_region_t *region = data;
    uint32_t thread = (uint32_t)omp_get_thread_num();
    uint32_t own_state = wf_fpu_state();
    wf_fpu_restore(region->fpu_state);
    for (;;) {
        size_t item = atomic_fetch_add_explicit(&region->next, 1, memory_order_relaxed);
        if (item >= region->item_count) {
            break;
        }
        region->fn(region->arg, item, thread);
    }
    wf_fpu_restore(own_state); /* the pool's threads are not ours */
}

bool wf_openmp_available(void)
{
    return true;
}

void wf_openmp_run(uint32_t thread_count, size_t item_count, wf_item_fn *fn, void *arg)
{
    wf_openmp_region_t region = {.item_count = item_count, .fn = fn, .arg = arg, .fpu_state = wf_fpu_state()};
    GOMP_parallel(wf_openmp_member, &region, thread_count, 0);
}

typedef struct wf_openmp_states {
    uint32_t *states; /* one a thread */
    uint32_t wanted;
    bool restores;
} wf_openmp_states_t;

static void wf_openmp_state_member(void *data)
{
    const wf_openmp_states_t *region = data;
    uint32_t thread = (uint32_t)omp_get_thread_num();
    if (thread == 0) {
        return; /* the caller looks after its own */
    }
    if (!region->restores) {
        region->states[thread] = wf_fpu_state();
    }
    wf_fpu_restore(region->restores ? region->states[thread] : region->wanted);
}

void wf_openmp_state_set(uint32_t thread_count, uint32_t *states)
{
    wf_openmp_states_t region = {.states = states, .wanted = wf_fpu_state()};
    /* Threads that this region starts inherit the caller's state and must not keep it afterwards. */
    wf_fpu_exact();
    for (uint32_t i = 0; i < thread_count; i++) {
        states[i] = wf_fpu_state(); /* of threads that later regions start */
    }
    GOMP_parallel(wf_openmp_state_member, &region, thread_count, 0);
    wf_fpu_restore(region.wanted);
}

void wf_openmp_state_restore(uint32_t thread_count, uint32_t *states)
{
    wf_openmp_states_t region = {.states = states, .restores = true};
    GOMP_parallel(wf_openmp_state_member, &region, thread_count, 0);
}

void wf_openmp_rest(void)
{
    (void)omp_pause_resource_all(WF_OMP_PAUSE_SOFT);
}

void *wf_pool_openmp_entry(void)
{
    void (*entry)(void (*)(void *), void *, unsigned, unsigned) = GOMP_parallel;
    void *address;
    memcpy(&address, &entry, sizeof address);
    return address;
}

#else

bool wf_openmp_available(void)
{
    return false;
}

void wf_openmp_run(uint32_t thread_count, size_t item_count, wf_item_fn *fn, void *arg)
{
    (void)thread_count, (void)item_count, (void)fn, (void)arg;
    assert(false && "asked for a back end that is not there");
}

void wf_openmp_state_set(uint32_t thread_count, uint32_t *states)
{
    (void)thread_count, (void)states;
}

void wf_openmp_state_restore(uint32_t thread_count, uint32_t *states)
{
    (void)thread_count, (void)states;
}

void wf_openmp_rest(void)
{
}

void *wf_pool_openmp_entry(void)
{
    return NULL;
}

#endif

bool wf_pool_has_openmp(void)
{
    return wf_openmp_available();
}
