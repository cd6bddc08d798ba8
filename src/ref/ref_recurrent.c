/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, GRU and RNN. One sequence of one direction is one item of work; states stay in f64 from step to step.
 */
#include <string.h>

#include "ref/kernel.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENS, IN_H, IN_C, IN_P };

typedef struct activation {
    wf_op_t op;  /* of the one-input operator; WF_OP_COUNT: alpha * x + beta */
    bool scaled; /* ScaledTanh: alpha * tanh(beta * x) */
    double alpha, beta;
} activation_t;

/* Functions of the specification, the operator that has the same formula, and the parameters they take. */
static const struct activation_row {
    const char *name;
    wf_op_t op;
    bool scaled;
    uint8_t param_count;
    double alpha, beta; /* defaults */
} activation_rows[] = {
    {"Relu", WF_OP_RELU, false, 0, 0, 0},
    {"Tanh", WF_OP_TANH, false, 0, 0, 0},
    {"Sigmoid", WF_OP_SIGMOID, false, 0, 0, 0},
    {"Affine", WF_OP_COUNT, false, 2, 1, 0},
    {"LeakyRelu", WF_OP_LEAKY_RELU, false, 1, 0.01, 0},
    {"ThresholdedRelu", WF_OP_THRESHOLDED_RELU, false, 1, 1, 0},
    {"ScaledTanh", WF_OP_TANH, true, 2, 1, 1},
    {"HardSigmoid", WF_OP_HARD_SIGMOID, false, 2, 0.2, 0.5},
    {"Elu", WF_OP_ELU, false, 1, 1, 0},
    {"Softsign", WF_OP_SOFTSIGN, false, 0, 0, 0},
    {"Softplus", WF_OP_SOFTPLUS, false, 0, 0, 0},
};

#define MAX_ACTIVATIONS 6 /* three functions, two directions */

typedef struct recurrent_job {
    const wf_ref_call_t *call;
    int64_t steps, batch, directions, input, hidden, gates;
    bool batch_first, linear_before_reset, input_forget;
    const char *direction;
    double clip; /* 0: none */
    uint32_t function_count;
    activation_t functions[MAX_ACTIVATIONS];
    size_t scratch_bytes; /* of one thread */
} recurrent_job_t;

static void activate(const activation_t *function, double clip, int64_t count, wf_lane_t *lanes)
{
    for (int64_t k = 0; clip > 0 && k < count; k++) {
        lanes[k].f = lanes[k].f > clip ? clip : lanes[k].f < -clip ? -clip : lanes[k].f;
    }
    for (int64_t k = 0; function->scaled && k < count; k++) {
        lanes[k].f *= function->beta;
    }
    if (function->op != WF_OP_COUNT) {
        (void)wf_ref_activate(function->op, function->alpha, function->beta, (size_t)count, lanes);
    }
    for (int64_t k = 0; (function->scaled || function->op == WF_OP_COUNT) && k < count; k++) {
        lanes[k].f = function->alpha * lanes[k].f + (function->scaled ? 0.0 : function->beta);
    }
}

/* out[k] += row k of a matrix times v, rows of `cols` elements from element `at` on. */
static void add_product(const wf_tensor_t *matrix, int64_t at, int64_t rows, int64_t cols, const wf_lane_t *v,
                        wf_lane_t *out)
{
    wf_lane_t lanes[WF_LANE_BLOCK];
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t c = 0; c < cols; c += WF_LANE_BLOCK) {
            size_t size = (size_t)WF_MIN(cols - c, WF_LANE_BLOCK);
            wf_lanes_load(matrix->type.dtype, matrix->data, at + r * cols + c, 1, size, lanes);
            for (size_t k = 0; k < size; k++) {
                sum += lanes[k].f * v[c + (int64_t)k].f;
            }
        }
        out[r].f += sum;
    }
}

/* Input of the matrices' dtype as f64; 0 when it is absent. */
static double optional(const wf_ref_call_t *call, size_t input, int64_t index)
{
    const wf_tensor_t *tensor = &call->inputs[input];
    return wf_ref_has(call, input) ? wf_lane_load_f64(tensor->type.dtype, tensor->data, index) : 0.0;
}

