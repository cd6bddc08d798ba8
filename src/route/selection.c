/* SPDX-License-Identifier: Apache-2.0 */
/* Building the PBQP of a space. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "route/selection.h"

/* R2 costs the cube of this: 0.6 ms a node at 64. Models of the corpus with four layouts offered for every
 * operator have 5 to 12 labels a node on average. */
#define MAX_LABELS 64u
#define LAYOUT_SETS (1u << WF_LAYOUT_COUNT)

/* ---- Options ---- */

/* The cheapest usable choice of every signature, by rising tactic id (the order of choices). */
static uint32_t cheapest_choices(const wf_space_problem_t *entry, uint32_t *best, uint32_t *out_choices)
{
    for (uint32_t s = 0; s < entry->signature_count; s++) {
        best[s] = WF_NO_CHOICE;
    }
    for (uint32_t i = 0; i < entry->choices.count; i++) {
        const wf_choice_t *choice = &entry->choices.items[i];
        uint32_t *slot = &best[choice->signature];
        if (wf_choice_usable(choice) && !isinf(choice->cost_ns) &&
            (*slot == WF_NO_CHOICE || choice->cost_ns < entry->choices.items[*slot].cost_ns)) {
            *slot = i;
        }
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < entry->choices.count; i++) {
        if (best[entry->choices.items[i].signature] == i) {
            out_choices[count++] = i;
        }
    }
    return count;
}

static wf_status_t options_make(wf_selection_t *selection)
{
    const wf_space_t *space = selection->space;
    size_t group_count = space->groups.count, most = 0;
    for (size_t p = 0; p < space->problems.count; p++) {
        most = WF_MAX(most, space->problems.items[p].choices.count);
    }
    uint32_t *best, *choices;
    WF_TRY(wf_arena_alloc(&selection->arena, most, sizeof *best, &best));
    WF_TRY(wf_arena_alloc(&selection->arena, most, sizeof *choices, &choices));
    WF_TRY(wf_arena_alloc(&selection->arena, group_count + 1, sizeof *selection->option_first,
                          &selection->option_first));
    for (size_t g = 0; g < group_count; g++) {
        const wf_space_problem_t *entry = &space->problems.items[space->groups.items[g].problem];
        uint32_t count = cheapest_choices(entry, best, choices);
        for (uint32_t i = 0; i < count; i++) {
            wf_option_t option = {.group = (uint32_t)g,
                                  .choice = choices[i],
                                  .cost_ns = entry->choices.items[choices[i]].cost_ns};
            WF_TRY(wf_vec_push(space->allocator, &selection->options, &option));
        }
        if (selection->options.count >= UINT32_MAX) {
            return WF_ERROR(MODEL_LIMIT, "the space has too many options");
        }
        selection->option_first[g + 1] = (uint32_t)selection->options.count;
    }
    return wf_arena_alloc(&selection->arena, selection->options.count, sizeof *selection->dropped,
                          &selection->dropped);
}

/* ---- Labels ---- */

typedef struct ranked {
    double score;
    uint32_t option;
} ranked_t;

static int compare_ranked(const void *a, const void *b)
{
    const ranked_t *x = a, *y = b;
    if (x->score != y->score) {
        return x->score < y->score ? -1 : 1;
    }
    return x->option < y->option ? -1 : x->option > y->option;
}

static uint32_t label_count_of(const wf_selection_t *selection, wf_node_id node)
{
    const wf_space_t *space = selection->space;
    uint32_t count = 0;
    for (uint32_t i = space->group_first[node]; i < space->group_first[node + 1]; i++) {
        uint32_t group = space->group_items[i];
        for (uint32_t o = selection->option_first[group]; o < selection->option_first[group + 1]; o++) {
            count += !selection->dropped[o];
        }
    }
    return count;
}

/* The cheapest option that covers this node alone; its cost is INFINITY when there is none. */
static double cheapest_alone(const wf_selection_t *selection, wf_node_id node)
{
    const wf_space_t *space = selection->space;
    double least = INFINITY;
    for (uint32_t i = space->group_first[node]; i < space->group_first[node + 1]; i++) {
        uint32_t group = space->group_items[i];
        if (space->groups.items[group].node_count == 1 &&
            selection->option_first[group] < selection->option_first[group + 1]) {
            for (uint32_t o = selection->option_first[group]; o < selection->option_first[group + 1]; o++) {
                least = fmin(least, selection->options.items[o].cost_ns);
            }
        }
    }
    return least;
}

