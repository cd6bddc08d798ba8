/* SPDX-License-Identifier: Apache-2.0 */
/* The wire reader on bytes written by hand and by the test writer. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/wire.h"
#include "support/cmocka_all.h"
#include "support/onnx_writer.h"

static wf_status_t decode(int message, const onnx_bytes_t *bytes, wf_arena_t *arena, void *out)
{
    return wf_wire_decode(message, (wf_span_t){bytes->data, bytes->bytes}, arena, 1 << 20, out);
}

static void assert_span(wf_span_t span, const char *text)
{
    assert_int_equal(span.bytes, strlen(text));
    assert_memory_equal(span.data, text, span.bytes);
}

static void a_model_decodes(void **state)
{
    (void)state;
    onnx_writer_t writer;
    onnx_writer_init(&writer, 8, 17);
    onnx_writer_import(&writer, "com.microsoft", 1);
    onnx_writer_input(&writer, "x", ONNX_FLOAT, "n,3");
    onnx_writer_node(&writer, "com.microsoft:Gelu", "x,,z", "y", "alpha:f=0.5 axis:i=-2 pads:is=1,-1");
    onnx_writer_output(&writer, "y", ONNX_FLOAT, NULL);
    wf_arena_t arena;
    wf_pb_model_t model = {0};
    wf_arena_init(&arena, wf_allocator_system());
    wf_assert_ok(decode(WF_PB_model, onnx_writer_finish(&writer), &arena, &model));
    assert_int_equal(model.ir_version, 8);
    assert_int_equal(model.opset_import.count, 2);
    assert_span(model.opset_import.items[1].domain, "com.microsoft");
    assert_int_equal(model.opset_import.items[0].version, 17);
    const wf_pb_graph_t *graph = model.graph;
    assert_span(graph->name, "g");
    const wf_pb_shape_t *shape = graph->input.items[0].type->tensor_type->shape;
    assert_int_equal(shape->dim.count, 2);
    assert_int_equal(shape->dim.items[0].head.last, 2);
    assert_span(shape->dim.items[0].dim_param, "n");
    assert_int_equal(shape->dim.items[1].dim_value, 3);
    assert_null(graph->output.items[0].type->tensor_type->shape);
    const wf_pb_node_t *node = &graph->node.items[0];
    assert_int_equal(node->input.count, 3);
    assert_int_equal(node->input.items[1].bytes, 0);
    assert_span(node->input.items[2], "z");
    assert_span(node->op_type, "Gelu");
    assert_span(node->domain, "com.microsoft");
    assert_int_equal(node->attribute.count, 3);
    assert_true(node->attribute.items[0].f == 0.5f);
    assert_int_equal(node->attribute.items[1].i, -2);
    assert_true(WF_PB_HAS(attribute, &node->attribute.items[1], i));
    assert_false(WF_PB_HAS(attribute, &node->attribute.items[1], f));
    uint64_t count, bits;
    bool more;
    wf_assert_ok(wf_numbers_count(node->attribute.items[2].self, 8, WF_WIRE_VARINT, 100, &count));
    assert_int_equal(count, 2);
    wf_numbers_t numbers;
    wf_numbers_init(&numbers, node->attribute.items[2].self, 8, WF_WIRE_VARINT);
    wf_assert_ok(wf_numbers_next(&numbers, &bits, &more));
    assert_int_equal((int64_t)bits, 1);
    wf_assert_ok(wf_numbers_next(&numbers, &bits, &more));
    assert_int_equal((int64_t)bits, -1);
    wf_assert_ok(wf_numbers_next(&numbers, &bits, &more));
    assert_false(more);
    wf_arena_deinit(&arena);
    onnx_writer_deinit(&writer);
}

/* Cutting a model anywhere is noticed, and nothing past the cut is read (the copy has exactly that size). */
static void every_cut_is_noticed(void **state)
{
    (void)state;
    onnx_writer_t writer;
    float weights[3] = {1, 2, 3};
    onnx_writer_init(&writer, 8, 17);
    onnx_writer_floats(&writer, "w", "3", weights, 3);
    onnx_writer_node(&writer, "Add", "x,w", "y", "axis:i=1 pads:is=1,2");
    const onnx_bytes_t *file = onnx_writer_finish(&writer);
    size_t whole = 0;
    for (size_t cut = 0; cut < file->bytes; cut++) {
        uint8_t *copy = malloc(cut + 1);
        wf_arena_t arena;
        wf_pb_model_t model = {0};
        assert_non_null(copy);
        memcpy(copy, file->data, cut);
        wf_arena_init(&arena, wf_allocator_system());
        onnx_bytes_t bytes = {copy, cut, cut};
        wf_status_t status = decode(WF_PB_model, &bytes, &arena, &model);
        if (status == WF_OK) {
            assert_null(model.graph); /* cut between fields before the graph */
            whole++;
        } else {
            assert_int_equal(wf_status_code(status), WF_CODE_MODEL_INVALID);
            assert_non_null(strstr(wf_status_message(status), "byte "));
        }
        wf_status_free(status);
        wf_arena_deinit(&arena);
        free(copy);
    }
    assert_int_equal(whole, 3); /* nothing, ir_version, ir_version and opset_import */
    onnx_writer_deinit(&writer);
}

