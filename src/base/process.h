/* SPDX-License-Identifier: Apache-2.0 */
/* Subprocess: posix_spawn (never fork: libgomp does not survive it) with a socket pair as the child's
 * descriptor 3. */
#ifndef WF_BASE_PROCESS_H
#define WF_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

typedef struct wf_process {
    int64_t pid; /* 0: none */
    int socket;  /* our end, SOCK_STREAM, close-on-exec; -1: none */
} wf_process_t;

/* Starts `path` with argv (NULL-terminated, argv[0] included) in its own process group; standard input and
 * output are /dev/null, standard error is ours, descriptor 3 is the other end of `socket`. The child must ask
 * for PDEATHSIG itself (wf_process_die_with_parent) and leave when descriptor 3 ends. FILE_MISSING when there
 * is no such program. */
wf_status_t wf_process_start(const char *path, char *const argv[], wf_process_t *out_process) WF_MUST_USE;
/* In the child: SIGKILL when the parent thread's process dies. */
void wf_process_die_with_parent(void);
/* Sends and receives exactly `bytes`; TIME_OUT after timeout_ms (-1: none), INTERNAL when the other end is
 * gone. */
wf_status_t wf_socket_send(int socket, const void *data, size_t bytes, int timeout_ms) WF_MUST_USE;
wf_status_t wf_socket_receive(int socket, void *data, size_t bytes, int timeout_ms) WF_MUST_USE;
/* Sends an open file (a memfd) with the next byte of the stream; `fd` stays ours. Receives one: *out_fd is
 * the caller's to close, -1 on failure. Errors as above; INTERNAL when the next byte comes without a file. */
wf_status_t wf_socket_send_fd(int socket, int fd, int timeout_ms) WF_MUST_USE;
wf_status_t wf_socket_receive_fd(int socket, int *out_fd, int timeout_ms) WF_MUST_USE;
/* True when the process has ended; *out_how gets its wait status. Does not block. */
bool wf_process_ended(wf_process_t *process, int *out_how);
/* SIGKILL to the whole group, waits, closes. Idempotent. */
void wf_process_kill(wf_process_t *process);

#endif
