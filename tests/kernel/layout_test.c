/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies and gathers against element loops, on every tier. Every element is equal, every byte between
 * them untouched, and no source byte outside the view is read (the view ends at a forbidden page). */
#include "kernel/kernel_support.h"

#include "backends/native/kernels/layout.h"

wf_copy_plan_fn wf_copy_plan_wide;
wf_copy_fn wf_copy_wide;
wf_gather_rows_fn wf_gather_rows_wide;
#include "backends/native/kernels/layout.c"

static const struct {
    const char *tier;
    wf_copy_plan_fn *plan;
    wf_copy_fn *copy;
    wf_gather_rows_fn *gather;
} kernels[] = {
#define X(tier) {#tier, wf_copy_plan_##tier, wf_copy_##tier, wf_gather_rows_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

enum { RANK_MAX = 10 };

typedef struct view {
    int32_t elem_bytes;
    size_t rank;
    int64_t dims[RANK_MAX], src[RANK_MAX], dst[RANK_MAX];
} view;

/* Lowest and highest offset of a view. */
static void extent(const view *v, const int64_t *strides, int64_t *out_low, int64_t *out_high)
{
    *out_low = *out_high = 0;
    for (size_t d = 0; d < v->rank; d++) {
        *(strides[d] < 0 ? out_low : out_high) += (v->dims[d] - 1) * strides[d];
    }
}

/* Dense strides for dims stored in the order `order` (outermost first), with `gap` elements after each run of
 * the dim before the last. */
static void strides_of(const view *v, const size_t *order, int64_t gap, int64_t *out)
{
    int64_t stride = 1;
    for (size_t i = v->rank; i-- > 0;) {
        out[order[i]] = stride;
        stride *= v->dims[order[i]];
        stride += i + 1 == v->rank ? gap : 0;
    }
}

static void check(const view *v, wf_random_t *random)
{
    int64_t src_low, src_high, dst_low, dst_high;
    extent(v, v->src, &src_low, &src_high);
    extent(v, v->dst, &dst_low, &dst_high);
    assert_int_equal(dst_low, 0);
    fence src = fence_new((src_high - src_low + 1) * v->elem_bytes);
    for (size_t i = 0; i < src.bytes; i++) {
        ((uint8_t *)src.data)[i] = (uint8_t)wf_random_u64(random);
    }
    const uint8_t *origin = (const uint8_t *)src.data - src_low * v->elem_bytes;
    fence want = fence_new((dst_high + 1) * v->elem_bytes);
    int64_t index[RANK_MAX] = {0};
    for (;;) {
        int64_t from = 0, to = 0;
        for (size_t d = 0; d < v->rank; d++) {
            from += index[d] * v->src[d];
            to += index[d] * v->dst[d];
        }
        memcpy((uint8_t *)want.data + to * v->elem_bytes, origin + from * v->elem_bytes,
               (size_t)v->elem_bytes);
        size_t d = v->rank;
        while (d > 0 && ++index[d - 1] == v->dims[d - 1]) {
            index[--d] = 0;
        }
        if (d == 0) {
            break;
        }
    }
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        if (!kernel_tier_runs(kernels[k].tier)) {
            continue;
        }
        wf_copy_plan plan;
        assert_int_equal(kernels[k].plan(v->elem_bytes, v->rank, v->dims, v->src, v->dst, &plan), 0);
        fence dst = fence_new((int64_t)want.bytes);
        for (int64_t item = plan.items - 1; item >= 0; item--) {
            kernels[k].copy(&plan, origin, dst.data, item);
        }
        if (memcmp(dst.data, want.data, want.bytes) != 0) {
            print_error("%s: %d bytes, kind %d, rank %d:", kernels[k].tier, v->elem_bytes, (int)plan.kind,
                        (int)v->rank);
            for (size_t d = 0; d < v->rank; d++) {
                print_error(" %d(%d>%d)", (int)v->dims[d], (int)v->src[d], (int)v->dst[d]);
            }
            print_error("\n");
            fail();
        }
        fence_free(&dst);
    }
    fence_free(&src);
    fence_free(&want);
}

