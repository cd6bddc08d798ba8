/* SPDX-License-Identifier: Apache-2.0 */
/* Problems built from parts. */
#include "op/problem.h"

#include <string.h>

#include "base/compiler.h"
#include "op/canonical.h"
#include "op/problem_text.h"
#include "op/shape.h"

typedef struct builder {
    wf_arena_t *arena;
    const wf_problem_part_t *parts;
    size_t part_count;
    const wf_type_t *given_outputs;
    wf_problem_t *problem;
    wf_problem_operand_t *operands;
    wf_problem_stage_t *stages;
    wf_type_t *outputs;
} builder_t;

/* Inputs of a part in the operator's order. */
typedef struct stage_inputs {
    wf_type_t *types;
    size_t count;
} stage_inputs_t;

/* Highest input that takes the running value, plus one. */
static size_t chain_end(uint32_t mask)
{
    size_t end = 0;
    for (uint32_t i = 0; i < 32; i++) {
        end = (mask >> i & 1) != 0 ? i + 1 : end;
    }
    return end;
}

static size_t chain_count(uint32_t mask)
{
    return (size_t)__builtin_popcount(mask);
}

static wf_status_t check_operand(const wf_problem_operand_t *operand)
{
    const wf_type_t *type = &operand->type;
    if (type->dtype == WF_DTYPE_NONE) {
        return WF_OK;
    }
    if (type->rank > WF_MAX_RANK) {
        return wf_shape_rank_error(type->rank);
    }
    if ((unsigned)type->dtype >= WF_DTYPE_COUNT || wf_type_bytes(type) < 0) {
        return WF_ERROR(MODEL_LIMIT, "an operand is too large");
    }
    return WF_OK;
}

/* Copies the operands of a part behind those before, absent ones at the end left out. */
static wf_status_t take_operands(builder_t *self, const wf_problem_part_t *part, wf_problem_stage_t *stage)
{
    size_t count = part->operand_count;
    while (count > 0 && part->operands[count - 1].type.dtype == WF_DTYPE_NONE &&
           count - 1 + chain_count(stage->chain_mask) >= chain_end(stage->chain_mask)) {
        count--;
    }
    stage->first_operand = (uint32_t)self->problem->operand_count;
    stage->operand_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        WF_TRY(check_operand(&part->operands[i]));
        wf_problem_operand_t *operand = &self->operands[self->problem->operand_count++];
        const wf_type_t *type = &part->operands[i].type;
        if (type->dtype != WF_DTYPE_NONE) {
            *operand = (wf_problem_operand_t){.type = {.dtype = type->dtype, .rank = type->rank},
                                              .is_const = part->operands[i].is_const};
            memcpy(operand->type.dims, type->dims, type->rank * sizeof *type->dims);
        }
    }
    return WF_OK;
}

/* The running value in the inputs of the mask, the operands in the others. */
static wf_status_t lay_inputs(builder_t *self, const wf_problem_stage_t *stage, const wf_type_t *running,
                              stage_inputs_t *out_inputs)
{
    out_inputs->count = chain_count(stage->chain_mask) + stage->operand_count;
    if (chain_end(stage->chain_mask) > out_inputs->count) {
        return WF_ERROR(MODEL_INVALID, "the running value goes to an input behind the last one");
    }
    WF_TRY(wf_arena_alloc(self->arena, out_inputs->count, sizeof *out_inputs->types, &out_inputs->types));
    size_t next = stage->first_operand;
    for (size_t i = 0; i < out_inputs->count; i++) {
        bool runs = i < 32 && (stage->chain_mask >> i & 1) != 0;
        out_inputs->types[i] = runs ? *running : self->operands[next++].type;
    }
    return WF_OK;
}

/* Tensors in attributes belong to the model: the problem keeps its own. */
static wf_status_t own_tensors(builder_t *self, const wf_attrs_t *attrs)
{
    for (size_t i = 0; i < attrs->count; i++) {
        if (attrs->items[i].kind != WF_ATTR_TENSOR) {
            continue;
        }
        wf_tensor_t *copy;
        const wf_tensor_t *from = attrs->items[i].v.tensor;
        int64_t bytes = wf_type_bytes(&from->type);
        if (bytes < 0 || bytes > (int64_t)(WF_PROBLEM_MAX_TEXT_BYTES / 4) ||
            wf_dtype_bits(from->type.dtype) == 0) {
            return WF_ERROR(MODEL_LIMIT, "attribute %s holds a tensor that is no part of a problem",
                            attrs->items[i].name);
        }
        WF_TRY(wf_arena_alloc(self->arena, 1, sizeof *copy, &copy));
        copy->type = from->type;
        WF_TRY(wf_arena_alloc(self->arena, (size_t)bytes, 1, &copy->data));
        if (bytes > 0) {
            memcpy(copy->data, from->data, (size_t)bytes);
        }
        ((wf_attr_t *)attrs->items)[i].v.tensor = copy;
    }
    return WF_OK;
}

