/* SPDX-License-Identifier: Apache-2.0 */
/* Targets: what can be written, and verdicts whose answer is known. */
#include "tune/target.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/random.h"

static void targets_are_read(void **state)
{
    (void)state;
    wf_target_t t;
    wf_assert_ok(wf_target_parse("p99<=4ms and throughput>=900/s and memory<=2GiB", &t));
    assert_int_equal(t.count, 3);
    assert_true(t.terms[0].metric == WF_METRIC_LATENCY && fabs(t.terms[0].quantile - 0.99) < 1e-12);
    assert_true(fabs(t.terms[0].limit - 4e6) < 1e-3);
    assert_true(t.terms[1].metric == WF_METRIC_THROUGHPUT && fabs(t.terms[1].limit - 900) < 1e-9);
    assert_true(t.terms[2].metric == WF_METRIC_MEMORY && t.terms[2].limit == 2.0 * 1024 * 1024 * 1024);
    wf_assert_ok(wf_target_parse("  latency < 150us,p99.9 <= 1 s , mean<=200us", &t));
    assert_int_equal(t.count, 3);
    assert_true(fabs(t.terms[1].quantile - 0.999) < 1e-12 && t.terms[2].quantile < 0);
}

static void mistakes_are_usage_errors(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "p99",
                                      "p99<=",
                                      "p99<=4",
                                      "p99>=4ms",
                                      "throughput<=3/s",
                                      "p100<=1ms",
                                      "p0<=1ms",
                                      "speed<=1ms",
                                      "p99<=-1ms",
                                      "p99<=4ms and",
                                      "p99<=4ms or p50<=1ms",
                                      "p50<=5ms and p99<=4ms",
                                      "p99<=4ms and p99<=5ms",
                                      "memory<=2ms",
                                      "p99<=nanms",
                                      "p99<=4ms,,p50<=1ms",
                                      "throughput>=0/s",
                                      "memory>=1GiB",
                                      "=<4ms"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        wf_target_t t;
        wf_status_t status = wf_target_parse(bad[i], &t);
        if (wf_status_code(status) != WF_CODE_USAGE)
            print_message("accepted: %s\n", bad[i]);
        assert_int_equal(wf_status_code(status), WF_CODE_USAGE);
        wf_status_free(status);
    }
}

/* Sums of exact small cases. */
static void binomial_is_exact(void **state)
{
    (void)state;
    assert_true(fabs(wf_binomial_cdf(0, 3, 0.5) - 0.125) < 1e-12);
    assert_true(fabs(wf_binomial_cdf(1, 3, 0.5) - 0.5) < 1e-12);
    assert_true(wf_binomial_cdf(3, 3, 0.5) == 1);
    assert_true(fabs(wf_binomial_cdf(0, 298, 0.01) - pow(0.99, 298)) < 1e-12);
    assert_true(fabs(wf_binomial_cdf(50, 1000, 0.05) - 0.5376) < 1e-3); /* statistical tables */
}

static wf_verdict_t judge(const char *text, const double *runs, size_t count, double bound_ns)
{
    wf_target_t t;
    wf_assert_ok(wf_target_parse(text, &t));
    wf_target_facts_t facts = {runs, count, 1, 1e9, bound_ns};
    return wf_target_judge(&t, &facts, 0.95, NULL);
}

static void verdicts_of_known_samples(void **state)
{
    (void)state;
    double runs[1000];
    for (size_t i = 0; i < 1000; i++)
        runs[i] = 1e6;
    /* 0.99^298 is above 5 %, 0.99^299 below: the rule of 299. */
    assert_int_equal(judge("p99<=2ms", runs, 298, 0), WF_VERDICT_TOO_FEW_RUNS);
    assert_int_equal(judge("p99<=2ms", runs, 299, 0), WF_VERDICT_MET);
    wf_target_t t;
    wf_assert_ok(wf_target_parse("p99<=2ms", &t));
    assert_int_equal(wf_target_runs_needed(&t, 0.95), 299);
    assert_int_equal(judge("p50<=2ms", runs, 5, 0), WF_VERDICT_MET);
    assert_int_equal(judge("p50<=0.5ms", runs, 5, 0), WF_VERDICT_NOT_MET);
    assert_int_equal(judge("p50<=2ms", runs, 4, 0), WF_VERDICT_TOO_FEW_RUNS);
    for (size_t i = 0; i < 20; i++)
        runs[i * 50] = 9e6;
    assert_int_equal(judge("p99<=2ms", runs, 1000, 0), WF_VERDICT_NOT_MET);
    assert_int_equal(judge("p90<=2ms", runs, 1000, 0), WF_VERDICT_MET);
    assert_int_equal(judge("p50<=0.9ms", runs, 1000, 0.95e6), WF_VERDICT_UNREACHABLE);
    assert_int_equal(judge("throughput>=2000/s", runs, 1000, 0.95e6), WF_VERDICT_UNREACHABLE);
    assert_int_equal(judge("throughput>=500/s", runs, 1000, 0), WF_VERDICT_MET);
    assert_int_equal(judge("throughput>=950/s", runs, 1000, 0), WF_VERDICT_NOT_MET);
    assert_int_equal(judge("memory<=0.9GB", runs, 1000, 0), WF_VERDICT_NOT_MET);
    assert_int_equal(judge("memory<=1GB and p50<=2ms", runs, 1000, 0), WF_VERDICT_MET);
    assert_int_equal(judge("memory<=1GB and p99<=10ms and p50<=0.1ms", runs, 200, 0), WF_VERDICT_NOT_MET);
}

/* Of engines exactly at the limit at most one in twenty is called good, and at most one in twenty bad. */
static void verdicts_keep_their_confidence(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("target", 17);
    size_t met = 0, not_met = 0, trials = 2000;
    for (size_t trial = 0; trial < trials; trial++) {
        double runs[400];
        for (size_t i = 0; i < 400; i++)
            runs[i] = 0.5 * ((double)wf_random_float(&random) + 1) < 0.95 ? 1e6 : 3e6;
        wf_verdict_t verdict = judge("p95<=2ms", runs, 400, 0);
        met += verdict == WF_VERDICT_MET;
        not_met += verdict == WF_VERDICT_NOT_MET;
    }
    /* 5 % and three standard errors. */
    assert_true((double)met <= 0.05 * (double)trials + 3 * sqrt(0.0475 * (double)trials));
    assert_true((double)not_met <= 0.05 * (double)trials + 3 * sqrt(0.0475 * (double)trials));
}

static void objectives(void **state)
{
    (void)state;
    wf_objective_t o;
    wf_assert_ok(wf_objective_parse("latency", &o));
    assert_true(o.latency == 1 && o.memory == 0);
    wf_assert_ok(wf_objective_parse("latency=3,memory=1", &o));
    assert_true(o.latency == 0.75 && o.memory == 0.25);
    assert_true(fabs(wf_objective_log(&o, -0.1, 0.2) - (-0.075 + 0.05)) < 1e-12);
    wf_assert_fails(wf_objective_parse("speed", &o), USAGE);
    wf_assert_fails(wf_objective_parse("latency=0", &o), USAGE);
    wf_assert_fails(wf_objective_parse("latency=x", &o), USAGE);
    wf_assert_fails(wf_objective_parse("", &o), USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_read),
        cmocka_unit_test(mistakes_are_usage_errors),
        cmocka_unit_test(binomial_is_exact),
        cmocka_unit_test(verdicts_of_known_samples),
        cmocka_unit_test(verdicts_keep_their_confidence),
        cmocka_unit_test(objectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
