/* SPDX-License-Identifier: Apache-2.0 */
#include "api/run_once.h"

#include <string.h>

#include "base/mem.h"

wf_status_t wf_api_run_once(const wf_engine_t *engine, size_t spec, const wf_tensor_t *inputs,
                            wf_allocator_t allocator, wf_tensor_t *out_outputs)
{
    size_t input_count = wf_engine_input_count(engine), output_count = wf_engine_output_count(engine),
           made = 0;
    const void **input_data = NULL;
    void **output_data = NULL;
    wf_context_t *context = NULL;
    WF_TRY(wf_alloc(allocator, input_count, sizeof *input_data, &input_data));
    wf_status_t status = wf_alloc(allocator, output_count, sizeof *output_data, &output_data);
    for (size_t i = 0; i < input_count; i++)
        input_data[i] = inputs[i].data;
    for (; status == WF_OK && made < output_count; made++) {
        wf_port_info_t port = wf_engine_output(engine, spec, made);
        status = wf_tensor_make(&port.type, allocator, &out_outputs[made]);
        if (status != WF_OK)
            break;
        memset(out_outputs[made].data, 0xff, (size_t)wf_type_bytes(&port.type));
        output_data[made] = out_outputs[made].data;
    }
    if (status == WF_OK)
        status = wf_context_create(engine, spec, &context);
    if (status == WF_OK)
        status = wf_context_run(context, input_data, output_data);
    wf_context_destroy(context);
    for (size_t i = 0; status != WF_OK && i < made; i++)
        wf_tensor_free(&out_outputs[i], allocator);
    wf_free(allocator, output_data, output_count, sizeof *output_data);
    wf_free(allocator, (void *)input_data, input_count, sizeof *input_data);
    return status;
}
