/* SPDX-License-Identifier: Apache-2.0 */
/* Batched matrix product C[m,n] = sum over k of A[m,k] * B[k,n], the core of matrix products, convolution and
 * attention. Who calls it says how to read a piece of a row of A and of B and where a piece of a row of C
 * goes, so that layouts, transposition, zero points, windows and epilogues are no concern of the loops.
 */
#ifndef WF_REF_PRODUCT_H
#define WF_REF_PRODUCT_H

#include "ref/kernel.h"

typedef struct wf_product wf_product_t;

/* Lanes of row `row` (m of A, k of B) of one batch, elements [first, first + count) (k of A, n of B); count
 * is at most WF_LANE_BLOCK. */
typedef void wf_product_load_fn(const wf_product_t *product, int64_t batch, int64_t row, int64_t first,
                                size_t count, wf_lane_t *out);
/* Takes row m of C, elements [first, first + count) of n; may overwrite the lanes. */
typedef void wf_product_store_fn(const wf_product_t *product, int64_t batch, int64_t row, int64_t first,
                                 size_t count, wf_lane_t *lanes);

struct wf_product {
    const wf_ref_call_t *call;
    int64_t batch, m, n, k;
    bool integer; /* lanes are i64 or u64 and sums wrap; else f64 */
    wf_product_load_fn *load_a, *load_b;
    wf_product_store_fn *store;
    const void *arg;
};

/* Runs it: plain loops when the call has no threads, else blocks packed for a register tile. Both add in
 * order of k. The blocked path needs wf_product_scratch_bytes of the call's scratch. */
void wf_product_run(const wf_product_t *product);
size_t wf_product_scratch_bytes(const wf_ref_call_t *call);

/* One tile of the blocked path, for kernels that go on with the tile: C rows [m0, m0 + m_count) x columns
 * [n0, n0 + n_count) of one batch, at most WF_TILE_M x WF_TILE_N, into `tile` (WF_TILE_N lanes a row).
 * `scratch` is WF_TILE_SCRATCH_BYTES, 64-byte aligned. */
#define WF_TILE_M 96
#define WF_TILE_N 128
#define WF_TILE_K 256
#define WF_TILE_BYTES ((size_t)WF_TILE_M * WF_TILE_N * 8)
#define WF_TILE_SCRATCH_BYTES ((size_t)(WF_TILE_M + WF_TILE_N) * WF_TILE_K * 8)
void wf_product_tile(const wf_product_t *product, int64_t batch, int64_t m0, int64_t m_count, int64_t n0,
                     int64_t n_count, wf_lane_t *tile, void *scratch);

#endif
