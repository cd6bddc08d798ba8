/* SPDX-License-Identifier: Apache-2.0 */
/* Attention (operator set 23 and newer) as products and a softmax, in the form that graph passes recognise.
 * Shapes are known, so heads, offsets and masks that do not depend on values become constants. Source: the
 * operator's text, version 25. */
#include <math.h>

#include "base/compiler.h"
#include "onnx/upgrade.h"

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_KEY, IN_PAST_VALUE, IN_LENGTHS };
enum { OUT_Y, OUT_PRESENT_KEY, OUT_PRESENT_VALUE, OUT_PRODUCT };
enum { PRODUCT_RAW, PRODUCT_CAPPED, PRODUCT_BIASED, PRODUCT_SOFTMAX }; /* qk_matmul_output_mode */

typedef struct attention {
    wf_upgrade_t *up;
    wf_value_id q, k, v; /* [batch, heads, sequence, size] */
    wf_dtype_t dtype;
    bool is_flat; /* operands have heads and size in one dim */
    int64_t batch, q_heads, kv_heads, q_length, kv_length, head_size, v_head_size;
    int64_t past_length;
    float scale;
    wf_value_id bias;  /* sum of the masks; WF_NO_VALUE: none */
    bool may_be_empty; /* a query may have no key */
} attention_t;

/* ---- Operands ---- */

/* [batch, sequence, heads * size] to [batch, heads, sequence, size]. */
static wf_status_t split_heads(attention_t *self, wf_value_id x, int64_t heads, wf_value_id *out_value)
{
    wf_type_t type;
    wf_value_id split;
    WF_TRY(wf_up_type_of(self->up, x, &type));
    if (!self->is_flat) {
        *out_value = x;
        return type.rank == 4 ? WF_OK : WF_ERROR(MODEL_INVALID, "Q, K and V have different ranks");
    }
    if (type.rank != 3 || heads <= 0 || type.dims[2] % heads != 0) {
        return WF_ERROR(MODEL_INVALID, "%lld heads do not divide the hidden size", (long long)heads);
    }
    int64_t dims[4] = {type.dims[0], type.dims[1], heads, type.dims[2] / heads};
    WF_TRY(wf_up_reshape(self->up, x, dims, 4, &split));
    return wf_up_transpose(self->up, split, (int64_t[]){0, 2, 1, 3}, 4, out_value);
}

/* The cache before the new keys or values. */
static wf_status_t join_past(attention_t *self, size_t past_input, size_t present_output, wf_value_id *x)
{
    if (wf_up_has(self->up, past_input)) {
        wf_value_id inputs[2] = {self->up->inputs[past_input], *x};
        wf_attr_t axis = wf_attr_int("axis", 2);
        WF_TRY(wf_up_make(self->up, &(wf_up_spec_t){WF_OP_CONCAT, &axis, 1, inputs, 2}, x));
    }
    wf_up_bind(self->up, present_output, *x);
    return WF_OK;
}

/* Every head of keys serves q_heads / kv_heads heads of queries, one after the other. */
static wf_status_t repeat_heads(attention_t *self, wf_value_id *x)
{
    wf_type_t type;
    wf_value_id single, spread;
    if (self->q_heads == self->kv_heads) {
        return WF_OK;
    }
    WF_TRY(wf_up_type_of(self->up, *x, &type));
    int64_t group = self->q_heads / self->kv_heads;
    int64_t one[5] = {type.dims[0], type.dims[1], 1, type.dims[2], type.dims[3]};
    int64_t many[5] = {type.dims[0], type.dims[1], group, type.dims[2], type.dims[3]};
    int64_t joined[4] = {type.dims[0], self->q_heads, type.dims[2], type.dims[3]};
    wf_attr_t shape = wf_attr_ints("shape", many, 5);
    WF_TRY(wf_up_reshape(self->up, *x, one, 5, &single));
    wf_value_id inputs[2] = {single, WF_NO_VALUE};
    WF_TRY(wf_up_make(self->up, &(wf_up_spec_t){WF_OP_EXPAND, &shape, 1, inputs, 2}, &spread));
    return wf_up_reshape(self->up, spread, joined, 4, x);
}

