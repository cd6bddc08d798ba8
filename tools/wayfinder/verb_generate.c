/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages and shell completion from the tables of verbs and options; the build calls this when it
 * installs. */
#include <ctype.h>
#include <string.h>

#include "cli.h"

static bool takes(const cli_option_row_t *row, size_t verb)
{
    return (row->verbs & (1u << verb)) != 0;
}

/* Roff reads a leading '.' or "'" and every backslash and '-' as its own. */
static void roff(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '-' || *text == '\\')
            (void)putchar('\\');
        (void)putchar(*text);
    }
}

static void man_page(size_t verb)
{
    const cli_verb_row_t *row = &cli_verbs[verb];
    (void)printf(".TH WAYFINDER-");
    for (const char *c = row->name; *c != '\0'; c++)
        (void)putchar(toupper((unsigned char)*c));
    (void)printf(" 1 \"\" \"wayfinder %s\"\n.SH NAME\nwayfinder\\-%s \\- ", wf_version(), row->name);
    roff(row->line);
    (void)printf("\n.SH SYNOPSIS\n.B wayfinder %s\n[options] ", row->name);
    roff(row->arguments);
    (void)printf("\n.SH OPTIONS\n");
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option_row_t *o = &cli_option_rows[i];
        if (!takes(o, verb))
            continue;
        (void)printf(".TP\n.B ");
        if (o->short_name != 0)
            (void)printf("\\-%c, ", o->short_name);
        (void)printf("\\-\\-");
        roff(o->name);
        if (o->argument != NULL)
            (void)printf(" \\fI%s\\fR", o->argument);
        (void)printf("\n");
        roff(o->help);
        (void)printf("\n");
    }
    (void)printf(
        ".SH EXIT STATUS\n0 done; 1 internal error; 2 usage; 3 target not met; 4 accuracy; 7 engine does not "
        "fit; 8 model invalid or "
        "unsupported; 9 cache, lock or record mismatch; 10 out of memory, disk or time; 130 interrupted.\n");
}

static void bash(void)
{
    (void)printf("_wayfinder() {\n    local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} words=\n    "
                 "if [ \"$COMP_CWORD\" -eq 1 ]; then words='");
    for (size_t v = 0; v < VERB_COUNT; v++)
        (void)printf("%s ", cli_verbs[v].name);
    (void)printf("--version --help'\n    else case $verb in\n");
    for (size_t v = 0; v < VERB_COUNT; v++) {
        (void)printf("        %s) words='", cli_verbs[v].name);
        for (size_t i = 0; i < cli_option_count; i++) {
            if (takes(&cli_option_rows[i], v))
                (void)printf("--%s ", cli_option_rows[i].name);
        }
        (void)printf("' ;;\n");
    }
    (void)printf("    esac; fi\n    case $cur in -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
                 "    *) if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"$words\" -- "
                 "\"$cur\")); else COMPREPLY=($(compgen -f -- \"$cur\")); fi ;;\n"
                 "    esac\n}\ncomplete -o filenames -F _wayfinder wayfinder\n");
}

static void zsh(void)
{
    (void)printf("#compdef wayfinder\nif (( CURRENT == 2 )); then\n    _values verb");
    for (size_t v = 0; v < VERB_COUNT; v++)
        (void)printf(" '%s[%s]'", cli_verbs[v].name, cli_verbs[v].line);
    (void)printf("\nelse case $words[2] in\n");
    for (size_t v = 0; v < VERB_COUNT; v++) {
        (void)printf("    %s) _arguments", cli_verbs[v].name);
        for (size_t i = 0; i < cli_option_count; i++) {
            const cli_option_row_t *o = &cli_option_rows[i];
            if (takes(o, v))
                (void)printf(" '--%s[%s]%s'", o->name, o->name, o->argument != NULL ? ":value:_files" : "");
        }
        (void)printf(" '*:file:_files' ;;\n");
    }
    (void)printf("esac; fi\n");
}

static void fish(void)
{
    for (size_t v = 0; v < VERB_COUNT; v++) {
        (void)printf("complete -c wayfinder -n __fish_use_subcommand -a %s -d \"%s\"\n", cli_verbs[v].name,
                     cli_verbs[v].line);
        for (size_t i = 0; i < cli_option_count; i++) {
            const cli_option_row_t *o = &cli_option_rows[i];
            if (takes(o, v))
                (void)printf("complete -c wayfinder -n '__fish_seen_subcommand_from %s' -l %s%s\n",
                             cli_verbs[v].name, o->name, o->argument != NULL ? " -r" : "");
        }
    }
}

int cli_verb_generate(const cli_options_t *options)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } kinds[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; options->argument_count == 1 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(options->arguments[0], kinds[i].name) != 0)
            continue;
        kinds[i].print();
        return 0;
    }
    for (size_t v = 0;
         options->argument_count == 2 && strcmp(options->arguments[0], "man") == 0 && v < VERB_COUNT; v++) {
        if (strcmp(options->arguments[1], cli_verbs[v].name) != 0)
            continue;
        man_page(v);
        return 0;
    }
    return cli_fail_with(options, WF_CODE_USAGE, "wayfinder generate bash, or wayfinder generate man tune",
                         "generate makes man, bash, zsh or fish");
}
