/* SPDX-License-Identifier: Apache-2.0 */
/* The oneDNN tactic source. Each implementation that the library offers for a form of a problem is a tactic:
 * "onednn/<the library's name of the implementation>.<form>", "onednn/jit_1x1:avx2.last". Reference
 * implementations are not offered, nor those below the CPU tier that we have. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "backends/onednn/recipe.h"
#include "base/compiler.h"
#include "device/tiers.h"
#include "op/problem.h"

#define PREFIX "onednn/"
#define IMPL_MAX 64u
/* Launches of one kernel at the same time that find their memory objects made; others make their own, in the
 * library's memory. Made for every launch the smallest convolution took 3.5 us instead of 0.9 (AMD EPYC,
 * 2026-12-01). */
#define SETS 4u

/* Kernels of one tactic and problem share what the library generated (0.1 to 0.6 ms each), whatever their
 * weights. */
#define RECENT 16u
typedef struct compiled {
    uint64_t hash[2]; /* of the problem */
    char id[WF_TACTIC_ID_MAX];
    void *pd, *primitive;
    uint32_t uses; /* kernels, and one for being recent; under the source's lock */
} compiled_t;

typedef struct wf_onednn {
    wf_allocator_t allocator;
    wf_cpu_t cpu;
    /* Opened when first asked for: loading 40 MB for an engine without a step of ours would be for nothing.
     */
    pthread_mutex_t lock; /* of opening, and of `recent` */
    _Atomic bool opened;
    wf_dnnl_library_t library;
    void *engine; /* NULL: not used, library.refusal says why */
    compiled_t *recent[RECENT];
    size_t next_recent;
} wf_onednn_t;

/* What one launch needs of the library; never used by two launches at once. */
typedef struct set {
    void *stream;
    wf_dnnl_arg_t args[WF_DNNL_ARGS_MAX];
} set_t;

struct wf_kernel {
    wf_onednn_t *source;
    wf_allocator_t allocator;
    wf_arena_t memory; /* packed constants */
    compiled_t *compiled;
    size_t slot_count;
    int32_t operands[WF_DNNL_ARGS_MAX]; /* of slots; see wf_dnnl_slot_t */
    void *constants[WF_DNNL_ARGS_MAX];  /* packed; NULL: bound at launch */
    wf_dnnl_desc_t descs[WF_DNNL_ARGS_MAX];
    const void *actual[WF_DNNL_ARGS_MAX]; /* into descs, or into pd */
    int ids[WF_DNNL_ARGS_MAX];
    set_t sets[SETS];
    _Atomic uint32_t busy; /* bit i: sets[i] is in use */
};

/* ---- Open ---- */

/* Under the lock. */
static void compiled_drop(wf_onednn_t *source, compiled_t *compiled)
{
    if (compiled == NULL || --compiled->uses > 0)
        return;
    if (compiled->primitive != NULL)
        (void)source->library.dnnl_primitive_destroy(compiled->primitive);
    (void)source->library.dnnl_primitive_desc_destroy(compiled->pd);
    wf_free(source->allocator, compiled, 1, sizeof *compiled);
}

static void onednn_close(void *self)
{
    wf_onednn_t *source = self;
    if (source == NULL)
        return;
    for (size_t i = 0; i < RECENT; i++)
        compiled_drop(source, source->recent[i]);
    if (source->engine != NULL)
        (void)source->library.dnnl_engine_destroy(source->engine);
    (void)pthread_mutex_destroy(&source->lock);
    wf_free(source->allocator, source, 1, sizeof *source);
}

static wf_status_t onednn_open(const wf_cpu_t *cpu, wf_allocator_t allocator, wf_log_t log, void **out_self)
{
    (void)log;
    *out_self = NULL;
    wf_onednn_t *source = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *source, &source));
    source->allocator = allocator;
    source->cpu = *cpu;
    if (pthread_mutex_init(&source->lock, NULL) != 0) {
        wf_free(allocator, source, 1, sizeof *source);
        return wf_status_out_of_memory();
    }
    *out_self = source;
    return WF_OK;
}

