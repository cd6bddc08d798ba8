/* SPDX-License-Identifier: Apache-2.0 */
/* wf_advise: estimates of the default route, and what recorded tunings promise. */
#include "wayfinder/advise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/options.h"
#include "base/compiler.h"
#include "base/file.h"
#include "tune/likeness.h"
#include "tune/lock.h"

#define DEFAULT_BUDGET_S 120.0
#define RECORD_MAX_BYTES ((size_t)1 << 30)

typedef struct advice {
    wf_advise_options_t options;
    wf_allocator_t allocator;
    char *lock; /* of the default route; allocator's, lock_bytes + 1 */
    size_t lock_bytes;
    char *device;
    size_t device_bytes;
    double estimate_ns, bound_ns; /* 0: not known */
    double recorded_ratio;        /* of the record itself; 0: none */
    wf_expectation_t expectation;
    bool database_there;
} advice_t;

static wf_status_t copy(wf_allocator_t allocator, const char *text, size_t length, char **out,
                        size_t *out_bytes)
{
    WF_TRY(wf_alloc(allocator, length + 1, 1, out));
    memcpy(*out, text, length);
    (*out)[length] = '\0';
    *out_bytes = length;
    return WF_OK;
}

/* ---- from a model ---- */

/* Roofline (Williams, Waterman, Patterson 2009): no step is faster than its arithmetic at the peak of all
 * threads, nor than its operands once through the last level cache. */
static double bound_of(const wf_job_t *job, const wf_space_t *space, const wf_route_t *route)
{
    double ns = 0, peak = job->cpu.f32_flops_per_ns * job->cpu.thread_count;
    for (size_t i = 0; i < route->count; i++) {
        const wf_group_t *group = &space->groups.items[route->items[i].group];
        const wf_space_problem_t *entry = &space->problems.items[group->problem];
        if (entry->choices.items[route->items[i].choice].needs.is_view)
            continue;
        double work_ns = peak > 0 ? wf_problem_flops(entry->problem) / peak : 0;
        double move_ns = job->cpu.l3_bytes_per_ns > 0 ? wf_problem_bytes(entry->problem) /
                                                            (job->cpu.l3_bytes_per_ns * job->cpu.thread_count)
                                                      : 0;
        ns += fmax(work_ns, move_ns);
    }
    return ns;
}

static wf_status_t from_job(advice_t *advice, wf_job_t *job)
{
    wf_route_t *routes = NULL;
    wf_text_t lock;
    WF_TRY(wf_job_solve(job, &routes));
    wf_text_init(&lock, advice->allocator, UINT32_MAX);
    for (size_t i = 0; i < job->part_count; i++) {
        advice->estimate_ns += routes[i].cost_ns;
        advice->bound_ns += bound_of(job, job->parts[i].space, &routes[i]);
    }
    wf_status_t status = wf_job_lock(job, NULL, routes, "", &lock);
    if (status == WF_OK)
        status =
            copy(advice->allocator, wf_text_cstr(&lock), lock.length, &advice->lock, &advice->lock_bytes);
    if (status == WF_OK)
        status = copy(advice->allocator, job->fingerprint, strlen(job->fingerprint), &advice->device,
                      &advice->device_bytes);
    wf_text_deinit(&lock);
    wf_job_routes_free(job, routes);
    return status;
}

static wf_status_t from_model(advice_t *advice, const wf_model_t *model)
{
    wf_job_t *job = NULL;
    WF_TRY(wf_api_job(model, &advice->options.build, &job));
    wf_status_t status = from_job(advice, job);
    wf_job_destroy(job);
    return status;
}

/* ---- from a record ---- */

