/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of proto.def as structs. Texts are borrowed from the file and are not zero-terminated. */
#ifndef WF_ONNX_PROTO_H
#define WF_ONNX_PROTO_H

#include <stddef.h>
#include <stdint.h>

/* Bytes somewhere in the file. */
typedef struct wf_span {
    const uint8_t *data;
    size_t bytes;
} wf_span_t;

/* WF_PB_model, ... */
enum {
#define MESSAGE(id, name) WF_PB_##id,
#include "onnx/proto.def"
    WF_PB_COUNT
};

#define MESSAGE(id, name) typedef struct wf_pb_##id wf_pb_##id##_t;
#include "onnx/proto.def"

/* What every message begins with. */
typedef struct wf_pb_head {
    uint32_t seen; /* bit i: the i-th field of the message's rows was in the file */
    uint32_t last; /* number of the field that came last: the one that counts in a "oneof" */
} wf_pb_head_t;

/* WF_AT_attribute_f, ...: the place of a field among its message's rows, and whether the file has it. */
#define MESSAGE(id, name) enum {
#define END(id)    \
    WF_AT_END_##id \
    }              \
    ;
#define INT(id, number, name) WF_AT_##id##_##name,
#define FLOAT(id, number, name) WF_AT_##id##_##name,
#define TEXT(id, number, name) WF_AT_##id##_##name,
#define ONE(id, number, name, child) WF_AT_##id##_##name,
#define INTS(id, number, name, limit) WF_AT_##id##_##name,
#define TEXTS(id, number, name, limit) WF_AT_##id##_##name,
#define MANY(id, number, name, limit, child) WF_AT_##id##_##name,
#define NUMBERS(id, number, name, wire_type) WF_AT_##id##_##name,
#define BLOBS(id, number, name) WF_AT_##id##_##name,
#include "onnx/proto.def"
#define WF_PB_HAS(id, message, field) (((message)->head.seen >> WF_AT_##id##_##field & 1u) != 0)

/* A list of a message; the decoder writes it by this shape. */
#define WF_PB_LIST(type) \
    struct {             \
        type *items;     \
        size_t count;    \
    }
typedef WF_PB_LIST(wf_span_t) wf_pb_texts_t;

#define MESSAGE(id, name) \
    struct wf_pb_##id {   \
        wf_pb_head_t head;
#define END(id) \
    }           \
    ;
#define INT(id, number, name) int64_t name;
#define FLOAT(id, number, name) float name;
#define TEXT(id, number, name) wf_span_t name;
#define ONE(id, number, name, child) wf_pb_##child##_t *name;
#define INTS(id, number, name, limit) WF_PB_LIST(int64_t) name;
#define TEXTS(id, number, name, limit) wf_pb_texts_t name;
#define MANY(id, number, name, limit, child) WF_PB_LIST(wf_pb_##child##_t) name;
#define NUMBERS(id, number, name, wire_type) size_t name; /* records in the file, see wf_numbers_t */
#define BLOBS(id, number, name) size_t name;
#define SELF(id) wf_span_t self;
#define HOST(id, type, name) type name;
#include "onnx/proto.def"

#endif
