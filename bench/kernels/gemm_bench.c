/* SPDX-License-Identifier: Apache-2.0 */
/* Times the f32 product and convolution kernels on layer shapes, beside oneDNN when built with WF_BENCH_DNNL.
 *
 *   gemm_bench [--threads N] [--filter TEXT] [--cold] [--tune] [--rounds N] [--cpu-time]
 *
 * Every round calls each program for at least a millisecond, so that all see the same phases of the machine;
 * the table has the shortest call. --cold rotates the weights through copies of 48 MB in
 * all. --tune also times every listed plan and shows the best. Both sides run in one OpenMP pool: two
 * spinning pools would stop each other.
 */
#define _POSIX_C_SOURCE 200809L
#include <omp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/native/kernels/gemm.h"
#include "backends/native/kernels/winograd.h"

#ifdef WF_BENCH_DNNL
#include <dnnl.h>
#endif

enum { COPIES_BYTES = 48 << 20 };

typedef enum bench_kind {
    BENCH_GEMM,    /* m n k, constant B */
    BENCH_CONV,    /* square image and kernel */
    BENCH_ATTN_QK, /* m x k by (n x k) transposed, both activations, `count` heads */
    BENCH_ATTN_PV  /* m x k by k x n, both activations, `count` heads */
} bench_kind;

typedef struct bench_case {
    const char *name;
    bench_kind kind;
    int m, n, k;            /* GEMM and attention */
    int size, kernel, step; /* CONV: output size, kernel, stride; n filters, k channels; padding kernel / 2 */
    int count;              /* heads */
    bool residual;
} bench_case;

