/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention against plain loops in double precision, on every tier. */
#include "kernel/kernel_support.h"

#include "backends/native/kernels/attention.h"

wf_attention_f32_fn wf_attention_f32_wide;
#include "backends/native/kernels/attention.c"

static const struct {
    const char *tier;
    wf_attention_f32_fn *fn;
} kernels[] = {
#define X(tier) {#tier, wf_attention_f32_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

typedef struct problem {
    wf_attention_args args;
    fence q, k, v, mask;
    double *want, *bound; /* [queries][value_depth] */
} problem;

/* Scores are sums of `depth` rounded products; what a score is off by turns into a relative error of its
 * weight. The sums over the keys add theirs, more so when blocks are rescaled. */
static void solve(problem *p)
{
    const wf_attention_args *a = &p->args;
    double *score = test_malloc((size_t)a->keys * sizeof *score);
    for (int64_t i = 0; i < a->queries; i++) {
        double max = -INFINITY, total = 0, score_bound = 0;
        for (int64_t j = 0; j < a->keys; j++) {
            double dot = 0, size = 0;
            for (int64_t d = 0; d < a->depth; d++) {
                const double term = (double)a->q[i * a->q_stride + d] * (double)a->k[j * a->k_stride + d];
                dot += term;
                size += fabs(term);
            }
            score[j] = dot * (double)a->scale;
            score[j] += a->mask ? (double)a->mask[i * a->mask_query_stride + j * a->mask_key_stride] : 0;
            if (a->causal && j > i + a->causal_offset) {
                score[j] = -INFINITY;
            }
            max = fmax(max, score[j]);
            const double off = size * fabs((double)a->scale) * (double)(a->depth + 2) +
                               (isfinite(score[j]) ? 4 * fabs(score[j]) : 0);
            score_bound = fmax(score_bound, off * FLT_EPSILON);
        }
        for (int64_t j = 0; j < a->keys; j++) {
            score[j] = exp(score[j] - max);
            total += score[j];
        }
        for (int64_t c = 0; c < a->value_depth; c++) {
            double sum = 0, size = 0;
            for (int64_t j = 0; j < a->keys; j++) {
                const double term = score[j] / total * (double)a->v[j * a->v_stride + c];
                sum += term;
                size += fabs(term);
            }
            p->want[i * a->value_depth + c] = sum;
            p->bound[i * a->value_depth + c] =
                size * (4 * score_bound + (double)(2 * a->keys + 16) * FLT_EPSILON) + 1e-37;
        }
    }
    test_free(score);
}

static void problem_make(problem *p, wf_random_t *random, int64_t queries, int64_t keys)
{
    *p = (problem){0};
    wf_attention_args *a = &p->args;
    a->queries = queries;
    a->keys = keys;
    a->depth = kernel_range(random, 0, 1) ? 32 : kernel_range(random, 1, 80);
    a->value_depth = kernel_range(random, 0, 1) ? a->depth : kernel_range(random, 1, 150);
    a->q_stride = a->depth + kernel_range(random, 0, 1) * kernel_range(random, 0, 40);
    a->k_stride = a->depth + kernel_range(random, 0, 1) * kernel_range(random, 0, 40);
    a->v_stride = a->value_depth + kernel_range(random, 0, 1) * kernel_range(random, 0, 40);
    a->y_stride = a->value_depth + kernel_range(random, 0, 1) * kernel_range(random, 0, 40);
    a->scale = (float)(1 / sqrt((double)a->depth)) * (kernel_range(random, 0, 3) ? 1 : 3);
    p->q = fence_floats(random, (queries - 1) * a->q_stride + a->depth);
    p->k = fence_floats(random, (keys - 1) * a->k_stride + a->depth);
    p->v = fence_floats(random, (keys - 1) * a->v_stride + a->value_depth);
    a->q = p->q.data;
    a->k = p->k.data;
    a->v = p->v.data;
    a->causal = kernel_range(random, 0, 2) == 0;
    a->causal_offset = a->causal && keys >= queries && kernel_range(random, 0, 1)
                           ? keys - queries
                           : kernel_range(random, 0, 3);
    if (kernel_range(random, 0, 1)) {
        /* A full mask, one row for all queries, one number for all keys, or a mask stored by keys. */
        const int kind = kernel_range(random, 0, 3);
        a->mask_query_stride = kind == 0 ? keys + 2 : kind == 1 ? 0 : 1;
        a->mask_key_stride = kind < 2 ? 1 : kind == 2 ? 0 : queries;
        p->mask =
            fence_floats(random, (queries - 1) * a->mask_query_stride + (keys - 1) * a->mask_key_stride + 1);
        float *mask = p->mask.data;
        for (size_t i = 0; i < p->mask.bytes / 4 && kind != 2; i++) {
            /* Key 0 stays visible to all. */
            const int first = kind == 0   ? i % (size_t)(keys + 2) == 0
                              : kind == 1 ? i == 0
                                          : i < (size_t)queries;
            if (!first && kernel_range(random, 0, 3) == 0) {
                mask[i] = kernel_range(random, 0, 1) ? -INFINITY : -10000.0f;
            }
        }
        a->mask = mask;
    }
    a->query_block = kernel_range(random, 1, 40);
    a->key_block = 32 * kernel_range(random, 1, 8);
    p->want = test_malloc((size_t)(queries * a->value_depth) * sizeof *p->want);
    p->bound = test_malloc((size_t)(queries * a->value_depth) * sizeof *p->bound);
    solve(p);
}

static void problem_free(problem *p)
{
    fence_free(&p->q);
    fence_free(&p->k);
    fence_free(&p->v);
    fence_free(&p->mask);
    test_free(p->want);
    test_free(p->bound);
}

/* Computes all queries, `rows` a call, last ones first. */
static fence run(wf_attention_args *a, wf_attention_f32_fn *fn, int64_t rows)
{
    fence y = fence_new(((a->queries - 1) * a->y_stride + a->value_depth) * 4);
    fence scratch = fence_scratch(wf_attention_scratch_bytes(a, rows));
    a->y = y.data;
    for (int64_t begin = (a->queries - 1) / rows * rows; begin >= 0; begin -= rows) {
        memset(scratch.data, 0xff, scratch.bytes);
        fn(a, begin, begin + rows < a->queries ? begin + rows : a->queries, scratch.data);
    }
    fence_free(&scratch);
    return y;
}

static void check(problem *p, wf_random_t *random)
{
    wf_attention_args *a = &p->args;
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        if (!kernel_tier_runs(kernels[k].tier)) {
            continue;
        }
        fence y = run(a, kernels[k].fn, a->queries);
        for (int64_t i = 0; i < a->queries; i++) {
            for (int64_t c = 0; c < a->value_depth; c++) {
                kernel_assert_close(
                    a->y[i * a->y_stride + c], p->want[i * a->value_depth + c],
                    p->bound[i * a->value_depth + c],
                    "%s queries %d keys %d depth %d values %d causal %d%+d mask %d,%d blocks %d,%d at %d,%d",
                    kernels[k].tier, (int)a->queries, (int)a->keys, (int)a->depth, (int)a->value_depth,
                    a->causal, (int)a->causal_offset, (int)a->mask_query_stride, (int)a->mask_key_stride,
                    a->query_block, a->key_block, (int)i, (int)c);
            }
            for (int64_t c = a->value_depth; c < a->y_stride && i + 1 < a->queries; c++) {
                assert_true(kernel_is_untouched(a->y + i * a->y_stride + c));
            }
        }
        /* Any cut of the rows gives the same bits. */
        const int cut = kernel_range(random, 1, (int)a->queries);
        fence again = run(a, kernels[k].fn, cut);
        const float *one = y.data, *other = again.data;
        for (int64_t i = 0; i < a->queries; i++) {
            for (int64_t c = 0; c < a->value_depth; c++) {
                const int64_t at = i * a->y_stride + c;
                if (memcmp(&one[at], &other[at], sizeof *one) != 0 && !(isnan(one[at]) && isnan(other[at]))) {
                    fail_msg("%s, %d rows of %d a call, keys %d depth %d values %d causal %d%+d blocks %d,%d "
                             "at %d,%d: %a, all at once %a",
                             kernels[k].tier, cut, (int)a->queries, (int)a->keys, (int)a->depth,
                             (int)a->value_depth, a->causal, (int)a->causal_offset, a->query_block,
                             a->key_block, (int)i, (int)c, (double)other[at], (double)one[at]);
                }
            }
        }
        fence_free(&y);
        fence_free(&again);
    }
}