/* Opens the library, once. False when it is not used. */
static bool is_open(wf_onednn_t *source)
{
    if (!atomic_load_explicit(&source->opened, memory_order_acquire)) {
        (void)pthread_mutex_lock(&source->lock);
        if (!atomic_load_explicit(&source->opened, memory_order_relaxed)) {
            wf_dnnl_library_t *library = &source->library;
            wf_dnnl_library_open(source->cpu.tier_mask, library);
            if (library->refusal[0] == '\0' &&
                library->dnnl_engine_create(&source->engine, WF_DNNL_ENGINE_CPU, 0) != WF_DNNL_SUCCESS) {
                source->engine = NULL;
                library->refusal_reason = WF_DECLINE_LIBRARY;
                (void)snprintf(library->refusal, sizeof library->refusal,
                               "oneDNN makes no engine for this CPU");
            }
            atomic_store_explicit(&source->opened, true, memory_order_release);
        }
        (void)pthread_mutex_unlock(&source->lock);
    }
    return source->engine != NULL;
}

/* ---- Implementations ---- */

/* Walks the implementations that are offered for a recipe. */
typedef struct walk {
    const wf_onednn_t *source;
    void *iterator, *pd;
    char impl[IMPL_MAX];
    bool no_gemm, one_tap_only;
    int threads_before;
} walk_t;

/* Names of implementations that are no tactics: plain loops of the library, and kernels of CPUs before AVX2.
 */
static bool is_refused(const walk_t *walk, const char *impl)
{
    static const char *const words[] = {"ref", "simple", "sse41"};
    size_t length = strlen(impl);
    for (size_t i = 0; i < WF_COUNT_OF(words); i++) {
        if (strstr(impl, words[i]) != NULL)
            return true;
    }
    if (walk->no_gemm && strstr(impl, "gemm") != NULL)
        return true;
    /* Rows as pixels: other convolutions than those made for one tap took up to 100 times as long. */
    if (walk->one_tap_only && strstr(impl, "1x1") == NULL && strstr(impl, "brg") == NULL)
        return true;
    return length == 0 || length + 40 > WF_TACTIC_ID_MAX ||
           (length >= 4 && strcmp(impl + length - 4, ":avx") == 0);
}

static bool walk_begin(const wf_onednn_t *source, const wf_dnnl_recipe_t *recipe, walk_t *walk)
{
    *walk = (walk_t){.source = source, .one_tap_only = recipe->form->describe == wf_dnnl_describe_pixels};
    /* The convolution by matrix products of version 2.6.3 adds another element of a binary operand than it
     * should on channels-last results, and its relu makes not-a-number of minus infinity: it is used bare. */
    walk->no_gemm = recipe->form->conv_alg != 0 && recipe->problem->stage_count > 1;
    /* How work is split is fixed when an implementation is asked for. */
    walk->threads_before = wf_dnnl_threads_set(&source->library, (int)source->cpu.thread_count);
    return source->library.dnnl_primitive_desc_iterator_create(
               &walk->iterator, &recipe->op_desc, recipe->attr, source->engine, NULL) == WF_DNNL_SUCCESS;
}

static void walk_drop(walk_t *walk)
{
    if (walk->pd != NULL)
        (void)walk->source->library.dnnl_primitive_desc_destroy(walk->pd);
    walk->pd = NULL;
}

/* The next one into pd and impl. */
static bool walk_next(walk_t *walk, bool first)
{
    const wf_dnnl_library_t *library = &walk->source->library;
    walk_drop(walk);
    for (;; first = false) {
        if (!first && library->dnnl_primitive_desc_iterator_next(walk->iterator) != WF_DNNL_SUCCESS)
            return false;
        walk->pd = library->dnnl_primitive_desc_iterator_fetch(walk->iterator);
        const char *impl = NULL;
        if (walk->pd != NULL &&
            library->dnnl_primitive_desc_query(walk->pd, WF_DNNL_QUERY_IMPL, 0, &impl) == WF_DNNL_SUCCESS &&
            impl != NULL && !is_refused(walk, impl)) {
            (void)snprintf(walk->impl, sizeof walk->impl, "%s", impl);
            return true;
        }
        walk_drop(walk);
    }
}

/* Takes the description out of the walk when `keep`. */
static void *walk_end(walk_t *walk, bool keep)
{
    const wf_dnnl_library_t *library = &walk->source->library;
    void *pd = keep ? walk->pd : NULL;
    if (!keep)
        walk_drop(walk);
    if (walk->iterator != NULL)
        (void)library->dnnl_primitive_desc_iterator_destroy(walk->iterator);
    (void)wf_dnnl_threads_set(library, walk->threads_before);
    return pd;
}

