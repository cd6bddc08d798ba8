/* SPDX-License-Identifier: Apache-2.0 */
/* The engine file: the one description shared by the writer (src/engine) and the loader (src/runtime).
 *
 * header | section table | sections, each 64-byte aligned. Little endian, fixed-size records, offsets from
 * the start of the file. Everything is validated before use; the file is untrusted. No host code, no paths,
 * no dates, no host names. An unknown section with WF_SECTION_REQUIRED is refused, another one skipped. A
 * different major version is refused.
 */
#ifndef WF_ENGINE_FORMAT_H
#define WF_ENGINE_FORMAT_H

#include <stdint.h>

#define WF_ENGINE_MAGIC "WFENGINE"
#define WF_ENGINE_MAJOR 2u
#define WF_ENGINE_MINOR 0u
#define WF_ENGINE_ALIGN 64u

typedef struct wf_engine_header {
    char magic[8];
    uint32_t major, minor;
    uint32_t header_bytes; /* sizeof this struct */
    uint32_t section_count;
    uint64_t file_bytes;
    uint64_t content_hash[2]; /* XXH3-128 of all bytes after the header */
    uint64_t machine_hash[2]; /* of the fingerprint, as the fit compares it (device/fit.h) */
    uint32_t fit;             /* wf_fit_t: 0 portable, 1 family, 2 exact */
    uint32_t reserved;        /* 0 */
} wf_engine_header_t;

enum { WF_SECTION_REQUIRED = 1 };
typedef struct wf_engine_section {
    char name[8]; /* zero-padded: "STRINGS" */
    uint32_t flags;
    uint32_t record_bytes; /* 0: bytes */
    uint64_t offset, bytes;
} wf_engine_section_t;

/* Sections:
 *   STRINGS  zero-terminated texts; a string is an offset into it (offset 0 is "")
 *   PROBLEMS wf_engine_problem_t
 *   CONSTS   wf_engine_constant_t
 *   CDATA    bytes of constants, each 64-byte aligned, canonical row-major; read only when it is packed at
 * load PORTS    wf_engine_port_t BINDS    wf_engine_binding_t STEPS    wf_engine_step_t SPECS
 * wf_engine_spec_t FPRINT   fingerprint text (optional to understand) LOCK     the lock, verbatim text
 *   EXPLAIN  JSON: evidence per step (runner-up, margin, source of the time) */

typedef struct wf_engine_problem {
    uint32_t text;     /* string */
    uint32_t tactic;   /* string: the tactic id that does it */
} wf_engine_problem_t; /* a prepared kernel is one (problem, tactic, constants): see step */

typedef struct wf_engine_constant {
    uint32_t dtype, rank;
    int64_t dims[8];
    uint64_t offset, bytes; /* inside CDATA */
} wf_engine_constant_t;

typedef struct wf_engine_port {
    uint32_t name; /* string */
    uint32_t dtype, rank;
    uint32_t fixed; /* 0, or constant index + 1: the only value this input may have */
    int64_t dims[8];
} wf_engine_port_t;

typedef enum wf_bind_kind {
    WF_BIND_NONE,     /* absent optional operand */
    WF_BIND_ARENA,    /* offset bytes into the context's arena */
    WF_BIND_CONSTANT, /* constant index; data reaches the kernel in prepare */
    WF_BIND_INPUT,    /* the caller's buffer of input port `index` (row-major) */
    WF_BIND_OUTPUT    /* the caller's buffer of output port `index` */
} wf_bind_kind_t;
typedef struct wf_engine_binding {
    uint32_t kind;
    uint32_t index;
    uint64_t offset;
    uint64_t bytes; /* bytes the tensor takes there */
    int64_t row_stride_elems;
} wf_engine_binding_t;

enum {
    WF_STEP_LAUNCH,
    WF_STEP_COPY,
    WF_STEP_WAIT
}; /* copy: bind 0 to bind 1; wait: device barrier, reserved */
typedef struct wf_engine_step {
    uint32_t kind;
    uint32_t device;     /* 0: the CPU */
    uint32_t problem;    /* index into PROBLEMS */
    uint32_t nodes;      /* string: ONNX nodes it does */
    uint32_t first_bind; /* operands, then outputs */
    uint32_t operand_count, output_count;
    uint32_t reserved;
    uint64_t workspace_offset, workspace_bytes; /* in the arena */
} wf_engine_step_t;

/* How a specialisation runs. Bits that are not known are ignored: they change time, not results. */
enum {
    WF_RUN_PIN = 1,        /* worker threads stay on one CPU each */
    WF_RUN_STATIC = 2,     /* items are dealt out in equal parts */
    WF_RUN_SMALL_PAGES = 4 /* no huge pages for tensors */
};
typedef struct wf_engine_spec {
    uint32_t first_input, input_count;   /* PORTS */
    uint32_t first_output, output_count; /* PORTS */
    uint32_t first_step, step_count;
    uint32_t thread_count;
    uint32_t run_flags;
    uint64_t arena_bytes;
} wf_engine_spec_t;

#endif
