/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/layout.h"

#include <assert.h>

#include "backends/native/kernels/transpose_block.h"

/* Bytes that an item moves at least, if there are as many: far more than handing out an item costs, and
 * several items per thread in a tensor that matters. */
#define LAYOUT_ITEM_BYTES 32768

/* ---- plan ---- */

static int64_t layout_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t layout_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t layout_div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Drops dims of one, and merges dims whose strides agree in both views. Returns the rank, or -1 for too many.
 */
static int layout_merge(size_t rank, const int64_t *dims, const int64_t *src, const int64_t *dst,
                        wf_copy_plan *p)
{
    int n = 0;
    for (size_t d = 0; d < rank; d++) {
        if (dims[d] == 1) {
            continue;
        }
        if (n > 0 && p->src_strides[n - 1] == dims[d] * src[d] && p->dst_strides[n - 1] == dims[d] * dst[d]) {
            p->dims[n - 1] *= dims[d];
            p->src_strides[n - 1] = src[d];
            p->dst_strides[n - 1] = dst[d];
            continue;
        }
        if (n == WF_COPY_RANK_MAX) {
            return -1;
        }
        p->dims[n] = dims[d];
        p->src_strides[n] = src[d];
        p->dst_strides[n] = dst[d];
        n++;
    }
    if (n == 0) {
        p->dims[0] = 1;
        p->src_strides[0] = p->dst_strides[0] = 1;
        n = 1;
    }
    return n;
}

/* Turns a contiguous last dim of 2, 4 or 8 bytes into the element, when all other strides allow it. */
static void layout_widen(wf_copy_plan *p)
{
    const int last = p->rank - 1;
    const int64_t run = p->dims[last];
    if (p->rank == 1 || p->src_strides[last] != 1 || p->dst_strides[last] != 1 ||
        (run != 2 && run != 4 && run != 8) || run * p->elem_bytes > 8) {
        return;
    }
    for (int d = 0; d < last; d++) {
        if (p->src_strides[d] % run != 0 || p->dst_strides[d] % run != 0) {
            return;
        }
    }
    for (int d = 0; d < last; d++) {
        p->src_strides[d] /= run;
        p->dst_strides[d] /= run;
    }
    p->elem_bytes *= (int32_t)run;
    p->rank--;
}

int WF_KERNEL(wf_copy_plan)(int32_t elem_bytes, size_t rank, const int64_t *dims, const int64_t *src_strides,
                            const int64_t *dst_strides, wf_copy_plan *out_plan)
{
    assert(elem_bytes == 1 || elem_bytes == 2 || elem_bytes == 4 || elem_bytes == 8);
    wf_copy_plan p = {.elem_bytes = elem_bytes};
    for (size_t d = 0; d < rank; d++) {
        assert(dims[d] >= 0);
        if (dims[d] == 0) {
            p.rank = 1;
            *out_plan = p;
            return 0;
        }
    }
    p.rank = layout_merge(rank, dims, src_strides, dst_strides, &p);
    if (p.rank < 0) {
        return -1;
    }
    layout_widen(&p);

    const int last = p.rank - 1;
    const int64_t cols = p.dims[last];
    int64_t rows = 1; /* of all other dims */
    for (int d = 0; d < last; d++) {
        rows *= p.dims[d];
    }
    p.kind = WF_COPY_ELEMENTS;
    if (p.dst_strides[last] == 1 && p.src_strides[last] == 1) {
        p.kind = WF_COPY_RUNS;
    } else if (p.dst_strides[last] == 1) {
        for (int d = 0; d < last; d++) {
            if (p.src_strides[d] == 1) {
                p.kind = WF_COPY_PLANE;
                p.plane_dim = d;
            }
        }
    }
    const int64_t item_elems = LAYOUT_ITEM_BYTES / p.elem_bytes;
    if (p.kind == WF_COPY_PLANE) {
        /* Planes of few rows (an image of three channels) are cut along the columns instead. */
        const int64_t plane_rows = p.dims[p.plane_dim];
        p.cols_per_item = layout_min(cols, layout_max(64, item_elems / layout_min(plane_rows, 64) / 64 * 64));
        p.rows_per_item = layout_min(plane_rows, layout_max(64, item_elems / p.cols_per_item / 64 * 64));
        p.items = rows / plane_rows * layout_div_up(plane_rows, p.rows_per_item) *
                  layout_div_up(cols, p.cols_per_item);
    } else {
        p.cols_per_item = layout_min(cols, item_elems);
        p.rows_per_item = layout_min(rows, layout_max(1, item_elems / p.cols_per_item));
        p.items = layout_div_up(rows, p.rows_per_item) * layout_div_up(cols, p.cols_per_item);
    }
    *out_plan = p;
    return 0;
}

