/* SPDX-License-Identifier: Apache-2.0 */
/* The null source: its script, what it offers, what its launches do. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/null/null.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/parallel.h"
#include "op/problem.h"
#include "support/cmocka_all.h"

typedef struct fixture {
    void *self;
    wf_arena_t arena;
    const wf_problem_t *problem;
} fixture_t;

static void fixture_open(fixture_t *fixture, const char *problem, const char *script)
{
    wf_cpu_t cpu = {.thread_count = 1};
    wf_arena_init(&fixture->arena, wf_allocator_system());
    wf_assert_ok(wf_source_null.open(&cpu, wf_allocator_system(), (wf_log_t){0}, &fixture->self));
    wf_assert_ok(wf_problem_parse(problem, strlen(problem), &fixture->arena, &fixture->problem));
    if (script != NULL) {
        wf_assert_ok(wf_null_script(fixture->self, script, strlen(script)));
    }
}

static void fixture_close(fixture_t *fixture)
{
    wf_source_null.close(fixture->self);
    wf_arena_deinit(&fixture->arena);
}

typedef struct heard {
    wf_text_t text; /* one line per tactic or decline */
    const wf_problem_t *problem;
} heard_t;

static wf_status_t hear_offer(void *self, const wf_tactic_t *tactic)
{
    heard_t *heard = self;
    wf_text_printf(&heard->text, "%s ", tactic->id);
    for (size_t i = 0; i < heard->problem->operand_count; i++) {
        wf_text_printf(&heard->text, "%s,", wf_layout_name(tactic->operand_layouts[i]));
    }
    wf_text_printf(&heard->text, ">%s %g%s%s\n", wf_layout_name(tactic->output_layouts[0]),
                   tactic->estimate_ns, tactic->deterministic ? "" : " nondeterministic",
                   tactic->exact ? "" : " inexact");
    return WF_OK;
}

static void hear_decline(void *self, const char *family, wf_decline_t reason, const char *text)
{
    heard_t *heard = self;
    assert_int_equal(reason, WF_DECLINE_SCRIPTED);
    wf_text_printf(&heard->text, "no %s: %s\n", family, text);
}

static void assert_says(const char *problem, const char *script, const char *want)
{
    fixture_t fixture;
    fixture_open(&fixture, problem, script);
    heard_t heard = {.problem = fixture.problem};
    wf_text_init(&heard.text, wf_allocator_system(), 1 << 20);
    wf_tactic_sink_t sink = {.self = &heard, .offer = hear_offer, .decline = hear_decline};
    wf_assert_ok(wf_source_null.list(fixture.self, fixture.problem, &sink));
    assert_string_equal(wf_text_cstr(&heard.text), want);
    wf_text_deinit(&heard.text);
    fixture_close(&fixture);
}

#define RELU "v1 relu(x:f32[1,8,2,2])->f32[1,8,2,2]"
#define ADD "v1 add(x:f32[1,8,2,2],y:f32[2])+relu->f32[1,8,2,2]"
#define CONVERT "v1 wf.convert(x:f32[1,8,2,2]){from=row to=b8}->f32[1,8,2,2]"

static void scripts_say_what_is_offered(void **state)
{
    (void)state;
    assert_says(RELU,
                "relu null/a row>row 10\n# relu null/b row>row 10\n\nadd null/c row>row 1\nr*u null/d "
                "last>b8 2.5 inexact\n",
                "null/a row,>row 10\nnull/d last,>b8 2.5 inexact\n");
    assert_says(RELU, "relu+* null/a row>row 10\n", "no null: no line of the script fits\n");
    assert_says(RELU, "relu decline fast it is too slow\n* decline other\n",
                "no fast: it is too slow\nno other: \n");
    assert_says(ADD, "add+relu null/a last>b16 3 nondeterministic\n",
                "null/a last,row,>b16 3 nondeterministic\n");
    assert_says(ADD, "\"v1 add(*y:f32[2])*\" null/a b8,row>last 3\nv1?add(* null/b row>row 4\n",
                "null/a b8,row,>last 3\nnull/b row,row,>row 4\n");
    assert_says(CONVERT, "wf.convert null/c - 7\n", "null/c row,>b8 7\n");
    assert_says(RELU, "relu null/c - 7\n", "null/c row,>row 7\n");
}

