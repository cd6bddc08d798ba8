/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: what people decided about rows of the timing database. A pinned problem's rows survive `cache gc`; a
 * banned tactic is not offered to any tuning that uses the database.
 */
#ifndef WF_TUNE_DATABASE_MARKS_H
#define WF_TUNE_DATABASE_MARKS_H

#include "tune/database.h"

/* verb: pin, unpin (argument: the beginning of a problem's hash), ban, unban (TACTIC, everywhere, or
 * TACTIC@HASH, for one problem). argument NULL: lists what there is. Text or JSON is appended to `out`. USAGE
 * when the argument names nothing or several; CACHE_INVALID when the file cannot be written. */
wf_status_t wf_database_mark(wf_database_t *database, const char *verb, const char *argument, bool json,
                             wf_text_t *out) WF_MUST_USE;

#endif
