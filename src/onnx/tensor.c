/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/tensor.h"

#include <string.h>

#include "base/compiler.h"
#include "base/file.h"
#include "onnx/wire.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw data is little-endian and viewed in place");

enum {
    LOCATION_EXTERNAL = 1,       /* TensorProto.DataLocation */
    COUNTED_BYTES = 1024 * 1024, /* packed integers up to here are counted when the model is opened: 1 ms */
    DROPPED_BYTES = 1024 * 1024, /* copied sources from here on are given back to the page cache */
};

wf_status_t wf_onnx_tensor_type(const wf_pb_tensor_t *tensor, wf_type_t *out_type)
{
    wf_type_t type = {.dtype = wf_dtype_from_onnx(tensor->data_type)};
    if (type.dtype == WF_DTYPE_NONE) {
        return WF_ERROR(MODEL_UNSUPPORTED, "element type %lld is not known", (long long)tensor->data_type);
    }
    if (tensor->dims.count > WF_MAX_RANK) {
        return WF_ERROR(MODEL_UNSUPPORTED, "rank %zu is above %d", tensor->dims.count, WF_MAX_RANK);
    }
    type.rank = (uint32_t)tensor->dims.count;
    for (uint32_t i = 0; i < type.rank; i++) {
        type.dims[i] = tensor->dims.items[i];
        if (type.dims[i] < 0) {
            return WF_ERROR(MODEL_INVALID, "dim %u is %lld", i, (long long)type.dims[i]);
        }
    }
    if (wf_type_elems(&type) < 0 || wf_type_bytes(&type) < 0) {
        return WF_ERROR(MODEL_INVALID, "the product of its dims does not fit in 64 bits");
    }
    *out_type = type;
    return WF_OK;
}

/* ---- Typed fields ---- */

/* How elements are written in typed fields: rows of onnx.proto's TensorProto. `numbers_per_elem` is 2 for
 * complex numbers; element types of less than a byte are packed, one number for each byte. */
typedef struct field {
    uint32_t number;
    wf_wire_type_t type;
    uint32_t number_bytes; /* what one number becomes */
    const char *name;
} field_t;

static bool field_of(wf_dtype_t dtype, field_t *out)
{
    uint32_t bytes = WF_MAX(wf_dtype_bits(dtype) / 8, 1u);
    switch (dtype) {
    case WF_DTYPE_F32:
    case WF_DTYPE_C64:
        *out = (field_t){4, WF_WIRE_FIXED32, 4, "float_data"};
        return true;
    case WF_DTYPE_F64:
    case WF_DTYPE_C128:
        *out = (field_t){10, WF_WIRE_FIXED64, 8, "double_data"};
        return true;
    case WF_DTYPE_I64:
        *out = (field_t){7, WF_WIRE_VARINT, 8, "int64_data"};
        return true;
    case WF_DTYPE_U32:
    case WF_DTYPE_U64:
        *out = (field_t){11, WF_WIRE_VARINT, bytes, "uint64_data"};
        return true;
    case WF_DTYPE_STR:
    case WF_DTYPE_NONE:
    case WF_DTYPE_COUNT:
        return false;
    default:
        *out = (field_t){5, WF_WIRE_VARINT, bytes, "int32_data"};
        return true;
    }
}

static size_t field_records(const wf_pb_tensor_t *tensor, uint32_t number)
{
    switch (number) {
    case 4:
        return tensor->float_data;
    case 5:
        return tensor->int32_data;
    case 7:
        return tensor->int64_data;
    case 10:
        return tensor->double_data;
    default:
        return tensor->uint64_data;
    }
}

static wf_status_t wrong_size(const char *field, uint64_t have_bytes, uint64_t want_bytes)
{
    return WF_ERROR(MODEL_INVALID, "%s has %llu bytes, its type and dims need %llu", field,
                    (unsigned long long)have_bytes, (unsigned long long)want_bytes);
}

/* ---- Where the data is ---- */

typedef enum place { PLACE_VIEW, PLACE_FIELD } place_t;

