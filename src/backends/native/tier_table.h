/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of each CPU tier, as tables. */
#ifndef WF_NATIVE_TIER_TABLE_H
#define WF_NATIVE_TIER_TABLE_H

#include "backends/native/kernels/attention.h"
#include "backends/native/kernels/compare.h"
#include "backends/native/kernels/depthwise.h"
#include "backends/native/kernels/epilogue.h"
#include "backends/native/kernels/gemm.h"
#include "backends/native/kernels/layout.h"
#include "backends/native/kernels/norm.h"
#include "backends/native/kernels/pool.h"
#include "backends/native/kernels/quantize.h"
#include "backends/native/kernels/reduce.h"
#include "backends/native/kernels/resize.h"
#include "backends/native/kernels/rnn.h"
#include "backends/native/kernels/softmax.h"
#include "backends/native/kernels/winograd.h"
#include "device/tiers.h"

typedef struct wf_native_tier {
    const char *name;
    wf_tier_t tier; /* what the CPU must have */
    int32_t vlen;   /* floats in a vector */
    wf_ep_run_f32_fn *ep_run;
    const wf_gemm_kernels *gemm;
    const wf_winograd_kernels *winograd;
    wf_dw_f32_fn *depthwise;
    wf_pool_f32_fn *pool;
    wf_norm_f32_fn *norm;
    wf_group_norm_f32_fn *group_norm;
    wf_softmax_f32_fn *softmax;
    wf_copy_plan_fn *copy_plan;
    wf_copy_fn *copy;
    wf_gather_rows_fn *gather_rows;
    wf_reduce_f32_fn *reduce;
    wf_attention_f32_fn *attention;
    wf_resize_nearest_fn *resize_nearest;
    wf_resize_f32_fn *resize;
    wf_quantize_fn *quantize;
    wf_compare_fn *compare;
    wf_rnn_pack_f32_fn *rnn_pack;
    wf_rnn_step_f32_fn *rnn_step;
} wf_native_tier_t;

/* From scalar upwards. */
extern const wf_native_tier_t wf_native_tiers[];
extern const size_t wf_native_tier_count;

#endif
