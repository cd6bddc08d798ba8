/* SPDX-License-Identifier: Apache-2.0 */
/* Golden texts of passes: every tests/plan/passes/<name>.ir is read.
 *
 * A file is a list of cases. Lines that begin with '#' are comments. A case is
 *   == what is shown
 *   passes: fuse_gelu dead_code      (or "pipeline": all of them, or "pipeline -name -name": without these)
 *   graph "..." { ... }              the graph before
 *   ->                               then
 *   graph "..." { ... }              exactly what is printed afterwards, comments apart; or the word "same"
 * An optional line "tolerance: 1e-3" after passes: widens the comparison of results for short floats. Besides
 * the text, each case is run before and after through the reference on random inputs, and the results are
 * compared. With WF_TEST_ACCEPT=1 in the environment the expectations in the files are rewritten. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pass.h"
#include "support/cmocka_all.h"
#include "support/graph_check.h"

typedef struct lines {
    char *text; /* whole file, line ends are zeros */
    char **items;
    size_t count;
} lines_t;

static lines_t read_lines(const char *path)
{
    lines_t lines = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long bytes = ftell(file);
    rewind(file);
    assert_true(bytes >= 0);
    lines.text = calloc((size_t)bytes + 1, 1);
    lines.items = calloc((size_t)bytes + 1, sizeof *lines.items);
    assert_non_null(lines.text);
    assert_non_null(lines.items);
    assert_int_equal(fread(lines.text, 1, (size_t)bytes, file), bytes);
    (void)fclose(file);
    char *p = lines.text;
    while (p < lines.text + bytes) {
        lines.items[lines.count++] = p;
        char *end = strchr(p, '\n');
        if (end == NULL) {
            break;
        }
        *end = '\0';
        p = end + 1;
    }
    return lines;
}

/* Lines [first, first + n) up to the one that is "}", joined; *next is behind them. */
static char *take_graph(const lines_t *lines, size_t *next)
{
    size_t length = 0;
    size_t end = *next;
    while (end < lines->count && strcmp(lines->items[end], "}") != 0) {
        length += strlen(lines->items[end++]) + 1;
    }
    assert_true(end < lines->count);
    char *text = calloc(length + 3, 1);
    assert_non_null(text);
    size_t at = 0;
    for (size_t i = *next; i <= end; i++) {
        at += (size_t)snprintf(text + at, length + 3 - at, "%s\n", lines->items[i]);
    }
    *next = end + 1;
    return text;
}

static void run_named(wf_graph_t *graph, const char *name)
{
    uint32_t changes = 0;
    const wf_pass_t *pass = wf_pass_find(name);
    if (pass == NULL) {
        fail_msg("there is no pass %s", name);
        return;
    }
    wf_assert_ok(pass->run(graph, NULL, &changes));
    wf_assert_ok(wf_graph_verify(graph));
}