static void id_print(const char *impl, const wf_dnnl_form_t *form, char out_id[WF_TACTIC_ID_MAX])
{
    (void)snprintf(out_id, WF_TACTIC_ID_MAX, PREFIX "%s.%s", impl, form->name);
}

/* ---- Needs and estimates ---- */

static void fill_needs(const wf_onednn_t *source, const wf_dnnl_recipe_t *recipe, const void *pd,
                       wf_tactic_needs_t *out_needs)
{
    const wf_dnnl_library_t *library = &source->library;
    *out_needs = (wf_tactic_needs_t){.may_alias = -1, .must_alias = -1, .allocates_at_launch = true};
    const void *scratchpad = library->dnnl_primitive_desc_query_md(pd, WF_DNNL_QUERY_SCRATCHPAD, 0);
    out_needs->workspace_bytes = scratchpad != NULL ? library->dnnl_memory_desc_get_size(scratchpad) : 0;
    for (size_t i = 0; i < recipe->slot_count; i++) {
        const wf_dnnl_slot_t *slot = &recipe->slots[i];
        if (slot->operand < 0 || !recipe->problem->operands[slot->operand].is_const)
            continue;
        const void *desc =
            slot->packed ? library->dnnl_primitive_desc_query_md(pd, WF_DNNL_QUERY_WEIGHTS, 0) : &slot->desc;
        out_needs->packed_bytes += desc != NULL ? library->dnnl_memory_desc_get_size(desc) : 0;
    }
}

/* A call of the library and its region of libgomp: 1.5 to 2 us measured for the smallest convolution. */
#define CALL_NS 2000.0

/* How much longer than the roofline's time: the first row whose words are in the names of form and
 * implementation. Against native kernels on one core of an AMD EPYC (Zen 3, AVX2, oneDNN 2.6.3, 2026-12-01),
 * each at its best: 1x1 convolutions 0.8 to 1.1, of 3x3 and more 1.0 to 1.5 (an RGB stem 0.95, in 8 groups
 * 0.83), depthwise 0.85 to 1.25, products 1.0 to 1.2, pools 1.2 to 5, convolutions by library products 1.2
 * and up. What is even is put a little above: where nothing was measured the native kernels run, which need
 * no second library. */
typedef struct factor_row {
    const char *form, *impl;
    bool one_tap; /* only for windows of one */
    double factor;
} factor_row_t;
static const factor_row_t factor_rows[] = {
    {"pool", "", false, 3}, {"inner", "gemm", false, 1.5}, {"matmul", "", false, 1.15},
    {"", "gemm", false, 3}, {"", "_dw", false, 1.5},       {"", "jit:", true, 2},
    {"", "", false, 1.15},
};

static double factor(const wf_dnnl_recipe_t *recipe, const char *impl)
{
    const wf_problem_t *problem = recipe->problem;
    int64_t taps = 0;
    if (problem->stages[0].op == WF_OP_CONV) {
        taps = 1;
        for (uint32_t d = 2; d < problem->operands[1].type.rank; d++)
            taps *= problem->operands[1].type.dims[d];
    }
    size_t i = 0;
    for (; i + 1 < WF_COUNT_OF(factor_rows); i++) {
        const factor_row_t *row = &factor_rows[i];
        if (strstr(recipe->form->name, row->form) != NULL && strstr(impl, row->impl) != NULL &&
            (!row->one_tap || taps == 1))
            break;
    }
    return factor_rows[i].factor;
}

/* A roofline as the native source has it. */
static double estimate_ns(const wf_onednn_t *source, const wf_dnnl_recipe_t *recipe, const char *impl)
{
    const wf_problem_t *problem = recipe->problem;
    const wf_problem_stage_t *root = &problem->stages[0];
    double threads = WF_MAX(source->cpu.thread_count, 1u), efficiency = 0.2,
           flops = wf_problem_flops(problem);
    if (root->op == WF_OP_CONV || root->op == WF_OP_MATMUL || root->op == WF_OP_GEMM) {
        double macs_per_output = flops / 2 / (double)wf_type_elems(&root->out);
        efficiency = 0.88 * macs_per_output / (macs_per_output + 24);
    }
    double compute_ns = flops / (source->cpu.f32_flops_per_ns * efficiency * threads);
    double memory_ns = wf_problem_bytes(problem) / (source->cpu.l3_bytes_per_ns * threads);
    return fmax(compute_ns, memory_ns) * factor(recipe, impl) + CALL_NS;
}

