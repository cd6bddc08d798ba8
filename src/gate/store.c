/* SPDX-License-Identifier: Apache-2.0 */
/* The baseline store: plain files, so that a branch of a repository can hold it.
 *
 * FOLDER/<model>/<device>/<shapes>/  names are hashes; key.json says them in full
 *   engines/<hash>.wfe               engines that were promoted
 *   baseline.json                    the baseline that counts, with the hash of its engine
 *   history.jsonl                    promotions and gates, one line each, appended
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "gate/gate.h"
#include "tune/json_file.h"

/* ---- Places ---- */

static void short_hash(const char *text, char out[17])
{
    char full[33];
    wf_hash_text(wf_hash_bytes(text, strlen(text)), full);
    memcpy(out, full, 16);
    out[16] = '\0';
}

static wf_status_t path_of(char *out, size_t capacity, const char *folder, const char *name)
{
    return (size_t)snprintf(out, capacity, "%s/%s", folder, name) < capacity
               ? WF_OK
               : WF_ERROR(USAGE, "the path of the store is too long");
}

wf_status_t wf_store_folder(const char *store, const wf_baseline_t *key, char *out_path, size_t capacity)
{
    char device[17], shapes[17];
    short_hash(key->device, device);
    short_hash(key->shapes, shapes);
    if ((size_t)snprintf(out_path, capacity, "%s/%.16s/%s/%s", store, key->model_hash, device, shapes) <
        capacity)
        return WF_OK;
    return WF_ERROR(USAGE, "the path of the store is too long");
}

/* One write under a lock: lines of two gates do not mix, and a torn one is at the end. */
wf_status_t wf_store_append(const char *folder, json_t *line)
{
    char path[4200], text[4096];
    size_t length = line != NULL ? json_dumpb(line, text, sizeof text - 1, JSON_COMPACT) : 0;
    json_decref(line);
    if (length == 0 || length >= sizeof text)
        return wf_status_out_of_memory();
    text[length++] = '\n';
    WF_TRY(wf_folder_make(folder));
    WF_TRY(path_of(path, sizeof path, folder, "history.jsonl"));
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "write", path);
    int error = flock(fd, LOCK_EX) != 0 ? errno : 0;
    if (error == 0 && write(fd, text, length) != (ssize_t)length)
        error = errno != 0 ? errno : ENOSPC;
    if (error == 0 && fdatasync(fd) != 0 && errno != EINVAL)
        error = errno;
    (void)close(fd);
    return error == 0 ? WF_OK : wf_status_from_errno(error, WF_CODE_FILE_UNWRITABLE, "write", path);
}

/* ---- Promote ---- */

static wf_status_t copy_engine(const char *from, const char *to)
{
    wf_mapping_t mapping;
    WF_TRY(wf_mapping_open(from, &mapping));
    wf_status_t status = wf_file_write(to, 0644, mapping.data, mapping.bytes);
    wf_mapping_close(&mapping);
    return status;
}

/* The samples beside the engine, when they are of this engine. */
static wf_status_t find_baseline(const char *engine_path, wf_baseline_t *facts)
{
    char path[4200];
    wf_baseline_t beside;
    WF_TRY(wf_baseline_path(engine_path, path, sizeof path));
    wf_status_t status = wf_baseline_read(path, facts->allocator, &beside);
    if (status == WF_OK && strcmp(beside.engine_hash, facts->engine_hash) == 0) {
        wf_baseline_deinit(facts);
        *facts = beside;
        return WF_OK;
    }
    wf_baseline_deinit(&beside);
    if (status != WF_OK && wf_status_code(status) != WF_CODE_FILE_MISSING)
        return status;
    wf_status_free(status);
    return wf_baseline_stamp(facts, "");
}