static wf_status_t read_operands(attention_t *self)
{
    wf_upgrade_t *up = self->up;
    wf_type_t q, k, v;
    WF_TRY(wf_up_need_inputs(up, 3));
    WF_TRY(wf_up_type(up, IN_Q, &q));
    self->dtype = q.dtype;
    self->is_flat = q.rank == 3;
    if (wf_up_has(up, IN_PAST_KEY) != wf_up_has(up, IN_PAST_VALUE) ||
        (wf_up_has(up, IN_PAST_KEY) && wf_up_has(up, IN_LENGTHS))) {
        return WF_ERROR(MODEL_INVALID,
                        "past_key, past_value and nonpad_kv_seqlen do not go together like this");
    }
    WF_TRY(split_heads(self, up->inputs[IN_Q], wf_up_int(up, "q_num_heads", 0), &self->q));
    WF_TRY(split_heads(self, up->inputs[IN_K], wf_up_int(up, "kv_num_heads", 0), &self->k));
    WF_TRY(split_heads(self, up->inputs[IN_V], wf_up_int(up, "kv_num_heads", 0), &self->v));
    WF_TRY(wf_up_type_of(up, self->k, &k));
    int64_t new_length = k.dims[2];
    WF_TRY(join_past(self, IN_PAST_KEY, OUT_PRESENT_KEY, &self->k));
    WF_TRY(join_past(self, IN_PAST_VALUE, OUT_PRESENT_VALUE, &self->v));
    WF_TRY(wf_up_type_of(up, self->q, &q));
    WF_TRY(wf_up_type_of(up, self->k, &k));
    WF_TRY(wf_up_type_of(up, self->v, &v));
    self->batch = q.dims[0];
    self->q_heads = q.dims[1];
    self->q_length = q.dims[2];
    self->head_size = q.dims[3];
    self->kv_heads = k.dims[1];
    self->kv_length = k.dims[2];
    self->v_head_size = v.dims[3];
    self->past_length = self->kv_length - new_length;
    if (k.dims[0] != q.dims[0] || v.dims[0] != q.dims[0] || v.dims[1] != k.dims[1] ||
        v.dims[2] != k.dims[2] || k.dims[3] != q.dims[3] || self->kv_heads <= 0 ||
        self->q_heads % self->kv_heads != 0) {
        return WF_ERROR(MODEL_INVALID, "the shapes of Q, K and V do not fit");
    }
    self->scale = wf_up_float(up, "scale", self->head_size > 0 ? 1.0f / sqrtf((float)self->head_size) : 1.0f);
    WF_TRY(repeat_heads(self, &self->k));
    return repeat_heads(self, &self->v);
}

/* ---- Masks ---- */

static wf_status_t add_bias(attention_t *self, wf_value_id bias)
{
    if (self->bias == WF_NO_VALUE) {
        self->bias = bias;
        return WF_OK;
    }
    return wf_up_binary(self->up, WF_OP_ADD, self->bias, bias, &self->bias);
}

/* 0 where the condition holds, else minus infinity. */
static wf_status_t bias_of(attention_t *self, wf_value_id condition, wf_value_id *out_bias)
{
    wf_value_id zero, never;
    WF_TRY(wf_up_scalar(self->up, self->dtype, 0.0, &zero));
    WF_TRY(wf_up_scalar(self->up, self->dtype, -INFINITY, &never));
    return wf_up_where(self->up, condition, zero, never, out_bias);
}

/* Keys that a mask is too short for are masked. */
static wf_status_t lengthen(attention_t *self, wf_value_id *mask)
{
    wf_type_t type;
    wf_value_id never;
    int64_t pads[2 * WF_MAX_RANK] = {0};
    WF_TRY(wf_up_type_of(self->up, *mask, &type));
    if (type.rank == 0 || type.dims[type.rank - 1] >= self->kv_length || type.dims[type.rank - 1] == 1) {
        return WF_OK;
    }
    pads[2 * type.rank - 1] = self->kv_length - type.dims[type.rank - 1];
    WF_TRY(wf_up_scalar(self->up, type.dtype, -INFINITY, &never));
    wf_attr_t attr = wf_attr_ints("pads", pads, 2 * (size_t)type.rank);
    wf_value_id inputs[3] = {*mask, WF_NO_VALUE, never};
    return wf_up_make(self->up, &(wf_up_spec_t){WF_OP_PAD, &attr, 1, inputs, 3}, mask);
}

