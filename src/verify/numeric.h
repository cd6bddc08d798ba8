/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of any numeric tensor as double. */
#ifndef WF_VERIFY_NUMERIC_H
#define WF_VERIFY_NUMERIC_H

#include <stdbool.h>

#include "wayfinder/tensor.h"

bool wf_numeric_supports(wf_dtype_t dtype);
/* Integers and bool: compared by bits, since doubles do not hold all of 64 bits. */
bool wf_numeric_is_integer(wf_dtype_t dtype);
double wf_numeric_get(const wf_tensor_t *tensor, int64_t index);
/* Rounds to the type; the value must be in its range. */
void wf_numeric_set(wf_tensor_t *tensor, int64_t index, double value);
bool wf_numeric_same_bits(const wf_tensor_t *a, const wf_tensor_t *b, int64_t index);

#endif
