/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd convolution (winograd.h): the transforms and their order. The matrix products are gemm.c.
 *
 * A point is one of the (m + 2)^2 positions of a transformed tile. Transformed inputs are
 * [point][tile][channel] and products [point][tile][filter], channels and filters padded to whole vectors.
 * The distance between points is never a multiple of 4 KB: a tile's points are written together, and would
 * share one set of the cache.
 */
#include <assert.h>

#include "backends/native/kernels/fuse.h"
#include "backends/native/kernels/ints.h"
#include "backends/native/kernels/simd.h"
#include "backends/native/kernels/winograd.h"

extern wf_ep_run_f32_fn WF_KERNEL(wf_ep_run_f32);
extern const wf_gemm_kernels WF_KERNEL(wf_gemm);

enum {
    WINO_SIDE_MAX = 6, /* of a transformed tile */
    WINO_POINTS_MAX = WINO_SIDE_MAX * WINO_SIDE_MAX,
    WINO_TILE_MAX = 4
};

/* ---- One-dimensional transforms ---- */

/* Interpolation points of F(4, 3) beside 0 and infinity: +-A and +-B. On normal data these give 7 dB more
 * signal to noise than the customary 1 and 2 (256 channels: 117.0 against 110.1 dB), the best of the pairs of
 * small fractions tried; all coefficients of the input and output transforms are exact in float. */
#define WINO_A 0.625f
#define WINO_B 1.5f
#define WINO_A2 (WINO_A * WINO_A)
#define WINO_B2 (WINO_B * WINO_B)

/* B^T d of F(m, 3): m + 2 inputs in place. */
WF_INLINE void wino_input_1d(const int m, wf_vf d[WINO_SIDE_MAX])
{
    if (m == 2) {
        const wf_vf d1 = d[1];
        d[0] = d[0] - d[2];
        d[1] = d1 + d[2];
        d[2] = d[2] - d1;
        d[3] = d1 - d[3];
        return;
    }
    const wf_vf even = d[4] - WINO_B2 * d[2];
    const wf_vf odd = WINO_A * (d[3] - WINO_B2 * d[1]);
    const wf_vf even2 = d[4] - WINO_A2 * d[2];
    const wf_vf odd2 = WINO_B * (d[3] - WINO_A2 * d[1]);
    d[0] = WINO_A2 * WINO_B2 * d[0] - (WINO_A2 + WINO_B2) * d[2] + d[4];
    d[5] = WINO_A2 * WINO_B2 * d[1] - (WINO_A2 + WINO_B2) * d[3] + d[5];
    d[1] = even + odd;
    d[2] = even - odd;
    d[3] = even2 + odd2;
    d[4] = even2 - odd2;
}

/* A^T p of F(m, 3): m + 2 products to m outputs. */
WF_INLINE void wino_output_1d(const int m, const wf_vf p[WINO_SIDE_MAX], wf_vf y[WINO_TILE_MAX])
{
    const wf_vf sum = p[1] + p[2];
    const wf_vf difference = p[1] - p[2];
    if (m == 2) {
        y[0] = p[0] + sum;
        y[1] = difference - p[3];
        return;
    }
    const wf_vf sum2 = p[3] + p[4];
    const wf_vf difference2 = p[3] - p[4];
    y[0] = p[0] + sum + sum2;
    y[1] = WINO_A * difference + WINO_B * difference2;
    y[2] = WINO_A2 * sum + WINO_B2 * sum2;
    y[3] = WINO_A2 * WINO_A * difference + WINO_B2 * WINO_B * difference2 + p[5];
}

/* G g of F(m, 3): 3 weights to m + 2. */
static void wino_weight_1d(int m, const double g[3], double out[WINO_SIDE_MAX])
{
    const double ends = g[0] + g[2];
    if (m == 2) {
        out[0] = g[0];
        out[1] = (ends + g[1]) / 2;
        out[2] = (ends - g[1]) / 2;
        out[3] = g[2];
        return;
    }
    const double a = WINO_A;
    const double b = WINO_B;
    const double a_scale = 2 * a * a * (a * a - b * b);
    const double b_scale = 2 * b * b * (b * b - a * a);
    out[0] = g[0] / (a * a * b * b);
    out[1] = (g[0] + a * g[1] + a * a * g[2]) / a_scale;
    out[2] = (g[0] - a * g[1] + a * a * g[2]) / a_scale;
    out[3] = (g[0] + b * g[1] + b * b * g[2]) / b_scale;
    out[4] = (g[0] - b * g[1] + b * b * g[2]) / b_scale;
    out[5] = g[2];
}

