/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/parallel.h"
#include "tune/canary.h"
#include "tune/stats.h"
#include "verify/numeric.h"

#define ALIGN_BYTES 64u
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
/* Sets together hold twice the second-level caches of all cores, so that a set has left them when its turn
 * comes again; a set that big is its own eviction. */
#define L2_FACTOR 2.0
#define SETS_MAX 64u
/* Where few sets do it they also leave the shared cache, as the weights of a model of that size would. */
#define L3_FACTOR 1.25
#define SETS_FOR_L3_MAX 16u
/* Packing may cost this much for one tactic; then the sets there are must do, but two. */
#define PREPARE_NS 20e6
/* Constants below this size stay in the caches of a model too; no copies are made of them. */
#define CONSTANT_COPY_BYTES 4096u
/* A tactic this many times slower than the best takes part in one block only. */
#define SLOW_FACTOR 8.0

/* Memory that grows and is kept: touching it anew for every request would take as long as measuring. */
typedef struct pool {
    uint8_t *data;
    size_t bytes;
} pool_t;

struct wf_meter {
    wf_allocator_t allocator;
    pool_t inputs, outputs, integers;
    wf_dtype_t filled; /* what the inputs are filled with */
    wf_backends_t *backends;
    wf_pool_t *own_pool, *openmp_pool; /* the second where a source wants it */
    wf_pool_t *entered;                /* the one that is awake; NULL: none */
    wf_parallel_t parallel;
    wf_watch_t *watch, own_watch;
};

/* ---- Meter ---- */

/* Puts the pool to rest. */
static void leave_pool(wf_meter_t *meter)
{
    if (meter->entered == NULL)
        return;
    wf_pool_end(meter->entered);
    wf_pool_rest(meter->entered);
    meter->entered = NULL;
    meter->parallel = wf_pool_parallel(meter->own_pool);
}

/* Each tactic runs on the pool that an engine of its source alone has. On libgomp's for all of a request
 * every tactic would wait, at the end of each region, for a thread that lost its core to another process:
 * with a load of 10 on two cores a tuning of 3 s measured 20 tactics instead of 73 (2026-12-01). */
static void enter_pool(wf_meter_t *meter, wf_pool_t *pool)
{
    if (meter->entered == pool)
        return;
    leave_pool(meter);
    meter->entered = pool;
    meter->parallel = wf_pool_parallel(pool);
    wf_pool_begin(pool);
}

wf_status_t wf_meter_create(const wf_cpu_t *cpu, const char *const *sources, wf_watch_t *watch,
                            wf_allocator_t allocator, wf_log_t log, wf_meter_t **out_meter)
{
    *out_meter = NULL;
    wf_meter_t *meter = NULL;
    WF_TRY(wf_alloc(allocator, 1, sizeof *meter, &meter));
    meter->allocator = allocator;
    meter->watch = watch != NULL ? watch : &meter->own_watch;
    wf_backends_options_t options = {.only = sources};
    wf_status_t status = wf_backends_open(cpu, &options, allocator, log, &meter->backends);
    bool openmp = false;
    for (size_t i = 0; status == WF_OK && i < wf_backends_count(meter->backends); i++) {
        void *self;
        const wf_source_t *source = wf_backends_source(meter->backends, i, &self);
        openmp |= source->needs_openmp != NULL && source->needs_openmp(self);
    }
    if (status == WF_OK)
        status = wf_pool_create(cpu->thread_count, false, allocator, &meter->own_pool);
    if (status == WF_OK && openmp)
        status = wf_pool_create(cpu->thread_count, true, allocator, &meter->openmp_pool);
    if (status != WF_OK) {
        wf_meter_destroy(meter);
        return status;
    }
    meter->parallel = wf_pool_parallel(meter->own_pool);
    *out_meter = meter;
    return WF_OK;
}

void wf_meter_destroy(wf_meter_t *meter)
{
    if (meter == NULL)
        return;
    wf_pool_destroy(meter->own_pool);
    wf_pool_destroy(meter->openmp_pool);
    wf_backends_close(meter->backends);
    pool_t *const pools[] = {&meter->inputs, &meter->outputs, &meter->integers};
    for (size_t i = 0; i < WF_COUNT_OF(pools); i++)
        wf_free_aligned(meter->allocator, pools[i]->data, pools[i]->bytes, 1, HUGE_PAGE_BYTES);
    wf_free(meter->allocator, meter, 1, sizeof *meter);
}

