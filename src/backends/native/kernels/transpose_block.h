/* SPDX-License-Identifier: Apache-2.0 */
/* Transposes of small blocks in registers, for elements of 1, 2, 4 and 8 bytes. */
#ifndef WF_NATIVE_TRANSPOSE_BLOCK_H
#define WF_NATIVE_TRANSPOSE_BLOCK_H

#include "backends/native/kernels/simd.h"

/* A block in registers: n source rows of n elements, n = 16 / size, become n destination rows. log2(n) rounds
 * of interleaving row i with row i + n / 2 transpose it. LO and HI interleave the lower and upper halves. */
typedef uint8_t wf_tb_v1 __attribute__((vector_size(16)));
typedef uint16_t wf_tb_v2 __attribute__((vector_size(16)));
typedef uint32_t wf_tb_v4 __attribute__((vector_size(16)));
typedef uint64_t wf_tb_v8 __attribute__((vector_size(16)));
#define WF_TB_LO1(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define WF_TB_HI1(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define WF_TB_LO2(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define WF_TB_HI2(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define WF_TB_LO4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define WF_TB_HI4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define WF_TB_LO8(a, b) __builtin_shufflevector(a, b, 0, 2)
#define WF_TB_HI8(a, b) __builtin_shufflevector(a, b, 1, 3)

/* The same on two blocks one below the other, for the sizes that matter most. */
#if WF_VLEN >= 8
typedef uint32_t wf_tb_w4 __attribute__((vector_size(32)));
typedef uint64_t wf_tb_w8 __attribute__((vector_size(32)));
#define WF_TB_JOIN4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define WF_TB_JOIN8(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3)
#define WF_TB_LO4W(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define WF_TB_HI4W(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define WF_TB_LO8W(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define WF_TB_HI8W(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#endif

/* dst[j * dst_stride + k] = src[k * src_stride + j], 0 <= j < n, 0 <= k < n * height; strides in elements.
 * Source rows from `src_rows` on are taken as zero, destination rows from `dst_rows` on are not stored. JOIN
 * puts a source row and the one n below it into one vector. */
#define WF_TB_BLOCK(name, bytes, half, vec, height, JOIN, LO, HI)                                  \
    WF_INLINE void wf_transpose_block_##name(const uint8_t *src, int64_t src_stride, uint8_t *dst, \
                                             int64_t dst_stride, int src_rows, int dst_rows)       \
    {                                                                                              \
        enum { N = 16 / bytes };                                                                   \
        vec r[N], t[N];                                                                            \
        WF_UNROLL(16)                                                                              \
        for (int i = 0; i < N; i++) {                                                              \
            half top = {0}, below = {0};                                                           \
            if (i < src_rows) {                                                                    \
                memcpy(&top, src + i * src_stride * bytes, 16);                                    \
            }                                                                                      \
            if (height == 2 && i + N < src_rows) {                                                 \
                memcpy(&below, src + (i + N) * src_stride * bytes, 16);                            \
            }                                                                                      \
            r[i] = JOIN(top, below);                                                               \
        }                                                                                          \
        WF_UNROLL(4)                                                                               \
        for (int round = 1; round < N; round *= 2) {                                               \
            WF_UNROLL(8)                                                                           \
            for (int i = 0; i < N / 2; i++) {                                                      \
                t[2 * i] = LO(r[i], r[i + N / 2]);                                                 \
                t[2 * i + 1] = HI(r[i], r[i + N / 2]);                                             \
            }                                                                                      \
            WF_UNROLL(16)                                                                          \
            for (int i = 0; i < N; i++) {                                                          \
                r[i] = t[i];                                                                       \
            }                                                                                      \
        }                                                                                          \
        WF_UNROLL(16)                                                                              \
        for (int i = 0; i < N; i++) {                                                              \
            if (i < dst_rows) {                                                                    \
                memcpy(dst + i * dst_stride * bytes, &r[i], sizeof r[i]);                          \
            }                                                                                      \
        }                                                                                          \
    }
#define WF_TB_TOP(top, below) top
WF_TB_BLOCK(1, 1, wf_tb_v1, wf_tb_v1, 1, WF_TB_TOP, WF_TB_LO1, WF_TB_HI1)
WF_TB_BLOCK(2, 2, wf_tb_v2, wf_tb_v2, 1, WF_TB_TOP, WF_TB_LO2, WF_TB_HI2)
WF_TB_BLOCK(4, 4, wf_tb_v4, wf_tb_v4, 1, WF_TB_TOP, WF_TB_LO4, WF_TB_HI4)
WF_TB_BLOCK(8, 8, wf_tb_v8, wf_tb_v8, 1, WF_TB_TOP, WF_TB_LO8, WF_TB_HI8)
#if WF_VLEN >= 8
WF_TB_BLOCK(4w, 4, wf_tb_v4, wf_tb_w4, 2, WF_TB_JOIN4, WF_TB_LO4W, WF_TB_HI4W)
WF_TB_BLOCK(8w, 8, wf_tb_v8, wf_tb_w8, 2, WF_TB_JOIN8, WF_TB_LO8W, WF_TB_HI8W)
#define WF_TB_HEIGHT(bytes) ((bytes) >= 4 ? 2 : 1) /* of the largest block, in blocks of n */
#else
#define wf_transpose_block_4w wf_transpose_block_4
#define wf_transpose_block_8w wf_transpose_block_8
#define WF_TB_HEIGHT(bytes) 1
#endif

#endif
