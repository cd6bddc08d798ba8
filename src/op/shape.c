/* SPDX-License-Identifier: Apache-2.0 */
#include "op/shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

/* ---- Statuses ---- */

wf_status_t wf_shape_overflow(void)
{
    return WF_ERROR(MODEL_LIMIT, "a size does not fit in 63 bits");
}

wf_status_t wf_shape_rank_error(size_t rank)
{
    return WF_ERROR(MODEL_UNSUPPORTED, "a tensor of rank %zu is not supported, the limit is %d", rank,
                    WF_MAX_RANK);
}

const char *wf_type_text(const wf_type_t *type, char out[WF_TYPE_TEXT_MAX])
{
    int length = snprintf(out, WF_TYPE_TEXT_MAX, "%s[", wf_dtype_name(type->dtype));
    for (uint32_t i = 0; i < type->rank && length < WF_TYPE_TEXT_MAX - 24; i++) {
        length += snprintf(out + length, (size_t)(WF_TYPE_TEXT_MAX - length), i == 0 ? "%lld" : ",%lld",
                           (long long)type->dims[i]);
    }
    snprintf(out + length, (size_t)(WF_TYPE_TEXT_MAX - length), "]");
    return out;
}

/* ---- Inputs ---- */

bool wf_dtype_is_float(wf_dtype_t dtype)
{
    return dtype == WF_DTYPE_F32 || dtype == WF_DTYPE_F16 || dtype == WF_DTYPE_BF16 || dtype == WF_DTYPE_F64;
}

bool wf_dtype_is_small_float(wf_dtype_t dtype)
{
    return dtype == WF_DTYPE_F8E4M3FN || dtype == WF_DTYPE_F8E4M3FNUZ || dtype == WF_DTYPE_F8E5M2 ||
           dtype == WF_DTYPE_F8E5M2FNUZ || dtype == WF_DTYPE_F8E8M0 || dtype == WF_DTYPE_F4E2M1;
}

const wf_type_t *wf_shape_input(const wf_shape_call_t *call, size_t index)
{
    return index < call->input_count && call->inputs[index].dtype != WF_DTYPE_NONE ? &call->inputs[index]
                                                                                   : NULL;
}

wf_status_t wf_shape_need_dtype(const wf_shape_call_t *call, size_t index, wf_dtype_t dtype)
{
    const wf_type_t *input = wf_shape_input(call, index);
    if (input != NULL && input->dtype != dtype) {
        return WF_ERROR(MODEL_INVALID, "input %zu is of type %s, expected %s", index,
                        wf_dtype_name(input->dtype), wf_dtype_name(dtype));
    }
    return WF_OK;
}

wf_status_t wf_shape_need_index(const wf_shape_call_t *call, size_t index)
{
    const wf_type_t *input = wf_shape_input(call, index);
    if (input != NULL && input->dtype != WF_DTYPE_I64 && input->dtype != WF_DTYPE_I32) {
        return WF_ERROR(MODEL_INVALID, "input %zu is of type %s, expected i64 or i32", index,
                        wf_dtype_name(input->dtype));
    }
    return WF_OK;
}

wf_status_t wf_shape_need_dims(const wf_shape_call_t *call, size_t index, uint32_t rank, const int64_t *dims)
{
    const wf_type_t *input = wf_shape_input(call, index);
    if (input == NULL) {
        return WF_OK;
    }
    wf_type_t want = {.dtype = input->dtype, .rank = rank};
    memcpy(want.dims, dims, rank * sizeof *dims);
    if (!wf_type_equal(input, &want)) {
        char have_text[WF_TYPE_TEXT_MAX];
        char want_text[WF_TYPE_TEXT_MAX];
        return WF_ERROR(MODEL_INVALID, "input %zu is %s, expected %s", index, wf_type_text(input, have_text),
                        wf_type_text(&want, want_text));
    }
    return WF_OK;
}

wf_status_t wf_shape_need_one(const wf_shape_call_t *call, size_t index)
{
    const wf_type_t *input = wf_shape_input(call, index);
    if (input != NULL && wf_type_elems(input) != 1) {
        char text[WF_TYPE_TEXT_MAX];
        return WF_ERROR(MODEL_INVALID, "input %zu is %s, expected one element", index,
                        wf_type_text(input, text));
    }
    return WF_OK;
}

