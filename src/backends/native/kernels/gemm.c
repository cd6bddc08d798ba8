/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix product and convolution (gemm.h): blocking, operands of a block, packing. The tiles are in
 * gemm_tile.h.
 *
 * An item is a block of rows by a block of B panels. It goes through the depth in passes; a pass reads a
 * slice of every panel that fits L1 beside a tile's rows of A. Between passes the sums wait in the workspace,
 * so C is written once and may also be an operand of the epilogue.
 */
#include <assert.h>
#include "backends/native/kernels/fuse.h"
#include "backends/native/kernels/gemm.h"
#include "backends/native/kernels/gemm_layout.h"

extern wf_ep_run_f32_fn WF_KERNEL(wf_ep_run_f32);

static int64_t gemm_item_count(const wf_gemm_shape *s, const wf_gemm_plan *plan)
{
    const item_grid g = grid_of(s, plan);
    return g.m.count * g.n.count * s->batch[0] * s->batch[1];
}

static size_t gemm_workspace_bytes(const wf_gemm_shape *s, const wf_gemm_plan *plan)
{
    return workspace_of(s, plan).bytes;
}

static size_t gemm_packed_elems(const wf_gemm_shape *s, const wf_gemm_plan *plan)
{
    const depth d = depth_of(s, plan);
    return (size_t)(panels_of(s, plan).vectors * WF_VLEN * d.taps * d.k);
}

/* ---- Packing ---- */

/* dst[c * dst_stride + r] = src[r * src_stride + c], r in [0, rows), c in [0, cols). Vector blocks are
 * transposed by log2(VLEN) perfect shuffles (Stone, "Parallel Processing with the Perfect Shuffle", 1971). */
static void copy_transposed(float *dst, int64_t dst_stride, const float *src, int64_t src_stride,
                            int64_t rows, int64_t cols)
{
#if WF_VLEN == 4
#define INTERLEAVE_LO(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HI(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#elif WF_VLEN == 8
#define INTERLEAVE_LO(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_HI(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define INTERLEAVE_LO(a, b) \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HI(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#endif
    const int64_t whole_rows = rows - rows % WF_VLEN;
    const int64_t whole_cols = cols - cols % WF_VLEN;
    for (int64_t r = 0; r < whole_rows; r += WF_VLEN) {
        for (int64_t c = 0; c < whole_cols; c += WF_VLEN) {
            wf_vf x[WF_VLEN], y[WF_VLEN];
            WF_UNROLL(16)
            for (int i = 0; i < WF_VLEN; i++)
                x[i] = wf_v_load(src + (r + i) * src_stride + c);
            WF_UNROLL(4)
            for (int round = 1; round < WF_VLEN; round *= 2) {
                WF_UNROLL(16)
                for (int i = 0; i < WF_VLEN / 2; i++) {
                    y[2 * i] = INTERLEAVE_LO(x[i], x[i + WF_VLEN / 2]);
                    y[2 * i + 1] = INTERLEAVE_HI(x[i], x[i + WF_VLEN / 2]);
                }
                WF_UNROLL(16)
                for (int i = 0; i < WF_VLEN; i++)
                    x[i] = y[i];
            }
            WF_UNROLL(16)
            for (int i = 0; i < WF_VLEN; i++)
                wf_v_store(dst + (c + i) * dst_stride + r, x[i]);
        }
        for (int64_t c = whole_cols; c < cols; c++)
            for (int64_t i = r; i < r + WF_VLEN; i++)
                dst[c * dst_stride + i] = src[i * src_stride + c];
    }
    for (int64_t c = 0; c < cols; c++)
        for (int64_t r = whole_rows; r < rows; r++)
            dst[c * dst_stride + r] = src[r * src_stride + c];
}

static void gemm_pack_b(const wf_gemm_shape *s, const wf_gemm_plan *plan, const float *w,
                        const wf_gemm_b_strides *st, float *out)
{
    const panel_list l = panels_of(s, plan);
    const int conv = s->a_kind == WF_GEMM_A_CONV;
    /* A merged tap runs over (x, channel) in the same order as (tap, channel) does. */
    const int64_t kernel_h = conv ? s->conv.kernel_h : 1;
    const int64_t kernel_w = conv ? s->conv.kernel_w : 1;
    const int64_t k = conv ? s->conv.channels : s->k;
    for (int64_t i = 0; i < l.count; i++) {
        const panel p = panel_at(&l, i);
        const int64_t first = p.first * WF_VLEN;
        const int64_t width = (int64_t)p.width * WF_VLEN;
        const int64_t valid = wf_i_min(width, s->n - first);
        for (int64_t y = 0; y < kernel_h; y++) {
            for (int64_t x = 0; x < kernel_w; x++) {
                for (int64_t c = 0; c < k; c++, out += width) {
                    const float *from = w + first * st->n + c * st->k + y * st->kh + x * st->kw;
                    for (int64_t j = 0; j < width; j++)
                        out[j] = j < valid ? from[j * st->n] : 0.0f;
                }
            }
        }
    }
}

