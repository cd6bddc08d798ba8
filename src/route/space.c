/* SPDX-License-Identifier: Apache-2.0 */
/* Space: groups that the patterns propose, and their problems. */
#include "route/space.h"

#include <string.h>

#include "base/compiler.h"
#include "base/log.h"
#include "route/patterns.h"
#include "route/space_internal.h"

/* Up to this many nodes every prefix of every chain is a group: at most 36 groups a node. Beyond it a chain
 * is cut into its longest pieces that some source does, so that a graph of a million nodes has at most a few
 * groups a node. */
#define EVERY_PREFIX_MAX_NODES 20000u
#define PARTS_KEY_MAX_BYTES ((size_t)16 << 20)

/* ---- A group as the parts of a problem ---- */

typedef struct builder {
    wf_space_t *space;
    const wf_graph_t *graph;
    bool *covered; /* by position: in a group of several nodes (only kept when chains are cut) */
    /* of the group at hand */
    wf_problem_part_t parts[WF_PATTERN_MAX_NODES];
    WF_VEC(wf_problem_operand_t) operands;
    WF_VEC(wf_value_id) operand_values;
    WF_VEC(wf_type_t) outputs;
    WF_VEC(wf_value_id) output_values;
    wf_text_t key;
} builder_t;

/* The operators whose inputs may be listed in any order: the running value goes first, constants last. */
static bool commutes(const wf_node_t *node)
{
    return (wf_op_info(node->op)->flags & WF_OP_FLAG_COMM) != 0;
}

static bool is_constant(const wf_graph_t *graph, wf_value_id value)
{
    return value != WF_NO_VALUE && wf_graph_value(graph, value)->constant != NULL;
}

static wf_status_t operand_add(builder_t *builder, wf_value_id value)
{
    wf_problem_operand_t operand;
    memset(&operand, 0, sizeof operand);
    if (value != WF_NO_VALUE) {
        operand.type = wf_graph_value(builder->graph, value)->type;
        operand.is_const = is_constant(builder->graph, value);
    }
    WF_TRY(wf_vec_push(builder->space->allocator, &builder->operands, &operand));
    return wf_vec_push(builder->space->allocator, &builder->operand_values, &value);
}

/* The node as a part; `running` is the value it takes from the node before it, or WF_NO_VALUE. */
static wf_status_t part_add(builder_t *builder, wf_problem_part_t *part, const wf_node_t *node,
                            wf_value_id running)
{
    uint32_t inputs = wf_node_given_inputs(node);
    size_t first = builder->operands.count;
    *part = (wf_problem_part_t){.op = node->op, .attrs = node->attrs};
    for (uint32_t i = 0; i < inputs; i++) {
        if (running != WF_NO_VALUE && node->inputs[i] == running) {
            part->chain_mask |= 1u << i;
        }
    }
    bool sort = commutes(node);
    if (sort && part->chain_mask != 0) {
        uint32_t taken = (uint32_t)__builtin_popcount(part->chain_mask);
        part->chain_mask = (1u << taken) - 1;
    }
    for (int constants = 0; constants <= (sort ? 1 : 0); constants++) {
        for (uint32_t i = 0; i < inputs; i++) {
            wf_value_id value = node->inputs[i];
            bool is_running = running != WF_NO_VALUE && value == running;
            if (!is_running && (!sort || is_constant(builder->graph, value) == (constants == 1))) {
                WF_TRY(operand_add(builder, value));
            }
        }
    }
    part->operand_count = builder->operands.count - first;
    return WF_OK;
}

static wf_status_t output_add(builder_t *builder, const wf_node_t *node, uint32_t index)
{
    wf_value_id value =
        wf_node_output_wanted(builder->graph, node, index) ? node->outputs[index] : WF_NO_VALUE;
    wf_type_t type;
    memset(&type, 0, sizeof type);
    if (value != WF_NO_VALUE) {
        type = wf_graph_value(builder->graph, value)->type;
    }
    WF_TRY(wf_vec_push(builder->space->allocator, &builder->outputs, &type));
    return wf_vec_push(builder->space->allocator, &builder->output_values, &value);
}

