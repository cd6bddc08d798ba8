/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd convolution kernels against the direct sum in double precision, at every tier that the machine has
 * and with 16 generic lanes (the AVX-512 logic on a machine without it). Operands end at a page that may not
 * be touched.
 */
#include <stdbool.h>

#include "kernel/kernel_support.h"

#include "backends/native/kernels/winograd.h"

wf_ep_run_f32_fn wf_ep_run_f32_wide;
extern const wf_gemm_kernels wf_gemm_wide;
extern const wf_winograd_kernels wf_winograd_wide;
#include "backends/native/kernels/epilogue.c"
#include "backends/native/kernels/gemm.c"
#include "backends/native/kernels/winograd.c"

static const struct {
    const char *name;
    const wf_winograd_kernels *kernels;
} tiers[] = {
#define X(tier) {#tier, &wf_winograd_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};
enum { TIERS = sizeof tiers / sizeof tiers[0] };

/* Standard normal by the sum of twelve uniforms. */
static float normal(wf_random_t *random)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += wf_random_float(random);
    return sum * 0.5f;
}

static fence fence_normal(wf_random_t *random, int64_t count)
{
    fence f = fence_new(count * 4);
    float *data = f.data;
    for (int64_t i = 0; i < count; i++)
        data[i] = normal(random);
    return f;
}

typedef struct problem {
    wf_winograd_shape shape;
    wf_winograd_args args;
    wf_ep_stage stages[4];
    fence x, w, y, bias, residual;
    int64_t y_count;
    bool residual_is_y;
} problem;

static void free_problem(problem *p)
{
    fence_free(&p->x);
    fence_free(&p->w);
    fence_free(&p->y);
    fence_free(&p->bias);
    fence_free(&p->residual);
}

static void set_operands(problem *p, wf_random_t *random)
{
    wf_winograd_shape *s = &p->shape;
    const int64_t pixels = (int64_t)s->images * s->out_h * s->out_w;
    s->row_stride = s->pixel_stride * s->in_w;
    s->image_stride = s->row_stride * s->in_h;
    p->x = fence_normal(random, (int64_t)(s->images * s->image_stride - s->pixel_stride + s->channels));
    p->w = fence_normal(random, (int64_t)s->filters * s->channels * 9);
    p->y_count = (pixels - 1) * s->ldc + s->filters;
    p->y = fence_new(p->y_count * 4);
    p->args = (wf_winograd_args){.x = p->x.data, .y = p->y.data, .stages = p->stages};
}

