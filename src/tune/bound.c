/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/bound.h"

#include <math.h>

#include "base/compiler.h"

#define WINOGRAD_FACTOR 5.0625
#define TRANSFORM_FACTOR 16.0
#define CLOCK_FACTOR 2.0
#define BYTES_PER_NS 20.0

/* How many times fewer multiplications the best algorithm may need. */
static double fewest_factor(const wf_problem_t *problem)
{
    if (problem->stage_count == 0 || problem->stages[0].op != WF_OP_CONV || problem->operand_count < 2)
        return 1;
    const wf_type_t *weight = &problem->operands[1].type;
    int64_t window = 1;
    for (uint32_t d = 2; d < weight->rank; d++)
        window *= weight->dims[d];
    return window <= 1 ? 1 : window <= 9 ? WINOGRAD_FACTOR : TRANSFORM_FACTOR;
}

wf_bound_t wf_job_bound(const wf_job_t *job, const wf_route_t *routes)
{
    double peak = fmax(job->cpu.f32_flops_per_ns, 1e-3) * job->cpu.thread_count;
    double log_least = 0, log_roofline = 0;
    for (size_t p = 0; p < job->part_count; p++) {
        const wf_space_t *space = job->parts[p].space;
        double least_ns = 0, roofline_ns = 0, cache_bytes = (double)job->cpu.l2_bytes * job->cpu.thread_count;
        for (size_t i = 0; i < routes[p].count; i++) {
            const wf_group_t *group = &space->groups.items[routes[p].items[i].group];
            const wf_problem_t *problem = space->problems.items[group->problem].problem;
            double flops = wf_problem_flops(problem), bytes = wf_problem_bytes(problem);
            least_ns += flops / fewest_factor(problem) / (CLOCK_FACTOR * peak);
            double memory_ns = bytes > cache_bytes ? bytes / (BYTES_PER_NS * job->cpu.thread_count) : 0;
            roofline_ns += fmax(flops / peak, memory_ns);
        }
        log_least += log(fmax(least_ns, 1e-3)) / (double)job->part_count;
        log_roofline += log(fmax(roofline_ns, 1e-3)) / (double)job->part_count;
    }
    return (wf_bound_t){exp(log_least), exp(log_roofline)};
}
