/* SPDX-License-Identifier: Apache-2.0 */
/* From model to graph: shapes of inputs, names, constants, functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- Shapes of inputs ---- */

static void two_inputs(build_t *self)
{
    onnx_writer_init(&self->writer, 8, 17);
    onnx_writer_input(&self->writer, "image", ONNX_FLOAT, "n,3,h,?");
    onnx_writer_input(&self->writer, "scale", ONNX_FLOAT, "n,1,h,1");
    onnx_writer_node(&self->writer, "Mul", "image,scale", "y", "");
    onnx_writer_output(&self->writer, "y", ONNX_FLOAT, NULL);
}

static void equal_symbols_are_equal_sizes(void **state)
{
    (void)state;
    static const int64_t image[] = {2, 3, 8, 5}, scale[] = {2, 1, 9, 1};
    build_t self;
    two_inputs(&self);
    build_ok(&self, &(wf_onnx_binding_t){.name = "image", .dims = image, .rank = 4}, 1);
    assert_graph(&self, "  input %image: f32[2,3,8,5]\n  input %scale: f32[2,1,8,1]\n"
                        "  %y = Mul(%image, %scale) ; f32[2,3,8,5]\n  output %y\n");
    finish(&self);
    two_inputs(&self);
    assert_failure(&self,
                   (wf_onnx_binding_t[]){{.name = "image", .dims = image, .rank = 4},
                                         {.name = "scale", .dims = scale, .rank = 4}},
                   2, WF_CODE_INPUT_MISMATCH, "dim h is 8 in input image, but 9 in input scale", "");
}

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 4, 8, 5};
    wf_onnx_binding_t binding = {.name = "image", .dims = dims, .rank = 4};
    build_t self;
    two_inputs(&self);
    assert_failure(&self, NULL, 0, WF_CODE_SHAPE_NEEDED, "image",
                   "--shape image=1x3x<h>x<dim3> --shape scale=1x1x<h>x1");
    two_inputs(&self);
    assert_failure(&self, &binding, 1, WF_CODE_INPUT_MISMATCH,
                   "dim 1 of input image is 3 in the model, but 4", "");
    binding.rank = 3;
    two_inputs(&self);
    assert_failure(&self, &binding, 1, WF_CODE_INPUT_MISMATCH, "4 dims, but 3", "");
    binding.name = "imaeg";
    two_inputs(&self);
    assert_failure(&self, &binding, 1, WF_CODE_USAGE, "imaeg", "image");
    binding.name = "scale";
    two_inputs(&self);
    assert_failure(&self, (wf_onnx_binding_t[]){binding, binding}, 2, WF_CODE_USAGE, "two shapes", "");
}

static void a_rank_that_is_not_known_is_asked_for(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 0};
    build_t self;
    for (int given = 0; given < 2; given++) {
        onnx_writer_init(&self.writer, 8, 17);
        onnx_writer_input(&self.writer, "x", ONNX_FLOAT, NULL);
        onnx_writer_node(&self.writer, "Relu", "x", "y", "");
        onnx_writer_output(&self.writer, "y", ONNX_FLOAT, NULL);
        if (given == 0) {
            assert_failure(&self, NULL, 0, WF_CODE_SHAPE_NEEDED, "x", "--shape x=<dims>");
        } else {
            build_ok(&self, &(wf_onnx_binding_t){.name = "x", .dims = dims, .rank = 2}, 1);
            assert_graph(&self, "  input %x: f32[2,0]\n  %y = Relu(%x) ; f32[2,0]\n  output %y\n");
            finish(&self);
        }
    }
}

