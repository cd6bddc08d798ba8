/* SPDX-License-Identifier: Apache-2.0 */
/* One time step of LSTM, GRU and RNN, f32: the product of the state with the recurrent weights, and the cell.
 *
 * The product with the input is made before, for all steps at once (kernels/gemm.h). Weights are packed so
 * that all gates of a block of hidden units are neighbours: the sums of a block stay in registers from the
 * first multiply-add to the new state. Results of a tier depend neither on the rows that are computed
 * together nor on how the units are cut: each sum is one chain of multiply-adds in ascending order. Nothing
 * here allocates or blocks. All functions are thread-safe.
 */
#ifndef WF_NATIVE_RNN_H
#define WF_NATIVE_RNN_H

#include <stddef.h>
#include <stdint.h>

#include "backends/native/kernels/tiers.h"

/* What a pass over the recurrent weights computes; gates in ONNX's order. */
typedef enum wf_rnn_cell {
    WF_RNN_LSTM,       /* i, o, f, c */
    WF_RNN_GRU_LINEAR, /* z, r, h: the reset gate scales the product (linear_before_reset) */
    WF_RNN_GRU_GATES,  /* z, r: the first of two passes, where the reset gate scales the state */
    WF_RNN_GRU_UPDATE, /* h: the second */
    WF_RNN_PLAIN
} wf_rnn_cell;

typedef enum wf_rnn_act {
    WF_RNN_SIGMOID,
    WF_RNN_TANH,
    WF_RNN_RELU,
    WF_RNN_SOFTSIGN,
    WF_RNN_SOFTPLUS
} wf_rnn_act;

/* Hidden sizes of states are rounded up to this: whole vectors are stored. */
enum { WF_RNN_PAD = WF_VLEN_MAX };

/* One sequence at one step. */
typedef struct wf_rnn_row {
    const float *x; /* [gates of the operator][hidden]: input product and biases */
    const float *h; /* [padded]: state before */
    float *h_next;  /* [padded]: state after; not h */
    float *c;       /* LSTM: [padded], updated */
    float *y;       /* [hidden]: copy of the state after; NULL: none */
    float *z, *rh;  /* GRU in two passes: [padded] each, written by the first, read by the second */
} wf_rnn_row;

/* One direction. */
typedef struct wf_rnn_args {
    wf_rnn_cell cell;
    int64_t hidden;
    const float *weights;   /* of the pass, packed */
    const float *bias;      /* GRU_LINEAR: [hidden], recurrent bias of gate h; NULL: zero */
    const float *peepholes; /* LSTM: [3][hidden], i, o, f; NULL: none */
    float clip;             /* of what enters a gate; 0: none */
    int32_t input_forget;   /* LSTM: 1: f = 1 - i */
    wf_rnn_act acts[3];     /* f, g, h of the specification */
} wf_rnn_args;

static inline int64_t wf_rnn_gates(wf_rnn_cell cell)
{
    static const int8_t gates[] = {4, 3, 2, 1, 1};
    return gates[cell];
}

/* Vectors of units that are computed together; a cut of the units falls on a multiple (or on the end). */
static inline int64_t wf_rnn_block_vectors(int64_t gates)
{
    return gates >= 3 ? 2 : 8 / gates;
}

/* Floats of packed weights with vectors of vlen floats. */
static inline size_t wf_rnn_packed_elems(int64_t gates, int64_t hidden, int64_t vlen)
{
    return (size_t)gates * (size_t)((hidden + vlen - 1) / vlen * vlen) * (size_t)hidden;
}

/* Packs [gates][hidden][hidden] into out_packed[wf_rnn_packed_elems], zero padded; 64-byte aligned. */
typedef void wf_rnn_pack_f32_fn(const float *weights, int64_t gates, int64_t hidden, float *out_packed);

/* Computes vectors [begin, end) of hidden units for all rows. begin is a multiple of wf_rnn_block_vectors;
 * end too, or the number of vectors. */
typedef void wf_rnn_step_f32_fn(const wf_rnn_args *a, const wf_rnn_row *rows, int64_t row_count,
                                int64_t begin, int64_t end);

#define WF_X(tier)                             \
    wf_rnn_pack_f32_fn wf_rnn_pack_f32_##tier; \
    wf_rnn_step_f32_fn wf_rnn_step_f32_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
