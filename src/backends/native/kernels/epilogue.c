/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise programs on a block of rows (epilogue.h).
 *
 * The block is cut into strips that stay in L1, and every strip goes through the whole program before the
 * next one. A stage is one loop, specialised by function at compile time. Reloading a strip from L1 costs
 * about a cycle per vector, so only the pairs that every network has are merged into one loop: a binary stage
 * with the clip or relu after it, and two additions (bias, residual) with a clip after them.
 */
#include <assert.h>
#include <math.h>

#include "backends/native/kernels/epilogue.h"
#include "backends/native/kernels/vmath.h"

wf_ep_run_f32_fn WF_KERNEL(wf_ep_run_f32);

enum {
    EP_STRIP_ELEMS = 2048 /* 8 KB of x and as much of a residual, in 32 KB of L1 */
};

/* One operand of a binary stage, ready for a strip: the value at (r, c) of the strip is data[r * row_stride +
 * c], or data[r * row_stride] for the whole row when splat. */
typedef struct ep_operand {
    const float *data;
    int64_t row_stride;
    int splat;
} ep_operand;

typedef struct ep_block {
    float *x;
    int64_t stride, rows, cols;
} ep_block;

WF_INLINE wf_vf ep_expm1(wf_vf x)
{
    return wf_v_select(x > wf_v_set(0.0f), wf_v_exp(x) - 1.0f, wf_v_expm1_nonpos(x));
}

/* NumPy's maximum and minimum, which ONNX follows: a NaN on either side wins. */
WF_INLINE wf_vf ep_max(wf_vf x, wf_vf y)
{
    return wf_v_select(y != y, y, wf_v_max(x, y));
}

WF_INLINE wf_vf ep_min(wf_vf x, wf_vf y)
{
    return wf_v_select(y != y, y, wf_v_min(x, y));
}

WF_INLINE wf_vf ep_pow(wf_vf x, wf_vf y)
{
    for (int i = 0; i < WF_VLEN; i++)
        x[i] = powf(x[i], y[i]);
    return x;
}

/* The stage function; fn is a constant at every call, so one case remains. */
WF_INLINE wf_vf ep_apply(wf_ep_fn fn, wf_vf x, wf_vf y, float a, float b)
{
    const wf_vf zero = {0};
    switch (fn) {
    case WF_EP_RELU:
        return wf_v_max(x, zero);
    case WF_EP_CLIP:
        return wf_v_min(wf_v_max(x, wf_v_set(a)), wf_v_set(b));
    case WF_EP_LEAKY_RELU:
        return wf_v_select(x < zero, x * a, x);
    case WF_EP_ELU:
        return wf_v_select(x < zero, a * wf_v_expm1_nonpos(x), x);
    case WF_EP_SELU:
        return b * wf_v_select(x < zero, a * wf_v_expm1_nonpos(x), x);
    case WF_EP_CELU:
        return wf_v_select(x < zero, a * ep_expm1(x / a), x);
    case WF_EP_THRESHOLDED_RELU:
        return wf_v_select(x > wf_v_set(a), x, zero);
    case WF_EP_SIGMOID:
        return wf_v_sigmoid(x);
    case WF_EP_HARD_SIGMOID:
        return wf_v_max(wf_v_min(x * a + b, wf_v_set(1.0f)), zero);
    case WF_EP_HARD_SWISH:
        return wf_v_hard_swish(x);
    case WF_EP_SWISH:
        return wf_v_swish(x, a);
    case WF_EP_MISH:
        return wf_v_mish(x);
    case WF_EP_TANH:
        return wf_v_tanh(x);
    case WF_EP_GELU_ERF:
        return wf_v_gelu_erf(x);
    case WF_EP_GELU_TANH:
        return wf_v_gelu_tanh(x);
    case WF_EP_ERF:
        return wf_v_erf(x);
    case WF_EP_EXP:
        return wf_v_exp(x);
    case WF_EP_LOG:
        return wf_v_log(x);
    case WF_EP_SQRT:
        return wf_v_sqrt(x);
    case WF_EP_RSQRT:
        return 1.0f / wf_v_sqrt(x);
    case WF_EP_RECIPROCAL:
        return 1.0f / x;
    case WF_EP_ABS:
        return wf_v_abs(x);
    case WF_EP_NEG:
        return -x;
    case WF_EP_SOFTPLUS:
        return wf_v_softplus(x);
    case WF_EP_SOFTSIGN:
        return x / (1.0f + wf_v_abs(x));
    case WF_EP_FLOOR:
        return wf_v_floor(x);
    case WF_EP_CEIL:
        return wf_v_ceil(x);
    case WF_EP_ROUND:
        return wf_v_round(x);
    case WF_EP_SQUARE:
        return x * x;
    case WF_EP_ADD:
        return x + y;
    case WF_EP_SUB:
        return x - y;
    case WF_EP_RSUB:
        return y - x;
    case WF_EP_MUL:
        return x * y;
    case WF_EP_DIV:
        return x / y;
    case WF_EP_RDIV:
        return y / x;
    case WF_EP_MAX:
        return ep_max(x, y);
    case WF_EP_MIN:
        return ep_min(x, y);
    case WF_EP_PRELU:
        return wf_v_select(x < zero, x * y, x);
    case WF_EP_POW:
        return ep_pow(x, y);
    case WF_EP_COUNT:
        break;
    }
    return x;
}

