/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lower.h"

#include <math.h>

#include "base/compiler.h"
#include "engine/memory_plan.h"

/* A tensor in one layout. Its bytes lie in a home at an offset; views and in-place results share the home. */
typedef struct tensor {
    wf_value_id value;
    wf_layout_t layout;
    uint32_t home;
    uint32_t next; /* of the same value */
} tensor_t;

typedef enum home_kind { HOME_ARENA, HOME_INPUT, HOME_OUTPUT, HOME_CONSTANT } home_kind_t;

typedef struct home {
    home_kind_t kind;
    uint32_t port;
    wf_value_id constant;
    uint64_t bytes;
    uint32_t live; /* uses to come of the values in it */
    uint32_t first_step, last_step;
    uint32_t last_write;  /* step */
    uint32_t concat_step; /* the concatenation that makes it, or NONE */
    bool dense;           /* a view was taken: rows must lie close */
    bool any_stride;      /* every step so far that touched it can handle strided rows */
    uint32_t parent;      /* home it lies in, or NONE */
    uint64_t parent_offset;
    int64_t row_stride_elems; /* 0: dense */
    uint32_t block;           /* of the memory plan */
} home_t;

typedef struct draft {
    uint32_t kind;
    const wf_space_problem_t *problem;
    const wf_choice_t *choice;
    const wf_group_t *group; /* NULL for conversions and copies */
    uint32_t group_index;
    const char *nodes;
    uint32_t *tensors;                 /* operands, then outputs; NONE: absent or constant */
    const wf_value_id *operand_values; /* for constants; NULL for conversions and copies */
    uint32_t operand_count, output_count;
    bool removed;
} draft_t;

#define NONE UINT32_MAX

typedef struct lowering {
    const wf_engine_part_t *part;
    wf_space_t *space;
    const wf_graph_t *graph;
    wf_arena_t *arena; /* results */
    wf_arena_t scratch;
    WF_VEC(tensor_t) tensors;
    WF_VEC(home_t) homes;
    WF_VEC(draft_t) drafts;
    uint32_t *first_tensor; /* per value */
    uint32_t *uses_left;    /* per value */
} lowering_t;

static wf_allocator_t scratch_allocator(lowering_t *l)
{
    return wf_arena_allocator(&l->scratch);
}

static const wf_type_t *type_of(const lowering_t *l, wf_value_id value)
{
    return &wf_graph_value(l->graph, value)->type;
}

static wf_status_t layout_bytes(const wf_type_t *type, wf_layout_t layout, uint64_t *out_bytes)
{
    int64_t elems = wf_layout_elems(type, layout);
    size_t bits;
    if (elems < 0 || !wf_size_mul((size_t)elems, wf_dtype_bits(type->dtype), &bits)) {
        return WF_ERROR(MODEL_LIMIT, "a tensor of the model is larger than can be addressed");
    }
    *out_bytes = bits / 8 + (bits % 8 != 0);
    return WF_OK;
}

/* ---- tensors and homes ---- */

static wf_status_t add_home(lowering_t *l, home_kind_t kind, uint64_t bytes, uint32_t *out_home)
{
    home_t home = {.kind = kind,
                   .bytes = bytes,
                   .constant = WF_NO_VALUE,
                   .first_step = NONE,
                   .any_stride = true,
                   .parent = NONE,
                   .concat_step = NONE,
                   .block = NONE};
    *out_home = (uint32_t)l->homes.count;
    return wf_vec_push(scratch_allocator(l), &l->homes, &home);
}

static wf_status_t add_tensor(lowering_t *l, wf_value_id value, wf_layout_t layout, uint32_t home,
                              uint32_t *out_tensor)
{
    tensor_t tensor = {.value = value, .layout = layout, .home = home, .next = NONE};
    *out_tensor = (uint32_t)l->tensors.count;
    WF_TRY(wf_vec_push(scratch_allocator(l), &l->tensors, &tensor));
    bool in_home = false;
    uint32_t *link = &l->first_tensor[value];
    for (; *link != NONE; link = &l->tensors.items[*link].next)
        in_home |= l->tensors.items[*link].home == home;
    *link = *out_tensor;
    if (!in_home)
        l->homes.items[home].live += l->uses_left[value];
    return WF_OK;
}

