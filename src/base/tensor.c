/* SPDX-License-Identifier: Apache-2.0 */
#include "wayfinder/tensor.h"

#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"

static const struct wf_dtype_row {
    const char *name;
    uint32_t bits;
    int32_t onnx;
    const char *numpy;
} wf_dtype_rows[WF_DTYPE_COUNT] = {
    [WF_DTYPE_NONE] = {"none", 0, 0, ""},
#define X(name, text, bits, onnx, numpy) [WF_DTYPE_##name] = {text, bits, onnx, numpy},
#include "wayfinder/dtypes.def"
#undef X
};

/* The row of NONE for a number that is no type. */
static const struct wf_dtype_row *wf_dtype_row(wf_dtype_t dtype)
{
    return &wf_dtype_rows[(unsigned)dtype < WF_DTYPE_COUNT ? dtype : WF_DTYPE_NONE];
}

const char *wf_dtype_name(wf_dtype_t dtype)
{
    return wf_dtype_row(dtype)->name;
}

wf_dtype_t wf_dtype_from_name(const char *name)
{
    for (unsigned i = WF_DTYPE_NONE + 1; i < WF_DTYPE_COUNT; i++) {
        if (strcmp(wf_dtype_rows[i].name, name) == 0) {
            return (wf_dtype_t)i;
        }
    }
    return WF_DTYPE_NONE;
}

wf_dtype_t wf_dtype_from_onnx(int64_t onnx_type)
{
    for (unsigned i = WF_DTYPE_NONE + 1; i < WF_DTYPE_COUNT; i++) {
        if (wf_dtype_rows[i].onnx == onnx_type) {
            return (wf_dtype_t)i;
        }
    }
    return WF_DTYPE_NONE;
}

uint32_t wf_dtype_bits(wf_dtype_t dtype)
{
    return wf_dtype_row(dtype)->bits;
}

const char *wf_dtype_numpy(wf_dtype_t dtype)
{
    return wf_dtype_row(dtype)->numpy;
}

int64_t wf_type_elems(const wf_type_t *type)
{
    int64_t elems = 1;
    bool empty = false;
    bool fits = true;
    for (uint32_t i = 0; i < type->rank; i++) {
        /* [2^40, 2^40, 0] has no elements, although the first two dims do not fit. */
        empty = empty || type->dims[i] == 0;
        fits = fits && type->dims[i] >= 0 && wf_i64_mul(elems, type->dims[i], &elems);
    }
    if (empty) {
        return 0;
    }
    return fits ? elems : -1;
}

int64_t wf_type_bytes(const wf_type_t *type)
{
    int64_t elems = wf_type_elems(type);
    int64_t bits;
    if (elems < 0 || !wf_i64_mul(elems, wf_dtype_bits(type->dtype), &bits)) {
        return -1;
    }
    return bits / 8 + (bits % 8 != 0);
}

bool wf_type_equal(const wf_type_t *a, const wf_type_t *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank) {
        return false;
    }
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i]) {
            return false;
        }
    }
    return true;
}
