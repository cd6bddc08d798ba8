/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/likeness.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "tune/lock.h"

/* Below this cosine another model's tuning says nothing. */
#define LIKENESS_MIN 0.6
#define OTHER_DEVICE_WEIGHT 0.5

/* ---- Shares ---- */

static void add_share(wf_likeness_t *likeness, const char *tactic, size_t length, double weight)
{
    char name[32];
    const char *slash = memchr(tactic, '/', length);
    const char *start = slash != NULL ? slash + 1 : tactic;
    size_t bytes = 0, left = length - (size_t)(start - tactic);
    /* The family and its algorithm; parameters and tier begin with the first of "avx", "scalar" or a digit.
     */
    while (bytes < left && start[bytes] != '.' && start[bytes] != '@' && bytes + 1 < sizeof name)
        bytes++;
    if (bytes == 0)
        return;
    memcpy(name, start, bytes);
    name[bytes] = '\0';
    size_t at = 0;
    while (at < likeness->count && strcmp(likeness->names[at], name) != 0)
        at++;
    if (at == WF_PROFILE_KINDS_MAX)
        return;
    if (at == likeness->count) {
        (void)snprintf(likeness->names[at], sizeof likeness->names[at], "%s", name);
        likeness->count++;
    }
    likeness->shares[at] += weight;
}

/* "<name> <hash> <tactic> ...": the tactic after 32 hexadecimal digits. */
static const char *find_tactic(const char *line, size_t length, size_t *out_bytes)
{
    for (size_t i = 0; i + 35 < length; i++) {
        if (line[i] != ' ' || line[i + 33] != ' ' || strspn(line + i + 1, "0123456789abcdef") != 32)
            continue;
        const char *tactic = line + i + 34;
        *out_bytes = strcspn(tactic, " \n");
        return tactic;
    }
    return NULL;
}

/* Nanoseconds that [evidence] has for the step whose plan line begins with `name`; 1 when there is none. */
static double evidence_ns(wf_lock_piece_t evidence, const char *name, size_t name_bytes)
{
    for (const char *line = evidence.data; line != NULL && *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (length > name_bytes + 1 && memcmp(line, name, name_bytes) == 0 && line[name_bytes] == ' ') {
            double ns = strtod(line + name_bytes + 1, NULL);
            return isfinite(ns) && ns >= 0 ? ns : 1;
        }
        line += length + (line[length] == '\n');
    }
    return 1;
}

wf_likeness_t wf_likeness_of_lock(const char *lock)
{
    wf_likeness_t likeness = {.count = 0};
    wf_lock_piece_t evidence = wf_lock_evidence(lock);
    for (const char *line = lock; *line != '\0' && strncmp(line, "[evidence]", 10) != 0;) {
        size_t length = strcspn(line, "\n"), bytes = 0;
        const char *tactic = find_tactic(line, length, &bytes);
        if (tactic != NULL)
            add_share(&likeness, tactic, bytes, evidence_ns(evidence, line, strcspn(line, " ")));
        line += length + (line[length] == '\n');
    }
    double norm = 0;
    for (size_t i = 0; i < likeness.count; i++)
        norm += likeness.shares[i] * likeness.shares[i];
    for (size_t i = 0; i < likeness.count && norm > 0; i++)
        likeness.shares[i] /= sqrt(norm);
    return likeness;
}

double wf_likeness_compare(const wf_likeness_t *a, const wf_likeness_t *b)
{
    double sum = 0;
    for (size_t i = 0; i < a->count; i++) {
        for (size_t j = 0; j < b->count; j++) {
            if (strcmp(a->names[i], b->names[j]) == 0)
                sum += a->shares[i] * b->shares[j];
        }
    }
    return fmin(sum, 1);
}

/* ---- Expectation ---- */

typedef struct sums {
    double weight, squares, mean, m2; /* weighted, of the log ratio (West 1979) */
    double converged[256];            /* budgets of like tunings that converged */
    size_t converged_count, open_count;
} sums_t;

static void add(sums_t *sums, double log_ratio, double weight)
{
    sums->weight += weight;
    sums->squares += weight * weight;
    double step = log_ratio - sums->mean;
    sums->mean += weight / sums->weight * step;
    sums->m2 += weight * step * (log_ratio - sums->mean);
}