static wf_status_t from_record(advice_t *advice, const char *path)
{
    char *text;
    size_t bytes;
    WF_TRY(wf_file_read(path, RECORD_MAX_BYTES, advice->allocator, &text, &bytes));
    json_t *header = json_loadb(text, strcspn(text, "\n"), 0, NULL);
    const char *lock = json_string_value(json_object_get(header, "default_build_route"));
    const char *device = json_string_value(json_object_get(header, "device"));
    wf_status_t status = WF_OK;
    if (lock == NULL || device == NULL || wf_lock_field(lock, "model").data == NULL) {
        status = WF_ERROR(RECORD_MISMATCH, "%s is no record of a tuning", path);
    } else {
        const char *quota = strstr(device, " quota_milli=");
        size_t device_bytes =
            quota != NULL ? (size_t)(quota + 1 - device) + strcspn(quota + 1, " ") : strlen(device);
        status = copy(advice->allocator, lock, strlen(lock), &advice->lock, &advice->lock_bytes);
        if (status == WF_OK)
            status = copy(advice->allocator, device, device_bytes, &advice->device, &advice->device_bytes);
    }
    for (const char *line = text; status == WF_OK && *line != '\0';) {
        size_t length = strcspn(line, "\n");
        json_t *row = json_loadb(line, length, 0, NULL);
        const char *type = json_string_value(json_object_get(row, "type"));
        if (type != NULL && strcmp(type, "end") == 0)
            advice->recorded_ratio = json_number_value(json_object_get(row, "ratio"));
        json_decref(row);
        line += length + (line[length] == '\n');
    }
    json_decref(header);
    wf_free(advice->allocator, text, bytes + 1, 1);
    return status;
}

/* ---- the answer ---- */

static wf_status_t expect(advice_t *advice)
{
    char path[4096] = "";
    wf_database_t *database = NULL;
    if (advice->options.timing_cache != NULL)
        (void)snprintf(path, sizeof path, "%s", advice->options.timing_cache);
    else
        (void)wf_database_default_path(path, sizeof path);
    if (path[0] == '\0' || access(path, R_OK) != 0)
        return WF_OK;
    WF_TRY(wf_database_open_copy(path, advice->allocator, &database));
    advice->database_there = true;
    wf_status_t status = wf_likeness_expect(database, advice->lock, advice->device, &advice->expectation);
    wf_database_close(database);
    return status;
}

static json_t *number(double value)
{
    return value > 0 && isfinite(value) ? json_real(value) : json_null();
}

/* Machine hours of the traffic, before and after. */
static json_t *economy(const advice_t *advice, double run_ns)
{
    const wf_advise_options_t *o = &advice->options;
    const wf_expectation_t *e = &advice->expectation;
    double budget_s = o->budget_s > 0 ? o->budget_s : DEFAULT_BUDGET_S;
    double hours = o->requests_per_day * run_ns * 1e-9 / 3600;
    bool known = e->like > 0 && hours > 0;
    double saved = known ? hours * (1 - e->ratio) : 0;
    double saved_least = known ? hours * fmax(1 - e->high, 0) : 0;
    double tuning_hours = budget_s / 3600;
    return json_pack("{s:f s:o s:o s:o s:o s:o s:o}", "tuning_machine_hours", tuning_hours, "tuning_cost",
                     number(tuning_hours * o->price_per_hour), "machine_hours_per_day", number(hours),
                     "saved_hours_per_day", known ? json_real(saved) : json_null(),
                     "saved_hours_per_day_least", known ? json_real(saved_least) : json_null(),
                     "saved_per_day",
                     known && o->price_per_hour > 0 ? json_real(saved * o->price_per_hour) : json_null(),
                     "payback_days", known && saved > 0 ? json_real(tuning_hours / saved) : json_null());
}

