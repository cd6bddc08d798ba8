/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: file or bytes to image, sources for this machine, one prepared kernel per step. */
#include "runtime/engine.h"

#include <string.h>

#include "base/compiler.h"
#include "base/log.h"
#include "device/device.h"
#include "runtime/machine.h"

/* ---- preparing steps ---- */

/* Bytes that an operand or output occupies in the tactic's layout with the binding's stride; false when the
 * binding's range is smaller: the file is untrusted, and a kernel must never be sent outside it. */
static bool bind_holds(const wf_engine_binding_t *bind, const wf_type_t *type, wf_layout_t layout,
                       bool strided_ok)
{
    int64_t elems = wf_layout_elems(type, layout);
    int64_t stride = bind->row_stride_elems, row = type->rank >= 2 ? type->dims[1] : 0;
    uint64_t bits = wf_dtype_bits(type->dtype);
    size_t needed_bits;
    if (!wf_layout_exists(type, layout) || elems < 0)
        return false;
    if (stride != 0 && elems > 0) {
        int64_t span;
        if (!strided_ok || layout != WF_LAYOUT_LAST || stride < row || bits % 8 != 0)
            return false;
        if (!wf_i64_mul(elems / row - 1, stride, &span) || !wf_i64_add(span, row, &elems))
            return false;
    }
    if (!wf_size_mul((size_t)elems, bits, &needed_bits))
        return false;
    return bind->bytes >= needed_bits / 8 + (needed_bits % 8 != 0);
}

static wf_status_t damaged_step(const wf_engine_t *engine, const wf_prepared_t *prepared)
{
    return wf_status_hinted(WF_ERROR(ENGINE_INVALID,
                                     "engine file is damaged: the step of %s does not fit its problem %s",
                                     engine->image.strings + prepared->step->nodes, prepared->problem->text),
                            "build the engine again from its model");
}

static wf_status_t check_step(const wf_engine_t *engine, const wf_prepared_t *prepared,
                              const wf_layout_t *layouts)
{
    const wf_problem_t *problem = prepared->problem;
    const wf_engine_step_t *step = prepared->step;
    const wf_engine_binding_t *binds = &engine->image.binds[step->first_bind];
    const wf_tactic_needs_t *needs = &prepared->needs;
    /* More threads than the engine was built for may need more; a context then has memory for that. */
    bool same_threads = engine->thread_count <= engine->image.specs[0].thread_count;
    if (step->operand_count != problem->operand_count || step->output_count != problem->output_count ||
        needs->is_view) {
        return damaged_step(engine, prepared);
    }
    if (same_threads && step->workspace_bytes < needs->workspace_bytes) {
        if (prepared->source->version == NULL)
            return damaged_step(engine, prepared);
        /* Another version of a library may want more. */
        return wf_status_hinted(WF_ERROR(TACTIC_MISSING,
                                         "a tactic of %s needs %zu bytes of workspace here, %zu when the "
                                         "engine was built",
                                         prepared->source->name, needs->workspace_bytes,
                                         (size_t)step->workspace_bytes),
                                "build the engine again from its lock on this machine");
    }
    for (size_t i = 0; i < problem->operand_count; i++) {
        const wf_problem_operand_t *operand = &problem->operands[i];
        bool absent = operand->type.dtype == WF_DTYPE_NONE;
        if (absent != (binds[i].kind == WF_BIND_NONE))
            return damaged_step(engine, prepared);
        if (operand->is_const != (binds[i].kind == WF_BIND_CONSTANT))
            return damaged_step(engine, prepared);
        if (operand->is_const) {
            const wf_engine_constant_t *constant = &engine->image.constants[binds[i].index];
            wf_type_t type = wf_image_type(constant->dtype, constant->rank, constant->dims);
            if (!wf_type_equal(&type, &operand->type) || binds[i].offset != 0)
                return damaged_step(engine, prepared);
        } else if (!absent && !bind_holds(&binds[i], &operand->type, layouts[i], needs->reads_strided)) {
            return damaged_step(engine, prepared);
        }
    }
    for (size_t i = 0; i < problem->output_count; i++) {
        const wf_engine_binding_t *bind = &binds[problem->operand_count + i];
        if (!bind_holds(bind, &problem->outputs[i], layouts[problem->operand_count + i],
                        needs->writes_strided)) {
            return damaged_step(engine, prepared);
        }
    }
    if (needs->must_alias >= 0) {
        const wf_engine_binding_t *operand = &binds[needs->must_alias], *out = &binds[problem->operand_count];
        if (operand->kind != out->kind || operand->offset != out->offset)
            return damaged_step(engine, prepared);
    }
    return WF_OK;
}

