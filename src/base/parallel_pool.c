/* SPDX-License-Identifier: Apache-2.0 */
/* The pool. A region is opened by the caller and joined by whoever comes in time.
 *
 * Nobody waits for a worker that has not joined: when the caller finds no item left it closes the region and
 * waits only for those inside. So a worker that sleeps, starts late or lost its CPU to another process costs
 * its share of the work, never a stall; a barrier that needs every thread took 4-8 ms a region when a foreign
 * process held one core.
 *
 * All of that is one word, the gate: how many workers are inside, whether the region is open, whether the
 * caller sleeps until they leave, and a counter that makes each region's value new. The fields of a region
 * are written while the gate is closed with nobody inside and read only by those inside. A wrapped counter is
 * harmless: the worker misses a region.
 */
#include "base/parallel.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/parallel_openmp.h"

#define WF_GATE_INSIDE 0x07ffu /* workers inside the region */
#define WF_GATE_OPEN 0x0800u
#define WF_GATE_CALLER_SLEEPS 0x1000u
#define WF_GATE_REGION 0x2000u /* one in the counter above the flags */
#define WF_GATE_COUNTER (~(WF_GATE_REGION - 1))
#define WF_POOL_MAX_THREADS 1024u

/* How long an idle thread stays awake. Measured on 2 cores of an AMD EPYC (Zen 3, 2026-11-30): a region with
 * both threads spinning costs under 1 us, one that has to wake a sleeper about 50 us on a virtual machine.
 * Gaps between steps of one run are serial steps of microseconds; beyond 10 ms a wake is 0.5 % of the gap. */
#define WF_SPIN_PAUSE_NS 20000u     /* spin with pause; afterwards yield between looks */
#define WF_SPIN_WINDOW_NS 10000000u /* then sleep, between wf_pool_begin and wf_pool_end */
#define WF_SPIN_TAIL_NS 50000u      /* then sleep, outside */
#define WF_SPIN_CALLER_NS 1000000u  /* the caller, waiting for the last items */
#define WF_SPIN_LOOKS_PER_CLOCK 32u /* looks at the gate between two looks at the clock */

/* Who sleeps on the gate's futex; wakes name their sleepers. */
#define WF_FUTEX_WORKERS 1u
#define WF_FUTEX_CALLER 2u

typedef struct wf_pool_worker {
    wf_pool_t *pool;
    pthread_t thread;
    uint32_t index;
} wf_pool_worker_t;

struct wf_pool {
    wf_allocator_t allocator;
    uint32_t thread_count;
    uint32_t started_count; /* workers that run */
    bool openmp;
    bool deals_equally;
    bool crowded;              /* fewer CPUs than threads: spinning only keeps the others from running */
    wf_pool_worker_t *workers; /* thread_count - 1 */
    uint32_t *openmp_states;   /* floating-point states that the threads of libgomp had, thread_count */

    _Alignas(WF_CACHE_LINE_BYTES) _Atomic uint32_t gate;
    _Alignas(WF_CACHE_LINE_BYTES) _Atomic uint32_t sleeping_count;
    _Atomic uint32_t window_count; /* begins without end */
    _Atomic bool stopping;

    _Alignas(WF_CACHE_LINE_BYTES) atomic_size_t next_item;

    /* The region. */
    _Alignas(WF_CACHE_LINE_BYTES) size_t item_count;
    wf_item_fn *fn;
    void *arg;
    uint32_t fpu_state;
};

static void wf_futex_wait(_Atomic uint32_t *word, uint32_t value, uint32_t sleeper)
{
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value, NULL, NULL, sleeper);
}

static void wf_futex_wake(_Atomic uint32_t *word, uint32_t count, uint32_t sleeper)
{
    syscall(SYS_futex, word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, count, NULL, NULL, sleeper);
}

/* ---- Spinning ---- */

typedef struct wf_spin {
    uint64_t start_ns; /* 0: no look at the clock yet */
    uint32_t looks;
    bool yields;
} wf_spin_t;

