/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, GRU and RNN, f32, constant weights: the product with the input is one GEMM for all steps and
 * directions; then either every thread takes whole sequences (one direction of a few rows of the batch), or,
 * when there are fewer of those than threads, the hidden units of each step are spread over the threads. */
#include <string.h>

#include "backends/native/gemm_common.h"
#include "base/checked.h"
#include "base/compiler.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENS, IN_H, IN_C, IN_P, INPUTS };
enum { OUT_Y, OUT_H, OUT_C, OUTPUTS };
enum { SPLIT }; /* params: 1: each step over the threads */

/* A step over the threads costs a parallel region or two, 0.6 us each (Zen 3, 2026-11-30); 64 K multiply-adds
 * should take several times that. A guess, not measured: the tuner measures both. */
#define SPLIT_MIN_MACS 65536.0
/* Shorter sequences run on the calling thread. */
#define PARALLEL_MIN_MACS 65536.0
/* Weights stream from L2 or L3: a quarter of the peak is a guess, not measured. */
#define STEP_EFFICIENCY 0.25

#define PASSES_MAX 2

static const struct rnn_row {
    wf_op_t op;
    int32_t gates, functions, states;
    const char *defaults[3];
} rnn_rows[] = {
    {WF_OP_LSTM, 4, 3, 2, {"Sigmoid", "Tanh", "Tanh"}},
    {WF_OP_GRU, 3, 2, 1, {"Sigmoid", "Tanh", NULL}},
    {WF_OP_RNN, 1, 1, 1, {"Tanh", NULL, NULL}},
};

static const struct {
    const char *name;
    wf_rnn_act act;
} rnn_acts[] = {
    {"Sigmoid", WF_RNN_SIGMOID},   {"Tanh", WF_RNN_TANH},         {"Relu", WF_RNN_RELU},
    {"Softsign", WF_RNN_SOFTSIGN}, {"Softplus", WF_RNN_SOFTPLUS},
};

typedef struct rnn_case {
    const struct rnn_row *row;
    int64_t steps, batch, directions, input, hidden;
    int64_t padded; /* hidden, rounded up to WF_RNN_PAD */
    bool batch_first, backward, linear;
    int32_t pass_count;
    wf_rnn_args passes[2][PASSES_MAX]; /* of each direction; weights and biases from prepare */
} rnn_case_t;

static const struct rnn_row *find_row(const wf_problem_t *problem)
{
    for (size_t i = 0; i < WF_COUNT_OF(rnn_rows); i++) {
        if (rnn_rows[i].op == problem->stages[0].op)
            return &rnn_rows[i];
    }
    return NULL;
}

static bool has(const wf_problem_t *problem, size_t operand)
{
    return operand < problem->operand_count && problem->operands[operand].type.dtype != WF_DTYPE_NONE;
}

static bool wants(const wf_problem_t *problem, size_t output)
{
    return output < problem->output_count && problem->outputs[output].dtype != WF_DTYPE_NONE;
}

static bool read_acts(const wf_problem_t *problem, rnn_case_t *c)
{
    const wf_attr_t *names = wf_attrs_find(&problem->stages[0].attrs, "activations");
    for (int64_t i = 0; i < c->directions * c->row->functions; i++) {
        bool given = names != NULL && names->kind == WF_ATTR_STRINGS && (size_t)i < names->count;
        const char *name = given ? names->v.strings[i] : c->row->defaults[i % c->row->functions];
        size_t k = 0;
        while (k < WF_COUNT_OF(rnn_acts) && strcmp(rnn_acts[k].name, name) != 0)
            k++;
        if (k == WF_COUNT_OF(rnn_acts))
            return false;
        for (int32_t p = 0; p < c->pass_count; p++)
            c->passes[i / c->row->functions][p].acts[i % c->row->functions] = rnn_acts[k].act;
    }
    return true;
}