/* Fields of TensorProto: 1 dims, 2 data_type, 8 name. */
static void lists_may_be_packed_or_not(void **state)
{
    (void)state;
    onnx_bytes_t packed = {0}, plain = {0}, numbers = {0};
    for (int64_t i = 0; i < 4; i++) {
        onnx_put_varint(&numbers, (uint64_t)(i * 1000));
        onnx_put_int(&plain, 1, i * 1000);
    }
    onnx_put_message(&packed, 1, &numbers);
    onnx_put_int(&packed, 1, -7); /* mixed in one message */
    onnx_put_int(&plain, 1, -7);
    wf_arena_t arena;
    wf_pb_tensor_t a = {0}, b = {0};
    wf_arena_init(&arena, wf_allocator_system());
    wf_assert_ok(decode(WF_PB_tensor, &packed, &arena, &a));
    wf_assert_ok(decode(WF_PB_tensor, &plain, &arena, &b));
    assert_int_equal(a.dims.count, 5);
    assert_int_equal(b.dims.count, 5);
    assert_memory_equal(a.dims.items, b.dims.items, 5 * sizeof(int64_t));
    assert_int_equal(a.dims.items[3], 3000);
    assert_int_equal(a.dims.items[4], -7);
    wf_arena_deinit(&arena);
    onnx_bytes_free(&packed);
    onnx_bytes_free(&plain);
}

static void the_last_scalar_wins_and_unknown_fields_are_skipped(void **state)
{
    (void)state;
    onnx_bytes_t bytes = {0};
    onnx_put_int(&bytes, 2, 1);
    onnx_put_text(&bytes, 8, "first");
    onnx_put_int(&bytes, 900, 5);
    onnx_put_float(&bytes, 901, 5.0f);
    onnx_put_double(&bytes, 902, 5.0);
    onnx_put_text(&bytes, 536870911, "the largest field number");
    onnx_put_text(&bytes, 8, "second");
    onnx_put_int(&bytes, 2, 7);
    wf_arena_t arena;
    wf_pb_tensor_t tensor = {0};
    wf_arena_init(&arena, wf_allocator_system());
    wf_assert_ok(decode(WF_PB_tensor, &bytes, &arena, &tensor));
    assert_int_equal(tensor.data_type, 7);
    assert_span(tensor.name, "second");
    wf_arena_deinit(&arena);
    onnx_bytes_free(&bytes);
}

