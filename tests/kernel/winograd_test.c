/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd convolution kernels against the direct sum in double precision, at every tier that the machine has
 * and with 16 generic lanes (the AVX-512 logic on a machine without it). Operands end at a page that may not
 * be touched.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/random.h"

#define WF_TIER wide
#define WF_VLEN 16
#include "backends/native/kernels/epilogue.c"
#include "backends/native/kernels/gemm.c"
#include "backends/native/kernels/winograd.c"

typedef struct tier {
    const char *name;
    const wf_winograd_kernels *kernels;
} tier;

static size_t tiers_here(tier *out)
{
    size_t count = 0;
    out[count++] = (tier){"wide", &wf_winograd_wide};
    out[count++] = (tier){"scalar", &wf_winograd_scalar};
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        out[count++] = (tier){"avx2", &wf_winograd_avx2};
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        out[count++] = (tier){"avx512", &wf_winograd_avx512};
#endif
    return count;
}

/* Floats whose end is the end of the last page that may be touched. */
typedef struct fence {
    char *map;
    size_t map_bytes;
    float *data;
    size_t count;
} fence;

static fence fence_new(size_t count)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = count * sizeof(float);
    fence f = {.count = count};
    f.map_bytes = (bytes + page - 1) / page * page + page;
    f.map = mmap(NULL, f.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f.map != MAP_FAILED);
    assert_int_equal(mprotect(f.map + f.map_bytes - page, page, PROT_NONE), 0);
    f.data = (float *)(void *)(f.map + f.map_bytes - page - bytes);
    return f;
}

static void fence_free(fence f)
{
    if (f.map)
        munmap(f.map, f.map_bytes);
}

/* Standard normal by the sum of twelve uniforms. */
static float normal(wf_random_t *random)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += wf_random_float(random);
    return sum * 0.5f;
}

static fence fence_normal(wf_random_t *random, size_t count)
{
    fence f = fence_new(count);
    for (size_t i = 0; i < count; i++)
        f.data[i] = normal(random);
    return f;
}

typedef struct problem {
    wf_winograd_shape shape;
    wf_winograd_args args;
    wf_ep_stage stages[4];
    fence x, w, y, bias, residual;
    bool residual_is_y;
} problem;

static int range(wf_random_t *random, int low, int high)
{
    return low + (int)wf_random_below(random, (uint64_t)(high - low + 1));
}

static void free_problem(problem *p)
{
    fence_free(p->x);
    fence_free(p->w);
    fence_free(p->y);
    fence_free(p->bias);
    fence_free(p->residual);
}

static void set_operands(problem *p, wf_random_t *random)
{
    wf_winograd_shape *s = &p->shape;
    const int64_t pixels = (int64_t)s->images * s->out_h * s->out_w;
    s->row_stride = s->pixel_stride * s->in_w;
    s->image_stride = s->row_stride * s->in_h;
    p->x = fence_normal(random, (size_t)(s->images * s->image_stride - s->pixel_stride + s->channels));
    p->w = fence_normal(random, (size_t)s->filters * (size_t)s->channels * 9);
    p->y = fence_new((size_t)((pixels - 1) * s->ldc + s->filters));
    p->args = (wf_winograd_args){.x = p->x.data, .y = p->y.data, .stages = p->stages};
}

