/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine_write.h"

#include <string.h>

#include "base/compiler.h"
#include "engine/format.h"
#include "engine/lower.h"

typedef WF_VEC(wf_engine_problem_t) problem_records_t;
typedef WF_VEC(wf_engine_constant_t) constant_records_t;
typedef WF_VEC(wf_engine_port_t) port_records_t;
typedef WF_VEC(wf_engine_binding_t) binding_records_t;
typedef WF_VEC(wf_engine_step_t) step_records_t;
typedef WF_VEC(wf_engine_spec_t) spec_records_t;

typedef struct writer {
    const wf_engine_source_t *source;
    wf_allocator_t allocator; /* of the result */
    wf_arena_t arena;
    wf_allocator_t scratch;
    wf_text_t strings;
    wf_map_t string_offsets;
    wf_map_t problem_index;  /* problem offset and tactic offset -> index */
    wf_map_t constant_index; /* type and content hash -> index */
    problem_records_t problems;
    constant_records_t constants;
    WF_VEC(const void *) constant_data;
    port_records_t ports;
    binding_records_t binds;
    step_records_t steps;
    spec_records_t specs;
    uint64_t constant_bytes;
} writer_t;

/* ---- deduplicated texts, problems and constants ---- */

static wf_status_t intern(writer_t *w, const char *text, uint32_t *out_offset)
{
    uint64_t found = 0;
    size_t length = strlen(text);
    *out_offset = 0;
    if (length == 0)
        return WF_OK;
    if (wf_map_get(&w->string_offsets, text, length, &found)) {
        *out_offset = (uint32_t)found;
        return WF_OK;
    }
    const char *kept = NULL;
    WF_TRY(wf_arena_text(&w->arena, text, length, &kept));
    *out_offset = (uint32_t)w->strings.length;
    wf_text_append(&w->strings, text, length + 1);
    WF_TRY(wf_text_take_status(&w->strings));
    return wf_map_set(&w->string_offsets, kept, length, *out_offset);
}

static wf_status_t intern_problem(writer_t *w, const wf_lowered_step_t *step, uint32_t *out_index)
{
    wf_engine_problem_t record = {0};
    WF_TRY(intern(w, step->problem->text, &record.text));
    WF_TRY(intern(w, step->tactic_id, &record.tactic));
    uint64_t found = 0;
    if (wf_map_get(&w->problem_index, (const char *)&record, sizeof record, &found)) {
        *out_index = (uint32_t)found;
        return WF_OK;
    }
    wf_engine_problem_t *key = NULL;
    WF_TRY(wf_arena_alloc(&w->arena, 1, sizeof *key, &key));
    *key = record;
    *out_index = (uint32_t)w->problems.count;
    WF_TRY(wf_vec_push(w->scratch, &w->problems, &record));
    return wf_map_set(&w->problem_index, (const char *)key, sizeof *key, *out_index);
}

typedef struct constant_key {
    wf_hash_t content;
    wf_type_t type;
} constant_key_t;

static wf_status_t intern_constant(writer_t *w, const wf_type_t *type, const void *data, uint32_t *out_index)
{
    int64_t bytes = wf_type_bytes(type);
    assert(bytes >= 0);
    constant_key_t *key = NULL;
    const wf_constant_store_t *store = w->source->store;
    uint64_t offset = w->constant_bytes;
    WF_TRY(wf_arena_alloc(&w->arena, 1, sizeof *key, &key)); /* zeroed: padding compares equal */
    if (store == NULL)
        key->content = wf_hash_bytes(data, (size_t)bytes);
    else if (wf_constant_store_find(store, data, (uint64_t)bytes, &offset))
        key->content.low = offset;
    else
        return WF_ERROR(INTERNAL, "a constant is not in the store of constants");
    key->type.dtype = type->dtype;
    key->type.rank = type->rank;
    memcpy(key->type.dims, type->dims, type->rank * sizeof type->dims[0]);
    uint64_t found = 0;
    if (wf_map_get(&w->constant_index, (const char *)key, sizeof *key, &found)) {
        *out_index = (uint32_t)found;
        return WF_OK;
    }
    wf_engine_constant_t record = {
        .dtype = (uint32_t)type->dtype, .rank = type->rank, .offset = offset, .bytes = (uint64_t)bytes};
    memcpy(record.dims, type->dims, type->rank * sizeof type->dims[0]);
    size_t end = 0;
    if (store == NULL && (!wf_size_add(w->constant_bytes, (size_t)bytes, &end) ||
                          !wf_size_align(end, WF_ENGINE_ALIGN, &end))) {
        return wf_status_out_of_memory();
    }
    w->constant_bytes = end;
    *out_index = (uint32_t)w->constants.count;
    WF_TRY(wf_vec_push(w->scratch, &w->constants, &record));
    WF_TRY(wf_vec_push(w->scratch, &w->constant_data, &data));
    return wf_map_set(&w->constant_index, (const char *)key, sizeof *key, *out_index);
}

