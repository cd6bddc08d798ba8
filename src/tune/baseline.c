/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/baseline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "runtime/image.h"
#include "tune/json_file.h"
#include "tune/lock.h"
#include "wayfinder/version.h"

#define FILE_LIMIT ((size_t)64 << 20)
#define SAMPLES_MAX 1000000u
#define TEXT_MAX 65536u

void wf_baseline_init(wf_baseline_t *baseline, wf_allocator_t allocator)
{
    *baseline = (wf_baseline_t){
        .allocator = allocator, .engine_file = "", .device = "", .shapes = "", .environment = ""};
    wf_arena_init(&baseline->arena, allocator);
}

void wf_baseline_deinit(wf_baseline_t *baseline)
{
    wf_vec_deinit(baseline->allocator, &baseline->samples_ns);
    wf_vec_deinit(baseline->allocator, &baseline->canary_ns);
    wf_arena_deinit(&baseline->arena);
    wf_baseline_init(baseline, baseline->allocator);
}

wf_status_t wf_baseline_text(wf_baseline_t *baseline, const char *text, const char **out)
{
    return wf_arena_text(&baseline->arena, text, strlen(text), out);
}

wf_status_t wf_baseline_path(const char *engine_path, char *out_path, size_t capacity)
{
    if ((size_t)snprintf(out_path, capacity, "%s" WF_BASELINE_SUFFIX, engine_path) < capacity)
        return WF_OK;
    return WF_ERROR(USAGE, "the path of the engine is too long");
}

wf_status_t wf_baseline_stamp(wf_baseline_t *baseline, const char *more)
{
    struct utsname system;
    bool known = uname(&system) == 0;
    baseline->created_s = (int64_t)time(NULL);
    return wf_arena_format(&baseline->arena, &baseline->environment, "%s %s%s%s",
                           known ? system.sysname : "system", known ? system.release : "unknown",
                           more[0] != '\0' ? " " : "", more);
}

/* ---- What an engine says ---- */

static void put_port(wf_text_t *text, const wf_image_t *image, const wf_engine_port_t *port)
{
    const char *dtype = wf_dtype_name((wf_dtype_t)port->dtype);
    wf_text_printf(text, "%s %s ", image->strings + port->name, dtype != NULL ? dtype : "?");
    for (uint32_t d = 0; d < port->rank; d++)
        wf_text_printf(text, "%s%lld", d > 0 ? "x" : "", (long long)port->dims[d]);
    if (port->rank == 0)
        wf_text_puts(text, "scalar");
}

/* "x f32 1x3x224x224, mask i64 1x128; ..." : inputs of each specialisation. */
static wf_status_t put_shapes(wf_baseline_t *baseline, const wf_image_t *image)
{
    wf_text_t text;
    wf_text_init(&text, baseline->allocator, TEXT_MAX);
    for (size_t s = 0; s < image->spec_count; s++) {
        const wf_engine_spec_t *spec = &image->specs[s];
        wf_text_puts(&text, s > 0 ? "; " : "");
        for (uint32_t i = 0; i < spec->input_count; i++) {
            wf_text_puts(&text, i > 0 ? ", " : "");
            put_port(&text, image, &image->ports[spec->first_input + i]);
        }
    }
    wf_status_t status = wf_text_take_status(&text);
    if (status == WF_OK)
        status = wf_arena_text(&baseline->arena, wf_text_cstr(&text), text.length, &baseline->shapes);
    wf_text_deinit(&text);
    return status;
}

static wf_status_t identify(wf_baseline_t *baseline, const wf_image_t *image, const char *path)
{
    wf_engine_header_t header;
    memcpy(&header, image->bytes, sizeof header);
    wf_hash_text((wf_hash_t){header.content_hash[0], header.content_hash[1]}, baseline->engine_hash);
    wf_lock_piece_t model = wf_lock_field(image->lock, "model");
    if (model.data != NULL && model.length == 32)
        memcpy(baseline->model_hash, model.data, 32);
    else
        (void)snprintf(baseline->model_hash, sizeof baseline->model_hash, "%032d", 0);
    const char *slash = strrchr(path, '/');
    baseline->engine_bytes = image->length;
    baseline->thread_count = image->specs[0].thread_count;
    WF_TRY(wf_baseline_text(baseline, slash != NULL ? slash + 1 : path, &baseline->engine_file));
    WF_TRY(wf_arena_text(&baseline->arena, image->fingerprint, image->fingerprint_bytes, &baseline->device));
    return put_shapes(baseline, image);
}

