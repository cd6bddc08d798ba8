/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of convolution and pooling. */
#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

typedef enum auto_pad {
    AUTO_PAD_NOTSET,
    AUTO_PAD_SAME_UPPER,
    AUTO_PAD_SAME_LOWER,
    AUTO_PAD_VALID
} auto_pad_t;

static auto_pad_t read_auto_pad(const wf_attrs_t *attrs)
{
    static const char *const words[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    const char *word = wf_attrs_string(attrs, "auto_pad", "NOTSET");
    for (size_t i = 0; i < WF_COUNT_OF(words); i++) {
        if (strcmp(word, words[i]) == 0) {
            return (auto_pad_t)i;
        }
    }
    return AUTO_PAD_NOTSET;
}

/* Reads `count` values of an attribute that are in [min, max]; the fallback when it is absent. */
static wf_status_t read_ints(const wf_attrs_t *attrs, const char *name, size_t count, int64_t min,
                             int64_t fallback, int64_t *out)
{
    size_t given;
    const int64_t *values = wf_attrs_ints(attrs, name, &given);
    if (values != NULL && given != count) {
        return WF_ERROR(MODEL_INVALID, "attribute %s has %zu values, expected %zu", name, given, count);
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = values != NULL ? values[i] : fallback;
        if (out[i] < min || out[i] > INT64_MAX / 4) {
            return WF_ERROR(MODEL_INVALID, "attribute %s holds %lld", name, (long long)out[i]);
        }
    }
    return WF_OK;
}

/* Everything but pads and output. */
static wf_status_t read_geometry(const wf_attrs_t *attrs, const wf_type_t *input, const wf_type_t *weight,
                                 wf_window_t *window)
{
    *window = (wf_window_t){0};
    if (input->rank < 3) {
        char text[WF_TYPE_TEXT_MAX];
        return WF_ERROR(MODEL_INVALID, "the input is %s, expected a rank of at least 3",
                        wf_type_text(input, text));
    }
    uint32_t rank = input->rank - 2;
    window->spatial_rank = rank;
    memcpy(window->in, input->dims + 2, rank * sizeof *window->in);
    WF_TRY(read_ints(attrs, "strides", rank, 1, 1, window->stride));
    WF_TRY(read_ints(attrs, "dilations", rank, 1, 1, window->dilation));
    if (weight != NULL && weight->rank != input->rank) {
        return WF_ERROR(MODEL_INVALID, "the weight has rank %u, the input rank %u", weight->rank,
                        input->rank);
    }
    size_t given;
    bool has_kernel = wf_attrs_ints(attrs, "kernel_shape", &given) != NULL && given > 0;
    if (has_kernel || weight == NULL) {
        WF_TRY(read_ints(attrs, "kernel_shape", rank, 1, 0, window->kernel));
    }
    for (uint32_t i = 0; weight != NULL && i < rank; i++) {
        int64_t dim = weight->dims[2 + i];
        if (has_kernel && window->kernel[i] != dim) {
            return WF_ERROR(MODEL_INVALID, "attribute kernel_shape says %lld, the weight has %lld",
                            (long long)window->kernel[i], (long long)dim);
        }
        if (dim < 1) {
            return WF_ERROR(MODEL_INVALID, "the weight has an empty kernel");
        }
        window->kernel[i] = dim;
    }
    return WF_OK;
}

/* (kernel - 1) * dilation + 1 */
static wf_status_t kernel_extent(const wf_window_t *window, uint32_t i, int64_t *out_extent)
{
    if (!wf_i64_mul(window->kernel[i] - 1, window->dilation[i], out_extent) ||
        !wf_i64_add(*out_extent, 1, out_extent)) {
        return wf_shape_overflow();
    }
    return WF_OK;
}

/* The odd one of an uneven split goes to the end for SAME_UPPER, to the beginning otherwise. */
static void split_pads(wf_window_t *window, uint32_t i, int64_t total, bool odd_at_end)
{
    int64_t small = total / 2;
    window->pad_begin[i] = odd_at_end ? small : total - small;
    window->pad_end[i] = total - window->pad_begin[i];
}

static wf_status_t resolve_same(wf_window_t *window, uint32_t i, int64_t extent, bool odd_at_end)
{
    int64_t in = window->in[i];
    int64_t out = in == 0 ? 0 : (in - 1) / window->stride[i] + 1;
    int64_t reach;
    if (!wf_i64_mul(WF_MAX(out - 1, 0), window->stride[i], &reach) || !wf_i64_add(reach, extent, &reach)) {
        return wf_shape_overflow();
    }
    window->out[i] = out;
    split_pads(window, i, out == 0 ? 0 : WF_MAX(reach - in, 0), odd_at_end);
    return WF_OK;
}

/* Windows that fit in the padded input; with ceil_mode also one more, unless it would start in the padding
 * behind. */
static wf_status_t resolve_explicit(wf_window_t *window, uint32_t i, int64_t extent, bool ceil_mode)
{
    int64_t from_begin;
    int64_t padded;
    if (!wf_i64_add(window->in[i], window->pad_begin[i], &from_begin) ||
        !wf_i64_add(from_begin, window->pad_end[i], &padded)) {
        return wf_shape_overflow();
    }
    if (padded < extent) {
        if (window->in[i] == 0) {
            window->out[i] = 0;
            return WF_OK;
        }
        return WF_ERROR(MODEL_INVALID, "the kernel spans %lld in spatial axis %u, the padded input only %lld",
                        (long long)extent, i, (long long)padded);
    }
    int64_t stride = window->stride[i];
    int64_t steps = (padded - extent) / stride;
    if (ceil_mode) {
        steps += (padded - extent) % stride != 0 ? 1 : 0;
        int64_t start;
        if (!wf_i64_mul(steps, stride, &start) || start >= from_begin) {
            steps--;
        }
    }
    window->out[i] = steps + 1;
    return WF_OK;
}

wf_status_t wf_window_resolve(wf_op_t op, const wf_attrs_t *attrs, const wf_type_t *input,
                              const wf_type_t *kernel_from, wf_window_t *out_window)
{
    (void)op;
    WF_TRY(read_geometry(attrs, input, kernel_from, out_window));
    wf_window_t *window = out_window;
    uint32_t rank = window->spatial_rank;
    auto_pad_t mode = read_auto_pad(attrs);
    bool ceil_mode = wf_attrs_int(attrs, "ceil_mode", 0) != 0;
    int64_t pads[2 * WF_MAX_RANK] = {0};
    if (mode == AUTO_PAD_NOTSET) {
        WF_TRY(read_ints(attrs, "pads", 2 * (size_t)rank, 0, 0, pads));
    }
    for (uint32_t i = 0; i < rank; i++) {
        int64_t extent;
        WF_TRY(kernel_extent(window, i, &extent));
        if (mode == AUTO_PAD_SAME_UPPER || mode == AUTO_PAD_SAME_LOWER) {
            WF_TRY(resolve_same(window, i, extent, mode == AUTO_PAD_SAME_UPPER));
            continue;
        }
        window->pad_begin[i] = pads[i];
        window->pad_end[i] = pads[rank + i];
        /* The formulas for VALID give the same with and without ceil_mode: ceil((n - k + 1) / s). */
        WF_TRY(resolve_explicit(window, i, extent, ceil_mode && mode != AUTO_PAD_VALID));
    }
    return WF_OK;
}

bool wf_window_within(const wf_window_t *window, int64_t limit)
{
    for (uint32_t d = 0; d < window->spatial_rank; d++) {
        const int64_t sizes[] = {window->in[d],     window->out[d],      window->kernel[d],
                                 window->stride[d], window->dilation[d], window->pad_begin[d],
                                 window->pad_end[d]};
        for (size_t i = 0; i < WF_COUNT_OF(sizes); i++) {
            if (sizes[i] < 0 || sizes[i] > limit)
                return false;
        }
    }
    return true;
}

wf_status_t wf_window_resolve_transpose(const wf_attrs_t *attrs, const wf_type_t *input,
                                        const wf_type_t *weight, wf_window_t *out_window)
{
    WF_TRY(read_geometry(attrs, input, weight, out_window));
    wf_window_t *window = out_window;
    uint32_t rank = window->spatial_rank;
    auto_pad_t mode = read_auto_pad(attrs);
    bool same = mode == AUTO_PAD_SAME_UPPER || mode == AUTO_PAD_SAME_LOWER;
    int64_t output_padding[WF_MAX_RANK];
    int64_t output_shape[WF_MAX_RANK] = {0};
    int64_t pads[2 * WF_MAX_RANK] = {0};
    WF_TRY(read_ints(attrs, "output_padding", rank, 0, 0, output_padding));
    size_t given;
    bool has_shape = wf_attrs_ints(attrs, "output_shape", &given) != NULL && given > 0;
    if (has_shape) {
        WF_TRY(read_ints(attrs, "output_shape", rank, 0, 0, output_shape));
    }
    if (mode == AUTO_PAD_NOTSET && !has_shape) {
        WF_TRY(read_ints(attrs, "pads", 2 * (size_t)rank, 0, 0, pads));
    }
    for (uint32_t i = 0; i < rank; i++) {
        int64_t extent;
        int64_t full;
        WF_TRY(kernel_extent(window, i, &extent));
        if (!wf_i64_mul(window->in[i] - 1, window->stride[i], &full) || !wf_i64_add(full, extent, &full) ||
            full > INT64_MAX / 4) {
            return wf_shape_overflow();
        }
        if (has_shape || same) {
            if (!has_shape && !wf_i64_mul(window->in[i], window->stride[i], &output_shape[i])) {
                return wf_shape_overflow();
            }
            window->out[i] = output_shape[i];
            int64_t total = full + output_padding[i] - output_shape[i];
            split_pads(window, i, WF_MAX(total, 0), mode == AUTO_PAD_SAME_UPPER);
        } else {
            window->pad_begin[i] = pads[i];
            window->out[i] = full + output_padding[i] - pads[i] - pads[rank + i];
            if (window->in[i] == 0) {
                window->out[i] = WF_MAX(window->out[i], 0);
            }
            if (window->out[i] < 0) {
                return WF_ERROR(MODEL_INVALID, "pads of %lld and %lld leave nothing of spatial axis %u",
                                (long long)pads[i], (long long)pads[rank + i], i);
            }
        }
        window->pad_end[i] = full - window->out[i] - window->pad_begin[i];
    }
    return WF_OK;
}
