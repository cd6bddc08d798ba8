/* SPDX-License-Identifier: Apache-2.0 */
/* Old and foreign forms of operators. All inputs are constants, so that the importer computes the result;
 * what it has to be was worked out by hand from the operator's text of that version. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/constant.h"
#include "onnx/onnx.h"
#include "onnx/upgrade.h"
#include "support/cmocka_all.h"
#include "support/onnx_writer.h"

enum { INPUTS_MAX = 5, VALUES_MAX = 16 };

typedef struct operand {
    int type; /* 0: float */
    const char *dims;
    double values[VALUES_MAX];
} operand_t;

typedef struct example {
    int opset;
    const char *op, *attrs;
    operand_t inputs[INPUTS_MAX]; /* dims NULL: absent */
    const char *outputs;          /* NULL: "y" */
    operand_t expected;           /* of the output y */
} example_t;

static size_t count_of(const char *dims)
{
    size_t count = 1;
    for (const char *at = dims; *at != '\0';) {
        char *end;
        count *= (size_t)strtol(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return count;
}

static void put_operand(onnx_writer_t *writer, const char *name, const operand_t *operand)
{
    size_t count = count_of(operand->dims);
    if (operand->type == ONNX_INT64) {
        int64_t ints[VALUES_MAX];
        for (size_t i = 0; i < count; i++) {
            ints[i] = (int64_t)operand->values[i];
        }
        onnx_writer_ints(writer, name, operand->dims, ints, count);
    } else {
        float floats[VALUES_MAX];
        for (size_t i = 0; i < count; i++) {
            floats[i] = (float)operand->values[i];
        }
        onnx_writer_floats(writer, name, operand->dims, floats, count);
    }
}

static void write_example(onnx_writer_t *writer, const example_t *example)
{
    char names[64] = "";
    size_t count = 0;
    for (size_t i = 0; i < INPUTS_MAX; i++) {
        count = example->inputs[i].dims != NULL ? i + 1 : count;
    }
    onnx_writer_init(writer, example->opset < 9 ? 3 : 8, example->opset);
    onnx_writer_import(writer, "com.microsoft", 1);
    for (size_t i = 0; i < count; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        if (i > 0) {
            strncat(names, ",", sizeof names - strlen(names) - 1);
        }
        if (example->inputs[i].dims != NULL) {
            strncat(names, name, sizeof names - strlen(names) - 1);
            put_operand(writer, name, &example->inputs[i]);
        }
    }
    onnx_writer_node(writer, example->op, names, example->outputs != NULL ? example->outputs : "y",
                     example->attrs);
    onnx_writer_output(writer, "y", ONNX_FLOAT, NULL);
}

/* The value behind output y: a copy of a constant. */
static wf_tensor_t result_of(const wf_graph_t *graph)
{
    wf_tensor_t tensor = {.data = NULL};
    const wf_value_t *y = wf_graph_value(graph, graph->outputs.items[0]);
    if (y->producer == WF_NO_NODE || wf_graph_node(graph, y->producer)->op != WF_OP_IDENTITY ||
        !wf_graph_constant(graph, wf_graph_node(graph, y->producer)->inputs[0], &tensor)) {
        fail_msg("output y was not computed");
    }
    return tensor;
}

static void check_example(const example_t *example, const char *where, size_t index)
{
    onnx_writer_t writer;
    wf_onnx_model_t *model;
    wf_graph_t *graph;
    write_example(&writer, example);
    const onnx_bytes_t *file = onnx_writer_finish(&writer);
    wf_assert_ok(wf_onnx_open_bytes(file->data, file->bytes, wf_allocator_system(), &model));
    wf_status_t status = wf_onnx_to_graph(model, NULL, 0, wf_allocator_system(), &graph);
    if (status != WF_OK) {
        fail_msg("%s %zu (%s): %s", where, index, example->op, wf_status_message(status));
    }
    wf_assert_ok(wf_graph_verify(graph));
    wf_tensor_t got = result_of(graph);
    size_t count = count_of(example->expected.dims);
    char dims[128] = "";
    for (uint32_t i = 0; i < got.type.rank; i++) {
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%lld", i > 0 ? "," : "",
                 (long long)got.type.dims[i]);
    }
    if (strcmp(dims, example->expected.dims) != 0) {
        fail_msg("%s %zu (%s): dims %s, not %s", where, index, example->op, dims, example->expected.dims);
    }
    for (size_t i = 0; i < count; i++) {
        double value, want = example->expected.values[i];
        assert_true(wf_constant_get(&got, (int64_t)i, &value));
        if (!(value == want || fabs(value - want) <= 1e-6 * fmax(1.0, fabs(want)))) {
            fail_msg("%s %zu (%s): element %zu is %.9g, not %.9g", where, index, example->op, i, value, want);
        }
    }
    wf_graph_destroy(graph);
    wf_onnx_close(model);
    onnx_writer_deinit(&writer);
}

#define RUN(examples)                                                       \
    for (size_t i = 0; i < sizeof(examples) / sizeof((examples)[0]); i++) { \
        check_example(&(examples)[i], __func__, i);                         \
    }

static void elementwise(void **state)
{
    (void)state;
    static const example_t examples[] = {
        /* B's dims are those of A from axis on */
        {6,
         "Add",
         "axis:i=1 broadcast:i=1",
         {{0, "1,2,3", {1, 2, 3, 4, 5, 6}}, {0, "2", {10, 20}}},
         NULL,
         {0, "1,2,3", {11, 12, 13, 24, 25, 26}}},
        {6,
         "Sub",
         "axis:i=-2 broadcast:i=1",
         {{0, "1,2,2", {1, 2, 3, 4}}, {0, "2", {10, 20}}},
         NULL,
         {0, "1,2,2", {-9, -8, -17, -16}}},
        {6,
         "Mul",
         "broadcast:i=1",
         {{0, "2,2", {1, 2, 3, 4}}, {0, "2", {10, 20}}},
         NULL,
         {0, "2,2", {10, 40, 30, 80}}},
        {1,
         "Div",
         "axis:i=0 broadcast:i=1 consumed_inputs:is=0,0",
         {{0, "2,2", {1, 2, 3, 4}}, {0, "2", {1, 2}}},
         NULL,
         {0, "2,2", {1, 2, 1.5, 2}}},
        {6,
         "Greater",
         "axis:i=0 broadcast:i=1",
         {{0, "2,2", {1, 2, 3, 4}}, {0, "2", {1, 3}}},
         NULL,
         {0, "2,2", {0, 1, 0, 1}}},
        {6, "Pow", "axis:i=0 broadcast:i=1", {{0, "2,1", {3, 2}}, {0, "", {2}}}, NULL, {0, "2,1", {9, 4}}},
        /* one slope per channel */
        {6,
         "PRelu",
         "",
         {{0, "1,2,2", {-1, 1, -2, 2}}, {0, "2", {0.5, 0.25}}},
         NULL,
         {0, "1,2,2", {-0.5, 1, -0.5, 2}}},
        {6,
         "PRelu",
         "",
         {{0, "1,2,2", {-1, 1, -2, 2}}, {0, "1", {0.5}}},
         NULL,
         {0, "1,2,2", {-0.5, 1, -1, 2}}},
        {5, "Cast", "to:s=INT32", {{0, "2", {1.5, -2.5}}}, NULL, {0, "2", {1, -2}}},
        {5, "Cast", "to:s=BOOL", {{0, "2", {0, -2.5}}}, NULL, {0, "2", {0, 1}}},
        /* limits that are left out are those of float */
        {6, "Clip", "min:f=0", {{0, "3", {-INFINITY, 3, INFINITY}}}, NULL, {0, "3", {0, 3, FLT_MAX}}},
        {10, "Clip", "max:f=1", {{0, "3", {-INFINITY, 3, 0.5}}}, NULL, {0, "3", {-FLT_MAX, 1, 0.5}}},
        {1,
         "Selu",
         "",
         {{0, "2", {1, -1}}},
         NULL,
         {0, "2", {1.0507, 1.0507 * 1.6732 * (0.36787944117144233 - 1)}}},
        {6, "Dropout", "ratio:f=0.9", {{0, "2", {1, 2}}}, NULL, {0, "2", {1, 2}}},
        {10, "Dropout", "", {{0, "2", {1, 2}}}, "y,mask", {0, "2", {1, 2}}},
        {27,
         "Range",
         "stash_type:i=1",
         {{0, "", {1}}, {0, "", {2}}, {0, "", {0.5}}},
         NULL,
         {0, "2", {1, 1.5}}},
        {28,
         "SwiGLU",
         "",
         {{0, "2", {0, 2}}, {0, "2", {3, 4}}},
         NULL,
         {0, "2", {0, 8 * 0.88079707797788243}}},
        {6,
         "Gemm",
         "broadcast:i=1",
         {{0, "1,2", {1, 2}}, {0, "2,2", {1, 2, 3, 4}}, {0, "2", {10, 20}}},
         NULL,
         {0, "1,2", {17, 30}}},
    };
    RUN(examples)
}

static void softmax(void **state)
{
    (void)state;
    const double l2 = log(2.0), l3 = log(3.0), l4 = log(4.0);
    const example_t examples[] = {
        /* default axis 1: each row of the batch as a whole */
        {11,
         "Softmax",
         "",
         {{0, "2,2,2", {0, l2, l3, l4, 0, 0, 0, 0}}},
         NULL,
         {0, "2,2,2", {0.1, 0.2, 0.3, 0.4, 0.25, 0.25, 0.25, 0.25}}},
        {13, "Softmax", "", {{0, "1,2,2", {0, l3, 0, 0}}}, NULL, {0, "1,2,2", {0.25, 0.75, 0.5, 0.5}}},
        {11, "Softmax", "axis:i=0", {{0, "2,2", {0, l2, l3, l4}}}, NULL, {0, "2,2", {0.1, 0.2, 0.3, 0.4}}},
        {11, "Softmax", "axis:i=-1", {{0, "2,2", {0, l3, 0, 0}}}, NULL, {0, "2,2", {0.25, 0.75, 0.5, 0.5}}},
        /* only one dim behind the axis is not 1 */
        {11, "Softmax", "", {{0, "1,2,1", {0, l3}}}, NULL, {0, "1,2,1", {0.25, 0.75}}},
        {11,
         "Softmax",
         "axis:i=1",
         {{0, "2,1,2", {0, l3, 0, 0}}},
         NULL,
         {0, "2,1,2", {0.25, 0.75, 0.5, 0.5}}},
        {11, "Softmax", "axis:i=2", {{0, "2,2", {1, 2, 3, 4}}}, NULL, {0, "2,2", {1, 1, 1, 1}}},
        {11, "Softmax", "", {{0, "0,2,2", {0}}}, NULL, {0, "0,2,2", {0}}},
        {11,
         "LogSoftmax",
         "",
         {{0, "1,2,2", {0, l2, l3, l4}}},
         NULL,
         {0, "1,2,2", {log(0.1), log(0.2), log(0.3), log(0.4)}}},
        {11, "Hardmax", "", {{0, "1,2,2", {1, 4, 3, 2}}}, NULL, {0, "1,2,2", {0, 1, 0, 0}}},
        {13, "Hardmax", "", {{0, "1,2,2", {1, 4, 3, 2}}}, NULL, {0, "1,2,2", {0, 1, 1, 0}}},
    };
    RUN(examples)
}

static void normalisation(void **state)
{
    (void)state;
    static const example_t examples[] = {
        {6,
         "BatchNormalization",
         "is_test:i=1 epsilon:f=0",
         {{0, "1,2,2", {1, 3, 10, 30}},
          {0, "2", {2, 3}},
          {0, "2", {0.5, 1}},
          {0, "2", {2, 20}},
          {0, "2", {1, 100}}},
         NULL,
         {0, "1,2,2", {-1.5, 2.5, -2, 4}}},
        {9,
         "BatchNormalization",
         "epsilon:f=0",
         {{0, "1,2,2", {1, 3, 10, 30}},
          {0, "2", {2, 3}},
          {0, "2", {0.5, 1}},
          {0, "2", {2, 20}},
          {0, "2", {1, 100}}},
         NULL,
         {0, "1,2,2", {-1.5, 2.5, -2, 4}}},
        /* every element of a row has its own statistics */
        {7,
         "BatchNormalization",
         "spatial:i=0 epsilon:f=0",
         {{0, "2,1,2", {1, 10, 3, 30}},
          {0, "1,2", {2, 3}},
          {0, "1,2", {0.5, 1}},
          {0, "1,2", {2, 20}},
          {0, "1,2", {1, 100}}},
         NULL,
         {0, "2,1,2", {-1.5, -2, 2.5, 4}}},
        /* one scale and bias per group of two channels */
        {18,
         "GroupNormalization",
         "num_groups:i=2 epsilon:f=0",
         {{0, "1,4,1", {1, 3, 10, 30}}, {0, "2", {2, 3}}, {0, "2", {0.5, 1}}},
         NULL,
         {0, "1,4,1", {-1.5, 2.5, -2, 4}}},
        {17,
         "SimplifiedLayerNormalization",
         "epsilon:f=0 axis:i=-1",
         {{0, "1,2", {1, 7}}, {0, "2", {1, 10}}},
         NULL,
         {0, "1,2", {0.2, 14}}},
        {1, "GlobalLpPool", "p:f=2", {{0, "1,1,2,2", {3, 4, 0, 0}}}, NULL, {0, "1,1,1,1", {5}}},
        {1,
         "LpPool",
         "p:f=1 kernel_shape:is=2,2",
         {{0, "1,1,2,2", {3, -4, 0, 0}}},
         NULL,
         {0, "1,1,1,1", {7}}},
    };
    RUN(examples)
}

static void movement(void **state)
{
    (void)state;
    static const example_t examples[] = {
        {1, "Pad", "paddings:is=1,2 value:f=9", {{0, "2", {1, 2}}}, NULL, {0, "5", {9, 1, 2, 9, 9}}},
        {2, "Pad", "pads:is=1,1 mode:s=reflect", {{0, "3", {1, 2, 3}}}, NULL, {0, "5", {2, 1, 2, 3, 2}}},
        {10, "Pad", "pads:is=0,1", {{0, "2", {1, 2}}}, NULL, {0, "3", {1, 2, 0}}},
        {3, "Concat", "", {{0, "1,2", {1, 2}}, {0, "1,1", {3}}}, NULL, {0, "1,3", {1, 2, 3}}},
        {1, "Tile", "", {{0, "1,2", {1, 2}}, {0, "", {2}}, {0, "", {1}}}, NULL, {0, "1,4", {1, 2, 1, 2}}},
        {9,
         "Scatter",
         "axis:i=0",
         {{0, "3", {1, 2, 3}}, {ONNX_INT64, "1", {1}}, {0, "1", {5}}},
         NULL,
         {0, "3", {1, 5, 3}}},
        {11, "Unsqueeze", "axes:is=0,2", {{0, "2", {1, 2}}}, NULL, {0, "1,2,1", {1, 2}}},
        {1, "Squeeze", "axes:is=0", {{0, "1,2", {1, 2}}}, NULL, {0, "2", {1, 2}}},
        {1, "Reshape", "shape:is=2,-1 consumed_inputs:is=0", {{0, "1,2", {1, 2}}}, NULL, {0, "2,1", {1, 2}}},
        {1, "Slice", "starts:is=1 ends:is=3 axes:is=0", {{0, "4", {1, 2, 3, 4}}}, NULL, {0, "2", {2, 3}}},
        {1, "TopK", "k:i=2", {{0, "4", {1, 4, 3, 2}}}, "y,indices", {0, "2", {4, 3}}},
        {10, "TopK", "", {{0, "4", {1, 4, 3, 2}}, {ONNX_INT64, "1", {1}}}, "y,indices", {0, "1", {4}}},
        {2, "Split", "split:is=1,3", {{0, "4", {1, 2, 3, 4}}}, "first,y", {0, "3", {2, 3, 4}}},
        {11, "ReduceSum", "axes:is=1 keepdims:i=0", {{0, "2,2", {1, 2, 3, 4}}}, NULL, {0, "2", {3, 7}}},
        {13, "ReduceMax", "axes:is=0", {{0, "2,2", {1, 2, 3, 0}}}, NULL, {0, "1,2", {3, 2}}},
        {28,
         "SpaceToDepth",
         "blocksize:i=2 mode:s=CRD",
         {{0, "1,2,2,2", {1, 2, 3, 4, 5, 6, 7, 8}}},
         NULL,
         {0, "1,8,1,1", {1, 2, 3, 4, 5, 6, 7, 8}}},
        {28,
         "SpaceToDepth",
         "blocksize:i=2 mode:s=DCR",
         {{0, "1,2,2,2", {1, 2, 3, 4, 5, 6, 7, 8}}},
         NULL,
         {0, "1,8,1,1", {1, 5, 2, 6, 3, 7, 4, 8}}},
        {28,
         "SpaceToDepth",
         "blocksize:i=2 mode:s=CRD",
         {{0, "1,1,2,4", {1, 2, 3, 4, 5, 6, 7, 8}}},
         NULL,
         {0, "1,4,1,2", {1, 3, 2, 4, 5, 7, 6, 8}}},
    };
    RUN(examples)
}

static void resize(void **state)
{
    (void)state;
    static const example_t examples[] = {
        {1,
         "Upsample",
         "height_scale:f=2 width_scale:f=1",
         {{0, "1,1,2,1", {1, 2}}},
         NULL,
         {0, "1,1,4,1", {1, 1, 2, 2}}},
        {7,
         "Upsample",
         "scales:fs=1,1,1,2 mode:s=linear",
         {{0, "1,1,1,2", {0, 4}}},
         NULL,
         {0, "1,1,1,4", {0, 2, 4, 4}}},
        {9,
         "Upsample",
         "",
         {{0, "1,1,1,2", {1, 2}}, {0, "4", {1, 1, 1, 1.5}}},
         NULL,
         {0, "1,1,1,3", {1, 1, 2}}},
        {10,
         "Resize",
         "",
         {{0, "1,1,1,2", {1, 2}}, {0, "4", {1, 1, 1, 2}}},
         NULL,
         {0, "1,1,1,4", {1, 1, 2, 2}}},
        /* shrinking takes the column above: 0 and 1 / 0.6 = 1.67 */
        {10,
         "Resize",
         "",
         {{0, "1,1,1,4", {1, 2, 3, 4}}, {0, "4", {1, 1, 1, 0.6}}},
         NULL,
         {0, "1,1,1,2", {1, 3}}},
        {10,
         "Resize",
         "mode:s=linear",
         {{0, "1,1,1,4", {1, 2, 3, 4}}, {0, "4", {1, 1, 1, 0.5}}},
         NULL,
         {0, "1,1,1,2", {1, 3}}},
        /* tensors without elements are not there */
        {11,
         "Resize",
         "coordinate_transformation_mode:s=asymmetric nearest_mode:s=floor",
         {{0, "1,1,1,2", {1, 2}}, {0, "0", {0}}, {0, "0", {0}}, {ONNX_INT64, "4", {1, 1, 1, 4}}},
         NULL,
         {0, "1,1,1,4", {1, 1, 2, 2}}},
        {11,
         "Resize",
         "coordinate_transformation_mode:s=asymmetric nearest_mode:s=floor",
         {{0, "1,1,1,2", {1, 2}}, {0, "8", {0}}, {0, "4", {1, 1, 1, 2}}},
         NULL,
         {0, "1,1,1,4", {1, 1, 2, 2}}},
    };
    RUN(examples)
}

static void microsoft(void **state)
{
    (void)state;
    const double half = 0.5 * (1 + erf(sqrt(0.5))); /* Gelu(1) */
    const double fast = 0.5 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * 1.044715));
    const example_t examples[] = {
        {17, "com.microsoft:Gelu", "", {{0, "2", {0, 1}}}, NULL, {0, "2", {0, half}}},
        {17,
         "com.microsoft:BiasGelu",
         "",
         {{0, "1,2", {-1, 2}}, {0, "2", {1, -1}}},
         NULL,
         {0, "1,2", {0, half}}},
        {17, "com.microsoft:FastGelu", "", {{0, "2", {0, 1}}}, NULL, {0, "2", {0, fast}}},
        {17,
         "com.microsoft:FastGelu",
         "",
         {{0, "1,2", {-1, 2}}, {0, "2", {1, -1}}},
         NULL,
         {0, "1,2", {0, fast}}},
        {17,
         "com.microsoft:QuickGelu",
         "alpha:f=2",
         {{0, "2", {0, 1}}},
         NULL,
         {0, "2", {0, 0.88079707797788243}}},
        {17,
         "com.microsoft:FusedMatMul",
         "transA:i=1 alpha:f=2",
         {{0, "2,1", {1, 2}}, {0, "2,2", {1, 2, 3, 4}}},
         NULL,
         {0, "1,2", {14, 20}}},
        {17,
         "com.microsoft:TransposeMatMul",
         "transB:i=1",
         {{0, "1,2", {1, 2}}, {0, "2,2", {1, 2, 3, 4}}},
         NULL,
         {0, "1,2", {5, 11}}},
        {17,
         "com.microsoft:FusedGemm",
         "activation:s=LeakyRelu activation_alpha:f=0.5",
         {{0, "1,2", {1, 2}}, {0, "2,2", {1, 2, 3, 4}}, {0, "2", {-9, 0}}},
         NULL,
         {0, "1,2", {-1, 10}}},
        {17,
         "com.microsoft:SkipLayerNormalization",
         "epsilon:f=0",
         {{0, "1,2", {1, 2}}, {0, "1,2", {0, 2}}, {0, "2", {2, 3}}, {0, "2", {0.5, 1}}},
         NULL,
         {0, "1,2", {-1.5, 4}}},
        {17,
         "com.microsoft:SkipLayerNormalization",
         "epsilon:f=0",
         {{0, "1,2", {1, 2}}, {0, "1,2", {0, 1}}, {0, "2", {2, 3}}, {0, "2", {0.5, 1}}, {0, "2", {0, 1}}},
         ",,,y",
         {0, "1,2", {1, 4}}},
        {17,
         "com.microsoft:SkipSimplifiedLayerNormalization",
         "epsilon:f=0",
         {{0, "1,2", {1, 3}}, {0, "1,2", {0, 4}}, {0, "2", {1, 10}}},
         NULL,
         {0, "1,2", {0.2, 14}}},
    };
    RUN(examples)
}

