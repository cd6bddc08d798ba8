/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/worker_serve.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/process.h"
#include "device/device.h"
#include "runtime/engine.h"
#include "tune/arm.h"
#include "tune/canary.h"
#include "tune/stats.h"
#include "tune/worker_protocol.h"
#include "wayfinder/version.h"

#define RECEIVE_MS 60000

typedef struct slot {
    void *bytes; /* mapped engine */
    size_t length;
    wf_engine_t *engine;
    wf_arm_t *arm;
    bool linked;
} slot_t;

typedef struct server {
    int socket;
    wf_allocator_t allocator;
    wf_watch_t *watch;
    wf_meter_t *meter;
    uint32_t thread_count;
    char isa[32];
    slot_t slots[WF_WORKER_SLOTS];
    void *constants; /* mapped; NULL: no store came */
    size_t constant_bytes;
    wf_kernel_cache_t *cache;
} server_t;

/* ---- Memory from the tuner ---- */

/* Maps `length` bytes of the file that comes next. */
static wf_status_t receive_mapping(const server_t *server, size_t length, bool writable, void **out_bytes)
{
    int fd;
    struct stat facts;
    *out_bytes = NULL;
    WF_TRY(wf_socket_receive_fd(server->socket, &fd, RECEIVE_MS));
    void *bytes = MAP_FAILED;
    if (length > 0 && fstat(fd, &facts) == 0 && (uint64_t)facts.st_size >= length) {
        bytes = mmap(NULL, length, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                     writable ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    }
    (void)close(fd);
    if (bytes == MAP_FAILED)
        return WF_ERROR(OUT_OF_MEMORY, "the worker cannot map %zu bytes from the tuner", length);
    *out_bytes = bytes;
    return WF_OK;
}

/* ---- Answers ---- */

static wf_status_t answer(const server_t *server, wf_message_kind_t kind, wf_text_t *payload)
{
    wf_status_t status = wf_text_take_status(payload);
    if (status == WF_OK)
        status = wf_message_send(server->socket, kind, payload, RECEIVE_MS);
    wf_text_deinit(payload);
    return status;
}

static wf_text_t new_payload(const server_t *server)
{
    wf_text_t payload;
    wf_text_init(&payload, server->allocator, WF_MESSAGE_MAX_BYTES);
    return payload;
}

/* Tells why a request was not done; the status is freed. */
static wf_status_t answer_failed(const server_t *server, wf_status_t why)
{
    wf_text_t payload = new_payload(server);
    wf_failed_pack(why, &payload);
    wf_status_free(why);
    return answer(server, WF_MESSAGE_FAILED, &payload);
}

static wf_status_t answer_simple(const server_t *server, wf_message_kind_t kind, wf_status_t status)
{
    if (status != WF_OK)
        return answer_failed(server, status);
    wf_text_t payload = new_payload(server);
    return answer(server, kind, &payload);
}

static wf_status_t answer_measured(const server_t *server, wf_status_t status, wf_measure_result_t *result)
{
    if (status != WF_OK)
        return answer_failed(server, status);
    wf_text_t payload = new_payload(server);
    wf_measured_pack(result, &payload);
    wf_measure_result_deinit(result);
    return answer(server, WF_MESSAGE_MEASURED, &payload);
}

/* ---- Hello ---- */

static wf_status_t start_meter(server_t *server, const wf_hello_t *hello)
{
    if (hello->protocol != WF_WORKER_PROTOCOL || strcmp(hello->version, WF_VERSION_TEXT) != 0) {
        return wf_status_hinted(
            WF_ERROR(INTERNAL, "the worker is version %s, the tuner %s", WF_VERSION_TEXT, hello->version),
            "install both from one build");
    }
    if (server->meter != NULL)
        return WF_ERROR(INTERNAL, "the worker was greeted twice");
    wf_device_t device;
    (void)snprintf(server->isa, sizeof server->isa, "%s", hello->isa);
    const char *isa = server->isa[0] != '\0' ? server->isa : NULL;
    WF_TRY(wf_device_detect(isa, &device));
    wf_cpu_t cpu = wf_device_cpu(&device, hello->thread_count);
    server->thread_count = cpu.thread_count;
    return wf_meter_create(&cpu, hello->sources, server->watch, server->allocator, (wf_log_t){0},
                           &server->meter);
}

static wf_status_t do_hello(server_t *server, wf_unpack_t *in)
{
    wf_arena_t arena;
    wf_hello_t hello;
    void *watch = NULL;
    wf_arena_init(&arena, server->allocator);
    wf_status_t status = wf_hello_unpack(in, &arena, &hello);
    if (status == WF_OK && server->watch == NULL) {
        status = receive_mapping(server, sizeof *server->watch, true, &watch);
        server->watch = watch;
    }
    if (status == WF_OK)
        status = start_meter(server, &hello);
    wf_arena_deinit(&arena);
    return answer_simple(server, WF_MESSAGE_READY, status);
}

/* ---- Measure ---- */

static wf_status_t find_constants(const wf_measure_message_t *message, const wf_problem_t *problem,
                                  const uint8_t *bytes, wf_arena_t *arena, wf_measure_request_t *request)
{
    if (message->place_count == 0)
        return WF_OK;
    if (message->place_count != problem->operand_count)
        return WF_ERROR(INTERNAL, "constants do not fit the problem");
    wf_tensor_t *constants = NULL;
    WF_TRY(wf_arena_alloc(arena, problem->operand_count, sizeof *constants, &constants));
    for (size_t i = 0; i < problem->operand_count; i++) {
        constants[i].type = problem->operands[i].type;
        const wf_constant_place_t *place = &message->places[i];
        if (place->bytes == 0 || bytes == NULL)
            continue;
        if (!problem->operands[i].is_const ||
            wf_type_bytes(&problem->operands[i].type) != (int64_t)place->bytes) {
            return WF_ERROR(INTERNAL, "constant %zu does not fit the problem", i);
        }
        constants[i].data = (void *)(uintptr_t)(bytes + place->offset);
    }
    request->constants = constants;
    return WF_OK;
}

static wf_status_t do_measure(server_t *server, wf_unpack_t *in)
{
    wf_arena_t arena;
    wf_measure_message_t message;
    wf_measure_result_t result = {0};
    void *bytes = NULL;
    wf_arena_init(&arena, server->allocator);
    wf_status_t status = wf_measure_unpack(in, &arena, &message);
    if (status == WF_OK && message.constant_bytes > 0)
        status = receive_mapping(server, (size_t)message.constant_bytes, false, &bytes);
    if (status == WF_OK && server->meter == NULL)
        status = WF_ERROR(INTERNAL, "the worker was not greeted");
    if (status == WF_OK) {
        status = wf_problem_parse(message.problem, strlen(message.problem), &arena, &message.request.problem);
    }
    if (status == WF_OK)
        status = find_constants(&message, message.request.problem, bytes, &arena, &message.request);
    if (status == WF_OK)
        status = wf_measure(server->meter, &message.request, &result);
    wf_status_t sent = answer_measured(server, status, &result);
    if (bytes != NULL)
        (void)munmap(bytes, (size_t)message.constant_bytes);
    wf_arena_deinit(&arena);
    return sent;
}

/* ---- Engines ---- */

static void slot_free(slot_t *slot)
{
    wf_arm_destroy(slot->arm);
    wf_engine_close(slot->engine);
    if (slot->bytes != NULL)
        (void)munmap(slot->bytes, slot->length);
    *slot = (slot_t){0};
}

static void watch(server_t *server, size_t item, wf_watch_phase_t phase)
{
    if (server->watch == NULL)
        return;
    atomic_store_explicit(&server->watch->item, (uint32_t)item, memory_order_relaxed);
    atomic_store_explicit(&server->watch->phase, phase, memory_order_release);
    atomic_fetch_add_explicit(&server->watch->beats, 1, memory_order_relaxed);
}

static wf_status_t load(server_t *server, wf_unpack_t *in)
{
    wf_load_message_t message;
    WF_TRY(wf_load_unpack(in, &message));
    slot_t *slot = &server->slots[message.slot];
    slot_free(slot);
    slot->linked = message.linked != 0;
    slot->length = (size_t)message.engine_bytes;
    WF_TRY(receive_mapping(server, slot->length, false, &slot->bytes));
    if (server->meter == NULL)
        return WF_ERROR(INTERNAL, "the worker was not greeted");
    if (slot->linked && server->cache == NULL)
        return WF_ERROR(INTERNAL, "there are no constants to link an engine against");
    /* Threads are those the engine was made for: they may be what is compared. */
    wf_engine_options_t options = {.struct_bytes = sizeof options,
                                   .isa = server->isa[0] != '\0' ? server->isa : NULL,
                                   .allocator = server->allocator};
    watch(server, message.slot, WF_WATCH_PREPARE);
    WF_TRY(slot->linked
               ? wf_engine_open_linked(slot->bytes, slot->length, &options, server->cache, &slot->engine)
               : wf_engine_open_bytes(slot->bytes, slot->length, &options, &slot->engine));
    WF_TRY(wf_arm_create(slot->engine, NULL, 0, message.seed, server->allocator, &slot->arm));
    if (server->watch != NULL)
        wf_arm_beat(slot->arm, &server->watch->beats);
    watch(server, message.slot, WF_WATCH_LAUNCH);
    /* A trial is warmed up by its first sample. */
    return slot->linked ? WF_OK : wf_arm_warm(slot->arm);
}

static void drop_store(server_t *server)
{
    for (size_t i = 0; i < WF_WORKER_SLOTS; i++) {
        if (server->slots[i].linked)
            slot_free(&server->slots[i]);
    }
    wf_kernel_cache_destroy(server->cache);
    server->cache = NULL;
    if (server->constants != NULL)
        (void)munmap(server->constants, server->constant_bytes);
    server->constants = NULL;
}

static wf_status_t take_store(server_t *server, wf_unpack_t *in)
{
    wf_store_message_t message;
    WF_TRY(wf_store_unpack(in, &message));
    drop_store(server);
    server->constant_bytes = (size_t)message.constant_bytes;
    WF_TRY(receive_mapping(server, server->constant_bytes, false, &server->constants));
    return wf_kernel_cache_create(server->constants, server->constant_bytes, (size_t)message.limit_bytes,
                                  server->allocator, (wf_log_t){0}, &server->cache);
}

static wf_status_t do_store(server_t *server, wf_unpack_t *in)
{
    return answer_simple(server, WF_MESSAGE_LOADED, take_store(server, in));
}

static wf_status_t do_load(server_t *server, wf_unpack_t *in)
{
    wf_status_t status = load(server, in);
    watch(server, 0, WF_WATCH_IDLE);
    return answer_simple(server, WF_MESSAGE_LOADED, status);
}

static wf_status_t do_unload(server_t *server, wf_unpack_t *in)
{
    uint32_t index = wf_unpack_u32(in);
    wf_status_t status = index < WF_WORKER_SLOTS ? wf_unpack_end(in, "unload")
                                                 : WF_ERROR(INTERNAL, "there is no slot %u", index);
    if (status == WF_OK)
        slot_free(&server->slots[index]);
    return answer_simple(server, WF_MESSAGE_LOADED, status);
}

static uint64_t preemptions_now(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_nivcsw : 0;
}

/* One block of a race; false when the deadline cut it short. */
static bool race_block(server_t *server, const wf_race_message_t *race, wf_rng_t *rng,
                       wf_measure_result_t *result)
{
    uint32_t order[WF_WORKER_SLOTS];
    const wf_parallel_t *parallel = wf_meter_parallel(server->meter);
    size_t block = result->block_count;
    wf_rng_shuffle(rng, order, race->slot_count);
    uint64_t preemptions = preemptions_now();
    double before_ns = wf_canary_run(parallel);
    for (size_t i = 0; i < race->slot_count; i++) {
        size_t arm = order[i];
        double ns = NAN;
        if (race->deadline_ns != 0 && wf_clock_ns() >= race->deadline_ns)
            return false;
        watch(server, arm, WF_WATCH_LAUNCH);
        if (result->faults[arm][0] == '\0') {
            wf_status_t status = wf_arm_sample(server->slots[race->slots[arm]].arm, 1, race->runs_min,
                                               race->least_ns, NULL, &ns);
            if (status != WF_OK) {
                (void)snprintf(result->faults[arm], sizeof result->faults[arm], "%s",
                               wf_status_message(status));
                wf_status_free(status);
                ns = NAN;
            }
        }
        result->times_ns[block * race->slot_count + arm] = ns;
    }
    result->canary_ns[block] = fmax(before_ns, wf_canary_run(parallel));
    result->preemptions[block] = (uint32_t)(preemptions_now() - preemptions);
    result->block_count++;
    return true;
}

static wf_status_t run_race(server_t *server, wf_unpack_t *in, wf_measure_result_t *result)
{
    wf_race_message_t race;
    WF_TRY(wf_race_unpack(in, &race));
    for (size_t i = 0; i < race.slot_count; i++) {
        if (server->slots[race.slots[i]].arm == NULL)
            return WF_ERROR(INTERNAL, "slot %u has no engine", race.slots[i]);
    }
    WF_TRY(wf_measure_result_init(result, race.slot_count, race.block_count, server->allocator));
    wf_rng_t rng = {race.seed};
    while (result->block_count < race.block_count && race_block(server, &race, &rng, result)) {
    }
    watch(server, 0, WF_WATCH_IDLE);
    return WF_OK;
}

static wf_status_t do_race(server_t *server, wf_unpack_t *in)
{
    wf_measure_result_t result = {0};
    wf_status_t status = run_race(server, in, &result);
    return answer_measured(server, status, &result);
}

/* ---- The loop ---- */

typedef wf_status_t request_fn(server_t *server, wf_unpack_t *in);
static request_fn *const requests[WF_MESSAGE_COUNT] = {
    [WF_MESSAGE_HELLO] = do_hello, [WF_MESSAGE_MEASURE] = do_measure, [WF_MESSAGE_LOAD] = do_load,
    [WF_MESSAGE_RACE] = do_race,   [WF_MESSAGE_UNLOAD] = do_unload,   [WF_MESSAGE_STORE] = do_store,
};

/* Waits for the next request. false: the tuner is gone. */
static bool next_request(const server_t *server, wf_message_t *out_message, wf_status_t *out_status)
{
    char first;
    ssize_t got;
    do {
        got = recv(server->socket, &first, 1, MSG_PEEK);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
        return false;
    *out_status = wf_message_receive(server->socket, server->allocator, RECEIVE_MS, out_message);
    return true;
}

wf_status_t wf_worker_serve(int socket, wf_allocator_t allocator)
{
    server_t server = {.socket = socket, .allocator = allocator};
    wf_message_t message;
    wf_status_t status = WF_OK;
    while (status == WF_OK && next_request(&server, &message, &status)) {
        if (status != WF_OK)
            break;
        wf_unpack_t in = wf_unpack_message(&message);
        request_fn *request = requests[message.kind];
        status = request != NULL ? request(&server, &in)
                                 : WF_ERROR(INTERNAL, "message %d is no request", (int)message.kind);
        wf_message_deinit(&message);
    }
    for (size_t i = 0; i < WF_WORKER_SLOTS; i++)
        slot_free(&server.slots[i]);
    drop_store(&server);
    wf_meter_destroy(server.meter);
    if (server.watch != NULL)
        (void)munmap(server.watch, sizeof *server.watch);
    return status;
}
