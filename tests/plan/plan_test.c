/* SPDX-License-Identifier: Apache-2.0 */
/* Golden plans: *.plan in this folder. A case is a graph, a script for the null source, and the plan and
 * explanation that must come out, to the letter. With WF_TEST_UPDATE set, files are rewritten with what comes
 * out.
 *
 *   text that says what the case shows
 *   --- graph
 *   --- knobs       optional: "name value" per line
 *   --- script
 *   --- plan
 *   --- explain
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "backends/null/null.h"
#include "base/compiler.h"
#include "base/file.h"
#include "route/explain.h"
#include "route/space.h"
#include "support/cmocka_all.h"

enum { CASES_MAX = 256, FILE_MAX_BYTES = 1 << 20 };

enum section {
    SECTION_ABOUT,
    SECTION_GRAPH,
    SECTION_KNOBS,
    SECTION_SCRIPT,
    SECTION_PLAN,
    SECTION_EXPLAIN,
    SECTION_COUNT
};
static const char *const section_names[SECTION_COUNT] = {"about",  "graph", "knobs",
                                                         "script", "plan",  "explain"};

typedef struct piece {
    const char *data;
    size_t bytes;
} piece_t;

static void case_path(const char *name, char *path, size_t capacity)
{
    snprintf(path, capacity, "%s/tests/plan/%s", WF_TEST_SOURCE_DIR, name);
}

/* Cuts the text at its "--- name" lines. */
static void split_case(const char *text, piece_t sections[SECTION_COUNT])
{
    memset(sections, 0, SECTION_COUNT * sizeof *sections);
    enum section current = SECTION_ABOUT;
    sections[current].data = text;
    for (const char *line = text; *line != 0;) {
        const char *end = line + strcspn(line, "\n");
        const char *next = *end == 0 ? end : end + 1;
        if (strncmp(line, "--- ", 4) == 0) {
            enum section found = SECTION_COUNT;
            for (enum section s = SECTION_GRAPH; s < SECTION_COUNT; s++) {
                if (strlen(section_names[s]) == (size_t)(end - line) - 4 &&
                    memcmp(section_names[s], line + 4, (size_t)(end - line) - 4) == 0) {
                    found = s;
                }
            }
            if (found == SECTION_COUNT) {
                fail_msg("unknown section: %.*s", (int)(end - line), line);
            }
            current = found;
            sections[current].data = next;
        } else {
            sections[current].bytes = (size_t)(next - sections[current].data);
        }
        line = next;
    }
}

static void apply_knobs(wf_knobs_t *knobs, piece_t section)
{
    char text[1024];
    assert_true(section.bytes < sizeof text);
    if (section.bytes > 0) {
        memcpy(text, section.data, section.bytes);
    }
    text[section.bytes] = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *name = strsep(&line, " ");
        if (line != NULL) {
            wf_assert_ok(wf_knobs_set(knobs, name, line));
        }
    }
}

typedef struct fixture {
    wf_allocator_t allocator;
    wf_graph_t *graph;
    wf_backends_t *backends;
    wf_space_t *space;
} fixture_t;

static void fixture_open(fixture_t *fixture, const piece_t sections[SECTION_COUNT])
{
    fixture->allocator = wf_allocator_system();
    wf_assert_ok(wf_graph_parse(sections[SECTION_GRAPH].data, sections[SECTION_GRAPH].bytes,
                                fixture->allocator, &fixture->graph));
    wf_assert_ok(wf_graph_verify(fixture->graph));
    const char *only[] = {"null", NULL};
    wf_backends_options_t backends = {.only = only};
    wf_cpu_t cpu = {.thread_count = 1};
    wf_assert_ok(wf_backends_open(&cpu, &backends, fixture->allocator, (wf_log_t){0}, &fixture->backends));
    void *null;
    (void)wf_backends_source(fixture->backends, 0, &null);
    wf_assert_ok(wf_null_script(null, sections[SECTION_SCRIPT].data, sections[SECTION_SCRIPT].bytes));
    wf_space_options_t options = {.allocator = fixture->allocator};
    wf_knobs_default(&options.knobs);
    apply_knobs(&options.knobs, sections[SECTION_KNOBS]);
    wf_assert_ok(wf_space_create(fixture->graph, fixture->backends, &options, &fixture->space));
}

static void fixture_close(fixture_t *fixture)
{
    wf_space_destroy(fixture->space);
    wf_backends_close(fixture->backends);
    wf_graph_destroy(fixture->graph);
}

