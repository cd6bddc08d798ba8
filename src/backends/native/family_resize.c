/* SPDX-License-Identifier: Apache-2.0 */
/* Resize of 2-D images, channels last: nearest of any element width, linear in f32, with the coordinate modes
 * that need no region (kernels/resize.h). */
#include <math.h>
#include <string.h>

#include "backends/native/rows_run.h"
#include "base/compiler.h"

enum { NEAREST_TAPS = 1, LINEAR_TAPS = 2 };

typedef struct resize_state {
    bool linear;
    int64_t in_h, in_w, out_h, out_w, images, channels;
    int32_t *row_index, *col_index;
    float *row_weight, *col_weight;
} resize_state_t;

static bool text_is(const wf_problem_t *problem, const char *name, const char *value)
{
    return strcmp(wf_attrs_string(&problem->stages[0].attrs, name, ""), value) == 0;
}

/* ---- coordinates (ONNX Resize) ---- */

/* The factor of each axis: what `scales` says, else the quotient of the sizes. */
static double axis_scale(const wf_problem_t *problem, uint32_t axis)
{
    size_t count, axes_count;
    const float *scales = wf_attrs_floats(&problem->stages[0].attrs, "scales", &count);
    const int64_t *axes = wf_attrs_ints(&problem->stages[0].attrs, "axes", &axes_count);
    double in = (double)problem->operands[0].type.dims[axis], out = (double)problem->outputs[0].dims[axis];
    for (size_t i = 0; scales != NULL && i < count; i++) {
        int64_t at = axes != NULL && i < axes_count ? axes[i] : (int64_t)i;
        if ((at < 0 ? at + 4 : at) == axis)
            return (double)scales[i];
    }
    return out / in;
}

static double coordinate(const wf_problem_t *problem, double o, double scale, double in, double out)
{
    if (text_is(problem, "coordinate_transformation_mode", "asymmetric"))
        return o / scale;
    if (text_is(problem, "coordinate_transformation_mode", "align_corners")) {
        /* The length before it is cut to an integer, as the operator's tests have it. */
        double length = in * scale;
        return length == 1 || out <= 1 ? 0 : o * (in - 1) / (length - 1);
    }
    if (text_is(problem, "coordinate_transformation_mode", "pytorch_half_pixel") && out <= 1)
        return 0;
    return (o + 0.5) / scale - 0.5;
}

static double nearest(const wf_problem_t *problem, double x)
{
    double low = floor(x), rest = x - low;
    if (text_is(problem, "nearest_mode", "floor"))
        return low;
    if (text_is(problem, "nearest_mode", "ceil"))
        return rest > 0 ? low + 1 : low;
    if (text_is(problem, "nearest_mode", "round_prefer_ceil"))
        return rest >= 0.5 ? low + 1 : low;
    return rest > 0.5 ? low + 1 : low;
}

static void fill_axis(const wf_problem_t *problem, uint32_t axis, bool linear, int32_t *index, float *weight)
{
    int64_t in = problem->operands[0].type.dims[axis], out = problem->outputs[0].dims[axis];
    double scale = axis_scale(problem, axis), last = (double)(in - 1);
    for (int64_t o = 0; o < out; o++) {
        double x = coordinate(problem, (double)o, scale, (double)in, (double)out);
        if (!linear) {
            index[o] = (int32_t)fmin(fmax(nearest(problem, x), 0), last);
            continue;
        }
        double low = floor(x), rest = x - low;
        index[2 * o] = (int32_t)fmin(fmax(low, 0), last);
        index[2 * o + 1] = (int32_t)fmin(fmax(low + 1, 0), last);
        weight[2 * o] = (float)(1 - rest);
        weight[2 * o + 1] = (float)rest;
    }
}

