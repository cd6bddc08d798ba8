/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites of older forms of standard operators. Each says which text of the specification it follows. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "onnx/upgrade.h"
#include "onnx/wire.h"

/* The form is the newest one but for attributes that no longer mean anything. Their names are those of the
 * rule's text. */
WF_UPGRADE(plain)
{
    char name[64];
    for (const char *at = self->rule->attrs; *at != '\0';) {
        at += strspn(at, " ");
        size_t length = strcspn(at, ":");
        assert(length < sizeof name);
        memcpy(name, at, length);
        name[length] = '\0';
        wf_up_drop(self, name);
        at += strcspn(at, " ");
    }
    return wf_up_same(self);
}

/* ---- Elementwise ---- */

/* Operator sets 1 to 6: with broadcast=1 the dims of B are those of A from `axis` on (default: the last
 * ones). Newer broadcasting aligns the last dims, so B gets trailing dims of 1. */
WF_UPGRADE(legacy_broadcast)
{
    wf_type_t a, b;
    bool broadcast = wf_up_int(self, "broadcast", 0) != 0;
    const wf_attr_t *axis_attr = wf_up_attr(self, "axis");
    int64_t axis = axis_attr != NULL ? axis_attr->v.i : 0;
    bool aligned = !broadcast || axis_attr == NULL;
    wf_up_drop(self, "axis");
    wf_up_drop(self, "broadcast");
    if (!aligned) {
        WF_TRY(wf_up_type(self, 0, &a));
        WF_TRY(wf_up_type(self, 1, &b));
        axis += axis < 0 ? (int64_t)a.rank : 0;
        if (axis < 0 || axis + b.rank > a.rank) {
            return WF_ERROR(MODEL_INVALID, "axis %lld does not fit ranks %u and %u", (long long)axis, a.rank,
                            b.rank);
        }
        int64_t dims[WF_MAX_RANK];
        size_t rank = a.rank - (size_t)axis;
        for (size_t i = 0; i < rank; i++) {
            dims[i] = i < b.rank ? b.dims[i] : 1;
        }
        if (rank != b.rank && b.rank > 0) {
            WF_TRY(wf_up_reshape(self, self->inputs[1], dims, rank, &self->inputs[1]));
        }
    }
    return wf_up_same(self);
}

/* Operator sets 1 to 6: a slope of rank 1 has one value per channel (dim 1). */
WF_UPGRADE(prelu)
{
    wf_type_t x, slope;
    WF_TRY(wf_up_type(self, 0, &x));
    WF_TRY(wf_up_type(self, 1, &slope));
    if (slope.rank == 1 && slope.dims[0] != 1 && x.rank > 2) {
        int64_t dims[WF_MAX_RANK];
        for (size_t i = 0; i < x.rank - 1; i++) {
            dims[i] = i == 0 ? slope.dims[0] : 1;
        }
        WF_TRY(wf_up_reshape(self, self->inputs[1], dims, x.rank - 1, &self->inputs[1]));
    }
    return wf_up_same(self);
}

/* Operator sets 1 to 5: the element type is a name. */
WF_UPGRADE(cast)
{
    static const struct {
        const char *onnx_name;
        wf_dtype_t dtype;
    } names[] = {
        {"FLOAT", WF_DTYPE_F32},  {"UINT8", WF_DTYPE_U8},   {"INT8", WF_DTYPE_I8},
        {"UINT16", WF_DTYPE_U16}, {"INT16", WF_DTYPE_I16},  {"INT32", WF_DTYPE_I32},
        {"INT64", WF_DTYPE_I64},  {"BOOL", WF_DTYPE_BOOL},  {"FLOAT16", WF_DTYPE_F16},
        {"DOUBLE", WF_DTYPE_F64}, {"UINT32", WF_DTYPE_U32}, {"UINT64", WF_DTYPE_U64},
    };
    const char *to = wf_up_string(self, "to", "");
    for (size_t i = 0; i < WF_COUNT_OF(names); i++) {
        if (strcmp(to, names[i].onnx_name) == 0) {
            self->op = WF_OP_CAST;
            wf_up_set(self, wf_attr_int("to", wf_dtype_to_onnx(names[i].dtype)));
            return wf_up_same(self);
        }
    }
    return WF_ERROR(MODEL_UNSUPPORTED, "element type \"%s\" is not known", to);
}

