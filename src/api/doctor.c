/* SPDX-License-Identifier: Apache-2.0 */
/* wf_doctor: the machine as the tuner sees it. Every part is one function that adds an object to the
 * document. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/options.h"
#include "backend/registry.h"
#include "base/compiler.h"
#include "base/parallel.h"
#include "device/device.h"
#include "device/neighbours.h"
#include "tune/database_verbs.h"
#include "tune/noise.h"
#include "wayfinder/doctor.h"
#include "wayfinder/version.h"

#define DEFAULT_NOISE_S 3.0

typedef struct doctor {
    const wf_doctor_options_t *options;
    wf_device_t device;
    json_t *document, *findings;
} doctor_t;

/* ---- helpers ---- */

static wf_status_t put(doctor_t *doctor, const char *key, json_t *value)
{
    return json_object_set_new(doctor->document, key, value) == 0 ? WF_OK : wf_status_out_of_memory();
}

/* What a person should know, and what to do about it. */
static void find(doctor_t *doctor, const char *what, const char *advice)
{
    (void)json_array_append_new(doctor->findings, json_pack("{s:s s:s}", "what", what, "advice", advice));
}

/* The first line of a file, or null. */
static json_t *line_of(const char *path)
{
    char line[256] = "";
    FILE *file = fopen(path, "re");
    bool got = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL)
        (void)fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return got ? json_string(line) : json_null();
}

static json_t *tiers_json(uint32_t mask)
{
    json_t *list = json_array();
    for (unsigned tier = 0; tier < WF_TIER_COUNT; tier++) {
        if ((mask & WF_TIER_BIT(tier)) != 0)
            (void)json_array_append_new(list, json_string(wf_tier_name((wf_tier_t)tier)));
    }
    return list;
}

/* ---- parts ---- */

static wf_status_t look_at_cpu(doctor_t *doctor)
{
    const wf_device_t *d = &doctor->device;
    if (d->tier_mask != d->detected_tier_mask)
        find(doctor, "some CPU tiers are switched off by " WF_TIER_VARIABLE, "unset it to use all of them");
    return put(doctor, "cpu",
               json_pack("{s:s s:s s:i s:i s:i s:f s:o s:o s:I s:I s:I}", "vendor", d->vendor, "name",
                         d->name, "family", (int)d->family, "model", (int)d->model, "stepping",
                         (int)d->stepping, "clock_ghz", d->clock_ghz, "tiers",
                         tiers_json(d->detected_tier_mask), "tiers_allowed", tiers_json(d->tier_mask),
                         "l1d_bytes", (json_int_t)d->caches.l1d_bytes, "l2_bytes",
                         (json_int_t)d->caches.l2_bytes, "l3_bytes", (json_int_t)d->caches.l3_bytes));
}

static wf_status_t look_at_cores(doctor_t *doctor)
{
    const wf_device_t *d = &doctor->device;
    json_t *governor = line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    const char *name = json_string_value(governor);
    if (name != NULL && strcmp(name, "performance") != 0)
        find(doctor, "the frequency governor is not 'performance'",
             "clocks follow the load; measure long enough, or set the governor");
    if (d->quota_milli != 0 && d->quota_milli < 1000 * d->cpu_count)
        find(doctor, "a control group's quota is below the CPUs that are visible",
             "threads are stopped when the quota is used up; times have a long tail");
    if (d->core_count < d->cpu_count)
        find(doctor, "two threads share a core (SMT)", "Wayfinder uses one thread per core unless told");
    return put(doctor, "cores",
               json_pack("{s:i s:i s:o s:i s:o s:o}", "cpus", (int)d->cpu_count, "cores", (int)d->core_count,
                         "quota_milli", d->quota_milli != 0 ? json_integer(d->quota_milli) : json_null(),
                         "default_threads", (int)wf_device_default_threads(d), "governor", governor,
                         "smt_active", line_of("/sys/devices/system/cpu/smt/active")));
}

