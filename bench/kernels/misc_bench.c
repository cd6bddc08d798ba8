/* SPDX-License-Identifier: Apache-2.0 */
/* Times the kernels beside the matrix products (depthwise, softmax, normalisation, attention, layout ...) at
 * layer shapes of real networks, on one thread, against oneDNN 2.x where it has the operation. Every figure
 * is the minimum of interleaved repetitions on warm data; believe ratios, not absolute times.
 *
 *   misc_bench [filter]     runs the rows whose name contains the filter
 *
 * Link with the kernel objects of the tiers, and with dnnl and -fopenmp when WF_BENCH_DNNL is defined.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "backends/native/kernels/attention.h"
#include "backends/native/kernels/depthwise.h"
#include "backends/native/kernels/layout.h"
#include "backends/native/kernels/norm.h"
#include "backends/native/kernels/pool.h"
#include "backends/native/kernels/reduce.h"
#include "backends/native/kernels/resize.h"
#include "backends/native/kernels/softmax.h"

#ifdef WF_BENCH_DNNL
#include <dnnl.h>
#include <omp.h>
#endif

enum { MAX_COLS = 8, REPEATS = 15 };

static const char *filter = "";
static double peak_gflops;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Huge pages, like the arenas of the runtime, at offsets that differ (equal ones alias in the caches). Never
 * freed. */
static float *floats(int64_t n)
{
    static size_t count;
    const size_t huge = 2u << 20, offset = count * 37 % 64 * 64 + count * 5 % 16 * 4096;
    const size_t bytes = ((size_t)n * sizeof(float) + offset + huge - 1) / huge * huge;
    char *block = aligned_alloc(huge, bytes);
    if (!block) {
        abort();
    }
    count++;
    madvise(block, bytes, MADV_HUGEPAGE);
    float *p = (float *)(block + offset);
    for (int64_t i = 0; i < n; i++) {
        p[i] = (float)((i * 2654435761u >> 7) % 2001) * 0.001f - 1.0f;
    }
    return p;
}

/* One thing to time. */
typedef struct job {
    const char *name;
    void (*run)(void *);
    void *arg;
    double best_us;
} job;

/* Interleaves the jobs and keeps each one's minimum. */
static void time_jobs(job *jobs, int n)
{
    int loops[MAX_COLS];
    for (int j = 0; j < n; j++) {
        jobs[j].run(jobs[j].arg);
        double t = now_us();
        jobs[j].run(jobs[j].arg);
        t = now_us() - t;
        loops[j] = t > 500 ? 1 : (int)(500 / (t + 0.1)) + 1;
        jobs[j].best_us = 1e30;
    }
    for (int r = 0; r < REPEATS; r++) {
        for (int j = 0; j < n; j++) {
            double t = now_us();
            for (int i = 0; i < loops[j]; i++) {
                jobs[j].run(jobs[j].arg);
            }
            t = (now_us() - t) / loops[j];
            if (t < jobs[j].best_us) {
                jobs[j].best_us = t;
            }
        }
    }
}

/* flops or bytes may be 0. ours_n first jobs are ours, the others oneDNN's. */
static void report(const char *title, job *jobs, int n, int ours_n, double flops, double bytes)
{
    time_jobs(jobs, n);
    double ours = 1e30, theirs = 1e30;
    printf("%-34s", title);
    for (int j = 0; j < n; j++) {
        printf(" %s %.1f", jobs[j].name, jobs[j].best_us);
        double *side = j < ours_n ? &ours : &theirs;
        *side = jobs[j].best_us < *side ? jobs[j].best_us : *side;
    }
    if (flops > 0) {
        printf(" | %.0f%% of peak", flops / ours * 1e-3 / peak_gflops * 100);
    }
    if (bytes > 0) {
        printf(" | %.1f GB/s", bytes / ours * 1e-3);
    }
    if (theirs < 1e29) {
        printf(" | oneDNN/ours %.2f", theirs / ours);
    }
    printf("\n");
    fflush(stdout);
}

