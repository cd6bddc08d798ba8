/* SPDX-License-Identifier: Apache-2.0 */
/* How gemm.c cuts a product: panels of B, blocks of rows and panels, passes over the depth, and the workspace
 * of an item. Pure arithmetic on a shape and a plan.
 */
#ifndef WF_NATIVE_GEMM_LAYOUT_H
#define WF_NATIVE_GEMM_LAYOUT_H

#include "backends/native/kernels/gemm.h"
#include "backends/native/kernels/gemm_tile.h"
#include "backends/native/kernels/ints.h"

static inline int tile_height(int vectors)
{
    static const int8_t heights[WF_TILE_VECTORS_MAX + 1] = {0, WF_TILE_HEIGHT1, WF_TILE_HEIGHT2,
                                                            WF_TILE_HEIGHT3};
    return heights[vectors];
}

/* Columns in panels of `width` vectors. A rest of one vector would run at two thirds of the speed (loads of A
 * limit a tile one vector wide), so it is shared out: 2 2 2 1 becomes 2 2 3 and 3 3 1 becomes 3 2 2. */
typedef struct panel_list {
    int64_t vectors, count;
    int width; /* of all panels but the last, and but the last two when pairs is set */
    int pairs; /* the last two panels are two vectors wide */
} panel_list;

typedef struct panel {
    int64_t first; /* vector */
    int width;     /* vectors */
} panel;

static inline panel_list panels_of(const wf_gemm_shape *s, const wf_gemm_plan *plan)
{
    const int64_t vectors = wf_i_ceil_div(s->n, WF_VLEN);
    const int width = plan->panel_vectors;
    const int64_t whole = vectors / width;
    const int64_t rest = vectors % width;
    return (panel_list){vectors, whole + (rest != 0 && (whole == 0 || width == 3)), width,
                        width == 3 && rest == 1 && whole > 0};
}

static inline panel panel_at(const panel_list *l, int64_t index)
{
    if (l->pairs && index >= l->count - 2)
        return (panel){l->vectors - 2 * (l->count - index), 2};
    const int64_t first = index * l->width;
    return (panel){first, index == l->count - 1 ? (int)(l->vectors - first) : l->width};
}

/* A dimension cut into `count` blocks of `size` units, the last one shorter. */
typedef struct blocking {
    int64_t count, size;
    int64_t
        size_max; /* of this and of every smaller extent with the same limit, whose even size may be larger */
} blocking;

/* As few blocks of at most about `limit` as possible, of even size in steps of `step`. */
static inline blocking blocks_of(int64_t extent, int64_t limit, int64_t step)
{
    const int64_t most = wf_i_max(limit, step);
    const int64_t count = wf_i_ceil_div(extent, most);
    const int64_t size = wf_i_round_up(wf_i_ceil_div(extent, count), step);
    return (blocking){wf_i_ceil_div(extent, size), size,
                      wf_i_min(wf_i_round_up(most, step), wf_i_round_up(extent, step))};
}

/* The depth: `taps` stretches of `k` consecutive elements of A. A pass is whole taps or a part of one. */
typedef struct depth {
    int64_t taps, k;
    int64_t pass_taps, pass_k; /* of a full pass; one of the two is trivial */
    int64_t passes;
} depth;

static inline depth depth_of(const wf_gemm_shape *s, const wf_gemm_plan *plan)
{
    depth d = {1, s->k, 1, s->k, 1};
    if (s->a_kind == WF_GEMM_A_CONV) {
        d.taps = (int64_t)s->conv.kernel_h * (plan->merge_kw ? 1 : s->conv.kernel_w);
        d.k = (int64_t)s->conv.channels * (plan->merge_kw ? s->conv.kernel_w : 1);
    }
    if (d.k > plan->k_block) {
        const blocking parts = blocks_of(d.k, plan->k_block, 4);
        d.pass_taps = 1;
        d.pass_k = parts.size;
        d.passes = d.taps * parts.count;
    } else {
        const blocking groups = blocks_of(d.taps, plan->k_block / d.k, 1);
        d.pass_taps = groups.size;
        d.pass_k = d.k;
        d.passes = groups.count;
    }
    return d;
}

