/* SPDX-License-Identifier: Apache-2.0 */
#include "op/canonical.h"

#include <string.h>

#include "base/compiler.h"
#include "op/einsum.h"
#include "op/shape.h"

/* A list being rewritten. Names and values given to it must live in the arena or be static. */
typedef struct canon {
    const wf_shape_call_t *call;
    wf_arena_t *arena;
    wf_attr_t *items; /* room for WF_OP_MAX_ATTRS */
    size_t count;
} canon_t;

typedef wf_status_t canon_fn(canon_t *self);

/* ---- The list ---- */

static wf_attrs_t view(const canon_t *self)
{
    return (wf_attrs_t){.items = self->items, .count = self->count};
}

static const wf_attr_t *find(const canon_t *self, const char *name)
{
    wf_attrs_t attrs = view(self);
    return wf_attrs_find(&attrs, name);
}

static int64_t get_int(const canon_t *self, const char *name, int64_t fallback)
{
    wf_attrs_t attrs = view(self);
    return wf_attrs_int(&attrs, name, fallback);
}

static bool string_is(const canon_t *self, const char *name, const char *word)
{
    wf_attrs_t attrs = view(self);
    return strcmp(wf_attrs_string(&attrs, name, ""), word) == 0;
}

static bool has_input(const canon_t *self, size_t index)
{
    return wf_shape_input(self->call, index) != NULL;
}

static void drop(canon_t *self, const char *name)
{
    const wf_attr_t *found = find(self, name);
    if (found == NULL) {
        return;
    }
    size_t place = (size_t)(found - self->items);
    memmove(&self->items[place], &self->items[place + 1], (self->count - place - 1) * sizeof *self->items);
    self->count--;
}

/* Replaces or inserts, in order of names. */
static void put(canon_t *self, wf_attr_t attr)
{
    drop(self, attr.name);
    assert(self->count < WF_OP_MAX_ATTRS);
    size_t place = self->count++;
    for (; place > 0 && strcmp(self->items[place - 1].name, attr.name) > 0; place--) {
        self->items[place] = self->items[place - 1];
    }
    self->items[place] = attr;
}

static void put_int(canon_t *self, const char *name, int64_t value)
{
    put(self, (wf_attr_t){.name = name, .kind = WF_ATTR_INT, .v.i = value});
}

static void put_float(canon_t *self, const char *name, float value)
{
    put(self, (wf_attr_t){.name = name, .kind = WF_ATTR_FLOAT, .v.f = value});
}

static void put_string(canon_t *self, const char *name, const char *word)
{
    put(self, (wf_attr_t){.name = name, .kind = WF_ATTR_STRING, .count = strlen(word), .v.s = word});
}

static wf_status_t put_ints(canon_t *self, const char *name, const int64_t *values, size_t count)
{
    int64_t *copy;
    WF_TRY(wf_arena_alloc(self->arena, count, sizeof *copy, &copy));
    if (count > 0) {
        memcpy(copy, values, count * sizeof *copy);
    }
    put(self, (wf_attr_t){.name = name, .kind = WF_ATTR_INTS, .count = count, .v.ints = copy});
    return WF_OK;
}

static wf_status_t put_mask(canon_t *self, const char *name, uint32_t mask)
{
    int64_t axes[32];
    size_t count = 0;
    for (uint32_t i = 0; i < 32; i++) {
        if ((mask >> i & 1) != 0) {
            axes[count++] = i;
        }
    }
    return put_ints(self, name, axes, count);
}

/* The bit mask of an axes attribute; inference has checked it. */
static wf_status_t mask_of(const canon_t *self, const char *name, uint32_t rank, uint32_t *out_mask)
{
    wf_attrs_t attrs = view(self);
    size_t count;
    const int64_t *axes = wf_attrs_ints(&attrs, name, &count);
    uint32_t normal[2 * WF_MAX_RANK];
    return wf_shape_axes(axes, (int32_t)count, rank, normal, out_mask);
}

/* ---- Windows ---- */

