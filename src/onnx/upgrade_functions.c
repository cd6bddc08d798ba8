/* SPDX-License-Identifier: Apache-2.0 */
/* Standard operators that are compositions of others. Source: the operators' texts. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "onnx/upgrade.h"

WF_UPGRADE(swiglu)
{
    wf_value_id gate;
    wf_attr_t alpha = wf_attr_float("alpha", (double)wf_up_float(self, "alpha", 1.0f));
    WF_TRY(wf_up_need_inputs(self, 2));
    WF_TRY(wf_up_make(self, &(wf_up_spec_t){WF_OP_SWISH, &alpha, 1, self->inputs, 1}, &gate));
    wf_value_id inputs[2] = {gate, self->inputs[1]};
    return wf_up_finish(self, &(wf_up_spec_t){.op = WF_OP_MUL, .inputs = inputs, .input_count = 2});
}

/* ---- Windows ---- */

/* a0 - a1 cos(t) + a2 cos(2t) over one period. */
static const struct cosine_window {
    const char *name;
    double a0, a1, a2;
} cosine_windows[] = {
    {"HannWindow", 0.5, 0.5, 0.0},
    {"HammingWindow", 25.0 / 46.0, 21.0 / 46.0, 0.0},
    {"BlackmanWindow", 0.42, 0.5, 0.08},
};

WF_UPGRADE(cosine_window)
{
    const double turn = 6.283185307179586;
    const struct cosine_window *row = cosine_windows;
    double size;
    wf_tensor_t tensor;
    wf_value_id value;
    wf_dtype_t dtype = wf_dtype_from_onnx(wf_up_int(self, "output_datatype", 1));
    while (strcmp(row->name, self->rule->name) != 0) {
        row++;
    }
    if (!wf_up_has(self, 0) || !wf_graph_scalar(self->graph, self->inputs[0], &size)) {
        return WF_ERROR(MODEL_UNSUPPORTED, "the size depends on run-time values");
    }
    if (!(size >= 0 && size <= 1 << 24) || dtype == WF_DTYPE_NONE) {
        return WF_ERROR(MODEL_INVALID, "a window of size %g or its type is not possible", size);
    }
    wf_type_t type = {.dtype = dtype, .rank = 1, .dims = {(int64_t)size}};
    double period = wf_up_int(self, "periodic", 1) != 0 ? size : size - 1;
    WF_TRY(wf_emit_constant(self->graph, self->label, &type, &tensor, &value));
    for (int64_t i = 0; i < type.dims[0]; i++) {
        double angle = (double)i * turn / period;
        if (!wf_constant_set(&tensor, i, row->a0 - row->a1 * cos(angle) + row->a2 * cos(2 * angle))) {
            return WF_ERROR(MODEL_UNSUPPORTED, "a window of type %s is not supported", wf_dtype_name(dtype));
        }
    }
    wf_up_bind(self, 0, value);
    return WF_OK;
}

/* ---- Crop and pad ---- */

/* Elements [begin, begin + size) along an axis, as a Slice. */
static wf_status_t make_slice(wf_upgrade_t *self, wf_value_id x, int64_t axis, int64_t begin, int64_t size,
                              wf_value_id *out_value)
{
    int64_t end = begin + size;
    wf_attr_t attrs[3] = {wf_attr_ints("axes", &axis, 1), wf_attr_ints("ends", &end, 1),
                          wf_attr_ints("starts", &begin, 1)};
    wf_value_id inputs[3] = {x, WF_NO_VALUE, WF_NO_VALUE};
    return wf_up_make(self, &(wf_up_spec_t){WF_OP_SLICE, attrs, 3, inputs, 3}, out_value);
}

