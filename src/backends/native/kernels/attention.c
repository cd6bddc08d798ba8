/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/attention.h"

#include <assert.h>
#include <math.h>

#include "backends/native/kernels/gemm_tile.h"
#include "backends/native/kernels/lanes.h"
#include "backends/native/kernels/transpose_block.h"

/* Both products use the register tiles of gemm_tile.h, two vectors wide. */
#define ATT_PANEL (2 * WF_VLEN)
#define ATT_HEIGHT WF_TILE_HEIGHT2

static int64_t att_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t att_round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The parts of the scratch memory of a call. */
typedef struct att_scratch {
    float *keys;   /* [panels][depth][ATT_PANEL] of the key block */
    float *values; /* [value panels][keys of the block][ATT_PANEL] */
    float *scores; /* [query block][score_stride] */
    int64_t score_stride;
    float *sums;   /* [rows][value_stride]: not yet divided by `totals` */
    float *maxima; /* [rows] */
    float *totals; /* [rows] */
    int64_t value_stride;
} att_scratch;

static att_scratch att_scratch_cut(const wf_attention_args *a, int64_t rows, float *p)
{
    att_scratch s;
    s.score_stride = att_round_up(att_min(a->keys, a->key_block), ATT_PANEL);
    s.value_stride = att_round_up(a->value_depth, ATT_PANEL);
    s.keys = p;
    p += att_round_up(s.score_stride * a->depth, WF_VLEN_MAX);
    s.values = p;
    p += att_round_up(s.score_stride * s.value_stride, WF_VLEN_MAX);
    s.scores = p;
    p += att_round_up(att_min(rows, a->query_block) * s.score_stride, WF_VLEN_MAX);
    s.sums = p;
    p += att_round_up(rows * s.value_stride, WF_VLEN_MAX);
    s.maxima = p;
    s.totals = p + att_round_up(rows, WF_VLEN_MAX);
    return s;
}

/* out[panel][i][t] = k[t][i], zero for keys beyond n. */
static void att_pack_keys(const float *k, int64_t stride, int64_t n, int64_t depth, float *out)
{
    enum { HEIGHT = 4 * WF_TB_HEIGHT(4) };
    for (int64_t t0 = 0; t0 < n; t0 += ATT_PANEL) {
        if (n - t0 < ATT_PANEL) {
            memset(out, 0, (size_t)(depth * ATT_PANEL) * sizeof(float));
        }
        int64_t t = 0;
        for (; t + HEIGHT <= att_min(ATT_PANEL, n - t0); t += HEIGHT) {
            const float *src = k + (t0 + t) * stride;
            int64_t i = 0;
            for (; i + 4 <= depth; i += 4) {
                wf_transpose_block_4w((const uint8_t *)(src + i), stride,
                                      (uint8_t *)(out + i * ATT_PANEL + t), ATT_PANEL, HEIGHT, 4);
            }
            for (; i < depth; i++) {
                for (int64_t row = 0; row < HEIGHT; row++) {
                    out[i * ATT_PANEL + t + row] = src[row * stride + i];
                }
            }
        }
        for (; t < att_min(ATT_PANEL, n - t0); t++) {
            for (int64_t i = 0; i < depth; i++) {
                out[i * ATT_PANEL + t] = k[(t0 + t) * stride + i];
            }
        }
        out += depth * ATT_PANEL;
    }
}

/* out[panel][t][c] = v[t][panel * ATT_PANEL + c], zero beyond depth. */
static void att_pack_values(const float *v, int64_t stride, int64_t n, int64_t depth, float *out)
{
    for (int64_t c = 0; c < depth; c += ATT_PANEL) {
        for (int64_t t = 0; t < n; t++) {
            for (int64_t i = 0; i < ATT_PANEL; i += WF_VLEN) {
                const int64_t left = depth - c - i;
                const size_t count = left >= WF_VLEN ? WF_VLEN : left > 0 ? (size_t)left : 0;
                wf_v_store(out + i, count > 0 ? wf_v_load_n(v + t * stride + c + i, count) : wf_v_set(0.0f));
            }
            out += ATT_PANEL;
        }
    }
}