/* ---- records of one specialisation ---- */

static wf_status_t add_ports(writer_t *w, const wf_graph_t *graph, const wf_value_id *values, size_t count,
                             const wf_tensor_t *fixed, uint32_t *out_first)
{
    *out_first = (uint32_t)w->ports.count;
    for (size_t i = 0; i < count; i++) {
        const wf_value_t *value = wf_graph_value(graph, values[i]);
        wf_engine_port_t port = {.dtype = (uint32_t)value->type.dtype, .rank = value->type.rank};
        memcpy(port.dims, value->type.dims, value->type.rank * sizeof value->type.dims[0]);
        WF_TRY(intern(w, value->name, &port.name));
        if (fixed != NULL && fixed[i].data != NULL) {
            WF_TRY(intern_constant(w, &fixed[i].type, fixed[i].data, &port.fixed));
            port.fixed++;
        }
        WF_TRY(wf_vec_push(w->scratch, &w->ports, &port));
    }
    return WF_OK;
}

static wf_status_t add_bind(writer_t *w, const wf_graph_t *graph, const wf_lowered_bind_t *bind)
{
    wf_engine_binding_t record = {.kind = bind->kind,
                                  .index = bind->index,
                                  .offset = bind->offset,
                                  .bytes = bind->bytes,
                                  .row_stride_elems = bind->row_stride_elems};
    if (bind->kind == WF_BIND_CONSTANT) {
        const wf_value_t *value = wf_graph_value(graph, bind->value);
        WF_TRY(intern_constant(w, &value->type, value->constant, &record.index));
    }
    return wf_vec_push(w->scratch, &w->binds, &record);
}

static wf_status_t add_step(writer_t *w, const wf_graph_t *graph, const wf_lowered_step_t *step)
{
    wf_engine_step_t record = {.kind = step->kind,
                               .first_bind = (uint32_t)w->binds.count,
                               .operand_count = step->operand_count,
                               .output_count = step->output_count,
                               .workspace_offset = step->workspace_offset,
                               .workspace_bytes = step->workspace_bytes};
    if (step->kind == WF_STEP_LAUNCH)
        WF_TRY(intern_problem(w, step, &record.problem));
    WF_TRY(intern(w, step->nodes, &record.nodes));
    for (uint32_t i = 0; i < step->operand_count + step->output_count; i++) {
        WF_TRY(add_bind(w, graph, &step->binds[i]));
    }
    return wf_vec_push(w->scratch, &w->steps, &record);
}

static wf_status_t add_part(writer_t *w, const wf_engine_part_t *part)
{
    wf_lowered_t lowered;
    WF_TRY(wf_lower(part, w->source->memory_reuse, w->source->concat_inplace, &w->arena, &lowered));
    const wf_graph_t *graph = part->space->graph;
    wf_engine_spec_t spec = {.input_count = (uint32_t)graph->inputs.count,
                             .output_count = (uint32_t)graph->outputs.count,
                             .first_step = (uint32_t)w->steps.count,
                             .step_count = lowered.step_count,
                             .thread_count = w->source->thread_count,
                             .run_flags = w->source->run_flags,
                             .arena_bytes = lowered.arena_bytes};
    WF_TRY(
        add_ports(w, graph, graph->inputs.items, graph->inputs.count, part->fixed_inputs, &spec.first_input));
    WF_TRY(add_ports(w, graph, graph->outputs.items, graph->outputs.count, NULL, &spec.first_output));
    for (uint32_t s = 0; s < lowered.step_count; s++)
        WF_TRY(add_step(w, graph, &lowered.steps[s]));
    return wf_vec_push(w->scratch, &w->specs, &spec);
}

/* ---- the file ---- */

typedef struct section_source {
    const char *name;
    uint32_t flags, record_bytes;
    const void *data; /* NULL: constants' data, gathered */
    uint64_t bytes;
} section_source_t;

static void copy_constants(const writer_t *w, uint8_t *target)
{
    for (size_t i = 0; w->source->store == NULL && i < w->constants.count; i++) {
        const wf_engine_constant_t *record = &w->constants.items[i];
        if (record->bytes > 0)
            memcpy(target + record->offset, w->constant_data.items[i], record->bytes);
    }
}

