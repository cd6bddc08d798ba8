/* SPDX-License-Identifier: Apache-2.0 */
/* Problem text is untrusted: it comes from engines, plans and timing databases. Whatever parses must come
 * back from its own text. */
#include <stdlib.h>
#include <string.h>

#include "op/problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    wf_arena_t arena;
    const wf_problem_t *problem;
    wf_arena_init(&arena, wf_allocator_system());
    wf_status_t status = wf_problem_parse((const char *)data, bytes, &arena, &problem);
    if (status == WF_OK) {
        const wf_problem_t *again;
        status = wf_problem_parse(problem->text, strlen(problem->text), &arena, &again);
        if (status != WF_OK || strcmp(problem->text, again->text) != 0 || !(wf_problem_flops(problem) >= 0) ||
            !(wf_problem_bytes(problem) >= 0)) {
            abort();
        }
    } else if (wf_status_code(status) == WF_CODE_INTERNAL) {
        abort();
    }
    wf_status_free(status);
    wf_arena_deinit(&arena);
    return 0;
}
