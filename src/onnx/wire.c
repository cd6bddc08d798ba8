/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/wire.h"

#include <string.h>

#include "base/compiler.h"

/* ---- Fields ---- */

static size_t offset_of(const wf_wire_t *wire, const uint8_t *at)
{
    return (size_t)(at - wire->start);
}

static wf_status_t read_varint(wf_wire_t *wire, uint64_t *out)
{
    uint64_t value = 0;
    const uint8_t *at = wire->at;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (at == wire->end) {
            return WF_ERROR(MODEL_INVALID, "a number is cut off at byte %zu", offset_of(wire, at));
        }
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (shift == 63 && byte > 1) {
                break;
            }
            wire->at = at;
            *out = value;
            return WF_OK;
        }
    }
    return WF_ERROR(MODEL_INVALID, "a number at byte %zu is longer than 64 bits", offset_of(wire, wire->at));
}

static wf_status_t read_fixed(wf_wire_t *wire, size_t bytes, uint64_t *out)
{
    if ((size_t)(wire->end - wire->at) < bytes) {
        return WF_ERROR(MODEL_INVALID, "a number is cut off at byte %zu", offset_of(wire, wire->at));
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)wire->at[i] << (8 * i);
    }
    wire->at += bytes;
    *out = value;
    return WF_OK;
}

wf_status_t wf_wire_next(wf_wire_t *wire, wf_wire_field_t *out_field)
{
    uint64_t tag, length;
    size_t offset = offset_of(wire, wire->at);
    out_field->number = 0;
    WF_TRY(read_varint(wire, &tag));
    *out_field = (wf_wire_field_t){.offset = offset, .type = (wf_wire_type_t)(tag & 7)};
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) {
        return WF_ERROR(MODEL_INVALID, "field number %llu at byte %zu is not possible",
                        (unsigned long long)(tag >> 3), offset);
    }
    out_field->number = (uint32_t)(tag >> 3);
    switch (out_field->type) {
    case WF_WIRE_VARINT:
        return read_varint(wire, &out_field->bits);
    case WF_WIRE_FIXED64:
        return read_fixed(wire, 8, &out_field->bits);
    case WF_WIRE_FIXED32:
        return read_fixed(wire, 4, &out_field->bits);
    case WF_WIRE_BYTES:
        WF_TRY(read_varint(wire, &length));
        if (length > (size_t)(wire->end - wire->at)) {
            return WF_ERROR(MODEL_INVALID, "field %u at byte %zu has %llu bytes, but only %zu are left",
                            out_field->number, offset, (unsigned long long)length,
                            (size_t)(wire->end - wire->at));
        }
        out_field->bytes = (wf_span_t){wire->at, (size_t)length};
        wire->at += length;
        return WF_OK;
    default: /* groups were given up before ONNX began */
        return WF_ERROR(MODEL_INVALID, "field %u at byte %zu has wire type %u, which is not used",
                        out_field->number, offset, (unsigned)(tag & 7));
    }
}

/* A reader over a span; an absent one has no bytes. */
static wf_wire_t wire_over(const uint8_t *start, wf_span_t span)
{
    static const uint8_t nothing[1];
    return span.data != NULL ? (wf_wire_t){start, span.data, span.data + span.bytes}
                             : (wf_wire_t){nothing, nothing, nothing};
}

/* ---- Table of messages ---- */

typedef enum kind { K_INT, K_FLOAT, K_TEXT, K_ONE, K_INTS, K_TEXTS, K_MANY, K_NUMBERS, K_BLOBS } kind_t;

typedef struct row {
    uint32_t number;
    kind_t kind;
    const char *name;
    size_t offset; /* of the member */
    int child;     /* message of K_ONE and K_MANY; wire type of K_NUMBERS */
    size_t limit;  /* items of a list */
} row_t;

#define ROW(id, number, name, kind, child, limit) \
    {number, kind, #name, offsetof(wf_pb_##id##_t, name), child, limit},
#define MESSAGE(id, name) static const row_t rows_##id[] = {
#define END(id) \
    }           \
    ;
