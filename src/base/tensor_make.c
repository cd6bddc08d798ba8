/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that own their data. */
#include "base/mem.h"
#include "wayfinder/tensor.h"

wf_status_t wf_tensor_make(const wf_type_t *type, wf_allocator_t allocator, wf_tensor_t *out_tensor)
{
    *out_tensor = (wf_tensor_t){.type = *type};
    int64_t bytes = wf_type_bytes(type);
    if (bytes < 0)
        return WF_ERROR(MODEL_LIMIT, "a tensor is larger than can be addressed");
    /* One byte at least, so that an empty tensor differs from an absent one. */
    return wf_alloc_aligned(allocator, bytes > 0 ? (size_t)bytes : 1, 1, 64, &out_tensor->data);
}

void wf_tensor_free(wf_tensor_t *tensor, wf_allocator_t allocator)
{
    int64_t bytes = wf_type_bytes(&tensor->type);
    wf_free_aligned(allocator, tensor->data, bytes > 0 ? (size_t)bytes : 1, 1, 64);
    tensor->data = NULL;
}
