/* SPDX-License-Identifier: Apache-2.0 */
/* wf_cache_command: verbs over the timing database. */
#include <string.h>
#include <unistd.h>

#include "tune/database_verbs.h"
#include "wayfinder/tuner.h"

/* Every verb but import and merge looks at what is there. */
static wf_status_t check_present(const char *database_path, const char *verb)
{
    char own[4096];
    if (database_path == NULL && wf_database_default_path(own, sizeof own))
        database_path = own;
    if (strcmp(verb, "import") == 0 || strcmp(verb, "merge") == 0 || database_path == NULL ||
        access(database_path, F_OK) == 0)
        return WF_OK;
    return wf_status_hinted(WF_ERROR(FILE_MISSING, "there is no timing database %s yet", database_path),
                            "'wayfinder tune' makes it; another one can be named with --timing-cache");
}

wf_status_t wf_cache_command(const char *database_path, const char *verb, const char *argument, bool json,
                             wf_allocator_t allocator, char **out_text, size_t *out_text_bytes)
{
    *out_text = NULL;
    *out_text_bytes = 0;
    if (allocator.resize == NULL)
        allocator = wf_allocator_system();
    wf_database_t *database = NULL;
    WF_TRY(check_present(database_path, verb));
    WF_TRY(wf_database_open(database_path, NULL, allocator, &database));
    wf_text_t text;
    wf_text_init(&text, allocator, SIZE_MAX / 2);
    wf_status_t status = wf_database_verb(database, verb, argument, json, &text);
    if (status == WF_OK)
        status = wf_alloc(allocator, text.length + 1, 1, out_text);
    if (status == WF_OK) {
        memcpy(*out_text, wf_text_cstr(&text), text.length);
        *out_text_bytes = text.length;
    }
    wf_text_deinit(&text);
    wf_database_close(database);
    return status;
}