static wf_status_t add_given_mask(attention_t *self)
{
    wf_type_t type;
    wf_value_id mask = self->up->inputs[IN_MASK];
    WF_TRY(wf_up_type_of(self->up, mask, &type));
    if (type.dtype == WF_DTYPE_BOOL) {
        WF_TRY(bias_of(self, mask, &mask));
    }
    WF_TRY(wf_up_cast(self->up, mask, self->dtype, &mask));
    WF_TRY(lengthen(self, &mask));
    self->may_be_empty = true;
    return add_bias(self, mask);
}

/* Which keys a query sees by position: at or before `right` after it, at or after `left` before it; -1: no
 * bound. */
typedef struct window {
    int64_t left, right;
} window_t;

static bool sees(window_t window, int64_t position, int64_t key)
{
    return (window.right < 0 || key <= position + window.right) &&
           (window.left < 0 || key >= position - window.left);
}

/* Positions are known: a constant [q_length, kv_length]. */
static wf_status_t add_fixed_window(attention_t *self, window_t window)
{
    const char *name;
    wf_tensor_t tensor;
    wf_value_id bias;
    wf_type_t type = {.dtype = self->dtype, .rank = 2, .dims = {self->q_length, self->kv_length}};
    WF_TRY(wf_arena_format(self->up->scratch, &name, "%s/window", self->up->label));
    if (wf_type_bytes(&type) < 0) {
        return WF_ERROR(MODEL_LIMIT, "the mask is too large");
    }
    WF_TRY(wf_emit_constant(self->up->graph, name, &type, &tensor, &bias));
    for (int64_t i = 0; i < self->q_length; i++) {
        bool any = false;
        for (int64_t j = 0; j < self->kv_length; j++) {
            bool seen = sees(window, self->past_length + i, j);
            any = any || seen;
            if (!wf_constant_set(&tensor, i * self->kv_length + j, seen ? 0.0 : -INFINITY)) {
                return WF_ERROR(MODEL_UNSUPPORTED, "element type %s is not supported",
                                wf_dtype_name(self->dtype));
            }
        }
        self->may_be_empty = self->may_be_empty || !any;
    }
    return add_bias(self, bias);
}

/* first, first + 1, ... as i64 of the given dims. */
static wf_status_t make_count(attention_t *self, int64_t first, int64_t count, const int64_t *dims,
                              size_t rank, wf_value_id *out_value)
{
    const char *name;
    wf_tensor_t tensor;
    wf_type_t type = {.dtype = WF_DTYPE_I64, .rank = (uint32_t)rank};
    for (size_t i = 0; i < rank; i++) {
        type.dims[i] = dims[i];
    }
    WF_TRY(wf_arena_format(self->up->scratch, &name, "%s/positions", self->up->label));
    WF_TRY(wf_emit_constant(self->up->graph, name, &type, &tensor, out_value));
    for (int64_t i = 0; i < count; i++) {
        ((int64_t *)tensor.data)[i] = first + i;
    }
    return WF_OK;
}

/* Lengths per sample are run-time values: keys beyond them are padding, and the last query stands at their
 * end. */
