/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in files: NumPy's .npy (format 1 to 3), stored members of .npz, raw bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#define NPY_MAGIC "\x93NUMPY"
#define HEADER_MAX_BYTES 65536u
#define FILE_MAX_BYTES ((size_t)1 << 40)

/* ---- whole files ---- */

static bool fail_errno(cli_error_t *error, const char *what, const char *path, wf_code_t otherwise)
{
    int number = errno;
    wf_code_t code = number == ENOENT                                          ? WF_CODE_FILE_MISSING
                     : number == ENOSPC || number == EDQUOT || number == EFBIG ? WF_CODE_DISK_FULL
                     : number == ENOMEM                                        ? WF_CODE_OUT_OF_MEMORY
                                                                               : otherwise;
    return cli_error_set(error, code, number == ENOENT ? "check the path" : NULL, "%s %s: %s", what, path,
                         strerror(number));
}

bool cli_read_file(const char *path, size_t limit_bytes, char **out_data, size_t *out_bytes,
                   cli_error_t *error)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        fail_errno(error, "cannot read", path, WF_CODE_FILE_UNREADABLE);
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    char *data = NULL;
    size_t bytes = info.st_size > 0 ? (size_t)info.st_size : 0, got = 0;
    bool ok = S_ISREG(info.st_mode) && bytes <= limit_bytes;
    if (!ok)
        cli_error_set(error, WF_CODE_FILE_UNREADABLE, "give a file",
                      "%s is not a regular file of at most %zu bytes", path, limit_bytes);
    if (ok && (data = malloc(bytes + 1)) == NULL)
        ok = cli_error_set(error, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory reading %s", path);
    while (ok && got < bytes) {
        ssize_t n = read(fd, data + got, bytes - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            ok = fail_errno(error, "cannot read", path, WF_CODE_FILE_UNREADABLE);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    (void)close(fd);
    if (!ok) {
        free(data);
        return false;
    }
    data[got] = '\0';
    *out_data = data;
    *out_bytes = got;
    return true;
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

bool cli_write_file(const char *path, const void *head, size_t head_bytes, const void *body,
                    size_t body_bytes, cli_error_t *error)
{
    char temporary[4200];
    if (snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid()) >= (int)sizeof temporary) {
        return cli_error_set(error, WF_CODE_USAGE, "give a shorter path", "path too long");
    }
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return fail_errno(error, "cannot write", path, WF_CODE_FILE_UNWRITABLE);
    bool ok = write_all(fd, head, head_bytes) && write_all(fd, body, body_bytes) && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    if (ok && rename(temporary, path) == 0)
        return true;
    fail_errno(error, "cannot write", path, WF_CODE_FILE_UNWRITABLE);
    (void)unlink(temporary);
    return false;
}

/* ---- .npy ---- */

/* The value of a key in the header's dictionary, which NumPy writes with single quotes. */
static const char *header_value(const char *header, const char *key)
{
    char quoted[40];
    (void)snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    if (at == NULL)
        return NULL;
    at += strlen(quoted);
    return at + strspn(at, " ");
}

static bool parse_shape(const char *text, wf_type_t *type)
{
    if (text == NULL || *text != '(')
        return false;
    type->rank = 0;
    for (text++; *text != ')';) {
        char *end;
        errno = 0;
        long long dim = strtoll(text, &end, 10);
        if (end == text || errno != 0 || dim < 0 || type->rank == WF_MAX_RANK)
            return false;
        type->dims[type->rank++] = dim;
        text = end + strspn(end, "L, ");
    }
    return true;
}

static bool parse_dtype(const char *text, wf_type_t *type)
{
    if (text == NULL || *text != '\'')
        return false;
    size_t length = strcspn(text + 1, "'");
    for (int t = 1; t < WF_DTYPE_COUNT; t++) {
        const char *name = wf_dtype_numpy((wf_dtype_t)t);
        if (name[0] == '\0' || strlen(name) != length)
            continue;
        bool same_order = memcmp(name + 1, text + 2, length - 1) == 0 &&
                          (text[1] == name[0] || text[1] == '=' || text[1] == '|');
        if (!same_order)
            continue;
        type->dtype = (wf_dtype_t)t;
        return true;
    }
    return false;
}

/* Type and start of the data of .npy bytes. */
static bool parse_npy(const char *data, size_t bytes, wf_type_t *out_type, size_t *out_start,
                      const char **out_why)
{
    if (bytes < 10 || memcmp(data, NPY_MAGIC, 6) != 0) {
        *out_why = "not a .npy file";
        return false;
    }
    const unsigned char *u = (const unsigned char *)data;
    size_t length_bytes = u[6] == 1 ? 2 : 4, header_bytes = 0;
    if (bytes < 8 + length_bytes) {
        *out_why = "the header is cut off";
        return false;
    }
    for (size_t i = 0; i < length_bytes; i++)
        header_bytes |= (size_t)u[8 + i] << (8 * i);
    *out_start = 8 + length_bytes + header_bytes;
    char header[4096];
    if (header_bytes > HEADER_MAX_BYTES || *out_start > bytes || header_bytes >= sizeof header) {
        *out_why = "the header is cut off or too long";
        return false;
    }
    memcpy(header, data + 8 + length_bytes, header_bytes);
    header[header_bytes] = '\0';
    const char *order = header_value(header, "fortran_order");
    if (!parse_shape(header_value(header, "shape"), out_type) ||
        !parse_dtype(header_value(header, "descr"), out_type)) {
        *out_why = "its shape or element type is not supported";
        return false;
    }
    if (order != NULL && strncmp(order, "True", 4) == 0 && out_type->rank > 1) {
        *out_why = "it is in Fortran order; save numpy.ascontiguousarray of it";
        return false;
    }
    return true;
}

/* ---- .npz: a zip of .npy files ---- */

static size_t little(const char *data, size_t bytes)
{
    size_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (size_t)(unsigned char)data[i] << (8 * i);
    return value;
}

/* Finds a member in the central directory. Stored members only: numpy.savez writes those. */
static bool find_member(const char *data, size_t bytes, const char *member, const char **out_data,
                        size_t *out_bytes, const char **out_why)
{
    *out_why = "not a readable .npz file";
    if (bytes < 22)
        return false;
    size_t end = bytes - 22;
    while (end > 0 && memcmp(data + end, "PK\5\6", 4) != 0)
        end--;
    if (memcmp(data + end, "PK\5\6", 4) != 0)
        return false;
    size_t count = little(data + end + 10, 2), at = little(data + end + 16, 4);
    for (size_t i = 0; i < count && at + 46 <= bytes; i++) {
        const char *entry = data + at;
        size_t name_bytes = little(entry + 28, 2), local = little(entry + 42, 4),
               size = little(entry + 24, 4);
        if (memcmp(entry, "PK\1\2", 4) != 0 || at + 46 + name_bytes > bytes)
            return false;
        bool is_it = count == 1 ||
                     (name_bytes == strlen(member) + 4 && memcmp(entry + 46, member, strlen(member)) == 0);
        at += 46 + name_bytes + little(entry + 30, 2) + little(entry + 32, 2);
        if (!is_it)
            continue;
        if (little(entry + 10, 2) != 0) {
            *out_why = "its members are compressed; write it with numpy.savez";
            return false;
        }
        if (local + 30 > bytes)
            return false;
        size_t start = local + 30 + little(data + local + 26, 2) + little(data + local + 28, 2);
        if (start > bytes || size > bytes - start)
            return false;
        *out_data = data + start;
        *out_bytes = size;
        return true;
    }
    *out_why = "it has no member of the input's name";
    return false;
}

/* ---- reading ---- */

static bool has_ending(const char *path, const char *ending)
{
    size_t length = strlen(path), part = strlen(ending);
    return length >= part && strcmp(path + length - part, ending) == 0;
}

bool cli_npy_type(const char *path, wf_type_t *out_type)
{
    char head[4200];
    const char *why;
    size_t start;
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return false;
    size_t got = fread(head, 1, sizeof head, file);
    (void)fclose(file);
    return parse_npy(head, got, out_type, &start, &why);
}

static bool copy_into(const char *path, const char *data, size_t bytes, const wf_type_t *type,
                      wf_tensor_t *out_tensor, cli_error_t *error)
{
    size_t wanted = (size_t)wf_type_bytes(type);
    if (bytes != wanted) {
        return cli_error_set(error, WF_CODE_INPUT_MISMATCH, "the file must hold exactly the input's elements",
                             "%s holds %zu bytes of data, the input takes %zu", path, bytes, wanted);
    }
    wf_status_t status = wf_tensor_make(type, wf_allocator_system(), out_tensor);
    if (wf_status_code(status) != WF_CODE_OK) {
        wf_status_free(status);
        return cli_error_set(error, WF_CODE_OUT_OF_MEMORY, NULL, "out of memory reading %s", path);
    }
    memcpy(out_tensor->data, data, bytes);
    return true;
}

bool cli_read_tensor(const char *path, const char *member, const wf_type_t *type, wf_tensor_t *out_tensor,
                     cli_error_t *error)
{
    char *file = NULL;
    size_t file_bytes = 0, start = 0, bytes;
    if (!cli_read_file(path, FILE_MAX_BYTES, &file, &file_bytes, error))
        return false;
    const char *data = file, *why = NULL;
    bytes = file_bytes;
    bool ok = true, is_npz = has_ending(path, ".npz"),
         is_npy = is_npz || (bytes >= 6 && memcmp(file, NPY_MAGIC, 6) == 0);
    wf_type_t stated;
    if (is_npz && !find_member(file, file_bytes, member, &data, &bytes, &why))
        ok = false;
    if (ok && is_npy && !parse_npy(data, bytes, &stated, &start, &why))
        ok = false;
    if (!ok)
        cli_error_set(error, WF_CODE_INPUT_MISMATCH, NULL, "%s: %s", path, why);
    if (ok && is_npy && !wf_type_equal(&stated, type)) {
        char have[200], want[200];
        ok = cli_error_set(error, WF_CODE_INPUT_MISMATCH,
                           "convert the file, or build for its shape with --shape",
                           "input %s wants %s %s, %s holds %s %s", member, wf_dtype_name(type->dtype),
                           cli_shape_text(type, want, sizeof want), path, wf_dtype_name(stated.dtype),
                           cli_shape_text(&stated, have, sizeof have));
    }
    if (ok)
        ok = copy_into(path, data + start, bytes - start, type, out_tensor, error);
    free(file);
    return ok;
}

/* ---- writing ---- */

bool cli_write_tensor(const char *path, const wf_tensor_t *tensor, cli_error_t *error)
{
    char header[256 + WF_MAX_RANK * 24];
    size_t bytes = (size_t)wf_type_bytes(&tensor->type), at = 10;
    const char *descr = wf_dtype_numpy(tensor->type.dtype);
    if (descr[0] == '\0')
        return cli_write_file(path, "", 0, tensor->data, bytes, error);
    at += (size_t)snprintf(header + at, sizeof header - at,
                           "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t d = 0; d < tensor->type.rank; d++) {
        at += (size_t)snprintf(header + at, sizeof header - at, "%lld,", (long long)tensor->type.dims[d]);
    }
    at += (size_t)snprintf(header + at, sizeof header - at, "), }");
    while ((at + 1) % 64 != 0)
        header[at++] = ' ';
    header[at++] = '\n';
    memcpy(header, NPY_MAGIC "\1\0", 8);
    header[8] = (char)((at - 10) & 0xff);
    header[9] = (char)((at - 10) >> 8);
    return cli_write_file(path, header, at, tensor->data, bytes, error);
}
