/* SPDX-License-Identifier: Apache-2.0 */
/* Problem: canonical form, text, parse, hash (the struct is in wayfinder/backend.h).
 *
 * Grammar, version 1 (blanks only where shown):
 *   problem  = "v1 " op stage* "->" types
 *   op       = name "(" operand ("," operand)* ")" ["{" attr (" " attr)* "}"]
 *   stage    = "+" name ["@" chain] ["(" operand ("," operand)* ")"] ["{" attr (" " attr)* "}"]
 *   chain    = input numbers that take the running value, joined by "&"; left out when it is input 0 alone
 *   operand  = label ":" type ["const"]  |  "_"          (an absent optional input)
 *   type     = dtype "[" dims "]"                        (f32[1,64,56,56], f32[] is a scalar)
 *   types    = type ("," type)*
 *   attr     = key "=" value; keys sorted; lists joined by ","; floats as %a; strings in single quotes when
 * they are not [A-Za-z0-9_.]+; tensors as dtype[dims]:hex. Attributes without value (optional and absent) are
 * left out. Labels are x, y, z, ... by position and carry no meaning. The same work has the same text.
 */
#ifndef WF_OP_PROBLEM_H
#define WF_OP_PROBLEM_H

#include "base/hash.h"
#include "op/op.h"

/* A stage to make a problem from: attributes complete (wf_op_complete_attrs). */
typedef struct wf_problem_part {
    wf_op_t op;
    uint32_t chain_mask;
    wf_attrs_t attrs;
    const wf_problem_operand_t *operands; /* without the running value */
    size_t operand_count;
} wf_problem_part_t;

/* Builds the canonical problem in the arena: window attributes resolved (auto_pad to pads, defaults written
 * out, so that two spellings of the same convolution are one problem), types of stages inferred, text and
 * hash made. `values`: known constant per operand in order of all parts, or NULL; only looked at for shapes.
 * INTERNAL when inference fails. */
wf_status_t wf_problem_make(const wf_problem_part_t *parts, size_t part_count, const wf_type_t *outputs,
                            size_t output_count, wf_arena_t *arena,
                            const wf_problem_t **out_problem) WF_MUST_USE;
/* Parses canonical text; MODEL_INVALID with the position otherwise. parse(print(p)) has p's text. Bounded: at
 * most 1 MB of text, 4096 operands, 64 stages. */
wf_status_t wf_problem_parse(const char *text, size_t text_bytes, wf_arena_t *arena,
                             const wf_problem_t **out_problem) WF_MUST_USE;

/* Floating-point operations (a multiply-add counts 2) and compulsory bytes of a problem: for estimates and
 * reports. */
double wf_problem_flops(const wf_problem_t *problem);
double wf_problem_bytes(const wf_problem_t *problem);

#endif
