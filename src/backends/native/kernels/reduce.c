/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/reduce.h"

#include <assert.h>
#include <math.h>

#include "backends/native/kernels/lanes.h"

typedef enum reduce_map { MAP_SELF, MAP_ABS, MAP_SQUARE, MAP_EXP } reduce_map;
typedef enum reduce_join { JOIN_ADD, JOIN_MUL, JOIN_MAX, JOIN_MIN } reduce_join;
typedef enum reduce_end { END_NONE, END_MEAN, END_SQRT, END_LOG } reduce_end;

/* Terms that go into one float per lane before a sum moves on in double. */
#define REDUCE_CHUNK 512

WF_INLINE wf_vf reduce_map_apply(wf_vf x, wf_vf shift, const reduce_map map)
{
    return map == MAP_ABS      ? wf_v_abs(x)
           : map == MAP_SQUARE ? x * x
           : map == MAP_EXP    ? wf_v_exp_ftz(x - shift)
                               : x;
}

WF_INLINE wf_vf reduce_join_apply(wf_vf a, wf_vf x, const reduce_join join)
{
    return join == JOIN_ADD   ? a + x
           : join == JOIN_MUL ? a * x
           : join == JOIN_MAX ? wf_v_max_nan(a, x)
                              : wf_v_min_nan(a, x);
}

WF_INLINE float reduce_neutral(const reduce_join join)
{
    return join == JOIN_ADD ? 0.0f : join == JOIN_MUL ? 1.0f : join == JOIN_MAX ? -INFINITY : INFINITY;
}

WF_INLINE float reduce_join_lanes(wf_vf v, const reduce_join join)
{
    if (join == JOIN_ADD) {
        return wf_v_sum_lanes(v);
    }
    if (join == JOIN_MAX) {
        return wf_v_max_lanes(v);
    }
    if (join == JOIN_MIN) {
        return -wf_v_max_lanes(-v);
    }
    float product = v[0];
    for (int i = 1; i < WF_VLEN; i++) {
        product *= v[i];
    }
    return product;
}

/* A contiguous line. */
WF_INLINE double reduce_line(const float *x, int64_t n, float shift, const reduce_map map,
                             const reduce_join join)
{
    const wf_vf neutral = wf_v_set(reduce_neutral(join)), m = wf_v_set(shift);
    double total = (double)reduce_neutral(join);
    const int64_t chunk = join == JOIN_ADD ? (int64_t)REDUCE_CHUNK * 4 * WF_VLEN : n;
    for (int64_t begin = 0; begin < n; begin += chunk) {
        const int64_t end = n - begin > chunk ? begin + chunk : n;
        wf_vf acc[4];
        WF_UNROLL(4)
        for (int v = 0; v < 4; v++) {
            acc[v] = neutral;
        }
        int64_t i = begin;
        for (; i + 4 * WF_VLEN <= end; i += 4 * WF_VLEN) {
            WF_UNROLL(4)
            for (int v = 0; v < 4; v++) {
                acc[v] =
                    reduce_join_apply(acc[v], reduce_map_apply(wf_v_load(x + i + v * WF_VLEN), m, map), join);
            }
        }
        for (; i < end; i += WF_VLEN) {
            const size_t count = end - i < WF_VLEN ? (size_t)(end - i) : WF_VLEN;
            const wf_vf v = reduce_map_apply(wf_v_load_n(x + i, count), m, map);
            acc[0] = reduce_join_apply(acc[0], wf_v_first(v, count, reduce_neutral(join)), join);
        }
        const wf_vf all = reduce_join_apply(reduce_join_apply(acc[0], acc[1], join),
                                            reduce_join_apply(acc[2], acc[3], join), join);
        const double part = (double)reduce_join_lanes(all, join);
        total = join == JOIN_ADD ? total + part : part;
    }
    return total;
}

