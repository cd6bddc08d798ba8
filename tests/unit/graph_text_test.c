/* SPDX-License-Identifier: Apache-2.0 */
/* Graph: text form and hash. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/constant.h"
#include "graph/graph.h"
#include "support/cmocka_all.h"
#include "support/graph_check.h"

/* Printed as it was read. */
static void test_text_round_trips(void **state)
{
    static const char text[] = "graph \"all of it\" {\n"
                               "  input %x: f32[1,3,8,8]\n"
                               "  input %\"a b\": f16[]\n"
                               "  const %w: f32[2] = {1, 2.5}\n"
                               "  const %e: f32[0,3] = {}\n"
                               "  const %i: i64[3] = {-9223372036854775808, 0, 9223372036854775807}\n"
                               "  const %u: u64[3] = {3, 9007199254740993, 18446744073709551615}\n"
                               "  const %f: f64[4] = {0.1, -0, 1e+300, 5e-324}\n"
                               "  const %h: f16[2] = {0.099975586, 65504}\n"
                               "  const %b: bool[2] = {0, 1}\n"
                               "  const %n: f32[3] = {nan, inf, -inf}\n"
                               "  %c = MaxPool(%x) {kernel_shape=[2,2] strides=[2,2]}\n"
                               "  %\"q\\\"\\\\\\x01:\" = Relu(%\"a b\")\n"
                               "  %d = Clip(%x) {max=0.1 min=-1}\n"
                               "  %o = Concat(%w, %n) {axis=0}\n"
                               "  output %w\n"
                               "  output %e\n"
                               "  output %i\n"
                               "  output %u\n"
                               "  output %f\n"
                               "  output %h\n"
                               "  output %b\n"
                               "  output %c\n"
                               "  output %d\n"
                               "  output %o\n"
                               "}\n";
    (void)state;
    wf_graph_t *graph = wf_test_graph(text);
    char *printed = wf_test_graph_text(graph);
    assert_string_equal(printed, text);
    free(printed);
    wf_graph_destroy(graph);
}

static void test_comments_and_blanks(void **state)
{
    (void)state;
    wf_graph_t *graph = wf_test_graph("; first\ngraph g{input%x: f32[2];rest\n%y=Relu(%x)output%y}\n; last");
    char *printed = wf_test_graph_text(graph);
    assert_string_equal(printed, "graph \"g\" {\n  input %x: f32[2]\n  %y = Relu(%x)\n  output %y\n}\n");
    free(printed);
    wf_graph_destroy(graph);
}

static void test_types_are_printed_as_comments(void **state)
{
    wf_text_t text;
    (void)state;
    wf_graph_t *graph =
        wf_test_graph("graph g {\n input %x: f32[2,4]\n %v, %i = TopK(%x, _) {k=1}\n output %v\n}\n");
    wf_text_init(&text, wf_allocator_system(), 1 << 20);
    wf_assert_ok(wf_graph_print(graph, &text));
    assert_non_null(strstr(wf_text_cstr(&text), "%v, %i = TopK(%x, _) {k=1} ; f32[2,1], i64[2,1]\n"));
    wf_text_deinit(&text);
    wf_graph_destroy(graph);
}

static void test_large_constants_are_printed_by_hash(void **state)
{
    (void)state;
    wf_graph_t *graph = wf_test_graph("graph g {\n const %c: f32[65] = ~7\n %y = Relu(%c)\n output %y\n}\n");
    char *printed = wf_test_graph_text(graph);
    char *hash = strstr(printed, "%c: f32[65] = #");
    assert_non_null(hash);
    assert_int_equal(strcspn(strchr(hash, '#') + 1, "\n"), 32);
    wf_graph_t *again = NULL;
    wf_assert_fails(wf_graph_parse(printed, strlen(printed), wf_allocator_system(), &again), MODEL_INVALID);
    assert_null(again);
    free(printed);
    wf_graph_destroy(graph);
}

