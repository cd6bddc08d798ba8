/* SPDX-License-Identifier: Apache-2.0 */
/* QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear. */
#include "ref/quantize.h"

/* Which scale and zero point belong to an element: one for all, one per index of an axis, or one per block
 * along it. */
typedef struct grain {
    const wf_tensor_t *scale, *zero; /* zero NULL: 0 */
    wf_split_t split;
    int64_t block; /* elements along the axis that share one; 0: all do */
    int64_t blocks;
    bool per_axis; /* one per index: the other dims share it */
} grain_t;

static grain_t grain_of(const wf_ref_call_t *call)
{
    const wf_type_t *x = &call->inputs[0].type, *scale = &call->inputs[1].type;
    grain_t grain = {.scale = &call->inputs[1], .zero = wf_ref_has(call, 2) ? &call->inputs[2] : NULL};
    int64_t block = wf_attrs_int(call->attrs, "block_size", 0);
    if (scale->rank == 0 || (scale->rank == 1 && scale->dims[0] == 1 && block == 0)) {
        return grain;
    }
    int64_t axis = wf_axis_wrap(wf_attrs_int(call->attrs, "axis", 1), x->rank);
    grain.split = wf_split_at(x, axis, axis + 1);
    grain.per_axis = block == 0;
    grain.block = WF_MAX(block, 1);
    grain.blocks = scale->rank == x->rank && block > 0 ? scale->dims[axis] : grain.split.axis;
    return grain;
}

static int64_t grain_index(const grain_t *grain, int64_t e)
{
    if (grain->block == 0) {
        return 0;
    }
    int64_t inner = e % grain->split.inner, at = e / grain->split.inner % grain->split.axis / grain->block;
    int64_t outer = e / grain->split.inner / grain->split.axis;
    return grain->per_axis ? at : (outer * grain->blocks + at) * grain->split.inner + inner;
}

static double grain_zero(const grain_t *grain, int64_t index)
{
    return grain->zero == NULL ? 0.0 : wf_lane_load_f64(grain->zero->type.dtype, grain->zero->data, index);
}

typedef struct quantize_job {
    const wf_tensor_t *x, *out;
    grain_t grain;
    wf_dtype_t precision; /* of the division */
    wf_cast_mode_t cast;
} quantize_job_t;

/* The value as the type stores it. */
static double rounded(wf_dtype_t dtype, double value)
{
    uint64_t stored;
    wf_lane_store(dtype, &stored, 0, (wf_lane_t){.f = value});
    return wf_lane_load(dtype, &stored, 0).f;
}

static void quantize_chunk(void *arg, int64_t first, int64_t count)
{
    const quantize_job_t *job = arg;
    wf_dtype_t to = job->out->type.dtype;
    bool to_float = wf_lane_class(to) == WF_LANE_F;
    int64_t min = 0, max = 0;
    if (!to_float) {
        wf_dtype_limits(to, &min, &max);
    }
    for (int64_t e = first; e < first + count; e++) {
        int64_t grain = grain_index(&job->grain, e);
        double x = wf_lane_load_f64(job->x->type.dtype, job->x->data, e);
        double scale = wf_lane_load_f64(job->grain.scale->type.dtype, job->grain.scale->data, grain);
        double zero = grain_zero(&job->grain, grain);
        x = rounded(job->precision, rounded(job->precision, x) / rounded(job->precision, scale));
        wf_lane_t lane;
        if (to_float) {
            lane.f = x + zero;
            wf_lanes_store_cast(WF_LANE_F, to, job->cast, job->out->data, e, 1, &lane);
        } else {
            lane.i = wf_quantize_round(x, (int64_t)zero, min, max);
            wf_lane_store(to, job->out->data, e, lane);
        }
    }
}

wf_status_t wf_ref_quantize(const wf_ref_call_t *call)
{
    int64_t precision = wf_attrs_int(call->attrs, "precision", 0);
    quantize_job_t job = {.x = &call->inputs[0], .out = &call->outputs[0], .grain = grain_of(call)};
    job.precision = precision != 0 ? wf_dtype_from_onnx(precision) : call->inputs[1].type.dtype;
    if (precision == 0 && wf_lane_class(job.precision) != WF_LANE_F) {
        job.precision = WF_DTYPE_F32; /* an i32 scale */
    }
    if (wf_lane_class(job.precision) != WF_LANE_F || wf_dtype_bits(job.precision) < 16) {
        return WF_ERROR(MODEL_UNSUPPORTED, "a division in %s is not handled", wf_dtype_name(job.precision));
    }
    job.cast.saturate = wf_attrs_int(call->attrs, "saturate", 1) != 0;
    wf_ref_chunks(call, wf_type_elems(&job.x->type), WF_REF_CHUNK, quantize_chunk, &job);
    return WF_OK;
}

static void dequantize_chunk(void *arg, int64_t first, int64_t count)
{
    const quantize_job_t *job = arg;
    for (int64_t e = first; e < first + count; e++) {
        int64_t grain = grain_index(&job->grain, e);
        double x = wf_lane_load_f64(job->x->type.dtype, job->x->data, e) - grain_zero(&job->grain, grain);
        double scale = wf_lane_load_f64(job->grain.scale->type.dtype, job->grain.scale->data, grain);
        wf_lane_store(job->out->type.dtype, job->out->data, e, (wf_lane_t){.f = x * scale});
    }
}

wf_status_t wf_ref_dequantize(const wf_ref_call_t *call)
{
    quantize_job_t job = {.x = &call->inputs[0], .out = &call->outputs[0], .grain = grain_of(call)};
    wf_ref_chunks(call, wf_type_elems(&job.x->type), WF_REF_CHUNK, dequantize_chunk, &job);
    return WF_OK;
}

/* To u8 by the range of the data, which is widened to hold 0. In f32 throughout, as the operator's function
 * body is. */
wf_status_t wf_ref_dynamic_quantize(const wf_ref_call_t *call)
{
    const wf_tensor_t *x = &call->inputs[0];
    float low = 0, high = 0;
    int64_t elems = wf_type_elems(&x->type);
    for (int64_t e = 0; e < elems; e++) {
        float value = (float)wf_lane_load_f64(x->type.dtype, x->data, e);
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    float scale = high == low ? 1.0F : (high - low) / 255.0F;
    int64_t zero = wf_quantize_round((double)(0.0F - low / scale), 0, 0, 255);
    for (int64_t e = 0; wf_ref_wants(call, 0) && e < elems; e++) {
        float value = (float)wf_lane_load_f64(x->type.dtype, x->data, e);
        wf_lane_t lane = {.i = wf_quantize_round((double)(value / scale), zero, 0, 255)};
        wf_lane_store(WF_DTYPE_U8, call->outputs[0].data, e, lane);
    }
    if (wf_ref_wants(call, 1)) {
        wf_lane_store(WF_DTYPE_F32, call->outputs[1].data, 0, (wf_lane_t){.f = (double)scale});
    }
    if (wf_ref_wants(call, 2)) {
        wf_lane_store(WF_DTYPE_U8, call->outputs[2].data, 0, (wf_lane_t){.i = zero});
    }
    return WF_OK;
}
