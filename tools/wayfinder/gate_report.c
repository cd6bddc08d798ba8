/* SPDX-License-Identifier: Apache-2.0 */
#include "gate_report.h"

#include <string.h>

#define STEPS_SHOWN 5

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text != NULL ? text : "";
}

static double number_of(const json_t *json, const char *key)
{
    return json_number_value(json_object_get(json, key));
}

const char *cli_gate_line(const json_t *report, char *out, size_t out_bytes)
{
    const char *verdict = text_of(report, "verdict");
    double effect = 100 * number_of(report, "min_effect"), ratio = number_of(report, "ratio");
    if (strcmp(verdict, "first") == 0)
        (void)snprintf(out, out_bytes, "passed: there is no baseline yet");
    else if (!(ratio > 0))
        (void)snprintf(out, out_bytes, "%s: nothing could be measured", verdict);
    else
        (void)snprintf(
            out, out_bytes,
            "%s: %.4f of the baseline's time, 95 %% between %.4f and %.4f (a slow-down of %.3g %% matters)",
            verdict, ratio, number_of(report, "lo95"), number_of(report, "hi95"), effect);
    return out;
}

/* ---- Steps ---- */

void cli_diff_print(FILE *to, const json_t *diff, size_t limit, bool markdown)
{
    const json_t *regions = json_object_get(diff, "regions"), *r;
    size_t index;
    if (markdown)
        (void)fprintf(
            to, "\n| difference | baseline | engine | what changed | nodes |\n|---:|---:|---:|---|---|\n");
    json_array_foreach(regions, index, r)
    {
        char a[40], b[40];
        if (index >= limit)
            break;
        (void)cli_time_text(number_of(r, "a_ns"), a, sizeof a);
        (void)cli_time_text(number_of(r, "b_ns"), b, sizeof b);
        (void)fprintf(to,
                      markdown ? "| %+.1f us | %s | %s | %s | `%s` |\n" : "%+10.1f us  %10s %10s  %-11s %s\n",
                      number_of(r, "difference_ns") / 1e3, a, b, text_of(r, "change"), text_of(r, "nodes"));
        if (!markdown && strcmp(text_of(r, "a_tactic"), text_of(r, "b_tactic")) != 0)
            (void)fprintf(to, "               %s -> %s\n", text_of(r, "a_tactic"), text_of(r, "b_tactic"));
    }
    (void)fprintf(
        to, "%stotal %+.1f us, of which steps explain %+.1f us and %+.1f us remain (%.0f paired runs)\n",
        markdown ? "\n" : "", number_of(diff, "difference_ns") / 1e3, number_of(diff, "explained_ns") / 1e3,
        number_of(diff, "unexplained_ns") / 1e3, number_of(diff, "runs"));
}

/* ---- Text ---- */

static const char *advice(const char *verdict)
{
    return strcmp(verdict, "inconclusive") == 0 ? "the noise is larger than the effect: a quieter machine, a "
                                                  "longer --budget or a larger --min-effect helps"
           : strcmp(verdict, "first") == 0
               ? "'wayfinder baseline promote ENGINE --store DIR' makes this engine the baseline"
               : "";
}