static wf_status_t look_at_neighbours(doctor_t *doctor)
{
    wf_cpu_ticks_t before = wf_cpu_ticks("");
    (void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    wf_cpu_ticks_t after = wf_cpu_ticks("");
    double total = (double)(after.total - before.total);
    bool known = before.known && after.known && total > 0;
    double busy = known ? 1 - (double)(after.idle - before.idle) / total : 0;
    double steal = known ? (double)(after.steal - before.steal) / total : 0;
    if (busy > 0.1)
        find(doctor, "other processes use the CPUs now",
             "measured times are worse and less sure; try when it is idle");
    if (steal > 0.01)
        find(doctor, "the hypervisor takes time away (steal)",
             "neighbours on the host; repeat measurements later");
    return put(doctor, "neighbours",
               json_pack("{s:o s:o s:o s:o}", "busy_share", known ? json_real(busy) : json_null(),
                         "steal_share", known ? json_real(steal) : json_null(), "loadavg",
                         line_of("/proc/loadavg"), "pressure", line_of("/proc/pressure/cpu")));
}

static wf_status_t look_at_noise(doctor_t *doctor)
{
    static const struct {
        double seconds;
        const char *name;
    } spans[] = {{10, "10s"}, {60, "1m"}, {600, "10m"}};
    const wf_doctor_options_t *options = doctor->options;
    wf_pool_t *pool = NULL;
    wf_noise_t noise;
    double seconds = options->noise_s > 0 ? options->noise_s : DEFAULT_NOISE_S;
    WF_TRY(wf_pool_create(wf_device_default_threads(&doctor->device), false, options->allocator, &pool));
    wf_parallel_t parallel = wf_pool_parallel(pool);
    wf_status_t status = wf_noise_measure(&parallel, seconds, options->allocator, options->progress,
                                          options->progress_self, &noise);
    wf_pool_destroy(pool);
    WF_TRY(status);
    json_t *detectable = json_object();
    for (size_t i = 0; i < WF_COUNT_OF(spans); i++) {
        double effect = wf_noise_detectable(&noise, spans[i].seconds);
        (void)json_object_set_new(detectable, spans[i].name,
                                  isfinite(effect) ? json_real(effect) : json_null());
    }
    if (wf_noise_detectable(&noise, 60) > 0.01)
        find(doctor, "one minute of paired measuring does not show a difference of 1 %",
             "give the gate more time, or a quieter machine");
    return put(doctor, "noise",
               json_pack("{s:I s:f s:f s:f s:f s:f s:o}", "pairs", (json_int_t)noise.pairs, "pair_s",
                         noise.pair_s, "sd", noise.sd, "inflation", noise.inflation, "canary_ns",
                         noise.canary_ns, "busy_share", noise.busy_share, "detectable", detectable));
}

static wf_status_t look_at_memory(doctor_t *doctor)
{
    unsigned long long kib = 0;
    char line[256];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL &&
           sscanf(line, "MemAvailable: %llu", &kib) != 1) {
    }
    if (file != NULL)
        (void)fclose(file);
    return put(doctor, "memory",
               json_pack("{s:o s:o s:o}", "available_bytes",
                         kib > 0 ? json_integer((json_int_t)(1024 * kib)) : json_null(),
                         "transparent_huge_pages", line_of("/sys/kernel/mm/transparent_hugepage/enabled"),
                         "reserved_huge_pages", line_of("/proc/sys/vm/nr_hugepages")));
}

/* oneDNN's dnnl_version() returns a pointer to three ints first (dnnl_common_types.h, since 1.0). */
static json_t *dnnl_json(const char *file)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const int *(*version)(void) = NULL;
    if (library == NULL)
        return json_pack("{s:s s:b}", "file", file, "found", 0);
    void *symbol = dlsym(library, "dnnl_version");
    memcpy(&version, &symbol, sizeof version);
    const int *numbers = symbol != NULL ? version() : NULL;
    char text[60] = "";
    if (numbers != NULL)
        (void)snprintf(text, sizeof text, "%d.%d.%d", numbers[0], numbers[1], numbers[2]);
    json_t *row = json_pack("{s:s s:b s:s}", "file", file, "found", 1, "version", text);
    (void)dlclose(library);
    return row;
}

static wf_status_t look_at_libraries(doctor_t *doctor)
{
    static const char *const files[] = {"libdnnl.so.3", "libdnnl.so.2"};
    wf_backends_t *backends = NULL;
    wf_cpu_t cpu = wf_device_cpu(&doctor->device, 0);
    json_t *sources = json_array(), *libraries = json_array();
    wf_status_t status = wf_backends_open(&cpu, NULL, doctor->options->allocator, (wf_log_t){0}, &backends);
    for (size_t i = 0; status == WF_OK && i < wf_backends_count(backends); i++) {
        void *self;
        const wf_source_t *source = wf_backends_source(backends, i, &self);
        const char *version = source->version != NULL ? source->version(self) : "";
        (void)json_array_append_new(
            sources, json_pack("{s:s s:s}", "name", source->name, "version", version != NULL ? version : ""));
    }
    if (status != WF_OK)
        find(doctor, wf_status_message(status), wf_status_hint(status));
    wf_status_free(status);
    wf_backends_close(backends);
    bool found = false;
    for (size_t i = 0; i < WF_COUNT_OF(files); i++) {
        json_t *row = dnnl_json(files[i]);
        found |= json_is_true(json_object_get(row, "found"));
        (void)json_array_append_new(libraries, row);
    }
    if (!found)
        find(doctor, "oneDNN is not installed",
             "optional: more CPU kernels to choose from (Debian: libdnnl2)");
    WF_TRY(put(doctor, "sources", sources));
    return put(doctor, "libraries", libraries);
}

