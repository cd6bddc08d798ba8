/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/rnn.h"

#include "backends/native/kernels/lanes.h"

enum {
    BLOCK_VECTORS_MAX = 8, /* sums of one row: two chains a multiply-add unit and cycle of latency */
    ROWS_MAX = 3,          /* rows that share a load of weights */
    CHUNK_VECTORS = 4      /* with several rows: 12 sums, 4 weights, of 16 registers */
};

/* Vectors of a block that begins at vector v: the last ones come one by one. */
WF_INLINE int64_t block_at(int64_t v, int64_t vectors, int64_t block)
{
    return v + block <= vectors ? block : 1;
}

void WF_KERNEL(wf_rnn_pack_f32)(const float *weights, int64_t gates, int64_t hidden, float *out_packed)
{
    int64_t vectors = (hidden + WF_VLEN - 1) / WF_VLEN, block = wf_rnn_block_vectors(gates), count;
    for (int64_t v = 0; v < vectors; v += count) {
        count = block_at(v, vectors, block);
        float *panel = out_packed + v * WF_VLEN * gates * hidden;
        int64_t lanes = count * WF_VLEN;
        for (int64_t g = 0; g < gates; g++) {
            for (int64_t lane = 0; lane < lanes; lane++) {
                int64_t unit = v * WF_VLEN + lane;
                const float *from = weights + (g * hidden + unit) * hidden;
                for (int64_t k = 0; k < hidden; k++)
                    panel[(k * gates + g) * lanes + lane] = unit < hidden ? from[k] : 0;
            }
        }
    }
}

/* ---- products ---- */

/* sums[row][vector] = sum over k of h[row][k] * panel[k][vector]. */
typedef void dot_fn(const float *const *h, int64_t depth, const float *panel, int64_t stride, float *sums);

WF_INLINE void dot_run(const int rows, const int vectors, const float *const *h, int64_t depth,
                       const float *WF_RESTRICT panel, int64_t stride, float *WF_RESTRICT sums)
{
    wf_vf acc[ROWS_MAX][BLOCK_VECTORS_MAX];
    const float *h0 = h[0], *h1 = h[rows > 1 ? 1 : 0], *h2 = h[rows > 2 ? 2 : 0];
    WF_UNROLL(3)
    for (int r = 0; r < rows; r++) {
        WF_UNROLL(8)
        for (int v = 0; v < vectors; v++)
            acc[r][v] = (wf_vf){0};
    }
    for (int64_t k = 0; k < depth; k++, panel += stride) {
        const wf_vf x0 = wf_v_set(h0[k]);
        const wf_vf x1 = wf_v_set(h1[k]);
        const wf_vf x2 = wf_v_set(h2[k]);
        WF_UNROLL(8)
        for (int v = 0; v < vectors; v++) {
            const wf_vf w = wf_v_load(panel + v * WF_VLEN);
            wf_v_fma(&acc[0][v], x0, w);
            if (rows > 1)
                wf_v_fma(&acc[1][v], x1, w);
            if (rows > 2)
                wf_v_fma(&acc[2][v], x2, w);
        }
    }
    WF_UNROLL(3)
    for (int r = 0; r < rows; r++) {
        WF_UNROLL(8)
        for (int v = 0; v < vectors; v++)
            wf_v_store(sums + (r * BLOCK_VECTORS_MAX + v) * WF_VLEN, acc[r][v]);
    }
}

#define DOT_ALL(X) \
    X(1, 1)        \
    X(1, 2) X(1, 3) X(1, 4) X(1, 6) X(1, 8) X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(3, 1) X(3, 2) X(3, 3) X(3, 4)
#define DOT_DEFINE(rows, vectors)                                                                \
    static void dot_##rows##x##vectors(const float *const *h, int64_t depth, const float *panel, \
                                       int64_t stride, float *sums)                              \
    {                                                                                            \
        dot_run(rows, vectors, h, depth, panel, stride, sums);                                   \
    }
