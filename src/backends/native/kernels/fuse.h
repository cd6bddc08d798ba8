/* SPDX-License-Identifier: Apache-2.0 */
/* The leading stages of an epilogue that a kernel applies in registers when it stores a result. */
#ifndef WF_NATIVE_FUSE_H
#define WF_NATIVE_FUSE_H

#include <math.h>

#include "backends/native/kernels/epilogue.h"

typedef struct wf_fused_stages {
    const wf_ep_stage *bias, *residual; /* NULL: none */
    int limit;                          /* 0: none; 1: lo; 2: lo and hi */
    float lo, hi;
    size_t count; /* stages taken */
    int reads_c;  /* a stage that was not taken has the result's own memory as operand */
} wf_fused_stages;

/* Takes [ADD column][ADD full][RELU or CLIP], each optional, from the front. `c` is where the results go. */
static inline wf_fused_stages wf_ep_fuse(const wf_ep_stage *s, size_t count, const float *c)
{
    wf_fused_stages f = {0};
    if (f.count < count && s[f.count].fn == WF_EP_ADD && s[f.count].operand == WF_EP_COL)
        f.bias = s + f.count++;
    if (f.count < count && s[f.count].fn == WF_EP_ADD && s[f.count].operand == WF_EP_FULL)
        f.residual = s + f.count++;
    if (f.count < count && (s[f.count].fn == WF_EP_RELU || s[f.count].fn == WF_EP_CLIP)) {
        const int clip = s[f.count].fn == WF_EP_CLIP;
        f.limit = clip ? 2 : 1;
        f.lo = clip ? s[f.count].a : 0.0f;
        f.hi = clip ? s[f.count].b : INFINITY;
        f.count++;
    }
    for (size_t i = f.count; i < count; i++)
        f.reads_c |= s[i].operand == WF_EP_FULL && s[i].data == c;
    return f;
}

#endif
