/* SPDX-License-Identifier: Apache-2.0 */
/* wf_gate, wf_diff, wf_baseline_*: options checked. */
#include "gate/gate.h"
#include "gate/history.h"

#include <string.h>

#include "api/options.h"

static wf_status_t known_options(const wf_gate_options_t *options, double budget_s, wf_gate_options_t *out,
                                 wf_gate_result_t *out_result)
{
    memset(out, 0, sizeof *out);
    memset(out_result, 0, sizeof *out_result);
    if (options != NULL) {
        if (options->struct_bytes < sizeof options->struct_bytes || options->struct_bytes > sizeof *out) {
            return WF_ERROR(USAGE, "wf_gate_options_t.struct_bytes is %u, this library knows %zu",
                            options->struct_bytes, sizeof *out);
        }
        memcpy(out, options, options->struct_bytes);
    }
    if (out->allocator.resize == NULL)
        out->allocator = wf_allocator_system();
    out_result->allocator = out->allocator;
    if (out->min_effect == 0)
        out->min_effect = 0.02;
    if (out->alpha == 0)
        out->alpha = 0.01;
    if (out->budget_s == 0)
        out->budget_s = budget_s;
    if (!(out->min_effect > 0.0001) || out->min_effect > 10)
        return WF_ERROR(USAGE, "a minimum effect of %g: give 0.01 %% to 1000 %%", out->min_effect);
    if (!(out->alpha > 1e-9) || !(out->alpha < 0.5))
        return WF_ERROR(USAGE, "an error of %g: give more than 0 and less than 50 %%", out->alpha);
    if (!(out->budget_s > 0))
        return WF_ERROR(USAGE, "a budget of %g s", out->budget_s);
    return WF_OK;
}

wf_status_t wf_gate(const char *engine_path, const wf_gate_options_t *options, wf_gate_result_t *out_result)
{
    wf_gate_options_t known;
    WF_TRY(known_options(options, 60, &known, out_result));
    return wf_gate_run(engine_path, &known, out_result);
}

wf_status_t wf_diff(const char *path_a, const char *path_b, const wf_gate_options_t *options,
                    wf_gate_result_t *out_result)
{
    wf_gate_options_t known;
    WF_TRY(known_options(options, 10, &known, out_result));
    return wf_diff_run(path_a, path_b, &known, out_result);
}

static wf_status_t store_options(const wf_gate_options_t *options, wf_gate_options_t *out,
                                 wf_gate_result_t *out_result)
{
    WF_TRY(known_options(options, 60, out, out_result));
    if (out->store != NULL)
        return WF_OK;
    return wf_status_hinted(WF_ERROR(USAGE, "the store is not given"), "give --store DIR");
}

wf_status_t wf_baseline_promote(const char *engine_path, const wf_gate_options_t *options,
                                wf_gate_result_t *out_result)
{
    wf_gate_options_t known;
    WF_TRY(store_options(options, &known, out_result));
    return wf_store_promote(engine_path, &known, out_result);
}

wf_status_t wf_baseline_history(const char *engine_path, const wf_gate_options_t *options,
                                wf_gate_result_t *out_result)
{
    wf_gate_options_t known;
    WF_TRY(store_options(options, &known, out_result));
    return wf_history_run(engine_path, &known, out_result);
}

wf_status_t wf_baseline_show(const char *path, const wf_gate_options_t *options, wf_gate_result_t *out_result)
{
    wf_gate_options_t known;
    WF_TRY(known_options(options, 1, &known, out_result));
    return wf_store_show(path, &known, out_result);
}

void wf_gate_result_free(wf_gate_result_t *result)
{
    if (result == NULL || result->allocator.resize == NULL)
        return;
    wf_api_text_free(result->allocator, result->report_json);
    memset(result, 0, sizeof *result);
}
