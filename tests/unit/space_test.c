/* SPDX-License-Identifier: Apache-2.0 */
/* The route space on the null source: random graphs against enumeration of all routes, limits, knobs, plans,
 * faults. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/registry.h"
#include "backends/null/null.h"
#include "base/compiler.h"
#include "graph/pass.h"
#include "route/explain.h"
#include "route/space.h"
#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/random.h"

enum { TEXT_MAX_BYTES = 1 << 22 };

static uint32_t below(wf_random_t *random, uint32_t limit)
{
    return (uint32_t)wf_random_below(random, limit);
}

/* ---- A graph, the null source with a script, and the space ---- */

typedef struct fixture {
    wf_allocator_t allocator;
    wf_graph_t *graph;
    wf_backends_t *backends;
    wf_space_t *space;
} fixture_t;

static void fixture_close(fixture_t *fixture)
{
    wf_space_destroy(fixture->space);
    wf_backends_close(fixture->backends);
    wf_graph_destroy(fixture->graph);
}

static wf_status_t open_null(wf_allocator_t allocator, const char *script, wf_backends_t **out_backends)
{
    const char *only[] = {"null", NULL};
    wf_backends_options_t options = {.only = only};
    wf_cpu_t cpu = {.thread_count = 1};
    WF_TRY(wf_backends_open(&cpu, &options, allocator, (wf_log_t){0}, out_backends));
    void *null;
    (void)wf_backends_source(*out_backends, 0, &null);
    return script == NULL ? WF_OK : wf_null_script(null, script, strlen(script));
}

/* Fills the fixture, which the caller closes on failure too. knobs NULL: defaults. */
static wf_status_t fixture_open(fixture_t *fixture, wf_allocator_t allocator, const char *graph,
                                const char *script, const wf_knobs_t *knobs)
{
    *fixture = (fixture_t){.allocator = allocator};
    WF_TRY(wf_graph_parse(graph, strlen(graph), allocator, &fixture->graph));
    WF_TRY(open_null(allocator, script, &fixture->backends));
    wf_space_options_t options = {.allocator = allocator};
    wf_knobs_default(&options.knobs);
    if (knobs != NULL) {
        options.knobs = *knobs;
    }
    return wf_space_create(fixture->graph, fixture->backends, &options, &fixture->space);
}

static const wf_choice_t *choice_of(const wf_space_t *space, const wf_route_item_t *item)
{
    const wf_group_t *group = &space->groups.items[item->group];
    return &space->problems.items[group->problem].choices.items[item->choice];
}

/* ---- Random graphs and scripts ---- */

/* Convolutions, pools, elementwise operators over values of one shape; values that nobody reads are outputs.
 */
static void random_graph(wf_random_t *random, uint32_t node_count, wf_text_t *text)
{
    static const char *const unary[] = {"Relu", "Neg", "Sigmoid"};
    bool used[64] = {false};
    assert_true(node_count < WF_COUNT_OF(used));
    wf_text_puts(text, "graph \"random\" {\n  input %v0 : f32[1,8,4,4]\n  const %w : f32[8,8,1,1] = ~1\n"
                       "  const %s : f32[8,1,1] = ~2\n");
    for (uint32_t n = 1; n <= node_count; n++) {
        uint32_t a = n - 1 - below(random, WF_MIN(n, 2u)), b = below(random, n);
        used[a] = true;
        switch (below(random, 6)) {
        case 0:
        case 1:
            wf_text_printf(text, "  %%v%u = Conv(%%v%u, %%w)\n", n, a);
            break;
        case 2:
            wf_text_printf(text, "  %%v%u = MaxPool(%%v%u) {kernel_shape=[1,1]}\n", n, a);
            break;
        case 3:
            used[b] = true;
            wf_text_printf(text, "  %%v%u = %s(%%v%u, %%v%u)\n", n, below(random, 2) == 0 ? "Add" : "Sub", a,
                           b);
            break;
        case 4:
            wf_text_printf(text, "  %%v%u = Mul(%%v%u, %%s)\n", n, a);
            break;
        default:
            wf_text_printf(text, "  %%v%u = %s(%%v%u)\n", n, unary[below(random, WF_COUNT_OF(unary))], a);
        }
    }
    for (uint32_t n = 1; n <= node_count; n++) {
        if (!used[n] || below(random, 8) == 0) {
            wf_text_printf(text, "  output %%v%u\n", n);
        }
    }
    wf_text_puts(text, "}\n");
}

