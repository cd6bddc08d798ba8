/* SPDX-License-Identifier: Apache-2.0 */
/* The contract's calls, over the table of families. */
#include "backends/native/native.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define VARIANTS_MAX 96u

const wf_native_family_t *const wf_native_families[] = {
#define X(symbol) &wf_native_family_##symbol,
#include "backends/native/families.def"
#undef X
};
const size_t wf_native_family_count = WF_COUNT_OF(wf_native_families);

/* ---- open ---- */

static wf_status_t native_open(const wf_cpu_t *cpu, wf_allocator_t allocator, wf_log_t log, void **out_self)
{
    *out_self = NULL;
    wf_native_t *native = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *native, &native));
    native->allocator = allocator;
    native->log = log;
    native->cpu = *cpu;
    for (uint32_t i = 0; i < wf_native_tier_count; i++) {
        if ((cpu->tier_mask & WF_TIER_BIT(wf_native_tiers[i].tier)) != 0)
            native->kernel_tier = i;
    }
    *out_self = native;
    return WF_OK;
}

static void native_close(void *self)
{
    wf_native_t *native = self;
    if (native != NULL)
        wf_free(native->allocator, native, 1, sizeof *native);
}

/* ---- plans ---- */

/* Layout arrays of a plan; freed with plan_free. */
typedef struct plan_memory {
    wf_layout_t *layouts;
    size_t count;
} plan_memory_t;

static wf_status_t plan_begin(const wf_native_t *native, const wf_problem_t *problem, plan_memory_t *memory,
                              wf_native_plan_t *plan)
{
    memory->count = problem->operand_count + problem->output_count;
    WF_TRY(wf_alloc(native->allocator, memory->count, sizeof *memory->layouts, &memory->layouts));
    plan->operand_layouts = memory->layouts;
    plan->output_layouts = memory->layouts + problem->operand_count;
    return WF_OK;
}

static void plan_reset(const plan_memory_t *memory, wf_native_plan_t *plan)
{
    memset(memory->layouts, 0, memory->count * sizeof *memory->layouts);
    *plan = (wf_native_plan_t){.operand_layouts = plan->operand_layouts,
                               .output_layouts = plan->output_layouts,
                               .needs = {.may_alias = -1, .must_alias = -1}};
}

static void plan_free(const wf_native_t *native, const plan_memory_t *memory)
{
    wf_free(native->allocator, memory->layouts, memory->count, sizeof *memory->layouts);
}

/* Plans and checks that layouts exist. */
static wf_native_verdict_t plan_variant(const wf_native_t *native, const wf_problem_t *problem,
                                        const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    wf_native_verdict_t verdict = variant->family->plan(native, problem, variant, plan);
    for (size_t i = 0; verdict.fits && i < problem->operand_count; i++) {
        if (problem->operands[i].type.dtype == WF_DTYPE_NONE || problem->operands[i].is_const)
            continue;
        if (!wf_layout_exists(&problem->operands[i].type, plan->operand_layouts[i]))
            plan->operand_layouts[i] = WF_LAYOUT_ROW;
    }
    for (size_t i = 0; verdict.fits && i < problem->output_count; i++) {
        if (!wf_layout_exists(&problem->outputs[i], plan->output_layouts[i])) {
            return WF_NATIVE_NO(SHAPE, "the output has no such layout");
        }
    }
    return verdict;
}

/* ---- list ---- */

static size_t enumerate(const wf_native_t *native, const wf_native_family_t *family,
                        const wf_problem_t *problem, wf_native_variant_t *variants)
{
    memset(variants, 0, VARIANTS_MAX * sizeof *variants);
    size_t count = 1;
    if (family->variants != NULL)
        count = WF_MIN(family->variants(native, problem, variants, VARIANTS_MAX), VARIANTS_MAX);
    for (size_t i = 0; i < count; i++) {
        variants[i].family = family;
        variants[i].tier = family->has_tier ? native->kernel_tier : 0;
    }
    return count;
}

/* Families list what they would choose without measuring first. Most estimates do not see blocking, and among
 * equals the default route would go by the text of the id. */
#define ORDER_WEIGHT 1e-5

static wf_status_t list_family(const wf_native_t *native, const wf_native_family_t *family,
                               const wf_problem_t *problem, const wf_tactic_sink_t *sink,
                               const plan_memory_t *memory, wf_native_plan_t *plan)
{
    wf_native_verdict_t verdict = family->match(native, problem);
    if (!verdict.fits) {
        if (verdict.text != NULL)
            sink->decline(sink->self, family->name, verdict.reason, verdict.text);
        return WF_OK;
    }
    wf_native_variant_t variants[VARIANTS_MAX];
    size_t count = enumerate(native, family, problem, variants), offered = 0;
    for (size_t i = 0; i < count; i++) {
        plan_reset(memory, plan);
        verdict = plan_variant(native, problem, &variants[i], plan);
        WF_TRY(verdict.broken);
        if (!verdict.fits)
            continue;
        wf_tactic_t tactic = {.operand_layouts = plan->operand_layouts,
                              .output_layouts = plan->output_layouts,
                              .estimate_ns = plan->estimate_ns * (1 + ORDER_WEIGHT * (double)i),
                              .deterministic = !plan->not_deterministic,
                              .exact = !plan->not_exact};
        wf_native_id_print(&variants[i], tactic.id);
        WF_TRY(sink->offer(sink->self, &tactic));
        offered++;
    }
    if (offered == 0)
        sink->decline(sink->self, family->name, verdict.reason,
                      verdict.text != NULL ? verdict.text : "no variant fits");
    return WF_OK;
}

