/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over strided index spaces and copies between strided regions. */
#include <string.h>

#include "ref/kernel.h"

void wf_unravel(int64_t number, uint32_t rank, const int64_t *dims, int64_t *out_index)
{
    for (uint32_t d = rank; d-- > 0; number /= dims[d]) {
        out_index[d] = number % dims[d];
    }
}

void wf_strides_dense(uint32_t rank, const int64_t *dims, int64_t *out_strides)
{
    int64_t stride = 1;
    for (uint32_t d = rank; d-- > 0;) {
        out_strides[d] = stride;
        stride *= dims[d] > 0 ? dims[d] : 1;
    }
}

void wf_walk_merge(wf_walk_t *walk)
{
    uint32_t rank = 0;
    for (uint32_t d = 0; d < walk->rank; d++) {
        int64_t dim = walk->dims[d], stride = walk->strides[d];
        if (dim == 1) {
            continue;
        }
        if (rank > 0 && walk->strides[rank - 1] == stride * dim) {
            walk->dims[rank - 1] *= dim;
            walk->strides[rank - 1] = stride;
        } else {
            walk->dims[rank] = dim;
            walk->strides[rank] = stride;
            rank++;
        }
    }
    walk->rank = rank;
}

void wf_walk_broadcast(const wf_type_t *from, const wf_type_t *to, wf_walk_t *out_walk)
{
    int64_t dense[WF_MAX_RANK];
    wf_strides_dense(from->rank, from->dims, dense);
    *out_walk = (wf_walk_t){.rank = to->rank};
    uint32_t missing = to->rank - from->rank;
    for (uint32_t d = 0; d < to->rank; d++) {
        bool repeated = d < missing || from->dims[d - missing] == 1;
        out_walk->dims[d] = to->dims[d];
        out_walk->strides[d] = repeated ? 0 : dense[d - missing];
    }
    wf_walk_merge(out_walk);
}

