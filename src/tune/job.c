/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/job.h"

#include <string.h>

#include "base/compiler.h"
#include "base/parallel.h"
#include "engine/engine_write.h"
#include "engine/format.h"
#include "graph/pass.h"
#include "route/knob_values.h"
#include "tune/lock.h"
#include "verify/interpret.h"
#include "verify/numeric.h"
#include "wayfinder/context.h"
#include "wayfinder/version.h"

/* ---- making ---- */

/* The settings of a lock: its plan is one of the space that they open. */
wf_status_t wf_job_lock_knobs(const char *lock, wf_knobs_t *knobs)
{
    wf_lock_piece_t field = {NULL, 0};
    while ((field = wf_lock_next_field(lock, "setting", field)).data != NULL) {
        char name[80], value[40];
        const char *blank = memchr(field.data, ' ', field.length);
        size_t name_bytes = blank != NULL ? (size_t)(blank - field.data) : field.length;
        size_t value_bytes = field.length - WF_MIN(name_bytes + 1, field.length);
        wf_status_t status = WF_ERROR(USAGE, "it cannot be read");
        if (blank != NULL && name_bytes < sizeof name && value_bytes < sizeof value) {
            memcpy(name, field.data, name_bytes);
            memcpy(value, blank + 1, value_bytes);
            name[name_bytes] = value[value_bytes] = '\0';
            wf_status_free(status);
            status = wf_knobs_set(knobs, name, value);
        }
        if (status != WF_OK) {
            wf_status_t mismatch =
                WF_ERROR(LOCK_MISMATCH, "the lock's setting '%.*s': %s",
                         (int)WF_MIN(field.length, (size_t)80), field.data, wf_status_message(status));
            wf_status_free(status);
            return mismatch;
        }
    }
    return WF_OK;
}

static wf_status_t find_fit(wf_job_t *job, const wf_build_options_t *options)
{
    const char *name = options->fit;
    size_t length = name != NULL ? strlen(name) : 0;
    job->fit = WF_FIT_PORTABLE;
    if (options->lock != NULL) {
        wf_lock_piece_t field = wf_lock_field(options->lock, "fit");
        if (name != NULL && field.data != NULL &&
            (field.length != length || memcmp(field.data, name, length) != 0)) {
            return wf_status_hinted(WF_ERROR(LOCK_MISMATCH, "the lock has fit %.*s, not %s",
                                             (int)WF_MIN(field.length, 20u), field.data, name),
                                    "leave --fit away: the lock says it");
        }
        name = field.data;
        length = field.length;
    }
    if (name != NULL && !wf_fit_from_name(name, length, &job->fit)) {
        return wf_status_hinted(WF_ERROR(USAGE, "no fit '%.*s'", (int)WF_MIN(length, (size_t)40), name),
                                "exact, family or portable");
    }
    return WF_OK;
}

static wf_status_t apply_settings(wf_job_t *job, const wf_build_options_t *options)
{
    WF_TRY(find_fit(job, options));
    wf_knobs_default(&job->knobs);
    for (size_t i = 0; i < options->setting_count; i++) {
        wf_knob_values_t values;
        WF_TRY(wf_knob_values_parse(options->settings[i].name, options->settings[i].value, &values));
        if (values.knob != WF_KNOB_THREADS)
            wf_knob_put(&job->knobs, values.knob, wf_knob_values_single(&values) != 0);
    }
    if (options->lock != NULL)
        WF_TRY(wf_job_lock_knobs(options->lock, &job->knobs));
    return WF_OK;
}

static wf_status_t open_backends(wf_job_t *job)
{
    const char *only[3] = {NULL};
    size_t count = 0;
    if (job->knobs.source_native)
        only[count++] = "native";
    if (job->knobs.source_onednn)
        only[count++] = "onednn";
    if (count == 0) {
        return wf_status_hinted(WF_ERROR(USAGE, "every tactic source is switched off"),
                                "leave source.native on");
    }
    wf_backends_options_t options = {.only = only};
    return wf_backends_open(&job->cpu, &options, job->allocator, job->log, &job->backends);
}

