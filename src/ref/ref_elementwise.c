/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators with broadcasting: blocks of lanes through the functions that elementwise.def
 * generates. */
#include <math.h>
#include <string.h>

#include "ref/kernel.h"

#define NEVER 0
#define CLAMP(value, low, high) clamp((value), (low), (high))
#define WRAP_ADD(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define WRAP_SUB(a, b) ((int64_t)((uint64_t)(a) - (uint64_t)(b)))
#define WRAP_MUL(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))

/* NaN stays NaN. */
static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* a - floor(a / b) * b, with the sign of b also for zeros. */
static double floor_mod(double a, double b)
{
    double rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0)) {
        return rest + b;
    }
    return rest == 0 ? copysign(0.0, b) : rest;
}

/* ---- Functions on blocks
 * ----------------------------------------------------------------------------------------- */

typedef struct params {
    double p[2];
    int64_t bits;
} params_t;
/* r may be a. */
typedef void lane_fn(const params_t *params, size_t count, const wf_lane_t *a, const wf_lane_t *b,
                     wf_lane_t *r);

#define BLOCK_1(name, class_member, ctype, result_member, rtype, expression)                    \
    static void name##_##class_member(const params_t *params, size_t count, const wf_lane_t *a, \
                                      const wf_lane_t *b, wf_lane_t *r)                         \
    {                                                                                           \
        const double p0 = params->p[0], p1 = params->p[1];                                      \
        (void)b, (void)p0, (void)p1;                                                            \
        for (size_t k = 0; k < count; k++) {                                                    \
            ctype x = a[k].class_member;                                                        \
            (void)x;                                                                            \
            r[k].result_member = (rtype)(expression);                                           \
        }                                                                                       \
    }
#define BLOCK_2(name, class_member, ctype, result_member, rtype, expression)                          \
    static void name##_##class_member(const params_t *params, size_t count, const wf_lane_t *a_lanes, \
                                      const wf_lane_t *b_lanes, wf_lane_t *r)                         \
    {                                                                                                 \
        const double p0 = params->p[0];                                                               \
        const int64_t bits = params->bits;                                                            \
        (void)p0, (void)bits;                                                                         \
        for (size_t k = 0; k < count; k++) {                                                          \
            ctype a = a_lanes[k].class_member, b = b_lanes[k].class_member;                           \
            (void)a, (void)b;                                                                         \
            r[k].result_member = (rtype)(expression);                                                 \
        }                                                                                             \
    }
#define UNARY(op, n0, n1, f_of, i_of, u_of) \
    BLOCK_1(op, f, double, f, double, f_of) \
    BLOCK_1(op, i, int64_t, i, int64_t, i_of) BLOCK_1(op, u, uint64_t, u, uint64_t, u_of)
#define TO_BOOL_1(op, n0, n1, f_of, i_of, u_of) \
    BLOCK_1(op, f, double, u, uint64_t, f_of)   \
    BLOCK_1(op, i, int64_t, u, uint64_t, i_of) BLOCK_1(op, u, uint64_t, u, uint64_t, u_of)
#define BINARY(op, n0, f_of, i_of, u_of)    \
    BLOCK_2(op, f, double, f, double, f_of) \
    BLOCK_2(op, i, int64_t, i, int64_t, i_of) BLOCK_2(op, u, uint64_t, u, uint64_t, u_of)
#define TO_BOOL_2(op, n0, f_of, i_of, u_of)   \
    BLOCK_2(op, f, double, u, uint64_t, f_of) \
    BLOCK_2(op, i, int64_t, u, uint64_t, i_of) BLOCK_2(op, u, uint64_t, u, uint64_t, u_of)
#include "ref/elementwise.def"
#undef UNARY
#undef TO_BOOL_1
#undef BINARY
#undef TO_BOOL_2

typedef struct row {
    const char *param_names[2];
    lane_fn *fn[WF_LANE_CLASSES];
} row_t;

