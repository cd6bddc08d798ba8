/* SPDX-License-Identifier: Apache-2.0 */
#include "route/explain.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "route/selection.h"

/* Groups that no kernel covers, shown per step. */
#define WIDER_MAX 3u

/* ---- Data ---- */

static const wf_space_problem_t *problem_of(const wf_space_t *space, const wf_route_item_t *item)
{
    return &space->problems.items[space->groups.items[item->group].problem];
}

static const wf_choice_t *choice_of(const wf_space_t *space, const wf_route_item_t *item)
{
    return &problem_of(space, item)->choices.items[item->choice];
}

static void offer_runner_up(wf_explain_step_t *step, uint32_t group, uint32_t choice, double margin_ns)
{
    if (!isinf(margin_ns) && (!step->has_runner_up || margin_ns < step->margin_ns)) {
        step->has_runner_up = true;
        step->runner_up = (wf_route_item_t){.group = group, .choice = choice};
        step->margin_ns = margin_ns;
    }
}

/* Other tactics of the same layouts: nothing else in the route changes. */
static void other_tactics(const wf_space_t *space, wf_explain_step_t *step)
{
    const wf_space_problem_t *entry = problem_of(space, &step->item);
    const wf_choice_t *chosen = choice_of(space, &step->item);
    for (uint32_t i = 0; i < entry->choices.count; i++) {
        const wf_choice_t *other = &entry->choices.items[i];
        if (i != step->item.choice && other->signature == chosen->signature && wf_choice_usable(other)) {
            offer_runner_up(step, step->item.group, i, other->cost_ns - chosen->cost_ns);
        }
    }
}

/* Other layouts or groups at the step's first node, by the min-marginals of its labels. */
static void other_options(const wf_selection_t *selection, const double *marginals, double cost_ns,
                          wf_explain_step_t *step)
{
    const wf_space_t *space = selection->space;
    const wf_group_t *group = &space->groups.items[step->item.group];
    uint32_t signature = choice_of(space, &step->item)->signature;
    uint32_t position = space->position[group->nodes[0]];
    for (uint32_t l = selection->label_first[position]; l < selection->label_first[position + 1]; l++) {
        const wf_option_t *option = &selection->options.items[selection->labels[l]];
        bool same = option->group == step->item.group &&
                    wf_option_choice(selection, selection->labels[l])->signature == signature;
        if (!same) {
            offer_runner_up(step, option->group, option->choice, marginals[l] - cost_ns);
        }
    }
}

static wf_status_t explain_margins(wf_selection_t *selection, wf_space_t *space, wf_explain_t *explain)
{
    WF_TRY(wf_selection_init(selection, space));
    double *marginals;
    WF_TRY(wf_arena_alloc(&selection->arena, wf_pbqp_label_count(selection->pbqp), sizeof *marginals,
                          &marginals));
    wf_status_t status = wf_pbqp_all_min_marginals(selection->pbqp, marginals);
    if (wf_status_code(status) == WF_CODE_MODEL_LIMIT) {
        wf_status_free(status);
        explain->tactics_only = true;
        return WF_OK;
    }
    WF_TRY(status);
    for (size_t i = 0; i < explain->step_count; i++) {
        other_options(selection, marginals, explain->cost_ns, &explain->steps[i]);
    }
    return WF_OK;
}

wf_status_t wf_explain_make(wf_space_t *space, const wf_route_t *route, wf_allocator_t allocator,
                            wf_explain_t *out_explain)
{
    *out_explain = (wf_explain_t){.allocator = allocator, .exact = route->exact, .step_count = route->count};
    wf_status_t status = wf_alloc(allocator, route->count, sizeof *out_explain->steps, &out_explain->steps);
    if (status == WF_OK) {
        status = wf_route_conversions(space, route, allocator, &out_explain->conversions,
                                      &out_explain->conversion_count);
    }
    if (status == WF_OK) {
        status = wf_route_cost(space, route, &out_explain->cost_ns);
    }
    if (status == WF_OK) {
        for (size_t i = 0; i < route->count; i++) {
            out_explain->steps[i].item = route->items[i];
            other_tactics(space, &out_explain->steps[i]);
        }
        wf_selection_t selection;
        status = explain_margins(&selection, space, out_explain);
        wf_selection_deinit(&selection);
    }
    if (status != WF_OK) {
        wf_explain_deinit(out_explain);
    }
    return status;
}

