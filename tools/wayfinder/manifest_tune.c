/* SPDX-License-Identifier: Apache-2.0 */
/* tune --manifest: one job. Each entry gets a share of what is left of the common budget by what it is
 * expected to gain; what it does not need flows to the next. Everything lies in the store, by machine, so
 * that the job can be cut off and run again, and several machines can share the store. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "manifest.h"

enum { PATH_MAX_BYTES = 4096 };
#define DEFAULT_BUDGET_S 120.0
/* Expected gain where nothing like the model is recorded, and the least that is assumed. */
#define UNKNOWN_GAIN 0.15
#define LEAST_GAIN 0.01
/* A day, for models that do not say. */
#define DEFAULT_REQUESTS 100000.0
static const double policy_weight[] = {[POLICY_STANDARD] = 1, [POLICY_CORE] = 4, [POLICY_LONGTAIL] = 0.25};
static const char *const policy_names[] = {"standard", "core", "longtail"};

typedef struct entry {
    const cli_manifest_model_t *model;
    double gain, weight;
    bool known; /* tuned here before: soon done */
    json_t *row;
} entry_t;

typedef struct job {
    const cli_options_t *options;
    cli_manifest_t manifest;
    const cli_manifest_machine_t *machine; /* NULL: the manifest has none */
    const char *machine_name;
    char folder[PATH_MAX_BYTES], store[PATH_MAX_BYTES], place[PATH_MAX_BYTES], database[PATH_MAX_BYTES];
    entry_t *entries;
    size_t count;
    double budget_s, start_s;
} job_t;

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- places ---- */

/* Paths of a manifest start at its folder. */
static void resolve(const job_t *job, const char *path, char *out)
{
    int bytes = path[0] == '/' ? snprintf(out, PATH_MAX_BYTES, "%s", path)
                               : snprintf(out, PATH_MAX_BYTES, "%s/%s", job->folder, path);
    if (bytes < 0 || bytes >= PATH_MAX_BYTES)
        out[0] = '\0'; /* no such file */
}

static bool make_folder(const char *path)
{
    struct stat facts;
    return mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode));
}

static int find_places(job_t *job)
{
    const char *slash = strrchr(job->manifest.path, '/');
    if (slash != NULL)
        (void)snprintf(job->folder, sizeof job->folder, "%.*s", (int)(slash - job->manifest.path + 1),
                       job->manifest.path);
    else
        (void)snprintf(job->folder, sizeof job->folder, ".");
    resolve(job, job->manifest.store, job->store);
    int bytes = snprintf(job->place, sizeof job->place, "%s/%s", job->store, job->machine_name);
    if (bytes < 0 || (size_t)bytes >= sizeof job->place - 200)
        return cli_fail_with(job->options, WF_CODE_USAGE, "give a shorter one",
                             "the path of the store is too long");
    if (!make_folder(job->store) || !make_folder(job->place))
        return cli_fail_with(job->options, WF_CODE_FILE_UNWRITABLE, "'store:' of the manifest names a folder",
                             "cannot make %s: %s", job->place, strerror(errno));
    if (job->options->timing_cache != NULL)
        (void)snprintf(job->database, sizeof job->database, "%s", job->options->timing_cache);
    else if (job->manifest.timing_cache != NULL)
        resolve(job, job->manifest.timing_cache, job->database);
    else
        (void)snprintf(job->database, sizeof job->database, "%.*s/timings.db", PATH_MAX_BYTES - 20,
                       job->place);
    return 0;
}

