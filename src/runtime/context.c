/* SPDX-License-Identifier: Apache-2.0 */
/* Running: binds the caller's buffers and launches the steps of one specialisation in order. */
#include "wayfinder/context.h"

#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/parallel.h"
#include "runtime/engine.h"

/* An arena of at least this size is aligned to and advised for 2 MB pages: stream 25.3 against 23.6 GB/s, far
 * reads 7.2 against 10.1 ns (cpu notes, 2 vCPU Xeon). */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* A binding that depends on the caller's buffers. */
typedef struct patch {
    void **slot;
    bool is_output;
    uint32_t port;
    uint64_t offset;
} patch_t;

typedef struct bound_step {
    const wf_prepared_t *prepared;
    wf_view_t *views; /* operands, then outputs */
    void *workspace;
    uint64_t copy_bytes;
} bound_step_t;

struct wf_context {
    const wf_engine_t *engine;
    const wf_engine_spec_t *spec;
    wf_allocator_t allocator;
    wf_arena_t memory; /* everything below but the tensor arena */
    uint8_t *arena;
    size_t arena_bytes, arena_alignment;
    size_t spare_offset; /* in the arena: workspace of steps that need more than was planned for them */
    bound_step_t *steps;
    patch_t *patches;
    size_t patch_count;
    wf_pool_t *pool;
    wf_parallel_t parallel;
};

static void *constant_data(const wf_engine_t *engine, uint32_t index)
{
    return (void *)(uintptr_t)(engine->image.constant_data + engine->image.constants[index].offset);
}

static void bind_view(wf_context_t *context, const wf_engine_binding_t *bind, wf_view_t *view)
{
    view->row_stride_elems = bind->row_stride_elems;
    switch (bind->kind) {
    case WF_BIND_ARENA:
        view->data = context->arena + bind->offset;
        break;
    case WF_BIND_CONSTANT:
        view->data = constant_data(context->engine, bind->index);
        break;
    case WF_BIND_INPUT:
    case WF_BIND_OUTPUT:
        context->patches[context->patch_count++] =
            (patch_t){&view->data, bind->kind == WF_BIND_OUTPUT, bind->index, bind->offset};
        break;
    default:
        view->data = NULL;
    }
}

static wf_status_t bind_steps(wf_context_t *context)
{
    const wf_engine_t *engine = context->engine;
    const wf_engine_spec_t *spec = context->spec;
    size_t bind_count = 0;
    for (uint32_t s = 0; s < spec->step_count; s++) {
        const wf_engine_step_t *step = &engine->image.steps[spec->first_step + s];
        bind_count += (size_t)step->operand_count + step->output_count;
    }
    wf_view_t *views = NULL;
    WF_TRY(wf_arena_alloc(&context->memory, bind_count, sizeof *views, &views));
    WF_TRY(wf_arena_alloc(&context->memory, bind_count, sizeof *context->patches, &context->patches));
    WF_TRY(wf_arena_alloc(&context->memory, spec->step_count, sizeof *context->steps, &context->steps));
    for (uint32_t s = 0; s < spec->step_count; s++) {
        const wf_prepared_t *prepared = &engine->prepared[spec->first_step + s];
        const wf_engine_step_t *step = prepared->step;
        const wf_engine_binding_t *binds = &engine->image.binds[step->first_bind];
        bound_step_t *bound = &context->steps[s];
        *bound = (bound_step_t){.prepared = prepared, .views = views, .copy_bytes = binds[0].bytes};
        if (prepared->needs.workspace_bytes > step->workspace_bytes)
            bound->workspace = context->arena + context->spare_offset;
        else if (step->workspace_bytes > 0)
            bound->workspace = context->arena + step->workspace_offset;
        for (uint32_t b = 0; b < step->operand_count + step->output_count; b++)
            bind_view(context, &binds[b], views++);
    }
    return WF_OK;
}

