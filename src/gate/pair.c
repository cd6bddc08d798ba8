/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/pair.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/parallel.h"
#include "tune/canary.h"

/* A sample stands well above the clock, and is as long as a few time slices are not. */
#define SAMPLE_NS 2e6
#define RUNS_MIN 1u
/* A canary is the least of some: it tells of the clock and of neighbours, not of single interrupts. */
#define CANARY_RUNS 3
/* The canary of a block moved when those before and after it, or it and the session's typical one, differ by
 * this factor. An engine and its copy differ by 2x in such blocks and by 2 % in others (two virtual cores).
 */
#define CANARY_MOVED 1.3
#define CANARY_FAR 2.0
/* Fewer valid blocks make no round. */
#define VALID_SHARE 0.5

typedef struct side {
    wf_engine_t *engine;
    wf_arm_t *arm;
    size_t *specs; /* in the order of the first side's */
    wf_times_t samples;
} side_t;

struct wf_pair {
    wf_pair_options_t options;
    wf_allocator_t allocator;
    wf_rng_t rng;
    wf_lease_t lease;
    wf_pool_t *pool; /* of the canary */
    side_t sides[2];
    size_t spec_count;
    wf_times_t canaries, scratch;
    double block_s, load_s, waited_s;
};

/* ---- Loading ---- */

static void drop_arms(wf_pair_t *pair)
{
    for (size_t i = 0; i < 2; i++) {
        wf_arm_destroy(pair->sides[i].arm);
        pair->sides[i].arm = NULL;
    }
}

static void drop_engines(wf_pair_t *pair)
{
    drop_arms(pair);
    for (size_t i = 0; i < 2; i++) {
        side_t *side = &pair->sides[i];
        wf_engine_close(side->engine);
        side->engine = NULL;
    }
}

static wf_status_t load_engine(wf_pair_t *pair, size_t index)
{
    const wf_pair_options_t *o = &pair->options;
    wf_engine_options_t options = {.struct_bytes = sizeof options,
                                   .thread_count = o->thread_count,
                                   .isa = o->isa,
                                   .ignore_fingerprint = true, /* whoever compares has looked at it */
                                   .allocator = pair->allocator,
                                   .log = o->log};
    WF_TRY(wf_engine_open(o->paths[index], &options, &pair->sides[index].engine));
    wf_engine_facts_t facts = wf_engine_facts(pair->sides[index].engine);
    if (o->hashes[index] != NULL && strcmp(facts.content_hash, o->hashes[index]) != 0) {
        return WF_ERROR(BASELINE_MISMATCH, "%s was replaced while it was measured: it was engine %s, now %s",
                        o->paths[index], o->hashes[index], facts.content_hash);
    }
    return WF_OK;
}

/* Finds the specialisation of the second engine for each of the first's. */
static wf_status_t match_specs(wf_pair_t *pair)
{
    const wf_engine_t *a = pair->sides[0].engine, *b = pair->sides[1].engine;
    size_t inputs = wf_engine_input_count(a);
    wf_type_t *types = NULL;
    if (inputs != wf_engine_input_count(b) || wf_engine_output_count(a) != wf_engine_output_count(b))
        return WF_ERROR(BASELINE_MISMATCH, "the engines have different numbers of inputs or outputs");
    pair->spec_count = wf_engine_spec_count(a);
    for (size_t i = 0; i < 2; i++) {
        WF_TRY(wf_alloc(pair->allocator, pair->spec_count, sizeof(size_t), &pair->sides[i].specs));
    }
    WF_TRY(wf_alloc(pair->allocator, inputs, sizeof *types, &types));
    wf_status_t status = WF_OK;
    for (size_t s = 0; status == WF_OK && s < pair->spec_count; s++) {
        for (size_t i = 0; i < inputs; i++)
            types[i] = wf_engine_input(a, s, i).type;
        pair->sides[0].specs[s] = s;
        status = wf_engine_find_spec(b, types, inputs, &pair->sides[1].specs[s]);
    }
    wf_free(pair->allocator, types, inputs, sizeof *types);
    if (wf_status_code(status) == WF_CODE_INPUT_MISMATCH) {
        wf_status_t mismatch =
            WF_ERROR(BASELINE_MISMATCH, "%s was not built for the shapes of %s: %s", pair->options.paths[1],
                     pair->options.paths[0], wf_status_message(status));
        wf_status_free(status);
        return wf_status_hinted(mismatch, "build it with the same --shape");
    }
    return status;
}

