/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning from graph to engine: with good tactics, with bad ones, stopped, killed, resumed. Models are small
 * graphs as text; tactics that misbehave are the null source's. */
#include "tune/tuner.h"

#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "support/cmocka_all.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "wayfinder/engine.h"

#define WORKER WF_TEST_BUILD_DIR "/wayfinder-worker"

/* Pointwise and depthwise convolutions, a residual and a row softmax: several groups, layouts and kernels. */
static const char model_text[] = "graph \"tiny\" {\n"
                                 "  input %%x : f32[1,8,%d,%d]\n"
                                 "  const %%w : f32[8,8,1,1] = {%s}\n"
                                 "  const %%d : f32[8,1,2,2] = {%s}\n"
                                 "  const %%b : f32[8] = {1, -2, 3, 4, 5, -6, 7, 8}\n"
                                 "  %%c = Conv(%%x, %%w, %%b)\n"
                                 "  %%r = Relu(%%c)\n"
                                 "  %%e = Conv(%%r, %%d) {group=8 kernel_shape=[2,2]}\n"
                                 "  %%f = Conv(%%e, %%w)\n"
                                 "  %%s = Sigmoid(%%f)\n"
                                 "  %%m = Mul(%%f, %%s)\n"
                                 "  %%y = GlobalAveragePool(%%m)\n"
                                 "  output %%y\n"
                                 "  output %%m\n"
                                 "}\n";

typedef struct fixture {
    char folder[2000], engine[2100], database[2100], record[2100];
    wf_job_t *job;
    wf_tune_options_t options;
    wf_tune_result_t result;
    json_t *report;
    int size; /* of the image */
    bool makes_jobs;
    int jobs_made;

    /* what the event callback does */
    int events[WF_TUNE_TICK + 1];
    int stop_after_timings; /* 0: never */
    bool kills_worker;
    int killed;
    char last_fault[600];
} fixture_t;

static void numbers(char *out, size_t capacity, int count, uint64_t seed)
{
    wf_random_t random = {seed};
    size_t at = 0;
    for (int i = 0; i < count; i++)
        at +=
            (size_t)snprintf(out + at, capacity - at, "%s%.4f", i > 0 ? ", " : "", wf_random_float(&random));
}

static wf_graph_t *parse_model(int size)
{
    char w[2000], d[1000], text[6000];
    numbers(w, sizeof w, 64, 1);
    numbers(d, sizeof d, 32, 2);
    (void)snprintf(text, sizeof text, model_text, size, size, w, d);
    wf_graph_t *graph;
    wf_assert_ok(wf_graph_parse(text, strlen(text), wf_allocator_system(), &graph));
    return graph;
}

/* ---- Events ---- */

/* Kills the first child of this process that is a worker. */
static bool kill_worker(void)
{
    DIR *processes = opendir("/proc");
    bool killed = false;
    for (struct dirent *entry; !killed && processes != NULL && (entry = readdir(processes)) != NULL;) {
        char path[300], line[400] = "", name[64] = "";
        int pid = 0, parent = 0;
        char state;
        (void)snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (file == NULL)
            continue;
        if (fgets(line, sizeof line, file) != NULL &&
            sscanf(line, "%d (%63[^)]) %c %d", &pid, name, &state, &parent) == 4 && parent == (int)getpid() &&
            strncmp(name, "wayfinder-worke", 15) == 0 && state != 'Z')
            killed = kill(pid, SIGKILL) == 0;
        (void)fclose(file);
    }
    if (processes != NULL)
        closedir(processes);
    return killed;
}

static bool on_event(void *self, const wf_tune_event_t *event)
{
    fixture_t *f = self;
    f->events[event->kind]++;
    if (getenv("WF_TEST_VERBOSE") != NULL && event->kind != WF_TUNE_TICK)
        print_message("%7.2f %d %s\n", event->elapsed_s, (int)event->kind, event->text);
    if (event->kind == WF_TUNE_FAULT)
        (void)snprintf(f->last_fault, sizeof f->last_fault, "%s", event->text);
    if (f->kills_worker && event->kind == WF_TUNE_TIMING && f->killed < 3)
        f->killed += kill_worker();
    return f->stop_after_timings != 0 && f->events[WF_TUNE_TIMING] >= f->stop_after_timings;
}

