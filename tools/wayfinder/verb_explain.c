/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define RUNS 21

/* What the lock's evidence says of one step. */
typedef struct evidence {
    char tactic[WF_TACTIC_ID_MAX], kind[16];
    long long chosen_ns, runner_ns, margin_permille, count;
    bool found;
} evidence_t;

/* A line "<first output name> <chosen ns> <runner-up or -> <runner-up ns> <margin permille> <kind> <count>";
 * names may hold blanks, so the fields are read from the end. */
static bool parse_line(const char *line, size_t length, const char *name, size_t name_bytes, evidence_t *out)
{
    char text[2048];
    if (length >= sizeof text || length <= name_bytes || memcmp(line, name, name_bytes) != 0 ||
        line[name_bytes] != ' ')
        return false;
    memcpy(text, line + name_bytes + 1, length - name_bytes - 1);
    text[length - name_bytes - 1] = '\0';
    int got = sscanf(text, "%lld %95s %lld %lld %15s %lld", &out->chosen_ns, out->tactic, &out->runner_ns,
                     &out->margin_permille, out->kind, &out->count);
    out->found = got >= 5;
    return out->found;
}

static evidence_t find_evidence(const char *lock, const char *name, size_t name_bytes)
{
    evidence_t evidence = {0};
    const char *at = strstr(lock, "[evidence]");
    while (at != NULL && !evidence.found) {
        at = strchr(at, '\n');
        if (at == NULL)
            break;
        at++;
        if (parse_line(at, strcspn(at, "\n"), name, name_bytes, &evidence))
            break;
    }
    return evidence;
}

/* Plans know a step by its first output: the lines "<name> <hash> <tactic> ..." of its problem and tactic.
 * The evidence of equal problems is the same. */
