/* SPDX-License-Identifier: Apache-2.0 */
/* Space: everything a route may choose from for one graph, and the solver over it.
 *
 * Patterns propose groups: convex sets of nodes that one kernel may cover. A group has a problem; a problem
 * has the tactics that the sources offered. A route is one (group, tactic) for every node. Fusion is inside
 * the selection: the group's root label carries the time, member labels cost nothing.
 */
#ifndef WF_ROUTE_SPACE_H
#define WF_ROUTE_SPACE_H

#include "backend/registry.h"
#include "graph/graph.h"

#define WF_NO_CHOICE UINT32_MAX

/* A tactic of a problem with what is known of its time. */
typedef struct wf_choice {
    const char *tactic_id;
    const wf_layout_t *operand_layouts;
    const wf_layout_t *output_layouts;
    wf_tactic_needs_t needs;
    double estimate_ns;
    double cost_ns; /* what the solver uses: the estimate until something better is set */
    double sd_rel;  /* relative standard deviation of cost_ns; 0: an estimate */
    bool measured;
    bool deterministic;
    bool dominated; /* the same layouts at lower estimate exist far below: not in the solver */
    bool banned;    /* quarantined, or failed the accuracy gate */
    uint32_t
        signature; /* choices of a problem with the same layouts (as bytes) have the same number, from 0 */
} wf_choice_t;

typedef struct wf_decline_note {
    const char *family;
    wf_decline_t reason;
    const char *text;
} wf_decline_note_t;

typedef struct wf_space_problem {
    const wf_problem_t *problem;
    WF_VEC(wf_choice_t) choices; /* sorted by tactic id */
    WF_VEC(wf_decline_note_t) declines;
    uint32_t use_count; /* groups with this problem */
    uint32_t signature_count;
    uint32_t pinned_choice; /* a conversion that a plan names; WF_NO_CHOICE: the cheapest */
} wf_space_problem_t;

/* What one kernel may cover. A group whose problem has no choices is kept for explain; the solver does not
 * see it. */
typedef struct wf_group {
    const char *pattern; /* "single", "epilogue", "elementwise" */
    wf_node_id *nodes;   /* in graph order; the last one's output is the group's first output */
    uint32_t node_count;
    uint32_t problem;      /* index */
    wf_value_id *operands; /* one per problem operand; WF_NO_VALUE: absent */
    wf_value_id *outputs;  /* one per problem output; WF_NO_VALUE: not wanted (its type has dtype NONE) */
    uint32_t output_count;
} wf_group_t;

/* Named settings that open or close parts of the space; unknown names are refused by wf_knobs_set with the
 * nearest one. */
typedef struct wf_knobs {
#define X(field, name, default_value, scope, help) bool field;
#include "route/knobs.def"
#undef X
} wf_knobs_t;
void wf_knobs_default(wf_knobs_t *out_knobs);
/* What a knob changes: see knobs.def. */
typedef enum wf_knob_scope {
    WF_KNOB_GRAPH,
    WF_KNOB_SPACE,
    WF_KNOB_ENGINE,
    WF_KNOB_RUN,
    WF_KNOB_SCOPE_COUNT
} wf_knob_scope_t;
typedef struct wf_knob_facts {
    const char *name, *help;
    wf_knob_scope_t scope;
    bool default_value;
} wf_knob_facts_t;
/* The table of knobs. */
size_t wf_knob_count(void);
wf_knob_facts_t wf_knob_facts(size_t knob);
const char *wf_knob_scope_name(wf_knob_scope_t scope);
/* The name nearest to a word. */
const char *wf_knob_nearest(const char *word);
bool wf_knob_get(const wf_knobs_t *knobs, size_t knob);
void wf_knob_put(wf_knobs_t *knobs, size_t knob, bool value);
/* "fuse.attention", "off". USAGE for an unknown name or value, with the nearest match as hint. */
wf_status_t wf_knobs_set(wf_knobs_t *knobs, const char *name, const char *value) WF_MUST_USE;
/* One line "<prefix>memory.reuse on" per knob, sorted by name: for fingerprints and locks. */
void wf_knobs_print(const wf_knobs_t *knobs, const char *prefix, wf_text_t *text);
/* Graph passes that a closed knob turns off: one bool per pass of wf_passes(), for
 * wf_pass_options_t.disabled. */
void wf_knobs_disabled_passes(const wf_knobs_t *knobs, bool *out_disabled);

typedef struct wf_space {
    wf_arena_t arena;
    const wf_graph_t *graph;       /* borrowed */
    const wf_backends_t *backends; /* borrowed */
    WF_VEC(wf_space_problem_t) problems;
    WF_VEC(wf_group_t) groups;
    wf_map_t problem_index; /* text -> index */
    /* groups of a node: group_items[group_first[node] .. group_first[node + 1]) */
    uint32_t *group_first, *group_items;
    /* conversions, made on demand: problem index per (type, from, to) */
    wf_map_t convert_index;
    /* private to src/route */
    wf_allocator_t allocator;
    wf_knobs_t knobs;
    wf_uses_t uses;
    wf_map_t parts_index; /* ops, attributes and types of a group -> problem index, before the text is made */
    uint32_t *position;   /* of a node id in graph->order */
    size_t group_item_count, node_capacity;
} wf_space_t;

