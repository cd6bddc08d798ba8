/* SPDX-License-Identifier: Apache-2.0 */
#include "device/tiers.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/status.h"

static const struct wf_tier_row {
    const char *name;
    double flops_per_cycle;
} wf_tier_rows[WF_TIER_COUNT] = {
#define X(name, text, flops_per_cycle) [WF_TIER_##name] = {text, flops_per_cycle},
#include "device/tiers.def"
#undef X
};

/* ---- CPUID bits of the bundles (Intel SDM volume 2, CPUID; volume 1, 13.1 for XCR0) ---- */

#define WF_BIT(n) (UINT32_C(1) << (n))

static const struct wf_tier_needs {
    wf_cpuid_t bits; /* all of these must be set */
} wf_tier_needs[WF_TIER_COUNT] = {
    [WF_TIER_AVX2] = {{.leaf1_ecx =
                           WF_BIT(12) | WF_BIT(27) | WF_BIT(28) | WF_BIT(29), /* FMA OSXSAVE AVX F16C */
                       .leaf7_ebx = WF_BIT(5) | WF_BIT(8),                    /* AVX2 BMI2 */
                       .xcr0 = 0x6}},                                         /* xmm ymm */
    [WF_TIER_AVX512] = {{.leaf7_ebx = WF_BIT(16) | WF_BIT(17) | WF_BIT(30) | WF_BIT(31), /* F DQ BW VL */
                         .xcr0 = 0xe6}},                                                 /* and masks, zmm */
    [WF_TIER_AVX512_VNNI] = {{.leaf7_ecx = WF_BIT(11)}},
    [WF_TIER_AVX512_BF16] = {{.leaf7_1_eax = WF_BIT(5)}},
    [WF_TIER_AMX] = {{.leaf7_edx = WF_BIT(22) | WF_BIT(24) | WF_BIT(25), /* BF16 TILE INT8 */
                      .xcr0 = 0x600e6, /* and tile configuration, tile data */
                      .amx_permitted = true}},
};

static bool wf_cpuid_has(const wf_cpuid_t *cpuid, const wf_cpuid_t *bits)
{
    return (cpuid->leaf1_ecx & bits->leaf1_ecx) == bits->leaf1_ecx &&
           (cpuid->leaf7_ebx & bits->leaf7_ebx) == bits->leaf7_ebx &&
           (cpuid->leaf7_ecx & bits->leaf7_ecx) == bits->leaf7_ecx &&
           (cpuid->leaf7_edx & bits->leaf7_edx) == bits->leaf7_edx &&
           (cpuid->leaf7_1_eax & bits->leaf7_1_eax) == bits->leaf7_1_eax &&
           (cpuid->xcr0 & bits->xcr0) == bits->xcr0 && (cpuid->amx_permitted || !bits->amx_permitted);
}

uint32_t wf_tiers_of(const wf_cpuid_t *cpuid)
{
    uint32_t tier_mask = 0;
    /* A bundle holds the ones below: stop at the first that is not complete. */
    for (unsigned tier = 0; tier < WF_TIER_COUNT && wf_cpuid_has(cpuid, &wf_tier_needs[tier].bits); tier++) {
        tier_mask |= WF_TIER_BIT(tier);
    }
    return tier_mask;
}

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t wf_xgetbv(void)
{
    uint32_t low;
    uint32_t high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool wf_amx_request(void)
{
    /* Numbers of <asm/prctl.h> of Linux 5.16, which older headers lack. */
    const long arch_req_xcomp_perm = 0x1023;
    const long tile_data = 18;
    return syscall(SYS_arch_prctl, arch_req_xcomp_perm, tile_data) == 0;
}

wf_cpuid_t wf_cpuid_read(void)
{
    wf_cpuid_t cpuid = {0};
    unsigned eax;
    unsigned ebx;
    unsigned ecx;
    unsigned edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
        return cpuid;
    }
    cpuid.leaf1_ecx = ecx;
    cpuid.xcr0 = (ecx & WF_BIT(27)) != 0 ? wf_xgetbv() : 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
        cpuid.leaf7_ebx = ebx;
        cpuid.leaf7_ecx = ecx;
        cpuid.leaf7_edx = edx;
        if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) {
            cpuid.leaf7_1_eax = eax;
        }
    }
    const wf_cpuid_t *amx = &wf_tier_needs[WF_TIER_AMX].bits;
    bool has_amx =
        (cpuid.leaf7_edx & amx->leaf7_edx) == amx->leaf7_edx && (cpuid.xcr0 & amx->xcr0) == amx->xcr0;
    cpuid.amx_permitted = has_amx && wf_amx_request();
    return cpuid;
}

#else

wf_cpuid_t wf_cpuid_read(void)
{
    return (wf_cpuid_t){0};
}

#endif

/* ---- Names ---- */

const char *wf_tier_name(wf_tier_t tier)
{
    return (unsigned)tier < WF_TIER_COUNT ? wf_tier_rows[tier].name : "none";
}

wf_tier_t wf_tier_highest(uint32_t tier_mask)
{
    unsigned tier = WF_TIER_COUNT - 1;
    while (tier > 0 && (tier_mask & WF_TIER_BIT(tier)) == 0) {
        tier--;
    }
    return (wf_tier_t)tier;
}

wf_status_t wf_tier_mask_up_to(const char *name, uint32_t *out_tier_mask)
{
    for (unsigned tier = 0; tier < WF_TIER_COUNT; tier++) {
        if (strcmp(wf_tier_rows[tier].name, name) == 0) {
            *out_tier_mask = (WF_TIER_BIT(tier) << 1) - 1;
            return WF_OK;
        }
    }
    char names[128] = "";
    for (unsigned tier = 0; tier < WF_TIER_COUNT; tier++) {
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", tier > 0 ? ", " : "",
                 wf_tier_rows[tier].name);
    }
    return wf_status_hinted(WF_ERROR(USAGE, "there is no CPU tier \"%s\"", name), "the tiers are %s", names);
}

double wf_tier_flops_per_cycle(wf_tier_t tier)
{
    return wf_tier_rows[tier].flops_per_cycle;
}