/* ---- List ---- */

static bool is_ours(const wf_problem_t *problem)
{
    switch (problem->stages[0].op) {
    case WF_OP_CONV:
    case WF_OP_MATMUL:
    case WF_OP_GEMM:
    case WF_OP_MAX_POOL:
    case WF_OP_AVERAGE_POOL:
    case WF_OP_GLOBAL_MAX_POOL:
    case WF_OP_GLOBAL_AVERAGE_POOL:
        return true;
    default:
        return false;
    }
}

static wf_status_t offer_all(const wf_onednn_t *source, const wf_dnnl_recipe_t *recipe, walk_t *walk,
                             const wf_tactic_sink_t *sink, size_t *out_count)
{
    char offered[16][IMPL_MAX];
    *out_count = 0;
    for (bool first = true; walk_next(walk, first); first = false) {
        bool twice = false;
        for (size_t i = 0; i < *out_count; i++)
            twice |= strcmp(offered[i], walk->impl) == 0;
        if (twice || *out_count == WF_COUNT_OF(offered))
            continue;
        (void)snprintf(offered[*out_count], IMPL_MAX, "%s", walk->impl);
        wf_tactic_t tactic = {.operand_layouts = recipe->operand_layouts,
                              .output_layouts = recipe->operand_layouts + recipe->problem->operand_count,
                              .estimate_ns = estimate_ns(source, recipe, walk->impl),
                              .deterministic = true,
                              .exact = !recipe->form->reduced};
        id_print(walk->impl, recipe->form, tactic.id);
        WF_TRY(sink->offer(sink->self, &tactic));
        (*out_count)++;
    }
    return WF_OK;
}

static wf_status_t list_form(const wf_onednn_t *source, const wf_problem_t *problem,
                             const wf_dnnl_form_t *form, wf_layout_t *layouts, const wf_tactic_sink_t *sink)
{
    wf_dnnl_recipe_t recipe;
    walk_t walk;
    size_t count = 0;
    wf_status_t status = WF_OK;
    if (wf_dnnl_recipe_init(&source->library, problem, form, layouts, &recipe)) {
        if (walk_begin(source, &recipe, &walk))
            status = offer_all(source, &recipe, &walk, sink, &count);
        (void)walk_end(&walk, false);
        if (count == 0)
            (void)wf_dnnl_refuse(&recipe, WF_DECLINE_SHAPE, "oneDNN has only its reference implementation");
    }
    if (status == WF_OK && count == 0 && recipe.refusal != NULL && recipe.describes) {
        char family[48];
        (void)snprintf(family, sizeof family, "onednn.%s", form->name);
        sink->decline(sink->self, family, recipe.refusal_reason, recipe.refusal);
    }
    wf_dnnl_recipe_deinit(&recipe);
    return status;
}

static wf_status_t onednn_list(void *self, const wf_problem_t *problem, const wf_tactic_sink_t *sink)
{
    wf_onednn_t *source = self;
    if (!is_ours(problem))
        return WF_OK;
    if (!is_open(source)) {
        sink->decline(sink->self, "onednn", source->library.refusal_reason, source->library.refusal);
        return WF_OK;
    }
    wf_layout_t *layouts = NULL;
    size_t count = problem->operand_count + problem->output_count;
    WF_TRY(wf_alloc(source->allocator, count, sizeof *layouts, &layouts));
    wf_status_t status = WF_OK;
    for (size_t i = 0; status == WF_OK && i < wf_dnnl_form_count; i++)
        status = list_form(source, problem, &wf_dnnl_forms[i], layouts, sink);
    wf_free(source->allocator, layouts, count, sizeof *layouts);
    return status;
}

/* ---- Finding a tactic again ---- */