/* A new place in the arena for a value in a layout. */
static wf_status_t add_fresh_tensor(lowering_t *l, wf_value_id value, wf_layout_t layout,
                                    uint32_t *out_tensor)
{
    uint64_t bytes = 0;
    uint32_t home = NONE;
    WF_TRY(layout_bytes(type_of(l, value), layout, &bytes));
    WF_TRY(add_home(l, HOME_ARENA, bytes, &home));
    return add_tensor(l, value, layout, home, out_tensor);
}

/* One use of the value has been made: every home that holds it is one use nearer to its end. */
static void use_value(lowering_t *l, wf_value_id value)
{
    assert(l->uses_left[value] > 0);
    l->uses_left[value]--;
    uint32_t seen = NONE;
    for (uint32_t t = l->first_tensor[value]; t != NONE; t = l->tensors.items[t].next) {
        uint32_t home = l->tensors.items[t].home;
        if (home == seen)
            continue;
        seen = home;
        l->homes.items[home].live--;
    }
}

static home_t *home_of(const lowering_t *l, uint32_t tensor)
{
    return &l->homes.items[l->tensors.items[tensor].home];
}

static void touch(lowering_t *l, uint32_t tensor, uint32_t step, bool handles_stride)
{
    home_t *home = home_of(l, tensor);
    if (home->first_step == NONE)
        home->first_step = step;
    home->last_step = step;
    home->any_stride = home->any_stride && handles_stride;
}

/* Appends a draft; tensors are operands, then outputs. */
static wf_status_t add_draft(lowering_t *l, const draft_t *draft, const uint32_t *operands,
                             const uint32_t *outputs)
{
    draft_t added = *draft;
    uint32_t step = (uint32_t)l->drafts.count;
    WF_TRY(wf_arena_alloc(&l->scratch, draft->operand_count + draft->output_count, sizeof *added.tensors,
                          &added.tensors));
    bool reads_strided = draft->choice != NULL && draft->choice->needs.reads_strided;
    bool writes_strided = draft->choice != NULL && draft->choice->needs.writes_strided;
    for (uint32_t i = 0; i < draft->operand_count; i++) {
        added.tensors[i] = operands[i];
        if (operands[i] != NONE)
            touch(l, operands[i], step, reads_strided);
    }
    for (uint32_t i = 0; i < draft->output_count; i++) {
        added.tensors[draft->operand_count + i] = outputs[i];
        touch(l, outputs[i], step, writes_strided);
        home_of(l, outputs[i])->last_write = step;
    }
    return wf_vec_push(scratch_allocator(l), &l->drafts, &added);
}

/* The tensor of `value` in `layout`, converted now when it does not exist yet. */
static wf_status_t tensor_in(lowering_t *l, wf_value_id value, wf_layout_t layout, uint32_t *out_tensor)
{
    const wf_type_t *type = type_of(l, value);
    for (uint32_t t = l->first_tensor[value]; t != NONE; t = l->tensors.items[t].next) {
        if (wf_layout_same(type, l->tensors.items[t].layout, layout)) {
            *out_tensor = t;
            return WF_OK;
        }
    }
    uint32_t from = l->first_tensor[value], problem_index = 0;
    if (from == NONE) {
        return WF_ERROR(INTERNAL, "value %s is used before a step makes it",
                        wf_graph_value(l->graph, value)->name);
    }
    WF_TRY(wf_space_convert(l->space, value, l->tensors.items[from].layout, layout, &problem_index));
    const wf_space_problem_t *problem = &l->space->problems.items[problem_index];
    uint32_t best = wf_space_best_choice(l->space, problem_index);
    if (best == WF_NO_CHOICE)
        return WF_ERROR(INTERNAL, "no tactic for %s", problem->problem->text);
    const wf_choice_t *choice = &problem->choices.items[best];
    WF_TRY(add_fresh_tensor(l, value, layout, out_tensor));
    const char *nodes = NULL;
    WF_TRY(wf_arena_format(l->arena, &nodes, "(%s to %s)", wf_layout_name(l->tensors.items[from].layout),
                           wf_layout_name(layout)));
    draft_t draft = {.kind = WF_STEP_LAUNCH,
                     .problem = problem,
                     .choice = choice,
                     .group_index = NONE,
                     .nodes = nodes,
                     .operand_count = 1,
                     .output_count = 1};
    return add_draft(l, &draft, &from, out_tensor);
}

