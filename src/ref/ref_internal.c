/* SPDX-License-Identifier: Apache-2.0 */
/* Our own operators: attention and squeeze-excite. (AddLayerNormalization is with the normalisations, Convert
 * is a view.) */
#include <math.h>
#include <string.h>

#include "ref/product.h"

/* ---- Attention
 * --------------------------------------------------------------------------------------------------- */

/* Rows of the queries are taken in blocks of one tile: their scores against all keys fit in the thread's
 * scratch. */
typedef struct attention_job {
    const wf_ref_call_t *call;
    const wf_tensor_t *mask; /* NULL: none */
    wf_walk_t mask_walk;
    double scale;
    int64_t q_rows, k_rows, depth, v_cols;
    uint32_t batch_rank;
    int64_t batch_dims[WF_MAX_RANK], batch;
    /* Strides of q, k, v and the output in the order [.., rows, cols] of attention; 0 where a dim is
     * repeated. */
    int64_t strides[4][WF_MAX_RANK];
    size_t scratch_bytes; /* of one thread */
} attention_job_t;

enum { SIDE_Q, SIDE_K, SIDE_V, SIDE_OUT };

typedef struct attention_block {
    const attention_job_t *job;
    int64_t offsets[4]; /* of the batch in q, k, v and the output */
    int64_t first_row;
    wf_lane_t *scores; /* k_rows lanes a row */
} attention_block_t;

/* Lanes along the last (or, `down`, the last but one) dim of a side, from (row, col) on. */
static void load_side(const attention_block_t *block, int side, int64_t row, int64_t col, bool down,
                      size_t count, wf_lane_t *out)
{
    const wf_tensor_t *tensor = &block->job->call->inputs[side];
    const int64_t *strides = block->job->strides[side] + block->job->batch_rank;
    wf_lanes_load(tensor->type.dtype, tensor->data,
                  block->offsets[side] + row * strides[0] + col * strides[1], strides[down ? 0 : 1], count,
                  out);
}

static void load_q(const wf_product_t *product, int64_t batch, int64_t row, int64_t first, size_t count,
                   wf_lane_t *out)
{
    (void)batch;
    load_side(product->arg, SIDE_Q, row, first, false, count, out);
}

static void load_k(const wf_product_t *product, int64_t batch, int64_t row, int64_t first, size_t count,
                   wf_lane_t *out)
{
    (void)batch;
    load_side(product->arg, SIDE_K, first, row, true, count, out);
}

static void load_scores(const wf_product_t *product, int64_t batch, int64_t row, int64_t first, size_t count,
                        wf_lane_t *out)
{
    const attention_block_t *block = product->arg;
    (void)batch;
    memcpy(out, block->scores + (row - block->first_row) * block->job->k_rows + first, count * sizeof *out);
}

static void load_v(const wf_product_t *product, int64_t batch, int64_t row, int64_t first, size_t count,
                   wf_lane_t *out)
{
    (void)batch;
    load_side(product->arg, SIDE_V, row, first, false, count, out);
}

/* softmax(scale * scores + mask) of one row, in place. */
static void score_softmax(const attention_job_t *job, int64_t batch, int64_t row, wf_lane_t *scores)
{
    double top = -INFINITY, sum = 0;
    wf_lane_t lanes[WF_LANE_BLOCK];
    for (int64_t at = 0; at < job->k_rows; at += WF_LANE_BLOCK) {
        size_t size = (size_t)WF_MIN(job->k_rows - at, WF_LANE_BLOCK);
        if (job->mask != NULL) {
            wf_walk_load(&job->mask_walk, job->mask->type.dtype, job->mask->data,
                         (batch * job->q_rows + row) * job->k_rows + at, size, lanes);
        }
        for (size_t k = 0; k < size; k++) {
            wf_lane_t *score = &scores[at + (int64_t)k];
            score->f *= job->scale;
            if (job->mask != NULL && job->mask->type.dtype == WF_DTYPE_BOOL) {
                score->f = lanes[k].u != 0 ? score->f : -INFINITY;
            } else if (job->mask != NULL) {
                score->f += lanes[k].f;
            }
            top = score->f > top || isnan(score->f) ? score->f : top;
        }
    }
    for (int64_t k = 0; k < job->k_rows; k++) {
        scores[k].f = exp(scores[k].f - top);
        sum += scores[k].f;
    }
    for (int64_t k = 0; k < job->k_rows; k++) {
        scores[k].f /= sum;
    }
}

