/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/depthwise.h"

#include <assert.h>
#include <math.h>

#include "backends/native/kernels/simd.h"
#include "backends/native/kernels/vmath.h"

wf_ep_run_f32_fn WF_KERNEL(wf_ep_run_f32);

/* Channels that go through the rows together in BLOCK and BAND: one cache line of a pixel. */
#define DW_STEP 16

typedef enum dw_act { DW_CLIP, DW_HARD_SWISH, DW_SWISH } dw_act;

/* `channels` channels of an image. The input is the image or a copy of a part of it. */
typedef struct dw_job {
    const float *x; /* pixel 0 of input row 0 */
    ptrdiff_t x_row, x_pixel;
    ptrdiff_t in_h, in_w, pad_top, pad_left;
    float *y; /* pixel 0 of output row 0 */
    ptrdiff_t y_row, y_pixel, out_w;
    const float *bias, *w; /* w: the first tap */
    ptrdiff_t w_tap;
    ptrdiff_t channels;
    ptrdiff_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    ptrdiff_t prefetch; /* distance in elements; 0: none */
    dw_act act;
    float lo, hi; /* clip; lo is the slope of swish */
    const wf_ep_stage *stages;
    size_t stage_count;
    ptrdiff_t pixel0, channel0; /* absolute index of the first pixel and channel, for the stages */
} dw_job;

/* Neighbouring tiles of tile_w output columns: `count` of them, from output column ow on, in rows [oh0, oh1).
 */
typedef struct dw_tiles {
    ptrdiff_t ow, count, oh0, oh1;
    ptrdiff_t valid; /* columns to store, at the edge */
} dw_tiles;

/* One tile of one row: the pointers at channel 0. */
typedef struct dw_tile {
    const float *x; /* input pixel of the first column and the first kernel row that hits the image */
    const float *w; /* its first tap */
    ptrdiff_t kernel_rows;
    float *y;
    ptrdiff_t ix, valid; /* at the edge: input column of x, and columns to store */
} dw_tile;

WF_INLINE const float *dw_at(const float *x, ptrdiff_t offset)
{
    return (const float *)((uintptr_t)x +
                           (uintptr_t)offset * sizeof(float)); /* may point outside; then not read */
}

/* One vector of channels, in registers. kw = 0 means any kernel width, stride and dilation, from r; otherwise
 * dilation is 1. edge: columns outside the image are skipped, and only `valid` outputs of `lanes` channels
 * are stored. Every loop over acc has to be unrolled, or gcc keeps it in memory (2x). */
