/* SPDX-License-Identifier: Apache-2.0 */
/* From model to result with faults: every allocation of reading, building, loading, running and verifying
 * fails in turn, every write of saving too; and a run allocates nothing. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/temp_folder.h"
#include "wayfinder/wayfinder.h"

#define DATA WF_TEST_SOURCE_DIR "/tests/data/models/"
#define DIGITS WF_TEST_SOURCE_DIR "/examples/digits/digits.onnx"

enum { PORTS_MAX = 4 };

static wf_status_t build(const char *path, wf_allocator_t allocator, wf_build_result_t *out_result)
{
    wf_model_t *model = NULL;
    wf_build_options_t options = {.struct_bytes = sizeof options, .thread_count = 1, .allocator = allocator};
    memset(out_result, 0, sizeof *out_result);
    wf_status_t status = wf_model_open(path, allocator, &model);
    if (status == WF_OK) {
        status = wf_build(model, &options, out_result);
    }
    wf_model_close(model);
    return status;
}

static wf_build_result_t built(const char *path)
{
    wf_build_result_t result;
    wf_assert_ok(build(path, wf_allocator_system(), &result));
    return result;
}

/* Buffers for all ports; zeros. */
typedef struct buffers {
    void *inputs[PORTS_MAX], *outputs[PORTS_MAX];
} buffers_t;

static buffers_t make_buffers(const wf_engine_t *engine)
{
    buffers_t buffers = {0};
    assert_true(wf_engine_input_count(engine) <= PORTS_MAX && wf_engine_output_count(engine) <= PORTS_MAX);
    for (size_t i = 0; i < wf_engine_input_count(engine); i++) {
        wf_port_info_t port = wf_engine_input(engine, 0, i);
        buffers.inputs[i] = calloc((size_t)wf_type_bytes(&port.type), 1);
    }
    for (size_t i = 0; i < wf_engine_output_count(engine); i++) {
        wf_port_info_t port = wf_engine_output(engine, 0, i);
        buffers.outputs[i] = calloc((size_t)wf_type_bytes(&port.type), 1);
    }
    return buffers;
}

static void free_buffers(buffers_t *buffers)
{
    for (size_t i = 0; i < PORTS_MAX; i++) {
        free(buffers->inputs[i]);
        free(buffers->outputs[i]);
    }
}

/* ---- Allocations ---- */

static wf_status_t build_five(wf_allocator_t allocator, void *arg)
{
    wf_build_result_t result;
    (void)arg;
    wf_status_t status = build(DATA "five_nodes.onnx", allocator, &result);
    wf_build_result_free(&result);
    return status;
}

static void building_may_run_out_of_memory(void **state)
{
    (void)state;
    assert_true(wf_fail_each_allocation(build_five, NULL) > 50);
}

static wf_status_t load_and_run(wf_allocator_t allocator, void *arg)
{
    const wf_build_result_t *result = arg;
    wf_engine_t *engine = NULL;
    wf_context_t *context = NULL;
    wf_engine_options_t options = {.struct_bytes = sizeof options, .allocator = allocator};
    WF_TRY(wf_engine_open_bytes(result->engine, result->engine_bytes, &options, &engine));
    wf_status_t status = wf_context_create(engine, 0, &context);
    if (status == WF_OK) {
        buffers_t buffers = make_buffers(engine);
        status = wf_context_run(context, (const void *const *)buffers.inputs, buffers.outputs);
        free_buffers(&buffers);
    }
    wf_context_destroy(context);
    wf_engine_close(engine);
    return status;
}

static void loading_may_run_out_of_memory(void **state)
{
    (void)state;
    wf_build_result_t result = built(DATA "five_nodes.onnx");
    assert_true(wf_fail_each_allocation(load_and_run, &result) > 5);
    wf_build_result_free(&result);
}

static wf_status_t verify(wf_allocator_t allocator, void *arg)
{
    const wf_build_result_t *result = arg;
    wf_engine_t *engine = NULL;
    wf_model_t *model = NULL;
    char *report = NULL;
    wf_engine_options_t options = {.struct_bytes = sizeof options, .allocator = allocator};
    wf_verify_options_t how = {.struct_bytes = sizeof how, .input_sets = 1, .allocator = allocator};
    wf_status_t status = wf_model_open(DATA "five_nodes.onnx", allocator, &model);
    if (status == WF_OK) {
        status = wf_engine_open_bytes(result->engine, result->engine_bytes, &options, &engine);
    }
    if (status == WF_OK) {
        status = wf_verify_engine(engine, model, &how, &report);
    }
    if (report != NULL) {
        wf_free(allocator, report, strlen(report) + 1, 1);
    }
    wf_engine_close(engine);
    wf_model_close(model);
    return status;
}

