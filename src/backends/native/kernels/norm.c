/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/norm.h"

#include <assert.h>

#include "backends/native/kernels/lanes.h"

/* Terms that go into one float per lane before the sum moves on in double. */
#define NORM_CHUNK 4096

/* out = a + b + c, elementwise, b and c optional; out may be a or b. */
static void norm_add(const float *a, const float *b, const float *c, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i += WF_VLEN) {
        const size_t count = n - i < WF_VLEN ? (size_t)(n - i) : WF_VLEN;
        wf_vf s = wf_v_load_n(a + i, count);
        if (b) {
            s += wf_v_load_n(b + i, count);
        }
        if (c) {
            s += wf_v_load_n(c + i, count);
        }
        wf_v_store_n(out + i, s, count);
    }
}

/* The sum of x - shift, or of its square. */
WF_INLINE double norm_total(const float *x, int64_t n, float shift, const int squared)
{
    const wf_vf m = wf_v_set(shift);
    double total = 0;
    for (int64_t begin = 0; begin < n; begin += NORM_CHUNK) {
        const int64_t end = begin + NORM_CHUNK < n ? begin + NORM_CHUNK : n;
        wf_vf acc[4];
        WF_UNROLL(4)
        for (int v = 0; v < 4; v++) {
            acc[v] = wf_v_set(0.0f);
        }
        int64_t i = begin;
        for (; i + 4 * WF_VLEN <= end; i += 4 * WF_VLEN) {
            WF_UNROLL(4)
            for (int v = 0; v < 4; v++) {
                const wf_vf d = wf_v_load(x + i + v * WF_VLEN) - m;
                acc[v] += squared ? d * d : d;
            }
        }
        for (; i < end; i += WF_VLEN) {
            const size_t count = end - i < WF_VLEN ? (size_t)(end - i) : WF_VLEN;
            const wf_vf d = wf_v_first(wf_v_load_n(x + i, count) - m, count, 0.0f);
            acc[0] += squared ? d * d : d;
        }
        total += (double)wf_v_sum_lanes((acc[0] + acc[1]) + (acc[2] + acc[3]));
    }
    return total;
}

static float norm_mean(const float *x, int64_t n)
{
    return (float)(norm_total(x, n, 0.0f, 0) / (double)n);
}

/* 1 / sqrt(mean (x - mean)^2 + eps) */
static float norm_inv_std(const float *x, int64_t n, float mean, float eps)
{
    const float variance = (float)(norm_total(x, n, mean, 1) / (double)n);
    return (1.0f / wf_v_sqrt(wf_v_set(variance + eps)))[0];
}

static void norm_row(const wf_norm_args *a, int64_t row)
{
    const int64_t n = a->cols;
    const float *s = a->x + row * a->x_row_stride;
    float *y = a->y + row * a->y_row_stride;
    if (a->sum || a->residual || a->sum_bias) {
        /* Without a place of its own s waits in y. */
        float *sum = a->sum ? a->sum + row * a->sum_row_stride : y;
        norm_add(s, a->residual ? a->residual + row * a->residual_row_stride : NULL, a->sum_bias, sum, n);
        s = sum;
    }
    const float mean = a->rms ? 0.0f : norm_mean(s, n);
    const float inv_std = norm_inv_std(s, n, mean, a->eps);
    const wf_vf m = wf_v_set(mean), inv = wf_v_set(inv_std);
    for (int64_t i = 0; i < n; i += WF_VLEN) {
        const size_t count = n - i < WF_VLEN ? (size_t)(n - i) : WF_VLEN;
        const wf_vf g = a->scale ? wf_v_load_n(a->scale + i, count) * inv : inv;
        const wf_vf b = a->bias ? wf_v_load_n(a->bias + i, count) : wf_v_set(0.0f);
        wf_v_store_n(y + i, (wf_v_load_n(s + i, count) - m) * g + b, count);
    }
    if (a->mean && !a->rms) {
        a->mean[row] = mean;
    }
    if (a->inv_std) {
        a->inv_std[row] = inv_std;
    }
}

void WF_KERNEL(wf_norm_f32)(const wf_norm_args *a, int64_t begin, int64_t end)
{
    assert(a->rows >= 1 && a->cols >= 1 && begin >= 0 && begin <= end && end <= a->rows);
    assert(!a->sum || a->sum != a->y);
    for (int64_t row = begin; row < end; row++) {
        norm_row(a, row);
    }
}

