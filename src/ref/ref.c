/* SPDX-License-Identifier: Apache-2.0 */
/* The table of reference kernels, and running one. */
#include "ref/ref.h"

#include <string.h>

#include "ref/kernel.h"

/* Which element types the first input may have. */
typedef enum first_types {
    TYPES_OF_TABLE, /* those of ops.def, floats of 16 bits and more */
    TYPES_ANY       /* every type with a lane class: elements are moved or converted */
} first_types_t;

typedef struct ref_row {
    wf_ref_fn *run;
    wf_ref_scratch_fn *scratch_bytes; /* NULL: none */
    first_types_t types;
} ref_row_t;

#define UNARY(op) [WF_OP_##op] = {wf_ref_unary, NULL, TYPES_OF_TABLE}
#define NARY(op) [WF_OP_##op] = {wf_ref_nary, NULL, TYPES_OF_TABLE}
#define KERNEL(op, name) [WF_OP_##op] = {wf_ref_##name, NULL, TYPES_OF_TABLE}
#define SCRATCH(op, name, scratch) [WF_OP_##op] = {wf_ref_##name, wf_ref_##scratch##_scratch_bytes, TYPES_OF_TABLE}
#define ANY(op, name) [WF_OP_##op] = {wf_ref_##name, NULL, TYPES_ANY}

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
    ANY(IDENTITY, view),
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
    ANY(CAST, cast),
    ANY(CAST_LIKE, cast),

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

    ANY(RESHAPE, view),
    ANY(FLATTEN, view),
    ANY(SQUEEZE, view),
    ANY(UNSQUEEZE, view),
    ANY(TRANSPOSE, transpose),
    ANY(CONCAT, concat),
    ANY(SPLIT, split),
    ANY(SLICE, slice),
    ANY(PAD, pad),
    ANY(GATHER, gather),
    ANY(GATHER_ELEMENTS, gather_elements),
    ANY(GATHER_ND, gather_nd),
    ANY(SCATTER_ELEMENTS, scatter_elements),
    ANY(SCATTER_ND, scatter_nd),
    ANY(EXPAND, expand),
    ANY(TILE, tile),
    ANY(SHAPE, shape),
    ANY(SIZE, size),
    KERNEL(CONSTANT_OF_SHAPE, constant_of_shape),
    ANY(CONSTANT, constant),
    KERNEL(RANGE, range),
    ANY(DROPOUT, dropout),
    ANY(DEPTH_TO_SPACE, depth_space),
    ANY(SPACE_TO_DEPTH, depth_space),
    KERNEL(ONE_HOT, one_hot),
    ANY(EYE_LIKE, eye_like),
    ANY(REVERSE_SEQUENCE, reverse_sequence),
    ANY(TRILU, trilu),

    ANY(W_CONVERT, view),
};

bool wf_ref_supports(wf_op_t op, wf_dtype_t first_input_dtype)
{
    static const struct {
        char letter;
        wf_lane_class_t lane_class;
        uint32_t bits_min; /* the table's letters do not mean the small formats */
    } letters[] = {{'F', WF_LANE_F, 16}, {'S', WF_LANE_I, 8}, {'U', WF_LANE_U, 8}};
    if (op >= WF_OP_COUNT || rows[op].run == NULL) {
        return false;
    }
    wf_lane_class_t lane_class = wf_lane_class(first_input_dtype);
    const char *types = wf_op_info(op)->types;
    if (wf_op_info(op)->input_max == 0) {
        return true;
    }
    if (lane_class == WF_LANE_NONE) {
        return rows[op].types == TYPES_ANY && op == WF_OP_SHAPE;
    }
    if (rows[op].types == TYPES_ANY) {
        return true;
    }
    if (first_input_dtype == WF_DTYPE_BOOL) {
        return strchr(types, 'B') != NULL;
    }
    for (size_t k = 0; k < WF_COUNT_OF(letters); k++) {
        if (letters[k].lane_class == lane_class) {
            return strchr(types, letters[k].letter) != NULL && wf_dtype_bits(first_input_dtype) >= letters[k].bits_min;
        }
    }
    return false;
}

wf_status_t wf_ref_scratch_bytes(const wf_ref_call_t *call, size_t *out_bytes)
{
    *out_bytes = 0;
    if (call->op < WF_OP_COUNT && rows[call->op].scratch_bytes != NULL) {
        *out_bytes = rows[call->op].scratch_bytes(call);
    }
    return *out_bytes == SIZE_MAX ? WF_ERROR(INTERNAL, "scratch of %s does not fit", wf_op_info(call->op)->onnx_name)
                                  : WF_OK;
}

wf_status_t wf_ref_run(const wf_ref_call_t *call)
{
    wf_dtype_t dtype = call->input_count > 0 ? call->inputs[0].type.dtype : WF_DTYPE_NONE;
    if (!wf_ref_supports(call->op, dtype)) {
        return WF_ERROR(MODEL_UNSUPPORTED, "%s has no reference kernel for %s", wf_op_info(call->op)->onnx_name,
                        wf_dtype_name(dtype));
    }
    return rows[call->op].run(call);
}
