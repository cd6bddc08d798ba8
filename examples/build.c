/* SPDX-License-Identifier: Apache-2.0 */
/* Builds an engine on the default route: build MODEL.onnx ENGINE.wfe */
#include <stdio.h>
#include <wayfinder/wayfinder.h>

static int fail(wf_status_t status)
{
    int code = wf_status_exit_code(status);
    (void)fprintf(stderr, "%s\n%s\n", wf_status_message(status), wf_status_hint(status));
    wf_status_free(status);
    return code;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: build MODEL.onnx ENGINE.wfe\n");
        return 2;
    }
    wf_model_t *model = NULL;
    wf_status_t status = wf_model_open(argv[1], wf_allocator_system(), &model);
    if (status != WF_OK)
        return fail(status);

    wf_build_result_t result;
    status = wf_build(model, NULL, &result);
    wf_model_close(model);
    if (status != WF_OK)
        return fail(status);

    status = wf_engine_save(result.engine, result.engine_bytes, argv[2], false);
    if (status == WF_OK)
        (void)printf("%s\n", result.report_json);
    wf_build_result_free(&result);
    return status == WF_OK ? 0 : fail(status);
}
