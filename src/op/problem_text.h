/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of problem: what printing, parsing and building share. */
#ifndef WF_OP_PROBLEM_TEXT_H
#define WF_OP_PROBLEM_TEXT_H

#include "op/problem.h"

/* wf_problem_make with the codes of the failures as they come: MODEL_INVALID, MODEL_UNSUPPORTED, MODEL_LIMIT.
 */
wf_status_t wf_problem_build(const wf_problem_part_t *parts, size_t part_count, const wf_type_t *outputs,
                             size_t output_count, wf_arena_t *arena,
                             const wf_problem_t **out_problem) WF_MUST_USE;

/* The canonical text of a problem whose other fields are set. */
wf_status_t wf_problem_print(const wf_problem_t *problem, wf_arena_t *arena,
                             const char **out_text) WF_MUST_USE;

/* The key of an attribute in problem text and back; names without a short form are their own key. */
const char *wf_problem_key_of(const char *attr_name);
const char *wf_problem_name_of(const char *key);

#endif
