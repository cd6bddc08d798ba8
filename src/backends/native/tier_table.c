/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/tier_table.h"

#include "base/compiler.h"

#define VLEN_scalar 4
#define VLEN_avx2 8
#define VLEN_avx512 16
#define TIER_scalar WF_TIER_SCALAR
#define TIER_avx2 WF_TIER_AVX2
#define TIER_avx512 WF_TIER_AVX512

extern wf_ep_run_f32_fn wf_ep_run_f32_scalar, wf_ep_run_f32_avx2, wf_ep_run_f32_avx512;

const wf_native_tier_t wf_native_tiers[] = {
#define X(t)                                     \
    {                                            \
        .name = #t,                              \
        .tier = TIER_##t,                        \
        .vlen = VLEN_##t,                        \
        .ep_run = wf_ep_run_f32_##t,             \
        .gemm = &wf_gemm_##t,                    \
        .winograd = &wf_winograd_##t,            \
        .depthwise = wf_dw_f32_##t,              \
        .pool = wf_pool_f32_##t,                 \
        .norm = wf_norm_f32_##t,                 \
        .group_norm = wf_group_norm_f32_##t,     \
        .softmax = wf_softmax_f32_##t,           \
        .copy_plan = wf_copy_plan_##t,           \
        .copy = wf_copy_##t,                     \
        .gather_rows = wf_gather_rows_##t,       \
        .reduce = wf_reduce_f32_##t,             \
        .attention = wf_attention_f32_##t,       \
        .resize_nearest = wf_resize_nearest_##t, \
        .resize = wf_resize_f32_##t,             \
        .quantize = wf_quantize_##t,             \
        .compare = wf_compare_##t,               \
        .rnn_pack = wf_rnn_pack_f32_##t,         \
        .rnn_step = wf_rnn_step_f32_##t,         \
    },
    WF_KERNEL_TIERS(X)
#undef X
};
const size_t wf_native_tier_count = WF_COUNT_OF(wf_native_tiers);