static void functions(void **state)
{
    (void)state;
    const double l3 = log(3.0);
    const example_t examples[] = {
        {17, "HannWindow", "", {{ONNX_INT64, "", {4}}}, NULL, {0, "4", {0, 0.5, 1, 0.5}}},
        {17, "HannWindow", "periodic:i=0", {{ONNX_INT64, "", {3}}}, NULL, {0, "3", {0, 1, 0}}},
        {17, "HammingWindow", "", {{ONNX_INT64, "", {2}}}, NULL, {0, "2", {4.0 / 46, 1}}},
        {17, "BlackmanWindow", "", {{ONNX_INT64, "", {2}}}, NULL, {0, "2", {0, 1}}},
        {18,
         "CenterCropPad",
         "",
         {{0, "5", {1, 2, 3, 4, 5}}, {ONNX_INT64, "1", {2}}},
         NULL,
         {0, "2", {2, 3}}},
        {18,
         "CenterCropPad",
         "axes:is=-1",
         {{0, "1,3", {1, 2, 3}}, {ONNX_INT64, "1", {6}}},
         NULL,
         {0, "1,6", {0, 1, 2, 3, 0, 0}}},
        {18,
         "CenterCropPad",
         "",
         {{0, "2,2", {1, 2, 3, 4}}, {ONNX_INT64, "2", {1, 3}}},
         NULL,
         {0, "1,3", {1, 2, 0}}},
        /* two halves, or neighbours, are turned */
        {23,
         "RotaryEmbedding",
         "",
         {{0, "1,1,1,4", {1, 2, 3, 4}}, {0, "1,1,2", {0, 1}}, {0, "1,1,2", {1, 0}}},
         NULL,
         {0, "1,1,1,4", {-3, 2, 1, 4}}},
        {23,
         "RotaryEmbedding",
         "interleaved:i=1",
         {{0, "1,1,1,4", {1, 2, 3, 4}}, {0, "1,1,2", {0, 1}}, {0, "1,1,2", {1, 0}}},
         NULL,
         {0, "1,1,1,4", {-2, 1, 3, 4}}},
        {23,
         "RotaryEmbedding",
         "num_heads:i=2 rotary_embedding_dim:i=2",
         {{0, "1,1,6", {1, 2, 3, 4, 5, 6}}, {0, "2,1", {9, 0}}, {0, "2,1", {9, 1}}, {ONNX_INT64, "1,1", {1}}},
         NULL,
         {0, "1,1,6", {-2, 1, 3, -5, 4, 6}}},
        {13,
         "NegativeLogLikelihoodLoss",
         "",
         {{0, "2,3", {1, 2, 3, 4, 5, 6}}, {ONNX_INT64, "2", {2, 0}}},
         NULL,
         {0, "", {-3.5}}},
        {13,
         "NegativeLogLikelihoodLoss",
         "reduction:s=none",
         {{0, "2,3", {1, 2, 3, 4, 5, 6}}, {ONNX_INT64, "2", {2, 0}}, {0, "3", {10, 1, 2}}},
         NULL,
         {0, "2", {-6, -40}}},
        {13,
         "NegativeLogLikelihoodLoss",
         "",
         {{0, "2,3", {1, 2, 3, 4, 5, 6}}, {ONNX_INT64, "2", {2, 0}}, {0, "3", {10, 1, 2}}},
         NULL,
         {0, "", {-46.0 / 12}}},
        {13,
         "NegativeLogLikelihoodLoss",
         "ignore_index:i=-7",
         {{0, "2,3", {1, 2, 3, 4, 5, 6}}, {ONNX_INT64, "2", {2, -7}}},
         NULL,
         {0, "", {-3}}},
        {13,
         "SoftmaxCrossEntropyLoss",
         "reduction:s=sum",
         {{0, "1,2", {0, l3}}, {ONNX_INT64, "1", {1}}},
         NULL,
         {0, "", {-log(0.75)}}},
        {13,
         "SoftmaxCrossEntropyLoss",
         "",
         {{0, "1,2", {0, l3}}, {ONNX_INT64, "1", {1}}},
         "loss,y",
         {0, "1,2", {log(0.25), log(0.75)}}},
    };
    RUN(examples)
}

