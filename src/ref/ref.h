/* SPDX-License-Identifier: Apache-2.0 */
/* Reference: every operator on dense row-major tensors. The oracle of tests, the accuracy reference, constant
 * folding and the last-resort tactic.
 *
 * Two paths with one result on small shapes: plain loops, and a fast path (threads, row-major blocking, FP64
 * accumulation) for the heavy operators. Runs without FTZ/DAZ when it is the reference.
 */
#ifndef WF_REF_REF_H
#define WF_REF_REF_H

#include "op/op.h"

typedef struct wf_ref_call {
    wf_op_t op;
    const wf_attrs_t *attrs; /* complete */
    size_t input_count;
    const wf_tensor_t *inputs; /* dtype NONE and data NULL: absent */
    size_t output_count;
    wf_tensor_t *outputs;          /* types set, data allocated; data NULL: output not wanted */
    const wf_parallel_t *parallel; /* NULL: plain loops */
    void *scratch;                 /* wf_ref_scratch_bytes of it, 64-byte aligned */
} wf_ref_call_t;

/* RUNTIME_DATA for values that are not possible (an index out of range), MODEL_UNSUPPORTED for an element
 * type the operator does not handle. Never allocates. */
typedef wf_status_t wf_ref_fn(const wf_ref_call_t *call);

/* Runs the operator. MODEL_LIMIT for dims whose product without those of 0 does not fit in int64_t. */
wf_status_t wf_ref_run(const wf_ref_call_t *call) WF_MUST_USE;
/* Scratch a call needs (data pointers are not looked at). INTERNAL when it does not fit in size_t;
 * MODEL_LIMIT as wf_ref_run. */
wf_status_t wf_ref_scratch_bytes(const wf_ref_call_t *call, size_t *out_bytes) WF_MUST_USE;
/* False when the operator has no reference kernel yet for these types: such nodes are refused by name. */
bool wf_ref_supports(wf_op_t op, wf_dtype_t first_input_dtype);

#endif