/* A row-major kernel for everything alone, a few with other layouts, some fused ones; costs do not matter
 * here. */
static void random_script(wf_random_t *random, wf_text_t *text)
{
    static const char *const layouts[] = {"row", "last", "b8", "last,row", "row,last"};
    static const char *const patterns[] = {"conv",  "max_pool",   "relu", "add", "conv+*", "relu+*",
                                           "add+*", "conv+add+*", "*+*",  "sub", "mul+*",  "mul"};
    wf_text_puts(text, "wf.convert null/convert - 1\n*+* decline null no kernel\n");
    for (size_t op = 0; op < 8; op++) {
        static const char *const ops[] = {"conv", "max_pool", "relu", "neg", "sigmoid", "add", "sub", "mul"};
        wf_text_printf(text, "%s null/base row>row 1\n", ops[op]);
    }
    for (uint32_t i = 0, count = 4 + below(random, 12); i < count; i++) {
        wf_text_printf(text, "%s null/t%u %s>%s 1\n", patterns[below(random, WF_COUNT_OF(patterns))], i,
                       layouts[below(random, WF_COUNT_OF(layouts))], layouts[below(random, 3)]);
    }
}

/* Every choice of every problem gets a random cost; few different values, so that ties occur. */
static void random_costs(wf_random_t *random, wf_space_t *space)
{
    for (size_t p = 0; p < space->problems.count; p++) {
        for (size_t i = 0; i < space->problems.items[p].choices.count; i++) {
            wf_choice_t *choice = &space->problems.items[p].choices.items[i];
            choice->cost_ns = 1 + below(random, 40);
            choice->banned = strcmp(choice->tactic_id, "null/base") != 0 && below(random, 12) == 0;
        }
    }
}

/* Conversions between all layouts exist before costs are drawn. */
static void make_conversions(wf_space_t *space)
{
    for (wf_layout_t from = WF_LAYOUT_ROW; from < WF_LAYOUT_B16; from++) {
        for (wf_layout_t to = WF_LAYOUT_ROW; to < WF_LAYOUT_B16; to++) {
            uint32_t problem;
            if (from != to) {
                wf_assert_ok(wf_space_convert(space, space->graph->inputs.items[0], from, to, &problem));
            }
        }
    }
}

/* ---- All routes of a small graph ---- */

typedef struct enumeration {
    fixture_t *fixture;
    wf_route_item_t items[64];
    size_t count;
    bool covered[64]; /* per node id */
    uint64_t routes;
    double best;
    double
        best_other[64]; /* per item of `chosen`: least cost of a route that does its first node otherwise */
    const wf_route_t *chosen;
} enumeration_t;

static void sort_items(const wf_space_t *space, wf_route_item_t *items, size_t count)
{
    for (size_t i = 1; i < count; i++) { /* by the position of the last node */
        for (size_t k = i; k > 0; k--) {
            const wf_group_t *a = &space->groups.items[items[k - 1].group],
                             *b = &space->groups.items[items[k].group];
            if (space->position[a->nodes[a->node_count - 1]] < space->position[b->nodes[b->node_count - 1]]) {
                break;
            }
            wf_route_item_t swap = items[k];
            items[k] = items[k - 1];
            items[k - 1] = swap;
        }
    }
}

static bool same_item(const wf_route_item_t *a, const wf_route_item_t *b)
{
    return a->group == b->group && a->choice == b->choice;
}

static void visit_route(enumeration_t *all)
{
    wf_space_t *space = all->fixture->space;
    wf_route_item_t items[64];
    memcpy(items, all->items, all->count * sizeof *items);
    sort_items(space, items, all->count);
    const wf_route_t route = {.allocator = all->fixture->allocator, .items = items, .count = all->count};
    double cost_ns;
    wf_assert_ok(wf_route_cost(space, &route, &cost_ns));
    all->routes++;
    all->best = fmin(all->best, cost_ns);
    for (size_t c = 0; all->chosen != NULL && c < all->chosen->count; c++) {
        wf_node_id first = space->groups.items[all->chosen->items[c].group].nodes[0];
        for (size_t i = 0; i < route.count; i++) {
            const wf_group_t *group = &space->groups.items[items[i].group];
            for (uint32_t n = 0; n < group->node_count; n++) {
                if (group->nodes[n] == first && !same_item(&items[i], &all->chosen->items[c])) {
                    all->best_other[c] = fmin(all->best_other[c], cost_ns);
                }
            }
        }
    }
}