static wf_status_t native_list(void *self, const wf_problem_t *problem, const wf_tactic_sink_t *sink)
{
    const wf_native_t *native = self;
    plan_memory_t memory = {0};
    wf_native_plan_t plan = {0};
    WF_TRY(plan_begin(native, problem, &memory, &plan));
    wf_status_t status = WF_OK;
    for (size_t i = 0; status == WF_OK && i < wf_native_family_count; i++) {
        status = list_family(native, wf_native_families[i], problem, sink, &memory, &plan);
    }
    plan_free(native, &memory);
    return status;
}

/* ---- query ---- */

static wf_status_t find_variant(const wf_native_t *native, const wf_problem_t *problem, const char *id,
                                wf_native_variant_t *out_variant, wf_native_plan_t *plan)
{
    if (!wf_native_id_parse(id, out_variant)) {
        return wf_status_hinted(WF_ERROR(TACTIC_MISSING, "tactic %s is not in this version", id),
                                "build the engine again with this version");
    }
    wf_tier_t tier = wf_native_tiers[out_variant->tier].tier;
    if (out_variant->family->has_tier && (native->cpu.tier_mask & WF_TIER_BIT(tier)) == 0) {
        return wf_status_hinted(
            WF_ERROR(TACTIC_MISSING,
                     "tactic %s needs the CPU tier %s, which this machine does not have or which is masked",
                     id, wf_tier_name(tier)),
            "build the engine again on this machine");
    }
    wf_native_verdict_t verdict = out_variant->family->match(native, problem);
    if (verdict.fits)
        verdict = plan_variant(native, problem, out_variant, plan);
    if (verdict.fits || verdict.broken != WF_OK)
        return verdict.broken;
    return WF_ERROR(TACTIC_MISSING, "tactic %s does not do %s: %s", id, problem->text,
                    verdict.text != NULL ? verdict.text : "another kind of problem");
}

static wf_status_t native_query(void *self, const wf_problem_t *problem, const char *tactic_id,
                                wf_layout_t *out_operand_layouts, wf_layout_t *out_output_layouts,
                                wf_tactic_needs_t *out_needs)
{
    const wf_native_t *native = self;
    plan_memory_t memory = {0};
    wf_native_plan_t plan = {0};
    wf_native_variant_t variant;
    WF_TRY(plan_begin(native, problem, &memory, &plan));
    plan_reset(&memory, &plan);
    wf_status_t status = find_variant(native, problem, tactic_id, &variant, &plan);
    if (status == WF_OK) {
        *out_needs = plan.needs;
        if (out_operand_layouts != NULL) {
            memcpy(out_operand_layouts, plan.operand_layouts,
                   problem->operand_count * sizeof *out_operand_layouts);
        }
        if (out_output_layouts != NULL) {
            memcpy(out_output_layouts, plan.output_layouts,
                   problem->output_count * sizeof *out_output_layouts);
        }
    }
    plan_free(native, &memory);
    return status;
}

/* ---- prepare and launch ---- */

static void native_release(void *self, wf_kernel_t *kernel)
{
    const wf_native_t *native = self;
    if (kernel == NULL)
        return;
    wf_arena_deinit(&kernel->memory);
    wf_free(native->allocator, kernel, 1, sizeof *kernel);
}

static wf_status_t prepare_kernel(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    wf_tensor_t *views = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, kernel->problem->operand_count, sizeof *views, &views));
    if (constants != NULL)
        memcpy(views, constants, kernel->problem->operand_count * sizeof *views);
    kernel->constants = views;
    return kernel->variant->family->prepare != NULL ? kernel->variant->family->prepare(kernel, views) : WF_OK;
}

static wf_status_t native_prepare(void *self, const wf_problem_t *problem, const char *tactic_id,
                                  const wf_tensor_t *constants, wf_allocator_t allocator,
                                  wf_kernel_t **out_kernel)
{
    *out_kernel = NULL;
    wf_native_t *native = self;
    wf_native_variant_t variant;
    plan_memory_t memory = {0};
    wf_native_plan_t plan = {0};
    WF_TRY(plan_begin(native, problem, &memory, &plan));
    plan_reset(&memory, &plan);
    wf_status_t status = find_variant(native, problem, tactic_id, &variant, &plan);
    wf_tactic_needs_t needs = plan.needs;
    plan_free(native, &memory);
    if (status != WF_OK)
        return status;
    wf_kernel_t *kernel = NULL;
    WF_TRY(wf_alloc(native->allocator, 1, sizeof *kernel, &kernel));
    kernel->variant_copy = variant;
    kernel->variant = &kernel->variant_copy;
    kernel->problem = problem;
    kernel->native = native;
    kernel->tier = &wf_native_tiers[variant.tier];
    kernel->needs = needs;
    wf_arena_init(&kernel->memory, allocator);
    status = prepare_kernel(kernel, constants);
    if (status == WF_OK)
        *out_kernel = kernel;
    else
        native_release(self, kernel);
    return status;
}

static wf_status_t native_launch(void *self, const wf_kernel_t *kernel, const wf_view_t *operands,
                                 const wf_view_t *outputs, void *workspace, const wf_parallel_t *parallel)
{
    (void)self;
    return kernel->variant->family->launch(kernel, operands, outputs, workspace, parallel);
}

static bool native_keeps_constants(void *self, const wf_kernel_t *kernel)
{
    (void)self;
    return kernel->keeps_constants;
}

const wf_source_t wf_source_native = {
    .api_version = WF_BACKEND_API_VERSION,
    .name = "native",
    .open = native_open,
    .close = native_close,
    .list = native_list,
    .query = native_query,
    .prepare = native_prepare,
    .release = native_release,
    .launch = native_launch,
    .keeps_constants = native_keeps_constants,
};