/* --machine, or the first section whose `match` is in the name of this CPU. */
static int find_machine(job_t *job)
{
    const cli_manifest_t *m = &job->manifest;
    const char *wanted = job->options->machine;
    char cpu[200] = "";
    job->machine_name = "default";
    if (m->machine_count == 0)
        return wanted == NULL ? 0
                              : cli_fail_with(job->options, WF_CODE_USAGE, "add 'machines:' to it",
                                              "%s has no machines", m->path);
    if (wanted == NULL) {
        wf_doctor_options_t brief = {.struct_bytes = sizeof brief, .noise_s = 0.001};
        char *text = NULL;
        int code = cli_fail(job->options, wf_doctor(&brief, &text));
        if (code != 0)
            return code;
        json_t *seen = json_loads(text, 0, NULL);
        const char *name = json_string_value(json_object_get(json_object_get(seen, "cpu"), "name"));
        (void)snprintf(cpu, sizeof cpu, "%s", name != NULL ? name : "");
        json_decref(seen);
        free(text);
    }
    for (size_t i = 0; job->machine == NULL && i < m->machine_count; i++) {
        const cli_manifest_machine_t *machine = &m->machines[i];
        bool fits = wanted != NULL ? strcmp(machine->name, wanted) == 0
                                   : machine->match == NULL || strstr(cpu, machine->match) != NULL;
        if (fits)
            job->machine = machine;
    }
    if (job->machine == NULL)
        return cli_fail_with(job->options, WF_CODE_USAGE,
                             "name a section with --machine, or change its 'match:'",
                             "%s has no machine for %s", m->path, wanted != NULL ? wanted : cpu);
    job->machine_name = job->machine->name;
    return 0;
}

static bool names_model(const cli_manifest_machine_t *machine, const char *name)
{
    if (machine == NULL || machine->models.count == 0)
        return true;
    for (size_t i = 0; i < machine->models.count; i++) {
        if (strcmp(machine->models.items[i], name) == 0)
            return true;
    }
    return false;
}

/* ---- one entry ---- */

/* The options that the manifest gives for a model, as if they stood on the command line. */
static cli_options_t options_of(const job_t *job, const cli_manifest_model_t *model)
{
    cli_options_t options = *job->options;
    options.json = false;
    options.shapes = model->shapes;
    options.settings = model->settings;
    if (model->fit != NULL)
        options.fit = model->fit;
    if (model->threads.given)
        options.threads = model->threads;
    else if (job->machine != NULL && job->machine->threads.given)
        options.threads = job->machine->threads;
    return options;
}

static json_t *new_row(const job_t *job, const cli_manifest_model_t *model, const char *machine,
                       const char *status)
{
    (void)job;
    return json_pack("{s:s s:s s:s s:s s:i}", "name", model->name, "machine", machine, "policy",
                     policy_names[model->policy], "status", status, "exit", 0);
}

static void set(json_t *row, const char *key, json_t *value)
{
    (void)json_object_set_new(row, key, value);
}

static void set_failure(json_t *row, wf_status_t status)
{
    set(row, "status", json_string(wf_status_code(status) == WF_CODE_INTERRUPTED ? "interrupted" : "failed"));
    set(row, "exit", json_integer(wf_status_exit_code(status)));
    set(row, "message", json_string(wf_status_message(status)));
    wf_status_free(status);
}

/* What tuning it is worth; a model that cannot be compiled is told when its turn comes. */
static void appraise(const job_t *job, entry_t *entry)
{
    cli_options_t options = options_of(job, entry->model);
    cli_build_t build;
    char path[PATH_MAX_BYTES], *text = NULL;
    wf_model_t *model = NULL;
    entry->gain = UNKNOWN_GAIN;
    resolve(job, entry->model->path, path);
    wf_status_t status = wf_model_open(path, wf_allocator_system(), &model);
    if (wf_status_code(status) == WF_CODE_OK && cli_build_make(&options, &build) == 0) {
        wf_advise_options_t advise = {
            .struct_bytes = sizeof advise, .build = build.options, .timing_cache = job->database};
        status = wf_advise(model, NULL, &advise, &text);
        cli_build_free(&build);
    }
    wf_status_free(status);
    wf_model_close(model);
    json_t *advice = text != NULL ? json_loads(text, 0, NULL) : NULL;
    json_t *expected = json_object_get(advice, "expected");
    if (json_is_object(expected))
        entry->gain = 1 - json_number_value(json_object_get(expected, "ratio"));
    entry->known = json_is_true(json_object_get(advice, "same_model"));
    double requests = DEFAULT_REQUESTS,
           estimate_s = 1e-9 * json_number_value(json_object_get(advice, "estimate_ns"));
    if (entry->model->requests != NULL)
        (void)cli_parse_rate(entry->model->requests, &requests);
    /* Gains flatten with time, so shares go with the root of what is to be gained: CPU seconds a day. */
    entry->weight = policy_weight[entry->model->policy] *
                    sqrt(fmax(entry->gain, LEAST_GAIN) * requests * fmax(estimate_s, 1e-6));
    json_decref(advice);
    free(text);
}

