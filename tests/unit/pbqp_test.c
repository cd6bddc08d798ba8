/* SPDX-License-Identifier: Apache-2.0 */
/* The PBQP solver against brute force, against dynamic programming on trees, and on large problems. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "route/pbqp.h"
#include "support/cmocka_all.h"
#include "support/random.h"

static uint32_t below(wf_random_t *random, uint32_t limit)
{
    return (uint32_t)wf_random_below(random, limit);
}

typedef struct problem_shape {
    uint32_t nodes_max, labels_max;
    uint32_t edge_percent, infinity_percent;
    bool integers; /* small integer costs: many ties */
} problem_shape_t;

typedef struct sample {
    wf_pbqp_t *pbqp;
    uint32_t node_count, edge_count;
    uint32_t labels[16];
    double costs[16][8];
    struct {
        uint32_t u, v;
        double costs[64];
    } edges[256];
} sample_t;

static double random_cost(wf_random_t *random, const problem_shape_t *shape)
{
    if (below(random, 100) < shape->infinity_percent) {
        return INFINITY;
    }
    return shape->integers ? (double)below(random, 4) : (double)below(random, 1000000) / 7;
}

static void sample_add_edge(sample_t *sample, wf_random_t *random, const problem_shape_t *shape, uint32_t u,
                            uint32_t v)
{
    uint32_t entries = sample->labels[u] * sample->labels[v];
    assert_true(sample->edge_count < WF_COUNT_OF(sample->edges));
    sample->edges[sample->edge_count].u = u;
    sample->edges[sample->edge_count].v = v;
    for (uint32_t i = 0; i < entries; i++) {
        sample->edges[sample->edge_count].costs[i] = random_cost(random, shape);
    }
    wf_assert_ok(wf_pbqp_add_edge(sample->pbqp, u, v, sample->edges[sample->edge_count].costs));
    sample->edge_count++;
}

static void sample_make(sample_t *sample, wf_random_t *random, const problem_shape_t *shape)
{
    memset(sample, 0, sizeof *sample);
    wf_assert_ok(wf_pbqp_create(wf_allocator_system(), &sample->pbqp));
    sample->node_count = 1 + below(random, shape->nodes_max);
    for (uint32_t n = 0; n < sample->node_count; n++) {
        sample->labels[n] = 1 + below(random, shape->labels_max);
        for (uint32_t i = 0; i < sample->labels[n]; i++) {
            sample->costs[n][i] = random_cost(random, shape);
        }
        uint32_t id;
        wf_assert_ok(wf_pbqp_add_node(sample->pbqp, sample->costs[n], sample->labels[n], &id));
        assert_int_equal(id, n);
    }
    for (uint32_t u = 0; u < sample->node_count; u++) {
        for (uint32_t v = 0; v < sample->node_count; v++) {
            if (u != v && below(random, 200) < shape->edge_percent) {
                sample_add_edge(sample, random, shape, u, v); /* either direction, sometimes both */
            }
        }
    }
}

static double sample_cost(const sample_t *sample, const uint32_t *labels)
{
    double cost = 0;
    for (uint32_t n = 0; n < sample->node_count; n++) {
        cost += sample->costs[n][labels[n]];
    }
    for (uint32_t e = 0; e < sample->edge_count; e++) {
        uint32_t u = sample->edges[e].u, v = sample->edges[e].v;
        cost += sample->edges[e].costs[labels[u] * sample->labels[v] + labels[v]];
    }
    return cost;
}

/* Least cost over all labellings, and per label of every node. */
static double brute_force(const sample_t *sample, double out_marginals[16][8])
{
    uint32_t labels[16] = {0};
    double best = INFINITY;
    for (uint32_t n = 0; n < 16; n++) {
        for (uint32_t i = 0; i < 8; i++) {
            out_marginals[n][i] = INFINITY;
        }
    }
    for (;;) {
        double cost = sample_cost(sample, labels);
        best = fmin(best, cost);
        for (uint32_t n = 0; n < sample->node_count; n++) {
            out_marginals[n][labels[n]] = fmin(out_marginals[n][labels[n]], cost);
        }
        uint32_t n = 0;
        while (n < sample->node_count && ++labels[n] == sample->labels[n]) {
            labels[n++] = 0;
        }
        if (n == sample->node_count) {
            return best;
        }
    }
}

