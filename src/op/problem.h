/* SPDX-License-Identifier: Apache-2.0 */
/* Problem: canonical form, text, parse, hash (the struct is in wayfinder/backend.h).
 *
 * Grammar, version 1 (blanks only where shown):
 *   problem  = "v1 " root stage* "->" outputs
 *   root     = name "(" [operand ("," operand)*] ")" attrs
 *   stage    = "+" name ["@" chain] ["(" operand ("," operand)* ")"] attrs
 *   attrs    = ["{" attr (" " attr)* "}"]
 *   chain    = input numbers that take the running value, ascending, joined by "&"; left out when it is input
 * 0 alone operand  = label ":" type ["const"]  |  "_"          (an absent optional input) outputs  = output
 * ("," output)* output   = type  |  "_"                              (an output that nobody wants) type     =
 * dtype "[" [dim ("," dim)*] "]"            (f32[1,64,56,56], f32[] is a scalar) attr     = key "=" value;
 * sorted by the attribute's name; lists joined by ","; floats as %a; strings in single quotes when they are
 * not [A-Za-z0-9_.]+, in quotes \HH is a byte; tensors as dtype[dims]:hex Keys are attribute names, but for
 * dil (dilations), kernel (kernel_shape) and str (strides). Attributes without value (optional and absent)
 * are left out. Labels are x, y, z, a, b, ... by position and carry no meaning. The same work has the same
 * text: src/op/canonical.h says what is brought together.
 */
#ifndef WF_OP_PROBLEM_H
#define WF_OP_PROBLEM_H

#include "base/hash.h"
#include "op/op.h"

#define WF_PROBLEM_MAX_TEXT_BYTES ((size_t)1 << 20)
#define WF_PROBLEM_MAX_OPERANDS 4096
#define WF_PROBLEM_MAX_STAGES 64

/* A stage to make a problem from. Attributes as the node has them (complete, see wf_op_complete_attrs). */
typedef struct wf_problem_part {
    wf_op_t op;
    uint32_t chain_mask; /* 0 for the root. Of commutative operators only the number of bits matters */
    wf_attrs_t attrs;
    const wf_problem_operand_t *operands; /* without the running value; absent ones at the end are dropped */
    size_t operand_count;
} wf_problem_part_t;

/* Builds the canonical problem in the arena: attributes made canonical, types of stages inferred, text and
 * hash made. The problem's operands are those of the parts in order. `outputs` are what leaves the problem,
 * dtype NONE where an output is not wanted; they must be what inference gives, and they are believed where a
 * shape depends on a value that is not an attribute. Everything is copied. INTERNAL when the parts are no
 * problem (the message says why). */
wf_status_t wf_problem_make(const wf_problem_part_t *parts, size_t part_count, const wf_type_t *outputs,
                            size_t output_count, wf_arena_t *arena,
                            const wf_problem_t **out_problem) WF_MUST_USE;
/* Parses text that need not be canonical (defaults left out, any labels); the problem's text is.
 * parse(print(p)) has p's text. MODEL_INVALID with the position otherwise. Bounded by the limits above. */
wf_status_t wf_problem_parse(const char *text, size_t text_bytes, wf_arena_t *arena,
                             const wf_problem_t **out_problem) WF_MUST_USE;

/* How many operands of a stage are present, and the number of the last of them. */
uint32_t wf_problem_stage_present(const wf_problem_t *problem, const wf_problem_stage_t *stage,
                                  uint32_t *out_operand);

/* Floating-point operations (a multiply-add counts 2, others 1) and compulsory bytes (each operand and output
 * once) of a problem: for estimates and reports. */
double wf_problem_flops(const wf_problem_t *problem);
double wf_problem_bytes(const wf_problem_t *problem);

#endif