static bool on_event(void *self, const wf_tune_event_t *event)
{
    const job_t *job = self;
    bool says = event->kind == WF_TUNE_FAULT || event->kind == WF_TUNE_NOTE;
    if (says && !job->options->quiet)
        (void)fprintf(stderr, "  %s\n", event->text);
    return cli_stop_asked();
}

/* The lock beside the engine. */
static bool write_lock(const char *engine_path, const char *lock_path)
{
    wf_engine_options_t any = {.struct_bytes = sizeof any, .ignore_fingerprint = true};
    wf_engine_t *engine = NULL;
    cli_error_t error = {0};
    wf_status_t status = wf_engine_open(engine_path, &any, &engine);
    bool good = wf_status_code(status) == WF_CODE_OK;
    if (good) {
        const char *lock = wf_engine_facts(engine).lock;
        good = cli_write_file(lock_path, lock, strlen(lock), "", 0, &error);
    }
    wf_engine_close(engine);
    wf_status_free(status);
    return good;
}

static void take_report(entry_t *entry, const json_t *report)
{
    static const char *const keys[] = {"ratio",     "ratio_lo95", "ratio_hi95",
                                       "elapsed_s", "verdict",    "recalled"};
    json_t *row = entry->row;
    const json_t *timings = json_object_get(report, "timings");
    double final_ns = json_number_value(json_object_get(json_object_get(report, "final"), "median_ns"));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *value = json_object_get(report, keys[i]);
        (void)json_object_set(row, keys[i], value != NULL ? value : json_null());
    }
    (void)json_object_set(row, "measured", json_object_get(timings, "measured"));
    (void)json_object_set(row, "reused", json_object_get(timings, "reused"));
    (void)json_object_set(row, "default_ns",
                          json_object_get(json_object_get(report, "default"), "median_ns"));
    set(row, "final_ns", json_real(final_ns));
    const char *verdict = json_string_value(json_object_get(report, "verdict"));
    bool recalled = json_is_true(json_object_get(report, "recalled"));
    set(row, "status",
        json_string(recalled                                             ? "recalled"
                    : verdict != NULL && strcmp(verdict, "adopted") == 0 ? "tuned"
                                                                         : "default kept"));
    if (entry->model->target_s > 0) {
        set(row, "target_ns", json_real(1e9 * entry->model->target_s));
        if (final_ns > 1e9 * entry->model->target_s) {
            set(row, "status", json_string("target not met"));
            set(row, "exit", json_integer(3));
        }
    }
}

static void row_path(const job_t *job, const char *machine, const char *name, char *out, size_t capacity)
{
    (void)snprintf(out, capacity, "%s/%s/%s.json", job->store, machine, name);
}

/* An entry that was tuned before gets no more than it had, so that its result is recalled and the rest flows
 * to others; unless the whole budget grew. */