/* Drops all but the MAX_LABELS options of the node that save most against its nodes alone. The cheapest one
 * alone stays, so that some route is left. */
static wf_status_t drop_labels(wf_selection_t *selection, wf_node_id node, uint32_t count)
{
    const wf_space_t *space = selection->space;
    ranked_t *ranked;
    WF_TRY(wf_alloc(space->allocator, count, sizeof *ranked, &ranked));
    uint32_t next = 0;
    for (uint32_t i = space->group_first[node]; i < space->group_first[node + 1]; i++) {
        uint32_t g = space->group_items[i];
        const wf_group_t *group = &space->groups.items[g];
        double alone = 0;
        for (uint32_t n = 0; n < group->node_count; n++) {
            alone += cheapest_alone(selection, group->nodes[n]);
        }
        for (uint32_t o = selection->option_first[g]; o < selection->option_first[g + 1]; o++) {
            if (!selection->dropped[o]) {
                double cost_ns = selection->options.items[o].cost_ns;
                bool keep = isinf(alone) || (group->node_count == 1 && cost_ns == alone);
                ranked[next++] = (ranked_t){.score = keep ? -(double)INFINITY : cost_ns - alone, .option = o};
            }
        }
    }
    wf_sort(ranked, next, sizeof *ranked, compare_ranked);
    selection->capped = true;
    for (uint32_t i = MAX_LABELS; i < next; i++) {
        selection->dropped[ranked[i].option] = true;
    }
    wf_free(space->allocator, ranked, count, sizeof *ranked);
    return WF_OK;
}

static wf_status_t labels_make(wf_selection_t *selection)
{
    const wf_space_t *space = selection->space;
    const wf_graph_t *graph = selection->graph;
    size_t nodes = graph->order.count, total = 0;
    for (size_t i = 0; i < nodes; i++) {
        uint32_t count = label_count_of(selection, graph->order.items[i]);
        if (count > MAX_LABELS) {
            WF_TRY(drop_labels(selection, graph->order.items[i], count));
        }
    }
    WF_TRY(wf_arena_alloc(&selection->arena, nodes + 1, sizeof *selection->label_first,
                          &selection->label_first));
    for (size_t i = 0; i < nodes; i++) {
        uint32_t count = label_count_of(selection, graph->order.items[i]);
        if (count == 0) {
            return WF_ERROR(INTERNAL, "every tactic of node %s is ruled out",
                            wf_node_name(graph, graph->order.items[i]));
        }
        total += count;
        if (total >= UINT32_MAX) {
            return WF_ERROR(MODEL_LIMIT, "the space has too many labels");
        }
        selection->label_first[i + 1] = (uint32_t)total;
    }
    WF_TRY(wf_arena_alloc(&selection->arena, total, sizeof *selection->labels, &selection->labels));
    WF_TRY(wf_arena_alloc(&selection->arena, total, sizeof *selection->costs, &selection->costs));
    uint32_t next = 0;
    for (size_t i = 0; i < nodes; i++) {
        wf_node_id node = graph->order.items[i];
        for (uint32_t k = space->group_first[node]; k < space->group_first[node + 1]; k++) {
            uint32_t group = space->group_items[k];
            for (uint32_t o = selection->option_first[group]; o < selection->option_first[group + 1]; o++) {
                if (!selection->dropped[o]) {
                    bool root = space->groups.items[group].nodes[0] == node;
                    selection->costs[next] = root ? selection->options.items[o].cost_ns : 0;
                    selection->labels[next++] = o;
                }
            }
        }
    }
    assert(next == total);
    return WF_OK;
}

/* ---- One value ---- */

typedef struct flow {
    wf_value_id value;
    uint32_t producer;       /* position; WF_NO_NODE: a graph input, row-major */
    const wf_node_id *users; /* in order, one per input slot */
    uint32_t user_slots, user_count;
    bool is_output;
    uint32_t layouts; /* bit i: some label makes or takes the value in layout i */
    double convert[WF_LAYOUT_COUNT][WF_LAYOUT_COUNT]; /* NAN: not asked yet */
} flow_t;

