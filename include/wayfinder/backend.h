/* SPDX-License-Identifier: Apache-2.0 */
/* Backend: the contract between Wayfinder and a tactic source.
 *
 * A source receives problems and returns tactics. It never sees graph, routes or tuner. The calls that
 * measure are the calls that run. A "no" is a decline with a reason, not an error; an error means that
 * something broke.
 */
#ifndef WAYFINDER_BACKEND_H
#define WAYFINDER_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wayfinder/allocator.h"
#include "wayfinder/log.h"
#include "wayfinder/status.h"
#include "wayfinder/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WF_BACKEND_API_VERSION 1u

/* ---- Attributes
 * ------------------------------------------------------------------------------------------------ */

typedef enum wf_attr_kind {
    WF_ATTR_INT,
    WF_ATTR_FLOAT,
    WF_ATTR_STRING,
    WF_ATTR_INTS,
    WF_ATTR_FLOATS,
    WF_ATTR_STRINGS,
    WF_ATTR_TENSOR
} wf_attr_kind_t;

/* A named attribute. Arrays and strings are borrowed from the owner of the list. */
typedef struct wf_attr {
    const char *name;
    wf_attr_kind_t kind;
    size_t count; /* elements of INTS, FLOATS, STRINGS; bytes of STRING (which is also zero-terminated) */
    union {
        int64_t i;
        float f;
        const char *s;
        const int64_t *ints;
        const float *floats;
        const char *const *strings;
        const wf_tensor_t *tensor;
    } v;
} wf_attr_t;

/* Sorted by name, names unique. */
typedef struct wf_attrs {
    const wf_attr_t *items;
    size_t count;
} wf_attrs_t;

/* NULL when there is none of that name. */
WF_API const wf_attr_t *wf_attrs_find(const wf_attrs_t *attrs, const char *name);
/* The value, or the fallback when the attribute is absent or of another kind. */
WF_API int64_t wf_attrs_int(const wf_attrs_t *attrs, const char *name, int64_t fallback);
WF_API float wf_attrs_float(const wf_attrs_t *attrs, const char *name, float fallback);
WF_API const char *wf_attrs_string(const wf_attrs_t *attrs, const char *name, const char *fallback);
/* The array and its length; NULL and 0 when absent. */
WF_API const int64_t *wf_attrs_ints(const wf_attrs_t *attrs, const char *name, size_t *out_count);
WF_API const float *wf_attrs_floats(const wf_attrs_t *attrs, const char *name, size_t *out_count);

/* ---- Problem
 * --------------------------------------------------------------------------------------------------- */

/* Operator kinds: WF_OP_CONV, ... one row each in src/op/ops.def. Opaque here: compare through names. */
typedef uint16_t wf_op_t;
/* "conv", "matmul", "wf.attention": the name in problem text. Static. NULL for a number that is not an
 * operator. */
WF_API const char *wf_op_problem_name(wf_op_t op);
/* From the name in problem text; false when there is none. */
WF_API bool wf_op_from_problem_name(const char *name, wf_op_t *out_op);

typedef struct wf_problem_operand {
    wf_type_t type; /* dtype NONE: an optional input that is absent */
    bool is_const;  /* known when the engine is built; prepare receives its values */
} wf_problem_operand_t;

/* One operator of the problem. Stage 0 is the root. Every later stage takes the value of the stage before it
 * in the inputs of `chain_mask` (bit i: input i is the running value) and `operand_count` operands in the
 * other inputs, in order. Only the last stage's value leaves the problem, unless stage 0 is the only one and
 * has several outputs. */
typedef struct wf_problem_stage {
    wf_op_t op;
    uint32_t chain_mask;    /* 0 for stage 0 */
    uint32_t first_operand; /* index into operands */
    uint32_t operand_count;
    wf_attrs_t attrs; /* every attribute the operator has, defaults written out */
    wf_type_t out;    /* type of the stage's (first) output */
} wf_problem_stage_t;

