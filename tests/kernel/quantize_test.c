/* SPDX-License-Identifier: Apache-2.0 */
/* Quantising and back against the definition in double precision, bit for bit, on every tier. */
#include "kernel/kernel_support.h"

#include "backends/native/kernels/quantize.h"

wf_quantize_fn wf_quantize_wide;
#include "backends/native/kernels/quantize.c"

static const struct {
    const char *tier;
    wf_quantize_fn *fn;
} kernels[] = {
#define X(tier) {#tier, wf_quantize_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

static int32_t quantised(const wf_quantize_args *a, float x)
{
    const double min = a->is_i8 ? -128 : 0, max = a->is_i8 ? 127 : 255;
    const double q = rint((double)(float)((double)x / (double)a->scale)) + a->zero;
    return isnan(q) ? a->zero : (int32_t)fmin(fmax(q, min), max);
}

static int32_t integer_at(const wf_quantize_args *a, const void *data, int64_t i)
{
    return a->is_i8 ? ((const int8_t *)data)[i] : ((const uint8_t *)data)[i];
}

static void run(const wf_quantize_args *a, wf_quantize_fn *fn, wf_random_t *random)
{
    int64_t end = a->count;
    while (end > 0) {
        const int64_t begin = (int64_t)wf_random_below(random, (uint64_t)end);
        fn(a, begin, end);
        end = begin;
    }
}

/* Halves between two steps, values far outside, NaN and infinities among random ones. */
static void fill(const wf_quantize_args *a, float *x, wf_random_t *random)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 0.0f, -0.0f};
    for (int64_t i = 0; i < a->count; i++) {
        const int kind = kernel_range(random, 0, 9);
        if (kind == 0)
            x[i] = special[wf_random_below(random, 7)];
        else if (kind < 4)
            x[i] = ((float)kernel_range(random, -300, 300) + 0.5f) * a->scale;
        else
            x[i] *= 300 * a->scale;
    }
}

static void there_and_back(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("quantize", 20261201);
    for (int round = 0; round < 400; round++) {
        wf_quantize_args a = {.count = kernel_range(&random, 1, 300),
                              .scale = (float)kernel_range(&random, 1, 1000) / 777.0f,
                              .is_i8 = kernel_range(&random, 0, 1)};
        a.zero = kernel_range(&random, a.is_i8 ? -128 : 0, a.is_i8 ? 127 : 255);
        fence x = fence_floats(&random, a.count);
        fill(&a, x.data, &random);
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
            if (!kernel_tier_runs(kernels[k].tier))
                continue;
            fence q = fence_new(a.count), back = fence_new(a.count * 4);
            a.forward = 1;
            a.x = x.data;
            a.y = q.data;
            run(&a, kernels[k].fn, &random);
            a.forward = 0;
            a.x = q.data;
            a.y = back.data;
            run(&a, kernels[k].fn, &random);
            for (int64_t i = 0; i < a.count; i++) {
                const int32_t want = quantised(&a, ((const float *)x.data)[i]);
                assert_int_equal(integer_at(&a, q.data, i), want);
                const float value = (float)(want - a.zero) * a.scale;
                assert_memory_equal(&((const float *)back.data)[i], &value, 4);
            }
            fence_free(&q);
            fence_free(&back);
        }
        fence_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_and_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