/* The first node in order that is not covered must be the first of its group. */
static void enumerate(enumeration_t *all)
{
    const wf_space_t *space = all->fixture->space;
    const wf_graph_t *graph = all->fixture->graph;
    size_t next = 0;
    while (next < graph->order.count && all->covered[graph->order.items[next]]) {
        next++;
    }
    if (next == graph->order.count) {
        visit_route(all);
        return;
    }
    wf_node_id node = graph->order.items[next];
    for (uint32_t g = 0; g < space->groups.count; g++) {
        const wf_group_t *group = &space->groups.items[g];
        bool free = group->nodes[0] == node;
        for (uint32_t n = 0; free && n < group->node_count; n++) {
            free = !all->covered[group->nodes[n]];
        }
        const wf_space_problem_t *entry = &space->problems.items[group->problem];
        for (uint32_t c = 0; free && c < entry->choices.count; c++) {
            if (entry->choices.items[c].banned || entry->choices.items[c].dominated) {
                continue;
            }
            for (uint32_t n = 0; n < group->node_count; n++) {
                all->covered[group->nodes[n]] = true;
            }
            all->items[all->count++] = (wf_route_item_t){.group = g, .choice = c};
            enumerate(all);
            all->count--;
            for (uint32_t n = 0; n < group->node_count; n++) {
                all->covered[group->nodes[n]] = false;
            }
        }
    }
}

static void check_explain(fixture_t *fixture, const wf_route_t *route, const enumeration_t *all)
{
    wf_explain_t explain;
    wf_assert_ok(wf_explain_make(fixture->space, route, fixture->allocator, &explain));
    assert_int_equal(explain.step_count, route->count);
    for (size_t i = 0; i < explain.step_count; i++) {
        assert_true(explain.steps[i].has_runner_up == !isinf(all->best_other[i]));
        if (explain.steps[i].has_runner_up) {
            assert_true(fabs(explain.steps[i].margin_ns - (all->best_other[i] - all->best)) < 1e-6);
            assert_false(same_item(&explain.steps[i].runner_up, &route->items[i]));
        }
    }
    wf_text_t text;
    wf_text_init(&text, fixture->allocator, TEXT_MAX_BYTES);
    wf_assert_ok(wf_explain_print(fixture->space, &explain, &text));
    assert_true(text.length > 0);
    wf_text_deinit(&text);
    wf_explain_deinit(&explain);
}

/* Valid, in order, at its own cost; distinct; the first one the cheapest, the others not falling. */
static void check_routes(fixture_t *fixture, const wf_route_t *best)
{
    enum { ROUTES = 6 };
    wf_route_t routes[ROUTES];
    size_t count;
    wf_assert_ok(wf_space_solve_k(fixture->space, ROUTES, routes, &count));
    assert_true(count >= 1 && routes[0].cost_ns == best->cost_ns);
    for (size_t r = 0; r < count; r++) {
        double cost_ns;
        wf_assert_ok(wf_route_check(fixture->space, &routes[r]));
        wf_assert_ok(wf_route_cost(fixture->space, &routes[r], &cost_ns));
        assert_true(cost_ns == routes[r].cost_ns);
        assert_true(r == 0 || routes[r].cost_ns >= routes[r - 1].cost_ns);
        for (size_t s = 0; s < r; s++) {
            assert_false(
                routes[r].count == routes[s].count &&
                memcmp(routes[r].items, routes[s].items, routes[r].count * sizeof *routes[r].items) == 0);
        }
    }
    for (size_t r = 0; r < count; r++) {
        wf_route_deinit(&routes[r]);
    }
}

static void check_plan(fixture_t *fixture, const wf_route_t *route)
{
    wf_text_t text;
    wf_text_init(&text, fixture->allocator, TEXT_MAX_BYTES);
    wf_assert_ok(wf_plan_print(fixture->space, route, &text));
    wf_route_t again;
    wf_assert_ok(wf_plan_parse(fixture->space, wf_text_cstr(&text), text.length, &again));
    assert_int_equal(again.count, route->count);
    assert_memory_equal(again.items, route->items, route->count * sizeof *route->items);
    wf_route_deinit(&again);
    wf_text_deinit(&text);
}

