/* SPDX-License-Identifier: Apache-2.0 */
/* Opening models: summary, list of problems, tensors' data, external data, hash, tensor files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "onnx/onnx.h"
#include "onnx/tensor.h"
#include "onnx/wire.h"
#include "support/cmocka_all.h"
#include "support/onnx_writer.h"
#include "support/temp_folder.h"

static wf_onnx_model_t *open_writer(onnx_writer_t *writer)
{
    wf_onnx_model_t *model;
    const onnx_bytes_t *file = onnx_writer_finish(writer);
    wf_assert_ok(wf_onnx_open_bytes(file->data, file->bytes, wf_allocator_system(), &model));
    return model;
}

/* ---- Summary ---- */

static void the_summary_says_what_is_in_the_file(void **state)
{
    (void)state;
    onnx_writer_t writer;
    float weights[6] = {0};
    onnx_writer_init(&writer, 8, 17);
    onnx_writer_import(&writer, "com.microsoft", 1);
    onnx_put_text(&writer.rest, 2, "pytorch");
    onnx_put_text(&writer.rest, 3, "2.1");
    onnx_writer_input(&writer, "x", ONNX_FLOAT, "batch,3,?,0,-5");
    onnx_writer_input(&writer, "w", ONNX_FLOAT, "2,3"); /* also an initializer */
    onnx_writer_input(&writer, "anything", ONNX_INT64, NULL);
    onnx_writer_floats(&writer, "w", "2,3", weights, 6);
    onnx_writer_node(&writer, "Relu", "x", "a", "");
    onnx_writer_node(&writer, "Neg", "a", "b", "");
    onnx_writer_node(&writer, "com.microsoft:Gelu", "b", "c", "");
    onnx_writer_node(&writer, "Relu", "c", "y", "");
    onnx_writer_output(&writer, "y", ONNX_FLOAT, "batch,3");
    wf_onnx_model_t *model = open_writer(&writer);
    const wf_onnx_summary_t *summary = wf_onnx_summary(model);
    assert_int_equal(wf_onnx_problem_count(model), 0);
    assert_int_equal(summary->ir_version, 8);
    assert_string_equal(summary->producer, "pytorch 2.1");
    assert_string_equal(summary->opsets, "ai.onnx 17, com.microsoft 1");
    assert_int_equal(summary->node_count, 4);
    assert_int_equal(summary->initializer_count, 1);
    assert_int_equal(summary->initializer_bytes, 24);
    assert_int_equal(summary->op_kind_count, 3);
    assert_string_equal(summary->op_names[0], "Relu");
    assert_int_equal(summary->op_counts[0], 2);
    assert_string_equal(summary->op_names[1], "Neg");
    assert_string_equal(summary->op_names[2], "com.microsoft.Gelu");
    assert_int_equal(summary->input_count, 2);
    const wf_port_t *x = &summary->inputs[0];
    assert_string_equal(x->name, "x");
    assert_int_equal(x->dtype, WF_DTYPE_F32);
    assert_true(x->rank_known);
    assert_int_equal(x->rank, 5);
    assert_string_equal(x->dims[0].symbol, "batch");
    assert_int_equal(x->dims[0].size, -1);
    assert_int_equal(x->dims[1].size, 3);
    for (int i = 2; i < 5; i++) { /* "?", zero and negative sizes say nothing */
        assert_int_equal(x->dims[i].size, -1);
        assert_null(x->dims[i].symbol);
    }
    assert_false(summary->inputs[1].rank_known);
    assert_int_equal(summary->output_count, 1);
    assert_int_equal(summary->outputs[0].rank, 2);
    wf_onnx_close(model);
    onnx_writer_deinit(&writer);
}

/* ---- Problems ---- */

typedef void build_fn(onnx_writer_t *writer);

/* What most of the models below begin with. */
static void one_node(onnx_writer_t *writer, const char *op, const char *inputs, const char *outputs,
                     const char *attrs)
{
    onnx_writer_input(writer, "x", ONNX_FLOAT, "2,3");
    onnx_writer_node(writer, op, inputs, outputs, attrs);
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
}

