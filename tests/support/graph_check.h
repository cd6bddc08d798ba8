/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs from text, and whether two of them compute the same. */
#ifndef WF_TESTS_GRAPH_CHECK_H
#define WF_TESTS_GRAPH_CHECK_H

#include <stdint.h>

#include "graph/graph.h"

/* Reads and verifies a graph; fails the test when it cannot. The caller destroys it. */
wf_graph_t *wf_test_graph(const char *text);
/* The graph's text without comments, allocated with malloc. */
char *wf_test_graph_text(const wf_graph_t *graph);
/* Fails the test unless what is printed reads back as a graph that prints the same, types of values in
 * comments included. Constants that are printed by their hash are read back as zeros, and compared by their
 * types. */
void wf_test_text_round_trip(const wf_graph_t *graph);
/* Runs both graphs through the interpreter on the same random inputs and fails the test when an output is not
 * there, has another type or name, or differs by more than `tolerance` times the largest magnitude of that
 * output (at least 1). Integers must be equal; NaN equals NaN. */
void wf_test_same_results(const wf_graph_t *before, const wf_graph_t *after, uint64_t seed, double tolerance);

#endif
