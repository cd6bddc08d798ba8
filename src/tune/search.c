/* SPDX-License-Identifier: Apache-2.0 */
/* Search: enumerations. */
#include "tune/search.h"

#include <math.h>
#include <string.h>

wf_status_t wf_search_init(wf_search_t *search, size_t factor_count, const uint32_t *value_counts,
                           wf_search_measure_fn *measure, void *self, uint64_t seed, wf_allocator_t allocator)
{
    *search = (wf_search_t){.allocator = allocator,
                            .factor_count = factor_count,
                            .value_counts = value_counts,
                            .measure = measure,
                            .self = self,
                            .rng = {seed}};
    return wf_alloc(allocator, factor_count, 1, &search->best);
}

void wf_search_deinit(wf_search_t *search)
{
    wf_free(search->allocator, search->best, search->factor_count, 1);
    search->best = NULL;
}

/* ---- A queue of trials that are measured block by block ---- */

typedef struct batch {
    wf_search_t *search;
    uint8_t *values; /* WF_SEARCH_BLOCK_MAX assignments */
    const uint8_t *rows[WF_SEARCH_BLOCK_MAX];
    size_t tags[WF_SEARCH_BLOCK_MAX]; /* the caller's */
    size_t count;
    double *tag_logs; /* best per tag; NULL: not wanted */
} batch_t;

static wf_status_t batch_init(batch_t *batch, wf_search_t *search)
{
    *batch = (batch_t){.search = search};
    WF_TRY(wf_alloc(search->allocator, WF_SEARCH_BLOCK_MAX * search->factor_count, 1, &batch->values));
    for (size_t i = 0; i < WF_SEARCH_BLOCK_MAX; i++)
        batch->rows[i] = batch->values + i * search->factor_count;
    return WF_OK;
}

static void batch_deinit(batch_t *batch)
{
    wf_search_t *search = batch->search;
    wf_free(search->allocator, batch->values, WF_SEARCH_BLOCK_MAX * search->factor_count, 1);
}

static wf_status_t batch_flush(batch_t *batch)
{
    wf_search_t *search = batch->search;
    double logs[WF_SEARCH_BLOCK_MAX];
    if (batch->count == 0 || search->over)
        return WF_OK;
    for (size_t i = 0; i < batch->count; i++)
        logs[i] = NAN;
    WF_TRY(search->measure(search->self, batch->rows, batch->count, true, logs, &search->over));
    for (size_t i = 0; i < batch->count; i++) {
        if (!isfinite(logs[i]))
            continue;
        search->trial_count++;
        if (batch->tag_logs != NULL)
            batch->tag_logs[batch->tags[i]] = fmin(batch->tag_logs[batch->tags[i]], logs[i]);
        if (logs[i] < search->best_log) {
            search->best_log = logs[i];
            memcpy(search->best, batch->rows[i], search->factor_count);
        }
    }
    batch->count = 0;
    if (search->trial_limit != 0 && search->trial_count >= search->trial_limit)
        search->over = true;
    return WF_OK;
}

/* Adds a copy of an assignment; measures when a block is full or the limit would be passed. */
static wf_status_t batch_add(batch_t *batch, const uint8_t *assignment, size_t tag)
{
    wf_search_t *search = batch->search;
    size_t most = WF_SEARCH_BLOCK_MAX;
    if (search->trial_limit != 0)
        most = (size_t)fmin((double)most, (double)(search->trial_limit - search->trial_count));
    memcpy(batch->values + batch->count * search->factor_count, assignment, search->factor_count);
    batch->tags[batch->count++] = tag;
    return batch->count >= most ? batch_flush(batch) : WF_OK;
}

/* ---- One at a time ---- */

size_t wf_search_fast_trials(size_t factor_count, const uint32_t *value_counts)
{
    size_t count = 0;
    for (size_t f = 0; f < factor_count; f++)
        count += value_counts[f] - 1;
    return count;
}