/* (kernel - 1) * dilation + 1; inference has checked that it fits. */
static int64_t extent_of(const wf_window_t *window, uint32_t i)
{
    return (window->kernel[i] - 1) * window->dilation[i] + 1;
}

/* How far the last window reaches beyond the input; negative when elements remain unused. */
static int64_t reach_of(const wf_window_t *window, uint32_t i)
{
    return (window->out[i] - 1) * window->stride[i] + extent_of(window, i) - window->in[i] -
           window->pad_begin[i];
}

/* A function of what is computed only, so that every spelling of it gives the same. The begin pad is
 * preferred since libraries like symmetric pads. */
static int64_t canonical_pad_end(const wf_window_t *window, uint32_t i)
{
    if (window->out[i] == 0) {
        return 0;
    }
    int64_t reach = reach_of(window, i);
    int64_t begin = window->pad_begin[i];
    return begin >= reach && begin - reach < window->stride[i] ? begin : WF_MAX(reach, 0);
}

static wf_status_t put_window(canon_t *self, const wf_window_t *window, const int64_t *pad_end)
{
    size_t rank = window->spatial_rank;
    int64_t pads[2 * WF_MAX_RANK];
    memcpy(pads, window->pad_begin, rank * sizeof *pads);
    memcpy(pads + rank, pad_end, rank * sizeof *pads);
    drop(self, "auto_pad");
    WF_TRY(put_ints(self, "dilations", window->dilation, rank));
    WF_TRY(put_ints(self, "pads", pads, 2 * rank));
    return put_ints(self, "strides", window->stride, rank);
}

/* An axis without windows has an empty input, which gives none without pads too. */
static void drop_unused_pads(wf_window_t *window)
{
    for (uint32_t i = 0; i < window->spatial_rank; i++) {
        if (window->out[i] == 0) {
            window->pad_begin[i] = window->pad_end[i] = 0;
        }
    }
}

static wf_status_t canon_conv(canon_t *self)
{
    const wf_type_t *weight = &self->call->inputs[self->call->op == WF_OP_QLINEAR_CONV ? 3 : 1];
    wf_attrs_t attrs = view(self);
    wf_window_t window;
    WF_TRY(wf_window_resolve(self->call->op, &attrs, &self->call->inputs[0], weight, &window));
    drop_unused_pads(&window);
    int64_t pad_end[WF_MAX_RANK];
    for (uint32_t i = 0; i < window.spatial_rank; i++) {
        pad_end[i] = canonical_pad_end(&window, i);
    }
    drop(self, "kernel_shape");
    return put_window(self, &window, pad_end);
}

/* The end pad that is used, for a pool that keeps ceil_mode. ceil_mode drops one window that starts behind
 * the input: when the last one left does so too, there must be one more to drop. */
static int64_t ceil_pad_end(const wf_window_t *window, uint32_t i)
{
    int64_t reach = reach_of(window, i);
    bool starts_behind = (window->out[i] - 1) * window->stride[i] >= window->in[i] + window->pad_begin[i];
    return starts_behind ? reach + 1 : WF_MIN(WF_MAX(reach, 0), window->pad_end[i]);
}

static wf_status_t canon_pool(canon_t *self)
{
    wf_attrs_t attrs = view(self);
    wf_window_t window;
    WF_TRY(wf_window_resolve(self->call->op, &attrs, &self->call->inputs[0], NULL, &window));
    drop_unused_pads(&window);
    int64_t used_end[WF_MAX_RANK];
    bool pads = false;
    bool beyond = false;
    for (uint32_t i = 0; i < window.spatial_rank; i++) {
        int64_t reach = reach_of(&window, i);
        bool empty = window.out[i] == 0;
        used_end[i] = empty ? 0 : ceil_pad_end(&window, i);
        pads = pads || window.pad_begin[i] > 0 || used_end[i] > 0;
        beyond = beyond || (!empty && reach > window.pad_end[i]);
    }
    /* Pads that are counted differ from places beyond the pads, which are not: only then must ceil_mode stay.
     */
    bool counts = pads && get_int(self, "count_include_pad", 0) != 0;
    beyond = beyond && counts;
    int64_t pad_end[WF_MAX_RANK];
    for (uint32_t i = 0; i < window.spatial_rank; i++) {
        pad_end[i] = beyond ? used_end[i] : canonical_pad_end(&window, i);
    }
    put_int(self, "ceil_mode", beyond ? 1 : 0);
    if (find(self, "count_include_pad") != NULL) {
        put_int(self, "count_include_pad", counts ? 1 : 0);
    }
    if (self->call->output_count < 2 && find(self, "storage_order") != NULL) {
        put_int(self, "storage_order", 0);
    }
    WF_TRY(put_ints(self, "kernel_shape", window.kernel, window.spatial_rank));
    return put_window(self, &window, pad_end);
}

