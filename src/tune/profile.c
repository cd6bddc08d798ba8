/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "route/selection.h"

/* Estimates of tactics that were never measured are off by a factor of two now and then (native, corpus
 * models, AMD EPYC Zen 3, 2026-11-30). */
#define PRIOR_SD_REL 0.5
/* Beside measured tactics of the same source and problem an estimate is worth more. */
#define SCALED_SD_REL 0.2
/* A measured cost is uncertain by at least this: blocks of a minute agree better than the truth does. */
#define LEAST_SD_REL 0.002
/* What it is worth to know a tactic that is used, as a share of its cost: the sums that compare routes need
 * it. */
#define USED_WORTH 0.03
#define CONVERSION_WORTH 0.05
/* The cost of the anchor: low enough to leave out what other processes took, high enough not to be luck. */
#define ANCHOR_QUANTILE 0.25
/* A block is clean when the canary is near the best of the session and the system left the threads alone. */
#define CANARY_LIMIT 1.10
#define PREEMPTIONS_LIMIT 2u
#define CLEAN_SHARE 0.6
#define WINSOR_LIMIT 3.0
#define ROWS_MAX 512u
/* Rows of a busy machine, and rows too old to be trusted, may be off by this much. */
#define DOUBTFUL_SD_REL 0.05
/* Of a cost that was corrected by what was seen inside the model. */
#define CONTEXT_KNOWN_SD 0.01

void wf_profile_init(wf_profile_t *profile, wf_allocator_t allocator)
{
    *profile = (wf_profile_t){.allocator = allocator};
    wf_arena_init(&profile->arena, allocator);
    wf_map_init(&profile->index, allocator);
    wf_map_init(&profile->scale_index, allocator);
}

void wf_profile_deinit(wf_profile_t *profile)
{
    for (size_t t = 0; t < profile->topics.count; t++) {
        wf_topic_t *topic = &profile->topics.items[t];
        for (size_t c = 0; c < topic->choice_count; c++)
            wf_vec_deinit(profile->allocator, &topic->choices[c].log_ratios);
        wf_vec_deinit(profile->allocator, &topic->anchor_times);
        wf_vec_deinit(profile->allocator, &topic->refs);
    }
    wf_vec_deinit(profile->allocator, &profile->topics);
    wf_map_deinit(&profile->index);
    for (size_t i = 0; i < profile->scales.count; i++)
        wf_vec_deinit(profile->allocator, &profile->scales.items[i]);
    wf_vec_deinit(profile->allocator, &profile->scales);
    wf_map_deinit(&profile->scale_index);
    wf_arena_deinit(&profile->arena);
}

/* ---- Costs ---- */

static bool can_measure(const wf_topic_choice_t *choice)
{
    return !choice->view && !choice->kept && choice->quarantine == NULL;
}

/* The anchor of stored rows when it is still offered, else the choice that should be fastest. */
static void choose_anchor(wf_topic_t *topic)
{
    const char *stored = "";
    for (size_t c = 0; c < topic->choice_count; c++) {
        if (topic->choices[c].stored)
            stored = topic->choices[c].row.anchor;
    }
    topic->anchor = topic->choice_count;
    for (size_t c = 0; c < topic->choice_count; c++) {
        const wf_topic_choice_t *choice = &topic->choices[c];
        if (!can_measure(choice))
            continue;
        if (strcmp(choice->tactic, stored) == 0) {
            topic->anchor = c;
            return;
        }
        if (topic->anchor == topic->choice_count ||
            choice->estimate_ns < topic->choices[topic->anchor].estimate_ns)
            topic->anchor = c;
    }
}

/* Median and standard error of the session's ratios. */
static void session_ratio(wf_topic_choice_t *choice, double *scratch, double *out_median, double *out_se)
{
    size_t count = choice->log_ratios.count;
    memcpy(scratch, choice->log_ratios.items, count * sizeof *scratch);
    *out_median = wf_stats_median(scratch, count);
    /* A median has 1.25 times the standard error of a mean; few blocks say little about their spread. */
    double sd = fmax(wf_stats_mad(scratch, count), count < 5 ? 0.05 : 0);
    *out_se = 1.25 * sd / sqrt((double)count);
}