/* ---- Geometry ---- */

typedef struct wino_layout {
    int64_t side, points;
    int64_t tiles_h, tiles_w, tiles; /* tiles through all images */
    int64_t block;                   /* tiles that a workspace holds */
    int64_t k, n;                    /* channels and filters, padded to vectors */
    int64_t v_stride, p_stride;      /* floats from a point to the next, of inputs and of products */
    wf_gemm_shape gemm;              /* of a block */
} wino_layout;

static wino_layout wino_layout_of(const wf_winograd_shape *s, const wf_winograd_plan *plan)
{
    wino_layout l = {.side = plan->tile + 2};
    l.points = l.side * l.side;
    l.tiles_h = wf_i_ceil_div(s->out_h, plan->tile);
    l.tiles_w = wf_i_ceil_div(s->out_w, plan->tile);
    l.tiles = l.tiles_h * l.tiles_w * s->images;
    l.block = plan->phased ? l.tiles : wf_i_min(plan->tile_block, l.tiles);
    l.k = wf_i_round_up(s->channels, WF_VLEN);
    l.n = wf_i_round_up(s->filters, WF_VLEN);
    l.v_stride = wf_i_round_up(l.block * l.k, 16) + 16;
    l.p_stride = wf_i_round_up(l.block * l.n, 16) + 16;
    l.v_stride += l.v_stride % 1024 == 0 ? 16 : 0;
    l.p_stride += l.p_stride % 1024 == 0 ? 16 : 0;
    /* Whole vectors of filters: the packed weights have zeros there. */
    l.gemm = (wf_gemm_shape){
        .m = l.block, .n = l.n, .k = s->channels, .lda = l.k, .ldc = l.n, .batch = {1, l.points}};
    return l;
}

static size_t wino_packed_elems(const wf_winograd_shape *s, const wf_winograd_plan *plan)
{
    const wino_layout l = wino_layout_of(s, plan);
    return (size_t)l.points * WF_KERNEL(wf_gemm).packed_elems(&l.gemm, &plan->gemm);
}

static void wino_pack(const wf_winograd_shape *s, const wf_winograd_plan *plan, const float *w,
                      const wf_gemm_b_strides *st, float *out)
{
    const wino_layout l = wino_layout_of(s, plan);
    const size_t per_point = WF_KERNEL(wf_gemm).packed_elems(&l.gemm, &plan->gemm);
    memset(out, 0, (size_t)l.points * per_point * sizeof(float));
    for (int64_t j = 0; j < s->filters; j++) {
        for (int64_t i = 0; i < s->channels; i++) {
            double rows[3][WINO_SIDE_MAX];
            float *to = out + WF_KERNEL(wf_gemm).packed_at(&l.gemm, &plan->gemm, i, j);
            for (int y = 0; y < 3; y++) {
                const float *g = w + j * st->n + i * st->k + y * st->kh;
                wino_weight_1d(plan->tile, (const double[3]){g[0], g[st->kw], g[2 * st->kw]}, rows[y]);
            }
            for (int64_t x = 0; x < l.side; x++) {
                double column[WINO_SIDE_MAX];
                wino_weight_1d(plan->tile, (const double[3]){rows[0][x], rows[1][x], rows[2][x]}, column);
                for (int64_t y = 0; y < l.side; y++)
                    to[(size_t)(y * l.side + x) * per_point] = (float)column[y];
            }
        }
    }
}

static int wino_phase_count(const wf_winograd_plan *plan)
{
    return plan->phased ? 3 : 1;
}

static int64_t wino_item_count(const wf_winograd_shape *s, const wf_winograd_plan *plan, int phase)
{
    const wino_layout l = wino_layout_of(s, plan);
    assert(phase >= 0 && phase < wino_phase_count(plan));
    if (plan->phased && phase == 1)
        return WF_KERNEL(wf_gemm).item_count(&l.gemm, &plan->gemm);
    return wf_i_ceil_div(l.tiles, plan->tile_block);
}

