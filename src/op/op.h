/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: the table of ops.def as data, attributes against it, and shape inference. */
#ifndef WF_OP_OP_H
#define WF_OP_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "wayfinder/backend.h"

/* WF_OP_CONV and so on, in the order of ops.def. */
enum {
#define OP(name, ...) WF_OP_##name,
#include "op/ops.def"
#undef OP
#undef OP_POOL_ATTRS
#undef OP_REDUCE_ATTRS
    WF_OP_COUNT
};

typedef enum wf_op_domain { WF_OP_DOMAIN_ONNX, WF_OP_DOMAIN_W } wf_op_domain_t;

enum {
    WF_OP_FLAG_NONE = 0,
    WF_OP_FLAG_EW = 1,
    WF_OP_FLAG_COMM = 2,
    WF_OP_FLAG_VIEW = 4,
    WF_OP_FLAG_VALUE = 8,
    WF_OP_FLAG_NONDET = 16
};

/* What shape inference knows of one node. */
typedef struct wf_shape_call {
    wf_op_t op;
    const wf_attrs_t *attrs;
    size_t input_count;
    const wf_type_t *inputs;          /* dtype NONE: absent */
    const wf_tensor_t *const *values; /* per input: its constant value, or NULL when not known */
    size_t output_count;
    wf_type_t *outputs; /* filled; unwanted optional outputs are filled all the same */
    /* Set (and WF_OK returned) when the shape depends on the value of this input, which is not known; else
     * -1. */
    int32_t needs_value_of;
} wf_shape_call_t;

/* Infers types of all outputs. MODEL_INVALID with what is wrong (without the node's name: the caller adds
 * it), MODEL_UNSUPPORTED for element types that are not handled. */
typedef wf_status_t wf_shape_fn(wf_shape_call_t *call);

/* One attribute of the table, parsed from the row's text. */
typedef struct wf_attr_spec {
    const char *name;
    wf_attr_kind_t kind;
    bool required;
    bool has_default;
    const char *default_text; /* "0,2,3" for lists */
    const char *choices;      /* "a|b|c": the only values allowed (kinds i and s); NULL: any */
    int32_t from_input;       /* -1, or the input that may hold it */
} wf_attr_spec_t;

typedef struct wf_op_info {
    const char *onnx_name;
    const char *problem_name;
    wf_op_domain_t domain;
    int32_t input_min, input_max; /* max -1: any */
    int32_t output_min, output_max;
    uint32_t flags;
    const char *types;
    wf_shape_fn *shape;
    const char *attrs_text;
} wf_op_info_t;

/* op < WF_OP_COUNT. Static. */
const wf_op_info_t *wf_op_info(wf_op_t op);
/* By ONNX name in the default domain; false when there is none. */
bool wf_op_from_onnx_name(const char *name, size_t name_bytes, wf_op_t *out_op);
/* By ONNX name in our domain. */
bool wf_op_from_internal_name(const char *name, size_t name_bytes, wf_op_t *out_op);

#define WF_OP_MAX_ATTRS 16
/* The row's attributes, sorted by name. Strings point into `buffer`: not to be copied as a struct. */
typedef struct wf_attr_specs {
    size_t count;
    wf_attr_spec_t items[WF_OP_MAX_ATTRS];
    char buffer[1024];
} wf_attr_specs_t;
void wf_op_attr_specs(wf_op_t op, wf_attr_specs_t *out_specs);

/* Makes the complete, sorted list: checks names and kinds against the table (MODEL_INVALID for an unknown,
 * missing or wrongly typed one), writes defaults out. Copies into the arena. */
wf_status_t wf_op_complete_attrs(wf_op_t op, const wf_attr_t *given, size_t given_count, wf_arena_t *arena,
                                 wf_attrs_t *out_attrs) WF_MUST_USE;

/* Runs the row's shape function after checking counts and the first input's element type. */
wf_status_t wf_op_infer(wf_shape_call_t *call) WF_MUST_USE;

/* A parameter that is an attribute or a constant input: ints of attribute `name`, else of the known value of
 * input `from_input`. *out_count is -1 when the parameter is not given at all; call->needs_value_of is set
 * and *out_count is -2 when the input is given but its value is not known. At most WF_MAX_RANK * 2 values
 * (MODEL_INVALID beyond). */
wf_status_t wf_shape_param_ints(wf_shape_call_t *call, const char *name, int32_t from_input,
                                int64_t out_values[2 * WF_MAX_RANK], int32_t *out_count) WF_MUST_USE;

/* ONNX multidirectional broadcasting; MODEL_INVALID when the dims do not fit. */
wf_status_t wf_shape_broadcast(const wf_type_t *const *types, size_t count, wf_type_t *out_type) WF_MUST_USE;

/* Geometry of windows (convolution and pooling), resolved from attributes and shapes: auto_pad, defaults,
 * ceil_mode. Used by shape functions, the reference and every backend, so that there is one reading of the
 * specification. `in` and `out` are the spatial dims of input and output of the operator. */
typedef struct wf_window {
    uint32_t spatial_rank;
    int64_t in[WF_MAX_RANK], out[WF_MAX_RANK], kernel[WF_MAX_RANK], stride[WF_MAX_RANK],
        dilation[WF_MAX_RANK];
    int64_t pad_begin[WF_MAX_RANK], pad_end[WF_MAX_RANK];
} wf_window_t;
/* For Conv, ConvInteger, QLinearConv and pools. `kernel_from` is the weight's type for convolutions, NULL for
 * pools. Window o of an axis covers in[o * stride - pad_begin + k * dilation], k in [0, kernel). With
 * ceil_mode the last window may reach beyond pad_end; such places are no padding (AveragePool never counts
 * them). */
wf_status_t wf_window_resolve(wf_op_t op, const wf_attrs_t *attrs, const wf_type_t *input,
                              const wf_type_t *kernel_from, wf_window_t *out_window) WF_MUST_USE;
/* Sizes, strides, dilations and pads of every axis lie in [0, limit]. */
bool wf_window_within(const wf_window_t *window, int64_t limit);
/* For ConvTranspose: pads resolved from output_shape, output_padding and auto_pad as the specification says.
 * in[i] adds to out[i * stride - pad_begin + k * dilation]; out = (in - 1) * stride + (kernel - 1) * dilation
 * + 1
 * - pad_begin - pad_end, so that pad_end is negative where output_padding or output_shape ask for more than
 * the kernel reaches. */
wf_status_t wf_window_resolve_transpose(const wf_attrs_t *attrs, const wf_type_t *input,
                                        const wf_type_t *weight, wf_window_t *out_window) WF_MUST_USE;

#endif