const wf_parallel_t *wf_meter_parallel(const wf_meter_t *meter)
{
    return &meter->parallel;
}

/* ---- Results ---- */

wf_status_t wf_measure_result_init(wf_measure_result_t *result, size_t tactic_count, size_t block_capacity,
                                   wf_allocator_t allocator)
{
    *result = (wf_measure_result_t){
        .allocator = allocator, .tactic_count = tactic_count, .block_capacity = block_capacity};
    size_t times = 0;
    wf_status_t status = wf_size_mul(tactic_count, block_capacity, &times)
                             ? wf_alloc(allocator, times, sizeof *result->times_ns, &result->times_ns)
                             : wf_status_out_of_memory();
    if (status == WF_OK)
        status = wf_alloc(allocator, block_capacity, sizeof *result->canary_ns, &result->canary_ns);
    if (status == WF_OK)
        status = wf_alloc(allocator, block_capacity, sizeof *result->preemptions, &result->preemptions);
    if (status == WF_OK)
        status = wf_alloc(allocator, tactic_count, sizeof *result->faults, &result->faults);
    if (status != WF_OK) {
        wf_measure_result_deinit(result);
        return status;
    }
    for (size_t i = 0; i < times; i++)
        result->times_ns[i] = NAN;
    return WF_OK;
}

void wf_measure_result_deinit(wf_measure_result_t *result)
{
    size_t times = result->tactic_count * result->block_capacity;
    wf_free(result->allocator, result->times_ns, times, sizeof *result->times_ns);
    wf_free(result->allocator, result->canary_ns, result->block_capacity, sizeof *result->canary_ns);
    wf_free(result->allocator, result->preemptions, result->block_capacity, sizeof *result->preemptions);
    wf_free(result->allocator, result->faults, result->tactic_count, sizeof *result->faults);
    *result = (wf_measure_result_t){.allocator = result->allocator};
}

/* ---- One tactic, prepared ---- */

typedef struct entry {
    const char *id;
    const wf_source_t *source;
    void *self;
    wf_tactic_needs_t needs;
    wf_layout_t *layouts;       /* operands, then outputs */
    size_t *offsets;            /* of operands in an input set, of outputs in an output set; SIZE_MAX: none */
    size_t in_bytes, out_bytes; /* of one set */
    size_t set_count, next_set, kernel_count;
    wf_kernel_t **kernels;
    wf_tensor_t **copies; /* constants of each kernel, where it keeps them */
    wf_view_t *views;     /* operands and outputs of set 0, of set 1, ... */
    void *workspace;
    size_t launches; /* of a batch */
    double launch_ns;
    bool failed;
    char *fault;
} entry_t;

typedef struct bench {
    wf_meter_t *meter;
    const wf_measure_request_t *request;
    wf_arena_t arena;
    size_t operand_count, view_count;
    entry_t *entries;
    wf_tensor_t *constants; /* values of every constant operand */
    uint8_t *inputs, *outputs, *integers;
    size_t inputs_bytes, outputs_bytes, integers_bytes;
} bench_t;

static void entry_fail(entry_t *entry, wf_status_t status)
{
    (void)snprintf(entry->fault, 256, "%s", wf_status_message(status));
    entry->failed = true;
    wf_status_free(status);
}

static bool is_data_operand(const wf_problem_operand_t *operand)
{
    return !operand->is_const && operand->type.dtype != WF_DTYPE_NONE;
}

/* Bytes of a tensor in a layout with `slack`, rounded up to a cache line. */
static wf_status_t padded_bytes(const wf_type_t *type, wf_layout_t layout, size_t slack, size_t *out_bytes)
{
    int64_t elems = wf_layout_elems(type, layout);
    size_t bits, bytes;
    if (elems < 0 || wf_dtype_bits(type->dtype) == 0 ||
        !wf_size_mul((size_t)elems, wf_dtype_bits(type->dtype), &bits) ||
        !wf_size_add(bits / 8 + 1, slack, &bytes) || !wf_size_align(bytes, ALIGN_BYTES, out_bytes)) {
        return WF_ERROR(MODEL_LIMIT, "a tensor of the problem cannot be measured: no fixed size");
    }
    return WF_OK;
}