static const char *answer(const advice_t *advice, const json_t *economy_json, char *text, size_t capacity)
{
    const wf_expectation_t *e = &advice->expectation;
    double payback = json_number_value(json_object_get(economy_json, "payback_days"));
    if (e->like == 0) {
        (void)snprintf(text, capacity, "not known: %s. Tune once with a small budget to find out",
                       !advice->database_there ? "there is no timing database"
                       : e->records == 0       ? "no tuning is recorded"
                                               : "no recorded tuning is of a model like this");
    } else if (e->same_model) {
        (void)snprintf(text, capacity,
                       "this model was tuned here: %.3f of the default's time; tuning again reuses it",
                       e->ratio);
    } else if (e->ratio > 0.995) {
        (void)snprintf(text, capacity, "probably not: like models gained less than 0.5 %%");
    } else if (payback > 0) {
        (void)snprintf(text, capacity, "%s: it pays back in %.3g days", payback < 30 ? "yes" : "hardly",
                       payback);
    } else {
        (void)snprintf(text, capacity,
                       "like models came to %.3f of the default's time; say --requests for the rest",
                       e->ratio);
    }
    return text;
}

static wf_status_t print(const advice_t *advice, char **out_json)
{
    const wf_advise_options_t *o = &advice->options;
    const wf_expectation_t *e = &advice->expectation;
    double run_ns = e->same_default_ns > 0 ? e->same_default_ns : advice->estimate_ns;
    char text[300];
    json_t *money = economy(advice, run_ns);
    json_t *gain = e->like > 0 ? json_pack("{s:f s:f s:f}", "ratio", e->ratio, "low", e->low, "high", e->high)
                               : json_null();
    json_t *latency = json_null();
    if (o->p99_ns > 0 && run_ns > 0) {
        double after_ns = run_ns * (e->like > 0 ? e->ratio : 1);
        latency =
            json_pack("{s:f s:f s:f s:b s:b}", "p99_ns", o->p99_ns, "default_ns", run_ns, "expected_ns",
                      after_ns, "default_below", run_ns < o->p99_ns, "expected_below", after_ns < o->p99_ns);
    }
    json_t *report = json_pack(
        "{s:i s:s s:o s:o s:o s:s s:o s:I s:I s:b s:o s:o s:o s:o s:s}", "schema_version", 1, "answer",
        answer(advice, money, text, sizeof text), "estimate_ns", number(advice->estimate_ns), "bound_ns",
        number(advice->bound_ns), "headroom",
        number(advice->bound_ns > 0 ? advice->estimate_ns / advice->bound_ns : 0), "default_time_from",
        e->same_default_ns > 0    ? "measured"
        : advice->estimate_ns > 0 ? "estimated"
                                  : "unknown",
        "expected", gain, "recorded_tunings", (json_int_t)e->records, "like_tunings", (json_int_t)e->like,
        "same_model", e->same_model, "recorded_ratio", number(advice->recorded_ratio), "economy", money,
        "latency", latency, "flattens_at_s", number(e->budget_s), "flattens_evidence",
        e->like > 0 ? e->converged_text : "nothing like it is recorded");
    wf_status_t status = wf_api_json_text(report, advice->allocator, out_json);
    json_decref(report);
    return status;
}

wf_status_t wf_advise(const wf_model_t *model, const char *record, const wf_advise_options_t *options,
                      char **out_json)
{
    advice_t advice = {0};
    *out_json = NULL;
    if (options == NULL || options->struct_bytes == 0 || options->struct_bytes > sizeof advice.options ||
        (model == NULL) == (record == NULL))
        return WF_ERROR(USAGE, "wf_advise takes its options, and a model or a record");
    memcpy(&advice.options, options, options->struct_bytes);
    wf_build_options_t build = advice.options.build;
    if (build.struct_bytes == 0)
        build.struct_bytes = sizeof build;
    WF_TRY(wf_api_build_options(&build, &advice.options.build));
    advice.allocator = advice.options.build.allocator;
    wf_status_t status = model != NULL ? from_model(&advice, model) : from_record(&advice, record);
    if (status == WF_OK)
        status = expect(&advice);
    if (status == WF_OK)
        status = print(&advice, out_json);
    wf_free(advice.allocator, advice.lock, advice.lock_bytes + 1, 1);
    wf_free(advice.allocator, advice.device, advice.device_bytes + 1, 1);
    return status;
}
