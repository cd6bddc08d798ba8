/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow that is decided while importing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/constant.h"
#include "onnx/onnx.h"
#include "support/cmocka_all.h"
#include "support/onnx_writer.h"

/* ---- Helpers ---- */

typedef struct build {
    onnx_writer_t writer;
    wf_onnx_model_t *model;
    wf_graph_t *graph;
} build_t;

static void finish(build_t *self)
{
    wf_graph_destroy(self->graph);
    wf_onnx_close(self->model);
    onnx_writer_deinit(&self->writer);
}

static wf_status_t try_build(build_t *self, const wf_onnx_binding_t *bindings, size_t count)
{
    const onnx_bytes_t *file = onnx_writer_finish(&self->writer);
    self->graph = NULL;
    wf_assert_ok(wf_onnx_open_bytes(file->data, file->bytes, wf_allocator_system(), &self->model));
    return wf_onnx_to_graph(self->model, bindings, count, wf_allocator_system(), &self->graph);
}

static void build_ok(build_t *self, const wf_onnx_binding_t *bindings, size_t count)
{
    wf_assert_ok(try_build(self, bindings, count));
    wf_assert_ok(wf_graph_verify(self->graph));
}

/* The graph's text without comments and blank lines at its ends. */
static void assert_graph(const build_t *self, const char *expected)
{
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), 1 << 20);
    wf_assert_ok(wf_graph_print(self->graph, &text));
    const char *start = strchr(wf_text_cstr(&text), '\n') + 1;
    size_t length = strlen(expected);
    if (strncmp(start, expected, length) != 0 || strcmp(start + length, "}\n") != 0) {
        fail_msg("expected:\n%s\ngot:\n%s", expected, start);
    }
    wf_text_deinit(&text);
}

static void assert_failure(build_t *self, const wf_onnx_binding_t *bindings, size_t count, wf_code_t code,
                           const char *word, const char *hint)
{
    wf_status_t status = try_build(self, bindings, count);
    if (wf_status_code(status) != code || strstr(wf_status_message(status), word) == NULL ||
        strstr(wf_status_hint(status), hint) == NULL) {
        fail_msg("WF-%04d %s | %s", (int)wf_status_code(status), wf_status_message(status),
                 wf_status_hint(status));
    }
    wf_status_free(status);
    finish(self);
}

/* ---- If ---- */

/* y = If(c){ then: Relu(x) } else { w } with an initializer w of its own, or a result of another shape. */
static void put_if(build_t *self, const char *condition_dims, bool same_shape)
{
    static const float weights[3] = {5, 6, 7};
    onnx_bytes_t then_graph = {0}, else_graph = {0}, value;
    onnx_bytes_t node = onnx_node("If", "c", "y", ""), inner = onnx_node("Relu", "x", "t", "");
    onnx_put_message(&then_graph, ONNX_GRAPH_NODE, &inner);
    value = onnx_value("t", ONNX_FLOAT, NULL);
    onnx_put_message(&then_graph, ONNX_GRAPH_OUTPUT, &value);
    onnx_bytes_t tensor =
        onnx_raw_tensor("w", ONNX_FLOAT, same_shape ? "2" : "3", weights, same_shape ? 8 : 12);
    onnx_put_message(&else_graph, ONNX_GRAPH_INITIALIZER, &tensor);
    value = onnx_value("w", ONNX_FLOAT, NULL);
    onnx_put_message(&else_graph, ONNX_GRAPH_OUTPUT, &value);
    onnx_node_add_graph(&node, "then_branch", &then_graph);
    onnx_node_add_graph(&node, "else_branch", &else_graph);
    onnx_writer_init(&self->writer, 8, 17);
    onnx_writer_input(&self->writer, "x", ONNX_FLOAT, "2");
    onnx_writer_input(&self->writer, "c", ONNX_BOOL, condition_dims);
    onnx_put_message(&self->writer.graph, ONNX_GRAPH_NODE, &node);
    onnx_writer_output(&self->writer, "y", ONNX_FLOAT, NULL);
}