static size_t wino_data_bytes(const wino_layout *l)
{
    return (size_t)wf_i_round_up(l->points * (l->v_stride + l->p_stride) * (int64_t)sizeof(float), 64);
}

/* A row of zeros for pixels outside of the image, and the results of a tile for the stages that are not
 * fused. */
static size_t wino_scratch_bytes(const wino_layout *l, const wf_winograd_plan *plan)
{
    return (size_t)wf_i_round_up((l->k + (int64_t)plan->tile * plan->tile * l->n) * (int64_t)sizeof(float),
                                 64);
}

static size_t wino_shared_bytes(const wf_winograd_shape *s, const wf_winograd_plan *plan)
{
    const wino_layout l = wino_layout_of(s, plan);
    return plan->phased ? wino_data_bytes(&l) : 0;
}

static size_t wino_thread_bytes(const wf_winograd_shape *s, const wf_winograd_plan *plan)
{
    const wino_layout l = wino_layout_of(s, plan);
    const size_t gemm = WF_KERNEL(wf_gemm).workspace_bytes(&l.gemm, &plan->gemm);
    return wino_scratch_bytes(&l, plan) + gemm + (plan->phased ? 0 : wino_data_bytes(&l));
}

/* ---- Tiles ---- */

typedef struct wino_tile {
    int64_t image, y, x; /* of the first output pixel */
} wino_tile;

static wino_tile wino_tile_at(const wino_layout *l, int m, int64_t index)
{
    const int64_t per_image = l->tiles_h * l->tiles_w;
    const int64_t in_image = index % per_image;
    return (wino_tile){index / per_image, in_image / l->tiles_w * m, in_image % l->tiles_w * m};
}

/* One vector of channels of one tile: points at p[side * side] to v[point * v_stride]. */
WF_INLINE void wino_input_vector(const int m, const float *const *p, int64_t c, float *v, int64_t v_stride)
{
    const int side = m + 2;
    wf_vf half[WINO_SIDE_MAX][WINO_SIDE_MAX];
    WF_UNROLL(6)
    for (int x = 0; x < side; x++) {
        wf_vf d[WINO_SIDE_MAX];
        WF_UNROLL(6)
        for (int y = 0; y < side; y++)
            d[y] = wf_v_load(p[y * side + x] + c);
        wino_input_1d(m, d);
        WF_UNROLL(6)
        for (int y = 0; y < side; y++)
            half[y][x] = d[y];
    }
    WF_UNROLL(6)
    for (int y = 0; y < side; y++) {
        wf_vf d[WINO_SIDE_MAX];
        WF_UNROLL(6)
        for (int x = 0; x < side; x++)
            d[x] = half[y][x];
        wino_input_1d(m, d);
        WF_UNROLL(6)
        for (int x = 0; x < side; x++)
            wf_v_store(v + (y * side + x) * v_stride + c, d[x]);
    }
}

/* All channels of one tile. zeros: l->k floats. */
WF_INLINE void wino_input_tile(const int m, const wf_winograd_shape *s, const wino_layout *l, const float *x,
                               wino_tile t, const float *zeros, float *v)
{
    const int side = m + 2;
    const float *p[WINO_POINTS_MAX];
    for (int64_t i = 0; i < side; i++) {
        const int64_t y = t.y - s->pad_top + i;
        for (int64_t j = 0; j < side; j++) {
            const int64_t column = t.x - s->pad_left + j;
            const int inside = y >= 0 && y < s->in_h && column >= 0 && column < s->in_w;
            p[i * side + j] =
                inside ? x + (t.image * s->image_stride + y * s->row_stride + column * s->pixel_stride)
                       : zeros;
        }
    }
    int64_t c = 0;
    for (; c + WF_VLEN <= s->channels; c += WF_VLEN)
        wino_input_vector(m, p, c, v, l->v_stride);
    if (c < s->channels) {
        float rest[WINO_POINTS_MAX * WF_VLEN] = {0};
        for (int i = 0; i < side * side; i++) {
            memcpy(rest + i * WF_VLEN, p[i] + c, (size_t)(s->channels - c) * sizeof(float));
            p[i] = rest + i * WF_VLEN;
        }
        wino_input_vector(m, p, 0, v + c, l->v_stride);
    }
}

