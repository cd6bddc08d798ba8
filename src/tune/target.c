/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "tune/stats.h"

/* ---- Parsing ---- */

typedef struct unit_row {
    const char *unit;
    double factor;
} unit_row_t;
static const unit_row_t time_units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
static const unit_row_t rate_units[] = {{"/s", 1}, {"", 1}, {"/min", 1.0 / 60}, {NULL, 0}};
static const unit_row_t byte_units[] = {{"B", 1},
                                        {"KiB", 1024},
                                        {"MiB", 1024.0 * 1024},
                                        {"GiB", 1024.0 * 1024 * 1024},
                                        {"KB", 1e3},
                                        {"MB", 1e6},
                                        {"GB", 1e9},
                                        {NULL, 0}};

static wf_status_t refuse(const char *text, const char *why, const char *hint)
{
    return wf_status_hinted(WF_ERROR(USAGE, "target '%.60s': %s", text, why), "%s", hint);
}

static const char example[] = "write for example --target 'p99<=4ms and throughput>=900/s and memory<=2GiB'";

static bool read_metric(const char *word, wf_target_term_t *term)
{
    char *end;
    term->quantile = 0.5;
    if (word[0] == 'p' && word[1] >= '0' && word[1] <= '9') {
        double percent = strtod(word + 1, &end);
        term->metric = WF_METRIC_LATENCY;
        term->quantile = percent / 100;
        return *end == '\0' && percent > 0 && percent < 100;
    }
    static const struct {
        const char *name;
        wf_metric_t metric;
        double quantile;
    } rows[] = {{"latency", WF_METRIC_LATENCY, 0.5},
                {"median", WF_METRIC_LATENCY, 0.5},
                {"mean", WF_METRIC_LATENCY, -1},
                {"throughput", WF_METRIC_THROUGHPUT, -1},
                {"memory", WF_METRIC_MEMORY, -1}};
    for (size_t i = 0; i < WF_COUNT_OF(rows); i++) {
        if (strcmp(rows[i].name, word) == 0) {
            term->metric = rows[i].metric;
            term->quantile = rows[i].quantile;
            return true;
        }
    }
    return false;
}

static wf_status_t read_term(const char *text, wf_target_term_t *term)
{
    char word[32];
    size_t length = strcspn(text, "<>= \t");
    if (length == 0 || length >= sizeof word)
        return refuse(text, "a metric is missing", example);
    memcpy(word, text, length);
    word[length] = '\0';
    if (!read_metric(word, term))
        return refuse(text, "there is no such metric",
                      "use p50 to p99.9, latency, mean, throughput or memory");
    const char *at = text + length;
    at += strspn(at, " \t");
    bool below = *at == '<', above = *at == '>';
    if (!below && !above)
        return refuse(text, "it has no <= or >=", example);
    if (above != (term->metric == WF_METRIC_THROUGHPUT))
        return refuse(
            text, above ? "a limit from below makes no sense for it" : "throughput has a limit from below",
            example);
    at += 1 + (at[1] == '=');
    at += strspn(at, " \t");
    char *end;
    double number = strtod(at, &end);
    if (end == at || !(number > 0) || !isfinite(number))
        return refuse(text, "the limit is no number above 0", example);
    const unit_row_t *units = term->metric == WF_METRIC_LATENCY      ? time_units
                              : term->metric == WF_METRIC_THROUGHPUT ? rate_units
                                                                     : byte_units;
    end += strspn(end, " \t");
    for (; units->unit != NULL; units++) {
        if (strcmp(units->unit, end) == 0) {
            term->limit = number * units->factor;
            (void)snprintf(term->text, sizeof term->text, "%s", text);
            return WF_OK;
        }
    }
    return refuse(text, "the limit has no unit that fits",
                  "times take ns, us, ms or s; throughput /s; memory B, KiB, MiB, GiB, KB, MB or GB");
}