void cli_gate_print_text(const json_t *report)
{
    char line[300];
    const json_t *steps = json_object_get(report, "steps"), *note;
    size_t index;
    (void)printf("%s\n", cli_gate_line(report, line, sizeof line));
    if (number_of(report, "ratio") > 0) {
        const json_t *first = json_object_get(report, "first"),
                     *again = json_object_get(report, "confirmation");
        char a[40], b[40];
        (void)printf("  baseline  %s, engine %s (medians)%s\n",
                     cli_time_text(number_of(json_object_get(report, "baseline"), "p50_ns"), a, sizeof a),
                     cli_time_text(number_of(json_object_get(report, "engine"), "p50_ns"), b, sizeof b),
                     json_is_true(json_object_get(report, "same_engine")) ? "; they are the same engine"
                                                                          : "");
        (void)printf("  evidence  %.0f rounds%s, %.0f blocks, %.0f of them void, %.1f s",
                     number_of(first, "rounds") + (json_is_object(again) ? number_of(again, "rounds") : 0),
                     json_is_object(again) ? " (some of them fresh, to confirm)" : "",
                     number_of(report, "blocks"), number_of(report, "blocks_void"),
                     number_of(report, "seconds"));
        if (number_of(report, "waited_s") > 1)
            (void)printf(", %.0f s of it waiting for other measurements", number_of(report, "waited_s"));
        (void)printf("\n");
    }
    json_array_foreach(json_object_get(report, "notes"), index, note)
    {
        (void)printf("  note      %s\n", json_string_value(note));
    }
    if (advice(text_of(report, "verdict"))[0] != '\0')
        (void)printf("  %s\n", advice(text_of(report, "verdict")));
    if (json_is_object(steps))
        cli_diff_print(stdout, steps, STEPS_SHOWN, false);
}

/* ---- Build servers ---- */

/* Workflow commands of GitHub Actions escape these. */
static void print_escaped(FILE *to, const char *text, const char *special, const char *const *spelled)
{
    for (; *text != '\0'; text++) {
        const char *at = strchr(special, *text);
        if (at != NULL)
            (void)fputs(spelled[at - special], to);
        else if ((unsigned char)*text >= 0x20 || *text == '\n')
            (void)fputc(*text, to);
    }
}

void cli_gate_print_annotation(const json_t *report, const char *engine)
{
    static const char *const spelled[] = {"%25", "%0D", "%0A", "%3A", "%2C"};
    const char *verdict = text_of(report, "verdict");
    char line[300];
    (void)printf("::%s title=wayfinder gate ", strcmp(verdict, "regressed") == 0      ? "error"
                                               : strcmp(verdict, "inconclusive") == 0 ? "warning"
                                                                                      : "notice");
    print_escaped(stdout, engine, "%\r\n:,", spelled);
    (void)printf("::");
    print_escaped(stdout, cli_gate_line(report, line, sizeof line), "%\r\n", spelled);
    (void)printf("\n");
}

static void print_xml(FILE *to, const char *text)
{
    static const char *const spelled[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    print_escaped(to, text, "&<>\"'", spelled);
}

void cli_gate_print_junit(FILE *to, const json_t *report, const char *engine)
{
    const char *verdict = text_of(report, "verdict");
    bool failed = strcmp(verdict, "regressed") == 0, unknown = strcmp(verdict, "inconclusive") == 0;
    char line[300];
    (void)cli_gate_line(report, line, sizeof line);
    (void)fprintf(
        to,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"wayfinder gate\" tests=\"1\" "
        "failures=\"%d\" skipped=\"%d\" errors=\"0\" time=\"%.3f\">\n  <testcase classname=\"wayfinder\" "
        "name=\"",
        failed, unknown, number_of(report, "seconds"));
    print_xml(to, engine);
    (void)fprintf(to, "\" time=\"%.3f\">\n", number_of(report, "seconds"));
    if (failed || unknown) {
        (void)fprintf(to, "    <%s message=\"", failed ? "failure" : "skipped");
        print_xml(to, line);
        (void)fprintf(to, "\"/>\n");
    }
    (void)fprintf(to, "    <system-out>");
    print_xml(to, line);
    (void)fprintf(to, "</system-out>\n  </testcase>\n</testsuite>\n");
}

void cli_gate_print_markdown(FILE *to, const json_t *report, const char *engine)
{
    char line[300];
    (void)fprintf(to, "### wayfinder gate: `%s`\n\n%s\n", engine, cli_gate_line(report, line, sizeof line));
    if (json_is_object(json_object_get(report, "steps")))
        cli_diff_print(to, json_object_get(report, "steps"), STEPS_SHOWN, true);
    if (advice(text_of(report, "verdict"))[0] != '\0')
        (void)fprintf(to, "\n%s\n", advice(text_of(report, "verdict")));
    (void)fprintf(to, "\n");
}