/* The value decides a shape; the input stays. */
static void a_fixed_input_stays_an_input(void **state)
{
    (void)state;
    int64_t values[2] = {3, 2};
    wf_tensor_t value = {{WF_DTYPE_I64, 1, {2}}, values};
    wf_onnx_binding_t binding = {.name = "shape", .value = &value};
    build_t self;
    for (int fixed = 0; fixed < 2; fixed++) {
        onnx_writer_init(&self.writer, 8, 17);
        onnx_writer_input(&self.writer, "x", ONNX_FLOAT, "2,3");
        onnx_writer_input(&self.writer, "shape", ONNX_INT64, "2");
        onnx_writer_node(&self.writer, "Reshape", "x,shape", "y", "");
        onnx_writer_output(&self.writer, "y", ONNX_FLOAT, NULL);
        build_ok(&self, &binding, (size_t)fixed);
        assert_graph(
            &self, fixed ? "  input %x: f32[2,3]\n  input %shape: i64[2]\n  const %shape~2: i64[2] = {3, 2}\n"
                           "  %y = Reshape(%x, %shape~2) ; f32[3,2]\n  output %y\n"
                         : "  input %x: f32[2,3]\n  input %shape: i64[2]\n"
                           "  %y = Reshape(%x, %shape)\n  output %y\n");
        finish(&self);
    }
    value.type.dtype = WF_DTYPE_F64;
    two_inputs(&self);
    binding.name = "scale";
    assert_failure(&self, &binding, 1, WF_CODE_INPUT_MISMATCH, "f32, but its fixed value is f64", "");
}

/* ---- Constants ---- */

/* x.reshape(x.shape[0], -1), as exporters write it. */
static void shapes_that_are_computed_from_shapes_are_known(void **state)
{
    (void)state;
    static const int64_t zero = 0, minus_one = -1;
    build_t self;
    onnx_writer_init(&self.writer, 8, 17);
    onnx_writer_input(&self.writer, "x", ONNX_FLOAT, "2,3,4");
    onnx_writer_ints(&self.writer, "zero", "", &zero, 1);
    onnx_writer_ints(&self.writer, "rest", "1", &minus_one, 1);
    onnx_writer_ints(&self.writer, "axis", "1", &zero, 1);
    onnx_writer_node(&self.writer, "Shape", "x", "s", "");
    onnx_writer_node(&self.writer, "Gather", "s,zero", "n", "");
    onnx_writer_node(&self.writer, "Unsqueeze", "n,axis", "n1", "");
    onnx_writer_node(&self.writer, "Concat", "n1,rest", "dims", "axis:i=0");
    onnx_writer_node(&self.writer, "Reshape", "x,dims", "y", "");
    onnx_writer_output(&self.writer, "y", ONNX_FLOAT, NULL);
    build_ok(&self, NULL, 0);
    assert_int_equal(self.graph->order.count, 1);
    const wf_value_t *y = wf_graph_value(self.graph, self.graph->outputs.items[0]);
    assert_true(y->type_known);
    assert_int_equal(y->type.rank, 2);
    assert_int_equal(y->type.dims[0], 2);
    assert_int_equal(y->type.dims[1], 12);
    finish(&self);
}

static void initializers_that_are_listed_as_inputs_are_constants(void **state)
{
    (void)state;
    static const float weights[3] = {1, 2, 3};
    for (int version = 3; version <= 4; version++) {
        build_t self;
        onnx_writer_init(&self.writer, version, 7);
        onnx_writer_input(&self.writer, "w", ONNX_FLOAT, "3");
        onnx_writer_input(&self.writer, "x", ONNX_FLOAT, "3");
        onnx_writer_floats(&self.writer, "w", "3", weights, 3);
        onnx_writer_node(&self.writer, "Add", "x,w", "y", "");
        onnx_writer_output(&self.writer, "y", ONNX_FLOAT, "3");
        build_ok(&self, NULL, 0);
        assert_graph(&self, "  input %x: f32[3]\n  const %w: f32[3] = {1, 2, 3}\n"
                            "  %y = Add(%x, %w) ; f32[3]\n  output %y\n");
        finish(&self);
    }
}

/* ---- Outputs ---- */

