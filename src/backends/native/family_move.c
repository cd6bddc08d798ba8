/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only move elements, of any width: transpose, concatenation, split, slice, constant padding,
 * broadcast, tile, depth and space. Each is a list of strided copies (kernels/layout.h) between views of
 * operands and outputs.
 */
#include <string.h>

#include "backends/native/native.h"
#include "base/compiler.h"

/* Fewer bytes than this are copied by the calling thread: a region costs what 16 KiB take. */
#define PARALLEL_MIN_BYTES 32768

/* One copy: dims and strides in elements, and where it starts in its operand and output. */
typedef struct move_copy {
    uint32_t operand, output;
    uint32_t rank;
    int64_t dims[WF_COPY_RANK_MAX], src[WF_COPY_RANK_MAX], dst[WF_COPY_RANK_MAX];
    int64_t src_offset, dst_offset;
    bool is_fill; /* the operand is one value, spread over the whole output; the copies after it overwrite */
} move_copy_t;

/* A tensor in a layout: dims and strides in the layout's order. */
typedef struct move_view {
    uint32_t rank;
    int64_t dims[WF_MAX_RANK], strides[WF_MAX_RANK];
} move_view_t;

static void view_of(const wf_type_t *type, wf_layout_t layout, int64_t row_stride_elems, move_view_t *out)
{
    out->rank = type->rank;
    wf_native_layout_dims(type, layout, out->dims);
    int64_t stride = 1;
    for (uint32_t d = type->rank; d-- > 0;) {
        out->strides[d] = stride;
        stride = d + 1 == type->rank && row_stride_elems != 0 ? row_stride_elems : stride * out->dims[d];
    }
}

/* Position of ONNX dim `dim` in the layout's order. */
static uint32_t layout_pos(const wf_type_t *type, wf_layout_t layout, int64_t dim)
{
    if (dim < 0)
        dim += type->rank;
    if (layout != WF_LAYOUT_LAST || type->rank < 3)
        return (uint32_t)dim;
    return dim == 0 ? 0 : dim == 1 ? type->rank - 1 : (uint32_t)dim - 1;
}

/* What describes a copy: the problem, its layout, and the views of this launch (strides 0: dense). */
typedef struct move_case {
    const wf_problem_t *problem;
    wf_layout_t layout;
    const wf_view_t *operands, *outputs; /* NULL: dense */
} move_case_t;

static void operand_view(const move_case_t *c, size_t index, move_view_t *out)
{
    bool strided = c->operands != NULL && !c->problem->operands[index].is_const;
    view_of(&c->problem->operands[index].type, c->layout, strided ? c->operands[index].row_stride_elems : 0,
            out);
}

static void output_view(const move_case_t *c, size_t index, move_view_t *out)
{
    view_of(&c->problem->outputs[index], c->layout,
            c->outputs != NULL ? c->outputs[index].row_stride_elems : 0, out);
}

static void copy_whole(const move_view_t *dims_from, const move_view_t *src, const move_view_t *dst,
                       move_copy_t *out)
{
    out->rank = dims_from->rank;
    memcpy(out->dims, dims_from->dims, sizeof dims_from->dims);
    memcpy(out->src, src->strides, sizeof src->strides);
    memcpy(out->dst, dst->strides, sizeof dst->strides);
}

/* ---- one describer per operator: fills copy `index`; false when the operator's case is not taken ---- */
typedef bool move_describe_fn(const move_case_t *c, size_t index, move_copy_t *out);

static bool describe_transpose(const move_case_t *c, size_t index, move_copy_t *out)
{
    (void)index;
    move_view_t src, dst;
    size_t count;
    operand_view(c, 0, &src);
    output_view(c, 0, &dst);
    const int64_t *perm = wf_attrs_ints(&c->problem->stages[0].attrs, "perm", &count);
    copy_whole(&dst, &src, &dst, out);
    for (uint32_t d = 0; d < dst.rank; d++) {
        int64_t from = count == dst.rank ? perm[d] : (int64_t)dst.rank - 1 - d;
        if (from < 0 || from >= dst.rank)
            return false;
        out->src[d] = src.strides[from];
    }
    return true;
}

