/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a gate in the forms that build servers read. `report` is the data of `gate --json`. */
#ifndef WF_CLI_GATE_REPORT_H
#define WF_CLI_GATE_REPORT_H

#include "cli.h"

/* One line: verdict, ratio with interval. */
const char *cli_gate_line(const json_t *report, char *out, size_t out_bytes);
void cli_gate_print_text(const json_t *report);
void cli_gate_print_annotation(const json_t *report, const char *engine);
void cli_gate_print_junit(FILE *to, const json_t *report, const char *engine);
void cli_gate_print_markdown(FILE *to, const json_t *report, const char *engine);
/* The regions of a diff, largest difference first, at most `limit`. */
void cli_diff_print(FILE *to, const json_t *diff, size_t limit, bool markdown);

#endif
