/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling, f32, channels last.
 *
 * y[n][oh][ow][c] is the maximum or the mean of the x[n][oh * sh + i * dh - pad_top][ow * sw + j * dw -
 * pad_left][c], 0 <= i < kernel_h, 0 <= j < kernel_w, that lie inside the image. Output sizes are the
 * caller's (floor or ceil mode); a window may reach beyond the padded image. A global pool is a window of the
 * whole image with one output pixel; of a channels-first image it is the WF_REDUCE_MEAN or WF_REDUCE_MAX of
 * reduce.h over [images * channels, pixels, 1].
 *
 * A NaN in the window makes the maximum NaN wherever it stands, as in the reference; ONNX Runtime keeps or
 * loses it by its place in the window. A window without pixels gives -infinity, or as a WF_POOL_MEAN NaN (0 /
 * 0).
 *
 * Work is cut into items of (image, band of output rows, block of channels) that never share an output;
 * results do not depend on the cut. Nothing here allocates or blocks. All functions are thread-safe.
 */
#ifndef WF_NATIVE_POOL_H
#define WF_NATIVE_POOL_H

#include <stdint.h>

#include "backends/native/kernels/tiers.h"

typedef enum wf_pool_kind {
    WF_POOL_MAX,
    WF_POOL_MEAN,        /* divided by the pixels inside the image */
    WF_POOL_MEAN_PADDED, /* divided by the pixels inside the padded image (ONNX count_include_pad) */
    WF_POOL_KIND_COUNT
} wf_pool_kind;

typedef struct wf_pool_args {
    wf_pool_kind kind;
    int32_t images, in_h, in_w, out_h, out_w, channels;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t pad_top, pad_left, pad_bottom, pad_right;
    const float *x;
    int64_t x_image_stride, x_row_stride, x_pixel_stride; /* elements; channels are contiguous */
    float *y;                                             /* must not overlap x */
    int64_t y_image_stride, y_row_stride, y_pixel_stride;
    /* Size of an item: output rows, and channels (a multiple of 16; a short rest joins the last block). */
    int32_t band_rows, block_channels;
} wf_pool_args;

static inline int64_t wf_pool_blocks(const wf_pool_args *a)
{
    int64_t blocks = a->channels / a->block_channels;
    return blocks > 0 ? blocks : 1;
}

/* Items of the whole pool. */
static inline int64_t wf_pool_items(const wf_pool_args *a)
{
    return a->images * (int64_t)((a->out_h + a->band_rows - 1) / a->band_rows) * wf_pool_blocks(a);
}

/* Computes item `item` in [0, wf_pool_items(a)). Sizes are >= 1, pads >= 0 (asserted). */
typedef void wf_pool_f32_fn(const wf_pool_args *a, int64_t item);

#define WF_X(tier) wf_pool_f32_fn wf_pool_f32_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