static bool describe_concat(const move_case_t *c, size_t index, move_copy_t *out)
{
    move_view_t src, dst;
    const wf_type_t *type = &c->problem->outputs[0];
    int64_t axis = wf_attrs_int(&c->problem->stages[0].attrs, "axis", 0), before = 0;
    if (axis < 0)
        axis += type->rank;
    for (size_t i = 0; i < index; i++)
        before += c->problem->operands[i].type.dims[axis];
    operand_view(c, index, &src);
    output_view(c, 0, &dst);
    copy_whole(&src, &src, &dst, out);
    out->operand = (uint32_t)index;
    out->dst_offset = before * dst.strides[layout_pos(type, c->layout, axis)];
    return true;
}

static bool describe_split(const move_case_t *c, size_t index, move_copy_t *out)
{
    move_view_t src, dst;
    const wf_type_t *type = &c->problem->operands[0].type;
    int64_t axis = wf_attrs_int(&c->problem->stages[0].attrs, "axis", 0), before = 0;
    if (axis < 0)
        axis += type->rank;
    for (size_t i = 0; i < index; i++)
        before += c->problem->outputs[i].dims[axis];
    operand_view(c, 0, &src);
    output_view(c, index, &dst);
    copy_whole(&dst, &src, &dst, out);
    out->output = (uint32_t)index;
    out->src_offset = before * src.strides[layout_pos(type, c->layout, axis)];
    return true;
}

static bool describe_slice(const move_case_t *c, size_t index, move_copy_t *out)
{
    (void)index;
    move_view_t src, dst;
    const wf_attrs_t *attrs = &c->problem->stages[0].attrs;
    const wf_type_t *type = &c->problem->operands[0].type;
    size_t count, axis_count, step_count, end_count;
    const int64_t *starts = wf_attrs_ints(attrs, "starts", &count),
                  *axes = wf_attrs_ints(attrs, "axes", &axis_count);
    const int64_t *steps = wf_attrs_ints(attrs, "steps", &step_count);
    (void)wf_attrs_ints(attrs, "ends", &end_count);
    if (starts == NULL || end_count != count || (axes != NULL && axis_count != count) ||
        (steps != NULL && step_count != count))
        return false;
    operand_view(c, 0, &src);
    output_view(c, 0, &dst);
    copy_whole(&dst, &src, &dst, out);
    for (size_t i = 0; i < count; i++) {
        int64_t axis = axes != NULL ? axes[i] : (int64_t)i;
        if (axis < 0)
            axis += type->rank;
        if (axis < 0 || axis >= type->rank)
            return false;
        int64_t dim = type->dims[axis], step = steps != NULL ? steps[i] : 1, start = starts[i];
        uint32_t pos = layout_pos(type, c->layout, axis);
        if (start < 0)
            start = start < -dim ? -1 : start + dim;
        if (step == 0 || step < -INT32_MAX || step > INT32_MAX) {
            if (step == 0 || c->problem->outputs[0].dims[axis] > 1)
                return false;
            step = 1;
        }
        start = step > 0 ? WF_MIN(WF_MAX(start, (int64_t)0), dim)
                         : WF_MIN(WF_MAX(start, (int64_t)0), WF_MAX(dim - 1, (int64_t)0));
        out->src_offset += start * src.strides[pos];
        out->src[pos] = src.strides[pos] * step;
    }
    return true;
}