static wf_status_t add_copy(lowering_t *l, uint32_t from, uint32_t to)
{
    draft_t draft = {
        .kind = WF_STEP_COPY, .group_index = NONE, .nodes = "(copy)", .operand_count = 1, .output_count = 1};
    home_of(l, from)->dense = true;
    home_of(l, to)->dense = true;
    return add_draft(l, &draft, &from, &to);
}

/* ---- steps of groups ---- */

/* True when `tensor` may be overwritten by the step that has just used it. */
static bool is_free_to_overwrite(const lowering_t *l, uint32_t tensor, uint64_t bytes)
{
    const home_t *home = home_of(l, tensor);
    return home->kind == HOME_ARENA && home->live == 0 && home->bytes == bytes;
}

static bool used_twice(const uint32_t *operands, uint32_t count, const lowering_t *l, uint32_t index)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i != index && operands[i] != NONE && home_of(l, operands[i]) == home_of(l, operands[index]))
            return true;
    }
    return false;
}

/* The tensor that output 0 is written to: an operand's place where the tactic allows or asks for it. */
static wf_status_t place_first_output(lowering_t *l, const wf_group_t *group, const wf_choice_t *choice,
                                      uint32_t *operands, uint32_t operand_count, uint32_t *out_tensor)
{
    const wf_tactic_needs_t *needs = &choice->needs;
    wf_value_id value = group->outputs[0];
    wf_layout_t layout = choice->output_layouts[0];
    uint64_t bytes = 0;
    WF_TRY(layout_bytes(type_of(l, value), layout, &bytes));
    if (needs->is_view) {
        home_t *home = home_of(l, operands[needs->must_alias]);
        home->dense = true;
        return add_tensor(l, value, layout, l->tensors.items[operands[needs->must_alias]].home, out_tensor);
    }
    if (needs->must_alias >= 0) {
        uint32_t *operand = &operands[needs->must_alias];
        if (!is_free_to_overwrite(l, *operand, bytes) ||
            used_twice(operands, operand_count, l, (uint32_t)needs->must_alias)) {
            uint32_t copy = NONE;
            WF_TRY(add_fresh_tensor(l, l->tensors.items[*operand].value, l->tensors.items[*operand].layout,
                                    &copy));
            WF_TRY(add_copy(l, *operand, copy));
            *operand = copy;
        }
        return add_tensor(l, value, layout, l->tensors.items[*operand].home, out_tensor);
    }
    if (needs->may_alias >= 0 && operands[needs->may_alias] != NONE &&
        is_free_to_overwrite(l, operands[needs->may_alias], bytes) &&
        !used_twice(operands, operand_count, l, (uint32_t)needs->may_alias)) {
        return add_tensor(l, value, layout, l->tensors.items[operands[needs->may_alias]].home, out_tensor);
    }
    return add_fresh_tensor(l, value, layout, out_tensor);
}

static wf_status_t nodes_text(lowering_t *l, const wf_group_t *group, const char **out_text)
{
    wf_text_t text;
    wf_text_init(&text, scratch_allocator(l), 1u << 20);
    for (uint32_t i = 0; i < group->node_count; i++) {
        const wf_node_t *node = wf_graph_node(l->graph, group->nodes[i]);
        if (i > 0)
            wf_text_puts(&text, ", ");
        wf_text_puts(&text, node->onnx_names != NULL && node->onnx_names[0] != '\0'
                                ? node->onnx_names
                                : wf_graph_value(l->graph, node->outputs[0])->name);
    }
    wf_status_t status = wf_text_take_status(&text);
    if (status == WF_OK)
        status = wf_arena_text(l->arena, wf_text_cstr(&text), text.length, out_text);
    return status;
}