wf_status_t wf_baseline_identify(const char *engine_path, wf_allocator_t allocator, wf_baseline_t *out)
{
    wf_mapping_t mapping;
    wf_image_t image;
    wf_baseline_init(out, allocator);
    WF_TRY(wf_mapping_open(engine_path, &mapping));
    wf_status_t status = wf_image_open(mapping.data, mapping.bytes, false, &image);
    if (status == WF_OK)
        status = identify(out, &image, engine_path);
    wf_mapping_close(&mapping);
    if (status != WF_OK)
        wf_baseline_deinit(out);
    return wf_status_annotated(status, "%s", engine_path);
}

/* ---- Writing ---- */

static json_t *numbers_json(const wf_times_t *times)
{
    json_t *array = json_array();
    for (size_t i = 0; i < times->count; i++)
        (void)json_array_append_new(array, json_real(round(times->items[i])));
    return array;
}

static json_t *to_json(const wf_baseline_t *b)
{
    return json_pack("{s:s s:i s:s s:{s:s s:s s:I} s:s s:s s:s s:i s:{s:f s:f s:f} s:s s:I s:o s:o}",
                     "schema", WF_BASELINE_SCHEMA, "schema_version", WF_BASELINE_VERSION, "wayfinder",
                     WF_VERSION_TEXT, "engine", "hash", b->engine_hash, "file", b->engine_file, "bytes",
                     (json_int_t)b->engine_bytes, "model", b->model_hash, "device", b->device, "shapes",
                     b->shapes, "threads", (int)b->thread_count, "time", "median_ns", b->median_ns, "lo95_ns",
                     b->low_ns, "hi95_ns", b->high_ns, "environment", b->environment, "created_s",
                     (json_int_t)b->created_s, "canary_ns", numbers_json(&b->canary_ns), "samples_ns",
                     numbers_json(&b->samples_ns));
}

static bool may_replace(const char *path, wf_allocator_t allocator)
{
    wf_baseline_t there;
    if (access(path, F_OK) != 0)
        return true;
    wf_status_t status = wf_baseline_read(path, allocator, &there);
    bool is_baseline = status == WF_OK;
    wf_status_free(status);
    wf_baseline_deinit(&there);
    return is_baseline;
}

wf_status_t wf_baseline_write(const wf_baseline_t *baseline, const char *path, bool force)
{
    if (!force && !may_replace(path, baseline->allocator)) {
        return wf_status_hinted(WF_ERROR(FILE_EXISTS, "%s exists and is not a baseline", path),
                                "remove it, or give --force to replace it");
    }
    json_t *json = to_json(baseline);
    wf_status_t status = wf_json_write(json, path, baseline->allocator);
    json_decref(json);
    return status;
}

/* ---- Reading ---- */

static wf_status_t broken(const char *path, const char *what)
{
    return wf_status_hinted(WF_ERROR(BASELINE_MISMATCH, "%s is not a baseline: %s", path, what),
                            "'wayfinder tune' writes one beside its engine, 'wayfinder baseline promote "
                            "ENGINE --store DIR' keeps "
                            "one in a store");
}

static bool take_hash(const json_t *value, char out[33])
{
    const char *text = json_string_value(value);
    wf_hash_t hash;
    if (text == NULL || strlen(text) != 32 || !wf_hash_parse(text, &hash))
        return false;
    wf_hash_text(hash, out);
    return true;
}

static wf_status_t take_text(wf_baseline_t *b, const json_t *json, const char *key, const char *path,
                             const char **out)
{
    const char *text = json_string_value(json_object_get(json, key));
    char what[80];
    (void)snprintf(what, sizeof what, "no text \"%s\"", key);
    if (text == NULL || strlen(text) > TEXT_MAX)
        return broken(path, what);
    return wf_baseline_text(b, text, out);
}

