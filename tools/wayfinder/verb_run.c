/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

#define PATH_BYTES 4096

/* The file given for an input; the longest input name before '=' wins, so that names may hold '='. */
static const char *file_of(const cli_options_t *options, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = options->inputs.count; i-- > 0;) {
        const char *word = options->inputs.items[i];
        if (strncmp(word, name, length) == 0 && word[length] == '=')
            return word + length + 1;
    }
    return NULL;
}

static int check_input_words(const cli_options_t *options, const wf_engine_t *engine)
{
    for (size_t w = 0; w < options->inputs.count; w++) {
        const char *word = options->inputs.items[w], *names[256];
        size_t count = wf_engine_input_count(engine);
        bool known = false;
        for (size_t i = 0; i < count; i++) {
            const char *name = wf_engine_input(engine, 0, i).name;
            if (i < 256)
                names[i] = name;
            known |= strncmp(word, name, strlen(name)) == 0 && word[strlen(name)] == '=';
        }
        if (known)
            continue;
        char stem[200], hint[300] = "write --input NAME=FILE";
        (void)snprintf(stem, sizeof stem, "%.*s", (int)strcspn(word, "="), word);
        const char *near = cli_nearest(stem, names, count < 256 ? count : 256);
        if (near != NULL)
            (void)snprintf(hint, sizeof hint, "did you mean %s?", near);
        else if (count > 0)
            (void)snprintf(hint, sizeof hint, "the first input is called %s", names[0]);
        return cli_fail_with(options, WF_CODE_USAGE, hint, "--input %s: there is no input of that name",
                             word);
    }
    return 0;
}

/* The specialisation that the given .npy files fit: the first when none says. */
static size_t choose_spec(const cli_options_t *options, const wf_engine_t *engine)
{
    for (size_t s = 0; s < wf_engine_spec_count(engine); s++) {
        bool fits = true;
        for (size_t i = 0; fits && i < wf_engine_input_count(engine); i++) {
            wf_port_info_t port = wf_engine_input(engine, s, i);
            const char *file = file_of(options, port.name);
            wf_type_t type;
            if (file != NULL && cli_npy_type(file, &type))
                fits = wf_type_equal(&type, &port.type);
        }
        if (fits)
            return s;
    }
    return 0;
}

static int read_inputs(const cli_options_t *options, const wf_engine_t *engine, size_t spec,
                       wf_tensor_t *inputs)
{
    for (size_t i = 0; i < wf_engine_input_count(engine); i++) {
        wf_port_info_t port = wf_engine_input(engine, spec, i);
        const char *file = file_of(options, port.name);
        wf_tensor_t fixed;
        cli_error_t error = {0};
        if (file != NULL) {
            if (!cli_read_tensor(file, port.name, &port.type, &inputs[i], &error))
                return cli_fail_with(options, error.code, error.hint, "%s", error.message);
            continue;
        }
        bool has_value = wf_engine_fixed_input(engine, spec, i, &fixed);
        if (!has_value && !options->random) {
            char dims[300], hint[400];
            (void)snprintf(hint, sizeof hint,
                           "add --input %s=FILE with %s %s, or --random for made-up values", port.name,
                           wf_dtype_name(port.type.dtype), cli_shape_text(&port.type, dims, sizeof dims));
            return cli_fail_with(options, WF_CODE_INPUT_MISSING, hint, "input %s is not given", port.name);
        }
        wf_status_t status = wf_tensor_make(&port.type, wf_allocator_system(), &inputs[i]);
        if (wf_status_code(status) != WF_CODE_OK)
            return cli_fail(options, status);
        if (has_value)
            memcpy(inputs[i].data, fixed.data, (size_t)wf_type_bytes(&port.type));
        else
            wf_seeded_fill(port.name, options->seed.value, &inputs[i]);
    }
    return 0;
}

/* A file name for an output: safe characters, a number when another output has taken it. */
static void file_name(const char *name, size_t index, char (*taken)[256], char *out)
{
    char stem[200];
    size_t at = 0;
    for (; name[at] != '\0' && at + 1 < sizeof stem; at++) {
        unsigned char c = (unsigned char)name[at];
        stem[at] = isalnum(c) || c == '.' || c == '_' || c == '-' ? (char)c : '_';
    }
    stem[at] = '\0';
    for (int number = 1;; number++) {
        if (number == 1)
            (void)snprintf(out, 256, "%s.npy", stem);
        else
            (void)snprintf(out, 256, "%s.%d.npy", stem, number);
        bool free_name = strcmp(out, ".npy") != 0 && strcmp(out, "..npy") != 0;
        for (size_t i = 0; i < index; i++)
            free_name = free_name && strcmp(taken[i], out) != 0;
        if (free_name)
            return;
    }
}