static void store_row(const attention_block_t *block, int64_t row, int64_t first, size_t count,
                      const wf_lane_t *lanes)
{
    const wf_tensor_t *out = &block->job->call->outputs[0];
    const int64_t *strides = block->job->strides[SIDE_OUT] + block->job->batch_rank;
    wf_lanes_store(out->type.dtype, out->data,
                   block->offsets[SIDE_OUT] + row * strides[0] + first * strides[1], strides[1], count,
                   lanes);
}

static attention_block_t block_at(const attention_job_t *job, int64_t batch, int64_t first_row, void *scratch)
{
    attention_block_t block = {.job = job, .first_row = first_row, .scores = scratch};
    int64_t index[WF_MAX_RANK];
    wf_unravel(batch, job->batch_rank, job->batch_dims, index);
    for (int side = SIDE_Q; side <= SIDE_OUT; side++) {
        for (uint32_t d = 0; d < job->batch_rank; d++) {
            block.offsets[side] += index[d] * job->strides[side][d];
        }
    }
    return block;
}

static void plain_row(const attention_job_t *job, int64_t batch, int64_t row)
{
    attention_block_t block = block_at(job, batch, row, job->call->scratch);
    wf_lane_t q, k, v;
    for (int64_t t = 0; t < job->k_rows; t++) {
        block.scores[t].f = 0;
        for (int64_t d = 0; d < job->depth; d++) {
            load_side(&block, SIDE_Q, row, d, false, 1, &q);
            load_side(&block, SIDE_K, t, d, false, 1, &k);
            block.scores[t].f += q.f * k.f;
        }
    }
    score_softmax(job, batch, row, block.scores);
    for (int64_t col = 0; col < job->v_cols; col++) {
        wf_lane_t sum = {.f = 0};
        for (int64_t t = 0; t < job->k_rows; t++) {
            load_side(&block, SIDE_V, t, col, false, 1, &v);
            sum.f += block.scores[t].f * v.f;
        }
        store_row(&block, row, col, 1, &sum);
    }
}

