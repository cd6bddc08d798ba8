/* SPDX-License-Identifier: Apache-2.0 */
/* Knob values: what a user may write for a knob, one value or several.
 *
 *   on   off   2   on,off   [on/off]   [1|2|4]   1..4   1..8:2
 *
 * Names may be written with a dash in front, and in the spelling of TensorRT's tuner where a knob does the
 * same.
 */
#ifndef WF_ROUTE_KNOB_VALUES_H
#define WF_ROUTE_KNOB_VALUES_H

#include "route/space.h"

#define WF_KNOB_VALUES_MAX 64u
/* Not in the table of switches: how many threads a run has. */
#define WF_KNOB_THREADS SIZE_MAX
#define WF_KNOB_THREADS_NAME "cpu.threads"
#define WF_KNOB_THREADS_HELP "threads of a run"
#define WF_KNOB_THREADS_MAX 1024u

typedef struct wf_knob_values {
    size_t knob;                         /* index in the table, or WF_KNOB_THREADS */
    uint32_t values[WF_KNOB_VALUES_MAX]; /* 0 and 1 of switches */
    size_t count;
} wf_knob_values_t;

/* USAGE for an unknown name (nearest as hint), an unknown value, an empty list, a value twice, a range
 * without an end or with more than WF_KNOB_VALUES_MAX values. */
wf_status_t wf_knob_values_parse(const char *name, const char *text,
                                 wf_knob_values_t *out_values) WF_MUST_USE;
/* The value when only one can be used: the most threads; of a switch the default where it is listed, else the
 * first. */
uint32_t wf_knob_values_single(const wf_knob_values_t *values);

/* ---- The catalogue ---- */
/* "list" (argument NULL), "show" NAME, "search" WORD. Text, or JSON: an array of objects with name, values,
 * default, scope, help, constraint. USAGE for an unknown verb or knob. */
wf_status_t wf_knobs_describe(const char *verb, const char *argument, bool json, wf_text_t *out) WF_MUST_USE;

#endif