static void outputs_may_be_inputs_constants_and_the_same_value(void **state)
{
    (void)state;
    static const float weights[2] = {1, 2};
    build_t self;
    onnx_writer_init(&self.writer, 8, 17);
    onnx_writer_input(&self.writer, "x", ONNX_FLOAT, "2");
    onnx_writer_floats(&self.writer, "w", "2", weights, 2);
    onnx_writer_node(&self.writer, "Neg", "w", "folded", "");
    onnx_writer_node(&self.writer, "Add", "x,folded", "sum", "");
    onnx_writer_node(&self.writer, "Dropout", "sum", "a", "");
    onnx_writer_output(&self.writer, "x", ONNX_FLOAT, "2");
    onnx_writer_output(&self.writer, "w", ONNX_FLOAT, "2");
    onnx_writer_output(&self.writer, "folded", ONNX_FLOAT, "2");
    onnx_writer_output(&self.writer, "a", ONNX_FLOAT, "2");
    onnx_writer_output(&self.writer, "sum", ONNX_FLOAT, "2");
    build_ok(&self, NULL, 0);
    static const char *const names[] = {"x", "w", "folded", "a", "sum"};
    assert_int_equal(self.graph->outputs.count, 5);
    for (size_t i = 0; i < 5; i++) {
        const wf_value_t *output = wf_graph_value(self.graph, self.graph->outputs.items[i]);
        assert_string_equal(output->name, names[i]);
        assert_int_equal(output->is_input, i == 0);
        assert_int_equal(output->producer == WF_NO_NODE, i == 0); /* constants are copied by a node */
    }
    finish(&self);
}

/* ---- Order and names ---- */

static void nodes_may_come_in_any_order(void **state)
{
    (void)state;
    build_t self;
    onnx_writer_init(&self.writer, 8, 17);
    onnx_writer_input(&self.writer, "x", ONNX_FLOAT, "2");
    onnx_writer_node(&self.writer, "Add", "b,c", "y", "");
    onnx_writer_node(&self.writer, "Neg", "a", "c", "");
    onnx_writer_node(&self.writer, "Abs", "a", "b", "");
    onnx_writer_node(&self.writer, "Relu", "x", "a", "");
    onnx_writer_output(&self.writer, "y", ONNX_FLOAT, "2");
    build_ok(&self, NULL, 0);
    assert_graph(&self, "  input %x: f32[2]\n  %a = Relu(%x) ; f32[2]\n  %b = Abs(%a) ; f32[2]\n"
                        "  %c = Neg(%a) ; f32[2]\n  %y = Add(%b, %c) ; f32[2]\n  output %y\n");
    finish(&self);
}

/* Random orders of a random graph give a graph with the same nodes. */
static void shuffled_nodes_are_sorted(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    for (unsigned round = 0; round < 30; round++) {
        build_t self;
        unsigned random = round * 2654435761u + 1;
        unsigned place[COUNT];
        onnx_writer_init(&self.writer, 8, 17);
        onnx_writer_input(&self.writer, "v0", ONNX_FLOAT, "2");
        for (unsigned i = 0; i < COUNT; i++) {
            place[i] = i + 1;
        }
        for (unsigned i = COUNT - 1; i > 0; i--) {
            random = random * 1664525u + 1013904223u;
            unsigned k = (random >> 16) % (i + 1), kept = place[i];
            place[i] = place[k];
            place[k] = kept;
        }
        for (unsigned i = 0; i < COUNT; i++) {
            char inputs[64], output[16];
            random = random * 1664525u + 1013904223u;
            snprintf(inputs, sizeof inputs, "v%u,v%u", place[i] - 1, (random >> 16) % place[i]);
            snprintf(output, sizeof output, "v%u", place[i]);
            onnx_writer_node(&self.writer, "Add", inputs, output, "");
        }
        onnx_writer_output(&self.writer, "v40", ONNX_FLOAT, "2");
        build_ok(&self, NULL, 0); /* verified: every node after what it reads */
        assert_int_equal(self.graph->order.count, COUNT);
        finish(&self);
    }
}