static const bench_case cases[] = {
    {"resnet50 stem 7x7/2 3-64", BENCH_CONV, 0, 64, 3, 112, 7, 2, 1, false},
    {"resnet50 1x1 64-64 @56", BENCH_CONV, 0, 64, 64, 56, 1, 1, 1, false},
    {"resnet50 3x3 64-64 @56", BENCH_CONV, 0, 64, 64, 56, 3, 1, 1, false},
    {"resnet50 1x1 64-256 @56 +res", BENCH_CONV, 0, 256, 64, 56, 1, 1, 1, true},
    {"resnet50 1x1 256-64 @56", BENCH_CONV, 0, 64, 256, 56, 1, 1, 1, false},
    {"resnet50 3x3/2 128-128 @28", BENCH_CONV, 0, 128, 128, 28, 3, 2, 1, false},
    {"resnet50 3x3 128-128 @28", BENCH_CONV, 0, 128, 128, 28, 3, 1, 1, false},
    {"resnet50 1x1 128-512 @28 +res", BENCH_CONV, 0, 512, 128, 28, 1, 1, 1, true},
    {"resnet50 1x1 512-128 @28", BENCH_CONV, 0, 128, 512, 28, 1, 1, 1, false},
    {"resnet50 1x1/2 256-512 @28", BENCH_CONV, 0, 512, 256, 28, 1, 2, 1, false},
    {"resnet50 3x3 256-256 @14", BENCH_CONV, 0, 256, 256, 14, 3, 1, 1, false},
    {"resnet50 1x1 256-1024 @14 +res", BENCH_CONV, 0, 1024, 256, 14, 1, 1, 1, true},
    {"resnet50 1x1 1024-256 @14", BENCH_CONV, 0, 256, 1024, 14, 1, 1, 1, false},
    {"resnet50 3x3 512-512 @7", BENCH_CONV, 0, 512, 512, 7, 3, 1, 1, false},
    {"resnet50 1x1 512-2048 @7 +res", BENCH_CONV, 0, 2048, 512, 7, 1, 1, 1, true},
    {"resnet50 1x1 2048-512 @7", BENCH_CONV, 0, 512, 2048, 7, 1, 1, 1, false},
    {"resnet50 fc 1x2048-1000", BENCH_GEMM, 1, 1000, 2048, 0, 0, 0, 1, false},
    {"mobilenet_v3 stem 3x3/2 3-16", BENCH_CONV, 0, 16, 3, 112, 3, 2, 1, false},
    {"mobilenet_v3 1x1 16-64 @112", BENCH_CONV, 0, 64, 16, 112, 1, 1, 1, false},
    {"mobilenet_v3 1x1 64-24 @56", BENCH_CONV, 0, 24, 64, 56, 1, 1, 1, false},
    {"mobilenet_v3 1x1 24-72 @56", BENCH_CONV, 0, 72, 24, 56, 1, 1, 1, false},
    {"mobilenet_v3 1x1 72-24 @56 +res", BENCH_CONV, 0, 24, 72, 56, 1, 1, 1, true},
    {"mobilenet_v3 1x1 40-120 @28", BENCH_CONV, 0, 120, 40, 28, 1, 1, 1, false},
    {"mobilenet_v3 1x1 120-40 @28 +res", BENCH_CONV, 0, 40, 120, 28, 1, 1, 1, true},
    {"mobilenet_v3 1x1 80-200 @14", BENCH_CONV, 0, 200, 80, 14, 1, 1, 1, false},
    {"mobilenet_v3 1x1 184-80 @14 +res", BENCH_CONV, 0, 80, 184, 14, 1, 1, 1, true},
    {"mobilenet_v3 1x1 112-672 @14", BENCH_CONV, 0, 672, 112, 14, 1, 1, 1, false},
    {"mobilenet_v3 1x1 672-160 @7", BENCH_CONV, 0, 160, 672, 7, 1, 1, 1, false},
    {"mobilenet_v3 1x1 160-960 @7", BENCH_CONV, 0, 960, 160, 7, 1, 1, 1, false},
    {"mobilenet_v3 fc 1x960-1280", BENCH_GEMM, 1, 1280, 960, 0, 0, 0, 1, false},
    {"bert 128x768-768", BENCH_GEMM, 128, 768, 768, 0, 0, 0, 1, false},
    {"bert 128x768-3072", BENCH_GEMM, 128, 3072, 768, 0, 0, 0, 1, false},
    {"bert 128x3072-768 +res", BENCH_GEMM, 128, 768, 3072, 0, 0, 0, 1, true},
    {"minilm 128x384-1536", BENCH_GEMM, 128, 1536, 384, 0, 0, 0, 1, false},
    {"vit 197x768-3072", BENCH_GEMM, 197, 3072, 768, 0, 0, 0, 1, false},
    {"convnext 3136x96-384", BENCH_GEMM, 3136, 384, 96, 0, 0, 0, 1, false},
    {"convnext 3136x384-96 +res", BENCH_GEMM, 3136, 96, 384, 0, 0, 0, 1, true},
    {"square 1024", BENCH_GEMM, 1024, 1024, 1024, 0, 0, 0, 1, false},
    {"attention q k 12x128x64", BENCH_ATTN_QK, 128, 128, 64, 0, 0, 0, 12, false},
    {"attention p v 12x128x64", BENCH_ATTN_PV, 128, 64, 128, 0, 0, 0, 12, false},
};

static int threads = 2;
static clockid_t bench_clock = CLOCK_MONOTONIC;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(bench_clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static float *floats(size_t count)
{
    float *p = aligned_alloc(64, (count * sizeof(float) + 127) / 64 * 64);
    uint32_t state = 12345;
    if (!p)
        abort();
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (float)(state >> 8) * 0x1p-24f - 0.5f;
    }
    return p;
}

/* FMA rate of one thread, GFLOP/s. */
static double fma_peak(void)
{
    typedef float v8 __attribute__((vector_size(32)));
    double best = 0;
    for (int round = 0; round < 20; round++) {
        v8 a[12] = {{0}};
        const v8 x = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
        const double t = now_us();
        for (int i = 0; i < 100000; i++) {
#pragma GCC unroll 12
            for (int j = 0; j < 12; j++)
                __asm__ volatile("vfmadd231ps %1, %1, %0" : "+x"(a[j]) : "x"(x));
        }
        const double rate = 100000.0 * 12 * 16 / (now_us() - t) * 1e-3;
        best = rate > best ? rate : best;
    }
    return best;
}

/* A program to time: run(arg, weight copy). */
typedef struct program {
    const char *name;
    void (*run)(void *arg, int copy);
    void *arg;
    double best_us;
} program;

