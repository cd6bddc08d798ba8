/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution against plain loops in double precision, on every tier and for every plan. */
#include "kernel/kernel_support.h"

#include "backends/native/kernels/depthwise.h"

wf_dw_f32_fn wf_dw_f32_wide;
wf_ep_run_f32_fn wf_ep_run_f32_wide;
#include "backends/native/kernels/depthwise.c"
#include "backends/native/kernels/epilogue.c"

static const struct {
    const char *tier;
    wf_dw_f32_fn *fn;
} kernels[] = {
#define X(tier) {#tier, wf_dw_f32_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

typedef struct problem {
    wf_dw_args args;
    wf_ep_stage stages[2];
    fence x, w, bias, packed, y, scratch, column;
    double *want, *bound;
    int64_t results, y_elems;
} problem;

static double activate(const wf_ep_stage *s, double v, int64_t channel)
{
    switch (s->fn) {
    case WF_EP_RELU:
        return v < 0 ? 0 : v;
    case WF_EP_CLIP:
        return fmin(fmax(v, (double)s->a), (double)s->b);
    case WF_EP_HARD_SWISH:
        return v * fmin(fmax(v / 6 + 0.5, 0), 1);
    case WF_EP_SWISH:
        return v / (1 + exp(-(double)s->a * v));
    case WF_EP_MUL:
        return v * (double)s->data[channel];
    default:
        fail();
        return 0;
    }
}

static double x_at(const problem *p, int64_t n, int64_t iy, int64_t ix, int64_t c)
{
    const wf_dw_args *a = &p->args;
    if (iy < 0 || iy >= a->shape.in_h || ix < 0 || ix >= a->shape.in_w) {
        return 0;
    }
    return (double)a->x[n * a->x_image_stride + iy * a->x_row_stride + ix * a->x_pixel_stride + c];
}

/* The answers in order [image][oh][ow][channel], with a bound on the rounding error: each of the taps + 1
 * terms is rounded once as a product and once in the sum, and the activations are as steep as 1.1 and right
 * to a few units. */
static void solve(problem *p)
{
    const wf_dw_shape *s = &p->args.shape;
    const int64_t channels = (int64_t)s->channels * s->multiplier, taps = (int64_t)s->kernel_h * s->kernel_w;
    const float *w = p->w.data, *bias = p->bias.data;
    double *want = p->want, *bound = p->bound;
    for (int64_t n = 0; n < s->images; n++) {
        for (int64_t pixel = 0; pixel < (int64_t)s->out_h * s->out_w; pixel++) {
            const int64_t oh = pixel / s->out_w, ow = pixel % s->out_w;
            for (int64_t c = 0; c < channels; c++) {
                double sum = bias ? (double)bias[c] : 0, size = fabs(sum);
                for (int64_t t = 0; t < taps; t++) {
                    const int64_t iy = oh * s->stride_h - s->pad_top + t / s->kernel_w * s->dilation_h;
                    const int64_t ix = ow * s->stride_w - s->pad_left + t % s->kernel_w * s->dilation_w;
                    const double term = (double)w[c * taps + t] * x_at(p, n, iy, ix, c / s->multiplier);
                    sum += term;
                    size += fabs(term);
                }
                for (size_t i = 0; i < p->args.stage_count; i++) {
                    sum = activate(&p->stages[i], sum, c);
                }
                *want++ = sum;
                *bound++ = (size * (double)(2 * taps + 2) * 1.1 + fabs(sum) * 8) * FLT_EPSILON;
            }
        }
    }
}

static int out_size(int in, int kernel, int stride, int dilation, int pad_begin, int pad_end)
{
    return (in + pad_begin + pad_end - (kernel - 1) * dilation - 1) / stride + 1;
}

/* A random problem; a third have the kernels of networks, in sizes around the tiles. */
static void problem_make(problem *p, wf_random_t *random)
{
    *p = (problem){0};
    wf_dw_shape *s = &p->args.shape;
    do {
        const int usual = kernel_range(random, 0, 2) > 0;
        s->images = kernel_range(random, 1, 2);
        s->in_h = kernel_range(random, 1, 19);
        s->in_w = kernel_range(random, 1, 33);
        s->channels = kernel_range(random, 1, 70);
        s->multiplier = kernel_range(random, 0, 4) ? 1 : kernel_range(random, 2, 3);
        s->kernel_h = usual ? 3 + 2 * kernel_range(random, 0, 2) : kernel_range(random, 1, 8);
        s->kernel_w = usual ? s->kernel_h : kernel_range(random, 1, 8);
        s->stride_h = usual ? kernel_range(random, 1, 2) : kernel_range(random, 1, 4);
        s->stride_w = usual ? s->stride_h : kernel_range(random, 1, 4);
        s->dilation_h = usual ? 1 : kernel_range(random, 1, 3);
        s->dilation_w = usual ? 1 : kernel_range(random, 1, 3);
        s->pad_top = usual ? s->kernel_h / 2 : kernel_range(random, 0, 9);
        s->pad_left = usual ? s->kernel_w / 2 : kernel_range(random, 0, 9);
        s->out_h = out_size(s->in_h, s->kernel_h, s->stride_h, s->dilation_h, s->pad_top,
                            usual ? s->pad_top : kernel_range(random, 0, 9));
        s->out_w = out_size(s->in_w, s->kernel_w, s->stride_w, s->dilation_w, s->pad_left,
                            usual ? s->pad_left : kernel_range(random, 0, 9));
    } while (s->out_h < 1 || s->out_w < 1);

    wf_dw_args *a = &p->args;
    const int64_t channels = (int64_t)s->channels * s->multiplier, taps = (int64_t)s->kernel_h * s->kernel_w;
    a->x_pixel_stride = s->channels + kernel_range(random, 0, 1) * 3;
    a->x_row_stride = s->in_w * a->x_pixel_stride + kernel_range(random, 0, 1) * 5;
    a->x_image_stride = s->in_h * a->x_row_stride;
    a->y_pixel_stride = channels + kernel_range(random, 0, 1) * 7;
    a->y_row_stride = s->out_w * a->y_pixel_stride + kernel_range(random, 0, 1) * 3;
    a->y_image_stride = s->out_h * a->y_row_stride;
    p->x = fence_floats(random, (s->images - 1) * a->x_image_stride + (s->in_h - 1) * a->x_row_stride +
                                    (s->in_w - 1) * a->x_pixel_stride + s->channels);
    p->w = fence_floats(random, channels * taps);
    if (kernel_range(random, 0, 3)) {
        p->bias = fence_floats(random, channels);
    }
    p->y_elems = (s->images - 1) * a->y_image_stride + (s->out_h - 1) * a->y_row_stride +
                 (s->out_w - 1) * a->y_pixel_stride + channels;
    a->x = p->x.data;
    p->packed = fence_new(wf_dw_packed_elems(s) * 4);
    wf_dw_pack(s, p->w.data, p->bias.data, p->packed.data);
    a->packed = p->packed.data;

    static const wf_ep_stage firsts[] = {{WF_EP_RELU, WF_EP_NONE, 0, 0, NULL, 0},
                                         {WF_EP_CLIP, WF_EP_NONE, -0.5f, 0.75f, NULL, 0},
                                         {WF_EP_HARD_SWISH, WF_EP_NONE, 0, 0, NULL, 0},
                                         {WF_EP_SWISH, WF_EP_NONE, 1.5f, 0, NULL, 0}};
    const int first = kernel_range(random, 0, 4);
    if (first < 4) {
        p->stages[a->stage_count++] = firsts[first];
    }
    if (kernel_range(random, 0, 2) == 0) {
        p->column = fence_floats(random, channels);
        p->stages[a->stage_count++] = (wf_ep_stage){WF_EP_MUL, WF_EP_COL, 0, 0, p->column.data, 0};
    }
    p->results = (int64_t)s->images * s->out_h * s->out_w * channels;
    p->want = test_calloc((size_t)p->results, sizeof *p->want);
    p->bound = test_calloc((size_t)p->results, sizeof *p->bound);
    a->stages = p->stages;
    solve(p);
}

static void problem_free(problem *p)
{
    fence *const fences[] = {&p->x, &p->w, &p->bias, &p->packed, &p->y, &p->scratch, &p->column};
    for (size_t i = 0; i < sizeof fences / sizeof fences[0]; i++) {
        fence_free(fences[i]);
    }
    test_free(p->want);
    test_free(p->bound);
}

static void describe(const problem *p, const char *tier)
{
    const wf_dw_shape *s = &p->args.shape;
    const wf_dw_plan *plan = &p->args.plan;
    print_error("%s: %dx%dx%dx%d x%d -> %dx%d, kernel %dx%d stride %dx%d dilation %dx%d pad %d,%d; variant "
                "%d tile %d "
                "band %d block %d\n",
                tier, s->images, s->in_h, s->in_w, s->channels, s->multiplier, s->out_h, s->out_w,
                s->kernel_h, s->kernel_w, s->stride_h, s->stride_w, s->dilation_h, s->dilation_w, s->pad_top,
                s->pad_left, (int)plan->variant, plan->tile_w, plan->band_rows, plan->block_channels);
}

/* Runs all items in a random order, and checks results and that nothing between them was written. */
static void run_and_check(problem *p, const char *tier, wf_dw_f32_fn *fn, wf_random_t *random)
{
    wf_dw_args *a = &p->args;
    const wf_dw_shape *s = &a->shape;
    const int64_t channels = (int64_t)s->channels * s->multiplier;
    p->y = fence_new(p->y_elems * 4);
    p->scratch = fence_scratch(wf_dw_scratch_bytes(a));
    a->y = p->y.data;
    const int64_t items = wf_dw_items(a);
    const int64_t offset = (int64_t)wf_random_below(random, (uint64_t)items);
    for (int64_t i = 0; i < items; i++) {
        fn(a, (i + offset) % items, p->scratch.data);
    }
    int64_t result = 0, at = 0;
    for (int64_t n = 0; n < s->images; n++) {
        for (int64_t oh = 0; oh < s->out_h; oh++) {
            for (int64_t ow = 0; ow < s->out_w; ow++) {
                const int64_t pixel = n * a->y_image_stride + oh * a->y_row_stride + ow * a->y_pixel_stride;
                for (; at < pixel; at++) {
                    assert_true(kernel_is_untouched(a->y + at));
                }
                for (int64_t c = 0; c < channels; c++, at++, result++) {
                    if (!kernel_close((double)a->y[at], p->want[result], p->bound[result])) {
                        describe(p, tier);
                    }
                    kernel_assert_close(a->y[at], p->want[result], p->bound[result],
                                        "image %d row %d column %d channel %d", (int)n, (int)oh, (int)ow,
                                        (int)c);
                }
            }
        }
    }
    assert_int_equal(result, p->results);
    fence_free(&p->y);
    fence_free(&p->scratch);
}

static void random_problems_on_all_plans(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("depthwise", 20261130);
    for (int round = 0; round < 400; round++) {
        problem p;
        problem_make(&p, &random);
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
            if (!kernel_tier_runs(kernels[k].tier)) {
                continue;
            }
            for (int variant = 0; variant < WF_DW_VARIANT_COUNT; variant++) {
                p.args.plan = (wf_dw_plan){.variant = (wf_dw_variant)variant,
                                           .tile_w = kernel_range(&random, 0, 1) ? 7 : 4,
                                           .band_rows = kernel_range(&random, 1, p.args.shape.out_h + 1),
                                           .block_channels = 16 * kernel_range(&random, 1, 4),
                                           .prefetch = kernel_range(&random, 0, 1)};
                run_and_check(&p, kernels[k].tier, kernels[k].fn, &random);
            }
        }
        problem_free(&p);
    }
}

