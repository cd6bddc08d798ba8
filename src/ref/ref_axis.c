/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that go along one axis, line by line: ArgMax, ArgMin, TopK, CumSum, Softmax and its relatives,
 * LpNormalization. */
#include <math.h>

#include "ref/kernel.h"

/* Lines of a tensor along an axis: line l starts at line_start and its elements are `inner` apart. */
typedef struct lines {
    const wf_ref_call_t *call;
    const wf_tensor_t *in, *out;
    wf_split_t split;
    int64_t param; /* what else the kernel needs */
    uint8_t *scratch;
    size_t scratch_bytes; /* of one thread */
} lines_t;

static lines_t lines_of(const wf_ref_call_t *call, int64_t axis)
{
    lines_t lines = {.call = call, .in = &call->inputs[0], .out = &call->outputs[0]};
    axis = wf_axis_wrap(axis, lines.in->type.rank);
    lines.split = wf_split_at(&lines.in->type, axis, axis + 1);
    return lines;
}

static int64_t line_start(const lines_t *lines, int64_t line)
{
    return line / lines->split.inner * lines->split.axis * lines->split.inner + line % lines->split.inner;
}

static void run_lines(const lines_t *lines, wf_chunk_fn *fn)
{
    int64_t chunk = WF_MAX(1, WF_REF_CHUNK / WF_MAX(lines->split.axis, 1));
    wf_ref_chunks(lines->call, lines->split.outer * lines->split.inner, chunk, fn, (void *)lines);
}

/* True when a comes before b among the largest (or smallest) elements. NaN counts as larger than all else. */
static bool comes_first(wf_lane_class_t lane_class, bool largest, wf_lane_t a, wf_lane_t b)
{
    if (!largest) {
        wf_lane_t kept = a;
        a = b;
        b = kept;
    }
    return lane_class == WF_LANE_F   ? a.f > b.f || (isnan(a.f) && !isnan(b.f))
           : lane_class == WF_LANE_I ? a.i > b.i
                                     : a.u > b.u;
}

/* ---- ArgMax, ArgMin
 * ---------------------------------------------------------------------------------------------- */

/* As in NumPy the first NaN is both the largest and the smallest. */
static bool arg_better(wf_lane_class_t lane_class, bool largest, wf_lane_t a, wf_lane_t best)
{
    if (lane_class == WF_LANE_F && (isnan(a.f) || isnan(best.f))) {
        return !isnan(best.f);
    }
    return comes_first(lane_class, largest, a, best);
}

static void arg_chunk(void *arg, int64_t first, int64_t count)
{
    const lines_t *lines = arg;
    wf_dtype_t dtype = lines->in->type.dtype;
    wf_lane_class_t lane_class = wf_lane_class(dtype);
    bool largest = lines->call->op == WF_OP_ARG_MAX, last = lines->param != 0;
    for (int64_t line = first; line < first + count; line++) {
        int64_t start = line_start(lines, line), best_at = 0;
        wf_lane_t best = wf_lane_load(dtype, lines->in->data, start);
        for (int64_t k = 1; k < lines->split.axis; k++) {
            wf_lane_t lane = wf_lane_load(dtype, lines->in->data, start + k * lines->split.inner);
            if (arg_better(lane_class, largest, lane, best) ||
                (last && !arg_better(lane_class, largest, best, lane))) {
                best = lane;
                best_at = k;
            }
        }
        wf_lane_store(lines->out->type.dtype, lines->out->data, line, (wf_lane_t){.i = best_at});
    }
}

wf_status_t wf_ref_arg_reduce(const wf_ref_call_t *call)
{
    lines_t lines = lines_of(call, wf_attrs_int(call->attrs, "axis", 0));
    lines.param = wf_attrs_int(call->attrs, "select_last_index", 0);
    if (lines.split.axis == 0 && wf_type_elems(&lines.out->type) > 0) {
        return WF_ERROR(RUNTIME_DATA, "there is no largest or smallest of 0 elements");
    }
    run_lines(&lines, arg_chunk);
    return WF_OK;
}

/* ---- TopK
 * -------------------------------------------------------------------------------------------------------- */

typedef struct ranked {
    wf_lane_t lane;
    int64_t index;
} ranked_t;

/* A total order: of equal elements the lower index comes first. */
static bool ranks_first(wf_lane_class_t lane_class, bool largest, const ranked_t *a, const ranked_t *b)
{
    if (comes_first(lane_class, largest, a->lane, b->lane)) {
        return true;
    }
    return !comes_first(lane_class, largest, b->lane, a->lane) && a->index < b->index;
}

static void sift_down(wf_lane_class_t lane_class, bool largest, ranked_t *heap, int64_t size, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && ranks_first(lane_class, largest, &heap[child + 1], &heap[child])) {
            child++;
        }
        if (!ranks_first(lane_class, largest, &heap[child], &heap[at])) {
            return;
        }
        ranked_t kept = heap[at];
        heap[at] = heap[child];
        heap[child] = kept;
    }
}

