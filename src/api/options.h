/* SPDX-License-Identifier: Apache-2.0 */
/* What the entry points share: options checked, jobs made from models, JSON handed out. */
#ifndef WF_API_OPTIONS_H
#define WF_API_OPTIONS_H

#include <jansson.h>

#include "onnx/onnx.h"
#include "tune/job.h"

struct wf_model {
    wf_allocator_t allocator;
    wf_onnx_model_t *onnx;
};

/* Copies options of this or an older struct version and fills defaults. USAGE for a size this library does
 * not know. */
wf_status_t wf_api_build_options(const wf_build_options_t *options,
                                 wf_build_options_t *out_options) WF_MUST_USE;
/* Imports every specialisation twice (reference and to be rewritten) and makes the job. */
wf_status_t wf_api_job(const wf_model_t *model, const wf_build_options_t *options,
                       wf_job_t **out_job) WF_MUST_USE;
/* Compact JSON as a zero-terminated text of `allocator`. json NULL is out of memory. */
wf_status_t wf_api_json_text(const json_t *json, wf_allocator_t allocator, char **out_text) WF_MUST_USE;
/* Frees such a text. NULL is allowed. */
void wf_api_text_free(wf_allocator_t allocator, char *text);

#endif
