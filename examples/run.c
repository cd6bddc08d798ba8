/* SPDX-License-Identifier: Apache-2.0 */
/* Loads an engine and runs it on made-up inputs: run ENGINE.wfe. Needs only libwayfinder_rt. */
#include <stdio.h>
#include <wayfinder/context.h>
#include <wayfinder/engine.h>

enum { PORTS_MAX = 16 };

static wf_status_t run(const wf_engine_t *engine)
{
    size_t input_count = wf_engine_input_count(engine), output_count = wf_engine_output_count(engine);
    wf_tensor_t inputs[PORTS_MAX] = {0}, outputs[PORTS_MAX] = {0};
    const void *input_data[PORTS_MAX];
    void *output_data[PORTS_MAX];
    wf_context_t *context = NULL;
    wf_status_t status = wf_context_create(engine, 0, &context);
    for (size_t i = 0; status == WF_OK && i < input_count && i < PORTS_MAX; i++) {
        wf_port_info_t port = wf_engine_input(engine, 0, i);
        status = wf_tensor_make(&port.type, wf_allocator_system(), &inputs[i]); /* zeros */
        input_data[i] = inputs[i].data;
    }
    for (size_t i = 0; status == WF_OK && i < output_count && i < PORTS_MAX; i++) {
        wf_port_info_t port = wf_engine_output(engine, 0, i);
        status = wf_tensor_make(&port.type, wf_allocator_system(), &outputs[i]);
        output_data[i] = outputs[i].data;
    }
    if (status == WF_OK)
        status = wf_context_run(context, input_data, output_data);
    for (size_t i = 0; status == WF_OK && i < output_count && i < PORTS_MAX; i++) {
        wf_port_info_t port = wf_engine_output(engine, 0, i);
        (void)printf("%s", port.name);
        for (int64_t k = 0; port.type.dtype == WF_DTYPE_F32 && k < wf_type_elems(&port.type) && k < 10; k++) {
            (void)printf(" %g", (double)((const float *)outputs[i].data)[k]);
        }
        (void)printf("\n");
    }
    for (size_t i = 0; i < PORTS_MAX; i++) {
        wf_tensor_free(&inputs[i], wf_allocator_system());
        wf_tensor_free(&outputs[i], wf_allocator_system());
    }
    wf_context_destroy(context);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: run ENGINE.wfe\n");
        return 2;
    }
    wf_engine_t *engine = NULL;
    wf_status_t status = wf_engine_open(argv[1], NULL, &engine);
    if (status == WF_OK)
        status = run(engine);
    wf_engine_close(engine);
    int code = wf_status_exit_code(status);
    if (status != WF_OK)
        (void)fprintf(stderr, "%s\n%s\n", wf_status_message(status), wf_status_hint(status));
    wf_status_free(status);
    return code;
}
