/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/native.h"

void wf_native_layout_dims(const wf_type_t *type, wf_layout_t layout, int64_t out_dims[WF_MAX_RANK])
{
    uint32_t at = 0;
    bool last = layout == WF_LAYOUT_LAST && type->rank >= 3;
    for (uint32_t d = 0; d < type->rank; d++) {
        if (!(last && d == 1))
            out_dims[at++] = type->dims[d];
    }
    if (last)
        out_dims[at] = type->dims[1];
}

void wf_native_rows_cols(const wf_type_t *type, wf_layout_t layout, int64_t *out_rows, int64_t *out_cols)
{
    int64_t dims[WF_MAX_RANK];
    wf_native_layout_dims(type, layout, dims);
    *out_rows = 1;
    *out_cols = type->rank > 0 ? dims[type->rank - 1] : 1;
    for (uint32_t d = 0; d + 1 < type->rank; d++)
        *out_rows *= dims[d];
}

wf_native_verdict_t wf_native_const_weights(const wf_problem_t *problem, uint32_t weights, uint32_t bias)
{
    if (!problem->operands[weights].is_const)
        return WF_NATIVE_NO(SHAPE, "weights are computed at run time");
    if (problem->stages[0].operand_count > bias && !problem->operands[bias].is_const &&
        problem->operands[bias].type.dtype != WF_DTYPE_NONE)
        return WF_NATIVE_NO(SHAPE, "the bias is computed at run time");
    return WF_NATIVE_FITS;
}

bool wf_native_all_f32(const wf_problem_t *problem)
{
    for (size_t i = 0; i < problem->operand_count; i++) {
        wf_dtype_t dtype = problem->operands[i].type.dtype;
        if (dtype != WF_DTYPE_F32 && dtype != WF_DTYPE_NONE)
            return false;
    }
    for (size_t i = 0; i < problem->output_count; i++) {
        if (problem->outputs[i].dtype != WF_DTYPE_F32)
            return false;
    }
    return true;
}
