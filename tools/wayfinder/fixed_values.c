/* SPDX-License-Identifier: Apache-2.0 */
/* --value: inputs that have one value for ever. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* The input that is called like the first `bytes` bytes of name. */
static bool find_input(const wf_model_t *model, const char *name, size_t bytes, wf_model_port_t *out_port)
{
    for (size_t i = 0; i < wf_model_summary(model).input_count; i++) {
        *out_port = wf_model_input(model, i);
        if (strlen(out_port->name) == bytes && memcmp(out_port->name, name, bytes) == 0)
            return true;
    }
    return false;
}

/* Its dims: those of --shape, else those of the model. */
static bool find_type(const cli_build_t *build, const wf_model_port_t *port, wf_type_t *out_type)
{
    *out_type = (wf_type_t){.dtype = port->dtype, .rank = port->rank};
    for (size_t i = 0; build->specs != NULL && i < build->counts[0]; i++) {
        const wf_shape_t *shape = &build->specs[0][i];
        if (strcmp(shape->input, port->name) == 0) {
            out_type->rank = (uint32_t)shape->rank;
            memcpy(out_type->dims, shape->dims, shape->rank * sizeof *shape->dims);
            return true;
        }
    }
    for (uint32_t i = 0; i < port->rank; i++) {
        out_type->dims[i] = port->dims[i].size;
        if (port->dims[i].size < 0)
            return false;
    }
    return port->rank_known;
}

/* One number at *text into element `index`; advances *text behind it and its comma. */
static bool parse_element(const char **text, wf_tensor_t *value, size_t index)
{
    char *end = NULL;
    errno = 0;
    double number = strtod(*text, &end);
    long long integer = strtoll(*text, NULL, 10);
    if (end == *text || errno != 0 || (*end != ',' && *end != '\0'))
        return false;
    bool whole = number == (double)integer;
    switch (value->type.dtype) {
    case WF_DTYPE_F32:
        ((float *)value->data)[index] = (float)number;
        break;
    case WF_DTYPE_F64:
        ((double *)value->data)[index] = number;
        break;
    case WF_DTYPE_I64:
        ((int64_t *)value->data)[index] = integer;
        break;
    case WF_DTYPE_I32:
        whole = whole && integer >= INT32_MIN && integer <= INT32_MAX;
        ((int32_t *)value->data)[index] = (int32_t)integer;
        break;
    case WF_DTYPE_BOOL:
        whole = whole && (integer == 0 || integer == 1);
        ((uint8_t *)value->data)[index] = integer != 0;
        break;
    default:
        return false;
    }
    *text = *end == ',' ? end + 1 : end;
    return whole || value->type.dtype == WF_DTYPE_F32 || value->type.dtype == WF_DTYPE_F64;
}

/* All elements of the text behind '='. */
static int parse_elements(const cli_options_t *options, const char *word, const char *text,
                          wf_tensor_t *value)
{
    static const char hint[] = "write --value NAME=16000, with commas between several elements";
    size_t elems = 1;
    for (uint32_t i = 0; i < value->type.rank; i++)
        elems *= (size_t)value->type.dims[i];
    for (size_t i = 0; i < elems; i++) {
        if (!parse_element(&text, value, i)) {
            return cli_fail_with(options, WF_CODE_USAGE, hint,
                                 "--value '%s': element %zu of %zu is missing or no %s number", word, i,
                                 elems, wf_dtype_name(value->type.dtype));
        }
    }
    if (*text == '\0')
        return 0;
    return cli_fail_with(options, WF_CODE_USAGE, hint, "--value '%s' has more than %zu elements", word,
                         elems);
}

/* The value goes to the end of build->values. */
static int parse_word(const cli_options_t *options, const wf_model_t *model, cli_build_t *build,
                      const char *word, wf_model_port_t *out_port)
{
    const char *equals = strrchr(word, '=');
    wf_type_t type;
    if (equals == NULL)
        return cli_fail_with(options, WF_CODE_USAGE, "write --value NAME=NUMBER", "--value '%s' has no value",
                             word);
    if (!find_input(model, word, (size_t)(equals - word), out_port)) {
        return cli_fail_with(options, WF_CODE_USAGE, "`wayfinder inspect MODEL` lists them",
                             "--value '%s': the model has no such input", word);
    }
    if (!find_type(build, out_port, &type)) {
        return cli_fail_with(options, WF_CODE_USAGE, "give its dims with --shape too",
                             "--value '%s': the input's dims are not known", word);
    }
    wf_tensor_t *value = &build->values[build->value_count];
    wf_status_t status = wf_tensor_make(&type, wf_allocator_system(), value);
    if (wf_status_code(status) != WF_CODE_OK)
        return cli_fail(options, status);
    build->value_count++;
    return parse_elements(options, word, equals + 1, value);
}

/* The input's shape in one specialisation, added when it is not there. NULL: out of memory. */
static wf_shape_t *shape_of(cli_build_t *build, size_t spec, const char *input)
{
    size_t count = build->counts[spec];
    for (size_t i = 0; i < count; i++) {
        if (strcmp(build->specs[spec][i].input, input) == 0)
            return &build->specs[spec][i];
    }
    wf_shape_t *grown = realloc(build->specs[spec], (count + 1) * sizeof *grown);
    if (grown == NULL)
        return NULL;
    build->specs[spec] = grown;
    build->counts[spec] = count + 1;
    grown[count] = (wf_shape_t){.input = input};
    return &grown[count];
}

static bool put_value(cli_build_t *build, const char *input, const wf_tensor_t *value)
{
    int64_t *dims = NULL; /* shared by all specialisations; freed with the first one's */
    for (size_t s = 0; s < build->options.spec_count; s++) {
        wf_shape_t *shape = shape_of(build, s, input);
        if (shape == NULL)
            return false;
        if (shape->dims == NULL) {
            dims = dims != NULL ? dims : calloc(WF_MAX_RANK, sizeof *dims);
            if (dims == NULL)
                return false;
            memcpy(dims, value->type.dims, value->type.rank * sizeof *dims);
            shape->dims = dims;
            shape->rank = value->type.rank;
        }
        shape->value = value;
    }
    return true;
}

/* There must be a specialisation to put values into. */
static bool make_first_spec(cli_build_t *build)
{
    if (build->options.spec_count > 0)
        return true;
    build->specs = calloc(1, sizeof *build->specs);
    build->counts = calloc(1, sizeof *build->counts);
    if (build->specs == NULL || build->counts == NULL)
        return false;
    build->options.spec_count = 1;
    build->options.shapes = (const wf_shape_t *const *)build->specs;
    build->options.shape_counts = build->counts;
    return true;
}

int cli_build_fix_values(const cli_options_t *options, const wf_model_t *model, cli_build_t *build)
{
    if (options->values.count == 0)
        return 0;
    build->values = calloc(options->values.count, sizeof *build->values);
    if (build->values == NULL || !make_first_spec(build))
        return cli_fail_with(options, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    for (size_t i = 0; i < options->values.count; i++) {
        wf_model_port_t port = {0};
        int code = parse_word(options, model, build, options->values.items[i], &port);
        if (code != 0)
            return code;
        if (!put_value(build, port.name, &build->values[i]))
            return cli_fail_with(options, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    }
    return 0;
}