/* Everything but the weights; false for functions that the kernels do not have. */
static bool resolve(const wf_problem_t *problem, rnn_case_t *c)
{
    const wf_attrs_t *attrs = &problem->stages[0].attrs;
    const wf_type_t *x = &problem->operands[IN_X].type, *r = &problem->operands[IN_R].type;
    *c = (rnn_case_t){.row = find_row(problem)};
    c->batch_first = wf_attrs_int(attrs, "layout", 0) != 0;
    c->steps = x->dims[c->batch_first ? 1 : 0];
    c->batch = x->dims[c->batch_first ? 0 : 1];
    c->input = x->dims[2];
    c->directions = r->dims[0];
    c->hidden = r->dims[2];
    c->padded = (c->hidden + WF_RNN_PAD - 1) / WF_RNN_PAD * WF_RNN_PAD;
    c->backward = strcmp(wf_attrs_string(attrs, "direction", "forward"), "reverse") == 0;
    c->linear = wf_attrs_int(attrs, "linear_before_reset", 0) != 0;
    bool two = c->row->op == WF_OP_GRU && !c->linear;
    wf_rnn_cell cell = c->row->op == WF_OP_LSTM  ? WF_RNN_LSTM
                       : c->row->op == WF_OP_RNN ? WF_RNN_PLAIN
                       : two                     ? WF_RNN_GRU_GATES
                                                 : WF_RNN_GRU_LINEAR;
    c->pass_count = two ? 2 : 1;
    for (int64_t i = 0; i < 2 * PASSES_MAX; i++) {
        c->passes[i / PASSES_MAX][i % PASSES_MAX] =
            (wf_rnn_args){.cell = i % PASSES_MAX == 0 ? cell : WF_RNN_GRU_UPDATE,
                          .hidden = c->hidden,
                          .clip = wf_attrs_float(attrs, "clip", 0),
                          .input_forget = wf_attrs_int(attrs, "input_forget", 0) != 0};
    }
    return c->directions <= 2 && read_acts(problem, c);
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    rnn_case_t c;
    if (find_row(problem) == NULL)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, "no epilogue");
    for (size_t i = 0; i < problem->operand_count; i++) {
        if (has(problem, i) && i != IN_LENS && problem->operands[i].type.dtype != WF_DTYPE_F32)
            return WF_NATIVE_NO(TYPE, "element types other than f32");
    }
    if (problem->operands[IN_X].is_const)
        return WF_NATIVE_NO(SHAPE, "the input is constant");
    static const size_t constant[] = {IN_W, IN_R, IN_B, IN_P};
    for (size_t i = 0; i < WF_COUNT_OF(constant); i++) {
        if (has(problem, constant[i]) && !problem->operands[constant[i]].is_const)
            return WF_NATIVE_NO(SHAPE, "weights are computed at run time");
    }
    if (wf_type_elems(&problem->operands[IN_X].type) <= 0 ||
        wf_type_elems(&problem->operands[IN_R].type) <= 0)
        return WF_NATIVE_NO(SHAPE, "empty");
    if (!resolve(problem, &c))
        return WF_NATIVE_NO(ATTRIBUTE, "activations with parameters");
    return WF_NATIVE_FITS;
}

/* ---- plan ---- */

static double step_macs(const rnn_case_t *c)
{
    return (double)c->directions * (double)c->batch * (double)c->row->gates * (double)c->hidden *
           (double)c->hidden;
}

static bool may_split(const wf_native_t *native, const rnn_case_t *c)
{
    return native->cpu.thread_count > 1 && step_macs(c) >= SPLIT_MIN_MACS;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    rnn_case_t c;
    (void)capacity;
    if (!resolve(problem, &c))
        return 0;
    out_variants[1].params[SPLIT] = 1;
    return may_split(native, &c) ? 2 : 1;
}

/* Where things lie in the workspace, in bytes. */
typedef struct rnn_memory {
    size_t gemm, x, h, c, z, rows, total;
} rnn_memory_t;

static bool place(size_t *total, size_t count, size_t each_bytes, size_t *out_at)
{
    size_t bytes;
    *out_at = *total;
    return wf_size_mul(count, each_bytes, &bytes) && wf_size_align(bytes, 64, &bytes) &&
           wf_size_add(*total, bytes, total);
}

static bool place_all(const rnn_case_t *c, size_t thread_count, size_t gemm_thread_bytes, rnn_memory_t *out)
{
    *out = (rnn_memory_t){0};
    size_t states = (size_t)(c->directions * c->batch * c->padded);
    size_t pass_states = c->pass_count == 2 ? states : 0, cells = c->row->states == 2 ? states : 0, columns;
    if (!wf_size_mul((size_t)(c->steps * c->batch), (size_t)(c->directions * c->row->gates * c->hidden),
                     &columns))
        return false;
    return place(&out->total, thread_count, gemm_thread_bytes, &out->gemm) &&
           place(&out->total, columns, sizeof(float), &out->x) &&
           place(&out->total, states, 2 * sizeof(float), &out->h) &&
           place(&out->total, cells, sizeof(float), &out->c) &&
           place(&out->total, pass_states, 2 * sizeof(float), &out->z) &&
           place(&out->total, thread_count * (size_t)c->batch, sizeof(wf_rnn_row), &out->rows);
}