static wf_status_t take_numbers(wf_baseline_t *b, const json_t *json, const char *key, const char *path,
                                wf_times_t *out)
{
    const json_t *array = json_object_get(json, key), *item;
    size_t index;
    char what[80];
    (void)snprintf(what, sizeof what, "\"%s\" is not a list of times", key);
    if (!json_is_array(array) || json_array_size(array) > SAMPLES_MAX)
        return broken(path, what);
    json_array_foreach(array, index, item)
    {
        double value = json_number_value(item);
        if (!(value > 0) || value > 1e15)
            return broken(path, what);
        WF_TRY(wf_vec_push(b->allocator, out, &value));
    }
    return WF_OK;
}

static bool take_time(const json_t *json, const char *key, double *out)
{
    const json_t *value = json_object_get(json, key);
    *out = json_number_value(value);
    return json_is_number(value) && *out >= 0 && *out < 1e15;
}

static wf_status_t take(wf_baseline_t *b, const json_t *json, const char *path)
{
    const char *schema = json_string_value(json_object_get(json, "schema"));
    const json_t *version = json_object_get(json, "schema_version"),
                 *engine = json_object_get(json, "engine");
    const json_t *time = json_object_get(json, "time"), *threads = json_object_get(json, "threads");
    if (schema == NULL || strcmp(schema, WF_BASELINE_SCHEMA) != 0)
        return broken(path, "\"schema\" is not \"" WF_BASELINE_SCHEMA "\"");
    if (!json_is_integer(version) || json_integer_value(version) < 1)
        return broken(path, "\"schema_version\" is no version");
    if (json_integer_value(version) > WF_BASELINE_VERSION) {
        return wf_status_hinted(WF_ERROR(BASELINE_MISMATCH,
                                         "%s is a baseline of schema %lld; this version reads up to %d", path,
                                         (long long)json_integer_value(version), WF_BASELINE_VERSION),
                                "use the version of wayfinder that wrote it, or newer");
    }
    if (!take_hash(json_object_get(engine, "hash"), b->engine_hash))
        return broken(path, "\"engine\": \"hash\" is no hash");
    if (!take_hash(json_object_get(json, "model"), b->model_hash))
        return broken(path, "\"model\" is no hash");
    WF_TRY(take_text(b, engine, "file", path, &b->engine_file));
    if (b->engine_file[0] == '\0' || strchr(b->engine_file, '/') != NULL)
        return broken(path, "\"engine\": \"file\" is no name of a file beside it");
    WF_TRY(take_text(b, json, "device", path, &b->device));
    WF_TRY(take_text(b, json, "shapes", path, &b->shapes));
    WF_TRY(take_text(b, json, "environment", path, &b->environment));
    if (!json_is_integer(threads) || json_integer_value(threads) < 1 || json_integer_value(threads) > 1024)
        return broken(path, "\"threads\" is not 1 to 1024");
    b->thread_count = (uint32_t)json_integer_value(threads);
    b->engine_bytes = (uint64_t)json_integer_value(json_object_get(engine, "bytes"));
    b->created_s = json_integer_value(json_object_get(json, "created_s"));
    if (!take_time(time, "median_ns", &b->median_ns) || !take_time(time, "lo95_ns", &b->low_ns) ||
        !take_time(time, "hi95_ns", &b->high_ns))
        return broken(path, "\"time\" has no median and bounds");
    WF_TRY(take_numbers(b, json, "samples_ns", path, &b->samples_ns));
    return take_numbers(b, json, "canary_ns", path, &b->canary_ns);
}

wf_status_t wf_baseline_read(const char *path, wf_allocator_t allocator, wf_baseline_t *out)
{
    json_t *json;
    char what[300];
    wf_baseline_init(out, allocator);
    WF_TRY(wf_json_read(path, FILE_LIMIT, allocator, &json, what, sizeof what));
    wf_status_t status = json != NULL ? take(out, json, path) : broken(path, what);
    json_decref(json);
    if (status != WF_OK)
        wf_baseline_deinit(out);
    return status;
}
