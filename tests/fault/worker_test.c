/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring worker and tactics that misbehave in every way that the null source knows. */
#include "tune/worker.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "op/problem.h"
#include "support/cmocka_all.h"
#include "support/temp_folder.h"

#define PROGRAM WF_TEST_BUILD_DIR "/wayfinder-worker"
#define PROBLEM "v1 relu(x:f32[64,64])->f32[64,64]"

static const char script[] = "relu null/fast - 10 slow=1000\n"
                             "relu null/slow - 10 slow=4000\n"
                             "relu null/crash - 10 fault=crash\n"
                             "relu null/hang - 10 fault=hang\n"
                             "relu null/alloc - 10 fault=alloc\n"
                             "relu null/noise - 10 fault=noise\n"
                             "relu null/error - 10 fault=error\n"
                             "relu null/prepare - 10 fault=prepare\n"
                             "relu null/long - 10 slow=30000000\n"
                             "gather null/gather - 10 slow=1000\n"
                             "conv null/conv - 10 slow=1000 packed=100 workspace=1000\n";

static const char *const sources[] = {"native", "null", NULL};

typedef struct fixture {
    char folder[3000], lease[3100];
    wf_arena_t arena;
    wf_worker_t *worker;
    atomic_int ticks;
    int stop_at; /* 0: never */
} fixture_t;

static bool tick(void *self)
{
    fixture_t *f = self;
    int ticks = ++f->ticks;
    return f->stop_at != 0 && ticks >= f->stop_at;
}

static wf_worker_options_t worker_options(fixture_t *f)
{
    return (wf_worker_options_t){.path = PROGRAM,
                                 .thread_count = 2,
                                 .sources = sources,
                                 .lease_path = f->lease,
                                 .hang_s = 0.7,
                                 .memory_growth_bytes = (size_t)128 << 20,
                                 .allocator = wf_allocator_system(),
                                 .tick = tick,
                                 .tick_self = f};
}

static int set_up(void **state)
{
    fixture_t *f = calloc(1, sizeof *f);
    char path[3100];
    wf_temp_folder_make(f->folder, sizeof f->folder);
    (void)snprintf(path, sizeof path, "%s/script", f->folder);
    (void)snprintf(f->lease, sizeof f->lease, "%s/lease", f->folder);
    wf_temp_file_write(f->folder, "script", script);
    assert_int_equal(setenv("WAYFINDER_NULL_SCRIPT", path, 1), 0);
    wf_arena_init(&f->arena, wf_allocator_system());
    wf_worker_options_t options = worker_options(f);
    wf_assert_ok(wf_worker_create(&options, &f->worker));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_t *f = *state;
    wf_worker_destroy(f->worker);
    wf_arena_deinit(&f->arena);
    wf_temp_folder_remove(f->folder);
    unsetenv("WAYFINDER_NULL_SCRIPT");
    free(f);
    return 0;
}

static wf_measure_request_t request(fixture_t *f, const char *problem, const char *const *tactics,
                                    size_t count)
{
    wf_measure_request_t r = {.tactics = tactics,
                              .tactic_count = count,
                              .block_count = 5,
                              .batch_ns = 20000,
                              .memory_bytes = 8 << 20,
                              .seed = 1};
    wf_assert_ok(wf_problem_parse(problem, strlen(problem), &f->arena, &r.problem));
    return r;
}

/* Two tactics whose times are known by their order. */
static void expect_good_measurement(fixture_t *f)
{
    static const char *const tactics[] = {"null/fast", "null/slow"};
    wf_measure_request_t r = request(f, PROBLEM, tactics, 2);
    wf_measure_result_t result;
    wf_fault_t fault;
    wf_assert_ok(wf_worker_measure(f->worker, &r, &result, &fault));
    assert_int_equal(fault.kind, WF_FAULT_NONE);
    assert_int_equal(result.block_count, 5);
    for (size_t b = 0; b < 5; b++) {
        assert_true(result.times_ns[2 * b] >= 1000 && result.times_ns[2 * b + 1] >= 4000);
        assert_true(result.canary_ns[b] > 0);
    }
    wf_measure_result_deinit(&result);
}

static void measures(void **state)
{
    fixture_t *f = *state;
    expect_good_measurement(f);
    uint64_t generation = wf_worker_generation(f->worker);
    expect_good_measurement(f);
    assert_int_equal(wf_worker_generation(f->worker), generation);
}

