/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons of integers against the operators of C, on every tier. */
#include "kernel/kernel_support.h"

#include <stdbool.h>

#include "backends/native/kernels/compare.h"

wf_compare_fn wf_compare_wide;
#include "backends/native/kernels/compare.c"

static const struct {
    const char *tier;
    wf_compare_fn *fn;
} kernels[] = {
#define X(tier) {#tier, wf_compare_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

static int64_t integer_at(const wf_compare_args *a, const void *data, int64_t i)
{
    return a->elem_bytes == 4 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
}

/* Few values, so that many are equal, and the ends of the types. */
static void fill(const wf_compare_args *a, void *data, int64_t count, wf_random_t *random)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t value = kernel_range(random, -3, 3);
        if (value == -3)
            value = a->elem_bytes == 4 ? INT32_MIN : INT64_MIN;
        if (value == 3)
            value = a->elem_bytes == 4 ? INT32_MAX : INT64_MAX;
        if (a->elem_bytes == 4)
            ((int32_t *)data)[i] = (int32_t)value;
        else
            ((int64_t *)data)[i] = value;
    }
}

static bool holds(wf_compare_relation relation, int64_t x, int64_t y)
{
    static const int signs[][3] = {{0, 1, 0}, {1, 0, 0}, {1, 1, 0}}; /* x below, equal, above y */
    return signs[relation][1 + (x > y) - (x < y)] != 0;
}

static void every_relation(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("compare", 20261201);
    for (int round = 0; round < 400; round++) {
        wf_compare_args a = {.relation = (wf_compare_relation)kernel_range(&random, 0, 2),
                             .elem_bytes = 4 * kernel_range(&random, 1, 2),
                             .to_f32 = kernel_range(&random, 0, 1),
                             .x_step = kernel_range(&random, 0, 1),
                             .y_step = kernel_range(&random, 0, 1)};
        const int64_t count = kernel_range(&random, 1, 150);
        const int64_t x_count = a.x_step != 0 ? count : 1, y_count = a.y_step != 0 ? count : 1;
        fence x = fence_new(x_count * a.elem_bytes), y = fence_new(y_count * a.elem_bytes);
        fill(&a, x.data, x_count, &random);
        fill(&a, y.data, y_count, &random);
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
            if (!kernel_tier_runs(kernels[k].tier))
                continue;
            fence out = fence_new(count * (a.to_f32 ? 4 : 1));
            kernels[k].fn(&a, x.data, y.data, out.data, count);
            for (int64_t i = 0; i < count; i++) {
                const bool want = holds(a.relation, integer_at(&a, x.data, i * a.x_step),
                                        integer_at(&a, y.data, i * a.y_step));
                if (a.to_f32)
                    assert_true(((const float *)out.data)[i] == (want ? 1.0f : 0.0f));
                else
                    assert_int_equal(((const uint8_t *)out.data)[i], want ? 1 : 0);
            }
            fence_free(&out);
        }
        fence_free(&x);
        fence_free(&y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_relation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
