/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline: its list, options, refusals, size, and every allocation failing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/pass.h"
#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/graph_check.h"

static void test_list(void **state)
{
    size_t count;
    const wf_pass_t *passes = wf_passes(&count);
    (void)state;
    assert_true(count > 20);
    for (size_t i = 0; i < count; i++) {
        const wf_pass_t *found = wf_pass_find(passes[i].name);
        assert_non_null(found);
        assert_string_equal(found->name, passes[i].name);
        assert_true(strlen(passes[i].what) > 10);
    }
    assert_null(wf_pass_find("fuse_everything"));
    assert_string_equal(passes[0].name, "params_to_attrs");
}

static const char gelu_text[] =
    "graph g {\n input %x: f32[4]\n const %r: f32[] = {1.4142135}\n const %one: f32[] = {1}\n"
    " const %half: f32[] = {0.5}\n %a = Div(%x, %r)\n %b = Erf(%a)\n %c = Add(%b, %one)\n"
    " %d = Mul(%x, %half)\n %y = Mul(%d, %c)\n output %y\n}\n";

static void test_a_disabled_pass_does_not_run(void **state)
{
    bool disabled[128] = {false};
    size_t count;
    const wf_pass_t *passes = wf_passes(&count);
    (void)state;
    for (int off = 0; off < 2; off++) {
        for (size_t i = 0; i < count; i++) {
            disabled[i] = off && strcmp(passes[i].name, "fuse_gelu") == 0;
        }
        wf_graph_t *graph = wf_test_graph(gelu_text);
        wf_pass_options_t options = {.disabled = disabled};
        wf_assert_ok(wf_passes_run(graph, &options));
        assert_int_equal(graph->order.count, off ? 5 : 1);
        wf_graph_destroy(graph);
    }
}

static void test_dump_after_a_pass(void **state)
{
    wf_text_t text;
    (void)state;
    wf_graph_t *graph = wf_test_graph(gelu_text);
    wf_text_init(&text, wf_allocator_system(), 1 << 20);
    wf_pass_options_t options = {.dump_after = "fuse_gelu", .dump_text = &text};
    wf_assert_ok(wf_passes_run(graph, &options));
    assert_non_null(strstr(wf_text_cstr(&text), "%y = Gelu(%x)"));
    wf_text_deinit(&text);
    wf_graph_destroy(graph);
}

static void count_lines(void *self, wf_log_level_t level, const char *line)
{
    size_t *count = self;
    assert_int_equal(level, WF_LOG_DEBUG);
    *count += strncmp(line, "pass fuse_gelu: 1 changes", 25) == 0;
}

static void test_changes_are_logged(void **state)
{
    size_t count = 0;
    (void)state;
    wf_graph_t *graph = wf_test_graph(gelu_text);
    wf_pass_options_t options = {.log = {.self = &count, .write = count_lines, .max_level = WF_LOG_DEBUG}};
    wf_assert_ok(wf_passes_run(graph, &options));
    assert_int_equal(count, 1);
    wf_graph_destroy(graph);
}

static void test_names_of_onnx_nodes_are_joined(void **state)
{
    (void)state;
    wf_graph_t *graph = wf_test_graph(gelu_text);
    static const char *const names[] = {"div", "erf", "add", "mul", "mul_1"};
    for (size_t i = 0; i < 5; i++) {
        wf_graph_node(graph, graph->order.items[i])->onnx_names = names[i];
    }
    wf_pass_options_t options = {0};
    wf_assert_ok(wf_passes_run(graph, &options));
    assert_string_equal(wf_graph_node(graph, graph->order.items[0])->onnx_names, "div, erf, add, mul, mul_1");
    wf_graph_destroy(graph);
}

static void test_shapes_known_at_run_time_only_are_refused(void **state)
{
    wf_pass_options_t options = {0};
    (void)state;
    wf_graph_t *graph = wf_test_graph("graph g {\n input %x: f32[2,3]\n input %s: i64[2]\n %r = Relu(%x)\n"
                                      " %y = Reshape(%r, %s)\n output %y\n}\n");
    wf_status_t status = wf_passes_run(graph, &options);
    assert_int_equal(wf_status_code(status), WF_CODE_MODEL_UNSUPPORTED);
    assert_non_null(strstr(wf_status_message(status), "node y (Reshape)"));
    wf_status_free(status);
    wf_graph_destroy(graph);
}

static void test_inputs_without_shapes_are_refused(void **state)
{
    wf_graph_t *graph = NULL;
    wf_value_id x;
    wf_pass_options_t options = {0};
    (void)state;
    wf_assert_ok(wf_graph_create(wf_allocator_system(), &graph));
    wf_assert_ok(wf_graph_add_value(graph, "x", NULL, &x));
    wf_assert_ok(wf_graph_add_input(graph, x));
    wf_assert_fails(wf_passes_run(graph, &options), SHAPE_NEEDED);
    wf_graph_destroy(graph);
}

/* ---- Size: long chains take neither stack nor the square of their length ---- */