static void make_problem(problem *p, wf_random_t *random)
{
    *p = (problem){0};
    wf_winograd_shape *s = &p->shape;
    s->images = range(random, 1, 2);
    s->in_h = range(random, 1, 13);
    s->in_w = range(random, 1, 13);
    s->pad_top = range(random, 0, 2);
    s->pad_left = range(random, 0, 2);
    s->out_h = s->in_h + s->pad_top + range(random, 0, 2) - 2;
    s->out_w = s->in_w + s->pad_left + range(random, 0, 2) - 2;
    s->out_h = s->out_h < 1 ? 1 : s->out_h;
    s->out_w = s->out_w < 1 ? 1 : s->out_w;
    s->channels = range(random, 1, 40);
    s->filters = range(random, 1, 40);
    s->pixel_stride = s->channels + range(random, 0, 1) * range(random, 0, 9);
    s->ldc = s->filters + range(random, 0, 1) * range(random, 0, 9);
    set_operands(p, random);
    size_t n = 0;
    if (range(random, 0, 2)) {
        p->bias = fence_normal(random, (size_t)s->filters);
        p->stages[n++] = (wf_ep_stage){WF_EP_ADD, WF_EP_COL, 0, 0, p->bias.data, 0};
    }
    if (range(random, 0, 2) == 0)
        p->stages[n++] = (wf_ep_stage){WF_EP_LEAKY_RELU, WF_EP_NONE, 0.25f, 0, NULL, 0};
    if (range(random, 0, 1)) {
        const int64_t pixels = (int64_t)s->images * s->out_h * s->out_w;
        p->residual_is_y = range(random, 0, 1);
        if (!p->residual_is_y)
            p->residual = fence_normal(random, (size_t)((pixels - 1) * (s->filters + 1) + s->filters));
        p->stages[n++] = (wf_ep_stage){WF_EP_ADD,
                                       WF_EP_FULL,
                                       0,
                                       0,
                                       p->residual_is_y ? p->y.data : p->residual.data,
                                       p->residual_is_y ? s->ldc : s->filters + 1};
    }
    if (range(random, 0, 1))
        p->stages[n++] = (wf_ep_stage){WF_EP_RELU, WF_EP_NONE, 0, 0, NULL, 0};
    p->args.stage_count = n;
}

/* The result of pixel row, filter j; *out_magnitude is the sum of the magnitudes of its terms. */
static double direct(const problem *p, const float *before, int64_t row, int64_t j, double *out_magnitude)
{
    const wf_winograd_shape *s = &p->shape;
    const int64_t image = row / (s->out_h * s->out_w);
    const int64_t y0 = row / s->out_w % s->out_h - s->pad_top;
    const int64_t x0 = row % s->out_w - s->pad_left;
    double sum = 0;
    double magnitude = 0;
    for (int64_t y = 0; y < 3; y++) {
        for (int64_t x = 0; x < 3; x++) {
            if (y0 + y < 0 || y0 + y >= s->in_h || x0 + x < 0 || x0 + x >= s->in_w)
                continue;
            const float *from =
                p->x.data + image * s->image_stride + (y0 + y) * s->row_stride + (x0 + x) * s->pixel_stride;
            for (int64_t i = 0; i < s->channels; i++) {
                const double product =
                    (double)from[i] * (double)p->w.data[(j * s->channels + i) * 9 + y * 3 + x];
                sum += product;
                magnitude += fabs(product);
            }
        }
    }
    for (size_t i = 0; i < p->args.stage_count; i++) {
        const wf_ep_stage *st = p->stages + i;
        if (st->fn == WF_EP_RELU)
            sum = sum < 0 ? 0 : sum;
        else if (st->fn == WF_EP_LEAKY_RELU)
            sum = sum < 0 ? sum * (double)st->a : sum;
        else if (st->operand == WF_EP_COL)
            sum += (double)st->data[j];
        else
            sum += p->residual_is_y ? (double)before[row * s->ldc + j]
                                    : (double)st->data[row * st->row_stride_elems + j];
    }
    *out_magnitude = magnitude;
    return sum;
}

