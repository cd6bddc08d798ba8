/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"

static void dim_text(const wf_model_port_t *port, char *out, size_t bytes)
{
    size_t at = 0;
    (void)snprintf(out, bytes, port->rank_known ? "scalar" : "any shape");
    for (uint32_t d = 0; d < port->rank && at < bytes; d++) {
        int n = port->dims[d].size >= 0 ? snprintf(out + at, bytes - at, "%s%lld", d > 0 ? "x" : "",
                                                   (long long)port->dims[d].size)
                                        : snprintf(out + at, bytes - at, "%s%s", d > 0 ? "x" : "",
                                                   port->dims[d].symbol != NULL ? port->dims[d].symbol : "?");
        at += n > 0 ? (size_t)n : 0;
    }
}

static bool is_free(const wf_model_port_t *port)
{
    bool free_dim = !port->rank_known;
    for (uint32_t d = 0; d < port->rank; d++)
        free_dim |= port->dims[d].size < 0;
    return free_dim;
}

static json_t *port_json(const wf_model_port_t *port)
{
    json_t *dims = json_array();
    for (uint32_t d = 0; d < port->rank; d++) {
        json_t *dim = port->dims[d].size >= 0        ? json_integer(port->dims[d].size)
                      : port->dims[d].symbol != NULL ? json_string(port->dims[d].symbol)
                                                     : json_null();
        (void)json_array_append_new(dims, dim);
    }
    return json_pack("{s:s s:s s:o s:b}", "name", port->name, "dtype", wf_dtype_name(port->dtype), "dims",
                     dims, "rank_known", port->rank_known);
}

static int inspect_json(const wf_model_t *model, const wf_model_summary_t *s)
{
    json_t *inputs = json_array(), *outputs = json_array(), *ops = json_object(), *problems = json_array();
    for (size_t i = 0; i < s->input_count; i++) {
        wf_model_port_t port = wf_model_input(model, i);
        (void)json_array_append_new(inputs, port_json(&port));
    }
    for (size_t i = 0; i < s->output_count; i++) {
        wf_model_port_t port = wf_model_output(model, i);
        (void)json_array_append_new(outputs, port_json(&port));
    }
    for (size_t i = 0; i < s->op_kind_count; i++) {
        size_t count;
        const char *name = wf_model_op(model, i, &count);
        (void)json_object_set_new(ops, name, json_integer((json_int_t)count));
    }
    for (size_t i = 0; i < s->problem_count; i++) {
        wf_model_problem_t p = wf_model_problem(model, i);
        char code[16];
        (void)snprintf(code, sizeof code, "WF-%04d", (int)p.code);
        (void)json_array_append_new(problems, json_pack("{s:s s:s s:s s:I s:s s:s}", "code", code, "node",
                                                        p.node, "op", p.op, "opset", (json_int_t)p.opset,
                                                        "reason", p.reason, "hint", p.hint));
    }
    return cli_print_json(
        json_pack("{s:s s:s s:s s:I s:I s:I s:I s:o s:o s:o s:o s:b}", "kind", "model", "producer",
                  s->producer, "opsets", s->opsets, "ir_version", (json_int_t)s->ir_version, "nodes",
                  (json_int_t)s->node_count, "initializers", (json_int_t)s->initializer_count,
                  "initializer_bytes", (json_int_t)s->initializer_bytes, "inputs", inputs, "outputs", outputs,
                  "operators", ops, "problems", problems, "can_be_compiled", s->problem_count == 0),
        0);
}

static void print_ports(const wf_model_t *model, const char *title, size_t count,
                        wf_model_port_t (*get)(const wf_model_t *, size_t))
{
    for (size_t i = 0; i < count; i++) {
        wf_model_port_t port = get(model, i);
        char dims[600];
        dim_text(&port, dims, sizeof dims);
        (void)printf("%-10s %s  %s %s\n", i == 0 ? title : "", port.name, wf_dtype_name(port.dtype), dims);
    }
}

static void print_model(const wf_model_t *model, const wf_model_summary_t *s)
{
    char bytes[40];
    (void)printf("producer   %s\nopsets     %s (IR %lld)\nnodes      %zu\nweights    %s in %zu tensors\n",
                 s->producer, s->opsets, (long long)s->ir_version, s->node_count,
                 cli_bytes_text((double)s->initializer_bytes, bytes, sizeof bytes), s->initializer_count);
    print_ports(model, "inputs", s->input_count, wf_model_input);
    print_ports(model, "outputs", s->output_count, wf_model_output);
    (void)printf("operators ");
    for (size_t i = 0; i < s->op_kind_count; i++) {
        size_t count;
        const char *name = wf_model_op(model, i, &count);
        (void)printf(" %s %zu%s", name, count, i + 1 < s->op_kind_count ? "," : "\n");
    }
    bool any_free = false;
    for (size_t i = 0; i < s->input_count; i++) {
        wf_model_port_t port = wf_model_input(model, i);
        if (!is_free(&port))
            continue;
        if (!any_free)
            (void)printf("\nfree dims: add\n");
        any_free = true;
        (void)printf("  --shape %s=", port.name);
        for (uint32_t d = 0; d < port.rank; d++) {
            long long size = port.dims[d].size >= 0 ? (long long)port.dims[d].size : 1;
            (void)printf("%s%lld", d > 0 ? "x" : "", size);
        }
        (void)printf("%s\n", port.rank == 0 ? "..." : "   (1 stands for every free dim)");
    }
    if (s->problem_count == 0) {
        (void)printf("\ncan be compiled\n");
        return;
    }
    (void)printf("\ncannot be compiled: %zu problem%s\n", s->problem_count, s->problem_count == 1 ? "" : "s");
    for (size_t i = 0; i < s->problem_count; i++) {
        wf_model_problem_t p = wf_model_problem(model, i);
        (void)printf("  node %s (%s, opset %lld): %s\n", p.node, p.op, (long long)p.opset, p.reason);
        if (p.hint[0] != '\0')
            (void)printf("    hint: %s\n", p.hint);
    }
}

