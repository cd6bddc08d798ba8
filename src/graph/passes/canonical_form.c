/* SPDX-License-Identifier: Apache-2.0 */
/* canonical_form: one spelling of what can be written in several ways, without changing a bit of any result:
 * axes counted from the front, permutations and reduced axes written out, slices clamped, constants as second
 * operands without leading dims of 1, x - c as x + (-c), x / 2^n as x * 2^-n, x^2 as x * x, Max and Min with
 * a scalar as Clip, Clip from 0 upwards as Relu, means over the whole image as GlobalAveragePool. Everything
 * after it looks for one form. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

typedef wf_status_t rule_fn(wf_graph_t *graph, wf_node_id id, bool *out_changed);

/* ---- Attributes ---- */

/* Replaces or adds one attribute. */
static wf_status_t set_attr(wf_graph_t *graph, wf_node_id id, wf_attr_t attr)
{
    wf_attr_t attrs[WF_OP_MAX_ATTRS];
    const wf_node_t *node = wf_graph_node(graph, id);
    size_t count = 0;
    for (size_t i = 0; i < node->attrs.count; i++) {
        if (strcmp(node->attrs.items[i].name, attr.name) != 0) {
            attrs[count++] = node->attrs.items[i];
        }
    }
    attrs[count++] = attr;
    return wf_graph_set_attrs(graph, id, attrs, count);
}

static wf_status_t axis_from_front(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    int64_t axis = wf_attrs_int(&node->attrs, "axis", 0);
    uint32_t wrapped;
    if (axis >= 0 || !wf_match_axis(axis, wf_value_type(graph, node->inputs[0])->rank, &wrapped)) {
        return WF_OK;
    }
    *out_changed = true;
    return set_attr(graph, id, wf_attr_int("axis", wrapped));
}

static wf_status_t perm_written_out(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    int64_t perm[WF_MAX_RANK];
    const wf_node_t *node = wf_graph_node(graph, id);
    uint32_t rank = wf_value_type(graph, node->inputs[0])->rank;
    if (wf_attrs_find(&node->attrs, "perm") != NULL) {
        return WF_OK;
    }
    wf_match_perm(node, rank, perm);
    *out_changed = true;
    return set_attr(graph, id, wf_attr_ints("perm", perm, rank));
}

static uint32_t spatial_mask(uint32_t rank)
{
    return rank < 3 ? 0 : ((1u << rank) - 1) & ~3u;
}

static wf_status_t change_to_unary(wf_graph_t *graph, wf_node_id id, wf_op_t op, wf_value_id x)
{
    wf_node_spec_t spec = {.op = op, .inputs = &x, .input_count = 1, .output_count = 1};
    return wf_graph_change_node(graph, id, &spec);
}

/* Sorted axes from the front. The mean over all spatial dims of an image is a pooling; of rank 3 it may as
 * well be the mean of a normalisation over the last axis, which stays. */
static wf_status_t reduce_axes(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    uint32_t mask;
    size_t count;
    int64_t sorted[WF_MAX_RANK];
    size_t sorted_count = 0;
    const wf_node_t *node = wf_graph_node(graph, id);
    uint32_t rank = wf_value_type(graph, node->inputs[0])->rank;
    const int64_t *axes = wf_attrs_ints(&node->attrs, "axes", &count);
    if (!wf_match_reduce_axes(graph, node, &mask) || mask == 0) {
        return WF_OK;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (mask & (1u << i)) {
            sorted[sorted_count++] = i;
        }
    }
    bool keepdims = wf_attrs_int(&node->attrs, "keepdims", 1) != 0;
    if (node->op == WF_OP_REDUCE_MEAN && rank >= 4 && mask == spatial_mask(rank) &&
        wf_match_tolerance(wf_value_type(graph, node->inputs[0])->dtype) > 0.0) {
        wf_value_id x = node->inputs[0];
        *out_changed = true;
        if (keepdims) {
            return change_to_unary(graph, id, WF_OP_GLOBAL_AVERAGE_POOL, x);
        }
        wf_value_id pooled;
        wf_node_spec_t spec = {
            .op = WF_OP_GLOBAL_AVERAGE_POOL, .inputs = &x, .input_count = 1, .onnx_names = node->onnx_names};
        WF_TRY(wf_emit(graph, &spec, wf_graph_value(graph, node->outputs[0])->name, &pooled));
        return wf_change_to_reshape(graph, id, pooled);
    }
    if (count == sorted_count && memcmp(axes, sorted, count * sizeof *axes) == 0) {
        return WF_OK;
    }
    *out_changed = true;
    return set_attr(graph, id, wf_attr_ints("axes", sorted, sorted_count));
}

