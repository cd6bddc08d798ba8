/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU that this process runs on, as plain values: detected once, passed down. */
#ifndef WF_DEVICE_DEVICE_H
#define WF_DEVICE_DEVICE_H

#include <stdint.h>

#include "base/mem.h"
#include "device/tiers.h"
#include "device/topology.h"
#include "wayfinder/backend.h"

/* The environment variable that lowers the tier when no argument does. */
#define WF_TIER_VARIABLE "WAYFINDER_TIER"

typedef struct wf_device {
    char vendor[16]; /* "GenuineIntel", "AuthenticAMD", "arm64"; printable ASCII */
    char name[64];   /* "AMD EPYC 7763"; printable ASCII without quotes */
    uint32_t family, model, stepping;
    uint32_t tier_mask;          /* tiers that may run, after masking */
    uint32_t detected_tier_mask; /* before */
    wf_caches_t caches;
    uint32_t cpu_count;   /* CPUs of the affinity mask */
    uint32_t core_count;  /* physical cores among them */
    uint32_t quota_milli; /* thousandths of a CPU; 0: no quota */
    double clock_ghz;     /* nominal; a guess where the CPU does not say. The same on every run */
} wf_device_t;

/* Looks at the machine. max_tier lowers the tier ("avx2" allows avx2 and below); NULL: WAYFINDER_TIER from
 * the environment, else no limit. A tier above what the CPU has is no error: the mask only takes away. USAGE
 * for a name that is no tier. */
wf_status_t wf_device_detect(const char *max_tier, wf_device_t *out_device) WF_MUST_USE;

/* min(CPUs of the affinity mask, quota rounded up, physical cores), at least 1. */
uint32_t wf_device_default_threads(const wf_device_t *device);

/* What sources are told. thread_count 0 means the default. */
wf_cpu_t wf_device_cpu(const wf_device_t *device, uint32_t thread_count);

/* Appends the identity of the device, one line of printable ASCII without newline, always the same for the
 * same machine, limits and tier mask: cpu vendor=AuthenticAMD family=25 model=1 stepping=1 name="AMD EPYC"
 * tiers=scalar,avx2 l1d=32768 l2=524288 l3=33554432 cpus=2 cores=2 quota_milli=none The caller appends
 * versions of libraries. Failures stay in `text`. */
void wf_device_fingerprint(const wf_device_t *device, wf_text_t *text);

#endif