/* Working memory of one sequence. */
typedef struct cell {
    int64_t direction;
    wf_lane_t *x, *h, *c, *gates, *reset; /* input, hidden, hidden, gates * hidden, 2 * hidden */
} cell_t;

/* Gate `gate` takes the biases of both products. */
static void add_bias(const recurrent_job_t *job, const cell_t *cell, int64_t gate, int64_t kind,
                     wf_lane_t *out)
{
    int64_t at = ((cell->direction * 2 + kind) * job->gates + gate) * job->hidden;
    for (int64_t k = 0; k < job->hidden; k++) {
        out[k].f += optional(job->call, IN_B, at + k);
    }
}

/* gates = W x + R h + both biases, for gates [0, gate_count). */
static void gate_sums(const recurrent_job_t *job, const cell_t *cell, int64_t gate_count)
{
    const wf_tensor_t *inputs = job->call->inputs;
    int64_t hidden = job->hidden, rows = job->gates * hidden;
    memset(cell->gates, 0, (size_t)rows * sizeof *cell->gates);
    add_product(&inputs[IN_W], cell->direction * rows * job->input, rows, job->input, cell->x, cell->gates);
    add_product(&inputs[IN_R], cell->direction * rows * hidden, gate_count * hidden, hidden, cell->h,
                cell->gates);
    for (int64_t gate = 0; gate < job->gates; gate++) {
        add_bias(job, cell, gate, 0, cell->gates + gate * hidden);
        if (gate < gate_count) {
            add_bias(job, cell, gate, 1, cell->gates + gate * hidden);
        }
    }
}

static void add_peephole(const recurrent_job_t *job, const cell_t *cell, int64_t which, wf_lane_t *gate)
{
    for (int64_t k = 0; k < job->hidden; k++) {
        gate[k].f +=
            optional(job->call, IN_P, (cell->direction * 3 + which) * job->hidden + k) * cell->c[k].f;
    }
}

static void step_lstm(const recurrent_job_t *job, const cell_t *cell, const activation_t *f)
{
    int64_t hidden = job->hidden;
    wf_lane_t *in = cell->gates, *out = in + hidden, *forget = out + hidden, *update = forget + hidden;
    gate_sums(job, cell, 4);
    add_peephole(job, cell, 0, in);
    add_peephole(job, cell, 2, forget);
    activate(&f[0], job->clip, hidden, forget);
    activate(&f[0], job->clip, hidden, in);
    activate(&f[1], job->clip, hidden, update);
    for (int64_t k = 0; k < hidden; k++) {
        double kept = job->input_forget ? 1.0 - in[k].f : forget[k].f;
        cell->c[k].f = kept * cell->c[k].f + in[k].f * update[k].f;
    }
    add_peephole(job, cell, 1, out);
    activate(&f[0], job->clip, hidden, out);
    memcpy(cell->h, cell->c, (size_t)hidden * sizeof *cell->h);
    activate(&f[2], 0, hidden, cell->h); /* other runtimes clip what enters gates, not the cell's own value */
    for (int64_t k = 0; k < hidden; k++) {
        cell->h[k].f *= out[k].f;
    }
}

static void step_gru(const recurrent_job_t *job, const cell_t *cell, const activation_t *f)
{
    int64_t hidden = job->hidden, rows = 3 * hidden;
    const wf_tensor_t *r = &job->call->inputs[IN_R];
    wf_lane_t *update = cell->gates, *reset = update + hidden, *next = reset + hidden;
    wf_lane_t *scaled = cell->reset, *product = scaled + hidden;
    gate_sums(job, cell, 2);
    activate(&f[0], job->clip, hidden, update);
    activate(&f[0], job->clip, hidden, reset);
    memset(product, 0, (size_t)hidden * sizeof *product);
    for (int64_t k = 0; k < hidden; k++) {
        scaled[k].f = (job->linear_before_reset ? 1.0 : reset[k].f) * cell->h[k].f;
    }
    add_product(r, (cell->direction * rows + 2 * hidden) * hidden, hidden, hidden, scaled, product);
    add_bias(job, cell, 2, 1, product);
    for (int64_t k = 0; k < hidden; k++) {
        next[k].f += (job->linear_before_reset ? reset[k].f : 1.0) * product[k].f;
    }
    activate(&f[1], job->clip, hidden, next);
    for (int64_t k = 0; k < hidden; k++) {
        cell->h[k].f = (1.0 - update[k].f) * next[k].f + update[k].f * cell->h[k].f;
    }
}

