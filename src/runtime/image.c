/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/image.h"

#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"

/* Sections of the image and where their address, and count or size go. */
typedef struct section_row {
    const char *name;
    uint32_t record_bytes; /* 0: bytes, which end in a zero when `text` */
    size_t pointer_at, count_at;
    bool needed;
} section_row_t;

#define ROW(name, record, pointer, count, needed)                                        \
    {                                                                                    \
        name, record, offsetof(wf_image_t, pointer), offsetof(wf_image_t, count), needed \
    }
static const section_row_t section_rows[] = {
    ROW("STRINGS", 0, strings, strings_bytes, true),
    ROW("PROBLEMS", sizeof(wf_engine_problem_t), problems, problem_count, true),
    ROW("CONSTS", sizeof(wf_engine_constant_t), constants, constant_count, true),
    ROW("PORTS", sizeof(wf_engine_port_t), ports, port_count, true),
    ROW("BINDS", sizeof(wf_engine_binding_t), binds, bind_count, true),
    ROW("STEPS", sizeof(wf_engine_step_t), steps, step_count, true),
    ROW("SPECS", sizeof(wf_engine_spec_t), specs, spec_count, true),
    ROW("CDATA", 0, constant_data, constant_data_bytes, true),
    ROW("FPRINT", 0, fingerprint, fingerprint_bytes, false),
    ROW("LOCK", 0, lock, lock_bytes, false),
};

static wf_status_t damaged(const char *what, uint64_t where)
{
    return wf_status_hinted(
        WF_ERROR(ENGINE_INVALID, "engine file is damaged: %s %llu", what, (unsigned long long)where),
        "build the engine again from its model");
}

static wf_status_t check_header(const uint8_t *bytes, size_t length, wf_engine_header_t *out_header)
{
    if (length < sizeof *out_header || memcmp(bytes, WF_ENGINE_MAGIC, sizeof out_header->magic) != 0) {
        return wf_status_hinted(WF_ERROR(ENGINE_INVALID, "not a Wayfinder engine"),
                                "give an engine made by 'wayfinder build' or 'wayfinder tune'");
    }
    memcpy(out_header, bytes, sizeof *out_header);
    if (out_header->major != WF_ENGINE_MAJOR) {
        return wf_status_hinted(WF_ERROR(ENGINE_VERSION, "engine has format %u.%u, this version reads %u.x",
                                         out_header->major, out_header->minor, WF_ENGINE_MAJOR),
                                "build the engine again with this version");
    }
    if (out_header->file_bytes != length) {
        return wf_status_hinted(
            WF_ERROR(ENGINE_INVALID, "engine file is cut off or has bytes added: %zu bytes, made with %llu",
                     length, (unsigned long long)out_header->file_bytes),
            "copy it again, or build it again from its model");
    }
    if (out_header->header_bytes != sizeof *out_header)
        return damaged("header size", out_header->header_bytes);
    return WF_OK;
}

static wf_status_t open_section(wf_image_t *image, const wf_engine_section_t *section)
{
    if (section->offset % WF_ENGINE_ALIGN != 0 || section->offset > image->length ||
        section->bytes > image->length - section->offset) {
        return damaged("section table points outside the file, at", section->offset);
    }
    for (size_t i = 0; i < WF_COUNT_OF(section_rows); i++) {
        const section_row_t *row = &section_rows[i];
        if (strncmp(section->name, row->name, sizeof section->name) != 0)
            continue;
        size_t unit = row->record_bytes == 0 ? 1 : row->record_bytes;
        if (section->record_bytes != row->record_bytes || section->bytes % unit != 0) {
            return damaged("records of another size in the section at", section->offset);
        }
        const uint8_t *data = image->bytes + section->offset;
        size_t count = section->bytes / unit;
        memcpy((char *)image + row->pointer_at, &data, sizeof data);
        memcpy((char *)image + row->count_at, &count, sizeof count);
        return WF_OK;
    }
    if ((section->flags & WF_SECTION_REQUIRED) != 0) {
        return wf_status_hinted(WF_ERROR(ENGINE_VERSION,
                                         "engine needs the section '%.8s', which this version does not know",
                                         section->name),
                                "run it with the version that built it, or build it again");
    }
    return WF_OK;
}

