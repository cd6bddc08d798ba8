/* SPDX-License-Identifier: Apache-2.0 */
/* Reading wayfinder.yaml. Every mapping has a table of its keys; what is wrong is told with line and key. */
#include "manifest.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define FILE_MAX_BYTES ((size_t)1 << 20)
enum { ENTRIES_MAX = 4096 };

typedef struct reader {
    cli_manifest_t *manifest;
    cli_error_t *error;
    yaml_document_t document;
} reader_t;

/* ---- memory ---- */

static void *keep(reader_t *reader, void *block)
{
    cli_manifest_t *m = reader->manifest;
    void **kept = block != NULL ? realloc(m->kept, (m->kept_count + 1) * sizeof *kept) : NULL;
    if (kept == NULL) {
        free(block);
        return NULL;
    }
    m->kept = kept;
    m->kept[m->kept_count++] = block;
    return block;
}

void cli_manifest_free(cli_manifest_t *manifest)
{
    for (size_t i = 0; i < manifest->kept_count; i++)
        free(manifest->kept[i]);
    free(manifest->kept);
    *manifest = (cli_manifest_t){0};
}

/* ---- what is wrong ---- */

static bool wrong(reader_t *reader, const yaml_node_t *node, const char *key, const char *what,
                  const char *hint)
{
    return cli_error_set(reader->error, WF_CODE_USAGE, hint, "%s line %zu: %s: %s", reader->manifest->path,
                         node->start_mark.line + 1, key, what);
}

static bool no_memory(reader_t *reader)
{
    return cli_error_set(reader->error, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory");
}

/* ---- values ---- */

typedef bool read_fn(reader_t *reader, const yaml_node_t *node, const char *key, void *field);

static bool read_text(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.length == 0 ||
        memchr(node->data.scalar.value, 0, node->data.scalar.length) != NULL)
        return wrong(reader, node, key, "a text is expected", NULL);
    char *text = keep(reader, strndup((const char *)node->data.scalar.value, node->data.scalar.length));
    *(const char **)field = text;
    return text != NULL || no_memory(reader);
}

static bool read_time(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    const char *text;
    if (!read_text(reader, node, key, &text))
        return false;
    return cli_parse_seconds(text, field) || wrong(reader, node, key, "no duration", "write 90s, 2m or 10ms");
}

static bool read_count(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    const char *text;
    cli_COUNT *count = field;
    char *end;
    if (!read_text(reader, node, key, &text))
        return false;
    count->value = strtoull(text, &end, 10);
    count->given = true;
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || count->value < 1 || count->value > 1024)
        return wrong(reader, node, key, "not a number from 1 to 1024", NULL);
    return true;
}

static bool read_version(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    const char *text;
    (void)field;
    if (!read_text(reader, node, key, &text))
        return false;
    return strcmp(text, "1") == 0 ||
           wrong(reader, node, key, "this version of Wayfinder reads manifests of version 1",
                 "write 'version: 1'");
}

static bool read_policy(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    static const char *const names[] = {"standard", "core", "longtail"};
    const char *text;
    if (!read_text(reader, node, key, &text))
        return false;
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *(cli_policy_t *)field = (cli_policy_t)i;
            return true;
        }
    }
    return wrong(reader, node, key, "no such policy", "core, standard or longtail");
}

static bool read_rate(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    double unused;
    if (!read_text(reader, node, key, field))
        return false;
    return cli_parse_rate(*(const char **)field, &unused) ||
           wrong(reader, node, key, "no rate", "write 2M/day or 30/s");
}

/* Engines agree with the FP32 reference; other bounds come with lower precision. */
static bool read_accuracy(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    if (!read_text(reader, node, key, field))
        return false;
    return strcmp(*(const char **)field, "default") == 0 ||
           wrong(reader, node, key, "no such accuracy", "'default' is the only one so far");
}

static bool add(reader_t *reader, cli_list_t *list, char *text)
{
    if (keep(reader, text) == NULL)
        return no_memory(reader);
    const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (items == NULL)
        return no_memory(reader);
    list->items = items;
    list->items[list->count++] = text;
    return true;
}

static const yaml_node_t *node_at(reader_t *reader, int index)
{
    return yaml_document_get_node(&reader->document, index);
}

static bool read_names(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return wrong(reader, node, key, "a list is expected", "write [a, b]");
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top;
         item++) {
        const char *text;
        if (!read_text(reader, node_at(reader, *item), key, &text))
            return false;
        if (!add(reader, field, strdup(text)))
            return false;
    }
    return true;
}