void wf_explain_deinit(wf_explain_t *explain)
{
    wf_allocator_t allocator = explain->allocator;
    wf_free(allocator, explain->conversions, explain->conversion_count, sizeof *explain->conversions);
    wf_free(allocator, explain->steps, explain->step_count, sizeof *explain->steps);
    *explain = (wf_explain_t){.allocator = allocator};
}

/* ---- Text ---- */

void wf_duration_print(double ns, wf_text_t *text)
{
    static const struct {
        double least_ns, unit_ns;
        const char *name;
    } units[] = {{1e9, 1e9, "s"}, {1e6, 1e6, "ms"}, {1e3, 1e3, "us"}, {0, 1, "ns"}};
    if (isinf(ns)) {
        wf_text_puts(text, "never");
        return;
    }
    size_t unit = 0;
    while (fabs(ns) < units[unit].least_ns) {
        unit++;
    }
    double value = ns / units[unit].unit_ns;
    int digits = fabs(value) >= 99.95 || units[unit].unit_ns == 1 ? 0 : fabs(value) >= 9.995 ? 1 : 2;
    wf_text_printf(text, "%.*f %s", digits, value, units[unit].name);
}

void wf_problem_stages_print(const wf_problem_t *problem, wf_text_t *text)
{
    for (size_t s = 0; s < problem->stage_count; s++) {
        wf_text_printf(text, "%s%s", s > 0 ? "+" : "", wf_op_problem_name(problem->stages[s].op));
    }
}

static void print_layout_list(const wf_layout_t *layouts, size_t count, wf_text_t *text)
{
    bool equal = true;
    for (size_t i = 1; i < count; i++) {
        equal = equal && layouts[i] == layouts[0];
    }
    for (size_t i = 0; i < (equal ? WF_MIN(count, (size_t)1) : count); i++) {
        wf_text_printf(text, "%s%s", i > 0 ? "," : "", wf_layout_name(layouts[i]));
    }
}

void wf_choice_layouts_print(const wf_problem_t *problem, const wf_choice_t *choice, wf_text_t *text)
{
    wf_layout_t layouts[16];
    size_t count = 0;
    for (size_t i = 0; i < problem->operand_count && count < WF_COUNT_OF(layouts); i++) {
        if (!problem->operands[i].is_const && problem->operands[i].type.dtype != WF_DTYPE_NONE) {
            layouts[count++] = choice->operand_layouts[i];
        }
    }
    print_layout_list(layouts, count, text);
    wf_text_puts(text, ">");
    print_layout_list(choice->output_layouts, problem->output_count, text);
}

/* "null/a, last>last, 12.3 us estimated" */
static void print_choice(const wf_problem_t *problem, const wf_choice_t *choice, wf_text_t *text)
{
    wf_text_printf(text, "%s, ", choice->tactic_id);
    wf_choice_layouts_print(problem, choice, text);
    wf_text_puts(text, ", ");
    wf_duration_print(choice->cost_ns, text);
    wf_text_puts(text, choice->measured ? " measured" : " estimated");
    if (choice->sd_rel > 0) {
        wf_text_printf(text, " (+-%.1f%%)", 100 * choice->sd_rel);
    }
}

static void print_nodes(const wf_graph_t *graph, const wf_group_t *group, wf_text_t *text)
{
    wf_text_puts(text, "  nodes      ");
    for (uint32_t n = 0; n < group->node_count; n++) {
        const char *names = wf_graph_node(graph, group->nodes[n])->onnx_names;
        wf_text_printf(text, "%s%s", n > 0 ? ", " : "",
                       names != NULL && names[0] != 0 ? names : wf_node_name(graph, group->nodes[n]));
    }
    wf_text_puts(text, "\n");
}

static void print_runner_up(const wf_space_t *space, const wf_explain_step_t *step, wf_text_t *text)
{
    if (!step->has_runner_up) {
        wf_text_puts(text, "  runner-up  none\n");
        return;
    }
    const wf_problem_t *problem = problem_of(space, &step->runner_up)->problem;
    wf_text_puts(text, "  runner-up  ");
    if (step->runner_up.group != step->item.group) {
        wf_problem_stages_print(problem, text);
        wf_text_puts(text, ": ");
    }
    print_choice(problem, choice_of(space, &step->runner_up), text);
    wf_text_puts(text, step->margin_ns < 0 ? "; the route would save " : "; the route would cost ");
    wf_duration_print(fabs(step->margin_ns), text);
    wf_text_puts(text, step->margin_ns < 0 ? "\n" : " more\n");
}

