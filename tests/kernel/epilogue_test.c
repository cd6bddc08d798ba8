/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise programs against the C library in double precision, at every tier that the machine has and with
 * 16 generic lanes (the AVX-512 logic on a machine without it).
 */
#include <stdbool.h>

#include "kernel/kernel_support.h"

#include "backends/native/kernels/epilogue.h"

#define DECLARE(tier) wf_ep_run_f32_fn wf_ep_run_f32_##tier;
KERNEL_TEST_TIERS(DECLARE)
#include "backends/native/kernels/epilogue.c"

static const struct {
    const char *name;
    wf_ep_run_f32_fn *run;
} tiers[] = {
#define X(tier) {#tier, wf_ep_run_f32_##tier},
    KERNEL_TEST_TIERS(X)
#undef X
};
enum { TIERS = sizeof tiers / sizeof tiers[0] };

/* The functions of epilogue.def, from their definitions in ONNX; y is the second operand. */
static double reference(wf_ep_fn fn, double x, double y, double a, double b)
{
    switch (fn) {
    case WF_EP_RELU:
        return isnan(x) ? x : fmax(x, 0);
    case WF_EP_CLIP:
        return isnan(x) ? x : fmin(fmax(x, a), b);
    case WF_EP_LEAKY_RELU:
        return x < 0 ? a * x : x;
    case WF_EP_ELU:
        return x < 0 ? a * expm1(x) : x;
    case WF_EP_SELU:
        return b * (x < 0 ? a * expm1(x) : x);
    case WF_EP_CELU:
        return x < 0 ? a * expm1(x / a) : x;
    case WF_EP_THRESHOLDED_RELU:
        return x > a ? x : 0;
    case WF_EP_SIGMOID:
        return 1 / (1 + exp(-x));
    case WF_EP_HARD_SIGMOID:
        return isnan(x) ? x : fmax(0, fmin(1, a * x + b));
    case WF_EP_HARD_SWISH:
        return isnan(x) ? x : x * fmax(0, fmin(1, x / 6 + 0.5));
    case WF_EP_SWISH:
        return x / (1 + exp(-a * x));
    case WF_EP_MISH:
        return x * tanh(x > 100 ? x : log1p(exp(x)));
    case WF_EP_TANH:
        return tanh(x);
    case WF_EP_GELU_ERF:
        return 0.5 * x * erfc(-x / sqrt(2));
    case WF_EP_GELU_TANH: {
        const double z = sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
        return x / (1 + exp(-2 * z));
    }
    case WF_EP_ERF:
        return erf(x);
    case WF_EP_EXP:
        return exp(x);
    case WF_EP_LOG:
        return log(x);
    case WF_EP_SQRT:
        return sqrt(x);
    case WF_EP_RSQRT:
        return 1 / sqrt(x);
    case WF_EP_RECIPROCAL:
        return 1 / x;
    case WF_EP_ABS:
        return fabs(x);
    case WF_EP_NEG:
        return -x;
    case WF_EP_SOFTPLUS:
        return x > 100 ? x : log1p(exp(x));
    case WF_EP_SOFTSIGN:
        return x / (1 + fabs(x));
    case WF_EP_FLOOR:
        return floor(x);
    case WF_EP_CEIL:
        return ceil(x);
    case WF_EP_ROUND:
        return nearbyint(x);
    case WF_EP_SQUARE:
        return x * x;
    case WF_EP_ADD:
        return x + y;
    case WF_EP_SUB:
        return x - y;
    case WF_EP_RSUB:
        return y - x;
    case WF_EP_MUL:
        return x * y;
    case WF_EP_DIV:
        return x / y;
    case WF_EP_RDIV:
        return y / x;
    case WF_EP_MAX:
        return isnan(x) || isnan(y) ? NAN : fmax(x, y);
    case WF_EP_MIN:
        return isnan(x) || isnan(y) ? NAN : fmin(x, y);
    case WF_EP_PRELU:
        return x < 0 ? x * y : x;
    case WF_EP_POW:
        return pow(x, y);
    case WF_EP_COUNT:
        break;
    }
    fail();
    return 0;
}