static wf_status_t canon_conv_transpose(canon_t *self)
{
    wf_attrs_t attrs = view(self);
    wf_window_t window;
    WF_TRY(wf_window_resolve_transpose(&attrs, &self->call->inputs[0], &self->call->inputs[1], &window));
    int64_t pad_end[WF_MAX_RANK];
    int64_t output_padding[WF_MAX_RANK];
    for (uint32_t i = 0; i < window.spatial_rank; i++) {
        pad_end[i] = WF_MAX(window.pad_end[i], 0);
        output_padding[i] = WF_MAX(-window.pad_end[i], 0);
    }
    drop(self, "kernel_shape");
    drop(self, "output_shape");
    WF_TRY(put_ints(self, "output_padding", output_padding, window.spatial_rank));
    return put_window(self, &window, pad_end);
}

/* ---- Reductions, axes ---- */

static wf_status_t canon_reduce(canon_t *self)
{
    if (has_input(self, 1)) {
        return WF_OK;
    }
    wf_shape_call_t call = *self->call;
    wf_attrs_t attrs = view(self);
    uint32_t mask;
    call.attrs = &attrs;
    WF_TRY(wf_reduce_resolve(&call, &mask));
    put_int(self, "noop_with_empty_axes", mask == 0 ? 1 : 0);
    if (mask == 0) {
        put_int(self, "keepdims", 1);
    }
    return put_mask(self, "axes", mask);
}

static wf_status_t canon_axes(canon_t *self)
{
    uint32_t mask;
    WF_TRY(mask_of(self, "axes", self->call->inputs[0].rank, &mask));
    return put_mask(self, "axes", mask);
}

static wf_status_t canon_squeeze(canon_t *self)
{
    if (has_input(self, 1)) {
        return WF_OK;
    }
    const wf_type_t *input = &self->call->inputs[0];
    uint32_t mask = 0;
    for (uint32_t i = 0; i < input->rank; i++) {
        mask |= input->dims[i] == 1 ? UINT32_C(1) << i : 0;
    }
    if (find(self, "axes") != NULL) {
        WF_TRY(mask_of(self, "axes", input->rank, &mask));
    }
    return put_mask(self, "axes", mask);
}

static wf_status_t canon_unsqueeze(canon_t *self)
{
    if (find(self, "axes") == NULL) {
        return WF_OK;
    }
    uint32_t mask;
    WF_TRY(mask_of(self, "axes", self->call->outputs[0].rank, &mask));
    return put_mask(self, "axes", mask);
}

/* Attributes that name one axis count it from 0. */
static void canon_axis(canon_t *self)
{
    static const char *const names[] = {"axis", "batch_axis", "time_axis"};
    int64_t rank = self->call->input_count > 0 ? (int64_t)self->call->inputs[0].rank : 0;
    /* Softmax of a scalar has an axis to name. */
    rank = self->call->op == WF_OP_ONE_HOT ? rank + 1 : WF_MAX(rank, 1);
    for (size_t i = 0; i < WF_COUNT_OF(names); i++) {
        int64_t axis = get_int(self, names[i], 0);
        if (axis < 0) {
            put_int(self, names[i], axis + rank);
        }
    }
}

/* ---- Movement ---- */

