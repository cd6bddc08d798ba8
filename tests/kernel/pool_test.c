/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling against plain loops in double precision, on every tier; the channels-first global pool is a
 * reduction. */
#include "kernel/kernel_support.h"

#include "backends/native/kernels/pool.h"
#include "backends/native/kernels/reduce.h"

wf_pool_f32_fn wf_pool_f32_wide;
wf_reduce_f32_fn wf_reduce_f32_wide;
#include "backends/native/kernels/pool.c"
#include "backends/native/kernels/reduce.c"

static const struct {
    const char *tier;
    wf_pool_f32_fn *pool;
    wf_reduce_f32_fn *reduce;
} kernels[] = {
#define X(tier) {#tier, wf_pool_f32_##tier, wf_reduce_f32_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

/* The answer for one output element, and a bound on its rounding error. */
static double pool_one(const wf_pool_args *a, int64_t n, int64_t oh, int64_t ow, int64_t c, double *out_bound)
{
    double max = -INFINITY, sum = 0, size = 0;
    int64_t inside = 0, padded = 0;
    for (int64_t i = 0; i < a->kernel_h; i++) {
        for (int64_t j = 0; j < a->kernel_w; j++) {
            const int64_t iy = oh * a->stride_h - a->pad_top + i * a->dilation_h;
            const int64_t ix = ow * a->stride_w - a->pad_left + j * a->dilation_w;
            padded += iy < a->in_h + a->pad_bottom && ix < a->in_w + a->pad_right;
            if (iy < 0 || iy >= a->in_h || ix < 0 || ix >= a->in_w) {
                continue;
            }
            const double v =
                (double)a->x[n * a->x_image_stride + iy * a->x_row_stride + ix * a->x_pixel_stride + c];
            inside++;
            sum += v;
            size += fabs(v);
            max = isnan(v) || isnan(max) ? NAN : fmax(max, v);
        }
    }
    *out_bound = 0;
    if (a->kind == WF_POOL_MAX) {
        return max;
    }
    const int64_t count = a->kind == WF_POOL_MEAN ? inside : padded;
    *out_bound = count > 0 ? size * (double)(inside + 2) * FLT_EPSILON / (double)count : 0;
    return inside > 0 || count > 0 ? sum / (double)count : NAN;
}

static void check(wf_pool_args *a, const char *tier, wf_pool_f32_fn *fn, wf_random_t *random)
{
    const int64_t y_elems = (a->images - 1) * a->y_image_stride + (a->out_h - 1) * a->y_row_stride +
                            (a->out_w - 1) * a->y_pixel_stride + a->channels;
    fence y = fence_new(y_elems * 4);
    a->y = y.data;
    const int64_t items = wf_pool_items(a), offset = (int64_t)wf_random_below(random, (uint64_t)items);
    for (int64_t i = 0; i < items; i++) {
        fn(a, (i + offset) % items);
    }
    int64_t at = 0;
    for (int64_t n = 0; n < a->images; n++) {
        for (int64_t pixel = 0; pixel < (int64_t)a->out_h * a->out_w; pixel++) {
            const int64_t oh = pixel / a->out_w, ow = pixel % a->out_w;
            const int64_t start = n * a->y_image_stride + oh * a->y_row_stride + ow * a->y_pixel_stride;
            for (; at < start; at++) {
                assert_true(kernel_is_untouched(a->y + at));
            }
            for (int64_t c = 0; c < a->channels; c++, at++) {
                double bound;
                const double want = pool_one(a, n, oh, ow, c, &bound);
                kernel_assert_close(
                    a->y[at], want, bound,
                    "%s kind %d: %dx%dx%dx%d kernel %dx%d stride %dx%d dilation %dx%d pads %d,%d,%d,%d "
                    "at %d,%d,%d,%d",
                    tier, (int)a->kind, a->images, a->in_h, a->in_w, a->channels, a->kernel_h, a->kernel_w,
                    a->stride_h, a->stride_w, a->dilation_h, a->dilation_w, a->pad_top, a->pad_left,
                    a->pad_bottom, a->pad_right, (int)n, (int)oh, (int)ow, (int)c);
            }
        }
    }
    assert_int_equal(at, y_elems);
    fence_free(&y);
}

/* Output sizes of ceil mode now and then: the last window starts inside the padded image, or not at all. */
static int out_size(wf_random_t *random, int in, int kernel, int stride, int dilation, int pads)
{
    const int room = in + pads - (kernel - 1) * dilation - 1;
    return room < 0 ? 0 : room / stride + 1 + (room % stride != 0 && kernel_range(random, 0, 1));
}

static void random_pools(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("pool", 20261130);
    for (int round = 0; round < 400; round++) {
        wf_pool_args a = {0};
        const int global = kernel_range(&random, 0, 5) == 0;
        do {
            a.images = kernel_range(&random, 1, 2);
            a.in_h = kernel_range(&random, 1, 20);
            a.in_w = kernel_range(&random, 1, 20);
            a.channels = kernel_range(&random, 1, 150);
            a.kernel_h = global ? a.in_h : kernel_range(&random, 1, 7);
            a.kernel_w = global ? a.in_w : kernel_range(&random, 1, 7);
            a.stride_h = kernel_range(&random, 1, 3);
            a.stride_w = kernel_range(&random, 1, 3);
            a.dilation_h = global ? 1 : kernel_range(&random, 1, 2);
            a.dilation_w = global ? 1 : kernel_range(&random, 1, 2);
            a.pad_top = global ? 0 : kernel_range(&random, 0, 4);
            a.pad_left = global ? 0 : kernel_range(&random, 0, 4);
            a.pad_bottom = global ? 0 : kernel_range(&random, 0, 4);
            a.pad_right = global ? 0 : kernel_range(&random, 0, 4);
            a.out_h =
                out_size(&random, a.in_h, a.kernel_h, a.stride_h, a.dilation_h, a.pad_top + a.pad_bottom);
            a.out_w =
                out_size(&random, a.in_w, a.kernel_w, a.stride_w, a.dilation_w, a.pad_left + a.pad_right);
        } while (a.out_h < 1 || a.out_w < 1);
        a.x_pixel_stride = a.channels + kernel_range(&random, 0, 3);
        a.x_row_stride = a.in_w * a.x_pixel_stride;
        a.x_image_stride = a.in_h * a.x_row_stride + kernel_range(&random, 0, 3);
        a.y_pixel_stride = a.channels + kernel_range(&random, 0, 3);
        a.y_row_stride = a.out_w * a.y_pixel_stride + kernel_range(&random, 0, 3);
        a.y_image_stride = a.out_h * a.y_row_stride;
        fence x = fence_floats(&random, (a.images - 1) * a.x_image_stride + (a.in_h - 1) * a.x_row_stride +
                                            (a.in_w - 1) * a.x_pixel_stride + a.channels);
        if (round % 4 == 0) {
            /* Hostile values: each goes to a random place. */
            static const float values[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, FLT_MAX};
            for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
                float *p = x.data;
                p[wf_random_below(&random, x.bytes / 4)] = values[i];
            }
        }
        a.x = x.data;
        for (int kind = 0; kind < WF_POOL_KIND_COUNT; kind++) {
            a.kind = (wf_pool_kind)kind;
            for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
                if (kernel_tier_runs(kernels[k].tier)) {
                    a.band_rows = kernel_range(&random, 1, a.out_h);
                    a.block_channels = 16 * kernel_range(&random, 1, 4);
                    check(&a, kernels[k].tier, kernels[k].pool, &random);
                }
            }
        }
        fence_free(&x);
    }
}

