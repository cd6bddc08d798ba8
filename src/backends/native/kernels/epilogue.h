/* SPDX-License-Identifier: Apache-2.0 */
/* A short program of elementwise stages, run on a block of rows that is still in L1.
 *
 * The same program serves the store of a GEMM, convolution or depthwise tile, and elementwise chains on their
 * own. A block is rows x cols of f32; for a channels-last image a row is a pixel and a column a channel.
 */
#ifndef WF_NATIVE_EPILOGUE_H
#define WF_NATIVE_EPILOGUE_H

#include <stddef.h>
#include <stdint.h>

/* The functions of stages, one row each in epilogue.def: X(enum, text, operand count). Unary rows use only a
 * and b. */
typedef enum wf_ep_fn {
#define X(name, text, operands) WF_EP_##name,
#include "backends/native/kernels/epilogue.def"
#undef X
    WF_EP_COUNT
} wf_ep_fn;

/* Where the second operand of a binary stage comes from. */
typedef enum wf_ep_operand {
    WF_EP_NONE,   /* unary stage */
    WF_EP_SCALAR, /* the value in `a` */
    WF_EP_COL,    /* data[col]: a bias, a per-channel scale */
    WF_EP_ROW,    /* data[row]: one value for the whole row */
    WF_EP_FULL    /* data[row * row_stride_elems + col]: a residual */
} wf_ep_operand;

typedef struct wf_ep_stage {
    uint8_t fn;      /* wf_ep_fn */
    uint8_t operand; /* wf_ep_operand */
    float a, b;      /* parameters of the function: slope, minimum and maximum, alpha and beta */
    const float *data;
    int64_t row_stride_elems; /* WF_EP_FULL only */
} wf_ep_stage;

/* Runs stages[0..stage_count) in order, in place, on x[row * x_stride_elems + col], row in [0, rows), col in
 * [0, cols). The block is the part of the whole result that starts at (row0, col0): operands are indexed by
 * absolute row and column. x may not overlap an operand, except a WF_EP_FULL operand that is exactly the same
 * memory. Never touches x or operands outside the block. Thread-safe. One symbol per tier:
 * wf_ep_run_f32_<tier>. */
typedef void wf_ep_run_f32_fn(const wf_ep_stage *stages, size_t stage_count, float *x, int64_t x_stride_elems,
                              int64_t row0, int64_t rows, int64_t col0, int64_t cols);

#endif