/* Runs all phases; workspaces start as NaN. */
static void run(const wf_winograd_kernels *k, problem *p, const wf_winograd_plan *plan, const float *before)
{
    const wf_winograd_shape *s = &p->shape;
    const wf_gemm_b_strides strides = {9 * (int64_t)s->channels, 9, 3, 1};
    const fence packed = fence_new(k->packed_elems(s, plan));
    k->pack(s, plan, p->w.data, &strides, packed.data);
    const fence shared = fence_new(k->shared_bytes(s, plan) / sizeof(float));
    const fence thread = fence_new(k->thread_bytes(s, plan) / sizeof(float));
    memset(shared.data, 0xff, shared.count * sizeof(float));
    memcpy(p->y.data, before, p->y.count * sizeof(float));
    wf_winograd_args args = p->args;
    args.packed = packed.data;
    for (int phase = 0; phase < k->phase_count(plan); phase++) {
        for (int64_t i = k->item_count(s, plan, phase) - 1; i >= 0; i--) {
            memset(thread.data, 0xff, thread.count * sizeof(float));
            k->item(s, plan, &args, shared.data, thread.data, phase, i);
        }
    }
    fence_free(packed);
    fence_free(shared);
    fence_free(thread);
}

static const wf_gemm_caches caches = {32 << 10, 512 << 10, 4 << 20};

/* The rounding error of one result is below `units` roundings of the sum of the magnitudes of its own terms
 * and those of the rest of its tile; normal data keeps the latter near the former, so a factor of them bounds
 * both. Measured maxima of the factor are 2 for F(2x2) and 12 for F(4x4). */
static void test_random_problems(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("winograd_random_problems", 20261130);
    tier tiers[4];
    const size_t tier_count = tiers_here(tiers);
    for (int round = 0; round < 60; round++) {
        problem p;
        make_problem(&p, &random);
        const wf_winograd_shape *s = &p.shape;
        float *before = test_malloc(p.y.count * sizeof(float));
        float *first = test_malloc(p.y.count * sizeof(float));
        for (size_t i = 0; i < p.y.count; i++)
            before[i] = normal(&random);
        for (size_t t = 0; t < tier_count; t++) {
            for (int tile = 2; tile <= 4; tile += 2) {
                wf_winograd_plan plan = tiers[t].kernels->plan_default(s, &caches, 2);
                plan.tile = tile;
                for (int attempt = 0; attempt < 3; attempt++) {
                    char what[160];
                    snprintf(what, sizeof what, "round %d %s F(%d) %dx%d k%d n%d block %d phased %d", round,
                             tiers[t].name, tile, s->out_h, s->out_w, s->channels, s->filters,
                             plan.tile_block, plan.phased);
                    run(tiers[t].kernels, &p, &plan, before);
                    if (attempt == 0)
                        memcpy(first, p.y.data, p.y.count * sizeof(float));
                    else if (memcmp(first, p.y.data, p.y.count * sizeof(float)) != 0) {
                        print_error("%s: another plan gives other bits\n", what);
                        fail();
                    }
                    for (size_t i = 0; attempt == 0 && i < p.y.count; i++) {
                        const int64_t row = (int64_t)i / s->ldc;
                        const int64_t j = (int64_t)i % s->ldc;
                        if (j >= s->filters) {
                            assert_true(p.y.data[i] == before[i]);
                            continue;
                        }
                        double magnitude;
                        const double expected = direct(&p, before, row, j, &magnitude);
                        const double mean = 9.0 * s->channels;
                        const double bound = (tile == 2 ? 8 : 40) * (magnitude + mean + 4) * 0x1p-24;
                        if (!(fabs((double)p.y.data[i] - expected) <= bound)) {
                            print_error("%s: pixel %d filter %d: %a, expected %a within %g\n", what, (int)row,
                                        (int)j, (double)p.y.data[i], expected, bound);
                            fail();
                        }
                    }
                    plan.tile_block = range(&random, 1, 20);
                    plan.phased = range(&random, 0, 1);
                    plan.gemm.m_block = range(&random, 1, 30);
                    plan.gemm.n_block = range(&random, 1, 60);
                    plan.gemm.k_block = range(&random, 4, 60);
                    plan.gemm.panel_vectors = (int16_t)range(&random, 1, 3);
                    plan.gemm.m_band = (int16_t)(range(&random, 0, 1) * range(&random, 1, 30));
                }
            }
        }
        test_free(before);
        test_free(first);
        free_problem(&p);
    }
}