static wf_gemm_shape input_shape(const rnn_case_t *c)
{
    int64_t columns = c->directions * c->row->gates * c->hidden;
    return (wf_gemm_shape){.a_kind = WF_GEMM_A_ROWS,
                           .b_kind = WF_GEMM_B_PACKED,
                           .m = c->steps * c->batch,
                           .n = columns,
                           .k = c->input,
                           .lda = c->input,
                           .ldc = columns,
                           .batch = {1, 1}};
}

static wf_gemm_plan input_plan(const wf_native_t *native, uint32_t tier, const wf_gemm_shape *shape)
{
    wf_gemm_caches caches;
    wf_native_gemm_caches(native, &caches);
    return wf_native_tiers[tier].gemm->plan_default(shape, &caches, (int)native->cpu.thread_count);
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    rnn_case_t c;
    rnn_memory_t memory;
    if (!resolve(problem, &c) || variant->params[SPLIT] < 0 || variant->params[SPLIT] > 1)
        return WF_NATIVE_NO(SHAPE, "the plan does not fit");
    wf_gemm_shape shape = input_shape(&c);
    wf_gemm_plan gemm_plan = input_plan(native, variant->tier, &shape);
    double steps = (double)c.steps, threads = (double)WF_MAX(native->cpu.thread_count, 1u);
    double input_flops = 2 * (double)shape.m * (double)shape.n * (double)shape.k;
    wf_native_gemm_needs(native, variant->tier, &shape, &gemm_plan, input_flops, wf_problem_bytes(problem),
                         plan);
    size_t thread_bytes = wf_native_tiers[variant->tier].gemm->workspace_bytes(&shape, &gemm_plan);
    if (!place_all(&c, (size_t)threads, thread_bytes, &memory))
        return WF_NATIVE_NO(SHAPE, "the workspace cannot be addressed");
    plan->needs.workspace_bytes = memory.total;
    plan->needs.packed_bytes +=
        (size_t)c.directions * sizeof(float) *
        wf_rnn_packed_elems(c.row->gates, c.hidden, wf_native_tiers[variant->tier].vlen);
    /* Without a split the threads that have no sequence of their own wait. */
    double split = variant->params[SPLIT] != 0 ? threads : WF_MIN(threads, (double)(c.directions * c.batch));
    double regions = variant->params[SPLIT] != 0 ? steps * c.pass_count : 1;
    plan->estimate_ns +=
        wf_native_estimate_ns(native, variant->tier, 2 * steps * step_macs(&c) * threads / split,
                              STEP_EFFICIENCY, 0, 0) +
        600 * regions;
    return WF_NATIVE_FITS;
}

/* ---- prepare ---- */

typedef struct rnn_state {
    rnn_case_t c;
    rnn_memory_t memory;
    wf_native_gemm_t gemm;
    const float *initial[2]; /* h, c when they are constant */
    const int32_t *lens;     /* when they are constant */
} rnn_state_t;

static bool bias_stays(const rnn_case_t *c, int64_t gate)
{
    return c->row->op == WF_OP_GRU && c->linear && gate == 2;
}

/* Both biases go into the input product, but for that of a recurrent product which is scaled alone. */
static wf_status_t keep_biases(wf_kernel_t *kernel, rnn_state_t *state, const float *bias)
{
    rnn_case_t *c = &state->c;
    int64_t columns = c->row->gates * c->hidden;
    float *sums = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)(c->directions * columns), sizeof *sums, &sums));
    for (int64_t d = 0; d < c->directions; d++) {
        const float *from = bias + d * 2 * columns;
        for (int64_t i = 0; i < columns; i++)
            sums[d * columns + i] = from[i] + (bias_stays(c, i / c->hidden) ? 0 : from[columns + i]);
        if (c->passes[d][0].cell == WF_RNN_GRU_LINEAR) {
            WF_TRY(wf_native_keep_floats(kernel, from + columns + 2 * c->hidden, c->hidden,
                                         &c->passes[d][0].bias));
        }
    }
    state->gemm.bias = sums;
    return WF_OK;
}