static void blocked_rows(void *arg, size_t item, uint32_t thread)
{
    const attention_job_t *job = arg;
    int64_t blocks = (job->q_rows + WF_TILE_M - 1) / WF_TILE_M;
    int64_t batch = (int64_t)item / blocks, first = (int64_t)item % blocks * WF_TILE_M;
    int64_t rows = WF_MIN(job->q_rows - first, WF_TILE_M);
    uint8_t *scratch = (uint8_t *)job->call->scratch + thread * job->scratch_bytes;
    wf_lane_t *tile = (wf_lane_t *)(void *)(scratch + WF_TILE_SCRATCH_BYTES);
    attention_block_t block = block_at(job, batch, first, scratch + WF_TILE_SCRATCH_BYTES + WF_TILE_BYTES);
    wf_product_t product = {
        .call = job->call, .k = job->depth, .load_a = load_q, .load_b = load_k, .arg = &block};
    for (int64_t n = 0; n < job->k_rows; n += WF_TILE_N) {
        int64_t cols = WF_MIN(job->k_rows - n, WF_TILE_N);
        wf_product_tile(&product, 0, first, rows, n, cols, tile, scratch);
        for (int64_t r = 0; r < rows; r++) {
            memcpy(block.scores + r * job->k_rows + n, tile + r * WF_TILE_N, (size_t)cols * sizeof *tile);
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        score_softmax(job, batch, first + r, block.scores + r * job->k_rows);
    }
    product.k = job->k_rows;
    product.load_a = load_scores;
    product.load_b = load_v;
    for (int64_t n = 0; n < job->v_cols; n += WF_TILE_N) {
        int64_t cols = WF_MIN(job->v_cols - n, WF_TILE_N);
        wf_product_tile(&product, 0, first, rows, n, cols, tile, scratch);
        for (int64_t r = 0; r < rows; r++) {
            store_row(&block, first + r, n, (size_t)cols, tile + r * WF_TILE_N);
        }
    }
}

/* Dims and strides of a side after its permutation. */
static void permuted(const wf_ref_call_t *call, const char *name, const wf_type_t *type, int64_t *out_dims,
                     int64_t *out_strides)
{
    size_t count;
    const int64_t *perm = wf_attrs_ints(call->attrs, name, &count);
    int64_t dense[WF_MAX_RANK];
    wf_strides_dense(type->rank, type->dims, dense);
    for (uint32_t d = 0; d < type->rank; d++) {
        int64_t from = perm != NULL ? wf_axis_wrap(perm[d], type->rank) : d;
        out_dims[d] = type->dims[from];
        out_strides[d] = dense[from];
    }
}

static attention_job_t attention_of(const wf_ref_call_t *call)
{
    static const char *const perms[] = {"q_perm", "k_perm", "v_perm"};
    attention_job_t job = {.call = call, .batch = 1, .mask = wf_ref_has(call, 3) ? &call->inputs[3] : NULL};
    uint32_t rank = call->inputs[0].type.rank;
    int64_t dims[3][WF_MAX_RANK], out_dims[WF_MAX_RANK], dense[WF_MAX_RANK];
    for (int side = SIDE_Q; side <= SIDE_V; side++) {
        permuted(call, perms[side], &call->inputs[side].type, dims[side], job.strides[side]);
    }
    job.scale = (double)wf_attrs_float(call->attrs, "scale", 1.0F);
    job.batch_rank = rank - 2;
    job.q_rows = dims[SIDE_Q][rank - 2];
    job.k_rows = dims[SIDE_K][rank - 2];
    job.depth = dims[SIDE_Q][rank - 1];
    job.v_cols = dims[SIDE_V][rank - 1];
    wf_type_t scores = {WF_DTYPE_F64, rank, {0}};
    for (uint32_t d = 0; d < job.batch_rank; d++) {
        int64_t largest = 1;
        for (int side = SIDE_Q; side <= SIDE_V; side++) {
            largest = dims[side][d] != 1 ? dims[side][d] : largest;
            job.strides[side][d] = dims[side][d] == 1 ? 0 : job.strides[side][d];
        }
        job.batch_dims[d] = scores.dims[d] = largest;
        job.batch *= largest;
    }
    scores.dims[rank - 2] = job.q_rows;
    scores.dims[rank - 1] = job.k_rows;
    if (job.mask != NULL) {
        wf_walk_broadcast(&job.mask->type, &scores, &job.mask_walk);
    }
    /* The output holds dim perm[d] of the result at place d. */
    size_t count;
    const int64_t *perm = wf_attrs_ints(call->attrs, "out_perm", &count);
    memcpy(out_dims, call->outputs[0].type.dims, sizeof out_dims);
    wf_strides_dense(rank, out_dims, dense);
    for (uint32_t d = 0; d < rank; d++) {
        job.strides[SIDE_OUT][perm != NULL ? wf_axis_wrap(perm[d], rank) : d] = dense[d];
    }
    size_t row = wf_scratch_mul((size_t)job.k_rows, sizeof(wf_lane_t));
    size_t blocked = wf_scratch_add(wf_scratch_mul(row, WF_TILE_M), WF_TILE_SCRATCH_BYTES + WF_TILE_BYTES);
    job.scratch_bytes = call->parallel == NULL ? row : wf_scratch_add(blocked, 63) / 64 * 64;
    return job;
}

size_t wf_ref_attention_scratch_bytes(const wf_ref_call_t *call)
{
    size_t bytes = attention_of(call).scratch_bytes;
    return bytes > SIZE_MAX / 2 ? SIZE_MAX : wf_scratch_mul(bytes, wf_ref_threads(call));
}

wf_status_t wf_ref_attention(const wf_ref_call_t *call)
{
    attention_job_t job = attention_of(call);
    if (wf_type_elems(&call->outputs[0].type) == 0) {
        return WF_OK;
    }
    if (call->parallel != NULL) {
        wf_ref_items(call, job.batch * ((job.q_rows + WF_TILE_M - 1) / WF_TILE_M), blocked_rows, &job);
        return WF_OK;
    }
    for (int64_t row = 0; row < job.batch * job.q_rows; row++) {
        plain_row(&job, row / job.q_rows, row % job.q_rows);
    }
    return WF_OK;
}

/* ---- Squeeze-excite
 * ---------------------------------------------------------------------------------------------- */

typedef struct squeeze_job {
    const wf_ref_call_t *call;
    int64_t channels, squeezed, plane;
    wf_op_t activations[2];
    double params[2][2];
    size_t scratch_bytes; /* of one thread */
} squeeze_job_t;

/* out = activation(W in + b), the matrix row-major. */
static void linear(const squeeze_job_t *job, size_t layer, int64_t rows, int64_t cols, const wf_lane_t *in,
                   wf_lane_t *out)
{
    const wf_tensor_t *w = &job->call->inputs[1 + 2 * layer], *b = &job->call->inputs[2 + 2 * layer];
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t c = 0; c < cols; c++) {
            sum += wf_lane_load(w->type.dtype, w->data, r * cols + c).f * in[c].f;
        }
        out[r].f = sum + wf_lane_load(b->type.dtype, b->data, r).f;
    }
    (void)wf_ref_activate(job->activations[layer], job->params[layer][0], job->params[layer][1], (size_t)rows,
                          out);
}

