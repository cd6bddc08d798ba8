/* SPDX-License-Identifier: Apache-2.0 */
#include "support/op_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/op.h"
#include "support/cmocka_all.h"

#define MAX_INPUTS 40
#define MAX_OUTPUTS 40
#define MAX_VALUES 64

typedef struct inputs {
    size_t count;
    wf_type_t types[MAX_INPUTS];
    wf_tensor_t tensors[MAX_INPUTS];
    const wf_tensor_t *values[MAX_INPUTS];
    union {
        int64_t i64[MAX_VALUES];
        int32_t i32[MAX_VALUES];
        float f32[MAX_VALUES];
        double f64[MAX_VALUES];
    } data[MAX_INPUTS];
} inputs_t;

/* "f32[1,2]" at *text; moves behind it. */
static wf_type_t read_type(const char **text)
{
    char name[16];
    size_t length = strcspn(*text, "[");
    assert_true(length < sizeof name);
    memcpy(name, *text, length);
    name[length] = '\0';
    wf_type_t type = {.dtype = wf_dtype_from_name(name)};
    assert_int_not_equal(type.dtype, WF_DTYPE_NONE);
    *text += length + 1;
    while (**text != ']') {
        char *end;
        type.dims[type.rank++] = strtoll(*text, &end, 10);
        *text = *end == ',' ? end + 1 : end;
    }
    (*text)++;
    return type;
}

static void read_values(const char **text, inputs_t *inputs, size_t index)
{
    wf_tensor_t *tensor = &inputs->tensors[index];
    *tensor = (wf_tensor_t){.type = inputs->types[index], .data = &inputs->data[index]};
    inputs->values[index] = tensor;
    for (size_t i = 0; **text != '\0' && **text != ' '; i++) {
        char *end;
        assert_true(i < MAX_VALUES);
        if (tensor->type.dtype == WF_DTYPE_F32 || tensor->type.dtype == WF_DTYPE_F64) {
            double value = strtod(*text, &end);
            if (tensor->type.dtype == WF_DTYPE_F32) {
                inputs->data[index].f32[i] = (float)value;
            } else {
                inputs->data[index].f64[i] = value;
            }
        } else if (tensor->type.dtype == WF_DTYPE_I32) {
            inputs->data[index].i32[i] = (int32_t)strtol(*text, &end, 10);
        } else {
            assert_int_equal(tensor->type.dtype, WF_DTYPE_I64);
            inputs->data[index].i64[i] = strtoll(*text, &end, 10);
        }
        *text = *end == ',' ? end + 1 : end;
    }
}

static void read_inputs(const char *text, inputs_t *out_inputs)
{
    memset(out_inputs, 0, sizeof *out_inputs);
    while (*text != '\0') {
        size_t index = out_inputs->count++;
        assert_true(index < MAX_INPUTS);
        if (*text == '_') {
            text++;
        } else {
            out_inputs->types[index] = read_type(&text);
            if (*text == '=') {
                text++;
                read_values(&text, out_inputs, index);
            }
        }
        text += *text == ' ' ? 1 : 0;
    }
}

static void read_list(wf_attr_t *attr, const char *text, size_t length, wf_arena_t *arena)
{
    int64_t *ints;
    float *floats;
    const char **strings;
    assert_null(wf_arena_alloc(arena, MAX_VALUES, sizeof *ints, &ints));
    assert_null(wf_arena_alloc(arena, MAX_VALUES, sizeof *floats, &floats));
    assert_null(wf_arena_alloc(arena, MAX_VALUES, sizeof *strings, &strings));
    const char *end = text + length;
    while (text < end) {
        size_t word = strcspn(text, ", ");
        ints[attr->count] = strtoll(text, NULL, 10);
        floats[attr->count] = strtof(text, NULL);
        assert_null(wf_arena_text(arena, text, word, &strings[attr->count]));
        attr->count++;
        text += word + 1;
    }
    switch (attr->kind) {
    case WF_ATTR_INTS:
        attr->v.ints = ints;
        break;
    case WF_ATTR_FLOATS:
        attr->v.floats = floats;
        break;
    default:
        attr->v.strings = strings;
    }
}

static wf_attr_kind_t kind_of(wf_op_t op, const char *name)
{
    wf_attr_specs_t specs;
    wf_op_attr_specs(op, &specs);
    for (size_t i = 0; i < specs.count; i++) {
        if (strcmp(specs.items[i].name, name) == 0) {
            return specs.items[i].kind;
        }
    }
    return WF_ATTR_INT;
}

/* "t=f32[1]" is a tensor of that type, all zero. */
static void read_tensor(wf_attr_t *attr, const char *text, wf_arena_t *arena)
{
    wf_tensor_t *tensor;
    assert_null(wf_arena_alloc(arena, 1, sizeof *tensor, &tensor));
    tensor->type = read_type(&text);
    assert_null(wf_arena_alloc(arena, MAX_VALUES, 8, &tensor->data));
    attr->v.tensor = tensor;
}