/* out[r][panel columns] (+)= a[r][0..k) * b, for rows of equal strides: rows spread evenly over the tiles. */
static void att_product(const float *a, int64_t a_stride, int64_t rows, int64_t k, const float *b, float *out,
                        int64_t out_stride, int add)
{
    for (int64_t left = rows; left > 0;) {
        const int64_t tiles = (left + ATT_HEIGHT - 1) / ATT_HEIGHT;
        const int64_t height = (left + tiles - 1) / tiles;
        const float *pointers[WF_TILE_HEIGHT_MAX];
        for (int64_t r = 0; r < height; r++) {
            pointers[r] = a + r * a_stride;
        }
        const wf_gemm_tile tile = {.rows = pointers,
                                   .count = 1,
                                   .taps = 1,
                                   .k = k,
                                   .b = b,
                                   .b_stride = ATT_PANEL,
                                   .partial = add ? out : NULL,
                                   .partial_stride = out_stride,
                                   .out = out,
                                   .out_stride = out_stride};
        wf_gemm_tiles[2][height](&tile);
        a += height * a_stride;
        out += height * out_stride;
        left -= height;
    }
}

/* Scales and masks the raw products s[0..n) of query i with keys t0.. and returns their maximum. Lanes up to
 * the next multiple of WF_VLEN become -infinity. */
static float att_mask_row(const wf_attention_args *a, int64_t i, int64_t t0, int64_t n, float *s)
{
    const wf_vf scale = wf_v_set(a->scale);
    const float *mask = a->mask ? a->mask + i * a->mask_query_stride + t0 * a->mask_key_stride : NULL;
    const int64_t visible = a->causal ? att_min(n, i + a->causal_offset + 1 - t0) : n;
    wf_vf max = wf_v_set(-INFINITY);
    for (int64_t t = 0; t < n; t += WF_VLEN) {
        const size_t count = n - t < WF_VLEN ? (size_t)(n - t) : WF_VLEN;
        wf_vf v = wf_v_load(s + t) * scale;
        if (mask && a->mask_key_stride == 1) {
            v += wf_v_load_n(mask + t, count);
        } else if (mask) {
            for (size_t j = 0; j < count; j++) {
                v[j] += mask[(t + (int64_t)j) * a->mask_key_stride];
            }
        }
        if (t + WF_VLEN > visible) {
            v = wf_v_first(v, visible > t ? (size_t)(visible - t) : 0, -INFINITY);
        }
        wf_v_store(s + t, v);
        max = wf_v_max(v, max);
    }
    return wf_v_max_lanes(max);
}

/* s becomes exp(s - shift); returns the sum. Whole vectors. */
static float att_exp_row(float *s, int64_t n, float shift)
{
    const wf_vf m = wf_v_set(shift);
    wf_vf sum[2] = {wf_v_set(0.0f), wf_v_set(0.0f)};
    int64_t t = 0;
    for (; t + WF_VLEN < n; t += 2 * WF_VLEN) {
        WF_UNROLL(2)
        for (int v = 0; v < 2; v++) {
            const wf_vf e = wf_v_exp_ftz(wf_v_load(s + t + v * WF_VLEN) - m);
            wf_v_store(s + t + v * WF_VLEN, e);
            sum[v] += e;
        }
    }
    if (t < n) {
        const wf_vf e = wf_v_exp_ftz(wf_v_load(s + t) - m);
        wf_v_store(s + t, e);
        sum[0] += e;
    }
    return wf_v_sum_lanes(sum[0] + sum[1]);
}

/* Turns raw products with keys t0.. into weights relative to the running maximum of the row, and brings the
 * sums of the earlier blocks to that maximum. */