bool wf_topic_knows(const wf_topic_t *topic, const wf_topic_choice_t *choice)
{
    return topic->anchor_ns > 0 && (choice->stored || choice->log_ratios.count > 0);
}

/* ---- Estimates that were never measured ---- */

static size_t source_bytes(const char *tactic)
{
    return strcspn(tactic, "/");
}

/* The scales of tactics of this source for this operator; made when first asked for. */
static wf_status_t find_scales(wf_profile_t *profile, const wf_topic_t *topic, const char *tactic,
                               wf_times_t **out_scales)
{
    char key[WF_TACTIC_ID_MAX + 64];
    uint64_t index;
    int bytes = snprintf(key, sizeof key, "%.*s %s", (int)source_bytes(tactic), tactic,
                         wf_op_problem_name(topic->problem->stages[0].op));
    size_t length = WF_MIN((size_t)bytes, sizeof key - 1);
    if (!wf_map_get(&profile->scale_index, key, length, &index)) {
        const char *kept;
        wf_times_t *made;
        index = profile->scales.count;
        WF_TRY(wf_vec_grow(profile->allocator, &profile->scales, sizeof *made, &made));
        WF_TRY(wf_arena_text(&profile->arena, key, length, &kept));
        WF_TRY(wf_map_set(&profile->scale_index, kept, length, index));
    }
    *out_scales = &profile->scales.items[index];
    return WF_OK;
}

static wf_status_t median_of(wf_profile_t *profile, const wf_times_t *values, double *out_median)
{
    double *scratch = NULL;
    WF_TRY(wf_alloc(profile->allocator, values->count, sizeof *scratch, &scratch));
    memcpy(scratch, values->items, values->count * sizeof *scratch);
    *out_median = wf_stats_median(scratch, values->count);
    wf_free(profile->allocator, scratch, values->count, sizeof *scratch);
    return WF_OK;
}

/* Cost of a choice that was not measured: its estimate, scaled by what estimates of the same source turned
 * out to be for this problem, or else for this operator. */
static wf_status_t guess(wf_profile_t *profile, wf_topic_t *topic, wf_topic_choice_t *choice)
{
    wf_times_t here = {0};
    wf_status_t status = WF_OK;
    choice->cost_ns = choice->estimate_ns;
    choice->sd_rel = choice->view ? 0 : PRIOR_SD_REL;
    if (choice->view)
        return WF_OK;
    for (size_t c = 0; status == WF_OK && c < topic->choice_count; c++) {
        const wf_topic_choice_t *other = &topic->choices[c];
        size_t bytes = source_bytes(choice->tactic);
        if (!wf_topic_knows(topic, other) || source_bytes(other->tactic) != bytes ||
            memcmp(other->tactic, choice->tactic, bytes) != 0)
            continue;
        double scale = log(other->cost_ns / other->estimate_ns);
        status = wf_vec_push(profile->allocator, &here, &scale);
    }
    wf_times_t *scales = &here;
    if (status == WF_OK && here.count == 0)
        status = find_scales(profile, topic, choice->tactic, &scales);
    double scale = 0;
    if (status == WF_OK && scales->count > 0)
        status = median_of(profile, scales, &scale);
    choice->cost_ns = choice->estimate_ns * exp(scale);
    if (here.count > 0)
        choice->sd_rel = SCALED_SD_REL;
    wf_vec_deinit(profile->allocator, &here);
    return status;
}

static wf_status_t set_costs(wf_profile_t *profile, wf_topic_t *topic, double *scratch)
{
    for (size_t c = 0; c < topic->choice_count; c++) {
        wf_topic_choice_t *choice = &topic->choices[c];
        double ratio, se;
        if (!wf_topic_knows(topic, choice))
            continue;
        if (choice->log_ratios.count > 0) {
            session_ratio(choice, scratch, &ratio, &se);
        } else {
            ratio = choice->row.log_ratio.mean;
            se = choice->row.log_ratio.count > 1 ? wf_welford_se(&choice->row.log_ratio) : 0.05;
        }
        choice->cost_ns = topic->anchor_ns * exp(ratio);
        bool doubtful = choice->log_ratios.count == 0 && choice->miss != WF_MISS_NONE;
        choice->sd_rel = fmax(se, doubtful ? DOUBTFUL_SD_REL : LEAST_SD_REL);
    }
    for (size_t c = 0; c < topic->choice_count; c++) {
        if (!wf_topic_knows(topic, &topic->choices[c]))
            WF_TRY(guess(profile, topic, &topic->choices[c]));
    }
    return WF_OK;
}

