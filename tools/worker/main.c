/* SPDX-License-Identifier: Apache-2.0 */
/* wayfinder-worker: measures tactics and engines for a tuner, which starts it and talks over descriptor 3.
 *
 * It is a program of its own so that a tactic that crashes, hangs or eats memory takes this process with it
 * and nothing else. It goes when the tuner goes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.h"
#include "tune/worker_serve.h"
#include "wayfinder/version.h"

#define SOCKET 3

/* When memory runs out it is this process that the system should end. */
static void volunteer_for_oom(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t written = write(fd, "1000", 4);
    (void)written;
    (void)close(fd);
}

static bool has_tuner(void)
{
    int type;
    socklen_t bytes = sizeof type;
    return getsockopt(SOCKET, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM;
}

int main(void)
{
    if (!has_tuner()) {
        (void)fprintf(stderr,
                      "wayfinder-worker " WF_VERSION_TEXT ": started by 'wayfinder tune', not by hand\n");
        return 2;
    }
    wf_process_die_with_parent();
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* a tactic that crashes is no reason for a file */
    volunteer_for_oom();
    wf_status_t status = wf_worker_serve(SOCKET, wf_allocator_system());
    if (status == WF_OK)
        return 0;
    (void)fprintf(stderr, "wayfinder-worker: %s\n", wf_status_message(status));
    wf_status_free(status);
    return 1;
}
