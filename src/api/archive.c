/* SPDX-License-Identifier: Apache-2.0 */
/* wf_archive_*: archives as files. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/archive.h"

struct wf_archive {
    wf_allocator_t allocator;
    wf_mapping_t mapping;
    wf_archive_part_t parts[WF_ARCHIVE_PARTS_MAX];
    size_t part_count;
};

wf_status_t wf_archive_save(const wf_archive_part_t *parts, size_t part_count, const char *path, bool force,
                            wf_allocator_t allocator)
{
    uint8_t *bytes = NULL;
    size_t length = 0;
    if (allocator.resize == NULL)
        allocator = wf_allocator_system();
    if (!force && !wf_file_may_replace(path, WF_ARCHIVE_MAGIC, sizeof WF_ARCHIVE_MAGIC - 1)) {
        return wf_status_hinted(WF_ERROR(FILE_EXISTS, "%s exists and is no archive", path),
                                "give another name, or --force to replace it");
    }
    WF_TRY(wf_archive_make(parts, part_count, allocator, &bytes, &length));
    wf_status_t status = wf_file_write(path, 0644, bytes, length);
    wf_free_aligned(allocator, bytes, length, 1, WF_ARCHIVE_ALIGN);
    return status;
}

wf_status_t wf_archive_open(const char *path, wf_allocator_t allocator, wf_archive_t **out_archive)
{
    *out_archive = NULL;
    wf_archive_t *archive = NULL;
    if (allocator.resize == NULL)
        allocator = wf_allocator_system();
    WF_TRY(wf_alloc(allocator, 1, sizeof *archive, &archive));
    archive->allocator = allocator;
    wf_status_t status = wf_mapping_open(path, &archive->mapping);
    if (status == WF_OK) {
        status = wf_status_annotated(wf_archive_parse(archive->mapping.data, archive->mapping.bytes,
                                                      archive->parts, &archive->part_count),
                                     "%s", path);
    }
    if (status == WF_OK)
        *out_archive = archive;
    else
        wf_archive_close(archive);
    return status;
}

wf_archive_part_t wf_archive_find(const wf_archive_t *archive, const char *name)
{
    for (size_t i = 0; i < archive->part_count; i++) {
        if (strcmp(archive->parts[i].name, name) == 0)
            return archive->parts[i];
    }
    return (wf_archive_part_t){.name = name};
}

void wf_archive_close(wf_archive_t *archive)
{
    if (archive == NULL)
        return;
    wf_mapping_close(&archive->mapping);
    wf_free(archive->allocator, archive, 1, sizeof *archive);
}
