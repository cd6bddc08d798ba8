/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_canonical: a matrix times a constant matrix has one form, so that tactics see one kind:
 *
 *   Gemm(x[M,K], w[K,N], bias[N] or none) with alpha = beta = 1, nothing transposed.
 *
 * MatMul of a matrix by a constant matrix becomes it; a bias per column added after it moves in; a transposed
 * constant is turned once here (a copy of the weight, whose original pages are not read again); alpha and
 * beta go into the constants; what is added but is no bias per column becomes an Add. Products of x with more
 * dims stay MatMul and Add. Gemm of two computed matrices without further terms becomes MatMul. */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

typedef struct gemm {
    wf_value_id x, weight, addend;
    double alpha, beta;
    bool x_turned, weight_turned;
    int64_t columns;
    wf_type_t type;
} gemm_t;

static gemm_t read_gemm(const wf_graph_t *graph, const wf_node_t *node)
{
    gemm_t gemm = {.x = node->inputs[0],
                   .weight = node->inputs[1],
                   .addend = wf_node_input(node, 2),
                   .alpha = (double)wf_attrs_float(&node->attrs, "alpha", 1.0f),
                   .beta = (double)wf_attrs_float(&node->attrs, "beta", 1.0f),
                   .x_turned = wf_attrs_int(&node->attrs, "transA", 0) != 0,
                   .weight_turned = wf_attrs_int(&node->attrs, "transB", 0) != 0,
                   .type = *wf_value_type(graph, node->outputs[0])};
    gemm.columns = gemm.type.dims[1];
    return gemm;
}

static bool is_arithmetic_type(wf_dtype_t dtype)
{
    return dtype == WF_DTYPE_F32 || dtype == WF_DTYPE_F64;
}

/* A constant times a number, as a new constant. */
static wf_status_t scaled_constant(wf_graph_t *graph, wf_value_id value, double factor,
                                   wf_value_id *out_value)
{
    wf_tensor_t from, to;
    (void)wf_graph_constant(graph, value, &from);
    WF_TRY(wf_emit_constant(graph, wf_graph_value(graph, value)->name, &from.type, &to, out_value));
    int64_t elems = wf_type_elems(&from.type);
    for (int64_t i = 0; i < elems; i++) {
        double element = 0.0;
        (void)wf_constant_get(&from, i, &element);
        (void)wf_constant_set(&to, i, element * factor);
    }
    return WF_OK;
}

static bool is_column_bias(const wf_graph_t *graph, wf_value_id value, const wf_type_t *type)
{
    wf_tensor_t tensor;
    return wf_graph_constant(graph, value, &tensor) && tensor.type.rank <= 2 &&
           (tensor.type.rank < 2 || tensor.type.dims[0] == 1) &&
           (tensor.type.rank == 0 || tensor.type.dims[tensor.type.rank - 1] == 1 ||
            tensor.type.dims[tensor.type.rank - 1] == type->dims[type->rank - 1]);
}

/* The bias as a vector of one element per column, times beta. */
static wf_status_t column_bias(wf_graph_t *graph, wf_value_id value, double beta, int64_t columns,
                               wf_value_id *out_bias)
{
    wf_tensor_t from, to;
    (void)wf_graph_constant(graph, value, &from);
    wf_type_t type = {.dtype = from.type.dtype, .rank = 1, .dims = {columns}};
    if (beta == 1.0 && wf_type_elems(&from.type) == columns) {
        return wf_emit_reshaped_constant(graph, value, &type, out_bias);
    }
    bool one = wf_type_elems(&from.type) == 1;
    WF_TRY(wf_emit_constant(graph, wf_graph_value(graph, value)->name, &type, &to, out_bias));
    for (int64_t i = 0; i < columns; i++) {
        double element = 0.0;
        (void)wf_constant_get(&from, one ? 0 : i, &element);
        (void)wf_constant_set(&to, i, element * beta);
    }
    return WF_OK;
}

