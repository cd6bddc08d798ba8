/* SPDX-License-Identifier: Apache-2.0 */
#include "device/topology.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"

/* ---- Small files ---- */

#define WF_SYSTEM_FILE_MAX_BYTES 65536u
#define WF_SYSTEM_PATH_MAX_BYTES 4096u

/* Reads a file of /proc or /sys into text[0, capacity), zero-terminated, cut beyond; false when it cannot be
 * read. */
static bool wf_system_file_read(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    size_t length = 0;
    ssize_t got;
    while (length + 1 < capacity && (got = read(fd, text + length, capacity - 1 - length)) > 0) {
        length += (size_t)got;
    }
    close(fd);
    text[length] = 0;
    return length > 0;
}

/* A decimal number that is the whole text up to a newline; false for anything else. */
static bool wf_number_parse(const char *text, uint64_t *out_value)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    *out_value = strtoull(text, &end, 10);
    return *end == 0 || *end == '\n';
}

static bool wf_number_read(const char *path, uint64_t *out_value)
{
    char text[64];
    return wf_system_file_read(path, text, sizeof text) && wf_number_parse(text, out_value);
}

/* ---- CPU sets ---- */

bool wf_cpu_set_has(const wf_cpu_set_t *set, uint32_t cpu)
{
    return cpu < WF_MAX_CPUS && (set->words[cpu / 64] >> (cpu % 64) & 1) != 0;
}

void wf_cpu_set_add(wf_cpu_set_t *set, uint32_t cpu)
{
    if (cpu < WF_MAX_CPUS) {
        set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    }
}

uint32_t wf_cpu_set_count(const wf_cpu_set_t *set)
{
    uint32_t count = 0;
    for (size_t i = 0; i < WF_COUNT_OF(set->words); i++) {
        count += (uint32_t)__builtin_popcountll(set->words[i]);
    }
    return count;
}

bool wf_cpu_set_parse(const char *text, wf_cpu_set_t *out_set)
{
    *out_set = (wf_cpu_set_t){{0}};
    const char *rest = text;
    while (*rest >= '0' && *rest <= '9') {
        char *end;
        unsigned long first = strtoul(rest, &end, 10);
        unsigned long last = first;
        if (*end == '-') {
            rest = end + 1;
            if (*rest < '0' || *rest > '9') {
                return false;
            }
            last = strtoul(rest, &end, 10);
        }
        if (first > last || last >= WF_MAX_CPUS) {
            return false;
        }
        for (unsigned long cpu = first; cpu <= last; cpu++) {
            wf_cpu_set_add(out_set, (uint32_t)cpu);
        }
        rest = end;
        if (*rest == ',') {
            rest++;
        } else {
            break;
        }
    }
    return rest != text && (*rest == 0 || *rest == '\n');
}

wf_cpu_set_t wf_cpus_allowed(void)
{
    wf_cpu_set_t set = {{0}};
    /* A cpu_set_t holds 1024 CPUs only; the call takes longer ones. */
    union {
        cpu_set_t head;
        unsigned char bytes[WF_MAX_CPUS / 8];
    } mask = {.bytes = {0}};
    if (sched_getaffinity(0, sizeof mask, &mask.head) == 0) {
        for (uint32_t cpu = 0; cpu < WF_MAX_CPUS; cpu++) {
            if (CPU_ISSET_S(cpu, sizeof mask, &mask.head)) {
                wf_cpu_set_add(&set, cpu);
            }
        }
    }
    if (wf_cpu_set_count(&set) == 0) {
        wf_cpu_set_add(&set, 0);
    }
    return set;
}

/* ---- Cores ---- */

/* True when the CPU is the first of its core among the CPUs. */
static bool wf_cpu_leads_core(const char *root, const wf_cpu_set_t *cpus, uint32_t cpu)
{
    char path[WF_SYSTEM_PATH_MAX_BYTES];
    char text[1024];
    wf_cpu_set_t siblings;
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", root, cpu);
    if (!wf_system_file_read(path, text, sizeof text) || !wf_cpu_set_parse(text, &siblings)) {
        return true;
    }
    for (uint32_t other = 0; other < cpu; other++) {
        if (wf_cpu_set_has(&siblings, other) && wf_cpu_set_has(cpus, other)) {
            return false;
        }
    }
    return true;
}

uint32_t wf_physical_cores(const char *root, const wf_cpu_set_t *cpus)
{
    uint32_t count = 0;
    for (uint32_t cpu = 0; cpu < WF_MAX_CPUS; cpu++) {
        count += wf_cpu_set_has(cpus, cpu) && wf_cpu_leads_core(root, cpus, cpu);
    }
    return count;
}

/* ---- Control groups ---- */