/* Values keep their names, whatever bytes they have. */
static void names_are_kept(void **state)
{
    (void)state;
    build_t self;
    onnx_writer_init(&self.writer, 8, 17);
    onnx_writer_input(&self.writer, "input:0", ONNX_FLOAT, "2");
    onnx_writer_node(&self.writer, "Relu", "input:0", "layer/\xc3\xa9\"t\xc3\xa9\" 1", "");
    onnx_writer_node(&self.writer, "Neg", "layer/\xc3\xa9\"t\xc3\xa9\" 1", "y", "");
    onnx_writer_output(&self.writer, "y", ONNX_FLOAT, "2");
    build_ok(&self, NULL, 0);
    const wf_node_t *relu = wf_graph_node(self.graph, self.graph->order.items[0]);
    assert_string_equal(wf_graph_value(self.graph, relu->outputs[0])->name, "layer/\xc3\xa9\"t\xc3\xa9\" 1");
    assert_string_equal(relu->onnx_names, "layer/\xc3\xa9\"t\xc3\xa9\" 1");
    finish(&self);
}

/* ---- Functions ---- */

static void put_opset(onnx_bytes_t *function, const char *domain, int version)
{
    onnx_bytes_t opset = {0};
    onnx_put_text(&opset, 1, domain);
    onnx_put_int(&opset, 2, version);
    onnx_put_message(function, 9, &opset);
}

static void put_node(onnx_bytes_t *function, const char *op, const char *inputs, const char *outputs,
                     const char *attrs)
{
    onnx_bytes_t node = onnx_node(op, inputs, outputs, attrs);
    onnx_put_message(function, 7, &node);
}

/* Inner(a; axis) = Softmax(a, axis); Outer(p, q; dim) = Inner(p + q, dim), p */
static void put_functions(onnx_writer_t *writer)
{
    onnx_bytes_t inner = {0}, outer = {0}, fallback = {0};
    onnx_put_text(&inner, 1, "Inner");
    onnx_put_text(&inner, 4, "a");
    onnx_put_text(&inner, 5, "b");
    onnx_put_text(&fallback, 1, "axis");
    onnx_put_int(&fallback, 3, 1);
    onnx_put_int(&fallback, 20, 2);
    onnx_put_message(&inner, 11, &fallback);
    put_node(&inner, "Softmax", "a", "t", "axis:r=axis");
    put_node(&inner, "Neg", "t", "b", "");
    put_opset(&inner, "", 17);
    onnx_put_text(&inner, 10, "local");
    onnx_put_message(&writer->rest, 25, &inner);
    onnx_put_text(&outer, 1, "Outer");
    onnx_put_text(&outer, 4, "p");
    onnx_put_text(&outer, 4, "q");
    onnx_put_text(&outer, 5, "r");
    onnx_put_text(&outer, 5, "p");
    onnx_put_text(&outer, 6, "dim");
    put_node(&outer, "Add", "p,q", "t", "");
    put_node(&outer, "local:Inner", "t", "r", "axis:r=dim");
    put_opset(&outer, "", 17);
    put_opset(&outer, "local", 1);
    onnx_put_text(&outer, 10, "local");
    onnx_put_message(&writer->rest, 25, &outer);
    onnx_writer_import(writer, "local", 1);
}

