/* SPDX-License-Identifier: Apache-2.0 */
/* wf_model_*: a read model through the public API. */
#include "wayfinder/model.h"

#include <string.h>

#include "api/options.h"

wf_status_t wf_model_open(const char *path, wf_allocator_t allocator, wf_model_t **out_model)
{
    *out_model = NULL;
    if (allocator.resize == NULL)
        allocator = wf_allocator_system();
    wf_model_t *model = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *model, &model));
    model->allocator = allocator;
    wf_status_t status = wf_onnx_open(path, allocator, &model->onnx);
    if (status == WF_OK)
        *out_model = model;
    else
        wf_model_close(model);
    return status;
}

void wf_model_close(wf_model_t *model)
{
    if (model == NULL)
        return;
    wf_onnx_close(model->onnx);
    wf_free(model->allocator, model, 1, sizeof *model);
}

wf_model_summary_t wf_model_summary(const wf_model_t *model)
{
    const wf_onnx_summary_t *s = wf_onnx_summary(model->onnx);
    return (wf_model_summary_t){s->ir_version,   s->producer,          s->opsets,
                                s->node_count,   s->initializer_count, s->initializer_bytes,
                                s->input_count,  s->output_count,      wf_onnx_problem_count(model->onnx),
                                s->op_kind_count};
}

static wf_model_port_t port_of(const wf_port_t *port)
{
    wf_model_port_t out = {
        .name = port->name, .dtype = port->dtype, .rank_known = port->rank_known, .rank = port->rank};
    for (uint32_t d = 0; d < port->rank; d++)
        out.dims[d] = (wf_model_dim_t){port->dims[d].size, port->dims[d].symbol};
    return out;
}

wf_model_port_t wf_model_input(const wf_model_t *model, size_t index)
{
    return port_of(&wf_onnx_summary(model->onnx)->inputs[index]);
}

wf_model_port_t wf_model_output(const wf_model_t *model, size_t index)
{
    return port_of(&wf_onnx_summary(model->onnx)->outputs[index]);
}

wf_model_problem_t wf_model_problem(const wf_model_t *model, size_t index)
{
    const wf_onnx_problem_t *p = wf_onnx_problem(model->onnx, index);
    return (wf_model_problem_t){p->code, p->node, p->op, p->opset, p->reason, p->hint};
}

const char *wf_model_op(const wf_model_t *model, size_t index, size_t *out_count)
{
    const wf_onnx_summary_t *s = wf_onnx_summary(model->onnx);
    *out_count = s->op_counts[index];
    return s->op_names[index];
}

wf_status_t wf_model_hash(const wf_model_t *model, char out_hex[33])
{
    wf_hash_t hash;
    WF_TRY(wf_onnx_hash(model->onnx, &hash));
    wf_hash_text(hash, out_hex);
    return WF_OK;
}

wf_status_t wf_tensor_read_onnx(const char *path, wf_allocator_t allocator, wf_tensor_t *out_tensor)
{
    *out_tensor = (wf_tensor_t){0};
    wf_arena_t arena;
    wf_tensor_t read;
    const char *name;
    wf_arena_init(&arena, allocator);
    wf_status_t status = wf_onnx_read_tensor_file(path, &arena, &read, &name);
    if (status == WF_OK)
        status = wf_tensor_make(&read.type, allocator, out_tensor);
    if (status == WF_OK)
        memcpy(out_tensor->data, read.data, (size_t)wf_type_bytes(&read.type));
    wf_arena_deinit(&arena);
    return status;
}