/* Splits "onednn/<impl>.<form>". */
static const wf_dnnl_form_t *id_parse(const char *id, char out_impl[IMPL_MAX])
{
    size_t prefix = strlen(PREFIX), length = strlen(id);
    const char *dot = strrchr(id, '.');
    if (length >= WF_TACTIC_ID_MAX || strncmp(id, PREFIX, prefix) != 0 || dot == NULL || dot <= id + prefix ||
        (size_t)(dot - id) - prefix >= IMPL_MAX)
        return NULL;
    (void)snprintf(out_impl, IMPL_MAX, "%.*s", (int)(dot - id - (ptrdiff_t)prefix), id + prefix);
    for (size_t i = 0; i < wf_dnnl_form_count; i++) {
        if (strcmp(wf_dnnl_forms[i].name, dot + 1) == 0)
            return &wf_dnnl_forms[i];
    }
    return NULL;
}

static wf_status_t missing(const char *id, const wf_problem_t *problem, const char *why)
{
    return wf_status_hinted(WF_ERROR(TACTIC_MISSING, "tactic %s does not do %s: %s", id, problem->text, why),
                            "tune the model again on this machine, or build it with -k source.onednn=off");
}

/* Fills the recipe (to be given back in any case) and the library's description of the tactic. */
static wf_status_t find_pd(wf_onednn_t *source, const wf_problem_t *problem, const char *id,
                           wf_layout_t *layouts, wf_dnnl_recipe_t *recipe, void **out_pd)
{
    char impl[IMPL_MAX];
    *out_pd = NULL;
    recipe->attr = recipe->post_ops = NULL;
    if (!is_open(source)) {
        return wf_status_hinted(
            WF_ERROR(LIBRARY_MISSING, "tactic %s: %s", id, source->library.refusal),
            "install it, or build the engine again from its model: without the library the native "
            "kernels are used");
    }
    const wf_dnnl_form_t *form = id_parse(id, impl);
    if (form == NULL)
        return missing(id, problem, "this version knows no such form");
    if (!wf_dnnl_recipe_init(&source->library, problem, form, layouts, recipe))
        return missing(id, problem, recipe->refusal != NULL ? recipe->refusal : "another kind of problem");
    walk_t walk;
    bool found = false;
    if (walk_begin(source, recipe, &walk)) {
        for (bool first = true; !found && walk_next(&walk, first); first = false)
            found = strcmp(walk.impl, impl) == 0;
    }
    *out_pd = walk_end(&walk, found);
    return found ? WF_OK : missing(id, problem, "the installed oneDNN has no such implementation for it");
}

static wf_status_t onednn_query(void *self, const wf_problem_t *problem, const char *tactic_id,
                                wf_layout_t *out_operand_layouts, wf_layout_t *out_output_layouts,
                                wf_tactic_needs_t *out_needs)
{
    wf_onednn_t *source = self;
    size_t count = problem->operand_count + problem->output_count;
    wf_layout_t *layouts = NULL;
    wf_dnnl_recipe_t recipe;
    void *pd = NULL;
    WF_TRY(wf_alloc(source->allocator, count, sizeof *layouts, &layouts));
    wf_status_t status = find_pd(source, problem, tactic_id, layouts, &recipe, &pd);
    if (status == WF_OK) {
        fill_needs(source, &recipe, pd, out_needs);
        (void)source->library.dnnl_primitive_desc_destroy(pd);
        if (out_operand_layouts != NULL)
            memcpy(out_operand_layouts, layouts, problem->operand_count * sizeof *layouts);
        if (out_output_layouts != NULL)
            memcpy(out_output_layouts, layouts + problem->operand_count,
                   problem->output_count * sizeof *layouts);
    }
    wf_dnnl_recipe_deinit(&recipe);
    wf_free(source->allocator, layouts, count, sizeof *layouts);
    return status;
}

/* ---- Prepare ---- */

/* Under the lock. Takes pd over, on failure too. */
static wf_status_t compiled_make(wf_onednn_t *source, const wf_problem_t *problem, const char *id, void *pd,
                                 compiled_t **out_compiled)
{
    compiled_t *compiled = NULL;
    wf_status_t status = wf_alloc(source->allocator, 1, sizeof *compiled, &compiled);
    if (status != WF_OK) {
        (void)source->library.dnnl_primitive_desc_destroy(pd);
        return status;
    }
    *compiled = (compiled_t){.hash = {problem->hash[0], problem->hash[1]}, .pd = pd, .uses = 1};
    (void)snprintf(compiled->id, sizeof compiled->id, "%s", id);
    status = wf_dnnl_check(source->library.dnnl_primitive_create(&compiled->primitive, pd), "a primitive");
    if (status != WF_OK) {
        compiled->primitive = NULL;
        compiled_drop(source, compiled);
        return status;
    }
    compiled->uses++;
    compiled_drop(source, source->recent[source->next_recent]);
    source->recent[source->next_recent] = compiled;
    source->next_recent = (source->next_recent + 1) % RECENT;
    *out_compiled = compiled;
    return WF_OK;
}