static int write_outputs(const cli_options_t *options, const wf_engine_t *engine, size_t spec,
                         const wf_tensor_t *outputs)
{
    size_t count = wf_engine_output_count(engine);
    char(*names)[256] = calloc(count + 1, sizeof *names), path[PATH_BYTES];
    json_t *index = json_object();
    cli_error_t error = {0};
    bool ok = names != NULL;
    if (mkdir(options->output_dir, 0755) != 0 && errno != EEXIST) {
        ok = cli_error_set(&error, errno == ENOSPC ? WF_CODE_DISK_FULL : WF_CODE_FILE_UNWRITABLE,
                           "give a folder that can be written", "cannot make the folder %s: %s",
                           options->output_dir, strerror(errno));
    }
    for (size_t i = 0; ok && i < count; i++) {
        wf_port_info_t port = wf_engine_output(engine, spec, i);
        file_name(port.name, i, names, names[i]);
        if (snprintf(path, sizeof path, "%s/%s", options->output_dir, names[i]) >= (int)sizeof path) {
            ok = cli_error_set(&error, WF_CODE_USAGE, "give a shorter path", "path too long");
            break;
        }
        ok = cli_write_tensor(path, &outputs[i], &error);
        json_t *shape = json_array();
        for (uint32_t d = 0; d < port.type.rank; d++)
            (void)json_array_append_new(shape, json_integer(port.type.dims[d]));
        (void)json_object_set_new(index, port.name,
                                  json_pack("{s:s s:s s:o}", "file", names[i], "dtype",
                                            wf_dtype_name(port.type.dtype), "shape", shape));
    }
    char *text = ok ? json_dumps(index, JSON_INDENT(1)) : NULL;
    if (text != NULL &&
        snprintf(path, sizeof path, "%s/outputs.json", options->output_dir) < (int)sizeof path) {
        ok = cli_write_file(path, text, strlen(text), "\n", 1, &error);
    }
    free(text);
    free(names);
    json_decref(index);
    return ok ? 0 : cli_fail_with(options, error.code, error.hint, "%s", error.message);
}

static double number_at(const wf_tensor_t *tensor, int64_t i)
{
    switch (tensor->type.dtype) {
    case WF_DTYPE_F32:
        return (double)((const float *)tensor->data)[i];
    case WF_DTYPE_F64:
        return ((const double *)tensor->data)[i];
    case WF_DTYPE_I64:
        return (double)((const int64_t *)tensor->data)[i];
    case WF_DTYPE_I32:
        return (double)((const int32_t *)tensor->data)[i];
    case WF_DTYPE_BOOL:
    case WF_DTYPE_U8:
        return (double)((const uint8_t *)tensor->data)[i];
    default:
        return 0;
    }
}

/* What a person wants to see of an output: range, and the largest of a row of scores. */
static void summarise(const wf_port_info_t *port, const wf_tensor_t *output, json_t *list)
{
    int64_t elems = wf_type_elems(&port->type), best = 0;
    double low = 0, high = 0, sum = 0;
    for (int64_t i = 0; i < elems; i++) {
        double v = number_at(output, i);
        if (i == 0 || v < low)
            low = v;
        if (i == 0 || v > high) {
            high = v;
            best = i;
        }
        sum += v;
    }
    char dims[300];
    (void)json_array_append_new(list, json_pack("{s:s s:s s:s s:f s:f s:f s:I}", "name", port->name, "dtype",
                                                wf_dtype_name(port->type.dtype), "shape",
                                                cli_shape_text(&port->type, dims, sizeof dims), "min", low,
                                                "max", high, "mean", elems > 0 ? sum / (double)elems : 0.0,
                                                "argmax", (json_int_t)best));
}