/* ---- Jobs ---- */

static int set_up(void **state)
{
    fixture_t *f = calloc(1, sizeof *f);
    wf_temp_folder_make(f->folder, sizeof f->folder);
    (void)snprintf(f->engine, sizeof f->engine, "%s/engine.wfe", f->folder);
    (void)snprintf(f->database, sizeof f->database, "%s/timings.db", f->folder);
    (void)snprintf(f->record, sizeof f->record, "%s/record.jsonl", f->folder);
    f->size = 12;
    f->options = (wf_tune_options_t){.struct_bytes = sizeof f->options,
                                     .build = {.struct_bytes = sizeof f->options.build,
                                               .thread_count = 2,
                                               .allocator = wf_allocator_system()},
                                     .output_path = f->engine,
                                     .budget_s = 6,
                                     .timing_cache = f->database,
                                     .record = f->record,
                                     .worker_path = WORKER,
                                     .event = on_event,
                                     .event_self = f};
    *state = f;
    return 0;
}

static void forget_result(fixture_t *f)
{
    json_decref(f->report);
    f->report = NULL;
    if (f->result.report_json != NULL)
        wf_free(f->result.allocator, f->result.report_json, strlen(f->result.report_json) + 1, 1);
    memset(&f->result, 0, sizeof f->result);
}

static int tear_down(void **state)
{
    fixture_t *f = *state;
    forget_result(f);
    wf_temp_folder_remove(f->folder);
    unsetenv("WAYFINDER_NULL_SCRIPT");
    free(f);
    return 0;
}

/* Another job of the same model, with other settings. */
static wf_status_t make_job(void *self, const wf_build_options_t *options, wf_job_t **out_job)
{
    fixture_t *f = self;
    wf_graph_t *reference = parse_model(f->size), *graph = parse_model(f->size);
    wf_job_source_t source = {&reference, &graph, NULL, 1, "00112233445566778899aabbccddeeff"};
    f->jobs_made++;
    return wf_job_create(&source, options, out_job);
}

/* Makes the job and tunes it; two_specs: for two image sizes. */
static wf_status_t tune_sizes(fixture_t *f, bool two_specs)
{
    wf_graph_t *references[2], *graphs[2];
    size_t count = two_specs ? 2 : 1;
    uint64_t start_ns = wf_clock_ns();
    for (size_t i = 0; i < count; i++) {
        references[i] = parse_model(f->size * (int)(i + 1));
        graphs[i] = parse_model(f->size * (int)(i + 1));
    }
    wf_job_source_t source = {references, graphs, NULL, count, "00112233445566778899aabbccddeeff"};
    wf_job_t *job;
    forget_result(f);
    memset(f->events, 0, sizeof f->events);
    wf_assert_ok(wf_job_create(&source, &f->options.build, &job));
    wf_job_maker_t maker = {f, make_job};
    if (f->makes_jobs)
        job->maker = &maker;
    wf_status_t status = wf_tuner_run(job, &f->options, start_ns, &f->result);
    wf_job_destroy(job);
    f->report = f->result.report_json != NULL ? json_loads(f->result.report_json, 0, NULL) : NULL;
    return status;
}

static wf_status_t tune(fixture_t *f)
{
    return tune_sizes(f, false);
}

static void script(fixture_t *f, const char *text)
{
    char path[2100];
    wf_temp_file_write(f->folder, "script", text);
    (void)snprintf(path, sizeof path, "%s/script", f->folder);
    assert_int_equal(setenv("WAYFINDER_NULL_SCRIPT", path, 1), 0);
}

