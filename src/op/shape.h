/* SPDX-License-Identifier: Apache-2.0 */
/* What shape functions share: reading inputs and parameters, checking them, giving outputs.
 *
 * Dims of call->inputs are >= 0 and ranks at most WF_MAX_RANK (wf_op_infer has checked); everything else,
 * attributes first of all, may come from a hostile file. Messages name neither node nor operator: wf_op_infer
 * and its caller do.
 */
#ifndef WF_OP_SHAPE_H
#define WF_OP_SHAPE_H

#include "op/op.h"

/* The row's shape functions; several operators share one. */
#define OP(enum_name, onnx, text, domain, in_min, in_max, out_min, out_max, flags, types, shape, attrs) \
    wf_shape_fn wf_shape_##shape;
#include "op/ops.def"
#undef OP
#undef OP_POOL_ATTRS
#undef OP_REDUCE_ATTRS

/* ---- Inputs ---- */

/* NULL when the input is absent. */
const wf_type_t *wf_shape_input(const wf_shape_call_t *call, size_t index);
/* MODEL_INVALID unless the input, when present, has the element type `dtype` (`what` names the other side).
 */
wf_status_t wf_shape_need_dtype(const wf_shape_call_t *call, size_t index, wf_dtype_t dtype) WF_MUST_USE;
/* MODEL_INVALID unless the input, when present, is an index: i32 or i64. */
wf_status_t wf_shape_need_index(const wf_shape_call_t *call, size_t index) WF_MUST_USE;
/* MODEL_INVALID unless the input, when present, has exactly these dims. */
wf_status_t wf_shape_need_dims(const wf_shape_call_t *call, size_t index, uint32_t rank,
                               const int64_t *dims) WF_MUST_USE;
/* MODEL_INVALID unless the input, when present, has one element. */
wf_status_t wf_shape_need_one(const wf_shape_call_t *call, size_t index) WF_MUST_USE;
/* MODEL_INVALID unless the rank is in [min, max]. */
wf_status_t wf_shape_need_rank(const wf_shape_call_t *call, size_t index, uint32_t min,
                               uint32_t max) WF_MUST_USE;
/* MODEL_INVALID unless `from` broadcasts to the dims of `to` (one way: `to` keeps its shape). */
wf_status_t wf_shape_need_fits(const wf_type_t *from, const wf_type_t *to) WF_MUST_USE;
bool wf_dtype_is_float(wf_dtype_t dtype); /* f16, bf16, f32, f64 */
bool wf_dtype_is_small_float(wf_dtype_t dtype);

#define WF_TYPE_TEXT_MAX 200
/* "f32[1,64,56,56]", for messages. Returns `out`. */
const char *wf_type_text(const wf_type_t *type, char out[WF_TYPE_TEXT_MAX]);

/* ---- Axes ---- */

/* Brings an axis from [-rank, rank) to [0, rank); MODEL_INVALID otherwise. */
wf_status_t wf_shape_axis(int64_t axis, uint32_t rank, uint32_t *out_axis) WF_MUST_USE;
/* The same for a list without repetition; *out_mask has bit i for axis i. count <= 2 * WF_MAX_RANK, rank <= 2
 * * WF_MAX_RANK. */
wf_status_t wf_shape_axes(const int64_t *axes, int32_t count, uint32_t rank, uint32_t *out_axes,
                          uint32_t *out_mask) WF_MUST_USE;
/* Attribute "axis", made non-negative. */
wf_status_t wf_shape_attr_axis(const wf_shape_call_t *call, const char *name, int64_t fallback, uint32_t rank,
                               uint32_t *out_axis) WF_MUST_USE;

/* ---- Parameters ---- */

/* Numbers of an attribute or of a known input, of any length. */
typedef struct wf_shape_list {
    int64_t count; /* -1: not given; -2: given, value not known (call->needs_value_of is set) */
    const wf_attr_t *attr;
    const wf_tensor_t *tensor;
} wf_shape_list_t;
/* MODEL_INVALID when the input is of rank > 1 or neither i32 nor i64 (floats true: not a float type). */
wf_status_t wf_shape_param_list(wf_shape_call_t *call, const char *name, int32_t from_input, bool floats,
                                wf_shape_list_t *out_list) WF_MUST_USE;
int64_t wf_shape_list_int(const wf_shape_list_t *list, int64_t index);
double wf_shape_list_float(const wf_shape_list_t *list, int64_t index);
/* wf_shape_param_ints for floats. */
wf_status_t wf_shape_param_floats(wf_shape_call_t *call, const char *name, int32_t from_input,
                                  double out_values[2 * WF_MAX_RANK], int32_t *out_count) WF_MUST_USE;
/* Element of a known tensor as a number; false for element types without one (strings, complex, sub-byte). */
bool wf_tensor_get_f64(const wf_tensor_t *tensor, int64_t index, double *out);
/* The same as an integer: floats must be integral and in range. */
bool wf_tensor_get_i64(const wf_tensor_t *tensor, int64_t index, int64_t *out);
/* The known value of an input, or NULL (call->needs_value_of is then set). */
const wf_tensor_t *wf_shape_value(wf_shape_call_t *call, size_t index);

/* ---- Outputs ---- */

/* Sets an output; nothing when the caller does not ask for it. */
void wf_shape_give(wf_shape_call_t *call, size_t index, wf_dtype_t dtype, uint32_t rank, const int64_t *dims);
/* The same, MODEL_UNSUPPORTED beyond WF_MAX_RANK; for ranks that are computed. */
wf_status_t wf_shape_give_checked(wf_shape_call_t *call, size_t index, wf_dtype_t dtype, size_t rank,
                                  const int64_t *dims) WF_MUST_USE;
/* The status for a rank that is not supported. */
wf_status_t wf_shape_rank_error(size_t rank) WF_MUST_USE;
/* The status for sizes that do not fit in 63 bits. */
wf_status_t wf_shape_overflow(void) WF_MUST_USE;

/* ---- Readings of the specification that others share ---- */

/* Dims of the product of a[..,M,K] and b[..,K,N] by the rules of numpy.matmul; dtype left alone. */
wf_status_t wf_shape_matmul_dims(const wf_type_t *a, const wf_type_t *b, wf_type_t *out_type) WF_MUST_USE;
/* One axis of Slice: start and end are replaced by the effective ones, the number of elements is returned.
 * step != 0. Element i is at start + i * step. */
int64_t wf_slice_resolve(int64_t dim, int64_t *start, int64_t *end, int64_t step);
/* What Reshape makes of its parameter: 0 copied (unless allow_zero), -1 inferred, counts compared. */
wf_status_t wf_reshape_resolve(const wf_type_t *from, const int64_t *shape, int32_t count, bool allow_zero,
                               wf_type_t *out_type) WF_MUST_USE;
/* Axes of a reduction as a bit mask over the axes of `type`: the parameter `axes`, else all or none. The mask
 * is 0 and call->needs_value_of set when they are not known. */
wf_status_t wf_reduce_resolve(wf_shape_call_t *call, uint32_t *out_mask) WF_MUST_USE;
/* Axes that Resize may change: attribute "axes" or all of them. */
wf_status_t wf_resize_axes(const wf_attrs_t *attrs, uint32_t rank, uint32_t out_axes[WF_MAX_RANK],
                           uint32_t *out_count) WF_MUST_USE;

#endif