/* Where a shape depends on a value that is not known here, the given outputs are believed: they were inferred
 * when the value was known. */
static wf_status_t believe_outputs(const builder_t *self, const wf_shape_call_t *call, bool is_last)
{
    bool whole = is_last;
    for (size_t i = 0; i < call->output_count; i++) {
        whole = whole && self->given_outputs[i].dtype != WF_DTYPE_NONE;
    }
    if (!whole) {
        return WF_ERROR(MODEL_INVALID, "the shape depends on the value of input %d", call->needs_value_of);
    }
    for (size_t i = 0; i < call->output_count; i++) {
        WF_TRY(check_operand(&(wf_problem_operand_t){.type = self->given_outputs[i]}));
        call->outputs[i] = self->given_outputs[i];
    }
    bool view = (wf_op_info(call->op)->flags & WF_OP_FLAG_VIEW) != 0;
    if (view && (call->outputs[0].dtype != call->inputs[0].dtype ||
                 wf_type_elems(&call->outputs[0]) != wf_type_elems(&call->inputs[0]))) {
        return WF_ERROR(MODEL_INVALID, "the output has other elements than the input");
    }
    return WF_OK;
}

static wf_status_t infer_stage(builder_t *self, wf_shape_call_t *call, bool is_last)
{
    WF_TRY(wf_op_infer(call));
    return call->needs_value_of >= 0 ? believe_outputs(self, call, is_last) : WF_OK;
}

/* Attributes of the stage in canonical form, outputs inferred twice: the canonical form must not change them.
 */
static wf_status_t settle_stage(builder_t *self, size_t index, const stage_inputs_t *inputs,
                                wf_type_t *outputs, size_t output_count)
{
    wf_problem_stage_t *stage = &self->stages[index];
    const wf_problem_part_t *part = &self->parts[index];
    bool is_last = index + 1 == self->part_count;
    wf_attrs_t attrs;
    WF_TRY(wf_op_complete_attrs(stage->op, part->attrs.items, part->attrs.count, self->arena, &attrs));
    WF_TRY(own_tensors(self, &attrs));
    wf_shape_call_t call = {.op = stage->op,
                            .attrs = &attrs,
                            .input_count = inputs->count,
                            .inputs = inputs->types,
                            .output_count = output_count,
                            .outputs = outputs};
    WF_TRY(infer_stage(self, &call, is_last));
    WF_TRY(wf_op_canonical_attrs(&call, self->arena, &stage->attrs));
    wf_type_t *again;
    WF_TRY(wf_arena_alloc(self->arena, output_count, sizeof *again, &again));
    call.attrs = &stage->attrs;
    call.outputs = again;
    WF_TRY(infer_stage(self, &call, is_last));
    for (size_t i = 0; i < output_count; i++) {
        if (!wf_type_equal(&outputs[i], &again[i])) {
            return WF_ERROR(INTERNAL, "%s: the canonical form has another output",
                            wf_op_info(stage->op)->onnx_name);
        }
    }
    return WF_OK;
}

static wf_status_t check_outputs(const builder_t *self, const wf_type_t *inferred)
{
    bool wanted = false;
    for (size_t i = 0; i < self->problem->output_count; i++) {
        const wf_type_t *given = &self->given_outputs[i];
        if (given->dtype == WF_DTYPE_NONE) {
            continue;
        }
        wanted = true;
        if (!wf_type_equal(given, &inferred[i])) {
            char given_text[WF_TYPE_TEXT_MAX];
            char inferred_text[WF_TYPE_TEXT_MAX];
            return WF_ERROR(MODEL_INVALID, "output %zu is said to be %s, it is %s", i,
                            wf_type_text(given, given_text), wf_type_text(&inferred[i], inferred_text));
        }
        self->outputs[i] = inferred[i];
    }
    return wanted ? WF_OK : WF_ERROR(MODEL_INVALID, "no output is wanted");
}