static int wanted(const char *title)
{
    return strstr(title, filter) != NULL;
}

/* The tier that this machine runs. */
static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

#define PICK(name) (has_avx512() ? name##_avx512 : name##_avx2)

__attribute__((target("avx2,fma"), noinline)) static float fma_loop(int64_t n)
{
    typedef float v8 __attribute__((vector_size(32)));
    v8 a[12];
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++) {
        a[i] = (v8){0} + (float)i;
    }
    const v8 m = (v8){0} + 0.999f, b = (v8){0} + 0.001f;
    for (int64_t r = 0; r < n; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) {
            __asm__("vfmadd132ps %2, %1, %0" : "+x"(a[i]) : "x"(b), "x"(m));
        }
    }
    float s = 0;
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++) {
        s += a[i][0];
    }
    return s;
}

static void measure_peak(void)
{
    volatile float sink = 0;
    double best = 1e30;
    for (int r = 0; r < 20; r++) {
        double t = now_us();
        sink += fma_loop(20000);
        t = now_us() - t;
        best = t < best ? t : best;
    }
    (void)sink;
    peak_gflops = 20000.0 * 12 * 16 / best * 1e-3 * (has_avx512() ? 2 : 1);
    printf("FMA peak of one thread: %.1f GFLOP/s (%s)\n", peak_gflops, has_avx512() ? "avx512" : "avx2");
}

/* ---- oneDNN ---- */