static wf_status_t make_arena(wf_context_t *context)
{
    const wf_engine_spec_t *spec = context->spec;
    size_t spare_bytes = 0;
    for (uint32_t s = 0; s < spec->step_count; s++) {
        const wf_prepared_t *prepared = &context->engine->prepared[spec->first_step + s];
        if (prepared->needs.workspace_bytes > prepared->step->workspace_bytes)
            spare_bytes = WF_MAX(spare_bytes, prepared->needs.workspace_bytes);
    }
    size_t planned_bytes = WF_MAX(spec->arena_bytes, (uint64_t)WF_ENGINE_ALIGN);
    if (!wf_size_align(planned_bytes, WF_ENGINE_ALIGN, &context->spare_offset) ||
        !wf_size_add(context->spare_offset, spare_bytes, &context->arena_bytes)) {
        return WF_ERROR(OUT_OF_MEMORY, "the memory of a context cannot be addressed");
    }
    context->arena_alignment = context->arena_bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : WF_ENGINE_ALIGN;
    WF_TRY(wf_alloc_aligned(context->allocator, context->arena_bytes, 1, context->arena_alignment,
                            &context->arena));
    bool small = (context->spec->run_flags & WF_RUN_SMALL_PAGES) != 0;
    if (context->arena_alignment == HUGE_PAGE_BYTES)
        (void)madvise(context->arena, context->arena_bytes, small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    memset(context->arena, 0, context->arena_bytes); /* first touch here, not in the first run */
    return WF_OK;
}

wf_status_t wf_context_create(const wf_engine_t *engine, size_t spec, wf_context_t **out_context)
{
    *out_context = NULL;
    if (spec >= engine->image.spec_count) {
        return WF_ERROR(USAGE, "specialisation %zu: the engine has %zu", spec, engine->image.spec_count);
    }
    wf_context_t *context = NULL;
    WF_TRY(wf_alloc(engine->allocator, 1, sizeof *context, &context));
    context->engine = engine;
    context->spec = &engine->image.specs[spec];
    context->allocator = engine->allocator;
    wf_arena_init(&context->memory, engine->allocator);
    wf_status_t status = make_arena(context);
    if (status == WF_OK)
        status = bind_steps(context);
    if (status == WF_OK) {
        status = wf_pool_create(engine->thread_count, engine->openmp, engine->allocator, &context->pool);
    }
    if (status != WF_OK) {
        wf_context_destroy(context);
        return status;
    }
    wf_pool_deal_equally(context->pool, (context->spec->run_flags & WF_RUN_STATIC) != 0);
    if ((context->spec->run_flags & WF_RUN_PIN) != 0)
        (void)wf_pool_pin(context->pool, true); /* where it cannot be, it runs all the same */
    context->parallel = wf_pool_parallel(context->pool);
    *out_context = context;
    return WF_OK;
}

void wf_context_destroy(wf_context_t *context)
{
    if (context == NULL)
        return;
    wf_pool_destroy(context->pool);
    wf_free_aligned(context->allocator, context->arena, context->arena_bytes, 1, context->arena_alignment);
    wf_arena_deinit(&context->memory);
    wf_free(context->allocator, context, 1, sizeof *context);
}

void wf_context_rest(wf_context_t *context)
{
    wf_pool_rest(context->pool);
}

static wf_status_t check_fixed_inputs(const wf_context_t *context, const void *const *inputs)
{
    const wf_image_t *image = &context->engine->image;
    for (uint32_t i = 0; i < context->spec->input_count; i++) {
        const wf_engine_port_t *port = &image->ports[context->spec->first_input + i];
        if (port->fixed == 0)
            continue;
        const wf_engine_constant_t *constant = &image->constants[port->fixed - 1];
        if (constant->bytes > 0 &&
            memcmp(inputs[i], constant_data(context->engine, port->fixed - 1), constant->bytes) != 0) {
            return wf_status_hinted(
                WF_ERROR(INPUT_MISMATCH, "input %s has another value than the one the engine was built for",
                         image->strings + port->name),
                "its value decides shapes inside the model: build an engine for this value");
        }
    }
    return WF_OK;
}

static wf_status_t run_step(const wf_context_t *context, const bound_step_t *step)
{
    const wf_prepared_t *prepared = step->prepared;
    if (prepared->kernel == NULL) {
        if (step->copy_bytes > 0)
            memcpy(step->views[1].data, step->views[0].data, step->copy_bytes);
        return WF_OK;
    }
    wf_status_t status = prepared->source->launch(prepared->self, prepared->kernel, step->views,
                                                  step->views + prepared->step->operand_count,
                                                  step->workspace, &context->parallel);
    if (status == WF_OK)
        return WF_OK;
    return wf_status_annotated(status, "node %s", context->engine->image.strings + prepared->step->nodes);
}

static wf_status_t run(wf_context_t *context, const void *const *inputs, void *const *outputs,
                       uint64_t *out_step_ns)
{
    WF_TRY(check_fixed_inputs(context, inputs));
    for (size_t i = 0; i < context->patch_count; i++) {
        const patch_t *patch = &context->patches[i];
        uint8_t *base = patch->is_output ? outputs[patch->port] : (void *)(uintptr_t)inputs[patch->port];
        *patch->slot = base + patch->offset;
    }
    uint32_t fpu = wf_fpu_fast();
    wf_pool_begin(context->pool);
    wf_status_t status = WF_OK;
    uint64_t before = out_step_ns != NULL ? wf_clock_ns() : 0;
    for (uint32_t s = 0; status == WF_OK && s < context->spec->step_count; s++) {
        status = run_step(context, &context->steps[s]);
        if (out_step_ns != NULL) {
            uint64_t now = wf_clock_ns();
            out_step_ns[s] = now - before;
            before = now;
        }
    }
    wf_pool_end(context->pool);
    wf_fpu_restore(fpu);
    return status;
}

wf_status_t wf_context_run(wf_context_t *context, const void *const *inputs, void *const *outputs)
{
    return run(context, inputs, outputs, NULL);
}

wf_status_t wf_context_run_timed(wf_context_t *context, const void *const *inputs, void *const *outputs,
                                 uint64_t *out_step_ns)
{
    return run(context, inputs, outputs, out_step_ns);
}