/* Accuracy over [low, high]: |error| <= ulp units in the last place of the exact result + absolute * max(1,
 * |x|). */
typedef struct function {
    wf_ep_fn fn;
    float a, b; /* parameters */
    float low, high;
    double ulp, absolute;
} function;

static const function functions[] = {
    {WF_EP_RELU, 0, 0, -FLT_MAX, FLT_MAX, 0, 0},
    {WF_EP_CLIP, -0.5f, 6, -FLT_MAX, FLT_MAX, 0, 0},
    {WF_EP_LEAKY_RELU, 0.01f, 0, -FLT_MAX, FLT_MAX, 0.5, 0},
    {WF_EP_ELU, 1.5f, 0, -FLT_MAX, FLT_MAX, 2, 0},
    {WF_EP_SELU, 1.67326f, 1.0507f, -FLT_MAX, 1e38f, 2.5, 0},
    {WF_EP_CELU, 2, 0, -FLT_MAX, FLT_MAX, 2, 0},
    {WF_EP_CELU, -2, 0, -170, FLT_MAX, 2, 4e-7},
    {WF_EP_THRESHOLDED_RELU, 1.25f, 0, -FLT_MAX, FLT_MAX, 0, 0},
    {WF_EP_SIGMOID, 0, 0, -87, FLT_MAX, 2.5, 0},
    {WF_EP_HARD_SIGMOID, 0.2f, 0.5f, -FLT_MAX, FLT_MAX, 2, 1e-7},
    {WF_EP_HARD_SWISH, 0, 0, -FLT_MAX, FLT_MAX, 2, 2e-7},
    {WF_EP_SWISH, 1, 0, -80, FLT_MAX, 2.5, 0},
    {WF_EP_SWISH, 1.702f, 0, -45, 1e38f, 2.5, 4e-7},
    {WF_EP_MISH, 0, 0, -80, FLT_MAX, 4.5, 0},
    {WF_EP_TANH, 0, 0, -FLT_MAX, FLT_MAX, 2.6, 0},
    {WF_EP_GELU_ERF, 0, 0, -FLT_MAX, FLT_MAX, 0, 4e-7},
    {WF_EP_GELU_TANH, 0, 0, -1e12f, 1e12f, 0, 4e-7},
    {WF_EP_ERF, 0, 0, -FLT_MAX, FLT_MAX, 6.2, 0},
    {WF_EP_EXP, 0, 0, -103, 88.72f, 1.05, 0},
    {WF_EP_LOG, 0, 0, 1e-45f, FLT_MAX, 1.5, 0},
    {WF_EP_SQRT, 0, 0, 0, FLT_MAX, 0.5, 0},
    {WF_EP_RSQRT, 0, 0, 1e-38f, FLT_MAX, 1.5, 0},
    {WF_EP_RECIPROCAL, 0, 0, -1e38f, 1e38f, 0.5, 0},
    {WF_EP_ABS, 0, 0, -FLT_MAX, FLT_MAX, 0, 0},
    {WF_EP_NEG, 0, 0, -FLT_MAX, FLT_MAX, 0, 0},
    {WF_EP_SOFTPLUS, 0, 0, -87, FLT_MAX, 2.5, 0},
    {WF_EP_SOFTSIGN, 0, 0, -FLT_MAX, FLT_MAX, 1.5, 0},
    {WF_EP_FLOOR, 0, 0, -FLT_MAX, FLT_MAX, 0, 0},
    {WF_EP_CEIL, 0, 0, -FLT_MAX, FLT_MAX, 0, 0},
    {WF_EP_ROUND, 0, 0, -FLT_MAX, FLT_MAX, 0, 0},
    {WF_EP_SQUARE, 0, 0, -1e19f, 1e19f, 0.5, 0},
};

static double ulp_of(double y)
{
    const float f = fabsf((float)y);
    if (!(f < FLT_MAX))
        return 0x1p104;
    return (double)nextafterf(f, INFINITY) - (double)f;
}

