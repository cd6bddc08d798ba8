/* SPDX-License-Identifier: Apache-2.0 */
/* Engine image: an engine file's bytes, validated once, then read through typed tables. */
#ifndef WF_RUNTIME_IMAGE_H
#define WF_RUNTIME_IMAGE_H

#include "base/mem.h"
#include "engine/format.h"
#include "wayfinder/tensor.h"

/* Tables of a validated image. Every index, offset and string in them is in range, so readers need no checks.
 */
typedef struct wf_image {
    const uint8_t *bytes;
    size_t length;
    const char *strings;
    const wf_engine_problem_t *problems;
    const wf_engine_constant_t *constants;
    const wf_engine_port_t *ports;
    const wf_engine_binding_t *binds;
    const wf_engine_step_t *steps;
    const wf_engine_spec_t *specs;
    const uint8_t *constant_data;
    const char *fingerprint, *lock;
    size_t strings_bytes, problem_count, constant_count, port_count, bind_count, step_count, spec_count;
    size_t constant_data_bytes, fingerprint_bytes, lock_bytes;
} wf_image_t;

/* Validates everything but the constants' values. check_content: also compares the hash of the whole content
 * (reads all of it). ENGINE_INVALID with what and where; ENGINE_VERSION for another major version. Keeps no
 * memory. */
wf_status_t wf_image_open(const void *bytes, size_t length, bool check_content,
                          wf_image_t *out_image) WF_MUST_USE;

/* The same for an engine that was written against a store of constants (engine/constant_store.h): these bytes
 * take the place of its own. They and the engine are the tuner's, so the content hash is not compared. */
wf_status_t wf_image_open_linked(const void *bytes, size_t length, const uint8_t *constants,
                                 size_t constant_bytes, wf_image_t *out_image) WF_MUST_USE;

/* The type of a port or constant. */
wf_type_t wf_image_type(uint32_t dtype, uint32_t rank, const int64_t *dims);

#endif