wf_status_t wf_shape_need_rank(const wf_shape_call_t *call, size_t index, uint32_t min, uint32_t max)
{
    const wf_type_t *input = wf_shape_input(call, index);
    if (input != NULL && (input->rank < min || input->rank > max)) {
        char text[WF_TYPE_TEXT_MAX];
        wf_type_text(input, text);
        if (min == max) {
            return WF_ERROR(MODEL_INVALID, "input %zu is %s, expected rank %u", index, text, min);
        }
        return WF_ERROR(MODEL_INVALID, "input %zu is %s, expected a rank from %u to %u", index, text, min,
                        max);
    }
    return WF_OK;
}

wf_status_t wf_shape_need_fits(const wf_type_t *from, const wf_type_t *to)
{
    bool fits = from->rank <= to->rank;
    for (uint32_t i = 0; fits && i < from->rank; i++) {
        int64_t dim = from->dims[from->rank - 1 - i];
        fits = dim == 1 || dim == to->dims[to->rank - 1 - i];
    }
    if (!fits) {
        char from_text[WF_TYPE_TEXT_MAX];
        char to_text[WF_TYPE_TEXT_MAX];
        return WF_ERROR(MODEL_INVALID, "%s does not broadcast to %s", wf_type_text(from, from_text),
                        wf_type_text(to, to_text));
    }
    return WF_OK;
}

wf_status_t wf_shape_broadcast(const wf_type_t *const *types, size_t count, wf_type_t *out_type)
{
    wf_type_t result = {.dtype = count > 0 ? types[0]->dtype : WF_DTYPE_NONE};
    for (size_t t = 0; t < count; t++) {
        result.rank = WF_MAX(result.rank, types[t]->rank);
    }
    for (uint32_t d = 0; d < result.rank; d++) {
        result.dims[d] = 1;
    }
    for (size_t t = 0; t < count; t++) {
        uint32_t offset = result.rank - types[t]->rank;
        for (uint32_t d = 0; d < types[t]->rank; d++) {
            int64_t dim = types[t]->dims[d];
            int64_t *have = &result.dims[offset + d];
            if (dim != *have && dim != 1 && *have != 1) {
                char text[WF_TYPE_TEXT_MAX];
                return WF_ERROR(MODEL_INVALID,
                                "input %zu, %s, does not broadcast with the inputs before it: "
                                "%lld against %lld in axis %u",
                                t, wf_type_text(types[t], text), (long long)dim, (long long)*have,
                                offset + d);
            }
            *have = *have == 1 ? dim : *have;
        }
    }
    *out_type = result;
    return WF_OK;
}

/* ---- Axes ---- */

wf_status_t wf_shape_axis(int64_t axis, uint32_t rank, uint32_t *out_axis)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank) {
        return WF_ERROR(MODEL_INVALID, "axis %lld is out of range for rank %u", (long long)axis, rank);
    }
    *out_axis = (uint32_t)(axis < 0 ? axis + rank : axis);
    return WF_OK;
}

wf_status_t wf_shape_axes(const int64_t *axes, int32_t count, uint32_t rank, uint32_t *out_axes,
                          uint32_t *out_mask)
{
    *out_mask = 0;
    for (int32_t i = 0; i < count; i++) {
        WF_TRY(wf_shape_axis(axes[i], rank, &out_axes[i]));
        if ((*out_mask >> out_axes[i] & 1) != 0) {
            return WF_ERROR(MODEL_INVALID, "axis %lld is given twice", (long long)axes[i]);
        }
        *out_mask |= UINT32_C(1) << out_axes[i];
    }
    return WF_OK;
}

wf_status_t wf_shape_attr_axis(const wf_shape_call_t *call, const char *name, int64_t fallback, uint32_t rank,
                               uint32_t *out_axis)
{
    return wf_shape_axis(wf_attrs_int(call->attrs, name, fallback), rank, out_axis);
}

/* ---- Values ---- */