/* Floats of the domain at even steps of their bits, both signs. */
static void test_accuracy(void **state)
{
    (void)state;
    enum { CHUNK = 1000 };
    bool seen[WF_EP_COUNT] = {false};
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
        const function *fn = functions + f;
        const wf_ep_stage stage = {(uint8_t)fn->fn, WF_EP_NONE, fn->a, fn->b, NULL, 0};
        seen[fn->fn] = true;
        for (size_t t = 0; t < TIERS; t++) {
            if (!kernel_tier_runs(tiers[t].name))
                continue;
            double worst = 0;
            float worst_at = 0;
            uint32_t bits = 0;
            while (bits < 0x7f800000u) {
                float in[CHUNK], out[CHUNK];
                size_t count = 0;
                for (; count < CHUNK && bits < 0x7f800000u; bits += 9973) {
                    float x;
                    memcpy(&x, &bits, sizeof x);
                    if (x <= fn->high && x >= fn->low)
                        in[count++] = x;
                    if (-x >= fn->low && -x <= fn->high && count < CHUNK)
                        in[count++] = -x;
                }
                if (count == 0)
                    continue;
                memcpy(out, in, sizeof out);
                tiers[t].run(&stage, 1, out, CHUNK, 0, 1, 0, (int64_t)count);
                for (size_t i = 0; i < count; i++) {
                    const double expected = reference(fn->fn, (double)in[i], 0, (double)fn->a, (double)fn->b);
                    if (fabs(expected) > (double)FLT_MAX && (double)out[i] == copysign(INFINITY, expected))
                        continue;
                    const double slack = fn->absolute * fmax(1, fabs((double)in[i]));
                    const double error = fabs((double)out[i] - expected) - slack;
                    const double ulps = error <= 0 ? 0 : error / ulp_of(expected);
                    if (!(ulps <= worst)) {
                        worst = ulps;
                        worst_at = in[i];
                    }
                }
            }
            if (!(worst <= fn->ulp)) {
                print_error("%s function %d: %g ULP at %a\n", tiers[t].name, (int)fn->fn, worst,
                            (double)worst_at);
                fail();
            }
        }
    }
    /* Every unary row of epilogue.def is in the table. */
#define X(name, text, operands) assert_true(operands == 1 || seen[WF_EP_##name]);
#include "backends/native/kernels/epilogue.def"
#undef X
}

/* Special values, function by function: NaN stays NaN, and infinities and zeros give what the definition
 * says. */
static void test_special_values(void **state)
{
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f, -1.0f};
    enum { COUNT = sizeof values / sizeof values[0] };
    for (size_t t = 0; t < TIERS; t++) {
        if (!kernel_tier_runs(tiers[t].name))
            continue;
        for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
            const function *fn = functions + f;
            const wf_ep_stage stage = {(uint8_t)fn->fn, WF_EP_NONE, fn->a, fn->b, NULL, 0};
            float x[COUNT];
            memcpy(x, values, sizeof x);
            tiers[t].run(&stage, 1, x, COUNT, 0, 1, 0, COUNT);
            for (size_t i = 0; i < COUNT; i++) {
                double expected = reference(fn->fn, (double)values[i], 0, (double)fn->a, (double)fn->b);
                /* As their formulas with one rounding each: minus infinity times zero. */
                const bool product = fn->fn == WF_EP_GELU_ERF || fn->fn == WF_EP_GELU_TANH ||
                                     fn->fn == WF_EP_SWISH || fn->fn == WF_EP_MISH ||
                                     fn->fn == WF_EP_HARD_SWISH;
                if (product && values[i] == -INFINITY)
                    expected = NAN;
                const bool same = isnan(expected) ? isnan(x[i])
                                  : isinf(expected)
                                      ? (double)x[i] == expected
                                      : fabs((double)x[i] - expected) <= 1e-6 * fmax(1, fabs(expected));
                if (!same) {
                    print_error("%s function %d of %g: %g, expected %g\n", tiers[t].name, (int)fn->fn,
                                (double)values[i], (double)x[i], expected);
                    fail();
                }
            }
        }
        /* A NaN on either side of max, min, add and mul. */
        static const wf_ep_fn binary[] = {WF_EP_MAX, WF_EP_MIN, WF_EP_ADD, WF_EP_MUL};
        for (size_t f = 0; f < sizeof binary / sizeof binary[0]; f++) {
            for (int full = 0; full < 2; full++) {
                float x[3] = {NAN, 1, 2};
                const float y[3] = {1, NAN, 3};
                const wf_ep_stage stage = {(uint8_t)binary[f], full ? WF_EP_FULL : WF_EP_COL, 0, 0, y, 3};
                tiers[t].run(&stage, 1, x, 3, 0, 1, 0, 3);
                assert_true(isnan(x[0]) && isnan(x[1]) && !isnan(x[2]));
            }
        }
    }
}