/* Operator sets 6 to 10: the limits are those of float when they are left out, and that clips infinities. */
WF_UPGRADE(clip)
{
    wf_type_t x;
    WF_TRY(wf_up_type(self, 0, &x));
    bool is_float = x.dtype == WF_DTYPE_F32 || x.dtype == WF_DTYPE_F64;
    if (is_float && wf_up_attr(self, "max") == NULL) {
        wf_up_set(self, wf_attr_float("max", FLT_MAX));
    }
    if (is_float && wf_up_attr(self, "min") == NULL) {
        wf_up_set(self, wf_attr_float("min", -FLT_MAX));
    }
    return wf_up_same(self);
}

/* Operator sets 1 to 5: other defaults. */
WF_UPGRADE(selu)
{
    wf_up_set(self, wf_attr_float("alpha", (double)wf_up_float(self, "alpha", 1.6732f)));
    wf_up_set(self, wf_attr_float("gamma", (double)wf_up_float(self, "gamma", 1.0507f)));
    return wf_up_same(self);
}

/* Operator sets 1 to 11: inference gives the input back. What the mask is then was never said, so it must not
 * be used. */
WF_UPGRADE(dropout)
{
    WF_TRY(wf_up_refuse_outputs(self, 1, "the mask of an old Dropout is only defined in training"));
    WF_TRY(wf_up_need_inputs(self, 1));
    return wf_up_finish(self,
                        &(wf_up_spec_t){.op = WF_OP_IDENTITY, .inputs = self->inputs, .input_count = 1});
}

/* Operator set 27 and newer: computed in float for the 16-bit types, as the reference does anyway. */
WF_UPGRADE(range)
{
    int64_t stash = wf_up_int(self, "stash_type", 1);
    if (stash != 1) {
        return WF_ERROR(MODEL_UNSUPPORTED, "stash_type %lld is not supported", (long long)stash);
    }
    wf_up_drop(self, "stash_type");
    return wf_up_same(self);
}

/* ---- Softmax ---- */

/* Operator sets 1 to 12: the dims from `axis` (default 1) on are one; the newer form works along one axis.
 * They are the same when at most one dim from axis on is not 1. */
WF_UPGRADE(flat_softmax)
{
    wf_type_t x;
    WF_TRY(wf_up_type(self, 0, &x));
    int64_t axis = wf_up_int(self, "axis", 1);
    axis += axis < 0 ? (int64_t)x.rank : 0;
    if (axis < 0 || axis > x.rank) {
        return WF_ERROR(MODEL_INVALID, "axis %lld does not fit rank %u", (long long)axis, x.rank);
    }
    int64_t rows = 1, columns = 1, wide = -1;
    bool flat = false;
    for (uint32_t i = 0; i < x.rank; i++) {
        *(i < axis ? &rows : &columns) *= x.dims[i]; /* the type's size fits, so these do */
        if (i >= axis && x.dims[i] != 1) {
            flat = flat || wide >= 0;
            wide = i;
        }
    }
    if (!flat && axis < x.rank) {
        wf_up_set(self, wf_attr_int("axis", wide >= 0 ? wide : axis));
        return wf_up_same(self);
    }
    wf_value_id matrix, result;
    wf_attr_t last = wf_attr_int("axis", 1);
    WF_TRY(wf_up_reshape(self, self->inputs[0], (int64_t[]){rows, columns}, 2, &matrix));
    WF_TRY(wf_up_make(self, &(wf_up_spec_t){self->op, &last, 1, &matrix, 1}, &result));
    wf_attr_t attrs[2] = {wf_attr_int("allowzero", 1), wf_attr_ints("shape", x.dims, x.rank)};
    wf_value_id inputs[2] = {result, WF_NO_VALUE};
    return wf_up_finish(self, &(wf_up_spec_t){WF_OP_RESHAPE, attrs, 2, inputs, 2});
}

/* ---- Normalisation ---- */

/* Operator sets 7 and 8 with spatial=0: scale, bias, mean and variance have the dims of one row of the batch.
 */
static wf_status_t per_activation(wf_upgrade_t *self, float epsilon)
{
    wf_type_t type;
    wf_value_id centred, shifted, deviation, normal, scaled, eps;
    WF_TRY(wf_up_type(self, 4, &type));
    WF_TRY(wf_up_scalar(self, type.dtype, (double)epsilon, &eps));
    WF_TRY(wf_up_binary(self, WF_OP_SUB, self->inputs[0], self->inputs[3], &centred));
    WF_TRY(wf_up_binary(self, WF_OP_ADD, self->inputs[4], eps, &shifted));
    WF_TRY(wf_up_unary(self, WF_OP_SQRT, shifted, &deviation));
    WF_TRY(wf_up_binary(self, WF_OP_DIV, centred, deviation, &normal));
    WF_TRY(wf_up_binary(self, WF_OP_MUL, normal, self->inputs[1], &scaled));
    wf_value_id inputs[2] = {scaled, self->inputs[2]};
    return wf_up_finish(self, &(wf_up_spec_t){.op = WF_OP_ADD, .inputs = inputs, .input_count = 2});
}