static wf_status_t whole_image_pool(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    wf_window_t window;
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_status_t status =
        wf_window_resolve(node->op, &node->attrs, wf_value_type(graph, node->inputs[0]), NULL, &window);
    bool whole = status == WF_OK;
    wf_status_free(status);
    if (node->op == WF_OP_MAX_POOL && node->output_count > 1) {
        return WF_OK;
    }
    for (uint32_t i = 0; whole && i < window.spatial_rank; i++) {
        whole = window.kernel[i] == window.in[i] && window.dilation[i] == 1 && window.pad_begin[i] == 0 &&
                window.pad_end[i] == 0 && window.out[i] == 1;
    }
    if (!whole) {
        return WF_OK;
    }
    *out_changed = true;
    return change_to_unary(graph, id,
                           node->op == WF_OP_MAX_POOL ? WF_OP_GLOBAL_MAX_POOL : WF_OP_GLOBAL_AVERAGE_POOL,
                           node->inputs[0]);
}

/* Clamped starts and ends of every axis that is cut, in order of axes. Only for steps forward: a slice
 * backwards to the first element has no end from the front. */
static wf_status_t slice_clamped(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    const wf_type_t *type = wf_value_type(graph, node->inputs[0]);
    size_t start_count, end_count, axis_count, step_count;
    const int64_t *starts = wf_attrs_ints(&node->attrs, "starts", &start_count);
    const int64_t *ends = wf_attrs_ints(&node->attrs, "ends", &end_count);
    const int64_t *axes = wf_attrs_ints(&node->attrs, "axes", &axis_count);
    const int64_t *steps = wf_attrs_ints(&node->attrs, "steps", &step_count);
    int64_t low[WF_MAX_RANK], high[WF_MAX_RANK], step[WF_MAX_RANK], list[4][WF_MAX_RANK];
    if (starts == NULL || ends == NULL || start_count != end_count || start_count > type->rank ||
        wf_node_input(node, 3) != WF_NO_VALUE || wf_node_input(node, 4) != WF_NO_VALUE ||
        (axes != NULL && axis_count != start_count) || (steps != NULL && step_count != start_count)) {
        return WF_OK;
    }
    for (uint32_t i = 0; i < type->rank; i++) {
        low[i] = 0;
        high[i] = type->dims[i];
        step[i] = 1;
    }
    for (size_t i = 0; i < start_count; i++) {
        uint32_t axis;
        if (!wf_match_axis(axes != NULL ? axes[i] : (int64_t)i, type->rank, &axis) ||
            (steps != NULL && steps[i] <= 0)) {
            return WF_OK;
        }
        int64_t dim = type->dims[axis];
        int64_t start = starts[i] < 0 ? starts[i] + dim : starts[i];
        int64_t end = ends[i] < 0 ? ends[i] + dim : ends[i];
        low[axis] = start < 0 ? 0 : start > dim ? dim : start;
        high[axis] = end < 0 ? 0 : end > dim ? dim : end;
        step[axis] = steps != NULL ? steps[i] : 1;
    }
    size_t count = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (low[i] == 0 && high[i] == type->dims[i] && step[i] == 1) {
            continue;
        }
        list[0][count] = i;
        list[1][count] = high[i];
        list[2][count] = low[i];
        list[3][count++] = step[i];
    }
    size_t bytes = count * sizeof(int64_t);
    if (axes != NULL && steps != NULL && count == start_count && memcmp(axes, list[0], bytes) == 0 &&
        memcmp(ends, list[1], bytes) == 0 && memcmp(starts, list[2], bytes) == 0 &&
        memcmp(steps, list[3], bytes) == 0) {
        return WF_OK;
    }
    *out_changed = true;
    wf_attr_t attrs[4] = {wf_attr_ints("axes", list[0], count), wf_attr_ints("ends", list[1], count),
                          wf_attr_ints("starts", list[2], count), wf_attr_ints("steps", list[3], count)};
    return wf_graph_set_attrs(graph, id, attrs, WF_COUNT_OF(attrs));
}