static void assert_close(double got, double want)
{
    if (isinf(want) || isinf(got)) {
        assert_true(got == want);
    } else {
        assert_true(fabs(got - want) <= 1e-9 * (1 + fabs(want)));
    }
}

static void check_samples(uint64_t seed, uint32_t count, const problem_shape_t *shape, bool must_be_exact)
{
    wf_random_t random = wf_random_start(__func__, seed);
    uint32_t exact = 0, feasible = 0;
    static sample_t sample;
    for (uint32_t s = 0; s < count; s++) {
        sample_make(&sample, &random, shape);
        double marginals[16][8];
        double best = brute_force(&sample, marginals);
        uint32_t labels[16];
        wf_pbqp_solution_t solution;
        wf_assert_ok(wf_pbqp_solve(sample.pbqp, labels, &solution));
        assert_true(wf_pbqp_cost(sample.pbqp, labels) == solution.cost);
        assert_close(solution.cost, sample_cost(&sample, labels));
        if (solution.exact) {
            assert_close(solution.cost, best);
        } else {
            assert_true(!must_be_exact && solution.heuristic_nodes > 0 && solution.cost >= best * (1 - 1e-9));
        }
        exact += solution.cost == best || fabs(solution.cost - best) <= 1e-9 * best;
        feasible += !isinf(best);
        double all[16 * 8], *next = all;
        wf_assert_ok(wf_pbqp_all_min_marginals(sample.pbqp, all));
        for (uint32_t n = 0; n < sample.node_count; n++) {
            double got[8];
            wf_assert_ok(wf_pbqp_min_marginals(sample.pbqp, n, got));
            for (uint32_t i = 0; i < sample.labels[n]; i++, next++) {
                if (solution.heuristic_nodes == 0) {
                    assert_close(*next, marginals[n][i]);
                } else {
                    assert_true(*next >= marginals[n][i] * (1 - 1e-9));
                }
            }
            for (uint32_t i = 0; i < sample.labels[n]; i++) {
                if (must_be_exact) {
                    assert_close(got[i], marginals[n][i]);
                } else {
                    assert_true(got[i] >= marginals[n][i] * (1 - 1e-9));
                }
            }
        }
        wf_pbqp_destroy(sample.pbqp);
    }
    printf("%u problems, %u feasible, %u optimal\n", count, feasible, exact);
    assert_true(feasible > 0 && exact * 10 >= count * 9);
}

static void test_sparse(void **state)
{
    (void)state;
    problem_shape_t shape = {.nodes_max = 7, .labels_max = 4, .edge_percent = 40, .infinity_percent = 0};
    check_samples(1, 3000, &shape, false);
}

static void test_infinities(void **state)
{
    (void)state;
    problem_shape_t shape = {.nodes_max = 6, .labels_max = 4, .edge_percent = 40, .infinity_percent = 30};
    check_samples(2, 3000, &shape, false);
}

static void test_ties(void **state)
{
    (void)state;
    problem_shape_t shape = {
        .nodes_max = 7, .labels_max = 3, .edge_percent = 50, .infinity_percent = 10, .integers = true};
    check_samples(3, 3000, &shape, false);
}

/* Five nodes have at most four neighbours: always exact, however dense. */
static void test_dense_five(void **state)
{
    (void)state;
    problem_shape_t shape = {.nodes_max = 5, .labels_max = 5, .edge_percent = 180, .infinity_percent = 10};
    check_samples(4, 2000, &shape, true);
}

/* Beyond width four: the heuristic must stay within reach of the optimum. */
static void test_dense_nine(void **state)
{
    (void)state;
    problem_shape_t shape = {.nodes_max = 9, .labels_max = 3, .edge_percent = 180, .infinity_percent = 5};
    check_samples(5, 300, &shape, false);
}