static void check_engine_file(const fixture_t *f)
{
    wf_engine_t *engine;
    wf_assert_ok(wf_engine_open(f->engine, NULL, &engine));
    assert_true(wf_engine_step_count(engine, 0) > 0);
    wf_engine_close(engine);
}

static double report_number(const fixture_t *f, const char *object, const char *key)
{
    const json_t *from = object != NULL ? json_object_get(f->report, object) : f->report;
    const json_t *value = json_object_get(from, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static bool is_quarantined(const fixture_t *f, const char *tactic, const char *word)
{
    size_t index;
    const json_t *row;
    json_array_foreach(json_object_get(f->report, "quarantined"), index, row)
    {
        const char *name = json_string_value(json_object_get(row, "tactic"));
        const char *reason = json_string_value(json_object_get(row, "reason"));
        if (name != NULL && strcmp(name, tactic) == 0 && strstr(reason, word) != NULL)
            return true;
    }
    return false;
}

static size_t count_quarantined(const fixture_t *f, const char *tactic)
{
    size_t index, count = 0;
    const json_t *row;
    json_array_foreach(json_object_get(f->report, "quarantined"), index, row)
    {
        const char *name = json_string_value(json_object_get(row, "tactic"));
        count += name != NULL && strcmp(name, tactic) == 0;
    }
    return count;
}

static size_t record_lines(const fixture_t *f)
{
    char *text;
    size_t bytes, lines = 0;
    wf_assert_ok(wf_file_read(f->record, 1 << 24, wf_allocator_system(), &text, &bytes));
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    free(text);
    return lines;
}

/* ---- Good weather ---- */

static void tunes_and_remembers(void **state)
{
    fixture_t *f = *state;
    wf_assert_ok(tune(f));
    check_engine_file(f);
    assert_int_equal(report_number(f, NULL, "schema_version"), 1);
    assert_true(f->result.timings_measured > 0);
    assert_int_equal(report_number(f, "timings", "measured"), f->result.timings_measured);
    assert_true(report_number(f, "default", "median_ns") > 0);
    assert_true(report_number(f, "default", "lo95_ns") <= report_number(f, "default", "median_ns"));
    assert_true(report_number(f, "final", "median_ns") > 0);
    assert_true(report_number(f, NULL, "ratio") > 0);
    assert_true(report_number(f, NULL, "elapsed_s") > 0);
    assert_true(json_array_size(json_object_get(f->report, "stages")) >= 5);
    assert_true(json_array_size(json_object_get(f->report, "accuracy")) >= 2);
    assert_int_equal(f->events[WF_TUNE_DEFAULT], 1);
    assert_true(f->events[WF_TUNE_STAGE] >= 5 && f->events[WF_TUNE_TIMING] > 0);
    /* adopted only when the whole interval is below one */
    assert_true(f->result.adopted == (f->result.ratio_hi95 < 1));
    assert_string_equal(json_string_value(json_object_get(f->report, "verdict")),
                        f->result.adopted ? "adopted" : "default kept");

    double first_s = report_number(f, NULL, "elapsed_s"), ratio = f->result.ratio;
    bool adopted = f->result.adopted;
    wf_assert_ok(tune(f));
    check_engine_file(f);
    assert_int_equal(f->result.timings_measured, 0);
    assert_true(f->result.timings_reused > 0);
    assert_true(json_is_true(json_object_get(f->report, "recalled")));
    assert_true(f->result.ratio == ratio && f->result.adopted == adopted);
    print_message("first %.2f s, again %.2f s\n", first_s, report_number(f, NULL, "elapsed_s"));
}

static void keeps_its_budget(void **state)
{
    fixture_t *f = *state;
    f->options.budget_s = 5;
    wf_assert_ok(tune(f));
    /* The contract is 1 s beyond; machines of tests are busy. */
    assert_true(report_number(f, NULL, "elapsed_s") < 7.5);
}

static void a_budget_too_small_still_gives_the_default(void **state)
{
    fixture_t *f = *state;
    f->options.budget_s = 0.001;
    wf_assert_ok(tune(f));
    check_engine_file(f);
    assert_false(f->result.adopted);
    assert_non_null(strstr(json_string_value(json_object_get(f->report, "verdict")), "no time"));
    assert_int_equal(f->result.timings_measured, 0);
    assert_int_equal(f->events[WF_TUNE_DEFAULT], 1);
}

static void tunes_several_shapes(void **state)
{
    fixture_t *f = *state;
    wf_assert_ok(tune_sizes(f, true));
    wf_engine_t *engine;
    wf_assert_ok(wf_engine_open(f->engine, NULL, &engine));
    assert_int_equal(wf_engine_spec_count(engine), 2);
    wf_engine_close(engine);
    assert_true(f->result.timings_measured > 0);
}

/* The engine carries a lock that makes the same bytes again, with evidence per step. */
/* Every strategy keeps its budget and its trials, writes a checked engine and says what it did. */
static void every_strategy_ends_with_an_engine(void **state)
{
    static const char *const names[] = {"joint", "fast", "full", "mixed", "greedy", "random"};
    fixture_t *f = *state;
    for (size_t s = 0; s < 6; s++) {
        char record[2200];
        (void)snprintf(record, sizeof record, "%s/record.%s", f->folder, names[s]);
        f->options.record = record;
        f->options.strategy = names[s];
        f->options.trial_limit = 24;
        f->options.budget_s = 3;
        wf_assert_ok(tune(f));
        check_engine_file(f);
        FILE *lines = fopen(record, "r");
        char line[65536];
        size_t trials = 0;
        bool named = false, ended = false;
        assert_non_null(lines);
        while (fgets(line, sizeof line, lines) != NULL) {
            json_t *row = json_loads(line, 0, NULL);
            assert_non_null(row);
            trials += json_array_size(json_object_get(row, "trials"));
            const char *type = json_string_value(json_object_get(row, "type"));
            const char *algorithm = json_string_value(json_object_get(row, "searching_algorithm"));
            named |= algorithm != NULL && strcmp(algorithm, names[s]) == 0;
            ended |= type != NULL && strcmp(type, "end") == 0;
            json_decref(row);
        }
        (void)fclose(lines);
        assert_true(named && ended);
        assert_true(trials <= 24);
        if (strcmp(names[s], "greedy") != 0 && strcmp(names[s], "joint") != 0)
            assert_true(trials > 0);
    }
}

/* A tiny model is faster with one thread: found when the user leaves threads open, written with its lock, and
 * found again by the next tuning. */
static void threads_and_listed_knobs_are_tried(void **state)
{
    fixture_t *f = *state;
    f->makes_jobs = true;
    f->options.build.settings = (const wf_setting_t[]){{"cpu.threads", "[1/2]"}, {"fuse.epilogue", "on,off"}};
    f->options.build.setting_count = 2;
    f->options.build.thread_count = 0;
    for (int run = 0; run < 2; run++) {
        f->jobs_made = 0;
        wf_assert_ok(tune(f));
        check_engine_file(f);
        wf_engine_t *engine;
        wf_assert_ok(wf_engine_open(f->engine, NULL, &engine));
        wf_engine_facts_t facts = wf_engine_facts(engine);
        char line[40];
        (void)snprintf(line, sizeof line, "\nthreads %u\n", facts.thread_count);
        assert_non_null(strstr(facts.lock, line));
        assert_non_null(strstr(facts.lock, "setting source.native on\n"));
        wf_engine_close(engine);
        if (run == 0)
            assert_int_equal(f->jobs_made, 3); /* two by two, without the default */
        else
            assert_true(f->jobs_made <= 1 && report_number(f, "timings", "measured") == 0);
    }
}

static void expect_verdict(const fixture_t *f, bool met, const char *word)
{
    const json_t *target = json_object_get(f->report, "target");
    assert_true(json_is_boolean(json_object_get(target, "met")));
    assert_true(json_is_true(json_object_get(target, "met")) == met);
    assert_non_null(strstr(json_string_value(json_object_get(target, "verdict")), word));
}

static void targets_are_judged(void **state)
{
    fixture_t *f = *state;
    f->options.target = "p50<=10s and memory<=100GiB and throughput>=0.001/s";
    wf_assert_ok(tune(f)); /* by the default: nothing else is measured */
    expect_verdict(f, true, "met");
    assert_int_equal(f->events[WF_TUNE_TIMING], 0);
    check_engine_file(f);
    (void)unlink(f->record); /* another target is another search */
    f->options.target = "p50<=0.001ns";
    f->options.budget_s = 3;
    wf_assert_fails(tune(f), TARGET_NOT_MET);
    expect_verdict(f, false, "unreachable");
    check_engine_file(f);
    (void)unlink(f->record);
    f->options.target = "memory<=1B";
    wf_assert_fails(tune(f), TARGET_NOT_MET);
    expect_verdict(f, false, "not met");
    f->options.target = "p99<=4ms and p50<=5ms";
    wf_assert_fails(tune(f), USAGE);
    f->options.target = NULL;
    f->options.objective = "speed";
    wf_assert_fails(tune(f), USAGE);
    (void)unlink(f->record);
    f->options.objective = "latency=0.5,memory=0.5";
    wf_assert_ok(tune(f));
}

/* Every step of what is written says what it beat; what is not known is null. */
static void the_report_explains(void **state)
{
    fixture_t *f = *state;
    wf_assert_ok(tune(f));
    const json_t *choices = json_object_get(f->report, "choices"), *row;
    size_t index;
    assert_true(json_array_size(choices) >= 3);
    json_array_foreach(choices, index, row)
    {
        assert_true(json_is_string(json_object_get(row, "problem")));
        assert_true(json_is_string(json_object_get(row, "tactic")));
        assert_true(json_real_value(json_object_get(row, "alone_ns")) >= 0);
        if (json_object_get(row, "runner_up") != NULL)
            assert_true(json_is_real(json_object_get(row, "margin")));
    }
    assert_true(report_number(f, "headroom", "roofline_ns") > report_number(f, "headroom", "least_ns"));
    assert_non_null(json_object_get(json_object_get(f->report, "gain"), "next_minute"));
    assert_non_null(json_object_get(json_object_get(f->report, "search"), "in_context"));
}

static void a_dry_run_touches_nothing(void **state)
{
    fixture_t *f = *state;
    f->options.dry_run = true;
    f->options.strategy = "fast";
    wf_assert_ok(tune(f));
    const json_t *plan = json_object_get(f->report, "dry_run");
    assert_true(json_integer_value(json_object_get(plan, "factors")) > 3);
    assert_true(json_integer_value(json_object_get(plan, "trials")) >=
                json_integer_value(json_object_get(plan, "factors")));
    assert_true(json_real_value(json_object_get(plan, "seconds")) > 0);
    assert_int_equal(access(f->engine, F_OK), -1);
    assert_int_equal(access(f->record, F_OK), -1);
    f->options.strategy = "joint";
    wf_assert_ok(tune(f));
    plan = json_object_get(f->report, "dry_run");
    assert_true(json_is_null(json_object_get(plan, "trials")));
    assert_true(json_integer_value(json_object_get(plan, "tactics_to_measure")) > 3);
}

static void unknown_strategies_are_refused(void **state)
{
    fixture_t *f = *state;
    f->options.strategy = "fats";
    wf_status_t status = tune(f);
    assert_int_equal(wf_status_code(status), WF_CODE_USAGE);
    wf_status_free(status);
}

static void the_lock_rebuilds_the_engine(void **state)
{
    fixture_t *f = *state;
    wf_engine_t *engine;
    char *bytes;
    size_t length;
    wf_assert_ok(tune(f));
    wf_assert_ok(wf_engine_open(f->engine, NULL, &engine));
    char *lock = strdup(wf_engine_facts(engine).lock);
    wf_engine_close(engine);
    wf_assert_ok(wf_file_read(f->engine, 1 << 26, wf_allocator_system(), &bytes, &length));
    const char *evidence = strstr(lock, "[evidence]\n");
    assert_non_null(evidence);
    assert_non_null(strstr(evidence, "measured"));
    wf_graph_t *reference = parse_model(f->size), *graph = parse_model(f->size);
    wf_job_source_t source = {&reference, &graph, NULL, 1, "00112233445566778899aabbccddeeff"};
    wf_job_t *job;
    wf_route_t *routes;
    uint8_t *again;
    size_t again_length;
    wf_assert_ok(wf_job_create(&source, &f->options.build, &job));
    wf_assert_ok(wf_job_routes_from_lock(job, lock, &routes));
    wf_assert_ok(wf_job_engine(job, routes, lock, &again, &again_length));
    assert_int_equal(again_length, length);
    assert_memory_equal(again, bytes, length);
    wf_free_aligned(job->allocator, again, again_length, 1, 64);
    wf_job_routes_free(job, routes);
    wf_job_destroy(job);
    free(lock);
    free(bytes);
}

/* ---- Cached only ---- */

static void cached_only_never_measures(void **state)
{
    fixture_t *f = *state;
    f->options.require_cached = true;
    f->options.worker_path = "/nowhere/worker";
    wf_status_t status = tune(f);
    assert_int_equal(wf_status_code(status), WF_CODE_CACHE_MISS);
    assert_non_null(strstr(wf_status_message(status), "v1 "));
    wf_status_free(status);
    assert_int_equal(access(f->engine, F_OK), -1);
    f->options.require_cached = false;
    f->options.worker_path = WORKER;
    wf_assert_ok(tune(f));
    f->options.require_cached = true;
    f->options.worker_path = "/nowhere/worker";
    wf_assert_ok(tune(f));
    assert_int_equal(f->result.timings_measured, 0);
    check_engine_file(f);
}

static void without_worker_there_is_no_tuning(void **state)
{
    fixture_t *f = *state;
    f->options.worker_path = "/nowhere/worker";
    wf_assert_fails(tune(f), FILE_MISSING);
    f->options.worker_path = "/bin/false";
    wf_status_t status = tune(f);
    assert_non_null(status);
    wf_status_free(status);
    check_engine_file(f); /* the default was written before it was needed */
}

/* ---- Stopped, resumed ---- */

static void stopping_keeps_an_engine_and_the_record(void **state)
{
    fixture_t *f = *state;
    f->stop_after_timings = 4;
    wf_assert_fails(tune(f), INTERRUPTED);
    check_engine_file(f);
    size_t lines = record_lines(f), measured = f->result.timings_measured;
    assert_true(lines >= 2 && measured >= 1);
    f->stop_after_timings = 0;
    wf_assert_ok(tune(f));
    assert_true(f->result.timings_reused >= measured);
    assert_true(record_lines(f) > lines);
    check_engine_file(f);
}

/* The record alone is enough to go on: the database was lost. */
static void the_record_brings_timings_back(void **state)
{
    fixture_t *f = *state;
    char other[2200];
    f->stop_after_timings = 4;
    wf_assert_fails(tune(f), INTERRUPTED);
    f->stop_after_timings = 0;
    (void)snprintf(other, sizeof other, "%s/other.db", f->folder);
    f->options.timing_cache = other;
    wf_assert_ok(tune(f));
    assert_true(f->result.timings_reused > 0);
    /* fresh begins a new one */
    (void)snprintf(other, sizeof other, "%s/third.db", f->folder);
    f->options.fresh = true;
    wf_assert_ok(tune(f));
    assert_int_equal(f->result.timings_reused, 0);
}

static void records_of_others_are_refused(void **state)
{
    fixture_t *f = *state;
    f->stop_after_timings = 1;
    wf_assert_fails(tune(f), INTERRUPTED);
    f->stop_after_timings = 0;
    f->size = 10;
    wf_status_t status = tune(f);
    assert_int_equal(wf_status_exit_code(status), 9);
    assert_int_equal(wf_status_code(status), WF_CODE_RECORD_MISMATCH);
    wf_status_free(status);
    wf_temp_file_write(f->folder, "record.jsonl", "dear diary\n");
    wf_assert_fails(tune(f), RECORD_MISMATCH);
}

static int child_tune(const char *folder)
{
    void *state;
    (void)set_up(&state);
    fixture_t *f = state;
    (void)snprintf(f->engine, sizeof f->engine, "%s/engine.wfe", folder);
    (void)snprintf(f->database, sizeof f->database, "%s/timings.db", folder);
    (void)snprintf(f->record, sizeof f->record, "%s/record.jsonl", folder);
    f->options.budget_s = 60;
    wf_status_t status = tune(f);
    wf_status_free(status);
    (void)tear_down(&state);
    return 0;
}

/* kill -9 of the tuner at a random moment, again and again; each time goes on from the last. */
static void killed_tunings_are_resumed(void **state)
{
    fixture_t *f = *state;
    wf_random_t random = wf_random_start("kill", 31);
    size_t lines = 0;
    for (int round = 0; round < 3; round++) {
        char name[] = "tune_test", role[] = "tune";
        char *argv[] = {name, role, f->folder, NULL};
        wf_process_t process;
        int how;
        wf_assert_ok(wf_process_start("/proc/self/exe", argv, &process));
        useconds_t wait_us = (useconds_t)(300000 + wf_random_below(&random, 1200000));
        usleep(wait_us);
        bool over = wf_process_ended(&process, &how);
        wf_process_kill(&process);
        size_t now = access(f->record, F_OK) == 0 ? record_lines(f) : 0;
        assert_true(over || now + 1 >= lines); /* at most the torn one is lost */
        lines = now;
    }
    wf_assert_ok(tune(f));
    check_engine_file(f);
    print_message("%zu lines before the last run, %llu timings reused\n", lines,
                  (unsigned long long)f->result.timings_reused);
    assert_true(lines < 3 || f->result.timings_reused > 0);
}

/* ---- Bad tactics ---- */

/* So that the next tuning has to look for itself. */
static void forget_outcomes(const fixture_t *f)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f->database, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DELETE FROM outcome", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Slower than what is there by their own account, so that none is in the default route. */
static const char bad_script[] = "conv null/crash - 20000 fault=crash\n"
                                 "conv null/hang - 20000 fault=hang\n"
                                 "conv null/error - 20000 fault=error\n"
                                 "conv null/prepare - 20000 fault=prepare\n"
                                 "conv null/noise - 20000 fault=noise slow=3000000\n"
                                 "conv null/alloc - 20000 fault=alloc\n";

static void bad_tactics_are_put_aside(void **state)
{
    fixture_t *f = *state;
    script(f, bad_script);
    f->options.budget_s = 40; /* a hang is only known after seconds, once per convolution */
    wf_assert_ok(tune(f));
    check_engine_file(f);
    assert_true(is_quarantined(f, "null/crash", "SIGSEGV"));
    assert_true(is_quarantined(f, "null/hang", "hangs"));
    assert_true(is_quarantined(f, "null/error", "fail"));
    assert_true(is_quarantined(f, "null/prepare", "fail"));
    assert_false(is_quarantined(f, "null/noise", ""));
    assert_true(is_quarantined(f, "null/alloc", "memory") || is_quarantined(f, "null/alloc", "hangs"));
    assert_int_equal(count_quarantined(f, "null/crash"), 2); /* then it is not tried on the third problem */
    assert_true(f->events[WF_TUNE_FAULT] >= 5);
    assert_true(f->result.timings_measured > 0);
    /* The next tuning knows them: nothing crashes again, whatever it was asked before. */
    char other[2200];
    (void)snprintf(other, sizeof other, "%s/second.jsonl", f->folder);
    f->options.record = other;
    forget_outcomes(f);
    wf_assert_ok(tune(f));
    /* On the third problem it was not tried before. */
    assert_true(count_quarantined(f, "null/crash") <= 1 && count_quarantined(f, "null/hang") <= 1);
    assert_int_equal(count_quarantined(f, "null/error"), 0);
    assert_true(f->result.timings_reused > 0);
}

/* A fast tactic with wrong results wins every measurement and must not come into an engine. */
static void wrong_results_are_not_shipped(void **state)
{
    fixture_t *f = *state;
    script(f, "conv* null/wrong - 100000 fault=wrong\n");
    wf_assert_ok(tune(f));
    check_engine_file(f);
    wf_engine_t *engine;
    wf_assert_ok(wf_engine_open(f->engine, NULL, &engine));
    assert_null(strstr(wf_engine_facts(engine).lock, "] null/wrong"));
    for (size_t i = 0; i < wf_engine_step_count(engine, 0); i++)
        assert_null(strstr(wf_engine_step(engine, 0, i).tactic, "null/"));
    wf_engine_close(engine);
}

static void killed_workers_are_replaced(void **state)
{
    fixture_t *f = *state;
    f->kills_worker = true;
    wf_assert_ok(tune(f));
    assert_int_equal(f->killed, 3);
    check_engine_file(f);
    assert_true(f->result.timings_measured > 0);
    /* No tactic is to blame for a worker that was idle. */
    size_t index;
    const json_t *row;
    json_array_foreach(json_object_get(f->report, "quarantined"), index, row)
        print_message("%s\n", json_string_value(json_object_get(row, "reason")));
}

/* ---- Bad databases ---- */

static void damaged_databases_do_not_stop_a_tuning(void **state)
{
    fixture_t *f = *state;
    wf_temp_file_write(f->folder, "timings.db", "certainly not a database of timings, is it");
    wf_assert_ok(tune(f));
    const char *note = json_string_value(json_array_get(json_object_get(f->report, "notes"), 0));
    assert_non_null(note);
    assert_non_null(strstr(note, "damaged"));
    check_engine_file(f);
}

static void foreign_databases_are_refused(void **state)
{
    fixture_t *f = *state;
    wf_assert_ok(tune(f));
    char *bytes;
    size_t length;
    wf_assert_ok(wf_file_read(f->database, 1 << 26, wf_allocator_system(), &bytes, &length));
    bytes[60 + 3] = 77; /* user_version in the header of the file */
    wf_assert_ok(wf_file_write(f->database, 0600, bytes, length));
    free(bytes);
    char wal[2200];
    (void)snprintf(wal, sizeof wal, "%s-wal", f->database);
    (void)unlink(wal);
    wf_assert_fails(tune(f), CACHE_INVALID);
}

int main(int argc, char **argv)
{
    const char *only = getenv("WF_TEST_ONLY");
    if (only != NULL)
        cmocka_set_test_filter(only);
    if (argc == 3 && strcmp(argv[1], "tune") == 0) {
        wf_process_die_with_parent();
        return child_tune(argv[2]);
    }
    /* Crashes of workers are wanted here, and wanted as they are in builds without a sanitizer. */
    (void)setenv("ASAN_OPTIONS", "handle_segv=0", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tunes_and_remembers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_its_budget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_budget_too_small_still_gives_the_default, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tunes_several_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_strategy_ends_with_an_engine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_and_listed_knobs_are_tried, set_up, tear_down),
        cmocka_unit_test_setup_teardown(targets_are_judged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_report_explains, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dry_run_touches_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_strategies_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_lock_rebuilds_the_engine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cached_only_never_measures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_worker_there_is_no_tuning, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stopping_keeps_an_engine_and_the_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_record_brings_timings_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(records_of_others_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_tunings_are_resumed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_tactics_are_put_aside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_results_are_not_shipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_workers_are_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_databases_do_not_stop_a_tuning, set_up, tear_down),
        cmocka_unit_test_setup_teardown(foreign_databases_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests_name(argc > 1 ? argv[1] : "tune", tests, NULL, NULL);
}
