/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto: what it says of itself, and its elements. */
#ifndef WF_ONNX_TENSOR_H
#define WF_ONNX_TENSOR_H

#include "onnx/proto.h"
#include "wayfinder/tensor.h"
#include "base/mem.h"

/* Element type and dims. MODEL_UNSUPPORTED for element types and ranks that Wayfinder does not have,
 * MODEL_INVALID for negative dims and sizes that do not fit in 63 bits. */
wf_status_t wf_onnx_tensor_type(const wf_pb_tensor_t *tensor, wf_type_t *out_type) WF_MUST_USE;

/* Checks that there is data and that its size is the type's, as far as that is possible without reading large
 * weights. External data must have been opened before. MODEL_INVALID, MODEL_UNSUPPORTED (strings). */
wf_status_t wf_onnx_tensor_check(const wf_pb_tensor_t *tensor, const wf_type_t *type) WF_MUST_USE;

/* The elements, dense and aligned to the size of one (8 at most). They are a view of the file where they lie
 * there aligned. Raw data of a protobuf file begins at any byte: what is not aligned is copied into the
 * arena, and pages of a large source in a mapped file (`mapped`) are given back, so that memory stays near
 * one copy. Data in typed fields is decoded into the arena. Nothing is done for tensors that nobody asks for.
 * Never NULL on success. MODEL_INVALID as above. */
wf_status_t wf_onnx_tensor_data(const wf_pb_tensor_t *tensor, const wf_type_t *type, bool mapped,
                                wf_arena_t *arena, const void **out_data) WF_MUST_USE;

#endif
