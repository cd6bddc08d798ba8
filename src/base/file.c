/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"

/* O_NONBLOCK: opening a named pipe must be refused, not waited for. It changes nothing for regular files. */
#define WF_OPEN_READ (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* ---- Mapping ---- */

/* Maps what fd is open on and closes fd. */
static wf_status_t wf_mapping_from_fd(int fd, const char *path, wf_mapping_t *out_mapping)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        int error_number = errno;
        close(fd);
        return wf_status_from_errno(error_number, WF_CODE_FILE_UNREADABLE, "read", path);
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return wf_status_hinted(WF_ERROR(FILE_UNREADABLE, "cannot read %s: it is no regular file", path),
                                S_ISDIR(info.st_mode) ? "this is a folder: name a file"
                                                      : "copy it to a file first");
    }
    if ((uint64_t)info.st_size > PTRDIFF_MAX) {
        close(fd);
        return WF_ERROR(FILE_UNREADABLE, "cannot read %s: it is larger than the address space", path);
    }
    size_t bytes = (size_t)info.st_size;
    void *data = NULL;
    if (bytes > 0) {
        data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    int error_number = errno;
    close(fd);
    if (data == MAP_FAILED) {
        return wf_status_from_errno(error_number, WF_CODE_FILE_UNREADABLE, "map", path);
    }
    *out_mapping = (wf_mapping_t){data, bytes};
    return WF_OK;
}

wf_status_t wf_mapping_open(const char *path, wf_mapping_t *out_mapping)
{
    *out_mapping = (wf_mapping_t){NULL, 0};
    int fd = open(path, WF_OPEN_READ);
    if (fd < 0) {
        return wf_status_from_errno(errno, WF_CODE_FILE_UNREADABLE, "read", path);
    }
    return wf_mapping_from_fd(fd, path, out_mapping);
}

/* Length of the first component of a relative path. */
static size_t wf_path_component(const char *path)
{
    return strcspn(path, "/");
}

/* A relative path without "..": what may be looked up inside a folder. */
static bool wf_path_stays_inside(const char *name)
{
    if (name[0] == 0 || name[0] == '/') {
        return false;
    }
    for (const char *rest = name; *rest != 0;) {
        size_t length = wf_path_component(rest);
        if (length == 2 && rest[0] == '.' && rest[1] == '.') {
            return false;
        }
        rest += length;
        rest += *rest == '/';
    }
    return true;
}

/* Opens name below folder_fd without following a link; one component after the other, for kernels before 5.6
 * and sandboxes that know no openat2. Returns -1 with errno; ELOOP or ENOTDIR for a link. */