static wf_status_t compiled_take(wf_onednn_t *source, const wf_problem_t *problem, const char *id, void *pd,
                                 compiled_t **out_compiled)
{
    wf_status_t status = WF_OK;
    *out_compiled = NULL;
    (void)pthread_mutex_lock(&source->lock);
    for (size_t i = 0; i < RECENT && *out_compiled == NULL; i++) {
        compiled_t *recent = source->recent[i];
        if (recent != NULL && memcmp(recent->hash, problem->hash, sizeof recent->hash) == 0 &&
            strcmp(recent->id, id) == 0)
            *out_compiled = recent;
    }
    if (*out_compiled != NULL) {
        (*out_compiled)->uses++;
        (void)source->library.dnnl_primitive_desc_destroy(pd);
    } else {
        status = compiled_make(source, problem, id, pd, out_compiled);
    }
    (void)pthread_mutex_unlock(&source->lock);
    return status;
}

static void set_deinit(const wf_dnnl_library_t *library, set_t *set, size_t slot_count)
{
    for (size_t i = 0; i < slot_count; i++) {
        if (set->args[i].memory != NULL)
            (void)library->dnnl_memory_destroy(set->args[i].memory);
    }
    if (set->stream != NULL)
        (void)library->dnnl_stream_destroy(set->stream);
    *set = (set_t){0};
}

static wf_status_t set_init(const wf_kernel_t *kernel, set_t *set)
{
    const wf_dnnl_library_t *library = &kernel->source->library;
    *set = (set_t){0};
    wf_status_t status = wf_dnnl_check(
        library->dnnl_stream_create(&set->stream, kernel->source->engine, WF_DNNL_STREAM_DEFAULT),
        "a stream");
    for (size_t i = 0; status == WF_OK && i < kernel->slot_count; i++) {
        set->args[i].id = kernel->ids[i];
        status = wf_dnnl_check(library->dnnl_memory_create(&set->args[i].memory, kernel->actual[i],
                                                           kernel->source->engine, kernel->constants[i]),
                               "a memory object");
    }
    if (status != WF_OK)
        set_deinit(library, set, kernel->slot_count);
    return status;
}

static wf_status_t run_reorder(const wf_kernel_t *kernel, const void *from_desc, const void *from,
                               const void *to_desc, void *to)
{
    const wf_dnnl_library_t *library = &kernel->source->library;
    void *engine = kernel->source->engine, *pd = NULL, *primitive = NULL, *stream = NULL;
    wf_dnnl_arg_t args[2] = {{.id = WF_DNNL_ARG_SRC}, {.id = WF_DNNL_ARG_DST}};
    wf_status_t status = wf_dnnl_check(
        library->dnnl_reorder_primitive_desc_create(&pd, from_desc, engine, to_desc, engine, NULL),
        "a reorder");
    if (status == WF_OK)
        status = wf_dnnl_check(library->dnnl_primitive_create(&primitive, pd), "a reorder");
    if (status == WF_OK)
        status =
            wf_dnnl_check(library->dnnl_stream_create(&stream, engine, WF_DNNL_STREAM_DEFAULT), "a stream");
    if (status == WF_OK) {
        status = wf_dnnl_check(
            library->dnnl_memory_create(&args[0].memory, from_desc, engine, (void *)(uintptr_t)from),
            "a memory object");
    }
    if (status == WF_OK)
        status = wf_dnnl_check(library->dnnl_memory_create(&args[1].memory, to_desc, engine, to),
                               "a memory object");
    if (status == WF_OK)
        status = wf_dnnl_check(library->dnnl_primitive_execute(primitive, stream, 2, args), "a reorder");
    if (status == WF_OK)
        status = wf_dnnl_check(library->dnnl_stream_wait(stream), "a reorder");
    for (size_t i = 0; i < 2; i++) {
        if (args[i].memory != NULL)
            (void)library->dnnl_memory_destroy(args[i].memory);
    }
    if (stream != NULL)
        (void)library->dnnl_stream_destroy(stream);
    if (primitive != NULL)
        (void)library->dnnl_primitive_destroy(primitive);
    if (pd != NULL)
        (void)library->dnnl_primitive_desc_destroy(pd);
    return status;
}

