/* SPDX-License-Identifier: Apache-2.0 */
/* wf_reference_run and wf_verify_engine: engines against the reference. */
#include <string.h>

#include "api/options.h"
#include "api/run_once.h"
#include "base/compiler.h"
#include "base/parallel.h"
#include "verify/interpret.h"
#include "wayfinder/verify.h"

#define INPUT_SETS_DEFAULT 3

/* ---- the reference ---- */

typedef struct progress {
    void *self;
    wf_progress_fn *fn;
    atomic_bool cancel;
} progress_t;

static void tell(void *self, size_t node, size_t node_count)
{
    progress_t *progress = self;
    if (progress->fn != NULL &&
        progress->fn(progress->self, "reference", (double)node / (double)node_count)) {
        atomic_store(&progress->cancel, true);
    }
}

static wf_status_t interpret(const wf_graph_t *graph, const wf_tensor_t *inputs, uint32_t thread_count,
                             wf_allocator_t allocator, progress_t *progress, wf_tensor_t *out_outputs)
{
    wf_pool_t *pool = NULL;
    WF_TRY(wf_pool_create(thread_count, false, allocator, &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    wf_interpret_options_t options = {
        .parallel = &parallel, .progress = tell, .progress_self = progress, .cancel = &progress->cancel};
    wf_status_t status = wf_interpret(graph, inputs, allocator, &options, out_outputs);
    wf_pool_destroy(pool);
    return status;
}

/* The model as a graph for exactly these input types; `values` (may be NULL) has the inputs of one value,
 * others NULL data. */
static wf_status_t import_for(const wf_model_t *model, const wf_tensor_t *inputs, const wf_tensor_t *values,
                              size_t input_count, wf_allocator_t allocator, wf_graph_t **out_graph)
{
    const wf_onnx_summary_t *summary = wf_onnx_summary(model->onnx);
    if (input_count != summary->input_count) {
        return WF_ERROR(INPUT_MISSING, "the model has %zu inputs, %zu were given", summary->input_count,
                        input_count);
    }
    wf_onnx_binding_t *bindings = NULL;
    WF_TRY(wf_alloc(allocator, input_count, sizeof *bindings, &bindings));
    for (size_t i = 0; i < input_count; i++) {
        bool fixed = values != NULL && values[i].data != NULL;
        bindings[i] = (wf_onnx_binding_t){summary->inputs[i].name, inputs[i].type.dims, inputs[i].type.rank,
                                          fixed ? &values[i] : NULL};
    }
    wf_status_t status = wf_onnx_to_graph(model->onnx, bindings, input_count, allocator, out_graph);
    wf_free(allocator, bindings, input_count, sizeof *bindings);
    return status;
}

wf_status_t wf_reference_run(const wf_model_t *model, const wf_tensor_t *inputs, size_t input_count,
                             uint32_t thread_count, wf_allocator_t allocator, void *progress_self,
                             wf_progress_fn *progress, wf_tensor_t *out_outputs, size_t output_count)
{
    if (allocator.resize == NULL)
        allocator = wf_allocator_system();
    wf_graph_t *graph = NULL;
    WF_TRY(import_for(model, inputs, NULL, input_count, allocator, &graph));
    progress_t tell_state = {.self = progress_self, .fn = progress};
    wf_status_t status =
        graph->outputs.count == output_count
            ? interpret(graph, inputs, WF_MAX(thread_count, 1u), allocator, &tell_state, out_outputs)
            : WF_ERROR(USAGE, "the model has %zu outputs, room was given for %zu", graph->outputs.count,
                       output_count);
    wf_graph_destroy(graph);
    return status;
}

/* ---- engines ---- */

typedef struct verification {
    const wf_engine_t *engine;
    const wf_model_t *model;
    wf_allocator_t allocator;
    progress_t progress;
    json_t *outputs;   /* one object per specialisation, set and output */
    wf_status_t worst; /* the first disagreement */
} verification_t;

static wf_status_t note_output(verification_t *v, size_t spec, uint64_t seed, const char *name,
                               const wf_accuracy_t *a, bool passed)
{
    json_t *row = json_pack("{s:I s:I s:s s:b s:f s:f s:f s:f s:f s:f s:I}", "specialisation",
                            (json_int_t)spec, "seed", (json_int_t)seed, "output", name, "passed", passed,
                            "max_abs", a->max_abs, "max_abs_of_scale", a->max_abs_of_scale, "rms", a->rms,
                            "cosine", a->cosine, "sqnr_db", a->sqnr_db, "top1_agreement", a->top1_agreement,
                            "nan_mismatches", (json_int_t)a->nan_mismatches);
    if (row == NULL || json_array_append_new(v->outputs, row) != 0)
        return wf_status_out_of_memory();
    if (!passed && v->worst == WF_OK) {
        v->worst = wf_status_hinted(
            WF_ERROR(ACCURACY,
                     "output %s disagrees with the reference: %.3g of its scale, cosine %.6f, "
                     "%llu NaN or infinity mismatches (bound: 1e-3 of scale, cosine 0.99999)",
                     name, a->max_abs_of_scale, a->cosine, (unsigned long long)a->nan_mismatches),
            "build the engine again from this very model; an engine of another model "
            "disagrees too");
    }
    return WF_OK;
}

static wf_status_t compare_set(verification_t *v, size_t spec, uint64_t seed, const wf_graph_t *graph,
                               const wf_tensor_t *inputs, wf_tensor_t *got, wf_tensor_t *want)
{
    size_t count = wf_engine_output_count(v->engine);
    wf_engine_facts_t facts = wf_engine_facts(v->engine);
    WF_TRY(interpret(graph, inputs, facts.thread_count, v->allocator, &v->progress, want));
    wf_status_t status = wf_api_run_once(v->engine, spec, inputs, v->allocator, got);
    for (size_t i = 0; status == WF_OK && i < count; i++) {
        wf_accuracy_t accuracy = wf_accuracy_compare(&got[i], &want[i], 0, 0);
        bool passed =
            wf_type_equal(&got[i].type, &want[i].type) && wf_accuracy_gate(&accuracy, want[i].type.dtype);
        status = note_output(v, spec, seed, wf_engine_output(v->engine, spec, i).name, &accuracy, passed);
    }
    for (size_t i = 0; i < count; i++)
        wf_tensor_free(&got[i], v->allocator);
    wf_interpret_free(v->allocator, want, count);
    return status;
}

static wf_status_t verify_spec(verification_t *v, size_t spec, uint64_t seed, wf_tensor_t *inputs,
                               wf_tensor_t *fixed, wf_tensor_t *got, wf_tensor_t *want)
{
    size_t count = wf_engine_input_count(v->engine);
    wf_graph_t *graph = NULL;
    size_t made = 0;
    wf_status_t status = WF_OK;
    for (; made < count; made++) {
        wf_port_info_t port = wf_engine_input(v->engine, spec, made);
        status = wf_tensor_make(&port.type, v->allocator, &inputs[made]);
        if (status != WF_OK)
            break;
        if (wf_engine_fixed_input(v->engine, spec, made, &fixed[made])) {
            memcpy(inputs[made].data, fixed[made].data, (size_t)wf_type_bytes(&port.type));
        } else {
            fixed[made] = (wf_tensor_t){0};
            wf_seeded_fill(port.name, seed, &inputs[made]);
        }
    }
    if (status == WF_OK)
        status = import_for(v->model, inputs, fixed, count, v->allocator, &graph);
    if (status == WF_OK && graph->outputs.count != wf_engine_output_count(v->engine)) {
        status = WF_ERROR(ACCURACY, "the engine has %zu outputs, the model has %zu",
                          wf_engine_output_count(v->engine), (size_t)graph->outputs.count);
    }
    if (status == WF_OK)
        status = compare_set(v, spec, seed, graph, inputs, got, want);
    wf_graph_destroy(graph);
    for (size_t i = 0; i < made; i++)
        wf_tensor_free(&inputs[i], v->allocator);
    return status;
}

wf_status_t wf_verify_engine(const wf_engine_t *engine, const wf_model_t *model,
                             const wf_verify_options_t *options, char **out_report_json)
{
    *out_report_json = NULL;
    wf_verify_options_t known = {0};
    if (options != NULL)
        memcpy(&known, options, WF_MIN((size_t)options->struct_bytes, sizeof known));
    if (known.allocator.resize == NULL)
        known.allocator = wf_allocator_system();
    size_t sets = known.input_sets != 0 ? known.input_sets : INPUT_SETS_DEFAULT;
    verification_t v = {
        .engine = engine, .model = model, .allocator = known.allocator, .outputs = json_array()};
    v.progress.self = known.progress_self;
    v.progress.fn = known.progress;
    size_t input_count = wf_engine_input_count(engine), output_count = wf_engine_output_count(engine);
    wf_tensor_t *tensors = NULL;
    size_t tensor_count = 2 * (input_count + output_count);
    wf_status_t status = wf_alloc(known.allocator, tensor_count, sizeof *tensors, &tensors);
    for (size_t spec = 0; status == WF_OK && spec < wf_engine_spec_count(engine); spec++) {
        for (size_t set = 0; status == WF_OK && set < sets; set++) {
            wf_tensor_t *got = tensors + 2 * input_count;
            status = verify_spec(&v, spec, known.seed + set, tensors, tensors + input_count, got,
                                 got + output_count);
        }
    }
    wf_free(known.allocator, tensors, tensor_count, sizeof *tensors);
    if (status == WF_OK) {
        json_t *report = json_pack("{s:i s:b s:I s:O}", "schema_version", 1, "passed", v.worst == WF_OK,
                                   "input_sets", (json_int_t)sets, "outputs", v.outputs);
        status = wf_api_json_text(report, known.allocator, out_report_json);
        json_decref(report);
    }
    json_decref(v.outputs);
    return wf_status_join(status, v.worst);
}
