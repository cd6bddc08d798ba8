/* SPDX-License-Identifier: Apache-2.0 */
#include "support/graph_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/constant.h"
#include "support/cmocka_all.h"
#include "support/random.h"
#include "verify/interpret.h"

wf_graph_t *wf_test_graph(const char *text)
{
    wf_graph_t *graph = NULL;
    wf_assert_ok(wf_graph_parse(text, strlen(text), wf_allocator_system(), &graph));
    wf_assert_ok(wf_graph_verify(graph));
    return graph;
}

char *wf_test_graph_text(const wf_graph_t *graph)
{
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), SIZE_MAX / 2);
    wf_assert_ok(wf_graph_print(graph, &text));
    char *result = malloc(text.length + 1);
    assert_non_null(result);
    size_t length = 0;
    for (const char *p = wf_text_cstr(&text); *p != '\0'; p++) {
        if (p[0] == ' ' && p[1] == ';') {
            p += strcspn(p, "\n");
        }
        result[length++] = *p;
    }
    result[length] = '\0';
    wf_text_deinit(&text);
    return result;
}

enum { HASH_CHARS = 32 };

/* The "#hash" of a constant or tensor attribute at `at`, which follows "f32[2,3]" or "f32[2,3] = "; its
 * elements. */
static bool hash_at(const char *text, const char *at, int64_t *out_elems)
{
    if (*at != '#' || at - text < 5 || strspn(at + 1, "0123456789abcdef") < HASH_CHARS) {
        return false;
    }
    const char *p = strncmp(at - 3, " = ", 3) == 0 ? at - 4 : at - 1;
    if (*p != ']') {
        return false;
    }
    while (p > text && *p != '[') {
        p--;
    }
    *out_elems = 1;
    for (char *end = NULL; p[1] != ']' && *p != ']'; p = end) {
        *out_elems *= strtoll(p + 1, &end, 10);
    }
    return true;
}

/* The text with every hash replaced: by as many zeros, or by nothing. */
static char *without_hashes(const char *from, bool zeros)
{
    wf_text_t text;
    int64_t elems = 0;
    wf_text_init(&text, wf_allocator_system(), SIZE_MAX / 2);
    for (const char *p = from; *p != '\0'; p++) {
        if (!hash_at(from, p, &elems)) {
            wf_text_append(&text, p, 1);
            continue;
        }
        for (int64_t i = 0; zeros && i < elems; i++) {
            wf_text_puts(&text, i == 0 ? "{0" : ",0");
        }
        wf_text_puts(&text, zeros ? "}" : "#");
        p += HASH_CHARS;
    }
    wf_assert_ok(wf_text_take_status(&text));
    char *result = strdup(wf_text_cstr(&text));
    assert_non_null(result);
    wf_text_deinit(&text);
    return result;
}

static void print_to(const wf_graph_t *graph, wf_text_t *out_text)
{
    wf_text_init(out_text, wf_allocator_system(), SIZE_MAX / 2);
    wf_assert_ok(wf_graph_print(graph, out_text));
}

