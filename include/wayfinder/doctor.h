/* SPDX-License-Identifier: Apache-2.0 */
/* Doctor: what this machine is, how quiet it is, and what can be measured on it. */
#ifndef WAYFINDER_DOCTOR_H
#define WAYFINDER_DOCTOR_H

#include "wayfinder/allocator.h"
#include "wayfinder/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wf_doctor_options {
    uint32_t struct_bytes;    /* sizeof(wf_doctor_options_t) */
    double noise_s;           /* time to measure the noise floor; 0: 3 s */
    const char *timing_cache; /* path of the timing database; NULL: the user's */
    wf_allocator_t allocator; /* resize NULL: the system's */
    void *progress_self;
    wf_progress_fn *progress; /* NULL: none; asking to stop ends the measuring early */
} wf_doctor_options_t;

/* Looks at the machine and describes it as one JSON document: cpu, cores, neighbours, noise (with the
 * smallest effect that 10 s, 1 min and 10 min of paired measuring can show), memory, libraries, database,
 * folders, findings. Changes nothing; what cannot be found out is null. *out_json is freed with the
 * allocator's resize to 0 of its length + 1 bytes. OUT_OF_MEMORY, USAGE. */
WF_API wf_status_t wf_doctor(const wf_doctor_options_t *options, char **out_json) WF_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
