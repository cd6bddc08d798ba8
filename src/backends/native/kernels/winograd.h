/* SPDX-License-Identifier: Apache-2.0 */
/* 3x3 convolution with stride 1 by Winograd's minimal filtering, f32, channels last.
 *
 * Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016: an output tile of m x m comes
 * from (m + 2)^2 products of transformed inputs and weights instead of 9 m^2, as (m + 2)^2 matrix products
 * over the channels. F(2x2) needs 2.25 and F(4x4) 4 times fewer multiplications than the direct form, less
 * the waste of tiles that hang over the border. Interpolation points 0, 1, -1 (2x2) and 0, 1, -1, 2, -2
 * (4x4). Rounding errors grow by the norms of the transforms: on normal data the signal to noise ratio
 * against double precision stays above 120 dB for F(2x2) and 110 dB for F(4x4) up to 512 channels (kernel
 * test, 2026-11-30).
 *
 * Work is cut into phases and, within a phase, into items that may run in any order and at the same time; a
 * phase starts when the one before is complete. Results do not depend on the blocking or the number of
 * threads. Nothing here allocates, blocks or reads outside of the operands. All functions are thread-safe and
 * exist once per tier, as a table.
 */
#ifndef WF_NATIVE_WINOGRAD_H
#define WF_NATIVE_WINOGRAD_H

#include <stddef.h>
#include <stdint.h>

#include "backends/native/kernels/epilogue.h"
#include "backends/native/kernels/gemm.h"
#include "backends/native/kernels/tiers.h"

/* Dilation 1. The input pixel (image, y, x) is at x[image * image_stride + y * row_stride + x *
 * pixel_stride], the result of output pixel p = (image * out_h + oh) * out_w + ow at y[p * ldc]; strides in
 * elements. Bottom and right padding follow from the output size. */
typedef struct wf_winograd_shape {
    int32_t images, in_h, in_w, out_h, out_w;
    int32_t channels, filters;
    int32_t pad_top, pad_left;
    int64_t image_stride, row_stride, pixel_stride;
    int64_t ldc; /* >= filters */
} wf_winograd_shape;

typedef struct wf_winograd_plan {
    int32_t tile;       /* m: 2 or 4 */
    int32_t tile_block; /* tiles of an item of the transforms */
    int32_t phased;     /* 0: one phase, an item takes its tiles through all steps and its data stays in L2;
                         * 1: three phases through shared memory, for few tiles with many channels */
    wf_gemm_plan gemm;  /* of the matrix products */
} wf_winograd_plan;

typedef struct wf_winograd_args {
    const float *x;
    const float *packed; /* from pack */
    float *y;            /* may not overlap x */
    /* Applied in order; the row of a stage is the output pixel, the column the filter. As for wf_gemm_args, a
     * leading [ADD col][ADD full][RELU or CLIP] is done in registers and a full operand may be y itself. */
    const wf_ep_stage *stages;
    size_t stage_count;
} wf_winograd_args;

typedef wf_winograd_plan wf_winograd_plan_default_fn(const wf_winograd_shape *shape,
                                                     const wf_gemm_caches *caches, int threads);

/* The plans worth measuring, the default first; writes at most `capacity` and returns how many there are in
 * all (never more than WF_WINOGRAD_PLANS_MAX). */
enum { WF_WINOGRAD_PLANS_MAX = 32 };
typedef size_t wf_winograd_plan_list_fn(const wf_winograd_shape *shape, const wf_gemm_caches *caches,
                                        int threads, wf_winograd_plan *out_plans, size_t capacity);

/* Floats of the transformed and packed weights. */
typedef size_t wf_winograd_packed_elems_fn(const wf_winograd_shape *shape, const wf_winograd_plan *plan);

/* Transforms (in double precision) and packs weights w[j * n + i * k + y * kh + x * kw]. out_packed should be
 * 64-byte aligned. */
typedef void wf_winograd_pack_fn(const wf_winograd_shape *shape, const wf_winograd_plan *plan,
                                 const float *weights, const wf_gemm_b_strides *strides, float *out_packed);

/* 1 or 3. */
typedef int wf_winograd_phase_count_fn(const wf_winograd_plan *plan);

typedef int64_t wf_winograd_item_count_fn(const wf_winograd_shape *shape, const wf_winograd_plan *plan,
                                          int phase);

/* Bytes of workspace that all threads share through all phases, and of the one that each thread has;
 * multiples of 64. */
typedef size_t wf_winograd_workspace_bytes_fn(const wf_winograd_shape *shape, const wf_winograd_plan *plan);

/* Computes one item of a phase. Workspaces are 64-byte aligned and need no initial contents. */
typedef void wf_winograd_item_fn(const wf_winograd_shape *shape, const wf_winograd_plan *plan,
                                 const wf_winograd_args *args, void *shared_workspace, void *thread_workspace,
                                 int phase, int64_t item);

typedef struct wf_winograd_kernels {
    wf_winograd_plan_default_fn *plan_default;
    wf_winograd_plan_list_fn *plan_list;
    wf_winograd_packed_elems_fn *packed_elems;
    wf_winograd_pack_fn *pack;
    wf_winograd_phase_count_fn *phase_count;
    wf_winograd_item_count_fn *item_count;
    wf_winograd_workspace_bytes_fn *shared_bytes;
    wf_winograd_workspace_bytes_fn *thread_bytes;
    wf_winograd_item_fn *item;
} wf_winograd_kernels;

/* wf_winograd_scalar, wf_winograd_avx2, ... */
#define WF_WINOGRAD_DECLARE(tier) extern const wf_winograd_kernels wf_winograd_##tier;
WF_KERNEL_TIERS(WF_WINOGRAD_DECLARE)
#undef WF_WINOGRAD_DECLARE

#endif
