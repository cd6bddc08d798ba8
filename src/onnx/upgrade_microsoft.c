/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that ONNX Runtime's optimiser writes into files (domain com.microsoft), taken apart again.
 * Source: the operator documentation of ONNX Runtime (ContribOperators). */
#include <string.h>

#include "base/compiler.h"
#include "onnx/upgrade.h"

/* ---- Activations ---- */

static wf_status_t finish_gelu(wf_upgrade_t *self, wf_value_id x, const char *approximate)
{
    wf_attr_t attr = wf_attr_string("approximate", approximate);
    return wf_up_finish(self, &(wf_up_spec_t){WF_OP_GELU, &attr, 1, &x, 1});
}

WF_UPGRADE(bias_gelu)
{
    wf_value_id sum;
    WF_TRY(wf_up_need_inputs(self, 2));
    WF_TRY(wf_up_binary(self, WF_OP_ADD, self->inputs[0], self->inputs[1], &sum));
    return finish_gelu(self, sum, "none");
}

WF_UPGRADE(fast_gelu)
{
    WF_TRY(wf_up_need_inputs(self, 1));
    wf_value_id x = self->inputs[0];
    if (wf_up_has(self, 1)) {
        WF_TRY(wf_up_binary(self, WF_OP_ADD, x, self->inputs[1], &x));
    }
    return finish_gelu(self, x, "tanh");
}

WF_UPGRADE(quick_gelu)
{
    WF_TRY(wf_up_need_inputs(self, 1));
    wf_attr_t alpha = wf_attr_float("alpha", (double)wf_up_float(self, "alpha", 1.702f));
    return wf_up_finish(self, &(wf_up_spec_t){WF_OP_SWISH, &alpha, 1, self->inputs, 1});
}

/* Activations inside fused operators: names of their parameters, in the order of FusedConv's
 * activation_params. */
static const struct activation {
    const char *name;
    wf_op_t op;
    size_t param_count;
    const char *params[2];
    float defaults[2];
} activations[] = {
    {"Relu", WF_OP_RELU, 0, {NULL}, {0}},
    {"Tanh", WF_OP_TANH, 0, {NULL}, {0}},
    {"Sigmoid", WF_OP_SIGMOID, 0, {NULL}, {0}},
    {"LeakyRelu", WF_OP_LEAKY_RELU, 1, {"alpha"}, {0.01f}},
    {"Clip", WF_OP_CLIP, 2, {"min", "max"}, {0}},
    {"HardSigmoid", WF_OP_HARD_SIGMOID, 2, {"alpha", "beta"}, {0.2f, 0.5f}},
};

/* `given` has `count` parameters; the rest take their defaults. */
static wf_status_t finish_activation(wf_upgrade_t *self, wf_value_id x, const char *name, const float *given,
                                     size_t count)
{
    for (size_t i = 0; i < WF_COUNT_OF(activations); i++) {
        const struct activation *row = &activations[i];
        if (strcmp(row->name, name) != 0) {
            continue;
        }
        if (row->op == WF_OP_CLIP && count < 2) {
            break;
        }
        wf_attr_t attrs[2];
        for (size_t k = 0; k < row->param_count; k++) {
            attrs[k] = wf_attr_float(row->params[k], (double)(k < count ? given[k] : row->defaults[k]));
        }
        return wf_up_finish(self, &(wf_up_spec_t){row->op, attrs, row->param_count, &x, 1});
    }
    return WF_ERROR(MODEL_UNSUPPORTED, "activation \"%s\" with %zu parameters is not supported", name, count);
}

/* ---- Convolution and products ---- */

WF_UPGRADE(fused_conv)
{
    const char *activation = wf_up_string(self, "activation", "");
    const wf_attr_t *params = wf_up_attr(self, "activation_params");
    const float *given = params != NULL ? params->v.floats : NULL;
    size_t given_count = params != NULL ? params->count : 0;
    wf_value_id x;
    WF_TRY(wf_up_need_inputs(self, 2));
    wf_up_drop(self, "activation");
    wf_up_drop(self, "activation_params");
    bool has_sum = wf_up_has(self, 3);
    size_t conv_inputs = WF_MIN(self->input_count, (size_t)3);
    wf_up_spec_t conv = {WF_OP_CONV, self->attrs, self->attr_count, self->inputs, conv_inputs};
    if (activation[0] == '\0' && !has_sum) {
        return wf_up_finish(self, &conv);
    }
    WF_TRY(wf_up_make(self, &conv, &x));
    wf_value_id sum[2] = {x, has_sum ? self->inputs[3] : WF_NO_VALUE};
    if (activation[0] == '\0') {
        return wf_up_finish(self, &(wf_up_spec_t){.op = WF_OP_ADD, .inputs = sum, .input_count = 2});
    }
    if (has_sum) {
        WF_TRY(wf_up_binary(self, WF_OP_ADD, x, sum[1], &x));
    }
    return finish_activation(self, x, activation, given, given_count);
}