static wf_status_t lower_item(lowering_t *l, const wf_route_item_t *item)
{
    const wf_group_t *group = &l->space->groups.items[item->group];
    /* By value: conversions may add problems to the space and move its arrays. */
    wf_space_problem_t problem = l->space->problems.items[group->problem];
    const wf_choice_t *choice = &problem.choices.items[item->choice];
    uint32_t operand_count = (uint32_t)problem.problem->operand_count;
    uint32_t *operands = NULL, *outputs = NULL;
    WF_TRY(wf_arena_alloc(&l->scratch, operand_count, sizeof *operands, &operands));
    WF_TRY(wf_arena_alloc(&l->scratch, group->output_count, sizeof *outputs, &outputs));
    for (uint32_t i = 0; i < operand_count; i++) {
        operands[i] = NONE;
        wf_value_id value = group->operands[i];
        if (value == WF_NO_VALUE || problem.problem->operands[i].is_const)
            continue;
        WF_TRY(tensor_in(l, value, choice->operand_layouts[i], &operands[i]));
    }
    for (uint32_t i = 0; i < operand_count; i++) {
        if (operands[i] != NONE)
            use_value(l, group->operands[i]);
    }
    WF_TRY(place_first_output(l, group, choice, operands, operand_count, &outputs[0]));
    for (uint32_t i = 1; i < group->output_count; i++) {
        WF_TRY(add_fresh_tensor(l, group->outputs[i], choice->output_layouts[i], &outputs[i]));
    }
    if (choice->needs.is_view)
        return WF_OK;
    draft_t draft = {.kind = WF_STEP_LAUNCH,
                     .group = group,
                     .group_index = item->group,
                     .operand_values = group->operands,
                     .operand_count = operand_count,
                     .output_count = group->output_count};
    wf_choice_t *kept_choice = NULL;
    wf_space_problem_t *kept_problem = NULL;
    WF_TRY(wf_arena_alloc(&l->scratch, 1, sizeof *kept_choice, &kept_choice));
    WF_TRY(wf_arena_alloc(&l->scratch, 1, sizeof *kept_problem, &kept_problem));
    *kept_choice = *choice;
    *kept_problem = problem;
    draft.choice = kept_choice;
    draft.problem = kept_problem;
    WF_TRY(nodes_text(l, group, &draft.nodes));
    return add_draft(l, &draft, operands, outputs);
}

/* ---- inputs and outputs ---- */

static wf_status_t count_uses(lowering_t *l)
{
    size_t value_count = l->graph->values.count;
    WF_TRY(wf_arena_alloc(&l->scratch, value_count, sizeof *l->uses_left, &l->uses_left));
    WF_TRY(wf_arena_alloc(&l->scratch, value_count, sizeof *l->first_tensor, &l->first_tensor));
    for (size_t v = 0; v < value_count; v++)
        l->first_tensor[v] = NONE;
    for (size_t i = 0; i < l->part->route->count; i++) {
        const wf_group_t *group = &l->space->groups.items[l->part->route->items[i].group];
        const wf_problem_t *problem = l->space->problems.items[group->problem].problem;
        for (size_t o = 0; o < problem->operand_count; o++) {
            if (group->operands[o] != WF_NO_VALUE && !problem->operands[o].is_const)
                l->uses_left[group->operands[o]]++;
        }
    }
    for (size_t i = 0; i < l->graph->outputs.count; i++)
        l->uses_left[l->graph->outputs.items[i]]++;
    return WF_OK;
}

static wf_status_t add_inputs(lowering_t *l)
{
    for (size_t i = 0; i < l->graph->inputs.count; i++) {
        wf_value_id value = l->graph->inputs.items[i];
        uint64_t bytes = 0;
        uint32_t home = NONE, tensor = NONE;
        WF_TRY(layout_bytes(type_of(l, value), WF_LAYOUT_ROW, &bytes));
        WF_TRY(add_home(l, HOME_INPUT, bytes, &home));
        l->homes.items[home].port = (uint32_t)i;
        WF_TRY(add_tensor(l, value, WF_LAYOUT_ROW, home, &tensor));
    }
    return WF_OK;
}