/* A canonical description of the work of one pattern: no layout, no kernel, no names. Immutable. */
typedef struct wf_problem {
    const char *text; /* canonical text, the identity */
    uint64_t hash[2]; /* XXH3-128 of the text: low, high */
    const wf_problem_operand_t *operands;
    size_t operand_count;
    const wf_problem_stage_t *stages;
    size_t stage_count; /* >= 1 */
    const wf_type_t *outputs;
    size_t output_count; /* >= 1 */
} wf_problem_t;

/* ---- Tactics
 * --------------------------------------------------------------------------------------------------- */

/* How a tensor's elements lie in memory. Problems say dims in ONNX order; a layout permutes and blocks them.
 * Layouts other than ROW exist for rank >= 3 with dim 1 the channel. */
typedef enum wf_layout {
    WF_LAYOUT_ROW,  /* row-major in ONNX order (NCHW for images) */
    WF_LAYOUT_LAST, /* channels last (NHWC, NWC, NDHWC) */
    WF_LAYOUT_B8,   /* channels in blocks of 8 innermost (nChw8c), the last block zero-padded */
    WF_LAYOUT_B16,  /* channels in blocks of 16 innermost (nChw16c) */
    WF_LAYOUT_COUNT
} wf_layout_t;

/* "row", "last", "b8", "b16". Static. */
WF_API const char *wf_layout_name(wf_layout_t layout);
WF_API bool wf_layout_from_name(const char *name, wf_layout_t *out_layout);

#define WF_TACTIC_ID_MAX 96
#define WF_TACTIC_MAX_ALIASES 2

/* One way to do a problem. `id` is stable text: "native/conv.igemm.last.avx2.mb64@1", never an index. */
typedef struct wf_tactic {
    char id[WF_TACTIC_ID_MAX];
    /* Layout of each non-constant operand (same index as problem->operands; constants are always given in ROW
     * and packed by prepare). Borrowed: valid until the list call's sink returns. */
    const wf_layout_t *operand_layouts;
    const wf_layout_t *output_layouts; /* one per output of the problem */
    double estimate_ns;                /* the source's own guess on this device and thread count; > 0 */
    bool deterministic;                /* same bits on every run and for every thread count */
    bool exact;                        /* accumulates like f32 arithmetic does; false: reduced precision */
} wf_tactic_t;

typedef enum wf_decline {
    WF_DECLINE_OPERATOR,  /* no kernel for the operator or the sequence of stages */
    WF_DECLINE_TYPE,      /* element type */
    WF_DECLINE_SHAPE,     /* shape, stride, dilation, group, rank */
    WF_DECLINE_ATTRIBUTE, /* an attribute value */
    WF_DECLINE_DEVICE,    /* CPU tier masked or absent */
    WF_DECLINE_LIBRARY,   /* the library could not be opened, or refused */
    WF_DECLINE_SCRIPTED,  /* the null source was told to */
    WF_DECLINE_KNOB       /* a setting of the build closes it; said by the space, not by sources */
} wf_decline_t;

/* Receives what list finds. `text` of a decline is one sentence, borrowed for the call. */
typedef struct wf_tactic_sink {
    void *self;
    wf_status_t (*offer)(void *self, const wf_tactic_t *tactic);
    void (*decline)(void *self, const char *family, wf_decline_t reason, const char *text);
} wf_tactic_sink_t;

/* What a tactic needs, known before prepare. */
typedef struct wf_tactic_needs {
    size_t workspace_bytes;   /* one block, 64-byte aligned, shared by all threads of a launch */
    size_t packed_bytes;      /* what prepare will keep for packed constants */
    int32_t may_alias;        /* operand that output 0 may overwrite in place; -1: none */
    int32_t must_alias;       /* operand whose memory output 0 must be; -1: none */
    bool is_view;             /* output 0 is operand must_alias as it lies: nothing to launch */
    size_t over_read_bytes;   /* how far past an operand's end a kernel may read */
    bool reads_strided;       /* operand rows may be row_stride_elems apart */
    bool writes_strided;      /* output rows may be row_stride_elems apart */
    bool allocates_at_launch; /* a library below allocates while running */
} wf_tactic_needs_t;

