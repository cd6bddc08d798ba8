/* SPDX-License-Identifier: Apache-2.0 */
/* wf_verify_recorded and wf_verify_conformance: models against recorded inputs and outputs, through a whole
 * build. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/options.h"
#include "api/run_once.h"
#include "base/compiler.h"
#include "verify/numeric.h"
#include "wayfinder/verify.h"

#define PATH_BYTES 4096
#define TENSORS_MAX 512u
/* Inputs whose values may decide shapes are short: dims, axes, scales, counts. */
#define FIXED_MAX_ELEMS 64
/* Recorded bf16 comes from reference code that also adds up in bf16. ONNX's own runner of its operator tests
 * allows two units in the last place, a relative 2^-6, whatever less a case asks for (onnx 1.23). */
#define BF16_RTOL 0x1p-6

typedef struct recorded {
    const wf_model_t *model;
    const wf_build_options_t *build;
    wf_allocator_t allocator;
    double rtol, atol;
    bool equal_rows;
    bool may_refuse, must_refuse; /* the case asks for an error that says refuse_word */
    char refuse_word[80];
} recorded_t;

/* ---- files ---- */

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static wf_status_t join_path(char out[PATH_BYTES], const char *folder, const char *name)
{
    int length = snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    if (length >= 0 && length < PATH_BYTES)
        return WF_OK;
    return WF_ERROR(USAGE, "path is too long: %.60s...", folder);
}

