/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_gelu: Gelu from what exporters write for it.
 *
 *   0.5 * x * (1 + erf(x / sqrt 2))                                exact form
 *   0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))        tanh form
 *
 * The product is taken in any order, 0.5 may stand anywhere in it or inside the sum, and the function's
 * argument is compared as a polynomial in x, so that every way of writing x^3 or x / sqrt 2 is the same. */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

static const struct gelu_form {
    wf_op_t function;
    double argument[WF_POLY_TERMS]; /* of x */
    const char *approximate;
} forms[] = {
    {WF_OP_ERF, {0.0, 0.70710678118654752440, 0.0, 0.0, 0.0}, "none"},
    {WF_OP_TANH, {0.0, 0.79788456080286535588, 0.0, 0.79788456080286535588 * 0.044715, 0.0}, "tanh"},
};

/* The function node inside `factor` = c + c * function(..), c times `coefficient` being one half. */
static const wf_node_t *match_gate(const wf_graph_t *graph, wf_value_id factor, double coefficient,
                                   wf_op_t function)
{
    wf_poly_t gate;
    wf_dtype_t dtype = wf_value_type(graph, factor)->dtype;
    const wf_node_t *sum = wf_match_inner(graph, factor, WF_OP_ADD);
    if (sum == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < 2; i++) {
        wf_value_id leaf = sum->inputs[i];
        /* c * function(..): the function is a step further. */
        const wf_node_t *scaled = wf_match_inner(graph, leaf, WF_OP_MUL);
        double scalar;
        wf_value_id x;
        if (scaled != NULL && wf_match_with_scalar(graph, scaled, &x, &scalar)) {
            leaf = x;
        }
        const wf_node_t *node = wf_match_inner(graph, leaf, function);
        if (node != NULL && wf_match_poly(graph, factor, leaf, &gate) && gate.c[2] == 0.0 &&
            wf_match_near(dtype, gate.c[0] * coefficient, 0.5) &&
            wf_match_near(dtype, gate.c[1] * coefficient, 0.5)) {
            return node;
        }
    }
    return NULL;
}

static bool is_argument(const wf_graph_t *graph, wf_value_id argument, wf_value_id x, const double *wanted)
{
    wf_poly_t poly;
    wf_dtype_t dtype = wf_value_type(graph, x)->dtype;
    if (!wf_match_poly(graph, argument, x, &poly)) {
        return false;
    }
    for (int i = 0; i < WF_POLY_TERMS; i++) {
        if (!wf_match_near(dtype, poly.c[i], wanted[i])) {
            return false;
        }
    }
    return true;
}

static const struct gelu_form *match(const wf_graph_t *graph, const wf_node_t *root, wf_value_id *out_x)
{
    wf_product_t product;
    if (!wf_match_product(graph, root, &product) || product.count != 2) {
        return NULL;
    }
    for (size_t i = 0; i < WF_COUNT_OF(forms); i++) {
        for (uint32_t j = 0; j < 2; j++) {
            wf_value_id x = product.factors[1 - j];
            const wf_node_t *function =
                match_gate(graph, product.factors[j], product.coefficient, forms[i].function);
            if (function != NULL && is_argument(graph, function->inputs[0], x, forms[i].argument) &&
                wf_type_equal(wf_value_type(graph, x), wf_value_type(graph, root->outputs[0]))) {
                *out_x = x;
                return &forms[i];
            }
        }
    }
    return NULL;
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    wf_value_id x;
    const struct gelu_form *form = match(graph, wf_graph_node(graph, id), &x);
    (void)arg;
    if (form == NULL) {
        return WF_OK;
    }
    wf_attr_t attr = wf_attr_string("approximate", form->approximate);
    wf_node_spec_t spec = {.op = WF_OP_GELU, .attrs = &attr, .attr_count = 1, .inputs = &x, .input_count = 1};
    WF_TRY(wf_join_names(graph, id, &x, 1, &spec.onnx_names));
    (*changes)++;
    return wf_graph_change_node(graph, id, &spec);
}

WF_PASS(fuse_gelu)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
