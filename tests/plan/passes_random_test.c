/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs through the pipeline: the outputs must stay. A graph is made of the shapes of code that
 * passes look for, wired at random, with some of the values in the middle made outputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/match.h"
#include "graph/pass.h"
#include "support/cmocka_all.h"
#include "support/graph_check.h"
#include "support/random.h"

enum { MAX_VALUES = 64, GRAPHS = 400 };

typedef struct maker {
    wf_graph_t *graph;
    wf_dtype_t dtype;
    wf_random_t random;
    wf_value_id values[MAX_VALUES]; /* what may be read */
    size_t count;
} maker_t;

static uint64_t below(maker_t *self, uint64_t limit)
{
    return wf_random_below(&self->random, limit);
}

static void keep(maker_t *self, wf_value_id value)
{
    if (self->count < MAX_VALUES) {
        self->values[self->count++] = value;
    } else {
        self->values[below(self, MAX_VALUES)] = value;
    }
}

static wf_value_id node(maker_t *self, wf_op_t op, const wf_value_id *inputs, size_t input_count,
                        const wf_attr_t *attrs, size_t attr_count)
{
    wf_value_id value = WF_NO_VALUE;
    wf_node_spec_t spec = {
        .op = op, .attrs = attrs, .attr_count = attr_count, .inputs = inputs, .input_count = input_count};
    wf_assert_ok(wf_emit(self->graph, &spec, "v", &value));
    if (below(self, 12) == 0) {
        keep(self, value); /* a part that others may read too */
    }
    return value;
}

static wf_value_id unary(maker_t *self, wf_op_t op, wf_value_id x)
{
    return node(self, op, &x, 1, NULL, 0);
}

static wf_value_id binary(maker_t *self, wf_op_t op, wf_value_id a, wf_value_id b)
{
    wf_value_id inputs[2] = {a, b};
    bool swap = (op == WF_OP_ADD || op == WF_OP_MUL) && below(self, 2) == 0;
    if (swap) {
        inputs[0] = b;
        inputs[1] = a;
    }
    return node(self, op, inputs, 2, NULL, 0);
}

static wf_value_id constant(maker_t *self, uint32_t rank, const int64_t *dims, double low, double high)
{
    wf_type_t type = {.dtype = self->dtype, .rank = rank};
    wf_tensor_t tensor;
    wf_value_id value = WF_NO_VALUE;
    for (uint32_t i = 0; i < rank; i++) {
        type.dims[i] = dims[i];
    }
    wf_assert_ok(wf_emit_constant(self->graph, "c", &type, &tensor, &value));
    for (int64_t i = 0; i < wf_type_elems(&type); i++) {
        double unit = ((double)wf_random_float(&self->random) + 1.0) / 2.0;
        assert_true(wf_constant_set(&tensor, i, low + unit * (high - low)));
    }
    return value;
}

static wf_value_id scalar(maker_t *self, double value)
{
    wf_type_t type = {.dtype = self->dtype, .rank = (uint32_t)below(self, 2), .dims = {1}};
    wf_value_id id = WF_NO_VALUE;
    wf_assert_ok(wf_emit_doubles(self->graph, "s", &type, &value, &id));
    return id;
}

static wf_value_id pick(maker_t *self)
{
    return self->values[below(self, self->count)];
}

/* A value of the rank, or WF_NO_VALUE. */
static wf_value_id pick_rank(maker_t *self, uint32_t rank)
{
    for (int i = 0; i < 20; i++) {
        wf_value_id value = pick(self);
        if (wf_value_type(self->graph, value)->rank == rank) {
            return value;
        }
    }
    return WF_NO_VALUE;
}

static wf_type_t type_of(const maker_t *self, wf_value_id value)
{
    return *wf_value_type(self->graph, value);
}

/* ---- Pieces ---- */