/* Neighbouring lines, a lane each: `vectors` vectors of them, the only one of `count` lanes. */
WF_INLINE void reduce_lanes(const float *x, int64_t n, int64_t stride, const int vectors, size_t count,
                            const float *shift, const reduce_map map, const reduce_join join, double *out)
{
    const int64_t chunk = join == JOIN_ADD ? REDUCE_CHUNK : n;
    for (int i = 0; i < vectors * WF_VLEN; i++) {
        out[i] = (double)reduce_neutral(join);
    }
    wf_vf m[4];
    WF_UNROLL(4)
    for (int v = 0; v < vectors; v++) {
        m[v] = map == MAP_EXP ? wf_v_load(shift + v * WF_VLEN) : wf_v_set(0.0f);
    }
    for (int64_t begin = 0; begin < n; begin += chunk) {
        const int64_t end = n - begin > chunk ? begin + chunk : n;
        wf_vf acc[4];
        WF_UNROLL(4)
        for (int v = 0; v < vectors; v++) {
            acc[v] = wf_v_set(reduce_neutral(join));
        }
        for (int64_t i = begin; i < end; i++) {
            WF_UNROLL(4)
            for (int v = 0; v < vectors; v++) {
                const wf_vf xv = wf_v_load_n(x + i * stride + v * WF_VLEN, count);
                acc[v] = reduce_join_apply(acc[v], reduce_map_apply(xv, m[v], map), join);
            }
        }
        for (int v = 0; v < vectors; v++) {
            float part[WF_VLEN];
            wf_v_store(part, acc[v]);
            for (int i = 0; i < WF_VLEN; i++) {
                double *o = out + v * WF_VLEN + i;
                *o = join == JOIN_ADD ? *o + (double)part[i] : (double)part[i];
            }
        }
    }
}

/* The loops that exist: X(name, map, join). */
#define REDUCE_LOOPS(X)                 \
    X(sum, MAP_SELF, JOIN_ADD)          \
    X(sum_abs, MAP_ABS, JOIN_ADD)       \
    X(sum_square, MAP_SQUARE, JOIN_ADD) \
    X(sum_exp, MAP_EXP, JOIN_ADD)       \
    X(prod, MAP_SELF, JOIN_MUL)         \
    X(max, MAP_SELF, JOIN_MAX)          \
    X(min, MAP_SELF, JOIN_MIN)

typedef double reduce_line_fn(const float *x, int64_t n, float shift);
typedef void reduce_lanes_fn(const float *x, int64_t n, int64_t stride, int64_t width, const float *shift,
                             double *out);

#define X(name, map, join)                                                                    \
    static double reduce_line_##name(const float *x, int64_t n, float shift)                  \
    {                                                                                         \
        return reduce_line(x, n, shift, map, join);                                           \
    }                                                                                         \
    static void reduce_lanes_##name(const float *x, int64_t n, int64_t stride, int64_t width, \
                                    const float *shift, double *out)                          \
    {                                                                                         \
        int64_t i = 0;                                                                        \
        for (; i + 4 * WF_VLEN <= width; i += 4 * WF_VLEN) {                                  \
            reduce_lanes(x + i, n, stride, 4, WF_VLEN, shift + i, map, join, out + i);        \
        }                                                                                     \
        for (; i < width; i += WF_VLEN) {                                                     \
            const size_t count = width - i < WF_VLEN ? (size_t)(width - i) : WF_VLEN;         \
            reduce_lanes(x + i, n, stride, 1, count, shift + i, map, join, out + i);          \
        }                                                                                     \
    }
REDUCE_LOOPS(X)
#undef X

typedef enum reduce_loop {
#define X(name, map, join) LOOP_##name,
    REDUCE_LOOPS(X)
#undef X
} reduce_loop;

static const struct {
    reduce_line_fn *line;
    reduce_lanes_fn *lanes;
} reduce_loops[] = {
#define X(name, map, join) {reduce_line_##name, reduce_lanes_##name},
    REDUCE_LOOPS(X)
#undef X
};