static void unknown_operator(onnx_writer_t *writer)
{
    one_node(writer, "Reluu", "x", "y", "");
}
static void unknown_domain(onnx_writer_t *writer)
{
    onnx_writer_import(writer, "org.example", 3);
    one_node(writer, "org.example:Thing", "x", "y", "");
}
static void domain_not_imported(onnx_writer_t *writer)
{
    one_node(writer, "com.microsoft:Gelu", "x", "y", "");
}
static void data_dependent(onnx_writer_t *writer)
{
    one_node(writer, "NonZero", "x", "y", "");
}
static void unknown_attribute(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "y", "slope:f=0.5");
}
static void wrong_attribute_kind(onnx_writer_t *writer)
{
    one_node(writer, "Transpose", "x", "y", "perm:s=two");
}
static void attribute_twice(onnx_writer_t *writer)
{
    one_node(writer, "LeakyRelu", "x", "y", "alpha:f=1 alpha:f=2");
}
static void missing_attribute(onnx_writer_t *writer)
{
    one_node(writer, "Concat", "x", "y", "");
}
static void missing_input(onnx_writer_t *writer)
{
    one_node(writer, "Add", "x", "y", "");
}
static void absent_input(onnx_writer_t *writer)
{
    one_node(writer, "Add", ",x", "y", "");
}
static void too_many_inputs(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x,x", "y", "");
}
static void undefined_input(onnx_writer_t *writer)
{
    one_node(writer, "Add", "x,nowhere", "y", "");
}
static void undefined_output(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "z", "");
}
static void output_twice(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "y", "");
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
}
static void made_twice(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "y", "");
    onnx_writer_node(writer, "Neg", "x", "y", "");
}
static void made_over_an_input(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "x", "");
    onnx_writer_node(writer, "Neg", "x", "y", "");
}
static void cycle(onnx_writer_t *writer)
{
    one_node(writer, "Add", "x,b", "a", "");
    onnx_writer_node(writer, "Neg", "a", "b", "");
    onnx_writer_node(writer, "Abs", "a", "y", "");
}
static void own_output(onnx_writer_t *writer)
{
    one_node(writer, "Add", "x,y", "y", "");
}
static void input_twice(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "y", "");
    onnx_writer_input(writer, "x", ONNX_FLOAT, "2,3");
}
static void nameless_input(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "y", "");
    onnx_writer_input(writer, "", ONNX_FLOAT, "2,3");
}
static void name_not_text(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "y", "");
    onnx_writer_input(writer, "a\xff", ONNX_FLOAT, "2,3");
}
static void no_outputs(onnx_writer_t *writer)
{
    onnx_writer_input(writer, "x", ONNX_FLOAT, "2,3");
}
static void input_type_unknown(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "y", "");
    onnx_writer_input(writer, "q", 99, "2");
}
static void input_of_strings(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "y", "");
    onnx_writer_input(writer, "q", ONNX_STRING, "2");
}
static void input_is_a_sequence(onnx_writer_t *writer)
{
    onnx_bytes_t type = {0}, sequence = {0}, value = {0};
    one_node(writer, "Relu", "x", "y", "");
    onnx_put_message(&type, 4, &sequence);
    onnx_put_text(&value, 1, "q");
    onnx_put_message(&value, 2, &type);
    onnx_put_message(&writer->graph, ONNX_GRAPH_INPUT, &value);
}
static void output_is_a_sequence(onnx_writer_t *writer)
{
    onnx_bytes_t type = {0}, sequence = {0}, value = {0};
    onnx_writer_input(writer, "x", ONNX_FLOAT, "2,3");
    onnx_writer_node(writer, "Relu", "x", "y", "");
    onnx_put_message(&type, 4, &sequence);
    onnx_put_text(&value, 1, "y");
    onnx_put_message(&value, 2, &type);
    onnx_put_message(&writer->graph, ONNX_GRAPH_OUTPUT, &value);
}
static void input_rank_9(onnx_writer_t *writer)
{
    one_node(writer, "Relu", "x", "y", "");
    onnx_writer_input(writer, "q", ONNX_FLOAT, "1,1,1,1,1,1,1,1,1");
}
static void add_initializer(onnx_writer_t *writer, onnx_bytes_t tensor)
{
    one_node(writer, "Add", "x,w", "y", "");
    onnx_put_message(&writer->graph, ONNX_GRAPH_INITIALIZER, &tensor);
}
static void weights_short(onnx_writer_t *writer)
{
    add_initializer(writer, onnx_raw_tensor("w", ONNX_FLOAT, "3", "0123456789", 10));
}
static void weights_missing(onnx_writer_t *writer)
{
    add_initializer(writer, onnx_tensor("w", ONNX_FLOAT, "3"));
}
static void weights_overflow(onnx_writer_t *writer)
{
    add_initializer(writer, onnx_raw_tensor("w", ONNX_FLOAT, "4294967296,4294967296", "", 0));
}
static void weights_bytes_overflow(onnx_writer_t *writer)
{
    add_initializer(writer, onnx_raw_tensor("w", ONNX_FLOAT, "4611686018427387904", "", 0));
}
static void weights_negative(onnx_writer_t *writer)
{
    add_initializer(writer, onnx_raw_tensor("w", ONNX_FLOAT, "-1", "", 0));
}
static void weights_type(onnx_writer_t *writer)
{
    add_initializer(writer, onnx_raw_tensor("w", 99, "1", "0123", 4));
}
static void weights_rank(onnx_writer_t *writer)
{
    add_initializer(writer, onnx_raw_tensor("w", ONNX_FLOAT, "1,1,1,1,1,1,1,1,1", "0123", 4));
}
static void weights_field_short(onnx_writer_t *writer)
{
    onnx_bytes_t tensor = onnx_tensor("w", ONNX_FLOAT, "3");
    onnx_put_float(&tensor, 4, 1);
    onnx_put_float(&tensor, 4, 2);
    add_initializer(writer, tensor);
}
static void weights_field_long(onnx_writer_t *writer)
{
    onnx_bytes_t tensor = onnx_tensor("w", ONNX_INT64, "1");
    onnx_put_int(&tensor, 7, 1);
    onnx_put_int(&tensor, 7, 2);
    add_initializer(writer, tensor);
}
static void weights_twice(onnx_writer_t *writer)
{
    onnx_bytes_t again = onnx_raw_tensor("w", ONNX_FLOAT, "1", "0123", 4);
    add_initializer(writer, onnx_raw_tensor("w", ONNX_FLOAT, "1", "0123", 4));
    onnx_put_message(&writer->graph, ONNX_GRAPH_INITIALIZER, &again);
}
static void weights_elsewhere(onnx_writer_t *writer)
{
    onnx_bytes_t tensor = onnx_tensor("w", ONNX_FLOAT, "1"), entry = {0};
    onnx_put_text(&entry, 1, "location");
    onnx_put_text(&entry, 2, "w.bin");
    onnx_put_message(&tensor, 13, &entry);
    onnx_put_int(&tensor, 14, 1);
    add_initializer(writer, tensor);
}
static void constant_short(onnx_writer_t *writer)
{
    onnx_bytes_t tensor = onnx_raw_tensor("", ONNX_FLOAT, "2", "0123", 4);
    onnx_bytes_t node = onnx_node("Constant", "", "y", "");
    onnx_node_add_tensor(&node, "value", &tensor);
    onnx_put_message(&writer->graph, ONNX_GRAPH_NODE, &node);
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
}
static void too_many_numbers(onnx_writer_t *writer)
{
    onnx_bytes_t node = onnx_node("Conv", "x,x", "y", ""), attr = {0}, numbers = {0};
    for (int i = 0; i < 1048577; i++) {
        onnx_put_varint(&numbers, 1);
    }
    onnx_put_text(&attr, 1, "pads");
    onnx_put_message(&attr, 8, &numbers);
    onnx_put_int(&attr, 20, 7);
    onnx_put_message(&node, 5, &attr);
    onnx_writer_input(writer, "x", ONNX_FLOAT, "1,1,3,3");
    onnx_put_message(&writer->graph, ONNX_GRAPH_NODE, &node);
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
}
static void put_function(onnx_writer_t *writer, const char *name, const char *calls)
{
    onnx_bytes_t function = {0}, opset = {0}, node = onnx_node(calls, "a", "b", "");
    onnx_put_text(&opset, 1, "local");
    onnx_put_int(&opset, 2, 1);
    onnx_put_text(&function, 1, name);
    onnx_put_text(&function, 4, "a");
    onnx_put_text(&function, 5, "b");
    onnx_put_message(&function, 7, &node);
    onnx_put_message(&function, 9, &opset);
    opset = (onnx_bytes_t){0};
    onnx_put_int(&opset, 2, 17);
    onnx_put_message(&function, 9, &opset);
    onnx_put_text(&function, 10, "local");
    onnx_put_message(&writer->rest, 25, &function);
}
static void function_calls_itself(onnx_writer_t *writer)
{
    onnx_writer_import(writer, "local", 1);
    put_function(writer, "F", "local:G");
    put_function(writer, "G", "local:F");
    one_node(writer, "local:F", "x", "y", "");
}
static void function_twice(onnx_writer_t *writer)
{
    onnx_writer_import(writer, "local", 1);
    put_function(writer, "F", "Relu");
    put_function(writer, "F", "Neg");
    one_node(writer, "local:F", "x", "y", "");
}
static void bad_node_in_a_function(onnx_writer_t *writer)
{
    onnx_writer_import(writer, "local", 1);
    put_function(writer, "F", "NonZero");
    one_node(writer, "local:F", "x", "y", "");
}