static void random_fixture(wf_random_t *random, uint32_t nodes_max, fixture_t *fixture)
{
    wf_text_t graph, script;
    wf_text_init(&graph, wf_allocator_system(), TEXT_MAX_BYTES);
    wf_text_init(&script, wf_allocator_system(), TEXT_MAX_BYTES);
    random_graph(random, 1 + nodes_max / 2 + below(random, nodes_max / 2), &graph);
    random_script(random, &script);
    wf_assert_ok(
        fixture_open(fixture, wf_allocator_system(), wf_text_cstr(&graph), wf_text_cstr(&script), NULL));
    wf_text_deinit(&script);
    wf_text_deinit(&graph);
    make_conversions(fixture->space);
}

static void solver_finds_the_least_of_all_routes(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start(__func__, 11);
    uint64_t routes = 0, fused = 0, converted = 0;
    for (uint32_t round = 0; round < 200; round++) {
        fixture_t fixture;
        random_fixture(&random, 7, &fixture);
        for (uint32_t draw = 0; draw < 2; draw++) {
            random_costs(&random, fixture.space);
            wf_route_t route;
            wf_assert_ok(wf_space_solve(fixture.space, &route));
            wf_assert_ok(wf_route_check(fixture.space, &route));
            enumeration_t all = {.fixture = &fixture, .best = INFINITY, .chosen = &route};
            for (size_t i = 0; i < WF_COUNT_OF(all.best_other); i++) {
                all.best_other[i] = INFINITY;
            }
            enumerate(&all);
            assert_true(route.exact && route.cost_ns == all.best);
            check_explain(&fixture, &route, &all);
            check_routes(&fixture, &route);
            check_plan(&fixture, &route);
            wf_space_unpin(fixture.space);
            routes += all.routes;
            for (size_t i = 0; i < route.count; i++) {
                fused += fixture.space->groups.items[route.items[i].group].node_count > 1;
                converted += choice_of(fixture.space, &route.items[i])->output_layouts[0] != WF_LAYOUT_ROW;
            }
            wf_route_deinit(&route);
        }
        fixture_close(&fixture);
    }
    printf("%llu routes, %llu fused groups and %llu other layouts in the best ones\n",
           (unsigned long long)routes, (unsigned long long)fused, (unsigned long long)converted);
    assert_true(routes > 5000 && fused > 50 && converted > 50);
}

static void random_costs_give_valid_routes(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start(__func__, 12);
    for (uint32_t round = 0; round < 60; round++) {
        fixture_t fixture;
        random_fixture(&random, 40, &fixture);
        for (uint32_t draw = 0; draw < 5; draw++) {
            random_costs(&random, fixture.space);
            wf_route_t route, again;
            double cost_ns;
            wf_assert_ok(wf_space_solve(fixture.space, &route));
            wf_assert_ok(wf_route_check(fixture.space, &route));
            wf_assert_ok(wf_route_cost(fixture.space, &route, &cost_ns));
            assert_true(cost_ns == route.cost_ns);
            wf_assert_ok(wf_space_solve(fixture.space, &again));
            assert_int_equal(again.count, route.count);
            assert_memory_equal(again.items, route.items, route.count * sizeof *route.items);
            check_routes(&fixture, &route);
            check_plan(&fixture, &route);
            wf_space_unpin(fixture.space);
            wf_route_deinit(&again);
            wf_route_deinit(&route);
        }
        fixture_close(&fixture);
    }
}

/* ---- What a space is made of ---- */

static const char simple_graph[] = "graph \"simple\" {\n"
                                   "  input %x : f32[1,8,4,4]\n"
                                   "  const %w : f32[8,8,1,1] = ~1\n"
                                   "  %c = Conv(%x, %w)\n"
                                   "  %r = Relu(%c)\n"
                                   "  %d = Conv(%r, %w)\n"
                                   "  %y = Relu(%d)\n"
                                   "  output %y\n"
                                   "}\n";
static const char simple_script[] = "conv null/conv.row row>row 100\n"
                                    "conv null/conv.last last>last 70\n"
                                    "relu null/relu.row row>row 10\n"
                                    "relu null/relu.last last>last 10\n"
                                    "conv+relu null/both row>row 105\n"
                                    "wf.convert null/convert - 12\n"
                                    "wf.convert null/convert.slow - 20\n";

