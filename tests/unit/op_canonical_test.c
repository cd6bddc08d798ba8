/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical attributes stand for the same work: what pools and slices select is listed before and after. */
#include <string.h>

#include "base/compiler.h"
#include "op/canonical.h"
#include "op/shape.h"
#include "support/cmocka_all.h"
#include "support/random.h"

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

/* One spatial axis of a pool. */
typedef struct axis {
    int64_t in, kernel, stride, dilation, pad_begin, pad_end;
    bool ceil_mode;
} axis_t;

static axis_t random_axis(wf_random_t *random)
{
    return (axis_t){.in = 1 + (int64_t)wf_random_below(random, 12),
                    .kernel = 1 + (int64_t)wf_random_below(random, 4),
                    .stride = 1 + (int64_t)wf_random_below(random, 5),
                    .dilation = 1 + (int64_t)wf_random_below(random, 3),
                    .pad_begin = (int64_t)wf_random_below(random, 4),
                    .pad_end = (int64_t)wf_random_below(random, 4),
                    .ceil_mode = wf_random_below(random, 2) != 0};
}

static bool kernel_fits(const axis_t *axis)
{
    return (axis->kernel - 1) * axis->dilation + 1 <= axis->pad_begin + axis->in + axis->pad_end;
}

/* ---- Pools ---- */

/* What window `o` of AveragePool sees: the inputs, and by how much it divides. Places beyond pad_end are no
 * padding. */
static int64_t window_view(const wf_window_t *window, int64_t o, bool count_pads, uint64_t *out_inputs)
{
    int64_t divisor = 0;
    *out_inputs = 0;
    for (int64_t k = 0; k < window->kernel[0]; k++) {
        int64_t place = o * window->stride[0] - window->pad_begin[0] + k * window->dilation[0];
        bool inside = place >= 0 && place < window->in[0];
        *out_inputs |= inside ? UINT64_C(1) << place : 0;
        divisor += inside || (count_pads && place < window->in[0] + window->pad_end[0]) ? 1 : 0;
    }
    return divisor;
}

static void test_canonical_pools(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("canonical pools", 6);
    int kept_ceil = 0;
    int checked = 0;
    for (int run = 0; run < 20000; run++) {
        axis_t axis = random_axis(&random);
        int64_t counts = (int64_t)wf_random_below(&random, 2);
        if (!kernel_fits(&axis)) {
            continue;
        }
        int64_t pads[2] = {axis.pad_begin, axis.pad_end};
        wf_attr_t items[] = {word("auto_pad", "NOTSET"),
                             number("ceil_mode", axis.ceil_mode),
                             number("count_include_pad", counts),
                             ints("dilations", &axis.dilation, 1),
                             ints("kernel_shape", &axis.kernel, 1),
                             ints("pads", pads, 2),
                             ints("strides", &axis.stride, 1)};
        wf_attrs_t attrs = {.items = items, .count = WF_COUNT_OF(items)};
        wf_type_t input = image(axis.in);
        wf_type_t output;
        wf_shape_call_t call = {.op = WF_OP_AVERAGE_POOL,
                                .attrs = &attrs,
                                .input_count = 1,
                                .inputs = &input,
                                .output_count = 1,
                                .outputs = &output};
        wf_arena_t arena;
        wf_arena_init(&arena, wf_allocator_system());
        wf_attrs_t canonical;
        wf_window_t before;
        wf_window_t after;
        wf_assert_ok(wf_op_infer(&call));
        wf_assert_ok(wf_op_canonical_attrs(&call, &arena, &canonical));
        wf_assert_ok(wf_window_resolve(WF_OP_AVERAGE_POOL, &attrs, &input, NULL, &before));
        wf_assert_ok(wf_window_resolve(WF_OP_AVERAGE_POOL, &canonical, &input, NULL, &after));
        assert_int_equal(before.out[0], after.out[0]);
        assert_null(wf_attrs_find(&canonical, "auto_pad"));
        bool counts_after = wf_attrs_int(&canonical, "count_include_pad", 0) != 0;
        kept_ceil += wf_attrs_int(&canonical, "ceil_mode", 0) != 0 ? 1 : 0;
        for (int64_t o = 0; o < before.out[0]; o++) {
            uint64_t inputs[2];
            int64_t divisors[2] = {window_view(&before, o, counts != 0, &inputs[0]),
                                   window_view(&after, o, counts_after, &inputs[1])};
            assert_int_equal(inputs[0], inputs[1]);
            assert_int_equal(divisors[0], divisors[1]);
            checked++;
        }
        wf_arena_deinit(&arena);
    }
    assert_true(kept_ceil > 100 && checked > 20000);
}