static const char *database_state(const char *path, const doctor_t *doctor, int64_t *out_rows)
{
    wf_database_t *database = NULL;
    wf_text_t text;
    *out_rows = 0;
    if (access(path, F_OK) != 0)
        return "none yet";
    wf_status_t status = wf_database_open_copy(path, doctor->options->allocator, &database);
    wf_text_init(&text, doctor->options->allocator, SIZE_MAX / 2);
    const char *state = "sound";
    if (status != WF_OK)
        state = strstr(wf_status_message(status), "damaged") != NULL ? "damaged" : "not one of this version";
    if (status == WF_OK) {
        status = wf_database_verb(database, "verify", NULL, true, &text);
        json_t *said = status == WF_OK ? json_loads(wf_text_cstr(&text), 0, NULL) : NULL;
        *out_rows = json_integer_value(json_object_get(said, "timings"));
        json_decref(said);
        if (status != WF_OK)
            state = "has rows that cannot be";
    }
    wf_status_free(status);
    wf_text_deinit(&text);
    wf_database_close(database);
    return state;
}

static wf_status_t look_at_database(doctor_t *doctor)
{
    char path[4096] = "", folder[4096];
    int64_t rows = 0;
    const char *given = doctor->options->timing_cache;
    if (given != NULL)
        (void)snprintf(path, sizeof path, "%s", given);
    else if (!wf_database_default_path(path, sizeof path))
        find(doctor, "there is no home folder",
             "name a timing database with --timing-cache, or set XDG_CACHE_HOME");
    const char *state = path[0] != '\0' ? database_state(path, doctor, &rows) : "nowhere";
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
    bool there = path[0] != '\0' && access(path, F_OK) == 0;
    bool writable = access(there ? path : slash != NULL ? folder : ".", W_OK) == 0;
    if (there && !writable)
        find(doctor, "the timing database cannot be written", "what is measured is not kept");
    if (strcmp(state, "damaged") == 0)
        find(doctor, "the timing database is damaged", "the next tuning sets it aside and begins a new one");
    return put(doctor, "database",
               json_pack("{s:s s:s s:I s:b}", "path", path, "state", state, "timings", (json_int_t)rows,
                         "writable", writable));
}

static wf_status_t look_at_folders(doctor_t *doctor)
{
    static const struct {
        const char *name, *variable, *below_home;
    } rows[] = {{"cache", "XDG_CACHE_HOME", "/.cache"},
                {"state", "XDG_STATE_HOME", "/.local/state"},
                {"runtime", "XDG_RUNTIME_DIR", NULL}};
    json_t *folders = json_object();
    for (size_t i = 0; i < WF_COUNT_OF(rows); i++) {
        const char *set = getenv(rows[i].variable), *home = getenv("HOME");
        char path[4096] = "";
        if (set != NULL && set[0] == '/')
            (void)snprintf(path, sizeof path, "%s/wayfinder", set);
        else if (home != NULL && rows[i].below_home != NULL)
            (void)snprintf(path, sizeof path, "%s%s/wayfinder", home, rows[i].below_home);
        json_t *value = path[0] != '\0'
                            ? json_pack("{s:s s:b}", "path", path, "there", access(path, F_OK) == 0)
                            : json_null();
        (void)json_object_set_new(folders, rows[i].name, value);
    }
    return put(doctor, "folders", folders);
}

/* ---- the whole ---- */

static wf_status_t examine(doctor_t *doctor)
{
    wf_status_t (*const parts[])(doctor_t *) = {look_at_cpu,      look_at_cores,  look_at_neighbours,
                                                look_at_noise,    look_at_memory, look_at_libraries,
                                                look_at_database, look_at_folders};
    WF_TRY(wf_device_detect(NULL, &doctor->device));
    WF_TRY(put(doctor, "schema_version", json_integer(1)));
    WF_TRY(put(doctor, "version", json_string(WF_VERSION_TEXT)));
    for (size_t i = 0; i < WF_COUNT_OF(parts); i++)
        WF_TRY(parts[i](doctor));
    return json_object_set(doctor->document, "findings", doctor->findings) == 0 ? WF_OK
                                                                                : wf_status_out_of_memory();
}

wf_status_t wf_doctor(const wf_doctor_options_t *options, char **out_json)
{
    *out_json = NULL;
    wf_doctor_options_t known = {0};
    if (options != NULL) {
        if (options->struct_bytes == 0 || options->struct_bytes > sizeof known)
            return WF_ERROR(USAGE, "wf_doctor_options_t.struct_bytes is %u, this library knows %zu",
                            options->struct_bytes, sizeof known);
        memcpy(&known, options, options->struct_bytes);
    }
    if (known.allocator.resize == NULL)
        known.allocator = wf_allocator_system();
    doctor_t doctor = {.options = &known, .document = json_object(), .findings = json_array()};
    wf_status_t status =
        doctor.document != NULL && doctor.findings != NULL ? examine(&doctor) : wf_status_out_of_memory();
    if (status == WF_OK)
        status = wf_api_json_text(doctor.document, known.allocator, out_json);
    json_decref(doctor.findings);
    json_decref(doctor.document);
    return status;
}
