/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parallel.h"

#include <dirent.h>
#include <float.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/random.h"

enum { ITEMS = 3000 };

typedef struct tally {
    atomic_uint runs[ITEMS];
    atomic_uint bad_threads;
    uint32_t thread_count;
    atomic_uint inside[16]; /* a thread's number belongs to one thread at a time */
} tally_t;

static void count_item(void *arg, size_t item, uint32_t thread)
{
    tally_t *tally = arg;
    if (thread >= tally->thread_count || item >= ITEMS) {
        atomic_fetch_add(&tally->bad_threads, 1);
        return;
    }
    if (atomic_fetch_add(&tally->inside[thread], 1) != 0) {
        atomic_fetch_add(&tally->bad_threads, 1);
    }
    atomic_fetch_add(&tally->runs[item], 1);
    atomic_fetch_sub(&tally->inside[thread], 1);
}

static void run_and_check(const wf_parallel_t *parallel, tally_t *tally, size_t item_count)
{
    memset(tally, 0, sizeof *tally);
    tally->thread_count = parallel->thread_count;
    parallel->run(parallel->self, item_count, count_item, tally);
    assert_int_equal(atomic_load(&tally->bad_threads), 0);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_int_equal(atomic_load(&tally->runs[i]), i < item_count);
    }
}

static tally_t shared_tally;

static void every_item_runs_once(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("parallel", 5);
    for (uint32_t thread_count = 1; thread_count <= 8; thread_count++) {
        for (int openmp = 0; openmp <= 1; openmp++) {
            wf_pool_t *pool;
            wf_assert_ok(wf_pool_create(thread_count, openmp, wf_allocator_system(), &pool));
            wf_parallel_t parallel = wf_pool_parallel(pool);
            assert_int_equal(parallel.thread_count, thread_count);
            for (int region = 0; region < 60; region++) {
                bool window = region % 3 == 1;
                if (window) {
                    wf_pool_begin(pool);
                }
                size_t largest = (size_t)1 << wf_random_below(&random, 12);
                run_and_check(&parallel, &shared_tally, wf_random_below(&random, largest) % (ITEMS + 1));
                if (window) {
                    wf_pool_end(pool);
                }
                if (region % 20 == 19) {
                    usleep(2000); /* workers fall asleep */
                }
            }
            wf_pool_destroy(pool);
        }
    }
    wf_parallel_t alone = wf_parallel_inline();
    assert_int_equal(alone.thread_count, 1);
    run_and_check(&alone, &shared_tally, ITEMS);
    wf_pool_destroy(NULL);
}

/* Region r writes what region r - 1 wrote: a worker that runs late would be seen as a wrong sum (and as a
 * race). */
typedef struct relay {
    uint64_t values[64];
} relay_t;

static void relay_item(void *arg, size_t item, uint32_t thread)
{
    (void)thread;
    relay_t *relay = arg;
    relay->values[item] = relay->values[item] * 3 + item;
}

static void regions_follow_each_other(void **state)
{
    (void)state;
    for (uint32_t thread_count = 2; thread_count <= 5; thread_count++) {
        wf_pool_t *pool;
        wf_assert_ok(wf_pool_create(thread_count, false, wf_allocator_system(), &pool));
        wf_parallel_t parallel = wf_pool_parallel(pool);
        relay_t relay = {{0}};
        relay_t expected = {{0}};
        wf_pool_begin(pool);
        for (size_t region = 0; region < 20000; region++) {
            size_t item_count = 2 + region % 63;
            parallel.run(parallel.self, item_count, relay_item, &relay);
            for (size_t item = 0; item < item_count; item++) {
                expected.values[item] = expected.values[item] * 3 + item;
            }
        }
        wf_pool_end(pool);
        assert_memory_equal(&relay, &expected, sizeof relay);
        wf_pool_destroy(pool);
    }
}