static uint32_t producer_makes(const wf_selection_t *selection, const flow_t *flow, uint32_t label)
{
    uint32_t option = selection->labels[label];
    return wf_group_makes(selection->space, wf_option_group(selection, option),
                          wf_option_choice(selection, option), flow->value);
}

static uint32_t user_needs(const wf_selection_t *selection, const flow_t *flow, wf_node_id user,
                           uint32_t label)
{
    uint32_t option = selection->labels[label];
    const wf_group_t *group = wf_option_group(selection, option);
    return wf_group_needs(selection->space, group, wf_option_choice(selection, option),
                          wf_group_member(group, user), flow->value);
}

/* The distinct user after slot *at, in order; WF_NO_NODE at the end. */
static wf_node_id next_user(const flow_t *flow, uint32_t *at)
{
    if (*at >= flow->user_slots) {
        return WF_NO_NODE;
    }
    wf_node_id user = flow->users[*at];
    while (*at < flow->user_slots && flow->users[*at] == user) {
        ++*at;
    }
    return user;
}

static flow_t flow_start(const wf_selection_t *selection, wf_value_id value)
{
    const wf_space_t *space = selection->space;
    const wf_value_t *v = wf_graph_value(selection->graph, value);
    flow_t flow = {.value = value,
                   .producer = v->producer == WF_NO_NODE ? WF_NO_NODE : space->position[v->producer],
                   .users = space->uses.items + space->uses.first[value],
                   .user_slots = space->uses.first[value + 1] - space->uses.first[value],
                   .is_output = v->is_output};
    for (uint32_t at = 0; next_user(&flow, &at) != WF_NO_NODE;) {
        flow.user_count++;
    }
    flow.layouts = flow.is_output || flow.producer == WF_NO_NODE ? 1u << WF_LAYOUT_ROW : 0;
    if (flow.producer != WF_NO_NODE) {
        for (uint32_t l = selection->label_first[flow.producer];
             l < selection->label_first[flow.producer + 1]; l++) {
            uint32_t layout = producer_makes(selection, &flow, l);
            flow.layouts |= layout < WF_LAYOUT_COUNT ? 1u << layout : 0;
        }
    }
    for (uint32_t at = 0, user; (user = next_user(&flow, &at)) != WF_NO_NODE;) {
        uint32_t position = space->position[user];
        for (uint32_t l = selection->label_first[position]; l < selection->label_first[position + 1]; l++) {
            flow.layouts |= user_needs(selection, &flow, user, l);
        }
    }
    for (uint32_t i = 0; i < WF_LAYOUT_COUNT * WF_LAYOUT_COUNT; i++) {
        flow.convert[i / WF_LAYOUT_COUNT][i % WF_LAYOUT_COUNT] = NAN;
    }
    return flow;
}

/* Adds conversions from one layout to every layout of a set. */
static wf_status_t convert_to_set(wf_selection_t *selection, flow_t *flow, uint32_t from, uint32_t set,
                                  double *cost_ns)
{
    for (uint32_t to = 0; to < WF_LAYOUT_COUNT; to++) {
        if (to == from || !(set >> to & 1)) {
            continue;
        }
        double *convert = &flow->convert[from][to];
        if (isnan(*convert)) {
            WF_TRY(wf_space_convert_cost(selection->space, flow->value, (wf_layout_t)from, (wf_layout_t)to,
                                         convert));
        }
        *cost_ns += *convert;
    }
    return WF_OK;
}

/* The value has at most one consumer and no edge: what converting costs goes to the node's own labels. */
static wf_status_t flow_unary(wf_selection_t *selection, flow_t *flow)
{
    if (flow->producer == WF_NO_NODE && flow->user_count == 1 && !flow->is_output) {
        uint32_t position = selection->space->position[flow->users[0]];
        for (uint32_t l = selection->label_first[position]; l < selection->label_first[position + 1]; l++) {
            uint32_t needs = user_needs(selection, flow, flow->users[0], l);
            WF_TRY(convert_to_set(selection, flow, WF_LAYOUT_ROW, needs, &selection->costs[l]));
        }
    } else if (flow->producer != WF_NO_NODE && flow->user_count == 0 && flow->is_output) {
        for (uint32_t l = selection->label_first[flow->producer];
             l < selection->label_first[flow->producer + 1]; l++) {
            uint32_t makes = producer_makes(selection, flow, l);
            if (makes < WF_LAYOUT_COUNT) {
                WF_TRY(convert_to_set(selection, flow, makes, 1u << WF_LAYOUT_ROW, &selection->costs[l]));
            }
        }
    }
    return WF_OK;
}