/* ---- Arithmetic ---- */

static bool is_constant(const wf_graph_t *graph, wf_value_id value)
{
    return value != WF_NO_VALUE && wf_graph_value(graph, value)->constant != NULL;
}

/* Leading dims of 1 of the second operand say nothing when the first has the result's dims. */
static wf_status_t constant_trimmed(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_value_id trimmed;
    if (node->input_count != 2 || !is_constant(graph, node->inputs[1]) ||
        !wf_type_equal(wf_value_type(graph, node->inputs[0]), wf_value_type(graph, node->outputs[0]))) {
        return WF_OK;
    }
    const wf_type_t *from = wf_value_type(graph, node->inputs[1]);
    uint32_t ones = 0;
    while (ones < from->rank && from->dims[ones] == 1) {
        ones++;
    }
    if (ones == 0) {
        return WF_OK;
    }
    wf_type_t to = {.dtype = from->dtype, .rank = from->rank - ones};
    for (uint32_t i = 0; i < to.rank; i++) {
        to.dims[i] = from->dims[i + ones];
    }
    *out_changed = true;
    WF_TRY(wf_emit_reshaped_constant(graph, node->inputs[1], &to, &trimmed));
    return wf_graph_set_input(graph, id, 1, trimmed);
}

static wf_status_t constant_second(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    if (node->input_count == 2 && is_constant(graph, node->inputs[0]) &&
        !is_constant(graph, node->inputs[1])) {
        wf_value_id first = node->inputs[0];
        *out_changed = true;
        WF_TRY(wf_graph_set_input(graph, id, 0, node->inputs[1]));
        WF_TRY(wf_graph_set_input(graph, id, 1, first));
    }
    return constant_trimmed(graph, id, out_changed);
}

static double negative(double value)
{
    return -value;
}

/* 1 / value where that is exact and neither is near the ends of the range of any float type; else NaN. */
static double exact_inverse(double value)
{
    int exponent;
    return fabs(frexp(value, &exponent)) == 0.5 && exponent > -14 && exponent < 15 ? 1.0 / value
                                                                                   : (double)NAN;
}

/* Makes `id` another operator of its first input and a constant of `convert`ed elements; nothing where one of
 * them becomes NaN. Floats only. */
static wf_status_t change_constant(wf_graph_t *graph, wf_node_id id, wf_op_t op, double (*convert)(double),
                                   bool *out_changed)
{
    wf_tensor_t constant, converted;
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_value_id inputs[2] = {node->inputs[0], WF_NO_VALUE};
    if (!wf_graph_constant(graph, node->inputs[1], &constant) || is_constant(graph, inputs[0]) ||
        wf_match_tolerance(constant.type.dtype) == 0.0) {
        return WF_OK;
    }
    int64_t elems = wf_type_elems(&constant.type);
    double value = 0.0;
    for (int64_t i = 0; i < elems; i++) {
        if (!wf_constant_get(&constant, i, &value) || (!isnan(value) && isnan(convert(value)))) {
            return WF_OK;
        }
    }
    WF_TRY(wf_emit_constant(graph, wf_graph_value(graph, node->inputs[1])->name, &constant.type, &converted,
                            &inputs[1]));
    for (int64_t i = 0; i < elems; i++) {
        (void)wf_constant_get(&constant, i, &value);
        (void)wf_constant_set(&converted, i, convert(value));
    }
    wf_node_spec_t spec = {.op = op, .inputs = inputs, .input_count = 2};
    *out_changed = true;
    return wf_graph_change_node(graph, id, &spec);
}