static wf_status_t parts_make(builder_t *builder, const wf_node_id *nodes, uint32_t count)
{
    builder->operands.count = builder->operand_values.count = 0;
    builder->outputs.count = builder->output_values.count = 0;
    wf_value_id running = WF_NO_VALUE;
    for (uint32_t n = 0; n < count; n++) {
        const wf_node_t *node = wf_graph_node(builder->graph, nodes[n]);
        WF_TRY(part_add(builder, &builder->parts[n], node, running));
        running = node->output_count > 0 ? node->outputs[0] : WF_NO_VALUE;
    }
    size_t next = 0;
    for (uint32_t n = 0; n < count; n++) { /* after the last push: the array may have moved */
        builder->parts[n].operands = builder->operands.items + next;
        next += builder->parts[n].operand_count;
    }
    const wf_node_t *last = wf_graph_node(builder->graph, nodes[count - 1]);
    uint32_t outputs = count > 1 ? 1 : wf_node_wanted_outputs(builder->graph, last);
    for (uint32_t i = 0; i < outputs; i++) {
        WF_TRY(output_add(builder, last, i));
    }
    return WF_OK;
}

/* ---- Problems, shared by groups that are alike ---- */

static void key_type(wf_text_t *key, const wf_type_t *type)
{
    wf_text_append(key, (const char *)&type->dtype, sizeof type->dtype);
    wf_text_append(key, (const char *)&type->rank, sizeof type->rank);
    wf_text_append(key, (const char *)type->dims, type->rank * sizeof *type->dims);
}

static void key_attr(wf_text_t *key, const wf_attr_t *attr)
{
    wf_text_append(key, attr->name, strlen(attr->name) + 1);
    wf_text_append(key, (const char *)&attr->kind, sizeof attr->kind);
    wf_text_append(key, (const char *)&attr->count, sizeof attr->count);
    switch (attr->kind) {
    case WF_ATTR_INT:
        wf_text_append(key, (const char *)&attr->v.i, sizeof attr->v.i);
        break;
    case WF_ATTR_FLOAT:
        wf_text_append(key, (const char *)&attr->v.f, sizeof attr->v.f);
        break;
    case WF_ATTR_STRING:
        wf_text_append(key, attr->v.s, attr->count);
        break;
    case WF_ATTR_INTS:
        wf_text_append(key, (const char *)attr->v.ints, attr->count * sizeof *attr->v.ints);
        break;
    case WF_ATTR_FLOATS:
        wf_text_append(key, (const char *)attr->v.floats, attr->count * sizeof *attr->v.floats);
        break;
    case WF_ATTR_STRINGS:
        for (size_t i = 0; i < attr->count; i++) {
            wf_text_append(key, attr->v.strings[i], strlen(attr->v.strings[i]) + 1);
        }
        break;
    case WF_ATTR_TENSOR: {
        int64_t bytes = wf_type_bytes(&attr->v.tensor->type);
        key_type(key, &attr->v.tensor->type);
        wf_text_append(key, attr->v.tensor->data, bytes > 0 ? (size_t)bytes : 0);
        break;
    }
    }
}

/* All that decides the problem's text. Making the text costs microseconds; a million equal nodes make it
 * once. */
static wf_status_t key_make(builder_t *builder, uint32_t part_count)
{
    wf_text_t *key = &builder->key;
    key->length = 0;
    for (uint32_t p = 0; p < part_count; p++) {
        const wf_problem_part_t *part = &builder->parts[p];
        uint32_t head[4] = {part->op, part->chain_mask, (uint32_t)part->operand_count,
                            (uint32_t)part->attrs.count};
        wf_text_append(key, (const char *)head, sizeof head);
        for (size_t i = 0; i < part->operand_count; i++) {
            key_type(key, &part->operands[i].type);
            wf_text_append(key, part->operands[i].is_const ? "c" : "v", 1);
        }
        for (size_t i = 0; i < part->attrs.count; i++) {
            key_attr(key, &part->attrs.items[i]);
        }
    }
    for (size_t i = 0; i < builder->outputs.count; i++) {
        key_type(key, &builder->outputs.items[i]);
    }
    return wf_text_take_status(key);
}

