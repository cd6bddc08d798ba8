/* SPDX-License-Identifier: Apache-2.0 */
/* Reads bytes as a model and goes as far as it gets: what the fuzz target and the mutation test run. */
#ifndef WF_TESTS_ONNX_TARGET_H
#define WF_TESTS_ONNX_TARGET_H

#include <stddef.h>
#include <stdint.h>

#include "wayfinder/status.h"

/* Opens, reads summary and problems, builds a graph (free dims are 2) and verifies it. Returns how it ended;
 * ends the program when something is inconsistent: a code that the importer never gives, a graph that does
 * not verify, a problem without texts. */
wf_code_t onnx_target_run(const uint8_t *data, size_t bytes);

/* Writes small models that use every feature of the importer; index < ONNX_TARGET_SEEDS. The result is
 * malloc'ed. */
enum { ONNX_TARGET_SEEDS = 10 };
uint8_t *onnx_target_seed(size_t index, size_t *out_bytes);

#endif
