/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence: per step what it took, what it beat, and how that is known. Integers only, so that a lock is the
 * same text wherever it is printed: [evidence] <first output name> <chosen ns> <runner-up tactic or ->
 * <runner-up ns> <margin permille> measured|estimated <blocks> Names are raw; control characters and what is
 * no UTF-8 are '?'. Several specialisations: "part N" before each. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/utf8.h"
#include "tune/tuner_internal.h"

/* The name by which plans know the group: the first output of its last node. */
static wf_status_t group_name(wf_tuner_t *tuner, const wf_space_t *space, const wf_group_t *group,
                              char **out_name)
{
    const wf_node_t *node = wf_graph_node(space->graph, group->nodes[group->node_count - 1]);
    const char *name = "", *copy;
    for (uint32_t i = 0; name[0] == '\0' && i < node->output_count; i++) {
        if (node->outputs[i] != WF_NO_VALUE)
            name = wf_graph_value(space->graph, node->outputs[i])->name;
    }
    WF_TRY(wf_arena_text(&tuner->arena, name, strlen(name), &copy));
    *out_name = (char *)(uintptr_t)copy;
    wf_utf8_sanitise(*out_name);
    return WF_OK;
}

/* The cheapest choice besides `chosen`, whatever its layouts; choice_count when there is none. */
static size_t runner_up(const wf_topic_t *topic, size_t chosen)
{
    size_t best = topic->choice_count;
    for (size_t c = 0; c < topic->choice_count; c++) {
        const wf_topic_choice_t *choice = &topic->choices[c];
        if (c != chosen && choice->quarantine == NULL &&
            (!choice->dominated || wf_topic_knows(topic, choice)) &&
            (best == topic->choice_count || choice->cost_ns < topic->choices[best].cost_ns))
            best = c;
    }
    return best;
}

static long long whole_ns(double ns)
{
    return llround(fmin(fmax(ns, 0), 1e15));
}

static void print_step(const wf_topic_t *topic, size_t chosen, const char *name, wf_text_t *out)
{
    const wf_topic_choice_t *choice = &topic->choices[chosen];
    bool known = wf_topic_knows(topic, choice);
    size_t other = runner_up(topic, chosen);
    uint64_t blocks = 0;
    if (known)
        blocks = choice->log_ratios.count > 0 ? choice->log_ratios.count : choice->row.log_ratio.count;
    wf_text_printf(out, "%s %lld ", name, whole_ns(choice->cost_ns));
    if (other == topic->choice_count) {
        wf_text_puts(out, "- 0 0");
    } else {
        double other_ns = topic->choices[other].cost_ns;
        wf_text_printf(out, "%s %lld %lld", topic->choices[other].tactic, whole_ns(other_ns),
                       llround(fmin(fmax(1000 * (other_ns / choice->cost_ns - 1), -1000), 1e9)));
    }
    wf_text_printf(out, " %s %llu\n", known ? "measured" : "estimated", (unsigned long long)blocks);
}

wf_status_t wf_tuner_evidence(wf_tuner_t *tuner, const wf_candidate_t *candidate, wf_text_t *out)
{
    const wf_job_t *job = candidate->job;
    wf_text_puts(out, "[evidence]\n");
    for (size_t p = 0; p < job->part_count; p++) {
        const wf_space_t *space = job->parts[p].space;
        const wf_route_t *route = &candidate->routes[p];
        if (job->part_count > 1)
            wf_text_printf(out, "part %zu\n", p);
        for (size_t i = 0; i < route->count; i++) {
            const wf_group_t *group = &space->groups.items[route->items[i].group];
            const wf_space_problem_t *entry = &space->problems.items[group->problem];
            const wf_topic_t *topic = wf_profile_topic(&tuner->profile, space, group->problem);
            size_t chosen = topic != NULL
                                ? wf_topic_find(topic, entry->choices.items[route->items[i].choice].tactic_id)
                                : 0;
            char *name;
            if (topic == NULL || chosen == topic->choice_count)
                continue;
            WF_TRY(group_name(tuner, space, group, &name));
            print_step(topic, chosen, name, out);
        }
    }
    return wf_text_take_status(out);
}
