/* SPDX-License-Identifier: Apache-2.0 */
/* Cores, caches and limits as Linux tells them. Every file is read below `root` ("" on a real machine), so
 * that tests can show the files of other machines. What cannot be read is said to be unknown, never an error.
 */
#ifndef WF_DEVICE_TOPOLOGY_H
#define WF_DEVICE_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WF_MAX_CPUS 8192u

typedef struct wf_cpu_set {
    uint64_t words[WF_MAX_CPUS / 64];
} wf_cpu_set_t;

bool wf_cpu_set_has(const wf_cpu_set_t *set, uint32_t cpu);
void wf_cpu_set_add(wf_cpu_set_t *set, uint32_t cpu);
uint32_t wf_cpu_set_count(const wf_cpu_set_t *set);
/* From a list as sysfs writes it ("0-3,8,10-11"); false and an undefined set for anything else. */
bool wf_cpu_set_parse(const char *text, wf_cpu_set_t *out_set);

/* The CPUs that this thread may run on; CPU 0 alone when the system does not say. */
wf_cpu_set_t wf_cpus_allowed(void);
/* Physical cores among the CPUs: hyperthreads of one core count once. Unknown topology: every CPU is a core.
 */
uint32_t wf_physical_cores(const char *root, const wf_cpu_set_t *cpus);
/* The smallest CPU quota of the process's control group and its parents, version 1 or 2, in thousandths of a
 * CPU; 0: none. */
uint32_t wf_cgroup_quota_milli(const char *root);

typedef struct wf_caches {
    size_t l1d_bytes, l2_bytes, l3_bytes; /* of one instance; 0: none or unknown */
} wf_caches_t;
/* Caches of one CPU from sysfs. */
wf_caches_t wf_caches_from_sysfs(const char *root, uint32_t cpu);
/* Caches of the running CPU from CPUID (leaf 4, AMD 0x8000001d); zero on other CPUs. */
wf_caches_t wf_caches_from_cpuid(void);

#endif