static void equal_work_is_one_problem(void **state)
{
    (void)state;
    fixture_t fixture;
    wf_assert_ok(fixture_open(&fixture, wf_allocator_system(), simple_graph, simple_script, NULL));
    const wf_space_t *space = fixture.space;
    assert_int_equal(space->groups.count, 6); /* four single, two epilogue */
    assert_int_equal(space->problems.count, 3);
    for (size_t p = 0; p < space->problems.count; p++) {
        assert_int_equal(space->problems.items[p].use_count, 2);
    }
    const wf_group_t *fused = &space->groups.items[1];
    assert_string_equal(fused->pattern, "epilogue");
    assert_int_equal(fused->node_count, 2);
    assert_string_equal(wf_graph_value(fixture.graph, fused->operands[0])->name, "x");
    assert_string_equal(wf_graph_value(fixture.graph, fused->operands[1])->name, "w");
    assert_string_equal(wf_graph_value(fixture.graph, fused->outputs[0])->name, "r");
    fixture_close(&fixture);
}

static void undone_nodes_are_named(void **state)
{
    (void)state;
    fixture_t fixture;
    wf_status_t status =
        fixture_open(&fixture, wf_allocator_system(), simple_graph,
                     "conv null/conv row>row 1\nrelu decline elementwise no relu today\n", NULL);
    assert_int_equal(wf_status_code(status), WF_CODE_MODEL_UNSUPPORTED);
    assert_non_null(strstr(wf_status_message(status), "node r (Relu)"));
    assert_non_null(strstr(wf_status_message(status), "no relu today"));
    wf_status_free(status);
    assert_null(fixture.space);
    fixture_close(&fixture);
}

static void broken_sources_are_refused(void **state)
{
    (void)state;
    fixture_t fixture;
    wf_assert_fails(
        fixture_open(&fixture, wf_allocator_system(), simple_graph,
                     "conv null/same row>row 1\nconv null/same last>last 1\nrelu null/r row>row 1\n", NULL),
        INTERNAL);
    fixture_close(&fixture);
}

/* No conversion exists: layouts that need one are never chosen; where nothing else is left there is no route.
 */
static void missing_conversions_forbid(void **state)
{
    (void)state;
    fixture_t fixture;
    wf_route_t route;
    wf_assert_ok(
        fixture_open(&fixture, wf_allocator_system(), simple_graph,
                     "conv null/row row>row 100\nconv null/last last>last 1\nrelu null/r row>row 1\n", NULL));
    wf_assert_ok(wf_space_solve(fixture.space, &route));
    for (size_t i = 0; i < route.count; i++) {
        assert_int_equal(choice_of(fixture.space, &route.items[i])->output_layouts[0], WF_LAYOUT_ROW);
    }
    wf_route_deinit(&route);
    fixture_close(&fixture);
    wf_assert_ok(fixture_open(&fixture, wf_allocator_system(), simple_graph,
                              "conv null/last last>last 1\nrelu null/r row>row 1\n", NULL));
    wf_assert_fails(wf_space_solve(fixture.space, &route), INTERNAL);
    assert_null(route.items);
    fixture_close(&fixture);
}

/* More options than labels of a node: the best stay. */
static void labels_are_capped(void **state)
{
    (void)state;
    wf_text_t graph, script;
    wf_text_init(&graph, wf_allocator_system(), TEXT_MAX_BYTES);
    wf_text_init(&script, wf_allocator_system(), TEXT_MAX_BYTES);
    wf_text_puts(&graph, "graph \"long\" {\n  input %v0 : f32[1,8,4,4]\n");
    for (uint32_t n = 1; n <= 24; n++) {
        wf_text_printf(&graph, "  %%v%u = %s(%%v%u)\n", n, n % 2 == 0 ? "Relu" : "Neg", n - 1);
    }
    wf_text_puts(&graph, "  output %v24\n}\n");
    static const char *const layouts[] = {"row", "last", "b8", "b16"};
    wf_text_puts(&script, "wf.convert null/convert - 100\n");
    for (uint32_t i = 0; i < 16; i++) { /* 16 combinations of layouts, 36 groups a node */
        wf_text_printf(&script, "relu* null/t%u %s>%s %u\nneg* null/t%u %s>%s %u\n", i, layouts[i / 4],
                       layouts[i % 4], 100 + i, i, layouts[i / 4], layouts[i % 4], 100 + i);
    }
    fixture_t fixture;
    wf_assert_ok(
        fixture_open(&fixture, wf_allocator_system(), wf_text_cstr(&graph), wf_text_cstr(&script), NULL));
    wf_route_t route;
    wf_assert_ok(wf_space_solve(fixture.space, &route));
    wf_assert_ok(wf_route_check(fixture.space, &route));
    assert_true(route.cost_ns == 300); /* three groups of eight nodes, row-major */
    assert_false(route.exact);         /* what was dropped is not proven to be worse */
    wf_route_deinit(&route);
    fixture_close(&fixture);
    wf_text_deinit(&script);
    wf_text_deinit(&graph);
}