WF_UPGRADE(center_crop_pad)
{
    wf_type_t x;
    wf_tensor_t shape;
    int64_t pads[2 * WF_MAX_RANK] = {0};
    const wf_attr_t *axes = wf_up_attr(self, "axes");
    WF_TRY(wf_up_need_inputs(self, 2));
    WF_TRY(wf_up_type(self, 0, &x));
    if (!wf_graph_constant(self->graph, self->inputs[1], &shape)) {
        return WF_ERROR(MODEL_UNSUPPORTED, "its shape depends on run-time values");
    }
    int64_t count = axes != NULL ? (int64_t)axes->count : x.rank;
    if (count > x.rank || wf_type_elems(&shape.type) != count) {
        return WF_ERROR(MODEL_INVALID, "axes and shape do not fit the input");
    }
    wf_value_id value = self->inputs[0];
    for (int64_t i = 0; i < count; i++) {
        int64_t target;
        int64_t axis = axes != NULL ? axes->v.ints[i] : i;
        axis += axis < 0 ? (int64_t)x.rank : 0;
        if (axis < 0 || axis >= x.rank || !wf_constant_get_int(&shape, i, &target) || target < 0) {
            return WF_ERROR(MODEL_INVALID, "axes and shape do not fit the input");
        }
        int64_t more = target - x.dims[axis];
        if (more < 0) {
            WF_TRY(make_slice(self, value, axis, -more / 2, target, &value));
        } else {
            pads[axis] = more / 2;
            pads[x.rank + axis] = more - more / 2;
        }
    }
    wf_attr_t attr = wf_attr_ints("pads", pads, 2 * (size_t)x.rank);
    wf_value_id inputs[2] = {value, WF_NO_VALUE};
    return wf_up_finish(self, &(wf_up_spec_t){WF_OP_PAD, &attr, 1, inputs, 2});
}

/* ---- Rotary embedding ---- */

static wf_status_t concat(wf_upgrade_t *self, const wf_value_id *inputs, size_t count, int64_t axis,
                          wf_value_id *out_value)
{
    wf_attr_t attr = wf_attr_int("axis", axis);
    return wf_up_make(self, &(wf_up_spec_t){WF_OP_CONCAT, &attr, 1, inputs, count}, out_value);
}

/* The two halves of what is rotated, x[batch, sequence, heads, rotated]: the front and the back, or even and
 * odd places. */
static wf_status_t take_half(wf_upgrade_t *self, wf_value_id x, const wf_type_t *type, bool interleaved,
                             int64_t half, wf_value_id *out_value)
{
    int64_t size = type->dims[3] / 2;
    if (!interleaved) {
        return make_slice(self, x, 3, half * size, size, out_value);
    }
    int64_t axis = 3, end = type->dims[3], step = 2;
    wf_attr_t attrs[4] = {wf_attr_ints("axes", &axis, 1), wf_attr_ints("ends", &end, 1),
                          wf_attr_ints("starts", &half, 1), wf_attr_ints("steps", &step, 1)};
    wf_value_id inputs[3] = {x, WF_NO_VALUE, WF_NO_VALUE};
    return wf_up_make(self, &(wf_up_spec_t){WF_OP_SLICE, attrs, 4, inputs, 3}, out_value);
}

/* A cache as [batch, sequence, 1, half]. */
static wf_status_t take_cache(wf_upgrade_t *self, size_t input, const wf_type_t *x, wf_value_id *out_value)
{
    wf_type_t type;
    wf_value_id cache = self->inputs[input];
    if (wf_up_has(self, 3)) {
        wf_value_id inputs[2] = {cache, self->inputs[3]};
        WF_TRY(wf_up_make(self, &(wf_up_spec_t){.op = WF_OP_GATHER, .inputs = inputs, .input_count = 2},
                          &cache));
    }
    WF_TRY(wf_up_type_of(self, cache, &type));
    if (type.rank != 3 || type.dims[1] != x->dims[1] || type.dims[2] != x->dims[3] / 2) {
        return WF_ERROR(MODEL_INVALID, "the caches do not fit the input");
    }
    int64_t dims[4] = {type.dims[0], type.dims[1], 1, type.dims[2]};
    return wf_up_reshape(self, cache, dims, 4, out_value);
}

static wf_status_t rotate(wf_upgrade_t *self, wf_value_id x, const wf_type_t *type, wf_value_id *out_value)
{
    bool interleaved = wf_up_int(self, "interleaved", 0) != 0;
    wf_value_id cosine, sine, parts[2], products[4], halves[2];
    WF_TRY(take_cache(self, 1, type, &cosine));
    WF_TRY(take_cache(self, 2, type, &sine));
    WF_TRY(take_half(self, x, type, interleaved, 0, &parts[0]));
    WF_TRY(take_half(self, x, type, interleaved, 1, &parts[1]));
    for (size_t i = 0; i < 4; i++) {
        WF_TRY(wf_up_binary(self, WF_OP_MUL, parts[i & 1], (i == 0 || i == 3) ? cosine : sine, &products[i]));
    }
    WF_TRY(wf_up_binary(self, WF_OP_SUB, products[0], products[1], &halves[0])); /* x0 cos - x1 sin */
    WF_TRY(wf_up_binary(self, WF_OP_ADD, products[2], products[3], &halves[1])); /* x0 sin + x1 cos */
    if (!interleaved) {
        return concat(self, halves, 2, 3, out_value);
    }
    int64_t column[5] = {type->dims[0], type->dims[1], type->dims[2], type->dims[3] / 2, 1};
    WF_TRY(wf_up_reshape(self, halves[0], column, 5, &halves[0]));
    WF_TRY(wf_up_reshape(self, halves[1], column, 5, &halves[1]));
    WF_TRY(concat(self, halves, 2, 4, &x));
    return wf_up_reshape(self, x, type->dims, 4, out_value);
}

