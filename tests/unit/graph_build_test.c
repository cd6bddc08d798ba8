/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: building, rewriting, order, uses, verification. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/graph_check.h"

static const wf_type_t vector = {.dtype = WF_DTYPE_F32, .rank = 1, .dims = {4}};

static wf_value_id value_named(const wf_graph_t *graph, const char *name)
{
    uint64_t id = WF_NO_VALUE;
    assert_true(wf_map_get(&graph->value_names, name, strlen(name), &id));
    return (wf_value_id)id;
}

static void assert_text(const wf_graph_t *graph, const char *expected)
{
    char *text = wf_test_graph_text(graph);
    assert_string_equal(text, expected);
    free(text);
}

/* ---- Names ---- */

static void test_names_are_unique(void **state)
{
    static const struct {
        const char *wanted, *given;
    } cases[] = {{"a", "a"},  {"a", "a~2"}, {"a", "a~3"},   {"a~2", "a~4"}, {NULL, "v"},
                 {"", "v~2"}, {"~7", "~7"}, {"~7", "~7~2"}, {"b~", "b~"}};
    wf_graph_t *graph = NULL;
    (void)state;
    wf_assert_ok(wf_graph_create(wf_allocator_system(), &graph));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wf_value_id id;
        wf_assert_ok(wf_graph_add_value(graph, cases[i].wanted, &vector, &id));
        assert_string_equal(wf_graph_value(graph, id)->name, cases[i].given);
    }
    wf_graph_destroy(graph);
}

/* ---- Building ---- */

static void test_types_are_inferred(void **state)
{
    (void)state;
    wf_graph_t *graph = wf_test_graph("graph g {\n input %x: f32[2,3]\n const %s: i64[1] = {6}\n"
                                      " %y = Reshape(%x, %s)\n output %y\n}\n");
    const wf_value_t *y = wf_graph_value(graph, value_named(graph, "y"));
    assert_true(y->type_known);
    assert_int_equal(y->type.rank, 1);
    assert_int_equal(y->type.dims[0], 6);
    wf_graph_destroy(graph);
}

static void test_unknown_shape_stays_unknown(void **state)
{
    (void)state;
    wf_graph_t *graph = wf_test_graph("graph g {\n input %x: f32[2,3]\n input %s: i64[1]\n"
                                      " %y = Reshape(%x, %s)\n %z = Relu(%y)\n output %z\n}\n");
    assert_false(wf_graph_value(graph, value_named(graph, "y"))->type_known);
    assert_false(wf_graph_value(graph, value_named(graph, "z"))->type_known);
    wf_graph_destroy(graph);
}

static void test_bad_nodes_are_refused_and_change_nothing(void **state)
{
    (void)state;
    wf_graph_t *graph = wf_test_graph("graph g {\n input %x: f32[2]\n %y = Relu(%x)\n output %y\n}\n");
    wf_value_id x = value_named(graph, "x");
    wf_value_id y = value_named(graph, "y");
    wf_value_id fresh;
    wf_assert_ok(wf_graph_add_value(graph, "fresh", NULL, &fresh));
    wf_value_id two[2] = {x, x};
    wf_attr_t unknown = {.name = "nonsense", .kind = WF_ATTR_INT};
    wf_node_spec_t twice = {
        .op = WF_OP_RELU, .inputs = &x, .input_count = 1, .outputs = &y, .output_count = 1};
    wf_node_spec_t input = {
        .op = WF_OP_RELU, .inputs = &y, .input_count = 1, .outputs = &x, .output_count = 1};
    wf_node_spec_t counts = {
        .op = WF_OP_RELU, .inputs = two, .input_count = 2, .outputs = &fresh, .output_count = 1};
    wf_node_spec_t attrs = {.op = WF_OP_RELU,
                            .attrs = &unknown,
                            .attr_count = 1,
                            .inputs = &x,
                            .input_count = 1,
                            .outputs = &fresh,
                            .output_count = 1};
    wf_assert_fails(wf_graph_add_node(graph, &twice, NULL), MODEL_INVALID);
    wf_assert_fails(wf_graph_add_node(graph, &input, NULL), MODEL_INVALID);
    wf_assert_fails(wf_graph_add_node(graph, &counts, NULL), MODEL_INVALID);
    wf_assert_fails(wf_graph_add_node(graph, &attrs, NULL), MODEL_INVALID);
    wf_assert_fails(wf_graph_add_input(graph, y), MODEL_INVALID);
    wf_assert_fails(wf_graph_add_output(graph, y), MODEL_INVALID);
    wf_assert_ok(wf_graph_verify(graph));
    assert_int_equal(graph->order.count, 1);
    wf_graph_destroy(graph);
}

