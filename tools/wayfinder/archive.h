/* SPDX-License-Identifier: Apache-2.0 */
/* --archive of tune and build. */
#ifndef WF_CLI_ARCHIVE_H
#define WF_CLI_ARCHIVE_H

#include "cli.h"

/* Engine, lock, the database's timings of the engine's problems, baseline (when it is there) and report, in
 * the file of options->archive. 0, or an exit code after the error was told. */
int cli_archive_write(const cli_options_t *options, const char *engine_path, const json_t *report);
/* build --archive: without a model the engine of the archive as it is; with one the engine of its lock, or as
 * near to it as this machine comes. */
int cli_archive_build(const cli_options_t *options, cli_build_t *build, const char *path);

#endif
