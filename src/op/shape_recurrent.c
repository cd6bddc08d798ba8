/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of LSTM, GRU and RNN: one table, since they differ in gates and states only. */
#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

/* Inputs in ONNX order. The last two are LSTM's. */
enum { X, W, R, B, SEQUENCE_LENS, INITIAL_H, INITIAL_C, PEEPHOLES };

static const struct recurrent_kind {
    wf_op_t op;
    int64_t gates;
    size_t activations; /* per direction */
    size_t states;      /* outputs Y_h, Y_c */
} recurrent_kinds[] = {
    {WF_OP_LSTM, 4, 3, 2},
    {WF_OP_GRU, 3, 2, 1},
    {WF_OP_RNN, 1, 1, 1},
};

static const struct recurrent_kind *find_kind(wf_op_t op)
{
    for (size_t i = 0; i < WF_COUNT_OF(recurrent_kinds) - 1; i++) {
        if (recurrent_kinds[i].op == op) {
            return &recurrent_kinds[i];
        }
    }
    return &recurrent_kinds[WF_COUNT_OF(recurrent_kinds) - 1];
}

/* Functions that the specification names; those after them take parameters. */
static const char *const activation_names[] = {
    "Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
    "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus",
};

static wf_status_t check_activations(const wf_shape_call_t *call, size_t wanted)
{
    const wf_attr_t *attr = wf_attrs_find(call->attrs, "activations");
    if (attr == NULL || attr->kind != WF_ATTR_STRINGS) {
        return WF_OK;
    }
    /* RNN's default lists two, of which a single direction uses the first. */
    if (attr->count < wanted) {
        return WF_ERROR(MODEL_INVALID, "attribute activations has %zu names, expected %zu", attr->count,
                        wanted);
    }
    for (size_t i = 0; i < wanted; i++) {
        bool known = false;
        for (size_t n = 0; n < WF_COUNT_OF(activation_names); n++) {
            known = known || strcmp(attr->v.strings[i], activation_names[n]) == 0;
        }
        if (!known) {
            return WF_ERROR(MODEL_INVALID, "activation \"%.40s\" is not known", attr->v.strings[i]);
        }
    }
    return WF_OK;
}

static wf_status_t check_types(const wf_shape_call_t *call)
{
    static const size_t same[] = {W, R, B, INITIAL_H, INITIAL_C, PEEPHOLES};
    for (size_t i = 0; i < WF_COUNT_OF(same); i++) {
        WF_TRY(wf_shape_need_dtype(call, same[i], call->inputs[X].dtype));
    }
    return wf_shape_need_dtype(call, SEQUENCE_LENS, WF_DTYPE_I32);
}

wf_status_t wf_shape_recurrent(wf_shape_call_t *call)
{
    const struct recurrent_kind *kind = find_kind(call->op);
    WF_TRY(check_types(call));
    WF_TRY(wf_shape_need_rank(call, X, 3, 3));
    WF_TRY(wf_shape_need_rank(call, R, 3, 3));
    bool batch_first = wf_attrs_int(call->attrs, "layout", 0) != 0;
    const int64_t *x = call->inputs[X].dims;
    int64_t sequence = x[batch_first ? 1 : 0];
    int64_t batch = x[batch_first ? 0 : 1];
    int64_t directions =
        strcmp(wf_attrs_string(call->attrs, "direction", "forward"), "bidirectional") == 0 ? 2 : 1;
    int64_t hidden = call->inputs[R].dims[2];
    if (wf_attrs_int(call->attrs, "hidden_size", hidden) != hidden) {
        return WF_ERROR(MODEL_INVALID, "attribute hidden_size is %lld, input 2 has %lld",
                        (long long)wf_attrs_int(call->attrs, "hidden_size", hidden), (long long)hidden);
    }
    int64_t gates;
    int64_t biases;
    if (!wf_i64_mul(kind->gates, hidden, &gates) || !wf_i64_mul(2, gates, &biases)) {
        return wf_shape_overflow();
    }
    WF_TRY(check_activations(call, kind->activations * (size_t)directions));
    int64_t state[3] = {batch_first ? batch : directions, batch_first ? directions : batch, hidden};
    WF_TRY(wf_shape_need_dims(call, W, 3, (const int64_t[]){directions, gates, x[2]}));
    WF_TRY(wf_shape_need_dims(call, R, 3, (const int64_t[]){directions, gates, hidden}));
    WF_TRY(wf_shape_need_dims(call, B, 2, (const int64_t[]){directions, biases}));
    WF_TRY(wf_shape_need_dims(call, SEQUENCE_LENS, 1, &batch));
    WF_TRY(wf_shape_need_dims(call, INITIAL_H, 3, state));
    WF_TRY(wf_shape_need_dims(call, INITIAL_C, 3, state));
    WF_TRY(wf_shape_need_dims(call, PEEPHOLES, 2, (const int64_t[]){directions, gates / 4 * 3}));
    int64_t all[4] = {sequence, directions, batch, hidden};
    int64_t all_batch_first[4] = {batch, sequence, directions, hidden};
    wf_dtype_t dtype = call->inputs[X].dtype;
    wf_shape_give(call, 0, dtype, 4, batch_first ? all_batch_first : all);
    for (size_t i = 0; i < kind->states; i++) {
        wf_shape_give(call, 1 + i, dtype, 3, state);
    }
    return WF_OK;
}
