/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions against plain loops in double precision, on every tier. */
#include "kernel/kernel_support.h"

#include "backends/native/kernels/reduce.h"

wf_reduce_f32_fn wf_reduce_f32_wide;
#include "backends/native/kernels/reduce.c"

static const struct {
    const char *tier;
    wf_reduce_f32_fn *fn;
} kernels[] = {
#define X(tier) {#tier, wf_reduce_f32_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

/* The answer for one line, and a bound on the rounding error: partial sums hold at most 512 terms. */
static double reduce_one(const wf_reduce_args *a, int64_t base, double *out_bound)
{
    double sum = 0, size = 0, square = 0, product = 1, max = -INFINITY, min = INFINITY;
    for (int64_t i = 0; i < a->axis; i++) {
        const double v = (double)a->x[base + i * a->inner];
        sum += v;
        size += fabs(v);
        square += v * v;
        product *= v;
        max = isnan(v) || isnan(max) ? NAN : fmax(max, v);
        min = isnan(v) || isnan(min) ? NAN : fmin(min, v);
    }
    const double n = (double)a->axis;
    const double unit = (fmin(n, 512) + 8) * FLT_EPSILON;
    const double shift = isfinite(max) ? max : 0;
    double exps = 0, want = 0;
    for (int64_t i = 0; i < a->axis; i++) {
        exps += exp((double)a->x[base + i * a->inner] - shift);
    }
    *out_bound = 0;
    switch (a->op) {
    case WF_REDUCE_SUM:
        *out_bound = size * unit;
        return sum;
    case WF_REDUCE_MEAN:
        *out_bound = size / n * unit;
        return sum / n;
    case WF_REDUCE_MAX:
        return max;
    case WF_REDUCE_MIN:
        return min;
    case WF_REDUCE_PROD:
        /* Below the smallest normal number precision is lost. */
        *out_bound = fabs(product) * (n + 2) * FLT_EPSILON + 1.2e-38;
        return product;
    case WF_REDUCE_L1:
        *out_bound = size * unit;
        return size;
    case WF_REDUCE_L2:
        *out_bound = sqrt(square) * unit;
        return sqrt(square);
    case WF_REDUCE_SUM_SQUARE:
        *out_bound = square * unit;
        return square;
    case WF_REDUCE_LOG_SUM:
        want = log(sum);
        /* An error of the sum near zero is large in the logarithm. */
        *out_bound = fabs(size / sum) * unit + fabs(want) * 4 * FLT_EPSILON;
        return want;
    default:
        want = log(exps) + shift;
        *out_bound = unit + 90 * FLT_EPSILON + (fabs(want) + fabs(shift)) * 4 * FLT_EPSILON;
        return want;
    }
}

static void check(wf_reduce_args *a, wf_random_t *random)
{
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        if (!kernel_tier_runs(kernels[k].tier)) {
            continue;
        }
        fence y = fence_new(a->outer * a->inner * 4);
        a->y = y.data;
        for (int64_t end = wf_reduce_rows(a); end > 0;) {
            const int64_t begin = (int64_t)wf_random_below(random, (uint64_t)end);
            kernels[k].fn(a, begin, end);
            end = begin;
        }
        for (int64_t i = 0; i < a->outer * a->inner; i++) {
            double bound;
            const double want = reduce_one(a, i / a->inner * a->axis * a->inner + i % a->inner, &bound);
            kernel_assert_close(a->y[i], want, bound, "%s op %d [%d][%d][%d] result %d", kernels[k].tier,
                                (int)a->op, (int)a->outer, (int)a->axis, (int)a->inner, (int)i);
        }
        fence_free(&y);
    }
}

