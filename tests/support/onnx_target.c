/* SPDX-License-Identifier: Apache-2.0 */
#include "support/onnx_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/onnx.h"
#include "support/onnx_writer.h"

enum { INPUTS_MAX = 64, MEMORY_MAX_BYTES = 1 << 28 };

static void stop(const char *what, const char *detail)
{
    fprintf(stderr, "onnx_target: %s: %s\n", what, detail);
    abort();
}

static wf_code_t take(wf_status_t status)
{
    wf_code_t code = wf_status_code(status);
    switch (code) {
    case WF_CODE_OK:
    case WF_CODE_MODEL_INVALID:
    case WF_CODE_MODEL_UNSUPPORTED:
    case WF_CODE_MODEL_LIMIT:
    case WF_CODE_EXTERNAL_DATA:
    case WF_CODE_SHAPE_NEEDED:
    case WF_CODE_INPUT_MISMATCH:
    case WF_CODE_OUT_OF_MEMORY:
        break;
    default:
        stop("unexpected code", wf_status_message(status));
    }
    if (code != WF_CODE_OK && wf_status_message(status)[0] == '\0') {
        stop("a failure without words", "");
    }
    wf_status_free(status);
    return code;
}

/* Memory with a ceiling, so that a mutated size is an error and not a slow machine. */
typedef struct bounded {
    size_t bytes;
} bounded_t;

static void *bounded_resize(void *self, void *ptr, size_t old_bytes, size_t new_bytes, size_t alignment_bytes)
{
    bounded_t *bounded = self;
    wf_allocator_t system = wf_allocator_system();
    if (new_bytes > old_bytes && new_bytes - old_bytes > MEMORY_MAX_BYTES - bounded->bytes) {
        return NULL;
    }
    void *result = system.resize(system.self, ptr, old_bytes, new_bytes, alignment_bytes);
    if (result != NULL || new_bytes == 0) {
        bounded->bytes += new_bytes - old_bytes;
    }
    return result;
}

static wf_code_t build(const wf_onnx_model_t *model, wf_allocator_t allocator)
{
    const wf_onnx_summary_t *summary = wf_onnx_summary(model);
    wf_onnx_binding_t bindings[INPUTS_MAX];
    int64_t dims[INPUTS_MAX][WF_MAX_RANK];
    size_t count = 0;
    wf_graph_t *graph;
    for (size_t i = 0; i < summary->input_count && count < INPUTS_MAX; i++) {
        const wf_port_t *port = &summary->inputs[i];
        bool free = !port->rank_known;
        for (uint32_t k = 0; k < port->rank; k++) {
            dims[count][k] = port->dims[k].size >= 0 ? port->dims[k].size : 2;
            free = free || port->dims[k].size < 0;
        }
        if (free) {
            bindings[count] =
                (wf_onnx_binding_t){.name = port->name, .dims = dims[count], .rank = port->rank};
            count++;
        }
    }
    wf_status_t status = wf_onnx_to_graph(model, bindings, count, allocator, &graph);
    if (status != WF_OK) {
        if (wf_status_code(status) ==
            WF_CODE_USAGE) { /* two inputs of one (cleaned) name cannot both be bound */
            wf_status_free(status);
            return WF_CODE_USAGE;
        }
        return take(status);
    }
    status = wf_graph_verify(graph);
    if (status != WF_OK) {
        stop("the graph does not verify", wf_status_message(status));
    }
    if (graph->outputs.count != summary->output_count) {
        stop("outputs are lost", "");
    }
    wf_graph_destroy(graph);
    return WF_CODE_OK;
}

wf_code_t onnx_target_run(const uint8_t *data, size_t bytes)
{
    bounded_t bounded = {0};
    wf_allocator_t allocator = {&bounded, bounded_resize};
    wf_onnx_model_t *model;
    wf_hash_t hash;
    wf_code_t code = take(wf_onnx_open_bytes(data, bytes, allocator, &model));
    if (code != WF_CODE_OK) {
        return code;
    }
    for (size_t i = 0; i < wf_onnx_problem_count(model); i++) {
        const wf_onnx_problem_t *problem = wf_onnx_problem(model, i);
        if (problem->code == WF_CODE_OK || problem->reason[0] == '\0' || problem->hint == NULL ||
            problem->node == NULL || problem->op == NULL) {
            stop("a problem without words", "");
        }
    }
    wf_status_free(wf_onnx_hash(model, &hash));
    code = build(model, allocator);
    wf_onnx_close(model);
    if (bounded.bytes != 0) {
        stop("memory is lost", "");
    }
    return code;
}

/* ---- Seeds ---- */

