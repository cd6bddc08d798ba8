/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loops of gemm.c: a tile of rows x vectors of C held in registers.
 *
 * Accumulators are array elements with constant subscripts, never a loop variable, so that both compilers
 * keep them in registers; rows are spelled out by WF_TILE_ROWS and those beyond the tile's height fold away.
 */
#ifndef WF_NATIVE_GEMM_TILE_H
#define WF_NATIVE_GEMM_TILE_H

#include "backends/native/kernels/simd.h"

/* A column of `count` tiles, one below the other. */
typedef struct wf_gemm_tile {
    const float *const *rows; /* rows[t * tap_stride + r]: row r of tap t */
    ptrdiff_t tap_stride;
    int64_t count;
    int64_t taps, k0, k; /* elements k0 .. k0 + k of every tap; taps and k >= 1 */
    const float *b;      /* row i of the panel at b + i * b_stride, over all taps */
    ptrdiff_t b_stride;
    const float *partial; /* sums of earlier passes, partial_stride apart; NULL: start from zero */
    ptrdiff_t partial_stride;
    float *out;
    ptrdiff_t out_stride;
    const float *bias;     /* NULL: none */
    const float *residual; /* NULL: none */
    ptrdiff_t residual_stride;
    int limit; /* 0: none; 1: lo, as relu needs it; 2: lo and hi */
    float lo, hi;
    const char *prefetch; /* cache lines to ask for, prefetch_bytes from here per tile */
    ptrdiff_t prefetch_bytes;
    int prefetch_l1;
} wf_gemm_tile;

typedef void wf_gemm_tile_fn(const wf_gemm_tile *t);

/* Height of the tile by its width in vectors: as many accumulators as leave room for a row of B and a
 * broadcast, and no more row pointers than there are general registers for. One vector wide, the loads of A
 * are the limit. */
#if WF_VLEN == 16
#define WF_TILE_HEIGHT1 12
#define WF_TILE_HEIGHT2 12
#define WF_TILE_HEIGHT3 8
#elif WF_VLEN == 8
#define WF_TILE_HEIGHT1 8
#define WF_TILE_HEIGHT2 6
#define WF_TILE_HEIGHT3 4
#else
#define WF_TILE_HEIGHT1 8
#define WF_TILE_HEIGHT2 4
#define WF_TILE_HEIGHT3 3
#endif
#define WF_TILE_HEIGHT_MAX 12
#define WF_TILE_VECTORS_MAX 3

#define WF_TILE_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define WF_TILE_ACC(r, v) acc[(r)*WF_TILE_VECTORS_MAX + (v)]

/* One macro per action on an accumulator; WF_TILE_EACH applies it to all of the tile. */
#define WF_TILE_EACH1(r, v, action) \
    if (height > r && vectors > v)  \
        action(r, v);
#define WF_TILE_EACH3(r, action) \
    WF_TILE_EACH1(r, 0, action) WF_TILE_EACH1(r, 1, action) WF_TILE_EACH1(r, 2, action)
#define WF_TILE_EACH(action)  \
    WF_TILE_EACH3(0, action)  \
    WF_TILE_EACH3(1, action)  \
    WF_TILE_EACH3(2, action)  \
    WF_TILE_EACH3(3, action)  \
    WF_TILE_EACH3(4, action)  \
    WF_TILE_EACH3(5, action)  \
    WF_TILE_EACH3(6, action)  \
    WF_TILE_EACH3(7, action)  \
    WF_TILE_EACH3(8, action)  \
    WF_TILE_EACH3(9, action)  \
    WF_TILE_EACH3(10, action) \
    WF_TILE_EACH3(11, action)

#define WF_TILE_ZERO(r, v)      \
    WF_TILE_ACC(r, v) = (wf_vf) \
    {                           \
        0                       \
    }
#define WF_TILE_LOAD(r, v) WF_TILE_ACC(r, v) = wf_v_load(partial + r * partial_stride + v * WF_VLEN)
#define WF_TILE_BIAS(r, v) WF_TILE_ACC(r, v) += c##v
#define WF_TILE_RESIDUAL(r, v) WF_TILE_ACC(r, v) += wf_v_load(residual + r * residual_stride + v * WF_VLEN)
#define WF_TILE_LOW(r, v) WF_TILE_ACC(r, v) = wf_v_max(WF_TILE_ACC(r, v), lo)
#define WF_TILE_HIGH(r, v) WF_TILE_ACC(r, v) = wf_v_min(WF_TILE_ACC(r, v), hi)
#define WF_TILE_STORE(r, v) wf_v_store(out + r * out_stride + v * WF_VLEN, WF_TILE_ACC(r, v))

#define WF_TILE_POINTER(r) \
    if (height > r)        \
        a[r] = tap[r] + k0;
#define WF_TILE_ADVANCE(r) \
    if (height > r)        \
        a[r] += wf_tile_steps;
