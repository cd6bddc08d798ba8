/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing by tables against plain loops, on every tier. */
#include "kernel/kernel_support.h"

#include "backends/native/kernels/resize.h"

wf_resize_nearest_fn wf_resize_nearest_wide;
wf_resize_f32_fn wf_resize_f32_wide;
#include "backends/native/kernels/resize.c"

static const struct {
    const char *tier;
    wf_resize_nearest_fn *nearest;
    wf_resize_f32_fn *f32;
} kernels[] = {
#define X(tier) {#tier, wf_resize_nearest_##tier, wf_resize_f32_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

static fence random_indices(wf_random_t *random, int64_t count, int limit)
{
    fence f = fence_new(count * 4);
    for (int64_t i = 0; i < count; i++) {
        ((int32_t *)f.data)[i] = kernel_range(random, 0, limit - 1);
    }
    return f;
}

static void nearest(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("resize nearest", 20261130);
    for (int round = 0; round < 200; round++) {
        wf_resize_nearest_args a = {.images = kernel_range(&random, 1, 3),
                                    .out_h = kernel_range(&random, 1, 20),
                                    .out_w = kernel_range(&random, 1, 20),
                                    .pixel_bytes = kernel_range(&random, 1, round % 2 ? 17 : 200)};
        const int in_h = kernel_range(&random, 1, 12), in_w = kernel_range(&random, 1, 12);
        a.x_pixel_bytes = a.pixel_bytes + kernel_range(&random, 0, 2);
        a.x_row_bytes = in_w * a.x_pixel_bytes + kernel_range(&random, 0, 2);
        a.x_image_bytes = in_h * a.x_row_bytes;
        a.y_pixel_bytes = a.pixel_bytes + kernel_range(&random, 0, 2);
        a.y_row_bytes = a.out_w * a.y_pixel_bytes;
        a.y_image_bytes = a.out_h * a.y_row_bytes + kernel_range(&random, 0, 2);
        fence x = fence_new((a.images - 1) * a.x_image_bytes + (in_h - 1) * a.x_row_bytes +
                            (in_w - 1) * a.x_pixel_bytes + a.pixel_bytes);
        for (size_t i = 0; i < x.bytes; i++) {
            ((uint8_t *)x.data)[i] = (uint8_t)wf_random_u64(&random);
        }
        fence rows = random_indices(&random, a.out_h, in_h), cols = random_indices(&random, a.out_w, in_w);
        a.x = x.data;
        a.row_index = rows.data;
        a.col_index = cols.data;
        fence want = fence_new((a.images - 1) * a.y_image_bytes + (a.out_h - 1) * a.y_row_bytes +
                               (a.out_w - 1) * a.y_pixel_bytes + a.pixel_bytes);
        for (int64_t n = 0; n < a.images; n++) {
            for (int64_t oh = 0; oh < a.out_h; oh++) {
                for (int64_t ow = 0; ow < a.out_w; ow++) {
                    memcpy((uint8_t *)want.data + n * a.y_image_bytes + oh * a.y_row_bytes +
                               ow * a.y_pixel_bytes,
                           (uint8_t *)x.data + n * a.x_image_bytes + a.row_index[oh] * a.x_row_bytes +
                               a.col_index[ow] * a.x_pixel_bytes,
                           (size_t)a.pixel_bytes);
                }
            }
        }
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
            if (kernel_tier_runs(kernels[k].tier)) {
                fence y = fence_new((int64_t)want.bytes);
                a.y = y.data;
                const int64_t middle = (int64_t)wf_random_below(&random, (uint64_t)(a.images * a.out_h));
                kernels[k].nearest(&a, middle, a.images * a.out_h);
                kernels[k].nearest(&a, 0, middle);
                assert_memory_equal(y.data, want.data, want.bytes);
                fence_free(&y);
            }
        }
        fence *const fences[] = {&x, &rows, &cols, &want};
        for (size_t i = 0; i < sizeof fences / sizeof fences[0]; i++) {
            fence_free(fences[i]);
        }
    }
}

/* Weights as they come: ones, zeros, and in between. */
static fence random_weights(wf_random_t *random, int64_t count)
{
    fence f = fence_floats(random, count);
    for (int64_t i = 0; i < count; i++) {
        const int kind = kernel_range(random, 0, 5);
        if (kind < 2) {
            ((float *)f.data)[i] = (float)kind;
        }
    }
    return f;
}

static double separable_one(const wf_resize_f32_args *a, int64_t n, int64_t oh, int64_t ow, int64_t c,
                            double *out_bound)
{
    double sum = 0, size = 0;
    for (int32_t i = 0; i < a->row_taps; i++) {
        for (int32_t j = 0; j < a->col_taps; j++) {
            const double w =
                (double)a->row_weight[oh * a->row_taps + i] * (double)a->col_weight[ow * a->col_taps + j];
            const int64_t at = n * a->x_image_stride + a->row_index[oh * a->row_taps + i] * a->x_row_stride +
                               a->col_index[ow * a->col_taps + j] * a->x_pixel_stride + c;
            sum += w != 0 ? w * (double)a->x[at] : 0;
            size += w != 0 ? fabs(w * (double)a->x[at]) : 0;
        }
    }
    *out_bound = size * (double)(2 * a->row_taps + 2 * a->col_taps + 2) * FLT_EPSILON;
    return sum;
}