static wf_status_t canon_reshape(canon_t *self)
{
    if (find(self, "shape") == NULL) {
        return WF_OK;
    }
    const wf_type_t *out = &self->call->outputs[0];
    put_int(self, "allowzero", wf_type_elems(out) == 0 ? 1 : 0);
    return put_ints(self, "shape", out->dims, out->rank);
}

static wf_status_t canon_expand(canon_t *self)
{
    const wf_type_t *out = &self->call->outputs[0];
    return find(self, "shape") == NULL ? WF_OK : put_ints(self, "shape", out->dims, out->rank);
}

static wf_status_t canon_transpose(canon_t *self)
{
    uint32_t rank = self->call->inputs[0].rank;
    int64_t perm[WF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        perm[i] = rank - 1 - i;
    }
    const wf_attr_t *given = find(self, "perm");
    for (uint32_t i = 0; given != NULL && i < rank; i++) {
        perm[i] = given->v.ints[i] + (given->v.ints[i] < 0 ? rank : 0);
    }
    return put_ints(self, "perm", perm, rank);
}

static wf_status_t canon_split(canon_t *self)
{
    if (has_input(self, 1)) {
        return WF_OK;
    }
    const wf_shape_call_t *call = self->call;
    int64_t *sizes;
    WF_TRY(wf_arena_alloc(self->arena, call->output_count, sizeof *sizes, &sizes));
    int64_t axis = get_int(self, "axis", 0);
    for (size_t i = 0; i < call->output_count; i++) {
        sizes[i] = call->outputs[i].dims[axis];
    }
    drop(self, "num_outputs");
    return put_ints(self, "split", sizes, call->output_count);
}

static wf_status_t canon_slice(canon_t *self)
{
    if (has_input(self, 1) || has_input(self, 2) || has_input(self, 3) || has_input(self, 4)) {
        return WF_OK;
    }
    const wf_type_t *input = &self->call->inputs[0];
    const wf_attr_t *starts = find(self, "starts");
    const wf_attr_t *ends = find(self, "ends");
    const wf_attr_t *axes = find(self, "axes");
    const wf_attr_t *steps = find(self, "steps");
    /* By axis: count 0 in `used` means that the axis is whole. */
    int64_t cut[3][WF_MAX_RANK];
    bool used[WF_MAX_RANK] = {false};
    for (size_t i = 0; i < starts->count; i++) {
        int64_t axis = axes != NULL ? axes->v.ints[i] : (int64_t)i;
        axis += axis < 0 ? input->rank : 0;
        int64_t dim = input->dims[axis];
        int64_t start = starts->v.ints[i];
        int64_t end = ends->v.ints[i];
        int64_t step = steps != NULL ? steps->v.ints[i] : 1;
        int64_t count = wf_slice_resolve(dim, &start, &end, step);
        if (count <= 1) {
            step = 1;
            start = count == 0 ? 0 : start;
        }
        end = count == 0 ? 0 : start + (count - 1) * step + (step > 0 ? 1 : -1);
        /* Before the first element: -1 would be read as the last. */
        end = end < 0 ? -dim - 1 : end;
        used[axis] = !(start == 0 && step == 1 && count == dim);
        cut[0][axis] = start;
        cut[1][axis] = end;
        cut[2][axis] = step;
    }
    int64_t lists[4][WF_MAX_RANK];
    size_t count = 0;
    for (uint32_t axis = 0; axis < input->rank; axis++) {
        if (used[axis]) {
            lists[0][count] = cut[0][axis];
            lists[1][count] = cut[1][axis];
            lists[2][count] = cut[2][axis];
            lists[3][count++] = axis;
        }
    }
    WF_TRY(put_ints(self, "starts", lists[0], count));
    WF_TRY(put_ints(self, "ends", lists[1], count));
    WF_TRY(put_ints(self, "steps", lists[2], count));
    return put_ints(self, "axes", lists[3], count);
}