static void native_tactics_run_too(void **state)
{
    fixture_t *f = *state;
    static const char *const tactics[] = {"native/ref@1", "null/fast"};
    wf_measure_request_t r = request(f, PROBLEM, tactics, 2);
    wf_measure_result_t result;
    wf_fault_t fault;
    wf_assert_ok(wf_worker_measure(f->worker, &r, &result, &fault));
    assert_int_equal(fault.kind, WF_FAULT_NONE);
    assert_string_equal(result.faults[0], "");
    assert_true(result.times_ns[0] > 0);
    wf_measure_result_deinit(&result);
}

/* A tactic that takes the process with it is named, and the next request finds another process. */
static void check_fault(fixture_t *f, const char *tactic, wf_fault_kind_t kind, const char *word)
{
    const char *const tactics[] = {"null/fast", tactic, "null/slow"};
    wf_measure_request_t r = request(f, PROBLEM, tactics, 3);
    wf_measure_result_t result;
    wf_fault_t fault;
    uint64_t generation = wf_worker_generation(f->worker);
    wf_assert_ok(wf_worker_measure(f->worker, &r, &result, &fault));
    print_message("%s: %s\n", tactic, fault.text);
    assert_int_equal(fault.kind, kind);
    assert_int_equal(fault.item, 1);
    assert_non_null(strstr(fault.text, word));
    assert_int_equal(wf_worker_pid(f->worker), 0);
    expect_good_measurement(f);
    assert_true(wf_worker_generation(f->worker) > generation);
}

static void crashes_are_contained(void **state)
{
    check_fault(*state, "null/crash", WF_FAULT_CRASH, "SIGSEGV");
}

static void hangs_are_ended(void **state)
{
    check_fault(*state, "null/hang", WF_FAULT_HANG, "hangs");
}

static void growth_is_ended(void **state)
{
    fixture_t *f = *state;
    wf_worker_allow_s(f->worker, 60);
    check_fault(f, "null/alloc", WF_FAULT_MEMORY, "memory");
}

/* Those that only fail are out, the others are measured in the same request. */
static void failures_are_told(void **state)
{
    fixture_t *f = *state;
    static const char *const tactics[] = {"null/fast", "null/error", "null/prepare", "null/nosuch",
                                          "null/noise"};
    wf_measure_request_t r = request(f, PROBLEM, tactics, 5);
    wf_measure_result_t result;
    wf_fault_t fault;
    wf_assert_ok(wf_worker_measure(f->worker, &r, &result, &fault));
    assert_int_equal(fault.kind, WF_FAULT_NONE);
    assert_int_equal(result.block_count, 5);
    for (size_t i = 1; i <= 3; i++) {
        assert_true(result.faults[i][0] != '\0');
        assert_true(isnan(result.times_ns[i]));
    }
    assert_string_equal(result.faults[4], ""); /* noise on standard output disturbs nobody */
    assert_true(result.times_ns[4] > 0 && result.times_ns[0] >= 1000);
    wf_measure_result_deinit(&result);
}

static void constants_reach_the_worker(void **state)
{
    fixture_t *f = *state;
    static const char *const tactics[] = {"native/ref@1"};
    wf_measure_request_t r = request(f, "v1 gather(x:f32[4,8],y:i64[3]const){axis=0}->f32[3,8]", tactics, 1);
    int64_t good[] = {3, 0, 2}, bad[] = {3, 0, 9};
    wf_tensor_t constants[2] = {{r.problem->operands[0].type, NULL}, {r.problem->operands[1].type, good}};
    wf_measure_result_t result;
    wf_fault_t fault;
    r.constants = constants;
    wf_assert_ok(wf_worker_measure(f->worker, &r, &result, &fault));
    assert_int_equal(fault.kind, WF_FAULT_NONE);
    assert_string_equal(result.faults[0], "");
    wf_measure_result_deinit(&result);
    constants[1].data = bad; /* seen to be out of range: the values are those that were sent */
    wf_assert_ok(wf_worker_measure(f->worker, &r, &result, &fault));
    assert_true(result.faults[0][0] != '\0');
    wf_measure_result_deinit(&result);
}

