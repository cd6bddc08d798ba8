/* SPDX-License-Identifier: Apache-2.0 */
/* Work and traffic of problems. In double: a hostile text may name sizes whose product fits in no integer. */
#include <math.h>

#include "base/compiler.h"
#include "op/einsum.h"
#include "op/problem.h"
#include "op/shape.h"

/* A stage with its inputs found again. */
typedef struct stage_view {
    const wf_problem_t *problem;
    const wf_problem_stage_t *stage;
    const wf_type_t *running; /* NULL for the root */
    size_t input_count;
} stage_view_t;

/* Operations of one stage. */
typedef double cost_fn(const stage_view_t *view);

static double elems(const wf_type_t *type)
{
    double product = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        product *= (double)type->dims[i];
    }
    return product;
}

/* Bytes of the values, 0 for an absent one. */
static double bytes(const wf_type_t *type)
{
    return type->dtype == WF_DTYPE_NONE ? 0 : ceil(elems(type) * wf_dtype_bits(type->dtype) / 8);
}

/* dtype NONE when it is absent. */
static wf_type_t input_of(const stage_view_t *view, size_t index)
{
    if (index >= view->input_count) {
        return (wf_type_t){.dtype = WF_DTYPE_NONE};
    }
    size_t before = 0;
    for (size_t i = 0; i < index && i < 32; i++) {
        before += view->stage->chain_mask >> i & 1;
    }
    if (index < 32 && (view->stage->chain_mask >> index & 1) != 0) {
        return *view->running;
    }
    return view->problem->operands[view->stage->first_operand + index - before].type;
}

static double dim_from_end(const wf_type_t *type, uint32_t from_end)
{
    return type->rank >= from_end ? (double)type->dims[type->rank - from_end] : 1;
}

/* ---- Operators ---- */

/* One operation per element and input beyond the first. */
static double cost_out(const stage_view_t *view)
{
    return elems(&view->stage->out) * (double)(WF_MAX(view->input_count, (size_t)2) - 1);
}

static double cost_in(const stage_view_t *view)
{
    wf_type_t input = input_of(view, 0);
    return elems(&input);
}

/* Maximum, difference, exponential, sum, quotient; mean, difference, square, sum, scale, shift. */
static double cost_normalise(const stage_view_t *view)
{
    return 6 * cost_in(view);
}

static double cost_conv(const stage_view_t *view)
{
    wf_type_t weight = input_of(view, view->stage->op == WF_OP_QLINEAR_CONV ? 3 : 1);
    double channels = (double)weight.dims[0];
    return channels > 0 ? 2 * elems(&view->stage->out) * elems(&weight) / channels : 0;
}

static double cost_conv_transpose(const stage_view_t *view)
{
    wf_type_t weight = input_of(view, 1);
    double channels = (double)weight.dims[0];
    return channels > 0 ? 2 * cost_in(view) * elems(&weight) / channels : 0;
}

static double cost_matmul(const stage_view_t *view)
{
    wf_type_t a = input_of(view, 0);
    return 2 * elems(&view->stage->out) * dim_from_end(&a, 1);
}

static double cost_gemm(const stage_view_t *view)
{
    wf_type_t a = input_of(view, 0);
    return 2 * elems(&view->stage->out) *
           dim_from_end(&a, wf_attrs_int(&view->stage->attrs, "transA", 0) != 0 ? 2 : 1);
}

static double cost_einsum(const stage_view_t *view)
{
    wf_type_t inputs[WF_EINSUM_MAX_INPUTS];
    const wf_attr_t *equation = wf_attrs_find(&view->stage->attrs, "equation");
    for (size_t i = 0; i < view->input_count && i < WF_EINSUM_MAX_INPUTS; i++) {
        inputs[i] = input_of(view, i);
    }
    wf_einsum_t einsum;
    wf_status_t status = wf_einsum_parse(equation->v.s, equation->count, inputs, view->input_count, &einsum);
    if (status != WF_OK) {
        wf_status_ignore(status);
        return 0;
    }
    double product = (double)view->input_count;
    for (uint32_t i = 0; i < einsum.label_count; i++) {
        product *= (double)einsum.label_dims[i];
    }
    return product;
}

static double cost_pool(const stage_view_t *view)
{
    size_t count;
    const int64_t *kernel = wf_attrs_ints(&view->stage->attrs, "kernel_shape", &count);
    double taps = 1;
    for (size_t i = 0; i < count; i++) {
        taps *= (double)kernel[i];
    }
    return elems(&view->stage->out) * taps;
}

/* Products of inputs and states with the weights of all gates; the pointwise part is small against them. */
static double cost_recurrent(const stage_view_t *view)
{
    wf_type_t x = input_of(view, 0);
    wf_type_t w = input_of(view, 1);
    wf_type_t r = input_of(view, 2);
    return 2 * (double)x.dims[0] * (double)x.dims[1] * (elems(&w) + elems(&r));
}

