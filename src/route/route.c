/* SPDX-License-Identifier: Apache-2.0 */
/* Routes: what a group takes and makes, checking, conversions and cost from the items alone. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "route/space_internal.h"

void wf_route_deinit(wf_route_t *route)
{
    if (route->items != NULL) {
        wf_free(route->allocator, route->items, route->count, sizeof *route->items);
    }
    *route = (wf_route_t){.allocator = route->allocator};
}

/* ---- Replacing ---- */

static bool same_item(const wf_route_item_t *a, const wf_route_item_t *b)
{
    return a->group == b->group && a->choice == b->choice;
}

/* Routes run in the order of their groups' last nodes. */
static uint32_t item_position(const wf_space_t *space, const wf_route_item_t *item)
{
    return space->position[wf_group_last(&space->groups.items[item->group])];
}

wf_status_t wf_route_replace(wf_space_t *space, const wf_route_t *base, const wf_route_item_t *removed,
                             size_t removed_count, const wf_route_item_t *added, size_t added_count,
                             wf_route_t *out_route)
{
    *out_route = (wf_route_t){.allocator = base->allocator};
    if (removed_count > base->count)
        return WF_ERROR(INTERNAL, "a route cannot lose more items than it has");
    size_t count = base->count - removed_count + added_count, kept = 0;
    WF_TRY(wf_alloc(base->allocator, count, sizeof *out_route->items, &out_route->items));
    out_route->count = count;
    for (size_t i = 0; i < base->count; i++) {
        bool out = false;
        for (size_t r = 0; r < removed_count; r++)
            out |= same_item(&base->items[i], &removed[r]);
        if (!out && kept < count - added_count)
            out_route->items[kept] = base->items[i];
        kept += !out;
    }
    if (kept != count - added_count) {
        wf_route_deinit(out_route);
        return WF_ERROR(INTERNAL, "a route does not have the items to replace");
    }
    for (size_t a = 0; a < added_count; a++) { /* insertion: most are few */
        size_t at = kept++;
        for (; at > 0 && item_position(space, &out_route->items[at - 1]) > item_position(space, &added[a]);
             at--)
            out_route->items[at] = out_route->items[at - 1];
        out_route->items[at] = added[a];
    }
    wf_status_t status = wf_route_cost(space, out_route, &out_route->cost_ns);
    if (status != WF_OK)
        wf_route_deinit(out_route);
    return status;
}

/* ---- Groups ---- */

uint32_t wf_group_member(const wf_group_t *group, wf_node_id node)
{
    uint32_t member = 0;
    while (group->nodes[member] != node) {
        member++;
        assert(member < group->node_count);
    }
    return member;
}

uint32_t wf_group_needs(const wf_space_t *space, const wf_group_t *group, const wf_choice_t *choice,
                        uint32_t member, wf_value_id value)
{
    const wf_problem_t *problem = space->problems.items[group->problem].problem;
    const wf_problem_stage_t *stage = &problem->stages[member];
    uint32_t mask = 0;
    for (uint32_t i = stage->first_operand; i < stage->first_operand + stage->operand_count; i++) {
        if (group->operands[i] == value) {
            mask |= 1u << wf_layout_canonical(&problem->operands[i].type, choice->operand_layouts[i]);
        }
    }
    return mask;
}

wf_layout_t wf_group_makes(const wf_space_t *space, const wf_group_t *group, const wf_choice_t *choice,
                           wf_value_id value)
{
    for (uint32_t i = 0; i < group->output_count; i++) {
        if (group->outputs[i] == value) {
            return wf_layout_canonical(&wf_graph_value(space->graph, value)->type, choice->output_layouts[i]);
        }
    }
    return WF_LAYOUT_COUNT;
}

/* ---- Checking ---- */

