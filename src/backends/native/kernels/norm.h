/* SPDX-License-Identifier: Apache-2.0 */
/* Layer, RMS, group and instance normalisation, f32, each with an optional residual added first.
 *
 *   s = x + residual + sum_bias
 *   y = (s - mean s) / sqrt(variance s + eps) * scale + bias          (RMS: s / sqrt(mean s^2 + eps) * scale
 * + bias)
 *
 * Means are over a row (layer, RMS) or over a group of channels of an image (group; instance: one channel a
 * group). The variance is the mean of the squared distances from the mean, computed in a second pass. Partial
 * sums are short and added in double precision, so long groups lose nothing. Within a tier results do not
 * depend on how the work is cut. Nothing here allocates or blocks. All functions are thread-safe.
 */
#ifndef WF_NATIVE_NORM_H
#define WF_NATIVE_NORM_H

#include <stdint.h>

#include "backends/native/kernels/tiers.h"

/* Rows of `cols` neighbouring elements. Strides in elements. */
typedef struct wf_norm_args {
    const float *x;
    int64_t x_row_stride;
    const float *residual; /* NULL: none */
    int64_t residual_row_stride;
    const float *sum_bias; /* [cols], added with the residual; NULL: none */
    float *sum;            /* s; NULL: not wanted. May be x or residual */
    int64_t sum_row_stride;
    float *y; /* may be x or residual; not sum, unless that is NULL */
    int64_t y_row_stride;
    const float *scale, *bias; /* [cols]; NULL: one, zero */
    float *mean, *inv_std;     /* [rows] results of the same names; NULL: not wanted */
    int64_t rows, cols;
    float eps;
    int32_t rms; /* 1: root mean square: no mean is subtracted (and none is written) */
} wf_norm_args;

/* Normalises rows [begin, end). rows and cols >= 1. */
typedef void wf_norm_f32_fn(const wf_norm_args *a, int64_t begin, int64_t end);

typedef enum wf_group_norm_layout {
    WF_GROUP_NORM_CHANNELS_FIRST, /* dense [images][channels][pixels] */
    WF_GROUP_NORM_CHANNELS_LAST   /* dense [images][pixels][channels] */
} wf_group_norm_layout;

typedef struct wf_group_norm_args {
    wf_group_norm_layout layout;
    const float *x;
    const float *residual;     /* like x; NULL: none */
    float *sum;                /* like x: s; NULL: not wanted. May be x or residual */
    float *y;                  /* may be x or residual; not sum, unless that is NULL */
    const float *scale, *bias; /* [channels]; NULL: one, zero */
    int64_t images, channels, pixels;
    int64_t groups; /* divides channels; instance normalisation: groups = channels */
    float eps;
    int32_t groups_per_item; /* groups of an item, >= 1; channels last wants 16 channels or more */
} wf_group_norm_args;

/* Items of the whole normalisation. */
static inline int64_t wf_group_norm_items(const wf_group_norm_args *a)
{
    return a->images * ((a->groups + a->groups_per_item - 1) / a->groups_per_item);
}

/* Bytes of scratch that one thread needs, 64-byte aligned; 0 for channels first. */
static inline int64_t wf_group_norm_scratch_bytes(const wf_group_norm_args *a)
{
    int64_t channels = a->channels / a->groups * a->groups_per_item;
    int64_t padded = (channels + WF_VLEN_MAX - 1) / WF_VLEN_MAX * WF_VLEN_MAX;
    return a->layout == WF_GROUP_NORM_CHANNELS_LAST ? 3 * padded * (int64_t)sizeof(double) : 0;
}

/* Normalises item `item` in [0, wf_group_norm_items(a)). Sizes >= 1 (asserted). */
typedef void wf_group_norm_f32_fn(const wf_group_norm_args *a, int64_t item, void *scratch);

#define WF_X(tier)                     \
    wf_norm_f32_fn wf_norm_f32_##tier; \
    wf_group_norm_f32_fn wf_group_norm_f32_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