static wf_status_t open_sections(wf_image_t *image, uint32_t section_count)
{
    size_t table_bytes;
    if (!wf_size_mul(section_count, sizeof(wf_engine_section_t), &table_bytes) ||
        table_bytes > image->length - sizeof(wf_engine_header_t)) {
        return damaged("section table is longer than the file, sections", section_count);
    }
    for (uint32_t i = 0; i < section_count; i++) {
        wf_engine_section_t section;
        memcpy(&section, image->bytes + sizeof(wf_engine_header_t) + i * sizeof section, sizeof section);
        WF_TRY(open_section(image, &section));
    }
    for (size_t i = 0; i < WF_COUNT_OF(section_rows); i++) {
        const void *pointer;
        memcpy(&pointer, (const char *)image + section_rows[i].pointer_at, sizeof pointer);
        if (section_rows[i].needed && pointer == NULL)
            return damaged("a section is missing, number", i);
    }
    return WF_OK;
}

/* ---- records ---- */

static bool is_string(const wf_image_t *image, uint32_t offset)
{
    return offset < image->strings_bytes; /* the table ends in a zero, so every offset starts a text */
}

wf_type_t wf_image_type(uint32_t dtype, uint32_t rank, const int64_t *dims)
{
    wf_type_t type = {.dtype = (wf_dtype_t)dtype, .rank = rank};
    memcpy(type.dims, dims, rank * sizeof dims[0]);
    return type;
}

static bool is_type(uint32_t dtype, uint32_t rank, const int64_t *dims, int64_t *out_bytes)
{
    if (dtype == WF_DTYPE_NONE || dtype >= WF_DTYPE_COUNT || rank > WF_MAX_RANK)
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d] < 0)
            return false;
    }
    wf_type_t type = wf_image_type(dtype, rank, dims);
    *out_bytes = wf_type_bytes(&type);
    return *out_bytes >= 0;
}

static bool is_range(uint64_t first, uint64_t count, uint64_t limit)
{
    return first <= limit && count <= limit - first;
}

static wf_status_t check_tables(const wf_image_t *image)
{
    if (image->strings_bytes == 0 || image->strings[image->strings_bytes - 1] != '\0') {
        return damaged("texts do not end, bytes", image->strings_bytes);
    }
    for (size_t i = 0; i < image->problem_count; i++) {
        if (!is_string(image, image->problems[i].text) || !is_string(image, image->problems[i].tactic)) {
            return damaged("problem", i);
        }
    }
    for (size_t i = 0; i < image->constant_count; i++) {
        const wf_engine_constant_t *constant = &image->constants[i];
        int64_t bytes;
        if (!is_type(constant->dtype, constant->rank, constant->dims, &bytes) ||
            (uint64_t)bytes != constant->bytes || constant->offset % WF_ENGINE_ALIGN != 0 ||
            !is_range(constant->offset, constant->bytes, image->constant_data_bytes)) {
            return damaged("constant", i);
        }
    }
    for (size_t i = 0; i < image->port_count; i++) {
        const wf_engine_port_t *port = &image->ports[i];
        int64_t bytes;
        if (!is_string(image, port->name) || !is_type(port->dtype, port->rank, port->dims, &bytes) ||
            port->fixed > image->constant_count) {
            return damaged("port", i);
        }
        if (port->fixed != 0 && image->constants[port->fixed - 1].bytes != (uint64_t)bytes)
            return damaged("port", i);
    }
    return WF_OK;
}

/* The bytes that a binding may touch in this specialisation; false when its index is out of range. */
static bool bind_limit(const wf_image_t *image, const wf_engine_spec_t *spec, const wf_engine_binding_t *bind,
                       uint64_t *out_limit)
{
    int64_t port_bytes;
    switch (bind->kind) {
    case WF_BIND_NONE:
        *out_limit = 0;
        return bind->bytes == 0;
    case WF_BIND_ARENA:
        *out_limit = spec->arena_bytes;
        return true;
    case WF_BIND_CONSTANT:
        if (bind->index >= image->constant_count)
            return false;
        *out_limit = image->constants[bind->index].bytes;
        return true;
    case WF_BIND_INPUT:
    case WF_BIND_OUTPUT: {
        bool input = bind->kind == WF_BIND_INPUT;
        if (bind->index >= (input ? spec->input_count : spec->output_count))
            return false;
        const wf_engine_port_t *port =
            &image->ports[(input ? spec->first_input : spec->first_output) + bind->index];
        if (!is_type(port->dtype, port->rank, port->dims, &port_bytes))
            return false;
        *out_limit = (uint64_t)port_bytes;
        return true;
    }
    default:
        return false;
    }
}

