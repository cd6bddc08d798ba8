/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a model, its hash, and single tensor files. */
#include <string.h>

#include "base/compiler.h"
#include "base/utf8.h"
#include "onnx/check.h"
#include "onnx/model.h"
#include "onnx/node.h"
#include "onnx/tensor.h"

/* ---- Problems ---- */

/* A copy that may be printed: one line of valid UTF-8. */
static wf_status_t copy_text(wf_arena_t *arena, const char *text, const char **out)
{
    char *copy;
    size_t length = strlen(text);
    WF_TRY(wf_arena_alloc(arena, length + 1, 1, &copy));
    memcpy(copy, text, length);
    wf_utf8_sanitise(copy);
    *out = copy;
    return WF_OK;
}

wf_status_t wf_onnx_problem_add(wf_onnx_model_t *model, const char *node, const char *op, int64_t opset,
                                wf_status_t reason)
{
    wf_onnx_problem_t problem = {.code = wf_status_code(reason), .opset = opset};
    if (problem.code == WF_CODE_OUT_OF_MEMORY) {
        return reason;
    }
    model->problem_count++;
    wf_status_t status = WF_OK;
    if (model->problems.count < WF_ONNX_MAX_PROBLEMS) {
        status = copy_text(&model->arena, node, &problem.node);
        if (status == WF_OK) {
            status = copy_text(&model->arena, op, &problem.op);
        }
        if (status == WF_OK) {
            status = copy_text(&model->arena, wf_status_message(reason), &problem.reason);
        }
        if (status == WF_OK) {
            status = copy_text(&model->arena, wf_status_hint(reason), &problem.hint);
        }
        if (status == WF_OK) {
            status = wf_vec_push(model->allocator, &model->problems, &problem);
        }
    }
    wf_status_free(reason);
    return status;
}

size_t wf_onnx_problem_count(const wf_onnx_model_t *model)
{
    return model->problems.count;
}

const wf_onnx_problem_t *wf_onnx_problem(const wf_onnx_model_t *model, size_t index)
{
    return index < model->problems.count ? &model->problems.items[index] : NULL;
}

const wf_onnx_summary_t *wf_onnx_summary(const wf_onnx_model_t *model)
{
    return &model->summary;
}

/* ---- Opening ---- */

/* Files that people pass by mistake, by their first bytes. */
static const struct magic {
    size_t offset;
    const char *bytes;
    const char *what;
    const char *hint;
} magics[] = {
    {0, "version https://git-lfs", "a Git LFS pointer", "fetch the file itself with git lfs pull"},
    {0, "PK\x03\x04", "a zip archive (PyTorch, NumPy or similar)", "export the model to ONNX first"},
    {0, "\x80\x02", "a Python pickle", "export the model to ONNX first"},
    {0, "\x89HDF", "an HDF5 file (Keras)", "export the model to ONNX first"},
    {0, "\x1f\x8b", "a gzip archive", "unpack it first"},
    {0, "<!DOCTYPE", "an HTML page", "the download gave a page instead of the file"},
    {0, "<html", "an HTML page", "the download gave a page instead of the file"},
    {4, "TFL3", "a TensorFlow Lite model", "export the model to ONNX first"},
    {4, "ORTM", "an ONNX Runtime model", "use the ONNX file that it was made from"},
    {0, "GGUF", "a GGUF file", "export the model to ONNX first"},
};

static wf_status_t not_onnx(wf_span_t bytes, wf_status_t status)
{
    for (size_t i = 0; i < WF_COUNT_OF(magics); i++) {
        size_t length = strlen(magics[i].bytes);
        if (bytes.bytes >= magics[i].offset + length &&
            memcmp(bytes.data + magics[i].offset, magics[i].bytes, length) == 0) {
            wf_status_free(status);
            status = WF_ERROR(MODEL_INVALID, "not an ONNX model but %s", magics[i].what);
            return wf_status_hinted(status, "%s", magics[i].hint);
        }
    }
    return wf_status_code(status) == WF_CODE_MODEL_INVALID
               ? wf_status_annotated(status, "not an ONNX model, or damaged")
               : status;
}

static wf_status_t read_model(wf_onnx_model_t *model)
{
    size_t limit_bytes;
    if (model->bytes.bytes == 0) {
        return WF_ERROR(MODEL_INVALID, "the file is empty");
    }
    if (!wf_size_mul(model->bytes.bytes, WF_ONNX_MAX_DECODE_FACTOR, &limit_bytes) ||
        !wf_size_add(limit_bytes, WF_ONNX_MAX_DECODE_BASE, &limit_bytes)) {
        limit_bytes = SIZE_MAX;
    }
    wf_status_t status = wf_wire_decode(WF_PB_model, model->bytes, &model->arena, limit_bytes, &model->proto);
    if (status == WF_OK && model->proto.graph == NULL) {
        status = WF_ERROR(MODEL_INVALID, "ModelProto.graph is not there");
    }
    if (status != WF_OK) {
        return not_onnx(model->bytes, status);
    }
    WF_TRY(wf_onnx_rules_init(&model->rules));
    WF_TRY(wf_onnx_external_open(model));
    WF_TRY(wf_onnx_check(model));
    return wf_onnx_summarise(model);
}

static wf_status_t create(wf_allocator_t allocator, wf_onnx_model_t **out_model)
{
    wf_onnx_model_t *model;
    *out_model = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *model, &model));
    model->allocator = allocator;
    wf_arena_init(&model->arena, allocator);
    wf_map_init(&model->rules, allocator);
    wf_map_init(&model->functions, allocator);
    wf_map_init(&model->initializers, allocator);
    *out_model = model;
    return WF_OK;
}

