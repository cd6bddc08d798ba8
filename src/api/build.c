/* SPDX-License-Identifier: Apache-2.0 */
/* wf_build: model to engine bytes. */
#include <string.h>

#include "api/options.h"
#include "base/compiler.h"
#include "tune/guide.h"
#include "tune/job.h"
#include "tune/lock.h"
#include "wayfinder/builder.h"

/* `anew` NULL: no lock guided the build. */
static wf_status_t make_report(wf_job_t *job, const wf_route_t *routes, json_t *accuracy, json_t *anew,
                               size_t kept, wf_build_result_t *result)
{
    double cost_ns = 0;
    size_t step_count = 0;
    for (size_t i = 0; i < job->part_count; i++) {
        cost_ns += routes[i].cost_ns;
        step_count += routes[i].count;
    }
    json_t *report =
        json_pack("{s:i s:s s:i s:I s:I s:f s:I s:O}", "schema_version", 1, "model", job->model_hash,
                  "threads", (int)job->cpu.thread_count, "specialisations", (json_int_t)job->part_count,
                  "route_items", (json_int_t)step_count, "estimated_ns", cost_ns, "engine_bytes",
                  (json_int_t)result->engine_bytes, "accuracy", accuracy);
    if (anew != NULL) {
        (void)json_object_set(report, "decisions_anew", anew);
        (void)json_object_set_new(report, "decisions_kept", json_integer((json_int_t)kept));
    }
    wf_status_t status = wf_api_json_text(report, job->allocator, &result->report_json);
    json_decref(report);
    return status;
}

static wf_status_t build_job(wf_job_t *job, const wf_build_options_t *options, wf_build_result_t *result)
{
    wf_route_t *routes = NULL;
    wf_text_t lock;
    wf_text_init(&lock, job->allocator, UINT32_MAX);
    json_t *accuracy = json_array(), *anew = options->lock_guides ? json_array() : NULL;
    size_t kept = 0;
    bool verbatim = options->lock != NULL && !options->lock_guides;
    wf_status_t status = verbatim                ? wf_job_routes_from_lock(job, options->lock, &routes)
                         : options->lock != NULL ? wf_job_guided(job, options->lock, anew, &kept, &routes)
                                                 : wf_job_solve(job, &routes);
    if (status == WF_OK && !verbatim)
        status = wf_job_lock(job, NULL, routes, "", &lock);
    const char *lock_text = verbatim ? options->lock : wf_text_cstr(&lock);
    if (status == WF_OK)
        status = wf_job_engine(job, routes, lock_text, &result->engine, &result->engine_bytes);
    if (status == WF_OK && !options->skip_check) {
        status = wf_job_check(job, result->engine, result->engine_bytes, options->check_seed, accuracy);
    }
    if (status == WF_OK)
        status = make_report(job, routes, accuracy, anew, kept, result);
    json_decref(anew);
    json_decref(accuracy);
    wf_text_deinit(&lock);
    wf_job_routes_free(job, routes);
    return status;
}

wf_status_t wf_build(const wf_model_t *model, const wf_build_options_t *options,
                     wf_build_result_t *out_result)
{
    memset(out_result, 0, sizeof *out_result);
    wf_build_options_t known;
    WF_TRY(wf_api_build_options(options, &known));
    out_result->allocator = known.allocator;
    wf_job_t *job = NULL;
    WF_TRY(wf_api_job(model, &known, &job));
    wf_status_t status = build_job(job, &known, out_result);
    wf_job_destroy(job);
    if (status != WF_OK)
        wf_build_result_free(out_result);
    return status;
}

void wf_build_result_free(wf_build_result_t *result)
{
    if (result == NULL || result->allocator.resize == NULL)
        return;
    wf_free_aligned(result->allocator, result->engine, result->engine_bytes, 1, 64);
    wf_api_text_free(result->allocator, result->report_json);
    memset(result, 0, sizeof *result);
}