static size_t gemm_packed_at(const wf_gemm_shape *s, const wf_gemm_plan *plan, int64_t i, int64_t j)
{
    const panel_list l = panels_of(s, plan);
    /* A wider last panel lies before the quotient, two narrower ones behind it. */
    int64_t index = wf_i_min(j / WF_VLEN / l.width, l.count - 1);
    if (j / WF_VLEN >= panel_at(&l, index).first + panel_at(&l, index).width)
        index++;
    const panel p = panel_at(&l, index);
    return (size_t)(p.first * WF_VLEN * s->k + i * p.width * WF_VLEN + j - p.first * WF_VLEN);
}

/* Rows k0 .. k0 + k of one panel of an unpacked B, in the packed form. */
static void pack_panel(const wf_gemm_shape *s, const float *b, const panel_ref *p, int64_t k0, int64_t k,
                       float *out)
{
    const int64_t valid = wf_i_min(p->width, s->n - p->col);
    if (s->b_kind == WF_GEMM_B_COLUMNS) {
        copy_transposed(out, p->width, b + p->col * s->ldb + k0, s->ldb, valid, k);
    } else {
        for (int64_t i = 0; i < k; i++)
            memcpy(out + i * p->width, b + (k0 + i) * s->ldb + p->col, (size_t)valid * sizeof(float));
    }
    if (valid < p->width)
        for (int64_t i = 0; i < k; i++)
            memset(out + i * p->width + valid, 0, (size_t)(p->width - valid) * sizeof(float));
}

/* ---- Rows of a convolution ---- */

/* Pointers to one tap of the output pixels ow .. ow + count of one output row. */
typedef struct tap_run {
    const float *line; /* input row of the tap; NULL: outside of the image */
    int64_t x;         /* input column of the tap for ow = 0 */
    int64_t ow, count;
    int64_t inside0, inside1; /* output columns whose taps are all inside of the image */
} tap_run;

/* What a tap that crosses the left or right border reads: one pixel or zeros, or for a merged tap a patch
 * with the pixels inside of the image and zeros for the others. */
static const float *border_tap(const wf_gemm_conv *c, int merge_kw, const float *line, int64_t x,
                               const float *zeros, float *patch)
{
    if (!merge_kw)
        return x >= 0 && x < c->in_w ? line + x * c->pixel_stride : zeros;
    for (int64_t i = 0; i < c->kernel_w; i++) {
        const size_t bytes = (size_t)c->channels * sizeof(float);
        if (x + i >= 0 && x + i < c->in_w)
            memcpy(patch + i * c->channels, line + (x + i) * c->pixel_stride, bytes);
        else
            memset(patch + i * c->channels, 0, bytes);
    }
    return patch;
}

static void point_run(const wf_gemm_conv *c, int merge_kw, const tap_run *t, const float *zeros,
                      float *patches, const float **out)
{
    const int64_t patch_elems = merge_kw ? (int64_t)c->kernel_w * c->channels : 0;
    const int64_t step = c->stride_w * c->pixel_stride;
    const int64_t first = wf_i_min(wf_i_max(t->inside0 - t->ow, 0), t->count);
    const int64_t last = wf_i_min(wf_i_max(t->inside1 - t->ow, first), t->count);
    if (!t->line) {
        for (int64_t i = 0; i < t->count; i++)
            out[i] = zeros;
        return;
    }
    for (int64_t i = 0; i < first; i++)
        out[i] = border_tap(c, merge_kw, t->line, t->x + (t->ow + i) * c->stride_w, zeros,
                            patches + i * patch_elems);
    for (int64_t i = first; i < last; i++)
        out[i] = t->line + ((t->x + t->ow * c->stride_w) * c->pixel_stride + i * step);
    for (int64_t i = last; i < t->count; i++)
        out[i] = border_tap(c, merge_kw, t->line, t->x + (t->ow + i) * c->stride_w, zeros,
                            patches + i * patch_elems);
}

/* Pointers of rows row0 .. row0 + count, out[tap * count + row]; patches: as many, of kernel_w * channels
 * floats. */