/* Finds the data; a view has the right size. */
static wf_status_t find(const wf_pb_tensor_t *tensor, const wf_type_t *type, place_t *out_place,
                        wf_span_t *out_view, field_t *out_field)
{
    uint64_t bytes = (uint64_t)wf_type_bytes(type);
    *out_place = PLACE_VIEW;
    *out_view = (wf_span_t){NULL, 0};
    if (!field_of(type->dtype, out_field)) {
        return WF_ERROR(MODEL_UNSUPPORTED, "constants of type %s are not supported",
                        wf_dtype_name(type->dtype));
    }
    if (WF_PB_HAS(tensor, tensor, segment)) {
        return WF_ERROR(MODEL_UNSUPPORTED, "tensors in segments are not supported");
    }
    if (tensor->data_location == LOCATION_EXTERNAL) {
        if (tensor->external == NULL && bytes > 0) {
            return WF_ERROR(EXTERNAL_DATA, "external data is not available");
        }
        *out_view = (wf_span_t){tensor->external, (size_t)bytes};
        return WF_OK;
    }
    size_t records = field_records(tensor, out_field->number);
    if (WF_PB_HAS(tensor, tensor, raw_data) && (tensor->raw_data.bytes > 0 || records == 0)) {
        if (tensor->raw_data.bytes != bytes) {
            return wrong_size("raw_data", tensor->raw_data.bytes, bytes);
        }
        *out_view = tensor->raw_data;
        return WF_OK;
    }
    *out_place = PLACE_FIELD;
    if (records == 0 && bytes > 0) {
        return WF_ERROR(MODEL_INVALID, "neither raw_data nor %s is there, %llu bytes are needed",
                        out_field->name, (unsigned long long)bytes);
    }
    return WF_OK;
}

wf_status_t wf_onnx_tensor_check(const wf_pb_tensor_t *tensor, const wf_type_t *type)
{
    place_t place;
    wf_span_t view;
    field_t field;
    WF_TRY(find(tensor, type, &place, &view, &field));
    uint64_t want = (uint64_t)wf_type_bytes(type) / field.number_bytes;
    if (place == PLACE_VIEW || (field.type == WF_WIRE_VARINT && tensor->self.bytes > COUNTED_BYTES)) {
        return WF_OK;
    }
    wf_span_t packed;
    uint64_t have;
    if (field.type != WF_WIRE_VARINT && wf_numbers_packed(tensor->self, field.number, &packed)) {
        have = packed.bytes / field.number_bytes;
    } else {
        WF_TRY(wf_numbers_count(tensor->self, field.number, field.type, want, &have));
    }
    return have == want ? WF_OK
                        : wrong_size(field.name, have * field.number_bytes, want * field.number_bytes);
}

/* Memory that nobody clears first: it is written in full. */
static wf_status_t take(wf_arena_t *arena, size_t bytes, uint8_t **out)
{
    wf_allocator_t allocator = wf_arena_allocator(arena);
    *out = allocator.resize(allocator.self, NULL, 0, WF_MAX(bytes, (size_t)1), 64);
    return *out != NULL ? WF_OK : wf_status_out_of_memory();
}

static wf_status_t decode_field(const wf_pb_tensor_t *tensor, const field_t *field, size_t bytes,
                                uint8_t *out)
{
    wf_numbers_t numbers;
    wf_numbers_init(&numbers, tensor->self, field->number, field->type);
    size_t at = 0;
    for (;;) {
        uint64_t bits;
        bool more;
        WF_TRY(wf_numbers_next(&numbers, &bits, &more));
        if (!more) {
            return at == bytes ? WF_OK : wrong_size(field->name, at, bytes);
        }
        if (bytes - at < field->number_bytes) {
            return WF_ERROR(MODEL_INVALID, "%s has more numbers than its type and dims need (%zu)",
                            field->name, bytes / field->number_bytes);
        }
        memcpy(out + at, &bits, field->number_bytes); /* little-endian: the low bytes come first */
        at += field->number_bytes;
    }
}

wf_status_t wf_onnx_tensor_data(const wf_pb_tensor_t *tensor, const wf_type_t *type, bool mapped,
                                wf_arena_t *arena, const void **out_data)
{
    static const uint64_t empty;
    place_t place;
    wf_span_t view;
    field_t field;
    uint8_t *copy;
    WF_TRY(find(tensor, type, &place, &view, &field));
    size_t bytes = (size_t)wf_type_bytes(type);
    if (place == PLACE_FIELD && field.type != WF_WIRE_VARINT &&
        wf_numbers_packed(tensor->self, field.number, &view)) {
        if (view.bytes != bytes) {
            return wrong_size(field.name, view.bytes, bytes);
        }
        place = PLACE_VIEW; /* packed floats lie in the file as they lie in memory */
    }
    if (place == PLACE_FIELD) {
        if (bytes / field.number_bytes >
            tensor->self.bytes) { /* a number takes a byte of the file at least */
            return wrong_size(field.name, tensor->self.bytes, bytes);
        }
        WF_TRY(take(arena, bytes, &copy));
        WF_TRY(decode_field(tensor, &field, bytes, copy));
        *out_data = copy;
        return WF_OK;
    }
    if (bytes == 0) {
        *out_data = &empty;
        return WF_OK;
    }
    if ((uintptr_t)view.data % field.number_bytes == 0) {
        *out_data = view.data;
        return WF_OK;
    }
    WF_TRY(take(arena, bytes, &copy));
    memcpy(copy, view.data, bytes);
    if (mapped && bytes >= DROPPED_BYTES) {
        wf_mapping_drop(view.data, bytes);
    }
    *out_data = copy;
    return WF_OK;
}