/* A group of a channels-first image is one span. */
static void norm_group_first(const wf_group_norm_args *a, int64_t image, int64_t group)
{
    const int64_t channels = a->channels / a->groups, c0 = group * channels;
    const int64_t at = (image * a->channels + c0) * a->pixels, n = channels * a->pixels;
    const float *s = a->x + at;
    float *y = a->y + at;
    if (a->sum || a->residual) {
        float *sum = a->sum ? a->sum + at : y;
        norm_add(s, a->residual ? a->residual + at : NULL, NULL, sum, n);
        s = sum;
    }
    const float mean = norm_mean(s, n);
    const float inv_std = norm_inv_std(s, n, mean, a->eps);
    const wf_vf m = wf_v_set(mean);
    for (int64_t c = 0; c < channels; c++) {
        const wf_vf g = wf_v_set(a->scale ? a->scale[c0 + c] * inv_std : inv_std);
        const wf_vf b = wf_v_set(a->bias ? a->bias[c0 + c] : 0.0f);
        int64_t i = 0;
        for (; i + WF_VLEN <= a->pixels; i += WF_VLEN) {
            wf_v_store(y + i, (wf_v_load(s + i) - m) * g + b);
        }
        const size_t count = (size_t)(a->pixels - i);
        wf_v_store_part(y + i, (wf_v_load_part(s + i, count) - m) * g + b, count);
        s += a->pixels;
        y += a->pixels;
    }
}

/* Channels of a channels-last image that are handled together: a cache line of a pixel, so that every line is
 * read once a pass even when the pixels alias in L1. */
#define NORM_STEP WF_VLEN_MAX
#define NORM_VECTORS (NORM_STEP / WF_VLEN)
#define NORM_PIXELS 64

/* A column of up to NORM_STEP channels; counts[v] of the v-th vector exist. */
typedef struct norm_column {
    int64_t at; /* element of the first pixel */
    int64_t pixels, stride;
    size_t counts[NORM_VECTORS];
} norm_column;

static norm_column norm_column_make(const wf_group_norm_args *a, int64_t image, int64_t c, int64_t c1)
{
    norm_column col = {.at = image * a->pixels * a->channels + c, .pixels = a->pixels, .stride = a->channels};
    for (int64_t v = 0; v < NORM_VECTORS; v++) {
        const int64_t left = c1 - c - v * WF_VLEN;
        col.counts[v] = left <= 0 ? 0 : left < WF_VLEN ? (size_t)left : WF_VLEN;
    }
    return col;
}

/* Adds the sum over the pixels of s - mean, or of its square, to out[NORM_STEP]; squared = 0 makes s from x
 * and residual first and stores it when sum is not NULL. */
static void norm_column_total(const norm_column *col, const float *x, const float *residual, float *sum,
                              const float *mean, int squared, double *out)
{
    for (int64_t p0 = 0; p0 < col->pixels; p0 += NORM_PIXELS) {
        const int64_t p1 = p0 + NORM_PIXELS < col->pixels ? p0 + NORM_PIXELS : col->pixels;
        wf_vf acc[NORM_VECTORS];
        WF_UNROLL(4)
        for (int v = 0; v < NORM_VECTORS; v++) {
            acc[v] = wf_v_set(0.0f);
        }
        for (int64_t p = p0; p < p1; p++) {
            const int64_t at = col->at + p * col->stride;
            WF_UNROLL(4)
            for (int v = 0; v < NORM_VECTORS; v++) {
                wf_vf s = wf_v_load_n(x + at + v * WF_VLEN, col->counts[v]);
                if (squared) {
                    s -= wf_v_load(mean + v * WF_VLEN);
                    s *= s;
                } else {
                    if (residual) {
                        s += wf_v_load_n(residual + at + v * WF_VLEN, col->counts[v]);
                    }
                    if (sum) {
                        wf_v_store_n(sum + at + v * WF_VLEN, s, col->counts[v]);
                    }
                }
                acc[v] += s;
            }
        }
        for (int v = 0; v < NORM_VECTORS; v++) {
            for (int i = 0; i < WF_VLEN; i++) {
                out[v * WF_VLEN + i] += (double)acc[v][i];
            }
        }
    }
}

