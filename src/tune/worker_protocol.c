/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/worker_protocol.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/process.h"

#define MAGIC UINT32_C(0x31775766) /* "fWw1" */

typedef struct frame {
    uint32_t magic, kind;
    uint64_t payload_bytes;
} frame_t;

/* ---- Messages ---- */

wf_status_t wf_message_send(int socket, wf_message_kind_t kind, const wf_text_t *payload, int timeout_ms)
{
    frame_t frame = {MAGIC, kind, payload != NULL ? payload->length : 0};
    WF_TRY(wf_socket_send(socket, &frame, sizeof frame, timeout_ms));
    return frame.payload_bytes > 0 ? wf_socket_send(socket, payload->data, payload->length, timeout_ms)
                                   : WF_OK;
}

wf_status_t wf_message_receive(int socket, wf_allocator_t allocator, int timeout_ms,
                               wf_message_t *out_message)
{
    frame_t frame;
    *out_message = (wf_message_t){.allocator = allocator};
    WF_TRY(wf_socket_receive(socket, &frame, sizeof frame, timeout_ms));
    if (frame.magic != MAGIC || frame.kind == WF_MESSAGE_NONE || frame.kind >= WF_MESSAGE_COUNT ||
        frame.payload_bytes > WF_MESSAGE_MAX_BYTES) {
        return WF_ERROR(INTERNAL, "a process sent what is no message");
    }
    out_message->kind = (wf_message_kind_t)frame.kind;
    WF_TRY(wf_alloc(allocator, (size_t)frame.payload_bytes, 1, &out_message->payload));
    out_message->payload_bytes = (size_t)frame.payload_bytes;
    wf_status_t status =
        wf_socket_receive(socket, out_message->payload, out_message->payload_bytes, timeout_ms);
    if (status != WF_OK)
        wf_message_deinit(out_message);
    return status;
}

void wf_message_deinit(wf_message_t *message)
{
    wf_free(message->allocator, message->payload, message->payload_bytes, 1);
    *message = (wf_message_t){.allocator = message->allocator};
}

/* ---- Numbers and texts ---- */

void wf_pack_u32(wf_text_t *out, uint32_t value)
{
    wf_text_append(out, (const char *)&value, sizeof value);
}

void wf_pack_u64(wf_text_t *out, uint64_t value)
{
    wf_text_append(out, (const char *)&value, sizeof value);
}

void wf_pack_f64(wf_text_t *out, double value)
{
    wf_text_append(out, (const char *)&value, sizeof value);
}

void wf_pack_text(wf_text_t *out, const char *text)
{
    size_t length = strlen(text);
    wf_pack_u64(out, length);
    wf_text_append(out, text, length + 1);
}

wf_unpack_t wf_unpack_message(const wf_message_t *message)
{
    return (wf_unpack_t){.data = message->payload, .bytes = message->payload_bytes};
}

static void unpack_bytes(wf_unpack_t *in, void *out, size_t bytes)
{
    if (in->failed || in->bytes - in->at < bytes) {
        in->failed = true;
        memset(out, 0, bytes);
        return;
    }
    memcpy(out, in->data + in->at, bytes);
    in->at += bytes;
}

uint32_t wf_unpack_u32(wf_unpack_t *in)
{
    uint32_t value;
    unpack_bytes(in, &value, sizeof value);
    return value;
}

uint64_t wf_unpack_u64(wf_unpack_t *in)
{
    uint64_t value;
    unpack_bytes(in, &value, sizeof value);
    return value;
}

double wf_unpack_f64(wf_unpack_t *in)
{
    double value;
    unpack_bytes(in, &value, sizeof value);
    return value;
}