static wf_status_t add_bytes(size_t *total, size_t bytes, size_t *out_offset)
{
    *out_offset = *total;
    return wf_size_add(*total, bytes, total) ? WF_OK : wf_status_out_of_memory();
}

/* Where operands and outputs lie in a set. */
static wf_status_t entry_places(bench_t *bench, entry_t *entry)
{
    const wf_problem_t *problem = bench->request->problem;
    for (size_t i = 0; i < bench->view_count; i++)
        entry->offsets[i] = SIZE_MAX;
    size_t bytes;
    for (size_t i = 0; i < problem->output_count; i++) {
        const wf_type_t *type = &problem->outputs[i];
        if (type->dtype == WF_DTYPE_NONE)
            continue;
        size_t index = problem->operand_count + i;
        WF_TRY(padded_bytes(type, entry->layouts[index], 0, &bytes));
        if (i == 0 && entry->needs.must_alias >= 0) {
            size_t alias = (size_t)entry->needs.must_alias, other = 0;
            WF_TRY(padded_bytes(&problem->operands[alias].type, entry->layouts[alias],
                                entry->needs.over_read_bytes, &other));
            bytes = WF_MAX(bytes, other);
        }
        WF_TRY(add_bytes(&entry->out_bytes, bytes, &entry->offsets[index]));
    }
    for (size_t i = 0; i < problem->operand_count; i++) {
        const wf_problem_operand_t *operand = &problem->operands[i];
        if (!is_data_operand(operand) || (int64_t)i == entry->needs.must_alias)
            continue;
        WF_TRY(padded_bytes(&operand->type, entry->layouts[i], entry->needs.over_read_bytes, &bytes));
        if (wf_numeric_is_integer(operand->type.dtype))
            bench->integers_bytes = WF_MAX(bench->integers_bytes, bytes);
        else
            WF_TRY(add_bytes(&entry->in_bytes, bytes, &entry->offsets[i]));
    }
    return WF_OK;
}

/* How many sets make the memory cold. */
static size_t rotation(const bench_t *bench, const entry_t *entry)
{
    const wf_cpu_t *cpu = wf_backends_cpu(bench->meter->backends);
    double set_bytes = (double)(entry->in_bytes + entry->out_bytes + entry->needs.packed_bytes);
    set_bytes = WF_MAX(set_bytes, (double)ALIGN_BYTES);
    double for_l2 = ceil(L2_FACTOR * (double)cpu->l2_bytes * cpu->thread_count / set_bytes);
    double for_l3 = ceil(L3_FACTOR * (double)cpu->l3_bytes / set_bytes);
    double wanted = fmax(fmin(for_l2, SETS_MAX), fmin(for_l3, SETS_FOR_L3_MAX));
    double allowed = (double)bench->request->memory_bytes / set_bytes;
    return (size_t)fmax(fmin(wanted, allowed), 1);
}

static wf_status_t entry_plan(bench_t *bench, entry_t *entry)
{
    const wf_problem_t *problem = bench->request->problem;
    WF_TRY(wf_backends_find(bench->meter->backends, entry->id, &entry->source, &entry->self));
    WF_TRY(wf_arena_alloc(&bench->arena, bench->view_count, sizeof *entry->layouts, &entry->layouts));
    WF_TRY(wf_arena_alloc(&bench->arena, bench->view_count, sizeof *entry->offsets, &entry->offsets));
    WF_TRY(entry->source->query(entry->self, problem, entry->id, entry->layouts,
                                entry->layouts + problem->operand_count, &entry->needs));
    if (entry->needs.is_view)
        return WF_ERROR(INTERNAL, "a view has nothing to launch");
    WF_TRY(entry_places(bench, entry));
    entry->set_count = rotation(bench, entry);
    size_t in_total, out_total;
    if (!wf_size_mul(entry->in_bytes, entry->set_count, &in_total) ||
        !wf_size_mul(entry->out_bytes, entry->set_count, &out_total)) {
        return wf_status_out_of_memory();
    }
    bench->inputs_bytes = WF_MAX(bench->inputs_bytes, in_total);
    bench->outputs_bytes = WF_MAX(bench->outputs_bytes, out_total);
    return WF_OK;
}