/* Constants may lie at any address of a mapped file: elements are copied out. */
static bool load(const wf_tensor_t *tensor, int64_t index, void *out, size_t bytes)
{
    memcpy(out, (const char *)tensor->data + (size_t)index * bytes, bytes);
    return true;
}

static double half_value(uint16_t bits, uint32_t mantissa_bits, int32_t bias)
{
    uint32_t exponent_mask = (UINT32_C(1) << (15 - mantissa_bits)) - 1;
    uint32_t exponent = (uint32_t)bits >> mantissa_bits & exponent_mask;
    uint32_t mantissa = bits & ((UINT32_C(1) << mantissa_bits) - 1);
    double magnitude;
    if (exponent == exponent_mask) {
        magnitude = mantissa == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
        magnitude = ldexp(mantissa, 1 - bias - (int32_t)mantissa_bits);
    } else {
        magnitude = ldexp(mantissa + (UINT32_C(1) << mantissa_bits),
                          (int32_t)exponent - bias - (int32_t)mantissa_bits);
    }
    return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

/* X(dtype, C type) */
#define WF_VALUE_TYPES(X) \
    X(BOOL, uint8_t)      \
    X(U8, uint8_t)        \
    X(I8, int8_t)         \
    X(U16, uint16_t)      \
    X(I16, int16_t)       \
    X(U32, uint32_t)      \
    X(I32, int32_t)       \
    X(U64, uint64_t)      \
    X(I64, int64_t)       \
    X(F32, float)         \
    X(F64, double)

bool wf_tensor_get_f64(const wf_tensor_t *tensor, int64_t index, double *out)
{
    switch (tensor->type.dtype) {
#define X(name, type)                      \
    case WF_DTYPE_##name: {                \
        type v;                            \
        load(tensor, index, &v, sizeof v); \
        *out = (double)v;                  \
        return true;                       \
    }
        WF_VALUE_TYPES(X)
#undef X
    case WF_DTYPE_F16:
    case WF_DTYPE_BF16: {
        uint16_t bits;
        load(tensor, index, &bits, sizeof bits);
        *out = tensor->type.dtype == WF_DTYPE_F16 ? half_value(bits, 10, 15) : half_value(bits, 7, 127);
        return true;
    }
    default:
        return false;
    }
}

bool wf_tensor_get_i64(const wf_tensor_t *tensor, int64_t index, int64_t *out)
{
    if (tensor->type.dtype == WF_DTYPE_I64) {
        return load(tensor, index, out, sizeof *out);
    }
    if (tensor->type.dtype == WF_DTYPE_U64) {
        uint64_t bits;
        load(tensor, index, &bits, sizeof bits);
        *out = (int64_t)bits;
        return bits <= INT64_MAX;
    }
    double value;
    if (!wf_tensor_get_f64(tensor, index, &value) || !(value >= -0x1p63 && value < 0x1p63) ||
        value != trunc(value)) {
        return false;
    }
    *out = (int64_t)value;
    return true;
}

const wf_tensor_t *wf_shape_value(wf_shape_call_t *call, size_t index)
{
    const wf_tensor_t *value = call->values != NULL ? call->values[index] : NULL;
    if (value == NULL || (value->data == NULL && wf_type_elems(&value->type) != 0)) {
        call->needs_value_of = (int32_t)index;
        return NULL;
    }
    return value;
}

/* ---- Parameters ---- */