static void test_seeded_constants(void **state)
{
    wf_tensor_t a, b;
    (void)state;
    wf_graph_t *graph = wf_test_graph(
        "graph g {\n const %a: f32[100] = ~7\n const %b: f64[100] = ~8\n output %a\n output %b\n}\n");
    assert_true(wf_graph_constant(graph, 0, &a));
    assert_true(wf_graph_constant(graph, 1, &b));
    double sum = 0.0;
    for (int64_t i = 0; i < 100; i++) {
        double x = 0.0;
        double y = 0.0;
        assert_true(wf_constant_get(&a, i, &x) && wf_constant_get(&b, i, &y));
        assert_true(x >= -1.0 && x <= 1.0 && y >= -1.0 && y < 1.0 && x != y);
        sum += x;
    }
    assert_true(fabs(sum) < 30.0); /* five standard deviations of 100 uniform numbers */
    wf_graph_destroy(graph);
}

/* What is wrong, and where. */
static void test_faults_are_placed(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "line 1, column 1: 'graph' expected"},
        {"graph g {", "line 1, column 10: "},
        {"graph g {\n  input %x f32[1]\n}", "line 2, column 12: ':' expected"},
        {"graph g {\n  input %x: f33[1]\n}", "line 2, column 13: element type"},
        {"graph g {\n  input %x: str[1]\n}", "line 2, column 13: element type"},
        {"graph g {\n  input %x: f32[-1]\n}", "negative dim"},
        {"graph g {\n  input %x: f32[1,1,1,1,1,1,1,1,1]\n}", "more than 8 dims"},
        {"graph g {\n  input %x: f32[9223372036854775807,9]\n}", "too large"},
        {"graph g {\n  const %x: f32[2] = {1}\n}", "',' expected"},
        {"graph g {\n  const %x: f32[1] = {1,2}\n}", "more values"},
        {"graph g {\n  const %x: f32[99999999] = {1}\n}", "values are not given"},
        {"graph g {\n  const %x: f32[99999999] = ~1\n}", "values are not given"},
        {"graph g {\n  const %x: u8[1] = {256}\n}", "not possible"},
        {"graph g {\n  const %x: u8[1] = {1.5}\n}", "not possible"},
        {"graph g {\n  const %x: i64[1] = {9223372036854775808}\n}", "integer expected"},
        {"graph g {\n  const %x: f32[1] = {one}\n}", "number expected"},
        {"graph g {\n  const %x: c64[1] = {1}\n}", "not possible"},
        {"graph g {\n  input %x: f32[1]\n  input %x: f32[1]\n}",
         "line 3, column 11: value x is defined twice"},
        {"graph g {\n  %y = Relu(%x)\n}", "value x is not defined"},
        {"graph g {\n  input %x: f32[1]\n  %y, %y = TopK(%x, _) {k=1}\n}", "value y is defined twice"},
        {"graph g {\n  input %x: f32[1]\n  %y = Rely(%x)\n}", "line 3, column 8: operator expected"},
        {"graph g {\n  input %x: f32[1]\n  %y = wf.Relu(%x)\n}", "operator expected"},
        {"graph g {\n  input %x: f32[1]\n  %y = Relu(%x) {alpha=1}\n}", "attribute"},
        {"graph g {\n  input %x: f32[1]\n  %y = Softmax(%x) {axis=one}\n}", "integer expected"},
        {"graph g {\n  input %x: f32[1]\n  %y = Softmax(%x) {axis=0\n}", "line 4, column 2: "},
        {"graph g {\n  input %x: f32[1]\n  %y = Softmax(%x) {axis=7}\n}", "node y (Softmax)"},
        {"graph g {\n  input %x: f32[1]\n  %y = Relu(%x, %x)\n}", "node y (Relu)"},
        {"graph g {\n  input %x: f32[1]\n  output %x\n  output %x\n}", "twice"},
        {"graph g {\n  output %y\n}", "value y is not defined"},
        {"graph g {\n}\nmore", "text after the graph"},
        {"graph \"g\n\" {\n}", "without end"},
        {"graph \"\\z\" {\n}", "escape"},
        {"graph \"\\x00\" {\n}", "\\x needs"},
        {"graph g {\n  input %\"\": f32[1]\n}", "empty name"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wf_graph_t *graph = NULL;
        wf_status_t status =
            wf_graph_parse(cases[i].text, strlen(cases[i].text), wf_allocator_system(), &graph);
        if (status == WF_OK || strstr(wf_status_message(status), cases[i].message) == NULL) {
            fail_msg("case %zu: \"%s\" expected, got \"%s\"", i, cases[i].message, wf_status_message(status));
        }
        assert_null(graph);
        wf_status_free(status);
    }
}

