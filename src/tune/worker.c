/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/worker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/process.h"
#include "wayfinder/version.h"

#define PROGRAM "wayfinder-worker"
#define POLL_MS 20
#define START_MS 10000
#define SEND_MS 5000
/* Packing and loading are slower than launches. */
#define PREPARE_FACTOR 6.0
#define HANG_S 5.0
#define MEMORY_GROWTH_BYTES ((size_t)1 << 30)
/* A worker that still measures this long after its deadline does not look at the clock. */
#define DEADLINE_GRACE_S 1.0

struct wf_worker {
    wf_worker_options_t options;
    wf_process_t process;
    wf_lease_t lease;
    wf_watch_t *watch;
    uint64_t generation;
    double waited_s, hang_s;
    bool wait_told;
};

/* ---- Finding the program ---- */

static bool try_path(char *out, size_t capacity, const char *folder, size_t folder_bytes, const char *rest)
{
    int length = snprintf(out, capacity, "%.*s/%s", (int)folder_bytes, folder, rest);
    return length > 0 && (size_t)length < capacity && access(out, X_OK) == 0;
}

static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) : 0;
}

static bool find_beside_program(char *out, size_t capacity)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return false;
    self[length] = '\0';
    return try_path(out, capacity, self, folder_length(self), PROGRAM);
}

/* A library in PREFIX/lib or PREFIX/lib/ARCH belongs to the program in PREFIX/bin. */
static bool find_near_library(char *out, size_t capacity)
{
    static const char *const places[] = {PROGRAM, "../bin/" PROGRAM, "../../bin/" PROGRAM};
    static const char here = 0;
    Dl_info info;
    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL || strchr(info.dli_fname, '/') == NULL)
        return false;
    for (size_t i = 0; i < WF_COUNT_OF(places); i++) {
        if (try_path(out, capacity, info.dli_fname, folder_length(info.dli_fname), places[i]))
            return true;
    }
    return false;
}

static bool find_installed(char *out, size_t capacity)
{
#ifdef WF_WORKER_FOLDER
    return try_path(out, capacity, WF_WORKER_FOLDER, strlen(WF_WORKER_FOLDER), PROGRAM);
#else
    (void)out;
    (void)capacity;
    return false;
#endif
}

wf_status_t wf_worker_find(const char *option, char *out_path, size_t capacity)
{
    const char *told = option != NULL ? option : getenv("WAYFINDER_WORKER");
    if (told != NULL && told[0] != '\0') {
        if ((size_t)snprintf(out_path, capacity, "%s", told) < capacity && access(out_path, X_OK) == 0)
            return WF_OK;
        return WF_ERROR(FILE_MISSING, "the measuring worker %s is no program that can be run", told);
    }
    if (find_beside_program(out_path, capacity) || find_near_library(out_path, capacity) ||
        find_installed(out_path, capacity)) {
        return WF_OK;
    }
    return wf_status_hinted(WF_ERROR(FILE_MISSING,
                                     "there is no " PROGRAM " beside this program, near the library or "
                                     "where Wayfinder was installed"),
                            "set WAYFINDER_WORKER to its path");
}

/* ---- Life ---- */

wf_status_t wf_worker_create(const wf_worker_options_t *options, wf_worker_t **out_worker)
{
    *out_worker = NULL;
    wf_worker_t *worker = NULL;
    WF_TRY(wf_alloc(options->allocator, 1, sizeof *worker, &worker));
    worker->options = *options;
    worker->hang_s = options->hang_s > 0 ? options->hang_s : HANG_S;
    if (worker->options.memory_growth_bytes == 0)
        worker->options.memory_growth_bytes = MEMORY_GROWTH_BYTES;
    worker->process = (wf_process_t){.pid = 0, .socket = -1};
    worker->lease = wf_lease_open(options->lease_path);
    *out_worker = worker;
    return WF_OK;
}

static void stop(wf_worker_t *worker)
{
    wf_process_kill(&worker->process);
    if (worker->watch != NULL)
        (void)munmap(worker->watch, sizeof *worker->watch);
    worker->watch = NULL;
}

void wf_worker_destroy(wf_worker_t *worker)
{
    if (worker == NULL)
        return;
    stop(worker);
    wf_lease_close(&worker->lease);
    wf_free(worker->options.allocator, worker, 1, sizeof *worker);
}