wf_status_t wf_shape_param_list(wf_shape_call_t *call, const char *name, int32_t from_input, bool floats,
                                wf_shape_list_t *out_list)
{
    *out_list = (wf_shape_list_t){.count = -1};
    const wf_attr_t *attr = wf_attrs_find(call->attrs, name);
    if (attr != NULL) {
        bool single = attr->kind == (floats ? WF_ATTR_FLOAT : WF_ATTR_INT);
        if (!single && attr->kind != (floats ? WF_ATTR_FLOATS : WF_ATTR_INTS)) {
            return WF_ERROR(MODEL_INVALID, "attribute %s is of a wrong kind", name);
        }
        *out_list = (wf_shape_list_t){.count = single ? 1 : (int64_t)attr->count, .attr = attr};
        return WF_OK;
    }
    const wf_type_t *input = from_input >= 0 ? wf_shape_input(call, (size_t)from_input) : NULL;
    if (input == NULL) {
        return WF_OK;
    }
    bool typed = floats ? wf_dtype_is_float(input->dtype)
                        : input->dtype == WF_DTYPE_I64 || input->dtype == WF_DTYPE_I32;
    if (!typed || input->rank > 1) {
        char text[WF_TYPE_TEXT_MAX];
        return WF_ERROR(MODEL_INVALID, "input %d, %s, is %s, expected a list of %s", from_input, name,
                        wf_type_text(input, text), floats ? "floats" : "i64 or i32");
    }
    const wf_tensor_t *value = wf_shape_value(call, (size_t)from_input);
    if (value == NULL) {
        out_list->count = -2;
        return WF_OK;
    }
    if (!wf_type_equal(&value->type, input)) {
        return WF_ERROR(INTERNAL, "the value of input %d is not of its type", from_input);
    }
    *out_list = (wf_shape_list_t){.count = wf_type_elems(input), .tensor = value};
    return WF_OK;
}

int64_t wf_shape_list_int(const wf_shape_list_t *list, int64_t index)
{
    if (list->attr != NULL) {
        return list->attr->kind == WF_ATTR_INT ? list->attr->v.i : list->attr->v.ints[index];
    }
    int64_t value = 0;
    bool ok = wf_tensor_get_i64(list->tensor, index, &value);
    assert(ok);
    (void)ok;
    return value;
}

double wf_shape_list_float(const wf_shape_list_t *list, int64_t index)
{
    if (list->attr != NULL) {
        return (double)(list->attr->kind == WF_ATTR_FLOAT ? list->attr->v.f : list->attr->v.floats[index]);
    }
    double value = 0;
    bool ok = wf_tensor_get_f64(list->tensor, index, &value);
    assert(ok);
    (void)ok;
    return value;
}

/* The list when it is short enough to be copied. */
static wf_status_t param_short_list(wf_shape_call_t *call, const char *name, int32_t from_input, bool floats,
                                    wf_shape_list_t *out_list)
{
    WF_TRY(wf_shape_param_list(call, name, from_input, floats, out_list));
    if (out_list->count > 2 * WF_MAX_RANK) {
        return WF_ERROR(MODEL_INVALID, "%s has %lld values, more than any shape here needs (%d)", name,
                        (long long)out_list->count, 2 * WF_MAX_RANK);
    }
    return WF_OK;
}

wf_status_t wf_shape_param_ints(wf_shape_call_t *call, const char *name, int32_t from_input,
                                int64_t out_values[2 * WF_MAX_RANK], int32_t *out_count)
{
    wf_shape_list_t list;
    WF_TRY(param_short_list(call, name, from_input, false, &list));
    for (int64_t i = 0; i < list.count; i++) {
        out_values[i] = wf_shape_list_int(&list, i);
    }
    *out_count = (int32_t)list.count;
    return WF_OK;
}

wf_status_t wf_shape_param_floats(wf_shape_call_t *call, const char *name, int32_t from_input,
                                  double out_values[2 * WF_MAX_RANK], int32_t *out_count)
{
    wf_shape_list_t list;
    WF_TRY(param_short_list(call, name, from_input, true, &list));
    for (int64_t i = 0; i < list.count; i++) {
        out_values[i] = wf_shape_list_float(&list, i);
    }
    *out_count = (int32_t)list.count;
    return WF_OK;
}

/* ---- Outputs ---- */

void wf_shape_give(wf_shape_call_t *call, size_t index, wf_dtype_t dtype, uint32_t rank, const int64_t *dims)
{
    if (index >= call->output_count) {
        return;
    }
    wf_type_t *output = &call->outputs[index];
    *output = (wf_type_t){.dtype = dtype, .rank = rank};
    if (rank > 0) {
        memcpy(output->dims, dims, rank * sizeof *dims);
    }
}

wf_status_t wf_shape_give_checked(wf_shape_call_t *call, size_t index, wf_dtype_t dtype, size_t rank,
                                  const int64_t *dims)
{
    if (rank > WF_MAX_RANK) {
        return wf_shape_rank_error(rank);
    }
    wf_shape_give(call, index, dtype, (uint32_t)rank, dims);
    return WF_OK;
}