static bool describe_pad(const move_case_t *c, size_t index, move_copy_t *out)
{
    move_view_t src, dst;
    const wf_attrs_t *attrs = &c->problem->stages[0].attrs;
    const wf_type_t *type = &c->problem->operands[0].type;
    size_t count, axis_count;
    const int64_t *pads = wf_attrs_ints(attrs, "pads", &count),
                  *axes = wf_attrs_ints(attrs, "axes", &axis_count);
    size_t padded = axes != NULL ? axis_count : type->rank;
    if (pads == NULL || count != 2 * padded || strcmp(wf_attrs_string(attrs, "mode", ""), "constant") != 0)
        return false;
    output_view(c, 0, &dst);
    if (index == 0) { /* the value everywhere */
        move_view_t zero = {.rank = dst.rank};
        copy_whole(&dst, &zero, &dst, out);
        out->operand = 2;
        out->is_fill = true;
        return true;
    }
    operand_view(c, 0, &src);
    copy_whole(&src, &src, &dst, out);
    for (size_t i = 0; i < padded; i++) {
        int64_t axis = axes != NULL ? axes[i] : (int64_t)i;
        if (axis < 0)
            axis += type->rank;
        if (axis < 0 || axis >= type->rank)
            return false;
        uint32_t pos = layout_pos(type, c->layout, axis);
        int64_t begin = pads[i], end = pads[i + padded];
        out->dst_offset += WF_MAX(begin, (int64_t)0) * dst.strides[pos];
        out->src_offset += WF_MAX(-begin, (int64_t)0) * src.strides[pos];
        out->dims[pos] =
            WF_MAX(src.dims[pos] + WF_MIN(begin, (int64_t)0) + WF_MIN(end, (int64_t)0), (int64_t)0);
    }
    return true;
}

static bool describe_expand(const move_case_t *c, size_t index, move_copy_t *out)
{
    (void)index;
    move_view_t src, dst;
    operand_view(c, 0, &src);
    output_view(c, 0, &dst);
    uint32_t missing = dst.rank - src.rank;
    copy_whole(&dst, &src, &dst, out);
    for (uint32_t d = 0; d < dst.rank; d++) {
        bool spread = d < missing || src.dims[d - missing] == 1;
        out->src[d] = spread ? 0 : src.strides[d - missing];
    }
    return true;
}

static bool describe_tile(const move_case_t *c, size_t index, move_copy_t *out)
{
    (void)index;
    move_view_t src, dst;
    operand_view(c, 0, &src);
    output_view(c, 0, &dst);
    if (src.rank != dst.rank)
        return false;
    out->rank = 0;
    for (uint32_t d = 0; d < src.rank; d++) {
        int64_t repeats = src.dims[d] > 0 ? dst.dims[d] / src.dims[d] : 1;
        if (repeats == 1 && src.dims[d] == 1)
            continue;
        if (out->rank + (repeats > 1 ? 2 : 1) > WF_COPY_RANK_MAX)
            return false;
        if (repeats > 1) {
            out->dims[out->rank] = repeats;
            out->src[out->rank] = 0;
            out->dst[out->rank++] = src.dims[d] * dst.strides[d];
        }
        out->dims[out->rank] = src.dims[d];
        out->src[out->rank] = src.strides[d];
        out->dst[out->rank++] = dst.strides[d];
    }
    return true;
}

/* DepthToSpace and SpaceToDepth move between [N, .., H, W] with blocks in the channels and [N, C, H b, W b].
 */
