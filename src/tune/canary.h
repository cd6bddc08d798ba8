/* SPDX-License-Identifier: Apache-2.0 */
/* Canary: a fixed piece of f32 work on all threads, timed beside every block. When it moves, something else
 * used the cores (or the clock changed), and the block says nothing about tactics.
 *
 * Multiply-adds on registers see clock and neighbours on the core; they do not see AMX tiles (a canary with
 * tile loads belongs beside AMX tactics) nor memory bandwidth.
 */
#ifndef WF_TUNE_CANARY_H
#define WF_TUNE_CANARY_H

#include "wayfinder/backend.h"

/* Runs it once, about 30 us, and returns the nanoseconds. */
double wf_canary_run(const wf_parallel_t *parallel);

#endif