static void conv_rows(const wf_gemm_conv *c, int merge_kw, const float *a, int64_t row0, int64_t count,
                      const float *zeros, float *patches, const float **out)
{
    const int64_t kernel_w = merge_kw ? 1 : c->kernel_w;
    const int64_t reach = (int64_t)(c->kernel_w - 1) * c->dilation_w;
    const int64_t patch_elems = merge_kw ? (int64_t)c->kernel_w * c->channels : 0;
    const int64_t room = c->in_w - 1 - reach + c->pad_left;
    tap_run t = {.ow = row0 % c->out_w,
                 .inside0 = wf_i_ceil_div(c->pad_left, c->stride_w),
                 .inside1 = room < 0 ? 0 : room / c->stride_w + 1};
    int64_t line_index = row0 / c->out_w; /* image and output row */
    for (int64_t r = 0; r < count; r += t.count) {
        t.count = wf_i_min(count - r, c->out_w - t.ow);
        const float *image = a + line_index / c->out_h * c->image_stride;
        int64_t at = r;
        for (int64_t ky = 0; ky < c->kernel_h; ky++) {
            const int64_t y = line_index % c->out_h * c->stride_h - c->pad_top + ky * c->dilation_h;
            t.line = y >= 0 && y < c->in_h ? image + y * c->row_stride : NULL;
            for (int64_t kx = 0; kx < kernel_w; kx++, at += count) {
                t.x = kx * c->dilation_w - c->pad_left;
                point_run(c, merge_kw, &t, zeros, patches + at * patch_elems, out + at);
            }
        }
        t.ow = 0;
        line_index++;
    }
}

/* ---- One item ---- */

enum {
    EPILOGUE_ROWS = 24 /* rows between runs of the other stages: few calls, and the rows are still in L1 */
};

/* What the loops of one pass over one item need. */
typedef struct item_state {
    const wf_gemm_shape *shape;
    const wf_gemm_args *args;
    float *c;     /* row 0 of the block */
    int64_t row0; /* of the block, counted through the batches */
    int64_t rows;
    panel_ref *panels;
    int64_t panel_count;
    wf_fused_stages fused;
    int buffered; /* tiles go through a buffer, where all stages run, as those of a partial panel do */
    int first_pass, last_pass;
    int64_t pass_depth;
    int prefetch;
    wf_gemm_tile tile; /* rows, taps, k0, k set for the pass */
} item_state;

/* Points the tile at panel `index`. */
static const panel_ref *select_panel(item_state *st, int64_t index)
{
    const panel_ref *p = st->panels + index;
    wf_gemm_tile *t = &st->tile;
    const int finish = st->last_pass && !st->buffered && !p->partial;
    t->b = p->b;
    t->b_stride = p->b_stride;
    t->partial_stride = p->width;
    t->bias = finish && st->fused.bias ? st->fused.bias->data + p->col : NULL;
    t->limit = finish ? st->fused.limit : 0;
    t->prefetch_bytes = 0;
    if (st->prefetch && index + 1 < st->panel_count) {
        const int64_t tiles = wf_i_ceil_div(st->rows, tile_height(p->vectors));
        t->prefetch = (const char *)p[1].b;
        t->prefetch_bytes =
            wf_i_round_up(wf_i_ceil_div(st->pass_depth * p[1].width * (int64_t)sizeof(float), tiles), 64);
    }
    return p;
}

/* `count` tiles of `height` rows of the selected panel, from row r. */
static void run_tiles(item_state *st, const panel_ref *p, const float *const *rows, int64_t r, int64_t count,
                      int height)
{
    wf_gemm_tile *t = &st->tile;
    t->rows = rows + r;
    t->count = count;
    t->partial = st->first_pass ? NULL : p->sums + r * p->width;
    t->residual = NULL;
    if (!st->last_pass) {
        t->out = p->sums + r * p->width;
        t->out_stride = p->width;
        wf_gemm_tiles[p->vectors][height](t);
    } else {
        if (st->fused.residual) {
            t->residual_stride = st->fused.residual->row_stride_elems;
            t->residual = st->fused.residual->data + (st->row0 + r) * t->residual_stride + p->col;
        }
        t->out = st->c + r * st->shape->ldc + p->col;
        t->out_stride = st->shape->ldc;
        wf_gemm_tiles[p->vectors][height](t);
    }
    if (t->prefetch_bytes)
        t->prefetch += count * t->prefetch_bytes;
}

/* As run_tiles in the last pass, through a buffer where all stages run: for panels with padding, and for a C
 * that a stage beyond the fused ones reads. */