WF_INLINE void ep_loop_unary(wf_ep_fn fn, ep_block k, float a, float b)
{
    const wf_vf none = {0};
    for (int64_t r = 0; r < k.rows; r++) {
        float *x = k.x + r * k.stride;
        int64_t c = 0;
        for (; c + WF_VLEN <= k.cols; c += WF_VLEN)
            wf_v_store(x + c, ep_apply(fn, wf_v_load(x + c), none, a, b));
        if (c < k.cols) {
            const size_t n = (size_t)(k.cols - c);
            wf_v_store_part(x + c, ep_apply(fn, wf_v_load_part(x + c, n), none, a, b), n);
        }
    }
}

WF_INLINE void ep_loop_binary(wf_ep_fn fn, ep_block k, ep_operand o, float low, float high)
{
    const wf_vf lo = wf_v_set(low);
    const wf_vf hi = wf_v_set(high);
#define EP_BINARY(x, y) wf_v_min(wf_v_max(ep_apply(fn, x, y, 0.0f, 0.0f), lo), hi)
    for (int64_t r = 0; r < k.rows; r++) {
        float *x = k.x + r * k.stride;
        const float *y = o.data + r * o.row_stride;
        const size_t n = (size_t)(k.cols % WF_VLEN);
        const int64_t full = k.cols - (int64_t)n;
        if (o.splat) {
            const wf_vf v = wf_v_set(*y);
            for (int64_t c = 0; c < full; c += WF_VLEN)
                wf_v_store(x + c, EP_BINARY(wf_v_load(x + c), v));
            if (n)
                wf_v_store_part(x + full, EP_BINARY(wf_v_load_part(x + full, n), v), n);
        } else {
            for (int64_t c = 0; c < full; c += WF_VLEN)
                wf_v_store(x + c, EP_BINARY(wf_v_load(x + c), wf_v_load(y + c)));
            if (n)
                wf_v_store_part(x + full, EP_BINARY(wf_v_load_part(x + full, n), wf_v_load_part(y + full, n)),
                                n);
        }
    }
#undef EP_BINARY
}

/* x + o + p, neither a splat. */
static void ep_loop_add2(ep_block k, ep_operand o, ep_operand p, float low, float high)
{
    const wf_vf lo = wf_v_set(low);
    const wf_vf hi = wf_v_set(high);
    for (int64_t r = 0; r < k.rows; r++) {
        float *x = k.x + r * k.stride;
        const float *y = o.data + r * o.row_stride;
        const float *z = p.data + r * p.row_stride;
        int64_t c = 0;
        for (; c + WF_VLEN <= k.cols; c += WF_VLEN) {
            const wf_vf v = wf_v_load(x + c) + wf_v_load(y + c) + wf_v_load(z + c);
            wf_v_store(x + c, wf_v_min(wf_v_max(v, lo), hi));
        }
        if (c < k.cols) {
            const size_t n = (size_t)(k.cols - c);
            const wf_vf v = wf_v_load_part(x + c, n) + wf_v_load_part(y + c, n) + wf_v_load_part(z + c, n);
            wf_v_store_part(x + c, wf_v_min(wf_v_max(v, lo), hi), n);
        }
    }
}

/* One function per stage: all of them in one would need megabytes of stack without optimisation. */
typedef void ep_loop_fn(ep_block k, float a, float b, ep_operand o, float lo, float hi);