static wf_value_id any_activation(maker_t *self, wf_value_id x)
{
    switch (below(self, 10)) {
    case 0: { /* Gelu */
        wf_value_id gate = binary(self, WF_OP_ADD,
                                  unary(self, WF_OP_ERF, binary(self, WF_OP_DIV, x, scalar(self, 1.4142135))),
                                  scalar(self, 1.0));
        return binary(self, WF_OP_MUL, binary(self, WF_OP_MUL, x, scalar(self, 0.5)), gate);
    }
    case 1: { /* Gelu by tanh */
        wf_value_id cube = binary(self, WF_OP_MUL, binary(self, WF_OP_MUL, x, x), x);
        wf_value_id sum = binary(self, WF_OP_ADD, x, binary(self, WF_OP_MUL, cube, scalar(self, 0.044715)));
        wf_value_id gate = unary(self, WF_OP_TANH, binary(self, WF_OP_MUL, sum, scalar(self, 0.7978845608)));
        gate = binary(self, WF_OP_ADD, gate, scalar(self, 1.0));
        return binary(self, WF_OP_MUL, binary(self, WF_OP_MUL, x, gate), scalar(self, 0.5));
    }
    case 2: { /* HardSwish, or a product of something else with its gate */
        wf_value_id clip_inputs[3] = {binary(self, WF_OP_ADD, x, scalar(self, 3.0)), scalar(self, 0.0),
                                      scalar(self, 6.0)};
        wf_value_id gate = node(self, WF_OP_CLIP, clip_inputs, 3, NULL, 0);
        wf_value_id six = scalar(self, 6.0);
        return below(self, 2) ? binary(self, WF_OP_DIV, binary(self, WF_OP_MUL, x, gate), six)
                              : binary(self, WF_OP_MUL, x, binary(self, WF_OP_DIV, gate, six));
    }
    case 3:
        return binary(self, WF_OP_MUL, x, unary(self, WF_OP_SIGMOID, x));
    case 4:
        return binary(self, WF_OP_MUL, x, unary(self, WF_OP_TANH, unary(self, WF_OP_SOFTPLUS, x)));
    case 5:
        return binary(self, WF_OP_MAX, x, scalar(self, 0.0));
    case 6:
        return unary(self, WF_OP_RELU, x);
    case 7:
        return unary(self, WF_OP_TANH, x);
    case 8:
        return unary(self, WF_OP_IDENTITY, x);
    default:
        return unary(self, WF_OP_SIGMOID, x);
    }
}

static wf_value_id mean(maker_t *self, wf_value_id x, int64_t axis)
{
    wf_attr_t attr = wf_attr_ints("axes", &axis, 1);
    return node(self, WF_OP_REDUCE_MEAN, &x, 1, &attr, 1);
}

/* Layer or RMS normalisation over the last dim, or over channels. */
static wf_value_id norm(maker_t *self, wf_value_id x)
{
    wf_type_t type = type_of(self, x);
    int64_t axis = type.rank >= 3 && below(self, 3) == 0 ? 1 : -1;
    bool rms = below(self, 3) == 0;
    wf_value_id d = rms ? x : binary(self, WF_OP_SUB, x, mean(self, x, axis));
    wf_value_id square =
        below(self, 2) ? binary(self, WF_OP_MUL, d, d) : binary(self, WF_OP_POW, d, scalar(self, 2.0));
    wf_value_id s =
        unary(self, WF_OP_SQRT, binary(self, WF_OP_ADD, mean(self, square, axis), scalar(self, 0.01)));
    wf_value_id n = below(self, 2) ? binary(self, WF_OP_DIV, d, s)
                                   : binary(self, WF_OP_MUL, d, unary(self, WF_OP_RECIPROCAL, s));
    int64_t dims[3] = {1, 1, type.dims[type.rank - 1]};
    n = binary(self, WF_OP_MUL, n, constant(self, 1, dims + 2, 0.5, 1.5));
    return below(self, 2) ? binary(self, WF_OP_ADD, n, constant(self, 3, dims, -1.0, 1.0)) : n;
}

