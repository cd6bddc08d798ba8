/* SPDX-License-Identifier: Apache-2.0 */
/* What this source knows of oneDNN's binary interface, version 2: numbers and two structures. The library's
 * headers are not needed to build. Descriptions are blocks that are large enough; the library fills and reads
 * them.
 */
#ifndef WF_ONEDNN_ABI_H
#define WF_ONEDNN_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Version 2.6 has 696 bytes for a memory description and at most 5976 for an operation's (x86-64). */
#define WF_DNNL_DESC_BYTES 1024
#define WF_DNNL_OP_DESC_BYTES 8192
#define WF_DNNL_RANK_MAX 12

typedef struct wf_dnnl_desc {
    _Alignas(16) uint8_t bytes[WF_DNNL_DESC_BYTES];
} wf_dnnl_desc_t;

typedef struct wf_dnnl_op_desc {
    _Alignas(16) uint8_t bytes[WF_DNNL_OP_DESC_BYTES];
} wf_dnnl_op_desc_t;

typedef struct wf_dnnl_version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} wf_dnnl_version_t;

typedef struct wf_dnnl_arg {
    int id;
    void *memory;
} wf_dnnl_arg_t;

enum {
    WF_DNNL_SUCCESS = 0,
    WF_DNNL_ENGINE_CPU = 1,
    WF_DNNL_RUNTIME_OMP = 2,
    WF_DNNL_STREAM_DEFAULT = 1,
    WF_DNNL_FORWARD_INFERENCE = 96,
    WF_DNNL_F32 = 3,
    WF_DNNL_TAG_ANY = 1,
    WF_DNNL_SCRATCHPAD_USER = 1,

    WF_DNNL_QUERY_IMPL = 8,
    WF_DNNL_QUERY_WEIGHTS = 131,
    WF_DNNL_QUERY_SCRATCHPAD = 136,

    WF_DNNL_ARG_SRC = 1,
    WF_DNNL_ARG_SRC_1 = 2,
    WF_DNNL_ARG_DST = 17,
    WF_DNNL_ARG_WEIGHTS = 33,
    WF_DNNL_ARG_BIAS = 41,
    WF_DNNL_ARG_SCRATCHPAD = 80,
    WF_DNNL_ARG_POST_OP = 16384, /* times one more than the index */

    WF_DNNL_CONV_DIRECT = 1,
    WF_DNNL_CONV_WINOGRAD = 2,
    WF_DNNL_POOL_MAX = 0x1ff,
    WF_DNNL_POOL_MEAN_PADDED = 0x2ff,
    WF_DNNL_POOL_MEAN = 0x3ff,

    WF_DNNL_ISA_AVX2 = 0x7,
    WF_DNNL_ISA_AVX512 = 0x27,
    WF_DNNL_ISA_AVX512_VNNI = 0x67,
    WF_DNNL_ISA_AVX512_BF16 = 0xe7,
    WF_DNNL_ISA_AMX = 0x3e7,

    WF_DNNL_ELTWISE_CLIP = 0xff,
    WF_DNNL_ELTWISE_RELU = 0x1f,
    WF_DNNL_ELTWISE_TANH = 0x2f,
    WF_DNNL_ELTWISE_ELU = 0x3f,
    WF_DNNL_ELTWISE_ABS = 0x5f,
    WF_DNNL_ELTWISE_SQRT = 0x6f,
    WF_DNNL_ELTWISE_LINEAR = 0x7f,
    WF_DNNL_ELTWISE_SIGMOID = 0xaf,
    WF_DNNL_ELTWISE_GELU_TANH = 0xcf,
    WF_DNNL_ELTWISE_SWISH = 0xdf,
    WF_DNNL_ELTWISE_GELU_ERF = 0x30,
    WF_DNNL_ELTWISE_MISH = 0x60,
    WF_DNNL_ELTWISE_HARD_SWISH = 0x70,

    WF_DNNL_BINARY_ADD = 0x1fff0,
    WF_DNNL_BINARY_MUL = 0x1fff1,
    WF_DNNL_BINARY_MAX = 0x1fff2,
    WF_DNNL_BINARY_MIN = 0x1fff3,
    WF_DNNL_BINARY_DIV = 0x1fff4,
    WF_DNNL_BINARY_SUB = 0x1fff5
};

#endif