static wf_status_t promote(const char *engine_path, const char *store, wf_baseline_t *facts, char *folder,
                           size_t room)
{
    char path[4200], name[64];
    WF_TRY(wf_store_folder(store, facts, folder, room));
    WF_TRY(find_baseline(engine_path, facts));
    WF_TRY(path_of(path, sizeof path, folder, "engines"));
    WF_TRY(wf_folder_make(path));
    (void)snprintf(name, sizeof name, "engines/%s.wfe", facts->engine_hash);
    WF_TRY(path_of(path, sizeof path, folder, name));
    if (access(path, F_OK) != 0)
        WF_TRY(copy_engine(engine_path, path));
    WF_TRY(path_of(path, sizeof path, folder, "key.json"));
    json_t *key = json_pack("{s:s s:i s:s s:s s:s}", "schema", "wayfinder-baseline-key", "schema_version", 1,
                            "model", facts->model_hash, "device", facts->device, "shapes", facts->shapes);
    wf_status_t status = wf_json_write(key, path, facts->allocator);
    json_decref(key);
    WF_TRY(status);
    (void)snprintf(name, sizeof name, "%s.wfe", facts->engine_hash);
    WF_TRY(wf_baseline_text(facts, name, &facts->engine_file));
    WF_TRY(path_of(path, sizeof path, folder, "baseline.json"));
    /* The one rename that makes it the baseline; everything it needs is there. */
    WF_TRY(wf_baseline_write(facts, path, true));
    return wf_store_append(folder, json_pack("{s:s s:s s:I}", "type", "promote", "engine", facts->engine_hash,
                                             "time_s", (json_int_t)time(NULL)));
}

wf_status_t wf_store_promote(const char *engine_path, const wf_gate_options_t *options,
                             wf_gate_result_t *out_result)
{
    wf_baseline_t facts;
    char folder[4096];
    WF_TRY(wf_baseline_identify(engine_path, options->allocator, &facts));
    wf_status_t status = promote(engine_path, options->store, &facts, folder, sizeof folder);
    if (status == WF_OK) {
        status = wf_gate_report(out_result,
                                json_pack("{s:i s:s s:s s:s s:I}", "schema_version", 1, "promoted",
                                          facts.engine_hash, "folder", folder, "model", facts.model_hash,
                                          "samples", (json_int_t)facts.samples_ns.count));
    }
    wf_baseline_deinit(&facts);
    return status;
}

/* ---- Show ---- */

/* The file to show: `path` itself, the promoted baseline of an engine, or the one beside it. */
static wf_status_t find_shown(const char *path, const char *store, wf_allocator_t allocator, char *out_path,
                              size_t room)
{
    size_t length = strlen(path), ending = strlen(".json");
    if (length > ending && strcmp(path + length - ending, ".json") == 0)
        return (size_t)snprintf(out_path, room, "%s", path) < room
                   ? WF_OK
                   : WF_ERROR(USAGE, "the path of the baseline is too long");
    if (store == NULL)
        return wf_baseline_path(path, out_path, room);
    wf_baseline_t facts;
    char folder[4096];
    WF_TRY(wf_baseline_identify(path, allocator, &facts));
    wf_status_t status = wf_store_folder(store, &facts, folder, sizeof folder);
    if (status == WF_OK)
        status = path_of(out_path, room, folder, "baseline.json");
    wf_baseline_deinit(&facts);
    return status;
}

wf_status_t wf_store_show(const char *path, const wf_gate_options_t *options, wf_gate_result_t *out_result)
{
    char file[4200];
    wf_baseline_t b;
    WF_TRY(find_shown(path, options->store, options->allocator, file, sizeof file));
    WF_TRY(wf_baseline_read(file, options->allocator, &b));
    json_t *report = json_pack(
        "{s:i s:s s:s s:s s:s s:s s:s s:i s:f s:f s:f s:I s:I s:s s:I}", "schema_version", 1, "baseline",
        file, "engine", b.engine_hash, "engine_file", b.engine_file, "model", b.model_hash, "device",
        b.device, "shapes", b.shapes, "threads", (int)b.thread_count, "median_ns", b.median_ns, "lo95_ns",
        b.low_ns, "hi95_ns", b.high_ns, "samples", (json_int_t)b.samples_ns.count, "canaries",
        (json_int_t)b.canary_ns.count, "environment", b.environment, "created_s", (json_int_t)b.created_s);
    wf_baseline_deinit(&b);
    return wf_gate_report(out_result, report);
}