/* x - c = x + (-c) to the last bit. */
static wf_status_t subtraction_of_constant(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    WF_TRY(change_constant(graph, id, WF_OP_ADD, negative, out_changed));
    return constant_trimmed(graph, id, out_changed);
}

/* x / c = x * (1 / c) to the last bit only for powers of two. */
static wf_status_t division_by_constant(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    WF_TRY(change_constant(graph, id, WF_OP_MUL, exact_inverse, out_changed));
    return constant_trimmed(graph, id, out_changed);
}

static wf_status_t square(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    double exponent;
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_value_id inputs[2] = {node->inputs[0], node->inputs[0]};
    if (!wf_graph_scalar(graph, node->inputs[1], &exponent) || exponent != 2.0 ||
        !wf_type_equal(wf_value_type(graph, inputs[0]), wf_value_type(graph, node->outputs[0]))) {
        return WF_OK;
    }
    wf_node_spec_t spec = {.op = WF_OP_MUL, .inputs = inputs, .input_count = 2};
    *out_changed = true;
    return wf_graph_change_node(graph, id, &spec);
}

static wf_status_t change_to_clip(wf_graph_t *graph, wf_node_id id, wf_value_id x, double low, double high)
{
    wf_attr_t attrs[2];
    size_t count = 0;
    if (low > -(double)INFINITY) {
        attrs[count++] = wf_attr_float("min", low);
    }
    if (high < (double)INFINITY) {
        attrs[count++] = wf_attr_float("max", high);
    }
    if (low == 0.0 && !signbit(low) && count == 1) {
        return change_to_unary(graph, id, WF_OP_RELU, x);
    }
    wf_node_spec_t spec = {
        .op = WF_OP_CLIP, .attrs = attrs, .attr_count = count, .inputs = &x, .input_count = 1};
    return wf_graph_change_node(graph, id, &spec);
}

/* The Clip that feeds this one takes part when nobody else reads it: min(max(x, a), b) in one. */
static wf_status_t clip_merged(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    double low, high, inner_low, inner_high;
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_value_id x = node->inputs[0];
    /* Attributes are f32: limits of other types stay inputs. */
    if (wf_value_type(graph, x)->dtype != WF_DTYPE_F32 || !wf_match_limits(graph, node, &low, &high) ||
        isnan(low) || isnan(high)) {
        return WF_OK;
    }
    const wf_node_t *inner = wf_match_inner(graph, x, WF_OP_CLIP);
    inner = inner != NULL ? inner : wf_match_inner(graph, x, WF_OP_RELU);
    bool merged = inner != NULL && wf_match_limits(graph, inner, &inner_low, &inner_high) &&
                  inner_low <= inner_high && low <= high && inner_low <= high && low <= inner_high;
    if (merged) {
        low = fmax(low, inner_low);
        high = fmin(high, inner_high);
        x = inner->inputs[0];
    }
    bool relu = node->op == WF_OP_CLIP && low == 0.0 && !signbit(low) && high == (double)INFINITY;
    if (!merged && !relu) {
        return WF_OK;
    }
    *out_changed = true;
    return change_to_clip(graph, id, x, low, high);
}

/* Max and Min of f32 with one scalar. */
static wf_status_t limit_by_scalar(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    double scalar;
    wf_value_id x;
    const wf_node_t *node = wf_graph_node(graph, id);
    const wf_type_t *type = wf_value_type(graph, node->outputs[0]);
    if (node->input_count != 2 || type->dtype != WF_DTYPE_F32 ||
        !wf_match_with_scalar(graph, node, &x, &scalar) || isnan(scalar) || isinf(scalar) ||
        !wf_type_equal(type, wf_value_type(graph, x))) {
        return WF_OK;
    }
    *out_changed = true;
    bool is_max = node->op == WF_OP_MAX;
    WF_TRY(change_to_clip(graph, id, x, is_max ? scalar : -(double)INFINITY,
                          is_max ? (double)INFINITY : scalar));
    return clip_merged(graph, id, out_changed);
}