static wf_status_t refresh_topic(wf_profile_t *profile, wf_topic_t *topic)
{
    size_t longest = topic->anchor_times.count;
    for (size_t c = 0; c < topic->choice_count; c++)
        longest = WF_MAX(longest, topic->choices[c].log_ratios.count);
    double *scratch = NULL;
    WF_TRY(wf_alloc(profile->allocator, longest, sizeof *scratch, &scratch));
    topic->anchor_ns = 0;
    if (topic->anchor_times.count > 0) {
        memcpy(scratch, topic->anchor_times.items, topic->anchor_times.count * sizeof *scratch);
        topic->anchor_ns = wf_stats_quantile(scratch, topic->anchor_times.count, ANCHOR_QUANTILE);
    }
    for (size_t c = 0; c < topic->choice_count; c++) {
        const wf_topic_choice_t *choice = &topic->choices[c];
        if (choice->stored && (topic->anchor_ns == 0 || choice->row.anchor_ns < topic->anchor_ns))
            topic->anchor_ns = choice->row.anchor_ns;
    }
    wf_status_t status = set_costs(profile, topic, scratch);
    wf_free(profile->allocator, scratch, longest, sizeof *scratch);
    return status;
}

/* What was measured, for problems that were not. */
static wf_status_t note_scales(wf_profile_t *profile, const wf_topic_t *topic)
{
    for (size_t c = 0; c < topic->choice_count; c++) {
        const wf_topic_choice_t *choice = &topic->choices[c];
        wf_times_t *scales;
        if (!wf_topic_knows(topic, choice))
            continue;
        double scale = log(choice->cost_ns / choice->estimate_ns);
        WF_TRY(find_scales(profile, topic, choice->tactic, &scales));
        WF_TRY(wf_vec_push(profile->allocator, scales, &scale));
    }
    return WF_OK;
}

/* New scales for what is still a guess. */
static wf_status_t guess_again(wf_profile_t *profile)
{
    for (size_t i = 0; i < profile->scales.count; i++)
        profile->scales.items[i].count = 0;
    for (size_t t = 0; t < profile->topics.count; t++)
        WF_TRY(note_scales(profile, &profile->topics.items[t]));
    for (size_t t = 0; t < profile->topics.count; t++) {
        wf_topic_t *topic = &profile->topics.items[t];
        for (size_t c = 0; c < topic->choice_count; c++) {
            if (!wf_topic_knows(topic, &topic->choices[c]))
                WF_TRY(guess(profile, topic, &topic->choices[c]));
        }
    }
    return WF_OK;
}

/* ---- Collecting topics ---- */

size_t wf_topic_find(const wf_topic_t *topic, const char *tactic)
{
    for (size_t c = 0; c < topic->choice_count; c++) {
        if (strcmp(topic->choices[c].tactic, tactic) == 0)
            return c;
    }
    return topic->choice_count;
}

static wf_status_t load_rows(wf_profile_t *profile, wf_topic_t *topic, wf_database_t *database)
{
    wf_timing_t *rows = NULL;
    size_t count = 0;
    if (database == NULL)
        return WF_OK;
    WF_TRY(wf_alloc(profile->allocator, ROWS_MAX, sizeof *rows, &rows));
    wf_status_t status = wf_database_find(database, topic->problem, rows, ROWS_MAX, &count);
    for (size_t r = 0; status == WF_OK && r < count; r++) {
        size_t c = wf_topic_find(topic, rows[r].tactic);
        if (c == topic->choice_count)
            continue;
        wf_topic_choice_t *choice = &topic->choices[c];
        if (rows[r].quarantine[0] != '\0') {
            status = wf_arena_text(&profile->arena, rows[r].quarantine, strlen(rows[r].quarantine),
                                   &choice->quarantine);
        } else if (!choice->view) {
            choice->stored = true;
            choice->row = rows[r];
        }
    }
    wf_free(profile->allocator, rows, ROWS_MAX, sizeof *rows);
    return status;
}

/* Rows whose ratios are to another anchor than this topic's say nothing here; old ones and those of a busy
 * machine say little. */