static wf_status_t add_outputs(lowering_t *l)
{
    for (size_t i = 0; i < l->graph->outputs.count; i++) {
        wf_value_id value = l->graph->outputs.items[i];
        uint32_t from = NONE;
        if (wf_graph_value(l->graph, value)->constant != NULL && l->first_tensor[value] == NONE) {
            uint64_t bytes = 0;
            uint32_t home = NONE;
            WF_TRY(layout_bytes(type_of(l, value), WF_LAYOUT_ROW, &bytes));
            WF_TRY(add_home(l, HOME_CONSTANT, bytes, &home));
            l->homes.items[home].constant = value;
            WF_TRY(add_tensor(l, value, WF_LAYOUT_ROW, home, &from));
        } else {
            WF_TRY(tensor_in(l, value, WF_LAYOUT_ROW, &from));
        }
        use_value(l, value);
        home_t *home = home_of(l, from);
        uint64_t bytes = 0;
        WF_TRY(layout_bytes(type_of(l, value), WF_LAYOUT_ROW, &bytes));
        if (home->kind == HOME_ARENA && home->bytes == bytes) {
            home->kind = HOME_OUTPUT;
            home->port = (uint32_t)i;
            home->dense = true;
            continue;
        }
        uint32_t target = NONE, to = NONE;
        WF_TRY(add_home(l, HOME_OUTPUT, bytes, &target));
        l->homes.items[target].port = (uint32_t)i;
        WF_TRY(add_tensor(l, value, WF_LAYOUT_ROW, target, &to));
        WF_TRY(add_copy(l, from, to));
    }
    return WF_OK;
}

/* ---- concatenation in place ---- */

typedef struct concat_view {
    bool strided;     /* rows of the parts are interleaved: channels of pixels */
    int64_t channels; /* of the result */
} concat_view_t;

/* Whether the step only puts its operands beside each other, and how. */
static bool is_concat(const draft_t *draft, concat_view_t *out_view)
{
    if (draft->kind != WF_STEP_LAUNCH || draft->group == NULL)
        return false;
    const wf_problem_t *problem = draft->problem->problem;
    const wf_problem_stage_t *stage = &problem->stages[0];
    if (stage->op != WF_OP_CONCAT || problem->stage_count != 1)
        return false;
    const wf_type_t *out = &problem->outputs[0];
    int64_t axis = wf_attrs_int(&stage->attrs, "axis", 0);
    wf_layout_t layout = draft->choice->output_layouts[0];
    for (uint32_t i = 0; i < draft->operand_count; i++) {
        if (draft->choice->operand_layouts[i] != layout)
            return false;
    }
    int64_t outer = 1;
    if (layout == WF_LAYOUT_LAST && axis == 1) {
        for (uint32_t d = 0; d < out->rank; d++)
            outer *= d == 1 ? 1 : out->dims[d];
    } else if (layout == WF_LAYOUT_LAST) {
        for (int64_t d = 0; d < axis; d++)
            outer *= d == 1 ? 1 : out->dims[d];
    } else if (layout == WF_LAYOUT_ROW) {
        for (int64_t d = 0; d < axis; d++)
            outer *= out->dims[d];
    } else {
        return false;
    }
    out_view->strided = outer != 1;
    out_view->channels = out->dims[1];
    return outer == 1 || (layout == WF_LAYOUT_LAST && axis == 1);
}

static uint32_t top_home(const lowering_t *l, uint32_t home, uint64_t *out_offset)
{
    *out_offset = 0;
    while (l->homes.items[home].parent != NONE) {
        *out_offset += l->homes.items[home].parent_offset;
        home = l->homes.items[home].parent;
    }
    return home;
}

/* Nothing writes to the place of `result`, or of what it lies in, between the concatenation there and the
 * part's end. */
static bool stays_whole(const lowering_t *l, const home_t *part, uint32_t result)
{
    for (; result != NONE; result = l->homes.items[result].parent) {
        const home_t *home = &l->homes.items[result];
        if (home->last_write != home->concat_step && part->last_step > home->concat_step)
            return false;
    }
    return true;
}

/* Moves operand tensors of one concatenation into its result where that is safe. Called from the last
 * concatenation to the first, so that a result that already lies in a larger one hands its place on. */
