/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: literal pads from the operator texts, and random geometries against counting by hand. */
#include <string.h>

#include "base/compiler.h"
#include "op/op.h"
#include "support/cmocka_all.h"
#include "support/random.h"

/* One spatial axis of a pool or convolution. */
typedef struct axis {
    int64_t in, kernel, stride, dilation, pad_begin, pad_end;
    const char *auto_pad;
    bool ceil_mode;
} axis_t;

static wf_attr_t ints(const char *name, const int64_t *values, size_t count)
{
    return (wf_attr_t){.name = name, .kind = WF_ATTR_INTS, .count = count, .v.ints = values};
}

static wf_attr_t word(const char *name, const char *value)
{
    return (wf_attr_t){.name = name, .kind = WF_ATTR_STRING, .count = strlen(value), .v.s = value};
}

static wf_attr_t number(const char *name, int64_t value)
{
    return (wf_attr_t){.name = name, .kind = WF_ATTR_INT, .v.i = value};
}

static wf_type_t image(int64_t size)
{
    return (wf_type_t){.dtype = WF_DTYPE_F32, .rank = 3, .dims = {1, 1, size}};
}

static wf_status_t resolve(const axis_t *axis, wf_op_t op, wf_window_t *out_window)
{
    int64_t pads[2] = {axis->pad_begin, axis->pad_end};
    wf_attr_t items[] = {word("auto_pad", axis->auto_pad),
                         number("ceil_mode", axis->ceil_mode),
                         ints("dilations", &axis->dilation, 1),
                         ints("kernel_shape", &axis->kernel, 1),
                         ints("pads", pads, 2),
                         ints("strides", &axis->stride, 1)};
    wf_attrs_t attrs = {.items = items, .count = WF_COUNT_OF(items)};
    wf_type_t input = image(axis->in);
    return wf_window_resolve(op, &attrs, &input, NULL, out_window);
}

static void check(axis_t axis, int64_t out, int64_t pad_begin, int64_t pad_end)
{
    wf_window_t window;
    wf_assert_ok(resolve(&axis, WF_OP_MAX_POOL, &window));
    assert_int_equal(window.spatial_rank, 1);
    assert_int_equal(window.in[0], axis.in);
    assert_int_equal(window.out[0], out);
    assert_int_equal(window.pad_begin[0], pad_begin);
    assert_int_equal(window.pad_end[0], pad_end);
}

static void test_auto_pad(void **state)
{
    (void)state;
    /* in, kernel, stride, dilation; the formulas of the operator texts by hand. */
    check((axis_t){5, 3, 1, 1, 0, 0, "SAME_UPPER", false}, 5, 1, 1);
    check((axis_t){5, 2, 1, 1, 0, 0, "SAME_UPPER", false}, 5, 0, 1);
    check((axis_t){5, 2, 1, 1, 0, 0, "SAME_LOWER", false}, 5, 1, 0);
    check((axis_t){6, 3, 2, 1, 0, 0, "SAME_UPPER", false}, 3, 0, 1);
    check((axis_t){6, 3, 2, 1, 0, 0, "SAME_LOWER", false}, 3, 1, 0);
    check((axis_t){5, 3, 2, 1, 0, 0, "SAME_UPPER", false}, 3, 1, 1);
    check((axis_t){8, 3, 3, 2, 0, 0, "SAME_UPPER", false}, 3, 1, 2);
    check((axis_t){8, 3, 3, 2, 0, 0, "SAME_LOWER", false}, 3, 2, 1);
    check((axis_t){8, 2, 1, 3, 0, 0, "SAME_LOWER", false}, 8, 2, 1);
    /* A kernel shorter than the stride needs no pads. */
    check((axis_t){7, 1, 3, 1, 0, 0, "SAME_UPPER", false}, 3, 0, 0);
    check((axis_t){7, 1, 3, 1, 4, 4, "VALID", false}, 3, 0, 0);
    check((axis_t){8, 3, 2, 1, 0, 0, "VALID", true}, 3, 0, 0);
    check((axis_t){0, 3, 2, 1, 0, 0, "SAME_UPPER", false}, 0, 0, 0);
}

static void test_ceil_mode(void **state)
{
    (void)state;
    check((axis_t){4, 3, 2, 1, 0, 0, "NOTSET", false}, 1, 0, 0);
    check((axis_t){4, 3, 2, 1, 0, 0, "NOTSET", true}, 2, 0, 0);
    /* (5 + 2 - 2) / 3 rounds up to 2, and window 2 would start at 6 = in + pad_begin: dropped. */
    check((axis_t){5, 2, 3, 1, 1, 1, "NOTSET", true}, 2, 1, 1);
    check((axis_t){2, 1, 2, 1, 0, 0, "NOTSET", true}, 1, 0, 0);
}

