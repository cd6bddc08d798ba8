/* SPDX-License-Identifier: Apache-2.0 */
/* Models and engines from the command line, and the wish to stop. */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* ---- --shape ---- */

/* The dims of one shape "1x3x224x224" or "scalar"; advances *text behind it. */
static bool parse_dims(const char **text, int64_t *dims, size_t *out_rank)
{
    const char *at = *text;
    *out_rank = 0;
    if (strncmp(at, "scalar", 6) == 0) {
        *text = at + 6;
        return true;
    }
    for (;;) {
        char *end;
        errno = 0;
        if (!isdigit((unsigned char)*at) || *out_rank == WF_MAX_RANK)
            return false;
        dims[(*out_rank)++] = strtoll(at, &end, 10);
        if (errno != 0)
            return false;
        at = end;
        if (*at != 'x' && *at != 'X')
            break;
        at++;
    }
    *text = at;
    return true;
}

/* One --shape word: name and a list of shapes. */
typedef struct shape_word {
    const char *name;
    int64_t (*dims)[WF_MAX_RANK];
    size_t *ranks, count;
} shape_word_t;

static bool parse_shape_word(const char *text, char *name, shape_word_t *word)
{
    const char *equals = strrchr(text, '=');
    if (equals == NULL || equals == text)
        return false;
    memcpy(name, text, (size_t)(equals - text));
    word->name = name;
    size_t commas = 1;
    for (const char *c = equals; *c != '\0'; c++)
        commas += *c == ',';
    word->dims = calloc(commas, sizeof *word->dims);
    word->ranks = calloc(commas, sizeof *word->ranks);
    if (word->dims == NULL || word->ranks == NULL)
        return false;
    const char *at = equals + 1;
    do {
        if (!parse_dims(&at, word->dims[word->count], &word->ranks[word->count]))
            return false;
        word->count++;
    } while (*at == ',' && *++at != '\0');
    return *at == '\0';
}