static int wf_open_by_component(int folder_fd, const char *name)
{
    int fd = folder_fd;
    const char *rest = name;
    for (;;) {
        char component[NAME_MAX + 1];
        size_t length = wf_path_component(rest);
        if (length > NAME_MAX) {
            if (fd != folder_fd) {
                close(fd);
            }
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(component, length > 0 ? rest : ".", WF_MAX(length, (size_t)1));
        component[WF_MAX(length, (size_t)1)] = 0;
        rest += length;
        bool last = *rest == 0;
        rest += !last;
        int flags = last ? WF_OPEN_READ : O_PATH | O_DIRECTORY | O_CLOEXEC;
        int next = openat(fd, component, flags | O_NOFOLLOW);
        int error_number = errno;
        struct stat info;
        /* O_DIRECTORY on a link says ENOTDIR, like on a file in the middle of a path: tell them apart. */
        if (next < 0 && error_number == ENOTDIR && fstatat(fd, component, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(info.st_mode)) {
            error_number = ELOOP;
        }
        if (fd != folder_fd) {
            close(fd);
        }
        errno = error_number;
        if (next < 0 || last) {
            return next;
        }
        fd = next;
    }
}

static int wf_open_inside(int folder_fd, const char *name)
{
    struct open_how how = {
        .flags = WF_OPEN_READ,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    long fd = syscall(SYS_openat2, folder_fd, name, &how, sizeof how);
    if (fd >= 0) {
        return (int)fd;
    }
    /* EPERM: container sandboxes answer it for calls that they do not know. */
    bool unknown_call = errno == ENOSYS || errno == EPERM || errno == E2BIG || errno == EINVAL;
    return unknown_call ? wf_open_by_component(folder_fd, name) : -1;
}

wf_status_t wf_mapping_open_inside(const char *folder, const char *name, wf_mapping_t *out_mapping)
{
    *out_mapping = (wf_mapping_t){NULL, 0};
    if (!wf_path_stays_inside(name)) {
        return wf_status_hinted(
            WF_ERROR(EXTERNAL_DATA, "the file name \"%s\" leaves the folder of the model", name),
            "external data must be a relative path below the folder of the model");
    }
    int folder_fd = open(folder[0] != 0 ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0) {
        return wf_status_from_errno(errno, WF_CODE_FILE_UNREADABLE, "open folder", folder);
    }
    int fd = wf_open_inside(folder_fd, name);
    int error_number = errno;
    close(folder_fd);
    if (fd >= 0) {
        return wf_mapping_from_fd(fd, name, out_mapping);
    }
    if (error_number == ELOOP || error_number == EXDEV) {
        return wf_status_hinted(
            WF_ERROR(EXTERNAL_DATA,
                     "the file name \"%s\" passes a symbolic link or leaves the folder of the model", name),
            "replace the link by the file itself");
    }
    return wf_status_annotated(wf_status_from_errno(error_number, WF_CODE_FILE_UNREADABLE, "read", name),
                               "in folder %s", folder[0] != 0 ? folder : ".");
}

void wf_mapping_close(wf_mapping_t *mapping)
{
    if (mapping->data != NULL) {
        munmap((void *)(uintptr_t)mapping->data, mapping->bytes);
    }
    *mapping = (wf_mapping_t){NULL, 0};
}

void wf_mapping_drop(const void *data, size_t bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)data + page_bytes - 1) & ~(uintptr_t)(page_bytes - 1);
    uintptr_t last = ((uintptr_t)data + bytes) & ~(uintptr_t)(page_bytes - 1);
    if (data != NULL && first < last) {
        madvise((void *)first, last - first, MADV_DONTNEED);
    }
}

/* ---- Atomic writing ---- */

#define WF_ATOMIC_BUFFER_BYTES ((size_t)64 * 1024)

struct wf_atomic_file {
    wf_allocator_t allocator;
    char *path;
    char *temporary_path;
    size_t path_capacity;
    size_t temporary_capacity;
    int fd;
    char *buffer;
    size_t buffered_bytes;
};

static void wf_atomic_file_free(wf_atomic_file_t *file)
{
    wf_free(file->allocator, file->path, file->path_capacity, 1);
    wf_free(file->allocator, file->temporary_path, file->temporary_capacity, 1);
    wf_free(file->allocator, file->buffer, WF_ATOMIC_BUFFER_BYTES, 1);
    wf_free(file->allocator, file, 1, sizeof *file);
}

/* Length of the folder part of a path, its last slash included; 0 when there is none. */
static size_t wf_path_folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

/* Opens a new file ".NAME.PID-N.tmp" beside the path. */
static int wf_atomic_open_temporary(wf_atomic_file_t *file, mode_t mode)
{
    size_t folder_bytes = wf_path_folder_bytes(file->path);
    for (unsigned attempt = 0;; attempt++) {
        snprintf(file->temporary_path, file->temporary_capacity, "%.*s.%.200s.%ld-%u.tmp", (int)folder_bytes,
                 file->path, file->path + folder_bytes, (long)getpid(), attempt);
        int fd = open(file->temporary_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd >= 0 || errno != EEXIST || attempt == 10000) {
            return fd;
        }
    }
}

wf_status_t wf_atomic_file_begin(const char *path, uint32_t mode, wf_allocator_t allocator,
                                 wf_atomic_file_t **out_file)
{
    *out_file = NULL;
    struct stat info;
    /* A rename would replace a device or a pipe by a file. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return wf_status_hinted(
            WF_ERROR(FILE_UNWRITABLE, "cannot write %s: it exists and is no regular file", path),
            "name a file");
    }
    wf_atomic_file_t *file;
    WF_TRY(wf_alloc(allocator, 1, sizeof *file, &file));
    *file = (wf_atomic_file_t){.allocator = allocator, .fd = -1};
    size_t path_bytes = strlen(path);
    file->path_capacity = path_bytes + 1;
    file->temporary_capacity = path_bytes + 64;
    wf_status_t status = wf_alloc(allocator, file->path_capacity, 1, &file->path);
    if (status == WF_OK) {
        status = wf_alloc(allocator, file->temporary_capacity, 1, &file->temporary_path);
    }
    if (status == WF_OK) {
        status = wf_alloc(allocator, WF_ATOMIC_BUFFER_BYTES, 1, &file->buffer);
    }
    if (status == WF_OK) {
        memcpy(file->path, path, path_bytes + 1);
        file->fd = wf_atomic_open_temporary(file, (mode_t)mode);
        if (file->fd < 0) {
            status = wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "write", path);
        }
    }
    if (status != WF_OK) {
        wf_atomic_file_free(file);
        return status;
    }
    *out_file = file;
    return WF_OK;
}

static wf_status_t wf_atomic_file_put(wf_atomic_file_t *file, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(file->fd, bytes, length);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return wf_status_from_errno(written < 0 ? errno : ENOSPC, WF_CODE_FILE_UNWRITABLE, "write",
                                        file->path);
        }
        bytes += written;
        length -= (size_t)written;
    }
    return WF_OK;
}

static wf_status_t wf_atomic_file_flush(wf_atomic_file_t *file)
{
    size_t length = file->buffered_bytes;
    file->buffered_bytes = 0;
    return wf_atomic_file_put(file, file->buffer, length);
}

wf_status_t wf_atomic_file_write(wf_atomic_file_t *file, const void *bytes, size_t length)
{
    if (length > WF_ATOMIC_BUFFER_BYTES - file->buffered_bytes) {
        WF_TRY(wf_atomic_file_flush(file));
    }
    if (length > WF_ATOMIC_BUFFER_BYTES) {
        return wf_atomic_file_put(file, bytes, length);
    }
    if (length > 0) {
        memcpy(file->buffer + file->buffered_bytes, bytes, length);
        file->buffered_bytes += length;
    }
    return WF_OK;
}

/* Syncs the folder, so that the rename survives a power cut. Best effort: some file systems refuse it. */
static void wf_sync_folder_of(wf_atomic_file_t *file)
{
    size_t folder_bytes = wf_path_folder_bytes(file->path);
    file->path[folder_bytes] = 0;
    int fd = open(folder_bytes > 0 ? file->path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

wf_status_t wf_atomic_file_commit(wf_atomic_file_t *file)
{
    wf_status_t status = wf_atomic_file_flush(file);
    if (status == WF_OK && fsync(file->fd) != 0) {
        status = wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "sync", file->path);
    }
    if (close(file->fd) != 0 && status == WF_OK && errno != EINTR) {
        status = wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "close", file->path);
    }
    if (status == WF_OK && rename(file->temporary_path, file->path) != 0) {
        status = wf_status_from_errno(errno, WF_CODE_FILE_UNWRITABLE, "rename onto", file->path);
    }
    if (status != WF_OK) {
        unlink(file->temporary_path);
    } else {
        wf_sync_folder_of(file);
    }
    wf_atomic_file_free(file);
    return status;
}

void wf_atomic_file_abort(wf_atomic_file_t *file)
{
    if (file != NULL) {
        close(file->fd);
        unlink(file->temporary_path);
        wf_atomic_file_free(file);
    }
}

wf_status_t wf_file_write(const char *path, uint32_t mode, const void *bytes, size_t length)
{
    wf_atomic_file_t *file;
    WF_TRY(wf_atomic_file_begin(path, mode, wf_allocator_system(), &file));
    wf_status_t status = wf_atomic_file_write(file, bytes, length);
    if (status != WF_OK) {
        wf_atomic_file_abort(file);
        return status;
    }
    return wf_atomic_file_commit(file);
}

/* ---- Reading ---- */

/* Fills data[0, capacity) from fd; *out_bytes less than capacity means the end. */
static int wf_read_up_to(int fd, char *data, size_t capacity, size_t *out_bytes)
{
    size_t filled = 0;
    while (filled < capacity) {
        ssize_t got = read(fd, data + filled, capacity - filled);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return errno;
        }
        if (got == 0) {
            break;
        }
        filled += (size_t)got;
    }
    *out_bytes = filled;
    return 0;
}

/* Reads fd to its end. A size is only a first guess: pipes and files of /proc have none. */
static wf_status_t wf_read_all(int fd, const char *path, size_t guess_bytes, size_t limit_bytes,
                               wf_allocator_t allocator, char **out, size_t *out_bytes)
{
    size_t capacity = WF_MIN(guess_bytes, limit_bytes) + 1;
    size_t length = 0;
    char *data;
    WF_TRY(wf_alloc(allocator, capacity, 1, &data));
    wf_status_t status = WF_OK;
    for (;;) {
        size_t got = 0;
        int error_number = wf_read_up_to(fd, data + length, capacity - length, &got);
        length += got;
        if (error_number != 0) {
            status = wf_status_from_errno(error_number, WF_CODE_FILE_UNREADABLE, "read", path);
            break;
        }
        if (length > limit_bytes) {
            status =
                WF_ERROR(FILE_UNREADABLE, "cannot read %s: it has more than %zu bytes", path, limit_bytes);
            break;
        }
        if (length < capacity) {
            break;
        }
        size_t larger = WF_MIN(2 * capacity, limit_bytes + 1);
        char *grown = allocator.resize(allocator.self, data, capacity, larger, 16);
        if (grown == NULL) {
            status = wf_status_out_of_memory();
            break;
        }
        data = grown;
        capacity = larger;
    }
    if (status == WF_OK && capacity != length + 1) {
        char *exact = allocator.resize(allocator.self, data, capacity, length + 1, 16);
        if (exact == NULL) {
            status = wf_status_out_of_memory();
        } else {
            data = exact;
            capacity = length + 1;
        }
    }
    if (status != WF_OK) {
        wf_free(allocator, data, capacity, 1);
        return status;
    }
    data[length] = 0;
    *out = data;
    *out_bytes = length;
    return WF_OK;
}

wf_status_t wf_file_read(const char *path, size_t limit_bytes, wf_allocator_t allocator, char **out,
                         size_t *out_bytes)
{
    *out = NULL;
    *out_bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return wf_status_from_errno(errno, WF_CODE_FILE_UNREADABLE, "read", path);
    }
    struct stat info;
    size_t guess_bytes = 4096;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
        guess_bytes = (size_t)info.st_size;
    }
    limit_bytes = WF_MIN(limit_bytes, (size_t)PTRDIFF_MAX / 2); /* sums and doublings below cannot wrap */
    wf_status_t status = wf_read_all(fd, path, guess_bytes, limit_bytes, allocator, out, out_bytes);
    close(fd);
    return status;
}