static json_t *engine_ports(const wf_engine_t *engine, size_t spec, bool inputs)
{
    json_t *list = json_array();
    size_t count = inputs ? wf_engine_input_count(engine) : wf_engine_output_count(engine);
    for (size_t i = 0; i < count; i++) {
        wf_port_info_t port = inputs ? wf_engine_input(engine, spec, i) : wf_engine_output(engine, spec, i);
        json_t *dims = json_array();
        for (uint32_t d = 0; d < port.type.rank; d++)
            (void)json_array_append_new(dims, json_integer(port.type.dims[d]));
        (void)json_array_append_new(list, json_pack("{s:s s:s s:o}", "name", port.name, "dtype",
                                                    wf_dtype_name(port.type.dtype), "dims", dims));
    }
    return list;
}

static int inspect_engine(const cli_options_t *options, const char *path)
{
    cli_engine_t opened;
    int code = cli_engine_open(options, path, NULL, &opened);
    if (code != 0)
        return code;
    wf_engine_facts_t facts = wf_engine_facts(opened.engine);
    if (options->json) {
        json_t *specs = json_array();
        for (size_t s = 0; s < wf_engine_spec_count(opened.engine); s++) {
            (void)json_array_append_new(specs, json_pack("{s:o s:o s:I}", "inputs",
                                                         engine_ports(opened.engine, s, true), "outputs",
                                                         engine_ports(opened.engine, s, false), "steps",
                                                         (json_int_t)wf_engine_step_count(opened.engine, s)));
        }
        code = cli_print_json(json_pack("{s:s s:s s:i s:I s:I s:I s:s s:I s:s s:o}", "kind", "engine",
                                        "content_hash", facts.content_hash, "threads",
                                        (int)facts.thread_count, "arena_bytes", (json_int_t)facts.arena_bytes,
                                        "constant_bytes", (json_int_t)facts.constant_bytes, "packed_bytes",
                                        (json_int_t)facts.packed_bytes, "fit", facts.fit, "file_bytes",
                                        (json_int_t)facts.file_bytes, "fingerprint", facts.fingerprint,
                                        "specialisations", specs),
                              0);
    } else {
        char a[40], c[40], f[40];
        (void)printf(
            "engine     %s, %u threads\nmachine    %s (fit %s)\nfile       %s, constants %s, arena %s\n",
            facts.content_hash, facts.thread_count, facts.fingerprint, facts.fit,
            cli_bytes_text((double)facts.file_bytes, f, sizeof f),
            cli_bytes_text((double)facts.constant_bytes, c, sizeof c),
            cli_bytes_text((double)facts.arena_bytes, a, sizeof a));
        for (size_t s = 0; s < wf_engine_spec_count(opened.engine); s++) {
            (void)printf("shapes %zu   %zu steps\n", s, wf_engine_step_count(opened.engine, s));
            for (int side = 0; side < 2; side++) {
                size_t count =
                    side == 0 ? wf_engine_input_count(opened.engine) : wf_engine_output_count(opened.engine);
                for (size_t i = 0; i < count; i++) {
                    wf_port_info_t port = side == 0 ? wf_engine_input(opened.engine, s, i)
                                                    : wf_engine_output(opened.engine, s, i);
                    char dims[300];
                    (void)printf("  %-8s %s  %s %s\n", side == 0 ? "input" : "output", port.name,
                                 wf_dtype_name(port.type.dtype),
                                 cli_shape_text(&port.type, dims, sizeof dims));
                }
            }
        }
    }
    cli_engine_close(&opened);
    return code;
}

int cli_verb_inspect(const cli_options_t *options)
{
    if (options->argument_count != 1)
        return cli_fail_with(options, WF_CODE_USAGE, "wayfinder inspect MODEL",
                             "inspect takes one model or engine");
    if (cli_is_engine(options->arguments[0]))
        return inspect_engine(options, options->arguments[0]);
    wf_model_t *model = NULL;
    wf_status_t status = wf_model_open(options->arguments[0], wf_allocator_system(), &model);
    if (wf_status_code(status) != WF_CODE_OK)
        return cli_fail(options, status);
    wf_model_summary_t summary = wf_model_summary(model);
    int code = 0;
    if (options->json)
        code = inspect_json(model, &summary);
    else
        print_model(model, &summary);
    wf_model_close(model);
    return code;
}