/* One vector of filters of one tile: products at p[point * p_stride] to the m x m results. */
WF_INLINE void wino_output_vector(const int m, const float *p, int64_t p_stride,
                                  wf_vf out[WINO_TILE_MAX][WINO_TILE_MAX])
{
    const int side = m + 2;
    wf_vf half[WINO_TILE_MAX][WINO_SIDE_MAX];
    WF_UNROLL(6)
    for (int x = 0; x < side; x++) {
        wf_vf d[WINO_SIDE_MAX], y[WINO_TILE_MAX];
        WF_UNROLL(6)
        for (int i = 0; i < side; i++)
            d[i] = wf_v_load(p + (i * side + x) * p_stride);
        wino_output_1d(m, d, y);
        WF_UNROLL(4)
        for (int i = 0; i < m; i++)
            half[i][x] = y[i];
    }
    WF_UNROLL(4)
    for (int i = 0; i < m; i++) {
        wf_vf d[WINO_SIDE_MAX];
        WF_UNROLL(6)
        for (int x = 0; x < side; x++)
            d[x] = half[i][x];
        wino_output_1d(m, d, out[i]);
    }
}

/* Where the results of a tile go: pixel (i, j) of rows x cols at y + i * row_stride + j * pixel_stride. */
typedef struct wino_target {
    float *y;
    const float *residual; /* NULL: none; the same pixels with residual strides */
    int64_t row_stride, pixel_stride, residual_row_stride, residual_pixel_stride;
    int rows, cols;
} wino_target;

WF_INLINE void wino_store(const int m, wf_vf out[WINO_TILE_MAX][WINO_TILE_MAX], const wino_target *to,
                          const wf_fused_stages *f, wf_vf bias, int64_t j, size_t valid)
{
    const wf_vf lo = wf_v_set(f->lo);
    const wf_vf hi = wf_v_set(f->hi);
    WF_UNROLL(4)
    for (int y = 0; y < m; y++) {
        if (y >= to->rows)
            return;
        WF_UNROLL(4)
        for (int x = 0; x < m; x++) {
            if (x < to->cols) {
                wf_vf v = out[y][x] + bias;
                float *q = to->y + y * to->row_stride + x * to->pixel_stride + j;
                if (to->residual) {
                    const float *r =
                        to->residual + y * to->residual_row_stride + x * to->residual_pixel_stride + j;
                    v += valid == WF_VLEN ? wf_v_load(r) : wf_v_load_part(r, valid);
                }
                if (f->limit)
                    v = wf_v_min(wf_v_max(v, lo), hi);
                if (valid == WF_VLEN)
                    wf_v_store(q, v);
                else
                    wf_v_store_part(q, v, valid);
            }
        }
    }
}

/* All filters of one tile. */
WF_INLINE void wino_output_tile(const int m, const wf_winograd_shape *s, const wino_layout *l,
                                const wf_winograd_args *args, const wf_fused_stages *f, wino_tile t,
                                const float *p, float *buffer)
{
    const int64_t pixel = (t.image * s->out_h + t.y) * s->out_w + t.x;
    wino_target to = {.rows = (int)wf_i_min(m, s->out_h - t.y), .cols = (int)wf_i_min(m, s->out_w - t.x)};
    const int others = args->stage_count > f->count;
    if (others) {
        to.y = buffer;
        to.row_stride = m * l->n;
        to.pixel_stride = l->n;
    } else {
        to.y = args->y + pixel * s->ldc;
        to.row_stride = s->out_w * s->ldc;
        to.pixel_stride = s->ldc;
    }
    if (f->residual) {
        to.residual_pixel_stride = f->residual->row_stride_elems;
        to.residual_row_stride = s->out_w * to.residual_pixel_stride;
        to.residual = f->residual->data + pixel * to.residual_pixel_stride;
    }
    for (int64_t j = 0; j < s->filters; j += WF_VLEN) {
        const size_t valid = (size_t)wf_i_min(WF_VLEN, s->filters - j);
        wf_vf out[WINO_TILE_MAX][WINO_TILE_MAX];
        wino_output_vector(m, p + j, l->p_stride, out);
        wf_vf bias = {0};
        if (f->bias)
            bias = valid == WF_VLEN ? wf_v_load(f->bias->data + j) : wf_v_load_part(f->bias->data + j, valid);
        if (valid == WF_VLEN)
            wino_store(m, out, &to, f, bias, j, WF_VLEN);
        else
            wino_store(m, out, &to, f, bias, j, valid);
    }
    if (!others)
        return;
    for (int64_t y = 0; y < to.rows; y++) {
        const int64_t row = pixel + y * s->out_w;
        float *from = buffer + y * to.row_stride;
        WF_KERNEL(wf_ep_run_f32)
        (args->stages + f->count, args->stage_count - f->count, from, l->n, row, to.cols, 0, s->filters);
        for (int64_t x = 0; x < to.cols; x++)
            memcpy(args->y + (row + x) * s->ldc, from + x * l->n, (size_t)s->filters * sizeof(float));
    }
}

