/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"

extern char **environ;

#define WF_CHILD_SOCKET 3

/* Descriptors 0-3 as the header says, no others: files that the program opened without close-on-exec stay
 * ours. */
static int wf_process_files(posix_spawn_file_actions_t *files, int child_socket)
{
    int failed = posix_spawn_file_actions_adddup2(files, child_socket, WF_CHILD_SOCKET);
    failed =
        failed ? failed : posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    failed =
        failed ? failed : posix_spawn_file_actions_addopen(files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    return failed ? failed : posix_spawn_file_actions_addclosefrom_np(files, WF_CHILD_SOCKET + 1);
}

/* A process group of its own (a Ctrl-C on the terminal is for the parent) and no inherited signal settings.
 */
static int wf_process_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < WF_COUNT_OF(signals); i++) {
        sigaddset(&defaults, signals[i]);
    }
    int failed = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                          POSIX_SPAWN_SETSIGDEF);
    failed = failed ? failed : posix_spawnattr_setpgroup(attributes, 0);
    failed = failed ? failed : posix_spawnattr_setsigmask(attributes, &none);
    return failed ? failed : posix_spawnattr_setsigdefault(attributes, &defaults);
}

static int wf_process_spawn(const char *path, char *const argv[], int child_socket, pid_t *out_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&files);
    if (failed) {
        return failed;
    }
    failed = posix_spawnattr_init(&attributes);
    if (failed) {
        posix_spawn_file_actions_destroy(&files);
        return failed;
    }
    failed = wf_process_files(&files, child_socket);
    failed = failed ? failed : wf_process_attributes(&attributes);
    failed = failed ? failed : posix_spawn(out_pid, path, &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

wf_status_t wf_process_start(const char *path, char *const argv[], wf_process_t *out_process)
{
    *out_process = (wf_process_t){.pid = 0, .socket = -1};
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        return wf_status_from_errno(errno, WF_CODE_INTERNAL, "make a socket for", path);
    }
    /* The child opens 0 and 1 after it has put its socket on 3; in a parent that runs without standard
     * streams the socket may itself be one of them. */
    int child_socket = sockets[1];
    if (child_socket <= WF_CHILD_SOCKET) {
        child_socket = fcntl(sockets[1], F_DUPFD_CLOEXEC, WF_CHILD_SOCKET + 1);
        close(sockets[1]);
    }
    pid_t pid = 0;
    int failed = child_socket < 0 ? errno : wf_process_spawn(path, argv, child_socket, &pid);
    if (child_socket >= 0) {
        close(child_socket);
    }
    if (failed) {
        close(sockets[0]);
        return wf_status_from_errno(failed, WF_CODE_INTERNAL, "start", path);
    }
    *out_process = (wf_process_t){.pid = pid, .socket = sockets[0]};
    return WF_OK;
}

void wf_process_die_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* ---- Sockets ---- */

/* Waits until the socket is ready for `events`; deadline_ns 0: for ever. */
static wf_status_t wf_socket_wait(int socket, short events, uint64_t deadline_ns)
{
    for (;;) {
        int wait_ms = -1;
        if (deadline_ns != 0) {
            uint64_t now_ns = wf_clock_ns();
            uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
            wait_ms = (int)WF_MIN((left_ns + 999999) / 1000000, (uint64_t)INT32_MAX);
        }
        struct pollfd descriptor = {.fd = socket, .events = events};
        int ready = poll(&descriptor, 1, wait_ms);
        if (ready > 0) {
            return WF_OK;
        }
        if (ready == 0 && wait_ms == 0) {
            return WF_ERROR(TIME_OUT, "a process did not answer in time");
        }
        if (ready < 0 && errno != EINTR) {
            return WF_ERROR(INTERNAL, "cannot wait for a process: %s", strerrordesc_np(errno));
        }
    }
}

static uint64_t wf_socket_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? 0 : wf_clock_ns() + (uint64_t)timeout_ms * 1000000u;
}