/* ---- Trees: minimum by dynamic programming from the leaves ---- */

static void test_trees(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start(__func__, 6);
    enum { LABELS = 5, NODES_MAX = 3000 };
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t count = 2 + below(&random, NODES_MAX - 2);
        uint32_t *parent = test_malloc(count * sizeof *parent), *labels = test_malloc(count * sizeof *labels);
        double(*own)[LABELS] = test_malloc(count * sizeof *own);
        double(*edge)[LABELS][LABELS] = test_malloc(count * sizeof *edge);
        wf_pbqp_t *pbqp;
        wf_assert_ok(wf_pbqp_create(wf_allocator_system(), &pbqp));
        for (uint32_t n = 0; n < count; n++) {
            uint32_t id;
            for (uint32_t i = 0; i < LABELS; i++) {
                own[n][i] = below(&random, 10) == 0 ? (double)INFINITY : (double)below(&random, 100000);
            }
            own[n][n % LABELS] = 1;
            wf_assert_ok(wf_pbqp_add_node(pbqp, own[n], LABELS, &id));
            if (n == 0) {
                continue;
            }
            /* long paths and bushes */
            parent[n] = round % 2 == 0 && n > 3 ? n - 1 - below(&random, 3) : below(&random, n);
            for (uint32_t i = 0; i < LABELS * LABELS; i++) {
                edge[n][i / LABELS][i % LABELS] = below(&random, 100000);
            }
            wf_assert_ok(wf_pbqp_add_edge(pbqp, parent[n], n, &edge[n][0][0]));
        }
        wf_pbqp_solution_t solution;
        wf_assert_ok(wf_pbqp_solve(pbqp, labels, &solution));
        for (uint32_t n = count - 1; n > 0; n--) {
            for (uint32_t p = 0; p < LABELS; p++) {
                double least = INFINITY;
                for (uint32_t i = 0; i < LABELS; i++) {
                    least = fmin(least, own[n][i] + edge[n][p][i]);
                }
                own[parent[n]][p] += least;
            }
        }
        double want = INFINITY;
        for (uint32_t i = 0; i < LABELS; i++) {
            want = fmin(want, own[0][i]);
        }
        assert_true(solution.exact && solution.heuristic_nodes == 0);
        assert_close(solution.cost, want);
        wf_pbqp_destroy(pbqp);
        test_free(edge);
        test_free(own);
        test_free(labels);
        test_free(parent);
    }
}

/* ---- Large problems ---- */

/* A chain of residual blocks, each with its own costs; returns the solution of a long one. */
static void test_long_chain(void **state)
{
    (void)state;
    enum { NODES = 100000, LABELS = 4 };
    wf_random_t random = wf_random_start(__func__, 7);
    uint32_t *labels = test_malloc(NODES * sizeof *labels), *again = test_malloc(NODES * sizeof *again);
    wf_pbqp_t *pbqp;
    wf_assert_ok(wf_pbqp_create(wf_allocator_system(), &pbqp));
    for (uint32_t n = 0; n < NODES; n++) {
        double costs[LABELS], edge[LABELS * LABELS];
        uint32_t id;
        for (uint32_t i = 0; i < LABELS; i++) {
            costs[i] = below(&random, 1000);
        }
        wf_assert_ok(wf_pbqp_add_node(pbqp, costs, LABELS, &id));
        for (uint32_t i = 0; i < LABELS * LABELS; i++) {
            edge[i] = i % (LABELS + 1) == 0 ? 0 : below(&random, 1000);
        }
        if (n > 0) {
            wf_assert_ok(wf_pbqp_add_edge(pbqp, n, n - 1, edge));
        }
        if (n > 3 && n % 4 == 0) {
            wf_assert_ok(wf_pbqp_add_edge(pbqp, n - 4, n, edge));
        }
    }
    wf_pbqp_solution_t solution, second;
    wf_assert_ok(wf_pbqp_solve(pbqp, labels, &solution));
    assert_true(solution.exact);
    wf_assert_ok(wf_pbqp_solve(pbqp, again, &second));
    assert_memory_equal(labels, again, NODES * sizeof *labels);
    double marginals[LABELS];
    wf_assert_ok(wf_pbqp_min_marginals(pbqp, NODES / 2, marginals));
    assert_close(marginals[labels[NODES / 2]], solution.cost);
    for (uint32_t i = 0; i < LABELS; i++) {
        assert_true(marginals[i] >= solution.cost * (1 - 1e-12));
    }
    wf_pbqp_destroy(pbqp);
    test_free(again);
    test_free(labels);
}

