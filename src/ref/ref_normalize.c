/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations. Means and variances are taken in f64 in two passes. */
#include <math.h>

#include "ref/kernel.h"

typedef struct norm_job {
    const wf_ref_call_t *call;
    const wf_tensor_t *x, *residual, *out,
        *sum_out;                    /* residual, sum_out: AddLayerNormalization; may be NULL */
    const wf_tensor_t *scale, *bias; /* bias NULL: none */
    wf_walk_t residual_walk, scale_walk, bias_walk;
    double epsilon;
    bool centered; /* false: RMS */
    int64_t row;   /* elements that are normalised together, contiguous */
    int64_t plane; /* elements of one channel */
    int64_t channels;
} norm_job_t;

/* Elements [at, at + count) of x, plus the residual rounded as a stored sum would be. */
static void load_x(const norm_job_t *job, int64_t at, size_t count, wf_lane_t *lanes)
{
    wf_dtype_t dtype = job->x->type.dtype;
    wf_lanes_load(dtype, job->x->data, at, 1, count, lanes);
    if (job->residual == NULL) {
        return;
    }
    wf_lane_t other[WF_LANE_BLOCK], rounded[WF_LANE_BLOCK];
    wf_walk_load(&job->residual_walk, dtype, job->residual->data, at, count, other);
    for (size_t k = 0; k < count; k++) {
        lanes[k].f += other[k].f;
    }
    wf_lanes_store(dtype, rounded, 0, 1, count, lanes);
    wf_lanes_load(dtype, rounded, 0, 1, count, lanes);
}

/* Sum over [start, start + count) of (x - center), or of its square. */
static double sum_of(const norm_job_t *job, int64_t start, int64_t count, double center, bool squares)
{
    double sum = 0;
    wf_lane_t lanes[WF_LANE_BLOCK];
    for (int64_t at = 0; at < count; at += WF_LANE_BLOCK) {
        size_t size = (size_t)WF_MIN(count - at, WF_LANE_BLOCK);
        load_x(job, start + at, size, lanes);
        for (size_t k = 0; k < size; k++) {
            double x = lanes[k].f - center;
            sum += squares ? x * x : x;
        }
    }
    return sum;
}

static double param(const wf_tensor_t *tensor, int64_t index)
{
    return wf_lane_load_f64(tensor->type.dtype, tensor->data, index);
}

/* y = (x - mean) * factor + offset over [start, start + count). */
static void write_scaled(const norm_job_t *job, int64_t start, int64_t count, double mean, double factor,
                         double offset)
{
    wf_lane_t lanes[WF_LANE_BLOCK];
    for (int64_t at = 0; at < count; at += WF_LANE_BLOCK) {
        size_t size = (size_t)WF_MIN(count - at, WF_LANE_BLOCK);
        load_x(job, start + at, size, lanes);
        for (size_t k = 0; k < size; k++) {
            lanes[k].f = (lanes[k].f - mean) * factor + offset;
        }
        wf_lanes_store(job->out->type.dtype, job->out->data, start + at, 1, size, lanes);
    }
}

/* ---- Layer, RMS, Add + Layer
 * ------------------------------------------------------------------------------------- */

