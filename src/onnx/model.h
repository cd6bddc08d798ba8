/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/onnx share of a model that has been read. */
#ifndef WF_ONNX_MODEL_H
#define WF_ONNX_MODEL_H

#include <stdatomic.h>
#include <string.h>

#include "onnx/onnx.h"
#include "onnx/wire.h"

/* A file of external data. */
typedef struct wf_onnx_data_file {
    const char *name; /* as tensors spell it */
    wf_mapping_t mapping;
} wf_onnx_data_file_t;

struct wf_onnx_model {
    wf_allocator_t allocator;
    wf_arena_t arena;
    wf_mapping_t file;  /* data NULL: the bytes are the caller's */
    wf_span_t bytes;    /* the whole file */
    const char *folder; /* where external data may lie; NULL: nowhere */
    wf_pb_model_t proto;
    WF_VEC(wf_onnx_data_file_t) data_files;
    WF_VEC(wf_onnx_problem_t) problems;
    size_t problem_count; /* with those that are not kept */
    wf_onnx_summary_t summary;
    wf_map_t rules;        /* operator name: first row of the table of rules, see node.h */
    wf_map_t functions;    /* "domain:name:overload": index of the function */
    wf_map_t initializers; /* name: index; main graph */
    _Atomic uint64_t hash_low, hash_high;
    _Atomic bool hash_known;
};

static inline bool wf_span_equal(wf_span_t span, const char *text)
{
    return span.bytes == strlen(text) && (span.bytes == 0 || memcmp(span.data, text, span.bytes) == 0);
}
static inline bool wf_span_same(wf_span_t a, wf_span_t b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}
/* For printf's "%.*s"; names of untrusted models are cut. */
#define WF_SPAN_ARGS(span) (int)((span).bytes < 1000 ? (span).bytes : 1000), (const char *)(span).data

/* Adds a problem to the list; the status is used up. Texts are copied. */
wf_status_t wf_onnx_problem_add(wf_onnx_model_t *model, const char *node, const char *op, int64_t opset,
                                wf_status_t reason) WF_MUST_USE;

/* Opens the external data of all tensors: one mapping for each file, offset and length checked, the bytes
 * noted in the tensors. What is refused becomes a problem. */
wf_status_t wf_onnx_external_open(wf_onnx_model_t *model) WF_MUST_USE;

/* Fills the summary. Texts are made in the model's arena. */
wf_status_t wf_onnx_summarise(wf_onnx_model_t *model) WF_MUST_USE;

/* MODEL_INVALID when a name is empty or not text: names end up in messages, JSON and C strings. */
wf_status_t wf_onnx_name_check(wf_span_t name, const char *what) WF_MUST_USE;

/* A port as the file declares it; messages call it `what` ("input"). A dtype of NONE with *out_refusal set:
 * not a tensor, an unknown element type, a rank that is too large. */
wf_status_t wf_onnx_port_read(const wf_pb_value_info_t *info, const char *what, wf_arena_t *arena,
                              wf_port_t *out_port, wf_status_t *out_refusal) WF_MUST_USE;

#endif