WF_UPGRADE(fused_gemm)
{
    static const char *const names[] = {"activation_alpha", "activation_beta", "activation_gamma"};
    const char *activation = wf_up_string(self, "activation", "");
    float given[WF_COUNT_OF(names)];
    size_t given_count = 0;
    wf_value_id x;
    WF_TRY(wf_up_need_inputs(self, 2));
    for (size_t i = 0; i < WF_COUNT_OF(names); i++) {
        if (wf_up_attr(self, names[i]) != NULL && given_count == i) {
            given[given_count++] = wf_up_float(self, names[i], 0.0f);
        }
        wf_up_drop(self, names[i]);
    }
    wf_up_drop(self, "activation");
    wf_up_spec_t gemm = {WF_OP_GEMM, self->attrs, self->attr_count, self->inputs, self->input_count};
    if (activation[0] == '\0') {
        return wf_up_finish(self, &gemm);
    }
    WF_TRY(wf_up_make(self, &gemm, &x));
    return finish_activation(self, x, activation, given, given_count);
}

/* The last two dims exchanged. */
static wf_status_t transpose_matrix(wf_upgrade_t *self, wf_value_id x, wf_value_id *out_value)
{
    wf_type_t type;
    int64_t order[WF_MAX_RANK];
    WF_TRY(wf_up_type_of(self, x, &type));
    if (type.rank < 2) { /* a vector is its own transpose */
        *out_value = x;
        return WF_OK;
    }
    for (uint32_t i = 0; i < type.rank; i++) {
        order[i] = i;
    }
    order[type.rank - 1] = type.rank - 2;
    order[type.rank - 2] = type.rank - 1;
    return wf_up_transpose(self, x, order, type.rank, out_value);
}

WF_UPGRADE(fused_matmul)
{
    wf_type_t type;
    wf_value_id product, factor;
    float alpha = wf_up_float(self, "alpha", 1.0f);
    WF_TRY(wf_up_need_inputs(self, 2));
    if (wf_up_int(self, "transBatchA", 0) != 0 || wf_up_int(self, "transBatchB", 0) != 0) {
        return WF_ERROR(MODEL_UNSUPPORTED, "transBatchA and transBatchB are not supported");
    }
    wf_value_id inputs[2] = {self->inputs[0], self->inputs[1]};
    if (wf_up_int(self, "transA", 0) != 0) {
        WF_TRY(transpose_matrix(self, inputs[0], &inputs[0]));
    }
    if (wf_up_int(self, "transB", 0) != 0) {
        WF_TRY(transpose_matrix(self, inputs[1], &inputs[1]));
    }
    wf_up_spec_t matmul = {.op = WF_OP_MATMUL, .inputs = inputs, .input_count = 2};
    if (alpha == 1.0f) {
        return wf_up_finish(self, &matmul);
    }
    WF_TRY(wf_up_make(self, &matmul, &product));
    WF_TRY(wf_up_type(self, 0, &type));
    WF_TRY(wf_up_scalar(self, type.dtype, (double)alpha, &factor));
    wf_value_id scaled[2] = {product, factor};
    return wf_up_finish(self, &(wf_up_spec_t){.op = WF_OP_MUL, .inputs = scaled, .input_count = 2});
}

/* ---- Normalisation ---- */

/* Inputs x, skip, scale, (LayerNormalization: bias of the result,) bias of the sum; outputs: result, mean,
 * inverse deviation, sum. */
WF_UPGRADE(skip_layer_normalization)
{
    bool simplified = strcmp(self->rule->name, "SkipSimplifiedLayerNormalization") == 0;
    size_t sum_bias = simplified ? 3 : 4;
    wf_value_id sum;
    WF_TRY(wf_up_need_inputs(self, 3));
    for (size_t i = 1; i <= 2 && i < self->output_count; i++) {
        if (self->output_names[i] != NULL) {
            return WF_ERROR(MODEL_UNSUPPORTED, "output %zu is used, it is only defined in training", i);
        }
    }
    WF_TRY(wf_up_binary(self, WF_OP_ADD, self->inputs[0], self->inputs[1], &sum));
    if (wf_up_has(self, sum_bias)) {
        WF_TRY(wf_up_binary(self, WF_OP_ADD, sum, self->inputs[sum_bias], &sum));
    }
    wf_up_bind(self, 3, sum);
    wf_attr_t epsilon = wf_attr_float("epsilon", (double)wf_up_float(self, "epsilon", 1e-12f));
    wf_value_id inputs[3] = {sum, self->inputs[2],
                             !simplified && wf_up_has(self, 3) ? self->inputs[3] : WF_NO_VALUE};
    return wf_up_finish(self,
                        &(wf_up_spec_t){simplified ? WF_OP_RMS_NORMALIZATION : WF_OP_LAYER_NORMALIZATION,
                                        &epsilon, 1, inputs, simplified ? 2 : 3});
}
