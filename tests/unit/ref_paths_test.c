/* SPDX-License-Identifier: Apache-2.0 */
/* The fast paths of the reference against its plain loops on random problems: bit for bit. And the table:
 * every operator has a kernel. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "ref/kernel.h"
#include "support/cmocka_all.h"
#include "support/random.h"
#include "support/ref_case.h"

typedef struct problem {
    const char *op;
    char attrs[300];
    size_t input_count, output_count;
    wf_type_t inputs[4];
} problem_t;

static int64_t between(wf_random_t *random, int64_t low, int64_t high)
{
    return low + (int64_t)wf_random_below(random, (uint64_t)(high - low + 1));
}

static void add_input(problem_t *p, wf_dtype_t dtype, uint32_t rank, const int64_t *dims)
{
    wf_type_t *type = &p->inputs[p->input_count++];
    *type = (wf_type_t){.dtype = dtype, .rank = rank};
    memcpy(type->dims, dims, rank * sizeof *dims);
}

/* Appends " name=v,v,..": `count` numbers in [low, high]. */
static void add_list(problem_t *p, wf_random_t *random, const char *name, uint32_t count, int64_t low,
                     int64_t high)
{
    size_t at = strlen(p->attrs);
    for (uint32_t k = 0; k < count; k++) {
        at += (size_t)snprintf(p->attrs + at, sizeof p->attrs - at, k == 0 ? "%s%s=%lld" : "%s%s,%lld",
                               k == 0 && at > 0 ? " " : "", k == 0 ? name : "",
                               (long long)between(random, low, high));
    }
}

static void make_conv(wf_random_t *random, problem_t *p)
{
    bool transposed = wf_random_below(random, 2) != 0;
    uint32_t spatial = (uint32_t)between(random, 1, 3);
    int64_t group = between(random, 1, 3), in = between(random, 1, 4), out = between(random, 1, 7);
    int64_t x[5] = {between(random, 1, 2), group * in}, w[5] = {group * out, in}, bias[1] = {group * out};
    if (transposed) {
        w[0] = group * in;
        w[1] = out;
    }
    for (uint32_t d = 0; d < spatial; d++) {
        x[2 + d] = between(random, 5, spatial == 1 ? 300 : spatial == 2 ? 9 : 6);
        w[2 + d] = between(random, 1, 3);
    }
    p->op = transposed ? "ConvTranspose" : "Conv";
    (void)snprintf(p->attrs, sizeof p->attrs, "group=%lld", (long long)group);
    add_list(p, random, "strides", spatial, 1, 3);
    add_list(p, random, "dilations", spatial, 1, 2);
    add_list(p, random, "pads", 2 * spatial, 0, transposed ? 1 : 2);
    add_input(p, WF_DTYPE_F32, 2 + spatial, x);
    add_input(p, WF_DTYPE_F32, 2 + spatial, w);
    if (wf_random_below(random, 2) != 0) {
        add_input(p, WF_DTYPE_F32, 1, bias);
    }
}

static void make_conv_integer(wf_random_t *random, problem_t *p)
{
    int64_t x[4] = {1, between(random, 1, 40), between(random, 3, 20), between(random, 3, 20)};
    int64_t w[4] = {between(random, 1, 9), x[1], between(random, 1, 3), between(random, 1, 3)};
    p->op = "ConvInteger";
    add_list(p, random, "pads", 4, 0, 2);
    add_list(p, random, "strides", 2, 1, 2);
    add_input(p, WF_DTYPE_U8, 4, x);
    add_input(p, WF_DTYPE_I8, 4, w);
    add_input(p, WF_DTYPE_U8, 0, x);
    add_input(p, WF_DTYPE_I8, 1, w);
}