/* One pause of a spin loop; false when the budget is spent. */
static bool wf_spin_once(wf_spin_t *spin, uint64_t budget_ns)
{
    if (spin->yields) {
        sched_yield();
    } else {
        WF_CPU_PAUSE();
        if (++spin->looks % WF_SPIN_LOOKS_PER_CLOCK != 0) {
            return true;
        }
    }
    uint64_t now_ns = wf_clock_ns();
    if (spin->start_ns == 0) {
        spin->start_ns = now_ns;
    }
    uint64_t spent_ns = now_ns - spin->start_ns;
    spin->yields = spin->yields || spent_ns > WF_SPIN_PAUSE_NS;
    return spent_ns < budget_ns;
}

/* ---- Workers ---- */

static void wf_pool_take_items(wf_pool_t *pool, uint32_t thread)
{
    const size_t item_count = pool->item_count;
    wf_item_fn *fn = pool->fn;
    void *arg = pool->arg;
    for (;;) {
        size_t item = atomic_fetch_add_explicit(&pool->next_item, 1, memory_order_relaxed);
        if (item >= item_count) {
            return;
        }
        fn(arg, item, thread);
    }
}

static bool wf_gate_invites(uint32_t gate, uint32_t served_counter)
{
    return (gate & WF_GATE_OPEN) != 0 && (gate & WF_GATE_COUNTER) != served_counter;
}

/* Waits until a region other than the served one is open or the pool stops; returns the gate. */
static uint32_t wf_pool_await_region(wf_pool_t *pool, uint32_t served_counter)
{
    wf_spin_t spin = {.yields = pool->crowded};
    for (;;) {
        uint32_t gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
        if (wf_gate_invites(gate, served_counter) ||
            atomic_load_explicit(&pool->stopping, memory_order_acquire)) {
            return gate;
        }
        bool window = atomic_load_explicit(&pool->window_count, memory_order_relaxed) > 0;
        if (wf_spin_once(&spin, window ? WF_SPIN_WINDOW_NS : WF_SPIN_TAIL_NS)) {
            continue;
        }
        /* The opener changes the gate and then looks for sleepers; we announce ourselves and then sleep only
         * if the gate is still what we saw. One of the two sees the other. */
        atomic_fetch_add(&pool->sleeping_count, 1);
        if (!atomic_load(&pool->stopping)) {
            wf_futex_wait(&pool->gate, gate, WF_FUTEX_WORKERS);
        }
        atomic_fetch_sub(&pool->sleeping_count, 1);
        spin = (wf_spin_t){.yields = pool->crowded};
    }
}

static void *wf_pool_worker_main(void *data)
{
    wf_pool_worker_t *worker = data;
    wf_pool_t *pool = worker->pool;
    uint32_t served_counter = 0;
    for (;;) {
        uint32_t gate = wf_pool_await_region(pool, served_counter);
        if (atomic_load_explicit(&pool->stopping, memory_order_acquire)) {
            return NULL;
        }
        bool inside = false;
        while (!inside && wf_gate_invites(gate, served_counter)) {
            inside = atomic_compare_exchange_weak_explicit(&pool->gate, &gate, gate + 1, memory_order_acq_rel,
                                                           memory_order_acquire);
        }
        if (!inside) {
            continue;
        }
        served_counter = gate & WF_GATE_COUNTER;
        wf_fpu_restore(pool->fpu_state);
        wf_pool_take_items(pool, worker->index);
        uint32_t before = atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_acq_rel);
        if ((before & WF_GATE_CALLER_SLEEPS) != 0 && (before & WF_GATE_INSIDE) == 1) {
            wf_futex_wake(&pool->gate, 1, WF_FUTEX_CALLER);
        }
    }
}

/* ---- Regions ---- */

static void wf_pool_wake(wf_pool_t *pool, size_t wanted_count)
{
    uint32_t sleeping_count = atomic_load(&pool->sleeping_count);
    if (sleeping_count > 0) {
        wf_futex_wake(&pool->gate, (uint32_t)WF_MIN((size_t)sleeping_count, wanted_count), WF_FUTEX_WORKERS);
    }
}

/* Waits until nobody is inside the closed region. */
static void wf_pool_await_empty(wf_pool_t *pool, uint32_t gate)
{
    wf_spin_t spin = {.yields = pool->crowded};
    while ((gate & WF_GATE_INSIDE) != 0) {
        if (wf_spin_once(&spin, WF_SPIN_CALLER_NS)) {
            gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
            continue;
        }
        uint32_t asleep = gate | WF_GATE_CALLER_SLEEPS;
        if (gate == asleep || atomic_compare_exchange_weak_explicit(
                                  &pool->gate, &gate, asleep, memory_order_acq_rel, memory_order_acquire)) {
            wf_futex_wait(&pool->gate, asleep, WF_FUTEX_CALLER);
            gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
        }
    }
    if ((gate & WF_GATE_CALLER_SLEEPS) != 0) {
        atomic_fetch_and_explicit(&pool->gate, ~WF_GATE_CALLER_SLEEPS, memory_order_relaxed);
    }
}