/* Tiles first .. first + count of the whole image into places at .. of the workspace. */
static void wino_input(const wf_winograd_shape *s, const wf_winograd_plan *plan, const wino_layout *l,
                       const float *x, int64_t first, int64_t count, int64_t at, float *zeros, float *v)
{
    memset(zeros, 0, (size_t)l->k * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        const wino_tile t = wino_tile_at(l, plan->tile, first + i);
        float *to = v + (at + i) * l->k;
        if (plan->tile == 2)
            wino_input_tile(2, s, l, x, t, zeros, to);
        else
            wino_input_tile(4, s, l, x, t, zeros, to);
    }
}

static void wino_output(const wf_winograd_shape *s, const wf_winograd_plan *plan, const wino_layout *l,
                        const wf_winograd_args *args, int64_t first, int64_t count, int64_t at,
                        const float *p, float *buffer)
{
    const wf_fused_stages f = wf_ep_fuse(args->stages, args->stage_count, args->y);
    for (int64_t i = 0; i < count; i++) {
        const wino_tile t = wino_tile_at(l, plan->tile, first + i);
        const float *from = p + (at + i) * l->n;
        if (plan->tile == 2)
            wino_output_tile(2, s, l, args, &f, t, from, buffer);
        else
            wino_output_tile(4, s, l, args, &f, t, from, buffer);
    }
}

static void wino_item(const wf_winograd_shape *s, const wf_winograd_plan *plan, const wf_winograd_args *args,
                      void *shared, void *thread, int phase, int64_t item)
{
    assert(plan->tile == 2 || plan->tile == 4);
    assert(plan->tile_block > 0 && s->channels > 0 && s->filters > 0 && s->ldc >= s->filters);
    assert(item >= 0 && item < wino_item_count(s, plan, phase));
    wino_layout l = wino_layout_of(s, plan);
    char *scratch = thread;
    char *gemm_workspace = scratch + wino_scratch_bytes(&l, plan);
    float *zeros = (float *)(void *)scratch;
    float *buffer = zeros + l.k;
    float *v = shared;
    if (!plan->phased)
        v = (float *)(void *)(gemm_workspace + WF_KERNEL(wf_gemm).workspace_bytes(&l.gemm, &plan->gemm));
    float *p = v + l.points * l.v_stride;
    const wf_gemm_args gemm = {
        .a = v,
        .b = args->packed,
        .c = p,
        .a_batch_stride = {0, l.v_stride},
        .b_batch_stride = {0, (int64_t)WF_KERNEL(wf_gemm).packed_elems(&l.gemm, &plan->gemm)},
        .c_batch_stride = {0, l.p_stride}};
    if (plan->phased && phase == 1) {
        WF_KERNEL(wf_gemm).item(&l.gemm, &plan->gemm, &gemm, gemm_workspace, item);
        return;
    }
    const int64_t first = item * plan->tile_block;
    const int64_t count = wf_i_min(plan->tile_block, l.tiles - first);
    const int64_t at = plan->phased ? first : 0;
    if (phase == 0)
        wino_input(s, plan, &l, args->x, first, count, at, zeros, v);
    if (!plan->phased) {
        l.gemm.m = count;
        const int64_t products = WF_KERNEL(wf_gemm).item_count(&l.gemm, &plan->gemm);
        for (int64_t i = 0; i < products; i++)
            WF_KERNEL(wf_gemm).item(&l.gemm, &plan->gemm, &gemm, gemm_workspace, i);
    }
    if (!plan->phased || phase == 2)
        wino_output(s, plan, &l, args, first, count, at, p, buffer);
}

