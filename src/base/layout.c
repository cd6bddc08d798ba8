/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "wayfinder/backend.h"

static const char *const wf_layout_names[WF_LAYOUT_COUNT] = {
    [WF_LAYOUT_ROW] = "row",
    [WF_LAYOUT_LAST] = "last",
    [WF_LAYOUT_B8] = "b8",
    [WF_LAYOUT_B16] = "b16",
};

const char *wf_layout_name(wf_layout_t layout)
{
    return (unsigned)layout < WF_LAYOUT_COUNT ? wf_layout_names[layout] : "none";
}

bool wf_layout_from_name(const char *name, wf_layout_t *out_layout)
{
    for (unsigned i = 0; i < WF_LAYOUT_COUNT; i++) {
        if (strcmp(wf_layout_names[i], name) == 0) {
            *out_layout = (wf_layout_t)i;
            return true;
        }
    }
    return false;
}
