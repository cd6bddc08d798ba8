/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter: results, lifetimes, progress, cancellation, refusals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/graph_check.h"
#include "verify/interpret.h"

static wf_tensor_t vector(float *data, int64_t count)
{
    return (wf_tensor_t){.type = {.dtype = WF_DTYPE_F32, .rank = 1, .dims = {count}}, .data = data};
}

static void test_values(void **state)
{
    float data[3] = {-1.0f, 2.0f, 3.0f};
    wf_tensor_t input = vector(data, 3);
    wf_tensor_t outputs[3];
    (void)state;
    wf_graph_t *graph =
        wf_test_graph("graph g {\n input %x: f32[3]\n const %c: f32[3] = {10, 20, 30}\n"
                      " %a = Relu(%x)\n %y = Add(%a, %c)\n output %y\n output %x\n output %c\n}\n");
    wf_assert_ok(wf_interpret(graph, &input, wf_allocator_system(), NULL, outputs));
    static const float expected[3][3] = {{10, 22, 33}, {-1, 2, 3}, {10, 20, 30}};
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(outputs[i].data, expected[i], sizeof expected[i]);
        assert_ptr_not_equal(outputs[i].data, data);
    }
    wf_interpret_free(wf_allocator_system(), outputs, 3);
    assert_null(outputs[0].data);
    wf_graph_destroy(graph);
}

static void test_unwanted_outputs(void **state)
{
    float data[4] = {1.0f, 4.0f, 3.0f, 2.0f};
    wf_tensor_t input = vector(data, 4);
    wf_tensor_t output;
    (void)state;
    wf_graph_t *graph =
        wf_test_graph("graph g {\n input %x: f32[4]\n %v, _ = TopK(%x, _) {k=2}\n output %v\n}\n");
    wf_assert_ok(wf_interpret(graph, &input, wf_allocator_system(), NULL, &output));
    static const float expected[2] = {4, 3};
    assert_memory_equal(output.data, expected, sizeof expected);
    wf_interpret_free(wf_allocator_system(), &output, 1);
    wf_graph_destroy(graph);
}

/* A chain holds two values at a time, however long it is. */
static void test_memory_follows_lifetimes(void **state)
{
    static float data[1024];
    wf_tensor_t input = vector(data, 1024);
    wf_tensor_t output;
    wf_fail_allocator_t counting;
    char text[4096];
    size_t peak_bytes;
    int length = snprintf(text, sizeof text, "graph g {\n input %%v0: f32[1024]\n");
    (void)state;
    for (int i = 0; i < 50; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length, " %%v%d = Relu(%%v%d)\n", i + 1, i);
    }
    (void)snprintf(text + length, sizeof text - (size_t)length, " output %%v50\n}\n");
    wf_graph_t *graph = wf_test_graph(text);
    wf_assert_ok(wf_interpret_peak_bytes(graph, wf_allocator_system(), &peak_bytes));
    assert_int_equal(peak_bytes, 2 * sizeof data);
    wf_fail_allocator_init(&counting, WF_FAIL_NEVER, false);
    wf_assert_ok(wf_interpret(graph, &input, wf_fail_allocator(&counting), NULL, &output));
    assert_true(counting.peak_bytes >= peak_bytes && counting.peak_bytes < peak_bytes + 4096);
    wf_interpret_free(wf_fail_allocator(&counting), &output, 1);
    wf_fail_allocator_finish(&counting);
    wf_graph_destroy(graph);
}

typedef struct watcher {
    size_t calls, last, total;
    size_t cancel_at;
    atomic_bool cancel;
} watcher_t;

static void watch(void *self, size_t node, size_t node_count)
{
    watcher_t *watcher = self;
    assert_int_equal(node, watcher->calls);
    watcher->calls++;
    watcher->last = node;
    watcher->total = node_count;
    if (watcher->calls == watcher->cancel_at) {
        atomic_store(&watcher->cancel, true);
    }
}

static const char chain_text[] =
    "graph g {\n input %x: f32[2]\n %a = Relu(%x)\n %b = Exp(%a)\n %c = Neg(%b)\n"
    " output %a\n output %c\n}\n";

static void test_progress_and_cancellation(void **state)
{
    float data[2] = {1.0f, 2.0f};
    wf_tensor_t input = vector(data, 2);
    (void)state;
    wf_graph_t *graph = wf_test_graph(chain_text);
    for (size_t cancel_at = 0; cancel_at <= 3; cancel_at++) {
        wf_tensor_t outputs[2];
        watcher_t watcher = {.cancel_at = cancel_at};
        wf_interpret_options_t options = {
            .progress = watch, .progress_self = &watcher, .cancel = &watcher.cancel};
        wf_status_t status = wf_interpret(graph, &input, wf_allocator_system(), &options, outputs);
        bool runs_through = cancel_at == 0 || cancel_at == 3;
        assert_int_equal(wf_status_code(status), runs_through ? WF_CODE_OK : WF_CODE_INTERRUPTED);
        assert_int_equal(watcher.calls, runs_through ? 3 : cancel_at);
        assert_int_equal(watcher.total, 3);
        if (status == WF_OK) {
            wf_interpret_free(wf_allocator_system(), outputs, 2);
        } else {
            assert_null(outputs[0].data);
        }
        wf_status_free(status);
    }
    wf_graph_destroy(graph);
}

static void test_refusals(void **state)
{
    float data[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    wf_tensor_t input = vector(data, 4);
    wf_tensor_t outputs[2];
    (void)state;
    wf_graph_t *graph = wf_test_graph(chain_text);
    wf_assert_fails(wf_interpret(graph, &input, wf_allocator_system(), NULL, outputs), INPUT_MISMATCH);
    wf_graph_destroy(graph);

    graph = wf_test_graph(
        "graph g {\n input %x: f32[4]\n const %i: i64[1] = {4}\n %y = Gather(%x, %i)\n output %y\n}\n");
    wf_status_t status = wf_interpret(graph, &input, wf_allocator_system(), NULL, outputs);
    assert_int_equal(wf_status_code(status), WF_CODE_RUNTIME_DATA);
    assert_non_null(strstr(wf_status_message(status), "node y (Gather)"));
    wf_status_free(status);
    wf_graph_destroy(graph);

    int64_t shape_data[1] = {4};
    wf_tensor_t two[2] = {input,
                          {.type = {.dtype = WF_DTYPE_I64, .rank = 1, .dims = {1}}, .data = shape_data}};
    graph = wf_test_graph(
        "graph g {\n input %x: f32[4]\n input %s: i64[1]\n %y = Reshape(%x, %s)\n output %y\n}\n");
    status = wf_interpret(graph, two, wf_allocator_system(), NULL, outputs);
    assert_int_equal(wf_status_code(status), WF_CODE_MODEL_UNSUPPORTED);
    assert_non_null(strstr(wf_status_message(status), "node y (Reshape)"));
    wf_status_free(status);
    wf_graph_destroy(graph);
}

static wf_status_t interpret_with(wf_allocator_t allocator, void *arg)
{
    float data[2] = {1.0f, 2.0f};
    wf_tensor_t input = vector(data, 2);
    wf_tensor_t outputs[2];
    WF_TRY(wf_interpret(arg, &input, allocator, NULL, outputs));
    wf_interpret_free(allocator, outputs, 2);
    return WF_OK;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    wf_graph_t *graph = wf_test_graph(chain_text);
    assert_true(wf_fail_each_allocation(interpret_with, graph) > 3);
    wf_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_unwanted_outputs),
        cmocka_unit_test(test_memory_follows_lifetimes),
        cmocka_unit_test(test_progress_and_cancellation),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
