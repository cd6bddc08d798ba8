/* SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/parallel.h"
#include "ref/kernel.h"
#include "support/cmocka_all.h"

#define MAX_TENSORS 12
#define MAX_VALUES 64

typedef struct tensors {
    size_t count;
    wf_tensor_t items[MAX_TENSORS];
} tensors_t;

static void *allocate(int64_t bytes)
{
    void *data = malloc(bytes > 0 ? (size_t)bytes : 1);
    assert_non_null(data);
    memset(data, 0xa5, bytes > 0 ? (size_t)bytes : 1);
    return data;
}

/* ---- Text
 * -------------------------------------------------------------------------------------------------------- */

static wf_type_t read_type(const char **text)
{
    char name[16];
    size_t length = strcspn(*text, "[");
    assert_true(length < sizeof name);
    memcpy(name, *text, length);
    name[length] = 0;
    wf_type_t type = {.dtype = wf_dtype_from_name(name)};
    assert_int_not_equal(type.dtype, WF_DTYPE_NONE);
    for (*text += length + 1; **text != ']'; *text += **text == ',') {
        char *end;
        assert_true(type.rank < WF_MAX_RANK);
        type.dims[type.rank++] = strtoll(*text, &end, 10);
        *text = end;
    }
    (*text)++;
    return type;
}

static wf_lane_t read_lane(wf_lane_class_t lane_class, const char **text)
{
    char *end;
    wf_lane_t lane;
    if (lane_class == WF_LANE_F) {
        lane.f = strtod(*text, &end);
    } else if (lane_class == WF_LANE_I) {
        lane.i = strtoll(*text, &end, 10);
    } else {
        lane.u = strtoull(*text, &end, 10);
    }
    assert_ptr_not_equal(end, *text);
    *text = end;
    return lane;
}

static void read_values(const char **text, const wf_tensor_t *tensor)
{
    wf_lane_class_t lane_class = wf_lane_class(tensor->type.dtype);
    wf_lane_t lanes[MAX_VALUES];
    int64_t count = 0, elems = wf_type_elems(&tensor->type);
    bool counts_up = false;
    while (**text != 0 && **text != ' ') {
        assert_true(count < MAX_VALUES);
        size_t length = strcspn(*text, ", ");
        counts_up = length > 2 && memcmp(*text + length - 2, "..", 2) == 0;
        lanes[count++] = read_lane(lane_class, text);
        *text += counts_up && (*text)[0] == '.' ? strspn(*text, ".") : 0;
        *text += **text == ',';
    }
    assert_true(elems == 0 || count > 0);
    for (int64_t e = 0; e < elems; e++) {
        wf_lane_t lane = lanes[counts_up ? 0 : e % count];
        if (counts_up && lane_class == WF_LANE_F) {
            lane.f += (double)e;
        } else if (counts_up) {
            lane.u += (uint64_t)e;
        }
        wf_lane_store(tensor->type.dtype, tensor->data, e, lane);
    }
}

static void read_tensors(const char *text, tensors_t *out_tensors)
{
    *out_tensors = (tensors_t){0};
    while (*text != 0) {
        assert_true(out_tensors->count < MAX_TENSORS);
        wf_tensor_t *tensor = &out_tensors->items[out_tensors->count++];
        if (*text == '_') {
            text++;
        } else {
            tensor->type = read_type(&text);
            tensor->data = allocate(wf_type_bytes(&tensor->type));
            if (*text == '=') {
                text++;
                read_values(&text, tensor);
            }
        }
        text += *text == ' ';
    }
}