#define X(name, text, operands)                                                                \
    static void ep_loop_##name(ep_block k, float a, float b, ep_operand o, float lo, float hi) \
    {                                                                                          \
        if (operands)                                                                          \
            ep_loop_binary(WF_EP_##name, k, o, lo, hi);                                        \
        else                                                                                   \
            ep_loop_unary(WF_EP_##name, k, a, b);                                              \
    }
#include "backends/native/kernels/epilogue.def"
#undef X

static ep_loop_fn *const ep_loops[WF_EP_COUNT] = {
#define X(name, text, operands) ep_loop_##name,
#include "backends/native/kernels/epilogue.def"
#undef X
};

static const uint8_t ep_operand_counts[WF_EP_COUNT] = {
#define X(name, text, operands) operands,
#include "backends/native/kernels/epilogue.def"
#undef X
};

static ep_operand ep_resolve(const wf_ep_stage *s, int64_t row, int64_t col)
{
    switch ((wf_ep_operand)s->operand) {
    case WF_EP_COL:
        return (ep_operand){s->data + col, 0, 0};
    case WF_EP_ROW:
        return (ep_operand){s->data + row, 1, 1};
    case WF_EP_FULL:
        return (ep_operand){s->data + row * s->row_stride_elems + col, s->row_stride_elems, 0};
    case WF_EP_SCALAR:
    case WF_EP_NONE:
        break;
    }
    return (ep_operand){&s->a, 0, 1};
}

/* Takes a relu or clip at stages[0], if there is one, into the limits; returns how many stages that was. */
static size_t ep_take_clip(const wf_ep_stage *stages, size_t count, float *out_lo, float *out_hi)
{
    *out_lo = -INFINITY;
    *out_hi = INFINITY;
    if (count == 0 || (stages->fn != WF_EP_RELU && stages->fn != WF_EP_CLIP))
        return 0;
    *out_lo = stages->fn == WF_EP_CLIP ? stages->a : 0.0f;
    if (stages->fn == WF_EP_CLIP)
        *out_hi = stages->b;
    return 1;
}

/* Runs the leading stages that one loop can do; returns their number. */
static size_t ep_pass(const wf_ep_stage *s, size_t count, ep_block k, int64_t row, int64_t col)
{
    float lo = 0;
    float hi = 0;
    assert(s->fn < WF_EP_COUNT);
    if (!ep_operand_counts[s->fn]) {
        ep_loops[s->fn](k, s->a, s->b, (ep_operand){0}, lo, hi);
        return 1;
    }
    const ep_operand o = ep_resolve(s, row, col);
    if (count > 1 && s[0].fn == WF_EP_ADD && s[1].fn == WF_EP_ADD) {
        const ep_operand p = ep_resolve(s + 1, row, col);
        if (!o.splat && !p.splat) {
            const size_t clips = ep_take_clip(s + 2, count - 2, &lo, &hi);
            ep_loop_add2(k, o, p, lo, hi);
            return 2 + clips;
        }
    }
    const size_t clips = ep_take_clip(s + 1, count - 1, &lo, &hi);
    /* Squares are by far the most frequent powers; the others go lane by lane through the C library. */
    if (s->fn == WF_EP_POW && s->operand == WF_EP_SCALAR && s->a == 2.0f) {
        ep_loop_SQUARE(k, 0, 0, o, 0, 0);
        return 1;
    }
    ep_loops[s->fn](k, s->a, s->b, o, lo, hi);
    return 1 + clips;
}

/* Whether the block is one long row for every stage. */
static int ep_is_flat(const wf_ep_stage *stages, size_t count, ep_block k)
{
    if (k.stride != k.cols)
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (stages[i].operand == WF_EP_COL || stages[i].operand == WF_EP_ROW ||
            (stages[i].operand == WF_EP_FULL && stages[i].row_stride_elems != k.cols))
            return 0;
    }
    return 1;
}

void WF_KERNEL(wf_ep_run_f32)(const wf_ep_stage *stages, size_t stage_count, float *x, int64_t x_stride_elems,
                              int64_t row0, int64_t rows, int64_t col0, int64_t cols)
{
    assert(rows >= 0 && cols >= 0 && row0 >= 0 && col0 >= 0);
    assert(rows <= 1 || x_stride_elems >= cols);
    ep_block all = {x, x_stride_elems, rows, cols};
    if (rows == 0 || cols == 0 || stage_count == 0)
        return;
    /* With row_stride == cols, (row0, col0) is the same element as row 0, column row0 * cols + col0. */
    if (rows > 1 && ep_is_flat(stages, stage_count, all)) {
        all = (ep_block){x, rows * cols, 1, rows * cols};
        col0 += row0 * cols;
        row0 = 0;
    }
    const int64_t strip_cols = all.cols < EP_STRIP_ELEMS ? all.cols : EP_STRIP_ELEMS;
    const int64_t strip_rows = EP_STRIP_ELEMS / strip_cols;
    for (int64_t r = 0; r < all.rows; r += strip_rows) {
        for (int64_t c = 0; c < all.cols; c += strip_cols) {
            const ep_block k = {all.x + r * all.stride + c, all.stride,
                                all.rows - r < strip_rows ? all.rows - r : strip_rows,
                                all.cols - c < strip_cols ? all.cols - c : strip_cols};
            for (size_t i = 0; i < stage_count;)
                i += ep_pass(stages + i, stage_count - i, k, row0 + r, col0 + c);
        }
    }
}
