/* SPDX-License-Identifier: Apache-2.0 */
#include "op/op.h"

#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

/* The words of the column "flags" in ops.def. */
enum {
    NONE = WF_OP_FLAG_NONE,
    EW = WF_OP_FLAG_EW,
    COMM = WF_OP_FLAG_COMM,
    VIEW = WF_OP_FLAG_VIEW,
    VALUE = WF_OP_FLAG_VALUE,
    NONDET = WF_OP_FLAG_NONDET
};

static const wf_op_info_t wf_op_infos[WF_OP_COUNT] = {
#define OP(enum_name, onnx, text, domain_name, in_min, in_max, out_min, out_max, flag_words, type_letters, \
           shape_name, attrs)                                                                              \
    [WF_OP_##enum_name] = {.onnx_name = (onnx),                                                            \
                           .problem_name = (text),                                                         \
                           .domain = WF_OP_DOMAIN_##domain_name,                                           \
                           .input_min = (in_min),                                                          \
                           .input_max = (in_max),                                                          \
                           .output_min = (out_min),                                                        \
                           .output_max = (out_max),                                                        \
                           .flags = (flag_words),                                                          \
                           .types = (type_letters),                                                        \
                           .shape = wf_shape_##shape_name,                                                 \
                           .attrs_text = attrs},
#include "op/ops.def"
#undef OP
#undef OP_POOL_ATTRS
#undef OP_REDUCE_ATTRS
};

const wf_op_info_t *wf_op_info(wf_op_t op)
{
    return &wf_op_infos[op];
}

const char *wf_op_problem_name(wf_op_t op)
{
    return op < WF_OP_COUNT ? wf_op_infos[op].problem_name : NULL;
}

/* About 150 names: a model is read once, so a scan is enough. */
static bool find_by_onnx_name(wf_op_domain_t domain, const char *name, size_t name_bytes, wf_op_t *out_op)
{
    for (unsigned i = 0; i < WF_OP_COUNT; i++) {
        const wf_op_info_t *info = &wf_op_infos[i];
        if (info->domain == domain && strlen(info->onnx_name) == name_bytes &&
            memcmp(info->onnx_name, name, name_bytes) == 0) {
            *out_op = (wf_op_t)i;
            return true;
        }
    }
    return false;
}

bool wf_op_from_onnx_name(const char *name, size_t name_bytes, wf_op_t *out_op)
{
    return find_by_onnx_name(WF_OP_DOMAIN_ONNX, name, name_bytes, out_op);
}

bool wf_op_from_internal_name(const char *name, size_t name_bytes, wf_op_t *out_op)
{
    return find_by_onnx_name(WF_OP_DOMAIN_W, name, name_bytes, out_op);
}

bool wf_op_from_problem_name(const char *name, wf_op_t *out_op)
{
    for (unsigned i = 0; i < WF_OP_COUNT; i++) {
        if (strcmp(wf_op_infos[i].problem_name, name) == 0) {
            *out_op = (wf_op_t)i;
            return true;
        }
    }
    return false;
}

/* ---- Inference ---- */

/* The letter of ops.def for an element type. */
static char dtype_letter(wf_dtype_t dtype)
{
    switch (dtype) {
    case WF_DTYPE_BOOL:
        return 'B';
    case WF_DTYPE_STR:
        return 'T';
    case WF_DTYPE_C64:
    case WF_DTYPE_C128:
        return 'C';
    case WF_DTYPE_I2:
    case WF_DTYPE_I4:
    case WF_DTYPE_I8:
    case WF_DTYPE_I16:
    case WF_DTYPE_I32:
    case WF_DTYPE_I64:
        return 'S';
    case WF_DTYPE_U2:
    case WF_DTYPE_U4:
    case WF_DTYPE_U8:
    case WF_DTYPE_U16:
    case WF_DTYPE_U32:
    case WF_DTYPE_U64:
        return 'U';
    default:
        return wf_dtype_is_float(dtype) ? 'F' : 'L';
    }
}

/* True when input `index` has become an attribute. */
static bool is_attribute(const wf_attr_specs_t *specs, const wf_attrs_t *attrs, size_t index)
{
    for (size_t i = 0; i < specs->count; i++) {
        if (specs->items[i].from_input == (int32_t)index &&
            wf_attrs_find(attrs, specs->items[i].name) != NULL) {
            return true;
        }
    }
    return false;
}

static wf_status_t check_inputs(const wf_shape_call_t *call, const wf_op_info_t *info)
{
    wf_attr_specs_t specs;
    wf_op_attr_specs(call->op, &specs);
    if (info->input_max >= 0 && call->input_count > (size_t)info->input_max) {
        return WF_ERROR(MODEL_INVALID, "%zu inputs are given, at most %d are allowed", call->input_count,
                        info->input_max);
    }
    for (size_t i = 0; i < WF_MAX(call->input_count, (size_t)info->input_min); i++) {
        const wf_type_t *input = wf_shape_input(call, i);
        bool moved = is_attribute(&specs, call->attrs, i);
        if (input != NULL && moved) {
            return WF_ERROR(MODEL_INVALID, "input %zu is given although an attribute holds its value", i);
        }
        if (input == NULL && !moved && (i < (size_t)info->input_min || info->input_max < 0)) {
            return WF_ERROR(MODEL_INVALID, "input %zu is missing", i);
        }
        if (input == NULL) {
            continue;
        }
        if (input->rank > WF_MAX_RANK) {
            return wf_shape_rank_error(input->rank);
        }
        for (uint32_t d = 0; d < input->rank; d++) {
            if (input->dims[d] < 0) {
                return WF_ERROR(MODEL_INVALID, "input %zu has the negative dimension %lld", i,
                                (long long)input->dims[d]);
            }
        }
        if (i == 0 && strchr(info->types, '*') == NULL &&
            strchr(info->types, dtype_letter(input->dtype)) == NULL) {
            return WF_ERROR(MODEL_UNSUPPORTED, "element type %s is not supported",
                            wf_dtype_name(input->dtype));
        }
    }
    return WF_OK;
}

static wf_status_t check_outputs(const wf_shape_call_t *call)
{
    for (size_t i = 0; i < call->output_count; i++) {
        if (wf_type_bytes(&call->outputs[i]) < 0) {
            char text[WF_TYPE_TEXT_MAX];
            return WF_ERROR(MODEL_LIMIT, "output %zu would be %s, which is too large", i,
                            wf_type_text(&call->outputs[i], text));
        }
    }
    return WF_OK;
}

static wf_status_t infer(wf_shape_call_t *call, const wf_op_info_t *info)
{
    WF_TRY(check_inputs(call, info));
    if (info->output_max >= 0 && call->output_count > (size_t)info->output_max) {
        return WF_ERROR(MODEL_INVALID, "%zu outputs are asked for, there are %d", call->output_count,
                        info->output_max);
    }
    WF_TRY(info->shape(call));
    return check_outputs(call);
}

wf_status_t wf_op_infer(wf_shape_call_t *call)
{
    call->needs_value_of = -1;
    for (size_t i = 0; i < call->output_count; i++) {
        call->outputs[i] = (wf_type_t){.dtype = WF_DTYPE_NONE};
    }
    const wf_op_info_t *info = wf_op_info(call->op);
    return wf_status_annotated(infer(call, info), "%s", info->onnx_name);
}
