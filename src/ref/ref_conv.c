/* SPDX-License-Identifier: Apache-2.0 */
/* Conv, ConvTranspose, ConvInteger, QLinearConv. One geometry: output o and kernel place k of a dim meet
 * input o * stride - pad + k * dilation (convolution), or (o + pad - k * dilation) / stride where that is
 * whole (transposed). The plain path loops over it; the other one is the batched product of weights [M, C *
 * kernel] with the inputs that each output meets [C * kernel, outputs]. Padding is a zero that is multiplied
 * like any other value. */
#include <string.h>

#include "ref/product.h"
#include "ref/quantize.h"

typedef struct conv_job {
    const wf_ref_call_t *call;
    const wf_tensor_t *x, *w, *bias, *out;
    const wf_tensor_t *x_zero, *w_zero, *out_zero, *x_scale, *w_scale, *out_scale; /* NULL: none */
    wf_window_t window;
    bool transposed, quantized;
    int64_t group, in_channels, out_channels; /* channels of one group */
    int64_t out_elems, kernel_elems;
} conv_job_t;

/* The input that output o meets at kernel place k of dim d; -1 when it is padding or falls between inputs. */
static int64_t met_input(const conv_job_t *job, uint32_t d, int64_t o, int64_t k)
{
    const wf_window_t *w = &job->window;
    int64_t at = job->transposed ? o + w->pad_begin[d] - k * w->dilation[d]
                                 : o * w->stride[d] - w->pad_begin[d] + k * w->dilation[d];
    if (job->transposed) {
        if (at % w->stride[d] != 0) {
            return -1;
        }
        at /= w->stride[d];
    }
    return at >= 0 && at < w->in[d] ? at : -1;
}

/* Integers of 8 bits less their zero point, in f64, in which their products and sums are exact. */
static void widen(const wf_tensor_t *tensor, const wf_tensor_t *zero, int64_t channel, size_t count,
                  wf_lane_t *lanes)
{
    double shift = 0;
    if (zero != NULL) {
        shift = wf_lane_load_f64(zero->type.dtype, zero->data, wf_type_elems(&zero->type) > 1 ? channel : 0);
    }
    bool is_signed = wf_lane_class(tensor->type.dtype) == WF_LANE_I;
    for (size_t k = 0; k < count; k++) {
        lanes[k].f = (is_signed ? (double)lanes[k].i : (double)lanes[k].u) - shift;
    }
}

static int64_t weight_index(const conv_job_t *job, int64_t group, int64_t m, int64_t c)
{
    int64_t row = job->transposed ? (group * job->in_channels + c) * job->out_channels + m
                                  : (group * job->out_channels + m) * job->in_channels + c;
    return row * job->kernel_elems;
}

/* Finishes sums of output channel `channel` (of all) and writes them at `at`. */
static void store_sums(const conv_job_t *job, int64_t channel, int64_t at, size_t count, wf_lane_t *lanes)
{
    wf_dtype_t dtype = job->out->type.dtype;
    double bias = job->bias == NULL ? 0.0 : wf_lane_load_f64(job->bias->type.dtype, job->bias->data, channel);
    int64_t min = 0, max = 0, zero = 0;
    float x_scale = 1, w_scale = 1, y_scale = 1;
    if (job->out_scale != NULL) {
        bool per_channel = wf_type_elems(&job->w_scale->type) > 1;
        x_scale = (float)wf_lane_load_f64(job->x_scale->type.dtype, job->x_scale->data, 0);
        w_scale =
            (float)wf_lane_load_f64(job->w_scale->type.dtype, job->w_scale->data, per_channel ? channel : 0);
        y_scale = (float)wf_lane_load_f64(job->out_scale->type.dtype, job->out_scale->data, 0);
        zero = (int64_t)wf_lane_load_f64(job->out_zero->type.dtype, job->out_zero->data, 0);
        wf_dtype_limits(dtype, &min, &max);
    }
    for (size_t k = 0; k < count; k++) {
        double sum = lanes[k].f + bias;
        if (!job->quantized) {
            lanes[k].f = sum;
        } else if (job->out_scale == NULL) {
            lanes[k].i = (int64_t)sum;
        } else {
            lanes[k].i = wf_requantize(sum, x_scale, w_scale, y_scale, zero, min, max);
        }
    }
    wf_lanes_store(dtype, job->out->data, at, 1, count, lanes);
}

/* ---- Plain path
 * -------------------------------------------------------------------------------------------------- */