static void deadlines_end_measuring(void **state)
{
    fixture_t *f = *state;
    static const char *const tactics[] = {"null/long"};
    wf_measure_request_t r = request(f, PROBLEM, tactics, 1);
    wf_measure_result_t result;
    wf_fault_t fault;
    r.block_count = 10000; /* 30 ms each */
    r.deadline_ns = wf_clock_ns() + 1000000000;
    wf_assert_ok(wf_worker_measure(f->worker, &r, &result, &fault));
    assert_int_equal(fault.kind, WF_FAULT_NONE);
    assert_true(result.block_count < 10000);
    wf_measure_result_deinit(&result);
    r.deadline_ns = wf_clock_ns(); /* nothing may begin */
    wf_assert_ok(wf_worker_measure(f->worker, &r, &result, &fault));
    assert_int_equal(result.block_count, 0);
    assert_string_equal(result.faults[0], "");
    wf_measure_result_deinit(&result);
}

static void asked_to_stop_it_stops(void **state)
{
    fixture_t *f = *state;
    static const char *const tactics[] = {"null/long"};
    wf_measure_request_t r = request(f, PROBLEM, tactics, 1);
    wf_measure_result_t result;
    wf_fault_t fault;
    r.block_count = 10000;
    f->stop_at = f->ticks + 5;
    wf_assert_fails(wf_worker_measure(f->worker, &r, &result, &fault), INTERRUPTED);
    f->stop_at = 0;
    expect_good_measurement(f);
}

static void killed_between_requests_it_comes_again(void **state)
{
    fixture_t *f = *state;
    for (int i = 0; i < 5; i++) {
        wf_assert_ok(wf_worker_start(f->worker));
        assert_int_equal(kill((pid_t)wf_worker_pid(f->worker), SIGKILL), 0);
        static const char *const tactics[] = {"null/fast"};
        wf_measure_request_t r = request(f, PROBLEM, tactics, 1);
        wf_measure_result_t result;
        wf_fault_t fault;
        wf_assert_ok(wf_worker_measure(f->worker, &r, &result, &fault));
        /* Either its death was seen in time, or it is a fault of no tactic. */
        if (fault.kind == WF_FAULT_NONE)
            wf_measure_result_deinit(&result);
        else
            assert_true(fault.item == SIZE_MAX);
        expect_good_measurement(f);
    }
}

static void engines_that_are_none_are_refused(void **state)
{
    fixture_t *f = *state;
    wf_fault_t fault;
    wf_assert_fails(wf_worker_load(f->worker, 0, "no engine", 9, 1, &fault), ENGINE_INVALID);
    assert_int_equal(fault.kind, WF_FAULT_NONE);
    wf_race_message_t race = {.slots = {0}, .slot_count = 1, .block_count = 1, .runs_min = 1};
    wf_measure_result_t result;
    wf_assert_fails(wf_worker_race(f->worker, &race, &result, &fault), INTERNAL);
    expect_good_measurement(f);
}

static void other_programs_are_no_workers(void **state)
{
    fixture_t *f = *state;
    static const char *const programs[] = {"/bin/true", "/bin/cat", "/nowhere/at/all"};
    for (size_t i = 0; i < 3; i++) {
        wf_worker_t *worker;
        wf_worker_options_t options = worker_options(f);
        options.path = programs[i];
        wf_assert_ok(wf_worker_create(&options, &worker));
        wf_status_t status = wf_worker_start(worker);
        assert_non_null(status);
        print_message("%s: %s\n", programs[i], wf_status_message(status));
        wf_status_free(status);
        wf_worker_destroy(worker);
    }
}

static void the_program_is_found(void **state)
{
    (void)state;
    char path[4096];
    wf_assert_ok(wf_worker_find(PROGRAM, path, sizeof path));
    assert_string_equal(path, PROGRAM);
    wf_assert_fails(wf_worker_find("/nowhere/worker", path, sizeof path), FILE_MISSING);
    assert_int_equal(setenv("WAYFINDER_WORKER", "/bin/true", 1), 0);
    wf_assert_ok(wf_worker_find(NULL, path, sizeof path));
    assert_string_equal(path, "/bin/true");
    unsetenv("WAYFINDER_WORKER");
    wf_assert_fails(wf_worker_find(NULL, path, sizeof path), FILE_MISSING); /* not beside this test */
}

/* ---- The tuner dies ---- */