static void verifying_may_run_out_of_memory(void **state)
{
    (void)state;
    wf_build_result_t result = built(DATA "five_nodes.onnx");
    assert_true(wf_fail_each_allocation(verify, &result) > 20);
    wf_build_result_free(&result);
}

/* ---- Writes ---- */

static void a_full_disk_leaves_the_old_engine(void **state)
{
    char folder[256], path[400], name[400];
    struct rlimit old, limit;
    uint8_t *kept = malloc(1 << 20);
    (void)state;
    wf_temp_folder_make(folder, sizeof folder);
    (void)snprintf(path, sizeof path, "%s/e.wfe", folder);
    wf_build_result_t result = built(DATA "five_nodes.onnx");
    wf_assert_ok(wf_engine_save(result.engine, result.engine_bytes, path, false));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (size_t bytes = 0; bytes < result.engine_bytes; bytes += bytes < 64 ? 9 : 401) {
        limit = (struct rlimit){bytes, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        wf_status_t status = wf_engine_save(result.engine, result.engine_bytes, path, true);
        (void)snprintf(name, sizeof name, "%s/new.wfe", folder);
        wf_status_t fresh = wf_engine_save(result.engine, result.engine_bytes, name, false);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(wf_status_exit_code(status), 10);
        assert_int_equal(wf_status_exit_code(fresh), 10);
        wf_status_free(status);
        wf_status_free(fresh);
        assert_int_not_equal(access(name, F_OK), 0);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        assert_int_equal(fread(kept, 1, 1 << 20, file), result.engine_bytes);
        (void)fclose(file);
        assert_memory_equal(kept, result.engine, result.engine_bytes);
    }
    free(kept);
    wf_build_result_free(&result);
    assert_int_equal(wf_temp_folder_count(folder), 1); /* nothing half written */
    wf_temp_folder_remove(folder);
}

/* ---- Runs ---- */

static void runs_allocate_nothing(void **state)
{
    static const char *const models[] = {DIGITS, DATA "transformer.onnx", DATA "five_nodes.onnx"};
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (uint32_t threads = 1; threads <= 2; threads++) {
            wf_fail_allocator_t fail;
            wf_engine_t *engine = NULL;
            wf_context_t *context = NULL;
            uint64_t step_ns[64];
            wf_fail_allocator_init(&fail, WF_FAIL_NEVER, true);
            wf_build_result_t result = built(models[m]);
            wf_engine_options_t options = {.struct_bytes = sizeof options,
                                           .thread_count = threads,
                                           .allocator = wf_fail_allocator(&fail)};
            wf_assert_ok(wf_engine_open_bytes(result.engine, result.engine_bytes, &options, &engine));
            wf_assert_ok(wf_context_create(engine, 0, &context));
            assert_true(wf_engine_step_count(engine, 0) <= 64);
            buffers_t buffers = make_buffers(engine);
            uint64_t calls = fail.call_count, live = fail.live_bytes;
            fail.fail_at = calls;
            for (int run = 0; run < 3; run++) {
                wf_assert_ok(wf_context_run(context, (const void *const *)buffers.inputs, buffers.outputs));
                wf_assert_ok(wf_context_run_timed(context, (const void *const *)buffers.inputs,
                                                  buffers.outputs, step_ns));
            }
            assert_int_equal(fail.call_count, calls);
            assert_int_equal(fail.live_bytes, live);
            free_buffers(&buffers);
            wf_context_destroy(context);
            wf_engine_close(engine);
            wf_build_result_free(&result);
            wf_fail_allocator_finish(&fail);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(building_may_run_out_of_memory),
        cmocka_unit_test(loading_may_run_out_of_memory),
        cmocka_unit_test(verifying_may_run_out_of_memory),
        cmocka_unit_test(a_full_disk_leaves_the_old_engine),
        cmocka_unit_test(runs_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