typedef struct buffers {
    float *x, *b[64], *y, *residual, *bias;
    int copies;
} buffers;

/* ---- Own kernels ---- */

typedef struct own_run {
    wf_gemm_shape shape;
    wf_gemm_plan plan;
    wf_gemm_args args;
    wf_ep_stage stages[3];
    float *packed[64];
    char *workspace;
    size_t workspace_bytes;
    int64_t items;
} own_run;

static void run_own(void *arg, int copy)
{
    own_run *r = arg;
    atomic_llong next = 0;
    wf_gemm_args args = r->args;
    if (r->shape.b_kind == WF_GEMM_B_PACKED)
        args.b = r->packed[copy];
#pragma omp parallel num_threads(threads)
    {
        char *ws = r->workspace + (size_t)omp_get_thread_num() * r->workspace_bytes;
        for (int64_t i; (i = atomic_fetch_add(&next, 1)) < r->items;)
            wf_gemm_avx2.item(&r->shape, &r->plan, &args, ws, i);
    }
}

static const wf_gemm_caches caches = {32 << 10, 512 << 10, 16 << 20};

static wf_gemm_shape shape_of(const bench_case *c)
{
    wf_gemm_shape s = {.m = c->m, .n = c->n, .k = c->k, .lda = c->k, .ldc = c->n, .batch = {1, 1}};
    if (c->kind == BENCH_CONV) {
        const int in = c->size * c->step;
        s.m = (int64_t)c->size * c->size;
        s.conv = (wf_gemm_conv){1,
                                in,
                                in,
                                c->size,
                                c->size,
                                c->k,
                                c->kernel,
                                c->kernel,
                                c->step,
                                c->step,
                                1,
                                1,
                                c->kernel / 2,
                                c->kernel / 2,
                                (int64_t)in * in * c->k,
                                (int64_t)in * c->k,
                                c->k};
        s.a_kind = c->kernel == 1 && c->step == 1 ? WF_GEMM_A_ROWS : WF_GEMM_A_CONV;
    }
    if (c->kind == BENCH_ATTN_QK || c->kind == BENCH_ATTN_PV) {
        s.b_kind = c->kind == BENCH_ATTN_QK ? WF_GEMM_B_COLUMNS : WF_GEMM_B_ROWS;
        s.batch[1] = c->count;
        s.ldb = c->kind == BENCH_ATTN_QK ? c->k : c->n;
    }
    return s;
}

static wf_winograd_shape wino_shape_of(const bench_case *c)
{
    const int pad = c->kernel / 2;
    const int64_t row = (int64_t)c->size * c->k;
    return (wf_winograd_shape){1,   c->size, c->size,       c->size, c->size, c->k, c->n,
                               pad, pad,     c->size * row, row,     c->k,    c->n};
}

static void own_prepare(own_run *r, const bench_case *c, const buffers *buf, wf_gemm_plan plan)
{
    memset(r, 0, sizeof *r);
    r->shape = shape_of(c);
    r->plan = plan;
    r->args = (wf_gemm_args){.a = buf->x, .b = buf->b[0], .c = buf->y, .stages = r->stages};
    if (r->shape.b_kind == WF_GEMM_B_PACKED) {
        r->stages[r->args.stage_count++] = (wf_ep_stage){WF_EP_ADD, WF_EP_COL, 0, 0, buf->bias, 0};
        if (c->residual)
            r->stages[r->args.stage_count++] = (wf_ep_stage){WF_EP_ADD, WF_EP_FULL, 0, 0, buf->y, c->n};
        r->stages[r->args.stage_count++] = (wf_ep_stage){WF_EP_RELU, WF_EP_NONE, 0, 0, NULL, 0};
        const int64_t taps = c->kind == BENCH_CONV ? c->kernel * c->kernel : 1;
        const wf_gemm_b_strides st = {taps * c->k, taps, c->kernel, 1};
        for (int i = 0; i < buf->copies; i++) {
            r->packed[i] = floats(wf_gemm_avx2.packed_elems(&r->shape, &r->plan));
            wf_gemm_avx2.pack_b(&r->shape, &r->plan, buf->b[i], &st, r->packed[i]);
        }
    } else {
        r->args.a_batch_stride[1] = (int64_t)c->m * c->k;
        r->args.b_batch_stride[1] = (int64_t)c->n * c->k;
        r->args.c_batch_stride[1] = (int64_t)c->m * c->n;
    }
    r->workspace_bytes = wf_gemm_avx2.workspace_bytes(&r->shape, &r->plan) + 4096;
    r->workspace_bytes -= r->workspace_bytes % 64;
    r->workspace = (char *)floats(r->workspace_bytes * (size_t)threads / 4);
    r->items = wf_gemm_avx2.item_count(&r->shape, &r->plan);
}