/* ---- runs and elements ---- */

/* memcpy is a call, which short runs feel. */
WF_INLINE void layout_copy_run(uint8_t *dst, const uint8_t *src, size_t bytes)
{
    typedef struct chunk {
        uint64_t words[4];
    } chunk;
    if (bytes > 512 || bytes < sizeof(chunk)) {
        memcpy(dst, src, bytes);
        return;
    }
    chunk c;
    for (size_t i = 0; i + sizeof c <= bytes; i += sizeof c) {
        memcpy(&c, src + i, sizeof c);
        memcpy(dst + i, &c, sizeof c);
    }
    memcpy(&c, src + bytes - sizeof c, sizeof c);
    memcpy(dst + bytes - sizeof c, &c, sizeof c);
}

#define LAYOUT_SIZES(X) X(1) X(2) X(4) X(8)

#define X(bytes)                                                                              \
    static void layout_elements_##bytes(const uint8_t *src, int64_t src_stride, uint8_t *dst, \
                                        int64_t dst_stride, int64_t n)                        \
    {                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                     \
            memcpy(dst + i * dst_stride * bytes, src + i * src_stride * bytes, bytes);        \
        }                                                                                     \
    }
LAYOUT_SIZES(X)
#undef X

/* Offsets of the row with number `row` of the dims before the last, without dim `skip`. */
static void layout_offsets(const wf_copy_plan *p, int64_t row, int skip, int64_t *out_src, int64_t *out_dst)
{
    *out_src = 0;
    *out_dst = 0;
    for (int d = p->rank - 2; d >= 0; d--) {
        if (d != skip) {
            const int64_t i = row % p->dims[d];
            row /= p->dims[d];
            *out_src += i * p->src_strides[d];
            *out_dst += i * p->dst_strides[d];
        }
    }
}

static void layout_rows(const wf_copy_plan *p, const uint8_t *src, uint8_t *dst, int64_t item)
{
    const int last = p->rank - 1;
    const int64_t bytes = p->elem_bytes;
    const int64_t col_items = layout_div_up(p->dims[last], p->cols_per_item);
    const int64_t col = item % col_items * p->cols_per_item;
    const int64_t cols = layout_min(p->dims[last] - col, p->cols_per_item);
    int64_t rows = 1;
    for (int d = 0; d < last; d++) {
        rows *= p->dims[d];
    }
    const int64_t begin = item / col_items * p->rows_per_item;
    const int64_t end = layout_min(rows, begin + p->rows_per_item);
    /* Rows of the innermost of the other dims are a constant stride apart. */
    const int64_t inner = last > 0 ? p->dims[last - 1] : 1;
    const int64_t src_step = last > 0 ? p->src_strides[last - 1] * bytes : 0;
    const int64_t dst_step = last > 0 ? p->dst_strides[last - 1] * bytes : 0;
    for (int64_t row = begin; row < end;) {
        int64_t src_at, dst_at;
        layout_offsets(p, row, -1, &src_at, &dst_at);
        const uint8_t *s = src + (src_at + col * p->src_strides[last]) * bytes;
        uint8_t *d = dst + (dst_at + col * p->dst_strides[last]) * bytes;
        const int64_t count = layout_min(end - row, inner - row % inner);
        row += count;
        for (int64_t i = 0; i < count; i++) {
            if (p->kind == WF_COPY_RUNS) {
                layout_copy_run(d, s, (size_t)(cols * bytes));
            } else {
                switch (bytes) {
#define X(size)                                                                         \
    case size:                                                                          \
        layout_elements_##size(s, p->src_strides[last], d, p->dst_strides[last], cols); \
        break;
                    LAYOUT_SIZES(X)
#undef X
                }
            }
            s += src_step;
            d += dst_step;
        }
    }
}

