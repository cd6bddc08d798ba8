/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution, f32, channels last.
 *
 * y[n][oh][ow][oc] = act(bias[oc] + sum over taps (i, j) of
 *                      w[i][j][oc] * x[n][oh * sh + i * dh - pad_top][ow * sw + j * dw - pad_left][oc /
 * multiplier]) where x outside the image counts as zero; weights are finite. The taps of a result are always
 * added in the same order: items of any size on any number of threads give bit-equal results, and so do the
 * variants, but for the sign of a zero (only BAND adds the zeros of the padding).
 *
 * Work is cut into items of (image, band of output rows, block of channels) that never share an output; the
 * caller hands items to threads. Nothing here allocates or blocks. All functions are thread-safe.
 */
#ifndef WF_NATIVE_DEPTHWISE_H
#define WF_NATIVE_DEPTHWISE_H

#include <stddef.h>
#include <stdint.h>

#include "backends/native/kernels/epilogue.h"
#include "backends/native/kernels/tiers.h"

typedef struct wf_dw_shape {
    int32_t images;
    int32_t in_h, in_w, out_h, out_w;
    int32_t channels;   /* of x; y has channels * multiplier */
    int32_t multiplier; /* output channels per input channel; 1 is the fast case */
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t pad_top, pad_left; /* the other two sides follow from the output size */
} wf_dw_shape;

/* The order of the loops inside an item; the tuner chooses. Same results. */
typedef enum wf_dw_variant {
    WF_DW_ROWS,  /* row, columns, channels: streams whole pixels; good for few channels or large images */
    WF_DW_BLOCK, /* 16 channels at a time through all rows of the item: the row window stays in L1 */
    WF_DW_BAND,  /* as BLOCK, on a zero-padded copy of the input band; needs scratch, immune to cache aliasing
                  */
    WF_DW_VARIANT_COUNT
} wf_dw_variant;

typedef struct wf_dw_plan {
    wf_dw_variant variant;
    int32_t tile_w;    /* output columns kept in registers: 7 or 4 */
    int32_t band_rows; /* output rows of an item, >= 1 */
    int32_t
        block_channels; /* output channels of an item, a multiple of 16; a short rest joins the last block */
    int32_t prefetch;   /* 1: software prefetch of the input, for images beyond L2; nothing in BAND */
} wf_dw_plan;

typedef struct wf_dw_args {
    wf_dw_shape shape;
    wf_dw_plan plan;
    const float *x;
    int64_t x_image_stride, x_row_stride, x_pixel_stride; /* elements; channels are contiguous */
    float *y;                                             /* must not overlap x */
    int64_t y_image_stride, y_row_stride, y_pixel_stride;
    const float *packed; /* from wf_dw_pack */
    /* Applied in order. A leading RELU, CLIP, HARD_SWISH or SWISH is applied in registers. The row of a stage
     * is the pixel (n * out_h + oh) * out_w + ow, the column the output channel. */
    const wf_ep_stage *stages;
    size_t stage_count;
} wf_dw_args;

/* Floats of the packed weights: a row of biases, then one row per tap, each padded to 16 channels. */
static inline int64_t wf_dw_packed_elems(const wf_dw_shape *s)
{
    int64_t channels = (int64_t)s->channels * s->multiplier;
    return ((int64_t)s->kernel_h * s->kernel_w + 1) *
           ((channels + WF_VLEN_MAX - 1) / WF_VLEN_MAX * WF_VLEN_MAX);
}

/* Packs ONNX weights w[out channels][1][kernel_h][kernel_w] and bias[out channels] (NULL: zeros) into
 * out_packed[wf_dw_packed_elems(s)]; the layout is the same for every tier. */
static inline void wf_dw_pack(const wf_dw_shape *s, const float *w, const float *bias, float *out_packed)
{
    int64_t channels = (int64_t)s->channels * s->multiplier;
    int64_t stride = (channels + WF_VLEN_MAX - 1) / WF_VLEN_MAX * WF_VLEN_MAX;
    int64_t taps = (int64_t)s->kernel_h * s->kernel_w;
    for (int64_t row = 0; row <= taps; row++) {
        for (int64_t c = 0; c < stride; c++) {
            float v = 0;
            if (c < channels && row > 0) {
                v = w[c * taps + row - 1];
            } else if (c < channels && bias) {
                v = bias[c];
            }
            out_packed[row * stride + c] = v;
        }
    }
}

/* Blocks of channels of a plan: full ones, the last one longer by the rest. */
static inline int64_t wf_dw_blocks(const wf_dw_args *a)
{
    int64_t blocks = (int64_t)a->shape.channels * a->shape.multiplier / a->plan.block_channels;
    return blocks > 0 ? blocks : 1;
}

/* Items of the whole convolution; item i is band-major within an image, blocks of channels innermost. */
static inline int64_t wf_dw_items(const wf_dw_args *a)
{
    int64_t bands = (a->shape.out_h + a->plan.band_rows - 1) / a->plan.band_rows;
    return a->shape.images * bands * wf_dw_blocks(a);
}

/* Bytes of scratch that one thread needs for any item, 64-byte aligned; may be 0. Other variants than BAND
 * also copy when multiplier > 1 or when there are fewer than 16 channels. */
static inline int64_t wf_dw_scratch_bytes(const wf_dw_args *a)
{
    const wf_dw_shape *s = &a->shape;
    if (a->plan.variant != WF_DW_BAND && s->multiplier == 1 && s->channels >= WF_VLEN_MAX) {
        return 0;
    }
    int64_t out_w = s->out_w > a->plan.tile_w ? s->out_w : a->plan.tile_w;
    int64_t rows =
        (int64_t)(a->plan.band_rows - 1) * s->stride_h + (int64_t)(s->kernel_h - 1) * s->dilation_h + 1;
    int64_t cols = (out_w - 1) * s->stride_w + (int64_t)(s->kernel_w - 1) * s->dilation_w + 1;
    return rows * cols * WF_VLEN_MAX * (int64_t)sizeof(float);
}

/* Computes item `item` in [0, wf_dw_items(a)). Sizes are >= 1 and already checked for overflow by the caller;
 * a->plan is valid (asserted). scratch: wf_dw_scratch_bytes(a), not shared between threads. */
typedef void wf_dw_f32_fn(const wf_dw_args *a, int64_t item, void *scratch);

#define WF_X(tier) wf_dw_f32_fn wf_dw_f32_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