/* ---- Plans ----
 *
 * Blocks of 12 to 48 tiles are within 10% of each other for 64 channels at 56x56, 128 at 28x28 and 256 at
 * 14x14, also where they overflow L2: the gain over rereading the weights is larger. F(4x4) is then 1.4
 * to 1.7 times faster than F(2x2); with 512 channels its weights (38 MB) no longer fit a cache and it falls
 * back behind (Zen 3, 2026-11-30). */

static wf_winograd_plan wino_plan(const wf_winograd_shape *s, const wf_gemm_caches *caches, int threads,
                                  int tile, int64_t tile_block, int phased, int panel_vectors)
{
    wf_winograd_plan plan = {.tile = tile, .tile_block = (int32_t)tile_block, .phased = phased};
    plan.gemm = (wf_gemm_plan){.m_block = 1, .n_block = 1, .k_block = 1, .panel_vectors = 1};
    const wino_layout l = wino_layout_of(s, &plan);
    plan.gemm = WF_KERNEL(wf_gemm).plan_default(&l.gemm, caches, phased ? threads : 1);
    if (panel_vectors && panel_vectors * WF_VLEN <= l.n)
        plan.gemm.panel_vectors = (int16_t)panel_vectors;
    return plan;
}

static wf_winograd_plan wino_plan_default(const wf_winograd_shape *s, const wf_gemm_caches *caches,
                                          int threads)
{
    const int64_t weight_bytes = 36 * (int64_t)s->channels * s->filters * (int64_t)sizeof(float);
    const int tile = weight_bytes > caches->l3_bytes || (s->out_h <= 2 && s->out_w <= 2) ? 2 : 4;
    const int64_t tiles = wf_i_ceil_div(s->out_h, tile) * wf_i_ceil_div(s->out_w, tile) * s->images;
    if (threads <= 1)
        return wino_plan(s, caches, threads, tile, wf_i_min(24, tiles), 0, 0);
    const int64_t even = wf_i_ceil_div(tiles, 4 * (int64_t)threads); /* four items per thread */
    if (even < 12)
        return wino_plan(s, caches, threads, tile, wf_i_min(4, tiles), 1, 0);
    /* As many blocks as threads in every round. */
    const int64_t rounds = wf_i_ceil_div(tiles, 24 * (int64_t)threads);
    return wino_plan(s, caches, threads, tile, wf_i_ceil_div(tiles, threads * wf_i_max(rounds, 4)), 0, 0);
}

static void wino_add_plan(const wf_winograd_plan *plan, wf_winograd_plan *list, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        if (memcmp(&list[i], plan, sizeof *plan) == 0)
            return;
    if (*count < WF_WINOGRAD_PLANS_MAX)
        list[(*count)++] = *plan;
}

static size_t wino_plan_list(const wf_winograd_shape *s, const wf_gemm_caches *caches, int threads,
                             wf_winograd_plan *out, size_t capacity)
{
    wf_winograd_plan list[WF_WINOGRAD_PLANS_MAX];
    size_t count = 0;
    const wf_winograd_plan first = wino_plan_default(s, caches, threads);
    wino_add_plan(&first, list, &count);
    static const int8_t blocks[] = {12, 24, 48};
    for (int tile = 4; tile >= 2; tile -= 2) {
        const int64_t tiles = wf_i_ceil_div(s->out_h, tile) * wf_i_ceil_div(s->out_w, tile) * s->images;
        for (int vectors = 2; vectors <= 3; vectors++) {
            wf_winograd_plan plan = wino_plan(s, caches, threads, tile, wf_i_min(4, tiles), 1, vectors);
            wino_add_plan(&plan, list, &count);
            for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
                plan = wino_plan(s, caches, threads, tile, wf_i_min(blocks[i], tiles), 0, vectors);
                wino_add_plan(&plan, list, &count);
                plan.gemm.m_band = 12;
                if (vectors == 2)
                    wino_add_plan(&plan, list, &count);
            }
        }
    }
    for (size_t i = 0; i < count && i < capacity; i++)
        out[i] = list[i];
    return count;
}

const wf_winograd_kernels WF_KERNEL(wf_winograd) = {wino_plan_default, wino_plan_list,    wino_packed_elems,
                                                    wino_pack,         wino_phase_count,  wino_item_count,
                                                    wino_shared_bytes, wino_thread_bytes, wino_item};
