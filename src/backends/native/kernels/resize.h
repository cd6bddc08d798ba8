/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing of channels-last images by tables that the caller makes, so that every coordinate mode is the
 * caller's.
 *
 * Nearest: y[oh][ow] = x[row_index[oh]][col_index[ow]], pixels of any type. A channels-first image is one
 * with images * channels images of one-element pixels.
 *
 * Separable: y[oh][ow][c] = sum over i, j of row_weight[oh][i] * col_weight[ow][j] * x[row_index[oh][i]]
 * [col_index[ow][j]][c]: two taps are linear, four are cubic, more are an antialiased reduction. Rows are
 * combined first. A tap of weight zero is not read.
 *
 * A row of work is an output row; rows never share an output, and results do not depend on the cut. Nothing
 * here allocates or blocks. All functions are thread-safe.
 */
#ifndef WF_NATIVE_RESIZE_H
#define WF_NATIVE_RESIZE_H

#include <stdint.h>

#include "backends/native/kernels/tiers.h"

typedef struct wf_resize_nearest_args {
    const void *x;
    void *y; /* must not overlap x */
    int64_t images, out_h, out_w, pixel_bytes;
    int64_t x_image_bytes, x_row_bytes, x_pixel_bytes; /* distances */
    int64_t y_image_bytes, y_row_bytes, y_pixel_bytes;
    const int32_t *row_index; /* [out_h], inside the input */
    const int32_t *col_index; /* [out_w] */
} wf_resize_nearest_args;

/* Computes rows [begin, end) of the images * out_h. */
typedef void wf_resize_nearest_fn(const wf_resize_nearest_args *a, int64_t begin, int64_t end);

typedef struct wf_resize_f32_args {
    const float *x;
    float *y; /* must not overlap x */
    int64_t images, in_w, out_h, out_w, channels;
    int64_t x_image_stride, x_row_stride, x_pixel_stride; /* elements; channels are contiguous */
    int64_t y_image_stride, y_row_stride, y_pixel_stride;
    int32_t row_taps, col_taps;
    const int32_t *row_index; /* [out_h][row_taps], inside the input */
    const float *row_weight;  /* [out_h][row_taps] */
    const int32_t *col_index; /* [out_w][col_taps] */
    const float *col_weight;  /* [out_w][col_taps] */
} wf_resize_f32_args;

/* Bytes of scratch that one thread needs: a row of the input. */
static inline int64_t wf_resize_scratch_bytes(const wf_resize_f32_args *a)
{
    return a->in_w * a->channels * (int64_t)sizeof(float);
}

/* Computes rows [begin, end) of the images * out_h. */
typedef void wf_resize_f32_fn(const wf_resize_f32_args *a, int64_t begin, int64_t end, void *scratch);

#define WF_X(tier)                                 \
    wf_resize_nearest_fn wf_resize_nearest_##tier; \
    wf_resize_f32_fn wf_resize_f32_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