static void judge_rows(wf_profile_t *profile, wf_topic_t *topic)
{
    const char *anchor = topic->anchor < topic->choice_count ? topic->choices[topic->anchor].tactic : "";
    int64_t oldest = wf_database_today() - WF_TIMING_DAYS_MAX;
    for (size_t c = 0; c < topic->choice_count; c++) {
        wf_topic_choice_t *choice = &topic->choices[c];
        if (!choice->stored)
            continue;
        if (strcmp(choice->row.anchor, anchor) != 0) {
            choice->stored = false;
            choice->miss = WF_MISS_OTHER_ANCHOR;
            continue;
        }
        bool old = choice->row.day != 0 && choice->row.day < oldest;
        choice->miss = !choice->row.clean ? WF_MISS_CONTENDED : old ? WF_MISS_OLD : WF_MISS_NONE;
        choice->again = old || (!choice->row.clean && profile->quiet);
        profile->reused++;
    }
}

/* Why the database did not have what it does not have. */
static wf_status_t explain_misses(wf_profile_t *profile, wf_topic_t *topic, wf_database_t *database)
{
    const char **tactics = NULL;
    wf_miss_t *misses = NULL;
    size_t count = 0;
    if (database == NULL)
        return WF_OK;
    WF_TRY(wf_alloc(profile->allocator, topic->choice_count, sizeof *tactics, &tactics));
    wf_status_t status = wf_alloc(profile->allocator, topic->choice_count, sizeof *misses, &misses);
    for (size_t c = 0; c < topic->choice_count; c++)
        tactics[c] = topic->choices[c].tactic;
    if (status == WF_OK) {
        count = topic->choice_count;
        status = wf_database_why(database, topic->problem, tactics, count, misses);
    }
    for (size_t c = 0; status == WF_OK && c < count; c++) {
        wf_topic_choice_t *choice = &topic->choices[c];
        if (!choice->stored && choice->miss == WF_MISS_NONE && can_measure(choice))
            choice->miss = misses[c];
    }
    wf_free(profile->allocator, misses, topic->choice_count, sizeof *misses);
    wf_free(profile->allocator, (void *)tactics, topic->choice_count, sizeof *tactics);
    return status;
}

void wf_profile_misses(const wf_profile_t *profile, uint64_t *out_counts)
{
    memset(out_counts, 0, WF_MISS_COUNT * sizeof *out_counts);
    for (size_t t = 0; t < profile->topics.count; t++) {
        const wf_topic_t *topic = &profile->topics.items[t];
        for (size_t c = 0; c < topic->choice_count; c++) {
            const wf_topic_choice_t *choice = &topic->choices[c];
            if (choice->miss != WF_MISS_NONE && !choice->dominated)
                out_counts[choice->miss]++;
        }
    }
}

static wf_status_t new_topic(wf_profile_t *profile, const wf_space_problem_t *entry, wf_database_t *database,
                             wf_topic_t **out_topic)
{
    wf_topic_t *topic;
    WF_TRY(wf_vec_grow(profile->allocator, &profile->topics, sizeof *topic, &topic));
    *out_topic = topic;
    topic->problem = entry->problem;
    WF_TRY(wf_arena_alloc(&profile->arena, entry->choices.count, sizeof *topic->choices, &topic->choices));
    topic->choice_count = entry->choices.count;
    for (size_t c = 0; c < topic->choice_count; c++) {
        const wf_choice_t *from = &entry->choices.items[c];
        topic->choices[c] = (wf_topic_choice_t){.tactic = from->tactic_id,
                                                .signature = from->signature,
                                                .estimate_ns = from->estimate_ns,
                                                .view = from->needs.is_view,
                                                .dominated = from->dominated};
    }
    WF_TRY(load_rows(profile, topic, database));
    choose_anchor(topic);
    judge_rows(profile, topic);
    WF_TRY(explain_misses(profile, topic, database));
    WF_TRY(refresh_topic(profile, topic));
    const char *text = entry->problem->text;
    return wf_map_set(&profile->index, text, strlen(text), profile->topics.count - 1);
}

