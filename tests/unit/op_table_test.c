/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operators, attributes made complete, numbers as text. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "op/literal.h"
#include "op/op.h"
#include "support/cmocka_all.h"
#include "support/random.h"

/* ---- Table ---- */

static void test_names(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WF_OP_COUNT; i++) {
        const wf_op_info_t *info = wf_op_info((wf_op_t)i);
        wf_op_t found = WF_OP_COUNT;
        assert_true(wf_op_from_problem_name(info->problem_name, &found));
        assert_int_equal(found, i);
        assert_string_equal(wf_op_problem_name((wf_op_t)i), info->problem_name);
        bool internal = info->domain == WF_OP_DOMAIN_W;
        bool by_name = internal ? wf_op_from_internal_name(info->onnx_name, strlen(info->onnx_name), &found)
                                : wf_op_from_onnx_name(info->onnx_name, strlen(info->onnx_name), &found);
        assert_true(by_name);
        assert_int_equal(found, i);
        assert_int_equal(internal, strncmp(info->problem_name, "wf.", 3) == 0);
        /* Names are words of problem text. */
        assert_int_equal(strspn(info->problem_name, "abcdefghijklmnopqrstuvwxyz0123456789_."),
                         strlen(info->problem_name));
    }
    wf_op_t op;
    assert_false(wf_op_from_onnx_name("Convolution", 11, &op));
    assert_false(wf_op_from_onnx_name("Conv", 3, &op));
    assert_true(wf_op_from_onnx_name("ConvX", 4, &op));
    assert_int_equal(op, WF_OP_CONV);
    assert_false(wf_op_from_onnx_name("Attention", 9, &op));
    assert_false(wf_op_from_problem_name("", &op));
    assert_null(wf_op_problem_name(WF_OP_COUNT));
}

static void test_rows(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WF_OP_COUNT; i++) {
        const wf_op_info_t *info = wf_op_info((wf_op_t)i);
        assert_true(info->input_min >= 0 && (info->input_max < 0 || info->input_max >= info->input_min));
        assert_true(info->output_min >= 0 && (info->output_max < 0 || info->output_max >= info->output_min));
        assert_int_equal(strspn(info->types, "*FLSUBTC"), strlen(info->types));
        assert_true(info->input_max == 0 || info->types[0] != '\0');
        assert_non_null(info->shape);
        wf_attr_specs_t specs;
        wf_op_attr_specs((wf_op_t)i, &specs);
        uint32_t inputs = 0;
        for (size_t a = 0; a < specs.count; a++) {
            const wf_attr_spec_t *spec = &specs.items[a];
            assert_true(a == 0 || strcmp(specs.items[a - 1].name, spec->name) < 0);
            assert_int_equal(strspn(spec->name, "abcdefghijklmnopqrstuvwxyz0123456789_AB"),
                             strlen(spec->name));
            assert_false(spec->required && spec->has_default);
            assert_false(spec->has_default && spec->from_input >= 0);
            assert_true(spec->choices == NULL || spec->kind == WF_ATTR_INT || spec->kind == WF_ATTR_STRING);
            if (spec->from_input >= 0) {
                assert_true(spec->from_input < info->input_max);
                assert_int_equal(inputs >> spec->from_input & 1, 0);
                inputs |= UINT32_C(1) << spec->from_input;
            }
        }
    }
}

static const wf_attr_spec_t *spec_of(const wf_attr_specs_t *specs, const char *name)
{
    for (size_t i = 0; i < specs->count; i++) {
        if (strcmp(specs->items[i].name, name) == 0) {
            return &specs->items[i];
        }
    }
    fail_msg("no attribute %s", name);
    return NULL;
}

