/* SPDX-License-Identifier: Apache-2.0 */
/* How two tensors compare, and inputs that are the same everywhere. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "verify/numeric.h"
#include "wayfinder/verify.h"

/* ---- comparison ---- */

typedef struct sums {
    double dot, got2, want2, diff2, abs_diff, max_abs, max_rel, want_max;
    uint64_t nan_mismatches, violations;
} sums_t;

/* One unit in the last place of a 16-bit float at `magnitude`; 0 for other types. A recorded tolerance below
 * it would ask for the same bits, which the order of additions does not give. */
static double last_place(wf_dtype_t dtype, double magnitude)
{
    int exponent = 0;
    (void)frexp(magnitude, &exponent);
    if (dtype == WF_DTYPE_BF16)
        return ldexp(1, exponent - 8);
    if (dtype == WF_DTYPE_F16)
        return ldexp(1, (exponent < -13 ? -13 : exponent) - 11);
    return 0;
}

static bool same_special(double got, double want)
{
    return (isnan(got) && isnan(want)) || got == want;
}

static void add_pair(sums_t *s, wf_dtype_t dtype, double got, double want, double rtol, double atol)
{
    if (!isfinite(got) || !isfinite(want)) {
        if (!same_special(got, want))
            s->nan_mismatches++;
        return;
    }
    double diff = fabs(got - want), magnitude = fabs(want);
    s->dot += got * want;
    s->got2 += got * got;
    s->want2 += want * want;
    s->diff2 += diff * diff;
    s->abs_diff += diff;
    s->max_abs = fmax(s->max_abs, diff);
    s->want_max = fmax(s->want_max, magnitude);
    if (magnitude > 0)
        s->max_rel = fmax(s->max_rel, diff / magnitude);
    if (diff > fmax(atol + rtol * magnitude, last_place(dtype, fmax(magnitude, fabs(got)))))
        s->violations++;
}

/* The share of rows (of the last axis) with the same index of the largest element. */
static double top1_agreement(const wf_tensor_t *got, const wf_tensor_t *want, int64_t elems)
{
    int64_t row = want->type.rank > 0 ? want->type.dims[want->type.rank - 1] : 0;
    if (row == 0 || elems == 0)
        return 1;
    int64_t agree = 0, rows = elems / row;
    for (int64_t r = 0; r < rows; r++) {
        int64_t best_got = 0, best_want = 0;
        double top_got = -INFINITY, top_want = -INFINITY;
        for (int64_t i = 0; i < row; i++) {
            double g = wf_numeric_get(got, r * row + i), w = wf_numeric_get(want, r * row + i);
            if (g > top_got) {
                top_got = g;
                best_got = i;
            }
            if (w > top_want) {
                top_want = w;
                best_want = i;
            }
        }
        agree += best_got == best_want;
    }
    return (double)agree / (double)rows;
}

wf_accuracy_t wf_accuracy_compare(const wf_tensor_t *got, const wf_tensor_t *want, double rtol, double atol)
{
    wf_accuracy_t accuracy = {0};
    if (!wf_type_equal(&got->type, &want->type) || !wf_numeric_supports(want->type.dtype))
        return accuracy;
    int64_t elems = wf_type_elems(&want->type);
    sums_t s = {0};
    bool integers = wf_numeric_is_integer(want->type.dtype);
    for (int64_t i = 0; i < elems; i++) {
        if (integers && wf_numeric_same_bits(got, want, i)) {
            double value = wf_numeric_get(want, i);
            add_pair(&s, want->type.dtype, value, value, rtol, atol);
        } else {
            double before = s.max_abs, g = wf_numeric_get(got, i), w = wf_numeric_get(want, i);
            add_pair(&s, want->type.dtype, g, w, rtol, atol);
            /* 64-bit integers that differ beyond the 53 bits of a double. */
            if (integers && g == w)
                s.max_abs = fmax(before, 1), s.violations++;
        }
    }
    accuracy.elems = (uint64_t)elems;
    accuracy.max_abs = s.max_abs;
    accuracy.max_abs_of_scale = s.want_max > 0 ? s.max_abs / s.want_max : s.max_abs;
    accuracy.max_rel = s.max_rel;
    accuracy.mean_abs = elems > 0 ? s.abs_diff / (double)elems : 0;
    accuracy.rms = elems > 0 ? sqrt(s.diff2 / (double)elems) : 0;
    accuracy.cosine =
        s.got2 > 0 && s.want2 > 0 ? s.dot / sqrt(s.got2 * s.want2) : (s.got2 == s.want2 ? 1 : 0);
    /* 300 dB stands for no difference at all: JSON has no infinity. */
    accuracy.sqnr_db = s.diff2 > 0 && s.want2 > 0 ? 10 * log10(s.want2 / s.diff2) : (s.diff2 > 0 ? 0 : 300);
    accuracy.top1_agreement = top1_agreement(got, want, elems);
    accuracy.nan_mismatches = s.nan_mismatches;
    accuracy.violations = s.violations;
    accuracy.passed = s.nan_mismatches == 0 && s.violations == 0;
    return accuracy;
}

/* ---- seeded inputs ---- */

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double next_uniform(uint64_t *state)
{
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

/* Near normal: the sum of twelve uniforms. No libm call, so that the bits are the same everywhere. */
static double next_normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += next_uniform(state);
    return sum;
}

void wf_seeded_fill(const char *input_name, uint64_t seed, wf_tensor_t *tensor)
{
    wf_hash_t hash = wf_hash_bytes(input_name, strlen(input_name));
    uint64_t state = hash.low ^ (seed * 0x9e3779b97f4a7c15u);
    int64_t elems = wf_type_elems(&tensor->type);
    bool is_mask = strstr(input_name, "mask") != NULL, integer = wf_numeric_is_integer(tensor->type.dtype);
    for (int64_t i = 0; i < elems; i++) {
        double value;
        if (tensor->type.dtype == WF_DTYPE_BOOL)
            value = is_mask ? 1 : (double)(next_random(&state) & 1);
        else if (is_mask)
            value = 1;
        /* Token and class ids of real models start at 0; 100 is below every vocabulary met so far. */
        else if (integer)
            value = (double)(next_random(&state) % 100);
        else
            value = next_normal(&state);
        wf_numeric_set(tensor, i, value);
    }
}