static double cap_budget(const job_t *job, const entry_t *entry, double budget_s)
{
    char path[2 * PATH_MAX_BYTES];
    row_path(job, job->machine_name, entry->model->name, path, sizeof path);
    json_t *row = json_load_file(path, 0, NULL);
    double before_s = json_number_value(json_object_get(row, "budget_s"));
    double job_before_s = json_number_value(json_object_get(row, "job_budget_s"));
    json_decref(row);
    bool same = entry->known && before_s > 0 && job->budget_s <= 1.5 * job_before_s;
    return same ? fmin(budget_s, before_s) : budget_s;
}

static void tune_entry(const job_t *job, entry_t *entry, double budget_s)
{
    cli_options_t options = options_of(job, entry->model);
    cli_build_t build;
    wf_model_t *model = NULL;
    wf_tune_result_t result = {0};
    char path[PATH_MAX_BYTES], engine[2 * PATH_MAX_BYTES], lock[2 * PATH_MAX_BYTES];
    const char *name = entry->model->name;
    resolve(job, entry->model->path, path);
    (void)snprintf(engine, sizeof engine, "%s/%s.wfe", job->place, name);
    (void)snprintf(lock, sizeof lock, "%s/%s.lock", job->place, name);
    entry->row = new_row(job, entry->model, job->machine_name, "failed");
    set(entry->row, "budget_s", json_real(budget_s));
    set(entry->row, "job_budget_s", json_real(job->budget_s));
    set(entry->row, "expected_gain", json_real(entry->gain));
    wf_status_t status = wf_model_open(path, wf_allocator_system(), &model);
    if (wf_status_code(status) != WF_CODE_OK) {
        set_failure(entry->row, status);
        return;
    }
    int code = cli_build_make(&options, &build);
    if (code == 0) {
        wf_tune_options_t tune = {.struct_bytes = sizeof tune,
                                  .build = build.options,
                                  .output_path = engine,
                                  .budget_s = budget_s,
                                  .timing_cache = job->database,
                                  .require_cached = options.require_cached,
                                  .fresh = options.fresh,
                                  .seed = options.seed.value,
                                  .event = on_event,
                                  .event_self = (void *)(uintptr_t)job};
        tune.build.progress = NULL;
        status = wf_tune(model, &tune, &result);
    }
    json_t *report = result.report_json != NULL ? json_loads(result.report_json, 0, NULL) : NULL;
    if (code != 0) {
        set(entry->row, "exit", json_integer(code));
        set(entry->row, "message", json_string("the manifest's options do not fit the model"));
    } else if (wf_status_code(status) != WF_CODE_OK) {
        set_failure(entry->row, status);
    } else {
        take_report(entry, report);
        set(entry->row, "engine", json_sprintf("%s/%s.wfe", job->machine_name, name));
        if (!write_lock(engine, lock))
            set(entry->row, "message", json_string("the lock could not be written"));
    }
    json_decref(report);
    wf_tune_result_free(&result);
    cli_build_free(&build);
    wf_model_close(model);
}

/* ---- the summary ---- */