static void seed_conv(onnx_writer_t *writer)
{
    static const float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8}, bias[2] = {1, 2};
    onnx_writer_init(writer, 8, 17);
    onnx_writer_input(writer, "x", ONNX_FLOAT, "n,1,5,w");
    onnx_writer_floats(writer, "w", "2,1,2,2", weights, 8);
    onnx_writer_floats(writer, "b", "2", bias, 2);
    onnx_writer_node(writer, "Conv", "x,w,b", "c", "kernel_shape:is=2,2 pads:is=1,1,1,1 strides:is=2,2");
    onnx_writer_node(writer, "Relu", "c", "r", "");
    onnx_writer_node(writer, "MaxPool", "r", "p", "kernel_shape:is=2,2 strides:is=1,1");
    onnx_writer_node(writer, "GlobalAveragePool", "p", "y", "");
    onnx_writer_output(writer, "y", ONNX_FLOAT, "n,2,1,1");
}

static void seed_shapes(onnx_writer_t *writer)
{
    static const int64_t zero = 0, minus_one = -1;
    onnx_writer_init(writer, 8, 13);
    onnx_writer_input(writer, "x", ONNX_FLOAT, "n,3,4");
    onnx_writer_ints(writer, "zero", "", &zero, 1);
    onnx_writer_ints(writer, "rest", "1", &minus_one, 1);
    onnx_writer_ints(writer, "axis", "1", &zero, 1);
    onnx_writer_node(writer, "Shape", "x", "s", "");
    onnx_writer_node(writer, "Gather", "s,zero", "n0", "");
    onnx_writer_node(writer, "Unsqueeze", "n0,axis", "n1", "");
    onnx_writer_node(writer, "Concat", "n1,rest", "dims", "axis:i=0");
    onnx_writer_node(writer, "Reshape", "x,dims", "y", "");
    onnx_writer_node(writer, "Split", "s", "s0,s1,s2", "axis:i=0");
    onnx_writer_node(writer, "ConstantOfShape", "s1", "z", "");
    onnx_writer_node(writer, "Expand", "rest,s", "e", "");
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
    onnx_writer_output(writer, "z", ONNX_FLOAT, NULL);
    onnx_writer_output(writer, "e", ONNX_INT64, NULL);
}

static void seed_legacy(onnx_writer_t *writer)
{
    static const float values[3] = {1, 2, 3};
    onnx_writer_init(writer, 3, 6);
    onnx_writer_input(writer, "x", ONNX_FLOAT, "2,3,4");
    onnx_writer_input(writer, "w", ONNX_FLOAT, "3");
    onnx_writer_floats(writer, "w", "3", values, 3);
    onnx_writer_node(writer, "Add", "x,w", "a", "axis:i=1 broadcast:i=1");
    onnx_writer_node(writer, "Softmax", "a", "b", "axis:i=1");
    onnx_writer_node(writer, "BatchNormalization", "b,w,w,w,w", "c", "is_test:i=1 epsilon:f=0.1");
    onnx_writer_node(writer, "Pad", "c", "d", "pads:is=0,0,0,0,0,1 value:f=2");
    onnx_writer_node(writer, "Dropout", "d", "e,mask", "ratio:f=0.5");
    onnx_writer_node(writer, "Clip", "e", "f", "max:f=6");
    onnx_writer_node(writer, "Unsqueeze", "f", "g", "axes:is=0");
    onnx_writer_node(writer, "Upsample", "g", "y", "height_scale:f=2 width_scale:f=1.5");
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
}

static void put_opset(onnx_bytes_t *function, const char *domain, int version)
{
    onnx_bytes_t opset = {0};
    onnx_put_text(&opset, 1, domain);
    onnx_put_int(&opset, 2, version);
    onnx_put_message(function, 9, &opset);
}

static void seed_function(onnx_writer_t *writer)
{
    onnx_bytes_t function = {0}, node = onnx_node("Softmax", "a", "t", "axis:r=axis");
    onnx_writer_init(writer, 8, 17);
    onnx_writer_import(writer, "local", 1);
    onnx_put_text(&function, 1, "F");
    onnx_put_text(&function, 4, "a");
    onnx_put_text(&function, 5, "b");
    onnx_put_text(&function, 6, "axis");
    onnx_put_message(&function, 7, &node);
    node = onnx_node("Neg", "t", "b", "");
    onnx_put_message(&function, 7, &node);
    put_opset(&function, "", 17);
    onnx_put_text(&function, 10, "local");
    onnx_put_message(&writer->rest, 25, &function);
    onnx_writer_input(writer, "x", ONNX_FLOAT, NULL);
    onnx_writer_node(writer, "local:F", "x", "u", "axis:i=0");
    onnx_writer_node(writer, "local:F", "u", "y", "");
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
}

