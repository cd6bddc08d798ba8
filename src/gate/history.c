/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/history.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/file.h"

#define FILE_LIMIT ((size_t)64 << 20)

/* ---- Change points ---- */

static wf_welford_t summary(const double *levels, size_t from, size_t to)
{
    wf_welford_t w = {0};
    for (size_t i = from; i < to; i++)
        wf_welford_add(&w, levels[i]);
    return w;
}

/* Student's statistic over its critical value: above 1 the two stretches differ. The noise of both is the
 * same machine's, so the variance is pooled: Welch's approximation errs where one side has three points. */
static double excess(const wf_welford_t *a, const wf_welford_t *b, size_t splits)
{
    double degrees = (double)(a->count + b->count - 2);
    double error = sqrt((a->m2 + b->m2) / degrees * (1 / (double)a->count + 1 / (double)b->count));
    double distance = fabs(b->mean - a->mean);
    if (!(error > 0))
        return distance > 0 ? (double)INFINITY : 0;
    return distance / error / wf_stats_t_quantile(1 - WF_HISTORY_ERROR / 2 / (double)splits, degrees);
}

/* The split of [from, to) that differs most, beyond doubt and by enough; 0: none. */
static size_t best_split(const double *levels, size_t from, size_t to)
{
    size_t best = 0;
    double most = 1;
    for (size_t at = from + WF_HISTORY_SIDE_MIN; at + WF_HISTORY_SIDE_MIN <= to; at++) {
        size_t splits = to - from - 2 * WF_HISTORY_SIDE_MIN + 1;
        wf_welford_t a = summary(levels, from, at), b = summary(levels, at, to);
        double value = fabs(b.mean - a.mean) >= WF_HISTORY_CHANGE_MIN ? excess(&a, &b, splits) : 0;
        if (value <= most)
            continue;
        most = value;
        best = at;
    }
    return best;
}

/* Splits where the stretch differs most, then what is left and right of it. */
static wf_status_t split(const double *levels, size_t from, size_t to, wf_allocator_t allocator,
                         wf_changes_t *changes)
{
    size_t best = best_split(levels, from, to);
    if (best == 0)
        return WF_OK;
    WF_TRY(split(levels, from, best, allocator, changes));
    wf_change_t change = {best, 0};
    WF_TRY(wf_vec_push(allocator, changes, &change));
    return split(levels, best, to, allocator, changes);
}

static size_t neighbour(const wf_changes_t *changes, size_t index, int way, size_t count)
{
    if (way < 0)
        return index > 0 ? changes->items[index - 1].at : 0;
    return index + 1 < changes->count ? changes->items[index + 1].at : count;
}

/* The first split of a stretch with several steps lies where it halves it best, which need not be at one of
 * them: each is sought again between its neighbours, and goes when there is none. */
static void refine(const double *levels, size_t count, wf_changes_t *changes)
{
    for (size_t i = 0; i < changes->count;) {
        size_t at = best_split(levels, neighbour(changes, i, -1, count), neighbour(changes, i, 1, count));
        if (at != 0) {
            changes->items[i++].at = at;
            continue;
        }
        memmove(&changes->items[i], &changes->items[i + 1],
                (changes->count - i - 1) * sizeof *changes->items);
        changes->count--;
    }
}

wf_status_t wf_history_changes(const double *levels, size_t count, wf_allocator_t allocator,
                               wf_changes_t *out_changes)
{
    *out_changes = (wf_changes_t){0};
    WF_TRY(split(levels, 0, count, allocator, out_changes));
    refine(levels, count, out_changes);
    for (size_t i = 0; i < out_changes->count; i++) {
        wf_change_t *c = &out_changes->items[i];
        c->step = summary(levels, c->at, neighbour(out_changes, i, 1, count)).mean -
                  summary(levels, neighbour(out_changes, i, -1, count), c->at).mean;
    }
    return WF_OK;
}

/* ---- The store's gates ---- */

typedef struct history {
    wf_allocator_t allocator;
    wf_times_t levels;
    json_t *points, *engine_levels; /* engine hash -> its level when last measured */
    size_t skipped;
} history_t;

/* A gate's ratio is relative to its baseline; the baseline's own level is what it had when it was under test.
 */
