/* SPDX-License-Identifier: Apache-2.0 */
/* Where the difference of two engines comes from: steps timed in whole runs, interleaved, matched by the
 * nodes that they do. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "gate/gate.h"

#define RUNS_MIN 7u
#define RUNS_MAX 400u

/* Steps of both engines, A's first. Those that share a node are one region, found by union. */
typedef struct step {
    wf_step_info_t info;
    uint32_t parent; /* union-find */
    double ns;       /* median */
} step_t;

typedef struct diff {
    wf_allocator_t allocator;
    wf_pair_t *pair;
    size_t counts[2], total, runs;
    step_t *steps;
    uint64_t *row;
    double *times;       /* [step][run] */
    double *plain_ns[2]; /* whole runs without a clock between the steps */
} diff_t;

static uint32_t find(step_t *steps, uint32_t at)
{
    while (steps[at].parent != at)
        at = steps[at].parent = steps[steps[at].parent].parent;
    return at;
}

static void join(step_t *steps, uint32_t a, uint32_t b)
{
    a = find(steps, a);
    b = find(steps, b);
    steps[WF_MAX(a, b)].parent = WF_MIN(a, b);
}

/* Conversions and copies do no nodes. */
static bool has_nodes(const step_t *step)
{
    return step->info.nodes[0] != '(';
}

/* Joins steps by the names in "a, b, c". */
static wf_status_t join_by_nodes(diff_t *diff)
{
    wf_map_t owners;
    wf_status_t status = WF_OK;
    wf_map_init(&owners, diff->allocator);
    for (uint32_t s = 0; status == WF_OK && s < diff->total; s++) {
        const char *name = diff->steps[s].info.nodes;
        while (status == WF_OK && has_nodes(&diff->steps[s]) && *name != '\0') {
            const char *end = strstr(name, ", ");
            size_t length = end != NULL ? (size_t)(end - name) : strlen(name);
            uint64_t owner;
            if (wf_map_get(&owners, name, length, &owner))
                join(diff->steps, (uint32_t)owner, s);
            else
                status = wf_map_set(&owners, name, length, s);
            name += length + (end != NULL ? 2 : 0);
        }
    }
    wf_map_deinit(&owners);
    return status;
}

/* A conversion belongs to the step that it is made for: the next one with nodes, or the last. */
static void join_conversions(diff_t *diff)
{
    for (size_t side = 0; side < 2; side++) {
        uint32_t first = side == 0 ? 0 : (uint32_t)diff->counts[0];
        uint32_t end = first + (uint32_t)diff->counts[side];
        for (uint32_t s = first; s < end; s++) {
            uint32_t next = s + 1;
            while (next < end && !has_nodes(&diff->steps[next]))
                next++;
            if (!has_nodes(&diff->steps[s]) && (next < end || s > first))
                join(diff->steps, s, next < end ? next : s - 1);
        }
    }
}

/* ---- Times ---- */

static wf_status_t timed_run(diff_t *diff, size_t side, size_t run)
{
    size_t first = side == 0 ? 0 : diff->counts[0];
    wf_arm_t *arm = wf_pair_arm(diff->pair, side);
    WF_TRY(wf_arm_warm(arm));
    WF_TRY(wf_arm_run_steps(arm, 0, diff->row));
    for (size_t s = 0; s < diff->counts[side]; s++)
        diff->times[(first + s) * RUNS_MAX + run] = (double)diff->row[s];
    return wf_arm_sample(arm, 0, 1, 0, NULL, &diff->plain_ns[side][run]);
}

static wf_status_t time_steps(diff_t *diff, double seconds)
{
    double end_s = wf_gate_now_s() + seconds;
    wf_rng_t rng = {1};
    while (diff->runs < RUNS_MAX && (diff->runs < RUNS_MIN || wf_gate_now_s() < end_s)) {
        size_t first = wf_rng_below(&rng, 2);
        WF_TRY(timed_run(diff, first, diff->runs));
        WF_TRY(timed_run(diff, 1 - first, diff->runs));
        diff->runs++;
    }
    for (size_t s = 0; s < diff->total; s++)
        diff->steps[s].ns = wf_stats_median(&diff->times[s * RUNS_MAX], diff->runs);
    return WF_OK;
}