static void top_k_item(void *arg, size_t item, uint32_t thread)
{
    const lines_t *lines = arg;
    const wf_tensor_t *indices = &lines->call->outputs[1];
    wf_dtype_t dtype = lines->in->type.dtype;
    wf_lane_class_t lane_class = wf_lane_class(dtype);
    bool largest = wf_attrs_int(lines->call->attrs, "largest", 1) != 0;
    int64_t n = lines->split.axis, k_elems = lines->param, inner = lines->split.inner, line = (int64_t)item;
    ranked_t *heap = (ranked_t *)(void *)(lines->scratch + thread * lines->scratch_bytes);
    for (int64_t k = 0; k < n; k++) {
        heap[k] = (ranked_t){wf_lane_load(dtype, lines->in->data, line_start(lines, line) + k * inner), k};
    }
    for (int64_t at = n / 2; at-- > 0;) {
        sift_down(lane_class, largest, heap, n, at);
    }
    int64_t to = line / inner * k_elems * inner + line % inner;
    for (int64_t k = 0, size = n; k < k_elems; k++, to += inner) {
        if (lines->out->data != NULL) {
            wf_lane_store(lines->out->type.dtype, lines->out->data, to, heap[0].lane);
        }
        if (indices->data != NULL) {
            wf_lane_store(indices->type.dtype, indices->data, to, (wf_lane_t){.i = heap[0].index});
        }
        heap[0] = heap[--size];
        sift_down(lane_class, largest, heap, size, 0);
    }
}

static int64_t top_k_axis(const wf_ref_call_t *call)
{
    return wf_axis_wrap(wf_attrs_int(call->attrs, "axis", -1), call->inputs[0].type.rank);
}

wf_status_t wf_ref_top_k(const wf_ref_call_t *call)
{
    int64_t axis = top_k_axis(call), k_elems;
    lines_t lines = lines_of(call, axis);
    WF_TRY(wf_ref_int(call, "k", 1, 0, &k_elems));
    if (k_elems < 0 || k_elems > lines.split.axis) {
        return WF_ERROR(RUNTIME_DATA, "k is %lld, axis %lld has %lld elements", (long long)k_elems,
                        (long long)axis, (long long)lines.split.axis);
    }
    if (k_elems != lines.out->type.dims[axis]) {
        return wf_ref_shape_error(&lines.out->type, "k");
    }
    lines.param = k_elems;
    lines.scratch = call->scratch;
    lines.scratch_bytes = (size_t)lines.split.axis * sizeof(ranked_t);
    if (k_elems > 0) {
        wf_ref_items(call, lines.split.outer * lines.split.inner, top_k_item, &lines);
    }
    return WF_OK;
}

size_t wf_ref_top_k_scratch_bytes(const wf_ref_call_t *call)
{
    size_t line = wf_scratch_mul((size_t)call->inputs[0].type.dims[top_k_axis(call)], sizeof(ranked_t));
    return wf_scratch_mul(line, wf_ref_threads(call));
}

/* ---- CumSum
 * ------------------------------------------------------------------------------------------------------ */

static void cum_sum_chunk(void *arg, int64_t first, int64_t count)
{
    const lines_t *lines = arg;
    wf_dtype_t dtype = lines->in->type.dtype;
    bool floating = wf_lane_class(dtype) == WF_LANE_F,
         exclusive = wf_attrs_int(lines->call->attrs, "exclusive", 0) != 0;
    bool reverse = wf_attrs_int(lines->call->attrs, "reverse", 0) != 0;
    for (int64_t line = first; line < first + count; line++) {
        wf_lane_t sum = {.u = 0};
        for (int64_t k = 0; k < lines->split.axis; k++) {
            int64_t at =
                line_start(lines, line) + (reverse ? lines->split.axis - 1 - k : k) * lines->split.inner;
            wf_lane_t before = sum, lane = wf_lane_load(dtype, lines->in->data, at);
            if (floating) {
                sum.f += lane.f;
            } else {
                sum.u += lane.u;
            }
            wf_lane_store(dtype, lines->out->data, at, exclusive ? before : sum);
        }
    }
}

wf_status_t wf_ref_cum_sum(const wf_ref_call_t *call)
{
    int64_t axis, rank = call->inputs[0].type.rank;
    WF_TRY(wf_ref_int(call, "axis", 1, 0, &axis));
    if (axis < -rank || axis >= rank) {
        return WF_ERROR(RUNTIME_DATA, "axis %lld of a tensor of rank %lld", (long long)axis, (long long)rank);
    }
    lines_t lines = lines_of(call, axis);
    run_lines(&lines, cum_sum_chunk);
    return WF_OK;
}

/* ---- Softmax, LogSoftmax, Hardmax, LpNormalization
 * --------------------------------------------------------------- */

/* A line in blocks: lanes of elements [at, at + size). */
#define EACH_LINE_BLOCK(lines, at, size) \
    for (int64_t at = 0, size;           \
         size = WF_MIN((lines)->split.axis - at, WF_LANE_BLOCK), at < (lines)->split.axis; at += size)

/* What ONNX's function body of the operator names is a tensor of the operator's type. Of 16-bit types that
 * rounding shows in the result, so it is done; wider types keep more than asked. */