static wf_tensor_t constant_tensor(const wf_image_t *image, uint32_t index)
{
    const wf_engine_constant_t *constant = &image->constants[index];
    return (wf_tensor_t){wf_image_type(constant->dtype, constant->rank, constant->dims),
                         (void *)(uintptr_t)(image->constant_data + constant->offset)};
}

/* Constants of the step, one per operand. */
static wf_status_t step_constants(wf_engine_t *engine, const wf_prepared_t *prepared,
                                  wf_tensor_t **out_constants)
{
    const wf_image_t *image = &engine->image;
    const wf_engine_binding_t *binds = &image->binds[prepared->step->first_bind];
    size_t count = prepared->problem->operand_count;
    WF_TRY(wf_arena_alloc(&engine->arena, count, sizeof **out_constants, out_constants));
    for (size_t i = 0; i < count; i++) {
        if (binds[i].kind == WF_BIND_CONSTANT)
            (*out_constants)[i] = constant_tensor(image, binds[i].index);
    }
    return WF_OK;
}

/* A kernel of this engine's own. */
static wf_status_t prepare_own(wf_engine_t *engine, wf_prepared_t *prepared, const char *text,
                               const char *tactic)
{
    wf_layout_t *layouts = NULL;
    wf_tensor_t *constants = NULL;
    WF_TRY(wf_problem_parse(text, strlen(text), &engine->arena, &prepared->problem));
    WF_TRY(wf_backends_find(engine->backends, tactic, &prepared->source, &prepared->self));
    const wf_problem_t *problem = prepared->problem;
    WF_TRY(wf_arena_alloc(&engine->arena, problem->operand_count + problem->output_count, sizeof *layouts,
                          &layouts));
    WF_TRY(prepared->source->query(prepared->self, problem, tactic, layouts, layouts + problem->operand_count,
                                   &prepared->needs));
    WF_TRY(check_step(engine, prepared, layouts));
    WF_TRY(step_constants(engine, prepared, &constants));
    return prepared->source->prepare(prepared->self, problem, tactic, constants, engine->allocator,
                                     &prepared->kernel);
}

/* A kernel of the cache, made there when it is the first of its kind. */
static wf_status_t prepare_cached(wf_engine_t *engine, wf_prepared_t *prepared, const char *text,
                                  const char *tactic)
{
    const wf_image_t *image = &engine->image;
    const wf_engine_step_t *step = prepared->step;
    uint64_t *places = NULL;
    wf_tensor_t *constants = NULL;
    WF_TRY(wf_arena_alloc(&engine->arena, step->operand_count, sizeof *places, &places));
    for (uint32_t i = 0; i < step->operand_count; i++) {
        const wf_engine_binding_t *bind = &image->binds[step->first_bind + i];
        places[i] = bind->kind == WF_BIND_CONSTANT ? image->constants[bind->index].offset : UINT64_MAX;
    }
    wf_cached_kernel_t *cached;
    WF_TRY(wf_kernel_cache_find(engine->cache, engine->backends, text, tactic, places, step->operand_count,
                                &cached));
    prepared->problem = cached->problem;
    prepared->source = cached->source;
    prepared->self = cached->self;
    prepared->needs = cached->needs;
    WF_TRY(check_step(engine, prepared, cached->layouts));
    WF_TRY(step_constants(engine, prepared, &constants));
    WF_TRY(wf_kernel_cache_prepare(engine->cache, cached, constants));
    prepared->cached = cached;
    prepared->kernel = cached->kernel;
    return WF_OK;
}

/* Gives back the source pages of a constant when the packed copy of a step is all that it needs, so that
 * loading never holds all weights twice. A later step that keeps the constant reads them from the file again.
 */
static void drop_constant(wf_engine_t *engine, uint32_t index)
{
    const wf_engine_constant_t *constant = &engine->image.constants[index];
    if (engine->mapping.data != NULL && !engine->constant_kept[index])
        wf_mapping_drop(engine->image.constant_data + constant->offset, constant->bytes);
}