static bool describe_blocks(const move_case_t *c, size_t index, move_copy_t *out)
{
    (void)index;
    const wf_problem_stage_t *root = &c->problem->stages[0];
    bool to_space = root->op == WF_OP_DEPTH_TO_SPACE;
    move_view_t deep, wide;
    if (to_space)
        operand_view(c, 0, &deep), output_view(c, 0, &wide);
    else
        output_view(c, 0, &deep), operand_view(c, 0, &wide);
    const wf_type_t *deep_type = to_space ? &c->problem->operands[0].type : &c->problem->outputs[0];
    const wf_type_t *wide_type = to_space ? &c->problem->outputs[0] : &c->problem->operands[0].type;
    bool crd = to_space && strcmp(wf_attrs_string(&root->attrs, "mode", "DCR"), "CRD") == 0;
    int64_t b = wf_attrs_int(&root->attrs, "blocksize", 1), channels = wide_type->dims[1];
    uint32_t pc = layout_pos(deep_type, c->layout, 1), ph = layout_pos(deep_type, c->layout, 2),
             pw = layout_pos(deep_type, c->layout, 3);
    /* Indices n, c, h, by, w, bx; channel in the deep tensor: (by b + bx) C + c, or c b b + by b + bx. */
    int64_t cs = deep.strides[pc], c_step = crd ? b * b : 1, y_step = crd ? b : b * channels,
            x_step = crd ? 1 : channels;
    const int64_t dims[6] = {deep_type->dims[0], channels, deep_type->dims[2], b, deep_type->dims[3], b};
    const int64_t deep_strides[6] = {deep.strides[0], c_step * cs,      deep.strides[ph],
                                     y_step * cs,     deep.strides[pw], x_step * cs};
    const int64_t wide_strides[6] = {wide.strides[0],  wide.strides[pc],     b * wide.strides[ph],
                                     wide.strides[ph], b * wide.strides[pw], wide.strides[pw]};
    out->rank = 6;
    memcpy(out->dims, dims, sizeof dims);
    memcpy(out->src, to_space ? deep_strides : wide_strides, sizeof dims);
    memcpy(out->dst, to_space ? wide_strides : deep_strides, sizeof dims);
    return true;
}

/* ---- the table ---- */

typedef enum move_count { ONE, PER_OPERAND, PER_OUTPUT, FILL_AND_ONE } move_count_t;
typedef struct move_row {
    wf_op_t op;
    move_describe_fn *describe;
    move_count_t count;
    bool channels_last; /* also in that layout: dims keep their meaning */
} move_row_t;

static const move_row_t move_rows[] = {
    {WF_OP_TRANSPOSE, describe_transpose, ONE, false},
    {WF_OP_CONCAT, describe_concat, PER_OPERAND, true},
    {WF_OP_SPLIT, describe_split, PER_OUTPUT, true},
    {WF_OP_SLICE, describe_slice, ONE, true},
    {WF_OP_PAD, describe_pad, FILL_AND_ONE, true},
    {WF_OP_EXPAND, describe_expand, ONE, false},
    {WF_OP_TILE, describe_tile, ONE, true},
    {WF_OP_DEPTH_TO_SPACE, describe_blocks, ONE, true},
    {WF_OP_SPACE_TO_DEPTH, describe_blocks, ONE, true},
};

static const move_row_t *find_row(const wf_problem_t *problem)
{
    for (size_t i = 0; i < WF_COUNT_OF(move_rows); i++) {
        if (move_rows[i].op == problem->stages[0].op)
            return &move_rows[i];
    }
    return NULL;
}

static size_t copy_count(const move_row_t *row, const wf_problem_t *problem)
{
    switch (row->count) {
    case PER_OPERAND:
        return problem->operand_count;
    case PER_OUTPUT:
        return problem->output_count;
    case FILL_AND_ONE:
        return 2;
    default:
        return 1;
    }
}

/* Operands that carry data (others are parameters, which attributes have replaced, or a padding value). */
static bool is_data(const move_row_t *row, size_t operand)
{
    return row->count == PER_OPERAND || operand == 0;
}