static void separable(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("resize separable", 20261130);
    for (int round = 0; round < 200; round++) {
        wf_resize_f32_args a = {.images = kernel_range(&random, 1, 2),
                                .in_w = kernel_range(&random, 1, 15),
                                .out_h = kernel_range(&random, 1, 15),
                                .out_w = kernel_range(&random, 1, 15),
                                .channels = kernel_range(&random, 1, 60),
                                .row_taps = kernel_range(&random, 0, 1) ? 2 : kernel_range(&random, 1, 5),
                                .col_taps = kernel_range(&random, 0, 1) ? 2 : kernel_range(&random, 1, 5)};
        const int in_h = kernel_range(&random, 1, 12);
        a.x_pixel_stride = a.channels + kernel_range(&random, 0, 1) * 2;
        a.x_row_stride = a.in_w * a.x_pixel_stride + kernel_range(&random, 0, 2);
        a.x_image_stride = in_h * a.x_row_stride;
        a.y_pixel_stride = a.channels + kernel_range(&random, 0, 2);
        a.y_row_stride = a.out_w * a.y_pixel_stride;
        a.y_image_stride = a.out_h * a.y_row_stride;
        fence x = fence_floats(&random, (a.images - 1) * a.x_image_stride + (in_h - 1) * a.x_row_stride +
                                            (a.in_w - 1) * a.x_pixel_stride + a.channels);
        fence row_index = random_indices(&random, a.out_h * a.row_taps, in_h);
        fence col_index = random_indices(&random, a.out_w * a.col_taps, (int)a.in_w);
        fence row_weight = random_weights(&random, a.out_h * a.row_taps);
        fence col_weight = random_weights(&random, a.out_w * a.col_taps);
        a.x = x.data;
        a.row_index = row_index.data;
        a.col_index = col_index.data;
        a.row_weight = row_weight.data;
        a.col_weight = col_weight.data;
        const int64_t y_elems = (a.images - 1) * a.y_image_stride + (a.out_h - 1) * a.y_row_stride +
                                (a.out_w - 1) * a.y_pixel_stride + a.channels;
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
            if (!kernel_tier_runs(kernels[k].tier)) {
                continue;
            }
            fence y = fence_new(y_elems * 4), scratch = fence_scratch(wf_resize_scratch_bytes(&a));
            a.y = y.data;
            const int64_t middle = (int64_t)wf_random_below(&random, (uint64_t)(a.images * a.out_h));
            kernels[k].f32(&a, middle, a.images * a.out_h, scratch.data);
            kernels[k].f32(&a, 0, middle, scratch.data);
            for (int64_t i = 0; i < a.images * a.out_h * a.out_w; i++) {
                const int64_t n = i / (a.out_h * a.out_w), oh = i / a.out_w % a.out_h, ow = i % a.out_w;
                const int64_t at = n * a.y_image_stride + oh * a.y_row_stride + ow * a.y_pixel_stride;
                for (int64_t c = 0; c < a.channels; c++) {
                    double bound;
                    const double want = separable_one(&a, n, oh, ow, c, &bound);
                    kernel_assert_close(a.y[at + c], want, bound, "%s taps %d,%d channels %d at %d,%d,%d,%d",
                                        kernels[k].tier, a.row_taps, a.col_taps, (int)a.channels, (int)n,
                                        (int)oh, (int)ow, (int)c);
                }
                for (int64_t c = at + a.channels; c < at + a.y_pixel_stride && c < y_elems; c++) {
                    assert_true(kernel_is_untouched(a.y + c));
                }
            }
            fence_free(&y);
            fence_free(&scratch);
        }
        fence *const fences[] = {&x, &row_index, &col_index, &row_weight, &col_weight};
        for (size_t i = 0; i < sizeof fences / sizeof fences[0]; i++) {
            fence_free(fences[i]);
        }
    }
}

/* A tap of weight zero is not read: infinity times zero would be NaN. */
static void zero_weights_hide_infinity(void **state)
{
    (void)state;
    const float x[4] = {1, INFINITY, 3, NAN};
    const int32_t index[2] = {0, 1};
    const float keep[2] = {1, 0}, half[2] = {0.5f, 0.5f};
    const int32_t zero[2] = {0, 0};
    float y = 0, scratch[16];
    wf_resize_f32_args a = {.x = x,
                            .y = &y,
                            .images = 1,
                            .in_w = 2,
                            .out_h = 1,
                            .out_w = 1,
                            .channels = 1,
                            .x_row_stride = 2,
                            .x_pixel_stride = 1,
                            .y_pixel_stride = 1,
                            .row_taps = 2,
                            .col_taps = 2,
                            .row_index = index,
                            .row_weight = half,
                            .col_index = index,
                            .col_weight = keep};
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        if (kernel_tier_runs(kernels[k].tier)) {
            kernels[k].f32(&a, 0, 1, scratch);
            kernel_assert_close(y, 2, 0, "%s", kernels[k].tier);
            a.row_weight = keep;
            a.row_index = zero;
            kernels[k].f32(&a, 0, 1, scratch);
            kernel_assert_close(y, 1, 0, "%s", kernels[k].tier);
            a.row_weight = half;
            a.row_index = index;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest),
        cmocka_unit_test(separable),
        cmocka_unit_test(zero_weights_hide_infinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
