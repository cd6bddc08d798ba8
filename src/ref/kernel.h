/* SPDX-License-Identifier: Apache-2.0 */
/* What reference kernels share: lanes (elements widened to one of three classes), walks (strided readings of
 * dense tensors), parameters, threads, faults.
 *
 * Every kernel computes on lanes: floats as f64, signed integers as i64, unsigned integers and booleans as
 * u64. Sums, products and library functions of f32, f16 and bf16 are therefore done in f64 and rounded once,
 * when they are stored; integers wrap when they are stored. So one loop serves all element types of a class.
 */
#ifndef WF_REF_KERNEL_H
#define WF_REF_KERNEL_H

#include "base/compiler.h"
#include "base/status.h"
#include "ref/ref.h"

/* ---- Lanes
 * ------------------------------------------------------------------------------------------------------- */

typedef union wf_lane {
    double f;
    int64_t i;
    uint64_t u;
} wf_lane_t;

typedef enum wf_lane_class { WF_LANE_F, WF_LANE_I, WF_LANE_U, WF_LANE_CLASSES, WF_LANE_NONE } wf_lane_class_t;

/* Lanes of a block: the three or four blocks of a kernel (2 KiB each) stay in L1. */
#define WF_LANE_BLOCK 256

/* WF_LANE_NONE for strings, complex numbers and no type. */
wf_lane_class_t wf_lane_class(wf_dtype_t dtype);
/* Reads elements first, first + stride, ... of a dense tensor of a type with a class. */
void wf_lanes_load(wf_dtype_t dtype, const void *data, int64_t first, int64_t stride, size_t count,
                   wf_lane_t *out);
/* Writes lanes of the type's own class. Floats are rounded to nearest even, to infinity when out of range
 * (small formats without infinity saturate); integers keep their low bits; bool is "not zero". */
void wf_lanes_store(wf_dtype_t dtype, void *data, int64_t first, int64_t stride, size_t count,
                    const wf_lane_t *lanes);
/* One element. */
wf_lane_t wf_lane_load(wf_dtype_t dtype, const void *data, int64_t index);
void wf_lane_store(wf_dtype_t dtype, void *data, int64_t index, wf_lane_t lane);
/* One element as a number, whatever its class. */
double wf_lane_load_f64(wf_dtype_t dtype, const void *data, int64_t index);

typedef enum wf_cast_round { WF_CAST_UP, WF_CAST_DOWN, WF_CAST_NEAREST } wf_cast_round_t;
/* How Cast treats 8-bit floats: saturate or not; rounding of f8e8m0. */
typedef struct wf_cast_mode {
    bool saturate;
    wf_cast_round_t round;
} wf_cast_mode_t;
/* Converts lanes of one class in place to what wf_lanes_store_cast takes, by the rules of ONNX Cast. What
 * ONNX leaves open is defined here: a float out of an integer's range is cut to a whole number and its low
 * bits are kept (as the operator's tests expect of 2 and 4 bits), except that i32 and 64-bit types saturate;
 * NaN becomes 0. */
void wf_lanes_store_cast(wf_lane_class_t from, wf_dtype_t to, wf_cast_mode_t mode, void *data, int64_t first,
                         size_t count, wf_lane_t *lanes);
/* Nearest integer in [INT64_MIN, INT64_MAX] towards zero; 0 for NaN. */
int64_t wf_f64_to_i64(double x);
/* Smallest and largest value of an integer type of class I or U (u64 is cut to INT64_MAX). */
void wf_dtype_limits(wf_dtype_t dtype, int64_t *out_min, int64_t *out_max);

/* ---- Walks
 * ------------------------------------------------------------------------------------------------------- */

/* An index space, and for each of its points in row-major order the element of a dense tensor that is read
 * there: base + sum of index * stride. Neighbouring dims that lie alike are merged. */
typedef struct wf_walk {
    uint32_t rank;
    int64_t base;
    int64_t dims[WF_MAX_RANK];
    int64_t strides[WF_MAX_RANK];
} wf_walk_t;

/* Row-major index of element `number`, and strides in elements. */
void wf_unravel(int64_t number, uint32_t rank, const int64_t *dims, int64_t *out_index);
void wf_strides_dense(uint32_t rank, const int64_t *dims, int64_t *out_strides);
/* Drops dims of 1 and merges neighbours; the walk keeps its points and their order. */
void wf_walk_merge(wf_walk_t *walk);
/* `from` broadcast to the dims of `to` (trailing dims aligned). The shapes must fit. */
void wf_walk_broadcast(const wf_type_t *from, const wf_type_t *to, wf_walk_t *out_walk);
/* Reads points [first, first + count). */
void wf_walk_load(const wf_walk_t *walk, wf_dtype_t dtype, const void *data, int64_t first, size_t count,
                  wf_lane_t *out);

/* Copies elements between two strided regions of the same dims, at most WF_REGION_RANK of them (so that each
 * dim of a tensor may be split in two). A region with a stride of 0 may only be read. */
#define WF_REGION_RANK (2 * WF_MAX_RANK)
typedef struct wf_region {
    int64_t base;
    int64_t strides[WF_REGION_RANK];
} wf_region_t;
void wf_region_copy(const wf_ref_call_t *call, wf_dtype_t dtype, uint32_t rank, const int64_t *dims, void *to,
                    const wf_region_t *to_region, const void *from, const wf_region_t *from_region);

/* to[to_index + k] = from[from_index + k] for k in [0, count). */
void wf_elems_copy(wf_dtype_t dtype, void *to, int64_t to_index, const void *from, int64_t from_index,
                   int64_t count);

