/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrences: one step of each cell against plain loops in double precision, on every tier; whole sequences
 * through the native source against the reference. */
#include "kernel/kernel_support.h"

#include "base/compiler.h"
#include "base/parallel.h"
#include "op/problem.h"
#include "ref/ref.h"

#include "backends/native/kernels/rnn.h"
#include "backends/native/native.h"

wf_rnn_pack_f32_fn wf_rnn_pack_f32_wide;
wf_rnn_step_f32_fn wf_rnn_step_f32_wide;
#include "backends/native/kernels/rnn.c"

extern const wf_source_t wf_source_native;

static const struct {
    const char *tier;
    int vlen;
    wf_rnn_pack_f32_fn *pack;
    wf_rnn_step_f32_fn *step;
} kernels[] = {
#define VLEN_wide 16
#define VLEN_scalar 4
#define VLEN_avx2 8
#define VLEN_avx512 16
#define X(tier) {#tier, VLEN_##tier, wf_rnn_pack_f32_##tier, wf_rnn_step_f32_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};

/* ---- one step ---- */

enum { ROWS_MOST = 8 };

static double sigmoid_of(double x)
{
    return 1 / (1 + exp(-x));
}

/* Sum of gate `gate` of a pass, from unpacked weights. */
static double sum_of(const float *weights, int64_t hidden, int64_t gate, int64_t unit, const float *v)
{
    double sum = 0;
    for (int64_t k = 0; k < hidden; k++) {
        sum += (double)weights[(gate * hidden + unit) * hidden + k] * (double)v[k];
    }
    return sum;
}

/* The new state of one unit with the default functions; *c is the LSTM's cell, before and after. z: of the
 * first pass of a GRU in two. */
static double step_of(const wf_rnn_args *a, const float *weights, const wf_rnn_row *row, int64_t unit,
                      double *c, double *out_rh)
{
    const int64_t n = a->hidden;
    const float *x = row->x + unit;
    const double h = (double)row->h[unit];
    double s[4] = {0};
    for (int64_t g = 0; g < wf_rnn_gates(a->cell); g++) {
        s[g] = sum_of(weights, n, g, unit, a->cell == WF_RNN_GRU_UPDATE ? row->rh : row->h);
    }
    switch (a->cell) {
    case WF_RNN_LSTM: {
        const float *p = a->peepholes;
        const double i = sigmoid_of(s[0] + (double)x[0] + (p ? (double)p[unit] * *c : 0));
        const double f = sigmoid_of(s[2] + (double)x[2 * n] + (p ? (double)p[2 * n + unit] * *c : 0));
        *c = (a->input_forget ? 1 - i : f) * *c + i * tanh(s[3] + (double)x[3 * n]);
        return sigmoid_of(s[1] + (double)x[n] + (p ? (double)p[n + unit] * *c : 0)) * tanh(*c);
    }
    case WF_RNN_GRU_LINEAR: {
        const double z = sigmoid_of(s[0] + (double)x[0]), r = sigmoid_of(s[1] + (double)x[n]);
        const double b = a->bias ? (double)a->bias[unit] : 0;
        return (1 - z) * tanh((double)x[2 * n] + r * (s[2] + b)) + z * h;
    }
    case WF_RNN_GRU_GATES:
        *out_rh = sigmoid_of(s[1] + (double)x[n]) * h;
        return sigmoid_of(s[0] + (double)x[0]);
    case WF_RNN_GRU_UPDATE:
        return (1 - (double)row->z[unit]) * tanh((double)x[2 * n] + s[0]) + (double)row->z[unit] * h;
    case WF_RNN_PLAIN:
        break;
    }
    return tanh(s[0] + (double)x[0]);
}

typedef struct step_case {
    wf_rnn_args args;
    int rows;
    int64_t padded;
    fence weights, x, h, c, z, rh, y, next; /* [rows][...] */
    wf_rnn_row row[ROWS_MOST];
} step_case;

static void bind_rows(step_case *p, const fence *c, const fence *z, const fence *rh, const fence *next,
                      const fence *y)
{
    for (int r = 0; r < p->rows; r++) {
        const int64_t at = r * p->padded;
        p->row[r] = (wf_rnn_row){.x = (float *)p->x.data + r * 4 * p->args.hidden,
                                 .h = (float *)p->h.data + at,
                                 .h_next = (float *)next->data + at,
                                 .c = (float *)c->data + at,
                                 .y = r % 3 == 2 ? NULL : (float *)y->data + r * p->args.hidden,
                                 .z = (float *)z->data + at,
                                 .rh = (float *)rh->data + at};
    }
}

static void copy_fence(fence *to, const fence *from)
{
    *to = fence_new((int64_t)from->bytes);
    memcpy(to->data, from->data, from->bytes);
}

/* All rows and units at once, checked; then row by row and cut, which has to give the same bits. */
static void check_step(step_case *p, size_t kernel)
{
    const int64_t hidden = p->args.hidden, vlen = kernels[kernel].vlen;
    const int64_t gates = wf_rnn_gates(p->args.cell), vectors = (hidden + vlen - 1) / vlen;
    fence packed = fence_scratch((int64_t)wf_rnn_packed_elems(gates, hidden, vlen) * 4);
    kernels[kernel].pack(p->weights.data, gates, hidden, packed.data);
    p->args.weights = packed.data;
    fence c[2], z[2], rh[2], next[2], y[2];
    for (int i = 0; i < 2; i++) {
        copy_fence(&c[i], &p->c);
        copy_fence(&z[i], &p->z);
        copy_fence(&rh[i], &p->rh);
        copy_fence(&next[i], &p->next);
        copy_fence(&y[i], &p->y);
    }
    bind_rows(p, &c[0], &z[0], &rh[0], &next[0], &y[0]);
    kernels[kernel].step(&p->args, p->row, p->rows, 0, vectors);
    const double bound = 8 * sqrt((double)hidden + 8) * FLT_EPSILON;
    const bool first = p->args.cell == WF_RNN_GRU_GATES;
    bind_rows(p, &p->c, &p->z, &p->rh, &p->next, &p->y);
    for (int r = 0; r < p->rows; r++) {
        for (int64_t u = 0; u < hidden; u++) {
            const int64_t at = r * p->padded + u;
            double cell = (double)((float *)p->c.data)[at], scaled = 0;
            const double want = step_of(&p->args, p->weights.data, &p->row[r], u, &cell, &scaled);
            const float got = ((float *)(first ? z[0] : next[0]).data)[at];
            kernel_assert_close(got, want, bound, "%s cell %d hidden %d row %d unit %d", kernels[kernel].tier,
                                (int)p->args.cell, (int)hidden, r, (int)u);
            if (p->args.cell == WF_RNN_LSTM) {
                kernel_assert_close(((float *)c[0].data)[at], cell, bound, "%s c of hidden %d row %d unit %d",
                                    kernels[kernel].tier, (int)hidden, r, (int)u);
            }
            if (first) {
                kernel_assert_close(((float *)rh[0].data)[at], scaled, bound, "%s r * h of hidden %d",
                                    kernels[kernel].tier, (int)hidden);
            } else if (p->row[r].y != NULL) {
                assert_true(((float *)y[0].data)[r * hidden + u] == got);
            }
        }
    }
    bind_rows(p, &c[1], &z[1], &rh[1], &next[1], &y[1]);
    for (int r = 0; r < p->rows; r++) {
        const int64_t block = wf_rnn_block_vectors(gates);
        for (int64_t v = 0; v < vectors; v += block) {
            kernels[kernel].step(&p->args, p->row + r, 1, v, v + block < vectors ? v + block : vectors);
        }
    }
    assert_memory_equal(next[0].data, next[1].data, next[0].bytes);
    assert_memory_equal(c[0].data, c[1].data, c[0].bytes);
    assert_memory_equal(z[0].data, z[1].data, z[0].bytes);
    assert_memory_equal(rh[0].data, rh[1].data, rh[0].bytes);
    assert_memory_equal(y[0].data, y[1].data, y[0].bytes);
    for (int i = 0; i < 2; i++) {
        fence_free(&c[i]);
        fence_free(&z[i]);
        fence_free(&rh[i]);
        fence_free(&next[i]);
        fence_free(&y[i]);
    }
    fence_free(&packed);
}

static void random_steps(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("recurrent steps", 20261201);
    for (int round = 0; round < 200; round++) {
        step_case p = {.rows = kernel_range(&random, 1, ROWS_MOST)};
        const int64_t hidden = kernel_range(&random, 1, round % 8 ? 70 : 200);
        p.args = (wf_rnn_args){.cell = (wf_rnn_cell)kernel_range(&random, 0, 4),
                               .hidden = hidden,
                               .input_forget = kernel_range(&random, 0, 1),
                               .acts = {WF_RNN_SIGMOID, WF_RNN_TANH, WF_RNN_TANH}};
        if (p.args.cell == WF_RNN_GRU_UPDATE || p.args.cell == WF_RNN_PLAIN) {
            p.args.acts[0] = WF_RNN_TANH;
        }
        p.padded = (hidden + WF_RNN_PAD - 1) / WF_RNN_PAD * WF_RNN_PAD;
        p.weights = fence_floats(&random, wf_rnn_gates(p.args.cell) * hidden * hidden);
        for (size_t i = 0; i < p.weights.bytes / 4; i++) {
            ((float *)p.weights.data)[i] /= sqrtf((float)hidden);
        }
        fence bias = fence_floats(&random, hidden), peepholes = fence_floats(&random, 3 * hidden);
        p.args.bias = kernel_range(&random, 0, 1) ? bias.data : NULL;
        p.args.peepholes = kernel_range(&random, 0, 1) ? peepholes.data : NULL;
        p.x = fence_floats(&random, p.rows * 4 * hidden);
        fence *states[] = {&p.h, &p.c, &p.z, &p.rh, &p.next};
        for (size_t i = 0; i < WF_COUNT_OF(states); i++) {
            *states[i] = fence_floats(&random, p.rows * p.padded);
        }
        p.y = fence_floats(&random, p.rows * hidden);
        for (size_t k = 0; k < WF_COUNT_OF(kernels); k++) {
            if (kernel_tier_runs(kernels[k].tier)) {
                check_step(&p, k);
            }
        }
        fence *all[] = {&p.weights, &bias, &peepholes, &p.x, &p.h, &p.c, &p.z, &p.rh, &p.next, &p.y};
        for (size_t i = 0; i < WF_COUNT_OF(all); i++) {
            fence_free(all[i]);
        }
    }
}

/* ---- whole sequences ---- */

enum { OPERANDS = 8, RESULTS = 3 };

typedef struct sequence_case {
    char text[1024];
    int64_t steps, batch;
    wf_arena_t arena;
    const wf_problem_t *problem;
    fence operands[OPERANDS], want[RESULTS];
} sequence_case;

static bool coin(wf_random_t *random)
{
    return kernel_range(random, 0, 1) != 0;
}

/* An operand that is there, constant or not, or absent. */
static void put_operand(char *text, size_t size, const char *type, bool there, bool constant)
{
    const size_t length = strlen(text);
    if (there) {
        snprintf(text + length, size - length, ",a:%s%s", type, constant ? "const" : "");
    } else {
        snprintf(text + length, size - length, ",_");
    }
}

/* The problem's text; sizes are small now and then, and cross every width of a vector. */
static void make_text(sequence_case *p, wf_random_t *random)
{
    static const char *const names[] = {"lstm", "gru", "rnn"};
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    static const char *const functions[] = {"Sigmoid", "Tanh", "Relu", "Softsign", "Softplus"};
    const int kind = kernel_range(random, 0, 2), direction = kernel_range(random, 0, 2);
    const int gates = kind == 0 ? 4 : kind == 1 ? 3 : 1, d = direction == 2 ? 2 : 1;
    const int hidden = kernel_range(random, 1, coin(random) ? 40 : 160), input = kernel_range(random, 1, 60);
    const bool batch_first = coin(random), lstm = kind == 0;
    const int steps = kernel_range(random, 1, 7), batch = kernel_range(random, 1, 6);
    const int a = batch_first ? batch : steps, b = batch_first ? steps : batch;
    char type[64], state[64];
    p->steps = steps;
    p->batch = batch;
    snprintf(state, sizeof state, "f32[%d,%d,%d]", batch_first ? batch : d, batch_first ? d : batch, hidden);
    snprintf(p->text, sizeof p->text, "v1 %s(x:f32[%d,%d,%d],y:f32[%d,%d,%d]const,z:f32[%d,%d,%d]const",
             names[kind], a, b, input, d, gates * hidden, input, d, gates * hidden, hidden);
    snprintf(type, sizeof type, "f32[%d,%d]", d, 2 * gates * hidden);
    put_operand(p->text, sizeof p->text, type, coin(random), true);
    snprintf(type, sizeof type, "i32[%d]", batch);
    put_operand(p->text, sizeof p->text, type, coin(random), coin(random));
    put_operand(p->text, sizeof p->text, state, coin(random), coin(random));
    if (lstm) {
        put_operand(p->text, sizeof p->text, state, coin(random), coin(random));
        snprintf(type, sizeof type, "f32[%d,%d]", d, 3 * hidden);
        put_operand(p->text, sizeof p->text, type, coin(random), true);
    }
    size_t at = strlen(p->text);
    at += (size_t)snprintf(p->text + at, sizeof p->text - at, "){layout=%d direction=%s", batch_first,
                           directions[direction]);
    if (coin(random)) {
        for (int i = 0; i < d * (lstm ? 3 : kind == 1 ? 2 : 1); i++) {
            at += (size_t)snprintf(p->text + at, sizeof p->text - at, "%s%s", i == 0 ? " activations=" : ",",
                                   functions[kernel_range(random, 0, 4)]);
        }
    }
    if (coin(random)) {
        at += (size_t)snprintf(p->text + at, sizeof p->text - at, " clip=0x1p-1");
    }
    if (kind != 2) {
        at += (size_t)snprintf(p->text + at, sizeof p->text - at, " %s=%d",
                               lstm ? "input_forget" : "linear_before_reset", kernel_range(random, 0, 1));
    }
    const int wanted = kernel_range(random, 1, lstm ? 7 : 3);
    snprintf(type, sizeof type, "f32[%d,%d,%d,%d]", a, batch_first ? steps : d, batch_first ? d : batch,
             hidden);
    snprintf(p->text + at, sizeof p->text - at, "}->%s,%s%s%s", wanted & 1 ? type : "_",
             wanted & 2 ? state : "_", lstm ? "," : "",
             !lstm        ? ""
             : wanted & 4 ? state
                          : "_");
}

static void make_case(sequence_case *p, wf_random_t *random)
{
    make_text(p, random);
    wf_arena_init(&p->arena, wf_allocator_system());
    wf_status_t status = wf_problem_parse(p->text, strlen(p->text), &p->arena, &p->problem);
    if (status != WF_OK) {
        print_error("%s\n", p->text);
    }
    wf_assert_ok(status);
    const float scale = 1 / sqrtf((float)p->problem->operands[2].type.dims[2]);
    for (size_t i = 0; i < p->problem->operand_count; i++) {
        const wf_type_t *type = &p->problem->operands[i].type;
        if (type->dtype == WF_DTYPE_NONE) {
            continue;
        }
        const int64_t count = wf_type_elems(type);
        p->operands[i] = fence_floats(random, count);
        for (int64_t k = 0; k < count; k++) {
            if (type->dtype == WF_DTYPE_I32) {
                ((int32_t *)p->operands[i].data)[k] = kernel_range(random, 0, (int)p->steps);
            } else if (i == 1 || i == 2) {
                ((float *)p->operands[i].data)[k] *= scale;
            }
        }
    }
}

static void run_reference(sequence_case *p)
{
    wf_tensor_t inputs[OPERANDS], outputs[RESULTS];
    for (size_t i = 0; i < p->problem->operand_count; i++) {
        inputs[i] = (wf_tensor_t){p->problem->operands[i].type, p->operands[i].data};
    }
    for (size_t i = 0; i < p->problem->output_count; i++) {
        const wf_type_t *type = &p->problem->outputs[i];
        if (type->dtype != WF_DTYPE_NONE) {
            p->want[i] = fence_new(wf_type_bytes(type));
        }
        outputs[i] = (wf_tensor_t){*type, p->want[i].data};
    }
    wf_ref_call_t call = {.op = p->problem->stages[0].op,
                          .attrs = &p->problem->stages[0].attrs,
                          .input_count = p->problem->operand_count,
                          .inputs = inputs,
                          .output_count = p->problem->output_count,
                          .outputs = outputs};
    size_t bytes = 0;
    wf_assert_ok(wf_ref_scratch_bytes(&call, &bytes));
    fence scratch = fence_scratch((int64_t)bytes + 64);
    call.scratch = scratch.data;
    wf_assert_ok(wf_ref_run(&call));
    fence_free(&scratch);
}

/* One tactic with one parallel; results into out. */
static wf_status_t run_tactic(const sequence_case *p, void *source, const char *id,
                              const wf_parallel_t *parallel, fence *out)
{
    wf_tensor_t constants[OPERANDS];
    wf_view_t operands[OPERANDS], outputs[RESULTS];
    for (size_t i = 0; i < p->problem->operand_count; i++) {
        const bool constant = p->problem->operands[i].is_const;
        constants[i] = (wf_tensor_t){p->problem->operands[i].type, constant ? p->operands[i].data : NULL};
        operands[i] = (wf_view_t){constant ? NULL : p->operands[i].data, 0};
    }
    for (size_t i = 0; i < p->problem->output_count; i++) {
        const wf_type_t *type = &p->problem->outputs[i];
        out[i] = type->dtype != WF_DTYPE_NONE ? fence_new(wf_type_bytes(type)) : (fence){0};
        outputs[i] = (wf_view_t){out[i].data, 0};
    }
    wf_tactic_needs_t needs;
    wf_kernel_t *kernel;
    wf_assert_ok(wf_source_native.query(source, p->problem, id, NULL, NULL, &needs));
    wf_assert_ok(wf_source_native.prepare(source, p->problem, id, constants, wf_allocator_system(), &kernel));
    fence workspace = fence_scratch((int64_t)needs.workspace_bytes + 64);
    wf_status_t status = wf_source_native.launch(source, kernel, operands, outputs, workspace.data, parallel);
    fence_free(&workspace);
    wf_source_native.release(source, kernel);
    return status;
}

static void check_results(const sequence_case *p, const fence *got, const char *id)
{
    const double depth =
        (double)(p->problem->operands[1].type.dims[2] + p->problem->operands[2].type.dims[2]);
    for (size_t i = 0; i < p->problem->output_count; i++) {
        const float *want = p->want[i].data;
        for (int64_t k = 0; want != NULL && k < wf_type_elems(&p->problem->outputs[i]); k++) {
            /* Errors of a step are passed on to the next. */
            const double bound =
                16 * (double)p->steps * sqrt(depth + 8) * FLT_EPSILON * (1 + fabs((double)want[k]));
            kernel_assert_close(((float *)got[i].data)[k], want[k], bound, "%s of %s: output %d element %d",
                                id, p->text, (int)i, (int)k);
        }
    }
}

static void check_tier(const sequence_case *p, const wf_native_tier_t *tier, const wf_parallel_t *threads)
{
    wf_cpu_t cpu = {.tier_mask = WF_TIER_BIT(tier->tier) | WF_TIER_BIT(WF_TIER_SCALAR),
                    .thread_count = threads->thread_count,
                    .l1d_bytes = 32768,
                    .l2_bytes = 524288,
                    .l3_bytes = 33554432,
                    .f32_flops_per_ns = 100,
                    .l3_bytes_per_ns = 20};
    const wf_parallel_t alone = wf_parallel_inline();
    const wf_parallel_t *const parallels[] = {&alone, threads, threads};
    void *source;
    fence first[RESULTS];
    wf_assert_ok(wf_source_native.open(&cpu, wf_allocator_system(), (wf_log_t){0}, &source));
    for (int i = 0; i < 3; i++) {
        char id[64];
        fence got[RESULTS];
        snprintf(id, sizeof id, "native/rnn.%s.sp%d@1", tier->name, i == 2);
        wf_assert_ok(run_tactic(p, source, id, parallels[i], i == 0 ? first : got));
        if (i == 0) {
            check_results(p, first, id);
            continue;
        }
        for (size_t k = 0; k < p->problem->output_count; k++) {
            if (got[k].data != NULL)
                assert_memory_equal(got[k].data, first[k].data, got[k].bytes);
            fence_free(&got[k]);
        }
    }
    for (size_t k = 0; k < p->problem->output_count; k++) {
        fence_free(&first[k]);
    }
    wf_source_native.close(source);
}

static void free_case(sequence_case *p)
{
    for (size_t i = 0; i < OPERANDS; i++) {
        fence_free(&p->operands[i]);
    }
    for (size_t i = 0; i < RESULTS; i++) {
        fence_free(&p->want[i]);
    }
    wf_arena_deinit(&p->arena);
}

static void random_sequences(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("recurrent sequences", 20261201);
    wf_pool_t *pool;
    wf_assert_ok(wf_pool_create(3, false, wf_allocator_system(), &pool));
    const wf_parallel_t threads = wf_pool_parallel(pool);
    for (int round = 0; round < 150; round++) {
        sequence_case p = {.steps = 0};
        make_case(&p, &random);
        run_reference(&p);
        for (size_t t = 0; t < wf_native_tier_count; t++) {
            if (kernel_tier_runs(wf_native_tiers[t].name)) {
                check_tier(&p, &wf_native_tiers[t], &threads);
            }
        }
        free_case(&p);
    }
    wf_pool_destroy(pool);
}

static void impossible_lengths_are_refused(void **state)
{
    (void)state;
    static const int32_t lengths[] = {-1, 3};
    wf_cpu_t cpu = {.tier_mask = WF_TIER_BIT(WF_TIER_SCALAR),
                    .thread_count = 1,
                    .l1d_bytes = 32768,
                    .l2_bytes = 524288,
                    .l3_bytes = 33554432,
                    .f32_flops_per_ns = 100,
                    .l3_bytes_per_ns = 20};
    const wf_parallel_t alone = wf_parallel_inline();
    wf_random_t random = wf_random_start("recurrent lengths", 1);
    void *source;
    wf_assert_ok(wf_source_native.open(&cpu, wf_allocator_system(), (wf_log_t){0}, &source));
    for (size_t i = 0; i < WF_COUNT_OF(lengths); i++) {
        sequence_case p = {
            .text = "v1 gru(x:f32[2,1,3],y:f32[1,6,3]const,z:f32[1,6,2]const,_,a:i32[1])->f32[2,1,1,2]"};
        fence got[RESULTS];
        wf_arena_init(&p.arena, wf_allocator_system());
        wf_assert_ok(wf_problem_parse(p.text, strlen(p.text), &p.arena, &p.problem));
        for (size_t k = 0; k < p.problem->operand_count; k++) {
            if (p.problem->operands[k].type.dtype != WF_DTYPE_NONE)
                p.operands[k] = fence_floats(&random, wf_type_elems(&p.problem->operands[k].type));
        }
        memcpy(p.operands[4].data, &lengths[i], sizeof lengths[i]);
        wf_assert_fails(run_tactic(&p, source, "native/rnn.scalar.sp0@1", &alone, got), RUNTIME_DATA);
        fence_free(&got[0]);
        free_case(&p);
    }
    wf_source_native.close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_steps),
        cmocka_unit_test(random_sequences),
        cmocka_unit_test(impossible_lengths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