static void seed_if(onnx_writer_t *writer)
{
    static const float weights[2] = {5, 6};
    onnx_bytes_t then_graph = {0}, else_graph = {0}, value, inner = onnx_node("Relu", "x", "t", "");
    onnx_bytes_t tensor = onnx_raw_tensor("w", ONNX_FLOAT, "2", weights, sizeof weights);
    onnx_put_message(&then_graph, ONNX_GRAPH_NODE, &inner);
    value = onnx_value("t", ONNX_FLOAT, NULL);
    onnx_put_message(&then_graph, ONNX_GRAPH_OUTPUT, &value);
    onnx_put_message(&else_graph, ONNX_GRAPH_INITIALIZER, &tensor);
    value = onnx_value("w", ONNX_FLOAT, NULL);
    onnx_put_message(&else_graph, ONNX_GRAPH_OUTPUT, &value);
    onnx_bytes_t node = onnx_node("If", "c", "y", "");
    onnx_node_add_graph(&node, "then_branch", &then_graph);
    onnx_node_add_graph(&node, "else_branch", &else_graph);
    onnx_writer_init(writer, 8, 17);
    onnx_writer_input(writer, "x", ONNX_FLOAT, "2");
    onnx_writer_input(writer, "c", ONNX_BOOL, "");
    onnx_put_message(&writer->graph, ONNX_GRAPH_NODE, &node);
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
}

/* Weights in typed fields, and every kind of attribute. */
static void seed_typed(onnx_writer_t *writer)
{
    onnx_bytes_t tensor = onnx_tensor("i", ONNX_INT32, "2,2"), floats = onnx_tensor("f", ONNX_FLOAT, "2"),
                 packed = {0};
    onnx_writer_init(writer, 8, 17);
    for (int i = 0; i < 4; i++) {
        onnx_put_varint(&packed, (uint64_t)(i * 100));
    }
    onnx_put_message(&tensor, 5, &packed);
    onnx_put_message(&writer->graph, ONNX_GRAPH_INITIALIZER, &tensor);
    onnx_put_float(&floats, 4, 1.5f);
    onnx_put_float(&floats, 4, 2.5f);
    onnx_put_message(&writer->graph, ONNX_GRAPH_INITIALIZER, &floats);
    tensor = onnx_tensor("h", ONNX_FLOAT16, "3");
    onnx_put_int(&tensor, 5, 0x3c00);
    onnx_put_int(&tensor, 5, 0x4000);
    onnx_put_int(&tensor, 5, 0xc000);
    onnx_put_message(&writer->graph, ONNX_GRAPH_INITIALIZER, &tensor);
    onnx_bytes_t node = onnx_node("Constant", "", "k", "");
    tensor = onnx_tensor("", ONNX_DOUBLE, "1");
    onnx_put_double(&tensor, 10, 2.0);
    onnx_node_add_tensor(&node, "value", &tensor);
    onnx_put_message(&writer->graph, ONNX_GRAPH_NODE, &node);
    onnx_writer_input(writer, "x", ONNX_FLOAT, "?,2");
    onnx_writer_node(writer, "Constant", "", "m", "value_floats:fs=1,2");
    onnx_writer_node(writer, "Cast", "k", "kf", "to:i=1");
    onnx_writer_node(writer, "Cast", "i", "if", "to:i=1");
    onnx_writer_node(writer, "MatMul", "x,if", "a", "");
    onnx_writer_node(writer, "Sum", "a,f,m,kf", "y", "");
    onnx_writer_node(writer, "Identity", "h", "z", "");
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
    onnx_writer_output(writer, "z", ONNX_FLOAT16, NULL);
}

static void seed_recurrent(onnx_writer_t *writer)
{
    float weights[32] = {0};
    onnx_writer_init(writer, 8, 14);
    onnx_writer_input(writer, "x", ONNX_FLOAT, "t,1,2");
    onnx_writer_floats(writer, "w", "1,8,2", weights, 16);
    onnx_writer_floats(writer, "r", "1,8,2", weights, 16);
    onnx_writer_node(writer, "LSTM", "x,w,r", "y,h,",
                     "hidden_size:i=2 activations:ss=Sigmoid,Tanh,Tanh clip:f=3");
    onnx_writer_node(writer, "Squeeze", "y", "q", "");
    onnx_writer_output(writer, "q", ONNX_FLOAT, NULL);
    onnx_writer_output(writer, "h", ONNX_FLOAT, NULL);
}

