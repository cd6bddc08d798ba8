/* SPDX-License-Identifier: Apache-2.0 */
/* Moves: what may be changed on a route without solving again.
 *
 * A move takes items out of a route and puts others in that cover the same nodes, or flips a knob. Moves that
 * touch different nodes go together in any combination, so a set of them is a factor each of an experiment.
 */
#ifndef WF_TUNE_MOVE_H
#define WF_TUNE_MOVE_H

#include "tune/job.h"

typedef struct wf_move_item {
    uint32_t part;
    wf_route_item_t item;
} wf_move_item_t;

typedef struct wf_move {
    const char *name;   /* for people: "Conv_3: onednn/x for native/y" */
    const char *factor; /* what is changed: a problem's text or a knob's name; moves of one exclude
                         * each other */
    wf_move_item_t *removed, *added; /* sorted by part */
    size_t removed_count, added_count;
    size_t knob; /* index of a knob; SIZE_MAX: none */
    bool knob_value;
    double predicted_ns;         /* change of the route's cost at present costs */
    const wf_problem_t *problem; /* of a change of tactic alone; else NULL */
    const char *tactic;          /* put in by it */
} wf_move_t;
typedef WF_VEC(wf_move_t) wf_moves_t;

/* What moves start from: one route per part, and knobs. */
typedef struct wf_base_route {
    const wf_route_t *routes;
    const wf_knobs_t *knobs;
} wf_base_route_t;

typedef struct wf_move_limits {
    double gap_share;        /* moves that cost more than this share of the route more are left out */
    double gap_rel;          /* and tactics slower than theirs by more than this factor less one */
    size_t per_problem;      /* tactics beside the present one */
    bool knobs;              /* also flips of knobs of scope ENGINE and RUN that the job's user left alone */
    const bool *fixed_knobs; /* per knob: the user said what it is; NULL: none */
} wf_move_limits_t;

/* Lists tactics that may take the place of those in the routes: same nodes, same layouts, cheapest first per
 * problem, all uses of a problem together; then knobs. Everything lives in `arena`; *out_moves is the
 * caller's to deinit with `allocator`. */
wf_status_t wf_moves_list(const wf_base_route_t *base, wf_job_t *job, const wf_move_limits_t *limits,
                          wf_arena_t *arena, wf_allocator_t allocator, wf_moves_t *out_moves) WF_MUST_USE;
/* The move from `base` to other routes: where layouts or fusion differ. NULL in *out_move when they are the
 * same. */
wf_status_t wf_move_between(const wf_base_route_t *base, const wf_route_t *routes, const char *name,
                            wf_job_t *job, wf_arena_t *arena, wf_move_t **out_move) WF_MUST_USE;
/* True when both may be made. */
bool wf_moves_compatible(const wf_move_t *a, const wf_move_t *b);
/* The route with the moves that are on. *out_routes is freed by wf_job_routes_free; its cost is INFINITY when
 * it cannot be. */
wf_status_t wf_moves_apply(const wf_base_route_t *base, wf_job_t *job, const wf_move_t *const *moves,
                           const bool *on, size_t move_count, wf_route_t **out_routes,
                           wf_knobs_t *out_knobs) WF_MUST_USE;

#endif