/* Where a hierarchy is mounted and which group of it the process is in. */
typedef struct wf_cgroup {
    char mount[WF_SYSTEM_PATH_MAX_BYTES]; /* "" : not mounted */
    char group[WF_SYSTEM_PATH_MAX_BYTES]; /* "/a/b" */
} wf_cgroup_t;

/* Whether a comma-separated list has the word. */
static bool wf_list_has(const char *list, size_t list_bytes, const char *word)
{
    size_t word_bytes = strlen(word);
    for (size_t i = 0; i + word_bytes <= list_bytes; i++) {
        bool starts = i == 0 || list[i - 1] == ',';
        bool ends = i + word_bytes == list_bytes || list[i + word_bytes] == ',';
        if (starts && ends && memcmp(list + i, word, word_bytes) == 0) {
            return true;
        }
    }
    return false;
}

static void wf_copy_word(char *out, size_t capacity, const char *text, size_t length)
{
    length = WF_MIN(length, capacity - 1);
    memcpy(out, text, length);
    out[length] = 0;
}

/* /proc/self/cgroup: lines of "number:controllers:/group"; version 2 has no controllers. */
static void wf_cgroup_find_group(const char *lines, bool v2, wf_cgroup_t *out)
{
    for (const char *line = lines; *line != 0;) {
        size_t line_bytes = strcspn(line, "\n");
        const char *controllers = memchr(line, ':', line_bytes);
        const char *group = controllers != NULL
                                ? memchr(controllers + 1, ':', line_bytes - (size_t)(controllers + 1 - line))
                                : NULL;
        if (group != NULL) {
            size_t controllers_bytes = (size_t)(group - controllers) - 1;
            if (v2 ? controllers_bytes == 0 : wf_list_has(controllers + 1, controllers_bytes, "cpu")) {
                wf_copy_word(out->group, sizeof out->group, group + 1,
                             line_bytes - (size_t)(group + 1 - line));
            }
        }
        line += line_bytes;
        line += *line == '\n';
    }
}

/* /proc/self/mountinfo (proc(5)): the mount point is the fifth word; after " - " come type, source and
 * options. */
static void wf_cgroup_find_mount(const char *lines, bool v2, wf_cgroup_t *out)
{
    for (const char *line = lines; *line != 0;) {
        size_t line_bytes = strcspn(line, "\n");
        const char *end = line + line_bytes;
        const char *word = line;
        for (int i = 0; i < 4 && word != NULL; i++) {
            word = memchr(word, ' ', (size_t)(end - word));
            word = word != NULL ? word + 1 : NULL;
        }
        const char *tail = word != NULL ? memmem(word, (size_t)(end - word), " - ", 3) : NULL;
        if (tail != NULL) {
            const char *type = tail + 3;
            const char *source = memchr(type, ' ', (size_t)(end - type));
            const char *options = source != NULL ? memchr(source + 1, ' ', (size_t)(end - source - 1)) : NULL;
            size_t type_bytes = source != NULL ? (size_t)(source - type) : 0;
            bool is_v2 = type_bytes == 7 && memcmp(type, "cgroup2", 7) == 0;
            bool is_v1_cpu = type_bytes == 6 && memcmp(type, "cgroup", 6) == 0 && options != NULL &&
                             wf_list_has(options + 1, (size_t)(end - options - 1), "cpu");
            if (v2 ? is_v2 : is_v1_cpu) {
                wf_copy_word(out->mount, sizeof out->mount, word, strcspn(word, " "));
            }
        }
        line = end + (*end == '\n');
    }
}

/* The quota that one group's files state; 0: none. */
static uint32_t wf_cgroup_group_quota(const char *root, const char *folder, bool v2)
{
    char path[3 * WF_SYSTEM_PATH_MAX_BYTES];
    uint64_t quota_us;
    uint64_t period_us;
    if (v2) {
        char text[64];
        snprintf(path, sizeof path, "%s%s/cpu.max", root, folder);
        if (!wf_system_file_read(path, text, sizeof text)) {
            return 0;
        }
        char *space = strchr(text, ' ');
        if (space == NULL) {
            return 0;
        }
        *space = 0;
        if (!wf_number_parse(text, &quota_us) || !wf_number_parse(space + 1, &period_us)) {
            return 0; /* "max 100000" */
        }
    } else {
        snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", root, folder);
        bool known = wf_number_read(path, &quota_us); /* "-1": none */
        snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", root, folder);
        if (!known || !wf_number_read(path, &period_us)) {
            return 0;
        }
    }
    if (period_us == 0 || quota_us > UINT32_MAX) {
        return 0;
    }
    uint64_t quota_milli = quota_us * 1000 / period_us;
    return (uint32_t)WF_MIN(WF_MAX(quota_milli, (uint64_t)1), (uint64_t)UINT32_MAX);
}