static void concat_in_place(lowering_t *l, uint32_t step)
{
    draft_t *draft = &l->drafts.items[step];
    concat_view_t view;
    if (!is_concat(draft, &view))
        return;
    uint32_t result_home = l->tensors.items[draft->tensors[draft->operand_count]].home;
    home_t *result = &l->homes.items[result_home];
    result->concat_step = step;
    bool strided = view.strided || result->row_stride_elems != 0;
    if (result->row_stride_elems != 0 && !view.strided)
        return;
    uint64_t elem_bytes = wf_dtype_bits(draft->problem->problem->outputs[0].dtype) / 8, offset = 0;
    if (elem_bytes == 0)
        return;
    bool all = true;
    for (uint32_t i = 0; i < draft->operand_count; i++) {
        uint32_t tensor = draft->tensors[i];
        if (tensor == NONE) { /* a constant part: copied by the step */
            const wf_type_t *type = &draft->problem->problem->operands[i].type;
            offset += view.strided ? (uint64_t)type->dims[1] * elem_bytes
                                   : (uint64_t)WF_MAX(wf_type_bytes(type), 0);
            all = false;
            continue;
        }
        uint32_t part_home = l->tensors.items[tensor].home;
        home_t *part = &l->homes.items[part_home];
        const wf_type_t *type = type_of(l, l->tensors.items[tensor].value);
        uint64_t part_bytes = strided ? (uint64_t)type->dims[1] * elem_bytes : part->bytes;
        uint64_t dense_bytes = (uint64_t)WF_MAX(wf_type_bytes(type), 0);
        bool safe = part->kind == HOME_ARENA && part->parent == NONE && part_home != result_home &&
                    part->bytes == dense_bytes && part->last_write < step &&
                    stays_whole(l, part, result_home) && (!strided || (part->any_stride && !part->dense));
        if (safe) {
            part->parent = result_home;
            part->parent_offset = offset;
            part->row_stride_elems = !strided                        ? 0
                                     : result->row_stride_elems != 0 ? result->row_stride_elems
                                                                     : view.channels;
            result->first_step = WF_MIN(result->first_step, part->first_step);
            result->last_step = WF_MAX(result->last_step, part->last_step);
        } else {
            all = false;
        }
        offset += view.strided ? part_bytes : dense_bytes;
    }
    draft->removed = all;
}

/* ---- memory and result ---- */

static wf_status_t plan_memory(lowering_t *l, bool reuse, wf_lowered_t *lowered, wf_block_t **out_blocks,
                               uint32_t **out_workspace_blocks)
{
    size_t block_count = 0;
    wf_block_t *blocks = NULL;
    WF_TRY(wf_arena_alloc(&l->scratch, l->homes.count + l->drafts.count, sizeof *blocks, &blocks));
    WF_TRY(wf_arena_alloc(&l->scratch, l->drafts.count, sizeof **out_workspace_blocks, out_workspace_blocks));
    /* Lifetimes of nested homes reach their top first. */
    for (size_t h = 0; h < l->homes.count; h++) {
        uint64_t offset;
        home_t *home = &l->homes.items[h], *top = &l->homes.items[top_home(l, (uint32_t)h, &offset)];
        if (home->first_step == NONE)
            continue;
        top->first_step = WF_MIN(top->first_step, home->first_step);
        top->last_step = WF_MAX(top->last_step, home->last_step);
    }
    for (size_t h = 0; h < l->homes.count; h++) {
        home_t *home = &l->homes.items[h];
        if (home->kind != HOME_ARENA || home->parent != NONE || home->first_step == NONE)
            continue;
        home->block = (uint32_t)block_count;
        blocks[block_count++] = (wf_block_t){home->bytes, home->first_step, home->last_step, 0};
    }
    for (size_t s = 0; s < l->drafts.count; s++) {
        const draft_t *draft = &l->drafts.items[s];
        (*out_workspace_blocks)[s] = NONE;
        if (draft->choice == NULL || draft->removed || draft->choice->needs.workspace_bytes == 0)
            continue;
        (*out_workspace_blocks)[s] = (uint32_t)block_count;
        blocks[block_count++] =
            (wf_block_t){draft->choice->needs.workspace_bytes, (uint32_t)s, (uint32_t)s, 0};
    }
    *out_blocks = blocks;
    return wf_memory_plan(blocks, block_count, reuse, scratch_allocator(l), &lowered->arena_bytes);
}