static void random_problems(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("attention", 20261130);
    for (int round = 0; round < 150; round++) {
        problem p;
        problem_make(&p, &random, kernel_range(&random, 1, 60),
                     kernel_range(&random, 1, round % 5 ? 150 : 700));
        check(&p, &random);
        problem_free(&p);
    }
}

/* Decoding: one or two queries have loops of their own. */
static void few_queries(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("attention few", 6);
    for (int round = 0; round < 100; round++) {
        problem p;
        problem_make(&p, &random, kernel_range(&random, 1, WF_ATTENTION_FEW), kernel_range(&random, 1, 500));
        check(&p, &random);
        problem_free(&p);
    }
}

/* A query without a visible key is NaN as with the operators one by one; so is one whose scores are not
 * numbers. Its neighbours are right. */
static void rows_without_keys(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("attention masked rows", 8);
    for (int round = 0; round < 40; round++) {
        problem p;
        problem_make(&p, &random, round % 2 ? 20 : 2, 70);
        wf_attention_args *a = &p.args;
        fence_free(&p.mask);
        p.mask = fence_floats(&random, a->queries * a->keys);
        float *mask = p.mask.data;
        a->mask = mask;
        a->mask_query_stride = a->keys;
        a->mask_key_stride = 1;
        a->causal = 0;
        for (int64_t j = 0; j < a->keys; j++) {
            mask[a->keys + j] = -INFINITY;
        }
        mask[a->keys - 1] = round % 4 < 2 ? 0.0f : NAN; /* the last key of query 0 */
        solve(&p);
        check(&p, &random);
        assert_true(isnan(p.want[a->value_depth]));
        problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_problems),
        cmocka_unit_test(few_queries),
        cmocka_unit_test(rows_without_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