static bool same_text(wf_lock_piece_t a, wf_lock_piece_t b)
{
    return a.data != NULL && b.data != NULL && a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

static void take_row(sqlite3_stmt *statement, const char *lock, const wf_likeness_t *mine, const char *device,
                     sums_t *sums, wf_expectation_t *out)
{
    const char *theirs = (const char *)sqlite3_column_text(statement, 0);
    const char *where = (const char *)sqlite3_column_text(statement, 1);
    double ratio = sqlite3_column_double(statement, 2), low = sqlite3_column_double(statement, 3),
           high = sqlite3_column_double(statement, 4), budget_s = sqlite3_column_double(statement, 5);
    bool converged = sqlite3_column_int(statement, 6) != 0;
    if (theirs == NULL || where == NULL || !(ratio > 0.001 && ratio < 1000 && low > 0 && high >= low))
        return;
    out->records++;
    bool here = strncmp(where, device, strlen(device)) == 0;
    bool same = here && same_text(wf_lock_field(lock, "model"), wf_lock_field(theirs, "model")) &&
                same_text(wf_lock_field(lock, "threads"), wf_lock_field(theirs, "threads"));
    if (out->same_model && !same)
        return;
    if (same && !out->same_model) {
        *sums = (sums_t){0};
        out->like = 0;
        out->same_model = true;
    }
    wf_likeness_t other = wf_likeness_of_lock(theirs);
    double alike = same ? 1 : wf_likeness_compare(mine, &other);
    if (alike < LIKENESS_MIN)
        return;
    out->like++;
    add(sums, log(ratio), pow(alike, 4) * (here ? 1 : OTHER_DEVICE_WEIGHT));
    if (same) {
        out->low = low;
        out->high = high;
        out->same_default_ns = sqlite3_column_double(statement, 7);
    }
    if (converged && sums->converged_count < WF_COUNT_OF(sums->converged))
        sums->converged[sums->converged_count++] = budget_s;
    sums->open_count += !converged;
}

/* The distribution of the next one: spread of the records, and of their mean. */
static void conclude(sums_t *sums, wf_expectation_t *out)
{
    if (out->like == 0)
        return;
    out->ratio = exp(sums->mean);
    double effective = sums->weight * sums->weight / sums->squares;
    if (out->same_model && out->like == 1)
        return; /* its own interval stands */
    /* With few records a spread of 10 % is assumed beside theirs. */
    double sd = sqrt((sums->m2 / sums->weight * effective + 0.01) / fmax(effective, 1));
    double width = wf_stats_t_quantile(0.95, fmax(effective, 1)) * sd * sqrt(1 + 1 / effective);
    out->low = exp(sums->mean - width);
    out->high = fmin(exp(sums->mean + width), 1);
}

static void find_budget(sums_t *sums, wf_expectation_t *out)
{
    if (sums->converged_count > sums->open_count)
        out->budget_s = wf_stats_median(sums->converged, sums->converged_count);
    (void)snprintf(out->converged_text, sizeof out->converged_text,
                   "%zu of %zu like tunings had nothing left to find within their budget",
                   sums->converged_count, sums->converged_count + sums->open_count);
}

wf_status_t wf_likeness_expect(wf_database_t *database, const char *lock, const char *device,
                               wf_expectation_t *out_expectation)
{
    sqlite3_stmt *statement = NULL;
    sums_t sums = {0};
    wf_likeness_t mine = wf_likeness_of_lock(lock);
    wf_status_t status;
    *out_expectation = (wf_expectation_t){0};
    WF_TRY(wf_database_prepare(database,
                               "SELECT lock, fingerprint, ratio, ratio_low, ratio_high, budget_s, converged,"
                               " default_ns FROM outcome JOIN device ON device.id=outcome.device",
                               &statement));
    while (wf_database_step(database, statement, &status))
        take_row(statement, lock, &mine, device, &sums, out_expectation);
    sqlite3_finalize(statement);
    conclude(&sums, out_expectation);
    find_budget(&sums, out_expectation);
    return status;
}