static void a_known_condition_takes_its_branch(void **state)
{
    (void)state;
    for (uint8_t c = 0; c < 2; c++) {
        build_t self;
        wf_tensor_t value = {{WF_DTYPE_BOOL, 0, {0}}, &c};
        put_if(&self, "", false);
        build_ok(&self, &(wf_onnx_binding_t){.name = "c", .value = &value}, 1);
        assert_int_equal(self.graph->order.count, 1);
        const wf_node_t *node = wf_graph_node(self.graph, self.graph->order.items[0]);
        assert_int_equal(node->op, c ? WF_OP_RELU : WF_OP_IDENTITY);
        const wf_value_t *y = wf_graph_value(self.graph, self.graph->outputs.items[0]);
        assert_string_equal(y->name, "y");
        assert_int_equal(y->type.dims[0], c ? 2 : 3);
        finish(&self);
    }
}

static void an_unknown_condition_selects(void **state)
{
    (void)state;
    build_t self;
    put_if(&self, "", true);
    build_ok(&self, NULL, 0);
    assert_graph(&self, "  input %x: f32[2]\n  input %c: bool[]\n  const %y/else_branch/w: f32[2] = {5, 6}\n"
                        "  %y/then_branch = Relu(%x) ; f32[2]\n"
                        "  %y = Where(%c, %y/then_branch, %y/else_branch/w) ; f32[2]\n  output %y\n");
    finish(&self);
    put_if(&self, "1", true);
    build_ok(&self, NULL, 0);
    assert_int_equal(wf_graph_value(self.graph, self.graph->outputs.items[0])->type.rank, 1);
    finish(&self);
    put_if(&self, "", false);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_UNSUPPORTED, "different shapes", "fix the value");
    put_if(&self, "2", true);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_INVALID, "not one boolean", "");
}

/* Names of the nodes' operators, in order. */
static void assert_operators(const build_t *self, const char *expected)
{
    char text[1024] = "";
    for (size_t i = 0; i < self->graph->order.count; i++) {
        const wf_node_t *node = wf_graph_node(self->graph, self->graph->order.items[i]);
        strncat(text, i > 0 ? " " : "", sizeof text - strlen(text) - 1);
        strncat(text, wf_op_info(node->op)->onnx_name, sizeof text - strlen(text) - 1);
    }
    assert_string_equal(text, expected);
}

/* The numbers behind an output that was computed while importing. */
static void assert_result(const build_t *self, size_t output, const char *dims, const double *expected,
                          size_t count)
{
    wf_tensor_t tensor;
    char text[64] = "";
    const wf_value_t *value = wf_graph_value(self->graph, self->graph->outputs.items[output]);
    assert_true(
        wf_graph_constant(self->graph, wf_graph_node(self->graph, value->producer)->inputs[0], &tensor));
    for (uint32_t i = 0; i < tensor.type.rank; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i > 0 ? "," : "",
                 (int)tensor.type.dims[i]);
    }
    assert_string_equal(text, dims);
    assert_int_equal(wf_type_elems(&tensor.type), count);
    for (size_t i = 0; i < count; i++) {
        double number;
        assert_true(wf_constant_get(&tensor, (int64_t)i, &number));
        if (number != expected[i]) {
            fail_msg("element %zu is %g, not %g", i, number, expected[i]);
        }
    }
}

static void put_node(onnx_bytes_t *graph, const char *op, const char *inputs, const char *outputs,
                     const char *attrs)
{
    onnx_bytes_t node = onnx_node(op, inputs, outputs, attrs);
    onnx_put_message(graph, ONNX_GRAPH_NODE, &node);
}

static void put_port(onnx_bytes_t *graph, uint32_t field, const char *name)
{
    onnx_bytes_t value = onnx_value(name, ONNX_FLOAT, NULL);
    onnx_put_message(graph, field, &value);
}

