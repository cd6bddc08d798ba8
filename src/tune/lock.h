/* SPDX-License-Identifier: Apache-2.0 */
/* Lock: routes written down, enough to build the same engine bytes again without searching.
 *
 *   wayfinder-lock 1
 *   version 0.1.0
 *   model <XXH3-128 of the model>
 *   fingerprint <device text>
 *   threads 2
 *   fit portable                     which machines may load the engine (device/fit.h)
 *   setting memory.reuse on          every setting, sorted
 *   [part 0]
 *   input x f32 1x3x224x224
 *   [plan] ...                       route/space.h
 *   [evidence] ...                   integers only; last
 */
#ifndef WF_TUNE_LOCK_H
#define WF_TUNE_LOCK_H

#include "base/mem.h"

/* A piece of a lock's text; data NULL: absent. */
typedef struct wf_lock_piece {
    const char *data;
    size_t length;
} wf_lock_piece_t;

#define WF_LOCK_TITLE "wayfinder-lock 1"

/* LOCK_MISMATCH when the text is not a lock of this version. */
wf_status_t wf_lock_check_title(const char *lock) WF_MUST_USE;
/* The rest of the first header line that starts with `key` and a blank. */
wf_lock_piece_t wf_lock_field(const char *lock, const char *key);
/* LOCK_MISMATCH naming both when the lock's field is not `here`. */
wf_status_t wf_lock_check_field(const char *lock, const char *key, const char *here) WF_MUST_USE;
/* Thread count of a lock; LOCK_MISMATCH when it has none. */
wf_status_t wf_lock_threads(const char *lock, uint32_t *out_threads) WF_MUST_USE;
/* The next header line that starts with `key` and a blank, after the piece `last` (data NULL: the first). */
wf_lock_piece_t wf_lock_next_field(const char *lock, const char *key, wf_lock_piece_t last);
/* The text of part `index` after its title line, up to the next part or the evidence. */
wf_lock_piece_t wf_lock_part(const char *lock, size_t index);
/* The [evidence] section with its title, up to the end. */
wf_lock_piece_t wf_lock_evidence(const char *lock);

#endif