static void round_named(wf_dtype_t dtype, int64_t count, wf_lane_t *lanes)
{
    uint16_t kept[WF_LANE_BLOCK];
    if (wf_dtype_bits(dtype) == 16) {
        wf_lanes_store(dtype, kept, 0, 1, (size_t)count, lanes);
        wf_lanes_load(dtype, kept, 0, 1, (size_t)count, lanes);
    }
}

/* x - max and, of the same, exp(x - max). */
static void softmax_block(const lines_t *lines, int64_t first, int64_t size, double top, wf_lane_t *shifted,
                          wf_lane_t *powers)
{
    wf_dtype_t dtype = lines->in->type.dtype;
    wf_lanes_load(dtype, lines->in->data, first, lines->split.inner, (size_t)size, shifted);
    for (int64_t k = 0; k < size; k++) {
        shifted[k].f -= top;
    }
    round_named(dtype, size, shifted);
    for (int64_t k = 0; k < size; k++) {
        powers[k].f = exp(shifted[k].f);
    }
    round_named(dtype, size, powers);
}

static void softmax_line(const lines_t *lines, int64_t start)
{
    wf_dtype_t dtype = lines->in->type.dtype;
    int64_t inner = lines->split.inner, top_at = 0;
    wf_op_t op = lines->call->op;
    wf_lane_t lanes[WF_LANE_BLOCK], powers[WF_LANE_BLOCK], total = {.f = 0}, log_total;
    double top = -INFINITY;
    EACH_LINE_BLOCK(lines, at, size)
    {
        wf_lanes_load(dtype, lines->in->data, start + at * inner, inner, (size_t)size, lanes);
        for (int64_t k = 0; k < size; k++) {
            if (lanes[k].f > top || (isnan(lanes[k].f) && !isnan(top))) {
                top = lanes[k].f;
                top_at = at + k;
            }
        }
    }
    EACH_LINE_BLOCK(lines, at, size)
    {
        if (op == WF_OP_HARDMAX) {
            break;
        }
        softmax_block(lines, start + at * inner, size, top, lanes, powers);
        for (int64_t k = 0; k < size; k++) {
            total.f += powers[k].f;
        }
    }
    /* A sum of more than 65504 is no f16: it stays as it is, where the function body would give zeros. */
    wf_lane_t rounded = total;
    round_named(dtype, 1, &rounded);
    total = isinf(rounded.f) ? total : rounded;
    log_total.f = log(total.f);
    round_named(dtype, 1, &log_total);
    EACH_LINE_BLOCK(lines, at, size)
    {
        if (op != WF_OP_HARDMAX) {
            softmax_block(lines, start + at * inner, size, top, lanes, powers);
        }
        for (int64_t k = 0; k < size; k++) {
            lanes[k].f = op == WF_OP_HARDMAX       ? (at + k == top_at ? 1.0 : 0.0)
                         : op == WF_OP_LOG_SOFTMAX ? lanes[k].f - log_total.f
                                                   : powers[k].f / total.f;
        }
        wf_lanes_store(dtype, lines->out->data, start + at * inner, inner, (size_t)size, lanes);
    }
}

static void softmax_chunk(void *arg, int64_t first, int64_t count)
{
    for (int64_t line = first; line < first + count; line++) {
        softmax_line(arg, line_start(arg, line));
    }
}

wf_status_t wf_ref_softmax(const wf_ref_call_t *call)
{
    lines_t lines = lines_of(call, wf_attrs_int(call->attrs, "axis", -1));
    run_lines(&lines, softmax_chunk);
    return WF_OK;
}

/* x / norm; a norm of zero gives zeros. */
static void lp_chunk(void *arg, int64_t first, int64_t count)
{
    const lines_t *lines = arg;
    wf_dtype_t dtype = lines->in->type.dtype;
    int64_t inner = lines->split.inner;
    wf_lane_t lanes[WF_LANE_BLOCK];
    for (int64_t line = first; line < first + count; line++) {
        int64_t start = line_start(lines, line);
        double norm = 0;
        EACH_LINE_BLOCK(lines, at, size)
        {
            wf_lanes_load(dtype, lines->in->data, start + at * inner, inner, (size_t)size, lanes);
            for (int64_t k = 0; k < size; k++) {
                norm += lines->param == 1 ? fabs(lanes[k].f) : lanes[k].f * lanes[k].f;
            }
        }
        norm = lines->param == 1 ? norm : sqrt(norm);
        EACH_LINE_BLOCK(lines, at, size)
        {
            wf_lanes_load(dtype, lines->in->data, start + at * inner, inner, (size_t)size, lanes);
            for (int64_t k = 0; k < size; k++) {
                lanes[k].f = norm == 0 ? 0.0 : lanes[k].f / norm;
            }
            wf_lanes_store(dtype, lines->out->data, start + at * inner, inner, (size_t)size, lanes);
        }
    }
}

wf_status_t wf_ref_lp_normalization(const wf_ref_call_t *call)
{
    lines_t lines = lines_of(call, wf_attrs_int(call->attrs, "axis", -1));
    lines.param = wf_attrs_int(call->attrs, "p", 2);
    run_lines(&lines, lp_chunk);
    return WF_OK;
}