static wf_status_t check_item(const wf_space_t *space, const wf_route_item_t *item, uint8_t *node_covered,
                              uint8_t *value_made)
{
    const wf_graph_t *graph = space->graph;
    if (item->group >= space->groups.count) {
        return WF_ERROR(INTERNAL, "a route names group %u of %zu", item->group, space->groups.count);
    }
    const wf_group_t *group = &space->groups.items[item->group];
    const wf_space_problem_t *entry = &space->problems.items[group->problem];
    const char *name = wf_node_name(graph, wf_group_last(group));
    if (item->choice >= entry->choices.count || entry->choices.items[item->choice].banned) {
        return WF_ERROR(INTERNAL, "a route gives %s choice %u, which cannot be used", name, item->choice);
    }
    for (uint32_t i = 0; i < entry->problem->operand_count; i++) {
        wf_value_id value = group->operands[i];
        if (value == WF_NO_VALUE || wf_graph_value(graph, value)->constant != NULL) {
            continue;
        }
        if (!wf_graph_value(graph, value)->is_input && !value_made[value]) {
            return WF_ERROR(INTERNAL, "a route uses %s for %s before it is made",
                            wf_graph_value(graph, value)->name, name);
        }
    }
    for (uint32_t i = 0; i < group->node_count; i++) {
        if (node_covered[group->nodes[i]]++) {
            return WF_ERROR(INTERNAL, "a route covers node %s twice", wf_node_name(graph, group->nodes[i]));
        }
    }
    for (uint32_t i = 0; i < group->output_count; i++) {
        if (group->outputs[i] != WF_NO_VALUE) {
            value_made[group->outputs[i]] = 1;
        }
    }
    return WF_OK;
}

wf_status_t wf_route_check(const wf_space_t *space, const wf_route_t *route)
{
    const wf_graph_t *graph = space->graph;
    uint8_t *node_covered, *value_made;
    WF_TRY(wf_alloc(space->allocator, graph->nodes.count, 1, &node_covered));
    wf_status_t status = wf_alloc(space->allocator, graph->values.count, 1, &value_made);
    for (size_t i = 0; status == WF_OK && i < route->count; i++) {
        status = check_item(space, &route->items[i], node_covered, value_made);
    }
    for (size_t i = 0; status == WF_OK && i < graph->order.count; i++) {
        if (!node_covered[graph->order.items[i]]) {
            status =
                WF_ERROR(INTERNAL, "a route leaves out node %s", wf_node_name(graph, graph->order.items[i]));
        }
    }
    for (size_t i = 0; status == WF_OK && i < graph->outputs.count; i++) {
        const wf_value_t *value = wf_graph_value(graph, graph->outputs.items[i]);
        if (value->producer != WF_NO_NODE && !value_made[graph->outputs.items[i]]) {
            status = WF_ERROR(INTERNAL, "a route does not make the output %s", value->name);
        }
    }
    wf_free(space->allocator, value_made, graph->values.count, 1);
    wf_free(space->allocator, node_covered, graph->nodes.count, 1);
    return status;
}

/* ---- Conversions ---- */

typedef struct converter {
    wf_space_t *space;
    wf_allocator_t allocator;
    uint8_t *made;    /* layout + 1 in which the value is made; 0: not yet, or a constant */
    uint8_t *present; /* bit i: it is there in layout i */
    WF_VEC(wf_route_conversion_t) items;
} converter_t;

static wf_status_t need_layout(converter_t *converter, wf_value_id value, wf_layout_t layout, uint32_t before)
{
    const wf_value_t *v = wf_graph_value(converter->space->graph, value);
    if (v->constant != NULL) {
        return WF_OK;
    }
    if (v->is_input && converter->made[value] == 0) {
        converter->made[value] = WF_LAYOUT_ROW + 1;
        converter->present[value] = 1u << WF_LAYOUT_ROW;
    }
    if (converter->made[value] == 0) {
        return WF_ERROR(INTERNAL, "a route uses %s before it is made", v->name);
    }
    layout = wf_layout_canonical(&v->type, layout);
    if (converter->present[value] >> layout & 1) {
        return WF_OK;
    }
    converter->present[value] = (uint8_t)(converter->present[value] | 1u << layout);
    wf_route_conversion_t item = {
        .value = value, .from = (wf_layout_t)(converter->made[value] - 1), .to = layout, .before = before};
    WF_TRY(wf_space_convert(converter->space, value, item.from, item.to, &item.problem));
    return wf_vec_push(converter->allocator, &converter->items, &item);
}

