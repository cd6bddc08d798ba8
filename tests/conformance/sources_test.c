/* SPDX-License-Identifier: Apache-2.0 */
/* Every tactic that a source offers for a table of problems, against the reference: what list offers query
 * knows, prepare makes, launch computes, from two threads at once too. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/random.h"

#include "backend/registry.h"
#include "base/compiler.h"
#include "base/parallel.h"
#include "device/device.h"
#include "device/tiers.h"
#include "ref/ref.h"

#define CONV(x, w, attrs) "v1 conv(x:f32[" x "],w:f32[" w "]const){" attrs "}"
#define CONV_BIAS(x, w, b, attrs) "v1 conv(x:f32[" x "],w:f32[" w "]const,b:f32[" b "]const){" attrs "}"

/* Odd sizes, groups, dilation, asymmetric padding, strides, epilogues. */
static const char *const problems[] = {
    CONV_BIAS("1,3,17,19", "16,3,3,3", "16", "pads=1,1,1,1 str=2,2") "+relu->f32[1,16,9,10]",
    CONV("2,8,9,7", "16,8,3,3", "pads=0,1,2,1") "->f32[2,16,9,7]",
    "v1 conv(x:f32[1,16,14,14],w:f32[32,16,1,1]const,b:f32[32]const)"
    "+add(r:f32[1,32,14,14])+relu->f32[1,32,14,14]",
    "v1 conv(x:f32[1,13,11,5],w:f32[7,13,1,1]const,b:f32[7]const)"
    "+hardswish->f32[1,7,11,5]",
    CONV("1,16,12,12", "24,16,3,3", "dil=2,2 pads=2,2,2,2") "+clip{max=0x1.8p+2 min=0x0p+0}->f32[1,24,12,12]",
    CONV_BIAS("1,16,13,13", "16,1,3,3", "16", "group=16 pads=1,1,1,1") "+swish->f32[1,16,13,13]",
    CONV("1,24,9,9", "24,1,5,5", "group=24 pads=2,2,2,2 str=2,2") "+sigmoid->f32[1,24,5,5]",
    CONV("1,10,9,9", "10,1,3,3", "group=10 pads=1,1,1,1") "+mul(s:f32[1,10,1,1])->f32[1,10,9,9]",
    CONV_BIAS("1,32,8,8", "32,8,3,3", "32",
              "group=4 pads=1,1,1,1") "+leakyrelu{alpha=0x1.99999ap-4}->f32[1,32,8,8]",
    CONV("1,6,7,7", "9,2,3,3", "group=3") "+tanh->f32[1,9,5,5]",
    CONV("1,8,20", "12,8,3", "pads=1,1") "+elu->f32[1,12,20]",
    CONV("1,4,5,6,7", "8,4,3,3,3", "pads=1,1,1,1,1,1") "->f32[1,8,5,6,7]",
    "v1 conv(x:f32[1,16,8,8],w:f32[16,16,1,1]const,b:f32[16]const)"
    "+gelu+add(r:f32[1,16,8,8])->f32[1,16,8,8]",
    CONV_BIAS("1,16,8,8", "16,16,3,3", "16", "pads=1,1,1,1") "+gelu{approximate=tanh}->f32[1,16,8,8]",
    CONV("1,16,8,8", "16,16,3,3", "pads=1,1,1,1") "+add(b:f32[1,16,1,1]const)+mish->f32[1,16,8,8]",
    "v1 conv(x:f32[1,16,8,8],w:f32[16,16,1,1]const)"
    "+mul(m:f32[]const)+sub(r:f32[1,16,8,8])+max(c:f32[16,1,1]const)->f32[1,16,8,8]",
    "v1 conv(x:f32[1,16,1,1],w:f32[64,16,1,1]const)"
    "+abs+sqrt->f32[1,64,1,1]",
    CONV("1,32,6,6", "8,32,1,1", "str=2,2") "+neg+abs->f32[1,8,3,3]",
    CONV("1,8,5,5", "8,8,3,3", "pads=1,1,1,1") "+add(r:f32[1,8,5,5]const)->f32[1,8,5,5]",
    CONV_BIAS("2,19,13,23", "21,19,3,3", "21",
              "pads=1,0,2,1") "+add(r:f32[2,21,14,22])+relu->f32[2,21,14,22]",
    CONV_BIAS("1,24,15,15", "40,24,3,3", "40", "pads=1,1,1,1") "+swish+mul(s:f32[1,40,1,1])->f32[1,40,15,15]",
    "v1 matmul(a:f32[1,37,24],b:f32[24,40]const)+add(c:f32[40]const)+gelu->f32[1,37,40]",
    "v1 matmul(a:f32[5,7],b:f32[7,1]const)->f32[5,1]",
    "v1 matmul(a:f32[2,3,16,8],b:f32[2,3,8,16])->f32[2,3,16,16]",
    "v1 matmul(a:f32[1,4,9,5],b:f32[3,1,5,6])->f32[3,4,9,6]",
    "v1 matmul(a:f32[2,8,8],b:f32[2,8,4])+mul(s:f32[]const)->f32[2,8,4]",
    "v1 matmul(a:f32[1,20,32],b:f32[32,16]const)+add(c:f32[16]const)+add(r:f32[1,20,16])->f32[1,20,16]",
    "v1 gemm(a:f32[1,64],b:f32[10,64]const,c:f32[10]const){transB=1}->f32[1,10]",
    "v1 gemm(a:f32[12,5],b:f32[12,7]){transA=1}->f32[5,7]",
    "v1 gemm(a:f32[9,16],b:f32[16,24]const,c:f32[24]const)+relu->f32[9,24]",
    "v1 max_pool(x:f32[1,16,15,15]){kernel=3,3 pads=1,1,1,1 str=2,2}->f32[1,16,8,8]",
    "v1 equal(x:i32[1,65,1],y:i32[1,1,257]const)+cast{round_mode=up saturate=1 to=1}->f32[1,65,257]",
    "v1 equal(x:i64[3,5],y:i64[])->bool[3,5]",
    "v1 less(x:i64[2,1,4,1],y:i64[3,1,5]const)->bool[2,3,4,5]",
    "v1 less_or_equal(x:i32[7],y:i32[7])->bool[7]",
    "v1 greater(x:i32[1,1,9]const,y:i32[4,9,1])->bool[4,9,9]",
    "v1 greater_or_equal(x:i64[6,1],y:i64[1])+cast{round_mode=up saturate=1 to=1}->f32[6,1]",
    "v1 max_pool(x:f32[1,64,55,55]){ceil_mode=1 kernel=3,3 str=2,2}->f32[1,64,27,27]",
    "v1 max_pool(x:f32[1,7,12,12]){ceil_mode=1 kernel=3,3 str=2,2}->f32[1,7,6,6]",
    "v1 average_pool(x:f32[1,8,9,9]){kernel=3,3 pads=1,1,1,1 str=2,2}->f32[1,8,5,5]",
    "v1 average_pool(x:f32[1,8,9,9]){count_include_pad=1 kernel=3,3 pads=1,1,1,1}->f32[1,8,9,9]",
    "v1 average_pool(x:f32[1,8,10,10]){ceil_mode=1 kernel=3,3 str=2,2}->f32[1,8,5,5]",
    "v1 global_average_pool(x:f32[2,24,7,7])->f32[2,24,1,1]",
    "v1 global_max_pool(x:f32[1,10,5,6])->f32[1,10,1,1]",
};

