/* SPDX-License-Identifier: Apache-2.0 */
/* Tunes for some seconds and tells what happens: tune MODEL.onnx ENGINE.wfe SECONDS */
#include <stdio.h>
#include <stdlib.h>
#include <wayfinder/wayfinder.h>

static bool tell(void *self, const wf_tune_event_t *event)
{
    (void)self;
    if (event->text != NULL && event->text[0] != '\0')
        (void)printf("%6.1f s  %s\n", event->elapsed_s, event->text);
    return false; /* true would ask to stop: the best so far is written */
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        (void)fprintf(stderr, "usage: tune MODEL.onnx ENGINE.wfe SECONDS\n");
        return 2;
    }
    wf_model_t *model = NULL;
    wf_tune_result_t result = {0};
    wf_tune_options_t options = {.struct_bytes = sizeof options,
                                 .build = {.struct_bytes = sizeof options.build},
                                 .output_path = argv[2],
                                 .budget_s = strtod(argv[3], NULL),
                                 .event = tell};
    wf_status_t status = wf_model_open(argv[1], wf_allocator_system(), &model);
    if (status == WF_OK)
        status = wf_tune(model, &options, &result);
    wf_model_close(model);
    int code = wf_status_exit_code(status);
    if (status != WF_OK)
        (void)fprintf(stderr, "%s\n%s\n", wf_status_message(status), wf_status_hint(status));
    else
        (void)printf("%.3f of the default's time\n", result.adopted ? result.ratio : 1.0);
    wf_status_free(status);
    wf_tune_result_free(&result);
    return code;
}