static bool is_step(const wf_image_t *image, const wf_engine_spec_t *spec, const wf_engine_step_t *step)
{
    uint64_t bind_count = (uint64_t)step->operand_count + step->output_count;
    if (step->kind != WF_STEP_LAUNCH && step->kind != WF_STEP_COPY)
        return false;
    if (step->device != 0 || !is_string(image, step->nodes))
        return false;
    if (step->kind == WF_STEP_LAUNCH && step->problem >= image->problem_count)
        return false;
    if (step->kind == WF_STEP_COPY && (step->operand_count != 1 || step->output_count != 1))
        return false;
    if (!is_range(step->first_bind, bind_count, image->bind_count))
        return false;
    if (!is_range(step->workspace_offset, step->workspace_bytes, spec->arena_bytes))
        return false;
    if (step->workspace_offset % WF_ENGINE_ALIGN != 0)
        return false;
    for (uint64_t i = 0; i < bind_count; i++) {
        const wf_engine_binding_t *bind = &image->binds[step->first_bind + i];
        uint64_t limit;
        bool is_output = i >= step->operand_count;
        if (!bind_limit(image, spec, bind, &limit) || !is_range(bind->offset, bind->bytes, limit))
            return false;
        if (bind->row_stride_elems < 0)
            return false;
        if (is_output && bind->kind != WF_BIND_ARENA && bind->kind != WF_BIND_OUTPUT)
            return false;
    }
    if (step->kind == WF_STEP_COPY) {
        return image->binds[step->first_bind].bytes == image->binds[step->first_bind + 1].bytes;
    }
    return true;
}

static wf_status_t check_specs(const wf_image_t *image)
{
    if (image->spec_count == 0)
        return damaged("number of specialisations is", 0);
    for (size_t i = 0; i < image->spec_count; i++) {
        const wf_engine_spec_t *spec = &image->specs[i];
        if (!is_range(spec->first_input, spec->input_count, image->port_count) ||
            !is_range(spec->first_output, spec->output_count, image->port_count) ||
            !is_range(spec->first_step, spec->step_count, image->step_count) || spec->thread_count == 0 ||
            spec->input_count != image->specs[0].input_count ||
            spec->output_count != image->specs[0].output_count) {
            return damaged("specialisation", i);
        }
        for (uint32_t s = 0; s < spec->step_count; s++) {
            if (!is_step(image, spec, &image->steps[spec->first_step + s]))
                return damaged("step", s);
        }
    }
    return WF_OK;
}

/* constants NULL: the engine's own. */
static wf_status_t open_image(const void *bytes, size_t length, const uint8_t *constants,
                              size_t constant_bytes, wf_engine_header_t *header, wf_image_t *image)
{
    WF_TRY(check_header(bytes, length, header));
    *image = (wf_image_t){.bytes = bytes, .length = length, .fingerprint = "", .lock = ""};
    if ((uintptr_t)bytes % 8 != 0)
        return WF_ERROR(INTERNAL, "engine bytes are not aligned to 8");
    WF_TRY(open_sections(image, header->section_count));
    if (constants != NULL) {
        image->constant_data = constants;
        image->constant_data_bytes = constant_bytes;
    }
    WF_TRY(check_tables(image));
    return check_specs(image);
}

wf_status_t wf_image_open(const void *bytes, size_t length, bool check_content, wf_image_t *out_image)
{
    wf_engine_header_t header;
    wf_image_t image;
    WF_TRY(open_image(bytes, length, NULL, 0, &header, &image));
    if (check_content) {
        wf_hash_t hash = wf_hash_bytes(image.bytes + sizeof header, length - sizeof header);
        if (hash.low != header.content_hash[0] || hash.high != header.content_hash[1]) {
            return damaged("content hash differs, file bytes", length);
        }
    }
    *out_image = image;
    return WF_OK;
}

wf_status_t wf_image_open_linked(const void *bytes, size_t length, const uint8_t *constants,
                                 size_t constant_bytes, wf_image_t *out_image)
{
    wf_engine_header_t header;
    wf_image_t image;
    WF_TRY(open_image(bytes, length, constants, constant_bytes, &header, &image));
    *out_image = image;
    return WF_OK;
}
