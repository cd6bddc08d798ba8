/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's decision, by thousands of simulated gates under the noise that machines show: drift that hits
 * both engines, luck with memory per round, heavy tails, a core that changes its speed. */
#include "gate/rule.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/random.h"

enum { BLOCKS = 8 };

/* What a simulated machine does; shares and log ratios. */
typedef struct machine {
    const char *name;
    double sd;         /* of a block's log ratio */
    double round_sd;   /* memory luck, per round */
    double drift_sd;   /* stationary, of both engines together, AR(1) per sample */
    double outliers;   /* share of samples hit by something, once to four times as long */
    double phase_jump; /* log factor of a slow core, entered and left at random; 0: none */
} machine_t;

static const machine_t machines[] = {
    {"quiet", 0.007, 0.002, 0.01, 0.01, 0},      {"virtual, two cores", 0.02, 0.005, 0.02, 0.03, 0},
    {"heavy tails", 0.02, 0.005, 0.02, 0.1, 0},  {"bimodal core", 0.02, 0.005, 0.02, 0.03, 0.9},
    {"memory luck", 0.01, 0.012, 0.02, 0.03, 0},
};

static double uniform(wf_random_t *random)
{
    return (double)(wf_random_u64(random) >> 11) * 0x1p-53;
}

static double normal(wf_random_t *random)
{
    double radius = sqrt(-2 * log(1 - uniform(random)));
    return radius * cos(2 * acos(-1.0) * uniform(random));
}

typedef struct state {
    double drift;
    bool slow;
} state_t;

/* Log time of one sample. */
static double sample(const machine_t *m, double level, state_t *state, wf_random_t *random)
{
    state->drift = 0.95 * state->drift + sqrt(1 - 0.95 * 0.95) * m->drift_sd * normal(random);
    if (m->phase_jump > 0 && uniform(random) < 0.03)
        state->slow = !state->slow;
    double value = level + state->drift + m->sd / sqrt(2) * normal(random);
    if (state->slow)
        value += m->phase_jump;
    if (uniform(random) < m->outliers)
        value += 2 * log(2) * uniform(random);
    return value;
}

static double round_value(const machine_t *m, double effect, state_t *state, wf_random_t *random)
{
    double ratios[BLOCKS], luck = m->round_sd * normal(random);
    for (int b = 0; b < BLOCKS; b++) {
        bool first = (wf_random_u64(random) & 1) != 0;
        double one = sample(m, first ? effect + luck : 0, state, random);
        double two = sample(m, first ? 0 : effect + luck, state, random);
        ratios[b] = first ? one - two : two - one;
    }
    return wf_stats_median(ratios, BLOCKS);
}

typedef struct tally {
    int counts[WF_RULE_INCONCLUSIVE + 1];
    double rounds;
} tally_t;

static tally_t simulate(const machine_t *m, double ratio, int gates, wf_random_t *random)
{
    tally_t tally = {{0}, 0};
    for (int g = 0; g < gates; g++) {
        wf_rule_t rule;
        state_t state = {0};
        wf_rule_init(&rule, 0.02, 0.01);
        while (wf_rule_add(&rule, round_value(m, log(ratio), &state, random)) == WF_RULE_OPEN)
            tally.rounds += 1;
        tally.counts[rule.verdict]++;
    }
    tally.rounds /= gates;
    return tally;
}

static void say(const machine_t *m, double ratio, const tally_t *t)
{
    print_message("%-20s ratio %.3f: passed %d, improved %d, regressed %d, inconclusive %d; %.1f rounds\n",
                  m->name, ratio, t->counts[WF_RULE_PASSED], t->counts[WF_RULE_IMPROVED],
                  t->counts[WF_RULE_REGRESSED], t->counts[WF_RULE_INCONCLUSIVE], t->rounds);
}

/* At most one in a hundred is asked for; none in a thousand is what the rule gives. */
static void equal_engines_are_not_called_slower(void **unused)
{
    wf_random_t random = wf_random_start("equal", 11);
    (void)unused;
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        tally_t t = simulate(&machines[m], 1, 1000, &random);
        say(&machines[m], 1, &t);
        assert_true(t.counts[WF_RULE_REGRESSED] <= 1);
        assert_true(t.counts[WF_RULE_IMPROVED] <= 1);
        assert_true(t.counts[WF_RULE_PASSED] >= 980);
    }
}

static void slower_by_the_effect_is_found(void **unused)
{
    wf_random_t random = wf_random_start("effect", 12);
    (void)unused;
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        tally_t t = simulate(&machines[m], 1.02, 1000, &random);
        say(&machines[m], 1.02, &t);
        assert_true(t.counts[WF_RULE_REGRESSED] >= 950);
        assert_true(t.counts[WF_RULE_PASSED] + t.counts[WF_RULE_IMPROVED] <= 10);
    }
}