/* What a reader must not accept: bytes, message, code, a word of the answer. */
static void bad_bytes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        int message;
        wf_code_t code;
        const char *word;
    } rows[] = {
        {"\x80", 1, WF_PB_tensor, WF_CODE_MODEL_INVALID, "cut off at byte 1"},
        {"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, WF_PB_tensor, WF_CODE_MODEL_INVALID,
         "longer than 64 bits"},
        {"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, WF_PB_tensor, WF_CODE_MODEL_INVALID,
         "longer than 64 bits"},
        {"\x00\x01", 2, WF_PB_tensor, WF_CODE_MODEL_INVALID, "field number 0"},
        {"\x13", 1, WF_PB_tensor, WF_CODE_MODEL_INVALID, "wire type 3"},
        {"\x17\x01", 2, WF_PB_tensor, WF_CODE_MODEL_INVALID, "wire type 7"},
        {"\x42\x05"
         "abc",
         5, WF_PB_tensor, WF_CODE_MODEL_INVALID, "TensorProto.name: field 8 at byte 0 has 5 bytes"},
        {"\x42\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, WF_PB_tensor, WF_CODE_MODEL_INVALID,
         "18446744073709551615 bytes"},
        {"\x40\x01", 2, WF_PB_tensor, WF_CODE_MODEL_INVALID, "TensorProto.name at byte 0 has wire type 0"},
        {"\x15\x01\x02\x03\x04", 5, WF_PB_tensor, WF_CODE_MODEL_INVALID, "TensorProto.data_type"},
        {"\x15\x01\x02", 3, WF_PB_attribute, WF_CODE_MODEL_INVALID, "AttributeProto.f: a number is cut off"},
        {"\x0a\x01\xff", 3, WF_PB_tensor, WF_CODE_MODEL_INVALID, "TensorProto.dims: a number is cut off"},
        {"\x3a\x00\x3a\x00", 4, WF_PB_model, WF_CODE_MODEL_INVALID, "ModelProto.graph is given twice"},
        {"\x2a\x02\x32\x09", 4, WF_PB_node, WF_CODE_MODEL_INVALID, "AttributeProto.g"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_arena_t arena;
        union {
            wf_pb_model_t model;
            wf_pb_tensor_t tensor;
            wf_pb_attribute_t attribute;
            wf_pb_node_t node;
        } any;
        memset(&any, 0, sizeof any);
        wf_arena_init(&arena, wf_allocator_system());
        wf_span_t span = {(const uint8_t *)rows[i].bytes, rows[i].count};
        wf_status_t status = wf_wire_decode(rows[i].message, span, &arena, 1 << 20, &any);
        if (wf_status_code(status) != rows[i].code ||
            strstr(wf_status_message(status), rows[i].word) == NULL) {
            fail_msg("row %zu: WF-%04d %s", i, (int)wf_status_code(status), wf_status_message(status));
        }
        wf_status_free(status);
        wf_arena_deinit(&arena);
    }
}

static void a_number_of_64_bits_is_read_whole(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    wf_arena_t arena;
    wf_pb_tensor_t tensor = {0};
    wf_arena_init(&arena, wf_allocator_system());
    wf_assert_ok(wf_wire_decode(WF_PB_tensor, (wf_span_t){bytes, sizeof bytes}, &arena, 1 << 20, &tensor));
    assert_int_equal(tensor.data_type, -1);
    wf_arena_deinit(&arena);
}

/* A graph in an attribute of a node of a graph ... : three messages a level. */
static void nesting_is_bounded(void **state)
{
    (void)state;
    for (int levels = 1; levels < 40; levels++) {
        onnx_bytes_t graph = {0};
        onnx_put_text(&graph, 2, "inner");
        for (int i = 0; i < levels; i++) {
            onnx_bytes_t node = {0}, outer = {0};
            onnx_node_add_graph(&node, "then_branch", &graph);
            onnx_put_message(&outer, ONNX_GRAPH_NODE, &node);
            graph = outer;
        }
        wf_arena_t arena;
        wf_pb_graph_t out = {0};
        wf_arena_init(&arena, wf_allocator_system());
        wf_status_t status = decode(WF_PB_graph, &graph, &arena, &out);
        bool allowed = 3 * levels + 1 <= WF_ONNX_MAX_MESSAGE_DEPTH;
        assert_int_equal(wf_status_code(status), allowed ? WF_CODE_OK : WF_CODE_MODEL_LIMIT);
        wf_status_free(status);
        wf_arena_deinit(&arena);
        onnx_bytes_free(&graph);
    }
}

