/* SPDX-License-Identifier: Apache-2.0 */
/* May this machine use an engine? Decided by the header's fit, before anything else of the file counts. */
#ifndef WF_RUNTIME_MACHINE_H
#define WF_RUNTIME_MACHINE_H

#include "runtime/image.h"
#include "wayfinder/engine.h"

/* Reads the header alone. A file that is no engine, or another version's, passes: the image says it better.
 * MACHINE_MISMATCH names both machines and what to do. */
wf_status_t wf_machine_check_file(const char *path, const wf_engine_options_t *options) WF_MUST_USE;
/* The same for a validated image; `here` is the fingerprint of this machine. */
wf_status_t wf_machine_check(const wf_image_t *image, const char *here, bool ignore) WF_MUST_USE;
/* "exact", "family" or "portable". */
const char *wf_machine_fit_name(const wf_image_t *image);

#endif