/* One node with 10^5 neighbours: linear, and the right answer is known. */
static void test_hub(void **state)
{
    (void)state;
    enum { LEAVES = 100000 };
    uint32_t *labels = test_malloc((LEAVES + 1) * sizeof *labels);
    wf_pbqp_t *pbqp;
    uint32_t id;
    wf_assert_ok(wf_pbqp_create(wf_allocator_system(), &pbqp));
    wf_assert_ok(wf_pbqp_add_node(pbqp, (double[2]){LEAVES, 0}, 2, &id));
    for (uint32_t n = 1; n <= LEAVES; n++) {
        wf_assert_ok(wf_pbqp_add_node(pbqp, (double[2]){0, 3}, 2, &id));
        wf_assert_ok(wf_pbqp_add_edge(pbqp, 0, n, (double[4]){0, 9, 9, 0}));
    }
    wf_pbqp_solution_t solution;
    wf_assert_ok(wf_pbqp_solve(pbqp, labels, &solution));
    assert_true(solution.exact && solution.cost == LEAVES);
    for (uint32_t n = 0; n <= LEAVES; n++) {
        assert_int_equal(labels[n], 0);
    }
    wf_pbqp_destroy(pbqp);
    test_free(labels);
}

/* Of equal labels the lowest number, wherever elimination starts. */
static void test_lowest_label(void **state)
{
    (void)state;
    wf_pbqp_t *pbqp;
    uint32_t id, labels[12];
    wf_assert_ok(wf_pbqp_create(wf_allocator_system(), &pbqp));
    for (uint32_t n = 0; n < 12; n++) {
        wf_assert_ok(wf_pbqp_add_node(pbqp, (double[3]){5, 5, 5}, 3, &id));
        if (n > 0) {
            wf_assert_ok(wf_pbqp_add_edge(pbqp, n, n - 1, (double[9]){1, 2, 2, 2, 1, 2, 2, 2, 1}));
        }
    }
    wf_pbqp_solution_t solution;
    wf_assert_ok(wf_pbqp_solve(pbqp, labels, &solution));
    assert_true(solution.cost == 71);
    for (uint32_t n = 0; n < 12; n++) {
        assert_int_equal(labels[n], 0);
    }
    wf_pbqp_destroy(pbqp);
}

static void test_refused(void **state)
{
    (void)state;
    wf_pbqp_t *pbqp;
    uint32_t id;
    wf_assert_ok(wf_pbqp_create(wf_allocator_system(), &pbqp));
    const double bad[] = {NAN, -INFINITY};
    for (size_t i = 0; i < WF_COUNT_OF(bad); i++) {
        wf_assert_fails(wf_pbqp_add_node(pbqp, &bad[i], 1, &id), INTERNAL);
    }
    wf_assert_fails(wf_pbqp_add_node(pbqp, (double[1]){0}, 0, &id), INTERNAL);
    wf_pbqp_solution_t solution;
    wf_assert_ok(wf_pbqp_solve(pbqp, NULL, &solution)); /* nothing to solve */
    assert_true(solution.exact && solution.cost == 0);
    wf_pbqp_destroy(pbqp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sparse),       cmocka_unit_test(test_infinities),
        cmocka_unit_test(test_ties),         cmocka_unit_test(test_dense_five),
        cmocka_unit_test(test_dense_nine),   cmocka_unit_test(test_trees),
        cmocka_unit_test(test_long_chain),   cmocka_unit_test(test_hub),
        cmocka_unit_test(test_lowest_label), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