/* More threads than CPUs: no thread may spin while the one it waits for wants the CPU. */
static void one_cpu_is_enough(void **state)
{
    (void)state;
    cpu_set_t before;
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    wf_pool_t *pool;
    wf_assert_ok(wf_pool_create(4, false, wf_allocator_system(), &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    wf_pool_begin(pool);
    for (int region = 0; region < 300; region++) {
        run_and_check(&parallel, &shared_tally, 50);
    }
    wf_pool_end(pool);
    wf_pool_destroy(pool);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* Items that outlast the caller's patience: it sleeps until the last worker leaves. */
static void sleep_item(void *arg, size_t item, uint32_t thread)
{
    (void)item, (void)thread;
    usleep(5000);
    atomic_fetch_add((atomic_uint *)arg, 1);
}

static void long_items_are_waited_for(void **state)
{
    (void)state;
    wf_pool_t *pool;
    wf_assert_ok(wf_pool_create(3, false, wf_allocator_system(), &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    for (int region = 0; region < 20; region++) {
        atomic_uint count = 0;
        parallel.run(parallel.self, 7, sleep_item, &count);
        assert_int_equal(atomic_load(&count), 7);
    }
    wf_pool_destroy(pool);
}

/* Counts tasks of this process other than the caller that are not asleep. */
static int awake_tasks(void)
{
    int awake = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        char path[300];
        char line[512] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (file != NULL) {
            size_t length = fread(line, 1, sizeof line - 1, file);
            line[length] = 0;
            fclose(file);
            const char *close_paren = strrchr(line, ')');
            bool pool_thread = strstr(line, "(wf-pool)") != NULL;
            awake += pool_thread && close_paren != NULL && close_paren[2] != 'S';
        }
    }
    closedir(tasks);
    return awake;
}

static void expect_sleep(void)
{
    /* The pool sleeps after milliseconds; the limit is for machines that are very busy. */
    for (int tries = 0; awake_tasks() != 0; tries++) {
        assert_true(tries < 6000);
        usleep(10000);
    }
}

static void idle_workers_sleep(void **state)
{
    (void)state;
    wf_pool_t *pool;
    wf_assert_ok(wf_pool_create(4, false, wf_allocator_system(), &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    run_and_check(&parallel, &shared_tally, 100);
    expect_sleep();
    wf_pool_begin(pool); /* a program that forgets the end */
    run_and_check(&parallel, &shared_tally, 100);
    expect_sleep();
    run_and_check(&parallel, &shared_tally, 100); /* and they wake */
    wf_pool_end(pool);
    wf_pool_destroy(pool);
}

typedef struct denormal {
    volatile float input;
    atomic_uint zeros;
    atomic_uint others;
} denormal_t;

static void halve_item(void *arg, size_t item, uint32_t thread)
{
    (void)item, (void)thread;
    denormal_t *denormal = arg;
    float half = denormal->input * 0.5f;
    uint32_t bits;
    memcpy(&bits, &half, sizeof bits);
    atomic_fetch_add(bits == 0 ? &denormal->zeros : &denormal->others, 1);
    usleep(100); /* so that several threads get items */
}

static void all_threads_have_the_state_of_the_caller(void **state)
{
    (void)state;
#if !defined(__x86_64__) && !defined(__aarch64__)
    skip();
#endif
    uint32_t original = wf_fpu_state();
    for (int openmp = 0; openmp <= 1; openmp++) {
        wf_pool_t *pool;
        wf_assert_ok(wf_pool_create(3, openmp, wf_allocator_system(), &pool));
        wf_parallel_t parallel = wf_pool_parallel(pool);
        for (int fast = 0; fast <= 3; fast++) {
            denormal_t denormal = {.input = FLT_MIN};
            uint32_t before = fast % 2 ? wf_fpu_fast() : wf_fpu_state();
            parallel.run(parallel.self, 90, halve_item, &denormal);
            wf_fpu_restore(before);
            assert_int_equal(atomic_load(fast % 2 ? &denormal.zeros : &denormal.others), 90);
        }
        wf_pool_destroy(pool);
    }
    assert_int_equal(wf_fpu_state(), original);
}

typedef void libgomp_parallel_fn(void (*fn)(void *), void *data, unsigned thread_count, unsigned flags);

typedef struct foreign {
    atomic_uint members, fast;
} foreign_t;

/* What a library does on libgomp's threads, knowing nothing of the caller's state. */
static void foreign_member(void *data)
{
    foreign_t *foreign = data;
    uint32_t before = wf_fpu_state();
    bool fast = wf_fpu_fast() == wf_fpu_state();
    wf_fpu_restore(before);
    atomic_fetch_add(&foreign->members, 1);
    atomic_fetch_add(&foreign->fast, fast);
}

static void regions_of_a_library_have_the_state_between_begin_and_end(void **state)
{
    (void)state;
#if !defined(__x86_64__) && !defined(__aarch64__)
    skip();
#endif
    if (!wf_pool_has_openmp())
        skip();
    libgomp_parallel_fn *parallel;
    void *entry = wf_pool_openmp_entry();
    memcpy(&parallel, &entry, sizeof parallel);
    wf_pool_t *pool;
    wf_assert_ok(wf_pool_create(3, true, wf_allocator_system(), &pool));
    for (int round = 0; round < 3; round++) {
        foreign_t inside = {0}, after = {0};
        uint32_t before = wf_fpu_fast();
        wf_pool_begin(pool);
        parallel(foreign_member, &inside, 3, 0);
        wf_pool_end(pool);
        wf_fpu_restore(before);
        parallel(foreign_member, &after, 3, 0);
        assert_int_equal(atomic_load(&inside.fast), atomic_load(&inside.members));
        assert_true(atomic_load(&inside.members) >= 1);
        assert_int_equal(atomic_load(&after.fast), 0);
        wf_pool_rest(pool);
    }
    wf_pool_destroy(pool);
}

static void fast_and_restore_nest(void **state)
{
    (void)state;
    uint32_t original = wf_fpu_state();
    uint32_t outer = wf_fpu_fast();
    uint32_t inner = wf_fpu_fast();
    assert_int_equal(outer, original);
    wf_fpu_restore(inner);
    volatile float tiny = FLT_MIN;
    float half = tiny * 0.5f;
#if defined(__x86_64__) || defined(__aarch64__)
    uint32_t bits;
    memcpy(&bits, &half, sizeof bits);
    assert_int_equal(bits, 0);
#endif
    wf_fpu_restore(outer);
    half = tiny * 0.5f;
    assert_true(half > 0.0f);
    assert_int_equal(wf_fpu_state(), original);
}

static void *run_own_pool(void *arg)
{
    static tally_t tallies[2];
    tally_t *tally = &tallies[*(const int *)arg];
    wf_pool_t *pool;
    wf_assert_ok(wf_pool_create(2, false, wf_allocator_system(), &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    for (int region = 0; region < 200; region++) {
        run_and_check(&parallel, tally, 100);
    }
    wf_pool_destroy(pool);
    return NULL;
}

static void two_pools_do_not_meet(void **state)
{
    (void)state;
    int numbers[2] = {0, 1};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, run_own_pool, &numbers[1]), 0);
    run_own_pool(&numbers[0]);
    pthread_join(other, NULL);
}

static void pinned_pools_work(void **state)
{
    (void)state;
    wf_pool_t *pool;
    wf_assert_ok(wf_pool_create(3, false, wf_allocator_system(), &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    assert_true(wf_pool_pin(pool, true));
    run_and_check(&parallel, &shared_tally, 500);
    assert_true(wf_pool_pin(pool, false));
    run_and_check(&parallel, &shared_tally, 500);
    wf_pool_destroy(pool);
}

static wf_status_t create_and_run(wf_allocator_t allocator, void *arg)
{
    wf_pool_t *pool;
    WF_TRY(wf_pool_create(3, false, allocator, &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    run_and_check(&parallel, arg, 10);
    wf_pool_destroy(pool);
    return WF_OK;
}

static void bad_counts_and_no_memory(void **state)
{
    (void)state;
    wf_pool_t *pool;
    wf_assert_fails(wf_pool_create(0, false, wf_allocator_system(), &pool), USAGE);
    wf_assert_fails(wf_pool_create(1025, false, wf_allocator_system(), &pool), USAGE);
    assert_null(pool);
    assert_int_equal(wf_fail_each_allocation(create_and_run, &shared_tally), 2);
}

static void the_clock_does_not_go_back(void **state)
{
    (void)state;
    uint64_t last_ns = wf_clock_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t now_ns = wf_clock_ns();
        assert_true(now_ns >= last_ns);
        last_ns = now_ns;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_runs_once),
        cmocka_unit_test(regions_follow_each_other),
        cmocka_unit_test(one_cpu_is_enough),
        cmocka_unit_test(long_items_are_waited_for),
        cmocka_unit_test(idle_workers_sleep),
        cmocka_unit_test(all_threads_have_the_state_of_the_caller),
        cmocka_unit_test(regions_of_a_library_have_the_state_between_begin_and_end),
        cmocka_unit_test(fast_and_restore_nest),
        cmocka_unit_test(two_pools_do_not_meet),
        cmocka_unit_test(pinned_pools_work),
        cmocka_unit_test(bad_counts_and_no_memory),
        cmocka_unit_test(the_clock_does_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