/* Scale or bias per channel (dim 1 of images, the last of others), or along a wrong dim now and then. */
static wf_value_id affine(maker_t *self, wf_value_id x)
{
    wf_type_t type = type_of(self, x);
    int64_t dims[WF_MAX_RANK];
    uint32_t axis = below(self, 6) == 0 ? (uint32_t)below(self, type.rank)
                    : type.rank == 4    ? 1
                                        : type.rank - 1;
    for (uint32_t i = 0; i < type.rank; i++) {
        dims[i] = i == axis ? type.dims[i] : 1;
    }
    static const wf_op_t ops[] = {WF_OP_MUL, WF_OP_ADD, WF_OP_SUB, WF_OP_DIV};
    return binary(self, ops[below(self, 4)], x, constant(self, type.rank, dims, 0.5, 1.5));
}

static wf_value_id batch_norm(maker_t *self, wf_value_id x)
{
    wf_type_t type = type_of(self, x);
    int64_t channels = type.dims[1];
    wf_value_id inputs[5] = {x};
    for (int i = 1; i < 5; i++) {
        inputs[i] = constant(self, 1, &channels, i == 1 || i == 4 ? 0.5 : -1.0, 1.5);
    }
    return node(self, WF_OP_BATCH_NORMALIZATION, inputs, 5, NULL, 0);
}

static wf_value_id conv(maker_t *self, wf_value_id x)
{
    wf_type_t type = type_of(self, x);
    int64_t c = type.dims[1];
    int64_t m = below(self, 2) ? c : 1 + (int64_t)below(self, 4);
    int64_t k = type.dims[2] >= 3 && type.dims[3] >= 3 && below(self, 2) ? 3 : 1;
    bool depthwise = m == c && below(self, 3) == 0;
    bool same = k == 3 && below(self, 2);
    bool padded = !same && below(self, 3) == 0;
    if (padded) {
        int64_t pads[8] = {0, 0, 1, 0, 0, 0, 0, 2};
        wf_type_t pads_type = {.dtype = WF_DTYPE_I64, .rank = 1, .dims = {8}};
        wf_tensor_t tensor;
        wf_value_id inputs[2] = {x, WF_NO_VALUE};
        wf_assert_ok(wf_emit_constant(self->graph, "pads", &pads_type, &tensor, &inputs[1]));
        memcpy(tensor.data, pads, sizeof pads);
        x = node(self, WF_OP_PAD, inputs, 2, NULL, 0);
    }
    int64_t w_dims[4] = {m, depthwise ? 1 : c, k, k};
    wf_value_id inputs[3] = {x, constant(self, 4, w_dims, -0.5, 0.5), WF_NO_VALUE};
    bool biased = below(self, 2);
    if (biased) {
        inputs[2] = constant(self, 1, &m, -1.0, 1.0);
    }
    int64_t pads[4] = {1, 1, 1, 1};
    wf_attr_t attrs[2] = {wf_attr_int("group", depthwise ? c : 1), wf_attr_ints("pads", pads, 4)};
    return node(self, WF_OP_CONV, inputs, biased ? 3 : 2, attrs, same ? 2 : 1);
}

static wf_value_id conv_transpose(maker_t *self, wf_value_id x)
{
    wf_type_t type = type_of(self, x);
    int64_t w_dims[4] = {type.dims[1], 1 + (int64_t)below(self, 3), 2, 2};
    if (type.dims[2] * type.dims[3] > 32) {
        return x;
    }
    wf_value_id inputs[2] = {x, constant(self, 4, w_dims, -0.5, 0.5)};
    return node(self, WF_OP_CONV_TRANSPOSE, inputs, 2, NULL, 0);
}