static void test_node_can_be_inserted_before_another(void **state)
{
    (void)state;
    wf_graph_t *graph =
        wf_test_graph("graph g {\n input %x: f32[2]\n %y = Relu(%x)\n %z = Exp(%y)\n output %z\n}\n");
    wf_value_id y = value_named(graph, "y");
    wf_value_id middle;
    wf_node_id exp = wf_graph_value(graph, value_named(graph, "z"))->producer;
    wf_assert_ok(wf_graph_add_value(graph, "m", NULL, &middle));
    wf_node_spec_t spec = {
        .op = WF_OP_NEG, .inputs = &y, .input_count = 1, .outputs = &middle, .output_count = 1};
    wf_assert_ok(wf_graph_insert_node(graph, &spec, exp, NULL));
    wf_assert_ok(wf_graph_set_input(graph, exp, 0, middle));
    wf_assert_ok(wf_graph_verify(graph));
    assert_text(graph, "graph \"g\" {\n  input %x: f32[2]\n  %y = Relu(%x)\n  %m = Neg(%y)\n"
                       "  %z = Exp(%m)\n  output %z\n}\n");
    wf_graph_destroy(graph);
}

/* ---- Order ---- */

static void test_sort_moves_appended_nodes_to_their_users(void **state)
{
    (void)state;
    wf_graph_t *graph = wf_test_graph("graph g {\n input %x: f32[2]\n %a = Relu(%x)\n %b = Exp(%a)\n"
                                      " %c = Neg(%x)\n output %b\n output %c\n}\n");
    wf_value_id a = value_named(graph, "a");
    wf_value_id m;
    wf_assert_ok(wf_graph_add_value(graph, "m", NULL, &m));
    wf_node_spec_t spec = {.op = WF_OP_ABS, .inputs = &a, .input_count = 1, .outputs = &m, .output_count = 1};
    wf_assert_ok(wf_graph_add_node(graph, &spec, NULL));
    wf_assert_ok(wf_graph_set_input(graph, wf_graph_value(graph, value_named(graph, "b"))->producer, 0, m));
    wf_assert_fails(wf_graph_verify(graph), INTERNAL);
    wf_assert_ok(wf_graph_sort(graph));
    wf_assert_ok(wf_graph_verify(graph));
    assert_text(graph, "graph \"g\" {\n  input %x: f32[2]\n  %a = Relu(%x)\n  %m = Abs(%a)\n  %b = Exp(%m)\n"
                       "  %c = Neg(%x)\n  output %b\n  output %c\n}\n");
    wf_graph_destroy(graph);
}

static void test_sort_names_a_cycle(void **state)
{
    (void)state;
    wf_graph_t *graph =
        wf_test_graph("graph g {\n input %x: f32[2]\n %a = Relu(%x)\n %b = Exp(%a)\n output %b\n}\n");
    wf_node_id first = wf_graph_value(graph, value_named(graph, "a"))->producer;
    wf_assert_ok(wf_graph_set_input(graph, first, 0, value_named(graph, "b")));
    wf_status_t status = wf_graph_sort(graph);
    assert_int_equal(wf_status_code(status), WF_CODE_MODEL_INVALID);
    assert_non_null(strstr(wf_status_message(status), "cycle"));
    wf_status_free(status);
    wf_graph_destroy(graph);
}

/* ---- Rewriting ---- */

static void test_replaced_output_keeps_its_name(void **state)
{
    (void)state;
    wf_graph_t *graph = wf_test_graph("graph g {\n input %x: f32[2]\n %a = Relu(%x)\n %y = Identity(%a)\n"
                                      " %z = Exp(%y)\n output %y\n output %z\n}\n");
    wf_value_id y = value_named(graph, "y");
    wf_node_id identity = wf_graph_value(graph, y)->producer;
    wf_assert_ok(wf_graph_replace_uses(graph, y, value_named(graph, "a")));
    wf_graph_remove_node(graph, identity);
    wf_assert_ok(wf_graph_sort(graph));
    wf_assert_ok(wf_graph_verify(graph));
    assert_text(graph, "graph \"g\" {\n  input %x: f32[2]\n  %y = Relu(%x)\n  %z = Exp(%y)\n  output %y\n"
                       "  output %z\n}\n");
    wf_graph_destroy(graph);
}