static wf_status_t problem_find(builder_t *builder, uint32_t part_count, uint32_t *out_problem)
{
    wf_space_t *space = builder->space;
    WF_TRY(key_make(builder, part_count));
    uint64_t known;
    if (wf_map_get(&space->parts_index, builder->key.data, builder->key.length, &known)) {
        *out_problem = (uint32_t)known;
        return WF_OK;
    }
    const wf_problem_t *problem;
    WF_TRY(wf_problem_make(builder->parts, part_count, builder->outputs.items, builder->outputs.count,
                           &space->arena, &problem));
    if (problem->operand_count != builder->operands.count ||
        problem->output_count != builder->outputs.count) {
        return WF_ERROR(INTERNAL, "the problem %s has other operands than its group", problem->text);
    }
    WF_TRY(wf_space_problem_add(space, problem, part_count == 1, out_problem));
    const char *kept;
    WF_TRY(wf_arena_text(&space->arena, builder->key.data, builder->key.length, &kept));
    return wf_map_set(&space->parts_index, kept, builder->key.length, *out_problem);
}

/* ---- Groups ---- */

/* The problem of a group of these nodes; the builder's arrays hold its operands and outputs. */
static wf_status_t group_problem(builder_t *builder, const wf_node_id *nodes, uint32_t count,
                                 uint32_t *out_problem)
{
    wf_status_t status = parts_make(builder, nodes, count);
    if (status == WF_OK) {
        status = problem_find(builder, count, out_problem);
    }
    wf_node_id last = nodes[count - 1];
    return wf_status_annotated(status, "node %s (%s)", wf_node_name(builder->graph, last),
                               wf_op_info(wf_graph_node(builder->graph, last)->op)->onnx_name);
}

static bool problem_usable(const wf_space_t *space, uint32_t problem)
{
    return space->problems.items[problem].choices.count > 0;
}

/* Stores the group that group_problem looked at. */
static wf_status_t group_add(builder_t *builder, const wf_pattern_t *pattern, const wf_node_id *nodes,
                             uint32_t count, uint32_t problem)
{
    wf_space_t *space = builder->space;
    size_t operands = builder->operands.count, outputs = builder->outputs.count;
    uint32_t *ids; /* one block: small allocations are what a space of a million groups is made of */
    static_assert(sizeof(wf_node_id) == sizeof *ids && sizeof(wf_value_id) == sizeof *ids,
                  "ids share a block");
    WF_TRY(wf_arena_alloc(&space->arena, count + operands + outputs, sizeof *ids, &ids));
    wf_group_t group = {.pattern = pattern->name,
                        .nodes = ids,
                        .node_count = count,
                        .problem = problem,
                        .operands = ids + count,
                        .outputs = ids + count + operands,
                        .output_count = (uint32_t)outputs};
    memcpy(group.nodes, nodes, count * sizeof *nodes);
    if (operands > 0) {
        memcpy(group.operands, builder->operand_values.items, operands * sizeof *group.operands);
    }
    memcpy(group.outputs, builder->output_values.items, outputs * sizeof *group.outputs);
    space->problems.items[problem].use_count++;
    space->group_item_count += problem_usable(space, problem) ? count : 0;
    if (space->groups.count >= UINT32_MAX || space->group_item_count >= UINT32_MAX) {
        return WF_ERROR(MODEL_LIMIT, "the graph has too many groups");
    }
    return wf_vec_push(space->allocator, &space->groups, &group);
}

/* Every prefix of the chain is a group. */
static wf_status_t propose_every(builder_t *builder, const wf_pattern_t *pattern, const wf_node_id *nodes,
                                 uint32_t count)
{
    for (uint32_t length = pattern->nodes_min; length <= count; length++) {
        uint32_t problem;
        WF_TRY(group_problem(builder, nodes, length, &problem));
        WF_TRY(group_add(builder, pattern, nodes, length, problem));
    }
    return WF_OK;
}

