/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/rule.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* Each look has 1.4 times the rounds of the one before: the half-width shrinks by a sixth from look to look,
 * and an engine that is equal is passed at the first or second on a quiet machine. */
static const size_t look_rounds[WF_RULE_LOOKS] = {10, 14, 19, 26, 36, 50, 70, 98, WF_RULE_ROUNDS_MAX};

#define TRIM_SHARE 0.1
#define TRIM_FROM 8u

const char *wf_rule_verdict_name(wf_rule_verdict_t verdict)
{
    static const char *const names[] = {"open", "passed", "improved", "regressed", "inconclusive"};
    return names[verdict];
}

/* ---- Interval ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

wf_interval_t wf_rule_interval(const double *values, size_t count, double confidence)
{
    double sorted[2 * WF_RULE_ROUNDS_MAX];
    assert(count <= WF_COUNT_OF(sorted));
    if (count < 2)
        return (wf_interval_t){count == 1 ? values[0] : 0, -(double)INFINITY, (double)INFINITY};
    memcpy(sorted, values, count * sizeof *values);
    wf_sort(sorted, count, sizeof *sorted, compare_doubles);
    size_t trim = (size_t)(TRIM_SHARE * (double)count);
    trim = count >= TRIM_FROM ? WF_MAX(trim, (size_t)1) : 0;
    size_t kept = count - 2 * trim;
    wf_welford_t inner = {0}, winsorised = {0};
    for (size_t i = 0; i < count; i++) {
        size_t at = WF_MIN(WF_MAX(i, trim), count - 1 - trim);
        wf_welford_add(&winsorised, sorted[at]);
        if (at == i)
            wf_welford_add(&inner, sorted[i]);
    }
    double error = sqrt(winsorised.m2 / ((double)kept * (double)(kept - 1)));
    double reach = wf_stats_t_quantile(0.5 + confidence / 2, (double)(kept - 1)) * error;
    return (wf_interval_t){inner.mean, inner.mean - reach, inner.mean + reach};
}

/* ---- Looks ---- */

static wf_rule_verdict_t look(const wf_rule_t *rule, wf_rule_run_t *run)
{
    double confidence = 1 - 2 * rule->alpha / WF_RULE_LOOKS; /* each bound alone errs with alpha / looks */
    run->look_count++;
    run->bounds = wf_rule_interval(run->rounds, run->round_count, confidence);
    if (run->bounds.low > rule->effect / 2)
        return WF_RULE_REGRESSED;
    if (run->bounds.high < -rule->effect / 2)
        return WF_RULE_IMPROVED;
    return run->bounds.high < rule->effect ? WF_RULE_PASSED : WF_RULE_OPEN;
}

static void settle(wf_rule_t *rule, wf_rule_verdict_t seen)
{
    if (rule->confirming && seen != WF_RULE_OPEN)
        rule->verdict = seen == WF_RULE_REGRESSED ? WF_RULE_REGRESSED : WF_RULE_INCONCLUSIVE;
    else if (seen == WF_RULE_REGRESSED)
        rule->confirming = true;
    else
        rule->verdict = seen;
}

void wf_rule_init(wf_rule_t *rule, double min_effect, double alpha)
{
    assert(min_effect > 0 && alpha > 0 && alpha < 0.5);
    memset(rule, 0, sizeof *rule);
    rule->effect = log1p(min_effect);
    rule->alpha = alpha;
}

wf_rule_verdict_t wf_rule_add(wf_rule_t *rule, double log_ratio)
{
    wf_rule_run_t *run = rule->confirming ? &rule->confirmation : &rule->first;
    if (rule->verdict != WF_RULE_OPEN)
        return rule->verdict;
    run->rounds[run->round_count++] = log_ratio;
    if (run->round_count != look_rounds[run->look_count])
        return WF_RULE_OPEN;
    settle(rule, look(rule, run));
    if (rule->verdict == WF_RULE_OPEN && run->round_count == WF_RULE_ROUNDS_MAX &&
        run->look_count == WF_RULE_LOOKS)
        rule->verdict = rule->confirming && run == &rule->first ? WF_RULE_OPEN : WF_RULE_INCONCLUSIVE;
    return rule->verdict;
}

wf_rule_verdict_t wf_rule_finish(wf_rule_t *rule)
{
    wf_rule_run_t *run = rule->confirming ? &rule->confirmation : &rule->first;
    bool fresh = run->look_count == 0 || run->round_count > look_rounds[run->look_count - 1];
    if (rule->verdict == WF_RULE_OPEN && fresh && run->round_count >= WF_RULE_ROUNDS_MIN)
        settle(rule, look(rule, run));
    if (rule->verdict == WF_RULE_OPEN)
        rule->verdict = WF_RULE_INCONCLUSIVE; /* a regression that could not be confirmed, too */
    return rule->verdict;
}
