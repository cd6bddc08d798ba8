/* SPDX-License-Identifier: Apache-2.0 */
/* A program of a user who only runs engines. */
#include <string.h>

#include "wayfinder/allocator.h"
#include "wayfinder/status.h"
#include "wayfinder/tensor.h"
#include "wayfinder/version.h"

int main(void)
{
    wf_allocator_t allocator = wf_allocator_system();
    void *block = allocator.resize(allocator.self, NULL, 0, 64, 64);
    wf_type_t type = {WF_DTYPE_F32, 2, {4, 4}};
    int ok = block != NULL && wf_type_bytes(&type) == 64 && strcmp(wf_version(), WF_VERSION_TEXT) == 0;
    allocator.resize(allocator.self, block, 64, 0, 64);
    return ok ? 0 : 1;
}