static wf_status_t sync_part(wf_profile_t *profile, wf_job_t *job, uint32_t part, wf_database_t *database)
{
    const wf_space_t *space = job->parts[part].space;
    for (uint32_t p = 0; p < space->problems.count; p++) {
        const wf_space_problem_t *entry = &space->problems.items[p];
        if (entry->choices.count == 0)
            continue;
        uint64_t index;
        wf_topic_t *topic;
        const char *text = entry->problem->text;
        if (wf_map_get(&profile->index, text, strlen(text), &index))
            topic = &profile->topics.items[index];
        else
            WF_TRY(new_topic(profile, entry, database, &topic));
        bool known = false;
        for (size_t r = 0; r < topic->refs.count; r++)
            known |= topic->refs.items[r].part == part;
        wf_topic_ref_t ref = {part, p};
        if (!known)
            WF_TRY(wf_vec_push(profile->allocator, &topic->refs, &ref));
    }
    return WF_OK;
}

wf_status_t wf_profile_sync(wf_profile_t *profile, wf_job_t *job, wf_database_t *database)
{
    for (uint32_t part = 0; part < job->part_count; part++)
        WF_TRY(sync_part(profile, job, part, database));
    return WF_OK;
}

typedef void choice_fn(const wf_topic_t *topic, const wf_topic_choice_t *from, wf_choice_t *to, void *arg);

/* Calls `each` for every choice of the spaces that a topic knows. */
static void each_choice(const wf_profile_t *profile, wf_job_t *job, choice_fn *each, void *arg)
{
    for (size_t t = 0; t < profile->topics.count; t++) {
        const wf_topic_t *topic = &profile->topics.items[t];
        for (size_t r = 0; r < topic->refs.count; r++) {
            const wf_topic_ref_t *ref = &topic->refs.items[r];
            wf_space_problem_t *entry = &job->parts[ref->part].space->problems.items[ref->problem];
            for (size_t i = 0; i < entry->choices.count; i++) {
                size_t c = wf_topic_find(topic, entry->choices.items[i].tactic_id);
                if (c < topic->choice_count)
                    each(topic, &topic->choices[c], &entry->choices.items[i], arg);
            }
        }
    }
}

static void set_ban(const wf_topic_t *topic, const wf_topic_choice_t *from, wf_choice_t *to, void *arg)
{
    (void)topic;
    (void)arg;
    to->banned = from->quarantine != NULL;
}

/* Alone and in context; a correction never makes work free. */
static double full_cost(const wf_topic_choice_t *choice)
{
    return fmax(choice->cost_ns + choice->context_ns, 0.05 * choice->cost_ns);
}

static void set_cost(const wf_topic_t *topic, const wf_topic_choice_t *from, wf_choice_t *to, void *arg)
{
    set_ban(topic, from, to, arg);
    to->measured = wf_topic_knows(topic, from);
    to->cost_ns = full_cost(from);
    to->sd_rel = to->measured ? from->sd_rel : 0;
}

void wf_profile_apply(const wf_profile_t *profile, wf_job_t *job, bool bans_only)
{
    each_choice(profile, job, bans_only ? set_ban : set_cost, NULL);
}

void wf_profile_correct(wf_profile_t *profile, const wf_problem_t *problem, const char *tactic,
                        double context_ns)
{
    uint64_t index;
    if (!wf_map_get(&profile->index, problem->text, strlen(problem->text), &index))
        return;
    wf_topic_t *topic = &profile->topics.items[index];
    size_t c = wf_topic_find(topic, tactic);
    if (c == topic->choice_count)
        return;
    topic->choices[c].context_ns = context_ns;
    topic->choices[c].in_context = true;
}

typedef struct perturbation {
    double context_sd;
    uint64_t seed;
} perturbation_t;

/* The same factor for the same tactic of a problem in every part: drawn from a hash of both. */
static void perturb(const wf_topic_t *topic, const wf_topic_choice_t *from, wf_choice_t *to, void *arg)
{
    const perturbation_t *p = arg;
    wf_rng_t rng = {p->seed ^ topic->problem->hash[0] ^
                    wf_hash_bytes(from->tactic, strlen(from->tactic)).low};
    double u = ((double)(wf_rng_next(&rng) >> 11) + 0.5) / 9007199254740992.0;
    double v = (double)(wf_rng_next(&rng) >> 11) / 9007199254740992.0;
    double normal = sqrt(-2 * log(u)) * cos(2 * acos(-1.0) * v); /* Box and Muller 1958 */
    double context_sd = from->in_context ? CONTEXT_KNOWN_SD : p->context_sd;
    double sd = from->view ? 0 : hypot(from->sd_rel, context_sd);
    to->cost_ns = full_cost(from) * exp(sd * normal);
}