/* Scores of 0 and ln 3 weigh 1/4 and 3/4. */
static void attention(void **state)
{
    (void)state;
    const double l3 = log(3.0);
    const operand_t k = {0, "1,1,2,1", {0, l3}}, v = {0, "1,1,2,1", {10, 30}}, q = {0, "1,1,1,1", {1}};
    const example_t examples[] = {
        {23, "Attention", "", {q, k, v}, NULL, {0, "1,1,1,1", {25}}},
        {23, "Attention", "scale:f=0", {q, k, v}, NULL, {0, "1,1,1,1", {20}}},
        {23, "Attention", "", {q, k, v, {0, "1,2", {l3, 0}}}, NULL, {0, "1,1,1,1", {20}}},
        {23, "Attention", "", {q, k, v, {0, "1,2", {0, -INFINITY}}}, NULL, {0, "1,1,1,1", {10}}},
        {23, "Attention", "", {q, k, v, {0, "1,2", {-INFINITY, -INFINITY}}}, NULL, {0, "1,1,1,1", {0}}},
        {23, "Attention", "is_causal:i=1", {{0, "1,1,2,1", {1, 1}}, k, v}, NULL, {0, "1,1,2,1", {10, 25}}},
        {25,
         "Attention",
         "left_window_size:i=0 right_window_size:i=0",
         {{0, "1,1,2,1", {1, 1}}, k, v},
         NULL,
         {0, "1,1,2,1", {10, 30}}},
        /* one key head serves both query heads */
        {23, "Attention", "", {{0, "1,2,1,1", {1, 0}}, k, v}, NULL, {0, "1,2,1,1", {25, 20}}},
        /* heads inside the last dim */
        {23,
         "Attention",
         "q_num_heads:i=2 kv_num_heads:i=2",
         {{0, "1,1,2", {1, 0}}, {0, "1,2,2", {0, 5, l3, 5}}, {0, "1,2,2", {10, 1, 30, 3}}},
         NULL,
         {0, "1,1,2", {25, 2}}},
        {23, "Attention", "", {q, k, v}, "out,,,y", {0, "1,1,1,2", {0, l3}}},
        {23, "Attention", "qk_matmul_output_mode:i=3", {q, k, v}, "out,,,y", {0, "1,1,1,2", {0.25, 0.75}}},
        {23,
         "Attention",
         "softcap:f=2 qk_matmul_output_mode:i=1",
         {q, k, v},
         "out,,,y",
         {0, "1,1,1,2", {0, 2 * tanh(l3 / 2)}}},
    };
    RUN(examples)
}