static void wf_run_inline(void *self, size_t item_count, wf_item_fn *fn, void *arg)
{
    (void)self;
    for (size_t item = 0; item < item_count; item++) {
        fn(arg, item, 0);
    }
}

/* One run of items per thread. */
typedef struct wf_runs {
    size_t item_count, run_count;
    wf_item_fn *fn;
    void *arg;
} wf_runs_t;

static void wf_runs_do(void *arg, size_t run, uint32_t thread)
{
    const wf_runs_t *runs = arg;
    size_t whole = runs->item_count / runs->run_count, rest = runs->item_count % runs->run_count;
    size_t first = run * whole + WF_MIN(run, rest), count = whole + (run < rest);
    for (size_t item = first; item < first + count; item++) {
        runs->fn(runs->arg, item, thread);
    }
}

static void wf_pool_run(void *self, size_t item_count, wf_item_fn *fn, void *arg)
{
    wf_pool_t *pool = self;
    if (item_count <= 1 || pool->thread_count == 1) {
        wf_run_inline(NULL, item_count, fn, arg);
        return;
    }
    wf_runs_t runs = {item_count, pool->thread_count, fn, arg};
    if (pool->deals_equally && item_count > pool->thread_count) {
        item_count = pool->thread_count;
        fn = wf_runs_do;
        arg = &runs;
    }
    if (pool->openmp) {
        wf_openmp_run(pool->thread_count, item_count, fn, arg);
        return;
    }
    pool->item_count = item_count;
    pool->fn = fn;
    pool->arg = arg;
    pool->fpu_state = wf_fpu_state();
    atomic_store_explicit(&pool->next_item, 0, memory_order_relaxed);
    atomic_fetch_add(&pool->gate, WF_GATE_REGION + WF_GATE_OPEN); /* closed before: the sum sets the flag */
    wf_pool_wake(pool, item_count - 1);
    wf_pool_take_items(pool, 0);
    uint32_t gate = atomic_fetch_and_explicit(&pool->gate, ~WF_GATE_OPEN, memory_order_acq_rel);
    wf_pool_await_empty(pool, gate & ~WF_GATE_OPEN);
}

void wf_pool_begin(wf_pool_t *pool)
{
    /* Regions of a library on libgomp's threads know nothing of the state that ours carry. */
    if (pool->openmp_states != NULL && atomic_fetch_add(&pool->window_count, 1) == 0) {
        wf_openmp_state_set(pool->thread_count, pool->openmp_states);
    }
    if (pool->started_count > 0) {
        atomic_fetch_add(&pool->window_count, 1);
        atomic_fetch_add(&pool->gate, WF_GATE_REGION); /* who is about to sleep looks again */
        wf_pool_wake(pool, pool->started_count);
    }
}

void wf_pool_end(wf_pool_t *pool)
{
    if (pool->openmp_states != NULL && atomic_fetch_sub(&pool->window_count, 1) == 1) {
        wf_openmp_state_restore(pool->thread_count, pool->openmp_states);
    }
    if (pool->started_count > 0) {
        atomic_fetch_sub(&pool->window_count, 1);
    }
}

void wf_pool_rest(wf_pool_t *pool)
{
    if (pool->openmp && pool->thread_count > 1) {
        wf_openmp_rest();
    }
}

wf_parallel_t wf_pool_parallel(wf_pool_t *pool)
{
    return (wf_parallel_t){pool, pool->thread_count, wf_pool_run};
}

wf_parallel_t wf_parallel_inline(void)
{
    return (wf_parallel_t){NULL, 1, wf_run_inline};
}

/* ---- Life ---- */

/* The CPUs of the process, by count; 0 when the system does not say. */
static uint32_t wf_cpus_allowed(cpu_set_t *out_set)
{
    CPU_ZERO(out_set);
    /* Fails on machines with more than CPU_SETSIZE (1024) CPUs: then nothing is known, and nothing pinned. */
    return sched_getaffinity(0, sizeof *out_set, out_set) == 0 ? (uint32_t)CPU_COUNT(out_set) : 0;
}

