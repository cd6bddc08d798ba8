/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to quantised integers, shared by the operators that end in it. */
#ifndef WF_REF_QUANTIZE_H
#define WF_REF_QUANTIZE_H

#include <math.h>

#include "ref/kernel.h"

/* round-half-even(value) + zero, saturated to [min, max]; NaN gives the zero point. */
WF_ALWAYS_INLINE int64_t wf_quantize_round(double value, int64_t zero, int64_t min, int64_t max)
{
    double shifted = rint(value) + (double)zero;
    return isnan(shifted)          ? WF_MAX(min, WF_MIN(max, zero))
           : shifted < (double)min ? min
           : shifted > (double)max ? max
                                   : (int64_t)shifted;
}

/* Adds an exact integer sum's value in the output's scale: the sum is rounded to f32 and multiplied once in
 * f32, as the operators' reference implementations do. */
WF_ALWAYS_INLINE int64_t wf_requantize(double sum, float a_scale, float b_scale, float y_scale, int64_t zero,
                                       int64_t min, int64_t max)
{
    float scaled = (float)sum * (a_scale * b_scale / y_scale);
    return wf_quantize_round((double)scaled, zero, min, max);
}

#endif