/* What the plan says when it is read back, and its cost, are those of the route. */
static void check_round_trip(fixture_t *fixture, const wf_route_t *route, const wf_text_t *plan)
{
    wf_route_t again;
    wf_assert_ok(wf_plan_parse(fixture->space, wf_text_cstr(plan), plan->length, &again));
    assert_int_equal(again.count, route->count);
    assert_memory_equal(again.items, route->items, route->count * sizeof *route->items);
    assert_true(again.cost_ns == route->cost_ns);
    wf_route_deinit(&again);
}

static bool update_wanted(void)
{
    return getenv("WF_TEST_UPDATE") != NULL;
}

static void write_case(const char *path, const piece_t sections[SECTION_COUNT], const char *plan,
                       const char *explain)
{
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), FILE_MAX_BYTES);
    for (enum section s = SECTION_ABOUT; s < SECTION_PLAN; s++) {
        if (s != SECTION_ABOUT && sections[s].data == NULL) {
            continue;
        }
        if (s != SECTION_ABOUT) {
            wf_text_printf(&text, "--- %s\n", section_names[s]);
        }
        wf_text_append(&text, sections[s].data, sections[s].bytes);
    }
    wf_text_printf(&text, "--- plan\n%s--- explain\n%s", plan, explain);
    wf_assert_ok(wf_file_write(path, 0644, wf_text_cstr(&text), text.length));
    wf_text_deinit(&text);
}

static void assert_section(const char *name, piece_t want, const wf_text_t *got)
{
    if (want.bytes != got->length || memcmp(want.data, wf_text_cstr(got), got->length) != 0) {
        fail_msg("%s is not as expected.\nexpected:\n%.*s\ngot:\n%s", name, (int)want.bytes,
                 want.bytes > 0 ? want.data : "", wf_text_cstr(got));
    }
}

static void test_case(void **state)
{
    const char *name = *state;
    char path[4096], *text;
    size_t bytes;
    case_path(name, path, sizeof path);
    wf_assert_ok(wf_file_read(path, FILE_MAX_BYTES, wf_allocator_system(), &text, &bytes));
    piece_t sections[SECTION_COUNT];
    split_case(text, sections);
    fixture_t fixture;
    fixture_open(&fixture, sections);

    wf_route_t route;
    wf_assert_ok(wf_space_solve(fixture.space, &route));
    wf_assert_ok(wf_route_check(fixture.space, &route));
    assert_true(route.exact);
    double cost_ns;
    wf_assert_ok(wf_route_cost(fixture.space, &route, &cost_ns));
    assert_true(cost_ns == route.cost_ns); /* scripted costs are small integers: no rounding */

    wf_text_t plan, explained;
    wf_text_init(&plan, fixture.allocator, FILE_MAX_BYTES);
    wf_assert_ok(wf_plan_print(fixture.space, &route, &plan));
    check_round_trip(&fixture, &route, &plan);
    wf_explain_t explain;
    wf_assert_ok(wf_explain_make(fixture.space, &route, fixture.allocator, &explain));
    wf_text_init(&explained, fixture.allocator, FILE_MAX_BYTES);
    wf_assert_ok(wf_explain_print(fixture.space, &explain, &explained));
    if (update_wanted()) {
        write_case(path, sections, wf_text_cstr(&plan), wf_text_cstr(&explained));
    } else {
        assert_section("plan", sections[SECTION_PLAN], &plan);
        assert_section("explain", sections[SECTION_EXPLAIN], &explained);
    }
    wf_text_deinit(&explained);
    wf_text_deinit(&plan);
    wf_explain_deinit(&explain);
    wf_route_deinit(&route);
    fixture_close(&fixture);
    wf_free(wf_allocator_system(), text, bytes + 1, 1);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

static size_t find_cases(struct CMUnitTest *tests)
{
    char path[4096];
    case_path("", path, sizeof path);
    size_t count = 0;
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot != NULL && strcmp(dot, ".plan") == 0 && count < CASES_MAX) {
            char *name = strdup(entry->d_name);
            tests[count++] = (struct CMUnitTest){.name = name, .test_func = test_case, .initial_state = name};
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    qsort(tests, count, sizeof *tests, by_name);
    return count;
}

int main(void)
{
    static struct CMUnitTest tests[CASES_MAX];
    size_t count = find_cases(tests);
    if (count == 0) {
        fprintf(stderr, "no cases found\n");
        return 1;
    }
    int failed = _cmocka_run_group_tests("plan", tests, count, NULL, NULL);
    for (size_t i = 0; i < count; i++) {
        free(tests[i].initial_state);
    }
    return failed;
}
