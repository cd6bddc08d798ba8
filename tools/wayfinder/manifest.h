/* SPDX-License-Identifier: Apache-2.0 */
/* wayfinder.yaml: the models of a repository, their shapes and targets, and the machines that tune them. */
#ifndef WF_CLI_MANIFEST_H
#define WF_CLI_MANIFEST_H

#include "cli.h"

typedef enum cli_policy { POLICY_STANDARD, POLICY_CORE, POLICY_LONGTAIL } cli_policy_t;

typedef struct cli_manifest_model {
    const char *name, *path, *fit, *accuracy, *requests;
    cli_list_t shapes;   /* "NAME=1x3x8x8[,...]" */
    cli_list_t settings; /* "NAME=VALUE" */
    cli_COUNT threads;
    double target_s; /* 0: none */
    cli_policy_t policy;
    size_t line;
} cli_manifest_model_t;

typedef struct cli_manifest_machine {
    const char *name, *match;
    cli_list_t models; /* names; none: all */
    cli_COUNT threads;
    double budget_s;
    size_t line;
} cli_manifest_machine_t;

typedef struct cli_manifest {
    const char *path, *store, *timing_cache;
    double budget_s;
    cli_policy_t policy;
    cli_manifest_model_t *models;
    size_t model_count;
    cli_manifest_machine_t *machines;
    size_t machine_count;
    void **kept; /* texts and arrays */
    size_t kept_count;
} cli_manifest_t;

/* Reads and checks; false with line and key in *error. Freed with cli_manifest_free, also on failure. */
bool cli_manifest_read(const char *path, cli_manifest_t *out_manifest, cli_error_t *error);
void cli_manifest_free(cli_manifest_t *manifest);
/* tune --manifest: one job for this machine. */
int cli_manifest_tune(const cli_options_t *options);

#endif