/* Convolutions are not computed while importing: the nodes are looked at. */
static void a_fused_convolution_is_taken_apart(void **state)
{
    (void)state;
    static const wf_op_t expected[] = {WF_OP_CONV, WF_OP_ADD, WF_OP_CLIP};
    static const float weights[4] = {1, 2, 3, 4};
    onnx_writer_t writer;
    wf_onnx_model_t *model;
    wf_graph_t *graph;
    onnx_writer_init(&writer, 8, 17);
    onnx_writer_import(&writer, "com.microsoft", 1);
    onnx_writer_input(&writer, "x", ONNX_FLOAT, "1,1,3,3");
    onnx_writer_input(&writer, "z", ONNX_FLOAT, "1,1,2,2");
    onnx_writer_floats(&writer, "w", "1,1,2,2", weights, 4);
    onnx_writer_node(&writer, "com.microsoft:FusedConv", "x,w,,z", "y",
                     "activation:s=Clip activation_params:fs=-1,6 kernel_shape:is=2,2");
    onnx_writer_output(&writer, "y", ONNX_FLOAT, NULL);
    const onnx_bytes_t *file = onnx_writer_finish(&writer);
    wf_assert_ok(wf_onnx_open_bytes(file->data, file->bytes, wf_allocator_system(), &model));
    wf_assert_ok(wf_onnx_to_graph(model, NULL, 0, wf_allocator_system(), &graph));
    assert_int_equal(graph->order.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(wf_graph_node(graph, graph->order.items[i])->op, expected[i]);
    }
    const wf_node_t *clip = wf_graph_node(graph, graph->order.items[2]);
    assert_true(wf_attrs_float(&clip->attrs, "min", 0) == -1 && wf_attrs_float(&clip->attrs, "max", 0) == 6);
    wf_graph_destroy(graph);
    wf_onnx_close(model);
    onnx_writer_deinit(&writer);
}