static wf_status_t prepare_step(wf_engine_t *engine, wf_prepared_t *prepared)
{
    const wf_image_t *image = &engine->image;
    const wf_engine_problem_t *record = &image->problems[prepared->step->problem];
    const char *text = image->strings + record->text, *tactic = image->strings + record->tactic;
    WF_TRY(engine->cache != NULL ? prepare_cached(engine, prepared, text, tactic)
                                 : prepare_own(engine, prepared, text, tactic));
    engine->packed_bytes += prepared->needs.packed_bytes;
    bool keeps = prepared->source->keeps_constants != NULL &&
                 prepared->source->keeps_constants(prepared->self, prepared->kernel);
    const wf_engine_binding_t *binds = &image->binds[prepared->step->first_bind];
    for (size_t i = 0; i < prepared->problem->operand_count; i++) {
        if (binds[i].kind != WF_BIND_CONSTANT)
            continue;
        if (keeps)
            engine->constant_kept[binds[i].index] = true;
        else
            drop_constant(engine, binds[i].index);
    }
    return WF_OK;
}

static wf_status_t prepare_all(wf_engine_t *engine)
{
    const wf_image_t *image = &engine->image;
    WF_TRY(wf_arena_alloc(&engine->arena, image->step_count, sizeof *engine->prepared, &engine->prepared));
    WF_TRY(wf_arena_alloc(&engine->arena, image->constant_count, sizeof *engine->constant_kept,
                          &engine->constant_kept));
    for (size_t i = 0; i < image->step_count; i++) {
        wf_prepared_t *prepared = &engine->prepared[i];
        prepared->step = &image->steps[i];
        if (prepared->step->kind == WF_STEP_COPY) {
            for (uint32_t b = 0; b < 2; b++) {
                const wf_engine_binding_t *bind = &image->binds[prepared->step->first_bind + b];
                if (bind->kind == WF_BIND_CONSTANT)
                    engine->constant_kept[bind->index] = true;
            }
            continue;
        }
        wf_status_t status = prepare_step(engine, prepared);
        if (status != WF_OK) {
            return wf_status_annotated(status, "step %zu (%s)", i, image->strings + prepared->step->nodes);
        }
    }
    for (size_t i = 0; i < image->port_count; i++) {
        if (image->ports[i].fixed != 0)
            engine->constant_kept[image->ports[i].fixed - 1] = true;
    }
    return WF_OK;
}

/* ---- opening ---- */

/* Tactics decide whether a portable engine can be used (their ids name the CPU tier); another fingerprint
 * only means that the choice was measured elsewhere. */
static void note_machine(const wf_engine_t *engine, const char *here, const wf_engine_options_t *options)
{
    const char *there = engine->image.fingerprint;
    size_t common = WF_MIN(strlen(here), engine->image.fingerprint_bytes);
    if (!options->ignore_fingerprint && engine->image.fingerprint_bytes > 0 &&
        memcmp(there, here, common) != 0) {
        wf_log_line(&options->log, WF_LOG_WARN, "engine was made for another machine (%.*s); this one is %s",
                    (int)engine->image.fingerprint_bytes, there, here);
    }
}

static wf_status_t open_image(wf_engine_t *engine, const wf_engine_options_t *options)
{
    const wf_image_t *image = &engine->image;
    wf_device_t device;
    wf_text_t here;
    WF_TRY(wf_device_detect(options->isa, &device));
    wf_text_init(&here, engine->allocator, 4096);
    wf_device_fingerprint(&device, &here);
    wf_status_t fits = wf_text_take_status(&here);
    if (fits == WF_OK)
        fits = wf_machine_check(image, wf_text_cstr(&here), options->ignore_fingerprint);
    if (fits == WF_OK)
        note_machine(engine, wf_text_cstr(&here), options);
    wf_text_deinit(&here);
    WF_TRY(fits);
    engine->thread_count = options->thread_count != 0 ? options->thread_count : image->specs[0].thread_count;
    wf_cpu_t cpu = wf_device_cpu(&device, engine->thread_count);
    WF_TRY(engine->cache != NULL
               ? wf_kernel_cache_backends(engine->cache, &cpu, &engine->backends)
               : wf_backends_open(&cpu, NULL, engine->allocator, options->log, &engine->backends));
    WF_TRY(prepare_all(engine));
    /* Sources that are merely there change nothing: our own pool is the faster one. */
    for (size_t i = 0; i < image->step_count; i++) {
        const wf_prepared_t *prepared = &engine->prepared[i];
        engine->openmp |= prepared->kernel != NULL && prepared->source->needs_openmp != NULL &&
                          prepared->source->needs_openmp(prepared->self);
    }
    wf_log_line(&options->log, WF_LOG_DEBUG, "engine: %zu steps prepared, %zu bytes packed",
                image->step_count, engine->packed_bytes);
    return WF_OK;
}