/* Sub-byte and 8-bit float types have no kernels and no metric yet. */
static wf_status_t check_types(const wf_graph_t *graph)
{
    for (size_t i = 0; i < graph->values.count; i++) {
        const wf_value_t *value = wf_graph_value(graph, (wf_value_id)i);
        bool live = value->is_input || value->is_output || value->use_count > 0;
        if (!live || !value->type_known || wf_numeric_supports(value->type.dtype))
            continue;
        return wf_status_hinted(
            WF_ERROR(MODEL_UNSUPPORTED, "value %s has the element type %s, which is not supported yet",
                     value->name, wf_dtype_name(value->type.dtype)),
            "export the model with f32, f16, bf16, f64, integers of 8 to 64 bits or bool");
    }
    return WF_OK;
}

static wf_status_t prepare_part(wf_job_t *job, wf_job_part_t *part, const wf_parallel_t *parallel)
{
    WF_TRY(check_types(part->reference));
    size_t pass_count;
    bool *disabled = NULL;
    (void)wf_passes(&pass_count);
    WF_TRY(wf_arena_alloc(&job->arena, pass_count, sizeof *disabled, &disabled));
    wf_knobs_disabled_passes(&job->knobs, disabled);
    wf_pass_options_t passes = {.log = job->log, .parallel = parallel, .disabled = disabled};
    WF_TRY(wf_passes_run(part->graph, &passes));
    wf_space_options_t space = {.knobs = job->knobs, .allocator = job->allocator, .log = job->log};
    return wf_space_create(part->graph, job->backends, &space, &part->space);
}

