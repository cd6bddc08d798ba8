/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/rows_run.h"

#include "base/compiler.h"

/* A thread takes about four items, so that a core that is slow for a while holds up a quarter of its share.
 */
#define ITEMS_PER_THREAD 4

typedef struct rows_run {
    wf_native_rows_fn *fn;
    void *self;
    int64_t rows, rows_per_item;
    uint8_t *scratch;
    size_t thread_scratch_bytes;
} rows_run_t;

static void run_item(void *arg, size_t item, uint32_t thread)
{
    const rows_run_t *run = arg;
    int64_t begin = (int64_t)item * run->rows_per_item, end = WF_MIN(begin + run->rows_per_item, run->rows);
    run->fn(run->self, begin, end,
            run->scratch != NULL ? run->scratch + thread * run->thread_scratch_bytes : NULL);
}

void wf_native_rows_run(const wf_parallel_t *parallel, int64_t rows, int64_t min_rows, wf_native_rows_fn *fn,
                        void *self, void *scratch, size_t thread_scratch_bytes)
{
    if (rows <= 0)
        return;
    rows_run_t run = {
        fn,      self,
        rows,    wf_native_units_per_item(rows, min_rows, parallel->thread_count, ITEMS_PER_THREAD),
        scratch, thread_scratch_bytes};
    int64_t items = (rows + run.rows_per_item - 1) / run.rows_per_item;
    if (items == 1 || parallel->thread_count == 1)
        fn(self, 0, rows, scratch);
    else
        parallel->run(parallel->self, (size_t)items, run_item, &run);
}

wf_axis_view_t wf_native_axis_view(const wf_type_t *type, int64_t axis)
{
    wf_axis_view_t view = {1, 1, 1};
    if (axis < 0)
        axis += type->rank;
    for (uint32_t d = 0; d < type->rank; d++) {
        int64_t *part = d < axis ? &view.outer : d == axis ? &view.axis : &view.inner;
        *part *= type->dims[d];
    }
    return view;
}
