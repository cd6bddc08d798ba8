/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations against plain loops in double precision, on every tier. */
#include "kernel/kernel_support.h"

#include "backends/native/kernels/norm.h"

wf_norm_f32_fn wf_norm_f32_wide;
wf_group_norm_f32_fn wf_group_norm_f32_wide;
#include "backends/native/kernels/norm.c"

static const struct {
    const char *tier;
    wf_norm_f32_fn *norm;
    wf_group_norm_f32_fn *group_norm;
} kernels[] = {
#define X(tier) {#tier, wf_norm_f32_##tier, wf_group_norm_f32_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

/* Statistics of n values v(i), and how exact the kernel's can be: s itself is rounded, the mean is rounded to
 * float, squares are summed in parts of at most 128 terms a lane. */
typedef struct statistics {
    double mean, inv_std, mean_bound, inv_bound;
} statistics;

static statistics statistics_of(const double *v, int64_t n, double eps, int rms)
{
    statistics s = {0};
    double square = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        s.mean += v[i] / (double)n;
        size = fmax(size, fabs(v[i]));
    }
    s.mean = rms ? 0 : s.mean;
    for (int64_t i = 0; i < n; i++) {
        square += (v[i] - s.mean) * (v[i] - s.mean) / (double)n;
    }
    s.inv_std = 1 / sqrt(square + eps);
    s.mean_bound = 8 * size * FLT_EPSILON;
    s.inv_bound = s.inv_std * (fmin((double)n, 128) + 8 + 8 * size * s.inv_std) * FLT_EPSILON;
    return s;
}

static double bound_of(const statistics *s, double v, double scale, double want)
{
    return (s->mean_bound + 2 * fabs(v) * FLT_EPSILON) * s->inv_std * fabs(scale) +
           fabs(v - s->mean) * s->inv_bound * fabs(scale) + 4 * fabs(want) * FLT_EPSILON + 4 * FLT_EPSILON;
}

/* ---- rows ---- */

typedef struct rows_case {
    wf_norm_args args;
    fence x, residual, sum_bias, sum, y, scale, bias, mean, inv_std;
    int x_is_y, residual_is_sum;
} rows_case;

static const float *row_of(const fence *f, int64_t stride, int64_t row)
{
    return f->data ? (const float *)f->data + row * stride : NULL;
}

static void rows_check(const rows_case *p, const fence *x, const fence *residual, const char *tier)
{
    const wf_norm_args *a = &p->args;
    double *v = test_malloc((size_t)a->cols * sizeof *v);
    const float *scale = p->scale.data, *bias = p->bias.data, *sum_bias = p->sum_bias.data;
    for (int64_t row = 0; row < a->rows; row++) {
        const float *xr = row_of(x, a->x_row_stride, row),
                    *rr = row_of(residual, a->residual_row_stride, row);
        for (int64_t i = 0; i < a->cols; i++) {
            v[i] = (double)xr[i] + (rr ? (double)rr[i] : 0) + (sum_bias ? (double)sum_bias[i] : 0);
            if (a->sum) {
                kernel_assert_close(a->sum[row * a->sum_row_stride + i], v[i],
                                    4 * FLT_EPSILON * (fabs(v[i]) + 2), "%s sum row %d column %d", tier,
                                    (int)row, (int)i);
            }
        }
        const statistics s = statistics_of(v, a->cols, (double)a->eps, a->rms);
        for (int64_t i = 0; i < a->cols; i++) {
            const double g = scale ? (double)scale[i] : 1, b = bias ? (double)bias[i] : 0;
            const double want = (v[i] - s.mean) * s.inv_std * g + b;
            kernel_assert_close(a->y[row * a->y_row_stride + i], want, bound_of(&s, fabs(v[i]) + 4, g, want),
                                "%s rms %d [%d][%d] row %d column %d", tier, a->rms, (int)a->rows,
                                (int)a->cols, (int)row, (int)i);
        }
        for (int64_t i = a->cols; i < a->y_row_stride && row + 1 < a->rows && !p->x_is_y; i++) {
            assert_true(kernel_is_untouched(a->y + row * a->y_row_stride + i));
        }
        if (a->mean && !a->rms) {
            kernel_assert_close(a->mean[row], s.mean, s.mean_bound, "%s mean of row %d", tier, (int)row);
        }
        if (a->inv_std) {
            kernel_assert_close(a->inv_std[row], s.inv_std, s.inv_bound, "%s deviation of row %d", tier,
                                (int)row);
        }
    }
    test_free(v);
}