/* ---- planes ---- */

WF_INLINE void layout_block(const int bytes, const int height, const uint8_t *src, int64_t src_stride,
                            uint8_t *dst, int64_t dst_stride, int src_rows, int dst_rows)
{
    switch (bytes) {
    case 1:
        wf_transpose_block_1(src, src_stride, dst, dst_stride, src_rows, dst_rows);
        break;
    case 2:
        wf_transpose_block_2(src, src_stride, dst, dst_stride, src_rows, dst_rows);
        break;
    case 4:
        if (height == 2) {
            wf_transpose_block_4w(src, src_stride, dst, dst_stride, src_rows, dst_rows);
        } else {
            wf_transpose_block_4(src, src_stride, dst, dst_stride, src_rows, dst_rows);
        }
        break;
    default:
        if (height == 2) {
            wf_transpose_block_8w(src, src_stride, dst, dst_stride, src_rows, dst_rows);
        } else {
            wf_transpose_block_8(src, src_stride, dst, dst_stride, src_rows, dst_rows);
        }
    }
}

/* At least a block of rows and columns: blocks that move back to end at the end. */
WF_INLINE void layout_tile(const int bytes, const int height, const uint8_t *src, int64_t src_stride,
                           uint8_t *dst, int64_t dst_stride, int64_t rows, int64_t cols)
{
    const int64_t n = 16 / bytes, step = n * height;
    for (int64_t k = 0; k < cols; k += step) {
        const int64_t col = cols - k >= step ? k : cols - step;
        for (int64_t j = 0; j < rows; j += n) {
            const int64_t row = rows - j >= n ? j : rows - n;
            layout_block(bytes, height, src + (col * src_stride + row) * bytes, src_stride,
                         dst + (row * dst_stride + col) * bytes, dst_stride, (int)step, (int)n);
        }
    }
}

/* dst[j * dst_stride + k] = src[k * src_stride + j], 0 <= j < rows, 0 <= k < cols. */
WF_INLINE void layout_plane_any(const int bytes, const uint8_t *src, int64_t src_stride, uint8_t *dst,
                                int64_t dst_stride, int64_t rows, int64_t cols)
{
    const int64_t n = 16 / bytes;
    if (rows >= n && cols >= n) {
        /* Tiles of two destination lines by one source line, so that each line is touched in one go. */
        const int64_t most_cols = 128 / bytes, most_rows = 64 / bytes;
        for (int64_t k = 0; k < cols;) {
            const int64_t tile_cols = cols - k < most_cols + n ? cols - k : most_cols;
            for (int64_t j = 0; j < rows;) {
                const int64_t tile_rows = rows - j < most_rows + n ? rows - j : most_rows;
                const uint8_t *s = src + (k * src_stride + j) * bytes;
                uint8_t *d = dst + (j * dst_stride + k) * bytes;
                if (tile_cols >= n * WF_TB_HEIGHT(bytes)) {
                    layout_tile(bytes, WF_TB_HEIGHT(bytes), s, src_stride, d, dst_stride, tile_rows,
                                tile_cols);
                } else {
                    layout_tile(bytes, 1, s, src_stride, d, dst_stride, tile_rows, tile_cols);
                }
                j += tile_rows;
            }
            k += tile_cols;
        }
        return;
    }
    int64_t done_rows = 0, done_cols = 0;
    if (rows >= n && dst_stride == cols) {
        /* Few columns, rows back to back (an image of three channels): a whole vector is stored for each row,
         * and what is too much is overwritten by the rows that follow. */
        for (; (done_rows + n - 1) * cols + n <= rows * cols; done_rows += n) {
            layout_block(bytes, 1, src + done_rows * bytes, src_stride, dst + done_rows * cols * bytes, cols,
                         (int)cols, (int)n);
        }
    } else if (cols >= n && src_stride >= rows) {
        /* Few rows: a whole vector is read for each column, while it ends inside the view. */
        for (; (done_cols + n - 1) * src_stride + n <= (cols - 1) * src_stride + rows; done_cols += n) {
            layout_block(bytes, 1, src + done_cols * src_stride * bytes, src_stride, dst + done_cols * bytes,
                         dst_stride, (int)n, (int)rows);
        }
    }
    for (int64_t j = done_rows; j < rows; j++) {
        for (int64_t k = done_cols; k < cols; k++) {
            memcpy(dst + (j * dst_stride + k) * bytes, src + (k * src_stride + j) * bytes, (size_t)bytes);
        }
    }
}