static wf_status_t canon_pad(canon_t *self)
{
    const wf_attr_t *pads = find(self, "pads");
    const wf_attr_t *axes = find(self, "axes");
    if (pads == NULL || has_input(self, 3)) {
        return WF_OK;
    }
    size_t rank = self->call->inputs[0].rank;
    size_t count = pads->count / 2;
    int64_t all[2 * WF_MAX_RANK] = {0};
    for (size_t i = 0; i < count; i++) {
        int64_t axis = axes != NULL ? axes->v.ints[i] : (int64_t)i;
        axis += axis < 0 ? (int64_t)rank : 0;
        all[axis] = pads->v.ints[i];
        all[(int64_t)rank + axis] = pads->v.ints[count + i];
    }
    drop(self, "axes");
    return put_ints(self, "pads", all, 2 * rank);
}

/* Spreads values of the resized axes over all axes. */
static wf_status_t spread_floats(canon_t *self, const char *name, const uint32_t *axes, uint32_t count,
                                 float rest_low, float rest_high)
{
    const wf_attr_t *given = find(self, name);
    if (given == NULL) {
        return WF_OK;
    }
    uint32_t rank = self->call->inputs[0].rank;
    size_t parts = given->count / WF_MAX(count, 1u);
    float *all;
    WF_TRY(wf_arena_alloc(self->arena, parts * rank, sizeof *all, &all));
    for (size_t p = 0; p < parts; p++) {
        for (uint32_t i = 0; i < rank; i++) {
            all[p * rank + i] = p == 0 ? rest_low : rest_high;
        }
        for (uint32_t i = 0; i < count; i++) {
            all[p * rank + axes[i]] = given->v.floats[p * count + i];
        }
    }
    put(self, (wf_attr_t){.name = name, .kind = WF_ATTR_FLOATS, .count = parts * rank, .v.floats = all});
    return WF_OK;
}

static wf_status_t canon_resize(canon_t *self)
{
    const wf_type_t *input = &self->call->inputs[0];
    bool crop = string_is(self, "coordinate_transformation_mode", "tf_crop_and_resize");
    if (!crop) {
        drop(self, "roi");
        put_float(self, "extrapolation_value", 0);
    }
    if (!string_is(self, "mode", "nearest")) {
        put_string(self, "nearest_mode", "round_prefer_floor");
    } else {
        put_int(self, "antialias", 0);
    }
    if (!string_is(self, "mode", "cubic")) {
        put_float(self, "cubic_coeff_a", -0.75F);
    }
    /* Empty lists stand for absent ones. */
    static const char *const lists[] = {"scales", "sizes"};
    for (size_t i = 0; i < WF_COUNT_OF(lists); i++) {
        const wf_attr_t *given = find(self, lists[i]);
        if (given != NULL && given->count == 0 && input->rank > 0) {
            drop(self, lists[i]);
        }
    }
    const wf_attr_t *sizes = find(self, "sizes");
    bool stretch = string_is(self, "keep_aspect_ratio_policy", "stretch");
    bool dynamic = has_input(self, 1) || has_input(self, 2) || has_input(self, 3);
    if (sizes == NULL && !has_input(self, 3)) {
        put_string(self, "keep_aspect_ratio_policy", "stretch");
        stretch = true;
    }
    wf_attrs_t attrs = view(self);
    uint32_t axes[2 * WF_MAX_RANK];
    uint32_t count;
    WF_TRY(wf_resize_axes(&attrs, input->rank, axes, &count));
    /* With a policy the axes say what shares the scale; with inputs they say what those are for. */
    if (dynamic || !stretch) {
        int64_t list[WF_MAX_RANK];
        for (uint32_t i = 0; i < count; i++) {
            list[i] = axes[i];
        }
        return find(self, "axes") == NULL ? WF_OK : put_ints(self, "axes", list, count);
    }
    drop(self, "axes");
    WF_TRY(spread_floats(self, "scales", axes, count, 1, 1));
    WF_TRY(spread_floats(self, "roi", axes, count, 0, 1));
    bool by_scales = find(self, "scales") != NULL;
    return by_scales ? WF_OK : put_ints(self, "sizes", self->call->outputs[0].dims, input->rank);
}

