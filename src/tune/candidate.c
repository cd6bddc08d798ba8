/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates: routes with their lock and their engine. */
#include <string.h>

#include "tune/tuner_internal.h"

#define ENGINE_ALIGNMENT 64u

void wf_candidate_init(wf_candidate_t *candidate, const char *name, wf_allocator_t allocator)
{
    *candidate = (wf_candidate_t){.name = name};
    wf_text_init(&candidate->lock, allocator, UINT32_MAX);
}

void wf_candidate_drop_engine(wf_candidate_t *candidate)
{
    wf_free_aligned(candidate->lock.allocator, candidate->engine, candidate->engine_bytes, 1,
                    ENGINE_ALIGNMENT);
    candidate->engine = NULL;
    candidate->engine_bytes = 0;
}

void wf_candidate_deinit(wf_candidate_t *candidate, wf_job_t *job)
{
    wf_candidate_drop_engine(candidate);
    wf_job_routes_free(job, candidate->routes);
    candidate->routes = NULL;
    wf_text_deinit(&candidate->lock);
}

wf_status_t wf_candidate_set(wf_candidate_t *candidate, wf_job_t *job, wf_route_t *routes,
                             const wf_knobs_t *knobs)
{
    wf_candidate_drop_engine(candidate);
    wf_job_routes_free(job, candidate->routes);
    candidate->routes = routes;
    candidate->job = job;
    candidate->knobs = knobs != NULL ? *knobs : job->knobs;
    candidate->lock.length = 0;
    candidate->predicted_ns = 0;
    for (size_t i = 0; i < job->part_count; i++)
        candidate->predicted_ns += routes[i].cost_ns;
    return wf_job_lock(job, &candidate->knobs, routes, "", &candidate->lock);
}

/* From the lock and not from the routes: the tactics of conversions are the lock's, whatever they cost by
 * now. */
static wf_status_t make_from(wf_candidate_t *candidate, wf_job_t *job, const char *lock)
{
    wf_route_t *routes = NULL;
    WF_TRY(wf_job_routes_from_lock(job, lock, &routes));
    wf_status_t status = wf_job_engine(job, routes, lock, &candidate->engine, &candidate->engine_bytes);
    for (size_t i = 0; i < job->part_count; i++)
        wf_space_unpin(job->parts[i].space);
    wf_job_routes_free(job, routes);
    return status;
}

wf_status_t wf_candidate_make(wf_candidate_t *candidate, wf_job_t *job, const char *evidence)
{
    wf_text_t lock;
    if (candidate->job != NULL)
        job = candidate->job;
    wf_candidate_drop_engine(candidate);
    wf_text_init(&lock, candidate->lock.allocator, UINT32_MAX);
    wf_text_append(&lock, candidate->lock.data, candidate->lock.length);
    wf_text_puts(&lock, evidence);
    wf_status_t status = wf_text_take_status(&lock);
    if (status == WF_OK)
        status = make_from(candidate, job, wf_text_cstr(&lock));
    wf_text_deinit(&lock);
    return status;
}