/* The kernel's own copy of a constant, in the order that the implementation wants. */
static wf_status_t keep_constant(wf_kernel_t *kernel, const wf_dnnl_slot_t *slot, size_t index,
                                 const wf_tensor_t *constant)
{
    const wf_dnnl_library_t *library = &kernel->source->library;
    const void *actual = kernel->actual[index];
    size_t bytes = library->dnnl_memory_desc_get_size(actual);
    uint8_t *copy = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, bytes + WF_CACHE_LINE_BYTES, 1, &copy));
    copy += (WF_CACHE_LINE_BYTES - (uintptr_t)copy % WF_CACHE_LINE_BYTES) % WF_CACHE_LINE_BYTES;
    kernel->constants[index] = copy;
    if (library->dnnl_memory_desc_equal(&slot->desc, actual) == 0)
        return run_reorder(kernel, &slot->desc, constant->data, actual, copy);
    memcpy(copy, constant->data, WF_MIN(bytes, (size_t)wf_type_bytes(&constant->type)));
    return WF_OK;
}

static wf_status_t prepare_slots(wf_kernel_t *kernel, const wf_dnnl_recipe_t *recipe,
                                 const wf_tensor_t *constants)
{
    const wf_dnnl_library_t *library = &kernel->source->library;
    kernel->slot_count = recipe->slot_count;
    for (size_t i = 0; i < recipe->slot_count; i++) {
        const wf_dnnl_slot_t *slot = &recipe->slots[i];
        kernel->ids[i] = slot->id;
        kernel->operands[i] = slot->operand;
        kernel->descs[i] = slot->desc;
        kernel->actual[i] = &kernel->descs[i];
        if (slot->packed)
            kernel->actual[i] =
                library->dnnl_primitive_desc_query_md(kernel->compiled->pd, WF_DNNL_QUERY_WEIGHTS, 0);
        if (slot->operand == WF_DNNL_OPERAND_SCRATCHPAD)
            kernel->actual[i] =
                library->dnnl_primitive_desc_query_md(kernel->compiled->pd, WF_DNNL_QUERY_SCRATCHPAD, 0);
        if (kernel->actual[i] == NULL)
            return WF_ERROR(INTERNAL, "oneDNN does not describe an argument of its own");
        if (slot->operand >= 0 && recipe->problem->operands[slot->operand].is_const)
            WF_TRY(keep_constant(kernel, slot, i, &constants[slot->operand]));
    }
    return WF_OK;
}

static void onednn_release(void *self, wf_kernel_t *kernel)
{
    (void)self;
    if (kernel == NULL)
        return;
    const wf_dnnl_library_t *library = &kernel->source->library;
    for (size_t i = 0; i < SETS; i++)
        set_deinit(library, &kernel->sets[i], kernel->slot_count);
    (void)pthread_mutex_lock(&kernel->source->lock);
    compiled_drop(kernel->source, kernel->compiled);
    (void)pthread_mutex_unlock(&kernel->source->lock);
    wf_arena_deinit(&kernel->memory);
    wf_free(kernel->allocator, kernel, 1, sizeof *kernel);
}

static wf_status_t make_kernel(wf_kernel_t *kernel, const wf_dnnl_recipe_t *recipe,
                               const wf_tensor_t *constants)
{
    WF_TRY(prepare_slots(kernel, recipe, constants));
    for (size_t i = 0; i < SETS; i++)
        WF_TRY(set_init(kernel, &kernel->sets[i]));
    return WF_OK;
}