static wf_value_id product(maker_t *self, wf_value_id x)
{
    wf_type_t type = type_of(self, x);
    int64_t k = type.dims[type.rank - 1];
    int64_t n = 1 + (int64_t)below(self, 4);
    bool gemm = type.rank == 2 && below(self, 2);
    bool turned = gemm && below(self, 2);
    int64_t w_dims[2] = {turned ? n : k, turned ? k : n};
    wf_value_id inputs[3] = {x, constant(self, 2, w_dims, -0.5, 0.5), WF_NO_VALUE};
    wf_attr_t attrs[3] = {wf_attr_int("transB", turned), wf_attr_float("alpha", below(self, 2) ? 1.0 : 0.75),
                          wf_attr_float("beta", below(self, 2) ? 1.0 : 0.5)};
    if (gemm) {
        int64_t rows = type.dims[0];
        int64_t c_dims[2] = {below(self, 4) ? 1 : rows, n};
        inputs[2] = constant(self, below(self, 2) && c_dims[0] == 1 ? 1 : 2,
                             c_dims[0] == 1 && below(self, 1) ? c_dims + 1 : c_dims, -1.0, 1.0);
        return node(self, WF_OP_GEMM, inputs, 3, attrs, 3);
    }
    wf_value_id y = node(self, WF_OP_MATMUL, inputs, 2, NULL, 0);
    return below(self, 3) ? binary(self, WF_OP_ADD, y, constant(self, 1, &n, -1.0, 1.0)) : y;
}

static wf_value_id transposed(maker_t *self, wf_value_id x, const int64_t *perm)
{
    wf_attr_t attr = wf_attr_ints("perm", perm, type_of(self, x).rank);
    return node(self, WF_OP_TRANSPOSE, &x, 1, &attr, 1);
}

static wf_value_id any_transpose(maker_t *self, wf_value_id x)
{
    int64_t perm[WF_MAX_RANK];
    uint32_t rank = type_of(self, x).rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t j = (uint32_t)below(self, i + 1);
        perm[i] = perm[j];
        perm[j] = i;
    }
    return transposed(self, x, perm);
}

/* [B,S,H*d] to heads, attention over them, and back. */
static wf_value_id attention(maker_t *self, wf_value_id x)
{
    wf_type_t type = type_of(self, x);
    int64_t width = 4;
    int64_t w_dims[2] = {type.dims[2], width};
    int64_t heads_dims[4] = {type.dims[0], type.dims[1], 2, 2};
    int64_t flat_dims[3] = {type.dims[0], type.dims[1], width};
    static const int64_t to_heads[4] = {0, 2, 1, 3}, to_keys[4] = {0, 2, 3, 1}, turned[4] = {0, 1, 3, 2};
    wf_value_id parts[3];
    for (int i = 0; i < 3; i++) {
        wf_value_id w = constant(self, 2, w_dims, -0.7, 0.7);
        wf_value_id y = binary(self, WF_OP_ADD, binary(self, WF_OP_MATMUL, x, w),
                               constant(self, 1, w_dims + 1, -1.0, 1.0));
        wf_type_t shape = {.dtype = WF_DTYPE_I64, .rank = 1, .dims = {4}};
        wf_tensor_t tensor;
        wf_value_id inputs[2] = {y, WF_NO_VALUE};
        wf_assert_ok(wf_emit_constant(self->graph, "shape", &shape, &tensor, &inputs[1]));
        memcpy(tensor.data, heads_dims, sizeof heads_dims);
        parts[i] = node(self, WF_OP_RESHAPE, inputs, 2, NULL, 0);
        bool keys = i == 1 && below(self, 2);
        parts[i] = transposed(self, parts[i], keys ? to_keys : to_heads);
        if (i == 1 && !keys) {
            parts[i] = transposed(self, parts[i], turned);
        }
    }
    if (below(self, 2)) {
        parts[0] = binary(self, WF_OP_MUL, parts[0], scalar(self, 0.7071068));
    }
    wf_value_id scores = binary(self, WF_OP_MATMUL, parts[0], parts[1]);
    if (below(self, 2)) {
        scores = binary(self, WF_OP_DIV, scores, scalar(self, 1.4142135));
    }
    if (below(self, 2)) {
        int64_t mask_dims[4] = {1, 1, type.dims[1], type.dims[1]};
        scores = binary(self, WF_OP_ADD, scores, constant(self, 4, mask_dims, -2.0, 0.0));
    }
    wf_value_id context = binary(self, WF_OP_MATMUL, unary(self, WF_OP_SOFTMAX, scores), parts[2]);
    context = transposed(self, context, to_heads);
    wf_type_t shape = {.dtype = WF_DTYPE_I64, .rank = 1, .dims = {3}};
    wf_tensor_t tensor;
    wf_value_id inputs[2] = {context, WF_NO_VALUE};
    wf_assert_ok(wf_emit_constant(self->graph, "shape", &shape, &tensor, &inputs[1]));
    memcpy(tensor.data, flat_dims, sizeof flat_dims);
    return node(self, WF_OP_RESHAPE, inputs, 2, NULL, 0);
}

