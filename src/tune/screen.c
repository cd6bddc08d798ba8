/* SPDX-License-Identifier: Apache-2.0 */
/* Search: factorial screening. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "tune/search.h"

/* How many measurements the A/A spread is worth beside the residuals of the fit: those are few. */
#define PRIOR_WEIGHT 8.0
/* Huber's weight function: differences further away than this many MADs weigh less. */
#define HUBER_LIMIT 1.5
#define HUBER_ROUNDS 3
/* With fewer pairs than factors effects are pulled to 0 as if they were of this size. */
#define EFFECT_SD 0.01
#define HALVINGS_MAX 3u

size_t wf_screen_rows(size_t factor_count)
{
    size_t rows = 2;
    while (rows <= factor_count)
        rows *= 2;
    return rows;
}

bool wf_screen_on(size_t row, size_t factor)
{
    size_t bits = row & (factor + 1);
    bool on = false;
    for (; bits != 0; bits &= bits - 1)
        on = !on;
    return on;
}

/* ---- Effects ---- */

typedef struct fit {
    size_t factor_count, pair_count;
    const size_t *rows;
    const double *differences;
    double weights_sum;
    double *weights, *residuals, *scratch; /* per pair */
    double *matrix, *inverse;              /* factors x factors */
    double *right, *solution;
} fit_t;

static double sign(const fit_t *fit, size_t pair, size_t factor)
{
    return wf_screen_on(fit->rows[pair], factor) ? 1 : -1;
}

/* Inverse of a symmetric positive definite matrix, in place through its Cholesky factor. False: it is none.
 */
static bool invert(double *a, double *out, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        for (size_t i = j; i < n; i++) {
            double sum = a[i * n + j];
            for (size_t k = 0; k < j; k++)
                sum -= a[i * n + k] * a[j * n + k];
            if (i == j) {
                if (!(sum > 1e-12))
                    return false;
                a[j * n + j] = sqrt(sum);
            } else {
                a[i * n + j] = sum / a[j * n + j];
            }
        }
    }
    for (size_t c = 0; c < n; c++) {
        double *x = &out[c * n];
        for (size_t i = 0; i < n; i++) {
            double sum = i == c;
            for (size_t k = 0; k < i; k++)
                sum -= a[i * n + k] * x[k];
            x[i] = sum / a[i * n + i];
        }
        for (size_t i = n; i-- > 0;) {
            double sum = x[i];
            for (size_t k = i + 1; k < n; k++)
                sum -= a[k * n + i] * x[k];
            x[i] = sum / a[i * n + i];
        }
    }
    return true;
}