/* Operator sets 1 to 13: outputs beyond the first mean training (is_test of 1 to 6 says the same once more).
 */
WF_UPGRADE(batch_normalization)
{
    bool is_test = wf_up_int(self, "is_test", 0) != 0;
    if ((self->listed_outputs & ~1ull) != 0 && !is_test) {
        return WF_ERROR(MODEL_UNSUPPORTED, "it is in training mode: it has outputs for mean and variance");
    }
    WF_TRY(wf_up_refuse_outputs(self, 1, "mean and variance are only defined in training"));
    bool spatial = wf_up_int(self, "spatial", 1) != 0;
    wf_up_drop(self, "is_test");
    wf_up_drop(self, "spatial");
    WF_TRY(wf_up_need_inputs(self, 5));
    self->output_count = 1;
    return spatial ? wf_up_same(self) : per_activation(self, wf_up_float(self, "epsilon", 1e-5f));
}

/* Operator sets 18 to 20: one scale and one bias per group, later per channel. */
WF_UPGRADE(group_normalization)
{
    wf_type_t x;
    int64_t groups = wf_up_int(self, "num_groups", 0);
    WF_TRY(wf_up_type(self, 0, &x));
    if (x.rank < 2 || groups <= 0 || x.dims[1] % groups != 0) {
        return WF_ERROR(MODEL_INVALID, "num_groups %lld does not divide the channels", (long long)groups);
    }
    int64_t channels = x.dims[1];
    for (size_t i = 1; i <= 2; i++) {
        wf_type_t type;
        wf_value_id column, spread;
        WF_TRY(wf_up_type(self, i, &type));
        if (type.rank != 1 || type.dims[0] != groups) {
            return WF_ERROR(MODEL_INVALID, "input %zu has not one value per group", i);
        }
        int64_t dims[2] = {groups, channels / groups};
        wf_attr_t shape = wf_attr_ints("shape", dims, 2);
        WF_TRY(wf_up_reshape(self, self->inputs[i], (int64_t[]){groups, 1}, 2, &column));
        wf_value_id inputs[2] = {column, WF_NO_VALUE};
        WF_TRY(wf_up_make(self, &(wf_up_spec_t){WF_OP_EXPAND, &shape, 1, inputs, 2}, &spread));
        WF_TRY(wf_up_reshape(self, spread, &channels, 1, &self->inputs[i]));
    }
    return wf_up_same(self);
}

/* Operator set 1: p is a float. */
WF_UPGRADE(float_p)
{
    float p = wf_up_float(self, "p", 2.0f);
    self->op = strcmp(self->rule->name, "LpPool") == 0 ? WF_OP_LP_POOL : WF_OP_GLOBAL_LP_POOL;
    if (!(p >= 1.0f && p <= 64.0f) || p != floorf(p)) {
        return WF_ERROR(MODEL_UNSUPPORTED, "p of %g is not a small whole number", (double)p);
    }
    wf_up_set(self, wf_attr_int("p", (int64_t)p));
    return wf_up_same(self);
}

/* ---- Movement ---- */

/* Operator sets 1 to 3: the default axis is 1. */
WF_UPGRADE(concat)
{
    if (wf_up_attr(self, "axis") == NULL) {
        wf_up_set(self, wf_attr_int("axis", 1));
    }
    return wf_up_same(self);
}

/* Operator sets 1 to 10: pads (first called paddings) and the value are attributes. */
WF_UPGRADE(pad)
{
    wf_type_t x;
    const wf_attr_t *paddings = wf_up_attr(self, "paddings");
    float value = wf_up_float(self, "value", 0.0f);
    if (paddings != NULL) {
        wf_up_set(self, wf_attr_ints("pads", paddings->v.ints, paddings->count));
        wf_up_drop(self, "paddings");
    }
    if (wf_up_attr(self, "pads") == NULL) {
        return WF_ERROR(MODEL_INVALID, "attribute pads is missing");
    }
    wf_up_drop(self, "value");
    WF_TRY(wf_up_type(self, 0, &x));
    wf_value_id inputs[3] = {self->inputs[0], WF_NO_VALUE, WF_NO_VALUE};
    if (value != 0.0f) {
        WF_TRY(wf_up_scalar(self, x.dtype, (double)value, &inputs[2]));
    }
    return wf_up_finish(self, &(wf_up_spec_t){self->op, self->attrs, self->attr_count, inputs, 3});
}