static void make_matmul(wf_random_t *random, problem_t *p)
{
    static const wf_dtype_t dtypes[] = {WF_DTYPE_F32,  WF_DTYPE_F64, WF_DTYPE_F16,
                                        WF_DTYPE_BF16, WF_DTYPE_I32, WF_DTYPE_U64};
    wf_dtype_t dtype = dtypes[wf_random_below(random, WF_COUNT_OF(dtypes))];
    int64_t m = between(random, 1, 110), k = between(random, 0, 270), n = between(random, 1, 140);
    p->op = "MatMul";
    add_input(p, dtype, 3, (const int64_t[]){between(random, 1, 2), m, k});
    add_input(p, dtype, 2, (const int64_t[]){k, n});
}

static void make_gemm(wf_random_t *random, problem_t *p)
{
    int64_t m = between(random, 1, 110), k = between(random, 1, 300), n = between(random, 1, 140);
    bool trans_a = wf_random_below(random, 2) != 0, trans_b = wf_random_below(random, 2) != 0;
    p->op = "Gemm";
    (void)snprintf(p->attrs, sizeof p->attrs, "transA=%d transB=%d alpha=0.75 beta=1.5", trans_a, trans_b);
    add_input(p, WF_DTYPE_F32, 2, trans_a ? (const int64_t[]){k, m} : (const int64_t[]){m, k});
    add_input(p, WF_DTYPE_F32, 2, trans_b ? (const int64_t[]){n, k} : (const int64_t[]){k, n});
    add_input(p, WF_DTYPE_F32, 2, (const int64_t[]){wf_random_below(random, 2) != 0 ? m : 1, n});
}

static void make_attention(wf_random_t *random, problem_t *p)
{
    int64_t heads = between(random, 1, 3), s = between(random, 1, 120), t = between(random, 1, 150);
    int64_t d = between(random, 1, 9), e = between(random, 1, 4);
    p->op = "w:Attention";
    e = wf_random_below(random, 8) == 0 ? 130 : e; /* more than one tile */
    (void)snprintf(p->attrs, sizeof p->attrs, "scale=0.3 q_perm=0,2,1,3 out_perm=0,2,1,3");
    add_input(p, WF_DTYPE_F32, 4, (const int64_t[]){1, s, heads, d});
    add_input(p, WF_DTYPE_F32, 4, (const int64_t[]){1, wf_random_below(random, 2) != 0 ? heads : 1, t, d});
    add_input(p, WF_DTYPE_F32, 4, (const int64_t[]){1, heads, t, e});
    if (wf_random_below(random, 2) != 0) {
        add_input(p, WF_DTYPE_F32, 2, (const int64_t[]){s, t});
    }
}

static void make_pool(wf_random_t *random, problem_t *p)
{
    static const char *const ops[] = {"MaxPool", "AveragePool", "LpPool"};
    p->op = ops[wf_random_below(random, WF_COUNT_OF(ops))];
    add_list(p, random, "kernel_shape", 2, 2, 3);
    add_list(p, random, "pads", 4, 0, 1);
    add_list(p, random, "strides", 2, 1, 3);
    add_list(p, random, "ceil_mode", 1, 0, 1);
    p->output_count = strcmp(p->op, "MaxPool") == 0 ? 2 : 1;
    add_input(p, WF_DTYPE_F32, 4,
              (const int64_t[]){2, between(random, 1, 40), between(random, 5, 40), between(random, 5, 40)});
}

static void make_reduce(wf_random_t *random, problem_t *p)
{
    static const char *const ops[] = {"ReduceSum", "ReduceMean",      "ReduceMax",
                                      "ReduceL2",  "ReduceLogSumExp", "ReduceProd"};
    p->op = ops[wf_random_below(random, WF_COUNT_OF(ops))];
    add_list(p, random, "axes", 1, 0, 2);
    add_input(p, WF_DTYPE_F32, 3,
              (const int64_t[]){between(random, 1, 40), between(random, 1, 40), between(random, 1, 400)});
}

