/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of real models print and read back as the same text, before the passes and after them: the
 * regression cases and the digits model, and the models that WF_TEST_MODELS names (separated by ':'; free
 * dims become 2). */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pass.h"
#include "onnx/onnx.h"
#include "support/cmocka_all.h"
#include "support/graph_check.h"

enum { MAX_INPUTS = 64, PATH_BYTES = 4096 };

/* Shapes for every input; what has no dims of its own gets 2. */
static size_t bind_all(const wf_onnx_model_t *model, wf_onnx_binding_t *bindings,
                       int64_t (*dims)[WF_MAX_RANK])
{
    const wf_onnx_summary_t *summary = wf_onnx_summary(model);
    assert_true(summary->input_count <= MAX_INPUTS);
    for (size_t i = 0; i < summary->input_count; i++) {
        const wf_port_t *port = &summary->inputs[i];
        for (uint32_t d = 0; d < port->rank && d < WF_MAX_RANK; d++) {
            dims[i][d] = port->dims[d].size >= 0 ? port->dims[d].size : 2;
        }
        bindings[i] = (wf_onnx_binding_t){port->name, dims[i], port->rank, NULL};
    }
    return summary->input_count;
}

/* Whether the model could be imported: some of the cases are there to be refused. */
static bool check_model(const char *path)
{
    wf_onnx_model_t *model = NULL;
    wf_graph_t *graph = NULL;
    static wf_onnx_binding_t bindings[MAX_INPUTS];
    static int64_t dims[MAX_INPUTS][WF_MAX_RANK];
    wf_pass_options_t options = {0};
    wf_assert_ok(wf_onnx_open(path, wf_allocator_system(), &model));
    size_t count = bind_all(model, bindings, dims);
    wf_status_t status = wf_onnx_to_graph(model, bindings, count, wf_allocator_system(), &graph);
    bool imported = status == WF_OK;
    wf_status_free(status);
    if (imported) {
        wf_test_text_round_trip(graph);
        status = wf_passes_run(graph, &options);
        /* A node whose operands make no result (a case to refuse) is found out by folding. */
        if (status == WF_OK) {
            wf_test_text_round_trip(graph);
        }
        wf_status_free(status);
        wf_graph_destroy(graph);
    }
    wf_onnx_close(model);
    return imported;
}

static void test_regression_cases(void **state)
{
    char path[PATH_BYTES];
    size_t imported = 0;
    DIR *folder = opendir(WF_TEST_SOURCE_DIR "/tests/data/cases");
    (void)state;
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof path, WF_TEST_SOURCE_DIR "/tests/data/cases/%s/model.onnx",
                           entry->d_name);
            imported += check_model(path);
        }
    }
    (void)closedir(folder);
    print_message("%zu models\n", imported);
    assert_true(imported >= 100);
}

static void test_digits(void **state)
{
    (void)state;
    assert_true(check_model(WF_TEST_SOURCE_DIR "/examples/digits/digits.onnx"));
}

static void test_named_models(void **state)
{
    const char *names = getenv("WF_TEST_MODELS");
    char path[PATH_BYTES];
    (void)state;
    if (names == NULL) {
        skip();
    }
    while (*names != '\0') {
        size_t length = strcspn(names, ":");
        (void)snprintf(path, sizeof path, "%.*s", (int)length, names);
        print_message("%s: %s\n", path, check_model(path) ? "imported" : "not imported");
        names += length + (names[length] == ':');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regression_cases),
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_named_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