static void att_softmax_row(const wf_attention_args *a, int64_t i, int64_t t0, int64_t n, float *s,
                            float *max, float *total, float *sums, int64_t value_stride)
{
    const float old = *max;
    const float block_max = att_mask_row(a, i, t0, n, s);
    *max = block_max > old || block_max != block_max ? block_max : old;
    /* Without any visible key so far every weight is 0, not exp(-infinity + infinity). */
    const float shift = *max == -INFINITY ? 0.0f : *max;
    const float sum = att_exp_row(s, n, shift);
    if (t0 == 0) {
        *total = sum;
        return;
    }
    const wf_vf factor = wf_v_exp_ftz(wf_v_set(old - shift));
    *total = *total * factor[0] + sum;
    if (factor[0] != 1.0f) {
        for (int64_t c = 0; c < value_stride; c += WF_VLEN) {
            wf_v_store(sums + c, wf_v_load(sums + c) * factor);
        }
    }
}

/* Keys that rows up to `last` see. */
static int64_t att_visible(const wf_attention_args *a, int64_t last)
{
    if (!a->causal) {
        return a->keys;
    }
    const int64_t keys = last + a->causal_offset + 1;
    return keys < 1 ? 1 : att_min(keys, a->keys); /* one masked key keeps the loops simple */
}

static void att_block(const wf_attention_args *a, int64_t begin, int64_t end, int64_t t0, int64_t keys,
                      const att_scratch *s)
{
    att_pack_keys(a->k + t0 * a->k_stride, a->k_stride, keys, a->depth, s->keys);
    att_pack_values(a->v + t0 * a->v_stride, a->v_stride, keys, a->value_depth, s->values);
    for (int64_t i0 = begin; i0 < end; i0 += a->query_block) {
        const int64_t rows = att_min(end - i0, a->query_block);
        const int64_t n = att_min(keys, att_visible(a, i0 + rows - 1) - t0);
        if (n <= 0) {
            continue;
        }
        for (int64_t t = 0; t < n; t += ATT_PANEL) {
            att_product(a->q + i0 * a->q_stride, a->q_stride, rows, a->depth, s->keys + t * a->depth,
                        s->scores + t, s->score_stride, 0);
        }
        float *sums = s->sums + (i0 - begin) * s->value_stride;
        for (int64_t r = 0; r < rows; r++) {
            att_softmax_row(a, i0 + r, t0, n, s->scores + r * s->score_stride, s->maxima + i0 - begin + r,
                            s->totals + i0 - begin + r, sums + r * s->value_stride, s->value_stride);
        }
        for (int64_t c = 0; c < a->value_depth; c += ATT_PANEL) {
            att_product(s->scores, s->score_stride, rows, n, s->values + c * keys, sums + c, s->value_stride,
                        t0 > 0);
        }
    }
}

/* ---- few queries ---- */

/* s[t] = q . k[t], four keys at a time. */
static void att_dots(const float *q, const float *k, int64_t stride, int64_t n, int64_t depth, float *s)
{
    for (int64_t t = 0; t < n; t += 4) {
        const float *rows[4];
        wf_vf acc[4];
        WF_UNROLL(4)
        for (int r = 0; r < 4; r++) {
            rows[r] = k + att_min(t + r, n - 1) * stride;
            acc[r] = wf_v_set(0.0f);
        }
        for (int64_t i = 0; i < depth; i += WF_VLEN) {
            const size_t count = depth - i < WF_VLEN ? (size_t)(depth - i) : WF_VLEN;
            const wf_vf x = wf_v_load_n(q + i, count);
            WF_UNROLL(4)
            for (int r = 0; r < 4; r++) {
                acc[r] += x * wf_v_load_n(rows[r] + i, count);
            }
        }
        WF_UNROLL(4)
        for (int r = 0; r < 4; r++) {
            s[t + r] = wf_v_sum_lanes(acc[r]); /* s has room for a multiple of four */
        }
    }
}