static wf_value_id squeeze_excite(maker_t *self, wf_value_id x)
{
    wf_type_t type = type_of(self, x);
    int64_t c = type.dims[1];
    int64_t squeezed = 2;
    int64_t first[4] = {squeezed, c, 1, 1};
    int64_t second[4] = {c, squeezed, 1, 1};
    int64_t axes[2] = {2, 3};
    wf_attr_t attr = wf_attr_ints("axes", axes, 2);
    wf_value_id a[3] = {node(self, WF_OP_REDUCE_MEAN, &x, 1, &attr, 1), constant(self, 4, first, -1.0, 1.0),
                        constant(self, 1, &squeezed, -1.0, 1.0)};
    wf_value_id b[3] = {any_activation(self, node(self, WF_OP_CONV, a, 3, NULL, 0)),
                        constant(self, 4, second, -1.0, 1.0), WF_NO_VALUE};
    return binary(self, WF_OP_MUL, x, unary(self, WF_OP_SIGMOID, node(self, WF_OP_CONV, b, 2, NULL, 0)));
}

static wf_value_id pooled(maker_t *self, wf_value_id x)
{
    int64_t kernel[2] = {2, 2};
    int64_t strides[2] = {1 + (int64_t)below(self, 2), 1};
    wf_attr_t attrs[2] = {wf_attr_ints("kernel_shape", kernel, 2), wf_attr_ints("strides", strides, 2)};
    wf_type_t type = type_of(self, x);
    if (type.dims[2] < 2 || type.dims[3] < 2) {
        return x;
    }
    return node(self, below(self, 2) ? WF_OP_MAX_POOL : WF_OP_AVERAGE_POOL, &x, 1, attrs, 2);
}

static wf_value_id concatenated(maker_t *self, wf_value_id x)
{
    uint32_t axis = (uint32_t)below(self, type_of(self, x).rank);
    wf_value_id inputs[2] = {x, any_activation(self, x)};
    wf_attr_t attr = wf_attr_int("axis", (int64_t)axis - (below(self, 2) ? type_of(self, x).rank : 0));
    return wf_type_elems(wf_value_type(self->graph, x)) > 400 ? x
                                                              : node(self, WF_OP_CONCAT, inputs, 2, &attr, 1);
}

static wf_value_id split(maker_t *self, wf_value_id x)
{
    wf_type_t type = type_of(self, x);
    uint32_t axis = (uint32_t)below(self, type.rank);
    if (type.dims[axis] < 2) {
        return x;
    }
    wf_value_id parts[2];
    wf_assert_ok(wf_graph_add_value(self->graph, "p", NULL, &parts[0]));
    wf_assert_ok(wf_graph_add_value(self->graph, "p", NULL, &parts[1]));
    wf_attr_t attrs[2] = {wf_attr_int("axis", axis), wf_attr_int("num_outputs", 2)};
    wf_node_spec_t spec = {.op = WF_OP_SPLIT,
                           .attrs = attrs,
                           .attr_count = 2,
                           .inputs = &x,
                           .input_count = 1,
                           .outputs = parts,
                           .output_count = 2};
    wf_assert_ok(wf_graph_add_node(self->graph, &spec, NULL));
    keep(self, parts[1]);
    return parts[0];
}