static void put_number(onnx_bytes_t *graph, const char *name, int type, const void *data, size_t bytes)
{
    onnx_bytes_t tensor = onnx_raw_tensor(name, type, "", data, bytes);
    onnx_put_message(graph, ONNX_GRAPH_INITIALIZER, &tensor);
}

/* ---- Scan ---- */

/* sum' = sum + x; out = sum' * c, where c is a value from outside. */
static onnx_bytes_t scan_body(void)
{
    onnx_bytes_t body = {0};
    put_port(&body, ONNX_GRAPH_INPUT, "sum");
    put_port(&body, ONNX_GRAPH_INPUT, "x");
    put_node(&body, "Add", "sum,x", "next", "");
    put_node(&body, "Mul", "next,c", "out", "");
    put_port(&body, ONNX_GRAPH_OUTPUT, "next");
    put_port(&body, ONNX_GRAPH_OUTPUT, "out");
    return body;
}

static void write_scan(build_t *self, const char *attrs, bool constant)
{
    static const float zero[2] = {0}, values[6] = {1, 2, 3, 4, 5, 6}, ten = 10;
    onnx_bytes_t node = onnx_node("Scan", "zero,xs", "total,ys", attrs), body = scan_body();
    onnx_node_add_graph(&node, "body", &body);
    onnx_writer_init(&self->writer, 8, 17);
    onnx_writer_floats(&self->writer, "zero", "2", zero, 2);
    if (constant) {
        onnx_writer_floats(&self->writer, "xs", "3,2", values, 6);
    } else {
        onnx_writer_input(&self->writer, "xs", ONNX_FLOAT, "n,2");
    }
    put_number(&self->writer.graph, "c", ONNX_FLOAT, &ten, sizeof ten);
    onnx_put_message(&self->writer.graph, ONNX_GRAPH_NODE, &node);
    onnx_writer_output(&self->writer, "total", ONNX_FLOAT, NULL);
    onnx_writer_output(&self->writer, "ys", ONNX_FLOAT, NULL);
}

static void a_scan_is_unrolled(void **state)
{
    (void)state;
    static const double total[] = {9, 12}, ys[] = {10, 20, 40, 60, 90, 120};
    static const double backward[] = {50, 60, 80, 100, 90, 120}, turned[] = {90, 120, 40, 60, 10, 20};
    static const double columns[] = {10, 40, 90, 20, 60, 120};
    static const int64_t dims[] = {2, 2}, none[] = {0, 2};
    build_t self;
    write_scan(&self, "num_scan_inputs:i=1", true);
    build_ok(&self, NULL, 0);
    assert_result(&self, 0, "2", total, 2);
    assert_result(&self, 1, "3,2", ys, 6);
    finish(&self);
    write_scan(&self, "num_scan_inputs:i=1 scan_input_directions:is=1", true);
    build_ok(&self, NULL, 0);
    assert_result(&self, 1, "3,2", backward, 6);
    finish(&self);
    write_scan(&self, "num_scan_inputs:i=1 scan_output_directions:is=1", true);
    build_ok(&self, NULL, 0);
    assert_result(&self, 1, "3,2", turned, 6);
    finish(&self);
    write_scan(&self, "num_scan_inputs:i=1 scan_output_axes:is=-1", true);
    build_ok(&self, NULL, 0);
    assert_result(&self, 1, "2,3", columns, 6);
    finish(&self);
    write_scan(&self, "num_scan_inputs:i=1", false);
    build_ok(&self, &(wf_onnx_binding_t){.name = "xs", .dims = dims, .rank = 2}, 1);
    assert_operators(&self, "Gather Add Mul Gather Add Mul Unsqueeze Unsqueeze Concat Identity");
    finish(&self);
    write_scan(&self, "num_scan_inputs:i=1", false);
    assert_failure(&self, &(wf_onnx_binding_t){.name = "xs", .dims = none, .rank = 2}, 1,
                   WF_CODE_MODEL_UNSUPPORTED, "no steps", "");
    write_scan(&self, "num_scan_inputs:i=3", true);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_INVALID, "num_scan_inputs", "");
    write_scan(&self, "num_scan_inputs:i=1 scan_input_axes:is=2", true);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_INVALID, "no axis 2", "");
    write_scan(&self, "num_scan_inputs:i=1 scan_input_axes:is=0,0", true);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_INVALID, "scan_input_axes", "");
}