/* Words become specialisations: an input with one shape takes part in all of them. */
static int make_specs(const cli_options_t *options, const shape_word_t *words, size_t word_count,
                      cli_build_t *build)
{
    size_t spec_count = 1;
    for (size_t i = 0; i < word_count; i++) {
        if (words[i].count > spec_count)
            spec_count = words[i].count;
    }
    for (size_t i = 0; i < word_count; i++) {
        if (words[i].count != 1 && words[i].count != spec_count) {
            return cli_fail_with(options, WF_CODE_USAGE,
                                 "give one shape, or as many as the other inputs have",
                                 "--shape %s has %zu shapes, another input has %zu", words[i].name,
                                 words[i].count, spec_count);
        }
    }
    build->specs = calloc(spec_count, sizeof *build->specs);
    build->counts = calloc(spec_count, sizeof *build->counts);
    if (build->specs == NULL || build->counts == NULL)
        return cli_fail_with(options, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    build->options.spec_count = spec_count;
    for (size_t s = 0; s < spec_count; s++) {
        build->specs[s] = calloc(word_count, sizeof *build->specs[s]);
        if (build->specs[s] == NULL)
            return cli_fail_with(options, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory");
        build->counts[s] = word_count;
        for (size_t i = 0; i < word_count; i++) {
            size_t k = words[i].count == 1 ? 0 : s;
            build->specs[s][i] =
                (wf_shape_t){.input = words[i].name, .dims = words[i].dims[k], .rank = words[i].ranks[k]};
        }
    }
    return -1;
}

static int parse_shapes(const cli_options_t *options, cli_build_t *build, char **name_at)
{
    size_t word_count = 0;
    shape_word_t *words = calloc(options->shapes.count + 1, sizeof *words);
    int code = -1;
    for (size_t i = 0; code < 0 && words != NULL && i < options->shapes.count; i++) {
        shape_word_t word = {0};
        size_t same = 0;
        if (!parse_shape_word(options->shapes.items[i], *name_at, &word)) {
            code = cli_fail_with(options, WF_CODE_USAGE, "write --shape NAME=1x3x224x224",
                                 "--shape '%s' cannot be read", options->shapes.items[i]);
            break;
        }
        *name_at += strlen(word.name) + 1;
        while (same < word_count && strcmp(words[same].name, word.name) != 0)
            same++;
        if (same < word_count) { /* repeated: one more shape */
            size_t total = words[same].count + word.count;
            void *dims = realloc(words[same].dims, total * sizeof *word.dims),
                 *ranks = realloc(words[same].ranks, total * sizeof *word.ranks);
            if (dims == NULL || ranks == NULL)
                abort();
            words[same].dims = dims;
            words[same].ranks = ranks;
            memcpy(words[same].dims + words[same].count, word.dims, word.count * sizeof *word.dims);
            memcpy(words[same].ranks + words[same].count, word.ranks, word.count * sizeof *word.ranks);
            words[same].count = total;
            free(word.dims);
            free(word.ranks);
        } else {
            words[word_count++] = word;
        }
    }
    if (code < 0 && word_count > 0)
        code = make_specs(options, words, word_count, build);
    /* dims belong to the specs from here on; ranks have been copied */
    for (size_t i = 0; words != NULL && i < word_count; i++)
        free(words[i].ranks);
    free(words);
    return code;
}

int cli_build_make(const cli_options_t *options, cli_build_t *out_build)
{
    memset(out_build, 0, sizeof *out_build);
    size_t bytes = 1;
    for (size_t i = 0; i < options->shapes.count; i++)
        bytes += strlen(options->shapes.items[i]) + 1;
    for (size_t i = 0; i < options->settings.count; i++)
        bytes += strlen(options->settings.items[i]) + 1;
    out_build->texts = calloc(bytes, 1);
    out_build->settings = calloc(options->settings.count + 1, sizeof *out_build->settings);
    if (out_build->texts == NULL || out_build->settings == NULL)
        return cli_fail_with(options, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    char *at = out_build->texts;
    for (size_t i = 0; i < options->settings.count; i++) {
        memcpy(at, options->settings.items[i], strlen(options->settings.items[i]));
        char *equals = strchr(at, '=');
        if (equals == NULL) {
            return cli_fail_with(options, WF_CODE_USAGE, "write -k NAME=VALUE", "-k '%s' has no value",
                                 options->settings.items[i]);
        }
        *equals = '\0';
        out_build->settings[i] = (wf_setting_t){at, equals + 1};
        at += strlen(options->settings.items[i]) + 1;
    }
    int code = parse_shapes(options, out_build, &at);
    wf_build_options_t *o = &out_build->options;
    o->struct_bytes = sizeof *o;
    o->thread_count = (uint32_t)options->threads.value;
    o->isa = options->isa;
    o->fit = options->fit;
    o->shapes = (const wf_shape_t *const *)out_build->specs;
    o->shape_counts = out_build->counts;
    o->settings = out_build->settings;
    o->setting_count = options->settings.count;
    o->check_seed = options->seed.value;
    o->allocator = wf_allocator_system();
    o->log = cli_log(options);
    o->progress = cli_progress;
    o->progress_self = (void *)(uintptr_t)options;
    if (code < 0 && options->threads.given &&
        (options->threads.value == 0 || options->threads.value > 1024)) {
        code =
            cli_fail_with(options, WF_CODE_USAGE, "give 1 to 1024", "--threads %llu", options->threads.value);
    }
    return code < 0 ? 0 : code;
}

void cli_build_free(cli_build_t *build)
{
    for (size_t s = 0; build->specs != NULL && s < build->options.spec_count; s++) {
        for (size_t i = 0; s == 0 && build->specs[0] != NULL && i < build->counts[0]; i++)
            free((void *)(uintptr_t)build->specs[0][i].dims);
        free(build->specs[s]);
    }
    free(build->specs);
    free(build->counts);
    for (size_t i = 0; i < build->value_count; i++)
        wf_tensor_free(&build->values[i], wf_allocator_system());
    free(build->values);
    free(build->settings);
    free(build->texts);
}

/* ---- engines ---- */

bool cli_is_engine(const char *path)
{
    char magic[8] = {0};
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return false;
    size_t got = fread(magic, 1, sizeof magic, file);
    (void)fclose(file);
    return got == sizeof magic && memcmp(magic, "WFENGINE", sizeof magic) == 0;
}

int cli_engine_open(const cli_options_t *options, const char *path, const wf_build_options_t *build,
                    cli_engine_t *out_engine)
{
    memset(out_engine, 0, sizeof *out_engine);
    wf_engine_options_t engine_options = {.struct_bytes = sizeof engine_options,
                                          .thread_count = (uint32_t)options->threads.value,
                                          .isa = options->isa,
                                          .ignore_fingerprint =
                                              options->any_machine || options->verb == VERB_INSPECT,
                                          .allocator = wf_allocator_system(),
                                          .log = cli_log(options)};
    if (cli_is_engine(path))
        return cli_fail(options, wf_engine_open(path, &engine_options, &out_engine->engine));
    wf_model_t *model = NULL;
    wf_status_t status = wf_model_open(path, wf_allocator_system(), &model);
    if (wf_status_code(status) != WF_CODE_OK)
        return cli_fail(options, status);
    out_engine->from_model = true;
    status = wf_build(model, build, &out_engine->built);
    cli_progress_done();
    if (wf_status_code(status) == WF_CODE_OK) {
        status = wf_engine_open_bytes(out_engine->built.engine, out_engine->built.engine_bytes,
                                      &engine_options, &out_engine->engine);
    }
    wf_model_close(model);
    return cli_fail(options, status);
}

void cli_engine_close(cli_engine_t *engine)
{
    wf_engine_close(engine->engine);
    if (engine->from_model)
        wf_build_result_free(&engine->built);
}

/* ---- signals ---- */

static volatile sig_atomic_t stop_count;

static void on_signal(int signal_number)
{
    (void)signal_number;
    if (++stop_count >= 2)
        _exit(130);
}

void cli_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

bool cli_stop_asked(void)
{
    return stop_count > 0;
}
