/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/pass.h"

#include <string.h>

#include "base/compiler.h"
#include "base/log.h"
#include "graph/internal.h"

#define PASS(name, what) wf_pass_fn wf_pass_##name;
#include "graph/passes.def"
#undef PASS

static const wf_pass_t pipeline[] = {
#define PASS(name, what) {#name, wf_pass_##name, what},
#include "graph/passes.def"
#undef PASS
};

const wf_pass_t *wf_passes(size_t *out_count)
{
    *out_count = WF_COUNT_OF(pipeline);
    return pipeline;
}

const wf_pass_t *wf_pass_find(const char *name)
{
    for (size_t i = 0; i < WF_COUNT_OF(pipeline); i++) {
        if (strcmp(pipeline[i].name, name) == 0) {
            return &pipeline[i];
        }
    }
    return NULL;
}

static wf_status_t verify_in_debug(const wf_graph_t *graph)
{
#ifdef NDEBUG
    (void)graph;
    return WF_OK;
#else
    return wf_graph_verify(graph);
#endif
}

static wf_status_t run_one(wf_graph_t *graph, const wf_pass_t *pass, const wf_pass_options_t *options)
{
    uint32_t changes = 0;
    WF_TRY(pass->run(graph, options->parallel, &changes));
    WF_TRY(verify_in_debug(graph));
    if (changes > 0) {
        wf_log_line(&options->log, WF_LOG_DEBUG, "pass %s: %u changes, %zu nodes", pass->name, changes,
                    graph->order.count);
    }
    if (options->dump_after != NULL && strcmp(options->dump_after, pass->name) == 0) {
        WF_TRY(wf_graph_print(graph, options->dump_text));
    }
    return WF_OK;
}

static wf_status_t check_types(const wf_graph_t *graph)
{
    for (size_t i = 0; i < graph->order.count; i++) {
        const wf_node_t *node = wf_graph_node(graph, graph->order.items[i]);
        for (uint32_t j = 0; j < node->output_count; j++) {
            if (node->outputs[j] != WF_NO_VALUE && !wf_graph_value(graph, node->outputs[j])->type_known) {
                return WF_ERROR(MODEL_UNSUPPORTED,
                                "node %s (%s): its shape depends on values known at run time only",
                                wf_node_label(graph, node), wf_op_info(node->op)->onnx_name);
            }
        }
    }
    return WF_OK;
}

wf_status_t wf_passes_run(wf_graph_t *graph, const wf_pass_options_t *options)
{
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const wf_value_t *input = wf_graph_value(graph, graph->inputs.items[i]);
        if (!input->type_known) {
            return WF_ERROR(SHAPE_NEEDED, "graph input %s has no concrete type", input->name);
        }
    }
    WF_TRY(verify_in_debug(graph));
    for (size_t i = 0; i < WF_COUNT_OF(pipeline); i++) {
        if (options->disabled != NULL && options->disabled[i]) {
            continue;
        }
        wf_status_t status = run_one(graph, &pipeline[i], options);
        WF_TRY(wf_status_annotated(status, "pass %s", pipeline[i].name));
        /* Later passes read types of every value: the first fold_constants has made known what can be. */
        if (strcmp(pipeline[i].name, "fold_constants") == 0) {
            WF_TRY(check_types(graph));
        }
    }
    return check_types(graph);
}