static void run_passes(wf_graph_t *graph, const char *list)
{
    char copy[512];
    char *rest = NULL;
    bool disabled[128] = {false};
    bool pipeline = false;
    size_t count;
    const wf_pass_t *passes = wf_passes(&count);
    assert_true(count <= 128 && strlen(list) < sizeof copy);
    memcpy(copy, list, strlen(list) + 1);
    for (char *name = strtok_r(copy, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
        if (strcmp(name, "pipeline") == 0) {
            pipeline = true;
        } else if (name[0] == '-') {
            bool found = false;
            for (size_t i = 0; i < count; i++) {
                bool same = strcmp(passes[i].name, name + 1) == 0;
                disabled[i] = disabled[i] || same;
                found = found || same;
            }
            assert_true(found);
        } else {
            run_named(graph, name);
        }
    }
    if (pipeline) {
        wf_pass_options_t options = {.disabled = disabled};
        wf_assert_ok(wf_passes_run(graph, &options));
        wf_assert_ok(wf_graph_verify(graph));
    }
}

typedef struct golden_case {
    const char *title, *passes;
    double tolerance;
    char *before;
    char *expected; /* NULL: same */
} golden_case_t;

static bool all_types_known(const wf_graph_t *graph)
{
    for (size_t i = 0; i < graph->values.count; i++) {
        if (!graph->values.items[i].type_known) {
            return false;
        }
    }
    return true;
}

/* What is printed afterwards; checks results, not the text. */
static char *run_case(const golden_case_t *self)
{
    wf_graph_t *before = wf_test_graph(self->before);
    wf_graph_t *after = wf_test_graph(self->before);
    run_passes(after, self->passes);
    /* A graph whose shapes are only known after folding cannot run before it. */
    for (uint64_t seed = 1; self->tolerance >= 0.0 && all_types_known(before) && seed <= 3; seed++) {
        wf_test_same_results(before, after, seed, self->tolerance);
    }
    char *text = wf_test_graph_text(after);
    wf_graph_destroy(before);
    wf_graph_destroy(after);
    return text;
}

static char *before_text(const golden_case_t *self)
{
    wf_graph_t *graph = wf_test_graph(self->before);
    char *text = wf_test_graph_text(graph);
    wf_graph_destroy(graph);
    return text;
}

static golden_case_t take_case(const lines_t *lines, size_t *next)
{
    golden_case_t self = {.title = lines->items[*next] + 3, .tolerance = 2e-6};
    (*next)++;
    assert_int_equal(strncmp(lines->items[*next], "passes: ", 8), 0);
    self.passes = lines->items[(*next)++] + 8;
    if (strncmp(lines->items[*next], "tolerance: ", 11) == 0) {
        const char *text = lines->items[(*next)++] + 11;
        self.tolerance = strcmp(text, "none") == 0 ? -1.0 : strtod(text, NULL);
    }
    self.before = take_graph(lines, next);
    assert_string_equal(lines->items[(*next)++], "->");
    if (strcmp(lines->items[*next], "same") == 0) {
        (*next)++;
    } else {
        self.expected = take_graph(lines, next);
    }
    return self;
}

static void run_file(const char *path)
{
    bool accept = getenv("WF_TEST_ACCEPT") != NULL;
    lines_t lines = read_lines(path);
    FILE *rewritten = accept ? tmpfile() : NULL;
    size_t cases = 0;
    for (size_t next = 0; next < lines.count;) {
        size_t first = next;
        if (strncmp(lines.items[next], "== ", 3) != 0) {
            assert_true(lines.items[next][0] == '#' || lines.items[next][0] == '\0');
            next++;
            if (rewritten != NULL) {
                fprintf(rewritten, "%s\n", lines.items[first]);
            }
            continue;
        }
        golden_case_t self = take_case(&lines, &next);
        char *actual = run_case(&self);
        char *same = before_text(&self);
        const char *expected = self.expected != NULL ? self.expected : same;
        if (rewritten != NULL) {
            for (size_t i = first; strcmp(lines.items[i], "->") != 0; i++) {
                fprintf(rewritten, "%s\n", lines.items[i]);
            }
            fprintf(rewritten, "->\n%s", strcmp(actual, same) == 0 ? "same\n" : actual);
        } else if (strcmp(actual, expected) != 0) {
            print_error("%s: %s\n--- expected\n%s--- printed\n%s", path, self.title, expected, actual);
            fail();
        }
        free(actual);
        free(same);
        free(self.before);
        free(self.expected);
        cases++;
    }
    if (rewritten != NULL) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        rewind(rewritten);
        for (int c = fgetc(rewritten); c != EOF; c = fgetc(rewritten)) {
            (void)fputc(c, file);
        }
        (void)fclose(file);
        (void)fclose(rewritten);
    }
    free(lines.items);
    free(lines.text);
    assert_true(cases > 0);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void test_golden_files(void **state)
{
    static char names[128][64];
    size_t count = 0;
    (void)state;
    const char *only = getenv("WF_TEST_ONLY"); /* one file by name, while working on it */
    const char *folder = WF_TEST_SOURCE_DIR "/tests/plan/passes";
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        size_t length = strlen(entry->d_name);
        if (length > 3 && length < sizeof names[0] && strcmp(entry->d_name + length - 3, ".ir") == 0 &&
            (only == NULL || strncmp(entry->d_name, only, strlen(only)) == 0)) {
            assert_true(count < 128);
            memcpy(names[count++], entry->d_name, length + 1);
        }
    }
    (void)closedir(listing);
    qsort(names, count, sizeof names[0], compare_names);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        char path[512];
        assert_true(snprintf(path, sizeof path, "%s/%s", folder, names[i]) < (int)sizeof path);
        print_message("%s\n", names[i]);
        run_file(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