static wf_status_t pack_recurrent(wf_kernel_t *kernel, rnn_case_t *c, const float *weights)
{
    for (int64_t d = 0; d < c->directions; d++) {
        for (int32_t p = 0; p < c->pass_count; p++) {
            wf_rnn_args *pass = &c->passes[d][p];
            int64_t gates = wf_rnn_gates(pass->cell);
            float *packed = NULL;
            WF_TRY(wf_arena_alloc(&kernel->memory, wf_rnn_packed_elems(gates, c->hidden, kernel->tier->vlen),
                                  sizeof *packed, &packed));
            kernel->tier->rnn_pack(weights, gates, c->hidden, packed);
            pass->weights = packed;
            weights += gates * c->hidden * c->hidden;
        }
    }
    return WF_OK;
}

static wf_status_t keep_operands(wf_kernel_t *kernel, rnn_state_t *state, const wf_tensor_t *constants)
{
    const wf_problem_t *problem = kernel->problem;
    rnn_case_t *c = &state->c;
    for (size_t i = 0; i < 2; i++) {
        if (has(problem, IN_H + i) && problem->operands[IN_H + i].is_const) {
            WF_TRY(wf_native_keep_floats(kernel, constants[IN_H + i].data,
                                         wf_type_elems(&constants[IN_H + i].type), &state->initial[i]));
        }
    }
    if (has(problem, IN_LENS) && problem->operands[IN_LENS].is_const) {
        int32_t *lens = NULL;
        WF_TRY(wf_arena_alloc(&kernel->memory, (size_t)c->batch, sizeof *lens, &lens));
        memcpy(lens, constants[IN_LENS].data, (size_t)c->batch * sizeof *lens);
        state->lens = lens;
    }
    for (int64_t d = 0; has(problem, IN_P) && d < c->directions; d++) {
        WF_TRY(wf_native_keep_floats(kernel, (const float *)constants[IN_P].data + d * 3 * c->hidden,
                                     3 * c->hidden, &c->passes[d][0].peepholes));
    }
    return WF_OK;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    const wf_problem_t *problem = kernel->problem;
    rnn_state_t *state = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *state, &state));
    *state = (rnn_state_t){0};
    kernel->state = state;
    rnn_case_t *c = &state->c;
    if (!resolve(problem, c))
        return WF_ERROR(INTERNAL, "recurrence refused after planning");
    wf_native_gemm_t *gemm = &state->gemm;
    gemm->shape = input_shape(c);
    gemm->plan = input_plan(kernel->native, kernel->variant->tier, &gemm->shape);
    gemm->groups = 1;
    gemm->a_operand = IN_X;
    gemm->b_operand = IN_W;
    gemm->thread_workspace_bytes = kernel->tier->gemm->workspace_bytes(&gemm->shape, &gemm->plan);
    if (!place_all(c, WF_MAX(kernel->native->cpu.thread_count, 1u), gemm->thread_workspace_bytes,
                   &state->memory))
        return WF_ERROR(INTERNAL, "recurrence refused after planning");
    WF_TRY(wf_native_gemm_pack(kernel, gemm, constants[IN_W].data, 0,
                               &(wf_gemm_b_strides){.n = c->input, .k = 1}, 1));
    WF_TRY(pack_recurrent(kernel, c, constants[IN_R].data));
    if (has(problem, IN_B))
        WF_TRY(keep_biases(kernel, state, constants[IN_B].data));
    return keep_operands(kernel, state, constants);
}

/* ---- launch ---- */

typedef struct rnn_run {
    const rnn_state_t *state;
    const rnn_case_t *c;
    const wf_native_tier_t *tier;
    const float *x; /* input product, [steps][batch] or [batch][steps] rows of all directions and gates */
    const float *initial[2];
    const int32_t *lens;
    float *h, *cells, *z; /* h: two of each state, used in turn; z: z and r * h of each */
    float *y;
    wf_rnn_row *rows; /* [threads][batch] */
    int64_t states;   /* floats of one set of states */
    int64_t rows_per_item, row_items, vectors_per_item, vector_items, step;
    int32_t pass;
} rnn_run_t;

static int64_t length_of(const rnn_run_t *run, int64_t row)
{
    return run->lens != NULL ? run->lens[row] : run->c->steps;
}

/* Index of a state in workspace. */
static int64_t padded_at(const rnn_case_t *c, int64_t direction, int64_t row)
{
    return (direction * c->batch + row) * c->padded;
}

