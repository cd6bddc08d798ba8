/* SPDX-License-Identifier: Apache-2.0 */
/* What `cache` does with a timing database. */
#ifndef WF_TUNE_DATABASE_VERBS_H
#define WF_TUNE_DATABASE_VERBS_H

#include "tune/database.h"

/* ls, show, export, import, merge, pin, unpin, ban, unban, verify, gc, du; text or JSON is appended to `out`.
 * USAGE for an unknown verb or a missing argument; CACHE_INVALID from verify when rows or pages are wrong. */
wf_status_t wf_database_verb(wf_database_t *database, const char *verb, const char *argument, bool json,
                             wf_text_t *out) WF_MUST_USE;

#endif