extern const wf_source_t wf_source_onednn;

/* ---- Oracle ---- */

static void *bytes_of(const wf_type_t *type)
{
    void *data = calloc((size_t)wf_type_elems(type) + 1, sizeof(int64_t));
    assert_non_null(data);
    return data;
}

/* Stage after stage with plain loops. The magnitude of what is summed bounds the error that another order may
 * make. */
static float *reference(const wf_problem_t *problem, const wf_tensor_t *operands)
{
    float *running = NULL;
    for (size_t s = 0; s < problem->stage_count; s++) {
        const wf_problem_stage_t *stage = &problem->stages[s];
        wf_tensor_t inputs[8] = {0}, output = {stage->out, bytes_of(&stage->out)};
        size_t count = 0, taken = 0;
        while (taken < stage->operand_count || (stage->chain_mask >> count) != 0) {
            if ((stage->chain_mask >> count & 1) != 0)
                inputs[count++] = (wf_tensor_t){problem->stages[s - 1].out, running};
            else
                inputs[count++] = operands[stage->first_operand + taken++];
        }
        wf_ref_call_t call = {.op = stage->op,
                              .attrs = &stage->attrs,
                              .input_count = count,
                              .inputs = inputs,
                              .output_count = 1,
                              .outputs = &output};
        size_t scratch_bytes = 0;
        wf_assert_ok(wf_ref_scratch_bytes(&call, &scratch_bytes));
        call.scratch = aligned_alloc(64, (scratch_bytes + 127) / 64 * 64);
        wf_assert_ok(wf_ref_run(&call));
        free(call.scratch);
        free(running);
        running = output.data;
    }
    return running;
}