static void make_line(wf_random_t *random, problem_t *p)
{
    static const char *const ops[] = {"Softmax", "LogSoftmax",      "Hardmax", "CumSum",
                                      "ArgMax",  "LpNormalization", "TopK"};
    p->op = ops[wf_random_below(random, WF_COUNT_OF(ops))];
    add_list(p, random, "axis", 1, 0, 2);
    if (strcmp(p->op, "TopK") == 0) {
        add_list(p, random, "k", 1, 1, 5);
        p->output_count = 2;
    }
    add_input(p, WF_DTYPE_F32, 3,
              (const int64_t[]){between(random, 5, 30), between(random, 5, 30), between(random, 5, 300)});
}

static void make_normalization(wf_random_t *random, problem_t *p)
{
    int64_t rows = between(random, 1, 40), cols = between(random, 1, 600);
    p->op = wf_random_below(random, 2) != 0 ? "LayerNormalization" : "RMSNormalization";
    add_input(p, WF_DTYPE_F32, 2, (const int64_t[]){rows, cols});
    add_input(p, WF_DTYPE_F32, 1, &cols);
}

static void make_elementwise(wf_random_t *random, problem_t *p)
{
    static const char *const ops[] = {"Add", "Mul", "Max", "Less", "Pow"};
    int64_t dims[3] = {between(random, 1, 30), between(random, 1, 30), between(random, 1, 80)}, other[3];
    p->op = ops[wf_random_below(random, WF_COUNT_OF(ops))];
    for (int d = 0; d < 3; d++) {
        other[d] = wf_random_below(random, 2) != 0 ? dims[d] : 1;
    }
    add_input(p, WF_DTYPE_F32, 3, dims);
    add_input(p, WF_DTYPE_F32, 3, other);
}

static void make_movement(wf_random_t *random, problem_t *p)
{
    static const struct {
        const char *op, *attrs;
    } rows[] = {{"Transpose", "perm=2,0,1"},
                {"Tile", "repeats=2,1,3"},
                {"Pad", "pads=1,2,3,0,1,2 mode=reflect"},
                {"Slice", "starts=3,-1 ends=100,-100 axes=2,0 steps=2,-1"},
                {"Expand", "shape=2,1,1,1"}};
    size_t row = wf_random_below(random, WF_COUNT_OF(rows));
    p->op = rows[row].op;
    (void)snprintf(p->attrs, sizeof p->attrs, "%s", rows[row].attrs);
    add_input(p, WF_DTYPE_F32, 3,
              (const int64_t[]){between(random, 4, 40), between(random, 4, 40), between(random, 4, 90)});
}

static void make_recurrent(wf_random_t *random, problem_t *p)
{
    static const struct {
        const char *op;
        int64_t gates;
    } rows[] = {{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}};
    size_t row = wf_random_below(random, WF_COUNT_OF(rows));
    int64_t hidden = between(random, 1, 20), in = between(random, 1, 300);
    p->op = rows[row].op;
    (void)snprintf(p->attrs, sizeof p->attrs, "direction=bidirectional");
    add_input(p, WF_DTYPE_F32, 3, (const int64_t[]){between(random, 1, 6), between(random, 1, 4), in});
    add_input(p, WF_DTYPE_F32, 3, (const int64_t[]){2, rows[row].gates * hidden, in});
    add_input(p, WF_DTYPE_F32, 3, (const int64_t[]){2, rows[row].gates * hidden, hidden});
}

static void make_resize(wf_random_t *random, problem_t *p)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", "linear antialias=1",
                                        "cubic antialias=1"};
    p->op = "Resize";
    (void)snprintf(p->attrs, sizeof p->attrs, "mode=%s", modes[wf_random_below(random, WF_COUNT_OF(modes))]);
    add_list(p, random, "axes", 1, 2, 2);
    add_list(p, random, "sizes", 1, 3, 60);
    add_list(p, random, "exclude_outside", 1, 0, 1);
    add_input(p, WF_DTYPE_F32, 4, (const int64_t[]){2, 3, between(random, 1, 40), between(random, 1, 20)});
}

static void fill(wf_random_t *random, const wf_tensor_t *tensor)
{
    for (int64_t e = 0; e < wf_type_elems(&tensor->type); e++) {
        wf_lane_t lane = {.u = wf_random_u64(random)};
        if (wf_lane_class(tensor->type.dtype) == WF_LANE_F) {
            lane.f = (double)wf_random_float(random) * 2;
        }
        wf_lane_store(tensor->type.dtype, tensor->data, e, lane);
    }
}