WF_INLINE void dw_vector(const dw_job *r, const dw_tile *tile, ptrdiff_t c, size_t lanes, const int tile_w,
                         const int kw, const int sw, const int edge)
{
    wf_vf acc[8];
    const wf_vf bias = wf_v_load(r->bias + c);
    WF_UNROLL(8)
    for (int t = 0; t < tile_w; t++) {
        acc[t] = bias;
    }
    const ptrdiff_t x_pixel = r->x_pixel, w_tap = r->w_tap;
    const size_t in_w = (size_t)r->in_w;
    const float *x = dw_at(tile->x, c);
    const float *w = tile->w + c;
    for (ptrdiff_t kh = tile->kernel_rows; kh > 0; kh--) {
        if (kw) {
            wf_vf wv[8];
            WF_UNROLL(8)
            for (int k = 0; k < kw; k++) {
                wv[k] = wf_v_load(w + k * w_tap);
            }
            /* Each input column is read once and added to every output that it reaches. */
            WF_UNROLL(32)
            for (int j = 0; j < (tile_w - 1) * sw + kw; j++) {
                if (edge && (size_t)(tile->ix + j) >= in_w) {
                    continue;
                }
                const wf_vf xv = wf_v_load(dw_at(x, j * x_pixel));
                WF_UNROLL(8)
                for (int t = 0; t < tile_w; t++) {
                    const int k = j - t * sw;
                    if (k >= 0 && k < kw) {
                        acc[t] += xv * wv[k];
                    }
                }
            }
            w += kw * w_tap;
        } else {
            ptrdiff_t ix = tile->ix;
            for (ptrdiff_t k = 0; k < r->kernel_w; k++) {
                const wf_vf wv = wf_v_load(w);
                WF_UNROLL(8)
                for (int t = 0; t < tile_w; t++) {
                    if (!edge || (size_t)(ix + t * r->stride_w) < in_w) {
                        acc[t] += wv * wf_v_load(dw_at(x, (k * r->dilation_w + t * r->stride_w) * x_pixel));
                    }
                }
                ix += r->dilation_w;
                w += w_tap;
            }
        }
        x = dw_at(x, r->dilation_h * r->x_row);
    }

    if (r->act == DW_CLIP) {
        const wf_vf lo = wf_v_set(r->lo), hi = wf_v_set(r->hi);
        WF_UNROLL(8)
        for (int t = 0; t < tile_w; t++) {
            acc[t] = wf_v_min(wf_v_max(acc[t], lo), hi);
        }
    } else if (r->act == DW_HARD_SWISH) {
        WF_UNROLL(8)
        for (int t = 0; t < tile_w; t++) {
            acc[t] = wf_v_hard_swish(acc[t]);
        }
    } else {
        WF_UNROLL(8)
        for (int t = 0; t < tile_w; t++) {
            acc[t] = wf_v_swish(acc[t], r->lo);
        }
    }

    float *y = tile->y + c;
    WF_UNROLL(8)
    for (int t = 0; t < tile_w; t++) {
        if (!edge) {
            wf_v_store(y + t * r->y_pixel, acc[t]);
        } else if (t < tile->valid) {
            if (lanes == WF_VLEN) {
                wf_v_store(y + t * r->y_pixel, acc[t]);
            } else {
                wf_v_store_part(y + t * r->y_pixel, acc[t], lanes);
            }
        }
    }
}

/* Fetches what comes next, of the rows that the row before did not touch: pixels of an image in L3 are too
 * far apart for the hardware. Time against none (Zen 3, 4K pages, 2026-11-30): 144@56 3x3 stride 1 0.88 to
 * 0.90, 64@112 3x3 stride 2 1.12, the rest of MobileNetV3 and EfficientNet 0.97 to 1.08. Hence a choice of
 * the plan. */
WF_INLINE void dw_prefetch(const dw_job *r, const dw_tile *tile, ptrdiff_t c, ptrdiff_t columns)
{
    const ptrdiff_t rows = r->stride_h < tile->kernel_rows ? r->stride_h : tile->kernel_rows;
    const float *at = dw_at(tile->x, (tile->kernel_rows - 1) * r->dilation_h * r->x_row + r->prefetch + c);
    for (ptrdiff_t i = 0; i < rows; i++) {
        for (ptrdiff_t j = 0; j < columns; j++) {
            __builtin_prefetch(dw_at(at, j * r->x_pixel), 0, 2);
        }
        at = dw_at(at, -r->x_row);
    }
}

/* All rows and channels of some tiles. Kept out of line, as the register allocation of the loops around it
 * spoils the inner loop (1.5x). The last vector moves back to end at the end, and computes a few results
 * again. */