static wf_status_t take_gate(history_t *h, const json_t *line)
{
    const char *engine = json_string_value(json_object_get(line, "engine"));
    const char *baseline = json_string_value(json_object_get(line, "baseline"));
    double ratio = json_number_value(json_object_get(line, "ratio"));
    if (engine == NULL || baseline == NULL || !(ratio > 0) || !isfinite(ratio) ||
        h->levels.count >= WF_HISTORY_POINTS_MAX) {
        h->skipped++;
        return WF_OK;
    }
    double level = json_number_value(json_object_get(h->engine_levels, baseline)) + log(ratio);
    WF_TRY(wf_vec_push(h->allocator, &h->levels, &level));
    /* An engine that is measured again keeps its first level: a baseline against itself does not wander. */
    if (json_object_get(h->engine_levels, engine) == NULL && strcmp(engine, baseline) != 0)
        (void)json_object_set_new(h->engine_levels, engine, json_real(level));
    (void)json_array_append_new(h->points, json_pack("{s:s s:f s:O?}", "engine", engine, "level", exp(level),
                                                     "verdict", json_object_get(line, "verdict")));
    return WF_OK;
}

static wf_status_t read_lines(history_t *h, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : bytes - at;
        json_t *line = json_loadb(text + at, length, JSON_REJECT_DUPLICATES, NULL);
        const char *type = json_string_value(json_object_get(line, "type"));
        wf_status_t status = WF_OK;
        if (type != NULL && strcmp(type, "gate") == 0)
            status = take_gate(h, line);
        h->skipped += line == NULL && length > 0;
        json_decref(line);
        WF_TRY(status);
        at += length + 1;
    }
    return WF_OK;
}

static wf_status_t report(history_t *h, const wf_gate_options_t *options, wf_gate_result_t *result)
{
    wf_changes_t changes;
    size_t count = h->levels.count;
    wf_status_t status = wf_history_changes(h->levels.items, count, h->allocator, &changes);
    if (status != WF_OK) {
        wf_vec_deinit(h->allocator, &changes);
        return status;
    }
    json_t *list = json_array();
    double total = 0;
    for (size_t i = 0; i < changes.count; i++) {
        const json_t *point = json_array_get(h->points, changes.items[i].at);
        total += changes.items[i].step;
        (void)json_array_append_new(list, json_pack("{s:I s:O s:f}", "at", (json_int_t)changes.items[i].at,
                                                    "engine", json_object_get(point, "engine"), "ratio",
                                                    exp(changes.items[i].step)));
    }
    bool crept = total > log1p(options->min_effect);
    wf_vec_deinit(h->allocator, &changes);
    result->verdict = crept ? WF_GATE_REGRESSED : WF_GATE_PASSED;
    result->ratio = exp(total);
    return wf_gate_report(result, json_pack("{s:i s:s s:i s:f s:f s:I s:o s:O}", "schema_version", 1,
                                            "verdict", crept ? "crept" : "steady", "exit", crept ? 5 : 0,
                                            "ratio", exp(total), "min_effect", options->min_effect, "skipped",
                                            (json_int_t)h->skipped, "changes", list, "points", h->points));
}

wf_status_t wf_history_run(const char *engine_path, const wf_gate_options_t *options,
                           wf_gate_result_t *out_result)
{
    wf_baseline_t facts;
    char folder[4096], path[4200], *text = NULL;
    size_t bytes = 0;
    WF_TRY(wf_baseline_identify(engine_path, options->allocator, &facts));
    wf_status_t status = wf_store_folder(options->store, &facts, folder, sizeof folder);
    wf_baseline_deinit(&facts);
    WF_TRY(status);
    (void)snprintf(path, sizeof path, "%s/history.jsonl", folder);
    WF_TRY(wf_file_read(path, FILE_LIMIT, options->allocator, &text, &bytes));
    history_t h = {.allocator = options->allocator, .points = json_array(), .engine_levels = json_object()};
    status = read_lines(&h, text, bytes);
    wf_free(options->allocator, text, bytes + 1, 1);
    if (status == WF_OK)
        status = report(&h, options, out_result);
    wf_vec_deinit(options->allocator, &h.levels);
    json_decref(h.points);
    json_decref(h.engine_levels);
    return status;
}