#define X(bytes)                                                                           \
    static void layout_plane_##bytes(const uint8_t *src, int64_t src_stride, uint8_t *dst, \
                                     int64_t dst_stride, int64_t rows, int64_t cols)       \
    {                                                                                      \
        layout_plane_any(bytes, src, src_stride, dst, dst_stride, rows, cols);             \
    }
LAYOUT_SIZES(X)
#undef X

static void layout_plane(const wf_copy_plan *p, const uint8_t *src, uint8_t *dst, int64_t item)
{
    const int last = p->rank - 1;
    const int64_t bytes = p->elem_bytes;
    const int64_t src_stride = p->src_strides[last], dst_stride = p->dst_strides[p->plane_dim];
    const int64_t row_items = layout_div_up(p->dims[p->plane_dim], p->rows_per_item);
    const int64_t col_items = layout_div_up(p->dims[last], p->cols_per_item);
    const int64_t col = item % col_items * p->cols_per_item;
    const int64_t row = item / col_items % row_items * p->rows_per_item;
    const int64_t cols = layout_min(p->dims[last] - col, p->cols_per_item);
    const int64_t rows = layout_min(p->dims[p->plane_dim] - row, p->rows_per_item);
    int64_t src_at, dst_at;
    layout_offsets(p, item / col_items / row_items, p->plane_dim, &src_at, &dst_at);
    const uint8_t *s = src + (src_at + row + col * src_stride) * bytes;
    uint8_t *d = dst + (dst_at + row * dst_stride + col) * bytes;
    switch (bytes) {
#define X(size)                                                        \
    case size:                                                         \
        layout_plane_##size(s, src_stride, d, dst_stride, rows, cols); \
        break;
        LAYOUT_SIZES(X)
#undef X
    }
}

void WF_KERNEL(wf_copy)(const wf_copy_plan *plan, const void *src, void *dst, int64_t item)
{
    assert(item >= 0 && item < plan->items);
    if (plan->kind == WF_COPY_PLANE) {
        layout_plane(plan, src, dst, item);
    } else {
        layout_rows(plan, src, dst, item);
    }
}

/* ---- gather ---- */

int64_t WF_KERNEL(wf_gather_rows)(const wf_gather_args *a, int64_t begin, int64_t end)
{
    assert(a->index_bytes == 4 || a->index_bytes == 8);
    assert(begin >= 0 && begin <= end && end <= a->outer * a->index_count);
    const uint8_t *src = a->src;
    uint8_t *dst = a->dst;
    for (int64_t row = begin; row < end; row++) {
        const int64_t i = row % a->index_count;
        int64_t index;
        if (a->index_bytes == 8) {
            memcpy(&index, (const uint8_t *)a->indices + i * 8, 8);
        } else {
            int32_t narrow;
            memcpy(&narrow, (const uint8_t *)a->indices + i * 4, 4);
            index = narrow;
        }
        if (index < -a->entries || index >= a->entries) {
            return row;
        }
        index += index < 0 ? a->entries : 0;
        const int64_t entry = row / a->index_count * a->entries + index;
        layout_copy_run(dst + row * a->row_bytes, src + entry * a->row_bytes, (size_t)a->row_bytes);
    }
    return -1;
}
