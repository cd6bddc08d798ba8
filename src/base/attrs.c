/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "wayfinder/backend.h"

const wf_attr_t *wf_attrs_find(const wf_attrs_t *attrs, const char *name)
{
    size_t first = 0;
    size_t last = attrs->count;
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        int order = strcmp(attrs->items[middle].name, name);
        if (order == 0) {
            return &attrs->items[middle];
        }
        if (order < 0) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return NULL;
}

/* The attribute when it has this kind. */
static const wf_attr_t *wf_attrs_of_kind(const wf_attrs_t *attrs, const char *name, wf_attr_kind_t kind)
{
    const wf_attr_t *attr = wf_attrs_find(attrs, name);
    return attr != NULL && attr->kind == kind ? attr : NULL;
}

int64_t wf_attrs_int(const wf_attrs_t *attrs, const char *name, int64_t fallback)
{
    const wf_attr_t *attr = wf_attrs_of_kind(attrs, name, WF_ATTR_INT);
    return attr != NULL ? attr->v.i : fallback;
}

float wf_attrs_float(const wf_attrs_t *attrs, const char *name, float fallback)
{
    const wf_attr_t *attr = wf_attrs_of_kind(attrs, name, WF_ATTR_FLOAT);
    return attr != NULL ? attr->v.f : fallback;
}

const char *wf_attrs_string(const wf_attrs_t *attrs, const char *name, const char *fallback)
{
    const wf_attr_t *attr = wf_attrs_of_kind(attrs, name, WF_ATTR_STRING);
    return attr != NULL ? attr->v.s : fallback;
}

const int64_t *wf_attrs_ints(const wf_attrs_t *attrs, const char *name, size_t *out_count)
{
    const wf_attr_t *attr = wf_attrs_of_kind(attrs, name, WF_ATTR_INTS);
    *out_count = attr != NULL ? attr->count : 0;
    return attr != NULL ? attr->v.ints : NULL;
}

const float *wf_attrs_floats(const wf_attrs_t *attrs, const char *name, size_t *out_count)
{
    const wf_attr_t *attr = wf_attrs_of_kind(attrs, name, WF_ATTR_FLOATS);
    *out_count = attr != NULL ? attr->count : 0;
    return attr != NULL ? attr->v.floats : NULL;
}
