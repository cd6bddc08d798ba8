/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "cli.h"

int cli_verb_cache(const cli_options_t *options)
{
    if (options->argument_count < 1 || options->argument_count > 2) {
        return cli_fail_with(
            options, WF_CODE_USAGE, "wayfinder cache ls",
            "cache takes a verb: ls, show, export, import, merge, pin, unpin, ban, unban, verify, gc or du");
    }
    char *text = NULL;
    size_t bytes = 0;
    wf_status_t status = wf_cache_command(options->timing_cache, options->arguments[0],
                                          options->argument_count > 1 ? options->arguments[1] : NULL,
                                          options->json, wf_allocator_system(), &text, &bytes);
    int code = cli_fail(options, status);
    if (code == 0 && text != NULL) {
        size_t written = fwrite(text, 1, bytes, stdout);
        if (written != bytes)
            code = 10;
        if (bytes > 0 && text[bytes - 1] != '\n')
            (void)fputc('\n', stdout);
    }
    free(text);
    return code;
}