static void entry_bind(bench_t *bench, entry_t *entry, size_t set)
{
    const wf_problem_t *problem = bench->request->problem;
    wf_view_t *views = &entry->views[set * bench->view_count];
    uint8_t *in = bench->inputs + set * entry->in_bytes, *out = bench->outputs + set * entry->out_bytes;
    for (size_t i = 0; i < problem->operand_count; i++) {
        const wf_problem_operand_t *operand = &problem->operands[i];
        if (operand->is_const)
            views[i].data = bench->constants[i].data;
        else if (entry->offsets[i] != SIZE_MAX)
            views[i].data = in + entry->offsets[i];
        else if ((int64_t)i == entry->needs.must_alias)
            views[i].data = out + entry->offsets[problem->operand_count];
        else if (is_data_operand(operand))
            views[i].data = bench->integers;
    }
    for (size_t i = problem->operand_count; i < bench->view_count; i++) {
        if (entry->offsets[i] != SIZE_MAX)
            views[i].data = out + entry->offsets[i];
    }
}

/* Copies of the large constants, for kernels that read them where they are. */
static wf_status_t copy_constants(bench_t *bench, wf_tensor_t **out_copies)
{
    wf_allocator_t allocator = bench->meter->allocator;
    wf_tensor_t *copies = NULL;
    WF_TRY(wf_arena_alloc(&bench->arena, bench->operand_count, sizeof *copies, &copies));
    *out_copies = copies;
    for (size_t i = 0; i < bench->operand_count; i++) {
        const wf_tensor_t *constant = &bench->constants[i];
        if (constant->data == NULL)
            continue;
        WF_TRY(wf_tensor_make(&constant->type, allocator, &copies[i]));
        memcpy(copies[i].data, constant->data, (size_t)wf_type_bytes(&constant->type));
    }
    return WF_OK;
}

static wf_status_t prepare_kernel(bench_t *bench, entry_t *entry, const wf_tensor_t *constants)
{
    WF_TRY(entry->source->prepare(entry->self, bench->request->problem, entry->id, constants,
                                  bench->meter->allocator, &entry->kernels[entry->kernel_count]));
    entry->kernel_count++;
    return WF_OK;
}

/* As many kernels as sets when constants are worth it, else one for all. */
static wf_status_t entry_prepare(bench_t *bench, entry_t *entry)
{
    wf_arena_t *arena = &bench->arena;
    WF_TRY(wf_arena_alloc(arena, entry->set_count, sizeof *entry->kernels, &entry->kernels));
    WF_TRY(wf_arena_alloc(arena, entry->set_count, sizeof *entry->copies, &entry->copies));
    WF_TRY(wf_arena_alloc(arena, entry->set_count * bench->view_count, sizeof *entry->views, &entry->views));
    for (size_t set = 0; set < entry->set_count; set++)
        entry_bind(bench, entry, set);
    if (entry->needs.workspace_bytes > 0) {
        WF_TRY(wf_alloc_aligned(bench->meter->allocator, entry->needs.workspace_bytes, 1, ALIGN_BYTES,
                                &entry->workspace));
    }
    uint64_t start_ns = wf_clock_ns();
    WF_TRY(prepare_kernel(bench, entry, bench->constants));
    bool keeps = entry->source->keeps_constants != NULL &&
                 entry->source->keeps_constants(entry->self, entry->kernels[0]);
    size_t constant_bytes = 0;
    for (size_t i = 0; i < bench->operand_count; i++) {
        if (bench->constants[i].data != NULL)
            constant_bytes += (size_t)wf_type_bytes(&bench->constants[i].type);
    }
    while (constant_bytes >= CONSTANT_COPY_BYTES && entry->kernel_count < entry->set_count) {
        if (entry->kernel_count >= 2 && (double)(wf_clock_ns() - start_ns) > PREPARE_NS)
            break;
        const wf_tensor_t *constants = bench->constants;
        if (keeps) {
            WF_TRY(copy_constants(bench, &entry->copies[entry->kernel_count]));
            constants = entry->copies[entry->kernel_count];
        }
        WF_TRY(prepare_kernel(bench, entry, constants));
    }
    return WF_OK;
}

static void entry_release(bench_t *bench, entry_t *entry)
{
    for (size_t k = 0; k < entry->kernel_count; k++)
        entry->source->release(entry->self, entry->kernels[k]);
    for (size_t s = 0; entry->copies != NULL && s < entry->set_count; s++) {
        for (size_t i = 0; entry->copies[s] != NULL && i < bench->operand_count; i++) {
            if (entry->copies[s][i].data != NULL)
                wf_tensor_free(&entry->copies[s][i], bench->meter->allocator);
        }
    }
    wf_free_aligned(bench->meter->allocator, entry->workspace, entry->needs.workspace_bytes, 1, ALIGN_BYTES);
}