static void make_problem(problem *p, wf_random_t *random)
{
    *p = (problem){0};
    wf_winograd_shape *s = &p->shape;
    s->images = kernel_range(random, 1, 2);
    s->in_h = kernel_range(random, 1, 13);
    s->in_w = kernel_range(random, 1, 13);
    s->pad_top = kernel_range(random, 0, 2);
    s->pad_left = kernel_range(random, 0, 2);
    s->out_h = s->in_h + s->pad_top + kernel_range(random, 0, 2) - 2;
    s->out_w = s->in_w + s->pad_left + kernel_range(random, 0, 2) - 2;
    s->out_h = s->out_h < 1 ? 1 : s->out_h;
    s->out_w = s->out_w < 1 ? 1 : s->out_w;
    s->channels = kernel_range(random, 1, 40);
    s->filters = kernel_range(random, 1, 40);
    s->pixel_stride = s->channels + kernel_range(random, 0, 1) * kernel_range(random, 0, 9);
    s->ldc = s->filters + kernel_range(random, 0, 1) * kernel_range(random, 0, 9);
    set_operands(p, random);
    size_t n = 0;
    if (kernel_range(random, 0, 2)) {
        p->bias = fence_normal(random, (int64_t)s->filters);
        p->stages[n++] = (wf_ep_stage){WF_EP_ADD, WF_EP_COL, 0, 0, p->bias.data, 0};
    }
    if (kernel_range(random, 0, 2) == 0)
        p->stages[n++] = (wf_ep_stage){WF_EP_LEAKY_RELU, WF_EP_NONE, 0.25f, 0, NULL, 0};
    if (kernel_range(random, 0, 1)) {
        const int64_t pixels = (int64_t)s->images * s->out_h * s->out_w;
        p->residual_is_y = kernel_range(random, 0, 1);
        if (!p->residual_is_y)
            p->residual = fence_normal(random, (int64_t)((pixels - 1) * (s->filters + 1) + s->filters));
        p->stages[n++] = (wf_ep_stage){WF_EP_ADD,
                                       WF_EP_FULL,
                                       0,
                                       0,
                                       p->residual_is_y ? p->args.y : p->residual.data,
                                       p->residual_is_y ? s->ldc : s->filters + 1};
    }
    if (kernel_range(random, 0, 1))
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
                p->args.x + image * s->image_stride + (y0 + y) * s->row_stride + (x0 + x) * s->pixel_stride;
            for (int64_t i = 0; i < s->channels; i++) {
                const double product =
                    (double)from[i] *
                    (double)((const float *)p->w.data)[(j * s->channels + i) * 9 + y * 3 + x];
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
    fence packed = fence_new((int64_t)k->packed_elems(s, plan) * 4);
    k->pack(s, plan, p->w.data, &strides, packed.data);
    fence shared = fence_new((int64_t)k->shared_bytes(s, plan));
    fence thread = fence_new((int64_t)k->thread_bytes(s, plan));
    memset(shared.data, 0xff, shared.bytes);
    memcpy(p->y.data, before, (size_t)p->y_count * sizeof(float));
    wf_winograd_args args = p->args;
    args.packed = packed.data;
    for (int phase = 0; phase < k->phase_count(plan); phase++) {
        for (int64_t i = k->item_count(s, plan, phase) - 1; i >= 0; i--) {
            memset(thread.data, 0xff, thread.bytes);
            k->item(s, plan, &args, shared.data, thread.data, phase, i);
        }
    }
    fence_free(&packed);
    fence_free(&shared);
    fence_free(&thread);
}

static const wf_gemm_caches caches = {32 << 10, 512 << 10, 4 << 20};

/* The rounding error of one result is below `units` roundings of the sum of the magnitudes of its own terms
 * and those of the rest of its tile; normal data keeps the latter near the former, so a factor of them bounds
 * both. Measured maxima of the factor are 2 for F(2x2) and 12 for F(4x4). */
static void test_random_problems(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("winograd_random_problems", 20261130);
    for (int round = 0; round < 60; round++) {
        problem p;
        make_problem(&p, &random);
        const wf_winograd_shape *s = &p.shape;
        float *before = test_malloc((size_t)p.y_count * sizeof(float));
        float *first = test_malloc((size_t)p.y_count * sizeof(float));
        for (int64_t i = 0; i < p.y_count; i++)
            before[i] = normal(&random);
        for (size_t t = 0; t < TIERS; t++) {
            if (!kernel_tier_runs(tiers[t].name))
                continue;
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
                        memcpy(first, p.y.data, (size_t)p.y_count * sizeof(float));
                    else if (memcmp(first, p.y.data, (size_t)p.y_count * sizeof(float)) != 0) {
                        print_error("%s: another plan gives other bits\n", what);
                        fail();
                    }
                    for (int64_t i = 0; attempt == 0 && i < p.y_count; i++) {
                        const int64_t row = i / s->ldc;
                        const int64_t j = i % s->ldc;
                        if (j >= s->filters) {
                            assert_true(p.args.y[i] == before[i]);
                            continue;
                        }
                        double magnitude;
                        const double expected = direct(&p, before, row, j, &magnitude);
                        const double mean = 9.0 * s->channels;
                        const double bound = (tile == 2 ? 8 : 40) * (magnitude + mean + 4) * 0x1p-24;
                        if (!(fabs((double)p.args.y[i] - expected) <= bound)) {
                            print_error("%s: pixel %d filter %d: %a, expected %a within %g\n", what, (int)row,
                                        (int)j, (double)p.args.y[i], expected, bound);
                            fail();
                        }
                    }
                    plan.tile_block = kernel_range(&random, 1, 20);
                    plan.phased = kernel_range(&random, 0, 1);
                    plan.gemm.m_block = kernel_range(&random, 1, 30);
                    plan.gemm.n_block = kernel_range(&random, 1, 60);
                    plan.gemm.k_block = kernel_range(&random, 4, 60);
                    plan.gemm.panel_vectors = (int16_t)kernel_range(&random, 1, 3);
                    plan.gemm.m_band = (int16_t)(kernel_range(&random, 0, 1) * kernel_range(&random, 1, 30));
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
        float *before = test_calloc((size_t)p.y_count, sizeof(float));
        double *expected = test_malloc((size_t)p.y_count * sizeof(double));
        for (int64_t i = 0; i < p.y_count; i++) {
            double magnitude;
            expected[i] = direct(&p, before, i / 8, i % 8, &magnitude);
        }
        for (size_t t = 0; t < TIERS; t++) {
            if (!kernel_tier_runs(tiers[t].name))
                continue;
            for (int tile = 2; tile <= 4; tile += 2) {
                wf_winograd_plan plan = tiers[t].kernels->plan_default(&p.shape, &caches, 2);
                plan.tile = tile;
                run(tiers[t].kernels, &p, &plan, before);
                double signal = 0;
                double noise = 0;
                for (int64_t i = 0; i < p.y_count; i++) {
                    const double error = (double)p.args.y[i] - expected[i];
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
    for (int round = 0; round < 4; round++) {
        problem p;
        make_problem(&p, &random);
        float *before = test_calloc((size_t)p.y_count, sizeof(float));
        float *first[2] = {test_malloc((size_t)p.y_count * sizeof(float)),
                           test_malloc((size_t)p.y_count * sizeof(float))};
        for (size_t t = 0; t < TIERS; t++) {
            if (!kernel_tier_runs(tiers[t].name))
                continue;
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
                    memcpy(first[kind], p.y.data, (size_t)p.y_count * sizeof(float));
                else
                    assert_memory_equal(first[kind], p.y.data, (size_t)p.y_count * sizeof(float));
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
