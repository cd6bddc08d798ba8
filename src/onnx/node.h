/* SPDX-License-Identifier: Apache-2.0 */
/* What a node of an ONNX file means: its operator in the version that the file imports, and its attributes.
 */
#ifndef WF_ONNX_NODE_H
#define WF_ONNX_NODE_H

#include "onnx/model.h"
#include "onnx/upgrade.h"

/* The newest operator set of the default domain, and the newest file version, that were gone through. */
#define WF_ONNX_NEWEST_OPSET 28
#define WF_ONNX_NEWEST_IR 14

/* Operator set imports of a model or of a function. */
typedef struct wf_onnx_opsets {
    const wf_pb_opset_t *items;
    size_t count;
    int64_t ir_version;
} wf_onnx_opsets_t;

typedef enum wf_onnx_kind {
    WF_ONNX_OPERATOR, /* one of the table, as it is */
    WF_ONNX_RULE,     /* an older or foreign form: rule->fn makes it */
    WF_ONNX_FUNCTION, /* a function of the model */
    WF_ONNX_FLOW      /* If, Loop, Scan: their bodies take their place */
} wf_onnx_kind_t;

typedef struct wf_onnx_meaning {
    wf_onnx_kind_t kind;
    int64_t opset; /* of the node's domain; 0: not imported */
    wf_op_t op;    /* WF_ONNX_OPERATOR; WF_ONNX_RULE: whose attributes it may have, WF_OP_COUNT: none */
    const wf_rule_t *rule;
    size_t function;
} wf_onnx_meaning_t;

/* Fills the map of rules: name to the first of its rows. */
wf_status_t wf_onnx_rules_init(wf_map_t *rules) WF_MUST_USE;

/* The key of a function (or of a node that calls it) in model->functions; false when the names are too long
 * for one. */
enum { WF_ONNX_FUNCTION_KEY_MAX = 1024 };
bool wf_onnx_function_key(wf_span_t domain, wf_span_t name, wf_span_t overload,
                          char out_key[WF_ONNX_FUNCTION_KEY_MAX], size_t *out_bytes);

/* MODEL_UNSUPPORTED with a hint when the node means nothing here; out_meaning->opset is set all the same. */
wf_status_t wf_onnx_node_meaning(const wf_onnx_model_t *model, const wf_onnx_opsets_t *opsets,
                                 const wf_pb_node_t *node, wf_onnx_meaning_t *out_meaning) WF_MUST_USE;

/* Checks names and kinds of the attributes and that nothing required is missing. MODEL_INVALID,
 * MODEL_UNSUPPORTED, MODEL_LIMIT. An attribute that refers to one of the enclosing function is only checked
 * for its kind. */
wf_status_t wf_onnx_node_check(const wf_pb_node_t *node, const wf_onnx_meaning_t *meaning) WF_MUST_USE;

/* True for attributes that mean nothing any more: memory hints of operator sets 1 to 5. */
bool wf_onnx_attr_is_obsolete(wf_span_t name, int64_t opset);

/* Reads an attribute under another name (a function's argument) or its own. Everything is made in the arena,
 * which must live as long as the result. */
wf_status_t wf_onnx_attr_read(const wf_pb_attribute_t *attribute, wf_span_t name, wf_arena_t *arena,
                              wf_attr_t *out_attr) WF_MUST_USE;

/* "Conv", "com.microsoft.FusedConv": made in the arena. */
wf_status_t wf_onnx_op_text(const wf_pb_node_t *node, wf_arena_t *arena, const char **out_text) WF_MUST_USE;
/* The name by which people know node number `index`: its name, else its first output, else "#17". */
wf_status_t wf_onnx_node_text(const wf_pb_node_t *node, size_t index, wf_arena_t *arena,
                              const char **out_text) WF_MUST_USE;

#endif
