/* SPDX-License-Identifier: Apache-2.0 */
/* Advise: is tuning a model worth its time? Answered from estimates and from recorded tunings, nothing is
 * measured. */
#ifndef WAYFINDER_ADVISE_H
#define WAYFINDER_ADVISE_H

#include "wayfinder/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wf_advise_options {
    uint32_t struct_bytes;    /* sizeof(wf_advise_options_t) */
    wf_build_options_t build; /* shapes, threads, settings of the model */
    const char *timing_cache; /* path of the timing database; NULL: the user's */
    double requests_per_day;  /* 0: not said */
    double price_per_hour;    /* of the machine, in any currency; 0: not said */
    double p99_ns;            /* a latency that must be kept; 0: none */
    double budget_s;          /* what the tuning would take; 0: 120 */
} wf_advise_options_t;

/* One JSON document: estimate, bound and headroom of the model's default route; expected ratio after tuning
 * with an interval, from tunings of like models in the database (or null and why); cost, saving, payback; the
 * budget at which like tunings had nothing left to find. `record` is the path of a tuning record and stands
 * in for the model (then there is no bound): exactly one of the two is given. *out_json is freed as
 * wf_doctor's. Statuses of wf_build, RECORD_MISMATCH for a file that is no record. */
WF_API wf_status_t wf_advise(const wf_model_t *model, const char *record, const wf_advise_options_t *options,
                             char **out_json) WF_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
