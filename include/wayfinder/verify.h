/* SPDX-License-Identifier: Apache-2.0 */
/* Verify: engines against the reference, models against recorded data. Fails closed: NaN where there should
 * be none, a missing output or an untested type is a failure. */
#ifndef WAYFINDER_VERIFY_H
#define WAYFINDER_VERIFY_H

#include "wayfinder/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How one output compares. Errors are against the wanted output; relative to its largest magnitude where it
 * says scale. */
typedef struct wf_accuracy {
    double max_abs, max_abs_of_scale, max_rel, mean_abs, rms, cosine, sqnr_db;
    double top1_agreement; /* rows of the last axis whose largest element is the same; 1 when rank is 0 */
    uint64_t elems, nan_mismatches, violations; /* violations: |got - want| > atol + rtol |want| */
    bool passed;
} wf_accuracy_t;

/* Compares two tensors of one type. rtol, atol are for `violations`; of 16-bit floats one unit in the last
 * place is always allowed, since a smaller bound would ask for equal bits. passed: no violation and no NaN
 * mismatch. */
WF_API wf_accuracy_t wf_accuracy_compare(const wf_tensor_t *got, const wf_tensor_t *want, double rtol,
                                         double atol);

/* Fills a tensor with seeded values: floats standard normal (positive where the name says mask), integers
 * small enough to be indices, bools both ways. The same (name, type, seed) gives the same values everywhere.
 */
WF_API void wf_seeded_fill(const char *input_name, uint64_t seed, wf_tensor_t *tensor);

/* Runs the reference over the model. `inputs` in the model's order, types concrete. outputs[i] are made with
 * `allocator` (wf_tensor_free). Slow: call progress. */
WF_API wf_status_t wf_reference_run(const wf_model_t *model, const wf_tensor_t *inputs, size_t input_count,
                                    uint32_t thread_count, wf_allocator_t allocator, void *progress_self,
                                    wf_progress_fn *progress, wf_tensor_t *out_outputs,
                                    size_t output_count) WF_MUST_USE;

typedef struct wf_verify_options {
    uint32_t struct_bytes;
    uint64_t seed;
    size_t input_sets; /* 0: 3 */
    wf_allocator_t allocator;
    void *progress_self;
    wf_progress_fn *progress;
} wf_verify_options_t;
/* Engine against the reference of its model on seeded inputs, every specialisation. ACCURACY naming the worst
 * output. The report (metrics per output) comes in *out_report_json, freed like wf_cache_command's text. */
WF_API wf_status_t wf_verify_engine(const wf_engine_t *engine, const wf_model_t *model,
                                    const wf_verify_options_t *options, char **out_report_json) WF_MUST_USE;

typedef struct wf_test_counts {
    uint64_t passed, failed, skipped;
} wf_test_counts_t;
/* One line per case, for printing: name, "passed" | "failed" | "skipped", and why. */
typedef void wf_test_fn(void *self, const char *name, const char *verdict, const char *why);
/* A model against recorded test_data_set_* folders in `folder` (tolerances and equal_rows from case.json
 * there, else rtol 1e-3, atol 1e-7); sets of different shapes are specialised on the fly. A named refusal
 * counts as skipped. */
WF_API wf_status_t wf_verify_recorded(const char *model_path, const char *folder,
                                      const wf_build_options_t *build, void *self, wf_test_fn *each,
                                      wf_test_counts_t *out_counts) WF_MUST_USE;
/* The same for every folder under `root` that holds a model.onnx. */
WF_API wf_status_t wf_verify_conformance(const char *root, const wf_build_options_t *build, void *self,
                                         wf_test_fn *each, wf_test_counts_t *out_counts) WF_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
