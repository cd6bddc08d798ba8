/* SPDX-License-Identifier: Apache-2.0 */
/* The table of reference kernels, and running one. */
#include "ref/ref.h"

#include <string.h>

#include "ref/kernel.h"

typedef struct ref_row {
    wf_ref_fn *run;
    wf_ref_scratch_fn *scratch_bytes; /* NULL: none */
} ref_row_t;

#define UNARY(op) [WF_OP_##op] = {wf_ref_unary, NULL}
#define NARY(op) [WF_OP_##op] = {wf_ref_nary, NULL}
#define KERNEL(op, name) [WF_OP_##op] = {wf_ref_##name, NULL}
#define SCRATCH(op, name, scratch) [WF_OP_##op] = {wf_ref_##name, wf_ref_##scratch##_scratch_bytes}

static const ref_row_t rows[WF_OP_COUNT] = {
    UNARY(ABS),
    UNARY(ACOS),
    UNARY(ACOSH),
    UNARY(ASIN),
    UNARY(ASINH),
    UNARY(ATAN),
    UNARY(ATANH),
    UNARY(CEIL),
    UNARY(CELU),
    KERNEL(CLIP, clip),
    UNARY(COS),
    UNARY(COSH),
    UNARY(ELU),
    UNARY(ERF),
    UNARY(EXP),
    UNARY(FLOOR),
    UNARY(GELU),
    UNARY(HARD_SIGMOID),
    UNARY(HARD_SWISH),
    KERNEL(IDENTITY, view),
    UNARY(ISINF),
    UNARY(ISNAN),
    UNARY(LEAKY_RELU),
    UNARY(LOG),
    UNARY(MISH),
    UNARY(NEG),
    UNARY(NOT),
    UNARY(BITWISE_NOT),
    UNARY(RECIPROCAL),
    UNARY(RELU),
    UNARY(ROUND),
    UNARY(SELU),
    UNARY(SHRINK),
    UNARY(SIGMOID),
    UNARY(SIGN),
    UNARY(SIN),
    UNARY(SINH),
    UNARY(SOFTPLUS),
    UNARY(SOFTSIGN),
    UNARY(SQRT),
    UNARY(SWISH),
    UNARY(TAN),
    UNARY(TANH),
    UNARY(THRESHOLDED_RELU),
    KERNEL(CAST, cast),
    KERNEL(CAST_LIKE, cast),

    NARY(ADD),
    NARY(SUB),
    NARY(MUL),
    NARY(DIV),
    NARY(MOD),
    KERNEL(POW, pow),
    NARY(PRELU),
    NARY(MAX),
    NARY(MIN),
    NARY(MEAN),
    NARY(SUM),
    NARY(AND),
    NARY(OR),
    NARY(XOR),
    NARY(BITWISE_AND),
    NARY(BITWISE_OR),
    NARY(BITWISE_XOR),
    NARY(BIT_SHIFT),
    NARY(EQUAL),
    NARY(LESS),
    NARY(LESS_OR_EQUAL),
    NARY(GREATER),
    NARY(GREATER_OR_EQUAL),
    KERNEL(WHERE, where),

    SCRATCH(MATMUL, matmul, matrix),
    SCRATCH(GEMM, gemm, matrix),
    SCRATCH(CONV, conv, matrix),
    SCRATCH(CONV_TRANSPOSE, conv, matrix),
    SCRATCH(CONV_INTEGER, conv, matrix),
    SCRATCH(MATMUL_INTEGER, matmul_quantized, matrix),
    SCRATCH(QLINEAR_MATMUL, matmul_quantized, matrix),
    SCRATCH(QLINEAR_CONV, conv, matrix),
    KERNEL(EINSUM, einsum),

    KERNEL(BATCH_NORMALIZATION, batch_normalization),
    KERNEL(LAYER_NORMALIZATION, layer_normalization),
    KERNEL(INSTANCE_NORMALIZATION, group_normalization),
    KERNEL(GROUP_NORMALIZATION, group_normalization),
    KERNEL(RMS_NORMALIZATION, layer_normalization),
    KERNEL(LP_NORMALIZATION, lp_normalization),
    KERNEL(MEAN_VARIANCE_NORMALIZATION, mean_variance_normalization),
    KERNEL(LRN, lrn),
    KERNEL(SOFTMAX, softmax),
    KERNEL(LOG_SOFTMAX, softmax),
    KERNEL(HARDMAX, softmax),
    KERNEL(AVERAGE_POOL, pool),
    KERNEL(MAX_POOL, pool),
    KERNEL(LP_POOL, pool),
    KERNEL(GLOBAL_AVERAGE_POOL, pool),
    KERNEL(GLOBAL_MAX_POOL, pool),
    KERNEL(GLOBAL_LP_POOL, pool),
    KERNEL(REDUCE_L1, reduce),
    KERNEL(REDUCE_L2, reduce),
    KERNEL(REDUCE_LOG_SUM, reduce),
    KERNEL(REDUCE_LOG_SUM_EXP, reduce),
    KERNEL(REDUCE_MAX, reduce),
    KERNEL(REDUCE_MEAN, reduce),
    KERNEL(REDUCE_MIN, reduce),
    KERNEL(REDUCE_PROD, reduce),
    KERNEL(REDUCE_SUM, reduce),
    KERNEL(REDUCE_SUM_SQUARE, reduce),
    KERNEL(ARG_MAX, arg_reduce),
    KERNEL(ARG_MIN, arg_reduce),
    SCRATCH(TOP_K, top_k, top_k),
    KERNEL(CUM_SUM, cum_sum),
    KERNEL(TRILU, trilu),

    KERNEL(RESHAPE, view),
    KERNEL(FLATTEN, view),
    KERNEL(SQUEEZE, view),
    KERNEL(UNSQUEEZE, view),
    KERNEL(TRANSPOSE, transpose),
    KERNEL(CONCAT, concat),
    KERNEL(SPLIT, split),
    KERNEL(SLICE, slice),
    KERNEL(PAD, pad),
    KERNEL(GATHER, gather),
    KERNEL(GATHER_ELEMENTS, gather_elements),
    KERNEL(GATHER_ND, gather_nd),
    KERNEL(SCATTER_ELEMENTS, scatter_elements),
    KERNEL(SCATTER_ND, scatter_nd),
    KERNEL(EXPAND, expand),
    KERNEL(TILE, tile),
    KERNEL(SHAPE, shape),
    KERNEL(SIZE, size),
    KERNEL(CONSTANT_OF_SHAPE, constant_of_shape),
    KERNEL(CONSTANT, constant),
    KERNEL(RANGE, range),
    KERNEL(DROPOUT, dropout),
    KERNEL(DEPTH_TO_SPACE, depth_space),
    KERNEL(SPACE_TO_DEPTH, depth_space),
    KERNEL(ONE_HOT, one_hot),
    KERNEL(EYE_LIKE, eye_like),
    KERNEL(REVERSE_SEQUENCE, reverse_sequence),
    SCRATCH(RESIZE, resize, resize),

    SCRATCH(LSTM, recurrent, recurrent),
    SCRATCH(GRU, recurrent, recurrent),
    SCRATCH(RNN, recurrent, recurrent),

    KERNEL(QUANTIZE_LINEAR, quantize),
    KERNEL(DEQUANTIZE_LINEAR, dequantize),
    KERNEL(DYNAMIC_QUANTIZE_LINEAR, dynamic_quantize),

    SCRATCH(W_ATTENTION, attention, attention),
    KERNEL(W_ADD_LAYER_NORM, layer_normalization),
    SCRATCH(W_SQUEEZE_EXCITE, squeeze_excite, squeeze_excite),
    KERNEL(W_CONVERT, view),
};