static void test_output_replaced_by_an_input_becomes_a_copy(void **state)
{
    (void)state;
    wf_graph_t *graph =
        wf_test_graph("graph g {\n input %x: f32[2]\n %y = Relu(%x)\n %z = Exp(%y)\n output %y\n"
                      " output %z\n}\n");
    wf_value_id y = value_named(graph, "y");
    wf_node_id relu = wf_graph_value(graph, y)->producer;
    wf_assert_ok(wf_graph_replace_uses(graph, y, value_named(graph, "x")));
    wf_graph_remove_node(graph, relu);
    wf_assert_ok(wf_graph_sort(graph));
    wf_assert_ok(wf_graph_verify(graph));
    assert_text(graph, "graph \"g\" {\n  input %x: f32[2]\n  %z = Exp(%x)\n  %y = Identity(%x)\n  output %y\n"
                       "  output %z\n}\n");
    wf_graph_destroy(graph);
}

static void test_changed_node_keeps_its_values(void **state)
{
    (void)state;
    wf_graph_t *graph =
        wf_test_graph("graph g {\n input %x: f32[2,3]\n %y = Relu(%x)\n %z = Exp(%y)\n output %z\n}\n");
    wf_value_id x = value_named(graph, "x");
    wf_node_id node = wf_graph_value(graph, value_named(graph, "y"))->producer;
    wf_node_spec_t spec = {.op = WF_OP_TRANSPOSE, .inputs = &x, .input_count = 1};
    wf_assert_ok(wf_graph_change_node(graph, node, &spec));
    wf_assert_ok(wf_graph_infer_node(graph, wf_graph_value(graph, value_named(graph, "z"))->producer));
    wf_assert_ok(wf_graph_verify(graph));
    assert_int_equal(wf_graph_value(graph, value_named(graph, "z"))->type.dims[0], 3);
    wf_graph_destroy(graph);
}

/* ---- Uses ---- */

static void test_uses_table(void **state)
{
    wf_uses_t uses;
    (void)state;
    wf_graph_t *graph = wf_test_graph("graph g {\n input %x: f32[2]\n %a = Relu(%x)\n %b = Add(%a, %a)\n"
                                      " %c = Mul(%x, %b)\n %d = Neg(%c)\n output %c\n output %d\n}\n");
    wf_assert_ok(wf_uses_build(graph, wf_allocator_system(), &uses));
    wf_value_id x = value_named(graph, "x");
    wf_value_id a = value_named(graph, "a");
    wf_value_id b = value_named(graph, "b");
    wf_value_id c = value_named(graph, "c");
    assert_int_equal(uses.first[x + 1] - uses.first[x], 2);
    assert_int_equal(uses.items[uses.first[x]], wf_graph_value(graph, a)->producer);
    assert_int_equal(uses.items[uses.first[x] + 1], wf_graph_value(graph, c)->producer);
    assert_int_equal(wf_uses_single(graph, &uses, x), WF_NO_NODE);
    assert_int_equal(wf_uses_single(graph, &uses, a), wf_graph_value(graph, b)->producer);
    assert_int_equal(wf_uses_single(graph, &uses, b), wf_graph_value(graph, c)->producer);
    assert_int_equal(wf_uses_single(graph, &uses, c), WF_NO_NODE);
    assert_int_equal(wf_graph_value(graph, c)->use_count, 2);
    wf_uses_deinit(&uses);
    wf_graph_destroy(graph);
}

