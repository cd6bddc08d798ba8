/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN opened at run time, and the OpenMP runtime below it.
 *
 * The library's settings belong to the process: its highest instruction set can only be said before its first
 * use, its cache of primitives is switched off (with it an enumeration repeats what was made before), its log
 * is silenced.
 */
#ifndef WF_ONEDNN_LIBRARY_H
#define WF_ONEDNN_LIBRARY_H

#include "backends/onednn/abi.h"
#include "base/mem.h"
#include "wayfinder/backend.h"

typedef struct wf_dnnl_library {
#define X(result, name, parameters) result(*name) parameters;
#include "backends/onednn/symbols.def"
#undef X
    void (*omp_set_num_threads)(int count);
    int (*omp_get_max_threads)(void);
    char version[24];  /* "2.6.3"; "" when there is no library */
    char refusal[160]; /* why the library is not used, a sentence without a dot; "" when it is */
    wf_decline_t refusal_reason;
} wf_dnnl_library_t;

/* Opens oneDNN for CPUs of the tiers in the mask. A library that is missing or cannot be used is no failure:
 * `refusal` says why. The environment variable WAYFINDER_ONEDNN names another file than the system's. Never
 * closed: code of the library may be on the stacks of its threads. */
void wf_dnnl_library_open(uint32_t tier_mask, wf_dnnl_library_t *out_library);

/* Threads that the library may use in the calling thread; returns what it was before. */
int wf_dnnl_threads_set(const wf_dnnl_library_t *library, int count);

/* OK, or INTERNAL with `what` and the library's number; OUT_OF_MEMORY for its own. */
wf_status_t wf_dnnl_check(int result, const char *what) WF_MUST_USE;

#endif