const char *wf_unpack_text(wf_unpack_t *in)
{
    uint64_t length = wf_unpack_u64(in);
    if (in->failed || in->bytes - in->at < 1 || length > in->bytes - in->at - 1 ||
        memchr(in->data + in->at, 0, (size_t)length + 1) != in->data + in->at + length) {
        in->failed = true;
        return "";
    }
    const char *text = (const char *)in->data + in->at;
    in->at += (size_t)length + 1;
    return text;
}

size_t wf_unpack_count(wf_unpack_t *in, size_t item_bytes)
{
    uint64_t count = wf_unpack_u64(in);
    if (in->failed || count > (in->bytes - in->at) / item_bytes) {
        in->failed = true;
        return 0;
    }
    return (size_t)count;
}

wf_status_t wf_unpack_end(const wf_unpack_t *in, const char *what)
{
    if (!in->failed && in->at == in->bytes)
        return WF_OK;
    return WF_ERROR(INTERNAL, "a process sent a %s message that cannot be read", what);
}

/* ---- Hello ---- */

void wf_hello_pack(const wf_hello_t *hello, wf_text_t *out)
{
    size_t count = 0;
    while (hello->sources != NULL && hello->sources[count] != NULL)
        count++;
    wf_pack_text(out, hello->version);
    wf_pack_u32(out, hello->protocol);
    wf_pack_u32(out, hello->thread_count);
    wf_pack_text(out, hello->isa != NULL ? hello->isa : "");
    wf_pack_u32(out, hello->sources != NULL);
    wf_pack_u64(out, count);
    for (size_t i = 0; i < count; i++)
        wf_pack_text(out, hello->sources[i]);
}

wf_status_t wf_hello_unpack(wf_unpack_t *in, wf_arena_t *arena, wf_hello_t *out_hello)
{
    *out_hello = (wf_hello_t){.version = wf_unpack_text(in)};
    out_hello->protocol = wf_unpack_u32(in);
    out_hello->thread_count = wf_unpack_u32(in);
    out_hello->isa = wf_unpack_text(in);
    bool some = wf_unpack_u32(in) != 0;
    size_t count = wf_unpack_count(in, sizeof(uint64_t));
    const char **sources = NULL;
    WF_TRY(wf_arena_alloc(arena, count + 1, sizeof *sources, &sources));
    for (size_t i = 0; i < count; i++)
        sources[i] = wf_unpack_text(in);
    out_hello->sources = some ? sources : NULL;
    return wf_unpack_end(in, "hello");
}

/* ---- Measure ---- */

void wf_measure_pack(const wf_measure_message_t *measure, wf_text_t *out)
{
    const wf_measure_request_t *request = &measure->request;
    wf_pack_text(out, measure->problem);
    wf_pack_u64(out, request->block_count);
    wf_pack_f64(out, request->batch_ns);
    wf_pack_u64(out, request->memory_bytes);
    wf_pack_u64(out, request->seed);
    wf_pack_u64(out, request->deadline_ns);
    wf_pack_u64(out, request->tactic_count);
    for (size_t i = 0; i < request->tactic_count; i++)
        wf_pack_text(out, request->tactics[i]);
    wf_pack_u64(out, measure->constant_bytes);
    wf_pack_u64(out, measure->place_count);
    for (size_t i = 0; i < measure->place_count; i++) {
        wf_pack_u64(out, measure->places[i].offset);
        wf_pack_u64(out, measure->places[i].bytes);
    }
}

#define BLOCKS_MAX 100000u