static void problems_are_listed(void **state)
{
    (void)state;
    static const struct {
        build_fn *build;
        wf_code_t code;
        const char *node, *word, *hint;
    } rows[] = {
        {unknown_operator, WF_CODE_MODEL_UNSUPPORTED, "y", "Reluu", "Relu"},
        {unknown_domain, WF_CODE_MODEL_UNSUPPORTED, "y", "org.example", "standard operators"},
        {domain_not_imported, WF_CODE_MODEL_INVALID, "y", "not imported", "opset_import"},
        {data_dependent, WF_CODE_MODEL_UNSUPPORTED, "y", "run-time values", ""},
        {unknown_attribute, WF_CODE_MODEL_UNSUPPORTED, "y", "slope", ""},
        {wrong_attribute_kind, WF_CODE_MODEL_INVALID, "y", "perm is a string, not a list of integers", ""},
        {attribute_twice, WF_CODE_MODEL_INVALID, "y", "alpha is given twice", ""},
        {missing_attribute, WF_CODE_MODEL_INVALID, "y", "axis is missing", ""},
        {missing_input, WF_CODE_MODEL_INVALID, "y", "input 1 is missing", ""},
        {absent_input, WF_CODE_MODEL_INVALID, "y", "input 0 is missing", ""},
        {too_many_inputs, WF_CODE_MODEL_INVALID, "y", "2 inputs", ""},
        {undefined_input, WF_CODE_MODEL_INVALID, "y", "nowhere", ""},
        {undefined_output, WF_CODE_MODEL_INVALID, "y", "graph output y is made by nothing", ""},
        {output_twice, WF_CODE_MODEL_INVALID, "y", "listed twice", ""},
        {made_twice, WF_CODE_MODEL_INVALID, "y", "y is made twice", ""},
        {made_over_an_input, WF_CODE_MODEL_INVALID, "x", "x is made twice", ""},
        {cycle, WF_CODE_MODEL_INVALID, "a", "cycle", ""},
        {own_output, WF_CODE_MODEL_INVALID, "y", "cycle", ""},
        {input_twice, WF_CODE_MODEL_INVALID, "x", "x is there twice", ""},
        {nameless_input, WF_CODE_MODEL_INVALID, "", "no name", ""},
        {name_not_text, WF_CODE_MODEL_INVALID, "a?", "not text", ""},
        {no_outputs, WF_CODE_MODEL_INVALID, "", "no outputs", ""},
        {input_type_unknown, WF_CODE_MODEL_UNSUPPORTED, "q", "element type 99", ""},
        {input_of_strings, WF_CODE_MODEL_UNSUPPORTED, "q", "strings", ""},
        {input_is_a_sequence, WF_CODE_MODEL_UNSUPPORTED, "q", "sequence", ""},
        {output_is_a_sequence, WF_CODE_MODEL_UNSUPPORTED, "y", "output y is a sequence", ""},
        {input_rank_9, WF_CODE_MODEL_UNSUPPORTED, "q", "rank 9", ""},
        {weights_short, WF_CODE_MODEL_INVALID, "w", "raw_data has 10 bytes, its type and dims need 12", ""},
        {weights_missing, WF_CODE_MODEL_INVALID, "w", "float_data", ""},
        {weights_overflow, WF_CODE_MODEL_INVALID, "w", "64 bits", ""},
        {weights_bytes_overflow, WF_CODE_MODEL_INVALID, "w", "64 bits", ""},
        {weights_negative, WF_CODE_MODEL_INVALID, "w", "-1", ""},
        {weights_type, WF_CODE_MODEL_UNSUPPORTED, "w", "element type 99", ""},
        {weights_rank, WF_CODE_MODEL_UNSUPPORTED, "w", "rank 9", ""},
        {weights_field_short, WF_CODE_MODEL_INVALID, "w", "float_data has 8 bytes", ""},
        {weights_field_long, WF_CODE_MODEL_INVALID, "w", "int64_data has 16 bytes", ""},
        {weights_twice, WF_CODE_MODEL_INVALID, "w", "there twice", ""},
        {weights_elsewhere, WF_CODE_EXTERNAL_DATA, "w", "w.bin", ""},
        {constant_short, WF_CODE_MODEL_INVALID, "y", "raw_data has 4 bytes", ""},
        {too_many_numbers, WF_CODE_MODEL_LIMIT, "y", "pads", ""},
        {function_calls_itself, WF_CODE_MODEL_INVALID, "function G: b", "calls itself", ""},
        {function_twice, WF_CODE_MODEL_INVALID, "F", "defined twice", ""},
        {bad_node_in_a_function, WF_CODE_MODEL_UNSUPPORTED, "function F: b", "run-time values", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        onnx_writer_t writer;
        onnx_writer_init(&writer, 8, 17);
        rows[i].build(&writer);
        wf_onnx_model_t *model = open_writer(&writer);
        const wf_onnx_problem_t *problem = wf_onnx_problem(model, 0);
        if (wf_onnx_problem_count(model) != 1) {
            fail_msg("row %zu: %zu problems, second: %s", i, wf_onnx_problem_count(model),
                     wf_onnx_problem_count(model) > 1 ? wf_onnx_problem(model, 1)->reason : "");
        }
        if (problem->code != rows[i].code || strcmp(problem->node, rows[i].node) != 0 ||
            strstr(problem->reason, rows[i].word) == NULL || strstr(problem->hint, rows[i].hint) == NULL) {
            fail_msg("row %zu: WF-%04d [%s] %s | %s", i, (int)problem->code, problem->node, problem->reason,
                     problem->hint);
        }
        /* Building says the same, and nothing else. */
        wf_graph_t *graph;
        wf_status_t status = wf_onnx_to_graph(model, NULL, 0, wf_allocator_system(), &graph);
        assert_int_equal(wf_status_code(status), rows[i].code);
        assert_non_null(strstr(wf_status_message(status), rows[i].word));
        assert_null(graph);
        wf_status_free(status);
        wf_onnx_close(model);
        onnx_writer_deinit(&writer);
    }
}

static void all_problems_are_found_at_once(void **state)
{
    (void)state;
    onnx_writer_t writer;
    onnx_writer_init(&writer, 8, 17);
    onnx_writer_input(&writer, "x", ONNX_FLOAT, "2,3");
    onnx_writer_node(&writer, "NonZero", "x", "a", "");
    onnx_writer_node(&writer, "Frobnicate", "a", "b", "");
    onnx_writer_node(&writer, "Relu", "gone", "c", "");
    onnx_writer_node(&writer, "Add", "b,c", "y", "");
    onnx_writer_output(&writer, "y", ONNX_FLOAT, NULL);
    wf_onnx_model_t *model = open_writer(&writer);
    assert_int_equal(wf_onnx_problem_count(model), 3);
    assert_string_equal(wf_onnx_problem(model, 1)->op, "NonZero");
    assert_int_equal(wf_onnx_problem(model, 1)->opset, 17);
    assert_null(wf_onnx_problem(model, 3));
    wf_graph_t *graph;
    wf_status_t status = wf_onnx_to_graph(model, NULL, 0, wf_allocator_system(), &graph);
    assert_non_null(strstr(wf_status_message(status), "3 problems"));
    wf_status_free(status);
    wf_onnx_close(model);
    onnx_writer_deinit(&writer);
}

/* What no output depends on is not compiled, so it does no harm. */
static void dead_nodes_are_no_problem(void **state)
{
    (void)state;
    onnx_writer_t writer;
    wf_graph_t *graph;
    onnx_writer_init(&writer, 8, 17);
    one_node(&writer, "Relu", "x", "y", "");
    onnx_writer_node(&writer, "NonZero", "x", "unused", "");
    onnx_writer_node(&writer, "Frobnicate", "unused", "unused2", "");
    onnx_writer_node(&writer, "Neg", "x", "z", "");
    onnx_writer_output(&writer, "z", 0, NULL); /* nor is an output without a type */
    wf_onnx_model_t *model = open_writer(&writer);
    assert_int_equal(wf_onnx_problem_count(model), 0);
    wf_assert_ok(wf_onnx_to_graph(model, NULL, 0, wf_allocator_system(), &graph));
    assert_int_equal(graph->order.count, 2);
    wf_graph_destroy(graph);
    wf_onnx_close(model);
    onnx_writer_deinit(&writer);
}

static void versions_that_are_too_new_are_refused(void **state)
{
    (void)state;
    static const int versions[][2] = {{8, 29}, {15, 17}, {0, 17}};
    for (size_t i = 0; i < 3; i++) {
        onnx_writer_t writer;
        onnx_writer_init(&writer, versions[i][0], versions[i][1]);
        one_node(&writer, "Relu", "x", "y", "");
        wf_onnx_model_t *model = open_writer(&writer);
        assert_int_equal(wf_onnx_problem_count(model), 1);
        assert_int_equal(wf_onnx_problem(model, 0)->code, WF_CODE_MODEL_UNSUPPORTED);
        assert_non_null(strstr(wf_onnx_problem(model, 0)->reason, i == 0 ? "29" : "ir_version"));
        wf_onnx_close(model);
        onnx_writer_deinit(&writer);
    }
}

static void other_files_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *word;
    } rows[] = {
        {"", 0, "empty"},
        {"version https://git-lfs.github.com/spec/v1\noid", 46, "Git LFS"},
        {"PK\x03\x04\x14\x00\x00", 7, "zip"},
        {"\x1c\x00\x00\x00TFL3\x14\x00", 10, "TensorFlow Lite"},
        {"hello, world", 12, "not an ONNX model"},
        {"\x08\x08", 2, "graph"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_onnx_model_t *model;
        wf_status_t status = wf_onnx_open_bytes(rows[i].bytes, rows[i].count, wf_allocator_system(), &model);
        assert_int_equal(wf_status_code(status), WF_CODE_MODEL_INVALID);
        if (strstr(wf_status_message(status), rows[i].word) == NULL) {
            fail_msg("row %zu: %s", i, wf_status_message(status));
        }
        assert_null(model);
        wf_status_free(status);
    }
}