/* The node becomes Gemm(x, weight, bias) in canonical form. */
static wf_status_t put_gemm(wf_graph_t *graph, wf_node_id id, wf_value_id x, wf_value_id weight,
                            wf_value_id bias, const char *onnx_names)
{
    wf_value_id inputs[3] = {x, weight, bias};
    wf_node_spec_t spec = {.op = WF_OP_GEMM, .inputs = inputs, .input_count = 3, .onnx_names = onnx_names};
    return wf_graph_change_node(graph, id, &spec);
}

/* ---- Gemm with a constant matrix ---- */

static bool is_canonical(const wf_graph_t *graph, const gemm_t *gemm)
{
    bool plain = gemm->alpha == 1.0 && gemm->beta == 1.0 && !gemm->weight_turned;
    return plain &&
           (gemm->addend == WF_NO_VALUE || (is_column_bias(graph, gemm->addend, &gemm->type) &&
                                            wf_value_type(graph, gemm->addend)->rank == 1 &&
                                            wf_value_type(graph, gemm->addend)->dims[0] == gemm->columns));
}

static wf_status_t canonical_weight(wf_graph_t *graph, const gemm_t *gemm, const wf_parallel_t *parallel,
                                    wf_value_id *out_weight)
{
    static const int64_t turned[2] = {1, 0};
    *out_weight = gemm->weight;
    if (gemm->alpha != 1.0) {
        WF_TRY(scaled_constant(graph, *out_weight, gemm->alpha, out_weight));
    }
    if (gemm->weight_turned) {
        WF_TRY(wf_emit_permuted_constant(graph, *out_weight, turned, parallel, out_weight));
    }
    return WF_OK;
}

/* addend times beta, as a value to add. */
static wf_status_t scaled_addend(wf_graph_t *graph, const gemm_t *gemm, const char *onnx_names,
                                 wf_value_id *out_value)
{
    wf_value_id factor;
    wf_type_t scalar = {.dtype = gemm->type.dtype, .rank = 0};
    *out_value = gemm->addend;
    if (gemm->beta == 1.0) {
        return WF_OK;
    }
    if (wf_graph_value(graph, gemm->addend)->constant != NULL) {
        return scaled_constant(graph, gemm->addend, gemm->beta, out_value);
    }
    const char *name = wf_graph_value(graph, gemm->addend)->name;
    WF_TRY(wf_emit_doubles(graph, name, &scalar, &gemm->beta, &factor));
    return wf_emit_binary(graph, WF_OP_MUL, gemm->addend, factor, onnx_names, name, out_value);
}

static wf_status_t canonical_gemm(wf_graph_t *graph, wf_node_id id, const wf_parallel_t *parallel,
                                  uint32_t *changes)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    gemm_t gemm = read_gemm(graph, node);
    const char *onnx_names = node->onnx_names;
    wf_value_id weight, bias = WF_NO_VALUE, addend = WF_NO_VALUE;
    bool scaled = gemm.alpha != 1.0 || (gemm.beta != 1.0 && gemm.addend != WF_NO_VALUE);
    if (gemm.x_turned || is_canonical(graph, &gemm) || (scaled && !is_arithmetic_type(gemm.type.dtype))) {
        return WF_OK;
    }
    (*changes)++;
    WF_TRY(canonical_weight(graph, &gemm, parallel, &weight));
    if (gemm.addend != WF_NO_VALUE && is_column_bias(graph, gemm.addend, &gemm.type)) {
        WF_TRY(column_bias(graph, gemm.addend, gemm.beta, gemm.columns, &bias));
    } else if (gemm.addend != WF_NO_VALUE) {
        WF_TRY(scaled_addend(graph, &gemm, onnx_names, &addend));
    }
    if (addend == WF_NO_VALUE) {
        return put_gemm(graph, id, gemm.x, weight, bias, NULL);
    }
    wf_value_id inputs[2] = {gemm.x, weight}, product;
    wf_node_spec_t spec = {.op = WF_OP_GEMM, .inputs = inputs, .input_count = 2, .onnx_names = onnx_names};
    const char *name = wf_graph_value(graph, wf_graph_node(graph, id)->outputs[0])->name;
    WF_TRY(wf_emit(graph, &spec, name, &product));
    wf_value_id terms[2] = {product, addend};
    wf_node_spec_t sum = {.op = WF_OP_ADD, .inputs = terms, .input_count = 2};
    return wf_graph_change_node(graph, id, &sum);
}