static void slower_by_five_percent_is_always_found(void **unused)
{
    wf_random_t random = wf_random_start("five", 13);
    (void)unused;
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        tally_t t = simulate(&machines[m], 1.05, 1000, &random);
        say(&machines[m], 1.05, &t);
        assert_int_equal(t.counts[WF_RULE_REGRESSED], 1000);
    }
}

static void faster_passes(void **unused)
{
    wf_random_t random = wf_random_start("faster", 14);
    (void)unused;
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        tally_t t = simulate(&machines[m], 0.95, 500, &random);
        say(&machines[m], 0.95, &t);
        assert_int_equal(t.counts[WF_RULE_PASSED] + t.counts[WF_RULE_IMPROVED], 500);
        assert_true(t.counts[WF_RULE_IMPROVED] >= 250);
    }
}

/* 95 % intervals cover 93 to 97 % of the time, for normal rounds. */
static void intervals_cover(void **unused)
{
    wf_random_t random = wf_random_start("cover", 15);
    static const size_t counts[] = {6, 10, 19, 50};
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        int covered = 0;
        for (int i = 0; i < 4000; i++) {
            double values[50];
            for (size_t v = 0; v < counts[c]; v++)
                values[v] = 0.3 + normal(&random);
            wf_interval_t interval = wf_rule_interval(values, counts[c], 0.95);
            covered += interval.low < 0.3 && interval.high > 0.3;
        }
        print_message("%zu rounds: %.1f %%\n", counts[c], covered / 40.0);
        assert_in_range(covered, 3720, 3880);
    }
}

static void interval_of_few_and_of_known_values(void **unused)
{
    (void)unused;
    double one = 3, flat[8] = {2, 2, 2, 2, 2, 2, 2, 2}, spread[4] = {1, 2, 3, 4};
    assert_true(isinf(wf_rule_interval(NULL, 0, 0.95).high) && isinf(wf_rule_interval(&one, 1, 0.95).low));
    wf_interval_t i = wf_rule_interval(flat, 8, 0.95);
    assert_true(i.low == 2 && i.high == 2 && i.centre == 2);
    i = wf_rule_interval(spread, 4, 0.95); /* plain t: 2.5 +- 3.18245 * 1.29099 / 2 */
    assert_true(fabs(i.centre - 2.5) < 1e-12 && fabs(i.high - 4.55426) < 1e-4);
}

/* The second run stands alone: what it does not repeat is not called a regression. */
static void what_is_not_confirmed_is_inconclusive(void **unused)
{
    wf_rule_t rule;
    (void)unused;
    wf_rule_init(&rule, 0.02, 0.01);
    for (int i = 0; i < 10; i++)
        assert_int_equal(wf_rule_add(&rule, 0.05 + 0.0001 * i), WF_RULE_OPEN);
    assert_true(rule.confirming);
    for (int i = 0; i < 9; i++)
        assert_int_equal(wf_rule_add(&rule, 0.0001 * i), WF_RULE_OPEN);
    assert_int_equal(wf_rule_add(&rule, 0), WF_RULE_INCONCLUSIVE);
    assert_int_equal(wf_rule_add(&rule, 0.1), WF_RULE_INCONCLUSIVE);
    wf_rule_init(&rule, 0.02, 0.01);
    for (int i = 0; i < 15; i++)
        (void)wf_rule_add(&rule, 0.05 + 0.0001 * i);
    assert_int_equal(wf_rule_finish(&rule), WF_RULE_INCONCLUSIVE); /* five rounds confirm nothing */
    wf_rule_init(&rule, 0.02, 0.01);
    for (int i = 0; i < 16; i++)
        (void)wf_rule_add(&rule, 0.05 + 0.0001 * i);
    assert_int_equal(wf_rule_finish(&rule), WF_RULE_REGRESSED);
}

static void noise_without_end_is_inconclusive(void **unused)
{
    wf_rule_t rule;
    (void)unused;
    wf_rule_init(&rule, 0.02, 0.01);
    for (unsigned i = 0; i + 1 < WF_RULE_ROUNDS_MAX; i++)
        assert_int_equal(wf_rule_add(&rule, i % 2 == 0 ? 0.5 : -0.5), WF_RULE_OPEN);
    assert_int_equal(wf_rule_add(&rule, 0), WF_RULE_INCONCLUSIVE);
    wf_rule_init(&rule, 0.02, 0.01);
    assert_int_equal(wf_rule_finish(&rule), WF_RULE_INCONCLUSIVE);
    assert_string_equal(wf_rule_verdict_name(rule.verdict), "inconclusive");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_engines_are_not_called_slower),
        cmocka_unit_test(slower_by_the_effect_is_found),
        cmocka_unit_test(slower_by_five_percent_is_always_found),
        cmocka_unit_test(faster_passes),
        cmocka_unit_test(intervals_cover),
        cmocka_unit_test(interval_of_few_and_of_known_values),
        cmocka_unit_test(what_is_not_confirmed_is_inconclusive),
        cmocka_unit_test(noise_without_end_is_inconclusive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