/* ---- planning ---- */

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    const move_row_t *row = find_row(problem);
    if (row == NULL)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, "no epilogue");
    uint32_t bits = wf_dtype_bits(problem->outputs[0].dtype);
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        return WF_NATIVE_NO(TYPE, "elements of another width");
    for (size_t i = 0; i < problem->operand_count; i++) {
        bool absent = problem->operands[i].type.dtype == WF_DTYPE_NONE,
             pad_value = row->op == WF_OP_PAD && i == 2;
        if (!absent && !is_data(row, i) && !pad_value)
            return WF_NATIVE_NO(SHAPE, "a parameter is computed at run time");
        if (!absent && problem->operands[i].type.rank > WF_COPY_RANK_MAX)
            return WF_NATIVE_NO(SHAPE, "rank");
    }
    return WF_NATIVE_FITS;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    (void)native;
    (void)capacity;
    out_variants[0].layout = WF_LAYOUT_ROW;
    out_variants[1].layout = WF_LAYOUT_LAST;
    return find_row(problem)->channels_last && wf_layout_exists(&problem->outputs[0], WF_LAYOUT_LAST) ? 2 : 1;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    const move_row_t *row = find_row(problem);
    wf_layout_t layout = variant->layout;
    if (layout > WF_LAYOUT_LAST || (layout == WF_LAYOUT_LAST && !row->channels_last)) {
        return WF_NATIVE_NO(SHAPE, "no kernel for this layout");
    }
    for (size_t i = 0; i < problem->operand_count; i++) {
        const wf_problem_operand_t *operand = &problem->operands[i];
        if (!is_data(row, i))
            continue;
        if (operand->is_const && !wf_layout_same(&operand->type, WF_LAYOUT_ROW, layout)) {
            return WF_NATIVE_NO(SHAPE, "a constant would have to be converted");
        }
        if (!operand->is_const)
            plan->operand_layouts[i] = layout;
        if (layout == WF_LAYOUT_LAST && !wf_layout_exists(&operand->type, layout))
            return WF_NATIVE_NO(SHAPE, "rank");
    }
    for (size_t i = 0; i < problem->output_count; i++)
        plan->output_layouts[i] = layout;
    move_case_t c = {problem, layout, NULL, NULL};
    size_t count = copy_count(row, problem);
    wf_copy_plan_fn *plan_copy = wf_native_tiers[variant->tier].copy_plan;
    int32_t elem_bytes = (int32_t)(wf_dtype_bits(problem->outputs[0].dtype) / 8);
    for (size_t i = 0; i < count; i++) {
        move_copy_t copy = {0};
        wf_copy_plan made;
        if (!row->describe(&c, i, &copy) ||
            plan_copy(elem_bytes, copy.rank, copy.dims, copy.src, copy.dst, &made) != 0) {
            return WF_NATIVE_NO(ATTRIBUTE, "a case that is not a list of strided copies");
        }
    }
    plan->needs.reads_strided = plan->needs.writes_strided = layout == WF_LAYOUT_LAST;
    double bytes = 0;
    for (size_t i = 0; i < problem->output_count; i++)
        bytes += 2 * (double)wf_type_bytes(&problem->outputs[i]);
    plan->estimate_ns =
        wf_native_estimate_ns(native, variant->tier, 0, 1, (row->op == WF_OP_TRANSPOSE ? 1.5 : 1) * bytes,
                              bytes > PARALLEL_MIN_BYTES ? 1 : 0) +
        150.0 * (double)count;
    return WF_NATIVE_FITS;
}

/* ---- running ---- */

typedef struct prepared_copy {
    wf_copy_plan plan;
    int64_t src_offset_bytes, dst_offset_bytes;
    uint32_t operand, output;
    bool is_fill;
} prepared_copy_t;

typedef struct move_state {
    size_t count;
    prepared_copy_t *copies;
    uint64_t fill_value; /* the bits of a constant or default padding value */
} move_state_t;

static void prepare_copy(const wf_native_tier_t *tier, const move_copy_t *copy, int32_t elem_bytes,
                         prepared_copy_t *out)
{
    int failed = tier->copy_plan(elem_bytes, copy->rank, copy->dims, copy->src, copy->dst, &out->plan);
    assert(failed == 0);
    (void)failed;
    out->src_offset_bytes = copy->src_offset * elem_bytes;
    out->dst_offset_bytes = copy->dst_offset * elem_bytes;
    out->operand = copy->operand;
    out->output = copy->output;
    out->is_fill = copy->is_fill;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    const wf_problem_t *problem = kernel->problem;
    const move_row_t *row = find_row(problem);
    move_state_t *state = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *state, &state));
    state->count = copy_count(row, problem);
    WF_TRY(wf_arena_alloc(&kernel->memory, state->count, sizeof *state->copies, &state->copies));
    int32_t elem_bytes = (int32_t)(wf_dtype_bits(problem->outputs[0].dtype) / 8);
    move_case_t c = {problem, kernel->variant->layout, NULL, NULL};
    for (size_t i = 0; i < state->count; i++) {
        move_copy_t copy = {0};
        if (!row->describe(&c, i, &copy))
            return WF_ERROR(INTERNAL, "copy refused after planning");
        prepare_copy(kernel->tier, &copy, elem_bytes, &state->copies[i]);
    }
    for (size_t i = 0; i < problem->operand_count; i++)
        kernel->keeps_constants |= constants[i].data != NULL && is_data(row, i);
    if (row->op == WF_OP_PAD && problem->operand_count > 2 && constants[2].data != NULL) {
        memcpy(&state->fill_value, constants[2].data, (size_t)elem_bytes);
    }
    kernel->state = state;
    return WF_OK;
}

