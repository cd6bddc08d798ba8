/* SPDX-License-Identifier: Apache-2.0 */
/* Profile: what is known of the time of every tactic in a job's spaces, and what it is worth to know more.
 *
 * A topic is a problem that occurs in the job, with its choices. A choice costs its estimate until it was
 * measured or the database knew it. The worth of measuring a choice is the expected shortening of the best
 * route if its cost is what it may be: its min-marginal says how much cheaper it must be to enter the best
 * route, its uncertainty how likely that is (expected improvement, Jones, Schonlau, Welch 1998).
 */
#ifndef WF_TUNE_PROFILE_H
#define WF_TUNE_PROFILE_H

#include "tune/arm.h"
#include "tune/database.h"
#include "tune/job.h"
#include "tune/measure.h"

typedef struct wf_topic_choice {
    const char *tactic;
    uint32_t signature;
    double estimate_ns;
    bool view;              /* nothing to launch */
    bool dominated;         /* the space says so; not measured */
    bool stored;            /* the database had it: not measured again .. */
    bool again;             /* .. except when it is old, or was measured beside others and now is quiet */
    wf_miss_t miss;         /* why it was not stored, or is measured again */
    bool measured;          /* in this session */
    bool kept;              /* it misbehaves, but nothing else does some node: used, not measured */
    const char *quarantine; /* NULL, or why it must not be used */
    wf_times_t log_ratios;  /* to the anchor, of this session */
    wf_timing_t row;        /* from the database, when stored */
    double cost_ns, sd_rel; /* as far as known; sd_rel of an estimate is a prior */
    double context_ns;      /* what it takes more inside the model, as far as that was seen there */
    bool in_context;        /* it was */
    double worth_ns;        /* of measuring it, per run of the model */
} wf_topic_choice_t;

/* A problem of a part's space. */
typedef struct wf_topic_ref {
    uint32_t part, problem;
} wf_topic_ref_t;

typedef struct wf_topic {
    const wf_problem_t *problem; /* of the first space that has it */
    WF_VEC(wf_topic_ref_t) refs;
    wf_topic_choice_t *choices;
    size_t choice_count;
    size_t anchor; /* index of the choice that ratios refer to; choice_count: none can be measured */
    wf_times_t anchor_times; /* of this session, per block */
    double anchor_ns;        /* 0: not known */
    size_t rounds;           /* of measuring in this session */
    bool dead;               /* it cannot be measured: every tactic failed on made-up data */
} wf_topic_t;

typedef struct wf_profile {
    wf_allocator_t allocator;
    wf_arena_t arena;
    WF_VEC(wf_topic_t) topics;
    wf_map_t index;            /* problem text -> topic */
    wf_map_t scale_index;      /* source and root operator -> scales */
    WF_VEC(wf_times_t) scales; /* logs of cost / estimate of what was measured */
    double route_ns;           /* the best route of all parts, at present costs */
    bool quiet;                /* nobody else uses the machine: contended rows may be measured again */
    uint64_t reused;           /* choices that the database knew */
    uint64_t measured;         /* choices measured in this session */
} wf_profile_t;

void wf_profile_init(wf_profile_t *profile, wf_allocator_t allocator);
void wf_profile_deinit(wf_profile_t *profile);

/* Adds topics for the problems of the job's spaces that are new (conversions come when somebody asks for
 * them), with what the database knows. database may be NULL. */
wf_status_t wf_profile_sync(wf_profile_t *profile, wf_job_t *job, wf_database_t *database) WF_MUST_USE;
/* Sets cost, uncertainty and bans of every choice in the spaces; bans_only leaves the estimates. */
void wf_profile_apply(const wf_profile_t *profile, wf_job_t *job, bool bans_only);
/* What a choice takes inside the model beside what it takes alone; for every part, from the next apply on. */
void wf_profile_correct(wf_profile_t *profile, const wf_problem_t *problem, const char *tactic,
                        double context_ns);
/* Sets costs as they may also be: every cost times exp(sd N(0,1)), sd being that of the choice and
 * `context_sd` together. A route that is best for such costs is one that may be best. Undone by
 * wf_profile_apply. */
void wf_profile_perturb(const wf_profile_t *profile, wf_job_t *job, double context_sd, wf_rng_t *rng);
/* Solves at present costs and sets worth_ns of every choice and route_ns. Conversions are added to the
 * spaces: sync afterwards. */
wf_status_t wf_profile_appraise(wf_profile_t *profile, wf_job_t *job) WF_MUST_USE;

/* What one request measured, into the topic. `choices` are the indices of the request's tactics. rows (one
 * per choice, count 0 where there is nothing) are what the database is to get. best_canary_ns is the least of
 * the session and is updated. */
wf_status_t wf_profile_learn(wf_profile_t *profile, wf_topic_t *topic, const size_t *choices,
                             const wf_measure_result_t *result, double *best_canary_ns,
                             wf_timing_t *out_rows) WF_MUST_USE;
/* The choice must not be used any more. A topic whose anchor goes chooses another and forgets its ratios. */
wf_status_t wf_profile_quarantine(wf_profile_t *profile, wf_topic_t *topic, size_t choice,
                                  const char *reason) WF_MUST_USE;
/* Takes the quarantine back: the choice is used where nothing else can be, and never measured. */
wf_status_t wf_profile_keep(wf_profile_t *profile, wf_topic_t *topic, size_t choice) WF_MUST_USE;
/* Reasons of lookups that missed, over all choices that could be measured: out_counts[WF_MISS_COUNT]. */
void wf_profile_misses(const wf_profile_t *profile, uint64_t *out_counts);
/* True when the cost of the choice was measured, now or earlier. */
bool wf_topic_knows(const wf_topic_t *topic, const wf_topic_choice_t *choice);
/* The topic of a problem of a space; NULL when there is none. Valid until the next sync. */
wf_topic_t *wf_profile_topic(const wf_profile_t *profile, const wf_space_t *space, uint32_t problem);
/* The choice with this tactic, or topic->choice_count. */
size_t wf_topic_find(const wf_topic_t *topic, const char *tactic);

#endif