static void run_tiles_buffered(item_state *st, const panel_ref *p, const float *const *rows, int64_t r,
                               int64_t count, int height)
{
    wf_gemm_tile *t = &st->tile;
    const int64_t valid = wf_i_min(p->width, st->shape->n - p->col);
    for (int64_t end = r + count * height; r < end; r += height) {
        float block[WF_TILE_HEIGHT_MAX * WF_TILE_VECTORS_MAX * WF_VLEN];
        t->rows = rows + r;
        t->count = 1;
        t->partial = st->first_pass ? NULL : p->sums + r * p->width;
        t->residual = NULL;
        t->out = block;
        t->out_stride = p->width;
        wf_gemm_tiles[p->vectors][height](t);
        WF_KERNEL(wf_ep_run_f32)
        (st->args->stages, st->args->stage_count, block, p->width, st->row0 + r, height, p->col, valid);
        for (int i = 0; i < height; i++)
            memcpy(st->c + (r + i) * st->shape->ldc + p->col, block + i * p->width,
                   (size_t)valid * sizeof(float));
        if (t->prefetch_bytes)
            t->prefetch += t->prefetch_bytes;
    }
}

/* Tiles of even height: 49 rows by 6 is four tiles of 6 and five of 5, not eight of 6 and one of 1. The first
 * `taller` tiles have one row more. */
typedef struct tile_split {
    int64_t count;
    int64_t height, taller;
} tile_split;

static tile_split split_rows(int64_t rows, int height_max)
{
    const int64_t count = wf_i_ceil_div(rows, height_max);
    return (tile_split){count, rows / count, rows % count};
}

/* Rows r .. r + rows of the selected panel, in tiles of even height. */
static void run_rows(item_state *st, const panel_ref *p, const float *const *pointers, int64_t r,
                     int64_t rows)
{
    const tile_split split = split_rows(rows, tile_height(p->vectors));
    const int buffered = st->last_pass && (st->buffered || p->partial);
    /* Other stages run before the rows leave L1. */
    const int others = st->last_pass && !buffered && st->args->stage_count > st->fused.count;
    for (int64_t j = 0; j < split.count;) {
        const int64_t same = j < split.taller ? split.taller - j : split.count - j;
        const int height = (int)(split.height + (j < split.taller));
        const int64_t count = others ? wf_i_min(same, wf_i_max(EPILOGUE_ROWS / height, 1)) : same;
        if (buffered)
            run_tiles_buffered(st, p, pointers, r, count, height);
        else
            run_tiles(st, p, pointers, r, count, height);
        if (others)
            WF_KERNEL(wf_ep_run_f32)
        (st->args->stages + st->fused.count, st->args->stage_count - st->fused.count,
         st->c + r * st->shape->ldc + p->col, st->shape->ldc, st->row0 + r, count * height, p->col, p->width);
        r += count * height;
        j += count;
    }
}

/* A block of one row: panels in groups, and all stages on the sums of a group. */
static void run_pass_of_one_row(item_state *st, const float *const *rows)
{
    static const int8_t group_max[WF_TILE_VECTORS_MAX + 1] = {0, WF_ROW_PANELS1, WF_ROW_PANELS2,
                                                              WF_ROW_PANELS3};
    wf_gemm_tile *t = &st->tile;
    int64_t count;
    t->rows = rows;
    for (int64_t i = 0; i < st->panel_count; i += count) {
        const panel_ref *p = st->panels + i;
        const float *b[WF_ROW_PANELS_MAX];
        float sums[WF_ROW_PANELS_MAX * WF_TILE_VECTORS_MAX * WF_VLEN];
        for (count = 0; count < group_max[p->vectors] && i + count < st->panel_count; count++) {
            if (p[count].vectors != p->vectors || p[count].b_stride != p->b_stride)
                break;
            b[count] = p[count].b;
        }
        t->b_stride = p->b_stride;
        t->partial = st->first_pass ? NULL : p->sums;
        float *out = p->sums ? p->sums : sums;
        wf_gemm_rows[p->vectors][count](t, b, out);
        if (st->last_pass) {
            const int64_t valid = wf_i_min(count * p->width, st->shape->n - p->col);
            WF_KERNEL(wf_ep_run_f32)
            (st->args->stages, st->args->stage_count, out, valid, st->row0, 1, p->col, valid);
            memcpy(st->c + p->col, out, (size_t)valid * sizeof(float));
        }
    }
}

/* One band of rows after the other; in a band one panel after the other. */
static void run_pass(item_state *st, const float *const *rows, int64_t band)
{
    const blocking bands = blocks_of(st->rows, band ? band : st->rows, tile_height(st->panels[0].vectors));
    for (int64_t r = 0; r < st->rows; r += bands.size) {
        const int64_t count = wf_i_min(bands.size, st->rows - r);
        for (int64_t i = 0; i < st->panel_count; i++)
            run_rows(st, select_panel(st, i), rows, r, count);
    }
}