static void read_list(wf_attr_t *attr, const char *text, const char *end, wf_arena_t *arena)
{
    int64_t *ints;
    float *floats;
    const char **strings;
    wf_assert_ok(wf_arena_alloc(arena, MAX_VALUES, sizeof *ints, &ints));
    wf_assert_ok(wf_arena_alloc(arena, MAX_VALUES, sizeof *floats, &floats));
    wf_assert_ok(wf_arena_alloc(arena, MAX_VALUES, sizeof *strings, &strings));
    for (; text < end; attr->count++) {
        size_t length = strcspn(text, ", ");
        ints[attr->count] = strtoll(text, NULL, 10);
        floats[attr->count] = strtof(text, NULL);
        wf_assert_ok(wf_arena_text(arena, text, length, &strings[attr->count]));
        text += length + 1;
    }
    if (attr->kind == WF_ATTR_INTS) {
        attr->v.ints = ints;
    } else if (attr->kind == WF_ATTR_FLOATS) {
        attr->v.floats = floats;
    } else {
        attr->v.strings = strings;
    }
}

static void read_attr(const wf_attr_specs_t *specs, const char **text, wf_arena_t *arena, wf_attr_t *out_attr)
{
    size_t name = strcspn(*text, "="), length = strcspn(*text + name + 1, " ");
    *out_attr = (wf_attr_t){.kind = WF_ATTR_INT};
    wf_assert_ok(wf_arena_text(arena, *text, name, &out_attr->name));
    *text += name + 1;
    for (size_t i = 0; i < specs->count; i++) {
        out_attr->kind =
            strcmp(specs->items[i].name, out_attr->name) == 0 ? specs->items[i].kind : out_attr->kind;
    }
    const char *value = *text;
    switch (out_attr->kind) {
    case WF_ATTR_INT:
        out_attr->v.i = strtoll(value, NULL, 10);
        break;
    case WF_ATTR_FLOAT:
        out_attr->v.f = strtof(value, NULL);
        break;
    case WF_ATTR_STRING:
        out_attr->count = length;
        wf_assert_ok(wf_arena_text(arena, value, length, &out_attr->v.s));
        break;
    case WF_ATTR_TENSOR: {
        wf_tensor_t *tensor;
        wf_assert_ok(wf_arena_alloc(arena, 1, sizeof *tensor, &tensor));
        tensor->type = read_type(&value);
        wf_assert_ok(wf_arena_alloc(arena, MAX_VALUES, 8, &tensor->data));
        value++;
        read_values(&value, tensor);
        out_attr->v.tensor = tensor;
        break;
    }
    default:
        read_list(out_attr, value, value + length, arena);
    }
    *text += length;
}

wf_attrs_t wf_ref_case_attrs(wf_op_t op, const char *text, wf_arena_t *arena)
{
    wf_attr_specs_t specs;
    wf_attr_t given[WF_OP_MAX_ATTRS];
    wf_attrs_t attrs;
    size_t count = 0;
    wf_op_attr_specs(op, &specs);
    for (; *text != 0; text += *text == ' ') {
        assert_true(count < WF_OP_MAX_ATTRS);
        read_attr(&specs, &text, arena, &given[count++]);
    }
    wf_assert_ok(wf_op_complete_attrs(op, given, count, arena, &attrs));
    return attrs;
}

/* ---- Running
 * ----------------------------------------------------------------------------------------------------- */

