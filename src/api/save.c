/* SPDX-License-Identifier: Apache-2.0 */
/* wf_engine_save: never over something that is not an engine, never half. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/format.h"
#include "wayfinder/builder.h"

wf_status_t wf_engine_save(const void *engine, size_t engine_bytes, const char *path, bool force)
{
    if (!force && !wf_file_may_replace(path, WF_ENGINE_MAGIC, sizeof WF_ENGINE_MAGIC - 1)) {
        return wf_status_hinted(WF_ERROR(FILE_EXISTS, "%s exists and is not an engine", path),
                                "give another name with -o, or --force to replace it");
    }
    return wf_file_write(path, 0644, engine, engine_bytes);
}