static fence maybe_floats(wf_random_t *random, int64_t count)
{
    return kernel_range(random, 0, 1) ? fence_floats(random, count) : (fence){0};
}

static void random_rows(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("norm rows", 20261130);
    for (int round = 0; round < 400; round++) {
        rows_case p = {0};
        wf_norm_args *a = &p.args;
        a->rows = kernel_range(&random, 1, 6);
        a->cols = kernel_range(&random, 1, round % 10 ? 100 : 9000);
        a->rms = kernel_range(&random, 0, 1);
        a->eps = kernel_range(&random, 0, 1) ? 1e-5f : 1e-12f;
        a->x_row_stride = a->cols + kernel_range(&random, 0, 3);
        a->residual_row_stride = a->cols + kernel_range(&random, 0, 3);
        p.x = fence_floats(&random, (a->rows - 1) * a->x_row_stride + a->cols);
        p.residual = maybe_floats(&random, (a->rows - 1) * a->residual_row_stride + a->cols);
        const float offset = (float)kernel_range(&random, 0, 2) * 5;
        for (size_t i = 0; i < p.x.bytes / 4; i++) {
            ((float *)p.x.data)[i] += offset;
        }
        p.sum_bias = maybe_floats(&random, a->cols);
        p.scale = maybe_floats(&random, a->cols);
        p.bias = maybe_floats(&random, a->cols);
        a->sum_bias = p.sum_bias.data;
        a->scale = p.scale.data;
        a->bias = p.bias.data;
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
            if (!kernel_tier_runs(kernels[k].tier)) {
                continue;
            }
            /* In place now and then: y over x, sum over residual. */
            fence x = fence_new((int64_t)p.x.bytes), residual = {0};
            memcpy(x.data, p.x.data, x.bytes);
            if (p.residual.data) {
                residual = fence_new((int64_t)p.residual.bytes);
                memcpy(residual.data, p.residual.data, residual.bytes);
            }
            p.x_is_y = kernel_range(&random, 0, 1);
            p.residual_is_sum = residual.data && kernel_range(&random, 0, 1);
            const int want_sum = p.residual_is_sum || kernel_range(&random, 0, 1);
            a->x = x.data;
            a->residual = residual.data;
            a->y_row_stride = p.x_is_y ? a->x_row_stride : a->cols + kernel_range(&random, 0, 3);
            a->sum_row_stride = p.residual_is_sum ? a->residual_row_stride : a->cols;
            p.y = p.x_is_y ? (fence){0} : fence_new(((a->rows - 1) * a->y_row_stride + a->cols) * 4);
            a->y = p.x_is_y ? x.data : p.y.data;
            p.sum = want_sum && !p.residual_is_sum ? fence_new(a->rows * a->cols * 4) : (fence){0};
            a->sum = p.residual_is_sum ? residual.data : p.sum.data;
            p.mean = fence_new(a->rows * 4);
            p.inv_std = fence_new(a->rows * 4);
            a->mean = kernel_range(&random, 0, 1) ? p.mean.data : NULL;
            a->inv_std = kernel_range(&random, 0, 1) ? p.inv_std.data : NULL;
            const int64_t middle = (int64_t)wf_random_below(&random, (uint64_t)a->rows + 1);
            kernels[k].norm(a, middle, a->rows);
            kernels[k].norm(a, 0, middle);
            rows_check(&p, &p.x, &p.residual, kernels[k].tier);
            fence *const made[] = {&x, &residual, &p.y, &p.sum, &p.mean, &p.inv_std};
            for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
                fence_free(made[i]);
            }
        }
        fence *const fences[] = {&p.x, &p.residual, &p.sum_bias, &p.scale, &p.bias};
        for (size_t i = 0; i < sizeof fences / sizeof fences[0]; i++) {
            fence_free(fences[i]);
        }
    }
}