static wf_status_t wf_pool_start_workers(wf_pool_t *pool)
{
    /* Signals are for the threads of the program. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    while (pool->started_count + 1 < pool->thread_count && failed == 0) {
        wf_pool_worker_t *worker = &pool->workers[pool->started_count];
        *worker = (wf_pool_worker_t){.pool = pool, .index = pool->started_count + 1};
        failed = pthread_create(&worker->thread, NULL, wf_pool_worker_main, worker);
        if (failed == 0) {
            pthread_setname_np(worker->thread, "wf-pool");
            pool->started_count++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        return wf_status_hinted(WF_ERROR(OUT_OF_MEMORY, "cannot start thread %u of %u: %s",
                                         pool->started_count + 2, pool->thread_count,
                                         strerrordesc_np(failed)),
                                "use fewer threads or raise the limit of processes (ulimit -u)");
    }
    return WF_OK;
}

wf_status_t wf_pool_create(uint32_t thread_count, bool openmp, wf_allocator_t allocator, wf_pool_t **out_pool)
{
    *out_pool = NULL;
    if (thread_count == 0 || thread_count > WF_POOL_MAX_THREADS) {
        return WF_ERROR(USAGE, "a run has 1 to %u threads, not %u", WF_POOL_MAX_THREADS, thread_count);
    }
    wf_pool_t *pool;
    WF_TRY(wf_alloc_aligned(allocator, 1, sizeof *pool, WF_CACHE_LINE_BYTES, &pool));
    cpu_set_t cpus;
    uint32_t cpu_count = wf_cpus_allowed(&cpus);
    pool->allocator = allocator;
    pool->thread_count = thread_count;
    pool->openmp = openmp && wf_openmp_available();
    pool->crowded = cpu_count != 0 && cpu_count < thread_count;
    if (thread_count == 1) {
        *out_pool = pool;
        return WF_OK;
    }
    wf_status_t status =
        pool->openmp ? wf_alloc(allocator, thread_count, sizeof *pool->openmp_states, &pool->openmp_states)
                     : wf_alloc(allocator, thread_count - 1, sizeof *pool->workers, &pool->workers);
    if (status == WF_OK && !pool->openmp) {
        status = wf_pool_start_workers(pool);
    }
    if (status != WF_OK) {
        wf_pool_destroy(pool);
        return status;
    }
    *out_pool = pool;
    return WF_OK;
}

void wf_pool_destroy(wf_pool_t *pool)
{
    if (pool == NULL) {
        return;
    }
    atomic_store(&pool->stopping, true);
    atomic_fetch_add(&pool->gate, WF_GATE_REGION);
    wf_futex_wake(&pool->gate, INT32_MAX, WF_FUTEX_WORKERS);
    for (uint32_t i = 0; i < pool->started_count; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    wf_free(pool->allocator, pool->workers, pool->thread_count - 1, sizeof *pool->workers);
    wf_free(pool->allocator, pool->openmp_states, pool->thread_count, sizeof *pool->openmp_states);
    wf_free_aligned(pool->allocator, pool, 1, sizeof *pool, WF_CACHE_LINE_BYTES);
}

void wf_pool_deal_equally(wf_pool_t *pool, bool equally)
{
    pool->deals_equally = equally;
}

bool wf_pool_pin(wf_pool_t *pool, bool pin)
{
    cpu_set_t allowed;
    uint32_t cpu_count = wf_cpus_allowed(&allowed);
    if (pool->openmp || cpu_count == 0) {
        return false;
    }
    bool done = true;
    for (uint32_t i = 0; i < pool->started_count; i++) {
        cpu_set_t wanted = allowed;
        if (pin) {
            uint32_t left = pool->workers[i].index % cpu_count; /* the calling thread has the first CPU */
            CPU_ZERO(&wanted);
            for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
                if (CPU_ISSET(cpu, &allowed) && left-- == 0) {
                    CPU_SET(cpu, &wanted);
                    break;
                }
            }
        }
        done = pthread_setaffinity_np(pool->workers[i].thread, sizeof wanted, &wanted) == 0 && done;
    }
    return done;
}
