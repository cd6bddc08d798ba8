/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix product and convolution kernels against plain loops in double precision.
 *
 * Every tier that the machine has is tested, and a build of the same sources with 16 generic lanes, which is
 * the AVX-512 logic on a machine without it. Operands end at a page that may not be touched, gaps between
 * rows of C keep a mark, and the workspace starts as NaN, so reads and writes outside of the operands fail.
 */
#include <stdbool.h>

#include "kernel/kernel_support.h"

#include "backends/native/kernels/gemm.h"

wf_ep_run_f32_fn wf_ep_run_f32_wide;
extern const wf_gemm_kernels wf_gemm_wide;
#include "backends/native/kernels/epilogue.c"
#include "backends/native/kernels/gemm.c"

static const struct {
    const char *name;
    const wf_gemm_kernels *kernels;
} tiers[] = {
#define X(tier) {#tier, &wf_gemm_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};
enum { TIERS = sizeof tiers / sizeof tiers[0] };

/* ---- One problem and its answer ---- */

typedef struct problem {
    wf_gemm_shape shape;
    wf_gemm_args args;
    wf_ep_stage stages[6];
    fence a, b, c, bias, residual, scale;
    int64_t c_count;
    wf_gemm_b_strides b_strides;
    bool residual_is_c;
} problem;

static int64_t taps_of(const wf_gemm_shape *s)
{
    return s->a_kind == WF_GEMM_A_CONV ? (int64_t)s->conv.kernel_h * s->conv.kernel_w : 1;
}

static void make_stages(problem *p, wf_random_t *random)
{
    const wf_gemm_shape *s = &p->shape;
    const int64_t rows = s->batch[0] * s->batch[1] * s->m;
    size_t n = 0;
    if (kernel_range(random, 0, 3)) {
        p->bias = fence_floats(random, s->n);
        p->stages[n++] = (wf_ep_stage){WF_EP_ADD, WF_EP_COL, 0, 0, p->bias.data, 0};
    }
    if (kernel_range(random, 0, 3) == 0) {
        p->scale = fence_floats(random, (int64_t)rows);
        p->stages[n++] = (wf_ep_stage){WF_EP_MUL, WF_EP_ROW, 0, 0, p->scale.data, 0};
    }
    if (kernel_range(random, 0, 1)) {
        const int64_t stride = s->n + kernel_range(random, 0, 3);
        p->residual_is_c = kernel_range(random, 0, 2) == 0 && s->batch[0] * s->batch[1] == 1;
        if (!p->residual_is_c)
            p->residual = fence_floats(random, (int64_t)((rows - 1) * stride + s->n));
        p->stages[n++] = (wf_ep_stage){WF_EP_ADD, WF_EP_FULL, 0, 0, p->residual.data, stride};
        if (p->residual_is_c) {
            p->stages[n - 1].data = p->c.data;
            p->stages[n - 1].row_stride_elems = s->ldc;
        }
    }
    const int act = kernel_range(random, 0, 3);
    if (act == 1)
        p->stages[n++] = (wf_ep_stage){WF_EP_RELU, WF_EP_NONE, 0, 0, NULL, 0};
    if (act == 2)
        p->stages[n++] = (wf_ep_stage){WF_EP_CLIP, WF_EP_NONE, -0.25f, 1.5f, NULL, 0};
    if (act == 3)
        p->stages[n++] = (wf_ep_stage){WF_EP_LEAKY_RELU, WF_EP_NONE, 0.125f, 0, NULL, 0};
    p->args.stages = p->stages;
    p->args.stage_count = n;
}

static double stage_double(const wf_ep_stage *s, double x, int64_t row, int64_t col, double residual)
{
    switch (s->fn) {
    case WF_EP_ADD:
        return x + (s->operand == WF_EP_COL ? (double)s->data[col] : residual);
    case WF_EP_MUL:
        return x * (double)s->data[row];
    case WF_EP_RELU:
        return x < 0 ? 0 : x;
    case WF_EP_CLIP:
        return x < (double)s->a ? (double)s->a : x > (double)s->b ? (double)s->b : x;
    case WF_EP_LEAKY_RELU:
        return x < 0 ? x * (double)s->a : x;
    default:
        fail();
        return 0;
    }
}

/* A_t(r)[i] of batch offset `a`, straight from the definition; NULL outside of the image. */
static const float *a_at(const wf_gemm_shape *s, const float *a, int64_t r, int64_t t, int64_t i)
{
    if (s->a_kind == WF_GEMM_A_ROWS)
        return a + r * s->lda + i;
    if (s->a_kind == WF_GEMM_A_COLUMNS)
        return a + i * s->lda + r;
    const wf_gemm_conv *c = &s->conv;
    const int64_t image = r / (c->out_h * c->out_w);
    const int64_t y = r / c->out_w % c->out_h * c->stride_h - c->pad_top + t / c->kernel_w * c->dilation_h;
    const int64_t x = r % c->out_w * c->stride_w - c->pad_left + t % c->kernel_w * c->dilation_w;
    if (y < 0 || y >= c->in_h || x < 0 || x >= c->in_w)
        return NULL;
    return a + image * c->image_stride + y * c->row_stride + x * c->pixel_stride + i;
}

static float b_at(const problem *p, const float *b, int64_t t, int64_t i, int64_t j)
{
    const wf_gemm_shape *s = &p->shape;
    if (s->b_kind == WF_GEMM_B_ROWS)
        return b[i * s->ldb + j];
    if (s->b_kind == WF_GEMM_B_COLUMNS)
        return b[j * s->ldb + i];
    const int64_t kernel_w = s->a_kind == WF_GEMM_A_CONV ? s->conv.kernel_w : 1;
    return b[j * p->b_strides.n + i * p->b_strides.k + t / kernel_w * p->b_strides.kh +
             t % kernel_w * p->b_strides.kw];
}

/* Compares C with the definition. The error of a sum of n products is below n units of rounding times the sum
 * of their magnitudes; stages add a rounding each. */
static void check(const problem *p, const float *c_before, const char *what)
{
    const wf_gemm_shape *s = &p->shape;
    const int64_t taps = taps_of(s);
    for (int64_t batch = 0; batch < s->batch[0] * s->batch[1]; batch++) {
        const int64_t o = batch / s->batch[1];
        const int64_t i0 = batch % s->batch[1];
        const float *a = p->args.a + o * p->args.a_batch_stride[0] + i0 * p->args.a_batch_stride[1];
        const float *b =
            (const float *)p->b.data + o * p->args.b_batch_stride[0] + i0 * p->args.b_batch_stride[1];
        const float *c = p->args.c + o * p->args.c_batch_stride[0] + i0 * p->args.c_batch_stride[1];
        for (int64_t r = 0; r < s->m; r++) {
            for (int64_t j = 0; j < s->n; j++) {
                double sum = 0;
                double magnitude = 0;
                for (int64_t t = 0; t < taps; t++) {
                    for (int64_t i = 0; i < s->k; i++) {
                        const float *x = a_at(s, a, r, t, i);
                        const double product = x ? (double)*x * (double)b_at(p, b, t, i, j) : 0.0;
                        sum += product;
                        magnitude += fabs(product);
                    }
                }
                for (size_t k = 0; k < p->args.stage_count; k++) {
                    const wf_ep_stage *st = p->stages + k;
                    const int64_t row = batch * s->m + r;
                    double residual = 0;
                    if (st->operand == WF_EP_FULL)
                        residual = p->residual_is_c ? (double)c_before[r * s->ldc + j]
                                                    : (double)st->data[row * st->row_stride_elems + j];
                    sum = stage_double(st, sum, row, j, residual);
                }
                const double bound = (magnitude + 3) * (double)(taps * s->k + 4) * 0x1p-24;
                if (!(fabs((double)c[r * s->ldc + j] - sum) <= bound)) {
                    print_error("%s: batch %d row %d col %d: %a, expected %a within %g\n", what, (int)batch,
                                (int)r, (int)j, (double)c[r * s->ldc + j], sum, bound);
                    fail();
                }
            }
        }
    }
}

static void make_problem(problem *p, wf_random_t *random)
{
    *p = (problem){.shape = {.batch = {1, 1}}};
    wf_gemm_shape *s = &p->shape;
    int64_t a_count;
    int64_t b_count;
    s->n = kernel_range(random, 1, 4) == 1 ? kernel_range(random, 1, 5) : kernel_range(random, 1, 130);
    s->ldc = s->n + (kernel_range(random, 0, 1) ? 0 : kernel_range(random, 1, 20));
    if (kernel_range(random, 0, 1)) {
        s->a_kind = WF_GEMM_A_CONV;
        wf_gemm_conv *c = &s->conv;
        *c = (wf_gemm_conv){.images = kernel_range(random, 1, 2),
                            .in_h = kernel_range(random, 1, 9),
                            .in_w = kernel_range(random, 1, 9),
                            .channels = kernel_range(random, 1, 3) == 1 ? kernel_range(random, 1, 4)
                                                                        : kernel_range(random, 1, 40),
                            .kernel_h = kernel_range(random, 1, 4),
                            .kernel_w = kernel_range(random, 1, 4),
                            .stride_h = kernel_range(random, 1, 2),
                            .stride_w = kernel_range(random, 1, 3),
                            .dilation_h = kernel_range(random, 1, 2),
                            .dilation_w = kernel_range(random, 1, 2),
                            .pad_top = kernel_range(random, 0, 3),
                            .pad_left = kernel_range(random, 0, 3)};
        const int bottom = kernel_range(random, 0, 3);
        const int right = kernel_range(random, 0, 3);
        c->out_h = (c->in_h + c->pad_top + bottom - (c->kernel_h - 1) * c->dilation_h - 1) / c->stride_h + 1;
        c->out_w = (c->in_w + c->pad_left + right - (c->kernel_w - 1) * c->dilation_w - 1) / c->stride_w + 1;
        c->out_h = c->out_h < 1 ? 1 : c->out_h;
        c->out_w = c->out_w < 1 ? 1 : c->out_w;
        c->pixel_stride = c->channels + (kernel_range(random, 0, 1) ? 0 : kernel_range(random, 1, 9));
        c->row_stride = c->pixel_stride * c->in_w;
        c->image_stride = c->row_stride * c->in_h;
        s->m = (int64_t)c->images * c->out_h * c->out_w;
        s->k = c->channels;
        a_count = (c->images * c->image_stride - c->pixel_stride + c->channels);
        const int64_t taps = taps_of(s);
        p->b_strides = (wf_gemm_b_strides){s->k * taps, taps, c->kernel_w, 1};
        b_count = (s->n * s->k * taps);
    } else {
        s->m = kernel_range(random, 1, 3) == 1 ? 1 : kernel_range(random, 1, 80);
        s->k = kernel_range(random, 1, 90);
        s->batch[0] = kernel_range(random, 1, 3) == 1 ? 2 : 1;
        s->batch[1] = kernel_range(random, 1, 3) == 1 ? 3 : 1;
        s->a_kind = kernel_range(random, 0, 1) ? WF_GEMM_A_ROWS : WF_GEMM_A_COLUMNS;
        s->b_kind = (wf_gemm_b_kind)kernel_range(random, 0, 2);
        const int64_t a_rows = s->a_kind == WF_GEMM_A_ROWS ? s->m : s->k;
        const int64_t a_cols = s->a_kind == WF_GEMM_A_ROWS ? s->k : s->m;
        s->lda = a_cols + kernel_range(random, 0, 5);
        const int64_t b_rows = s->b_kind == WF_GEMM_B_ROWS ? s->k : s->n;
        const int64_t b_cols = s->b_kind == WF_GEMM_B_ROWS ? s->n : s->k;
        s->ldb = s->b_kind == WF_GEMM_B_PACKED ? b_cols : b_cols + kernel_range(random, 0, 5);
        p->b_strides = (wf_gemm_b_strides){s->ldb, 1, 0, 0};
        const int64_t a_size = a_rows * s->lda;
        const int64_t b_size = b_rows * s->ldb;
        /* The inner batch may share an operand; a packed B is shared by all. */
        const bool share_a = kernel_range(random, 0, 2) == 0;
        const bool share_b = s->b_kind == WF_GEMM_B_PACKED;
        p->args.a_batch_stride[1] = share_a ? 0 : a_size;
        p->args.a_batch_stride[0] = share_a ? a_size : a_size * s->batch[1];
        p->args.b_batch_stride[1] = share_b ? 0 : b_size;
        p->args.b_batch_stride[0] = share_b ? 0 : b_size * s->batch[1];
        p->args.c_batch_stride[1] = s->m * s->ldc;
        p->args.c_batch_stride[0] = s->m * s->ldc * s->batch[1];
        a_count = (a_size * s->batch[0] * (share_a ? 1 : s->batch[1]) - s->lda + a_cols);
        b_count = (b_size * (share_b ? 1 : s->batch[0] * s->batch[1]) - s->ldb + b_cols);
    }
    p->a = fence_floats(random, a_count);
    p->b = fence_floats(random, b_count);
    p->c_count = s->batch[0] * s->batch[1] * s->m * s->ldc - s->ldc + s->n;
    p->c = fence_new(p->c_count * 4);
    p->args.a = p->a.data;
    p->args.b = p->b.data;
    p->args.c = p->c.data;
    make_stages(p, random);
}

static void free_problem(problem *p)
{
    fence_free(&p->a);
    fence_free(&p->b);
    fence_free(&p->c);
    fence_free(&p->bias);
    fence_free(&p->residual);
    fence_free(&p->scale);
}

static wf_gemm_plan random_plan(wf_random_t *random, const wf_gemm_shape *s)
{
    wf_gemm_plan plan = {.m_block = kernel_range(random, 1, 60),
                         .n_block = kernel_range(random, 1, 150),
                         .k_block = kernel_range(random, 1, 120),
                         .panel_vectors = (int16_t)kernel_range(random, 1, 3),
                         .m_band = (int16_t)(kernel_range(random, 0, 1) * kernel_range(random, 1, 30)),
                         .pack_a = (int16_t)kernel_range(random, 0, 1),
                         .pack_b = (int16_t)kernel_range(random, 0, 1),
                         .prefetch = (int16_t)kernel_range(random, 0, 2)};
    plan.merge_kw = s->a_kind == WF_GEMM_A_CONV && s->conv.dilation_w == 1 &&
                    s->conv.pixel_stride == s->conv.channels && kernel_range(random, 0, 1);
    return plan;
}

/* Runs all items, in descending order when `reverse`; every item starts from a workspace of NaN. */
static void run(const wf_gemm_kernels *kernels, problem *p, const wf_gemm_plan *plan, const float *c_before,
                bool reverse)
{
    const wf_gemm_shape *s = &p->shape;
    wf_gemm_args args = p->args;
    fence packed = {0};
    memcpy(p->c.data, c_before, (size_t)p->c_count * sizeof(float));
    if (s->b_kind == WF_GEMM_B_PACKED) {
        packed = fence_new((int64_t)kernels->packed_elems(s, plan) * 4);
        kernels->pack_b(s, plan, p->b.data, &p->b_strides, packed.data);
        args.b = packed.data;
    }
    const size_t bytes = kernels->workspace_bytes(s, plan);
    wf_gemm_shape fewer_rows = *s;
    for (fewer_rows.m = s->m - 1; fewer_rows.m > 0; fewer_rows.m -= 1 + s->m / 8)
        assert_true(kernels->workspace_bytes(&fewer_rows, plan) <= bytes);
    assert_int_equal(bytes % 64, 0);
    fence workspace = fence_new((int64_t)bytes);
    const int64_t items = kernels->item_count(s, plan);
    assert_true(items >= 1);
    for (int64_t i = 0; i < items; i++) {
        memset(workspace.data, 0xff, bytes);
        kernels->item(s, plan, &args, workspace.data, reverse ? items - 1 - i : i);
    }
    fence_free(&workspace);
    fence_free(&packed);
}

static void test_random_problems(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("gemm_random_problems", 20261130);
    for (int round = 0; round < 150; round++) {
        problem p;
        make_problem(&p, &random);
        float *before = test_malloc((size_t)p.c_count * sizeof(float));
        float *first = test_malloc((size_t)p.c_count * sizeof(float));
        for (int64_t i = 0; i < p.c_count; i++)
            before[i] = wf_random_float(&random);
        for (size_t t = 0; t < TIERS; t++) {
            if (!kernel_tier_runs(tiers[t].name))
                continue;
            const wf_gemm_caches caches = {32 << 10, 512 << 10, 4 << 20};
            wf_gemm_plan plan =
                tiers[t].kernels->plan_default(&p.shape, &caches, kernel_range(&random, 1, 4));
            for (int attempt = 0; attempt < 3; attempt++) {
                char what[200];
                snprintf(what, sizeof what,
                         "round %d %s a%d b%d m%d n%d k%d taps%d, plan m%d n%d k%d v%d band%d pa%d pb%d kw%d",
                         round, tiers[t].name, p.shape.a_kind, p.shape.b_kind, (int)p.shape.m, (int)p.shape.n,
                         (int)p.shape.k, (int)taps_of(&p.shape), plan.m_block, plan.n_block, plan.k_block,
                         plan.panel_vectors, plan.m_band, plan.pack_a, plan.pack_b, plan.merge_kw);
                run(tiers[t].kernels, &p, &plan, before, attempt == 2);
                if (attempt == 0) {
                    check(&p, before, what);
                    memcpy(first, p.c.data, (size_t)p.c_count * sizeof(float));
                } else if (memcmp(first, p.c.data, (size_t)p.c_count * sizeof(float)) != 0) {
                    print_error("%s: another plan gives other bits\n", what);
                    fail();
                }
                /* Between rows nothing was written. */
                for (int64_t i = 0; i < p.c_count; i++) {
                    if (i % p.shape.ldc >= p.shape.n && p.args.c[i] != before[i]) {
                        print_error("%s: wrote between rows\n", what);
                        fail();
                    }
                }
                plan = random_plan(&random, &p.shape);
            }
        }
        test_free(before);
        test_free(first);
        free_problem(&p);
    }
}

/* The listed plans are valid, give the same bits as the default, which is the first, and fit the stated
 * maximum. */
static void test_plan_list(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("gemm_plan_list", 7);
    const wf_gemm_caches caches = {32 << 10, 256 << 10, 1 << 20};
    for (int round = 0; round < 12; round++) {
        problem p;
        make_problem(&p, &random);
        float *before = test_calloc((size_t)p.c_count, sizeof(float));
        float *first = test_malloc((size_t)p.c_count * sizeof(float));
        for (size_t t = 0; t < TIERS; t++) {
            if (!kernel_tier_runs(tiers[t].name))
                continue;
            wf_gemm_plan plans[WF_GEMM_PLANS_MAX];
            const wf_gemm_kernels *k = tiers[t].kernels;
            const size_t count = k->plan_list(&p.shape, &caches, 2, plans, WF_GEMM_PLANS_MAX);
            const wf_gemm_plan standard = k->plan_default(&p.shape, &caches, 2);
            assert_in_range(count, 1, WF_GEMM_PLANS_MAX);
            assert_memory_equal(&plans[0], &standard, sizeof standard);
            for (size_t i = 0; i < count; i++) {
                for (size_t j = 0; j < i; j++)
                    assert_memory_not_equal(&plans[i], &plans[j], sizeof plans[i]);
                run(k, &p, &plans[i], before, false);
                if (i == 0)
                    memcpy(first, p.c.data, (size_t)p.c_count * sizeof(float));
                else
                    assert_memory_equal(first, p.c.data, (size_t)p.c_count * sizeof(float));
            }
            assert_int_equal(k->plan_list(&p.shape, &caches, 2, plans, 0), count);
        }
        test_free(before);
        test_free(first);
        free_problem(&p);
    }
}

/* NaN and infinity go through the product and through relu and clip, as in the operators. */
static void test_hostile_values(void **state)
{
    (void)state;
    enum { ROWS = 7, COLS = 21, DEPTH = 5 };
    for (size_t t = 0; t < TIERS; t++) {
        if (!kernel_tier_runs(tiers[t].name))
            continue;
        float a[ROWS * DEPTH], b[DEPTH * COLS], c[ROWS * COLS];
        for (int i = 0; i < ROWS * DEPTH; i++)
            a[i] = 1.0f;
        for (int i = 0; i < DEPTH * COLS; i++)
            b[i] = 0.5f;
        a[1 * DEPTH + 2] = NAN;
        a[2 * DEPTH + 0] = INFINITY;
        a[3 * DEPTH + 4] = -INFINITY;
        b[1 * COLS + 20] = NAN;
        wf_gemm_shape s = {.b_kind = WF_GEMM_B_ROWS,
                           .m = ROWS,
                           .n = COLS,
                           .k = DEPTH,
                           .lda = DEPTH,
                           .ldb = COLS,
                           .ldc = COLS,
                           .batch = {1, 1}};
        const wf_ep_stage clip = {WF_EP_CLIP, WF_EP_NONE, -1.0f, 4.0f, NULL, 0};
        const wf_gemm_args args = {.a = a, .b = b, .c = c, .stages = &clip, .stage_count = 1};
        const wf_gemm_caches caches = {32 << 10, 256 << 10, 1 << 20};
        const wf_gemm_plan plan = tiers[t].kernels->plan_default(&s, &caches, 1);
        void *workspace = test_malloc(tiers[t].kernels->workspace_bytes(&s, &plan) + 64);
        void *aligned = (char *)workspace + (64 - (uintptr_t)workspace % 64);
        for (int64_t i = 0; i < tiers[t].kernels->item_count(&s, &plan); i++)
            tiers[t].kernels->item(&s, &plan, &args, aligned, i);
        test_free(workspace);
        for (int r = 0; r < ROWS; r++) {
            for (int j = 0; j < COLS; j++) {
                const float got = c[r * COLS + j];
                if (r == 1 || j == 20)
                    assert_true(isnan(got));
                else if (r == 2)
                    assert_true(got == 4.0f);
                else if (r == 3)
                    assert_true(got == -1.0f);
                else
                    assert_true(got == 2.5f);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_problems),
        cmocka_unit_test(test_plan_list),
        cmocka_unit_test(test_hostile_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