static void check(wf_random_t *random, const problem_t *p)
{
    wf_arena_t arena;
    wf_op_t op;
    wf_tensor_t inputs[4] = {0}, plain[2] = {0}, fast[2] = {0};
    bool internal = strncmp(p->op, "w:", 2) == 0;
    const char *name = p->op + (internal ? 2 : 0);
    size_t outputs = p->output_count > 0 ? p->output_count : 1;
    wf_arena_init(&arena, wf_allocator_system());
    assert_true((internal ? wf_op_from_internal_name : wf_op_from_onnx_name)(name, strlen(name), &op));
    wf_attrs_t attrs = wf_ref_case_attrs(op, p->attrs, &arena);
    for (size_t i = 0; i < p->input_count; i++) {
        inputs[i].type = p->inputs[i];
        inputs[i].data = malloc((size_t)WF_MAX(wf_type_bytes(&p->inputs[i]), 1));
        assert_non_null(inputs[i].data);
        fill(random, &inputs[i]);
    }
    plain[0].data = plain[1].data = &arena;
    wf_assert_ok(wf_ref_case_call(op, &attrs, p->input_count, inputs, outputs, plain, WF_REF_PLAIN));
    for (int path = WF_REF_INLINE; path < WF_REF_PATHS; path++) {
        fast[0].data = fast[1].data = &arena;
        wf_assert_ok(
            wf_ref_case_call(op, &attrs, p->input_count, inputs, outputs, fast, (wf_ref_path_t)path));
        for (size_t o = 0; o < outputs; o++) {
            if (!wf_ref_case_same(&plain[o], &fast[o])) {
                print_error("%s{%s}: output %zu differs\n", p->op, p->attrs, o);
                fail();
            }
        }
        wf_ref_case_free(outputs, fast);
    }
    wf_ref_case_free(outputs, plain);
    wf_ref_case_free(p->input_count, inputs);
    wf_arena_deinit(&arena);
}

static void fast_paths_equal_plain_loops(void **state)
{
    (void)state;
    static const struct {
        void (*make)(wf_random_t *random, problem_t *p);
        int count;
    } families[] = {
        {make_conv, 60},          {make_conv_integer, 12}, {make_matmul, 24},   {make_gemm, 16},
        {make_attention, 16},     {make_pool, 30},         {make_reduce, 40},   {make_line, 50},
        {make_normalization, 30}, {make_elementwise, 40},  {make_movement, 40}, {make_recurrent, 30},
        {make_resize, 30},
    };
    wf_random_t random = wf_random_start("fast_paths_equal_plain_loops", 20261130);
    for (size_t f = 0; f < WF_COUNT_OF(families); f++) {
        for (int k = 0; k < families[f].count; k++) {
            problem_t problem = {0};
            families[f].make(&random, &problem);
            check(&random, &problem);
        }
    }
}

