/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf wire format, read in place: no byte outside the given ones is looked at, nothing is copied,
 * recursion is bounded. Source: the encoding chapter of the Protocol Buffers documentation (varints, tags,
 * length-delimited fields, packing).
 *
 * Faults are MODEL_INVALID and say field and byte offset; more than limits.def allows is MODEL_LIMIT.
 */
#ifndef WF_ONNX_WIRE_H
#define WF_ONNX_WIRE_H

#include <stdbool.h>

#include "base/mem.h"
#include "onnx/proto.h"

enum {
#define LIMIT(name, value, what, why) WF_ONNX_MAX_##name = (value),
#include "onnx/limits.def"
#undef LIMIT
};

/* ---- Fields, one after the other ---- */

typedef enum wf_wire_type {
    WF_WIRE_VARINT = 0,
    WF_WIRE_FIXED64 = 1,
    WF_WIRE_BYTES = 2,
    WF_WIRE_FIXED32 = 5
} wf_wire_type_t;

typedef struct wf_wire {
    const uint8_t *start; /* offset 0 of messages */
    const uint8_t *at, *end;
} wf_wire_t;

typedef struct wf_wire_field {
    uint32_t number;
    wf_wire_type_t type;
    uint64_t bits;   /* of a number */
    wf_span_t bytes; /* of WF_WIRE_BYTES */
    size_t offset;   /* of its tag */
} wf_wire_field_t;

/* Reads one field. Only while at < end. On failure the number is that of the field, 0 when it is not known.
 */
wf_status_t wf_wire_next(wf_wire_t *wire, wf_wire_field_t *out_field) WF_MUST_USE;

/* ---- Whole messages ---- */

/* Decodes `bytes` as message WF_PB_`message` into `out` (a zeroed struct of proto.h). Lists and child
 * messages are made in the arena, which takes at most `limit_bytes`; texts point into `bytes`, which must
 * outlive them. */
wf_status_t wf_wire_decode(int message, wf_span_t bytes, wf_arena_t *arena, size_t limit_bytes,
                           void *out) WF_MUST_USE;

/* ---- Numbers that stayed in the file ---- */

/* Walks the numbers of field `number` of a message, packed or not: a NUMBERS row. */
typedef struct wf_numbers {
    wf_wire_t message, packed;
    uint32_t number;
    wf_wire_type_t type; /* of one number */
} wf_numbers_t;

void wf_numbers_init(wf_numbers_t *numbers, wf_span_t message, uint32_t number, wf_wire_type_t type);
/* Reads the next one. *out_more is false, and *out_bits 0, at the end. */
wf_status_t wf_numbers_next(wf_numbers_t *numbers, uint64_t *out_bits, bool *out_more) WF_MUST_USE;
/* How many there are; stops counting above `limit`. */
wf_status_t wf_numbers_count(wf_span_t message, uint32_t number, wf_wire_type_t type, uint64_t limit,
                             uint64_t *out_count) WF_MUST_USE;
/* True when all of them lie in one packed record, *out_bytes. */
bool wf_numbers_packed(wf_span_t message, uint32_t number, wf_span_t *out_bytes);

#endif