/* The first lines that differ, for people. */
static void assert_same_text(const char *a, const char *b)
{
    size_t line = 1, start = 0;
    for (size_t i = 0; a[i] == b[i]; i++) {
        if (a[i] == '\0') {
            return;
        }
        if (a[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    fail_msg("line %zu is '%.*s', after reading back '%.*s'", line, (int)strcspn(a + start, "\n"), a + start,
             (int)strcspn(b + start, "\n"), b + start);
}

void wf_test_text_round_trip(const wf_graph_t *graph)
{
    wf_text_t printed, again;
    wf_graph_t *copy = NULL;
    print_to(graph, &printed);
    char *text = without_hashes(wf_text_cstr(&printed), true);
    wf_assert_ok(wf_graph_parse(text, strlen(text), wf_allocator_system(), &copy));
    wf_assert_ok(wf_graph_verify(copy));
    print_to(copy, &again);
    char *want = without_hashes(wf_text_cstr(&printed), false);
    char *got = without_hashes(wf_text_cstr(&again), false);
    assert_same_text(want, got);
    free(text);
    free(want);
    free(got);
    wf_text_deinit(&printed);
    wf_text_deinit(&again);
    wf_graph_destroy(copy);
}

static wf_tensor_t *random_inputs(const wf_graph_t *graph, uint64_t seed)
{
    wf_random_t random = {seed};
    wf_tensor_t *inputs = calloc(graph->inputs.count + 1, sizeof *inputs);
    assert_non_null(inputs);
    for (size_t i = 0; i < graph->inputs.count; i++) {
        inputs[i].type = wf_graph_value(graph, graph->inputs.items[i])->type;
        int64_t bytes = wf_type_bytes(&inputs[i].type);
        inputs[i].data = calloc((size_t)bytes + 1, 1);
        assert_non_null(inputs[i].data);
        wf_dtype_t dtype = inputs[i].type.dtype;
        bool whole =
            dtype != WF_DTYPE_F32 && dtype != WF_DTYPE_F64 && dtype != WF_DTYPE_F16 && dtype != WF_DTYPE_BF16;
        for (int64_t j = 0; j < wf_type_elems(&inputs[i].type); j++) {
            double value =
                whole ? (double)wf_random_below(&random, 2) : 3.0 * (double)wf_random_float(&random);
            assert_true(wf_constant_set(&inputs[i], j, value));
        }
    }
    return inputs;
}

static void free_inputs(wf_tensor_t *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(inputs[i].data);
    }
    free(inputs);
}

static void compare(const char *name, const wf_tensor_t *a, const wf_tensor_t *b, double tolerance)
{
    double scale = 1.0;
    int64_t elems = wf_type_elems(&a->type);
    assert_true(wf_type_equal(&a->type, &b->type));
    bool whole = a->type.dtype >= WF_DTYPE_U8 && a->type.dtype <= WF_DTYPE_I64;
    for (int64_t i = 0; i < elems; i++) {
        double x = 0.0;
        assert_true(wf_constant_get(a, i, &x));
        scale = isfinite(x) ? fmax(scale, fabs(x)) : scale;
    }
    for (int64_t i = 0; i < elems; i++) {
        double x = 0.0;
        double y = 0.0;
        (void)wf_constant_get(a, i, &x);
        assert_true(wf_constant_get(b, i, &y));
        bool same = x == y || (isnan(x) && isnan(y)) || (!whole && fabs(x - y) <= tolerance * scale);
        if (!same) {
            fail_msg("output %s[%lld]: %.9g before, %.9g after (scale %g)", name, (long long)i, x, y, scale);
        }
    }
}

void wf_test_same_results(const wf_graph_t *before, const wf_graph_t *after, uint64_t seed, double tolerance)
{
    wf_allocator_t allocator = wf_allocator_system();
    size_t count = before->outputs.count;
    assert_int_equal(before->inputs.count, after->inputs.count);
    assert_int_equal(count, after->outputs.count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(wf_graph_value(before, before->outputs.items[i])->name,
                            wf_graph_value(after, after->outputs.items[i])->name);
    }
    wf_tensor_t *inputs = random_inputs(before, seed);
    wf_tensor_t *results[2];
    const wf_graph_t *graphs[2] = {before, after};
    for (int i = 0; i < 2; i++) {
        results[i] = calloc(count + 1, sizeof *results[i]);
        assert_non_null(results[i]);
        wf_assert_ok(wf_interpret(graphs[i], inputs, allocator, NULL, results[i]));
    }
    for (size_t i = 0; i < count; i++) {
        compare(wf_graph_value(before, before->outputs.items[i])->name, &results[0][i], &results[1][i],
                tolerance);
    }
    for (int i = 0; i < 2; i++) {
        wf_interpret_free(allocator, results[i], count);
        free(results[i]);
    }
    free_inputs(inputs, before->inputs.count);
}
