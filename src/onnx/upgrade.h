/* SPDX-License-Identifier: Apache-2.0 */
/* Older and foreign forms of operators, rewritten to the newest semantics while a graph is built. One row
 * each in upgrade.def. */
#ifndef WF_ONNX_UPGRADE_H
#define WF_ONNX_UPGRADE_H

#include "graph/match.h"

typedef struct wf_upgrade wf_upgrade_t;
/* Makes the nodes for one ONNX node and answers for each of its outputs. MODEL_UNSUPPORTED when the old form
 * has no equivalent. */
typedef wf_status_t wf_upgrade_fn(wf_upgrade_t *self);

typedef struct wf_rule {
    const char *domain; /* "" is ai.onnx */
    const char *name;
    int64_t since, until; /* operator sets, inclusive */
    wf_op_t op;           /* WF_OP_COUNT: attributes are those of `attrs` alone */
    const char *attrs;    /* attributes beyond those of `op`, written as in ops.def */
    wf_upgrade_fn *fn;    /* NULL: refused */
    const char *refusal;
} wf_rule_t;

/* All rules; those of one name are neighbours. Static. */
const wf_rule_t *wf_rules(size_t *out_count);

/* One node on its way into the graph. */
struct wf_upgrade {
    wf_graph_t *graph;
    wf_arena_t *scratch; /* lives until the node is done */
    const wf_rule_t *rule;
    int64_t opset;
    wf_op_t op; /* rule->op */
    wf_value_id *inputs;
    size_t input_count; /* as in the file, absent ones WF_NO_VALUE */
    size_t output_count;
    const char *const *output_names; /* full names; NULL: the output is not used by anything */
    uint64_t listed_outputs;         /* bit i: the file names output i (it may be unused) */
    wf_value_id *results;            /* what each output is; WF_NO_VALUE until a rule sets it */
    wf_attr_t *attrs;
    size_t attr_count, attr_capacity;
    const char *label;      /* full name of the first output that is used */
    const char *onnx_names; /* for wf_node_spec_t */
};

/* Begins the definition of a rewrite, wf_upgrade_<name>. */
#define WF_UPGRADE(name)             \
    wf_upgrade_fn wf_upgrade_##name; \
    wf_status_t wf_upgrade_##name(wf_upgrade_t *self)

/* ---- Inputs and outputs ---- */
bool wf_up_has(const wf_upgrade_t *self, size_t input);
/* MODEL_INVALID when one of the first `count` inputs is absent. */
wf_status_t wf_up_need_inputs(const wf_upgrade_t *self, size_t count) WF_MUST_USE;
/* The type; MODEL_UNSUPPORTED when the input is absent or its shape is not known. */
wf_status_t wf_up_type(const wf_upgrade_t *self, size_t input, wf_type_t *out_type) WF_MUST_USE;
wf_status_t wf_up_type_of(const wf_upgrade_t *self, wf_value_id value, wf_type_t *out_type) WF_MUST_USE;
/* The value of output `index`, made on first use; WF_NO_VALUE when nothing uses it. */
wf_status_t wf_up_output(wf_upgrade_t *self, size_t index, wf_value_id *out_value) WF_MUST_USE;
/* Output `index` is an existing value. */
void wf_up_bind(wf_upgrade_t *self, size_t index, wf_value_id value);
/* MODEL_UNSUPPORTED when output `index` or a later one is used. */
wf_status_t wf_up_refuse_outputs(const wf_upgrade_t *self, size_t index, const char *why) WF_MUST_USE;

/* ---- Attributes of the file ---- */
const wf_attr_t *wf_up_attr(const wf_upgrade_t *self, const char *name);
int64_t wf_up_int(const wf_upgrade_t *self, const char *name, int64_t fallback);
float wf_up_float(const wf_upgrade_t *self, const char *name, float fallback);
const char *wf_up_string(const wf_upgrade_t *self, const char *name, const char *fallback);
void wf_up_drop(wf_upgrade_t *self, const char *name);
/* Replaces or adds; WF_ONNX_MAX_NODE_ATTRS is never reached by rules. */
void wf_up_set(wf_upgrade_t *self, wf_attr_t attr);

/* ---- Making nodes ---- */
typedef struct wf_up_spec {
    wf_op_t op;
    const wf_attr_t *attrs;
    size_t attr_count;
    const wf_value_id *inputs;
    size_t input_count;
} wf_up_spec_t;
/* A node with one output, an inner value. Folded on the spot when it is small and constant. */
wf_status_t wf_up_make(wf_upgrade_t *self, const wf_up_spec_t *spec, wf_value_id *out_value) WF_MUST_USE;
/* The same, but the output is the node's output 0. */
wf_status_t wf_up_finish(wf_upgrade_t *self, const wf_up_spec_t *spec) WF_MUST_USE;
/* Folds the node that was added last when it is constant and small. */
wf_status_t wf_up_fold_last(wf_graph_t *graph) WF_MUST_USE;
/* The node itself: self->op with self's attributes, inputs and outputs. */
wf_status_t wf_up_same(wf_upgrade_t *self) WF_MUST_USE;
/* Short forms of wf_up_make. */
wf_status_t wf_up_unary(wf_upgrade_t *self, wf_op_t op, wf_value_id x, wf_value_id *out_value) WF_MUST_USE;
wf_status_t wf_up_binary(wf_upgrade_t *self, wf_op_t op, wf_value_id a, wf_value_id b,
                         wf_value_id *out_value) WF_MUST_USE;
wf_status_t wf_up_reshape(wf_upgrade_t *self, wf_value_id x, const int64_t *dims, size_t rank,
                          wf_value_id *out_value) WF_MUST_USE;
wf_status_t wf_up_transpose(wf_upgrade_t *self, wf_value_id x, const int64_t *perm, size_t rank,
                            wf_value_id *out_value) WF_MUST_USE;
/* x itself when it has the type already. */
wf_status_t wf_up_cast(wf_upgrade_t *self, wf_value_id x, wf_dtype_t dtype,
                       wf_value_id *out_value) WF_MUST_USE;
wf_status_t wf_up_where(wf_upgrade_t *self, wf_value_id condition, wf_value_id yes, wf_value_id no,
                        wf_value_id *out_value) WF_MUST_USE;
/* TensorProto.DataType of an element type. */
int64_t wf_dtype_to_onnx(wf_dtype_t dtype);
/* A constant of rank 0. */
wf_status_t wf_up_scalar(wf_upgrade_t *self, wf_dtype_t dtype, double value,
                         wf_value_id *out_value) WF_MUST_USE;

#endif