static void layer_row(void *arg, size_t item, uint32_t thread)
{
    const norm_job_t *job = arg;
    int64_t start = (int64_t)item * job->row;
    (void)thread;
    double mean = job->centered ? sum_of(job, start, job->row, 0.0, false) / (double)job->row : 0.0;
    double variance = sum_of(job, start, job->row, mean, true) / (double)job->row;
    double inverse = 1.0 / sqrt(variance + job->epsilon);
    const wf_ref_call_t *call = job->call;
    if (call->op == WF_OP_LAYER_NORMALIZATION && wf_ref_wants(call, 1)) {
        wf_lane_store(call->outputs[1].type.dtype, call->outputs[1].data, (int64_t)item,
                      (wf_lane_t){.f = mean});
    }
    if (call->op == WF_OP_LAYER_NORMALIZATION && wf_ref_wants(call, 2)) {
        wf_lane_store(call->outputs[2].type.dtype, call->outputs[2].data, (int64_t)item,
                      (wf_lane_t){.f = inverse});
    }
    wf_lane_t lanes[WF_LANE_BLOCK], scale[WF_LANE_BLOCK], bias[WF_LANE_BLOCK] = {{0}};
    for (int64_t at = 0; at < job->row; at += WF_LANE_BLOCK) {
        size_t size = (size_t)WF_MIN(job->row - at, WF_LANE_BLOCK);
        load_x(job, start + at, size, lanes);
        if (job->sum_out != NULL) {
            wf_lanes_store(job->sum_out->type.dtype, job->sum_out->data, start + at, 1, size, lanes);
        }
        wf_walk_load(&job->scale_walk, job->scale->type.dtype, job->scale->data, start + at, size, scale);
        if (job->bias != NULL) {
            wf_walk_load(&job->bias_walk, job->bias->type.dtype, job->bias->data, start + at, size, bias);
        }
        for (size_t k = 0; k < size; k++) {
            lanes[k].f = (lanes[k].f - mean) * inverse * scale[k].f + bias[k].f;
        }
        if (job->out->data != NULL) {
            wf_lanes_store(job->out->type.dtype, job->out->data, start + at, 1, size, lanes);
        }
    }
}

wf_status_t wf_ref_layer_normalization(const wf_ref_call_t *call)
{
    bool adds = call->op == WF_OP_W_ADD_LAYER_NORM;
    const wf_type_t *x = &call->inputs[0].type;
    size_t scale_at = adds ? 2 : 1;
    norm_job_t job = {
        .call = call, .x = &call->inputs[0], .out = &call->outputs[0], .scale = &call->inputs[scale_at]};
    job.residual = adds ? &call->inputs[1] : NULL;
    job.sum_out = adds && wf_ref_wants(call, 1) ? &call->outputs[1] : NULL;
    job.bias = wf_ref_has(call, scale_at + 1) ? &call->inputs[scale_at + 1] : NULL;
    job.epsilon = (double)wf_attrs_float(call->attrs, "epsilon", 1e-5F);
    job.centered = call->op != WF_OP_RMS_NORMALIZATION;
    int64_t axis = adds ? (int64_t)x->rank - 1 : wf_axis_wrap(wf_attrs_int(call->attrs, "axis", -1), x->rank);
    job.row = wf_split_at(x, axis, x->rank).axis;
    wf_walk_broadcast(&job.scale->type, x, &job.scale_walk);
    if (adds) {
        wf_walk_broadcast(&job.residual->type, x, &job.residual_walk);
    }
    if (job.bias != NULL) {
        wf_walk_broadcast(&job.bias->type, x, &job.bias_walk);
    }
    if (job.row > 0) {
        wf_ref_items(call, wf_type_elems(x) / job.row, layer_row, &job);
    }
    return WF_OK;
}

/* ---- Group and instance
 * ------------------------------------------------------------------------------------------ */

static void group_item(void *arg, size_t item, uint32_t thread)
{
    const norm_job_t *job = arg;
    int64_t start = (int64_t)item * job->row;
    (void)thread;
    double mean = sum_of(job, start, job->row, 0.0, false) / (double)job->row;
    double variance = sum_of(job, start, job->row, mean, true) / (double)job->row;
    double inverse = 1.0 / sqrt(variance + job->epsilon);
    for (int64_t at = 0; at < job->row; at += job->plane) {
        int64_t channel = (start + at) / job->plane % job->channels;
        write_scaled(job, start + at, job->plane, mean, inverse * param(job->scale, channel),
                     param(job->bias, channel));
    }
}

