/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void print_list(const json_t *list, const char *separator)
{
    size_t index;
    json_t *value;
    json_array_foreach((json_t *)(uintptr_t)list, index, value)
    {
        (void)printf("%s%s", index > 0 ? separator : "", json_string_value(value));
    }
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "not known";
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void print_machine(const json_t *d)
{
    const json_t *cpu = json_object_get(d, "cpu"), *cores = json_object_get(d, "cores"),
                 *near = json_object_get(d, "neighbours"), *memory = json_object_get(d, "memory");
    char l1[40], l2[40], l3[40];
    (void)printf("wayfinder   %s\ncpu         %s (family %.0f model %.0f stepping %.0f), tiers ",
                 text(d, "version"), text(cpu, "name"), number(cpu, "family"), number(cpu, "model"),
                 number(cpu, "stepping"));
    print_list(json_object_get(cpu, "tiers"), " ");
    (void)printf("\ncaches      L1 %s, L2 %s, L3 %s\n",
                 cli_bytes_text(number(cpu, "l1d_bytes"), l1, sizeof l1),
                 cli_bytes_text(number(cpu, "l2_bytes"), l2, sizeof l2),
                 cli_bytes_text(number(cpu, "l3_bytes"), l3, sizeof l3));
    double quota = number(cores, "quota_milli");
    (void)printf("cores       %.0f CPUs on %.0f cores, quota ", number(cores, "cpus"),
                 number(cores, "cores"));
    if (quota > 0)
        (void)printf("%.2f CPUs", quota / 1000);
    else
        (void)printf("none");
    (void)printf(", %.0f threads by default; governor %s, SMT %s\n", number(cores, "default_threads"),
                 text(cores, "governor"),
                 strcmp(text(cores, "smt_active"), "1") == 0   ? "on"
                 : strcmp(text(cores, "smt_active"), "0") == 0 ? "off"
                                                               : "not known");
    (void)printf("neighbours  %.0f %% of the CPUs busy, %.1f %% stolen, load %s\n",
                 100 * number(near, "busy_share"), 100 * number(near, "steal_share"), text(near, "loadavg"));
    (void)printf("memory      %s available, huge pages %s\n",
                 cli_bytes_text(number(memory, "available_bytes"), l1, sizeof l1),
                 text(memory, "transparent_huge_pages"));
}

static void print_noise(const json_t *noise)
{
    const char *span;
    json_t *effect;
    const char *separator = "";
    (void)printf(
        "noise       pairs of equal work differ by %.2f %% (sd of %.0f pairs), %.0f %% of them disturbed\n",
        100 * number(noise, "sd"), number(noise, "pairs"), 100 * number(noise, "busy_share"));
    (void)printf("detectable  ");
    json_object_foreach(json_object_get(noise, "detectable"), span, effect)
    {
        (void)printf("%s%.2f %% in %s", separator, 100 * json_number_value(effect), span);
        separator = ", ";
    }
    (void)printf("\n");
}

static void print_rest(const json_t *d)
{
    size_t index;
    json_t *row;
    const char *name;
    (void)printf("sources     ");
    json_array_foreach(json_object_get(d, "sources"), index, row)
    {
        (void)printf("%s%s %s", index > 0 ? ", " : "", text(row, "name"), text(row, "version"));
    }
    (void)printf("\nlibraries   ");
    json_array_foreach(json_object_get(d, "libraries"), index, row)
    {
        bool found = json_is_true(json_object_get(row, "found"));
        (void)printf("%s%s %s", index > 0 ? ", " : "", text(row, "file"),
                     found ? text(row, "version") : "absent");
    }
    const json_t *database = json_object_get(d, "database");
    (void)printf("\ndatabase    %s: %s, %.0f timings%s\n", text(database, "path"), text(database, "state"),
                 number(database, "timings"),
                 json_is_true(json_object_get(database, "writable")) ? "" : ", not writable");
    json_object_foreach(json_object_get(d, "folders"), name, row)
    {
        (void)printf("%-11s %s%s\n", name, text(row, "path"),
                     json_is_false(json_object_get(row, "there")) ? " (not there yet)" : "");
    }
    json_array_foreach(json_object_get(d, "findings"), index, row)
    {
        (void)printf("- %s: %s\n", text(row, "what"), text(row, "advice"));
    }
}

static void print_all(const json_t *document)
{
    print_machine(document);
    print_noise(json_object_get(document, "noise"));
    print_rest(document);
}

int cli_verb_doctor(const cli_options_t *options)
{
    if (options->argument_count != 0)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder doctor", "doctor takes no arguments");
    wf_doctor_options_t doctor = {.struct_bytes = sizeof doctor,
                                  .noise_s = options->duration_s,
                                  .timing_cache = options->timing_cache,
                                  .progress = cli_progress,
                                  .progress_self = (void *)(uintptr_t)options};
    char *report = NULL;
    cli_catch_signals();
    int code = cli_fail(options, wf_doctor(&doctor, &report));
    cli_progress_done();
    return code != 0 ? code : cli_print_report(options, report, print_all);
}
