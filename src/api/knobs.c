/* SPDX-License-Identifier: Apache-2.0 */
/* wf_knobs_command: the catalogue of knobs. */
#include <string.h>

#include "route/knob_values.h"
#include "wayfinder/builder.h"

wf_status_t wf_knobs_command(const char *verb, const char *argument, bool json, wf_allocator_t allocator,
                             char **out_text, size_t *out_text_bytes)
{
    *out_text = NULL;
    *out_text_bytes = 0;
    if (allocator.resize == NULL)
        allocator = wf_allocator_system();
    wf_text_t text;
    wf_text_init(&text, allocator, SIZE_MAX / 2);
    wf_status_t status = wf_knobs_describe(verb, argument, json, &text);
    if (status == WF_OK)
        status = wf_alloc(allocator, text.length + 1, 1, out_text);
    if (status == WF_OK) {
        memcpy(*out_text, wf_text_cstr(&text), text.length);
        *out_text_bytes = text.length;
    }
    wf_text_deinit(&text);
    return status;
}