static void squeeze_image(void *arg, size_t item, uint32_t thread)
{
    const squeeze_job_t *job = arg;
    const wf_tensor_t *x = &job->call->inputs[0], *out = &job->call->outputs[0];
    wf_lane_t *gate = (wf_lane_t *)(void *)((uint8_t *)job->call->scratch + thread * job->scratch_bytes);
    wf_lane_t *inner = gate + job->channels, lanes[WF_LANE_BLOCK];
    for (int pass = 0; pass < 2; pass++) { /* the means, then the products with the gate */
        for (int64_t c = 0; c < job->channels; c++) {
            int64_t start = ((int64_t)item * job->channels + c) * job->plane;
            double sum = 0;
            for (int64_t at = 0; at < job->plane; at += WF_LANE_BLOCK) {
                size_t size = (size_t)WF_MIN(job->plane - at, WF_LANE_BLOCK);
                wf_lanes_load(x->type.dtype, x->data, start + at, 1, size, lanes);
                for (size_t k = 0; k < size; k++) {
                    sum += lanes[k].f;
                    lanes[k].f *= pass == 1 ? gate[c].f : 1.0;
                }
                if (pass == 1) {
                    wf_lanes_store(out->type.dtype, out->data, start + at, 1, size, lanes);
                }
            }
            if (pass == 0) {
                gate[c].f = sum / (double)job->plane;
            }
        }
        if (pass == 0) {
            linear(job, 0, job->squeezed, job->channels, gate, inner);
            linear(job, 1, job->channels, job->squeezed, inner, gate);
        }
    }
}

static squeeze_job_t squeeze_of(const wf_ref_call_t *call)
{
    squeeze_job_t job = {.call = call, .channels = call->inputs[0].type.dims[1]};
    job.squeezed = call->inputs[1].type.dims[0];
    job.plane = wf_split_at(&call->inputs[0].type, 0, 2).inner;
    size_t lanes = wf_scratch_add((size_t)job.channels, (size_t)job.squeezed);
    job.scratch_bytes = wf_scratch_mul(lanes, sizeof(wf_lane_t));
    return job;
}

size_t wf_ref_squeeze_excite_scratch_bytes(const wf_ref_call_t *call)
{
    return wf_scratch_mul(squeeze_of(call).scratch_bytes, wf_ref_threads(call));
}

wf_status_t wf_ref_squeeze_excite(const wf_ref_call_t *call)
{
    static const char *const names[2][3] = {{"act1", "act1_a", "act1_b"}, {"act2", "act2_a", "act2_b"}};
    squeeze_job_t job = squeeze_of(call);
    for (size_t layer = 0; layer < 2; layer++) {
        const char *name = wf_attrs_string(call->attrs, names[layer][0], "");
        wf_lane_t probe = {.f = 0};
        for (size_t p = 0; p < 2; p++) {
            job.params[layer][p] = (double)wf_attrs_float(call->attrs, names[layer][1 + p], 0.0F);
        }
        if (!wf_op_from_problem_name(name, &job.activations[layer]) ||
            !wf_ref_activate(job.activations[layer], 0, 0, 1, &probe)) {
            return WF_ERROR(MODEL_UNSUPPORTED, "activation \"%.40s\" is not known", name);
        }
    }
    if (wf_type_elems(&call->outputs[0].type) > 0) {
        wf_ref_items(call, call->outputs[0].type.dims[0], squeeze_image, &job);
    }
    return WF_OK;
}