/* Makes room for a table of entries doubles, all zero. */
static wf_status_t table_start(wf_selection_t *selection, size_t entries)
{
    if (entries > selection->table.capacity) {
        wf_vec_deinit(selection->space->allocator, &selection->table);
        WF_TRY(wf_alloc(selection->space->allocator, entries, sizeof *selection->table.items,
                        &selection->table.items));
        selection->table.capacity = entries;
    }
    memset(selection->table.items, 0, entries * sizeof *selection->table.items);
    return WF_OK;
}

static wf_status_t edge_add(wf_selection_t *selection, uint32_t u, uint32_t v, size_t entries)
{
    for (size_t i = 0; i < entries; i++) {
        if (selection->table.items[i] != 0) {
            return wf_pbqp_add_edge(selection->pbqp, u, v, selection->table.items);
        }
    }
    return WF_OK; /* says nothing */
}

/* Producer and only consumer. */
static wf_status_t flow_pair(wf_selection_t *selection, flow_t *flow)
{
    wf_node_id user = flow->users[0];
    uint32_t u = flow->producer, v = selection->space->position[user];
    uint32_t u_first = selection->label_first[u], v_first = selection->label_first[v];
    uint32_t u_labels = selection->label_first[u + 1] - u_first,
             v_labels = selection->label_first[v + 1] - v_first;
    WF_TRY(table_start(selection, (size_t)u_labels * v_labels));
    uint32_t needs[MAX_LABELS];
    for (uint32_t j = 0; j < v_labels; j++) {
        needs[j] = user_needs(selection, flow, user, v_first + j);
    }
    double *cost_ns = selection->table.items;
    for (uint32_t i = 0; i < u_labels; i++) {
        uint32_t makes = producer_makes(selection, flow, u_first + i);
        for (uint32_t j = 0; j < v_labels; j++, cost_ns++) {
            if (selection->labels[u_first + i] == selection->labels[v_first + j]) {
                continue;
            }
            if (makes == WF_LAYOUT_COUNT || needs[j] == 0) {
                *cost_ns = INFINITY; /* inside one's group, outside the other's */
            } else {
                WF_TRY(convert_to_set(selection, flow, makes, needs[j], cost_ns));
            }
        }
    }
    return edge_add(selection, u, v, (size_t)u_labels * v_labels);
}

/* Non-empty subsets of the layouts, by rising number. */
static uint32_t list_sets(uint32_t layouts, uint32_t out_sets[LAYOUT_SETS])
{
    uint32_t count = 0;
    for (uint32_t set = 1; set < LAYOUT_SETS; set++) {
        if ((set & ~layouts) == 0) {
            out_sets[count++] = set;
        }
    }
    return count;
}