/* Two computed matrices and nothing else. */
static wf_status_t computed_gemm(wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    gemm_t gemm = read_gemm(graph, wf_graph_node(graph, id));
    if (gemm.x_turned || gemm.weight_turned || gemm.alpha != 1.0 || gemm.addend != WF_NO_VALUE) {
        return WF_OK;
    }
    wf_value_id inputs[2] = {gemm.x, gemm.weight};
    wf_node_spec_t spec = {.op = WF_OP_MATMUL, .inputs = inputs, .input_count = 2};
    (*changes)++;
    return wf_graph_change_node(graph, id, &spec);
}

/* ---- MatMul and Add ---- */

static bool is_matrix_by_constant(const wf_graph_t *graph, const wf_node_t *node)
{
    wf_tensor_t weight;
    return node->op == WF_OP_MATMUL && wf_value_type(graph, node->inputs[0])->rank == 2 &&
           wf_graph_constant(graph, node->inputs[1], &weight) && weight.type.rank == 2 &&
           wf_match_tolerance(weight.type.dtype) > 0.0 &&
           wf_graph_value(graph, node->inputs[0])->constant == NULL;
}

/* Add of a bias per column to a Gemm that has none. */
static wf_status_t add_to_gemm(wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    const wf_type_t *type = wf_value_type(graph, node->outputs[0]);
    wf_value_id x, weight, bias;
    const char *onnx_names = NULL;
    const wf_node_t *product = wf_match_inner(graph, node->inputs[0], WF_OP_GEMM);
    if (product == NULL || wf_graph_value(graph, product->inputs[1])->constant == NULL ||
        !is_column_bias(graph, node->inputs[1], type) ||
        !wf_type_equal(type, wf_value_type(graph, node->inputs[0]))) {
        return WF_OK;
    }
    gemm_t gemm = read_gemm(graph, product);
    if (gemm.x_turned || !is_canonical(graph, &gemm) || gemm.addend != WF_NO_VALUE) {
        return WF_OK;
    }
    x = gemm.x;
    weight = gemm.weight;
    WF_TRY(column_bias(graph, node->inputs[1], 1.0, gemm.columns, &bias));
    WF_TRY(wf_join_names(graph, id, &x, 1, &onnx_names));
    (*changes)++;
    return put_gemm(graph, id, x, weight, bias, onnx_names);
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    const wf_parallel_t *const *parallel = arg;
    const wf_node_t *node = wf_graph_node(graph, id);
    switch (node->op) {
    case WF_OP_GEMM:
        if (wf_match_tolerance(wf_value_type(graph, node->inputs[0])->dtype) == 0.0) {
            return WF_OK;
        }
        return wf_graph_value(graph, node->inputs[1])->constant != NULL
                   ? canonical_gemm(graph, id, *parallel, changes)
                   : computed_gemm(graph, id, changes);
    case WF_OP_MATMUL:
        if (!is_matrix_by_constant(graph, node)) {
            return WF_OK;
        }
        (*changes)++;
        return put_gemm(graph, id, node->inputs[0], node->inputs[1], WF_NO_VALUE, NULL);
    case WF_OP_ADD:
        return add_to_gemm(graph, id, changes);
    default:
        return WF_OK;
    }
}

WF_PASS(gemm_canonical)
{
    return wf_visit_nodes(graph, visit, &parallel, out_changes);
}