WF_INLINE void dw_columns(const dw_job *job, const dw_tiles *tiles, const int tile_w, const int kw,
                          const int sw, const int edge)
{
    const dw_job r = *job; /* a local that no store to y can change */
    const ptrdiff_t n = r.channels;
    const size_t lanes = edge && n < WF_VLEN ? (size_t)n : WF_VLEN;
    const ptrdiff_t stride = tile_w * (sw ? sw : r.stride_w);
    const ptrdiff_t count = tiles->count, oh1 = tiles->oh1;
    dw_tile tile = {.ix = tiles->ow * r.stride_w - r.pad_left, .valid = tiles->valid};
    for (ptrdiff_t oh = tiles->oh0; oh < oh1; oh++) {
        /* Kernel rows [k0, k1) hit the image. */
        const ptrdiff_t iy = oh * r.stride_h - r.pad_top;
        ptrdiff_t k0 = 0, k1 = r.kernel_h;
        while (k0 < k1 && iy + k0 * r.dilation_h < 0) {
            k0++;
        }
        while (k1 > k0 && iy + (k1 - 1) * r.dilation_h >= r.in_h) {
            k1--;
        }
        tile.kernel_rows = k1 - k0;
        tile.w = r.w + k0 * r.kernel_w * r.w_tap;
        tile.x = dw_at(r.x, (iy + k0 * r.dilation_h) * r.x_row + tile.ix * r.x_pixel);
        tile.y = r.y + oh * r.y_row + tiles->ow * r.y_pixel;
        for (ptrdiff_t t = 0; t < count; t++) {
            for (ptrdiff_t c = 0; c < n; c += WF_VLEN) {
                if (r.prefetch && c % DW_STEP == 0) {
                    dw_prefetch(&r, &tile, c, stride);
                }
                if (c + WF_VLEN > n && lanes == WF_VLEN) {
                    c = n - WF_VLEN;
                }
                dw_vector(&r, &tile, c, lanes, tile_w, kw, sw, edge);
            }
            tile.x = dw_at(tile.x, stride * r.x_pixel);
            tile.y += tile_w * r.y_pixel;
        }
    }
}

typedef void dw_columns_fn(const dw_job *job, const dw_tiles *tiles);

/* Kernels with their own code: X(kernel width, stride), dilation 1; row 0 is any other. Y(tile width, kernel
 * width, stride). */
#define DW_KERNELS(X) X(0, 0) X(3, 1) X(3, 2) X(5, 1) X(5, 2) X(7, 1)

#define Y(tw, kw, sw)                                                                                     \
    static __attribute__((noinline)) void dw_inner##tw##_k##kw##s##sw(const dw_job *j, const dw_tiles *t) \
    {                                                                                                     \
        dw_columns(j, t, tw, kw, sw, 0);                                                                  \
    }                                                                                                     \
    static __attribute__((noinline)) void dw_edge##tw##_k##kw##s##sw(const dw_job *j, const dw_tiles *t)  \
    {                                                                                                     \
        dw_columns(j, t, tw, kw, sw, 1);                                                                  \
    }
#define X(kw, sw) Y(4, kw, sw) Y(7, kw, sw)
DW_KERNELS(X)
#undef X
#undef Y

static const struct {
    int32_t kernel_w, stride_w, tile_w;
    dw_columns_fn *inner, *edge;
} dw_kernels[] = {
#define Y(tw, kw, sw) {kw, sw, tw, dw_inner##tw##_k##kw##s##sw, dw_edge##tw##_k##kw##s##sw},
#define X(kw, sw) Y(4, kw, sw) Y(7, kw, sw)
    DW_KERNELS(X)
#undef X
#undef Y
};

/* Cuts rows [oh0, oh1) into runs of tiles with the same function. The last tile of a row moves back to end at
 * the end, like the last vector of channels. */
static void dw_run_rows(const dw_job *r, dw_columns_fn *inner, dw_columns_fn *edge, ptrdiff_t tile_w,
                        ptrdiff_t oh0, ptrdiff_t oh1)
{
    const ptrdiff_t span = (tile_w - 1) * r->stride_w + (r->kernel_w - 1) * r->dilation_w + 1;
    const ptrdiff_t last = r->out_w > tile_w ? r->out_w - tile_w : 0;
    dw_tiles tiles = {.oh0 = oh0, .oh1 = oh1, .valid = r->out_w < tile_w ? r->out_w : tile_w};
    const int narrow = r->channels < WF_VLEN || tiles.valid < tile_w;
    for (ptrdiff_t ow = 0; ow < r->out_w; ow += tiles.count * tile_w) {
        ow = ow < last ? ow : last;
        const ptrdiff_t ix = ow * r->stride_w - r->pad_left;
        tiles.ow = ow;
        tiles.count = 1;
        if (narrow || ix < 0 || ix + span > r->in_w) {
            edge(r, &tiles);
        } else {
            while (ow + (tiles.count + 1) * tile_w <= r->out_w &&
                   ix + tiles.count * tile_w * r->stride_w + span <= r->in_w) {
                tiles.count++;
            }
            inner(r, &tiles);
        }
    }
    for (ptrdiff_t oh = oh0; oh < oh1 && r->stage_count > 0; oh++) {
        WF_KERNEL(wf_ep_run_f32)
        (r->stages, r->stage_count, r->y + oh * r->y_row, r->y_pixel, r->pixel0 + oh * r->out_w, r->out_w,
         r->channel0, r->channels);
    }
}

