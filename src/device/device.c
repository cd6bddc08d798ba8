/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* Where the CPU does not tell its clock (most virtual machines of AMD): servers of 2019-2026 run vector code
 * at 2.5 to 3.5 GHz. Only ratios of estimates matter, and all of them have this factor. */
#define WF_CLOCK_GUESS_GHZ 3.0

/* Reading L3, one core: 28 GB/s on an Intel server with AMX (2 cores visible, 2026-11-30; 57 GB/s with two
 * threads). Used to rank candidates before they are measured, so one number for all machines is enough. */
#define WF_L3_BYTES_PER_NS 28.0

/* Sizes that every x86-64 and arm64 server since 2013 has at least, for machines that tell nothing. No L3 is
 * assumed. */
static const wf_caches_t wf_caches_least = {.l1d_bytes = 32 * 1024, .l2_bytes = 256 * 1024, .l3_bytes = 0};

/* ---- Who it is ---- */

/* Copies printable ASCII without quotes, blanks folded and trimmed. */
static void wf_copy_printable(char *out, size_t capacity, const char *text)
{
    size_t length = 0;
    for (; *text != 0 && length + 1 < capacity; text++) {
        bool printable = *text > ' ' && *text <= '~' && *text != '"' && *text != '\\';
        bool blank = *text == ' ' && length > 0 && out[length - 1] != ' ';
        if (printable || blank) {
            out[length++] = *text;
        }
    }
    while (length > 0 && out[length - 1] == ' ') {
        length--;
    }
    out[length] = 0;
}

#if defined(__x86_64__)

#include <cpuid.h>

static void wf_identify(wf_device_t *device)
{
    unsigned words[12] = {0};
    unsigned eax;
    unsigned unused;
    char text[sizeof words + 1];
    if (__get_cpuid(0, &unused, &words[0], &words[2], &words[1])) {
        memcpy(text, words, 12);
        text[12] = 0;
        wf_copy_printable(device->vendor, sizeof device->vendor, text);
    }
    if (__get_cpuid(1, &eax, &unused, &unused, &unused)) {
        /* Extended fields (Intel SDM volume 2, figure 3-6; AMD gives the same sums). */
        unsigned base_family = eax >> 8 & 0xf;
        device->family = base_family == 0xf ? base_family + (eax >> 20 & 0xff) : base_family;
        device->model =
            base_family == 0xf || base_family == 6 ? (eax >> 4 & 0xf) | (eax >> 12 & 0xf0) : eax >> 4 & 0xf;
        device->stepping = eax & 0xf;
    }
    for (unsigned i = 0; i < 3; i++) {
        if (!__get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                         &words[4 * i + 3])) {
            return;
        }
    }
    memcpy(text, words, sizeof words);
    text[sizeof words] = 0;
    wf_copy_printable(device->name, sizeof device->name, text);
}

/* Leaf 0x16 (Intel): base frequency in MHz; 0 when not told. */
static double wf_clock_from_cpuid(void)
{
    unsigned eax;
    unsigned unused;
    return __get_cpuid(0x16, &eax, &unused, &unused, &unused) ? (eax & 0xffff) / 1000.0 : 0.0;
}

#else

static void wf_identify(wf_device_t *device)
{
#if defined(__aarch64__)
    wf_copy_printable(device->vendor, sizeof device->vendor, "arm64");
#else
    wf_copy_printable(device->vendor, sizeof device->vendor, "unknown");
#endif
}

static double wf_clock_from_cpuid(void)
{
    return 0.0;
}

#endif

/* "Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz" says it in the name; 0 when it does not. */
static double wf_clock_from_name(const char *name)
{
    const char *at = strstr(name, "@ ");
    if (at == NULL) {
        return 0.0;
    }
    /* Always "x.xxGHz". Not strtod, whose decimal point depends on the locale of the program. */
    unsigned whole;
    unsigned hundredths;
    bool told = sscanf(at, "@ %1u.%2uGHz", &whole, &hundredths) == 2;
    return told ? whole + hundredths / 100.0 : 0.0;
}

/* Never the current frequency: estimates, and with them the default route, must not change from run to run.
 */
static double wf_nominal_clock_ghz(const char *name)
{
    double ghz = wf_clock_from_cpuid();
    ghz = ghz > 0.0 ? ghz : wf_clock_from_name(name);
    return ghz > 0.0 ? ghz : WF_CLOCK_GUESS_GHZ;
}

