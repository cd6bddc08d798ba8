/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "backends/native/native.h"
#include "base/compiler.h"

/* A parallel region of our pool on two cores: 0.4 us measured with nothing in it (cpu notes); call and view
 * set-up come on top. */
#define REGION_NS 600.0
#define CALL_NS 150.0

double wf_native_estimate_ns(const wf_native_t *native, uint32_t tier, double flops, double efficiency,
                             double bytes, uint32_t regions)
{
    double threads = (double)WF_MAX(native->cpu.thread_count, 1u);
    double peak = native->cpu.f32_flops_per_ns * wf_tier_flops_per_cycle(wf_native_tiers[tier].tier) /
                  wf_tier_flops_per_cycle(wf_tier_highest(native->cpu.tier_mask));
    double compute_ns = flops / (peak * efficiency * threads);
    double memory_ns = bytes / (native->cpu.l3_bytes_per_ns * threads);
    return fmax(compute_ns, memory_ns) + CALL_NS + REGION_NS * regions;
}

int64_t wf_native_units_per_item(int64_t count, int64_t min_units, uint32_t thread_count,
                                 uint32_t items_per_thread)
{
    int64_t items = WF_MAX((int64_t)thread_count * items_per_thread, (int64_t)1);
    int64_t units = (count + items - 1) / items;
    return WF_MAX(WF_MAX(units, min_units), (int64_t)1);
}