/* ---- Values ---- */

static float small_float(wf_rng_t *rng)
{
    return (float)((double)(wf_rng_next(rng) >> 40) / 8388608.0 - 1.0);
}

static wf_status_t make_constants(bench_t *bench)
{
    const wf_measure_request_t *request = bench->request;
    wf_rng_t rng = {request->seed};
    WF_TRY(wf_arena_alloc(&bench->arena, bench->operand_count, sizeof *bench->constants, &bench->constants));
    for (size_t i = 0; i < bench->operand_count; i++) {
        const wf_problem_operand_t *operand = &request->problem->operands[i];
        wf_tensor_t *constant = &bench->constants[i];
        constant->type = operand->type;
        if (!operand->is_const || operand->type.dtype == WF_DTYPE_NONE)
            continue;
        WF_TRY(wf_tensor_make(&operand->type, bench->meter->allocator, constant));
        const wf_tensor_t *given = request->constants != NULL ? &request->constants[i] : NULL;
        if (given != NULL && given->data != NULL) {
            memcpy(constant->data, given->data, (size_t)wf_type_bytes(&operand->type));
        } else if (wf_numeric_supports(operand->type.dtype) && !wf_numeric_is_integer(operand->type.dtype)) {
            int64_t elems = wf_type_elems(&operand->type);
            for (int64_t e = 0; e < elems; e++)
                wf_numeric_set(constant, e, small_float(&rng));
        }
    }
    return WF_OK;
}

/* At 2 MB pages, like a model's arena. Without what was in it when it grows. */
static wf_status_t pool_grow(const wf_meter_t *meter, pool_t *pool, size_t bytes, bool *out_grown)
{
    *out_grown = bytes > pool->bytes;
    if (!*out_grown)
        return WF_OK;
    wf_free_aligned(meter->allocator, pool->data, pool->bytes, 1, HUGE_PAGE_BYTES);
    *pool = (pool_t){NULL, 0};
    WF_TRY(wf_alloc_aligned(meter->allocator, bytes, 1, HUGE_PAGE_BYTES, &pool->data));
    pool->bytes = bytes;
    if (bytes >= HUGE_PAGE_BYTES)
        (void)madvise(pool->data, bytes, MADV_HUGEPAGE);
    return WF_OK;
}

/* The type of the first floating-point operand. */
static wf_dtype_t input_dtype(const wf_problem_t *problem)
{
    for (size_t i = 0; i < problem->operand_count; i++) {
        wf_dtype_t dtype = problem->operands[i].type.dtype;
        if (is_data_operand(&problem->operands[i]) && wf_numeric_supports(dtype) &&
            !wf_numeric_is_integer(dtype))
            return dtype;
    }
    return WF_DTYPE_F32;
}

/* Numbers in [-1, 1) all over. */
static void fill_inputs(wf_meter_t *meter, wf_dtype_t dtype)
{
    enum { PATTERN_ELEMS = 4099 }; /* a prime: sets do not repeat at cache-line distances */
    wf_type_t type = {.dtype = dtype, .rank = 1, .dims = {PATTERN_ELEMS}};
    double pattern[PATTERN_ELEMS];
    wf_tensor_t tensor = {type, pattern};
    wf_rng_t rng = {1};
    for (int64_t e = 0; e < PATTERN_ELEMS; e++)
        wf_numeric_set(&tensor, e, small_float(&rng));
    size_t pattern_bytes = (size_t)wf_type_bytes(&type);
    for (size_t at = 0; at < meter->inputs.bytes; at += pattern_bytes)
        memcpy(meter->inputs.data + at, pattern, WF_MIN(pattern_bytes, meter->inputs.bytes - at));
    meter->filled = dtype;
}

