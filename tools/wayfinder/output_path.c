/* SPDX-License-Identifier: Apache-2.0 */
#include "output_path.h"

#include <string.h>

int cli_output_path(const cli_options_t *options, char *out_path, size_t path_bytes)
{
    const char *model = options->arguments[0], *slash = strrchr(model, '/'),
               *base = slash != NULL ? slash + 1 : model;
    const char *dot = strrchr(base, '.');
    int stem = dot != NULL && dot != base ? (int)(dot - base) : (int)strlen(base), length;
    if (options->output != NULL)
        length = snprintf(out_path, path_bytes, "%s", options->output);
    else
        length = snprintf(out_path, path_bytes, "%.*s.wfe", stem, base);
    if (length < 0 || (size_t)length >= path_bytes)
        return cli_fail_with(options, WF_CODE_USAGE, "give a shorter path with -o",
                             "the output path is too long");
    if (strcmp(out_path, model) == 0)
        return cli_fail_with(options, WF_CODE_USAGE, "give another name with -o", "%s is the model itself",
                             model);
    return 0;
}
