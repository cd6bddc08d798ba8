/* SPDX-License-Identifier: Apache-2.0 */
/* What tuner and worker say to each other over descriptor 3 of the worker.
 *
 * A message is a frame of 16 bytes (magic, kind, payload length) and a payload of fixed-size numbers, texts
 * with their length, and lists with their count. Both ends are the same build on the same machine, so numbers
 * are in its byte order. Large things (engines, constants) come as a memfd right after the message that
 * announces them. Everything received is checked: a worker that has gone mad must not take the tuner with it.
 *
 *   tuner                         worker
 *   HELLO + fd of wf_watch_t      READY | FAILED
 *   MEASURE (+ fd of constants)   MEASURED | FAILED
 *   STORE + fd of constants       LOADED | FAILED
 *   LOAD + fd of an engine        LOADED | FAILED
 *   RACE                          MEASURED | FAILED
 *   UNLOAD                        LOADED
 */
#ifndef WF_TUNE_WORKER_PROTOCOL_H
#define WF_TUNE_WORKER_PROTOCOL_H

#include "base/mem.h"
#include "tune/measure.h"

#define WF_WORKER_PROTOCOL 2u
#define WF_WORKER_SLOTS 32u
#define WF_MESSAGE_MAX_BYTES ((size_t)64 << 20)

typedef enum wf_message_kind {
    WF_MESSAGE_NONE,
    WF_MESSAGE_HELLO,
    WF_MESSAGE_READY,
    WF_MESSAGE_MEASURE,
    WF_MESSAGE_MEASURED,
    WF_MESSAGE_LOAD,
    WF_MESSAGE_LOADED,
    WF_MESSAGE_RACE,
    WF_MESSAGE_UNLOAD,
    WF_MESSAGE_FAILED,
    WF_MESSAGE_STORE,
    WF_MESSAGE_COUNT
} wf_message_kind_t;

typedef struct wf_message {
    wf_allocator_t allocator;
    wf_message_kind_t kind;
    uint8_t *payload;
    size_t payload_bytes;
} wf_message_t;

/* Sends a frame. Statuses of wf_socket_send. */
wf_status_t wf_message_send(int socket, wf_message_kind_t kind, const wf_text_t *payload,
                            int timeout_ms) WF_MUST_USE;
/* Receives one; deinit frees it. timeout_ms (-1: none) is for each part of it. INTERNAL for what is no frame.
 */
wf_status_t wf_message_receive(int socket, wf_allocator_t allocator, int timeout_ms,
                               wf_message_t *out_message) WF_MUST_USE;
void wf_message_deinit(wf_message_t *message);

/* ---- Writing and reading payloads ---- */
void wf_pack_u32(wf_text_t *out, uint32_t value);
void wf_pack_u64(wf_text_t *out, uint64_t value);
void wf_pack_f64(wf_text_t *out, double value);
void wf_pack_text(wf_text_t *out, const char *text);

/* Reads past the end, or a bad value, set `failed`; later reads give zeros and "". */
typedef struct wf_unpack {
    const uint8_t *data;
    size_t bytes, at;
    bool failed;
} wf_unpack_t;
wf_unpack_t wf_unpack_message(const wf_message_t *message);
uint32_t wf_unpack_u32(wf_unpack_t *in);
uint64_t wf_unpack_u64(wf_unpack_t *in);
double wf_unpack_f64(wf_unpack_t *in);
/* Zero-terminated, no zeros inside, borrowed from the message. */
const char *wf_unpack_text(wf_unpack_t *in);
/* A list's count; fails when `item_bytes` each cannot be in what is left. */
size_t wf_unpack_count(wf_unpack_t *in, size_t item_bytes);
/* WF_OK when nothing failed and nothing is left; else INTERNAL naming `what`. */
wf_status_t wf_unpack_end(const wf_unpack_t *in, const char *what) WF_MUST_USE;

/* ---- Payloads. Texts and arrays that unpack gives live in the message or the arena. ---- */
typedef struct wf_hello {
    const char *version;
    uint32_t protocol, thread_count;
    const char *isa;            /* "": all tiers */
    const char *const *sources; /* NULL-terminated; NULL: all that are not for tests */
} wf_hello_t;
void wf_hello_pack(const wf_hello_t *hello, wf_text_t *out);
wf_status_t wf_hello_unpack(wf_unpack_t *in, wf_arena_t *arena, wf_hello_t *out_hello) WF_MUST_USE;

/* Where a constant is in the memfd; bytes 0: not there. */
typedef struct wf_constant_place {
    uint64_t offset, bytes;
} wf_constant_place_t;
/* A wf_measure_request_t whose constants are in a memfd; constant_bytes 0: no memfd follows. */
typedef struct wf_measure_message {
    const char *problem;
    wf_measure_request_t request; /* without problem and constants */
    const wf_constant_place_t *places;
    size_t place_count; /* 0, or one per operand */
    uint64_t constant_bytes;
} wf_measure_message_t;
void wf_measure_pack(const wf_measure_message_t *measure, wf_text_t *out);
wf_status_t wf_measure_unpack(wf_unpack_t *in, wf_arena_t *arena,
                              wf_measure_message_t *out_measure) WF_MUST_USE;

typedef struct wf_load_message {
    uint32_t slot;
    uint32_t linked; /* 1: against the store of constants that came before */
    uint64_t engine_bytes, seed;
} wf_load_message_t;
void wf_load_pack(const wf_load_message_t *load, wf_text_t *out);
wf_status_t wf_load_unpack(wf_unpack_t *in, wf_load_message_t *out_load) WF_MUST_USE;

/* Constants of the engines that will be linked, instead of those before: linked slots are emptied. */
typedef struct wf_store_message {
    uint64_t constant_bytes, limit_bytes; /* limit: of packed constants that are kept */
} wf_store_message_t;
void wf_store_pack(const wf_store_message_t *store, wf_text_t *out);
wf_status_t wf_store_unpack(wf_unpack_t *in, wf_store_message_t *out_store) WF_MUST_USE;

/* Blocks of loaded engines: see wf_arm_sample. */
typedef struct wf_race_message {
    uint32_t slots[WF_WORKER_SLOTS];
    size_t slot_count, block_count, runs_min;
    double least_ns;
    uint64_t seed, deadline_ns;
} wf_race_message_t;
void wf_race_pack(const wf_race_message_t *race, wf_text_t *out);
wf_status_t wf_race_unpack(wf_unpack_t *in, wf_race_message_t *out_race) WF_MUST_USE;

void wf_measured_pack(const wf_measure_result_t *result, wf_text_t *out);
wf_status_t wf_measured_unpack(wf_unpack_t *in, wf_allocator_t allocator,
                               wf_measure_result_t *out_result) WF_MUST_USE;

/* A status over the wire. */
void wf_failed_pack(wf_status_t status, wf_text_t *out);
wf_status_t wf_failed_unpack(wf_unpack_t *in) WF_MUST_USE;

#endif