void wf_profile_perturb(const wf_profile_t *profile, wf_job_t *job, double context_sd, wf_rng_t *rng)
{
    perturbation_t p = {context_sd, wf_rng_next(rng)};
    each_choice(profile, job, perturb, &p);
}

/* ---- Worth ---- */

wf_topic_t *wf_profile_topic(const wf_profile_t *profile, const wf_space_t *space, uint32_t problem)
{
    const char *text = space->problems.items[problem].problem->text;
    uint64_t index;
    return wf_map_get(&profile->index, text, strlen(text), &index) ? &profile->topics.items[index] : NULL;
}

/* What knowing the choice could save, when it must become `deficit_ns` cheaper to be used. */
static double improvement_ns(const wf_topic_choice_t *choice, double deficit_ns)
{
    return wf_stats_expected_excess(-deficit_ns, choice->sd_rel * choice->cost_ns);
}

/* The least that another label of the node, or another choice of the label, costs more than this label. */
static double next_best(const wf_selection_t *selection, const double *marginals, uint32_t position,
                        uint32_t label, const wf_topic_t *topic, const wf_topic_choice_t *used)
{
    double least = (double)INFINITY;
    for (uint32_t l = selection->label_first[position]; l < selection->label_first[position + 1]; l++) {
        if (l != label)
            least = fmin(least, marginals[l] - marginals[label]);
    }
    for (size_t c = 0; c < topic->choice_count; c++) {
        const wf_topic_choice_t *other = &topic->choices[c];
        if (other != used && other->signature == used->signature && other->quarantine == NULL &&
            !other->dominated)
            least = fmin(least, other->cost_ns - used->cost_ns);
    }
    return fmax(least, 0);
}

/* Every choice with the layouts of a label could take the label's place. */
static void appraise_label(wf_profile_t *profile, const wf_selection_t *selection, const double *marginals,
                           uint32_t position, uint32_t label, double best_ns)
{
    uint32_t option = selection->labels[label];
    const wf_group_t *group = wf_option_group(selection, option);
    const wf_choice_t *choice = wf_option_choice(selection, option);
    wf_topic_t *topic = wf_profile_topic(profile, selection->space, group->problem);
    size_t used = topic != NULL ? wf_topic_find(topic, choice->tactic_id) : 0;
    double gap_ns = fmax(marginals[label] - best_ns, 0);
    if (topic == NULL || used == topic->choice_count || !isfinite(gap_ns))
        return;
    bool on_route = gap_ns <= 1e-6 * best_ns;
    for (size_t c = 0; c < topic->choice_count; c++) {
        wf_topic_choice_t *other = &topic->choices[c];
        if (other->signature != topic->choices[used].signature || !can_measure(other) || other->dominated)
            continue;
        if (c == used && on_route) {
            double worth =
                improvement_ns(other, next_best(selection, marginals, position, label, topic, other));
            if (!wf_topic_knows(topic, other))
                worth = fmax(worth, USED_WORTH * other->cost_ns);
            other->worth_ns += worth;
        } else {
            other->worth_ns += improvement_ns(other, gap_ns + other->cost_ns - topic->choices[used].cost_ns);
        }
    }
}

static wf_status_t appraise_groups(wf_profile_t *profile, wf_selection_t *selection, double *out_best_ns)
{
    const wf_graph_t *graph = selection->graph;
    double *marginals = NULL;
    WF_TRY(wf_arena_alloc(&selection->arena, wf_pbqp_label_count(selection->pbqp), sizeof *marginals,
                          &marginals));
    WF_TRY(wf_pbqp_all_min_marginals(selection->pbqp, marginals));
    double best_ns = graph->order.count > 0 ? (double)INFINITY : 0;
    for (uint32_t l = 0; graph->order.count > 0 && l < selection->label_first[1]; l++)
        best_ns = fmin(best_ns, marginals[l]);
    for (uint32_t i = 0; i < graph->order.count; i++) {
        for (uint32_t l = selection->label_first[i]; l < selection->label_first[i + 1]; l++) {
            if (wf_option_group(selection, selection->labels[l])->nodes[0] == graph->order.items[i])
                appraise_label(profile, selection, marginals, i, l, best_ns);
        }
    }
    *out_best_ns = best_ns;
    return WF_OK;
}