/* Takes a leading activation into the registers; returns how many stages it took. */
static size_t dw_take_act(const wf_dw_args *a, dw_job *r)
{
    r->act = DW_CLIP;
    r->lo = -INFINITY;
    r->hi = INFINITY;
    if (a->stage_count == 0 || a->stages[0].operand != WF_EP_NONE) {
        return 0;
    }
    switch (a->stages[0].fn) {
    case WF_EP_RELU:
        r->lo = 0;
        return 1;
    case WF_EP_CLIP:
        r->lo = a->stages[0].a;
        r->hi = a->stages[0].b;
        return 1;
    case WF_EP_HARD_SWISH:
        r->act = DW_HARD_SWISH;
        return 1;
    case WF_EP_SWISH:
        r->act = DW_SWISH;
        r->lo = a->stages[0].a;
        return 1;
    default:
        return 0;
    }
}

/* Output channels [c0, c0 + n) of an input band, one zero-padded row after the other, DW_STEP floats a pixel.
 */
static void dw_copy_band(const wf_dw_args *a, const float *x, int64_t rows, int64_t cols, int64_t c0,
                         int64_t n, float *out)
{
    const wf_dw_shape *s = &a->shape;
    const int64_t left = s->pad_left < cols ? s->pad_left : cols;
    const int64_t end = left + s->in_w < cols ? left + s->in_w : cols;
    for (int64_t row = 0; row < rows; row++) {
        memset(out, 0, (size_t)left * DW_STEP * sizeof(float));
        memset(out + end * DW_STEP, 0, (size_t)(cols - end) * DW_STEP * sizeof(float));
        const float *p = x + row * a->x_row_stride;
        float *q = out + left * DW_STEP;
        if (s->multiplier == 1 && n == DW_STEP) {
            p += c0;
            for (int64_t col = left; col < end; col++) {
                memcpy(q, p, DW_STEP * sizeof(float));
                p += a->x_pixel_stride;
                q += DW_STEP;
            }
        } else {
            for (int64_t col = left; col < end; col++) {
                for (int64_t c = 0; c < DW_STEP; c++) {
                    q[c] = c < n ? p[(c0 + c) / s->multiplier] : 0.0f;
                }
                p += a->x_pixel_stride;
                q += DW_STEP;
            }
        }
        out += cols * DW_STEP;
    }
}

