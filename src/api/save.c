/* SPDX-License-Identifier: Apache-2.0 */
/* wf_engine_save: never over something that is not an engine, never half. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/format.h"
#include "wayfinder/builder.h"

/* True when there is nothing at `path`, or an engine. */
static bool may_replace(const char *path)
{
    char magic[sizeof WF_ENGINE_MAGIC - 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return access(path, F_OK) != 0;
    ssize_t got = read(fd, magic, sizeof magic);
    (void)close(fd);
    return got == 0 || (got == (ssize_t)sizeof magic && memcmp(magic, WF_ENGINE_MAGIC, sizeof magic) == 0);
}

wf_status_t wf_engine_save(const void *engine, size_t engine_bytes, const char *path, bool force)
{
    if (!force && !may_replace(path)) {
        return wf_status_hinted(WF_ERROR(FILE_EXISTS, "%s exists and is not an engine", path),
                                "give another name with -o, or --force to replace it");
    }
    return wf_file_write(path, 0644, engine, engine_bytes);
}