/* ---- Report ---- */

typedef struct region {
    double ns[2];
    size_t step_counts[2], conversions[2];
    const step_t *first[2]; /* with nodes */
} region_t;

static region_t gather(const diff_t *diff, uint32_t root)
{
    region_t region = {{0}, {0}, {0}, {NULL}};
    for (uint32_t s = 0; s < diff->total; s++) {
        size_t side = s < diff->counts[0] ? 0 : 1;
        if (find(diff->steps, s) != root)
            continue;
        region.ns[side] += diff->steps[s].ns;
        region.step_counts[side]++;
        if (!has_nodes(&diff->steps[s]))
            region.conversions[side]++;
        else if (region.first[side] == NULL)
            region.first[side] = &diff->steps[s];
    }
    return region;
}

/* What is different: how steps are cut, conversions between layouts, or the tactic. */
static const char *change(const diff_t *diff, uint32_t root, const region_t *region)
{
    if (region->first[0] == NULL || region->first[1] == NULL)
        return "only in one";
    if (region->step_counts[0] - region->conversions[0] != region->step_counts[1] - region->conversions[1])
        return "fusion";
    uint32_t a = 0, b = (uint32_t)diff->counts[0];
    while (true) { /* the n-th step with nodes of each side */
        while (a < diff->counts[0] && (find(diff->steps, a) != root || !has_nodes(&diff->steps[a])))
            a++;
        while (b < diff->total && (find(diff->steps, b) != root || !has_nodes(&diff->steps[b])))
            b++;
        if (a >= diff->counts[0] || b >= diff->total)
            break;
        if (strcmp(diff->steps[a].info.problem, diff->steps[b].info.problem) != 0)
            return "fusion";
        if (strcmp(diff->steps[a].info.tactic, diff->steps[b].info.tactic) != 0)
            return "tactic";
        a++;
        b++;
    }
    return region->conversions[0] != region->conversions[1] ? "layout" : "none";
}

static json_t *region_json(const diff_t *diff, uint32_t root)
{
    region_t r = gather(diff, root);
    const step_t *any = r.first[0] != NULL   ? r.first[0]
                        : r.first[1] != NULL ? r.first[1]
                                             : &diff->steps[root];
    return json_pack("{s:s s:s s:f s:f s:f s:s? s:s? s:I s:I s:I s:I}", "nodes", any->info.nodes, "change",
                     change(diff, root, &r), "a_ns", r.ns[0], "b_ns", r.ns[1], "difference_ns",
                     r.ns[1] - r.ns[0], "a_tactic", r.first[0] != NULL ? r.first[0]->info.tactic : NULL,
                     "b_tactic", r.first[1] != NULL ? r.first[1]->info.tactic : NULL, "a_steps",
                     (json_int_t)r.step_counts[0], "b_steps", (json_int_t)r.step_counts[1], "a_conversions",
                     (json_int_t)r.conversions[0], "b_conversions", (json_int_t)r.conversions[1]);
}

static double weight(const json_t *region)
{
    return fabs(json_number_value(json_object_get(region, "difference_ns")));
}

/* Largest difference first; there are some hundred at most. */
static void insert_sorted(json_t *regions, json_t *region)
{
    size_t at = 0;
    while (at < json_array_size(regions) && weight(json_array_get(regions, at)) >= weight(region))
        at++;
    (void)json_array_insert_new(regions, at, region);
}

static json_t *report(diff_t *diff)
{
    json_t *regions = json_array();
    double sums[2] = {0, 0}, whole[2];
    for (uint32_t s = 0; s < diff->total; s++) {
        sums[s < diff->counts[0] ? 0 : 1] += diff->steps[s].ns;
        if (find(diff->steps, s) == s)
            insert_sorted(regions, region_json(diff, s));
    }
    for (size_t i = 0; i < 2; i++)
        whole[i] = wf_stats_median(diff->plain_ns[i], diff->runs);
    double difference = whole[1] - whole[0], explained = sums[1] - sums[0];
    return json_pack("{s:i s:f s:f s:f s:f s:f s:I s:o}", "schema_version", 1, "a_ns", whole[0], "b_ns",
                     whole[1], "difference_ns", difference, "explained_ns", explained, "unexplained_ns",
                     difference - explained, "runs", (json_int_t)diff->runs, "regions", regions);
}