/* ---- Size ---- */

static wf_graph_t *chain_graph(uint32_t node_count)
{
    wf_graph_t *graph;
    wf_type_t type = {.dtype = WF_DTYPE_F32, .rank = 4, .dims = {1, 8, 4, 4}};
    wf_assert_ok(wf_graph_create(wf_allocator_system(), &graph));
    wf_value_id value, next;
    wf_assert_ok(wf_graph_add_value(graph, "x", &type, &value));
    wf_assert_ok(wf_graph_add_input(graph, value));
    for (uint32_t n = 0; n < node_count; n++) {
        char name[16];
        snprintf(name, sizeof name, "t%u", n);
        wf_assert_ok(wf_graph_add_value(graph, name, &type, &next));
        wf_node_spec_t spec = {
            .op = WF_OP_NEG, .inputs = &value, .input_count = 1, .outputs = &next, .output_count = 1};
        wf_node_id node;
        wf_assert_ok(wf_graph_add_node(graph, &spec, &node));
        value = next;
    }
    wf_assert_ok(wf_graph_add_output(graph, value));
    return graph;
}

/* Linear in time and memory; WF_TEST_NODES sets the number of nodes. */
static void long_chains_are_solved(void **state)
{
    (void)state;
    const char *text = getenv("WF_TEST_NODES");
    uint32_t nodes = text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 50000;
    fixture_t fixture = {.allocator = wf_allocator_system(), .graph = chain_graph(nodes)};
    wf_assert_ok(
        open_null(fixture.allocator,
                  "neg* null/row row>row 10\nneg* null/last last>last 9\nwf.convert null/convert - 30\n",
                  &fixture.backends));
    wf_space_options_t options = {.allocator = fixture.allocator};
    wf_knobs_default(&options.knobs);
    wf_assert_ok(wf_space_create(fixture.graph, fixture.backends, &options, &fixture.space));
    wf_route_t route;
    wf_assert_ok(wf_space_solve(fixture.space, &route));
    wf_assert_ok(wf_route_check(fixture.space, &route));
    assert_true(route.exact && route.cost_ns == 9 * ((nodes + 7) / 8) + 60);
    assert_true(fixture.space->problems.count <= 16);
    wf_route_deinit(&route);
    fixture_close(&fixture);
}

/* ---- Knobs ---- */

static void knobs_have_names_and_values(void **state)
{
    (void)state;
    wf_knobs_t knobs;
    wf_knobs_default(&knobs);
    assert_true(knobs.fuse_epilogue && knobs.layout_last && knobs.source_native);
    wf_assert_ok(wf_knobs_set(&knobs, "fuse.epilogue", "off"));
    wf_assert_ok(wf_knobs_set(&knobs, "layout.last", "0"));
    assert_true(!knobs.fuse_epilogue && !knobs.layout_last && knobs.layout_blocked);
    wf_assert_ok(wf_knobs_set(&knobs, "layout.last", "on"));
    assert_true(knobs.layout_last);
    wf_status_t status = wf_knobs_set(&knobs, "fuse.atention", "off");
    assert_int_equal(wf_status_code(status), WF_CODE_USAGE);
    assert_non_null(strstr(wf_status_hint(status), "fuse.attention"));
    wf_status_free(status);
    status = wf_knobs_set(&knobs, "fuse.attention", "maybe");
    assert_int_equal(wf_status_code(status), WF_CODE_USAGE);
    assert_non_null(strstr(wf_status_hint(status), "fuse.attention=on"));
    wf_status_free(status);
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), TEXT_MAX_BYTES);
    wf_knobs_print(&knobs, "setting ", &text);
    wf_assert_ok(wf_text_take_status(&text));
    assert_non_null(strstr(wf_text_cstr(&text), "setting fuse.epilogue off\n"));
    const char *last = "";
    size_t lines = 0;
    for (const char *line = wf_text_cstr(&text); *line != 0; line = strchr(line, '\n') + 1, lines++) {
        assert_true(strcmp(last, line) < 0);
        last = line;
    }
    size_t knob_count = 0;