/* A global mean of a large image keeps its precision: 12544 pixels, all sums within 64 units. */
static void global_means_are_precise(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("global mean", 11);
    enum { SIDE = 112, CHANNELS = 24, PIXELS = SIDE * SIDE };
    fence x = fence_floats(&random, PIXELS * CHANNELS), y = fence_new(CHANNELS * 4);
    float *values = x.data;
    double want[CHANNELS] = {0};
    for (int i = 0; i < PIXELS * CHANNELS; i++) {
        values[i] += 1.5f;
        want[i % CHANNELS] += (double)values[i] / PIXELS;
    }
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        if (!kernel_tier_runs(kernels[k].tier)) {
            continue;
        }
        const wf_pool_args a = {.kind = WF_POOL_MEAN,
                                .images = 1,
                                .in_h = SIDE,
                                .in_w = SIDE,
                                .out_h = 1,
                                .out_w = 1,
                                .channels = CHANNELS,
                                .kernel_h = SIDE,
                                .kernel_w = SIDE,
                                .stride_h = 1,
                                .stride_w = 1,
                                .dilation_h = 1,
                                .dilation_w = 1,
                                .x = x.data,
                                .x_row_stride = SIDE * CHANNELS,
                                .x_pixel_stride = CHANNELS,
                                .y = y.data,
                                .y_row_stride = CHANNELS,
                                .y_pixel_stride = CHANNELS,
                                .band_rows = 1,
                                .block_channels = 16};
        for (int64_t i = 0; i < wf_pool_items(&a); i++) {
            kernels[k].pool(&a, i);
        }
        for (int c = 0; c < CHANNELS; c++) {
            kernel_assert_close(a.y[c], want[c], 64 * want[c] * FLT_EPSILON, "%s channel %d", kernels[k].tier,
                                c);
        }
    }
    fence_free(&x);
    fence_free(&y);
}

/* Channels first: rows of pixels, reduced. */
static void channels_first_global_pool(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("channels first", 3);
    enum { PLANES = 37, PIXELS = 7 * 7 };
    fence x = fence_floats(&random, PLANES * PIXELS), y = fence_new(PLANES * 4);
    const float *values = x.data, *got = y.data;
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        if (!kernel_tier_runs(kernels[k].tier)) {
            continue;
        }
        wf_reduce_args a = {
            .op = WF_REDUCE_MEAN, .x = values, .y = y.data, .outer = PLANES, .axis = PIXELS, .inner = 1};
        kernels[k].reduce(&a, 0, PLANES);
        for (int plane = 0; plane < PLANES; plane++) {
            double sum = 0;
            for (int i = 0; i < PIXELS; i++) {
                sum += (double)values[plane * PIXELS + i];
            }
            kernel_assert_close(got[plane], sum / PIXELS, 8 * FLT_EPSILON, "%s plane %d", kernels[k].tier,
                                plane);
        }
    }
    fence_free(&x);
    fence_free(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_pools),
        cmocka_unit_test(global_means_are_precise),
        cmocka_unit_test(channels_first_global_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
