/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

const cli_verb_row_t cli_verbs[VERB_COUNT] = {
#define X(symbol, name, arguments, line) {#name, arguments, line, cli_verb_##name},
#include "verbs.def"
#undef X
};

int cli_verb_help(const cli_options_t *options)
{
    if (options->argument_count == 0) {
        cli_print_overview(stdout);
        return 0;
    }
    const char *words[VERB_COUNT];
    for (size_t i = 0; i < VERB_COUNT; i++) {
        words[i] = cli_verbs[i].name;
        if (strcmp(options->arguments[0], cli_verbs[i].name) != 0)
            continue;
        cli_print_help(stdout, (cli_verb_t)i);
        return 0;
    }
    const char *near = cli_nearest(options->arguments[0], words, VERB_COUNT);
    return cli_fail_with(options, WF_CODE_USAGE, near, "no verb '%s'", options->arguments[0]);
}

int main(int argc, char **argv)
{
    /* A reader that leaves early is no accident: the write fails and the tool ends. */
    (void)signal(SIGPIPE, SIG_DFL);
    cli_options_t options;
    int code = cli_parse(argc, argv, &options);
    if (code < 0) {
        code =
            options.help ? (cli_print_help(stdout, options.verb), 0) : cli_verbs[options.verb].run(&options);
    }
    cli_options_free(&options);
    if (fflush(stdout) != 0 && code == 0) {
        (void)fprintf(stderr, "error: standard output cannot be written\n");
        code = 10;
    }
    return code;
}