static void test_specs(void **state)
{
    (void)state;
    wf_attr_specs_t specs;
    wf_op_attr_specs(WF_OP_RELU, &specs);
    assert_int_equal(specs.count, 0);
    wf_op_attr_specs(WF_OP_MAX_POOL, &specs);
    static const char *const names[] = {"auto_pad", "ceil_mode",     "dilations", "kernel_shape",
                                        "pads",     "storage_order", "strides"};
    assert_int_equal(specs.count, WF_COUNT_OF(names));
    for (size_t i = 0; i < WF_COUNT_OF(names); i++) {
        assert_string_equal(specs.items[i].name, names[i]);
    }
    const wf_attr_spec_t *spec = spec_of(&specs, "auto_pad");
    assert_int_equal(spec->kind, WF_ATTR_STRING);
    assert_string_equal(spec->choices, "NOTSET|SAME_UPPER|SAME_LOWER|VALID");
    assert_string_equal(spec->default_text, "NOTSET");
    assert_true(spec_of(&specs, "kernel_shape")->required);
    assert_int_equal(spec_of(&specs, "kernel_shape")->kind, WF_ATTR_INTS);
    assert_false(spec_of(&specs, "pads")->has_default);
    wf_op_attr_specs(WF_OP_SLICE, &specs);
    assert_int_equal(spec_of(&specs, "steps")->from_input, 4);
    assert_int_equal(spec_of(&specs, "axes")->from_input, 3);
}

/* ---- Complete lists ---- */

static void test_defaults(void **state)
{
    (void)state;
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    wf_attrs_t attrs;
    wf_assert_ok(wf_op_complete_attrs(WF_OP_SELU, NULL, 0, &arena, &attrs));
    assert_int_equal(attrs.count, 2);
    /* The nearest floats to the numbers of the specification. */
    assert_true(wf_attrs_float(&attrs, "alpha", 0) == 1.67326319217681884765625F);
    assert_true(wf_attrs_float(&attrs, "gamma", 0) == 1.05070102214813232421875F);
    wf_assert_ok(wf_op_complete_attrs(WF_OP_LRN, &(wf_attr_t){.name = "size", .kind = WF_ATTR_INT, .v.i = 5},
                                      1, &arena, &attrs));
    assert_int_equal(attrs.count, 4);
    assert_true(wf_attrs_float(&attrs, "alpha", 0) == 1e-4F);
    assert_int_equal(wf_attrs_int(&attrs, "size", 0), 5);
    wf_assert_ok(wf_op_complete_attrs(WF_OP_MEAN_VARIANCE_NORMALIZATION, NULL, 0, &arena, &attrs));
    size_t count;
    const int64_t *axes = wf_attrs_ints(&attrs, "axes", &count);
    assert_int_equal(count, 3);
    assert_int_equal(axes[0], 0);
    assert_int_equal(axes[1], 2);
    assert_int_equal(axes[2], 3);
    wf_assert_ok(wf_op_complete_attrs(WF_OP_RNN, NULL, 0, &arena, &attrs));
    const wf_attr_t *activations = wf_attrs_find(&attrs, "activations");
    assert_int_equal(activations->count, 2);
    assert_string_equal(activations->v.strings[0], "Tanh");
    assert_string_equal(activations->v.strings[1], "Tanh");
    assert_string_equal(wf_attrs_string(&attrs, "direction", ""), "forward");
    assert_null(wf_attrs_find(&attrs, "clip"));
    wf_arena_deinit(&arena);
}

static void test_copies(void **state)
{
    (void)state;
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    int64_t pads[4] = {1, 2, 3, 4};
    char word[] = "VALID";
    char name[] = "auto_pad";
    wf_attr_t given[2] = {{.name = "pads", .kind = WF_ATTR_INTS, .count = 4, .v.ints = pads},
                          {.name = name, .kind = WF_ATTR_STRING, .count = 5, .v.s = word}};
    wf_attrs_t attrs;
    wf_assert_ok(wf_op_complete_attrs(WF_OP_CONV, given, 2, &arena, &attrs));
    memset(pads, 0, sizeof pads);
    memset(word, 'x', 5);
    memset(name, 'x', 8);
    size_t count;
    const int64_t *copy = wf_attrs_ints(&attrs, "pads", &count);
    assert_int_equal(count, 4);
    assert_int_equal(copy[3], 4);
    assert_string_equal(wf_attrs_string(&attrs, "auto_pad", ""), "VALID");
    assert_int_equal(wf_attrs_int(&attrs, "group", 0), 1);
    for (size_t i = 1; i < attrs.count; i++) {
        assert_true(strcmp(attrs.items[i - 1].name, attrs.items[i].name) < 0);
    }
    wf_arena_deinit(&arena);
}