static wf_status_t engine_new(const wf_engine_options_t *options, wf_engine_options_t *out_options,
                              wf_engine_t **out_engine)
{
    static const wf_engine_options_t defaults = {.struct_bytes = sizeof defaults};
    memset(out_options, 0, sizeof *out_options);
    if (options == NULL)
        options = &defaults;
    if (options->struct_bytes < offsetof(wf_engine_options_t, thread_count) ||
        options->struct_bytes > sizeof *out_options) {
        return WF_ERROR(USAGE, "wf_engine_options_t.struct_bytes is %u, this library knows %zu",
                        options->struct_bytes, sizeof *out_options);
    }
    memcpy(out_options, options, options->struct_bytes);
    if (out_options->allocator.resize == NULL)
        out_options->allocator = wf_allocator_system();
    if (out_options->thread_count > WF_THREADS_MAX) {
        return WF_ERROR(USAGE, "%u threads: at most %u", out_options->thread_count, WF_THREADS_MAX);
    }
    WF_TRY(wf_alloc(out_options->allocator, 1, sizeof **out_engine, out_engine));
    (*out_engine)->allocator = out_options->allocator;
    wf_arena_init(&(*out_engine)->arena, out_options->allocator);
    return WF_OK;
}

static wf_status_t finish_open(wf_engine_t *engine, const wf_engine_options_t *options, const void *bytes,
                               size_t length, wf_engine_t **out_engine)
{
    wf_status_t status =
        engine->cache != NULL
            ? wf_image_open_linked(bytes, length, wf_kernel_cache_constants(engine->cache),
                                   wf_kernel_cache_constant_bytes(engine->cache), &engine->image)
            : wf_image_open(bytes, length, true, &engine->image);
    if (status == WF_OK)
        status = open_image(engine, options);
    if (status == WF_OK)
        *out_engine = engine;
    else
        wf_engine_close(engine);
    return status;
}

wf_status_t wf_engine_open(const char *path, const wf_engine_options_t *options, wf_engine_t **out_engine)
{
    *out_engine = NULL;
    wf_engine_options_t known;
    wf_engine_t *engine = NULL;
    WF_TRY(engine_new(options, &known, &engine));
    wf_status_t status = wf_machine_check_file(path, &known);
    if (status == WF_OK)
        status = wf_mapping_open(path, &engine->mapping);
    if (status != WF_OK) {
        wf_engine_close(engine);
        return status;
    }
    return wf_status_annotated(
        finish_open(engine, &known, engine->mapping.data, engine->mapping.bytes, out_engine), "%s", path);
}

wf_status_t wf_engine_open_bytes(const void *bytes, size_t length, const wf_engine_options_t *options,
                                 wf_engine_t **out_engine)
{
    *out_engine = NULL;
    wf_engine_options_t known;
    wf_engine_t *engine = NULL;
    WF_TRY(engine_new(options, &known, &engine));
    return finish_open(engine, &known, bytes, length, out_engine);
}

wf_status_t wf_engine_open_linked(const void *bytes, size_t length, const wf_engine_options_t *options,
                                  wf_kernel_cache_t *cache, wf_engine_t **out_engine)
{
    *out_engine = NULL;
    wf_engine_options_t known;
    wf_engine_t *engine = NULL;
    WF_TRY(engine_new(options, &known, &engine));
    engine->cache = cache;
    return finish_open(engine, &known, bytes, length, out_engine);
}

void wf_engine_close(wf_engine_t *engine)
{
    if (engine == NULL)
        return;
    for (size_t i = 0; engine->prepared != NULL && i < engine->image.step_count; i++) {
        wf_prepared_t *prepared = &engine->prepared[i];
        if (prepared->cached != NULL)
            wf_kernel_cache_leave(prepared->cached);
        else if (prepared->kernel != NULL)
            prepared->source->release(prepared->self, prepared->kernel);
    }
    if (engine->cache == NULL)
        wf_backends_close(engine->backends);
    wf_arena_deinit(&engine->arena);
    wf_mapping_close(&engine->mapping);
    wf_free(engine->allocator, engine, 1, sizeof *engine);
}

/* ---- facts ---- */

size_t wf_engine_spec_count(const wf_engine_t *engine)
{
    return engine->image.spec_count;
}

size_t wf_engine_input_count(const wf_engine_t *engine)
{
    return engine->image.specs[0].input_count;
}

size_t wf_engine_output_count(const wf_engine_t *engine)
{
    return engine->image.specs[0].output_count;
}

static wf_port_info_t port_info(const wf_engine_t *engine, size_t index)
{
    const wf_engine_port_t *port = &engine->image.ports[index];
    return (wf_port_info_t){engine->image.strings + port->name,
                            wf_image_type(port->dtype, port->rank, port->dims)};
}

