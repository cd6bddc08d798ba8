/* SPDX-License-Identifier: Apache-2.0 */
#include "api/options.h"

#include <string.h>

#include "base/compiler.h"
#include "route/knob_values.h"
#include "tune/lock.h"

wf_status_t wf_api_build_options(const wf_build_options_t *options, wf_build_options_t *out_options)
{
    memset(out_options, 0, sizeof *out_options);
    if (options != NULL) {
        if (options->struct_bytes == 0 || options->struct_bytes > sizeof *out_options) {
            return WF_ERROR(USAGE, "wf_build_options_t.struct_bytes is %u, this library knows %zu",
                            options->struct_bytes, sizeof *out_options);
        }
        memcpy(out_options, options, options->struct_bytes);
    }
    if (out_options->allocator.resize == NULL)
        out_options->allocator = wf_allocator_system();
    for (size_t i = 0; i < out_options->setting_count; i++) {
        wf_knob_values_t values;
        const wf_setting_t *setting = &out_options->settings[i];
        WF_TRY(wf_knob_values_parse(setting->name, setting->value, &values));
        if (values.knob != WF_KNOB_THREADS)
            continue;
        if (out_options->thread_count != 0 &&
            (values.count > 1 || values.values[0] != out_options->thread_count))
            return wf_status_hinted(WF_ERROR(USAGE, "%u threads were asked for, and %s=%s",
                                             out_options->thread_count, setting->name, setting->value),
                                    "give one of them");
        out_options->thread_count = wf_knob_values_single(&values);
    }
    if (out_options->lock != NULL) {
        WF_TRY(wf_lock_check_title(out_options->lock));
        WF_TRY(wf_lock_threads(out_options->lock, &out_options->thread_count));
    }
    return WF_OK;
}

/* ---- jobs ---- */

typedef struct imports {
    wf_graph_t **references, **graphs;
    wf_tensor_t **fixed;
    size_t count;
} imports_t;

static wf_status_t import_spec(const wf_model_t *model, const wf_build_options_t *options, size_t spec,
                               wf_arena_t *arena, imports_t *imports)
{
    static const wf_shape_t no_shapes[1];
    const wf_shape_t *shapes = spec < options->spec_count ? options->shapes[spec] : no_shapes;
    size_t shape_count = spec < options->spec_count ? options->shape_counts[spec] : 0;
    wf_onnx_binding_t *bindings = NULL;
    WF_TRY(wf_arena_alloc(arena, shape_count, sizeof *bindings, &bindings));
    bool any_fixed = false;
    for (size_t i = 0; i < shape_count; i++) {
        bindings[i] = (wf_onnx_binding_t){shapes[i].input, shapes[i].dims, shapes[i].rank, shapes[i].value};
        any_fixed |= shapes[i].value != NULL;
    }
    wf_allocator_t allocator = options->allocator;
    WF_TRY(wf_onnx_to_graph(model->onnx, bindings, shape_count, allocator, &imports->references[spec]));
    WF_TRY(wf_onnx_to_graph(model->onnx, bindings, shape_count, allocator, &imports->graphs[spec]));
    if (!any_fixed)
        return WF_OK;
    const wf_graph_t *graph = imports->references[spec];
    WF_TRY(wf_arena_alloc(arena, graph->inputs.count, sizeof(wf_tensor_t), &imports->fixed[spec]));
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const char *name = wf_graph_value(graph, graph->inputs.items[i])->name;
        for (size_t b = 0; b < shape_count; b++) {
            if (shapes[b].value != NULL && strcmp(shapes[b].input, name) == 0)
                imports->fixed[spec][i] = *shapes[b].value;
        }
    }
    return WF_OK;
}

static wf_status_t import_all(const wf_model_t *model, const wf_build_options_t *options, wf_arena_t *arena,
                              imports_t *imports)
{
    imports->count = WF_MAX(options->spec_count, (size_t)1);
    WF_TRY(wf_arena_alloc(arena, imports->count, sizeof *imports->references, &imports->references));
    WF_TRY(wf_arena_alloc(arena, imports->count, sizeof *imports->graphs, &imports->graphs));
    WF_TRY(wf_arena_alloc(arena, imports->count, sizeof *imports->fixed, &imports->fixed));
    for (size_t i = 0; i < imports->count; i++)
        WF_TRY(import_spec(model, options, i, arena, imports));
    return WF_OK;
}

/* ---- shapes of a lock ---- */

