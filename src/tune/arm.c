/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/arm.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "runtime/engine.h"
#include "tune/stats.h"
#include "wayfinder/context.h"
#include "wayfinder/verify.h"

typedef struct side {
    wf_context_t *context;
    wf_tensor_t *inputs, *outputs;
    const void **input_data;
    void **output_data;
} side_t;

struct wf_arm {
    wf_allocator_t allocator;
    const wf_engine_t *engine;
    side_t *sides;
    size_t side_count, input_count, output_count;
    wf_times_t scratch;
    _Atomic uint64_t *beats; /* may be NULL */
};

/* The only value that the port may have, or seeded ones. */
static wf_status_t fill_input(const wf_engine_t *engine, size_t spec, size_t index, uint64_t seed,
                              wf_allocator_t allocator, wf_tensor_t *out_tensor)
{
    wf_port_info_t port = wf_engine_input(engine, spec, index);
    WF_TRY(wf_tensor_make(&port.type, allocator, out_tensor));
    const wf_image_t *image = &engine->image;
    const wf_engine_port_t *record = &image->ports[image->specs[spec].first_input + index];
    if (record->fixed != 0) {
        const wf_engine_constant_t *constant = &image->constants[record->fixed - 1];
        memcpy(out_tensor->data, image->constant_data + constant->offset, constant->bytes);
    } else {
        wf_seeded_fill(port.name, seed, out_tensor);
    }
    return WF_OK;
}

static wf_status_t side_init(wf_arm_t *arm, side_t *side, size_t spec, uint64_t seed)
{
    wf_allocator_t allocator = arm->allocator;
    WF_TRY(wf_alloc(allocator, arm->input_count, sizeof *side->inputs, &side->inputs));
    WF_TRY(wf_alloc(allocator, arm->output_count, sizeof *side->outputs, &side->outputs));
    WF_TRY(wf_alloc(allocator, arm->input_count, sizeof *side->input_data, &side->input_data));
    WF_TRY(wf_alloc(allocator, arm->output_count, sizeof *side->output_data, &side->output_data));
    for (size_t i = 0; i < arm->input_count; i++) {
        WF_TRY(fill_input(arm->engine, spec, i, seed, allocator, &side->inputs[i]));
        side->input_data[i] = side->inputs[i].data;
    }
    for (size_t i = 0; i < arm->output_count; i++) {
        wf_port_info_t port = wf_engine_output(arm->engine, spec, i);
        WF_TRY(wf_tensor_make(&port.type, allocator, &side->outputs[i]));
        side->output_data[i] = side->outputs[i].data;
    }
    return wf_context_create(arm->engine, spec, &side->context);
}

static void free_tensors(wf_allocator_t allocator, wf_tensor_t *tensors, size_t count)
{
    for (size_t i = 0; tensors != NULL && i < count; i++)
        wf_tensor_free(&tensors[i], allocator);
    wf_free(allocator, tensors, count, sizeof *tensors);
}

static void side_deinit(wf_arm_t *arm, side_t *side)
{
    wf_context_destroy(side->context);
    free_tensors(arm->allocator, side->inputs, arm->input_count);
    free_tensors(arm->allocator, side->outputs, arm->output_count);
    wf_free(arm->allocator, (void *)side->input_data, arm->input_count, sizeof *side->input_data);
    wf_free(arm->allocator, side->output_data, arm->output_count, sizeof *side->output_data);
}

wf_status_t wf_arm_create(const wf_engine_t *engine, const size_t *specs, size_t spec_count, uint64_t seed,
                          wf_allocator_t allocator, wf_arm_t **out_arm)
{
    *out_arm = NULL;
    wf_arm_t *arm = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *arm, &arm));
    arm->allocator = allocator;
    arm->engine = engine;
    arm->input_count = wf_engine_input_count(engine);
    arm->output_count = wf_engine_output_count(engine);
    arm->side_count = specs != NULL ? spec_count : wf_engine_spec_count(engine);
    wf_status_t status = wf_alloc(allocator, arm->side_count, sizeof *arm->sides, &arm->sides);
    for (size_t i = 0; status == WF_OK && i < arm->side_count; i++) {
        size_t spec = specs != NULL ? specs[i] : i;
        if (spec >= wf_engine_spec_count(engine)) {
            status =
                WF_ERROR(USAGE, "specialisation %zu: the engine has %zu", spec, wf_engine_spec_count(engine));
        } else {
            status = side_init(arm, &arm->sides[i], spec, seed);
        }
    }
    if (status == WF_OK)
        *out_arm = arm;
    else
        wf_arm_destroy(arm);
    return status;
}

void wf_arm_beat(wf_arm_t *arm, _Atomic uint64_t *beats)
{
    arm->beats = beats;
}

static void beat(const wf_arm_t *arm)
{
    if (arm->beats != NULL)
        atomic_fetch_add_explicit(arm->beats, 1, memory_order_relaxed);
}

void wf_arm_destroy(wf_arm_t *arm)
{
    if (arm == NULL)
        return;
    for (size_t i = 0; arm->sides != NULL && i < arm->side_count; i++)
        side_deinit(arm, &arm->sides[i]);
    wf_free(arm->allocator, arm->sides, arm->side_count, sizeof *arm->sides);
    wf_vec_deinit(arm->allocator, &arm->scratch);
    wf_free(arm->allocator, arm, 1, sizeof *arm);
}

wf_status_t wf_arm_warm(wf_arm_t *arm)
{
    for (size_t i = 0; i < arm->side_count; i++)
        WF_TRY(wf_context_run(arm->sides[i].context, arm->sides[i].input_data, arm->sides[i].output_data));
    beat(arm);
    return WF_OK;
}

wf_status_t wf_arm_run(wf_arm_t *arm, double *out_ns)
{
    double log_sum = 0;
    for (size_t i = 0; i < arm->side_count; i++) {
        const side_t *side = &arm->sides[i];
        uint64_t before = wf_clock_ns();
        WF_TRY(wf_context_run(side->context, side->input_data, side->output_data));
        uint64_t ns = wf_clock_ns() - before;
        log_sum += log((double)WF_MAX(ns, (uint64_t)1));
    }
    beat(arm);
    *out_ns = exp(log_sum / (double)arm->side_count);
    return WF_OK;
}

wf_status_t wf_arm_run_steps(wf_arm_t *arm, size_t side, uint64_t *out_step_ns)
{
    const side_t *at = &arm->sides[side];
    return wf_context_run_timed(at->context, at->input_data, at->output_data, out_step_ns);
}

wf_status_t wf_arm_sample(wf_arm_t *arm, size_t warm_runs, size_t runs_min, double least_ns,
                          wf_times_t *times, double *out_ns)
{
    for (size_t i = 0; i < warm_runs; i++)
        WF_TRY(wf_arm_warm(arm));
    arm->scratch.count = 0;
    double total_ns = 0;
    while (arm->scratch.count < runs_min || total_ns < least_ns) {
        double ns;
        WF_TRY(wf_arm_run(arm, &ns));
        total_ns += ns;
        WF_TRY(wf_vec_push(arm->allocator, &arm->scratch, &ns));
        if (times != NULL)
            WF_TRY(wf_vec_push(arm->allocator, times, &ns));
    }
    /* Others run now: idle threads of libgomp would spin on a CPU that their pool wants, for 5 ms. */
    for (size_t i = 0; warm_runs > 0 && i < arm->side_count; i++)
        wf_context_rest(arm->sides[i].context);
    *out_ns = wf_stats_median(arm->scratch.items, arm->scratch.count);
    return WF_OK;
}