wf_status_t wf_folder_make(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part) {
        return wf_status_from_errno(ENAMETOOLONG, WF_CODE_FILE_UNWRITABLE, "make folder", path);
    }
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0) {
            continue;
        }
        memcpy(part, path, i);
        part[i] = 0;
        struct stat info;
        if (mkdir(part, 0700) != 0 && errno != EEXIST) {
            int error_number = errno;
            /* A parent on a read-only or foreign file system that is there already is fine. */
            if (stat(part, &info) != 0 || !S_ISDIR(info.st_mode)) {
                return wf_status_from_errno(error_number, WF_CODE_FILE_UNWRITABLE, "make folder", part);
            }
        } else if (stat(part, &info) != 0 || !S_ISDIR(info.st_mode)) {
            return WF_ERROR(FILE_UNWRITABLE, "cannot make folder %s: %s is no folder", path, part);
        }
    }
    return length > 0 ? WF_OK : WF_ERROR(FILE_UNWRITABLE, "cannot make a folder without a name");
}

bool wf_file_may_replace(const char *path, const char *magic, size_t magic_bytes)
{
    char head[64];
    assert(magic_bytes <= sizeof head);
    int fd = open(path, WF_OPEN_READ);
    if (fd < 0)
        return access(path, F_OK) != 0;
    ssize_t got = read(fd, head, magic_bytes);
    (void)close(fd);
    return got == 0 || (got == (ssize_t)magic_bytes && memcmp(head, magic, magic_bytes) == 0);
}
