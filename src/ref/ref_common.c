/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, faults, parameters and scratch sizes of reference kernels. */
#include <stdatomic.h>
#include <string.h>

#include "base/parallel.h"
#include "ref/kernel.h"

/* ---- Threads
 * ----------------------------------------------------------------------------------------------------- */

typedef struct item_job {
    wf_item_fn *fn;
    void *arg;
    uint32_t fpu_state;
} item_job_t;

/* Pool threads flush denormals; the reference must not unless its caller does. */
static void run_item(void *arg, size_t item, uint32_t thread)
{
    const item_job_t *job = arg;
    uint32_t kept = wf_fpu_fast();
    wf_fpu_restore(job->fpu_state);
    job->fn(job->arg, item, thread);
    wf_fpu_restore(kept);
}

uint32_t wf_ref_threads(const wf_ref_call_t *call)
{
    return call->parallel != NULL ? call->parallel->thread_count : 1;
}

void wf_ref_items(const wf_ref_call_t *call, int64_t item_count, wf_item_fn *fn, void *arg)
{
    if (call->parallel == NULL || item_count <= 1) {
        for (int64_t item = 0; item < item_count; item++) {
            fn(arg, (size_t)item, 0);
        }
        return;
    }
    item_job_t job = {fn, arg, wf_fpu_fast()};
    wf_fpu_restore(job.fpu_state);
    call->parallel->run(call->parallel->self, (size_t)item_count, run_item, &job);
}

typedef struct chunk_job {
    wf_chunk_fn *fn;
    void *arg;
    int64_t elem_count, chunk_elems;
} chunk_job_t;

static void run_chunk(void *arg, size_t item, uint32_t thread)
{
    const chunk_job_t *job = arg;
    int64_t first = (int64_t)item * job->chunk_elems;
    (void)thread;
    job->fn(job->arg, first, WF_MIN(job->chunk_elems, job->elem_count - first));
}

void wf_ref_chunks(const wf_ref_call_t *call, int64_t elem_count, int64_t chunk_elems, wf_chunk_fn *fn,
                   void *arg)
{
    chunk_job_t job = {fn, arg, elem_count, chunk_elems};
    wf_ref_items(call, elem_count / chunk_elems + (elem_count % chunk_elems != 0), run_chunk, &job);
}

void wf_fault_init(wf_fault_t *fault)
{
    atomic_init(fault, INT64_MAX);
}

void wf_fault_set(wf_fault_t *fault, int64_t index)
{
    int64_t known = atomic_load(fault);
    while (index < known && !atomic_compare_exchange_weak(fault, &known, index)) {
    }
}

/* ---- Parameters
 * -------------------------------------------------------------------------------------------------- */

bool wf_ref_has(const wf_ref_call_t *call, size_t index)
{
    return index < call->input_count && call->inputs[index].type.dtype != WF_DTYPE_NONE;
}

bool wf_ref_wants(const wf_ref_call_t *call, size_t index)
{
    return index < call->output_count && call->outputs[index].data != NULL;
}

static wf_status_t too_many(const char *name, size_t limit, int64_t count)
{
    return WF_ERROR(RUNTIME_DATA, "parameter %s has %lld values, at most %zu are possible", name,
                    (long long)count, limit);
}

/* Elements of the input that holds a parameter; -1 when it is absent. */
static int64_t param_elems(const wf_ref_call_t *call, int32_t input)
{
    return input >= 0 && wf_ref_has(call, (size_t)input) ? wf_type_elems(&call->inputs[input].type) : -1;
}

wf_status_t wf_ref_ints(const wf_ref_call_t *call, const char *name, int32_t input, size_t limit,
                        int64_t *out, int32_t *out_count)
{
    const wf_attr_t *attr = wf_attrs_find(call->attrs, name);
    *out_count = -1;
    int64_t count = attr == NULL                 ? param_elems(call, input)
                    : attr->kind == WF_ATTR_INTS ? (int64_t)attr->count
                                                 : 1;
    if (count < 0) {
        return WF_OK;
    }
    if ((uint64_t)count > limit) {
        return too_many(name, limit, count);
    }
    if (count == 0) {
        *out_count = 0;
    } else if (attr != NULL) {
        memcpy(out, attr->kind == WF_ATTR_INTS ? attr->v.ints : &attr->v.i, (size_t)count * sizeof *out);
    } else {
        const wf_tensor_t *tensor = &call->inputs[input];
        if (wf_lane_class(tensor->type.dtype) != WF_LANE_I) {
            return WF_ERROR(MODEL_UNSUPPORTED, "parameter %s has type %s, not i32 or i64", name,
                            wf_dtype_name(tensor->type.dtype));
        }
        for (int64_t k = 0; k < count; k++) {
            out[k] = wf_lane_load(tensor->type.dtype, tensor->data, k).i;
        }
    }
    *out_count = (int32_t)count;
    return WF_OK;
}

wf_status_t wf_ref_floats(const wf_ref_call_t *call, const char *name, int32_t input, size_t limit,
                          double *out, int32_t *out_count)
{
    size_t attr_count;
    const float *values = wf_attrs_floats(call->attrs, name, &attr_count);
    *out_count = -1;
    int64_t count = values != NULL ? (int64_t)attr_count : param_elems(call, input);
    if (count < 0) {
        return WF_OK;
    }
    if ((uint64_t)count > limit) {
        return too_many(name, limit, count);
    }
    for (int64_t k = 0; k < count; k++) {
        const wf_tensor_t *tensor = values == NULL ? &call->inputs[input] : NULL;
        out[k] = values != NULL ? (double)values[k] : wf_lane_load_f64(tensor->type.dtype, tensor->data, k);
    }
    *out_count = (int32_t)count;
    return WF_OK;
}

wf_status_t wf_ref_int(const wf_ref_call_t *call, const char *name, int32_t input, int64_t fallback,
                       int64_t *out)
{
    int32_t count;
    *out = fallback;
    WF_TRY(wf_ref_ints(call, name, input, 1, out, &count));
    return WF_OK;
}

bool wf_ref_attr_is(const wf_ref_call_t *call, const char *name, const char *value)
{
    return strcmp(wf_attrs_string(call->attrs, name, ""), value) == 0;
}

wf_status_t wf_ref_shape_error(const wf_type_t *output, const char *text)
{
    return WF_ERROR(RUNTIME_DATA,
                    "the value of %s gives another shape than the %s of rank %u that was inferred", text,
                    wf_dtype_name(output->dtype), output->rank);
}

/* ---- Scratch
 * ----------------------------------------------------------------------------------------------------- */

size_t wf_scratch_mul(size_t a, size_t b)
{
    size_t product = SIZE_MAX;
    (void)wf_size_mul(a, b, &product);
    return product;
}

size_t wf_scratch_add(size_t a, size_t b)
{
    size_t sum = SIZE_MAX;
    (void)wf_size_add(a, b, &sum);
    return sum;
}