static const struct {
    reduce_loop loop;
    reduce_end end;
} reduce_ops[WF_REDUCE_OP_COUNT] = {
    [WF_REDUCE_SUM] = {LOOP_sum, END_NONE},       [WF_REDUCE_MEAN] = {LOOP_sum, END_MEAN},
    [WF_REDUCE_MAX] = {LOOP_max, END_NONE},       [WF_REDUCE_MIN] = {LOOP_min, END_NONE},
    [WF_REDUCE_PROD] = {LOOP_prod, END_NONE},     [WF_REDUCE_L1] = {LOOP_sum_abs, END_NONE},
    [WF_REDUCE_L2] = {LOOP_sum_square, END_SQRT}, [WF_REDUCE_SUM_SQUARE] = {LOOP_sum_square, END_NONE},
    [WF_REDUCE_LOG_SUM] = {LOOP_sum, END_LOG},    [WF_REDUCE_LOG_SUM_EXP] = {LOOP_sum_exp, END_LOG},
};

/* The maximum is subtracted when it is a number: an infinite one would give NaN where the sum is still right.
 */
static float reduce_shift(double max)
{
    return isfinite(max) ? (float)max : 0.0f;
}

static void reduce_finish(reduce_end end, const double *totals, const float *shift, int64_t n, float *y,
                          int64_t width)
{
    for (int64_t i = 0; i < width; i += WF_VLEN) {
        const size_t count = width - i < WF_VLEN ? (size_t)(width - i) : WF_VLEN;
        wf_vf v = wf_v_set(0.0f);
        for (size_t j = 0; j < count; j++) {
            v[j] = (float)(end == END_MEAN ? totals[i + (int64_t)j] / (double)n : totals[i + (int64_t)j]);
        }
        if (end == END_SQRT) {
            v = wf_v_sqrt(v);
        } else if (end == END_LOG) {
            v = wf_v_log(v) + wf_v_load(shift + i);
        }
        wf_v_store_n(y + i, v, count);
    }
}

void WF_KERNEL(wf_reduce_f32)(const wf_reduce_args *a, int64_t begin, int64_t end)
{
    assert(a->op < WF_REDUCE_OP_COUNT && a->outer >= 1 && a->axis >= 0 && a->inner >= 1);
    assert(begin >= 0 && begin <= end && end <= wf_reduce_rows(a));
    const reduce_loop loop = reduce_ops[a->op].loop;
    const int64_t n = a->axis;
    float shift[WF_REDUCE_INNER + WF_VLEN] = {0};
    double totals[WF_REDUCE_INNER + WF_VLEN];
    if (a->inner == 1) {
        /* Results are finished a batch at a time, a vector of logarithms costs as much as one. */
        for (int64_t row = begin; row < end; row += WF_REDUCE_INNER) {
            const int64_t rows = end - row < WF_REDUCE_INNER ? end - row : WF_REDUCE_INNER;
            for (int64_t i = 0; i < rows; i++) {
                const float *x = a->x + (row + i) * n;
                shift[i] = loop == LOOP_sum_exp ? reduce_shift(reduce_line_max(x, n, 0.0f)) : 0.0f;
                totals[i] = reduce_loops[loop].line(x, n, shift[i]);
            }
            reduce_finish(reduce_ops[a->op].end, totals, shift, n, a->y + row, rows);
        }
        return;
    }
    const int64_t chunks = (a->inner + WF_REDUCE_INNER - 1) / WF_REDUCE_INNER;
    for (int64_t row = begin; row < end; row++) {
        const int64_t i0 = row % chunks * WF_REDUCE_INNER;
        const int64_t width = a->inner - i0 < WF_REDUCE_INNER ? a->inner - i0 : WF_REDUCE_INNER;
        const float *x = a->x + row / chunks * n * a->inner + i0;
        if (loop == LOOP_sum_exp) {
            reduce_lanes_max(x, n, a->inner, width, shift, totals);
            for (int64_t i = 0; i < width; i++) {
                shift[i] = reduce_shift(totals[i]);
            }
        }
        reduce_loops[loop].lanes(x, n, a->inner, width, shift, totals);
        reduce_finish(reduce_ops[a->op].end, totals, shift, n, a->y + row / chunks * a->inner + i0, width);
    }
}