#ifdef WF_BENCH_DNNL
#define CHECK(e)                                        \
    do {                                                \
        if ((e) != dnnl_success) {                      \
            fprintf(stderr, "oneDNN failed: %s\n", #e); \
            exit(1);                                    \
        }                                               \
    } while (0)

static dnnl_engine_t engine;
static dnnl_stream_t stream;

typedef struct dnn_job {
    dnnl_primitive_t prim;
    dnnl_exec_arg_t args[8];
    int arg_count;
} dnn_job;

static void dnn_run(void *p)
{
    dnn_job *d = p;
    dnnl_primitive_execute(d->prim, stream, d->arg_count, d->args);
}

static void dnn_arg(dnn_job *d, int id, const dnnl_memory_desc_t *md)
{
    dnnl_memory_t m;
    CHECK(dnnl_memory_create(&m, md, engine, floats((int64_t)(dnnl_memory_desc_get_size(md) / 4))));
    d->args[d->arg_count++] = (dnnl_exec_arg_t){id, m};
}

/* The first implementation whose name contains `want`; returns 0 when there is none. */
static int dnn_create(dnn_job *d, const_dnnl_op_desc_t desc, const_dnnl_primitive_attr_t attr,
                      const char *want, dnnl_primitive_desc_t *out_pd)
{
    dnnl_primitive_desc_iterator_t it;
    if (dnnl_primitive_desc_iterator_create(&it, desc, attr, engine, NULL) != dnnl_success) {
        return 0;
    }
    int found = 0;
    do {
        dnnl_primitive_desc_t pd = dnnl_primitive_desc_iterator_fetch(it);
        const char *name = NULL;
        CHECK(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name));
        if (strstr(name, want) && !strstr(name, "ref")) {
            CHECK(dnnl_primitive_create(&d->prim, pd));
            *out_pd = pd;
            found = 1;
        } else {
            dnnl_primitive_desc_destroy(pd);
        }
    } while (!found && dnnl_primitive_desc_iterator_next(it) == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(it);
    return found;
}
#endif

/* ---- depthwise ---- */

typedef struct dw_job {
    wf_dw_args args;
    void *scratch;
} dw_job;

static void dw_run(void *p)
{
    dw_job *d = p;
    const int64_t items = wf_dw_items(&d->args);
    wf_dw_f32_fn *fn = PICK(wf_dw_f32);
    for (int64_t i = 0; i < items; i++) {
        fn(&d->args, i, d->scratch);
    }
}

static void bench_depthwise(const char *net, int c, int size, int k, int s, wf_ep_fn act)
{
    char title[80];
    snprintf(title, sizeof title, "dw %s %d@%d k%d s%d%s", net, c, size, k, s,
             act == WF_EP_CLIP    ? ""
             : act == WF_EP_SWISH ? " swish"
                                  : " hswish");
    if (!wanted(title)) {
        return;
    }
    const int out = (size + s - 1) / s, pad = k / 2;
    static wf_ep_stage stage;
    stage = (wf_ep_stage){.fn = (uint8_t)act, .operand = WF_EP_NONE, .a = act == WF_EP_SWISH ? 1 : 0, .b = 6};
    wf_dw_args a = {.shape = {1, size, size, out, out, c, 1, k, k, s, s, 1, 1, pad, pad},
                    .x_row_stride = (int64_t)size * c,
                    .x_pixel_stride = c,
                    .y_row_stride = (int64_t)out * c,
                    .y_pixel_stride = c,
                    .stages = &stage,
                    .stage_count = 1};
    a.shape.pad_top = a.shape.pad_left = s == 1 ? pad : pad - (size % 2 == 0 && k == 3 ? 0 : 0);
    float *w = floats((int64_t)c * k * k), *packed = floats(wf_dw_packed_elems(&a.shape));
    wf_dw_pack(&a.shape, w, NULL, packed);
    a.packed = packed;
    a.x = floats((int64_t)size * size * c);
    a.y = floats((int64_t)out * out * c);
    static const char *const names[] = {"rows", "block", "band", "rows4", "block4", "band4"};
    job jobs[MAX_COLS];
    dw_job dws[6];
    int n = 0;
    for (int i = 0; i < 6; i++) {
        dws[i].args = a;
        dws[i].args.plan.variant = (wf_dw_variant)(i % 3);
        dws[i].args.plan.tile_w = i < 3 ? 7 : 4;
        dws[i].args.plan.band_rows = i % 3 == WF_DW_ROWS ? 1 : out < 14 ? out : 14;
        dws[i].args.plan.block_channels = i % 3 == WF_DW_ROWS ? (c + 15) / 16 * 16 : 16;
        int64_t bytes = wf_dw_scratch_bytes(&dws[i].args);
        dws[i].scratch = bytes ? floats(bytes / 4) : NULL;
        jobs[n++] = (job){names[i], dw_run, &dws[i], 0};
    }
    int ours = n;
#ifdef WF_BENCH_DNNL
    const dnnl_dims_t xd = {1, c, size, size}, wd = {c, 1, 1, k, k}, bd = {c}, yd = {1, c, out, out},
                      st = {s, s}, dil = {0, 0}, p0 = {pad, pad};
    const dnnl_dims_t p1 = {(out - 1) * s + k - size - pad, (out - 1) * s + k - size - pad};
    static const struct {
        const char *name, *want;
        dnnl_format_tag_t tag;
    } kinds[] = {{"dnnl-nhwc", "", dnnl_nhwc}, {"dnnl-8c", "jit_dw", dnnl_nChw8c}};
    dnn_job dnn[2] = {0};
    for (int i = 0; i < 2; i++) {
        dnnl_memory_desc_t xm, wm, bm, ym;
        CHECK(dnnl_memory_desc_init_by_tag(&xm, 4, xd, dnnl_f32, kinds[i].tag));
        CHECK(dnnl_memory_desc_init_by_tag(&wm, 5, wd, dnnl_f32, dnnl_format_tag_any));
        CHECK(dnnl_memory_desc_init_by_tag(&bm, 1, bd, dnnl_f32, dnnl_a));
        CHECK(dnnl_memory_desc_init_by_tag(&ym, 4, yd, dnnl_f32, kinds[i].tag));
        dnnl_convolution_desc_t desc;
        CHECK(dnnl_dilated_convolution_forward_desc_init(
            &desc, dnnl_forward_inference, dnnl_convolution_direct, &xm, &wm, &bm, &ym, st, dil, p0, p1));
        dnnl_primitive_attr_t attr;
        dnnl_post_ops_t ops;
        CHECK(dnnl_primitive_attr_create(&attr));
        CHECK(dnnl_post_ops_create(&ops));
        CHECK(dnnl_post_ops_append_eltwise(ops, 1,
                                           act == WF_EP_CLIP    ? dnnl_eltwise_clip
                                           : act == WF_EP_SWISH ? dnnl_eltwise_swish
                                                                : dnnl_eltwise_hardswish,
                                           act == WF_EP_SWISH ? 1 : 0, 6));
        CHECK(dnnl_primitive_attr_set_post_ops(attr, ops));
        dnnl_primitive_desc_t pd;
        if (!dnn_create(&dnn[i], &desc, attr, kinds[i].want, &pd)) {
            continue;
        }
        dnn_arg(&dnn[i], DNNL_ARG_SRC, dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0));
        dnn_arg(&dnn[i], DNNL_ARG_WEIGHTS, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
        dnn_arg(&dnn[i], DNNL_ARG_BIAS, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1));
        dnn_arg(&dnn[i], DNNL_ARG_DST, dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0));
        jobs[n++] = (job){kinds[i].name, dnn_run, &dnn[i], 0};
    }