static size_t read_attrs(wf_op_t op, const char *text, wf_arena_t *arena, wf_attr_t *out_attrs)
{
    size_t count = 0;
    while (*text != '\0') {
        wf_attr_t *attr = &out_attrs[count++];
        size_t name = strcspn(text, "=");
        memset(attr, 0, sizeof *attr);
        assert_null(wf_arena_text(arena, text, name, &attr->name));
        attr->kind = kind_of(op, attr->name);
        text += name + 1;
        size_t length = strcspn(text, " ");
        switch (attr->kind) {
        case WF_ATTR_INT:
            attr->v.i = strtoll(text, NULL, 10);
            break;
        case WF_ATTR_FLOAT:
            attr->v.f = strtof(text, NULL);
            break;
        case WF_ATTR_STRING:
            attr->count = length;
            assert_null(wf_arena_text(arena, text, length, &attr->v.s));
            break;
        case WF_ATTR_TENSOR:
            read_tensor(attr, text, arena);
            break;
        default:
            read_list(attr, text, length, arena);
        }
        text += length + (text[length] == ' ' ? 1 : 0);
    }
    return count;
}

static void print_types(const wf_type_t *types, size_t count, char *out, size_t out_bytes)
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        length += (size_t)snprintf(out + length, out_bytes - length, "%s%s[", i > 0 ? " " : "",
                                   wf_dtype_name(types[i].dtype));
        for (uint32_t d = 0; d < types[i].rank; d++) {
            length += (size_t)snprintf(out + length, out_bytes - length, d > 0 ? ",%lld" : "%lld",
                                       (long long)types[i].dims[d]);
        }
        length += (size_t)snprintf(out + length, out_bytes - length, "]");
        assert_true(length < out_bytes);
    }
}

static char mark_of(wf_code_t code)
{
    return code == WF_CODE_MODEL_INVALID       ? '!'
           : code == WF_CODE_MODEL_UNSUPPORTED ? '?'
           : code == WF_CODE_MODEL_LIMIT       ? '#'
                                               : 'E';
}

static wf_op_t op_of(const char *name)
{
    wf_op_t op = 0;
    bool internal = strncmp(name, "w:", 2) == 0;
    const char *plain = internal ? name + 2 : name;
    bool found = internal ? wf_op_from_internal_name(plain, strlen(plain), &op)
                          : wf_op_from_onnx_name(plain, strlen(plain), &op);
    assert_true(found);
    return op;
}

void wf_op_case_infer(const wf_op_case_t *item, size_t output_count, char *out, size_t out_bytes)
{
    static inputs_t inputs;
    wf_arena_t arena;
    wf_attr_t given[WF_OP_MAX_ATTRS + 4];
    wf_type_t outputs[MAX_OUTPUTS];
    wf_attrs_t attrs;
    wf_op_t op = op_of(item->op);
    assert_true(output_count <= MAX_OUTPUTS);
    wf_arena_init(&arena, wf_allocator_system());
    read_inputs(item->inputs, &inputs);
    size_t given_count = read_attrs(op, item->attrs, &arena, given);
    wf_shape_call_t call = {.op = op,
                            .attrs = &attrs,
                            .input_count = inputs.count,
                            .inputs = inputs.types,
                            .values = inputs.values,
                            .output_count = output_count,
                            .outputs = outputs};
    wf_status_t status = wf_op_complete_attrs(op, given, given_count, &arena, &attrs);
    status = status == WF_OK ? wf_op_infer(&call) : status;
    if (status != WF_OK) {
        snprintf(out, out_bytes, "%c%s", mark_of(wf_status_code(status)), wf_status_message(status));
    } else if (call.needs_value_of >= 0) {
        snprintf(out, out_bytes, "needs %d", call.needs_value_of);
    } else {
        print_types(outputs, output_count, out, out_bytes);
    }
    wf_status_free(status);
    wf_arena_deinit(&arena);
}

static bool matches(const char *want, const char *got)
{
    if (strchr("!?#", want[0]) != NULL && want[0] != '\0') {
        return got[0] == want[0] && strstr(got + 1, want + 1) != NULL;
    }
    return strcmp(want, got) == 0;
}

void wf_op_cases_run(const wf_op_case_t *cases, size_t count)
{
    size_t failures = 0;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        char got[1024];
        size_t outputs = 1;
        bool types = strchr("!?#", cases[i].want[0]) == NULL && strncmp(cases[i].want, "needs", 5) != 0;
        for (const char *at = cases[i].want; types && *at != '\0'; at++) {
            outputs += *at == ' ' ? 1 : 0;
        }
        wf_op_case_infer(&cases[i], outputs, got, sizeof got);
        if (!matches(cases[i].want, got)) {
            print_error("%s(%s){%s}: want %s, got %s\n", cases[i].op, cases[i].inputs, cases[i].attrs,
                        cases[i].want, got);
            failures++;
        }
    }
    assert_int_equal(failures, 0);
}
