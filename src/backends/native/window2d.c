/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/window2d.h"

#include "base/compiler.h"

#define SIZE_MAX_ELEMS (INT32_MAX / 4)

bool wf_native_window2d(const wf_problem_t *problem, const wf_type_t *kernel_from, wf_window2d_t *out_window)
{
    const wf_problem_stage_t *root = &problem->stages[0];
    const wf_type_t *x = &problem->operands[0].type;
    wf_window_t w;
    wf_status_t status = wf_window_resolve(root->op, &root->attrs, x, kernel_from, &w);
    if (status != WF_OK) {
        wf_status_free(status);
        return false;
    }
    if (w.spatial_rank < 1 || w.spatial_rank > 2 || wf_type_elems(x) <= 0 || wf_type_elems(&root->out) <= 0)
        return false;
    if (x->dims[0] > SIZE_MAX_ELEMS || x->dims[1] > SIZE_MAX_ELEMS || root->out.dims[1] > SIZE_MAX_ELEMS)
        return false;
    if (!wf_window_within(&w, SIZE_MAX_ELEMS))
        return false;
    bool flat = w.spatial_rank == 1;
    uint32_t h = 0, c = flat ? 0 : 1;
    *out_window = (wf_window2d_t){.images = (int32_t)x->dims[0],
                                  .channels = (int32_t)x->dims[1],
                                  .in_h = flat ? 1 : (int32_t)w.in[h],
                                  .in_w = (int32_t)w.in[c],
                                  .out_h = flat ? 1 : (int32_t)w.out[h],
                                  .out_w = (int32_t)w.out[c],
                                  .kernel_h = flat ? 1 : (int32_t)w.kernel[h],
                                  .kernel_w = (int32_t)w.kernel[c],
                                  .stride_h = flat ? 1 : (int32_t)w.stride[h],
                                  .stride_w = (int32_t)w.stride[c],
                                  .dilation_h = flat ? 1 : (int32_t)w.dilation[h],
                                  .dilation_w = (int32_t)w.dilation[c],
                                  .pad_top = flat ? 0 : (int32_t)w.pad_begin[h],
                                  .pad_left = (int32_t)w.pad_begin[c],
                                  .pad_bottom = flat ? 0 : (int32_t)w.pad_end[h],
                                  .pad_right = (int32_t)w.pad_end[c]};
    return true;
}
