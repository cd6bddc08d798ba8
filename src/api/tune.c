/* SPDX-License-Identifier: Apache-2.0 */
/* wf_tune: model to tuned engine. */
#include <string.h>

#include "api/options.h"
#include "base/clock.h"
#include "tune/tuner.h"

static wf_status_t known_options(const wf_tune_options_t *options, wf_tune_options_t *out_options)
{
    memset(out_options, 0, sizeof *out_options);
    if (options == NULL || options->struct_bytes < sizeof options->struct_bytes ||
        options->struct_bytes > sizeof *out_options) {
        return WF_ERROR(USAGE, "wf_tune_options_t.struct_bytes is %u, this library knows %zu",
                        options != NULL ? options->struct_bytes : 0, sizeof *out_options);
    }
    memcpy(out_options, options, options->struct_bytes);
    wf_build_options_t build = out_options->build;
    if (build.struct_bytes == 0)
        build.struct_bytes = sizeof build;
    WF_TRY(wf_api_build_options(&build, &out_options->build));
    if (out_options->output_path == NULL)
        return WF_ERROR(USAGE, "wf_tune_options_t.output_path is not given");
    if (out_options->build.lock != NULL)
        return WF_ERROR(USAGE, "a lock leaves nothing to tune: wf_build rebuilds from it");
    return WF_OK;
}

static wf_status_t make_job(void *self, const wf_build_options_t *options, wf_job_t **out_job)
{
    const wf_model_t *model = self;
    return wf_api_job(model, options, out_job);
}

wf_status_t wf_tune(const wf_model_t *model, const wf_tune_options_t *options, wf_tune_result_t *out_result)
{
    uint64_t start_ns = wf_clock_ns();
    memset(out_result, 0, sizeof *out_result);
    wf_tune_options_t known;
    WF_TRY(known_options(options, &known));
    out_result->allocator = known.build.allocator;
    known.build.progress = NULL;
    wf_job_t *job = NULL;
    WF_TRY(wf_api_job(model, &known.build, &job));
    wf_job_maker_t maker = {(void *)(uintptr_t)model, make_job};
    job->maker = &maker;
    wf_status_t status = wf_tuner_run(job, &known, start_ns, out_result);
    wf_job_destroy(job);
    return status;
}

void wf_tune_result_free(wf_tune_result_t *result)
{
    if (result == NULL || result->allocator.resize == NULL)
        return;
    wf_api_text_free(result->allocator, result->report_json);
    memset(result, 0, sizeof *result);
}
