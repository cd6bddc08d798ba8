/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical attributes: spellings of the same work are brought to one. */
#ifndef WF_OP_CANONICAL_H
#define WF_OP_CANONICAL_H

#include "op/op.h"

/* The list that stands for the same work as call->attrs (complete, and accepted by wf_op_infer, which has
 * filled call->outputs), in the arena: windows      pads written out and auto_pad gone; ceil_mode expressed
 * by pads where that is the same; the end pad is the begin pad where that gives the same output, else no more
 * than windows reach. Convolutions leave kernel_shape to the weight. ConvTranspose: output_shape as pads and
 * output_padding axes         from 0, sorted, written out where all or none are meant shapes       those that
 * came out (Reshape, Expand, Split) Slice        clamped starts, ends at the last element, only axes that are
 * cut Pad          all axes Einsum       explicit, letters in order of appearance others       attributes
 * without effect here have their defaults Applied to its own result it changes nothing. Parameters that are
 * inputs stay inputs. */
wf_status_t wf_op_canonical_attrs(const wf_shape_call_t *call, wf_arena_t *arena,
                                  wf_attrs_t *out_attrs) WF_MUST_USE;

#endif