/* {name: value} as "name=value". */
static bool read_pairs(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    if (node->type != YAML_MAPPING_NODE)
        return wrong(reader, node, key, "a mapping is expected", "write {name: value}");
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top;
         pair++) {
        const char *name, *value;
        if (!read_text(reader, node_at(reader, pair->key), key, &name) ||
            !read_text(reader, node_at(reader, pair->value), name, &value))
            return false;
        size_t bytes = strlen(name) + strlen(value) + 2;
        char *text = malloc(bytes);
        if (text == NULL)
            return no_memory(reader);
        (void)snprintf(text, bytes, "%s=%s", name, value);
        if (!add(reader, field, text))
            return false;
    }
    return true;
}

/* ---- mappings ---- */

typedef struct key_row {
    const char *name;
    read_fn *read;
    size_t offset;
    bool needed;
} key_row_t;

static bool read_mapping(reader_t *reader, const yaml_node_t *node, const char *what, const key_row_t *rows,
                         size_t row_count, void *out)
{
    uint64_t seen = 0;
    if (node->type != YAML_MAPPING_NODE)
        return wrong(reader, node, what, "a mapping is expected", "write key: value");
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top;
         pair++) {
        const yaml_node_t *key = node_at(reader, pair->key);
        const char *name, *words[32];
        size_t at = 0;
        if (!read_text(reader, key, what, &name))
            return false;
        for (; at < row_count && strcmp(rows[at].name, name) != 0; at++)
            words[at] = rows[at].name;
        if (at == row_count) {
            static char hint[120];
            const char *near = cli_nearest(name, words, row_count);
            (void)snprintf(hint, sizeof hint, "did you mean '%s'?", near != NULL ? near : rows[0].name);
            return wrong(reader, key, name, "no such key", near != NULL ? hint : "see docs/ci/manifest.md");
        }
        if ((seen >> at & 1) != 0)
            return wrong(reader, key, name, "the key is there twice", NULL);
        seen |= UINT64_C(1) << at;
        if (!rows[at].read(reader, node_at(reader, pair->value), name, (char *)out + rows[at].offset))
            return false;
    }
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].needed && (seen >> i & 1) == 0)
            return wrong(reader, node, rows[i].name, "the key is missing", NULL);
    }
    return true;
}

#define MODEL(name, read, field, needed)                          \
    {                                                             \
        name, read, offsetof(cli_manifest_model_t, field), needed \
    }
static const key_row_t model_rows[] = {
    MODEL("name", read_text, name, true),         MODEL("path", read_text, path, true),
    MODEL("shapes", read_pairs, shapes, false),   MODEL("knobs", read_pairs, settings, false),
    MODEL("threads", read_count, threads, false), MODEL("target", read_time, target_s, false),
    MODEL("fit", read_text, fit, false),          MODEL("accuracy", read_accuracy, accuracy, false),
    MODEL("policy", read_policy, policy, false),  MODEL("requests", read_rate, requests, false),
};

#define MACHINE(name, read, field)                                 \
    {                                                              \
        name, read, offsetof(cli_manifest_machine_t, field), false \
    }
static const key_row_t machine_rows[] = {
    MACHINE("match", read_text, match),
    MACHINE("models", read_names, models),
    MACHINE("threads", read_count, threads),
    MACHINE("budget", read_time, budget_s),
};

/* A name is a folder of the store. */
static bool check_name(reader_t *reader, const yaml_node_t *node, const char *name)
{
    bool plain = name[0] != '.' && strlen(name) <= 100;
    for (const char *c = name; *c != '\0'; c++)
        plain = plain && (*c == '-' || *c == '_' || *c == '.' || (*c >= '0' && *c <= '9') ||
                          (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'));
    return plain || wrong(reader, node, name, "no name: letters, digits, '-', '_' and '.' only", NULL);
}

static bool read_models(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    cli_manifest_t *m = reader->manifest;
    (void)field;
    if (node->type != YAML_SEQUENCE_NODE)
        return wrong(reader, node, key, "a list of models is expected", "write '- name: ...' below it");
    size_t count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (count == 0 || count > ENTRIES_MAX)
        return wrong(reader, node, key, "no models, or too many", NULL);
    m->models = keep(reader, calloc(count, sizeof *m->models));
    if (m->models == NULL)
        return no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        const yaml_node_t *item = node_at(reader, node->data.sequence.items.start[i]);
        cli_manifest_model_t *model = &m->models[i];
        m->model_count = i + 1;
        model->line = item->start_mark.line + 1;
        model->policy = (cli_policy_t)-1;
        if (!read_mapping(reader, item, "models", model_rows, sizeof model_rows / sizeof *model_rows,
                          model) ||
            !check_name(reader, item, model->name))
            return false;
        for (size_t j = 0; j < i; j++) {
            if (strcmp(m->models[j].name, model->name) == 0)
                return wrong(reader, item, model->name, "two models have this name", NULL);
        }
    }
    return true;
}

static bool read_machines(reader_t *reader, const yaml_node_t *node, const char *key, void *field)
{
    cli_manifest_t *m = reader->manifest;
    (void)field;
    if (node->type != YAML_MAPPING_NODE)
        return wrong(reader, node, key, "a mapping of machines is expected", "write 'NAME:' below it");
    size_t count = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
    if (count > ENTRIES_MAX)
        return wrong(reader, node, key, "too many machines", NULL);
    m->machines = keep(reader, calloc(count + 1, sizeof *m->machines));
    if (m->machines == NULL)
        return no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        const yaml_node_pair_t *pair = &node->data.mapping.pairs.start[i];
        const yaml_node_t *name = node_at(reader, pair->key);
        cli_manifest_machine_t *machine = &m->machines[i];
        m->machine_count = i + 1;
        machine->line = name->start_mark.line + 1;
        if (!read_text(reader, name, key, &machine->name) || !check_name(reader, name, machine->name) ||
            !read_mapping(reader, node_at(reader, pair->value), machine->name, machine_rows,
                          sizeof machine_rows / sizeof *machine_rows, machine))
            return false;
    }
    return true;
}