#define X(field, name, default_value, scope, help) knob_count++;
#include "route/knobs.def"
#undef X
    assert_int_equal(lines, knob_count);
    wf_text_deinit(&text);
}

/* Every knob of a fused operator turns off a pass that exists. */
static void knobs_turn_passes_off(void **state)
{
    (void)state;
    size_t count;
    const wf_pass_t *passes = wf_passes(&count);
    bool *disabled = test_calloc(count, sizeof *disabled);
    static const char *const knob_names[] = {"fuse.attention", "fuse.norm", "fuse.squeeze_excite"};
    for (size_t k = 0; k < WF_COUNT_OF(knob_names); k++) {
        wf_knobs_t knobs;
        size_t off = 0;
        wf_knobs_default(&knobs);
        for (size_t other = 0; other < WF_COUNT_OF(knob_names); other++) {
            wf_assert_ok(wf_knobs_set(&knobs, knob_names[other], "on"));
        }
        wf_knobs_disabled_passes(&knobs, disabled);
        for (size_t p = 0; p < count; p++) {
            assert_false(disabled[p]);
        }
        wf_assert_ok(wf_knobs_set(&knobs, knob_names[k], "off"));
        wf_knobs_disabled_passes(&knobs, disabled);
        for (size_t p = 0; p < count; p++) {
            off += disabled[p];
            assert_true(!disabled[p] || strncmp(passes[p].name, "fuse_", 5) == 0);
        }
        assert_true(off >= 1);
    }
    test_free(disabled);
}

/* ---- Plans that do not fit ---- */

static void misfit_plans_are_refused(void **state)
{
    (void)state;
    fixture_t fixture;
    wf_assert_ok(fixture_open(&fixture, wf_allocator_system(), simple_graph, simple_script, NULL));
    wf_route_t route;
    wf_assert_ok(wf_space_solve(fixture.space, &route));
    wf_text_t text;
    wf_text_init(&text, fixture.allocator, TEXT_MAX_BYTES);
    wf_assert_ok(wf_plan_print(fixture.space, &route, &text));
    wf_route_deinit(&route);
    static const struct {
        const char *from, *to; /* first place */
    } changes[] = {
        {"[plan]", "[plam]"},
        {"version 1", "version 2"},
        {"version 1", "version 1 "},
        {"\nc ", "\nz "},
        {"\nc ", "\nx "},
        {"null/conv.last", "null/conv.none"},
        {"null/conv.last", ""},
        {"null/relu", "null/conv"},
        {" row last ", " row b9 "},
        {" row last ", " row row "},
        {"convert x", "convert q"},
        {"null/convert", "null/konvert"},
        {"\ny ", "\nd "},
        {"\nd ", "\n#d "},
        {"\nversion", "\n\"\nversion"},
        {"\nversion", "\n\"\\x0\"\nversion"},
        {"\nc ", "\nc  "},
        {"null/relu.last", "null/relu.last covers=d"},
        {"null/relu.last", "null/relu.last covers="},
    };
    for (size_t i = 0; i < WF_COUNT_OF(changes); i++) {
        const char *place = strstr(wf_text_cstr(&text), changes[i].from);
        assert_non_null(place);
        wf_text_t changed;
        wf_text_init(&changed, fixture.allocator, TEXT_MAX_BYTES);
        wf_text_append(&changed, wf_text_cstr(&text), (size_t)(place - wf_text_cstr(&text)));
        wf_text_puts(&changed, changes[i].to);
        wf_text_puts(&changed, place + strlen(changes[i].from));
        wf_status_t status = wf_plan_parse(fixture.space, wf_text_cstr(&changed), changed.length, &route);
        if (wf_status_code(status) != WF_CODE_LOCK_MISMATCH) {
            fail_msg("'%s' for '%s' is accepted", changes[i].to, changes[i].from);
        }
        assert_null(route.items);
        for (size_t p = 0; p < fixture.space->problems.count;
             p++) { /* a plan that does not fit pins nothing */
            assert_int_equal(fixture.space->problems.items[p].pinned_choice, WF_NO_CHOICE);
        }
        wf_status_free(status);
        wf_text_deinit(&changed);
    }
    wf_text_deinit(&text);
    fixture_close(&fixture);
}

