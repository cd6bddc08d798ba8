/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/noise.h"

#include <math.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "tune/arm.h"
#include "tune/canary.h"
#include "tune/stats.h"

/* A sample stands well above the clock. */
#define SAMPLE_NS 1e6
#define BATCH 16u
#define BUSY_RATIO 1.1

typedef struct samples {
    wf_times_t ratios, times;
} samples_t;

static double sample_ns(const wf_parallel_t *parallel, uint32_t canaries)
{
    double ns = 0;
    for (uint32_t i = 0; i < canaries; i++)
        ns += wf_canary_run(parallel);
    return ns / canaries;
}

static wf_status_t take_samples(const wf_parallel_t *parallel, double seconds, wf_allocator_t allocator,
                                wf_progress_fn *progress, void *progress_self, samples_t *samples)
{
    uint64_t start_ns = wf_clock_ns();
    double first_ns = 0;
    for (int i = 0; i < 50; i++) {
        double ns = wf_canary_run(parallel);
        first_ns = i == 0 ? ns : fmin(first_ns, ns);
    }
    uint32_t canaries = (uint32_t)fmin(fmax(SAMPLE_NS / fmax(first_ns, 1), 1), 1000);
    for (;;) {
        double spent_s = (double)(wf_clock_ns() - start_ns) * 1e-9;
        if (spent_s >= seconds || (progress != NULL && progress(progress_self, "noise", spent_s / seconds)))
            return WF_OK;
        double a_ns = sample_ns(parallel, canaries), b_ns = sample_ns(parallel, canaries);
        double ratio = log(b_ns / a_ns), mean_ns = 0.5 * (a_ns + b_ns);
        WF_TRY(wf_vec_push(allocator, &samples->ratios, &ratio));
        WF_TRY(wf_vec_push(allocator, &samples->times, &mean_ns));
    }
}

/* Means of batches against what independent pairs would give: slow changes do not average out. */
static double batch_inflation(const double *ratios, size_t count, double sd)
{
    wf_welford_t means = {0};
    for (size_t b = 0; b + BATCH <= count; b += BATCH) {
        double sum = 0;
        for (size_t i = 0; i < BATCH; i++)
            sum += ratios[b + i];
        wf_welford_add(&means, sum / BATCH);
    }
    if (means.count < 4 || !(sd > 0))
        return 1;
    double batch_sd = sqrt(means.m2 / (double)(means.count - 1));
    return fmax(1, batch_sd * sqrt((double)BATCH) / sd);
}

static void summarise(samples_t *samples, wf_noise_t *noise)
{
    size_t count = samples->ratios.count;
    noise->pairs = count;
    noise->inflation = 1;
    noise->canary_ns = count > 0 ? samples->times.items[0] : 0;
    for (size_t i = 0; i < count; i++)
        noise->canary_ns = fmin(noise->canary_ns, samples->times.items[i]);
    size_t busy = 0;
    for (size_t i = 0; i < count; i++)
        busy += samples->times.items[i] > BUSY_RATIO * noise->canary_ns;
    noise->busy_share = count > 0 ? (double)busy / (double)count : 0;
    if (count < 2)
        return;
    double *ratios = samples->ratios.items;
    wf_welford_t plain = {0};
    for (size_t i = 0; i < count; i++)
        wf_welford_add(&plain, ratios[i]);
    double plain_sd = sqrt(plain.m2 / (double)(count - 1));
    noise->inflation = batch_inflation(ratios, count, plain_sd);
    noise->sd = wf_stats_mad(ratios, count); /* reorders: last */
}

wf_status_t wf_noise_measure(const wf_parallel_t *parallel, double seconds, wf_allocator_t allocator,
                             wf_progress_fn *progress, void *progress_self, wf_noise_t *out_noise)
{
    samples_t samples = {0};
    uint64_t start_ns = wf_clock_ns();
    *out_noise = (wf_noise_t){0};
    wf_status_t status = take_samples(parallel, seconds, allocator, progress, progress_self, &samples);
    if (status == WF_OK)
        summarise(&samples, out_noise);
    if (out_noise->pairs > 0)
        out_noise->pair_s = (double)(wf_clock_ns() - start_ns) * 1e-9 / (double)out_noise->pairs;
    wf_vec_deinit(allocator, &samples.ratios);
    wf_vec_deinit(allocator, &samples.times);
    return status;
}

double wf_noise_detectable(const wf_noise_t *noise, double seconds)
{
    if (noise->pairs < 2 || !(noise->pair_s > 0))
        return (double)INFINITY;
    double pairs = fmax(seconds / noise->pair_s, 1);
    /* 1.2533: a median's standard error to a mean's; 2.326 + 1.645 = z(0.99) + z(0.95). */
    double se = 1.2533 * noise->sd * noise->inflation / sqrt(pairs);
    return expm1(3.971 * se);
}