static uint32_t wf_smaller_quota(uint32_t a, uint32_t b)
{
    return a == 0 ? b : b == 0 ? a : WF_MIN(a, b);
}

static uint32_t wf_cgroup_hierarchy_quota(const char *root, const char *groups, const char *mounts, bool v2)
{
    wf_cgroup_t cgroup = {"", ""};
    wf_cgroup_find_group(groups, v2, &cgroup);
    wf_cgroup_find_mount(mounts, v2, &cgroup);
    if (cgroup.mount[0] == 0) {
        return 0;
    }
    /* From the group up to the mount. A container without a group namespace sees the host's path of its
     * group, which its own mount does not have: those folders state nothing, and the mount itself is the
     * group. */
    uint32_t quota_milli = 0;
    for (;;) {
        char folder[2 * WF_SYSTEM_PATH_MAX_BYTES];
        snprintf(folder, sizeof folder, "%s%s", cgroup.mount, cgroup.group);
        quota_milli = wf_smaller_quota(quota_milli, wf_cgroup_group_quota(root, folder, v2));
        char *slash = strrchr(cgroup.group, '/');
        if (slash == NULL) {
            return quota_milli;
        }
        *slash = 0;
    }
}

uint32_t wf_cgroup_quota_milli(const char *root)
{
    char path[WF_SYSTEM_PATH_MAX_BYTES];
    char groups[WF_SYSTEM_PATH_MAX_BYTES];
    char mounts[WF_SYSTEM_FILE_MAX_BYTES];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!wf_system_file_read(path, groups, sizeof groups)) {
        return 0;
    }
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    if (!wf_system_file_read(path, mounts, sizeof mounts)) {
        return 0;
    }
    return wf_smaller_quota(wf_cgroup_hierarchy_quota(root, groups, mounts, true),
                            wf_cgroup_hierarchy_quota(root, groups, mounts, false));
}

/* ---- Caches ---- */

static void wf_caches_put(wf_caches_t *caches, unsigned level, bool instructions_only, size_t bytes)
{
    size_t *slots[] = {NULL, &caches->l1d_bytes, &caches->l2_bytes, &caches->l3_bytes};
    if (level >= 1 && level < WF_COUNT_OF(slots) && !instructions_only) {
        *slots[level] = bytes;
    }
}

wf_caches_t wf_caches_from_sysfs(const char *root, uint32_t cpu)
{
    wf_caches_t caches = {0};
    for (unsigned index = 0; index < 16; index++) {
        char path[WF_SYSTEM_PATH_MAX_BYTES];
        char type[32];
        char size[32];
        uint64_t level;
        int length =
            snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%u/cache/index%u/", root, cpu, index);
        size_t left = sizeof path - (size_t)length;
        snprintf(path + length, left, "level");
        if (!wf_number_read(path, &level)) {
            break;
        }
        snprintf(path + length, left, "type");
        bool typed = wf_system_file_read(path, type, sizeof type);
        snprintf(path + length, left, "size");
        if (!typed || !wf_system_file_read(path, size, sizeof size)) {
            continue;
        }
        char *unit;
        uint64_t amount = strtoull(size, &unit, 10); /* "512K" */
        unsigned shift = *unit == 'K' ? 10 : *unit == 'M' ? 20 : 0;
        if (amount > 0 && amount <= SIZE_MAX >> shift) {
            wf_caches_put(&caches, (unsigned)level, type[0] == 'I', (size_t)amount << shift);
        }
    }
    return caches;
}

#if defined(__x86_64__)

#include <cpuid.h>

/* Both leaves describe one cache per subleaf in the same words (Intel SDM volume 2, CPUID leaf 4; AMD APM
 * volume 3, function 8000_001d). */
wf_caches_t wf_caches_from_cpuid(void)
{
    wf_caches_t caches = {0};
    static const unsigned leaves[] = {4, 0x8000001d};
    for (size_t i = 0; i < WF_COUNT_OF(leaves) && caches.l1d_bytes == 0; i++) {
        for (unsigned index = 0; index < 16; index++) {
            unsigned eax;
            unsigned ebx;
            unsigned ecx;
            unsigned edx;
            if (!__get_cpuid_count(leaves[i], index, &eax, &ebx, &ecx, &edx) || (eax & 0x1f) == 0) {
                break;
            }
            size_t ways = (ebx >> 22) + 1;
            size_t partitions = (ebx >> 12 & 0x3ff) + 1;
            size_t line_bytes = (ebx & 0xfff) + 1;
            size_t sets = (size_t)ecx + 1;
            wf_caches_put(&caches, eax >> 5 & 7, (eax & 0x1f) == 2, ways * partitions * line_bytes * sets);
        }
    }
    return caches;
}

#else

wf_caches_t wf_caches_from_cpuid(void)
{
    return (wf_caches_t){0};
}

#endif