static void step_rnn(const recurrent_job_t *job, const cell_t *cell, const activation_t *f)
{
    gate_sums(job, cell, 1);
    activate(&f[0], job->clip, job->hidden, cell->gates);
    memcpy(cell->h, cell->gates, (size_t)job->hidden * sizeof *cell->h);
}

static const struct recurrent_kind {
    wf_op_t op;
    int64_t gates;
    uint32_t functions;
    const char *defaults[3];
    void (*step)(const recurrent_job_t *job, const cell_t *cell, const activation_t *f);
} kinds[] = {
    {WF_OP_LSTM, 4, 3, {"Sigmoid", "Tanh", "Tanh"}, step_lstm},
    {WF_OP_GRU, 3, 2, {"Sigmoid", "Tanh", NULL}, step_gru},
    {WF_OP_RNN, 1, 1, {"Tanh", NULL, NULL}, step_rnn},
};

static const struct recurrent_kind *kind_of(wf_op_t op)
{
    size_t k = 0;
    while (kinds[k].op != op) {
        k++;
    }
    return &kinds[k];
}

/* Index of element 0 of a state [directions, batch, hidden], or [batch, directions, hidden] when batch comes
 * first. */
static int64_t state_at(const recurrent_job_t *job, int64_t direction, int64_t row)
{
    return (job->batch_first ? row * job->directions + direction : direction * job->batch + row) *
           job->hidden;
}

static void load_state(const recurrent_job_t *job, size_t input, int64_t at, wf_lane_t *state)
{
    for (int64_t k = 0; k < job->hidden; k++) {
        state[k].f = input <= IN_C ? optional(job->call, input, at + k) : 0.0;
    }
}

static void store_state(const recurrent_job_t *job, size_t output, int64_t at, const wf_lane_t *state)
{
    const wf_tensor_t *out = &job->call->outputs[output];
    if (wf_ref_wants(job->call, output)) {
        wf_lanes_store(out->type.dtype, out->data, at, 1, (size_t)job->hidden, state);
    }
}

static void run_sequence(void *arg, size_t item, uint32_t thread)
{
    const recurrent_job_t *job = arg;
    const wf_ref_call_t *call = job->call;
    const struct recurrent_kind *kind = kind_of(call->op);
    const wf_tensor_t *x = &call->inputs[IN_X];
    int64_t direction = (int64_t)item / job->batch, row = (int64_t)item % job->batch, hidden = job->hidden;
    wf_lane_t *memory = (wf_lane_t *)(void *)((uint8_t *)call->scratch + thread * job->scratch_bytes);
    cell_t cell = {.direction = direction, .x = memory, .h = memory + job->input};
    cell.c = cell.h + hidden;
    cell.gates = cell.c + hidden;
    cell.reset = cell.gates + job->gates * hidden;
    bool backward = direction == 1 || strcmp(job->direction, "reverse") == 0;
    int64_t length = wf_ref_has(call, IN_LENS)
                         ? wf_lane_load(call->inputs[IN_LENS].type.dtype, call->inputs[IN_LENS].data, row).i
                         : job->steps;
    load_state(job, IN_H, state_at(job, direction, row), cell.h);
    load_state(job, call->op == WF_OP_LSTM ? IN_C : SIZE_MAX, state_at(job, direction, row), cell.c);
    for (int64_t s = 0; s < job->steps; s++) {
        int64_t t = backward && s < length ? length - 1 - s : s; /* beyond the length the output is zero */
        int64_t x_at = (job->batch_first ? row * job->steps + t : t * job->batch + row) * job->input;
        int64_t y_at = job->batch_first ? ((row * job->steps + t) * job->directions + direction) * hidden
                                        : ((t * job->directions + direction) * job->batch + row) * hidden;
        if (s < length) {
            wf_lanes_load(x->type.dtype, x->data, x_at, 1, (size_t)job->input, cell.x);
            kind->step(job, &cell, &job->functions[direction * kind->functions]);
            store_state(job, 0, y_at, cell.h);
        } else {
            memset(cell.reset, 0, (size_t)hidden * sizeof *cell.reset);
            store_state(job, 0, y_at, cell.reset);
        }
    }
    store_state(job, 1, state_at(job, direction, row), cell.h);
    if (call->op == WF_OP_LSTM) {
        store_state(job, 2, state_at(job, direction, row), cell.c);
    }
}