/* Every form of Constant. */
static void constants(void **state)
{
    (void)state;
    static const struct {
        const char *attrs;
        wf_dtype_t dtype;
        uint32_t rank;
        int64_t count;
        double first;
    } rows[] = {
        {"value_int:i=7", WF_DTYPE_I64, 0, 1, 7},     {"value_float:f=0.5", WF_DTYPE_F32, 0, 1, 0.5},
        {"value_ints:is=3,4", WF_DTYPE_I64, 1, 2, 3}, {"value_floats:fs=1.5,2,3", WF_DTYPE_F32, 1, 3, 1.5},
        {"value_ints:is=", WF_DTYPE_I64, 1, 0, 0},    {NULL, WF_DTYPE_F32, 2, 2, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static const float values[2] = {1, 2};
        onnx_writer_t writer;
        wf_onnx_model_t *model;
        wf_graph_t *graph;
        onnx_writer_init(&writer, 8, 17);
        onnx_bytes_t node = onnx_node("Constant", "", "y", rows[i].attrs != NULL ? rows[i].attrs : "");
        if (rows[i].attrs == NULL) {
            onnx_bytes_t tensor = onnx_raw_tensor("", ONNX_FLOAT, "1,2", values, sizeof values);
            onnx_node_add_tensor(&node, "value", &tensor);
        }
        onnx_put_message(&writer.graph, ONNX_GRAPH_NODE, &node);
        onnx_writer_output(&writer, "y", ONNX_FLOAT, NULL);
        const onnx_bytes_t *file = onnx_writer_finish(&writer);
        wf_assert_ok(wf_onnx_open_bytes(file->data, file->bytes, wf_allocator_system(), &model));
        wf_assert_ok(wf_onnx_to_graph(model, NULL, 0, wf_allocator_system(), &graph));
        wf_tensor_t tensor = result_of(graph);
        double first;
        assert_int_equal(tensor.type.dtype, rows[i].dtype);
        assert_int_equal(tensor.type.rank, rows[i].rank);
        assert_int_equal(wf_type_elems(&tensor.type), rows[i].count);
        if (rows[i].count > 0) {
            assert_true(wf_constant_get(&tensor, 0, &first) && first == rows[i].first);
        }
        wf_graph_destroy(graph);
        wf_onnx_close(model);
        onnx_writer_deinit(&writer);
    }
}

/* Old forms without an equivalent are refused with the reason. */
static void what_has_no_equivalent_is_refused(void **state)
{
    (void)state;
    static const struct {
        example_t example;
        const char *word;
    } rows[] = {
        {{9,
          "BatchNormalization",
          "",
          {{0, "1,1", {1}}, {0, "1", {1}}, {0, "1", {1}}, {0, "1", {1}}, {0, "1", {1}}},
          "y,mean,var",
          {0, "", {0}}},
         "training"},
        {{10, "Dropout", "", {{0, "2", {1, 2}}}, "x,y", {0, "", {0}}}, "mask"},
        {{5, "Cast", "to:s=COMPLEX64", {{0, "2", {1, 2}}}, NULL, {0, "", {0}}}, "COMPLEX64"},
        {{10, "Resize", "", {{0, "1,1,2,2", {1, 2, 3, 4}}, {0, "4", {1, 1, 2, 0.5}}}, NULL, {0, "", {0}}},
         "enlarges"},
        {{11,
          "Resize",
          "coordinate_transformation_mode:s=tf_half_pixel_for_nn",
          {{0, "1,1,1,2", {1, 2}}, {0, "0", {0}}, {0, "4", {1, 1, 1, 2}}},
          NULL,
          {0, "", {0}}},
         "tf_half_pixel_for_nn"},
        {{1, "LpPool", "p:f=2.5 kernel_shape:is=1,1", {{0, "1,1,1,1", {1}}}, NULL, {0, "", {0}}}, "2.5"},
        {{17,
          "com.microsoft:FusedGemm",
          "activation:s=Mystery",
          {{0, "1,1", {1}}, {0, "1,1", {1}}},
          NULL,
          {0, "", {0}}},
         "Mystery"},
        {{17,
          "com.microsoft:SkipLayerNormalization",
          "",
          {{0, "1,2", {1, 2}}, {0, "1,2", {0, 2}}, {0, "2", {2, 3}}},
          "x,y",
          {0, "", {0}}},
         "training"},
        {{27, "Range", "stash_type:i=10", {{0, "", {1}}, {0, "", {2}}, {0, "", {0.5}}}, NULL, {0, "", {0}}},
         "stash_type"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        onnx_writer_t writer;
        wf_onnx_model_t *model;
        wf_graph_t *graph;
        write_example(&writer, &rows[i].example);
        const onnx_bytes_t *file = onnx_writer_finish(&writer);
        wf_assert_ok(wf_onnx_open_bytes(file->data, file->bytes, wf_allocator_system(), &model));
        wf_status_t status = wf_onnx_to_graph(model, NULL, 0, wf_allocator_system(), &graph);
        if (wf_status_code(status) != WF_CODE_MODEL_UNSUPPORTED ||
            strstr(wf_status_message(status), rows[i].word) == NULL) {
            fail_msg("row %zu: WF-%04d %s", i, (int)wf_status_code(status), wf_status_message(status));
        }
        wf_status_free(status);
        wf_onnx_close(model);
        onnx_writer_deinit(&writer);
    }
}

/* The table itself: neighbours, ranges that do not overlap, a rewrite or a reason in every row. */
static void the_table_is_in_order(void **state)
{
    (void)state;
    size_t count;
    const wf_rule_t *rules = wf_rules(&count);
    assert_true(count > 100);
    for (size_t i = 0; i < count; i++) {
        assert_true((rules[i].fn != NULL) != (rules[i].refusal != NULL));
        assert_true(rules[i].since <= rules[i].until);
        for (size_t k = 0; k < i; k++) { /* so i > 0 below */
            bool same = strcmp(rules[i].name, rules[k].name) == 0;
            if (same && strcmp(rules[i].name, rules[i - 1].name) != 0) {
                fail_msg("rows of %s are not neighbours", rules[i].name);
            }
            if (same && strcmp(rules[i].domain, rules[k].domain) == 0 && rules[k].until >= rules[i].since) {
                fail_msg("rows of %s overlap", rules[i].name);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(softmax),
        cmocka_unit_test(normalisation),
        cmocka_unit_test(movement),
        cmocka_unit_test(resize),
        cmocka_unit_test(functions),
        cmocka_unit_test(attention),
        cmocka_unit_test(microsoft),
        cmocka_unit_test(a_fused_convolution_is_taken_apart),
        cmocka_unit_test(constants),
        cmocka_unit_test(what_has_no_equivalent_is_refused),
        cmocka_unit_test(the_table_is_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
