/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/temp_folder.h"

/* ---- Tiers, from values of machines ---- */

static const wf_cpuid_t zen3 = {
    .leaf1_ecx = 0xfff83203, .leaf7_ebx = 0x219c97a9, .leaf7_ecx = 0x0040068c, .xcr0 = 0x207};
static const wf_cpuid_t sapphire_rapids = {
    .leaf1_ecx = 0xfffa3203,
    .leaf7_ebx = 0xf1bf2fbb,
    .leaf7_ecx = 0x1b415f5e,
    .leaf7_edx = 0xbfd14510,
    .leaf7_1_eax = 0x1c30,
    .xcr0 = 0x602e7,
    .amx_permitted = true,
};

static uint32_t up_to(wf_tier_t tier)
{
    return (2u << tier) - 1;
}

static void tiers_of_known_machines(void **state)
{
    (void)state;
    assert_int_equal(wf_tiers_of(&zen3), up_to(WF_TIER_AVX2));
    assert_int_equal(wf_tiers_of(&sapphire_rapids), up_to(WF_TIER_AMX));
    assert_int_equal(wf_tiers_of(&(wf_cpuid_t){0}), up_to(WF_TIER_SCALAR));
}

/* Each needed thing taken away alone lowers the tier to just below the bundle that needs it. */
static void a_missing_part_lowers_the_tier(void **state)
{
    (void)state;
    wf_cpuid_t cpuid;
#define WITHOUT(field, bits, highest) \
    cpuid = sapphire_rapids;          \
    cpuid.field &= ~(bits);           \
    assert_int_equal(wf_tiers_of(&cpuid), up_to(WF_TIER_##highest))
    WITHOUT(leaf1_ecx, 1u << 12, SCALAR);       /* FMA */
    WITHOUT(leaf1_ecx, 1u << 27, SCALAR);       /* OSXSAVE */
    WITHOUT(leaf1_ecx, 1u << 29, SCALAR);       /* F16C */
    WITHOUT(leaf7_ebx, 1u << 5, SCALAR);        /* AVX2 */
    WITHOUT(xcr0, UINT64_C(4), SCALAR);         /* ymm not saved */
    WITHOUT(leaf7_ebx, 1u << 16, AVX2);         /* AVX512F */
    WITHOUT(leaf7_ebx, 1u << 31, AVX2);         /* AVX512VL */
    WITHOUT(xcr0, UINT64_C(0x40), AVX2);        /* zmm not saved */
    WITHOUT(leaf7_ecx, 1u << 11, AVX512);       /* VNNI */
    WITHOUT(leaf7_1_eax, 1u << 5, AVX512_VNNI); /* BF16 */
    WITHOUT(leaf7_edx, 1u << 24, AVX512_BF16);  /* AMX-TILE */
    WITHOUT(xcr0, UINT64_C(0x40000), AVX512_BF16);
#undef WITHOUT
    cpuid = sapphire_rapids;
    cpuid.amx_permitted = false;
    assert_int_equal(wf_tiers_of(&cpuid), up_to(WF_TIER_AVX512_BF16));
}

static void names_give_masks(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WF_TIER_COUNT; i++) {
        uint32_t mask;
        wf_assert_ok(wf_tier_mask_up_to(wf_tier_name((wf_tier_t)i), &mask));
        assert_int_equal(mask, up_to((wf_tier_t)i));
        assert_int_equal(wf_tier_highest(mask), i);
    }
    uint32_t mask;
    wf_status_t status = wf_tier_mask_up_to("avx3", &mask);
    assert_string_equal(wf_status_hint(status),
                        "the tiers are scalar, avx2, avx512, avx512_vnni, avx512_bf16, amx");
    wf_assert_fails(status, USAGE);
}

/* The compiler's own detection is another implementation of the same question. */
static void this_machine_agrees_with_the_compiler(void **state)
{
    (void)state;
#if defined(__x86_64__)
    wf_device_t device;
    wf_assert_ok(wf_device_detect("amx", &device));
    assert_int_equal((device.detected_tier_mask & WF_TIER_BIT(WF_TIER_AVX2)) != 0,
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal((device.detected_tier_mask & WF_TIER_BIT(WF_TIER_AVX512)) != 0,
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"));
#else
    skip();
#endif
}

/* ---- Topology, from files of machines ---- */

static char root[4000];

static int make_root(void **state)
{
    (void)state;
    wf_temp_folder_make(root, sizeof root);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    wf_temp_folder_remove(root);
    return 0;
}

static void cpu_lists(void **state)
{
    (void)state;
    wf_cpu_set_t set;
    assert_true(wf_cpu_set_parse("0-3,8,10-11\n", &set));
    assert_int_equal(wf_cpu_set_count(&set), 7);
    assert_true(wf_cpu_set_has(&set, 8) && wf_cpu_set_has(&set, 11) && !wf_cpu_set_has(&set, 9));
    assert_false(wf_cpu_set_has(&set, WF_MAX_CPUS));
    assert_true(wf_cpu_set_parse("8191", &set));
    static const char *const bad[] = {"",    "\n", "a", "3-", "3-1", "1,x", "8192", "0-99999999999",
                                      "1 2", "-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(wf_cpu_set_parse(bad[i], &set));
    }
    set = wf_cpus_allowed();
    assert_in_range(wf_cpu_set_count(&set), 1, WF_MAX_CPUS);
}

static void hyperthreads_are_one_core(void **state)
{
    (void)state;
    wf_cpu_set_t cpus;
    assert_true(wf_cpu_set_parse("0-7", &cpus));
    assert_int_equal(wf_physical_cores(root, &cpus), 8); /* nothing known */
    for (int cpu = 0; cpu < 8; cpu++) {
        char name[128];
        char siblings[16];
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        snprintf(siblings, sizeof siblings, "%d,%d\n", cpu % 4, cpu % 4 + 4);
        wf_temp_file_write(root, name, siblings);
    }
    assert_int_equal(wf_physical_cores(root, &cpus), 4);
    assert_true(wf_cpu_set_parse("1,5-6", &cpus));
    assert_int_equal(wf_physical_cores(root, &cpus), 2);
    assert_true(wf_cpu_set_parse("4-7", &cpus)); /* the first siblings are not ours */
    assert_int_equal(wf_physical_cores(root, &cpus), 4);
}

#define V2_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT                                                        \
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"                             \
    "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" \
    "33 23 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"

static void quotas_of_version_2(void **state)
{
    (void)state;
    assert_int_equal(wf_cgroup_quota_milli(root), 0);
    wf_temp_file_write(root, "proc/self/cgroup", "0::/a.slice/b.scope\n");
    wf_temp_file_write(root, "proc/self/mountinfo", V2_MOUNT);
    assert_int_equal(wf_cgroup_quota_milli(root), 0);
    wf_temp_file_write(root, "sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000\n");
    assert_int_equal(wf_cgroup_quota_milli(root), 0);
    wf_temp_file_write(root, "sys/fs/cgroup/a.slice/cpu.max", "350000 100000\n");
    assert_int_equal(wf_cgroup_quota_milli(root), 3500); /* of the parent */
    wf_temp_file_write(root, "sys/fs/cgroup/a.slice/b.scope/cpu.max", "50000 100000\n");
    assert_int_equal(wf_cgroup_quota_milli(root), 500);
    /* A container that sees the host's name of its group: only the mount itself is there. */
    wf_temp_file_write(root, "proc/self/cgroup", "0::/docker/0123\n");
    wf_temp_file_write(root, "sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_int_equal(wf_cgroup_quota_milli(root), 2000);
    static const char *const bad[] = {
        "", "x", "100000", "100000 0\n", "-5 100000\n", "max max\n", "99999999999999999999 100000\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        wf_temp_file_write(root, "sys/fs/cgroup/cpu.max", bad[i]);
        assert_int_equal(wf_cgroup_quota_milli(root), 0);
    }
}

static void quotas_of_version_1(void **state)
{
    (void)state;
    wf_temp_file_write(root, "proc/self/cgroup", "9:cpuset:/x\n3:cpu,cpuacct:/job\n0::/\n");
    wf_temp_file_write(root, "proc/self/mountinfo", V1_MOUNT);
    assert_int_equal(wf_cgroup_quota_milli(root), 0);
    wf_temp_file_write(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    wf_temp_file_write(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(wf_cgroup_quota_milli(root), 0);
    wf_temp_file_write(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(wf_cgroup_quota_milli(root), 1500);
}

static void write_cache(int index, const char *level, const char *type, const char *size)
{
    static const char *const names[] = {"level", "type", "size"};
    const char *texts[] = {level, type, size};
    for (int i = 0; i < 3; i++) {
        char name[128];
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu3/cache/index%d/%s", index, names[i]);
        wf_temp_file_write(root, name, texts[i]);
    }
}

static void caches_from_files(void **state)
{
    (void)state;
    wf_caches_t caches = wf_caches_from_sysfs(root, 3);
    assert_int_equal(caches.l1d_bytes + caches.l2_bytes + caches.l3_bytes, 0);
    write_cache(0, "1\n", "Data\n", "48K\n");
    write_cache(1, "1\n", "Instruction\n", "32K\n");
    write_cache(2, "2\n", "Unified\n", "2048K\n");
    write_cache(3, "3\n", "Unified\n", "105M\n");
    caches = wf_caches_from_sysfs(root, 3);
    assert_int_equal(caches.l1d_bytes, 48 << 10);
    assert_int_equal(caches.l2_bytes, 2 << 20);
    assert_int_equal(caches.l3_bytes, 105 << 20);
}

/* Both ways to ask about this machine, where both answer. */
static void cpuid_and_files_agree(void **state)
{
    (void)state;
    wf_caches_t files = wf_caches_from_sysfs("", 0);
    wf_caches_t cpuid = wf_caches_from_cpuid();
    if (files.l1d_bytes == 0 || cpuid.l1d_bytes == 0) {
        skip();
    }
    assert_int_equal(files.l1d_bytes, cpuid.l1d_bytes);
    assert_int_equal(files.l2_bytes, cpuid.l2_bytes);
    assert_int_equal(files.l3_bytes, cpuid.l3_bytes);
}

/* ---- Device ---- */

static const wf_device_t example = {
    .vendor = "AuthenticAMD",
    .name = "AMD EPYC",
    .family = 25,
    .model = 1,
    .stepping = 1,
    .tier_mask = 3,
    .detected_tier_mask = 3,
    .caches = {32768, 524288, 33554432},
    .cpu_count = 8,
    .core_count = 4,
    .quota_milli = 0,
    .clock_ghz = 2.5,
};

static void default_threads_are_the_smallest_limit(void **state)
{
    (void)state;
    static const struct {
        uint32_t cpus, cores, quota_milli, threads;
    } rows[] = {{8, 4, 0, 4}, {2, 4, 0, 2}, {8, 8, 2000, 2}, {8, 8, 2001, 3}, {8, 8, 100, 1}, {1, 1, 0, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_device_t device = example;
        device.cpu_count = rows[i].cpus;
        device.core_count = rows[i].cores;
        device.quota_milli = rows[i].quota_milli;
        assert_int_equal(wf_device_default_threads(&device), rows[i].threads);
        assert_int_equal(wf_device_cpu(&device, 0).thread_count, rows[i].threads);
        assert_int_equal(wf_device_cpu(&device, 7).thread_count, 7);
    }
}

static void fingerprints_are_canonical(void **state)
{
    (void)state;
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), 10000);
    wf_device_fingerprint(&example, &text);
    assert_string_equal(
        wf_text_cstr(&text),
        "cpu vendor=AuthenticAMD family=25 model=1 stepping=1 name=\"AMD EPYC\" tiers=scalar,avx2 "
        "l1d=32768 l2=524288 l3=33554432 cpus=8 cores=4 quota_milli=none");
    wf_text_puts(&text, "\n");
    wf_device_t device = example;
    device.quota_milli = 1500;
    device.tier_mask = 1;
    wf_device_fingerprint(&device, &text);
    assert_non_null(strstr(wf_text_cstr(&text), " tiers=scalar l1d="));
    assert_non_null(strstr(wf_text_cstr(&text), " quota_milli=1500"));
    wf_assert_ok(wf_text_take_status(&text));
    wf_text_deinit(&text);
}

static void estimates_follow_tier_and_clock(void **state)
{
    (void)state;
    wf_cpu_t cpu = wf_device_cpu(&example, 1);
    assert_true(cpu.f32_flops_per_ns == 80.0);
    assert_int_equal(cpu.tier_mask, 3);
    assert_int_equal(cpu.l2_bytes, 524288);
    assert_true(cpu.l3_bytes_per_ns > 0.0);
    wf_device_t device = example;
    device.tier_mask = 1;
    assert_true(wf_device_cpu(&device, 1).f32_flops_per_ns == 20.0);
    device.tier_mask = 7;
    assert_true(wf_device_cpu(&device, 1).f32_flops_per_ns == 80.0); /* Zen 4 */
    snprintf(device.vendor, sizeof device.vendor, "GenuineIntel");
    assert_true(wf_device_cpu(&device, 1).f32_flops_per_ns == 160.0);
}

static void detection_of_this_machine(void **state)
{
    (void)state;
    unsetenv(WF_TIER_VARIABLE);
    wf_device_t device;
    wf_assert_ok(wf_device_detect(NULL, &device));
    assert_int_equal(device.tier_mask, device.detected_tier_mask);
    assert_true((device.tier_mask & 1) != 0);
    assert_string_not_equal(device.vendor, "");
    assert_true(device.caches.l1d_bytes >= 8192 && device.caches.l2_bytes >= device.caches.l1d_bytes);
    assert_in_range(device.core_count, 1, device.cpu_count);
    assert_true(device.clock_ghz > 0.5 && device.clock_ghz < 10.0);
    wf_device_t again;
    wf_assert_ok(wf_device_detect(NULL, &again));
    assert_memory_equal(&device, &again, sizeof device);

    wf_assert_ok(wf_device_detect("scalar", &again));
    assert_int_equal(again.tier_mask, 1);
    assert_int_equal(again.detected_tier_mask, device.detected_tier_mask);
    wf_assert_fails(wf_device_detect("sse9", &again), USAGE);

    setenv(WF_TIER_VARIABLE, "scalar", 1);
    wf_assert_ok(wf_device_detect(NULL, &again));
    assert_int_equal(again.tier_mask, 1);
    wf_assert_ok(wf_device_detect("amx", &again)); /* the argument wins */
    assert_int_equal(again.tier_mask, device.detected_tier_mask);
    setenv(WF_TIER_VARIABLE, "sse9", 1);
    wf_status_t status = wf_device_detect(NULL, &again);
    assert_non_null(strstr(wf_status_message(status), WF_TIER_VARIABLE));
    wf_assert_fails(status, USAGE);
    unsetenv(WF_TIER_VARIABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiers_of_known_machines),
        cmocka_unit_test(a_missing_part_lowers_the_tier),
        cmocka_unit_test(names_give_masks),
        cmocka_unit_test(this_machine_agrees_with_the_compiler),
        cmocka_unit_test(cpu_lists),
        cmocka_unit_test_setup_teardown(hyperthreads_are_one_core, make_root, remove_root),
        cmocka_unit_test_setup_teardown(quotas_of_version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(quotas_of_version_1, make_root, remove_root),
        cmocka_unit_test_setup_teardown(caches_from_files, make_root, remove_root),
        cmocka_unit_test(cpuid_and_files_agree),
        cmocka_unit_test(default_threads_are_the_smallest_limit),
        cmocka_unit_test(fingerprints_are_canonical),
        cmocka_unit_test(estimates_follow_tier_and_clock),
        cmocka_unit_test(detection_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