static wf_status_t flow_shared(wf_selection_t *selection, flow_t *flow)
{
    uint32_t sets[LAYOUT_SETS];
    uint32_t set_count = list_sets(flow->layouts, sets);
    double own[LAYOUT_SETS] = {0};
    for (uint32_t s = 0; s < set_count; s++) {
        bool row = sets[s] >> WF_LAYOUT_ROW & 1;
        if ((flow->is_output || flow->producer == WF_NO_NODE) && !row) {
            own[s] = INFINITY;
        } else if (flow->producer == WF_NO_NODE) {
            WF_TRY(convert_to_set(selection, flow, WF_LAYOUT_ROW, sets[s], &own[s]));
        }
    }
    uint32_t hub;
    WF_TRY(wf_pbqp_add_node(selection->pbqp, own, set_count, &hub));
    if (flow->producer != WF_NO_NODE) {
        uint32_t first = selection->label_first[flow->producer],
                 end = selection->label_first[flow->producer + 1];
        WF_TRY(table_start(selection, (size_t)(end - first) * set_count));
        double *cost_ns = selection->table.items;
        for (uint32_t l = first; l < end; l++) {
            uint32_t makes = producer_makes(selection, flow, l);
            for (uint32_t s = 0; s < set_count; s++, cost_ns++) {
                if (makes == WF_LAYOUT_COUNT || !(sets[s] >> makes & 1)) {
                    *cost_ns = INFINITY;
                } else {
                    WF_TRY(convert_to_set(selection, flow, makes, sets[s], cost_ns));
                }
            }
        }
        WF_TRY(edge_add(selection, flow->producer, hub, (size_t)(end - first) * set_count));
    }
    for (uint32_t at = 0, user; (user = next_user(flow, &at)) != WF_NO_NODE;) {
        uint32_t position = selection->space->position[user];
        uint32_t first = selection->label_first[position], end = selection->label_first[position + 1];
        WF_TRY(table_start(selection, (size_t)(end - first) * set_count));
        double *cost_ns = selection->table.items;
        for (uint32_t l = first; l < end; l++) {
            uint32_t needs = user_needs(selection, flow, user, l);
            for (uint32_t s = 0; s < set_count; s++, cost_ns++) {
                *cost_ns = needs != 0 && (needs & ~sets[s]) == 0 ? 0 : (double)INFINITY;
            }
        }
        WF_TRY(edge_add(selection, position, hub, (size_t)(end - first) * set_count));
    }
    return WF_OK;
}

static bool is_unary(const flow_t *flow)
{
    uint32_t ends = flow->user_count + flow->is_output + (flow->producer != WF_NO_NODE);
    return ends <= 1 || (flow->producer != WF_NO_NODE && flow->user_count == 0) ||
           (flow->producer == WF_NO_NODE && flow->user_count == 1 && !flow->is_output);
}

static wf_status_t flow_edges(wf_selection_t *selection, flow_t *flow)
{
    if (is_unary(flow)) {
        return WF_OK;
    }
    if (flow->producer != WF_NO_NODE && flow->user_count == 1 && !flow->is_output) {
        return flow_pair(selection, flow);
    }
    bool one_layout = (flow->layouts & (flow->layouts - 1)) == 0;
    return one_layout ? WF_OK : flow_shared(selection, flow);
}

/* Calls fn for every value that runs through the graph, in order. */
static wf_status_t each_flow(wf_selection_t *selection,
                             wf_status_t (*fn)(wf_selection_t *selection, flow_t *flow))
{
    const wf_graph_t *graph = selection->graph;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        if (wf_graph_value(graph, graph->inputs.items[i])->constant == NULL) {
            flow_t flow = flow_start(selection, graph->inputs.items[i]);
            WF_TRY(fn(selection, &flow));
        }
    }
    for (size_t i = 0; i < graph->order.count; i++) {
        const wf_node_t *node = wf_graph_node(graph, graph->order.items[i]);
        for (uint32_t k = 0; k < node->output_count; k++) {
            if (node->outputs[k] != WF_NO_VALUE) {
                flow_t flow = flow_start(selection, node->outputs[k]);
                WF_TRY(fn(selection, &flow));
            }
        }
    }
    return WF_OK;
}

/* ---- The selection ---- */

void wf_selection_deinit(wf_selection_t *selection)
{
    wf_pbqp_destroy(selection->pbqp);
    wf_vec_deinit(selection->space->allocator, &selection->options);
    wf_vec_deinit(selection->space->allocator, &selection->table);
    wf_arena_deinit(&selection->arena);
}

wf_status_t wf_selection_init(wf_selection_t *selection, wf_space_t *space)
{
    *selection = (wf_selection_t){.space = space, .graph = space->graph};
    wf_arena_init(&selection->arena, space->allocator);
    WF_TRY(options_make(selection));
    WF_TRY(labels_make(selection));
    WF_TRY(each_flow(selection, flow_unary));
    WF_TRY(wf_pbqp_create(space->allocator, &selection->pbqp));
    for (size_t i = 0; i < selection->graph->order.count; i++) {
        uint32_t first = selection->label_first[i], id;
        WF_TRY(wf_pbqp_add_node(selection->pbqp, &selection->costs[first],
                                selection->label_first[i + 1] - first, &id));
    }
    return each_flow(selection, flow_edges);
}