/* Conversions have no labels: those of the best route are worth as much as tactics that are used, others a
 * share of their cost, since a route that needs them competes. */
static wf_status_t appraise_conversions(wf_profile_t *profile, wf_space_t *space)
{
    for (uint32_t p = 0; p < space->problems.count; p++) {
        const wf_space_problem_t *entry = &space->problems.items[p];
        wf_topic_t *topic =
            entry->problem->stages[0].op == WF_OP_W_CONVERT ? wf_profile_topic(profile, space, p) : NULL;
        for (size_t c = 0; topic != NULL && c < topic->choice_count; c++) {
            wf_topic_choice_t *choice = &topic->choices[c];
            if (can_measure(choice) && !choice->dominated && !wf_topic_knows(topic, choice))
                choice->worth_ns += CONVERSION_WORTH * choice->cost_ns;
        }
    }
    return WF_OK;
}

wf_status_t wf_profile_appraise(wf_profile_t *profile, wf_job_t *job)
{
    WF_TRY(guess_again(profile));
    wf_profile_apply(profile, job, false);
    for (size_t t = 0; t < profile->topics.count; t++) {
        for (size_t c = 0; c < profile->topics.items[t].choice_count; c++)
            profile->topics.items[t].choices[c].worth_ns = 0;
    }
    profile->route_ns = 0;
    wf_status_t status = WF_OK;
    for (size_t i = 0; status == WF_OK && i < job->part_count; i++) {
        wf_selection_t selection;
        double best_ns = 0;
        status = wf_selection_init(&selection, job->parts[i].space);
        if (status == WF_OK)
            status = appraise_groups(profile, &selection, &best_ns);
        if (status == WF_OK)
            status = appraise_conversions(profile, job->parts[i].space);
        profile->route_ns += best_ns;
        wf_selection_deinit(&selection);
    }
    return status;
}

/* ---- Learning ---- */

/* Marks the blocks to use; true when enough of them are clean and only those are used. */
static bool choose_blocks(const wf_measure_result_t *result, double best_canary_ns, bool *out_used)
{
    size_t clean = 0;
    for (size_t b = 0; b < result->block_count; b++) {
        out_used[b] = result->canary_ns[b] <= CANARY_LIMIT * best_canary_ns &&
                      result->preemptions[b] <= PREEMPTIONS_LIMIT;
        clean += out_used[b];
    }
    bool enough = clean >= 2 && (double)clean >= CLEAN_SHARE * (double)result->block_count;
    for (size_t b = 0; !enough && b < result->block_count; b++)
        out_used[b] = true;
    return enough;
}

typedef struct lesson {
    const wf_measure_result_t *result;
    const bool *used;
    double *ratios, *scratch; /* block_count each */
    double anchor_ns, canary_ns;
    bool clean;
} lesson_t;

static double time_at(const lesson_t *lesson, size_t block, size_t column)
{
    return lesson->result->times_ns[block * lesson->result->tactic_count + column];
}

/* One column into its choice and its row. Column 0 is the anchor. */
static wf_status_t learn_column(wf_profile_t *profile, const lesson_t *lesson, size_t column,
                                wf_topic_choice_t *choice, const char *anchor, wf_timing_t *row)
{
    size_t count = 0;
    double min_ns = (double)INFINITY;
    for (size_t b = 0; b < lesson->result->block_count; b++) {
        double ns = time_at(lesson, b, column), anchor_ns = time_at(lesson, b, 0);
        if (!lesson->used[b] || isnan(ns) || isnan(anchor_ns))
            continue;
        lesson->ratios[count++] = log(ns / anchor_ns);
        min_ns = fmin(min_ns, ns);
    }
    if (count == 0)
        return WF_OK;
    for (size_t i = 0; i < count; i++)
        WF_TRY(wf_vec_push(profile->allocator, &choice->log_ratios, &lesson->ratios[i]));
    profile->measured += !choice->measured && (!choice->stored || choice->again);
    choice->measured = true;
    *row = (wf_timing_t){.anchor_ns = lesson->anchor_ns,
                         .min_ns = min_ns,
                         .canary_ns = lesson->canary_ns,
                         .clean = lesson->clean};
    (void)snprintf(row->tactic, sizeof row->tactic, "%s", choice->tactic);
    (void)snprintf(row->anchor, sizeof row->anchor, "%s", anchor);
    wf_stats_winsorise(lesson->ratios, count, WINSOR_LIMIT, lesson->scratch);
    for (size_t i = 0; i < count; i++)
        wf_welford_add(&row->log_ratio, lesson->ratios[i]);
    return WF_OK;
}