/* Index of a state in operands and outputs. */
static int64_t dense_at(const rnn_case_t *c, int64_t direction, int64_t row)
{
    return (c->batch_first ? row * c->directions + direction : direction * c->batch + row) * c->hidden;
}

static int64_t y_at(const rnn_case_t *c, int64_t direction, int64_t row, int64_t t)
{
    return (c->batch_first ? (row * c->steps + t) * c->directions + direction
                           : (t * c->directions + direction) * c->batch + row) *
           c->hidden;
}

/* The sequences of rows [begin, end) that are not over at step `step`; returns how many. */
static int64_t active_rows(const rnn_run_t *run, int64_t direction, int64_t begin, int64_t end, int64_t step,
                           wf_rnn_row *out_rows)
{
    const rnn_case_t *c = run->c;
    int64_t count = 0, columns = c->row->gates * c->hidden;
    for (int64_t row = begin; row < end; row++) {
        int64_t length = length_of(run, row), at = padded_at(c, direction, row);
        if (step >= length)
            continue;
        int64_t t = c->backward || direction == 1 ? length - 1 - step : step;
        int64_t x_row = c->batch_first ? row * c->steps + t : t * c->batch + row;
        out_rows[count++] = (wf_rnn_row){.x = run->x + (x_row * c->directions + direction) * columns,
                                         .h = run->h + (step % 2) * run->states + at,
                                         .h_next = run->h + (1 - step % 2) * run->states + at,
                                         .c = run->cells + at,
                                         .y = run->y != NULL ? run->y + y_at(c, direction, row, t) : NULL,
                                         .z = run->z + at,
                                         .rh = run->z + run->states + at};
    }
    return count;
}

/* Whole sequences: item = (direction, group of rows). */
static void run_sequences(void *arg, size_t item, uint32_t thread)
{
    const rnn_run_t *run = arg;
    const rnn_case_t *c = run->c;
    int64_t direction = (int64_t)item / run->row_items;
    int64_t begin = (int64_t)item % run->row_items * run->rows_per_item;
    int64_t end = WF_MIN(begin + run->rows_per_item, c->batch);
    int64_t vectors = (c->hidden + run->tier->vlen - 1) / run->tier->vlen;
    wf_rnn_row *rows = run->rows + (int64_t)thread * c->batch;
    for (int64_t step = 0; step < c->steps; step++) {
        int64_t count = active_rows(run, direction, begin, end, step, rows);
        for (int32_t p = 0; count > 0 && p < c->pass_count; p++)
            run->tier->rnn_step(&c->passes[direction][p], rows, count, 0, vectors);
    }
}

/* One pass of one step: item = (direction, part of the units). */
static void run_units(void *arg, size_t item, uint32_t thread)
{
    const rnn_run_t *run = arg;
    const rnn_case_t *c = run->c;
    int64_t direction = (int64_t)item / run->vector_items;
    int64_t begin = (int64_t)item % run->vector_items * run->vectors_per_item;
    int64_t vectors = (c->hidden + run->tier->vlen - 1) / run->tier->vlen;
    wf_rnn_row *rows = run->rows + (int64_t)thread * c->batch;
    int64_t count = active_rows(run, direction, 0, c->batch, run->step, rows);
    run->tier->rnn_step(&c->passes[direction][run->pass], rows, count, begin,
                        WF_MIN(begin + run->vectors_per_item, vectors));
}

static void run_steps(rnn_run_t *run, const wf_parallel_t *parallel)
{
    const rnn_case_t *c = run->c;
    int64_t vectors = (c->hidden + run->tier->vlen - 1) / run->tier->vlen;
    int64_t parts = WF_MAX(((int64_t)parallel->thread_count + c->directions - 1) / c->directions, (int64_t)1);
    for (run->step = 0; run->step < c->steps; run->step++) {
        for (run->pass = 0; run->pass < c->pass_count; run->pass++) {
            int64_t block = wf_rnn_block_vectors(wf_rnn_gates(c->passes[0][run->pass].cell));
            int64_t blocks = (vectors + block - 1) / block;
            run->vectors_per_item = (blocks + parts - 1) / parts * block;
            run->vector_items = (vectors + run->vectors_per_item - 1) / run->vectors_per_item;
            parallel->run(parallel->self, (size_t)(c->directions * run->vector_items), run_units, run);
        }
    }
}

