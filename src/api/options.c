/* SPDX-License-Identifier: Apache-2.0 */
#include "api/options.h"

#include <string.h>

#include "base/compiler.h"
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

wf_status_t wf_api_job(const wf_model_t *model, const wf_build_options_t *options, wf_job_t **out_job)
{
    *out_job = NULL;
    imports_t imports = {0};
    char hash_text[33];
    WF_TRY(wf_model_hash(model, hash_text));
    wf_arena_t arena;
    wf_arena_init(&arena, options->allocator);
    wf_status_t status = import_all(model, options, &arena, &imports);
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
