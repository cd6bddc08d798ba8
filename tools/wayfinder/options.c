/* SPDX-License-Identifier: Apache-2.0 */
/* Options: the table of options.def, the parser, help. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { KIND_FLAG, KIND_TEXT, KIND_LIST, KIND_COUNT, KIND_SECONDS, KIND_SHARE };
#define V(verb) (1u << VERB_##verb)
#define ALL (~0u)

const cli_option_row_t cli_option_rows[] = {
#define X(field, name, short_name, argument, kind, verbs, help_text) \
    {name, short_name, argument, KIND_##kind, verbs, help_text, offsetof(cli_options_t, field)},
#include "options.def"
#undef X
};
const size_t cli_option_count = sizeof cli_option_rows / sizeof cli_option_rows[0];

/* ---- help ---- */

static bool takes(const cli_option_row_t *row, cli_verb_t verb)
{
    return (row->verbs & (1u << verb)) != 0;
}

void cli_print_overview(FILE *to)
{
    (void)fprintf(to,
                  "wayfinder %s: an inference compiler with a global performance tuner\n\nusage: wayfinder "
                  "VERB ...\n\n",
                  wf_version());
    for (size_t i = 0; i < VERB_COUNT; i++)
        (void)fprintf(to, "  %-9s %s\n", cli_verbs[i].name, cli_verbs[i].line);
    (void)fprintf(
        to, "\n'wayfinder VERB --help' tells the options of a verb; 'wayfinder --version' the version.\n");
}

void cli_print_help(FILE *to, cli_verb_t verb)
{
    const cli_verb_row_t *row = &cli_verbs[verb];
    (void)fprintf(to, "usage: wayfinder %s [options] %s\n\n%s\n\n", row->name, row->arguments, row->line);
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option_row_t *o = &cli_option_rows[i];
        char left[80];
        if (!takes(o, verb))
            continue;
        (void)snprintf(left, sizeof left, "%c%c%s --%s%s%s", o->short_name != 0 ? '-' : ' ',
                       o->short_name != 0 ? o->short_name : ' ', o->short_name != 0 ? "," : " ", o->name,
                       o->argument != NULL ? " " : "", o->argument != NULL ? o->argument : "");
        (void)fprintf(to, "  %-34s %s\n", left, o->help);
    }
}

/* ---- values ---- */

static bool parse_count(const char *text, cli_COUNT *out)
{
    char *end;
    errno = 0;
    if (text[0] == '-' || text[0] == '\0')
        return false;
    out->value = strtoull(text, &end, 10);
    out->given = true;
    return errno == 0 && *end == '\0';
}

/* A number with ms, s, m or h; seconds without a unit. */
bool cli_parse_seconds(const char *text, double *out)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"min", 60}, {"h", 3600}};
    char *end;
    double number = strtod(text, &end);
    if (end == text || !(number > 0) || number > 1e9)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) != 0)
            continue;
        *out = number * units[i].seconds;
        return true;
    }
    return false;
}

/* "2%" or 0.02 */
static bool parse_share(const char *text, double *out)
{
    char *end;
    double number = strtod(text, &end);
    bool percent = end[0] == '%';
    if (end == text || !(number > 0) || number > 1e6 || end[percent] != '\0')
        return false;
    *out = percent ? number / 100 : number;
    return true;
}

static bool store(cli_options_t *options, const cli_option_row_t *row, const char *value)
{
    void *field = (char *)options + row->offset;
    switch (row->kind) {
    case KIND_FLAG:
        *(cli_FLAG *)field = true;
        return true;
    case KIND_TEXT:
        *(cli_TEXT *)field = value;
        return value[0] != '\0';
    case KIND_COUNT:
        return parse_count(value, field);
    case KIND_SECONDS:
        return cli_parse_seconds(value, field);
    case KIND_SHARE:
        return parse_share(value, field);
    default: {
        cli_LIST *list = field;
        const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
        if (items == NULL)
            return false;
        list->items = items;
        list->items[list->count++] = value;
        return true;
    }
    }
}

static const char *kind_hint(int kind)
{
    return kind == KIND_COUNT     ? "give a whole number"
           : kind == KIND_SECONDS ? "give a duration such as 90s, 2m or 500ms"
           : kind == KIND_SHARE   ? "give a share such as 2% or 0.02"
                                  : "give a value";
}

/* ---- parsing ---- */

static const cli_option_row_t *find_option(cli_verb_t verb, const char *name, size_t length, char short_name)
{
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option_row_t *row = &cli_option_rows[i];
        if (!takes(row, verb))
            continue;
        if (short_name != 0 ? row->short_name == short_name
                            : strlen(row->name) == length && memcmp(row->name, name, length) == 0) {
            return row;
        }
    }
    return NULL;
}