/* Every plan adds the same terms in the same order. */
static void plans_agree_bit_for_bit(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("depthwise plans", 7);
    for (int round = 0; round < 40; round++) {
        problem p;
        problem_make(&p, &random);
        wf_dw_args *a = &p.args;
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
            if (!kernel_tier_runs(kernels[k].tier)) {
                continue;
            }
            fence first = {0};
            for (int trial = 0; trial < 4; trial++) {
                a->plan = (wf_dw_plan){.variant = (wf_dw_variant)(trial % WF_DW_VARIANT_COUNT),
                                       .tile_w = trial < 2 ? 7 : 4,
                                       .band_rows = kernel_range(&random, 1, a->shape.out_h),
                                       .block_channels = 16 * kernel_range(&random, 1, 4)};
                fence y = fence_new(p.y_elems * 4), scratch = fence_scratch(wf_dw_scratch_bytes(a));
                a->y = y.data;
                for (int64_t i = 0; i < wf_dw_items(a); i++) {
                    kernels[k].fn(a, i, scratch.data);
                }
                fence_free(&scratch);
                if (trial == 0) {
                    first = y;
                    continue;
                }
                const float *got = y.data, *want = first.data;
                for (int64_t i = 0; i < p.y_elems; i++) {
                    /* Equal or both a mark; zeros of different sign are equal. */
                    if (!(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])))) {
                        describe(&p, kernels[k].tier);
                        fail();
                    }
                }
                fence_free(&y);
            }
            fence_free(&first);
        }
        problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_problems_on_all_plans),
        cmocka_unit_test(plans_agree_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