static void shuffle(wf_random_t *random, size_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (size_t i = n; i > 1; i--) {
        const size_t j = (size_t)wf_random_below(random, i), other = order[i - 1];
        order[i - 1] = order[j];
        order[j] = other;
    }
}

static void random_transposes(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("layout", 20261130);
    for (int round = 0; round < 600; round++) {
        view v = {.elem_bytes = 1 << kernel_range(&random, 0, 3),
                  .rank = (size_t)kernel_range(&random, 1, 5)};
        for (size_t d = 0; d < v.rank; d++) {
            v.dims[d] = kernel_range(&random, 1, v.rank > 3 ? 9 : v.rank > 2 ? 30 : 150);
        }
        size_t order[RANK_MAX];
        shuffle(&random, order, v.rank);
        strides_of(&v, order, kernel_range(&random, 0, 2), v.src);
        for (size_t d = 0; d < v.rank; d++) {
            order[d] = d;
        }
        strides_of(&v, order, kernel_range(&random, 0, 3), v.dst);
        if (round % 5 == 0) {
            /* Slices and broadcasts: a step, a reversed dim or a repeated one. */
            static const int64_t factors[] = {0, 2, 3, -1, -2};
            v.src[wf_random_below(&random, v.rank)] *= factors[kernel_range(&random, 0, 4)];
        }
        check(&v, &random);
    }
}

/* Planes around the sizes of blocks, tiles and items, in both directions, with and without gaps. */
static void planes(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("layout planes", 2);
    static const int64_t sizes[] = {1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,
                                    31, 33, 49, 63, 64, 65, 127, 129, 196, 1030};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    for (int bytes = 1; bytes <= 8; bytes *= 2) {
        for (int i = 0; i < SIZES; i++) {
            for (int j = 0; j < SIZES; j++) {
                const int64_t gap = kernel_range(&random, 0, 1);
                const view v = {.elem_bytes = bytes,
                                .rank = 3,
                                .dims = {2, sizes[i], sizes[j]},
                                .src = {sizes[i] * sizes[j], 1, sizes[i]},
                                .dst = {sizes[i] * (sizes[j] + gap), sizes[j] + gap, 1}};
                check(&v, &random);
            }
        }
    }
}

/* An image from channels first to channels last and back, the sizes of networks. */
static void images(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("layout images", 3);
    static const int64_t shapes[][2] = {{3, 224 * 224}, {1, 1000},  {4, 777},
                                        {64, 56 * 56},  {1280, 49}, {96, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t c = shapes[i][0], pixels = shapes[i][1];
        for (int bytes = 1; bytes <= 4; bytes *= 2) {
            const view to_last = {.elem_bytes = bytes,
                                  .rank = 3,
                                  .dims = {2, pixels, c},
                                  .src = {c * pixels, 1, pixels},
                                  .dst = {c * pixels, c, 1}};
            const view to_first = {.elem_bytes = bytes,
                                   .rank = 3,
                                   .dims = {2, c, pixels},
                                   .src = {c * pixels, 1, c},
                                   .dst = {c * pixels, pixels, 1}};
            check(&to_last, &random);
            check(&to_first, &random);
        }
    }
}

static void plans(void **state)
{
    (void)state;
    wf_copy_plan p;
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        if (!kernel_tier_runs(kernels[k].tier)) {
            continue;
        }
        /* A dense copy of any rank is one run. */
        const int64_t dims[10] = {2, 3, 1, 2, 2, 1, 3, 2, 2, 2};
        int64_t dense[10], odd[10];
        for (int d = 9, stride = 1; d >= 0; d--) {
            dense[d] = stride;
            odd[d] = 3 * stride + d;
            stride *= (int)dims[d];
        }
        assert_int_equal(kernels[k].plan(4, 10, dims, dense, dense, &p), 0);
        assert_int_equal(p.rank, 1);
        assert_int_equal(p.kind, WF_COPY_RUNS);
        /* Eight dims are the limit, dims of one do not count. */
        assert_int_equal(kernels[k].plan(4, 10, dims, odd, dense, &p), 0);
        assert_int_equal(p.rank, 8);
        const int64_t nine[9] = {2, 2, 2, 2, 2, 2, 2, 2, 2};
        int64_t src[9], dst[9];
        for (int d = 0; d < 9; d++) {
            src[d] = 1 << d;
            dst[d] = 256 >> d;
        }
        assert_int_equal(kernels[k].plan(4, 9, nine, src, dst, &p), -1);
        /* An empty dim is no work; a scalar is one element. */
        const int64_t empty[2] = {3, 0}, ones[2] = {1, 1};
        assert_int_equal(kernels[k].plan(4, 2, empty, ones, ones, &p), 0);
        assert_int_equal(p.items, 0);
        assert_int_equal(kernels[k].plan(8, 0, empty, ones, ones, &p), 0);
        assert_int_equal(p.items, 1);
        /* A pair of floats that stays together becomes an element of eight bytes. */
        const int64_t pairs[3] = {5, 7, 2}, from[3] = {2, 10, 1}, to[3] = {14, 2, 1};
        assert_int_equal(kernels[k].plan(4, 3, pairs, from, to, &p), 0);
        assert_int_equal(p.elem_bytes, 8);
        assert_int_equal(p.kind, WF_COPY_PLANE);
    }
}