/* factor_logs (may be NULL): the best change of each factor; 0 when none was faster. */
static wf_status_t single_changes(wf_search_t *search, double *factor_logs)
{
    batch_t batch;
    uint8_t *assignment = NULL;
    WF_TRY(batch_init(&batch, search));
    batch.tag_logs = factor_logs;
    wf_status_t status = wf_alloc(search->allocator, search->factor_count, 1, &assignment);
    for (size_t f = search->factor_count; status == WF_OK && f-- > 0;) {
        for (uint32_t v = 1; status == WF_OK && !search->over && v < search->value_counts[f]; v++) {
            assignment[f] = (uint8_t)v;
            status = batch_add(&batch, assignment, f);
        }
        assignment[f] = 0;
    }
    if (status == WF_OK)
        status = batch_flush(&batch);
    wf_free(search->allocator, assignment, search->factor_count, 1);
    batch_deinit(&batch);
    return status;
}

wf_status_t wf_search_fast(wf_search_t *search)
{
    return single_changes(search, NULL);
}

/* ---- Products ---- */

size_t wf_search_full_trials(size_t factor_count, const uint32_t *value_counts)
{
    size_t count = 1;
    for (size_t f = 0; f < factor_count; f++) {
        if (count > SIZE_MAX / value_counts[f])
            return SIZE_MAX;
        count *= value_counts[f];
    }
    return count - 1;
}

/* Mixed radix over the factors in `used`, the last running fastest; the default itself is left out. */
static wf_status_t product(wf_search_t *search, const bool *used)
{
    batch_t batch;
    uint8_t *assignment = NULL;
    WF_TRY(batch_init(&batch, search));
    wf_status_t status = wf_alloc(search->allocator, search->factor_count, 1, &assignment);
    for (bool more = true; status == WF_OK && more && !search->over;) {
        more = false;
        for (size_t f = search->factor_count; f-- > 0 && !more;) {
            if (!used[f])
                continue;
            assignment[f] = (uint8_t)(assignment[f] + 1u < search->value_counts[f] ? assignment[f] + 1u : 0);
            more = assignment[f] != 0;
        }
        if (more)
            status = batch_add(&batch, assignment, 0);
    }
    if (status == WF_OK)
        status = batch_flush(&batch);
    wf_free(search->allocator, assignment, search->factor_count, 1);
    batch_deinit(&batch);
    return status;
}

wf_status_t wf_search_full(wf_search_t *search)
{
    bool *used = NULL;
    WF_TRY(wf_alloc(search->allocator, search->factor_count, sizeof *used, &used));
    for (size_t f = 0; f < search->factor_count; f++)
        used[f] = true;
    wf_status_t status = product(search, used);
    wf_free(search->allocator, used, search->factor_count, sizeof *used);
    return status;
}

wf_status_t wf_search_mixed(wf_search_t *search)
{
    double *logs = NULL;
    bool *used = NULL;
    size_t winners = 0;
    WF_TRY(wf_alloc(search->allocator, search->factor_count, sizeof *logs, &logs));
    wf_status_t status = wf_alloc(search->allocator, search->factor_count, sizeof *used, &used);
    if (status == WF_OK)
        status = single_changes(search, logs);
    for (size_t f = 0; status == WF_OK && f < search->factor_count; f++) {
        used[f] = logs[f] < 0;
        winners += used[f];
    }
    if (status == WF_OK && winners > 1 && !search->over)
        status = product(search, used);
    wf_free(search->allocator, used, search->factor_count, sizeof *used);
    wf_free(search->allocator, logs, search->factor_count, sizeof *logs);
    return status;
}

/* ---- Random ---- */

wf_status_t wf_search_random(wf_search_t *search)
{
    /* A space that was drawn from often enough: the coupon collector's mean and some. */
    size_t all = wf_search_full_trials(search->factor_count, search->value_counts);
    double enough = all < 100000 ? (double)all * (log((double)all + 1) + 3) : (double)INFINITY;
    batch_t batch;
    uint8_t *assignment = NULL;
    WF_TRY(batch_init(&batch, search));
    wf_status_t status = wf_alloc(search->allocator, search->factor_count, 1, &assignment);
    for (double drawn = 0; status == WF_OK && !search->over && drawn < enough; drawn++) {
        for (size_t f = 0; f < search->factor_count; f++)
            assignment[f] = (uint8_t)wf_rng_below(&search->rng, search->value_counts[f]);
        status = batch_add(&batch, assignment, 0);
    }
    if (status == WF_OK)
        status = batch_flush(&batch);
    wf_free(search->allocator, assignment, search->factor_count, 1);
    batch_deinit(&batch);
    return status;
}