/* ---- Slices ---- */

/* The indices that the specification selects, one by one. */
static size_t walk_slice(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *out_indices)
{
    size_t count = 0;
    start += start < 0 ? dim : 0;
    end += end < 0 ? dim : 0;
    start = start < 0 ? 0 : start;
    start = step > 0 ? WF_MIN(start, dim) : WF_MIN(start, dim - 1);
    end = step > 0 ? WF_MIN(WF_MAX(end, 0), dim) : WF_MIN(WF_MAX(end, -1), dim - 1);
    for (int64_t i = start; step > 0 ? i < end : i > end; i += step) {
        out_indices[count++] = i;
    }
    return count;
}

static void test_slice_resolve(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("slices", 11);
    for (int run = 0; run < 20000; run++) {
        int64_t indices[64];
        int64_t dim = (int64_t)wf_random_below(&random, 9);
        int64_t start = (int64_t)wf_random_below(&random, 25) - 12;
        int64_t end = (int64_t)wf_random_below(&random, 25) - 12;
        int64_t step = (int64_t)wf_random_below(&random, 9) - 4;
        step = step == 0 ? 5 : step;
        size_t want = walk_slice(dim, start, end, step, indices);
        assert_int_equal(wf_slice_resolve(dim, &start, &end, step), want);
        for (size_t i = 0; i < want; i++) {
            assert_int_equal(start + (int64_t)i * step, indices[i]);
        }
    }
}

/* The indices of axis `axis` that a list of attributes selects. */
static size_t walk_axis(const wf_attrs_t *attrs, int64_t axis, int64_t dim, int64_t *out_indices)
{
    size_t count;
    const int64_t *axes = wf_attrs_ints(attrs, "axes", &count);
    const int64_t *starts = wf_attrs_ints(attrs, "starts", &count);
    const int64_t *ends = wf_attrs_ints(attrs, "ends", &count);
    const int64_t *steps = wf_attrs_ints(attrs, "steps", &count);
    for (size_t i = 0; i < count; i++) {
        if (axes[i] == axis || axes[i] == axis - 2) {
            return walk_slice(dim, starts[i], ends[i], steps[i], out_indices);
        }
    }
    return walk_slice(dim, 0, dim, 1, out_indices);
}

static void test_slices(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("canonical slices", 7);
    for (int run = 0; run < 20000; run++) {
        int64_t lists[3][2];
        int64_t axes[2] = {1, -2};
        size_t count = 1 + wf_random_below(&random, 2);
        for (size_t i = 0; i < 2; i++) {
            lists[0][i] = (int64_t)wf_random_below(&random, 21) - 10;
            lists[1][i] = (int64_t)wf_random_below(&random, 21) - 10;
            lists[2][i] = (int64_t)wf_random_below(&random, 7) - 3;
            lists[2][i] = lists[2][i] == 0 ? 7 : lists[2][i];
        }
        wf_attr_t items[] = {ints("axes", axes, count), ints("ends", lists[1], count),
                             ints("starts", lists[0], count), ints("steps", lists[2], count)};
        wf_attrs_t attrs = {.items = items, .count = WF_COUNT_OF(items)};
        wf_type_t input = {.dtype = WF_DTYPE_F32, .rank = 2};
        input.dims[0] = (int64_t)wf_random_below(&random, 8);
        input.dims[1] = (int64_t)wf_random_below(&random, 8);
        wf_type_t output;
        wf_shape_call_t call = {.op = WF_OP_SLICE,
                                .attrs = &attrs,
                                .input_count = 1,
                                .inputs = &input,
                                .output_count = 1,
                                .outputs = &output};
        wf_arena_t arena;
        wf_attrs_t canonical;
        wf_arena_init(&arena, wf_allocator_system());
        wf_assert_ok(wf_op_infer(&call));
        wf_assert_ok(wf_op_canonical_attrs(&call, &arena, &canonical));
        for (int64_t axis = 0; axis < 2; axis++) {
            int64_t before[16];
            int64_t after[16];
            size_t selected = walk_axis(&attrs, axis, input.dims[axis], before);
            assert_int_equal(walk_axis(&canonical, axis, input.dims[axis], after), selected);
            assert_memory_equal(before, after, selected * sizeof *before);
            assert_int_equal(output.dims[axis], selected);
        }
        wf_arena_deinit(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_pools),
        cmocka_unit_test(test_slice_resolve),
        cmocka_unit_test(test_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