static double plain_sum(const conv_job_t *job, int64_t n, int64_t channel, const int64_t *o)
{
    int64_t group = channel / job->out_channels, m = channel % job->out_channels;
    int64_t x_channels = job->group * job->in_channels, kernel[WF_MAX_RANK];
    double sum = 0;
    for (int64_t c = 0; c < job->in_channels; c++) {
        for (int64_t k = 0; k < job->kernel_elems; k++) {
            bool inside = true;
            int64_t at = n * x_channels + group * job->in_channels + c;
            wf_unravel(k, job->window.spatial_rank, job->window.kernel, kernel);
            for (uint32_t d = 0; d < job->window.spatial_rank; d++) {
                int64_t i = met_input(job, d, o[d], kernel[d]);
                inside = inside && i >= 0;
                at = at * job->window.in[d] + i;
            }
            wf_lane_t x = {.f = 0},
                      w = wf_lane_load(job->w->type.dtype, job->w->data, weight_index(job, group, m, c) + k);
            if (inside) {
                x = wf_lane_load(job->x->type.dtype, job->x->data, at);
            }
            if (job->quantized) {
                widen(job->w, job->w_zero, channel, 1, &w);
                if (inside) {
                    widen(job->x, job->x_zero, 0, 1, &x);
                }
            }
            sum += x.f * w.f;
        }
    }
    return sum;
}

static void run_plain(const conv_job_t *job, int64_t batch)
{
    int64_t channels = job->group * job->out_channels, o[WF_MAX_RANK];
    for (int64_t plane = 0; plane < batch * channels; plane++) {
        for (int64_t p = 0; p < job->out_elems; p++) {
            wf_unravel(p, job->window.spatial_rank, job->window.out, o);
            wf_lane_t sum = {.f = plain_sum(job, plane / channels, plane % channels, o)};
            store_sums(job, plane % channels, plane * job->out_elems + p, 1, &sum);
        }
    }
}

/* ---- Product path
 * ------------------------------------------------------------------------------------------------ */

