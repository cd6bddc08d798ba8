/* SPDX-License-Identifier: Apache-2.0 */
/* The null source: a template for new sources, and scripted costs, declines and faults for tests.
 *
 * WAYFINDER_NULL_SCRIPT of the environment names a file with the script that an opened source begins with;
 * the registry then opens it beside other sources.
 *
 * Without a script it offers one tactic for every problem, "null/any", row-major, estimated from operations
 * and bytes. With one, every line whose pattern fits the problem says something, in order; a problem that no
 * line fits is declined.
 *
 *   PATTERN TACTIC LAYOUTS COST_NS [OPTION ...]
 *   PATTERN decline FAMILY [REASON ...]
 *
 * PATTERN
 *   The operators of the stages joined by "+" ("conv", "conv+add+relu", "matmul+*"), or, when it begins with
 *   "v1", the problem's text; "*" stands for any text and "?" for any character. In double quotes when it has
 *   blanks.
 * TACTIC
 *   Its id, "null/...".
 * LAYOUTS
 *   "last>last": of the operands and of the outputs, a list with commas or one name for all; a tensor that
 *   does not have the layout is row-major. "-": row-major, and for wf.convert what its attributes say.
 * COST_NS
 *   The estimate.
 * OPTION
 *   workspace=BYTES, packed=BYTES, slow=NS (a launch takes at least that long), alias=OPERAND,
 *   must_alias=OPERAND, nondeterministic, inexact, or fault= with one of
 *
 *     crash    the launch raises SIGSEGV
 *     hang     the launch never returns
 *     alloc    the launch allocates until it dies
 *     overrun  the launch writes 64 bytes past output 0
 *     noise    the launch prints to stdout
 *     error    the launch fails
 *     wrong    outputs are NaN
 *     prepare  preparing fails
 *
 * "#" at the start of a line is a comment. A launch copies operand 0 to output 0 when both have as many bytes
 * and fills the other outputs with zeros: results are not meant to be right. The source never sees the
 * reference (layers).
 */
#ifndef WF_BACKENDS_NULL_NULL_H
#define WF_BACKENDS_NULL_NULL_H

#include "wayfinder/backend.h"

extern const wf_source_t wf_source_null;

/* Replaces the script of an open null source (`self` from wf_backends_source). The text is copied. USAGE
 * naming the line that cannot be read; the old script stays. Not while other calls run. */
wf_status_t wf_null_script(void *self, const char *text, size_t text_bytes) WF_MUST_USE;

#endif
