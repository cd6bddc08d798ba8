/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor: element type, dims and a pointer; dense, row-major, native byte order. */
#ifndef WAYFINDER_TENSOR_H
#define WAYFINDER_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wayfinder/allocator.h"
#include "wayfinder/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WF_MAX_RANK 8

typedef enum wf_dtype {
    WF_DTYPE_NONE = 0, /* absent: an optional input that is not given */
#define X(name, text, bits, onnx, numpy) WF_DTYPE_##name,
#include "wayfinder/dtypes.def"
#undef X
    WF_DTYPE_COUNT
} wf_dtype_t;

/* "f32", "i64", ...; "none" for WF_DTYPE_NONE. Static. */
WF_API const char *wf_dtype_name(wf_dtype_t dtype);
/* From its text; WF_DTYPE_NONE when there is no such type. */
WF_API wf_dtype_t wf_dtype_from_name(const char *name);
/* From an ONNX TensorProto.DataType number; WF_DTYPE_NONE when unknown. */
WF_API wf_dtype_t wf_dtype_from_onnx(int64_t onnx_type);
/* Width of one element in bits; sub-byte types are packed, low bits first. 0 for strings and NONE. */
WF_API uint32_t wf_dtype_bits(wf_dtype_t dtype);
/* The `descr` of NumPy's .npy header ("<f4"); "" for types NumPy lacks. Static. */
WF_API const char *wf_dtype_numpy(wf_dtype_t dtype);

/* Element type and dims of a dense tensor; all dims known, >= 0. */
typedef struct wf_type {
    wf_dtype_t dtype;
    uint32_t rank; /* 0: a scalar */
    int64_t dims[WF_MAX_RANK];
} wf_type_t;

/* A view: never owns `data`. `data` NULL with dtype NONE is an absent operand. */
typedef struct wf_tensor {
    wf_type_t type;
    void *data;
} wf_tensor_t;

/* Product of the dims (1 for a scalar); -1 when it does not fit in int64_t. */
WF_API int64_t wf_type_elems(const wf_type_t *type);
/* Bytes of the dense tensor, sub-byte types rounded up; -1 when it does not fit. 0 elements are 0 bytes. */
WF_API int64_t wf_type_bytes(const wf_type_t *type);
WF_API bool wf_type_equal(const wf_type_t *a, const wf_type_t *b);

/* A tensor with zeroed data of its own, 64-byte aligned (never NULL, so that an empty tensor differs from an
 * absent one). The caller frees it with wf_tensor_free and the same allocator. MODEL_LIMIT when the size
 * cannot be addressed, OUT_OF_MEMORY; then data is NULL. */
WF_API wf_status_t wf_tensor_make(const wf_type_t *type, wf_allocator_t allocator,
                                  wf_tensor_t *out_tensor) WF_MUST_USE;
/* Frees the data that wf_tensor_make gave; data NULL is allowed. */
WF_API void wf_tensor_free(wf_tensor_t *tensor, wf_allocator_t allocator);

#ifdef __cplusplus
}
#endif
#endif
