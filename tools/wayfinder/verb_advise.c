/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* A number with k, M or G, then "/day", "/h", "/min" or "/s": per day. */
bool cli_parse_rate(const char *text, double *out_per_day)
{
    static const struct {
        const char *text;
        double factor;
    } scales[] = {{"k", 1e3}, {"M", 1e6}, {"G", 1e9}},
      units[] = {{"", 1}, {"/day", 1}, {"/d", 1}, {"/h", 24}, {"/min", 1440}, {"/s", 86400}};
    char *end;
    double number = strtod(text, &end);
    if (end == text || !(number > 0) || number > 1e15)
        return false;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        if (*end == scales[i].text[0]) {
            number *= scales[i].factor;
            end++;
            break;
        }
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].text) == 0) {
            *out_per_day = number * units[i].factor;
            return true;
        }
    }
    return false;
}

/* "3/h" or "72/day": per hour. */
static bool parse_price(const char *text, double *out_per_hour)
{
    double per_day;
    const char *slash = strchr(text, '/');
    char with_unit[64];
    if (strlen(text) > 40)
        return false;
    (void)snprintf(with_unit, sizeof with_unit, "%s%s", text, slash == NULL ? "/h" : "");
    if (!cli_parse_rate(with_unit, &per_day))
        return false;
    *out_per_hour = per_day / 24;
    return true;
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static bool is_there(const json_t *object, const char *key)
{
    return json_is_number(json_object_get(object, key));
}

static void print_advice(const json_t *d)
{
    char a[40], b[40];
    const json_t *expected = json_object_get(d, "expected"), *money = json_object_get(d, "economy"),
                 *latency = json_object_get(d, "latency");
    (void)printf("%s\n", json_string_value(json_object_get(d, "answer")));
    if (is_there(d, "estimate_ns")) {
        (void)printf("  default   %s estimated, bound %s: %.1f times the bound\n",
                     cli_time_text(number(d, "estimate_ns"), a, sizeof a),
                     cli_time_text(number(d, "bound_ns"), b, sizeof b), number(d, "headroom"));
    }
    if (json_is_object(expected)) {
        (void)printf(
            "  expected  %.3f of the default's time, between %.3f and %.3f (%.0f like tunings of %.0f)\n",
            number(expected, "ratio"), number(expected, "low"), number(expected, "high"),
            number(d, "like_tunings"), number(d, "recorded_tunings"));
    }
    if (is_there(d, "recorded_ratio"))
        (void)printf("  record    came to %.3f of the default's time\n", number(d, "recorded_ratio"));
    (void)printf("  cost      %.3g machine hours", number(money, "tuning_machine_hours"));
    if (is_there(money, "tuning_cost"))
        (void)printf(", %.3g in money", number(money, "tuning_cost"));
    (void)printf("\n");
    if (is_there(money, "machine_hours_per_day"))
        (void)printf("  traffic   %.3g machine hours a day\n", number(money, "machine_hours_per_day"));
    if (is_there(money, "saved_hours_per_day")) {
        (void)printf("  saving    %.3g machine hours a day, at least %.3g; pays back in %.3g days\n",
                     number(money, "saved_hours_per_day"), number(money, "saved_hours_per_day_least"),
                     number(money, "payback_days"));
    }
    if (json_is_object(latency)) {
        (void)printf(
            "  p99       wanted %s; typical runs take %s, after tuning %s. Only measuring tells the tail\n",
            cli_time_text(number(latency, "p99_ns"), a, sizeof a),
            json_is_true(json_object_get(latency, "default_below")) ? "less" : "more",
            cli_time_text(number(latency, "expected_ns"), b, sizeof b));
    }
    if (is_there(d, "flattens_at_s"))
        (void)printf("  budget    %.0f s: ", number(d, "flattens_at_s"));
    else
        (void)printf("  budget    not known where it flattens: ");
    (void)printf("%s\n", json_string_value(json_object_get(d, "flattens_evidence")));
}

static int advise(const cli_options_t *options, wf_advise_options_t *advise_options, char **out_report)
{
    const char *path = options->arguments[0];
    char first = '\0';
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fread(&first, 1, 1, file) != 1)
            first = '\0';
        (void)fclose(file);
    }
    if (first == '{') /* a record; a model begins with a field of its own */
        return cli_fail(options, wf_advise(NULL, path, advise_options, out_report));
    wf_model_t *model = NULL;
    wf_status_t status = wf_model_open(path, wf_allocator_system(), &model);
    if (wf_status_code(status) == WF_CODE_OK)
        status = wf_advise(model, NULL, advise_options, out_report);
    wf_model_close(model);
    return cli_fail(options, status);
}

int cli_verb_advise(const cli_options_t *options)
{
    if (options->argument_count != 1)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder advise MODEL --requests 2M/day --price 3/h",
                             "advise takes a model or a record");
    cli_build_t build;
    char *report = NULL;
    wf_advise_options_t advise_options = {.struct_bytes = sizeof advise_options,
                                          .timing_cache = options->timing_cache,
                                          .budget_s = options->budget_s,
                                          .p99_ns = 1e9 * options->p99_s};
    if (options->requests != NULL && !cli_parse_rate(options->requests, &advise_options.requests_per_day))
        return cli_fail_with(options, WF_CODE_USAGE, "give a rate such as 2M/day or 30/s", "--requests '%s'",
                             options->requests);
    if (options->price != NULL && !parse_price(options->price, &advise_options.price_per_hour))
        return cli_fail_with(options, WF_CODE_USAGE, "give a price such as 3/h", "--price '%s'",
                             options->price);
    int code = cli_build_make(options, &build);
    advise_options.build = build.options;
    if (code == 0)
        code = advise(options, &advise_options, &report);
    cli_build_free(&build);
    cli_progress_done();
    return code != 0 ? code : cli_print_report(options, report, print_advice);
}