/* Takes activation_alpha and activation_beta in order, each function as many as it has parameters. */
static wf_status_t read_functions(recurrent_job_t *job, const struct recurrent_kind *kind)
{
    const wf_attrs_t *attrs = job->call->attrs;
    const wf_attr_t *names = wf_attrs_find(attrs, "activations");
    size_t alpha_count, beta_count, alpha_at = 0, beta_at = 0;
    const float *alphas = wf_attrs_floats(attrs, "activation_alpha", &alpha_count);
    const float *betas = wf_attrs_floats(attrs, "activation_beta", &beta_count);
    job->function_count = kind->functions * (uint32_t)job->directions;
    for (uint32_t k = 0; k < job->function_count; k++) {
        bool given = names != NULL && names->kind == WF_ATTR_STRINGS && k < names->count;
        const char *name = given ? names->v.strings[k] : kind->defaults[k % kind->functions];
        const struct activation_row *row = NULL;
        for (size_t r = 0; r < WF_COUNT_OF(activation_rows); r++) {
            row = strcmp(activation_rows[r].name, name) == 0 ? &activation_rows[r] : row;
        }
        if (row == NULL) {
            return WF_ERROR(MODEL_UNSUPPORTED, "activation \"%.40s\" is not known", name);
        }
        activation_t *function = &job->functions[k];
        *function = (activation_t){row->op, row->scaled, row->alpha, row->beta};
        if (row->param_count > 0 && alpha_at < alpha_count) {
            function->alpha = (double)alphas[alpha_at++];
        }
        if (row->param_count > 1 && beta_at < beta_count) {
            function->beta = (double)betas[beta_at++];
        }
    }
    return WF_OK;
}

static recurrent_job_t job_of(const wf_ref_call_t *call)
{
    recurrent_job_t job = {.call = call};
    const wf_type_t *x = &call->inputs[IN_X].type;
    job.batch_first = wf_attrs_int(call->attrs, "layout", 0) != 0;
    job.steps = x->dims[job.batch_first ? 1 : 0];
    job.batch = x->dims[job.batch_first ? 0 : 1];
    job.input = x->dims[2];
    job.directions = call->inputs[IN_R].type.dims[0];
    job.hidden = call->inputs[IN_R].type.dims[2];
    job.gates = kind_of(call->op)->gates;
    job.direction = wf_attrs_string(call->attrs, "direction", "forward");
    job.linear_before_reset = wf_attrs_int(call->attrs, "linear_before_reset", 0) != 0;
    job.input_forget = wf_attrs_int(call->attrs, "input_forget", 0) != 0;
    job.clip = (double)wf_attrs_float(call->attrs, "clip", 0.0F);
    size_t lanes =
        wf_scratch_add((size_t)job.input, wf_scratch_mul((size_t)job.hidden, 4 + (size_t)job.gates));
    job.scratch_bytes = wf_scratch_mul(lanes, sizeof(wf_lane_t));
    return job;
}

size_t wf_ref_recurrent_scratch_bytes(const wf_ref_call_t *call)
{
    return wf_scratch_mul(job_of(call).scratch_bytes, wf_ref_threads(call));
}

wf_status_t wf_ref_recurrent(const wf_ref_call_t *call)
{
    recurrent_job_t job = job_of(call);
    WF_TRY(read_functions(&job, kind_of(call->op)));
    const wf_tensor_t *lens = wf_ref_has(call, IN_LENS) ? &call->inputs[IN_LENS] : NULL;
    for (int64_t row = 0; lens != NULL && row < job.batch; row++) {
        int64_t length = wf_lane_load(lens->type.dtype, lens->data, row).i;
        if (length < 0 || length > job.steps) {
            return WF_ERROR(RUNTIME_DATA, "sequence length %lld of row %lld is not in [0, %lld]",
                            (long long)length, (long long)row, (long long)job.steps);
        }
    }
    wf_ref_items(call, job.directions * job.batch, run_sequence, &job);
    return WF_OK;
}
