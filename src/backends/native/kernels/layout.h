/* SPDX-License-Identifier: Apache-2.0 */
/* Moving elements: one strided copy for transposes, layout changes, slices, concatenation, splits and
 * broadcasts, and a gather of rows. Elements are bytes of any meaning; nothing is converted.
 *
 * Source and destination are two views of the same dims. Equal neighbouring dims are merged, and what is left
 * runs as copies of contiguous runs, as a blocked transpose of a plane in registers, or element by element.
 * Strides may be zero (broadcast) or negative (reversed) in the source. Nothing here allocates or blocks, or
 * touches memory outside the first and the last element of a view; destination elements between those of the
 * view stay as they are. All functions are thread-safe; items never share a destination element.
 */
#ifndef WF_NATIVE_LAYOUT_H
#define WF_NATIVE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "backends/native/kernels/tiers.h"

#define WF_COPY_RANK_MAX 8

typedef enum wf_copy_kind {
    WF_COPY_RUNS,    /* the last dim is contiguous in both views */
    WF_COPY_PLANE,   /* the last dim is contiguous in the destination, dim `plane_dim` in the source */
    WF_COPY_ELEMENTS /* anything else */
} wf_copy_kind;

/* A prepared copy: plain data, valid for any pair of addresses. Made by wf_copy_plan. */
typedef struct wf_copy_plan {
    wf_copy_kind kind;
    int32_t elem_bytes; /* 1, 2, 4 or 8; a short contiguous run may have become one element */
    int32_t rank;       /* 1 to WF_COPY_RANK_MAX, outermost dim first */
    int32_t plane_dim;
    int64_t dims[WF_COPY_RANK_MAX];
    int64_t src_strides[WF_COPY_RANK_MAX], dst_strides[WF_COPY_RANK_MAX]; /* elements */
    int64_t items;
    int64_t rows_per_item,
        cols_per_item; /* rows: of all outer dims, or of plane_dim; cols: of the last dim */
} wf_copy_plan;

/* Prepares dst[i . dst_strides] = src[i . src_strides] for all 0 <= i[d] < dims[d]. elem_bytes is 1, 2, 4 or
 * 8; strides are in elements; destination elements are distinct. A transpose by perm has dims[d] =
 * src_dims[perm[d]] and src_strides[d] = src_stride[perm[d]]. An empty dim gives no items. Returns 0, or -1
 * when more than WF_COPY_RANK_MAX dims are left after merging, and then *out_plan is not usable. */
typedef int wf_copy_plan_fn(int32_t elem_bytes, size_t rank, const int64_t *dims, const int64_t *src_strides,
                            const int64_t *dst_strides, wf_copy_plan *out_plan);

/* Copies item `item` in [0, plan->items). The views must not overlap. */
typedef void wf_copy_fn(const wf_copy_plan *plan, const void *src, void *dst, int64_t item);

typedef struct wf_gather_args {
    const void *src; /* [outer][entries][row_bytes], dense */
    void *dst;       /* [outer][index_count][row_bytes], dense; no overlap */
    const void *indices;
    int32_t index_bytes; /* 4 or 8: int32_t or int64_t */
    int64_t outer, entries, index_count, row_bytes;
} wf_gather_args;

/* Copies rows [begin, end) of the outer * index_count destination rows. A negative index counts from the end.
 * Returns -1, or the number of the first row with an index outside [-entries, entries); the rows before it
 * are written then. */
typedef int64_t wf_gather_rows_fn(const wf_gather_args *a, int64_t begin, int64_t end);

#define WF_X(tier)                       \
    wf_copy_plan_fn wf_copy_plan_##tier; \
    wf_copy_fn wf_copy_##tier;           \
    wf_gather_rows_fn wf_gather_rows_##tier;
WF_KERNEL_TIERS(WF_X)
#undef WF_X

#endif
