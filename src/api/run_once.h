/* SPDX-License-Identifier: Apache-2.0 */
/* One run of an engine on given tensors, with outputs of its own. */
#ifndef WF_API_RUN_ONCE_H
#define WF_API_RUN_ONCE_H

#include "wayfinder/context.h"

/* Runs specialisation `spec` once. out_outputs: one tensor per output, made with `allocator` and filled with
 * 0xff before the run, so that an output nobody writes does not pass for a result; freed by the caller with
 * wf_tensor_free. On failure none is left. */
wf_status_t wf_api_run_once(const wf_engine_t *engine, size_t spec, const wf_tensor_t *inputs,
                            wf_allocator_t allocator, wf_tensor_t *out_outputs) WF_MUST_USE;

#endif
