/* SPDX-License-Identifier: Apache-2.0 */
/* The archive file: header, table of parts, parts on 64-byte boundaries, little endian. Untrusted.
 *
 *   offset  bytes  header
 *        0      8  "WFARCHIV"
 *        8      4  major version, 1; another one is refused
 *       12      4  minor version, 0
 *       16      4  number of parts, at most 16
 *       20      4  0
 *       24      8  bytes of the file
 *       32     16  XXH3-128 (low, high) of all bytes from 64 on
 *       48     16  0
 *   then per part 32 bytes: name (16, zero-padded), offset (8), bytes (8); then the parts. Bytes between are
 * 0.
 */
#ifndef WF_ENGINE_ARCHIVE_H
#define WF_ENGINE_ARCHIVE_H

#include <stdint.h>

#include "base/mem.h"
#include "wayfinder/archive.h"

#define WF_ARCHIVE_MAGIC "WFARCHIV"
#define WF_ARCHIVE_PARTS_MAX 16u
#define WF_ARCHIVE_ALIGN 64u

/* Makes the file's bytes (64-byte aligned, freed with wf_free_aligned(.., bytes, 1, 64)). The same parts give
 * the same bytes. USAGE, OUT_OF_MEMORY. */
wf_status_t wf_archive_make(const wf_archive_part_t *parts, size_t count, wf_allocator_t allocator,
                            uint8_t **out_bytes, size_t *out_length) WF_MUST_USE;
/* Checks everything; the parts point into `bytes`, their names too. ARCHIVE_INVALID saying what and where. */
wf_status_t wf_archive_parse(const uint8_t *bytes, size_t length, wf_archive_part_t *out_parts,
                             size_t *out_count) WF_MUST_USE;

#endif