/* Two terms on one metric say the same thing twice or contradict each other; both are mistakes. */
static wf_status_t check_pairs(const char *text, const wf_target_t *target)
{
    for (size_t i = 0; i < target->count; i++) {
        for (size_t j = 0; j < i; j++) {
            const wf_target_term_t *a = &target->terms[i], *b = &target->terms[j];
            if (a->metric == b->metric && a->quantile == b->quantile)
                return refuse(text, "two limits for the same metric", "give the stricter one");
            if (a->metric != WF_METRIC_LATENCY || b->metric != WF_METRIC_LATENCY || a->quantile < 0 ||
                b->quantile < 0)
                continue;
            /* What 99 of 100 runs keep, 50 of 100 keep too: a looser limit on the lower percentile is void.
             */
            const wf_target_term_t *lower = a->quantile < b->quantile ? a : b, *higher = lower == a ? b : a;
            if (lower->limit > higher->limit)
                return refuse(
                    text, "the limits contradict each other: a lower percentile is never above a higher one",
                    "leave the limit of the lower percentile away, or make it the stricter one");
        }
    }
    return WF_OK;
}

wf_status_t wf_target_parse(const char *text, wf_target_t *out_target)
{
    *out_target = (wf_target_t){0};
    for (const char *at = text;;) {
        at += strspn(at, " \t");
        const char *by_word = strstr(at, " and "), *by_comma = strchr(at, ',');
        const char *end = by_word != NULL && (by_comma == NULL || by_word < by_comma) ? by_word : by_comma;
        size_t length = end != NULL ? (size_t)(end - at) : strlen(at);
        char term[64];
        while (length > 0 && (at[length - 1] == ' ' || at[length - 1] == '\t'))
            length--;
        if (length >= sizeof term)
            return refuse(at, "it is too long", example);
        if (out_target->count == WF_TARGET_TERMS_MAX)
            return refuse(text, "it has too many terms", example);
        memcpy(term, at, length);
        term[length] = '\0';
        WF_TRY(read_term(term, &out_target->terms[out_target->count]));
        out_target->count++;
        if (end == NULL)
            return check_pairs(text, out_target);
        at = end + (end == by_word ? 5 : 1);
    }
}

/* ---- Judging ---- */

const char *wf_verdict_name(wf_verdict_t verdict)
{
    static const char *const names[WF_VERDICT_COUNT] = {
        "met", "not met in the budget", "unreachable: less than the work takes at this machine's peak",
        "not enough samples in the budget"};
    return names[verdict];
}

double wf_binomial_cdf(size_t k, size_t n, double p)
{
    if (k >= n)
        return 1;
    if (p <= 0)
        return 1;
    if (p >= 1)
        return 0;
    double log_p = log(p), log_q = log1p(-p), sum = 0, log_choose = 0;
    for (size_t i = 0; i <= k; i++) {
        if (i > 0)
            log_choose += log((double)(n - i + 1)) - log((double)i);
        sum += exp(log_choose + (double)i * log_p + (double)(n - i) * log_q);
    }
    return fmin(sum, 1);
}

/* The share of runs over the limit must be below 1 - q. Clopper and Pearson 1934: one-sided, both ways. */
static wf_verdict_t judge_quantile(const wf_target_term_t *term, const wf_target_facts_t *facts,
                                   double confidence)
{
    size_t over = 0, n = facts->run_count;
    for (size_t i = 0; i < n; i++)
        over += facts->run_ns[i] > term->limit;
    double allowed = 1 - term->quantile, error = 1 - confidence;
    if (n == 0)
        return WF_VERDICT_TOO_FEW_RUNS;
    if (wf_binomial_cdf(over, n, allowed) <= error)
        return WF_VERDICT_MET;
    if (over > 0 && 1 - wf_binomial_cdf(over - 1, n, allowed) <= error)
        return WF_VERDICT_NOT_MET;
    return WF_VERDICT_TOO_FEW_RUNS;
}

/* The mean of the runs, by a t interval. */
static wf_verdict_t judge_mean(double limit_ns, const wf_target_facts_t *facts, double confidence)
{
    wf_welford_t w = {0};
    for (size_t i = 0; i < facts->run_count; i++)
        wf_welford_add(&w, facts->run_ns[i]);
    if (w.count < 8)
        return WF_VERDICT_TOO_FEW_RUNS;
    double half = wf_stats_t_quantile(confidence, (double)(w.count - 1)) * wf_welford_se(&w);
    if (w.mean + half <= limit_ns)
        return WF_VERDICT_MET;
    return w.mean - half > limit_ns ? WF_VERDICT_NOT_MET : WF_VERDICT_TOO_FEW_RUNS;
}