/* "NAME DTYPE 1x3x8" -> a shape. False when it cannot be read. */
static bool parse_input(const char *line, size_t length, char *name, int64_t *dims, size_t *out_rank)
{
    size_t blank = length;
    while (blank > 0 && line[blank - 1] != ' ')
        blank--;
    size_t at = blank, name_end = blank > 0 ? blank - 1 : 0;
    while (name_end > 0 && line[name_end - 1] != ' ')
        name_end--;
    *out_rank = 0;
    if (name_end < 2)
        return false;
    memcpy(name, line, name_end - 1);
    name[name_end - 1] = '\0';
    if (length - at == 6 && memcmp(line + at, "scalar", 6) == 0)
        return true;
    for (; at < length; at++) {
        int64_t dim = 0;
        size_t start = at;
        for (; at < length && line[at] >= '0' && line[at] <= '9' && dim <= INT32_MAX; at++)
            dim = 10 * dim + (line[at] - '0');
        if (at == start || *out_rank == WF_MAX_RANK || (at < length && line[at] != 'x'))
            return false;
        dims[(*out_rank)++] = dim;
    }
    return *out_rank > 0 && line[length - 1] != 'x';
}

static wf_status_t shapes_of_part(wf_lock_piece_t part, wf_arena_t *arena, const wf_shape_t **out_shapes,
                                  size_t *out_count)
{
    static const char title[] = "input ";
    size_t count = 0, title_bytes = sizeof title - 1;
    const char *end = part.data + part.length, *line, *stop;
    for (line = part.data; line < end; line = stop + 1, count++) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL || (size_t)(stop - line) < title_bytes || memcmp(line, title, title_bytes) != 0)
            break;
    }
    wf_shape_t *shapes = NULL;
    WF_TRY(wf_arena_alloc(arena, count, sizeof *shapes, &shapes));
    line = part.data;
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(line, "\n");
        char *name = NULL;
        int64_t *dims = NULL;
        WF_TRY(wf_arena_alloc(arena, length, 1, &name));
        WF_TRY(wf_arena_alloc(arena, WF_MAX_RANK, sizeof *dims, &dims));
        if (!parse_input(line + title_bytes, length - title_bytes, name, dims, &shapes[i].rank))
            return WF_ERROR(LOCK_MISMATCH, "the lock's line '%.*s' cannot be read", (int)WF_MIN(length, 100u),
                            line);
        shapes[i].input = name;
        shapes[i].dims = dims;
        line += length + 1;
    }
    *out_shapes = shapes;
    *out_count = count;
    return WF_OK;
}

/* A lock says for which shapes it is: who gives none means those. */
static wf_status_t shapes_of_lock(wf_build_options_t *options, wf_arena_t *arena)
{
    size_t count = 0;
    while (wf_lock_part(options->lock, count).data != NULL)
        count++;
    const wf_shape_t **shapes = NULL;
    size_t *counts = NULL;
    WF_TRY(wf_arena_alloc(arena, count, sizeof *shapes, &shapes));
    WF_TRY(wf_arena_alloc(arena, count, sizeof *counts, &counts));
    for (size_t i = 0; i < count; i++)
        WF_TRY(shapes_of_part(wf_lock_part(options->lock, i), arena, &shapes[i], &counts[i]));
    options->shapes = shapes;
    options->shape_counts = counts;
    options->spec_count = count;
    return WF_OK;
}

wf_status_t wf_api_job(const wf_model_t *model, const wf_build_options_t *options, wf_job_t **out_job)
{
    *out_job = NULL;
    imports_t imports = {0};
    char hash_text[33];
    WF_TRY(wf_model_hash(model, hash_text));
    if (options->lock != NULL)
        WF_TRY(wf_lock_check_field(options->lock, "model", hash_text));
    wf_arena_t arena;
    wf_arena_init(&arena, options->allocator);
    wf_build_options_t with_shapes = *options;
    wf_status_t status = WF_OK;
    if (options->lock != NULL && options->spec_count == 0)
        status = shapes_of_lock(&with_shapes, &arena);
    if (status == WF_OK)
        status = import_all(model, &with_shapes, &arena, &imports);
    if (status == WF_OK) {
        wf_job_source_t source = {imports.references, imports.graphs, imports.fixed, imports.count,
                                  hash_text};
        status = wf_job_create(&source, options, out_job);
    } else {
        for (size_t i = 0; imports.fixed != NULL && i < imports.count; i++) {
            wf_graph_destroy(imports.references[i]);
            wf_graph_destroy(imports.graphs[i]);
        }
    }
    wf_arena_deinit(&arena);
    return status;
}

/* ---- texts ---- */

wf_status_t wf_api_json_text(const json_t *json, wf_allocator_t allocator, char **out_text)
{
    *out_text = NULL;
    if (json == NULL)
        return wf_status_out_of_memory();
    size_t length = json_dumpb(json, NULL, 0, JSON_COMPACT);
    if (length == 0)
        return wf_status_out_of_memory();
    char *text = NULL;
    WF_TRY(wf_alloc(allocator, length + 1, 1, &text));
    (void)json_dumpb(json, text, length, JSON_COMPACT);
    *out_text = text;
    return WF_OK;
}

void wf_api_text_free(wf_allocator_t allocator, char *text)
{
    if (text != NULL)
        wf_free(allocator, text, strlen(text) + 1, 1);
}