static void random_views(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("reduce", 20261130);
    for (int round = 0; round < 200; round++) {
        wf_reduce_args a = {
            .outer = kernel_range(&random, 1, 7),
            .axis = kernel_range(&random, 1, round % 8 ? 60 : 5000),
            .inner = kernel_range(&random, 0, 1) ? 1 : kernel_range(&random, 2, round % 8 ? 150 : 9)};
        fence x = fence_floats(&random, a.outer * a.axis * a.inner);
        float *values = x.data;
        for (int op = 0; op < WF_REDUCE_OP_COUNT; op++) {
            a.op = (wf_reduce_op)op;
            /* Terms of a logarithm are positive, factors near one. */
            fence t = fence_new((int64_t)x.bytes);
            float *terms = t.data;
            for (size_t i = 0; i < x.bytes / 4; i++) {
                terms[i] = op == WF_REDUCE_LOG_SUM       ? values[i] + 1.5f
                           : op == WF_REDUCE_PROD        ? 1 + values[i] * 0.25f
                           : op == WF_REDUCE_LOG_SUM_EXP ? values[i] * 80
                                                         : values[i];
            }
            a.x = terms;
            check(&a, &random);
            fence_free(&t);
        }
        fence_free(&x);
    }
}

static void special_values(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("reduce special", 5);
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (int round = 0; round < 120; round++) {
        wf_reduce_args a = {.outer = kernel_range(&random, 1, 4),
                            .axis = kernel_range(&random, 1, 40),
                            .inner = kernel_range(&random, 0, 1) ? 1 : kernel_range(&random, 2, 40)};
        fence x = fence_floats(&random, a.outer * a.axis * a.inner);
        float *p = x.data;
        p[wf_random_below(&random, x.bytes / 4)] = values[round % 3];
        p[wf_random_below(&random, x.bytes / 4)] = values[round % 2];
        a.x = p;
        for (int op = 0; op < WF_REDUCE_OP_COUNT; op++) {
            a.op = (wf_reduce_op)op;
            if (op != WF_REDUCE_LOG_SUM) { /* its sums near zero have no useful bound */
                check(&a, &random);
            }
        }
        fence_free(&x);
    }
}

static void empty_axes(void **state)
{
    (void)state;
    static const float want[WF_REDUCE_OP_COUNT] = {
        [WF_REDUCE_MEAN] = NAN, [WF_REDUCE_MAX] = -INFINITY,     [WF_REDUCE_MIN] = INFINITY,
        [WF_REDUCE_PROD] = 1,   [WF_REDUCE_LOG_SUM] = -INFINITY, [WF_REDUCE_LOG_SUM_EXP] = -INFINITY,
    };
    float nothing = 0, y[6];
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        for (int op = 0; op < WF_REDUCE_OP_COUNT && kernel_tier_runs(kernels[k].tier); op++) {
            for (int inner = 1; inner <= 3; inner += 2) {
                const wf_reduce_args a = {
                    .op = (wf_reduce_op)op, .x = &nothing, .y = y, .outer = 2, .axis = 0, .inner = inner};
                kernels[k].fn(&a, 0, wf_reduce_rows(&a));
                for (int i = 0; i < 2 * inner; i++) {
                    kernel_assert_close(y[i], want[op], 0, "%s op %d", kernels[k].tier, op);
                }
            }
        }
    }
}

/* A million terms near one: an ordinary float sum would be off by thousands of units. */
static void long_sums_are_precise(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("long sums", 9);
    enum { TERMS = 1 << 20 };
    fence x = fence_floats(&random, TERMS);
    float *values = x.data;
    double want = 0;
    for (int i = 0; i < TERMS; i++) {
        values[i] = values[i] * 0.5f + 1;
        want += (double)values[i];
    }
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        if (kernel_tier_runs(kernels[k].tier)) {
            float y = 0;
            const wf_reduce_args a = {
                .op = WF_REDUCE_SUM, .x = values, .y = &y, .outer = 1, .axis = TERMS, .inner = 1};
            kernels[k].fn(&a, 0, 1);
            kernel_assert_close(y, want, 8 * want * FLT_EPSILON, "%s", kernels[k].tier);
        }
    }
    fence_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_views),
        cmocka_unit_test(special_values),
        cmocka_unit_test(empty_axes),
        cmocka_unit_test(long_sums_are_precise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