/* ---- Own Winograd kernels ---- */

typedef struct wino_run {
    wf_winograd_shape shape;
    wf_winograd_plan plan;
    wf_winograd_args args;
    float *packed[64];
    char *shared, *workspace;
    size_t workspace_bytes;
} wino_run;

static void run_wino(void *arg, int copy)
{
    wino_run *r = arg;
    wf_winograd_args args = r->args;
    args.packed = r->packed[copy];
    for (int phase = 0; phase < wf_winograd_avx2.phase_count(&r->plan); phase++) {
        const int64_t items = wf_winograd_avx2.item_count(&r->shape, &r->plan, phase);
        atomic_llong next = 0;
#pragma omp parallel num_threads(threads)
        {
            char *ws = r->workspace + (size_t)omp_get_thread_num() * r->workspace_bytes;
            for (int64_t i; (i = atomic_fetch_add(&next, 1)) < items;)
                wf_winograd_avx2.item(&r->shape, &r->plan, &args, r->shared, ws, phase, i);
        }
    }
}

static void wino_prepare(wino_run *r, const bench_case *c, const buffers *buf, const own_run *own,
                         wf_winograd_plan plan)
{
    memset(r, 0, sizeof *r);
    r->shape = wino_shape_of(c);
    r->plan = plan;
    r->args = (wf_winograd_args){buf->x, NULL, buf->y, own->args.stages, own->args.stage_count};
    const wf_gemm_b_strides st = {9 * c->k, 9, 3, 1};
    for (int i = 0; i < buf->copies; i++) {
        r->packed[i] = floats(wf_winograd_avx2.packed_elems(&r->shape, &r->plan));
        wf_winograd_avx2.pack(&r->shape, &r->plan, buf->b[i], &st, r->packed[i]);
    }
    r->workspace_bytes = wf_winograd_avx2.thread_bytes(&r->shape, &r->plan) + 4096;
    r->workspace = (char *)floats(r->workspace_bytes * (size_t)threads / 4);
    r->shared = (char *)floats(wf_winograd_avx2.shared_bytes(&r->shape, &r->plan) / 4 + 16);
}

static void wino_release(wino_run *r)
{
    for (int i = 0; i < 64; i++)
        free(r->packed[i]);
    free(r->workspace);
    free(r->shared);
}

static void own_release(own_run *r)
{
    for (int i = 0; i < 64; i++)
        free(r->packed[i]);
    free(r->workspace);
}

/* ---- oneDNN ---- */
#ifdef WF_BENCH_DNNL
static dnnl_engine_t engine;
static dnnl_stream_t stream;

