/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul, Gemm, MatMulInteger, QLinearMatMul: readings of matrices for the one product. */
#include "ref/product.h"
#include "ref/quantize.h"

/* A stack of matrices in a tensor: where each batch of the result finds its matrix, and what belongs to its
 * rows (A) or columns (B). */
typedef struct stack {
    const wf_tensor_t *tensor;
    wf_lane_class_t lane_class;
    int64_t row_stride, col_stride, matrix_elems;
    uint32_t batch_rank;
    int64_t batch_dims[WF_MAX_RANK], batch_strides[WF_MAX_RANK];
    int64_t param_elems;             /* rows of A, columns of B */
    const wf_tensor_t *zero, *scale; /* NULL: none */
} stack_t;

typedef struct matrix_job {
    stack_t a, b;
    const wf_tensor_t *out;
    int64_t m, n;
    const wf_tensor_t *out_zero, *out_scale; /* QLinearMatMul */
    double alpha, beta;                      /* Gemm */
    const wf_tensor_t *c;
    wf_walk_t c_walk;
} matrix_job_t;

/* Row-major matrices [rows, cols] in the last dims; the dims before are broadcast to those of the result. */
static void stack_init(stack_t *stack, const wf_tensor_t *tensor, int64_t rows, int64_t cols,
                       const wf_type_t *out, uint32_t batch_rank)
{
    *stack = (stack_t){.tensor = tensor, .row_stride = cols, .col_stride = 1, .matrix_elems = rows * cols};
    stack->lane_class = wf_lane_class(tensor->type.dtype);
    stack->batch_rank = batch_rank;
    uint32_t own = tensor->type.rank > 2 ? tensor->type.rank - 2 : 0;
    int64_t stride = stack->matrix_elems;
    for (uint32_t d = 0; d < batch_rank; d++) {
        uint32_t to = batch_rank - 1 - d;
        int64_t dim = d < own ? tensor->type.dims[own - 1 - d] : 1;
        stack->batch_dims[to] = out->dims[to];
        stack->batch_strides[to] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
}

static int64_t stack_offset(const stack_t *stack, int64_t batch)
{
    int64_t offset = 0;
    for (uint32_t d = stack->batch_rank; d-- > 0; batch /= stack->batch_dims[d]) {
        offset += batch % stack->batch_dims[d] * stack->batch_strides[d];
    }
    return offset;
}

/* Index of a scale or zero point: one for all, one a row (column), or one a row (column) of every matrix. */
static int64_t param_index(const stack_t *stack, const wf_tensor_t *param, int64_t offset, int64_t row)
{
    int64_t elems = wf_type_elems(&param->type);
    return elems == 1                    ? 0
           : elems == stack->param_elems ? row
                                         : offset / stack->matrix_elems * stack->param_elems + row;
}

static double stack_zero(const stack_t *stack, int64_t offset, int64_t row)
{
    return stack->zero == NULL ? 0.0
                               : wf_lane_load_f64(stack->zero->type.dtype, stack->zero->data,
                                                  param_index(stack, stack->zero, offset, row));
}

static float stack_scale(const stack_t *stack, int64_t batch, int64_t row)
{
    return (float)wf_lane_load_f64(stack->scale->type.dtype, stack->scale->data,
                                   param_index(stack, stack->scale, stack_offset(stack, batch), row));
}

/* Reads a piece of a row; 8-bit integers become f64, in which their products and sums are exact. */
static void stack_load(const stack_t *stack, bool widen, bool zero_by_row, int64_t batch, int64_t row,
                       int64_t first, size_t count, wf_lane_t *out)
{
    int64_t offset = stack_offset(stack, batch);
    wf_lanes_load(stack->tensor->type.dtype, stack->tensor->data,
                  offset + row * stack->row_stride + first * stack->col_stride, stack->col_stride, count,
                  out);
    if (!widen) {
        return;
    }
    double zero = stack_zero(stack, offset, zero_by_row ? row : 0);
    bool zero_varies = !zero_by_row && stack->zero != NULL && wf_type_elems(&stack->zero->type) > 1;
    for (size_t k = 0; k < count; k++) {
        double value = stack->lane_class == WF_LANE_I ? (double)out[k].i : (double)out[k].u;
        out[k].f = value - (zero_varies ? stack_zero(stack, offset, first + (int64_t)k) : zero);
    }
}

static void load_a(const wf_product_t *product, int64_t batch, int64_t row, int64_t first, size_t count,
                   wf_lane_t *out)
{
    stack_load(&((const matrix_job_t *)product->arg)->a, false, true, batch, row, first, count, out);
}

static void load_b(const wf_product_t *product, int64_t batch, int64_t row, int64_t first, size_t count,
                   wf_lane_t *out)
{
    stack_load(&((const matrix_job_t *)product->arg)->b, false, false, batch, row, first, count, out);
}

static void load_a_quantized(const wf_product_t *product, int64_t batch, int64_t row, int64_t first,
                             size_t count, wf_lane_t *out)
{
    stack_load(&((const matrix_job_t *)product->arg)->a, true, true, batch, row, first, count, out);
}

static void load_b_quantized(const wf_product_t *product, int64_t batch, int64_t row, int64_t first,
                             size_t count, wf_lane_t *out)
{
    stack_load(&((const matrix_job_t *)product->arg)->b, true, false, batch, row, first, count, out);
}

static int64_t out_index(const matrix_job_t *job, int64_t batch, int64_t row, int64_t first)
{
    return (batch * job->m + row) * job->n + first;
}

static void store_plain(const wf_product_t *product, int64_t batch, int64_t row, int64_t first, size_t count,
                        wf_lane_t *lanes)
{
    const matrix_job_t *job = product->arg;
    wf_lanes_store(job->out->type.dtype, job->out->data, out_index(job, batch, row, first), 1, count, lanes);
}

static void store_i32(const wf_product_t *product, int64_t batch, int64_t row, int64_t first, size_t count,
                      wf_lane_t *lanes)
{
    for (size_t k = 0; k < count; k++) {
        lanes[k].i = (int64_t)lanes[k].f;
    }
    store_plain(product, batch, row, first, count, lanes);
}

static void store_requantized(const wf_product_t *product, int64_t batch, int64_t row, int64_t first,
                              size_t count, wf_lane_t *lanes)
{
    const matrix_job_t *job = product->arg;
    int64_t min, max, zero = (int64_t)wf_lane_load_f64(job->out_zero->type.dtype, job->out_zero->data, 0);
    float y_scale = (float)wf_lane_load_f64(job->out_scale->type.dtype, job->out_scale->data, 0);
    float a_scale = stack_scale(&job->a, batch, row);
    wf_dtype_limits(job->out->type.dtype, &min, &max);
    for (size_t k = 0; k < count; k++) {
        float b_scale = stack_scale(&job->b, batch, first + (int64_t)k);
        lanes[k].i = wf_requantize(lanes[k].f, a_scale, b_scale, y_scale, zero, min, max);
    }
    store_plain(product, batch, row, first, count, lanes);
}

/* alpha * sum + beta * C; integers by way of f64 unless alpha and beta are 1. */
static void store_gemm(const wf_product_t *product, int64_t batch, int64_t row, int64_t first, size_t count,
                       wf_lane_t *lanes)
{
    const matrix_job_t *job = product->arg;
    wf_dtype_t dtype = job->out->type.dtype;
    wf_lane_class_t lane_class = wf_lane_class(dtype);
    wf_lane_t c[WF_LANE_BLOCK] = {{0}};
    if (job->c != NULL) {
        wf_walk_load(&job->c_walk, dtype, job->c->data, row * job->n + first, count, c);
    }
    for (size_t k = 0; k < count; k++) {
        if (lane_class == WF_LANE_F) {
            lanes[k].f = job->alpha * lanes[k].f + (job->c != NULL ? job->beta * c[k].f : 0.0);
        } else if (job->alpha == 1.0 && job->beta == 1.0) {
            lanes[k].u += c[k].u;
        } else {
            double sum = lane_class == WF_LANE_I ? (double)lanes[k].i : (double)lanes[k].u;
            double term = lane_class == WF_LANE_I ? (double)c[k].i : (double)c[k].u;
            lanes[k].i = wf_f64_to_i64(job->alpha * sum + job->beta * term);
        }
    }
    store_plain(product, batch, row, first, count, lanes);
}

/* The product of MatMul and its relatives: inputs a_at and b_at, vectors made matrices, dims before the last
 * two broadcast. */
static wf_product_t matmul_product(const wf_ref_call_t *call, size_t a_at, size_t b_at, matrix_job_t *job)
{
    const wf_type_t *a = &call->inputs[a_at].type, *b = &call->inputs[b_at].type,
                    *out = &call->outputs[0].type;
    int64_t m = a->rank > 1 ? a->dims[a->rank - 2] : 1, n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    int64_t k = a->dims[a->rank - 1];
    uint32_t batch_rank = out->rank - (a->rank > 1) - (b->rank > 1);
    *job = (matrix_job_t){.out = &call->outputs[0], .m = m, .n = n};
    stack_init(&job->a, &call->inputs[a_at], m, k, out, batch_rank);
    stack_init(&job->b, &call->inputs[b_at], k, n, out, batch_rank);
    job->a.param_elems = m;
    job->b.param_elems = n;
    wf_product_t product = {.call = call, .batch = 1, .m = m, .n = n, .k = k, .arg = job};
    for (uint32_t d = 0; d < batch_rank; d++) {
        product.batch *= out->dims[d];
    }
    return product;
}

wf_status_t wf_ref_matmul(const wf_ref_call_t *call)
{
    matrix_job_t job;
    wf_product_t product = matmul_product(call, 0, 1, &job);
    product.integer = job.a.lane_class != WF_LANE_F;
    product.load_a = load_a;
    product.load_b = load_b;
    product.store = store_plain;
    wf_product_run(&product);
    return WF_OK;
}

wf_status_t wf_ref_gemm(const wf_ref_call_t *call)
{
    matrix_job_t job;
    const wf_type_t *a = &call->inputs[0].type, *b = &call->inputs[1].type, *out = &call->outputs[0].type;
    bool trans_a = wf_attrs_int(call->attrs, "transA", 0) != 0,
         trans_b = wf_attrs_int(call->attrs, "transB", 0) != 0;
    job = (matrix_job_t){.out = &call->outputs[0], .m = out->dims[0], .n = out->dims[1]};
    stack_init(&job.a, &call->inputs[0], a->dims[0], a->dims[1], out, 0);
    stack_init(&job.b, &call->inputs[1], b->dims[0], b->dims[1], out, 0);
    if (trans_a) {
        job.a.col_stride = job.a.row_stride;
        job.a.row_stride = 1;
    }
    if (trans_b) {
        job.b.col_stride = job.b.row_stride;
        job.b.row_stride = 1;
    }
    job.alpha = (double)wf_attrs_float(call->attrs, "alpha", 1.0F);
    job.beta = (double)wf_attrs_float(call->attrs, "beta", 1.0F);
    if (wf_ref_has(call, 2)) {
        job.c = &call->inputs[2];
        wf_walk_broadcast(&job.c->type, out, &job.c_walk);
    }
    wf_product_t product = {.call = call, .batch = 1, .m = job.m, .n = job.n, .k = a->dims[trans_a ? 0 : 1]};
    product.integer = job.a.lane_class != WF_LANE_F;
    product.load_a = load_a;
    product.load_b = load_b;
    product.store = store_gemm;
    product.arg = &job;
    wf_product_run(&product);
    return WF_OK;
}

/* MatMulInteger (a, b, a zero, b zero) and QLinearMatMul (a, scale, zero, b, scale, zero, y scale, y zero).
 */
wf_status_t wf_ref_matmul_quantized(const wf_ref_call_t *call)
{
    matrix_job_t job;
    bool requantizes = call->op == WF_OP_QLINEAR_MATMUL;
    wf_product_t product = matmul_product(call, 0, requantizes ? 3 : 1, &job);
    size_t a_zero = 2, b_zero = requantizes ? 5 : 3;
    job.a.zero = wf_ref_has(call, a_zero) ? &call->inputs[a_zero] : NULL;
    job.b.zero = wf_ref_has(call, b_zero) ? &call->inputs[b_zero] : NULL;
    if (requantizes) {
        job.a.scale = &call->inputs[1];
        job.b.scale = &call->inputs[4];
        job.out_scale = &call->inputs[6];
        job.out_zero = &call->inputs[7];
    }
    product.load_a = load_a_quantized;
    product.load_b = load_b_quantized;
    product.store = requantizes ? store_requantized : store_i32;
    wf_product_run(&product);
    return WF_OK;
}

size_t wf_ref_matrix_scratch_bytes(const wf_ref_call_t *call)
{
    return wf_product_scratch_bytes(call);
}
