/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of reading and importing fails in turn: OUT_OF_MEMORY, nothing lost. */
#include <stdlib.h>

#include "onnx/onnx.h"
#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/onnx_target.h"

typedef struct bytes {
    uint8_t *data;
    size_t bytes;
} bytes_t;

static wf_status_t read_and_import(wf_allocator_t allocator, void *arg)
{
    const bytes_t *file = arg;
    wf_onnx_model_t *model;
    wf_graph_t *graph;
    WF_TRY(wf_onnx_open_bytes(file->data, file->bytes, allocator, &model));
    const wf_onnx_summary_t *summary = wf_onnx_summary(model);
    const wf_port_t *x = &summary->inputs[0];
    int64_t dims[WF_MAX_RANK];
    for (uint32_t i = 0; i < x->rank; i++) {
        dims[i] = x->dims[i].size >= 0 ? x->dims[i].size : 2;
    }
    wf_onnx_binding_t binding = {.name = x->name, .dims = dims, .rank = x->rank};
    wf_status_t status = wf_onnx_to_graph(model, &binding, 1, allocator, &graph);
    if (status == WF_OK) {
        wf_graph_destroy(graph);
    }
    wf_onnx_close(model);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < ONNX_TARGET_SEEDS; i++) {
        bytes_t file;
        file.data = onnx_target_seed(i, &file.bytes);
        assert_true(wf_fail_each_allocation(read_and_import, &file) > 20);
        free(file.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