static wf_status_t add_moving_window(attention_t *self, window_t window)
{
    wf_upgrade_t *up = self->up;
    wf_value_id lengths, keys, rows, seen, positions, bound, inside, bias;
    wf_type_t type;
    WF_TRY(wf_up_type(up, IN_LENGTHS, &type));
    if (type.rank != 1 || type.dims[0] != self->batch) {
        return WF_ERROR(MODEL_INVALID, "nonpad_kv_seqlen has not one value per sample");
    }
    WF_TRY(wf_up_cast(up, up->inputs[IN_LENGTHS], WF_DTYPE_I64, &lengths));
    WF_TRY(wf_up_reshape(up, lengths, (int64_t[]){self->batch, 1, 1, 1}, 4, &lengths));
    WF_TRY(make_count(self, 0, self->kv_length, (int64_t[]){1, 1, 1, self->kv_length}, 4, &keys));
    WF_TRY(wf_up_binary(up, WF_OP_LESS, keys, lengths, &seen));
    if (window.left >= 0 || window.right >= 0) {
        WF_TRY(make_count(self, -self->q_length, self->q_length, (int64_t[]){1, 1, self->q_length, 1}, 4,
                          &rows));
        WF_TRY(wf_up_binary(up, WF_OP_ADD, lengths, rows, &positions));
    }
    if (window.right >= 0) {
        WF_TRY(make_count(self, window.right, 1, NULL, 0, &bound));
        WF_TRY(wf_up_binary(up, WF_OP_ADD, positions, bound, &bound));
        WF_TRY(wf_up_binary(up, WF_OP_LESS_OR_EQUAL, keys, bound, &inside));
        WF_TRY(wf_up_binary(up, WF_OP_AND, seen, inside, &seen));
    }
    if (window.left >= 0) {
        WF_TRY(make_count(self, window.left, 1, NULL, 0, &bound));
        WF_TRY(wf_up_binary(up, WF_OP_SUB, positions, bound, &bound));
        WF_TRY(wf_up_binary(up, WF_OP_GREATER_OR_EQUAL, keys, bound, &inside));
        WF_TRY(wf_up_binary(up, WF_OP_AND, seen, inside, &seen));
    }
    WF_TRY(bias_of(self, seen, &bias));
    self->may_be_empty = true;
    return add_bias(self, bias);
}

static wf_status_t make_masks(attention_t *self)
{
    window_t window = {wf_up_int(self->up, "left_window_size", -1),
                       wf_up_int(self->up, "right_window_size", -1)};
    if (window.left < -1 || window.right < -1) {
        return WF_ERROR(MODEL_INVALID, "the window has a negative size");
    }
    if (wf_up_int(self->up, "is_causal", 0) != 0) {
        window.right = 0;
    }
    if (wf_up_has(self->up, IN_MASK)) {
        WF_TRY(add_given_mask(self));
    }
    if (wf_up_has(self->up, IN_LENGTHS)) {
        return add_moving_window(self, window);
    }
    return window.left >= 0 || window.right >= 0 ? add_fixed_window(self, window) : WF_OK;
}

/* ---- Products ---- */

/* scale * Q K^T. 16-bit types: half of the scale on each side, before the product can overflow. */
static wf_status_t make_scores(attention_t *self, wf_value_id *out_scores)
{
    wf_upgrade_t *up = self->up;
    wf_value_id q = self->q, k = self->k, factor;
    bool split = wf_dtype_bits(self->dtype) < 32 && self->scale > 0.0f;
    WF_TRY(wf_up_scalar(up, self->dtype, split ? sqrt((double)self->scale) : (double)self->scale, &factor));
    if (split) {
        WF_TRY(wf_up_binary(up, WF_OP_MUL, q, factor, &q));
        WF_TRY(wf_up_binary(up, WF_OP_MUL, k, factor, &k));
    }
    WF_TRY(wf_up_transpose(up, k, (int64_t[]){0, 1, 3, 2}, 4, &k));
    WF_TRY(wf_up_binary(up, WF_OP_MATMUL, q, k, out_scores));
    return split ? WF_OK : wf_up_binary(up, WF_OP_MUL, *out_scores, factor, out_scores);
}

static wf_status_t cap_scores(attention_t *self, wf_value_id *scores)
{
    wf_upgrade_t *up = self->up;
    wf_value_id cap, x;
    float softcap = wf_up_float(up, "softcap", 0.0f);
    if (softcap == 0.0f) {
        return WF_OK;
    }
    WF_TRY(wf_up_scalar(up, self->dtype, (double)softcap, &cap));
    WF_TRY(wf_up_binary(up, WF_OP_DIV, *scores, cap, &x));
    WF_TRY(wf_up_unary(up, WF_OP_TANH, x, &x));
    return wf_up_binary(up, WF_OP_MUL, x, cap, scores);
}