static wf_status_t make_file(writer_t *w, uint8_t **out_bytes, size_t *out_length)
{
    const char *fingerprint = w->source->fingerprint, *lock = w->source->lock;
#define RECORDS(vec) sizeof *(vec).items, (vec).items, (vec).count * sizeof *(vec).items
    const section_source_t sections[] = {
        {"STRINGS", WF_SECTION_REQUIRED, 0, w->strings.data, w->strings.length},
        {"PROBLEMS", WF_SECTION_REQUIRED, RECORDS(w->problems)},
        {"CONSTS", WF_SECTION_REQUIRED, RECORDS(w->constants)},
        {"PORTS", WF_SECTION_REQUIRED, RECORDS(w->ports)},
        {"BINDS", WF_SECTION_REQUIRED, RECORDS(w->binds)},
        {"STEPS", WF_SECTION_REQUIRED, RECORDS(w->steps)},
        {"SPECS", WF_SECTION_REQUIRED, RECORDS(w->specs)},
        {"FPRINT", 0, 0, fingerprint, strlen(fingerprint)},
        {"LOCK", 0, 0, lock, strlen(lock)},
        {"CDATA", WF_SECTION_REQUIRED, 0, NULL, w->constant_bytes},
    };
#undef RECORDS
    wf_engine_section_t table[WF_COUNT_OF(sections)] = {0};
    size_t end;
    if (!wf_size_align(sizeof(wf_engine_header_t) + sizeof table, WF_ENGINE_ALIGN, &end))
        return wf_status_out_of_memory();
    for (size_t i = 0; i < WF_COUNT_OF(sections); i++) {
        memcpy(table[i].name, sections[i].name, WF_MIN(strlen(sections[i].name), sizeof table[i].name));
        table[i].flags = sections[i].flags;
        table[i].record_bytes = sections[i].record_bytes;
        table[i].offset = end;
        table[i].bytes = sections[i].bytes;
        if (!wf_size_add(end, sections[i].bytes, &end) || !wf_size_align(end, WF_ENGINE_ALIGN, &end)) {
            return wf_status_out_of_memory();
        }
    }
    uint8_t *bytes = NULL;
    WF_TRY(wf_alloc_aligned(w->allocator, end, 1, WF_ENGINE_ALIGN, &bytes));
    for (size_t i = 0; i < WF_COUNT_OF(sections); i++) {
        if (sections[i].data == NULL)
            copy_constants(w, bytes + table[i].offset);
        else if (sections[i].bytes > 0)
            memcpy(bytes + table[i].offset, sections[i].data, sections[i].bytes);
    }
    memcpy(bytes + sizeof(wf_engine_header_t), table, sizeof table);
    wf_hash_t content = wf_hash_bytes(bytes + sizeof(wf_engine_header_t), end - sizeof(wf_engine_header_t));
    wf_hash_t machine = wf_fit_hash(w->source->fit, fingerprint, strlen(fingerprint));
    wf_engine_header_t header = {.major = WF_ENGINE_MAJOR,
                                 .minor = WF_ENGINE_MINOR,
                                 .header_bytes = sizeof header,
                                 .section_count = WF_COUNT_OF(sections),
                                 .file_bytes = end,
                                 .content_hash = {content.low, content.high},
                                 .machine_hash = {machine.low, machine.high},
                                 .fit = (uint32_t)w->source->fit};
    memcpy(header.magic, WF_ENGINE_MAGIC, sizeof header.magic);
    memcpy(bytes, &header, sizeof header);
    *out_bytes = bytes;
    *out_length = end;
    return WF_OK;
}

static wf_status_t write_all(writer_t *w, uint8_t **out_bytes, size_t *out_length)
{
    wf_text_append(&w->strings, "", 1); /* offset 0 is the empty text */
    for (size_t i = 0; i < w->source->part_count; i++)
        WF_TRY(add_part(w, &w->source->parts[i]));
    return make_file(w, out_bytes, out_length);
}

wf_status_t wf_engine_write(const wf_engine_source_t *source, wf_allocator_t allocator, uint8_t **out_bytes,
                            size_t *out_length)
{
    *out_bytes = NULL;
    *out_length = 0;
    assert(source->part_count > 0);
    writer_t w = {.source = source, .allocator = allocator};
    wf_arena_init(&w.arena, allocator);
    w.scratch = wf_arena_allocator(&w.arena);
    wf_text_init(&w.strings, allocator, UINT32_MAX);
    wf_map_init(&w.string_offsets, allocator);
    wf_map_init(&w.problem_index, allocator);
    wf_map_init(&w.constant_index, allocator);
    wf_status_t status = write_all(&w, out_bytes, out_length);
    wf_map_deinit(&w.constant_index);
    wf_map_deinit(&w.problem_index);
    wf_map_deinit(&w.string_offsets);
    wf_text_deinit(&w.strings);
    wf_arena_deinit(&w.arena);
    return status;
}