/* The stated accuracy, on the channel counts of real networks. */
static void test_signal_to_noise(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("winograd_signal_to_noise", 3);
    tier tiers[4];
    const size_t tier_count = tiers_here(tiers);
    static const int channels[] = {16, 64, 256, 512};
    for (size_t c = 0; c < sizeof channels / sizeof channels[0]; c++) {
        problem p = {.shape = {.images = 1,
                               .in_h = 12,
                               .in_w = 12,
                               .out_h = 12,
                               .out_w = 12,
                               .pad_top = 1,
                               .pad_left = 1,
                               .channels = channels[c],
                               .pixel_stride = channels[c],
                               .filters = 8,
                               .ldc = 8}};
        set_operands(&p, &random);
        float *before = test_calloc(p.y.count, sizeof(float));
        double *expected = test_malloc(p.y.count * sizeof(double));
        for (size_t i = 0; i < p.y.count; i++) {
            double magnitude;
            expected[i] = direct(&p, before, (int64_t)i / 8, (int64_t)i % 8, &magnitude);
        }
        for (size_t t = 0; t < tier_count; t++) {
            for (int tile = 2; tile <= 4; tile += 2) {
                wf_winograd_plan plan = tiers[t].kernels->plan_default(&p.shape, &caches, 2);
                plan.tile = tile;
                run(tiers[t].kernels, &p, &plan, before);
                double signal = 0;
                double noise = 0;
                for (size_t i = 0; i < p.y.count; i++) {
                    const double error = (double)p.y.data[i] - expected[i];
                    signal += expected[i] * expected[i];
                    noise += error * error;
                }
                const double db = 10 * log10(signal / noise);
                printf("%s F(%dx%d) %d channels: %.1f dB\n", tiers[t].name, tile, tile, channels[c], db);
                assert_true(db >= (tile == 2 ? 120 : 110));
            }
        }
        test_free(before);
        test_free(expected);
        free_problem(&p);
    }
}

static void test_plan_list(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("winograd_plan_list", 5);
    tier tiers[4];
    const size_t tier_count = tiers_here(tiers);
    for (int round = 0; round < 4; round++) {
        problem p;
        make_problem(&p, &random);
        float *before = test_calloc(p.y.count, sizeof(float));
        float *first[2] = {test_malloc(p.y.count * sizeof(float)), test_malloc(p.y.count * sizeof(float))};
        for (size_t t = 0; t < tier_count; t++) {
            bool seen[2] = {false, false};
            wf_winograd_plan plans[WF_WINOGRAD_PLANS_MAX];
            const wf_winograd_kernels *k = tiers[t].kernels;
            const size_t count = k->plan_list(&p.shape, &caches, 2, plans, WF_WINOGRAD_PLANS_MAX);
            const wf_winograd_plan standard = k->plan_default(&p.shape, &caches, 2);
            assert_in_range(count, 1, WF_WINOGRAD_PLANS_MAX);
            assert_memory_equal(&plans[0], &standard, sizeof standard);
            for (size_t i = 0; i < count; i++) {
                const size_t kind = plans[i].tile == 4;
                run(k, &p, &plans[i], before);
                if (!seen[kind])
                    memcpy(first[kind], p.y.data, p.y.count * sizeof(float));
                else
                    assert_memory_equal(first[kind], p.y.data, p.y.count * sizeof(float));
                seen[kind] = true;
            }
            assert_int_equal(k->plan_list(&p.shape, &caches, 2, plans, 0), count);
        }
        test_free(before);
        test_free(first[0]);
        test_free(first[1]);
        free_problem(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_problems),
        cmocka_unit_test(test_signal_to_noise),
        cmocka_unit_test(test_plan_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