#define DNNL(call)                                  \
    do {                                            \
        if ((call) != dnnl_success) {               \
            fprintf(stderr, "failed: %s\n", #call); \
            exit(1);                                \
        }                                           \
    } while (0)

typedef struct dnnl_run {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[8];
    int arg_count, weight_arg;
    dnnl_memory_t weights[64], memory[8];
    dnnl_memory_t reorder_x, reorder_y;
    char impl[64];
} dnnl_run;

static void run_dnnl(void *arg, int copy)
{
    dnnl_run *r = arg;
    r->args[r->weight_arg].memory = r->weights[copy];
    DNNL(dnnl_primitive_execute(r->primitive, stream, r->arg_count, r->args));
    DNNL(dnnl_stream_wait(stream));
}

static dnnl_memory_t memory_of(const dnnl_memory_desc_t *md, void *data)
{
    dnnl_memory_t m;
    DNNL(dnnl_memory_create(&m, md, engine, data));
    return m;
}

static void reorder(dnnl_memory_t from, dnnl_memory_t to)
{
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t p;
    const dnnl_memory_desc_t *a, *b;
    DNNL(dnnl_memory_get_memory_desc(from, &a));
    DNNL(dnnl_memory_get_memory_desc(to, &b));
    DNNL(dnnl_reorder_primitive_desc_create(&pd, a, engine, b, engine, NULL));
    DNNL(dnnl_primitive_create(&p, pd));
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    DNNL(dnnl_primitive_execute(p, stream, 2, args));
    DNNL(dnnl_stream_wait(stream));
    DNNL(dnnl_primitive_destroy(p));
    DNNL(dnnl_primitive_desc_destroy(pd));
}

/* form: 0 channels last and free weights, 1 everything free, 2 Winograd with everything free. */
static bool dnnl_prepare(dnnl_run *r, const bench_case *c, const buffers *buf, int form)
{
    memset(r, 0, sizeof *r);
    dnnl_post_ops_t ops;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd = NULL;
    DNNL(dnnl_post_ops_create(&ops));
    DNNL(dnnl_primitive_attr_create(&attr));
    const bool fixed = c->kind == BENCH_ATTN_QK || c->kind == BENCH_ATTN_PV;
    if (!fixed) {
        if (c->residual)
            DNNL(dnnl_post_ops_append_sum(ops, 1.0f));
        DNNL(dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f));
        DNNL(dnnl_primitive_attr_set_post_ops(attr, ops));
    }
    dnnl_memory_desc_t x, w, wsrc, b, y, xsrc;
    int w_arg = DNNL_ARG_WEIGHTS;
    if (c->kind == BENCH_CONV) {
        const int in = c->size * c->step;
        const dnnl_dims_t xd = {1, c->k, in, in}, wd = {c->n, c->k, c->kernel, c->kernel};
        const dnnl_dims_t bd = {c->n}, yd = {1, c->n, c->size, c->size};
        const dnnl_dims_t step = {c->step, c->step}, pad = {c->kernel / 2, c->kernel / 2};
        const int right = (c->size - 1) * c->step + c->kernel - in - c->kernel / 2;
        const dnnl_dims_t pad_r = {right, right};
        const dnnl_format_tag_t tag = form == 0 ? dnnl_nhwc : dnnl_format_tag_any;
        DNNL(dnnl_memory_desc_init_by_tag(&x, 4, xd, dnnl_f32, tag));
        DNNL(dnnl_memory_desc_init_by_tag(&xsrc, 4, xd, dnnl_f32, dnnl_nhwc));
        DNNL(dnnl_memory_desc_init_by_tag(&w, 4, wd, dnnl_f32, dnnl_format_tag_any));
        DNNL(dnnl_memory_desc_init_by_tag(&wsrc, 4, wd, dnnl_f32, dnnl_oihw));
        DNNL(dnnl_memory_desc_init_by_tag(&b, 1, bd, dnnl_f32, dnnl_x));
        DNNL(dnnl_memory_desc_init_by_tag(&y, 4, yd, dnnl_f32, tag));
        dnnl_convolution_desc_t cd;
        DNNL(dnnl_convolution_forward_desc_init(
            &cd, dnnl_forward_inference, form == 2 ? dnnl_convolution_winograd : dnnl_convolution_direct, &x,
            &w, &b, &y, step, pad, pad_r));
        if (dnnl_primitive_desc_create(&pd, &cd, attr, engine, NULL) != dnnl_success)
            return false;
    } else {
        const int batch = c->count;
        const int nd = fixed ? 3 : 2;
        const dnnl_dims_t xd3 = {batch, c->m, c->k}, wd3 = {batch, c->k, c->n}, yd3 = {batch, c->m, c->n};
        const dnnl_dims_t xd2 = {c->m, c->k}, wd2 = {c->k, c->n}, yd2 = {c->m, c->n}, bd2 = {1, c->n};
        const dnnl_format_tag_t plain = fixed ? dnnl_abc : dnnl_ab;
        const dnnl_format_tag_t w_plain = c->kind == BENCH_ATTN_QK   ? dnnl_acb
                                          : c->kind == BENCH_ATTN_PV ? dnnl_abc
                                                                     : dnnl_ba;
        if (form == 2 || (fixed && form == 1))
            return false;
        DNNL(dnnl_memory_desc_init_by_tag(&x, nd, fixed ? xd3 : xd2, dnnl_f32,
                                          form == 1 ? dnnl_format_tag_any : plain));
        DNNL(dnnl_memory_desc_init_by_tag(&xsrc, nd, fixed ? xd3 : xd2, dnnl_f32, plain));
        DNNL(dnnl_memory_desc_init_by_tag(&w, nd, fixed ? wd3 : wd2, dnnl_f32,
                                          fixed ? w_plain : dnnl_format_tag_any));
        DNNL(dnnl_memory_desc_init_by_tag(&wsrc, nd, fixed ? wd3 : wd2, dnnl_f32, w_plain));
        DNNL(dnnl_memory_desc_init_by_tag(&y, nd, fixed ? yd3 : yd2, dnnl_f32,
                                          form == 1 ? dnnl_format_tag_any : plain));
        DNNL(dnnl_memory_desc_init_by_tag(&b, 2, bd2, dnnl_f32, dnnl_ab));
        dnnl_matmul_desc_t md;
        DNNL(dnnl_matmul_desc_init(&md, &x, &w, fixed ? NULL : &b, &y));
        if (dnnl_primitive_desc_create(&pd, &md, attr, engine, NULL) != dnnl_success)
            return false;
    }
    const char *impl;
    DNNL(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl));
    snprintf(r->impl, sizeof r->impl, "%s", impl);
    DNNL(dnnl_primitive_create(&r->primitive, pd));
    const dnnl_memory_desc_t *xq = dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
    const dnnl_memory_desc_t *wq = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    const dnnl_memory_desc_t *yq = dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    dnnl_memory_t plain_x = memory_of(&xsrc, buf->x);
    r->memory[0] = memory_of(xq, DNNL_MEMORY_ALLOCATE);
    reorder(plain_x, r->memory[0]);
    DNNL(dnnl_memory_destroy(plain_x));
    for (int i = 0; i < buf->copies; i++) {
        dnnl_memory_t plain_w = memory_of(&wsrc, buf->b[i]);
        r->weights[i] = memory_of(wq, DNNL_MEMORY_ALLOCATE);
        reorder(plain_w, r->weights[i]);
        DNNL(dnnl_memory_destroy(plain_w));
    }
    r->memory[1] = memory_of(yq, DNNL_MEMORY_ALLOCATE);
    r->args[r->arg_count++] = (dnnl_exec_arg_t){DNNL_ARG_SRC, r->memory[0]};
    r->weight_arg = r->arg_count;
    r->args[r->arg_count++] = (dnnl_exec_arg_t){w_arg, r->weights[0]};
    r->args[r->arg_count++] = (dnnl_exec_arg_t){DNNL_ARG_DST, r->memory[1]};
    if (!fixed) {
        r->memory[2] = memory_of(&b, buf->bias);
        r->args[r->arg_count++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, r->memory[2]};
    }
    DNNL(dnnl_primitive_desc_destroy(pd));
    DNNL(dnnl_primitive_attr_destroy(attr));
    DNNL(dnnl_post_ops_destroy(ops));
    return true;
}