/* A tensor as outer x axis x inner around one axis (or a range of axes [axis, end)). */
typedef struct wf_split {
    int64_t outer, axis, inner;
} wf_split_t;
wf_split_t wf_split_at(const wf_type_t *type, int64_t axis, int64_t end);
/* axis + rank when it is negative; the importer has checked the range, a value from data may be out of it. */
int64_t wf_axis_wrap(int64_t axis, int64_t rank);

/* ---- Threads
 * ----------------------------------------------------------------------------------------------------- */

uint32_t wf_ref_threads(const wf_ref_call_t *call);
/* Runs fn for items [0, item_count): inline when call->parallel is NULL, else on its threads, with the
 * floating-point state of the caller. */
void wf_ref_items(const wf_ref_call_t *call, int64_t item_count, wf_item_fn *fn, void *arg);
/* Cuts [0, elem_count) into chunks. */
typedef void wf_chunk_fn(void *arg, int64_t first, int64_t count);
void wf_ref_chunks(const wf_ref_call_t *call, int64_t elem_count, int64_t chunk_elems, wf_chunk_fn *fn,
                   void *arg);
#define WF_REF_CHUNK 16384

/* The smallest index at which an item met a value that is not possible; INT64_MAX when none did. */
typedef _Atomic int64_t wf_fault_t;
void wf_fault_init(wf_fault_t *fault);
void wf_fault_set(wf_fault_t *fault, int64_t index);

/* ---- Parameters
 * -------------------------------------------------------------------------------------------------- */

/* True when input `index` is given. */
bool wf_ref_has(const wf_ref_call_t *call, size_t index);
/* True when output `index` is wanted. */
bool wf_ref_wants(const wf_ref_call_t *call, size_t index);
/* Integers of attribute `name`, else of input `input` (i32 or i64). *out_count is -1 when neither is given.
 * RUNTIME_DATA when there are more than `limit`. */
wf_status_t wf_ref_ints(const wf_ref_call_t *call, const char *name, int32_t input, size_t limit,
                        int64_t *out, int32_t *out_count) WF_MUST_USE;
/* The same for floats (any float type). */
wf_status_t wf_ref_floats(const wf_ref_call_t *call, const char *name, int32_t input, size_t limit,
                          double *out, int32_t *out_count) WF_MUST_USE;
/* One integer; `fallback` when it is not given. */
wf_status_t wf_ref_int(const wf_ref_call_t *call, const char *name, int32_t input, int64_t fallback,
                       int64_t *out) WF_MUST_USE;
/* True when string attribute `name` is `value`. */
bool wf_ref_attr_is(const wf_ref_call_t *call, const char *name, const char *value);

/* An output whose shape came from inference is not what the values ask for: the values differ from those
 * inferred with. `text` names the parameter. */
wf_status_t wf_ref_shape_error(const wf_type_t *output, const char *text) WF_MUST_USE;

/* ---- Scratch
 * ----------------------------------------------------------------------------------------------------- */

/* Bytes a call needs; SIZE_MAX when it does not fit. */
typedef size_t wf_ref_scratch_fn(const wf_ref_call_t *call);
/* a * b, staying at SIZE_MAX when it does not fit. */
size_t wf_scratch_mul(size_t a, size_t b);
size_t wf_scratch_add(size_t a, size_t b);

/* ---- Kernels by subject: what the table of ref.c names
 * ------------------------------------------------------------ */

#define WF_REF_KERNELS(X)          \
    X(unary)                       \
    X(nary)                        \
    X(clip)                        \
    X(pow)                         \
    X(where)                       \
    X(cast)                        \
    X(matmul)                      \
    X(gemm)                        \
    X(conv)                        \
    X(matmul_quantized)            \
    X(einsum)                      \
    X(batch_normalization)         \
    X(layer_normalization)         \
    X(group_normalization)         \
    X(lp_normalization)            \
    X(mean_variance_normalization) \
    X(lrn)                         \
    X(softmax)                     \
    X(pool)                        \
    X(reduce)                      \
    X(arg_reduce)                  \
    X(top_k)                       \
    X(cum_sum)                     \
    X(trilu)                       \
    X(view)                        \
    X(transpose)                   \
    X(concat)                      \
    X(split)                       \
    X(slice)                       \
    X(pad)                         \
    X(gather)                      \
    X(gather_elements)             \
    X(gather_nd)                   \
    X(scatter_elements)            \
    X(scatter_nd)                  \
    X(expand)                      \
    X(tile)                        \
    X(shape)                       \
    X(size)                        \
    X(constant_of_shape)           \
    X(constant)                    \
    X(range)                       \
    X(dropout)                     \
    X(depth_space)                 \
    X(resize)                      \
    X(one_hot)                     \
    X(eye_like)                    \
    X(reverse_sequence)            \
    X(recurrent)                   \
    X(quantize)                    \
    X(dequantize)                  \
    X(dynamic_quantize)            \
    X(attention)                   \
    X(squeeze_excite)

#define X(name) wf_ref_fn wf_ref_##name;
WF_REF_KERNELS(X)
#undef X

wf_ref_scratch_fn wf_ref_matrix_scratch_bytes;
wf_ref_scratch_fn wf_ref_top_k_scratch_bytes;
wf_ref_scratch_fn wf_ref_resize_scratch_bytes;
wf_ref_scratch_fn wf_ref_recurrent_scratch_bytes;
wf_ref_scratch_fn wf_ref_attention_scratch_bytes;
wf_ref_scratch_fn wf_ref_squeeze_excite_scratch_bytes;

/* Applies a one-input float operator to lanes in place: f(x) with the operator's first two parameters. False
 * when there is no such operator. */
bool wf_ref_activate(wf_op_t op, double p0, double p1, size_t count, wf_lane_t *lanes);

#endif