static wf_graph_t *chain(const wf_op_t *ops, size_t op_count, size_t length)
{
    static const float values[4] = {1, 2, 3, 4};
    const wf_type_t type = {.dtype = WF_DTYPE_F32, .rank = 2, .dims = {2, 2}};
    wf_graph_t *graph = NULL;
    wf_value_id inputs[2] = {0, 0};
    wf_assert_ok(wf_graph_create(wf_allocator_system(), &graph));
    wf_assert_ok(wf_graph_add_value(graph, "x", &type, &inputs[0]));
    wf_assert_ok(wf_graph_add_input(graph, inputs[0]));
    wf_assert_ok(wf_graph_add_constant(graph, "c", &type, values, &inputs[1]));
    for (size_t i = 0; i < length; i++) {
        wf_value_id output;
        wf_op_t op = ops[i % op_count];
        wf_assert_ok(wf_graph_add_value(graph, "v", NULL, &output));
        wf_node_spec_t spec = {.op = op,
                               .inputs = inputs,
                               .input_count = (size_t)wf_op_info(op)->input_min,
                               .outputs = &output,
                               .output_count = 1};
        wf_assert_ok(wf_graph_add_node(graph, &spec, NULL));
        inputs[0] = output;
    }
    wf_assert_ok(wf_graph_add_output(graph, inputs[0]));
    return graph;
}

static void test_long_chains(void **state)
{
    static const wf_op_t mixed[] = {WF_OP_RELU, WF_OP_TANH,   WF_OP_IDENTITY, WF_OP_TRANSPOSE,
                                    WF_OP_ADD,  WF_OP_MATMUL, WF_OP_SIGMOID,  WF_OP_MUL};
    static const wf_op_t transposes[] = {WF_OP_TRANSPOSE};
    static const wf_op_t identities[] = {WF_OP_IDENTITY};
    wf_pass_options_t options = {0};
    (void)state;
    wf_graph_t *graph = chain(mixed, 8, 40000);
    wf_assert_ok(wf_passes_run(graph, &options));
    wf_assert_ok(wf_graph_verify(graph));
    assert_int_equal(graph->order.count, 35000);
    wf_graph_destroy(graph);
    graph = chain(transposes, 1, 40001);
    wf_assert_ok(wf_passes_run(graph, &options));
    assert_int_equal(graph->order.count, 1);
    wf_graph_destroy(graph);
    graph = chain(identities, 1, 40000);
    wf_assert_ok(wf_passes_run(graph, &options));
    assert_int_equal(graph->order.count, 1);
    wf_graph_destroy(graph);
}

/* ---- Memory ---- */

static wf_status_t run_pipeline(wf_allocator_t allocator, void *arg)
{
    static const char text[] =
        "graph g {\n input %x: f32[1,2,4,4]\n input %r: f32[1,2,4,4]\n const %w: f32[2,2,1,1] = {1, 2, 3, "
        "4}\n"
        " const %s: f32[2] = {1, 2}\n const %m: i64[2] = {1, -1}\n const %k: f32[16,3] = ~1\n const %kb: "
        "f32[1,3] = {1, 2, 3}\n"
        " const %three: f32[] = {3}\n const %zero: f32[] = {0}\n const %six: f32[] = {6}\n"
        " %c = Conv(%x, %w)\n %b = BatchNormalization(%c, %s, %s, %s, %s)\n %a = Add(%b, %r)\n"
        " %h = Add(%a, %three)\n %i = Clip(%h, %zero, %six)\n %j = Mul(%a, %i)\n %l = Div(%j, %six)\n"
        " %t = Transpose(%l) {perm=[0,2,3,1]}\n %u = Relu(%t)\n %v = Transpose(%u) {perm=[0,3,1,2]}\n"
        " %p = GlobalAveragePool(%v)\n %q = Conv(%p, %w)\n %q2 = Relu(%q)\n %q3 = Conv(%q2, %w)\n %q4 = "
        "Sigmoid(%q3)\n"
        " %q5 = Mul(%v, %q4)\n %f = Reshape(%q5, %m)\n %f1, %f2 = Split(%f) {axis=1}\n %g = MatMul(%f1, %k)\n"
        " %y = Add(%g, %kb)\n output %y\n output %f2\n}\n";
    wf_graph_t *graph = NULL;
    wf_pass_options_t options = {0};
    (void)arg;
    WF_TRY(wf_graph_parse(text, sizeof text - 1, allocator, &graph));
    wf_status_t status = wf_passes_run(graph, &options);
    wf_graph_destroy(graph);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(wf_fail_each_allocation(run_pipeline, NULL) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_a_disabled_pass_does_not_run),
        cmocka_unit_test(test_dump_after_a_pass),
        cmocka_unit_test(test_changes_are_logged),
        cmocka_unit_test(test_names_of_onnx_nodes_are_joined),
        cmocka_unit_test(test_shapes_known_at_run_time_only_are_refused),
        cmocka_unit_test(test_inputs_without_shapes_are_refused),
        cmocka_unit_test(test_long_chains),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