/* ---- Others ---- */

static int64_t onnx_of(wf_dtype_t dtype)
{
    int64_t number = 0;
    for (int64_t i = 1; i < 64 && number == 0; i++) {
        number = wf_dtype_from_onnx(i) == dtype ? i : 0;
    }
    return number;
}

static wf_status_t canon_gemm(canon_t *self)
{
    if (!has_input(self, 2)) {
        put_float(self, "beta", 1);
    }
    return WF_OK;
}

static wf_status_t canon_einsum(canon_t *self)
{
    const wf_attr_t *equation = find(self, "equation");
    wf_einsum_t einsum;
    char text[WF_EINSUM_TEXT_MAX];
    WF_TRY(wf_einsum_parse(equation->v.s, equation->count, self->call->inputs, self->call->input_count,
                           &einsum));
    if (!wf_einsum_text(&einsum, self->call->inputs, text)) {
        return WF_OK;
    }
    const char *copy;
    WF_TRY(wf_arena_text(self->arena, text, strlen(text), &copy));
    put_string(self, "equation", copy);
    return WF_OK;
}

static wf_status_t canon_cast(canon_t *self)
{
    wf_dtype_t to = self->call->outputs[0].dtype;
    if (!wf_dtype_is_small_float(to)) {
        put_int(self, "saturate", 1);
    }
    if (to != WF_DTYPE_F8E8M0) {
        put_string(self, "round_mode", "up");
    }
    return WF_OK;
}

static wf_status_t canon_quantize(canon_t *self)
{
    const wf_type_t *scale = &self->call->inputs[1];
    bool per_tensor = scale->rank == 0 ||
                      (scale->rank == 1 && wf_type_elems(scale) == 1 && get_int(self, "block_size", 0) == 0);
    if (per_tensor) {
        put_int(self, "axis", 1);
        put_int(self, "block_size", 0);
    }
    if (self->call->op == WF_OP_QUANTIZE_LINEAR && !wf_dtype_is_small_float(self->call->outputs[0].dtype)) {
        put_int(self, "saturate", 1);
    }
    put_int(self, "output_dtype", onnx_of(self->call->outputs[0].dtype));
    return WF_OK;
}

static wf_status_t canon_recurrent(canon_t *self)
{
    static const char *const defaults[] = {"Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Tanh"};
    static const char *const gru_defaults[] = {"Sigmoid", "Tanh", "Sigmoid", "Tanh"};
    size_t each = self->call->op == WF_OP_LSTM ? 3 : self->call->op == WF_OP_GRU ? 2 : 1;
    size_t count = each * (string_is(self, "direction", "bidirectional") ? 2 : 1);
    const wf_attr_t *given = find(self, "activations");
    const char *const *names = self->call->op == WF_OP_GRU ? gru_defaults : defaults;
    names = given != NULL ? given->v.strings : names;
    put(self,
        (wf_attr_t){.name = "activations", .kind = WF_ATTR_STRINGS, .count = count, .v.strings = names});
    put_int(self, "hidden_size", self->call->inputs[2].dims[2]);
    return WF_OK;
}

static wf_status_t canon_batch_normalization(canon_t *self)
{
    if (get_int(self, "training_mode", 0) == 0) {
        put_float(self, "momentum", 0.9F);
    }
    return WF_OK;
}

static wf_status_t canon_eye_like(canon_t *self)
{
    put_int(self, "dtype", onnx_of(self->call->outputs[0].dtype));
    return WF_OK;
}

static wf_status_t canon_trilu(canon_t *self)
{
    if (!has_input(self, 1) && find(self, "k") == NULL) {
        put_int(self, "k", 0);
    }
    return WF_OK;
}