static wf_status_t learn(wf_profile_t *profile, wf_topic_t *topic, const size_t *choices, lesson_t *lesson,
                         wf_timing_t *rows)
{
    const wf_measure_result_t *result = lesson->result;
    const char *anchor = topic->choices[topic->anchor].tactic;
    size_t count = 0, blocks = 0;
    for (size_t b = 0; b < result->block_count; b++) {
        double ns = time_at(lesson, b, 0);
        if (!lesson->used[b] || isnan(ns))
            continue;
        lesson->ratios[count++] = ns;
        WF_TRY(wf_vec_push(profile->allocator, &topic->anchor_times, &ns));
    }
    if (count == 0)
        return WF_OK;
    lesson->anchor_ns = wf_stats_quantile(lesson->ratios, count, ANCHOR_QUANTILE);
    for (size_t b = 0; b < result->block_count; b++) {
        if (lesson->used[b])
            lesson->ratios[blocks++] = result->canary_ns[b];
    }
    lesson->canary_ns = wf_stats_median(lesson->ratios, blocks);
    for (size_t i = 0; i < result->tactic_count; i++)
        WF_TRY(learn_column(profile, lesson, i, &topic->choices[choices[i]], anchor, &rows[i]));
    topic->rounds++;
    return refresh_topic(profile, topic);
}

wf_status_t wf_profile_learn(wf_profile_t *profile, wf_topic_t *topic, const size_t *choices,
                             const wf_measure_result_t *result, double *best_canary_ns, wf_timing_t *out_rows)
{
    assert(choices[0] == topic->anchor);
    bool *used = NULL;
    double *numbers = NULL;
    size_t blocks = result->block_count;
    for (size_t i = 0; i < result->tactic_count; i++)
        out_rows[i] = (wf_timing_t){0};
    for (size_t b = 0; b < blocks; b++) {
        if (*best_canary_ns == 0 || result->canary_ns[b] < *best_canary_ns)
            *best_canary_ns = result->canary_ns[b];
    }
    wf_status_t status = wf_alloc(profile->allocator, blocks, sizeof *used, &used);
    if (status == WF_OK)
        status = wf_alloc(profile->allocator, 2 * blocks, sizeof *numbers, &numbers);
    if (status == WF_OK && blocks > 0) {
        lesson_t lesson = {.result = result, .used = used, .ratios = numbers, .scratch = numbers + blocks};
        lesson.clean = choose_blocks(result, *best_canary_ns, used);
        status = learn(profile, topic, choices, &lesson, out_rows);
    }
    wf_free(profile->allocator, numbers, 2 * blocks, sizeof *numbers);
    wf_free(profile->allocator, used, blocks, sizeof *used);
    return status;
}

wf_status_t wf_profile_quarantine(wf_profile_t *profile, wf_topic_t *topic, size_t choice, const char *reason)
{
    WF_TRY(wf_arena_text(&profile->arena, reason, strlen(reason), &topic->choices[choice].quarantine));
    if (choice != topic->anchor)
        return refresh_topic(profile, topic);
    for (size_t c = 0; c < topic->choice_count; c++) {
        topic->choices[c].log_ratios.count = 0;
        topic->choices[c].stored = false;
    }
    topic->anchor_times.count = 0;
    choose_anchor(topic);
    return refresh_topic(profile, topic);
}

wf_status_t wf_profile_keep(wf_profile_t *profile, wf_topic_t *topic, size_t choice)
{
    topic->choices[choice].quarantine = NULL;
    topic->choices[choice].kept = true;
    topic->choices[choice].stored = false;
    topic->choices[choice].log_ratios.count = 0;
    return refresh_topic(profile, topic);
}