static wf_status_t make_memory(bench_t *bench)
{
    wf_meter_t *meter = bench->meter;
    bool grown, inputs_grown;
    bench->integers_bytes = WF_MAX(bench->integers_bytes, (size_t)ALIGN_BYTES);
    WF_TRY(pool_grow(meter, &meter->inputs, WF_MAX(bench->inputs_bytes, (size_t)ALIGN_BYTES), &inputs_grown));
    WF_TRY(pool_grow(meter, &meter->outputs, WF_MAX(bench->outputs_bytes, (size_t)ALIGN_BYTES), &grown));
    if (grown)
        memset(meter->outputs.data, 0, meter->outputs.bytes); /* touched here, not in the first launch */
    WF_TRY(pool_grow(meter, &meter->integers, bench->integers_bytes, &grown));
    memset(meter->integers.data, 0, bench->integers_bytes);
    bench->inputs = meter->inputs.data;
    bench->outputs = meter->outputs.data;
    bench->integers = meter->integers.data;
    wf_dtype_t dtype = input_dtype(bench->request->problem);
    if (inputs_grown || meter->filled != dtype)
        fill_inputs(meter, dtype);
    return make_constants(bench);
}

/* ---- Timing ---- */

static wf_pool_t *pool_of(const bench_t *bench, const entry_t *entry)
{
    bool openmp = entry->source->needs_openmp != NULL && entry->source->needs_openmp(entry->self);
    return openmp ? bench->meter->openmp_pool : bench->meter->own_pool;
}

static wf_status_t launch(bench_t *bench, entry_t *entry)
{
    const wf_view_t *views = &entry->views[entry->next_set * bench->view_count];
    const wf_kernel_t *kernel = entry->kernels[entry->next_set % entry->kernel_count];
    entry->next_set = entry->next_set + 1 < entry->set_count ? entry->next_set + 1 : 0;
    atomic_fetch_add_explicit(&bench->meter->watch->beats, 1, memory_order_relaxed);
    return entry->source->launch(entry->self, kernel, views, views + bench->operand_count, entry->workspace,
                                 &bench->meter->parallel);
}

static wf_status_t run_batch(bench_t *bench, entry_t *entry, size_t launches, double *out_ns)
{
    uint64_t before = wf_clock_ns();
    for (size_t i = 0; i < launches; i++)
        WF_TRY(launch(bench, entry));
    *out_ns = fmax((double)(wf_clock_ns() - before), 1) / (double)launches;
    return WF_OK;
}

/* The first launch also touches what was never touched; the size of a batch follows from the second. */
static wf_status_t warm_up(bench_t *bench, entry_t *entry)
{
    wf_status_t status = launch(bench, entry);
    if (wf_status_code(status) == WF_CODE_RUNTIME_DATA) {
        /* A divisor or a size: zero was no good value. */
        wf_status_free(status);
        memset(bench->integers, 1, bench->integers_bytes);
        status = launch(bench, entry);
    }
    WF_TRY(status);
    double ns = 0;
    entry->launches = 1;
    for (;;) {
        WF_TRY(run_batch(bench, entry, entry->launches, &ns));
        if (ns * (double)entry->launches >= 0.25 * bench->request->batch_ns || entry->launches >= 1u << 20)
            break;
        entry->launches *= 4;
    }
    entry->launch_ns = WF_MAX(ns, 1.0);
    entry->launches = (size_t)fmin(fmax(ceil(bench->request->batch_ns / entry->launch_ns), 1), 1u << 20);
    return WF_OK;
}

static bool past_deadline(const wf_measure_request_t *request)
{
    return request->deadline_ns != 0 && wf_clock_ns() >= request->deadline_ns;
}

static void watch(bench_t *bench, size_t item, wf_watch_phase_t phase)
{
    atomic_store_explicit(&bench->meter->watch->item, (uint32_t)item, memory_order_relaxed);
    atomic_store_explicit(&bench->meter->watch->phase, phase, memory_order_release);
}

static uint64_t preemptions_now(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_nivcsw : 0;
}

/* One block; false when the deadline cut it short. */
static bool run_block(bench_t *bench, wf_rng_t *rng, double slow_ns, wf_measure_result_t *result)
{
    uint32_t order[WF_MEASURE_TACTICS_MAX];
    size_t count = bench->request->tactic_count, block = result->block_count;
    wf_rng_shuffle(rng, order, count);
    uint64_t preemptions = preemptions_now();
    enter_pool(bench->meter, bench->meter->own_pool);
    double before_ns = wf_canary_run(&bench->meter->parallel);
    for (size_t i = 0; i < count; i++) {
        entry_t *entry = &bench->entries[order[i]];
        double *time_ns = &result->times_ns[block * count + order[i]];
        *time_ns = NAN;
        if (entry->failed || (block > 0 && entry->launch_ns > slow_ns))
            continue;
        if (past_deadline(bench->request))
            return false;
        watch(bench, order[i], WF_WATCH_LAUNCH);
        enter_pool(bench->meter, pool_of(bench, entry));
        wf_status_t status = run_batch(bench, entry, entry->launches, time_ns);
        if (status != WF_OK) {
            entry_fail(entry, status);
            *time_ns = NAN;
        } else {
            /* Whoever was interrupted while warming up is not slow. */
            entry->launch_ns = fmin(entry->launch_ns, *time_ns);
        }
    }
    enter_pool(bench->meter, bench->meter->own_pool);
    result->canary_ns[block] = fmax(before_ns, wf_canary_run(&bench->meter->parallel));
    result->preemptions[block] = (uint32_t)(preemptions_now() - preemptions);
    result->block_count++;
    return true;
}