static void load_states(const rnn_run_t *run)
{
    const rnn_case_t *c = run->c;
    for (int64_t s = 0; s < c->row->states; s++) {
        float *to = s == 0 ? run->h : run->cells;
        memset(to, 0, (size_t)run->states * sizeof *to);
        for (int64_t i = 0; run->initial[s] != NULL && i < c->directions * c->batch; i++) {
            int64_t direction = i / c->batch, row = i % c->batch;
            memcpy(to + padded_at(c, direction, row), run->initial[s] + dense_at(c, direction, row),
                   (size_t)c->hidden * sizeof *to);
        }
    }
}

/* Final states, and zeros behind the end of shorter sequences. */
static void store_states(const rnn_run_t *run, float *const *finals)
{
    const rnn_case_t *c = run->c;
    size_t bytes = (size_t)c->hidden * sizeof(float);
    for (int64_t i = 0; i < c->directions * c->batch; i++) {
        int64_t direction = i / c->batch, row = i % c->batch, at = padded_at(c, direction, row);
        int64_t length = length_of(run, row);
        if (finals[0] != NULL)
            memcpy(finals[0] + dense_at(c, direction, row), run->h + length % 2 * run->states + at, bytes);
        if (finals[1] != NULL)
            memcpy(finals[1] + dense_at(c, direction, row), run->cells + at, bytes);
        for (int64_t t = length; run->y != NULL && t < c->steps; t++)
            memset(run->y + y_at(c, direction, row, t), 0, bytes);
    }
}

static wf_status_t check_lengths(const rnn_run_t *run)
{
    for (int64_t row = 0; run->lens != NULL && row < run->c->batch; row++) {
        if (run->lens[row] < 0 || run->lens[row] > run->c->steps) {
            return WF_ERROR(RUNTIME_DATA, "sequence length %lld of row %lld is not in [0, %lld]",
                            (long long)run->lens[row], (long long)row, (long long)run->c->steps);
        }
    }
    return WF_OK;
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    const wf_problem_t *problem = kernel->problem;
    const rnn_state_t *state = kernel->state;
    const rnn_case_t *c = &state->c;
    uint8_t *base = workspace;
    rnn_run_t run = {.state = state, .c = c, .tier = kernel->tier, .lens = state->lens};
    run.h = (float *)(void *)(base + state->memory.h);
    run.cells = (float *)(void *)(base + state->memory.c);
    run.z = (float *)(void *)(base + state->memory.z);
    run.rows = (wf_rnn_row *)(void *)(base + state->memory.rows);
    run.states = c->directions * c->batch * c->padded;
    for (size_t s = 0; s < (size_t)c->row->states; s++) {
        bool bound = has(problem, IN_H + s) && state->initial[s] == NULL;
        run.initial[s] = bound ? operands[IN_H + s].data : state->initial[s];
    }
    if (has(problem, IN_LENS) && run.lens == NULL)
        run.lens = operands[IN_LENS].data;
    run.y = wants(problem, OUT_Y) ? outputs[OUT_Y].data : NULL;
    WF_TRY(check_lengths(&run));
    float *x = (float *)(void *)(base + state->memory.x);
    wf_native_gemm_run(kernel, &state->gemm, &state->gemm.shape, operands, x, base + state->memory.gemm,
                       parallel);
    run.x = x;
    load_states(&run);
    bool alone = parallel->thread_count <= 1 || (double)c->steps * step_macs(c) < PARALLEL_MIN_MACS;
    if (kernel->variant->params[SPLIT] != 0 && !alone) {
        run_steps(&run, parallel);
    } else {
        int64_t parts = alone ? 1 : ((int64_t)parallel->thread_count + c->directions - 1) / c->directions;
        run.rows_per_item = (c->batch + parts - 1) / parts;
        run.row_items = (c->batch + run.rows_per_item - 1) / run.rows_per_item;
        size_t items = (size_t)(c->directions * run.row_items);
        for (size_t i = 0; (alone || items == 1) && i < items; i++)
            run_sequences(&run, i, 0);
        if (!alone && items > 1)
            parallel->run(parallel->self, items, run_sequences, &run);
    }
    float *finals[2] = {wants(problem, OUT_H) ? outputs[OUT_H].data : NULL,
                        c->row->states == 2 && wants(problem, OUT_C) ? outputs[OUT_C].data : NULL};
    store_states(&run, finals);
    return WF_OK;
}

const wf_native_family_t wf_native_family_rnn = {
    .name = "rnn",
    .revision = 1,
    .has_tier = true,
    .keys = {"sp", NULL},
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