#define INT(id, number, name) ROW(id, number, name, K_INT, 0, 0)
#define FLOAT(id, number, name) ROW(id, number, name, K_FLOAT, 0, 0)
#define TEXT(id, number, name) ROW(id, number, name, K_TEXT, 0, 0)
#define ONE(id, number, name, child) ROW(id, number, name, K_ONE, WF_PB_##child, 0)
#define INTS(id, number, name, limit) ROW(id, number, name, K_INTS, 0, WF_ONNX_MAX_##limit)
#define TEXTS(id, number, name, limit) ROW(id, number, name, K_TEXTS, 0, WF_ONNX_MAX_##limit)
#define MANY(id, number, name, limit, child) ROW(id, number, name, K_MANY, WF_PB_##child, WF_ONNX_MAX_##limit)
#define NUMBERS(id, number, name, wire_type) ROW(id, number, name, K_NUMBERS, wire_type, SIZE_MAX)
#define BLOBS(id, number, name) ROW(id, number, name, K_BLOBS, 0, SIZE_MAX)
#include "onnx/proto.def"

/* SELF: where a message keeps its own bytes. */
enum {
#define MESSAGE(id, name) SELF_##id = 0
#define SELF(id) +(int)offsetof(wf_pb_##id##_t, self)
#define END(id) ,
#include "onnx/proto.def"
};

static const struct message {
    const char *name;
    const row_t *rows;
    size_t row_count;
    size_t struct_bytes;
    size_t self_offset; /* 0: none, the head is there */
} messages[] = {
#define MESSAGE(id, name) {name, rows_##id, WF_COUNT_OF(rows_##id), sizeof(wf_pb_##id##_t), SELF_##id},
#include "onnx/proto.def"
};

enum { ROWS_MAX = 16 };
#define MESSAGE(id, name) static_assert(WF_COUNT_OF(rows_##id) <= ROWS_MAX, "counters of a message");
#include "onnx/proto.def"

/* ---- Decoding ---- */

typedef struct decoder {
    const uint8_t *start;
    wf_arena_t *arena;
    size_t limit_bytes;
} decoder_t;

static const row_t *row_find(const struct message *message, uint32_t number)
{
    for (size_t i = 0; i < message->row_count; i++) {
        if (message->rows[i].number == number) {
            return &message->rows[i];
        }
    }
    return NULL;
}

/* The wire types a row may have: the one of its kind, and packed. */
static bool row_takes(const row_t *row, wf_wire_type_t type)
{
    switch (row->kind) {
    case K_INT:
        return type == WF_WIRE_VARINT;
    case K_FLOAT:
        return type == WF_WIRE_FIXED32;
    case K_INTS:
        return type == WF_WIRE_VARINT || type == WF_WIRE_BYTES;
    case K_NUMBERS:
        return type == (wf_wire_type_t)row->child || type == WF_WIRE_BYTES;
    default:
        return type == WF_WIRE_BYTES;
    }
}

/* Reads the next field that the table knows; *out_row is NULL at the end of the message. */
static wf_status_t next_known(wf_wire_t *wire, const struct message *message, wf_wire_field_t *out_field,
                              const row_t **out_row)
{
    *out_row = NULL;
    while (wire->at < wire->end) {
        wf_status_t status = wf_wire_next(wire, out_field);
        const row_t *row = row_find(message, out_field->number);
        if (status != WF_OK) {
            return wf_status_annotated(status, "%s%s%s", message->name, row != NULL ? "." : "",
                                       row != NULL ? row->name : "");
        }
        if (row == NULL) {
            continue;
        }
        if (!row_takes(row, out_field->type)) {
            return WF_ERROR(MODEL_INVALID, "%s.%s at byte %zu has wire type %u", message->name, row->name,
                            out_field->offset, (unsigned)out_field->type);
        }
        *out_row = row;
        return WF_OK;
    }
    return WF_OK;
}

static wf_status_t count_packed(const decoder_t *self, wf_span_t bytes, size_t *inout_count)
{
    wf_wire_t packed = wire_over(self->start, bytes);
    uint64_t ignored;
    while (packed.at < packed.end) {
        WF_TRY(read_varint(&packed, &ignored));
        *inout_count += 1;
    }
    return WF_OK;
}