/* Both products and the softmax between them. Permutations do not change the sizes' product. */
static double cost_attention(const stage_view_t *view)
{
    wf_type_t q = input_of(view, 0);
    wf_type_t k = input_of(view, 1);
    double out = elems(&view->stage->out);
    size_t count;
    const int64_t *perm = wf_attrs_ints(&view->stage->attrs, "q_perm", &count);
    double depth = (double)q.dims[perm != NULL ? perm[count - 1] : (int64_t)q.rank - 1];
    perm = wf_attrs_ints(&view->stage->attrs, "k_perm", &count);
    double keys = (double)k.dims[perm != NULL ? perm[count - 2] : (int64_t)k.rank - 2];
    double scores = depth > 0 ? elems(&q) / depth * keys : 0;
    return 2 * scores * depth + 6 * scores + 2 * out * keys;
}

static double cost_squeeze_excite(const stage_view_t *view)
{
    wf_type_t w1 = input_of(view, 1);
    wf_type_t x = input_of(view, 0);
    return 4 * elems(&w1) * (double)x.dims[0] + 2 * elems(&x);
}

static const struct cost_rule {
    wf_op_t op;
    cost_fn *cost;
} cost_rules[] = {
    {WF_OP_CONV, cost_conv},
    {WF_OP_CONV_INTEGER, cost_conv},
    {WF_OP_QLINEAR_CONV, cost_conv},
    {WF_OP_CONV_TRANSPOSE, cost_conv_transpose},
    {WF_OP_MATMUL, cost_matmul},
    {WF_OP_MATMUL_INTEGER, cost_matmul},
    {WF_OP_QLINEAR_MATMUL, cost_matmul},
    {WF_OP_GEMM, cost_gemm},
    {WF_OP_EINSUM, cost_einsum},
    {WF_OP_AVERAGE_POOL, cost_pool},
    {WF_OP_MAX_POOL, cost_pool},
    {WF_OP_LP_POOL, cost_pool},
    {WF_OP_GLOBAL_AVERAGE_POOL, cost_in},
    {WF_OP_GLOBAL_MAX_POOL, cost_in},
    {WF_OP_GLOBAL_LP_POOL, cost_in},
    {WF_OP_REDUCE_L1, cost_in},
    {WF_OP_REDUCE_L2, cost_in},
    {WF_OP_REDUCE_LOG_SUM, cost_in},
    {WF_OP_REDUCE_LOG_SUM_EXP, cost_in},
    {WF_OP_REDUCE_MAX, cost_in},
    {WF_OP_REDUCE_MEAN, cost_in},
    {WF_OP_REDUCE_MIN, cost_in},
    {WF_OP_REDUCE_PROD, cost_in},
    {WF_OP_REDUCE_SUM, cost_in},
    {WF_OP_REDUCE_SUM_SQUARE, cost_in},
    {WF_OP_ARG_MAX, cost_in},
    {WF_OP_ARG_MIN, cost_in},
    {WF_OP_CUM_SUM, cost_in},
    {WF_OP_SOFTMAX, cost_normalise},
    {WF_OP_LOG_SOFTMAX, cost_normalise},
    {WF_OP_BATCH_NORMALIZATION, cost_normalise},
    {WF_OP_LAYER_NORMALIZATION, cost_normalise},
    {WF_OP_INSTANCE_NORMALIZATION, cost_normalise},
    {WF_OP_GROUP_NORMALIZATION, cost_normalise},
    {WF_OP_RMS_NORMALIZATION, cost_normalise},
    {WF_OP_LP_NORMALIZATION, cost_normalise},
    {WF_OP_MEAN_VARIANCE_NORMALIZATION, cost_normalise},
    {WF_OP_LRN, cost_normalise},
    {WF_OP_RESIZE, cost_out},
    {WF_OP_LSTM, cost_recurrent},
    {WF_OP_GRU, cost_recurrent},
    {WF_OP_RNN, cost_recurrent},
    {WF_OP_QUANTIZE_LINEAR, cost_in},
    {WF_OP_DEQUANTIZE_LINEAR, cost_in},
    {WF_OP_DYNAMIC_QUANTIZE_LINEAR, cost_in},
    {WF_OP_W_ATTENTION, cost_attention},
    {WF_OP_W_ADD_LAYER_NORM, cost_normalise},
    {WF_OP_W_SQUEEZE_EXCITE, cost_squeeze_excite},
};

static double stage_flops(const stage_view_t *view)
{
    for (size_t i = 0; i < WF_COUNT_OF(cost_rules); i++) {
        if (cost_rules[i].op == view->stage->op) {
            return cost_rules[i].cost(view);
        }
    }
    return (wf_op_info(view->stage->op)->flags & WF_OP_FLAG_EW) != 0 ? cost_out(view) : 0;
}

double wf_problem_flops(const wf_problem_t *problem)
{
    double sum = 0;
    for (size_t i = 0; i < problem->stage_count; i++) {
        const wf_problem_stage_t *stage = &problem->stages[i];
        stage_view_t view = {.problem = problem,
                             .stage = stage,
                             .running = i > 0 ? &problem->stages[i - 1].out : NULL,
                             .input_count =
                                 stage->operand_count + (size_t)__builtin_popcount(stage->chain_mask)};
        sum += stage_flops(&view);
    }
    return sum;
}

double wf_problem_bytes(const wf_problem_t *problem)
{
    double sum = 0;
    for (size_t i = 0; i < problem->operand_count; i++) {
        sum += bytes(&problem->operands[i].type);
    }
    for (size_t i = 0; i < problem->output_count; i++) {
        sum += bytes(&problem->outputs[i]);
    }
    return sum;
}
