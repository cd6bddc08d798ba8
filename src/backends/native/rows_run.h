/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that compute rows [begin, end) of something, spread over threads. */
#ifndef WF_NATIVE_ROWS_RUN_H
#define WF_NATIVE_ROWS_RUN_H

#include "backends/native/native.h"

/* Computes rows [begin, end); scratch belongs to the thread. */
typedef void wf_native_rows_fn(void *self, int64_t begin, int64_t end, void *scratch);

/* Runs `rows` rows in items of at least min_rows, on the calling thread when there is only one item. scratch:
 * one block of thread_scratch_bytes a thread, or NULL. */
void wf_native_rows_run(const wf_parallel_t *parallel, int64_t rows, int64_t min_rows, wf_native_rows_fn *fn,
                        void *self, void *scratch, size_t thread_scratch_bytes);

/* A tensor seen as [outer][axis][inner] around axis `axis` of its row-major dims. */
typedef struct wf_axis_view {
    int64_t outer, axis, inner;
} wf_axis_view_t;
wf_axis_view_t wf_native_axis_view(const wf_type_t *type, int64_t axis);

#endif