/* The longest prefix that some source does and that meets no group made before; a node alone always. */
static wf_status_t propose_longest(builder_t *builder, const wf_pattern_t *pattern, const wf_node_id *nodes,
                                   uint32_t count)
{
    const uint32_t *position = builder->space->position;
    for (uint32_t n = 0; n < count && count > 1; n++) {
        if (builder->covered[position[nodes[n]]]) {
            count = n;
        }
    }
    for (uint32_t length = count; length >= pattern->nodes_min; length--) {
        uint32_t problem;
        WF_TRY(group_problem(builder, nodes, length, &problem));
        if (length > 1 && !problem_usable(builder->space, problem)) {
            continue;
        }
        for (uint32_t n = 0; n < length && length > 1; n++) {
            builder->covered[position[nodes[n]]] = true;
        }
        return group_add(builder, pattern, nodes, length, problem);
    }
    return WF_OK;
}

static bool pattern_open(const wf_pattern_t *pattern, const wf_knobs_t *knobs)
{
    return pattern->knob == SIZE_MAX || *(const bool *)((const char *)knobs + pattern->knob);
}

static wf_status_t groups_propose(builder_t *builder)
{
    const wf_graph_t *graph = builder->graph;
    size_t pattern_count;
    const wf_pattern_t *patterns = wf_patterns(&pattern_count);
    for (size_t i = 0; i < graph->order.count; i++) {
        for (size_t p = 0; p < pattern_count; p++) {
            if (!pattern_open(&patterns[p], &builder->space->knobs)) {
                continue;
            }
            wf_node_id nodes[WF_PATTERN_MAX_NODES];
            uint32_t count =
                wf_pattern_chain(&patterns[p], graph, &builder->space->uses, graph->order.items[i], nodes);
            if (count == 0) {
                continue;
            }
            if (builder->covered != NULL) {
                WF_TRY(propose_longest(builder, &patterns[p], nodes, count));
            } else {
                WF_TRY(propose_every(builder, &patterns[p], nodes, count));
            }
        }
    }
    return WF_OK;
}

/* ---- Groups of a node ---- */

static wf_status_t index_groups(wf_space_t *space)
{
    space->node_capacity = space->graph->nodes.count;
    WF_TRY(wf_alloc(space->allocator, space->node_capacity + 1, sizeof *space->group_first,
                    &space->group_first));
    WF_TRY(
        wf_alloc(space->allocator, space->group_item_count, sizeof *space->group_items, &space->group_items));
    uint32_t *first = space->group_first;
    for (size_t g = 0; g < space->groups.count; g++) {
        const wf_group_t *group = &space->groups.items[g];
        bool usable = problem_usable(space, group->problem);
        for (uint32_t n = 0; usable && n < group->node_count; n++) {
            first[group->nodes[n] + 1]++;
        }
    }
    for (size_t n = 0; n < space->node_capacity; n++) {
        first[n + 1] += first[n];
    }
    for (size_t g = space->groups.count; g-- > 0;) { /* backwards, so that first[] ends where it began */
        const wf_group_t *group = &space->groups.items[g];
        bool usable = problem_usable(space, group->problem);
        for (uint32_t n = 0; usable && n < group->node_count; n++) {
            space->group_items[--first[group->nodes[n] + 1]] = (uint32_t)g;
        }
    }
    memmove(first, first + 1, space->node_capacity * sizeof *first);
    first[space->node_capacity] = (uint32_t)space->group_item_count;
    return WF_OK;
}

static wf_status_t unsupported(const wf_space_t *space, wf_node_id node)
{
    const wf_problem_t *problem = NULL;
    wf_text_t reasons;
    wf_text_init(&reasons, space->allocator, 512);
    for (size_t g = 0; g < space->groups.count && problem == NULL; g++) {
        const wf_group_t *group = &space->groups.items[g];
        if (group->node_count != 1 || group->nodes[0] != node) {
            continue;
        }
        const wf_space_problem_t *entry = &space->problems.items[group->problem];
        problem = entry->problem;
        for (size_t d = 0; d < entry->declines.count; d++) {
            const wf_decline_note_t *note = &entry->declines.items[d];
            wf_text_printf(&reasons, "%s%s: %s", d > 0 ? "; " : "", note->family, note->text);
        }
    }
    wf_status_ignore(wf_text_take_status(&reasons)); /* a long list may be cut */
    wf_status_t status = WF_ERROR(
        MODEL_UNSUPPORTED, "node %s (%s): no tactic source does %s%s%s", wf_node_name(space->graph, node),
        wf_op_info(wf_graph_node(space->graph, node)->op)->onnx_name, problem != NULL ? problem->text : "it",
        reasons.length > 0 ? ": " : "", wf_text_cstr(&reasons));
    wf_text_deinit(&reasons);
    return status;
}

