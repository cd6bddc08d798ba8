/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int cli_verb_knobs(const cli_options_t *options)
{
    if (options->argument_count > 2)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder knobs list",
                             "knobs takes list, show NAME or search WORD");
    char *text = NULL;
    size_t bytes = 0;
    wf_status_t status = wf_knobs_command(options->argument_count > 0 ? options->arguments[0] : "list",
                                          options->argument_count > 1 ? options->arguments[1] : NULL,
                                          options->json, wf_allocator_system(), &text, &bytes);
    int code = cli_fail(options, status);
    if (code == 0 && fwrite(text, 1, bytes, stdout) != bytes)
        code = 10;
    if (code == 0 && options->json)
        (void)fputc('\n', stdout);
    free(text);
    return code;
}