static wf_status_t canon_attention(canon_t *self)
{
    static const char *const names[] = {"k_perm", "out_perm", "q_perm", "v_perm"};
    for (size_t i = 0; i < WF_COUNT_OF(names); i++) {
        const wf_attr_t *perm = find(self, names[i]);
        bool identity = perm != NULL;
        int64_t axes[WF_MAX_RANK];
        for (size_t a = 0; perm != NULL && a < perm->count; a++) {
            axes[a] = perm->v.ints[a] + (perm->v.ints[a] < 0 ? (int64_t)perm->count : 0);
            identity = identity && axes[a] == (int64_t)a;
        }
        if (identity) {
            drop(self, names[i]);
        } else if (perm != NULL) {
            WF_TRY(put_ints(self, names[i], axes, perm->count));
        }
    }
    return WF_OK;
}

static const struct canon_rule {
    wf_op_t op;
    canon_fn *apply;
} canon_rules[] = {
    {WF_OP_CONV, canon_conv},
    {WF_OP_CONV_INTEGER, canon_conv},
    {WF_OP_QLINEAR_CONV, canon_conv},
    {WF_OP_CONV_TRANSPOSE, canon_conv_transpose},
    {WF_OP_AVERAGE_POOL, canon_pool},
    {WF_OP_MAX_POOL, canon_pool},
    {WF_OP_LP_POOL, canon_pool},
    {WF_OP_REDUCE_L1, canon_reduce},
    {WF_OP_REDUCE_L2, canon_reduce},
    {WF_OP_REDUCE_LOG_SUM, canon_reduce},
    {WF_OP_REDUCE_LOG_SUM_EXP, canon_reduce},
    {WF_OP_REDUCE_MAX, canon_reduce},
    {WF_OP_REDUCE_MEAN, canon_reduce},
    {WF_OP_REDUCE_MIN, canon_reduce},
    {WF_OP_REDUCE_PROD, canon_reduce},
    {WF_OP_REDUCE_SUM, canon_reduce},
    {WF_OP_REDUCE_SUM_SQUARE, canon_reduce},
    {WF_OP_MEAN_VARIANCE_NORMALIZATION, canon_axes},
    {WF_OP_SQUEEZE, canon_squeeze},
    {WF_OP_UNSQUEEZE, canon_unsqueeze},
    {WF_OP_RESHAPE, canon_reshape},
    {WF_OP_EXPAND, canon_expand},
    {WF_OP_TRANSPOSE, canon_transpose},
    {WF_OP_SPLIT, canon_split},
    {WF_OP_SLICE, canon_slice},
    {WF_OP_PAD, canon_pad},
    {WF_OP_RESIZE, canon_resize},
    {WF_OP_GEMM, canon_gemm},
    {WF_OP_EINSUM, canon_einsum},
    {WF_OP_CAST, canon_cast},
    {WF_OP_CAST_LIKE, canon_cast},
    {WF_OP_QUANTIZE_LINEAR, canon_quantize},
    {WF_OP_DEQUANTIZE_LINEAR, canon_quantize},
    {WF_OP_LSTM, canon_recurrent},
    {WF_OP_GRU, canon_recurrent},
    {WF_OP_RNN, canon_recurrent},
    {WF_OP_BATCH_NORMALIZATION, canon_batch_normalization},
    {WF_OP_EYE_LIKE, canon_eye_like},
    {WF_OP_TRILU, canon_trilu},
    {WF_OP_W_ATTENTION, canon_attention},
};

wf_status_t wf_op_canonical_attrs(const wf_shape_call_t *call, wf_arena_t *arena, wf_attrs_t *out_attrs)
{
    canon_t self = {.call = call, .arena = arena, .count = call->attrs->count};
    WF_TRY(wf_arena_alloc(arena, WF_OP_MAX_ATTRS, sizeof *self.items, &self.items));
    assert(self.count <= WF_OP_MAX_ATTRS);
    if (self.count > 0) {
        memcpy(self.items, call->attrs->items, self.count * sizeof *self.items);
    }
    canon_axis(&self);
    for (size_t i = 0; i < WF_COUNT_OF(canon_rules); i++) {
        if (canon_rules[i].op == call->op) {
            WF_TRY(canon_rules[i].apply(&self));
        }
    }
    *out_attrs = view(&self);
    return WF_OK;
}