void wf_onnx_close(wf_onnx_model_t *model)
{
    if (model == NULL) {
        return;
    }
    wf_allocator_t allocator = model->allocator;
    for (size_t i = 0; i < model->data_files.count; i++) {
        wf_mapping_close(&model->data_files.items[i].mapping);
    }
    wf_vec_deinit(allocator, &model->data_files);
    wf_vec_deinit(allocator, &model->problems);
    wf_map_deinit(&model->rules);
    wf_map_deinit(&model->functions);
    wf_map_deinit(&model->initializers);
    wf_arena_deinit(&model->arena);
    wf_mapping_close(&model->file);
    wf_free(allocator, model, 1, sizeof *model);
}

static wf_status_t open_path(wf_onnx_model_t *model, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t folder_bytes = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    WF_TRY(wf_mapping_open(path, &model->file));
    WF_TRY(wf_arena_text(&model->arena, slash == NULL ? "." : path, slash == NULL ? 1 : folder_bytes,
                         &model->folder));
    model->bytes = (wf_span_t){model->file.data, model->file.bytes};
    return wf_status_annotated(read_model(model), "%s", path);
}

wf_status_t wf_onnx_open(const char *path, wf_allocator_t allocator, wf_onnx_model_t **out_model)
{
    WF_TRY(create(allocator, out_model));
    wf_status_t status = open_path(*out_model, path);
    if (status != WF_OK) {
        wf_onnx_close(*out_model);
        *out_model = NULL;
    }
    return status;
}

wf_status_t wf_onnx_open_bytes(const void *bytes, size_t length, wf_allocator_t allocator,
                               wf_onnx_model_t **out_model)
{
    WF_TRY(create(allocator, out_model));
    (*out_model)->bytes = (wf_span_t){bytes, length};
    wf_status_t status = read_model(*out_model);
    if (status != WF_OK) {
        wf_onnx_close(*out_model);
        *out_model = NULL;
    }
    return status;
}

/* ---- Hash ---- */

/* One file: its own hash, as xxhsum -H2 gives it. With external data: the hash of the files' hashes in the
 * order in which the model names them. */
wf_status_t wf_onnx_hash(const wf_onnx_model_t *model, wf_hash_t *out_hash)
{
    wf_onnx_model_t *cache =
        (wf_onnx_model_t *)(uintptr_t)model; /* threads that race here store the same words */
    if (!atomic_load_explicit(&cache->hash_known, memory_order_acquire)) {
        wf_hash_t hash = wf_hash_bytes(model->bytes.data, model->bytes.bytes);
        for (size_t i = 0; i < model->data_files.count; i++) {
            const wf_mapping_t *file = &model->data_files.items[i].mapping;
            wf_hash_t both[2] = {hash, wf_hash_bytes(file->data, file->bytes)};
            hash = wf_hash_bytes(both, sizeof both);
        }
        atomic_store_explicit(&cache->hash_low, hash.low, memory_order_relaxed);
        atomic_store_explicit(&cache->hash_high, hash.high, memory_order_relaxed);
        atomic_store_explicit(&cache->hash_known, true, memory_order_release);
    }
    out_hash->low = atomic_load_explicit(&cache->hash_low, memory_order_relaxed);
    out_hash->high = atomic_load_explicit(&cache->hash_high, memory_order_relaxed);
    return WF_OK;
}

/* ---- Tensor files ---- */

static wf_status_t read_tensor(wf_span_t bytes, wf_arena_t *arena, wf_tensor_t *out_tensor,
                               const char **out_name)
{
    wf_pb_tensor_t tensor = {0};
    size_t limit_bytes;
    const void *data;
    wf_type_t type;
    uint8_t *copy;
    if (!wf_size_add(arena->total_bytes, WF_ONNX_MAX_DECODE_BASE, &limit_bytes)) {
        limit_bytes = SIZE_MAX;
    }
    WF_TRY(wf_wire_decode(WF_PB_tensor, bytes, arena, limit_bytes, &tensor));
    WF_TRY(wf_onnx_tensor_type(&tensor, &type));
    WF_TRY(wf_onnx_tensor_data(&tensor, &type, false, arena, &data));
    size_t data_bytes = (size_t)wf_type_bytes(&type);
    WF_TRY(wf_arena_alloc(arena, WF_MAX(data_bytes, (size_t)1), 1, &copy));
    memcpy(copy, data, data_bytes);
    WF_TRY(wf_arena_text(arena, (const char *)tensor.name.data, tensor.name.bytes, out_name));
    *out_tensor = (wf_tensor_t){type, copy};
    return WF_OK;
}

wf_status_t wf_onnx_read_tensor_file(const char *path, wf_arena_t *arena, wf_tensor_t *out_tensor,
                                     const char **out_name)
{
    wf_mapping_t file;
    *out_tensor = (wf_tensor_t){.data = NULL};
    *out_name = "";
    WF_TRY(wf_mapping_open(path, &file));
    wf_status_t status = read_tensor((wf_span_t){file.data, file.bytes}, arena, out_tensor, out_name);
    wf_mapping_close(&file);
    if (status != WF_OK && wf_status_code(status) != WF_CODE_OUT_OF_MEMORY) {
        status = wf_status_hinted(
            status, "the file has to hold one tensor; sequences and optional values are not supported");
    }
    return wf_status_annotated(status, "%s", path);
}
