/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum equations, parsed once for shapes, canonical form and the reference. */
#ifndef WF_OP_EINSUM_H
#define WF_OP_EINSUM_H

#include "op/op.h"

#define WF_EINSUM_MAX_INPUTS 16
/* 26 + 26 letters and the axes of the ellipsis. */
#define WF_EINSUM_MAX_LABELS (52 + WF_MAX_RANK)

/* Every axis of every operand carries a label; labels are numbered in order of first appearance, left to
 * right. An operand's axis is as long as its label or has length 1 and is repeated. A label may stand twice
 * in one operand: its diagonal. Labels that are not in the output are summed over. */
typedef struct wf_einsum {
    uint32_t input_count;
    uint32_t label_count;
    int64_t label_dims[WF_EINSUM_MAX_LABELS];
    uint8_t input_labels[WF_EINSUM_MAX_INPUTS][WF_MAX_RANK];
    uint32_t output_rank;
    uint8_t output_labels[WF_MAX_RANK];
} wf_einsum_t;

/* Parses equation[0, length) for the given operands. An ellipsis stands for the axes that the letters leave
 * over, the same number in every operand that has one; they broadcast. MODEL_INVALID; MODEL_UNSUPPORTED for
 * more than WF_EINSUM_MAX_INPUTS operands or an output of too high a rank. */
wf_status_t wf_einsum_parse(const char *equation, size_t length, const wf_type_t *inputs, size_t input_count,
                            wf_einsum_t *out_einsum) WF_MUST_USE;

#define WF_EINSUM_TEXT_MAX (WF_EINSUM_MAX_INPUTS * (WF_MAX_RANK + 1) + WF_MAX_RANK + 3)
/* The canonical equation: explicit, letters in order of first appearance from 'a', ellipsis axes as letters,
 * no blanks; zero-terminated. False when there are more labels than letters. */
bool wf_einsum_text(const wf_einsum_t *einsum, const wf_type_t *inputs, char out[WF_EINSUM_TEXT_MAX]);

#endif
