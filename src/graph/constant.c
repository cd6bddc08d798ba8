/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/constant.h"

#include <math.h>

#include "base/compiler.h"
#include "ref/kernel.h"

bool wf_constant_get(const wf_tensor_t *tensor, int64_t index, double *out_value)
{
    if (wf_lane_class(tensor->type.dtype) == WF_LANE_NONE) {
        return false;
    }
    *out_value = wf_lane_load_f64(tensor->type.dtype, tensor->data, index);
    return true;
}

bool wf_constant_set(const wf_tensor_t *tensor, int64_t index, double value)
{
    wf_dtype_t dtype = tensor->type.dtype;
    wf_lane_class_t class = wf_lane_class(dtype);
    wf_lane_t lane = {.f = value};
    if (class == WF_LANE_NONE) {
        return false;
    }
    if (class != WF_LANE_F) {
        /* The limits of the type in bits: exact as doubles, the upper one not included. */
        uint32_t bits = dtype == WF_DTYPE_BOOL ? 1 : wf_dtype_bits(dtype);
        double low = class == WF_LANE_I ? -ldexp(1.0, (int)bits - 1) : 0.0;
        double high = ldexp(1.0, (int)bits - (class == WF_LANE_I));
        if (!(value >= low && value < high) || value != nearbyint(value)) {
            return false;
        }
        if (class == WF_LANE_I) {
            lane.i = (int64_t)value;
        } else {
            lane.u = (uint64_t)value;
        }
    }
    wf_lane_store(dtype, tensor->data, index, lane);
    return true;
}

bool wf_constant_get_int(const wf_tensor_t *tensor, int64_t index, int64_t *out_value)
{
    if (tensor->type.dtype != WF_DTYPE_I64 && tensor->type.dtype != WF_DTYPE_I32) {
        return false;
    }
    *out_value = wf_lane_load(tensor->type.dtype, tensor->data, index).i;
    return true;
}