/* True when the call should be made again after waiting. */
static bool wf_socket_again(ssize_t moved)
{
    return moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

wf_status_t wf_socket_send(int socket, const void *data, size_t bytes, int timeout_ms)
{
    uint64_t deadline_ns = wf_socket_deadline(timeout_ms);
    const char *rest = data;
    while (bytes > 0) {
        ssize_t sent = send(socket, rest, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (wf_socket_again(sent)) {
            WF_TRY(wf_socket_wait(socket, POLLOUT, deadline_ns));
            continue;
        }
        if (sent < 0) {
            return WF_ERROR(INTERNAL, "cannot send to a process: %s", strerrordesc_np(errno));
        }
        rest += sent;
        bytes -= (size_t)sent;
    }
    return WF_OK;
}

wf_status_t wf_socket_receive(int socket, void *data, size_t bytes, int timeout_ms)
{
    uint64_t deadline_ns = wf_socket_deadline(timeout_ms);
    char *rest = data;
    while (bytes > 0) {
        ssize_t got = recv(socket, rest, bytes, MSG_DONTWAIT);
        if (wf_socket_again(got)) {
            WF_TRY(wf_socket_wait(socket, POLLIN, deadline_ns));
            continue;
        }
        if (got < 0) {
            return WF_ERROR(INTERNAL, "cannot receive from a process: %s", strerrordesc_np(errno));
        }
        if (got == 0) {
            return WF_ERROR(INTERNAL, "a process closed its connection");
        }
        rest += got;
        bytes -= (size_t)got;
    }
    return WF_OK;
}

/* One byte carries the descriptor: a message of a stream socket may not be empty. */
wf_status_t wf_socket_send_fd(int socket, int fd, int timeout_ms)
{
    uint64_t deadline_ns = wf_socket_deadline(timeout_ms);
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control = {{0}};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    for (;;) {
        ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent == 1) {
            return WF_OK;
        }
        if (!wf_socket_again(sent)) {
            return WF_ERROR(INTERNAL, "cannot send a file to a process: %s", strerrordesc_np(errno));
        }
        WF_TRY(wf_socket_wait(socket, POLLOUT, deadline_ns));
    }
}

wf_status_t wf_socket_receive_fd(int socket, int *out_fd, int timeout_ms)
{
    *out_fd = -1;
    uint64_t deadline_ns = wf_socket_deadline(timeout_ms);
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control = {{0}};
    char byte;
    for (;;) {
        struct iovec part = {&byte, 1};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (wf_socket_again(got)) {
            WF_TRY(wf_socket_wait(socket, POLLIN, deadline_ns));
            continue;
        }
        const struct cmsghdr *header = got == 1 ? CMSG_FIRSTHDR(&message) : NULL;
        if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
            header->cmsg_len != CMSG_LEN(sizeof(int))) {
            return WF_ERROR(INTERNAL, "a process sent no file where one was expected");
        }
        memcpy(out_fd, CMSG_DATA(header), sizeof *out_fd);
        return WF_OK;
    }
}

/* ---- End of a process ---- */

bool wf_process_ended(wf_process_t *process, int *out_how)
{
    *out_how = 0;
    if (process->pid == 0) {
        return true;
    }
    siginfo_t info = {0};
    /* WNOWAIT leaves the process unreaped, so that its number and its group cannot become somebody else's
     * before wf_process_kill. */
    if (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        return errno == ECHILD;
    }
    if (info.si_pid == 0) {
        return false;
    }
    int core = info.si_code == CLD_DUMPED ? 0x80 : 0;
    *out_how = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status | core;
    return true;
}

void wf_process_kill(wf_process_t *process)
{
    if (process->pid > 0) {
        kill((pid_t)-process->pid, SIGKILL);
        kill((pid_t)process->pid, SIGKILL);
        while (waitpid((pid_t)process->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (process->socket >= 0) {
        close(process->socket);
    }
    *process = (wf_process_t){.pid = 0, .socket = -1};
}