wf_verdict_t wf_target_judge_term(const wf_target_term_t *term, const wf_target_facts_t *facts,
                                  double confidence)
{
    if (term->metric == WF_METRIC_MEMORY)
        return facts->memory_bytes <= term->limit ? WF_VERDICT_MET : WF_VERDICT_NOT_MET;
    double limit_ns =
        term->metric == WF_METRIC_THROUGHPUT ? 1e9 * fmax(facts->batch, 1) / term->limit : term->limit;
    if (facts->bound_ns > limit_ns)
        return WF_VERDICT_UNREACHABLE;
    return term->quantile < 0 ? judge_mean(limit_ns, facts, confidence)
                              : judge_quantile(term, facts, confidence);
}

wf_verdict_t wf_target_judge(const wf_target_t *target, const wf_target_facts_t *facts, double confidence,
                             wf_verdict_t *out_terms)
{
    static const int severity[WF_VERDICT_COUNT] = {[WF_VERDICT_MET] = 0,
                                                   [WF_VERDICT_TOO_FEW_RUNS] = 1,
                                                   [WF_VERDICT_NOT_MET] = 2,
                                                   [WF_VERDICT_UNREACHABLE] = 3};
    wf_verdict_t worst = WF_VERDICT_MET;
    for (size_t i = 0; i < target->count; i++) {
        wf_verdict_t verdict = wf_target_judge_term(&target->terms[i], facts, confidence);
        if (severity[verdict] > severity[worst])
            worst = verdict;
        if (out_terms != NULL)
            out_terms[i] = verdict;
    }
    return worst;
}

size_t wf_target_runs_needed(const wf_target_t *target, double confidence)
{
    size_t most = 0;
    for (size_t i = 0; i < target->count; i++) {
        double q = target->terms[i].quantile;
        bool latency = target->terms[i].metric == WF_METRIC_LATENCY;
        if (latency && q > 0)
            most = WF_MAX(most, (size_t)ceil(log(1 - confidence) / log(q)));
        else if (target->terms[i].metric != WF_METRIC_MEMORY)
            most = WF_MAX(most, (size_t)30);
    }
    return most;
}

/* ---- Objectives ---- */

wf_status_t wf_objective_parse(const char *text, wf_objective_t *out_objective)
{
    static const char hint[] = "use latency, throughput, memory, or weights as in latency=0.7,memory=0.3";
    double weights[3] = {0}, sum = 0;
    static const char *const names[3] = {"latency", "throughput", "memory"};
    for (const char *at = text;;) {
        size_t length = strcspn(at, "=,"), m = 0;
        while (m < 3 && (strlen(names[m]) != length || strncmp(names[m], at, length) != 0))
            m++;
        if (m == 3)
            return wf_status_hinted(
                WF_ERROR(USAGE, "there is no objective '%.*s'", (int)WF_MIN(length, 40u), at), "%s", hint);
        double weight = 1;
        at += length;
        if (*at == '=') {
            char *end;
            weight = strtod(at + 1, &end);
            if (end == at + 1 || !(weight >= 0) || !(weight < 1e6))
                return wf_status_hinted(
                    WF_ERROR(USAGE, "objective '%.40s' has no weight that is a number", text), "%s", hint);
            at = end;
        }
        weights[m] += weight;
        sum += weight;
        if (*at == '\0')
            break;
        if (*at != ',')
            return wf_status_hinted(WF_ERROR(USAGE, "objective '%.40s' cannot be read", text), "%s", hint);
        at++;
    }
    if (!(sum > 0))
        return wf_status_hinted(WF_ERROR(USAGE, "the weights of objective '%.40s' are all 0", text), "%s",
                                hint);
    *out_objective = (wf_objective_t){weights[0] / sum, weights[1] / sum, weights[2] / sum};
    return WF_OK;
}

double wf_objective_log(const wf_objective_t *objective, double log_time_ratio, double log_memory_ratio)
{
    return (objective->latency + objective->throughput) * log_time_ratio +
           objective->memory * log_memory_ratio;
}