static void lists_and_memory_are_bounded(void **state)
{
    (void)state;
    onnx_bytes_t tensor = {0}, graph = {0};
    for (int i = 0; i < WF_ONNX_MAX_TENSOR_DIMS; i++) {
        onnx_put_int(&tensor, 1, 1);
    }
    wf_arena_t arena;
    wf_pb_tensor_t out = {0};
    wf_pb_graph_t graph_out = {0};
    wf_arena_init(&arena, wf_allocator_system());
    wf_assert_ok(decode(WF_PB_tensor, &tensor, &arena, &out));
    onnx_put_int(&tensor, 1, 1);
    out = (wf_pb_tensor_t){0};
    wf_assert_fails(decode(WF_PB_tensor, &tensor, &arena, &out), MODEL_LIMIT);
    for (int i = 0; i < 10000; i++) {
        onnx_put_text(&graph, ONNX_GRAPH_NODE, ""); /* 2 bytes each */
    }
    wf_assert_fails(decode(WF_PB_graph, &graph, &arena, &graph_out), MODEL_LIMIT);
    wf_arena_deinit(&arena);
    onnx_bytes_free(&tensor);
    onnx_bytes_free(&graph);
}

/* Weights stay where they are: packed floats are found as one record, several records are not. */
static void packed_records_are_found(void **state)
{
    (void)state;
    onnx_bytes_t one = {0}, two = {0}, plain = {0};
    float values[2] = {1.5f, -2.0f};
    onnx_put_text(&one, 8, "w");
    onnx_put_blob(&one, 4, values, sizeof values);
    onnx_put_blob(&two, 4, values, 4);
    onnx_put_blob(&two, 4, values + 1, 4);
    onnx_put_float(&plain, 4, values[0]);
    onnx_put_float(&plain, 4, values[1]);
    const onnx_bytes_t *all[3] = {&one, &two, &plain};
    for (size_t i = 0; i < 3; i++) {
        wf_span_t message = {all[i]->data, all[i]->bytes}, packed;
        wf_numbers_t numbers;
        uint64_t bits, count;
        bool more;
        assert_int_equal(wf_numbers_packed(message, 4, &packed), i == 0);
        wf_assert_ok(wf_numbers_count(message, 4, WF_WIRE_FIXED32, 100, &count));
        assert_int_equal(count, 2);
        wf_numbers_init(&numbers, message, 4, WF_WIRE_FIXED32);
        for (size_t k = 0; k < 2; k++) {
            wf_assert_ok(wf_numbers_next(&numbers, &bits, &more));
            float value;
            uint32_t word = (uint32_t)bits;
            memcpy(&value, &word, sizeof value);
            assert_true(more && value == values[k]);
        }
    }
    wf_span_t message = {plain.data, plain.bytes};
    uint64_t count;
    wf_assert_ok(wf_numbers_count(message, 4, WF_WIRE_FIXED32, 1, &count));
    assert_int_equal(count, 2); /* above the limit, and no further */
    onnx_bytes_free(&one);
    onnx_bytes_free(&two);
    onnx_bytes_free(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_decodes),
        cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(lists_may_be_packed_or_not),
        cmocka_unit_test(the_last_scalar_wins_and_unknown_fields_are_skipped),
        cmocka_unit_test(bad_bytes_are_refused),
        cmocka_unit_test(a_number_of_64_bits_is_read_whole),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(lists_and_memory_are_bounded),
        cmocka_unit_test(packed_records_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