static void read_case(const char *folder, recorded_t *r)
{
    char path[PATH_BYTES];
    r->rtol = 1e-3;
    r->atol = 1e-7;
    if (snprintf(path, sizeof path, "%s/case.json", folder) >= (int)sizeof path)
        return;
    json_t *root = json_load_file(path, 0, NULL);
    if (root == NULL)
        return;
    json_t *rtol = json_object_get(root, "rtol"), *atol = json_object_get(root, "atol");
    if (json_is_number(rtol))
        r->rtol = json_number_value(rtol);
    if (json_is_number(atol))
        r->atol = json_number_value(atol);
    json_t *rows = json_object_get(root, "equal_rows");
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const char *word = json_string_value(json_object_get(root, "refuse_word"));
    r->must_refuse = kind != NULL && strcmp(kind, "refuse") == 0;
    r->may_refuse = r->must_refuse || (kind != NULL && strcmp(kind, "either") == 0);
    (void)snprintf(r->refuse_word, sizeof r->refuse_word, "%s", word != NULL ? word : "");
    r->equal_rows = rows != NULL && !json_is_false(rows) && !json_is_null(rows);
    json_decref(root);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names in `folder` that start with `prefix`, sorted, in the arena. */
static wf_status_t list_names(const char *folder, const char *prefix, wf_arena_t *arena, char ***out_names,
                              size_t *out_count)
{
    typedef WF_VEC(char *) names_t;
    names_t names = {0};
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return WF_ERROR(FILE_MISSING, "cannot read the folder %s", folder);
    wf_status_t status = WF_OK;
    for (struct dirent *entry = readdir(dir); status == WF_OK && entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        const char *kept = NULL;
        status = wf_arena_text(arena, entry->d_name, strlen(entry->d_name), &kept);
        char *name = (char *)(uintptr_t)kept;
        if (status == WF_OK)
            status = wf_vec_push(wf_arena_allocator(arena), &names, &name);
    }
    (void)closedir(dir);
    if (names.count > 0)
        wf_sort(names.items, names.count, sizeof *names.items, by_name);
    *out_names = names.items;
    *out_count = names.count;
    return status;
}

/* Reads prefix_0.pb, prefix_1.pb, ... until one is missing. */
static wf_status_t read_tensors(const char *folder, const char *prefix, wf_arena_t *arena,
                                wf_tensor_t *out_tensors, size_t *out_count)
{
    char name[64], path[PATH_BYTES];
    for (*out_count = 0; *out_count < TENSORS_MAX; (*out_count)++) {
        const char *ignored = NULL;
        (void)snprintf(name, sizeof name, "%s_%zu.pb", prefix, *out_count);
        WF_TRY(join_path(path, folder, name));
        if (!exists(path))
            return WF_OK;
        WF_TRY(wf_onnx_read_tensor_file(path, arena, &out_tensors[*out_count], &ignored));
    }
    return WF_ERROR(MODEL_LIMIT, "more than %u recorded tensors in %s", TENSORS_MAX, folder);
}

/* ---- one set ---- */

static bool is_small(const wf_tensor_t *tensor)
{
    int64_t elems = wf_type_elems(&tensor->type);
    return tensor->type.rank <= 1 && elems >= 0 && elems <= FIXED_MAX_ELEMS;
}

static wf_status_t build_for(const recorded_t *r, const wf_tensor_t *inputs, size_t count, bool fix_small,
                             wf_arena_t *arena, wf_build_result_t *out_result)
{
    wf_shape_t *shapes = NULL;
    WF_TRY(wf_arena_alloc(arena, count, sizeof *shapes, &shapes));
    const wf_onnx_summary_t *summary = wf_onnx_summary(r->model->onnx);
    for (size_t i = 0; i < count; i++) {
        bool fixed = fix_small && is_small(&inputs[i]);
        shapes[i] = (wf_shape_t){summary->inputs[i].name, inputs[i].type.dims, inputs[i].type.rank,
                                 fixed ? &inputs[i] : NULL};
        if (inputs[i].type.dtype != summary->inputs[i].dtype) {
            return WF_ERROR(INPUT_MISMATCH, "recorded input %zu is %s, the model wants %s", i,
                            wf_dtype_name(inputs[i].type.dtype), wf_dtype_name(summary->inputs[i].dtype));
        }
    }
    const wf_shape_t *spec = shapes;
    wf_build_options_t options = *r->build;
    options.shapes = &spec;
    options.shape_counts = &count;
    options.spec_count = 1;
    options.skip_check = true; /* the recorded outputs are the check */
    return wf_build(r->model, &options, out_result);
}

/* Equal rows of the inputs must give equal rows of the outputs, bit for bit. */
static wf_status_t check_equal_rows(const wf_tensor_t *inputs, size_t input_count, const wf_tensor_t *outputs,
                                    size_t output_count)
{
    if (input_count == 0 || inputs[0].type.rank == 0)
        return WF_OK;
    int64_t rows = inputs[0].type.dims[0];
    for (int64_t a = 0; a < rows; a++) {
        for (int64_t b = a + 1; b < rows; b++) {
            bool same = true;
            for (size_t i = 0; same && i < input_count; i++) {
                if (inputs[i].type.rank == 0 || inputs[i].type.dims[0] != rows)
                    continue;
                size_t bytes = (size_t)(wf_type_bytes(&inputs[i].type) / rows);
                const char *data = inputs[i].data;
                same = memcmp(data + (size_t)a * bytes, data + (size_t)b * bytes, bytes) == 0;
            }
            for (size_t i = 0; same && i < output_count; i++) {
                if (outputs[i].type.rank == 0 || outputs[i].type.dims[0] != rows)
                    continue;
                size_t bytes = (size_t)(wf_type_bytes(&outputs[i].type) / rows);
                const char *data = outputs[i].data;
                if (memcmp(data + (size_t)a * bytes, data + (size_t)b * bytes, bytes) != 0) {
                    return WF_ERROR(TEST_DATA,
                                    "rows %lld and %lld are equal in the inputs and differ in output %zu",
                                    (long long)a, (long long)b, i);
                }
            }
        }
    }
    return WF_OK;
}

static void print_type(const wf_type_t *type, char *out, size_t bytes)
{
    size_t at = (size_t)snprintf(out, bytes, "%s[", wf_dtype_name(type->dtype));
    for (uint32_t d = 0; d < type->rank && at < bytes; d++) {
        at += (size_t)snprintf(out + at, bytes - at, "%s%lld", d > 0 ? "," : "", (long long)type->dims[d]);
    }
    if (at < bytes)
        (void)snprintf(out + at, bytes - at, "]");
}

static wf_status_t compare_output(const recorded_t *r, size_t index, const wf_tensor_t *got,
                                  const wf_tensor_t *want)
{
    if (!wf_type_equal(&got->type, &want->type)) {
        char have[200], wanted[200];
        print_type(&got->type, have, sizeof have);
        print_type(&want->type, wanted, sizeof wanted);
        return WF_ERROR(TEST_DATA, "output %zu is %s, recorded is %s", index, have, wanted);
    }
    if (!wf_numeric_supports(want->type.dtype)) {
        return WF_ERROR(TEST_DATA, "output %zu has the type %s, which cannot be compared", index,
                        wf_dtype_name(want->type.dtype));
    }
    double rtol = want->type.dtype == WF_DTYPE_BF16 ? fmax(r->rtol, BF16_RTOL) : r->rtol;
    wf_accuracy_t a = wf_accuracy_compare(got, want, rtol, r->atol);
    if (a.passed)
        return WF_OK;
    return WF_ERROR(TEST_DATA,
                    "output %zu: %llu of %llu elements off by more than %.3g + %.3g |want|, largest %.6g; "
                    "%llu NaN or infinity mismatches",
                    index, (unsigned long long)a.violations, (unsigned long long)a.elems, r->atol, rtol,
                    a.max_abs, (unsigned long long)a.nan_mismatches);
}

static wf_status_t run_and_compare(const recorded_t *r, const wf_build_result_t *built,
                                   const wf_tensor_t *inputs, size_t input_count, const wf_tensor_t *wants,
                                   size_t want_count, wf_arena_t *arena)
{
    wf_engine_options_t options = {.struct_bytes = sizeof options,
                                   .isa = r->build->isa,
                                   .thread_count = r->build->thread_count,
                                   .allocator = r->allocator};
    wf_engine_t *engine = NULL;
    wf_tensor_t *got = NULL;
    WF_TRY(wf_engine_open_bytes(built->engine, built->engine_bytes, &options, &engine));
    size_t output_count = wf_engine_output_count(engine);
    wf_status_t status =
        output_count == want_count
            ? WF_OK
            : WF_ERROR(TEST_DATA, "the model has %zu outputs, %zu are recorded", output_count, want_count);
    if (status == WF_OK)
        status = wf_arena_alloc(arena, output_count, sizeof *got, &got);
    if (status == WF_OK)
        status = wf_api_run_once(engine, 0, inputs, r->allocator, got);
    wf_engine_close(engine);
    if (status != WF_OK)
        return status;
    for (size_t i = 0; status == WF_OK && i < output_count; i++)
        status = compare_output(r, i, &got[i], &wants[i]);
    if (status == WF_OK && r->equal_rows)
        status = check_equal_rows(inputs, input_count, got, output_count);
    for (size_t i = 0; i < output_count; i++)
        wf_tensor_free(&got[i], r->allocator);
    return status;
}

static wf_status_t verify_set(const recorded_t *r, const char *folder, wf_arena_t *arena)
{
    wf_tensor_t *inputs = NULL, *wants = NULL;
    size_t input_count = 0, want_count = 0;
    WF_TRY(wf_arena_alloc(arena, TENSORS_MAX, sizeof *inputs, &inputs));
    WF_TRY(wf_arena_alloc(arena, TENSORS_MAX, sizeof *wants, &wants));
    WF_TRY(read_tensors(folder, "input", arena, inputs, &input_count));
    WF_TRY(read_tensors(folder, "output", arena, wants, &want_count));
    if (r->must_refuse)
        want_count = wf_onnx_summary(r->model->onnx)->output_count; /* none is recorded */
    const wf_onnx_summary_t *summary = wf_onnx_summary(r->model->onnx);
    if (input_count != summary->input_count) {
        return WF_ERROR(TEST_DATA, "the model has %zu inputs, %zu are recorded in %s", summary->input_count,
                        input_count, folder);
    }
    wf_build_result_t built;
    wf_status_t status = build_for(r, inputs, input_count, false, arena, &built);
    if (wf_status_code(status) == WF_CODE_MODEL_UNSUPPORTED) {
        /* A shape that hangs on a value: build for this very value. */
        wf_status_t again = build_for(r, inputs, input_count, true, arena, &built);
        wf_status_free(status);
        status = again;
    }
    if (status == WF_OK) {
        status = run_and_compare(r, &built, inputs, input_count, wants, want_count, arena);
        wf_build_result_free(&built);
    }
    return status;
}

/* ---- folders ---- */

static bool is_refusal(wf_code_t code)
{
    return code == WF_CODE_MODEL_UNSUPPORTED;
}

static void judge(wf_status_t status, const char *name, void *self, wf_test_fn *each,
                  wf_test_counts_t *counts)
{
    wf_code_t code = wf_status_code(status);
    const char *verdict = code == WF_CODE_OK ? "passed" : is_refusal(code) ? "skipped" : "failed";
    uint64_t *count = code == WF_CODE_OK ? &counts->passed
                      : is_refusal(code) ? &counts->skipped
                                         : &counts->failed;
    (*count)++;
    if (each != NULL)
        each(self, name, verdict, wf_status_message(status));
    wf_status_free(status);
}

static wf_status_t first_problem(const wf_model_t *model)
{
    if (wf_onnx_problem_count(model->onnx) == 0)
        return WF_OK;
    const wf_onnx_problem_t *p = wf_onnx_problem(model->onnx, 0);
    return wf_status_hinted(wf_status_make(p->code, __FILE__, __LINE__, "node %s (%s, opset %lld): %s",
                                           p->node, p->op, (long long)p->opset, p->reason),
                            "%s", p->hint);
}

/* Whether an error is what the case asks for: bad input answered by a clear message. */
static wf_status_t expect_refusal(const recorded_t *r, wf_status_t status)
{
    wf_code_t code = wf_status_code(status);
    bool clear = code == WF_CODE_MODEL_INVALID || code == WF_CODE_RUNTIME_DATA ||
                 code == WF_CODE_MODEL_LIMIT || code == WF_CODE_EXTERNAL_DATA;
    if (code == WF_CODE_OK && r->must_refuse)
        return WF_ERROR(TEST_DATA, "accepted; the case asks for an error");
    if (!r->may_refuse || !clear)
        return status;
    if (strcasestr(wf_status_message(status), r->refuse_word) == NULL) {
        return wf_status_annotated(status, "refused as asked, but without the word '%s'", r->refuse_word);
    }
    wf_status_free(status);
    return WF_OK;
}

/* All sets of a folder; the first that does not pass decides. */
static wf_status_t verify_folder(const char *model_path, const char *folder, const wf_build_options_t *build)
{
    wf_model_t *model = NULL;
    wf_arena_t arena;
    char **sets = NULL, path[PATH_BYTES];
    size_t set_count = 0;
    recorded_t r = {.build = build, .allocator = build->allocator};
    WF_TRY(wf_model_open(model_path, build->allocator, &model));
    r.model = model;
    wf_arena_init(&arena, build->allocator);
    read_case(folder, &r);
    wf_status_t status = first_problem(model);
    if (status == WF_OK)
        status = list_names(folder, "test_data_set_", &arena, &sets, &set_count);
    if (status == WF_OK && set_count == 0) {
        status = WF_ERROR(FILE_MISSING, "no test_data_set_* folder in %s", folder);
    }
    for (size_t i = 0; status == WF_OK && i < set_count; i++) {
        status = join_path(path, folder, sets[i]);
        if (status == WF_OK)
            status = wf_status_annotated(verify_set(&r, path, &arena), "%s", sets[i]);
    }
    status = expect_refusal(&r, status);
    wf_arena_deinit(&arena);
    wf_model_close(model);
    return status;
}

wf_status_t wf_verify_recorded(const char *model_path, const char *folder, const wf_build_options_t *build,
                               void *self, wf_test_fn *each, wf_test_counts_t *out_counts)
{
    wf_build_options_t known;
    memset(out_counts, 0, sizeof *out_counts);
    WF_TRY(wf_api_build_options(build, &known));
    wf_status_t status = verify_folder(model_path, folder, &known);
    if (wf_status_code(status) == WF_CODE_FILE_MISSING || wf_status_code(status) == WF_CODE_FILE_UNREADABLE)
        return status;
    judge(status, folder, self, each, out_counts);
    return WF_OK;
}

wf_status_t wf_verify_conformance(const char *root, const wf_build_options_t *build, void *self,
                                  wf_test_fn *each, wf_test_counts_t *out_counts)
{
    wf_build_options_t known;
    wf_arena_t arena;
    char **names = NULL, folder[PATH_BYTES], model[PATH_BYTES];
    size_t count = 0;
    memset(out_counts, 0, sizeof *out_counts);
    WF_TRY(wf_api_build_options(build, &known));
    wf_arena_init(&arena, known.allocator);
    wf_status_t status = list_names(root, "", &arena, &names, &count);
    bool stop = false;
    for (size_t i = 0; status == WF_OK && i < count && !stop; i++) {
        status = join_path(folder, root, names[i]);
        if (status == WF_OK)
            status = join_path(model, folder, "model.onnx");
        if (status != WF_OK || !exists(model))
            continue;
        judge(verify_folder(model, folder, &known), names[i], self, each, out_counts);
        stop = known.progress != NULL &&
               known.progress(known.progress_self, names[i], (double)i / (double)count);
    }
    wf_arena_deinit(&arena);
    if (status == WF_OK && stop)
        status = WF_ERROR(INTERRUPTED, "interrupted");
    if (status == WF_OK && out_counts->passed + out_counts->failed + out_counts->skipped == 0) {
        status = wf_status_hinted(WF_ERROR(FILE_MISSING, "no folder with a model.onnx under %s", root),
                                  "give the folder that holds the test folders");
    }
    return status;
}