static void print_declines(const wf_space_problem_t *entry, const char *label, wf_text_t *text)
{
    for (size_t i = 0; i < entry->declines.count; i++) {
        const wf_decline_note_t *note = &entry->declines.items[i];
        wf_text_printf(text, "  %-10s %s: %s\n", label, note->family, note->text);
    }
}

/* Groups that start at the same node, that are larger than the one taken, and that nobody does. Groups of a
 * node are made one after the other, so they lie beside it. */
static void print_wider(const wf_space_t *space, uint32_t group_index, wf_text_t *text)
{
    const wf_group_t *taken = &space->groups.items[group_index];
    size_t at = group_index;
    while (at > 0 && space->groups.items[at - 1].nodes[0] == taken->nodes[0]) {
        at--;
    }
    uint32_t shown = 0;
    for (; at < space->groups.count && space->groups.items[at].nodes[0] == taken->nodes[0]; at++) {
        const wf_group_t *group = &space->groups.items[at];
        const wf_space_problem_t *entry = &space->problems.items[group->problem];
        if (entry->choices.count > 0 || group->node_count <= taken->node_count || shown == WIDER_MAX) {
            continue;
        }
        shown++;
        wf_text_puts(text, "  no kernel  ");
        wf_problem_stages_print(entry->problem, text);
        wf_text_puts(text, "\n");
        print_declines(entry, "", text);
    }
}

static void print_step(const wf_space_t *space, const wf_explain_step_t *step, size_t number, wf_text_t *text)
{
    const wf_group_t *group = &space->groups.items[step->item.group];
    const wf_space_problem_t *entry = problem_of(space, &step->item);
    wf_text_printf(text, "step %zu: %s = ", number, wf_node_name(space->graph, wf_group_last(group)));
    wf_problem_stages_print(entry->problem, text);
    wf_text_printf(text, " (%s)\n", group->pattern);
    print_nodes(space->graph, group, text);
    wf_text_printf(text, "  problem    %s\n  tactic     ", entry->problem->text);
    print_choice(entry->problem, choice_of(space, &step->item), text);
    wf_text_puts(text, "\n");
    print_runner_up(space, step, text);
    print_declines(entry, "declined", text);
    print_wider(space, step->item.group, text);
}

static void print_conversion(const wf_space_t *space, const wf_route_conversion_t *conversion,
                             wf_text_t *text)
{
    const wf_space_problem_t *entry = &space->problems.items[conversion->problem];
    uint32_t choice = wf_space_best_choice(space, conversion->problem);
    wf_text_printf(text, "convert %s from %s to %s: ", wf_graph_value(space->graph, conversion->value)->name,
                   wf_layout_name(conversion->from), wf_layout_name(conversion->to));
    if (choice == WF_NO_CHOICE) {
        wf_text_puts(text, "no kernel\n");
        return;
    }
    wf_text_printf(text, "%s, ", entry->choices.items[choice].tactic_id);
    wf_duration_print(entry->choices.items[choice].cost_ns, text);
    wf_text_puts(text, "\n");
}

wf_status_t wf_explain_print(const wf_space_t *space, const wf_explain_t *explain, wf_text_t *text)
{
    wf_text_printf(text, "route: %zu step%s, %zu conversion%s, ", explain->step_count,
                   explain->step_count == 1 ? "" : "s", explain->conversion_count,
                   explain->conversion_count == 1 ? "" : "s");
    wf_duration_print(explain->cost_ns, text);
    wf_text_puts(text,
                 explain->exact ? ", the best there is for these times\n" : ", the best that was found\n");
    size_t next = 0;
    for (size_t i = 0; i <= explain->step_count; i++) {
        for (; next < explain->conversion_count && explain->conversions[next].before == i; next++) {
            print_conversion(space, &explain->conversions[next], text);
        }
        if (i < explain->step_count) {
            print_step(space, &explain->steps[i], i + 1, text);
        }
    }
    return wf_text_take_status(text);
}
