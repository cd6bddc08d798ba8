/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/guide.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "tune/lock.h"
#include "wayfinder/version.h"

/* A decision of a plan: a problem's hash and the tactic that does it. */
typedef struct decision {
    char hash[33], tactic[WF_TACTIC_ID_MAX];
} decision_t;

/* " <32 hex digits> <tactic>" somewhere in a line; names before it may be quoted and hold blanks. Conversions
 * follow from the other decisions. */
static bool read_decision(const char *line, size_t length, decision_t *out_decision)
{
    if (length > 8 && memcmp(line, "convert ", 8) == 0)
        return false;
    for (size_t i = 0; i + 35 < length; i++) {
        size_t digits = 0;
        if (line[i] != ' ')
            continue;
        while (digits < 32 && strchr("0123456789abcdef", line[i + 1 + digits]) != NULL)
            digits++;
        if (digits != 32 || line[i + 33] != ' ')
            continue;
        const char *tactic = line + i + 34;
        size_t bytes = 0;
        while (i + 34 + bytes < length && tactic[bytes] != ' ')
            bytes++;
        if (bytes == 0 || bytes >= sizeof out_decision->tactic)
            return false;
        memcpy(out_decision->hash, line + i + 1, 32);
        out_decision->hash[32] = '\0';
        memcpy(out_decision->tactic, tactic, bytes);
        out_decision->tactic[bytes] = '\0';
        return true;
    }
    return false;
}

static wf_space_problem_t *find_problem(wf_space_t *space, const char *hash)
{
    for (uint32_t p = 0; p < space->problems.count; p++) {
        char hex[33];
        const wf_problem_t *problem = space->problems.items[p].problem;
        wf_hash_text((wf_hash_t){.low = problem->hash[0], .high = problem->hash[1]}, hex);
        if (strcmp(hex, hash) == 0)
            return &space->problems.items[p];
    }
    return NULL;
}

static wf_choice_t *find_choice(wf_space_problem_t *entry, const char *tactic)
{
    for (size_t i = 0; entry != NULL && i < entry->choices.count; i++) {
        if (strcmp(entry->choices.items[i].tactic_id, tactic) == 0 && !entry->choices.items[i].banned)
            return &entry->choices.items[i];
    }
    return NULL;
}

/* True while there is another decision in the part; *at advances. */
static bool next_decision(const char **at, const char *end, decision_t *out_decision)
{
    while (*at < end) {
        const char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop != NULL ? stop : end;
        *at = stop + (stop < end);
        if (read_decision(line, (size_t)(stop - line), out_decision))
            return true;
    }
    return false;
}

/* The tactic that a route uses for a problem; "" when the problem is not on it. */
static const char *chosen_for(const wf_space_t *space, const wf_route_t *route,
                              const wf_space_problem_t *entry)
{
    for (size_t i = 0; entry != NULL && i < route->count; i++) {
        const wf_space_problem_t *used =
            &space->problems.items[space->groups.items[route->items[i].group].problem];
        if (used == entry)
            return used->choices.items[route->items[i].choice].tactic_id;
    }
    return "";
}

static wf_status_t report_decisions(wf_space_t *space, const wf_route_t *route, wf_lock_piece_t plan,
                                    json_t *anew, size_t *kept)
{
    decision_t decision;
    for (const char *at = plan.data; next_decision(&at, plan.data + plan.length, &decision);) {
        wf_space_problem_t *entry = find_problem(space, decision.hash);
        const char *chosen = chosen_for(space, route, entry);
        if (strcmp(chosen, decision.tactic) == 0) {
            ++*kept;
            continue;
        }
        json_t *row =
            json_pack("{s:s s:s s:s}", "problem", entry != NULL ? entry->problem->text : decision.hash,
                      "tactic", decision.tactic, "chosen", chosen);
        if (row == NULL || json_array_append_new(anew, row) != 0)
            return wf_status_out_of_memory();
    }
    return WF_OK;
}

/* The lock's decisions cost nothing while the route is found, so that all of them are taken that can be. */
static wf_status_t guided_route(wf_space_t *space, wf_lock_piece_t plan, json_t *anew, size_t *kept,
                                wf_route_t *out_route)
{
    decision_t decision;
    for (const char *at = plan.data; next_decision(&at, plan.data + plan.length, &decision);) {
        wf_choice_t *choice = find_choice(find_problem(space, decision.hash), decision.tactic);
        if (choice != NULL) {
            choice->cost_ns = 0;
            choice->measured = true; /* also one that looks dominated */
        }
    }
    wf_status_t status = wf_space_solve(space, out_route);
    for (const char *at = plan.data; next_decision(&at, plan.data + plan.length, &decision);) {
        wf_choice_t *choice = find_choice(find_problem(space, decision.hash), decision.tactic);
        if (choice != NULL) {
            choice->cost_ns = choice->estimate_ns;
            choice->measured = false;
        }
    }
    if (status == WF_OK)
        status = wf_route_cost(space, out_route, &out_route->cost_ns);
    return status == WF_OK ? report_decisions(space, out_route, plan, anew, kept) : status;
}

wf_status_t wf_job_guided(wf_job_t *job, const char *lock, json_t *anew, size_t *out_kept,
                          wf_route_t **out_routes)
{
    wf_route_t *routes = NULL;
    *out_routes = NULL;
    *out_kept = 0;
    WF_TRY(wf_lock_check_title(lock));
    WF_TRY(wf_lock_check_field(lock, "version", WF_VERSION_TEXT));
    WF_TRY(wf_lock_check_field(lock, "model", job->model_hash));
    if (wf_lock_part(lock, job->part_count - 1).data == NULL ||
        wf_lock_part(lock, job->part_count).data != NULL)
        return WF_ERROR(LOCK_MISMATCH, "the lock is not for %zu sets of shapes", job->part_count);
    WF_TRY(wf_alloc(job->allocator, job->part_count, sizeof *routes, &routes));
    wf_status_t status = WF_OK;
    for (size_t i = 0; status == WF_OK && i < job->part_count; i++)
        status = guided_route(job->parts[i].space, wf_lock_part(lock, i), anew, out_kept, &routes[i]);
    if (status == WF_OK)
        *out_routes = routes;
    else
        wf_job_routes_free(job, routes);
    return status;
}