static void dnnl_release(dnnl_run *r)
{
    for (int i = 0; i < 64; i++)
        if (r->weights[i])
            dnnl_memory_destroy(r->weights[i]);
    for (int i = 0; i < 8; i++)
        if (r->memory[i])
            dnnl_memory_destroy(r->memory[i]);
    if (r->primitive)
        dnnl_primitive_destroy(r->primitive);
}
#endif

static void print_us(double us)
{
    if (us > 0)
        printf(" %8.1f", us);
    else
        printf(" %8s", "-");
}

/* ---- Rounds ---- */

static void time_programs(program *p, int count, int rounds, int copies)
{
    int copy = 0;
    for (int i = 0; i < count; i++) {
        p[i].best_us = 1e30;
        p[i].run(p[i].arg, 0);
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++) {
            p[i].run(p[i].arg, copy);
            const double start = now_us();
            double last = start;
            do {
                copy = (copy + 1) % copies;
                p[i].run(p[i].arg, copy);
                const double t = now_us();
                if (t - last < p[i].best_us)
                    p[i].best_us = t - last;
                last = t;
            } while (last - start < 1500);
        }
    }
}

int main(int argc, char **argv)
{
    const char *filter = "";
    bool cold = false, tune = false;
    int rounds = 15;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            threads = (int)strtol(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--filter") && i + 1 < argc)
            filter = argv[++i];
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = (int)strtol(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--cold"))
            cold = true;
        else if (!strcmp(argv[i], "--cpu-time"))
            bench_clock = CLOCK_THREAD_CPUTIME_ID;
        else if (!strcmp(argv[i], "--tune"))
            tune = true;
        else
            return fprintf(stderr, "unknown option %s\n", argv[i]), 2;
    }
    if (bench_clock != CLOCK_MONOTONIC)
        threads = 1;
    omp_set_num_threads(threads);
#ifdef WF_BENCH_DNNL
    DNNL(dnnl_engine_create(&engine, dnnl_cpu, 0));
    DNNL(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
#endif
    const double peak = fma_peak() * threads;
    printf("FMA peak %.1f GFLOP/s with %d thread(s), %s weights%s\n", peak, threads, cold ? "cold" : "warm",
           bench_clock == CLOCK_MONOTONIC ? "" : ", processor time");
    printf("%-34s %8s %8s", "layer", "own us", "of peak");
    if (tune)
        printf(" %8s %8s", "tuned us", "of peak");
    printf(" %8s", "own wino");
    if (tune)
        printf(" %8s", "tuned");
#ifdef WF_BENCH_DNNL
    printf(" %8s %8s %8s", "nhwc us", "any us", "wino us");
#endif
    printf("\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bench_case *c = &cases[i];
        if (!strstr(c->name, filter))
            continue;
        const wf_gemm_shape s = shape_of(c);
        const int64_t taps = c->kind == BENCH_CONV ? c->kernel * c->kernel : 1;
        const int64_t batch = s.batch[1];
        const size_t x_elems =
            c->kind == BENCH_CONV ? (size_t)s.conv.image_stride : (size_t)(batch * c->m * c->k);
        const size_t b_elems = (size_t)(batch * taps * c->k * c->n);
        buffers buf = {.x = floats(x_elems),
                       .y = floats((size_t)(batch * s.m * c->n)),
                       .residual = floats((size_t)(s.m * c->n)),
                       .bias = floats((size_t)c->n),
                       .copies = 1};
        if (cold && s.b_kind == WF_GEMM_B_PACKED) {
            const size_t copies = COPIES_BYTES / (b_elems * sizeof(float)) + 1;
            buf.copies = copies > 64 ? 64 : (int)copies;
        }
        for (int j = 0; j < buf.copies; j++)
            buf.b[j] = floats(b_elems);
        own_run own, best;
        wino_run wino, best_wino;
        program programs[8] = {{0}};
        int count = 0;
        int tuned_at = -1;
        own_prepare(&own, c, &buf, wf_gemm_avx2.plan_default(&s, &caches, threads));
        programs[count++] = (program){"own", run_own, &own, 0};
        int wino_at = -1, best_wino_at = -1;
        const wf_winograd_shape ws = wino_shape_of(c);
        if (c->kind == BENCH_CONV && c->kernel == 3 && c->step == 1) {
            wino_prepare(&wino, c, &buf, &own, wf_winograd_avx2.plan_default(&ws, &caches, threads));
            wino_at = count;
            programs[count++] = (program){"wino", run_wino, &wino, 0};
        }
        if (tune) {
            wf_gemm_plan plans[WF_GEMM_PLANS_MAX];
            const size_t plan_count = wf_gemm_avx2.plan_list(&s, &caches, threads, plans, WF_GEMM_PLANS_MAX);
            wf_gemm_plan best_plan = plans[0];
            double best_us = 1e30;
            for (size_t j = 0; j < plan_count; j++) {
                own_run r;
                own_prepare(&r, c, &buf, plans[j]);
                program p = {"plan", run_own, &r, 0};
                time_programs(&p, 1, rounds / 3 + 1, buf.copies);
                if (p.best_us < best_us) {
                    best_us = p.best_us;
                    best_plan = plans[j];
                }
                own_release(&r);
            }
            own_prepare(&best, c, &buf, best_plan);
            tuned_at = count;
            programs[count++] = (program){"tuned", run_own, &best, 0};
            wf_winograd_plan wino_plans[WF_WINOGRAD_PLANS_MAX];
            size_t wino_count = 0;
            if (wino_at >= 0)
                wino_count =
                    wf_winograd_avx2.plan_list(&ws, &caches, threads, wino_plans, WF_WINOGRAD_PLANS_MAX);
            wf_winograd_plan best_wino_plan = {0};
            best_us = 1e30;
            for (size_t j = 0; j < wino_count; j++) {
                wino_run r;
                wino_prepare(&r, c, &buf, &own, wino_plans[j]);
                program p = {"plan", run_wino, &r, 0};
                time_programs(&p, 1, rounds / 3 + 1, buf.copies);
                if (p.best_us < best_us) {
                    best_us = p.best_us;
                    best_wino_plan = wino_plans[j];
                }
                wino_release(&r);
            }
            if (wino_count) {
                wino_prepare(&best_wino, c, &buf, &own, best_wino_plan);
                best_wino_at = count;
                programs[count++] = (program){"tuned wino", run_wino, &best_wino, 0};
            }
        }
#ifdef WF_BENCH_DNNL
        dnnl_run dn[3];
        int dn_at[3];
        for (int form = 0; form < 3; form++) {
            dn_at[form] = -1;
            if (dnnl_prepare(&dn[form], c, &buf, form)) {
                dn_at[form] = count;
                programs[count++] = (program){dn[form].impl, run_dnnl, &dn[form], 0};
            }
        }
#endif
        time_programs(programs, count, rounds, buf.copies);
        const double flop = 2.0 * (double)(batch * s.m * c->n * c->k * taps);
        printf("%-34s %8.1f %8.3f", c->name, programs[0].best_us, flop / programs[0].best_us * 1e-3 / peak);
        if (tune)
            printf(" %8.1f %8.3f", programs[tuned_at].best_us,
                   flop / programs[tuned_at].best_us * 1e-3 / peak);
        print_us(wino_at < 0 ? 0 : programs[wino_at].best_us);
        if (tune)
            print_us(best_wino_at < 0 ? 0 : programs[best_wino_at].best_us);
#ifdef WF_BENCH_DNNL
        for (int form = 0; form < 3; form++)
            print_us(dn_at[form] < 0 ? 0 : programs[dn_at[form]].best_us);
        if (dn_at[0] >= 0)
            printf("  %s", dn[0].impl);
        for (int form = 0; form < 3; form++)
            dnnl_release(&dn[form]);
#endif
        const wf_gemm_plan *pl = tune ? &best.plan : &own.plan;
        printf("  m%d n%d k%d v%d band%d%s%s%s p%d\n", pl->m_block, pl->n_block, pl->k_block,
               pl->panel_vectors, pl->m_band, pl->pack_a ? " pa" : "", pl->pack_b ? " pb" : "",
               pl->merge_kw ? " kw" : "", pl->prefetch);
        fflush(stdout);
        own_release(&own);
        if (tune)
            own_release(&best);
        if (wino_at >= 0)
            wino_release(&wino);
        if (best_wino_at >= 0) {
            printf("    winograd: F(%d) block %d%s, m%d n%d k%d v%d band%d p%d\n", best_wino.plan.tile,
                   best_wino.plan.tile_block, best_wino.plan.phased ? " phased" : "",
                   best_wino.plan.gemm.m_block, best_wino.plan.gemm.n_block, best_wino.plan.gemm.k_block,
                   best_wino.plan.gemm.panel_vectors, best_wino.plan.gemm.m_band,
                   best_wino.plan.gemm.prefetch);
            wino_release(&best_wino);
        }
        free(buf.x);
        free(buf.y);
        free(buf.residual);
        free(buf.bias);
        for (int j = 0; j < buf.copies; j++)
            free(buf.b[j]);
    }
    return 0;
}