WF_UPGRADE(rotary_embedding)
{
    static const int64_t swap[4] = {0, 2, 1, 3};
    wf_type_t whole, type;
    wf_value_id x, parts[2];
    WF_TRY(wf_up_need_inputs(self, 3));
    x = self->inputs[0];
    WF_TRY(wf_up_type(self, 0, &whole));
    int64_t heads = wf_up_int(self, "num_heads", 0);
    if (whole.rank == 4) {
        WF_TRY(wf_up_transpose(self, x, swap, 4, &x));
    } else if (whole.rank == 3 && heads > 0 && whole.dims[2] % heads == 0) {
        int64_t dims[4] = {whole.dims[0], whole.dims[1], heads, whole.dims[2] / heads};
        WF_TRY(wf_up_reshape(self, x, dims, 4, &x));
    } else {
        return WF_ERROR(MODEL_INVALID, "%lld heads do not fit the input", (long long)heads);
    }
    WF_TRY(wf_up_type_of(self, x, &type));
    int64_t size = type.dims[3], rotated = wf_up_int(self, "rotary_embedding_dim", 0);
    rotated = rotated == 0 ? size : rotated;
    if (rotated < 0 || rotated > size || rotated % 2 != 0) {
        return WF_ERROR(MODEL_INVALID, "rotary_embedding_dim %lld does not fit the input",
                        (long long)rotated);
    }
    if (rotated == size) {
        WF_TRY(rotate(self, x, &type, &x));
    } else {
        WF_TRY(make_slice(self, x, 3, 0, rotated, &parts[0]));
        WF_TRY(make_slice(self, x, 3, rotated, size - rotated, &parts[1]));
        type.dims[3] = rotated;
        WF_TRY(rotate(self, parts[0], &type, &parts[0]));
        WF_TRY(concat(self, parts, 2, 3, &x));
    }
    if (whole.rank == 4) {
        wf_attr_t perm = wf_attr_ints("perm", swap, 4);
        return wf_up_finish(self, &(wf_up_spec_t){WF_OP_TRANSPOSE, &perm, 1, &x, 1});
    }
    wf_attr_t attrs[2] = {wf_attr_int("allowzero", 1), wf_attr_ints("shape", whole.dims, 3)};
    wf_value_id inputs[2] = {x, WF_NO_VALUE};
    return wf_up_finish(self, &(wf_up_spec_t){WF_OP_RESHAPE, attrs, 2, inputs, 2});
}

/* ---- Losses ---- */

static wf_status_t finish_reduction(wf_upgrade_t *self, wf_op_t op, wf_value_id x)
{
    wf_attr_t keepdims = wf_attr_int("keepdims", 0);
    return wf_up_finish(self, &(wf_up_spec_t){op, &keepdims, 1, &x, 1});
}

/* Weight of every sample: that of its class, 0 for the class that is ignored; WF_NO_VALUE when all are 1.
 * `target` becomes a class everywhere. */
static wf_status_t sample_weights(wf_upgrade_t *self, wf_dtype_t dtype, wf_value_id *target,
                                  wf_value_id *out_weights)
{
    wf_type_t type;
    const wf_attr_t *ignored = wf_up_attr(self, "ignore_index");
    wf_value_id is_ignored = WF_NO_VALUE, zero, one, index;
    *out_weights = WF_NO_VALUE;
    WF_TRY(wf_up_type_of(self, *target, &type));
    if (ignored != NULL) {
        WF_TRY(wf_up_scalar(self, type.dtype, (double)ignored->v.i, &index));
        WF_TRY(wf_up_scalar(self, type.dtype, 0.0, &zero));
        WF_TRY(wf_up_binary(self, WF_OP_EQUAL, *target, index, &is_ignored));
        WF_TRY(wf_up_where(self, is_ignored, zero, *target, target));
    }
    if (wf_up_has(self, 2)) {
        wf_value_id inputs[2] = {self->inputs[2], *target};
        WF_TRY(wf_up_make(self, &(wf_up_spec_t){.op = WF_OP_GATHER, .inputs = inputs, .input_count = 2},
                          out_weights));
    }
    if (ignored == NULL) {
        return WF_OK;
    }
    WF_TRY(wf_up_scalar(self, dtype, 0.0, &zero));
    WF_TRY(wf_up_scalar(self, dtype, 1.0, &one));
    return wf_up_where(self, is_ignored, zero, *out_weights != WF_NO_VALUE ? *out_weights : one, out_weights);
}