static void run_blocks(bench_t *bench, wf_measure_result_t *result)
{
    double best_ns = (double)INFINITY;
    for (size_t i = 0; i < bench->request->tactic_count; i++) {
        if (!bench->entries[i].failed)
            best_ns = fmin(best_ns, bench->entries[i].launch_ns);
    }
    wf_rng_t rng = {bench->request->seed + 2};
    while (isfinite(best_ns) && result->block_count < bench->request->block_count) {
        if (past_deadline(bench->request) || !run_block(bench, &rng, SLOW_FACTOR * best_ns, result))
            break;
    }
}

/* Every tactic in turn; one that fails is out, the others go on. */
static void prepare_all(bench_t *bench)
{
    for (size_t i = 0; i < bench->request->tactic_count; i++) {
        entry_t *entry = &bench->entries[i];
        if (entry->failed)
            continue;
        if (past_deadline(bench->request)) {
            entry->failed = true; /* without a fault: it had no chance */
            continue;
        }
        watch(bench, i, WF_WATCH_PREPARE);
        wf_status_t status = entry_prepare(bench, entry);
        watch(bench, i, WF_WATCH_LAUNCH);
        enter_pool(bench->meter, pool_of(bench, entry));
        if (status == WF_OK)
            status = warm_up(bench, entry);
        leave_pool(bench->meter);
        if (status != WF_OK)
            entry_fail(entry, status);
    }
}

static wf_status_t measure(bench_t *bench, wf_measure_result_t *result)
{
    const wf_measure_request_t *request = bench->request;
    WF_TRY(wf_arena_alloc(&bench->arena, request->tactic_count, sizeof *bench->entries, &bench->entries));
    for (size_t i = 0; i < request->tactic_count; i++) {
        entry_t *entry = &bench->entries[i];
        entry->id = request->tactics[i];
        entry->fault = result->faults[i];
        watch(bench, i, WF_WATCH_PREPARE);
        wf_status_t status = entry_plan(bench, entry);
        if (status != WF_OK)
            entry_fail(entry, status);
    }
    WF_TRY(make_memory(bench));
    uint32_t fpu = wf_fpu_fast();
    prepare_all(bench);
    run_blocks(bench, result);
    leave_pool(bench->meter);
    wf_fpu_restore(fpu);
    return WF_OK;
}

wf_status_t wf_measure(wf_meter_t *meter, const wf_measure_request_t *request,
                       wf_measure_result_t *out_result)
{
    assert(request->tactic_count >= 1 && request->tactic_count <= WF_MEASURE_TACTICS_MAX);
    const wf_problem_t *problem = request->problem;
    WF_TRY(wf_measure_result_init(out_result, request->tactic_count, request->block_count, meter->allocator));
    bench_t bench = {.meter = meter,
                     .request = request,
                     .operand_count = problem->operand_count,
                     .view_count = problem->operand_count + problem->output_count};
    wf_arena_init(&bench.arena, meter->allocator);
    wf_status_t status = measure(&bench, out_result);
    watch(&bench, 0, WF_WATCH_IDLE);
    for (size_t i = 0; bench.entries != NULL && i < request->tactic_count; i++)
        entry_release(&bench, &bench.entries[i]);
    for (size_t i = 0; bench.constants != NULL && i < bench.operand_count; i++) {
        if (bench.constants[i].data != NULL)
            wf_tensor_free(&bench.constants[i], meter->allocator);
    }
    wf_arena_deinit(&bench.arena);
    if (status != WF_OK)
        wf_measure_result_deinit(out_result);
    return status;
}