/* Operator sets 1 to 5: `tiles` copies along one axis. */
WF_UPGRADE(tile)
{
    wf_type_t x;
    double tiles, axis;
    int64_t repeats[WF_MAX_RANK];
    WF_TRY(wf_up_type(self, 0, &x));
    if (!wf_up_has(self, 1) || !wf_up_has(self, 2) ||
        !wf_graph_scalar(self->graph, self->inputs[1], &tiles) ||
        !wf_graph_scalar(self->graph, self->inputs[2], &axis)) {
        return WF_ERROR(MODEL_UNSUPPORTED, "tiles and axis have to be constants");
    }
    if (!(axis >= 0 && axis < x.rank) || !(tiles >= 0 && tiles <= 1e9)) {
        return WF_ERROR(MODEL_INVALID, "%g tiles along axis %g of rank %u", tiles, axis, x.rank);
    }
    for (uint32_t i = 0; i < x.rank; i++) {
        repeats[i] = i == (uint32_t)axis ? (int64_t)tiles : 1;
    }
    wf_attr_t attr = wf_attr_ints("repeats", repeats, x.rank);
    wf_value_id inputs[2] = {self->inputs[0], WF_NO_VALUE};
    return wf_up_finish(self, &(wf_up_spec_t){WF_OP_TILE, &attr, 1, inputs, 2});
}

/* Operator set 28 and newer: CRD orders depth as channel, row, column of the block; DCR, the only order
 * before, as row, column, channel. */
WF_UPGRADE(space_to_depth)
{
    wf_type_t x;
    wf_value_id split, moved;
    const char *mode = wf_up_string(self, "mode", "DCR");
    int64_t block = wf_up_int(self, "blocksize", 0);
    if (strcmp(mode, "DCR") == 0) {
        wf_up_drop(self, "mode");
        return wf_up_same(self);
    }
    WF_TRY(wf_up_type(self, 0, &x));
    if (strcmp(mode, "CRD") != 0 || x.rank != 4 || block <= 0 || x.dims[2] % block != 0 ||
        x.dims[3] % block != 0) {
        return WF_ERROR(MODEL_INVALID, "mode %s with blocksize %lld does not fit the input", mode,
                        (long long)block);
    }
    int64_t rows = x.dims[2] / block, columns = x.dims[3] / block;
    int64_t parts[6] = {x.dims[0], x.dims[1], rows, block, columns, block};
    int64_t order[6] = {0, 1, 3, 5, 2, 4};
    int64_t dims[4] = {x.dims[0], x.dims[1] * block * block, rows, columns};
    WF_TRY(wf_up_reshape(self, self->inputs[0], parts, 6, &split));
    WF_TRY(wf_up_transpose(self, split, order, 6, &moved));
    wf_attr_t attrs[2] = {wf_attr_int("allowzero", 1), wf_attr_ints("shape", dims, 4)};
    wf_value_id inputs[2] = {moved, WF_NO_VALUE};
    return wf_up_finish(self, &(wf_up_spec_t){WF_OP_RESHAPE, attrs, 2, inputs, 2});
}

/* ---- Resize ---- */

static wf_status_t resize_asymmetric(wf_upgrade_t *self, const char *nearest_mode, const wf_attr_t *scales,
                                     wf_value_id scales_value)
{
    const char *mode = wf_up_string(self, "mode", "nearest");
    wf_attr_t attrs[4] = {wf_attr_string("coordinate_transformation_mode", "asymmetric"),
                          wf_attr_string("mode", strcmp(mode, "bilinear") == 0 ? "linear" : mode),
                          wf_attr_string("nearest_mode", nearest_mode)};
    size_t attr_count = 3;
    if (scales != NULL) {
        attrs[attr_count++] = *scales;
    }
    wf_value_id inputs[3] = {self->inputs[0], WF_NO_VALUE, scales_value};
    return wf_up_finish(self, &(wf_up_spec_t){WF_OP_RESIZE, attrs, attr_count, inputs, 3});
}

WF_UPGRADE(upsample)
{
    wf_type_t x;
    const wf_attr_t *scales = wf_up_attr(self, "scales");
    float sides[4] = {1.0f, 1.0f, wf_up_float(self, "height_scale", 1.0f),
                      wf_up_float(self, "width_scale", 1.0f)};
    wf_attr_t image = {.name = "scales", .kind = WF_ATTR_FLOATS, .count = 4, .v.floats = sides};
    WF_TRY(wf_up_type(self, 0, &x));
    if (wf_up_has(self, 1)) {
        return resize_asymmetric(self, "floor", NULL, self->inputs[1]);
    }
    if (scales == NULL && (wf_up_attr(self, "height_scale") == NULL || x.rank != 4)) {
        return WF_ERROR(MODEL_INVALID, "the scales are missing or do not fit the input");
    }
    return resize_asymmetric(self, "floor", scales != NULL ? scales : &image, WF_NO_VALUE);
}

