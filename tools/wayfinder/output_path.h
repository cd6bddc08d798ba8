/* SPDX-License-Identifier: Apache-2.0 */
/* Where an engine is written when -o does not say. */
#ifndef WF_CLI_OUTPUT_PATH_H
#define WF_CLI_OUTPUT_PATH_H

#include "cli.h"

/* -o, or the model's base name with .wfe in the present folder. 0, or an exit code after the error was told.
 */
int cli_output_path(const cli_options_t *options, char *out_path, size_t path_bytes);

#endif