/* Copies the rows of a block for one pass; out_rows are the new pointers. */
static void pack_a_block(const wf_gemm_shape *s, const float *a, int64_t row0, int64_t row_count, pass ps,
                         const float *const *rows, int64_t stride, float *out, const float **out_rows)
{
    if (s->a_kind == WF_GEMM_A_COLUMNS) {
        copy_transposed(out, stride, a + ps.k0 * s->lda + row0, s->lda, ps.k, row_count);
    } else {
        for (int64_t r = 0; r < row_count; r++)
            for (int64_t t = 0; t < ps.taps; t++)
                memcpy(out + r * stride + t * ps.k, rows[(ps.tap + t) * row_count + r] + ps.k0,
                       (size_t)ps.k * sizeof(float));
    }
    for (int64_t r = 0; r < row_count; r++)
        out_rows[r] = out + r * stride;
}

static void gemm_item(const wf_gemm_shape *s, const wf_gemm_plan *plan, const wf_gemm_args *args,
                      void *workspace, int64_t item)
{
    assert(s->m > 0 && s->n > 0 && s->k > 0 && s->batch[0] > 0 && s->batch[1] > 0 && s->ldc >= s->n);
    assert(plan->panel_vectors >= 1 && plan->panel_vectors <= WF_TILE_VECTORS_MAX);
    assert(plan->m_block > 0 && plan->n_block > 0 && plan->k_block > 0);
    assert(s->a_kind != WF_GEMM_A_CONV || s->b_kind == WF_GEMM_B_PACKED);
    assert(!plan->merge_kw || (s->a_kind == WF_GEMM_A_CONV && s->conv.dilation_w == 1 &&
                               s->conv.pixel_stride == s->conv.channels));
    assert(item >= 0 && item < gemm_item_count(s, plan));
    const depth d = depth_of(s, plan);
    const item_grid g = grid_of(s, plan);
    const workspace_layout w = workspace_of(s, plan);
    char *ws = workspace;

    const int64_t batch = item / (g.m.count * g.n.count);
    const int64_t outer = batch / s->batch[1];
    const int64_t inner = batch % s->batch[1];
    const int64_t block = item % (g.m.count * g.n.count);
    const int64_t m_index = g.m_fast ? block % g.m.count : block / g.n.count;
    const int64_t n_index = g.m_fast ? block / g.m.count : block % g.n.count;
    const int64_t row0 = m_index * g.m.size;
    const float *a = args->a + outer * args->a_batch_stride[0] + inner * args->a_batch_stride[1];
    const float *b = args->b + outer * args->b_batch_stride[0] + inner * args->b_batch_stride[1];
    float *c = args->c + outer * args->c_batch_stride[0] + inner * args->c_batch_stride[1];

    const panel_list l = panels_of(s, plan);
    const int64_t panel0 = n_index * g.n.size;
    const int64_t first_vector = panel_at(&l, panel0).first;
    item_state st = {.shape = s, .args = args};
    st.c = c + row0 * s->ldc;
    st.row0 = batch * s->m + row0;
    st.rows = wf_i_min(g.m.size, s->m - row0);
    st.panels = (panel_ref *)(void *)(ws + w.panels);
    st.panel_count = wf_i_min(g.n.size, l.count - panel0);
    for (int64_t i = 0; i < st.panel_count; i++) {
        const panel p = panel_at(&l, panel0 + i);
        st.panels[i] = (panel_ref){.col = p.first * WF_VLEN, .width = p.width * WF_VLEN, .vectors = p.width};
        st.panels[i].partial = st.panels[i].col + st.panels[i].width > s->n;
        if (d.passes > 1)
            st.panels[i].sums =
                (float *)(void *)(ws + w.partial) + (p.first - first_vector) * WF_VLEN * st.rows;
    }
    st.fused = wf_ep_fuse(args->stages, args->stage_count, args->c);
    st.buffered = st.fused.reads_c;
    st.tile.lo = st.fused.lo;
    st.tile.hi = st.fused.hi;
    st.prefetch = s->b_kind == WF_GEMM_B_PACKED && plan->m_band == 0 ? plan->prefetch : 0;
    st.tile.prefetch_l1 = plan->prefetch == 2;

    const float **rows = (const float **)(void *)(ws + w.rows);
    if (s->a_kind == WF_GEMM_A_CONV) {
        float *zeros = (float *)(void *)(ws + w.zeros);
        memset(zeros, 0, (size_t)d.k * sizeof(float));
        conv_rows(&s->conv, plan->merge_kw, a, row0, st.rows, zeros, (float *)(void *)(ws + w.patches), rows);
    } else if (s->a_kind == WF_GEMM_A_ROWS) {
        for (int64_t r = 0; r < st.rows; r++)
            rows[r] = a + (row0 + r) * s->lda;
    }

    for (int64_t i = 0; i < d.passes; i++) {
        const pass ps = pass_at(&d, i);
        st.first_pass = i == 0;
        st.last_pass = ps.last;
        st.pass_depth = ps.taps * ps.k;
        st.tile.tap_stride = (ptrdiff_t)st.rows;
        st.tile.taps = ps.taps;
        st.tile.k0 = ps.k0;
        st.tile.k = ps.k;
        const float *const *pass_rows = rows + ps.tap * st.rows;
        if (plan->pack_a || s->a_kind == WF_GEMM_A_COLUMNS) {
            const float **packed_rows = (const float **)(void *)(ws + w.a_rows);
            pack_a_block(s, a, row0, st.rows, ps, rows, packed_a_stride(&d), (float *)(void *)(ws + w.a),
                         packed_rows);
            st.tile.taps = 1;
            st.tile.k0 = 0;
            st.tile.k = st.pass_depth;
            pass_rows = packed_rows;
        }
        float *copy = (float *)(void *)(ws + w.b);
        for (int64_t j = 0; j < st.panel_count; j++) {
            panel_ref *p = st.panels + j;
            p->b_stride = p->width;
            if (s->b_kind == WF_GEMM_B_PACKED) {
                p->b = b + p->col * d.taps * d.k + (ps.tap * d.k + ps.k0) * p->width;
            } else if (s->b_kind == WF_GEMM_B_ROWS && !plan->pack_b && !p->partial) {
                p->b = b + ps.k0 * s->ldb + p->col;
                p->b_stride = s->ldb;
            } else {
                pack_panel(s, b, p, ps.k0, ps.k, copy);
                p->b = copy;
                copy += ps.k * p->width;
            }
        }
        if (st.rows == 1)
            run_pass_of_one_row(&st, pass_rows);
        else
            run_pass(&st, pass_rows, plan->m_band);
    }
}

