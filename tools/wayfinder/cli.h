/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs share: options, output, errors, models and engines from the command line. */
#ifndef WF_CLI_H
#define WF_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "wayfinder/wayfinder.h"

typedef enum cli_verb {
#define X(symbol, name, arguments, line) VERB_##symbol,
#include "verbs.def"
#undef X
    VERB_COUNT
} cli_verb_t;

typedef struct cli_list {
    const char **items;
    size_t count;
} cli_list_t;

typedef bool cli_FLAG;
typedef const char *cli_TEXT;
typedef cli_list_t cli_LIST;
typedef struct cli_COUNT {
    unsigned long long value;
    bool given;
} cli_COUNT;
typedef double cli_SECONDS; /* 0: not given */
typedef double cli_SHARE;   /* 0: not given */

typedef struct cli_options {
    cli_verb_t verb;
    const char **arguments;
    size_t argument_count;
    int argc; /* the whole command line, borrowed */
    char **argv;
#define X(field, name, short_name, argument, kind, verbs, help_text) cli_##kind field;
#include "options.def"
#undef X
} cli_options_t;

/* ---- options.c ---- */
typedef struct cli_verb_row {
    const char *name, *arguments, *line;
    int (*run)(const cli_options_t *options);
} cli_verb_row_t;
extern const cli_verb_row_t cli_verbs[VERB_COUNT];
typedef struct cli_option_row {
    const char *name;
    char short_name;
    const char *argument;
    int kind;
    unsigned verbs;
    const char *help;
    size_t offset;
} cli_option_row_t;
extern const cli_option_row_t cli_option_rows[];
extern const size_t cli_option_count;
/* Parses argv[1..]; 0, or the exit code after the error was told. */
int cli_parse(int argc, char **argv, cli_options_t *out_options);
/* A duration with ms, s, m or h; a rate such as 2M/day, per day. False when the text is none. */
bool cli_parse_seconds(const char *text, double *out_seconds);
bool cli_parse_rate(const char *text, double *out_per_day); /* verb_advise.c */
void cli_options_free(cli_options_t *options);
void cli_print_help(FILE *to, cli_verb_t verb);
void cli_print_overview(FILE *to);

/* ---- report.c ---- */
/* Tells an error (text, or JSON when asked), frees the status, returns its exit code. WF_OK gives 0. */
int cli_fail(const cli_options_t *options, wf_status_t status);
/* The same for mistakes the tool itself finds. */
int cli_fail_with(const cli_options_t *options, wf_code_t code, const char *hint, const char *format, ...)
    WF_PRINTF(4, 5);
/* Prints a JSON document (taken over) with schema_version; returns `exit_code`, or 1 when it cannot be
 * written. */
int cli_print_json(json_t *document, int exit_code);
/* Prints a report of the library (JSON text, freed here): as it is with --json, else by `print`. */
int cli_print_report(const cli_options_t *options, char *report, void (*print)(const json_t *document));
/* A sink that writes to standard error by -v, -q and WAYFINDER_LOG. */
wf_log_t cli_log(const cli_options_t *options);
/* "1x3x224x224"; "scalar" for rank 0. */
const char *cli_shape_text(const wf_type_t *type, char *out, size_t out_bytes);
/* "12.3 ms" */
const char *cli_time_text(double ns, char *out, size_t out_bytes);
const char *cli_bytes_text(double bytes, char *out, size_t out_bytes);
/* The nearest of `count` words, or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *words, size_t count);
/* A line of progress on standard error: refreshed on a terminal, at most every two seconds otherwise. */
bool cli_progress(void *options, const char *what, double fraction);
void cli_progress_done(void);

/* ---- sources.c ---- */
/* Turns --shape, --threads, -k into build options. The memory lives until cli_build_free. */
typedef struct cli_build {
    wf_build_options_t options;
    wf_shape_t **specs;
    size_t *counts;
    wf_setting_t *settings;
    char *texts;
    wf_tensor_t *values; /* of --value */
    size_t value_count;
} cli_build_t;
/* 0, or an exit code after the error was told. */
int cli_build_make(const cli_options_t *options, cli_build_t *out_build);
void cli_build_free(cli_build_t *build);
/* Adds what --value fixes for this model, in every specialisation. 0, or an exit code after the error was
 * told. */
int cli_build_fix_values(const cli_options_t *options, const wf_model_t *model,
                         cli_build_t *build); /* fixed_values.c */
/* True when the file starts like an engine. */
bool cli_is_engine(const char *path);
/* An engine from an engine file, or from a model built on the fly. */
typedef struct cli_engine {
    wf_engine_t *engine;
    wf_build_result_t built; /* empty for an engine file */
    bool from_model;
} cli_engine_t;
int cli_engine_open(const cli_options_t *options, const char *path, const wf_build_options_t *build,
                    cli_engine_t *out_engine);
void cli_engine_close(cli_engine_t *engine);
/* First Ctrl-C or SIGTERM asks to stop, the second leaves at once. */
void cli_catch_signals(void);
bool cli_stop_asked(void);

/* ---- npy.c ---- */
/* What went wrong on the tool's side; code WF_CODE_OK: nothing. */
typedef struct cli_error {
    wf_code_t code;
    char message[1200];
    const char *hint;
} cli_error_t;
/* Fills *error and returns false. */
bool cli_error_set(cli_error_t *error, wf_code_t code, const char *hint, const char *format, ...)
    WF_PRINTF(4, 5);
/* Reads .npy, a member of .npz (by name, or the only one), or raw bytes into a tensor of exactly this type.
 */
bool cli_read_tensor(const char *path, const char *member, const wf_type_t *type, wf_tensor_t *out_tensor,
                     cli_error_t *error);
/* The type that an .npy file states; false for anything else. */
bool cli_npy_type(const char *path, wf_type_t *out_type);
/* Writes .npy, or raw bytes for types numpy lacks: a temporary file, then renamed. */
bool cli_write_tensor(const char *path, const wf_tensor_t *tensor, cli_error_t *error);
bool cli_write_file(const char *path, const void *head, size_t head_bytes, const void *body,
                    size_t body_bytes, cli_error_t *error);
/* A whole file, zero-terminated; freed with free. */
bool cli_read_file(const char *path, size_t limit_bytes, char **out_data, size_t *out_bytes,
                   cli_error_t *error);

#define X(symbol, name, arguments, line) int cli_verb_##name(const cli_options_t *options);
#include "verbs.def"
#undef X

#endif