static void seed_microsoft(onnx_writer_t *writer)
{
    static const float weights[4] = {1, 2, 3, 4};
    onnx_writer_init(writer, 8, 17);
    onnx_writer_import(writer, "com.microsoft", 1);
    onnx_writer_input(writer, "x", ONNX_FLOAT, "n,2");
    onnx_writer_floats(writer, "w", "2,2", weights, 4);
    onnx_writer_floats(writer, "b", "2", weights, 2);
    onnx_writer_node(writer, "com.microsoft:FusedMatMul", "x,w", "a", "transB:i=1 alpha:f=0.5");
    onnx_writer_node(writer, "com.microsoft:SkipLayerNormalization", "a,x,b,b", "c,,,sum", "epsilon:f=0.1");
    onnx_writer_node(writer, "com.microsoft:BiasGelu", "c,b", "d", "");
    onnx_writer_node(writer, "QuantizeLinear", "d,s,zp", "q", "");
    onnx_writer_node(writer, "DequantizeLinear", "q,s,zp", "y", "");
    static const float scale = 0.1f;
    static const uint8_t zero = 128;
    onnx_writer_floats(writer, "s", "", &scale, 1);
    onnx_bytes_t tensor = onnx_raw_tensor("zp", ONNX_UINT8, "", &zero, 1);
    onnx_put_message(&writer->graph, ONNX_GRAPH_INITIALIZER, &tensor);
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
    onnx_writer_output(writer, "sum", ONNX_FLOAT, NULL);
}

/* A Scan over two steps inside a Loop of two steps. */
static void seed_loops(onnx_writer_t *writer)
{
    static const int64_t count = 2;
    onnx_bytes_t scan_body = {0}, loop_body = {0}, node, value,
                 tensor = onnx_raw_tensor("count", ONNX_INT64, "", &count, 8);
    static const char *const ports[2][4] = {{"sum", "x", "next", "next"}, {"step", "on", "on_out", "total"}};
    onnx_bytes_t *bodies[2] = {&scan_body, &loop_body};
    node = onnx_node("Add", "sum,x", "next", "");
    onnx_put_message(&scan_body, ONNX_GRAPH_NODE, &node);
    for (size_t b = 0; b < 2; b++) {
        for (size_t i = 0; i < 4; i++) {
            value = onnx_value(ports[b][i], ONNX_FLOAT, NULL);
            onnx_put_message(bodies[b], i < 2 ? ONNX_GRAPH_INPUT : ONNX_GRAPH_OUTPUT, &value);
        }
    }
    node = onnx_node("Scan", "v,xs", "total,all", "num_scan_inputs:i=1");
    onnx_node_add_graph(&node, "body", &scan_body);
    onnx_put_message(&loop_body, ONNX_GRAPH_NODE, &node);
    node = onnx_node("Identity", "on", "on_out", "");
    onnx_put_message(&loop_body, ONNX_GRAPH_NODE, &node);
    value = onnx_value("v", ONNX_FLOAT, NULL);
    onnx_put_message(&loop_body, ONNX_GRAPH_INPUT, &value);
    value = onnx_value("all", ONNX_FLOAT, NULL);
    onnx_put_message(&loop_body, ONNX_GRAPH_OUTPUT, &value);
    onnx_writer_init(writer, 8, 17);
    onnx_writer_input(writer, "start", ONNX_FLOAT, "3");
    onnx_writer_input(writer, "xs", ONNX_FLOAT, "2,3");
    onnx_put_message(&writer->graph, ONNX_GRAPH_INITIALIZER, &tensor);
    node = onnx_node("Loop", "count,,start", "y,ys", "");
    onnx_node_add_graph(&node, "body", &loop_body);
    onnx_put_message(&writer->graph, ONNX_GRAPH_NODE, &node);
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
    onnx_writer_output(writer, "ys", ONNX_FLOAT, NULL);
}

static void seed_attention(onnx_writer_t *writer)
{
    onnx_writer_init(writer, 10, 24);
    onnx_writer_input(writer, "q", ONNX_FLOAT, "2,3,8");
    onnx_writer_input(writer, "k", ONNX_FLOAT, "2,5,4");
    onnx_writer_input(writer, "n", ONNX_INT64, "2");
    onnx_writer_node(writer, "Attention", "q,k,k,,,,n", "a",
                     "q_num_heads:i=4 kv_num_heads:i=2 is_causal:i=1 softcap:f=2");
    onnx_writer_input(writer, "c", ONNX_FLOAT, "2,3,1");
    onnx_writer_node(writer, "RotaryEmbedding", "a,c,c", "y", "num_heads:i=4");
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
}

uint8_t *onnx_target_seed(size_t index, size_t *out_bytes)
{
    static void (*const seeds[ONNX_TARGET_SEEDS])(onnx_writer_t *) = {
        seed_conv,  seed_shapes,    seed_legacy,    seed_function, seed_if,
        seed_typed, seed_recurrent, seed_microsoft, seed_loops,    seed_attention,
    };
    onnx_writer_t writer;
    seeds[index](&writer);
    const onnx_bytes_t *file = onnx_writer_finish(&writer);
    uint8_t *copy = malloc(file->bytes);
    if (copy == NULL) {
        exit(1);
    }
    memcpy(copy, file->data, file->bytes);
    *out_bytes = file->bytes;
    onnx_writer_deinit(&writer);
    return copy;
}