static wf_status_t fill_bind(lowering_t *l, const draft_t *draft, uint32_t index, const wf_block_t *blocks,
                             wf_lowered_bind_t *bind)
{
    uint32_t tensor = draft->tensors[index];
    *bind = (wf_lowered_bind_t){.kind = WF_BIND_NONE, .value = WF_NO_VALUE};
    if (tensor == NONE) {
        if (draft->operand_values == NULL || draft->operand_values[index] == WF_NO_VALUE)
            return WF_OK;
        bind->kind = WF_BIND_CONSTANT;
        bind->value = draft->operand_values[index];
        bind->bytes = (uint64_t)wf_type_bytes(type_of(l, bind->value));
        return WF_OK;
    }
    static const wf_bind_kind_t kinds[] = {[HOME_ARENA] = WF_BIND_ARENA,
                                           [HOME_INPUT] = WF_BIND_INPUT,
                                           [HOME_OUTPUT] = WF_BIND_OUTPUT,
                                           [HOME_CONSTANT] = WF_BIND_CONSTANT};
    const tensor_t *t = &l->tensors.items[tensor];
    const home_t *home = &l->homes.items[t->home];
    uint64_t offset;
    const home_t *top = &l->homes.items[top_home(l, t->home, &offset)];
    WF_TRY(layout_bytes(type_of(l, t->value), t->layout, &bind->bytes));
    bind->kind = kinds[top->kind];
    bind->index = top->port;
    bind->value = top->constant;
    bind->offset = offset + (top->kind == HOME_ARENA ? blocks[top->block].offset : 0);
    bind->row_stride_elems = home->row_stride_elems;
    if (home->row_stride_elems != 0) { /* up to the last element of the last row */
        const wf_type_t *type = type_of(l, t->value);
        uint64_t elem_bytes = wf_dtype_bits(type->dtype) / 8,
                 row_bytes = (uint64_t)type->dims[1] * elem_bytes;
        uint64_t rows = row_bytes > 0 ? bind->bytes / row_bytes : 0;
        if (rows > 0)
            bind->bytes = (rows - 1) * (uint64_t)home->row_stride_elems * elem_bytes + row_bytes;
    }
    return WF_OK;
}

static wf_status_t emit(lowering_t *l, const wf_block_t *blocks, const uint32_t *workspace_blocks,
                        wf_lowered_t *lowered)
{
    WF_TRY(wf_arena_alloc(l->arena, l->drafts.count, sizeof *lowered->steps, &lowered->steps));
    for (size_t s = 0; s < l->drafts.count; s++) {
        const draft_t *draft = &l->drafts.items[s];
        if (draft->removed)
            continue;
        wf_lowered_step_t *step = &lowered->steps[lowered->step_count++];
        uint32_t bind_count = draft->operand_count + draft->output_count;
        wf_lowered_bind_t *binds = NULL;
        WF_TRY(wf_arena_alloc(l->arena, bind_count, sizeof *binds, &binds));
        for (uint32_t i = 0; i < bind_count; i++)
            WF_TRY(fill_bind(l, draft, i, blocks, &binds[i]));
        *step = (wf_lowered_step_t){.kind = draft->kind,
                                    .nodes = draft->nodes,
                                    .group = draft->group_index,
                                    .binds = binds,
                                    .operand_count = draft->operand_count,
                                    .output_count = draft->output_count};
        if (draft->choice != NULL) {
            step->problem = draft->problem->problem;
            step->tactic_id = draft->choice->tactic_id;
            step->workspace_bytes = draft->choice->needs.workspace_bytes;
        }
        if (workspace_blocks[s] != NONE)
            step->workspace_offset = blocks[workspace_blocks[s]].offset;
    }
    return WF_OK;
}

static wf_status_t run_lowering(lowering_t *l, bool memory_reuse, bool concat_inplace, wf_lowered_t *lowered)
{
    WF_TRY(count_uses(l));
    WF_TRY(add_inputs(l));
    for (size_t i = 0; i < l->part->route->count; i++)
        WF_TRY(lower_item(l, &l->part->route->items[i]));
    WF_TRY(add_outputs(l));
    for (size_t s = l->drafts.count; concat_inplace && s-- > 0;)
        concat_in_place(l, (uint32_t)s);
    wf_block_t *blocks = NULL;
    uint32_t *workspace_blocks = NULL;
    WF_TRY(plan_memory(l, memory_reuse, lowered, &blocks, &workspace_blocks));
    return emit(l, blocks, workspace_blocks, lowered);
}

wf_status_t wf_lower(const wf_engine_part_t *part, bool memory_reuse, bool concat_inplace, wf_arena_t *arena,
                     wf_lowered_t *out_lowered)
{
    *out_lowered = (wf_lowered_t){0};
    lowering_t lowering = {.part = part, .space = part->space, .graph = part->space->graph, .arena = arena};
    wf_arena_init(&lowering.scratch, arena->allocator);
    wf_status_t status = run_lowering(&lowering, memory_reuse, concat_inplace, out_lowered);
    wf_arena_deinit(&lowering.scratch);
    return status;
}