/* ---- Hash ---- */

static wf_hash_t hash_of(const char *text)
{
    wf_hash_t hash;
    wf_graph_t *graph = wf_test_graph(text);
    wf_assert_ok(wf_graph_hash(graph, &hash));
    wf_graph_destroy(graph);
    return hash;
}

static void test_hash_follows_content(void **state)
{
    static const char base[] =
        "graph g {\n input %x: f32[2]\n const %c: f32[2] = {1, 2}\n const %d: f32[] = {3}\n"
        " %a = Add(%x, %c)\n %b = Mul(%a, %d)\n %y = Softmax(%b) {axis=0}\n output %y\n}\n";
    static const char *const others[] = {
        "graph h {\n input %x: f32[2]\n const %c: f32[2] = {1, 2}\n const %d: f32[] = {3}\n"
        " %a = Add(%x, %c)\n %b = Mul(%a, %d)\n %y = Softmax(%b) {axis=0}\n output %y\n}\n",
        "graph g {\n input %z: f32[2]\n const %c: f32[2] = {1, 2}\n const %d: f32[] = {3}\n"
        " %a = Add(%z, %c)\n %b = Mul(%a, %d)\n %y = Softmax(%b) {axis=0}\n output %y\n}\n",
        "graph g {\n input %x: f32[2]\n const %c: f32[2] = {1, 3}\n const %d: f32[] = {3}\n"
        " %a = Add(%x, %c)\n %b = Mul(%a, %d)\n %y = Softmax(%b) {axis=0}\n output %y\n}\n",
        "graph g {\n input %x: f32[2]\n const %c: f32[2] = {1, 2}\n const %d: f32[1] = {3}\n"
        " %a = Add(%x, %c)\n %b = Mul(%a, %d)\n %y = Softmax(%b) {axis=0}\n output %y\n}\n",
        "graph g {\n input %x: f32[2]\n const %c: f32[2] = {1, 2}\n const %d: f32[] = {3}\n"
        " %a = Add(%c, %x)\n %b = Mul(%a, %d)\n %y = Softmax(%b) {axis=0}\n output %y\n}\n",
        "graph g {\n input %x: f32[2]\n const %c: f32[2] = {1, 2}\n const %d: f32[] = {3}\n"
        " %a = Add(%x, %c)\n %b = Mul(%a, %d)\n %y = Softmax(%b) {axis=-1}\n output %y\n}\n",
        "graph g {\n input %x: f32[2]\n const %c: f32[2] = {1, 2}\n const %d: f32[] = {3}\n"
        " %a = Add(%x, %c)\n %b = Mul(%a, %d)\n %y = Softmax(%b) {axis=0}\n output %y\n output %b\n}\n",
        "graph g {\n input %x: f32[3]\n const %c: f32[3] = {1, 2, 3}\n const %d: f32[] = {3}\n"
        " %a = Add(%x, %c)\n %b = Mul(%a, %d)\n %y = Softmax(%b) {axis=0}\n output %y\n}\n",
    };
    /* Where constants stand in the text, and constants that nobody reads, are no content. */
    static const char reordered[] =
        "graph g {\n const %d: f32[] = {3}\n const %c: f32[2] = {1, 2}\n input %x: f32[2]\n"
        " const %unused: f32[] = {7}\n"
        " %a = Add(%x, %c)\n %b = Mul(%a, %d)\n %y = Softmax(%b) {axis=0}\n output %y\n}\n";
    (void)state;
    wf_hash_t hash = hash_of(base);
    assert_true(wf_hash_equal(hash, hash_of(base)));
    assert_true(wf_hash_equal(hash, hash_of(reordered)));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (wf_hash_equal(hash, hash_of(others[i]))) {
            fail_msg("change %zu does not change the hash", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_round_trips),
        cmocka_unit_test(test_comments_and_blanks),
        cmocka_unit_test(test_types_are_printed_as_comments),
        cmocka_unit_test(test_large_constants_are_printed_by_hash),
        cmocka_unit_test(test_seeded_constants),
        cmocka_unit_test(test_faults_are_placed),
        cmocka_unit_test(test_hash_follows_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