bool wf_ref_supports(wf_op_t op, wf_dtype_t first_input_dtype)
{
    if (op >= WF_OP_COUNT || rows[op].run == NULL) {
        return false;
    }
    if (wf_op_info(op)->input_max == 0 || op == WF_OP_SHAPE || op == WF_OP_SIZE) {
        return true; /* no element is read */
    }
    const char *types = wf_op_info(op)->types;
    bool is_small = wf_dtype_bits(first_input_dtype) < 16;
    char letter;
    switch (wf_lane_class(first_input_dtype)) {
    case WF_LANE_F:
        letter = is_small ? 'L' : 'F';
        break;
    case WF_LANE_I:
        letter = 'S';
        break;
    case WF_LANE_U:
        letter = first_input_dtype == WF_DTYPE_BOOL ? 'B' : 'U';
        break;
    default:
        return false;
    }
    return strchr(types, '*') != NULL || strchr(types, letter) != NULL;
}

/* Empty tensors may have dims whose product, the empty one left out, does not fit; kernels multiply dims
 * freely. */
static wf_status_t check_dims(const wf_tensor_t *tensors, size_t count, const char *what)
{
    for (size_t k = 0; k < count; k++) {
        int64_t elems = 16; /* bytes of the widest element */
        for (uint32_t d = 0; tensors[k].type.dtype != WF_DTYPE_NONE && d < tensors[k].type.rank; d++) {
            if (!wf_i64_mul(elems, WF_MAX(tensors[k].type.dims[d], 1), &elems)) {
                return WF_ERROR(MODEL_LIMIT, "dimensions of %s %zu are too large", what, k);
            }
        }
    }
    return WF_OK;
}

