/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of constants as doubles: what rewrites compute in. */
#ifndef WF_GRAPH_CONSTANT_H
#define WF_GRAPH_CONSTANT_H

#include "graph/graph.h"

/* Element `index` as a double; false for element types that are no numbers (complex, strings). i64 and u64
 * beyond 2^53 are rounded. Elements may be unaligned. */
bool wf_constant_get(const wf_tensor_t *tensor, int64_t index, double *out_value);
/* Stores a double in element `index`: floats rounded once to the nearest (ties to even); false for the types
 * above, and for integer types when the value is not an integer in range. */
bool wf_constant_set(const wf_tensor_t *tensor, int64_t index, double value);
/* Element `index` of an i32 or i64 constant. */
bool wf_constant_get_int(const wf_tensor_t *tensor, int64_t index, int64_t *out_value);

#endif