static int unknown_option(const cli_options_t *options, const char *word)
{
    const char *words[64];
    size_t count = 0;
    for (size_t i = 0; i < cli_option_count && count < 64; i++) {
        if (takes(&cli_option_rows[i], options->verb))
            words[count++] = cli_option_rows[i].name;
    }
    const char *near = cli_nearest(word + strspn(word, "-"), words, count);
    char hint[120];
    if (near != NULL)
        (void)snprintf(hint, sizeof hint, "did you mean --%s?", near);
    else
        (void)snprintf(hint, sizeof hint, "see 'wayfinder %s --help'", cli_verbs[options->verb].name);
    return cli_fail_with(options, WF_CODE_USAGE, hint, "%s has no option '%s'", cli_verbs[options->verb].name,
                         word);
}

static int parse_option(cli_options_t *options, int argc, char **argv, int *at)
{
    const char *word = argv[*at], *value = NULL;
    const cli_option_row_t *row;
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        size_t length = equals != NULL ? (size_t)(equals - word) - 2 : strlen(word) - 2;
        row = find_option(options->verb, word + 2, length, 0);
        if (equals != NULL)
            value = equals + 1;
    } else {
        row = find_option(options->verb, NULL, 0, word[1]);
        if (word[2] != '\0')
            value = word + 2;
    }
    if (row == NULL)
        return unknown_option(options, word);
    if (row->kind == KIND_FLAG) {
        if (value != NULL)
            return cli_fail_with(options, WF_CODE_USAGE, "leave the value out", "--%s takes no value",
                                 row->name);
    } else if (value == NULL) {
        if (*at + 1 >= argc)
            return cli_fail_with(options, WF_CODE_USAGE, kind_hint(row->kind), "--%s needs %s", row->name,
                                 row->argument);
        value = argv[++*at];
    }
    if (store(options, row, value))
        return -1;
    return cli_fail_with(options, WF_CODE_USAGE, kind_hint(row->kind), "--%s: '%s' is not %s", row->name,
                         value, row->argument);
}

/* Every word from `at` on; errors after --json are told as JSON wherever it stands. */
static int parse_words(cli_options_t *options, int argc, char **argv, int at)
{
    bool only_arguments = false;
    options->arguments = calloc((size_t)argc + 1, sizeof *options->arguments);
    if (options->arguments == NULL)
        return cli_fail_with(options, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    for (int i = at; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            options->json = true;
    }
    for (; at < argc; at++) {
        if (!only_arguments && strcmp(argv[at], "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && argv[at][0] == '-' && argv[at][1] != '\0') {
            int code = parse_option(options, argc, argv, &at);
            if (code >= 0)
                return code;
        } else {
            options->arguments[options->argument_count++] = argv[at];
        }
    }
    if (options->device != NULL && strcmp(options->device, "cpu") != 0) {
        return cli_fail_with(options, WF_CODE_USAGE, "use --device cpu", "device '%s' is not supported",
                             options->device);
    }
    return -1;
}

int cli_parse(int argc, char **argv, cli_options_t *out_options)
{
    memset(out_options, 0, sizeof *out_options);
    out_options->verb = VERB_HELP;
    out_options->argc = argc;
    out_options->argv = argv;
    if (argc < 2) {
        cli_print_overview(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("wayfinder %s\n", wf_version());
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        cli_print_overview(stdout);
        return 0;
    }
    const char *words[VERB_COUNT];
    for (size_t i = 0; i < VERB_COUNT; i++) {
        words[i] = cli_verbs[i].name;
        if (strcmp(argv[1], cli_verbs[i].name) != 0)
            continue;
        out_options->verb = (cli_verb_t)i;
        return parse_words(out_options, argc, argv, 2);
    }
    for (int i = 1; i < argc; i++)
        out_options->json |= strcmp(argv[i], "--json") == 0;
    const char *near = cli_nearest(argv[1], words, VERB_COUNT);
    char hint[80];
    (void)snprintf(hint, sizeof hint,
                   near != NULL ? "did you mean '%s'?" : "'wayfinder help' lists the verbs", near);
    return cli_fail_with(out_options, WF_CODE_USAGE, hint, "no verb '%s'", argv[1]);
}

void cli_options_free(cli_options_t *options)
{
    for (size_t i = 0; i < cli_option_count; i++) {
        if (cli_option_rows[i].kind == KIND_LIST) {
            free((void *)((cli_LIST *)(void *)((char *)options + cli_option_rows[i].offset))->items);
        }
    }
    free((void *)options->arguments);
}