/* Random floats in [-3, 3) before a page that may not be touched. */
static fence fence_wide(wf_random_t *random, int64_t count)
{
    fence f = fence_floats(random, count);
    float *data = f.data;
    for (int64_t i = 0; i < count; i++)
        data[i] *= 3;
    return f;
}

/* Random programs on random blocks: every stage rounded on its own, as the reference does it, with a
 * tolerance for the transcendental ones and for pairs that the compiler fuses. */
static void test_random_programs(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("epilogue_random_programs", 20261130);
    for (int round = 0; round < 400; round++) {
        enum { STAGES = 5 };
        const int64_t row0 = kernel_range(&random, 0, 3) * kernel_range(&random, 0, 7);
        const int64_t col0 = kernel_range(&random, 0, 3) ? 0 : kernel_range(&random, 1, 40);
        const int64_t rows = kernel_range(&random, 1, 40);
        const int64_t cols =
            kernel_range(&random, 0, 9) ? kernel_range(&random, 1, 70) : kernel_range(&random, 1, 5000);
        const int64_t stride = cols + (kernel_range(&random, 0, 1) ? 0 : kernel_range(&random, 1, 9));
        fence operands[STAGES] = {{0}};
        wf_ep_stage stages[STAGES];
        const size_t count = (size_t)kernel_range(&random, 1, STAGES);
        const int64_t x_count = (rows - 1) * stride + cols;
        fence x = fence_wide(&random, x_count);
        const float *before = x.data;
        bool own[STAGES] = {false};
        for (size_t i = 0; i < count; i++) {
            wf_ep_stage *s = stages + i;
            static const wf_ep_fn common[] = {WF_EP_ADD, WF_EP_ADD, WF_EP_RELU, WF_EP_CLIP, WF_EP_MUL};
            wf_ep_fn fn = kernel_range(&random, 0, 1) ? common[kernel_range(&random, 0, 4)]
                                                      : (wf_ep_fn)kernel_range(&random, 0, WF_EP_COUNT - 1);
            /* Their results leave the range where a tolerance means something, or are not real. */
            if (fn == WF_EP_DIV || fn == WF_EP_RDIV || fn == WF_EP_RECIPROCAL || fn == WF_EP_RSQRT ||
                fn == WF_EP_LOG || fn == WF_EP_SQRT || fn == WF_EP_POW || fn == WF_EP_EXP ||
                fn == WF_EP_FLOOR || fn == WF_EP_CEIL || fn == WF_EP_ROUND || fn == WF_EP_THRESHOLDED_RELU ||
                fn == WF_EP_SQUARE)
                fn = WF_EP_SUB;
            *s = (wf_ep_stage){(uint8_t)fn, WF_EP_NONE, 0.75f, 1.25f, NULL, 0};
            static const uint8_t operand_counts[] = {
#define X(name, text, operands) operands,
#include "backends/native/kernels/epilogue.def"
#undef X
            };
            if (!operand_counts[fn])
                continue;
            s->operand = (uint8_t)kernel_range(&random, WF_EP_SCALAR, WF_EP_FULL);
            if (s->operand == WF_EP_COL)
                operands[i] = fence_wide(&random, (col0 + cols));
            if (s->operand == WF_EP_ROW)
                operands[i] = fence_wide(&random, (row0 + rows));
            if (s->operand == WF_EP_FULL) {
                s->row_stride_elems =
                    kernel_range(&random, 0, 1) ? col0 + cols : col0 + cols + kernel_range(&random, 1, 5);
                operands[i] = fence_wide(&random, ((row0 + rows - 1) * s->row_stride_elems + col0 + cols));
                own[i] = i == 0 && row0 == 0 && col0 == 0 && kernel_range(&random, 0, 2) == 0;
                if (own[i])
                    s->row_stride_elems = stride;
            }
            s->data = operands[i].data;
        }
        for (size_t t = 0; t < TIERS; t++) {
            if (!kernel_tier_runs(tiers[t].name))
                continue;
            fence y = fence_new(x_count * 4);
            float *got = y.data;
            memcpy(got, before, (size_t)x_count * sizeof(float));
            for (size_t i = 0; i < count; i++)
                if (own[i])
                    stages[i].data = got;
            tiers[t].run(stages, count, got, stride, row0, rows, col0, cols);
            for (int64_t i = 0; i < x_count; i++) {
                const int64_t r = i / stride;
                const int64_t c = i % stride;
                if (c >= cols) {
                    assert_true(got[i] == before[i]);
                    continue;
                }
                double v = (double)before[i];
                double scale = fabs(v);
                for (size_t k = 0; k < count; k++) {
                    const wf_ep_stage *s = stages + k;
                    double operand = (double)s->a;
                    if (s->operand == WF_EP_COL)
                        operand = (double)s->data[col0 + c];
                    if (s->operand == WF_EP_ROW)
                        operand = (double)s->data[row0 + r];
                    if (s->operand == WF_EP_FULL)
                        operand = own[k] ? (double)before[i]
                                         : (double)s->data[(row0 + r) * s->row_stride_elems + col0 + c];
                    v = reference((wf_ep_fn)s->fn, v, operand, (double)s->a, (double)s->b);
                    scale = fmax(scale * fmax(1, fabs(operand)), fabs(v)) + fabs(operand);
                }
                if (!(fabs((double)got[i] - v) <= 4e-6 * scale)) {
                    print_error("round %d %s: row %d col %d of %dx%d: %a, expected %a; stages", round,
                                tiers[t].name, (int)r, (int)c, (int)rows, (int)cols, (double)got[i], v);
                    for (size_t k = 0; k < count; k++)
                        print_error(" %d/%d", stages[k].fn, stages[k].operand);
                    print_error("\n");
                    fail();
                }
            }
            fence_free(&y);
        }
        fence_free(&x);
        for (size_t i = 0; i < count; i++)
            fence_free(&operands[i]);
    }
}