wf_port_info_t wf_engine_input(const wf_engine_t *engine, size_t spec, size_t index)
{
    return port_info(engine, engine->image.specs[spec].first_input + index);
}

wf_port_info_t wf_engine_output(const wf_engine_t *engine, size_t spec, size_t index)
{
    return port_info(engine, engine->image.specs[spec].first_output + index);
}

bool wf_engine_fixed_input(const wf_engine_t *engine, size_t spec, size_t index, wf_tensor_t *out_value)
{
    const wf_engine_port_t *port = &engine->image.ports[engine->image.specs[spec].first_input + index];
    if (port->fixed != 0)
        *out_value = constant_tensor(&engine->image, port->fixed - 1);
    return port->fixed != 0;
}

static void append_types(const wf_engine_t *engine, size_t spec, wf_text_t *text)
{
    for (size_t i = 0; i < wf_engine_input_count(engine); i++) {
        wf_port_info_t port = wf_engine_input(engine, spec, i);
        wf_text_printf(text, "%s%s:%s[", i > 0 ? " " : "", port.name, wf_dtype_name(port.type.dtype));
        for (uint32_t d = 0; d < port.type.rank; d++) {
            wf_text_printf(text, "%s%lld", d > 0 ? "x" : "", (long long)port.type.dims[d]);
        }
        wf_text_puts(text, "]");
    }
}

wf_status_t wf_engine_find_spec(const wf_engine_t *engine, const wf_type_t *types, size_t count,
                                size_t *out_spec)
{
    if (count != wf_engine_input_count(engine)) {
        return WF_ERROR(INPUT_MISSING, "the engine has %zu inputs, %zu were given",
                        wf_engine_input_count(engine), count);
    }
    for (size_t s = 0; s < engine->image.spec_count; s++) {
        bool same = true;
        for (size_t i = 0; same && i < count; i++) {
            wf_port_info_t port = wf_engine_input(engine, s, i);
            same = wf_type_equal(&port.type, &types[i]);
        }
        if (same) {
            *out_spec = s;
            return WF_OK;
        }
    }
    wf_text_t text;
    wf_text_init(&text, engine->allocator, 4096);
    for (size_t s = 0; s < engine->image.spec_count; s++) {
        if (s > 0)
            wf_text_puts(&text, " or ");
        append_types(engine, s, &text);
    }
    wf_status_t status = wf_status_hinted(
        WF_ERROR(INPUT_MISMATCH, "inputs have shapes or types that the engine was not built for; it takes %s",
                 wf_text_cstr(&text)),
        "give inputs of these shapes, or build an engine with --shape for yours");
    wf_text_deinit(&text);
    return status;
}

wf_engine_facts_t wf_engine_facts(const wf_engine_t *engine)
{
    const wf_image_t *image = &engine->image;
    wf_engine_facts_t facts = {.thread_count = engine->thread_count,
                               .step_count = image->specs[0].step_count,
                               .constant_bytes = image->constant_data_bytes,
                               .packed_bytes = engine->packed_bytes,
                               .file_bytes = image->length,
                               .fingerprint = image->fingerprint,
                               .lock = image->lock,
                               .fit = wf_machine_fit_name(image)};
    for (size_t i = 0; i < image->spec_count; i++)
        facts.arena_bytes = WF_MAX(facts.arena_bytes, image->specs[i].arena_bytes);
    wf_engine_header_t header;
    memcpy(&header, image->bytes, sizeof header);
    wf_hash_text((wf_hash_t){header.content_hash[0], header.content_hash[1]}, facts.content_hash);
    return facts;
}

size_t wf_engine_step_count(const wf_engine_t *engine, size_t spec)
{
    return engine->image.specs[spec].step_count;
}

wf_step_info_t wf_engine_step(const wf_engine_t *engine, size_t spec, size_t index)
{
    const wf_prepared_t *prepared = &engine->prepared[engine->image.specs[spec].first_step + index];
    const char *strings = engine->image.strings;
    wf_step_info_t info = {.nodes = strings + prepared->step->nodes, .problem = "copy", .tactic = "copy"};
    if (prepared->kernel != NULL) {
        const wf_engine_problem_t *record = &engine->image.problems[prepared->step->problem];
        info.problem = strings + record->text;
        info.tactic = strings + record->tactic;
        info.workspace_bytes = prepared->needs.workspace_bytes;
        info.allocates = prepared->needs.allocates_at_launch;
        wf_hash_text((wf_hash_t){prepared->problem->hash[0], prepared->problem->hash[1]}, info.problem_hash);
    }
    return info;
}
