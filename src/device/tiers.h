/* SPDX-License-Identifier: Apache-2.0 */
/* CPU tiers: which kernels may run. Which should run is the tuner's matter. */
#ifndef WF_DEVICE_TIERS_H
#define WF_DEVICE_TIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "wayfinder/status.h"

typedef enum wf_tier {
#define X(name, text, flops_per_cycle) WF_TIER_##name,
#include "device/tiers.def"
#undef X
    WF_TIER_COUNT
} wf_tier_t;

#define WF_TIER_BIT(tier) (UINT32_C(1) << (tier))

/* What CPUID says, as plain values, so that the rules can be tested with the values of other machines. */
typedef struct wf_cpuid {
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx, leaf7_ecx, leaf7_edx; /* leaf 7, subleaf 0 */
    uint32_t leaf7_1_eax;                     /* leaf 7, subleaf 1 */
    uint64_t xcr0;                            /* registers that the system saves; 0 without OSXSAVE */
    bool amx_permitted;                       /* the kernel granted tile data to this process */
} wf_cpuid_t;

/* Reads the CPU. Asks Linux for permission to use AMX tiles where the CPU has them (arch_prctl
 * ARCH_REQ_XCOMP_PERM): that holds for the whole process and costs 8 KiB of signal stack a thread. All zero
 * on CPUs other than x86-64. */
wf_cpuid_t wf_cpuid_read(void);
/* The tiers that such a CPU may run; bit SCALAR is always set. */
uint32_t wf_tiers_of(const wf_cpuid_t *cpuid);

/* "avx2". Static. */
const char *wf_tier_name(wf_tier_t tier);
/* The highest tier of a mask. */
wf_tier_t wf_tier_highest(uint32_t tier_mask);
/* Bits of the named tier and all below it. USAGE, naming the tiers, when there is no such name. */
wf_status_t wf_tier_mask_up_to(const char *name, uint32_t *out_tier_mask) WF_MUST_USE;
double wf_tier_flops_per_cycle(wf_tier_t tier);

#endif