static wf_status_t load_arms(wf_pair_t *pair, size_t first)
{
    for (size_t n = 0; n < 2; n++) {
        side_t *side = &pair->sides[(first + n) % 2];
        WF_TRY(wf_arm_create(side->engine, side->specs, pair->spec_count, pair->options.seed, pair->allocator,
                             &side->arm));
    }
    return WF_OK;
}

static wf_status_t load(wf_pair_t *pair, bool whole)
{
    size_t first = wf_rng_below(&pair->rng, 2);
    if (whole || pair->sides[0].engine == NULL) {
        drop_engines(pair);
        WF_TRY(load_engine(pair, first));
        WF_TRY(load_engine(pair, 1 - first));
        if (pair->sides[0].specs == NULL)
            WF_TRY(match_specs(pair));
        if (pair->pool == NULL)
            WF_TRY(wf_pool_create(wf_engine_facts(pair->sides[0].engine).thread_count, false, pair->allocator,
                                  &pair->pool));
    } else {
        drop_arms(pair);
    }
    WF_TRY(load_arms(pair, first));
    for (size_t i = 0; i < 2; i++)
        WF_TRY(wf_arm_warm(pair->sides[i].arm));
    return WF_OK;
}

/* ---- Blocks ---- */

static double canary(const wf_pair_t *pair)
{
    wf_parallel_t parallel = wf_pool_parallel(pair->pool);
    double least = INFINITY;
    wf_pool_begin(pair->pool);
    for (int i = 0; i < CANARY_RUNS; i++)
        least = fmin(least, wf_canary_run(&parallel));
    wf_pool_end(pair->pool);
    return least;
}

static wf_status_t typical_canary(wf_pair_t *pair, double *out_ns)
{
    size_t count = WF_MIN(pair->canaries.count, (size_t)101);
    const double *latest = pair->canaries.items + pair->canaries.count - count;
    pair->scratch.count = 0;
    for (size_t i = 0; i < count; i++)
        WF_TRY(wf_vec_push(pair->allocator, &pair->scratch, &latest[i]));
    *out_ns = wf_stats_median(pair->scratch.items, count);
    return WF_OK;
}

/* *out_log_ratio is NaN when the canary moved. *before_ns: the canary before, then the one after. */
static wf_status_t run_block(wf_pair_t *pair, double *before_ns, double *out_log_ratio)
{
    double ns[2], typical_ns;
    size_t first = wf_rng_below(&pair->rng, 2);
    for (size_t n = 0; n < 2; n++) {
        size_t at = (first + n) % 2;
        WF_TRY(wf_arm_sample(pair->sides[at].arm, 1, RUNS_MIN, SAMPLE_NS, NULL, &ns[at]));
    }
    double after_ns = canary(pair), most = fmax(*before_ns, after_ns), least = fmin(*before_ns, after_ns);
    *before_ns = after_ns;
    WF_TRY(wf_vec_push(pair->allocator, &pair->canaries, &most));
    WF_TRY(typical_canary(pair, &typical_ns));
    *out_log_ratio = NAN;
    if (most > CANARY_MOVED * least || most > CANARY_FAR * typical_ns)
        return WF_OK;
    for (size_t i = 0; i < 2; i++)
        WF_TRY(wf_vec_push(pair->allocator, &pair->sides[i].samples, &ns[i]));
    *out_log_ratio = log(ns[1]) - log(ns[0]);
    return WF_OK;
}

