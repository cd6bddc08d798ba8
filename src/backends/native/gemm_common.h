/* SPDX-License-Identifier: Apache-2.0 */
/* What the families over the GEMM kernels share: plans as tactic parameters, packed weights, epilogue, the
 * launch. */
#ifndef WF_NATIVE_GEMM_COMMON_H
#define WF_NATIVE_GEMM_COMMON_H

#include "backends/native/native.h"

/* Keys of a wf_gemm_plan in tactic ids, in this order. */
#define WF_NATIVE_GEMM_KEYS                                        \
    {                                                              \
        "mb", "nb", "kb", "pv", "bd", "pa", "pb", "kw", "pf", NULL \
    }

/* Prepared product or convolution, `groups` of them side by side in the columns. */
typedef struct wf_native_gemm {
    wf_gemm_shape shape; /* of one group */
    wf_gemm_plan plan;
    int64_t groups;
    int64_t a_group_stride, b_group_stride, c_group_stride; /* elements */
    int64_t a_batch_stride[2], b_batch_stride[2], c_batch_stride[2];
    int32_t a_operand, b_operand;         /* of the problem */
    const float *a_constant, *b_constant; /* packed or kept; NULL: from the launch */
    const float *bias;                    /* [groups * n], NULL: none */
    wf_native_ep_t ep;
    size_t thread_workspace_bytes;
} wf_native_gemm_t;

void wf_native_gemm_caches(const wf_native_t *native, wf_gemm_caches *out_caches);
void wf_native_gemm_params(const wf_gemm_plan *plan, int32_t *out_params);
/* False for numbers that the kernels do not take with this shape. */
bool wf_native_gemm_plan_from(const int32_t *params, const wf_gemm_shape *shape, wf_gemm_plan *out_plan);
/* Every plan of the kernel's list as a variant; returns the count. */
size_t wf_native_gemm_variants(const wf_native_t *native, const wf_gemm_shape *shape,
                               wf_native_variant_t *out_variants, size_t capacity);
/* Workspace and estimate of a plan into a native plan; `flops` and `bytes` of the whole problem. */
void wf_native_gemm_needs(const wf_native_t *native, uint32_t tier, const wf_gemm_shape *shape,
                          const wf_gemm_plan *gemm_plan, double flops, double bytes, wf_native_plan_t *plan);
/* Packs the weights of every group. weights: of group 0, then weights_group_elems apart; scaled by alpha. */
wf_status_t wf_native_gemm_pack(wf_kernel_t *kernel, wf_native_gemm_t *gemm, const float *weights,
                                int64_t weights_group_elems, const wf_gemm_b_strides *strides,
                                float alpha) WF_MUST_USE;
/* Keeps a copy of `count` floats in the kernel's memory. */
wf_status_t wf_native_keep_floats(wf_kernel_t *kernel, const float *from, int64_t count,
                                  const float **out) WF_MUST_USE;
/* Runs with A, B (unless constant) and C at these addresses. lda and ldc of the shape may have been changed.
 */
void wf_native_gemm_run(const wf_kernel_t *kernel, const wf_native_gemm_t *gemm, const wf_gemm_shape *shape,
                        const wf_view_t *operands, float *c, void *workspace, const wf_parallel_t *parallel);

#endif