static norm_job_t channel_job(const wf_ref_call_t *call)
{
    const wf_type_t *x = &call->inputs[0].type;
    norm_job_t job = {.call = call, .x = &call->inputs[0], .out = &call->outputs[0]};
    job.scale = &call->inputs[1];
    job.bias = &call->inputs[2];
    job.epsilon = (double)wf_attrs_float(call->attrs, "epsilon", 1e-5F);
    job.channels = x->rank > 1 ? x->dims[1] : 1;
    job.plane = wf_split_at(x, 0, WF_MIN(x->rank, 2u)).inner;
    return job;
}

/* GroupNormalization; InstanceNormalization has one channel a group. */
wf_status_t wf_ref_group_normalization(const wf_ref_call_t *call)
{
    norm_job_t job = channel_job(call);
    int64_t elems = wf_type_elems(&job.x->type);
    if (elems > 0) {
        int64_t groups = wf_attrs_int(call->attrs, "num_groups", job.channels);
        if (groups < 1 || job.channels % groups != 0) {
            return WF_ERROR(MODEL_INVALID, "%lld channels do not divide into %lld groups",
                            (long long)job.channels, (long long)groups);
        }
        job.row = job.channels / groups * job.plane;
        wf_ref_items(call, elems / job.row, group_item, &job);
    }
    return WF_OK;
}

/* ---- Batch
 * ------------------------------------------------------------------------------------------------------- */

static void batch_channel(void *arg, size_t item, uint32_t thread)
{
    const norm_job_t *job = arg;
    const wf_ref_call_t *call = job->call;
    int64_t channel = (int64_t)item, image = job->channels * job->plane;
    int64_t images = image > 0 ? wf_type_elems(&job->x->type) / image : 0;
    double mean = param(&call->inputs[3], channel), variance = param(&call->inputs[4], channel);
    (void)thread;
    if (wf_attrs_int(call->attrs, "training_mode", 0) != 0) {
        const double running[2] = {mean, variance};
        double momentum = (double)wf_attrs_float(call->attrs, "momentum", 0.9F),
               count = (double)(images * job->plane);
        mean = variance = 0;
        for (int64_t n = 0; n < images; n++) {
            mean += sum_of(job, n * image + channel * job->plane, job->plane, 0.0, false);
        }
        mean /= count;
        for (int64_t n = 0; n < images; n++) {
            variance += sum_of(job, n * image + channel * job->plane, job->plane, mean, true);
        }
        variance /= count;
        const double current[2] = {mean, variance};
        for (size_t k = 0; k < 2; k++) {
            if (wf_ref_wants(call, 1 + k)) {
                double updated = running[k] * momentum + current[k] * (1.0 - momentum);
                wf_lane_store(call->outputs[1 + k].type.dtype, call->outputs[1 + k].data, channel,
                              (wf_lane_t){.f = updated});
            }
        }
    }
    double factor = param(job->scale, channel) / sqrt(variance + job->epsilon);
    for (int64_t n = 0; job->out->data != NULL && n < images; n++) {
        write_scaled(job, n * image + channel * job->plane, job->plane, mean, factor,
                     param(job->bias, channel));
    }
}

wf_status_t wf_ref_batch_normalization(const wf_ref_call_t *call)
{
    norm_job_t job = channel_job(call);
    wf_ref_items(call, job.channels, batch_channel, &job);
    return WF_OK;
}

/* ---- MeanVarianceNormalization, LRN
 * ------------------------------------------------------------------------------ */