static wf_status_t run_blocks(wf_pair_t *pair, double *ratios, wf_pair_round_t *round)
{
    size_t valid = 0, wanted = round->block_count;
    double before_ns = canary(pair);
    for (size_t b = 0; b < wanted; b++) {
        double ratio;
        WF_TRY(run_block(pair, &before_ns, &ratio));
        if (isfinite(ratio))
            ratios[valid++] = ratio;
        if (pair->options.tick != NULL && pair->options.tick(pair->options.tick_self))
            return WF_ERROR(INTERRUPTED, "stopped while engines were measured");
    }
    round->void_count = wanted - valid;
    if (valid > 0 && (double)valid >= VALID_SHARE * (double)wanted)
        round->log_ratio = wf_stats_median(ratios, valid);
    return WF_OK;
}

wf_status_t wf_pair_run_round(wf_pair_t *pair, size_t block_count, bool whole, wf_pair_round_t *out_round)
{
    double *ratios = NULL;
    bool waited;
    *out_round = (wf_pair_round_t){.log_ratio = NAN, .block_count = block_count};
    WF_TRY(wf_alloc(pair->allocator, block_count, sizeof *ratios, &ratios));
    uint64_t before_ns = wf_clock_ns();
    wf_status_t status = wf_lease_take(&pair->lease, 0, pair->options.tick, pair->options.tick_self, &waited);
    pair->waited_s += 1e-9 * (double)(wf_clock_ns() - before_ns);
    if (status == WF_OK) {
        status = load(pair, whole);
        if (status == WF_OK)
            status = run_blocks(pair, ratios, out_round);
        wf_lease_give(&pair->lease);
    }
    wf_free(pair->allocator, ratios, block_count, sizeof *ratios);
    return status;
}

/* ---- Opening ---- */

/* The first load pays for reading the files; the second is the one that counts. */
static wf_status_t first_look(wf_pair_t *pair)
{
    wf_pair_round_t round;
    WF_TRY(wf_pair_run_round(pair, 1, true, &round));
    uint64_t start_ns = wf_clock_ns();
    WF_TRY(load(pair, true));
    pair->load_s = 1e-9 * (double)(wf_clock_ns() - start_ns);
    double ratio, before_ns = canary(pair);
    start_ns = wf_clock_ns();
    WF_TRY(run_block(pair, &before_ns, &ratio));
    pair->block_s = 1e-9 * (double)(wf_clock_ns() - start_ns);
    return WF_OK;
}

wf_status_t wf_pair_open(const wf_pair_options_t *options, wf_pair_t **out_pair)
{
    wf_pair_t *pair = NULL;
    *out_pair = NULL;
    WF_TRY(wf_alloc(options->allocator, 1, sizeof *pair, &pair));
    pair->options = *options;
    pair->allocator = options->allocator;
    pair->rng.state = options->seed;
    pair->lease = wf_lease_open(NULL);
    wf_status_t status = first_look(pair);
    if (status == WF_OK)
        *out_pair = pair;
    else
        wf_pair_close(pair);
    return status;
}

void wf_pair_close(wf_pair_t *pair)
{
    if (pair == NULL)
        return;
    drop_engines(pair);
    wf_pool_destroy(pair->pool);
    wf_lease_close(&pair->lease);
    for (size_t i = 0; i < 2; i++) {
        wf_free(pair->allocator, pair->sides[i].specs, pair->spec_count, sizeof(size_t));
        wf_vec_deinit(pair->allocator, &pair->sides[i].samples);
    }
    wf_vec_deinit(pair->allocator, &pair->canaries);
    wf_vec_deinit(pair->allocator, &pair->scratch);
    wf_free(pair->allocator, pair, 1, sizeof *pair);
}

double wf_pair_block_s(const wf_pair_t *pair)
{
    return pair->block_s;
}

double wf_pair_load_s(const wf_pair_t *pair)
{
    return pair->load_s;
}

double wf_pair_waited_s(const wf_pair_t *pair)
{
    return pair->waited_s;
}

const wf_times_t *wf_pair_samples(const wf_pair_t *pair, size_t side)
{
    return &pair->sides[side].samples;
}

const wf_times_t *wf_pair_canaries(const wf_pair_t *pair)
{
    return &pair->canaries;
}

const wf_engine_t *wf_pair_engine(const wf_pair_t *pair, size_t side)
{
    return pair->sides[side].engine;
}

wf_arm_t *wf_pair_arm(const wf_pair_t *pair, size_t side)
{
    return pair->sides[side].arm;
}