static void test_scalars_of_all_types(void **state)
{
    static const struct {
        const char *type, *value;
        double expected;
    } cases[] = {{"f32[]", "0.1", 0.100000001490116},
                 {"f64[1]", "0.1", 0.1},
                 {"f16[1,1]", "0.1", 0.0999755859375},
                 {"bf16[]", "0.1", 0.10009765625},
                 {"i8[]", "-128", -128.0},
                 {"u8[]", "255", 255.0},
                 {"i64[1]", "-3", -3.0},
                 {"bool[]", "1", 1.0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];
        double actual = 0.0;
        (void)snprintf(text, sizeof text, "graph g {\n const %%c: %s = {%s}\n output %%c\n}\n", cases[i].type,
                       cases[i].value);
        wf_graph_t *graph = wf_test_graph(text);
        assert_true(wf_graph_scalar(graph, value_named(graph, "c"), &actual));
        assert_true(actual - cases[i].expected < 1e-15 && cases[i].expected - actual < 1e-15);
        wf_graph_destroy(graph);
    }
}

/* ---- Verification: each fault is found ---- */

typedef void break_fn(wf_graph_t *graph);

static void break_order(wf_graph_t *graph)
{
    wf_node_id first = graph->order.items[0];
    graph->order.items[0] = graph->order.items[1];
    graph->order.items[1] = first;
}

static void break_type(wf_graph_t *graph)
{
    wf_graph_value(graph, value_named(graph, "b"))->type.dims[0] = 3;
}

static void break_use_count(wf_graph_t *graph)
{
    wf_graph_value(graph, value_named(graph, "a"))->use_count++;
}

static void break_name(wf_graph_t *graph)
{
    wf_graph_value(graph, value_named(graph, "a"))->name = "b";
}

static void break_producer(wf_graph_t *graph)
{
    wf_graph_value(graph, value_named(graph, "b"))->producer = 0;
}

static void break_output_mark(wf_graph_t *graph)
{
    wf_graph_value(graph, value_named(graph, "b"))->is_output = false;
}

static void break_input(wf_graph_t *graph)
{
    graph->nodes.items[1].inputs[0] = value_named(graph, "x");
}

static void break_removed(wf_graph_t *graph)
{
    graph->nodes.items[1].removed = true;
}

static void test_verify_finds_faults(void **state)
{
    static break_fn *const faults[] = {break_order,    break_type,        break_use_count, break_name,
                                       break_producer, break_output_mark, break_input,     break_removed};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        wf_graph_t *graph =
            wf_test_graph("graph g {\n input %x: f32[2]\n %a = Relu(%x)\n %b = Exp(%a)\n output %b\n}\n");
        faults[i](graph);
        wf_status_t status = wf_graph_verify(graph);
        if (wf_status_code(status) != WF_CODE_INTERNAL) {
            fail_msg("fault %zu is not found", i);
        }
        wf_status_free(status);
        wf_graph_destroy(graph);
    }
}

/* ---- Memory ---- */

static wf_status_t build_and_change(wf_allocator_t allocator, void *arg)
{
    static const char text[] = "graph g {\n input %x: f32[2]\n const %c: f32[] = {2}\n %a = Mul(%x, %c)\n"
                               " %b = Exp(%a)\n output %b\n}\n";
    wf_graph_t *graph = NULL;
    wf_hash_t hash;
    wf_text_t printed;
    (void)arg;
    WF_TRY(wf_graph_parse(text, sizeof text - 1, allocator, &graph));
    wf_text_init(&printed, allocator, SIZE_MAX / 2);
    wf_status_t status = wf_graph_verify(graph);
    status = status == WF_OK ? wf_graph_sort(graph) : status;
    status = status == WF_OK ? wf_graph_print(graph, &printed) : status;
    status = status == WF_OK ? wf_graph_hash(graph, &hash) : status;
    wf_text_deinit(&printed);
    wf_graph_destroy(graph);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(wf_fail_each_allocation(build_and_change, NULL) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_types_are_inferred),
        cmocka_unit_test(test_unknown_shape_stays_unknown),
        cmocka_unit_test(test_bad_nodes_are_refused_and_change_nothing),
        cmocka_unit_test(test_node_can_be_inserted_before_another),
        cmocka_unit_test(test_sort_moves_appended_nodes_to_their_users),
        cmocka_unit_test(test_sort_names_a_cycle),
        cmocka_unit_test(test_replaced_output_keeps_its_name),
        cmocka_unit_test(test_output_replaced_by_an_input_becomes_a_copy),
        cmocka_unit_test(test_changed_node_keeps_its_values),
        cmocka_unit_test(test_uses_table),
        cmocka_unit_test(test_scalars_of_all_types),
        cmocka_unit_test(test_verify_finds_faults),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