static wf_value_id flattened(maker_t *self, wf_value_id x)
{
    wf_attr_t attr = wf_attr_int("axis", (int64_t)below(self, 3));
    return type_of(self, x).rank < 2 ? x : node(self, WF_OP_FLATTEN, &x, 1, &attr, 1);
}

/* The sum with a value of the same type when there is one. */
static wf_value_id residual(maker_t *self, wf_value_id x)
{
    for (int i = 0; i < 20; i++) {
        wf_value_id other = pick(self);
        if (other != x && wf_type_equal(wf_value_type(self->graph, x), wf_value_type(self->graph, other))) {
            return binary(self, WF_OP_ADD, x, other);
        }
    }
    return x;
}

typedef wf_value_id piece_fn(maker_t *self, wf_value_id x);
static const struct {
    piece_fn *make;
    uint32_t rank; /* 0: any of two and more */
} pieces[] = {
    {any_activation, 0}, {affine, 0},    {affine, 0},         {residual, 0},   {any_transpose, 0},
    {concatenated, 0},   {split, 0},     {norm, 0},           {product, 0},    {flattened, 0},
    {conv, 4},           {conv, 4},      {conv_transpose, 4}, {batch_norm, 4}, {squeeze_excite, 4},
    {pooled, 4},         {attention, 3}, {product, 2},        {norm, 3},       {any_transpose, 4},
};

/* ---- Graphs ---- */

static void add_inputs(maker_t *self)
{
    static const wf_type_t types[] = {
        {.dtype = WF_DTYPE_NONE, .rank = 4, .dims = {1, 3, 4, 5}},
        {.dtype = WF_DTYPE_NONE, .rank = 4, .dims = {1, 4, 5, 3}},
        {.dtype = WF_DTYPE_NONE, .rank = 3, .dims = {2, 3, 4}},
        {.dtype = WF_DTYPE_NONE, .rank = 2, .dims = {3, 4}},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        wf_value_id value = WF_NO_VALUE;
        wf_type_t type = types[i];
        type.dtype = self->dtype;
        wf_assert_ok(wf_graph_add_value(self->graph, "x", &type, &value));
        wf_assert_ok(wf_graph_add_input(self->graph, value));
        keep(self, value);
    }
}

/* The same graph for the same seed. */
static wf_graph_t *make(uint64_t seed, wf_dtype_t dtype)
{
    maker_t self = {.dtype = dtype, .random = {seed}};
    wf_assert_ok(wf_graph_create(wf_allocator_system(), &self.graph));
    add_inputs(&self);
    size_t steps = 3 + below(&self, 12);
    for (size_t i = 0; i < steps; i++) {
        size_t choice = below(&self, sizeof pieces / sizeof pieces[0]);
        /* Mostly go on from the newest value, so that chains arise. */
        wf_value_id x = below(&self, 3) ? self.values[self.count - 1] : pick(&self);
        if (pieces[choice].rank != 0 && type_of(&self, x).rank != pieces[choice].rank) {
            x = pick_rank(&self, pieces[choice].rank);
        }
        if (x == WF_NO_VALUE || type_of(&self, x).rank < 2) {
            continue;
        }
        wf_value_id y = pieces[choice].make(&self, x);
        if (y != x) {
            keep(&self, y);
        }
    }
    for (size_t i = 0; i < self.count; i++) {
        const wf_value_t *value = wf_graph_value(self.graph, self.values[i]);
        if (!value->is_output && !value->is_input && (value->use_count == 0 || below(&self, 8) == 0)) {
            wf_assert_ok(wf_graph_add_output(self.graph, self.values[i]));
        }
    }
    if (self.graph->outputs.count == 0) {
        wf_value_id y = unary(&self, WF_OP_RELU, self.values[0]);
        wf_assert_ok(wf_graph_add_output(self.graph, y));
    }
    wf_assert_ok(wf_graph_verify(self.graph));
    return self.graph;
}