/* Starts a worker that measures for a long time, tells its number and waits to be killed. */
static int child_tuner(void)
{
    fixture_t *f = calloc(1, sizeof *f);
    wf_arena_init(&f->arena, wf_allocator_system());
    wf_worker_options_t options = worker_options(f);
    options.lease_path = "/dev/null";
    options.tick = NULL;
    wf_status_t status = wf_worker_create(&options, &f->worker);
    if (status == WF_OK)
        status = wf_worker_start(f->worker);
    int64_t pid = status == WF_OK ? wf_worker_pid(f->worker) : 0;
    wf_status_ignore(wf_socket_send(3, &pid, sizeof pid, 1000));
    static const char *const tactics[] = {"null/long"};
    wf_measure_request_t r = request(f, PROBLEM, tactics, 1);
    wf_measure_result_t result;
    wf_fault_t fault;
    r.block_count = 100000;
    wf_status_ignore(wf_worker_measure(f->worker, &r, &result, &fault));
    return 0;
}

static void nothing_survives_the_tuner(void **state)
{
    (void)state;
    char role[] = "tuner", name[] = "worker_test";
    char *argv[] = {name, role, NULL};
    wf_process_t process;
    int64_t pid = 0;
    wf_assert_ok(wf_process_start("/proc/self/exe", argv, &process));
    wf_assert_ok(wf_socket_receive(process.socket, &pid, sizeof pid, 10000));
    assert_true(pid > 0);
    usleep(200000);
    assert_int_equal(kill((pid_t)pid, 0), 0);
    wf_process_kill(&process);
    bool gone = false;
    for (int i = 0; i < 5000 && !gone; i++) {
        char path[64], line[256] = "";
        (void)snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
        FILE *file = fopen(path, "r");
        gone = file == NULL || fgets(line, sizeof line, file) == NULL || strstr(line, ") Z ") != NULL;
        if (file != NULL)
            (void)fclose(file);
        usleep(1000);
    }
    assert_true(gone);
}

/* ---- Turns ---- */

static bool count_ticks(void *self)
{
    return ++*(int *)self > 3;
}

static void tuners_take_turns(void **state)
{
    fixture_t *f = *state;
    wf_lease_t a = wf_lease_open(f->lease), b = wf_lease_open(f->lease), none = {-1};
    bool waited;
    int ticks = 0;
    assert_true(a.fd >= 0 && b.fd >= 0);
    wf_assert_ok(wf_lease_take(&a, 0, NULL, NULL, &waited));
    assert_false(waited);
    wf_assert_fails(wf_lease_take(&b, wf_clock_ns() + 20000000, NULL, NULL, &waited), TIME_OUT);
    assert_true(waited);
    wf_assert_fails(wf_lease_take(&b, 0, count_ticks, &ticks, &waited), INTERRUPTED);
    wf_lease_give(&a);
    wf_assert_ok(wf_lease_take(&b, 0, NULL, NULL, &waited));
    assert_false(waited);
    wf_lease_close(&b); /* a process that dies gives its turn back */
    wf_assert_ok(wf_lease_take(&a, 0, NULL, NULL, &waited));
    wf_assert_ok(wf_lease_take(&none, 0, NULL, NULL, &waited));
    wf_lease_give(&none);
    wf_lease_close(&a);
}

static void the_place_of_the_lease_is_private(void **state)
{
    fixture_t *f = *state;
    assert_int_equal(setenv("XDG_RUNTIME_DIR", f->folder, 1), 0);
    wf_lease_t lease = wf_lease_open(NULL);
    assert_true(lease.fd >= 0);
    wf_lease_close(&lease);
    assert_true(wf_temp_folder_count(f->folder) >= 2);
    unsetenv("XDG_RUNTIME_DIR");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "tuner") == 0)
        return child_tuner();
    /* Crashes of workers are wanted here, and wanted as they are in builds without a sanitizer. */
    (void)setenv("ASAN_OPTIONS", "handle_segv=0", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(measures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(native_tactics_run_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(crashes_are_contained, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hangs_are_ended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(growth_is_ended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_are_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(constants_reach_the_worker, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deadlines_end_measuring, set_up, tear_down),
        cmocka_unit_test_setup_teardown(asked_to_stop_it_stops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_between_requests_it_comes_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(engines_that_are_none_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_programs_are_no_workers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_program_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_survives_the_tuner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tuners_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_place_of_the_lease_is_private, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