/* Places of windows found by trying them one after the other. */
static int64_t count_windows(const axis_t *axis)
{
    int64_t extent = (axis->kernel - 1) * axis->dilation + 1;
    int64_t padded = axis->pad_begin + axis->in + axis->pad_end;
    int64_t count = 0;
    while (count * axis->stride + extent <= padded) {
        count++;
    }
    if (!axis->ceil_mode) {
        return count;
    }
    /* One more when something remains behind the last whole window, unless the last one starts behind the
     * input. */
    int64_t remains = padded - extent - (count - 1) * axis->stride;
    count += remains > 0 ? 1 : 0;
    return (count - 1) * axis->stride >= axis->pad_begin + axis->in ? count - 1 : count;
}

static axis_t random_axis(wf_random_t *random)
{
    return (axis_t){.in = 1 + (int64_t)wf_random_below(random, 12),
                    .kernel = 1 + (int64_t)wf_random_below(random, 4),
                    .stride = 1 + (int64_t)wf_random_below(random, 5),
                    .dilation = 1 + (int64_t)wf_random_below(random, 3),
                    .pad_begin = (int64_t)wf_random_below(random, 4),
                    .pad_end = (int64_t)wf_random_below(random, 4),
                    .auto_pad = "NOTSET",
                    .ceil_mode = wf_random_below(random, 2) != 0};
}

static bool kernel_fits(const axis_t *axis)
{
    return (axis->kernel - 1) * axis->dilation + 1 <= axis->pad_begin + axis->in + axis->pad_end;
}

static void test_random_windows(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("windows", 5);
    int fitting = 0;
    for (int run = 0; run < 20000; run++) {
        axis_t axis = random_axis(&random);
        wf_window_t window;
        if (!kernel_fits(&axis)) {
            wf_assert_fails(resolve(&axis, WF_OP_MAX_POOL, &window), MODEL_INVALID);
            continue;
        }
        fitting++;
        wf_assert_ok(resolve(&axis, WF_OP_MAX_POOL, &window));
        assert_int_equal(window.out[0], count_windows(&axis));
    }
    assert_true(fitting > 10000);
}

/* ---- Transposed ---- */

static void check_transpose(const wf_attr_t *items, size_t count, int64_t in, int64_t kernel, int64_t out,
                            int64_t pad_begin, int64_t pad_end)
{
    wf_attrs_t attrs = {.items = items, .count = count};
    wf_type_t input = image(in);
    wf_type_t weight = image(kernel);
    wf_window_t window;
    wf_assert_ok(wf_window_resolve_transpose(&attrs, &input, &weight, &window));
    assert_int_equal(window.out[0], out);
    assert_int_equal(window.pad_begin[0], pad_begin);
    assert_int_equal(window.pad_end[0], pad_end);
}

static void test_transpose(void **state)
{
    (void)state;
    int64_t one = 1;
    int64_t two = 2;
    int64_t eight = 8;
    int64_t pads[2] = {1, 2};
    /* 2 * (3 - 1) + 3 = 7 places in all. */
    check_transpose((wf_attr_t[]){ints("strides", &two, 1)}, 1, 3, 3, 7, 0, 0);
    check_transpose((wf_attr_t[]){ints("pads", pads, 2), ints("strides", &two, 1)}, 2, 3, 3, 4, 1, 2);
    check_transpose((wf_attr_t[]){ints("output_padding", &one, 1), ints("strides", &two, 1)}, 2, 3, 3, 8, 0,
                    -1);
    /* total = 7 - 6 = 1: the odd one at the end for SAME_UPPER, at the beginning otherwise. */
    check_transpose((wf_attr_t[]){word("auto_pad", "SAME_UPPER"), ints("strides", &two, 1)}, 2, 3, 3, 6, 0,
                    1);
    check_transpose((wf_attr_t[]){word("auto_pad", "SAME_LOWER"), ints("strides", &two, 1)}, 2, 3, 3, 6, 1,
                    0);
    /* total = 7 + 1 - 6 = 2, of which one is taken by output_padding. */
    check_transpose((wf_attr_t[]){word("auto_pad", "SAME_UPPER"), ints("output_padding", &one, 1),
                                  ints("strides", &two, 1)},
                    3, 3, 3, 6, 1, 0);
    check_transpose((wf_attr_t[]){ints("output_shape", &eight, 1), ints("strides", &two, 1)}, 2, 3, 3, 8, 0,
                    -1);
    int64_t five = 5;
    /* total = 2: halves; total = 3 would put the odd one at the beginning. */
    check_transpose((wf_attr_t[]){ints("output_shape", &five, 1), ints("strides", &two, 1)}, 2, 3, 3, 5, 1,
                    1);
    int64_t four = 4;
    check_transpose((wf_attr_t[]){ints("output_shape", &four, 1), ints("strides", &two, 1)}, 2, 3, 3, 4, 2,
                    1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_pad),
        cmocka_unit_test(test_ceil_mode),
        cmocka_unit_test(test_random_windows),
        cmocka_unit_test(test_transpose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