DOT_ALL(DOT_DEFINE)
#define DOT_ENTRY(rows, vectors) [rows][vectors] = dot_##rows##x##vectors,
static dot_fn *const dots[ROWS_MAX + 1][BLOCK_VECTORS_MAX + 1] = {DOT_ALL(DOT_ENTRY)};

/* ---- cells ---- */

WF_INLINE wf_vf activate(wf_rnn_act act, float clip, wf_vf x)
{
    if (clip > 0)
        x = wf_v_max(wf_v_min(x, wf_v_set(clip)), wf_v_set(-clip));
    switch (act) {
    case WF_RNN_SIGMOID:
        return wf_v_sigmoid(x);
    case WF_RNN_TANH:
        return wf_v_tanh(x);
    case WF_RNN_RELU:
        return wf_v_max(x, wf_v_set(0.0f));
    case WF_RNN_SOFTSIGN:
        return x / (1.0f + wf_v_abs(x));
    case WF_RNN_SOFTPLUS:
        return wf_v_softplus(x);
    }
    return x;
}

/* One vector of units of one row. */
typedef struct cell_at {
    const wf_rnn_args *a;
    const wf_rnn_row *row;
    const float *sums;
    int64_t sum_stride; /* floats from gate to gate */
    int64_t unit;
    size_t count; /* units that exist */
} cell_at_t;

WF_INLINE wf_vf product(const cell_at_t *at, int64_t gate)
{
    return wf_v_load(at->sums + gate * at->sum_stride);
}

WF_INLINE wf_vf input(const cell_at_t *at, int64_t gate)
{
    return wf_v_load_n(at->row->x + gate * at->a->hidden + at->unit, at->count);
}

WF_INLINE wf_vf peephole(const cell_at_t *at, int64_t which, wf_vf c)
{
    return c * wf_v_load_n(at->a->peepholes + which * at->a->hidden + at->unit, at->count);
}

WF_INLINE void finish(const cell_at_t *at, wf_vf h)
{
    wf_v_store(at->row->h_next + at->unit, h);
    if (at->row->y != NULL)
        wf_v_store_n(at->row->y + at->unit, h, at->count);
}

WF_INLINE void cell_lstm(const cell_at_t *at)
{
    const wf_rnn_args *a = at->a;
    wf_vf c = wf_v_load(at->row->c + at->unit);
    wf_vf i = product(at, 0) + input(at, 0), o = product(at, 1) + input(at, 1);
    wf_vf f = product(at, 2) + input(at, 2), g = product(at, 3) + input(at, 3);
    if (a->peepholes != NULL) {
        i += peephole(at, 0, c);
        f += peephole(at, 2, c);
    }
    i = activate(a->acts[0], a->clip, i);
    f = a->input_forget ? 1.0f - i : activate(a->acts[0], a->clip, f);
    c = f * c + i * activate(a->acts[1], a->clip, g);
    wf_v_store(at->row->c + at->unit, c);
    if (a->peepholes != NULL)
        o += peephole(at, 1, c);
    o = activate(a->acts[0], a->clip, o);
    finish(at, o * activate(a->acts[2], 0, c));
}

WF_INLINE wf_vf gru_blend(wf_vf z, wf_vf n, wf_vf h)
{
    return (1.0f - z) * n + z * h;
}

WF_INLINE void cell_gru_linear(const cell_at_t *at)
{
    const wf_rnn_args *a = at->a;
    const wf_vf z = activate(a->acts[0], a->clip, product(at, 0) + input(at, 0));
    const wf_vf r = activate(a->acts[0], a->clip, product(at, 1) + input(at, 1));
    wf_vf p = product(at, 2);
    if (a->bias != NULL)
        p += wf_v_load_n(a->bias + at->unit, at->count);
    const wf_vf n = activate(a->acts[1], a->clip, input(at, 2) + r * p);
    finish(at, gru_blend(z, n, wf_v_load(at->row->h + at->unit)));
}