static wf_status_t check_all_dims(const wf_ref_call_t *call)
{
    WF_TRY(check_dims(call->inputs, call->input_count, "input"));
    return check_dims(call->outputs, call->output_count, "output");
}

/* True when no output has an element, however long the other dims are. */
static bool outputs_are_empty(const wf_ref_call_t *call)
{
    for (size_t k = 0; k < call->output_count; k++) {
        if (call->outputs[k].type.dtype != WF_DTYPE_NONE && wf_type_elems(&call->outputs[k].type) != 0) {
            return false;
        }
    }
    return true;
}

wf_status_t wf_ref_scratch_bytes(const wf_ref_call_t *call, size_t *out_bytes)
{
    *out_bytes = 0;
    WF_TRY(check_all_dims(call));
    if (call->op < WF_OP_COUNT && rows[call->op].scratch_bytes != NULL && !outputs_are_empty(call)) {
        *out_bytes = rows[call->op].scratch_bytes(call);
    }
    return *out_bytes == SIZE_MAX
               ? WF_ERROR(INTERNAL, "scratch of %s does not fit", wf_op_info(call->op)->onnx_name)
               : WF_OK;
}

wf_status_t wf_ref_run(const wf_ref_call_t *call)
{
    wf_dtype_t dtype = call->input_count > 0 ? call->inputs[0].type.dtype : WF_DTYPE_NONE;
    assert(call->op < WF_OP_COUNT);
    if (!wf_ref_supports(call->op, dtype)) {
        return WF_ERROR(MODEL_UNSUPPORTED, "%s has no reference kernel for %s",
                        wf_op_info(call->op)->onnx_name, wf_dtype_name(dtype));
    }
    WF_TRY(check_all_dims(call));
    if (outputs_are_empty(call)) {
        return WF_OK;
    }
    for (size_t k = 0; k < call->output_count; k++) {
        /* Elements of packed types share bytes, so only one thread may write them. */
        uint32_t bits = wf_dtype_bits(call->outputs[k].type.dtype);
        if (call->parallel != NULL && bits > 0 && bits < 8) {
            wf_ref_call_t alone = *call;
            alone.parallel = NULL;
            return rows[call->op].run(&alone);
        }
    }
    return rows[call->op].run(call);
}