wf_status_t wf_ref_case_call(wf_op_t op, const wf_attrs_t *attrs, size_t input_count,
                             const wf_tensor_t *inputs, size_t output_count, wf_tensor_t *outputs,
                             wf_ref_path_t path)
{
    wf_type_t input_types[MAX_TENSORS], output_types[MAX_TENSORS];
    const wf_tensor_t *values[MAX_TENSORS];
    assert_true(input_count <= MAX_TENSORS && output_count <= MAX_TENSORS);
    for (size_t i = 0; i < input_count; i++) {
        input_types[i] = inputs[i].type;
        values[i] = inputs[i].type.dtype != WF_DTYPE_NONE ? &inputs[i] : NULL;
    }
    wf_shape_call_t shapes = {op, attrs, input_count, input_types, values, output_count, output_types, -1};
    wf_status_t status = wf_op_infer(&shapes);
    for (size_t i = 0; i < output_count; i++) {
        bool wanted = status == WF_OK && outputs[i].data != NULL;
        outputs[i].type = output_types[i];
        outputs[i].data = wanted ? allocate(wf_type_bytes(&output_types[i])) : NULL;
    }
    if (status != WF_OK) {
        return status;
    }
    assert_int_equal(shapes.needs_value_of, -1);
    wf_parallel_t parallel = wf_parallel_inline();
    wf_pool_t *pool = NULL;
    if (path == WF_REF_THREADS) {
        wf_assert_ok(wf_pool_create(2, false, wf_allocator_system(), &pool));
        parallel = wf_pool_parallel(pool);
    }
    wf_ref_call_t call = {.op = op, .attrs = attrs, .input_count = input_count, .inputs = inputs};
    call.output_count = output_count;
    call.outputs = outputs;
    call.parallel = path == WF_REF_PLAIN ? NULL : &parallel;
    size_t bytes;
    status = wf_ref_scratch_bytes(&call, &bytes);
    if (status == WF_OK) {
        wf_assert_ok(wf_alloc_aligned(wf_allocator_system(), bytes, 1, 64, &call.scratch));
        status = wf_ref_run(&call);
        wf_free_aligned(wf_allocator_system(), call.scratch, bytes, 1, 64);
    }
    wf_pool_destroy(pool);
    return status;
}

void wf_ref_case_free(size_t output_count, wf_tensor_t *outputs)
{
    for (size_t i = 0; i < output_count; i++) {
        free(outputs[i].data);
        outputs[i].data = NULL;
    }
}

/* ---- Comparing
 * --------------------------------------------------------------------------------------------------- */

/* Half the distance of 1 and the next number. */
static double unit_of(wf_dtype_t dtype)
{
    return dtype == WF_DTYPE_F64    ? ldexp(1, -48) /* the literals are decimal */
           : dtype == WF_DTYPE_F32  ? ldexp(1, -24)
           : dtype == WF_DTYPE_F16  ? ldexp(1, -11)
           : dtype == WF_DTYPE_BF16 ? ldexp(1, -8)
                                    : 0;
}

static bool same_value(const wf_tensor_t *got, const wf_tensor_t *want, int64_t e, char *out,
                       size_t out_bytes)
{
    wf_lane_t g = wf_lane_load(got->type.dtype, got->data, e),
              w = wf_lane_load(want->type.dtype, want->data, e);
    if (wf_lane_class(got->type.dtype) != WF_LANE_F) {
        (void)snprintf(out, out_bytes, "[%lld] %lld, expected %lld", (long long)e, (long long)g.i,
                       (long long)w.i);
        return g.u == w.u;
    }
    (void)snprintf(out, out_bytes, "[%lld] %.9g, expected %.9g", (long long)e, g.f, w.f);
    double limit = 2 * unit_of(got->type.dtype) * fmax(1, fabs(w.f));
    return g.f == w.f || (isnan(g.f) && isnan(w.f)) || fabs(g.f - w.f) <= limit;
}

/* The first difference as text, or "". */
static void compare(const wf_tensor_t *got, const wf_tensor_t *want, char *out, size_t out_bytes)
{
    if (!wf_type_equal(&got->type, &want->type)) {
        (void)snprintf(out, out_bytes, "type %s of rank %u", wf_dtype_name(got->type.dtype), got->type.rank);
        return;
    }
    for (int64_t e = 0; e < wf_type_elems(&want->type); e++) {
        if (!same_value(got, want, e, out, out_bytes)) {
            return;
        }
    }
    out[0] = 0;
}

bool wf_ref_case_same(const wf_tensor_t *a, const wf_tensor_t *b)
{
    bool floats = wf_lane_class(a->type.dtype) == WF_LANE_F;
    if (!wf_type_equal(&a->type, &b->type)) {
        return false;
    }
    for (int64_t e = 0; e < wf_type_elems(&a->type); e++) {
        wf_lane_t x = wf_lane_load(a->type.dtype, a->data, e), y = wf_lane_load(b->type.dtype, b->data, e);
        if (x.u != y.u && !(floats && isnan(x.f) && isnan(y.f))) {
            return false;
        }
    }
    return true;
}