/* Memory of one operand or output in the tactic's layout. row_stride_elems: distance of consecutive innermost
 * rows (pixels in LAST); 0 means dense, other values only where the needs allow them. */
typedef struct wf_view {
    void *data;
    int64_t row_stride_elems;
} wf_view_t;

/* Work items for the threads of a launch: fn(arg, item, thread) for item in [0, item_count), thread in
 * [0, thread_count), each item once, handed out dynamically. Returns when all are done. Must not be nested.
 */
typedef void wf_item_fn(void *arg, size_t item, uint32_t thread);
typedef struct wf_parallel {
    void *self;
    uint32_t thread_count;
    void (*run)(void *self, size_t item_count, wf_item_fn *fn, void *arg);
} wf_parallel_t;

/* Device facts a source may use; plain values, no queries inside kernels. */
typedef struct wf_cpu {
    uint32_t tier_mask; /* bit i: tier i of src/device/tiers.def may run */
    uint32_t thread_count;
    size_t l1d_bytes, l2_bytes, l3_bytes; /* per core, per core, shared */
    double f32_flops_per_ns;              /* per core, all tiers allowed: used by estimates only */
    double l3_bytes_per_ns;               /* per core */
} wf_cpu_t;

/* A prepared tactic: immutable, may be launched from several contexts at once with different workspaces. */
typedef struct wf_kernel wf_kernel_t;

/* A tactic source. Calls are thread-safe unless said otherwise; optional ones may be NULL. */
typedef struct wf_source {
    uint32_t api_version; /* WF_BACKEND_API_VERSION */
    const char *name;     /* "native", "onednn": the first part of its tactic ids */

    /* Opens the source for one device and thread count. On failure *out_self is NULL. A library that is not
     * installed is not a failure: list then declines with WF_DECLINE_LIBRARY. */
    wf_status_t (*open)(const wf_cpu_t *cpu, wf_allocator_t allocator, wf_log_t log, void **out_self);
    void (*close)(void *self);

    /* Offers every tactic of the problem and declines by family. */
    wf_status_t (*list)(void *self, const wf_problem_t *problem, const wf_tactic_sink_t *sink);

    /* Fills out_needs, and the layouts when the arrays are not NULL (operand_count and output_count entries),
     * for a tactic that list offered or that an engine names. Must be cheap. WF_CODE_TACTIC_MISSING when this
     * machine or version does not have it, WF_CODE_LIBRARY_MISSING when its library cannot be opened. */
    wf_status_t (*query)(void *self, const wf_problem_t *problem, const char *tactic_id,
                         wf_layout_t *out_operand_layouts, wf_layout_t *out_output_layouts,
                         wf_tactic_needs_t *out_needs);

    /* Packs constants and fixes everything. `constants` has one tensor per operand (data NULL where the
     * operand is not constant); borrowed for the call, unless the kernel says keeps_constants below. On
     * failure *out_kernel is NULL. */
    wf_status_t (*prepare)(void *self, const wf_problem_t *problem, const char *tactic_id,
                           const wf_tensor_t *constants, wf_allocator_t allocator, wf_kernel_t **out_kernel);
    void (*release)(void *self, wf_kernel_t *kernel);

    /* Runs. operands: one view per operand (constants: data may be NULL); outputs: one per output; workspace
     * as query said. Allocates nothing in our code. Fails only for values that are not possible
     * (WF_CODE_RUNTIME_DATA) or when a library reports a fault. */
    wf_status_t (*launch)(void *self, const wf_kernel_t *kernel, const wf_view_t *operands,
                          const wf_view_t *outputs, void *workspace, const wf_parallel_t *parallel);

    /* Optional (default false): the prepared kernel reads the constants given to prepare while it runs, so
     * the owner must keep them as long as the kernel. */
    bool (*keeps_constants)(void *self, const wf_kernel_t *kernel);
    /* Optional (default 1): 1 when the source needs libgomp to be the process's only pool. */
    bool (*needs_openmp)(void *self);
    /* Optional: version text of the library below, for fingerprints; "" when there is none. Borrowed. */
    const char *(*version)(void *self);
} wf_source_t;

#ifdef __cplusplus
}
#endif
#endif