static wf_status_t check_covered(const wf_space_t *space)
{
    for (size_t i = 0; i < space->graph->order.count; i++) {
        wf_node_id node = space->graph->order.items[i];
        if (space->group_first[node] == space->group_first[node + 1]) {
            return unsupported(space, node);
        }
    }
    return WF_OK;
}

/* ---- The space ---- */

static wf_status_t space_build(wf_space_t *space)
{
    const wf_graph_t *graph = space->graph;
    WF_TRY(wf_uses_build(graph, space->allocator, &space->uses));
    WF_TRY(wf_arena_alloc(&space->arena, graph->nodes.count, sizeof *space->position, &space->position));
    for (size_t i = 0; i < graph->order.count; i++) {
        space->position[graph->order.items[i]] = (uint32_t)i;
    }
    builder_t builder = {.space = space, .graph = graph};
    wf_text_init(&builder.key, space->allocator, PARTS_KEY_MAX_BYTES);
    bool cut = graph->order.count > EVERY_PREFIX_MAX_NODES;
    wf_status_t status = WF_OK;
    if (cut) {
        status = wf_alloc(space->allocator, graph->order.count, sizeof *builder.covered, &builder.covered);
    }
    if (status == WF_OK) {
        status = groups_propose(&builder);
    }
    wf_free(space->allocator, builder.covered, graph->order.count, sizeof *builder.covered);
    wf_vec_deinit(space->allocator, &builder.operands);
    wf_vec_deinit(space->allocator, &builder.operand_values);
    wf_vec_deinit(space->allocator, &builder.outputs);
    wf_vec_deinit(space->allocator, &builder.output_values);
    wf_text_deinit(&builder.key);
    WF_TRY(status);
    WF_TRY(index_groups(space));
    return check_covered(space);
}

wf_status_t wf_space_create(const wf_graph_t *graph, const wf_backends_t *backends,
                            const wf_space_options_t *options, wf_space_t **out_space)
{
    *out_space = NULL;
    wf_space_t *space;
    WF_TRY(wf_alloc(options->allocator, 1, sizeof *space, &space));
    space->allocator = options->allocator;
    space->graph = graph;
    space->backends = backends;
    space->knobs = options->knobs;
    wf_arena_init(&space->arena, options->allocator);
    wf_map_init(&space->problem_index, options->allocator);
    wf_map_init(&space->parts_index, options->allocator);
    wf_map_init(&space->convert_index, options->allocator);
    wf_status_t status = space_build(space);
    if (status != WF_OK) {
        wf_space_destroy(space);
        return status;
    }
    wf_log_line(&options->log, WF_LOG_DEBUG, "space: %zu nodes, %zu groups, %zu problems", graph->order.count,
                space->groups.count, space->problems.count);
    *out_space = space;
    return WF_OK;
}

void wf_space_destroy(wf_space_t *space)
{
    if (space == NULL) {
        return;
    }
    wf_allocator_t allocator = space->allocator;
    wf_free(allocator, space->group_items, space->group_item_count, sizeof *space->group_items);
    wf_free(allocator, space->group_first, space->node_capacity + 1, sizeof *space->group_first);
    wf_uses_deinit(&space->uses);
    wf_map_deinit(&space->convert_index);
    wf_map_deinit(&space->parts_index);
    wf_map_deinit(&space->problem_index);
    wf_vec_deinit(allocator, &space->groups);
    wf_arena_deinit(&space->arena);
    wf_free(allocator, space, 1, sizeof *space);
}