static void run_failing(const wf_ref_case_t *item, wf_status_t status, char *out, size_t out_bytes)
{
    wf_code_t code = item->want[0] == '!' ? WF_CODE_RUNTIME_DATA : WF_CODE_MODEL_UNSUPPORTED;
    bool fits = wf_status_code(status) == code && strstr(wf_status_message(status), item->want + 1) != NULL;
    (void)snprintf(out, out_bytes, "%s",
                   fits              ? ""
                   : status == WF_OK ? "no failure"
                                     : wf_status_message(status));
    wf_status_free(status);
}

/* What is wrong, or "". */
static void run_case(const wf_ref_case_t *item, char *out, size_t out_bytes)
{
    static const char *const paths[WF_REF_PATHS] = {"plain: ", "inline: ", "threads: "};
    wf_arena_t arena;
    wf_op_t op;
    tensors_t inputs, want = {0};
    bool internal = strncmp(item->op, "w:", 2) == 0, fails = item->want[0] == '!' || item->want[0] == '?';
    const char *name = item->op + (internal ? 2 : 0);
    wf_arena_init(&arena, wf_allocator_system());
    assert_true((internal ? wf_op_from_internal_name : wf_op_from_onnx_name)(name, strlen(name), &op));
    wf_attrs_t attrs = wf_ref_case_attrs(op, item->attrs, &arena);
    read_tensors(item->inputs, &inputs);
    if (!fails) {
        read_tensors(item->want, &want);
    }
    wf_tensor_t first[MAX_TENSORS] = {0};
    for (int path = 0; path < WF_REF_PATHS && out[0] == 0; path++) {
        wf_tensor_t got[MAX_TENSORS] = {0};
        char text[200] = "";
        size_t count = fails ? 1 : want.count;
        for (size_t i = 0; i < count; i++) {
            got[i].data = fails || want.items[i].data != NULL ? out : NULL; /* any pointer: wanted */
        }
        wf_status_t status =
            wf_ref_case_call(op, &attrs, inputs.count, inputs.items, count, got, (wf_ref_path_t)path);
        if (fails) {
            run_failing(item, status, text, sizeof text);
        } else if (status != WF_OK) {
            (void)snprintf(text, sizeof text, "%s", wf_status_message(status));
            wf_status_free(status);
        } else {
            for (size_t i = 0; i < count && text[0] == 0; i++) {
                if (got[i].data != NULL) {
                    compare(&got[i], &want.items[i], text, sizeof text);
                }
            }
        }
        for (size_t i = 0; !fails && path > 0 && i < count && text[0] == 0; i++) {
            if (got[i].data != NULL && !wf_ref_case_same(&got[i], &first[i])) {
                (void)snprintf(text, sizeof text, "output %zu differs from that of the plain path", i);
            }
        }
        if (text[0] != 0) {
            (void)snprintf(out, out_bytes, "%s%s", paths[path], text);
        }
        if (path == 0) {
            memcpy(first, got, sizeof first);
        } else {
            wf_ref_case_free(count, got);
        }
    }
    wf_ref_case_free(MAX_TENSORS, first);
    wf_ref_case_free(inputs.count, inputs.items);
    wf_ref_case_free(want.count, want.items);
    wf_arena_deinit(&arena);
}

void wf_ref_cases_run(const wf_ref_case_t *cases, size_t count)
{
    size_t wrong = 0;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        char text[300] = "";
        run_case(&cases[i], text, sizeof text);
        if (text[0] != 0) {
            print_error("%s(%s){%s}: %s\n", cases[i].op, cases[i].inputs, cases[i].attrs, text);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}
