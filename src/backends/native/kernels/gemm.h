/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix product and convolution as one kernel family, f32, channels last.
 *
 *   C[r, j] = epilogue( sum over taps t and 0 <= i < k of A_t(r)[i] * B[t][i][j] ),  0 <= r < m, 0 <= j < n
 *
 * A_t(r) is a pointer to k consecutive floats. A plain product has one tap and rows at a constant stride; a
 * convolution has kernel_h * kernel_w taps and the rows are input pixels, or a row of zeros outside of the
 * image (the indirection idea of Dukhan, "The Indirect Convolution Algorithm", 2019; here the pointers of a
 * block of rows are made on the fly).
 *
 * A result is one chain of multiply-adds over (t, i) in ascending order, so it does not depend on the plan,
 * on the item or on the number of threads: results of a tier are bit-equal for all of them. Work is cut into
 * items that never share a result; the caller hands items to threads. Nothing here allocates, blocks or reads
 * outside of the operands. All functions are thread-safe. They exist once per tier, as a table of functions.
 */
#ifndef WF_NATIVE_GEMM_H
#define WF_NATIVE_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "backends/native/kernels/epilogue.h"
#include "backends/native/kernels/tiers.h"

typedef enum wf_gemm_a_kind {
    WF_GEMM_A_ROWS,    /* A(r)[i] = a[r * lda + i] */
    WF_GEMM_A_COLUMNS, /* A(r)[i] = a[i * lda + r]: a transposed A, copied block by block into the workspace
                        */
    WF_GEMM_A_CONV     /* input pixels of a convolution, see wf_gemm_conv */
} wf_gemm_a_kind;

typedef enum wf_gemm_b_kind {
    WF_GEMM_B_PACKED, /* from wf_gemm_pack_b with the same shape and plan */
    WF_GEMM_B_ROWS,   /* b[i * ldb + j]; one tap only */
    WF_GEMM_B_COLUMNS /* b[j * ldb + i]: a transposed B; one tap only */
} wf_gemm_b_kind;

/* Geometry of a convolution whose input pixel (image, y, x) is the channels at
 * a[image * image_stride + y * row_stride + x * pixel_stride + channel], strides in elements. A grouped
 * convolution is one call per group with offset pointers. Bottom and right padding follow from the output
 * size. */
typedef struct wf_gemm_conv {
    int32_t images, in_h, in_w, out_h, out_w;
    int32_t channels;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t pad_top, pad_left;
    int64_t image_stride, row_stride, pixel_stride;
} wf_gemm_conv;

typedef struct wf_gemm_shape {
    wf_gemm_a_kind a_kind;
    wf_gemm_b_kind b_kind;
    int64_t m, n, k;   /* CONV: m = images * out_h * out_w, k = channels */
    int64_t lda, ldb;  /* elements; unused for CONV and for PACKED */
    int64_t ldc;       /* elements between rows of C, >= n */
    wf_gemm_conv conv; /* CONV only */
    int64_t batch[2];  /* independent products, outer and inner count, each >= 1 */
} wf_gemm_shape;

/* How the loops are blocked. No plan changes a result; `panel_vectors` and `merge_kw` change the packed
 * layout of B. Zero is not a valid block: start from wf_gemm_plan_default. */
typedef struct wf_gemm_plan {
    int32_t m_block;       /* rows of an item */
    int32_t n_block;       /* columns of an item, rounded up to whole panels */
    int32_t k_block;       /* depth of a pass over (tap, i); partial sums wait in the workspace */
    int16_t panel_vectors; /* width of a B panel in vectors, 1 to 3 */
    int16_t
        m_band; /* rows that take all panels of the item before the next rows do; 0: all rows of the item */
    int16_t pack_a; /* 1: copy the rows of a block and pass into the workspace (against aliasing strides) */
    int16_t pack_b; /* ROWS only; 0: read B in place (the last partial panel is copied anyway) */
    /* CONV, dilation_w 1, pixel_stride = channels: the taps of a kernel row are one long tap. */
    int16_t merge_kw;
    int16_t prefetch; /* next B panel into: 0 nothing, 1 L2, 2 L1 */
} wf_gemm_plan;