typedef struct move_run {
    const prepared_copy_t *copies;
    const wf_native_tier_t *tier;
    const void *src;
    void *dst;
} move_run_t;

static void run_item(void *arg, size_t item, uint32_t thread)
{
    (void)thread;
    const move_run_t *run = arg;
    run->tier->copy(&run->copies->plan, run->src, run->dst, (int64_t)item);
}

static const uint8_t *source_of(const wf_kernel_t *kernel, const prepared_copy_t *copy,
                                const wf_view_t *operands)
{
    const wf_problem_t *problem = kernel->problem;
    const move_state_t *state = kernel->state;
    if (copy->is_fill) {
        bool given = problem->operand_count > 2 && problem->operands[2].type.dtype != WF_DTYPE_NONE;
        return given && !problem->operands[2].is_const ? operands[2].data
                                                       : (const uint8_t *)&state->fill_value;
    }
    return problem->operands[copy->operand].is_const ? kernel->constants[copy->operand].data
                                                     : operands[copy->operand].data;
}

static bool any_stride(const wf_problem_t *problem, const wf_view_t *operands, const wf_view_t *outputs)
{
    for (size_t i = 0; i < problem->operand_count; i++) {
        if (operands[i].row_stride_elems != 0)
            return true;
    }
    for (size_t i = 0; i < problem->output_count; i++) {
        if (outputs[i].row_stride_elems != 0)
            return true;
    }
    return false;
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    (void)workspace;
    const wf_problem_t *problem = kernel->problem;
    const move_state_t *state = kernel->state;
    const move_row_t *row = find_row(problem);
    int32_t elem_bytes = (int32_t)(wf_dtype_bits(problem->outputs[0].dtype) / 8);
    bool strided = any_stride(problem, operands, outputs);
    move_case_t c = {problem, kernel->variant->layout, operands, outputs};
    for (size_t i = 0; i < state->count; i++) {
        prepared_copy_t restrided;
        const prepared_copy_t *copy = &state->copies[i];
        if (strided) {
            move_copy_t described = {0};
            (void)row->describe(&c, i, &described);
            prepare_copy(kernel->tier, &described, elem_bytes, &restrided);
            copy = &restrided;
        }
        move_run_t run = {copy, kernel->tier, source_of(kernel, copy, operands) + copy->src_offset_bytes,
                          (uint8_t *)outputs[copy->output].data + copy->dst_offset_bytes};
        /* A part of a concatenation that its producer wrote straight into the result. */
        if (run.src == run.dst)
            continue;
        int64_t bytes = wf_type_bytes(&problem->outputs[copy->output]);
        if (bytes < PARALLEL_MIN_BYTES || parallel->thread_count == 1) {
            for (int64_t item = 0; item < copy->plan.items; item++)
                run_item(&run, (size_t)item, 0);
        } else {
            parallel->run(parallel->self, (size_t)copy->plan.items, run_item, &run);
        }
    }
    return WF_OK;
}

const wf_native_family_t wf_native_family_move = {
    .name = "move",
    .revision = 1,
    .has_layout = true,
    .has_tier = true,
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