static int keep_row(const job_t *job, const entry_t *entry)
{
    char path[2 * PATH_MAX_BYTES];
    cli_error_t error = {0};
    row_path(job, job->machine_name, entry->model->name, path, sizeof path);
    char *text = json_dumps(entry->row, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    bool good = text != NULL && cli_write_file(path, text, strlen(text), "\n", 1, &error);
    free(text);
    return good ? 0 : cli_fail_with(job->options, error.code, error.hint, "%s", error.message);
}

/* What other machines left in the store; a store is input as any other. */
static void add_others(const job_t *job, json_t *rows)
{
    const cli_manifest_t *m = &job->manifest;
    for (size_t i = 0; i < m->machine_count; i++) {
        const cli_manifest_machine_t *machine = &m->machines[i];
        for (size_t k = 0; machine != job->machine && k < m->model_count; k++) {
            char path[2 * PATH_MAX_BYTES];
            if (!names_model(machine, m->models[k].name))
                continue;
            row_path(job, machine->name, m->models[k].name, path, sizeof path);
            json_t *row = json_load_file(path, 0, NULL);
            const char *name = json_string_value(json_object_get(row, "name"));
            if (name == NULL || strcmp(name, m->models[k].name) != 0 ||
                json_string_value(json_object_get(row, "status")) == NULL) {
                json_decref(row);
                row = new_row(job, &m->models[k], machine->name, "missing");
            }
            set(row, "machine", json_string(machine->name));
            (void)json_array_append_new(rows, row);
        }
    }
}

static void put_cell(char *out, size_t capacity, const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    if (json_is_number(value))
        (void)snprintf(out, capacity, "%.3f", json_number_value(value));
    else
        (void)snprintf(out, capacity, "-");
}

/* The table as text (markdown: with bars). */
static void print_rows(FILE *to, const json_t *rows, bool markdown)
{
    size_t index;
    json_t *row;
    const char *format =
        markdown ? "| %s | %s | %s | %s | %s | %s | %s |\n" : "%-20s %-14s %-14s %12s %12s %8s  %s\n";
    (void)fprintf(to, format, "model", "machine", "status", "default", "written", "ratio",
                  markdown ? "note" : "");
    if (markdown)
        (void)fprintf(to, "|---|---|---|---:|---:|---:|---|\n");
    json_array_foreach((json_t *)(uintptr_t)rows, index, row)
    {
        char before[40] = "-", after[40] = "-", ratio[40];
        const char *note = json_string_value(json_object_get(row, "message"));
        double default_ns = json_number_value(json_object_get(row, "default_ns")),
               final_ns = json_number_value(json_object_get(row, "final_ns"));
        const char *machine = json_string_value(json_object_get(row, "machine"));
        if (default_ns > 0)
            (void)cli_time_text(default_ns, before, sizeof before);
        if (final_ns > 0)
            (void)cli_time_text(final_ns, after, sizeof after);
        put_cell(ratio, sizeof ratio, row, "ratio");
        (void)fprintf(to, format, json_string_value(json_object_get(row, "name")), machine,
                      json_string_value(json_object_get(row, "status")), before, after, ratio,
                      note != NULL ? note : "");
    }
}

static bool write_summary(const job_t *job, const json_t *summary)
{
    char path[2 * PATH_MAX_BYTES], *markdown = NULL,
                                   *json = json_dumps(summary, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    size_t bytes = 0;
    cli_error_t error = {0};
    FILE *memory = open_memstream(&markdown, &bytes);
    if (memory != NULL) {
        (void)fprintf(memory, "## Wayfinder: %zu tunings\n\n",
                      json_array_size(json_object_get(summary, "entries")));
        print_rows(memory, json_object_get(summary, "entries"), true);
        (void)fclose(memory);
    }
    (void)snprintf(path, sizeof path, "%s/summary.json", job->store);
    bool good = json != NULL && cli_write_file(path, json, strlen(json), "\n", 1, &error);
    (void)snprintf(path, sizeof path, "%s/summary.md", job->store);
    good = good && markdown != NULL && cli_write_file(path, markdown, bytes, "", 0, &error);
    free(markdown);
    free(json);
    if (!good)
        (void)fprintf(stderr, "warning: the summary could not be written: %s\n", error.message);
    return good;
}

/* The worst of this machine's entries: a failure before a target that was missed. */
static int exit_of(const job_t *job)
{
    int code = 0;
    for (size_t i = 0; i < job->count; i++) {
        int own = (int)json_integer_value(json_object_get(job->entries[i].row, "exit"));
        if (own != 0 && (code == 0 || code == 3))
            code = own;
    }
    return cli_stop_asked() ? 130 : code;
}

static int finish(const job_t *job)
{
    json_t *rows = json_array();
    int code = exit_of(job);
    for (size_t i = 0; i < job->count; i++)
        (void)json_array_append(rows, job->entries[i].row);
    add_others(job, rows);
    json_t *summary = json_pack("{s:i s:s s:s s:f s:f s:i s:o}", "schema_version", 1, "manifest",
                                job->manifest.path, "machine", job->machine_name, "budget_s", job->budget_s,
                                "elapsed_s", now_s() - job->start_s, "exit", code, "entries", rows);
    if (!write_summary(job, summary) && code == 0)
        code = 2;
    if (job->options->json)
        return cli_print_json(summary, code);
    print_rows(stdout, rows, false);
    (void)printf("%.1f s of %.0f s; the summary is in %s/summary.md\n", now_s() - job->start_s, job->budget_s,
                 job->store);
    json_decref(summary);
    return code;
}

/* ---- the job ---- */

/* Those that will be recalled first, since they leave most of their share; then what is worth most. */
static int by_order(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;
    if (x->known != y->known)
        return x->known ? -1 : 1;
    return x->weight < y->weight   ? 1
           : x->weight > y->weight ? -1
                                   : (x->model > y->model) - (x->model < y->model);
}

/* Every entry gets time for its default engine and a look around: half of an even share at least. Returns the
 * sum. */
static double raise_least(job_t *job)
{
    double sum = 0, raised = 0;
    for (size_t i = 0; i < job->count; i++)
        sum += job->entries[i].weight;
    for (size_t i = 0; i < job->count; i++) {
        job->entries[i].weight = fmax(job->entries[i].weight, 0.5 * sum / (double)job->count);
        raised += job->entries[i].weight;
    }
    return raised;
}

static int run(job_t *job)
{
    int code = 0;
    for (size_t i = 0; i < job->manifest.model_count; i++) {
        if (names_model(job->machine, job->manifest.models[i].name))
            job->entries[job->count++].model = &job->manifest.models[i];
    }
    for (size_t i = 0; i < job->count && !cli_stop_asked(); i++)
        appraise(job, &job->entries[i]);
    qsort(job->entries, job->count, sizeof *job->entries, by_order);
    double weights = raise_least(job);
    for (size_t i = 0; code == 0 && i < job->count; i++) {
        entry_t *entry = &job->entries[i];
        double left_s = job->budget_s - (now_s() - job->start_s);
        double share = weights > 0 ? entry->weight / weights : 1;
        weights -= entry->weight;
        if (cli_stop_asked()) {
            entry->row = new_row(job, entry->model, job->machine_name, "not reached");
            continue;
        }
        double own_s = cap_budget(job, entry, fmax(left_s * share, 1));
        if (!job->options->quiet)
            (void)fprintf(stderr, "%6.1f s  %s: %.0f s\n", now_s() - job->start_s, entry->model->name, own_s);
        tune_entry(job, entry, own_s);
        code = keep_row(job, entry);
    }
    return code != 0 ? code : finish(job);
}

int cli_manifest_tune(const cli_options_t *options)
{
    job_t *job = calloc(1, sizeof *job);
    cli_error_t error = {0};
    if (job == NULL)
        return cli_fail_with(options, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    job->options = options;
    job->start_s = now_s();
    int code = cli_manifest_read(options->manifest, &job->manifest, &error)
                   ? 0
                   : cli_fail_with(options, error.code, error.hint, "%s", error.message);
    if (code == 0)
        code = find_machine(job);
    if (code == 0)
        code = find_places(job);
    if (code == 0) {
        double own_s = job->machine != NULL ? job->machine->budget_s : 0;
        job->entries = calloc(job->manifest.model_count, sizeof *job->entries);
        job->budget_s = options->budget_s > 0        ? options->budget_s
                        : own_s > 0                  ? own_s
                        : job->manifest.budget_s > 0 ? job->manifest.budget_s
                                                     : DEFAULT_BUDGET_S * (double)job->manifest.model_count;
        code = job->entries != NULL ? run(job)
                                    : cli_fail_with(options, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    }
    for (size_t i = 0; i < job->count; i++)
        json_decref(job->entries[i].row);
    free(job->entries);
    cli_manifest_free(&job->manifest);
    free(job);
    return code;
}
