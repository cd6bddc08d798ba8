/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/kernels/compare.h"

#include "backends/native/kernels/lanes.h"

#define COMPARE_LOOP(relation)                                 \
    for (int64_t i = 0; i < count; i++) {                      \
        out[i] = x[i * x_step] relation y[i * y_step] ? 1 : 0; \
    }

/* Loops that the compiler turns into vectors once relation and steps are constants. */
#define COMPARE_RUN(name, in_t, out_t)                                                            \
    WF_INLINE void name##_steps(const wf_compare_relation relation, const in_t *restrict x,       \
                                const in_t *restrict y, out_t *restrict out, const int64_t count, \
                                const int64_t x_step, const int64_t y_step)                       \
    {                                                                                             \
        if (relation == WF_COMPARE_EQUAL) {                                                       \
            COMPARE_LOOP(==)                                                                      \
        } else if (relation == WF_COMPARE_LESS) {                                                 \
            COMPARE_LOOP(<)                                                                       \
        } else {                                                                                  \
            COMPARE_LOOP(<=)                                                                      \
        }                                                                                         \
    }                                                                                             \
    static void name(const wf_compare_args *a, const in_t *x, const in_t *y, out_t *out,          \
                     const int64_t count)                                                         \
    {                                                                                             \
        if (a->x_step != 0 && a->y_step != 0) {                                                   \
            name##_steps(a->relation, x, y, out, count, 1, 1);                                    \
        } else if (a->x_step != 0) {                                                              \
            name##_steps(a->relation, x, y, out, count, 1, 0);                                    \
        } else if (a->y_step != 0) {                                                              \
            name##_steps(a->relation, x, y, out, count, 0, 1);                                    \
        } else {                                                                                  \
            name##_steps(a->relation, x, y, out, count, 0, 0);                                    \
        }                                                                                         \
    }

COMPARE_RUN(compare_i32_u8, int32_t, uint8_t)
COMPARE_RUN(compare_i32_f32, int32_t, float)
COMPARE_RUN(compare_i64_u8, int64_t, uint8_t)
COMPARE_RUN(compare_i64_f32, int64_t, float)

void WF_KERNEL(wf_compare)(const wf_compare_args *a, const void *x, const void *y, void *out, int64_t count)
{
    if (a->elem_bytes == 4) {
        if (a->to_f32) {
            compare_i32_f32(a, x, y, out, count);
        } else {
            compare_i32_u8(a, x, y, out, count);
        }
    } else if (a->to_f32) {
        compare_i64_f32(a, x, y, out, count);
    } else {
        compare_i64_u8(a, x, y, out, count);
    }
}