static const row_t rows[WF_OP_COUNT] = {
#define ROW(op, n0, n1) \
    [WF_OP_##op] = {{n0, n1}, {[WF_LANE_F] = op##_f, [WF_LANE_I] = op##_i, [WF_LANE_U] = op##_u}},
#define UNARY(op, n0, n1, f_of, i_of, u_of) ROW(op, n0, n1)
#define BINARY(op, n0, f_of, i_of, u_of) ROW(op, n0, "")
#define TO_BOOL_1 UNARY
#define TO_BOOL_2 BINARY
#include "ref/elementwise.def"
#undef UNARY
#undef TO_BOOL_1
#undef BINARY
#undef TO_BOOL_2
#undef ROW
};

/* An attribute as a number: see elementwise.def. */
static double read_param(const wf_attrs_t *attrs, const char *name)
{
    const char *equals = strchr(name, '=');
    char key[32];
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    memcpy(key, name, length);
    key[length] = 0;
    const wf_attr_t *attr = wf_attrs_find(attrs, key);
    if (attr == NULL) {
        return 0;
    }
    switch (attr->kind) {
    case WF_ATTR_INT:
        return (double)attr->v.i;
    case WF_ATTR_FLOAT:
        return (double)attr->v.f;
    case WF_ATTR_STRING:
        return equals != NULL && strcmp(attr->v.s, equals + 1) == 0;
    default:
        return 0;
    }
}

bool wf_ref_activate(wf_op_t op, double p0, double p1, size_t count, wf_lane_t *lanes)
{
    if (op >= WF_OP_COUNT || rows[op].fn[WF_LANE_F] == NULL || wf_op_info(op)->input_max != 1) {
        return false;
    }
    rows[op].fn[WF_LANE_F](&(params_t){{p0, p1}, 64}, count, lanes, NULL, lanes);
    return true;
}

/* ---- Kernels
 * ----------------------------------------------------------------------------------------------------- */

typedef struct job {
    const wf_ref_call_t *call;
    lane_fn *fn;
    params_t params;
    wf_walk_t walks[3];
    bool integer_division;
    wf_fault_t fault;
} job_t;

static void job_init(job_t *job, const wf_ref_call_t *call, size_t walk_count)
{
    const wf_type_t *first = &call->inputs[0].type;
    const row_t *row = &rows[call->op];
    *job = (job_t){.call = call, .params.bits = wf_dtype_bits(first->dtype)};
    job->fn = row->fn[wf_lane_class(first->dtype)];
    for (size_t k = 0; k < WF_COUNT_OF(job->params.p); k++) {
        const char *name = row->param_names[k];
        job->params.p[k] = name == NULL || *name == 0 ? 0 : read_param(call->attrs, name);
    }
    for (size_t k = 0; k < walk_count; k++) {
        if (wf_ref_has(call, k)) {
            wf_walk_broadcast(&call->inputs[k].type, &call->outputs[0].type, &job->walks[k]);
        }
    }
    wf_fault_init(&job->fault);
}

static void load_input(const job_t *job, size_t input, int64_t first, size_t count, wf_lane_t *out)
{
    const wf_tensor_t *tensor = &job->call->inputs[input];
    wf_walk_load(&job->walks[input], tensor->type.dtype, tensor->data, first, count, out);
}

/* Runs `fn` over the output in chunks of blocks. */
static void run_blocks(job_t *job, wf_chunk_fn *fn)
{
    wf_ref_chunks(job->call, wf_type_elems(&job->call->outputs[0].type), WF_REF_CHUNK, fn, job);
}

#define EACH_BLOCK(at, size, first, count) \
    for (int64_t at = (first), size;       \
         size = WF_MIN((first) + (count)-at, WF_LANE_BLOCK), at < (first) + (count); at += size)

static void unary_chunk(void *arg, int64_t first, int64_t count)
{
    const job_t *job = arg;
    const wf_tensor_t *in = job->call->inputs, *out = job->call->outputs;
    wf_lane_t lanes[WF_LANE_BLOCK];
    EACH_BLOCK(at, size, first, count)
    {
        wf_lanes_load(in->type.dtype, in->data, at, 1, (size_t)size, lanes);
        job->fn(&job->params, (size_t)size, lanes, NULL, lanes);
        wf_lanes_store(out->type.dtype, out->data, at, 1, (size_t)size, lanes);
    }
}

wf_status_t wf_ref_unary(const wf_ref_call_t *call)
{
    job_t job;
    job_init(&job, call, 0);
    run_blocks(&job, unary_chunk);
    return WF_OK;
}

static void nary_chunk(void *arg, int64_t first, int64_t count)
{
    job_t *job = arg;
    const wf_ref_call_t *call = job->call;
    wf_dtype_t dtype = call->inputs[0].type.dtype;
    wf_lane_t a[WF_LANE_BLOCK], b[WF_LANE_BLOCK];
    EACH_BLOCK(at, size, first, count)
    {
        load_input(job, 0, at, (size_t)size, a);
        for (size_t k = 1; k < call->input_count; k++) {
            wf_walk_t walk = job->walks[1];
            if (k > 1) {
                wf_walk_broadcast(&call->inputs[k].type, &call->outputs[0].type, &walk);
            }
            wf_walk_load(&walk, dtype, call->inputs[k].data, at, (size_t)size, b);
            for (int64_t e = 0; job->integer_division && e < size; e++) {
                if (b[e].u == 0) {
                    wf_fault_set(&job->fault, at + e);
                }
            }
            job->fn(&job->params, (size_t)size, a, b, a);
        }
        for (int64_t e = 0; call->op == WF_OP_MEAN && e < size; e++) {
            a[e].f /= (double)call->input_count;
        }
        wf_lanes_store(call->outputs[0].type.dtype, call->outputs[0].data, at, 1, (size_t)size, a);
    }
}

wf_status_t wf_ref_nary(const wf_ref_call_t *call)
{
    job_t job;
    job_init(&job, call, WF_MIN(call->input_count, 2u));
    job.integer_division = (call->op == WF_OP_DIV || call->op == WF_OP_MOD) &&
                           wf_lane_class(call->inputs[0].type.dtype) != WF_LANE_F;
    run_blocks(&job, nary_chunk);
    if (job.fault != INT64_MAX) {
        return WF_ERROR(RUNTIME_DATA, "integer division by zero: the divisor of output element %lld is 0",
                        (long long)job.fault);
    }
    return WF_OK;
}

/* Min(max, Max(x, min)): min above max gives max; NaN stays NaN. */
typedef struct clip_job {
    const wf_ref_call_t *call;
    wf_lane_t low, high;
} clip_job_t;

static void clip_chunk(void *arg, int64_t first, int64_t count)
{
    const clip_job_t *job = arg;
    const wf_tensor_t *in = job->call->inputs, *out = job->call->outputs;
    wf_lane_class_t lane_class = wf_lane_class(in->type.dtype);
    wf_lane_t lanes[WF_LANE_BLOCK];
    EACH_BLOCK(at, size, first, count)
    {
        wf_lanes_load(in->type.dtype, in->data, at, 1, (size_t)size, lanes);
        for (int64_t k = 0; k < size; k++) {
#define CLIP(member)                                                          \
    do {                                                                      \
        lanes[k] = lanes[k].member < job->low.member ? job->low : lanes[k];   \
        lanes[k] = lanes[k].member > job->high.member ? job->high : lanes[k]; \
    } while (0)
            if (lane_class == WF_LANE_F) {
                CLIP(f);
            } else if (lane_class == WF_LANE_I) {
                CLIP(i);
            } else {
                CLIP(u);
            }
#undef CLIP
        }
        wf_lanes_store(out->type.dtype, out->data, at, 1, (size_t)size, lanes);
    }
}

static wf_lane_t clip_bound(const wf_ref_call_t *call, const char *name, size_t input, wf_lane_t fallback)
{
    wf_dtype_t dtype = call->inputs[0].type.dtype;
    const wf_attr_t *attr = wf_attrs_find(call->attrs, name);
    if (attr != NULL && attr->kind == WF_ATTR_FLOAT) {
        double bound = (double)attr->v.f;
        wf_lane_class_t lane_class = wf_lane_class(dtype);
        return lane_class == WF_LANE_F   ? (wf_lane_t){.f = bound}
               : lane_class == WF_LANE_I ? (wf_lane_t){.i = wf_f64_to_i64(bound)}
                                         : (wf_lane_t){.u = (uint64_t)wf_f64_to_i64(WF_MAX(bound, 0))};
    }
    return wf_ref_has(call, input) ? wf_lane_load(dtype, call->inputs[input].data, 0) : fallback;
}

wf_status_t wf_ref_clip(const wf_ref_call_t *call)
{
    static const wf_lane_t lowest[WF_LANE_CLASSES] = {{.f = -INFINITY}, {.i = INT64_MIN}, {.u = 0}};
    static const wf_lane_t highest[WF_LANE_CLASSES] = {{.f = INFINITY}, {.i = INT64_MAX}, {.u = UINT64_MAX}};
    wf_lane_class_t lane_class = wf_lane_class(call->inputs[0].type.dtype);
    clip_job_t job = {call, clip_bound(call, "min", 1, lowest[lane_class]),
                      clip_bound(call, "max", 2, highest[lane_class])};
    wf_ref_chunks(call, wf_type_elems(&call->outputs[0].type), WF_REF_CHUNK, clip_chunk, &job);
    return WF_OK;
}

/* Integer power that wraps; a negative exponent truncates the fraction towards zero. */
static uint64_t power_u64(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;
    for (; exponent != 0; exponent >>= 1, base *= base) {
        result *= exponent & 1 ? base : 1;
    }
    return result;
}

static wf_lane_t power(wf_lane_class_t ac, wf_lane_t a, wf_lane_class_t bc, wf_lane_t b, int64_t min,
                       int64_t max)
{
    if (ac == WF_LANE_F || bc == WF_LANE_F) {
        double base = ac == WF_LANE_F ? a.f : ac == WF_LANE_I ? (double)a.i : (double)a.u;
        double exponent = bc == WF_LANE_F ? b.f : bc == WF_LANE_I ? (double)b.i : (double)b.u;
        double result = pow(base, exponent);
        if (ac == WF_LANE_F) {
            return (wf_lane_t){.f = result};
        }
        int64_t whole = wf_f64_to_i64(result);
        return (wf_lane_t){.i = whole < min ? min : whole > max ? max : whole};
    }
    if (bc == WF_LANE_I && b.i < 0) {
        if (a.u == 0) {
            return (wf_lane_t){.i = max}; /* 1 / 0, saturated */
        }
        bool minus_one = ac == WF_LANE_I && a.i == -1;
        return (wf_lane_t){.i = minus_one ? (b.i & 1 ? -1 : 1) : a.u == 1};
    }
    return (wf_lane_t){.u = power_u64(a.u, b.u)};
}

static void pow_chunk(void *arg, int64_t first, int64_t count)
{
    const job_t *job = arg;
    const wf_tensor_t *in = job->call->inputs, *out = job->call->outputs;
    wf_lane_class_t ac = wf_lane_class(in[0].type.dtype), bc = wf_lane_class(in[1].type.dtype);
    int64_t min = 0, max = 0;
    if (ac != WF_LANE_F) {
        wf_dtype_limits(in[0].type.dtype, &min, &max);
    }
    wf_lane_t a[WF_LANE_BLOCK], b[WF_LANE_BLOCK];
    EACH_BLOCK(at, size, first, count)
    {
        load_input(job, 0, at, (size_t)size, a);
        load_input(job, 1, at, (size_t)size, b);
        for (int64_t k = 0; k < size; k++) {
            a[k] = power(ac, a[k], bc, b[k], min, max);
        }
        wf_lanes_store(out->type.dtype, out->data, at, 1, (size_t)size, a);
    }
}

wf_status_t wf_ref_pow(const wf_ref_call_t *call)
{
    job_t job;
    job_init(&job, call, 2);
    run_blocks(&job, pow_chunk);
    return WF_OK;
}

static void where_chunk(void *arg, int64_t first, int64_t count)
{
    const job_t *job = arg;
    const wf_tensor_t *out = job->call->outputs;
    wf_lane_t condition[WF_LANE_BLOCK], a[WF_LANE_BLOCK], b[WF_LANE_BLOCK];
    EACH_BLOCK(at, size, first, count)
    {
        load_input(job, 0, at, (size_t)size, condition);
        load_input(job, 1, at, (size_t)size, a);
        load_input(job, 2, at, (size_t)size, b);
        for (int64_t k = 0; k < size; k++) {
            a[k] = condition[k].u != 0 ? a[k] : b[k];
        }
        wf_lanes_store(out->type.dtype, out->data, at, 1, (size_t)size, a);
    }
}

wf_status_t wf_ref_where(const wf_ref_call_t *call)
{
    job_t job;
    job_init(&job, call, 3);
    run_blocks(&job, where_chunk);
    return WF_OK;
}

typedef struct cast_job {
    const wf_tensor_t *in, *out;
    wf_cast_mode_t mode;
} cast_job_t;

static void cast_chunk(void *arg, int64_t first, int64_t count)
{
    const cast_job_t *job = arg;
    wf_lane_t lanes[WF_LANE_BLOCK];
    EACH_BLOCK(at, size, first, count)
    {
        wf_lanes_load(job->in->type.dtype, job->in->data, at, 1, (size_t)size, lanes);
        wf_lanes_store_cast(wf_lane_class(job->in->type.dtype), job->out->type.dtype, job->mode,
                            job->out->data, at, (size_t)size, lanes);
    }
}

/* Cast and CastLike: the output's type says what to. */
wf_status_t wf_ref_cast(const wf_ref_call_t *call)
{
    cast_job_t job = {
        call->inputs, call->outputs, {wf_attrs_int(call->attrs, "saturate", 1) != 0, WF_CAST_UP}};
    if (wf_lane_class(job.out->type.dtype) == WF_LANE_NONE) {
        return WF_ERROR(MODEL_UNSUPPORTED, "no cast to %s", wf_dtype_name(job.out->type.dtype));
    }
    if (wf_ref_attr_is(call, "round_mode", "down")) {
        job.mode.round = WF_CAST_DOWN;
    } else if (wf_ref_attr_is(call, "round_mode", "nearest")) {
        job.mode.round = WF_CAST_NEAREST;
    }
    wf_ref_chunks(call, wf_type_elems(&call->outputs[0].type), WF_REF_CHUNK, cast_chunk, &job);
    return WF_OK;
}