/* (x - mean) / (deviation + 1e-9) over any axes; the constant is that of the operator's function body. */
wf_status_t wf_ref_mean_variance_normalization(const wf_ref_call_t *call)
{
    const wf_tensor_t *x = &call->inputs[0], *out = &call->outputs[0];
    wf_dtype_t dtype = x->type.dtype;
    wf_walk_t kept = {0}, reduced = {0};
    int64_t axes[WF_MAX_RANK], strides[WF_MAX_RANK], kept_elems = 1, count = 1, index[WF_MAX_RANK];
    int32_t axis_count;
    bool is_reduced[WF_MAX_RANK] = {false};
    WF_TRY(wf_ref_ints(call, "axes", -1, WF_MAX_RANK, axes, &axis_count));
    for (int32_t k = 0; k < axis_count; k++) {
        int64_t axis = wf_axis_wrap(axes[k], x->type.rank);
        if (axis < 0 || axis >= x->type.rank) {
            return WF_ERROR(MODEL_INVALID, "axis %lld of a tensor of rank %u", (long long)axes[k],
                            x->type.rank);
        }
        is_reduced[axis] = true;
    }
    wf_strides_dense(x->type.rank, x->type.dims, strides);
    for (uint32_t d = 0; d < x->type.rank; d++) {
        wf_walk_t *walk = is_reduced[d] ? &reduced : &kept;
        walk->dims[walk->rank] = x->type.dims[d];
        walk->strides[walk->rank++] = strides[d];
        *(is_reduced[d] ? &count : &kept_elems) *= x->type.dims[d];
    }
    for (int64_t row = 0; count > 0 && row < kept_elems; row++) {
        wf_unravel(row, kept.rank, kept.dims, index);
        reduced.base = 0;
        for (uint32_t d = 0; d < kept.rank; d++) {
            reduced.base += index[d] * kept.strides[d];
        }
        double mean = 0, variance = 0;
        for (int pass = 0; pass < 3; pass++) {
            for (int64_t e = 0; e < count; e++) {
                int64_t at = reduced.base;
                wf_unravel(e, reduced.rank, reduced.dims, index);
                for (uint32_t d = 0; d < reduced.rank; d++) {
                    at += index[d] * reduced.strides[d];
                }
                double value = wf_lane_load(dtype, x->data, at).f;
                if (pass == 0) {
                    mean += value / (double)count;
                } else if (pass == 1) {
                    variance += (value - mean) * (value - mean) / (double)count;
                } else {
                    wf_lane_store(dtype, out->data, at,
                                  (wf_lane_t){.f = (value - mean) / (sqrt(variance) + 1e-9)});
                }
            }
        }
    }
    return WF_OK;
}

static void lrn_chunk(void *arg, int64_t first, int64_t count)
{
    const norm_job_t *job = arg;
    const wf_attrs_t *attrs = job->call->attrs;
    wf_dtype_t dtype = job->x->type.dtype;
    int64_t size = wf_attrs_int(attrs, "size", 1);
    double alpha = (double)wf_attrs_float(attrs, "alpha", 1e-4F),
           beta = (double)wf_attrs_float(attrs, "beta", 0.75F);
    double bias = (double)wf_attrs_float(attrs, "bias", 1.0F);
    for (int64_t e = first; e < first + count; e++) {
        int64_t channel = e / job->plane % job->channels;
        int64_t low = WF_MAX(0, channel - (size - 1) / 2);
        int64_t high = size - 1 - (size - 1) / 2 >= job->channels - channel
                           ? job->channels - 1
                           : channel + (size - 1 - (size - 1) / 2);
        double sum = 0;
        for (int64_t c = low; c <= high; c++) {
            double x = wf_lane_load(dtype, job->x->data, e + (c - channel) * job->plane).f;
            sum += x * x;
        }
        wf_lane_t y = wf_lane_load(dtype, job->x->data, e);
        y.f /= pow(bias + alpha / (double)size * sum, beta);
        wf_lane_store(dtype, job->out->data, e, y);
    }
}

wf_status_t wf_ref_lrn(const wf_ref_call_t *call)
{
    norm_job_t job = {.call = call, .x = &call->inputs[0], .out = &call->outputs[0]};
    job.channels = job.x->type.dims[1];
    job.plane = wf_split_at(&job.x->type, 0, 2).inner;
    wf_ref_chunks(call, wf_type_elems(&job.x->type), WF_REF_CHUNK, lrn_chunk, &job);
    return WF_OK;
}