uint64_t wf_worker_generation(const wf_worker_t *worker)
{
    return worker->generation;
}

double wf_worker_waited_s(const wf_worker_t *worker)
{
    return worker->waited_s;
}

void wf_worker_allow_s(wf_worker_t *worker, double hang_s)
{
    worker->hang_s = hang_s;
}

int64_t wf_worker_pid(const wf_worker_t *worker)
{
    return worker->process.pid;
}

/* ---- Memory that both see ---- */

static wf_status_t make_memory(const char *name, size_t bytes, int *out_fd, void **out_data)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    void *data = MAP_FAILED;
    *out_fd = -1;
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        if (fd >= 0)
            (void)close(fd);
        return WF_ERROR(OUT_OF_MEMORY, "no memory of %zu bytes to share with the worker", bytes);
    }
    *out_fd = fd;
    *out_data = data;
    return WF_OK;
}

/* ---- Watching ---- */

static size_t resident_bytes(int64_t pid)
{
    char path[64], text[128];
    unsigned long long total, resident;
    (void)snprintf(path, sizeof path, "/proc/%lld/statm", (long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    if (sscanf(text, "%llu %llu", &total, &resident) != 2)
        return 0;
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* What a call may do until it is a fault. */
typedef struct limits {
    size_t memory_bytes;  /* that the request is known to need */
    uint64_t deadline_ns; /* 0: none */
} limits_t;

typedef struct vigil {
    const limits_t *limits;
    size_t memory_limit_bytes;
    uint64_t last_change_ns, last_beats;
    uint32_t last_phase, last_item;
} vigil_t;

static void fault_set(const wf_worker_t *worker, wf_fault_t *fault, wf_fault_kind_t kind, const char *text)
{
    fault->kind = kind;
    bool busy = worker->watch != NULL &&
                atomic_load_explicit(&worker->watch->phase, memory_order_acquire) != WF_WATCH_IDLE;
    fault->item = busy ? atomic_load_explicit(&worker->watch->item, memory_order_relaxed) : SIZE_MAX;
    (void)snprintf(fault->text, sizeof fault->text, "%s", text);
}

static void describe_end(int how, char *text, size_t capacity)
{
    if (WIFSIGNALED(how)) {
        int signal = WTERMSIG(how);
        const char *name = sigabbrev_np(signal);
        (void)snprintf(text, capacity, "crashed: signal %s%s (%s)", name != NULL ? "SIG" : "",
                       name != NULL ? name : "?", sigdescr_np(signal) != NULL ? sigdescr_np(signal) : "");
    } else {
        (void)snprintf(text, capacity, "ended the process with exit code %d", WEXITSTATUS(how));
    }
}

/* True when the process is gone; waits a little, since its connection ends before it can be seen dead. */
static bool ended(wf_worker_t *worker, wf_fault_t *fault, int patience_ms)
{
    int how;
    char text[200];
    for (int i = 0; i <= patience_ms; i++) {
        if (wf_process_ended(&worker->process, &how)) {
            describe_end(how, text, sizeof text);
            fault_set(worker, fault, WF_FAULT_CRASH, text);
            return true;
        }
        if (i < patience_ms)
            (void)poll(NULL, 0, 1);
    }
    return false;
}

static bool hangs(wf_worker_t *worker, vigil_t *vigil, wf_fault_t *fault)
{
    uint64_t now_ns = wf_clock_ns();
    uint64_t beats = atomic_load_explicit(&worker->watch->beats, memory_order_relaxed);
    uint32_t phase = atomic_load_explicit(&worker->watch->phase, memory_order_acquire);
    uint32_t item = atomic_load_explicit(&worker->watch->item, memory_order_relaxed);
    char text[120];
    if (beats != vigil->last_beats || phase != vigil->last_phase || item != vigil->last_item) {
        vigil->last_beats = beats;
        vigil->last_phase = phase;
        vigil->last_item = item;
        vigil->last_change_ns = now_ns;
    }
    double limit_s = phase == WF_WATCH_LAUNCH ? worker->hang_s : PREPARE_FACTOR * worker->hang_s;
    if ((double)(now_ns - vigil->last_change_ns) < 1e9 * limit_s)
        return false;
    (void)snprintf(text, sizeof text, "hangs: %s did not end in %.1f s",
                   phase == WF_WATCH_LAUNCH ? "a launch" : "preparing", limit_s);
    fault_set(worker, fault, WF_FAULT_HANG, text);
    return true;
}

static bool grows(wf_worker_t *worker, const vigil_t *vigil, wf_fault_t *fault)
{
    size_t bytes = resident_bytes(worker->process.pid);
    char text[120];
    if (bytes <= vigil->memory_limit_bytes)
        return false;
    (void)snprintf(text, sizeof text, "takes memory without end: %zu MiB, %zu MiB were allowed", bytes >> 20,
                   vigil->memory_limit_bytes >> 20);
    fault_set(worker, fault, WF_FAULT_MEMORY, text);
    return true;
}

/* Waits for the answer. WF_OK with a fault when there will be none. */
static wf_status_t await_answer(wf_worker_t *worker, const limits_t *limits, wf_fault_t *fault)
{
    vigil_t vigil = {.limits = limits, .last_change_ns = wf_clock_ns()};
    vigil.memory_limit_bytes =
        resident_bytes(worker->process.pid) + limits->memory_bytes + worker->options.memory_growth_bytes;
    for (;;) {
        struct pollfd descriptor = {.fd = worker->process.socket, .events = POLLIN};
        int ready = poll(&descriptor, 1, POLL_MS);
        if (ready > 0)
            return WF_OK;
        if (worker->options.tick != NULL && worker->options.tick(worker->options.tick_self))
            return WF_ERROR(INTERRUPTED, "stopped while measuring");
        if (ended(worker, fault, 0) || hangs(worker, &vigil, fault) || grows(worker, &vigil, fault))
            return WF_OK;
        if (limits->deadline_ns != 0 &&
            wf_clock_ns() > limits->deadline_ns + (uint64_t)(1e9 * DEADLINE_GRACE_S)) {
            /* One slow launch, most likely: nothing is wrong with it but that there is no time. */
            return WF_ERROR(TIME_OUT, "a measurement went on past its deadline");
        }
    }
}

/* ---- Talking ---- */

typedef struct request {
    wf_message_kind_t kind;
    wf_text_t *payload;
    int fd; /* sent after the message; -1: none */
    limits_t limits;
} request_t;

static wf_status_t receive(wf_worker_t *worker, wf_message_t *out_message, wf_fault_t *fault)
{
    wf_status_t status =
        wf_message_receive(worker->process.socket, worker->options.allocator, SEND_MS, out_message);
    if (status == WF_OK || wf_status_code(status) == WF_CODE_OUT_OF_MEMORY)
        return status;
    if (!ended(worker, fault, 200))
        fault_set(worker, fault, WF_FAULT_NONSENSE, wf_status_message(status));
    wf_status_free(status);
    return WF_OK;
}

/* Sends and waits. A fault or an interruption kills the process; the message is then empty. */
static wf_status_t exchange(wf_worker_t *worker, const request_t *request, wf_message_t *out_message,
                            wf_fault_t *fault)
{
    *out_message = (wf_message_t){.allocator = worker->options.allocator};
    *fault = (wf_fault_t){.kind = WF_FAULT_NONE, .item = SIZE_MAX};
    wf_status_t status = wf_text_take_status(request->payload);
    if (status != WF_OK)
        return status;
    atomic_store(&worker->watch->phase, WF_WATCH_IDLE);
    status = wf_message_send(worker->process.socket, request->kind, request->payload, SEND_MS);
    if (status == WF_OK && request->fd >= 0)
        status = wf_socket_send_fd(worker->process.socket, request->fd, SEND_MS);
    if (status != WF_OK) {
        /* It died between two requests. */
        wf_status_free(status);
        status = WF_OK;
        if (!ended(worker, fault, 200))
            fault_set(worker, fault, WF_FAULT_NONSENSE, "does not take requests");
    } else {
        status = await_answer(worker, &request->limits, fault);
        if (status == WF_OK && fault->kind == WF_FAULT_NONE)
            status = receive(worker, out_message, fault);
    }
    if (status != WF_OK || fault->kind != WF_FAULT_NONE)
        stop(worker);
    return status;
}

/* The answer is of this kind, or says why there is none; else the worker is mad. */
static wf_status_t expect(wf_worker_t *worker, const wf_message_t *message, wf_message_kind_t kind,
                          wf_fault_t *fault)
{
    if (message->kind == kind)
        return WF_OK;
    if (message->kind == WF_MESSAGE_FAILED) {
        wf_unpack_t in = wf_unpack_message(message);
        return wf_failed_unpack(&in);
    }
    fault_set(worker, fault, WF_FAULT_NONSENSE, "answers what was not asked");
    stop(worker);
    return WF_OK;
}

static wf_text_t new_payload(const wf_worker_t *worker)
{
    wf_text_t payload;
    wf_text_init(&payload, worker->options.allocator, WF_MESSAGE_MAX_BYTES);
    return payload;
}

/* ---- Starting ---- */

static wf_status_t greet(wf_worker_t *worker)
{
    int fd;
    void *watch;
    WF_TRY(make_memory("wayfinder-watch", sizeof *worker->watch, &fd, &watch));
    worker->watch = watch;
    wf_hello_t hello = {WF_VERSION_TEXT, WF_WORKER_PROTOCOL, worker->options.thread_count,
                        worker->options.isa, worker->options.sources};
    wf_text_t payload = new_payload(worker);
    wf_hello_pack(&hello, &payload);
    request_t request = {.kind = WF_MESSAGE_HELLO,
                         .payload = &payload,
                         .fd = fd,
                         .limits = {.deadline_ns = wf_clock_ns() + START_MS * 1000000ull}};
    wf_message_t message;
    wf_fault_t fault;
    wf_status_t status = exchange(worker, &request, &message, &fault);
    if (status == WF_OK && fault.kind == WF_FAULT_NONE)
        status = expect(worker, &message, WF_MESSAGE_READY, &fault);
    if (status == WF_OK && fault.kind != WF_FAULT_NONE)
        status = WF_ERROR(INTERNAL, "the measuring worker %s %s", worker->options.path, fault.text);
    wf_message_deinit(&message);
    wf_text_deinit(&payload);
    (void)close(fd);
    return status;
}

wf_status_t wf_worker_start(wf_worker_t *worker)
{
    wf_fault_t fault;
    if (worker->process.pid != 0 && !ended(worker, &fault, 0))
        return WF_OK;
    stop(worker);
    char name[] = PROGRAM;
    char *argv[] = {name, NULL};
    WF_TRY(wf_process_start(worker->options.path, argv, &worker->process));
    worker->generation++;
    wf_status_t status = greet(worker);
    if (status != WF_OK)
        stop(worker);
    else
        wf_log_line(&worker->options.log, WF_LOG_DEBUG, "worker %lld started",
                    (long long)worker->process.pid);
    return status;
}

/* ---- Requests ---- */

static wf_status_t take_lease(wf_worker_t *worker, uint64_t deadline_ns)
{
    bool waited;
    uint64_t before_ns = wf_clock_ns();
    wf_status_t status =
        wf_lease_take(&worker->lease, deadline_ns, worker->options.tick, worker->options.tick_self, &waited);
    if (waited) {
        worker->waited_s += (double)(wf_clock_ns() - before_ns) * 1e-9;
        if (!worker->wait_told)
            wf_log_line(&worker->options.log, WF_LOG_INFO,
                        "another tuner measures on this machine: taking turns");
        worker->wait_told = true;
    }
    return status;
}

/* A request whose answer are measurements. */
static wf_status_t exchange_measured(wf_worker_t *worker, const request_t *request, size_t column_count,
                                     wf_measure_result_t *out_result, wf_fault_t *fault)
{
    wf_message_t message;
    wf_status_t status = exchange(worker, request, &message, fault);
    if (status == WF_OK && fault->kind == WF_FAULT_NONE)
        status = expect(worker, &message, WF_MESSAGE_MEASURED, fault);
    if (status == WF_OK && fault->kind == WF_FAULT_NONE) {
        wf_unpack_t in = wf_unpack_message(&message);
        status = wf_measured_unpack(&in, worker->options.allocator, out_result);
        bool mad = wf_status_code(status) == WF_CODE_INTERNAL;
        if (status == WF_OK && out_result->tactic_count != column_count) {
            wf_measure_result_deinit(out_result);
            mad = true;
        }
        if (mad) {
            wf_status_free(status);
            status = WF_OK;
            fault_set(worker, fault, WF_FAULT_NONSENSE, "answers nonsense");
            stop(worker);
        }
    }
    wf_message_deinit(&message);
    return status;
}

/* The constants that have data, one after the other in a memfd. */
static wf_status_t share_constants(const wf_measure_request_t *request, wf_constant_place_t *places,
                                   wf_measure_message_t *message, int *out_fd)
{
    size_t operand_count = request->problem->operand_count;
    uint64_t total = 0;
    *out_fd = -1;
    for (size_t i = 0; request->constants != NULL && i < operand_count; i++) {
        const wf_tensor_t *constant = &request->constants[i];
        if (constant->data == NULL)
            continue;
        places[i] = (wf_constant_place_t){total, (uint64_t)wf_type_bytes(&constant->type)};
        total += (places[i].bytes + 63) / 64 * 64;
    }
    if (total == 0)
        return WF_OK;
    void *data;
    WF_TRY(make_memory("wayfinder-constants", (size_t)total, out_fd, &data));
    for (size_t i = 0; i < operand_count; i++) {
        if (places[i].bytes > 0)
            memcpy((uint8_t *)data + places[i].offset, request->constants[i].data, (size_t)places[i].bytes);
    }
    (void)munmap(data, (size_t)total);
    message->places = places;
    message->place_count = operand_count;
    message->constant_bytes = total;
    return WF_OK;
}

/* What measuring a problem takes at most: sets of operands and outputs, which tactics share, packed constants
 * of each, and tensors as they are. At most 64 sets are made. */
static size_t expected_bytes(const wf_measure_request_t *request)
{
    double tensors = wf_problem_bytes(request->problem), tactics = (double)request->tactic_count;
    double sets = fmin((double)request->memory_bytes, 256 * tensors);
    double bytes = (tactics + 2) * sets + 4 * tactics * tensors;
    return bytes < (double)(SIZE_MAX / 4) ? (size_t)bytes : SIZE_MAX / 4;
}

wf_status_t wf_worker_measure(wf_worker_t *worker, const wf_measure_request_t *request,
                              wf_measure_result_t *out_result, wf_fault_t *out_fault)
{
    wf_allocator_t allocator = worker->options.allocator;
    *out_result = (wf_measure_result_t){.allocator = allocator};
    *out_fault = (wf_fault_t){.kind = WF_FAULT_NONE, .item = SIZE_MAX};
    WF_TRY(wf_worker_start(worker));
    wf_measure_message_t message = {.problem = request->problem->text, .request = *request};
    wf_constant_place_t *places = NULL;
    int fd = -1;
    WF_TRY(wf_alloc(allocator, request->problem->operand_count, sizeof *places, &places));
    wf_text_t payload = new_payload(worker);
    wf_status_t status = share_constants(request, places, &message, &fd);
    if (status == WF_OK) {
        wf_measure_pack(&message, &payload);
        status = take_lease(worker, request->deadline_ns);
        if (status == WF_OK) {
            request_t call = {.kind = WF_MESSAGE_MEASURE,
                              .payload = &payload,
                              .fd = fd,
                              .limits = {expected_bytes(request), request->deadline_ns}};
            status = exchange_measured(worker, &call, request->tactic_count, out_result, out_fault);
            wf_lease_give(&worker->lease);
        }
    }
    if (fd >= 0)
        (void)close(fd);
    wf_text_deinit(&payload);
    wf_free(allocator, places, request->problem->operand_count, sizeof *places);
    return status;
}

static wf_status_t simple_request(wf_worker_t *worker, const request_t *request, wf_fault_t *fault)
{
    wf_message_t message;
    wf_status_t status = exchange(worker, request, &message, fault);
    if (status == WF_OK && fault->kind == WF_FAULT_NONE)
        status = expect(worker, &message, WF_MESSAGE_LOADED, fault);
    wf_message_deinit(&message);
    return status;
}

/* Sends a message that a memfd follows. */
static wf_status_t request_with(wf_worker_t *worker, wf_message_kind_t kind, wf_text_t *payload, int fd,
                                size_t memory_bytes, wf_fault_t *fault)
{
    request_t request = {.kind = kind, .payload = payload, .fd = fd, .limits = {memory_bytes, 0}};
    wf_status_t status = simple_request(worker, &request, fault);
    (void)close(fd);
    return status;
}

static wf_status_t load(wf_worker_t *worker, const wf_load_message_t *message, const void *engine,
                        size_t memory_bytes, wf_fault_t *fault)
{
    assert(message->slot < WF_WORKER_SLOTS);
    *fault = (wf_fault_t){.kind = WF_FAULT_NONE, .item = SIZE_MAX};
    WF_TRY(wf_worker_start(worker));
    int fd;
    void *data;
    WF_TRY(make_memory("wayfinder-engine", message->engine_bytes, &fd, &data));
    memcpy(data, engine, message->engine_bytes);
    (void)munmap(data, message->engine_bytes);
    wf_text_t payload = new_payload(worker);
    wf_load_pack(message, &payload);
    wf_status_t status = request_with(worker, WF_MESSAGE_LOAD, &payload, fd, memory_bytes, fault);
    wf_text_deinit(&payload);
    return status;
}

wf_status_t wf_worker_load(wf_worker_t *worker, uint32_t slot, const void *engine, size_t engine_bytes,
                           uint64_t seed, wf_fault_t *out_fault)
{
    wf_load_message_t message = {.slot = slot, .engine_bytes = engine_bytes, .seed = seed};
    /* Mapped bytes, packed constants and an arena that may be several times as large. */
    return load(worker, &message, engine, 4 * engine_bytes, out_fault);
}

wf_status_t wf_worker_link(wf_worker_t *worker, uint32_t slot, const void *engine, size_t engine_bytes,
                           uint64_t seed, size_t memory_bytes, wf_fault_t *out_fault)
{
    wf_load_message_t message = {.slot = slot, .linked = 1, .engine_bytes = engine_bytes, .seed = seed};
    return load(worker, &message, engine, memory_bytes, out_fault);
}

wf_status_t wf_worker_store(wf_worker_t *worker, size_t constant_bytes, size_t limit_bytes,
                            wf_worker_copy_fn *copy, const void *arg, wf_fault_t *out_fault)
{
    *out_fault = (wf_fault_t){.kind = WF_FAULT_NONE, .item = SIZE_MAX};
    WF_TRY(wf_worker_start(worker));
    int fd;
    void *data;
    size_t bytes = WF_MAX(constant_bytes, (size_t)1);
    WF_TRY(make_memory("wayfinder-constants", bytes, &fd, &data));
    if (constant_bytes > 0)
        copy(arg, data);
    (void)munmap(data, bytes);
    wf_store_message_t message = {bytes, limit_bytes};
    wf_text_t payload = new_payload(worker);
    wf_store_pack(&message, &payload);
    wf_status_t status = request_with(worker, WF_MESSAGE_STORE, &payload, fd, 2 * bytes, out_fault);
    wf_text_deinit(&payload);
    return status;
}

wf_status_t wf_worker_unload(wf_worker_t *worker, uint32_t slot)
{
    if (worker->process.pid == 0)
        return WF_OK;
    wf_text_t payload = new_payload(worker);
    wf_fault_t fault;
    wf_pack_u32(&payload, slot);
    request_t request = {.kind = WF_MESSAGE_UNLOAD, .payload = &payload, .fd = -1};
    wf_status_t status = simple_request(worker, &request, &fault);
    wf_text_deinit(&payload);
    return status;
}

wf_status_t wf_worker_race(wf_worker_t *worker, const wf_race_message_t *race,
                           wf_measure_result_t *out_result, wf_fault_t *out_fault)
{
    *out_result = (wf_measure_result_t){.allocator = worker->options.allocator};
    *out_fault = (wf_fault_t){.kind = WF_FAULT_NONE, .item = SIZE_MAX};
    WF_TRY(wf_worker_start(worker));
    wf_text_t payload = new_payload(worker);
    wf_race_pack(race, &payload);
    wf_status_t status = take_lease(worker, race->deadline_ns);
    if (status == WF_OK) {
        request_t request = {.kind = WF_MESSAGE_RACE,
                             .payload = &payload,
                             .fd = -1,
                             .limits = {(size_t)64 << 20, race->deadline_ns}};
        status = exchange_measured(worker, &request, race->slot_count, out_result, out_fault);
        wf_lease_give(&worker->lease);
    }
    wf_text_deinit(&payload);
    return status;
}