/* ---- Plans ----
 *
 * The default comes from an estimate in cycles of a core with two multiply-adds per cycle. Its constants were
 * fitted by eye to Zen 3 with AVX2 (2026-11-30); only ratios matter, and the tuner measures what it lists. */

enum {
    /* Rows of an item, at least and at most, when there are enough of both. A panel is read from L2 or L3
     * once for all of them: at 96 rows and full speed that is 4 GB/s. The shallower the product, the more the
     * fixed cost of a column of tiles weighs: 768 rows against 192 are 3 to 7% faster for depths of 16 to 27,
     * 192 against 96 2 to 4% for 64 to 80, and 2.5% for a B of several megabytes. */
    ROWS_LEAST = 96,
    ROWS_MOST = 768,
    ROWS_TIMES_DEPTH = 24576,
    ROWS_FEWEST = 12, /* what more items may cut them down to */
    /* Up to here merged taps pay: 3 channels to 16 filters 169 us against 290, 3 to 64 (7x7) 2590 against
       4100. */
    MERGE_CHANNELS = 8
};

static int can_merge_kw(const wf_gemm_shape *s)
{
    return s->a_kind == WF_GEMM_A_CONV && s->conv.kernel_w > 1 && s->conv.dilation_w == 1 &&
           s->conv.pixel_stride == s->conv.channels;
}

/* Cycles of one step of depth of a tile: multiply-adds, their latency, or loads, whichever is the longest. */
static double tile_cycles(int64_t height, int vectors)
{
    const double fma = 0.5 * (double)(height * vectors);
    const double loads = 0.62 * (double)(height + vectors);
    const double longest = fma > loads ? fma : loads;
    return longest > 4 ? longest : 4;
}

/* Cycles of one B panel with all rows of an item. */
static double panel_cycles(const depth *d, int64_t rows, int vectors, double b_bytes_per_cycle)
{
    const tile_split t = split_rows(rows, tile_height(vectors));
    const double depth_all = (double)(d->taps * d->k);
    const double step = (double)t.taller * tile_cycles(t.height + 1, vectors) +
                        (double)(t.count - t.taller) * tile_cycles(t.height, vectors);
    const double partial_sums = (double)((d->passes - 1) * rows * vectors);
    /* Half of the time of reading B is hidden. */
    const double read =
        0.5 * depth_all * (double)(vectors * WF_VLEN) * (double)sizeof(float) / b_bytes_per_cycle;
    return 300 + 45 * (double)t.count + depth_all * step * (vectors == 2 ? 1.03 : 1.0) + partial_sums + read;
}

/* Cycles of the longest item: one of the first block of panels or of the last, which may be wider or shorter.
 */