/* ---- planning ---- */

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    static const char *const modes[] = {"asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"};
    const wf_type_t *x = &problem->operands[0].type, *y = &problem->outputs[0];
    const wf_attrs_t *attrs = &problem->stages[0].attrs;
    if (problem->stages[0].op != WF_OP_RESIZE)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, "no epilogue");
    for (size_t i = 1; i < problem->operand_count; i++) {
        if (problem->operands[i].type.dtype != WF_DTYPE_NONE)
            return WF_NATIVE_NO(SHAPE, "a parameter is computed at run time");
    }
    if (x->rank != 4 || wf_type_elems(x) <= 0 || wf_type_elems(y) <= 0 || x->dims[0] != y->dims[0] ||
        x->dims[1] != y->dims[1]) {
        return WF_NATIVE_NO(SHAPE, "not the two last dims of an image");
    }
    for (uint32_t d = 0; d < 4; d++) {
        if (x->dims[d] > INT32_MAX / 4 || y->dims[d] > INT32_MAX / 4)
            return WF_NATIVE_NO(SHAPE, "very large");
    }
    bool known = false;
    for (size_t i = 0; i < WF_COUNT_OF(modes); i++)
        known |= text_is(problem, "coordinate_transformation_mode", modes[i]);
    bool is_nearest = text_is(problem, "mode", "nearest"), is_linear = text_is(problem, "mode", "linear");
    if (!known || (!is_nearest && !is_linear))
        return WF_NATIVE_NO(ATTRIBUTE, "cubic, or a coordinate mode with a region");
    if (wf_attrs_int(attrs, "antialias", 0) != 0 || wf_attrs_int(attrs, "exclude_outside", 0) != 0) {
        return WF_NATIVE_NO(ATTRIBUTE, "antialias or exclude_outside");
    }
    if (!text_is(problem, "keep_aspect_ratio_policy", "stretch"))
        return WF_NATIVE_NO(ATTRIBUTE, "kept aspect ratio");
    if (wf_dtype_bits(x->dtype) < 8 || problem->operands[0].is_const ||
        (is_linear && x->dtype != WF_DTYPE_F32)) {
        return WF_NATIVE_NO(TYPE, "element type");
    }
    return WF_NATIVE_FITS;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    const wf_type_t *x = &problem->operands[0].type;
    plan->operand_layouts[0] = plan->output_layouts[0] = WF_LAYOUT_LAST;
    plan->needs.reads_strided = plan->needs.writes_strided = true;
    bool linear = text_is(problem, "mode", "linear");
    size_t row_bytes = (size_t)(x->dims[3] * x->dims[1]) * sizeof(float);
    if (linear)
        plan->needs.workspace_bytes = (row_bytes + 63) / 64 * 64 * WF_MAX(native->cpu.thread_count, 1u);
    double elems = (double)wf_type_elems(&problem->outputs[0]);
    plan->estimate_ns = wf_native_estimate_ns(native, variant->tier, linear ? 8 * elems : 0, 0.3,
                                              wf_problem_bytes(problem), 1);
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    (void)constants;
    const wf_problem_t *problem = kernel->problem;
    const wf_type_t *x = &problem->operands[0].type, *y = &problem->outputs[0];
    resize_state_t *s = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *s, &s));
    kernel->state = s;
    *s = (resize_state_t){.linear = text_is(problem, "mode", "linear"),
                          .images = x->dims[0],
                          .channels = x->dims[1],
                          .in_h = x->dims[2],
                          .in_w = x->dims[3],
                          .out_h = y->dims[2],
                          .out_w = y->dims[3]};
    size_t taps = s->linear ? LINEAR_TAPS : NEAREST_TAPS;
    WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)s->out_h * taps, sizeof *s->row_index, &s->row_index));
    WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)s->out_w * taps, sizeof *s->col_index, &s->col_index));
    WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)s->out_h * taps, sizeof *s->row_weight, &s->row_weight));
    WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)s->out_w * taps, sizeof *s->col_weight, &s->col_weight));
    fill_axis(problem, 2, s->linear, s->row_index, s->row_weight);
    fill_axis(problem, 3, s->linear, s->col_index, s->col_weight);
    return WF_OK;
}

/* ---- running ---- */

typedef struct resize_run {
    wf_resize_nearest_args nearest;
    wf_resize_f32_args linear;
    const wf_native_tier_t *tier;
    bool is_linear;
} resize_run_t;

static void run_rows(void *self, int64_t begin, int64_t end, void *scratch)
{
    const resize_run_t *run = self;
    if (run->is_linear)
        run->tier->resize(&run->linear, begin, end, scratch);
    else
        run->tier->resize_nearest(&run->nearest, begin, end);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    const resize_state_t *s = kernel->state;
    int64_t elem_bytes = wf_dtype_bits(kernel->problem->outputs[0].dtype) / 8;
    int64_t x_pixel = operands[0].row_stride_elems != 0 ? operands[0].row_stride_elems : s->channels;
    int64_t y_pixel = outputs[0].row_stride_elems != 0 ? outputs[0].row_stride_elems : s->channels;
    resize_run_t run = {.tier = kernel->tier, .is_linear = s->linear};
    run.nearest = (wf_resize_nearest_args){.x = operands[0].data,
                                           .y = outputs[0].data,
                                           .images = s->images,
                                           .out_h = s->out_h,
                                           .out_w = s->out_w,
                                           .pixel_bytes = s->channels * elem_bytes,
                                           .x_image_bytes = s->in_h * s->in_w * x_pixel * elem_bytes,
                                           .x_row_bytes = s->in_w * x_pixel * elem_bytes,
                                           .x_pixel_bytes = x_pixel * elem_bytes,
                                           .y_image_bytes = s->out_h * s->out_w * y_pixel * elem_bytes,
                                           .y_row_bytes = s->out_w * y_pixel * elem_bytes,
                                           .y_pixel_bytes = y_pixel * elem_bytes,
                                           .row_index = s->row_index,
                                           .col_index = s->col_index};
    run.linear = (wf_resize_f32_args){.x = operands[0].data,
                                      .y = outputs[0].data,
                                      .images = s->images,
                                      .in_w = s->in_w,
                                      .out_h = s->out_h,
                                      .out_w = s->out_w,
                                      .channels = s->channels,
                                      .x_image_stride = s->in_h * s->in_w * x_pixel,
                                      .x_row_stride = s->in_w * x_pixel,
                                      .x_pixel_stride = x_pixel,
                                      .y_image_stride = s->out_h * s->out_w * y_pixel,
                                      .y_row_stride = s->out_w * y_pixel,
                                      .y_pixel_stride = y_pixel,
                                      .row_taps = LINEAR_TAPS,
                                      .col_taps = LINEAR_TAPS,
                                      .row_index = s->row_index,
                                      .row_weight = s->row_weight,
                                      .col_index = s->col_index,
                                      .col_weight = s->col_weight};
    size_t scratch = s->linear ? ((size_t)(s->in_w * s->channels) * sizeof(float) + 63) / 64 * 64 : 0;
    wf_native_rows_run(parallel, s->images * s->out_h, 1, run_rows, &run, workspace, scratch);
    return WF_OK;
}

const wf_native_family_t wf_native_family_resize = {
    .name = "resize",
    .revision = 1,
    .has_tier = true,
    .match = match,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
