/* SPDX-License-Identifier: Apache-2.0 */
/* Fit: on which machines an engine may be used. The engine's header has the level and a hash of the part of
 * the fingerprint (device.h) that the level compares, so that a loader decides from the first bytes of a
 * file.
 */
#ifndef WF_DEVICE_FIT_H
#define WF_DEVICE_FIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"

typedef enum wf_fit {
    WF_FIT_PORTABLE, /* wherever its tactics exist */
    WF_FIT_FAMILY,   /* vendor, family and model of the CPU are the same */
    WF_FIT_EXACT,    /* all of the fingerprint but the tiers, which are what the user allowed */
    WF_FIT_COUNT
} wf_fit_t;

const char *wf_fit_name(wf_fit_t fit);
/* name need not be terminated. */
bool wf_fit_from_name(const char *name, size_t length, wf_fit_t *out_fit);
/* The hash that two machines share when an engine of one may be used on the other. 0, 0 for PORTABLE. */
wf_hash_t wf_fit_hash(wf_fit_t fit, const char *fingerprint, size_t length);

#endif