/* sums[0..depth) += w[t] * v[t], up to eight vectors of the row in registers. */
WF_INLINE void att_weighted(const float *w, const float *v, int64_t stride, int64_t n, const int vectors,
                            size_t count, float *sums)
{
    wf_vf acc[8];
    WF_UNROLL(8)
    for (int c = 0; c < vectors; c++) {
        acc[c] = wf_v_load(sums + c * WF_VLEN);
    }
    for (int64_t t = 0; t < n; t++) {
        const wf_vf x = wf_v_set(w[t]);
        WF_UNROLL(8)
        for (int c = 0; c < vectors; c++) {
            acc[c] += x * wf_v_load_n(v + t * stride + c * WF_VLEN, count);
        }
    }
    WF_UNROLL(8)
    for (int c = 0; c < vectors; c++) {
        wf_v_store(sums + c * WF_VLEN, acc[c]);
    }
}

static void att_few(const wf_attention_args *a, int64_t i, int64_t t0, int64_t n, const att_scratch *s,
                    int64_t row)
{
    float *sums = s->sums + row * s->value_stride;
    if (t0 == 0) {
        memset(sums, 0, (size_t)s->value_stride * sizeof(float));
    }
    att_dots(a->q + i * a->q_stride, a->k + t0 * a->k_stride, a->k_stride, n, a->depth, s->scores);
    att_softmax_row(a, i, t0, n, s->scores, s->maxima + row, s->totals + row, sums, s->value_stride);
    const float *v = a->v + t0 * a->v_stride;
    int64_t c = 0;
    for (; c + 8 * WF_VLEN <= a->value_depth; c += 8 * WF_VLEN) {
        att_weighted(s->scores, v + c, a->v_stride, n, 8, WF_VLEN, sums + c);
    }
    for (; c < a->value_depth; c += WF_VLEN) {
        const size_t count = a->value_depth - c < WF_VLEN ? (size_t)(a->value_depth - c) : WF_VLEN;
        att_weighted(s->scores, v + c, a->v_stride, n, 1, count, sums + c);
    }
}

void WF_KERNEL(wf_attention_f32)(const wf_attention_args *a, int64_t begin, int64_t end, void *scratch)
{
    assert(a->queries >= 1 && a->keys >= 1 && a->depth >= 1 && a->value_depth >= 1);
    assert(a->query_block >= 1 && a->key_block >= 32 && a->key_block % 32 == 0);
    assert(begin >= 0 && begin <= end && end <= a->queries && scratch);
    const att_scratch s = att_scratch_cut(a, end - begin, scratch);
    for (int64_t row = 0; row < end - begin; row++) {
        s.maxima[row] = -INFINITY;
    }
    const int64_t visible = att_visible(a, end - 1);
    for (int64_t t0 = 0; t0 < visible; t0 += a->key_block) {
        const int64_t keys = att_min(a->key_block, visible - t0);
        if (a->queries > WF_ATTENTION_FEW) {
            att_block(a, begin, end, t0, keys, &s);
            continue;
        }
        for (int64_t i = begin; i < end; i++) {
            const int64_t n = att_min(keys, att_visible(a, i) - t0);
            if (n > 0) {
                att_few(a, i, t0, n, &s, i - begin);
            }
        }
    }
    for (int64_t i = begin; i < end; i++) {
        const wf_vf scale = wf_v_set(1.0f / s.totals[i - begin]);
        const float *sums = s.sums + (i - begin) * s.value_stride;
        for (int64_t c = 0; c < a->value_depth; c += WF_VLEN) {
            const size_t count = a->value_depth - c < WF_VLEN ? (size_t)(a->value_depth - c) : WF_VLEN;
            wf_v_store_n(a->y + i * a->y_stride + c, wf_v_load(sums + c) * scale, count);
        }
    }
}