static wf_status_t prepare_job(wf_job_t *job, const wf_job_source_t *source,
                               const wf_build_options_t *options)
{
    WF_TRY(wf_device_detect(options->isa, &job->device));
    job->cpu = wf_device_cpu(&job->device, options->thread_count);
    WF_TRY(apply_settings(job, options));
    wf_text_t fingerprint;
    wf_text_init(&fingerprint, job->allocator, 4096);
    wf_device_fingerprint(&job->device, &fingerprint);
    wf_status_t status = wf_text_take_status(&fingerprint);
    if (status == WF_OK) {
        status =
            wf_arena_text(&job->arena, wf_text_cstr(&fingerprint), fingerprint.length, &job->fingerprint);
    }
    wf_text_deinit(&fingerprint);
    if (status == WF_OK)
        status = open_backends(job);
    if (status != WF_OK)
        return status;
    memcpy(job->model_hash, source->model_hash, sizeof job->model_hash);
    wf_pool_t *pool = NULL;
    WF_TRY(wf_pool_create(job->cpu.thread_count, false, job->allocator, &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    for (size_t i = 0; status == WF_OK && i < job->part_count; i++)
        status = prepare_part(job, &job->parts[i], &parallel);
    wf_pool_destroy(pool);
    return status;
}

wf_status_t wf_job_create(const wf_job_source_t *source, const wf_build_options_t *options,
                          wf_job_t **out_job)
{
    *out_job = NULL;
    wf_allocator_t allocator = options->allocator;
    wf_job_t *job = NULL;
    wf_status_t status = wf_alloc(allocator, 1, sizeof *job, &job);
    if (status == WF_OK) {
        job->allocator = allocator;
        job->log = options->log;
        job->isa = options->isa;
        job->progress = options->progress;
        job->progress_self = options->progress_self;
        wf_arena_init(&job->arena, allocator);
        status = wf_arena_alloc(&job->arena, source->part_count, sizeof *job->parts, &job->parts);
    }
    if (status != WF_OK) {
        for (size_t i = 0; i < source->part_count; i++) {
            wf_graph_destroy(source->references[i]);
            wf_graph_destroy(source->graphs[i]);
        }
        if (job != NULL)
            wf_job_destroy(job);
        return status;
    }
    job->part_count = source->part_count;
    for (size_t i = 0; i < source->part_count; i++) {
        job->parts[i].reference = source->references[i];
        job->parts[i].graph = source->graphs[i];
    }
    for (size_t i = 0; status == WF_OK && i < source->part_count; i++) {
        const wf_tensor_t *fixed = source->fixed != NULL ? source->fixed[i] : NULL;
        size_t count = source->references[i]->inputs.count;
        if (fixed == NULL)
            continue;
        status = wf_arena_alloc(&job->arena, count, sizeof *fixed, &job->parts[i].fixed);
        if (status == WF_OK && count > 0)
            memcpy(job->parts[i].fixed, fixed, count * sizeof *fixed);
    }
    if (status == WF_OK)
        status = prepare_job(job, source, options);
    if (status == WF_OK)
        *out_job = job;
    else
        wf_job_destroy(job);
    return status;
}

static void free_tensors(wf_job_t *job, wf_tensor_t *tensors, size_t count)
{
    for (size_t i = 0; tensors != NULL && i < count; i++)
        wf_tensor_free(&tensors[i], job->allocator);
    wf_free(job->allocator, tensors, count, sizeof *tensors);
}

static void drop_case(wf_job_t *job, const wf_graph_t *graph, wf_job_case_t *kept)
{
    free_tensors(job, kept->inputs, graph->inputs.count);
    if (kept->outputs != NULL) {
        wf_interpret_free(job->allocator, kept->outputs, graph->outputs.count);
        wf_free(job->allocator, kept->outputs, graph->outputs.count, sizeof *kept->outputs);
    }
    *kept = (wf_job_case_t){0};
}

void wf_job_destroy(wf_job_t *job)
{
    if (job == NULL)
        return;
    for (size_t i = 0; i < job->part_count; i++) {
        wf_job_part_t *part = &job->parts[i];
        for (size_t k = 0; part->reference != NULL && k < WF_JOB_CASES_KEPT; k++)
            drop_case(job, part->reference, &part->cases[k]);
        wf_space_destroy(part->space);
        wf_graph_destroy(part->graph);
        wf_graph_destroy(part->reference);
    }
    wf_backends_close(job->backends);
    wf_arena_deinit(&job->arena);
    wf_free(job->allocator, job, 1, sizeof *job);
}

/* ---- routes ---- */

void wf_job_routes_free(wf_job_t *job, wf_route_t *routes)
{
    for (size_t i = 0; routes != NULL && i < job->part_count; i++)
        wf_route_deinit(&routes[i]);
    wf_free(job->allocator, routes, job->part_count, sizeof *routes);
}

wf_status_t wf_job_solve(wf_job_t *job, wf_route_t **out_routes)
{
    *out_routes = NULL;
    wf_route_t *routes = NULL;
    WF_TRY(wf_alloc(job->allocator, job->part_count, sizeof *routes, &routes));
    wf_status_t status = WF_OK;
    for (size_t i = 0; status == WF_OK && i < job->part_count; i++)
        status = wf_space_solve(job->parts[i].space, &routes[i]);
    if (status == WF_OK)
        *out_routes = routes;
    else
        wf_job_routes_free(job, routes);
    return status;
}

static void print_type(wf_text_t *text, const wf_type_t *type)
{
    wf_text_printf(text, "%s ", wf_dtype_name(type->dtype));
    if (type->rank == 0)
        wf_text_puts(text, "scalar");
    for (uint32_t d = 0; d < type->rank; d++)
        wf_text_printf(text, "%s%lld", d > 0 ? "x" : "", (long long)type->dims[d]);
}

static void print_inputs(wf_text_t *text, const wf_graph_t *graph)
{
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const wf_value_t *value = wf_graph_value(graph, graph->inputs.items[i]);
        wf_text_printf(text, "input %s ", value->name);
        print_type(text, &value->type);
        wf_text_puts(text, "\n");
    }
}

wf_status_t wf_job_lock(const wf_job_t *job, const wf_knobs_t *knobs, const wf_route_t *routes,
                        const char *evidence, wf_text_t *out_lock)
{
    wf_text_printf(out_lock, WF_LOCK_TITLE "\nversion %s\nmodel %s\nfingerprint %s\nthreads %u\nfit %s\n",
                   WF_VERSION_TEXT, job->model_hash, job->fingerprint, job->cpu.thread_count,
                   wf_fit_name(job->fit));
    wf_knobs_print(knobs != NULL ? knobs : &job->knobs, "setting ", out_lock);
    for (size_t i = 0; i < job->part_count; i++) {
        wf_text_printf(out_lock, "[part %zu]\n", i);
        print_inputs(out_lock, job->parts[i].graph);
        WF_TRY(wf_plan_print(job->parts[i].space, &routes[i], out_lock));
    }
    wf_text_puts(out_lock, evidence);
    return wf_text_take_status(out_lock);
}

static wf_status_t route_from_lock(wf_job_t *job, const char *lock, size_t index, wf_route_t *out_route)
{
    wf_lock_piece_t piece = wf_lock_part(lock, index);
    if (piece.data == NULL)
        return WF_ERROR(LOCK_MISMATCH, "the lock has no part %zu: it is for fewer shapes", index);
    wf_text_t inputs;
    wf_text_init(&inputs, job->allocator, 1u << 20);
    print_inputs(&inputs, job->parts[index].graph);
    wf_status_t status = wf_text_take_status(&inputs);
    if (status == WF_OK &&
        (piece.length < inputs.length || memcmp(piece.data, wf_text_cstr(&inputs), inputs.length) != 0)) {
        status = wf_status_hinted(
            WF_ERROR(LOCK_MISMATCH, "the lock is for other input shapes than %s", wf_text_cstr(&inputs)),
            "give the --shape options that the lock was made with");
    }
    if (status == WF_OK) {
        status = wf_plan_parse(job->parts[index].space, piece.data + inputs.length,
                               piece.length - inputs.length, out_route);
    }
    wf_text_deinit(&inputs);
    return status;
}

wf_status_t wf_job_routes_from_lock(wf_job_t *job, const char *lock, wf_route_t **out_routes)
{
    *out_routes = NULL;
    WF_TRY(wf_lock_check_title(lock));
    WF_TRY(wf_lock_check_field(lock, "version", WF_VERSION_TEXT));
    WF_TRY(wf_lock_check_field(lock, "model", job->model_hash));
    if (wf_lock_part(lock, job->part_count).data != NULL) {
        return WF_ERROR(LOCK_MISMATCH, "the lock is for more than %zu sets of shapes", job->part_count);
    }
    wf_route_t *routes = NULL;
    WF_TRY(wf_alloc(job->allocator, job->part_count, sizeof *routes, &routes));
    wf_status_t status = WF_OK;
    for (size_t i = 0; status == WF_OK && i < job->part_count; i++)
        status = route_from_lock(job, lock, i, &routes[i]);
    if (status == WF_OK)
        *out_routes = routes;
    else
        wf_job_routes_free(job, routes);
    return status;
}

/* ---- engines ---- */

static uint32_t run_flags(const wf_knobs_t *knobs)
{
    return (knobs->cpu_pin ? WF_RUN_PIN : 0u) | (knobs->cpu_static ? WF_RUN_STATIC : 0u) |
           (knobs->huge_pages ? 0u : WF_RUN_SMALL_PAGES);
}

/* `source` without parts and what the knobs decide. */
static wf_status_t write_engine(wf_job_t *job, const wf_route_t *routes, const wf_knobs_t *knobs,
                                wf_engine_source_t *source, uint8_t **out_bytes, size_t *out_length)
{
    wf_engine_part_t *parts = NULL;
    WF_TRY(wf_alloc(job->allocator, job->part_count, sizeof *parts, &parts));
    for (size_t i = 0; i < job->part_count; i++) {
        parts[i] = (wf_engine_part_t){job->parts[i].space, &routes[i], job->parts[i].fixed};
    }
    source->parts = parts;
    source->part_count = job->part_count;
    source->thread_count = job->cpu.thread_count;
    source->fit = job->fit;
    source->run_flags = run_flags(knobs);
    source->memory_reuse = knobs->memory_reuse;
    source->concat_inplace = knobs->concat_inplace;
    wf_status_t status = wf_engine_write(source, job->allocator, out_bytes, out_length);
    wf_free(job->allocator, parts, job->part_count, sizeof *parts);
    return status;
}

wf_status_t wf_job_engine(wf_job_t *job, const wf_route_t *routes, const char *lock, uint8_t **out_bytes,
                          size_t *out_length)
{
    wf_knobs_t knobs = job->knobs;
    WF_TRY(wf_job_lock_knobs(lock, &knobs));
    /* The fingerprint is the lock's, so that a rebuild under another quota has the same bytes. */
    wf_lock_piece_t field = wf_lock_field(lock, "fingerprint");
    wf_engine_source_t source = {.fingerprint = job->fingerprint, .lock = lock};
    if (field.data != NULL)
        WF_TRY(wf_arena_text(&job->arena, field.data, field.length, &source.fingerprint));
    return write_engine(job, routes, &knobs, &source, out_bytes, out_length);
}

wf_status_t wf_job_store(const wf_job_t *job, wf_constant_store_t *out_store)
{
    wf_constant_store_init(out_store, job->allocator);
    for (size_t i = 0; i < job->part_count; i++) {
        const wf_job_part_t *part = &job->parts[i];
        WF_TRY(wf_constant_store_add_graph(out_store, part->graph));
        for (size_t v = 0; part->fixed != NULL && v < part->reference->inputs.count; v++) {
            const wf_tensor_t *fixed = &part->fixed[v];
            if (fixed->data != NULL)
                WF_TRY(wf_constant_store_add(out_store, fixed->data, (uint64_t)wf_type_bytes(&fixed->type)));
        }
    }
    return WF_OK;
}

wf_status_t wf_job_link(wf_job_t *job, const wf_route_t *routes, const wf_knobs_t *knobs,
                        const wf_constant_store_t *store, uint8_t **out_bytes, size_t *out_length)
{
    wf_engine_source_t source = {.fingerprint = job->fingerprint, .lock = "", .store = store};
    return write_engine(job, routes, knobs, &source, out_bytes, out_length);
}

/* ---- check ---- */

/* An FP32 engine sums in another order than the reference: 1e-3 of an output's scale and a cosine of 0.99999
 * leave room for deep networks (measured: 2e-6 to 3e-5 of scale on the corpus) and none for a wrong kernel.
 * Integers are exact. */
bool wf_accuracy_gate(const wf_accuracy_t *accuracy, wf_dtype_t dtype)
{
    if (accuracy->nan_mismatches != 0)
        return false;
    if (accuracy->elems == 0)
        return accuracy->passed;
    if (dtype == WF_DTYPE_F16 || dtype == WF_DTYPE_BF16) {
        return accuracy->max_abs_of_scale <= 2e-2 && accuracy->cosine >= 0.9995;
    }
    if (dtype == WF_DTYPE_F32 || dtype == WF_DTYPE_F64) {
        return accuracy->max_abs_of_scale <= 1e-3 && accuracy->cosine >= 0.99999;
    }
    return accuracy->max_abs == 0;
}

static wf_status_t make_inputs(wf_job_t *job, const wf_job_part_t *part, uint64_t seed,
                               wf_tensor_t **out_inputs)
{
    const wf_graph_t *graph = part->reference;
    wf_tensor_t *inputs = NULL;
    WF_TRY(wf_alloc(job->allocator, graph->inputs.count, sizeof *inputs, &inputs));
    wf_status_t status = WF_OK;
    for (size_t i = 0; status == WF_OK && i < graph->inputs.count; i++) {
        const wf_value_t *value = wf_graph_value(graph, graph->inputs.items[i]);
        status = wf_tensor_make(&value->type, job->allocator, &inputs[i]);
        if (status != WF_OK)
            break;
        if (part->fixed != NULL && part->fixed[i].data != NULL) {
            memcpy(inputs[i].data, part->fixed[i].data, (size_t)wf_type_bytes(&value->type));
        } else {
            wf_seeded_fill(value->name, seed, &inputs[i]);
        }
    }
    if (status == WF_OK)
        *out_inputs = inputs;
    else
        free_tensors(job, inputs, graph->inputs.count);
    return status;
}

/* Hands the interpreter's progress on, and the answer back. */
typedef struct reference_progress {
    const wf_job_t *job;
    atomic_bool cancel;
} reference_progress_t;

static void tell_reference_progress(void *self, size_t node, size_t node_count)
{
    reference_progress_t *p = self;
    if (p->job->progress == NULL)
        return;
    if (p->job->progress(p->job->progress_self, "reference", (double)node / (double)node_count)) {
        atomic_store(&p->cancel, true);
    }
}

static wf_status_t compute_case(wf_job_t *job, const wf_job_part_t *part, uint64_t seed, wf_job_case_t *kept)
{
    const wf_graph_t *graph = part->reference;
    kept->seed = seed;
    WF_TRY(make_inputs(job, part, seed, &kept->inputs));
    WF_TRY(wf_alloc(job->allocator, graph->outputs.count, sizeof *kept->outputs, &kept->outputs));
    wf_pool_t *pool = NULL;
    WF_TRY(wf_pool_create(job->cpu.thread_count, false, job->allocator, &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    reference_progress_t progress = {.job = job};
    wf_interpret_options_t options = {.parallel = &parallel,
                                      .progress = tell_reference_progress,
                                      .progress_self = &progress,
                                      .cancel = &progress.cancel};
    wf_status_t status = wf_interpret(graph, kept->inputs, job->allocator, &options, kept->outputs);
    wf_pool_destroy(pool);
    return status;
}

/* Inputs and reference outputs for a seed, computed once. */
static wf_status_t find_case(wf_job_t *job, wf_job_part_t *part, uint64_t seed,
                             const wf_job_case_t **out_case)
{
    for (size_t i = 0; i < WF_JOB_CASES_KEPT; i++) {
        *out_case = &part->cases[i];
        if (part->cases[i].outputs != NULL && part->cases[i].seed == seed)
            return WF_OK;
    }
    wf_job_case_t *kept = &part->cases[part->next_case];
    part->next_case = (part->next_case + 1) % WF_JOB_CASES_KEPT;
    drop_case(job, part->reference, kept);
    wf_status_t status = compute_case(job, part, seed, kept);
    if (status != WF_OK)
        drop_case(job, part->reference, kept);
    *out_case = kept;
    return status;
}

wf_status_t wf_job_reference(wf_job_t *job, uint64_t seed)
{
    const wf_job_case_t *unused;
    for (size_t i = 0; i < job->part_count; i++)
        WF_TRY(find_case(job, &job->parts[i], seed, &unused));
    return WF_OK;
}

static wf_status_t report_output(json_t *report, size_t part, const char *name, const wf_accuracy_t *accuracy,
                                 bool passed)
{
    if (report == NULL)
        return WF_OK;
    json_t *row =
        json_pack("{s:I s:s s:f s:f s:f s:f s:f s:f s:f s:f s:I s:I s:b}", "part", (json_int_t)part, "output",
                  name, "max_abs", accuracy->max_abs, "max_abs_of_scale", accuracy->max_abs_of_scale,
                  "max_rel", accuracy->max_rel, "mean_abs", accuracy->mean_abs, "rms", accuracy->rms,
                  "cosine", accuracy->cosine, "sqnr_db", accuracy->sqnr_db, "top1_agreement",
                  accuracy->top1_agreement, "elems", (json_int_t)accuracy->elems, "nan_mismatches",
                  (json_int_t)accuracy->nan_mismatches, "passed", passed);
    return row != NULL && json_array_append_new(report, row) == 0 ? WF_OK : wf_status_out_of_memory();
}

static wf_status_t compare_outputs(const wf_job_part_t *part, size_t index, const wf_job_case_t *wanted,
                                   const wf_tensor_t *got, json_t *report)
{
    wf_status_t status = WF_OK;
    for (size_t i = 0; i < part->reference->outputs.count; i++) {
        const wf_value_t *value = wf_graph_value(part->reference, part->reference->outputs.items[i]);
        wf_accuracy_t accuracy = wf_accuracy_compare(&got[i], &wanted->outputs[i], 0, 0);
        bool passed = wf_accuracy_gate(&accuracy, value->type.dtype);
        status = wf_status_join(status, report_output(report, index, value->name, &accuracy, passed));
        if (passed || status != WF_OK)
            continue;
        status = wf_status_hinted(WF_ERROR(ACCURACY,
                                           "output %s disagrees with the reference: %.3g of its scale, "
                                           "cosine %.6f, %llu NaN or infinity "
                                           "mismatches (bound: 1e-3 of scale, cosine 0.99999)",
                                           value->name, accuracy.max_abs_of_scale, accuracy.cosine,
                                           (unsigned long long)accuracy.nan_mismatches),
                                  "report the model: an engine must not be wrong; -k source.onednn=off "
                                  "rebuilds it with other kernels");
    }
    return status;
}

static wf_status_t run_and_compare(wf_job_t *job, size_t index, const wf_engine_t *engine, uint64_t seed,
                                   json_t *report)
{
    wf_job_part_t *part = &job->parts[index];
    const wf_job_case_t *wanted;
    WF_TRY(find_case(job, part, seed, &wanted));
    size_t input_count = part->reference->inputs.count, output_count = part->reference->outputs.count;
    wf_tensor_t *got = NULL;
    const void **inputs = NULL;
    void **outputs = NULL;
    wf_context_t *context = NULL;
    WF_TRY(wf_alloc(job->allocator, output_count, sizeof *got, &got));
    wf_status_t status = wf_alloc(job->allocator, input_count, sizeof *inputs, &inputs);
    if (status == WF_OK)
        status = wf_alloc(job->allocator, output_count, sizeof *outputs, &outputs);
    for (size_t i = 0; status == WF_OK && i < output_count; i++) {
        status = wf_tensor_make(&wanted->outputs[i].type, job->allocator, &got[i]);
        /* A step that writes nothing must not pass by chance. */
        if (status == WF_OK)
            memset(got[i].data, 0xff, (size_t)wf_type_bytes(&got[i].type));
        if (status == WF_OK)
            outputs[i] = got[i].data;
    }
    for (size_t i = 0; status == WF_OK && i < input_count; i++)
        inputs[i] = wanted->inputs[i].data;
    if (status == WF_OK)
        status = wf_context_create(engine, index, &context);
    if (status == WF_OK)
        status = wf_context_run(context, inputs, outputs);
    wf_context_destroy(context);
    if (status == WF_OK)
        status = compare_outputs(part, index, wanted, got, report);
    wf_free(job->allocator, outputs, output_count, sizeof *outputs);
    wf_free(job->allocator, (void *)inputs, input_count, sizeof *inputs);
    free_tensors(job, got, output_count);
    return status;
}

wf_status_t wf_job_check(wf_job_t *job, const void *engine_bytes, size_t engine_length, uint64_t seed,
                         json_t *report)
{
    wf_engine_options_t options = {
        .struct_bytes = sizeof options, .isa = job->isa, .allocator = job->allocator, .log = job->log};
    wf_engine_t *engine = NULL;
    WF_TRY(wf_job_reference(job, seed));
    WF_TRY(wf_engine_open_bytes(engine_bytes, engine_length, &options, &engine));
    wf_status_t status = WF_OK;
    for (size_t i = 0; status == WF_OK && i < job->part_count; i++)
        status = run_and_compare(job, i, engine, seed, report);
    wf_engine_close(engine);
    return status;
}
