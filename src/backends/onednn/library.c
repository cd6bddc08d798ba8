/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/onednn/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/parallel.h"
#include "device/tiers.h"

/* Files by the loader's name, with the version of the interface that we know; 0: known by name only. */
typedef struct library_row {
    const char *file;
    int major;
} library_row_t;
static const library_row_t library_rows[] = {{"libdnnl.so.2", 2}, {"libdnnl.so.3", 0}};

typedef struct isa_row {
    wf_tier_t tier;
    int isa;
} isa_row_t;
static const isa_row_t isa_rows[] = {
    {WF_TIER_AVX2, WF_DNNL_ISA_AVX2},
    {WF_TIER_AVX512, WF_DNNL_ISA_AVX512},
    {WF_TIER_AVX512_VNNI, WF_DNNL_ISA_AVX512_VNNI},
    {WF_TIER_AVX512_BF16, WF_DNNL_ISA_AVX512_BF16},
    {WF_TIER_AMX, WF_DNNL_ISA_AMX},
};

static void refuse(wf_dnnl_library_t *library, wf_decline_t reason, const char *format, ...) WF_PRINTF(3, 4);
static void refuse(wf_dnnl_library_t *library, wf_decline_t reason, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(library->refusal, sizeof library->refusal, format, args);
    va_end(args);
    library->refusal_reason = reason;
}

static void *open_file(wf_dnnl_library_t *library)
{
    const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    const char *named = getenv("WAYFINDER_ONEDNN");
    if (named != NULL && named[0] != '\0') {
        void *file = dlopen(named, flags);
        if (file == NULL)
            refuse(library, WF_DECLINE_LIBRARY, "oneDNN cannot be opened as WAYFINDER_ONEDNN says (%.80s)",
                   named);
        return file;
    }
    for (size_t i = 0; i < WF_COUNT_OF(library_rows); i++) {
        const library_row_t *row = &library_rows[i];
        void *file = dlopen(row->file, flags);
        if (file == NULL)
            continue;
        if (row->major != 0)
            return file;
        refuse(library, WF_DECLINE_LIBRARY,
               "%s has another interface than oneDNN 2 (libdnnl.so.2, Debian libdnnl2)", row->file);
        return NULL;
    }
    refuse(library, WF_DECLINE_LIBRARY, "oneDNN is not installed (libdnnl.so.2, Debian package libdnnl2)");
    return NULL;
}

/* A function by its name; data and function pointers have one size on every POSIX system. */
static bool find(void *file, const char *name, void *out_function)
{
    void *symbol = dlsym(file, name);
    memcpy(out_function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(void *file, wf_dnnl_library_t *library)
{
#define X(result, name, parameters)                                                          \
    if (!find(file, #name, &library->name)) {                                                \
        refuse(library, WF_DECLINE_LIBRARY, "the file of oneDNN has no function %s", #name); \
        return false;                                                                        \
    }
#include "backends/onednn/symbols.def"
#undef X
    return true;
}

/* The pool of our regions and that of the library must be one: two that spin cost 8 ms a region. */
static bool find_openmp(void *file, wf_dnnl_library_t *library)
{
    void *parallel = dlsym(file, "GOMP_parallel");
    if (!wf_pool_has_openmp()) {
        refuse(library, WF_DECLINE_LIBRARY, "this build has no libgomp, which oneDNN needs");
        return false;
    }
    if (parallel == NULL || parallel != wf_pool_openmp_entry() ||
        !find(file, "omp_set_num_threads", &library->omp_set_num_threads) ||
        !find(file, "omp_get_max_threads", &library->omp_get_max_threads)) {
        refuse(library, WF_DECLINE_LIBRARY, "oneDNN is built on another thread pool than libgomp");
        return false;
    }
    return true;
}

static int isa_of(uint32_t tier_mask)
{
    int isa = 0;
    for (size_t i = 0; i < WF_COUNT_OF(isa_rows); i++) {
        if ((tier_mask & WF_TIER_BIT(isa_rows[i].tier)) != 0)
            isa = isa_rows[i].isa;
    }
    return isa;
}

static void set_up(uint32_t tier_mask, wf_dnnl_library_t *library)
{
    const wf_dnnl_version_t *version = library->dnnl_version();
    if (version->major != 2 || version->minor < 6) {
        refuse(library, WF_DECLINE_LIBRARY, "oneDNN %d.%d is not 2.6 or a later 2.x", version->major,
               version->minor);
        return;
    }
    if (version->cpu_runtime != WF_DNNL_RUNTIME_OMP) {
        refuse(library, WF_DECLINE_LIBRARY, "oneDNN is built on another thread pool than OpenMP");
        return;
    }
    (void)library->dnnl_set_verbose(0);
    (void)library->dnnl_set_primitive_cache_capacity(0);
    /* Refused when the process used the library before; then what it was set to must do. */
    int wanted = isa_of(tier_mask);
    (void)library->dnnl_set_max_cpu_isa(wanted);
    if ((library->dnnl_get_effective_cpu_isa() & ~wanted) != 0) {
        refuse(library, WF_DECLINE_DEVICE, "oneDNN already runs at a higher CPU tier in this process");
        return;
    }
    (void)snprintf(library->version, sizeof library->version, "%d.%d.%d", version->major, version->minor,
                   version->patch);
}

void wf_dnnl_library_open(uint32_t tier_mask, wf_dnnl_library_t *out_library)
{
    *out_library = (wf_dnnl_library_t){0};
    if (isa_of(tier_mask) == 0) {
        refuse(out_library, WF_DECLINE_DEVICE, "oneDNN is used from the CPU tier avx2 on");
        return;
    }
    void *file = open_file(out_library);
    if (file != NULL && find_all(file, out_library) && find_openmp(file, out_library))
        set_up(tier_mask, out_library);
}

int wf_dnnl_threads_set(const wf_dnnl_library_t *library, int count)
{
    int before = library->omp_get_max_threads();
    if (before != count)
        library->omp_set_num_threads(count);
    return before;
}

wf_status_t wf_dnnl_check(int result, const char *what)
{
    if (result == WF_DNNL_SUCCESS)
        return WF_OK;
    if (result == 1) /* dnnl_out_of_memory */
        return wf_status_out_of_memory();
    return WF_ERROR(INTERNAL, "oneDNN: %s failed with status %d", what, result);
}