/* Division and powers, which the random programs leave out. */
static void test_division_and_powers(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("epilogue_division_and_powers", 11);
    static const wf_ep_fn binary[] = {WF_EP_DIV, WF_EP_RDIV, WF_EP_POW};
    enum { COUNT = 101 };
    for (size_t t = 0; t < TIERS; t++) {
        if (!kernel_tier_runs(tiers[t].name))
            continue;
        for (size_t f = 0; f < sizeof binary / sizeof binary[0]; f++) {
            for (int operand = WF_EP_SCALAR; operand <= WF_EP_FULL; operand++) {
                for (int whole = 0; whole < 2; whole++) {
                    float x[COUNT], before[COUNT], y[COUNT];
                    for (int i = 0; i < COUNT; i++) {
                        before[i] = x[i] = wf_random_float(&random) + (whole ? 0.0f : 1.5f);
                        y[i] = whole ? (float)kernel_range(&random, 1, 4) : wf_random_float(&random) + 2;
                    }
                    y[0] = whole ? 2.0f : y[0];
                    const wf_ep_stage stage = {(uint8_t)binary[f], (uint8_t)operand, y[0], 0, y, COUNT};
                    tiers[t].run(&stage, 1, x, COUNT, 0, 1, 0, COUNT);
                    for (int i = 0; i < COUNT; i++) {
                        const bool each = operand == WF_EP_COL || operand == WF_EP_FULL;
                        const double expected =
                            reference(binary[f], (double)before[i], (double)y[each ? i : 0], 0, 0);
                        assert_true(fabs((double)x[i] - expected) <= 1.1 * ulp_of(expected));
                    }
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_division_and_powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