static void load_weights(const wf_product_t *product, int64_t batch, int64_t m, int64_t first, size_t count,
                         wf_lane_t *out)
{
    const conv_job_t *job = product->arg;
    int64_t group = batch % job->group;
    /* The kernel of one input channel is contiguous in both orders; of all channels only when not transposed.
     */
    for (size_t done = 0; done < count;) {
        int64_t k = first + (int64_t)done, c = k / job->kernel_elems, place = k % job->kernel_elems;
        size_t run =
            job->transposed ? WF_MIN((size_t)(job->kernel_elems - place), count - done) : count - done;
        wf_lanes_load(job->w->type.dtype, job->w->data, weight_index(job, group, m, c) + place, 1, run,
                      out + done);
        done += run;
    }
    if (job->quantized) {
        widen(job->w, job->w_zero, group * job->out_channels + m, count, out);
    }
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Inputs that outputs [first, first + count) of one row (the last dim) meet at kernel place k; `row` is the
 * index of the row's first input. */
static void load_run(const conv_job_t *job, int64_t row, int64_t first, int64_t count, int64_t k,
                     wf_lane_t *out)
{
    const wf_window_t *w = &job->window;
    uint32_t d = w->spatial_rank - 1;
    int64_t shift = k * w->dilation[d] - w->pad_begin[d], stride = w->stride[d], last_in = w->in[d] - 1;
    int64_t step = job->transposed ? stride : 1;
    /* Smallest and largest output that meets an input. */
    int64_t low = job->transposed ? shift : -floor_div(shift, stride);
    int64_t high = job->transposed ? shift + last_in * stride : floor_div(last_in - shift, stride);
    if (low < first) {
        low += (first - low + step - 1) / step * step;
    }
    high = WF_MIN(high, first + count - 1);
    for (int64_t e = 0; e < count; e++) {
        out[e].f = 0.0;
    }
    if (low > high) {
        return;
    }
    size_t met = (size_t)((high - low) / step + 1);
    int64_t at = row + met_input(job, d, low, k);
    if (!job->transposed) {
        wf_lane_t *to = out + (low - first);
        wf_lanes_load(job->x->type.dtype, job->x->data, at, stride, met, to);
        if (job->quantized) {
            widen(job->x, job->x_zero, 0, met, to);
        }
        return;
    }
    wf_lane_t lanes[WF_LANE_BLOCK];
    wf_lanes_load(job->x->type.dtype, job->x->data, at, 1, met, lanes);
    for (size_t e = 0; e < met; e++) {
        out[low - first + (int64_t)e * step] = lanes[e];
    }
}

static void load_inputs(const wf_product_t *product, int64_t batch, int64_t k, int64_t first, size_t count,
                        wf_lane_t *out)
{
    const conv_job_t *job = product->arg;
    const wf_window_t *w = &job->window;
    uint32_t last = w->spatial_rank - 1;
    int64_t kernel[WF_MAX_RANK], o[WF_MAX_RANK];
    int64_t channel = batch * job->in_channels + k / job->kernel_elems; /* batch counts images and groups */
    wf_unravel(k % job->kernel_elems, w->spatial_rank, w->kernel, kernel);
    wf_unravel(first, w->spatial_rank, w->out, o);
    for (int64_t left = (int64_t)count; left > 0;) {
        int64_t run = WF_MIN(w->out[last] - o[last], left), row = channel;
        bool inside = true;
        for (uint32_t d = 0; d < last; d++) {
            int64_t i = met_input(job, d, o[d], kernel[d]);
            inside = inside && i >= 0;
            row = row * w->in[d] + i;
        }
        if (inside) {
            load_run(job, row * w->in[last], o[last], run, kernel[last], out);
        } else {
            memset(out, 0, (size_t)run * sizeof *out);
        }
        out += run;
        left -= run;
        o[last] = 0;
        for (uint32_t d = last; d-- > 0;) {
            if (++o[d] < w->out[d]) {
                break;
            }
            o[d] = 0;
        }
    }
}

static void store_outputs(const wf_product_t *product, int64_t batch, int64_t m, int64_t first, size_t count,
                          wf_lane_t *lanes)
{
    const conv_job_t *job = product->arg;
    int64_t plane = batch * job->out_channels + m;
    store_sums(job, plane % (job->group * job->out_channels), plane * job->out_elems + first, count, lanes);
}

/* ---- Operators
 * --------------------------------------------------------------------------------------------------- */

/* Where the inputs of each operator are; -1: it has none. */
static const struct roles {
    wf_op_t op;
    int8_t w, bias, x_scale, x_zero, w_scale, w_zero, out_scale, out_zero;
} roles[] = {
    {WF_OP_CONV, 1, 2, -1, -1, -1, -1, -1, -1},
    {WF_OP_CONV_TRANSPOSE, 1, 2, -1, -1, -1, -1, -1, -1},
    {WF_OP_CONV_INTEGER, 1, -1, -1, 2, -1, 3, -1, -1},
    {WF_OP_QLINEAR_CONV, 3, 8, 1, 2, 4, 5, 6, 7},
};

static const wf_tensor_t *role(const wf_ref_call_t *call, int8_t index)
{
    return index >= 0 && wf_ref_has(call, (size_t)index) ? &call->inputs[index] : NULL;
}

wf_status_t wf_ref_conv(const wf_ref_call_t *call)
{
    const struct roles *r = roles;
    while (r->op != call->op) {
        r++;
    }
    conv_job_t job = {.call = call, .x = &call->inputs[0], .out = &call->outputs[0], .group = 1};
    job.w = role(call, r->w);
    job.bias = role(call, r->bias);
    job.x_scale = role(call, r->x_scale);
    job.x_zero = role(call, r->x_zero);
    job.w_scale = role(call, r->w_scale);
    job.w_zero = role(call, r->w_zero);
    job.out_scale = role(call, r->out_scale);
    job.out_zero = role(call, r->out_zero);
    job.quantized = r->x_zero >= 0;
    job.transposed = call->op == WF_OP_CONV_TRANSPOSE;
    job.group = wf_attrs_int(call->attrs, "group", 1);
    WF_TRY(job.transposed
               ? wf_window_resolve_transpose(call->attrs, &job.x->type, &job.w->type, &job.window)
               : wf_window_resolve(call->op, call->attrs, &job.x->type, &job.w->type, &job.window));
    job.in_channels = job.x->type.dims[1] / job.group;
    job.out_channels = job.out->type.dims[1] / job.group;
    job.out_elems = job.kernel_elems = 1;
    for (uint32_t d = 0; d < job.window.spatial_rank; d++) {
        job.out_elems *= job.window.out[d];
        job.kernel_elems *= job.window.kernel[d];
    }
    if (wf_type_elems(&job.out->type) == 0) {
        return WF_OK;
    }
    int64_t batch = job.out->type.dims[0];
    if (call->parallel == NULL) {
        run_plain(&job, batch);
        return WF_OK;
    }
    wf_product_t product = {
        .call = call, .batch = batch * job.group, .m = job.out_channels, .n = job.out_elems};
    product.k = job.in_channels * job.kernel_elems;
    product.load_a = load_weights;
    product.load_b = load_inputs;
    product.store = store_outputs;
    product.arg = &job;
    wf_product_run(&product);
    return WF_OK;
}