static void everything_is_done_without_script(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_open(&fixture, ADD, NULL);
    wf_layout_t operands[2], output;
    wf_tactic_needs_t needs;
    wf_assert_ok(wf_source_null.query(fixture.self, fixture.problem, "null/any", operands, &output, &needs));
    assert_true(operands[0] == WF_LAYOUT_ROW && output == WF_LAYOUT_ROW && needs.may_alias == -1);
    wf_assert_fails(wf_source_null.query(fixture.self, fixture.problem, "null/other", NULL, NULL, &needs),
                    TACTIC_MISSING);
    fixture_close(&fixture);
}

static void unreadable_scripts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "relu\n",
        "relu null/a\n",
        "relu null/a row>row\n",
        "relu null/a row>row ten\n",
        "relu null/a row>row 0\n",
        "relu native/a row>row 1\n",
        "relu null/a row>row 1 fault=unknown\n",
        "relu null/a row>row 1 workspace=-1\n",
        "relu decline\n",
    };
    fixture_t fixture;
    fixture_open(&fixture, RELU, "relu null/kept row>row 1\n");
    for (size_t i = 0; i < WF_COUNT_OF(bad); i++) {
        char text[256];
        int length = snprintf(text, sizeof text, "# first\n%s", bad[i]);
        wf_status_t status = wf_null_script(fixture.self, text, (size_t)length);
        assert_int_equal(wf_status_code(status), WF_CODE_USAGE);
        assert_non_null(strstr(wf_status_message(status), "line 2"));
        wf_status_free(status);
    }
    wf_tactic_needs_t needs;
    wf_assert_ok(wf_source_null.query(fixture.self, fixture.problem, "null/kept", NULL, NULL, &needs));
    fixture_close(&fixture);
}

/* Launches `tactic` on 1 .. 32 and two guard values; returns its status. */
static wf_status_t launch(const fixture_t *fixture, const char *tactic, float out[48])
{
    float in[48];
    for (int i = 0; i < 48; i++) {
        in[i] = (float)(i + 1);
        out[i] = -1;
    }
    wf_kernel_t *kernel;
    wf_tensor_t constants[2] = {{.data = NULL}, {.data = NULL}};
    WF_TRY(wf_source_null.prepare(fixture->self, fixture->problem, tactic, constants, wf_allocator_system(),
                                  &kernel));
    wf_view_t operands[2] = {{.data = in}, {.data = in}}, output = {.data = out};
    wf_parallel_t parallel = wf_parallel_inline();
    wf_status_t status = wf_source_null.launch(fixture->self, kernel, operands, &output, NULL, &parallel);
    wf_source_null.release(fixture->self, kernel);
    return status;
}

static void launches_do_what_they_were_told(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_open(&fixture, RELU,
                 "relu null/copy row>row 1\n"
                 "relu null/wrong row>row 1 fault=wrong\n"
                 "relu null/overrun row>row 1 fault=overrun\n"
                 "relu null/error row>row 1 fault=error\n"
                 "relu null/prepare row>row 1 fault=prepare\n"
                 "relu null/slow row>row 1 slow=2000000\n");
    float out[48];
    wf_assert_ok(launch(&fixture, "null/copy", out));
    assert_true(out[0] == 1 && out[31] == 32 && out[32] == -1);
    wf_assert_ok(launch(&fixture, "null/wrong", out));
    assert_true(isnan(out[0]) && isnan(out[31]) && out[32] == -1);
    wf_assert_ok(launch(&fixture, "null/overrun", out));
    assert_true(out[31] == 32 && out[32] != -1 && out[47] != -1);
    wf_assert_fails(launch(&fixture, "null/error", out), RUNTIME_DATA);
    wf_assert_fails(launch(&fixture, "null/prepare", out), INTERNAL);
    uint64_t start_ns = wf_clock_ns();
    wf_assert_ok(launch(&fixture, "null/slow", out));
    assert_true(wf_clock_ns() - start_ns >= 2000000);
    fixture_close(&fixture);
}

/* Blocks of 16 hold more than the operand has: nothing to copy. */
static void other_sizes_are_zero(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_open(&fixture, "v1 relu(x:f32[1,4,2,2])->f32[1,4,2,2]", "relu null/wide row>b8 1\n");
    float out[48];
    wf_assert_ok(launch(&fixture, "null/wide", out));
    for (int i = 0; i < 48; i++) {
        assert_true(out[i] == (i < 32 ? 0 : -1));
    }
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_say_what_is_offered),    cmocka_unit_test(everything_is_done_without_script),
        cmocka_unit_test(unreadable_scripts_are_refused), cmocka_unit_test(launches_do_what_they_were_told),
        cmocka_unit_test(other_sizes_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
