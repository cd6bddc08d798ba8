/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and log-softmax against plain loops in double precision, on every tier. */
#include "kernel/kernel_support.h"

#include "backends/native/kernels/softmax.h"

wf_softmax_f32_fn wf_softmax_f32_wide;
#include "backends/native/kernels/softmax.c"

static const struct {
    const char *tier;
    wf_softmax_f32_fn *fn;
} kernels[] = {
#define X(tier) {#tier, wf_softmax_f32_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

/* The answer for the line of element `at`. Bounds: x - max is rounded (relative to its size, which exp turns
 * into a relative error), exp and the sum of n terms add theirs; results below about 1e-38 may be flushed to
 * zero. */
static void solve_line(const wf_softmax_args *a, int64_t base, double *want, double *bound)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < a->axis; i++) {
        const double v = (double)a->x[base + i * a->inner];
        max = isnan(v) || isnan(max) ? NAN : fmax(max, v);
    }
    for (int64_t i = 0; i < a->axis; i++) {
        sum += exp((double)a->x[base + i * a->inner] - max);
    }
    for (int64_t i = 0; i < a->axis; i++) {
        const double d = (double)a->x[base + i * a->inner] - max;
        /* The size of the differences that carry weight is at most 88; smaller terms vanish in the sum. */
        const double terms = 4 + 88 * 0.5 + (double)a->axis * 0.5;
        if (a->log) {
            want[i] = d - log(sum);
            bound[i] = (fabs(d) + fabs(want[i]) + terms) * FLT_EPSILON;
        } else {
            want[i] = exp(d) / sum;
            bound[i] = 1.2e-38 + (want[i] > 0 ? want[i] * (fabs(d) + terms) * FLT_EPSILON : 0);
        }
    }
}

static void check(const wf_softmax_args *a, const float *got, const char *tier)
{
    double *want = test_malloc((size_t)a->axis * sizeof *want),
           *bound = test_malloc((size_t)a->axis * sizeof *bound);
    for (int64_t line = 0; line < a->outer * a->inner; line++) {
        const int64_t base = line / a->inner * a->axis * a->inner + line % a->inner;
        solve_line(a, base, want, bound);
        for (int64_t i = 0; i < a->axis; i++) {
            kernel_assert_close(got[base + i * a->inner], want[i], bound[i],
                                "%s [%d][%d][%d] log %d line %d element %d", tier, (int)a->outer,
                                (int)a->axis, (int)a->inner, a->log, (int)line, (int)i);
        }
    }
    test_free(want);
    test_free(bound);
}

/* Runs in pieces, from the last to the first, to y or in place. */
static void run(const wf_softmax_args *a, wf_softmax_f32_fn *fn, wf_random_t *random)
{
    int64_t end = wf_softmax_rows(a);
    while (end > 0) {
        const int64_t begin = (int64_t)wf_random_below(random, (uint64_t)end);
        fn(a, begin, end);
        end = begin;
    }
}

static void run_all(wf_softmax_args *a, const fence *x, wf_random_t *random)
{
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        if (!kernel_tier_runs(kernels[k].tier)) {
            continue;
        }
        for (int in_place = 0; in_place < 2; in_place++) {
            for (a->log = 0; a->log < 2; a->log++) {
                fence y = fence_new((int64_t)x->bytes);
                if (in_place) {
                    memcpy(y.data, x->data, x->bytes);
                }
                a->x = in_place ? y.data : x->data;
                a->y = y.data;
                run(a, kernels[k].fn, random);
                a->x = x->data;
                check(a, y.data, kernels[k].tier);
                fence_free(&y);
            }
        }
    }
}

static void random_views(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("softmax", 20261130);
    for (int round = 0; round < 250; round++) {
        wf_softmax_args a = {.outer = kernel_range(&random, 1, 5),
                             .axis = kernel_range(&random, 1, round % 10 ? 70 : 1100),
                             .inner = kernel_range(&random, 0, 1) ? 1 : kernel_range(&random, 2, 75)};
        fence x = fence_floats(&random, a.outer * a.axis * a.inner);
        float *values = x.data;
        const float spread = (float)kernel_range(&random, 1, 60),
                    shift = (float)kernel_range(&random, -500, 500);
        for (size_t i = 0; i < x.bytes / 4; i++) {
            values[i] = values[i] * spread + shift;
        }
        run_all(&a, &x, &random);
        fence_free(&x);
    }
}

/* A masked element is zero, a fully masked line is NaN, and so is one with NaN or +infinity; other lines are
 * right. */
static void special_values(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("softmax special", 5);
    static const float values[] = {-INFINITY, INFINITY, NAN, -FLT_MAX, 1e30f};
    for (int round = 0; round < 200; round++) {
        wf_softmax_args a = {.outer = kernel_range(&random, 1, 6),
                             .axis = kernel_range(&random, 1, 40),
                             .inner = kernel_range(&random, 0, 1) ? 1 : kernel_range(&random, 2, 40)};
        fence x = fence_floats(&random, a.outer * a.axis * a.inner);
        float *p = x.data;
        for (int i = kernel_range(&random, 1, 8); i > 0; i--) {
            p[wf_random_below(&random, x.bytes / 4)] = values[kernel_range(&random, 0, 4)];
        }
        if (round % 3 == 0) {
            for (int64_t i = 0; i < a.axis; i++) {
                p[i * a.inner] = -INFINITY;
            }
        }
        run_all(&a, &x, &random);
        fence_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_views),
        cmocka_unit_test(special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