/* ---- groups ---- */

static int64_t group_at(const wf_group_norm_args *a, int64_t image, int64_t channel, int64_t pixel)
{
    return a->layout == WF_GROUP_NORM_CHANNELS_FIRST ? (image * a->channels + channel) * a->pixels + pixel
                                                     : (image * a->pixels + pixel) * a->channels + channel;
}

static void groups_check(const wf_group_norm_args *a, const float *x, const float *residual, const char *tier)
{
    const int64_t per_group = a->channels / a->groups, n = per_group * a->pixels;
    double *v = test_malloc((size_t)n * sizeof *v);
    for (int64_t group = 0; group < a->images * a->groups; group++) {
        const int64_t image = group / a->groups, c0 = group % a->groups * per_group;
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = group_at(a, image, c0 + i / a->pixels, i % a->pixels);
            v[i] = (double)x[at] + (residual ? (double)residual[at] : 0);
            if (a->sum) {
                kernel_assert_close(a->sum[at], v[i], fabs(v[i]) * FLT_EPSILON, "%s sum at %d", tier,
                                    (int)at);
            }
        }
        const statistics s = statistics_of(v, n, (double)a->eps, 0);
        for (int64_t i = 0; i < n; i++) {
            const int64_t c = c0 + i / a->pixels, at = group_at(a, image, c, i % a->pixels);
            const double g = a->scale ? (double)a->scale[c] : 1, b = a->bias ? (double)a->bias[c] : 0;
            const double want = (v[i] - s.mean) * s.inv_std * g + b;
            kernel_assert_close(a->y[at], want, bound_of(&s, fabs(v[i]) + 4, g, want),
                                "%s layout %d images %d channels %d pixels %d groups %d at %d", tier,
                                (int)a->layout, (int)a->images, (int)a->channels, (int)a->pixels,
                                (int)a->groups, (int)at);
        }
    }
    test_free(v);
}

static void random_groups(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("norm groups", 20261130);
    for (int round = 0; round < 300; round++) {
        wf_group_norm_args a = {.layout = (wf_group_norm_layout)(round % 2), .eps = 1e-5f};
        a.images = kernel_range(&random, 1, 2);
        a.groups = kernel_range(&random, 1, 40);
        a.channels = a.groups * kernel_range(&random, 1, 4);
        a.pixels = kernel_range(&random, 1, round % 10 ? 60 : 700);
        a.groups_per_item = kernel_range(&random, 1, (int)a.groups);
        const int64_t elems = a.images * a.channels * a.pixels;
        fence x = fence_floats(&random, elems), residual = maybe_floats(&random, elems);
        fence scale = maybe_floats(&random, a.channels), bias = maybe_floats(&random, a.channels);
        a.scale = scale.data;
        a.bias = bias.data;
        a.residual = residual.data;
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
            if (!kernel_tier_runs(kernels[k].tier)) {
                continue;
            }
            const int in_place = kernel_range(&random, 0, 1);
            fence y = fence_new(elems * 4), sum = {0};
            memcpy(y.data, x.data, in_place ? y.bytes : 0);
            a.x = in_place ? y.data : x.data;
            a.y = y.data;
            if (kernel_range(&random, 0, 1)) {
                sum = fence_new(elems * 4);
            }
            a.sum = sum.data;
            fence scratch = fence_scratch(wf_group_norm_scratch_bytes(&a));
            for (int64_t item = wf_group_norm_items(&a) - 1; item >= 0; item--) {
                kernels[k].group_norm(&a, item, scratch.data);
            }
            groups_check(&a, x.data, residual.data, kernels[k].tier);
            fence_free(&scratch);
            fence_free(&sum);
            fence_free(&y);
        }
        fence *const fences[] = {&x, &residual, &scale, &bias};
        for (size_t i = 0; i < sizeof fences / sizeof fences[0]; i++) {
            fence_free(fences[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rows),
        cmocka_unit_test(random_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
