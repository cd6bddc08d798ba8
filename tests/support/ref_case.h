/* SPDX-License-Identifier: Apache-2.0 */
/* Reference kernels on cases written as text, and on tensors of a test's own. */
#ifndef WF_TESTS_REF_CASE_H
#define WF_TESTS_REF_CASE_H

#include "ref/ref.h"

/* op: ONNX name, "w:" before the name of one of ours. inputs: tensors separated by blanks, "_" for an absent
 * one: "f32[2,3]=1,2,3,4,5,6"; fewer values than elements are repeated, "=5.." counts up from 5, inf and nan
 * are numbers. attrs: "name=value" separated by blanks, kinds by the table. want: outputs in the same
 * notation, "_" for one that is not wanted; or "!text" for RUNTIME_DATA, "?text" for MODEL_UNSUPPORTED, where
 * text must be in the message. */
typedef struct wf_ref_case {
    const char *op;
    const char *inputs;
    const char *attrs;
    const char *want;
} wf_ref_case_t;

/* Runs every case on plain loops, inline and on two threads. Integers must be equal, floats within 2 units of
 * their type's precision (and, near 0, of its precision at 1); the paths must agree bit for bit (NaN is NaN).
 * Every difference is printed, and fails the test at the end. */
void wf_ref_cases_run(const wf_ref_case_t *cases, size_t count);

typedef enum wf_ref_path { WF_REF_PLAIN, WF_REF_INLINE, WF_REF_THREADS, WF_REF_PATHS } wf_ref_path_t;
/* Infers the outputs' types, allocates their data (wf_ref_free) and runs. Outputs whose data is not NULL on
 * entry are wanted; the test fails when inference does. */
wf_status_t wf_ref_case_call(wf_op_t op, const wf_attrs_t *attrs, size_t input_count,
                             const wf_tensor_t *inputs, size_t output_count, wf_tensor_t *outputs,
                             wf_ref_path_t path) WF_MUST_USE;
void wf_ref_case_free(size_t output_count, wf_tensor_t *outputs);

/* The same types and values, bit for bit; a NaN equals any other. */
bool wf_ref_case_same(const wf_tensor_t *a, const wf_tensor_t *b);

/* One line of attributes, completed with defaults, in the arena. */
wf_attrs_t wf_ref_case_attrs(wf_op_t op, const char *text, wf_arena_t *arena);

#endif
