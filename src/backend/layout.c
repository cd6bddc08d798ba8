/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts as bytes, and conversions as problems. */
#include <string.h>

#include "backend/registry.h"
#include "base/checked.h"

static int64_t channel_block(wf_layout_t layout)
{
    return layout == WF_LAYOUT_B8 ? 8 : layout == WF_LAYOUT_B16 ? 16 : 1;
}

int64_t wf_layout_elems(const wf_type_t *type, wf_layout_t layout)
{
    int64_t block = channel_block(layout);
    wf_type_t padded = *type;
    if (block > 1 && type->rank >= 2) {
        if (!wf_i64_add(type->dims[1], block - 1, &padded.dims[1]))
            return -1;
        padded.dims[1] = padded.dims[1] / block * block;
    }
    return wf_type_elems(&padded);
}

bool wf_layout_exists(const wf_type_t *type, wf_layout_t layout)
{
    return layout == WF_LAYOUT_ROW || (type->rank >= 3 && type->rank <= 5 && wf_dtype_bits(type->dtype) >= 8);
}

bool wf_layout_same(const wf_type_t *type, wf_layout_t a, wf_layout_t b)
{
    if (a == b || wf_type_elems(type) == 0)
        return true;
    if (type->rank < 3)
        return true;
    int64_t pixels = 1;
    for (uint32_t d = 2; d < type->rank; d++)
        pixels *= type->dims[d];
    bool plain_a = channel_block(a) == 1 || (pixels == 1 && type->dims[1] % channel_block(a) == 0);
    bool plain_b = channel_block(b) == 1 || (pixels == 1 && type->dims[1] % channel_block(b) == 0);
    return plain_a && plain_b && (pixels == 1 || type->dims[1] == 1);
}

wf_status_t wf_convert_problem(const wf_type_t *type, wf_layout_t from, wf_layout_t to, wf_arena_t *arena,
                               const wf_problem_t **out_problem)
{
    const char *from_name = wf_layout_name(from), *to_name = wf_layout_name(to);
    wf_attr_t given[2] = {
        {.name = "from", .kind = WF_ATTR_STRING, .count = strlen(from_name), .v.s = from_name},
        {.name = "to", .kind = WF_ATTR_STRING, .count = strlen(to_name), .v.s = to_name},
    };
    wf_problem_operand_t operand = {.type = *type, .is_const = false};
    wf_problem_part_t part = {.op = WF_OP_W_CONVERT, .operands = &operand, .operand_count = 1};
    WF_TRY(wf_op_complete_attrs(WF_OP_W_CONVERT, given, 2, arena, &part.attrs));
    return wf_problem_make(&part, 1, type, 1, arena, out_problem);
}