/* A plan says how conversions are done, and that stays so whatever they cost here. */
static void plans_pin_conversions(void **state)
{
    (void)state;
    fixture_t fixture;
    wf_assert_ok(fixture_open(&fixture, wf_allocator_system(), simple_graph, simple_script, NULL));
    wf_route_t route, again;
    wf_assert_ok(wf_space_solve(fixture.space, &route));
    wf_text_t text;
    wf_text_init(&text, fixture.allocator, TEXT_MAX_BYTES);
    wf_assert_ok(wf_plan_print(fixture.space, &route, &text));
    uint32_t problem;
    wf_assert_ok(wf_space_convert(fixture.space, fixture.graph->inputs.items[0], WF_LAYOUT_ROW,
                                  WF_LAYOUT_LAST, &problem));
    fixture.space->problems.items[problem].choices.items[1].cost_ns = 1; /* the other one is cheaper now */
    assert_int_equal(wf_space_best_choice(fixture.space, problem), 1);
    wf_assert_ok(wf_plan_parse(fixture.space, wf_text_cstr(&text), text.length, &again));
    assert_int_equal(wf_space_best_choice(fixture.space, problem), 0);
    wf_route_deinit(&again);
    wf_text_deinit(&text);
    wf_route_deinit(&route);
    fixture_close(&fixture);
}

/* ---- Memory ---- */

static wf_status_t whole_scenario(wf_allocator_t allocator, void *arg)
{
    (void)arg;
    fixture_t fixture;
    wf_route_t routes[2] = {{.allocator = allocator}, {.allocator = allocator}},
               parsed = {.allocator = allocator};
    wf_explain_t explain = {.allocator = allocator};
    size_t count = 0;
    wf_text_t plan, explained;
    wf_text_init(&plan, allocator, TEXT_MAX_BYTES);
    wf_text_init(&explained, allocator, TEXT_MAX_BYTES);
    wf_status_t status = fixture_open(&fixture, allocator, simple_graph, simple_script, NULL);
    if (status == WF_OK) {
        status = wf_space_solve_k(fixture.space, 2, routes, &count);
    }
    if (status == WF_OK) {
        status = wf_plan_print(fixture.space, &routes[0], &plan);
    }
    if (status == WF_OK) {
        status = wf_plan_parse(fixture.space, wf_text_cstr(&plan), plan.length, &parsed);
    }
    if (status == WF_OK) {
        status = wf_explain_make(fixture.space, &parsed, allocator, &explain);
    }
    if (status == WF_OK) {
        status = wf_explain_print(fixture.space, &explain, &explained);
    }
    wf_explain_deinit(&explain);
    wf_route_deinit(&parsed);
    wf_route_deinit(&routes[0]);
    wf_route_deinit(&routes[1]);
    wf_text_deinit(&explained);
    wf_text_deinit(&plan);
    fixture_close(&fixture);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t allocations = wf_fail_each_allocation(whole_scenario, NULL);
    printf("%llu allocations\n", (unsigned long long)allocations);
    assert_true(allocations > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solver_finds_the_least_of_all_routes),
        cmocka_unit_test(random_costs_give_valid_routes),
        cmocka_unit_test(equal_work_is_one_problem),
        cmocka_unit_test(undone_nodes_are_named),
        cmocka_unit_test(broken_sources_are_refused),
        cmocka_unit_test(missing_conversions_forbid),
        cmocka_unit_test(labels_are_capped),
        cmocka_unit_test(long_chains_are_solved),
        cmocka_unit_test(knobs_have_names_and_values),
        cmocka_unit_test(knobs_turn_passes_off),
        cmocka_unit_test(misfit_plans_are_refused),
        cmocka_unit_test(plans_pin_conversions),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