WF_INLINE void cell_gru_gates(const cell_at_t *at)
{
    const wf_rnn_args *a = at->a;
    const wf_vf r = activate(a->acts[0], a->clip, product(at, 1) + input(at, 1));
    wf_v_store(at->row->z + at->unit, activate(a->acts[0], a->clip, product(at, 0) + input(at, 0)));
    wf_v_store(at->row->rh + at->unit, r * wf_v_load(at->row->h + at->unit));
}

WF_INLINE void cell_gru_update(const cell_at_t *at)
{
    const wf_rnn_args *a = at->a;
    const wf_vf n = activate(a->acts[1], a->clip, input(at, 2) + product(at, 0));
    finish(at, gru_blend(wf_v_load(at->row->z + at->unit), n, wf_v_load(at->row->h + at->unit)));
}

static void cell(const cell_at_t *at)
{
    switch (at->a->cell) {
    case WF_RNN_LSTM:
        cell_lstm(at);
        break;
    case WF_RNN_GRU_LINEAR:
        cell_gru_linear(at);
        break;
    case WF_RNN_GRU_GATES:
        cell_gru_gates(at);
        break;
    case WF_RNN_GRU_UPDATE:
        cell_gru_update(at);
        break;
    case WF_RNN_PLAIN:
        finish(at, activate(at->a->acts[0], at->a->clip, product(at, 0) + input(at, 0)));
        break;
    }
}

/* ---- a step ---- */

/* All sums of a block, [row][vector]. */
static void block_sums(const wf_rnn_args *a, const wf_rnn_row *rows, int64_t row_count, const float *panel,
                       int64_t vectors, float *sums)
{
    const float *h[ROWS_MAX] = {NULL};
    for (int64_t r = 0; r < row_count; r++)
        h[r] = a->cell == WF_RNN_GRU_UPDATE ? rows[r].rh : rows[r].h;
    int64_t chunk = row_count == 1 ? vectors : vectors == 6 ? 3 : CHUNK_VECTORS;
    for (int64_t v = 0; v < vectors; v += chunk) {
        int64_t count = vectors - v < chunk ? vectors - v : chunk;
        dots[row_count][count](h, a->hidden, panel + v * WF_VLEN, vectors * WF_VLEN, sums + v * WF_VLEN);
    }
}

void WF_KERNEL(wf_rnn_step_f32)(const wf_rnn_args *a, const wf_rnn_row *rows, int64_t row_count,
                                int64_t begin, int64_t end)
{
    int64_t gates = wf_rnn_gates(a->cell), block = wf_rnn_block_vectors(gates), hidden = a->hidden, count;
    int64_t vectors = (hidden + WF_VLEN - 1) / WF_VLEN;
    for (int64_t v = begin; v < end; v += count) {
        count = block_at(v, vectors, block);
        const float *panel = a->weights + v * WF_VLEN * gates * hidden;
        int64_t tile;
        for (int64_t first = 0; first < row_count; first += tile) {
            float sums[ROWS_MAX * BLOCK_VECTORS_MAX * WF_VLEN];
            tile = row_count - first < ROWS_MAX ? row_count - first : ROWS_MAX;
            block_sums(a, rows + first, tile, panel, gates * count, sums);
            for (int64_t r = 0; r < tile; r++) {
                for (int64_t i = 0; i < count; i++) {
                    cell_at_t at = {.a = a,
                                    .row = &rows[first + r],
                                    .sums = sums + (r * BLOCK_VECTORS_MAX + i) * WF_VLEN,
                                    .sum_stride = count * WF_VLEN,
                                    .unit = (v + i) * WF_VLEN};
                    int64_t left = hidden - at.unit;
                    at.count = left < WF_VLEN ? (size_t)left : WF_VLEN;
                    cell(&at);
                }
            }
        }
    }
}