static wf_status_t run(diff_t *diff, double seconds, json_t **out_json)
{
    wf_allocator_t allocator = diff->allocator;
    for (size_t i = 0; i < 2; i++) {
        diff->counts[i] = wf_engine_step_count(wf_pair_engine(diff->pair, i), 0);
        diff->total += diff->counts[i];
        WF_TRY(wf_alloc(allocator, RUNS_MAX, sizeof(double), &diff->plain_ns[i]));
    }
    size_t values;
    if (!wf_size_mul(diff->total, RUNS_MAX, &values))
        return wf_status_out_of_memory();
    WF_TRY(wf_alloc(allocator, diff->total, sizeof *diff->steps, &diff->steps));
    WF_TRY(wf_alloc(allocator, diff->total, sizeof *diff->row, &diff->row));
    WF_TRY(wf_alloc(allocator, values, sizeof *diff->times, &diff->times));
    for (uint32_t s = 0; s < diff->total; s++) {
        size_t side = s < diff->counts[0] ? 0 : 1;
        diff->steps[s].info =
            wf_engine_step(wf_pair_engine(diff->pair, side), 0, side == 0 ? s : s - diff->counts[0]);
        diff->steps[s].parent = s;
    }
    WF_TRY(join_by_nodes(diff));
    join_conversions(diff);
    WF_TRY(time_steps(diff, seconds));
    *out_json = report(diff);
    return *out_json != NULL ? WF_OK : wf_status_out_of_memory();
}

wf_status_t wf_diff_pair(wf_pair_t *pair, double seconds, wf_allocator_t allocator, json_t **out_json)
{
    diff_t diff = {.allocator = allocator, .pair = pair};
    *out_json = NULL;
    wf_status_t status = run(&diff, seconds, out_json);
    for (size_t i = 0; i < 2; i++)
        wf_free(allocator, diff.plain_ns[i], RUNS_MAX, sizeof(double));
    wf_free(allocator, diff.steps, diff.total, sizeof *diff.steps);
    wf_free(allocator, diff.row, diff.total, sizeof *diff.row);
    wf_free(allocator, diff.times, diff.total * RUNS_MAX, sizeof *diff.times);
    return status;
}

wf_status_t wf_diff_run(const char *path_a, const char *path_b, const wf_gate_options_t *options,
                        wf_gate_result_t *out_result)
{
    wf_gate_progress_t progress = {.what = "diff"};
    wf_pair_options_t pair_options = wf_gate_pair_options(options, &progress);
    wf_baseline_t a, b;
    wf_pair_t *pair = NULL;
    json_t *json = NULL;
    pair_options.paths[0] = path_a;
    pair_options.paths[1] = path_b;
    wf_baseline_init(&b, options->allocator);
    wf_status_t status = wf_baseline_identify(path_a, options->allocator, &a);
    if (status == WF_OK)
        status = wf_baseline_identify(path_b, options->allocator, &b);
    if (status == WF_OK && !options->any_model && strcmp(a.model_hash, b.model_hash) != 0) {
        status = wf_status_hinted(
            WF_ERROR(BASELINE_MISMATCH, "%s and %s are engines of different models", path_a, path_b),
            "give two engines of one model; --any-model compares versions of a model");
    }
    if (status == WF_OK)
        status = wf_pair_open(&pair_options, &pair);
    if (status == WF_OK)
        status = wf_diff_pair(pair, options->budget_s, options->allocator, &json);
    if (status == WF_OK) {
        (void)json_object_set_new(json, "a", json_string(path_a));
        (void)json_object_set_new(json, "b", json_string(path_b));
        out_result->ratio = json_number_value(json_object_get(json, "b_ns")) /
                            json_number_value(json_object_get(json, "a_ns"));
        status = wf_gate_report(out_result, json);
    }
    wf_pair_close(pair);
    wf_baseline_deinit(&a);
    wf_baseline_deinit(&b);
    return status;
}