/* ---- Loop ---- */

/* v' = v + v; stacked: v'; goes on while step < last, or as long as it is told. */
static onnx_bytes_t loop_body(bool has_condition)
{
    static const int64_t last = 1;
    onnx_bytes_t body = {0};
    put_port(&body, ONNX_GRAPH_INPUT, "step");
    put_port(&body, ONNX_GRAPH_INPUT, "on");
    put_port(&body, ONNX_GRAPH_INPUT, "v");
    if (has_condition) {
        put_number(&body, "last", ONNX_INT64, &last, sizeof last);
        put_node(&body, "Less", "step,last", "on_out", "");
    } else {
        put_node(&body, "Identity", "on", "on_out", "");
    }
    put_node(&body, "Add", "v,v", "twice", "");
    put_port(&body, ONNX_GRAPH_OUTPUT, "on_out");
    put_port(&body, ONNX_GRAPH_OUTPUT, "twice");
    put_port(&body, ONNX_GRAPH_OUTPUT, "twice");
    return body;
}

/* count < 0: no number of steps; condition < 0: none, 2: an input. */
static void write_loop(build_t *self, int64_t count, int condition, bool has_condition)
{
    static const float start = 3;
    uint8_t on = condition == 1;
    char inputs[64];
    snprintf(inputs, sizeof inputs, "%s,%s,start", count >= 0 ? "count" : "", condition >= 0 ? "cond" : "");
    onnx_bytes_t node = onnx_node("Loop", inputs, "v,vs", ""), body = loop_body(has_condition);
    onnx_node_add_graph(&node, "body", &body);
    onnx_writer_init(&self->writer, 8, 17);
    put_number(&self->writer.graph, "start", ONNX_FLOAT, &start, sizeof start);
    put_number(&self->writer.graph, "count", ONNX_INT64, &count, sizeof count);
    if (condition == 2) {
        onnx_writer_input(&self->writer, "cond", ONNX_BOOL, "");
    } else {
        put_number(&self->writer.graph, "cond", ONNX_BOOL, &on, 1);
    }
    onnx_put_message(&self->writer.graph, ONNX_GRAPH_NODE, &node);
    onnx_writer_output(&self->writer, "v", ONNX_FLOAT, NULL);
    onnx_writer_output(&self->writer, "vs", ONNX_FLOAT, NULL);
}

static void a_loop_is_unrolled(void **state)
{
    (void)state;
    static const double after_three[] = {24}, three[] = {6, 12, 24}, after_two[] = {12}, two[] = {6, 12};
    build_t self;
    for (int condition = -1; condition < 2; condition += 2) { /* none, or true */
        write_loop(&self, 3, condition, false);
        build_ok(&self, NULL, 0);
        assert_result(&self, 0, "", after_three, 1);
        assert_result(&self, 1, "3", three, 3);
        finish(&self);
        write_loop(&self, -1, condition, true); /* step 0 says go on, step 1 says stop */
        build_ok(&self, NULL, 0);
        assert_result(&self, 0, "", after_two, 1);
        assert_result(&self, 1, "2", two, 2);
        finish(&self);
    }
    write_loop(&self, 3, 2, false);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_UNSUPPORTED, "condition depends on run-time values",
                   "fix the value");
    write_loop(&self, 3, 0, false);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_UNSUPPORTED, "no steps", "");
    write_loop(&self, -1, 1, false);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_LIMIT, "65536 nodes", "");
    write_loop(&self, INT64_MAX, 1, false);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_LIMIT, "65536 nodes", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_condition_takes_its_branch),
        cmocka_unit_test(an_unknown_condition_selects),
        cmocka_unit_test(a_scan_is_unrolled),
        cmocka_unit_test(a_loop_is_unrolled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