static wf_caches_t wf_caches_detect(uint32_t cpu)
{
    wf_caches_t sysfs = wf_caches_from_sysfs("", cpu);
    wf_caches_t cpuid = wf_caches_from_cpuid();
    const wf_caches_t *least = &wf_caches_least;
    return (wf_caches_t){
        .l1d_bytes = sysfs.l1d_bytes   ? sysfs.l1d_bytes
                     : cpuid.l1d_bytes ? cpuid.l1d_bytes
                                       : least->l1d_bytes,
        .l2_bytes = sysfs.l2_bytes   ? sysfs.l2_bytes
                    : cpuid.l2_bytes ? cpuid.l2_bytes
                                     : least->l2_bytes,
        .l3_bytes = sysfs.l3_bytes   ? sysfs.l3_bytes
                    : cpuid.l3_bytes ? cpuid.l3_bytes
                                     : least->l3_bytes,
    };
}

wf_status_t wf_device_detect(const char *max_tier, wf_device_t *out_device)
{
    uint32_t allowed_tier_mask = UINT32_MAX;
    if (max_tier == NULL) {
        max_tier = getenv(WF_TIER_VARIABLE);
        if (max_tier != NULL && max_tier[0] != 0) {
            WF_TRY(wf_status_annotated(wf_tier_mask_up_to(max_tier, &allowed_tier_mask), WF_TIER_VARIABLE));
        }
    } else {
        WF_TRY(wf_tier_mask_up_to(max_tier, &allowed_tier_mask));
    }
    wf_device_t device = {.vendor = "", .name = ""};
    wf_identify(&device);
    wf_cpuid_t cpuid = wf_cpuid_read();
    device.detected_tier_mask = wf_tiers_of(&cpuid);
    device.tier_mask = device.detected_tier_mask & allowed_tier_mask;
    wf_cpu_set_t cpus = wf_cpus_allowed();
    uint32_t first_cpu = 0;
    while (!wf_cpu_set_has(&cpus, first_cpu)) {
        first_cpu++;
    }
    device.caches = wf_caches_detect(first_cpu);
    device.cpu_count = wf_cpu_set_count(&cpus);
    device.core_count = wf_physical_cores("", &cpus);
    device.quota_milli = wf_cgroup_quota_milli("");
    device.clock_ghz = wf_nominal_clock_ghz(device.name);
    *out_device = device;
    return WF_OK;
}

uint32_t wf_device_default_threads(const wf_device_t *device)
{
    uint32_t count = WF_MIN(device->cpu_count, device->core_count);
    if (device->quota_milli != 0) {
        count = WF_MIN(count, device->quota_milli / 1000 + (device->quota_milli % 1000 != 0));
    }
    return WF_MAX(count, 1u);
}

wf_cpu_t wf_device_cpu(const wf_device_t *device, uint32_t thread_count)
{
    double flops_per_cycle = wf_tier_flops_per_cycle(wf_tier_highest(device->tier_mask));
    /* Zen 4 (family 25) runs a 512-bit instruction as two halves. */
    if (strcmp(device->vendor, "AuthenticAMD") == 0 && device->family == 25) {
        flops_per_cycle = WF_MIN(flops_per_cycle, wf_tier_flops_per_cycle(WF_TIER_AVX2));
    }
    return (wf_cpu_t){
        .tier_mask = device->tier_mask,
        .thread_count = thread_count != 0 ? thread_count : wf_device_default_threads(device),
        .l1d_bytes = device->caches.l1d_bytes,
        .l2_bytes = device->caches.l2_bytes,
        .l3_bytes = device->caches.l3_bytes,
        .f32_flops_per_ns = flops_per_cycle * device->clock_ghz,
        .l3_bytes_per_ns = WF_L3_BYTES_PER_NS,
    };
}

void wf_device_fingerprint(const wf_device_t *device, wf_text_t *text)
{
    wf_text_printf(text, "cpu vendor=%s family=%u model=%u stepping=%u name=\"%s\" tiers=", device->vendor,
                   device->family, device->model, device->stepping, device->name);
    const char *separator = "";
    for (unsigned tier = 0; tier < WF_TIER_COUNT; tier++) {
        if ((device->tier_mask & WF_TIER_BIT(tier)) != 0) {
            wf_text_printf(text, "%s%s", separator, wf_tier_name((wf_tier_t)tier));
            separator = ",";
        }
    }
    wf_text_printf(text, " l1d=%zu l2=%zu l3=%zu cpus=%u cores=%u quota_milli=", device->caches.l1d_bytes,
                   device->caches.l2_bytes, device->caches.l3_bytes, device->cpu_count, device->core_count);
    if (device->quota_milli != 0) {
        wf_text_printf(text, "%u", device->quota_milli);
    } else {
        wf_text_puts(text, "none");
    }
}
