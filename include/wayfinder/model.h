/* SPDX-License-Identifier: Apache-2.0 */
/* Model: an ONNX file that has been read, before shapes are given. Immutable; may be shared between threads.
 */
#ifndef WAYFINDER_MODEL_H
#define WAYFINDER_MODEL_H

#include "wayfinder/allocator.h"
#include "wayfinder/log.h"
#include "wayfinder/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wf_model wf_model_t;

/* A dim as the model states it. */
typedef struct wf_model_dim {
    int64_t size;       /* >= 0 when fixed, else -1 */
    const char *symbol; /* the name of a free dim; NULL when it is fixed or anonymous */
} wf_model_dim_t;

/* An input or output of the model. Borrowed from it. */
typedef struct wf_model_port {
    const char *name;
    wf_dtype_t dtype; /* WF_DTYPE_NONE: not a tensor, or no type stated */
    bool rank_known;
    uint32_t rank;
    wf_model_dim_t dims[WF_MAX_RANK];
} wf_model_port_t;

/* One reason why the model cannot be compiled. Borrowed. */
typedef struct wf_model_problem {
    wf_code_t code;
    const char *node, *op;
    int64_t opset;
    const char *reason, *hint;
} wf_model_problem_t;

typedef struct wf_model_summary {
    int64_t ir_version;
    const char *producer, *opsets;
    size_t node_count, initializer_count;
    uint64_t initializer_bytes;
    size_t input_count, output_count, problem_count;
    size_t op_kind_count;
} wf_model_summary_t;

/* Maps and reads an ONNX file; weights are not touched. Fails only when it is not an ONNX model
 * (MODEL_INVALID), breaks a limit (MODEL_LIMIT) or cannot be read; what cannot be compiled is in the list of
 * problems. */
WF_API wf_status_t wf_model_open(const char *path, wf_allocator_t allocator,
                                 wf_model_t **out_model) WF_MUST_USE;
/* NULL is allowed. */
WF_API void wf_model_close(wf_model_t *model);

WF_API wf_model_summary_t wf_model_summary(const wf_model_t *model);
WF_API wf_model_port_t wf_model_input(const wf_model_t *model, size_t index);
WF_API wf_model_port_t wf_model_output(const wf_model_t *model, size_t index);
WF_API wf_model_problem_t wf_model_problem(const wf_model_t *model, size_t index);
/* Operators by falling count. */
WF_API const char *wf_model_op(const wf_model_t *model, size_t index, size_t *out_count);
/* XXH3-128 of the file and its external data, as 32 hex digits; reads all of it the first time. */
WF_API wf_status_t wf_model_hash(const wf_model_t *model, char out_hex[33]) WF_MUST_USE;

/* Reads one recorded tensor (an ONNX TensorProto file). The data is allocated with `allocator` and freed by
 * wf_tensor_free. */
WF_API wf_status_t wf_tensor_read_onnx(const char *path, wf_allocator_t allocator,
                                       wf_tensor_t *out_tensor) WF_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