void WF_KERNEL(wf_dw_f32)(const wf_dw_args *a, int64_t item, void *scratch)
{
    const wf_dw_shape *s = &a->shape;
    const wf_dw_plan *plan = &a->plan;
    assert(plan->tile_w == 4 || plan->tile_w == 7);
    assert(plan->band_rows >= 1 && plan->block_channels >= DW_STEP && plan->block_channels % DW_STEP == 0);
    assert(item >= 0 && item < wf_dw_items(a));

    const int64_t channels = (int64_t)s->channels * s->multiplier;
    const int64_t padded = (channels + WF_VLEN_MAX - 1) / WF_VLEN_MAX * WF_VLEN_MAX;
    const int64_t blocks = wf_dw_blocks(a);
    const int64_t bands = (s->out_h + plan->band_rows - 1) / plan->band_rows;
    const int64_t block = item % blocks;
    const int64_t band = item / blocks % bands;
    const int64_t image = item / blocks / bands;
    const int64_t oh0 = band * plan->band_rows;
    const int64_t oh1 = oh0 + plan->band_rows < s->out_h ? oh0 + plan->band_rows : s->out_h;
    const int64_t c0 = block * plan->block_channels;
    const int64_t c1 = block + 1 == blocks ? channels : c0 + plan->block_channels;
    const int copy = wf_dw_scratch_bytes(a) > 0;
    assert(!copy || scratch);

    dw_job r = {.x_row = a->x_row_stride,
                .x_pixel = a->x_pixel_stride,
                .in_h = s->in_h,
                .in_w = s->in_w,
                .pad_top = s->pad_top,
                .pad_left = s->pad_left,
                .y_row = a->y_row_stride,
                .y_pixel = a->y_pixel_stride,
                .out_w = s->out_w,
                .w_tap = padded,
                .kernel_h = s->kernel_h,
                .kernel_w = s->kernel_w,
                .stride_h = s->stride_h,
                .stride_w = s->stride_w,
                .dilation_h = s->dilation_h,
                .dilation_w = s->dilation_w,
                .pixel0 = image * s->out_h * s->out_w};
    const size_t taken = dw_take_act(a, &r);
    r.stages = a->stages + taken;
    r.stage_count = a->stage_count - taken;
    size_t kernel = plan->tile_w == 4 ? 0 : 1;
    for (size_t i = 0; i < sizeof dw_kernels / sizeof dw_kernels[0]; i++) {
        if (dw_kernels[i].tile_w == plan->tile_w && dw_kernels[i].kernel_w == s->kernel_w &&
            dw_kernels[i].stride_w == s->stride_w && s->dilation_w == 1) {
            kernel = i;
        }
    }

    const float *x = a->x + image * a->x_image_stride;
    int64_t top = 0;
    if (copy) {
        /* Only the input rows of this band, as wide as all tiles need. */
        top = oh0 * s->stride_h - s->pad_top;
        top = top > 0 ? top : 0;
        int64_t bottom =
            (oh1 - 1) * s->stride_h - s->pad_top + (int64_t)(s->kernel_h - 1) * s->dilation_h + 1;
        bottom = bottom < s->in_h ? bottom : s->in_h;
        const int64_t out_w = s->out_w > plan->tile_w ? s->out_w : plan->tile_w;
        r.in_h = bottom > top ? bottom - top : 0;
        r.in_w = (out_w - 1) * s->stride_w + (int64_t)(s->kernel_w - 1) * s->dilation_w + 1;
        r.pad_top = s->pad_top + top;
        r.pad_left = 0;
        r.x_pixel = DW_STEP;
        r.x_row = r.in_w * DW_STEP;
    }

    if (plan->prefetch && !copy) {
        r.prefetch = plan->variant == WF_DW_ROWS ? plan->tile_w * s->stride_w * a->x_pixel_stride
                                                 : s->stride_h * a->x_row_stride;
    }
    const int64_t rows = copy || plan->variant != WF_DW_ROWS ? oh1 - oh0 : 1;
    const int64_t step = copy || plan->variant != WF_DW_ROWS ? DW_STEP : c1 - c0;
    for (int64_t c = c0; c < c1;) {
        /* A direct step that is too short for a vector joins the one before. */
        const int64_t n = c1 - c < step || (!copy && c1 - c < 2 * step) ? c1 - c : step;
        if (copy) {
            dw_copy_band(a, x + top * a->x_row_stride, r.in_h, r.in_w, c, n, scratch);
        }
        r.x = copy ? scratch : x + c;
        r.bias = a->packed + c;
        r.w = a->packed + padded + c;
        r.y = a->y + image * a->y_image_stride + c;
        r.channels = n;
        r.channel0 = c;
        for (int64_t oh = oh0; oh < oh1; oh += rows) {
            dw_run_rows(&r, dw_kernels[kernel].inner, dw_kernels[kernel].edge, plan->tile_w, oh, oh + rows);
        }
        c += n;
    }
}