#endif
    report(title, jobs, n, ours, 2.0 * out * out * k * k * c, 0);
}

static void bench_all_depthwise(void)
{
    static const struct {
        const char *net;
        int c, size, k, s, act;
    } rows[] = {
        {"mnv3", 16, 112, 3, 1, WF_EP_CLIP},       {"mnv3", 64, 112, 3, 2, WF_EP_CLIP},
        {"mnv3", 72, 56, 3, 1, WF_EP_CLIP},        {"mnv3", 72, 56, 5, 2, WF_EP_CLIP},
        {"mnv3", 120, 28, 5, 1, WF_EP_CLIP},       {"mnv3", 240, 28, 3, 2, WF_EP_HARD_SWISH},
        {"mnv3", 200, 14, 3, 1, WF_EP_HARD_SWISH}, {"mnv3", 480, 14, 3, 1, WF_EP_HARD_SWISH},
        {"mnv3", 672, 14, 5, 2, WF_EP_HARD_SWISH}, {"mnv3", 960, 7, 5, 1, WF_EP_HARD_SWISH},
        {"lite0", 32, 112, 3, 1, WF_EP_CLIP},      {"lite0", 96, 112, 3, 2, WF_EP_CLIP},
        {"lite0", 144, 56, 3, 1, WF_EP_CLIP},      {"lite0", 144, 56, 5, 2, WF_EP_CLIP},
        {"lite0", 240, 28, 5, 1, WF_EP_CLIP},      {"lite0", 480, 14, 5, 1, WF_EP_CLIP},
        {"lite0", 672, 14, 5, 2, WF_EP_CLIP},      {"lite0", 1152, 7, 5, 1, WF_EP_CLIP},
        {"lite0", 1152, 7, 3, 1, WF_EP_CLIP},      {"b0", 240, 28, 5, 1, WF_EP_SWISH},
        {"b0", 672, 14, 5, 1, WF_EP_SWISH},        {"b0", 1152, 7, 5, 1, WF_EP_SWISH},
        {"convnext", 96, 56, 7, 1, WF_EP_CLIP},    {"convnext", 192, 28, 7, 1, WF_EP_CLIP},
        {"convnext", 384, 14, 7, 1, WF_EP_CLIP},   {"convnext", 768, 7, 7, 1, WF_EP_CLIP},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench_depthwise(rows[i].net, rows[i].c, rows[i].size, rows[i].k, rows[i].s, (wf_ep_fn)rows[i].act);
    }
}
/*REST*/
