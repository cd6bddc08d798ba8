/* SPDX-License-Identifier: Apache-2.0 */
/* Shape cases as text: one line says an operator, its inputs and attributes, and what inference must say. */
#ifndef WF_TESTS_OP_CASE_H
#define WF_TESTS_OP_CASE_H

#include <stddef.h>

/* op: ONNX name, "w:" before the name of one of ours. inputs: types separated by blanks, "_" for an absent
 * one, with
 * "=1,2" behind it when the values are known ("=" for none at all): "f32[2,3] i64[2]=1,0 _". attrs:
 * "name=value" separated by blanks, kinds by the table; a list may be empty. want: types of as many outputs
 * as are named; "needs 1" for a shape that depends on input 1; "!text" for MODEL_INVALID, "?text" for
 * MODEL_UNSUPPORTED, "#text" for MODEL_LIMIT, where text must be in the message. */
typedef struct wf_op_case {
    const char *op;
    const char *inputs;
    const char *attrs;
    const char *want;
} wf_op_case_t;

/* Runs the cases; every difference is printed, and fails the test at the end. */
void wf_op_cases_run(const wf_op_case_t *cases, size_t count);
/* What one case gives, in the notation of `want` (with the whole message). `out` has out_bytes. */
void wf_op_case_infer(const wf_op_case_t *item, size_t output_count, char *out, size_t out_bytes);

#endif