static wf_status_t onednn_prepare(void *self, const wf_problem_t *problem, const char *tactic_id,
                                  const wf_tensor_t *constants, wf_allocator_t allocator,
                                  wf_kernel_t **out_kernel)
{
    *out_kernel = NULL;
    wf_onednn_t *source = self;
    size_t count = problem->operand_count + problem->output_count;
    wf_layout_t *layouts = NULL;
    wf_dnnl_recipe_t recipe;
    wf_kernel_t *kernel = NULL;
    void *pd = NULL;
    WF_TRY(wf_alloc(source->allocator, count, sizeof *layouts, &layouts));
    wf_status_t status = find_pd(source, problem, tactic_id, layouts, &recipe, &pd);
    if (status == WF_OK) {
        status = wf_alloc(allocator, 1, sizeof *kernel, &kernel);
        if (status != WF_OK)
            (void)source->library.dnnl_primitive_desc_destroy(pd);
    }
    if (status == WF_OK) {
        kernel->source = source;
        kernel->allocator = allocator;
        wf_arena_init(&kernel->memory, allocator);
        int before = wf_dnnl_threads_set(&source->library, (int)source->cpu.thread_count);
        status = compiled_take(source, problem, tactic_id, pd, &kernel->compiled);
        if (status == WF_OK)
            status = make_kernel(kernel, &recipe, constants);
        (void)wf_dnnl_threads_set(&source->library, before);
    }
    if (status == WF_OK)
        *out_kernel = kernel;
    else
        onednn_release(self, kernel);
    wf_dnnl_recipe_deinit(&recipe);
    wf_free(source->allocator, layouts, count, sizeof *layouts);
    return status;
}

/* ---- Launch ---- */

/* A free set of the kernel, or NULL. */
static set_t *take_set(wf_kernel_t *kernel, uint32_t *out_bit)
{
    for (uint32_t i = 0; i < SETS; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if ((atomic_fetch_or_explicit(&kernel->busy, bit, memory_order_acquire) & bit) == 0) {
            *out_bit = bit;
            return &kernel->sets[i];
        }
    }
    return NULL;
}

static wf_status_t run_set(const wf_kernel_t *kernel, const set_t *set, const wf_view_t *operands,
                           const wf_view_t *outputs, void *workspace)
{
    const wf_dnnl_library_t *library = &kernel->source->library;
    for (size_t i = 0; i < kernel->slot_count; i++) {
        if (kernel->constants[i] != NULL)
            continue;
        int32_t operand = kernel->operands[i];
        void *data = operand == WF_DNNL_OPERAND_OUTPUT       ? outputs[0].data
                     : operand == WF_DNNL_OPERAND_SCRATCHPAD ? workspace
                                                             : operands[operand].data;
        WF_TRY(wf_dnnl_check(library->dnnl_memory_set_data_handle(set->args[i].memory, data), "a binding"));
    }
    return wf_dnnl_check(library->dnnl_primitive_execute(kernel->compiled->primitive, set->stream,
                                                         (int)kernel->slot_count, set->args),
                         "a run");
}

static wf_status_t onednn_launch(void *self, const wf_kernel_t *kernel, const wf_view_t *operands,
                                 const wf_view_t *outputs, void *workspace, const wf_parallel_t *parallel)
{
    wf_onednn_t *source = self;
    const wf_dnnl_library_t *library = &source->library;
    /* The sets are the only part of a kernel that changes, under `busy`. */
    wf_kernel_t *sets_of = (wf_kernel_t *)(uintptr_t)kernel;
    int before = wf_dnnl_threads_set(library, (int)WF_MIN(parallel->thread_count, source->cpu.thread_count));
    uint32_t bit = 0;
    set_t own, *set = take_set(sets_of, &bit);
    wf_status_t status = WF_OK;
    if (set != NULL) {
        status = run_set(kernel, set, operands, outputs, workspace);
        (void)atomic_fetch_and_explicit(&sets_of->busy, ~bit, memory_order_release);
    } else {
        status = set_init(kernel, &own);
        if (status == WF_OK) {
            status = run_set(kernel, &own, operands, outputs, workspace);
            set_deinit(library, &own, kernel->slot_count);
        }
    }
    (void)wf_dnnl_threads_set(library, before);
    return status;
}

/* ---- Facts ---- */

static bool onednn_needs_openmp(void *self)
{
    return is_open(self);
}

static const char *onednn_version(void *self)
{
    wf_onednn_t *source = self;
    return is_open(source) ? source->library.version : "";
}

const wf_source_t wf_source_onednn = {
    .api_version = WF_BACKEND_API_VERSION,
    .name = "onednn",
    .open = onednn_open,
    .close = onednn_close,
    .list = onednn_list,
    .query = onednn_query,
    .prepare = onednn_prepare,
    .release = onednn_release,
    .launch = onednn_launch,
    .needs_openmp = onednn_needs_openmp,
    .version = onednn_version,
};
