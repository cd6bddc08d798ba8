/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/machine.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "device/device.h"
#include "device/fit.h"

static bool fits(const wf_engine_header_t *header, const char *here)
{
    if (header->fit >= WF_FIT_COUNT)
        return true; /* the image refuses it */
    wf_hash_t hash = wf_fit_hash((wf_fit_t)header->fit, here, strlen(here));
    return hash.low == header->machine_hash[0] && hash.high == header->machine_hash[1];
}

static wf_status_t mismatch(const wf_engine_header_t *header, const char *there, size_t there_bytes,
                            const char *here)
{
    return wf_status_hinted(WF_ERROR(MACHINE_MISMATCH, "engine is made for %s: %.*s; this machine is %s",
                                     header->fit == WF_FIT_EXACT ? "exactly one machine" : "one CPU model",
                                     (int)there_bytes, there, here),
                            "tune the model on this machine, or rebuild it here from its archive ('wayfinder "
                            "build MODEL --archive "
                            "FILE'); --any-machine uses it as it is where its tactics exist");
}

wf_status_t wf_machine_check(const wf_image_t *image, const char *here, bool ignore)
{
    wf_engine_header_t header;
    memcpy(&header, image->bytes, sizeof header);
    if (header.fit >= WF_FIT_COUNT)
        return WF_ERROR(ENGINE_INVALID, "engine file is damaged: fit %u", header.fit);
    if (ignore || fits(&header, here))
        return WF_OK;
    return mismatch(&header, image->fingerprint, image->fingerprint_bytes, here);
}

const char *wf_machine_fit_name(const wf_image_t *image)
{
    wf_engine_header_t header;
    memcpy(&header, image->bytes, sizeof header);
    return header.fit < WF_FIT_COUNT ? wf_fit_name((wf_fit_t)header.fit) : "unknown";
}

/* True when the file has a header that this version reads. */
static bool read_header(const char *path, wf_engine_header_t *out_header)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t got = pread(fd, out_header, sizeof *out_header, 0);
    (void)close(fd);
    return got == (ssize_t)sizeof *out_header &&
           memcmp(out_header->magic, WF_ENGINE_MAGIC, sizeof out_header->magic) == 0 &&
           out_header->major == WF_ENGINE_MAJOR && out_header->fit < WF_FIT_COUNT;
}

/* Both sides are named; the engine's fingerprint is read from the file, which is checked as any other. */
static wf_status_t mismatch_of_file(const char *path, const wf_engine_header_t *header, const char *here)
{
    wf_mapping_t mapping;
    wf_image_t image;
    WF_TRY(wf_mapping_open(path, &mapping));
    wf_status_t status = wf_image_open(mapping.data, mapping.bytes, true, &image);
    if (status == WF_OK)
        status = mismatch(header, image.fingerprint, image.fingerprint_bytes, here);
    wf_mapping_close(&mapping);
    return wf_status_annotated(status, "%s", path);
}

wf_status_t wf_machine_check_file(const char *path, const wf_engine_options_t *options)
{
    wf_engine_header_t header;
    wf_device_t device;
    wf_text_t here;
    if (options->ignore_fingerprint || !read_header(path, &header) || header.fit == WF_FIT_PORTABLE)
        return WF_OK;
    WF_TRY(wf_device_detect(options->isa, &device));
    wf_text_init(&here, options->allocator, 4096);
    wf_device_fingerprint(&device, &here);
    wf_status_t status = wf_text_take_status(&here);
    if (status == WF_OK && !fits(&header, wf_text_cstr(&here)))
        status = mismatch_of_file(path, &header, wf_text_cstr(&here));
    wf_text_deinit(&here);
    return status;
}