/* Every operator of the table has a kernel for the types that the table names. */
static void every_operator_has_a_kernel(void **state)
{
    (void)state;
    static const struct {
        char letter;
        wf_dtype_t dtype;
    } letters[] = {{'F', WF_DTYPE_F32}, {'F', WF_DTYPE_BF16}, {'L', WF_DTYPE_F8E5M2}, {'S', WF_DTYPE_I64},
                   {'U', WF_DTYPE_U8},  {'B', WF_DTYPE_BOOL}, {'*', WF_DTYPE_F16},    {'*', WF_DTYPE_I4}};
    for (unsigned op = 0; op < WF_OP_COUNT; op++) {
        const wf_op_info_t *info = wf_op_info((wf_op_t)op);
        bool any = info->input_max == 0;
        for (size_t k = 0; k < WF_COUNT_OF(letters); k++) {
            if (strchr(info->types, letters[k].letter) != NULL) {
                any = true;
                if (!wf_ref_supports((wf_op_t)op, letters[k].dtype)) {
                    print_error("%s of %s has no kernel\n", info->onnx_name, wf_dtype_name(letters[k].dtype));
                    fail();
                }
            }
        }
        if (!any) {
            print_error("%s: no type of %s was looked at\n", info->onnx_name, info->types);
            fail();
        }
    }
    assert_false(wf_ref_supports(WF_OP_ADD, WF_DTYPE_BOOL));
    assert_false(wf_ref_supports(WF_OP_EQUAL, WF_DTYPE_STR));
    assert_false(wf_ref_supports(WF_OP_TRANSPOSE, WF_DTYPE_C64));
    assert_false(wf_ref_supports(WF_OP_EXP, WF_DTYPE_F8E5M2));
    assert_false(wf_ref_supports(WF_OP_COUNT, WF_DTYPE_F32));
    assert_true(wf_ref_supports(WF_OP_SHAPE, WF_DTYPE_STR));
}

/* Sizes that do not fit are a status, not a small buffer. */
static void scratch_that_does_not_fit(void **state)
{
    (void)state;
    wf_tensor_t x = {.type = {WF_DTYPE_F32, 1, {INT64_MAX / 16}}};
    wf_tensor_t out[2] = {{.type = {WF_DTYPE_F32, 1, {1}}}, {.type = {WF_DTYPE_I64, 1, {1}}}};
    wf_attrs_t attrs = {0};
    wf_ref_call_t call = {
        .op = WF_OP_TOP_K, .attrs = &attrs, .input_count = 1, .inputs = &x, .output_count = 2};
    call.outputs = out;
    wf_parallel_t parallel = {.thread_count = 8};
    call.parallel = &parallel;
    size_t bytes;
    wf_assert_fails(wf_ref_scratch_bytes(&call, &bytes), INTERNAL);
}

/* Nothing loops over the long dims of an empty tensor, and what cannot be multiplied is refused. */
static void empty_tensors_with_long_dims(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"Softmax", "f32[0,1,1099511627776]=", "", "f32[0,1,1099511627776]="},
        {"CumSum", "f32[1099511627776,0]=", "axis=1", "f32[1099511627776,0]="},
        {"TopK", "f32[1099511627776,0]=", "k=0", "f32[1099511627776,0]= i64[1099511627776,0]="},
        {"ReduceSum", "f32[2,0,1099511627776]=", "axes=1,2", "f32[2,1,1]=0"},
        {"Tile", "f32[72057594037927936,0]= i64[2]=0,8", "", "f32[0,0]="},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
    float sum = 0;
    wf_tensor_t x = {.type = {WF_DTYPE_F32, 3, {8, INT64_C(1) << 62, 0}}, .data = &sum};
    wf_tensor_t out = {.type = {WF_DTYPE_F32, 0, {0}}, .data = &sum};
    wf_attrs_t attrs = {0};
    wf_ref_call_t call = {.op = WF_OP_REDUCE_SUM, .attrs = &attrs, .input_count = 1, .inputs = &x};
    call.output_count = 1;
    call.outputs = &out;
    wf_assert_fails(wf_ref_run(&call), MODEL_LIMIT);
}

/* What is not finite goes through the paths alike: a zero of padding is multiplied like any value. */
static void infinities_are_alike(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"Conv", "f32[1,1,2]=1,2 f32[1,1,2]=1,inf", "pads=0,1", "f32[1,1,2]=inf,nan"},
        {"MatMul", "f32[2,2]=inf,1,nan,0 f32[2,1]=1,-inf", "", "f32[2,1]=nan,nan"},
        {"ConvTranspose", "f32[1,1,1]=inf f32[1,1,2]=1,-1", "", "f32[1,1,2]=inf,-inf"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_paths_equal_plain_loops), cmocka_unit_test(every_operator_has_a_kernel),
        cmocka_unit_test(scratch_that_does_not_fit),    cmocka_unit_test(empty_tensors_with_long_dims),
        cmocka_unit_test(infinities_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