/* First walk over a message: how long its lists are. */
static wf_status_t count_fields(const decoder_t *self, const struct message *message, wf_span_t bytes,
                                size_t counts[ROWS_MAX])
{
    wf_wire_t wire = wire_over(self->start, bytes);
    wf_wire_field_t field;
    const row_t *row;
    for (;;) {
        WF_TRY(next_known(&wire, message, &field, &row));
        if (row == NULL) {
            return WF_OK;
        }
        size_t *count = &counts[row - message->rows];
        if (row->kind == K_INTS && field.type == WF_WIRE_BYTES) {
            WF_TRY(wf_status_annotated(count_packed(self, field.bytes, count), "%s.%s", message->name,
                                       row->name));
        } else {
            *count += 1;
        }
        if (row->kind == K_ONE && *count > 1) {
            return WF_ERROR(MODEL_INVALID, "%s.%s is given twice, the second time at byte %zu", message->name,
                            row->name, field.offset);
        }
        if (row->kind >= K_INTS && *count > row->limit) {
            return WF_ERROR(MODEL_LIMIT, "%s.%s has more than %zu items (at byte %zu)", message->name,
                            row->name, row->limit, field.offset);
        }
    }
}

static wf_status_t make(const decoder_t *self, const struct message *message, const row_t *row, size_t count,
                        size_t elem_bytes, void *out)
{
    size_t bytes;
    if (!wf_size_mul(count, elem_bytes, &bytes) || bytes > self->limit_bytes ||
        self->arena->total_bytes > self->limit_bytes - bytes) {
        return WF_ERROR(MODEL_LIMIT, "%s.%s: the model's messages take more than %zu bytes when decoded",
                        message->name, row->name, self->limit_bytes);
    }
    return wf_arena_alloc(self->arena, count, elem_bytes, out);
}

/* The shape of every list member. */
typedef WF_PB_LIST(void) list_t;

static void *list_push(void *member, size_t elem_bytes)
{
    list_t list;
    memcpy(&list, member, sizeof list);
    void *place = (char *)list.items + list.count * elem_bytes;
    list.count++;
    memcpy(member, &list, sizeof list);
    return place;
}

static wf_status_t decode(const decoder_t *self, int id, wf_span_t bytes, unsigned depth, void *out);

/* Second walk: one field into its member. */
static wf_status_t store(const decoder_t *self, const row_t *row, const wf_wire_field_t *field,
                         unsigned depth, void *member)
{
    switch (row->kind) {
    case K_INT:
        *(int64_t *)member = (int64_t)field->bits;
        return WF_OK;
    case K_FLOAT: {
        uint32_t bits = (uint32_t)field->bits;
        memcpy(member, &bits, sizeof bits);
        return WF_OK;
    }
    case K_TEXT:
        *(wf_span_t *)member = field->bytes;
        return WF_OK;
    case K_ONE: {
        void *child;
        WF_TRY(make(self, &messages[row->child], row, 1, messages[row->child].struct_bytes, &child));
        memcpy(member, &child, sizeof child);
        return decode(self, row->child, field->bytes, depth + 1, child);
    }
    case K_INTS: {
        wf_wire_t packed = wire_over(self->start, field->bytes);
        uint64_t bits = field->bits;
        if (field->type == WF_WIRE_VARINT) {
            *(int64_t *)list_push(member, sizeof(int64_t)) = (int64_t)bits;
            return WF_OK;
        }
        while (packed.at < packed.end) {
            WF_TRY(read_varint(&packed, &bits));
            *(int64_t *)list_push(member, sizeof(int64_t)) = (int64_t)bits;
        }
        return WF_OK;
    }
    case K_TEXTS:
        *(wf_span_t *)list_push(member, sizeof(wf_span_t)) = field->bytes;
        return WF_OK;
    case K_MANY:
        return decode(self, row->child, field->bytes, depth + 1,
                      list_push(member, messages[row->child].struct_bytes));
    case K_NUMBERS:
    case K_BLOBS:
        *(size_t *)member += 1;
        return WF_OK;
    }
    return WF_OK;
}