static wf_status_t limit(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    WF_TRY(constant_second(graph, id, out_changed));
    return limit_by_scalar(graph, id, out_changed);
}

static wf_status_t sum_of_two(wf_graph_t *graph, wf_node_id id, bool *out_changed)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    if (node->input_count != 2) {
        return WF_OK;
    }
    wf_value_id inputs[2] = {node->inputs[0], node->inputs[1]};
    wf_node_spec_t spec = {.op = WF_OP_ADD, .inputs = inputs, .input_count = 2};
    *out_changed = true;
    WF_TRY(wf_graph_change_node(graph, id, &spec));
    return constant_second(graph, id, out_changed);
}

/* ---- Table ---- */

static const struct {
    wf_op_t op;
    rule_fn *apply;
} rules[] = {
    {WF_OP_SOFTMAX, axis_from_front},
    {WF_OP_LOG_SOFTMAX, axis_from_front},
    {WF_OP_HARDMAX, axis_from_front},
    {WF_OP_CONCAT, axis_from_front},
    {WF_OP_SPLIT, axis_from_front},
    {WF_OP_GATHER, axis_from_front},
    {WF_OP_GATHER_ELEMENTS, axis_from_front},
    {WF_OP_SCATTER_ELEMENTS, axis_from_front},
    {WF_OP_LAYER_NORMALIZATION, axis_from_front},
    {WF_OP_RMS_NORMALIZATION, axis_from_front},
    {WF_OP_LP_NORMALIZATION, axis_from_front},
    {WF_OP_ARG_MAX, axis_from_front},
    {WF_OP_ARG_MIN, axis_from_front},
    {WF_OP_TOP_K, axis_from_front},
    {WF_OP_QUANTIZE_LINEAR, axis_from_front},
    {WF_OP_DEQUANTIZE_LINEAR, axis_from_front},
    {WF_OP_TRANSPOSE, perm_written_out},
    {WF_OP_SLICE, slice_clamped},
    {WF_OP_REDUCE_L1, reduce_axes},
    {WF_OP_REDUCE_L2, reduce_axes},
    {WF_OP_REDUCE_LOG_SUM, reduce_axes},
    {WF_OP_REDUCE_LOG_SUM_EXP, reduce_axes},
    {WF_OP_REDUCE_MAX, reduce_axes},
    {WF_OP_REDUCE_MEAN, reduce_axes},
    {WF_OP_REDUCE_MIN, reduce_axes},
    {WF_OP_REDUCE_PROD, reduce_axes},
    {WF_OP_REDUCE_SUM, reduce_axes},
    {WF_OP_REDUCE_SUM_SQUARE, reduce_axes},
    {WF_OP_AVERAGE_POOL, whole_image_pool},
    {WF_OP_MAX_POOL, whole_image_pool},
    {WF_OP_ADD, constant_second},
    {WF_OP_MUL, constant_second},
    {WF_OP_SUB, subtraction_of_constant},
    {WF_OP_DIV, division_by_constant},
    {WF_OP_POW, square},
    {WF_OP_MAX, limit},
    {WF_OP_MIN, limit},
    {WF_OP_CLIP, clip_merged},
    {WF_OP_RELU, clip_merged},
    {WF_OP_SUM, sum_of_two},
};

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    bool changed = false;
    wf_op_t op = wf_graph_node(graph, id)->op;
    (void)arg;
    for (size_t i = 0; i < WF_COUNT_OF(rules); i++) {
        if (rules[i].op == op) {
            WF_TRY(rules[i].apply(graph, id, &changed));
            break;
        }
    }
    *changes += changed;
    return WF_OK;
}

WF_PASS(canonical_form)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