static wf_status_t build_stages(builder_t *self)
{
    wf_type_t *inferred = NULL;
    wf_type_t running = {.dtype = WF_DTYPE_NONE};
    for (size_t i = 0; i < self->part_count; i++) {
        const wf_problem_part_t *part = &self->parts[i];
        wf_problem_stage_t *stage = &self->stages[i];
        *stage = (wf_problem_stage_t){.op = part->op, .chain_mask = part->chain_mask};
        if ((part->chain_mask != 0) != (i > 0)) {
            return WF_ERROR(MODEL_INVALID, i > 0 ? "a stage does not take the running value"
                                                 : "the root takes a running value");
        }
        if (part->op >= WF_OP_COUNT) {
            return WF_ERROR(MODEL_INVALID, "%u is not an operator", part->op);
        }
        if ((wf_op_info(part->op)->flags & WF_OP_FLAG_COMM) != 0) {
            stage->chain_mask = (uint32_t)((UINT64_C(1) << chain_count(part->chain_mask)) - 1);
        }
        stage_inputs_t inputs;
        WF_TRY(take_operands(self, part, stage));
        WF_TRY(lay_inputs(self, stage, &running, &inputs));
        size_t output_count = i + 1 == self->part_count ? self->problem->output_count : 1;
        WF_TRY(wf_arena_alloc(self->arena, output_count, sizeof *inferred, &inferred));
        WF_TRY(settle_stage(self, i, &inputs, inferred, output_count));
        stage->out = running = inferred[0];
    }
    return check_outputs(self, inferred);
}

wf_status_t wf_problem_build(const wf_problem_part_t *parts, size_t part_count, const wf_type_t *outputs,
                             size_t output_count, wf_arena_t *arena, const wf_problem_t **out_problem)
{
    size_t operand_count = 0;
    for (size_t i = 0; i < part_count && part_count <= WF_PROBLEM_MAX_STAGES; i++) {
        if (parts[i].operand_count > WF_PROBLEM_MAX_OPERANDS ||
            (operand_count += parts[i].operand_count) > WF_PROBLEM_MAX_OPERANDS) {
            return WF_ERROR(MODEL_LIMIT, "a problem has more than %d operands", WF_PROBLEM_MAX_OPERANDS);
        }
    }
    if (part_count == 0 || part_count > WF_PROBLEM_MAX_STAGES || output_count == 0 ||
        output_count > WF_PROBLEM_MAX_OPERANDS || (part_count > 1 && output_count > 1)) {
        return WF_ERROR(MODEL_LIMIT, "%zu stages with %zu outputs are no problem", part_count, output_count);
    }
    builder_t self = {.arena = arena, .parts = parts, .part_count = part_count, .given_outputs = outputs};
    WF_TRY(wf_arena_alloc(arena, 1, sizeof *self.problem, &self.problem));
    WF_TRY(wf_arena_alloc(arena, operand_count, sizeof *self.operands, &self.operands));
    WF_TRY(wf_arena_alloc(arena, part_count, sizeof *self.stages, &self.stages));
    WF_TRY(wf_arena_alloc(arena, output_count, sizeof *self.outputs, &self.outputs));
    *self.problem = (wf_problem_t){.operands = self.operands,
                                   .stages = self.stages,
                                   .stage_count = part_count,
                                   .outputs = self.outputs,
                                   .output_count = output_count};
    WF_TRY(build_stages(&self));
    WF_TRY(wf_problem_print(self.problem, arena, &self.problem->text));
    wf_hash_t hash = wf_hash_bytes(self.problem->text, strlen(self.problem->text));
    self.problem->hash[0] = hash.low;
    self.problem->hash[1] = hash.high;
    *out_problem = self.problem;
    return WF_OK;
}

wf_status_t wf_problem_make(const wf_problem_part_t *parts, size_t part_count, const wf_type_t *outputs,
                            size_t output_count, wf_arena_t *arena, const wf_problem_t **out_problem)
{
    wf_status_t status = wf_problem_build(parts, part_count, outputs, output_count, arena, out_problem);
    wf_code_t code = wf_status_code(status);
    if (code != WF_CODE_MODEL_INVALID && code != WF_CODE_MODEL_UNSUPPORTED && code != WF_CODE_MODEL_LIMIT) {
        return status;
    }
    /* The graph was verified: parts that do not fit together are our fault, not the model's. */
    wf_status_t ours = WF_ERROR(INTERNAL, "a problem cannot be made: %s", wf_status_message(status));
    wf_status_free(status);
    return ours;
}

uint32_t wf_problem_stage_present(const wf_problem_t *problem, const wf_problem_stage_t *stage,
                                  uint32_t *out_operand)
{
    uint32_t present = 0;
    *out_operand = 0;
    for (uint32_t i = 0; i < stage->operand_count; i++) {
        if (problem->operands[stage->first_operand + i].type.dtype == WF_DTYPE_NONE)
            continue;
        present++;
        *out_operand = stage->first_operand + i;
    }
    return present;
}