/* Weighted least squares with a ridge; fills solution, inverse, residuals. */
static bool solve(fit_t *fit, double ridge)
{
    size_t n = fit->factor_count;
    memset(fit->matrix, 0, n * n * sizeof *fit->matrix);
    memset(fit->right, 0, n * sizeof *fit->right);
    fit->weights_sum = 0;
    for (size_t p = 0; p < fit->pair_count; p++) {
        double weight = fit->weights[p];
        fit->weights_sum += weight;
        for (size_t i = 0; i < n; i++) {
            double s = weight * sign(fit, p, i);
            fit->right[i] += s * fit->differences[p];
            for (size_t j = 0; j <= i; j++)
                fit->matrix[i * n + j] += s * sign(fit, p, j);
        }
    }
    for (size_t i = 0; i < n; i++)
        fit->matrix[i * n + i] += ridge;
    if (!invert(fit->matrix, fit->inverse, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        fit->solution[i] = 0;
        for (size_t j = 0; j < n; j++)
            fit->solution[i] += fit->inverse[i * n + j] * fit->right[j];
    }
    for (size_t p = 0; p < fit->pair_count; p++) {
        double value = fit->differences[p];
        for (size_t i = 0; i < n; i++)
            value -= sign(fit, p, i) * fit->solution[i];
        fit->residuals[p] = value;
    }
    return true;
}

static void reweigh(fit_t *fit, double prior_sd)
{
    memcpy(fit->scratch, fit->residuals, fit->pair_count * sizeof *fit->scratch);
    double limit = HUBER_LIMIT * fmax(wf_stats_mad(fit->scratch, fit->pair_count), prior_sd);
    for (size_t p = 0; p < fit->pair_count; p++) {
        double distance = fabs(fit->residuals[p]);
        fit->weights[p] = distance > limit && distance > 0 ? limit / distance : 1;
    }
}

/* Variance of a difference: residuals and what is known of the noise. */
static double difference_variance(const fit_t *fit, double prior_sd)
{
    double sum = 0, degrees = fit->weights_sum - (double)fit->factor_count;
    for (size_t p = 0; p < fit->pair_count; p++)
        sum += fit->weights[p] * fit->residuals[p] * fit->residuals[p];
    if (degrees < 1)
        return prior_sd > 0 ? prior_sd * prior_sd : EFFECT_SD * EFFECT_SD;
    if (prior_sd <= 0)
        return sum / degrees;
    return (PRIOR_WEIGHT * prior_sd * prior_sd + sum) / (PRIOR_WEIGHT + degrees);
}

static void shrink(wf_effect_t *effects, size_t count)
{
    double mean = 0, variance = 0, noise = 0;
    for (size_t i = 0; i < count; i++)
        mean += effects[i].log_ratio / (double)count;
    for (size_t i = 0; i < count; i++) {
        variance += (effects[i].log_ratio - mean) * (effects[i].log_ratio - mean);
        noise += effects[i].se * effects[i].se / (double)count;
    }
    variance = count > 1 ? variance / (double)(count - 1) : variance;
    /* The second moment, mean included: effects are pulled to "no difference", not to each other. */
    double signal = fmax(variance + mean * mean - noise, 0);
    for (size_t i = 0; i < count; i++) {
        double total = signal + effects[i].se * effects[i].se;
        effects[i].shrunk = total > 0 ? effects[i].log_ratio * signal / total : 0;
    }
}

static wf_status_t fit_run(fit_t *fit, double prior_sd, wf_effect_t *out_effects)
{
    size_t n = fit->factor_count;
    double ridge = 1e-9;
    for (size_t p = 0; p < fit->pair_count; p++)
        fit->weights[p] = 1;
    if (fit->pair_count < n + 2 && prior_sd > 0)
        ridge = pow(prior_sd / EFFECT_SD, 2);
    if (!solve(fit, ridge)) {
        ridge = fmax(pow(prior_sd / EFFECT_SD, 2), 1e-3);
        if (!solve(fit, ridge))
            return WF_ERROR(INTERNAL, "effects cannot be solved for");
    }
    for (int round = 0; round < HUBER_ROUNDS && fit->pair_count >= n + 2; round++) {
        reweigh(fit, prior_sd);
        if (!solve(fit, ridge))
            break;
    }
    double variance = difference_variance(fit, prior_sd);
    for (size_t i = 0; i < n; i++)
        out_effects[i] = (wf_effect_t){fit->solution[i], sqrt(variance * fit->inverse[i * n + i]), 0};
    shrink(out_effects, n);
    return WF_OK;
}

wf_status_t wf_screen_effects(size_t factor_count, const size_t *rows, const double *differences,
                              size_t pair_count, double prior_sd, wf_allocator_t allocator,
                              wf_effect_t *out_effects)
{
    wf_arena_t arena;
    fit_t fit = {
        .factor_count = factor_count, .pair_count = pair_count, .rows = rows, .differences = differences};
    wf_arena_init(&arena, allocator);
    wf_status_t status = WF_OK;
    struct {
        double **at;
        size_t count;
    } arrays[] = {{&fit.weights, pair_count},   {&fit.residuals, pair_count},
                  {&fit.scratch, pair_count},   {&fit.matrix, factor_count * factor_count},
                  {&fit.right, factor_count},   {&fit.inverse, factor_count * factor_count},
                  {&fit.solution, factor_count}};
    for (size_t i = 0; status == WF_OK && i < WF_COUNT_OF(arrays); i++)
        status = wf_arena_alloc(&arena, arrays[i].count, sizeof(double), arrays[i].at);
    for (size_t i = 0; i < factor_count; i++)
        out_effects[i] = (wf_effect_t){0, (double)INFINITY, 0};
    if (status == WF_OK && pair_count > 0 && factor_count > 0)
        status = fit_run(&fit, prior_sd, out_effects);
    wf_arena_deinit(&arena);
    return status;
}

/* ---- Measuring the design ---- */

typedef struct screen {
    wf_search_t *search;
    wf_screen_result_t *result;
    WF_VEC(size_t) rows;
    WF_VEC(double) differences;
    uint8_t *values; /* WF_SEARCH_BLOCK_MAX assignments */
} screen_t;

static void set_row(screen_t *screen, size_t index, size_t row, bool fold)
{
    size_t n = screen->search->factor_count;
    for (size_t f = 0; f < n; f++) {
        bool on = wf_screen_on(row, f) != fold;
        screen->values[index * n + f] = on && !screen->result->failed[f];
    }
}

static wf_status_t measure_block(screen_t *screen, const size_t *rows, size_t pairs)
{
    wf_search_t *search = screen->search;
    const uint8_t *assignments[WF_SEARCH_BLOCK_MAX];
    double logs[WF_SEARCH_BLOCK_MAX];
    for (size_t i = 0; i < 2 * pairs; i++) {
        set_row(screen, i, rows[i / 2], i % 2 == 1);
        assignments[i] = screen->values + i * search->factor_count;
        logs[i] = NAN;
    }
    WF_TRY(search->measure(search->self, assignments, 2 * pairs, false, logs, &search->over));
    for (size_t p = 0; p < pairs; p++) {
        double difference = logs[2 * p] - logs[2 * p + 1];
        if (!isfinite(difference))
            continue;
        search->trial_count += 2;
        WF_TRY(wf_vec_push(search->allocator, &screen->rows, &rows[p]));
        WF_TRY(wf_vec_push(search->allocator, &screen->differences, &difference));
    }
    if (search->trial_limit != 0 && search->trial_count + 2 > search->trial_limit)
        search->over = true;
    return WF_OK;
}

static wf_status_t measure_design(screen_t *screen, size_t pairs_wanted)
{
    wf_search_t *search = screen->search;
    uint32_t order[2 * (WF_SCREEN_FACTORS_MAX + 1)];
    size_t rows = wf_screen_rows(search->factor_count), failures = 0;
    while (!search->over && screen->differences.count < WF_MAX(pairs_wanted, rows) && failures < rows) {
        wf_rng_shuffle(&search->rng, order, rows);
        for (size_t r = 0; r < rows && !search->over; r += WF_SEARCH_BLOCK_MAX / 2) {
            size_t block[WF_SEARCH_BLOCK_MAX / 2];
            size_t pairs = WF_MIN((size_t)WF_SEARCH_BLOCK_MAX / 2, rows - r);
            size_t before = screen->differences.count;
            if (search->trial_limit != 0)
                pairs = WF_MIN(pairs, (search->trial_limit - search->trial_count) / 2);
            for (size_t p = 0; p < pairs; p++)
                block[p] = order[r + p];
            WF_TRY(measure_block(screen, block, pairs));
            failures += screen->differences.count == before;
        }
    }
    screen->result->pair_count = screen->differences.count;
    return WF_OK;
}

static double explained(const screen_t *screen)
{
    double total = 0, rest = 0;
    for (size_t p = 0; p < screen->differences.count; p++) {
        double value = screen->differences.items[p], left = value;
        for (size_t f = 0; f < screen->search->factor_count; f++) {
            double effect = screen->result->effects[f].log_ratio;
            left -= wf_screen_on(screen->rows.items[p], f) ? effect : -effect;
        }
        total += value * value;
        rest += left * left;
    }
    return total > 0 ? fmax(1 - rest / total, 0) : 0;
}

/* ---- The accepted set against nothing ---- */

static wf_status_t compare_set(screen_t *screen, size_t blocks, double *out_log)
{
    wf_search_t *search = screen->search;
    uint8_t *values = screen->values;
    const uint8_t *assignments[1] = {values};
    double sum[64];
    size_t count = 0;
    for (size_t f = 0; f < search->factor_count; f++)
        values[f] = screen->result->on[f];
    *out_log = NAN;
    while (count < WF_MIN(blocks, WF_COUNT_OF(sum)) && !search->over) {
        double value = NAN;
        WF_TRY(search->measure(search->self, assignments, 1, true, &value, &search->over));
        search->trial_count += isfinite(value);
        if (search->trial_limit != 0 && search->trial_count >= search->trial_limit)
            search->over = true;
        if (!isfinite(value))
            break;
        sum[count++] = value;
    }
    if (count > 0)
        *out_log = wf_stats_median(sum, count);
    return WF_OK;
}

/* Keeps the surer half of what is on; false when nothing is left. */
static bool halve(const wf_search_t *search, wf_screen_result_t *result)
{
    size_t count = 0;
    for (size_t f = 0; f < search->factor_count; f++)
        count += result->on[f];
    for (size_t left = count - count / 2; left > 0; left--) {
        size_t weakest = search->factor_count;
        for (size_t f = 0; f < search->factor_count; f++) {
            const wf_effect_t *e = &result->effects[f];
            if (result->on[f] &&
                (weakest == search->factor_count ||
                 e->log_ratio / e->se > result->effects[weakest].log_ratio / result->effects[weakest].se))
                weakest = f;
        }
        result->on[weakest] = false;
    }
    return count / 2 > 0;
}

static wf_status_t polish(screen_t *screen, size_t blocks)
{
    wf_search_t *search = screen->search;
    wf_screen_result_t *result = screen->result;
    size_t accepted = 0;
    for (size_t f = 0; f < search->factor_count; f++) {
        result->on[f] = result->effects[f].shrunk < 0 && !result->failed[f];
        accepted += result->on[f];
    }
    double expected = 0;
    for (size_t f = 0; f < search->factor_count; f++)
        expected += result->on[f] ? result->effects[f].shrunk : 0;
    bool some = accepted > 0;
    for (size_t h = 0; some && blocks > 0 && h <= HALVINGS_MAX && !search->over; h++) {
        double value;
        WF_TRY(compare_set(screen, blocks, &value));
        result->polish_log = isfinite(value) ? value : 0;
        if (value < 0 || (isnan(value) && search->over))
            break;
        some = halve(search, result);
    }
    if (!some)
        memset(result->on, 0, sizeof result->on);
    for (size_t f = 0; f < search->factor_count; f++)
        search->best[f] = result->on[f];
    search->best_log = some ? (result->polish_log < 0 ? result->polish_log : expected) : 0;
    return WF_OK;
}

wf_status_t wf_search_screen(wf_search_t *search, size_t pairs_wanted, size_t polish_blocks,
                             wf_screen_result_t *out_result)
{
    assert(search->factor_count > 0 && search->factor_count <= WF_SCREEN_FACTORS_MAX);
    screen_t screen = {.search = search, .result = out_result};
    memset(out_result, 0, sizeof *out_result);
    wf_status_t status =
        wf_alloc(search->allocator, WF_SEARCH_BLOCK_MAX * search->factor_count, 1, &screen.values);
    if (status == WF_OK)
        status = measure_design(&screen, pairs_wanted);
    if (status == WF_OK) {
        status = wf_screen_effects(search->factor_count, screen.rows.items, screen.differences.items,
                                   screen.differences.count, 1.4142 * search->noise_sd, search->allocator,
                                   out_result->effects);
    }
    out_result->r2 = status == WF_OK ? explained(&screen) : 0;
    if (status == WF_OK)
        status = polish(&screen, polish_blocks);
    wf_vec_deinit(search->allocator, &screen.rows);
    wf_vec_deinit(search->allocator, &screen.differences);
    wf_free(search->allocator, screen.values, WF_SEARCH_BLOCK_MAX * search->factor_count, 1);
    return status;
}