static double item_cycles(const wf_gemm_shape *s, const wf_gemm_plan *plan, const wf_gemm_caches *caches)
{
    const depth d = depth_of(s, plan);
    const item_grid g = grid_of(s, plan);
    const panel_list l = panels_of(s, plan);
    const int64_t rows = wf_i_min(g.m.size, s->m);
    const int64_t b_bytes = l.vectors * WF_VLEN * d.taps * d.k * (int64_t)sizeof(float);
    const double b_rate = b_bytes > caches->l2_bytes / 2 ? 10 : 40; /* from L3, from L2 */
    double first = 0;
    double last = 0;
    for (int64_t i = 0; i < wf_i_min(g.n.size, l.count); i++)
        first += panel_cycles(&d, rows, panel_at(&l, i).width, b_rate);
    for (int64_t i = (g.n.count - 1) * g.n.size; i < l.count; i++)
        last += panel_cycles(&d, rows, panel_at(&l, i).width, b_rate);
    return 1000 + 2 * (double)(rows * (s->a_kind == WF_GEMM_A_CONV ? d.taps : 1)) +
           (first > last ? first : last);
}

/* Cycles until the last of the threads is done. A thread that is slow or comes late is waited for: on average
 * a fraction of an item, so that several items per thread are better than one. */
static double plan_cycles(const wf_gemm_shape *s, const wf_gemm_plan *plan, const wf_gemm_caches *caches,
                          int threads)
{
    const int64_t items = gemm_item_count(s, plan);
    const double item = item_cycles(s, plan, caches);
    const double wait = threads > 1 ? 0.15 : 0;
    return item * ((double)wf_i_ceil_div(items, threads) + wait);
}

/* Cuts rows (into blocks of at most m_block) and columns into the number of items that takes the least time.
 */
static void cut_items(const wf_gemm_shape *s, const wf_gemm_caches *caches, int threads, wf_gemm_plan *plan)
{
    static const int16_t cuts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
    enum { CUTS = sizeof cuts / sizeof cuts[0] };
    const panel_list l = panels_of(s, plan);
    const int64_t m_least = grid_of(s, plan).m.count;
    const wf_gemm_plan start = *plan;
    double best = plan_cycles(s, plan, caches, threads);
    for (size_t i = 0; threads > 1 && i < CUTS; i++) {
        /* At least m_least blocks of rows, and multiples of the threads above that. */
        int64_t m_count = cuts[i] == 1 ? m_least : wf_i_round_up(m_least, cuts[i]);
        if (cuts[i] > 1 && (m_count > 16 * (int64_t)threads || s->m / m_count < ROWS_FEWEST))
            continue;
        for (size_t j = 0; j < CUTS && cuts[j] <= l.count && cuts[j] <= 16 * threads; j++) {
            wf_gemm_plan trial = start;
            trial.m_block = (int32_t)wf_i_min(start.m_block, wf_i_ceil_div(s->m, m_count));
            trial.n_block =
                (int32_t)wf_i_min(wf_i_ceil_div(l.count, cuts[j]) * l.width * WF_VLEN, start.n_block);
            const double cycles = plan_cycles(s, &trial, caches, threads);
            if (cycles < best) {
                best = cycles;
                *plan = trial;
            }
        }
    }
}

static wf_gemm_plan plan_of(const wf_gemm_shape *s, const wf_gemm_caches *caches, int threads, int width,
                            int64_t rows, int64_t k_block)
{
    wf_gemm_plan plan = {.panel_vectors = (int16_t)width, .pack_b = 1};
    plan.merge_kw = can_merge_kw(s) && s->conv.channels <= MERGE_CHANNELS;
    plan.k_block = INT32_MAX;
    plan.m_block = 1;
    plan.n_block = (int32_t)wf_i_min(s->n, INT32_MAX);
    const depth d = depth_of(s, &plan);
    const int64_t all_k = d.taps * d.k;
    plan.k_block = (int32_t)wf_i_min(s->m == 1 ? all_k : k_block, wf_i_min(all_k, INT32_MAX));
    plan.m_block = (int32_t)wf_i_min(rows, s->m);
    cut_items(s, caches, threads, &plan);
    plan.prefetch =
        s->b_kind == WF_GEMM_B_PACKED && s->n * all_k * (int64_t)sizeof(float) > caches->l2_bytes / 2;
    return plan;
}

/* A pass of a panel takes an eighth of L2 (1024 deep for 16 columns in 512 KB): hardware prefetch feeds the
 * tile from L2 at full speed, and longer passes have fewer partial sums (resnet50 3x3 layers: 0.95 of peak
 * with 1024, 0.90 with 256 that fit L1; Zen 3, 2026-11-30). */
static int64_t k_block_default(const wf_gemm_caches *caches, int width)
{
    return wf_i_max(caches->l2_bytes / 8 / (width * WF_VLEN * (int64_t)sizeof(float)), 128);
}