wf_status_t wf_measure_unpack(wf_unpack_t *in, wf_arena_t *arena, wf_measure_message_t *out_measure)
{
    *out_measure = (wf_measure_message_t){.problem = wf_unpack_text(in)};
    wf_measure_request_t *request = &out_measure->request;
    request->block_count = (size_t)wf_unpack_u64(in);
    request->batch_ns = wf_unpack_f64(in);
    request->memory_bytes = (size_t)wf_unpack_u64(in);
    request->seed = wf_unpack_u64(in);
    request->deadline_ns = wf_unpack_u64(in);
    request->tactic_count = wf_unpack_count(in, sizeof(uint64_t));
    in->failed |= request->tactic_count == 0 || request->tactic_count > WF_MEASURE_TACTICS_MAX ||
                  request->block_count > BLOCKS_MAX || !(request->batch_ns >= 0 && request->batch_ns < 1e10);
    const char **tactics = NULL;
    WF_TRY(wf_arena_alloc(arena, WF_MEASURE_TACTICS_MAX, sizeof *tactics, &tactics));
    for (size_t i = 0; !in->failed && i < request->tactic_count; i++)
        tactics[i] = wf_unpack_text(in);
    request->tactics = tactics;
    out_measure->constant_bytes = wf_unpack_u64(in);
    out_measure->place_count = wf_unpack_count(in, sizeof(wf_constant_place_t));
    wf_constant_place_t *places = NULL;
    WF_TRY(wf_arena_alloc(arena, out_measure->place_count, sizeof *places, &places));
    for (size_t i = 0; i < out_measure->place_count; i++) {
        places[i].offset = wf_unpack_u64(in);
        places[i].bytes = wf_unpack_u64(in);
        in->failed |= places[i].bytes > out_measure->constant_bytes ||
                      places[i].offset > out_measure->constant_bytes - places[i].bytes;
    }
    out_measure->places = places;
    return wf_unpack_end(in, "measure");
}

/* ---- Load, race ---- */

void wf_load_pack(const wf_load_message_t *load, wf_text_t *out)
{
    wf_pack_u32(out, load->slot);
    wf_pack_u32(out, load->linked);
    wf_pack_u64(out, load->engine_bytes);
    wf_pack_u64(out, load->seed);
}

wf_status_t wf_load_unpack(wf_unpack_t *in, wf_load_message_t *out_load)
{
    out_load->slot = wf_unpack_u32(in);
    out_load->linked = wf_unpack_u32(in);
    out_load->engine_bytes = wf_unpack_u64(in);
    out_load->seed = wf_unpack_u64(in);
    in->failed |= out_load->slot >= WF_WORKER_SLOTS;
    return wf_unpack_end(in, "load");
}

void wf_store_pack(const wf_store_message_t *store, wf_text_t *out)
{
    wf_pack_u64(out, store->constant_bytes);
    wf_pack_u64(out, store->limit_bytes);
}

wf_status_t wf_store_unpack(wf_unpack_t *in, wf_store_message_t *out_store)
{
    out_store->constant_bytes = wf_unpack_u64(in);
    out_store->limit_bytes = wf_unpack_u64(in);
    return wf_unpack_end(in, "store");
}

void wf_race_pack(const wf_race_message_t *race, wf_text_t *out)
{
    wf_pack_u64(out, race->slot_count);
    for (size_t i = 0; i < race->slot_count; i++)
        wf_pack_u32(out, race->slots[i]);
    wf_pack_u64(out, race->block_count);
    wf_pack_u64(out, race->runs_min);
    wf_pack_f64(out, race->least_ns);
    wf_pack_u64(out, race->seed);
    wf_pack_u64(out, race->deadline_ns);
}

wf_status_t wf_race_unpack(wf_unpack_t *in, wf_race_message_t *out_race)
{
    *out_race = (wf_race_message_t){.slot_count = wf_unpack_count(in, sizeof(uint32_t))};
    in->failed |= out_race->slot_count == 0 || out_race->slot_count > WF_WORKER_SLOTS;
    for (size_t i = 0; !in->failed && i < out_race->slot_count; i++) {
        out_race->slots[i] = wf_unpack_u32(in);
        in->failed |= out_race->slots[i] >= WF_WORKER_SLOTS;
    }
    out_race->block_count = (size_t)wf_unpack_u64(in);
    out_race->runs_min = (size_t)wf_unpack_u64(in);
    out_race->least_ns = wf_unpack_f64(in);
    out_race->seed = wf_unpack_u64(in);
    out_race->deadline_ns = wf_unpack_u64(in);
    in->failed |= out_race->block_count > BLOCKS_MAX || out_race->runs_min > BLOCKS_MAX ||
                  !(out_race->least_ns >= 0 && out_race->least_ns < 1e10);
    return wf_unpack_end(in, "race");
}

