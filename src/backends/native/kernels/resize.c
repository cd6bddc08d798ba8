/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/resize.h"

#include <assert.h>

#include "backends/native/kernels/lanes.h"

/* Pixels of up to 16 bytes have a copy of constant size: a call of memcpy per pixel takes longer than the
 * copy. */
#define RESIZE_PIXELS(X) X(1) X(2) X(3) X(4) X(8) X(12) X(16)

static void resize_nearest_row(const wf_resize_nearest_args *a, const uint8_t *x, uint8_t *y)
{
    switch (a->pixel_bytes) {
#define X(bytes)                                                                               \
    case bytes:                                                                                \
        for (int64_t ow = 0; ow < a->out_w; ow++) {                                            \
            memcpy(y + ow * a->y_pixel_bytes, x + a->col_index[ow] * a->x_pixel_bytes, bytes); \
        }                                                                                      \
        break;
        RESIZE_PIXELS(X)
#undef X
    default:
        for (int64_t ow = 0; ow < a->out_w; ow++) {
            memcpy(y + ow * a->y_pixel_bytes, x + a->col_index[ow] * a->x_pixel_bytes,
                   (size_t)a->pixel_bytes);
        }
    }
}

void WF_KERNEL(wf_resize_nearest)(const wf_resize_nearest_args *a, int64_t begin, int64_t end)
{
    assert(begin >= 0 && begin <= end && end <= a->images * a->out_h);
    for (int64_t row = begin; row < end; row++) {
        const int64_t image = row / a->out_h, oh = row % a->out_h;
        const uint8_t *x = a->x;
        uint8_t *y = a->y;
        resize_nearest_row(a, x + image * a->x_image_bytes + a->row_index[oh] * a->x_row_bytes,
                           y + image * a->y_image_bytes + oh * a->y_row_bytes);
    }
}

/* out = (or +=) w * x, elementwise. */
static void resize_add(const float *x, float w, int first, float *out, int64_t n)
{
    const wf_vf weight = wf_v_set(w);
    for (int64_t i = 0; i < n; i += WF_VLEN) {
        const size_t count = n - i < WF_VLEN ? (size_t)(n - i) : WF_VLEN;
        wf_vf v = wf_v_load_n(x + i, count) * weight;
        if (!first) {
            v += wf_v_load_n(out + i, count);
        }
        wf_v_store_n(out + i, v, count);
    }
}

/* out = w[0] * x0 + w[1] * x1, elementwise: the linear case in one pass. */
static void resize_add2(const float *x0, const float *x1, const float *w, float *out, int64_t n)
{
    const wf_vf w0 = wf_v_set(w[0]), w1 = wf_v_set(w[1]);
    for (int64_t i = 0; i < n; i += WF_VLEN) {
        const size_t count = n - i < WF_VLEN ? (size_t)(n - i) : WF_VLEN;
        wf_v_store_n(out + i, wf_v_load_n(x0 + i, count) * w0 + wf_v_load_n(x1 + i, count) * w1, count);
    }
}

/* out[0..n) = sum over taps of weight * x[index * stride], where x has rows of n elements. */
static void resize_combine(const float *x, int64_t stride, const int32_t *index, const float *weight,
                           int32_t taps, float *out, int64_t n)
{
    if (taps == 2 && weight[0] != 0.0f && weight[1] != 0.0f) {
        resize_add2(x + index[0] * stride, x + index[1] * stride, weight, out, n);
        return;
    }
    int first = 1;
    for (int32_t t = 0; t < taps; t++) {
        if (weight[t] != 0.0f) {
            resize_add(x + index[t] * stride, weight[t], first, out, n);
            first = 0;
        }
    }
    if (first) {
        memset(out, 0, (size_t)n * sizeof(float));
    }
}

/* The columns of a row with fewer channels than a vector. */
static void resize_thin_row(const wf_resize_f32_args *a, const float *x, float *y)
{
    for (int64_t ow = 0; ow < a->out_w; ow++) {
        const int32_t *index = a->col_index + ow * a->col_taps;
        const float *weight = a->col_weight + ow * a->col_taps;
        float *out = y + ow * a->y_pixel_stride;
        for (int64_t c = 0; c < a->channels; c++) {
            float sum = 0;
            for (int32_t t = 0; t < a->col_taps; t++) {
                if (weight[t] != 0.0f) {
                    sum += weight[t] * x[index[t] * a->channels + c];
                }
            }
            out[c] = sum;
        }
    }
}

void WF_KERNEL(wf_resize_f32)(const wf_resize_f32_args *a, int64_t begin, int64_t end, void *scratch)
{
    assert(begin >= 0 && begin <= end && end <= a->images * a->out_h);
    assert(a->row_taps >= 1 && a->col_taps >= 1 && a->channels >= 1 && scratch);
    float *line = scratch; /* the combined input rows, dense */
    for (int64_t row = begin; row < end; row++) {
        const int64_t image = row / a->out_h, oh = row % a->out_h;
        const float *x = a->x + image * a->x_image_stride;
        float *y = a->y + image * a->y_image_stride + oh * a->y_row_stride;
        const int32_t *index = a->row_index + oh * a->row_taps;
        const float *weight = a->row_weight + oh * a->row_taps;
        /* Dense pixels are one long row. */
        const int64_t pixels = a->x_pixel_stride == a->channels ? 1 : a->in_w;
        const int64_t width = a->in_w * a->channels / pixels;
        for (int64_t p = 0; p < pixels; p++) {
            resize_combine(x + p * a->x_pixel_stride, a->x_row_stride, index, weight, a->row_taps,
                           line + p * width, width);
        }
        if (a->channels < WF_VLEN) {
            resize_thin_row(a, line, y);
            continue;
        }
        for (int64_t ow = 0; ow < a->out_w; ow++) {
            resize_combine(line, a->channels, a->col_index + ow * a->col_taps,
                           a->col_weight + ow * a->col_taps, a->col_taps, y + ow * a->y_pixel_stride,
                           a->channels);
        }
    }
}