/* Three vectors have 7 loads for 12 multiply-adds instead of 8 with two: over 21 1x1 layers 2.6% faster on
 * average (Zen 3, 2026-11-30). The estimate knows which of them the shape suits better. */
static wf_gemm_plan gemm_plan_default(const wf_gemm_shape *s, const wf_gemm_caches *caches, int threads)
{
    const int64_t depth_all = s->a_kind == WF_GEMM_A_CONV ? s->k * s->conv.kernel_h * s->conv.kernel_w : s->k;
    const int64_t least =
        s->n * depth_all * (int64_t)sizeof(float) > caches->l2_bytes ? 2 * ROWS_LEAST : ROWS_LEAST;
    const int64_t usual = wf_i_min(wf_i_max(ROWS_TIMES_DEPTH / depth_all, least), ROWS_MOST);
    /* A little more than a block is better whole than halved. */
    const int64_t rows = s->m <= usual * 3 / 2 ? s->m : usual;
    const int width = (int)wf_i_min(wf_i_ceil_div(s->n, WF_VLEN), 3);
    const wf_gemm_plan wide = plan_of(s, caches, threads, width, rows, k_block_default(caches, width));
    if (width < 3)
        return wide;
    const wf_gemm_plan narrow = plan_of(s, caches, threads, 2, rows, k_block_default(caches, 2));
    return plan_cycles(s, &wide, caches, threads) <= plan_cycles(s, &narrow, caches, threads) ? wide : narrow;
}

static void add_plan(const wf_gemm_plan *plan, wf_gemm_plan *list, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        if (memcmp(&list[i], plan, sizeof *plan) == 0)
            return;
    if (*count < WF_GEMM_PLANS_MAX)
        list[(*count)++] = *plan;
}

static size_t gemm_plan_list(const wf_gemm_shape *s, const wf_gemm_caches *caches, int threads,
                             wf_gemm_plan *out, size_t capacity)
{
    wf_gemm_plan list[WF_GEMM_PLANS_MAX];
    size_t count = 0;
    const wf_gemm_plan first = gemm_plan_default(s, caches, threads);
    add_plan(&first, list, &count);
    /* Single changes of the default. */
    const int packed = s->b_kind == WF_GEMM_B_PACKED;
    wf_gemm_plan plan = first;
    plan.prefetch = packed && !first.prefetch;
    add_plan(&plan, list, &count);
    plan.prefetch = packed ? 2 : 0;
    add_plan(&plan, list, &count);
    plan = first;
    plan.pack_a = s->m > 1 && s->a_kind != WF_GEMM_A_COLUMNS;
    add_plan(&plan, list, &count);
    plan = first;
    plan.pack_b = s->b_kind != WF_GEMM_B_ROWS;
    add_plan(&plan, list, &count);
    static const int16_t bands[] = {0, 12, 24, 48};
    for (size_t i = 0; s->m > 1 && i < sizeof bands / sizeof bands[0]; i++) {
        plan = first;
        plan.m_band = bands[i];
        add_plan(&plan, list, &count);
    }
    plan = first;
    plan.n_block = (int32_t)wf_i_ceil_div(first.n_block, 2);
    add_plan(&plan, list, &count);
    plan = first;
    if (can_merge_kw(s) && s->conv.channels <= 2 * MERGE_CHANNELS)
        plan.merge_kw = !first.merge_kw;
    add_plan(&plan, list, &count);
    /* Blocks. */
    static const int32_t rows[] = {ROWS_LEAST, 2 * ROWS_LEAST, 4 * ROWS_LEAST, ROWS_LEAST / 2,
                                   ROWS_LEAST / 4};
    static const int32_t quarters[] = {4, 2, 8}; /* of the default depth */
    for (int width = 3; width >= 1; width--) {
        if (width > wf_i_ceil_div(s->n, WF_VLEN) || (width == 1 && s->n > WF_VLEN))
            continue;
        for (size_t k = 0; k < sizeof quarters / sizeof quarters[0]; k++) {
            for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
                plan = plan_of(s, caches, threads, width, rows[r],
                               k_block_default(caches, width) * quarters[k] / 4);
                add_plan(&plan, list, &count);
            }
        }
    }
    for (size_t i = 0; i < count && i < capacity; i++)
        out[i] = list[i];
    return count;
}

const wf_gemm_kernels WF_KERNEL(wf_gemm) = {gemm_plan_default,    gemm_plan_list,    gemm_item_count,
                                            gemm_workspace_bytes, gemm_packed_elems, gemm_pack_b,
                                            gemm_packed_at,       gemm_item};