/* ---- Layouts ---- */

/* Index of an element in a layout, from its row-major index. */
static size_t place(const wf_type_t *type, wf_layout_t layout, size_t row)
{
    if (layout == WF_LAYOUT_ROW || type->rank < 3)
        return row;
    size_t pixels = 1, channels = (size_t)type->dims[1];
    for (uint32_t d = 2; d < type->rank; d++)
        pixels *= (size_t)type->dims[d];
    size_t pixel = row % pixels, channel = row / pixels % channels, image = row / pixels / channels;
    if (layout == WF_LAYOUT_LAST)
        return (image * pixels + pixel) * channels + channel;
    size_t block = layout == WF_LAYOUT_B8 ? 8 : 16, blocks = (channels + block - 1) / block;
    return ((image * blocks + channel / block) * pixels + pixel) * block + channel % block;
}

static float *in_layout(const wf_tensor_t *tensor, wf_layout_t layout)
{
    int64_t elems = wf_layout_elems(&tensor->type, layout);
    assert_true(elems >= 0);
    float *data = aligned_alloc(64, ((size_t)elems * 8 + 127) / 64 * 64);
    memset(data, 0, (size_t)elems * 8);
    if (tensor->type.dtype != WF_DTYPE_F32) {
        assert_int_equal(layout, WF_LAYOUT_ROW);
        memcpy(data, tensor->data, (size_t)wf_type_bytes(&tensor->type));
        return data;
    }
    for (size_t i = 0; i < (size_t)wf_type_elems(&tensor->type); i++)
        data[place(&tensor->type, layout, i)] = ((const float *)tensor->data)[i];
    return data;
}

/* ---- One tactic ---- */

#define TACTICS_MAX 128u
typedef struct found {
    char ids[TACTICS_MAX][WF_TACTIC_ID_MAX];
    size_t count, declines;
    wf_decline_t last_reason;
} found_t;

static wf_status_t take_offer(void *self, const wf_tactic_t *tactic)
{
    found_t *found = self;
    assert_true(found->count < TACTICS_MAX);
    assert_true(tactic->estimate_ns > 0);
    for (size_t i = 0; i < found->count; i++)
        assert_string_not_equal(found->ids[i], tactic->id);
    (void)snprintf(found->ids[found->count++], WF_TACTIC_ID_MAX, "%s", tactic->id);
    return WF_OK;
}

static void take_decline(void *self, const char *family, wf_decline_t reason, const char *text)
{
    found_t *found = self;
    found->last_reason = reason;
    assert_true(family[0] != '\0' && text[0] != '\0');
    found->declines++;
}