typedef struct pass {
    int64_t tap, taps, k0, k;
    int last;
} pass;

static inline pass pass_at(const depth *d, int64_t index)
{
    const int last = index == d->passes - 1;
    if (d->pass_k < d->k) {
        const int64_t parts = wf_i_ceil_div(d->k, d->pass_k);
        const int64_t k0 = index % parts * d->pass_k;
        return (pass){index / parts, 1, k0, wf_i_min(d->pass_k, d->k - k0), last};
    }
    const int64_t tap = index * d->pass_taps;
    return (pass){tap, wf_i_min(d->pass_taps, d->taps - tap), 0, d->k, last};
}

typedef struct item_grid {
    blocking m, n; /* in rows; in panels */
    int m_fast;    /* consecutive items share a block of B rather than of A */
} item_grid;

static inline item_grid grid_of(const wf_gemm_shape *s, const wf_gemm_plan *plan)
{
    const panel_list l = panels_of(s, plan);
    const int64_t per_block = wf_i_ceil_div(plan->n_block, l.width * WF_VLEN);
    return (item_grid){blocks_of(s->m, plan->m_block, tile_height(l.width)), blocks_of(l.count, per_block, 1),
                       s->n * depth_of(s, plan).taps > s->m};
}

/* Whether a pass copies its panels of B: always for a transposed B, for B in place only those that are not
 * whole. */
/* A panel of an item in the current pass. */
typedef struct panel_ref {
    int64_t col; /* first column */
    int width;   /* columns, with padding */
    int vectors;
    int partial; /* the last columns are padding */
    const float *b;
    ptrdiff_t b_stride;
    float *sums; /* [row][width] of the passes so far */
} panel_ref;

/* Workspace, as byte offsets. */
typedef struct workspace_layout {
    size_t rows;    /* pointers [tap][row] */
    size_t panels;  /* panel_ref [panel of the block] */
    size_t zeros;   /* a row of padding */
    size_t patches; /* merged taps that cross the left or right border, with the padding filled in */
    size_t a, a_rows, b, partial;
    size_t bytes;
} workspace_layout;

static inline size_t take(size_t *at, int64_t bytes)
{
    const size_t start = *at;
    *at = start + (size_t)wf_i_round_up(bytes, 64);
    return start;
}

/* Elements from one packed row of A to the next: never a multiple of 4 KB, where all rows would meet in one
 * cache set. */
static inline int64_t packed_a_stride(const depth *d)
{
    return wf_i_round_up(d->pass_taps * d->pass_k, 16) + 16;
}

static inline workspace_layout workspace_of(const wf_gemm_shape *s, const wf_gemm_plan *plan)
{
    const depth d = depth_of(s, plan);
    const item_grid g = grid_of(s, plan);
    const int64_t elem = (int64_t)sizeof(float);
    /* A block of panels may end in one that is a vector wider. */
    const int64_t columns = (g.n.size_max * plan->panel_vectors + 1) * WF_VLEN;
    workspace_layout w = {0};
    size_t at = 0;
    w.rows = take(&at, d.taps * g.m.size_max * (int64_t)sizeof(float *));
    w.panels = take(&at, g.n.size_max * (int64_t)sizeof(panel_ref));
    if (s->a_kind == WF_GEMM_A_CONV) {
        w.zeros = take(&at, d.k * elem);
        if (plan->merge_kw)
            w.patches = take(&at, g.m.size_max * d.taps * d.k * elem);
    }
    if (plan->pack_a || s->a_kind == WF_GEMM_A_COLUMNS) {
        w.a = take(&at, g.m.size_max * packed_a_stride(&d) * elem);
        w.a_rows = take(&at, g.m.size_max * (int64_t)sizeof(float *));
    }
    if (s->b_kind != WF_GEMM_B_PACKED) {
        const int all = plan->pack_b || s->b_kind == WF_GEMM_B_COLUMNS;
        const int64_t width = all ? columns : WF_TILE_VECTORS_MAX * WF_VLEN;
        w.b = take(&at, width * d.pass_taps * d.pass_k * elem);
    }
    if (d.passes > 1)
        w.partial = take(&at, columns * g.m.size_max * elem);
    w.bytes = at;
    return w;
}

#endif