static void test_refusals(void **state)
{
    (void)state;
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    wf_attrs_t attrs;
    wf_attr_t axis = {.name = "axis", .kind = WF_ATTR_INT, .v.i = 1};
    wf_attr_t twice[2] = {axis, axis};
    wf_attr_t wrong = {.name = "axis", .kind = WF_ATTR_FLOAT, .v.f = 1};
    wf_assert_ok(wf_op_complete_attrs(WF_OP_CONCAT, &axis, 1, &arena, &attrs));
    wf_assert_fails(wf_op_complete_attrs(WF_OP_CONCAT, NULL, 0, &arena, &attrs), MODEL_INVALID);
    wf_assert_fails(wf_op_complete_attrs(WF_OP_CONCAT, twice, 2, &arena, &attrs), MODEL_INVALID);
    wf_assert_fails(wf_op_complete_attrs(WF_OP_CONCAT, &wrong, 1, &arena, &attrs), MODEL_INVALID);
    wf_assert_fails(wf_op_complete_attrs(WF_OP_RELU, &axis, 1, &arena, &attrs), MODEL_INVALID);
    wf_arena_deinit(&arena);
}

/* ---- Numbers ---- */

static void check_float(const char *text, float want)
{
    float got;
    if (!wf_literal_float(text, strlen(text), &got) || memcmp(&got, &want, sizeof got) != 0) {
        fail_msg("%s", text);
    }
}

static void test_literals(void **state)
{
    (void)state;
    check_float("0", 0.0F);
    check_float("-0", -0.0F);
    check_float("0.01", 0.01F);
    check_float("1e-5", 1e-5F);
    check_float("-2.5e+3", -2500.0F);
    check_float("0.2", 0.2F);
    check_float("16777217", 16777216.0F);
    check_float("0x1.8p+1", 3.0F);
    check_float("-0x1p-149", -0x1p-149F);
    check_float("0x1.fffffep+127", 0x1.fffffep+127F);
    check_float("0xap0", 10.0F);
    check_float("inf", INFINITY);
    check_float("-inf", -INFINITY);
    check_float("1e-1000", 0.0F);
    static const char *const bad[] = {"",
                                      "-",
                                      "+",
                                      ".",
                                      "e5",
                                      "1e",
                                      "1.2.3",
                                      "0x",
                                      "0x1p",
                                      "1e400",
                                      "0x1p+128",
                                      "1f",
                                      " 1",
                                      "1 ",
                                      "infinity",
                                      "1e99999999999999999999",
                                      "123456789012345678901234567890"};
    for (size_t i = 0; i < WF_COUNT_OF(bad); i++) {
        float value;
        assert_false(wf_literal_float(bad[i], strlen(bad[i]), &value));
    }
    int64_t value;
    assert_true(wf_literal_int("-9223372036854775808", 20, &value) && value == INT64_MIN);
    assert_true(wf_literal_int("9223372036854775807", 19, &value) && value == INT64_MAX);
    assert_false(wf_literal_int("9223372036854775808", 19, &value));
    assert_false(wf_literal_int("-9223372036854775809", 20, &value));
    assert_false(wf_literal_int("", 0, &value));
    assert_false(wf_literal_int("1a", 2, &value));
}

/* Every float comes back from its text; the text is the C library's %a. */
static void test_float_text(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("float text", 3);
    for (int i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)wf_random_u64(&random);
        float value;
        float back;
        char text[WF_LITERAL_FLOAT_MAX];
        char libc[64];
        memcpy(&value, &bits, sizeof value);
        wf_literal_print_float(value, text);
        assert_true(wf_literal_float(text, strlen(text), &back));
        if (isnan(value)) {
            assert_string_equal(text, "nan");
            assert_true(isnan(back));
            continue;
        }
        assert_memory_equal(&value, &back, sizeof value);
        snprintf(libc, sizeof libc, "%a", (double)value);
        assert_string_equal(text, libc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),    cmocka_unit_test(test_rows),       cmocka_unit_test(test_specs),
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_copies),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_literals), cmocka_unit_test(test_float_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