static evidence_t step_evidence(const char *lock, const wf_step_info_t *info)
{
    char choice[sizeof info->problem_hash + WF_TACTIC_ID_MAX + 2];
    evidence_t evidence = {0};
    int length = snprintf(choice, sizeof choice, " %s %s", info->problem_hash, info->tactic);
    if (info->problem_hash[0] == '\0')
        return evidence;
    for (const char *at = strstr(lock, choice); at != NULL && !evidence.found; at = strstr(at + 1, choice)) {
        const char *name = at;
        if (strchr(" \n", at[length]) == NULL)
            continue; /* a longer id */
        while (name > lock && name[-1] != '\n')
            name--;
        evidence = find_evidence(lock, name, (size_t)(at - name));
    }
    return evidence;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Median time of each step over seeded runs. */
static int time_steps(const cli_options_t *options, const wf_engine_t *engine, uint64_t *out_median_ns)
{
    size_t step_count = wf_engine_step_count(engine, 0), input_count = wf_engine_input_count(engine),
           output_count = wf_engine_output_count(engine);
    wf_tensor_t *tensors = calloc(input_count + output_count + 1, sizeof *tensors);
    void **data = calloc(input_count + output_count + 1, sizeof *data);
    uint64_t *samples = calloc(RUNS * (step_count + 1), sizeof *samples), column[RUNS];
    wf_context_t *context = NULL;
    int code = tensors == NULL || data == NULL || samples == NULL ? 10 : 0;
    for (size_t i = 0; code == 0 && i < input_count + output_count; i++) {
        bool input = i < input_count;
        wf_port_info_t port =
            input ? wf_engine_input(engine, 0, i) : wf_engine_output(engine, 0, i - input_count);
        wf_tensor_t fixed;
        code = cli_fail(options, wf_tensor_make(&port.type, wf_allocator_system(), &tensors[i]));
        if (code != 0)
            break;
        if (input && wf_engine_fixed_input(engine, 0, i, &fixed))
            memcpy(tensors[i].data, fixed.data, (size_t)wf_type_bytes(&port.type));
        else if (input)
            wf_seeded_fill(port.name, 0, &tensors[i]);
        data[i] = tensors[i].data;
    }
    if (code == 0)
        code = cli_fail(options, wf_context_create(engine, 0, &context));
    for (int run = -3; code == 0 && run < RUNS; run++) {
        uint64_t *row = samples + (size_t)(run < 0 ? 0 : run) * step_count;
        code = cli_fail(options,
                        wf_context_run_timed(context, (const void *const *)data, data + input_count, row));
    }
    for (size_t s = 0; code == 0 && s < step_count; s++) {
        for (size_t run = 0; run < RUNS; run++)
            column[run] = samples[run * step_count + s];
        qsort(column, RUNS, sizeof column[0], by_value);
        out_median_ns[s] = column[RUNS / 2];
    }
    wf_context_destroy(context);
    for (size_t i = 0; tensors != NULL && i < input_count + output_count; i++)
        wf_tensor_free(&tensors[i], wf_allocator_system());
    free(samples);
    free(data);
    free(tensors);
    return code;
}

static json_t *step_json(const wf_step_info_t *info, uint64_t ns, double share, const evidence_t *e)
{
    json_t *row = json_pack("{s:s s:s s:s s:s s:I s:f s:b s:I}", "nodes", info->nodes, "tactic", info->tactic,
                            "problem", info->problem, "problem_hash", info->problem_hash, "median_ns",
                            (json_int_t)ns, "share", share, "library_allocates", info->allocates,
                            "workspace_bytes", (json_int_t)info->workspace_bytes);
    if (e->found) {
        (void)json_object_set_new(
            row, "evidence",
            json_pack("{s:I s:s s:I s:I s:s s:I}", "chosen_ns", (json_int_t)e->chosen_ns, "runner_up",
                      e->tactic, "runner_up_ns", (json_int_t)e->runner_ns, "margin_permille",
                      (json_int_t)e->margin_permille, "source", e->kind, "count", (json_int_t)e->count));
    }
    return row;
}

static void print_step(size_t index, const wf_step_info_t *info, uint64_t ns, double share,
                       const evidence_t *e, bool tuned)
{
    char time[40];
    (void)printf("%4zu %10s %5.1f %%  %s\n       %s\n       %s\n", index,
                 cli_time_text((double)ns, time, sizeof time), 100 * share, info->tactic, info->nodes,
                 info->problem);
    if (e->found && strcmp(e->tactic, "-") != 0) {
        char other[40];
        (void)printf("       runner-up %s at %s, %+.1f %% (%s, %lld times)\n", e->tactic,
                     cli_time_text((double)e->runner_ns, other, sizeof other),
                     (double)e->margin_permille / 10, e->kind, e->count);
    } else {
        (void)printf("       no runner-up on record%s\n", tuned ? "" : " (the engine was built, not tuned)");
    }
    if (info->allocates)
        (void)printf("       the library below allocates while this step runs\n");
}

int cli_verb_explain(const cli_options_t *options)
{
    if (options->argument_count != 1)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder explain ENGINE", "explain takes one engine");
    if (!cli_is_engine(options->arguments[0])) {
        cli_engine_t none;
        if (fopen(options->arguments[0], "rbe") == NULL)
            return cli_engine_open(options, options->arguments[0], NULL, &none);
        return cli_fail_with(options, WF_CODE_ENGINE_INVALID,
                             "build one with 'wayfinder build' or 'wayfinder tune'", "%s is not an engine",
                             options->arguments[0]);
    }
    cli_engine_t opened;
    int code = cli_engine_open(options, options->arguments[0], NULL, &opened);
    if (code != 0)
        return code;
    size_t step_count = wf_engine_step_count(opened.engine, 0);
    uint64_t *ns = calloc(step_count + 1, sizeof *ns), total = 0;
    code = ns == NULL ? 10 : time_steps(options, opened.engine, ns);
    for (size_t s = 0; code == 0 && s < step_count; s++)
        total += ns[s];
    wf_engine_facts_t facts = wf_engine_facts(opened.engine);
    const char *evidence_at = strstr(facts.lock, "[evidence]\n");
    bool tuned = evidence_at != NULL && evidence_at[strlen("[evidence]\n")] != '\0';
    json_t *steps = json_array();
    for (size_t s = 0; code == 0 && s < step_count; s++) {
        wf_step_info_t info = wf_engine_step(opened.engine, 0, s);
        evidence_t evidence = step_evidence(facts.lock, &info);
        double share = total > 0 ? (double)ns[s] / (double)total : 0;
        if (options->json)
            (void)json_array_append_new(steps, step_json(&info, ns[s], share, &evidence));
        else
            print_step(s, &info, ns[s], share, &evidence, tuned);
    }
    if (code == 0 && options->json)
        code = cli_print_json(json_pack("{s:O s:I}", "steps", steps, "total_ns", (json_int_t)total), 0);
    else if (code == 0) {
        char time[40];
        (void)printf("%zu steps, %s in all (medians of %d runs)\n", step_count,
                     cli_time_text((double)total, time, sizeof time), RUNS);
    }
    json_decref(steps);
    free(ns);
    cli_engine_close(&opened);
    return code;
}