#define TOP(name, read, field, needed)                      \
    {                                                       \
        name, read, offsetof(cli_manifest_t, field), needed \
    }
static const key_row_t top_rows[] = {
    TOP("version", read_version, path, true),
    TOP("store", read_text, store, false),
    TOP("budget", read_time, budget_s, false),
    TOP("policy", read_policy, policy, false),
    TOP("models", read_models, models, true),
    TOP("machines", read_machines, machines, false),
    TOP("timing-cache", read_text, timing_cache, false),
};

/* Machines name models that exist. */
static bool check_machines(reader_t *reader)
{
    const cli_manifest_t *m = reader->manifest;
    for (size_t i = 0; i < m->machine_count; i++) {
        for (size_t k = 0; k < m->machines[i].models.count; k++) {
            bool there = false;
            for (size_t j = 0; j < m->model_count; j++)
                there = there || strcmp(m->models[j].name, m->machines[i].models.items[k]) == 0;
            if (!there)
                return cli_error_set(reader->error, WF_CODE_USAGE, "models are listed under 'models:'",
                                     "%s line %zu: machines.%s.models: no model has the name '%s'", m->path,
                                     m->machines[i].line, m->machines[i].name,
                                     m->machines[i].models.items[k]);
        }
    }
    return true;
}

static bool read_document(reader_t *reader)
{
    cli_manifest_t *m = reader->manifest;
    const yaml_node_t *root = yaml_document_get_root_node(&reader->document);
    if (root == NULL)
        return cli_error_set(reader->error, WF_CODE_USAGE, "see docs/ci/manifest.md",
                             "%s line 1: it is empty", m->path);
    if (!read_mapping(reader, root, "manifest", top_rows, sizeof top_rows / sizeof *top_rows, m))
        return false;
    for (size_t i = 0; i < m->model_count; i++) {
        if (m->models[i].policy == (cli_policy_t)-1)
            m->models[i].policy = m->policy;
    }
    return check_machines(reader);
}

static void keep_lists(cli_manifest_t *m, reader_t *reader)
{
    /* The arrays of lists grew by realloc: from here on they are kept like all else. */
    for (size_t i = 0; i < m->model_count; i++) {
        (void)keep(reader, (void *)m->models[i].shapes.items);
        (void)keep(reader, (void *)m->models[i].settings.items);
    }
    for (size_t i = 0; i < m->machine_count; i++)
        (void)keep(reader, (void *)m->machines[i].models.items);
}

bool cli_manifest_read(const char *path, cli_manifest_t *out_manifest, cli_error_t *error)
{
    char *text = NULL;
    size_t bytes = 0;
    *out_manifest = (cli_manifest_t){.path = path, .store = "wayfinder-store"};
    if (!cli_read_file(path, FILE_MAX_BYTES, &text, &bytes, error))
        return false;
    reader_t reader = {.manifest = out_manifest, .error = error};
    yaml_parser_t parser;
    bool good = false;
    if (yaml_parser_initialize(&parser) == 0) {
        free(text);
        return no_memory(&reader);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    if (yaml_parser_load(&parser, &reader.document) == 0) {
        size_t line = parser.problem_mark.line != 0 ? parser.problem_mark.line : parser.context_mark.line;
        (void)cli_error_set(error, WF_CODE_USAGE, "the file is not YAML there", "%s line %zu: %s", path,
                            line + 1, parser.problem != NULL ? parser.problem : "it cannot be read");
    } else {
        good = read_document(&reader);
        keep_lists(out_manifest, &reader);
        yaml_document_delete(&reader.document);
    }
    yaml_parser_delete(&parser);
    free(text);
    return good;
}