typedef struct job {
    const wf_source_t *source;
    void *self;
    const wf_problem_t *problem;
    const char *id;
    const wf_tensor_t *operands;
    const float *want;
    wf_layout_t layouts[16];
    wf_tactic_needs_t needs;
    wf_kernel_t *kernel;
    uint32_t thread_count;
    bool openmp, bits_same, wrong;
    float *first;
    double worst;
} job_t;

/* Runs on memory of its own, in a pool of its own; returns the result, row-major. */
static float *run_once(const job_t *job)
{
    const wf_problem_t *problem = job->problem;
    wf_view_t views[16] = {0};
    for (size_t i = 0; i < problem->operand_count; i++) {
        if (!problem->operands[i].is_const && problem->operands[i].type.dtype != WF_DTYPE_NONE)
            views[i].data = in_layout(&job->operands[i], job->layouts[i]);
    }
    wf_layout_t out_layout = job->layouts[problem->operand_count];
    size_t elems = (size_t)wf_layout_elems(&problem->outputs[0], out_layout);
    float *out = aligned_alloc(64, (elems * 4 + 127) / 64 * 64);
    memset(out, 0xff, elems * 4);
    wf_view_t output = {.data = out};
    void *workspace = aligned_alloc(64, (job->needs.workspace_bytes + 127) / 64 * 64);
    wf_pool_t *pool = NULL;
    wf_assert_ok(wf_pool_create(job->thread_count, job->openmp, wf_allocator_system(), &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    uint32_t fpu = wf_fpu_fast();
    wf_pool_begin(pool);
    wf_assert_ok(job->source->launch(job->self, job->kernel, views, &output, workspace, &parallel));
    wf_pool_end(pool);
    wf_fpu_restore(fpu);
    wf_pool_destroy(pool);
    float *row = bytes_of(&problem->outputs[0]);
    for (size_t i = 0; i < (size_t)wf_type_elems(&problem->outputs[0]); i++)
        row[i] = out[place(&problem->outputs[0], out_layout, i)];
    for (size_t i = 0; i < problem->operand_count; i++)
        free(views[i].data);
    free(out);
    free(workspace);
    return row;
}

static void *run_many(void *arg)
{
    job_t *job = arg;
    job->bits_same = true;
    for (int i = 0; i < 4; i++) {
        float *got = run_once(job);
        job->bits_same &= memcmp(got, job->first, (size_t)wf_type_bytes(&job->problem->outputs[0])) == 0;
        free(got);
    }
    return NULL;
}

static double value_at(const wf_type_t *type, const void *data, size_t i)
{
    return type->dtype == WF_DTYPE_BOOL ? ((const uint8_t *)data)[i] : (double)((const float *)data)[i];
}

/* Integers are few, so that many are equal. */
static void set_random(wf_dtype_t dtype, void *data, int64_t i, wf_random_t *random)
{
    int32_t integer = (int32_t)wf_random_below(random, 5) - 2;
    if (dtype == WF_DTYPE_I32)
        ((int32_t *)data)[i] = integer;
    else if (dtype == WF_DTYPE_I64)
        ((int64_t *)data)[i] = integer;
    else
        ((float *)data)[i] = wf_random_float(random);
}

static void check_values(job_t *job, const float *got)
{
    const wf_type_t *type = &job->problem->outputs[0];
    size_t elems = (size_t)wf_type_elems(type);
    double scale = 0;
    for (size_t i = 0; i < elems; i++)
        scale = fmax(scale, fabs(value_at(type, job->want, i)));
    for (size_t i = 0; i < elems; i++) {
        double error = fabs(value_at(type, got, i) - value_at(type, job->want, i)) / fmax(scale, 1e-30);
        if (!(error <= 1e-5)) {
            print_error("%s\n%s: element %zu is %.9g, want %.9g\n", job->problem->text, job->id, i,
                        value_at(type, got, i), value_at(type, job->want, i));
            job->wrong = true;
            return;
        }
        job->worst = fmax(job->worst, error);
    }
}

static void check_tactic(job_t *job, bool twice_at_once)
{
    const wf_problem_t *problem = job->problem;
    wf_assert_ok(job->source->query(job->self, problem, job->id, job->layouts,
                                    job->layouts + problem->operand_count, &job->needs));
    if (job->needs.is_view || job->needs.must_alias >= 0)
        return;
    wf_tensor_t constants[16] = {0};
    for (size_t i = 0; i < problem->operand_count; i++) {
        constants[i].type = problem->operands[i].type;
        if (!problem->operands[i].is_const || constants[i].type.dtype == WF_DTYPE_NONE)
            continue;
        /* A copy that is gone after prepare, unless the kernel says that it reads it. */
        constants[i].data = in_layout(&job->operands[i], WF_LAYOUT_ROW);
    }
    wf_assert_ok(
        job->source->prepare(job->self, problem, job->id, constants, wf_allocator_system(), &job->kernel));
    bool keeps = job->source->keeps_constants != NULL && job->source->keeps_constants(job->self, job->kernel);
    for (size_t i = 0; i < problem->operand_count && !keeps; i++) {
        if (constants[i].data != NULL) {
            memset(constants[i].data, 0xff, (size_t)wf_type_bytes(&constants[i].type));
            free(constants[i].data);
        }
    }
    job->first = run_once(job);
    check_values(job, job->first);
    if (twice_at_once) {
        job_t others[6];
        pthread_t threads[WF_COUNT_OF(others)];
        /* More than the kernel has memory objects for, or two whose threads share the machine. */
        size_t count = job->thread_count == 1 ? WF_COUNT_OF(others) : 2;
        for (size_t i = 0; i < count; i++) {
            others[i] = *job;
            assert_int_equal(pthread_create(&threads[i], NULL, run_many, &others[i]), 0);
        }
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_true(others[i].bits_same);
        }
    }
    free(job->first);
    job->source->release(job->self, job->kernel);
    for (size_t i = 0; i < problem->operand_count && keeps; i++)
        free(constants[i].data);
}

/* ---- Tables ---- */

typedef struct opened {
    wf_backends_t *backends;
    const wf_source_t *source;
    void *self;
    wf_cpu_t cpu;
} opened_t;

static opened_t open_source(const char *name, uint32_t thread_count)
{
    wf_device_t device;
    wf_assert_ok(wf_device_detect(NULL, &device));
    wf_cpu_t cpu = wf_device_cpu(&device, thread_count);
    const char *only[] = {name, NULL};
    wf_backends_options_t options = {.only = only};
    opened_t opened = {.cpu = cpu};
    wf_assert_ok(wf_backends_open(&cpu, &options, wf_allocator_system(), (wf_log_t){0}, &opened.backends));
    opened.source = wf_backends_source(opened.backends, 0, &opened.self);
    return opened;
}

static const wf_problem_t *parse(const char *text, wf_arena_t *arena)
{
    const wf_problem_t *problem = NULL;
    wf_assert_ok(wf_problem_parse(text, strlen(text), arena, &problem));
    return problem;
}

static size_t run_table(const char *name, uint32_t thread_count, bool twice_at_once, wf_random_t *random)
{
    opened_t opened = open_source(name, thread_count);
    size_t total = 0, wrong = 0;
    for (size_t p = 0; p < WF_COUNT_OF(problems); p++) {
        wf_arena_t arena;
        wf_arena_init(&arena, wf_allocator_system());
        const wf_problem_t *problem = parse(problems[p], &arena);
        wf_tensor_t operands[16] = {0};
        for (size_t i = 0; i < problem->operand_count; i++) {
            const wf_type_t *type = &problem->operands[i].type;
            operands[i].type = *type;
            if (type->dtype == WF_DTYPE_NONE)
                continue;
            operands[i].data = bytes_of(type);
            for (int64_t k = 0; k < wf_type_elems(type); k++)
                set_random(type->dtype, operands[i].data, k, random);
        }
        float *want = reference(problem, operands);
        found_t found = {0};
        const wf_tactic_sink_t sink = {&found, take_offer, take_decline};
        wf_assert_ok(opened.source->list(opened.self, problem, &sink));
        double worst = 0;
        for (size_t t = 0; t < found.count; t++) {
            job_t job = {.source = opened.source,
                         .self = opened.self,
                         .problem = problem,
                         .id = found.ids[t],
                         .operands = operands,
                         .want = want,
                         .thread_count = thread_count,
                         .openmp =
                             opened.source->needs_openmp != NULL && opened.source->needs_openmp(opened.self)};
            check_tactic(&job, twice_at_once && t < (thread_count == 1 ? 2 : 1));
            worst = fmax(worst, job.worst);
            wrong += job.wrong;
        }
        printf("%s: %zu tactics, %zu declines, worst error %.1e of scale: %s\n", name, found.count,
               found.declines, worst, problem->text);
        total += found.count;
        free(want);
        for (size_t i = 0; i < problem->operand_count; i++)
            free(operands[i].data);
        wf_arena_deinit(&arena);
    }
    wf_backends_close(opened.backends);
    assert_int_equal(wrong, 0);
    return total;
}

static bool has_onednn(void)
{
    opened_t opened = open_source("onednn", 1);
    bool has = opened.source->version(opened.self)[0] != '\0';
    wf_backends_close(opened.backends);
    if (!has)
        print_message("SKIPPED: oneDNN (libdnnl.so.2) is not here or cannot be used\n");
    return has;
}

static void native_agrees_with_the_reference(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("sources native", 21);
    assert_true(run_table("native", 2, false, &random) > WF_COUNT_OF(problems));
}

static void onednn_agrees_with_the_reference(void **state)
{
    (void)state;
    if (!has_onednn())
        skip();
    wf_random_t random = wf_random_start("sources onednn", 22);
    assert_true(run_table("onednn", 2, true, &random) > WF_COUNT_OF(problems));
}

static void onednn_runs_on_one_thread(void **state)
{
    (void)state;
    if (!has_onednn())
        skip();
    wf_random_t random = wf_random_start("sources onednn, one thread, several contexts", 23);
    assert_true(run_table("onednn", 1, true, &random) > WF_COUNT_OF(problems));
}

/* Activations on one-tap convolutions that hand the input on, over the range of floats. */
static const char *const activations[] = {
    "relu",
    "leakyrelu",
    "clip{max=0x1.8p+2 min=0x0p+0}",
    "clip{min=-0x1p+0}",
    "sigmoid",
    "swish",
    "hardswish",
    "gelu",
    "gelu{approximate=tanh}",
    "elu",
    "tanh",
    "mish",
    "abs",
    "sqrt",
    "neg",
};

static float swept(size_t i)
{
    static const float special[] = {0.0f,   -0.0f,  INFINITY, -INFINITY, NAN,     88.0f, -88.0f, 89.5f,
                                    -89.5f, 104.0f, -104.0f,  1e-30f,    -1e-30f, 1e4f,  -1e4f,  3.0f,
                                    -3.0f,  1e30f,  -1e30f,   1e-6f,     -1e-6f,  0.5f,  -0.5f,  6.0f};
    return i < WF_COUNT_OF(special) ? special[i] : ((float)i - 140.0f) / 6.0f;
}

/* As a convolution and as a product. */
static const char *const carriers[] = {"v1 conv(x:f32[1,1,16,16],w:f32[8,1,1,1]const)+%s->f32[1,8,16,16]",
                                       "v1 matmul(a:f32[256,1],b:f32[1,8]const)+%s->f32[256,8]"};

static size_t check_activation(const opened_t *opened, bool product, const char *activation)
{
    char text[256];
    const char *carrier = carriers[product], *place_of = strchr(carrier, '%');
    size_t length = (size_t)snprintf(text, sizeof text, "%.*s%s%s", (int)(place_of - carrier), carrier,
                                     activation, place_of + 2);
    assert_true(length < sizeof text);
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    const wf_problem_t *problem = parse(text, &arena);
    float x[256], w[8];
    for (size_t i = 0; i < WF_COUNT_OF(x); i++)
        x[i] = swept(i);
    for (size_t i = 0; i < WF_COUNT_OF(w); i++)
        w[i] = 1;
    const wf_tensor_t operands[] = {{problem->operands[0].type, x}, {problem->operands[1].type, w}};
    float *want = reference(problem, operands);
    found_t found = {0};
    const wf_tactic_sink_t sink = {&found, take_offer, take_decline};
    wf_assert_ok(opened->source->list(opened->self, problem, &sink));
    size_t wrong = 0;
    for (size_t t = 0; t < found.count; t++) {
        job_t job = {.source = opened->source,
                     .self = opened->self,
                     .problem = problem,
                     .id = found.ids[t],
                     .operands = operands,
                     .want = want,
                     .thread_count = 1};
        wf_assert_ok(job.source->query(job.self, problem, job.id, job.layouts, job.layouts + 2, &job.needs));
        wf_assert_ok(
            job.source->prepare(job.self, problem, job.id, operands, wf_allocator_system(), &job.kernel));
        float *got = run_once(&job);
        for (size_t i = 0; i < 8 * WF_COUNT_OF(x); i++) {
            float a = got[i], b = want[i];
            /* The library's relu and clip are a maximum that takes the number (Intel's MAXPS with that
             * order). */
            bool drops_nan = strncmp(activation, "relu", 4) == 0 || strncmp(activation, "clip", 4) == 0;
            if (isnan(b) && drops_nan)
                continue;
            bool same = isnan(b)   ? isnan(a)
                        : isinf(b) ? a == b
                                   : fabsf(a - b) <= 1e-5f * fmaxf(fabsf(b), 1e-1f);
            if (!same) {
                print_error("%s: %s of %g is %.9g, want %.9g\n", job.id, activation,
                            (double)x[product ? i / 8 : i % 256], (double)a, (double)b);
                wrong++;
            }
        }
        free(got);
        job.source->release(job.self, job.kernel);
    }
    free(want);
    wf_arena_deinit(&arena);
    return wrong;
}

static void onednn_activations_over_the_range_of_floats(void **state)
{
    (void)state;
    if (!has_onednn())
        skip();
    opened_t opened = open_source("onednn", 1);
    size_t wrong = 0;
    for (size_t i = 0; i < WF_COUNT_OF(activations); i++)
        wrong += check_activation(&opened, false, activations[i]) +
                 check_activation(&opened, true, activations[i]);
    wf_backends_close(opened.backends);
    assert_int_equal(wrong, 0);
}

/* A library that is not there is a decline with a sentence, and an engine that needs it is told so. */
static void a_missing_library_is_declined_by_name(void **state)
{
    (void)state;
    assert_int_equal(setenv("WAYFINDER_ONEDNN", "/nonexistent/libdnnl.so.2", 1), 0);
    opened_t opened = open_source("onednn", 2);
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    found_t conv = {0}, relu = {0};
    const wf_problem_t *problem = parse(problems[0], &arena);
    const wf_tactic_sink_t conv_sink = {&conv, take_offer, take_decline},
                           relu_sink = {&relu, take_offer, take_decline};
    wf_assert_ok(opened.source->list(opened.self, problem, &conv_sink));
    wf_assert_ok(opened.source->list(opened.self, parse("v1 relu(x:f32[4])->f32[4]", &arena), &relu_sink));
    assert_int_equal(conv.count, 0);
    assert_int_equal(conv.declines, 1);
    assert_int_equal(conv.last_reason, (opened.cpu.tier_mask & WF_TIER_BIT(WF_TIER_AVX2)) != 0
                                           ? WF_DECLINE_LIBRARY
                                           : WF_DECLINE_DEVICE);
    assert_int_equal(relu.count + relu.declines, 0);
    assert_false(opened.source->needs_openmp(opened.self));
    assert_string_equal(opened.source->version(opened.self), "");
    wf_tactic_needs_t needs;
    wf_assert_fails(opened.source->query(opened.self, problem, "onednn/jit:avx2.last", NULL, NULL, &needs),
                    LIBRARY_MISSING);
    wf_kernel_t *kernel = NULL;
    wf_assert_fails(opened.source->prepare(opened.self, problem, "onednn/jit:avx2.last", NULL,
                                           wf_allocator_system(), &kernel),
                    LIBRARY_MISSING);
    assert_null(kernel);
    wf_arena_deinit(&arena);
    wf_backends_close(opened.backends);
    assert_int_equal(unsetenv("WAYFINDER_ONEDNN"), 0);
}

/* Everything up to a launch and back, on one allocator. */
static wf_status_t prepare_and_launch(wf_allocator_t allocator, void *arg)
{
    const wf_problem_t *problem = arg;
    static const char id[] = "onednn/jit:avx2.last";
    static float x[3 * 17 * 19], w[16 * 27], b[16], y[16 * 90];
    static _Alignas(64) uint8_t workspace[1 << 20];
    const wf_tensor_t constants[] = {
        {problem->operands[0].type, NULL}, {problem->operands[1].type, w}, {problem->operands[2].type, b}};
    wf_device_t device;
    wf_assert_ok(wf_device_detect("avx2", &device));
    wf_cpu_t cpu = wf_device_cpu(&device, 1);
    const wf_source_t *source = &wf_source_onednn;
    void *self = NULL;
    wf_kernel_t *kernel = NULL;
    wf_tactic_needs_t needs;
    wf_status_t status = source->open(&cpu, allocator, (wf_log_t){0}, &self);
    if (status == WF_OK)
        status = source->query(self, problem, id, NULL, NULL, &needs);
    if (status == WF_OK)
        status = source->prepare(self, problem, id, constants, allocator, &kernel);
    if (status == WF_OK) {
        assert_true(needs.workspace_bytes <= sizeof workspace);
        const wf_fail_allocator_t *counted = allocator.self;
        uint64_t before = counted->call_count;
        const wf_view_t views[] = {{.data = x}, {0}, {0}}, output = {.data = y};
        wf_parallel_t parallel = wf_parallel_inline();
        status = source->launch(self, kernel, views, &output, workspace, &parallel);
        assert_int_equal(counted->call_count, before);
    } else {
        assert_null(kernel);
    }
    if (self != NULL) {
        source->release(self, kernel);
        source->close(self);
    }
    return status;
}

static void onednn_says_when_there_is_no_memory(void **state)
{
    (void)state;
    if (!has_onednn())
        skip();
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    assert_true(wf_fail_each_allocation(prepare_and_launch, (void *)(uintptr_t)parse(problems[0], &arena)) >
                3);
    wf_arena_deinit(&arena);
}

static void unknown_tactics_are_missing(void **state)
{
    (void)state;
    if (!has_onednn())
        skip();
    static const char *const ids[] = {"onednn/",
                                      "onednn/.last",
                                      "onednn/jit:avx2",
                                      "onednn/jit:avx2.nowhere",
                                      "onednn/nothing:avx9.last",
                                      "onednn/ref:any.last",
                                      "onednn/jit:avx2.matmul"};
    opened_t opened = open_source("onednn", 1);
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    const wf_problem_t *problem = parse(problems[0], &arena);
    for (size_t i = 0; i < WF_COUNT_OF(ids); i++) {
        wf_tactic_needs_t needs;
        wf_assert_fails(opened.source->query(opened.self, problem, ids[i], NULL, NULL, &needs),
                        TACTIC_MISSING);
    }
    wf_arena_deinit(&arena);
    wf_backends_close(opened.backends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(native_agrees_with_the_reference),
        cmocka_unit_test(onednn_agrees_with_the_reference),
        cmocka_unit_test(onednn_runs_on_one_thread),
        cmocka_unit_test(onednn_activations_over_the_range_of_floats),
        cmocka_unit_test(a_missing_library_is_declined_by_name),
        cmocka_unit_test(onednn_says_when_there_is_no_memory),
        cmocka_unit_test(unknown_tactics_are_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