/* -x[n, target[n]] with weights, reduced as the attribute says. */
static wf_status_t finish_loss(wf_upgrade_t *self, wf_value_id x)
{
    wf_type_t type, target_type;
    wf_value_id target = self->inputs[1], weights, column, picked, loss, total;
    const char *reduction = wf_up_string(self, "reduction", "mean");
    bool mean = strcmp(reduction, "mean") == 0, sum = strcmp(reduction, "sum") == 0;
    WF_TRY(wf_up_type_of(self, x, &type));
    WF_TRY(wf_up_type_of(self, target, &target_type));
    if (type.rank < 2 || target_type.rank + 1 != type.rank ||
        (!mean && !sum && strcmp(reduction, "none") != 0)) {
        return WF_ERROR(MODEL_INVALID, "classes of rank %u do not fit rank %u, or reduction %s is not known",
                        target_type.rank, type.rank, reduction);
    }
    WF_TRY(sample_weights(self, type.dtype, &target, &weights));
    wf_attr_t axes = wf_attr_ints("axes", (int64_t[]){1}, 1), axis = wf_attr_int("axis", 1);
    wf_value_id unsqueezed[2] = {target, WF_NO_VALUE};
    WF_TRY(wf_up_make(self, &(wf_up_spec_t){WF_OP_UNSQUEEZE, &axes, 1, unsqueezed, 2}, &column));
    wf_value_id gathered[2] = {x, column};
    WF_TRY(wf_up_make(self, &(wf_up_spec_t){WF_OP_GATHER_ELEMENTS, &axis, 1, gathered, 2}, &picked));
    wf_value_id squeezed[2] = {picked, WF_NO_VALUE};
    WF_TRY(wf_up_make(self, &(wf_up_spec_t){WF_OP_SQUEEZE, &axes, 1, squeezed, 2}, &picked));
    WF_TRY(wf_up_unary(self, WF_OP_NEG, picked, &loss));
    if (weights != WF_NO_VALUE) {
        WF_TRY(wf_up_binary(self, WF_OP_MUL, loss, weights, &loss));
    }
    if (!mean && !sum) {
        return wf_up_finish(self, &(wf_up_spec_t){.op = WF_OP_IDENTITY, .inputs = &loss, .input_count = 1});
    }
    if (sum || weights == WF_NO_VALUE) {
        return finish_reduction(self, sum ? WF_OP_REDUCE_SUM : WF_OP_REDUCE_MEAN, loss);
    }
    wf_attr_t keepdims = wf_attr_int("keepdims", 0);
    WF_TRY(wf_up_make(self, &(wf_up_spec_t){WF_OP_REDUCE_SUM, &keepdims, 1, &loss, 1}, &loss));
    WF_TRY(wf_up_make(self, &(wf_up_spec_t){WF_OP_REDUCE_SUM, &keepdims, 1, &weights, 1}, &total));
    wf_value_id inputs[2] = {loss, total};
    return wf_up_finish(self, &(wf_up_spec_t){.op = WF_OP_DIV, .inputs = inputs, .input_count = 2});
}

WF_UPGRADE(negative_log_likelihood)
{
    WF_TRY(wf_up_need_inputs(self, 2));
    return finish_loss(self, self->inputs[0]);
}

WF_UPGRADE(softmax_cross_entropy)
{
    wf_value_id logs;
    wf_attr_t axis = wf_attr_int("axis", 1);
    WF_TRY(wf_up_need_inputs(self, 2));
    WF_TRY(wf_up_make(self, &(wf_up_spec_t){WF_OP_LOG_SOFTMAX, &axis, 1, self->inputs, 1}, &logs));
    wf_up_bind(self, 1, logs);
    return finish_loss(self, logs);
}