#define WF_TILE_ROW(r)                                \
    if (height > r) {                                 \
        const wf_vf x = wf_v_set(a[r][wf_tile_step]); \
        wf_v_fma(&WF_TILE_ACC(r, 0), x, b0);          \
        if (vectors > 1)                              \
            wf_v_fma(&WF_TILE_ACC(r, 1), x, b1);      \
        if (vectors > 2)                              \
            wf_v_fma(&WF_TILE_ACC(r, 2), x, b2);      \
    }
#define WF_TILE_STEP(step)                                              \
    {                                                                   \
        enum { wf_tile_step = step };                                   \
        const wf_vf b0 = wf_v_load(b);                                  \
        const wf_vf b1 = vectors > 1 ? wf_v_load(b + WF_VLEN) : b0;     \
        const wf_vf b2 = vectors > 2 ? wf_v_load(b + 2 * WF_VLEN) : b0; \
        b += b_stride;                                                  \
        WF_TILE_ROWS(WF_TILE_ROW)                                       \
    }

WF_INLINE void wf_gemm_tile_run(const int height, const int vectors, const wf_gemm_tile *t)
{
    /* In locals, as the compiler must suppose that a vector store may change *t. */
    const float *const *rows = t->rows;
    const ptrdiff_t tap_stride = t->tap_stride;
    const int64_t k0 = t->k0;
    const int64_t k_fours = t->k / 4;
    const int64_t k_rest = t->k % 4;
    const ptrdiff_t b_stride = t->b_stride;
    const float *partial = t->partial;
    const ptrdiff_t partial_stride = t->partial_stride;
    const float *residual = t->residual;
    const ptrdiff_t residual_stride = t->residual_stride;
    const char *prefetch = t->prefetch;
    float *out = t->out;
    const ptrdiff_t out_stride = t->out_stride;

    for (int64_t count = t->count; count > 0; count--) {
        wf_vf acc[WF_TILE_HEIGHT_MAX * WF_TILE_VECTORS_MAX];
        if (t->prefetch_bytes) {
            for (const char *end = prefetch + t->prefetch_bytes; prefetch < end; prefetch += 64) {
                if (t->prefetch_l1)
                    __builtin_prefetch(prefetch, 0, 3);
                else
                    __builtin_prefetch(prefetch, 0, 2);
            }
        }
        if (partial) {
            WF_TILE_EACH(WF_TILE_LOAD)
            partial += height * partial_stride;
        } else {
            WF_TILE_EACH(WF_TILE_ZERO)
        }

        const float *b = t->b;
        const float *const *tap = rows;
        for (int64_t taps = t->taps; taps > 0; taps--) {
            const float *a[WF_TILE_HEIGHT_MAX];
            WF_TILE_ROWS(WF_TILE_POINTER)
            tap += tap_stride;
#if WF_VLEN < 16 || \
    defined(__AVX512F__) /* 16 lanes on a smaller machine are for tests, where compile time counts */
            for (int64_t i = k_fours; i > 0; i--) {
                enum { wf_tile_steps = 4 };
                WF_TILE_STEP(0)
                WF_TILE_STEP(1)
                WF_TILE_STEP(2)
                WF_TILE_STEP(3)
                WF_TILE_ROWS(WF_TILE_ADVANCE)
            }
            for (int64_t i = k_rest; i > 0; i--) {
#else
            for (int64_t i = 4 * k_fours + k_rest; i > 0; i--) {
#endif
                enum { wf_tile_steps = 1 };
                WF_TILE_STEP(0)
                WF_TILE_ROWS(WF_TILE_ADVANCE)
            }
        }
        rows += height;

        if (t->bias) {
            const wf_vf c0 = wf_v_load(t->bias);
            const wf_vf c1 = vectors > 1 ? wf_v_load(t->bias + WF_VLEN) : c0;
            const wf_vf c2 = vectors > 2 ? wf_v_load(t->bias + 2 * WF_VLEN) : c0;
            WF_TILE_EACH(WF_TILE_BIAS)
        }
        if (residual) {
            WF_TILE_EACH(WF_TILE_RESIDUAL)
            residual += height * residual_stride;
        }
        if (t->limit) {
            const wf_vf lo = wf_v_set(t->lo);
            WF_TILE_EACH(WF_TILE_LOW)
            if (t->limit > 1) {
                const wf_vf hi = wf_v_set(t->hi);
                WF_TILE_EACH(WF_TILE_HIGH)
            }
        }
        WF_TILE_EACH(WF_TILE_STORE)
        out += height * out_stride;
    }
}

/* X(height, vectors) of the tiles of this tier. */
#define WF_TILES_UPTO3(X, v) X(1, v) X(2, v) X(3, v)
#define WF_TILES_UPTO4(X, v) WF_TILES_UPTO3(X, v) X(4, v)
#define WF_TILES_UPTO6(X, v) WF_TILES_UPTO4(X, v) X(5, v) X(6, v)
#define WF_TILES_UPTO8(X, v) WF_TILES_UPTO6(X, v) X(7, v) X(8, v)
#define WF_TILES_UPTO12(X, v) WF_TILES_UPTO8(X, v) X(9, v) X(10, v) X(11, v) X(12, v)
#define WF_TILES_CAT(a, b) a##b
#define WF_TILES_CAT2(a, b) WF_TILES_CAT(a, b)
#define WF_TILES_OF(X, height, v) WF_TILES_CAT2(WF_TILES_UPTO, height)(X, v)
#define WF_TILES(X) \
    WF_TILES_OF(X, WF_TILE_HEIGHT1, 1) WF_TILES_OF(X, WF_TILE_HEIGHT2, 2) WF_TILES_OF(X, WF_TILE_HEIGHT3, 3)

#define WF_TILE_DEFINE(height, vectors)                                  \
    static void wf_gemm_tile_##height##x##vectors(const wf_gemm_tile *t) \
    {                                                                    \
        wf_gemm_tile_run(height, vectors, t);                            \
    }
WF_TILES(WF_TILE_DEFINE)

#define WF_TILE_ENTRY(height, vectors) [vectors][height] = wf_gemm_tile_##height##x##vectors,
static wf_gemm_tile_fn *const wf_gemm_tiles[WF_TILE_VECTORS_MAX + 1][WF_TILE_HEIGHT_MAX + 1] = {
    WF_TILES(WF_TILE_ENTRY)};

/* ---- One row ----
 *
 * A tile of one row has as few independent sums as it has vectors, and waits for the multiply-add before. So
 * several panels are read at once; two to four streams of B also load faster from beyond L2 than one. */

#define WF_ROW_PANELS1 4
#define WF_ROW_PANELS2 4
#define WF_ROW_PANELS3 3
#define WF_ROW_PANELS_MAX 4

/* out[p * width + j] (width = vectors * WF_VLEN) += sums of row 0 of t over panel b[p]; starts from zero when
 * t->partial is NULL, from out otherwise. */
typedef void wf_gemm_row_fn(const wf_gemm_tile *t, const float *const *b, float *out);

WF_INLINE void wf_gemm_row_run(const int panels, const int vectors, const wf_gemm_tile *t,
                               const float *const *b, float *out)
{
    wf_vf acc[WF_ROW_PANELS_MAX * WF_TILE_VECTORS_MAX];
#define WF_ROW_ALL(X) \
    X(0, 0) X(0, 1) X(0, 2) X(1, 0) X(1, 1) X(1, 2) X(2, 0) X(2, 1) X(2, 2) X(3, 0) X(3, 1) X(3, 2)
#define WF_ROW_INIT(p, v)          \
    if (panels > p && vectors > v) \
        WF_TILE_ACC(p, v) = t->partial ? wf_v_load(out + (p * vectors + v) * WF_VLEN) : (wf_vf){0};
    WF_ROW_ALL(WF_ROW_INIT)
    const float *b0 = b[0];
    const float *b1 = b[panels > 1 ? 1 : 0];
    const float *b2 = b[panels > 2 ? 2 : 0];
    const float *b3 = b[panels > 3 ? 3 : 0];
    const float *const *rows = t->rows;
    for (int64_t taps = t->taps; taps > 0; taps--) {
        const float *a = *rows + t->k0;
        rows += t->tap_stride;
        for (int64_t k = 0; k < t->k; k++) {
            const wf_vf x = wf_v_set(a[k]);
#define WF_ROW_STEP(p, v)          \
    if (panels > p && vectors > v) \
        wf_v_fma(&WF_TILE_ACC(p, v), x, wf_v_load(b##p + v * WF_VLEN));
            WF_ROW_ALL(WF_ROW_STEP)
            b0 += t->b_stride;
            b1 += t->b_stride;
            b2 += t->b_stride;
            b3 += t->b_stride;
        }
    }
#define WF_ROW_STORE(p, v)         \
    if (panels > p && vectors > v) \
        wf_v_store(out + (p * vectors + v) * WF_VLEN, WF_TILE_ACC(p, v));
    WF_ROW_ALL(WF_ROW_STORE)
}

#define WF_ROW_DEFINE(panels, vectors)                                                                     \
    static void wf_gemm_row_##panels##x##vectors(const wf_gemm_tile *t, const float *const *b, float *out) \
    {                                                                                                      \
        wf_gemm_row_run(panels, vectors, t, b, out);                                                       \
    }
#define WF_ROWS_ALL(X) \
    WF_TILES_OF(X, WF_ROW_PANELS1, 1) WF_TILES_OF(X, WF_ROW_PANELS2, 2) WF_TILES_OF(X, WF_ROW_PANELS3, 3)
WF_ROWS_ALL(WF_ROW_DEFINE)

#define WF_ROW_ENTRY(panels, vectors) [vectors][panels] = wf_gemm_row_##panels##x##vectors,
static wf_gemm_row_fn *const wf_gemm_rows[WF_TILE_VECTORS_MAX + 1][WF_ROW_PANELS_MAX + 1] = {
    WF_ROWS_ALL(WF_ROW_ENTRY)};

#endif
