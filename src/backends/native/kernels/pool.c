/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/pool.h"

#include <assert.h>
#include <math.h>

#include "backends/native/kernels/lanes.h"

/* The taps of one window that lie inside the image. */
typedef struct pool_window {
    const float *x; /* channel 0 of the first */
    ptrdiff_t rows, cols;
    ptrdiff_t row_step, col_step;
    float divisor;
} pool_window;

/* `vectors` vectors of channels in registers; only the first `lanes` lanes when there is one. Means are
 * summed row by row, which keeps the rounding error of a global pool small. */
WF_INLINE void pool_vectors(const pool_window *w, float *y, ptrdiff_t c, const int vectors, size_t lanes,
                            const int max)
{
    wf_vf acc[4], row[4];
    WF_UNROLL(4)
    for (int v = 0; v < vectors; v++) {
        acc[v] = wf_v_set(max ? -INFINITY : 0.0f);
    }
    const float *x = w->x + c;
    const ptrdiff_t col_step = w->col_step;
    for (ptrdiff_t i = w->rows; i > 0; i--) {
        const float *p = x;
        WF_UNROLL(4)
        for (int v = 0; v < vectors; v++) {
            row[v] = wf_v_set(0.0f);
        }
        for (ptrdiff_t j = w->cols; j > 0; j--) {
            WF_UNROLL(4)
            for (int v = 0; v < vectors; v++) {
                const wf_vf xv = wf_v_load_n(p + v * WF_VLEN, lanes);
                if (max) {
                    acc[v] = wf_v_max_nan(acc[v], xv);
                } else {
                    row[v] += xv;
                }
            }
            p += col_step;
        }
        if (!max) {
            WF_UNROLL(4)
            for (int v = 0; v < vectors; v++) {
                acc[v] += row[v];
            }
        }
        x += w->row_step;
    }
    WF_UNROLL(4)
    for (int v = 0; v < vectors; v++) {
        if (!max) {
            acc[v] /= w->divisor;
        }
        wf_v_store_n(y + c + v * WF_VLEN, acc[v], lanes);
    }
}

/* All channels of one output pixel. The last vector moves back to end at the end. */
WF_INLINE void pool_pixel(const pool_window *w, float *y, ptrdiff_t channels, const int max)
{
    ptrdiff_t c = 0;
    for (; c + 4 * WF_VLEN <= channels; c += 4 * WF_VLEN) {
        pool_vectors(w, y, c, 4, WF_VLEN, max);
    }
    for (; c + WF_VLEN <= channels; c += WF_VLEN) {
        pool_vectors(w, y, c, 1, WF_VLEN, max);
    }
    if (c < channels && channels >= WF_VLEN) {
        pool_vectors(w, y, channels - WF_VLEN, 1, WF_VLEN, max);
    } else if (c < channels) {
        pool_vectors(w, y, 0, 1, (size_t)channels, max);
    }
}

static void pool_pixel_max(const pool_window *w, float *y, ptrdiff_t channels)
{
    pool_pixel(w, y, channels, 1);
}

static void pool_pixel_mean(const pool_window *w, float *y, ptrdiff_t channels)
{
    pool_pixel(w, y, channels, 0);
}

/* Taps start + i * dilation, 0 <= i < kernel, in [0, size): the first of them, their number, and the number
 * that is below `padded_end` (none is above the padding). */
typedef struct pool_span {
    int64_t first, count, padded_count;
} pool_span;

static int64_t pool_taps_below(int64_t start, int64_t dilation, int64_t kernel, int64_t end)
{
    int64_t taps = end > start ? end - start : 0;
    if (dilation > 1) { /* a division for every pixel would cost more than a small window */
        taps = (taps + dilation - 1) / dilation;
    }
    return taps < kernel ? taps : kernel;
}

static pool_span pool_clip(int64_t start, int64_t dilation, int64_t kernel, int64_t size, int64_t padded_end)
{
    const int64_t before = pool_taps_below(start, dilation, kernel, 0);
    const int64_t below = pool_taps_below(start, dilation, kernel, size);
    return (pool_span){start + before * dilation, below - before,
                       pool_taps_below(start, dilation, kernel, padded_end)};
}

void WF_KERNEL(wf_pool_f32)(const wf_pool_args *a, int64_t item)
{
    assert(a->band_rows >= 1 && a->block_channels >= 16 && a->block_channels % 16 == 0);
    assert(a->kernel_h >= 1 && a->kernel_w >= 1 && a->stride_h >= 1 && a->stride_w >= 1);
    assert(a->dilation_h >= 1 && a->dilation_w >= 1 && a->pad_top >= 0 && a->pad_left >= 0);
    assert(item >= 0 && item < wf_pool_items(a));

    const int64_t blocks = wf_pool_blocks(a);
    const int64_t bands = (a->out_h + a->band_rows - 1) / a->band_rows;
    const int64_t block = item % blocks;
    const int64_t oh0 = item / blocks % bands * a->band_rows;
    const int64_t oh1 = oh0 + a->band_rows < a->out_h ? oh0 + a->band_rows : a->out_h;
    const int64_t image = item / blocks / bands;
    const int64_t c0 = block * a->block_channels;
    const int64_t channels = block + 1 == blocks ? a->channels - c0 : a->block_channels;
    const float *x = a->x + image * a->x_image_stride + c0;

    pool_window w = {.row_step = a->dilation_h * a->x_row_stride,
                     .col_step = a->dilation_w * a->x_pixel_stride};
    for (int64_t oh = oh0; oh < oh1; oh++) {
        const pool_span v = pool_clip(oh * a->stride_h - a->pad_top, a->dilation_h, a->kernel_h, a->in_h,
                                      (int64_t)a->in_h + a->pad_bottom);
        float *y = a->y + image * a->y_image_stride + oh * a->y_row_stride + c0;
        for (int64_t ow = 0; ow < a->out_w; ow++) {
            const pool_span h = pool_clip(ow * a->stride_w - a->pad_left, a->dilation_w, a->kernel_w, a->in_w,
                                          (int64_t)a->in_w + a->pad_right);
            const int64_t taps = v.count * h.count;
            w.rows = taps > 0 ? v.count : 0;
            w.cols = h.count;
            w.x = taps > 0 ? x + v.first * a->x_row_stride + h.first * a->x_pixel_stride : x;
            w.divisor = (float)(a->kind == WF_POOL_MEAN_PADDED ? v.padded_count * h.padded_count : taps);
            if (a->kind == WF_POOL_MAX) {
                pool_pixel_max(&w, y, channels);
            } else {
                pool_pixel_mean(&w, y, channels);
            }
            y += a->y_pixel_stride;
        }
    }
}