typedef struct wf_gemm_caches {
    int64_t l1_bytes, l2_bytes, l3_bytes; /* data caches as one thread sees them; l3 is its share */
} wf_gemm_caches;

typedef struct wf_gemm_args {
    const float *a;
    const float *b;
    float *c;
    /* Elements between batches: [0] for the outer index, [1] for the inner one; 0 shares the operand. For a
     * packed B the unit is still elements (wf_gemm_packed_elems per product). */
    int64_t a_batch_stride[2], b_batch_stride[2], c_batch_stride[2];
    /* Applied in order to every finished block; rows count through the batches (batch * m + r). A leading
     * [ADD col][ADD full][RELU or CLIP], each optional, is done in registers at the store. A full operand may
     * be C itself. */
    const wf_ep_stage *stages;
    size_t stage_count;
} wf_gemm_args;

/* Strides of unpacked weights in elements: the weight of output column j, input channel (or row) i and tap
 * (y, x) is w[j * n + i * k + y * kh + x * kw]. ONNX convolution [n][k][kh][kw]: {k*kh*kw, kh*kw, kw, 1};
 * B[k][n]: {1, n, 0, 0}. */
typedef struct wf_gemm_b_strides {
    int64_t n, k, kh, kw;
} wf_gemm_b_strides;

/* A plan from cache sizes and the number of threads, without measuring. */
typedef wf_gemm_plan wf_gemm_plan_default_fn(const wf_gemm_shape *shape, const wf_gemm_caches *caches,
                                             int threads);

/* The plans worth measuring, the default first; writes at most `capacity` and returns how many there are in
 * all (never more than WF_GEMM_PLANS_MAX). */
enum { WF_GEMM_PLANS_MAX = 64 };
typedef size_t wf_gemm_plan_list_fn(const wf_gemm_shape *shape, const wf_gemm_caches *caches, int threads,
                                    wf_gemm_plan *out_plans, size_t capacity);

/* Number of items of the whole batch. */
typedef int64_t wf_gemm_item_count_fn(const wf_gemm_shape *shape, const wf_gemm_plan *plan);

/* Bytes of workspace for one thread, a multiple of 64; never less than for the same shape with fewer rows. */
typedef size_t wf_gemm_workspace_bytes_fn(const wf_gemm_shape *shape, const wf_gemm_plan *plan);

/* Floats of the packed B of one product. */
typedef size_t wf_gemm_packed_elems_fn(const wf_gemm_shape *shape, const wf_gemm_plan *plan);

/* Packs one product's B into out_packed[wf_gemm_packed_elems]: panels [n / panel][tap][k][panel], zero
 * padded. out_packed should be 64-byte aligned. */
typedef void wf_gemm_pack_b_fn(const wf_gemm_shape *shape, const wf_gemm_plan *plan, const float *weights,
                               const wf_gemm_b_strides *strides, float *out_packed);

/* Where pack_b puts B[i][j] of a shape with one tap, as an offset in floats. */
typedef size_t wf_gemm_packed_at_fn(const wf_gemm_shape *shape, const wf_gemm_plan *plan, int64_t i,
                                    int64_t j);

/* Computes item `item` in [0, item count). `workspace` (64-byte aligned) belongs to the calling thread and
 * needs no initial contents. Items may run in any order and at the same time. C may not overlap A or B. */
typedef void wf_gemm_item_fn(const wf_gemm_shape *shape, const wf_gemm_plan *plan, const wf_gemm_args *args,
                             void *workspace, int64_t item);

typedef struct wf_gemm_kernels {
    wf_gemm_plan_default_fn *plan_default;
    wf_gemm_plan_list_fn *plan_list;
    wf_gemm_item_count_fn *item_count;
    wf_gemm_workspace_bytes_fn *workspace_bytes;
    wf_gemm_packed_elems_fn *packed_elems;
    wf_gemm_pack_b_fn *pack_b;
    wf_gemm_packed_at_fn *packed_at;
    wf_gemm_item_fn *item;
} wf_gemm_kernels;

/* wf_gemm_scalar, wf_gemm_avx2, ... */
#define WF_GEMM_DECLARE(tier) extern const wf_gemm_kernels wf_gemm_##tier;
WF_KERNEL_TIERS(WF_GEMM_DECLARE)
#undef WF_GEMM_DECLARE

#endif