static void gathers(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("gather", 4);
    for (int round = 0; round < 200; round++) {
        wf_gather_args a = {.index_bytes = kernel_range(&random, 0, 1) ? 8 : 4,
                            .outer = kernel_range(&random, 1, 3),
                            .entries = kernel_range(&random, 1, 30),
                            .index_count = kernel_range(&random, 1, 40),
                            .row_bytes = kernel_range(&random, 1, round % 4 ? 70 : 1500)};
        fence src = fence_new(a.outer * a.entries * a.row_bytes);
        fence indices = fence_new(a.index_count * a.index_bytes);
        int64_t numbers[40];
        for (size_t i = 0; i < src.bytes; i++) {
            ((uint8_t *)src.data)[i] = (uint8_t)wf_random_u64(&random);
        }
        const int64_t bad = round % 3 == 0 ? kernel_range(&random, 0, (int)a.index_count - 1) : a.index_count;
        for (int64_t i = 0; i < a.index_count; i++) {
            numbers[i] = kernel_range(&random, (int)-a.entries, (int)a.entries - 1);
            if (i == bad) {
                numbers[i] = kernel_range(&random, 0, 1) ? a.entries : -a.entries - 1;
            }
            const int32_t narrow = (int32_t)numbers[i];
            memcpy((uint8_t *)indices.data + i * a.index_bytes,
                   a.index_bytes == 8 ? (const void *)&numbers[i] : (const void *)&narrow,
                   (size_t)a.index_bytes);
        }
        a.src = src.data;
        a.indices = indices.data;
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
            if (!kernel_tier_runs(kernels[k].tier)) {
                continue;
            }
            const int64_t rows = a.outer * a.index_count;
            fence dst = fence_new(rows * a.row_bytes);
            a.dst = dst.data;
            const int64_t middle = (int64_t)wf_random_below(&random, (uint64_t)bad + 1);
            assert_int_equal(kernels[k].gather(&a, 0, middle), -1);
            assert_int_equal(kernels[k].gather(&a, middle, rows), bad < a.index_count ? bad : -1);
            for (int64_t row = 0; row < (bad < a.index_count ? bad : rows); row++) {
                const int64_t number = numbers[row % a.index_count];
                const int64_t entry =
                    row / a.index_count * a.entries + (number < 0 ? number + a.entries : number);
                assert_memory_equal((uint8_t *)dst.data + row * a.row_bytes,
                                    (uint8_t *)src.data + entry * a.row_bytes, (size_t)a.row_bytes);
            }
            fence_free(&dst);
        }
        fence_free(&src);
        fence_free(&indices);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_transposes),
        cmocka_unit_test(planes),
        cmocka_unit_test(images),
        cmocka_unit_test(plans),
        cmocka_unit_test(gathers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