static int run_engine(const cli_options_t *options, const wf_engine_t *engine)
{
    size_t spec = choose_spec(options, engine), input_count = wf_engine_input_count(engine),
           output_count = wf_engine_output_count(engine);
    wf_tensor_t *tensors = calloc(input_count + output_count + 1, sizeof *tensors),
                *outputs = tensors + input_count;
    const void **in = calloc(input_count + 1, sizeof *in);
    void **out = calloc(output_count + 1, sizeof *out);
    wf_context_t *context = NULL;
    int code = check_input_words(options, engine);
    if (code == 0)
        code = read_inputs(options, engine, spec, tensors);
    for (size_t i = 0; code == 0 && i < output_count; i++) {
        wf_port_info_t port = wf_engine_output(engine, spec, i);
        code = cli_fail(options, wf_tensor_make(&port.type, wf_allocator_system(), &outputs[i]));
        out[i] = outputs[i].data;
    }
    for (size_t i = 0; i < input_count; i++)
        in[i] = tensors[i].data;
    if (code == 0)
        code = cli_fail(options, wf_context_create(engine, spec, &context));
    if (code == 0)
        code = cli_fail(options, wf_context_run(context, in, out));
    if (code == 0 && options->output_dir != NULL)
        code = write_outputs(options, engine, spec, outputs);
    json_t *list = json_array();
    for (size_t i = 0; code == 0 && i < output_count; i++) {
        wf_port_info_t port = wf_engine_output(engine, spec, i);
        summarise(&port, &outputs[i], list);
    }
    if (code == 0 && options->json) {
        code = cli_print_json(json_pack("{s:O}", "outputs", list), 0);
    } else if (code == 0) {
        size_t i;
        json_t *row;
        json_array_foreach(list, i, row)
        {
            (void)printf("%s  %s %s  min %.6g  max %.6g (at %lld)  mean %.6g\n",
                         json_string_value(json_object_get(row, "name")),
                         json_string_value(json_object_get(row, "dtype")),
                         json_string_value(json_object_get(row, "shape")),
                         json_number_value(json_object_get(row, "min")),
                         json_number_value(json_object_get(row, "max")),
                         (long long)json_integer_value(json_object_get(row, "argmax")),
                         json_number_value(json_object_get(row, "mean")));
        }
    }
    json_decref(list);
    wf_context_destroy(context);
    for (size_t i = 0; i < input_count + output_count; i++)
        wf_tensor_free(&tensors[i], wf_allocator_system());
    free((void *)in);
    free(out);
    free(tensors);
    return code;
}

/* A model whose free dims the given .npy files settle: --shape for each of them. */
static int shapes_from_files(const cli_options_t *options, wf_shape_t *shapes, wf_type_t *types, char *names,
                             size_t *out_count)
{
    *out_count = 0;
    for (size_t i = 0; i < options->inputs.count; i++) {
        const char *word = options->inputs.items[i], *equals = strrchr(word, '=');
        if (equals == NULL || !cli_npy_type(equals + 1, &types[*out_count]))
            continue;
        (void)snprintf(names, (size_t)(equals - word) + 1, "%s", word);
        shapes[*out_count] =
            (wf_shape_t){.input = names, .dims = types[*out_count].dims, .rank = types[*out_count].rank};
        names += strlen(names) + 1;
        (*out_count)++;
    }
    return 0;
}

int cli_verb_run(const cli_options_t *options)
{
    if (options->argument_count != 1)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder run ENGINE --input NAME=FILE",
                             "run takes one engine or model");
    cli_build_t build;
    cli_engine_t opened = {0};
    cli_catch_signals();
    size_t name_bytes = 1, count = options->inputs.count;
    for (size_t i = 0; i < count; i++)
        name_bytes += strlen(options->inputs.items[i]) + 1;
    wf_shape_t *shapes = calloc(count + 1, sizeof *shapes);
    wf_type_t *types = calloc(count + 1, sizeof *types);
    char *names = calloc(name_bytes, 1);
    const wf_shape_t *spec = shapes;
    int code = cli_build_make(options, &build);
    if (code == 0 && build.options.spec_count == 0) {
        size_t shape_count = 0;
        code = shapes_from_files(options, shapes, types, names, &shape_count);
        build.options.shapes = shape_count > 0 ? &spec : NULL;
        build.options.shape_counts = &shape_count;
        build.options.spec_count = shape_count > 0 ? 1 : 0;
        if (code == 0)
            code = cli_engine_open(options, options->arguments[0], &build.options, &opened);
        build.options.spec_count = 0;
    } else if (code == 0) {
        code = cli_engine_open(options, options->arguments[0], &build.options, &opened);
    }
    if (code == 0)
        code = run_engine(options, opened.engine);
    cli_engine_close(&opened);
    cli_build_free(&build);
    free(shapes);
    free(types);
    free(names);
    return code;
}
