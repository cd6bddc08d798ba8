/* SPDX-License-Identifier: Apache-2.0 */
/* Archives: any bytes are refused or give parts that lie inside them. The hash is made right first, so that
 * mutations reach what comes after it. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    wf_archive_part_t parts[WF_ARCHIVE_PARTS_MAX];
    size_t count;
    uint8_t *copy = NULL;
    if (bytes > (size_t)1 << 20 || posix_memalign((void **)&copy, WF_ARCHIVE_ALIGN, bytes + 1) != 0)
        return 0;
    memcpy(copy, data, bytes);
    if (bytes >= 64 && data[63] % 8 != 0) {
        uint64_t length = bytes;
        wf_hash_t hash = wf_hash_bytes(copy + 64, bytes - 64);
        memcpy(copy + 24, &length, sizeof length);
        memcpy(copy + 32, &hash.low, sizeof hash.low);
        memcpy(copy + 40, &hash.high, sizeof hash.high);
    }
    wf_status_t status = wf_archive_parse(copy, bytes, parts, &count);
    if (status == WF_OK) {
        uint64_t sum = 0;
        for (size_t i = 0; i < count; i++) {
            if (parts[i].name[0] == '\0' || strlen(parts[i].name) > 15)
                abort();
            for (size_t b = 0; b < parts[i].bytes; b++)
                sum += ((const uint8_t *)parts[i].data)[b];
        }
        uint8_t *made = NULL;
        size_t length;
        if (sum == UINT64_MAX ||
            wf_archive_make(parts, count, wf_allocator_system(), &made, &length) != WF_OK)
            abort();
        wf_archive_part_t again[WF_ARCHIVE_PARTS_MAX];
        size_t again_count;
        if (wf_archive_parse(made, length, again, &again_count) != WF_OK || again_count != count)
            abort();
        wf_free_aligned(wf_allocator_system(), made, length, 1, WF_ARCHIVE_ALIGN);
    } else if (wf_status_code(status) != WF_CODE_ARCHIVE_INVALID) {
        abort();
    }
    wf_status_free(status);
    free(copy);
    return 0;
}