/* Rows whose bias is minus infinity everywhere: softmax gives NaN there, the operator zero. */
static wf_status_t find_empty_rows(attention_t *self, wf_value_id *out_empty)
{
    wf_value_id highest, never;
    wf_attr_t axes = wf_attr_ints("axes", (int64_t[]){-1}, 1);
    WF_TRY(wf_up_make(self->up, &(wf_up_spec_t){WF_OP_REDUCE_MAX, &axes, 1, &self->bias, 1}, &highest));
    WF_TRY(wf_up_scalar(self->up, self->dtype, -INFINITY, &never));
    return wf_up_binary(self->up, WF_OP_EQUAL, highest, never, out_empty);
}

static wf_status_t clear_rows(attention_t *self, wf_value_id empty, wf_value_id *x)
{
    wf_value_id zero;
    WF_TRY(wf_up_scalar(self->up, self->dtype, 0.0, &zero));
    return wf_up_where(self->up, empty, zero, *x, x);
}

static wf_status_t make_softmax(attention_t *self, wf_value_id scores, wf_value_id *out_weights)
{
    wf_upgrade_t *up = self->up;
    wf_dtype_t precision = wf_dtype_from_onnx(wf_up_int(up, "softmax_precision", 0));
    wf_value_id x = scores;
    if (precision != WF_DTYPE_NONE) {
        WF_TRY(wf_up_cast(up, x, precision, &x));
    }
    WF_TRY(wf_up_unary(up, WF_OP_SOFTMAX, x, &x));
    return wf_up_cast(up, x, self->dtype, out_weights);
}

/* The last nodes: the result is [batch, heads, sequence, size], or heads and size in one dim. */
static wf_status_t finish(attention_t *self, wf_value_id y)
{
    wf_upgrade_t *up = self->up;
    if (self->is_flat) {
        int64_t dims[3] = {self->batch, self->q_length, self->q_heads * self->v_head_size};
        WF_TRY(wf_up_transpose(up, y, (int64_t[]){0, 2, 1, 3}, 4, &y));
        WF_TRY(wf_up_reshape(up, y, dims, 3, &y));
    }
    return wf_up_finish(up, &(wf_up_spec_t){.op = WF_OP_IDENTITY, .inputs = &y, .input_count = 1});
}

WF_UPGRADE(attention)
{
    attention_t attention = {.up = self, .bias = WF_NO_VALUE};
    wf_value_id scores, weights, y, empty = WF_NO_VALUE;
    int64_t mode = wf_up_int(self, "qk_matmul_output_mode", PRODUCT_RAW);
    WF_TRY(read_operands(&attention));
    WF_TRY(make_masks(&attention));
    WF_TRY(make_scores(&attention, &scores));
    if (mode == PRODUCT_RAW) {
        wf_up_bind(self, OUT_PRODUCT, scores);
    }
    WF_TRY(cap_scores(&attention, &scores));
    if (mode == PRODUCT_CAPPED) {
        wf_up_bind(self, OUT_PRODUCT, scores);
    }
    if (attention.bias != WF_NO_VALUE) {
        WF_TRY(wf_up_binary(self, WF_OP_ADD, scores, attention.bias, &scores));
    }
    if (mode == PRODUCT_BIASED) {
        wf_up_bind(self, OUT_PRODUCT, scores);
    }
    WF_TRY(make_softmax(&attention, scores, &weights));
    WF_TRY(wf_up_binary(self, WF_OP_MATMUL, weights, attention.v, &y));
    if (attention.may_be_empty) {
        WF_TRY(find_empty_rows(&attention, &empty));
        WF_TRY(clear_rows(&attention, empty, &y));
    }
    if (mode == PRODUCT_SOFTMAX && self->output_count > OUT_PRODUCT) {
        if (empty != WF_NO_VALUE) {
            WF_TRY(clear_rows(&attention, empty, &weights));
        }
        wf_up_bind(self, OUT_PRODUCT, weights);
    }
    return finish(&attention, y);
}
