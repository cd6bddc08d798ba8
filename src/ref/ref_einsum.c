/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum: for every output element the sum, over all labels that are not in the output, of the product of the
 * operands. */
#include <string.h>

#include "op/einsum.h"
#include "ref/kernel.h"

typedef struct einsum_job {
    const wf_ref_call_t *call;
    wf_einsum_t einsum;
    bool integer;
    uint32_t sum_rank;
    uint8_t sum_labels[WF_EINSUM_MAX_LABELS];
    int64_t sum_elems;
    /* How far one step of a label moves in an operand; several axes of one label add up (a diagonal). */
    int64_t strides[WF_EINSUM_MAX_INPUTS][WF_EINSUM_MAX_LABELS];
} einsum_job_t;

/* The products of `count` points along the last summed label, from the operands' offsets on. */
static void multiply_run(const einsum_job_t *job, const int64_t *offsets, size_t count, wf_lane_t *products)
{
    uint32_t last = job->sum_rank > 0 ? job->sum_labels[job->sum_rank - 1] : 0;
    for (uint32_t i = 0; i < job->einsum.input_count; i++) {
        const wf_tensor_t *in = &job->call->inputs[i];
        wf_lane_t factors[WF_LANE_BLOCK];
        int64_t stride = job->sum_rank > 0 ? job->strides[i][last] : 0;
        wf_lanes_load(in->type.dtype, in->data, offsets[i], stride, count, i == 0 ? products : factors);
        for (size_t k = 0; i > 0 && k < count; k++) {
            if (job->integer) {
                products[k].u *= factors[k].u;
            } else {
                products[k].f *= factors[k].f;
            }
        }
    }
}

static void einsum_chunk(void *arg, int64_t first, int64_t count)
{
    const einsum_job_t *job = arg;
    const wf_einsum_t *einsum = &job->einsum;
    const wf_tensor_t *out = &job->call->outputs[0];
    int64_t o[WF_MAX_RANK], base[WF_EINSUM_MAX_INPUTS], offsets[WF_EINSUM_MAX_INPUTS];
    int64_t run = job->sum_rank > 0 ? einsum->label_dims[job->sum_labels[job->sum_rank - 1]] : 1;
    for (int64_t e = first; e < first + count; e++) {
        wf_unravel(e, out->type.rank, out->type.dims, o);
        for (uint32_t i = 0; i < einsum->input_count; i++) {
            base[i] = 0;
            for (uint32_t d = 0; d < out->type.rank; d++) {
                base[i] += o[d] * job->strides[i][einsum->output_labels[d]];
            }
        }
        wf_lane_t sum = {.u = 0}, products[WF_LANE_BLOCK];
        for (int64_t at = 0; at < job->sum_elems;) {
            int64_t rest = at / run, in_run = at % run;
            size_t size = (size_t)WF_MIN(run - in_run, WF_LANE_BLOCK);
            for (uint32_t i = 0; i < einsum->input_count; i++) {
                offsets[i] =
                    base[i] +
                    (job->sum_rank > 0 ? in_run * job->strides[i][job->sum_labels[job->sum_rank - 1]] : 0);
            }
            for (uint32_t s = job->sum_rank; s-- > 1; rest /= einsum->label_dims[job->sum_labels[s - 1]]) {
                uint32_t label = job->sum_labels[s - 1];
                for (uint32_t i = 0; i < einsum->input_count; i++) {
                    offsets[i] += rest % einsum->label_dims[label] * job->strides[i][label];
                }
            }
            multiply_run(job, offsets, size, products);
            for (size_t k = 0; k < size; k++) {
                if (job->integer) {
                    sum.u += products[k].u;
                } else {
                    sum.f += products[k].f;
                }
            }
            at += (int64_t)size;
        }
        wf_lane_store(out->type.dtype, out->data, e, sum);
    }
}

wf_status_t wf_ref_einsum(const wf_ref_call_t *call)
{
    einsum_job_t job = {.call = call, .sum_elems = 1};
    wf_einsum_t *einsum = &job.einsum;
    wf_type_t types[WF_EINSUM_MAX_INPUTS];
    if (call->input_count > WF_EINSUM_MAX_INPUTS) {
        return WF_ERROR(MODEL_UNSUPPORTED, "einsum of %zu operands", call->input_count);
    }
    for (size_t i = 0; i < call->input_count; i++) {
        types[i] = call->inputs[i].type;
    }
    const char *equation = wf_attrs_string(call->attrs, "equation", "");
    WF_TRY(wf_einsum_parse(equation, strlen(equation), types, call->input_count, einsum));
    for (uint32_t i = 0; i < einsum->input_count; i++) {
        int64_t dense[WF_MAX_RANK];
        wf_strides_dense(types[i].rank, types[i].dims, dense);
        for (uint32_t d = 0; d < types[i].rank; d++) {
            job.strides[i][einsum->input_labels[i][d]] += types[i].dims[d] == 1 ? 0 : dense[d];
        }
    }
    for (uint32_t label = 0; label < einsum->label_count; label++) {
        if (memchr(einsum->output_labels, (int)label, einsum->output_rank) == NULL) {
            job.sum_labels[job.sum_rank++] = (uint8_t)label;
            if (!wf_i64_mul(job.sum_elems, einsum->label_dims[label], &job.sum_elems)) {
                return WF_ERROR(MODEL_LIMIT, "einsum sums over more than 2^63 products");
            }
        }
    }
    job.integer = wf_lane_class(types[0].dtype) != WF_LANE_F;
    int64_t chunk = WF_MAX(1, WF_REF_CHUNK / WF_MAX(job.sum_elems, 1));
    wf_ref_chunks(call, wf_type_elems(&call->outputs[0].type), chunk, einsum_chunk, &job);
    return WF_OK;
}