/* Operator set 10 does not say how it rounds; the test of its operator set (0.6 of 4 columns takes columns 0
 * and 2... of 1, 2, 3, 4 the values 1 and 3) and ONNX Runtime round down when enlarging and up when
 * shrinking. */
WF_UPGRADE(resize10)
{
    wf_tensor_t scales;
    bool shrinks = false, grows = false;
    WF_TRY(wf_up_need_inputs(self, 2));
    if (strcmp(wf_up_string(self, "mode", "nearest"), "nearest") == 0) {
        if (!wf_graph_constant(self->graph, self->inputs[1], &scales)) {
            return WF_ERROR(MODEL_UNSUPPORTED, "scales depend on run-time values");
        }
        for (int64_t i = 0; i < wf_type_elems(&scales.type); i++) {
            double scale;
            if (!wf_constant_get(&scales, i, &scale)) {
                return WF_ERROR(MODEL_INVALID, "scales are not numbers");
            }
            shrinks = shrinks || scale < 1.0;
            grows = grows || scale > 1.0;
        }
        if (shrinks && grows) {
            return WF_ERROR(MODEL_UNSUPPORTED, "it enlarges one dim and shrinks another");
        }
    }
    return resize_asymmetric(self, shrinks ? "ceil" : "floor", NULL, self->inputs[1]);
}

/* Operator set 11 and newer: roi and scales that are not wanted may be tensors without elements. */
WF_UPGRADE(resize)
{
    const char *coordinates = wf_up_string(self, "coordinate_transformation_mode", "half_pixel");
    if (strcmp(coordinates, "tf_half_pixel_for_nn") == 0) {
        return WF_ERROR(MODEL_UNSUPPORTED,
                        "coordinate_transformation_mode tf_half_pixel_for_nn is not supported");
    }
    for (size_t i = 1; i < self->input_count; i++) {
        if (!wf_up_has(self, i)) {
            continue;
        }
        const wf_value_t *value = wf_graph_value(self->graph, self->inputs[i]);
        bool unused_roi = i == 1 && strcmp(coordinates, "tf_crop_and_resize") != 0;
        if (unused_roi || (value->type_known && wf_type_elems(&value->type) == 0)) {
            self->inputs[i] = WF_NO_VALUE;
        }
    }
    return wf_up_same(self);
}

/* ---- Constant ---- */

WF_UPGRADE(constant)
{
    static const char *const forms[] = {"value", "value_float", "value_floats", "value_int", "value_ints"};
    const wf_attr_t *attr = NULL;
    wf_value_id value;
    const char *name = self->output_count > 0 ? self->output_names[0] : NULL;
    for (size_t i = 0; attr == NULL && i < WF_COUNT_OF(forms); i++) {
        attr = wf_up_attr(self, forms[i]);
    }
    if (attr == NULL || self->attr_count != 1) {
        return WF_ERROR(MODEL_UNSUPPORTED, "a constant needs exactly one value that is a tensor or numbers");
    }
    if (name == NULL) {
        return WF_OK;
    }
    wf_tensor_t tensor = {.data = NULL};
    if (attr->kind == WF_ATTR_TENSOR) {
        WF_TRY(wf_graph_add_constant(self->graph, name, &attr->v.tensor->type, attr->v.tensor->data, &value));
        wf_up_bind(self, 0, value);
        return WF_OK;
    }
    bool is_list = attr->kind == WF_ATTR_INTS || attr->kind == WF_ATTR_FLOATS;
    bool is_int = attr->kind == WF_ATTR_INT || attr->kind == WF_ATTR_INTS;
    wf_type_t type = {.dtype = is_int ? WF_DTYPE_I64 : WF_DTYPE_F32, .rank = is_list ? 1 : 0};
    type.dims[0] = is_list ? (int64_t)attr->count : 0;
    const void *source = !is_list ? (const void *)&attr->v
                         : is_int ? (const void *)attr->v.ints
                                  : attr->v.floats;
    WF_TRY(wf_emit_constant(self->graph, name, &type, &tensor, &value));
    if (wf_type_bytes(&type) > 0) {
        memcpy(tensor.data, source, (size_t)wf_type_bytes(&type));
    }
    wf_up_bind(self, 0, value);
    return WF_OK;
}