static wf_status_t convert_route(converter_t *converter, const wf_route_t *route)
{
    wf_space_t *space = converter->space;
    const wf_graph_t *graph = space->graph;
    for (size_t i = 0; i < route->count; i++) {
        const wf_group_t *group = &space->groups.items[route->items[i].group];
        const wf_space_problem_t *entry = &space->problems.items[group->problem];
        const wf_problem_t *problem = entry->problem;
        const wf_choice_t choice =
            entry->choices.items[route->items[i].choice]; /* problems may be added below */
        for (uint32_t k = 0; k < problem->operand_count; k++) {
            if (group->operands[k] != WF_NO_VALUE) {
                WF_TRY(need_layout(converter, group->operands[k], choice.operand_layouts[k], (uint32_t)i));
            }
        }
        for (uint32_t k = 0; k < group->output_count; k++) {
            wf_value_id value = group->outputs[k];
            if (value != WF_NO_VALUE) {
                wf_layout_t layout =
                    wf_layout_canonical(&wf_graph_value(graph, value)->type, choice.output_layouts[k]);
                converter->made[value] = (uint8_t)(layout + 1);
                converter->present[value] = (uint8_t)(1u << layout);
            }
        }
    }
    for (size_t i = 0; i < graph->outputs.count; i++) {
        WF_TRY(need_layout(converter, graph->outputs.items[i], WF_LAYOUT_ROW, (uint32_t)route->count));
    }
    return WF_OK;
}

wf_status_t wf_route_conversions(wf_space_t *space, const wf_route_t *route, wf_allocator_t allocator,
                                 wf_route_conversion_t **out_items, size_t *out_count)
{
    *out_items = NULL;
    *out_count = 0;
    size_t values = space->graph->values.count;
    converter_t converter = {.space = space, .allocator = space->allocator};
    WF_TRY(wf_alloc(space->allocator, values, 1, &converter.made));
    wf_status_t status = wf_alloc(space->allocator, values, 1, &converter.present);
    if (status == WF_OK) {
        status = convert_route(&converter, route);
    }
    if (status == WF_OK) {
        status = wf_alloc(allocator, converter.items.count, sizeof **out_items, out_items);
    }
    if (status == WF_OK && converter.items.count > 0) {
        *out_count = converter.items.count;
        memcpy(*out_items, converter.items.items, *out_count * sizeof **out_items);
    }
    wf_vec_deinit(space->allocator, &converter.items);
    wf_free(space->allocator, converter.present, values, 1);
    wf_free(space->allocator, converter.made, values, 1);
    return status;
}

wf_status_t wf_route_cost(wf_space_t *space, const wf_route_t *route, double *out_cost_ns)
{
    wf_route_conversion_t *conversions;
    size_t count;
    *out_cost_ns = 0;
    WF_TRY(wf_route_conversions(space, route, space->allocator, &conversions, &count));
    double cost_ns = 0;
    for (size_t i = 0; i < route->count; i++) {
        const wf_group_t *group = &space->groups.items[route->items[i].group];
        cost_ns += space->problems.items[group->problem].choices.items[route->items[i].choice].cost_ns;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t problem = conversions[i].problem, choice = wf_space_best_choice(space, problem);
        cost_ns += choice == WF_NO_CHOICE ? (double)INFINITY
                                          : space->problems.items[problem].choices.items[choice].cost_ns;
    }
    wf_free(space->allocator, conversions, count, sizeof *conversions);
    *out_cost_ns = cost_ns;
    return WF_OK;
}