void wf_walk_load(const wf_walk_t *walk, wf_dtype_t dtype, const void *data, int64_t first, size_t count,
                  wf_lane_t *out)
{
    uint32_t rank = walk->rank;
    if (rank == 0) {
        wf_lanes_load(dtype, data, walk->base, 0, count, out);
        return;
    }
    int64_t index[WF_MAX_RANK], offset = walk->base, rest = first;
    for (uint32_t d = rank; d-- > 0;) {
        index[d] = rest % walk->dims[d];
        rest /= walk->dims[d];
        offset += index[d] * walk->strides[d];
    }
    uint32_t last = rank - 1;
    while (count > 0) {
        size_t run = WF_MIN((size_t)(walk->dims[last] - index[last]), count);
        wf_lanes_load(dtype, data, offset, walk->strides[last], run, out);
        out += run;
        count -= run;
        index[last] += (int64_t)run;
        offset += (int64_t)run * walk->strides[last];
        for (uint32_t d = last; d > 0 && index[d] == walk->dims[d]; d--) {
            offset += walk->strides[d - 1] - index[d] * walk->strides[d];
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

wf_split_t wf_split_at(const wf_type_t *type, int64_t axis, int64_t end)
{
    wf_split_t split = {1, 1, 1};
    for (int64_t d = 0; d < type->rank; d++) {
        int64_t *part = d < axis ? &split.outer : d < end ? &split.axis : &split.inner;
        *part *= type->dims[d];
    }
    return split;
}

int64_t wf_axis_wrap(int64_t axis, int64_t rank)
{
    return axis < 0 ? axis + rank : axis;
}

/* ---- Regions
 * ----------------------------------------------------------------------------------------------------- */

typedef void row_copy_fn(void *to, int64_t to_first, int64_t to_stride, const void *from, int64_t from_first,
                         int64_t from_stride, int64_t count);

#define ROW_COPY(bits, ctype)                                                                    \
    static void row_copy_##bits(void *to, int64_t to_first, int64_t to_stride, const void *from, \
                                int64_t from_first, int64_t from_stride, int64_t count)          \
    {                                                                                            \
        typedef WF_UNALIGNED(ctype) any_t;                                                       \
        any_t *t = (any_t *)to + to_first;                                                       \
        const any_t *f = (const any_t *)from + from_first;                                       \
        if (to_stride == 1 && from_stride == 1) {                                                \
            memcpy(t, f, (size_t)count * sizeof *t);                                             \
            return;                                                                              \
        }                                                                                        \
        for (int64_t k = 0; k < count; k++) {                                                    \
            t[k * to_stride] = f[k * from_stride];                                               \
        }                                                                                        \
    }
ROW_COPY(8, uint8_t)
ROW_COPY(16, uint16_t)
ROW_COPY(32, uint32_t)
ROW_COPY(64, uint64_t)

#define ROW_COPY_PACKED(bits, dtype)                                                             \
    static void row_copy_##bits(void *to, int64_t to_first, int64_t to_stride, const void *from, \
                                int64_t from_first, int64_t from_stride, int64_t count)          \
    {                                                                                            \
        for (int64_t k = 0; k < count; k++) {                                                    \
            wf_lane_t lane = wf_lane_load(dtype, from, from_first + k * from_stride);            \
            wf_lane_store(dtype, to, to_first + k * to_stride, lane);                            \
        }                                                                                        \
    }
ROW_COPY_PACKED(4, WF_DTYPE_U4)
ROW_COPY_PACKED(2, WF_DTYPE_U2)

static row_copy_fn *row_copy_of(wf_dtype_t dtype)
{
    static const struct {
        uint32_t bits;
        row_copy_fn *copy;
    } copies[] = {{2, row_copy_2},   {4, row_copy_4},   {8, row_copy_8},
                  {16, row_copy_16}, {32, row_copy_32}, {64, row_copy_64}};
    size_t c = 0;
    while (copies[c].bits != wf_dtype_bits(dtype)) {
        c++;
    }
    return copies[c].copy;
}

void wf_elems_copy(wf_dtype_t dtype, void *to, int64_t to_index, const void *from, int64_t from_index,
                   int64_t count)
{
    row_copy_of(dtype)(to, to_index, 1, from, from_index, 1, count);
}

typedef struct region_job {
    row_copy_fn *copy;
    uint32_t rank; /* of the dims before the row */
    int64_t dims[WF_REGION_RANK], to_strides[WF_REGION_RANK], from_strides[WF_REGION_RANK];
    int64_t row, to_stride, from_stride;
    int64_t to_base, from_base;
    void *to;
    const void *from;
} region_job_t;

static void region_rows(void *arg, int64_t first, int64_t count)
{
    const region_job_t *job = arg;
    for (int64_t r = first; r < first + count; r++) {
        int64_t rest = r, to = job->to_base, from = job->from_base;
        for (uint32_t d = job->rank; d-- > 0;) {
            int64_t index = rest % job->dims[d];
            rest /= job->dims[d];
            to += index * job->to_strides[d];
            from += index * job->from_strides[d];
        }
        job->copy(job->to, to, job->to_stride, job->from, from, job->from_stride, job->row);
    }
}

void wf_region_copy(const wf_ref_call_t *call, wf_dtype_t dtype, uint32_t rank, const int64_t *dims, void *to,
                    const wf_region_t *to_region, const void *from, const wf_region_t *from_region)
{
    region_job_t job = {.row = 1, .to_stride = 1, .from_stride = 1, .to = to, .from = from};
    job.to_base = to_region->base;
    job.from_base = from_region->base;
    job.copy = row_copy_of(dtype);
    int64_t rows = 1;
    /* Innermost dims that lie alike in both regions become one row; the others are counted through. */
    for (uint32_t d = rank; d-- > 0;) {
        int64_t dim = dims[d], ts = to_region->strides[d], fs = from_region->strides[d];
        if (dim == 0) {
            return;
        }
        if (dim == 1) {
            continue;
        }
        if (job.row == 1) {
            job.row = dim;
            job.to_stride = ts;
            job.from_stride = fs;
        } else if (job.rank == 0 && ts == job.row * job.to_stride && fs == job.row * job.from_stride) {
            job.row *= dim;
        } else {
            job.dims[job.rank] = dim;
            job.to_strides[job.rank] = ts;
            job.from_strides[job.rank] = fs;
            job.rank++;
            rows *= dim;
        }
    }
    /* They were collected from the inside out. */
    for (uint32_t a = 0, b = job.rank; a + 1 < b; a++, b--) {
#define SWAP(array)                      \
    do {                                 \
        int64_t kept = job.array[a];     \
        job.array[a] = job.array[b - 1]; \
        job.array[b - 1] = kept;         \
    } while (0)
        SWAP(dims);
        SWAP(to_strides);
        SWAP(from_strides);
#undef SWAP
    }
    wf_ref_chunks(call, rows, WF_MAX(WF_REF_CHUNK / job.row, 1), region_rows, &job);
}