static void functions_are_inlined(void **state)
{
    (void)state;
    build_t self;
    onnx_writer_init(&self.writer, 8, 17);
    put_functions(&self.writer);
    onnx_writer_input(&self.writer, "x", ONNX_FLOAT, "2,3,4");
    onnx_writer_node(&self.writer, "local:Outer", "x,x", "u,v", "dim:i=0");
    onnx_writer_node(&self.writer, "local:Outer", "u,v", "y,", ""); /* takes Inner's default */
    onnx_writer_output(&self.writer, "y", ONNX_FLOAT, NULL);
    build_ok(&self, NULL, 0);
    assert_graph(&self, "  input %x: f32[2,3,4]\n"
                        "  %u/t = Add(%x, %x) ; f32[2,3,4]\n"
                        "  %u/t~2 = Softmax(%u/t) {axis=0} ; f32[2,3,4]\n"
                        "  %u = Neg(%u/t~2) ; f32[2,3,4]\n"
                        "  %y/t = Add(%u, %x) ; f32[2,3,4]\n"
                        "  %y/t~2 = Softmax(%y/t) {axis=1} ; f32[2,3,4]\n"
                        "  %y = Neg(%y/t~2) ; f32[2,3,4]\n  output %y\n");
    finish(&self);
}

/* 31 functions that each call the next one twice would be 2^31 nodes. */
static void inlining_is_bounded(void **state)
{
    (void)state;
    build_t self;
    onnx_writer_init(&self.writer, 8, 17);
    for (int i = 0; i < 31; i++) {
        onnx_bytes_t function = {0};
        char name[16], callee[32];
        snprintf(name, sizeof name, "F%d", i);
        snprintf(callee, sizeof callee, "local:F%d", i + 1);
        onnx_put_text(&function, 1, name);
        onnx_put_text(&function, 4, "a");
        onnx_put_text(&function, 5, "c");
        put_node(&function, i < 30 ? callee : "Neg", "a", "b", "");
        put_node(&function, i < 30 ? callee : "Neg", "b", "c", "");
        put_opset(&function, "", 17);
        put_opset(&function, "local", 1);
        onnx_put_text(&function, 10, "local");
        onnx_put_message(&self.writer.rest, 25, &function);
    }
    onnx_writer_import(&self.writer, "local", 1);
    onnx_writer_input(&self.writer, "x", ONNX_FLOAT, "2");
    onnx_writer_node(&self.writer, "local:F0", "x", "y", "");
    onnx_writer_output(&self.writer, "y", ONNX_FLOAT, NULL);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_LIMIT, "nodes, functions inlined", "");
}

/* ---- Failures ---- */

static void failures_name_the_node(void **state)
{
    (void)state;
    build_t self;
    onnx_writer_init(&self.writer, 8, 12);
    onnx_writer_input(&self.writer, "x", ONNX_FLOAT, "2,3");
    onnx_writer_node(&self.writer, "Relu", "x", "a", "");
    onnx_writer_node(&self.writer, "MatMul", "a,a", "product", "");
    onnx_writer_output(&self.writer, "product", ONNX_FLOAT, NULL);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_INVALID, "node product (MatMul)", "");
    onnx_writer_init(&self.writer, 8, 12);
    onnx_writer_input(&self.writer, "x", ONNX_FLOAT, "2,3");
    onnx_writer_node(&self.writer, "Softmax", "x", "soft", "axis:i=5");
    onnx_writer_output(&self.writer, "soft", ONNX_FLOAT, NULL);
    assert_failure(&self, NULL, 0, WF_CODE_MODEL_INVALID, "node soft (Softmax, operator set 12)", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_symbols_are_equal_sizes),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(a_rank_that_is_not_known_is_asked_for),
        cmocka_unit_test(a_fixed_input_stays_an_input),
        cmocka_unit_test(shapes_that_are_computed_from_shapes_are_known),
        cmocka_unit_test(initializers_that_are_listed_as_inputs_are_constants),
        cmocka_unit_test(outputs_may_be_inputs_constants_and_the_same_value),
        cmocka_unit_test(nodes_may_come_in_any_order),
        cmocka_unit_test(shuffled_nodes_are_sorted),
        cmocka_unit_test(names_are_kept),
        cmocka_unit_test(functions_are_inlined),
        cmocka_unit_test(inlining_is_bounded),
        cmocka_unit_test(failures_name_the_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