static void norm_column_apply(const norm_column *col, const float *s, float *y, const float *mean,
                              const float *g, const float *b)
{
    for (int64_t p = 0; p < col->pixels; p++) {
        const int64_t at = col->at + p * col->stride;
        WF_UNROLL(4)
        for (int v = 0; v < NORM_VECTORS; v++) {
            const wf_vf d = wf_v_load_n(s + at + v * WF_VLEN, col->counts[v]) - wf_v_load(mean + v * WF_VLEN);
            wf_v_store_n(y + at + v * WF_VLEN, d * wf_v_load(g + v * WF_VLEN) + wf_v_load(b + v * WF_VLEN),
                         col->counts[v]);
        }
    }
}

/* Replaces the totals of the channels of each group by the mean over the group. */
static void norm_group_means(double *totals, int64_t groups, int64_t channels, int64_t pixels)
{
    for (int64_t g = 0; g < groups; g++) {
        double total = 0;
        for (int64_t c = 0; c < channels; c++) {
            total += totals[g * channels + c];
        }
        for (int64_t c = 0; c < channels; c++) {
            totals[g * channels + c] = total / (double)(channels * pixels);
        }
    }
}

static void norm_groups_last(const wf_group_norm_args *a, int64_t image, int64_t g0, int64_t g1,
                             void *scratch)
{
    const int64_t per_group = a->channels / a->groups;
    const int64_t c0 = g0 * per_group, n = (g1 - g0) * per_group;
    const int64_t padded = (n + NORM_STEP - 1) / NORM_STEP * NORM_STEP;
    double *totals = scratch;
    float *mean = (float *)(totals + padded), *g = mean + padded, *b = g + padded;
    const int add = a->sum || a->residual;
    float *sum = add ? a->sum ? a->sum : a->y : NULL;
    const float *s = add ? sum : a->x;

    memset(totals, 0, (size_t)padded * sizeof *totals);
    for (int64_t c = 0; c < n; c += NORM_STEP) {
        const norm_column col = norm_column_make(a, image, c0 + c, c0 + n);
        norm_column_total(&col, a->x, a->residual, sum, NULL, 0, totals + c);
    }
    norm_group_means(totals, g1 - g0, per_group, a->pixels);
    for (int64_t c = 0; c < padded; c++) {
        mean[c] = c < n ? (float)totals[c] : 0.0f;
        totals[c] = 0;
    }
    for (int64_t c = 0; c < n; c += NORM_STEP) {
        const norm_column col = norm_column_make(a, image, c0 + c, c0 + n);
        norm_column_total(&col, s, NULL, NULL, mean + c, 1, totals + c);
    }
    norm_group_means(totals, g1 - g0, per_group, a->pixels);
    for (int64_t c = 0; c < padded; c++) {
        const float inv = (1.0f / wf_v_sqrt(wf_v_set((float)totals[c] + a->eps)))[0];
        g[c] = a->scale && c < n ? a->scale[c0 + c] * inv : inv;
        b[c] = a->bias && c < n ? a->bias[c0 + c] : 0.0f;
    }
    for (int64_t c = 0; c < n; c += NORM_STEP) {
        const norm_column col = norm_column_make(a, image, c0 + c, c0 + n);
        norm_column_apply(&col, s, a->y, mean + c, g + c, b + c);
    }
}

void WF_KERNEL(wf_group_norm_f32)(const wf_group_norm_args *a, int64_t item, void *scratch)
{
    assert(a->groups >= 1 && a->channels % a->groups == 0 && a->pixels >= 1 && a->groups_per_item >= 1);
    assert(!a->sum || a->sum != a->y);
    assert(item >= 0 && item < wf_group_norm_items(a));
    const int64_t per_image = (a->groups + a->groups_per_item - 1) / a->groups_per_item;
    const int64_t image = item / per_image;
    const int64_t g0 = item % per_image * a->groups_per_item;
    const int64_t g1 = g0 + a->groups_per_item < a->groups ? g0 + a->groups_per_item : a->groups;
    if (a->layout == WF_GROUP_NORM_CHANNELS_LAST) {
        norm_groups_last(a, image, g0, g1, scratch);
        return;
    }
    for (int64_t group = g0; group < g1; group++) {
        norm_group_first(a, image, group);
    }
}