static wf_status_t decode(const decoder_t *self, int id, wf_span_t bytes, unsigned depth, void *out)
{
    const struct message *message = &messages[id];
    if (depth > WF_ONNX_MAX_MESSAGE_DEPTH) {
        return WF_ERROR(MODEL_LIMIT, "%s at byte %zu: messages are nested deeper than %d", message->name,
                        (size_t)(bytes.data - self->start), WF_ONNX_MAX_MESSAGE_DEPTH);
    }
    size_t counts[ROWS_MAX] = {0};
    WF_TRY(count_fields(self, message, bytes, counts));
    for (size_t i = 0; i < message->row_count; i++) {
        const row_t *row = &message->rows[i];
        if (counts[i] > 0 && (row->kind == K_INTS || row->kind == K_TEXTS || row->kind == K_MANY)) {
            size_t elem_bytes = row->kind == K_INTS    ? sizeof(int64_t)
                                : row->kind == K_TEXTS ? sizeof(wf_span_t)
                                                       : messages[row->child].struct_bytes;
            list_t list = {NULL, 0};
            WF_TRY(make(self, message, row, counts[i], elem_bytes, &list.items));
            memcpy((char *)out + row->offset, &list, sizeof list);
        }
    }
    wf_wire_t wire = wire_over(self->start, bytes);
    wf_pb_head_t *head = out;
    for (;;) {
        wf_wire_field_t field;
        const row_t *row;
        WF_TRY(next_known(&wire, message, &field, &row));
        if (row == NULL) {
            break;
        }
        head->seen |= 1u << (row - message->rows);
        head->last = row->number;
        WF_TRY(store(self, row, &field, depth, (char *)out + row->offset));
    }
    if (message->self_offset != 0) {
        memcpy((char *)out + message->self_offset, &bytes, sizeof bytes);
    }
    return WF_OK;
}

wf_status_t wf_wire_decode(int message, wf_span_t bytes, wf_arena_t *arena, size_t limit_bytes, void *out)
{
    decoder_t self = {bytes.data, arena, limit_bytes};
    return decode(&self, message, bytes, 1, out);
}

/* ---- Numbers that stayed in the file ---- */

void wf_numbers_init(wf_numbers_t *numbers, wf_span_t message, uint32_t number, wf_wire_type_t type)
{
    *numbers = (wf_numbers_t){.message = wire_over(message.data, message), .number = number, .type = type};
}

wf_status_t wf_numbers_next(wf_numbers_t *numbers, uint64_t *out_bits, bool *out_more)
{
    wf_wire_t *packed = &numbers->packed;
    *out_more = true;
    *out_bits = 0;
    for (;;) {
        if (packed->at < packed->end) {
            return numbers->type == WF_WIRE_VARINT
                       ? read_varint(packed, out_bits)
                       : read_fixed(packed, numbers->type == WF_WIRE_FIXED32 ? 4 : 8, out_bits);
        }
        if (numbers->message.at == numbers->message.end) {
            *out_more = false;
            return WF_OK;
        }
        wf_wire_field_t field;
        WF_TRY(wf_wire_next(&numbers->message, &field));
        if (field.number == numbers->number && field.type == WF_WIRE_BYTES) {
            *packed = wire_over(field.bytes.data, field.bytes);
        } else if (field.number == numbers->number) {
            *out_bits = field.bits;
            return WF_OK;
        }
    }
}

wf_status_t wf_numbers_count(wf_span_t message, uint32_t number, wf_wire_type_t type, uint64_t limit,
                             uint64_t *out_count)
{
    wf_numbers_t numbers;
    uint64_t bits;
    wf_numbers_init(&numbers, message, number, type);
    for (*out_count = 0; *out_count <= limit; *out_count += 1) {
        bool more;
        WF_TRY(wf_numbers_next(&numbers, &bits, &more));
        if (!more) {
            break;
        }
    }
    return WF_OK;
}

bool wf_numbers_packed(wf_span_t message, uint32_t number, wf_span_t *out_bytes)
{
    wf_wire_t wire = wire_over(message.data, message);
    bool found = false;
    while (wire.at < wire.end) {
        wf_wire_field_t field;
        wf_status_t status = wf_wire_next(&wire, &field);
        if (status != WF_OK) { /* the message was decoded before, so this cannot be */
            wf_status_ignore(status);
            return false;
        }
        if (field.number == number) {
            if (found || field.type != WF_WIRE_BYTES) {
                return false;
            }
            found = true;
            *out_bytes = field.bytes;
        }
    }
    return found;
}