/* ---- Measured ---- */

void wf_measured_pack(const wf_measure_result_t *result, wf_text_t *out)
{
    wf_pack_u64(out, result->tactic_count);
    for (size_t i = 0; i < result->tactic_count; i++)
        wf_pack_text(out, result->faults[i]);
    wf_pack_u64(out, result->block_count);
    for (size_t b = 0; b < result->block_count; b++) {
        wf_pack_f64(out, result->canary_ns[b]);
        wf_pack_u32(out, result->preemptions[b]);
        for (size_t i = 0; i < result->tactic_count; i++)
            wf_pack_f64(out, result->times_ns[b * result->tactic_count + i]);
    }
}

static void unpack_blocks(wf_unpack_t *in, wf_measure_result_t *result)
{
    for (size_t b = 0; b < result->block_count; b++) {
        result->canary_ns[b] = wf_unpack_f64(in);
        result->preemptions[b] = wf_unpack_u32(in);
        in->failed |= !(result->canary_ns[b] > 0);
        for (size_t i = 0; i < result->tactic_count; i++) {
            double ns = wf_unpack_f64(in);
            in->failed |= !isnan(ns) && !(ns > 0 && isfinite(ns));
            result->times_ns[b * result->tactic_count + i] = ns;
        }
    }
}

wf_status_t wf_measured_unpack(wf_unpack_t *in, wf_allocator_t allocator, wf_measure_result_t *out_result)
{
    *out_result = (wf_measure_result_t){.allocator = allocator};
    const char *faults[WF_MEASURE_TACTICS_MAX];
    size_t tactic_count = wf_unpack_count(in, sizeof(uint64_t));
    in->failed |= tactic_count > WF_MEASURE_TACTICS_MAX;
    for (size_t i = 0; !in->failed && i < tactic_count; i++)
        faults[i] = wf_unpack_text(in);
    size_t block_bytes = sizeof(double) + sizeof(uint32_t) + tactic_count * sizeof(double);
    size_t block_count = wf_unpack_count(in, in->failed ? 1 : block_bytes);
    if (in->failed)
        return wf_unpack_end(in, "measured");
    WF_TRY(wf_measure_result_init(out_result, tactic_count, block_count, allocator));
    for (size_t i = 0; i < tactic_count; i++)
        (void)snprintf(out_result->faults[i], sizeof out_result->faults[i], "%s", faults[i]);
    out_result->block_count = block_count;
    unpack_blocks(in, out_result);
    wf_status_t status = wf_unpack_end(in, "measured");
    if (status != WF_OK)
        wf_measure_result_deinit(out_result);
    return status;
}

/* ---- Failed ---- */

void wf_failed_pack(wf_status_t status, wf_text_t *out)
{
    wf_pack_u32(out, wf_status_code(status));
    wf_pack_text(out, wf_status_message(status));
    wf_pack_text(out, wf_status_hint(status));
}

wf_status_t wf_failed_unpack(wf_unpack_t *in)
{
    uint32_t code = wf_unpack_u32(in);
    const char *message = wf_unpack_text(in), *hint = wf_unpack_text(in);
    WF_TRY(wf_unpack_end(in, "failure"));
    bool known = code != WF_CODE_OK && strcmp(wf_code_title((wf_code_t)code), "unknown") != 0;
    wf_status_t status =
        wf_status_make(known ? (wf_code_t)code : WF_CODE_INTERNAL, __FILE__, __LINE__, "%s", message);
    return hint[0] != '\0' ? wf_status_hinted(status, "%s", hint) : status;
}