static void check_results(const char *test, wf_dtype_t dtype, int graphs, double tolerance)
{
    wf_random_t random = wf_random_start(test, 20261201);
    size_t nodes_before = 0;
    size_t nodes_after = 0;
    for (int i = 0; i < graphs; i++) {
        uint64_t seed = wf_random_u64(&random);
        wf_graph_t *before = make(seed, dtype);
        wf_graph_t *after = make(seed, dtype);
        wf_pass_options_t options = {0};
        wf_assert_ok(wf_passes_run(after, &options));
        wf_assert_ok(wf_graph_verify(after));
        nodes_before += before->order.count;
        nodes_after += after->order.count;
        if (getenv("WF_TEST_PRINT") != NULL) {
            char *text = wf_test_graph_text(before);
            printf("graph %d, seed %llu\n%s", i, (unsigned long long)seed, text);
            free(text);
            text = wf_test_graph_text(after);
            printf("after:\n%s", text);
            free(text);
        }
        wf_test_same_results(before, after, seed, tolerance);
        wf_test_text_round_trip(before);
        wf_test_text_round_trip(after);
        wf_graph_destroy(before);
        wf_graph_destroy(after);
    }
    print_message("%d graphs, %zu nodes before, %zu after\n", graphs, nodes_before, nodes_after);
    assert_true(nodes_after < nodes_before);
}

static void test_results_stay(void **state)
{
    (void)state;
    check_results("f32", WF_DTYPE_F32, GRAPHS, 1e-5);
}

/* Nothing is rounded to f32 on the way. */
static void test_results_of_f64_stay(void **state)
{
    (void)state;
    check_results("f64", WF_DTYPE_F64, GRAPHS / 4, 1e-12);
}

/* Each pass by itself, on graphs with the parameters in place: a pass must not lean on those before it. */
static void test_each_pass_alone(void **state)
{
    wf_random_t random = wf_random_start("each_pass_alone", 7);
    size_t count;
    const wf_pass_t *passes = wf_passes(&count);
    (void)state;
    for (size_t p = 0; p < count; p++) {
        for (int i = 0; i < 20; i++) {
            uint64_t seed = wf_random_u64(&random);
            uint32_t changes;
            wf_graph_t *before = make(seed, WF_DTYPE_F32);
            wf_graph_t *after = make(seed, WF_DTYPE_F32);
            wf_assert_ok(wf_pass_find("params_to_attrs")->run(after, NULL, &changes));
            wf_assert_ok(passes[p].run(after, NULL, &changes));
            wf_assert_ok(wf_graph_verify(after));
            wf_test_same_results(before, after, seed, 1e-5);
            wf_graph_destroy(before);
            wf_graph_destroy(after);
        }
    }
}

/* The pipeline gives the same graph for the same graph. */
static void test_the_pipeline_is_deterministic(void **state)
{
    wf_random_t random = wf_random_start("deterministic", 8);
    (void)state;
    for (int i = 0; i < 20; i++) {
        uint64_t seed = wf_random_u64(&random);
        wf_hash_t hashes[2];
        for (int j = 0; j < 2; j++) {
            wf_pass_options_t options = {0};
            wf_graph_t *graph = make(seed, WF_DTYPE_F32);
            wf_assert_ok(wf_passes_run(graph, &options));
            wf_assert_ok(wf_graph_hash(graph, &hashes[j]));
            wf_graph_destroy(graph);
        }
        assert_true(wf_hash_equal(hashes[0], hashes[1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_stay),
        cmocka_unit_test(test_results_of_f64_stay),
        cmocka_unit_test(test_each_pass_alone),
        cmocka_unit_test(test_the_pipeline_is_deterministic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
