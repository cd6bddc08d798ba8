/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/archive.h"

#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"

typedef struct header {
    char magic[8];
    uint32_t major, minor, part_count, reserved;
    uint64_t file_bytes, content_hash[2], unused[2];
} header_t;

typedef struct record {
    char name[16];
    uint64_t offset, bytes;
} record_t;

static bool is_name(const char *name, size_t capacity)
{
    size_t length = strnlen(name, capacity);
    return length > 0 && length < capacity && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

/* ---- Making ---- */

static wf_status_t place(const wf_archive_part_t *parts, size_t count, record_t *records, size_t *out_count,
                         size_t *out_end)
{
    size_t used = 0, end;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].data == NULL)
            continue;
        if (used == WF_ARCHIVE_PARTS_MAX || !is_name(parts[i].name, sizeof records->name))
            return WF_ERROR(USAGE, "an archive cannot have a part '%.40s'", parts[i].name);
        for (size_t j = 0; j < used; j++) {
            if (strcmp(records[j].name, parts[i].name) == 0)
                return WF_ERROR(USAGE, "an archive has one part '%s'", parts[i].name);
        }
        memcpy(records[used].name, parts[i].name, strlen(parts[i].name));
        records[used++].bytes = parts[i].bytes;
    }
    end = sizeof(header_t) + used * sizeof *records;
    for (size_t i = 0; i < used; i++) {
        if (!wf_size_align(end, WF_ARCHIVE_ALIGN, &end))
            return wf_status_out_of_memory();
        records[i].offset = end;
        if (!wf_size_add(end, records[i].bytes, &end))
            return wf_status_out_of_memory();
    }
    *out_count = used;
    *out_end = end;
    return WF_OK;
}

wf_status_t wf_archive_make(const wf_archive_part_t *parts, size_t count, wf_allocator_t allocator,
                            uint8_t **out_bytes, size_t *out_length)
{
    record_t records[WF_ARCHIVE_PARTS_MAX] = {0};
    size_t used = 0, end = 0;
    uint8_t *bytes = NULL;
    *out_bytes = NULL;
    WF_TRY(place(parts, count, records, &used, &end));
    WF_TRY(wf_alloc_aligned(allocator, end, 1, WF_ARCHIVE_ALIGN, &bytes));
    memset(bytes, 0, end);
    memcpy(bytes + sizeof(header_t), records, used * sizeof *records);
    for (size_t i = 0, r = 0; i < count; i++) {
        if (parts[i].data == NULL)
            continue;
        if (parts[i].bytes > 0)
            memcpy(bytes + records[r].offset, parts[i].data, parts[i].bytes);
        r++;
    }
    wf_hash_t hash = wf_hash_bytes(bytes + sizeof(header_t), end - sizeof(header_t));
    header_t header = {
        .major = 1, .part_count = (uint32_t)used, .file_bytes = end, .content_hash = {hash.low, hash.high}};
    memcpy(header.magic, WF_ARCHIVE_MAGIC, sizeof header.magic);
    memcpy(bytes, &header, sizeof header);
    *out_bytes = bytes;
    *out_length = end;
    return WF_OK;
}

/* ---- Reading ---- */

static wf_status_t invalid(const char *what)
{
    return wf_status_hinted(WF_ERROR(ARCHIVE_INVALID, "not an archive that can be used: %s", what),
                            "copy it again, or make it again with 'wayfinder tune MODEL --archive FILE'");
}

static wf_status_t check_header(const uint8_t *bytes, size_t length, header_t *out_header)
{
    if (length < sizeof *out_header || memcmp(bytes, WF_ARCHIVE_MAGIC, sizeof out_header->magic) != 0)
        return invalid("it does not begin as one");
    memcpy(out_header, bytes, sizeof *out_header);
    if (out_header->major != 1)
        return invalid("it is of a newer version");
    if (out_header->file_bytes != length)
        return invalid("it is cut off, or bytes were added");
    if (out_header->part_count > WF_ARCHIVE_PARTS_MAX ||
        out_header->part_count * sizeof(record_t) > length - sizeof *out_header)
        return invalid("it has too many parts");
    wf_hash_t hash = wf_hash_bytes(bytes + sizeof *out_header, length - sizeof *out_header);
    if (hash.low != out_header->content_hash[0] || hash.high != out_header->content_hash[1])
        return invalid("its content does not have the hash that it says");
    return WF_OK;
}

wf_status_t wf_archive_parse(const uint8_t *bytes, size_t length, wf_archive_part_t *out_parts,
                             size_t *out_count)
{
    header_t header;
    *out_count = 0;
    WF_TRY(check_header(bytes, length, &header));
    for (uint32_t i = 0; i < header.part_count; i++) {
        const uint8_t *at = bytes + sizeof header + i * sizeof(record_t);
        record_t record;
        memcpy(&record, at, sizeof record);
        if (!is_name(record.name, sizeof record.name))
            return invalid("a part has no name");
        if (record.offset % WF_ARCHIVE_ALIGN != 0 || record.offset > length ||
            record.bytes > length - record.offset)
            return invalid("a part lies outside the file");
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(out_parts[j].name, record.name) == 0)
                return invalid("it has a part twice");
        }
        out_parts[i] = (wf_archive_part_t){(const char *)at, bytes + record.offset, record.bytes};
    }
    *out_count = header.part_count;
    return WF_OK;
}