/* ---- Data of tensors ---- */

/* The same three or four values of every element type, once as raw bytes and once as numbers of a typed
 * field. */
static void typed_fields_and_raw_data_agree(void **state)
{
    (void)state;
    static const struct {
        int type, field;
        const char *dims;
        const char *raw;
        size_t raw_bytes;
        int64_t numbers[4];
        size_t count;
    } rows[] = {
        {ONNX_INT32, 5, "3", "\x01\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x80", 12, {1, -1, INT32_MIN}, 3},
        {ONNX_INT8, 5, "3", "\x01\xff\x80", 3, {1, -1, -128}, 3},
        {ONNX_UINT8, 5, "3", "\x01\xff\x80", 3, {1, 255, 128}, 3},
        {5, 5, "2", "\xff\xff\x00\x80", 4, {-1, -32768}, 2},
        {4, 5, "2", "\xff\xff\x00\x80", 4, {65535, 32768}, 2},
        {ONNX_BOOL, 5, "3", "\x01\x00\x01", 3, {1, 0, 1}, 3},
        {ONNX_FLOAT16, 5, "2", "\x00\x3c\x00\xc0", 4, {0x3c00, 0xc000}, 2},
        {ONNX_BFLOAT16, 5, "2", "\x80\x3f\x00\xc0", 4, {0x3f80, 0xc000}, 2},
        {17, 5, "2", "\x38\xb8", 2, {0x38, 0xb8}, 2},
        {22, 5, "3", "\x21\x0f", 2, {0x21, 0x0f}, 2}, /* i4: two to a byte, low half first */
        {ONNX_INT64, 7, "2", "\xff\xff\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\0\0\0", 16, {-1, 2}, 2},
        {12, 11, "2", "\xff\xff\xff\xff\x02\0\0\0", 8, {4294967295, 2}, 2},
        {13, 11, "2", "\xff\xff\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\0\0\0", 16, {-1, 2}, 2},
        {ONNX_INT64, 7, "0", "", 0, {0}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        onnx_bytes_t raw = onnx_raw_tensor("t", rows[i].type, rows[i].dims, rows[i].raw, rows[i].raw_bytes);
        onnx_bytes_t typed = onnx_tensor("t", rows[i].type, rows[i].dims);
        if (i % 2 == 0) {
            onnx_put_blob(&typed, 9, "", 0); /* some writers leave an empty raw_data */
        }
        for (size_t k = 0; k < rows[i].count; k++) {
            onnx_put_int(&typed, (uint32_t)rows[i].field, rows[i].numbers[k]);
        }
        const onnx_bytes_t *both[2] = {&raw, &typed};
        wf_arena_t arena;
        wf_arena_init(&arena, wf_allocator_system());
        for (size_t k = 0; k < 2; k++) {
            wf_pb_tensor_t tensor = {0};
            wf_type_t type;
            const void *data;
            wf_assert_ok(wf_wire_decode(WF_PB_tensor, (wf_span_t){both[k]->data, both[k]->bytes}, &arena,
                                        1 << 20, &tensor));
            wf_assert_ok(wf_onnx_tensor_type(&tensor, &type));
            wf_assert_ok(wf_onnx_tensor_check(&tensor, &type));
            wf_assert_ok(wf_onnx_tensor_data(&tensor, &type, false, &arena, &data));
            assert_int_equal(wf_type_bytes(&type), rows[i].raw_bytes);
            assert_memory_equal(data, rows[i].raw, rows[i].raw_bytes);
        }
        wf_arena_deinit(&arena);
        onnx_bytes_free(&raw);
        onnx_bytes_free(&typed);
    }
}

/* Data that begins at any byte of the file comes out aligned; aligned data is not copied. */
static void data_is_aligned_whatever_the_file_says(void **state)
{
    (void)state;
    int views = 0, copies = 0;
    for (size_t shift = 0; shift < 8; shift++) {
        double values[3] = {1.25, -2.5, 1e300};
        onnx_bytes_t typed = onnx_tensor("t", ONNX_DOUBLE, "3");
        char name[16] = "";
        memset(name, 'x', shift);
        onnx_put_text(&typed, 12, name); /* doc_string: moves what follows */
        onnx_put_blob(&typed, 10, values, sizeof values);
        wf_pb_tensor_t tensor = {0};
        wf_type_t type;
        wf_arena_t arena;
        const void *data;
        wf_arena_init(&arena, wf_allocator_system());
        wf_assert_ok(
            wf_wire_decode(WF_PB_tensor, (wf_span_t){typed.data, typed.bytes}, &arena, 1 << 20, &tensor));
        wf_assert_ok(wf_onnx_tensor_type(&tensor, &type));
        wf_assert_ok(wf_onnx_tensor_data(&tensor, &type, false, &arena, &data));
        assert_int_equal((uintptr_t)data % 8, 0);
        assert_memory_equal(data, values, sizeof values);
        bool inside = (const uint8_t *)data >= typed.data && (const uint8_t *)data < typed.data + typed.bytes;
        views += inside;
        copies += !inside;
        wf_arena_deinit(&arena);
        onnx_bytes_free(&typed);
    }
    assert_int_equal(views, 1);
    assert_int_equal(copies, 7);
}

/* ---- Files ---- */

static char folder[1024];

static const char *path_of(const char *name)
{
    static char path[1200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    wf_temp_folder_make(folder, sizeof folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    wf_temp_folder_remove(folder);
    return 0;
}

/* A model whose weights (4 floats) are at `offset` of `location`; empty texts are left out. */
static void write_external_model(const char *location, const char *offset, const char *length)
{
    onnx_writer_t writer;
    onnx_bytes_t tensor = onnx_tensor("w", ONNX_FLOAT, "4");
    const char *pairs[3][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    for (size_t i = 0; i < 3; i++) {
        onnx_bytes_t entry = {0};
        if (pairs[i][1][0] != '\0') {
            onnx_put_text(&entry, 1, pairs[i][0]);
            onnx_put_text(&entry, 2, pairs[i][1]);
            onnx_put_message(&tensor, 13, &entry);
        }
    }
    onnx_put_int(&tensor, 14, 1);
    onnx_writer_init(&writer, 8, 17);
    onnx_writer_input(&writer, "x", ONNX_FLOAT, "4");
    onnx_put_message(&writer.graph, ONNX_GRAPH_INITIALIZER, &tensor);
    onnx_writer_node(&writer, "Add", "x,w", "y", "");
    onnx_writer_output(&writer, "y", ONNX_FLOAT, "4");
    const onnx_bytes_t *file = onnx_writer_finish(&writer);
    write_file("m.onnx", file->data, file->bytes);
    onnx_writer_deinit(&writer);
}

static void external_data_is_read_inside_the_folder_only(void **state)
{
    (void)state;
    static const struct {
        const char *location, *offset, *length;
        wf_code_t code; /* WF_CODE_OK: works */
        const char *word;
    } rows[] = {
        {"data.bin", "8", "16", WF_CODE_OK, ""},
        {"data.bin", "8", "", WF_CODE_OK, ""},
        {"./data.bin", "8", "16", WF_CODE_OK, ""},
        {"sub/data.bin", "8", "16", WF_CODE_OK, ""},
        {"data.bin", "9", "16", WF_CODE_OK, ""}, /* not aligned: copied, other values */
        {"data.bin", "16", "16", WF_CODE_EXTERNAL_DATA, "outside its 28 bytes"},
        {"data.bin", "18446744073709551608", "16", WF_CODE_EXTERNAL_DATA, "outside"},
        {"data.bin", "99999999999999999999", "16", WF_CODE_EXTERNAL_DATA, "not a number"},
        {"data.bin", "-8", "16", WF_CODE_EXTERNAL_DATA, "not a number"},
        {"data.bin", "0", "12", WF_CODE_MODEL_INVALID, "12 bytes"},
        {"", "0", "16", WF_CODE_EXTERNAL_DATA, "without a location"},
        {"gone.bin", "0", "16", WF_CODE_FILE_MISSING, "gone.bin"},
        {"../data.bin", "0", "16", WF_CODE_EXTERNAL_DATA, "../data.bin"},
        {"/etc/passwd", "0", "16", WF_CODE_EXTERNAL_DATA, "/etc/passwd"},
        {"sub/../../x", "0", "16", WF_CODE_EXTERNAL_DATA, "sub/../../x"},
        {"link.bin", "8", "16", WF_CODE_EXTERNAL_DATA, "link.bin"},
    };
    float values[7] = {9, 9, 1, 2, 3, 4, 9};
    write_file("data.bin", values, sizeof values);
    assert_int_equal(mkdir(path_of("sub"), 0700), 0);
    write_file("sub/data.bin", values, sizeof values);
    assert_int_equal(symlink("data.bin", path_of("link.bin")), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_onnx_model_t *model;
        wf_graph_t *graph;
        write_external_model(rows[i].location, rows[i].offset, rows[i].length);
        wf_assert_ok(wf_onnx_open(path_of("m.onnx"), wf_allocator_system(), &model));
        wf_status_t status = wf_onnx_to_graph(model, NULL, 0, wf_allocator_system(), &graph);
        if (wf_status_code(status) != rows[i].code ||
            strstr(wf_status_message(status), rows[i].word) == NULL) {
            fail_msg("row %zu: WF-%04d %s", i, (int)wf_status_code(status), wf_status_message(status));
        }
        if (status == WF_OK) {
            wf_tensor_t tensor;
            wf_value_id w = wf_graph_node(graph, graph->order.items[0])->inputs[1];
            assert_true(wf_graph_constant(graph, w, &tensor));
            size_t offset = strtoul(rows[i].offset, NULL, 10);
            assert_memory_equal(tensor.data, (const char *)values + offset, 16);
            assert_int_equal((uintptr_t)tensor.data % 4, 0);
        }
        wf_status_free(status);
        wf_graph_destroy(graph);
        wf_onnx_close(model);
    }
}

static void the_hash_is_that_of_the_bytes(void **state)
{
    (void)state;
    onnx_writer_t writer;
    wf_onnx_model_t *model;
    wf_hash_t first, again, changed;
    onnx_writer_init(&writer, 8, 17);
    one_node(&writer, "Relu", "x", "y", "");
    const onnx_bytes_t *file = onnx_writer_finish(&writer);
    write_file("m.onnx", file->data, file->bytes);
    wf_hash_t expected = wf_hash_bytes(file->data, file->bytes);
    onnx_writer_deinit(&writer);
    wf_assert_ok(wf_onnx_open(path_of("m.onnx"), wf_allocator_system(), &model));
    wf_assert_ok(wf_onnx_hash(model, &first));
    wf_assert_ok(wf_onnx_hash(model, &again));
    assert_true(wf_hash_equal(first, expected));
    assert_true(wf_hash_equal(first, again));
    wf_onnx_close(model);
    /* Data in other files counts. */
    float values[6] = {0};
    for (size_t i = 0; i < 2; i++) {
        write_file("data.bin", values, sizeof values);
        write_external_model("data.bin", "0", "16");
        wf_assert_ok(wf_onnx_open(path_of("m.onnx"), wf_allocator_system(), &model));
        wf_assert_ok(wf_onnx_hash(model, i == 0 ? &first : &changed));
        wf_onnx_close(model);
        values[1] = 1;
    }
    assert_false(wf_hash_equal(first, changed));
}

static void tensor_files_are_read(void **state)
{
    (void)state;
    float values[6] = {1, 2, 3, 4, 5, 6};
    wf_arena_t arena;
    wf_tensor_t tensor;
    const char *name;
    onnx_bytes_t bytes = onnx_raw_tensor("in", ONNX_FLOAT, "2,3", values, sizeof values);
    wf_arena_init(&arena, wf_allocator_system());
    write_file("t.pb", bytes.data, bytes.bytes);
    wf_assert_ok(wf_onnx_read_tensor_file(path_of("t.pb"), &arena, &tensor, &name));
    assert_string_equal(name, "in");
    assert_int_equal(tensor.type.dtype, WF_DTYPE_F32);
    assert_int_equal(tensor.type.rank, 2);
    assert_int_equal(tensor.type.dims[1], 3);
    assert_memory_equal(tensor.data, values, sizeof values);
    write_file("t.pb", bytes.data, bytes.bytes - 1);
    wf_assert_fails(wf_onnx_read_tensor_file(path_of("t.pb"), &arena, &tensor, &name), MODEL_INVALID);
    onnx_bytes_free(&bytes);
    onnx_put_text(&bytes, 1, "a sequence's name");
    write_file("t.pb", bytes.data, bytes.bytes);
    wf_assert_fails(wf_onnx_read_tensor_file(path_of("t.pb"), &arena, &tensor, &name), MODEL_UNSUPPORTED);
    onnx_bytes_free(&bytes);
    bytes = onnx_tensor("s", ONNX_STRING, "1");
    onnx_put_text(&bytes, 6, "text");
    write_file("t.pb", bytes.data, bytes.bytes);
    wf_assert_fails(wf_onnx_read_tensor_file(path_of("t.pb"), &arena, &tensor, &name), MODEL_UNSUPPORTED);
    onnx_bytes_free(&bytes);
    bytes = onnx_tensor("s", ONNX_INT32, "1000000000000"); /* no memory is asked for what cannot be there */
    onnx_put_int(&bytes, 5, 1);
    write_file("t.pb", bytes.data, bytes.bytes);
    wf_assert_fails(wf_onnx_read_tensor_file(path_of("t.pb"), &arena, &tensor, &name), MODEL_INVALID);
    wf_assert_fails(wf_onnx_read_tensor_file(path_of("none.pb"), &arena, &tensor, &name), FILE_MISSING);
    wf_arena_deinit(&arena);
    onnx_bytes_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_summary_says_what_is_in_the_file),
        cmocka_unit_test(problems_are_listed),
        cmocka_unit_test(all_problems_are_found_at_once),
        cmocka_unit_test(dead_nodes_are_no_problem),
        cmocka_unit_test(versions_that_are_too_new_are_refused),
        cmocka_unit_test(other_files_are_named),
        cmocka_unit_test(typed_fields_and_raw_data_agree),
        cmocka_unit_test(data_is_aligned_whatever_the_file_says),
        cmocka_unit_test_setup_teardown(external_data_is_read_inside_the_folder_only, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(the_hash_is_that_of_the_bytes, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(tensor_files_are_read, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