typedef struct wf_space_options {
    wf_knobs_t knobs;
    wf_allocator_t allocator;
    wf_log_t log;
} wf_space_options_t;

/* Enumerates groups, problems and tactics. `graph` has been through the passes; all types known; graph and
 * backends outlive the space, and the graph does not change. MODEL_UNSUPPORTED naming the node when no source
 * does some node at all; INTERNAL when a source breaks its contract. A closed source or layout stays in use
 * where nothing else does a node. On failure *out_space is NULL. Not thread-safe; a space is used by one
 * thread at a time. */
wf_status_t wf_space_create(const wf_graph_t *graph, const wf_backends_t *backends,
                            const wf_space_options_t *options, wf_space_t **out_space) WF_MUST_USE;
void wf_space_destroy(wf_space_t *space);

/* The problem of converting a value; made when first asked for. It has no choices when no source converts so.
 */
wf_status_t wf_space_convert(wf_space_t *space, wf_value_id value, wf_layout_t from, wf_layout_t to,
                             uint32_t *out_problem) WF_MUST_USE;

/* The choice of a problem that costs least (ties: the smaller tactic id), or the pinned one; WF_NO_CHOICE
 * when there is none that may be used. For conversions: a route does not say how they are done. */
uint32_t wf_space_best_choice(const wf_space_t *space, uint32_t problem);
/* Forgets the choices that the last plan parsed has pinned. */
void wf_space_unpin(wf_space_t *space);

/* ---- Routes ---- */
typedef struct wf_route_item {
    uint32_t group;  /* index into groups */
    uint32_t choice; /* index into the group's problem's choices */
} wf_route_item_t;
typedef struct wf_route {
    wf_allocator_t allocator;
    wf_route_item_t *items; /* in an order that can run */
    size_t count;
    double cost_ns; /* the solver's, conversions included */
    bool exact;
} wf_route_t;
/* Solves for the present cost_ns of choices. Conversions are priced once per value and layout, however many
 * consumers want it. Deterministic. INTERNAL when there is no finite route. On failure *out_route is empty.
 */
wf_status_t wf_space_solve(wf_space_t *space, wf_route_t *out_route) WF_MUST_USE;
/* Up to `count` distinct routes: the best one, then for the next cheapest (group, layouts) that is not part
 * of it the best route that has it, and so on, cheapest first. out_routes has room for `count`; the first
 * *out_count are the caller's to deinit. On failure none is. A choice that differs in its tactic alone is not
 * a route of its own here: swap it by hand. */
wf_status_t wf_space_solve_k(wf_space_t *space, size_t count, wf_route_t *out_routes,
                             size_t *out_count) WF_MUST_USE;
void wf_route_deinit(wf_route_t *route);
/* The route with some items taken out and others put in, in an order that can run. The nodes of what is taken
 * out are those of what is put in. cost_ns is wf_route_cost's, INFINITY when a conversion does not exist.
 * INTERNAL when an item to take out is not there. On failure *out_route is empty. */
wf_status_t wf_route_replace(wf_space_t *space, const wf_route_t *base, const wf_route_item_t *removed,
                             size_t removed_count, const wf_route_item_t *added, size_t added_count,
                             wf_route_t *out_route) WF_MUST_USE;
/* Checks what a route promises: every node covered exactly once, choices usable, operands made before they
 * are used. INTERNAL with the first fault. */
wf_status_t wf_route_check(const wf_space_t *space, const wf_route_t *route) WF_MUST_USE;
/* The cost of a route, from its items alone: choices plus one conversion per value and layout (from the
 * layout in which the value is made). INFINITY when a conversion does not exist. */
wf_status_t wf_route_cost(wf_space_t *space, const wf_route_t *route, double *out_cost_ns) WF_MUST_USE;
/* What wf_route_cost adds up: conversions of a route, in an order that can run. */
typedef struct wf_route_conversion {
    wf_value_id value;
    wf_layout_t from, to;
    uint32_t problem;
    uint32_t before; /* the item that needs it first; route->count: graph outputs do */
} wf_route_conversion_t;
/* *out_items holds *out_count items, wf_free(allocator, items, *out_count, sizeof item) is the caller's. */
wf_status_t wf_route_conversions(wf_space_t *space, const wf_route_t *route, wf_allocator_t allocator,
                                 wf_route_conversion_t **out_items, size_t *out_count) WF_MUST_USE;

/* ---- Plan text ----
 *
 *   [plan]
 *   version 1
 *   <name> <problem hash> <tactic id> covers=<name>,<name>
 *   convert <value> <from> <to> <problem hash> <tactic id>
 *
 * One line per group, sorted by name (of the last node's first output; covers= names the other nodes), then
 * one per conversion, sorted by value. Names are quoted as in graph text where they must be, and when they
 * are "version" or "convert". */
wf_status_t wf_plan_print(wf_space_t *space, const wf_route_t *route, wf_text_t *text) WF_MUST_USE;
/* The route of the section [plan] of a text; other sections, empty lines and lines with '#' are passed over.
 * The tactics of conversions are pinned in the space (wf_space_unpin). LOCK_MISMATCH naming the first line
 * that does not fit this space; the text is untrusted. On failure *out_route is empty and nothing is pinned
 * that was not before. */
wf_status_t wf_plan_parse(wf_space_t *space, const char *text, size_t text_bytes,
                          wf_route_t *out_route) WF_MUST_USE;

#endif
