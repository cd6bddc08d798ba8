/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader and importer on any bytes. */
#include "support/onnx_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    (void)onnx_target_run(data, bytes);
    return 0;
}
